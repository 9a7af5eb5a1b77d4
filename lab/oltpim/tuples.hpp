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
	uint64_t is_removed;
	/* and the payload */
};

/* Those of one worker: no two workers use one at once. */
class Tuples
{
public:
	explicit Tuples(size_t payload) : bytes_((sizeof(Tuple) + payload + 15) / 16 * 16) {}

	Tuple *make(uint64_t key, uint64_t writer, uint64_t value)
	{
		Tuple *t = free_;
		if (t)
			free_ = t->next;
		else
			t = fresh();
		*t = {key, writer, nullptr, value, 0, 0};
		return t;
	}

	/* `writer` and `value` are cleared, so that a checker finds one that reads it still. */
	void give(Tuple *t)
	{
		*t = {t->key, COLLECTED, free_, 0, 0, 0};
		free_ = t;
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

	/* The transaction `writer` of a tuple that was given back */
	static constexpr uint64_t COLLECTED = ~uint64_t{0};

private:
	static constexpr size_t CHUNK = 256;

	Tuple *fresh()
	{
		if (left_ == 0) {
			chunks_.push_back(std::make_unique<char[]>(bytes_ * CHUNK));
			left_ = CHUNK;
		}
		char *at = chunks_.back().get() + bytes_ * (CHUNK - left_--);
		memset(at, 0, bytes_);
		return reinterpret_cast<Tuple *>(at);
	}

	struct Retired {
		Tuple *tuple;
		uint64_t next;
	};
	const size_t bytes_;
	std::deque<Retired> retired_; /* the oldest first */
	size_t left_ = 0;
	Tuple *free_ = nullptr;
	std::vector<std::unique_ptr<char[]>> chunks_;
};

} // namespace oltpim

#endif /* LAB_OLTPIM_TUPLES_HPP */
