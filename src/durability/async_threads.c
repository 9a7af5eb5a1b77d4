/* SPDX-License-Identifier: BSD-3-Clause
 *
 * async_threads.c - the threads that flush late updates, and replay before the ring is full.
 */
#include "base/probe.h"
#include "base/thread.h"
#include "durability/async.h"
#include "durability/ring.h"

#include <stdlib.h>

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
