/* SPDX-License-Identifier: BSD-3-Clause
 *
 * freed_runs.c - which updates have given back runs of chunks (INV-FM2).
 */
#include "durability/nondurable.h"

void durability_note_run_freed(struct durability *d, uint64_t durts)
{
	for (uint64_t now; (now = arch_load(&d->runs_freed_upto)) <= durts;)
		if (arch_cas(&d->runs_freed_upto, now, durts + 1))
			break;
}

uint64_t durability_runs_freed_upto(struct durability *d, struct commit *c)
{
	uint64_t above = 0;
	nondurable_collect(d, c->me, &c->dset);
	nondurable_wait_drawn(d, &c->dset);
	for (uint32_t k = 0; k < c->dset.n; k++) {
		const struct dset_member *m = &c->dset.members[k];
		/* If the update is visible to us, so is its mark.  If its thread has begun another
		 * one, it has left nondurable[], and `given` tells. */
		if (!m->left && arch_load(&d->redo[m->thread].frees_a_run) && m->durts >= above)
			above = m->durts + 1;
	}
	c->dset.n = 0;
	/* Orders our looks at nondurable[] and the marks before this load: an update that we have
	 * missed there has raised `given` before it left. */
	arch_fence_light();
	const uint64_t given = arch_load(&d->runs_freed_upto);
	return given > above ? given : above;
}
