/* SPDX-License-Identifier: BSD-3-Clause
 *
 * each.c - bulk updates of which each record is atomic: ordinary updates, of some records each.
 */
#include "base/error.h"
#include "bulk/bulk.h"

enum {
	MOST_RECORDS = 64,
	/* In one update.  More would overflow hardware transactions; and without hardware, the
	 * update would keep readers out for longer than its other costs are worth. */
	HARDWARE_BYTES = 1024,
	SOFTWARE_BYTES = 8192
};

/* Records [from, to) of one extent. */
struct part {
	struct bulk_job *job;
	const struct bulk_extent *extent;
	uint64_t from, to;
	uint64_t changed, runs;
};

static void map_part(fur_update *tx, void *arg)
{
	struct part *p = arg;
	const struct bulk_job *job = p->job;
	const uint64_t bytes = job->what->bytes;
	p->changed = 0;
	p->runs++;
	for (uint64_t k = p->from; k < p->to; k++) {
		uint8_t *at = tx->base + p->extent->to + k * p->extent->stride;
		fur_load_update(tx, job->copy, at, bytes);
		if (!bulk_map(p->job, p->extent->number + k))
			continue;
		fur_write(tx, at, job->copy, bytes);
		p->changed++;
	}
}

/* Does not wait until the update is durable. */
static int update_part(struct fur_thread *t, struct part *p, fur_ticket *ticket)
{
	struct fur_bulk_result *r = &p->job->result;
	const uint64_t began = arch_now_ns(), records = p->to - p->from;
	p->runs = 0;
	int error = fur_update_run_async(t, map_part, p, NULL, ticket);
	const uint64_t took = arch_now_ns() - began;
	if (took > r->pause_ns)
		r->pause_ns = took;
	r->again += (p->runs > 1 ? p->runs - 1 : 0) * records;
	if (error)
		return error;
	r->records += records;
	r->changed += p->changed;
	r->updates++;
	return 0;
}

static uint64_t records_at_first(const struct fur_thread *t, uint64_t bytes)
{
	uint64_t most = (t->htm->ops ? HARDWARE_BYTES : SOFTWARE_BYTES) / bytes;
	return most < 1 ? 1 : most > MOST_RECORDS ? MOST_RECORDS : most;
}

static int map_extent(struct fur_thread *t, struct bulk_job *job, const struct bulk_extent *e,
        uint64_t *step, fur_ticket *ticket)
{
	struct part p = {.job = job, .extent = e};
	int error = 0;
	while (p.to < e->count && !error) {
		const uint64_t before = job->result.pause_ns;
		p.to = p.from + *step < e->count ? p.from + *step : e->count;
		job->result.pause_ns = 0;
		error = update_part(t, &p, ticket);
		p.from = p.to;
		if (job->what->most_pause_ns && job->result.pause_ns > job->what->most_pause_ns &&
		        *step > 1)
			*step /= 2;
		if (job->result.pause_ns < before)
			job->result.pause_ns = before;
		if (!error)
			error = bulk_progress(t, job, job->result.records, job->records);
	}
	return error;
}

int bulk_each(struct fur_thread *t, struct bulk_job *job)
{
	uint64_t step = records_at_first(t, job->what->bytes);
	fur_ticket ticket = {0};
	int error = 0;
	for (uint64_t k = 0; k < job->n && !error; k++)
		error = map_extent(t, job, &job->extents[k], &step, &ticket);
	job->result.passes = 1;
	/* Those that have committed are durable before we return, whatever has happened since. */
	int late = job->result.updates && ticket.number ? fur_wait(t, ticket) : 0;
	return error ? error : late;
}
