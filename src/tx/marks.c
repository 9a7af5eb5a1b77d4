/* SPDX-License-Identifier: BSD-3-Clause
 *
 * marks.c - the marks of the records of a bulk update (marks.h).
 */
#include "tx/marks.h"
#include "tx/active.h"

/* The first extent that ends above `at`, or marks->n. */
static uint64_t extent_above(const struct marks *marks, uintptr_t at)
{
	uint64_t low = 0, high = marks->n;
	while (low < high) {
		uint64_t mid = low + (high - low) / 2;
		if (marks->extents[mid].end <= at)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Set the marks of the extent's records between `from` and `end`, which overlap the extent.  A
 * record's gap up to the next one counts as the record: a mark too many costs one more map. */
static void set_marks(const struct marks_extent *e, uintptr_t from, uintptr_t end, bool always)
{
	uint64_t k = from <= e->from ? 0 : (from - e->from) / e->stride,
	         last = (end < e->end ? end : e->end) - 1 - e->from;
	for (last /= e->stride; k <= last; k++) {
		/* With the turn, or beside others, we may trust a mark that is set: if it is being
		 * taken back, the bulk update waits for us before it reads (marks_sync).  It does
		 * not wait for a hardware update, and a rollback-only one does not track the load;
		 * so that one's store tells. */
		if (always || !__atomic_load_n(&e->mark[k], __ATOMIC_RELAXED))
			__atomic_store_n(&e->mark[k], 1, __ATOMIC_RELAXED);
	}
}

static void mark_range(const struct marks *marks, uintptr_t from, uintptr_t end, bool hardware)
{
	for (uint64_t i = extent_above(marks, from); i < marks->n && marks->extents[i].from < end;
	        i++)
		set_marks(&marks->extents[i], from, end, hardware);
}

void marks_note(const struct fur_update *tx, const void *to, uint64_t bytes)
{
	const struct marks *marks = marks_of(tx->thread->engine);
	const bool hardware = tx->mode == TX_HARDWARE;
	if (!marks)
		return;
	mark_range(marks, (uintptr_t)to, (uintptr_t)to + bytes, hardware);
	/* Orders the marks before the caller's stores.  Otherwise the bulk update could read a
	 * half-stored record, and then find no mark (plant: mark-after-store). */
	if (!hardware)
		arch_fence_light();
}

void marks_note_writes(const struct fur_thread *t)
{
	const struct marks *marks = marks_of(t->engine);
	const struct write_set *set = &t->software.writes;
	if (likely(!marks))
		return;
	const bool hardware = t->window.publishes_software;
	for (uint32_t i = 0; i < set->n; i++) {
		const uintptr_t word = (uintptr_t)set->words[i].word;
		mark_range(marks, word, word + 8, hardware);
	}
	arch_fence_light(); /* as in marks_note() */
}

void marks_sync(struct engine *e)
{
	/* The read-modify-write that takes the turn orders our stores before it: an update that
	 * takes the turn after us sees them. */
	turn_take_alone(e);
	turn_give(e);
}

/* Updates that see the old value of `marks` end, or store no more. */
static void wait_for_old_marks(struct fur_thread *t)
{
	struct engine *e = t->engine;
	/* Hardware updates with tracked loads are aborted by the change.  Rollback-only ones are
	 * in active[] until they have made their stores.  One that commits later is aborted if we
	 * load a word that it has stored to, and if it is visible before, we load its value. */
	if (e->updates_active)
		active_wait_outside(e, t->index, false);
	marks_sync(e);
}

void marks_begin(struct fur_thread *t, struct marks *marks)
{
	/* Full fence: orders the pointer before our scan of active[].  An update also enters
	 * active[] by a full fence, and then looks at the pointer: one of us sees the other. */
	arch_store_fence(&t->engine->lock.marks, (uintptr_t)marks);
	wait_for_old_marks(t);
}

void marks_end(struct fur_thread *t)
{
	arch_store_fence(&t->engine->lock.marks, 0);
	wait_for_old_marks(t);
}
