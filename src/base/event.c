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
	/* Take the mark away, then wake all whom it stood for.  If the word has changed since, the
	 * mark stays. */
	arch_cas32(event, word, word & ~(uint32_t)EVENT_MARK);
	arch_futex_wake_all(event);
}
