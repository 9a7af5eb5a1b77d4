/* SPDX-License-Identifier: BSD-3-Clause
 *
 * serve.c - see serve.h.
 *
 * Way 17, fur-ship serves a heap:
 *
 *     service_run()           looks who works on the heap, again and again
 *       open_log()            connects to the log
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
	return (struct control *)(void *)media_at(&file, s->file.geometry.control_offset);
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

/* Of an error that the log's name, its settings or this machine has. */
static bool is_final(int error)
{
	return error == FUR_EINVAL || error == FUR_ENOENT || error == FUR_EVERSION ||
	       error == FUR_ENOTHEAP || error == FUR_ECORRUPT || error == FUR_ENOMEM;
}

/* Leaves *engine NULL if the log cannot be opened now. */
static int open_log(struct service *s)
{
	const struct shipper_events *e = &s->events.shipper;
	struct media_ship page;
	int error = heap_read_ship_page(&s->file.geometry, s->file.super, &page);
	if (error)
		return error;
	error = engine_open(page.log, ENGINE_WRITE, s->settings, &s->engine);
	if (is_final(error))
		return error;
	if (error && !s->troubled)
		e->troubled(e->self, fur_errormsg());
	else if (!error && s->troubled)
		e->works(e->self);
	s->troubled = error != 0;
	return 0;
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

/* Nothing that an earlier fur-ship had in its memory is missed (INV-FS2). */
static int ship_beside(struct service *s)
{
	struct durability d;
	int error = attach(s, &d, true);
	if (error)
		return error;
	s->events.attached(s->events.self, arch_load(&d.control->worker_pid));
	error = shipper_run(&s->shipper);
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

/* Do what there is to do now.  Returns: how long there will be nothing, in ns, or an error. */
static int take_turn(struct service *s, uint64_t *pause_ns)
{
	const int working = heap_lock_held(s->file.fd, HEAP_LOCK_WORKING);
	const int opened = heap_lock_held(s->file.fd, HEAP_LOCK_WORKER);
	int error = working < 0 ? working : opened < 0 ? opened : file_still_there(s);
	*pause_ns = working || opened ? SOON_NS : LOOK_NS;
	const bool work = working || (!opened && !is_closed(s));
	if (!error && work && !s->engine) {
		error = open_log(s);
		*pause_ns = LOOK_NS;
	}
	if (error || !work || !s->engine)
		return error;
	*pause_ns = SOON_NS;
	return working ? ship_beside(s) : recover_heap(s);
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
