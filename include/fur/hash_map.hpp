/* SPDX-License-Identifier: BSD-3-Clause
 *
 * hash_map.hpp - fur::hash_map<K, V>: a hash map in the heap, for trivially copyable keys and
 * values and fur::string.
 *
 *     struct Shop { fur::hash_map<fur::string, uint64_t> stock; };
 *     fur::update(self, [&](fur_update *tx) { shop->stock.insert_or_assign(tx, "nuts", 7); });
 *     fur::read(self, [&](fur_ro *tx) {
 *             for (auto [name, pieces] : shop->stock.in(tx))
 *                     std::cout << name << ' ' << pieces << '\n';
 *     });
 *
 * A map that is all zero is empty.  It grows a leaf at a time, so no insertion takes long.  It is
 * extendible hashing (Fagin et al., TODS 1979) in levels: a leaf has up to 8 entries; a leaf that
 * is full is split by the next bit of the hash.  The leaves hang in tables of 2 to 512 slots, which
 * are doubled when one of their leaves needs a further bit; below a full-grown table come others.
 *
 * Right under snapshot isolation too: every update that changes a leaf, or moves it, stores to the
 * leaf's word of tags; every one that changes a table stores to the table's first word, or promotes
 * it.  So two updates of which one relies on what the other changes write a common word.
 *
 * On the medium, in words of 8 bytes:
 *
 *     map      0 root: a leaf, or a table | its bits    1 the parts of the size (sizes.hpp), or 0
 *     table    0 a word to store to                     1.. slots, 2^bits: as the root
 *     leaf     0 tags: byte k is 0x80 | the hash's lowest 7 bits, or 0 if entry k is free
 *              1 the next leaf of the same 60 bits of hash, or 0 | the bits that the leaf has used
 *              2.. 8 keys; then 8 values
 *
 * Nodes are aligned to FUR_CACHE_LINE bytes, so addresses have room for the bits.
 */
#ifndef FUR_HASH_MAP_HPP
#define FUR_HASH_MAP_HPP

#include <fur/iterator.hpp>
#include <fur/map.hpp>
#include <fur/sizes.hpp>

#include <iterator>

namespace fur
{

/* TABLE_BITS: a table has up to 2^TABLE_BITS slots, 1 to 9 bits; a part of the format. */
template <class K, class V, unsigned TABLE_BITS = 9>
class hash_map : public detail::MapCalls<hash_map<K, V, TABLE_BITS>, K, V>
{
	static_assert(TABLE_BITS >= 1 && TABLE_BITS <= 9, "fur::hash_map: tables of 1 to 9 bits");
	using Calls = detail::MapCalls<hash_map, K, V>;
	friend Calls;
	using key_codec = stored<K>;
	using value_codec = stored<V>;
	template <class Tx>
	class Iterator;
	template <class Tx>
	class View;

public:
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
		const uint64_t *leaf = find_place(tx, 0).leaf;
		return leaf ? static_cast<size_type>(
		                      __builtin_popcountll(fur_load(tx, leaf) & EACH << 7))
		            : 0;
	}
	/* in - the map in a transaction, as a range of pairs, in no useful order.  It and its
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
		const uint64_t hash = key_codec::hash_of(key);
		const Entry e = find_entry(tx, hash, key);
		return e.leaf ? Iterator<Tx>(tx, this, hash, e.leaf, e.k) : Iterator<Tx>();
	}
	/* value_words - where the key's value lies, for codecs.   Returns: NULL: no such key. */
	template <class Tx>
	const uint64_t *value_words(Tx *tx, key_view key) const
	{
		const Entry e = find_entry(tx, key_codec::hash_of(key), key);
		return e.leaf ? value_at(static_cast<const uint64_t *>(e.leaf), e.k) : nullptr;
	}
	/* verify - check the structure of the whole map.  For tests: it takes as long as a walk.
	 * Returns: NULL, or what is wrong.  Sets `blocks` to the number of blocks that it owns. */
	template <class Tx>
	const char *verify(Tx *tx, uint64_t &blocks) const
	{
		Found found{sizes_.exist(tx), 0};
		if (const char *wrong = verify_below(tx, fur_load(tx, &root_), 0, 0, found))
			return wrong;
		blocks = found.blocks;
		return found.entries == size(tx) ? nullptr
		                                 : "the size is not the number of entries";
	}

	/* A place in the map that outlives transactions: see fur::scan() (map.hpp). */
	class cursor
	{
	public:
		bool done() const
		{
			return done_;
		}
		/* advance - call f(value_type) for the entries from here on, until it has been
		 * called `most` times and the leaf is at its end, and go there.  An entry that is
		 * in the map from the first call to the last is seen once. */
		template <class Tx, class F>
		void advance(Tx *tx, const hash_map &map, size_t most, F &&f)
		{
			Iterator<Tx> at(tx, &map, hash_);
			uint64_t leaf = hash_; /* the first hash of the leaf, or hash_ */
			for (const Iterator<Tx> end; at != end; ++at) {
				if (at.hash_ != leaf && most == 0) {
					hash_ = at.hash_;
					return;
				}
				leaf = at.hash_;
				const value_type entry = *at;
				/* A leaf may have got the entries of smaller hashes meanwhile. */
				if (key_codec::hash_of(entry.first) < hash_)
					continue;
				f(entry);
				most -= most > 0;
			}
			done_ = true;
		}

	private:
		uint64_t hash_ = 0;
		bool done_ = false;
	};

	/* clear - remove all entries.  The update frees a block for each 5 or 6 entries; if the map
	 * has so many that the log has no room for that, the commit fails with FUR_ETOOBIG: then
	 * remove the entries in several updates. */
	template <class Tx>
	void clear(Tx *tx)
	{
		detail::check_changes<Tx>();
		const uint64_t root = fur_load(tx, &root_);
		fur_store(tx, &root_, 0);
		free_below(tx, root, 0);
		sizes_.destroy(tx);
	}

private:
	enum : size_t {
		ENTRIES = 8,
		KEYS = 2,
		VALUES = KEYS + ENTRIES * key_codec::WORDS,
		LEAF_WORDS = VALUES + ENTRIES * value_codec::WORDS
	};
	enum : unsigned { FIRST_BITS = 1, MOST_BITS = TABLE_BITS, MOST_DEPTH = 60, HASH_BITS = 64 };
	/* The bits of an address that are not its own: the bits of a table, the depth of a leaf. */
	static constexpr uint64_t LOW = FUR_CACHE_LINE - 1, EACH = 0x0101010101010101;

	template <class Word>
	static Word *key_at(Word *leaf, size_t k)
	{
		return leaf + KEYS + k * key_codec::WORDS;
	}
	template <class Word>
	static Word *value_at(Word *leaf, size_t k)
	{
		return leaf + VALUES + k * value_codec::WORDS;
	}
	static uint64_t tag_of(uint64_t hash)
	{
		return (hash & 0x7f) | 0x80;
	}
	static bool used(uint64_t tags, size_t k)
	{
		return tags >> 8 * k & 0x80;
	}
	static uint64_t with_tag(uint64_t tags, size_t k, uint64_t tag)
	{
		return (tags & ~(UINT64_C(0xff) << 8 * k)) | tag << 8 * k;
	}
	/* The first free entry, or ENTRIES. */
	static size_t free_entry(uint64_t tags)
	{
		size_t k = 0;
		while (k < ENTRIES && used(tags, k))
			k++;
		return k;
	}
	static bool bit(uint64_t hash, unsigned n)
	{
		return hash >> (HASH_BITS - 1 - n) & 1;
	}
	template <class Tx>
	static uint64_t *next_leaf(Tx *tx, const uint64_t *leaf)
	{
		return detail::pointer<uint64_t>(fur_load(tx, &leaf[1]) & ~LOW);
	}
	template <class Tx>
	static unsigned depth_of(Tx *tx, const uint64_t *leaf)
	{
		return static_cast<unsigned>(fur_load(tx, &leaf[1]) & LOW);
	}

	/* ------------------------------------------------------------------ search */

	struct Table {
		uint64_t *words; /* NULL: the map itself, whose only slot is the root */
		unsigned used, bits;
	};
	/* Where a leaf hangs. */
	struct Place {
		Table table, above;
		uint64_t *slot,
		        *slot_above; /* the words that point to the leaf, and to the table */
		uint64_t *leaf;      /* NULL: the map is empty */
	};

	template <class Tx>
	Place find_place(Tx *tx, uint64_t hash) const
	{
		auto *root = const_cast<uint64_t *>(&root_);
		Place p{{nullptr, 0, 0}, {nullptr, 0, 0}, root, nullptr, nullptr};
		uint64_t word = fur_load(tx, root);
		while (const auto bits = static_cast<unsigned>(word & LOW)) {
			const unsigned used = p.table.used + p.table.bits;
			p.above = p.table;
			p.slot_above = p.slot;
			p.table = {detail::pointer<uint64_t>(word & ~LOW), used, bits};
			p.slot = p.table.words + 1 + (hash << used >> (HASH_BITS - bits));
			word = fur_load(tx, p.slot);
		}
		p.leaf = detail::pointer<uint64_t>(word);
		return p;
	}
	template <class Tx>
	static size_t find_in(Tx *tx, const uint64_t *leaf, uint64_t hash, key_view key)
	{
		/* The highest bits of bytes that are 0, and perhaps of bytes above those that are
		 * 1: their entries are in use too, and have other keys. */
		uint64_t same = fur_load(tx, leaf) ^ EACH * tag_of(hash);
		for (same = (same - EACH) & ~same & EACH << 7; same; same &= same - 1) {
			const auto k = static_cast<size_t>(__builtin_ctzll(same)) / 8;
			if (key_codec::equal(tx, key_at(leaf, k), key))
				return k;
		}
		return ENTRIES;
	}
	struct Entry {
		uint64_t *leaf; /* NULL: there is none */
		size_t k;
	};
	template <class Tx>
	static Entry find_from(Tx *tx, uint64_t *leaf, uint64_t hash, key_view key)
	{
		for (; leaf; leaf = next_leaf(tx, leaf))
			if (const size_t k = find_in(tx, leaf, hash, key); k < ENTRIES)
				return {leaf, k};
		return {nullptr, 0};
	}
	template <class Tx>
	Entry find_entry(Tx *tx, uint64_t hash, key_view key) const
	{
		return find_from(tx, find_place(tx, hash).leaf, hash, key);
	}
	/* For an update that relies on the entries of these leaves: a split stores to the tags, and
	 * so does every insertion and removal, to those of the first leaf or of a later one. */
	template <class Tx>
	static void hold(Tx *tx, uint64_t *first, uint64_t *leaf)
	{
		fur_promote(tx, first);
		if (leaf != first)
			fur_promote(tx, leaf);
	}

	template <class Tx>
	uint64_t *words_to_change(Tx *tx, key_view key)
	{
		const uint64_t hash = key_codec::hash_of(key);
		uint64_t *first = find_place(tx, hash).leaf;
		const Entry e = find_from(tx, first, hash, key);
		if (!e.leaf)
			return nullptr;
		hold(tx, first, e.leaf);
		return value_at(e.leaf, e.k);
	}

	/* ------------------------------------------------------------------ growth */

	template <class Tx>
	static uint64_t *new_leaf(Tx *tx, uint64_t next, unsigned depth)
	{
		uint64_t *leaf = detail::new_node(tx, LEAF_WORDS);
		fur_store(tx, &leaf[0], 0);
		fur_store(tx, &leaf[1], next | depth);
		return leaf;
	}
	/* The leaf has used all bits of its table.  Give it a table with more. */
	template <class Tx>
	static void add_bits(Tx *tx, const Place &p)
	{
		const bool doubles = p.table.words && p.table.bits < MOST_BITS;
		const unsigned bits = doubles ? p.table.bits + 1 : FIRST_BITS;
		uint64_t *table = detail::new_node(tx, 1 + (size_t(1) << bits));
		fur_store(tx, &table[0], 0);
		for (size_t k = 0; k < size_t(1) << bits; k++)
			fur_store(tx, &table[1 + k],
			        doubles ? fur_load(tx, &p.table.words[1 + k / 2])
			                : detail::word_of(p.leaf));
		uint64_t *changed = doubles ? p.above.words : p.table.words;
		if (changed)
			fur_promote(tx, changed);
		fur_store(tx, doubles ? p.slot_above : p.slot, detail::word_of(table) | bits);
		if (doubles) {
			/* We have copied the slots; an update that changes one promotes it too. */
			fur_promote(tx, p.table.words);
			fur_free(tx, p.table.words);
		}
	}
	/* Move the entries whose next bit is set to a new leaf, which takes half of the slots. */
	template <class Tx>
	static void split(Tx *tx, const Place &p, unsigned depth)
	{
		uint64_t *right = new_leaf(tx, 0, depth + 1);
		uint64_t stay = fur_load(tx, p.leaf), move = 0;
		for (size_t k = 0; k < ENTRIES; k++) {
			const auto key = key_codec::load(tx, key_at(p.leaf, k));
			if (!bit(key_codec::hash_of(key), depth))
				continue;
			detail::move_words(
			        tx, key_at(right, k), key_at(p.leaf, k), key_codec::WORDS);
			detail::move_words(
			        tx, value_at(right, k), value_at(p.leaf, k), value_codec::WORDS);
			move |= stay & UINT64_C(0xff) << 8 * k;
		}
		fur_store(tx, &right[0], move);
		fur_store(tx, &p.leaf[0], stay & ~move);
		fur_store(tx, &p.leaf[1], depth + 1);
		/* The leaf's slots are neighbours, and their number is a power of two. */
		const auto slots = size_t(1) << (p.table.used + p.table.bits - depth);
		uint64_t *first = p.table.words + 1;
		first += static_cast<size_t>(p.slot - first) & ~(slots - 1);
		fur_promote(tx, p.table.words);
		for (size_t k = slots / 2; k < slots; k++)
			fur_store(tx, &first[k], detail::word_of(right));
	}
	/* A leaf with a free entry for the hash, and that entry.  The key is not in the map. */
	template <class Tx>
	Entry make_room(Tx *tx, uint64_t hash)
	{
		for (;;) {
			const Place p = find_place(tx, hash);
			if (!p.leaf) {
				uint64_t *leaf = new_leaf(tx, 0, 0);
				fur_store(tx, &root_, detail::word_of(leaf));
				return {leaf, 0};
			}
			if (const size_t k = free_entry(fur_load(tx, p.leaf)); k < ENTRIES)
				return {p.leaf, k};
			const unsigned depth = depth_of(tx, p.leaf);
			if (depth == MOST_DEPTH)
				return room_behind(tx, p.leaf);
			if (!sizes_.exist(tx))
				sizes_.make(tx, ENTRIES);
			if (depth == p.table.used + p.table.bits)
				add_bits(tx, p);
			else
				split(tx, p, depth);
		}
	}
	/* The same behind a leaf that cannot be split: in a list of leaves. */
	template <class Tx>
	static Entry room_behind(Tx *tx, uint64_t *first)
	{
		fur_promote(tx, first);
		for (uint64_t *leaf = next_leaf(tx, first); leaf; leaf = next_leaf(tx, leaf))
			if (const size_t k = free_entry(fur_load(tx, leaf)); k < ENTRIES)
				return {leaf, k};
		uint64_t *leaf = new_leaf(tx, fur_load(tx, &first[1]) & ~LOW, MOST_DEPTH);
		fur_store(tx, &first[1], detail::word_of(leaf) | MOST_DEPTH);
		return {leaf, 0};
	}

	template <class Tx>
	std::pair<uint64_t *, bool> add(Tx *tx, key_view key, mapped_view value)
	{
		const uint64_t hash = key_codec::hash_of(key);
		uint64_t *first = find_place(tx, hash).leaf;
		if (const Entry e = find_from(tx, first, hash, key); e.leaf) {
			hold(tx, first, e.leaf);
			return {value_at(e.leaf, e.k), false};
		}
		const Entry e = make_room(tx, hash);
		key_codec::create(tx, key_at(e.leaf, e.k), key);
		value_codec::create(tx, value_at(e.leaf, e.k), value);
		fur_store(tx, e.leaf, with_tag(fur_load(tx, e.leaf), e.k, tag_of(hash)));
		sizes_.add(tx, hash >> 7, 1);
		return {value_at(e.leaf, e.k), true};
	}
	template <class Tx>
	bool remove(Tx *tx, key_view key)
	{
		const uint64_t hash = key_codec::hash_of(key);
		uint64_t *first = find_place(tx, hash).leaf;
		const Entry e = find_from(tx, first, hash, key);
		if (!e.leaf)
			return false;
		hold(tx, first, e.leaf);
		fur_store(tx, e.leaf, with_tag(fur_load(tx, e.leaf), e.k, 0));
		key_codec::destroy(tx, key_at(e.leaf, e.k));
		value_codec::destroy(tx, value_at(e.leaf, e.k));
		sizes_.add(tx, hash >> 7, -1);
		return true;
	}

	/* -------------------------------------------------------------------- clear */

	template <class Tx>
	static void free_leaf(Tx *tx, uint64_t *leaf)
	{
		const uint64_t tags = fur_load(tx, leaf);
		for (size_t k = 0; k < ENTRIES; k++) {
			if (!used(tags, k))
				continue;
			key_codec::destroy(tx, key_at(leaf, k));
			value_codec::destroy(tx, value_at(leaf, k));
		}
		fur_promote(tx, leaf);
		fur_free(tx, leaf);
	}
	/* Free all that hangs from a root or slot, after `depth` bits. */
	template <class Tx>
	static void free_below(Tx *tx, uint64_t word, unsigned depth)
	{
		const auto bits = static_cast<unsigned>(word & LOW);
		if (!bits) {
			for (auto *leaf = detail::pointer<uint64_t>(word); leaf;) {
				uint64_t *next = next_leaf(tx, leaf);
				free_leaf(tx, leaf);
				leaf = next;
			}
			return;
		}
		auto *table = detail::pointer<uint64_t>(word & ~LOW);
		for (size_t k = 0; k < size_t(1) << bits;) {
			const uint64_t below = fur_load(tx, &table[1 + k]);
			k += slots_of(tx, below, depth + bits);
			free_below(tx, below, depth + bits);
		}
		fur_promote(tx, table);
		fur_free(tx, table);
	}
	/* How many slots of a table that ends at `depth` bits point to the same? */
	template <class Tx>
	static size_t slots_of(Tx *tx, uint64_t below, unsigned depth)
	{
		return below & LOW ? 1
		                   : size_t(1) << (depth -
		                                   depth_of(tx, detail::pointer<uint64_t>(below)));
	}

	/* ------------------------------------------------------------------- verify */

	struct Found {
		uint64_t blocks, entries;
	};
	/* Entries of a leaf whose hashes begin with the `depth` bits of `prefix`. */
	template <class Tx>
	const char *verify_leaf(Tx *tx, const uint64_t *leaf, uint64_t prefix, Found &found) const
	{
		const uint64_t tags = fur_load(tx, leaf);
		const unsigned depth = depth_of(tx, leaf);
		found.blocks++;
		for (size_t k = 0; k < ENTRIES; k++) {
			if (!used(tags, k))
				continue;
			const auto key = key_codec::load(tx, key_at(leaf, k));
			const uint64_t hash = key_codec::hash_of(key);
			if ((tags >> 8 * k & 0xff) != tag_of(hash))
				return "an entry's tag is not that of its key";
			if (depth && (hash ^ prefix) >> (HASH_BITS - depth))
				return "an entry is in another leaf than its hash says";
			if (const Entry e = find_entry(tx, hash, key); e.leaf != leaf || e.k != k)
				return "a key is there twice, or is not found";
			found.entries++;
			found.blocks += key_codec::blocks(tx, key_at(leaf, k)) +
			                value_codec::blocks(tx, value_at(leaf, k));
		}
		return nullptr;
	}
	template <class Tx>
	const char *verify_below(
	        Tx *tx, uint64_t word, uint64_t prefix, unsigned depth, Found &found) const
	{
		const char *wrong = nullptr;
		const auto bits = static_cast<unsigned>(word & LOW);
		if (!bits) {
			const auto *leaf = detail::pointer<const uint64_t>(word);
			for (; leaf && !wrong; leaf = next_leaf(tx, leaf))
				wrong = verify_leaf(tx, leaf, prefix, found);
			return wrong;
		}
		const auto *table = detail::pointer<const uint64_t>(word & ~LOW);
		found.blocks++;
		for (size_t k = 0; k < size_t(1) << bits && !wrong;) {
			const uint64_t below = fur_load(tx, &table[1 + k]);
			const size_t slots = below ? slots_of(tx, below, depth + bits) : 0;
			if (slots == 0 || k % slots || k + slots > size_t(1) << bits)
				return "a leaf has the wrong slots";
			for (size_t n = 1; n < slots; n++)
				if (fur_load(tx, &table[1 + k + n]) != below)
					return "a leaf has too few slots";
			wrong = verify_below(tx, below,
			        prefix | uint64_t(k) << (HASH_BITS - depth - bits), depth + bits,
			        found);
			k += slots;
		}
		return wrong;
	}

	/* --------------------------------------------------------------- iteration */

	/* At an entry; `hash_` is in the range of its leaf. */
	template <class Tx>
	class Iterator : public detail::ForwardSteps<Iterator<Tx>>
	{
	public:
		using iterator_category = std::input_iterator_tag;
		using value_type = hash_map::value_type;
		using difference_type = ptrdiff_t;
		using pointer = detail::Arrow<value_type>;
		using reference = value_type;

		/* The end. */
		Iterator() = default;
		Iterator(Tx *tx, const hash_map *map, uint64_t hash, const uint64_t *leaf, size_t k)
		    : tx_(tx), map_(map), hash_(hash), leaf_(leaf), k_(k)
		{
		}
		/* The first entry of the leaf to which `hash` belongs, or of those behind it. */
		Iterator(Tx *tx, const hash_map *map, uint64_t hash)
		    : Iterator(tx, map, hash, map->find_place(tx, hash).leaf, 0)
		{
			settle();
		}
		value_type operator*() const
		{
			return {key_codec::load(tx_, key_words()),
			        value_codec::load(tx_, value_words())};
		}
		/* Where the entry lies, for codecs. */
		const uint64_t *key_words() const
		{
			return key_at(leaf_, k_);
		}
		const uint64_t *value_words() const
		{
			return value_at(leaf_, k_);
		}
		pointer operator->() const
		{
			return {**this};
		}
		Iterator &operator++()
		{
			k_++;
			settle();
			return *this;
		}
		bool operator==(const Iterator &other) const
		{
			return leaf_ == other.leaf_ && k_ == other.k_;
		}

	private:
		friend cursor;

		/* On to the first entry in use, from this one on. */
		void settle()
		{
			while (leaf_) {
				const uint64_t tags = fur_load(tx_, leaf_);
				for (; k_ < ENTRIES; k_++)
					if (used(tags, k_))
						return;
				k_ = 0;
				leaf_ = leaf_behind();
			}
		}
		const uint64_t *leaf_behind()
		{
			const unsigned depth = depth_of(tx_, leaf_);
			if (const uint64_t *next = next_leaf(tx_, leaf_))
				return next;
			const uint64_t range = depth ? UINT64_C(1) << (HASH_BITS - depth) : 0;
			hash_ = (hash_ & ~(range - 1)) + range;
			return range && hash_ ? map_->find_place(tx_, hash_).leaf : nullptr;
		}

		Tx *tx_ = nullptr;
		const hash_map *map_ = nullptr;
		uint64_t hash_ = 0;
		const uint64_t *leaf_ = nullptr; /* NULL: the end */
		size_t k_ = 0;
	};

	template <class Tx>
	class View
	{
	public:
		View(Tx *tx, const hash_map *map) : tx_(tx), map_(map) {}
		Iterator<Tx> begin() const
		{
			return {tx_, map_, 0};
		}
		Iterator<Tx> end() const
		{
			return {};
		}
		size_type size() const
		{
			return map_->size(tx_);
		}

	private:
		Tx *tx_;
		const hash_map *map_;
	};

	uint64_t root_ = 0;
	detail::Sizes sizes_;
};

} // namespace fur

#endif /* FUR_HASH_MAP_HPP */
