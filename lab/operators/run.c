/* SPDX-License-Identifier: BSD-3-Clause
 *
 * run.c - lab_bulk_run(): a bulk update's mapper, which asks fur-operators (errand.h).
 */
#include "api/bulk_run.h"
#include "base/error.h"
#include "file/heap_file.h"
#include "mapper.h"

#include <string.h>

/* Portions of a window. */
enum { WINDOW_PORTIONS = 4 };

static struct operator_mapper *mine(struct bulk_mapper *self)
{
	return (struct operator_mapper *)(void *)self;
}

static int check_call(const struct lab_operator_call *call)
{
	const size_t bytes = call->name ? strnlen(call->name, ERRAND_NAME_BYTES) : 0;
	if (bytes == 0 || bytes == ERRAND_NAME_BYTES)
		return fur_fail(FUR_EINVAL,
		        "lab_bulk_run: the operator's name has %s: it has 1 to %d bytes",
		        bytes ? "too many bytes" : "no bytes", ERRAND_NAME_BYTES - 1);
	if (call->arg_bytes > ERRAND_ARG_BYTES || (call->arg_bytes && !call->arg))
		return fur_fail(FUR_EINVAL,
		        "lab_bulk_run: arg_bytes is %zu%s: an operator takes at most %d bytes, "
		        "which lie at arg",
		        call->arg_bytes, call->arg ? "" : " and arg is NULL", ERRAND_ARG_BYTES);
	return 0;
}

static int begin(
        struct bulk_mapper *self, struct fur_thread *t, struct bulk_job *job, uint64_t most)
{
	struct operator_mapper *m = mine(self);
	m->t = t;
	m->job = job;
	if (t->durability->super->version < 2)
		return fur_fail(FUR_EINVAL,
		        "%s: a heap file of version 1 has no operators: take fur_bulk_run() and "
		        "FUR_BULK_EACH, or make a new heap",
		        heap_path(t->durability->file));
	const int error = errand_check(t, job);
	if (error || job->what->atomic == FUR_BULK_WHOLE)
		return error;
	return windows_begin(&m->windows, t, job, WINDOW_PORTIONS * most);
}

static int end(struct bulk_mapper *self)
{
	struct operator_mapper *m = mine(self);
	return m->windows.t ? windows_end(&m->windows) : 0;
}

/* -------------------------------------------------------------------- whole */

/* Let the commit find the pages private to which it will store, and count the changed records. */
static uint64_t take_over(const struct operator_mapper *m, const struct bulk_block *block)
{
	const struct media_bulk_row *rows = (const struct media_bulk_row *)(void *)block->image;
	uint64_t changed = 0;
	for (uint64_t i = 0; i < m->job->n; i++) {
		const uint64_t count = m->job->extents[i].count;
		const uint64_t *bits =
		        (const uint64_t *)(void *)(block->image +
		                                   (rows[i].changed - block->offset));
		for (uint64_t k = 0; k < count; k += 64) {
			const uint64_t word = arch_load(&bits[k / 64]);
			changed += (unsigned)__builtin_popcountll(word);
			if (word)
				bulk_touch(m->t, m->job, i, k, k + 64 < count ? k + 64 : count);
		}
	}
	return changed;
}

static int whole(
        struct bulk_mapper *self, const struct bulk_block *block, uint64_t *changed, bool *mapped)
{
	struct operator_mapper *m = mine(self);
	int error = errand_settle(m->t, m->job);
	if (error)
		return error;
	const struct errand_work all = {block->offset, block->bytes, m->job->n, m->job->records};
	const struct errand asked = errand_ask(m->t, m->job, &all);
	error = errand_wait(m->t, m->job, asked, mapped);
	errand_stop(m->t, asked);
	if (error || !*mapped)
		return error;
	*changed = take_over(m, block);
	m->mapped = m->job->records;
	return 0;
}

/* --------------------------------------------------------------------- each */

static int next(struct bulk_mapper *self)
{
	struct operator_mapper *m = mine(self);
	const int error = windows_next(&m->windows);
	self->left = windows_left(&m->windows);
	return error;
}

/* What the operator has mapped was there at the last settling; what is marked has changed since
 * (plant: each-takes-marked). */
static enum bulk_taken take(struct bulk_mapper *self, bool marked, uint8_t *to)
{
	struct operator_mapper *m = mine(self);
	bool changed = false;
	const uint8_t *from = windows_take(&m->windows, &changed);
	if (!from)
		return BULK_NOT_MAPPED;
	m->mapped++;
	if (marked)
		return BULK_AGAIN;
	if (!changed)
		return BULK_SAME;
	memcpy(to, from, m->job->what->bytes);
	return BULK_CHANGED;
}

/* ---------------------------------------------------------------------- run */

int lab_bulk_run(fur_thread *t, const struct fur_bulk *bulk, const struct lab_operator_call *call,
        struct fur_bulk_result *result, uint64_t *by_operator)
{
	struct operator_mapper m = {
	        .calls = {.begin = begin, .whole = whole, .next = next, .take = take, .end = end},
	        .call = call};
	struct fur_bulk_result own = {.size = sizeof own}, *r = result ? result : &own;
	int error = call ? check_call(call) : 0;
	if (!error)
		error = bulk_run(t, bulk, r, call ? &m.calls : NULL);
	/* Portions take the records in their order, and the operator maps the first of them. */
	if (by_operator)
		*by_operator = m.mapped < r->records ? m.mapped : r->records;
	return error;
}
