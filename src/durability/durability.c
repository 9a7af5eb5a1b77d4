/* SPDX-License-Identifier: BSD-3-Clause
 *
 * durability.c - marking a heap as failed; making room in ring and logs by replaying.
 */
#include "base/error.h"
#include "durability/ring.h"

#include <stdio.h>
#include <string.h>

void durability_fail(struct durability *d, int error)
{
	/* Several threads may fail at the same time; one of them writes the message. */
	if (arch_cas32(&d->cause_state, CAUSE_NONE, CAUSE_WRITTEN)) {
		snprintf(d->cause, sizeof d->cause, "%s", fur_errormsg());
		/* Release: a thread that sees CAUSE_THERE reads the whole text. */
		arch_store32_release(&d->cause_state, CAUSE_THERE);
	}
	/* Release: see drain() in commit.c. */
	arch_store_release(&d->failed, (uint64_t)(int64_t)error);
}

int durability_say_failed(const struct durability *d, const char *news)
{
	int error = (int)arch_load(&d->failed);
	/* Acquire pairs with the release above.  While another thread still writes the text, use
	 * the text of the error code instead. */
	bool there = arch_load32_acquire(&d->cause_state) == CAUSE_THERE;
	return fur_fail(error, "%s: close the heap and open it again; the cause: %s", news,
	        there ? d->cause : fur_strerror(error));
}

/* Wait for a running fur-replayer to replay.  If none runs, or it does not answer, replay in this
 * thread. */
static int replay_or_wait(struct durability *d)
{
	/* If the replayer's lock cannot be read, replay here: that is safe, because the right to
	 * replay has a lock of its own. */
	if (!d->impatient && d->control->replayer_pid &&
	        heap_lock_held(d->pm.fd, HEAP_LOCK_REPLAYER) == 1) {
		d->impatient = !control_wait_for_replayer(d);
		return 0;
	}
	int error = control_try_take(d);
	if (error == FUR_EBUSY) { /* another process is replaying */
		control_wait_for_replayer(d);
		return 0;
	}
	if (error)
		return error;
	error = d->ops->replay(d); /* INV-C1 */
	control_give_back(d);      /* if that fails, the next replay does it: see control.h */
	return error;
}

int durability_replay(struct durability *d, struct arch_backoff *backoff)
{
	int error = durability_check(d);
	if (error)
		return error;
	if (pthread_mutex_trylock(&d->replaying)) {
		arch_backoff(backoff);
		return 0;
	}
	uint64_t before = ring_tail(d);
	if (control_refresh(d))
		d->impatient = false;
	else
		error = replay_or_wait(d);
	bool moved = ring_tail(d) != before;
	if (error)
		durability_fail(d, error);
	pthread_mutex_unlock(&d->replaying);
	/* There was nothing to replay: the update at the tail is in flight.  Let it have the
	 * processor. */
	if (!moved)
		arch_backoff(backoff);
	return error;
}
