/* SPDX-License-Identifier: BSD-3-Clause
 *
 * role.h - a closed heap becomes a primary, or a heap without a role.
 */
#ifndef FUR_SHIP_ROLE_H
#define FUR_SHIP_ROLE_H

#include "media/ship_page.h"
#include <fur.h>

/* role_init - make the heap that is open as `fd`, which belongs to this call, a primary with the
 * log `log` (engine_open()), which is made if it is not there.  *page is its ship page then.
 * Durable: before return.
 * Errors: FUR_EBUSY: a program has it open, a replayer or fur-ship serves it, or it was not closed;
 *         FUR_EVERSION: it is of version 1; FUR_EEXIST: it has a role, or the log has a stream of
 *         this heap; FUR_EINVAL: its ring is too short for its threads, or the name is too long;
 *         engine_open()'s.  The heap is as it was. */
FUR_MUST_USE int role_init(int fd, const char *path, const char *log, const char *const *settings,
        struct media_ship *page);

/* role_detach - take the heap's role away; *page is what it was.
 * Durable: before return.
 * Errors: FUR_EBUSY, as role_init(); FUR_EINVAL: it has none.  The heap is as it was. */
FUR_MUST_USE int role_detach(int fd, const char *path, struct media_ship *page);

const char *role_name(uint32_t role);

#endif /* FUR_SHIP_ROLE_H */
