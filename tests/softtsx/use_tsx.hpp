/* SPDX-License-Identifier: BSD-3-Clause
 *
 * use_tsx.hpp - run a heap's updates on a TSX back end with traps (softtsx.hpp).
 */
#ifndef USE_TSX_HPP
#define USE_TSX_HPP

#include "internals.hpp"
#include "softtsx.hpp"

#include <atomic>
#include <cstddef>
#include <fur.hpp>
#include <thread>
#include <vector>

namespace softtsx
{

/* Before any other thread: this heap's updates run on the back end under test, all it
 * changes known. */
inline void use_tsx(fur_heap *heap, const htm_ops *ops)
{
	heap->engine.ops = ops;
	heap->engine.lock.updates = HARDWARE;
	heap->engine.kind = FUR_HTM_TSX;
	durability *d = &heap->durability;
	uint32_t n = d->super->max_threads;
	/* Every slot is used once, so that its memory is there to be told of. */
	std::vector<std::thread> all;
	std::atomic<uint32_t> here{0};
	for (uint32_t i = 0; i < n; i++)
		all.emplace_back([&] {
			fur::Thread t(heap);
			here++;
			while (here < n)
				std::this_thread::yield();
		});
	for (auto &t : all)
		t.join();
	clear_regions();
	add_region(heap->file.base, d->super->heap_bytes);
	add_region(d->logs, n * d->super->log_bytes);
	add_region(d->nondurable, n * sizeof(nondurable_entry));
	for (uint32_t i = 0; i < n; i++) {
		fur_thread *t = &heap->threads[i];
		/* Only the owner writes this, and inside a transaction. */
		add_region(&t->ro, sizeof t->ro);
		add_region(&t->update, sizeof t->update);
		add_region(&t->window, sizeof t->window);
		add_region(t->window.commit.dset.members, n * sizeof(dset::dset_member));
		add_region(t->window.seqs, n * sizeof(uint64_t));
		/* Not its tail, which others move. */
		add_region(&d->redo[i], offsetof(redo_log, tail));
		add_region(d->redo[i].undo, d->super->log_bytes);
	}
}

} // namespace softtsx

#endif /* USE_TSX_HPP */
