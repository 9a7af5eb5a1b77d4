/* SPDX-License-Identifier: BSD-3-Clause
 *
 * backup.h - copy a heap to a new file while it is in use.
 *
 * The copy is a closed heap: its log is empty, and its heap is the image of the original with
 * everything below some durTS replayed.  The image is copied in pieces.  Meanwhile replays go on,
 * and each also writes its entries to the copy before it gives back the room of their records.
 *
 *   INV-B1  When the last piece is copied, the copy's heap equals the image.  A piece is copied
 *           while no thread replays.  An entry that is replayed later goes to both.
 *   INV-B2  The copy contains every update that was durable when the backup began: the last replay
 *           goes beyond all of them.
 *   INV-B3  The copy has its name only when it is complete and durable.
 */
#ifndef FUR_BACKUP_H
#define FUR_BACKUP_H

#include "file/heap_file.h"
#include "replay/replay.h"

/* backup_heap - copy the heap of `d`, whose file is `from`, to the new file `path`.  `d` belongs to
 * the process that works on the heap, or works beside it (d->replays_for_worker); a heap that no
 * process has open must be closed.  Holds the right to replay throughout.
 * Durable: the copy and its name, before return.
 * Errors: FUR_EEXIST, FUR_ENOSPC, FUR_ENOMEM, FUR_ESYS, FUR_EBUSY (a replayer does not yield the
 *         right; beside: the working process ends meanwhile); those of replay_live().  There is no
 *         copy then. */
FUR_MUST_USE int backup_heap(struct durability *d, const struct heap_file *from, const char *path);

/* backup_for_standby - the same, and the copy is a standby from the moment it has its name.  *page
 * is the ship page of the original, read before the call, with the copy's node.  Of a primary it
 * gets the tail that the copy has at its end as its durTS.  A copy of a standby has its position in
 * its header.
 *
 *   INV-SH85  A copy for a standby has every update below page->durts, and every update of the
 *             frames before the position.  The log has all of these: a replay takes nothing else
 *             (INV-SH1).
 * Errors:   as backup_heap(); FUR_EVERSION. */
struct media_ship;
FUR_MUST_USE int backup_for_standby(struct durability *d, const struct heap_file *from,
        const char *path, struct media_ship *page);

/* backup_together - copy several heaps that this process has open.  When all but the last updates
 * are in the copies, it calls shut(arg), and open(arg) when they are: in between no update over
 * several of the heaps may be in flight.  So each is in the copies of all of them, or of none.
 * Durable:  all copies and their names, before return.
 * Errors:   as backup_heap(), for the copy that the message names. */
struct backup_set {
	const struct backup_member {
		struct durability *d;
		const struct heap_file *from;
		const char *path;
	} * members;
	unsigned n;
	void (*shut)(void *arg);
	void (*open)(void *arg);
	void *arg;
};
FUR_MUST_USE int backup_together(const struct backup_set *set);

/* backup_copy - the same into `to`, a file for a copy, which may have no name (api/read_only.c).
 * It makes nothing durable.  Sets to->geometry. */
FUR_MUST_USE int backup_copy(
        struct durability *d, const struct heap_file *from, struct heap_file *to);

/* backup_at_rest - copy the whole file as it is, with its log.  No process works on the heap, and
 * the caller has the right to replay: so no process begins to, and none recovers the heap.
 * Errors: FUR_ENOSPC, FUR_ESYS. */
FUR_MUST_USE int backup_at_rest(const struct heap_file *from, const struct heap_file *to);

#endif /* FUR_BACKUP_H */
