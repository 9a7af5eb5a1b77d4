/* SPDX-License-Identifier: BSD-3-Clause
 *
 * consistency.hpp - the consistency conditions of TPC-C, clause 3.3.2, and the structure of the
 * trees.
 *
 * The transactions of table1.hpp break seven of the twelve conditions.  For their scales four of
 * these are checked in another form, and three are not:
 *
 *   2, 3      Delivery takes the newest order that waits: then the newest order does not wait, and
 *             the orders that wait have gaps.  Checked with the tombstones among the rows of
 *             NEW-ORDER: no row is ever removed.
 *   5         Delivery stores no carrier.  Checked with the tombstones among the rows.
 *   12        Delivery stores no dates in the lines, so lines do not tell that they are delivered.
 *             Checked with the lines of orders that have a tombstone, or no row.
 *   8, 9, 10  Payment inserts no row of history, which they sum up.  Not checked.
 *
 * 7 holds because delivery stores neither of the two words that it compares.
 *
 * No condition of TPC-C tells whether the stock of an item was taken, which a new order does in
 * another heap for a supplier there.  So check_stock() looks at that as well.
 */
#ifndef TPCC_CONSISTENCY_HPP
#define TPCC_CONSISTENCY_HPP

#include "tpcc.hpp"

#include <map>
#include <unordered_map>
#include <vector>

namespace tpcc
{

/* Sums over the rows of one district, or of one customer. */
struct DistrictSums {
	int64_t history = 0, ytd = 0;
	uint64_t next_order = 0, newest = 0, orders = 0, lines_of_orders = 0, lines = 0;
	/* Rows of NEW-ORDER, tombstones among them */
	uint64_t waiting = 0, oldest_waiting = UINT64_MAX, newest_waiting = 0;
};
struct CustomerSums {
	int64_t paid = 0, delivered = 0;
};
/* Of the lines of new orders, by supplier and item. */
struct StockSums {
	int64_t quantity = 0, lines = 0, remote = 0;
};

/* Of all databases together: a warehouse is in one of them, and what others have of its orders and
 * payments may be in another. */
template <class Tx>
class Checker
{
public:
	using Databases = std::vector<const Database *>;
	Checker(Tx *tx, Databases all, bool table1) : tx_(tx), all_(std::move(all)), table1_(table1)
	{
	}

	const char *check()
	{
		for (const Database *db : all_)
			if (!wrong_)
				wrong_ = trees(db);
		for (const Database *db : all_) {
			if (!wrong_)
				districts(db);
			if (!wrong_)
				warehouses(db);
			if (!wrong_)
				customers(db);
		}
		return wrong_;
	}
	/* Also that the stock was taken for each line of the orders that were made after the load,
	 * which have a date. */
	const char *check_stock()
	{
		counts_stock_ = true;
		if (check())
			return wrong_;
		for (const Database *db : all_)
			stock(db);
		return wrong_;
	}
	/* 3.3.2.11: all orders but the newest three in ten are delivered. */
	const char *check_loaded()
	{
		if (check())
			return wrong_;
		for (const auto &[key, s] : districts_)
			if (s.orders - s.waiting != all_[0]->customers * 7 / 10)
				return "3.3.2.11: not seven in ten orders are delivered at first";
		return nullptr;
	}

private:
	void need(bool good, const char *what)
	{
		if (!good && !wrong_)
			wrong_ = what;
	}
	template <class T>
	T get(const T *word)
	{
		return fur_load(tx_, word);
	}

	const char *trees(const Database *db)
	{
		auto nothing = [](uint64_t, uint64_t) {};
		for (const btree::Tree *t : {&db->item, &db->stock, &db->by_name, &db->by_customer})
			if (const char *wrong = btree::each(tx_, t, nothing))
				return wrong;
		const char *wrong =
		        btree::each(tx_, &db->history, [&](uint64_t key, uint64_t value) {
			        auto *h = reinterpret_cast<const History *>(value);
			        districts_[district_key(get(&h->warehouse), get(&h->district))]
			                .history += get(&h->amount);
			        customers_[district_of(key) | (key >> 28 & 0xffff)].paid +=
			                get(&h->amount);
		        });
		return wrong ? wrong : orders(db);
	}
	static uint64_t district_of(uint64_t key)
	{
		return key >> 44 << 44;
	}

	const char *orders(const Database *db)
	{
		rows_.clear(), lines_.clear();
		row_ = line_ = 0;
		auto new_order = [&](uint64_t key, uint64_t value) {
			rows_.push_back({key, value});
			DistrictSums &s = districts_[district_of(key)];
			uint64_t number = key - district_of(key);
			s.waiting++;
			s.oldest_waiting = number < s.oldest_waiting ? number : s.oldest_waiting;
			s.newest_waiting = number > s.newest_waiting ? number : s.newest_waiting;
		};
		auto line = [&](uint64_t key, uint64_t value) {
			lines_.push_back({key, value});
			districts_[district_of(key)].lines++;
		};
		auto order = [&](uint64_t key, uint64_t value) {
			one_order(key, reinterpret_cast<const Order *>(value));
		};
		const char *wrong = btree::each(tx_, &db->new_order, new_order);
		if (wrong || (wrong = btree::each(tx_, &db->order_line, line)))
			return wrong;
		return btree::each(tx_, &db->order, order);
	}
	/* Orders come in the order of their keys, and so do their rows and lines: there is no need
	 * to look each up. */
	bool row_of(uint64_t key, uint64_t &value)
	{
		while (row_ < rows_.size() && rows_[row_].key < key)
			row_++;
		if (row_ == rows_.size() || rows_[row_].key != key)
			return false;
		value = rows_[row_].value;
		return true;
	}
	void one_order(uint64_t key, const Order *o)
	{
		DistrictSums &s = districts_[district_of(key)];
		uint64_t number = key - district_of(key), lines = get(&o->lines), row = WAITS,
		         n = 0, first = district_of(key) | number << 8;
		bool carried = get(&o->carrier) != 0, there_is_row = row_of(key, row),
		     delivered = carried || row == TOMBSTONE;
		s.orders++;
		s.newest = number > s.newest ? number : s.newest;
		s.lines_of_orders += lines;
		need(carried != there_is_row,
		        "3.3.2.5: an order has a carrier and waits, or has none and does not wait");
		while (line_ < lines_.size() && lines_[line_].key < first)
			line_++;
		for (; line_ < lines_.size() && lines_[line_].key >> 8 == first >> 8; line_++) {
			need(lines_[line_].key == (first | ++n),
			        "3.3.2.6: the lines of an order are not numbered from 1 on");
			auto *line = reinterpret_cast<const OrderLine *>(lines_[line_].value);
			need((get(&line->delivered) != 0) == carried,
			        "3.3.2.7: a line is delivered and its order is not, or not and it "
			        "is");
			if (delivered)
				customers_[district_of(key) | get(&o->customer)].delivered +=
				        get(&line->amount);
			if (counts_stock_ && get(&o->date))
				count_stock(key >> 48, line);
		}
		need(n == lines, "3.3.2.6: an order has not as many lines as it says");
	}

	void districts(const Database *db)
	{
		need_tree(btree::each(tx_, &db->district, [&](uint64_t key, uint64_t value) {
			auto *d = reinterpret_cast<const District *>(value);
			DistrictSums &s = districts_[key];
			s.ytd = get(&d->ytd);
			s.next_order = get(&d->next_order);
			need(s.next_order - 1 == s.newest,
			        "3.3.2.2: a district's next order is not one more than its newest");
			need(!s.waiting || s.newest == s.newest_waiting,
			        "3.3.2.2: the newest order is not the newest that waits");
			need(!s.waiting || s.newest_waiting - s.oldest_waiting + 1 == s.waiting,
			        "3.3.2.3: there is a gap in the orders that wait");
			need(s.lines_of_orders == s.lines, "3.3.2.4: a district has not as many "
			                                   "order lines as its orders say");
			need(table1_ || s.ytd == s.history,
			        "3.3.2.9: a district has not taken in what its history says");
			uint64_t w = key >> 48;
			warehouse_ytd_[w] += s.ytd;
			warehouse_history_[w] += s.history;
		}));
	}
	void warehouses(const Database *db)
	{
		need_tree(btree::each(tx_, &db->warehouse, [&](uint64_t w, uint64_t value) {
			int64_t ytd = get(&reinterpret_cast<const Warehouse *>(value)->ytd);
			need(ytd == warehouse_ytd_[w],
			        "3.3.2.1: a warehouse has not taken in what its districts have");
			need(table1_ || ytd == warehouse_history_[w],
			        "3.3.2.8: a warehouse has not taken in what its history says");
		}));
	}
	void customers(const Database *db)
	{
		need_tree(btree::each(tx_, &db->customer, [&](uint64_t key, uint64_t value) {
			auto *c = reinterpret_cast<const Customer *>(value);
			const CustomerSums &s = customers_[key];
			need(table1_ || get(&c->balance) == s.delivered - s.paid,
			        "3.3.2.10: a customer's balance is not what was delivered less "
			        "what was paid");
			need(get(&c->balance) + get(&c->ytd_payment) == s.delivered,
			        "3.3.2.12: a customer's balance and payments are not what was "
			        "delivered");
		}));
	}
	void count_stock(uint64_t w, const OrderLine *line)
	{
		uint64_t supplier = get(&line->supplier);
		StockSums &s = stock_[stock_key(supplier, get(&line->item))];
		s.quantity += static_cast<int64_t>(get(&line->quantity));
		s.lines++;
		s.remote += supplier != w;
	}
	void stock(const Database *db)
	{
		need_tree(btree::each(tx_, &db->stock, [&](uint64_t key, uint64_t value) {
			auto *s = reinterpret_cast<const Stock *>(value);
			const StockSums &sums = stock_[key];
			need(get(&s->ytd) == sums.quantity && get(&s->orders) == sums.lines &&
			                get(&s->remote) == sums.remote,
			        "the stock of an item is not what was taken for the lines of "
			        "orders");
		}));
	}
	void need_tree(const char *wrong)
	{
		need(!wrong, wrong);
	}

	Tx *tx_;
	const Databases all_;
	bool table1_, counts_stock_ = false;
	const char *wrong_ = nullptr;
	struct Row {
		uint64_t key, value;
	};
	std::vector<Row> rows_, lines_; /* of NEW-ORDER; of ORDER-LINE */
	size_t row_ = 0, line_ = 0;     /* the first whose order has not come yet */
	std::map<uint64_t, DistrictSums> districts_;
	std::unordered_map<uint64_t, CustomerSums> customers_;
	std::unordered_map<uint64_t, StockSums> stock_;
	std::map<uint64_t, int64_t> warehouse_ytd_, warehouse_history_;
};

/* Conditions 1 to 10 and 12; 11 is about a database that has just been loaded, and
 * Checker::check_loaded() adds it.  `table1`: those that the transactions of table1.hpp keep.
 * Null, or what is wrong. */
template <class Tx>
const char *check(Tx *tx, const Database *db, bool table1 = false)
{
	return Checker<Tx>(tx, {db}, table1).check();
}

} // namespace tpcc

#endif /* TPCC_CONSISTENCY_HPP */
