/* SPDX-License-Identifier: BSD-3-Clause
 *
 * reader.c - read-only transactions: plain loads between two marks in active[], and almost no wait
 * (FUR 3.1, 3.2.1).
 */
#include "base/error.h"
#include "htm/htm.h"

ARCH_THREAD_LOCAL_DEFINE(struct this_thread, this_thread)

static struct fur_thread *thread_of(fur_ro *ro)
{
	return (struct fur_thread *)((char *)ro - offsetof(struct fur_thread, ro));
}

static void become_active(struct fur_thread *t)
{
	struct htm *h = t->htm;
	struct active *mine = &h->active[t->slot];
	for (;;) {
		/* INV-H1, full fence: our entry is seen before our first load is made.  Otherwise
		 * an update may scan active[], miss us and commit between two of our loads.  The
		 * same fence, against the look at the lock: INV-H3. */
		arch_store_fence(&mine->seq, t->seq += 2);
		if (__builtin_expect(!lock_held(h), 1))
			break;
		arch_store_release(&mine->seq, 0);
		lock_wait_reader(h, t->slot);
	}
	if (__builtin_expect(arch_load(&mine->want) != 0, 0))
		arch_store_release(&mine->want, 0);
}

/* Every begin that is not the outermost, and all misuse. */
static int begin_otherwise(struct fur_thread *t, fur_ro **ro)
{
	if (!t || !ro)
		return fur_fail(FUR_EINVAL, "fur_begin_ro: thread and ro must not be NULL");
	*ro = NULL;
	if (htm_forked(t->htm))
		return tx_refuse(t->htm);
	if (t->owner != this_thread())
		return tx_foreign("fur_begin_ro", FUR_EINVAL);
	if (this_thread()->open != t)
		return fur_fail(FUR_ENESTED, "a read-only transaction was begun while this thread "
		                             "has a transaction open on another heap: end that "
		                             "first");
	if (t->ro.depth == 0)
		t->ro.joined = true;
	t->ro.depth++;
	*ro = &t->ro;
	return 0;
}

static int refuse(const struct fur_thread *t, fur_ro **ro)
{
	*ro = NULL;
	return tx_refuse(t->htm);
}

FUR_API int fur_begin_ro(fur_thread *t, fur_ro **ro)
{
	if (__builtin_expect(!t || !ro || t->owner != this_thread() || this_thread()->open, 0))
		return begin_otherwise(t, ro);
	if (__builtin_expect(arch_load(&t->durability->failed) != 0, 0))
		return refuse(t, ro);
	*ro = &t->ro;
	if (t->htm->phase_times)
		t->began = arch_ticks();
	become_active(t);
	this_thread()->open = t;
	t->ro.depth = 1;
	return 0;
}

/* Every end that is not the outermost, and all misuse. */
static int end_otherwise(fur_ro *ro)
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

FUR_API int fur_end_ro(fur_ro *ro)
{
	if (__builtin_expect(
	            !ro || ro->depth != 1 || ro->joined || thread_of(ro)->owner != this_thread(),
	            0))
		return end_otherwise(ro);
	struct fur_thread *t = thread_of(ro);
	struct dset *set = &t->window.dset;
	/* INV-D1: our loads before the scan of nondurable[].  Otherwise we may read what an update
	 * committed after the scan, and return it while it is not durable.  Free on x86. */
	arch_fence_light();
	durability_collect(t->durability, t->slot, set);
	/* Loads and the scan before we are no longer active.  The other way round an update that
	 * waits for us could announce itself between the two, and we would wait for it in turn. And
	 * the scan before the load of `failed` below: a fence, for a release store does not keep
	 * later loads behind it.  The other way round an update that we have read could fail and
	 * leave nondurable[] in between: not in our set, it would let us return as if it were
	 * durable.  One lwsync either way; free on x86. */
	arch_fence_light();
	arch_store(&t->htm->active[t->slot].seq, 0);
	this_thread()->open = NULL;
	ro->depth = 0;
	stat_add(&t->stats.ro_commits, 1);
	uint64_t ended = 0;
	if (t->htm->phase_times) {
		ended = arch_ticks();
		stat_add(&t->stats.phase_ticks[FUR_PHASE_RO_BODY], ended - t->began);
	}
	if (__builtin_expect(set->n != 0, 0)) {
		durability_wait(t->durability, set); /* INV-D2 */
		if (ended)
			stat_add(&t->stats.phase_ticks[FUR_PHASE_RO_WAIT], arch_ticks() - ended);
	}
	return durability_check_read(t->durability);
}
