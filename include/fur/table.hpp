/* SPDX-License-Identifier: BSD-3-Clause
 *
 * table.hpp - fur::table<Row, Primary, Indexes...>: rows in the heap, with a primary key and other
 * indexes, which no call lets disagree.  docs/tables.md is its guide.
 *
 *     struct Order {
 *             uint64_t id;
 *             std::string customer;
 *             uint32_t day;
 *             int64_t cents;
 *             FUR_MEMBERS(id, customer, day, cents)
 *     };
 *     using Orders = fur::table<Order,
 *             fur::hash_unique<&Order::id>,                       // the primary key
 *             fur::ordered_index<&Order::customer, &Order::day>>;
 *     auto *orders = fur::root<Orders>(self, "orders");
 *     fur::update(self, [&](fur_update *tx) { orders->insert(tx, {7, "Ada", today, 1999}); });
 *     fur::read(self, [&](fur_ro *tx) {
 *             const auto index = orders->by<&Order::customer, &Order::day>();
 *             for (const Order &order : index.range(tx, {"Ada", monday}, {"Ada", sunday}))
 *                     print(order);
 *     });
 *
 * A row is a trivially copyable struct, which is kept as its bytes; or one that names its members,
 * which is kept as a std::tuple of them, each std::string as a fur::string.  Rows are copied: what
 * a program gets is its own, and all changes go through the table.
 *
 * An index is made of pointers to members, or of functions that take a const Row & and always
 * return the same for the same row:
 *
 *     hash_unique, ordered_unique    at most one row has a key
 *     hash_index, ordered_index      any number of rows may have it
 *
 * A table that is all zero is empty.  It adds nothing to its containers: what their headers say of
 * growth and isolation holds for it.
 *
 * On the medium: the containers, of two words each, in the order of the parameters.  PK is the type
 * of the primary key, K that of an index's.  A key of several parts is their std::tuple.
 *
 *     primary           hash_map<PK, row> or ordered_map<PK, row>
 *     hash_unique       hash_map<K, PK>
 *     ordered_unique    ordered_map<K, PK>
 *     hash_index        hash_map<K, ordered_set<PK>>, without empty sets
 *     ordered_index     ordered_multimap<K, PK>
 */
#ifndef FUR_TABLE_HPP
#define FUR_TABLE_HPP

#include <fur/root.hpp>

#include <algorithm>
#include <functional>
#include <iterator>

namespace fur
{

/* The kinds of indexes.  A part of a key is a pointer to a member of the row, or to a function that
 * takes a const Row & and returns the part. */
template <auto... Parts>
struct hash_unique {
};
template <auto... Parts>
struct ordered_unique {
};
template <auto... Parts>
struct hash_index {
};
template <auto... Parts>
struct ordered_index {
};

/* table_result - what came of a change: true if it was made.  Otherwise the table is as it was. */
class table_result
{
public:
	/* The number of no index. */
	enum : size_t { NO_INDEX = SIZE_MAX };

	static table_result made()
	{
		return {true, NO_INDEX};
	}
	static table_result no_row()
	{
		return {false, NO_INDEX};
	}
	static table_result taken(size_t index)
	{
		return {false, index};
	}
	explicit operator bool() const
	{
		return made_;
	}
	/* is_missing - was there no row to change? */
	bool is_missing() const
	{
		return !made_ && clash_ == NO_INDEX;
	}
	/* clash - the index, by its number, in which another row has the key; the primary key has
	 * number 0.  See number_of().   Returns: NO_INDEX: there is none. */
	size_t clash() const
	{
		return clash_;
	}

private:
	table_result(bool made, size_t clash) : made_(made), clash_(clash) {}
	bool made_;
	size_t clash_;
};

namespace detail
{

/* -------------------------------------------------------------------------------------- rows */

/* As the heap keeps what a row has. */
template <class T>
struct HeapType {
	static_assert(!std::is_array_v<T>,
	        "fur::table: use a std::array for an array that is a part of a key, or in a row "
	        "with a std::string");
	static_assert(!is_owner<T>::value,
	        "the rows of a fur::table are copied, so they have no fur::string and no container "
	        "as members: use a std::string, which the table keeps as a fur::string; and for a "
	        "container a map of its own, by the row's primary key");
	using type = T;
};
template <>
struct HeapType<std::string> {
	using type = string;
};
template <>
struct HeapType<std::string_view> {
	using type = string;
};
template <class T>
struct HeapType<std::optional<T>> {
	using type = std::optional<typename HeapType<T>::type>;
};
template <class T>
using heap_type = typename HeapType<T>::type;

/* A row that is kept as the std::tuple of its members. */
template <class Row, class Members = decltype(std::declval<Row &>().fur_members())>
struct Fields;
template <class Row, class... M>
struct Fields<Row, std::tuple<M &...>> {
	static_assert(check_members<Row>());
	using row = Row;
	using tuple = std::tuple<heap_type<M>...>;
	using view = std::tuple<part_view<heap_type<M>>...>;
};

template <class Row, bool = is_plain<Row>, bool = has_members<Row>::value>
struct KeptRow {
	static_assert(!sizeof(Row),
	        "fur::table: a row is trivially copyable, or it names its members: write "
	        "FUR_MEMBERS(a, b, ...) with all of them at the end of the struct");
};
template <class Row, bool HAS_MEMBERS>
struct KeptRow<Row, true, HAS_MEMBERS> {
	using type = Row;
	static uint64_t type_hash_of()
	{
		return type_hash<Row>::of();
	}
};
template <class Row>
struct KeptRow<Row, false, true> {
	using type = Fields<Row>;
	static uint64_t type_hash_of()
	{
		return combine({hash_of_names<Row>(), type_hash<typename type::tuple>::of()});
	}
};

} // namespace detail

template <class Row, class Members>
struct stored<detail::Fields<Row, Members>> : detail::InParts {
	using fields = detail::Fields<Row, Members>;
	using codec = stored<typename fields::tuple>;
	enum : size_t { WORDS = codec::WORDS, MOST_BLOCKS = codec::MOST_BLOCKS };
	using view = const Row &;
	using value = Row;

	template <class Tx>
	static Row load(Tx *tx, const uint64_t *at)
	{
		Row row{};
		row.fur_members() = codec::load(tx, at);
		return row;
	}
	template <class Tx>
	static void create(Tx *tx, uint64_t *at, view row)
	{
		codec::create(tx, at, typename fields::view(row.fur_members()));
	}
	template <class Tx>
	static void assign(Tx *tx, uint64_t *at, view row)
	{
		codec::assign(tx, at, typename fields::view(row.fur_members()));
	}
	template <class Tx>
	static void destroy(Tx *tx, const uint64_t *at)
	{
		codec::destroy(tx, at);
	}
	template <class Tx>
	static uint64_t blocks(Tx *tx, const uint64_t *at)
	{
		return codec::blocks(tx, at);
	}
};

namespace detail
{

/* -------------------------------------------------------------------------------------- keys */

/* By == if the type has it, as in a hash map; else by <. */
template <class T>
bool is_same_part(const T &a, const T &b)
{
	if constexpr (has_equal<T>::value)
		return static_cast<bool>(a == b);
	else
		return !(a < b) && !(b < a);
}

template <class Row, auto PART>
struct KeyPart {
	static_assert(std::is_invocable_v<decltype(PART), const Row &>,
	        "fur::table: a part of an index is a pointer to a member of the row, such as "
	        "&Order::day, or to a function that takes a const Order &");
	/* A reference into the row, or what a function returns. */
	using held = std::invoke_result_t<decltype(PART), const Row &>;
	using type = heap_type<std::remove_cv_t<std::remove_reference_t<held>>>;
};

/* The key of a row in an index, as it is passed to the container.  It may point into the row. */
template <class Row, auto... PARTS>
class RowKey
{
	static_assert(sizeof...(PARTS) > 0,
	        "fur::table: an index has at least one part, such as fur::hash_unique<&Order::id>");
	using Held = std::tuple<typename KeyPart<Row, PARTS>::held...>;
	using All = std::make_index_sequence<sizeof...(PARTS)>;
	static constexpr bool IS_ONE = sizeof...(PARTS) == 1;

public:
	using tuple = std::tuple<typename KeyPart<Row, PARTS>::type...>;
	using type = std::conditional_t<IS_ONE, std::tuple_element_t<0, tuple>, tuple>;
	using codec = stored<type>;
	using view = typename codec::view;

	explicit RowKey(const Row &row) : held_(std::invoke(PARTS, row)...), view_(kept(held_)) {}
	RowKey(const RowKey &) = delete;
	RowKey &operator=(const RowKey &) = delete;

	view get() const
	{
		return view_.get();
	}
	/* Errors: std::invalid_argument for NaN. */
	void check() const
	{
		codec::check_key(get());
	}
	bool operator==(const RowKey &other) const
	{
		return is_same(other, All());
	}

private:
	static Kept<type> kept(const Held &held)
	{
		if constexpr (IS_ONE)
			return Kept<type>(std::get<0>(held));
		else
			return Kept<type>(std::decay_t<view>(held));
	}
	template <size_t... I>
	bool is_same(const RowKey &other, std::index_sequence<I...>) const
	{
		return (is_same_part(std::get<I>(held_), std::get<I>(other.held_)) && ...);
	}

	Held held_;
	Kept<type> view_;
};

/* ----------------------------------------------------------------------------------- indexes */

/* What an index adds to its container, whose entries lead to primary keys, PK:
 *     add(tx, map, key, pk)         Returns: false: another row has the key
 *     remove(tx, map, key, pk)
 *     has(tx, map, key, pk, is)     is the entry there, and only one?  is(value): is it pk?
 *     count(tx, map)                of the entries; NOT_WHOLE: never that of rows
 *     pk_at(tx, iterator)           that of an entry  */
enum : uint64_t { NOT_WHOLE = UINT64_MAX };
template <class K, class PK, class M>
struct UniqueIndex {
	using map = M;
	static constexpr bool IS_UNIQUE = true;

	template <class Tx, class Key, class Pk>
	static bool add(Tx *tx, map &m, const Key &key, const Pk &pk)
	{
		return m.insert(tx, key.get(), pk.get());
	}
	template <class Tx, class Key, class Pk>
	static void remove(Tx *tx, map &m, const Key &key, const Pk &)
	{
		m.erase(tx, key.get());
	}
	template <class Tx, class Key, class Pk, class Is>
	static bool has(Tx *tx, const map &m, const Key &key, const Pk &, Is is)
	{
		const auto found = m.get(tx, key.get());
		return found && is(*found);
	}
	template <class Tx>
	static uint64_t count(Tx *tx, const map &m)
	{
		return m.size(tx);
	}
	template <class Tx, class It>
	static auto pk_at(Tx *tx, const It &at)
	{
		return stored<PK>::load(tx, at.value_words());
	}
};

template <class K, class PK>
struct OrderedIndex {
	using map = ordered_multimap<K, PK>;
	static constexpr bool IS_UNIQUE = false;

	template <class Tx, class Key, class Pk>
	static bool add(Tx *tx, map &m, const Key &key, const Pk &pk)
	{
		m.insert(tx, key.get(), pk.get());
		return true;
	}
	template <class Tx, class Key, class Pk>
	static void remove(Tx *tx, map &m, const Key &key, const Pk &pk)
	{
		m.erase(tx, key.get(), pk.get());
	}
	template <class Tx, class Key, class Pk, class Is>
	static bool has(Tx *tx, const map &m, const Key &key, const Pk &pk, Is)
	{
		return m.contains(tx, key.get(), pk.get());
	}
	template <class Tx>
	static uint64_t count(Tx *tx, const map &m)
	{
		return m.size(tx);
	}
	template <class Tx, class It>
	static auto pk_at(Tx *tx, const It &at)
	{
		return stored<PK>::load(tx, at.of_map().key_words() + +stored<Dup<K, PK>>::VALUE);
	}
};

template <class K, class PK>
struct HashIndex {
	using map = hash_map<K, ordered_set<PK>>;
	static constexpr bool IS_UNIQUE = false;

	template <class Tx, class Key, class Pk>
	static bool add(Tx *tx, map &m, const Key &key, const Pk &pk)
	{
		m.try_emplace(tx, key.get()).first->insert(tx, pk.get());
		return true;
	}
	/* The set's size() would read what insertions of other rows store to. */
	template <class Tx, class Key, class Pk>
	static void remove(Tx *tx, map &m, const Key &key, const Pk &pk)
	{
		ordered_set<PK> *rows = m.try_emplace(tx, key.get()).first; /* it is there */
		rows->erase(tx, pk.get());
		const auto all = rows->in(tx);
		if (all.begin() == all.end())
			m.erase(tx, key.get());
	}
	template <class Tx, class Key, class Pk, class Is>
	static bool has(Tx *tx, const map &m, const Key &key, const Pk &pk, Is)
	{
		const auto rows = m.get(tx, key.get());
		return rows && (*rows)->contains(tx, pk.get());
	}
	template <class Tx>
	static uint64_t count(Tx *tx, const map &m)
	{
		uint64_t n = 0;
		for (const auto &[key, rows] : m.in(tx)) {
			const uint64_t some = rows->size(tx);
			if (some == 0)
				return NOT_WHOLE;
			n += some;
		}
		return n;
	}
	template <class Tx, class It>
	static auto pk_at(Tx *, const It &at)
	{
		return *at;
	}
};

/* KIND: a part of the hash of a table's type. */
template <class Row, class Spec>
struct IndexSpec {
	static_assert(!sizeof(Spec),
	        "fur::table: an index is one of fur::hash_unique<...>, fur::ordered_unique<...>, "
	        "fur::hash_index<...> and fur::ordered_index<...>");
};
template <class Row, uint64_t NUMBER, bool ORDERED, auto... PARTS>
struct SpecBase {
	using key = RowKey<Row, PARTS...>;
	using type = typename key::type;
	using parts = hash_unique<PARTS...>;
	static constexpr uint64_t KIND = NUMBER;
	static constexpr bool IS_ORDERED = ORDERED;
};
template <class Row, auto... P>
struct IndexSpec<Row, hash_unique<P...>> : SpecBase<Row, 1, false, P...> {
	template <class Value>
	using map = hash_map<typename RowKey<Row, P...>::type, Value>;
	template <class K, class PK>
	using index = UniqueIndex<K, PK, hash_map<K, PK>>;
};
template <class Row, auto... P>
struct IndexSpec<Row, ordered_unique<P...>> : SpecBase<Row, 2, true, P...> {
	template <class Value>
	using map = ordered_map<typename RowKey<Row, P...>::type, Value>;
	template <class K, class PK>
	using index = UniqueIndex<K, PK, ordered_map<K, PK>>;
};
template <class Row, auto... P>
struct IndexSpec<Row, hash_index<P...>> : SpecBase<Row, 3, false, P...> {
	template <class K, class PK>
	using index = HashIndex<K, PK>;
};
template <class Row, auto... P>
struct IndexSpec<Row, ordered_index<P...>> : SpecBase<Row, 4, true, P...> {
	template <class K, class PK>
	using index = OrderedIndex<K, PK>;
};
/* Of the name of a part: "customer" of &Order::customer.  Compilers spell what is before it, each
 * in its own way. */
template <auto PART>
uint64_t hash_of_part()
{
	const std::string_view all = name_of_type<hash_unique<PART>>();
	const auto is_of_name = [](char c) {
		return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		       c == '_';
	};
	size_t end = all.size();
	while (end > 0 && !is_of_name(all[end - 1]))
		end--;
	size_t from = end;
	while (from > 0 && is_of_name(all[from - 1]))
		from--;
	return hash_bytes(all.data() + from, end - from);
}

template <class Spec>
struct is_unique_spec : std::false_type {
};
template <auto... P>
struct is_unique_spec<hash_unique<P...>> : std::true_type {
};
template <auto... P>
struct is_unique_spec<ordered_unique<P...>> : std::true_type {
};

/* Objects of the types T, one behind the other; std::tuple may have another order. */
template <class... T>
struct InOrder {
};
template <class T, class... Rest>
struct InOrder<T, Rest...> {
	T first;
	InOrder<Rest...> rest;
};
template <class T>
struct InOrder<T> {
	T first;
};
template <size_t I, class All>
auto &nth(All &all)
{
	if constexpr (I == 0)
		return all.first;
	else
		return nth<I - 1>(all.rest);
}

} // namespace detail

template <class Row, class Primary, class... Indexes>
class table
{
	static_assert(detail::is_unique_spec<Primary>::value,
	        "fur::table: the first index is the primary key, which tells rows apart: "
	        "fur::hash_unique<...> or fur::ordered_unique<...>");
	template <size_t I>
	using spec = std::tuple_element_t<I,
	        std::tuple<detail::IndexSpec<Row, Primary>, detail::IndexSpec<Row, Indexes>...>>;
	template <size_t I>
	using RowKey = typename spec<I>::key;
	using PrimaryKey = RowKey<0>;
	using PK = typename PrimaryKey::type;
	using Kept = typename detail::KeptRow<Row>::type;
	using row_codec = stored<Kept>;
	template <size_t I>
	using index = typename spec<I>::template index<typename spec<I>::type, PK>;
	using PrimaryMap = typename spec<0>::template map<Kept>;
	enum : size_t { N = 1 + sizeof...(Indexes), AMBIGUOUS = SIZE_MAX };
	/* f(i) for each index but the primary key, as long as it returns true.
	 * Returns: whether all did. */
	template <class F>
	static bool each(F f)
	{
		return each(f, std::make_index_sequence<N - 1>());
	}
	template <class F, size_t... I>
	static bool each(F &f, std::index_sequence<I...>)
	{
		return (f(std::integral_constant<size_t, I + 1>()) && ...);
	}
	template <class Table, size_t I>
	class Index;
	template <class Tx, class It, size_t I>
	class Iterator;
	template <class It>
	struct Range;

public:
	using owns_blocks = void; /* for codecs */
	static constexpr bool OWNS_VALUES = false;
	using value_type = Row;
	/* Of the primary key, as those of a map. */
	using key_type = typename PrimaryMap::key_type;
	using key_view = typename PrimaryMap::key_view;
	using size_type = uint64_t;
	template <class Tx>
	using iterator = Iterator<Tx, typename PrimaryMap::template iterator<Tx>, 0>;

	table() = default;
	table(const table &) = delete;
	table &operator=(const table &) = delete;

	/* number_of - the number of the index that has exactly these parts, in this order: the
	 * primary key is number 0, and the others follow as they are declared. */
	template <auto... Parts>
	static constexpr size_t number_of()
	{
		constexpr size_t number = find_index<Parts...>(std::make_index_sequence<N>());
		static_assert(number != AMBIGUOUS, "fur::table: several indexes have these parts: "
		                                   "one of them is enough, and an "
		                                   "ordered one can do what a hash index can");
		static_assert(number != N,
		        "fur::table: no index of the table has these parts, all of them and in "
		        "this order");
		return number;
	}
	/* by - the index that has exactly these parts, in this order, for its calls: see below.
	 *     orders->by<&Order::customer, &Order::day>().range(tx, from, to) */
	template <auto... Parts>
	auto by() const
	{
		return Index<const table, number_of<Parts...>()>(*this);
	}
	template <auto... Parts>
	auto by()
	{
		return Index<table, number_of<Parts...>()>(*this);
	}

	/* --------------------------------------------------- by the primary key */

	/* contains - is there a row of this key? */
	template <class Tx>
	bool contains(Tx *tx, key_view key) const
	{
		return rows().contains(tx, key);
	}
	/* get - a copy of the row.   Returns: nothing if there is no such row. */
	template <class Tx>
	std::optional<Row> get(Tx *tx, key_view key) const
	{
		return rows().get(tx, key);
	}
	/* at - the same.   Errors: std::out_of_range if there is no such row. */
	template <class Tx>
	Row at(Tx *tx, key_view key) const
	{
		return rows().at(tx, key);
	}
	/* get_many - look for the rows of `n` keys at once: call f(size_t i, Row row) for each
	 * keys[i] of which there is a row, in any order; or fill out[i].  See fur::hash_map.
	 * Returns: how many of the keys have rows; a key that is given twice counts twice. */
	template <class Tx, class Key, class F>
	size_type get_many(Tx *tx, const Key *keys, size_t n, F f_or_out) const
	{
		return rows().get_many(tx, keys, n, f_or_out);
	}
	/* lookup - a trivially copyable row where it lies, to load some of its members by
	 * fur_load().  Valid until the transaction ends or changes the table.  It is const: a store
	 * to a member would not reach the indexes.   Returns: NULL if there is no such row. */
	template <class Tx>
	const Row *lookup(Tx *tx, key_view key) const
	{
		static_assert(std::is_same_v<Kept, Row>,
		        "fur::table: a row with a std::string does not lie in the heap as it is: "
		        "use get(tx, key)");
		return reinterpret_cast<const Row *>(rows().value_words(tx, key));
	}
	/* find - an iterator to the row, or in(tx).end(). */
	template <class Tx>
	iterator<Tx> find(Tx *tx, key_view key) const
	{
		return {tx, this, rows().find(tx, key)};
	}
	/* in - all rows, as a range: in the order of an ordered primary key, or in none.  It and
	 * its iterators, which give copies, are valid until the transaction ends or changes the
	 * table. */
	template <class Tx>
	Range<iterator<Tx>> in(Tx *tx) const
	{
		const auto all = rows().in(tx);
		return {{tx, this, all.begin()}, {tx, this, all.end()}};
	}
	/* size - the number of rows.  Reads 16 lines that insertions store to, so call it in
	 * updates only if you must. */
	template <class Tx>
	size_type size(Tx *tx) const
	{
		return rows().size(tx);
	}
	template <class Tx>
	bool empty(Tx *tx) const
	{
		return size(tx) == 0;
	}

	/* ----------------------------------------------------------------- changes */

	/* insert - add a row, unless one has its primary key, or its key in a unique index: then
	 * nothing changes.
	 * Returns: whether it was added; clash() tells the index.
	 * Errors:  heap_full; std::invalid_argument for NaN as a part of a key. */
	template <class Tx>
	table_result insert(Tx *tx, const Row &row)
	{
		detail::check_changes<Tx>();
		const Keys keys(row);
		keys.check();
		if (!rows().insert(tx, keys.primary().get(), row))
			return table_result::taken(0);
		const size_t taken = add_entries(tx, keys, nullptr);
		if (taken == N)
			return table_result::made();
		rows().erase(tx, keys.primary().get());
		return table_result::taken(taken);
	}
	/* insert_or_assign - add the row, or put it in place of the one that has its primary key;
	 * unless another one has its key in a unique index: then nothing changes.
	 * Returns: as insert().   Errors: as insert(). */
	template <class Tx>
	table_result insert_or_assign(Tx *tx, const Row &row)
	{
		const PrimaryKey key(row);
		const table_result done = modify(tx, key.get(), [&](Row &there) { there = row; });
		return done.is_missing() ? insert(tx, row) : done;
	}
	/* modify - load the row of this key, call change(Row &), and store the row and its keys,
	 * where these have changed, the primary key among them.  If another row has a new key in a
	 * unique index, nothing changes.  change() makes no calls for this table.
	 * Returns: whether the row was changed; is_missing(): there is none; clash().
	 * Errors:  as insert(); what change() throws, before anything has changed. */
	template <class Tx, class Change>
	table_result modify(Tx *tx, key_view key, Change change)
	{
		detail::check_changes<Tx>();
		table_result result = table_result::made();
		std::optional<Row> moved; /* another primary key */
		const bool there = rows().modify(tx, key, [&](Row &row) {
			const Row before = row;
			change(row);
			const Keys now(row), then(before);
			now.check();
			if (!(now.primary() == then.primary()))
				moved = row;
			else if (const size_t taken = add_entries(tx, now, &then); taken < N)
				result = table_result::taken(taken);
			else
				return;
			row = before;
		});
		if (!there)
			return table_result::no_row();
		return moved ? move(tx, key, *moved) : result;
	}
	/* erase - remove the row of this key, or that of an iterator.
	 * Returns: how many were removed, 0 or 1; or an iterator to the next one. */
	template <class Tx>
	size_type erase(Tx *tx, key_view key)
	{
		detail::check_changes<Tx>();
		const auto row = get(tx, key);
		if (!row)
			return 0;
		const Keys keys(*row);
		remove_entries(tx, keys, nullptr, N);
		return rows().erase(tx, keys.primary().get());
	}
	template <class Tx, class It, class = detail::if_same<It, iterator<Tx>>>
	It erase(Tx *tx, const It &at)
	{
		detail::check_changes<Tx>();
		const Row row = *at;
		remove_entries(tx, Keys(row), nullptr, N);
		return It(tx, this, rows().erase(tx, at.of_map()));
	}
	/* erase_if - remove the rows for which pred(const Row &) is true.   Returns: how many.
	 * The log must have room for all of them, or it is FUR_ETOOBIG: fur::erase_if(thread,
	 * table, pred) takes several updates. */
	template <class Tx, class Pred>
	size_type erase_if(Tx *tx, Pred pred)
	{
		detail::check_changes<Tx>();
		auto at = rows().in(tx).begin();
		return rows().erase_from(tx, at, [&](const auto &entry) {
			const Row row = row_codec::load(tx, entry.value_words());
			if (!detail::Pass::holds(tx, pred, row))
				return 0;
			remove_entries(tx, Keys(row), nullptr, N);
			return 1;
		});
	}
	/* clear - remove all rows; see the containers'.  If the log has no room for that, it fails
	 * with FUR_ETOOBIG: then call fur::clear(), which takes several updates. */
	template <class Tx>
	void clear(Tx *tx)
	{
		rows().clear(tx);
		each([&](auto i) {
			map<i>().clear(tx);
			return true;
		});
	}
	/* clear_some - a part of clear(): remove up to `most` rows, or fewer if a quarter of the
	 * log is full.  The table is whole in between.   Returns: whether there is more to do. */
	template <class Tx>
	bool clear_some(Tx *tx, size_type most)
	{
		detail::check_changes<Tx>();
		do {
			const auto all = in(tx);
			if (all.begin() == all.end()) {
				clear(tx);
				return false;
			}
			const Row row = *all.begin();
			(void)erase(tx, PrimaryKey(row).get());
		} while (most-- > 1 && detail::room_for_a_step(tx));
		return true;
	}

	/* ------------------------------------------------------------------ checks */

	/* check - does each index have the entries of all rows, and no others; and is each
	 * container whole?  It takes as long as a look-up of each row in each index.
	 * Returns: NULL, or what is wrong. */
	template <class Tx>
	const char *check(Tx *tx) const
	{
		uint64_t blocks = 0;
		return verify(tx, blocks);
	}
	/* verify - the same.  Sets `blocks` to the number of blocks that the table owns. */
	template <class Tx>
	const char *verify(Tx *tx, uint64_t &blocks) const
	{
		const char *wrong = rows().verify(tx, blocks);
		each([&](auto i) {
			uint64_t own = 0;
			if (!wrong)
				wrong = map<i>().verify(tx, own);
			blocks += own;
			if (!wrong && index<i>::count(tx, map<i>()) != size(tx))
				wrong = "an index has not as many entries as there are rows";
			return !wrong;
		});
		const auto all = rows().in(tx);
		for (auto at = all.begin(); !wrong && at != all.end(); ++at)
			wrong = check_row(tx, at);
		return wrong;
	}

	/* A place that outlives transactions: see fur::scan() (map.hpp). */
	class cursor
	{
	public:
		bool done() const
		{
			return at_.done();
		}
		/* advance - call f(const Row &) for the next rows; see the map's. */
		template <class Tx, class F>
		void advance(Tx *tx, const table &rows, size_t most, F &&f)
		{
			at_.advance(
			        tx, rows.rows(), most, [&](const auto &entry) { f(entry.second); });
		}

	private:
		typename PrimaryMap::cursor at_;
	};
	static key_type key_of(const Row &row)
	{
		return key_type(PrimaryKey(row).get());
	}
	/* fill()'s call for an element of its range. */
	template <class Tx>
	void put_item(Tx *tx, const Row &row)
	{
		if (!insert_or_assign(tx, row))
			throw std::invalid_argument(
			        "fur: a row of the range has a key that is in a unique index for "
			        "another row: leave one of them out, or use an index that is not "
			        "unique");
	}
	/* type_hash_of - for fur::type_hash. */
	static uint64_t type_hash_of()
	{
		uint64_t hash = detail::combine(
		        {30, detail::KeptRow<Row>::type_hash_of(), hash_of_index<0>(Primary())});
		each([&](auto i) {
			using Spec = std::tuple_element_t<i - 1, std::tuple<Indexes...>>;
			hash = detail::combine({hash, hash_of_index<i>(Spec())});
			return true;
		});
		return hash;
	}

private:
	/* The keys of a row, which must stay where it is. */
	template <class All>
	struct KeysOf;
	template <size_t... I>
	struct KeysOf<std::index_sequence<I...>> {
		std::tuple<RowKey<I>...> keys;

		explicit KeysOf(const Row &row) : keys(((void)I, row)...) {}
		const PrimaryKey &primary() const
		{
			return std::get<0>(keys);
		}
		void check() const
		{
			(std::get<I>(keys).check(), ...);
		}
	};
	using Keys = KeysOf<std::make_index_sequence<N>>;

	template <auto... Parts, size_t... I>
	static constexpr size_t find_index(std::index_sequence<I...>)
	{
		constexpr bool is[] = {
		        std::is_same_v<typename spec<I>::parts, hash_unique<Parts...>>...};
		size_t number = N, n = 0;
		for (size_t i = N; i-- > 0;)
			if (is[i]) {
				number = i;
				n++;
			}
		return n > 1 ? size_t(AMBIGUOUS) : number;
	}
	template <size_t I>
	auto &map()
	{
		return detail::nth<I>(maps_);
	}
	template <size_t I>
	const auto &map() const
	{
		return detail::nth<I>(maps_);
	}
	PrimaryMap &rows()
	{
		return maps_.first;
	}
	const PrimaryMap &rows() const
	{
		return maps_.first;
	}

	/* Add the row's entries; in place of those of `then`, if the same row had other keys.
	 * Returns: N; or the index in which another row has the key: then nothing has changed. */
	template <class Tx>
	size_t add_entries(Tx *tx, const Keys &now, const Keys *then)
	{
		size_t taken = N;
		each([&](auto i) {
			const auto &key = std::get<i>(now.keys);
			if (then && key == std::get<i>(then->keys))
				return true;
			if (!index<i>::add(tx, map<i>(), key, now.primary()))
				taken = i;
			return taken == N;
		});
		if (taken < N)
			remove_entries(tx, now, then, taken);
		else if (then)
			remove_entries(tx, *then, &now, N);
		return taken;
	}
	/* Remove the row's entries in the indexes before `end`, but those that `other` has too. */
	template <class Tx>
	void remove_entries(Tx *tx, const Keys &keys, const Keys *other, size_t end)
	{
		each([&](auto i) {
			const auto &key = std::get<i>(keys.keys);
			if (i < end && !(other && key == std::get<i>(other->keys)))
				index<i>::remove(tx, map<i>(), key, keys.primary());
			return true;
		});
	}
	/* Give the row of `from` another primary key, and perhaps other keys. */
	template <class Tx>
	table_result move(Tx *tx, key_view from, const Row &row)
	{
		const auto before = get(tx, from);
		(void)erase(tx, from);
		const table_result result = insert(tx, row);
		if (!result)
			(void)insert(tx, *before);
		return result;
	}
	template <class Tx, class It>
	const char *check_row(Tx *tx, const It &at) const
	{
		const Row row = row_codec::load(tx, at.value_words());
		const Keys keys(row);
		if (rows().value_words(tx, keys.primary().get()) != at.value_words())
			return "a row has another primary key than the one it is found by";
		const bool all = each([&](auto i) {
			return index<i>::has(tx, map<i>(), std::get<i>(keys.keys), keys.primary(),
			        [&](const auto &pk) {
				        return rows().value_words(tx, pk) == at.value_words();
			        });
		});
		return all ? nullptr : "an index has not the entry of a row";
	}
	template <size_t I, template <auto...> class Kind, auto... Parts>
	static uint64_t hash_of_index(Kind<Parts...>)
	{
		return detail::combine({spec<I>::KIND, type_hash<typename spec<I>::type>::of(),
		        detail::hash_of_part<Parts>()...});
	}

	/* The row of an entry of index I. */
	template <size_t I, class Tx, class It>
	Row row_at(Tx *tx, const It &at) const
	{
		if constexpr (I == 0)
			return row_codec::load(tx, at.value_words());
		else
			return rows().at(tx, index<I>::pk_at(tx, at));
	}

	/* At a row, by the container's iterator to the entry of an index. */
	template <class Tx, class It, size_t I>
	class Iterator : public detail::base::Steps<Iterator<Tx, It, I>>
	{
	public:
		using iterator_category = typename It::iterator_category;
		using value_type = Row;
		using difference_type = ptrdiff_t;
		using pointer = detail::base::Arrow<Row>;
		using reference = Row;
		/* In the entry; that of an index has its primary key. */
		static constexpr bool HAS_ROW = I == 0;

		Iterator() = default;
		Iterator(Tx *tx, const table *all, const It &at) : tx_(tx), all_(all), at_(at) {}
		Row operator*() const
		{
			return all_->template row_at<I>(tx_, at_);
		}
		pointer operator->() const
		{
			return {**this};
		}
		Iterator &operator++()
		{
			++at_;
			return *this;
		}
		Iterator &operator--()
		{
			--at_;
			return *this;
		}
		bool operator==(const Iterator &other) const
		{
			return at_ == other.at_;
		}
		/* For the table. */
		const It &of_map() const
		{
			return at_;
		}
		auto primary_key() const
		{
			return index<I>::pk_at(tx_, at_);
		}
		const table *all() const
		{
			return all_;
		}
		Tx *tx() const
		{
			return tx_;
		}

	private:
		Tx *tx_ = nullptr;
		const table *all_ = nullptr;
		It at_;
	};
	/* Rows between two iterators; backwards, if they are in order. */
	template <class It>
	struct Range {
		using iterator = It;
		It first, last;

		It begin() const
		{
			return first;
		}
		It end() const
		{
			return last;
		}
		std::reverse_iterator<It> rbegin() const
		{
			return std::reverse_iterator<It>(last);
		}
		std::reverse_iterator<It> rend() const
		{
			return std::reverse_iterator<It>(first);
		}
		bool empty() const
		{
			return first == last;
		}
		/* for_each - call f(const Row &) for the rows in their order.  It looks for 16 rows
		 * of an index at a time, which wait for memory together; a loop looks for one
		 * after the other. */
		template <class F>
		void for_each(F f) const
		{
			for (It at = first; at != last;) {
				if constexpr (It::HAS_ROW) {
					f(*at);
					++at;
				} else {
					each_of_group(at, f);
				}
			}
		}

	private:
		template <class F>
		void each_of_group(It &at, F &f) const
		{
			key_type keys[detail::GROUP]{};
			std::optional<Row> rows[detail::GROUP];
			size_t n = 0;
			for (; n < detail::GROUP && at != last; ++at)
				keys[n++] = at.primary_key();
			first.all()->get_many(first.tx(), keys, n, rows);
			for (size_t i = 0; i < n; i++)
				f(static_cast<const Row &>(*rows[i]));
		}
	};

	/* What by() returns: the calls of an index.  It is as const as the table. */
	template <class Table, size_t I>
	class Index
	{
		using Map = std::remove_cv_t<std::remove_reference_t<
		        decltype(std::declval<table &>().template map<I>())>>;
		static constexpr bool IS_ORDERED = spec<I>::IS_ORDERED;
		static constexpr bool is_unique()
		{
			if constexpr (I == 0)
				return true;
			else
				return index<I>::IS_UNIQUE;
		}
		static constexpr void check_unique()
		{
			static_assert(is_unique(),
			        "fur::table: any number of rows may have a key of this index: use "
			        "equal_range(tx, key), or a unique index");
		}
		static constexpr void check_not_const()
		{
			static_assert(!std::is_const_v<Table>,
			        "fur::table: this call changes the table, which is const here");
		}
		static constexpr void check_ordered()
		{
			static_assert(IS_ORDERED,
			        "fur::table: a hash index has no order: use ordered_unique<...> or "
			        "ordered_index<...> for ranges");
		}

	public:
		/* As they are passed: const T &; a std::string_view; a std::tuple of such. */
		using key_view = typename Map::key_view;
		using key_type = typename Map::key_type;

		explicit Index(Table &all) : all_(all) {}

		/* contains - has a row this key? */
		template <class Tx>
		bool contains(Tx *tx, key_view key) const
		{
			return map().contains(tx, key);
		}
		/* get - a copy of the row of this key, in a unique index.
		 * Returns: nothing if there is no such row. */
		template <class Tx>
		std::optional<Row> get(Tx *tx, key_view key) const
		{
			check_unique();
			if constexpr (I == 0) {
				return map().get(tx, key);
			} else {
				const auto pk = map().get(tx, key);
				return pk ? all_.get(tx, *pk) : std::nullopt;
			}
		}
		/* get_many - as that of the table, in a unique index. */
		template <class Tx, class Key, class F>
		size_type get_many(Tx *tx, const Key *keys, size_t n, F f_or_out) const
		{
			check_unique();
			if constexpr (I == 0)
				return map().get_many(tx, keys, n, f_or_out);
			else if constexpr (std::is_same_v<F, std::optional<Row> *>)
				return many_into(tx, keys, n, f_or_out);
			else
				return many(tx, keys, n, f_or_out);
		}
		/* equal_range - the rows of this key, in the order of their primary keys, in an
		 * index that is not unique. */
		template <class Tx>
		auto equal_range(Tx *tx, key_view key) const
		{
			static_assert(!is_unique(),
			        "fur::table: at most one row has a key of a unique index: use "
			        "get(tx, key)");
			if constexpr (IS_ORDERED) {
				const auto found = map().equal_range(tx, key);
				return range_of(tx, found.first, found.second);
			} else {
				const auto rows = map().get(tx, key);
				using It = decltype((*rows)->in(tx).begin());
				return rows ? range_of(tx, (*rows)->in(tx).begin(),
				                      (*rows)->in(tx).end())
				            : range_of(tx, It(), It());
			}
		}
		/* count - how many rows have this key?  It walks through their entries. */
		template <class Tx>
		size_type count(Tx *tx, key_view key) const
		{
			if constexpr (IS_ORDERED || is_unique())
				return map().count(tx, key);
			else if (const auto rows = map().get(tx, key))
				return (*rows)->size(tx);
			return 0;
		}
		/* in - all rows in the order of the index, and then of their primary keys. */
		template <class Tx>
		auto in(Tx *tx) const
		{
			check_ordered();
			return range_of(tx, map().in(tx).begin(), map().in(tx).end());
		}
		/* range - the rows with first <= key < last, in the order of the index; none if
		 * `last` is before `first`. */
		template <class Tx>
		auto range(Tx *tx, key_view first, key_view last) const
		{
			check_ordered();
			const auto end = map().lower_bound(tx, last);
			return range_of(tx, last < first ? end : map().lower_bound(tx, first), end);
		}
		/* from, up_to - the rows with key >= first, or with key < last. */
		template <class Tx>
		auto from(Tx *tx, key_view first) const
		{
			check_ordered();
			return range_of(tx, map().lower_bound(tx, first), map().in(tx).end());
		}
		template <class Tx>
		auto up_to(Tx *tx, key_view last) const
		{
			check_ordered();
			return range_of(tx, map().in(tx).begin(), map().lower_bound(tx, last));
		}
		/* modify - as that of the table, for the row of this key in a unique index. */
		template <class Tx, class Change>
		table_result modify(Tx *tx, key_view key, Change change) const
		{
			check_not_const();
			check_unique();
			const auto row = get(tx, key);
			return row ? all_.modify(tx, PrimaryKey(*row).get(), change)
			           : table_result::no_row();
		}
		/* erase - remove the rows of this key.   Returns: how many. */
		template <class Tx>
		size_type erase(Tx *tx, key_view key) const
		{
			check_not_const();
			if constexpr (is_unique()) {
				const auto row = get(tx, key);
				return row ? all_.erase(tx, PrimaryKey(*row).get()) : 0;
			} else {
				return erase_all(tx, [&] { return equal_range(tx, key); });
			}
		}
		/* delete_range - remove the rows with first <= key < last.   Returns: how many. */
		template <class Tx>
		size_type delete_range(Tx *tx, key_view first, key_view last) const
		{
			check_not_const();
			return erase_all(tx, [&] { return range(tx, first, last); });
		}

	private:
		const Map &map() const
		{
			return static_cast<const table &>(all_).template map<I>();
		}
		template <class Tx, class It>
		Range<Iterator<Tx, It, I>> range_of(Tx *tx, const It &first, const It &last) const
		{
			return {{tx, &all_, first}, {tx, &all_, last}};
		}
		template <class Tx, class Rows>
		size_type erase_all(Tx *tx, Rows rows) const
		{
			size_type gone = 0;
			for (auto some = rows(); !some.empty(); some = rows(), gone++) {
				const Row row = *some.begin();
				(void)all_.erase(tx, PrimaryKey(row).get());
				detail::check_update(tx);
			}
			return gone;
		}
		/* Groups of searches in the index, and then of what they have found. */
		template <class Tx, class Key, class F>
		size_type many(Tx *tx, const Key *keys, size_t n, F &f) const
		{
			size_type found = 0;
			for (size_t from = 0; from < n; from += detail::GROUP) {
				typename table::key_type pks[detail::GROUP]{};
				size_t which[detail::GROUP], some = 0;
				map().get_many(tx, keys + from, std::min(n - from, +detail::GROUP),
				        [&](size_t i, auto &&pk) {
					        pks[some] = std::move(pk);
					        which[some++] = from + i;
				        });
				found += all_.get_many(tx, pks, some,
				        [&](size_t i, auto &&row) { f(which[i], std::move(row)); });
			}
			return found;
		}
		template <class Tx, class Key>
		size_type many_into(
		        Tx *tx, const Key *keys, size_t n, std::optional<Row> *out) const
		{
			for (size_t i = 0; i < n; i++)
				out[i].reset();
			auto put = [&](size_t i, Row &&row) { out[i].emplace(std::move(row)); };
			return many(tx, keys, n, put);
		}

		Table &all_;
	};

	detail::InOrder<PrimaryMap,
	        typename detail::IndexSpec<Row, Indexes>::template index<
	                typename detail::IndexSpec<Row, Indexes>::type, PK>::map...>
	        maps_;
};

/* The members that indexes are made of are a part of it, by their names. */
template <class Row, class Primary, class... Indexes>
struct type_hash<table<Row, Primary, Indexes...>> {
	static uint64_t of()
	{
		return table<Row, Primary, Indexes...>::type_hash_of();
	}
};

} // namespace fur

#endif /* FUR_TABLE_HPP */
