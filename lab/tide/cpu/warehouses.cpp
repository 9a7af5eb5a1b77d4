/* SPDX-License-Identifier: BSD-3-Clause
 *
 * warehouses.cpp - rows that are loaded when they are needed, and TPC-C's conditions.
 */
#include "warehouses.hpp"

namespace tide
{

/* With its order: order 1 has the second place. */
void Warehouses::load_customer(unsigned w, uint32_t d, uint32_t c)
{
	Customer *const row = customer(w, d, c);
	if (trees_) {
		customer_tree_.load(w, tpcc_customer_key(d, c));
		order_tree_.load(w, tpcc_order_key(d, c + 1));
		order_tree_.load(w, TPCC_TREE_CUSTOMERS); /* of a later order */
	}
	if (row->last_order)
		return;
	row->last_order = uint64_t(c) + 1;
	Order *const o = order(w, d, row->last_order);
	if (o->lines)
		return; /* the place belongs to a later order already */
	o->customer = c, o->lines = FIRST_LINES;
	for (uint32_t k = 0; k < TPCC_LINES; k++)
		o->line[k] = {k < FIRST_LINES ? c + k : 0, 1};
}

void Warehouses::load(unsigned w, const tide_record &r)
{
	const uint32_t *const p = r.parameter;
	if (r.type == TIDE_PAYMENT) {
		if (p[3])
			load_customer(w, p[4], p[1]);
		return;
	}
	load_customer(w, p[0], p[1]);
	if (r.type != TIDE_NEW_ORDER)
		return;
	District &d = district_[w * DISTRICTS + p[0]];
	if (!d.next_order)
		d.next_order = FIRST_ORDERS + 1;
	Items items(p[2]);
	for (uint32_t k = 0; k < p[3]; k++) {
		const uint32_t item = items.next();
		if (trees_)
			stock_tree_.load(w, item);
		Stock &s = stock_[w * uint64_t(TPCC_ITEMS) + item];
		if (!s.quantity)
			s.quantity = STOCK;
	}
}

std::string Warehouses::wrong_warehouse(unsigned w, uint64_t &paid, uint64_t &orders) const
{
	uint64_t districts = 0;
	for (uint64_t k = 0; k < DISTRICTS; k++) {
		const District &d = district_[w * DISTRICTS + k];
		districts += d.ytd;
		if (d.next_order)
			orders += d.next_order - (FIRST_ORDERS + 1);
	}
	if (warehouse_[w].ytd != districts)
		return "warehouse " + std::to_string(w) + " has " +
		       std::to_string(warehouse_[w].ytd) + ", and its districts " +
		       std::to_string(districts);
	for (uint64_t k = 0; k < CUSTOMERS; k++) {
		const Customer &c = customer_[w * CUSTOMERS + k];
		paid += c.ytd_payment;
		if (c.balance + c.ytd_payment != 0)
			return "a customer's balance and payments differ in warehouse " +
			       std::to_string(w);
	}
	return "";
}

std::string Warehouses::wrong(uint64_t orders) const
{
	uint64_t paid = 0, received = 0, made = 0;
	for (unsigned w = 0; w < count_; w++) {
		const std::string what = wrong_warehouse(w, paid, made);
		if (!what.empty())
			return what;
		received += warehouse_[w].ytd;
	}
	if (paid != received)
		return "customers have paid " + std::to_string(paid) + ", and warehouses have " +
		       std::to_string(received);
	if (made != orders)
		return "districts have " + std::to_string(made) + " orders more, and " +
		       std::to_string(orders) + " were made";
	return "";
}

} // namespace tide
