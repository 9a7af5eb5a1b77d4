/* SPDX-License-Identifier: BSD-3-Clause
 *
 * map.cpp - fur_map.h on the containers of C++.  The contract of src/map is fur_map.h.
 *
 * The containers here never allocate memory of the process, and nothing here has a destructor:
 * libfur may leave the body of an update or of an optimistic reader, and so these functions, by
 * longjmp().  So libfur.so needs no library of C++ either (exported_test.py).
 */
#include <fur/root.hpp>
#include <fur_map.h>

#include <climits>
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <new>

#define _Static_assert static_assert /* NOLINT */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* C lets a function and a struct share a name */
extern "C" {
#include "base/error.h"
#include "tx/tx.h"
}
#pragma GCC diagnostic pop
#undef _Static_assert

namespace
{

/* The transaction of a change: the update, and where to go on if there is no room. */
struct Writer {
	fur_update *update;
	jmp_buf no_room;
};
template <class T>
T fur_load(Writer *tx, const T *p)
{
	return ::fur_load(tx->update, p);
}
template <class T>
void fur_store(Writer *tx, T *p, typename fur_detail::identity<T>::type value)
{
	::fur_store(tx->update, p, value);
}
void *fur_alloc(Writer *tx, size_t bytes)
{
	return ::fur_alloc(tx->update, bytes);
}
void *fur_alloc_aligned(Writer *tx, size_t bytes, size_t alignment)
{
	return ::fur_alloc_aligned(tx->update, bytes, alignment);
}
void fur_free(Writer *tx, void *block)
{
	::fur_free(tx->update, block);
}
void fur_read(Writer *tx, void *to, const void *from, size_t bytes)
{
	::fur_read(tx->update, to, from, bytes);
}
void fur_write(Writer *tx, void *to, const void *from, size_t bytes)
{
	::fur_write(tx->update, to, from, bytes);
}
uint64_t log_left(Writer *tx, uint64_t *all)
{
	return fur_update_room(tx->update, all);
}
void fur_promote(Writer *tx, void *at)
{
	::fur_promote(tx->update, at);
}
[[noreturn]] void no_room(Writer *tx)
{
	longjmp(tx->no_room, 1);
}
[[noreturn]] void too_long(Writer *tx) /* not called: fur_map_put() has looked at the sizes */
{
	no_room(tx);
}

} // namespace

/* It has fur_read() and fur_write(). */
template <>
constexpr bool fur::detail::is_fur<Writer> = true;

namespace
{

/* The type of keys and values: laid out as a fur::string. */
struct Bytes {
	uint64_t word[fur::detail::Text::WORDS];
};

/* A caller's bytes, or a stored key: its words, whose block `tx` can load. */
class BytesView
{
public:
	BytesView(const void *bytes, size_t size)
	    : words_(bytes, size), bytes_(static_cast<const char *>(bytes))
	{
	}
	BytesView(Writer *tx, const uint64_t *at) : words_(tx, at), tx_(tx) {}
	BytesView(const fur_map_lookup &lookup) : BytesView(lookup.key, lookup.key_bytes) {}
	/* For less() only: a key behind all others. */
	static BytesView behind_all()
	{
		return {&BEHIND_ALL, 0};
	}
	bool is_behind_all() const
	{
		return bytes_ == &BEHIND_ALL;
	}

	size_t size() const
	{
		return words_.size();
	}
	/* Not of a stored key that has a block. */
	const char *data() const
	{
		return bytes_ ? bytes_ : reinterpret_cast<const char *>(words_.word) + 4;
	}
	/* The block of a stored key, or NULL. */
	const uint64_t *block() const
	{
		return tx_ ? words_.block() : nullptr;
	}
	/* Word i of the block. */
	uint64_t word(size_t i) const
	{
		return fur_load(tx_, &block()[i]);
	}

private:
	static constexpr char BEHIND_ALL = 0; /* its address counts */

	fur::detail::Text words_;
	const char *bytes_ = nullptr;
	Writer *tx_ = nullptr;
};

} // namespace

template <>
struct fur::stored<Bytes> : fur::detail::TextCodec<BytesView> {
	using value = BytesView;
	using Codec = detail::TextCodec<BytesView>;

	static BytesView load(Writer *tx, const uint64_t *at)
	{
		return {tx, at};
	}
	static void create(Writer *tx, uint64_t *at, const view &value)
	{
		const uint64_t *from = value.block();
		if (!from)
			return Codec::create(tx, at, value);
		const size_t words = detail::Text::block_words(value.size());
		auto *block = static_cast<uint64_t *>(fur_alloc(tx, 8 * words));
		if (!block)
			no_room(tx);
		detail::move_words(tx, block, from, words);
		/* A stored text of this size begins as every other: with size and 4 characters. */
		const uint64_t first = value.word(0) << 32 | value.size();
		fur_store(tx, &at[0], first);
		fur_store(tx, &at[1], detail::word_of(block));
	}
	template <class Tx>
	static bool less(Tx *tx, const uint64_t *at, const view &value)
	{
		return value.is_behind_all() || Codec::less(tx, at, value);
	}
	static uint64_t hash_of(const view &value)
	{
		if (!value.block())
			return Codec::hash_of(value);
		return detail::hash_words(value.size(), [&](size_t i) { return value.word(i); });
	}
	static uint64_t secret_hash_of(const uint64_t *secret, const view &value)
	{
		if (!value.block())
			return Codec::secret_hash_of(secret, value);
		return detail::secret_hash_words(
		        secret, value.size(), [&](size_t i) { return value.word(i); });
	}
};

using Hash = fur::hash_map<Bytes, Bytes>;
using Ordered = fur::ordered_map<Bytes, Bytes>;
using Codec = fur::stored<Bytes>;

/* In the heap, as long as a line, of which it uses 24 bytes. */
struct fur_map {
	enum : uint64_t { MAGIC = UINT64_C(0x70616d727566) << 16 }; /* "furmap" */

	uint64_t kind; /* MAGIC | enum fur_map_kind */
	union Map {
		Hash hash;
		Ordered ordered;
	} map;
};
static_assert(sizeof(fur_map) == 24, "the format of maps");

namespace
{

/* -------------------------------------------------------------------- refusals */

/* Of an update that has failed. */
int refuse_failed(const fur_update *update)
{
	switch (update->error) {
	case FUR_ENOSPC:
		return fur_fail(FUR_ENOSPC, "the heap is full: remove something, or give it more "
		                            "room (fur_grow, fur-resize)");
	case FUR_ETOOBIG:
		return fur_fail(FUR_ETOOBIG, "the update does not fit its log: make it smaller, or "
		                             "the logs larger, with fur-resize --log-bytes");
	default: return fur_fail(update->error, "%s", fur_strerror(update->error));
	}
}

bool is_kind(uint64_t kind)
{
	return kind == FUR_MAP_HASH || kind == FUR_MAP_ORDERED;
}
const char *name_of(uint64_t kind)
{
	return kind == FUR_MAP_HASH ? "hash" : "ordered";
}
int refuse_kind(const char *function, unsigned kind)
{
	return fur_fail(FUR_EINVAL, "%s: kind %u is neither FUR_MAP_HASH nor FUR_MAP_ORDERED",
	        function, kind);
}

/* The map's kind.   Errors: FUR_EINVAL if it is none. */
template <class Tx>
int kind_of(Tx *tx, const fur_map *map, const char *function)
{
	if (map && reinterpret_cast<uintptr_t>(map) % FUR_CACHE_LINE == 0) {
		const uint64_t kind = fur_load(tx, &map->kind) ^ fur_map::MAGIC;
		if (is_kind(kind))
			return static_cast<int>(kind);
	}
	return fur_fail(FUR_EINVAL,
	        "%s: there is no map at %p (fur_map_create() and fur_map_root() return maps)",
	        function, static_cast<const void *>(map));
}

/* Can the transaction be used? */
int check_open(const fur_ro *ro, const char *function)
{
	return ro ? 0 : fur_fail(FUR_ENOTX, "%s: the transaction is NULL", function);
}
int check_open(const fur_reader *reader, const char *function)
{
	return reader && reader->open
	               ? 0
	               : fur_fail(FUR_ENOTX, "%s: the reader's transaction is not open", function);
}
int check_open(const fur_update *update, const char *function)
{
	if (!tx_is_mine(update))
		return tx_not_mine(update, function);
	/* A failed update may have stored half of a change. */
	return update->error ? fur_fail(update->error, "%s: the update has failed before (%s)",
	                               function, fur_strerror(update->error))
	                     : 0;
}
/* The kind of a map that the transaction can use, or an error. */
template <class Tx>
int begin(Tx *tx, const fur_map *map, const char *function)
{
	const int error = check_open(tx, function);
	return error ? error : kind_of(tx, map, function);
}
int check_bytes(const void *at, size_t bytes, const char *name, const char *function)
{
	if (bytes > UINT32_MAX)
		return fur_fail(FUR_EINVAL, "%s: the %s has %zu bytes, which is more than 4 GiB",
		        function, name, bytes);
	if (!at && bytes)
		return fur_fail(FUR_EINVAL, "%s: the %s is NULL", function, name);
	return 0;
}

/* --------------------------------------------------------------------- changes */

/* The result of change(Writer *), or the error for which the update has failed. */
template <class Change>
int try_to(fur_update *update, Change change)
{
	Writer tx{update, {}};
	if (setjmp(tx.no_room) == 0) {
		const int result = change(&tx);
		if (!update->error)
			return result;
	} else {
		tx_fail(update, FUR_ENOSPC);
	}
	return refuse_failed(update);
}

/* The same for change(Writer *, Map &). */
template <class Change>
int try_to_change(fur_update *update, fur_map *map, int kind, Change change)
{
	return try_to(update, [&](Writer *tx) {
		return kind == FUR_MAP_HASH ? change(tx, map->map.hash)
		                            : change(tx, map->map.ordered);
	});
}

/* fur_map_put() and fur_map_insert(). */
int add(fur_update *update, fur_map *map, BytesView key, BytesView value, bool replace,
        const char *function)
{
	const int kind = begin(update, map, function);
	if (kind < 0)
		return kind;
	return try_to_change(update, map, kind, [&](Writer *tx, auto &entries) {
		return +(replace ? entries.insert_or_assign(tx, key, value)
		                 : entries.insert(tx, key, value));
	});
}
int check_entry(const void *key, size_t key_bytes, const void *value, size_t value_bytes,
        const char *function)
{
	const int error = check_bytes(key, key_bytes, "key", function);
	return error ? error : check_bytes(value, value_bytes, "value", function);
}

void store_zeroes(fur_update *update, void *at, size_t bytes)
{
	for (size_t i = 0; i < bytes / 8; i++)
		fur_store(update, static_cast<uint64_t *>(at) + i, 0);
}

/* --------------------------------------------------------------------- reading */

/* f(map), of its type. */
template <class F>
auto with_map(const fur_map *map, int kind, F f)
{
	return kind == FUR_MAP_HASH ? f(map->map.hash) : f(map->map.ordered);
}

/* Up to `room` bytes of a text; none if `to` is NULL.  Returns: its size. */
template <class Tx>
size_t copy_text(Tx *tx, const uint64_t *at, void *to, size_t room)
{
	const fur::detail::Text text(tx, at);
	const size_t bytes = text.size() < room ? text.size() : room;
	if (!to || bytes == 0)
		return text.size();
	if (const uint64_t *block = text.block())
		fur_read(tx, to, block, bytes);
	else
		memcpy(to, reinterpret_cast<const char *>(text.word) + 4, bytes);
	return text.size();
}

template <class Tx>
int size_of(Tx *tx, const fur_map *map, uint64_t *size, const char *function)
{
	const int kind = begin(tx, map, function);
	if (kind < 0)
		return kind;
	if (!size)
		return fur_fail(FUR_EINVAL, "%s: size is NULL", function);
	*size = with_map(map, kind, [&](const auto &entries) { return entries.size(tx); });
	return 0;
}

template <class Tx>
int get(Tx *tx, const fur_map *map, const void *key, size_t key_bytes, void *value, size_t *bytes,
        const char *function)
{
	const int kind = begin(tx, map, function);
	if (kind < 0)
		return kind;
	if (int error = check_bytes(key, key_bytes, "key", function))
		return error;
	if (!bytes || (!value && *bytes))
		return fur_fail(FUR_EINVAL, "%s: %s is NULL", function, bytes ? "value" : "bytes");
	const uint64_t *words = with_map(map, kind, [&](const auto &entries) {
		return entries.value_words(tx, BytesView(key, key_bytes));
	});
	*bytes = words ? copy_text(tx, words, value, *bytes) : 0;
	return words != nullptr;
}

template <class Tx>
int get_many(Tx *tx, const fur_map *map, fur_map_lookup *lookups, size_t n, const char *function)
{
	const int kind = begin(tx, map, function);
	if (kind < 0)
		return kind;
	if (n > INT_MAX || (!lookups && n))
		return fur_fail(FUR_EINVAL, "%s: %s", function,
		        lookups ? "more than INT_MAX keys: use several calls" : "lookups is NULL");
	for (size_t i = 0; i < n; i++) {
		if (int error = check_bytes(lookups[i].key, lookups[i].key_bytes, "key", function))
			return error;
		if (!lookups[i].value && lookups[i].room)
			return fur_fail(FUR_EINVAL, "%s: value is NULL", function);
		lookups[i].bytes = 0;
		lookups[i].found = 0;
	}
	return static_cast<int>(with_map(map, kind, [&](const auto &entries) {
		return entries.find_many(tx, lookups, n, [=](size_t i, const uint64_t *words) {
			lookups[i].bytes = copy_text(tx, words, lookups[i].value, lookups[i].room);
			lookups[i].found = 1;
		});
	}));
}

/* ------------------------------------------------------------------- iterators */

/* The contents of a fur_map_iterator. */
template <class Tx, class Map>
struct Place {
	Tx *tx;
	const Map *map;
	typename Map::template iterator<Tx> at;

	bool at_end() const
	{
		return at == map->in(tx).end();
	}
	int found() const
	{
		return !at_end();
	}
};
enum class In : uint32_t { RO, READER, UPDATE, CHANGE };
struct AnyPlace {
	uint32_t kind; /* of the map; 0: none */
	In in;         /* what transaction */
	union Any {
		Any() : hash_ro{} {}
		Place<fur_ro, Hash> hash_ro;
		Place<fur_reader, Hash> hash_reader;
		Place<fur_update, Hash> hash_update;
		Place<fur_ro, Ordered> ordered_ro;
		Place<fur_reader, Ordered> ordered_reader;
		Place<fur_update, Ordered> ordered_update;
		/* Of a predicate. */
		Place<Writer, Hash> hash_change;
		Place<Writer, Ordered> ordered_change;
	} any;

	/* Become one of them. */
	template <class Tx, class Map>
	Place<Tx, Map> *make(Tx *tx, const Map *map)
	{
		in = std::is_same_v<Tx, fur_ro>       ? In::RO
		     : std::is_same_v<Tx, fur_reader> ? In::READER
		     : std::is_same_v<Tx, Writer>     ? In::CHANGE
		                                      : In::UPDATE;
		return new (&any) Place<Tx, Map>{tx, map, {}};
	}
	/* The key or the value, whose words are words(iterator): up to `room` bytes of it.
	 * Returns: its size; 0 at the end. */
	template <class Words>
	size_t copy(void *to, size_t room, Words words)
	{
		return with([=](auto &place) {
			return place.at_end() ? 0 : copy_text(place.tx, words(place.at), to, room);
		});
	}
	/* f(place), of its type. */
	template <class F>
	auto with(F f)
	{
		const bool hash = kind == FUR_MAP_HASH;
		if (in == In::READER)
			return hash ? f(any.hash_reader) : f(any.ordered_reader);
		if (in == In::UPDATE)
			return hash ? f(any.hash_update) : f(any.ordered_update);
		if (in == In::CHANGE)
			return hash ? f(any.hash_change) : f(any.ordered_change);
		return hash ? f(any.hash_ro) : f(any.ordered_ro);
	}
};
static_assert(sizeof(AnyPlace) <= sizeof(fur_map_iterator) &&
              alignof(AnyPlace) <= alignof(fur_map_iterator) &&
              std::is_trivially_destructible_v<AnyPlace>);

/* NULL: it was not set by fur_map_seek(). */
AnyPlace *place_of(const fur_map_iterator *it, const char *function)
{
	auto *place = reinterpret_cast<AnyPlace *>(const_cast<fur_map_iterator *>(it));
	if (place && is_kind(place->kind))
		return place;
	fur_fail(FUR_EINVAL, "%s: the iterator is not that of a successful fur_map_seek()",
	        function);
	return nullptr;
}

template <class Tx>
bool go(Place<Tx, Hash> &place, fur_map_place where, BytesView key)
{
	if (where == FUR_MAP_FIRST)
		place.at = place.map->in(place.tx).begin();
	else
		place.at = place.map->find(place.tx, key);
	return where == FUR_MAP_FIRST || where == FUR_MAP_AT;
}
template <class Tx>
bool go(Place<Tx, Ordered> &place, fur_map_place where, BytesView key)
{
	const auto all = place.map->in(place.tx);
	switch (where) {
	case FUR_MAP_FIRST: place.at = all.begin(); return true;
	case FUR_MAP_LAST:
		place.at = all.end();
		--place.at;
		return true;
	case FUR_MAP_AT: place.at = all.find(key); return true;
	case FUR_MAP_FROM: place.at = all.lower_bound(key); return true;
	case FUR_MAP_BEHIND: place.at = all.upper_bound(key); return true;
	case FUR_MAP_FLOOR: place.at = all.floor(key); return true;
	case FUR_MAP_BEFORE:
		place.at = all.lower_bound(key);
		--place.at;
		return true;
	}
	return false;
}

int refuse_place(const char *function, bool hash, fur_map_place where)
{
	return fur_fail(FUR_EINVAL, "%s: %s map cannot go to place %d", function,
	        hash ? "a hash" : "an ordered", static_cast<int>(where));
}

template <class Tx>
int seek(Tx *tx, const fur_map *map, fur_map_place where, const void *key, size_t key_bytes,
        fur_map_iterator *it, const char *function)
{
	if (!it)
		return fur_fail(FUR_EINVAL, "%s: the iterator is NULL", function);
	auto *place = new (it) AnyPlace;
	place->kind = 0;
	const int kind = begin(tx, map, function);
	if (kind < 0)
		return kind;
	if (where != FUR_MAP_FIRST && where != FUR_MAP_LAST)
		if (int error = check_bytes(key, key_bytes, "key", function))
			return error;
	return with_map(map, kind, [&](const auto &entries) {
		auto *at = place->make(tx, &entries);
		if (!go(*at, where, BytesView(key, key_bytes)))
			return refuse_place(function, kind == FUR_MAP_HASH, where);
		place->kind = static_cast<uint32_t>(kind);
		return at->found();
	});
}

/* ----------------------------------------------------------------- copies of entries */

/* Room for entries, in the format of fur_map_copy_at(). */
struct Copies {
	unsigned char *to;
	size_t room, used;

	/* The bytes that the copy of an entry takes. */
	template <class At, class Tx>
	static size_t bytes_of(Tx *tx, const At &at)
	{
		return 2 * sizeof(uint32_t) + fur::detail::Text(tx, at.key_words()).size() +
		       fur::detail::Text(tx, at.value_words()).size();
	}
	/* The words of a text.  Returns: its size. */
	template <class Tx>
	uint32_t add_text(Tx *tx, const uint64_t *words)
	{
		const size_t bytes = copy_text(tx, words, to + used, room - used);
		used += bytes;
		return static_cast<uint32_t>(bytes);
	}
	/* Add the entry, if there is room. */
	template <class Tx, class At>
	bool add(Tx *tx, const At &at)
	{
		if (bytes_of(tx, at) > room - used)
			return false;
		uint32_t sizes[2];
		unsigned char *start = to + used;
		used += sizeof sizes;
		sizes[0] = add_text(tx, at.key_words());
		sizes[1] = add_text(tx, at.value_words());
		memcpy(start, sizes, sizeof sizes);
		return true;
	}
};
/* Copies that a caller asks for: can there be any? */
int check_room(const void *entries, const size_t *bytes, const char *function)
{
	return bytes && (entries || !*bytes) ? 0
	                                     : fur_fail(FUR_EINVAL, "%s: %s is NULL", function,
	                                               bytes ? "entries" : "bytes");
}

/* The room for the rest of a leaf, or bucket, and what is copied already. */
template <class Tx>
size_t room_for_leaf(Tx *tx, const Hash &map, Hash::iterator<Tx> at, size_t copied)
{
	const auto end = map.in(tx).end();
	for (const uint64_t leaf = at.leaf_place(); at != end && at.leaf_place() == leaf; ++at)
		copied += Copies::bytes_of(tx, at);
	return copied;
}
/* Copy whole leaves, and buckets, from a place on, which becomes that to go on from.  If there is
 * no room for the first one, `used` becomes the room that it needs.  Returns: are there more? */
template <class Tx>
bool copy_leaves(Tx *tx, const Hash &map, uint64_t *place, size_t most, Copies *copies)
{
	size_t whole = 0; /* the bytes of the leaves before this one */
	auto at = map.begin_at(tx, *place);
	uint64_t leaf = at.leaf_place();
	for (const auto end = map.in(tx).end(); at != end; ++at) {
		if (at.leaf_place() != leaf) {
			leaf = at.leaf_place();
			whole = copies->used;
			if (most == 0)
				break;
		}
		if (!copies->add(tx, at)) {
			copies->used = whole ? whole : room_for_leaf(tx, map, at, copies->used);
			break;
		}
		most -= most > 0;
	}
	const bool more = at != map.in(tx).end();
	*place = more ? leaf : 0;
	return more;
}
template <class Tx>
int scan(Tx *tx, const fur_map *map, uint64_t *place, size_t most, void *entries, size_t *bytes,
        const char *function)
{
	if (int error = check_room(entries, bytes, function))
		return error;
	Copies copies{static_cast<unsigned char *>(entries), *bytes, 0};
	uint64_t next = place ? *place : 0;
	int result = begin(tx, map, function);
	if (result == FUR_MAP_ORDERED)
		result = fur_fail(FUR_EINVAL,
		        "%s: the places of an ordered map are its keys: go on by "
		        "fur_map_seek() with the last key, and FUR_MAP_BEHIND",
		        function);
	else if (result > 0)
		result = place ? +copy_leaves(tx, map->map.hash, &next, most, &copies)
		               : fur_fail(FUR_EINVAL, "%s: place is NULL", function);
	*bytes = result < 0 ? 0 : copies.used;
	if (result >= 0)
		*place = next;
	return result;
}

/* The words of a text, where they can be seen. */
fur_map_bytes view_of(fur_ro *ro, const uint64_t *at)
{
	const fur::detail::Text text(ro, at);
	const void *inside = reinterpret_cast<const char *>(at) + 4;
	return {text.block() ? text.block() : inside, text.size()};
}

/* body(reader), for functions that take a body in C, and its result. */
template <class Body>
struct ReaderCall {
	Body body;
	int result;

	static void run(fur_reader *reader, void *arg)
	{
		auto *mine = static_cast<ReaderCall *>(arg);
		mine->result = mine->body(reader);
	}
};
/* The slow half of read_one(): not inlined, so that nothing of the other half has an address. */
template <class Body>
[[gnu::noinline]] int read_again(fur_thread *thread, Body body)
{
	ReaderCall<Body> call{body, 0};
	const int error = fur_read_run(thread, call.run, &call, nullptr);
	return error ? error : call.result;
}
/* Run body(tx) as a transaction of its own, as fur::read(thread, fur::rerun, body) does: by plain
 * loads, unless updates publish beside each other.  Then a plain reader would shut them out.
 * Returns: its result, or an error. */
template <class Body>
int read_one(fur_thread *thread, Body body)
{
	fur_ro *ro;
	if (!fur_try_begin_ro(thread, &ro))
		return read_again(thread, body);
	const int result = body(ro);
	const int error = fur_end_ro(ro, nullptr);
	return error ? error : result;
}

/* ----------------------------------------------------------------------- roots */

/* The table of root.hpp, with keys that libfur can leave. */
using Names = fur::ordered_map<Bytes, fur::detail::NamedRoot>;
using fur::detail::NamedRoot;

uint64_t type_of(fur_map_kind kind)
{
	return fur::detail::combine({11, static_cast<uint64_t>(kind)});
}
template <class Tx>
const NamedRoot *find_root(Tx *tx, const char *name, NamedRoot &root)
{
	const auto *names = static_cast<const Names *>(fur_root(tx, fur::detail::NAMES_ROOT));
	const uint64_t *at =
	        names ? names->value_words(tx, BytesView(name, strlen(name))) : nullptr;
	if (!at)
		return nullptr;
	root = {fur_load(tx, &at[0]), fur_load(tx, &at[1])};
	return &root;
}
int check_root(const NamedRoot &root, const char *name, fur_map_kind kind, fur_map **map)
{
	if (root.type != type_of(kind))
		return fur_fail(FUR_EINVAL,
		        "the heap's root '%s' is not the root of an %s map of fur_map.h: use the "
		        "program that made it, or another name",
		        name, name_of(kind));
	*map = fur::detail::pointer<fur_map>(root.object);
	return 1;
}
int check_name(fur_thread *thread, const char *name, const char *function)
{
	if (!thread || !name)
		return fur_fail(FUR_EINVAL, "%s: thread and name must not be NULL", function);
	if (this_thread()->open)
		return fur_fail(FUR_ENESTED,
		        "%s was called while this thread has a transaction open: end that first",
		        function);
	return 0;
}

/* The arguments of the bodies of fur_map_root() and fur_map_remove_root(), and their results. */
struct RootCall {
	const char *name;
	fur_map_kind kind;
	fur_map *map;
	int result;
};
int add_root(Writer *tx, RootCall *call)
{
	fur_update *update = tx->update;
	auto *names = static_cast<Names *>(fur_root(update, fur::detail::NAMES_ROOT));
	if (!names) {
		names = static_cast<Names *>(fur_alloc(tx, sizeof(Names)));
		if (!names)
			no_room(tx);
		store_zeroes(update, static_cast<void *>(names), sizeof(Names));
		fur_set_root(update, fur::detail::NAMES_ROOT, names);
	}
	call->map = fur_map_create(update, call->kind);
	if (!call->map)
		no_room(tx);
	names->insert(tx, BytesView(call->name, strlen(call->name)),
	        {fur::detail::word_of(call->map), type_of(call->kind)});
	return 1;
}
void make_root(fur_update *update, void *arg)
{
	auto *call = static_cast<RootCall *>(arg);
	NamedRoot root;
	/* Another thread may have been quicker. */
	if (find_root(update, call->name, root))
		call->result = check_root(root, call->name, call->kind, &call->map);
	else
		call->result = try_to(update, [&](Writer *tx) { return add_root(tx, call); });
}
enum : uint64_t { PART = 1000 }; /* entries that an update of several removes */

/* Remove up to `most` entries of the range.  Returns: 1: there may be more to do. */
int remove_some(
        Writer *tx, Ordered &entries, const fur_map_range &range, uint64_t most, uint64_t *gone)
{
	const BytesView first(range.first, range.first_bytes),
	        last = range.last ? BytesView(range.last, range.last_bytes)
	                          : BytesView::behind_all();
	const auto [n, more] = entries.delete_some(tx, first, last, most);
	*gone += n;
	return more;
}
int check_range(const fur_map_range *range, const char *function)
{
	if (!range)
		return fur_fail(FUR_EINVAL, "%s: the range is NULL", function);
	const int error = check_bytes(range->first, range->first_bytes, "first key", function);
	return error ? error : check_bytes(range->last, range->last_bytes, "last key", function);
}

/* The arguments of the bodies that run in several updates. */
struct PartCall {
	fur_map *map;
	const char *function;
	const fur_map_range *range = nullptr; /* fur_map_remove_range_in_parts() */
	bool destroys = false;                /* fur_map_destroy_in_parts() */
	uint64_t gone = 0;                    /* entries, in this part */
	int result = 0;                       /* 1: there is more to do */
};
int remove_range(fur_update *update, fur_map *map, const fur_map_range &range, uint64_t most,
        uint64_t *gone, const char *function)
{
	const int kind = begin(update, map, function);
	if (kind < 0)
		return kind;
	if (kind == FUR_MAP_HASH)
		return fur_fail(FUR_EINVAL, "%s: a hash map has no order", function);
	return try_to(update,
	        [&](Writer *tx) { return remove_some(tx, map->map.ordered, range, most, gone); });
}
void remove_part(fur_update *update, void *arg)
{
	auto *call = static_cast<PartCall *>(arg);
	call->gone = 0;
	call->result =
	        remove_range(update, call->map, *call->range, PART, &call->gone, call->function);
}
void clear_part(fur_update *update, void *arg)
{
	auto *call = static_cast<PartCall *>(arg);
	const int kind = begin(update, call->map, call->function);
	call->result =
	        kind < 0 ? kind
	                 : try_to_change(update, call->map, kind, [](Writer *tx, auto &entries) {
		                   return +entries.clear_some(tx, PART);
	                   });
	if (call->result == 0 && call->destroys)
		call->result = fur_map_destroy(update, call->map);
}
/* Can the thread begin updates? */
int check_outside(const fur_thread *thread, const char *function)
{
	if (!thread)
		return fur_fail(FUR_EINVAL, "%s: the thread is NULL", function);
	if (thread->update.depth || thread->ro.depth)
		return fur_fail(FUR_ENESTED, "%s: end this thread's transaction first", function);
	return 0;
}
/* Returns: 0, or an error; *removed, unless NULL, counts what the updates have removed. */
int run_in_parts(
        fur_thread *thread, void (*part)(fur_update *, void *), PartCall call, uint64_t *removed)
{
	if (int error = check_outside(thread, call.function))
		return error;
	do {
		if (int error = fur_update_run(thread, part, &call, nullptr))
			return error;
		if (removed)
			*removed += call.gone;
	} while (call.result > 0);
	return call.result;
}
void remove_root(fur_update *update, void *arg)
{
	auto *call = static_cast<RootCall *>(arg);
	auto *names = static_cast<Names *>(fur_root(update, fur::detail::NAMES_ROOT));
	call->result = names ? try_to(update,
	                               [&](Writer *tx) {
		                               return static_cast<int>(names->erase(tx,
		                                       BytesView(call->name, strlen(call->name))));
	                               })
	                     : 0;
}

/* ----------------------------------------------------------- removal by a predicate */

/* The arguments of fur_map_remove_if() and fur_map_remove_if_in_parts(). */
struct Removal {
	fur_map *map;
	int (*which)(const fur_map_iterator *entry, void *arg);
	void *arg;
	const char *function;
};
/* Where an update ends that does a part of a removal, and the next one begins. */
struct Mark {
	uint64_t place; /* of a hash map */
	char *key;      /* of an ordered map: allocated; NULL: its first key */
	size_t key_bytes, room;

	Hash::iterator<Writer> begin(Writer *tx, const Hash &map) const
	{
		return map.begin_at(tx, place);
	}
	Ordered::iterator<Writer> begin(Writer *tx, const Ordered &map) const
	{
		return key ? map.lower_bound(tx, BytesView(key, key_bytes)) : map.in(tx).begin();
	}
	/* Returns: 0, or FUR_ENOMEM. */
	int set(Writer * /* tx */, const Hash::iterator<Writer> &at)
	{
		place = at.leaf_place();
		return 0;
	}
	int set(Writer *tx, const Ordered::iterator<Writer> &at)
	{
		const size_t bytes = copy_text(tx, at.key_words(), nullptr, 0);
		if (bytes >= room) {
			auto *more = static_cast<char *>(realloc(key, bytes + 1));
			if (!more)
				return fur_fail(FUR_ENOMEM,
				        "no memory for the key to go on from, of %zu bytes", bytes);
			key = more;
			room = bytes + 1;
		}
		key_bytes = copy_text(tx, at.key_words(), key, room);
		return 0;
	}
	/* Can a part end here, which began with `first`?  The next one must not begin at the same
	 * entry. */
	static bool is_behind(const Hash::iterator<Writer> &first, const Hash::iterator<Writer> &at)
	{
		return at.leaf_place() != first.leaf_place();
	}
	static bool is_behind(const Ordered::iterator<Writer> & /* first */,
	        const Ordered::iterator<Writer> & /* at */)
	{
		return true;
	}
};

/* Remove entries; with a mark a part of them, from it on.
 * Returns: 1: there are more; 0; the negative number of the predicate, or an error. */
template <class Map>
int remove_entries_if(Writer *tx, Map &entries, const Removal &call, Mark *mark, uint64_t *gone)
{
	const Mark none{};
	fur_map_iterator it;
	auto *any = new (&it) AnyPlace;
	any->kind = std::is_same_v<Map, Hash> ? FUR_MAP_HASH : FUR_MAP_ORDERED;
	auto *place = any->make(tx, &entries);
	place->at = (mark ? mark : &none)->begin(tx, entries);
	const auto first = place->at;
	uint64_t removed = 0, seen = 0;
	int result = 0;
	(void)entries.erase_from(tx, place->at, [&](const auto &at) {
		if (tx->update->error)
			return -1;
		if (mark && ((removed && !fur::detail::room_for_a_step(tx)) ||
		                    (seen >= PART && Mark::is_behind(first, at)))) {
			result = mark->set(tx, at);
			result = result ? result : 1;
			return -1;
		}
		seen++;
		const int decision = call.which(&it, call.arg);
		if (decision < 0)
			result = decision;
		removed += decision > 0;
		return decision;
	});
	*gone = removed;
	return result;
}
int remove_if(fur_update *update, const Removal &call, Mark *mark, uint64_t *gone)
{
	const int kind = begin(update, call.map, call.function);
	if (kind < 0)
		return kind;
	if (!call.which)
		return fur_fail(FUR_EINVAL, "%s: the predicate is NULL", call.function);
	return try_to_change(update, call.map, kind, [&](Writer *tx, auto &entries) {
		return remove_entries_if(tx, entries, call, mark, gone);
	});
}
/* A part, in an update of its own.   Returns: as remove_entries_if(). */
int remove_part_if(fur_thread *thread, const Removal &call, Mark *mark, uint64_t *removed)
{
	fur_update *update;
	if (int error = fur_begin_update(thread, &update))
		return error;
	uint64_t gone = 0;
	const int result = remove_if(update, call, mark, &gone);
	if (result < 0) {
		(void)fur_abort(update);
		return result;
	}
	if (int error = fur_commit(update, nullptr))
		return error;
	*removed += gone;
	return result;
}

} // namespace

FUR_API fur_map *fur_map_create(fur_update *update, fur_map_kind kind)
{
	if (check_open(update, __func__))
		return nullptr;
	if (!is_kind(kind)) {
		refuse_kind(__func__, kind);
		tx_fail(update, FUR_EINVAL);
		return nullptr;
	}
	void *map = fur_alloc_aligned(update, FUR_CACHE_LINE, FUR_CACHE_LINE);
	if (!map)
		return nullptr;
	/* A later libfur may use the rest of the line. */
	store_zeroes(update, map, FUR_CACHE_LINE);
	fur_store(update, &static_cast<fur_map *>(map)->kind,
	        fur_map::MAGIC | static_cast<uint64_t>(kind));
	return static_cast<fur_map *>(map);
}

FUR_API int fur_map_clear(fur_update *update, fur_map *map)
{
	const int kind = begin(update, map, __func__);
	if (kind < 0)
		return kind;
	return try_to_change(update, map, kind, [](Writer *tx, auto &entries) {
		entries.clear(tx);
		return 0;
	});
}

FUR_API int fur_map_destroy(fur_update *update, fur_map *map)
{
	if (!map)
		return check_open(update, __func__);
	if (int error = fur_map_clear(update, map))
		return error;
	fur_store(update, &map->kind, 0); /* so that a use after this is found */
	fur_free(update, map);
	return update->error ? refuse_failed(update) : 0;
}

FUR_API int fur_map_clear_in_parts(fur_thread *thread, fur_map *map)
{
	return run_in_parts(thread, clear_part, {map, __func__}, nullptr);
}

FUR_API int fur_map_destroy_in_parts(fur_thread *thread, fur_map *map)
{
	return map ? run_in_parts(thread, clear_part, {map, __func__, nullptr, true}, nullptr) : 0;
}

FUR_API int fur_map_put(fur_update *update, fur_map *map, const void *key, size_t key_bytes,
        const void *value, size_t value_bytes)
{
	if (int error = check_entry(key, key_bytes, value, value_bytes, __func__))
		return error;
	return add(update, map, {key, key_bytes}, {value, value_bytes}, true, __func__);
}

FUR_API int fur_map_insert(fur_update *update, fur_map *map, const void *key, size_t key_bytes,
        const void *value, size_t value_bytes)
{
	if (int error = check_entry(key, key_bytes, value, value_bytes, __func__))
		return error;
	return add(update, map, {key, key_bytes}, {value, value_bytes}, false, __func__);
}

FUR_API int fur_map_remove(fur_update *update, fur_map *map, const void *key, size_t key_bytes)
{
	const int kind = begin(update, map, __func__);
	if (kind < 0)
		return kind;
	if (int error = check_bytes(key, key_bytes, "key", __func__))
		return error;
	return try_to_change(update, map, kind, [&](Writer *tx, auto &entries) {
		return static_cast<int>(entries.erase(tx, BytesView(key, key_bytes)));
	});
}

FUR_API int fur_map_remove_range(
        fur_update *update, fur_map *map, const fur_map_range *range, uint64_t *removed)
{
	uint64_t gone = 0;
	if (removed)
		*removed = 0;
	if (int error = check_range(range, __func__))
		return error;
	int result;
	do
		result = remove_range(update, map, *range, UINT64_MAX, &gone, __func__);
	while (result > 0);
	if (removed && result == 0)
		*removed = gone;
	return result;
}

FUR_API int fur_map_remove_range_in_parts(
        fur_thread *thread, fur_map *map, const fur_map_range *range, uint64_t *removed)
{
	if (removed)
		*removed = 0;
	if (int error = check_range(range, __func__))
		return error;
	return run_in_parts(thread, remove_part, {map, __func__, range}, removed);
}

FUR_API int fur_map_remove_if(fur_update *update, fur_map *map,
        int (*which)(const fur_map_iterator *entry, void *arg), void *arg, uint64_t *removed)
{
	uint64_t gone = 0;
	const int result = remove_if(update, {map, which, arg, __func__}, nullptr, &gone);
	if (removed)
		*removed = gone;
	return result;
}

FUR_API int fur_map_remove_if_in_parts(fur_thread *thread, fur_map *map,
        int (*which)(const fur_map_iterator *entry, void *arg), void *arg, uint64_t *removed)
{
	uint64_t gone = 0;
	int result = check_outside(thread, __func__);
	if (!result) {
		Mark mark{};
		do
			result = remove_part_if(thread, {map, which, arg, __func__}, &mark, &gone);
		while (result > 0);
		free(mark.key);
	}
	if (removed)
		*removed = gone;
	return result;
}

FUR_API int fur_map_size_ro(fur_ro *ro, const fur_map *map, uint64_t *size)
{
	return size_of(ro, map, size, __func__);
}
FUR_API int fur_map_size_reader(fur_reader *reader, const fur_map *map, uint64_t *size)
{
	return size_of(reader, map, size, __func__);
}
FUR_API int fur_map_size_update(fur_update *update, const fur_map *map, uint64_t *size)
{
	return size_of(update, map, size, __func__);
}

FUR_API int fur_map_get_ro(fur_ro *ro, const fur_map *map, const void *key, size_t key_bytes,
        void *value, size_t *bytes)
{
	return get(ro, map, key, key_bytes, value, bytes, __func__);
}
FUR_API int fur_map_get_reader(fur_reader *reader, const fur_map *map, const void *key,
        size_t key_bytes, void *value, size_t *bytes)
{
	return get(reader, map, key, key_bytes, value, bytes, __func__);
}
FUR_API int fur_map_get_update(fur_update *update, const fur_map *map, const void *key,
        size_t key_bytes, void *value, size_t *bytes)
{
	return get(update, map, key, key_bytes, value, bytes, __func__);
}

FUR_API int fur_map_seek_ro(fur_ro *ro, const fur_map *map, fur_map_place where, const void *key,
        size_t key_bytes, fur_map_iterator *it)
{
	return seek(ro, map, where, key, key_bytes, it, __func__);
}
FUR_API int fur_map_seek_reader(fur_reader *reader, const fur_map *map, fur_map_place where,
        const void *key, size_t key_bytes, fur_map_iterator *it)
{
	return seek(reader, map, where, key, key_bytes, it, __func__);
}
FUR_API int fur_map_seek_update(fur_update *update, const fur_map *map, fur_map_place where,
        const void *key, size_t key_bytes, fur_map_iterator *it)
{
	return seek(update, map, where, key, key_bytes, it, __func__);
}

FUR_API int fur_map_scan_ro(
        fur_ro *ro, const fur_map *map, uint64_t *place, size_t most, void *entries, size_t *bytes)
{
	return scan(ro, map, place, most, entries, bytes, __func__);
}
FUR_API int fur_map_scan_reader(fur_reader *reader, const fur_map *map, uint64_t *place,
        size_t most, void *entries, size_t *bytes)
{
	return scan(reader, map, place, most, entries, bytes, __func__);
}
FUR_API int fur_map_scan_update(fur_update *update, const fur_map *map, uint64_t *place,
        size_t most, void *entries, size_t *bytes)
{
	return scan(update, map, place, most, entries, bytes, __func__);
}

FUR_API int fur_map_next(fur_map_iterator *it)
{
	AnyPlace *any = place_of(it, __func__);
	if (!any)
		return FUR_EINVAL;
	return any->with([](auto &place) {
		if (!place.at_end())
			++place.at;
		return place.found();
	});
}

FUR_API int fur_map_previous(fur_map_iterator *it)
{
	AnyPlace *any = place_of(it, __func__);
	if (!any)
		return FUR_EINVAL;
	if (any->kind == FUR_MAP_HASH)
		return fur_fail(FUR_EINVAL, "%s: a hash map has no order", __func__);
	return any->with([](auto &place) {
		if constexpr (std::is_same_v<std::decay_t<decltype(*place.map)>, Ordered>)
			--place.at; /* from the first entry to the end, and from there back */
		return place.found();
	});
}

FUR_API size_t fur_map_key(const fur_map_iterator *it, void *to, size_t room)
{
	AnyPlace *any = place_of(it, __func__);
	return any ? any->copy(to, room, [](auto &at) { return at.key_words(); }) : 0;
}

FUR_API size_t fur_map_value(const fur_map_iterator *it, void *to, size_t room)
{
	AnyPlace *any = place_of(it, __func__);
	return any ? any->copy(to, room, [](auto &at) { return at.value_words(); }) : 0;
}

FUR_API int fur_map_view(const fur_map_iterator *it, fur_map_bytes *key, fur_map_bytes *value)
{
	AnyPlace *any = place_of(it, __func__);
	if (!any)
		return FUR_EINVAL;
	if (any->in != In::RO || !key || !value)
		return fur_fail(FUR_EINVAL,
		        any->in != In::RO
		                ? "%s: in an update or an optimistic reader, use fur_map_key() "
		                  "and fur_map_value()"
		                : "%s: key and value must not be NULL",
		        __func__);
	return any->with([=](auto &place) {
		if constexpr (std::is_same_v<decltype(place.tx), fur_ro *>) {
			*key = *value = {nullptr, 0};
			if (!place.at_end()) {
				*key = view_of(place.tx, place.at.key_words());
				*value = view_of(place.tx, place.at.value_words());
			}
		}
		return place.found();
	});
}

/* fur_map_find_root() and fur_map_find_root_at(): run(body) runs body(tx) in a transaction. */
template <class Run>
int find_named_root(const char *function, fur_thread *thread, const char *name, fur_map_kind kind,
        fur_map **map, Run run)
{
	if (!map)
		return fur_fail(FUR_EINVAL, "%s: map must not be NULL", function);
	*map = nullptr;
	if (int error = check_name(thread, name, function))
		return error;
	if (!is_kind(kind))
		return refuse_kind(function, kind);
	NamedRoot root{};
	const int found = run([&](auto *tx) { return +(find_root(tx, name, root) != nullptr); });
	return found == 1 ? check_root(root, name, kind, map) : found;
}

FUR_API int fur_map_find_root(
        fur_thread *thread, const char *name, fur_map_kind kind, fur_map **map)
{
	return find_named_root(__func__, thread, name, kind, map,
	        [thread](auto body) { return read_one(thread, body); });
}

FUR_API int fur_map_root(fur_thread *thread, const char *name, fur_map_kind kind, fur_map **map)
{
	const int found = fur_map_find_root(thread, name, kind, map);
	if (found)
		return found < 0 ? found : 0;
	RootCall call{name, kind, nullptr, 0};
	if (int error = fur_update_run(thread, make_root, &call, nullptr))
		return error;
	if (call.result < 0)
		return call.result;
	*map = call.map;
	return 0;
}

FUR_API int fur_map_remove_root(fur_thread *thread, const char *name)
{
	if (int error = check_name(thread, name, __func__))
		return error;
	RootCall call{name, FUR_MAP_HASH, nullptr, 0};
	const int error = fur_update_run(thread, remove_root, &call, nullptr);
	return error ? error : call.result;
}

/* --------------------------------------------------- one change, one transaction */

namespace
{

/* The arguments of the bodies of fur_map_put_one() and fur_map_remove_one(), and the result. */
struct OneCall {
	fur_map *map;
	const void *key;
	size_t key_bytes;
	const void *value;
	size_t value_bytes;
	int result;
};
void put_one(fur_update *update, void *arg)
{
	auto *call = static_cast<OneCall *>(arg);
	call->result = fur_map_put(
	        update, call->map, call->key, call->key_bytes, call->value, call->value_bytes);
}
void remove_one(fur_update *update, void *arg)
{
	auto *call = static_cast<OneCall *>(arg);
	call->result = fur_map_remove(update, call->map, call->key, call->key_bytes);
}
/* Run the body as an update of its own.  A body that was refused has changed nothing. */
int run_one(fur_thread *thread, void (*body)(fur_update *, void *), OneCall *call)
{
	const int error = fur_update_run(thread, body, call, nullptr);
	return error ? error : call->result;
}

/* Free the root's map, of either kind, and forget its name. */
int destroy_root_in(fur_update *update, RootCall *call)
{
	NamedRoot root;
	if (!find_root(update, call->name, root))
		return 0;
	const bool ordered = root.type == type_of(FUR_MAP_ORDERED);
	int error =
	        check_root(root, call->name, ordered ? FUR_MAP_ORDERED : FUR_MAP_HASH, &call->map);
	if (error > 0)
		error = fur_map_destroy(update, call->map);
	if (error)
		return error;
	remove_root(update, call);
	return call->result;
}
void destroy_root(fur_update *update, void *arg)
{
	auto *call = static_cast<RootCall *>(arg);
	call->result = destroy_root_in(update, call);
}

} // namespace

FUR_API int fur_map_put_one(fur_thread *thread, fur_map *map, const void *key, size_t key_bytes,
        const void *value, size_t value_bytes)
{
	OneCall call{map, key, key_bytes, value, value_bytes, 0};
	return run_one(thread, put_one, &call);
}

FUR_API int fur_map_remove_one(fur_thread *thread, fur_map *map, const void *key, size_t key_bytes)
{
	OneCall call{map, key, key_bytes, nullptr, 0, 0};
	return run_one(thread, remove_one, &call);
}

FUR_API int fur_map_get_many_ro(fur_ro *ro, const fur_map *map, fur_map_lookup *lookups, size_t n)
{
	return get_many(ro, map, lookups, n, __func__);
}
FUR_API int fur_map_get_many_reader(
        fur_reader *reader, const fur_map *map, fur_map_lookup *lookups, size_t n)
{
	return get_many(reader, map, lookups, n, __func__);
}
FUR_API int fur_map_get_many_update(
        fur_update *update, const fur_map *map, fur_map_lookup *lookups, size_t n)
{
	return get_many(update, map, lookups, n, __func__);
}

FUR_API int fur_map_get_many_one(
        fur_thread *thread, const fur_map *map, fur_map_lookup *lookups, size_t n)
{
	return read_one(thread, [=](auto *tx) { return fur_map_get_many(tx, map, lookups, n); });
}

FUR_API int fur_map_get_one(fur_thread *thread, const fur_map *map, const void *key,
        size_t key_bytes, void *value, size_t *bytes)
{
	/* get() sets *bytes after its last load, so a run that libfur leaves has not. */
	return read_one(thread,
	        [=](auto *tx) { return fur_map_get(tx, map, key, key_bytes, value, bytes); });
}

FUR_API int fur_map_destroy_root(fur_thread *thread, const char *name)
{
	if (int error = check_name(thread, name, __func__))
		return error;
	RootCall call{name, FUR_MAP_HASH, nullptr, 0};
	const int error = fur_update_run(thread, destroy_root, &call, nullptr);
	return error ? error : call.result;
}

/* ------------------------------------------------- one read in a snapshot, one run */

namespace
{

/* Run body(reader) in the snapshot.  Returns: its result, or an error. */
template <class Body>
int read_at(fur_thread *thread, fur_snapshot *snapshot, Body body)
{
	ReaderCall<Body> call{body, 0};
	const int error = fur_snapshot_run(thread, snapshot, call.run, &call, nullptr);
	return error ? error : call.result;
}

/* go(), and what only a map that nothing changes allows. */
bool go_on(Place<fur_reader, Hash> &place, fur_map_place where, BytesView key)
{
	if (where != FUR_MAP_BEHIND)
		return go(place, where, key);
	(void)go(place, FUR_MAP_AT, key);
	if (!place.at_end())
		++place.at;
	return true;
}
bool go_on(Place<fur_reader, Ordered> &place, fur_map_place where, BytesView key)
{
	return go(place, where, key);
}
void step(Place<fur_reader, Hash> &place, bool /* goes_back */)
{
	++place.at;
}
void step(Place<fur_reader, Ordered> &place, bool goes_back)
{
	if (goes_back)
		--place.at;
	else
		++place.at;
}

template <class Map>
int copy_from(
        fur_reader *reader, const Map *map, fur_map_place where, BytesView key, Copies *copies)
{
	const bool goes_back =
	        where == FUR_MAP_LAST || where == FUR_MAP_FLOOR || where == FUR_MAP_BEFORE;
	Place<fur_reader, Map> place{reader, map, {}};
	if (!go_on(place, where, key))
		return refuse_place("fur_map_copy_at", std::is_same_v<Map, Hash>, where);
	while (!place.at_end() && copies->add(reader, place.at))
		step(place, goes_back);
	if (!place.at_end() && copies->used == 0)
		copies->used = Copies::bytes_of(reader, place.at);
	return place.found();
}

} // namespace

FUR_API int fur_map_find_root_at(fur_thread *thread, fur_snapshot *snapshot, const char *name,
        fur_map_kind kind, fur_map **map)
{
	return find_named_root(__func__, thread, name, kind, map,
	        [=](auto body) { return read_at(thread, snapshot, body); });
}

FUR_API int fur_map_size_at(
        fur_thread *thread, fur_snapshot *snapshot, const fur_map *map, uint64_t *size)
{
	return read_at(
	        thread, snapshot, [=](auto *tx) { return fur_map_size_reader(tx, map, size); });
}

FUR_API int fur_map_get_at(fur_thread *thread, fur_snapshot *snapshot, const fur_map *map,
        const void *key, size_t key_bytes, void *value, size_t *bytes)
{
	return read_at(thread, snapshot, [=](auto *tx) {
		return fur_map_get_reader(tx, map, key, key_bytes, value, bytes);
	});
}

FUR_API int fur_map_get_many_at(fur_thread *thread, fur_snapshot *snapshot, const fur_map *map,
        fur_map_lookup *lookups, size_t n)
{
	return read_at(thread, snapshot,
	        [=](auto *tx) { return fur_map_get_many_reader(tx, map, lookups, n); });
}

FUR_API int fur_map_copy_at(fur_thread *thread, fur_snapshot *snapshot, const fur_map *map,
        fur_map_place where, const void *key, size_t key_bytes, void *entries, size_t *bytes)
{
	if (where != FUR_MAP_FIRST && where != FUR_MAP_LAST)
		if (int error = check_bytes(key, key_bytes, "key", "fur_map_copy_at"))
			return error;
	if (int error = check_room(entries, bytes, __func__))
		return error;
	Copies copies{static_cast<unsigned char *>(entries), *bytes, 0};
	const int result = read_at(thread, snapshot, [=, &copies](auto *tx) {
		const int kind = begin(tx, map, "fur_map_copy_at");
		if (kind < 0)
			return kind;
		return with_map(map, kind, [&](const auto &its) {
			return copy_from(tx, &its, where, BytesView(key, key_bytes), &copies);
		});
	});
	*bytes = result < 0 ? 0 : copies.used;
	return result;
}

FUR_API int fur_map_scan_at(fur_thread *thread, fur_snapshot *snapshot, const fur_map *map,
        uint64_t *place, size_t most, void *entries, size_t *bytes)
{
	if (int error = check_room(entries, bytes, __func__))
		return error;
	/* scan() sets *place and *bytes after its last load: a run that libfur leaves has not. */
	const int result = read_at(thread, snapshot, [=](auto *tx) {
		return fur_map_scan_reader(tx, map, place, most, entries, bytes);
	});
	if (result < 0)
		*bytes = 0;
	return result;
}
