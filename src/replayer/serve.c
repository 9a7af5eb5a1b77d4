/* SPDX-License-Identifier: BSD-3-Clause
 *
 * serve.c - two threads, the watch and the server.
 *
 * The watch sleeps until it gets the worker's lock.  So it learns without polling that the worker
 * has ended, for whatever reason.  Then it sleeps until the next worker opens the heap.
 *
 * The server takes turns.  In each it looks whether the file is still there, takes the right to
 * replay, announces a new worker, recovers after a worker that has ended, replays, and gives the
 * right back.  It sleeps when a turn found little to replay.
 *
 * Way 11, fur-replayer replays and recovers:
 *
 *     server_run()                   takes turns, and sleeps between them
 *       server_turn()                does all the work that there is now
 *         control_take_unless()      takes the right to replay
 *         worker_ended()             after the end of a worker
 *           replay_unless_closed()   recovers, unless the worker has closed the heap
 *           durability_set_state()   records that the heap is closed
 *         replay_if_working()        beside a worker
 *           replay_live()            replays what is settled
 *         control_give_back()        gives the right back
 *       server_sleep()               sleeps until a worker calls
 */
#include "replayer/serve.h"
#include "base/error.h"
#include "base/event.h"
#include "base/remedy.h"
#include "base/thread.h"
#include "durability/ship.h"
#include "media/ship_page.h"

#include <errno.h>
#include <fur_group.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct server {
	struct heap_file file;
	struct durability d;
	struct server_events events;
	pthread_t watch;
	uint32_t ended;  /* workers whose end the watch has seen */
	uint32_t opened; /* control->opened when a worker was last announced */
	uint32_t stopping;
	/* errno of a lock call that failed in the watch, or 0 */
	uint32_t watch_error;
	bool working;  /* a worker has been announced */
	bool watching; /* the watch runs */
};

/* ------------------------------------------------------------------- watch */

/* End the watch, and tell the server to end too: without a watch the server would not learn of the
 * next worker's end, and a lock that the watch could not give back keeps workers out.  The server
 * reports the error, because this thread may be cancelled anywhere and must not allocate a
 * message. */
static void *watch_fail(struct server *s)
{
	/* Release, and before the call: orders the error before the call, so that the server that
	 * the call wakes sees the error.  Otherwise it might go on without a watch. */
	arch_store32_release(&s->watch_error, (uint32_t)errno);
	control_call(s->d.control);
	return NULL;
}

static void *watch_main(void *argument)
{
	struct server *s = argument;
	struct control *c = s->d.control;
	int type;
	/* Cancel at any instant, because a raw futex call is not a cancellation point.  That is
	 * safe: this thread owns nothing that server_end() does not give back. */
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type); /* NOLINT: see above */
	for (;;) {
		/* Draw the ticket before we wait for the lock (INV-EV1).  If a worker opens the
		 * heap and dies in between, this loop runs once more, which does no harm. */
		const uint32_t opened = event_prepare_shared(&c->opened);
		if (heap_lock_wait(s->file.fd, HEAP_LOCK_WORKER))
			return watch_fail(s);
		if (heap_lock_give_back(s->file.fd, HEAP_LOCK_WORKER))
			return watch_fail(s);
		arch_fetch_add32(&s->ended, 1);
		control_call(c);
		while (event_prepare_shared(&c->opened) == opened)
			event_wait_shared(&c->opened, opened, 0);
		control_call(c); /* for events.attached */
	}
}

static int watch_start(struct server *s)
{
	/* The server's own thread takes the signals: they interrupt its sleep. */
	int failed = thread_start(&s->watch, watch_main, s);
	return failed ? fail_system(FUR_ESYS, CALL_THREAD, failed, NULL, "cannot start a thread")
	              : 0;
}

/* ------------------------------------------------------------------ server */

static int file_still_there(const struct server *s)
{
	struct stat st;
	if (fstat(s->file.fd, &st))
		return fail_system(FUR_ESYS, CALL_STAT, errno, NULL, "cannot stat the heap file");
	if (st.st_nlink == 0)
		return fur_fail(FUR_ENOENT,
		        "the heap file has been removed: nothing is left to replay for");
	if ((uint64_t)st.st_size < s->file.file_bytes)
		return fur_fail(FUR_ECORRUPT,
		        "the heap file has been truncated to %lld bytes: restore it from a copy",
		        (long long)st.st_size);
	return 0;
}

/* A worker has ended: recover if it did not close the heap (INV-S3).  Called under the right to
 * replay. */
static int worker_ended(struct server *s)
{
	struct replay_result result;
	bool recovered;
	int held = heap_lock_held(s->file.fd, HEAP_LOCK_WORKER), error;
	if (held < 0)
		return held; /* a worker may live: do not recover */
	if (held) {
		/* The next worker already has the heap open, and recovers it.  In case that worker
		 * dies first, make the watch wait for its end. */
		s->opened++;
		event_wake_all_shared(&s->d.control->opened);
		return 0;
	}
	error = file_still_there(s);
	if (error)
		return error;
	const bool left = s->d.ship.on && s->d.words->state != MEDIA_CLOSED; /* INV-SH4 */
	/* The heap may have joined a group since it was attached; one that was not closed joins and
	 * leaves none.  With an old copy, a part would be recovered without the others
	 * (INV-GU5). */
	if (s->d.words->state != MEDIA_CLOSED)
		s->d.geometry.more = s->d.words->more;
	recovered = false;
	if (!left)
		error = replay_unless_closed(&s->d, &result, &recovered);
	const bool waits = error == FUR_EGROUP; /* for the other members of its group */
	if (!error && recovered)
		error = durability_set_state(&s->d, MEDIA_CLOSED);
	if (error && !waits)
		return error;
	s->d.control->worker_pid = 0;
	if (left || waits)
		s->events.left(
		        s->events.self, left ? "fur-ship recovers the heap" : fur_errormsg());
	else if (recovered)
		s->events.recovered(s->events.self, &result);
	else if (s->working)
		s->events.detached(s->events.self);
	s->working = false;
	return 0;
}

/* Called under the right to replay, before the first replay beside this worker: the heap may have
 * become a primary since the last one, and then replays stop where the log ends (INV-SH1). */
static int worker_announce(struct server *s)
{
	uint32_t opened = arch_load32_acquire(&s->d.control->opened);
	if (opened == s->opened)
		return 0;
	const int error = durability_read_role(&s->d);
	if (error)
		return error;
	s->opened = opened;
	s->working = true;
	s->events.attached(s->events.self, s->d.control->worker_pid);
	return 0;
}

/* Replay only if a worker has recovered the heap.  Before that, only recovery may read the log,
 * because a failure may have left holes and torn markers in it. */
static int replay_if_working(struct server *s)
{
	int working = heap_lock_held(s->file.fd, HEAP_LOCK_WORKING);
	return working > 0 ? replay_live(&s->d) : working;
}

/* Take one turn: do all the work that there is now.  Sets *replayed to the number of slots
 * replayed. */
static int server_turn(struct server *s, uint32_t *seen, uint64_t *replayed)
{
	uint32_t ended = arch_load32_acquire(&s->ended);
	int error = file_still_there(s);
	if (error)
		return error;
	error = control_take_unless(&s->d, &s->stopping);
	if (error)
		return error == FUR_EBUSY ? 0 : error; /* server_run() sees `stopping` */
	uint64_t tail = ring_tail(&s->d);
	error = worker_announce(s);
	if (!error && ended != *seen) {
		*seen = ended;
		error = worker_ended(s);
	}
	if (!error && s->d.words->state != MEDIA_CLOSED)
		error = replay_if_working(s);
	*replayed = ring_tail(&s->d) - tail;
	if (control_give_back(&s->d) && !error)
		error = heap_lock_failed(errno);
	return error;
}

/* Sleep until a worker calls.  The server drew the ticket before it last looked for work
 * (INV-EV1).  A worker may miss the change of wake_at; control.h tells at control_wake() why that
 * does no harm. */
static void server_sleep(struct server *s, uint32_t ticket)
{
	struct control *c = s->d.control;
	uint64_t wake_at = ring_tail(&s->d) + s->d.super->ring_slots / CONTROL_WAKE_PART;
	/* The shipper calls us when we may replay that much (INV-SH1): updates need not. */
	if (ship_acked(&s->d) < wake_at)
		wake_at = CONTROL_AWAKE;
	arch_store_release(&c->wake_at, wake_at);
	if (!arch_load32_acquire(&s->stopping))
		event_wait_shared(&c->calls, ticket, 0);
	arch_store_release(&c->wake_at, CONTROL_AWAKE);
}

int server_run(struct server *s)
{
	uint32_t seen = 0;
	int error = 0;
	while (!error && !arch_load32_acquire(&s->stopping)) {
		const uint32_t ticket = event_prepare_shared(&s->d.control->calls);
		int watch_error = (int)arch_load32_acquire(&s->watch_error);
		uint64_t replayed = 0;
		error = watch_error ? heap_lock_failed(watch_error)
		                    : server_turn(s, &seen, &replayed);
		/* A slot costs less in a large batch than in a small one.  So if there was little
		 * to do, let updates gather. */
		if (!error && replayed < s->d.super->ring_slots / CONTROL_WAKE_PART)
			server_sleep(s, ticket); /* INV-S4 */
	}
	return error;
}

void server_stop(struct server *s)
{
	arch_store32_release(&s->stopping, 1);
	control_call(s->d.control);
}

/* ------------------------------------------------------------- start and end */

/* Take the heap's file, and be its replayer. */
static int take_heap(struct server *s, int fd, const char *path)
{
	int error = heap_take_file(fd, path, HEAP_LOCK_REPLAYER, &s->file); /* INV-S1 */
	if (error)
		return error;
	error = heap_attach_to_replay(&s->d, &s->file);
	if (error)
		heap_close_file(&s->file);
	return error;
}

static int start_watch(struct server *s)
{
	/* Read `opened` before the watch starts, so that every worker that opens the heap from now
	 * on is announced. */
	s->opened = arch_load32_acquire(&s->d.control->opened);
	const int held = heap_lock_held(s->file.fd, HEAP_LOCK_WORKER);
	if (held < 0)
		return held;
	if (held)
		s->opened--;
	s->d.control->wake_at = CONTROL_AWAKE;
	s->d.control->replayer_pid = (uint64_t)getpid();
	int error = watch_start(s);
	if (error)
		return error;
	s->watching = true;
	return 0;
}

int server_start(int fd, const char *path, const struct replay_options *replay,
        const struct server_events *events, struct server **out)
{
	struct server *s = calloc(1, sizeof *s);
	*out = NULL;
	if (!s) {
		close(fd);
		return fur_fail(FUR_ENOMEM, "no memory for the replayer: free some memory");
	}
	int error = take_heap(s, fd, path);
	if (error) {
		free(s);
		return error;
	}
	s->d.replays_for_worker = true;
	s->d.replay_options = *replay;
	s->events = *events;
	error = start_watch(s);
	if (error)
		server_end(s);
	else
		*out = s;
	return error;
}

void server_end(struct server *s)
{
	if (s->watching) {
		pthread_cancel(s->watch);
		pthread_join(s->watch, NULL);
		s->d.control->replayer_pid = 0;
	}
	durability_detach(&s->d);
	heap_close_file(&s->file);
	free(s);
}

/* ------------------------------------------------------------------ status */

static struct control_preload preload_of(const struct control *c)
{
	/* Acquire: orders the load of `known` before the loads of the other fields.  Pairs with the
	 * release in preload_publish(). */
	const bool known = arch_load32_acquire(&c->preload.known);
	return known ? c->preload : (struct control_preload){0};
}

int server_status(int fd, const char *path, struct server_status *status)
{
	struct heap_file file;
	int error = heap_take_file(fd, path, HEAP_LOCK_NONE, &file);
	if (error)
		return error;
	const struct media_super *super = &file.geometry;
	const struct media_file view = media_file_of(super, file.super);
	const struct control *c = media_control(&view);
	uint64_t tail, slots = 0;
	int working = heap_lock_held(file.fd, HEAP_LOCK_WORKER), replaying = 0;
	if (working >= 0)
		replaying = heap_lock_held(file.fd, HEAP_LOCK_REPLAYER);
	error = working < 0 ? working : replaying < 0 ? replaying : heap_tail(&file, &tail);
	struct media_ship page;
	if (!error)
		error = heap_read_ship_page(super, file.super, &page);
	while (!error && slots < super->ring_slots &&
	        arch_load(&log_marker(&view, tail + slots)->durts) == tail + slots)
		slots++;
	*status = (struct server_status){
	        .worker_pid = working > 0 ? c->worker_pid : 0,
	        .replayer_pid = replaying > 0 ? c->replayer_pid : 0,
	        .closed = file.super->state == MEDIA_CLOSED,
	        .ships = !error && page.role == MEDIA_PRIMARY,
	        .fenced = control_fenced(c),
	        .member = media_is_member(super),
	        .asleep = arch_load(&c->wake_at) != CONTROL_AWAKE,
	        .slots = slots,
	        .ring_slots = super->ring_slots,
	        .replays = c->replays,
	        .replayed_updates = c->replayed_updates,
	        .preload = preload_of(c),
	};
	heap_close_file(&file);
	return error;
}
