/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pul.c - operators of a database on random records, with preload and unload (pul.h).
 *
 * An engine tells only whether a queue is empty, so a tasklet cannot wait for one preload.  The
 * slots are two halves of `distance` records: one half is filled, the other one consumed, and a
 * wait separates the rounds.  In a round, PUL_BATCH begins all transfers and then computes;
 * PUL_SEQUENTIAL computes after each.  So the last transfer of a sequential round has one record's
 * time to arrive, that of a batch has all.
 *
 *   INV-PU1  A half is consumed only after the wait that ends the round in which it was filled,
 *            and filled only in the round after it was consumed.
 *   INV-PU2  A block of results is filled only after the wait for its unload.
 *   INV-PU3  The total is written, and waited for, before its lock is released.
 *
 * The tests compile plants into this file: PLANT_CONSUME breaks the first half of INV-PU1,
 * PLANT_OVERWRITE the second, PLANT_REUSE INV-PU2, PLANT_RELEASE INV-PU3.
 */
#include "pul.h"

#include <stdbool.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* The trace, read by chunks. */
struct trace {
	near_address at;
	uint32_t chunk;
	near_address *first, *next, *end;
};

/* Results on their way out; only one of two blocks is filled. */
struct sink {
	near_address at;
	uint32_t bytes, filled; /* of a block */
	uint32_t write, bits;
	int32_t other; /* from it to the other one */
	char *block;
};

struct tasklet {
	const struct pul_job *job;
	struct pul_answer *answer;
	struct trace trace;
	struct sink sink;
	uint32_t values, threshold, transfer;
	uint32_t sum, count, position;
	char *slots;
};

ALWAYS_INLINE near_address next_address(struct trace *t)
{
	if (t->next == t->end) {
		near_local_read(t->first, t->at, t->chunk);
		t->at += t->chunk;
		t->next = t->first;
	}
	return *t->next++;
}

/* ------------------------------------------------------------------- results */

static __attribute__((noinline)) void write_block(struct sink *s, uint32_t bytes)
{
	uint32_t done;
	switch (s->write) {
	case PUL_WAIT: near_local_write(s->at, s->block, bytes); break;
	case PUL_UNLOAD:
#ifndef PLANT_REUSE
		near_wait(NEAR_UNLOADS); /* of the block that is filled next (INV-PU2) */
#endif
		near_unload(s->at, s->block, bytes);
		s->block += s->other;
		s->other = -s->other;
		break;
	default:
		for (done = 0; done < bytes; done += PUL_LINE)
			near_unload(s->at + done, s->block + done,
			        bytes - done < PUL_LINE ? bytes - done : PUL_LINE);
		near_wait(NEAR_UNLOADS);
	}
	s->at += bytes;
	s->filled = 0;
}

ALWAYS_INLINE void append(struct sink *s, const uint32_t *words, uint32_t bytes)
{
	uint32_t *to = (uint32_t *)(s->block + s->filled);
	for (uint32_t k = 0; k < bytes / 4; k++)
		to[k] = words[k];
	s->filled += bytes;
	if (s->filled == s->bytes)
		write_block(s, s->bytes);
}

ALWAYS_INLINE void append_position(struct sink *s, uint32_t position, bool matches)
{
	s->bits |= (uint32_t)matches << position % 32;
	if (position % 32 == 31) {
		append(s, &s->bits, 4);
		s->bits = 0;
	}
}

/* ----------------------------------------------------------------- operators */

ALWAYS_INLINE bool had_ended(const struct pul_snapshot *s, uint32_t transaction)
{
	if (transaction >= s->upto)
		return false;
	if (transaction < s->oldest)
		return true;
	uint32_t k = transaction - s->oldest;
	return !(s->running[k / 32] >> k % 32 & 1);
}

/* The first word is the transaction that made the record, the second the one that removed it. */
ALWAYS_INLINE bool is_visible(const struct pul_snapshot *s, const uint32_t *record)
{
	return had_ended(s, record[0]) && (!record[1] || !had_ended(s, record[1]));
}

/* More values than a record has words are the same words again, as other work would be. */
ALWAYS_INLINE uint32_t sum_of(const uint32_t *record, uint32_t words, uint32_t values)
{
	uint32_t sum = 0;
	while (values > words) {
		for (uint32_t k = 0; k < words; k++)
			sum += record[k];
		values -= words;
	}
	for (uint32_t k = 0; k < values; k++)
		sum += record[k];
	return sum;
}

ALWAYS_INLINE void compute(struct tasklet *t, const uint32_t *record, const enum pul_operator op)
{
	bool matches;
	switch (op) {
	case PUL_SUM: t->sum += sum_of(record, t->transfer / 4, t->values); break;
	case PUL_AGGREGATE:
		for (uint32_t k = 0; k < t->values; k++)
			t->answer->sum[k] += record[t->job->attribute[k]];
		t->count++;
		break;
	case PUL_FILTER: t->count += record[0] < t->threshold; break;
	case PUL_NOTHING: break;
	case PUL_VISIBLE: t->count += is_visible(&t->job->snapshot, record); break;
	default:
		matches = record[0] < t->threshold;
		t->count += matches;
		if (t->job->form == PUL_POSITIONS)
			append_position(&t->sink, t->position++, matches);
		else if (matches)
			append(&t->sink, record, t->transfer);
	}
}

/* ---------------------------------------------------------------- strategies */

ALWAYS_INLINE void one_by_one(
        struct tasklet *t, uint32_t n, uint32_t piece, const enum pul_operator op)
{
	char *slot = t->slots;
	uint32_t bytes = t->transfer;
	while (n--) {
		near_address from = next_address(&t->trace);
		for (uint32_t done = 0; done < bytes; done += piece)
			near_preload(slot + done, from + done, piece);
		near_wait(NEAR_PRELOADS);
		compute(t, (const uint32_t *)slot, op);
	}
}

ALWAYS_INLINE char *preload_next(struct tasklet *t, char *slot)
{
	near_preload(slot, next_address(&t->trace), t->transfer);
	return slot + t->transfer;
}

/* Fill `to` with `fill` records, and consume n records of `from`. */
ALWAYS_INLINE void round_of(struct tasklet *t, char *to, uint32_t fill, char *from, uint32_t n,
        const enum pul_strategy strategy, const enum pul_operator op)
{
	char *end = from + n * t->transfer;
	if (strategy == PUL_BATCH)
		for (; fill; fill--)
			to = preload_next(t, to);
	for (; from != end; from += t->transfer) {
		if (strategy == PUL_SEQUENTIAL && fill) {
			to = preload_next(t, to);
			fill--;
		}
		compute(t, (const uint32_t *)from, op);
	}
}

ALWAYS_INLINE void by_rounds(
        struct tasklet *t, uint32_t n, const enum pul_strategy strategy, const enum pul_operator op)
{
	uint32_t distance = t->job->distance, half = distance * t->transfer;
	char *to = t->slots, *from = t->slots + half, *other;
	uint32_t filled = 0, left = n;
	do {
		uint32_t ready = filled;
		filled = left < distance ? left : distance;
		left -= filled;
		if (!ready) /* the first round has nothing to consume */
			for (uint32_t k = 0; k < filled; k++)
				preload_next(t, to + k * t->transfer);
		else
			round_of(t, to, filled, from, ready, strategy, op);
#ifndef PLANT_CONSUME
		near_wait(NEAR_PRELOADS); /* the half `to` is consumed next (INV-PU1) */
#endif
		other = to;
#ifndef PLANT_OVERWRITE
		to = from;
#endif
		from = other;
	} while (filled);
#ifdef PLANT_CONSUME
	near_wait(NEAR_PRELOADS);
#endif
}

ALWAYS_INLINE void go_through(struct tasklet *t, uint32_t n, const enum pul_operator op)
{
	switch (t->job->strategy) {
	case PUL_NONE: one_by_one(t, n, t->transfer, op); break;
	case PUL_SEQUENTIAL: by_rounds(t, n, PUL_SEQUENTIAL, op); break;
	case PUL_BATCH: by_rounds(t, n, PUL_BATCH, op); break;
	default: one_by_one(t, n, t->transfer < PUL_LINE ? t->transfer : PUL_LINE, op);
	}
}

/* By additions, one after the other: the compiler is to make no multiplication of them. */
ALWAYS_INLINE uint32_t added_often(uint32_t word, uint32_t value, uint32_t times)
{
	while (times--) {
		word += value;
		__asm__ volatile("" : "+r"(word));
	}
	return word;
}

/* Every other word of a block changes; then the block goes to the next address. */
static void update_blocks(struct tasklet *t, uint32_t n)
{
	uint32_t words = t->sink.bytes / 4;
	for (uint32_t value = 0; n--;) {
		uint32_t *block = (uint32_t *)t->sink.block;
		for (uint32_t k = 0; k < words; k += 2, value++)
			block[k] = added_often(block[k], value, t->values);
		t->sink.at = next_address(&t->trace);
		write_block(&t->sink, t->sink.bytes);
		t->answer->written += t->sink.bytes;
	}
	near_wait(NEAR_UNLOADS);
}

/* ---------------------------------------------------------------------- body */

/* Scratch of a tasklet: a chunk of the trace, two blocks of results, then the slots. */
static void set_up(struct tasklet *t, struct pul_shared *shared)
{
	const struct pul_job *job = t->job;
	uint32_t me = near_me(), share = PUL_ROOM / near_tasklets() & ~7u;
	char *mine = (char *)shared->room + me * share;
	t->trace.at = job->trace + me * job->trace_stride;
	t->trace.chunk = job->chunk * 4;
	t->trace.first = (near_address *)mine;
	t->trace.next = t->trace.end = t->trace.first + job->chunk;
	t->sink.at = job->out + me * job->out_stride;
	t->sink.bytes = job->flush;
	t->sink.other = (int32_t)job->flush;
	t->sink.write = job->write;
	t->sink.block = mine + t->trace.chunk;
	t->slots = t->sink.block + 2 * job->flush;
	t->values = job->values;
	t->threshold = job->threshold;
	t->transfer = job->transfer;
}

static void finish_results(struct tasklet *t)
{
	near_address begin = t->job->out + near_me() * t->job->out_stride;
	if (t->position % 32)
		append(&t->sink, &t->sink.bits, 4);
	t->answer->written = t->sink.at + t->sink.filled - begin;
	if (t->sink.filled)
		write_block(&t->sink, (t->sink.filled + 7) & ~7u);
	near_wait(NEAR_UNLOADS);
}

/* All tasklets add to a word of memory, one after the other. */
static void add_to_total(near_address total, uint32_t mine, uint32_t *word)
{
	near_acquire(0);
	near_local_read(word, total, 8);
	word[0] += mine;
	near_unload(total, word, 8);
#ifdef PLANT_RELEASE
	near_release(0);
	near_wait(NEAR_UNLOADS);
#else
	near_wait(NEAR_UNLOADS); /* the next holder reads the total (INV-PU3) */
	near_release(0);
#endif
}

NEAR_KERNEL(pul, struct pul_shared)
{
	struct tasklet t = {.job = &shared->job, .answer = &shared->answer[near_me()]};
	uint32_t n = t.job->requests;
	set_up(&t, shared);
	switch (t.job->operation) {
	case PUL_SUM: go_through(&t, n, PUL_SUM); break;
	case PUL_AGGREGATE: go_through(&t, n, PUL_AGGREGATE); break;
	case PUL_FILTER: go_through(&t, n, PUL_FILTER); break;
	case PUL_NOTHING: go_through(&t, n, PUL_NOTHING); break;
	case PUL_VISIBLE: go_through(&t, n, PUL_VISIBLE); break;
	case PUL_MATERIALISE:
		go_through(&t, n, PUL_MATERIALISE);
		finish_results(&t);
		break;
	default: update_blocks(&t, n);
	}
	if (t.job->operation == PUL_SUM)
		t.answer->sum[0] = t.sum;
	t.answer->count = t.count;
	add_to_total(t.job->total, (uint32_t)t.answer->sum[0] + t.count, (uint32_t *)t.slots);
}
