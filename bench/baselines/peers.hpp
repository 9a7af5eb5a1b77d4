/* SPDX-License-Identifier: BSD-3-Clause
 *
 * peers.hpp - libraries a user might take instead of libfur, as systems for the IntSet: which of
 * them is built in, meson.build knows.
 */
#ifndef BENCH_PEERS_HPP
#define BENCH_PEERS_HPP

#include "../common/systems.hpp"
#ifdef BENCH_LMDB
#include "lmdb/lmdb.hpp"
#endif
#ifdef BENCH_LIBPMEMOBJ
#include "libpmemobj/libpmemobj.hpp"
#endif

namespace bench
{

/* on_system(), peers included. */
template <class F>
int on_system_or_peer(const Options &o, F &&f)
{
#ifdef BENCH_LMDB
	if (o.tm == "lmdb")
		return f.template operator()<LmdbTm>();
#endif
#ifdef BENCH_LIBPMEMOBJ
	if (o.tm == "libpmemobj")
		return f.template operator()<LibpmemobjTm>();
#endif
	if (const char *package = peer_package(o.tm))
		throw Usage("--tm " + o.tm + " was not built in: install " + package +
		            ", then meson setup --reconfigure build");
	return on_system(o, f);
}

} // namespace bench

#endif /* BENCH_PEERS_HPP */
