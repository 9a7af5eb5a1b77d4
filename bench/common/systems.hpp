/* SPDX-License-Identifier: BSD-3-Clause
 *
 * systems.hpp - the systems a workload runs on.  To add one: its class (tm.hpp says what it must
 * have), and a line here.
 */
#ifndef BENCH_SYSTEMS_HPP
#define BENCH_SYSTEMS_HPP

#include "../baselines/pisces/pisces.hpp"
#include "../baselines/specpmt/specpmt.hpp"
#include "../baselines/spht/spht.hpp"
#include "../baselines/spht_sihtm/spht_sihtm.hpp"
#include "driver.hpp"

namespace bench
{

/* f.operator()<Tm>() for the system the options name; throws Usage for one there is not. */
template <class F>
int on_system(const Options &o, F &&f)
{
	if (o.tm == "none")
		return f.template operator()<NoneTm>();
	if (o.tm == "htm")
		return f.template operator()<HtmTm>();
	/* fur-paper is this on another machine's build: bench/baselines/fur_paper. */
	if (o.tm == "fur-opacity" || o.tm == "fur-snapshot" || o.tm == "fur-paper")
		return f.template operator()<FurTm>();
	if (o.tm == "spht")
		return f.template operator()<baselines::SphtTm<>>();
#if defined(FUR_EMULATED)
	if (o.tm == "spht-sihtm")
		return f.template operator()<baselines::SphtSihtmTm<>>();
#endif
	if (o.tm == "pisces")
		return f.template operator()<baselines::PiscesTm<>>();
	if (o.tm == "specpmt")
		return f.template operator()<baselines::SpecpmtTm<>>();
	if (peer_package(o.tm))
		throw Usage("--tm " + o.tm + " runs the IntSet only: use the benchmark rbtree");
	throw Usage("--tm " + o.tm +
	            ": use none, htm, spht, spht-sihtm, pisces, specpmt, fur-opacity, fur-snapshot "
	            "or fur-paper");
}

} // namespace bench

#endif /* BENCH_SYSTEMS_HPP */
