/* SPDX-License-Identifier: BSD-3-Clause
 *
 * privileges.h - fur-replayer works with the rights of the heap's owner, so that a crafted heap, or
 * a process that changes the heap meanwhile, cannot use any other rights.
 *
 *   INV-OW1  The path leads to the heap's file once.  All that follows, above all the look at the
 *            owner, is done to the file that was found.  So a user who may change names in the
 *            path's directories cannot have another file opened with the rights that suit the
 *            first one.
 */
#ifndef FUR_PRIVILEGES_H
#define FUR_PRIVILEGES_H

#include <fur.h>

/* privileges_open_as_owner - open the heap's file for reading and writing.  If this process runs as
 * root and the file is another user's, become that user permanently before, and open the file only
 * if the user may.  Returns a descriptor, or an error, which is negative.
 * Errors: FUR_ENOENT, FUR_ENOTHEAP, FUR_ESYS. */
FUR_MUST_USE int privileges_open_as_owner(const char *path);

#endif /* FUR_PRIVILEGES_H */
