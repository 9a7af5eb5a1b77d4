/* SPDX-License-Identifier: BSD-3-Clause
 *
 * info.c - facts and counters of an open heap: fur_base, fur_bytes, fur_get_info, fur_get_stats.
 */
#include "api/heap.h"
#include "api/struct.h"
#include "base/error.h"

FUR_API void *fur_base(const fur_heap *heap)
{
	return heap ? heap->file.base : NULL;
}

FUR_API uint64_t fur_bytes(const fur_heap *heap)
{
	return heap ? heap->file.super->heap_bytes : 0;
}

static int check_heap(const struct fur_heap *heap, const char *function)
{
	if (!heap)
		return fur_fail(FUR_EINVAL, "%s: heap must not be NULL", function);
	FUR_CHECK(heaps_have(heap), "the heap is not open");
	return htm_forked(&heap->htm) ? tx_refuse(&heap->htm) : 0;
}

void heap_fill_info(struct fur_heap *heap, const struct replay_result *replayed)
{
	struct fur_info *i = &heap->info;
	const struct media_super *s = heap->file.super;
	i->htm = heap->htm.kind;
	i->isolation = heap->htm.isolation;
	i->pm = heap->durability.pm.domain;
	i->heap_bytes = s->heap_bytes;
	i->log_bytes = s->log_bytes;
	i->ring_slots = s->ring_slots;
	i->address = s->address;
	i->max_threads = s->max_threads;
	i->replayed_updates = replayed->updates;
	i->replayed_entries = replayed->entries;
	i->replay_ns = replayed->ns;
	i->corrected_updates = replayed->mended;
}

FUR_API int fur_get_info(const fur_heap *heap, struct fur_info *info)
{
	const struct fur_struct theirs = {"fur_info", info, FUR_INFO_LEAST_BYTES};
	int error = check_heap(heap, "fur_get_info");
	return error ? error : fur_struct_give(&theirs, &heap->info, sizeof heap->info);
}

static void add_thread(struct fur_stats *s, const struct fur_thread *t)
{
	const struct thread_stats *from = &t->stats;
	s->ro_commits += arch_load(&from->ro_commits);
	s->update_commits += arch_load(&from->update_commits);
	s->lock_commits += arch_load(&from->lock_commits);
	s->empty_commits += arch_load(&from->empty_commits);
	s->log_entries += arch_load(&from->log_entries);
	s->software_commits += arch_load(&from->software_commits);
	s->serial_commits += arch_load(&from->serial_commits);
	s->defeats += arch_load(&from->defeats);
	for (int c = 0; c < FUR_ABORT_CAUSES; c++)
		s->aborts[c] += arch_load(&from->aborts[c]);
	for (int p = 0; p < FUR_PHASES; p++)
		s->phase_ns[p] += arch_ticks_to_ns(arch_load(&from->phase_ticks[p]));
	s->threads += arch_load32(&t->state) == THREAD_REGISTERED;
}

FUR_API int fur_get_stats(const fur_heap *heap, struct fur_stats *stats)
{
	const struct fur_struct theirs = {"fur_stats", stats, FUR_STATS_LEAST_BYTES};
	struct fur_stats s = {0};
	int error = check_heap(heap, "fur_get_stats");
	if (error)
		return error;
	const struct durability *d = &heap->durability;
	for (uint64_t i = 0; i < arch_load(&d->limit); i++)
		add_thread(&s, &heap->threads[i]);
	s.replays = arch_load(&d->control->replays);
	s.replayed_updates = arch_load(&d->control->replayed_updates);
	s.times_handed_back = arch_load(&heap->page_limit.times);
	s.bytes_handed_back = arch_load(&heap->page_limit.bytes_handed_back);
	s.long_readers = arch_load(&heap->htm.long_readers);
	s.longest_reader_ns = arch_load(&heap->htm.longest_reader_ns);
	return fur_struct_give(&theirs, &s, sizeof s);
}
