/* SPDX-License-Identifier: BSD-3-Clause
 *
 * hash_map.hpp - fur::hash_map<K, V>: a hash map in the heap.  docs/containers.md says which types
 * keys and values can have.
 *
 *     struct Shop { fur::hash_map<fur::string, uint64_t> stock; };
 *     fur::update(self, [&](fur_update *tx) { shop->stock.insert_or_assign(tx, "nuts", 7); });
 *     fur::read(self, [&](fur_ro *tx) {
 *             for (auto [name, pieces] : shop->stock.in(tx))
 *                     std::cout << name << ' ' << pieces << '\n';
 *     });
 *
 * A map that is all zero is empty.  It grows and shrinks a leaf at a time, so no change takes long.
 * It is extendible hashing (Fagin et al., TODS 1979) in levels: a leaf has up to 8 entries; a leaf
 * that is full is split by the next bit of the hash.  The leaves hang in tables of 2 to 512 slots,
 * which are doubled when one of their leaves needs a further bit; below a full-grown table come
 * others.  If the log is too small for a table that is twice as large, others come below a smaller
 * one.
 *
 * Backwards: the two leaves of a split are joined when they have 4 entries at most, so a key that
 * comes and goes does not split and join leaves each time.  A table with one leaf gives its place
 * to the leaf, and one of which a quarter would do is halved.
 *
 * Keys whose hashes agree in 8 further bits, all 9 that do not fit a leaf, were chosen to do so, or
 * their fur::hash is weak: chance would take 2^64 leaves.  They go to a bucket, which stands where
 * the leaf was: a tree of its own, ordered by another hash of the keys, with a random secret.
 * There, keys that agree are equal in the hash of the program; they make a list of leaves.
 *
 * Right under snapshot isolation too: every update that changes a leaf, or moves it, stores to the
 * leaf's word of tags; every one that changes a table stores to the table's first word, or promotes
 * it.  So two updates of which one relies on what the other changes write a common word.
 *
 * On the medium, in words of 8 bytes:
 *
 *     map      0 root: a leaf, a table | its bits, or a bucket | 63
 *              1 the parts of the size (sizes.hpp), or 0
 *     table    0 a word to store to                     1.. slots, 2^bits: as the root
 *     leaf     0 tags: byte k is 0x80 | the hash's lowest 7 bits, or 0 if entry k is free
 *              1 the next leaf of a list, or 0 | the bits that the leaf has used; in a bucket, 64
 *                more if it is a list.  A leaf that has used 60 bits is also a list
 *              2.. 8 keys; then 8 values
 *     bucket   0 the bits that it has used              1 all bits 1
 *              2, 3 the secret                          4 root: a leaf, or a table | its bits
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
class hash_map : public detail::base::MapCalls<hash_map<K, V, TABLE_BITS>, K, V>
{
	static_assert(TABLE_BITS >= 1 && TABLE_BITS <= 9, "fur::hash_map: tables of 1 to 9 bits");
	using Calls = detail::base::MapCalls<hash_map, K, V>;
	friend Calls;
	using key_codec = stored<K>;
	using value_codec = stored<V>;
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
		const uint64_t *leaf = detail::pointer<const uint64_t>(fur_load(tx, &root_));
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
		const Place p = find_place(tx, hash, key);
		const Entry e = find_at(tx, p, key);
		return e.leaf ? Iterator<Tx>(tx, this, hash, p, e) : Iterator<Tx>();
	}
	/* value_words - where the key's value lies, for codecs.   Returns: NULL: no such key. */
	template <class Tx>
	const uint64_t *value_words(Tx *tx, key_view key) const
	{
		const Entry e = find_entry(tx, key_codec::hash_of(key), key);
		return e.leaf ? value_at(static_cast<const uint64_t *>(e.leaf), e.k) : nullptr;
	}
	/* scan - a walk in parts, from one process to the next if need be, as SCAN of Redis: call
	 * f(value_type) for the entries from place `from` on, until it has been called `most` times
	 * and the leaf, or the bucket, is at its end.
	 * Returns: the place to go on from; 0: the walk is complete.  The first call gets 0.
	 * An entry that is in the map from the first call to the last is passed on once or more
	 * often: again if leaves are joined between two calls.  One that is added or removed
	 * meanwhile may be passed on or not.  Places have the same meaning in each process that
	 * opens the heap; any number may be passed.  A bucket comes as a whole, however large it is
	 * (docs/containers.md, "Keys that strangers choose"). */
	template <class Tx, class F>
	uint64_t scan(Tx *tx, uint64_t from, size_t most, F &&f) const
	{
		Iterator<Tx> at = begin_at(tx, from);
		uint64_t hash = at.hash_;
		for (const Iterator<Tx> end; at != end; ++at) {
			if (at.hash_ != hash && most == 0)
				return at.hash_;
			hash = at.hash_;
			detail::Pass::to(tx, f, *at);
			most -= most > 0;
		}
		return 0;
	}
	/* begin_at - for fur_map.h: an iterator to the first entry from a place of scan() on. */
	template <class Tx>
	Iterator<Tx> begin_at(Tx *tx, uint64_t place) const
	{
		return {tx, this, place, [](const uint64_t *) { return UINT64_C(0); }};
	}
	/* verify - check the structure of the whole map.  For tests: it takes as long as a walk.
	 * Returns: NULL, or what is wrong.  Sets `blocks` to the number of blocks that it owns. */
	template <class Tx>
	const char *verify(Tx *tx, uint64_t &blocks) const
	{
		Found found{sizes_.exist(tx), 0};
		const Part all{nullptr, 0, 0};
		const uint64_t root = fur_load(tx, &root_);
		if (const char *wrong = root ? verify_below(tx, root, all, found) : nullptr)
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
			Iterator<Tx> at(tx, &map, hash_, [&](const uint64_t *bucket) {
				return knows(tx, bucket) ? inner_ : 0;
			});
			uint64_t hash = hash_, inner = at.inner_;
			for (const Iterator<Tx> end; at != end; ++at) {
				const bool leaves = at.hash_ != hash || at.inner_ != inner;
				if (leaves && most == 0 && stop(tx, at))
					return;
				hash = at.hash_;
				inner = at.inner_;
				const value_type entry = *at;
				if (seen(entry.first))
					continue;
				f(entry);
				most -= most > 0;
			}
			done_ = true;
		}

	private:
		/* Is it the bucket in which we have stopped? */
		template <class Tx>
		bool knows(Tx *tx, const uint64_t *bucket) const
		{
			return inner_ && fur_load(tx, &bucket[SECRET]) == secret_[0] &&
			       fur_load(tx, &bucket[SECRET + 1]) == secret_[1];
		}
		bool in_bucket(uint64_t hash) const
		{
			return inner_ && begins_with(hash, hash_, depth_);
		}
		/* A leaf may have got the entries of smaller hashes meanwhile, and those of a
		 * bucket. */
		bool seen(key_view key) const
		{
			const uint64_t hash = key_codec::hash_of(key);
			return hash < hash_ || (in_bucket(hash) && key_codec::secret_hash_of(
			                                                   secret_, key) < inner_);
		}
		/* Stop here, if the place can be found again. */
		template <class Tx>
		bool stop(Tx *tx, const Iterator<Tx> &at)
		{
			const bool ours = in_bucket(at.hash_);
			if (at.inner_) {
				if (ours && !knows(tx, at.bucket_))
					return false;
				inner_ = at.inner_;
				depth_ = static_cast<unsigned>(fur_load(tx, &at.bucket_[0]));
				secret_[0] = fur_load(tx, &at.bucket_[SECRET]);
				secret_[1] = fur_load(tx, &at.bucket_[SECRET + 1]);
			} else if (!ours) {
				inner_ = 0;
			}
			hash_ = at.hash_;
			return true;
		}

		uint64_t hash_ = 0;
		/* If inner_ is not 0: we have stopped in a bucket that has used depth_ bits of
		 * hash_, at this hash with its secret. */
		uint64_t inner_ = 0, secret_[2] = {0, 0};
		unsigned depth_ = 0;
		bool done_ = false;
	};

	using Calls::erase;
	/* erase - remove the entry of an iterator.   Returns: an iterator to the next one.  Other
	 * iterators are not valid any more.  Leaves are joined behind this one only, so a loop
	 * meets each entry once. */
	template <class Tx, class It, class = detail::if_same<It, Iterator<Tx>>>
	It erase(Tx *tx, It at)
	{
		detail::check_changes<Tx>();
		const Iterator<Tx> before = at;
		const Place p = at.place();
		const Entry e{const_cast<uint64_t *>(at.leaf_), at.k_};
		hold(tx, p.leaf, e.leaf);
		take_out(tx, e);
		sizes_.add(tx, detail::word_of(e.leaf) / FUR_CACHE_LINE, -1);
		++at;
		if (is_list(tx, p.leaf) && !shorten(tx, p, e.leaf))
			return at;
		tidy(tx, before, at);
		return at;
	}
	/* clear - remove all entries.  The update frees a block for each 5 or 6 entries, and those
	 * of the entries.  If the log has no room for that, it fails with FUR_ETOOBIG: then call
	 * fur::clear() (map.hpp), which takes several updates. */
	template <class Tx>
	void clear(Tx *tx)
	{
		detail::check_changes<Tx>();
		const uint64_t root = fur_load(tx, &root_);
		fur_store(tx, &root_, 0);
		if (root)
			free_below(tx, root, 0);
		sizes_.destroy(tx);
	}
	/* clear_some - a part of clear(): remove entries and free leaves, `most` of both, or fewer
	 * if a quarter of the log is full.  The map is whole in between; calls in several updates
	 * empty it with any log, whatever else its threads do.
	 * Returns: whether there is more to do. */
	template <class Tx>
	bool clear_some(Tx *tx, size_type most)
	{
		detail::check_changes<Tx>();
		Spot spot{0, 0, 0, most, false};
		bool more = true;
		do
			more = clear_step(tx, spot);
		while (more && !spot.waits && most-- > 1 && detail::room_for_a_step(tx));
		if (spot.removed)
			sizes_.add(tx, 0, -spot.removed);
		if (!more) {
			fur_store(tx, &root_, 0);
			sizes_.destroy(tx);
		}
		return more;
	}

private:
	enum : size_t {
		ENTRIES = 8,
		KEYS = 2,
		VALUES = KEYS + ENTRIES * key_codec::WORDS,
		LEAF_WORDS = VALUES + ENTRIES * value_codec::WORDS
	};
	/* Searches of many keys ask for a leaf as a whole, or without its values. */
	static constexpr bool IS_SMALL = 8 * LEAF_WORDS <= detail::PREFETCH_MOST / 2;
	/* Of a bucket. */
	enum : size_t { DEPTH = 0, TRAP = 1, SECRET = 2, ROOT = 4, BUCKET_WORDS = 5 };
	/* FEW: a leaf with at most this many entries has room for those of another.
	 * ALIKE: this many further bits that agree are no coincidence. */
	enum : unsigned {
		MOST_BITS = TABLE_BITS,
		MOST_DEPTH = 60,
		HASH_BITS = 64,
		FEW = 4,
		ALIKE = 8
	};
	/* The bits of an address that are not its own: the bits of a table, the depth of a leaf. */
	static constexpr uint64_t LOW = FUR_CACHE_LINE - 1, EACH = 0x0101010101010101;
	/* In their place: the word is that of a bucket; the leaf is a list. */
	static constexpr uint64_t BUCKET = 63, LIST = 64;

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
		return static_cast<unsigned>(fur_load(tx, &leaf[1]) & LOW & ~LIST);
	}
	template <class Tx>
	static bool is_list(Tx *tx, const uint64_t *leaf)
	{
		const uint64_t word = fur_load(tx, &leaf[1]);
		return word & LIST || word > LOW;
	}
	template <class Tx>
	static unsigned entries_of(Tx *tx, const uint64_t *leaf)
	{
		return static_cast<unsigned>(__builtin_popcountll(fur_load(tx, leaf) & EACH << 7));
	}
	static bool is_bucket(uint64_t word)
	{
		return (word & LOW) == BUCKET;
	}
	static bool is_leaf(uint64_t word)
	{
		return !(word & LOW);
	}
	static bool begins_with(uint64_t hash, uint64_t prefix, unsigned depth)
	{
		return depth == 0 || (hash ^ prefix) >> (HASH_BITS - depth) == 0;
	}
	/* The hash of a key in the map (NULL), or in a bucket. */
	template <class Tx>
	static uint64_t hash_in(Tx *tx, const uint64_t *bucket, key_view key)
	{
		if (!bucket)
			return key_codec::hash_of(key);
		const uint64_t secret[] = {
		        fur_load(tx, &bucket[SECRET]), fur_load(tx, &bucket[SECRET + 1])};
		return key_codec::secret_hash_of(secret, key);
	}
	template <class Tx>
	static uint64_t hash_of_entry(
	        Tx *tx, const uint64_t *bucket, const uint64_t *leaf, size_t k)
	{
		return hash_in(tx, bucket, key_codec::load(tx, key_at(leaf, k)));
	}

	/* ------------------------------------------------------------------ search */

	struct Table {
		uint64_t *words; /* NULL: the map itself, whose only slot is the root */
		unsigned used, bits;
	};
	/* Where a leaf or a bucket hangs. */
	struct Place {
		Table table, above;
		uint64_t *slot, *slot_above; /* the words that point to it, and to the table */
		uint64_t hash;               /* which leads there */
		uint64_t *leaf;              /* NULL: the map is empty; or it is a bucket */
		uint64_t *bucket;            /* in which the leaf is; NULL: in none */
	};

	/* From a root to a leaf or a bucket. */
	template <class Tx>
	static Place descend(Tx *tx, uint64_t *root, uint64_t hash, uint64_t &word)
	{
		Place p{{nullptr, 0, 0}, {nullptr, 0, 0}, root, nullptr, hash, nullptr, nullptr};
		word = fur_load(tx, root);
		while (const auto bits = static_cast<unsigned>(word & LOW)) {
			if (bits == BUCKET)
				return p;
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
	/* To a leaf.  inner(bucket): the hash in the bucket, if there is one. */
	template <class Tx, class Inner>
	Place find_leaf(Tx *tx, uint64_t hash, Inner inner) const
	{
		uint64_t word;
		const Place p = descend(tx, const_cast<uint64_t *>(&root_), hash, word);
		return p.leaf || !word ? p : leaf_in(tx, word, inner);
	}
	template <class Tx, class Inner>
	[[gnu::noinline]] static Place leaf_in(Tx *tx, uint64_t word, Inner inner)
	{
		auto *bucket = detail::pointer<uint64_t>(word & ~LOW);
		Place p = descend(tx, &bucket[ROOT], inner(bucket), word);
		p.bucket = bucket;
		return p;
	}
	template <class Tx>
	Place find_place(Tx *tx, uint64_t hash, key_view key) const
	{
		return find_leaf(
		        tx, hash, [&](const uint64_t *bucket) { return hash_in(tx, bucket, key); });
	}
	/* The entries with this hash's tag, as bits: the highest one of each entry's byte. */
	static uint64_t candidates(uint64_t tags, uint64_t hash)
	{
		/* The highest bits of bytes that are 0, and perhaps of bytes above those that are
		 * 1: their entries are in use too, and have other keys. */
		const uint64_t differ = tags ^ EACH * tag_of(hash);
		return (differ - EACH) & ~differ & EACH << 7;
	}
	static size_t first_of(uint64_t candidates)
	{
		return static_cast<size_t>(__builtin_ctzll(candidates)) / 8;
	}
	template <class Tx>
	static size_t find_in(Tx *tx, const uint64_t *leaf, uint64_t hash, key_view key)
	{
		for (uint64_t same = candidates(fur_load(tx, leaf), hash); same; same &= same - 1) {
			const size_t k = first_of(same);
			if (key_codec::equal(tx, key_at(leaf, k), key))
				return k;
		}
		return ENTRIES;
	}
	struct Entry {
		uint64_t *leaf; /* NULL: there is none */
		size_t k;
	};
	/* In a leaf, and in those that follow it in a list. */
	template <class Tx>
	static Entry find_in_list(Tx *tx, uint64_t *leaf, uint64_t hash, key_view key)
	{
		for (; leaf; leaf = next_leaf(tx, leaf))
			if (const size_t k = find_in(tx, leaf, hash, key); k < ENTRIES)
				return {leaf, k};
		return {nullptr, 0};
	}
	template <class Tx>
	static Entry find_at(Tx *tx, const Place &p, key_view key)
	{
		return find_in_list(tx, p.leaf, p.hash, key);
	}
	/* What searches need of a Place, small enough for registers.  A Place is stored and copied;
	 * the copy would wait for the stores of the update before, a tenth of a put. */
	struct Leaf {
		uint64_t *first; /* NULL: the map is empty */
		uint64_t hash;   /* which leads there */
	};
	template <class Tx>
	static Leaf leaf_below(Tx *tx, const uint64_t *root, uint64_t hash, key_view key)
	{
		uint64_t word = fur_load(tx, root), rest = hash;
		while (const auto bits = static_cast<unsigned>(word & LOW)) {
			const auto *node = detail::pointer<const uint64_t>(word & ~LOW);
			if (bits == BUCKET)
				return leaf_in_bucket(tx, node, key);
			word = fur_load(tx, node + 1 + (rest >> (HASH_BITS - bits)));
			rest <<= bits;
		}
		return {detail::pointer<uint64_t>(word), hash};
	}
	template <class Tx>
	[[gnu::noinline]] static Leaf leaf_in_bucket(Tx *tx, const uint64_t *bucket, key_view key)
	{
		return leaf_below(tx, &bucket[ROOT], hash_in(tx, bucket, key), key);
	}
	template <class Tx>
	Leaf find_first(Tx *tx, uint64_t hash, key_view key) const
	{
		return leaf_below(tx, &root_, hash, key);
	}
	template <class Tx>
	Entry find_entry(Tx *tx, uint64_t hash, key_view key) const
	{
		const Leaf leaf = find_first(tx, hash, key);
		return find_in_list(tx, leaf.first, leaf.hash, key);
	}
	/* Where one of many searches is. */
	struct Seeker {
		uint64_t hash;
		uint64_t *at;  /* a slot; then a leaf, NULL if the map is empty */
		unsigned used; /* bits of the hash; AT_LEAF, AT_BUCKET: below the tables */
	};
	enum : unsigned { AT_LEAF = HASH_BITS, AT_BUCKET };

	/* Into the table or the leaf of a slot. */
	template <class Tx>
	static void enter(Tx *tx, Seeker &seeker, uint64_t word)
	{
		const auto bits = static_cast<unsigned>(word & LOW);
		seeker.at = detail::pointer<uint64_t>(word & ~LOW);
		if (bits == BUCKET) { /* rare */
			seeker.used = AT_BUCKET;
		} else if (bits == 0) {
			seeker.used = AT_LEAF;
			detail::prefetch(tx, seeker.at, IS_SMALL ? +LEAF_WORDS : +VALUES);
		} else {
			seeker.at += 1 + (seeker.hash << seeker.used >> (HASH_BITS - bits));
			seeker.used += bits;
			detail::prefetch(tx, seeker.at, 1);
		}
	}
	/* find_group - see MapCalls.  Slot by slot. */
	template <class Tx, class KeyOf>
	void find_group(Tx *tx, size_t n, KeyOf key_of, const uint64_t **words) const
	{
		Seeker all[detail::GROUP];
		const uint64_t root = fur_load(tx, &root_);
		for (size_t i = 0; i < n; i++) {
			all[i] = {key_codec::hash_of(key_of(i)), nullptr, 0};
			enter(tx, all[i], root);
		}
		for (bool goes_on = true; goes_on;) {
			goes_on = false;
			for (size_t i = 0; i < n; i++)
				if (all[i].used < AT_LEAF) {
					enter(tx, all[i], fur_load(tx, all[i].at));
					goes_on = true;
				}
		}
		if constexpr (detail::has_prefetch<key_codec>::value)
			for (size_t i = 0; i < n; i++)
				ask_for_key(tx, all[i]);
		for (size_t i = 0; i < n; i++)
			words[i] = find_below(tx, all[i], key_of(i));
	}
	/* For the block of the leaf's first key that has the hash's tag. */
	template <class Tx>
	static void ask_for_key(Tx *tx, const Seeker &seeker)
	{
		if (!seeker.at || seeker.used == AT_BUCKET)
			return;
		if (const uint64_t same = candidates(fur_load(tx, seeker.at), seeker.hash))
			key_codec::prefetch(tx, key_at(seeker.at, first_of(same)));
	}
	template <class Tx>
	const uint64_t *find_below(Tx *tx, const Seeker &seeker, key_view key) const
	{
		if (seeker.used == AT_BUCKET)
			return value_words(tx, key);
		const Entry e = find_in_list(tx, seeker.at, seeker.hash, key);
		return e.leaf ? value_at(e.leaf, e.k) : nullptr;
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
		const Leaf leaf = find_first(tx, key_codec::hash_of(key), key);
		const Entry e = find_in_list(tx, leaf.first, leaf.hash, key);
		if (!e.leaf)
			return nullptr;
		hold(tx, leaf.first, e.leaf);
		return value_at(e.leaf, e.k);
	}

	/* ------------------------------------------------------------------ growth */

	template <class Tx>
	static uint64_t *new_leaf(Tx *tx, uint64_t next, uint64_t low)
	{
		uint64_t *leaf = detail::new_node(tx, LEAF_WORDS);
		fur_store(tx, &leaf[0], 0);
		fur_store(tx, &leaf[1], next | low);
		return leaf;
	}
	/* Words in a row, many in an entry of the log.  word_at(k): the k-th. */
	template <class Tx, class WordAt>
	static void store_row(Tx *tx, uint64_t *to, size_t n, WordAt word_at)
	{
		enum : size_t { PART = 64 };
		uint64_t part[PART];
		for (size_t at = 0; at < n; at += PART) {
			const size_t words = n - at < PART ? n - at : +PART;
			for (size_t k = 0; k < words; k++)
				part[k] = word_at(at + k);
			detail::store_words(tx, to + at, part, words);
		}
	}
	template <class Tx, class SlotAt>
	static uint64_t *new_table(Tx *tx, unsigned bits, SlotAt slot_at)
	{
		const size_t slots = size_t(1) << bits;
		uint64_t *table = detail::new_node(tx, 1 + slots);
		fur_store(tx, &table[0], 0);
		store_row(tx, table + 1, slots, slot_at);
		return table;
	}
	static constexpr uint64_t table_bytes(unsigned bits)
	{
		return 8 * (1 + (UINT64_C(1) << bits));
	}
	/* Of the table to which the word points: store it, and hold the table in which it lies. */
	template <class Tx>
	static void store_above(Tx *tx, const Table &above, uint64_t *slot, uint64_t word)
	{
		if (above.words)
			fur_promote(tx, above.words);
		fur_store(tx, slot, word);
	}
	/* We have copied the slots; an update that changes one promotes the table too. */
	template <class Tx>
	static void free_table(Tx *tx, uint64_t *table)
	{
		fur_promote(tx, table);
		fur_free(tx, table);
	}
	/* The most bits of a table that an update can make with this log. */
	template <class Tx>
	static unsigned most_bits(Tx *tx)
	{
		using detail::log_left; /* or that of the transaction's own type */
		uint64_t all;
		(void)log_left(tx, &all);
		unsigned bits = MOST_BITS;
		while (bits > 1 && table_bytes(bits) > all / 4 * 3)
			bits--;
		return bits;
	}
	/* A table that has others below it is not doubled: it would have them twice. */
	template <class Tx>
	static bool has_tables(Tx *tx, const Table &table)
	{
		for (size_t k = 0; k < size_t(1) << table.bits; k++) {
			const uint64_t below = fur_load(tx, &table.words[1 + k]);
			if (!is_leaf(below) && !is_bucket(below))
				return true;
		}
		return false;
	}
	/* The leaf has used all bits of its table.  Give it a table with `more`. */
	template <class Tx>
	static void add_bits(Tx *tx, const Place &p, unsigned more)
	{
		const unsigned most = most_bits(tx);
		const bool doubles =
		        p.table.words && p.table.bits < most && !has_tables(tx, p.table);
		const unsigned old = doubles ? p.table.bits : 0,
		               bits = old + more < most ? old + more : most;
		uint64_t *table = new_table(tx, bits, [&](size_t k) {
			return doubles ? fur_load(tx, &p.table.words[1 + (k >> (bits - old))])
			               : detail::word_of(p.leaf);
		});
		if (doubles) {
			store_above(tx, p.above, p.slot_above, detail::word_of(table) | bits);
			free_table(tx, p.table.words);
		} else {
			store_above(tx, p.table, p.slot, detail::word_of(table) | bits);
		}
	}
	/* The slots of a leaf or a bucket: neighbours, and their number is a power of two. */
	struct Slots {
		uint64_t *first;
		size_t n;
	};
	static Slots slots_at(const Place &p, unsigned depth)
	{
		if (!p.table.words)
			return {p.slot, 1};
		const auto n = size_t(1) << (p.table.used + p.table.bits - depth);
		uint64_t *all = p.table.words + 1;
		return {all + (static_cast<size_t>(p.slot - all) & ~(n - 1)), n};
	}
	template <class Tx>
	static void store_slots(Tx *tx, const Place &p, const Slots &slots, uint64_t word)
	{
		if (p.table.words)
			fur_promote(tx, p.table.words);
		store_row(tx, slots.first, slots.n, [=](size_t) { return word; });
	}
	struct Hashes {
		uint64_t of[ENTRIES];
	};
	/* Move the entries whose next bit is set to a new leaf, which takes half of the slots. */
	template <class Tx>
	static void split(Tx *tx, const Place &p, unsigned depth, const Hashes &hashes)
	{
		uint64_t *right = new_leaf(tx, 0, depth + 1);
		uint64_t stay = fur_load(tx, p.leaf), move = 0;
		for (size_t k = 0; k < ENTRIES; k++) {
			if (!bit(hashes.of[k], depth))
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
		const Slots slots = slots_at(p, depth);
		store_slots(
		        tx, p, {slots.first + slots.n / 2, slots.n / 2}, detail::word_of(right));
	}
	/* Of the tags of a leaf with these hashes. */
	static uint64_t with_tags_of(uint64_t tags, const Hashes &hashes)
	{
		for (size_t k = 0; k < ENTRIES; k++)
			if (used(tags, k))
				tags = with_tag(tags, k, tag_of(hashes.of[k]));
		return tags;
	}
	template <class Tx>
	static Hashes hashes_in(Tx *tx, const uint64_t *bucket, const uint64_t *leaf)
	{
		const uint64_t tags = fur_load(tx, leaf);
		Hashes hashes;
		for (size_t k = 0; k < ENTRIES; k++)
			hashes.of[k] = used(tags, k) ? hash_of_entry(tx, bucket, leaf, k) : 0;
		return hashes;
	}
	/* The leaf becomes the root of a bucket. */
	template <class Tx>
	static void make_bucket(Tx *tx, const Place &p, unsigned depth)
	{
		uint64_t *bucket = detail::new_node(tx, BUCKET_WORDS);
		uint64_t words[BUCKET_WORDS];
		words[DEPTH] = depth;
		/* Libraries that know no buckets take this one for a table of 2^63 slots, of which
		 * this is the first, and end here with SIGSEGV, before they lose entries. */
		words[TRAP] = UINT64_MAX;
		detail::make_secret(&words[SECRET]);
		words[ROOT] = detail::word_of(p.leaf);
		detail::store_words(tx, bucket, words, BUCKET_WORDS);
		const Hashes hashes = hashes_in(tx, bucket, p.leaf);
		fur_store(tx, p.leaf, with_tags_of(fur_load(tx, p.leaf), hashes));
		fur_store(tx, &p.leaf[1], 0);
		store_slots(tx, p, slots_at(p, depth), detail::word_of(bucket) | BUCKET);
	}
	/* In how many bits behind the first `depth` ones do all agree? */
	static unsigned alike(const Hashes &hashes, uint64_t hash, unsigned depth)
	{
		uint64_t differ = 0;
		for (uint64_t other : hashes.of)
			differ |= hash ^ other;
		differ <<= depth;
		return differ ? static_cast<unsigned>(__builtin_clzll(differ)) : HASH_BITS - depth;
	}
	/* The leaf is full, and no list. */
	template <class Tx>
	[[gnu::noinline]] static void grow(Tx *tx, const Place &p)
	{
		const unsigned depth = depth_of(tx, p.leaf);
		const Hashes hashes = hashes_in(tx, p.bucket, p.leaf);
		const unsigned same = alike(hashes, p.hash, depth);
		if (same >= ALIKE || depth + same >= MOST_DEPTH) {
			if (p.bucket)
				fur_store(tx, &p.leaf[1], depth | LIST);
			else
				make_bucket(tx, p, depth);
		} else if (depth == p.table.used + p.table.bits) {
			add_bits(tx, p, same + 1);
		} else {
			split(tx, p, depth, hashes);
		}
	}
	/* A leaf with a free entry for the key, which is not in the map, and that entry.  `hash`:
	 * the key's, where the leaf is. */
	template <class Tx>
	Entry make_room(Tx *tx, key_view key, uint64_t &hash)
	{
		const uint64_t outer = hash;
		for (;;) {
			const Place p = find_place(tx, outer, key);
			hash = p.hash;
			if (!p.leaf) {
				uint64_t *leaf = new_leaf(tx, 0, 0);
				fur_store(tx, p.slot, detail::word_of(leaf));
				return {leaf, 0};
			}
			if (const size_t k = free_entry(fur_load(tx, p.leaf)); k < ENTRIES)
				return {p.leaf, k};
			if (is_list(tx, p.leaf))
				return room_behind(tx, p.leaf);
			if (!sizes_.exist(tx))
				sizes_.make(tx, ENTRIES);
			grow(tx, p);
		}
	}
	/* The same behind the first leaf of a list. */
	template <class Tx>
	static Entry room_behind(Tx *tx, uint64_t *first)
	{
		fur_promote(tx, first);
		for (uint64_t *leaf = next_leaf(tx, first); leaf; leaf = next_leaf(tx, leaf))
			if (const size_t k = free_entry(fur_load(tx, leaf)); k < ENTRIES)
				return {leaf, k};
		const uint64_t word = fur_load(tx, &first[1]);
		uint64_t *leaf = new_leaf(tx, word & ~LOW, word & LOW);
		fur_store(tx, &first[1], detail::word_of(leaf) | (word & LOW));
		return {leaf, 0};
	}

	template <class Tx>
	std::pair<uint64_t *, bool> add(Tx *tx, key_view key, mapped_view value)
	{
		key_codec::check_key(key);
		const uint64_t outer = key_codec::hash_of(key);
		const Leaf leaf = find_first(tx, outer, key);
		if (const Entry e = find_in_list(tx, leaf.first, leaf.hash, key); e.leaf) {
			hold(tx, leaf.first, e.leaf);
			return {value_at(e.leaf, e.k), false};
		}
		uint64_t hash = outer;
		const Entry e = make_room(tx, key, hash);
		key_codec::create(tx, key_at(e.leaf, e.k), key);
		value_codec::create(tx, value_at(e.leaf, e.k), value);
		fur_store(tx, e.leaf, with_tag(fur_load(tx, e.leaf), e.k, tag_of(hash)));
		sizes_.add(tx, outer >> 7, 1);
		return {value_at(e.leaf, e.k), true};
	}

	/* ----------------------------------------------------------------- removal */

	template <class Tx>
	static void take_out(Tx *tx, const Entry &e)
	{
		fur_store(tx, e.leaf, with_tag(fur_load(tx, e.leaf), e.k, 0));
		key_codec::destroy(tx, key_at(e.leaf, e.k));
		value_codec::destroy(tx, value_at(e.leaf, e.k));
	}
	template <class Tx>
	bool remove(Tx *tx, key_view key)
	{
		const uint64_t hash = key_codec::hash_of(key);
		const Place p = find_place(tx, hash, key);
		const Entry e = find_at(tx, p, key);
		if (!e.leaf)
			return false;
		hold(tx, p.leaf, e.leaf);
		/* From here on not the key, which may be a view of what we free. */
		take_out(tx, e);
		sizes_.add(tx, hash >> 7, -1);
		if (is_list(tx, p.leaf) && !shorten(tx, p, e.leaf))
			return true;
		const unsigned left = entries_of(tx, e.leaf);
		if (left == 0 || left == FEW / 2)
			shrink(tx, hash, p);
		return true;
	}
	/* An entry of the leaf of a list is gone.  Returns: whether it is the only leaf now, and
	 * no list any more. */
	template <class Tx>
	[[gnu::noinline]] static bool shorten(Tx *tx, const Place &p, uint64_t *leaf)
	{
		const bool ends = !next_leaf(tx, p.leaf) && entries_of(tx, leaf) <= FEW;
		if (ends)
			fur_store(tx, &leaf[1], depth_of(tx, leaf));
		else if (entries_of(tx, leaf) == 0)
			take_out_of_list(tx, p, leaf);
		return ends;
	}
	/* An empty leaf, which is not the only one of its list. */
	template <class Tx>
	static void take_out_of_list(Tx *tx, const Place &p, uint64_t *leaf)
	{
		uint64_t *next = next_leaf(tx, leaf);
		if (leaf == p.leaf) {
			store_slots(tx, p, slots_at(p, depth_of(tx, leaf)), detail::word_of(next));
			fur_promote(tx, next);
		} else {
			uint64_t *before = p.leaf;
			while (next_leaf(tx, before) != leaf)
				before = next_leaf(tx, before);
			const uint64_t low = fur_load(tx, &before[1]) & LOW;
			fur_store(tx, &before[1], detail::word_of(next) | low);
		}
		fur_promote(tx, leaf);
		fur_free(tx, leaf);
	}
	/* The leaf at `p` has few entries, or none. */
	template <class Tx>
	[[gnu::noinline]] void shrink(Tx *tx, uint64_t outer, const Place &p)
	{
		if (p.bucket) {
			join_leaves(tx, &p.bucket[ROOT], p.hash);
			if (!empty_bucket(tx, outer, p.bucket))
				return;
		}
		join_leaves(tx, &root_, outer);
	}
	/* If one leaf with few entries is left in a bucket, it takes the bucket's place. */
	template <class Tx>
	bool empty_bucket(Tx *tx, uint64_t outer, uint64_t *bucket)
	{
		const uint64_t root = fur_load(tx, &bucket[ROOT]);
		auto *leaf = detail::pointer<uint64_t>(root);
		if (!is_leaf(root) || fur_load(tx, &leaf[1]) || entries_of(tx, leaf) > FEW)
			return false;
		const Hashes hashes = hashes_in(tx, nullptr, leaf);
		const auto depth = static_cast<unsigned>(fur_load(tx, &bucket[DEPTH]));
		fur_store(tx, leaf, with_tags_of(fur_load(tx, leaf), hashes));
		fur_store(tx, &leaf[1], depth);
		uint64_t word;
		const Place p = descend(tx, &root_, outer, word);
		store_slots(tx, p, slots_at(p, depth), root);
		fur_promote(tx, bucket);
		fur_free(tx, bucket);
		return true;
	}
	/* Does what begins with the first `depth` bits of the hash lie before this one, 0 being the
	 * end? */
	static bool ends_before(uint64_t hash, unsigned depth, uint64_t limit)
	{
		return limit == 0 ||
		       (depth > 0 && (hash | ((UINT64_C(1) << (HASH_BITS - depth)) - 1)) < limit);
	}
	/* Join the leaf to which the hash leads with the other half of what was split, and so on
	 * upwards, as long as both have few entries, and only leaves before the limit.  If the log
	 * is half full, the next removal goes on. */
	template <class Tx>
	static void join_leaves(Tx *tx, uint64_t *root, uint64_t hash, uint64_t limit = 0)
	{
		using detail::log_left;
		uint64_t all;
		while (log_left(tx, &all) >= all / 2) {
			uint64_t word;
			const Place p = descend(tx, root, hash, word);
			if (!p.leaf || is_list(tx, p.leaf))
				return;
			const unsigned depth = depth_of(tx, p.leaf);
			if (depth == p.table.used) {
				if (!p.table.words)
					return;
				drop_table(tx, p);
			} else {
				uint64_t *other = other_leaf(tx, p, depth);
				if (!other || !ends_before(hash, depth - 1, limit) ||
				        entries_of(tx, other) + entries_of(tx, p.leaf) > FEW ||
				        !join(tx, p, other))
					return;
			}
		}
	}
	/* An iterator that erases has gone on from one entry to another: if it has left a leaf with
	 * few entries, join that with others that it has left. */
	template <class Tx>
	void tidy(Tx *tx, const Iterator<Tx> &from, const Iterator<Tx> &to)
	{
		const bool left_hash = !to.leaf_ || to.hash_ != from.hash_;
		if ((left_hash || to.inner_ != from.inner_) &&
		        entries_of(tx, from.leaf_) <= FEW / 2)
			shrink_behind(tx, from, left_hash, to);
	}
	template <class Tx>
	[[gnu::noinline]] void shrink_behind(
	        Tx *tx, const Iterator<Tx> &from, bool left_hash, const Iterator<Tx> &to)
	{
		if (const Place p = from.place(); p.bucket) {
			join_leaves(tx, &p.bucket[ROOT], p.hash, left_hash ? 0 : to.inner_);
			if (!left_hash || !empty_bucket(tx, from.hash_, p.bucket))
				return;
		}
		join_leaves(tx, &root_, from.hash_, to.leaf_ ? to.hash_ : 0);
	}
	/* From an entry that stays, while a caller erases others. */
	template <class Tx>
	void pass(Tx *tx, Iterator<Tx> &at)
	{
		const Iterator<Tx> from = at;
		tidy(tx, from, ++at);
	}
	/* The table has one leaf, which takes its place. */
	template <class Tx>
	static void drop_table(Tx *tx, const Place &p)
	{
		store_above(tx, p.above, p.slot_above, detail::word_of(p.leaf));
		free_table(tx, p.table.words);
	}
	static Slots other_slots(const Place &p, unsigned depth)
	{
		const Slots mine = slots_at(p, depth);
		uint64_t *all = p.table.words + 1;
		return {all + (static_cast<size_t>(mine.first - all) ^ mine.n), mine.n};
	}
	/* The other half of the leaf's table or of what was split, if it is a leaf and no list. */
	template <class Tx>
	static uint64_t *other_leaf(Tx *tx, const Place &p, unsigned depth)
	{
		const uint64_t word = fur_load(tx, other_slots(p, depth).first);
		auto *leaf = detail::pointer<uint64_t>(word);
		return is_leaf(word) && fur_load(tx, &leaf[1]) == depth ? leaf : nullptr;
	}
	/* To a leaf that has room for all of them. */
	template <class Tx>
	static void move_entries(Tx *tx, uint64_t *to, uint64_t *from)
	{
		const uint64_t tags = fur_load(tx, from);
		uint64_t all = fur_load(tx, to);
		for (size_t k = 0; k < ENTRIES; k++) {
			if (!used(tags, k))
				continue;
			const size_t at = free_entry(all);
			detail::move_words(tx, key_at(to, at), key_at(from, k), key_codec::WORDS);
			detail::move_words(
			        tx, value_at(to, at), value_at(from, k), value_codec::WORDS);
			all = with_tag(all, at, tags >> 8 * k & 0xff);
		}
		fur_store(tx, to, all);
	}
	/* Has the log room, and a good deal more, for n entries? */
	template <class Tx>
	static bool can_move(Tx *tx, unsigned n)
	{
		using detail::log_left;
		const uint64_t words = n * (+key_codec::WORDS + +value_codec::WORDS);
		uint64_t all;
		return n == 0 || log_left(tx, &all) / 8 > 16 * words;
	}
	/* Put the entries of two halves together, in the leaf that has more of them.  False: the
	 * log has too little room. */
	template <class Tx>
	static bool join(Tx *tx, const Place &p, uint64_t *other)
	{
		const unsigned ours = entries_of(tx, p.leaf), theirs = entries_of(tx, other);
		const bool stays = ours > theirs;
		if (!can_move(tx, stays ? theirs : ours))
			return false;
		const unsigned depth = depth_of(tx, p.leaf);
		uint64_t *keep = stays ? p.leaf : other, *gone = stays ? other : p.leaf;
		if (ours && theirs)
			move_entries(tx, keep, gone);
		fur_store(tx, &keep[1], depth - 1);
		/* An update that has changed an entry there stores to the same word. */
		fur_promote(tx, gone);
		if (depth - 1 == p.table.used) {
			store_above(tx, p.above, p.slot_above, detail::word_of(keep));
			free_table(tx, p.table.words);
		} else {
			store_slots(tx, p, stays ? other_slots(p, depth) : slots_at(p, depth),
			        detail::word_of(keep));
			halve(tx, p);
		}
		fur_free(tx, gone);
		return true;
	}
	/* If a quarter of the table would do, so that the next split need not double it, and the
	 * log has room, half of it is left. */
	template <class Tx>
	static void halve(Tx *tx, const Place &p)
	{
		enum : size_t { QUARTER = 4 };
		const uint64_t *slots = p.table.words + 1;
		const size_t n = size_t(1) << p.table.bits;
		using detail::log_left;
		uint64_t all;
		if (n <= QUARTER || log_left(tx, &all) < 2 * table_bytes(p.table.bits))
			return;
		for (size_t k = 0; k < n; k++)
			if (fur_load(tx, &slots[k]) != fur_load(tx, &slots[k & ~(QUARTER - 1)]))
				return;
		const unsigned bits = p.table.bits - 1;
		uint64_t *table =
		        new_table(tx, bits, [&](size_t k) { return fur_load(tx, &slots[2 * k]); });
		store_above(tx, p.above, p.slot_above, detail::word_of(table) | bits);
		free_table(tx, p.table.words);
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
		auto *node = detail::pointer<uint64_t>(word & ~LOW);
		if (!bits) {
			for (uint64_t *leaf = node; leaf;) {
				uint64_t *next = next_leaf(tx, leaf);
				free_leaf(tx, leaf);
				leaf = next;
			}
			return;
		}
		if (bits == BUCKET) {
			free_below(tx, fur_load(tx, &node[ROOT]), 0);
		} else {
			for (size_t k = 0; k < size_t(1) << bits;) {
				const uint64_t below = fur_load(tx, &node[1 + k]);
				k += slots_of(tx, below, depth + bits);
				free_below(tx, below, depth + bits);
			}
		}
		fur_promote(tx, node);
		fur_free(tx, node);
	}
	/* How many slots of a table that ends at `depth` bits point to the same? */
	template <class Tx>
	static size_t slots_of(Tx *tx, uint64_t below, unsigned depth)
	{
		if (!is_leaf(below) && !is_bucket(below))
			return 1;
		const auto *node = detail::pointer<uint64_t>(below & ~LOW);
		const unsigned its = is_bucket(below)
		                             ? static_cast<unsigned>(fur_load(tx, &node[DEPTH]))
		                             : depth_of(tx, node);
		return size_t(1) << (depth - its);
	}

	/* Where clear_some() works: a hash, and one in the bucket to which it leads. */
	struct Spot {
		uint64_t hash, inner;
		int64_t removed;     /* entries */
		const uint64_t most; /* to remove from a value that is a container */
		bool waits;          /* such a value has more than that */
	};
	/* Remove an entry, or free a node.   Returns: false: nothing is left. */
	template <class Tx>
	bool clear_step(Tx *tx, Spot &spot)
	{
		for (;;) {
			const Place p = find_leaf(
			        tx, spot.hash, [&](const uint64_t *) { return spot.inner; });
			if (!p.leaf)
				return false;
			if (const uint64_t tags = fur_load(tx, p.leaf)) {
				const auto k = static_cast<size_t>(__builtin_ctzll(tags)) / 8;
				if constexpr (Calls::OWNS_VALUES) {
					fur_promote(tx, p.leaf); /* words_to_change() */
					if (detail::clear_value_some<V>(
					            tx, value_at(p.leaf, k), spot.most))
						return spot.waits = true;
				}
				take_out(tx, {p.leaf, k});
				spot.removed++;
				return true;
			}
			if (next_leaf(tx, p.leaf)) {
				take_out_of_list(tx, p, p.leaf);
				return true;
			}
			fur_promote(tx, p.leaf);
			if (clear_leaf(tx, p, spot))
				return true;
		}
	}
	/* The leaf is empty: it goes.  False: the other half must be empty first; the spot is there
	 * now. */
	template <class Tx>
	bool clear_leaf(Tx *tx, const Place &p, Spot &spot)
	{
		const unsigned depth = depth_of(tx, p.leaf);
		if (fur_load(tx, &p.leaf[1]) & LIST)
			fur_store(tx, &p.leaf[1], depth);
		if (depth == p.table.used) {
			if (p.table.words) {
				drop_table(tx, p);
			} else if (p.bucket) {
				(void)empty_bucket(tx, spot.hash, p.bucket);
				spot.inner = 0;
			} else {
				fur_store(tx, p.slot, 0);
				fur_free(tx, p.leaf);
			}
			return true;
		}
		uint64_t *other = other_leaf(tx, p, depth);
		if (other && !fur_load(tx, other))
			return join(tx, p, other);
		const uint64_t half = UINT64_C(1) << (HASH_BITS - depth);
		uint64_t &hash = p.bucket ? spot.inner : spot.hash;
		hash = (hash & ~(half - 1)) ^ half;
		if (!p.bucket)
			spot.inner = 0;
		return false;
	}

	/* ------------------------------------------------------------------- verify */

	struct Found {
		uint64_t blocks, entries;
	};
	/* What the hashes of a part of the map, or of a bucket, begin with. */
	struct Part {
		const uint64_t *bucket; /* NULL: of the map */
		uint64_t prefix;
		unsigned depth;
	};
	template <class Tx>
	const char *verify_leaf(Tx *tx, const uint64_t *leaf, Part part, Found &found) const
	{
		const uint64_t tags = fur_load(tx, leaf);
		part.depth = depth_of(tx, leaf);
		found.blocks++;
		for (size_t k = 0; k < ENTRIES; k++) {
			if (!used(tags, k))
				continue;
			const auto key = key_codec::load(tx, key_at(leaf, k));
			const uint64_t hash = hash_in(tx, part.bucket, key);
			if ((tags >> 8 * k & 0xff) != tag_of(hash))
				return "an entry's tag is not that of its key";
			if (!begins_with(hash, part.prefix, part.depth))
				return "an entry is in another leaf than its hash says";
			if (const Entry e = find_entry(tx, key_codec::hash_of(key), key);
			        e.leaf != leaf || e.k != k)
				return "a key is there twice, or is not found";
			found.entries++;
			found.blocks += key_codec::blocks(tx, key_at(leaf, k));
			if (const char *wrong = detail::verify_value<V>(
			            tx, value_at(leaf, k), found.blocks))
				return wrong;
		}
		return nullptr;
	}
	template <class Tx>
	const char *verify_table(Tx *tx, uint64_t word, Part part, Found &found) const
	{
		const char *wrong = nullptr;
		const auto bits = static_cast<unsigned>(word & LOW);
		const auto *table = detail::pointer<const uint64_t>(word & ~LOW);
		const unsigned end = part.depth + bits;
		found.blocks++;
		for (size_t k = 0; k < size_t(1) << bits && !wrong;) {
			const uint64_t below = fur_load(tx, &table[1 + k]);
			const size_t slots = below ? slots_of(tx, below, end) : 0;
			if (slots == 0 || k % slots || k + slots > size_t(1) << bits)
				return "a leaf has the wrong slots";
			for (size_t n = 1; n < slots; n++)
				if (fur_load(tx, &table[1 + k + n]) != below)
					return "a leaf has too few slots";
			wrong = verify_below(tx, below,
			        {part.bucket, part.prefix | uint64_t(k) << (HASH_BITS - end), end},
			        found);
			k += slots;
		}
		return wrong;
	}
	template <class Tx>
	const char *verify_below(Tx *tx, uint64_t word, const Part &part, Found &found) const
	{
		const char *wrong = nullptr;
		if (is_bucket(word)) {
			const auto *bucket = detail::pointer<const uint64_t>(word & ~LOW);
			found.blocks++;
			return verify_below(tx, fur_load(tx, &bucket[ROOT]), {bucket, 0, 0}, found);
		}
		if (!is_leaf(word))
			return verify_table(tx, word, part, found);
		const auto *leaf = detail::pointer<const uint64_t>(word);
		for (; leaf && !wrong; leaf = next_leaf(tx, leaf))
			wrong = verify_leaf(tx, leaf, part, found);
		return wrong;
	}

	/* --------------------------------------------------------------- iteration */

	/* At an entry; `hash_` is in the range of its leaf, or of its bucket; then `inner_` is in
	 * that of its leaf. */
	template <class Tx>
	class Iterator : public detail::base::ForwardSteps<Iterator<Tx>>
	{
	public:
		using iterator_category = std::input_iterator_tag;
		using value_type = hash_map::value_type;
		using difference_type = ptrdiff_t;
		using pointer = detail::base::Arrow<value_type>;
		using reference = value_type;

		/* The end. */
		Iterator() = default;
		Iterator(Tx *tx, const hash_map *map, uint64_t hash, const Place &p, const Entry &e)
		    : tx_(tx), map_(map), hash_(hash), inner_(p.bucket ? p.hash : 0),
		      bucket_(p.bucket), leaf_(e.leaf), k_(e.k)
		{
		}
		/* The first entry of the leaf to which `hash` belongs, or of those behind it.
		 * inner(bucket): where to begin in a bucket. */
		template <class Inner>
		Iterator(Tx *tx, const hash_map *map, uint64_t hash, Inner inner)
		    : tx_(tx), map_(map), hash_(hash)
		{
			arrive(inner);
			settle();
		}
		value_type operator*() const
		{
			return {key_codec::load(tx_, key_words()),
			        value_codec::load(tx_, value_words())};
		}
		key_type key() const
		{
			return key_codec::load(tx_, key_words());
		}
		/* The place, for scan(), of the entry's leaf or bucket. */
		uint64_t leaf_place() const
		{
			return hash_;
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
		friend hash_map;
		friend cursor;

		/* Where the leaf hangs. */
		Place place() const
		{
			const uint64_t inner = inner_;
			return map_->find_leaf(tx_, hash_, [=](const uint64_t *) { return inner; });
		}
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
			if (const uint64_t *next = next_leaf(tx_, leaf_))
				return next;
			unsigned depth = depth_of(tx_, leaf_);
			if (bucket_) {
				if (uint64_t inner = inner_; behind(inner, depth))
					return arrive([=](const uint64_t *) { return inner; });
				depth = static_cast<unsigned>(fur_load(tx_, &bucket_[DEPTH]));
			}
			return behind(hash_, depth)
			               ? arrive([](const uint64_t *) { return UINT64_C(0); })
			               : nullptr;
		}
		/* On to the first hash that does not begin with the same bits.  False: there is
		 * none. */
		static bool behind(uint64_t &hash, unsigned depth)
		{
			const uint64_t range = depth ? UINT64_C(1) << (HASH_BITS - depth) : 0;
			hash = (hash & ~(range - 1)) + range;
			return range && hash;
		}
		template <class Inner>
		const uint64_t *arrive(Inner inner)
		{
			const Place p = map_->find_leaf(tx_, hash_, inner);
			bucket_ = p.bucket;
			inner_ = p.bucket ? p.hash : 0;
			return leaf_ = p.leaf;
		}

		Tx *tx_ = nullptr;
		const hash_map *map_ = nullptr;
		uint64_t hash_ = 0, inner_ = 0;
		const uint64_t *bucket_ = nullptr; /* NULL: the leaf is in none */
		const uint64_t *leaf_ = nullptr;   /* NULL: the end */
		size_t k_ = 0;
	};

	template <class Tx>
	class View
	{
	public:
		View(Tx *tx, const hash_map *map) : tx_(tx), map_(map) {}
		Iterator<Tx> begin() const
		{
			return map_->begin_at(tx_, 0);
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
