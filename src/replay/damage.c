/* SPDX-License-Identifier: BSD-3-Clause
 *
 * damage.c - what proves that a heap file is damaged, and not only left by a failure (inspect.h;
 * docs/protocol.md, "Damage is not a failure").
 */
#include "base/arch.h"
#include "base/error.h"
#include "replay/inspect.h"

#include <stdlib.h>
#include <string.h>

struct judge {
	const struct media_file *f;
	const struct media_super *s;
	uint64_t tail, end;      /* slots from `end` on are given up, or there are none */
	const uint8_t *verdicts; /* of [tail, end) */
	uint8_t *told;           /* slots whose loss is told; the same index */
	/* Offsets from the tail of the slots below the newest marker that checks that are lost */
	uint32_t *holes, n;
	void (*tell)(void *arg, const struct inspect_damage *damage);
	void *arg;
};

static bool lost(const struct judge *j, uint64_t durts)
{
	return durts >= j->tail && durts < j->end && j->verdicts[durts - j->tail] <= INSPECT_BROKEN;
}

static void tell_lost(
        struct judge *j, uint64_t durts, enum inspect_proof proof, uint64_t by, uint32_t thread)
{
	if (j->told[durts - j->tail])
		return;
	j->told[durts - j->tail] = 1;
	j->tell(j->arg, &(struct inspect_damage){
	                        .proof = proof, .durts = durts, .by = by, .thread = thread});
}

/* ------------------------------------------------------------------ claims */

static bool names(const struct media_marker *m, uint64_t durts)
{
	uint64_t back = m->durts - 1 - durts;
	return durts < m->durts && back < MEDIA_DEPS && (m->deps[back / 64] >> back % 64 & 1);
}

/* By the head of a marker that checks. */
static void check_claims(
        struct judge *j, const struct media_marker *m, const struct media_claims *c)
{
	if (c->own && lost(j, c->own))
		tell_lost(j, c->own, INSPECT_CLAIMED, m->durts, m->thread);
	for (uint32_t k = 0; k < j->n && j->tail + j->holes[k] < c->settled; k++)
		if (!names(m, j->tail + j->holes[k]))
			tell_lost(j, j->tail + j->holes[k], INSPECT_CLAIMED, m->durts, m->thread);
}

static bool head_at(
        const struct judge *j, uint32_t thread, uint64_t position, struct media_claims *claims)
{
	struct media_head head;
	memcpy(&head, inspect_log(j->f, thread) + (position & (j->s->log_bytes - 1)), sizeof head);
	return (head.durts | head.check) &&
	       media_head_decode(j->s, thread, position, j->tail, &head, claims) == 0;
}

static void find_holes(struct judge *j)
{
	uint32_t n = 0;
	for (uint64_t q = j->tail; q < j->end; q++)
		if (lost(j, q))
			j->holes[n++] = (uint32_t)(q - j->tail);
		else
			j->n = n;
}

static void check_markers(struct judge *j)
{
	struct media_claims claims;
	find_holes(j);
	for (uint64_t s = j->n ? j->tail + j->holes[0] : j->end; s < j->end; s++) {
		if (lost(j, s))
			continue;
		const struct media_marker m = *inspect_marker(j->f, s);
		if (!inspect_plausible(j->s, &m) || !m.log_bytes ||
		        !head_at(j, m.thread, m.log_start, &claims))
			continue;
		if (claims.durts == s)
			check_claims(j, &m, &claims);
	}
}

/* Heads in a thread's log, also of records whose marker is gone.  All are looked at: what lies
 * there of earlier laps says other durTSs. */
static void check_log(struct judge *j, uint32_t thread, uint64_t *clear, uint64_t *clear_by,
        uint32_t *clear_thread)
{
	enum { LINE = 64 }; /* records begin on one, whichever machine wrote them */
	struct media_claims claims;
	for (uint64_t at = 0; at < j->s->log_bytes; at += LINE) {
		if (!head_at(j, thread, at, &claims))
			continue;
		if (claims.own && lost(j, claims.own))
			tell_lost(j, claims.own, INSPECT_CLAIMED, claims.durts, thread);
		if (claims.clear > *clear)
			*clear = claims.clear, *clear_by = claims.durts, *clear_thread = thread;
	}
}

static void check_logs(struct judge *j)
{
	uint64_t clear = 0, by = 0;
	uint32_t thread = 0;
	for (uint32_t t = 0; t < j->s->max_threads; t++)
		check_log(j, t, &clear, &by, &thread);
	for (uint64_t q = j->tail; q < clear && q < j->end; q++)
		if (lost(j, q))
			tell_lost(j, q, INSPECT_CLAIMED, by, thread);
}

static void check_trailer(struct judge *j)
{
	uint64_t replaying;
	if (media_tail_decode(arch_load(&media_trailer(j->f)->replaying), &replaying) ||
	        replaying <= j->tail)
		return;
	if (replaying > j->tail + j->s->ring_slots)
		j->tell(j->arg,
		        &(struct inspect_damage){
		                .proof = INSPECT_OUTRUN, .durts = j->tail, .number = replaying});
	for (uint64_t q = j->tail; q < replaying && q < j->end; q++)
		if (lost(j, q))
			tell_lost(j, q, INSPECT_REPLAYED, 0, 0);
}

/* ----------------------------------------------------------------- numbers */

/* A number is stored whole; so a slot holds its own, that of an earlier lap, or none. */
static void check_numbers(struct judge *j)
{
	for (uint64_t s = j->tail; s < j->end; s++) {
		uint64_t number = arch_load(&inspect_marker(j->f, s)->durts);
		if (number == s || inspect_possible(j->s, s, number))
			continue;
		bool later = number > s && (number - s) % j->s->ring_slots == 0 &&
		             number - s <= 4 * j->s->ring_slots;
		j->tell(j->arg, &(struct inspect_damage){
		                        .proof = later ? INSPECT_OUTRUN : INSPECT_MISPLACED,
		                        .durts = s,
		                        .number = number});
	}
}

/* ------------------------------------------------------- version 1: gaps
 *
 * A thread's records lie one behind the other in its log, each on a line of its own, and in version
 * 1 the next one is begun when the one before has returned.  So where two of its markers that check
 * leave room between their records, an update that had returned is gone. */

enum { LEAST_LINE = 64, MOST_LINE = 128 };

/* Where records begin: on lines of the machine that wrote them, which need not be this one. */
static uint64_t record_line(const struct judge *j)
{
	for (uint64_t s = j->tail; s < j->end; s++)
		if (!lost(j, s) && inspect_marker(j->f, s)->log_start % MOST_LINE == LEAST_LINE)
			return LEAST_LINE;
	return MOST_LINE;
}

/* A thread's newest record before the slot at hand. */
struct newest {
	uint64_t durts, end; /* durts 0: not known */
	bool wanted;
};

/* The last record of each thread below the tail, for those in the window: it is replayed, but its
 * marker may still be in the ring.  Believed only if no slot above it has been taken by the window
 * since, for a newer one may have been there: so from the tail down, as far as all markers are
 * whole. */
static void find_newest_below(const struct judge *j, struct newest *newest)
{
	uint32_t wanted = 0;
	for (uint64_t s = j->tail; s < j->end; s++)
		if (!lost(j, s)) {
			struct newest *n = &newest[inspect_marker(j->f, s)->thread];
			wanted += !n->wanted;
			n->wanted = true;
		}
	for (uint64_t durts = j->tail; wanted && durts-- > j->tail - j->s->ring_slots;) {
		const struct media_marker *m = inspect_marker(j->f, durts);
		if (!inspect_valid(j->f, m, durts))
			return;
		struct newest *n = &newest[m->thread];
		if (n->durts)
			continue;
		wanted -= n->wanted;
		*n = (struct newest){durts, inspect_end(m), n->wanted};
	}
}

/* Did the process begin to work at the tail?  Then nothing of it lies below, and its positions
 * begin at 0. */
static bool begins_at_tail(const struct judge *j)
{
	uint64_t below = inspect_marker(j->f, j->tail - 1)->durts;
	return below != j->tail - 1 && below != j->tail - 1 + j->s->ring_slots;
}

static int check_gaps(struct judge *j)
{
	struct newest *newest = calloc(j->s->max_threads, sizeof *newest);
	if (!newest)
		return fur_fail(FUR_ENOMEM,
		        "no memory to check the logs of %u threads: free some memory",
		        j->s->max_threads);
	uint64_t line = record_line(j), last_hole = 0;
	if (begins_at_tail(j))
		for (uint32_t t = 0; t < j->s->max_threads; t++)
			newest[t].durts = j->tail - 1;
	else
		find_newest_below(j, newest);
	for (uint64_t s = j->tail; s < j->end; s++) {
		if (lost(j, s)) {
			last_hole = s;
			continue;
		}
		const struct media_marker *m = inspect_marker(j->f, s);
		struct newest *before = &newest[m->thread];
		uint64_t expected = (before->end + line - 1) & ~(line - 1);
		/* Without a hole since, it was below the tail, and is replayed. */
		if (before->durts && before->durts < last_hole && m->log_start > expected)
			j->tell(j->arg, &(struct inspect_damage){.proof = INSPECT_GAP,
			                        .thread = m->thread,
			                        .durts = before->durts,
			                        .by = s,
			                        .from = expected,
			                        .to = m->log_start});
		*before = (struct newest){s, inspect_end(m), true};
	}
	free(newest);
	return 0;
}

/* --------------------------------------------------------------------- all */

int inspect_find_damage(const struct media_file *f, uint64_t tail, const uint8_t *verdicts,
        void (*tell)(void *arg, const struct inspect_damage *damage), void *arg)
{
	struct judge j = {.f = f,
	        .s = f->super,
	        .tail = tail,
	        .end = media_window_end(f, tail),
	        .verdicts = verdicts,
	        .told = calloc(1, f->super->ring_slots),
	        .holes = calloc(f->super->ring_slots, sizeof(uint32_t)),
	        .tell = tell,
	        .arg = arg};
	int error = 0;
	if (!j.told || !j.holes) {
		error = fur_fail(FUR_ENOMEM,
		        "no memory to check a ring of %llu slots: free some memory",
		        (unsigned long long)f->super->ring_slots);
	} else if (f->super->version < 2) {
		check_numbers(&j);
		error = check_gaps(&j);
	} else {
		check_numbers(&j);
		check_trailer(&j);
		check_markers(&j);
		check_logs(&j);
	}
	free(j.told);
	free(j.holes);
	return error;
}

int inspect_refuse(const struct inspect_damage *d)
{
	const unsigned long long durts = d->durts, by = d->by, number = d->number;
	switch (d->proof) {
	case INSPECT_CLAIMED:
		return fur_fail(FUR_ECORRUPT,
		        "update %llu was durable when update %llu of thread %u was made, and its "
		        "marker or log does not check: the "
		        "file "
		        "is damaged, or was copied while a program had it open: restore it from a "
		        "copy, or see fur-check",
		        durts, by, d->thread);
	case INSPECT_REPLAYED:
		return fur_fail(FUR_ECORRUPT,
		        "update %llu is in the heap in part, and its marker or log does not check: "
		        "the file is damaged, or was "
		        "copied "
		        "while a program had it open: restore it from a copy",
		        durts);
	case INSPECT_MISPLACED:
		return fur_fail(FUR_ECORRUPT,
		        "the ring's slot of update %llu says %llu, which it never held: the file "
		        "is damaged: restore it from a "
		        "copy, or "
		        "see fur-check",
		        durts, number);
	case INSPECT_OUTRUN:
		return fur_fail(FUR_ECORRUPT,
		        "the log's tail says %llu, and the file holds %llu, which came a lap "
		        "later: it was copied while a program "
		        "had it "
		        "open, or is damaged: restore it from a copy that was made with the heap "
		        "closed",
		        durts, number);
	default:
		return fur_fail(FUR_ECORRUPT,
		        "an update of thread %u, between %llu and %llu, had returned, and its "
		        "marker or log is damaged: "
		        "restore the file from a copy, or see fur-check",
		        d->thread, durts, by);
	}
}
