/* SPDX-License-Identifier: BSD-3-Clause
 *
 * redo.c - the redo log of a thread, and the undo record next to it.
 *
 * An entry records the exact width of its store: if it logged 8 bytes for a 4-byte field, a replay
 * would restore an old value of the neighbouring field.  The undo record of an entry lies at the
 * same place in `undo`: first the position of the previous undo record, then the old bytes.
 * redo_undo() uses the undo records when an update in place rolls back (INV-D6).  An update in
 * hardware has none: its rollback is a hardware abort.
 */
#include "base/error.h"
#include "base/memory.h"
#include "durability/ship.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int redo_init(struct redo_log *log, const struct durability *d, uint32_t thread)
{
	const struct media_file file = durability_file(d);
	uint64_t bytes = d->super->log_bytes;
	memset(log, 0, sizeof *log);
	log->persistent = log_of_thread(&file, thread);
	log->undo = memory_map(bytes); /* most logs are never filled */
	log->notes = (uint64_t *)(void *)log->undo;
	log->written = d->mirror ? memory_map(bytes) : log->persistent;
	if (pm_writes(&d->pm))
		log->slot = memory_padded(d->super->slot_bytes);
	if (log->undo && log->written && (log->slot || !pm_writes(&d->pm))) {
		if (d->populate) {
			madvise(log->undo, bytes, MADV_POPULATE_WRITE);
			madvise(log->written, bytes, MADV_POPULATE_WRITE);
		}
		return 0;
	}
	redo_fini(log, d);
	return fur_fail(FUR_ENOMEM,
	        "no memory for the undo log of a thread (%llu bytes): free some memory, or make "
	        "the logs smaller, with fur-resize --log-bytes",
	        (unsigned long long)bytes);
}

void redo_fini(struct redo_log *log, const struct durability *d)
{
	memory_unmap(log->undo, d->super->log_bytes);
	if (log->written != log->persistent)
		memory_unmap(log->written, d->super->log_bytes);
	free(log->slot);
	memset(log, 0, sizeof *log);
}

static uint64_t place(const struct durability *d, uint64_t position)
{
	return log_place(d->super, position);
}

/* How much of the log the open update may use. */
static inline uint64_t redo_room(const struct redo_log *log, const struct durability *d)
{
	return d->log_room - log->reserved;
}

void redo_begin(struct redo_log *log, const struct durability *d, enum redo_kind kind)
{
	log->kind = kind;
	/* A record starts on a line of its own.  Two commits that flush the same line wait for each
	 * other in the memory controller: bench/micro, BM_FlushSameLines/1 against
	 * BM_FlushLines/1. */
	log->open_at = round_up(log->committed_to, ARCH_FLUSH_LINE);
	log->write_at = log->open_at + d->head_bytes;
	log->undo_last = UNDO_NONE;
	log->entries = 0;
	arch_store(&log->frees_a_run, 0);
	/* Acquire: orders the last reads of the log below the tail before our stores there.  Pairs
	 * with the release in room_give_back() (replay.c). */
	log->write_most = arch_load_acquire(&log->tail) + redo_room(log, d);
}

void redo_prefetch(const struct redo_log *log, const struct durability *d)
{
	enum { AHEAD_BYTES = 256 };
	for (uint64_t k = 0; k < AHEAD_BYTES; k += ARCH_FLUSH_LINE) {
		uint64_t at = place(d, log->committed_to + ARCH_FLUSH_LINE - 1 + k);
		arch_prefetch_to_write(log->written + at);
		arch_prefetch_to_write(log->undo + at);
	}
}

uint64_t redo_fits(const struct redo_log *log, const struct durability *d, uint64_t bytes)
{
	uint64_t to_end = d->super->log_bytes - place(d, log->write_at) - 8;
	if (bytes > MEDIA_ENTRY_MAX)
		bytes = MEDIA_ENTRY_MAX;
	return bytes < to_end ? bytes : to_end;
}

/* Store a word whole.  `from` may have any alignment and type. */
#define STORE_WORD(type, to, from)                                                                 \
	do {                                                                                       \
		type word;                                                                         \
		memcpy(&word, from, sizeof word);                                                  \
		__atomic_store_n((type *)(to), word, __ATOMIC_RELAXED);                            \
	} while (0)

/* A constant size compiles to one move; other sizes are rare. */
static inline void copy_bytes(void *to, const void *from, uint64_t bytes)
{
	switch (bytes) {
	case 8: STORE_WORD(uint64_t, to, from); break;
	case 4: STORE_WORD(uint32_t, to, from); break;
	case 2: STORE_WORD(uint16_t, to, from); break;
	case 1: STORE_WORD(uint8_t, to, from); break;
	default: memcpy(to, from, bytes);
	}
}

/* Store to the heap, in place.  Bodies may load from there meanwhile: they find that an update has
 * swept, and take no such word (INV-ST2).  ThreadSanitizer does not know that. */
static inline void store_in_place(void *to, const void *from, uint64_t bytes)
{
	if (ARCH_TSAN)
		redo_store_words(to, from, bytes);
	else
		copy_bytes(to, from, bytes);
}

/* Move the head over an entry that is about to be written.  False: the log has no room. */
static inline bool take_room(struct redo_log *log, const struct durability *d, uint64_t bytes)
{
	uint64_t end = log->write_at + media_entry_bytes(bytes);
	FUR_ASSERT(bytes >= 1 && bytes <= MEDIA_ENTRY_MAX);
	/* No entry wraps: redo_fits(). */
	FUR_ASSERT(place(d, log->write_at) + 8 + bytes <= d->super->log_bytes);
	if (end > log->write_most)
		return false;
	log->write_at = end;
	log->entries++;
	return true;
}

static inline void put_entry(struct redo_log *log, const struct durability *d, uint64_t position,
        uint64_t word, const void *from, uint64_t bytes)
{
	uint8_t *entry = log->written + place(d, position);
	memcpy(entry, &word, 8);
	copy_bytes(entry + 8, from, bytes);
}

static inline void keep_old(struct redo_log *log, const struct durability *d, uint64_t position,
        const void *to, uint64_t bytes)
{
	uint8_t *undo = log->undo + place(d, position);
	memcpy(undo, &log->undo_last, 8);
	copy_bytes(undo + 8, to, bytes);
	log->undo_last = position;
}

bool redo_append(struct redo_log *log, const struct durability *d, uint64_t heap_offset, void *to,
        const void *from, uint64_t bytes)
{
	uint64_t position = log->write_at, word = media_entry_word(heap_offset, bytes);
	if (!take_room(log, d, bytes))
		return false;
	if (log->kind == REDO_NOTES) {
		log->notes[log->entries - 1] = word;
	} else {
		put_entry(log, d, position, word, from, bytes);
		if (log->kind == REDO_UNDO)
			keep_old(log, d, position, to, bytes);
	}
	store_in_place(to, from, bytes);
	return true;
}

/* Append an entry of this word, and store nothing. */
static inline bool append_entry(struct redo_log *log, const struct durability *d, uint64_t word,
        const void *from, uint64_t bytes)
{
	uint64_t position = log->write_at;
	FUR_ASSERT(log->kind == REDO_UNDO);
	if (!take_room(log, d, bytes))
		return false;
	put_entry(log, d, position, word, from, bytes);
	return true;
}

bool redo_append_only(struct redo_log *log, const struct durability *d, uint64_t heap_offset,
        const void *from, uint64_t bytes)
{
	return append_entry(log, d, media_entry_word(heap_offset, bytes), from, bytes);
}

bool redo_append_range(
        struct redo_log *log, const struct durability *d, uint64_t heap_offset, uint64_t range)
{
	return append_entry(
	        log, d, media_entry_word(heap_offset, MEDIA_ENTRY_RANGE), &range, sizeof range);
}

bool redo_append_bulk(struct redo_log *log, const struct durability *d, uint64_t block,
        const struct media_bulk *bulk)
{
	/* A record begins on a line, so its first entry does not wrap. */
	FUR_ASSERT(log->entries == 0);
	return append_entry(log, d, media_entry_word(block, MEDIA_ENTRY_BULK), bulk, sizeof *bulk);
}

uint64_t redo_complete(struct redo_log *log, const struct durability *d, const uint8_t *heap)
{
	uint64_t position = log->open_at + d->head_bytes, limit = log->open_at + d->log_room;
	uint64_t heap_bytes = d->super->heap_bytes;
	for (uint64_t k = 0, n = arch_load(&log->entries); k < n; k++) {
		uint64_t word = arch_load(&log->notes[k]), bytes = media_entry_payload(word);
		uint64_t offset = media_entry_offset(word);
		/* If the transaction is doomed, the note may be any word (plant:
		 * note-not-checked). */
		if (bytes > heap_bytes || offset > heap_bytes - bytes)
			break;
		if (position + media_entry_bytes(bytes) > limit ||
		        place(d, position) + 8 + bytes > d->super->log_bytes)
			break;
		put_entry(log, d, position, word, heap + offset, bytes);
		position += media_entry_bytes(bytes);
	}
	return position;
}

void redo_store_words(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
	if (bytes <= 8 && (bytes & (bytes - 1)) == 0 && (uintptr_t)to % bytes == 0) {
		copy_bytes(to, from, bytes);
		return;
	}
	for (; bytes && (uintptr_t)to % 8; bytes--)
		__atomic_store_n(to++, *from++, __ATOMIC_RELAXED);
	for (; bytes >= 8; bytes -= 8, to += 8, from += 8) {
		uint64_t word;
		memcpy(&word, from, 8);
		__atomic_store_n((uint64_t *)(void *)to, word, __ATOMIC_RELAXED);
	}
	for (; bytes; bytes--)
		__atomic_store_n(to++, *from++, __ATOMIC_RELAXED);
}

/* The changed records of the bulk update whose record is open. */
static struct log_bulk bulk_of(const struct redo_log *log, const struct durability *d)
{
	struct log_entry e = {.bytes = 0};
	uint64_t word;
	const uint8_t *first = log->written + place(d, log->open_at + d->head_bytes);
	memcpy(&word, first, 8);
	FUR_ASSERT(log->entries && media_entry_payload(word) == MEDIA_ENTRY_BULK);
	memcpy(&e.bulk, first + 8, sizeof e.bulk);
	e.offset = media_entry_offset(word);
	e.bytes = e.bulk.bytes;
	return log_bulk_at(d->image, d->super->heap_bytes, &e);
}

static void store_bulk(const struct redo_log *log, const struct durability *d, uint8_t *heap)
{
	struct log_bulk bulk = bulk_of(log, d);
	while (log_bulk_next(&bulk))
		redo_store_words(heap + bulk.piece.offset, bulk.piece.payload, bulk.piece.bytes);
	FUR_ASSERT(!bulk.broken);
}

void redo_store_record(
        struct redo_log *log, const struct durability *d, uint8_t *heap, bool keep_undo)
{
	uint64_t position = log->open_at + d->head_bytes;
	while (position < log->write_at) {
		uint64_t at = place(d, position), word;
		memcpy(&word, log->written + at, 8);
		uint64_t bytes = media_entry_payload(word);
		uint8_t *to = heap + media_entry_offset(word);
		if (unlikely(bytes == MEDIA_ENTRY_PARTS)) /* the last one */
			break;
		position += media_entry_bytes(bytes);
		if (bytes == MEDIA_ENTRY_RANGE) /* stored already */
			continue;
		if (unlikely(bytes == MEDIA_ENTRY_BULK)) {
			FUR_ASSERT(!keep_undo);
			store_bulk(log, d, heap);
			continue;
		}
		if (keep_undo)
			keep_old(log, d, position - media_entry_bytes(bytes), to, bytes);
		redo_store_words(to, log->written + at + 8, bytes);
	}
}

void redo_visit(const struct redo_log *log, const struct durability *d,
        void (*visit)(void *arg, uint64_t heap_offset, uint64_t bytes), void *arg)
{
	uint64_t position = log->open_at + d->head_bytes;
	while (position < log->write_at) {
		uint64_t word;
		memcpy(&word, log->written + place(d, position), 8);
		const uint64_t bytes = media_entry_payload(word);
		if (bytes == MEDIA_ENTRY_PARTS) /* the last one */
			break;
		position += media_entry_bytes(bytes);
		if (bytes == MEDIA_ENTRY_BULK) {
			struct log_bulk bulk = bulk_of(log, d);
			while (log_bulk_next(&bulk))
				visit(arg, bulk.piece.offset, bulk.piece.bytes);
		} else if (bytes != MEDIA_ENTRY_RANGE) {
			visit(arg, media_entry_offset(word), bytes);
		}
	}
}

void redo_discard(struct redo_log *log, const struct durability *d)
{
	log->write_at = log->open_at + d->head_bytes;
	log->entries = 0;
}

void redo_undo(struct redo_log *log, const struct durability *d, uint8_t *heap)
{
	FUR_ASSERT(log->kind == REDO_UNDO);
	/* Newest first: if two stores went to one place, the record of the older one has the
	 * original value. */
	while (log->undo_last != UNDO_NONE) {
		const uint8_t *entry = log->written + place(d, log->undo_last),
		              *undo = log->undo + place(d, log->undo_last);
		uint64_t word;
		memcpy(&word, entry, 8);
		store_in_place(
		        heap + media_entry_offset(word), undo + 8, media_entry_payload(word));
		memcpy(&log->undo_last, undo, 8);
	}
	redo_discard(log, d);
}

void redo_put_head(struct redo_log *log, const struct durability *d, uint8_t *into,
        const struct media_claims *claims)
{
	if (d->head_bytes == 0)
		return;
	struct media_head head =
	        media_head_encode(d->super, (uint32_t)(log - d->redo), log->open_at, claims);
	memcpy(into + place(d, log->open_at), &head, sizeof head);
}

void redo_copy_out(struct redo_log *log, const struct durability *d, uint64_t start, uint64_t end)
{
	FUR_ASSERT(start <= end && end - start <= d->super->log_bytes);
	start += d->head_bytes;
	if (log->written == log->persistent || end <= start)
		return;
	struct log_ranges r = log_ranges_of(d->super, start, end);
	for (int k = 0; k < 2; k++)
		memcpy(log->persistent + r.place[k], log->written + r.place[k], r.bytes[k]);
}

bool redo_fits_slot(const struct redo_log *log, const struct durability *d)
{
	uint64_t bytes = log->write_at - log->open_at;
	return bytes > d->head_bytes && log_slot_holds(d->super, bytes) &&
	       place(d, log->open_at) + bytes <= d->super->log_bytes;
}

void redo_put_in_slot(const struct redo_log *log, const struct durability *d, uint8_t *slot,
        const struct media_claims *claims)
{
	uint8_t *to = slot + MEDIA_IN_SLOT;
	struct media_head head =
	        media_head_encode(d->super, (uint32_t)(log - d->redo), MEDIA_IN_SLOT, claims);
	memcpy(to, &head, sizeof head);
	uint64_t bytes = log->write_at - log->open_at;
	memcpy(to + sizeof head, log->written + place(d, log->open_at) + sizeof head,
	        bytes - sizeof head);
	/* No entry of an earlier record may follow: fur-check reads up to the first that makes no
	 * sense if the marker is lost. */
	memset(to + bytes, 0, d->super->slot_bytes - MEDIA_IN_SLOT - bytes);
}

int redo_write_out(struct redo_log *log, struct durability *d, uint64_t start, uint64_t end)
{
	struct log_ranges r = log_ranges_of(d->super, start, end);
	const uint64_t file = (uint64_t)(log->persistent - (const uint8_t *)d->words);
	int error = 0;
	for (int k = 0; k < 2 && !error; k++)
		error = pm_write(&d->pm, file + r.place[k], log->written + r.place[k], r.bytes[k]);
	return error;
}

void redo_flush(struct redo_log *log, struct durability *d, uint64_t start, uint64_t end)
{
	struct log_ranges r = log_ranges_of(d->super, start, end);
	for (int k = 0; k < 2; k++)
		pm_flush(&d->pm, log->persistent + r.place[k], r.bytes[k]);
}

int redo_make_room(struct redo_log *log, struct durability *d)
{
	struct arch_backoff backoff = {0};
	struct ship_patience patience = {0};
	uint64_t tail;
	/* Read the tail once per iteration, because a replay may move it at any time.  If the test
	 * below read it again, a replay could have emptied the log in between, and we would refuse
	 * an update that now fits. */
	while ((tail = arch_load_acquire(&log->tail)) + redo_room(log, d) <= log->write_most) {
		/* The log contains nothing but the open record, so no replay can make room. */
		if (tail >= log->committed_to)
			return fur_fail(FUR_ETOOBIG,
			        "an update does not fit the redo log of %llu bytes: make the "
			        "update smaller, or the logs larger, with fur-resize --log-bytes",
			        (unsigned long long)redo_room(log, d));
		/* A replayer moved the ring's tail, and died before it moved our log's tail.  Free
		 * the records that it has replayed. */
		if (ring_replayed(d, log->durts)) {
			arch_store_release(&log->tail, log->committed_to);
			continue;
		}
		int error = ship_replay(d, &backoff, &patience);
		if (error)
			return error;
	}
	log->write_most = tail + redo_room(log, d);
	return 0;
}
