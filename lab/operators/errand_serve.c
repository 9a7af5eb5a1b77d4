/* SPDX-License-Identifier: BSD-3-Clause
 *
 * errand_serve.c - the side of fur-operators in an errand (errand.h): copy records from the image,
 * have them mapped, and store the results in the bulk update's block.
 *
 * Another process writes the request and the rows.  They are read once, and checked (INV-R8).
 */
#include "base/error.h"
#include "base/probe.h"
#include "errand.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of a batch.  Copying this much takes tens of microseconds, in which no thread can replay. */
enum { MOST_RECORDS = 4096, MOST_BYTES = 256 * 1024 };

static struct control_errand *errand_of(const struct errand_server *o)
{
	return errand_in(o->d->control);
}

static void tell(struct control_errand *e)
{
	arch_fetch_add32(&e->moved, 1);
	arch_futex_wake_all_shared(&e->moved);
}

/* Move the request from RUNS; the program may have moved it before. */
static void answer(struct errand_server *o, enum errand_state state)
{
	struct control_errand *e = errand_of(o);
	/* Full fence, by the compare-and-swap: the program that finds the answer finds the results,
	 * and the message. */
	if (o->number)
		arch_cas(&e->request, errand_request(o->number, ERRAND_RUNS),
		        errand_request(o->number, state));
	o->number = 0;
	tell(e);
}

/* `code` 0: the program maps all records itself. */
static bool refuse(struct errand_server *o, int code)
{
	struct control_errand *e = errand_of(o);
	e->code = code;
	snprintf(e->says, sizeof e->says, "%s", code ? fur_errormsg() : "");
	answer(o, ERRAND_REFUSED);
	return false;
}

static bool refuse_memory(struct errand_server *o)
{
	return refuse(o, fur_fail(FUR_ENOMEM, "fur-operators has no memory for the operator's "
	                                      "records: free some memory"));
}

static void forget_request(struct errand_server *o)
{
	free(o->row);
	free(o->first);
	free(o->places);
	free(o->batch.records);
	free(o->batch.numbers);
	free(o->batch.changed);
	*o = (struct errand_server){.d = o->d, .calls = o->calls, .limit = o->limit};
}

/* ------------------------------------------------------------------ the request */

void errand_serve_start(struct durability *d, uint64_t pid)
{
	struct control_errand *e = errand_in(d->control);
	const uint64_t request = arch_load_acquire(&e->request);
	if (errand_state(request) == ERRAND_ASKED || errand_state(request) == ERRAND_RUNS) {
		e->code = 0;
		arch_cas(&e->request, request,
		        errand_request(errand_number(request), ERRAND_REFUSED));
	}
	arch_store_release(&e->operators_pid, pid);
	tell(e);
}

bool errand_serve_accept(struct errand_server *o)
{
	struct control_errand *e = errand_of(o);
	/* Acquire: we see the fields that belong to the number. */
	const uint64_t request = arch_load_acquire(&e->request);
	if (errand_state(request) != ERRAND_ASKED)
		return false;
	char name[sizeof e->name];
	uint8_t arg[sizeof e->arg] __attribute__((aligned(16)));
	uint32_t arg_bytes = arch_load32(&e->arg_bytes);
	if (arg_bytes > sizeof arg)
		arg_bytes = sizeof arg;
	memcpy(name, e->name, sizeof name);
	name[sizeof name - 1] = 0;
	memcpy(arg, e->arg, arg_bytes);
	o->block = arch_load(&e->block);
	o->block_bytes = arch_load(&e->block_bytes);
	o->rows = arch_load(&e->rows);
	o->opened = arch_load32(&e->opened);
	/* If the program has given up meanwhile, or another one has come, what we have read may be
	 * two requests'; but then this number was withdrawn before the fields changed
	 * (errand_ask). */
	o->number = errand_number(request);
	if (!arch_cas(&e->request, request, errand_request(o->number, ERRAND_RUNS))) {
		o->number = 0;
		return false;
	}
	const int error = o->calls->find(o->calls->self, name, arg, arg_bytes);
	if (error)
		refuse(o, error);
	else
		tell(e);
	return !error;
}

bool errand_serve_is_wanted(const struct errand_server *o)
{
	return o->number &&
	       arch_load_acquire(&errand_of(o)->request) == errand_request(o->number, ERRAND_RUNS);
}

/* With the right to replay: INV-OP1.  A program that has died has left its request.  It is not
 * reset: the next program increments `opened` with the right to replay, which it keeps from the
 * time at which it takes HEAP_LOCK_WORKING (start_working() in src/api/open.c).  So a process that
 * has that right and finds WORKING held finds the `opened` of the process that holds it: of the
 * program that has asked, or of a later one. */
static bool still_runs(struct errand_server *o)
{
	const struct control *c = o->d->control;
	if (!errand_serve_is_wanted(o)) {
		o->number = 0;
		return false;
	}
	if (o->opened == arch_load32_acquire(&c->opened) &&
	        heap_lock_held(o->d->pm.fd, HEAP_LOCK_WORKING) > 0)
		return true;
	return refuse(o, 0);
}

/* ---------------------------------------------------------------- the records */

/* Copy the rows, check them, and make room for a batch.  With the right to replay. */
static bool rows_are_good(struct errand_server *o)
{
	const uint64_t most = o->d->super->heap_bytes;
	const struct log_entry entry = {.offset = o->block, .bytes = o->block_bytes};
	const struct log_bulk heap = log_bulk_at(o->d->image, most, &entry);
	if (o->block % 8 || o->block > most || o->block_bytes > most - o->block || o->rows == 0 ||
	        o->rows > o->block_bytes / sizeof *o->row)
		return false;
	o->row = calloc(o->rows, sizeof *o->row);
	o->first = calloc(o->rows, sizeof *o->first);
	if (!o->row || !o->first)
		return true;
	memcpy(o->row, o->d->image + o->block, o->rows * sizeof *o->row);
	for (uint64_t k = 0; k < o->rows; k++) {
		const struct media_bulk_row *r = &o->row[k];
		if (!log_bulk_row_is_good(&heap, r) || r->bytes != o->row[0].bytes)
			return false;
		o->first[k] = arch_load((const uint64_t *)(const void *)(o->d->image + r->from));
	}
	return true;
}

static bool set_up(struct errand_server *o)
{
	if (!rows_are_good(o))
		return refuse(
		        o, fur_fail(FUR_EINVAL,
		                   "the rows in the heap's file make no sense to fur-operators: "
		                   "run the fur-operators of the program's library"));
	if (!o->row || !o->first)
		return refuse_memory(o);
	const uint64_t bytes = o->row[0].bytes, most = MOST_BYTES / bytes;
	o->most = most < MOST_RECORDS ? most : MOST_RECORDS;
	if (o->limit && o->limit < o->most)
		o->most = o->limit;
	if (o->most == 0)
		o->most = 1;
	o->places = calloc(o->most, sizeof *o->places);
	o->batch = (struct errand_serve_batch){.bytes = bytes,
	        .records = malloc(o->most * bytes),
	        .numbers = calloc(o->most, sizeof *o->batch.numbers),
	        .changed = calloc(o->most, sizeof *o->batch.changed),
	        .done = &errand_of(o)->done};
	return (o->places && o->batch.records && o->batch.numbers && o->batch.changed) ||
	       refuse_memory(o);
}

static void store_results(struct errand_server *o)
{
	const struct errand_serve_batch *b = &o->batch;
	for (uint64_t i = 0; i < b->n; i++) {
		const struct errand_serve_place *p = &o->places[i];
		const struct media_bulk_row *r = &o->row[p->row];
		uint8_t *to = o->d->image + r->from + p->k * media_bulk_step(r->bytes);
		uint64_t *word = (uint64_t *)(void *)(o->d->image + r->changed) + p->k / 64;
		if (!b->changed[i])
			continue;
		memcpy(to, b->records + i * b->bytes, b->bytes);
		pm_flush(&o->d->pm, to, b->bytes);
		arch_store(word, arch_load(word) | UINT64_C(1) << p->k % 64);
	}
	o->batch.n = 0;
}

static void copy_records(struct errand_server *o)
{
	struct errand_serve_batch *b = &o->batch;
	for (; b->n < o->most && o->next.row < o->rows; b->n++) {
		const struct errand_serve_place *p = &o->next;
		const struct media_bulk_row *r = &o->row[p->row];
		o->places[b->n] = *p;
		b->numbers[b->n] = o->first[p->row] + p->k;
		memcpy(b->records + b->n * b->bytes, o->d->image + r->to + p->k * r->stride,
		        b->bytes);
		if (++o->next.k == r->count)
			o->next = (struct errand_serve_place){.row = p->row + 1};
	}
}

bool errand_serve_exchange(struct errand_server *o)
{
	if (!o->number || !still_runs(o) || (!o->row && !set_up(o)))
		return false;
	store_results(o);
	copy_records(o);
	FUR_POINT(operator__copied);
	o->batch.before = o->done;
	o->finished = o->batch.n == 0;
	return !o->finished;
}

bool errand_serve_map(struct errand_server *o)
{
	const int error = o->calls->map(o->calls->self, &o->batch);
	if (error)
		return refuse(o, error);
	o->done += o->batch.n;
	arch_store(&errand_of(o)->done, o->done);
	tell(errand_of(o));
	return true;
}

/* INV-OP3.  The program writes back what it stores itself, and no more (plant: errand-no-drain). */
void errand_serve_end(struct errand_server *o)
{
	struct pm *pm = &o->d->pm;
	if (o->number && o->finished) {
		for (uint64_t k = 0; k < o->rows; k++)
			pm_flush(pm, o->d->image + o->row[k].changed,
			        media_bulk_changed_bytes(o->row[k].count));
		const int error = pm_drain(pm);
		if (error)
			refuse(o, error);
		else
			answer(o, ERRAND_DONE);
		FUR_POINT(errand__done);
	}
	forget_request(o);
}

void errand_serve_drop(struct errand_server *o)
{
	if (o->number)
		refuse(o, 0);
	forget_request(o);
}
