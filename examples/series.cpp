/* SPDX-License-Identifier: BSD-3-Clause
 *
 * series.cpp - a store of time series: samples by name and time, of which old ones are forgotten.
 *
 *     series HEAP     takes commands from its input, and answers each of them:
 *         add NAME TIME VALUE      ok               the sample is durable
 *         show NAME FROM TO        TIME VALUE ...   those with FROM <= TIME < TO, and then ok
 *         forget NAME BEFORE       ok               those with TIME < BEFORE are gone, durably
 *
 * Names have up to 24 characters; times are numbers of any unit.
 */
#include <cstdio>
#include <cstring>
#include <fur/root.hpp>
#include <iostream>
#include <limits>
#include <optional>
#include <sstream>

namespace
{

/* By name, and those of a name by time: so a range of times is a range of keys. */
struct Key {
	char name[24]; /* zeroes behind it */
	int64_t time;

	Key() = default;
	Key(const std::string &n, int64_t t) : name{}, time(t)
	{
		if (n.size() > sizeof name)
			throw std::invalid_argument("a name has up to 24 characters");
		memcpy(name, n.data(), n.size());
	}
	bool operator==(const Key &other) const
	{
		return memcmp(name, other.name, sizeof name) == 0 && time == other.time;
	}
	bool operator<(const Key &other) const
	{
		const int differs = memcmp(name, other.name, sizeof name);
		return differs < 0 || (differs == 0 && time < other.time);
	}
};

using Samples = fur::ordered_map<Key, double>;

class Store
{
public:
	explicit Store(fur_thread *self)
	    : self_(self), samples_(fur::root<Samples>(self, "samples"))
	{
	}
	/* Without a wait: sync() does so for many commands. */
	void add(const std::string &name, int64_t time, double value)
	{
		fur_ticket ticket;
		fur::update(self_, fur::rerun, ticket, [&](fur_update *tx) {
			samples_->insert_or_assign(tx, {name, time}, value);
		});
		last_ = ticket;
	}
	void show(const std::string &name, int64_t from, int64_t to, std::ostream &out)
	{
		/* Printed after the transaction, for which updates wait. */
		std::vector<std::pair<int64_t, double>> some;
		fur::read(self_, [&](fur_ro *tx) {
			some.clear();
			const auto end = samples_->lower_bound(tx, {name, to});
			for (auto at = samples_->lower_bound(tx, {name, from}); at != end; ++at)
				some.emplace_back(at->first.time, at->second);
		});
		for (const auto &[time, value] : some)
			out << time << ' ' << value << '\n';
	}
	/* In as many updates as it takes, each durable when it ends. */
	void forget(const std::string &name, int64_t before)
	{
		const auto first = std::numeric_limits<int64_t>::min();
		fur::delete_range(self_, *samples_, {name, first}, {name, before});
	}
	/* sync - what add() has done is durable when it returns. */
	void sync()
	{
		if (last_)
			fur::wait(self_, *last_);
		last_.reset();
	}

private:
	fur_thread *self_;
	Samples *samples_;
	std::optional<fur_ticket> last_;
};

bool run(Store &store, const std::string &line, std::ostream &out)
{
	std::istringstream words(line);
	std::string what, name;
	int64_t from, to;
	double value;
	words >> what >> name;
	if (what == "add" && words >> from >> value)
		store.add(name, from, value);
	else if (what == "show" && words >> from >> to)
		store.show(name, from, to, out);
	else if (what == "forget" && words >> from)
		store.forget(name, from);
	else
		return false;
	return true;
}

/* Answer the commands that are there with one wait for all of them. */
void serve(Store &store)
{
	std::ostringstream answers;
	for (std::string line; std::getline(std::cin, line);) {
		answers << (run(store, line, answers) ? "ok\n" : "what?\n");
		if (std::cin.rdbuf()->in_avail() > 0)
			continue;
		store.sync();
		std::cout << answers.str() << std::flush;
		answers.str("");
	}
	store.sync();
	std::cout << answers.str() << std::flush;
}

} // namespace

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: %s HEAP\n", argv[0]);
		return 2;
	}
	try {
		std::ios::sync_with_stdio(false);
		fur::Heap heap = fur::Heap::open_or_create(argv[1]);
		fur::Thread self(heap);
		Store store(self);
		serve(store);
		heap.close();
	} catch (const std::exception &e) {
		fprintf(stderr, "%s\n", e.what());
		return 1;
	}
}
