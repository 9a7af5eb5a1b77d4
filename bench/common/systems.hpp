/* SPDX-License-Identifier: BSD-3-Clause
 *
 * systems.hpp - the systems a workload runs on.  To add one: its class (tm.hpp says what it must have), and a line here.
 */
#ifndef BENCH_SYSTEMS_HPP
#define BENCH_SYSTEMS_HPP

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
	throw Usage("--tm " + o.tm + ": use none, htm, fur-opacity, fur-snapshot or fur-paper");
}

} // namespace bench

#endif /* BENCH_SYSTEMS_HPP */
