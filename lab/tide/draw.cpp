/* SPDX-License-Identifier: BSD-3-Clause
 *
 * draw.cpp - the transactions of Bank and TPC-C, for modules and for the host's memory alike.
 */
#include "workload.hpp"

#include <algorithm>
#include <initializer_list>

namespace tide
{

static tide_record record_of(tide_type type, std::initializer_list<uint32_t> parameters)
{
	tide_record r = {};
	r.type = type;
	std::copy(parameters.begin(), parameters.end(), r.parameter);
	r.bytes = static_cast<uint16_t>(parameters.size() * 4);
	return r;
}

static Transaction draw_payment(tools::Random &random, unsigned module, unsigned other)
{
	const auto district = static_cast<uint32_t>(random.below(TPCC_DISTRICTS)),
	           its = static_cast<uint32_t>(random.below(TPCC_DISTRICTS)),
	           customer = static_cast<uint32_t>(random.below(TPCC_CUSTOMERS)),
	           amount = 1 + static_cast<uint32_t>(random.below(5000));
	const bool here = other == module;
	Transaction t;
	t.parts.push_back({module,
	        record_of(TIDE_PAYMENT, {district, customer, amount, here, here ? district : 0})});
	if (!here)
		t.parts.push_back({other, record_of(TIDE_PAYMENT_REMOTE, {its, customer, amount})});
	return t;
}

static Transaction draw_tpcc(
        const Workload &w, tools::Random &random, unsigned modules, unsigned module)
{
	const uint64_t kind = random.below(100);
	if (kind < w.payment) {
		unsigned other = module;
		if (modules > 1 && random.below(100) < w.remote)
			while (other == module)
				other = static_cast<unsigned>(random.below(modules));
		return draw_payment(random, module, other);
	}
	const auto district = static_cast<uint32_t>(random.below(TPCC_DISTRICTS)),
	           customer = static_cast<uint32_t>(random.below(TPCC_CUSTOMERS));
	Transaction t;
	if (kind >= w.payment + w.new_order) {
		t.parts.push_back({module, record_of(TIDE_ORDER_STATUS, {district, customer})});
		return t;
	}
	const auto seed = static_cast<uint32_t>(random.next() | 1),
	           lines = 5 + static_cast<uint32_t>(random.below(11));
	t.parts.push_back({module, record_of(TIDE_NEW_ORDER, {district, customer, seed, lines})});
	return t;
}

Transaction Workload::draw(tools::Random &random, unsigned modules, unsigned module) const
{
	Transaction t;
	if (bank())
		t.parts.push_back(
		        {module, record_of(TIDE_BANK,
		                         {static_cast<uint32_t>(random.next() | 1), accounts})});
	else
		t = draw_tpcc(*this, random, modules, module);
	t.ordered = deterministic;
	return t;
}

/* Keys in their order, in nodes from the left to the right. */
static void number_nodes(std::vector<uint32_t> &keys, size_t node, uint32_t &key)
{
	if (node >= keys.size())
		return;
	number_nodes(keys, 2 * node, key);
	keys[node] = ++key;
	number_nodes(keys, 2 * node + 1, key);
}

std::vector<uint32_t> tree_keys(uint32_t rows)
{
	std::vector<uint32_t> keys(size_t(rows) + 1);
	uint32_t key = 0;
	number_nodes(keys, 1, key);
	return keys;
}

} // namespace tide
