/* SPDX-License-Identifier: BSD-3-Clause
 *
 * reading.c - the steps of a read-only transaction: how it becomes active, collects D, and leaves.
 */
#include "durability/nondurable.h"
#include "update/update.h"

/* In vain: each time others had let readers in, and shut them out again. */
enum { MOST_CLAIMS = 4 };

/* The rest of reader_enter(), for a reader that has found `shut` and not READERS_IN. */
static __attribute__((noinline)) bool enter_later(struct fur_thread *t, enum shut shut, bool claim)
{
	struct engine *e = t->engine;
	struct active_entry *mine = active_of(t);
	bool entered = true;
	for (unsigned claims = 0; shut != READERS_IN;) {
		active_leave(mine);
		if (shut == ALL_OUT) {
			reader_awaits_let_in(e, t->index);
		} else if (!claim) {
			entered = false;
			break;
		} else if (reader_claims(e, t->index, ++claims > MOST_CLAIMS)) {
			active_enter(
			        mine, t); /* no thread shuts readers out before it has the turn */
			turn_give(e);
			break;
		}
		active_enter(mine, t);
		shut = shut_now(e);
	}
	active_clear_wait(mine);
	return entered;
}

/* Become active while readers are in (INV-H3). */
bool reader_enter(struct fur_thread *t, bool claim)
{
	active_enter(active_of(t), t); /* A1:16, A1:18 */
	const enum shut shut = shut_now(t->engine);
	return likely(shut == READERS_IN) || enter_later(t, shut, claim);
}

void reader_opened(struct fur_thread *t, fur_ro **ro)
{
	*ro = &t->ro;
	this_thread()->open = t;
	t->ro.depth = 1;
}

/* Collect D (INV-D1).  With many threads, the scan of nondurable[] may take longer than the body.
 * So a thread that has found it empty remembers next_durts.  While that does not change, nothing
 * has become visible since (plant: quiet-forever): without hardware, an update announces itself,
 * draws its durTS, and then stores.  It does so after it has shut readers out and waited for us
 * (INV-SW3), hence not between the loads of this function, and their order does not matter.  With
 * hardware, an update may draw after its stores are visible, or before it is announced.
 * fur_wait() calls this function too, when its thread is no longer active.  Each update that it
 * must find has stored before a transaction read from it, and so has drawn: next_durts has changed
 * since the scan that found nothing, or that scan came after the update was durable.
 * Each update changes next_durts, and to load it then costs a miss, so a thread that finds it
 * changed asks more rarely. */
void reader_collect(struct fur_thread *t, struct dset *set)
{
	enum { THREADS_FEW = 4, MISSES = 2, SKIP = 32 };
	const struct durability *d = t->durability;
	struct quiet_scan *q = &t->quiet;
	if (t->engine->ops || q->skip || arch_load(&d->limit) <= THREADS_FEW) {
		q->skip -= q->skip != 0;
		nondurable_collect(d, t->index, set);
		return;
	}
	uint64_t next = ring_next(d);
	if (next == set->settled) {
		set->n = 0;
		set->by_version = false;
		q->misses = 0;
		return;
	}
	nondurable_collect(d, t->index, set);
	if (set->n == 0)
		set->settled = next;
	if (++q->misses == MISSES) {
		q->misses = 0;
		q->skip = SKIP;
	}
}

/* The outermost transaction ends.  Returns: now, in ticks; 0 if phases are not timed. */
uint64_t reader_leave(struct fur_thread *t)
{
	active_leave(active_of(t)); /* A1:24 */
	this_thread()->open = NULL;
	t->ro = (struct fur_ro){0};
	stat_add(&t->stats.ro_commits, 1);
	if (likely(!t->engine->phase_times))
		return 0;
	uint64_t now = arch_ticks();
	stat_add(&t->stats.phase_ticks[FUR_PHASE_RO_BODY], now - t->began);
	return now;
}
