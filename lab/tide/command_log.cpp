/* SPDX-License-Identifier: BSD-3-Clause
 *
 * command_log.cpp - a list of blocks in a heap, one for each batch.
 *
 * A block has the number of transactions, and of each its number of parts, and of each part the
 * module and the record.
 */
#include "command_log.hpp"

#include <cstring>
#include <stdexcept>

namespace tide
{

struct CommandLog::Block {
	Block *next;
	uint64_t bytes; /* that follow */
};

struct CommandLog::Root {
	Block *first, *last;
};

namespace
{

class Bytes
{
public:
	Bytes() = default;
	explicit Bytes(size_t bytes) : data_(bytes) {}
	template <class T>
	void put(const T &value)
	{
		const auto *from = reinterpret_cast<const unsigned char *>(&value);
		data_.insert(data_.end(), from, from + sizeof(T));
	}
	template <class T>
	T take()
	{
		T value;
		if (data_.size() - at_ < sizeof(T))
			throw std::runtime_error("a batch in the command log is cut off");
		memcpy(&value, data_.data() + at_, sizeof(T));
		at_ += sizeof(T);
		return value;
	}
	unsigned char *data()
	{
		return data_.data();
	}
	size_t size() const
	{
		return data_.size();
	}

private:
	std::vector<unsigned char> data_;
	size_t at_ = 0;
};

Bytes encoded(const std::vector<Transaction> &batch)
{
	Bytes all;
	all.put(static_cast<uint32_t>(batch.size()));
	for (const Transaction &t : batch) {
		all.put(static_cast<uint32_t>(t.parts.size()));
		for (const Part &p : t.parts) {
			all.put(static_cast<uint32_t>(p.module));
			all.put(p.record);
		}
	}
	return all;
}

} // namespace

CommandLog::CommandLog(fur_heap *heap) : self_(heap)
{
	root_ = fur::update(self_, [](fur_update *tx) {
		auto *there = fur::root<Root>(tx, 0);
		if (!there) {
			there = fur::make<Root>(tx);
			fur_set_root(tx, 0, there);
		}
		return there;
	});
}

/* INV-TD6: the update is durable when it returns. */
void CommandLog::append(const std::vector<Transaction> &batch)
{
	Bytes all = encoded(batch);
	fur::update(self_, [&](fur_update *tx) {
		auto *block = static_cast<Block *>(fur_alloc(tx, sizeof(Block) + all.size()));
		fur_store(tx, &block->next, static_cast<Block *>(nullptr));
		fur_store(tx, &block->bytes, static_cast<uint64_t>(all.size()));
		fur_write(tx, block + 1, all.data(), all.size());
		Block *last = fur_load(tx, &root_->last);
		fur_store(tx, last ? &last->next : &root_->first, block);
		fur_store(tx, &root_->last, block);
	});
}

std::vector<Transaction> CommandLog::load(fur_ro *tx, const Block *block) const
{
	Bytes all(fur_load(tx, &block->bytes));
	fur_read(tx, all.data(), block + 1, all.size());
	std::vector<Transaction> batch(all.take<uint32_t>());
	for (Transaction &t : batch) {
		t.ordered = true;
		t.parts.resize(all.take<uint32_t>());
		for (Part &p : t.parts) {
			p.module = all.take<uint32_t>();
			p.record = all.take<tide_record>();
		}
	}
	return batch;
}

size_t CommandLog::replay(Tide &system)
{
	std::vector<std::vector<Transaction>> batches = fur::read(self_, [&](fur_ro *tx) {
		std::vector<std::vector<Transaction>> all;
		for (const Block *b = fur_load(tx, &root_->first); b; b = fur_load(tx, &b->next))
			all.push_back(load(tx, b));
		return all;
	});
	for (std::vector<Transaction> &batch : batches)
		for (Transaction &t : batch)
			system.submit(std::move(t));
	system.run_all();
	return batches.size();
}

} // namespace tide
