/* SPDX-License-Identifier: BSD-3-Clause
 *
 * warehouses.hpp - the tables of TPC-C, and what its transactions do to them (kernels/bodies.h), in
 * the host's memory: fields are words of 8 bytes, and warehouses and districts have lines of their
 * own.
 *
 * A warehouse has 17 MB, and most of it is never touched: a row is loaded when a transaction is
 * about to use it for the first time, at no time of the machine.
 */
#ifndef LAB_TIDE_WAREHOUSES_HPP
#define LAB_TIDE_WAREHOUSES_HPP

#include "../workload.hpp"

#include <fur.h>
#include <stdexcept>
#include <sys/mman.h>

namespace tide
{

struct alignas(64) Warehouse {
	uint64_t ytd;
};
struct alignas(64) District {
	uint64_t ytd, next_order;
};
struct alignas(32) Customer {
	uint64_t balance, ytd_payment, payments, last_order;
};
struct alignas(32) Stock {
	uint64_t quantity, ytd, orders, remote;
};
struct alignas(32) Node { /* struct tpcc_node */
	uint64_t key, row, left, right;
};
struct alignas(64) Order {
	uint64_t customer, lines;
	struct {
		uint64_t item, quantity;
	} line[TPCC_LINES];
	uint64_t total, delivered;
};

/* Its lines, and so a run, do not depend on where it lies. */
class alignas(FUR_CACHE_LINE) Warehouses
{
public:
	/* `trees`: find rows by them */
	explicit Warehouses(unsigned count, bool trees)
	    : count_(count), trees_(trees), warehouse_(next<Warehouse>(1)),
	      district_(next<District>(DISTRICTS)), customer_(next<Customer>(CUSTOMERS)),
	      stock_(next<Stock>(TPCC_ITEMS)), order_(next<Order>(ORDERS)),
	      customer_tree_(CUSTOMERS, *this), order_tree_(CUSTOMERS, *this),
	      stock_tree_(TPCC_ITEMS, *this)
	{
		/* Locks are found by addresses: they are the same in each run. */
		void *const at = mmap(reinterpret_cast<void *>(BASE), bytes_,
		        PROT_READ | PROT_WRITE,
		        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
		if (at != reinterpret_cast<void *>(BASE))
			throw std::runtime_error("no memory for " + std::to_string(count) +
			                         " warehouses: use fewer");
	}
	~Warehouses()
	{
		munmap(reinterpret_cast<void *>(BASE), bytes_);
	}
	Warehouses(const Warehouses &) = delete;
	unsigned count() const
	{
		return count_;
	}

	/* The rows that the part uses. */
	void load(unsigned w, const tide_record &r);
	template <class Tx>
	void execute(Tx *tx, unsigned w, const tide_record &r) const;
	/* As tide::Workload::wrong(): empty, or what is wrong.  `orders`: that have been made. */
	std::string wrong(uint64_t orders) const;

private:
	enum : uint64_t {
		BASE = UINT64_C(0x100000000000),
		DISTRICTS = TPCC_DISTRICTS,
		CUSTOMERS = DISTRICTS * TPCC_CUSTOMERS,
		/* Orders of all districts are numbered alike: an odd distance gives them different
		 * locks. */
		DISTRICT_ORDERS = TPCC_ORDERS + 3,
		ORDERS = DISTRICTS * DISTRICT_ORDERS,
	};

	/* A table with these rows for each warehouse */
	template <class Row>
	Row *next(uint64_t rows)
	{
		auto *table = reinterpret_cast<Row *>(BASE + bytes_);
		bytes_ += rows * count_ * sizeof(Row);
		return table;
	}
	/* A tree for each warehouse */
	class Tree
	{
	public:
		Tree(uint32_t rows, Warehouses &all)
		    : rows_(rows), node_(all.next<Node>(rows + 1)),
		      keys_(all.trees_ ? tree_keys(rows) : std::vector<uint32_t>())
		{
		}
		/* As search() of kernels/bodies.h. */
		template <class Tx>
		void search(Tx *tx, unsigned w, uint32_t key) const
		{
			for (uint64_t k = 1; k && rows_;) {
				const Node *const n = &of(w)[k];
				const uint64_t its = tx->load(&n->key);
				if (its == key + 1) {
					tx->load(&n->row);
					return;
				}
				k = tx->load(its > key ? &n->left : &n->right);
			}
		}
		/* The nodes on the way to a key */
		void load(unsigned w, uint32_t key) const
		{
			for (uint64_t k = 1; k && k <= rows_;) {
				of(w)[k] = {keys_[k], keys_[k], below(2 * k), below(2 * k + 1)};
				if (keys_[k] == key + 1)
					return;
				k = keys_[k] > key ? 2 * k : 2 * k + 1;
			}
		}

	private:
		Node *of(unsigned w) const
		{
			return node_ + uint64_t(w) * (rows_ + 1);
		}
		uint64_t below(uint64_t k) const
		{
			return k <= rows_ ? k : 0;
		}
		uint64_t rows_;
		Node *node_;
		std::vector<uint32_t> keys_;
	};

	Customer *customer(unsigned w, uint32_t d, uint32_t c) const
	{
		return &customer_[w * CUSTOMERS + d * uint64_t(TPCC_CUSTOMERS) + c];
	}
	Order *order(unsigned w, uint32_t d, uint64_t number) const
	{
		return &order_[w * ORDERS + d * DISTRICT_ORDERS + number % TPCC_ORDERS];
	}
	void load_customer(unsigned w, uint32_t d, uint32_t c);
	std::string wrong_warehouse(unsigned w, uint64_t &paid, uint64_t &orders) const;

	template <class Tx>
	static void add(Tx *tx, uint64_t *word, uint64_t amount)
	{
		tx->store(word, tx->load(word) + amount);
	}
	template <class Tx>
	void search_customer(Tx *tx, unsigned w, uint32_t d, uint32_t c) const
	{
		if (trees_)
			customer_tree_.search(tx, w, tpcc_customer_key(d, c));
	}
	template <class Tx>
	void search_order(Tx *tx, unsigned w, uint32_t d, uint64_t number) const
	{
		if (trees_)
			order_tree_.search(tx, w, tpcc_order_key(d, static_cast<uint32_t>(number)));
	}
	template <class Tx>
	void pay(Tx *tx, unsigned w, uint32_t d, uint32_t number, uint32_t amount) const
	{
		Customer *const c = customer(w, d, number);
		search_customer(tx, w, d, number);
		add(tx, &c->balance, 0 - uint64_t(amount));
		add(tx, &c->ytd_payment, amount);
		add(tx, &c->payments, 1);
	}
	template <class Tx>
	void new_order(Tx *tx, unsigned w, const uint32_t *p) const;
	template <class Tx>
	uint64_t order_status(Tx *tx, unsigned w, const uint32_t *p) const;

	const uint64_t count_;
	const bool trees_;
	uint64_t bytes_ = 0;
	Warehouse *warehouse_;
	District *district_;
	Customer *customer_;
	Stock *stock_;
	Order *order_;
	Tree customer_tree_, order_tree_, stock_tree_;
};

/* The items of an order, one after the other. */
class Items
{
public:
	explicit Items(uint32_t seed) : x_(seed) {}
	uint32_t next()
	{
		uint32_t item;
		do {
			x_ ^= x_ << 13, x_ ^= x_ >> 17, x_ ^= x_ << 5;
			item = x_ >> 15;
		} while (item >= TPCC_ITEMS);
		return item;
	}

private:
	uint32_t x_;
};

template <class Tx>
void Warehouses::new_order(Tx *tx, unsigned w, const uint32_t *p) const
{
	District *const d = &district_[w * DISTRICTS + p[0]];
	Items items(p[2]);
	const uint64_t number = tx->load(&d->next_order);
	tx->store(&d->next_order, number + 1);
	Order *const o = order(w, p[0], number);
	search_order(tx, w, p[0], number);
	tx->store(&o->customer, p[1]);
	tx->store(&o->lines, p[3]);
	for (uint32_t k = 0; k < p[3]; k++) {
		const uint32_t item = items.next();
		Stock *const s = &stock_[w * uint64_t(TPCC_ITEMS) + item];
		if (trees_)
			stock_tree_.search(tx, w, item);
		const uint64_t quantity = 1 + (item & 7), left = tx->load(&s->quantity);
		tx->store(&s->quantity,
		        left >= quantity + 10 ? left - quantity : left + 91 - quantity);
		add(tx, &s->ytd, quantity);
		add(tx, &s->orders, 1);
		tx->store(&o->line[k].item, item);
		tx->store(&o->line[k].quantity, quantity);
	}
	search_customer(tx, w, p[0], p[1]);
	tx->store(&customer(w, p[0], p[1])->last_order, number);
}

template <class Tx>
uint64_t Warehouses::order_status(Tx *tx, unsigned w, const uint32_t *p) const
{
	const Customer *const c = customer(w, p[0], p[1]);
	search_customer(tx, w, p[0], p[1]);
	uint64_t sum = tx->load(&c->balance);
	const uint64_t number = tx->load(&c->last_order);
	const Order *const o = order(w, p[0], number);
	search_order(tx, w, p[0], number);
	const uint64_t lines = tx->load(&o->lines);
	for (uint64_t k = 0; k < lines && k < TPCC_LINES; k++)
		sum += tx->load(&o->line[k].item) + tx->load(&o->line[k].quantity);
	return sum;
}

template <class Tx>
void Warehouses::execute(Tx *tx, unsigned w, const tide_record &r) const
{
	const uint32_t *const p = r.parameter;
	switch (r.type) {
	case TIDE_PAYMENT:
		add(tx, &warehouse_[w].ytd, p[2]);
		add(tx, &district_[w * DISTRICTS + p[0]].ytd, p[2]);
		if (p[3])
			pay(tx, w, p[4], p[1], p[2]);
		return;
	case TIDE_PAYMENT_REMOTE: return pay(tx, w, p[0], p[1], p[2]);
	case TIDE_NEW_ORDER: return new_order(tx, w, p);
	default: order_status(tx, w, p);
	}
}

} // namespace tide

#endif /* LAB_TIDE_WAREHOUSES_HPP */
