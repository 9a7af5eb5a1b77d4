/* SPDX-License-Identifier: BSD-3-Clause
 *
 * inspect.c - the verdict on each slot of the range, upwards: look at the marker alone, then at
 * the verdicts on the slots that it names.  damage.c finds proofs of damage, mend.c corrections.
 */
#include "replay/inspect.h"

#include <string.h>

/* INV-R2.  Slots below the tail were replayed before. */
bool inspect_dependencies_kept(const struct media_file *f, uint64_t tail, uint64_t durts,
        const uint8_t *verdicts, bool whole)
{
	FUR_ASSERT(durts >= tail && durts - tail < f->super->ring_slots);
	const struct media_marker m = log_read_marker(f, durts);
	if ((m.kind & MEDIA_AFTER_ALL) && !whole) /* INV-AS4 */
		return false;
	for (unsigned word = 0; word < MEDIA_DEPS / 64; word++)
		for (uint64_t bits = m.deps[word]; bits; bits &= bits - 1) {
			uint64_t back = word * 64 + (unsigned)__builtin_ctzll(bits) + 1;
			if (back <= durts && durts - back >= tail &&
			        verdicts[durts - back - tail] < INSPECT_ABORTED)
				return false;
		}
	return true;
}

enum inspect_verdict inspect_look(const struct media_file *f, uint64_t durts)
{
	const struct media_marker m = log_read_marker(f, durts);
	if (!log_marker_valid(f, &m, durts))
		return m.durts == durts ? INSPECT_BROKEN : INSPECT_HOLE;
	return m.kind == MEDIA_ABORT ? INSPECT_ABORTED : INSPECT_KEPT;
}

static enum inspect_verdict slot_judge(const struct media_file *f, uint64_t tail, uint64_t durts,
        const uint8_t *verdicts, bool whole)
{
	enum inspect_verdict verdict = inspect_look(f, durts);
	if (verdict == INSPECT_KEPT && !inspect_dependencies_kept(f, tail, durts, verdicts, whole))
		return INSPECT_DROPPED;
	return verdict;
}

void inspect_judge(
        const struct media_file *f, uint64_t tail, uint8_t *verdicts, struct inspect_range *w)
{
	const uint64_t slots = f->super->ring_slots, end = media_recovery_end(f, tail);
	FUR_ASSERT(tail <= end && end - tail <= slots);
	*w = (struct inspect_range){.tail = tail, .end = tail};
	memset(verdicts, INSPECT_HOLE, slots);
	uint64_t holes = 0;
	bool whole = true;
	for (uint64_t k = 0; tail + k < end; k++) {
		verdicts[k] = (uint8_t)slot_judge(f, tail, tail + k, verdicts, whole);
		whole = whole && verdicts[k] >= INSPECT_ABORTED;
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
			w->log_bytes += log_marker(f, tail + k)->log_bytes;
		}
	}
}
