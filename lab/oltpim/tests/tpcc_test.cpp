/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tpcc_test.cpp - TPC-C by levels: histories are isolated, and the conditions of consistency hold.
 */
#include "../split_store.hpp"
#include "../tpcc.hpp"
#include "world.hpp"

#include <gtest/gtest.h>

namespace oltpim_tests
{

namespace
{

constexpr unsigned CLIENTS = 6;

uint64_t no_clock()
{
	return 0;
}

tpcc::Size small_size()
{
	tpcc::Size s;
	s.warehouses = 1, s.customers = 30, s.items = 100;
	return s;
}

struct TpccWorld {
	TpccWorld(Store &s, Numbers &n) : store(s), db{s, n, {1}, {1}, tpcc::entry_of}
	{
		store.load(tpcc::records(shared.size, tuples));
	}

	/* Steps in an order that the seed gives, and then all transactions to their ends. */
	void run(uint64_t seed, unsigned steps)
	{
		std::vector<std::unique_ptr<tpcc::TpccClient>> clients;
		std::vector<Client *> running;
		for (unsigned k = 0; k < CLIENTS; k++) {
			clients.push_back(std::make_unique<tpcc::TpccClient>(db, tuples, 0, k,
			        &history, shared, CLIENTS, no_clock, seed * CLIENTS + k));
			running.push_back(clients.back().get());
		}
		tools::Random random{seed};
		for (unsigned step = 0; step < steps; step++) {
			const uint64_t who = random.below(CLIENTS + store.parts());
			if (who < CLIENTS)
				clients[who]->step();
			else
				store.help_part(static_cast<unsigned>(who - CLIENTS));
		}
		for (const auto &c : clients)
			c->stop();
		run_by_seed(store, running, seed);
		for (const auto &c : clients)
			for (unsigned kind = 0; kind < tpcc::KINDS; kind++)
				committed[kind] += c->committed_of(static_cast<tpcc::Kind>(kind));
	}
	void expect_right()
	{
		for (const unsigned n : committed)
			EXPECT_GT(n, 0u);
		for (const Violation &v : check_histories({&history}))
			ADD_FAILURE() << v.text;
		EXPECT_EQ(tpcc::wrong(db, tuples, shared.size), "");
	}
	/* A transaction of one request, by one that is alone */
	template <class Add>
	void change(Add add)
	{
		Transaction t(db, tuples, 0, 0, nullptr);
		t.begin();
		add(t);
		t.issue();
		while (!t.ready())
			store.help(0);
		ASSERT_FALSE(t.failed());
		t.commit();
		while (!t.ended())
			store.help(0);
	}

	Store &store;
	Database db;
	Tuples tuples{0};
	History history;
	tpcc::Shared shared{small_size(), 80};
	unsigned committed[tpcc::KINDS] = {};
};

TEST(Tpcc, IsConsistentOnModulesAndSmallTablesOfTheHost)
{
	NearSetup near = small_setup(machines().back());
	near.objects = 8192, near.versions = 16384, near.batch_bytes = 16384;
	near.shifts = tpcc::shifts();
	Numbers numbers(Protocol::MENDED, 1, CLIENTS);
	NearStore modules(near, numbers);
	DramStore small({.workers = 1, .partitions = 2, .shifts = tpcc::shifts(), .first_place = 4},
	        numbers, [](const void *, unsigned) {});
	SplitStore store(modules, small, tpcc::SMALL_TABLES);
	TpccWorld w(store, numbers);
	w.run(1, 15000);
	w.expect_right();
	EXPECT_GT(modules.counts().requests, 0u);
}

TEST(Tpcc, IsConsistentOnMosaic)
{
	for (uint64_t seed = 1; seed <= 2; seed++) {
		Numbers numbers(Protocol::MENDED, 1, CLIENTS);
		DramStore store({.workers = 1, .partitions = 4, .shifts = tpcc::shifts()}, numbers,
		        [](const void *, unsigned) {});
		TpccWorld w(store, numbers);
		w.run(seed, 15000);
		w.expect_right();
	}
}

TEST(Tpcc, ConditionsFindWhatIsWrong)
{
	using namespace tpcc;
	const auto wrong_after = [](const auto &add) {
		Numbers numbers(Protocol::MENDED, 1, CLIENTS);
		DramStore store({.workers = 1, .partitions = 4, .shifts = tpcc::shifts()}, numbers,
		        [](const void *, unsigned) {});
		TpccWorld w(store, numbers);
		w.change(add);
		return tpcc::wrong(w.db, w.tuples, w.shared.size);
	};
	EXPECT_EQ(wrong_after([](Transaction &t) {
		t.update_row(key_of(WAREHOUSE, 0), WarehouseRow{});
	}),
	        "warehouse 0, district 0: its districts' sum is another one than its own");
	EXPECT_EQ(wrong_after([](Transaction &t) { t.remove(order_key(ORDER, 0, 3, 7)); }),
	        "warehouse 0, district 3: an order is missing, or too many");
	EXPECT_EQ(wrong_after([](Transaction &t) { t.remove(order_key(NEW_ORDER, 0, 3, 30)); }),
	        "warehouse 0, district 3: an order is new and delivered, or neither");
	EXPECT_EQ(wrong_after([](Transaction &t) { t.remove(line_key(0, 2, 30, 1)); }),
	        "warehouse 0, district 2: lines of an order are missing");
	EXPECT_EQ(wrong_after([](Transaction &t) { t.remove(name_entry(0, 4, 0, 1)); }),
	        "warehouse 0, district 4: a row has no entry");
	EXPECT_EQ(wrong_after([](Transaction &t) {
		t.update(name_entry(0, 4, 0, 1), oltpim_target(0, 1));
	}),
	        "warehouse 0, district 4: an entry names another row");
}

} // namespace

} // namespace oltpim_tests
