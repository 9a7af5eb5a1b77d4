/* SPDX-License-Identifier: BSD-3-Clause
 *
 * update.c - update transactions, from fur_begin_update to durability_commit(): attempts in
 * hardware, the fallback lock, stores, commit and abort.
 */
#include "base/error.h"
#include "htm/htm.h"

#include <string.h>

/* ------------------------------------------------------------------- refusals */

int tx_refuse(const struct htm *h)
{
	if (htm_forked(h))
		return fur_fail(FUR_EFORK, "this process is a child of fork(): the heap is its "
		                           "parent's; close this copy with "
		                           "fur_close(), and work on "
		                           "the heap in the parent");
	return durability_check(h->durability);
}

int tx_foreign(const char *function, int error)
{
	return fur_fail(error,
	        "%s: the registration is another thread's, or was given back: call "
	        "fur_thread_register() in each thread",
	        function);
}

/* Is it the calling thread's, and open?  One load more than `depth`, from the same line. */
static inline bool mine_and_open(const struct fur_update *tx)
{
	return tx && tx->depth > 0 && tx->thread->owner == this_thread();
}

static int not_open(const struct fur_update *tx, const char *function)
{
	if (tx && htm_forked(tx->thread->htm))
		return tx_refuse(tx->thread->htm);
	if (tx && tx->thread->owner != this_thread())
		return tx_foreign(function, FUR_ENOTX);
	return fur_fail(FUR_ENOTX, "%s without fur_begin_update", function);
}

static void close_update(struct fur_update *tx)
{
	struct fur_thread *t = tx->thread;
	tx->mode = TX_NONE;
	tx->depth = 0;
	/* A store with a transaction that is over falls outside the heap, and is not done */
	tx->bytes = 0;
	/* A read-only transaction inside the update ends with it.  Left open, it would let all
	 * later ones join it, unprotected. */
	if (__builtin_expect(t->ro.depth != 0, 0)) {
		FUR_CHECK(false, "a read-only transaction is still open inside the update that "
		                 "ends: call fur_end_ro first");
		t->ro = (struct fur_ro){0};
	}
	this_thread()->open = NULL;
}

/* ------------------------------------------------------------------- begin */

static int act(struct fur_thread *t, enum htm_action action, const struct htm_history *history,
        uint64_t began)
{
	switch (action) {
	case HTM_RETRY:
	case HTM_RETRY_SOON: htm_pause(action, history, began, t->slot); return 0;
	case HTM_WAIT_LOCK: return 0; /* lock_wait_free() comes before every attempt */
	case HTM_WAIT_READER:
		htm_wait_active(t->htm, t->slot);
		/* reader_report forked */
		return __builtin_expect(htm_forked(t->htm), 0) ? tx_refuse(t->htm) : 0;
	case HTM_MAKE_ROOM: return redo_make_room(&t->durability->redo[t->slot], t->durability);
	case HTM_TAKE_LOCK: break;
	}
	return 0;
}

/* Before every attempt, outside hardware transactions. */
static void prepare(struct fur_thread *t)
{
	struct htm_window *w = &t->window;
	w->update_id++;
	w->slot = 0;
	w->announced = w->log_is_out = false;
	w->refused = FUR_ABORT_CAUSES;
	w->dset.n = 0;
	w->dset.below = 0;
	w->began = arch_ticks();
	redo_begin(t->update.log, t->durability);
}

static int begin_locked(struct fur_thread *t)
{
	uint64_t started = t->htm->phase_times ? arch_ticks() : 0;
	lock_acquire(t->htm, t->slot);
	if (__builtin_expect(htm_forked(t->htm), 0)) /* reader_report forked */
		return tx_refuse(t->htm);
	if (started)
		stat_add(&t->stats.phase_ticks[FUR_PHASE_LOCK], arch_ticks() - started);
	prepare(t);
	t->update.mode = TX_LOCK;
	return 0;
}

/* One hardware attempt after the other, until one is under way or the lock is taken.  Never
 * inlined, and nothing lives across begin() but what an abort brings back. */
static int begin_hardware(struct fur_thread *t)
{
	const struct htm_ops *ops = t->htm->ops;
	struct htm_history history = {0};
	for (;;) {
		/* While it is held an attempt could only abort */
		if (!lock_wait_free(t->htm, t->slot))
			break;
		prepare(t);
		t->update.mode = TX_HARDWARE;
		uint64_t status = ops->begin(t);
		if (__builtin_expect(status == HTM_STARTED, 1))
			return 0;
		t->update.mode = TX_NONE;
		enum fur_abort_cause cause = ops->classify(status);
		if (htm_is_conflict(cause) && lock_held(t->htm))
			cause = FUR_ABORT_LOCK;
		stat_add(&t->stats.aborts[cause], 1);
		int error = ops->aborted(t);
		if (error)
			return error;
		enum htm_action action = htm_decide(cause, &history, t->htm->retries);
		if (action == HTM_TAKE_LOCK)
			break;
		if ((error = act(t, action, &history, t->window.began))) {
			/* The update alone fills the log.  Under the lock it finds that out at the
			 * store, and its commit says so. */
			if (error != FUR_ETOOBIG)
				return error;
			break;
		}
	}
	return begin_locked(t);
}

/* Every begin that is not the outermost, and all misuse. */
static int begin_otherwise(struct fur_thread *t, fur_update **update)
{
	if (!t || !update)
		return fur_fail(FUR_EINVAL, "fur_begin_update: thread and update must not be NULL");
	*update = NULL;
	if (htm_forked(t->htm))
		return tx_refuse(t->htm);
	if (t->owner != this_thread())
		return tx_foreign("fur_begin_update", FUR_EINVAL);
	if (this_thread()->open != t)
		return fur_fail(FUR_ENESTED, "an update was begun while this thread has a "
		                             "transaction open on another heap: end that first");
	if (!t->update.depth)
		return fur_fail(FUR_ENESTED, "an update was begun inside a read-only transaction: "
		                             "end that first, or begin with fur_begin_update");
	t->update.depth++;
	*update = &t->update;
	return 0;
}

static int begin_failed(struct fur_update *tx, fur_update **update, int error)
{
	close_update(tx);
	*update = NULL;
	return error;
}

FUR_API int fur_begin_update(fur_thread *t, fur_update **update)
{
	if (__builtin_expect(!t || !update || t->owner != this_thread() || this_thread()->open, 0))
		return begin_otherwise(t, update);
	struct fur_update *tx = &t->update;
	int error;
	if (__builtin_expect(arch_load(&t->durability->failed) != 0, 0))
		return begin_failed(tx, update, tx_refuse(t->htm));
	if (t->htm->phase_times)
		t->began = arch_ticks();
	tx->error = 0;
	tx->bytes = t->durability->super->heap_bytes;
	/* Set before the hardware transaction, so that an abort does not take them back;
	 * begin_hardware() may return an error. */
	*update = tx;
	this_thread()->open = t;
	tx->depth = 1;
	error = t->htm->ops ? begin_hardware(t) : begin_locked(t);
	return __builtin_expect(error != 0, 0) ? begin_failed(tx, update, error) : 0;
}

/* ------------------------------------------------------------------ stores */

void tx_fail(struct fur_update *tx, int error)
{
	if (!tx->error)
		tx->error = error;
}

/* The log is full.  In hardware: abort and make room outside.  Under the lock: make room here;
 * whoever is in flight needs no lock to finish. */
static bool make_room(struct fur_update *tx)
{
	if (tx->mode == TX_HARDWARE)
		tx->thread->htm->ops->abort(FUR_ABORT_FULL);
	int error = redo_make_room(tx->log, tx->thread->durability);
	if (error)
		tx_fail(tx, error);
	return !error;
}

static inline bool inside(const struct fur_update *tx, const void *to, size_t bytes)
{
	uint64_t offset = (uint64_t)((const uint8_t *)to - tx->base);
	return offset < tx->bytes && bytes <= tx->bytes - offset;
}

/* Does the calling thread have it open, or had?  Stores have no result: FUR_CHECKS looks. */
static inline void check_update(const struct fur_update *tx)
{
	FUR_CHECK(tx, "the update must not be NULL");
	FUR_CHECK(tx->thread->owner == this_thread(),
	        "the update is another thread's, or its registration was given back");
	(void)tx;
}

FUR_API void fur_store_bits(fur_update *tx, void *to, uint64_t bits, unsigned bytes)
{
	enum { MOST_BYTES = sizeof bits };
	check_update(tx);
	if (__builtin_expect(!inside(tx, to, bytes) || tx->error || bytes - 1 >= MOST_BYTES, 0)) {
		/* An entry of no bytes would be damage to whoever replays the log; more than 8 are
		 * not in `bits`. */
		tx_fail(tx, inside(tx, to, bytes) ? FUR_EINVAL : FUR_ERANGE);
		return;
	}
	const struct durability *d = tx->thread->durability;
	uint64_t offset = (uint64_t)((uint8_t *)to - tx->base);
	while (__builtin_expect(!redo_append(tx->log, d, offset, to, &bits, bytes), 0))
		if (!make_room(tx))
			return;
}

static bool overlap(const void *a, const void *b, size_t bytes)
{
	return (uintptr_t)a - (uintptr_t)b < bytes || (uintptr_t)b - (uintptr_t)a < bytes;
}

/* As memmove(): each part goes through a copy, so that its log entry has the bytes that were there
 * before the part was stored; and the parts go in the order in which none is stored over before it
 * is read. */
static void write_overlapping(struct fur_update *tx, uint8_t *to, const uint8_t *from, size_t bytes)
{
	const struct durability *d = tx->thread->durability;
	uint8_t copy[MEDIA_ENTRY_MAX];
	bool upwards = to < from;
	while (bytes) {
		uint64_t part = redo_fits(tx->log, d, bytes), at = upwards ? 0 : bytes - part;
		memcpy(copy, from + at, part);
		if (!redo_append(tx->log, d, (uint64_t)(to + at - tx->base), to + at, copy, part)) {
			if (!make_room(tx))
				return;
			continue;
		}
		to += upwards ? part : 0;
		from += upwards ? part : 0;
		bytes -= part;
	}
}

FUR_API void fur_write(fur_update *tx, void *to, const void *from, size_t bytes)
{
	check_update(tx);
	if (bytes == 0)
		return;
	if (__builtin_expect(!inside(tx, to, bytes) || tx->error, 0)) {
		tx_fail(tx, FUR_ERANGE);
		return;
	}
	if (__builtin_expect(overlap(to, from, bytes), 0)) {
		write_overlapping(tx, to, from, bytes);
		return;
	}
	const struct durability *d = tx->thread->durability;
	while (bytes) {
		uint64_t part = redo_fits(tx->log, d, bytes);
		if (!redo_append(
		            tx->log, d, (uint64_t)((uint8_t *)to - tx->base), to, from, part)) {
			if (!make_room(tx))
				return;
			continue;
		}
		to = (uint8_t *)to + part;
		from = (const uint8_t *)from + part;
		bytes -= part;
	}
}

FUR_API void fur_promote(fur_update *tx, void *at)
{
	check_update(tx);
	if (__builtin_expect(!inside(tx, at, 1), 0)) {
		tx_fail(tx, FUR_ERANGE);
		return;
	}
	/* Loads are tracked under opacity; and under the lock nobody else runs. */
	if (tx->mode != TX_HARDWARE || tx->thread->htm->isolation != FUR_SNAPSHOT)
		return;
	/* A transactional store of what is there: it takes the line into the write set.  What is
	 * there cannot have changed since it was read: an update that writes it waits for us before
	 * it commits, or is aborted by this store. */
	uint8_t *byte = at;
	__atomic_store_n(byte, __atomic_load_n(byte, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

FUR_API void fur_read_bytes(void *to, const void *from, size_t bytes)
{
	/* With no bytes the pointers may be anything, and memmove() would not have that. */
	if (bytes)
		memmove(to, from, bytes);
}

/* ------------------------------------------------------------------ commit */

static void add_phases(struct fur_thread *t, const struct durability_times *times)
{
	const struct htm_window *w = &t->window;
	uint64_t *sums = t->stats.phase_ticks;
	stat_add(&sums[FUR_PHASE_BODY], w->committing - t->began);
	stat_add(&sums[FUR_PHASE_LOG], w->waiting - w->committing + times->log);
	stat_add(&sums[FUR_PHASE_ISOLATION], w->waited - w->waiting);
	stat_add(&sums[FUR_PHASE_ROOM], times->room);
	stat_add(&sums[FUR_PHASE_FLUSH], times->flush);
	stat_add(&sums[FUR_PHASE_DURABILITY], times->wait);
}

/* Under the lock the update is visible when the lock is free; what must be true then is done before
 * (INV-D1, INV-D4): D collected, slot drawn, announced. */
static void commit_locked(struct fur_thread *t)
{
	struct htm_window *w = &t->window;
	struct nondurable *mine = &t->durability->nondurable[t->slot];
	if (t->htm->phase_times)
		w->committing = w->waiting = w->waited = arch_ticks();
	/* The body's loads before the scan, as in fur_end_ro(). */
	arch_fence_light();
	durability_collect_settled(t->durability, t->slot, &w->dset);
	if (t->update.log->entries) {
		arch_store_release(&mine->id, w->update_id);
		w->slot = durability_draw(t->durability, t->slot, &w->dset);
	}
	lock_release(t->htm);
	stat_add(&t->stats.lock_commits, 1);
}

/* The update wrote nothing: it ends as a read-only transaction does. */
static int finish_empty(struct fur_thread *t)
{
	durability_wait(t->durability, &t->window.dset);
	stat_add(&t->stats.update_commits, 1);
	stat_add(&t->stats.empty_commits, 1);
	/* As in fur_end_ro(); the fence keeps the load behind the scan that collected D. */
	arch_fence_light();
	return durability_check_read(t->durability);
}

static int finish(struct fur_thread *t)
{
	struct durability_times times = {0};
	struct htm_window *w = &t->window;
	uint64_t visible = t->htm->phase_times ? arch_ticks() : 0, entries = t->update.log->entries;
	int error = durability_commit(
	        t->durability, t->slot, &w->dset, w->slot, w->log_is_out, visible ? &times : NULL);
	w->slot = 0;
	stat_add(&t->stats.update_commits, 1);
	stat_add(&t->stats.log_entries, entries);
	if (visible)
		add_phases(t, &times);
	if (__builtin_expect(t->htm->after_update != NULL, 0))
		t->htm->after_update(t, entries);
	return error;
}

static int roll_back(struct fur_update *tx)
{
	static const char *const reasons[] = {
	        [-FUR_EINVAL] = "the update stored 0 bytes, or more than 8, with fur_store_bits() "
	                        "and was rolled back: store 1 to 8, "
	                        "or use fur_write()",
	        [-FUR_ERANGE] = "the update stored to an address outside the heap and was rolled "
	                        "back: only fur_alloc()ed memory "
	                        "and roots can be stored to",
	        [-FUR_ETOOBIG] = "the update does not fit the redo log and was rolled back: make "
	                         "the heap with a larger log_bytes, "
	                         "or the update smaller",
	        [-FUR_EFREE] = "the update freed what is not an allocated block of this heap and "
	                       "was rolled back",
	        [-FUR_EABORTED] = "the update was aborted by fur_abort()",
	};
	struct fur_thread *t = tx->thread;
	int error = tx->error;
	redo_undo(tx->log, t->durability, tx->base);
	/* What is undone may have been read by nobody; but we have read, and return: D matters all
	 * the same. */
	if (tx->mode == TX_HARDWARE) {
		t->htm->ops->commit_empty(t);
	} else {
		arch_fence_light();
		durability_collect(t->durability, t->slot, &t->window.dset);
		lock_release(t->htm);
	}
	close_update(tx);
	durability_wait(t->durability, &t->window.dset);
	stat_add(&t->stats.aborts[FUR_ABORT_USER], 1);
	const char *reason =
	        (size_t)-error < sizeof reasons / sizeof *reasons ? reasons[-error] : NULL;
	if (reason)
		return fur_fail(error, "%s", reason);
	/* No room in the log, for the heap has failed: the message says why. */
	int failed = tx_refuse(t->htm);
	return failed ? failed : fur_fail(error, "%s", fur_strerror(error));
}

FUR_API int fur_commit(fur_update *tx)
{
	if (__builtin_expect(!mine_and_open(tx), 0))
		return not_open(tx, "fur_commit");
	if (tx->depth > 1) {
		tx->depth--;
		return 0;
	}
	if (__builtin_expect(tx->error != 0, 0))
		return roll_back(tx);
	struct fur_thread *t = tx->thread;
	bool empty = tx->log->entries == 0;
	if (tx->mode == TX_LOCK)
		commit_locked(t);
	else if (empty)
		t->htm->ops->commit_empty(t);
	else
		t->htm->ops->commit(t);
	close_update(tx);
	return empty ? finish_empty(t) : finish(t);
}

FUR_API int fur_abort(fur_update *tx)
{
	if (!mine_and_open(tx))
		return not_open(tx, "fur_abort");
	tx_fail(tx, FUR_EABORTED);
	if (tx->depth > 1) {
		tx->depth--;
		return FUR_EABORTED;
	}
	return roll_back(tx);
}

void tx_abandon(struct fur_thread *t)
{
	if (t->update.depth) {
		FUR_CHECK(t->update.mode != TX_NONE,
		        "a thread may not end inside fur_options.reader_report");
		t->ro = (struct fur_ro){0};
		t->update.depth = 1;
		fur_abort(&t->update);
	}
	if (t->ro.depth) {
		t->ro.depth = 1;
		if (fur_end_ro(&t->ro))
			return; /* the heap has failed; nobody is left to tell */
	}
}
