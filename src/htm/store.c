/* SPDX-License-Identifier: BSD-3-Clause
 *
 * store.c - stores of an update: each is logged, then made in place (FUR, Algorithm 1, lines 19 to
 * 21).
 */
#include "base/error.h"
#include "htm/htm.h"

#include <string.h>

void tx_fail(struct fur_update *tx, int error)
{
	if (!tx->error)
		tx->error = error;
}

/* The log is full.  In hardware: abort and make room outside.  Under the lock: make room here;
 * whoever is in flight needs no lock to finish. */
static bool make_room(struct fur_update *tx)
{
	if (tx->mode == TX_HARDWARE)
		tx->thread->htm->ops->abort(FUR_ABORT_FULL);
	int error = redo_make_room(tx->log, tx->thread->durability);
	if (error)
		tx_fail(tx, error);
	return !error;
}

static inline bool inside(const struct fur_update *tx, const void *to, size_t bytes)
{
	uint64_t offset = (uint64_t)((const uint8_t *)to - tx->base);
	return offset < tx->bytes && bytes <= tx->bytes - offset;
}

/* Does the calling thread have it open, or had?  Stores have no result: FUR_CHECKS looks. */
static inline void check_update(const struct fur_update *tx)
{
	FUR_CHECK(tx, "the update must not be NULL");
	FUR_CHECK(tx->thread->owner == this_thread(),
	        "the update is another thread's, or its registration was given back");
	(void)tx;
}

FUR_API void fur_store_bits(fur_update *tx, void *to, uint64_t bits, unsigned bytes)
{
	enum { MOST_BYTES = sizeof bits };
	check_update(tx);
	if (__builtin_expect(!inside(tx, to, bytes) || tx->error || bytes - 1 >= MOST_BYTES, 0)) {
		/* An entry of no bytes would be damage to whoever replays the log; more than 8 are
		 * not in `bits`. */
		tx_fail(tx, inside(tx, to, bytes) ? FUR_EINVAL : FUR_ERANGE);
		return;
	}
	const struct durability *d = tx->thread->durability;
	uint64_t offset = (uint64_t)((uint8_t *)to - tx->base);
	while (__builtin_expect(!redo_append(tx->log, d, offset, to, &bits, bytes), 0))
		if (!make_room(tx))
			return;
}

static bool overlap(const void *a, const void *b, size_t bytes)
{
	return (uintptr_t)a - (uintptr_t)b < bytes || (uintptr_t)b - (uintptr_t)a < bytes;
}

/* As memmove(): each part goes through a copy, so that its log entry has the bytes that were there
 * before the part was stored; and the parts go in the order in which none is stored over before it
 * is read. */
static void write_overlapping(struct fur_update *tx, uint8_t *to, const uint8_t *from, size_t bytes)
{
	const struct durability *d = tx->thread->durability;
	uint8_t copy[MEDIA_ENTRY_MAX];
	bool upwards = to < from;
	while (bytes) {
		uint64_t part = redo_fits(tx->log, d, bytes), at = upwards ? 0 : bytes - part;
		memcpy(copy, from + at, part);
		if (!redo_append(tx->log, d, (uint64_t)(to + at - tx->base), to + at, copy, part)) {
			if (!make_room(tx))
				return;
			continue;
		}
		to += upwards ? part : 0;
		from += upwards ? part : 0;
		bytes -= part;
	}
}

FUR_API void fur_write(fur_update *tx, void *to, const void *from, size_t bytes)
{
	check_update(tx);
	if (bytes == 0)
		return;
	if (__builtin_expect(!inside(tx, to, bytes) || tx->error, 0)) {
		tx_fail(tx, FUR_ERANGE);
		return;
	}
	if (__builtin_expect(overlap(to, from, bytes), 0)) {
		write_overlapping(tx, to, from, bytes);
		return;
	}
	const struct durability *d = tx->thread->durability;
	while (bytes) {
		uint64_t part = redo_fits(tx->log, d, bytes);
		if (!redo_append(
		            tx->log, d, (uint64_t)((uint8_t *)to - tx->base), to, from, part)) {
			if (!make_room(tx))
				return;
			continue;
		}
		to = (uint8_t *)to + part;
		from = (const uint8_t *)from + part;
		bytes -= part;
	}
}

FUR_API void fur_promote(fur_update *tx, void *at)
{
	check_update(tx);
	if (__builtin_expect(!inside(tx, at, 1), 0)) {
		tx_fail(tx, FUR_ERANGE);
		return;
	}
	/* Loads are tracked under opacity; and under the lock nobody else runs. */
	if (tx->mode != TX_HARDWARE || tx->thread->htm->isolation != FUR_SNAPSHOT)
		return;
	/* A transactional store of what is there: it takes the line into the write set.  What is
	 * there cannot have changed since it was read: an update that writes it waits for us before
	 * it commits, or is aborted by this store. */
	uint8_t *byte = at;
	__atomic_store_n(byte, __atomic_load_n(byte, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

FUR_API void fur_read_bytes(void *to, const void *from, size_t bytes)
{
	/* With no bytes the pointers may be anything, and memmove() would not have that. */
	if (bytes)
		memmove(to, from, bytes);
}
