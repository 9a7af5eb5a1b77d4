/* SPDX-License-Identifier: BSD-3-Clause
 *
 * inspect.c - inspect.h, done.
 */
#include "inspect.h"
#include "../fur_error.h"

#include <stdlib.h>
#include <string.h>

bool inspect_plausible(const struct media_super *s, const struct media_marker *m)
{
	return m->thread < s->max_threads && m->log_bytes <= s->log_bytes && m->log_start % MEDIA_ENTRY_ALIGN == 0 &&
	       m->log_bytes % MEDIA_ENTRY_ALIGN == 0 && (m->kind == MEDIA_COMMIT || m->kind == MEDIA_ABORT);
}

bool inspect_valid(const struct media_super *s, const struct media_marker *m, uint64_t durts)
{
	return m->durts == durts && inspect_plausible(s, m) &&
	       m->checksum == media_marker_checksum(s, m, inspect_log(s, m->thread));
}

bool inspect_entry_at(const struct media_super *s, uint32_t thread, uint64_t position, uint64_t end, struct inspect_entry *e)
{
	uint64_t place = position & (s->log_bytes - 1), word;
	const uint8_t *at = inspect_log(s, thread) + place;
	memcpy(&word, at, 8);
	e->offset = media_entry_offset(word);
	e->bytes = media_entry_payload(word);
	e->payload = at + 8;
	e->next = position + media_entry_bytes(e->bytes);
	return e->bytes != 0 && e->bytes <= MEDIA_ENTRY_MAX && e->next - position <= s->log_bytes - place && e->next <= end &&
	       e->bytes <= s->heap_bytes && e->offset <= s->heap_bytes - e->bytes;
}

/* INV-R2; slots below the tail were replayed before. */
bool inspect_dependencies_kept(const struct media_super *s, uint64_t tail, uint64_t durts, const uint8_t *verdicts)
{
	const struct media_marker *m = inspect_marker(s, durts);
	for (unsigned word = 0; word < MEDIA_DEPS / 64; word++)
		for (uint64_t bits = m->deps[word]; bits; bits &= bits - 1) {
			uint64_t back = word * 64 + (unsigned)__builtin_ctzll(bits) + 1;
			if (m->durts - back >= tail && back <= m->durts && verdicts[m->durts - back - tail] < INSPECT_ABORTED)
				return false;
		}
	return true;
}

enum inspect_verdict inspect_look(const struct media_super *s, uint64_t durts)
{
	const struct media_marker *m = inspect_marker(s, durts);
	if (!inspect_valid(s, m, durts))
		return m->durts == durts ? INSPECT_BROKEN : INSPECT_HOLE;
	return m->kind == MEDIA_ABORT ? INSPECT_ABORTED : INSPECT_KEPT;
}

void inspect_judge(const struct media_super *s, uint64_t tail, uint8_t *verdicts, struct inspect_window *w)
{
	*w = (struct inspect_window){.tail = tail, .end = tail};
	uint64_t holes = 0;
	for (uint64_t k = 0; k < s->ring_slots; k++) {
		verdicts[k] = (uint8_t)inspect_look(s, tail + k);
		if (verdicts[k] == INSPECT_KEPT && !inspect_dependencies_kept(s, tail, tail + k, verdicts))
			verdicts[k] = INSPECT_DROPPED;
		w->broken += verdicts[k] == INSPECT_BROKEN;
		if (verdicts[k] <= INSPECT_BROKEN) {
			holes++;
			continue;
		}
		w->holes += holes;
		holes = 0;
		w->end = tail + k + 1;
		w->dropped += verdicts[k] == INSPECT_DROPPED;
		w->aborts += verdicts[k] == INSPECT_ABORTED;
		if (verdicts[k] == INSPECT_KEPT) {
			w->updates++;
			w->log_bytes += inspect_marker(s, tail + k)->log_bytes;
		}
	}
}

/* -------------------------------------------------------------------- gaps */

enum { LEAST_LINE = 64, MOST_LINE = 128 };

/* Where records begin: on lines of the machine that wrote them, which need not be this one. */
static uint64_t record_line(const struct media_super *s, uint64_t tail, const uint8_t *verdicts)
{
	for (uint64_t k = 0; k < s->ring_slots; k++)
		if (verdicts[k] > INSPECT_BROKEN && inspect_marker(s, tail + k)->log_start % MOST_LINE == LEAST_LINE)
			return LEAST_LINE;
	return MOST_LINE;
}

/* A thread's newest record before the slot at hand. */
struct newest {
	uint64_t durts, end; /* durts 0: not known */
	bool wanted;
};

/* The last record of each thread below the tail, for those in the window: it is replayed, but its marker may still be in the ring.
 * Believed only if no slot above it has been taken by the window since, for a newer one may have been there: so from the tail down, as far
 * as all markers are whole. */
static void find_newest_below(const struct media_super *s, uint64_t tail, const uint8_t *verdicts, struct newest *newest)
{
	uint32_t wanted = 0;
	for (uint64_t k = 0; k < s->ring_slots; k++)
		if (verdicts[k] > INSPECT_BROKEN) {
			struct newest *n = &newest[inspect_marker(s, tail + k)->thread];
			wanted += !n->wanted;
			n->wanted = true;
		}
	for (uint64_t durts = tail; wanted && durts-- > tail - s->ring_slots;) {
		const struct media_marker *m = inspect_marker(s, durts);
		if (!inspect_valid(s, m, durts))
			return;
		struct newest *n = &newest[m->thread];
		if (n->durts)
			continue;
		wanted -= n->wanted;
		*n = (struct newest){durts, m->log_start + m->log_bytes, n->wanted};
	}
}

/* Did the process begin to work at the tail?  Then nothing of it lies below, and its positions begin at 0. */
static bool begins_at(const struct media_super *s, uint64_t tail)
{
	uint64_t below = inspect_marker(s, tail - 1)->durts;
	return below != tail - 1 && below != tail - 1 + s->ring_slots;
}

int inspect_gaps(const struct media_super *s, uint64_t tail, const uint8_t *verdicts,
        void (*tell)(void *arg, const struct inspect_gap *gap), void *arg)
{
	struct newest *newest = calloc(s->max_threads, sizeof *newest);
	if (!newest)
		return fur_fail(FUR_ENOMEM, "no memory to check the logs of %u threads", s->max_threads);
	uint64_t line = record_line(s, tail, verdicts), last_hole = 0;
	if (begins_at(s, tail))
		for (uint32_t t = 0; t < s->max_threads; t++)
			newest[t].durts = tail - 1;
	else
		find_newest_below(s, tail, verdicts, newest);
	for (uint64_t k = 0; k < s->ring_slots; k++) {
		if (verdicts[k] <= INSPECT_BROKEN) {
			last_hole = tail + k;
			continue;
		}
		const struct media_marker *m = inspect_marker(s, tail + k);
		struct newest *before = &newest[m->thread];
		uint64_t expected = (before->end + line - 1) & ~(line - 1);
		/* Without a hole since, it was below the tail, and is replayed. */
		if (before->durts && before->durts < last_hole && m->log_start > expected)
			tell(arg, &(struct inspect_gap){m->thread, before->durts, m->durts, expected, m->log_start});
		*before = (struct newest){m->durts, m->log_start + m->log_bytes, true};
	}
	free(newest);
	return 0;
}
