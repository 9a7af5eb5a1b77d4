/* SPDX-License-Identifier: BSD-3-Clause
 *
 * usage.c - how full ring and logs are, for a thread that only looks.  It reads the markers and not
 * struct redo_log, because hardware updates write to that: a load of it would abort them.
 */
#include "durability/ring.h"

/* From the oldest record of its thread that is not replayed to the end of this marker's record, in
 * bytes; 0 if the slot has no marker of `durts`.  The slot may be used again while we read it, so
 * the marker's fields are of this update only if it is not replayed afterwards. */
static uint64_t log_used(const struct durability *d, uint64_t durts)
{
	const struct media_marker *m = durability_marker(d, durts);
	/* Acquire: pairs with ring_put_marker(), so that the fields are those of `durts`. */
	if (arch_load_acquire(&m->durts) != durts)
		return 0;
	uint64_t start = arch_load(&m->log_start), bytes = arch_load32(&m->log_bytes);
	uint16_t thread = __atomic_load_n(&m->thread, __ATOMIC_RELAXED),
	         kind = __atomic_load_n(&m->kind, __ATOMIC_RELAXED);
	/* Orders our loads of the fields before that of the tail.  Otherwise we could take the
	 * fields of the slot's next update for those of `durts`. */
	arch_fence_light();
	if (ring_replayed(d, durts) || thread >= d->super->max_threads ||
	        (kind & ~(MEDIA_AFTER_ALL | MEDIA_PART)) == MEDIA_COMMIT_IN_SLOT)
		return 0;
	uint64_t theirs = arch_load(&d->control->logs[thread].tail),
	         ours = arch_load(&d->redo[thread].tail), tail = theirs > ours ? theirs : ours;
	return start + bytes > tail ? start + bytes - tail : 0;
}

struct durability_usage durability_usage(const struct durability *d)
{
	struct durability_usage usage = {0};
	uint64_t tail = control_newest_tail(d), next = ring_next(d);
	/* Updates that have drawn a durTS beyond the ring wait for their slots. */
	uint64_t used = next > tail ? next - tail : 0, slots = d->super->ring_slots;
	usage.ring_slots = used < slots ? used : slots;
	for (uint64_t s = tail; s < tail + usage.ring_slots; s++) {
		uint64_t bytes = log_used(d, s);
		if (bytes > usage.log_bytes && bytes <= d->super->log_bytes)
			usage.log_bytes = bytes;
	}
	return usage;
}
