/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tpcc.cpp - the transactions of tpcc.hpp.
 */
#include "tpcc.hpp"

#include <bit>

namespace oltpim::tpcc
{

Shifts shifts()
{
	Shifts s = {};
	s[NEW_ORDER] = 30;
	s[ORDER_LINE] = 4;
	s[BY_NAME] = 12;
	s[BY_CUSTOMER] = 30;
	return s;
}

uint64_t entry_of(const Tuple &t)
{
	const uint64_t key = t.key & ((uint64_t{1} << OLTPIM_TREE_SHIFT) - 1);
	switch (t.key >> OLTPIM_TREE_SHIFT) {
	case CUSTOMER:
		return name_entry(key >> 16, key >> 12 & 15,
		        static_cast<const CustomerRow *>(t.row())->name, key & 4095);
	case ORDER:
		return order_entry(key >> 34, key >> 30 & 15,
		        static_cast<const OrderRow *>(t.row())->customer, order_of(key));
	default: return NO_KEY;
	}
}

/* -------------------------------------------------------------------- choices */

/* NURand() of the specification, from 0 on */
uint64_t TpccClient::skewed(uint64_t a, uint64_t n)
{
	return (random_.below(a + 1) | random_.below(n)) % n;
}

uint64_t TpccClient::draw_customer()
{
	const uint64_t n = shared_.size.customers;
	return skewed(std::bit_ceil(n / 3) - 1, n) + 1;
}

void TpccClient::choose_customer()
{
	const uint64_t names = shared_.size.names();
	by_name_ = random_.below(100) < 60;
	if (by_name_)
		name_ = skewed(std::bit_ceil(names / 4) - 1, names);
	else
		customer_ = draw_customer();
}

void TpccClient::choose_lines()
{
	const uint64_t items = shared_.size.items, n = 5 + random_.below(11);
	lines_.clear();
	while (lines_.size() < n) {
		const uint64_t item = skewed(std::bit_ceil(items / 13) - 1, items) + 1;
		if (std::any_of(lines_.begin(), lines_.end(),
		            [&](const Line &l) { return l.item == item; }))
			continue;
		const uint64_t supply =
		        random_.one_in(100) ? random_.below(shared_.size.warehouses) : w_;
		lines_.push_back({item, supply, 1 + random_.below(10)});
	}
	/* An item that is not there: the transaction rolls back. */
	if (random_.one_in(100))
		lines_.back().item = items + 1;
}

void TpccClient::choose()
{
	const uint64_t warehouses = shared_.size.warehouses;
	/* Its warehouses are those of its number, of all that differ by the number of clients. */
	const uint64_t first = slot_ % warehouses;
	const uint64_t mine = (warehouses - first + clients_ - 1) / clients_;
	w_ = of_w_ = first + clients_ * random_.below(mine);
	d_ = of_d_ = 1 + random_.below(DISTRICTS);
	rolls_back_ = false;
	if (random_.below(100) < shared_.percent_writes) {
		const uint64_t of = random_.below(92);
		kind_ = of < 45 ? NEW_ORDERS : of < 88 ? PAYMENT : DELIVERY;
	} else {
		kind_ = random_.one_in(2) ? ORDER_STATUS : STOCK_LEVEL;
	}
	if (kind_ == NEW_ORDERS) {
		customer_ = draw_customer();
		choose_lines();
	} else {
		choose_customer();
	}
	amount_ = 100 + random_.below(500000);
	if (kind_ == PAYMENT && random_.below(100) < 15) {
		of_w_ = random_.below(warehouses);
		of_d_ = 1 + random_.below(DISTRICTS);
	}
}

bool TpccClient::add_round(unsigned round)
{
	switch (kind_) {
	case NEW_ORDERS: return new_order(round);
	case PAYMENT: return payment(round);
	case DELIVERY: return delivery(round);
	case ORDER_STATUS: return order_status(round);
	default: return stock_level(round);
	}
}

void TpccClient::committed()
{
	committed_[kind_]++;
	if (kind_ != DELIVERY)
		return;
	for (const Delivered &d : delivered_) {
		std::atomic<uint64_t> &first = shared_.delivered[w_ * DISTRICTS + d.d - 1];
		uint64_t old = first.load(std::memory_order_relaxed);
		while (old <= d.o && !first.compare_exchange_weak(old, d.o + 1)) {
		}
	}
}

/* Customers of a name, in the order of their numbers; the one in the middle is meant. */
void TpccClient::look_up_name()
{
	transaction_.scan(
	        name_entry(of_w_, of_d_, name_, 0), name_entry(of_w_, of_d_, name_, 4095));
}

bool TpccClient::read_named(unsigned request)
{
	const auto n = static_cast<unsigned>(transaction_.count(request));
	if (n == 0 || n == OLTPIM_SCAN_MOST)
		throw std::logic_error("a name of no customer, or of too many");
	transaction_.read(transaction_.found_target(request, (n - 1) / 2));
	return true;
}

/* ------------------------------------------------------------------ new order */

bool TpccClient::new_order(unsigned round)
{
	if (round == 0) {
		transaction_.get(key_of(WAREHOUSE, w_));
		transaction_.get(district_key(w_, d_));
		return true;
	}
	if (round == 1) {
		DistrictRow district = row<DistrictRow>(1);
		order_ = district.next_order++;
		transaction_.update_row(district_key(w_, d_), district);
		transaction_.insert_row(
		        order_key(ORDER, w_, d_, order_), OrderRow{customer_, lines_.size(), 0});
		transaction_.insert_row(order_key(NEW_ORDER, w_, d_, order_), NewOrderRow{order_});
		transaction_.get(customer_key(w_, d_, customer_));
		for (const Line &l : lines_) {
			transaction_.get(key_of(ITEM, l.item));
			transaction_.get(stock_key(l.supply, l.item));
		}
		return true;
	}
	return round == 2 && order_lines();
}

/* The order's object is known now, so that the entry can name it. */
bool TpccClient::order_lines()
{
	constexpr unsigned FIRST_LINE = 4; /* request of round 1 */
	const uint64_t order = transaction_.target(1);
	for (unsigned k = 0; k < lines_.size(); k++)
		if (!transaction_.found(FIRST_LINE + 2 * k)) {
			rolls_back_ = true;
			return false;
		}
	for (unsigned k = 0; k < lines_.size(); k++) {
		const Line &l = lines_[k];
		const ItemRow item = row<ItemRow>(FIRST_LINE + 2 * k);
		StockRow stock = row<StockRow>(FIRST_LINE + 2 * k + 1);
		stock.quantity += stock.quantity >= l.quantity + 10 ? 0 : 91;
		stock.quantity -= l.quantity;
		stock.ytd += l.quantity;
		stock.orders++;
		stock.remotes += l.supply != w_;
		transaction_.update_row(stock_key(l.supply, l.item), stock);
		OrderLineRow line = {};
		line.item = l.item;
		line.amount = item.price * l.quantity;
		line.supply = static_cast<uint32_t>(l.supply);
		line.quantity = static_cast<uint32_t>(l.quantity);
		transaction_.insert_row(line_key(w_, d_, order_, k + 1), line);
	}
	transaction_.insert(order_entry(w_, d_, customer_, order_), order);
	return true;
}

/* -------------------------------------------------------------------- payment */

bool TpccClient::payment(unsigned round)
{
	if (round == 0) {
		transaction_.get(key_of(WAREHOUSE, w_));
		transaction_.get(district_key(w_, d_));
	} else if (round == 1) {
		WarehouseRow warehouse = row<WarehouseRow>(0);
		DistrictRow district = row<DistrictRow>(1);
		warehouse.ytd += amount_;
		district.ytd += amount_;
		transaction_.update_row(key_of(WAREHOUSE, w_), warehouse);
		transaction_.update_row(district_key(w_, d_), district);
		if (by_name_)
			look_up_name();
		else
			transaction_.get(customer_key(of_w_, of_d_, customer_));
	} else if (round == 2 && by_name_) {
		read_named(2);
	} else if (round == (by_name_ ? 3 : 2)) {
		pay(by_name_ ? 0 : 2);
	} else {
		return false;
	}
	return true;
}

/* `request`: that read the customer */
void TpccClient::pay(unsigned request)
{
	const uint64_t key = transaction_.tuple(request)->key;
	CustomerRow customer = row<CustomerRow>(request);
	customer.balance -= static_cast<int64_t>(amount_);
	customer.ytd += amount_;
	customer.payments++;
	transaction_.update_row(key, customer);
	transaction_.insert_row(
	        key_of(HISTORY, uint64_t{slot_} << 40 | payments_++), HistoryRow{key, amount_, {}});
}

/* --------------------------------------------------------------- order status */

bool TpccClient::order_status(unsigned round)
{
	const unsigned found = by_name_ ? 3 : 1; /* round in which the order's entry is there */
	if (round == 0 && by_name_) {
		look_up_name();
	} else if (round == 1 && by_name_) {
		read_named(0);
	} else if (round + 1 == found) {
		if (by_name_)
			customer_ = transaction_.tuple(0)->key & 4095;
		else
			transaction_.get(customer_key(w_, d_, customer_));
		transaction_.first(order_entry(w_, d_, customer_, MOST_ORDERS),
		        order_entry(w_, d_, customer_, 0));
	} else if (round == found) {
		const unsigned request = by_name_ ? 0 : 1;
		if (!transaction_.found(request))
			return false;
		transaction_.read(transaction_.value(request));
	} else if (round == found + 1) {
		const uint64_t o = order_of(transaction_.tuple(0)->key);
		transaction_.scan(line_key(w_, d_, o, 1), line_key(w_, d_, o, MOST_LINES));
	} else {
		return false;
	}
	return true;
}

/* ------------------------------------------------------------------- delivery */

bool TpccClient::delivery(unsigned round)
{
	if (round == 0) {
		for (uint64_t d = 1; d <= DISTRICTS; d++)
			transaction_.first(order_key(NEW_ORDER, w_, d,
			                           shared_.delivered[w_ * DISTRICTS + d - 1].load(
			                                   std::memory_order_relaxed)),
			        order_key(NEW_ORDER, w_, d, MOST_ORDERS));
		return true;
	}
	return round == 1   ? deliver_orders()
	       : round == 2 ? deliver_lines()
	       : round == 3 ? deliver_customers()
	                    : false;
}

bool TpccClient::deliver_orders()
{
	delivered_.clear();
	for (unsigned k = 0; k < DISTRICTS; k++)
		if (transaction_.found(k))
			delivered_.push_back({k + 1, order_of(transaction_.tuple(k)->key), 0, 0});
	for (const Delivered &d : delivered_) {
		transaction_.remove(order_key(NEW_ORDER, w_, d.d, d.o));
		transaction_.get(order_key(ORDER, w_, d.d, d.o));
		transaction_.scan(line_key(w_, d.d, d.o, 1), line_key(w_, d.d, d.o, MOST_LINES));
	}
	return !delivered_.empty();
}

bool TpccClient::deliver_lines()
{
	for (unsigned k = 0; k < delivered_.size(); k++) {
		Delivered &d = delivered_[k];
		OrderRow order = row<OrderRow>(3 * k + 1);
		d.customer = order.customer;
		order.carrier = 1 + amount_ % 10;
		transaction_.update_row(order_key(ORDER, w_, d.d, d.o), order);
		for (unsigned n = 0; n < transaction_.count(3 * k + 2); n++) {
			const Tuple *t = transaction_.found_tuple(3 * k + 2, n);
			OrderLineRow line = *static_cast<const OrderLineRow *>(t->row());
			d.amount += line.amount;
			line.delivered = 1;
			transaction_.update_row(t->key, line);
		}
	}
	for (const Delivered &d : delivered_)
		transaction_.get(customer_key(w_, d.d, d.customer));
	return true;
}

/* The reads of customers are the last requests of their round. */
bool TpccClient::deliver_customers()
{
	unsigned request = transaction_.replies() - static_cast<unsigned>(delivered_.size());
	for (const Delivered &d : delivered_) {
		CustomerRow customer = row<CustomerRow>(request++);
		customer.balance += static_cast<int64_t>(d.amount);
		customer.deliveries++;
		transaction_.update_row(customer_key(w_, d.d, d.customer), customer);
	}
	return true;
}

/* ---------------------------------------------------------------- stock level */

bool TpccClient::stock_level(unsigned round)
{
	if (round == 0) {
		transaction_.get(district_key(w_, d_));
		return true;
	}
	if (round == 1) {
		const uint64_t next = row<DistrictRow>(0).next_order;
		for (uint64_t o = next > 20 ? next - 20 : 1; o < next; o++)
			transaction_.scan(line_key(w_, d_, o, 1), line_key(w_, d_, o, MOST_LINES));
		return true;
	}
	if (round == 2)
		return stock_of_lines();
	uint64_t low = 0;
	for (unsigned k = 0; k < transaction_.replies(); k++)
		low += row<StockRow>(k).quantity < 10 + amount_ % 11;
	amount_ += low; /* it is used */
	return false;
}

bool TpccClient::stock_of_lines()
{
	std::vector<uint64_t> items;
	for (unsigned k = 0; k < transaction_.replies(); k++)
		for (unsigned n = 0; n < transaction_.count(k); n++)
			items.push_back(static_cast<const OrderLineRow *>(
			        transaction_.found_tuple(k, n)->row())
			                        ->item);
	std::sort(items.begin(), items.end());
	items.erase(std::unique(items.begin(), items.end()), items.end());
	for (const uint64_t item : items)
		transaction_.get(stock_key(w_, item));
	return true;
}

} // namespace oltpim::tpcc
