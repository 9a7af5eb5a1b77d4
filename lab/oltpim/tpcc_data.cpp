/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tpcc_data.cpp - what tpcc.hpp loads, and what must hold at the end.
 */
#include "tpcc.hpp"

#include <map>

namespace oltpim::tpcc
{

namespace
{

constexpr uint64_t YTD = 3000000; /* of a district */

class Loader
{
public:
	Loader(const Size &size, Tuples &tuples) : size_(size), tuples_(tuples) {}

	std::vector<Record> records()
	{
		for (uint64_t item = 1; item <= size_.items; item++)
			add(key_of(ITEM, item), ItemRow{100 + random_.below(9901), {}});
		for (uint64_t w = 0; w < size_.warehouses; w++) {
			add(key_of(WAREHOUSE, w), WarehouseRow{DISTRICTS * YTD, {}});
			for (uint64_t item = 1; item <= size_.items; item++)
				add(stock_key(w, item), StockRow{10 + random_.below(91), 0, 0, 0});
			for (uint64_t d = 1; d <= DISTRICTS; d++)
				add_district(w, d);
		}
		std::sort(records_.begin(), records_.end(),
		        [](const Record &a, const Record &b) { return a.key < b.key; });
		return std::move(records_);
	}

private:
	template <class Row>
	void add(uint64_t key, const Row &row)
	{
		records_.push_back({key,
		        reinterpret_cast<uint64_t>(tuples_.make(key, 0, 0, &row, sizeof(row)))});
	}
	void add_district(uint64_t w, uint64_t d)
	{
		const uint64_t n = size_.customers, names = size_.names();
		add(district_key(w, d), DistrictRow{YTD, n + 1, {}});
		std::vector<uint64_t> customers;
		for (uint64_t c = 1; c <= n; c++) {
			const uint64_t name = c <= names ? c - 1 : random_.below(names);
			add(customer_key(w, d, c), CustomerRow{-1000, 1000, 1, 0, name, {}});
			records_.push_back({name_entry(w, d, name, c), customer_key(w, d, c)});
			customers.push_back(c);
		}
		for (uint64_t o = n; o > 0; o--) {
			std::swap(customers[o - 1], customers[random_.below(o)]);
			add_order(w, d, o, customers[o - 1]);
		}
	}
	void add_order(uint64_t w, uint64_t d, uint64_t o, uint64_t customer)
	{
		const uint64_t lines = 5 + random_.below(11);
		const bool is_new = o > size_.customers * 7 / 10;
		add(order_key(ORDER, w, d, o), OrderRow{customer, lines, is_new ? 0u : 1u});
		records_.push_back({order_entry(w, d, customer, o), order_key(ORDER, w, d, o)});
		if (is_new)
			add(order_key(NEW_ORDER, w, d, o), NewOrderRow{o});
		for (uint64_t k = 1; k <= lines; k++) {
			OrderLineRow line = {};
			line.item = 1 + random_.below(size_.items);
			line.amount = is_new ? 1 + random_.below(999999) : 0;
			line.delivered = !is_new;
			line.supply = static_cast<uint32_t>(w);
			line.quantity = 5;
			add(line_key(w, d, o, k), line);
		}
	}

	const Size size_;
	Tuples &tuples_;
	tools::Random random_{1};
	std::vector<Record> records_;
};

/* Reads everything, as one worker that is alone. */
class Audit
{
public:
	Audit(Database &db, Tuples &tuples, const Size &size)
	    : db_(db), size_(size), transaction_(db, tuples, 0, 0, nullptr)
	{
	}

	std::string wrong()
	{
		transaction_.begin();
		for (uint64_t w = 0; w < size_.warehouses; w++)
			check_warehouse(w);
		transaction_.commit();
		while (!transaction_.ended())
			db_.store.help(0);
		return wrong_;
	}

private:
	void serve()
	{
		transaction_.issue();
		while (!transaction_.ready())
			for (unsigned part = 0; part < db_.store.parts(); part++)
				db_.store.help_part(part);
	}
	template <class Row>
	Row row(unsigned request) const
	{
		return *static_cast<const Row *>(transaction_.tuple(request)->row());
	}
	void expect(bool holds, uint64_t w, uint64_t d, const char *what)
	{
		if (!holds && wrong_.empty())
			wrong_ = "warehouse " + std::to_string(w) + ", district " +
			         std::to_string(d) + ": " + what;
	}

	void check_warehouse(uint64_t w)
	{
		transaction_.get(key_of(WAREHOUSE, w));
		for (uint64_t d = 1; d <= DISTRICTS; d++)
			transaction_.get(district_key(w, d));
		serve();
		const uint64_t ytd = row<WarehouseRow>(0).ytd;
		uint64_t sum = 0, next[DISTRICTS];
		for (unsigned d = 1; d <= DISTRICTS; d++) {
			const DistrictRow district = row<DistrictRow>(d);
			sum += district.ytd;
			next[d - 1] = district.next_order;
		}
		expect(sum == ytd, w, 0, "its districts' sum is another one than its own");
		for (uint64_t d = 1; d <= DISTRICTS; d++) {
			for (uint64_t o = 1; o <= next[d - 1]; o++)
				check_order(w, d, o, o < next[d - 1]);
			for (uint64_t c = 1; c <= size_.customers; c++)
				check_customer(w, d, c);
		}
	}
	void check_order(uint64_t w, uint64_t d, uint64_t o, bool there)
	{
		transaction_.get(order_key(ORDER, w, d, o));
		transaction_.get(order_key(NEW_ORDER, w, d, o));
		transaction_.scan(line_key(w, d, o, 1), line_key(w, d, o, MOST_LINES));
		serve();
		expect(transaction_.found(0) == there, w, d, "an order is missing, or too many");
		if (!there || !transaction_.found(0))
			return;
		const OrderRow order = row<OrderRow>(0);
		expect(transaction_.found(1) == (order.carrier == 0), w, d,
		        "an order is new and delivered, or neither");
		expect(transaction_.count(2) == order.lines, w, d, "lines of an order are missing");
		for (unsigned k = 0; k < transaction_.count(2); k++)
			expect(static_cast<const OrderLineRow *>(
			               transaction_.found_tuple(2, k)->row())
			                        ->delivered == (order.carrier != 0),
			        w, d, "a part of an order is delivered");
		check_entry(order_entry(w, d, order.customer, o), order_key(ORDER, w, d, o), w, d);
	}
	void check_customer(uint64_t w, uint64_t d, uint64_t c)
	{
		transaction_.get(customer_key(w, d, c));
		serve();
		const CustomerRow customer = row<CustomerRow>(0);
		expect(customer.balance + static_cast<int64_t>(customer.ytd) >= 0, w, d,
		        "a customer's balance is not what was paid and delivered");
		check_entry(name_entry(w, d, customer.name, c), customer_key(w, d, c), w, d);
	}
	void check_entry(uint64_t entry, uint64_t key, uint64_t w, uint64_t d)
	{
		transaction_.first(entry, entry);
		serve();
		expect(transaction_.found(0), w, d, "a row has no entry");
		if (!transaction_.found(0))
			return;
		transaction_.read(transaction_.value(0));
		serve();
		expect(transaction_.found(0) && transaction_.tuple(0)->key == key, w, d,
		        "an entry names another row");
	}

	Database &db_;
	const Size size_;
	Transaction transaction_;
	std::string wrong_;
};

} // namespace

std::vector<Record> records(const Size &size, Tuples &tuples)
{
	return Loader(size, tuples).records();
}

std::string wrong(Database &db, Tuples &tuples, const Size &size)
{
	return Audit(db, tuples, size).wrong();
}

} // namespace oltpim::tpcc
