/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tx.c - what read-only transactions and updates share: refusals, and the end of an update.
 */
#include "tx/tx.h"

#include "base/error.h"
#include <stdio.h>

ARCH_THREAD_LOCAL_DEFINE(struct this_thread, this_thread)

void after_update_add(struct engine *e, after_update_function *f)
{
	unsigned n = 0;
	while (e->after_update[n])
		n++;
	FUR_ASSERT(n < AFTER_UPDATE_MOST);
	e->after_update[n] = f;
}

int tx_refuse(const struct engine *e)
{
	if (engine_forked(e))
		return fur_fail(FUR_EFORK,
		        "this process is a child of fork(): the heap is its parent's; close this "
		        "copy with fur_close(), and work on the heap in the parent");
	return durability_check(e->durability);
}

int tx_foreign(const char *function, int error)
{
	return fur_fail(error,
	        "%s: the registration is another thread's, or was given back: call "
	        "fur_thread_register() in each thread",
	        function);
}

int tx_check_join(const struct fur_thread *t, const char *function)
{
	if (engine_forked(t->engine))
		return tx_refuse(t->engine);
	if (t->owner != this_thread())
		return tx_foreign(function, FUR_EINVAL);
	/* A thread with an update over several heaps has a transaction open on each of them. */
	if (this_thread()->open != t && !(t->together && this_thread()->open &&
	                                        this_thread()->open->together == t->together))
		return fur_fail(FUR_ENESTED,
		        "%s was called while this thread has a transaction open on another heap: "
		        "end that first",
		        function);
	return 0;
}

int tx_refuse_begin(const struct fur_thread *t, const char *function, const char *join)
{
	int error = tx_check_join(t, function);
	if (error)
		return error;
	return fur_fail(FUR_ENESTED,
	        "%s was called while this thread has %s open: end that first%s%s; "
	        "fur_thread_abandon() ends one that was left open",
	        function, t->update.depth ? "an update" : "a read-only transaction",
	        join ? ", or join it with " : "", join ? join : "");
}

int tx_not_mine(const struct fur_update *tx, const char *function)
{
	if (tx && engine_forked(tx->thread->engine))
		return tx_refuse(tx->thread->engine);
	if (tx && tx->thread->owner != this_thread())
		return tx_foreign(function, FUR_ENOTX);
	return fur_fail(FUR_ENOTX, "%s without fur_begin_update", function);
}

bool tx_in_grown_heap(struct fur_update *tx, const void *at, size_t bytes)
{
	/* An update that has ended has 0 bytes, and so has a fork's copy of one. */
	const uint64_t offset = (uint64_t)((const uint8_t *)at - tx->base),
	               now = tx->bytes ? durability_heap_bytes(tx->thread->durability) : 0;
	if (now == tx->bytes)
		return false;
	tx->bytes = now;
	return offset < now && bytes <= now - offset;
}

void tx_reset(struct fur_update *tx)
{
	struct fur_thread *t = tx->thread;
	tx->mode = TX_NONE;
	tx->depth = 0;
	/* With 0 bytes, a store through an update that has ended is outside the heap, and is
	 * refused. */
	tx->bytes = 0;
	/* A read-only transaction inside the update ends with it.  If it stayed open, all later
	 * read-only transactions would join it, and run without being in active[]. */
	if (unlikely(t->ro.depth != 0)) {
		FUR_CHECK(false, "a read-only transaction is still open inside the update that "
		                 "ends: call fur_end_ro first");
		t->ro = (struct fur_ro){0};
	}
	this_thread()->open = NULL;
}

void tx_fail(struct fur_update *tx, int error)
{
	if (!tx->error)
		tx->error = error;
}

void tx_fail_saying(struct fur_update *tx, int error)
{
	struct fur_thread *t = tx->thread;
	if (!tx->error)
		snprintf(t->failure, sizeof t->failure, "%s", fur_errormsg());
	tx_fail(tx, error);
}
