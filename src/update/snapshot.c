/* SPDX-License-Identifier: BSD-3-Clause
 *
 * snapshot.c - snapshots: reads of one instant for as long as the program likes, for which no
 * update waits.
 *
 * Way 14, a snapshot:
 *
 *     fur_snapshot_begin()        refuses misuse
 *       images_open()             takes the turn for a moment, beside updates that publish: those
 *                                 that draw from then on save the lines to which they store;
 *                                 fur_group_snapshot() takes those of several heaps
 *       images_await()            waits until what the snapshot shows is durable (INV-SN5)
 *     fur_snapshot_run()          runs a body; fur_load() asks images_load() for lines to which
 *                                 updates may have stored since
 *       reader_run_in()           sets the bound, calls the body, and ends
 *     fur_snapshot_end()          refuses misuse
 *       images_close()            takes the turn for a moment, and gives the images back
 */
#include "base/error.h"
#include "base/struct.h"
#include "durability/ship.h"
#include "stm/images.h"
#include "update/update.h"

/* INV-SN5 */
static int await_durable(struct engine *e, const struct fur_snapshot *s)
{
	struct durability *d = e->durability;
	images_await(e, s);
	/* All that are late, not those up to `last`: one in hardware may have drawn a later durTS
	 * (plant: snapshot-hardware-late).  The wait's light fence orders the load of the newest
	 * after it (INV-AS2). */
	int error = ship_wait_all(d);
	return error ? error : durability_check_read(d);
}

/* May a snapshot of the heap begin? */
static int may_begin(const struct engine *e)
{
	if (unlikely(arch_load(&e->durability->failed) != 0))
		return tx_refuse(e);
	/* Rollback-only updates do not notice that a snapshot begins. */
	if (e->updates_active)
		return fur_fail(FUR_EINVAL,
		        "the heap is open with FUR_SNAPSHOT, whose updates on POWER do not save "
		        "what they overwrite, so it has no snapshots: open it with FUR_OPACITY");
	return 0;
}

int snapshots_begin(struct engine *const *engines, unsigned n, struct fur_snapshot **snapshots)
{
	int error = 0;
	for (unsigned k = 0; k < n && !error; k++)
		error = may_begin(engines[k]);
	if (!error)
		error = images_open(engines, n, snapshots);
	if (error)
		return error;
	for (unsigned k = 0; k < n && !error; k++)
		error = await_durable(engines[k], snapshots[k]);
	for (unsigned k = 0; k < n && error; k++)
		images_close(snapshots[k]);
	return error;
}

FUR_API int fur_snapshot_begin(fur_thread *t, fur_snapshot **snapshot)
{
	if (snapshot)
		*snapshot = NULL;
	if (!t || !snapshot)
		return fur_fail(
		        FUR_EINVAL, "fur_snapshot_begin: thread and snapshot must not be NULL");
	if (unlikely(t->owner != this_thread() || this_thread()->open))
		return tx_refuse_begin(t, "fur_snapshot_begin", NULL);
	const int error = snapshots_begin(&t->engine, 1, snapshot);
	if (error)
		*snapshot = NULL;
	return error;
}

FUR_API int fur_snapshot_end(fur_snapshot *s)
{
	if (!s)
		return fur_fail(FUR_EINVAL, "fur_snapshot_end: snapshot must not be NULL");
	if (engine_forked(s->engine))
		return tx_refuse(s->engine);
	/* An update that has the turn would wait for itself. */
	if (this_thread()->open)
		return fur_fail(FUR_ENESTED,
		        "fur_snapshot_end was called while this thread has a transaction open: end "
		        "that first");
	if (s->number == 0)
		return fur_fail(FUR_EINVAL, "fur_snapshot_end: the snapshot has ended already");
	if (arch_load(&s->users))
		return fur_fail(FUR_EBUSY,
		        "fur_snapshot_end: a thread runs a body in the snapshot: wait for it");
	images_close(s);
	return 0;
}

static int fail_too_old(const struct fur_snapshot *s)
{
	return fur_fail(FUR_ETOOOLD,
	        "updates have stored to more of the heap since the snapshot began than "
	        "fur_options.snapshot_bytes (%llu) can keep: raise that, or read in less time, "
	        "and begin a new snapshot",
	        (unsigned long long)s->engine->snapshot_bytes);
}

FUR_API int fur_snapshot_run(fur_thread *t, fur_snapshot *s,
        void (*body)(fur_reader *reader, void *arg), void *arg, const struct fur_run *given)
{
	struct fur_run how = {0};
	int error = fur_run_take(given, &how);
	bool again;
	if (error)
		return error;
	if (!body || !t || !s)
		return fur_fail(
		        FUR_EINVAL, "fur_snapshot_run: thread, snapshot and body must not be NULL");
	if (s->engine != t->engine || s->number == 0)
		return fur_fail(FUR_EINVAL,
		        "fur_snapshot_run: the snapshot has ended, or is of another heap");
	if (unlikely(t->owner != this_thread() || this_thread()->open))
		return tx_refuse_begin(t, "fur_snapshot_run", NULL);
	if (unlikely(arch_load(&t->durability->failed) != 0))
		return tx_refuse(t->engine);
	if (unlikely(images_revoked(s)))
		return fail_too_old(s);
	error = reader_run_in(t, s, body, arg, &how, &again);
	return again ? fail_too_old(s) : error;
}
