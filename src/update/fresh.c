/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fresh.c - large blocks that an update allocates, and writes to without logging (fresh.h).
 */
#include "update/fresh.h"
#include "durability/nondurable.h"
#include "durability/ship.h"
#include "stm/images.h"
#include "update/update.h"

#include <string.h>

enum {
	/* A block larger than this part of the log is worth running a concurrent body again,
	 * serially, and worth waiting for a replay: logged, it would soon need one for room. */
	LARGE_PART = 8,
	COPY_BYTES = 4096
};

/* ------------------------------------------------------------- a new block */

/* INV-FM2.  Are all updates replayed that have given back runs of chunks?  If not, replay until
 * they are, if that is wanted.  *tail: the tail is there at least (INV-FM5).
 * Errors: FUR_EBUSY: they are not; those of ship_patience() and durability_replay(). */
static int settle_given(struct fur_thread *t, bool replay, uint64_t *tail)
{
	struct durability *d = t->durability;
	struct arch_backoff backoff = {0};
	struct ship_patience patience = {0};
	const uint64_t given = durability_runs_freed_upto(d, &t->window.commit);
	*tail = given ? given : ring_tail(d);
	while (given && !ring_replayed(d, given - 1)) {
		int error = replay ? ship_replay(d, &backoff, &patience) : FUR_EBUSY;
		if (error)
			return error;
	}
	return 0;
}

/* INV-FM1: a sweep before the first store.  A body that may still see the chunks in use then
 * compares what it has loaded before it uses what it loads there: it finds that they were given
 * back.  Later bodies cannot see them in use. */
static void sweep_for(struct fur_update *tx)
{
	if (tx->mode == TX_IN_PLACE) /* no body is active, or it sweeps */
		return;
	sweep_begin(tx->thread->engine);
	sweep_end(tx->thread->engine);
}

void fresh_note(struct fur_update *tx, void *block, uint64_t bytes)
{
	struct fur_thread *t = tx->thread;
	struct fresh_blocks *f = &t->fresh;
	struct durability *d = t->durability;
	const bool large = bytes > d->super->log_bytes / LARGE_PART;
	if (tx->mode == TX_HARDWARE || tx->log->frees_a_run || d->super->version < 2 || tx->error)
		return;
	if (tx->mode == TX_CONCURRENT) {
		if (!large)
			return;
		t->software.defeats = SOFTWARE_TRIES;
		body_defeat_and_jump(t); /* does not return */
	}
	if (!(tx->flags & TX_FRESH))
		f->n = 0;
	if (f->n == FRESH_BLOCKS)
		return;
	uint64_t tail;
	int error = settle_given(t, large, &tail);
	if (error && large)
		tx_fail(tx, error);
	if (error)
		return;
	while (!redo_append_range(
	        tx->log, d, (uint64_t)((uint8_t *)block - tx->base), media_range_word(bytes, tail)))
		if (!store_make_room(tx))
			return;
	if (f->n == 0)
		sweep_for(tx);
	f->blocks[f->n++] = (struct fresh_block){.from = block,
	        .end = (uint8_t *)block + bytes,
	        .low = (uint8_t *)block + bytes,
	        .high = block};
	tx->flags |= TX_FRESH;
}

/* ------------------------------------------------------------------ stores */

static struct fresh_block *find_fresh(struct fresh_blocks *f, const uint8_t *at)
{
	for (uint32_t k = 0; k < f->n; k++)
		if (at >= f->blocks[k].from && at < f->blocks[k].end)
			return &f->blocks[k];
	return NULL;
}

bool fresh_reach(struct fur_update *tx, const void *to, uint64_t *bytes)
{
	struct fresh_blocks *f = &tx->thread->fresh;
	const uint8_t *at = to;
	const struct fresh_block *b = find_fresh(f, at);
	if (b) {
		if (*bytes > (uint64_t)(b->end - at))
			*bytes = (uint64_t)(b->end - at);
		return true;
	}
	for (uint32_t k = 0; k < f->n; k++)
		if (f->blocks[k].from > at && *bytes > (uint64_t)(f->blocks[k].from - at))
			*bytes = (uint64_t)(f->blocks[k].from - at);
	return false;
}

void fresh_store(struct fur_update *tx, void *to, const void *from, uint64_t bytes)
{
	struct fur_thread *t = tx->thread;
	uint8_t *at = to;
	struct fresh_block *b = find_fresh(&t->fresh, at);
	FUR_ASSERT(b && at + bytes <= b->end);
	/* INV-SN1: a snapshot may see the chunks as they were in use. */
	if (images_wanted(t->engine))
		images_save(t, at, bytes);
	redo_store_words(tx_writable(tx, at), from, bytes);
	b->low = at < b->low ? at : b->low;
	b->high = at + bytes > b->high ? at + bytes : b->high;
}

/* ------------------------------------------------------------------ commit */

void fresh_persist(struct fur_update *tx)
{
	struct fur_thread *t = tx->thread;
	struct durability *d = t->durability;
	struct fresh_blocks *f = &t->fresh;
	f->pages = 0;
	for (uint32_t k = 0; k < f->n; k++) {
		const struct fresh_block *b = &f->blocks[k];
		for (uint8_t *at = b->low; at < b->high; at += COPY_BYTES, f->pages++) {
			uint64_t rest = (uint64_t)(b->high - at),
			         bytes = rest < COPY_BYTES ? rest : COPY_BYTES;
			uint8_t *image = d->image + (at - tx->base);
			memcpy(image, at, bytes);
			pm_flush(&d->pm, image, bytes);
		}
	}
	/* INV-FM3.  This drain puts the blocks before the marker, whose write-back begins later.
	 * Without it a failure could keep the marker and lose the blocks (plant:
	 * fresh-not-drained). */
	int error = pm_drain(&d->pm);
	if (error) {
		durability_fail(d, error);
		tx_fail(tx, error);
	}
}
