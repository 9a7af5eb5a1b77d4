/* SPDX-License-Identifier: BSD-3-Clause
 *
 * recorded.hpp - a transaction that reports its accesses to the oracle.  A workload runs on it as
 * on the transaction itself.
 */
#ifndef EXPLORE_RECORDED_HPP
#define EXPLORE_RECORDED_HPP

#include "../../../emulator/emulated.h"
#include "../oracle.hpp"

#include <cstring>
#include <fur.hpp>
#include <type_traits>

namespace explore
{

/* Facts about a system's transactions that the oracle needs; each system specialises it:
 *     static size_t usable_bytes(const Tx *, void *block);
 *     static bool promotes(const Tx *);     does fur_promote() write, in this transaction?
 */
template <class Tx>
struct Facts;

/* A question that takes no simulated time. */
template <class Ask>
size_t unseen(Ask ask)
{
	struct Question {
		Ask &ask;
		size_t answer;
	} q = {ask, 0};
	emu_unseen(
	        [](void *question) {
		        auto *asked = static_cast<Question *>(question);
		        asked->answer = asked->ask();
	        },
	        &q);
	return q.answer;
}

template <class Tx>
struct Recorded {
	Tx *tx;
	const char *base;
	unsigned writes = 0;
	uint64_t offset(const volatile void *p) const
	{
		return static_cast<uint64_t>(static_cast<const volatile char *>(p) - base);
	}
};

template <class T>
uint64_t bits_of(T value)
{
	static_assert(sizeof value == 8, "the oracle knows words of 8 bytes");
	uint64_t bits;
	memcpy(&bits, &value, 8);
	return bits;
}
template <class Tx, class T>
T fur_load(Recorded<Tx> *r, const T *p)
{
	T value = fur_load(r->tx, p);
	oracle::read(r->offset(p), bits_of(value));
	return value;
}
template <class Tx, class T>
void fur_store(Recorded<Tx> *r, T *p, std::type_identity_t<T> value)
{
	fur_store(r->tx, p, value);
	r->writes++;
	oracle::write(r->offset(p), bits_of(value));
}
template <class Tx>
void fur_prefetch(Recorded<Tx> *r, const void *p, size_t bytes)
{
	fur_prefetch(r->tx, p, bytes);
}
template <class Tx>
void fur_promote(Recorded<Tx> *r, void *p)
{
	fur_promote(r->tx, p);
	auto *word = reinterpret_cast<uint64_t *>(reinterpret_cast<uintptr_t>(p) & ~uintptr_t(7));
	/* The oracle treats a promotion as a write of the value that is there.  Under opacity a
	 * promotion writes nothing, and the oracle need not know of it. */
	if (Facts<Tx>::promotes(r->tx))
		oracle::write(r->offset(word), fur_load(r->tx, word));
}

/* The length of a large block, which was allocated with `asked` bytes; 0: it is a small one.  The
 * length that the heap has may be in a store buffer still, where a question that takes no time does
 * not find it. */
constexpr size_t large_bytes(size_t asked)
{
	constexpr size_t small = 16384, chunk = 65536;
	return asked > small ? (asked + chunk - 1) / chunk * chunk : 0;
}

template <class Tx>
void forget(Recorded<Tx> *r, void *p, size_t asked)
{
	size_t large = large_bytes(asked);
	if (p)
		oracle::forget(r->offset(p), large ? large : Facts<Tx>::usable_bytes(r->tx, p));
}

template <class Tx>
void *allocated(Recorded<Tx> *r, void *p, size_t bytes)
{
	forget(r, p, bytes);
	return p;
}
template <class Tx>
void *fur_alloc(Recorded<Tx> *r, size_t bytes)
{
	return allocated(r, fur_alloc(r->tx, bytes), bytes);
}
template <class Tx>
void *fur_alloc_aligned(Recorded<Tx> *r, size_t bytes, size_t alignment)
{
	return allocated(r, fur_alloc_aligned(r->tx, bytes, alignment), bytes);
}
template <class Tx>
void fur_free(Recorded<Tx> *r, void *p)
{
	forget(r, p, 0);
	fur_free(r->tx, p);
}
/* The same for a block that was allocated with `bytes` bytes. */
template <class Tx>
void free_sized(Recorded<Tx> *r, void *p, size_t bytes)
{
	forget(r, p, bytes);
	fur_free(r->tx, p);
}

} // namespace explore

#endif /* EXPLORE_RECORDED_HPP */
