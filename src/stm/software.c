/* SPDX-License-Identifier: BSD-3-Clause
 *
 * software.c - the body of a software update: its loads, its stores, and its defeat.
 */
#include "stm/together.h"

#include "base/checker.h"
#include "base/error.h"
#include "base/probe.h"
#include "tx/blocks.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_READS = 1024 };

bool read_grow(struct read_set *set)
{
	const uint64_t n = (uint64_t)(set->next - set->reads),
	               most = set->most ? 2 * set->most : FIRST_READS;
	struct logged_read *reads = realloc(set->reads, most * sizeof *reads);
	if (!reads)
		return false;
	set->reads = reads;
	set->next = reads + n;
	set->end = reads + most;
	set->most = most;
	return true;
}

/* ------------------------------------------------------------ begin and end */

/* After the thread had to look at next_durts because its snapshot was old, others publish, and will
 * again: then this many bodies look at once, which is cheaper than to extend. */
enum { FRESH_BEGINS = 16 };

uint64_t software_look_at_clock(struct fur_thread *t)
{
	t->software.fresh_begins = FRESH_BEGINS;
	return ring_next_acquire(t->durability);
}

/* Any value that next_durts has had will do: each word that the body finds with a lower version has
 * been the same since, hence since the body's begin.  So the usual body does not load next_durts,
 * which every update changes. */
uint64_t software_first_snapshot(struct fur_thread *t)
{
	struct software_body *s = &t->software;
	if (s->fresh_begins == 0)
		return s->snapshot;
	s->fresh_begins--;
	return ring_next_acquire(t->durability);
}

void body_enter(struct fur_thread *t)
{
	struct engine *e = t->engine;
	struct active_entry *mine = active_of(t);
	FUR_POINT(body__enters);
	for (;;) {
		active_enter_software(mine, t);
		/* INV-SW5.  A serial update has the turn, so it finds readers in. */
		if (likely(shut_now(e) != ALL_OUT))
			break;
		active_leave(mine);
		reader_awaits_let_in(e, t->index);
	}
	active_clear_wait(mine);
	t->software.sweep = sweep_await(e);
}

void software_note_unstamped(struct fur_thread *t)
{
	/* INV-UR4.  The caller has found SOFTWARE, by an acquire. */
	dset_raise_settled(&t->window.commit.dset, arch_load(&t->engine->lock.settled));
	software_note_version(t, arch_load(&t->engine->lock.unstamped));
}

void body_prepare(struct fur_thread *t)
{
	struct software_body *s = &t->software;
	dset_begin_versions(t->durability, &t->window.commit);
	s->snapshot = software_first_snapshot(t);
	arch_store(&s->bound, software_bound(t));
}

void body_entered(struct fur_thread *t, enum tx_mode mode)
{
	struct software_body *s = &t->software;
	/* INV-UR3: after body_enter()'s fence.  Set it also for a serial update, after another. */
	const bool by_version = mode == TX_CONCURRENT && updates_run_in(t->engine) == SOFTWARE;
	t->window.commit.dset.by_version = by_version;
	if (by_version)
		software_note_unstamped(t);
	read_clear(&s->reads);
	write_clear(&s->writes);
	/* Then every load comes to fur_load_update(). */
	if (unlikely(t->update.flags & TX_CHECKED))
		memset(s->writes.filter, 0xff, sizeof s->writes.filter);
	t->update.mode = mode;
	t->update.body.software = 1;
}

void software_begin(struct fur_thread *t, enum tx_mode mode)
{
	body_prepare(t);
	body_enter(t);
	body_entered(t, mode);
}

void body_inactive(struct fur_thread *t)
{
	active_leave(active_of(t));
	t->update.body.software = 0;
}

void body_end(struct fur_thread *t)
{
	body_inactive(t);
	if (t->update.mode == TX_SERIAL)
		turn_give(t->engine);
}

void body_defeat(struct fur_thread *t)
{
	FUR_ASSERT(t->update.mode == TX_CONCURRENT); /* INV-SW6 */
	FUR_ASSERT(!t->software.holds);
	redo_discard(t->update.log, t->durability);
	body_end(t);
	t->software.defeated = true;
	t->software.defeats++;
	stat_add(&t->stats.defeats, 1);
	FUR_PROBE1(update__defeat, t->index);
	t->ro = (struct fur_ro){0};
	tx_reset(&t->update);
}

void body_jump_out(struct fur_thread *t)
{
	if (t->software.leave)
		t->software.leave();
	longjmp(*t->software.restart, 1);
}

void body_defeat_and_jump(struct fur_thread *t)
{
	body_defeat(t);
	body_jump_out(t);
}

/* ---------------------------------------------------------------- the snapshot */

/* Has the word, whose stamp may be newer than `snapshot`, the value that the update has loaded?
 * Waits while another update holds the stamp.  *newest: at least the stamp's version.
 * Orders:  as software_load(). */
static bool is_same(
        struct fur_thread *t, const struct logged_read *read, uint64_t snapshot, uint64_t *newest)
{
	const uint64_t *stamp = stamp_of(t->engine, read->word);
	struct arch_backoff backoff = durability_backoff(t->durability);
	for (unsigned looks = 0;;) {
		const uint64_t seen = arch_load_acquire(stamp), version = stamp_version(t, seen);
		if (likely(version < snapshot))
			return true;
		if (stamp_is_held(version)) {
			if (t->software.holds && ++looks > LOOKS_AT_HELD)
				return false;
			arch_backoff(&backoff);
			continue;
		}
		const uint64_t value = checker_load(read->word);
		arch_fence_light();
		if (arch_load(stamp) != seen)
			continue;
		*newest = version > *newest ? version : *newest;
		if (value != read->value)
			return false;
		/* To make room in the set may take a sync, and others wait for these stamps. */
		if (t->software.holds && !dset_has_room(&t->window.commit.dset))
			return false;
		if (t->window.commit.dset.by_version)
			software_note_version(t, version);
		return true;
	}
}

static bool are_same(struct fur_thread *t, uint64_t snapshot, uint64_t *newest)
{
	const struct read_set *set = &t->software.reads;
	bool same = true;
	arch_overlap_begin();
	for (const struct logged_read *r = set->reads; r < set->next && same; r++)
		same = is_same(t, r, snapshot, newest);
	arch_overlap_end();
	return same;
}

/* The steps of an extension: look at the clock, compare, look whether the comparison holds, move
 * the snapshot. */
struct extension {
	uint64_t sweep, next, newest;
};

static struct extension extension_begin(struct fur_thread *t)
{
	const uint64_t sweep = sweep_await(t->engine);
	return (struct extension){sweep, software_look_at_clock(t), 0};
}

/* Looks at those words alone whose stamps are newer than the snapshot; after a sweep at all
 * (INV-ST2). */
static bool extension_compares(struct fur_thread *t, struct extension *x)
{
	const struct software_body *s = &t->software;
	return are_same(t, x->sweep == s->sweep ? s->snapshot : 0, &x->newest);
}

static bool extension_holds(const struct fur_thread *t, const struct extension *x)
{
	/* Orders the loads of the words before that of the number. */
	arch_fence_light();
	return arch_load(&t->engine->sweeps) == x->sweep && x->newest < x->next;
}

/* False: another sweep has begun. */
static bool extension_end(struct fur_thread *t, const struct extension *x)
{
	struct software_body *s = &t->software;
	s->snapshot = x->next;
	/* The stamps do not tell of what the sweep has stored (plant: sweep-not-read). */
	if (x->sweep != s->sweep && t->window.commit.dset.by_version)
		software_note_unstamped(t);
	s->sweep = x->sweep;
	FUR_POINT(snapshot__extended);
	/* Full fence: see sweep_begin(). */
	arch_store_fence(&s->bound, software_bound(t));
	return likely(arch_load(&t->engine->sweeps) == x->sweep);
}

static bool extend_one(struct fur_thread *t)
{
	for (;;) {
		struct extension x = extension_begin(t);
		if (!extension_compares(t, &x))
			return false;
		if (extension_holds(t, &x) && extension_end(t, &x))
			return true;
	}
}

/* INV-GU2: at the instant at which all clocks have been looked at, each word has the value that the
 * body has loaded. */
static bool extend_all(struct together *g)
{
	struct extension x[TOGETHER_MOST];
	for (;;) {
		bool all = true;
		for (unsigned k = 0; k < g->n; k++)
			x[k] = extension_begin(g->parts[k].thread);
		draws_await(g); /* INV-GU11 (plant: group-extends-between-draws) */
		FUR_POINT(clocks__looked__at);
		for (unsigned k = 0; k < g->n; k++)
			if (!extension_compares(g->parts[k].thread, &x[k]))
				return false;
		for (unsigned k = 0; k < g->n; k++)
			all = all && extension_holds(g->parts[k].thread, &x[k]);
		for (unsigned k = 0; all && k < g->n; k++)
			all = extension_end(g->parts[k].thread, &x[k]);
		if (likely(all))
			return true;
	}
}

static bool extend(struct fur_thread *t)
{
	return unlikely(t->together != NULL) ? extend_all(t->together) : extend_one(t);
}

bool software_extend(struct fur_thread *t)
{
	if (likely(!(t->update.flags & TX_CHECKED)))
		return extend(t);
	/* Words that the body has loaded may be hidden since (INV-MC1). */
	checker_quiet();
	bool same = extend(t);
	checker_loud();
	return same;
}

void software_check_blocks(struct fur_update *tx, const void *at, uint64_t bytes, bool store)
{
	if (likely(!blocks_are_hidden(tx, at, bytes)))
		return;
	/* INV-MC1 */
	if (tx->mode == TX_CONCURRENT && !software_extend(tx->thread))
		body_defeat_and_jump(tx->thread);
	if (checker_hidden(at, bytes))
		checker_report(at, bytes, store);
}

/* ------------------------------------------------------------------- loads */

/* INV-GU12, after the load of a word (plant: group-clocks-unread; model: CLOCKSUNREAD). */
static bool clocks_have_moved(const struct fur_thread *t)
{
	bool moved = false;
	if (likely(!t->together) || t->window.commit.dset.by_version)
		return false;
	FOR_EACH_PART(p, t->together)
		moved = moved || ring_next(p->thread->durability) != p->thread->software.snapshot;
	return moved;
}

bool software_load(struct fur_thread *t, const uint64_t *word, uint64_t *to)
{
	struct software_body *s = &t->software;
	const uint64_t *stamp = stamp_of(t->engine, word);
	struct arch_backoff backoff = durability_backoff(t->durability);
	for (;;) {
		const uint64_t seen = arch_load_acquire(stamp);
		if (stamp_is_held(seen)) {
			arch_backoff(&backoff);
			continue;
		}
		const uint64_t value = checker_load(word);
		/* Orders the load of the word between the two looks.  Without the first look, an
		 * update that has drawn a durTS below our snapshot could store to the word after we
		 * have loaded it, and free the stamp (plant: no-first-look).  Without the second,
		 * an update could store between look and load (plant: no-second-look).  Also the
		 * load of the word before those of the clocks: an update that published to another
		 * heap before a hardware update stored the word has moved one of them. */
		arch_fence_light();
		if (arch_load(stamp) != seen)
			continue;
		if (unlikely(seen >= s->snapshot || arch_load(&t->engine->sweeps) != s->sweep ||
		             clocks_have_moved(t))) {
			if (!software_extend(t))
				return false;
			continue;
		}
		if (t->window.commit.dset.by_version)
			software_note_version(t, seen);
		*to = value;
		return true;
	}
}

/* A load that is not the usual case: the update is serial, the word's stamp is newer than its
 * snapshot, or its read set has no room. */
static uint64_t load_shared(struct fur_thread *t, uint64_t *word)
{
	struct software_body *s = &t->software;
	if (t->update.mode != TX_CONCURRENT) /* while it has the turn, no update publishes */
		return checker_load(word);
	uint64_t value;
	if (unlikely(!software_load(t, word, &value)))
		body_defeat_and_jump(t);
	if (unlikely(read_is_full(&s->reads) && !read_grow(&s->reads))) {
		/* No memory.  A serial update needs none for its loads. */
		s->defeats = SOFTWARE_TRIES;
		body_defeat_and_jump(t);
	}
	read_put(&s->reads, word, value);
	return value;
}

/* The value of a word of the heap, as the update sees it. */
static inline uint64_t load_word(struct fur_thread *t, uint64_t *word)
{
	const struct write_set *set = &t->software.writes;
	if (write_maybe(set, write_hash(word))) {
		const struct written *own = write_find(set, word);
		if (own && own->mask == UINT64_MAX)
			return own->value;
		if (own)
			return (own->value & own->mask) | (load_shared(t, word) & ~own->mask);
	}
	return load_shared(t, word);
}

static inline uint64_t *word_at(const void *at)
{
	return (uint64_t *)((uintptr_t)at & ~(uintptr_t)7);
}

void fur_load_update(fur_update *tx, void *to, const void *from, size_t bytes)
{
	struct fur_thread *t = tx->thread;
	if (unlikely(!tx->body.software || !tx_in_heap(tx, from, bytes))) {
		fur_read_bytes(to, from, bytes);
		return;
	}
	uint8_t *out = to;
	const uint8_t *in = from;
	if (unlikely(tx->flags & TX_CHECKED))
		software_check_blocks(tx, from, bytes, false);
	while (bytes) {
		uint64_t *word = word_at(in), skip = (uintptr_t)in & 7,
		         part = 8 - skip < bytes ? 8 - skip : bytes, value = load_word(t, word);
		memcpy(out, (const uint8_t *)&value + skip, part);
		out += part;
		in += part;
		bytes -= part;
	}
}

FUR_API void fur_read_bytes(void *to, const void *from, size_t bytes)
{
	/* memmove() must not be called with an invalid pointer, even for no bytes. */
	if (bytes)
		memmove(to, from, bytes);
}

/* Every case of fur_load_bits(). */
static __attribute__((noinline)) uint64_t load_bits(
        fur_update *tx, const void *from, unsigned bytes)
{
	uint64_t bits = 0;
	fur_load_update(tx, &bits, from, bytes);
	return bits;
}

/* The usual case, in as few instructions as possible: a concurrent body spends much of its time
 * here.  It calls no function but load_bits(), and that last, so it saves no registers.
 *
 * INV-SW1.  All updates below the bound had stored, or never will, when the body learned of it
 * (dset.settled).  So one look at the stamp does, after the load of the word: an update that has
 * stored what we have loaded still holds the stamp, or its version is not below the bound.  The
 * light fence orders the word before the stamp (plant: no-look-after), and before the bound
 * (INV-ST2). */
uint64_t fur_load_bits(fur_update *tx, const void *from, unsigned bytes)
{
	struct software_body *s = &tx->thread->software;
	const unsigned skip = (unsigned)((uintptr_t)from & 7);
	uint64_t *word = word_at(from);
	/* The heap has whole words. */
	if (unlikely(skip + bytes > 8 || (uint64_t)((uint8_t *)word - tx->base) >= tx->bytes ||
	             write_maybe(&s->writes, write_hash(word))))
		return load_bits(tx, from, bytes);
	if (unlikely(tx->mode != TX_CONCURRENT)) /* while it has the turn, no update publishes */
		return checker_load(word) >> 8 * skip;
	arch_overlap_begin();
	const uint64_t value = checker_load(word);
	arch_fence_light();
	FUR_POINT(word__loaded);
	const uint64_t version = arch_load(stamp_of(tx->thread->engine, word));
	arch_overlap_end();
	if (unlikely(version >= arch_load(&s->bound) || read_is_full(&s->reads)))
		return load_bits(tx, from, bytes);
	read_put(&s->reads, word, value);
	return value >> 8 * skip;
}

/* ------------------------------------------------------------------ stores */

bool software_note_store(struct fur_update *tx, void *to, const void *from, uint64_t bytes)
{
	struct write_set *set = &tx->thread->software.writes;
	uint8_t *at = to;
	const uint8_t *in = from;
	bool all = true;
	while (bytes) {
		uint64_t skip = (uintptr_t)at & 7, part = 8 - skip < bytes ? 8 - skip : bytes,
		         value = 0, ones = part == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * part) - 1;
		memcpy(&value, in, part);
		all &= write_put(set, word_at(at), value << 8 * skip, ones << 8 * skip);
		at += part;
		in += part;
		bytes -= part;
	}
	return all;
}
