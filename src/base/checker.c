/* SPDX-License-Identifier: BSD-3-Clause
 *
 * checker.c - AddressSanitizer by its interface, which the program has if it is built with it; and
 * memcheck by client requests, a few instructions that do nothing elsewhere.
 */
#include "base/checker.h"

#if defined(FUR_VALGRIND)
#include <valgrind/memcheck.h>
#else
#define RUNNING_ON_VALGRIND 0
#endif

/* NOLINTBEGIN: the names are not ours */
extern void __asan_poison_memory_region(const volatile void *at, size_t bytes)
        __attribute__((weak));
extern void __asan_unpoison_memory_region(const volatile void *at, size_t bytes)
        __attribute__((weak));
extern void *__asan_region_is_poisoned(void *at, size_t bytes) __attribute__((weak));
extern void __asan_report_load_n(void *at, long bytes) __attribute__((weak));
extern void __asan_report_store_n(void *at, long bytes) __attribute__((weak));
/* NOLINTEND */

static bool has_asan(void)
{
	return __asan_poison_memory_region && __asan_unpoison_memory_region &&
	       __asan_region_is_poisoned && __asan_report_load_n && __asan_report_store_n;
}

bool checker_runs(void)
{
	return has_asan() || RUNNING_ON_VALGRIND;
}

void checker_hide(const void *at, size_t bytes)
{
	if (has_asan())
		__asan_poison_memory_region(at, bytes);
#if defined(FUR_VALGRIND)
	VALGRIND_MAKE_MEM_NOACCESS(at, bytes);
#endif
}

void checker_show(const void *at, size_t bytes)
{
	if (has_asan())
		__asan_unpoison_memory_region(at, bytes);
#if defined(FUR_VALGRIND)
	VALGRIND_MAKE_MEM_DEFINED(at, bytes);
#endif
}

bool checker_hidden(const void *at, size_t bytes)
{
	if (has_asan())
		return __asan_region_is_poisoned((void *)(uintptr_t)at, bytes) != NULL;
#if defined(FUR_VALGRIND)
	enum { HIDDEN = 3, PART = 64 };
	uint8_t bits[PART];
	for (size_t k = 0; k < bytes; k += PART)
		if (VALGRIND_GET_VBITS((const char *)at + k, bits,
		            bytes - k < PART ? bytes - k : PART) == HIDDEN)
			return true;
#endif
	return false;
}

void checker_report(const void *at, size_t bytes, bool store)
{
	if (has_asan())
		(store ? __asan_report_store_n : __asan_report_load_n)(
		        (void *)(uintptr_t)at, (long)bytes);
#if defined(FUR_VALGRIND)
	(void)VALGRIND_CHECK_MEM_IS_ADDRESSABLE(at, bytes);
#endif
}

void checker_quiet(void)
{
#if defined(FUR_VALGRIND)
	VALGRIND_DISABLE_ERROR_REPORTING;
#endif
}

void checker_loud(void)
{
#if defined(FUR_VALGRIND)
	VALGRIND_ENABLE_ERROR_REPORTING;
#endif
}

#if defined(CHECKER_INSTRUMENTED)
__attribute__((no_sanitize_address, noinline)) uint64_t checker_load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}
#endif
