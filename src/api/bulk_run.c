/* SPDX-License-Identifier: BSD-3-Clause
 *
 * bulk_run.c - fur_bulk_run: the checks of what the program gives.
 */
#include "api/bulk_run.h"
#include "api/heap.h"
#include "base/error.h"
#include "base/struct.h"
#include "bulk/job.h"
#include "media/heap_layout.h"

#include <stdlib.h>
#include <string.h>

enum {
	FUR_BULK_LEAST_BYTES = offsetof(struct fur_bulk, progress) + sizeof(void *),
	FUR_BULK_RESULT_LEAST_BYTES = offsetof(struct fur_bulk_result, store_ns) + sizeof(uint64_t)
};
_Static_assert(FUR_BULK_LEAST_BYTES == sizeof(struct fur_bulk), "INV-G1");
_Static_assert(FUR_BULK_RESULT_LEAST_BYTES == sizeof(struct fur_bulk_result), "INV-G1");

static int check_records(const struct fur_thread *t, const struct fur_bulk *bulk)
{
	const struct media_super *s = t->durability->super;
	if (!bulk->map || !bulk->extents || bulk->n == 0)
		return fur_fail(
		        FUR_EINVAL, "fur_bulk_run: map, extents and n must not be NULL or 0");
	if (bulk->bytes == 0 || bulk->bytes > s->heap_bytes || bulk->n > s->heap_bytes)
		return fur_fail(FUR_EINVAL,
		        "fur_bulk_run: records of %zu bytes in %zu extents cannot lie in a heap of "
		        "%llu bytes",
		        bulk->bytes, bulk->n, (unsigned long long)s->heap_bytes);
	if (bulk->atomic != FUR_BULK_WHOLE && bulk->atomic != FUR_BULK_EACH)
		return fur_fail(FUR_EINVAL,
		        "fur_bulk_run: atomic is %d: take FUR_BULK_WHOLE or FUR_BULK_EACH",
		        (int)bulk->atomic);
	if (bulk->atomic == FUR_BULK_WHOLE && s->version < 2)
		return fur_fail(FUR_EINVAL,
		        "%s: a heap file of version 1 has no FUR_BULK_WHOLE: take FUR_BULK_EACH, "
		        "or make a new heap",
		        heap_path(t->durability->file));
	return 0;
}

/* Errors: FUR_EINVAL, FUR_ERANGE. */
static int check_extent(const struct fur_thread *t, const struct fur_bulk *bulk, size_t k)
{
	const struct fur_extent *e = &bulk->extents[k];
	const uint64_t heap = durability_heap_bytes(t->durability),
	               to = (uint64_t)((const uint8_t *)e->first - t->update.base),
	               meta = header(t->update.base)->first_chunk * CHUNK_BYTES;
	if (e->count == 0 || (e->count > 1 && e->stride < bulk->bytes))
		return fur_fail(FUR_EINVAL,
		        "fur_bulk_run: extent %zu has %llu records, %llu bytes apart: it needs at "
		        "least one, and a stride of at least the %zu bytes of a record",
		        k, (unsigned long long)e->count, (unsigned long long)e->stride,
		        bulk->bytes);
	const uint64_t stride = e->count > 1 ? e->stride : bulk->bytes;
	if (to < meta || to > heap || bulk->bytes > heap - to ||
	        e->count - 1 > (heap - to - bulk->bytes) / stride)
		return fur_fail(FUR_ERANGE,
		        "%s: fur_bulk_run: extent %zu, %llu records at %p, does not lie in the "
		        "heap's memory for blocks: take records in blocks of fur_alloc()",
		        heap_path(t->durability->file), k, (unsigned long long)e->count, e->first);
	return 0;
}

static int by_address(const void *left, const void *right)
{
	const struct bulk_extent *a = left, *b = right;
	return a->to < b->to ? -1 : a->to > b->to;
}

/* Sort the extents by their addresses, and refuse those that overlap. */
static int sort_extents(struct bulk_job *job)
{
	qsort(job->extents, job->n, sizeof job->extents[0], by_address);
	for (uint64_t k = 1; k < job->n; k++) {
		if (bulk_extent_end(job, k - 1) <= job->extents[k].to)
			continue;
		return fur_fail(FUR_EINVAL,
		        "fur_bulk_run: two extents overlap, at byte %llu of the heap: each record "
		        "must lie in one extent, and extents apart from each other",
		        (unsigned long long)job->extents[k].to);
	}
	return 0;
}

static int take_extents(const struct fur_thread *t, struct bulk_job *job)
{
	const struct fur_bulk *bulk = job->what;
	job->n = bulk->n;
	job->extents = calloc(bulk->n, sizeof job->extents[0]);
	job->copy = malloc(bulk->bytes);
	if (!job->extents || !job->copy)
		return bulk_no_memory(t);
	for (size_t k = 0; k < bulk->n; k++) {
		const struct fur_extent *e = &bulk->extents[k];
		int error = check_extent(t, bulk, k);
		if (error)
			return error;
		job->extents[k] = (struct bulk_extent){
		        .to = (uint64_t)((const uint8_t *)e->first - t->update.base),
		        .stride = e->count > 1 ? e->stride : bulk->bytes,
		        .count = e->count,
		        .number = job->records};
		job->records += e->count;
	}
	return sort_extents(job);
}

static int check_thread(const struct fur_thread *t)
{
	if (engine_forked(t->engine))
		return tx_refuse(t->engine);
	if (t->owner != this_thread())
		return tx_foreign("fur_bulk_run", FUR_EINVAL);
	if (this_thread()->open)
		return fur_fail(FUR_ENESTED,
		        "fur_bulk_run was called inside a transaction: end that first");
	return 0;
}

static int run(struct fur_thread *t, const struct fur_bulk *bulk, struct bulk_job *job)
{
	int error = check_thread(t);
	if (!error)
		error = check_records(t, bulk);
	if (!error)
		error = take_extents(t, job);
	if (!error)
		error = bulk->atomic == FUR_BULK_EACH ? bulk_each(t, job) : bulk_whole(t, job);
	free(job->extents);
	free(job->copy);
	return error;
}

int bulk_run(struct fur_thread *t, const struct fur_bulk *given, struct fur_bulk_result *result,
        struct bulk_mapper *mapper)
{
	const struct fur_struct theirs = {"fur_bulk", (void *)(uintptr_t)given,
	                                FUR_BULK_LEAST_BYTES},
	                        out = {"fur_bulk_result", result, FUR_BULK_RESULT_LEAST_BYTES};
	struct fur_bulk bulk = {0};
	struct bulk_job job = {.what = &bulk, .mapper = mapper};
	if (!t)
		return fur_fail(FUR_EINVAL, "fur_bulk_run: thread must not be NULL");
	int error = fur_struct_take(&theirs, &bulk, sizeof bulk);
	if (!error && result) /* before anything is changed */
		error = fur_struct_give(&out, &job.result, sizeof job.result);
	if (error)
		return error;
	job.heap = t->update.base;
	error = run(t, &bulk, &job);
	int given_back = result ? fur_struct_give(&out, &job.result, sizeof job.result) : 0;
	return error ? error : given_back;
}

FUR_API int fur_bulk_run(fur_thread *t, const struct fur_bulk *bulk, struct fur_bulk_result *result)
{
	return bulk_run(t, bulk, result, NULL);
}
