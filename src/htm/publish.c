/* SPDX-License-Identifier: BSD-3-Clause
 *
 * publish.c - how the stores of a software update become visible: in one hardware transaction where
 * the machine has one, else in place, with readers shut out for the stores alone.
 */
#include "htm/software.h"

#include "base/error.h"

uint64_t publication_begin(struct htm *h)
{
	uint64_t number = arch_load(&h->publications.now) + 1;
	FUR_ASSERT(number & 1);
	arch_store(&h->publications.now, number);
	return number;
}

void publication_end(struct htm *h)
{
	arch_store_release(&h->publications.now, arch_load(&h->publications.now) + 1);
}

static void stamp_writes(struct htm *h, const struct write_set *set, uint64_t number)
{
	for (uint32_t i = 0; i < set->n; i++)
		stamp_line(h, set->words[i].word, number);
	/* Orders the stamps, and the odd number of publications, before our stores to the lines
	 * (INV-S1). */
	arch_fence_light();
}

/* INV-S3: store with readers shut out.  Errors: FUR_EFORK. */
static int publish_in_place(struct fur_thread *t)
{
	struct htm *h = t->htm;
	struct durability *d = t->durability;
	struct commit *c = &t->window.commit;
	bool bodies = readers_shut_out(h, t->index);
	if (unlikely(htm_forked(h))) /* the user's reader_report has forked (INV-K2) */
		return tx_refuse(h);
	phase_mark(c, FUR_PHASE_ISOLATION);
	/* Announce only now: a reader that ended during the drain need not wait for us. */
	nondurable_collect_settled(d, c); /* D */
	nondurable_announce(d, c);        /* A1:33 */
	/* Draw while we have the turn: an update that draws after it has given the turn would let
	 * updates that publish later draw first, and those would wait for it (INV-D4). */
	ring_draw_after(d, c); /* A1:31 */
	if (bodies)
		stamp_writes(h, &t->software.writes, publication_begin(h));
	redo_store_record(t->update.log, d, t->update.base, false);
	if (bodies)
		publication_end(h);
	readers_let_in(h); /* A1:35 */
	stat_add(&t->stats.lock_commits, 1);
	return 0;
}

/* One attempt to publish in a hardware transaction.  The compiler must not inline this, and no
 * value may live across begin_publication() unless an abort restores it.
 * Returns: true: it has committed. */
static __attribute__((noinline)) bool publish_attempt(struct fur_thread *t, int *error)
{
	const struct htm_ops *ops = t->htm->ops;
	uint64_t status = ops->begin_publication(t);
	if (status == HTM_STARTED) {
		redo_store_record(t->update.log, t->durability, t->update.base, false);
		ops->commit(t);
		return true;
	}
	stat_add(&t->stats.aborts[ops->classify(status)], 1);
	*error = ops->aborted(t);
	/* An aborted attempt may have announced itself and left: the next one needs another id. */
	t->window.commit.id++;
	return false;
}

/* False: hardware does not accept the write set, or *error. */
static bool publish_in_hardware(struct fur_thread *t, int *error)
{
	enum { TRIES = 4 };
	struct htm *h = t->htm;
	bool done = false;
	stamp_writes(h, &t->software.writes, publication_begin(h));
	t->window.publishing = true;
	for (int k = 0; k < TRIES && !done && !*error; k++)
		done = publish_attempt(t, error);
	t->window.publishing = false;
	publication_end(h);
	return done;
}

int publish(struct fur_thread *t)
{
	int error = 0;
	if (t->htm->ops && (publish_in_hardware(t, &error) || error))
		return error;
	return publish_in_place(t);
}
