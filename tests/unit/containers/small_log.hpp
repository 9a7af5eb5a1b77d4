/* SPDX-License-Identifier: BSD-3-Clause
 *
 * small_log.hpp - a map in a heap with the smallest log, and keys that are alike.
 */
#ifndef SMALL_LOG_HPP
#define SMALL_LOG_HPP

#include "containers.hpp"

/* Three hashes of a program: all equal; alike in the first 40 bits; 32 bits wide. */
enum Weak { EQUAL, ALIKE, NARROW };
template <Weak WEAK>
struct WeakKey {
	uint64_t n;
	bool operator==(const WeakKey &other) const
	{
		return n == other.n;
	}
	bool operator<(const WeakKey &other) const
	{
		return n < other.n;
	}
};
/* 16 bytes with the same 64 bits of hash for each n. */
struct Chosen {
	uint64_t a, b;
	bool operator==(const Chosen &other) const
	{
		return a == other.a && b == other.b;
	}
	bool operator<(const Chosen &other) const
	{
		return a < other.a;
	}
};

/* The state of fur::detail::hash_words() before its last word. */
inline uint64_t hash_before(uint64_t bytes, uint64_t word)
{
	return fur::detail::mix(bytes ^ UINT64_C(0x9e3779b97f4a7c15) ^ word, 0xd6e8feb86659fd93);
}
inline Chosen chosen(uint64_t n)
{
	return {n, hash_before(16, n) ^ 0x1234567};
}
inline std::string text_of(const Chosen &key)
{
	return {reinterpret_cast<const char *>(&key), sizeof key};
}

template <Weak WEAK>
struct fur::hash<WeakKey<WEAK>> {
	static uint64_t of(const WeakKey<WEAK> &key)
	{
		const uint64_t mixed = key.n * 2654435761u & 0xffffff;
		return WEAK == EQUAL   ? 0x123456789abcdef0
		       : WEAK == ALIKE ? UINT64_C(0xabcdef0123) << 24 | mixed
		                       : key.n * 2654435761u & 0xffffffff;
	}
};
template <Weak WEAK>
struct Sample<WeakKey<WEAK>> {
	static WeakKey<WEAK> key(uint64_t n)
	{
		return {n};
	}
};
template <>
struct Sample<Chosen> {
	static Chosen key(uint64_t n)
	{
		return chosen(n);
	}
};

template <class M>
class SmallLog : public HeapFile
{
protected:
	using Key = Sample<typename M::key_type>;
	using K = typename M::key_type;
	using Model = std::map<K, typename M::mapped_type>;

	explicit SmallLog(const fur::Options &o = smallest())
	    : options_(o), heap_(create(o)), self_(heap_)
	{
		map_ = fur::root<M>(self_, "map");
		empty_ = blocks_of(heap_);
	}
	static fur::Options smallest()
	{
		fur::Options o = small_options();
		o.heap_bytes = 2 << 20;
		return o;
	}
	static auto key(uint64_t n)
	{
		if constexpr (std::is_same_v<K, std::string>)
			return Sample<fur::string>::key(n);
		else
			return Key::key(n);
	}
	static auto value(uint64_t n)
	{
		if constexpr (std::is_same_v<typename M::mapped_type, std::string>)
			return std::string(n % 40, 'v');
		else
			return n;
	}
	template <class Body>
	auto update(Body body)
	{
		return fur::update(self_, fur::rerun, body);
	}
	void insert(uint64_t from, uint64_t to)
	{
		for (; from < to; from++)
			update([&](fur_update *tx) {
				map_->insert_or_assign(tx, key(from), value(from));
			});
	}
	void erase(uint64_t from, uint64_t to)
	{
		for (; from < to; from++)
			update([&](fur_update *tx) {
				EXPECT_EQ(map_->erase(tx, key(from)), 1u) << from;
			});
	}
	void expect_whole(uint64_t size)
	{
		fur::read(self_, [&](fur_ro *tx) {
			const uint64_t blocks = expect_verified(tx, *map_);
			EXPECT_EQ(map_->size(tx), size);
			EXPECT_EQ(blocks_of(heap_), empty_ + blocks);
			uint64_t walked = 0;
			for (auto entry : map_->in(tx)) {
				EXPECT_TRUE(map_->contains(tx, entry.first));
				walked++;
			}
			EXPECT_EQ(walked, size);
		});
	}
	void reopen()
	{
		heap_.close();
		heap_ = open(options_);
		self_ = fur::Thread(heap_);
		map_ = fur::find_root<M>(self_, "map");
		ASSERT_NE(map_, nullptr);
	}

	const fur::Options options_;
	fur::Heap heap_;
	fur::Thread self_;
	M *map_;
	uint64_t empty_;
};

#endif /* SMALL_LOG_HPP */
