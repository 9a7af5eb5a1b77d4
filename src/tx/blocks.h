/* SPDX-License-Identifier: BSD-3-Clause
 *
 * blocks.h - blocks that an update allocates and frees, for memory checkers (base/checker.h).
 *
 *   INV-MC1  A block is hidden while the update that frees it becomes visible, before another
 *            update can allocate it: by then no reader can see it.  A software body with an older
 *            snapshot may.  So a body that finds a hidden word first compares what it has loaded,
 *            and only if nothing has changed, the access is reported.  Memory that is in no block
 *            is hidden from the open on.
 *   INV-MC2  A block that is in use is shown.  fur_alloc() shows it for the body; the update that
 *            allocates it shows it again while it becomes visible, because another one may have
 *            allocated and freed it since.  An update that fails, or is defeated, hides nothing:
 *            the block may be another update's by then.
 *
 * Only for heaps without hardware transactions, which would have to hide blocks inside one.
 */
#ifndef FUR_BLOCKS_H
#define FUR_BLOCKS_H

#include "tx/tx.h"

/* The open update has allocated the block; has freed it.  The first `keep` bytes of a free block
 * are the allocator's, and are never hidden.  Call them if TX_CHECKED is set in `extras`. */
void blocks_taken(struct fur_update *tx, void *block, uint64_t bytes);
void blocks_freed(struct fur_update *tx, void *block, uint64_t bytes, uint64_t keep);

/* The update becomes visible: show its blocks, before its stores reach the heap; then hide those
 * that it has freed, to which it may have stored before. */
void blocks_show(struct fur_thread *t);
void blocks_hide(struct fur_thread *t);

/* Are some of the bytes hidden?  Shows a block of the update's own that another one has hidden
 * (INV-MC2). */
FUR_MUST_USE bool blocks_are_hidden(struct fur_update *tx, const void *at, uint64_t bytes);

#endif /* FUR_BLOCKS_H */
