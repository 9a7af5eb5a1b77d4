/* SPDX-License-Identifier: BSD-3-Clause
 *
 * each.c - bulk updates of which each record is atomic: consecutive updates of a few thousand
 * records, which keep others out only while they store.
 *
 * The records of a portion are mapped and logged while other updates go on, which mark the records
 * that they store to (tx/marks.h).  Then the job takes the publication turn, maps the marked
 * records, and publishes as a serial software update.  Between two portions it rests while others
 * commit.  A job's mapper may map records in this thread's place.
 */
#include "base/error.h"
#include "bulk/job.h"
#include "durability/durability.h"
#include "tx/active.h"

#include <stdlib.h>
#include <string.h>

enum {
	MOST_RECORDS = 4096,
	/* Of the records of a portion.  Storing this much takes tens of microseconds. */
	MOST_BYTES = 256 * 1024,
	/* A portion takes at most this part of the log, in which its marked records come twice. */
	LOG_PART = 4,
	/* While others commit, the job rests this many times as long as it works.  An update that
	 * meets a portion's commit makes the next ones run in software instead of in place
	 * (policy.alone): they must meet few. */
	REST_PARTS = 9,
	REST_MOST_NS = 20 * 1000 * 1000
};

enum result {
	LEFT,   /* to be mapped; after map_portion(): marked, to be mapped with the turn */
	SAME,   /* map() returned false */
	CHANGED /* the result is in each.results, and then in the log */
};

struct place {
	uint64_t extent, k;
	enum result result;
};

struct each {
	struct fur_thread *t;
	struct bulk_job *job;
	struct place next; /* the first record of the next portion */
	struct place *places;
	uint8_t *results; /* as many as places, job->what->bytes each */
	uint64_t n, most; /* records of this portion, and of the next at most */
	uint64_t ended;   /* transactions that others had ended before the portion */
	uint64_t again;   /* of the portion's records: marked since the mapper has mapped them */
	uint64_t worked;  /* ticks for this portion, without the waits for the turn */
};

/* ---------------------------------------------------------------- the portion */

/* Take the mapper's result for the record, if there is one. */
static void take_result(struct each *e, struct place *p, bool marked)
{
	struct bulk_mapper *m = e->job->mapper;
	uint8_t *to = e->results + e->n * e->job->what->bytes;
	const enum bulk_taken how = m ? m->take(m, marked, to) : BULK_NOT_MAPPED;
	p->result = how == BULK_CHANGED ? CHANGED : how == BULK_SAME ? SAME : LEFT;
	e->again += how == BULK_AGAIN;
}

/* Take the records of the next portion, and their marks back. */
static void choose(struct each *e)
{
	const struct bulk_job *job = e->job;
	const uint64_t left = job->mapper ? job->mapper->left : UINT64_MAX,
	               most = e->most < left ? e->most : left;
	bool marked = false;
	e->again = 0;
	for (e->n = 0; e->n < most && e->next.extent < job->n; e->n++) {
		struct place *p = &e->places[e->n];
		*p = e->next;
		const bool is_marked = bulk_is_marked(job, p->extent, p->k);
		if (is_marked)
			bulk_unmark(e->job, p->extent, p->k);
		marked |= is_marked;
		take_result(e, p, is_marked);
		if (++e->next.k == job->extents[p->extent].count)
			e->next = (struct place){.extent = p->extent + 1};
	}
	/* INV-BU2, as in map_marked() (plant: each-no-sync). */
	if (marked)
		marks_sync(e->t->engine);
}

static uint64_t number_of(const struct each *e, const struct place *p)
{
	return e->job->extents[p->extent].number + p->k;
}

static void map_portion(struct each *e)
{
	const uint64_t bytes = e->job->what->bytes;
	for (uint64_t i = 0; i < e->n; i++) {
		struct place *p = &e->places[i];
		if (p->result != LEFT || !bulk_copy_record(e->job, p->extent, p->k))
			continue;
		p->result = bulk_map(e->job, number_of(e, p)) ? CHANGED : SAME;
		if (p->result == CHANGED)
			memcpy(e->results + i * bytes, e->job->copy, bytes);
	}
}

/* Log the record's value.  Not fur_write(): nothing looks for the words of this update in a write
 * set, because it publishes alone (INV-BU5). */
static void log_record(struct each *e, const struct place *p, const uint8_t *from)
{
	struct fur_update *tx = &e->t->update;
	const struct durability *d = e->t->durability;
	uint64_t left = e->job->what->bytes,
	         to = (uint64_t)(bulk_record_at(e->job, p->extent, p->k) - e->job->heap);
	while (left && !tx->error) {
		const uint64_t part = redo_fits(tx->log, d, left);
		while (!redo_append_only(tx->log, d, to, from, part))
			if (!store_make_room(tx))
				return;
		to += part;
		from += part;
		left -= part;
	}
}

/* Log the results, and make the pages private to which the commit will store. */
static void log_portion(struct each *e)
{
	for (uint64_t i = 0, end; i < e->n; i = end) {
		bool changed = false;
		for (end = i; end < e->n && e->places[end].extent == e->places[i].extent; end++) {
			if (e->places[end].result == SAME)
				continue;
			changed = true;
			if (e->places[end].result == CHANGED)
				log_record(
				        e, &e->places[end], e->results + end * e->job->what->bytes);
		}
		if (changed)
			bulk_touch(e->t, e->job, e->places[i].extent, e->places[i].k,
			        e->places[end - 1].k + 1);
	}
}

/* With the turn.  The log may have a result from before another update's store.  Then it gets a
 * newer entry, even if map() leaves the record as it is. */
static void map_again(struct each *e, struct place *p)
{
	bulk_load_record(e->job, p->extent, p->k);
	const bool changed = bulk_map(e->job, number_of(e, p));
	if (!changed)
		bulk_load_record(e->job, p->extent, p->k);
	if (changed || p->result == CHANGED)
		log_record(e, p, e->job->copy);
	p->result = changed ? CHANGED : SAME;
}

/* With the turn, in active[]: no update can become visible any more (INV-BU3), as in whole.c
 * (plants: each-skips-the-rest, each-rest-before-turn).  Returns: how many records it mapped. */
static uint64_t map_rest(struct each *e)
{
	uint64_t again = 0;
	for (uint64_t i = 0; i < e->n && !e->t->update.error; i++) {
		struct place *p = &e->places[i];
		if (p->result != LEFT && !bulk_is_marked(e->job, p->extent, p->k))
			continue;
		map_again(e, p);
		again++;
	}
	return again;
}

/* `again`: records that were mapped again. */
static void count_portion(struct each *e, uint64_t again)
{
	struct fur_bulk_result *r = &e->job->result;
	struct engine_bulk *sums = &e->t->engine->bulk;
	const uint64_t pause = arch_ticks_to_ns(e->t->pause.all);
	uint64_t changed = 0;
	for (uint64_t i = 0; i < e->n; i++)
		changed += e->places[i].result == CHANGED;
	r->records += e->n;
	r->changed += changed;
	r->again += again + e->again;
	r->updates++;
	arch_fetch_add(&sums->commits, 1);
	arch_fetch_add(&sums->records, changed);
	arch_fetch_add(&sums->again, again + e->again);
	if (pause < r->pause_ns)
		return;
	r->pause_ns = pause;
	r->store_ns = arch_ticks_to_ns(e->t->pause.store);
}

static int commit_portion(struct each *e)
{
	struct fur_thread *t = e->t;
	fur_update *tx;
	int error = update_prepare_serial(t, &tx);
	if (error)
		return error;
	t->pause = (struct bulk_pause){0};
	tx->flags |= TX_BULK;
	log_portion(e);
	e->worked += arch_ticks();
	update_begin_prepared(t);
	const uint64_t again = map_rest(e);
	error = update_commit(tx);
	e->worked += t->pause.all;
	if (!error)
		count_portion(e, again);
	return error;
}

/* ----------------------------------------------------------------- the rest */

/* The transactions that other threads have ended. */
static uint64_t others_ended(const struct fur_thread *t)
{
	const struct engine *engine = t->engine;
	const uint64_t limit = arch_load(&engine->durability->limit);
	uint64_t n = 0;
	for (uint32_t i = 0; i < limit; i++)
		if (i != t->index)
			n += arch_load(&engine->threads[i].stats.ro_commits) +
			     arch_load(&engine->threads[i].stats.update_commits);
	return n;
}

/* Sleep until `until`, in ns.  The kernel may wake us too early: then we sleep again. */
static void sleep_until(uint64_t until)
{
	uint32_t unchanged = 0;
	for (uint64_t now; (now = arch_now_ns()) < until;)
		(void)arch_futex_wait_for(&unchanged, 0, until - now);
}

/* Others commit: replay the portion, so that no update has to wait for its part of the log later,
 * and sleep.  Errors: those of durability_replay(). */
static int replay_and_rest(struct each *e)
{
	const uint64_t ns = REST_PARTS * arch_ticks_to_ns(e->worked), ended = others_ended(e->t);
	if (ended == e->ended)
		return 0;
	const uint64_t began = arch_now_ns();
	const int error = bulk_replay_own(e->t);
	if (!error)
		sleep_until(began + (ns < REST_MOST_NS ? ns : REST_MOST_NS));
	e->ended = others_ended(e->t);
	return error;
}

/* ------------------------------------------------------------------ the job */

static int run_portion(struct each *e)
{
	struct bulk_job *job = e->job;
	int error = job->mapper ? job->mapper->next(job->mapper) : 0;
	if (error)
		return error;
	choose(e);
	e->worked = -arch_ticks();
	map_portion(e);
	error = commit_portion(e);
	if (error)
		return error;
	if (job->what->most_pause_ns && e->most > 1 &&
	        arch_ticks_to_ns(e->t->pause.all) > job->what->most_pause_ns)
		e->most /= 2;
	error = bulk_progress(e->t, job, job->result.records, job->records);
	return error || e->next.extent == job->n ? error : replay_and_rest(e);
}

static int each_run(struct each *e)
{
	int error = 0;
	marks_begin(e->t, e->job->marks);
	e->ended = others_ended(e->t);
	while (!error && e->next.extent < e->job->n)
		error = run_portion(e);
	marks_end(e->t);
	e->job->result.passes = 1;
	return error;
}

static uint64_t most_records(const struct fur_thread *t, const struct bulk_job *job)
{
	const uint64_t bytes = job->what->bytes,
	               log = t->durability->super->log_bytes / LOG_PART / (bytes + 64);
	uint64_t most = MOST_RECORDS;
	most = most < MOST_BYTES / bytes ? most : MOST_BYTES / bytes;
	most = most < log ? most : log;
	return most ? most : 1;
}

static int make_and_run(struct each *e)
{
	struct bulk_mapper *m = e->job->mapper;
	int error = m ? m->begin(m, e->t, e->job, e->most) : 0;
	if (!error)
		error = bulk_make_marks(e->t, e->job);
	if (!error)
		error = each_run(e);
	const int later = m ? m->end(m) : 0;
	return error ? error : later;
}

int bulk_each(struct fur_thread *t, struct bulk_job *job)
{
	struct each e = {.t = t, .job = job, .most = most_records(t, job)};
	int error = bulk_enter(t);
	if (error)
		return error;
	e.places = calloc(e.most, sizeof *e.places);
	e.results = malloc(e.most * job->what->bytes);
	if (!e.places || !e.results)
		error = bulk_no_memory(t);
	else
		error = make_and_run(&e);
	free(job->marks);
	free(e.places);
	free(e.results);
	bulk_leave(t);
	return error;
}
