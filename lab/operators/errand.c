/* SPDX-License-Identifier: BSD-3-Clause
 *
 * errand.c - the program's side of an errand (errand.h): check, settle, ask, wait, give up.
 */
#include "base/error.h"
#include "durability/nondurable.h"
#include "file/heap_file.h"
#include "mapper.h"

#include <string.h>

enum {
	/* How soon the program looks whether fur-operators lives, and whether it is cancelled. */
	LOOK_NS = 20 * 1000 * 1000,
	/* So long a request may remain without an answer. */
	ANSWER_S = 10
};

uint64_t errand_silence_ns = UINT64_C(60000000000);

int errand_check(const struct fur_thread *t, const struct bulk_job *job)
{
	struct control *c = t->durability->control;
	const int held = heap_lock_held(t->durability->pm.fd, HEAP_LOCK_LAB);
	if (held < 0 || (held && arch_load(&errand_in(c)->operators_pid)))
		return held < 0 ? held : 0;
	return fur_fail(FUR_ENOENT,
	        "%s: lab_bulk_run: operator '%s' needs fur-operators, and none serves this heap: "
	        "start fur-operators --operators FILE, or call fur_bulk_run()",
	        heap_path(t->durability->file), operator_of(job)->name);
}

/* Of EACH, records are done when their update has committed; of WHOLE, when they are mapped. */
static int progress(struct fur_thread *t, struct bulk_job *job, uint64_t mapped)
{
	const bool each = job->what->atomic == FUR_BULK_EACH;
	return bulk_progress(t, job, each ? job->result.records : mapped, job->records);
}

int errand_settle(struct fur_thread *t, struct bulk_job *job)
{
	struct durability *d = t->durability;
	struct dset *set = &t->window.commit.dset;
	struct arch_backoff backoff = durability_backoff(d);
	/* An update that is visible may not have drawn its durTS yet.  It has announced itself
	 * before, so our scan finds it, or it has left, with a durTS (plant: errand-settles-drawn).
	 * What becomes visible later sets marks: marks_begin() has returned. */
	nondurable_collect(d, t->index, set);
	nondurable_wait_drawn(d, set);
	set->n = 0;
	const uint64_t upto = ring_next_acquire(d);
	int error = 0;
	while (!error && upto && !ring_replayed(d, upto - 1)) {
		error = progress(t, job, 0);
		if (!error)
			error = durability_replay(d, &backoff);
	}
	FUR_POINT(errand__settled);
	return error;
}

/* ------------------------------------------------------------------- the errand */

struct errand errand_ask(
        const struct fur_thread *t, const struct bulk_job *job, const struct errand_work *work)
{
	struct control *c = t->durability->control;
	struct control_errand *e = errand_in(c);
	const struct lab_operator_call *call = operator_of(job);
	const struct errand asked = {.number = errand_number(arch_load(&e->request)) + 1,
	        .pid = arch_load(&e->operators_pid)};
	/* Full fence, before the fields: a program that has died may have left a request, which
	 * fur-operators takes up at any time.  It must not find our fields under that number:
	 * `opened` would be the living program's, and the results would go to a block while its
	 * request is not written yet (INV-OP1). */
	arch_exchange(&e->request, errand_request(asked.number, ERRAND_NONE));
	e->opened = arch_load32(&c->opened);
	e->block = work->offset;
	e->block_bytes = work->bytes;
	e->rows = work->rows;
	e->records = work->records;
	memset(e->name, 0, sizeof e->name);
	memcpy(e->name, call->name, strnlen(call->name, sizeof e->name - 1));
	e->arg_bytes = (uint32_t)call->arg_bytes;
	if (call->arg_bytes)
		memcpy(e->arg, call->arg, call->arg_bytes);
	arch_store(&e->done, 0);
	/* Release: fur-operators finds the number, and then the fields, and the rows. */
	arch_store_release(&e->request, errand_request(asked.number, ERRAND_ASKED));
	arch_fetch_add32(&e->asked, 1);
	arch_futex_wake_all_shared(&e->asked);
	return asked;
}

/* Fence: whatever this thread does next to the block comes later.  If fur-operators has seen the
 * request before, it stores with the right to replay, which the block's next owner waits for
 * (INV-OP1). */
void errand_stop(const struct fur_thread *t, struct errand asked)
{
	arch_exchange(&errand_in(t->durability->control)->request,
	        errand_request(asked.number, ERRAND_NONE));
}

static int refused(const struct fur_thread *t)
{
	const struct control_errand *e = errand_in(t->durability->control);
	char says[sizeof e->says];
	const int code = (int)e->code;
	memcpy(says, e->says, sizeof says);
	says[sizeof says - 1] = 0;
	return code ? fur_fail(code, "%s: lab_bulk_run: %s", heap_path(t->durability->file), says)
	            : 0;
}

/* Is the fur-operators that was asked still there?  Not if another one has come.
 * Errors: FUR_ESYS. */
static int lives(const struct fur_thread *t, uint64_t pid)
{
	const int held = heap_lock_held(t->durability->pm.fd, HEAP_LOCK_LAB);
	return held > 0 ? arch_load(&errand_in(t->durability->control)->operators_pid) == pid
	                : held;
}

/* What fur-operators had done when it was last seen to have moved. */
struct last_move {
	enum errand_state state;
	uint64_t done, at_ns;
};

/* Has fur-operators not answered for too long, or not mapped another record?  It may be stopped, or
 * the operator may hang.  When all records are mapped, it makes the results durable, which may take
 * as long as the disk needs. */
static int check_silence(const struct fur_thread *t, const struct bulk_job *job,
        const struct last_move *last, uint64_t now)
{
	const struct control_errand *e = errand_in(t->durability->control);
	const uint64_t silent = now - last->at_ns;
	const char *path = heap_path(t->durability->file), *name = operator_of(job)->name;
	const unsigned long long pid = (unsigned long long)e->operators_pid;
	if (last->state == ERRAND_ASKED && silent > ANSWER_S * UINT64_C(1000000000))
		return fur_fail(FUR_EBUSY,
		        "%s: lab_bulk_run: fur-operators (process %llu) has not taken up operator "
		        "'%s' for ten seconds: if it is stopped, or another operator hangs, "
		        "continue or kill it",
		        path, pid, name);
	if (last->state == ERRAND_RUNS && last->done < e->records && silent > errand_silence_ns)
		return fur_fail(FUR_EBUSY,
		        "%s: lab_bulk_run: fur-operators (process %llu) has not mapped a record by "
		        "operator '%s' for a minute: if it is stopped, continue or kill it; if the "
		        "operator hangs, kill it and mend the operator",
		        path, pid, name);
	return 0;
}

/* While it is at work: tell how far it is, and sleep until it has moved. */
static int wait_once(struct fur_thread *t, struct bulk_job *job, uint32_t moved,
        enum errand_state state, struct last_move *last)
{
	struct control_errand *e = errand_in(t->durability->control);
	const uint64_t done = arch_load(&e->done), now = arch_now_ns();
	if (state != last->state || done != last->done)
		*last = (struct last_move){state, done, now};
	int error = progress(t, job, done);
	if (!error)
		error = check_silence(t, job, last, now);
	if (!error)
		arch_futex_wait_shared(&e->moved, moved, LOOK_NS);
	return error;
}

int errand_wait(struct fur_thread *t, struct bulk_job *job, struct errand asked, bool *mapped)
{
	struct control_errand *e = errand_in(t->durability->control);
	struct last_move last = {.state = ERRAND_ASKED, .at_ns = arch_now_ns()};
	int error = 0;
	while (!error) {
		const uint32_t moved = arch_load32_acquire(&e->moved);
		/* The lock first: if fur-operators has died by now, it stores no more, and the
		 * request has what it has said last.  The acquire orders the two. */
		const int alive = lives(t, asked.pid);
		const enum errand_state state = errand_state(arch_load_acquire(&e->request));
		*mapped = state == ERRAND_DONE;
		if (*mapped)
			return 0;
		/* If it still lives, it has refused, and not one that has come since. */
		if (state == ERRAND_REFUSED && lives(t, asked.pid) > 0)
			return refused(t);
		if (alive <= 0)
			return alive;
		error = wait_once(t, job, moved, state, &last);
	}
	return error;
}
