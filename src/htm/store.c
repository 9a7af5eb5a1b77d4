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
 */
#include "base/error.h"
#include "htm/blocks.h"
#include "htm/fresh.h"
#include "htm/marks.h"
#include "htm/software.h"

#include <stdio.h>
#include <string.h>

void tx_fail(struct fur_update *tx, int error)
{
	if (!tx->error)
		tx->error = error;
}

void tx_fail_saying(struct fur_update *tx, int error)
{
	struct fur_thread *t = tx->thread;
	if (!tx->error)
		snprintf(t->failure, sizeof t->failure, "%s", fur_errormsg());
	tx_fail(tx, error);
}

FUR_API int fur_update_error(const fur_update *tx)
{
	return tx && tx->depth ? tx->error : tx_not_mine(tx, "fur_update_error");
}

FUR_API uint64_t fur_update_room(const fur_update *tx, uint64_t *log_bytes)
{
	const uint64_t all = tx ? tx->thread->durability->super->log_bytes : 0,
	               used = tx ? tx->log->head - tx->log->start : 0;
	if (log_bytes)
		*log_bytes = all;
	return used < all ? all - used : 0;
}

/* In hardware: abort, and make room outside.  Otherwise make room here, because the updates in
 * flight need nothing of ours to finish. */
bool store_make_room(struct fur_update *tx)
{
	if (tx->mode == TX_HARDWARE)
		tx->thread->htm->ops->abort(FUR_ABORT_FULL);
	int error = redo_make_room(tx->log, tx->thread->durability);
	if (error)
		tx_fail(tx, error);
	return !error;
}

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

/* Remember what the word has in the bytes of `mask`, unless that is remembered already.  False: no
 * memory. */
static bool keep_word(struct fur_update *tx, uint64_t *word, uint64_t mask)
{
	struct write_set *set = &tx->thread->software.writes;
	const struct written *kept = write_find(set, word);
	uint64_t more = kept ? mask & ~kept->mask : mask;
	return more == 0 || write_put(set, word, arch_load(word), more);
}

/* Store the bytes of `mask` of the value. */
static void put_masked(struct fur_update *tx, uint64_t *word, uint64_t value, uint64_t mask)
{
	uint64_t merged = (arch_load(word) & ~mask) | (value & mask);
	arch_store((uint64_t *)(void *)tx_writable(tx, word), merged);
}

/* The store of an update in place that has failed.  A word that there is no memory to remember
 * stays as it is. */
static void store_unlogged(struct fur_update *tx, void *to, const uint8_t *from, uint64_t bytes)
{
	uint8_t *at = to;
	if (!(tx->extras & TX_OVERWRITES)) {
		write_clear(&tx->thread->software.writes);
		tx->extras |= TX_OVERWRITES;
	}
	for (uint64_t part; bytes; bytes -= part, at += part, from += part) {
		uint64_t skip = (uintptr_t)at & 7, value = 0,
		         *word = (uint64_t *)(void *)(at - skip);
		part = 8 - skip < bytes ? 8 - skip : bytes;
		const uint64_t mask = (UINT64_MAX >> 8 * (8 - part)) << 8 * skip;
		memcpy(&value, from, part);
		if (keep_word(tx, word, mask))
			put_masked(tx, word, value << 8 * skip, mask);
	}
}

void store_undo_unlogged(struct fur_update *tx)
{
	const struct write_set *set = &tx->thread->software.writes;
	if (!(tx->extras & TX_OVERWRITES))
		return;
	for (uint32_t k = 0; k < set->n; k++)
		put_masked(tx, set->words[k].word, set->words[k].value, set->words[k].mask);
}

void store_put_in_place(struct fur_update *tx)
{
	struct write_set *set = &tx->thread->software.writes;
	for (uint32_t k = 0; k < set->n; k++) {
		struct written *w = &set->words[k];
		const uint64_t old = arch_load(w->word);
		put_masked(tx, w->word, w->value, w->mask);
		w->value = old;
	}
	tx->extras |= TX_OVERWRITES;
}

/* Log the store of an update that stores in place or in hardware, and store.  The source lies
 * elsewhere. */
static void store_in_place(struct fur_update *tx, void *to, const void *from, uint64_t bytes)
{
	if (unlikely(tx->extras & TX_STAMPS))
		stamp_range(tx->thread, to, bytes, tx->thread->software.publication);
	uint64_t offset = (uint64_t)((uint8_t *)to - tx->base);
	while (!tx->error && !redo_append(tx->log, tx->thread->durability, offset,
	                             tx_writable(tx, to), from, bytes))
		store_make_room(tx);
	if (tx->error && tx->mode != TX_HARDWARE)
		store_unlogged(tx, to, from, bytes);
}

/* A store of at most redo_fits() bytes, from outside the heap, of an update that may have fresh
 * blocks, whose blocks a memory checker knows, or which must set marks. */
static void store_part(struct fur_update *tx, uint8_t *to, const uint8_t *from, uint64_t bytes)
{
	if (unlikely(tx->extras & TX_MARKS) && !tx->form.software)
		marks_note(tx, to, bytes); /* INV-BU1 */
	if (unlikely(tx->extras & TX_CHECKED))
		blocks_check(tx, to, bytes, true);
	for (uint64_t part; bytes; bytes -= part, to += part, from += part) {
		part = bytes;
		if ((tx->extras & TX_FRESH) && fresh_reach(tx, to, &part))
			fresh_store(tx, to, from, part);
		else if (tx->form.software)
			store_in_software(tx, to, from, part);
		else
			store_in_place(tx, to, from, part);
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
	if (unlikely(tx->extras || tx->error)) {
		store_part(tx, to, (const uint8_t *)&bits, bytes);
		return;
	}
	if (tx->form.software) {
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
	if (tx->form.software || unlikely(tx->extras || tx->error)) {
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
	if (tx->mode == TX_IN_PLACE || tx->thread->htm->isolation != FUR_SNAPSHOT || tx->error)
		return;
	if (tx->form.software) {
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

FUR_API void fur_read_bytes(void *to, const void *from, size_t bytes)
{
	/* memmove() must not be called with an invalid pointer, even for no bytes. */
	if (bytes)
		memmove(to, from, bytes);
}
