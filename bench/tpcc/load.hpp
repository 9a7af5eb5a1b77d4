/* SPDX-License-Identifier: BSD-3-Clause
 *
 * load.hpp - the initial population of the database, TPC-C clause 4.3, each row in a transaction of
 * its own.
 */
#ifndef TPCC_LOAD_HPP
#define TPCC_LOAD_HPP

#include "tpcc.hpp"

#include <numeric>
#include <random>

namespace tpcc
{

/* Random numbers of clause 2.1.6. */
class Random
{
public:
	explicit Random(uint64_t seed) : engine_(seed) {}
	uint64_t uniform(uint64_t low, uint64_t high)
	{
		return low + static_cast<uint64_t>((static_cast<unsigned __int128>(engine_()) *
		                                           (high - low + 1)) >>
		                                   64);
	}
	uint64_t non_uniform(uint64_t a, uint64_t low, uint64_t high)
	{
		return ((uniform(0, a) | uniform(low, high)) + 42) % (high - low + 1) + low;
	}
	bool percent(double p)
	{
		return static_cast<double>(engine_() >> 11) < p / 100 * 9007199254740992.0;
	}

private:
	std::mt19937_64 engine_;
};

inline uint64_t rows_to_load(uint64_t warehouses, const Scale &scale)
{
	return warehouses * (scale.items + 2 * DISTRICTS * scale.customers) + scale.items;
}

/* `update(f)` runs f(tx) as an update. */
template <class Update, class Step>
class Loader
{
public:
	Loader(Update &update, const Scale &scale, uint64_t seed, Step &step)
	    : update_(update), scale_(scale), random_(seed), step_(step)
	{
	}

	Database *load(uint64_t first, uint64_t warehouses)
	{
		update_([&](auto *tx) {
			db_ = static_cast<Database *>(
			        fur_alloc_aligned(tx, sizeof(Database), alignof(Database)));
			if (!db_)
				throw btree::NoMemory();
			for (btree::Tree *t : {&db_->warehouse, &db_->district, &db_->customer,
			             &db_->history, &db_->new_order, &db_->order, &db_->order_line,
			             &db_->item, &db_->stock, &db_->by_name, &db_->by_customer})
				fur_store(tx, &t->root, nullptr);
			fur_store(tx, &db_->warehouses, warehouses);
			fur_store(tx, &db_->customers, scale_.customers);
			fur_store(tx, &db_->items, scale_.items);
			fur_store(tx, &db_->tombstones, scale_.tombstones);
		});
		for (uint64_t i = 1; i <= scale_.items; i++, step_())
			update_([&](auto *tx) {
				auto *item = new_row<Item>(tx, db_->item, i);
				fur_store(tx, &item->image, i % 10000);
				fur_store(tx, &item->price,
				        static_cast<int64_t>(100 + i * 7919 % 9901));
			});
		for (uint64_t w = first; w < first + warehouses; w++)
			warehouse(w);
		return db_;
	}

private:
	void warehouse(uint64_t w)
	{
		int64_t paid = static_cast<int64_t>(scale_.customers) * 1000;
		update_([&](auto *tx) {
			auto *row = new_row<Warehouse>(tx, db_->warehouse, w);
			fur_store(tx, &row->ytd, paid * int64_t(DISTRICTS));
			fur_store(tx, &row->tax, static_cast<int64_t>(w * 977 % 2001));
		});
		for (uint64_t i = 1; i <= scale_.items; i++, step_())
			update_([&](auto *tx) {
				auto *stock = new_row<Stock>(tx, db_->stock, stock_key(w, i));
				fur_store(tx, &stock->quantity,
				        static_cast<int64_t>(10 + (i * 31 + w) % 91));
				for (int64_t *zero : {&stock->ytd, &stock->orders, &stock->remote})
					fur_store(tx, zero, int64_t(0));
			});
		for (uint64_t d = 1; d <= DISTRICTS; d++)
			district(w, d, paid);
	}

	void district(uint64_t w, uint64_t d, int64_t paid)
	{
		update_([&](auto *tx) {
			auto *row = new_row<District>(tx, db_->district, district_key(w, d));
			fur_store(tx, &row->ytd, paid);
			fur_store(tx, &row->tax, static_cast<int64_t>(d * 787 % 2001));
			fur_store(tx, &row->next_order, scale_.customers + 1);
		});
		for (uint64_t c = 1; c <= scale_.customers; c++, step_())
			customer(w, d, c);
		/* Orders in the order of a permutation of the customers: any stride that has no
		 * common factor with their number. */
		uint64_t n = scale_.customers, stride = 7919 % n | 1;
		while (std::gcd(stride, n) != 1)
			stride += 2;
		for (uint64_t o = 1; o <= n; o++, step_())
			order(w, d, o, o * stride % n + 1);
	}

	void customer(uint64_t w, uint64_t d, uint64_t c)
	{
		uint64_t name = c <= NAMES ? c - 1 : random_.non_uniform(255, 0, NAMES - 1);
		bool bad = random_.percent(10);
		auto discount = static_cast<int64_t>(random_.uniform(0, 5000));
		update_([&](auto *tx) {
			auto *row = new_row<Customer>(tx, db_->customer, customer_key(w, d, c));
			fur_store(tx, &row->balance, int64_t(-1000));
			fur_store(tx, &row->ytd_payment, int64_t(1000));
			fur_store(tx, &row->payments, int64_t(1));
			fur_store(tx, &row->deliveries, int64_t(0));
			fur_store(tx, &row->discount, discount);
			fur_store(tx, &row->bad_credit, int64_t(bad));
			fur_store(tx, &row->last_name, name);
			btree::insert(tx, &db_->by_name, name_key(w, d, name, c), c);
			auto *history = new_row<History>(tx, db_->history, history_key(w, d, c, 1));
			fur_store(tx, &history->warehouse, w);
			fur_store(tx, &history->district, d);
			fur_store(tx, &history->date, uint64_t(0));
			fur_store(tx, &history->amount, int64_t(1000));
		});
	}

	/* Seven in ten are delivered.  Tombstones stand for orders that table1's delivery has
	 * delivered: without a carrier, and nothing is to be paid for them any more. */
	void order(uint64_t w, uint64_t d, uint64_t o, uint64_t c)
	{
		bool delivered = o <= scale_.customers * 7 / 10,
		     tombstone = o + scale_.tombstones > scale_.customers;
		uint64_t lines = random_.uniform(scale_.least_lines, scale_.most_lines),
		         first = random_.uniform(1, scale_.items);
		update_([&](auto *tx) {
			auto *order = new_row<Order>(tx, db_->order, order_key(w, d, o));
			fur_store(tx, &order->customer, c);
			fur_store(tx, &order->date, uint64_t(0));
			fur_store(tx, &order->carrier, delivered ? o % 10 + 1 : 0);
			fur_store(tx, &order->lines, lines);
			btree::insert(tx, &db_->by_customer, by_customer_key(w, d, c, o),
			        scale_.table1 ? reinterpret_cast<uint64_t>(order) : o);
			if (!delivered)
				btree::insert(tx, &db_->new_order, order_key(w, d, o),
				        tombstone ? TOMBSTONE : WAITS);
			for (uint64_t n = 1; n <= lines; n++) {
				auto *line = new_row<OrderLine>(
				        tx, db_->order_line, line_key(w, d, o, n));
				fur_store(tx, &line->item, (first + n * 7919) % scale_.items + 1);
				fur_store(tx, &line->supplier, w);
				fur_store(tx, &line->quantity, uint64_t(5));
				fur_store(tx, &line->delivered, uint64_t(delivered));
				fur_store(tx, &line->amount,
				        delivered || tombstone
				                ? int64_t(0)
				                : static_cast<int64_t>(1 + first * n % 999999));
			}
		});
	}

	Update &update_;
	const Scale &scale_;
	Random random_;
	Step &step_;
	Database *db_ = nullptr;
};

/* Warehouses from `first` on, and all items. */
template <class Update, class Step>
Database *load(Update &&update, uint64_t warehouses, const Scale &scale, uint64_t seed, Step &&step,
        uint64_t first = 1)
{
	return Loader<Update, Step>(update, scale, seed, step).load(first, warehouses);
}

} // namespace tpcc

#endif /* TPCC_LOAD_HPP */
