/* SPDX-License-Identifier: BSD-3-Clause
 *
 * xxhash.h - xxHash's header, for code that runs on the machine.  Which lines a run touches first
 * decides where in the caches each lies.  So the constants that a program reads begin a line, of
 * whatever size: else the meaning of a seed would change with all that the linker puts before them.
 */
#pragma GCC system_header
#include_next <xxhash.h>

#ifdef XXH_INLINE_ALL
extern const unsigned char XXH3_kSecret[XXH_SECRET_DEFAULT_SIZE] __attribute__((aligned(256)));
#endif
