/* SPDX-License-Identifier: BSD-3-Clause
 *
 * containers.hpp - the words of the maps, decoded from the format comments of hash_map.hpp and
 * ordered_map.hpp without their code, and keys and values for the tests of containers.
 */
#ifndef CONTAINERS_HPP
#define CONTAINERS_HPP

#include "census.hpp"
#include "fixture.hpp"
#include "internals.hpp"

#include <fur/root.hpp>

#include <array>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

inline fur::Options container_options(fur_isolation isolation = FUR_OPACITY)
{
	fur::Options o = small_options();
	o.heap_bytes = 4 << 20;
	o.log_bytes = 1 << 19;
	o.ring_slots = 1024;
	o.max_threads = 8;
	o.isolation = isolation;
	return o;
}

/* How many blocks the heap has allocated. */
inline uint64_t blocks_of(fur_heap *heap)
{
	return census_of(heap).blocks;
}

/* The container's structure is right.  Returns: how many blocks it has. */
template <class Tx, class Container>
uint64_t expect_verified(Tx *tx, const Container &container)
{
	uint64_t blocks = 0;
	EXPECT_STREQ(container.verify(tx, blocks), nullptr);
	return blocks;
}

/* Memory that is allocated from now on has no zeroes: chunks are filled, and given back. */
inline void leave_traces(fur_thread *self, size_t chunks)
{
	constexpr size_t CHUNK = 1 << 16;
	const std::vector<uint64_t> traces(CHUNK / 8, 0xfefefefefefefefe);
	std::vector<void *> blocks;
	for (size_t k = 0; k < chunks; k++)
		fur::update(self, [&](fur_update *tx) {
			blocks.push_back(fur_alloc(tx, CHUNK));
			fur_write(tx, blocks.back(), traces.data(), CHUNK);
		});
	for (void *block : blocks)
		fur::update(self, [&](fur_update *tx) { fur_free(tx, block); });
}

/* Threads on one container: the isolation, and whether their updates may run again. */
struct Crowd {
	fur_isolation isolation;
	bool rerun;
};
inline constexpr Crowd CROWDS[] = {
        {FUR_OPACITY, false}, {FUR_OPACITY, true}, {FUR_SNAPSHOT, false}, {FUR_SNAPSHOT, true}};
inline std::string crowd_name(const ::testing::TestParamInfo<Crowd> &mode)
{
	return std::string(mode.param.isolation == FUR_OPACITY ? "opacity" : "snapshot") +
	       (mode.param.rerun ? "_rerun" : "");
}

/* The types of a list of tests.  `Others` are left out with a sanitizer, to save compile time: most
 * are other combinations of the keys, values and widths of nodes in `Few`.  A sanitizer sees no
 * wrong offset inside the heap, and no block of it that is not freed: those show in the heap's
 * words, which builds without one check for all types. */
template <class Few, class Others>
struct SomeTypes;
template <class... F, class... O>
struct SomeTypes<::testing::Types<F...>, ::testing::Types<O...>> {
#ifdef __SANITIZE_ADDRESS__
	using type = ::testing::Types<F...>;
#else
	using type = ::testing::Types<F..., O...>;
#endif
};
template <class Few, class Others>
using TypesHere = typename SomeTypes<Few, Others>::type;

/* A body without a result, by reference: a file compiles fur::update() once for all of them. */
template <class Tx>
class BodyRef
{
public:
	template <class Body>
	explicit BodyRef(Body &body)
	    : body_(&body), call_([](const void *b, Tx *tx) {
		      (*static_cast<Body *>(const_cast<void *>(b)))(tx);
	      })
	{
	}
	void operator()(Tx *tx) const
	{
		call_(body_, tx);
	}

private:
	const void *body_;
	void (*call_)(const void *body, Tx *tx);
};

/* A heap for containers, open. */
class ContainerHeap : public HeapFile
{
protected:
	ContainerHeap() : heap_(create(container_options())), self_(heap_) {}
	template <class Body>
	auto update(Body &&body)
	{
		if constexpr (std::is_void_v<std::invoke_result_t<Body &, fur_update *>>)
			fur::update(self_, BodyRef<fur_update>(body));
		else
			return fur::update(self_, body);
	}
	template <class Body>
	auto read(Body &&body)
	{
		if constexpr (std::is_void_v<std::invoke_result_t<Body &, fur_ro *>>)
			fur::read(self_, BodyRef<fur_ro>(body));
		else
			return fur::read(self_, body);
	}
	uint64_t below(uint64_t n)
	{
		return random_() % n;
	}
	void reopen()
	{
		heap_.close();
		heap_ = open(container_options());
		self_ = fur::Thread(heap_);
	}

	fur::Heap heap_;
	fur::Thread self_;
	const uint64_t seed_ = seed_of_run();
	std::mt19937_64 random_{seed_};
};

/* A value of eight words. */
struct Wide {
	std::array<uint64_t, 8> word;
	bool operator==(const Wide &other) const
	{
		return word == other.word;
	}
};

/* ---------------------------------------------------------------- keys and values by number */

template <class T>
struct Sample {
	static T key(uint64_t n)
	{
		return static_cast<T>(n % 2 ? ~(n << 40) : n * 3);
	}
	static T value(uint64_t n)
	{
		return static_cast<T>(n);
	}
};
template <>
struct Sample<Wide> {
	static Wide value(uint64_t n)
	{
		Wide w{};
		for (size_t k = 0; k < w.word.size(); k++)
			w.word[k] = n * (k + 1);
		return w;
	}
};
template <>
struct Sample<fur::string> {
	/* Empty; short; of exactly 12 and 13 characters; long, with a common beginning; with NUL;
	 * beyond ASCII. */
	static std::string key(uint64_t n)
	{
		const std::string number = std::to_string(n);
		switch (n % 7) {
		case 0: return n ? number : "";
		case 1: return number + std::string(12 - number.size(), 'b');
		case 2: return number + std::string(13 - number.size(), 'c');
		case 3: return std::string(64, 'x') + number;
		case 4: return std::string("\0z\0", 3) + number;
		case 5: return "\xff\x80" + number;
		default: return "common " + number + std::string(200, 'y');
		}
	}
	static std::string value(uint64_t n)
	{
		return std::string(n % 40, static_cast<char>('a' + n % 26));
	}
};

/* --------------------------------------------------------------------- words, and what they say */

template <class T>
struct Raw {
	enum : size_t { WORDS = (sizeof(T) + 7) / 8 };
	using value = T;
	static T of(const uint64_t *words)
	{
		T value;
		memcpy(static_cast<void *>(&value), words, sizeof value);
		return value;
	}
};
template <>
struct Raw<fur::string> {
	enum : size_t { WORDS = 2 };
	using value = std::string;
	static std::string of(const uint64_t *words)
	{
		char inside[16];
		memcpy(inside, words, 16);
		const uint32_t size = static_cast<uint32_t>(words[0]);
		return size <= 12 ? std::string(inside + 4, size)
		                  : std::string(reinterpret_cast<const char *>(words[1]), size);
	}
};

inline const uint64_t *address(uint64_t word)
{
	return reinterpret_cast<const uint64_t *>(word);
}

/* The sum of a container's parts of its size. */
inline uint64_t raw_size(uint64_t parts, uint64_t without)
{
	uint64_t sum = 0;
	for (size_t k = 0; parts && k < 16; k++)
		sum += address(parts)[k * FUR_CACHE_LINE / 8];
	return parts ? sum : without;
}

/* All of a hash map, with every rule of its format checked. */
template <class K, class V>
class RawHashMap
{
public:
	using Entries = std::map<typename Raw<K>::value, typename Raw<V>::value>;
	using Hash = uint64_t (*)(const typename Raw<K>::value &);
	using SecretHash = uint64_t (*)(const uint64_t *secret, const typename Raw<K>::value &);

	RawHashMap(const void *map, Hash hash, SecretHash secret_hash)
	    : hash_(hash), secret_hash_(secret_hash)
	{
		const auto *words = static_cast<const uint64_t *>(map);
		if (words[0])
			look(words[0], 0, 0);
		EXPECT_EQ(raw_size(words[1], entries.size()), entries.size());
	}
	Entries entries;
	size_t leaves = 0, tables = 0, longest_list = 0, buckets = 0;

private:
	enum : uint64_t { LOW = FUR_CACHE_LINE - 1, BUCKET = 63, LIST = 64 };

	/* The node of a slot that stands for all hashes that begin with the `used` bits. */
	void look(uint64_t word, uint64_t begins, uint64_t used)
	{
		const uint64_t bits = word & LOW;
		if (!bits)
			return list(address(word), begins, used);
		if (bits == BUCKET)
			return bucket(address(word - bits), used);
		tables++;
		ASSERT_LE(bits, 9u);
		const uint64_t *slots = address(word - bits) + 1, end = used + bits;
		for (uint64_t k = 0; k < UINT64_C(1) << bits;) {
			uint64_t depth = end, span = 1;
			if (!(slots[k] & LOW) || (slots[k] & LOW) == BUCKET) {
				depth = slots[k] & LOW ? address(slots[k] - BUCKET)[0]
				                       : address(slots[k])[1] & LOW & ~LIST;
				ASSERT_GE(depth, used);
				ASSERT_LE(depth, end);
				span = UINT64_C(1) << (end - depth);
			}
			ASSERT_EQ(k % span, 0u);
			for (uint64_t same = 0; same < span; same++)
				ASSERT_EQ(slots[k + same], slots[k]);
			look(slots[k], begins | k << (64 - end), depth);
			k += span;
		}
	}
	void bucket(const uint64_t *words, uint64_t depth)
	{
		buckets++;
		ASSERT_EQ(secret_, nullptr) << "a bucket in a bucket";
		ASSERT_EQ(words[0], depth);
		ASSERT_EQ(words[1], UINT64_MAX);
		secret_ = words + 2;
		look(words[4], 0, 0);
		secret_ = nullptr;
	}
	void list(const uint64_t *leaf, uint64_t begins, uint64_t depth)
	{
		const uint64_t flag = leaf[1] & LIST;
		ASSERT_TRUE(!flag || secret_) << "a list outside of a bucket";
		for (size_t length = 1; leaf; length++) {
			ASSERT_EQ(leaf[1] & LOW, depth | flag);
			longest_list = std::max(longest_list, length);
			leaves++;
			entries_of(leaf, begins, depth);
			leaf = address(leaf[1] & ~uint64_t(LOW));
			ASSERT_TRUE(!leaf || depth == 60 || flag) << "a list that could be split";
		}
	}
	void entries_of(const uint64_t *leaf, uint64_t begins, uint64_t depth)
	{
		for (size_t k = 0; k < 8; k++) {
			const uint64_t tag = leaf[0] >> 8 * k & 0xff;
			if (tag == 0)
				continue;
			const auto key = Raw<K>::of(leaf + 2 + k * Raw<K>::WORDS);
			const uint64_t hash = secret_ ? secret_hash_(secret_, key) : hash_(key);
			EXPECT_EQ(tag, 0x80 | (hash & 0x7f));
			EXPECT_TRUE(depth == 0 || (hash ^ begins) >> (64 - depth) == 0);
			const auto value =
			        Raw<V>::of(leaf + 2 + 8 * Raw<K>::WORDS + k * Raw<V>::WORDS);
			EXPECT_TRUE(entries.emplace(key, value).second) << "a key is there twice";
		}
	}
	Hash hash_;
	SecretHash secret_hash_;
	const uint64_t *secret_ = nullptr; /* of the bucket that is looked at */
};

/* All of an ordered map, likewise. */
template <class K, class V, unsigned FANOUT>
class RawOrderedMap
{
	using Key = typename Raw<K>::value;

public:
	using Entries = std::map<Key, typename Raw<V>::value>;

	explicit RawOrderedMap(const void *map)
	{
		const auto *words = static_cast<const uint64_t *>(map);
		if (words[0])
			look(words[0], nullptr, nullptr, 1);
		EXPECT_EQ(raw_size(words[1], entries.size()), entries.size());
	}
	Entries entries;
	size_t levels = 0, leaves = 0;

private:
	/* A node whose keys are not smaller than *from, and smaller than *to. */
	void look(uint64_t word, const Key *from, const Key *to, size_t level)
	{
		const bool is_leaf = word & 1;
		const uint64_t *node = address(word & ~UINT64_C(1));
		const uint64_t count = node[0] & 15;
		ASSERT_TRUE(count >= 1 && count <= FANOUT) << count;
		std::set<uint64_t> places;
		std::vector<Key> keys;
		for (unsigned i = 0; i < 15; i++) {
			const uint64_t place = node[0] >> (4 * i + 4) & 15;
			ASSERT_TRUE(places.insert(place).second) << "a place is there twice";
			ASSERT_LT(place, i < FANOUT ? FANOUT : 15u);
			if (i < count && (i > 0 || is_leaf))
				keys.push_back(Raw<K>::of(node + 1 + place * Raw<K>::WORDS));
			else if (i < count)
				keys.push_back({}); /* key 0 of an inner node */
		}
		for (unsigned i = 0; i < count; i++) {
			const uint64_t place = node[0] >> (4 * i + 4) & 15;
			const Key *low = i > 0 || is_leaf ? &keys[i] : from;
			EXPECT_FALSE(low && from && *low < *from);
			EXPECT_FALSE(low && to && !(*low < *to));
			if (is_leaf)
				add(keys[i],
				        node + 1 + FANOUT * Raw<K>::WORDS + place * Raw<V>::WORDS);
			else
				look(node[1 + FANOUT * Raw<K>::WORDS + place], low,
				        i + 1 < count ? &keys[i + 1] : to, level + 1);
		}
		if (is_leaf) {
			EXPECT_TRUE(levels == 0 || levels == level) << "leaves at two levels";
			levels = level;
			leaves++;
		}
	}
	void add(const Key &key, const uint64_t *value)
	{
		EXPECT_TRUE(entries.empty() || entries.rbegin()->first < key) << "out of order";
		entries.emplace_hint(entries.end(), key, Raw<V>::of(value));
	}
};

#endif /* CONTAINERS_HPP */
