/* SPDX-License-Identifier: BSD-3-Clause
 *
 * optimistic.c - optimistic readers: read-only transactions whose body may run again.  Updates do
 * not wait for them.  They wait for one that is storing to what they load.
 *
 * Way 12, an optimistic reader:
 *
 *     fur_read_run()                   refuses misuse
 *       run_once()                     runs the body, until its loads are of one state of the heap
 *         begin_run()                  takes a snapshot
 *           body_enter()               enters active[] as a body
 *         end_run()                    ends the transaction
 *           dset_wait()  waits until all that the body has read is durable
 *
 * fur_load() looks at the stamp after it has loaded a word.  If that does not tell that the load is
 * good, it calls fur_load_reader(), which may leave the body: a run ends at the first word that is
 * newer than its snapshot.  After a few runs in vain, updates save for the body what it would find
 * overwritten (stm/images.h).
 *
 *   INV-OR1  The loads of a run are of one state of the heap, its snapshot (INV-SW1), and none is
 *           used before that is known: a body never follows a pointer that is torn or stale.
 *   INV-OR2  A version that a run has loaded is the durTS of the update that it has read from.  So
 *           when each durTS up to the greatest of them is settled, all that the run has read is
 *           durable.  A run counts what was stored past the stamps before it began
 *           (publication_lock.unstamped) as read.
 *   INV-OR3  No optimistic reader starves: after READER_RUNS runs its body reads in a snapshot, and
 *            if the memory for before-images runs out, it runs as a plain reader's.
 *   INV-OR4  Readers share these snapshots.  A reader that has run in vain takes one only if it was
 *            opened after the transaction began: so it shows all updates that had returned.
 */
#include "base/checker.h"
#include "base/error.h"
#include "base/spin_lock.h"
#include "base/struct.h"
#include "durability/dset.h"
#include "durability/ship.h"
#include "stm/images.h"
#include "update/update.h"

#include <string.h>

static struct fur_thread *thread_of(struct fur_reader *r)
{
	return (struct fur_thread *)((char *)r - offsetof(struct fur_thread, reader));
}

/* ------------------------------------------------------------------- loads */

static void leave_snapshot(struct fur_reader *r)
{
	struct fur_snapshot *s = r->snapshot;
	r->snapshot = NULL;
	if (!s)
		return;
	struct shared_snapshot *shared = &s->engine->shared;
	if (r->shares)
		spin_lock(&shared->lock, (struct arch_backoff){0});
	/* Orders the body's loads before the end that another thread may make. */
	const bool last = arch_fetch_add(&s->users, (uint64_t)-1) == 1;
	if (!r->shares)
		return;
	if (last && shared->snapshot == s)
		shared->snapshot = NULL;
	spin_unlock(&shared->lock);
	if (last)
		images_close(s);
}

/* Leave the body, which runs again. */
static __attribute__((noreturn)) void run_again(struct fur_reader *r)
{
	struct fur_thread *t = thread_of(r);
	active_leave(active_of(t));
	this_thread()->open = NULL;
	r->open = false;
	leave_snapshot(r);
	r->left = true;
	arch_store(
	        &r->view.bound, 0); /* a body that swallows leave()'s exception comes back here */
	r->again++;
	software_look_at_clock(t); /* the next bodies begin with a new snapshot */
	stat_add(&t->stats.reads_again, 1);
	if (r->leave)
		r->leave();
	longjmp(*r->restart, 1);
}

/* Copy bytes of one line (INV-OR1). */
static void load_of_line(struct fur_reader *r, uint8_t *to, const uint8_t *from, uint64_t bytes)
{
	struct fur_thread *t = thread_of(r);
	const struct engine *e = t->engine;
	const uint64_t *stamp = stamp_of(e, from);
	struct arch_backoff backoff = durability_backoff(t->durability);
	for (;;) {
		const uint64_t seen = arch_load_acquire(stamp);
		if (stamp_is_held(seen)) {
			arch_backoff(&backoff);
			continue;
		}
		if (unlikely(seen >= t->software.snapshot)) {
			if (r->loaded)
				run_again(r);
			t->software.snapshot = software_look_at_clock(t);
			continue;
		}
		checker_copy(to, from, bytes);
		/* The bytes before the second look at the stamp. */
		arch_fence_light();
		if (arch_load(stamp) != seen)
			continue;
		/* A sweep has begun since, and we cannot compare what we have loaded. */
		if (unlikely(arch_load(&e->sweeps) != t->software.sweep))
			run_again(r);
		software_note_version(t, seen);
		return;
	}
}

bool reader_set_bound(struct fur_reader *r)
{
	struct fur_thread *t = thread_of(r);
	r->loaded = true;
	/* Full fence: see sweep_begin(). */
	arch_store_fence(&r->view.bound, software_bound(t));
	return likely(arch_load(&t->engine->sweeps) == t->software.sweep);
}

static bool is_in_heap(const struct fur_thread *t, const void *at, uint64_t bytes)
{
	const uint64_t offset = (uint64_t)((const uint8_t *)at - t->update.base),
	               most = t->durability->super->heap_bytes;
	return offset < most && bytes <= most - offset;
}

/* Does not return if the snapshot is revoked. */
static void load_from_snapshot(
        struct fur_reader *r, uint8_t *to, const uint8_t *from, uint64_t bytes)
{
	const struct fur_thread *t = thread_of(r);
	if (unlikely(!is_in_heap(t, from, bytes))) {
		fur_read_bytes(to, from, bytes);
		return;
	}
	if (likely(images_load(t, r->snapshot, to, from, bytes)))
		return;
	r->shuns = true;
	run_again(r);
}

FUR_API void fur_load_reader(fur_reader *r, void *to, const void *from, size_t bytes)
{
	enum { LINE = 1 << FUR_STAMP_LINE_SHIFT };
	uint8_t *out = to;
	const uint8_t *in = from;
	FUR_CHECK(thread_of(r)->owner == this_thread(), "the fur_reader is another thread's");
	if (unlikely(!r->open) && r->left && r->leave)
		r->leave();
	if (unlikely(!r->open) || r->plain) {
		fur_read_bytes(to, from, bytes);
		return;
	}
	while (bytes) {
		uint64_t part = LINE - ((uintptr_t)in & (LINE - 1));
		if (part > bytes)
			part = bytes;
		if (r->snapshot)
			load_from_snapshot(r, out, in, part);
		else
			load_of_line(r, out, in, part);
		if (unlikely(!r->loaded) && !reader_set_bound(r))
			run_again(r);
		out += part;
		in += part;
		bytes -= part;
	}
}

/* ------------------------------------------------------------ begin and end */

/* Where hardware updates wait for each reader anyway, and leave no versions, or a memory checker
 * would find loads from blocks that have been freed, a body runs plainly. */
bool reader_is_better_plain(const struct fur_thread *t)
{
	return updates_run_in(t->engine) != SOFTWARE || (t->update.flags_at_begin & TX_CHECKED);
}

/* All loads are of `s`. */
static void begin_in_snapshot(struct fur_thread *t, struct fur_snapshot *s, bool shares)
{
	struct fur_reader *r = &t->reader;
	r->snapshot = s;
	r->shares = shares;
	r->loaded = true;
	if (!shares)
		arch_fetch_add(&s->users, 1);
	/* INV-SN4.  Full fence: see revoke() (images.c). */
	arch_store_fence(&r->view.bound, s->last);
	if (unlikely(images_revoked(s)))
		arch_store(&r->view.bound, 0);
}

static void begin_plain(struct fur_thread *t)
{
	struct fur_reader *r = &t->reader;
	r->plain = true;
	arch_store(&r->view.bound, STAMP_HELD); /* above every version */
	(void)reader_enter(t, true);
}

/* False: no versions tell what the body reads. */
static bool begin_optimistic(struct fur_thread *t)
{
	/* The first load comes to fur_load_reader(), which can still move the snapshot. */
	arch_store(&t->reader.view.bound, 0);
	t->software.snapshot = software_first_snapshot(t);
	body_enter(t);
	/* INV-UR3 */
	if (unlikely(updates_run_in(t->engine) != SOFTWARE)) {
		active_leave(active_of(t));
		return false;
	}
	software_note_unstamped(t); /* INV-OR2 */
	return true;
}

/* INV-OR4: a snapshot that another reader has opened since the transaction began.  NULL: there is
 * none. */
static struct fur_snapshot *join_shared(const struct fur_thread *t)
{
	struct shared_snapshot *shared = &t->engine->shared;
	struct fur_snapshot *s = NULL;
	/* Most often there is none, and readers that one update has defeated would wait for each
	 * other's look.  The number may fall until we look again. */
	if (arch_load(&shared->number) <= t->reader.opened)
		return NULL;
	spin_lock(&shared->lock, (struct arch_backoff){0});
	if (shared->snapshot && shared->number > t->reader.opened &&
	        !images_revoked(shared->snapshot)) {
		s = shared->snapshot;
		arch_fetch_add(&s->users, 1);
	}
	spin_unlock(&shared->lock);
	return s;
}

/* A new one, for this reader and others.  All its updates have durTSs (INV-UR3).  NULL: there is
 * none. */
static struct fur_snapshot *open_shared(struct fur_thread *t)
{
	struct shared_snapshot *shared = &t->engine->shared;
	/* Before the instant: who has found a lower number began before it. */
	const uint64_t number = arch_fetch_add(&t->engine->shared_opened, 1) + 1;
	struct fur_snapshot *s;
	if (images_open(&t->engine, 1, &s))
		return NULL;
	if (unlikely(updates_run_in(t->engine) != SOFTWARE)) {
		images_close(s);
		return NULL;
	}
	s->users = 1;
	spin_lock(&shared->lock, (struct arch_backoff){0});
	if (!shared->snapshot || shared->number < number) {
		shared->snapshot = s;
		arch_store(&shared->number, number);
	}
	spin_unlock(&shared->lock);
	return s;
}

/* A snapshot for a transaction that has run in vain, or NULL. */
static struct fur_snapshot *take_shared(struct fur_thread *t)
{
	struct fur_snapshot *s = join_shared(t);
	if (!s && t->reader.again >= READER_RUNS)
		s = open_shared(t);
	if (s)
		images_await(t->engine, s);
	return s;
}

/* `s`: the snapshot in which the body runs, or NULL: none, or one that readers share. */
static void begin_run(struct fur_thread *t, struct fur_snapshot *s)
{
	struct fur_reader *r = &t->reader;
	const bool shares = !s;
	r->plain = r->loaded = r->left = false;
	r->view.stamps = t->engine->stamps;
	if (t->engine->phase_times)
		t->began = arch_ticks();
	dset_begin_versions(t->durability, &t->window.commit);
	/* INV-OR3 */
	const bool plain = r->shuns || reader_is_better_plain(t), runs_on = r->again < READER_RUNS;
	if (shares && !plain && r->again)
		s = take_shared(t);
	if (s)
		begin_in_snapshot(t, s, shares);
	else if (plain || !runs_on || !begin_optimistic(t))
		begin_plain(t);
	r->open = true;
	this_thread()->open = t;
}

inline int reader_wait(struct fur_thread *t)
{
	dset_wait(t->durability, &t->window.commit);
	/* The scans come before this, by the light fences of active_leave() and
	 * dset_settle() (INV-AS1). */
	int error = ship_wait_all(t->durability);
	return error ? error : durability_check_read(t->durability);
}

static int end_run(struct fur_thread *t, fur_ticket *ticket)
{
	struct fur_reader *r = &t->reader;
	FUR_CHECK(t->ro.depth == 0, "a read-only transaction is still open inside the one that "
	                            "ends: call fur_end_ro first");
	if (r->plain && !ticket)
		reader_collect(t, &t->window.commit.dset);
	const uint64_t ended = reader_leave(t);
	r->open = false;
	arch_store(&r->view.bound, 0);
	leave_snapshot(r);
	if (ticket) {
		*ticket = ticket_of(t, ++t->tickets);
		return 0;
	}
	const int error = reader_wait(t);
	if (ended)
		stat_add(&t->stats.phase_ticks[FUR_PHASE_RO_WAIT], arch_ticks() - ended);
	return error;
}

void reader_abandon(struct fur_thread *t)
{
	if (t->reader.open)
		(void)end_run(t, NULL);
}

/* ------------------------------------------------------------------- run it */

/* *again: the body is to run again.  Returns the result of the end. */
static __attribute__((noinline)) int run_once(struct fur_thread *t, struct fur_snapshot *s,
        void (*body)(fur_reader *, void *), void *arg, fur_ticket *ticket, bool *again)
{
	struct fur_reader *r = &t->reader;
	const uint32_t runs = r->again;
	jmp_buf restart;
	*again = false;
	if (!r->leave) {
		r->restart = &restart;
		if (setjmp(restart)) {
			*again = true;
			return 0;
		}
	}
	begin_run(t, s);
	body(r, arg);
	if (unlikely(engine_forked(t->engine))) /* the body has forked, and this is the child */
		return tx_refuse(t->engine);
	if (!r->open) { /* left by `leave`, and caught; or ended by fur_thread_abandon() */
		*again = r->again != runs;
		return *again ? 0
		              : fur_fail(FUR_ENOTX,
		                        "fur_read_run: the body has ended the transaction");
	}
	return end_run(t, ticket);
}

/* Before the first run. */
static void prepare(struct fur_thread *t, void (*leave)(void))
{
	t->reader.leave = leave;
	t->reader.again = 0;
	t->reader.opened = arch_load(&t->engine->shared_opened);
	t->reader.shuns = false;
}

int reader_run_in(struct fur_thread *t, struct fur_snapshot *s, void (*body)(fur_reader *, void *),
        void *arg, const struct fur_run *how, bool *again)
{
	fur_ticket unused; /* all that the snapshot shows is durable */
	prepare(t, how->leave);
	const int error = run_once(t, s, body, arg, &unused, again);
	if (how->ticket)
		*how->ticket = error || *again ? (fur_ticket){0} : ticket_of(t, 0);
	return error;
}

FUR_API int fur_read_run(fur_thread *t, void (*body)(fur_reader *reader, void *arg), void *arg,
        const struct fur_run *given)
{
	struct fur_run how = {0};
	int error = fur_run_take(given, &how);
	bool again;
	if (error)
		return error;
	if (how.ticket)
		*how.ticket = (fur_ticket){0};
	if (!body || !t)
		return fur_fail(FUR_EINVAL, "fur_read_run: thread and body must not be NULL");
	if (unlikely(t->owner != this_thread() || this_thread()->open))
		return tx_refuse_begin(t, "fur_read_run", NULL);
	prepare(t, how.leave);
	do {
		if (unlikely(arch_load(&t->durability->failed) != 0))
			return tx_refuse(t->engine);
		error = run_once(t, NULL, body, arg, how.ticket, &again);
	} while (again);
	return error;
}

/* ------------------------------------------------------- a body that is no function */

FUR_API int fur_begin_reader_leaving(
        fur_thread *t, fur_reader **reader, void (*leave)(void), bool again)
{
	if (reader)
		*reader = NULL;
	if (!t || !reader || !leave)
		return fur_fail(FUR_EINVAL, "fur_begin_reader_leaving: thread, reader and leave "
		                            "must not be NULL");
	if (unlikely(t->owner != this_thread() || this_thread()->open))
		return tx_refuse_begin(t, "fur_begin_reader_leaving", NULL);
	if (unlikely(arch_load(&t->durability->failed) != 0))
		return tx_refuse(t->engine);
	if (!again)
		prepare(t, leave);
	t->reader.leave = leave;
	begin_run(t, NULL);
	*reader = &t->reader;
	return 0;
}

FUR_API int fur_end_reader(fur_reader *r)
{
	if (!r)
		return fur_fail(FUR_ENOTX, "fur_end_reader: NULL is no transaction");
	struct fur_thread *t = thread_of(r);
	if (unlikely(engine_forked(t->engine)))
		return tx_refuse(t->engine);
	if (unlikely(t->owner != this_thread()))
		return tx_foreign("fur_end_reader", FUR_ENOTX);
	if (unlikely(!r->open))
		return fur_fail(FUR_ENOTX, "fur_end_reader without fur_begin_reader_leaving");
	return end_run(t, NULL);
}

void reader_turns_plain(struct fur_thread *t)
{
	struct fur_reader *r = &t->reader;
	if (!r->open || r->plain)
		return;
	r->shuns = true;
	run_again(r);
}
