/* SPDX-License-Identifier: BSD-3-Clause
 *
 * async_threads.c - the threads that flush late updates, and replay before the ring is full.
 */
#include "base/event.h"
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
	/* If another update has already noted a later durTS, that one wakes. */
	event_wake_sleepers(&d->async.late); /* the compare-and-swap is a full fence */
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
static bool stops(const struct durability *d)
{
	return arch_load32_acquire(&d->async.stop);
}

/* Sleep for the period between two flushes, unless the threads end. */
static void rest(struct durability *d)
{
	const uint32_t ticket = event_prepare(&d->async.stopped);
	if (!stops(d))
		event_wait(&d->async.stopped, ticket, d->async.period_ns);
}

static void *flush_again_and_again(void *arg)
{
	struct durability *d = arg;
	while (!stops(d)) {
		event_await(&d->async.late, stops(d) || async_pending(d));
		rest(d);
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
	event_wake_all(&d->async.filled);
}

static bool fills(const struct durability *d)
{
	return ring_next(d) - ring_tail(d) >= d->super->ring_slots / REPLAY_PART;
}

static void *replay_again_and_again(void *arg)
{
	struct durability *d = arg;
	while (!stops(d)) {
		struct arch_backoff backoff = {0};
		event_await(&d->async.filled, stops(d) || fills(d));
		while (fills(d) && !stops(d))
			if (durability_replay(d, &backoff))
				return NULL; /* the heap has failed: as above */
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
	/* Release: the threads come after what the caller has done. */
	arch_store32_release(&d->async.stop, 1);
	event_wake_all(&d->async.stopped);
	event_wake_all(&d->async.late);
	event_wake_all(&d->async.filled);
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
