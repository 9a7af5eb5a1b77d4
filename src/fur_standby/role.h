/* SPDX-License-Identifier: BSD-3-Clause
 *
 * role.h - what a heap is before fur-standby opens it, and how fur-standby --promote reaches the
 * one that has it open.
 *
 * It is the contract of src/fur_standby: the program fur-standby, which keeps a standby, and lets
 * it take over.
 */
#ifndef FUR_STANDBY_ROLE_H
#define FUR_STANDBY_ROLE_H

#include "media/ship_page.h"
#include "ship/rejoin.h"

/* role_prepare - let the heap be a standby, if another node has replaced it (ship_rejoin()); what
 * it had that the log lacks goes to the file `lost`.  *rejoined tells.
 * *page is its ship page then: still of a primary, if none has replaced it.
 * Errors: FUR_EINVAL: it has no role; as fur_open(), and those of ship_rejoin(). */
FUR_MUST_USE int role_prepare(const char *path, const char *const *settings, const char *lost,
        struct media_ship *page, bool *rejoined, struct rejoin_result *result);

/* role_promote - ask the fur-standby that has the heap open to let it take over, and wait for that,
 * `patience_ms` at most.
 * Errors: FUR_EINVAL: the heap is no standby; FUR_EBUSY: no fur-standby has it open; FUR_EBEHIND:
 *         it has not taken over: it says why; as fur_open(). */
FUR_MUST_USE int role_promote(const char *path, unsigned patience_ms);

#endif /* FUR_STANDBY_ROLE_H */
