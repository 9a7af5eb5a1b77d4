/* SPDX-License-Identifier: BSD-3-Clause
 *
 * bulk.hpp - fur_bulk_run() for C++: updates of very many records, next to short updates.
 *
 *     fur_bulk_result result = fur::bulk(
 *             thread, accounts, n, [&](Account &account, uint64_t) noexcept {
 *                     account.balance += account.balance / 100 * percent;
 *             });
 *
 * docs/bulk.md explains how it works, and which transaction waits for which.
 */
#ifndef FUR_BULK_HPP
#define FUR_BULK_HPP

#include <fur.hpp>
#include <fur_bulk.h>
#include <memory>
#include <type_traits>

namespace fur
{

namespace detail
{

/* fur_bulk.map for a function object.  The copy may have any alignment. */
template <class T, class Map>
bool map_record(void *copy, size_t bytes, uint64_t number, void *map)
{
	alignas(T) unsigned char place[sizeof(T)];
	T *record = ::new (place) T;
	memcpy(place, copy, bytes);
	bool changed = true;
	if constexpr (std::is_void_v<std::invoke_result_t<Map &, T &, uint64_t>>)
		(*static_cast<Map *>(map))(*record, number);
	else
		changed = (*static_cast<Map *>(map))(*record, number);
	memcpy(copy, place, bytes);
	return changed;
}

} // namespace detail

/* bulk - fur_bulk_run(): call map(record, number) for `count` records from `first` on, with a copy
 * of each, and store what it makes of the copy.  If map() returns false, the record stays as it is.
 * libfur may call map() several times for a record; the last call decides.  map() must not begin a
 * transaction.
 * Visible, Durable, Crash: as fur_bulk_run().
 * Errors:  Error, with those of fur_bulk_run(). */
template <class T, class Map>
fur_bulk_result bulk(fur_thread *thread, T *first, uint64_t count, Map map,
        fur_bulk_atomic atomic = FUR_BULK_WHOLE)
{
	static_assert(std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T>,
	        "fur::bulk: libfur copies records byte by byte, so their type must be trivially "
	        "copyable, and default constructible");
	static_assert(std::is_nothrow_invocable_v<Map &, T &, uint64_t>,
	        "fur::bulk: map(T &, uint64_t) must be noexcept, because libfur calls it in the "
	        "middle of a commit");
	const fur_extent extent = {first, sizeof(T), count};
	fur_bulk job;
	fur_bulk_init(&job);
	job.map = detail::map_record<T, Map>;
	job.arg = std::addressof(map);
	job.bytes = sizeof(T);
	job.extents = &extent;
	job.n = 1;
	job.atomic = atomic;
	fur_bulk_result result{};
	result.size = sizeof result;
	check(fur_bulk_run(thread, &job, &result));
	return result;
}

} // namespace fur

#endif /* FUR_BULK_HPP */
