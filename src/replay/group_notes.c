/* SPDX-License-Identifier: BSD-3-Clause
 *
 * group_notes.c - see group_notes.h.
 *
 * Decisions are in slots.  A new one takes a slot that no one needs: one that has none, or an old
 * one with a number below free_below.  A recovery that keeps no part only moves the end of the
 * newest decision up, if that ends where the recovery begins: so a heap may fail in its recoveries
 * as often as it likes.
 */
#include "replay/group_notes.h"
#include "base/error.h"

#include <string.h>

static void store_word(struct durability *d, uint64_t *at, uint64_t value)
{
	arch_store(at, media_tail_encode(value));
	pm_flush(&d->pm, at, sizeof *at);
}

static int store_word_durably(struct durability *d, uint64_t *at, uint64_t value)
{
	store_word(d, at, value);
	return pm_drain(&d->pm);
}

/* ------------------------------------------------------------ seen, opened */

void group_note_seen_part(struct durability *d, const struct media_part *part)
{
	const struct media_file file = durability_file(d);
	if (media_seen(&file, part->member) <= part->durts)
		store_word(d, &media_group_page(&file)->seen[part->member], part->durts + 1);
}

int group_note_seen(struct durability *d, uint64_t from, uint64_t to)
{
	const struct media_file file = durability_file(d);
	for (uint64_t s = from; s < to; s++) {
		struct media_marker m;
		struct media_parts_list list;
		if (!log_read_plausible(&file, s, &m) || !(m.kind & MEDIA_PART))
			continue;
		if (!log_read_parts(&file, &m, &list))
			return fur_fail(FUR_ECORRUPT,
			        "the list of parts of update %llu has changed since it was "
			        "written: close the heap, and find out what overwrites memory or "
			        "the file",
			        (unsigned long long)s);
		for (uint32_t k = 0; k < list.head.n; k++)
			if (k != list.head.mine)
				group_note_seen_part(d, &list.part[k]);
	}
	return 0;
}

bool group_opened_in_group(const struct durability *d)
{
	const struct media_file file = durability_file(d);
	return media_group_word(&media_group_page(&file)->opened, MEDIA_OPENED_IN_GROUP) !=
	       MEDIA_OPENED_ALONE;
}

int group_note_opened(struct durability *d, enum media_opened opened)
{
	const struct media_file file = durability_file(d);
	uint64_t *word = &media_group_page(&file)->opened;
	return arch_load(word) == media_tail_encode(opened) ? 0
	                                                    : store_word_durably(d, word, opened);
}

/* --------------------------------------------------------------- decisions */

static uint64_t free_below(const struct media_file *f)
{
	return media_group_word(&media_group_page(f)->free_below, 0);
}

static bool slot_is_free(const struct media_file *f, const struct media_decision *slot)
{
	uint64_t to;
	return !media_decision_valid(f->super, slot, &to) || slot->number < free_below(f);
}

/* The newest decision, and where it ends; NULL: there is none. */
static struct media_decision *newest_decision(const struct media_file *f, uint64_t *to)
{
	struct media_decision *newest = NULL;
	for (unsigned k = 0; k < media_decisions(f->super); k++) {
		struct media_decision *slot = media_decision_at(f, k);
		uint64_t end;
		if (!media_decision_valid(f->super, slot, &end) ||
		        (newest && slot->number < newest->number))
			continue;
		newest = slot;
		*to = end;
	}
	return newest;
}

/* Does the newest decision only get a later end?  It ends at the tail; or above, if the recovery
 * that has moved the end did not move the tail.  One that is of no use any more does not get into
 * use again: its slot may be taken. */
static bool only_extends(const struct media_file *f, const struct media_decision *newest,
        uint64_t to, const struct group_decision *decision)
{
	return newest && newest->number >= free_below(f) && newest->from < decision->tail &&
	       to >= decision->tail && !decision->any;
}

/* The slot for the decision; NULL: all are in use.  One that was written for this tail is of the
 * same range, and no one has relied on it yet. */
static struct media_decision *slot_for(
        const struct media_file *f, const struct group_decision *decision)
{
	uint64_t to;
	struct media_decision *oldest = NULL, *newest = newest_decision(f, &to);
	if (newest && newest->from >= decision->tail)
		return newest;
	for (unsigned k = 0; k < media_decisions(f->super); k++) {
		struct media_decision *slot = media_decision_at(f, k);
		if (!slot_is_free(f, slot))
			continue;
		if (!media_decision_valid(f->super, slot, &to))
			return slot;
		if (!oldest || slot->number < oldest->number)
			oldest = slot;
	}
	return oldest;
}

bool group_decision_fits(
        const struct durability *d, const struct group_decision *decision, bool another)
{
	const struct media_file file = durability_file(d);
	const struct media_decision *slot = NULL;
	unsigned others = 0;
	uint64_t to = 0;
	if (decision && !only_extends(&file, newest_decision(&file, &to), to, decision)) {
		slot = slot_for(&file, decision);
		if (!slot)
			return false;
	}
	for (unsigned k = 0; k < media_decisions(d->super); k++)
		others += media_decision_at(&file, k) != slot &&
		          slot_is_free(&file, media_decision_at(&file, k));
	return !another || others > 0;
}

/* Write a decision to a slot that no one needs. */
static void write_decision(struct durability *d, struct media_decision *slot, uint64_t number,
        const struct group_decision *decision)
{
	const uint64_t bits = d->super->ring_slots / 8;
	slot->number = number;
	slot->from = decision->tail;
	memcpy(slot->kept, decision->kept, bits);
	slot->checksum = media_decision_checksum(d->super, slot);
	arch_store(&slot->to, media_tail_encode(decision->to));
	pm_flush(&d->pm, slot, sizeof *slot + bits);
}

int group_note_decision(struct durability *d, const struct group_decision *decision)
{
	const struct media_file file = durability_file(d);
	uint64_t to = 0;
	struct media_decision *newest = newest_decision(&file, &to),
	                      *slot = slot_for(&file, decision);
	const uint64_t number = newest ? newest->number + 1 : 1;
	FUR_ASSERT(decision->tail < decision->to);
	if (only_extends(&file, newest, to, decision)) {
		store_word(d, &newest->to, decision->to);
		return 0;
	}
	FUR_ASSERT(slot != NULL);
	/* A recovery that kept nothing has moved the end, and then has not moved the tail: the new
	 * decision is the only one about these slots. */
	if (newest && newest != slot && to > decision->tail) {
		const int error = store_word_durably(d, &newest->to, decision->tail);
		if (error)
			return error;
	}
	write_decision(d, slot, number, decision);
	return 0;
}

void group_free_decisions(struct durability *d)
{
	const struct media_file file = durability_file(d);
	uint64_t to;
	const struct media_decision *newest = newest_decision(&file, &to);
	if (newest && newest->number >= free_below(&file))
		store_word(d, &media_group_page(&file)->free_below, newest->number + 1);
}
