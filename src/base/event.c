/* SPDX-License-Identifier: BSD-3-Clause
 *
 * event.c - sleeping and waking (event.h).
 */
#include "base/event.h"
#include "base/probe.h"

void event_wait(uint32_t *event, uint32_t ticket, uint64_t ns)
{
	FUR_POINT(event__sleeps);
	if (ns)
		(void)arch_futex_wait_for(event, ticket, ns);
	else
		arch_futex_wait(event, ticket);
}

void event_call_all(uint32_t *event, uint32_t word)
{
	/* Take the mark away, and then wake all whom it stood for.  If the word has changed since,
	 * the mark stays.  This counts as well: otherwise the next mark would make the word the
	 * ticket of a thread that is about to sleep, and a wake that found no mark in between
	 * (event_wake_sleepers()) would have passed it over (model: SAMECOUNT). */
	arch_cas32(event, word, word - EVENT_MARK + EVENT_COUNT);
	arch_futex_wake_all(event);
}
