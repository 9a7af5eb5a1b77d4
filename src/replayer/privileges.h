/* SPDX-License-Identifier: BSD-3-Clause
 *
 * privileges.h - fur-replayer works with the rights of the heap's owner: a crafted heap, or a
 * process that changes it meanwhile, gets no others from it.
 */
#ifndef FUR_PRIVILEGES_H
#define FUR_PRIVILEGES_H

#include <fur.h>

/* privileges_become_owner - if this process is root's and the file at `path` is another user's,
 * become that user for good.  To be called before the file is opened: where the path leads
 * elsewhere by then, only what that user may open is opened.  Errors: FUR_ESYS. */
FUR_MUST_USE int privileges_become_owner(const char *path);

#endif /* FUR_PRIVILEGES_H */
