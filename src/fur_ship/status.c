/* SPDX-License-Identifier: BSD-3-Clause
 *
 * status.c - see status.h.
 */
#include "fur_ship/status.h"
#include "api/attach.h"
#include "base/error.h"
#include "base/event.h"
#include "media/log_view.h"
#include "ship/shipper.h"

static uint64_t count_unacked(const struct media_file *view, uint64_t acked)
{
	uint64_t n = 0;
	while (n < view->super->ring_slots &&
	        arch_load(&log_marker(view, acked + n)->durts) == acked + n)
		n++;
	return n;
}

int status_read(int fd, const char *path, struct ship_status *status)
{
	struct heap_file file;
	*status = (struct ship_status){0};
	int error = heap_take_file(fd, path, HEAP_LOCK_NONE, &file);
	if (error)
		return error;
	const struct media_file view = media_file_of(&file.geometry, file.super);
	const struct control *c = media_control(&view);
	const int working = heap_lock_held(file.fd, HEAP_LOCK_WORKER),
	          ships = heap_lock_held(file.fd, HEAP_LOCK_SHIP);
	error = heap_read_ship_page(&file.geometry, file.super, &status->page);
	if (!error)
		error = working < 0 ? working : ships < 0 ? ships : 0;
	status->closed = file.super->state == MEDIA_CLOSED;
	status->fenced = status->page.role == MEDIA_PRIMARY && control_fenced(c);
	status->worker_pid = working > 0 ? arch_load(&c->worker_pid) : 0;
	status->shipper_pid = ships > 0 ? arch_load(&c->ship.shipper_pid) : 0;
	if (!error && status->page.role == MEDIA_STANDBY)
		media_standby_read(c,
		        (const struct heap_header *)media_at(&view, file.geometry.heap_offset),
		        &status->page, status->worker_pid != 0, &status->standby);
	if (!error && status->worker_pid && status->page.role == MEDIA_PRIMARY) {
		status->shipping = arch_load32(&c->ship.state);
		status->term = arch_load(&c->ship.term);
		status->lineage = arch_load(&c->ship.lineage);
		status->acked = arch_load(&c->ship.acked);
		status->unacked = count_unacked(&view, status->acked);
	}
	heap_close_file(&file);
	return error;
}

/* ---------------------------------------------------------------- handover */

static int check_handover(const struct heap_file *file, uint64_t node)
{
	struct media_ship page;
	const int error = heap_read_ship_page(&file->geometry, file->super, &page);
	if (error)
		return error;
	if (page.role != MEDIA_PRIMARY)
		return fur_fail(FUR_EINVAL, "the heap is no primary: hand over the one that is");
	if (page.node == node)
		return fur_fail(FUR_EINVAL, "this is the heap's own node: name a standby's, which "
		                            "fur-info shows");
	const struct media_file view = media_file_of(&file->geometry, file->super);
	if (control_fenced(media_control(&view)))
		return fur_fail(FUR_EFENCED,
		        "another node writes the stream already, and this heap is fenced: let it "
		        "follow that node, with fur-standby HEAP");
	return 0;
}

/* Does each of the processes that a handover needs live? */
static int check_processes(const struct heap_file *file)
{
	const int ships = heap_lock_held(file->fd, HEAP_LOCK_SHIP),
	          working = heap_lock_held(file->fd, HEAP_LOCK_WORKING);
	if (ships < 0 || working < 0)
		return ships < 0 ? ships : working;
	if (!ships)
		return fur_fail(FUR_EBUSY, "no fur-ship ships this heap: start it, with fur-ship "
		                           "HEAP, and try again");
	if (!working)
		return fur_fail(FUR_EBUSY,
		        "no program has the heap open, so nothing is to be handed "
		        "over: stop fur-ship, and promote the standby");
	return 0;
}

static int await_handover(struct durability *d, const struct heap_file *file, uint64_t node)
{
	enum { LOOK_NS = 100000000 };
	struct control_ship *c = &d->control->ship;
	int error = 0;
	while (!error) {
		const uint32_t ticket = event_prepare_shared(&c->moved);
		/* The processes first: a fence is stored before its program ends.  The other way
		 * round, both could come between the two looks. */
		const int gone = check_processes(file);
		/* Acquire, and before the look at `heir`: a heap that was fenced keeps that. */
		if (arch_load32_acquire(&c->state) == CONTROL_FENCED)
			return 0;
		if (arch_load_acquire(&c->heir) == node)
			error = gone;
		else
			error = fur_fail(FUR_EBEHIND,
			        "node %016llx has not claimed the stream within %d s, and this "
			        "heap goes on: see whether fur-standby follows there, and try "
			        "again",
			        (unsigned long long)node, SHIPPER_HANDOVER_MS / 1000);
		if (!error)
			event_wait_shared(&c->moved, ticket, LOOK_NS);
	}
	return error;
}

int status_hand_over(int fd, const char *path, uint64_t node)
{
	struct heap_file file;
	struct durability d;
	int error = heap_take_file(fd, path, HEAP_LOCK_NONE, &file);
	if (error)
		return error;
	error = check_handover(&file, node);
	if (!error)
		error = check_processes(&file);
	if (!error)
		error = heap_attach_to_replay(&d, &file);
	if (!error) {
		d.replays_for_worker = true;
		error = shipper_hand_over(&d, node);
		if (!error)
			error = await_handover(&d, &file, node);
		durability_detach(&d);
	}
	heap_close_file(&file);
	return error;
}
