/* SPDX-License-Identifier: BSD-3-Clause
 *
 * promotion_test.cpp - containers under snapshot isolation: two updates that begin in the same
 * state, and that the hardware would not find to conflict, have the effect of one after the other.
 *
 * The updates are of a type of the test's own, which notes what it stores and promotes, word by
 * word: less conflicts than in a processor, which looks at lines.  So each fur_promote() of the
 * containers is needed, if a pair of calls can tell.
 */
#include "maps.hpp"
#include "small_log.hpp"

#include <fur/table.hpp>

#include <algorithm>
#include <functional>
#include <sstream>
#include <unordered_map>

namespace
{

/* The heap of these updates. */
class Room
{
public:
	enum : size_t { WORDS = 1 << 19, LINE = FUR_CACHE_LINE };

	Room() : words_(WORDS, UINT64_C(0xfefefefefefefefe)) {}
	uint64_t *allocate(size_t bytes)
	{
		const uintptr_t first = reinterpret_cast<uintptr_t>(words_.data()),
		                at = (first + 8 * used_ + LINE - 1) / LINE * LINE;
		used_ = (at - first + bytes + 7) / 8;
		if (used_ > WORDS)
			throw std::bad_alloc();
		return reinterpret_cast<uint64_t *>(at);
	}
	size_t used() const
	{
		return used_;
	}
	void forget_from(size_t used)
	{
		used_ = used;
	}
	std::set<void *> blocks;

private:
	std::vector<uint64_t> words_;
	size_t used_ = 0;
};

/* An update: its stores are its own until apply(). */
struct Skewed {
	explicit Skewed(Room &r) : room(&r) {}
	Room *room;
	std::unordered_map<uint64_t *, uint64_t> stores;
	std::set<uint64_t *> promoted;
	std::vector<void *> allocated, freed;

	/* Would the hardware abort one of the two?  A promotion counts as a write. */
	bool conflicts(const Skewed &other) const
	{
		const auto meets = [&](uint64_t *word) {
			return other.stores.count(word) || other.promoted.count(word);
		};
		return std::any_of(promoted.begin(), promoted.end(), meets) ||
		       std::any_of(stores.begin(), stores.end(),
		               [&](const auto &store) { return meets(store.first); });
	}
	/* Returns: whether each block that it frees was allocated. */
	[[nodiscard]] bool apply()
	{
		bool good = true;
		for (auto &[word, value] : stores)
			std::swap(*word, value);
		for (void *block : allocated)
			good &= room->blocks.insert(block).second;
		for (void *block : freed)
			good &= room->blocks.erase(block) == 1;
		return good;
	}
};

template <class T>
T fur_load(Skewed *tx, const T *p)
{
	static_assert(sizeof(T) == 8);
	auto *word = reinterpret_cast<uint64_t *>(reinterpret_cast<uintptr_t>(p));
	const auto own = tx->stores.find(word);
	const uint64_t bits = own != tx->stores.end() ? own->second : *word;
	T value;
	memcpy(static_cast<void *>(&value), &bits, 8);
	return value;
}
template <class T>
void fur_store(Skewed *tx, T *p, typename fur_detail::identity<T>::type value)
{
	static_assert(sizeof(T) == 8);
	uint64_t bits;
	memcpy(&bits, &value, 8);
	tx->stores[reinterpret_cast<uint64_t *>(p)] = bits;
}
void fur_promote(Skewed *tx, void *p)
{
	tx->promoted.insert(static_cast<uint64_t *>(p));
}
void *fur_alloc_aligned(Skewed *tx, size_t bytes, size_t)
{
	tx->allocated.push_back(tx->room->allocate(bytes));
	return tx->allocated.back();
}
void *fur_alloc(Skewed *tx, size_t bytes)
{
	return fur_alloc_aligned(tx, bytes, 1);
}
void fur_free(Skewed *tx, void *block)
{
	if (block)
		tx->freed.push_back(block);
}

/* Of each state.  ./check --release tries as many with each of three other seeds. */
enum : int { PAIRS = 50 };

/* A call, and what it has returned. */
template <class C>
struct Call {
	std::string name;
	std::function<uint64_t(Skewed *, C &)> run;
};

/* ------------------------------------------------------------------- what a container has */

template <class T>
void print(std::ostream &to, const T &value)
{
	if constexpr (std::is_same_v<T, std::string> || std::is_arithmetic_v<T>)
		to << value;
	else
		to << value.n;
}
template <class C>
std::string content_of(Room &room, const C &c)
{
	Skewed tx(room);
	std::set<std::string> entries; /* a hash map has them in any order */
	for (const auto &entry : c.in(&tx)) {
		std::ostringstream text;
		print(text, entry.first);
		text << ':';
		if constexpr (C::OWNS_VALUES)
			for (const auto element : entry.second->in(&tx))
				text << element << ',';
		else
			print(text, entry.second);
		EXPECT_TRUE(entries.insert(text.str()).second) << text.str() << " twice";
	}
	std::string all;
	for (const std::string &entry : entries)
		all += entry + ' ';
	return all;
}
template <class T>
std::string content_of(Room &room, const fur::vector<T> &vector)
{
	Skewed tx(room);
	std::ostringstream text;
	for (const auto &element : vector.in(&tx))
		text << element << ' ';
	return text.str();
}
/* A queue cannot be walked: take all out. */
template <class T>
std::string content_of(Room &room, const fur::queue<T> &queue)
{
	Skewed tx(room);
	std::ostringstream text;
	while (const auto element = const_cast<fur::queue<T> &>(queue).pop(&tx))
		text << *element << ' ';
	return text.str();
}

/* A row of three numbers. */
template <class... Parameters>
std::string content_of(Room &room, const fur::table<Parameters...> &table)
{
	Skewed tx(room);
	std::set<std::string> rows; /* in any order */
	for (const auto &row : table.in(&tx)) {
		std::ostringstream text;
		text << row.id << ':' << row.mail << ':' << row.group << ' ';
		EXPECT_TRUE(rows.insert(text.str()).second) << text.str() << " twice";
	}
	std::string all;
	for (const std::string &row : rows)
		all += row;
	return all;
}

/* ------------------------------------------------------------------------------- pairs */

template <class C>
class Pairs
{
public:
	Pairs() : object_(room_.allocate(sizeof(C)))
	{
		memset(static_cast<void *>(object_), 0, sizeof(C));
	}
	/* For good. */
	void run(const Call<C> &call)
	{
		Skewed tx(room_);
		call.run(&tx, container());
		ASSERT_TRUE(tx.apply()) << call.name;
		expect_whole(call.name);
	}
	/* Returns: whether both can commit. */
	bool try_both(const Call<C> &a, const Call<C> &b)
	{
		const size_t used = room_.used();
		Skewed first(room_), second(room_);
		const uint64_t from_a = a.run(&first, container()),
		               from_b = b.run(&second, container());
		const bool both = !first.conflicts(second);
		if (both) {
			const std::string before = content_of(room_, container());
			const auto blocks = room_.blocks;
			const Outcome one = in_order(a, b), other = in_order(b, a);
			const bool good = first.apply() && second.apply();
			const Outcome is{content_of(room_, container()), from_a, from_b};
			const std::string names = a.name + ", " + b.name + " on " + before;
			EXPECT_TRUE(good) << names;
			expect_whole(names);
			EXPECT_TRUE(is == one || is == Outcome({other.content, other.b, other.a}))
			        << names << "\n  together: " << is.content
			        << "\n  in order: " << one.content
			        << "\n  or:       " << other.content;
			undo(second);
			undo(first);
			room_.blocks = blocks;
		}
		room_.forget_from(used);
		return both;
	}
	C &container()
	{
		return *reinterpret_cast<C *>(object_);
	}

private:
	struct Outcome {
		std::string content;
		uint64_t a, b; /* what the calls return */
		bool operator==(const Outcome &o) const
		{
			return content == o.content && a == o.a && b == o.b;
		}
	};
	Outcome in_order(const Call<C> &a, const Call<C> &b)
	{
		const auto blocks = room_.blocks;
		Outcome is;
		Skewed first(room_);
		is.a = a.run(&first, container());
		EXPECT_TRUE(first.apply()) << a.name;
		Skewed second(room_);
		is.b = b.run(&second, container());
		EXPECT_TRUE(second.apply()) << a.name << ", then " << b.name;
		is.content = content_of(room_, container());
		expect_whole(a.name + ", then " + b.name);
		undo(second);
		undo(first);
		room_.blocks = blocks;
		return is;
	}
	/* After apply(). */
	static void undo(const Skewed &tx)
	{
		for (const auto &[word, was] : tx.stores)
			*word = was;
	}
	void expect_whole(const std::string &when)
	{
		Skewed tx(room_);
		uint64_t blocks = 0;
		EXPECT_STREQ(container().verify(&tx, blocks), nullptr) << when;
		EXPECT_EQ(blocks, room_.blocks.size()) << when;
	}

	Room room_;
	uint64_t *const object_;
};

/* ------------------------------------------------------------------------------- calls */

/* Keys of a map by number.  Chosen text agrees in its hash: it goes to a bucket. */
template <class K>
auto key_of(uint64_t n)
{
	if constexpr (std::is_same_v<K, std::string>)
		return n % 4 ? text_of(chosen(n)) : Sample<fur::string>::key(n);
	else
		return Sample<K>::key(n);
}
template <class M>
struct Is : std::false_type {
};
template <class K, class V, unsigned N, class C>
struct Is<fur::ordered_map<K, V, N, C>> : std::true_type {
};

template <class M>
class MapCallsOf
{
	using K = typename M::key_type;

public:
	explicit MapCallsOf(uint64_t seed) : random_(seed) {}
	Call<M> insert(uint64_t n)
	{
		return named("insert", n, [=](Skewed *tx, M &map) -> uint64_t {
			if constexpr (M::OWNS_VALUES)
				return map.insert(tx, key_of<K>(n), {});
			else
				return map.insert(tx, key_of<K>(n), value_of(n));
		});
	}
	Call<M> erase(uint64_t n)
	{
		return named("erase", n,
		        [=](Skewed *tx, M &map) { return map.erase(tx, key_of<K>(n)); });
	}
	/* Stores to the value, or to what it owns. */
	Call<M> change(uint64_t n)
	{
		const uint64_t value = random_() % 1000;
		return named("change", n, [=](Skewed *tx, M &map) -> uint64_t {
			if constexpr (M::OWNS_VALUES) {
				auto [at, added] = map.try_emplace(tx, key_of<K>(n));
				/* More than some calls remove at a time. */
				for (uint64_t k = 0; k <= value % 4; k++)
					at->push_back(tx, value);
				return added;
			} else {
				return map.modify(tx, key_of<K>(n),
				        [&](auto &there) { there = value_of(value); });
			}
		});
	}
	Call<M> change_or_add(uint64_t n)
	{
		const uint64_t value = random_() % 1000;
		return named("try_emplace", n, [=](Skewed *tx, M &map) -> uint64_t {
			if constexpr (M::OWNS_VALUES) {
				return map.try_emplace(tx, key_of<K>(n)).second;
			} else if constexpr (std::is_same_v<typename M::mapped_type, uint64_t>) {
				auto [at, added] = map.try_emplace(tx, key_of<K>(n), value);
				fur_store(tx, at, value);
				return added;
			} else {
				return map.insert_or_assign(tx, key_of<K>(n), value_of(value));
			}
		});
	}
	Call<M> clear_some(uint64_t most)
	{
		return named("clear_some", most,
		        [=](Skewed *tx, M &map) { return map.clear_some(tx, most); });
	}
	Call<M> any(uint64_t keys)
	{
		const uint64_t n = random_() % keys, to = random_() % keys, few = 1 + random_() % 8;
		switch (random_() % 13) {
		case 0:
		case 1: return insert(n);
		case 2:
		case 3: return erase(n);
		case 4:
		case 5: return change(n);
		case 6: return change_or_add(n);
		case 7: return clear_some(few);
		case 8:
			return named("erase_if of each", few, [=](Skewed *tx, M &map) {
				uint64_t k = 0;
				return map.erase_if(
				        tx, [&](const auto &) { return k++ % few == 0; });
			});
		case 9:
			return named("erase_if below", n, [=](Skewed *tx, M &map) {
				return map.erase_if(tx, [&](const auto &entry) {
					return entry.first < key_of<K>(n);
				});
			});
		case 10:
			if (few == 1)
				return {"clear",
				        [](Skewed *tx, M &map) { return map.clear(tx), 0; }};
			return named("erase of begin()", 0, [=](Skewed *tx, M &map) -> uint64_t {
				const auto at = map.in(tx).begin();
				return at != map.in(tx).end() && (map.erase(tx, at), true);
			});
		default: return range(n, to, few);
		}
	}

private:
	Call<M> range(uint64_t n, uint64_t to, uint64_t most)
	{
		if constexpr (!Is<M>::value)
			return clear_some(most);
		else if (most % 2)
			return named("delete_range", n, [=](Skewed *tx, M &map) {
				return map.delete_range(tx, key_of<K>(n), key_of<K>(to));
			});
		else
			return named("delete_some", n, [=](Skewed *tx, M &map) {
				const auto [gone, more] =
				        map.delete_some(tx, key_of<K>(n), key_of<K>(to), most / 2);
				return 2 * gone + more;
			});
	}
	static auto value_of(uint64_t n)
	{
		if constexpr (std::is_same_v<typename M::mapped_type, std::string>)
			return std::string(n % 40, static_cast<char>('a' + n % 26));
		else
			return n;
	}
	template <class F>
	static Call<M> named(const char *name, uint64_t n, F run)
	{
		return {std::string(name) + ' ' + std::to_string(n), run};
	}
	std::mt19937_64 random_;
};

template <class M>
class Promotions : public ::testing::Test
{
};
using Maps = ::testing::Types<fur::hash_map<uint64_t, uint64_t, 2>,
        fur::hash_map<fur::string, fur::string, 2>, fur::hash_map<Clash, uint64_t, 2>,
        fur::hash_map<uint64_t, fur::vector<uint64_t>, 3>, fur::ordered_map<uint64_t, uint64_t, 3>,
        fur::ordered_map<fur::string, fur::string, 4>,
        fur::ordered_map<uint64_t, fur::vector<uint64_t>, 3>>;
TYPED_TEST_SUITE(Promotions, Maps);

/* Maps of several sizes, which have grown and shrunk; then pairs of calls. */
TYPED_TEST(Promotions, TwoUpdatesOfAMap_AreAsOneAfterTheOther)
{
	const uint64_t seed = seed_of_run();
	SCOPED_TRACE("FUR_TEST_SEED=" + std::to_string(seed));
	std::mt19937_64 random(seed);
	MapCallsOf<TypeParam> calls(seed);
	unsigned tried = 0, both = 0;
	for (const uint64_t keys : {3, 10, 10, 16, 25, 25, 40, 60}) {
		Pairs<TypeParam> pairs;
		for (uint64_t n = 0; n < keys; n++)
			pairs.run(calls.insert(n));
		for (int round = 0; round < 6; round++) {
			for (uint64_t n = 0; n < keys / 2; n++) {
				const uint64_t k = random() % keys;
				pairs.run(random() % 8 < 3   ? calls.insert(k)
				          : random() % 4 < 3 ? calls.erase(k)
				                             : calls.change(k));
			}
			for (int pair = 0; pair < PAIRS && !this->HasFailure(); pair++, tried++)
				both += pairs.try_both(calls.any(keys), calls.any(keys));
		}
	}
	EXPECT_GT(both, tried / 20) << "most pairs conflict, so this has shown little";
	EXPECT_LT(both, tried);
}

/* -------------------------------------------------------------------- vector and queue */

template <class C, class CallOf>
void expect_pairs(uint64_t seed, CallOf call_of)
{
	SCOPED_TRACE("FUR_TEST_SEED=" + std::to_string(seed));
	std::mt19937_64 random(seed);
	unsigned both = 0, tried = 0;
	for (const unsigned length : {0, 1, 2, 7, 8, 9, 30, 63, 64, 65, 130}) {
		Pairs<C> pairs;
		for (unsigned n = 0; n < length; n++)
			pairs.run(call_of(0));
		for (int round = 0; round < 5; round++) {
			for (int pair = 0; pair < 100; pair++, tried++)
				both += pairs.try_both(call_of(random()), call_of(random()));
			for (int k = 0; k < 3; k++)
				pairs.run(call_of(random() % 4));
		}
	}
	EXPECT_GT(both, tried / 50);
	EXPECT_LT(both, tried);
}

TEST(PromotionsOf, TwoUpdatesOfAVector_AreAsOneAfterTheOther)
{
	using Vector = fur::vector<fur::string>;
	expect_pairs<Vector>(seed_of_run(), [](uint64_t r) -> Call<Vector> {
		const uint64_t n = r >> 8;
		const std::string text(n % 30, static_cast<char>('a' + n % 26));
		switch (r % 8) {
		case 0:
		case 1:
			return {"push_back",
			        [=](Skewed *tx, Vector &v) { return v.push_back(tx, text), 0; }};
		case 2:
		case 3:
			return {"pop_back", [=](Skewed *tx, Vector &v) -> uint64_t {
				        if (v.empty(tx))
					        return 0;
				        return v.pop_back(tx), 1;
			        }};
		case 4: return {"clear", [](Skewed *tx, Vector &v) { return v.clear(tx), 0; }};
		case 5:
			return {"clear_some",
			        [=](Skewed *tx, Vector &v) { return v.clear_some(tx, n % 5); }};
		default:
			return {"set", [=](Skewed *tx, Vector &v) -> uint64_t {
				        if (v.empty(tx))
					        return 0;
				        const uint64_t size = v.size(tx);
				        return v.set(tx, size - 1 - n % (size < 3 ? size : 3),
				                       text),
				               1;
			        }};
		}
	});
}

TEST(PromotionsOf, TwoUpdatesOfAQueue_AreAsOneAfterTheOther)
{
	using Queue = fur::queue<fur::string>;
	expect_pairs<Queue>(seed_of_run(), [](uint64_t r) -> Call<Queue> {
		const uint64_t n = r >> 8;
		const std::string text(n % 30, static_cast<char>('a' + n % 26));
		switch (r % 6) {
		case 0:
		case 1: return {"push", [=](Skewed *tx, Queue &q) { return q.push(tx, text), 0; }};
		case 2:
		case 3:
			return {"pop", [](Skewed *tx, Queue &q) -> uint64_t {
				        const auto first = q.pop(tx);
				        return first ? 1 + first->size() : 0;
			        }};
		case 4: return {"clear", [](Skewed *tx, Queue &q) { return q.clear(tx), 0; }};
		default:
			return {"clear_some",
			        [=](Skewed *tx, Queue &q) { return q.clear_some(tx, n % 5); }};
		}
	});
}

/* -------------------------------------------------------------------------------- table */

struct SkewedRow {
	uint64_t id, mail, group;
};

template <class T>
class TableCallsOf
{
	using Run = std::function<uint64_t(Skewed *, T &)>;

public:
	explicit TableCallsOf(uint64_t seed) : random_(seed) {}
	Call<T> insert(uint64_t keys)
	{
		const SkewedRow row = any_row(keys);
		return {"insert " + text_of_row(row), [=](Skewed *tx, T &table) {
			        return text_of_result(table.insert(tx, row));
		        }};
	}
	Call<T> any(uint64_t keys)
	{
		const SkewedRow row = any_row(keys);
		const auto call = [&](const char *name, Run run) {
			return Call<T>{name + (' ' + text_of_row(row)), run};
		};
		switch (random_() % 11) {
		case 0:
		case 1: return insert(keys);
		case 2:
			return call("insert_or_assign", [=](Skewed *tx, T &table) {
				return text_of_result(table.insert_or_assign(tx, row));
			});
		case 3: return modify("group", row, &SkewedRow::group);
		case 4: return modify("mail", row, &SkewedRow::mail);
		case 5: return modify("id", row, &SkewedRow::id);
		case 6:
			return call("erase",
			        [=](Skewed *tx, T &table) { return table.erase(tx, row.id); });
		case 7:
			return call("erase by mail", [=](Skewed *tx, T &table) {
				return table.template by<&SkewedRow::mail>().erase(tx, row.mail);
			});
		case 8:
			return call("erase by group", [=](Skewed *tx, T &table) {
				return table.template by<&SkewedRow::group>().erase(tx, row.group);
			});
		case 9:
			return call("erase_if", [=](Skewed *tx, T &table) {
				return table.erase_if(tx,
				        [=](const SkewedRow &r) { return r.id % 5 == row.id % 5; });
			});
		default:
			return call("clear_some", [=](Skewed *tx, T &table) {
				return table.clear_some(tx, row.id % 4);
			});
		}
	}

private:
	SkewedRow any_row(uint64_t keys)
	{
		return {random_() % keys, random_() % keys, random_() % 4};
	}
	/* Of row `mail % keys`, which has nothing to do with its own. */
	Call<T> modify(const char *name, const SkewedRow &row, uint64_t SkewedRow::*member)
	{
		return {std::string("modify ") + name + ' ' + text_of_row(row),
		        [=](Skewed *tx, T &table) {
			        return text_of_result(table.modify(tx, row.mail,
			                [=](SkewedRow &r) { r.*member = row.*member; }));
		        }};
	}
	static std::string text_of_row(const SkewedRow &row)
	{
		return std::to_string(row.id) + ':' + std::to_string(row.mail) + ':' +
		       std::to_string(row.group);
	}
	static uint64_t text_of_result(const fur::table_result &result)
	{
		return 4 * result.clash() + 2 * result.is_missing() + bool(result);
	}
	std::mt19937_64 random_;
};

template <class T>
class TablePromotions : public ::testing::Test
{
};
using SkewedTables = ::testing::Types<
        fur::table<SkewedRow, fur::hash_unique<&SkewedRow::id>, fur::hash_unique<&SkewedRow::mail>,
                fur::hash_index<&SkewedRow::group>>,
        fur::table<SkewedRow, fur::ordered_unique<&SkewedRow::id>,
                fur::ordered_unique<&SkewedRow::mail>, fur::ordered_index<&SkewedRow::group>>>;
TYPED_TEST_SUITE(TablePromotions, SkewedTables);

TYPED_TEST(TablePromotions, TwoUpdatesOfATable_AreAsOneAfterTheOther)
{
	const uint64_t seed = seed_of_run();
	SCOPED_TRACE("FUR_TEST_SEED=" + std::to_string(seed));
	TableCallsOf<TypeParam> calls(seed);
	unsigned tried = 0, both = 0;
	for (const uint64_t keys : {3, 10, 25, 60}) {
		Pairs<TypeParam> pairs;
		for (uint64_t n = 0; n < keys; n++)
			pairs.run(calls.insert(keys));
		for (int round = 0; round < 6; round++) {
			for (uint64_t n = 0; n < keys / 2; n++)
				pairs.run(calls.insert(keys));
			for (int pair = 0; pair < PAIRS && !this->HasFailure(); pair++, tried++)
				both += pairs.try_both(calls.any(keys), calls.any(keys));
		}
	}
	EXPECT_GT(both, tried / 50) << "most pairs conflict, so this has shown little";
	EXPECT_LT(both, tried);
}

} // namespace
