/* SPDX-License-Identifier: BSD-3-Clause
 *
 * root.hpp - roots by name: the objects from which a program finds everything else after an open.
 *
 *     auto *shop = fur::root<Shop>(self, "shop");      // made, zero, the first time
 *
 * Each root carries a hash of its type: the kind, keys and values of a container; the names and
 * types of the members of a struct that names them (FUR_MEMBERS, members.hpp); the name, size and
 * alignment of any other.  A program that asks for another type gets an error instead of another
 * program's bytes.  If you change a struct that does not name its members, pass another `version`.
 *
 * On the medium: root FUR_ROOTS - 1 of fur.h is a fur::ordered_map<fur::string, detail::NamedRoot>.
 */
#ifndef FUR_ROOT_HPP
#define FUR_ROOT_HPP

#include <fur/hash_map.hpp>
#include <fur/multimap.hpp>
#include <fur/ordered_map.hpp>
#include <fur/ptr.hpp>
#include <fur/queue.hpp>
#include <fur/set.hpp>
#include <fur/vector.hpp>

namespace fur
{

/* type_mismatch - thrown by root(): the heap has the root with another type. */
struct type_mismatch : std::runtime_error {
	using std::runtime_error::runtime_error;
};

namespace detail
{

inline uint64_t combine(std::initializer_list<uint64_t> parts)
{
	uint64_t hash = 0x66757274797065; /* any number: it stays */
	for (uint64_t part : parts)
		hash = mix(hash ^ part, 0x9e3779b97f4a7c15) + part;
	return hash;
}

/* "... [with T = Shop; ...]", or "... [T = Shop]". */
template <class T>
constexpr std::string_view signature_with()
{
	return __PRETTY_FUNCTION__;
}
/* What comes before and after the name is as long for every type, whatever the name contains. */
template <class T>
constexpr std::string_view name_of_type()
{
	constexpr std::string_view all = signature_with<T>(), other = signature_with<void>();
	constexpr size_t from = other.find("T = void") + 4, behind = other.size() - from - 4;
	return all.substr(from, all.size() - from - behind);
}
template <class T>
uint64_t hash_of_name()
{
	const std::string_view name = name_of_type<T>();
	return combine({4, sizeof(T), alignof(T), hash_bytes(name.data(), name.size())});
}

/* Is it, or contains it, a struct that names its members? */
template <class T>
struct names_members : has_members<T> {
};
template <class T, size_t N>
struct names_members<T[N]> : names_members<T> {
};
template <class T, size_t N>
struct names_members<std::array<T, N>> : names_members<T> {
};
template <class T>
struct names_members<std::optional<T>> : names_members<T> {
};
template <class... T>
struct names_members<std::variant<T...>> : std::disjunction<names_members<T>...> {
};
template <class Members>
struct HashOfMembers;

} // namespace detail

/* type_hash - identifies a type in the heap: kind and size of a number; names and types of the
 * members of a struct that names them (FUR_MEMBERS), whatever the struct is called; name, size and
 * alignment of any other.  If such a struct changes while its size does not, give it a number of
 * its own, and another one with each change:
 *     template <> struct fur::type_hash<Shop> { static uint64_t of() { return 2; } };
 * Compilers spell the names of template structs, and of those in namespaces without a name, each in
 * its own way.  If programs made by several compilers open a heap, do the same for such structs, or
 * name their members. */
template <class T>
struct type_hash {
	static uint64_t of()
	{
		if constexpr (detail::has_members<T>::value)
			return detail::HashOfMembers<
			        decltype(std::declval<T &>().fur_members())>::template of<T>();
		else if constexpr (detail::is_int128<T>)
			return detail::combine({1, sizeof(T), false, T(-1) < T(0)});
		else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>)
			return detail::combine(
			        {1, sizeof(T), std::is_floating_point_v<T>, std::is_signed_v<T>});
		else if constexpr (std::is_pointer_v<T>)
			return detail::combine({2, sizeof(T)});
		else if constexpr (std::is_array_v<T>)
			return detail::combine(
			        {3, std::extent_v<T>, type_hash<std::remove_extent_t<T>>::of()});
		else
			return detail::hash_of_name<T>();
	}
};
template <>
struct type_hash<string> {
	static uint64_t of()
	{
		return detail::combine({5});
	}
};
template <class T>
struct type_hash<vector<T>> {
	static uint64_t of()
	{
		return detail::combine({6, type_hash<T>::of()});
	}
};
template <class K, class V, unsigned TABLE_BITS>
struct type_hash<hash_map<K, V, TABLE_BITS>> {
	static uint64_t of()
	{
		return detail::combine({7, type_hash<K>::of(), type_hash<V>::of(), TABLE_BITS});
	}
};
/* An order of keys. */
template <class T>
struct type_hash<std::less<T>> {
	static uint64_t of()
	{
		return detail::combine({23});
	}
};
template <class T>
struct type_hash<std::greater<T>> {
	static uint64_t of()
	{
		return detail::combine({24});
	}
};
template <class K, class V, unsigned FANOUT, class Compare>
struct type_hash<ordered_map<K, V, FANOUT, Compare>> {
	static uint64_t of()
	{
		const uint64_t plain =
		        detail::combine({8, type_hash<K>::of(), type_hash<V>::of(), FANOUT});
		return std::is_same_v<Compare, std::less<>>
		               ? plain
		               : detail::combine({plain, type_hash<Compare>::of()});
	}
};
template <class K, unsigned TABLE_BITS>
struct type_hash<hash_set<K, TABLE_BITS>> {
	static uint64_t of()
	{
		return detail::combine({20, type_hash<K>::of(), TABLE_BITS});
	}
};
template <class K, unsigned FANOUT, class Compare>
struct type_hash<ordered_set<K, FANOUT, Compare>> {
	static uint64_t of()
	{
		return detail::combine(
		        {21, type_hash<ordered_map<K, uint64_t, FANOUT, Compare>>::of()});
	}
};
template <class K, class V, unsigned FANOUT>
struct type_hash<ordered_multimap<K, V, FANOUT>> {
	static uint64_t of()
	{
		return detail::combine({22, type_hash<K>::of(), type_hash<V>::of(), FANOUT});
	}
};
template <class T>
struct type_hash<queue<T>> {
	static uint64_t of()
	{
		return detail::combine({9, type_hash<T>::of()});
	}
};
template <class T>
struct type_hash<ptr<T>> {
	static uint64_t of()
	{
		return detail::combine({10});
	}
};
/* A std::pair is a std::tuple of two. */
template <class... T>
struct type_hash<std::tuple<T...>> {
	static uint64_t of()
	{
		return detail::combine({12, sizeof...(T), type_hash<T>::of()...});
	}
};
template <class A, class B>
struct type_hash<std::pair<A, B>> : type_hash<std::tuple<A, B>> {
};
/* The hash of those that are stored as their bytes, and name no members, is that of the name. */
template <class T, size_t N>
struct type_hash<std::array<T, N>> {
	static uint64_t of()
	{
		using This = std::array<T, N>;
		if constexpr (detail::is_plain<This> && !detail::names_members<This>::value)
			return detail::hash_of_name<This>();
		else
			return detail::combine({13, N, type_hash<T>::of()});
	}
};
template <class T>
struct type_hash<std::optional<T>> {
	static uint64_t of()
	{
		using This = std::optional<T>;
		if constexpr (detail::is_plain<This> && !detail::names_members<This>::value)
			return detail::hash_of_name<This>();
		else
			return detail::combine({14, type_hash<T>::of()});
	}
};
template <class... T>
struct type_hash<std::variant<T...>> {
	static uint64_t of()
	{
		using This = std::variant<T...>;
		if constexpr (detail::is_plain<This> && !detail::names_members<This>::value)
			return detail::hash_of_name<This>();
		else
			return detail::combine({15, sizeof...(T), type_hash<T>::of()...});
	}
};

namespace detail
{

/* Of the names of a struct's members. */
template <class T>
uint64_t hash_of_names()
{
	std::string names;
	for (const char *c = T::fur_member_names(); *c; c++)
		if (*c != ' ')
			names += *c;
	return hash_bytes(names.data(), names.size());
}
template <class... M>
struct HashOfMembers<std::tuple<M &...>> {
	template <class T>
	static uint64_t of()
	{
		(void)check_members<T>();
		return combine(
		        {11, sizeof(T), alignof(T), hash_of_names<T>(), type_hash<M>::of()...});
	}
};

struct NamedRoot {
	uint64_t object, type;
};
using Names = ordered_map<string, NamedRoot>;
enum : unsigned { NAMES_ROOT = FUR_ROOTS - 1 };

template <class T>
uint64_t type_of_root(uint64_t version)
{
	return version ? combine({type_hash<T>::of(), version}) : type_hash<T>::of();
}

template <class T>
T *checked(const NamedRoot &root, std::string_view name, uint64_t version)
{
	if (root.type != type_of_root<T>(version))
		throw type_mismatch(
		        "fur: the heap's root '" + std::string(name) + "' is not a " +
		        std::string(name_of_type<T>()) +
		        " as this program knows it: use the program that made it, or another name "
		        "(docs/containers.md, \"Types that change\")");
	return pointer<T>(root.object);
}

} // namespace detail

/* find_root - the root of that name.  `version`: a number of the program's, which it changes with
 * the members of T, or of types that containers in T have.
 * Returns: NULL if there is none.
 * Errors:  type_mismatch, also for another version; Error, with FUR_ENESTED inside a
 *          transaction. */
template <class T>
T *find_root(fur_thread *thread, std::string_view name, uint64_t version = 0)
{
	return read(thread, [&](fur_ro *tx) -> T * {
		auto *names = static_cast<const detail::Names *>(fur_root(tx, detail::NAMES_ROOT));
		const detail::NamedRoot *at = names ? names->lookup(tx, name) : nullptr;
		if (!at)
			return nullptr;
		return detail::checked<T>(
		        {fur_load(tx, &at->object), fur_load(tx, &at->type)}, name, version);
	});
}

/* root - the same; if there is none, make it: a T{}, as make() does.
 * Durable: the new root, before return.
 * Errors:  type_mismatch, heap_full; Error, with FUR_ENESTED inside a transaction. */
template <class T>
T *root(fur_thread *thread, std::string_view name, uint64_t version = 0)
{
	if (T *found = find_root<T>(thread, name, version))
		return found;
	return update(thread, rerun, [&](fur_update *tx) {
		auto *names = static_cast<detail::Names *>(fur_root(tx, detail::NAMES_ROOT));
		if (!names) {
			names = make<detail::Names>(tx);
			if (!names)
				throw heap_full();
			fur_set_root(tx, detail::NAMES_ROOT, names);
		}
		if (auto there = names->get(tx, name)) /* another thread was quicker */
			return detail::checked<T>(*there, name, version);
		T *object = make<T>(tx);
		if (!object)
			throw heap_full();
		names->insert(
		        tx, name, {detail::word_of(object), detail::type_of_root<T>(version)});
		return object;
	});
}

/* remove_root - forget the name.  The object stays: destroy(tx, object) in the same update, so that
 * no crash leaves the one without the other.
 * Returns: whether there was such a root. */
inline bool remove_root(fur_update *tx, std::string_view name)
{
	auto *names = static_cast<detail::Names *>(fur_root(tx, detail::NAMES_ROOT));
	return names && names->erase(tx, name);
}
/* The same in an update of its own.   Errors:  Error, with FUR_ENESTED inside a transaction. */
inline bool remove_root(fur_thread *thread, std::string_view name)
{
	return update(thread, [&](fur_update *tx) { return remove_root(tx, name); });
}

} // namespace fur

#endif /* FUR_ROOT_HPP */
