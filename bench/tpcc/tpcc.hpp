/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tpcc.hpp - TPC-C's nine tables and five transactions, on fur_load and fur_store, for every
 * transactional memory.  Source: TPC Benchmark C, standard specification 5.11, clauses 1 to 3;
 * amounts are in cents.
 *
 * Three sets of rules.  `spec` is the specification's: 5 to 15 order lines, customers also by last
 * name, stock level over 20 orders.  `paper` is that of the program which the FUR paper publishes
 * (github.com/inesc-id/FUR): 1 to 3 order lines, by number only, stock level over 100 orders.
 * `table1` is that of the paper's Table 1, which 1 to 3 lines do not give: 5 to 15 lines, and the
 * published program's own delivery, payment and stock level (table1.hpp).
 */
#ifndef TPCC_HPP
#define TPCC_HPP

#include "btree.hpp"

#include <cstdint>

namespace tpcc
{

struct Scale {
	uint64_t customers = 3000, items = 100000, least_lines = 5, most_lines = 15,
	         stock_orders = 20;
	bool by_name = true, rollbacks = true;
	bool table1 = false;     /* the transactions of table1.hpp */
	uint64_t tombstones = 0; /* the newest orders of a district that are delivered at load */
};
enum : uint64_t { DISTRICTS = 10, NAMES = 1000 };

/* -------------------------------------------------------------------- rows */

struct Warehouse {
	int64_t ytd, tax;
	char name[16];
};
struct District {
	int64_t ytd, tax;
	uint64_t next_order;
	char name[16];
};
struct Customer {
	int64_t balance, ytd_payment, payments, deliveries, discount, bad_credit;
	uint64_t last_name; /* 0 to 999, of which the specification makes syllables */
	char data[64];
};
struct History {
	uint64_t warehouse, district, date;
	int64_t amount;
};
struct Order {
	uint64_t customer, date, carrier, lines; /* carrier 0: not delivered */
};
/* The value of a key of new_order.  A tombstone is a deleted row (table1.hpp). */
enum NewOrderRow : uint64_t { TOMBSTONE, WAITS };
struct OrderLine {
	uint64_t item, supplier, quantity, delivered; /* delivered 0: not */
	int64_t amount;
	char info[24];
};
struct Item {
	uint64_t image;
	int64_t price;
	char name[24], data[24];
};
struct Stock {
	int64_t quantity, ytd, orders, remote;
	char info[24];
};

/* ------------------------------------------------------------------ tables */

struct Database {
	btree::Tree warehouse, district, customer, history, new_order, order, order_line, item,
	        stock;
	/* Indexes: of customers, and of orders by their numbers; for table1 by their addresses */
	btree::Tree by_name, by_customer;
	uint64_t warehouses, customers, items, tombstones;
};

inline uint64_t district_key(uint64_t w, uint64_t d)
{
	return w << 48 | d << 44;
}
inline uint64_t customer_key(uint64_t w, uint64_t d, uint64_t c)
{
	return district_key(w, d) | c;
}
inline uint64_t history_key(uint64_t w, uint64_t d, uint64_t c, uint64_t n)
{
	return district_key(w, d) | c << 28 | n;
}
inline uint64_t order_key(uint64_t w, uint64_t d, uint64_t o)
{
	return district_key(w, d) | o;
}
inline uint64_t line_key(uint64_t w, uint64_t d, uint64_t o, uint64_t n)
{
	return district_key(w, d) | o << 8 | n;
}
inline uint64_t stock_key(uint64_t w, uint64_t i)
{
	return w << 48 | i;
}
inline uint64_t name_key(uint64_t w, uint64_t d, uint64_t name, uint64_t c)
{
	return district_key(w, d) | name << 28 | c;
}
inline uint64_t by_customer_key(uint64_t w, uint64_t d, uint64_t c, uint64_t o)
{
	return district_key(w, d) | c << 28 | o;
}

/* The row must exist: it was inserted when the database was loaded, or another row refers to it. */
struct Broken {
	const char *what;
};

template <class Row, class Tx>
Row *row(Tx *tx, const btree::Tree &table, uint64_t key)
{
	uint64_t value;
	if (!btree::find(tx, &table, key, value))
		throw Broken{"a row is missing"};
	return reinterpret_cast<Row *>(value);
}

template <class Row, class Tx>
Row *new_row(Tx *tx, btree::Tree &table, uint64_t key)
{
	auto *r = static_cast<Row *>(fur_alloc(tx, sizeof(Row)));
	if (!r)
		throw btree::NoMemory();
	if (!btree::insert(tx, &table, key, reinterpret_cast<uint64_t>(r)))
		throw Broken{"a row is there twice"};
	return r;
}

template <class Tx, class T>
void add(Tx *tx, T *word, T amount)
{
	fur_store(tx, word, static_cast<T>(fur_load(tx, word) + amount));
}

/* Where a warehouse is: its data, and the transaction that is open there.  The warehouses of
 * several heaps are in several places.  Those functions below that may touch two warehouses take
 * `at`: at(w) is the place of warehouse w. */
template <class Tx>
struct Place {
	Tx *tx;
	Database *db;
};
template <class Tx>
auto everywhere(Tx *tx, Database *db)
{
	return [=](uint64_t) { return Place<Tx>{tx, db}; };
}

/* ------------------------------------------------------------ transactions */

struct NewOrder {
	uint64_t w, d, c, lines, date;
	struct {
		uint64_t item, supplier, quantity;
	} line[15];
};

template <class Tx>
bool items_exist(Tx *tx, const Database *db, const NewOrder &in)
{
	uint64_t ignored;
	for (uint64_t n = 0; n < in.lines; n++)
		if (!btree::find(tx, &db->item, in.line[n].item, ignored))
			return false;
	return true;
}

template <class Tx>
void take_stock(Place<Tx> at, uint64_t w, uint64_t item, uint64_t quantity, bool remote)
{
	Tx *tx = at.tx;
	if (!tx) /* another part does (parts.hpp) */
		return;
	auto *stock = row<Stock>(tx, at.db->stock, stock_key(w, item));
	int64_t left = fur_load(tx, &stock->quantity) - static_cast<int64_t>(quantity);
	fur_store(tx, &stock->quantity, left >= 10 ? left : left + 91);
	add(tx, &stock->ytd, static_cast<int64_t>(quantity));
	add(tx, &stock->orders, int64_t(1));
	if (remote)
		add(tx, &stock->remote, int64_t(1));
}

/* Clause 2.4.  False: an item that does not exist; the caller rolls back.  `table1`: as in
 * table1.hpp. */
template <class At>
bool new_order_at(At &&at, const NewOrder &in, bool table1)
{
	auto [tx, db] = at(in.w);
	auto *warehouse = row<Warehouse>(tx, db->warehouse, in.w);
	auto *district = row<District>(tx, db->district, district_key(in.w, in.d));
	auto *customer = row<Customer>(tx, db->customer, customer_key(in.w, in.d, in.c));
	int64_t tax = fur_load(tx, &warehouse->tax) + fur_load(tx, &district->tax),
	        discount = fur_load(tx, &customer->discount);
	uint64_t number = fur_load(tx, &district->next_order);
	fur_store(tx, &district->next_order, number + 1);
	auto *order = new_row<Order>(tx, db->order, order_key(in.w, in.d, number));
	fur_store(tx, &order->customer, in.c);
	fur_store(tx, &order->date, in.date);
	fur_store(tx, &order->carrier, uint64_t(0));
	fur_store(tx, &order->lines, in.lines);
	btree::insert(tx, &db->new_order, order_key(in.w, in.d, number), WAITS);
	btree::insert(tx, &db->by_customer, by_customer_key(in.w, in.d, in.c, number),
	        table1 ? reinterpret_cast<uint64_t>(order) : number);
	int64_t total = 0;
	for (uint64_t n = 0; n < in.lines; n++) {
		const auto &l = in.line[n];
		uint64_t found;
		if ((table1 && !items_exist(tx, db, in)) ||
		        !btree::find(tx, &db->item, l.item, found))
			return false;
		int64_t amount = static_cast<int64_t>(l.quantity) *
		                 fur_load(tx, &reinterpret_cast<Item *>(found)->price);
		take_stock(at(l.supplier), l.supplier, l.item, l.quantity, l.supplier != in.w);
		auto *line =
		        new_row<OrderLine>(tx, db->order_line, line_key(in.w, in.d, number, n + 1));
		fur_store(tx, &line->item, l.item);
		fur_store(tx, &line->supplier, l.supplier);
		fur_store(tx, &line->quantity, l.quantity);
		fur_store(tx, &line->delivered, uint64_t(0));
		fur_store(tx, &line->amount, amount);
		total += amount;
	}
	/* The total goes to the terminal; it is computed, as the clause asks. */
	volatile int64_t shown = total * (10000 - discount) / 10000 * (10000 + tax) / 10000;
	(void)shown;
	return true;
}
template <class Tx>
bool new_order(Tx *tx, Database *db, const NewOrder &in, bool table1 = false)
{
	return new_order_at(everywhere(tx, db), in, table1);
}

/* The customer in the middle of those of that name (clause 2.5.2.2). */
template <class Tx>
uint64_t customer_by_name(Tx *tx, const Database *db, uint64_t w, uint64_t d, uint64_t name)
{
	uint64_t first = name_key(w, d, name, 0), past = name_key(w, d, name + 1, 0), at = first,
	         key, value, n = 0;
	while (btree::next(tx, &db->by_name, at, key, value) && key < past) {
		n++;
		at = key + 1;
	}
	if (!n)
		throw Broken{"no customer has a name that was given to one"};
	at = first;
	for (uint64_t k = 0; k < (n + 1) / 2; k++) {
		btree::next(tx, &db->by_name, at, key, value);
		at = key + 1;
	}
	return value;
}

struct Payment {
	uint64_t w, d, customer_w, customer_d, c, name, date;
	bool by_name;
	int64_t amount;
};

/* Returns how many payments the customer has made. */
template <class Tx>
uint64_t charge(Tx *tx, Customer *customer, int64_t amount)
{
	add(tx, &customer->balance, -amount);
	add(tx, &customer->ytd_payment, amount);
	int64_t payments = fur_load(tx, &customer->payments) + 1;
	fur_store(tx, &customer->payments, payments);
	if (fur_load(tx, &customer->bad_credit)) /* clause 2.5.2.2: noted with the customer */
		fur_store(tx, reinterpret_cast<int64_t *>(&customer->data[0]), amount);
	return static_cast<uint64_t>(payments);
}

/* Clause 2.5, where the customer is.  Returns the key of the row of history. */
template <class Tx>
uint64_t pay_by(Place<Tx> at, const Payment &in)
{
	auto [tx, db] = at;
	uint64_t c =
	        in.by_name ? customer_by_name(tx, db, in.customer_w, in.customer_d, in.name) : in.c;
	auto *customer =
	        row<Customer>(tx, db->customer, customer_key(in.customer_w, in.customer_d, c));
	return history_key(in.customer_w, in.customer_d, c, charge(tx, customer, in.amount));
}
/* Where the warehouse is. */
template <class Tx>
void pay_to(Place<Tx> at, const Payment &in)
{
	auto [tx, db] = at;
	add(tx, &row<Warehouse>(tx, db->warehouse, in.w)->ytd, in.amount);
	add(tx, &row<District>(tx, db->district, district_key(in.w, in.d))->ytd, in.amount);
}
/* The row of history, which is where the warehouse is. */
template <class Tx>
void note_payment(Place<Tx> at, const Payment &in, uint64_t key)
{
	auto [tx, db] = at;
	auto *history = new_row<History>(tx, db->history, key);
	fur_store(tx, &history->warehouse, in.w);
	fur_store(tx, &history->district, in.d);
	fur_store(tx, &history->date, in.date);
	fur_store(tx, &history->amount, in.amount);
}
/* Clause 2.5 without its row of history.  Returns the key of that row. */
template <class At>
uint64_t pay_at(At &&at, const Payment &in)
{
	const uint64_t key = pay_by(at(in.customer_w), in);
	pay_to(at(in.w), in);
	return key;
}
template <class Tx>
uint64_t pay(Tx *tx, Database *db, const Payment &in)
{
	return pay_at(everywhere(tx, db), in);
}
/* Clause 2.5. */
template <class At>
void payment_at(At &&at, const Payment &in)
{
	note_payment(at(in.w), in, pay_at(at, in));
}
template <class Tx>
void payment(Tx *tx, Database *db, const Payment &in)
{
	payment_at(everywhere(tx, db), in);
}

struct OrderStatus {
	uint64_t w, d, c, name;
	bool by_name;
};

/* Clause 2.6: the customer's newest order.  Returns the sum of all that a terminal would show.
 * `table1`: as in table1.hpp. */
template <class Tx>
int64_t order_status(Tx *tx, const Database *db, const OrderStatus &in, bool table1 = false)
{
	uint64_t c = in.by_name ? customer_by_name(tx, db, in.w, in.d, in.name) : in.c, key, value;
	auto *customer = row<Customer>(tx, db->customer, customer_key(in.w, in.d, c));
	int64_t sum = fur_load(tx, &customer->balance);
	if (!btree::last(tx, &db->by_customer, by_customer_key(in.w, in.d, c, (1u << 28) - 1), key,
	            value) ||
	        key < by_customer_key(in.w, in.d, c, 0))
		return sum;
	uint64_t number = key - by_customer_key(in.w, in.d, c, 0);
	auto *order = table1 ? reinterpret_cast<Order *>(value)
	                     : row<Order>(tx, db->order, order_key(in.w, in.d, number));
	uint64_t lines = fur_load(tx, &order->lines);
	sum += static_cast<int64_t>(fur_load(tx, &order->carrier));
	for (uint64_t n = 1; n <= lines; n++) {
		auto *line = row<OrderLine>(tx, db->order_line, line_key(in.w, in.d, number, n));
		sum += fur_load(tx, &line->amount) +
		       static_cast<int64_t>(
		               fur_load(tx, &line->quantity) + fur_load(tx, &line->delivered));
	}
	return sum;
}

struct Delivery {
	uint64_t w, carrier, date;
};

/* Charge a delivered order to its customer. */
template <class Tx>
void bill(Tx *tx, Database *db, uint64_t w, uint64_t d, const Order *order, int64_t sum)
{
	auto *customer =
	        row<Customer>(tx, db->customer, customer_key(w, d, fur_load(tx, &order->customer)));
	add(tx, &customer->balance, sum);
	add(tx, &customer->deliveries, int64_t(1));
}

/* Clause 2.7, all ten districts at once.  Returns the orders delivered. */
template <class Tx>
uint64_t delivery(Tx *tx, Database *db, const Delivery &in)
{
	uint64_t delivered = 0;
	for (uint64_t d = 1; d <= DISTRICTS; d++) {
		uint64_t key, value;
		if (!btree::next(tx, &db->new_order, order_key(in.w, d, 0), key, value) ||
		        key >= district_key(in.w, d + 1))
			continue;
		btree::remove(tx, &db->new_order, key);
		uint64_t number = key - district_key(in.w, d);
		auto *order = row<Order>(tx, db->order, key);
		fur_store(tx, &order->carrier, in.carrier);
		int64_t sum = 0;
		for (uint64_t n = 1, lines = fur_load(tx, &order->lines); n <= lines; n++) {
			auto *line =
			        row<OrderLine>(tx, db->order_line, line_key(in.w, d, number, n));
			fur_store(tx, &line->delivered, in.date);
			sum += fur_load(tx, &line->amount);
		}
		bill(tx, db, in.w, d, order, sum);
		delivered++;
	}
	return delivered;
}

struct StockLevel {
	uint64_t w, d, orders;
	int64_t threshold;
};

/* Clause 2.8: how many items of the newest orders are low.  `seen`: room for their numbers, and how
 * many there are. */
template <class Tx>
uint64_t stock_level(
        Tx *tx, const Database *db, const StockLevel &in, uint64_t *seen, uint64_t room)
{
	auto *district = row<District>(tx, db->district, district_key(in.w, in.d));
	uint64_t past = fur_load(tx, &district->next_order),
	         from = past > in.orders ? past - in.orders : 1;
	uint64_t at = line_key(in.w, in.d, from, 0), end = line_key(in.w, in.d, past, 0), key,
	         value, items = 0;
	while (btree::next(tx, &db->order_line, at, key, value) && key < end) {
		uint64_t item = fur_load(tx, &reinterpret_cast<OrderLine *>(value)->item), k = 0;
		at = key + 1;
		if (fur_load(tx, &row<Stock>(tx, db->stock, stock_key(in.w, item))->quantity) >=
		        in.threshold)
			continue;
		while (k < items && seen[k] != item) /* each item once */
			k++;
		if (k == items && items < room)
			seen[items++] = item;
	}
	return items;
}

} // namespace tpcc

#endif /* TPCC_HPP */
