/* SPDX-License-Identifier: BSD-3-Clause
 *
 * info.c - facts and counters of an open heap: fur_get_info, fur_get_stats.
 */
#include "api/heap.h"
#include "base/error.h"
#include "base/struct.h"
#include "stm/images.h"
#include "tx/active.h"

int heap_check_handle(const struct fur_heap *heap, const char *function)
{
	if (!heap)
		return fur_fail(FUR_EINVAL, "%s: heap must not be NULL", function);
	FUR_CHECK(heaps_have(heap), "the heap is not open");
	return engine_forked(&heap->engine) ? tx_refuse(&heap->engine) : 0;
}

void heap_fill_info(struct fur_heap *heap, const struct replay_result *replayed)
{
	struct fur_info *i = &heap->info;
	const struct media_super *s = heap->file.super;
	i->htm = heap->engine.kind;
	i->isolation = heap->engine.isolation;
	i->pm = heap->durability.pm.domain;
	i->max_bytes = s->heap_bytes;
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
	int error = heap_check_handle(heap, "fur_get_info");
	if (error)
		return error;
	struct fur_info now = heap->info;
	now.heap_bytes = durability_heap_bytes(&heap->durability);
	return fur_struct_give(&theirs, &now, sizeof now);
}

/* ------------------------------------------------------------- statistics */

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
	s->saved_lines += arch_load(&from->saved_lines);
	s->async_commits += arch_load(&from->async_commits);
	for (int c = 0; c < FUR_ABORT_CAUSES; c++)
		s->aborts[c] += arch_load(&from->aborts[c]);
	for (int p = 0; p < FUR_PHASES; p++)
		s->phase_ns[p] += arch_ticks_to_ns(arch_load(&from->phase_ticks[p]));
	s->threads += arch_load32(&t->state) == THREAD_REGISTERED;
}

/* What is so at this moment, and not a sum. */
static void add_gauges(struct fur_stats *s, struct fur_heap *heap)
{
	const struct durability *d = &heap->durability;
	struct durability_usage usage = durability_usage(d);
	struct alloc_space space = alloc_space(heap->file.base, durability_heap_bytes(d));
	pthread_mutex_lock(&heap->polling);
	struct active_ages ages = active_poll(&heap->engine);
	pthread_mutex_unlock(&heap->polling);
	s->ring_used_slots = usage.ring_slots;
	s->ring_slots = d->super->ring_slots;
	s->fullest_log_bytes = usage.log_bytes;
	s->log_bytes = d->super->log_bytes;
	s->space_used_bytes = space.used_bytes;
	s->space_bytes = space.bytes;
	s->bulk_commits = arch_load(&heap->engine.bulk.commits);
	s->bulk_records = arch_load(&heap->engine.bulk.records);
	s->bulk_again = arch_load(&heap->engine.bulk.again);
	const struct image_counts images = images_count(&heap->engine);
	s->snapshots = images.open;
	s->snapshot_bytes = images.bytes;
	s->snapshots_revoked = images.revoked;
	s->readers = ages.readers;
	s->oldest_reader_ns = ages.oldest_ns;
}

FUR_API int fur_get_stats(const fur_heap *heap, struct fur_stats *stats)
{
	const struct fur_struct theirs = {"fur_stats", stats, FUR_STATS_LEAST_BYTES};
	struct fur_stats s = {0};
	int error = heap_check_handle(heap, "fur_get_stats");
	if (error)
		return error;
	const struct durability *d = &heap->durability;
	for (uint64_t i = 0; i < arch_load(&d->limit); i++)
		add_thread(&s, &heap->threads[i]);
	s.replays = arch_load(&d->control->replays);
	s.replayed_updates = arch_load(&d->control->replayed_updates);
	s.times_handed_back = arch_load(&heap->page_limit.times);
	s.bytes_handed_back = arch_load(&heap->page_limit.bytes_handed_back);
	s.long_readers = arch_load(&heap->engine.long_readers);
	s.longest_reader_ns = arch_load(&heap->engine.longest_reader_ns);
	/* A program built with an older header does not pay for results that it does not get. */
	if (stats && stats->size > offsetof(struct fur_stats, ring_used_slots))
		add_gauges(&s, (struct fur_heap *)(uintptr_t)heap);
	return fur_struct_give(&theirs, &s, sizeof s);
}
