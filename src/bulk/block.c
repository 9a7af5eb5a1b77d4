/* SPDX-License-Identifier: BSD-3-Clause
 *
 * block.c - the block of the heap that has a bulk update's results until they are replayed.
 *
 * It is an ordinary block of the allocator, and the heap's header names it while the update runs.
 * So a failure leaks nothing: bulk_clean() frees it.
 */
#include "alloc/alloc.h"
#include "base/error.h"
#include "bulk/job.h"
#include "durability/ship.h"
#include "media/heap_layout.h"
#include "stm/images.h"

#include <string.h>

uint64_t bulk_write_row(const struct fur_thread *t, const struct bulk_job *job,
        struct media_bulk_row *row, uint64_t extent, uint64_t k, uint64_t count, uint64_t at)
{
	const struct bulk_extent *e = &job->extents[extent];
	uint8_t *image = t->durability->image;
	struct media_bulk_row r = {.to = e->to + k * e->stride,
	        .stride = e->stride,
	        .count = count,
	        .bytes = job->what->bytes,
	        .changed = at};
	r.from = at + media_bulk_changed_bytes(count);
	*row = r;
	arch_store((uint64_t *)(void *)(image + r.from), e->number + k);
	memset(image + r.changed, 0, media_bulk_changed_bytes(count));
	return r.from + count * media_bulk_step(r.bytes);
}

int bulk_replay_own(struct fur_thread *t)
{
	struct durability *d = t->durability;
	const uint64_t durts = t->update.log->durts;
	struct arch_backoff backoff = {0};
	struct ship_patience patience = {0};
	int error = 0;
	while (durts && !ring_replayed(d, durts) && !error)
		error = ship_replay(d, &backoff, &patience);
	return error;
}

void bulk_block_prepare(struct fur_update *tx, void *block, uint64_t bytes)
{
	struct fur_thread *t = tx->thread;
	/* INV-SN1.  Later snapshots see a block that is the bulk update's. */
	if (images_wanted(t->engine))
		images_save(t, block, bytes);
	/* INV-BU7.  A body that may still see the block in use then compares what it has loaded
	 * before it uses what it loads there: it finds that the block was freed. */
	sweep_begin(t->engine);
	sweep_end(t->engine);
}

int bulk_block_take(struct fur_thread *t, uint64_t bytes, struct bulk_block *block)
{
	fur_update *tx;
	*block = (struct bulk_block){0};
	int error = update_begin_serial(t, &tx);
	if (error)
		return error;
	uint8_t *at = alloc_block(tx, tx->base, t->index, bytes);
	const uint64_t offset = at ? (uint64_t)(at - tx->base) : 0;
	if (at) {
		fur_store_bits(tx, &header(tx->base)->bulk, offset, 8);
		bulk_block_prepare(tx, at, bytes);
	} else {
		tx_fail(tx, FUR_ENOSPC);
	}
	if ((error = update_commit(tx)))
		return error;
	*block = (struct bulk_block){offset, bytes, t->durability->image + offset};
	/* INV-BU4.  The log may have entries for the block's earlier owners, and the results go to
	 * the file past the log: a replay of those entries would destroy them (plant:
	 * bulk-before-replay).  All of them have lower durTSs than the update above (INV-D4). */
	error = bulk_replay_own(t);
	if (error)
		(void)bulk_block_give(t, block);
	return error;
}

int bulk_block_give(struct fur_thread *t, const struct bulk_block *block)
{
	fur_update *tx;
	/* INV-BU4.  The next owner's stores reach the file when they are replayed.  If a failure
	 * then interrupted that replay, recovery would replay the bulk update once more, from what
	 * the next owner has stored (plant: bulk-frees-early). */
	int error = bulk_replay_own(t);
	if (!error)
		error = update_begin_serial(t, &tx);
	if (error)
		return error;
	/* If the header names no block, it is damaged, and there is nothing to free. */
	const bool freed = alloc_free(tx, tx->base, t->index, tx->base + block->offset);
	(void)freed;
	fur_store_bits(tx, &header(tx->base)->bulk, 0, 8);
	return update_commit(tx);
}

void bulk_clean(struct fur_thread *t)
{
	struct engine *engine = t->engine;
	const uint64_t offset = arch_load(&header(t->update.base)->bulk);
	/* In a standby the block is the primary's, which frees it. */
	if (!offset || engine->read_only || t->durability->ship.follows ||
	        !arch_cas(&engine->bulk.running, BULK_NONE, BULK_CLEANS))
		return;
	/* Recovery has replayed the update, if there was one.  On an error the block stays, and the
	 * next thread tries again. */
	if (arch_load(&header(t->update.base)->bulk) == offset)
		(void)bulk_block_give(t, &(struct bulk_block){.offset = offset});
	bulk_leave(t);
}
