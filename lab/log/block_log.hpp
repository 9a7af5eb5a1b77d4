/* SPDX-License-Identifier: BSD-3-Clause
 *
 * block_log.hpp - lists of blocks of bytes in a heap: a log from which a system whose modules lose
 * their memory makes its data again.  What a block has, the system decides.
 *
 *     lab::BlockLog log(heap, worker);
 *     log.append(bytes);
 *
 * Workers that append at once have lists of their own, so that their updates do not conflict.  The
 * lists have no order among each other.
 */
#ifndef LAB_LOG_BLOCK_LOG_HPP
#define LAB_LOG_BLOCK_LOG_HPP

#include <cstddef>
#include <cstring>
#include <fur.hpp>
#include <fur/stored.hpp>
#include <stdexcept>
#include <vector>

namespace lab
{

/* Values one behind the other */
class Bytes
{
public:
	Bytes() = default;
	explicit Bytes(size_t bytes) : data_(bytes) {}
	void put_bytes(const void *from, size_t bytes)
	{
		const size_t at = data_.size();
		data_.resize(at + bytes);
		memcpy(data_.data() + at, from, bytes);
	}
	template <class T>
	void put(const T &value)
	{
		put_bytes(&value, sizeof(T));
	}
	void take_bytes(void *to, size_t bytes)
	{
		if (data_.size() - at_ < bytes)
			throw std::runtime_error("a block of the log is cut off");
		memcpy(to, data_.data() + at_, bytes);
		at_ += bytes;
	}
	template <class T>
	T take()
	{
		T value;
		take_bytes(&value, sizeof(T));
		return value;
	}
	bool at_end() const
	{
		return at_ == data_.size();
	}
	unsigned char *data()
	{
		return data_.data();
	}
	const unsigned char *data() const
	{
		return data_.data();
	}
	size_t size() const
	{
		return data_.size();
	}
	/* Forget all. */
	void clear()
	{
		data_.clear();
		at_ = 0;
	}

private:
	std::vector<unsigned char> data_;
	size_t at_ = 0;
};

class BlockLog
{
public:
	static constexpr unsigned LISTS = 64;

	/* The log in the heap's root 0; a new one if there is none.  One thread at a time uses an
	 * object, and one object at a time a list.   Errors: fur::Error. */
	explicit BlockLog(fur_heap *heap, unsigned list = 0);
	/* Add a block to the list; it is durable on return.   Errors: fur::Error;
	 * fur::heap_full. */
	void append(const Bytes &block);
	/* Take the first block off the list: use(tx, block) is in the update that frees it, and may
	 * run more than once.  False: the list is empty.   Errors: fur::Error. */
	template <class Use>
	bool cut(Use use)
	{
		return fur::update(self_, [&](fur_update *tx) {
			Bytes block;
			const bool there = take_first(tx, block);
			if (there)
				use(tx, block);
			return there;
		});
	}
	/* All blocks of the list, in the order in which they were appended. */
	std::vector<Bytes> blocks();

private:
	struct Block;
	struct Root;

	bool take_first(fur_update *tx, Bytes &block);

	fur::Thread self_;
	const unsigned list_;
	Root *root_;
};

} // namespace lab

#endif /* LAB_LOG_BLOCK_LOG_HPP */
