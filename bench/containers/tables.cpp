/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tables.cpp - --table: a fur::table next to the same containers that a program keeps right by
 * hand: rows by a number, a unique index, and one of several parts.  In each round both take turns,
 * and a ratio, of one round, tells how many times as many operations a second the table makes:
 *
 *     insert, erase      a row and its entries
 *     modify             a row, of which one in four gets another key in an index
 *     find, find_unique  a row by its primary key, by the unique index
 *     range              the rows of a customer, some eight, in the order of their days
 *     for_each           the same, by for_each() of the range, which looks for many rows at once
 *     get_many           64 rows by their primary keys
 */
#include "containers.hpp"

#include <fur/table.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

namespace containers
{

namespace
{

struct Order {
	uint64_t id, customer, number;
	uint32_t day, pieces;
	int64_t cents;
};
enum : uint64_t { EACH = 8, MANY = 64, DAYS = 1000 };

/* Order k of all. */
Order order_of(uint64_t k)
{
	return {key_of(k), key_of(k / EACH), k, static_cast<uint32_t>(k % EACH), 1, 100};
}

struct Table {
	fur::table<Order, fur::hash_unique<&Order::id>, fur::ordered_unique<&Order::number>,
	        fur::ordered_index<&Order::customer, &Order::day>>
	        rows;

	bool insert(fur_update *tx, const Order &order)
	{
		return static_cast<bool>(rows.insert(tx, order));
	}
	bool erase(fur_update *tx, uint64_t id)
	{
		return rows.erase(tx, id);
	}
	bool change(fur_update *tx, uint64_t id, int64_t cents, uint32_t days)
	{
		return static_cast<bool>(rows.modify(tx, id, [=](Order &order) {
			order.cents += cents;
			order.day = (order.day + days) % DAYS;
		}));
	}
	std::optional<Order> find(fur_ro *tx, uint64_t id) const
	{
		return rows.get(tx, id);
	}
	std::optional<Order> find_unique(fur_ro *tx, uint64_t number) const
	{
		return rows.by<&Order::number>().get(tx, number);
	}
	template <class F>
	void of_customer(fur_ro *tx, uint64_t customer, F f) const
	{
		const auto index = rows.by<&Order::customer, &Order::day>();
		for (const Order &order : index.range(tx, {customer, 0}, {customer, DAYS}))
			f(order);
	}
	template <class F>
	void each_of_customer(fur_ro *tx, uint64_t customer, F f) const
	{
		const auto index = rows.by<&Order::customer, &Order::day>();
		index.range(tx, {customer, 0}, {customer, DAYS}).for_each(f);
	}
	template <class F>
	void get_many(fur_ro *tx, const uint64_t *ids, size_t n, F f) const
	{
		rows.get_many(tx, ids, n, f);
	}
	const char *check(fur_ro *tx) const
	{
		return rows.check(tx);
	}
};

/* What a program without the table writes. */
struct ByHand {
	fur::hash_map<uint64_t, Order> rows;
	fur::ordered_map<uint64_t, uint64_t> by_number;
	fur::ordered_multimap<std::tuple<uint64_t, uint32_t>, uint64_t> by_customer;

	bool insert(fur_update *tx, const Order &order)
	{
		if (!rows.insert(tx, order.id, order))
			return false;
		if (!by_number.insert(tx, order.number, order.id)) {
			rows.erase(tx, order.id);
			return false;
		}
		by_customer.insert(tx, {order.customer, order.day}, order.id);
		return true;
	}
	bool erase(fur_update *tx, uint64_t id)
	{
		const auto order = rows.get(tx, id);
		if (!order)
			return false;
		by_number.erase(tx, order->number);
		by_customer.erase(tx, {order->customer, order->day}, id);
		return rows.erase(tx, id);
	}
	bool change(fur_update *tx, uint64_t id, int64_t cents, uint32_t days)
	{
		return rows.modify(tx, id, [&](Order &order) {
			const uint32_t before = order.day;
			order.cents += cents;
			order.day = (before + days) % DAYS;
			if (order.day == before)
				return;
			by_customer.insert(tx, {order.customer, order.day}, id);
			by_customer.erase(tx, {order.customer, before}, id);
		});
	}
	std::optional<Order> find(fur_ro *tx, uint64_t id) const
	{
		return rows.get(tx, id);
	}
	std::optional<Order> find_unique(fur_ro *tx, uint64_t number) const
	{
		const auto id = by_number.get(tx, number);
		return id ? rows.get(tx, *id) : std::nullopt;
	}
	template <class F>
	void of_customer(fur_ro *tx, uint64_t customer, F f) const
	{
		const auto end = by_customer.lower_bound(tx, {customer, DAYS});
		for (auto at = by_customer.lower_bound(tx, {customer, 0}); at != end; ++at)
			f(rows.at(tx, at->second));
	}
	template <class F>
	void each_of_customer(fur_ro *tx, uint64_t customer, F f) const
	{
		of_customer(tx, customer, f);
	}
	template <class F>
	void get_many(fur_ro *tx, const uint64_t *ids, size_t n, F f) const
	{
		rows.get_many(tx, ids, n, f);
	}
	const char *check(fur_ro *tx) const
	{
		const uint64_t n = rows.size(tx);
		return n == by_number.size(tx) && n == by_customer.size(tx) ? nullptr
		                                                            : "sizes differ";
	}
};

/* A thread of one measurement. */
struct Work {
	Random random;
	uint64_t next; /* the first order that the thread may insert, and that none has */
	uint64_t inserted = 0, operations = 0;
};
enum : uint64_t { OF_A_THREAD = UINT64_C(1) << 40 };

enum What { INSERT, FIND, FIND_UNIQUE, RANGE, FOR_EACH, GET_MANY, MODIFY, ERASE, WHATS };
const char *const NAMES[] = {
        "insert", "find", "find_unique", "range", "for_each", "get_many", "modify", "erase"};

struct Side {
	virtual ~Side() = default;
	/* Insert orders `from` to `to` - 1. */
	virtual void fill(uint64_t from, uint64_t to) = 0;
	/* Operations a second. */
	virtual double measure(What what, unsigned threads) = 0;
	virtual void check() = 0;
};

template <class Rows>
class SideOf : public Side
{
public:
	SideOf(const Settings &s, const char *name)
	    : s_(s), path_(s.directory + "/fur-bench-containers-table-" + name),
	      heap_(make(path_, s.keys)), self_(heap_), rows_(*fur::root<Rows>(self_, "rows"))
	{
	}
	~SideOf() override
	{
		heap_.close();
		unlink(path_.c_str());
	}
	void fill(uint64_t from, uint64_t to) override
	{
		enum : uint64_t { BATCH = 16 };
		for (; from < to; from += BATCH)
			fur::update(self_, fur::rerun, [&](fur_update *tx) {
				for (uint64_t k = from; k < to && k < from + BATCH; k++)
					rows_.insert(tx, order_of(k));
			});
	}
	double measure(What what, unsigned threads) override
	{
		std::atomic<unsigned> ready{0};
		std::atomic<bool> begin{false};
		std::vector<std::thread> all;
		while (work_.size() < threads)
			work_.push_back({Random{work_.size() + 1},
			        s_.keys + OF_A_THREAD * (work_.size() + 1)});
		for (unsigned t = 0; t < threads; t++)
			all.emplace_back([&, t] {
				fur::Thread self(heap_);
				for (ready++; !begin;)
					std::this_thread::yield();
				run(self, what, work_[t]);
			});
		while (ready < threads)
			std::this_thread::yield();
		const double from = now();
		begin = true;
		uint64_t operations = 0;
		for (unsigned t = 0; t < threads; t++) {
			all[t].join();
			operations += work_[t].operations;
		}
		return static_cast<double>(operations) / (now() - from);
	}
	void check() override
	{
		if (const char *wrong =
		                fur::read(self_, [&](fur_ro *tx) { return rows_.check(tx); }))
			die(wrong);
	}

private:
	static fur::Heap make(const std::string &path, uint64_t keys)
	{
		unlink(path.c_str());
		const uint64_t least = keys < 100000 ? 32 << 20 : 256 << 20;
		return fur::Heap::create(path, options(least + keys * 512, 0));
	}
	/* For s.seconds; but erase what was inserted, however long it takes. */
	void run(fur_thread *self, What what, Work &work)
	{
		work.operations = 0;
		for (const double end = now() + s_.seconds;
		        what == ERASE ? work.inserted > 0 : now() < end;)
			for (int k = 0; k < 16 && (what != ERASE || work.inserted); k++) {
				if (!once(self, what, work))
					die(std::string("a row is wrong: ") + NAMES[what]);
				work.operations++;
			}
	}
	bool once(fur_thread *self, What what, Work &work)
	{
		const uint64_t k = work.random.below(s_.keys);
		switch (what) {
		case INSERT:
			work.inserted++;
			return fur::update(self, fur::rerun, [&](fur_update *tx) {
				return rows_.insert(tx, order_of(work.next + work.inserted - 1));
			});
		case ERASE:
			work.inserted--;
			return fur::update(self, fur::rerun, [&](fur_update *tx) {
				return rows_.erase(tx, key_of(work.next + work.inserted));
			});
		case MODIFY:
			return fur::update(self, fur::rerun, [&](fur_update *tx) {
				return rows_.change(tx, key_of(k), 1, k % 4 ? 0 : 8);
			});
		case FIND:
			return fur::read(self, [&](fur_ro *tx) {
				return rows_.find(tx, key_of(k)).value().number == k;
			});
		case FIND_UNIQUE:
			return fur::read(self, [&](fur_ro *tx) {
				return rows_.find_unique(tx, k).value().id == key_of(k);
			});
		case RANGE:
		case FOR_EACH: return of_customer(self, what, k / EACH);
		default: return many(self, work);
		}
	}
	bool of_customer(fur_thread *self, What what, uint64_t customer)
	{
		const uint64_t first = customer * EACH, last = std::min(first + EACH, s_.keys);
		uint64_t sum = 0;
		const auto add = [&](const Order &order) { sum += order.number; };
		fur::read(self, [&](fur_ro *tx) {
			if (what == RANGE)
				rows_.of_customer(tx, key_of(customer), add);
			else
				rows_.each_of_customer(tx, key_of(customer), add);
		});
		return sum == (first + last - 1) * (last - first) / 2;
	}
	bool many(fur_thread *self, Work &work)
	{
		uint64_t ids[MANY], sum = 0;
		for (uint64_t &id : ids) {
			const uint64_t k = work.random.below(s_.keys);
			id = key_of(k);
			sum -= k;
		}
		fur::read(self, [&](fur_ro *tx) {
			rows_.get_many(tx, ids, MANY,
			        [&](size_t, const Order &order) { sum += order.number; });
		});
		return sum == 0;
	}

	const Settings &s_;
	std::string path_;
	fur::Heap heap_;
	fur::Thread self_;
	Rows &rows_;
	std::vector<Work> work_;
};

struct Row {
	What what;
	unsigned threads;
	std::vector<double> table{}, by_hand{}, ratio{};
};

void print(const Settings &s, const std::vector<Row> &rows, const bench::RoundTrips &trips)
{
	printf("%lu rows of %zu bytes, three indexes: median of %u rounds of %g s; a ratio is of "
	       "one round\n%s\n",
	        static_cast<unsigned long>(s.keys), sizeof(Order), s.rounds, s.seconds,
	        trips.text().c_str());
	for (const Row &row : rows)
		printf("%-12s %u thread%s table %6.3f M/s, by hand %6.3f M/s, ratio %.2f (%.2f to "
		       "%.2f)\n",
		        NAMES[row.what], row.threads, row.threads > 1 ? "s" : " ",
		        median(row.table) / 1e6, median(row.by_hand) / 1e6, median(row.ratio),
		        *std::min_element(row.ratio.begin(), row.ratio.end()),
		        *std::max_element(row.ratio.begin(), row.ratio.end()));
}

} // namespace

tools::Json measure_table(const Settings &s)
{
	const auto table = std::make_unique<SideOf<Table>>(s, "table");
	const auto by_hand = std::make_unique<SideOf<ByHand>>(s, "by-hand");
	/* In turns: where the system's free memory is taken from, look-ups differ by a tenth. */
	enum : uint64_t { SOME = 4096 };
	for (uint64_t k = 0; k < s.keys; k += SOME) {
		table->fill(k, std::min(k + SOME, s.keys));
		by_hand->fill(k, std::min(k + SOME, s.keys));
	}
	std::vector<Row> rows;
	for (const unsigned threads : {1u, 2u})
		for (int what = 0; what < WHATS; what++)
			rows.push_back({static_cast<What>(what), threads});
	bench::RoundTrips trips;
	for (unsigned round = 0; round < s.rounds; round++) {
		trips.take();
		for (Row &row : rows) {
			const auto one = [&](Side &side, std::vector<double> &rates) {
				rates.push_back(side.measure(row.what, row.threads));
			};
			if (round % 2)
				one(*by_hand, row.by_hand);
			one(*table, row.table);
			if (round % 2 == 0)
				one(*by_hand, row.by_hand);
			row.ratio.push_back(row.table.back() / row.by_hand.back());
		}
	}
	table->check();
	by_hand->check();
	tools::Json result{{"keys", s.keys}, {"rounds", s.rounds}, {"round_trip_ns", trips.json()}};
	for (const Row &row : rows) {
		const std::string name =
		        NAMES[row.what] + std::string("_") + std::to_string(row.threads);
		result[name] = median(row.ratio);
		result[name + "_rounds"] = row.ratio;
		result[name + "_table_per_s"] = row.table;
		result[name + "_by_hand_per_s"] = row.by_hand;
	}
	if (s.json != "-")
		print(s, rows, trips);
	return result;
}

} // namespace containers
