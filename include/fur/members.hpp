/* SPDX-License-Identifier: BSD-3-Clause
 *
 * members.hpp - FUR_MEMBERS: a struct names its members, so that containers can own what is in them
 * and fur::root() can tell when they change.
 *
 *     struct User {
 *             fur::string name;
 *             fur::vector<uint64_t> logins;
 *             uint64_t born = 0;
 *             FUR_MEMBERS(name, logins, born)
 *     };
 *     fur::hash_map<uint64_t, User> users;
 */
#ifndef FUR_MEMBERS_HPP
#define FUR_MEMBERS_HPP

#include <array>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

/* FUR_MEMBERS - name all members of a struct, in their order; behind them, and public.  The
 * compiler refuses a list from which it sees that a member is missing.  A bit-field cannot be
 * named. */
#define FUR_MEMBERS(...)                                                                           \
	auto fur_members()->decltype(std::tie(__VA_ARGS__))                                        \
	{                                                                                          \
		return std::tie(__VA_ARGS__);                                                      \
	}                                                                                          \
	auto fur_members() const->decltype(std::tie(__VA_ARGS__))                                  \
	{                                                                                          \
		return std::tie(__VA_ARGS__);                                                      \
	}                                                                                          \
	static constexpr const char *fur_member_names()                                            \
	{                                                                                          \
		return #__VA_ARGS__;                                                               \
	}

namespace fur::detail
{

template <class T, class = void>
struct has_members : std::false_type {
};
template <class T>
struct has_members<T, std::void_t<decltype(std::declval<T &>().fur_members())>> : std::true_type {
};

/* Anything, for a test of how many members an aggregate has. */
struct Anything {
	template <class T>
	operator T() const;
};
template <size_t>
using anything = Anything;
template <class T, class N, class = void>
struct takes : std::false_type {
};
template <class T, size_t... N>
struct takes<T, std::index_sequence<N...>, std::void_t<decltype(T{anything<N>()...})>>
    : std::true_type {
};

/* Of a struct whose members have the types M. */
template <class T, class Members>
struct Named;
template <class T, class... M>
struct Named<T, std::tuple<M &...>> {
	static constexpr size_t up(size_t bytes, size_t alignment)
	{
		return (bytes + alignment - 1) / alignment * alignment;
	}
	static constexpr size_t size()
	{
		size_t at = 0;
		((at = up(at, alignof(M)) + sizeof(M)), ...);
		return up(at, alignof(T));
	}
	/* One initialiser more than there are names?  An array takes several. */
	static constexpr bool more()
	{
		if constexpr (std::is_aggregate_v<T> && !(std::is_array_v<M> || ...))
			return takes<T, std::make_index_sequence<sizeof...(M) + 1>>::value;
		return false;
	}
};

/* The struct has the members that FUR_MEMBERS names, and no others. */
template <class T>
constexpr bool check_members()
{
	using All = Named<T, decltype(std::declval<T &>().fur_members())>;
	static_assert(All::size() == sizeof(T) && !All::more(),
	        "FUR_MEMBERS must name all members of the struct, in their order");
	return true;
}

template <class T>
struct is_std_array : std::false_type {
};
template <class T, size_t N>
struct is_std_array<std::array<T, N>> : std::true_type {
};

/* Has it blocks that nothing else leads to?  fur::string and the containers say so. */
template <class T, class = void>
struct is_owner : std::false_type {
};
template <class T>
struct is_owner<T, std::void_t<typename T::owns_blocks>> : std::true_type {
};

/* f(owner) for each fur::string and container in an object, as long as f returns true.
 * Returns: whether all did. */
template <class T, class F>
bool each_owner(T &object, F &&f)
{
	if constexpr (is_owner<T>::value) {
		return f(object);
	} else if constexpr (has_members<T>::value) {
		(void)check_members<std::remove_const_t<T>>();
		return std::apply([&](auto &...member) { return (each_owner(member, f) && ...); },
		        object.fur_members());
	} else if constexpr (std::is_array_v<T> || is_std_array<std::remove_const_t<T>>::value) {
		bool go_on = true;
		for (size_t i = 0; i < std::size(object) && go_on; i++)
			go_on = each_owner(object[i], f);
		return go_on;
	}
	return true;
}

} // namespace fur::detail

#endif /* FUR_MEMBERS_HPP */
