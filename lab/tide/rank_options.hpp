/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rank_options.hpp - the options of the programs that run transactions on a rank of modules.
 */
#ifndef LAB_TIDE_RANK_OPTIONS_HPP
#define LAB_TIDE_RANK_OPTIONS_HPP

#include "near/near_program.hpp"
#include "tide.hpp"
#include "workload.hpp"

namespace tide
{

struct RankSettings : bench::NearSettings {
	Workload workload;
	unsigned modules = 1, batches = 1, records = TIDE_RECORDS;
	unsigned of = 0; /* modules of the whole machine; 0: that is all */
};

inline Options options_of(const RankSettings &s)
{
	Options o;
	o.machine = s.machine;
	o.modules = s.modules;
	o.tasklets = s.tasklets;
	o.records = s.records;
	o.host_threads = s.host_threads;
	return o;
}

inline void add_rank_options(tools::CommandLine &line, RankSettings &s)
{
	Workload &w = s.workload;
	add_near_options(line, s, "of the transactions");
	line.option("--modules", s.modules, "modules of the rank that runs").range(1, 64);
	line.option("--of", s.of,
	            "of TPC-C: modules of a machine whose ranks are as this one; the result is the "
	            "machine's")
	        .range(1, 4096);
	line.option("--batches", s.batches, "batches of transactions").range(1, 10000);
	line.option("--records", s.records, "transactions of a tasklet in a batch")
	        .range(1, TIDE_RECORDS);
	line.option("--payment", w.payment, "percent of TPC-C's transactions").range(0, 100);
	line.option("--new-order", w.new_order,
	            "percent of TPC-C's transactions; the rest are OrderStatus")
	        .range(0, 100);
	line.option("--remote", w.remote, "percent of the payments with another module's customer")
	        .range(0, 100);
}

} // namespace tide

#endif /* LAB_TIDE_RANK_OPTIONS_HPP */
