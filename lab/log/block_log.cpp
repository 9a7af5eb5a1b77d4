/* SPDX-License-Identifier: BSD-3-Clause
 *
 * block_log.cpp - block_log.hpp.
 */
#include "block_log.hpp"

namespace lab
{

struct BlockLog::Block {
	Block *next;
	uint64_t bytes; /* that follow */
};

/* Each list has a line of its own: updates of two lists conflict in none. */
struct BlockLog::Root {
	struct alignas(FUR_CACHE_LINE) List {
		Block *first, *last;
	} lists[LISTS];
};

BlockLog::BlockLog(fur_heap *heap, unsigned list) : self_(heap), list_(list)
{
	if (list >= LISTS)
		throw std::runtime_error("a log has " + std::to_string(LISTS) + " lists");
	root_ = fur::update(self_, [](fur_update *tx) {
		auto *there = fur::root<Root>(tx, 0);
		if (!there) {
			there = fur::make<Root>(tx);
			fur_set_root(tx, 0, there);
		}
		return there;
	});
}

void BlockLog::append(const Bytes &all)
{
	fur::update(self_, [&](fur_update *tx) {
		auto *block = static_cast<Block *>(fur_alloc(tx, sizeof(Block) + all.size()));
		if (!block) {
			if (!fur_update_error(tx))
				throw fur::heap_full();
			return; /* the commit fails with the reason */
		}
		fur_store(tx, &block->next, static_cast<Block *>(nullptr));
		fur_store(tx, &block->bytes, static_cast<uint64_t>(all.size()));
		fur_write(tx, block + 1, all.data(), all.size());
		Root::List &list = root_->lists[list_];
		Block *last = fur_load(tx, &list.last);
		fur_store(tx, last ? &last->next : &list.first, block);
		fur_store(tx, &list.last, block);
	});
}

bool BlockLog::take_first(fur_update *tx, Bytes &block)
{
	Root::List &list = root_->lists[list_];
	Block *first = fur_load(tx, &list.first);
	if (!first)
		return false;
	block = Bytes(fur_load(tx, &first->bytes));
	fur_read(tx, block.data(), first + 1, block.size());
	Block *next = fur_load(tx, &first->next);
	fur_store(tx, &list.first, next);
	if (!next)
		fur_store(tx, &list.last, next);
	fur_free(tx, first);
	return true;
}

std::vector<Bytes> BlockLog::blocks()
{
	return fur::read(self_, [&](fur_ro *tx) {
		std::vector<Bytes> all;
		for (const Block *b = fur_load(tx, &root_->lists[list_].first); b;
		        b = fur_load(tx, &b->next)) {
			Bytes &block = all.emplace_back(fur_load(tx, &b->bytes));
			fur_read(tx, block.data(), b + 1, block.size());
		}
		return all;
	});
}

} // namespace lab
