/* SPDX-License-Identifier: BSD-3-Clause
 *
 * state.c - the heap's state in the file, its failure, and rare events.
 */
#include "base/error.h"
#include "durability/durability.h"

#include <stdio.h>

int durability_set_state(struct durability *d, uint64_t state)
{
	arch_store(&d->words->state, state);
	pm_flush(&d->pm, &d->words->state, sizeof d->words->state);
	/* Open: INV-F4.  Closed: the caller has replayed everything. */
	return pm_drain(&d->pm);
}

void durability_note(struct durability *d, enum event event)
{
	uint64_t noted;
	do
		noted = arch_load(&d->events.noted);
	while (!arch_cas(&d->events.noted, noted, noted | event));
}

uint64_t durability_take_events(struct durability *d)
{
	return arch_load(&d->events.noted) ? arch_exchange(&d->events.noted, 0) : 0;
}

void durability_fail(struct durability *d, int error)
{
	/* Several threads may fail at the same time; one of them writes the message. */
	if (arch_cas32(&d->cause_state, CAUSE_NONE, CAUSE_WRITTEN)) {
		snprintf(d->cause, sizeof d->cause, "%s", fur_errormsg());
		/* Release: a thread that sees CAUSE_THERE reads the whole text. */
		arch_store32_release(&d->cause_state, CAUSE_THERE);
		durability_note(d, EVENT_FAILED);
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
	const char *const cause = there ? d->cause : fur_strerror(error);
	/* The cause says what helps: a heap that is opened again is fenced again. */
	if (error == FUR_EFENCED)
		return fur_fail(error, "%s: %s", news, cause);
	return fur_fail(error, "%s: %sclose the heap and open it again; the cause: %s", news,
	        d->ship.follows ? "start fur-standby again, or " : "", cause);
}
