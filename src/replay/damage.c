/* SPDX-License-Identifier: BSD-3-Clause
 *
 * damage.c - proofs that a heap file is damaged, and not merely in a state that a failure left
 * (inspect.h; docs/damage.md).
 *
 * The search of a file of version 2 checks, in this order: durTSs that a slot can never hold, the
 * trailer's claim, the claims in the records of valid markers, the claims in all logs.  A file of
 * version 1 has no claims: there the search checks the durTSs, then the gaps in each thread's log.
 */
#include "base/arch.h"
#include "base/error.h"
#include "replay/inspect.h"

#include <stdlib.h>
#include <string.h>

struct damage_search {
	const struct media_file *f;
	const struct media_super *s;
	uint64_t tail, end;      /* updates from `end` on are given up, or there are none */
	const uint8_t *verdicts; /* on [tail, end) */
	uint8_t *told;           /* lost updates that tell() was called for; the same index */
	/* The lost updates below the newest valid marker: durTS - tail of each */
	uint32_t *holes, hole_count;
	void (*tell)(void *arg, const struct inspect_damage *damage);
	void *arg;
};

static bool update_lost(const struct damage_search *j, uint64_t durts)
{
	return durts >= j->tail && durts < j->end && j->verdicts[durts - j->tail] <= INSPECT_BROKEN;
}

static void tell_lost(struct damage_search *j, uint64_t durts, enum inspect_proof proof,
        uint64_t by, uint32_t thread)
{
	if (j->told[durts - j->tail])
		return;
	j->told[durts - j->tail] = 1;
	j->tell(j->arg, &(struct inspect_damage){
	                        .proof = proof, .durts = durts, .by = by, .thread = thread});
}

/* ------------------------------------------------------------------ claims */

static bool marker_names(const struct media_marker *m, uint64_t durts)
{
	uint64_t back = m->durts - 1 - durts;
	return durts < m->durts && back < MEDIA_DEPS && (m->deps[back / 64] >> back % 64 & 1);
}

/* The claims in the record of a valid marker. */
static void check_claims(
        struct damage_search *j, const struct media_marker *m, const struct media_claims *c)
{
	if (c->own && update_lost(j, c->own))
		tell_lost(j, c->own, INSPECT_CLAIMED, m->durts, m->thread);
	for (uint32_t k = 0; k < j->hole_count && j->tail + j->holes[k] < c->settled; k++)
		if (!marker_names(m, j->tail + j->holes[k]))
			tell_lost(j, j->tail + j->holes[k], INSPECT_CLAIMED, m->durts, m->thread);
}

static void find_holes(struct damage_search *j)
{
	uint32_t n = 0;
	for (uint64_t q = j->tail; q < j->end; q++)
		if (update_lost(j, q))
			j->holes[n++] = (uint32_t)(q - j->tail);
		else
			j->hole_count = n;
}

static void check_markers(struct damage_search *j)
{
	struct media_claims claims;
	find_holes(j);
	for (uint64_t s = j->hole_count ? j->tail + j->holes[0] : j->end; s < j->end; s++) {
		if (update_lost(j, s))
			continue;
		const struct media_marker m = log_read_marker(j->f, s);
		if (!log_marker_plausible(j->s, &m) || !m.log_bytes ||
		        !log_read_head(j->f, log_of_marker(j->f, &m), m.thread, m.log_start,
		                j->tail, &claims))
			continue;
		if (claims.durts == s)
			check_claims(j, &m, &claims);
	}
}

/* The highest `clear` that any record head claims, and the update whose head it is. */
struct highest_clear {
	uint64_t clear, durts;
	uint32_t thread;
};

static void check_head(struct damage_search *j, const struct media_claims *claims, uint32_t thread,
        struct highest_clear *highest)
{
	if (claims->own && update_lost(j, claims->own))
		tell_lost(j, claims->own, INSPECT_CLAIMED, claims->durts, thread);
	if (claims->clear > highest->clear)
		*highest = (struct highest_clear){claims->clear, claims->durts, thread};
}

/* Check the record heads in a thread's log, including heads of records whose marker is gone.  Looks
 * at every line.  Heads of earlier laps do not matter: their durTSs lie outside the range. */
static void check_log(struct damage_search *j, uint32_t thread, struct highest_clear *highest)
{
	enum { LINE = 64 }; /* on every machine, records begin on such a line */
	const uint8_t *log = log_of_thread(j->f, thread);
	struct media_claims claims;
	for (uint64_t at = 0; at < j->s->log_bytes; at += LINE) {
		if (log_read_head(j->f, log, thread, at, j->tail, &claims))
			check_head(j, &claims, thread, highest);
	}
}

/* The same in the slots. */
static void check_slots(struct damage_search *j, struct highest_clear *highest)
{
	struct media_claims claims;
	uint32_t thread;
	for (uint64_t s = j->tail; s < j->tail + j->s->ring_slots; s++)
		if (log_read_slot_head(j->f, s, j->tail, &claims, &thread))
			check_head(j, &claims, thread, highest);
}

static void check_logs(struct damage_search *j)
{
	struct highest_clear highest = {0, 0, 0};
	/* The other logs are holes in the file.  On some file systems even a load would allocate
	 * their blocks. */
	for (uint32_t t = 0; t < media_logs(j->s, j->f->words); t++)
		check_log(j, t, &highest);
	check_slots(j, &highest);
	for (uint64_t q = j->tail; q < highest.clear && q < j->end; q++)
		if (update_lost(j, q))
			tell_lost(j, q, INSPECT_CLAIMED, highest.durts, highest.thread);
}

static void check_trailer(struct damage_search *j)
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
		if (update_lost(j, q))
			tell_lost(j, q, INSPECT_REPLAYED, 0, 0);
}

/* ------------------------------------------------------------------ durTSs */

/* A marker's durTS is stored whole, so a slot contains its own, that of an earlier lap, or none. */
static void check_durtss(struct damage_search *j)
{
	for (uint64_t s = j->tail; s < j->end; s++) {
		uint64_t number = arch_load(&log_marker(j->f, s)->durts);
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
 * A thread's records follow each other in its log, each on a line of its own, and in version 1 a
 * thread begins the next record when the update before it has returned.  So if two of its valid
 * markers leave room between their records, an update that had returned is gone. */

enum { LEAST_LINE = 64, MOST_LINE = 128 };

/* Records begin on lines of the machine that wrote them, which need not be this one. */
static uint64_t record_line(const struct damage_search *j)
{
	for (uint64_t s = j->tail; s < j->end; s++)
		if (!update_lost(j, s) && log_marker(j->f, s)->log_start % MOST_LINE == LEAST_LINE)
			return LEAST_LINE;
	return MOST_LINE;
}

/* A thread's newest record before the durTS that the search has reached. */
struct newest {
	uint64_t durts, end; /* durts 0: not known */
	bool wanted;
};

/* For each thread that has a record in the range, find the thread's last record below the tail.
 * That record is replayed, but its marker may still be in the ring.  We can trust the marker only
 * if no update of the range has overwritten a slot above it, because that slot may have held a
 * newer marker of the thread.  So go down from the tail only as far as all markers are valid. */
static void find_newest_below(const struct damage_search *j, struct newest *newest)
{
	uint32_t wanted = 0;
	for (uint64_t s = j->tail; s < j->end; s++) {
		struct media_marker m;
		if (update_lost(j, s) || !log_read_plausible(j->f, s, &m))
			continue;
		wanted += !newest[m.thread].wanted;
		newest[m.thread].wanted = true;
	}
	for (uint64_t durts = j->tail; wanted && durts-- > j->tail - j->s->ring_slots;) {
		const struct media_marker m = log_read_marker(j->f, durts);
		if (!log_marker_valid(j->f, &m, durts))
			return;
		struct newest *n = &newest[m.thread];
		if (n->durts)
			continue;
		wanted -= n->wanted;
		*n = (struct newest){durts, log_record_end(&m), n->wanted};
	}
}

/* Did the process begin to work at the tail?  Then none of its records lies below it, and its
 * positions begin at 0. */
static bool begins_at_tail(const struct damage_search *j)
{
	uint64_t below = log_marker(j->f, j->tail - 1)->durts;
	return below != j->tail - 1 && below != j->tail - 1 + j->s->ring_slots;
}

/* Check for a gap before the record of a valid marker.  `before`: the thread's newest record before
 * that one. */
static void check_gap(struct damage_search *j, const struct media_marker *m,
        const struct newest *before, uint64_t last_hole, uint64_t line)
{
	uint64_t expected = (before->end + line - 1) & ~(line - 1);
	/* If no hole has come since, the record in the gap was below the tail, and is replayed. */
	if (before->durts && before->durts < last_hole && m->log_start > expected)
		j->tell(j->arg, &(struct inspect_damage){.proof = INSPECT_GAP,
		                        .thread = m->thread,
		                        .durts = before->durts,
		                        .by = m->durts,
		                        .from = expected,
		                        .to = m->log_start});
}

static int check_gaps(struct damage_search *j)
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
		struct media_marker m;
		if (update_lost(j, s)) {
			last_hole = s;
			continue;
		}
		/* Another process may have changed it since the verdict. */
		if (!log_read_plausible(j->f, s, &m))
			continue;
		check_gap(j, &m, &newest[m.thread], last_hole, line);
		newest[m.thread] = (struct newest){s, log_record_end(&m), true};
	}
	free(newest);
	return 0;
}

/* --------------------------------------------------------------------- all */

int inspect_find_damage(const struct media_file *f, uint64_t tail, const uint8_t *verdicts,
        void (*tell)(void *arg, const struct inspect_damage *damage), void *arg)
{
	FUR_ASSERT(media_recovery_end(f, tail) - tail <= f->super->ring_slots);
	struct damage_search j = {.f = f,
	        .s = f->super,
	        .tail = tail,
	        .end = media_recovery_end(f, tail),
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
		check_durtss(&j);
		error = check_gaps(&j);
	} else {
		check_durtss(&j);
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
		        "marker or log does not check: the file is damaged, or was copied while a "
		        "program had it open: restore it from a copy, or see fur-check",
		        durts, by, d->thread);
	case INSPECT_REPLAYED:
		return fur_fail(FUR_ECORRUPT,
		        "update %llu is in the heap in part, and its marker or log does not check: "
		        "the file is damaged, or was copied while a program had it open: restore "
		        "it from a copy",
		        durts);
	case INSPECT_MISPLACED:
		return fur_fail(FUR_ECORRUPT,
		        "the ring's slot of update %llu contains %llu, which it never held: the "
		        "file is damaged: restore it from a copy, or see fur-check",
		        durts, number);
	case INSPECT_OUTRUN:
		return fur_fail(FUR_ECORRUPT,
		        "the log's tail is %llu, and the file holds %llu, which came a lap later: "
		        "it was copied while a program had it open, or is damaged: restore it from "
		        "a copy that was made with the heap closed",
		        durts, number);
	default:
		return fur_fail(FUR_ECORRUPT,
		        "an update of thread %u, between %llu and %llu, had returned, and its "
		        "marker or log is damaged: restore the file from a copy, or see fur-check",
		        d->thread, durts, by);
	}
}
