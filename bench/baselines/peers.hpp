/* SPDX-License-Identifier: BSD-3-Clause
 *
 * peers.hpp - libraries that a user might take instead of libfur, as systems for the IntSet.
 * meson.build decides which of them are built in.
 */
#ifndef BENCH_PEERS_HPP
#define BENCH_PEERS_HPP

#include "../common/systems.hpp"
#include "../rbtree/intset.hpp"
#ifdef BENCH_LMDB
#include "lmdb/lmdb.hpp"
#endif
#ifdef BENCH_LIBPMEMOBJ
#include "libpmemobj/libpmemobj.hpp"
#endif

namespace bench
{

/* A system that brings its own set of integers, and need have no transactions. */
template <class System, class F>
int on_set(F &&f)
{
	require_measured_system<System>();
	static_assert(intset::IntegerSet<typename System::Set, System>,
	        "a system's own Set needs contains(), insert(), remove() and verify() "
	        "(bench/rbtree/intset.hpp)");
	return f.template operator()<System>();
}

/* on_system(), peers included. */
template <class F>
int on_system_or_peer(const Options &o, F &&f)
{
#ifdef BENCH_LMDB
	if (o.tm == "lmdb")
		return on_set<LmdbTm>(f);
#endif
#ifdef BENCH_LIBPMEMOBJ
	if (o.tm == "libpmemobj")
		return on<LibpmemobjTm>(f);
#endif
	if (const char *package = peer_package(o.tm))
		throw Usage("--tm " + o.tm + " was not built in: install " + package +
		            ", then meson setup --reconfigure build");
	return on_system(o, f);
}

} // namespace bench

#endif /* BENCH_PEERS_HPP */
