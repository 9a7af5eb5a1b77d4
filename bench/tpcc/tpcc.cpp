/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tpcc.cpp - the TPC-C benchmark: loads the database, runs a mix of the five transactions, checks
 * the consistency conditions of clause 3.3.2 (consistency.hpp).  No terminals, no think times:
 * throughput of transactions, as in FUR's evaluation (section 4).
 */
#include "../common/group_tm.hpp"
#include "../common/runs.hpp"
#include "../common/stock.hpp"
#include "../common/systems.hpp"
#include "check.hpp"
#include "footprints.hpp"
#include "inputs.hpp"
#include "parts.hpp"
#include "table1.hpp"

#include <algorithm>
#include <array>
#include <iostream>

namespace
{

using bench::json;
using tpcc::Counting, tpcc::Footprint, tpcc::Inputs, tpcc::Plain, tpcc::Workload;
using tpcc::type_names;
using enum tpcc::Type;

const tpcc::PublishedFootprint table1[] = {{122e3, 0}, {86e3, 30}, {650, 0}, {97, 5}, {7500, 141}};

/* A system that cuts its data over several heaps: a thread has its transactions in each. */
template <class Tm>
concept OfHeaps = requires(typename Tm::Thread &self)
{
	self.of(0u);
};

/* The size of a heap's database, per warehouse: rows in blocks of 64 or 128 bytes, nodes of trees
 * in blocks of 256, at about 60 %. */
uint64_t heap_bytes_of(const Workload &w)
{
	uint64_t customers = tpcc::DISTRICTS * w.scale.customers,
	         lines = customers * (w.scale.least_lines + w.scale.most_lines) / 2;
	uint64_t tree = 64, warehouse = customers * (128 + 64 + 64 + 5 * tree) +
	                                lines * (64 + tree) + w.scale.items * (64 + tree);
	/* Half as much again for leaves that split, and for the stock of each thread. */
	return w.in_heap() * warehouse * 3 / 2 + w.scale.items * (64 + tree) + (uint64_t(64) << 20);
}

/* The growth by new orders and payments during the run: 130 MB a second of each thread, at most 8
 * GB; of each heap, which may have a larger share than another. */
uint64_t growth_of(const bench::Options &o, const Workload &w)
{
	double threads = (w.first[PAYMENT] + w.first[NEW_ORDER] +
	                         (o.most_threads - 1) * (w.mix[PAYMENT] + w.mix[NEW_ORDER])) /
	                 100;
	double seconds = o.seconds + (o.machine == "native" ? 0.5 : o.warm_up_seconds());
	double bytes = seconds * threads * 1.3e8 * (w.heaps > 1 ? 1.5 : 1) / w.heaps;
	return bytes < 8e9 ? static_cast<uint64_t>(bytes) : UINT64_C(8000000000);
}

template <class Tm>
class Tpcc
{
public:
	Tpcc(Tm &tm, const Workload &w, uint64_t seed) : tm_(tm), w_(w), seed_(seed)
	{
		bench::aside([&] {
			typename Tm::Thread self(tm);
			for (unsigned h = 0; h < w.heaps; h++)
				db_[h] = static_cast<tpcc::Database *>(root(h));
			if (std::all_of(db_, db_ + w.heaps, [](auto *db) { return db; }))
				check_reused(self);
			else
				load(self);
			for (unsigned h = 0; h < w.heaps; h++)
				bench::empty_logs(of(self, h));
		});
	}

	void run(unsigned thread, unsigned threads, const std::function<void()> &start,
	        const std::atomic<bool> &stop, bench::Progress &progress)
	{
		typename Tm::Thread self(tm_);
		Inputs inputs(w_, thread == 0 ? w_.first : w_.mix, seed_, thread + 1, threads);
		for (unsigned h = 0; h < w_.heaps; h++)
			stock_[h].take(of(self, h), thread,
			        {{sizeof(tpcc::History)}, {sizeof(tpcc::Order)},
			                {sizeof(tpcc::OrderLine)},
			                {sizeof(btree::Node), FUR_CACHE_LINE}});
		start();
		if constexpr (OfHeaps<Tm>)
			if (w_.submit) {
				submit(self, inputs, stop, progress);
				return;
			}
		while (!stop.load(std::memory_order_relaxed)) {
			auto type = inputs.type();
			Plain plain;
			one(self, inputs, type, plain);
			progress.count(type);
		}
		if constexpr (OfHeaps<Tm>)
			over_heaps_ += self.committed_over();
	}

	std::string check()
	{
		std::string wrong;
		bench::aside([&] {
			const char *what = tpcc::check_at_rest(databases(), w_.scale.table1);
			wrong = what ? what : "";
		});
		return wrong;
	}
	/* How many updates over several heaps have committed. */
	uint64_t over_heaps() const
	{
		return over_heaps_.load();
	}

	/* Mean reads and writes of each type.  Each transaction changes the database, so this comes
	 * before the run: the result does not depend on the run's length. */
	json footprints()
	{
		json all;
		bench::aside([&] {
			typename Tm::Thread self(tm_);
			Inputs inputs(w_, w_.mix, seed_, 0, 1);
			for (unsigned t = 0; t < TYPES; t++) {
				/* Few deliveries: each uses up an order of every district. */
				uint64_t times = t == DELIVERY ? 20 : 100;
				Footprint sum;
				for (uint64_t k = 0; k < times; k++) {
					Counting counting;
					one(self, inputs, static_cast<tpcc::Type>(t), counting);
					sum.reads += counting.n.reads;
					sum.writes += counting.n.writes;
					sum.new_row_writes += counting.n.new_row_writes;
				}
				all[type_names[t]] = tpcc::mean_footprint(
				        sum, times, w_.scale.table1 ? &table1[t] : nullptr);
			}
		});
		return all;
	}

private:
	using Self = typename Tm::Thread;
	static constexpr unsigned MOST_HEAPS = OfHeaps<Tm> ? +bench::FurGroupTm::MOST : 1;

	/* The thread's transactions in one heap. */
	static auto &of(Self &self, [[maybe_unused]] unsigned heap)
	{
		if constexpr (OfHeaps<Tm>)
			return self.of(heap);
		else
			return self;
	}
	void *root([[maybe_unused]] unsigned heap)
	{
		if constexpr (OfHeaps<Tm>)
			return tm_.root(heap);
		else
			return tm_.root();
	}
	unsigned heap_of([[maybe_unused]] uint64_t w) const
	{
		if constexpr (OfHeaps<Tm>)
			return w_.heap_of(w);
		else
			return 0;
	}
	tpcc::Databases databases() const
	{
		return {db_, db_ + w_.heaps};
	}

	/* Updates are submitted, and count when they are durable; a thread reads on its own
	 * meanwhile. */
	void submit(Self &self, Inputs &inputs, const std::atomic<bool> &stop,
	        bench::Progress &progress)
	{
		tpcc::Submitting submitting(tm_.group(), w_);
		Plain plain;
		while (!stop.load(std::memory_order_relaxed)) {
			auto type = inputs.type();
			if (type == STOCK_LEVEL || type == ORDER_STATUS) {
				one(self, inputs, type, plain);
				progress.count(type);
				continue;
			}
			if (submitting.full())
				progress.count(submitting.wait());
			submitting.submit(type, inputs);
		}
		over_heaps_ += submitting.committed_over();
	}

	/* `with` turns the open transaction into the one that the body gets. */
	template <class With>
	void one(Self &self, Inputs &inputs, tpcc::Type type, With &with)
	{
		switch (type) {
		case STOCK_LEVEL: {
			auto in = inputs.stock_level();
			auto *db = db_[heap_of(in.w)];
			uint64_t seen[1024];
			shown_ = of(self, heap_of(in.w)).read([&](auto *tx) {
				return w_.scale.table1
				               ? tpcc::table1::stock_level(with(tx), db, in)
				               : tpcc::stock_level(with(tx), db, in, seen, 1024);
			});
			break;
		}
		case ORDER_STATUS: {
			auto in = inputs.order_status();
			auto *db = db_[heap_of(in.w)];
			shown_ = static_cast<uint64_t>(of(self, heap_of(in.w)).read([&](auto *tx) {
				return tpcc::order_status(with(tx), db, in, w_.scale.table1);
			}));
			break;
		}
		case DELIVERY: {
			auto in = inputs.delivery();
			auto *db = db_[heap_of(in.w)];
			shown_ = of(self, heap_of(in.w)).update([&](auto *tx) {
				return w_.scale.table1 ? tpcc::table1::delivery(with(tx), db, in)
				                       : tpcc::delivery(with(tx), db, in);
			});
			break;
		}
		case PAYMENT: payment(self, inputs.payment(), with); break;
		default: new_order(self, inputs, with);
		}
	}
	template <class With>
	void payment(Self &self, const tpcc::Payment &in, With &with)
	{
		auto body = [&](auto &&at) {
			if (w_.scale.table1)
				tpcc::pay_at(at, in);
			else
				tpcc::payment_at(at, in);
			return true;
		};
		const unsigned heap = heap_of(in.w);
		if constexpr (OfHeaps<Tm>)
			if (heap != heap_of(in.customer_w)) {
				over(self, std::array{heap, heap_of(in.customer_w)}, body);
				return;
			}
		of(self, heap).update([&](auto *tx) {
			return body(tpcc::everywhere(with(tx), db_[heap]));
		});
	}
	template <class With>
	void new_order(Self &self, Inputs &inputs, With &with)
	{
		bool roll_back;
		auto in = inputs.new_order(roll_back);
		auto body = [&](auto &&at) { return tpcc::new_order_at(at, in, w_.scale.table1); };
		const unsigned heap = heap_of(in.w);
		if constexpr (OfHeaps<Tm>)
			if (Heaps all = heaps_of(in); all.n > 1) {
				over(self, std::span(all.heap, all.n), body);
				return;
			}
		auto alone = [&](auto *tx) { return body(tpcc::everywhere(with(tx), db_[heap])); };
		if (!roll_back)
			of(self, heap).update(alone);
		else if constexpr (Tm::rolls_back)
			of(self, heap).update_or_abort(alone);
		/* Else the system cannot, and goes without. */
	}
	/* Of a new order's warehouse and suppliers, each once. */
	struct Heaps {
		unsigned heap[bench::FurGroupTm::MOST], n;
	};
	Heaps heaps_of(const tpcc::NewOrder &in) const
	{
		Heaps all = {{heap_of(in.w)}, 1};
		for (uint64_t n = 0; n < in.lines; n++) {
			const unsigned heap = heap_of(in.line[n].supplier);
			if (std::find(all.heap, all.heap + all.n, heap) == all.heap + all.n)
				all.heap[all.n++] = heap;
		}
		return all;
	}
	/* body(at) as one update over several heaps. */
	template <class Body>
	void over(Self &self, std::span<const unsigned> heaps, Body &body)
	{
		self.update_over(heaps, [&](const fur::GroupUpdate &tx) {
			return body([&](uint64_t w) {
				const unsigned heap = heap_of(w);
				return tpcc::Place<fur_update>{tx[heap], db_[heap]};
			});
		});
	}

	void load(Self &self)
	{
		bench::ProgressBar bar(
		        "loading", w_.heaps * tpcc::rows_to_load(w_.in_heap(), w_.scale));
		for (unsigned h = 0; h < w_.heaps; h++)
			load_heap(of(self, h), h, bar);
		if (const char *wrong = tpcc::check_loaded_at_rest(databases(), w_.scale.table1))
			throw std::runtime_error(
			        std::string("the database is not consistent after loading: ") +
			        wrong);
	}
	template <class Alone>
	void load_heap(Alone &self, unsigned heap, bench::ProgressBar &bar)
	{
		db_[heap] = tpcc::load(
		        [&](auto &&f) {
			        self.update([&](auto *tx) {
				        f(tx);
				        return 0;
			        });
		        },
		        w_.in_heap(), w_.scale, seed_ + heap, [&bar] { bar.step(); },
		        1 + heap * w_.in_heap());
		/* The root goes in last: a load that was cut short is not taken for a database. */
		self.update([&](auto *tx) {
			tm_.set_root(tx, db_[heap]);
			return 0;
		});
	}

	void check_reused(Self &self)
	{
		for (unsigned h = 0; h < w_.heaps; h++)
			check_size(of(self, h), db_[h]);
		if (const char *wrong = tpcc::check_at_rest(databases(), w_.scale.table1))
			throw std::runtime_error(
			        std::string("the database in the heap is not consistent: ") +
			        wrong);
	}
	template <class Alone>
	void check_size(Alone &self, const tpcc::Database *db)
	{
		uint64_t is[4];
		self.read([&](auto *tx) {
			is[0] = fur_load(tx, &db->warehouses), is[1] = fur_load(tx, &db->customers),
			is[2] = fur_load(tx, &db->items), is[3] = fur_load(tx, &db->tombstones);
			return 0;
		});
		if (is[0] != w_.in_heap() || is[1] != w_.scale.customers ||
		        is[2] != w_.scale.items || is[3] != w_.scale.tombstones)
			throw bench::Usage("the heap holds a database of " + std::to_string(is[0]) +
			                   " warehouses, " + std::to_string(is[1]) +
			                   " customers a district, " + std::to_string(is[2]) +
			                   " items and " + std::to_string(is[3]) +
			                   " tombstones a district: ask for the same --warehouses "
			                   "and --scale, or "
			                   "another heap");
	}

	Tm &tm_;
	const Workload &w_;
	uint64_t seed_;
	/* Of each heap */
	tpcc::Database *db_[MOST_HEAPS] = {};
	bench::Stock stock_[MOST_HEAPS];
	std::atomic<uint64_t> over_heaps_{0};
	/* Output of a terminal, so that it is not optimised away */
	static inline thread_local volatile uint64_t shown_;
};

template <class Tm>
int run_on(bench::Options &o, Workload &w)
{
	Tm tm(o.tm_options);
	Tpcc<Tm> tpcc(tm, w, o.seed);
	json footprints = w.footprints ? tpcc.footprints() : json();
	bench::RunOptions of_run{
	        [&](tools::CommandLine &line) { w.add_to_run(line); }, [&] { w.check_run(); }};
	if (auto status = bench::each_run(o, of_run, [&] { bench::adopt(tm); }))
		return *status;
	tm.begin_run();
	bench::Window window =
	        bench::run_threads(o, [&](unsigned i, auto &start, auto &stop, auto &p) {
		        tpcc.run(i, o.threads, start, stop, p);
	        });
	json r = bench::common_result(o, "tpcc", window, type_names, TYPES);
	tm.describe(r);
	r["warehouses"] = w.warehouses;
	r["mix"] = w.mix_name;
	r["first_thread"] = w.first_name.empty() ? w.mix_name : w.first_name;
	r["scale"] = w.scale_name;
	r["home"] = w.home;
	if (w.homes)
		r["homes"] = w.homes;
	if (w.remote >= 0)
		r["remote"] = w.remote;
	if constexpr (OfHeaps<Tm>) {
		r["heaps"] = w.heaps;
		r["over_heaps"] = tpcc.over_heaps();
		if (w.submit)
			r["submit"] = w.submit, r["workers"] = o.tm_options.workers;
	}
	tm.results(r);
	if (w.footprints)
		r["footprints"] = footprints;
	r["conditions"] = w.scale.table1
	                          ? "3.3.2.1 to 7 and 12; 2, 3, 5 and 12 with tombstones; not 8 to "
	                            "10, for payment inserts no history; and the stock"
	                          : "3.3.2.1 to 10 and 12, and the stock";
	std::string wrong = tpcc.check();
	if (!wrong.empty())
		std::cerr << "tpcc: not verified: " << wrong << "\n";
	r["verified"] = wrong.empty();
	return bench::report(o, r);
}

/* f.operator()<Tm>() for the system and the number of heaps that the options ask for. */
template <class F>
int on_heaps(const bench::Options &o, F &&f)
{
	if (o.tm_options.member)
		return bench::on_member(o, f);
	if (o.tm_options.heaps == 1 && !o.tm_options.workers)
		return bench::on_system(o, f);
	return bench::on_libfur<bench::FurGroupTm>(
	        o, "has one heap: use fur-opacity with --heaps and --submit", f);
}

void check_heaps(bench::Options &o, Workload &w)
{
	if (w.heaps < 1 || w.heaps > bench::FurGroupTm::MOST || w.warehouses % w.heaps)
		throw bench::Usage("--heaps " + std::to_string(w.heaps) +
		                   ": use a divisor of the " + std::to_string(w.warehouses) +
		                   " warehouses, at most " +
		                   std::to_string(bench::FurGroupTm::MOST));
	if ((w.heaps > 1 || w.submit) && w.footprints)
		throw bench::Usage("--footprints: measure them with one heap: leave --heaps and "
		                   "--submit out");
	if ((w.heaps > 1 || w.submit) && o.tm_options.member)
		throw bench::Usage("--member: has the data in one heap, and submits nothing: leave "
		                   "--heaps and --submit out");
	if (w.submit && o.machine != "native")
		throw bench::Usage("--submit: libfur's own threads run natively only: leave "
		                   "--machine out");
	o.tm_options.heaps = w.heaps;
	if (!w.submit)
		o.tm_options.workers = 0;
}

int run(bench::Options &o, Workload &w)
{
	w.check_run();
	w.scale = tpcc::parse_scale(w.scale_name);
	if (w.warehouses < 1 || w.warehouses > 4096)
		throw bench::Usage("--warehouses: use 1 to 4096");
	check_heaps(o, w);
	uint64_t needs = heap_bytes_of(w);
	if (o.tm_options.heap_bytes && o.tm_options.heap_bytes < needs)
		throw bench::Usage("--heap-mib " + std::to_string(o.tm_options.heap_bytes >> 20) +
		                   ": " + std::to_string(w.in_heap()) + " warehouses at --scale " +
		                   w.scale_name + " need at least " + std::to_string(needs >> 20));
	if (!o.tm_options.heap_bytes)
		o.tm_options.heap_bytes = needs + growth_of(o, w);
	try {
		return on_heaps(o, [&]<class Tm>() { return run_on<Tm>(o, w); });
	} catch (const btree::NoMemory &) {
		throw bench::Usage(
		        "the heap is too small for " + std::to_string(w.warehouses) +
		        " warehouses and what the run adds: give it a larger --heap-mib");
	} catch (const tpcc::Broken &e) {
		throw std::runtime_error(std::string("the database is not consistent: ") + e.what);
	}
}

} // namespace

int main(int argc, char **argv)
{
	alignas(128) static Workload w; /* not on the stack, see machine_emulated.cpp */
	return bench::main_of(
	        "tpcc", argc, argv,
	        [&](tools::CommandLine &line, bench::Options &o) {
		        o.tm_options.workers = 2;
		        line.option("--warehouses", w.warehouses, "number of warehouses");
		        line.option("--heaps", w.heaps,
		                "libfur: cut the warehouses over this many heaps of a group, up to "
		                "16; the sizes are those of each heap.  With --heap, its file is "
		                "the group's, and those of the heaps are FILE.0, FILE.1, ...");
		        line.option("--submit", w.submit,
		                    "libfur: submit updates to the group in parts, one for each "
		                    "heap; "
		                    "a thread has up to this many under way; default: 0, it runs "
		                    "each "
		                    "itself")
		                .range(0, 65536);
		        line.option("--workers", o.tm_options.workers,
		                    "libfur's threads that run what is submitted")
		                .range(1, 16);
		        bench::add_member(line, o.tm_options);
		        w.add_to_run(line);
		        line.option("--scale", w.scale_name,
		                "paper: as the FUR paper's published program; tenth: paper with a "
		                "tenth of its customers and items; table1: the reads and writes of "
		                "the FUR paper's Table 1, whose delivery and payment break "
		                "conditions 2, 3, 5, 8 to 10 and 12 of TPC-C (docs/benchmarks.md); "
		                "table1-tenth: table1 with a tenth of the items and a quarter of "
		                "the customers; spec: as in the specification; spec-tenth: spec "
		                "with a "
		                "tenth of its customers and items; tiny: for tests");
		        line.flag("--footprints", w.footprints,
		                "before the run, measure reads and writes of each transaction "
		                "type; at the scales table1 and table1-tenth next to Table 1");
	        },
	        [&](bench::Options &o) { return run(o, w); });
}
