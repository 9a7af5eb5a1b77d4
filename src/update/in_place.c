/* SPDX-License-Identifier: BSD-3-Clause
 *
 * in_place.c - updates in place (in_place.h).
 *
 * Way 6, an update becomes visible in place:
 *
 *     in_place_commit()               has the turn, and has shut readers out
 *       nondurable_collect_settled()  collects D
 *       nondurable_announce()         announces the update
 *       dset_draw()             draws the durTS after those of D
 *       in_place_leave()              gives back what the update has taken
 *         readers_let_in()            makes the update visible
 *         turn_give()                 gives the turn
 */
#include "update/in_place.h"
#include "base/probe.h"
#include "durability/dset.h"
#include "htm/htm.h"
#include "stm/images.h"
#include "tx/marks.h"

#include <string.h>

/* ------------------------------------------------------------------- begin */

enum {
	/* A thread runs its updates in place after this many in a row that met no other: in place
	 * is cheaper by the write set and the log of loads, but it shuts readers out. */
	ALONE_UPDATES = 256,
	/* A long update undoes this many short ones: one is long now and then, because it had to
	 * make room in its log. */
	LONG_COSTS = 16
};

bool in_place_pays(struct fur_thread *t)
{
	uint64_t meetings = arch_load(&t->engine->meetings);
	if (meetings == t->policy.meetings)
		return t->policy.alone >= ALONE_UPDATES;
	t->policy.meetings = meetings;
	t->policy.alone = 0;
	return false;
}

void policy_learn(struct fur_thread *t, enum tx_mode mode)
{
	struct policy *p = &t->policy;
	if (mode == TX_HARDWARE) {
		p->overflows = 0;
		return;
	}
	if (updates_run_in(t->engine) == HARDWARE)
		return;
	if (arch_ticks() - t->attempt_began > t->engine->short_ticks)
		p->alone = p->alone > LONG_COSTS ? p->alone - LONG_COSTS : 0;
	else if (p->alone < ALONE_UPDATES)
		p->alone++;
}

/* INV-SW5, INV-ST2: beside bodies, the update sweeps until it ends. */
static void begin_sweep(struct fur_thread *t, bool bodies)
{
	if (likely(!bodies))
		return;
	t->software.sweeps = true;
	sweep_begin(t->engine);
}

int in_place_begin(struct fur_thread *t)
{
	struct engine *e = t->engine;
	turn_take(e);
	const bool bodies = readers_shut_out(e, t->index).bodies;
	if (unlikely(engine_forked(e))) /* the user's reader_report has forked */
		return tx_refuse(e);
	attempt_prepare(t, REDO_UNDO);
	begin_sweep(t, bodies);
	marks_look(&t->update);
	images_look(&t->update);
	tx_in_place(&t->update);
	return 0;
}

/* ------------------------------------------------------------------ stores */

/* Remember what the word has in the bytes of `mask`, unless that is remembered already.  False: no
 * memory. */
static bool keep_word(struct fur_update *tx, uint64_t *word, uint64_t mask)
{
	struct write_set *set = &tx->thread->software.writes;
	const struct written *kept = write_find(set, word);
	uint64_t more = kept ? mask & ~kept->mask : mask;
	return more == 0 || write_put(set, word, arch_load(word), more);
}

/* Store the bytes of `mask` of the value. */
static void put_masked(struct fur_update *tx, uint64_t *word, uint64_t value, uint64_t mask)
{
	uint64_t merged = (arch_load(word) & ~mask) | (value & mask);
	arch_store((uint64_t *)(void *)tx_writable(tx, word), merged);
}

/* The store of an update in place that has failed.  A word that there is no memory to remember
 * stays as it is. */
static void store_unlogged(struct fur_update *tx, void *to, const uint8_t *from, uint64_t bytes)
{
	uint8_t *at = to;
	if (!(tx->flags & TX_OVERWRITES)) {
		write_clear(&tx->thread->software.writes);
		tx->flags |= TX_OVERWRITES;
	}
	for (uint64_t part; bytes; bytes -= part, at += part, from += part) {
		uint64_t skip = (uintptr_t)at & 7, value = 0,
		         *word = (uint64_t *)(void *)(at - skip);
		part = 8 - skip < bytes ? 8 - skip : bytes;
		const uint64_t mask = (UINT64_MAX >> 8 * (8 - part)) << 8 * skip;
		memcpy(&value, from, part);
		if (keep_word(tx, word, mask))
			put_masked(tx, word, value << 8 * skip, mask);
	}
}

void in_place_undo_unlogged(struct fur_update *tx)
{
	const struct write_set *set = &tx->thread->software.writes;
	if (!(tx->flags & TX_OVERWRITES))
		return;
	for (uint32_t k = 0; k < set->n; k++)
		put_masked(tx, set->words[k].word, set->words[k].value, set->words[k].mask);
}

static void put_writes(struct fur_update *tx)
{
	struct write_set *set = &tx->thread->software.writes;
	for (uint32_t k = 0; k < set->n; k++) {
		struct written *w = &set->words[k];
		const uint64_t old = arch_load(w->word);
		if (tx->flags & TX_IMAGES) /* INV-SN1 */
			images_save(tx->thread, w->word, sizeof *w->word);
		put_masked(tx, w->word, w->value, w->mask);
		w->value = old;
	}
	tx->flags |= TX_OVERWRITES;
}

static void save_lines(struct fur_update *tx, const void *at, uint64_t bytes)
{
	struct fur_thread *t = tx->thread;
	if (tx->mode != TX_HARDWARE)
		images_save(t, at, bytes);
	else if (!images_save_tracked(t, at, bytes))
		t->engine->ops->abort(FUR_ABORT_SNAPSHOT);
}

/* Log the store of an update that stores in place or in hardware, and store.  The source lies
 * elsewhere. */
void in_place_store(struct fur_update *tx, void *to, const void *from, uint64_t bytes)
{
	uint64_t offset = (uint64_t)((uint8_t *)to - tx->base);
	if (tx->flags & TX_IMAGES) /* INV-SN1 */
		save_lines(tx, to, bytes);
	while (!tx->error && !redo_append(tx->log, tx->thread->durability, offset,
	                             tx_writable(tx, to), from, bytes))
		store_make_room(tx);
	if (tx->error && tx->mode != TX_HARDWARE)
		store_unlogged(tx, to, from, bytes);
}

/* -------------------------------------------------- from software to in place */

void in_place_from_software(struct fur_update *tx)
{
	struct fur_thread *t = tx->thread;
	struct engine *e = t->engine;
	if (tx->mode == TX_CONCURRENT) {
		turn_take_alone(e);
		if (!software_extend(t)) {
			turn_give(e);
			body_defeat_and_jump(t);
		}
	}
	const bool bodies = readers_shut_out(e, t->index).bodies;
	if (unlikely(engine_forked(e))) { /* the user's reader_report has forked (INV-K2) */
		tx_fail(tx, FUR_EFORK);
		return;
	}
	begin_sweep(t, bodies);
	FUR_POINT(turns__in__place);
	marks_look(tx);
	marks_note_writes(t);
	images_look(tx);
	if (tx->flags & TX_IMAGES)
		images_save_record(t, false);
	/* The entry in active[] stays until in_place_leave().  A rollback-only update may have
	 * stored to a word after we loaded it, and wait for us in its window.  If it committed now,
	 * our own later store to that word would overwrite a value that we have not read. */
	redo_store_record(tx->log, t->durability, tx->writable, true);
	if (unlikely(tx->error))
		put_writes(tx);
	FUR_POINT(turned__in__place);
	tx_in_place(tx);
	tx->body.software = 0;
}

/* --------------------------------------------------------------------- end */

/* Let readers in, and give the turn. */
void in_place_leave(struct fur_thread *t)
{
	if (unlikely(t->software.sweeps)) {
		t->software.sweeps = false;
		sweep_end(t->engine);
	}
	readers_let_in(t->engine); /* A1:35 */
	/* After in_place_from_software().  Until here hardware updates waited for us (INV-SW4). */
	active_leave(active_of(t));
	turn_give(t->engine);
}

/* An update in place becomes visible when it lets readers in.  Before that it must collect D,
 * announce itself (INV-D1) and draw its durTS (INV-D4). */
void in_place_commit(struct fur_thread *t)
{
	struct durability *d = t->durability;
	struct commit *c = &t->window.commit;
	phase_mark(c, FUR_PHASE_BODY);
	nondurable_collect_settled(d, c); /* D */
	if (t->update.log->entries) {
		nondurable_announce(d, c); /* A1:33 */
		dset_draw(d, c);           /* A1:31 */
		stamps_missed(t->engine, c->durts);
	}
	in_place_leave(t);
	stat_add(&t->stats.lock_commits, 1);
}
