/* SPDX-License-Identifier: BSD-3-Clause
 *
 * workload.hpp - Bank, and the transactions of TPC-C that the paper runs: what is loaded, which
 * transactions there are, and what must hold at the end.
 *
 * A module has a warehouse with its districts, customers, stock and orders, or 200,000 accounts.
 * TPC-C is cut down to what decides on conflicts and accesses: rows have the fields that these
 * transactions use, tables are arrays and not trees, and customers are found by number.
 */
#ifndef LAB_TIDE_WORKLOAD_HPP
#define LAB_TIDE_WORKLOAD_HPP

#include "../../tools/common/random.hpp"
#include "tide.hpp"

#include <string>

namespace tide
{

/* What is loaded. */
enum : uint32_t {
	BALANCE = 1000,
	STOCK = 50,
	FIRST_ORDERS = TPCC_CUSTOMERS, /* each customer has one */
	FIRST_LINES = 10,
};

/* The keys of the nodes of a tree of these rows (struct tpcc_node), from node 1 on. */
std::vector<uint32_t> tree_keys(uint32_t rows);

struct Workload {
	std::string name = "bank";             /* or tpcc */
	unsigned accounts = 2;                 /* of a Bank transaction */
	unsigned payment = 44, new_order = 43; /* percent; the rest are OrderStatus */
	unsigned remote = 0; /* percent of the payments, whose customer is of another module */
	bool deterministic = false; /* local transactions take part in the order as well */

	bool bank() const
	{
		return name == "bank";
	}
	void load(Tide &system) const;
	Transaction draw(tools::Random &random, unsigned modules, unsigned module) const;
	/* Empty if the data are those that the transactions leave; else what is wrong.  `money`:
	 * the modules are a part of a machine, where both sums are equal. */
	struct Money {
		uint64_t paid = 0, received = 0;
	};
	std::string wrong(const Tide &system, Money *money = nullptr) const;
};

/* Of TPC-C: all words that transactions change, of each module */
std::vector<uint32_t> warehouses(const Tide &system);

} // namespace tide

#endif /* LAB_TIDE_WORKLOAD_HPP */
