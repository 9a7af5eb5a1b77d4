/* SPDX-License-Identifier: BSD-3-Clause
 *
 * reader.c - read-only transactions: plain loads between two stores to active[], and hardly any
 * wait (FUR 3.1, 3.2.1; Algorithm 1, lines 14 to 18 and 23 to 25).
 */
#include "base/error.h"
#include "durability/ring.h"
#include "htm/software.h"

static struct fur_thread *thread_of(fur_ro *ro)
{
	return (struct fur_thread *)((char *)ro - offsetof(struct fur_thread, ro));
}

/* Become active while readers are not shut out (INV-H3). */
static void reader_enter(struct fur_thread *t)
{
	struct htm *h = t->htm;
	struct active *mine = active_of(t);
	for (;;) {
		active_enter(mine, t); /* A1:16, A1:18 */
		if (likely(!lock_held(h)))
			break;
		active_leave(mine);
		lock_wait_reader(h, t->index);
	}
	active_clear_wait(mine);
}

/* A begin that is not the outermost, and misuse. */
static int begin_inner(struct fur_thread *t, fur_ro **ro)
{
	if (ro)
		*ro = NULL;
	if (!t || !ro)
		return fur_fail(FUR_EINVAL, "fur_begin_ro: thread and ro must not be NULL");
	int error = tx_check_begin(t, "fur_begin_ro", "a read-only transaction");
	if (error)
		return error;
	if (t->ro.depth == 0) {
		/* Its loads are plain loads, which must find the update's stores in the heap. */
		if (t->update.form.software)
			software_to_in_place(&t->update);
		t->ro.joined = true;
	}
	t->ro.depth++;
	*ro = &t->ro;
	return 0;
}

static int begin_refused(const struct fur_thread *t, fur_ro **ro)
{
	*ro = NULL;
	return tx_refuse(t->htm);
}

FUR_API int fur_begin_ro(fur_thread *t, fur_ro **ro)
{
	if (unlikely(!t || !ro || t->owner != this_thread() || this_thread()->open))
		return begin_inner(t, ro);
	if (unlikely(arch_load(&t->durability->failed) != 0))
		return begin_refused(t, ro);
	*ro = &t->ro;
	if (t->htm->phase_times)
		t->began = arch_ticks();
	reader_enter(t);
	this_thread()->open = t;
	t->ro.depth = 1;
	return 0;
}

/* An end that is not the outermost, and misuse. */
static int end_inner(fur_ro *ro)
{
	if (!ro)
		return fur_fail(FUR_ENOTX, "fur_end_ro: NULL is no transaction");
	struct fur_thread *t = thread_of(ro);
	if (htm_forked(t->htm))
		return tx_refuse(t->htm);
	if (t->owner != this_thread())
		return tx_foreign("fur_end_ro", FUR_ENOTX);
	if (ro->depth == 0)
		return fur_fail(FUR_ENOTX, "fur_end_ro without fur_begin_ro");
	ro->depth--;
	if (ro->depth == 0)
		ro->joined = false;
	return 0;
}

/* Collect D (INV-D1).  With many threads, the scan of nondurable[] may take longer than the body.
 * So a thread that has found it empty remembers next_durts.  While that does not change, nothing
 * has become visible since (plant: quiet-forever): without hardware, an update announces itself,
 * draws its durTS, and then stores.  It does so after it has shut readers out and waited for us
 * (INV-SW3), hence not between the loads of this function, and their order does not matter.  With
 * hardware, an update may draw after its stores are visible, or before it is announced.
 * Each update changes next_durts, and to load it then costs a miss, so a thread that finds it
 * changed asks more rarely. */
static void collect(struct fur_thread *t, struct dset *set)
{
	enum { THREADS_FEW = 4, MISSES = 2, SKIP = 32 };
	const struct durability *d = t->durability;
	struct quiet *q = &t->quiet;
	if (t->htm->ops || q->skip || arch_load(&d->limit) <= THREADS_FEW) {
		q->skip -= q->skip != 0;
		nondurable_collect(d, t->index, set);
		return;
	}
	uint64_t next = ring_next(d);
	if (next == q->next) {
		set->n = 0;
		q->misses = 0;
		return;
	}
	nondurable_collect(d, t->index, set);
	q->next = set->n == 0 ? next : 0;
	if (++q->misses == MISSES) {
		q->misses = 0;
		q->skip = SKIP;
	}
}

FUR_API int fur_end_ro(fur_ro *ro)
{
	if (unlikely(!ro || ro->depth != 1 || ro->joined || thread_of(ro)->owner != this_thread()))
		return end_inner(ro);
	struct fur_thread *t = thread_of(ro);
	struct dset *set = &t->window.commit.dset;
	collect(t, set);
	active_leave(active_of(t)); /* A1:24 */
	this_thread()->open = NULL;
	ro->depth = 0;
	stat_add(&t->stats.ro_commits, 1);
	uint64_t ended = 0;
	if (t->htm->phase_times) {
		ended = arch_ticks();
		stat_add(&t->stats.phase_ticks[FUR_PHASE_RO_BODY], ended - t->began);
	}
	if (unlikely(set->n != 0)) {
		nondurable_wait(t->durability, set); /* A1:25 (INV-D2) */
		if (ended)
			stat_add(&t->stats.phase_ticks[FUR_PHASE_RO_WAIT], arch_ticks() - ended);
	}
	return durability_check_read(t->durability);
}
