/* SPDX-License-Identifier: BSD-3-Clause
 *
 * error.h - the calling thread's last failure, in words; checks and assertions.
 */
#ifndef FUR_ERROR_H
#define FUR_ERROR_H

#include <fur.h>

/* Keep the message for fur_errormsg(), and return `error`. */
__attribute__((format(printf, 2, 3))) int fur_fail(int error, const char *format, ...);

/* Put "<path>: " before the thread's last message, or as much of the path's end as fits, and return
 * `error`.  For callers that know the file's name. */
int fur_fail_at(int error, const char *path);

/* FUR_CHECK(condition, misuse) - stop a program that misuses libfur, where libfur cannot return an
 * error, or where the check would cost time on a hot path.  Active only in builds configured with
 * -Dchecks=true; elsewhere it does nothing. */
#if defined(FUR_CHECKS)
void fur_misused(const char *function, const char *misuse) __attribute__((noreturn));
#define FUR_CHECK(condition, misuse) ((condition) ? (void)0 : fur_misused(__func__, misuse))
#else
#define FUR_CHECK(condition, misuse) ((void)0)
#endif

/* FUR_ASSERT(condition) - a precondition or state that libfur's own code guarantees: a failure is a
 * bug of libfur.  Active only in debug builds and in builds with -Dchecks=true, which ./check
 * tests; elsewhere `condition` is not evaluated.  `condition` must not load shared words that the
 * code does not load anyway: in a hardware transaction such a load would add a conflict. */
#if defined(FUR_ASSERTS)
void fur_assert_failed(const char *file, int line, const char *function, const char *condition)
        __attribute__((noreturn, cold));
#define FUR_ASSERT(condition)                                                                      \
	((condition) ? (void)0 : fur_assert_failed(__FILE__, __LINE__, __func__, #condition))
#else
#define FUR_ASSERT(condition) ((void)sizeof(!(condition)))
#endif

#endif /* FUR_ERROR_H */
