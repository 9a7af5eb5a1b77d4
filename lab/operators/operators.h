/* SPDX-License-Identifier: BSD-3-Clause
 *
 * operators.h - the operators of fur-operators --operators (fur_operator.h): load them, and
 * call them with copies of records.
 *
 *   INV-OP4  An operator's code comes from a regular file that belongs to the process's own user
 *            or to root, and that only its owner may write: the file that was looked at, not its
 *            name.  Libraries that the file needs are the dynamic loader's choice.
 *   INV-OP5  An operator gets a copy of a record between two pages without access, and no memory
 *            of the heap.  If it crashes, or changes what lies next to the copy, its bulk update
 *            ends with an error, and the process goes on.
 */
#ifndef FUR_OPERATORS_H
#define FUR_OPERATORS_H

#include "errand.h"

#include <signal.h>

struct operators;

/* Load the files.  Call it with the rights that the operators are to have.
 * Errors: FUR_ENOENT, FUR_EINVAL, FUR_ENOMEM, FUR_ESYS. */
FUR_MUST_USE int operators_load(const char *const *files, size_t n, struct operators **operators);
void operators_unload(struct operators *operators);

/* For operate.calls. */
struct errand_serve_calls operators_calls(struct operators *operators);

/* Let the calling thread receive the signals of a crash, on a stack of its own.  It calls operators
 * from now on.  Errors: FUR_ESYS. */
FUR_MUST_USE int operators_on_this_thread(struct operators *operators);

/* For the handler of SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGTRAP: if the signal comes from an
 * operator that this thread has called, end the call, and do not return. */
void operators_crashed(int signal, const siginfo_t *info, const void *context);

#endif /* FUR_OPERATORS_H */
