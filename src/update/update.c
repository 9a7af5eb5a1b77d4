/* SPDX-License-Identifier: BSD-3-Clause
 *
 * update.c - how an update begins: attempts in hardware (FUR, Algorithm 1, lines 4 to 13), in
 * software, or in place.
 *
 * Way 1, an update begins:
 *
 *     fur_update_run()              runs a body until its update is not defeated, and commits it
 *       update_begin()              opens the update, as in fur_begin_update()
 *         begin_without_hardware()  chooses: in place, concurrent or serial
 *           in_place_begin()        takes the turn, shuts readers out and drains them
 *           software_begin()        enters active[], and takes a snapshot
 *         begin_hardware()          makes one attempt after another
 *           update_awaits_let_in()        waits while readers are shut out
 *           attempt_prepare()       gives the attempt a new number and an empty record
 *           tsx_begin_update()      begins; the load of `shut` is tracked
 *           power_begin()           begins; under snapshot it enters active[] first
 *           tsx_aborted()           after an abort: owes nothing
 *           power_aborted()         after an abort: leaves active[], and owes a marker
 *             durability_abort()    makes the abort marker durable
 *               commit_flush_abort()  writes it, and drains
 */
#include "base/error.h"
#include "base/probe.h"
#include "durability/ship.h"
#include "htm/htm.h"
#include "htm/policy.h"
#include "stm/images.h"
#include "tx/marks.h"
#include "update/in_place.h"

/* After an abort: wait as the policy decided.  Errors: those of tx_refuse() and redo_make_room();
 * FUR_ETOOBIG. */
static int attempt_wait(struct fur_thread *t, enum htm_action action,
        const struct htm_history *history, uint64_t began)
{
	switch (action) {
	case HTM_RETRY:
	case HTM_RETRY_SOON: htm_pause(action, history, began, t->index); return 0;
	case HTM_WAIT_LOCK: return 0; /* begin_hardware() waits for the lock before every attempt */
	case HTM_WAIT_READER:
		active_wait_outside(t->engine, t->index, false);
		/* The user's reader_report has forked. */
		return unlikely(engine_forked(t->engine)) ? tx_refuse(t->engine) : 0;
	case HTM_MAKE_ROOM: return redo_make_room(t->update.log, t->durability);
	case HTM_TAKE_LOCK: break;
	}
	return 0;
}

/* --------------------------------------------------- without hardware */

inline void update_enter_core(struct fur_thread *t)
{
	if (likely(arch_load32(&t->engine->crowd.crowded) == 0) || t->policy.core_place)
		return;
	uint64_t started = t->engine->phase_times ? arch_ticks() : 0;
	crowd_enter(t);
	if (started) { /* the time is not the body's */
		uint64_t waited = arch_ticks() - started;
		t->began += waited;
		stat_add(&t->stats.phase_ticks[FUR_PHASE_LOCK], waited);
	}
}

static int fail_read_only(void)
{
	return fur_fail(FUR_EREADONLY,
	        "the heap is open read-only, as a copy: read from it, and update the heap "
	        "itself in the process that has it open");
}

static void begin_serial(struct fur_thread *t)
{
	turn_take_alone(t->engine);
	attempt_prepare(t, REDO_UNDO);
	software_begin(t, TX_SERIAL);
}

/* The machine has no hardware transactions, or this update should not use them. */
static int begin_without_hardware(struct fur_thread *t)
{
	struct engine *e = t->engine;
	/* Only here, because a heap that is open read-only has no hardware transactions. */
	if (unlikely(e->read_only))
		return fail_read_only();
	update_enter_core(t);
	uint64_t started = e->phase_times ? arch_ticks() : 0;
	int error = 0;
	if (updates_run_in(e) != HARDWARE && in_place_pays(t)) {
		error = in_place_begin(t);
	} else if (t->software.repeatable && t->software.defeats < SOFTWARE_TRIES) {
		attempt_prepare(t, REDO_UNDO);
		software_begin(t, TX_CONCURRENT);
		return 0;
	} else {
		begin_serial(t);
	}
	if (started)
		stat_add(&t->stats.phase_ticks[FUR_PHASE_LOCK], arch_ticks() - started);
	return error;
}

/* ------------------------------------------------------ with hardware */

enum { MOST_SKIPPED = 64 };

/* Some updates overflow the hardware again and again: then this thread's next ones do without it,
 * twice as many each time. */
static void note_overflow(struct policy *p)
{
	p->overflows = p->overflows ? p->overflows : 1;
	p->skip = p->overflows;
	if (p->overflows < MOST_SKIPPED)
		p->overflows *= 2;
}

static bool skips_hardware(struct policy *p)
{
	if (likely(p->skip == 0))
		return false;
	p->skip--;
	return true;
}

/* Make one hardware attempt after another, until one has begun, or the update should do without
 * hardware.  The compiler must not inline this, and no value may live across ops->begin() unless an
 * abort restores it. */
static int begin_hardware(struct fur_thread *t)
{
	const struct htm_ops *ops = t->engine->ops;
	struct htm_history history = {0};
	t->policy.first_attempt = 0;
	if (skips_hardware(&t->policy))
		return begin_without_hardware(t);
	for (;;) {
		/* While readers are shut out, an attempt would only abort. */
		if (!update_awaits_let_in(t->engine, t->index))
			break;
		attempt_prepare(t, t->engine->kind == FUR_HTM_POWER ? REDO_NOTES : REDO_ENTRIES);
		if (!t->policy.first_attempt)
			t->policy.first_attempt = t->attempt_began;
		else if (t->engine->switches && updates_learn_early(t))
			break;
		t->update.mode = TX_HARDWARE;
		FUR_POINT(hardware__begins);
		uint64_t status = ops->begin(t);
		if (likely(status == HTM_STARTED)) {
			marks_look(&t->update);
			images_look(&t->update);
			return 0;
		}
		t->update.mode = TX_NONE;
		enum fur_abort_cause cause = ops->classify(status);
		if (htm_is_conflict(cause) && readers_are_out(t->engine))
			cause = FUR_ABORT_LOCK;
		FUR_PROBE2(update__abort, t->index, cause);
		if (cause != FUR_ABORT_USER) /* the rollback will count it, when it is final */
			stat_add(&t->stats.aborts[cause], 1);
		int error = ops->aborted(t);
		if (error)
			return error;
		enum htm_action action = htm_decide(cause, &history, t->engine->retries);
		if (cause == FUR_ABORT_CAPACITY && action == HTM_TAKE_LOCK)
			note_overflow(&t->policy);
		/* A software body may be long, and in software this update need not wait for it. */
		if (action == HTM_TAKE_LOCK ||
		        (action == HTM_WAIT_READER && active_any_software(t->engine)))
			break;
		if ((error = attempt_wait(t, action, &history, t->attempt_began))) {
			/* The update alone fills the log.  We run it in software: there a store
			 * finds that out, and fur_commit() reports it. */
			if (error != FUR_ETOOBIG)
				return error;
			break;
		}
	}
	return begin_without_hardware(t);
}

int update_refuse_outermost(
        const struct fur_thread *t, fur_update **update, const char *function, const char *join)
{
	if (update)
		*update = NULL;
	if (!t || !update)
		return fur_fail(FUR_EINVAL, "%s: thread and update must not be NULL", function);
	return tx_refuse_begin(t, function, t->update.depth ? join : NULL);
}

static int begin_refused(struct fur_update *tx, fur_update **update, int error)
{
	tx_reset(tx);
	tx_leave_core(tx->thread);
	tx_report_rolled_back(tx->thread);
	*update = NULL;
	return error;
}

/* Set these before the hardware transaction begins, so that an abort does not undo them.  If
 * begin_hardware() returns an error, begin_refused() clears them. */
static inline void begin_open(struct fur_thread *t, struct fur_update **update)
{
	struct fur_update *tx = &t->update;
	FUR_PROBE1(update__begin, t->index);
	if (t->engine->phase_times)
		t->began = arch_ticks();
	tx->error = 0;
	tx->bytes = durability_heap_bytes(t->durability);
	*update = tx;
	this_thread()->open = t;
	tx->depth = 1;
}

int update_may_begin(struct fur_thread *t)
{
	if (unlikely(arch_load(&t->durability->failed) != 0))
		return tx_refuse(t->engine);
	return unlikely(t->engine->read_only) ? fail_read_only()
	                                      : ship_admit(t->durability, t->index);
}

void update_open_part(struct fur_thread *t)
{
	struct fur_update *unused;
	begin_open(t, &unused);
	/* fur_commit() and fur_abort() of the part then come where the outermost end is not. */
	t->update.depth = TOGETHER_DEPTH;
}

int update_begin(struct fur_thread *t, struct fur_update **update)
{
	int error;
	if (unlikely(arch_load(&t->durability->failed) != 0))
		return begin_refused(&t->update, update, tx_refuse(t->engine));
	if ((error = ship_admit(t->durability, t->index))) /* INV-SH5 */
		return begin_refused(&t->update, update, error);
	begin_open(t, update);
	error = updates_run_in(t->engine) != HARDWARE ? begin_without_hardware(t)
	                                              : begin_hardware(t);
	return unlikely(error != 0) ? begin_refused(&t->update, update, error) : 0;
}

static int open_serial(struct fur_thread *t, struct fur_update **update)
{
	const int error = update_may_begin(t);
	if (error)
		return begin_refused(&t->update, update, error);
	t->software.repeatable = false;
	t->window.commit.async = false;
	begin_open(t, update);
	return 0;
}

int update_begin_serial(struct fur_thread *t, struct fur_update **update)
{
	int error = open_serial(t, update);
	if (!error)
		begin_serial(t);
	return error;
}

int update_prepare_serial(struct fur_thread *t, struct fur_update **update)
{
	int error = open_serial(t, update);
	if (!error)
		attempt_prepare(t, REDO_UNDO);
	return error;
}

void update_begin_prepared(struct fur_thread *t)
{
	turn_take_alone(t->engine);
	software_begin(t, TX_SERIAL);
}

FUR_API int fur_begin_update(fur_thread *t, fur_update **update)
{
	if (unlikely(!tx_is_outermost(t, update)))
		return update_refuse_outermost(t, update, "fur_begin_update", "fur_join_update()");
	t->software.repeatable = false;
	t->window.commit.async = false;
	return update_begin(t, update);
}

FUR_API int fur_join_update(fur_thread *t, fur_update **update)
{
	if (tx_is_outermost(t, update))
		return fur_begin_update(t, update);
	if (!t || !update || tx_check_join(t, "fur_join_update") || !t->update.depth)
		return update_refuse_outermost(t, update, "fur_join_update", NULL);
	t->update.depth++;
	*update = &t->update;
	return 0;
}
