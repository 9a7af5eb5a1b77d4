/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tuples.hpp - tuples, in the host's memory: a new one for each version of an object.
 *
 * A tuple is immutable once a module has its address, except `next`, the tuple that it replaced:
 * only the transaction that holds its object's write lock stores and follows that.
 */
#ifndef LAB_OLTPIM_TUPLES_HPP
#define LAB_OLTPIM_TUPLES_HPP

#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

namespace oltpim
{

struct Tuple {
	uint64_t key, writer; /* transaction */
	Tuple *next;          /* that it replaced */
	uint64_t value;
	/* Of a DramStore: its commit number, or DIRTY.  Modules have numbers of their own. */
	uint64_t number;
	uint32_t is_removed;
	uint32_t payload; /* bytes that follow */

	void *row()
	{
		return this + 1;
	}
	const void *row() const
	{
		return this + 1;
	}
};

/* Those of one worker: no two workers use one at once. */
class Tuples
{
public:
	/* `payload`: bytes of a tuple that is made without a row */
	explicit Tuples(size_t payload) : payload_(static_cast<uint32_t>(payload)) {}

	Tuple *make(uint64_t key, uint64_t writer, uint64_t value)
	{
		return make_for(key, writer, value, payload_);
	}
	Tuple *make(uint64_t key, uint64_t writer, uint64_t value, const void *row, size_t bytes)
	{
		Tuple *t = make_for(key, writer, value, static_cast<uint32_t>(bytes));
		memcpy(t->row(), row, bytes);
		return t;
	}

	/* `writer` and `value` are cleared, so that a checker finds one that reads it still. */
	void give(Tuple *t)
	{
		Pool &p = pool_of(t->payload);
		*t = {t->key, COLLECTED, p.free, 0, 0, 0, t->payload};
		p.free = t;
	}

	/* The same, when no transaction is left that began before now: `next` is the number that
	 * the next writer draws, and `oldest` that of Numbers.  A reader may be about to look at a
	 * tuple of a transaction that aborts. */
	void retire(Tuple *t, uint64_t next, uint64_t oldest)
	{
		retired_.push_back({t, next});
		for (; !retired_.empty() && retired_.front().next < oldest; retired_.pop_front())
			give(retired_.front().tuple);
	}

	/* Tuples in memory, those that were given back included */
	size_t size() const
	{
		return size_;
	}

	/* The transaction `writer` of a tuple that was given back */
	static constexpr uint64_t COLLECTED = ~uint64_t{0};

private:
	static constexpr size_t CHUNK = 256, UNIT = 16;

	/* Of tuples with as many bytes */
	struct Pool {
		Tuple *free = nullptr;
		size_t left = 0;
		std::vector<std::unique_ptr<char[]>> chunks = {};
	};

	static size_t units_of(uint32_t payload)
	{
		return (sizeof(Tuple) + payload + UNIT - 1) / UNIT;
	}
	Pool &pool_of(uint32_t payload)
	{
		const size_t units = units_of(payload);
		if (pools_.size() <= units)
			pools_.resize(units + 1);
		return pools_[units];
	}
	Tuple *make_for(uint64_t key, uint64_t writer, uint64_t value, uint32_t payload)
	{
		Pool &p = pool_of(payload);
		Tuple *t = p.free;
		if (t)
			p.free = t->next;
		else
			t = fresh(p, UNIT * units_of(payload));
		*t = {key, writer, nullptr, value, 0, 0, payload};
		return t;
	}
	Tuple *fresh(Pool &p, size_t bytes)
	{
		size_++;
		if (p.left == 0) {
			p.chunks.push_back(std::make_unique<char[]>(bytes * CHUNK));
			p.left = CHUNK;
		}
		char *at = p.chunks.back().get() + bytes * (CHUNK - p.left--);
		memset(at, 0, bytes);
		return reinterpret_cast<Tuple *>(at);
	}

	struct Retired {
		Tuple *tuple;
		uint64_t next;
	};
	const uint32_t payload_;
	std::deque<Retired> retired_; /* the oldest first */
	std::vector<Pool> pools_;     /* by their units */
	size_t size_ = 0;
};

} // namespace oltpim

#endif /* LAB_OLTPIM_TUPLES_HPP */
