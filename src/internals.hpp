/* SPDX-License-Identifier: BSD-3-Clause
 *
 * internals.hpp - the library's internal headers, which are C, for the tests, tools and benchmarks,
 * which are C++.
 */
#ifndef INTERNALS_HPP
#define INTERNALS_HPP

#include <fur.h>
#include <pthread.h>
#include <stddef.h>

#define _Static_assert static_assert /* NOLINT */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* C lets a function and a struct share a name */
extern "C" {
#include "alloc/alloc.h"
#include "api/attach.h"
#include "api/heap.h"
#include "base/error.h"
#include "base/event.h"
#include "base/remedy.h"
#include "base/struct.h"
#include "base/system.h"
#include "bulk/job.h"
#include "durability/dset.h"
#include "durability/ship.h"
#include "file/heap_file.h"
#include "group/group_file.h"
#include "htm/htm.h"
#include "htm/policy.h"
#include "media/applied.h"
#include "media/group_page.h"
#include "media/heap_layout.h"
#include "media/ship_page.h"
#include "pm/pm.h"
#include "replay/apply.h"
#include "replay/backup.h"
#include "replay/group_notes.h"
#include "replay/inspect.h"
#include "replay/join.h"
#include "replay/preload.h"
#include "stm/images.h"
#include "tx/active.h"
#include "update/update.h"
}
#pragma GCC diagnostic pop
#undef _Static_assert

/* Of a heap that no transaction uses: where it lies, how large it is, a root, the size of a block.
 * Programs ask fur_get_info(), and read inside transactions. */
inline void *heap_base(const fur_heap *heap)
{
	return heap->file.base;
}
inline uint64_t heap_size(const fur_heap *heap)
{
	return durability_heap_bytes(&heap->durability);
}
inline void *root_at_rest(const fur_heap *heap, unsigned index)
{
	return reinterpret_cast<void *>(arch_load(&header(heap->file.base)->roots[index]));
}
inline size_t usable_at_rest(const fur_heap *heap, const void *block)
{
	return alloc_usable_bytes(nullptr, heap->file.base, block);
}

/* Replays with this many threads even when there is little to replay, and measures at once. */
inline replay_options replay_soon(unsigned threads, unsigned preload)
{
	replay_options how = REPLAY_DEFAULTS;
	how.threads = threads;
	how.preload = preload;
	how.least_bytes = 1;
	return how;
}

#endif /* INTERNALS_HPP */
