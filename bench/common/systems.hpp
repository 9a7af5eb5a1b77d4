/* SPDX-License-Identifier: BSD-3-Clause
 *
 * systems.hpp - the systems that a workload runs on.  To add one, write its class, a
 * TransactionalMemory (tm.hpp), and add a line here.
 */
#ifndef BENCH_SYSTEMS_HPP
#define BENCH_SYSTEMS_HPP

#include "../baselines/htm/htm.hpp"
#include "../baselines/none/none.hpp"
#include "../baselines/pisces/pisces.hpp"
#include "../baselines/specpmt/specpmt.hpp"
#include "../baselines/spht/spht.hpp"
#include "../baselines/spht_sihtm/spht_sihtm.hpp"
#include "driver.hpp"
#include "fur_tm.hpp"

namespace bench
{

template <class Tm, class F>
int on(F &&f)
{
	require_transactional_memory<Tm>();
	return f.template operator()<Tm>();
}

/* f.operator()<Tm>() for the system that the options name; throws Usage for an unknown one. */
template <class F>
int on_system(const Options &o, F &&f)
{
	if (o.tm == "none")
		return on<NoneTm>(f);
	if (o.tm == "htm")
		return on<HtmTm>(f);
	/* fur-paper is another program, with bench/baselines/fur_paper in place of libfur's
	 * objects. */
	if (o.tm == "fur-opacity" || o.tm == "fur-snapshot" || o.tm == "fur-paper")
		return on<FurTm>(f);
	if (o.tm == "spht")
		return on<baselines::SphtTm<>>(f);
#if defined(FUR_EMULATED)
	if (o.tm == "spht-sihtm")
		return on<baselines::SphtSihtmTm<>>(f);
#endif
	if (o.tm == "pisces")
		return on<baselines::PiscesTm<>>(f);
	if (o.tm == "specpmt")
		return on<baselines::SpecpmtTm<>>(f);
	if (o.tm == "specpmt-paper")
		return on<baselines::SpecpmtPaperTm<>>(f);
	if (peer_package(o.tm))
		throw Usage("--tm " + o.tm + " runs the IntSet only: use the benchmark rbtree");
	throw Usage("--tm " + o.tm +
	            ": use none, htm, spht, spht-sihtm, pisces, specpmt, specpmt-paper, "
	            "fur-opacity, fur-snapshot or fur-paper");
}

} // namespace bench

#endif /* BENCH_SYSTEMS_HPP */
