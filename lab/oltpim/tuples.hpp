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
#include <memory>
#include <vector>

namespace oltpim
{

struct Tuple {
	uint64_t key, writer; /* transaction */
	Tuple *next;          /* that it replaced */
	uint64_t value;
	/* and the payload */
};

/* Those of one worker: no two workers use one at once. */
class Tuples
{
public:
	explicit Tuples(size_t payload) : bytes_((sizeof(Tuple) + payload + 15) / 16 * 16)
	{
	}

	Tuple *make(uint64_t key, uint64_t writer, uint64_t value)
	{
		Tuple *t = free_;
		if (t)
			free_ = t->next;
		else
			t = fresh();
		*t = {key, writer, nullptr, value};
		return t;
	}

	/* `writer` and `value` are cleared, so that a checker finds one that reads it still. */
	void give(Tuple *t)
	{
		*t = {t->key, COLLECTED, free_, 0};
		free_ = t;
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

	const size_t bytes_;
	size_t left_ = 0;
	Tuple *free_ = nullptr;
	std::vector<std::unique_ptr<char[]>> chunks_;
};

} // namespace oltpim

#endif /* LAB_OLTPIM_TUPLES_HPP */
