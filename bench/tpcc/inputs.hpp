/* SPDX-License-Identifier: BSD-3-Clause
 *
 * inputs.hpp - what to run: the options of the workload, and the inputs of the transactions, TPC-C
 * clauses 2.4.1 to 2.8.1.
 */
#ifndef TPCC_INPUTS_HPP
#define TPCC_INPUTS_HPP

#include "../common/driver.hpp"
#include "load.hpp"

#include <array>
#include <cmath>
#include <sstream>

namespace tpcc
{

enum Type { STOCK_LEVEL, DELIVERY, ORDER_STATUS, PAYMENT, NEW_ORDER, TYPES };
inline const char *const type_names[] = {
        "stocklevel", "delivery", "orderstatus", "payment", "neworder"};

/* Percentages, in the order of the types. */
using Mix = std::array<double, TYPES>;
inline const std::pair<const char *, Mix> named_mixes[] = {
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
	Scale scale;
	bool home = false, footprints = false;
	unsigned heaps = 1;
	unsigned submit = 0; /* updates that a thread has under way; 0: it submits none */
	/* Percent of new orders and payments that touch another warehouse, of another heap if there
	 * are several; negative: as TPC-C has it */
	double remote = -1;
	uint64_t homes = 0;      /* blocks of warehouses, of which each thread uses one; 0: any */
	uint64_t in_heap() const /* warehouses */
	{
		return warehouses / heaps;
	}
	unsigned heap_of(uint64_t w) const
	{
		return static_cast<unsigned>((w - 1) / in_heap());
	}
	void add_to_run(tools::CommandLine &line);
	void check_run();
};

inline Mix parse_mix(const std::string &option, const std::string &text)
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
inline void Workload::add_to_run(tools::CommandLine &line)
{
	line.option("--mix", mix_name,
	        "standard, read-dominated, orderstatus95, a type, or TYPE=PERCENT,... (stocklevel, "
	        "delivery, orderstatus, payment, neworder)");
	line.option("--first-thread", first_name,
	        "a mix for thread 0 alone; default: the mix of all threads");
	line.flag("--home", home, "each thread uses only a warehouse of its own");
	line.option("--homes", homes,
	        "cut the warehouses into this many blocks: each thread uses only those of one, "
	        "neighbouring threads the same; default: any warehouse");
	line.option("--remote", remote,
	        "percent of new orders and payments with one line, or a customer, of another "
	        "warehouse, which is in another heap if there are several; default: as TPC-C has "
	        "it, 1 % of the lines and 15 % of payments, of any other warehouse");
}

inline void Workload::check_run()
{
	if (homes && (warehouses % homes || home))
		throw bench::Usage("--homes " + std::to_string(homes) + ": use a divisor of the " +
		                   std::to_string(warehouses) + " warehouses, without --home");
	if (remote > 100 || std::isnan(remote))
		throw bench::Usage("--remote: use 0 to 100");
	mix = parse_mix("--mix", mix_name);
	first = first_name.empty() ? mix : parse_mix("--first-thread", first_name);
}

inline Scale parse_scale(const std::string &name)
{
	Scale paper{3000, 100000, 1, 3, 100, false, false};
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

/* Inputs of the transactions, clauses 2.4.1 to 2.8.1. */
class Inputs
{
public:
	/* Of thread 1 to `threads`; 0: of none */
	Inputs(const Workload &w, const Mix &mix, uint64_t seed, unsigned thread, unsigned threads)
	    : w_(w), mix_(mix), random_(seed * 1000003 + thread)
	{
		const uint64_t before = thread ? thread - 1 : 0;
		if (w.home) {
			first_ = last_ = before % w.warehouses + 1;
		} else if (w.homes) {
			const uint64_t block = w.warehouses / w.homes;
			first_ = before * w.homes / threads * block + 1;
			last_ = first_ + block - 1;
		} else {
			first_ = 1, last_ = w.warehouses;
		}
	}

	Type type()
	{
		double at = static_cast<double>(random_.uniform(0, 999999)) / 10000;
		for (unsigned t = 0; t < TYPES; t++)
			if ((at -= mix_[t]) < 0)
				return static_cast<Type>(t);
		return NEW_ORDER;
	}
	NewOrder new_order(bool &roll_back)
	{
		NewOrder in;
		in.w = warehouse(), in.d = district(), in.c = customer(), in.date = ++date_;
		in.lines = random_.uniform(w_.scale.least_lines, w_.scale.most_lines);
		roll_back = w_.scale.rollbacks && random_.percent(1);
		const double share = w_.remote < 0 ? 1 : 0; /* of lines */
		for (uint64_t n = 0; n < in.lines; n++) {
			in.line[n].item = random_.non_uniform(8191, 1, w_.scale.items);
			in.line[n].supplier =
			        w_.warehouses > 1 && random_.percent(share) ? other(in.w) : in.w;
			in.line[n].quantity = random_.uniform(1, 10);
		}
		if (w_.warehouses > 1 && w_.remote >= 0 && random_.percent(w_.remote))
			in.line[random_.uniform(0, in.lines - 1)].supplier = other(in.w);
		if (roll_back)
			in.line[in.lines - 1].item = w_.scale.items + 1;
		return in;
	}
	Payment payment()
	{
		Payment in;
		in.w = in.customer_w = warehouse(), in.d = in.customer_d = district(),
		in.date = ++date_;
		if (w_.warehouses > 1 && random_.percent(w_.remote < 0 ? 15 : w_.remote))
			in.customer_w = other(in.w), in.customer_d = district();
		in.by_name = by_name();
		in.c = customer(), in.name = name();
		in.amount = static_cast<int64_t>(random_.uniform(100, 500000));
		return in;
	}
	OrderStatus order_status()
	{
		return {warehouse(), district(), customer(), name(), by_name()};
	}
	Delivery delivery()
	{
		return {warehouse(), random_.uniform(1, 10), ++date_};
	}
	StockLevel stock_level()
	{
		return {warehouse(), district(), w_.scale.stock_orders,
		        static_cast<int64_t>(random_.uniform(10, 20))};
	}

private:
	uint64_t warehouse()
	{
		return w_.home ? first_ : random_.uniform(first_, last_);
	}
	uint64_t other(uint64_t w)
	{
		uint64_t before = 1; /* of those from w on that it must not be */
		if (w_.heaps > 1 && w_.remote >= 0) {
			before = w_.in_heap();
			w = (w - 1) / before * before + 1;
		}
		uint64_t past = random_.uniform(0, w_.warehouses - before - 1);
		return (w + before - 1 + past) % w_.warehouses + 1;
	}
	uint64_t district()
	{
		return random_.uniform(1, DISTRICTS);
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
		uint64_t names = w_.scale.customers < NAMES ? w_.scale.customers : uint64_t(NAMES);
		return random_.non_uniform(255, 0, names - 1);
	}

	const Workload &w_;
	const Mix &mix_;
	Random random_;
	uint64_t first_, last_, date_ = 0; /* of its warehouses */
};

} // namespace tpcc

#endif /* TPCC_INPUTS_HPP */
