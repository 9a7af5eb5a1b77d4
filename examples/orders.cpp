/* SPDX-License-Identifier: BSD-3-Clause
 *
 * orders.cpp - orders by number, by customer and by date: a fur::table, which keeps its indexes
 * right whatever the program changes.
 *
 *     orders HEAP add NUMBER CUSTOMER DAY CENTS [INVOICE]
 *     orders HEAP move NUMBER DAY               to another day
 *     orders HEAP bill NUMBER INVOICE           no two orders have the same invoice
 *     orders HEAP cancel NUMBER
 *     orders HEAP customer CUSTOMER             their orders, the newest first
 *     orders HEAP days FROM TO                  the orders with FROM <= DAY < TO
 *     orders HEAP check                         do the indexes agree?
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fur/table.hpp>
#include <string>
#include <vector>

namespace
{

struct Order {
	uint64_t number;
	std::string customer, invoice; /* in the heap they are kept as fur::string */
	uint32_t day;
	int64_t cents;
	FUR_MEMBERS(number, customer, invoice, day, cents)
};

using Orders = fur::table<Order, fur::hash_unique<&Order::number>, /* the primary key */
        fur::hash_unique<&Order::invoice>, fur::ordered_index<&Order::customer, &Order::day>,
        fur::ordered_index<&Order::day>>;

/* What has come of a change, for the user. */
const char *text_of(const fur::table_result &result)
{
	if (result)
		return "ok";
	if (result.is_missing())
		return "there is no such order";
	return result.clash() == Orders::number_of<&Order::invoice>()
	               ? "another order has this invoice"
	               : "there is an order of this number";
}

void print(const std::vector<Order> &orders)
{
	for (const Order &order : orders)
		printf("%lu %s %u %ld %s\n", static_cast<unsigned long>(order.number),
		        order.customer.c_str(), order.day, static_cast<long>(order.cents),
		        order.invoice.c_str());
}

std::vector<Order> of_customer(fur_thread *self, const Orders &orders, const std::string &customer)
{
	/* The body may run again beside updates, so it begins with an empty result. */
	return fur::read(self, fur::rerun, [&](fur_reader *tx) {
		const auto index = orders.by<&Order::customer, &Order::day>();
		const auto theirs = index.range(tx, {customer, 0}, {customer, UINT32_MAX});
		return std::vector<Order>(theirs.rbegin(), theirs.rend());
	});
}

std::vector<Order> of_days(fur_thread *self, const Orders &orders, uint32_t from, uint32_t to)
{
	return fur::read(self, fur::rerun, [&](fur_reader *tx) {
		const auto some = orders.by<&Order::day>().range(tx, from, to);
		return std::vector<Order>(some.begin(), some.end());
	});
}

uint32_t number(const std::string &text)
{
	return static_cast<uint32_t>(strtoul(text.c_str(), nullptr, 10));
}

const char *change(fur_update *tx, Orders &orders, const std::vector<std::string> &words)
{
	const uint64_t key = number(words[1]);
	if (words[0] == "cancel")
		return orders.erase(tx, key) ? "ok" : "there is no such order";
	if (words[0] == "move")
		return text_of(orders.modify(
		        tx, key, [&](Order &order) { order.day = number(words[2]); }));
	if (words[0] == "bill")
		return text_of(
		        orders.modify(tx, key, [&](Order &order) { order.invoice = words[2]; }));
	/* An order without an invoice has one that no other has: its number. */
	const std::string invoice = words.size() > 5 ? words[5] : "none-" + words[1];
	return text_of(
	        orders.insert(tx, {key, words[2], invoice, number(words[3]), number(words[4])}));
}

int run(const char *path, const std::vector<std::string> &words)
{
	fur::Heap heap = fur::Heap::open_or_create(path);
	fur::Thread self(heap);
	auto *orders = fur::root<Orders>(self, "orders");
	if (words[0] == "customer") {
		print(of_customer(self, *orders, words[1]));
	} else if (words[0] == "days") {
		print(of_days(self, *orders, number(words[1]), number(words[2])));
	} else if (words[0] == "check") {
		const char *wrong = fur::read(self, [&](fur_ro *tx) { return orders->check(tx); });
		puts(wrong ? wrong : "ok");
	} else {
		puts(fur::update(self, fur::rerun,
		        [&](fur_update *tx) { return change(tx, *orders, words); }));
	}
	heap.close();
	return 0;
}

bool is_known(const std::vector<std::string> &words)
{
	static const struct {
		const char *name;
		size_t least, most;
	} known[] = {{"add", 5, 6}, {"move", 3, 3}, {"bill", 3, 3}, {"cancel", 2, 2},
	        {"customer", 2, 2}, {"days", 3, 3}, {"check", 1, 1}};
	for (const auto &command : known)
		if (!words.empty() && words[0] == command.name && words.size() >= command.least &&
		        words.size() <= command.most)
			return true;
	return false;
}

} // namespace

int main(int argc, char **argv)
{
	const std::vector<std::string> words(argv + (argc < 2 ? argc : 2), argv + argc);
	if (!is_known(words)) {
		fprintf(stderr,
		        "usage: %s HEAP add NUMBER CUSTOMER DAY CENTS [INVOICE] | move NUMBER DAY "
		        "| bill NUMBER INVOICE | cancel NUMBER | customer CUSTOMER | days FROM TO "
		        "| check\n",
		        argv[0]);
		return 2;
	}
	try {
		return run(argv[1], words);
	} catch (const std::exception &e) {
		fprintf(stderr, "%s\n", e.what());
		return 1;
	}
}
