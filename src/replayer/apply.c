/* SPDX-License-Identifier: BSD-3-Clause
 *
 * apply.c - apply.h, done.
 */
#include "apply.h"
#include "../fur_error.h"

#include <string.h>

/* How far ahead of the slot at hand, in slots: first the marker, then, when it is there, the log it names, then the heap lines. */
enum { PREFETCH_MARKER = 16, PREFETCH_LOG = 8, PREFETCH_UPDATES = 3 };

/* Markers and logs come from other cores' caches, or from the medium: ask for them before they are needed. */
void apply_preload(const struct durability *d, uint64_t durts)
{
	const struct media_marker *m = durability_marker(d, durts + PREFETCH_LOG);
	__builtin_prefetch(durability_marker(d, durts + PREFETCH_MARKER));
	/* It may be anything: only its thread decides whether the address is in the file. */
	if (m->thread < d->super->max_threads)
		__builtin_prefetch(apply_log(d, m) + (m->log_start & (d->super->log_bytes - 1)));
}

/* One entry of a log; where it starts, how much it holds. */
struct entry {
	uint64_t offset, bytes;
	const uint8_t *payload;
};

static struct entry entry_at(const struct durability *d, const uint8_t *log, uint64_t position)
{
	const uint8_t *at = log + (position & (d->super->log_bytes - 1));
	uint64_t word;
	memcpy(&word, at, 8);
	return (struct entry){media_entry_offset(word), media_entry_payload(word), at + 8};
}

/* Look at the update's entries, and ask for the heap lines they go to.  A checksum that holds over an entry outside the heap means a
 * bug or a forgery: refuse, before anything of it is written. */
static int check_entries(const struct durability *d, const struct media_marker *m)
{
	const uint8_t *log = apply_log(d, m);
	for (uint64_t p = m->log_start, end = p + m->log_bytes; p < end;) {
		struct entry e = entry_at(d, log, p);
		uint64_t to_end = d->super->log_bytes - (p & (d->super->log_bytes - 1));
		if (e.bytes == 0 || e.bytes > MEDIA_ENTRY_MAX || media_entry_bytes(e.bytes) > to_end ||
		        e.offset > d->super->heap_bytes - e.bytes)
			return fur_fail(FUR_ECORRUPT,
			        "the redo log of update %llu stores %llu bytes at heap offset %llu, outside the heap: restore the "
			        "file from a copy",
			        (unsigned long long)m->durts, (unsigned long long)e.bytes, (unsigned long long)e.offset);
		__builtin_prefetch(d->image + e.offset, 1);
		p += media_entry_bytes(e.bytes);
	}
	return 0;
}

/* Write its entries, checked before, to the heap image and start their write-back. */
static void apply(struct durability *d, const struct media_marker *m, struct replay_result *result)
{
	const uint8_t *log = apply_log(d, m);
	for (uint64_t p = m->log_start, end = p + m->log_bytes; p < end;) {
		struct entry e = entry_at(d, log, p);
		if (e.bytes == 8) /* a constant size is one store, not a call */
			memcpy(d->image + e.offset, e.payload, 8);
		else
			memcpy(d->image + e.offset, e.payload, e.bytes);
		pm_flush(&d->pm, d->image + e.offset, e.bytes);
		result->entries++;
		result->bytes += e.bytes;
		p += media_entry_bytes(e.bytes);
	}
	result->updates++;
}

static bool to_be_applied(const struct durability *d, const struct apply_range *range, uint64_t durts)
{
	return range->kept ? range->kept[durts - range->from] : durability_marker(d, durts)->kind == MEDIA_COMMIT;
}

int apply_updates(struct durability *d, const struct apply_range *range, struct replay_result *result)
{
	uint64_t checked = range->from;
	for (uint64_t at = range->from; at < range->to; at++) {
		for (; checked < range->to && checked <= at + PREFETCH_UPDATES; checked++) {
			apply_preload(d, checked);
			int error = to_be_applied(d, range, checked) ? check_entries(d, durability_marker(d, checked)) : 0;
			if (error)
				return error;
		}
		if (to_be_applied(d, range, at))
			apply(d, durability_marker(d, at), result);
	}
	return 0;
}
