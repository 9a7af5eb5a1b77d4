/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tide_cpu.cpp - the baseline of the figures: TPC-C's transactions on a host without modules,
 * an emulated machine, by TinySTM.
 */
#include "../../../bench/common/driver.hpp"
#include "../../../bench/common/output.hpp"
#include "tinystm.hpp"
#include "warehouses.hpp"

#include <iostream>
#include <memory>

namespace
{

using tide::TinyStm;
using tide::Warehouses;

enum Kind { PAYMENT, NEW_ORDER, ORDER_STATUS, KINDS };
const char *const kind_names[] = {"payment", "neworder", "orderstatus"};

/* Nor do their lines depend on where they lie. */
struct alignas(ARCH_PAD) Settings : bench::Options {
	unsigned warehouses = 2048;
	bool trees = false; /* find rows by them */
	tide::Workload workload;
};

/* A transaction, in memory of its thread. */
struct alignas(ARCH_PAD) Job {
	unsigned parts = 0, warehouse[2] = {};
	tide_record record[2] = {};
	Kind kind() const
	{
		return record[0].type == TIDE_NEW_ORDER ? NEW_ORDER
		       : record[0].type == TIDE_PAYMENT ? PAYMENT
		                                        : ORDER_STATUS;
	}
};

class alignas(ARCH_PAD) Tpcc
{
public:
	explicit Tpcc(const Settings &s) : s_(s), shared_(std::make_unique<tide::TinyShared>())
	{
		bench::aside([&] { data_ = std::make_unique<Warehouses>(s.warehouses, s.trees); });
	}

	void run(unsigned number, const std::function<void()> &start, const std::atomic<bool> &stop,
	        bench::Progress &progress)
	{
		TinyStm::Thread self(*shared_, number);
		tools::Random random{s_.seed * 1000003 + number};
		Job job;
		start();
		while (!stop.load(std::memory_order_relaxed)) {
			bench::aside([&] { prepare(random, job); });
			self.run(job.kind() != ORDER_STATUS, [&](TinyStm::Tx *tx) {
				for (unsigned k = 0; k < job.parts; k++)
					data_->execute(tx, job.warehouse[k], job.record[k]);
			});
			progress.count(job.kind());
		}
		aborts_ += self.aborts();
	}

	std::string wrong(uint64_t orders) const
	{
		std::string what;
		bench::aside([&] { what = data_->wrong(orders); });
		return what;
	}
	uint64_t aborts() const
	{
		return aborts_;
	}

private:
	void prepare(tools::Random &random, Job &job)
	{
		const auto at = static_cast<unsigned>(random.below(s_.warehouses));
		const tide::Transaction t = s_.workload.draw(random, s_.warehouses, at);
		job.parts = 0;
		for (const tide::Part &p : t.parts) {
			job.warehouse[job.parts] = p.module;
			job.record[job.parts++] = p.record;
			data_->load(p.module, p.record);
		}
	}

	const Settings &s_;
	std::unique_ptr<tide::TinyShared> shared_;
	std::unique_ptr<Warehouses> data_;
	std::atomic<uint64_t> aborts_{0};
};

int run_on(const Settings &s)
{
	Tpcc tpcc(s);
	const bench::Window window = bench::run_threads(s,
	        [&](unsigned k, auto &start, auto &stop, auto &p) { tpcc.run(k, start, stop, p); });
	uint64_t all = 0;
	for (uint64_t done : window.whole_run)
		all += done;
	bench::json r = bench::common_result(s, "tpcc", window, kind_names, KINDS);
	r["warehouses"] = s.warehouses;
	r["abort_rate"] = static_cast<double>(tpcc.aborts()) /
	                  static_cast<double>(std::max<uint64_t>(1, all + tpcc.aborts()));
	const std::string wrong = tpcc.wrong(window.whole_run[NEW_ORDER]);
	r["verified"] = wrong.empty();
	if (!wrong.empty())
		std::cerr << "tide-cpu: " << wrong << "\n";
	return bench::report(s, r);
}

} // namespace

int main(int argc, char **argv)
{
	Settings s;
	s.tm = "tinystm", s.machine = "xeon-5320", s.threads = 52, s.seconds = 0.002;
	s.workload.name = "tpcc";
	tools::CommandLine line(
	        "tide-cpu", "TPC-C's transactions on an emulated host, by TinySTM.");
	line.option("--machine", s.machine, "an emulated machine, or a file that describes one");
	line.option("--threads", s.threads, "threads, pinned to cores in turn");
	line.option("--warehouses", s.warehouses,
	            "warehouses, of which a thread draws one each time")
	        .range(1, 2048);
	line.option("--payment", s.workload.payment, "percent of the transactions").range(0, 100);
	line.option("--new-order", s.workload.new_order,
	            "percent of the transactions; the rest are OrderStatus")
	        .range(0, 100);
	line.option("--remote", s.workload.remote,
	            "percent of the payments with another warehouse's customer")
	        .range(0, 100);
	line.flag("--trees", s.trees, "find rows by trees");
	line.option("--seconds", s.seconds, "virtual time of the measured window");
	line.option("--seed", s.seed, "of the transactions");
	line.option("--json", s.json_path, "write the result to this file; - is standard output");
	if (auto status = tools::parse_or_exit_status(line, "tide-cpu", argc, argv))
		return *status;
	try {
		s.check();
		return bench::on_machine(s, argv, [&s](bench::Options &) { return run_on(s); });
	} catch (const bench::Usage &e) {
		std::cerr << "tide-cpu: " << e.what() << "\n";
		return tools::EXIT_WRONG_USAGE;
	} catch (const std::exception &e) {
		std::cerr << "tide-cpu: " << e.what() << "\n";
		return 1;
	}
}
