/* SPDX-License-Identifier: BSD-3-Clause
 *
 * undo.c - the old bytes of a transaction's stores outside the heap, and of those in the heap that
 * an inner block may cancel.
 */
#include "itm.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_BYTES = 1024, WORD = 8 };

void *itm_bytes_add(struct itm_bytes *log, size_t bytes)
{
	if (unlikely(log->room - log->used < bytes)) {
		size_t room = log->room ? 2 * log->room : FIRST_BYTES;
		while (room - log->used < bytes)
			room *= 2;
		uint8_t *at = realloc(log->at, room);
		if (!at)
			itm_fail(FUR_ENOMEM, "no memory for what a transaction must be able to "
			                     "undo: make the transaction smaller");
		log->at = at;
		log->room = room;
	}
	uint8_t *added = log->at + log->used;
	log->used += bytes;
	return added;
}

static size_t round_up(size_t bytes)
{
	return (bytes + WORD - 1) & ~(size_t)(WORD - 1);
}

/* Returns: where the old bytes go. */
static uint8_t *add_record(struct itm_thread *t, const void *to, size_t bytes)
{
	size_t padded = round_up(bytes);
	uint8_t *record = itm_bytes_add(&t->undo, padded + sizeof(struct itm_undo));
	/* Our own frame is below those of the transaction. */
	struct itm_undo end = {
	        (uint8_t *)(uintptr_t)to, bytes, itm_in_frames(t, to, __builtin_frame_address(0))};
	memcpy(record + padded, &end, sizeof end);
	return record;
}

void itm_undo_note(struct itm_thread *t, const void *to, size_t bytes)
{
	memcpy(add_record(t, to, bytes), to, bytes);
}

void itm_undo_heap(struct itm_thread *t, const void *to, size_t bytes)
{
	uint8_t *old = add_record(t, to, bytes);
	if (t->body->software)
		fur_load_update(t->update, old, to, bytes);
	else
		memcpy(old, to, bytes);
}

/* The record that ends at `end`. */
static struct itm_undo record_before(const struct itm_thread *t, size_t end)
{
	struct itm_undo record;
	memcpy(&record, t->undo.at + end - sizeof record, sizeof record);
	return record;
}

/* Is the memory no more that the record is of?  Then the rollback's own frames may lie there. */
static bool is_gone(const struct itm_thread *t, const struct itm_undo *record, uintptr_t stack)
{
	if (record->in_frame)
		return (uintptr_t)record->to < stack;
	return stack == UINTPTR_MAX && itm_in_stack(t, record->to);
}

void itm_undo_back(struct itm_thread *t, size_t until, uintptr_t stack, bool heap)
{
	while (t->undo.used > until) {
		struct itm_undo record = record_before(t, t->undo.used);
		t->undo.used -= round_up(record.bytes) + sizeof record;
		const uint8_t *old = t->undo.at + t->undo.used;
		if (!record.to)
			continue;
		if (itm_in_heap(t, record.to)) {
			/* If the whole transaction is undone, libfur does this. */
			if (heap)
				fur_write(t->update, record.to, old, record.bytes);
		} else if (!is_gone(t, &record, stack)) {
			memcpy(record.to, old, record.bytes);
		}
	}
}

/* The part of the record's bytes that lies in [from, from + bytes) is not undone any more. */
static void forget_part(struct itm_thread *t, size_t place, const uint8_t *from, size_t bytes)
{
	struct itm_undo record;
	memcpy(&record, t->undo.at + place, sizeof record);
	uint8_t *old = t->undo.at + place - round_up(record.bytes), *low = record.to,
	        *high = record.to + record.bytes;
	if (low < from)
		low = (uint8_t *)(uintptr_t)from;
	if (high > from + bytes)
		high = (uint8_t *)(uintptr_t)(from + bytes);
	if (low >= high)
		return;
	if ((size_t)(high - low) < record.bytes) {
		memcpy(old + (low - record.to), low, (size_t)(high - low));
		return;
	}
	/* Its bytes stay in the log, so that the records before it are found. */
	record.to = NULL;
	memcpy(t->undo.at + place, &record, sizeof record);
}

void itm_undo_forget(struct itm_thread *t, const void *from, size_t bytes)
{
	for (size_t end = t->undo.used; end;) {
		size_t place = end - sizeof(struct itm_undo);
		size_t length = record_before(t, end).bytes;
		forget_part(t, place, from, bytes);
		end = place - round_up(length);
	}
}
