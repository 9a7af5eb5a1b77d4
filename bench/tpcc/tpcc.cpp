/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tpcc.cpp - the TPC-C benchmark: loads the database, runs a mix of the five transactions, checks
 * the consistency conditions of clause 3.3.2 (consistency.hpp).  No terminals, no think times:
 * throughput of transactions, as in FUR's evaluation (section 4).
 */
#include "../common/runs.hpp"
#include "../common/stock.hpp"
#include "../common/systems.hpp"
#include "check.hpp"
#include "footprints.hpp"
#include "load.hpp"
#include "table1.hpp"

#include <array>
#include <iostream>
#include <sstream>

namespace
{

using bench::json;
using tpcc::Counting, tpcc::Footprint, tpcc::Plain;

enum Type { STOCK_LEVEL, DELIVERY, ORDER_STATUS, PAYMENT, NEW_ORDER, TYPES };
const char *const type_names[] = {"stocklevel", "delivery", "orderstatus", "payment", "neworder"};
const tpcc::PublishedFootprint table1[] = {{122e3, 0}, {86e3, 30}, {650, 0}, {97, 5}, {7500, 141}};

/* Percentages, in the order of the types. */
using Mix = std::array<double, TYPES>;
const std::pair<const char *, Mix> named_mixes[] = {
        {"standard", {4, 4, 4, 43, 45}}, {"stocklevel", {100, 0, 0, 0, 0}},
        {"delivery", {0, 100, 0, 0, 0}}, {"orderstatus", {0, 0, 100, 0, 0}},
        {"payment", {0, 0, 0, 100, 0}}, {"neworder", {0, 0, 0, 0, 100}},
        {"orderstatus95", {0, 0, 95, 5, 0}},       /* FUR, Figure 4 */
        {"read-dominated", {42.5, 5, 42.5, 5, 5}}, /* Figure 8: 85 % read-only */
};

struct Workload {
	uint64_t warehouses = 1;
	std::string mix_name = "standard", first_name, scale_name = "paper";
	Mix mix{}, first{}; /* first: of thread 0 */
	tpcc::Scale scale;
	bool home = false, footprints = false;
	void add_to_run(tools::CommandLine &line);
	void check_run();
};

Mix parse_mix(const std::string &option, const std::string &text)
{
	for (const auto &[name, mix] : named_mixes)
		if (text == name)
			return mix;
	Mix mix{};
	double sum = 0;
	std::istringstream in(text);
	for (std::string part; std::getline(in, part, ',');) {
		size_t equals = part.find('='), type = 0;
		while (type < TYPES && part.substr(0, equals) != type_names[type])
			type++;
		char *end = nullptr;
		double percent =
		        equals == std::string::npos ? -1 : strtod(part.c_str() + equals + 1, &end);
		if (type == TYPES || !end || *end || !(percent >= 0))
			throw bench::Usage(option + " " + text + ": '" + part +
			                   "' is not a mix: use standard, read-dominated, "
			                   "orderstatus95, a type, or TYPE=PERCENT,... of "
			                   "stocklevel, delivery, orderstatus, payment, neworder");
		mix[type] += percent;
		sum += percent;
	}
	if (sum < 99.999 || sum > 100.001) {
		std::ostringstream is;
		is << sum;
		throw bench::Usage(option + " " + text + ": the percentages add up to " + is.str() +
		                   ", not 100");
	}
	return mix;
}

/* The options of a run, which do not matter to loading. */
void Workload::add_to_run(tools::CommandLine &line)
{
	line.option("--mix", mix_name,
	        "standard, read-dominated, orderstatus95, a type, or TYPE=PERCENT,... (stocklevel, "
	        "delivery, orderstatus, payment, neworder)");
	line.option("--first-thread", first_name,
	        "a mix for thread 0 alone; default: the mix of all threads");
	line.flag("--home", home, "each thread uses only a warehouse of its own");
}

void Workload::check_run()
{
	mix = parse_mix("--mix", mix_name);
	first = first_name.empty() ? mix : parse_mix("--first-thread", first_name);
}

tpcc::Scale parse_scale(const std::string &name)
{
	tpcc::Scale paper{3000, 100000, 1, 3, 100, false, false};
	if (name == "paper")
		return paper;
	/* Its reads and writes, but for the height of a tree; for many warehouses where memory is
	 * short */
	if (name == "tenth")
		return {300, 10000, 1, 3, 100, false, false};
	/* 170 tombstones a district make delivery read as much as in Table 1.  Of 750 orders 225
	 * have no carrier at load, so 55 are left to deliver. */
	if (name == "table1")
		return {3000, 100000, 5, 15, 100, false, false, true, 170};
	if (name == "table1-tenth")
		return {750, 10000, 5, 15, 100, false, false, true, 170};
	if (name == "spec")
		return {};
	if (name == "spec-tenth")
		return {300, 10000, 5, 15, 20, true, true};
	if (name == "tiny") /* spec's rules on little data: for tests */
		return {60, 1000, 5, 15, 20, true, true};
	throw bench::Usage("--scale " + name +
	                   ": use paper, tenth, table1, table1-tenth, spec, spec-tenth or tiny");
}

/* The size of the database, per warehouse: rows in blocks of 64 or 128 bytes, nodes of trees in
 * blocks of 256, at about 60 %. */
uint64_t heap_bytes_of(const Workload &w)
{
	uint64_t customers = tpcc::DISTRICTS * w.scale.customers,
	         lines = customers * (w.scale.least_lines + w.scale.most_lines) / 2;
	uint64_t tree = 64, warehouse = customers * (128 + 64 + 64 + 5 * tree) +
	                                lines * (64 + tree) + w.scale.items * (64 + tree);
	/* Half as much again for leaves that split, and for the stock of each thread. */
	return w.warehouses * warehouse * 3 / 2 + w.scale.items * (64 + tree) +
	       (uint64_t(64) << 20);
}

/* The growth by new orders and payments during the run: 130 MB a second of each thread, at most 8
 * GB. */
uint64_t growth_of(const bench::Options &o, const Workload &w)
{
	double threads = (w.first[PAYMENT] + w.first[NEW_ORDER] +
	                         (o.most_threads - 1) * (w.mix[PAYMENT] + w.mix[NEW_ORDER])) /
	                 100;
	double seconds = o.seconds + (o.machine == "native" ? 0.5 : o.warm_up_seconds());
	double bytes = seconds * threads * 1.3e8;
	return bytes < 8e9 ? static_cast<uint64_t>(bytes) : UINT64_C(8000000000);
}

using tpcc::Random;

/* Inputs of the transactions, clauses 2.4.1 to 2.8.1. */
class Inputs
{
public:
	Inputs(const Workload &w, const Mix &mix, uint64_t seed, unsigned thread)
	    : w_(w), mix_(mix), random_(seed * 1000003 + thread), home_(thread % w.warehouses + 1)
	{
	}

	Type type()
	{
		double at = static_cast<double>(random_.uniform(0, 999999)) / 10000;
		for (unsigned t = 0; t < TYPES; t++)
			if ((at -= mix_[t]) < 0)
				return static_cast<Type>(t);
		return NEW_ORDER;
	}
	tpcc::NewOrder new_order(bool &roll_back)
	{
		tpcc::NewOrder in;
		in.w = warehouse(), in.d = district(), in.c = customer(), in.date = ++date_;
		in.lines = random_.uniform(w_.scale.least_lines, w_.scale.most_lines);
		roll_back = w_.scale.rollbacks && random_.percent(1);
		for (uint64_t n = 0; n < in.lines; n++) {
			in.line[n].item = random_.non_uniform(8191, 1, w_.scale.items);
			in.line[n].supplier =
			        w_.warehouses > 1 && random_.percent(1) ? other(in.w) : in.w;
			in.line[n].quantity = random_.uniform(1, 10);
		}
		if (roll_back)
			in.line[in.lines - 1].item = w_.scale.items + 1;
		return in;
	}
	tpcc::Payment payment()
	{
		tpcc::Payment in;
		in.w = in.customer_w = warehouse(), in.d = in.customer_d = district(),
		in.date = ++date_;
		if (w_.warehouses > 1 && random_.percent(15))
			in.customer_w = other(in.w), in.customer_d = district();
		in.by_name = by_name();
		in.c = customer(), in.name = name();
		in.amount = static_cast<int64_t>(random_.uniform(100, 500000));
		return in;
	}
	tpcc::OrderStatus order_status()
	{
		return {warehouse(), district(), customer(), name(), by_name()};
	}
	tpcc::Delivery delivery()
	{
		return {warehouse(), random_.uniform(1, 10), ++date_};
	}
	tpcc::StockLevel stock_level()
	{
		return {warehouse(), district(), w_.scale.stock_orders,
		        static_cast<int64_t>(random_.uniform(10, 20))};
	}

private:
	uint64_t warehouse()
	{
		return w_.home ? home_ : random_.uniform(1, w_.warehouses);
	}
	uint64_t other(uint64_t w)
	{
		return (w + random_.uniform(0, w_.warehouses - 2)) % w_.warehouses + 1;
	}
	uint64_t district()
	{
		return random_.uniform(1, tpcc::DISTRICTS);
	}
	uint64_t customer()
	{
		return random_.non_uniform(1023, 1, w_.scale.customers);
	}
	bool by_name()
	{
		return w_.scale.by_name && random_.percent(60);
	}
	/* A name that a customer has: the first customers have names 0, 1, ... */
	uint64_t name()
	{
		uint64_t names = w_.scale.customers < tpcc::NAMES ? w_.scale.customers
		                                                  : uint64_t(tpcc::NAMES);
		return random_.non_uniform(255, 0, names - 1);
	}

	const Workload &w_;
	const Mix &mix_;
	Random random_;
	uint64_t home_, date_ = 0;
};

template <class Tm>
class Tpcc
{
public:
	Tpcc(Tm &tm, const Workload &w, uint64_t seed) : tm_(tm), w_(w), seed_(seed)
	{
		bench::aside([&] {
			typename Tm::Thread self(tm);
			db_ = static_cast<tpcc::Database *>(tm.root());
			if (db_)
				check_reused(self);
			else
				load(self);
			bench::empty_logs(self);
		});
	}

	void run(unsigned thread, const std::function<void()> &start, const std::atomic<bool> &stop,
	        bench::Progress &progress)
	{
		typename Tm::Thread self(tm_);
		Inputs inputs(w_, thread == 0 ? w_.first : w_.mix, seed_, thread + 1);
		stock_.take(self, thread,
		        {{sizeof(tpcc::History)}, {sizeof(tpcc::Order)}, {sizeof(tpcc::OrderLine)},
		                {sizeof(btree::Node), FUR_CACHE_LINE}});
		start();
		while (!stop.load(std::memory_order_relaxed)) {
			Type type = inputs.type();
			Plain plain;
			one(self, inputs, type, plain);
			progress.count(type);
		}
	}

	std::string check()
	{
		std::string wrong;
		bench::aside([&] {
			const char *what = tpcc::check_at_rest(db_, w_.scale.table1);
			wrong = what ? what : "";
		});
		return wrong;
	}

	/* Mean reads and writes of each type.  Each transaction changes the database, so this comes
	 * before the run: the result does not depend on the run's length. */
	json footprints()
	{
		json all;
		bench::aside([&] {
			typename Tm::Thread self(tm_);
			Inputs inputs(w_, w_.mix, seed_, 0);
			for (unsigned t = 0; t < TYPES; t++) {
				/* Few deliveries: each uses up an order of every district. */
				uint64_t times = t == DELIVERY ? 20 : 100;
				Footprint sum;
				for (uint64_t k = 0; k < times; k++) {
					Counting counting;
					one(self, inputs, static_cast<Type>(t), counting);
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
	/* `with` turns the open transaction into the one that the body gets. */
	template <class With>
	void one(typename Tm::Thread &self, Inputs &inputs, Type type, With &with)
	{
		switch (type) {
		case STOCK_LEVEL: {
			auto in = inputs.stock_level();
			uint64_t seen[1024];
			shown_ = self.read([&](auto *tx) {
				return w_.scale.table1
				               ? tpcc::table1::stock_level(with(tx), db_, in)
				               : tpcc::stock_level(with(tx), db_, in, seen, 1024);
			});
			break;
		}
		case ORDER_STATUS: {
			auto in = inputs.order_status();
			shown_ = static_cast<uint64_t>(self.read([&](auto *tx) {
				return tpcc::order_status(with(tx), db_, in, w_.scale.table1);
			}));
			break;
		}
		case DELIVERY: {
			auto in = inputs.delivery();
			shown_ = self.update([&](auto *tx) {
				return w_.scale.table1 ? tpcc::table1::delivery(with(tx), db_, in)
				                       : tpcc::delivery(with(tx), db_, in);
			});
			break;
		}
		case PAYMENT: {
			auto in = inputs.payment();
			self.update([&](auto *tx) {
				if (w_.scale.table1)
					tpcc::pay(with(tx), db_, in);
				else
					tpcc::payment(with(tx), db_, in);
				return 0;
			});
			break;
		}
		default: new_order(self, inputs, with);
		}
	}
	template <class With>
	void new_order(typename Tm::Thread &self, Inputs &inputs, With &with)
	{
		bool roll_back;
		auto in = inputs.new_order(roll_back);
		auto body = [&](auto *tx) {
			return tpcc::new_order(with(tx), db_, in, w_.scale.table1);
		};
		if (!roll_back)
			self.update(body);
		else if constexpr (Tm::rolls_back)
			self.update_or_abort(body);
		/* Else the system cannot, and goes without. */
	}

	void load(typename Tm::Thread &self)
	{
		bench::ProgressBar bar("loading", tpcc::rows_to_load(w_.warehouses, w_.scale));
		db_ = tpcc::load(
		        [&](auto &&f) {
			        self.update([&](auto *tx) {
				        f(tx);
				        return 0;
			        });
		        },
		        w_.warehouses, w_.scale, seed_, [&bar] { bar.step(); });
		/* The root goes in last: a load that was cut short is not taken for a database. */
		self.update([&](auto *tx) {
			tm_.set_root(tx, db_);
			return 0;
		});
		if (const char *wrong = tpcc::check_loaded_at_rest(db_, w_.scale.table1))
			throw std::runtime_error(
			        std::string("the database is not consistent after loading: ") +
			        wrong);
	}

	void check_reused(typename Tm::Thread &self)
	{
		uint64_t is[4];
		self.read([&](auto *tx) {
			is[0] = fur_load(tx, &db_->warehouses),
			is[1] = fur_load(tx, &db_->customers), is[2] = fur_load(tx, &db_->items),
			is[3] = fur_load(tx, &db_->tombstones);
			return 0;
		});
		if (is[0] != w_.warehouses || is[1] != w_.scale.customers ||
		        is[2] != w_.scale.items || is[3] != w_.scale.tombstones)
			throw bench::Usage("the heap holds a database of " + std::to_string(is[0]) +
			                   " warehouses, " + std::to_string(is[1]) +
			                   " customers a district, " + std::to_string(is[2]) +
			                   " items and " + std::to_string(is[3]) +
			                   " tombstones a district: ask for the same --warehouses "
			                   "and --scale, or "
			                   "another heap");
		if (const char *wrong = tpcc::check_at_rest(db_, w_.scale.table1))
			throw std::runtime_error(
			        std::string("the database in the heap is not consistent: ") +
			        wrong);
	}

	Tm &tm_;
	const Workload &w_;
	uint64_t seed_;
	tpcc::Database *db_ = nullptr;
	bench::Stock stock_;
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
	bench::Window window = bench::run_threads(o,
	        [&](unsigned i, auto &start, auto &stop, auto &p) { tpcc.run(i, start, stop, p); });
	json r = bench::common_result(o, "tpcc", window, type_names, TYPES);
	tm.describe(r);
	r["warehouses"] = w.warehouses;
	r["mix"] = w.mix_name;
	r["first_thread"] = w.first_name.empty() ? w.mix_name : w.first_name;
	r["scale"] = w.scale_name;
	r["home"] = w.home;
	tm.results(r);
	if (w.footprints)
		r["footprints"] = footprints;
	r["conditions"] = w.scale.table1 ? "3.3.2.1 to 7 and 12; 2, 3, 5 and 12 with tombstones; "
	                                   "not 8 to 10, for payment inserts no history"
	                                 : "3.3.2.1 to 10 and 12";
	std::string wrong = tpcc.check();
	if (!wrong.empty())
		std::cerr << "tpcc: not verified: " << wrong << "\n";
	r["verified"] = wrong.empty();
	return bench::report(o, r);
}

int run(bench::Options &o, Workload &w)
{
	w.check_run();
	w.scale = parse_scale(w.scale_name);
	if (w.warehouses < 1 || w.warehouses > 4096)
		throw bench::Usage("--warehouses: use 1 to 4096");
	uint64_t needs = heap_bytes_of(w);
	if (o.tm_options.heap_bytes && o.tm_options.heap_bytes < needs)
		throw bench::Usage("--heap-mib " + std::to_string(o.tm_options.heap_bytes >> 20) +
		                   ": " + std::to_string(w.warehouses) + " warehouses at --scale " +
		                   w.scale_name + " need at least " + std::to_string(needs >> 20));
	if (!o.tm_options.heap_bytes)
		o.tm_options.heap_bytes = needs + growth_of(o, w);
	try {
		return bench::on_system(o, [&]<class Tm>() { return run_on<Tm>(o, w); });
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
	        [&](tools::CommandLine &line, bench::Options &) {
		        line.option("--warehouses", w.warehouses, "number of warehouses");
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
