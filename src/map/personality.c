/* SPDX-License-Identifier: BSD-3-Clause
 *
 * personality.c - for clang, which names C++'s personality routine in functions of map.cpp whose
 * landing pads it has all removed.  The routine is in the library of C++, which a program in C need
 * not have; and an exception that passes through has nothing to do there.  In the shared library
 * only: in a static one this would take the place of a C++ program's own routine.
 */
#include <unwind.h>

/* NOLINTBEGIN(bugprone-reserved-identifier): the name is the compiler's. */
_Unwind_Reason_Code __gxx_personality_v0(void);

_Unwind_Reason_Code __gxx_personality_v0(void)
{
	return _URC_CONTINUE_UNWIND;
}
/* NOLINTEND(bugprone-reserved-identifier) */
