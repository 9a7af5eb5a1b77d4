/* SPDX-License-Identifier: BSD-3-Clause
 *
 * images.c - save lines, find what a snapshot sees of them, and give images back (images.h).
 */
#include "stm/images.h"
#include "base/checker.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/probe.h"
#include "base/spin_lock.h"
#include "durability/nondurable.h"
#include "stm/draw_lock.h"
#include "stm/stamps.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
	LINE = 1 << FUR_STAMP_LINE_SHIFT,
	/* Images of one snapshot that one thread saves.  Whole pages, so that they can be given
	 * back to the kernel. */
	SEGMENT = 512,
	/* The last snapshot gives the memory back to the kernel at most so often.  Updates beside
	 * snapshots that begin and end all the time would otherwise spend their time in page faults
	 * (half of it, beside a scan of 10 million entries). */
	KEEP_NS = 1000000000,
	SET_WORDS = 7, /* and a number: a line of the processor */
	SET_LINES = 64 * SET_WORDS,
	NUMBER_SHIFT = 32 /* of a link: the number above, the image below; 0: there is none */
};

/* In lock.snapshot: this snapshot begins, and its `last` is not known yet. */
static const uint64_t BEGINS = UINT64_C(1) << 63;

/* Which of some neighbouring lines are saved (INV-SN8).  The chains' heads tell that for all lines,
 * but they take fifty times the room: updates all over the heap find them in no cache. */
struct saved_set {
	uint64_t number; /* the snapshot for which the bits are */
	uint64_t bits[SET_WORDS];
};

struct images {
	/* Of the newest snapshot, and lock.snapshot before it began */
	uint64_t last, before;
	/* Each durTS up to this one is settled, or late */
	uint64_t settled;
	/* No thread saves for a snapshot of a lower number (INV-SN9) */
	uint64_t saves_from;
	uint64_t *heads; /* [lines of the heap at its largest] links to the newest images */
	/* [segments * SEGMENT].  A thread that reads a snapshot which is revoked meanwhile may load
	 * what another one stores there. */
	uint64_t (*saved)[LINE / 8];
	uint64_t *older;        /* [segments * SEGMENT] links */
	struct saved_set *sets; /* [lines / SET_LINES + 1] */
	uint64_t lines, segments;
	uint64_t numbers; /* given out since none was open */
	uint64_t revoked; /* since the heap was opened */
	struct fur_snapshot open[SNAPSHOTS_MOST];
	/* 1: a thread looks at segments, or changes them, or what follows from them */
	uint64_t lock ARCH_PADDED;
	uint64_t used, touched; /* segments in use; ever in use, since none was open */
	uint64_t *number;       /* [segments] the snapshot's; 0: free */
	uint32_t *free;         /* [segments] free ones below `touched` */
	uint64_t n_free;
	uint64_t freed_at;   /* when all memory was given back last, in ticks */
	uint64_t gives_back; /* 1: a thread is about to give it back */
};

static uint64_t link_to(uint64_t number, uint64_t image)
{
	return number << NUMBER_SHIFT | image;
}

static uint64_t link_number(uint64_t link)
{
	return link >> NUMBER_SHIFT;
}

static uint64_t link_image(uint64_t link)
{
	return (uint32_t)link;
}

/* ------------------------------------------------------------------ memory */

static uint64_t sets_bytes(const struct images *m)
{
	return (m->lines / SET_LINES + 1) * sizeof *m->sets;
}

static void free_images(struct images *m)
{
	memory_unmap(m->sets, sets_bytes(m));
	memory_unmap(m->heads, m->lines * sizeof *m->heads);
	memory_unmap(m->saved, m->segments * SEGMENT * sizeof *m->saved);
	memory_unmap(m->older, m->segments * SEGMENT * sizeof *m->older);
	free(m->number);
	free(m->free);
	free(m);
}

void images_free(struct engine *e)
{
	if (e->images)
		free_images(e->images);
	e->images = NULL;
}

/* Reserve memory for as many images as fit `bytes`, unless that is done.  The caller has the turn.
 * Errors: FUR_ENOMEM. */
static int make_images(struct engine *e, uint64_t bytes)
{
	if (e->images)
		return 0;
	struct images *m = memory_padded(sizeof *m);
	if (!m)
		return fur_fail(FUR_ENOMEM, "no memory for a snapshot: free some");
	const uint64_t each = SEGMENT * (sizeof *m->saved + sizeof *m->older);
	m->lines = e->durability->super->heap_bytes / LINE;
	m->segments = bytes / each ? bytes / each : 1;
	/* An image's number in a link has 32 bits; image 0 is none. */
	if (m->segments > UINT32_MAX / SEGMENT)
		m->segments = UINT32_MAX / SEGMENT;
	m->sets = memory_map(sets_bytes(m));
	m->heads = memory_map(m->lines * sizeof *m->heads);
	m->saved = memory_map(m->segments * SEGMENT * sizeof *m->saved);
	m->older = memory_map(m->segments * SEGMENT * sizeof *m->older);
	m->number = calloc(m->segments, sizeof *m->number);
	m->free = calloc(m->segments, sizeof *m->free);
	if (m->sets && m->heads && m->saved && m->older && m->number && m->free) {
		/* Release: fur_get_stats() may look at any time. */
		__atomic_store_n(&e->images, m, __ATOMIC_RELEASE);
		return 0;
	}
	free_images(m);
	return fur_fail(FUR_ENOMEM,
	        "no address space for snapshots: raise the limit (RLIMIT_AS, ulimit -v), or make "
	        "fur_options.snapshot_bytes smaller");
}

static void lock_segments(struct images *m)
{
	spin_lock(&m->lock, (struct arch_backoff){0});
}

static void unlock_segments(struct images *m)
{
	spin_unlock(&m->lock);
}

/* INV-SN6 (model: FREEEARLY, FREENONE).  `oldest`: the number of the oldest snapshot that is open
 * and not revoked.  What a thread may still save for one that has ended stays: it has the segment
 * (model: FREEINUSE). */
static void free_older_than(struct images *m, uint64_t oldest)
{
	const uint64_t least = oldest < m->saves_from ? oldest : m->saves_from;
	for (uint64_t s = 0; s < m->touched; s++) {
		if (m->number[s] == 0 || m->number[s] >= least)
			continue;
		madvise(m->saved[s * SEGMENT], SEGMENT * sizeof *m->saved, MADV_DONTNEED);
		madvise(&m->older[s * SEGMENT], SEGMENT * sizeof *m->older, MADV_DONTNEED);
		m->number[s] = 0;
		m->free[m->n_free++] = (uint32_t)s;
		m->used--;
	}
}

/* No snapshot is open, and no thread saves.  The caller has the turn.
 * Returns: how many images the caller is to give back to the kernel; 0: they stay, with numbers
 *          that are older than those of the next snapshots. */
static uint64_t free_all(struct engine *e)
{
	struct images *m = e->images;
	const uint64_t now = arch_ticks(), images = m->touched * SEGMENT;
	const bool stays = m->numbers < UINT32_MAX / 2 &&
	                   arch_ticks_between(m->freed_at, now) < arch_ns_to_ticks(KEEP_NS);
	memset(m->number, 0, m->touched * sizeof *m->number);
	m->used = m->n_free = 0;
	for (; stays && m->n_free < m->touched; m->n_free++)
		m->free[m->n_free] = (uint32_t)m->n_free;
	if (stays || images == 0)
		return 0;
	m->freed_at = now;
	m->touched = m->numbers = m->saves_from = 0;
	/* The next snapshots have the same numbers again. */
	for (uint64_t i = 0; i < arch_load(&e->durability->limit); i++)
		e->threads[i].saver = (struct saver){0};
	arch_store(&m->gives_back, 1);
	return images;
}

/* Without the turn, because it may take milliseconds.  No snapshot begins meanwhile. */
static void give_back(struct images *m, uint64_t images)
{
	madvise(m->sets, sets_bytes(m), MADV_DONTNEED);
	madvise(m->heads, m->lines * sizeof *m->heads, MADV_DONTNEED);
	madvise(m->saved, images * sizeof *m->saved, MADV_DONTNEED);
	madvise(m->older, images * sizeof *m->older, MADV_DONTNEED);
	/* Release: the chains are empty before the next snapshot begins. */
	arch_store_release(&m->gives_back, 0);
}

static bool gives_back(const struct engine *e)
{
	return e->images && arch_load_acquire(&e->images->gives_back);
}

/* ---------------------------------------------------------------- snapshots */

/* The oldest snapshot that is open and not revoked, or NULL. */
static struct fur_snapshot *oldest_of(struct images *m)
{
	struct fur_snapshot *oldest = NULL;
	for (struct fur_snapshot *s = m->open; s < m->open + SNAPSHOTS_MOST; s++)
		if (s->number && !s->revoked && (!oldest || s->number < oldest->number))
			oldest = s;
	return oldest;
}

/* A place for another snapshot, or NULL. */
static struct fur_snapshot *free_place(struct images *m)
{
	struct fur_snapshot *s = m->open;
	while (s < m->open + SNAPSHOTS_MOST && s->number)
		s++;
	return s == m->open + SNAPSHOTS_MOST || m->numbers == UINT32_MAX ? NULL : s;
}

static bool has_images(struct images *m)
{
	/* After the look at lock.snapshot, which a thread clears while it has this lock. */
	lock_segments(m);
	const bool has = m->used != 0;
	unlock_segments(m);
	return has;
}

/* The updates up to `last` have ended, and those that save for a snapshot before `from`. */
static void note_settled(struct images *m, uint64_t last, uint64_t from)
{
	lock_segments(m);
	/* Release: who finds it finds what those updates stored (images_await()). */
	if (arch_load(&m->settled) < last)
		arch_store_release(&m->settled, last);
	/* Release: no thread saves for an older one any more (has_sets()). */
	if (arch_load(&m->saves_from) < from)
		arch_store_release(&m->saves_from, from);
	unlock_segments(m);
}

/* INV-SN9: the updates that the newest snapshot shows have ended.  The caller has the turn. */
static void await_newest(struct engine *e)
{
	struct images *m = e->images;
	const uint64_t newest = arch_load(&e->lock.snapshot);
	if (newest && arch_load(&m->settled) < m->last)
		nondurable_wait_upto(e->durability, m->last);
	if (!newest && has_images(m)) {
		/* All are revoked.  Who saves for one of them has found that before it was so.
		 * Full fence: orders our look at the word before that at those that publish, which
		 * have said so before they looked at it. */
		arch_fence();
		updates_await(e);
	}
	note_settled(m, newest ? m->last : 0, newest ? newest : m->numbers + 1);
}

/* This aborts the updates in hardware that have looked at the word. */
static void say_that_it_begins(struct engine *e, struct fur_snapshot *s)
{
	struct images *m = e->images;
	*s = (struct fur_snapshot){.engine = e, .number = ++m->numbers};
	arch_store(&m->before, arch_load(&e->lock.snapshot));
	arch_store(&e->lock.snapshot, BEGINS | s->number);
}

static void choose_last(struct fur_snapshot *s)
{
	/* INV-SN2: an update that draws a durTS above `last` finds the word that we have stored
	 * before (plant: snapshot-last-first; model: LASTFIRST). */
	s->last = ring_next_drawn(s->engine->durability) - 1;
	/* Release: `before` first (saves_for()). */
	arch_store_release(&s->engine->images->last, s->last);
}

/* A snapshot of each heap.  The caller has all turns, and all that earlier snapshots show has
 * ended.  All begin before one has its `last`: an update that comes after the instant in one
 * heap has returned only when it is chosen in all, so none that follows comes before it in
 * another (plant: snapshot-instants-apart).  The draw locks: an update over several heaps comes
 * before it in all, or after it in all (plant: snapshot-splits-group). */
static void begin_all(struct engine *const *engines, unsigned n, struct fur_snapshot **s)
{
	for (unsigned k = 0; k < n && n > 1; k++)
		draw_lock(engines[k]);
	/* So that no thread finds that no snapshot is left, and clears the word (make_room). */
	for (unsigned k = 0; k < n; k++)
		lock_segments(engines[k]->images);
	for (unsigned k = 0; k < n; k++)
		say_that_it_begins(engines[k], s[k]);
	FUR_POINT(snapshot__begins);
	for (unsigned k = 0; k < n; k++)
		choose_last(s[k]);
	/* Release: `last` and `before` before the number, which tells that they are known. */
	for (unsigned k = 0; k < n; k++)
		arch_store_release(&engines[k]->lock.snapshot, s[k]->number);
	FUR_POINT(snapshot__begun);
	for (unsigned k = 0; k < n; k++)
		unlock_segments(engines[k]->images);
	for (unsigned k = 0; k < n && n > 1; k++)
		draw_unlock(engines[k]);
}

void images_await(struct engine *e, const struct fur_snapshot *s)
{
	/* The updates that the snapshot shows have announced themselves before the instant (plant:
	 * snapshot-not-durable). */
	if (updates_run_in(e) != SOFTWARE) /* they may draw after the instant */
		nondurable_wait_announced(e->durability);
	else if (arch_load_acquire(&e->images->settled) < s->last)
		nondurable_wait_upto(e->durability, s->last);
	note_settled(e->images, s->last, s->number);
}

/* The caller has the turn.  Returns: as free_all(). */
static uint64_t close_snapshot(struct fur_snapshot *s)
{
	struct engine *e = s->engine;
	struct images *m = e->images;
	bool any = false;
	FUR_ASSERT(arch_load(&e->lock.taken) != TURN_FREE);
	lock_segments(m);
	s->number = 0;
	const struct fur_snapshot *oldest = oldest_of(m);
	for (const struct fur_snapshot *o = m->open; o < m->open + SNAPSHOTS_MOST; o++)
		any |= o->number != 0;
	/* Full fence: orders the word before updates_await()'s look at those that publish.  An
	 * update says that it publishes, a full fence, and then looks at the word. */
	if (!oldest)
		arch_store_fence(&e->lock.snapshot, 0);
	else
		free_older_than(m, oldest->number);
	unlock_segments(m);
	if (any)
		return 0;
	/* Who has found the number may still save (model: FREEALLEARLY). */
	updates_await(e);
	lock_segments(m);
	const uint64_t images = free_all(e);
	unlock_segments(m);
	return images;
}

/* *s: a place for the heap's snapshot, for which there is memory. */
static int prepare_one(struct engine *e, struct fur_snapshot **s)
{
	const int error = make_images(e, e->snapshot_bytes);
	if (error)
		return error;
	await_newest(e);
	*s = free_place(e->images);
	return *s ? 0
	          : fur_fail(FUR_EBUSY, "%d snapshots of this heap are open: end one first",
	                    SNAPSHOTS_MOST);
}

/* Take the turns of all heaps, so that no other snapshot begins, and a place for one in each.
 * Updates that publish beside each other go on.  Wait for what must end in one heap before the next
 * turn is taken: an update that publishes in the first may wait for that (INV-GU3). */
static int take_turns(struct engine *const *engines, unsigned n, struct fur_snapshot **s)
{
	struct arch_backoff backoff = {0};
	for (;;) {
		bool free = true; /* the memory of earlier snapshots is given back */
		int error = 0;
		for (unsigned k = 0; k < n; k++) {
			turn_take(engines[k]);
			free = free && !gives_back(engines[k]);
			if (free && !error)
				error = prepare_one(engines[k], &s[k]);
		}
		if (likely(free) || error)
			return error;
		for (unsigned k = 0; k < n; k++)
			turn_give(engines[k]);
		arch_backoff(&backoff);
	}
}

int images_open(struct engine *const *engines, unsigned n, struct fur_snapshot **s)
{
	const int error = take_turns(engines, n, s);
	if (!error)
		begin_all(engines, n, s);
	for (unsigned k = 0; k < n; k++)
		turn_give(engines[k]);
	return error;
}

void images_close(struct fur_snapshot *s)
{
	struct engine *e = s->engine;
	turn_take(e);
	const uint64_t images = close_snapshot(s);
	turn_give(e);
	if (images)
		give_back(e->images, images);
}

/* INV-SN7 */
static void revoke(struct engine *e, struct fur_snapshot *s)
{
	struct images *m = e->images;
	/* Full fence: orders the word before our look at the threads.  A reader of the snapshot
	 * sets its bound by a full fence, and then looks at the word: one of us sees the other
	 * (model: BEGINBLIND, BOUNDFIRST). */
	arch_store_fence(&s->revoked, 1);
	m->revoked++;
	for (uint64_t i = 0; i < arch_load(&e->durability->limit); i++)
		arch_store(&e->threads[i].reader.view.bound, 0);
	/* Before our stores, which the snapshot cannot see. */
	arch_fence_light();
}

/* --------------------------------------------------------------------- save */

static bool segments_are_full(const struct images *m)
{
	return m->n_free == 0 && m->touched == m->segments;
}

/* Make room for a segment, if need be.  False: there is no snapshot left to save for. */
static bool make_room(struct engine *e)
{
	struct images *m = e->images;
	struct fur_snapshot *oldest;
	while ((oldest = oldest_of(m)) && segments_are_full(m)) {
		free_older_than(m, oldest->number);
		if (segments_are_full(m))
			revoke(e, oldest);
	}
	if (!oldest)
		arch_store(&e->lock.snapshot, 0);
	return oldest;
}

/* A segment for the images of this snapshot.  False: there is no snapshot left to save for. */
static bool take_segment(struct fur_thread *t, uint64_t number)
{
	struct images *m = t->engine->images;
	lock_segments(m);
	const bool room = make_room(t->engine);
	if (room) {
		const uint64_t s = m->n_free ? m->free[--m->n_free] : m->touched++;
		m->number[s] = number;
		m->used++;
		t->saver = (struct saver){number, s * SEGMENT, (s + 1) * SEGMENT};
	}
	unlock_segments(m);
	return room;
}

static struct saved_set *set_of(const struct images *m, uint64_t line)
{
	return &m->sets[line / SET_LINES];
}

/* While threads may save for two snapshots, none uses the sets (INV-SN8; model: SETSBESIDE). */
static bool has_sets(const struct images *m, uint64_t number)
{
	return arch_load_acquire(&m->saves_from) == number;
}

/* Is the line saved for this snapshot, as far as its set tells? */
static bool is_in_set(const struct images *m, uint64_t number, uint64_t line)
{
	const struct saved_set *set = set_of(m, line);
	const uint64_t bit = line % SET_LINES;
	/* Acquire: the number before the bits, which are of an older snapshot otherwise (plant:
	 * snapshot-set-stale; model: SETSTALE). */
	return arch_load_acquire(&set->number) == number &&
	       arch_load(&set->bits[bit / 64]) >> bit % 64 & 1;
}

/* The line is saved.  If another thread adds another line to the set meanwhile, one of the bits may
 * be lost.  Then the line's chain tells that it is saved. */
static void add_to_set(struct images *m, uint64_t number, uint64_t line)
{
	struct saved_set *set = set_of(m, line);
	const uint64_t bit = line % SET_LINES;
	uint64_t *word = &set->bits[bit / 64];
	if (arch_load_acquire(&set->number) != number) {
		for (int k = 0; k < SET_WORDS; k++)
			arch_store(&set->bits[k], 0);
		/* Release: the bits before the number (plants: snapshot-set-number-first,
		 * snapshot-set-unordered; model: NUMBERFIRST). */
		arch_store_release(&set->number, number);
	}
	/* Release: the image, and the version, before the bit.  Otherwise an update that finds the
	 * bit could store before a reader can find the image. */
	arch_store_release(word, arch_load(word) | UINT64_C(1) << bit % 64);
}

/* An image of the line, before the one to which `newest` leads.  False: there is no snapshot
 * left. */
static bool add_image(struct fur_thread *t, uint64_t number, uint64_t line, uint64_t newest)
{
	struct images *m = t->engine->images;
	struct saver *saver = &t->saver;
	if ((saver->number != number || saver->next == saver->end) && !take_segment(t, number))
		return false;
	const uint64_t image = saver->next++;
	const uint64_t *from = (const uint64_t *)(const void *)(t->update.base + line * LINE);
	for (uint64_t k = 0; k < LINE / 8; k++)
		arch_store(&m->saved[image][k], checker_load(&from[k]));
	arch_store(&m->older[image], newest);
	FUR_POINT(line__saved);
	/* Release: the image is whole when a reader finds it (plant: snapshot-torn;
	 * model: TORN). */
	arch_store_release(&m->heads[line], link_to(number, image + 1));
	stat_add(&t->stats.saved_lines, 1);
	return true;
}

/* INV-SN4 (model: NOTRAISED, RAISEDEARLY) */
static void raise_version(struct fur_thread *t, uint64_t line)
{
	struct images *m = t->engine->images;
	uint64_t *stamp = stamp_of(t->engine, t->update.base + line * LINE);
	if (arch_load(&m->settled) < m->last) {
		nondurable_wait_upto(t->durability, m->last);
		/* Release: as in note_settled(). */
		arch_store_release(&m->settled, m->last);
	}
	if (arch_load(stamp) < m->last)
		arch_store(stamp, m->last);
}

/* The snapshot for which an update saves lines (INV-SN2); 0: there is none.  durts: 0: it has the
 * turn, so no snapshot begins. */
static uint64_t saves_for(const struct engine *e, uint64_t durts)
{
	const struct images *m = e->images;
	struct arch_backoff backoff = durability_backoff(e->durability);
	uint64_t newest;
	/* Acquire: the number before `last`, and below that before `before`.  It waits for a few
	 * instructions of the thread that begins a snapshot. */
	while ((newest = arch_load_acquire(&e->lock.snapshot)) & BEGINS)
		arch_backoff(&backoff);
	if (!newest || !durts)
		return newest;
	/* They may be those of the next snapshot, which shows this update then, and `before` is
	 * `newest`: `last` is stored after `before`. */
	return durts > arch_load_acquire(&m->last) ? newest : arch_load(&m->before);
}

/* INV-SN1: save the line unless that is done.  False: there is no snapshot left. */
static bool save_line(struct fur_thread *t, uint64_t number, uint64_t line, bool stamped)
{
	struct images *m = t->engine->images;
	const bool sets = has_sets(m, number);
	if (sets && is_in_set(m, number, line))
		return true;
	const uint64_t newest = arch_load(&m->heads[line]);
	if (link_number(newest) < number) {
		if (!stamped)
			raise_version(t, line);
		if (!add_image(t, number, line, newest))
			return false;
	}
	if (sets)
		add_to_set(m, number, line);
	return true;
}

struct save_to {
	struct fur_thread *t;
	uint64_t number; /* 0: for no snapshot */
	bool stamped;
};

static void save_range(void *arg, uint64_t offset, uint64_t bytes)
{
	struct save_to *to = arg;
	for (uint64_t line = offset / LINE;
	        to->number && bytes && line <= (offset + bytes - 1) / LINE; line++)
		if (!save_line(to->t, to->number, line, to->stamped))
			to->number = 0;
	/* Images before stores, and the version too: a reader that loads what we store then finds
	 * that it must look at the chain, and the image there (plant: snapshot-saves-late;
	 * model: SAVELATE, RAISEDLATE). */
	arch_fence_light();
}

void images_save(struct fur_thread *t, const void *at, uint64_t bytes)
{
	struct save_to to = {t, saves_for(t->engine, 0), false};
	save_range(&to, (uint64_t)((const uint8_t *)at - t->update.base), bytes);
}

void images_save_record(struct fur_thread *t, bool stamped)
{
	struct save_to to = {t, saves_for(t->engine, t->window.commit.durts), stamped};
	redo_visit(t->update.log, t->durability, save_range, &to);
}

/* Save the line in hardware.  The image, its place in the chain, and the version become visible
 * with the update's stores, so no fence orders them.  A publication that holds the line's stamp, or
 * saves the line, changes what we have looked at, and so aborts us; or it has done so before, and
 * we wait for it when we commit (INV-SW4).  False: the thread needs another segment. */
static bool save_line_tracked(struct fur_thread *t, uint64_t number, uint64_t line)
{
	struct images *m = t->engine->images;
	const struct saver *saver = &t->saver;
	const uint64_t newest = arch_load(&m->heads[line]);
	if (link_number(newest) >= number)
		return true;
	if (saver->number != number || saver->next == saver->end)
		return false;
	/* INV-SN4, without a wait: while updates run in hardware, no transaction tells by versions
	 * from whom it has read, and none does later before all these are settled (INV-UR2,
	 * INV-UR3). */
	uint64_t *stamp = stamp_of(t->engine, t->update.base + line * LINE);
	if (arch_load(stamp) < m->last)
		arch_store(stamp, m->last);
	return add_image(t, number, line, newest);
}

bool images_save_tracked(struct fur_thread *t, const void *at, uint64_t bytes)
{
	const uint64_t number = arch_load(&t->engine->lock.snapshot),
	               offset = (uint64_t)((const uint8_t *)at - t->update.base);
	for (uint64_t line = offset / LINE; line <= (offset + bytes - 1) / LINE; line++)
		if (!save_line_tracked(t, number, line))
			return false;
	return true;
}

/* --------------------------------------------------------------------- load */

/* The image of the line that the snapshot sees, or 0: it sees the line itself (INV-SN3).  Along a
 * chain the numbers fall.  If they do not, the snapshot is revoked, and others use its images: the
 * chain may lead anywhere, also in a circle. */
static uint64_t find_image(const struct images *m, uint64_t number, uint64_t line)
{
	uint64_t found = 0, newer = UINT64_MAX;
	/* Acquire: pairs with the release in save_line(). */
	uint64_t link = arch_load_acquire(&m->heads[line]);
	while (link_number(link) >= number && link_number(link) < newer) {
		newer = link_number(link);
		found = link_image(link);
		link = arch_load(&m->older[found - 1]);
	}
	return found;
}

bool images_load(const struct fur_thread *t, const struct fur_snapshot *s, uint8_t *to,
        const uint8_t *from, uint64_t bytes)
{
	const struct images *m = s->engine->images;
	const uint64_t offset = (uint64_t)(from - t->update.base);
	checker_copy(to, from, bytes);
	/* The bytes before the chain (INV-SN3; plant: snapshot-head-first; model: HEADFIRST). */
	arch_fence_light();
	const uint64_t image = find_image(m, s->number, offset / LINE);
	if (image)
		checker_copy(to, (const uint8_t *)m->saved[image - 1] + offset % LINE, bytes);
	/* All that before the look whether it was good (INV-SN7; model: REVOKEDFIRST). */
	arch_fence_light();
	return !images_revoked(s);
}

struct image_counts images_count(const struct engine *e)
{
	struct image_counts c = {0};
	struct images *m = __atomic_load_n(&e->images, __ATOMIC_ACQUIRE);
	if (!m)
		return c;
	lock_segments(m);
	for (unsigned k = 0; k < SNAPSHOTS_MOST; k++)
		c.open += m->open[k].number != 0;
	c.bytes = m->used * SEGMENT * (sizeof *m->saved + sizeof *m->older);
	c.revoked = m->revoked;
	unlock_segments(m);
	return c;
}
