/* SPDX-License-Identifier: BSD-3-Clause
 *
 * async.c - the flush that makes late updates durable (async.h), and the threads that flush and
 * replay.
 */
#include "durability/async.h"
#include "base/error.h"
#include "base/thread.h"
#include "durability/nondurable.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------- flush */

uint8_t *async_slot(const struct durability *d, uint64_t durts)
{
	return d->async.slots + (durts & (d->super->ring_slots - 1)) * d->super->slot_bytes;
}

/* Is the slot in DRAM that of this late update, and complete?  Acquire pairs with the release in
 * commit_put_slot(): the flush writes the whole slot. */
static bool slot_complete(const struct durability *d, uint64_t durts)
{
	const struct media_marker *m = (const struct media_marker *)(void *)async_slot(d, durts);
	return arch_load_acquire(&m->durts) == durts;
}

/* Is the marker of this durTS in the file?  Acquire pairs with the release in ring_put_marker(). */
static bool marker_put(const struct durability *d, uint64_t durts)
{
	return arch_load_acquire(&durability_marker(d, durts)->durts) == durts;
}

/* SYNC: write the complete slots from `from` on to the file, neighbours by one system call; those
 * between them that are durable need nothing.  Returns the first durTS that is neither. */
static int write_slots(struct durability *d, uint64_t from, uint64_t most, uint64_t *end)
{
	const uint64_t slots = d->super->ring_slots;
	uint64_t at = from;
	int error = 0;
	while (at < most && !error) {
		uint64_t run = at;
		while (run < most && slot_complete(d, run) &&
		        (run == at || (run & (slots - 1)) != 0))
			run++;
		if (run > at) {
			error = pm_write(&d->pm,
			        (uint64_t)((const uint8_t *)durability_marker(d, at) -
			                   (const uint8_t *)d->words),
			        async_slot(d, at), (run - at) * d->super->slot_bytes);
			at = run;
		} else if (marker_put(d, at) && !nondurable_any_has(d, at)) {
			at++;
		} else {
			break;
		}
	}
	*end = at;
	return error;
}

/* Write back the marker of this durTS, and its record.  It may be replayed meanwhile, by another
 * process, and its slot may be written for a later lap: then it is durable, and the write-back of
 * other lines does no harm. */
static void write_back(struct durability *d, uint64_t durts)
{
	const struct media_file file = durability_file(d);
	struct media_marker m;
	if (log_read_plausible(&file, durts, &m) && m.kind != MEDIA_ABORT) {
		struct log_ranges r = log_ranges_of(d->super, m.log_start, log_record_end(&m));
		const uint8_t *log = log_of_thread(&file, m.thread);
		for (int k = 0; k < 2; k++)
			pm_flush(&d->pm, log + r.place[k], r.bytes[k]);
	}
	pm_flush(&d->pm, durability_marker(d, durts), sizeof m);
}

/* The other domains: start the write-backs.  A marker that is put is complete; whether its owner is
 * writing it back too does not matter. */
static void write_back_markers(struct durability *d, uint64_t from, uint64_t most, uint64_t *end)
{
	uint64_t at = from;
	for (; at < most && marker_put(d, at); at++)
		write_back(d, at);
	*end = at;
}

/* Everything below the tail is replayed, and durable. */
static uint64_t first_not_durable(const struct durability *d)
{
	uint64_t durable = arch_load(&d->async.durable), tail = control_newest_tail(d);
	return durable > tail ? durable : tail;
}

/* Under `flushing`. */
static int flush(struct durability *d)
{
	uint64_t from = first_not_durable(d), end = from, next = ring_next_acquire(d),
	         most = next < from + d->super->ring_slots ? next : from + d->super->ring_slots;
	int error = durability_check(d);
	if (error)
		return error;
	if (pm_writes(&d->pm))
		error = write_slots(d, from, most, &end);
	else
		write_back_markers(d, from, most, &end);
	if (!error && end > from)
		error = pm_drain(&d->pm);
	if (error)
		durability_fail(d, error);
	/* An update that could not become durable has left nondurable[] after it set `failed`
	 * (INV-D5), and nondurable_any_has() loads with acquire.  So if write_slots() has passed
	 * such an update, we find `failed` here, and `durable` does not cover it. */
	if (!error)
		error = durability_check(d);
	/* Release: a thread that sees `durable` comes after the drain. */
	if (!error)
		arch_store_release(&d->async.durable, end);
	return error;
}

/* End the flush, and wake the threads that wait for the next one. */
static void flush_over(struct durability *d)
{
	pthread_mutex_unlock(&d->async.flushing);
	/* Ordered: after the unlock.  A thread that finds the mutex locked has read `flushes`
	 * before; if it sleeps now, it finds another number, or we wake it. */
	arch_fetch_add32(&d->async.flushes, 1);
	if (arch_load32_ordered(&d->async.sleepers))
		arch_futex_wake_all(&d->async.flushes);
	/* Ordered, after the unlock: see other_process_replays(). */
	if (arch_load32_ordered(&d->async.awaited))
		control_call(d->control);
}

int async_try_flush(struct durability *d)
{
	if (pthread_mutex_trylock(&d->async.flushing))
		return 0;
	int error = flush(d);
	flush_over(d);
	return error;
}

/* Another thread flushes: sleep until it has ended. */
static void sleep_until_flushed(struct durability *d, uint32_t flushes)
{
	arch_fetch_add32(&d->async.sleepers, 1);
	/* Ordered: we say that we sleep before we look; flush_over() changes the number before it
	 * looks for sleepers. */
	if (arch_load32_ordered(&d->async.flushes) == flushes)
		arch_futex_wait(&d->async.flushes, flushes);
	arch_fetch_add32(&d->async.sleepers, (uint32_t)-1);
}

int async_wait(struct durability *d, uint64_t durts)
{
	struct arch_backoff backoff = durability_backoff(d);
	for (;;) {
		uint32_t flushes = arch_load32_acquire(&d->async.flushes);
		if (async_durable(d) >= durts)
			return 0;
		int error = durability_check(d);
		if (error)
			return error;
		if (pthread_mutex_trylock(&d->async.flushing)) {
			sleep_until_flushed(d, flushes);
			continue;
		}
		/* Another thread may have flushed for us. */
		if (async_durable(d) < durts)
			error = flush(d);
		flush_over(d);
		if (error)
			return error;
		/* An update below has not written its marker: let it have the processor. */
		if (async_durable(d) < durts)
			arch_backoff(&backoff);
	}
}

/* ------------------------------------------------- the threads that flush and replay */

static void note_filled(struct durability *d, uint64_t durts);

void async_note(struct durability *d, uint64_t durts)
{
	uint64_t newest;
	FUR_POINT(late__note);
	do
		newest = arch_load(&d->async.newest);
	while (newest <= durts && !arch_cas(&d->async.newest, newest, durts + 1));
	/* Ordered: `newest` before our look at `idle`; the thread says that it is idle before it
	 * looks at `newest`.  So it sees our update, or we wake it. */
	if (unlikely(arch_load32_ordered(&d->async.idle)) && arch_cas32(&d->async.idle, 1, 0))
		arch_futex_wake_one(&d->async.idle);
	note_filled(d, durts);
}

#if defined(FUR_EMULATED)
/* The emulated machine has only the threads of the test. */
static void note_filled(struct durability *d, uint64_t durts)
{
	(void)d, (void)durts;
}
static bool start_threads(struct durability *d)
{
	(void)d;
	return true;
}
void async_stop(struct durability *d)
{
	(void)d;
}
#else
/* Sleep until an update is late. */
static void wait_for_work(struct durability *d)
{
	arch_store32_ordered(&d->async.idle, 1);
	/* Ordered, as in async_note(). */
	if (!arch_load32_ordered(&d->async.stop) && !async_pending(d))
		arch_futex_wait(&d->async.idle, 1);
	arch_store32(&d->async.idle, 0);
}

static void *flush_again_and_again(void *arg)
{
	struct durability *d = arg;
	while (!arch_load32_acquire(&d->async.stop)) {
		if (!async_pending(d)) {
			wait_for_work(d);
			continue;
		}
		arch_futex_wait_for(&d->async.stop, 0, d->async.period_ns);
		if (async_try_flush(d))
			break; /* the heap has failed; the threads that commit report it */
	}
	return NULL;
}

/* Late updates fill the ring faster than the disk syncs.  If an update replayed when the ring is
 * full, all would wait for the syncs of that replay (measured: for half of their time).  So a
 * thread of libfur replays when one REPLAY_PART-th of the ring is in use, and updates go on
 * meanwhile.  They replay themselves if they fill the ring nevertheless, or if no update has woken
 * the thread because the durTSs that note_filled() looks for went to updates that are not late. */
enum { REPLAY_PART = 2, NOTE_PART = 8 };

/* An update has this durTS: has the ring filled by another part? */
static void note_filled(struct durability *d, uint64_t durts)
{
	if (likely(durts % (d->super->ring_slots / NOTE_PART) != 0))
		return;
	/* A full fence: orders the draw of this durTS before `filled`.  It pairs with the acquire
	 * in replay_again_and_again().  Without it the thread could see the new `filled`, find the
	 * ring less full than it is, and sleep. */
	arch_fetch_add32(&d->async.filled, 1);
	arch_futex_wake_one(&d->async.filled);
}

static void *replay_again_and_again(void *arg)
{
	struct durability *d = arg;
	struct arch_backoff backoff = {0};
	for (;;) {
		/* Acquire: `filled` before `stop`, and before we look how full the ring is.  An
		 * update draws its durTS before it changes `filled`, and async_stop() sets `stop`
		 * before.  So if we miss either, `filled` changes after this load, and we do not
		 * sleep. */
		uint32_t filled = arch_load32_acquire(&d->async.filled);
		if (arch_load32_acquire(&d->async.stop))
			break;
		if (ring_next(d) - ring_tail(d) < d->super->ring_slots / REPLAY_PART) {
			arch_futex_wait(&d->async.filled, filled);
			backoff = (struct arch_backoff){0};
		} else if (durability_replay(d, &backoff)) {
			break; /* the heap has failed; the threads that commit report it */
		}
	}
	return NULL;
}

static bool start_threads(struct durability *d)
{
	if (thread_start(&d->async.thread, flush_again_and_again, d))
		return false;
	d->async.replays = !thread_start(&d->async.replayer, replay_again_and_again, d);
	return true;
}

void async_stop(struct durability *d)
{
	if (arch_load32_acquire(&d->async.state) != ASYNC_READY || d->async.stop)
		return;
	arch_store32_ordered(&d->async.stop, 1);
	arch_futex_wake_all(&d->async.stop);
	/* As in async_note(). */
	arch_store32_ordered(&d->async.idle, 0);
	arch_futex_wake_all(&d->async.idle);
	/* A full fence: `stop` before `filled`, for the acquire in replay_again_and_again().
	 * Otherwise that thread could see the new `filled` and the old `stop`, and sleep for
	 * ever. */
	arch_fetch_add32(&d->async.filled, 1);
	arch_futex_wake_all(&d->async.filled);
	pthread_join(d->async.thread, NULL);
	if (d->async.replays)
		pthread_join(d->async.replayer, NULL);
}
#endif

/* ------------------------------------------------------------------- start */

/* Errors, without a message: false. */
static bool prepare(struct durability *d)
{
	if (d->super->version < 2)
		return false;
	if (pm_writes(&d->pm)) {
		/* Not memory_padded(), which would touch each page. */
		d->async.slots = calloc(d->super->ring_slots, d->super->slot_bytes);
		if (!d->async.slots)
			return false;
	}
	if (durability_set_state(d, MEDIA_OPEN_ASYNC))
		return false;
	return start_threads(d);
}

bool async_ready(struct durability *d)
{
	uint32_t state = arch_load32_acquire(&d->async.state);
	struct arch_backoff backoff = {0};
	if (likely(state == ASYNC_READY))
		return true;
	if (arch_cas32(&d->async.state, ASYNC_UNUSED, ASYNC_STARTING))
		/* Release: a thread that sees ASYNC_READY sees the slots. */
		arch_store32_release(&d->async.state, prepare(d) ? ASYNC_READY : ASYNC_REFUSED);
	while ((state = arch_load32_acquire(&d->async.state)) == ASYNC_STARTING)
		arch_backoff(&backoff);
	return state == ASYNC_READY;
}

void async_free(struct durability *d)
{
	free(d->async.slots);
	d->async.slots = NULL;
}
