/* SPDX-License-Identifier: BSD-3-Clause
 *
 * privileges.h - fur-replayer works with the rights of the heap's owner, so that a crafted heap, or
 * a process that changes the heap meanwhile, cannot use any other rights.
 */
#ifndef FUR_PRIVILEGES_H
#define FUR_PRIVILEGES_H

#include <fur.h>

/* privileges_become_owner - if this process runs as root and the file at `path` is another user's,
 * become that user permanently.  Call it before opening the file: if the path leads to another file
 * by then, that file opens only if the user may open it.  Errors: FUR_ESYS. */
FUR_MUST_USE int privileges_become_owner(const char *path);

#endif /* FUR_PRIVILEGES_H */
