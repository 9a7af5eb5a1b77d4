/* SPDX-License-Identifier: BSD-3-Clause
 *
 * workload.cpp - Bank and TPC-C on modules.
 */
#include "workload.hpp"

namespace tide
{
namespace
{

/* A row of words, as often as asked for. */
template <class Row>
std::vector<uint32_t> rows(size_t count, const Row &row)
{
	std::vector<uint32_t> words;
	words.reserve(count * row.size());
	for (size_t k = 0; k < count; k++)
		words.insert(words.end(), row.begin(), row.end());
	return words;
}

void load_district(Tide &system, uint32_t district)
{
	std::vector<uint32_t> customers, orders;
	for (uint32_t k = 0; k < TPCC_CUSTOMERS; k++) {
		customers.insert(customers.end(), {0u, 0u, 0u, k + 1});
		orders.insert(orders.end(), {k, FIRST_LINES});
		for (uint32_t line = 0; line < TPCC_LINES; line++)
			orders.insert(orders.end(), {line < FIRST_LINES ? k + line : 0, 1u});
		orders.insert(orders.end(), {0u, 0u});
	}
	system.fill(TPCC_CUSTOMER + district * customers.size() * 4, customers);
	/* Order 1 has the second place. */
	system.fill(TPCC_ORDER + (size_t(district) * TPCC_ORDERS + 1) * sizeof(tpcc_order), orders);
}

void load_tree(Tide &system, uint64_t at, uint32_t rows)
{
	const std::vector<uint32_t> keys = tree_keys(rows);
	const auto node = [rows](size_t k) { return k <= rows ? static_cast<uint32_t>(k) : 0; };
	enum : size_t { PART = 10000 }; /* the host has it for each module */
	std::vector<uint32_t> words;
	for (size_t k = 1; k <= rows; k++) {
		words.insert(words.end(), {keys[k], keys[k], node(2 * k), node(2 * k + 1)});
		if (k % PART && k < rows)
			continue;
		const size_t first = k + 1 - words.size() / 4;
		system.fill(at + first * sizeof(tpcc_node), words);
		words.clear();
	}
}

uint64_t sum(const std::vector<uint32_t> &words, size_t from, size_t to, size_t step)
{
	uint64_t total = 0;
	for (size_t k = from; k < to; k += step)
		total += words[k];
	return total;
}

} // namespace

void Workload::load(Tide &system) const
{
	if (bank())
		return system.fill(TIDE_DATA, std::vector<uint32_t>(BANK_ACCOUNTS, BALANCE));
	system.fill(TPCC_WAREHOUSE, {0, 0});
	system.fill(
	        TPCC_DISTRICT, rows(TPCC_DISTRICTS, std::vector<uint32_t>{0, FIRST_ORDERS + 1}));
	for (uint32_t k = 0; k < TPCC_DISTRICTS; k++)
		load_district(system, k);
	enum : size_t { PART = 10000 };
	for (size_t k = 0; k < TPCC_ITEMS; k += PART)
		system.fill(TPCC_STOCK + k * sizeof(tpcc_stock),
		        rows(PART, std::vector<uint32_t>{STOCK, 0, 0, 0}));
	if (!system.trees())
		return;
	load_tree(system, TPCC_CUSTOMER_TREE, TPCC_TREE_CUSTOMERS);
	load_tree(system, TPCC_ORDER_TREE, TPCC_TREE_CUSTOMERS);
	load_tree(system, TPCC_STOCK_TREE, TPCC_ITEMS);
}

static std::string wrong_bank(const Tide &system)
{
	const std::vector<uint32_t> all = system.words(TIDE_DATA, BANK_ACCOUNTS);
	for (unsigned k = 0; k < system.modules(); k++) {
		const size_t from = size_t(k) * BANK_ACCOUNTS;
		/* A balance may be negative: the sum is one of 32 bits. */
		const auto total = static_cast<uint32_t>(sum(all, from, from + BANK_ACCOUNTS, 1));
		if (total != uint32_t(BANK_ACCOUNTS) * BALANCE)
			return "the accounts of module " + std::to_string(k) + " add up to " +
			       std::to_string(total);
	}
	return "";
}

/* TPC-C's consistency conditions 1 and 12, as far as there are these fields, and the number of
 * orders. */
static std::string wrong_tpcc(const Tide &system, Workload::Money &money)
{
	enum : size_t {
		CUSTOMERS = size_t(TPCC_DISTRICTS) * TPCC_CUSTOMERS,
		HEAD = 2 + 2 * TPCC_DISTRICTS,
		WORDS = HEAD + CUSTOMERS * 4,
	};
	const std::vector<uint32_t> all = system.words(TPCC_WAREHOUSE, WORDS);
	for (unsigned k = 0; k < system.modules(); k++) {
		const size_t at = k * WORDS;
		const uint64_t districts = sum(all, at + 2, at + HEAD, 2);
		if (all[at] != districts)
			return "the warehouse of module " + std::to_string(k) + " has " +
			       std::to_string(all[at]) + ", and its districts " +
			       std::to_string(districts);
		money.received += all[at];
		money.paid += sum(all, at + HEAD + 1, at + WORDS, 4);
		for (size_t c = at + HEAD; c < at + WORDS; c += 4)
			if (all[c] + all[c + 1] != 0)
				return "a customer's balance and payments differ in module " +
				       std::to_string(k);
	}
	return "";
}

std::string Workload::wrong(const Tide &system, Money *money) const
{
	if (bank())
		return wrong_bank(system);
	Money all;
	const std::string what = wrong_tpcc(system, all);
	if (money)
		*money = all;
	if (!what.empty() || money || all.paid == all.received)
		return what;
	return "customers have paid " + std::to_string(all.paid) + ", and warehouses have " +
	       std::to_string(all.received);
}

std::vector<uint32_t> warehouses(const Tide &system)
{
	return system.words(TPCC_WAREHOUSE, (TPCC_END - TPCC_WAREHOUSE) / 4);
}

} // namespace tide
