/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fur_error.h - the calling thread's last failure, in words.
 */
#ifndef FUR_ERROR_H
#define FUR_ERROR_H

#include <fur.h>

/* Keep the message, return the code. */
__attribute__((format(printf, 2, 3))) int fur_fail(int error, const char *format, ...);

/* Put "<prefix>: " before the message kept last; returns `error`.  For callers that know the file's name. */
int fur_fail_at(int error, const char *prefix);

#endif /* FUR_ERROR_H */
