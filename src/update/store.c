/* SPDX-License-Identifier: BSD-3-Clause
 *
 * store.c - an update logs each of its stores, then stores in place (FUR, Algorithm 1, lines 19 to
 * 21).
 *
 * An update that has failed, for example because its log is full, is rolled back in the end.  Until
 * then its body goes on.  It must load what it has stored, or it would follow pointers in memory
 * that was never stored to.  So its stores also go on, but unlogged: in software to the write set;
 * in place to the heap, and the write set remembers what they overwrite.  An update in hardware
 * drops them, because the hardware undoes all that it does then.
 *
 * Way 2, an update stores:
 *
 *     fur_store_bits()           checks the address; fur_write() does the same for many bytes
 *       store_in_software()      in software: stores nothing in the heap
 *         redo_append_only()     logs
 *         software_note_store()  remembers the word for the update's own loads
 *       redo_append()            in hardware and in place: logs, then stores
 */
#include "base/error.h"
#include "tx/marks.h"
#include "update/fresh.h"
#include "update/in_place.h"

#include <string.h>

/* A software update's store, of at most redo_fits() bytes: to the log and the write set alone. */
static void store_in_software(struct fur_update *tx, void *to, const void *from, uint64_t bytes)
{
	uint64_t offset = (uint64_t)((uint8_t *)to - tx->base);
	while (!tx->error &&
	        !redo_append_only(tx->log, tx->thread->durability, offset, from, bytes))
		store_make_room(tx);
	if (unlikely(!software_note_store(tx, to, from, bytes)))
		tx_fail(tx, FUR_ENOMEM);
}

/* A store of at most redo_fits() bytes, from outside the heap, of an update that may have fresh
 * blocks, whose blocks a memory checker knows, or which must set marks. */
static void store_part(struct fur_update *tx, uint8_t *to, const uint8_t *from, uint64_t bytes)
{
	if (unlikely(tx->flags & TX_MARKS) && !tx->body.software)
		marks_note(tx, to, bytes); /* INV-BU1 */
	if (unlikely(tx->flags & TX_CHECKED))
		software_check_blocks(tx, to, bytes, true);
	for (uint64_t part; bytes; bytes -= part, to += part, from += part) {
		part = bytes;
		if ((tx->flags & TX_FRESH) && fresh_reach(tx, to, &part))
			fresh_store(tx, to, from, part);
		else if (tx->body.software)
			store_in_software(tx, to, from, part);
		else
			in_place_store(tx, to, from, part);
	}
}

/* Stores return nothing, so only builds with FUR_CHECKS find such misuse. */
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
	if (unlikely(!tx_in_heap(tx, to, bytes) || bytes - 1 >= MOST_BYTES)) {
		/* `bits` has at most 8 bytes, and a replay would take an entry of 0 bytes for
		 * damage. */
		tx_fail(tx, tx_in_heap(tx, to, bytes) ? FUR_EINVAL : FUR_ERANGE);
		return;
	}
	if (unlikely(tx->error && tx->mode == TX_HARDWARE))
		return;
	if (unlikely(tx->flags || tx->error)) {
		store_part(tx, to, (const uint8_t *)&bits, bytes);
		return;
	}
	if (tx->body.software) {
		store_in_software(tx, to, &bits, bytes);
		return;
	}
	const struct durability *d = tx->thread->durability;
	uint64_t offset = (uint64_t)((uint8_t *)to - tx->base);
	while (unlikely(!redo_append(tx->log, d, offset, to, &bits, bytes)))
		if (!store_make_room(tx)) {
			store_part(tx, to, (const uint8_t *)&bits, bytes);
			return;
		}
}

/* Like memmove(), for updates without hardware.  The source may be in the heap: then it is read
 * through the update, as fur_read() does.  Takes the parts in the order in which no store
 * overwrites a part that is still to be read. */
static void write_parts(struct fur_update *tx, uint8_t *to, const uint8_t *from, size_t bytes)
{
	uint8_t copy[MEDIA_ENTRY_MAX];
	bool upwards = to < from;
	while (bytes) {
		uint64_t part = redo_fits(tx->log, tx->thread->durability, bytes),
		         at = upwards ? 0 : bytes - part;
		fur_load_update(tx, copy, from + at, part);
		store_part(tx, to + at, copy, part);
		to += upwards ? part : 0;
		from += upwards ? part : 0;
		bytes -= part;
	}
}

static bool ranges_overlap(const void *a, const void *b, size_t bytes)
{
	return (uintptr_t)a - (uintptr_t)b < bytes || (uintptr_t)b - (uintptr_t)a < bytes;
}

/* Like memmove().  Copies each part first, so that the log entry has the source's bytes from before
 * the store.  Takes the parts in the order of write_parts(). */
static void write_overlapping(struct fur_update *tx, uint8_t *to, const uint8_t *from, size_t bytes)
{
	const struct durability *d = tx->thread->durability;
	uint8_t copy[MEDIA_ENTRY_MAX];
	bool upwards = to < from;
	while (bytes) {
		uint64_t part = redo_fits(tx->log, d, bytes), at = upwards ? 0 : bytes - part;
		memcpy(copy, from + at, part);
		if (!redo_append(tx->log, d, (uint64_t)(to + at - tx->base), to + at, copy, part)) {
			if (!store_make_room(tx)) {
				write_parts(tx, to, from, bytes);
				return;
			}
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
	if (unlikely(!tx_in_heap(tx, to, bytes))) {
		tx_fail(tx, FUR_ERANGE);
		return;
	}
	if (unlikely(tx->error && tx->mode == TX_HARDWARE))
		return;
	if (tx->body.software || unlikely(tx->flags || tx->error)) {
		write_parts(tx, to, from, bytes);
		return;
	}
	if (unlikely(ranges_overlap(to, from, bytes))) {
		write_overlapping(tx, to, from, bytes);
		return;
	}
	const struct durability *d = tx->thread->durability;
	while (bytes) {
		uint64_t part = redo_fits(tx->log, d, bytes);
		if (!redo_append(
		            tx->log, d, (uint64_t)((uint8_t *)to - tx->base), to, from, part)) {
			if (!store_make_room(tx)) {
				write_parts(tx, to, from, bytes);
				return;
			}
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
	if (unlikely(!tx_in_heap(tx, at, 1))) {
		tx_fail(tx, FUR_ERANGE);
		return;
	}
	/* Under opacity loads are tracked.  In place, the caller's own load has aborted a hardware
	 * update that had stored to the location. */
	if (tx->mode == TX_IN_PLACE || tx->thread->engine->isolation != FUR_SNAPSHOT || tx->error)
		return;
	if (tx->body.software) {
		/* INV-H4.  Software updates compare the words that they have loaded.  But a
		 * rollback-only update that stores to the location after our load waits for us, and
		 * would then commit beside us.  Our publication stores the byte's own value, which
		 * aborts it. */
		uint8_t own = (uint8_t)fur_load_bits(tx, at, 1);
		store_in_software(tx, at, &own, 1);
		return;
	}
	/* INV-H4.  A transactional store of the byte's own value adds the line to the write set.
	 * The byte cannot have changed since the transaction read it: another update that writes it
	 * waits for us before it commits, or our store here aborts that update. */
	uint8_t *byte = at;
	__atomic_store_n(byte, __atomic_load_n(byte, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}
