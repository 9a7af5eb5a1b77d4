/* SPDX-License-Identifier: BSD-3-Clause
 *
 * table1.hpp - the transactions of the FUR paper's Table 1 where they differ from TPC-C's.
 *
 * They have the footprints that the table reports, which come from the data structures of the
 * program that the paper publishes (section 4.1; github.com/inesc-id/FUR):
 *
 *   new order    looks up all items of the order again for each line
 *   order status reaches the order from the customer's index at once, not by its number
 *   payment      inserts no row of history: tpcc::pay()
 *   delivery     takes the newest order of a district instead of the oldest, leaves a tombstone
 *                instead of removing the row, and stores neither carrier nor dates of delivery
 *   stock level  finds each order line, and its stock, from the root
 *
 * So these transactions are not TPC-C's: consistency.hpp lists the conditions that they break.
 */
#ifndef TPCC_TABLE1_HPP
#define TPCC_TABLE1_HPP

#include "tpcc.hpp"

namespace tpcc::table1
{

/* The newest order of a district that waits; each tombstone on the way costs a look-up from the
 * root.  False: none waits. */
template <class Tx>
bool newest_waiting(Tx *tx, const Database *db, uint64_t w, uint64_t d, uint64_t &key)
{
	uint64_t at = district_key(w, d + 1) - 1, value;
	while (btree::last(tx, &db->new_order, at, key, value) && key >= district_key(w, d)) {
		if (value == WAITS)
			return true;
		at = key - 1;
	}
	return false;
}

/* All ten districts at once, three stores for each.  Returns the orders delivered. */
template <class Tx>
uint64_t delivery(Tx *tx, Database *db, const Delivery &in)
{
	uint64_t delivered = 0;
	for (uint64_t d = 1; d <= DISTRICTS; d++) {
		uint64_t key;
		if (!newest_waiting(tx, db, in.w, d, key))
			continue;
		btree::replace(tx, &db->new_order, key, TOMBSTONE);
		uint64_t number = key - district_key(in.w, d);
		auto *order = row<Order>(tx, db->order, key);
		int64_t sum = 0;
		for (uint64_t n = 1, lines = fur_load(tx, &order->lines); n <= lines; n++)
			sum += fur_load(tx,
			        &row<OrderLine>(tx, db->order_line, line_key(in.w, d, number, n))
			                 ->amount);
		bill(tx, db, in.w, d, order, sum);
		delivered++;
	}
	return delivered;
}

/* How many lines of the newest orders have an item that is low.  An item of several lines counts
 * several times. */
template <class Tx>
uint64_t stock_level(Tx *tx, const Database *db, const StockLevel &in)
{
	auto *district = row<District>(tx, db->district, district_key(in.w, in.d));
	uint64_t past = fur_load(tx, &district->next_order),
	         from = past > in.orders ? past - in.orders : 1, low = 0, value;
	for (uint64_t o = from; o < past; o++)
		for (uint64_t n = 1;
		        btree::find(tx, &db->order_line, line_key(in.w, in.d, o, n), value); n++) {
			uint64_t item = fur_load(tx, &reinterpret_cast<OrderLine *>(value)->item);
			auto *stock = row<Stock>(tx, db->stock, stock_key(in.w, item));
			low += fur_load(tx, &stock->quantity) < in.threshold;
		}
	return low;
}

} // namespace tpcc::table1

#endif /* TPCC_TABLE1_HPP */
