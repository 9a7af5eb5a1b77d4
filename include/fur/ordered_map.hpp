/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ordered_map.hpp - fur::ordered_map<K, V>: a map in the order of its keys, in the heap.  Keys are
 * compared with <, or with a Compare of the program, a part of the map's type.  docs/containers.md
 * says which types keys and values can have.
 *
 *     struct Desk { fur::ordered_map<uint64_t, Order> orders; };
 *     fur::update(self, [&](fur_update *tx) { desk->orders.insert(tx, price, order); });
 *     fur::read(self, [&](fur_ro *tx) {
 *             auto all = desk->orders.in(tx);
 *             for (auto at = all.lower_bound(100); at != all.end() && at->first < 200; ++at)
 *                     print(at->second);
 *     });
 *
 * A map that is all zero is empty.  It is a B+tree of nodes with up to FANOUT entries, 3 to 15.  An
 * order word says where in a node its entries are, so an insertion moves none (Mao et al.,
 * Masstree, EuroSys 2012).  Child i of an inner node holds the keys from key i on, up to key i + 1;
 * key 0 of an inner node is not looked at.  No leaf is empty; a node that becomes empty is taken
 * out of its parent, and nodes are not merged otherwise.  A leaf that is split at the end of the
 * map stays full, so keys that are added in order fill it.
 *
 * Right under snapshot isolation too: an update that changes a leaf, moves its entries, or takes it
 * out stores to its order word, and one that changes a value promotes it; likewise one level up for
 * a node that gains or loses a child.  So two updates of which one relies on what the other changes
 * write a common word.
 *
 * On the medium, in words of 8 bytes:
 *
 *     map      0 root, or 0                             1 the parts of the size (sizes.hpp), or 0
 *     leaf     0 order                                  1.. FANOUT keys; then FANOUT values
 *     inner    0 order                                  1.. FANOUT keys; then FANOUT children
 *     order    the lowest 4 bits: the number of entries; then, 4 bits each, the places of the
 *              entries in their order, and after them the free places
 *     root, child    the address of a node | 1 if it is a leaf
 */
#ifndef FUR_ORDERED_MAP_HPP
#define FUR_ORDERED_MAP_HPP

#include <fur/iterator.hpp>
#include <fur/map.hpp>
#include <fur/sizes.hpp>

#include <functional>
#include <iterator>

namespace fur
{

namespace detail
{

/* The order word of a node. */
struct Order {
	uint64_t word;

	static constexpr Order none()
	{
		return {UINT64_C(0xedcba98765432100)};
	}
	unsigned count() const
	{
		return word & 15;
	}
	/* The place of entry i, or, from count() on, a free place. */
	unsigned place(unsigned i) const
	{
		return word >> (4 * i + 4) & 15;
	}
	/* The lowest `i` places and the count. */
	static constexpr uint64_t below(unsigned i)
	{
		return i < 15 ? (UINT64_C(1) << (4 * i + 4)) - 1 : ~UINT64_C(0);
	}
	/* Place `from` moves to where place `to` was; those in between move on by one. */
	Order moved(unsigned from, unsigned to) const
	{
		const uint64_t place_word = this->place(from);
		const uint64_t rest = (word & below(from)) |
		                      (from < 14 ? word >> (4 * from + 8) << (4 * from + 4) : 0);
		const uint64_t above = to < 14 ? (rest & ~below(to)) << 4 : 0;
		return {(rest & below(to)) | place_word << (4 * to + 4) | above};
	}
	/* The first free place becomes entry i. */
	Order inserted(unsigned i) const
	{
		return {moved(count(), i).word + 1};
	}
	Order removed(unsigned i) const
	{
		return {moved(i, count() - 1).word - 1};
	}
	Order shortened(unsigned count) const
	{
		return {(word & ~UINT64_C(15)) | count};
	}
};

} // namespace detail

/* FANOUT: entries in a node, a part of the format.
 * Compare: compare(a, b) says whether key a comes before key b, as in std::map, and must say so for
 * ever.  Both keys are passed as to the map: a fur::string as a std::string_view, a std::pair as a
 * std::pair of such. */
template <class K, class V, unsigned FANOUT = 15, class Compare = std::less<>>
class ordered_map : public detail::base::MapCalls<ordered_map<K, V, FANOUT, Compare>, K, V>
{
	static_assert(FANOUT >= 3 && FANOUT <= 15, "fur::ordered_map: 3 to 15 entries in a node");
	static_assert(std::is_empty_v<Compare> && std::is_default_constructible_v<Compare>,
	        "fur::ordered_map: Compare has no members, for the heap would not keep them");
	using Calls = detail::base::MapCalls<ordered_map, K, V>;
	friend Calls;
	using key_codec = stored<K>;
	using value_codec = stored<V>;
	using Order = detail::Order;
	template <class Tx>
	class Iterator;
	template <class Tx>
	class View;

public:
	using typename Calls::key_type;
	using typename Calls::key_view;
	using typename Calls::mapped_view;
	using typename Calls::size_type;
	using typename Calls::value_type;
	template <class Tx>
	using iterator = Iterator<Tx>;

	/* size - the number of entries.  Reads 16 lines that insertions store to, so call it in
	 * updates only if you must. */
	template <class Tx>
	size_type size(Tx *tx) const
	{
		if (sizes_.exist(tx))
			return sizes_.sum(tx);
		const uint64_t root = fur_load(tx, &root_);
		return root ? order_of(tx, node_of(root)).count() : 0;
	}
	/* in - the map in a transaction, as a range of pairs in the order of the keys.  It and its
	 * iterators are valid until the transaction ends or changes the map. */
	template <class Tx>
	View<Tx> in(Tx *tx) const
	{
		return {tx, this};
	}
	/* find - an iterator to the key's entry, or in(tx).end(). */
	template <class Tx>
	Iterator<Tx> find(Tx *tx, key_view key) const
	{
		return in(tx).find(key);
	}
	/* lower_bound, upper_bound - an iterator to the first entry whose key is not smaller than
	 * `key`, or larger; or in(tx).end(). */
	template <class Tx>
	Iterator<Tx> lower_bound(Tx *tx, key_view key) const
	{
		return in(tx).lower_bound(key);
	}
	template <class Tx>
	Iterator<Tx> upper_bound(Tx *tx, key_view key) const
	{
		return in(tx).upper_bound(key);
	}
	/* value_words - where the key's value lies, for codecs.   Returns: NULL: no such key. */
	template <class Tx>
	const uint64_t *value_words(Tx *tx, key_view key) const
	{
		const auto [leaf, place] = find_key(tx, key);
		return leaf ? value_at(static_cast<const uint64_t *>(leaf), place) : nullptr;
	}
	/* floor - an iterator to the last entry whose key is not larger than `key`; or
	 * in(tx).end(). */
	template <class Tx>
	Iterator<Tx> floor(Tx *tx, key_view key) const
	{
		return in(tx).floor(key);
	}
	/* verify - check the structure of the whole map.  For tests: it takes as long as a walk.
	 * Returns: NULL, or what is wrong.  Sets `blocks` to the number of blocks that it owns. */
	template <class Tx>
	const char *verify(Tx *tx, uint64_t &blocks) const
	{
		Found found{sizes_.exist(tx), 0, {}};
		const uint64_t root = fur_load(tx, &root_);
		if (const char *wrong = root ? verify_below(tx, root, nullptr, found) : nullptr)
			return wrong;
		blocks = found.blocks;
		return found.entries == size(tx) ? nullptr
		                                 : "the size is not the number of entries";
	}

	/* A place in the map that outlives transactions: see fur::scan() (map.hpp). */
	class cursor
	{
	public:
		/* At the beginning, or at the first key that is not smaller than `from`. */
		cursor() = default;
		explicit cursor(key_view from) : key_(key_type(from)) {}
		bool done() const
		{
			return done_;
		}
		/* advance - call f(value_type) for the next entries, `most` at most, and go on
		 * behind them. */
		template <class Tx, class F>
		void advance(Tx *tx, const ordered_map &map, size_t most, F &&f)
		{
			const View<Tx> all = map.in(tx);
			auto at = !key_   ? all.begin()
			          : seen_ ? all.upper_bound(*key_)
			                  : all.lower_bound(*key_);
			for (; most > 0 && at != all.end(); ++at, most--) {
				const value_type entry = *at;
				f(entry);
				key_ = entry.first;
				seen_ = true;
			}
			done_ = at == all.end();
		}

	private:
		std::optional<key_type> key_;
		bool seen_ = false, done_ = false; /* seen_: the entry of key_ */
	};

	using Calls::erase;
	/* erase - remove the entry of an iterator.   Returns: an iterator to the next one.  Other
	 * iterators are not valid any more. */
	template <class Tx, class It, class = detail::if_same<It, Iterator<Tx>>>
	It erase(Tx *tx, It at)
	{
		detail::check_changes<Tx>();
		auto *leaf = const_cast<uint64_t *>(at.leaf_);
		const unsigned levels = at.path_.levels;
		remove_at(tx, at.path_, leaf, at.i_);
		if (at.order_.count() == 1)
			at.leaf_has_gone(levels);
		else
			at.entry_has_gone();
		return at;
	}
	/* delete_range - remove the entries with first <= key < last.  A node that loses all of its
	 * entries is freed as a whole.   Returns: how many.
	 * The update frees a block for each few entries, and those of the entries.  If the log has
	 * no room for that, it fails with FUR_ETOOBIG: then call fur::delete_range() (map.hpp),
	 * which takes several updates. */
	template <class Tx>
	size_type delete_range(Tx *tx, key_view first, key_view last)
	{
		detail::check_changes<Tx>();
		size_type gone = 0;
		while (const unsigned n = cut(tx, first, last, FANOUT)) {
			gone += n;
			detail::check_update(tx);
		}
		return gone;
	}
	/* delete_some - a part of delete_range(): remove up to `most` entries, and fewer if a
	 * quarter of the log is full.  It removes at least one, or a part of what its value owns.
	 * Returns: how many; and whether there may be more to do. */
	template <class Tx>
	std::pair<size_type, bool> delete_some(
	        Tx *tx, key_view first, key_view last, size_type most)
	{
		detail::check_changes<Tx>();
		size_type gone = 0;
		do {
			const size_type left = most > gone ? most - gone : 1;
			if (first_value_waits(tx, first, last, left))
				return {gone, true};
			const unsigned n = cut(
			        tx, first, last, left < STEP ? static_cast<unsigned>(left) : STEP);
			if (n == 0)
				return {gone, false};
			gone += n;
		} while (gone < most && detail::room_for_a_step(tx));
		return {gone, true};
	}
	/* clear - remove all entries.  The update frees a block for each node, and those of the
	 * entries.  If the log has no room for that, it fails with FUR_ETOOBIG: then call
	 * fur::clear() (map.hpp), which takes several updates. */
	template <class Tx>
	void clear(Tx *tx)
	{
		detail::check_changes<Tx>();
		const uint64_t root = fur_load(tx, &root_);
		fur_store(tx, &root_, 0);
		if (root)
			free_below(tx, root);
		sizes_.destroy(tx);
	}
	/* clear_some - a part of clear(): remove up to `most` entries, or fewer if a quarter of the
	 * log is full.  The map is whole in between; calls in several updates empty it with any
	 * log.   Returns: whether there is more to do. */
	template <class Tx>
	bool clear_some(Tx *tx, size_type most)
	{
		detail::check_changes<Tx>();
		uint64_t root;
		while ((root = fur_load(tx, &root_)) != 0) {
			Path path;
			uint64_t *leaf = first_leaf(tx, root, path);
			if constexpr (Calls::OWNS_VALUES) {
				fur_promote(tx, leaf); /* words_to_change() */
				const unsigned place = order_of(tx, leaf).place(0);
				if (detail::clear_value_some<V>(tx, value_at(leaf, place), most))
					return true;
			}
			const unsigned all = order_of(tx, leaf).count(),
			               some = all < STEP ? all : STEP;
			const unsigned n = most < some ? static_cast<unsigned>(most) : some;
			remove_run(tx, path, leaf, 0, n ? n : 1);
			if (most <= n || !detail::room_for_a_step(tx))
				return true;
			most -= n;
		}
		fur_store(tx, &root_, 0);
		sizes_.destroy(tx);
		return false;
	}

private:
	enum : size_t {
		KEYS = 1,
		VALUES = KEYS + FANOUT * key_codec::WORDS, /* or children */
		LEAF_WORDS = VALUES + FANOUT * value_codec::WORDS,
		INNER_WORDS = VALUES + FANOUT
	};
	/* HALF: of FANOUT + 1 entries, rounded up. */
	enum : unsigned { MOST_LEVELS = 40, HALF = FANOUT / 2 + 1 };
	/* Searches of many keys ask for a leaf as a whole, or without its values. */
	static constexpr bool IS_SMALL = 8 * LEAF_WORDS <= detail::PREFETCH_MOST / 2;
	static constexpr uint64_t LEAF = 1;
	/* How many entries an update in parts removes at a time: with the smallest log it can free
	 * two blocks for each of 5.  One at a time if what a value owns must be freed before. */
	static constexpr unsigned step()
	{
		constexpr auto blocks =
		        static_cast<unsigned>(+key_codec::MOST_BLOCKS + +value_codec::MOST_BLOCKS);
		unsigned n = blocks == 0 || FANOUT < 5 ? FANOUT : 5;
		while (n > 1 && n * blocks > 10)
			n--;
		return Calls::OWNS_VALUES ? 1 : n;
	}
	static constexpr unsigned STEP = step();

	static bool is_leaf(uint64_t word)
	{
		return word & LEAF;
	}
	static uint64_t *node_of(uint64_t word)
	{
		return detail::pointer<uint64_t>(word & ~LEAF);
	}
	template <class Word>
	static Word *key_at(Word *node, size_t place)
	{
		return node + KEYS + place * key_codec::WORDS;
	}
	template <class Word>
	static Word *value_at(Word *leaf, size_t place)
	{
		return leaf + VALUES + place * value_codec::WORDS;
	}
	template <class Tx>
	static Order order_of(Tx *tx, const uint64_t *node)
	{
		return {fur_load(tx, node)};
	}
	template <class Tx>
	static uint64_t child(Tx *tx, const uint64_t *inner, Order order, unsigned i)
	{
		return fur_load(tx, &inner[VALUES + order.place(i)]);
	}

	/* ------------------------------------------------------------------- order */

	static constexpr bool BY_LESS = std::is_same_v<Compare, std::less<>>;

	/* Does the stored key come before this one? */
	template <class Tx>
	static bool less(Tx *tx, const uint64_t *at, key_view key)
	{
		if constexpr (BY_LESS)
			return key_codec::less(tx, at, key);
		else
			return Compare()(static_cast<key_view>(key_codec::load(tx, at)), key);
	}
	/* Does it come behind it? */
	template <class Tx>
	static bool more(Tx *tx, const uint64_t *at, key_view key)
	{
		if constexpr (BY_LESS)
			return key_codec::more(tx, at, key);
		else
			return Compare()(key, static_cast<key_view>(key_codec::load(tx, at)));
	}

	/* ------------------------------------------------------------------ search */

	/* From the root to a leaf: inner nodes, and which child of each. */
	struct Path {
		uint64_t *node[MOST_LEVELS];
		Order order[MOST_LEVELS];
		unsigned index[MOST_LEVELS];
		unsigned levels = 0;

		void add(uint64_t *inner, Order o, unsigned i)
		{
			node[levels] = inner;
			order[levels] = o;
			index[levels++] = i;
		}
	};
	/* Entries of a node that may be the first one that is not before a key: `first`, or one of
	 * the `others` behind it, or the one behind these. */
	struct Range {
		unsigned first, others;

		unsigned middle() const
		{
			return first + others / 2;
		}
		/* The middle one is before the key, or it is not. */
		void narrow(bool is_before)
		{
			const unsigned half = others / 2;
			if (is_before) {
				first += half + 1;
				others -= half + 1;
			} else {
				others = half;
			}
		}
	};
	/* The first entry from `i` on that is not before the key.  `before(words)`: is this key?
	 * CACHED: the node is in the cache, for a group of searches has asked for it. */
	template <bool CACHED, class Before>
	static unsigned first_not(const uint64_t *node, Order order, unsigned i, Before before)
	{
		if constexpr (CACHED && BY_LESS && std::is_integral_v<K>) {
			/* The same steps in each node, and no branch, for the processor would guess
			 * half of them wrong.  A search that waits for memory gains from its
			 * guesses: they load several keys at a time.  Steps too far look at entry
			 * 0. */
			unsigned last = i;
			for (unsigned step = 8; step; step /= 2) {
				const unsigned probe = last + step - 1,
				               in = probe < order.count() ? probe : 0;
				/* Numbers: clang warns of & between bools. */
				const unsigned here = before(key_at(node, order.place(in))),
				               there = probe < order.count();
				last += step & -(here & there);
			}
			return last;
		}
		Range range{i, order.count() - i};
		while (range.others)
			range.narrow(before(key_at(node, order.place(range.middle()))));
		return range.first;
	}
	/* In an inner node: the child to which the key belongs. */
	template <bool CACHED = false, class Tx>
	static unsigned route(Tx *tx, const uint64_t *inner, Order order, key_view key)
	{
		const auto before = [&](auto *at) { return !more(tx, at, key); };
		return first_not<CACHED>(inner, order, 1, before) - 1;
	}
	template <bool CACHED = false, class Tx>
	static unsigned lower(Tx *tx, const uint64_t *leaf, Order order, key_view key)
	{
		const auto before = [&](auto *at) { return less(tx, at, key); };
		return first_not<CACHED>(leaf, order, 0, before);
	}
	/* The leaf to which the key belongs.  NULL: the map is empty. */
	template <class Tx>
	uint64_t *descend(Tx *tx, key_view key, Path *path) const
	{
		uint64_t at = fur_load(tx, &root_);
		while (at && !is_leaf(at)) {
			uint64_t *inner = node_of(at);
			const Order order = order_of(tx, inner);
			const unsigned i = route(tx, inner, order, key);
			if (path)
				path->add(inner, order, i);
			at = child(tx, inner, order, i);
		}
		return node_of(at);
	}
	template <class Tx>
	static bool has(Tx *tx, const uint64_t *leaf, Order order, unsigned i, key_view key)
	{
		/* No entry before i is smaller, so `<` alone tells. */
		return i < order.count() && !more(tx, key_at(leaf, order.place(i)), key);
	}
	/* The leaf with the key, and the key's place in it; NULL: there is none. */
	template <class Tx>
	std::pair<uint64_t *, unsigned> find_key(Tx *tx, key_view key) const
	{
		uint64_t *leaf = key_codec::is_key(key) ? descend(tx, key, nullptr) : nullptr;
		if (!leaf)
			return {nullptr, 0};
		const Order order = order_of(tx, leaf);
		const unsigned i = lower(tx, leaf, order, key);
		if (!has(tx, leaf, order, i, key)) /* and i may be 15, which has no place */
			return {nullptr, 0};
		return {leaf, order.place(i)};
	}
	/* Where one of many searches is. */
	struct Seeker {
		uint64_t node; /* as in a root; 0: there is none */
		Order order;
		Range range;
	};
	/* One step of first_not().   Returns: whether there is another one. */
	template <class Tx>
	static bool look_at_middle(Tx *tx, Seeker &seeker, key_view key)
	{
		if (seeker.range.others == 0)
			return false;
		const uint64_t *middle = middle_of(seeker);
		seeker.range.narrow(
		        is_leaf(seeker.node) ? less(tx, middle, key) : !more(tx, middle, key));
		ask_for_middle(tx, seeker);
		return seeker.range.others;
	}
	static const uint64_t *middle_of(const Seeker &seeker)
	{
		return key_at(node_of(seeker.node), seeker.order.place(seeker.range.middle()));
	}
	/* For its block. */
	template <class Tx>
	static void ask_for_middle(Tx *tx, const Seeker &seeker)
	{
		if (seeker.range.others)
			key_codec::prefetch(tx, middle_of(seeker));
	}
	/* Find where each key belongs in its node. */
	template <class Tx, class KeyOf>
	static void find_in_nodes(Tx *tx, size_t n, KeyOf key_of, Seeker *all)
	{
		for (size_t i = 0; i < n; i++) {
			Seeker &one = all[i];
			if (!one.node)
				continue;
			const uint64_t *node = node_of(one.node);
			const Order order = one.order = order_of(tx, node);
			if constexpr (detail::has_prefetch<key_codec>::value) {
				const unsigned first = !is_leaf(one.node);
				one.range = {first, order.count() - first};
				ask_for_middle(tx, one);
			} else {
				one.range.first =
				        is_leaf(one.node)
				                ? lower<true>(tx, node, order, key_of(i))
				                : route<true>(tx, node, order, key_of(i)) + 1;
			}
		}
		if constexpr (detail::has_prefetch<key_codec>::value)
			for (bool goes_on = true; goes_on;) {
				goes_on = false;
				for (size_t i = 0; i < n; i++)
					if (all[i].node)
						goes_on |= look_at_middle(tx, all[i], key_of(i));
			}
	}
	/* find_group - see MapCalls.  Level by level. */
	template <class Tx, class KeyOf>
	void find_group(Tx *tx, size_t n, KeyOf key_of, const uint64_t **words) const
	{
		Seeker all[detail::GROUP];
		const uint64_t root = fur_load(tx, &root_);
		for (size_t i = 0; i < n; i++)
			all[i].node = key_codec::is_key(key_of(i)) ? root : 0;
		for (bool goes_on = root != 0; goes_on;) {
			find_in_nodes(tx, n, key_of, all);
			goes_on = false;
			for (size_t i = 0; i < n; i++)
				goes_on |= step_down(tx, all[i]);
		}
		for (size_t i = 0; i < n; i++) {
			const Seeker &one = all[i];
			const uint64_t *leaf = node_of(one.node);
			const bool found =
			        leaf && has(tx, leaf, one.order, one.range.first, key_of(i));
			words[i] =
			        found ? value_at(leaf, one.order.place(one.range.first)) : nullptr;
		}
	}
	/* To the child before the entry.   Returns: false: it is at a leaf. */
	template <class Tx>
	static bool step_down(Tx *tx, Seeker &seeker)
	{
		if (!seeker.node || is_leaf(seeker.node))
			return false;
		seeker.node = child(tx, node_of(seeker.node), seeker.order, seeker.range.first - 1);
		detail::prefetch(tx, node_of(seeker.node),
		        !is_leaf(seeker.node) ? +INNER_WORDS
		        : IS_SMALL            ? +LEAF_WORDS
		                              : +VALUES);
		return true;
	}
	template <class Tx>
	uint64_t *words_to_change(Tx *tx, key_view key)
	{
		const auto [leaf, place] = find_key(tx, key);
		if (leaf)
			/* A split or a removal may move the value without a store to its old
			 * place, but it stores to this word. */
			fur_promote(tx, leaf);
		return leaf ? value_at(leaf, place) : nullptr;
	}

	/* --------------------------------------------------------------- insertion */

	template <class Tx>
	static uint64_t *new_node(Tx *tx, size_t words)
	{
		uint64_t *node = detail::new_node(tx, words);
		fur_store(tx, node, Order::none().word);
		return node;
	}
	template <class Tx>
	static void store_zero(Tx *tx, uint64_t *to, size_t n)
	{
		for (size_t i = 0; i < n; i++)
			fur_store(tx, &to[i], 0);
	}
	/* An update whose log is full goes on, but its stores do nothing from then on.  For such a
	 * body no node may be half made: a node's order word is stored after all that it
	 * points to, and a node is taken out of the tree before it is freed. */

	/* Into a leaf that has this order and a free place, as entry i. */
	template <class Tx>
	static uint64_t *put(
	        Tx *tx, uint64_t *leaf, Order order, unsigned i, key_view key, mapped_view value)
	{
		order = order.inserted(i);
		const unsigned place = order.place(i);
		key_codec::create(tx, key_at(leaf, place), key);
		value_codec::create(tx, value_at(leaf, place), value);
		fur_store(tx, leaf, order.word);
		return value_at(leaf, place);
	}

	/* A node that is about to be a child of the level above, behind the one that was split. */
	struct Up {
		uint64_t child;
		std::optional<key_type> first; /* a leaf's first key */
		uint64_t *given_up = nullptr;  /* an inner node gives up its key 0: the words */
	};
	/* As child i, with the key that `up` has. */
	template <class Tx>
	static void put_child(Tx *tx, uint64_t *inner, Order order, unsigned i, const Up &up)
	{
		order = order.inserted(i);
		const unsigned place = order.place(i);
		uint64_t *key = key_at(inner, place);
		fur_store(tx, &inner[VALUES + place], up.child);
		if (up.first) {
			key_codec::create(tx, key, *up.first);
		} else {
			detail::move_words(tx, key, up.given_up, key_codec::WORDS);
			store_zero(tx, up.given_up, key_codec::WORDS);
		}
		fur_store(tx, inner, order.word);
	}
	/* The first child of a new inner node, whose key is not looked at.  Returns the order. */
	template <class Tx>
	static Order put_first_child(Tx *tx, uint64_t *inner, uint64_t child)
	{
		const Order order = Order::none().inserted(0);
		fur_store(tx, &inner[VALUES + order.place(0)], child);
		store_zero(tx, key_at(inner, order.place(0)), key_codec::WORDS);
		fur_store(tx, inner, order.word);
		return order;
	}
	/* The orders of the two nodes of a split. */
	static Order order_left(Order order, unsigned stay)
	{
		return order.shortened(stay);
	}
	static Order order_right(unsigned stay)
	{
		return Order::none().shortened(FANOUT - stay);
	}
	/* Leave `stay` entries in a full node, and move the others to a new one. */
	template <class Tx>
	static uint64_t *split(Tx *tx, uint64_t *node, unsigned stay, bool leaf)
	{
		const size_t words = leaf ? +value_codec::WORDS : 1;
		const Order order = order_of(tx, node);
		uint64_t *right = new_node(tx, leaf ? LEAF_WORDS : INNER_WORDS);
		for (unsigned i = stay; i < FANOUT; i++) {
			const unsigned from = order.place(i), to = i - stay;
			detail::move_words(
			        tx, key_at(right, to), key_at(node, from), key_codec::WORDS);
			detail::move_words(tx, right + VALUES + to * words,
			        node + VALUES + from * words, words);
		}
		fur_store(tx, right, order_right(stay).word);
		fur_store(tx, node, order_left(order, stay).word);
		return right;
	}
	/* How many entries stay in the left node when entry i comes?  All, at the map's end.
	 * Otherwise, with entry i, neither node has more than half of all, rounded up: if one were
	 * full again, the next key there would split the path again, and add a level. */
	static unsigned staying(const Path &path, unsigned levels, unsigned i)
	{
		bool last = i == FANOUT;
		for (unsigned l = 0; l < levels; l++)
			last = last && path.index[l] + 1 == path.order[l].count();
		return last ? FANOUT : i < HALF ? HALF - 1 : +HALF;
	}
	/* Hang the new node into the level above, which is split as long as it is full. */
	template <class Tx>
	void hang(Tx *tx, Path &path, uint64_t below, Up up)
	{
		const unsigned levels = path.levels;
		while (path.levels) {
			const unsigned l = --path.levels, i = path.index[l] + 1;
			uint64_t *node = path.node[l];
			const Order order = path.order[l];
			if (order.count() < FANOUT) {
				put_child(tx, node, order, i, up);
				return;
			}
			const unsigned stay = staying(path, l, i);
			uint64_t *right = split(tx, node, stay, false);
			if (stay == FANOUT) {
				/* The only child of `right`; its key goes up with `right`. */
				put_first_child(tx, right, up.child);
				up.child = detail::word_of(right);
			} else {
				if (i < HALF)
					put_child(tx, node, order_left(order, stay), i, up);
				else
					put_child(tx, right, order_right(stay), i - stay, up);
				const bool first = i >= HALF && i == stay;
				const Order now =
				        first ? order_right(stay).inserted(0) : order_right(stay);
				up = {detail::word_of(right), {}, key_at(right, now.place(0))};
			}
			below = detail::word_of(node);
		}
		if (levels == MOST_LEVELS) { /* after about 2^MOST_LEVELS insertions */
			using detail::no_room;
			no_room(tx);
		}
		uint64_t *root = new_node(tx, INNER_WORDS);
		put_child(tx, root, put_first_child(tx, root, below), 1, up);
		fur_store(tx, &root_, detail::word_of(root));
	}
	template <class Tx>
	std::pair<uint64_t *, bool> add(Tx *tx, key_view key, mapped_view value)
	{
		key_codec::check_key(key);
		Path path;
		uint64_t *leaf = descend(tx, key, &path);
		if (!leaf) {
			leaf = new_node(tx, LEAF_WORDS);
			uint64_t *words = put(tx, leaf, Order::none(), 0, key, value);
			fur_store(tx, &root_, detail::word_of(leaf) | LEAF);
			/* The parts of the size are there if the map once had more. */
			sizes_.add(tx, detail::word_of(leaf) / FUR_CACHE_LINE, 1);
			return {words, true};
		}
		const Order order = order_of(tx, leaf);
		const unsigned i = lower(tx, leaf, order, key);
		if (has(tx, leaf, order, i, key)) {
			fur_promote(tx, leaf); /* words_to_change() */
			return {value_at(leaf, order.place(i)), false};
		}
		if (!path.levels && order.count() == FANOUT && !sizes_.exist(tx))
			sizes_.make(tx, FANOUT);
		sizes_.add(tx, detail::word_of(leaf) / FUR_CACHE_LINE, 1);
		if (order.count() < FANOUT)
			return {put(tx, leaf, order, i, key, value), true};
		const unsigned stay = staying(path, path.levels, i);
		uint64_t *right = split(tx, leaf, stay, true);
		Up up{detail::word_of(right) | LEAF, {}, nullptr};
		if (i == stay && i >= HALF)
			up.first.emplace(key);
		else /* before put() reuses the place */
			up.first.emplace(key_codec::load(tx, key_at(leaf, order.place(stay))));
		uint64_t *words = i < HALF
		                          ? put(tx, leaf, order_left(order, stay), i, key, value)
		                          : put(tx, right, order_right(stay), i - stay, key, value);
		hang(tx, path, detail::word_of(leaf) | LEAF, std::move(up));
		return {words, true};
	}

	/* ----------------------------------------------------------------- removal */

	template <class Tx>
	bool remove(Tx *tx, key_view key)
	{
		Path path;
		uint64_t *leaf = key_codec::is_key(key) ? descend(tx, key, &path) : nullptr;
		if (!leaf)
			return false;
		const Order order = order_of(tx, leaf);
		const unsigned i = lower(tx, leaf, order, key);
		if (!has(tx, leaf, order, i, key))
			return false;
		remove_at(tx, path, leaf, i);
		return true;
	}
	template <class Tx>
	static uint64_t *first_leaf(Tx *tx, uint64_t root, Path &path)
	{
		while (!is_leaf(root)) {
			uint64_t *inner = node_of(root);
			const Order order = order_of(tx, inner);
			path.add(inner, order, 0);
			root = child(tx, inner, order, 0);
		}
		return node_of(root);
	}
	/* Entry i of the leaf. */
	template <class Tx>
	void remove_at(Tx *tx, Path &path, uint64_t *node, unsigned i)
	{
		const Order order = order_of(tx, node);
		sizes_.add(tx, detail::word_of(node) / FUR_CACHE_LINE, -1);
		fur_store(tx, node, order.removed(i).word);
		key_codec::destroy(tx, key_at(node, order.place(i)));
		value_codec::destroy(tx, value_at(node, order.place(i)));
		if (order.count() == 1)
			take_out(tx, path, node);
	}
	/* Entries i to i + n - 1 of the leaf. */
	template <class Tx>
	void remove_run(Tx *tx, Path &path, uint64_t *node, unsigned i, unsigned n)
	{
		const Order order = order_of(tx, node);
		Order left = order;
		for (unsigned k = 0; k < n; k++)
			left = left.removed(i);
		sizes_.add(tx, detail::word_of(node) / FUR_CACHE_LINE, -static_cast<int64_t>(n));
		fur_store(tx, node, left.word);
		for (unsigned k = i; k < i + n; k++) {
			key_codec::destroy(tx, key_at(node, order.place(k)));
			value_codec::destroy(tx, value_at(node, order.place(k)));
		}
		if (left.count() == 0)
			take_out(tx, path, node);
	}
	/* The leaf at the end of the path is empty: free it, and the nodes above that are empty
	 * then.  The path ends above the node that stays, or is empty. */
	template <class Tx>
	void take_out(Tx *tx, Path &path, uint64_t *empty)
	{
		while (path.levels) {
			uint64_t *node = path.node[--path.levels];
			const Order order = path.order[path.levels];
			const unsigned i = path.index[path.levels];
			fur_store(tx, node, order.removed(i).word);
			key_codec::destroy(tx, key_at(node, order.place(i)));
			fur_free(tx, empty);
			if (order.count() > 1)
				return;
			empty = node;
		}
		fur_store(tx, &root_, 0);
		fur_free(tx, empty);
	}
	/* Remove entries of [first, last), `most` of them, from the first leaf that has some.
	 * Returns: how many. */
	template <class Tx>
	unsigned cut(Tx *tx, key_view first, key_view last, unsigned most)
	{
		auto at = lower_bound(tx, first);
		auto *leaf = const_cast<uint64_t *>(at.leaf_);
		if (!leaf || !key_codec::is_key(last))
			return 0;
		const unsigned end = first_not<false>(
		        leaf, at.order_, at.i_, [&](auto *words) { return less(tx, words, last); });
		const unsigned n = end - at.i_ < most ? end - at.i_ : most;
		if (n > 0)
			remove_run(tx, at.path_, leaf, at.i_, n);
		return n;
	}
	/* For the first entry of [first, last): detail::clear_value_some(). */
	template <class Tx>
	bool first_value_waits(Tx *tx, key_view first, key_view last, size_type most)
	{
		if constexpr (Calls::OWNS_VALUES) {
			const auto at = lower_bound(tx, first);
			if (!at.leaf_ || !key_codec::is_key(last) ||
			        !less(tx, at.key_words(), last))
				return false;
			auto *leaf = const_cast<uint64_t *>(at.leaf_);
			fur_promote(tx, leaf); /* words_to_change() */
			return detail::clear_value_some<V>(
			        tx, value_at(leaf, at.order_.place(at.i_)), most);
		}
		return false;
	}
	/* From an entry that stays, while a caller erases others. */
	template <class Tx>
	static void pass(Tx *, Iterator<Tx> &at)
	{
		++at;
	}
	template <class Tx>
	static void free_below(Tx *tx, uint64_t word)
	{
		uint64_t *node = node_of(word);
		const Order order = order_of(tx, node);
		for (unsigned i = 0; i < order.count(); i++) {
			key_codec::destroy(tx, key_at(node, order.place(i)));
			if (is_leaf(word))
				value_codec::destroy(tx, value_at(node, order.place(i)));
			else
				free_below(tx, child(tx, node, order, i));
		}
		fur_promote(tx, node);
		fur_free(tx, node);
	}

	/* ------------------------------------------------------------------- verify */

	struct Found {
		uint64_t blocks, entries;
		std::optional<key_type> last;
	};
	static const char *verify_order(Order order)
	{
		unsigned places = 0;
		for (unsigned i = 0; i < FANOUT; i++)
			places |= 1u << order.place(i);
		if (order.count() == 0 || order.count() > FANOUT)
			return "a node has no entries, or too many";
		return places == (1u << FANOUT) - 1 ? nullptr : "a node has a place twice";
	}
	/* `low`: the node's keys are not smaller; NULL: there is no bound. */
	template <class Tx>
	const char *verify_below(Tx *tx, uint64_t word, const uint64_t *low, Found &found) const
	{
		const uint64_t *node = node_of(word);
		const Order order = order_of(tx, node);
		const char *wrong = verify_order(order);
		found.blocks++;
		for (unsigned i = 0; i < order.count() && !wrong; i++) {
			const uint64_t *at = key_at(node, order.place(i));
			if (!is_leaf(word)) {
				found.blocks += key_codec::blocks(tx, at);
				wrong = verify_below(
				        tx, child(tx, node, order, i), i ? at : low, found);
				continue;
			}
			auto key = key_codec::load(tx, at);
			if ((found.last && !more(tx, at, *found.last)) ||
			        (low && more(tx, low, key)))
				return "keys are out of order";
			found.last = std::move(key);
			found.entries++;
			found.blocks += key_codec::blocks(tx, at);
			wrong = detail::verify_value<V>(
			        tx, value_at(node, order.place(i)), found.blocks);
		}
		return wrong;
	}

	/* --------------------------------------------------------------- iteration */

	template <class Tx>
	class Iterator : public detail::base::Steps<Iterator<Tx>>
	{
	public:
		using iterator_category = std::bidirectional_iterator_tag;
		using value_type = ordered_map::value_type;
		using difference_type = ptrdiff_t;
		using pointer = detail::base::Arrow<value_type>;
		using reference = value_type;

		Iterator() = default;
		/* The end. */
		Iterator(Tx *tx, const ordered_map *map) : tx_(tx), map_(map) {}

		value_type operator*() const
		{
			return {key(), value_codec::load(tx_, value_words())};
		}
		pointer operator->() const
		{
			return {**this};
		}
		key_type key() const
		{
			return key_codec::load(tx_, key_words());
		}
		/* Where the entry lies, for codecs. */
		const uint64_t *key_words() const
		{
			return key_at(leaf_, order_.place(i_));
		}
		const uint64_t *value_words() const
		{
			return value_at(leaf_, order_.place(i_));
		}
		Iterator &operator++()
		{
			if (++i_ == order_.count())
				to_next_leaf();
			return *this;
		}
		Iterator &operator--()
		{
			if (!leaf_)
				to_edge(fur_load(tx_, &map_->root_), true);
			else if (i_ > 0)
				i_--;
			else
				to_leaf_before();
			return *this;
		}
		bool operator==(const Iterator &other) const
		{
			return leaf_ == other.leaf_ && (!leaf_ || i_ == other.i_);
		}

	private:
		friend ordered_map;
		friend View<Tx>;

		/* This entry is out of its leaf; the next one is in its place.  Nothing is loaded
		 * that the removal has stored: if the log is full, it has stored nothing, and a
		 * caller's loop must end all the same. */
		void entry_has_gone()
		{
			order_ = order_.removed(i_);
			if (i_ == order_.count())
				to_next_leaf();
		}
		/* So is the leaf, and take_out() has shortened the path, which had `levels`. */
		void leaf_has_gone(unsigned levels)
		{
			const unsigned l = path_.levels;
			leaf_ = nullptr;
			if (levels == 0 || path_.order[l].count() == 1)
				return; /* the map is empty */
			Order &order = path_.order[path_.levels++];
			order = order.removed(path_.index[l]);
			if (path_.index[l] == order.count()) {
				path_.index[l]--;
				to_next_leaf();
			} else {
				to_edge(child(tx_, path_.node[l], order, path_.index[l]), false);
			}
		}

		/* To the first or last entry below a node. */
		void to_edge(uint64_t at, bool last)
		{
			while (at && !is_leaf(at)) {
				uint64_t *inner = node_of(at);
				const Order order = order_of(tx_, inner);
				const unsigned i = last ? order.count() - 1 : 0;
				path_.add(inner, order, i);
				at = child(tx_, inner, order, i);
			}
			leaf_ = node_of(at);
			if (leaf_) {
				order_ = order_of(tx_, leaf_);
				i_ = last ? order_.count() - 1 : 0;
			}
		}
		void to_next_leaf()
		{
			unsigned &levels = path_.levels;
			while (levels &&
			        path_.index[levels - 1] + 1 == path_.order[levels - 1].count())
				levels--;
			leaf_ = nullptr;
			if (!levels)
				return;
			const unsigned l = levels - 1, i = ++path_.index[l];
			to_edge(child(tx_, path_.node[l], path_.order[l], i), false);
		}
		/* From the first entry: to the end. */
		void to_leaf_before()
		{
			unsigned &levels = path_.levels;
			while (levels && path_.index[levels - 1] == 0)
				levels--;
			leaf_ = nullptr;
			if (!levels)
				return;
			const unsigned l = levels - 1, i = --path_.index[l];
			to_edge(child(tx_, path_.node[l], path_.order[l], i), true);
		}
		/* To the first entry that is not before the key, as `before` says. */
		template <class Before>
		void seek(key_view key, Before before)
		{
			if (!key_codec::is_key(key))
				return;
			leaf_ = map_->descend(tx_, key, &path_);
			if (!leaf_)
				return;
			order_ = order_of(tx_, leaf_);
			i_ = first_not<false>(leaf_, order_, 0, before);
			if (i_ == order_.count())
				to_next_leaf();
		}
		/* To the last entry whose key is not larger. */
		void seek_last(key_view key)
		{
			if (!key_codec::is_key(key))
				return;
			leaf_ = map_->descend(tx_, key, &path_);
			if (!leaf_)
				return;
			order_ = order_of(tx_, leaf_);
			i_ = first_not<false>(
			        leaf_, order_, 0, [&](auto *at) { return !more(tx_, at, key); });
			if (i_ > 0)
				i_--;
			else
				to_leaf_before();
		}

		Tx *tx_ = nullptr;
		const ordered_map *map_ = nullptr;
		const uint64_t *leaf_ = nullptr; /* NULL: the end */
		Order order_{};
		unsigned i_ = 0;
		Path path_;
	};

	template <class Tx>
	class View
	{
	public:
		using iterator = Iterator<Tx>;
		using reverse_iterator = std::reverse_iterator<iterator>;

		View(Tx *tx, const ordered_map *map) : tx_(tx), map_(map) {}
		iterator begin() const
		{
			iterator it(tx_, map_);
			it.to_edge(fur_load(tx_, &map_->root_), false);
			return it;
		}
		iterator end() const
		{
			return {tx_, map_};
		}
		reverse_iterator rbegin() const
		{
			return reverse_iterator(end());
		}
		reverse_iterator rend() const
		{
			return reverse_iterator(begin());
		}
		iterator lower_bound(key_view key) const
		{
			iterator it(tx_, map_);
			it.seek(key, [&](auto *at) { return less(tx_, at, key); });
			return it;
		}
		iterator upper_bound(key_view key) const
		{
			iterator it(tx_, map_);
			it.seek(key, [&](auto *at) { return !more(tx_, at, key); });
			return it;
		}
		iterator floor(key_view key) const
		{
			iterator it(tx_, map_);
			it.seek_last(key);
			return it;
		}
		iterator find(key_view key) const
		{
			iterator it = lower_bound(key);
			return it.leaf_ && has(tx_, it.leaf_, it.order_, it.i_, key) ? it : end();
		}
		size_type size() const
		{
			return map_->size(tx_);
		}

	private:
		Tx *tx_;
		const ordered_map *map_;
	};

	uint64_t root_ = 0;
	detail::Sizes sizes_;
};

} // namespace fur

#endif /* FUR_ORDERED_MAP_HPP */
