/* SPDX-License-Identifier: BSD-3-Clause
 *
 * inspect.c - inspect.h, done; but what proves damage is in damage.c, and corrections are in
 * mend.c.
 */
#include "replay/inspect.h"

#include <string.h>

bool inspect_plausible(const struct media_super *s, const struct media_marker *m)
{
	return m->thread < s->max_threads && m->log_bytes <= s->log_bytes &&
	       m->log_start % MEDIA_ENTRY_ALIGN == 0 && m->log_bytes % MEDIA_ENTRY_ALIGN == 0 &&
	       (m->kind == MEDIA_COMMIT || m->kind == MEDIA_ABORT) &&
	       (m->log_bytes == 0 || m->log_bytes > media_head_bytes(s));
}

bool inspect_valid(const struct media_file *f, const struct media_marker *m, uint64_t durts)
{
	return m->durts == durts && inspect_plausible(f->super, m) &&
	       m->checksum == media_marker_checksum(f->super, m, inspect_log(f, m->thread));
}

bool inspect_entry_at(const struct media_file *f, uint32_t thread, uint64_t position, uint64_t end,
        struct inspect_entry *e)
{
	const struct media_super *s = f->super;
	uint64_t place = position & (s->log_bytes - 1), word;
	const uint8_t *at = inspect_log(f, thread) + place;
	memcpy(&word, at, 8);
	e->offset = media_entry_offset(word);
	e->bytes = media_entry_payload(word);
	e->payload = at + 8;
	e->next = position + media_entry_bytes(e->bytes);
	return e->bytes != 0 && e->bytes <= MEDIA_ENTRY_MAX &&
	       e->next - position <= s->log_bytes - place && e->next <= end &&
	       e->bytes <= s->heap_bytes && e->offset <= s->heap_bytes - e->bytes;
}

/* INV-R2; slots below the tail were replayed before. */
bool inspect_dependencies_kept(
        const struct media_file *f, uint64_t tail, uint64_t durts, const uint8_t *verdicts)
{
	const struct media_marker m = *inspect_marker(f, durts);
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
	const struct media_marker m = *inspect_marker(f, durts);
	if (!inspect_valid(f, &m, durts))
		return m.durts == durts ? INSPECT_BROKEN : INSPECT_HOLE;
	return m.kind == MEDIA_ABORT ? INSPECT_ABORTED : INSPECT_KEPT;
}

void inspect_judge(
        const struct media_file *f, uint64_t tail, uint8_t *verdicts, struct inspect_window *w)
{
	const uint64_t slots = f->super->ring_slots, end = media_window_end(f, tail);
	*w = (struct inspect_window){.tail = tail, .end = tail};
	memset(verdicts, INSPECT_HOLE, slots);
	uint64_t holes = 0;
	for (uint64_t k = 0; tail + k < end; k++) {
		verdicts[k] = (uint8_t)inspect_look(f, tail + k);
		if (verdicts[k] == INSPECT_KEPT &&
		        !inspect_dependencies_kept(f, tail, tail + k, verdicts))
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
			w->log_bytes += inspect_marker(f, tail + k)->log_bytes;
		}
	}
}
