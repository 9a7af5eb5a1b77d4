/* SPDX-License-Identifier: BSD-3-Clause
 *
 * replay.c - replay.h, done: recovery after a failure, and replay beside running transactions.
 */
#include "base/error.h"
#include "base/memory.h"
#include "durability/nondurable.h"
#include "replay/apply.h"
#include "replay/inspect.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Move the tail on the medium: INV-R1 is the first drain.  The second keeps the two copies one step
 * apart at most, so that a failure in between leaves an older tail that is right. */
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

/* The marker of a slot, read once: another process that may write the file cannot change it behind
 * our checks. */
static struct media_marker read_marker(const struct durability *d, uint64_t durts)
{
	return *durability_marker(d, durts);
}

/* Start the write-back of a plausible marker and its log, also of what a failed fdatasync has left
 * behind. */
static void write_out(struct durability *d, const struct media_marker *m)
{
	uint8_t *log = d->logs + m->thread * d->super->log_bytes;
	uint64_t place = m->log_start & (d->super->log_bytes - 1),
	         to_end = d->super->log_bytes - place;
	uint64_t first = m->log_bytes < to_end ? m->log_bytes : to_end;
	pm_flush_again(&d->pm, durability_marker(d, m->durts), sizeof *m);
	pm_flush_again(&d->pm, log + place, first);
	pm_flush_again(&d->pm, log, m->log_bytes - first);
}

/* INV-R6 for slots [from, to), of which those are meant that `verdicts`, if given, say are whole.
 * Only each thread's newest can be in the caches still: before it began that its older ones were
 * durable, for durability_commit() and durability_abort() return after a drain. */
static int make_durable(struct durability *d, uint64_t from, uint64_t to, const uint8_t *verdicts)
{
	struct media_marker *newest = calloc(d->super->max_threads, sizeof *newest);
	if (!newest)
		return fur_fail(FUR_ENOMEM,
		        "no memory to replay the logs of %u threads: free some memory",
		        d->super->max_threads);
	for (uint64_t s = from; s < to; s++) {
		const struct media_marker m = read_marker(d, s);
		if ((!verdicts || verdicts[s - from] > INSPECT_BROKEN) && m.durts == s &&
		        inspect_plausible(d->super, &m))
			newest[m.thread] = m;
	}
	for (uint32_t t = 0; t < d->super->max_threads; t++)
		if (newest[t].durts)
			write_out(d, &newest[t]);
	free(newest);
	return pm_drain(&d->pm);
}

/* More slots than this are not mended: where whole regions are gone, changing bytes is no use. */
enum { MOST_MENDS = 64 };

/* What recovery looks at: slots [tail, end), and what it has found.  Above `end` no slot of this
 * lap has been written. */
struct window {
	struct durability *d;
	uint64_t tail, end;
	uint64_t limit;     /* of the window: what lies above is given up, or of no lap at all */
	uint64_t log_bytes; /* at most, of all updates in it */
	uint8_t *verdicts;
	unsigned threads;
	struct {
		uint64_t end, log_bytes;
	} measured[REPLAY_THREADS_MOST];
	struct replay_result *result;
	struct inspect_mend mends[MOST_MENDS];
	unsigned mended;
};

/* A verdict on the way: valid, but with entries that make no sense. */
enum { FORGED = INSPECT_KEPT + 1 };

/* Which slots of a share of the ring have been written?  And how much log do they name, as far as
 * the markers alone can tell? */
static void measure_share(void *arg, unsigned n)
{
	struct window *w = arg;
	const struct durability *d = w->d;
	uint64_t slots = w->limit - w->tail, distance = 2 * d->replay_options.preload,
	         end = w->tail, log_bytes = 0;
	for (uint64_t s = w->tail + apply_share(slots, n, w->threads),
	              to = w->tail + apply_share(slots, n + 1, w->threads);
	        s < to; s++) {
		const struct media_marker m = read_marker(d, s);
		if (distance && s + distance < to)
			arch_prefetch(durability_marker(d, s + distance));
		if (m.durts != s || !inspect_plausible(d->super, &m))
			continue;
		log_bytes += m.log_bytes;
		end = s + 1;
	}
	w->measured[n].end = end;
	w->measured[n].log_bytes = log_bytes;
}

static void measure_window(struct window *w)
{
	w->threads = apply_threads(w->d, w->d->super->ring_slots * MEDIA_SLOT_BYTES);
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
	const struct window *w = arg;
	uint64_t pages = w->d->super->heap_bytes / MEDIA_PAGE_BYTES,
	         from = apply_share(pages, n, w->threads),
	         to = apply_share(pages, n + 1, w->threads);
	madvise(w->d->image + from * MEDIA_PAGE_BYTES, (to - from) * MEDIA_PAGE_BYTES,
	        MADV_POPULATE_WRITE);
}

/* Where most pages of the heap will be written, map them all at once: a page fault each costs more
 * than the replay itself. */
static void populate_image(struct window *w)
{
	enum { PAGE = 4096, LEAST_ENTRY = MEDIA_ENTRY_ALIGN };
	if (w->log_bytes / LEAST_ENTRY >= w->d->super->heap_bytes / PAGE / 2)
		apply_on_threads(w->threads, populate_share, w);
}

static uint8_t look(const struct durability *d, uint64_t durts)
{
	const struct media_file file = durability_file(d);
	enum inspect_verdict verdict = inspect_look(&file, durts);
	return verdict == INSPECT_KEPT && apply_check(d, durts) ? FORGED : (uint8_t)verdict;
}

/* Look at each marker of a share by itself. */
static void look_at_share(void *arg, unsigned n)
{
	struct window *w = arg;
	const struct durability *d = w->d;
	uint64_t slots = w->end - w->tail, from = w->tail + apply_share(slots, n, w->threads),
	         to = w->tail + apply_share(slots, n + 1, w->threads);
	for (uint64_t s = from; s < to; s++) {
		uint8_t *verdict = &w->verdicts[s - w->tail];
		apply_preload(d, s, to);
		*verdict = look(d, s);
	}
}

/* --------------------------------------------------------------- decisions */

/* If exactly one change makes the marker of a slot check, make it.  Taken back where the heap is
 * refused. */
static void mend_slot(struct window *w, uint64_t durts, uint64_t *budget)
{
	const struct media_file file = durability_file(w->d);
	struct inspect_mend *m = &w->mends[w->mended];
	if (w->mended == MOST_MENDS || !inspect_find_mend(&file, durts, budget, m))
		return;
	inspect_apply_mend(&file, m, m->is);
	w->mended++;
	w->verdicts[durts - w->tail] = look(w->d, durts);
	if (w->end <= durts)
		w->end = durts + 1;
}

/* What no failure of power can have torn, and what may be whole but for a byte.  A budget bounds
 * the time: a power failure may leave a broken marker for each thread. */
static void mend(struct window *w)
{
	uint64_t budget = UINT64_C(1) << 31;
	for (uint64_t s = w->tail; s < w->limit; s++)
		if (w->verdicts[s - w->tail] <= INSPECT_BROKEN &&
		        durability_marker(w->d, s)->checksum)
			mend_slot(w, s, &budget);
}

static void take_mends_back(struct window *w)
{
	const struct media_file file = durability_file(w->d);
	while (w->mended)
		w->mended--,
		        inspect_apply_mend(&file, &w->mends[w->mended], w->mends[w->mended].was);
}

static int make_mends_durable(struct window *w)
{
	for (unsigned k = 0; k < w->mended; k++)
		pm_flush(&w->d->pm, (uint8_t *)w->d->words + w->mends[k].offset, w->mends[k].bytes);
	w->result->mended = w->mended;
	return w->mended ? pm_drain(&w->d->pm) : 0;
}

/* INV-R7: a thread has one update in flight, so no more markers than threads can be torn by a
 * failure. */
static int refuse_broken(const struct window *w, uint64_t broken)
{
	const uint32_t threads = w->d->super->max_threads;
	if (broken <= threads)
		return 0;
	return fur_fail(FUR_ECORRUPT,
	        "%llu updates have a marker or log that does not check, and no more than %u can "
	        "have been in flight: the others "
	        "had returned, and are damaged: restore the file from a copy, or see fur-check",
	        (unsigned long long)broken, threads);
}

/* Decide about every slot, upwards: what depends on one that is lost is lost. */
static int judge(struct window *w)
{
	const struct media_file file = durability_file(w->d);
	uint64_t holes = 0, broken = 0;
	for (uint64_t s = w->tail; s < w->end; s++) {
		uint8_t *verdict = &w->verdicts[s - w->tail];
		if (*verdict <= INSPECT_BROKEN) {
			holes++, broken += *verdict == INSPECT_BROKEN;
			continue;
		}
		w->result->holes += holes;
		holes = 0;
		if (*verdict == INSPECT_ABORTED)
			continue;
		if (!inspect_dependencies_kept(&file, w->tail, s, w->verdicts)) {
			*verdict = INSPECT_DROPPED;
			w->result->dropped++;
		} else if (*verdict == FORGED) {
			return apply_check(w->d, s);
		}
	}
	return refuse_broken(w, broken);
}

static void refuse_first(void *error, const struct inspect_damage *damage)
{
	if (*(int *)error == 0)
		*(int *)error = inspect_refuse(damage);
}

/* INV-R7.  Updates that came later may have read the one that is damaged without naming it, for it
 * was durable: to replay them would leave a heap that never was. */
static int refuse_damage(const struct window *w)
{
	const struct media_file file = durability_file(w->d);
	int damage = 0,
	    error = inspect_find_damage(&file, w->tail, w->verdicts, refuse_first, &damage);
	return error ? error : damage;
}

/* Threads sort the entries of so many slots before they write them. */
enum { PART_SLOTS = 8192 };

static int apply_window(struct window *w)
{
	struct apply_basket *baskets = apply_baskets(w->threads);
	int error = 0;
	for (uint64_t from = w->tail, to; from < w->end && !error; from = to) {
		to = from + PART_SLOTS < w->end ? from + PART_SLOTS : w->end;
		error = apply_updates(w->d,
		        &(struct apply_range){
		                from, to, &w->verdicts[from - w->tail], w->threads, baskets},
		        w->result);
	}
	apply_free_baskets(baskets, w->threads);
	return error;
}

static int decide(struct window *w)
{
	measure_window(w);
	apply_on_threads(w->threads, look_at_share, w);
	mend(w);
	int error = judge(w);
	return error ? error : refuse_damage(w);
}

/* All is decided before anything is written: a heap that is refused (INV-R7) stays as it was. */
static int replay_window(struct window *w)
{
	int error = decide(w);
	if (error) {
		take_mends_back(w);
		return error;
	}
	error = make_mends_durable(w);
	if (!error)
		error = make_durable(w->d, w->tail, w->end, w->verdicts);
	if (error)
		return error;
	populate_image(w);
	return apply_window(w);
}

int replay_recover(struct durability *d, struct replay_result *result)
{
	const struct media_file file = durability_file(d);
	uint64_t started = arch_now_ns(), tail = d->tail, slots = d->super->ring_slots;
	memset(result, 0, sizeof *result);
	struct window *w = calloc(1, sizeof *w);
	/* Zeroed: above the last marker there are holes. */
	uint8_t *verdicts = calloc(1, slots);
	int error = w && verdicts
	                    ? 0
	                    : fur_fail(FUR_ENOMEM,
	                              "no memory to recover a ring of %llu slots: free some memory",
	                              (unsigned long long)slots);
	if (!error) {
		*w = (struct window){
		        .d = d, .tail = tail, .end = tail, .verdicts = verdicts, .result = result};
		w->limit = media_window_end(&file, tail);
		error = replay_window(w);
	}
	free(verdicts);
	free(w);
	/* INV-M2: markers written lie below tail + slots, for a drawn slot beyond is not written
	 * before the tail has moved. */
	if (!error)
		error = store_tail(d, tail + 2 * slots);
	if (!error)
		d->tail = d->next_durts = tail + 2 * slots;
	result->ns = arch_now_ns() - started;
	return error;
}

int replay_begin_lap(struct durability *d)
{
	uint64_t tail = d->tail + d->super->ring_slots;
	int error = store_tail(d, tail);
	if (!error)
		d->tail = d->next_durts = tail;
	return error;
}

int replay_check_closed(const struct durability *d)
{
	const struct media_file file = durability_file(d);
	struct inspect_damage damage = {.proof = INSPECT_OUTRUN, .durts = d->tail};
	const struct media_trailer *trailer = media_trailer(&file);
	if (trailer && media_tail_decode(arch_load(&trailer->replaying), &damage.number) == 0 &&
	        damage.number > d->tail)
		return inspect_refuse(&damage);
	for (uint64_t s = d->tail; s < d->tail + d->super->ring_slots; s++) {
		const struct media_marker m = read_marker(d, s);
		damage.number = m.durts;
		if (m.durts >= d->tail && inspect_valid(&file, &m, m.durts))
			return inspect_refuse(&damage);
	}
	return 0;
}

int replay_unless_closed(struct durability *d, struct replay_result *result, bool *recovered)
{
	memset(result, 0, sizeof *result);
	*recovered = d->words->state != MEDIA_CLOSED;
	return *recovered ? replay_recover(d, result) : replay_check_closed(d);
}

/* -------------------------------------------------------------------- live */

/* Is the update or abort of this slot durable?  Its owner leaves the slot in nondurable[] until it
 * is.  Beside another process we do not see that: there it is enough that the marker is written,
 * and write_out() makes it durable. */
static bool settled(const struct durability *d, uint64_t durts)
{
	const struct media_marker *m = durability_marker(d, durts);
	/* Acquire pairs with put_marker(): the fields below, the log, and the owner's
	 * entry in nondurable[], are at least as new. */
	if (arch_load_acquire(&m->durts) != durts)
		return false;
	if (d->beside)
		return true;
	uint16_t thread = __atomic_load_n(&m->thread, __ATOMIC_RELAXED);
	return thread < d->super->max_threads && !nondurable_has(d, thread, durts);
}

/* How far can we replay now? */
static int find_end(struct durability *d, uint64_t tail, uint64_t *end, uint64_t *log_bytes)
{
	const struct media_file file = durability_file(d);
	int error;
	uint64_t at = tail, limit = tail + d->super->ring_slots;
	if (!d->beside && arch_load(&d->next_durts) < limit)
		limit = arch_load(&d->next_durts);
	for (; at < limit; at++) {
		apply_preload(d, at, limit);
		if (!settled(d, at))
			break; /* INV-R3 */
		const struct media_marker m = read_marker(d, at);
		if (!inspect_valid(&file, &m, at))
			return fur_fail(FUR_ECORRUPT,
			        "the marker or log of update %llu has changed since it was "
			        "written: close the heap, and find "
			        "who overwrites memory or the file",
			        (unsigned long long)at);
		if (m.kind == MEDIA_COMMIT && (error = apply_check(d, at)))
			return error;
		*log_bytes += m.log_bytes;
	}
	*end = at;
	/* An update that could not be made durable has left nondurable[], too, after it had set
	 * `failed` (INV-D5).  The acquires above keep this load behind what we saw of that.
	 * Without it a half of such an update could reach the heap, and nothing the log. */
	return d->beside ? 0 : durability_check(d);
}

static void give_back_room(
        struct durability *d, uint64_t tail, uint64_t end, const struct replay_result *result)
{
	for (uint64_t s = tail; s < end; s++) {
		const struct media_marker m = read_marker(d, s);
		if (m.kind != MEDIA_COMMIT || m.thread >= d->super->max_threads)
			continue;
		/* Release: the log is read for the last time before its owner may overwrite it. */
		arch_store_release(&d->control->logs[m.thread].tail, inspect_end(&m));
		if (!d->beside)
			arch_store_release(&d->redo[m.thread].tail, inspect_end(&m));
	}
	/* Release: the markers likewise, before their slots are drawn again. */
	arch_store_release(&d->tail, end);
	control_publish(d, result->updates, result->entries);
}

static int apply_live(struct durability *d, uint64_t tail, uint64_t end, uint64_t log_bytes,
        struct replay_result *result)
{
	const struct media_file file = durability_file(d);
	struct media_trailer *trailer = media_trailer(&file);
	/* INV-M4.  All below `end` is durable, so the claim is true whenever it reaches the medium;
	 * nothing waits for that.  The fence: the claim is stored before the heap changes, so that
	 * a copy which reads the trailer last finds it at least as new as the heap. */
	if (trailer) {
		arch_store(&trailer->replaying, media_tail_encode(end));
		pm_flush(&d->pm, trailer, sizeof *trailer);
	}
	arch_fence_light();
	unsigned threads = apply_threads(d, log_bytes);
	struct apply_basket *baskets = apply_baskets(threads);
	int error =
	        apply_updates(d, &(struct apply_range){tail, end, NULL, threads, baskets}, result);
	apply_free_baskets(baskets, threads);
	return error;
}

int replay_live(struct durability *d)
{
	uint64_t tail = d->tail, end = tail, log_bytes = 0;
	struct replay_result result = {0};
	int error = find_end(d, tail, &end, &log_bytes);
	if (!error && d->beside && end > tail)
		error = make_durable(d, tail, end, NULL);
	if (!error && end > tail)
		error = apply_live(d, tail, end, log_bytes, &result);
	if (!error && end > tail)
		error = store_tail(d, end);
	if (!error && end > tail)
		give_back_room(d, tail, end, &result);
	return error;
}

const struct durability_ops replay_ops = {.replay = replay_live};
