/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tpcc.hpp - TPC-C by levels of dependency: a transaction is cut into rounds of requests that do
 * not depend on one another, and issues each round at once.  So it has as few rounds as its longest
 * chain of requests that need each other's replies.
 *
 * Rows are as wide as the specification's, and have the fields that transactions use; a new version
 * copies all of a row.  Stock has no texts: they are a table of their own, which no transaction
 * reads.  A customer's name is a number, of which there are a third as many as a district has
 * customers.
 */
#ifndef LAB_OLTPIM_TPCC_HPP
#define LAB_OLTPIM_TPCC_HPP

#include "measured_client.hpp"

#include <atomic>
#include <string>
#include <vector>

namespace oltpim::tpcc
{

/* Trees */
enum Table : unsigned {
	WAREHOUSE,
	DISTRICT,
	CUSTOMER,
	HISTORY,
	ORDER,
	NEW_ORDER,
	ORDER_LINE,
	ITEM,
	STOCK,
	BY_NAME = OLTPIM_SECONDARY, /* customers */
	BY_CUSTOMER,                /* orders, the newest first */
};

enum Kind : unsigned { NEW_ORDERS, PAYMENT, DELIVERY, ORDER_STATUS, STOCK_LEVEL, KINDS };

constexpr unsigned DISTRICTS = 10, MOST_LINES = 15;

struct Size {
	uint64_t warehouses = 4, customers = 300 /* of a district, and as many orders */;
	uint64_t items = 10000;
	uint64_t names() const
	{
		return customers / 3;
	}
};

struct WarehouseRow {
	uint64_t ytd;
	char other[88];
};

struct DistrictRow {
	uint64_t ytd, next_order;
	char other[80];
};

struct CustomerRow {
	int64_t balance;
	uint64_t ytd, payments, deliveries, name;
	char other[600];
};

struct HistoryRow {
	uint64_t customer, amount;
	char other[32];
};

struct OrderRow {
	uint64_t customer, lines, carrier;
};

struct NewOrderRow {
	uint64_t order;
};

struct OrderLineRow {
	uint64_t item, amount, delivered;
	uint32_t supply, quantity;
	char other[24];
};

struct ItemRow {
	uint64_t price;
	char other[80];
};

struct StockRow {
	uint64_t quantity, ytd, orders, remotes;
};

/* Keys.  Warehouses have numbers from 0 on, all others from 1 on. */
constexpr uint64_t MOST_ORDERS = (1u << 30) - 1;

constexpr uint64_t key_of(Table table, uint64_t key)
{
	return uint64_t{table} << OLTPIM_TREE_SHIFT | key;
}
constexpr uint64_t district_key(uint64_t w, uint64_t d)
{
	return key_of(DISTRICT, w << 4 | d);
}
constexpr uint64_t customer_key(uint64_t w, uint64_t d, uint64_t c)
{
	return key_of(CUSTOMER, w << 16 | d << 12 | c);
}
/* Of ORDER and NEW_ORDER */
constexpr uint64_t order_key(Table table, uint64_t w, uint64_t d, uint64_t o)
{
	return key_of(table, w << 34 | d << 30 | o);
}
constexpr uint64_t line_key(uint64_t w, uint64_t d, uint64_t o, uint64_t line)
{
	return key_of(ORDER_LINE, w << 38 | d << 34 | o << 4 | line);
}
constexpr uint64_t stock_key(uint64_t w, uint64_t item)
{
	return key_of(STOCK, w << 18 | item);
}
constexpr uint64_t name_entry(uint64_t w, uint64_t d, uint64_t name, uint64_t c)
{
	return key_of(BY_NAME, w << 28 | d << 24 | name << 12 | c);
}
constexpr uint64_t order_entry(uint64_t w, uint64_t d, uint64_t c, uint64_t o)
{
	return key_of(BY_CUSTOMER, w << 46 | d << 42 | c << 30 | (MOST_ORDERS - o));
}
/* Of a row's key */
constexpr uint64_t order_of(uint64_t key)
{
	return key & MOST_ORDERS;
}

/* Neighbours that a scan reads are in one module: the new orders of a district, the lines of an
 * order, the customers of a name, the orders of a customer. */
Shifts shifts();
/* Small tables, which OLTPim has in the host's memory */
constexpr uint32_t SMALL_TABLES = 1u << WAREHOUSE | 1u << DISTRICT;

/* All that is loaded, by rising keys. */
std::vector<Record> records(const Size &size, Tuples &tuples);
/* The entry of a customer or an order: Database::entry_of. */
uint64_t entry_of(const Tuple &row);

/* What clients share. */
struct Shared {
	Shared(const Size &s, unsigned writes)
	    : size(s), percent_writes(writes), delivered(s.warehouses * DISTRICTS)
	{
	}
	const Size size;
	const unsigned percent_writes; /* new orders, payments and deliveries */
	/* Of each district: no new order is before this one.  So a delivery need not pass all that
	 * were removed. */
	std::vector<std::atomic<uint64_t>> delivered;
};

class TpccClient : public MeasuredClient
{
public:
	/* Clients share the warehouses out: this one is `number` of `clients`. */
	TpccClient(Database &db, Tuples &tuples, unsigned worker, unsigned slot, History *history,
	        Shared &shared, unsigned clients, Clock clock, uint64_t seed)
	    : MeasuredClient(db, tuples, worker, slot, history, clock, seed), shared_(shared),
	      slot_(slot), clients_(clients)
	{
	}
	uint64_t committed_of(Kind kind) const
	{
		return committed_[kind];
	}

private:
	/* Of StockLevel: the stock of all lines of 20 orders */
	static_assert(20 * MOST_LINES <= Round::MOST);

	struct Line {
		uint64_t item, supply, quantity;
	};
	struct Delivered {
		uint64_t d, o, customer, amount;
	};

	void choose() override;
	bool add_round(unsigned round) override;
	bool rolls_back() const override
	{
		return rolls_back_;
	}
	void committed() override;

	uint64_t skewed(uint64_t a, uint64_t n);
	uint64_t draw_customer();
	void choose_customer();
	void choose_lines();
	bool new_order(unsigned round);
	bool order_lines();
	bool payment(unsigned round);
	void pay(unsigned request);
	bool order_status(unsigned round);
	bool delivery(unsigned round);
	bool deliver_orders();
	bool deliver_lines();
	bool deliver_customers();
	bool stock_level(unsigned round);
	bool stock_of_lines();
	void look_up_name();
	bool read_named(unsigned request);

	template <class Row>
	Row row(unsigned request) const
	{
		return *static_cast<const Row *>(transaction_.tuple(request)->row());
	}

	Shared &shared_;
	const unsigned slot_, clients_;
	uint64_t committed_[KINDS] = {}, payments_ = 0;
	Kind kind_ = PAYMENT;
	bool by_name_ = false, rolls_back_ = false;
	uint64_t w_ = 0, d_ = 0, of_w_ = 0, of_d_ = 0, customer_ = 0, name_ = 0, amount_ = 0;
	uint64_t order_ = 0;
	std::vector<Line> lines_;
	std::vector<Delivered> delivered_;
};

/* The conditions of consistency, and that indexes have all rows, in a state in which nothing goes
 * on.  Empty: they hold; else what is wrong. */
std::string wrong(Database &db, Tuples &tuples, const Size &size);

} // namespace oltpim::tpcc

#endif /* LAB_OLTPIM_TPCC_HPP */
