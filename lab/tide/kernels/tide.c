/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tide.c - the kernel of PIM-TIDE: each tasklet executes the subtransactions of its queue.
 */
#include "bodies.h"

/* A local transaction that has rolled back many times in a row meets the same ones again, in step
 * with them: it waits.  Waits are random, for with constant ones the tasklets fall into step again,
 * and a module's schedule may repeat for ever; and they grow. */
enum { PATIENCE = 16, MOST_DOUBLINGS = 6 };

static void wait_out_of_step(struct tide_tx *tx, uint32_t again)
{
	const uint32_t times = again / PATIENCE;
	const uint32_t most = (uint32_t)PATIENCE
	                      << (times < MOST_DOUBLINGS ? times : MOST_DOUBLINGS);
	tide_spin(draw(&tx->random) >> 16 & (most - 1));
}

static void execute(struct tide_tx *tx, const struct tide_record *r, struct tide_result *result)
{
	struct tide_tally *tally = &tx->s->tally[tx->me];
	tx->distributed = r->distributed;
	tx->at_clock = tx->s->base + r->rank;
	for (uint32_t again = 0;; again++) {
		tide_start(tx);
		if (run_body(tx, r, &result->value) && tide_commit(tx, &result->turn))
			break;
		tide_roll_back(tx);
		tally->aborts[tx->distributed]++;
		tide_pause();
		if (!tx->distributed && again >= PATIENCE)
			wait_out_of_step(tx, again);
	}
	tally->commits[tx->distributed]++;
}

static void execute_all(struct tide_tx *tx, uint32_t from, uint32_t to)
{
	struct tide_record *chunk = tx->s->chunk[tx->me];
	const near_address records = TIDE_QUEUES + tx->me * sizeof(struct tide_queue) + 16;
	const near_address results = TIDE_RESULTS + tx->me * TIDE_RESULT_BYTES;
	struct tide_result result NEAR_ALIGN;
	for (uint32_t k = from, chunk_end = from; k < to; k++) {
		if (k == chunk_end) {
			const uint32_t n = to - k < TIDE_CHUNK ? to - k : TIDE_CHUNK;
			near_local_read(chunk, records + k * sizeof *chunk, n * sizeof *chunk);
			chunk_end = k + n;
		}
		execute(tx, &chunk[(k - from) % TIDE_CHUNK], &result);
		near_local_write(results + k * sizeof result, &result, sizeof result);
	}
}

/* No transaction is open: the locks' clocks can go back. */
static void begin_clock_again(struct tide_shared *s)
{
	const bool late = s->clock >= TIDE_CLOCK_MOST && !s->printed;
	near_barrier();
	if (!late)
		return;
	for (uint32_t k = near_me(); k < TIDE_LOCKS; k += near_tasklets())
		tide_store(&s->locks[k], 0);
	if (near_me() == 0)
		s->clock = s->last_store = 0;
}

#ifndef TIDE_KERNEL
#define TIDE_KERNEL(shared_type) NEAR_KERNEL(tide, shared_type)
#endif

TIDE_KERNEL(struct tide_shared)
{
	uint64_t records[2] NEAR_ALIGN;
	struct tide_tx tx = {.s = shared, .me = near_me(), .random = near_me() + 1};
	tx.read_log = TIDE_READ_LOGS + tx.me * TIDE_READ_LOG_BYTES;
	tx.write_log = TIDE_WRITE_LOGS + tx.me * TIDE_WRITE_LOG_BYTES;
	begin_clock_again(shared);
	near_barrier();
	if (tx.me == 0)
		shared->base = shared->printed ? 0 : shared->clock;
	near_local_read(records, TIDE_QUEUES + tx.me * sizeof(struct tide_queue), sizeof records);
	near_barrier();
	execute_all(&tx, 0, (uint32_t)records[0]);
	/* A local transaction commits at no rank: none may begin while a distributed part can still
	 * roll back. */
	near_barrier();
	execute_all(&tx, (uint32_t)records[0], (uint32_t)(records[0] + records[1]));
}
