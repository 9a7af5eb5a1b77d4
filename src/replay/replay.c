/* SPDX-License-Identifier: BSD-3-Clause
 *
 * replay.c - recovery after a failure, and replay alongside running transactions.
 *
 * A live replay replays what is durable.  A program's own threads replay a part when they need
 * room; fur-replayer, alongside a program, calls replay_live().
 *
 * Way 9, a live replay:
 *
 *     durability_replay()       lets one thread replay at a time, or calls fur-replayer
 *       replay_part()           bounds how much is replayed
 *         replay_most()         carries out the steps
 *           find_settled_end()  finds the first update that may be in flight
 *           make_durable()      persists markers and records, alongside another process
 *           apply_live()        claims in the trailer what it is about to replay
 *             apply_updates()   writes to the heap, in the order of the durTSs
 *           store_tail()        moves the tail on the medium, once the heap is durable
 *           room_give_back()    gives back the room in the ring and the logs
 *
 * replay_recover() decides everything before it writes to the heap, so that a heap that it refuses
 * stays as it was.
 *
 * Way 10, a recovery:
 *
 *     fur_open()                        opens the file
 *       open_heap()                     opens the heap
 *         heap_begin_opening()          puts the heap's parts together
 *           begin_parts()               takes the locks
 *             control_take()            takes the right to replay
 *         replay_unless_closed()        looks whether the heap was closed
 *           replay_recover()            recovers, in nine steps
 *             replay_recover_begin()    takes the first six
 *               recovery_examine()        looks at each update alone
 *                 recovery_measure()        1. measure how far markers reach, and the log they name
 *                 recovery_look()           2. look at each marker and its record alone
 *                 recovery_mend()           3. correct single bytes that make a marker valid
 *               recovery_judge()          4. judge: an update that names a lost one is lost
 *               recovery_refuse_damage()  5. refuse a heap that is provably damaged
 *               recovery_make_durable()   6. persist corrections, markers and records
 *             replay_recover_end()      takes the others
 *               recovery_populate()       7. map the heap's pages, if most will be written
 *               recovery_apply()          8. apply the kept updates, in order
 *               two_laps_on()             9. move the tail, two laps on
 *                 ring_restart()            lets updates draw durTSs from there
 *         heap_finish_opening()         lets updates begin
 *           start_working()             marks the heap as open
 *             durability_set_state()    durably
 */
#include "base/error.h"
#include "base/memory.h"
#include "base/probe.h"
#include "durability/async.h"
#include "durability/nondurable.h"
#include "durability/ship.h"
#include "file/heap_file.h"
#include "media/heap_layout.h"
#include "replay/apply.h"
#include "replay/group_notes.h"
#include "replay/inspect.h"
#include "replay/preload.h"
#include "replay/recovery.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Move the tail on the medium.  The first drain keeps INV-R1: it orders the heap's lines, for
 * everything below the new tail, before the tail.  The drain after the first copy orders the first
 * copy before the second.  So the two are at most one step apart, and a failure in between leaves
 * the older tail, from which a replay is right too. */
static int store_tail(struct durability *d, uint64_t tail)
{
	int error = pm_drain(&d->pm);
	for (int k = 0; k < 2 && !error; k++) {
		arch_store(&d->words->tail[k][0], media_tail_encode(tail));
		pm_flush(&d->pm, &d->words->tail[k][0], 8);
		error = pm_drain(&d->pm);
	}
	return error;
}

/* Start the write-back of a plausible marker and its record, including lines that a failed
 * fdatasync has left behind. */
static void marker_write_back(struct durability *d, const struct media_marker *m)
{
	const struct media_file file = durability_file(d);
	const struct log_ranges r = log_ranges_of(d->super, m->log_start, log_record_end(m));
	uint8_t *log = log_of_marker(&file, m);
	pm_flush_again(&d->pm, log_marker(&file, m->durts), sizeof *m);
	for (int k = 0; k < 2; k++)
		pm_flush_again(&d->pm, log + r.place[k], r.bytes[k]);
}

/* Keep INV-R6 for the valid markers of [from, to); without `verdicts` all markers are valid.  Two
 * kinds of records can still be in the caches, or on pages that a failed fdatasync has left behind:
 * every late one, because its thread has gone on without a drain (INV-AS1); and the newest one of
 * each thread.  A thread's older records that are not late were durable before it began that one,
 * because durability_persist() and durability_abort() return after a drain (plant:
 * late-not-written-back). */
static int make_durable(struct durability *d, uint64_t from, uint64_t to, const uint8_t *verdicts)
{
	const struct media_file file = durability_file(d);
	struct media_marker *newest = calloc(d->super->max_threads, sizeof *newest);
	FUR_ASSERT(from <= to && to - from <= d->super->ring_slots);
	if (!newest)
		return fur_fail(FUR_ENOMEM,
		        "no memory to replay the logs of %u threads: free some memory",
		        d->super->max_threads);
	for (uint64_t s = from; s < to; s++) {
		struct media_marker m;
		if ((!verdicts || verdicts[s - from] > INSPECT_BROKEN) &&
		        log_read_plausible(&file, s, &m)) {
			newest[m.thread] = m;
			if (m.kind & MEDIA_AFTER_ALL)
				marker_write_back(d, &m);
		}
	}
	for (uint32_t t = 0; t < d->super->max_threads; t++)
		if (newest[t].durts && !(newest[t].kind & MEDIA_AFTER_ALL))
			marker_write_back(d, &newest[t]);
	free(newest);
	return pm_drain(&d->pm);
}

/* ---------------------------------------------------------------- recovery */

/* Find how far markers reach in a share of the range, and how much log they name.  Does not check
 * checksums yet. */
static void measure_share(void *arg, unsigned n)
{
	struct recovery *w = arg;
	const struct media_file file = durability_file(w->d);
	uint64_t all = w->end_of_range - w->tail,
	         distance = UINT64_C(2) * preload_distance(w->d, PRELOAD_READS), end = w->tail,
	         log_bytes = 0;
	for (uint64_t s = w->tail + apply_share(all, n, w->threads),
	              to = w->tail + apply_share(all, n + 1, w->threads);
	        s < to; s++) {
		struct media_marker m;
		if (distance && s + distance < to)
			arch_prefetch(log_marker(&file, s + distance));
		if (!log_read_plausible(&file, s, &m))
			continue;
		log_bytes += m.log_bytes;
		end = s + 1;
	}
	w->measured[n].end = end;
	w->measured[n].log_bytes = log_bytes;
}

static void recovery_measure(struct recovery *w)
{
	w->threads = apply_threads(w->d, w->d->super->ring_slots * w->d->super->slot_bytes);
	apply_on_threads(w->threads, measure_share, w);
	for (unsigned n = 0; n < w->threads; n++) {
		w->log_bytes += w->measured[n].log_bytes;
		if (w->measured[n].end > w->end)
			w->end = w->measured[n].end;
	}
	w->threads = apply_threads(w->d, w->log_bytes);
}

static void populate_share(void *arg, unsigned n)
{
	const struct recovery *w = arg;
	/* A heap that grows has holes above its size now, and in the allocator's tables. */
	const struct durability *d = w->d;
	uint64_t tables = media_grows(d->super)
	                          ? header(d->image)->first_chunk * CHUNK_BYTES / MEDIA_PAGE_BYTES
	                          : 0,
	         pages = d->heap_bytes / MEDIA_PAGE_BYTES - tables,
	         from = apply_share(pages, n, w->threads),
	         to = apply_share(pages, n + 1, w->threads);
	madvise(d->image + (tables + from) * MEDIA_PAGE_BYTES, (to - from) * MEDIA_PAGE_BYTES,
	        MADV_POPULATE_WRITE);
}

/* If most pages of the heap will be written, map them all at once: a page fault for each costs more
 * than the replay itself. */
static void recovery_populate(struct recovery *w)
{
	enum { PAGE = 4096, LEAST_ENTRY = MEDIA_ENTRY_ALIGN };
	if (w->log_bytes / LEAST_ENTRY >= w->d->heap_bytes / PAGE / 2)
		apply_on_threads(w->threads, populate_share, w);
}

static uint8_t slot_look(const struct durability *d, uint64_t durts)
{
	const struct media_file file = durability_file(d);
	enum inspect_verdict verdict = inspect_look(&file, durts);
	return verdict == INSPECT_KEPT && apply_check(d, durts) ? RECOVERY_FORGED
	                                                        : (uint8_t)verdict;
}

static void look_at_share(void *arg, unsigned n)
{
	struct recovery *w = arg;
	const struct durability *d = w->d;
	uint64_t all = w->end - w->tail, from = w->tail + apply_share(all, n, w->threads),
	         to = w->tail + apply_share(all, n + 1, w->threads);
	struct preload preload;
	preload_begin(&preload, w->d, PRELOAD_READS, from, n == 0);
	for (uint64_t s = from; s < to; s++) {
		uint8_t *verdict = &w->verdicts[s - w->tail];
		preload_updates(&preload, s, to);
		*verdict = slot_look(d, s);
		preload_step(&preload, s + 1);
	}
	preload_end(&preload, to);
}

/* Look at each marker alone.  recovery_judge() checks the slots that it names. */
static void recovery_look(struct recovery *w)
{
	apply_on_threads(w->threads, look_at_share, w);
}

/* If exactly one change makes the marker of a slot valid, make it in the mapping.
 * recovery_take_mends_back() takes it back if the heap is refused. */
static void mend_slot(struct recovery *w, uint64_t durts, uint64_t *budget)
{
	const struct media_file file = durability_file(w->d);
	struct inspect_mend *m = &w->mends[w->mended];
	if (w->mended == MENDS_MOST || !inspect_find_mend(&file, durts, budget, m))
		return;
	inspect_apply_mend(&file, m, m->is);
	w->mended++;
	w->verdicts[durts - w->tail] = slot_look(w->d, durts);
	if (w->end <= durts)
		w->end = durts + 1;
}

/* Correct markers and records in which one byte is wrong.  A budget bounds the time, because a
 * power failure may leave a broken marker for each thread. */
static void recovery_mend(struct recovery *w)
{
	uint64_t budget = UINT64_C(1) << 31;
	for (uint64_t s = w->tail; s < w->end_of_range; s++)
		if (w->verdicts[s - w->tail] <= INSPECT_BROKEN &&
		        durability_marker(w->d, s)->checksum)
			mend_slot(w, s, &budget);
}

void recovery_take_mends_back(struct recovery *w)
{
	const struct media_file file = durability_file(w->d);
	while (w->mended) {
		const struct inspect_mend *m = &w->mends[--w->mended];
		inspect_apply_mend(&file, m, m->was);
	}
}

static int mends_make_durable(struct recovery *w)
{
	const struct media_file file = durability_file(w->d);
	for (unsigned k = 0; k < w->mended; k++)
		pm_flush(&w->d->pm, media_at(&file, w->mends[k].offset), w->mends[k].bytes);
	w->result->mended = w->mended;
	return w->mended ? pm_drain(&w->d->pm) : 0;
}

/* INV-R7: a thread has one update in flight, so a failure can tear no more markers than there are
 * threads; unless updates were late. */
static int recovery_refuse_broken(const struct recovery *w, uint64_t broken)
{
	const uint32_t threads = w->d->super->max_threads;
	if (broken <= threads || arch_load(&w->d->words->state) == MEDIA_OPEN_ASYNC)
		return 0;
	return fur_fail(FUR_ECORRUPT,
	        "%llu updates have a marker or log that does not check, and no more than %u can "
	        "have been in flight: the others had returned, and are damaged: restore the file "
	        "from a copy, or see fur-check",
	        (unsigned long long)broken, threads);
}

int recovery_judge(struct recovery *w)
{
	const struct media_file file = durability_file(w->d);
	uint64_t holes = 0, broken = 0;
	bool whole = true; /* every slot so far is kept, or an abort */
	w->result->holes = w->result->dropped = 0;
	for (uint64_t s = w->tail; s < w->end; s++) {
		uint8_t *verdict = &w->verdicts[s - w->tail];
		if (*verdict <= INSPECT_BROKEN) {
			holes++, broken += *verdict == INSPECT_BROKEN;
			whole = false;
			continue;
		}
		w->result->holes += holes;
		holes = 0;
		if (*verdict == INSPECT_ABORTED)
			continue;
		if (*verdict == INSPECT_DROPPED ||
		        !inspect_dependencies_kept(&file, w->tail, s, w->verdicts, whole)) {
			*verdict = INSPECT_DROPPED;
			whole = false;
			w->result->dropped++;
		} else if (*verdict == RECOVERY_FORGED) {
			return apply_check(w->d, s);
		}
	}
	return recovery_refuse_broken(w, broken);
}

static void damage_refuse_first(void *error, const struct inspect_damage *damage)
{
	if (*(int *)error == 0)
		*(int *)error = inspect_refuse(damage);
}

/* INV-R7.  Later updates may have read from the damaged one without naming it, because it was
 * durable.  So replaying them would leave a state of the heap that never existed. */
int recovery_refuse_damage(const struct recovery *w)
{
	const struct media_file file = durability_file(w->d);
	int damage = 0,
	    error = inspect_find_damage(&file, w->tail, w->verdicts, damage_refuse_first, &damage);
	return error ? error : damage;
}

/* Threads sort the entries of this many updates before they write them. */
enum { PART_UPDATES = 8192 };

static int recovery_apply(struct recovery *w)
{
	struct apply_basket *baskets = apply_baskets(w->threads);
	int error = 0;
	for (uint64_t from = w->tail, to; from < w->end && !error; from = to) {
		to = from + PART_UPDATES < w->end ? from + PART_UPDATES : w->end;
		error = apply_updates(w->d,
		        &(struct apply_range){from, to, w->d->image, &w->verdicts[from - w->tail],
		                w->threads, baskets},
		        w->result);
	}
	apply_free_baskets(baskets, w->threads);
	return error;
}

void recovery_examine(struct recovery *w)
{
	recovery_measure(w);
	recovery_look(w);
	recovery_mend(w);
}

/* Steps 1 to 5.  Writes nothing but corrections, and those to the mapping. */
static int recovery_decide(struct recovery *w)
{
	recovery_examine(w);
	int error = recovery_judge(w);
	return error ? error : recovery_refuse_damage(w);
}

int recovery_make_durable(struct recovery *w)
{
	FUR_ASSERT(w->tail <= w->end && w->end <= w->end_of_range);
	int error = mends_make_durable(w);
	return error ? error : make_durable(w->d, w->tail, w->end, w->verdicts);
}

/* Steps 1 to 6. */
static int recovery_begin(struct recovery *w)
{
	int error = recovery_decide(w);
	if (error) {
		recovery_take_mends_back(w); /* INV-R7: a heap that is refused stays as it was */
		return error;
	}
	return recovery_make_durable(w);
}

int recovery_new(struct durability *d, struct replay_result *result, struct recovery **recovery)
{
	const struct media_file file = durability_file(d);
	const uint64_t tail = ring_tail(d), slots = d->super->ring_slots;
	FUR_ASSERT(slots && (slots & (slots - 1)) == 0);
	memset(result, 0, sizeof *result);
	*recovery = NULL;
	struct recovery *w = calloc(1, sizeof *w);
	/* Zeroed: slots above the last marker are holes. */
	uint8_t *verdicts = calloc(1, slots);
	if (!w || !verdicts) {
		free(w);
		free(verdicts);
		return fur_fail(FUR_ENOMEM,
		        "no memory to recover a ring of %llu slots: free some memory",
		        (unsigned long long)slots);
	}
	*w = (struct recovery){.d = d,
	        .tail = tail,
	        .end = tail,
	        .verdicts = verdicts,
	        .result = result,
	        .began = arch_now_ns()};
	w->end_of_range = media_recovery_end(&file, tail);
	*recovery = w;
	return 0;
}

int replay_recover_begin(
        struct durability *d, struct replay_result *result, struct recovery **recovery)
{
	int error = recovery_new(d, result, recovery);
	if (!error)
		error = recovery_begin(*recovery);
	if (error && *recovery) {
		replay_recover_give_up(*recovery);
		*recovery = NULL;
	}
	return error;
}

uint64_t replay_recover_reach(const struct recovery *w)
{
	return w->end;
}

bool replay_recover_keeps(const struct recovery *w, uint64_t durts)
{
	return durts >= w->tail && durts < w->end && w->verdicts[durts - w->tail] == INSPECT_KEPT;
}

void replay_recover_give_up(struct recovery *w)
{
	free(w->verdicts);
	free(w);
}

/* Give all updates up that are not in the image.  INV-M2: every marker that was written lies below
 * tail + slots, because an update that draws a later durTS does not write its marker before the
 * tail has moved.  The second lap covers the durTSs that were drawn and not written. */
static int two_laps_on(struct recovery *w)
{
	const uint64_t tail = w->tail + 2 * w->d->super->ring_slots;
	const int error = store_tail(w->d, tail);
	if (!error)
		ring_restart(w->d, tail);
	return error;
}

int replay_recover_end(struct recovery *w)
{
	struct replay_result *result = w->result;
	recovery_populate(w);
	int error = recovery_apply(w);
	if (!error)
		error = two_laps_on(w);
	if (!error) /* a file that is refused stays as it was */
		preload_publish(w->d);
	result->ns = arch_now_ns() - w->began;
	replay_recover_give_up(w);
	return error;
}

int replay_recover_drop(struct recovery *w)
{
	const int error = two_laps_on(w);
	replay_recover_give_up(w);
	return error;
}

int replay_recover(struct durability *d, struct replay_result *result)
{
	struct recovery *w;
	int error = replay_recover_begin(d, result, &w);
	if (!error)
		error = replay_recover_end(w);
	FUR_PROBE4(recovery, result->updates, result->holes, result->dropped, error);
	return error;
}

int replay_skip(struct durability *d, uint64_t tail)
{
	const int error = store_tail(d, tail);
	if (!error)
		ring_restart(d, tail);
	return error;
}

/* -------------------------------------------------------------------- open */

int replay_begin_lap(struct durability *d)
{
	uint64_t tail = ring_tail(d) + d->super->ring_slots;
	int error = store_tail(d, tail);
	if (!error)
		ring_restart(d, tail);
	return error;
}

int replay_check_closed(const struct durability *d)
{
	const struct media_file file = durability_file(d);
	struct inspect_damage damage = {.proof = INSPECT_OUTRUN, .durts = ring_tail(d)};
	const struct media_trailer *trailer = media_trailer(&file);
	if (trailer && media_tail_decode(arch_load(&trailer->replaying), &damage.number) == 0 &&
	        damage.number > ring_tail(d))
		return inspect_refuse(&damage);
	for (uint64_t s = ring_tail(d); s < ring_tail(d) + d->super->ring_slots; s++) {
		const struct media_marker m = log_read_marker(&file, s);
		damage.number = m.durts;
		if (m.durts >= ring_tail(d) && log_marker_valid(&file, &m, m.durts))
			return inspect_refuse(&damage);
	}
	return 0;
}

int replay_may_recover(const struct durability *d)
{
	if (!d->ship.on || d->words->state == MEDIA_CLOSED) /* INV-SH4 */
		return 0;
	/* The state is that of the program that has ended: it stays true. */
	if (control_fenced(d->control))
		return fur_fail(FUR_EBUSY,
		        "another heap has taken this one's place in the shipping log: let it "
		        "follow that one, with fur-standby HEAP, and open that one");
	return fur_fail(FUR_EBUSY,
	        "the heap's updates are shipped, and the program that had it open has ended: "
	        "fur-ship HEAP recovers it, together with the shipping log, or tells if another "
	        "heap has taken its place");
}

/* -------------------------------------------------------------------- live */

/* Read a marker that the update has written whole.  Errors: FUR_EBUSY: it may be writing it;
 * FUR_ECORRUPT. */
static int read_whole(const struct durability *d, uint64_t durts, struct media_marker *m)
{
	const struct media_file file = durability_file(d);
	/* Acquire: orders this load before our loads of the marker's fields, the log and
	 * nondurable[].  Pairs with the release in ring_put_marker(), so all of them are at least
	 * as new as the durTS.  Otherwise we could take the fields of an older marker, or miss the
	 * owner's entry in nondurable[]. */
	if (arch_load_acquire(&durability_marker(d, durts)->durts) != durts)
		return FUR_EBUSY;
	*m = log_read_marker(&file, durts);
	if (log_marker_valid(&file, m, durts))
		return 0;
	/* Where commits write by system calls, the leader of a group may be copying the marker to
	 * the file just now, and in any order.  Alongside another process we cannot tell that from
	 * a damaged marker; that process can, when it replays by itself. */
	if (d->replays_for_worker || nondurable_any_has(d, durts) || async_may_be_late(d, durts))
		return FUR_EBUSY;
	/* nondurable_has() and async_may_be_late() load with acquire.  So we read the marker after
	 * the update has left nondurable[], and been flushed if it was late; then it is whole. */
	*m = log_read_marker(&file, durts);
	if (log_marker_valid(&file, m, durts))
		return 0;
	return fur_fail(FUR_ECORRUPT,
	        "the marker or log of update %llu has changed since it was written: close the "
	        "heap, and find out what overwrites memory or the file",
	        (unsigned long long)durts);
}

/* Read the marker of an update or abort that is durable: its owner keeps the durTS in nondurable[]
 * until it is.  A replayer alongside another process does not see nondurable[]: it waits only until
 * the marker is written, and make_durable() then makes it durable.  Errors: FUR_EBUSY: it is in
 * flight; FUR_ECORRUPT. */
static int read_settled(const struct durability *d, uint64_t durts, struct media_marker *m)
{
	const int error = read_whole(d, durts, m);
	if (error)
		return error;
	if (d->replays_for_worker) {
		/* INV-GU9.  Acquire: pairs with the release with which the program raises it. */
		bool unsettled = (m->kind & MEDIA_PART) &&
		                 durts >= arch_load_acquire(&d->control->parts_below);
		return unsettled ? FUR_EBUSY : 0;
	}
	/* INV-AS5.  A late update has left nondurable[] already.  A part leaves when it is settled
	 * (INV-GU9). */
	bool late =
	        (m->kind & MEDIA_AFTER_ALL) && !(m->kind & MEDIA_PART) && durts >= async_durable(d);
	return late || nondurable_has(d, m->thread, durts) ? FUR_EBUSY : 0;
}

/* What a live replay can replay now. */
struct settled {
	uint64_t end, log_bytes; /* below this durTS; and how much log that is */
	bool parts;              /* of updates over several heaps are among it */
};

/* Find the first update that may be in flight, or before which `most_bytes` of log lie: everything
 * below `end` can be replayed now. */
static int find_settled_end(
        struct durability *d, uint64_t tail, uint64_t most_bytes, struct settled *settled)
{
	int error = 0;
	uint64_t at = tail, most = tail + d->super->ring_slots;
	if (!d->replays_for_worker && ring_next(d) < most)
		most = ring_next(d);
	if (ship_acked(d) < most) /* INV-SH1 (plant: ship-no-leash) */
		most = ship_acked(d);
	struct preload preload;
	preload_begin(&preload, d, PRELOAD_READS, at, true);
	*settled = (struct settled){.end = tail};
	for (; at < most && settled->log_bytes < most_bytes; at++) {
		preload_updates(&preload, at, most);
		struct media_marker m;
		error = read_settled(d, at, &m);
		if (!error && log_marker_commits(&m))
			error = apply_check(d, at);
		if (error)
			break;
		settled->log_bytes += m.log_bytes;
		if (unlikely(m.kind & MEDIA_PART))
			settled->parts = true;
		preload_step(&preload, at + 1);
	}
	preload_end(&preload, at);
	if (error && error != FUR_EBUSY) /* INV-R3 */
		return error;
	settled->end = at;
	/* An update that could not become durable has also left nondurable[], after it set `failed`
	 * (INV-D5).  The acquires in read_settled() order our look at nondurable[] before this
	 * load of `failed`.  Without this check, half of such an update could reach the heap
	 * although no part of its log is durable. */
	return d->replays_for_worker ? 0 : durability_check(d);
}

static void room_give_back(
        struct durability *d, uint64_t tail, uint64_t end, const struct replay_result *result)
{
	const struct media_file file = durability_file(d);
	for (uint64_t s = tail; s < end; s++) {
		const struct media_marker m = log_read_marker(&file, s);
		if (log_marker_kind(&m) != MEDIA_COMMIT || m.thread >= d->super->max_threads)
			continue; /* an abort, or in its slot */
		/* Release: orders our last reads of the log before this store, after which the
		 * owner may overwrite it. */
		arch_store_release(&d->control->logs[m.thread].tail, log_record_end(&m));
		if (!d->replays_for_worker)
			arch_store_release(&d->redo[m.thread].tail, log_record_end(&m));
	}
	/* Release: orders our last reads of the markers before this store, after which updates may
	 * overwrite their slots. */
	ring_move_tail(d, end);
	preload_publish(d);
	control_publish(d, result->updates, result->entries);
}

void replay_copy_grow(struct durability *d)
{
	const uint64_t now = media_heap_bytes(d->super, d->words);
	if (now <= d->copy_bytes)
		return;
	if (d->copy_fd >= 0)
		d->copy_error =
		        heap_allocate_more(d->copy_fd, "the copy", d->super, d->copy_bytes, now);
	if (d->copy_error)
		d->copy = NULL;
	else
		d->copy_bytes = now;
}

static int apply_live(struct durability *d, uint64_t tail, const struct settled *settled,
        struct replay_result *result)
{
	const uint64_t end = settled->end;
	const struct media_file file = durability_file(d);
	struct media_trailer *trailer = media_trailer(&file);
	/* INV-M4.  Everything below `end` is durable, so the claim is true whenever it reaches the
	 * medium, and we need not wait for that.  The fence orders the store of the claim before
	 * the stores to the heap.  A copy of the file reads the trailer last, so its claim is at
	 * least as new as its heap.  Without the fence recovery could take a torn copy for a whole
	 * one. */
	if (trailer) {
		arch_store(&trailer->replaying, media_tail_encode(end));
		pm_flush(&d->pm, trailer, sizeof *trailer);
	}
	arch_fence_light();
	unsigned threads = apply_threads(d, settled->log_bytes);
	struct apply_basket *baskets = apply_baskets(threads);
	int error = apply_updates(
	        d, &(struct apply_range){tail, end, d->image, NULL, threads, baskets}, result);
	apply_free_baskets(baskets, threads);
	/* INV-B1: before the room of the records is given back. */
	if (!error && d->copy)
		replay_copy_grow(d);
	if (!error && d->copy)
		error = apply_to_copy(d, tail, end);
	/* Before the tail moves past a part, what it names is seen: store_tail() drains first.
	 * Otherwise a power failure could leave a heap that has replayed an update, and does not
	 * know it when another member is older. */
	if (!error && settled->parts)
		error = group_note_seen(d, tail, end);
	return error;
}

/* Replay until this many bytes of log are replayed, or no more is durable.  *bytes: how many were,
 * if it succeeds. */
static int replay_most(struct durability *d, uint64_t most_bytes, uint64_t *bytes)
{
	const uint64_t tail = ring_tail(d);
	struct settled settled = {.end = tail};
	struct replay_result result = {0};
	/* A full ring of late updates would otherwise wait for the next flush. */
	int error = !d->replays_for_worker && async_pending(d) ? async_try_flush(d) : 0;
	if (!error)
		error = find_settled_end(d, tail, most_bytes, &settled);
	const uint64_t end = settled.end;
	FUR_ASSERT(tail <= end && end - tail <= d->super->ring_slots);
	FUR_PROBE2(replay__begin, tail, end);
	if (!error && d->replays_for_worker && end > tail)
		error = make_durable(d, tail, end, NULL);
	if (!error && end > tail)
		error = apply_live(d, tail, &settled, &result);
	if (!error && end > tail)
		error = store_tail(d, end);
	if (!error && end > tail)
		room_give_back(d, tail, end, &result);
	FUR_PROBE4(replay__end, tail, end, result.updates, error);
	*bytes = settled.log_bytes;
	return error;
}

int replay_live(struct durability *d)
{
	uint64_t bytes;
	return replay_most(d, UINT64_MAX, &bytes);
}

/* For an update that needs room: it, and all that wait for room too, stand still meanwhile.  So
 * replay no more than a part; an update that needs more calls again.  A large part is cheaper: each
 * costs 3 microseconds, whatever is in it, and a line that several updates of a part store to is
 * flushed once.  But a page that this process has not stored to before costs a fault of a few
 * microseconds, and each entry may have its own.  So parts grow while they are short, and shrink
 * when one was long.
 * In SYNC each call waits three times for the disk, whatever it has replayed: parts would halve
 * the rate of 64 threads (measured).  And several threads share large batches only. */
static int replay_part(struct durability *d)
{
	enum { LEAST_BYTES = 16384, MOST_DOUBLED = 2, SHORT_NS = 30000, LONG_NS = 60000 };
	uint64_t bytes;
	if (pm_writes(&d->pm) || d->replay_options.threads > 1)
		return replay_live(d);
	if (d->super->log_bytes <= LEAST_BYTES) /* no log fills a larger part */
		return replay_most(d, LEAST_BYTES, &bytes);
	const uint64_t most = (uint64_t)LEAST_BYTES << d->part_doubled, began = arch_ticks();
	const int error = replay_most(d, most, &bytes);
	const uint64_t took = arch_ticks_to_ns(arch_ticks_between(began, arch_ticks()));
	if (took > LONG_NS && d->part_doubled)
		d->part_doubled--;
	else if (took < SHORT_NS && bytes >= most && d->part_doubled < MOST_DOUBLED)
		d->part_doubled++;
	return error;
}

const struct durability_ops replay_ops = {.replay = replay_part};
