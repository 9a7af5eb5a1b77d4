/* SPDX-License-Identifier: BSD-3-Clause
 *
 * checker.h - tell a memory checker which bytes of a heap no code may touch: AddressSanitizer, if
 * the program or libfur is built with it, and valgrind's memcheck, if the program runs under it and
 * libfur was built where its header is.
 */
#ifndef FUR_CHECKER_H
#define FUR_CHECKER_H

#include "base/arch.h"

#include <string.h>

/* Does a checker watch this process?  All other functions do nothing where none does. */
bool checker_runs(void);

/* From now on no code may touch the bytes; any code may. */
void checker_hide(const void *at, size_t bytes);
void checker_show(const void *at, size_t bytes);

/* Is one of the bytes hidden? */
bool checker_hidden(const void *at, size_t bytes);

/* Let the checker report an access to hidden bytes.  AddressSanitizer then ends the process, unless
 * it was told to go on. */
void checker_report(const void *at, size_t bytes, bool store);

/* Between the two, accesses of this thread to hidden bytes are not reported.  They do not nest. */
void checker_quiet(void);
void checker_loud(void);

/* arch_load() of a word that may be hidden.  An instrumented build of libfur reports arch_load(),
 * whatever checker_quiet() says. */
#if defined(__SANITIZE_ADDRESS__)
#define CHECKER_INSTRUMENTED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CHECKER_INSTRUMENTED 1
#endif
#endif
#if defined(CHECKER_INSTRUMENTED)
uint64_t checker_load(const uint64_t *word);
#else
static inline uint64_t checker_load(const uint64_t *word)
{
	return arch_load(word);
}
#endif

/* Copy bytes to which another thread may be storing, or that may be hidden: loads the words in
 * which they lie.  The caller looks afterwards whether what it has got is good. */
static inline void checker_copy(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
	for (uint64_t part; bytes; bytes -= part, to += part, from += part) {
		const uint64_t skip = (uintptr_t)from & 7;
		part = 8 - skip < bytes ? 8 - skip : bytes;
		const uint64_t word = checker_load((const uint64_t *)(const void *)(from - skip));
		memcpy(to, (const uint8_t *)&word + skip, part);
	}
}

#endif /* FUR_CHECKER_H */
