/* SPDX-License-Identifier: BSD-3-Clause
 *
 * attempt.c - what each attempt of an update begins with, in hardware or not.
 */
#include "update/update.h"

void attempt_prepare(struct fur_thread *t, enum redo_kind kind)
{
	struct commit_window *w = &t->window;
	struct commit *c = &w->commit;
	c->id++;
	c->durts = 0;
	c->log_is_out = false;
	w->waited = 0;
	c->dset.n = 0;
	c->dset.settled_below = c->dset.drawn_below = 0;
	t->update.flags = t->update.flags_at_begin;
	if (unlikely(t->update.flags_at_begin))
		t->noted.n = 0;
	t->attempt_began = arch_ticks();
	/* The time of aborted attempts counts towards the body of the attempt that commits. */
	if (t->engine->phase_times) {
		w->clock = (struct phase_clock){.last = t->began};
		c->clock = &w->clock;
	}
	FUR_ASSERT(t->update.mode == TX_NONE);
	redo_begin(t->update.log, t->durability, kind);
}
