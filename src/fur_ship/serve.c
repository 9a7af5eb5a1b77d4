/* SPDX-License-Identifier: BSD-3-Clause
 *
 * serve.c - see serve.h.
 *
 * Way 19, fur-ship serves a heap:
 *
 *     service_run()           looks who works on the heap, again and again
 *       try_log()             connects to the log; in a heap at rest
 *         check_stream()      looks whether it is whole, and this node its writer
 *       ship_beside()         beside a program
 *         shipper_run()       ships until the program has ended
 *       recover_heap()        after a program that has died
 *         ship_recover()      completes heap and log from each other
 */
#include "fur_ship/serve.h"
#include "api/attach.h"
#include "base/error.h"
#include "base/event.h"
#include "base/remedy.h"
#include "media/ship_page.h"
#include "ship/engine_open.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOOK_NS = 100000000, SOON_NS = 10000000 };

static bool stops(const struct service *s)
{
	return arch_load32_acquire(&s->stopping);
}

static struct control *control_of(const struct service *s)
{
	const struct media_file file = media_file_of(&s->file.geometry, s->file.super);
	return media_control(&file);
}

static bool is_closed(const struct service *s)
{
	return arch_load(&s->file.super->state) == MEDIA_CLOSED;
}

static int file_still_there(const struct service *s)
{
	struct stat st;
	if (fstat(s->file.fd, &st))
		return fail_system(FUR_ESYS, CALL_STAT, errno, NULL, "cannot stat the heap file");
	return st.st_nlink ? 0
	                   : fur_fail(FUR_ENOENT, "the heap file has been removed: nothing is left "
	                                          "to ship");
}

/* ---------------------------------------------------------------------- log */

/* Tell what came of an attempt at the log, if it is something else than before.  Returns the error
 * if trying again does not help. */
static int note_attempt(struct service *s, int error)
{
	const struct shipper_events *e = &s->events.shipper;
	if (engine_error_is_final(error) || error == FUR_EFENCED)
		return error;
	if (error && !s->troubled)
		e->troubled(e->self, fur_errormsg());
	else if (!error && s->troubled)
		e->works(e->self);
	s->troubled = error != 0;
	return 0;
}

/* Read the stream from the ship page's position to the end of the log. */
static int read_stream(struct service *s, const struct media_ship *page, struct stream *stream)
{
	struct stream_position from = stream_of_page(page);
	struct frame frame;
	enum stream_judgement judgement = STREAM_VALID;
	uint8_t *room = malloc(FRAME_MOST_BYTES);
	int n = 1;
	if (!room)
		return fur_fail(FUR_ENOMEM, "no memory for a frame: free some memory");
	from.node = page->term ? page->node : 0;
	stream_init(stream, s->file.geometry.uuid, &from);
	while (n == 1 && !stream_is_fatal(judgement) && !stops(s))
		n = drive_read(s->engine, stream, room, &frame, &judgement);
	free(room);
	if (n == 1 && stream_is_fatal(judgement))
		return fur_fail(
		        FUR_ECORRUPT, "the shipping log %s: %s", page->log, stream_text(judgement));
	return n < 0 ? n : 0;
}

/* Has the log what was read from it, and is this node its writer still? */
static int check_stream(struct service *s, const struct media_ship *page)
{
	struct control_ship *c = &control_of(s)->ship;
	struct stream stream;
	const int error = read_stream(s, page, &stream);
	if (error || !stream.at.node || stream.at.node == page->node)
		return error;
	/* For those who look at the heap.  A program that opens it at this moment has begun no
	 * update, so `acked` is exact (ship_fence()). */
	arch_store32_release(&c->state, CONTROL_FENCED);
	event_wake_all_shared(&c->moved);
	return fur_fail(FUR_EFENCED, "another node writes the stream");
}

/* Open the log, and look at the stream in it, unless a program or a recovery is to be served, which
 * looks there itself.  Leaves the engine NULL, or s->looked false, if the log fails now. */
static int try_log(struct service *s, bool work)
{
	struct media_ship page;
	int error = heap_read_ship_page(&s->file.geometry, s->file.super, &page);
	if (error)
		return error;
	if (!s->engine)
		error = engine_open(page.log, ENGINE_WRITE, s->settings, &s->engine);
	if (!error && !work && !s->looked) {
		error = check_stream(s, &page);
		s->looked = !error && !stops(s);
	}
	return note_attempt(s, error);
}

/* ------------------------------------------------------------ ship, recover */

/* Attach a shipper; `beside` a program, or in place of one. */
static int attach(struct service *s, struct durability *d, bool beside)
{
	int error = heap_attach_to_replay(d, &s->file);
	if (error)
		return error;
	d->replays_for_worker = beside;
	error = shipper_begin(&s->shipper, d, &s->file, s->engine);
	if (error) {
		durability_detach(d);
		return error;
	}
	s->shipper.events = s->events.shipper;
	s->shipper.beat_ns = s->beat_ns;
	/* shipper_begin() may have overwritten what service_stop() has set meanwhile. */
	if (stops(s))
		arch_store32_release(&s->shipper.stopping, 1);
	return 0;
}

static void detach(struct service *s, struct durability *d)
{
	shipper_end(&s->shipper);
	durability_detach(d);
}

/* The heap was closed, so its image has all that the log acknowledges (INV-SH35): the next shipper
 * reads from there on, and notices at once if the log has lost what stands before. */
static int keep_end(struct service *s)
{
	const struct stream_position *end = &s->shipper.writer.stream.whole;
	if (s->shipper.writer.phase != WRITER_SHIPS || end->offset == STREAM_NO_OFFSET ||
	        end->offset == s->shipper.position.offset)
		return 0;
	return shipper_keep_position(&s->shipper, end);
}

/* Nothing that an earlier fur-ship had in its memory is missed (INV-FS2). */
static int ship_beside(struct service *s)
{
	struct durability d;
	int error = attach(s, &d, true);
	if (error)
		return error;
	s->looked = true;
	s->events.attached(s->events.self, arch_load(&d.control->worker_pid));
	error = shipper_run(&s->shipper);
	if (!error && is_closed(s))
		error = keep_end(s);
	if (!error && !stops(s) && is_closed(s))
		s->events.detached(s->events.self);
	detach(s, &d);
	return error;
}

/* The heap was not closed, and we have the worker's lock (INV-FS3). */
static int recover_locked(struct service *s)
{
	struct durability d;
	struct replay_result result = {0};
	int error = attach(s, &d, false);
	if (error)
		return error;
	error = ship_recover(&s->shipper, &result);
	if (!error)
		arch_store(&d.control->worker_pid, 0);
	detach(s, &d);
	if (!error)
		s->events.recovered(s->events.self, &result);
	return stops(s) && error == FUR_EBUSY ? 0 : error;
}

static int recover_heap(struct service *s)
{
	int error = heap_lock_try(s->file.fd, HEAP_LOCK_WORKER);
	if (error)
		return error == FUR_EBUSY ? 0 : error; /* a program opens the heap */
	/* Under the lock: a program may have opened and closed it since we looked. */
	if (!is_closed(s))
		error = recover_locked(s);
	if (heap_lock_give_back(s->file.fd, HEAP_LOCK_WORKER) && !error)
		error = heap_lock_failed(errno);
	return error;
}

/* Who uses the heap, and is there something to be shipped or recovered? */
struct users {
	int working, opened;
	bool work;
};

static int look_at_users(const struct service *s, struct users *u)
{
	u->working = heap_lock_held(s->file.fd, HEAP_LOCK_WORKING);
	u->opened = heap_lock_held(s->file.fd, HEAP_LOCK_WORKER);
	u->work = u->working > 0 || (!u->opened && !is_closed(s));
	return u->working < 0 ? u->working : u->opened < 0 ? u->opened : file_still_there(s);
}

/* Do what there is to do now.  Returns: how long there will be nothing, in ns, or an error. */
static int take_turn(struct service *s, uint64_t *pause_ns)
{
	struct users u;
	int error = look_at_users(s, &u);
	*pause_ns = u.working || u.opened ? SOON_NS : LOOK_NS;
	if (!error && (!s->engine || (!u.work && !s->looked))) {
		error = try_log(s, u.work);
		*pause_ns = LOOK_NS;
	}
	if (error || !u.work || !s->engine)
		return error;
	*pause_ns = SOON_NS;
	return u.working ? ship_beside(s) : recover_heap(s);
}

int service_look(struct service *s)
{
	struct users u;
	const int error = look_at_users(s, &u);
	return error ? error : try_log(s, u.work);
}

int service_run(struct service *s)
{
	struct control *c = control_of(s);
	int error = 0;
	while (!error && !stops(s)) {
		/* INV-EV1: before we look.  A signal, or a program that dies while it opens the
		 * heap, does not wake us: we look again after a while. */
		const uint32_t ticket = event_prepare_shared(&c->opened);
		uint64_t pause_ns;
		error = take_turn(s, &pause_ns);
		if (!error && !stops(s))
			event_wait_shared(&c->opened, ticket, pause_ns);
	}
	return error;
}

bool service_handed_over(const struct service *s)
{
	return s->shipper.heir && s->shipper.writer.stream.at.node == s->shipper.heir;
}

void service_stop(struct service *s)
{
	arch_store32_release(&s->stopping, 1);
	arch_store32_release(&s->shipper.stopping, 1);
}

/* ------------------------------------------------------------- start and end */

static int check_role(const struct service *s)
{
	struct media_ship page;
	const int error = heap_read_ship_page(&s->file.geometry, s->file.super, &page);
	if (error)
		return error;
	if (page.role == MEDIA_STANDBY)
		return fur_fail(FUR_EINVAL,
		        "the heap is a standby, and ships nothing: let it follow "
		        "its primary, with fur-standby");
	if (page.role != MEDIA_PRIMARY)
		return fur_fail(FUR_EINVAL,
		        "the heap's updates are not shipped: make it a primary, "
		        "with fur-ship --init HEAP --log NAME");
	return 0;
}

int service_start(struct service *s, int fd, const char *path)
{
	int error = heap_take_file(fd, path, HEAP_LOCK_SHIP, &s->file); /* INV-FS1 */
	if (error)
		return error;
	error = check_role(s);
	if (error)
		heap_close_file(&s->file);
	else
		arch_store(&control_of(s)->ship.shipper_pid, (uint64_t)getpid());
	return error;
}

void service_end(struct service *s)
{
	arch_store(&control_of(s)->ship.shipper_pid, 0);
	if (s->engine)
		s->engine->ops->close(s->engine);
	heap_close_file(&s->file);
}
