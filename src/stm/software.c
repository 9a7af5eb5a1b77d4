/* SPDX-License-Identifier: BSD-3-Clause
 *
 * software.c - the body of a software update: its loads, its stores, and its defeat.
 */
#include "stm/software.h"

#include "base/checker.h"
#include "base/error.h"
#include "base/probe.h"
#include "tx/blocks.h"

#include <stdlib.h>
#include <string.h>

enum {
	FIRST_READS = 1024,
	/* A load that looks at a stamp costs about as much as comparing this many words. */
	SLOW_LOAD_COMPARES = 4
};

bool read_grow(struct read_set *set)
{
	uint64_t most = set->most ? 2 * set->most : FIRST_READS;
	struct logged_read *reads = realloc(set->reads, most * sizeof *reads);
	if (!reads)
		return false;
	set->reads = reads;
	set->most = set->room = most;
	return true;
}

/* ------------------------------------------------------------ begin and end */

static uint64_t snapshot_of(uint64_t publications)
{
	return publications & ~UINT64_C(1);
}

void software_begin(struct fur_thread *t, enum tx_mode mode)
{
	struct engine *e = t->engine;
	struct active_entry *mine = active_of(t);
	struct software_body *s = &t->software;
	for (;;) {
		active_enter_software(mine, t);
		/* INV-SW5.  A serial update has the turn, so it finds `shut` reset. */
		if (likely(!readers_are_out(e)))
			break;
		active_leave(mine);
		reader_awaits_let_in(e, t->index);
	}
	active_clear_wait(mine);
	s->snapshot = snapshot_of(arch_load_acquire(&e->publications.now));
	s->slow_loads = 0;
	read_clear(&s->reads, mode == TX_CONCURRENT);
	write_clear(&s->writes);
	/* Then every load comes to fur_load_update(). */
	if (unlikely(t->update.flags & TX_CHECKED))
		memset(s->writes.filter, 0xff, sizeof s->writes.filter);
	t->update.mode = mode;
	t->update.body.software = 1;
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

/* Wait until the publication is over. */
static void wait_for_publication(const struct engine *e, uint64_t stamp)
{
	struct arch_backoff backoff = durability_backoff(e->durability);
	while (arch_load_acquire(&e->publications.now) == stamp)
		arch_backoff(&backoff);
}

/* Is the value, which the caller has just loaded from `word`, the one that the word had at
 * `snapshot`?  Returns 0, or the number of the newer publication that stamped it.
 * Orders: the load of the word before that of the stamp, by the light fence (INV-SW1).  Without it
 *         the stamp could be loaded before a publication stamps the line, and the word after the
 *         publication has stored to it. */
static uint64_t newer_stamp(const struct engine *e, const uint64_t *word, uint64_t snapshot)
{
	arch_fence_light();
	uint64_t stamp = stamp_number(arch_load(stamp_of(e, word))),
	         all = arch_load(&e->publications.all_stamped);
	stamp = stamp > all ? stamp : all;
	return stamp > snapshot ? stamp : 0;
}

enum check { SAME, CHANGED, UNDER_WAY };

static enum check check_reads(
        const struct engine *e, const struct read_set *set, uint64_t snapshot, uint64_t *stamp)
{
	for (uint64_t i = 0; i < set->n; i++) {
		if (checker_load(set->reads[i].word) != set->reads[i].value)
			return CHANGED;
		if ((*stamp = newer_stamp(e, set->reads[i].word, snapshot)))
			return UNDER_WAY;
	}
	return SAME;
}

/* The same without stamps, for the usual case that nothing is published meanwhile. */
static bool check_values(const struct read_set *set)
{
	for (uint64_t i = 0; i < set->n; i++)
		if (checker_load(set->reads[i].word) != set->reads[i].value)
			return false;
	return true;
}

/* Are the loaded words as they were?  If so, the snapshot moves to now. */
static bool extend(struct fur_thread *t)
{
	const struct engine *e = t->engine;
	struct software_body *s = &t->software;
	s->slow_loads = 0;
	for (;;) {
		uint64_t now = arch_load_acquire(&e->publications.now), stamp;
		if (snapshot_of(now) == now) {
			if (!check_values(&s->reads))
				return false;
			/* Orders the loads of the words before that of the number: if that has not
			 * changed, no publication can have stored to them meanwhile. */
			arch_fence_light();
			if (arch_load(&e->publications.now) == now) {
				s->snapshot = now;
				return true;
			}
		}
		switch (check_reads(e, &s->reads, snapshot_of(now), &stamp)) {
		case CHANGED: return false;
		case SAME:
			s->snapshot = snapshot_of(now);
			FUR_POINT(snapshot__extended);
			return true;
		case UNDER_WAY: wait_for_publication(e, stamp);
		}
	}
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

/* Something was published since the update's snapshot.  Returns a value of the word that is
 * consistent with the snapshot, which may move. */
static uint64_t load_beside_publications(struct fur_thread *t, uint64_t *word)
{
	struct software_body *s = &t->software;
	for (bool extended = false;; extended = true) {
		uint64_t value = checker_load(word),
		         stamp = newer_stamp(t->engine, word, s->snapshot);
		/* The value is the snapshot's.  If we moved the snapshot, later loads would be
		 * cheaper, and we might learn sooner that we are defeated.  We compare all words
		 * when the loads since the last time have cost as much as that will. */
		bool pays = !extended && SLOW_LOAD_COMPARES * ++s->slow_loads > s->reads.n;
		if (!stamp && !pays)
			return value;
		if (stamp)
			wait_for_publication(t->engine, stamp);
		if (!software_extend(t))
			body_defeat_and_jump(t);
	}
}

/* A load that is not the usual case: the update is serial, something was published since its
 * snapshot, or its read set has no room. */
static uint64_t load_shared(struct fur_thread *t, uint64_t *word)
{
	struct software_body *s = &t->software;
	uint64_t value = checker_load(word);
	if (t->update.mode != TX_CONCURRENT)
		return value;
	arch_fence_light(); /* as in fur_load_bits() */
	if (arch_load(&t->engine->publications.now) != s->snapshot)
		value = load_beside_publications(t, word);
	if (unlikely(s->reads.n == s->reads.room && !read_grow(&s->reads))) {
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
 * here.  It calls no function but load_bits(), and that last, so it saves no registers. */
uint64_t fur_load_bits(fur_update *tx, const void *from, unsigned bytes)
{
	struct fur_thread *t = tx->thread;
	struct software_body *s = &t->software;
	unsigned skip = (unsigned)((uintptr_t)from & 7);
	uint64_t *word = word_at(from), value;
	if (unlikely(skip + bytes > 8 || !tx_in_heap(tx, from, bytes) ||
	             write_maybe(&s->writes, write_hash(word))))
		return load_bits(tx, from, bytes);
	value = checker_load(word);
	/* INV-SW1.  Orders the load of the word before that of the number: if no publication has
	 * begun since our snapshot, the value is the snapshot's. */
	arch_fence_light();
	if (unlikely(arch_load(&t->engine->publications.now) != s->snapshot ||
	             s->reads.n >= s->reads.room))
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
