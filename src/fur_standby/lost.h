/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lost.h - print the updates that a rejoin has dropped and kept aside (ship/rejoin.h).
 */
#ifndef FUR_STANDBY_LOST_H
#define FUR_STANDBY_LOST_H

#include <fur.h>

/* lost_show - print each update in the file at `lost` to standard output: its term and durTS, and
 * where in memory it stored which bytes.  `path` is the heap that had dropped them, which may be in
 * use.
 * Errors: FUR_ENOENT: there is no such file; FUR_ENOTHEAP: it is something else; FUR_EINVAL: it has
 *         no update of this heap; FUR_ECORRUPT: it is damaged; FUR_ENOMEM; FUR_ESYS, also for
 *         standard output; as fur_open(). */
FUR_MUST_USE int lost_show(const char *path, const char *lost);

#endif /* FUR_STANDBY_LOST_H */
