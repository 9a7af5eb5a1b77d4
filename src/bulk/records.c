/* SPDX-License-Identifier: BSD-3-Clause
 *
 * records.c - the records of a bulk update: its marks, and copies of records that other updates may
 * be storing to.
 */
#include "base/error.h"
#include "base/memory.h"
#include "bulk/job.h"
#include "file/heap_file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int bulk_enter(struct fur_thread *t)
{
	struct arch_backoff backoff = durability_backoff(t->durability);
	for (;;) {
		uint64_t now = arch_load(&t->engine->bulk.running);
		/* Acquire, by the compare-and-swap: we find the header's word as the last one has
		 * left it. */
		if (now == BULK_NONE && arch_cas(&t->engine->bulk.running, BULK_NONE, BULK_RUNS))
			return 0;
		if (now == BULK_RUNS)
			return fur_fail(FUR_EBUSY,
			        "%s: fur_bulk_run: another bulk update of this heap runs: wait "
			        "until it has returned",
			        heap_path(t->durability->file));
		arch_backoff(&backoff); /* bulk_clean() runs, which is short */
	}
}

void bulk_leave(struct fur_thread *t)
{
	/* Release: the next one finds the header's word as we have left it. */
	arch_store_release(&t->engine->bulk.running, BULK_NONE);
}

int bulk_no_memory(const struct fur_thread *t)
{
	return fur_fail(FUR_ENOMEM, "%s: fur_bulk_run: no memory: free some memory",
	        heap_path(t->durability->file));
}

int bulk_make_marks(const struct fur_thread *t, struct bulk_job *job)
{
	const uint64_t head = sizeof *job->marks + job->n * sizeof job->marks->extents[0];
	uint64_t bytes = head;
	for (uint64_t i = 0; i < job->n; i++)
		bytes += round_up(job->extents[i].count, 8);
	job->marks = memory_padded(round_up(bytes, ARCH_PAD));
	if (!job->marks)
		return fur_fail(FUR_ENOMEM,
		        "%s: fur_bulk_run: no memory for %llu marks: free some memory, or take "
		        "fewer records at a time",
		        heap_path(t->durability->file), (unsigned long long)job->records);
	job->marks->n = job->n;
	uint8_t *mark = (uint8_t *)job->marks + head;
	for (uint64_t i = 0; i < job->n; i++) {
		const struct bulk_extent *e = &job->extents[i];
		const uintptr_t heap = (uintptr_t)job->heap;
		job->marks->extents[i] = (struct marks_extent){.from = heap + e->to,
		        .end = heap + bulk_extent_end(job, i),
		        .stride = e->stride,
		        .mark = mark};
		mark += round_up(e->count, 8);
	}
	return 0;
}

/* Word by word, where its words are aligned. */
void bulk_load_record(struct bulk_job *job, uint64_t extent, uint64_t k)
{
	uint64_t bytes = job->what->bytes;
	const uint8_t *from = bulk_record_at(job, extent, k);
	uint8_t *to = job->copy;
	for (; bytes && (uintptr_t)from % 8; bytes--)
		*to++ = __atomic_load_n(from++, __ATOMIC_RELAXED);
	for (; bytes >= 8; bytes -= 8, from += 8, to += 8) {
		uint64_t word = arch_load((const uint64_t *)(const void *)from);
		memcpy(to, &word, 8);
	}
	for (; bytes; bytes--)
		*to++ = __atomic_load_n(from++, __ATOMIC_RELAXED);
}

bool bulk_copy_record(struct bulk_job *job, uint64_t extent, uint64_t k)
{
	bulk_load_record(job, extent, k);
	/* Orders the loads of the record before that of its mark.  An update marks the record, then
	 * stores: if we have loaded any of its new values, we see the mark.  Without the fence we
	 * could call map() with a record that never existed (plant: bulk-mark-first). */
	arch_fence_light();
	return !bulk_is_marked(job, extent, k);
}

void bulk_touch(const struct fur_thread *t, const struct bulk_job *job, uint64_t extent,
        uint64_t from, uint64_t to)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t first = (uintptr_t)bulk_record_at(job, extent, from) & ~(page - 1),
	          end = (uintptr_t)bulk_record_at(job, extent, to - 1) + job->what->bytes;
	if (t->durability->populate && (end - first) / page <= 2 * (to - from))
		madvise((void *)first, end - first, MADV_POPULATE_WRITE);
}

int bulk_progress(struct fur_thread *t, struct bulk_job *job, uint64_t done, uint64_t records)
{
	const struct fur_bulk *what = job->what;
	if (!what->progress || what->progress(done, records, what->arg))
		return 0;
	return fur_fail(FUR_EABORTED,
	        "%s: fur_bulk_run: cancelled by the program's progress() after %llu of %llu "
	        "records",
	        heap_path(t->durability->file), (unsigned long long)done,
	        (unsigned long long)records);
}
