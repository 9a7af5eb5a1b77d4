/* SPDX-License-Identifier: BSD-3-Clause
 *
 * roll_back.c - an update that has failed, or that the program aborts, leaves no trace.
 */
#include "base/error.h"
#include "base/probe.h"
#include "durability/ship.h"
#include "file/heap_file.h"
#include "htm/htm.h"
#include "update/in_place.h"
#include "update/together.h"
#include "update/update.h"

#include <stdio.h>

/* The message for FUR_EFREE. */
static int fail_free(const struct fur_thread *t)
{
	const struct refused_free *r = &t->refused;
	const uint64_t offset = (uint64_t)((const uint8_t *)r->at - t->update.base);
	char what[64] = "where no block in use begins";
	if (offset >= t->durability->super->heap_bytes)
		return fur_fail(FUR_EFREE,
		        "the update freed %p, which is outside the heap, and was rolled back: free "
		        "only what fur_alloc() returned, and other memory as it was allocated",
		        r->at);
	if (r->bytes)
		snprintf(what, sizeof what, "a block of %llu bytes that is free already",
		        (unsigned long long)r->bytes);
	return fur_fail(FUR_EFREE,
	        "the update freed %p (byte %llu of the heap), %s, and was rolled back: free each "
	        "block once, by the address that fur_alloc() returned",
	        r->at, (unsigned long long)offset, what);
}

/* The message of the call in the body that failed. */
static int fail_noted(struct fur_thread *t, int error)
{
	fur_fail(error, "%s; the update was rolled back", t->failure);
	t->failure[0] = 0;
	return error;
}

/* Why an update was rolled back. */
int update_say_rolled_back(struct fur_thread *t, int error)
{
	static const char *const reasons[] = {
	        [-FUR_EINVAL] = "the update passed a number that libfur refuses, and was rolled "
	                        "back: give fur_store_bits() 1 to 8 bytes, and "
	                        "fur_alloc_aligned() a power of two up to 65536",
	        [-FUR_ERANGE] = "the update stored to an address outside the heap and was rolled "
	                        "back: only fur_alloc()ed memory and roots can be stored to",
	        [-FUR_ETOOBIG] = "the update does not fit the redo log and was rolled back: make "
	                         "the update smaller, or the logs larger, with fur-resize "
	                         "--log-bytes",
	        [-FUR_EABORTED] = "the update was aborted by fur_abort()",
	};
	const char *reason =
	        (size_t)-error < sizeof reasons / sizeof *reasons ? reasons[-error] : NULL;
	if (reason)
		return fur_fail(error, "%s", reason);
	if (error == FUR_EFREE)
		return fail_free(t);
	if (t->failure[0])
		return fail_noted(t, error);
	if (error == FUR_ENOSPC)
		return fur_fail(error,
		        "%s: the heap is full, and has its largest size, or the file system has no "
		        "room to let it grow; the update was rolled back: make room, and run it "
		        "again",
		        heap_path(t->durability->file));
	/* The log has no room because the heap has failed; tx_refuse()'s message tells the
	 * cause. */
	int failed = tx_refuse(t->engine);
	return failed ? failed : fur_fail(error, "%s", fur_strerror(error));
}

void update_roll_back_leave(struct fur_update *tx)
{
	struct fur_thread *t = tx->thread;
	/* No transaction can have read the stores that we undo.  But we have read from others, and
	 * are about to return, so we must wait for D. */
	if (tx->mode == TX_IN_PLACE) {
		in_place_undo_unlogged(tx);
		redo_undo(tx->log, t->durability, tx->writable);
		nondurable_collect(t->durability, t->index, &t->window.commit.dset);
		in_place_leave(t);
	} else {
		redo_discard(tx->log, t->durability);
		nondurable_collect(t->durability, t->index, &t->window.commit.dset);
		body_end(t);
	}
	tx_reset(tx);
}

void update_roll_back_wait(struct fur_thread *t)
{
	nondurable_wait(t->durability, &t->window.commit.dset);
	arch_fence_light();
	(void)ship_wait_all(t->durability); /* INV-AS2; the reason tells of a failure */
	tx_leave_core(t);
	FUR_PROBE2(update__abort, t->index, FUR_ABORT_USER);
	tx_report_rolled_back(t);
	stat_add(&t->stats.aborts[FUR_ABORT_USER], 1);
}

int update_roll_back(struct fur_update *tx)
{
	struct fur_thread *t = tx->thread;
	const int error = tx->error;
	/* Hardware undoes all stores, also those to private memory, and forgets why.  So the body
	 * runs again, in software, and rolls back there. */
	if (tx->mode == TX_HARDWARE)
		t->engine->ops->abort(FUR_ABORT_USER);
	update_roll_back_leave(tx);
	update_roll_back_wait(t);
	return update_say_rolled_back(t, error);
}

/* ------------------------------------------------------ over several heaps */

void together_close(struct together *g)
{
	FOR_EACH_PART(p, g) {
		p->thread->together = NULL;
		redo_reserve(p->thread->update.log, 0);
	}
	this_thread()->open = NULL;
}

struct together_part *together_failed(struct together *g)
{
	FOR_EACH_PART(p, g)
		if (p->thread->update.error)
			return p;
	return NULL;
}

int together_roll_back(struct together *g)
{
	const struct together_part *const failed = together_failed(g);
	struct fur_thread *const t = (failed ? failed : g->parts)->thread;
	const int error = failed ? t->update.error : FUR_EABORTED;
	/* Leave all heaps before it waits in one (INV-GU3). */
	FOR_EACH_PART(p, g)
		update_roll_back_leave(&p->thread->update);
	together_close(g);
	FOR_EACH_PART(p, g)
		update_roll_back_wait(p->thread);
	g->error = update_say_rolled_back(t, error);
	return g->error;
}

int update_refuse_part(const char *function)
{
	return fur_fail(FUR_ENESTED,
	        "%s was called for a part of an update over several heaps: fur_group_run() commits "
	        "them together; fur_group_abort() rolls all of them back",
	        function);
}

FUR_API int fur_abort(fur_update *tx)
{
	if (!tx_is_mine(tx))
		return tx_not_mine(tx, "fur_abort");
	if (unlikely(tx->thread->together && tx->depth == TOGETHER_DEPTH))
		return update_refuse_part("fur_abort");
	tx_fail(tx, FUR_EABORTED);
	if (tx->depth > 1) {
		tx->depth--;
		return FUR_EABORTED;
	}
	return update_roll_back(tx);
}

void tx_roll_back_all(struct fur_thread *t)
{
	if (unlikely(t->together != NULL)) {
		(void)together_roll_back(t->together);
		return;
	}
	if (t->update.depth) {
		FUR_CHECK(t->update.mode != TX_NONE,
		        "a thread may not end inside fur_options.reader_report");
		t->ro = (struct fur_ro){0};
		t->update.depth = 1;
		fur_abort(&t->update);
	}
	if (t->ro.depth) {
		t->ro.depth = 1;
		if (fur_end_ro(&t->ro, NULL))
			return; /* the heap has failed, and the thread cannot be told */
	}
	reader_abandon(t);
}
