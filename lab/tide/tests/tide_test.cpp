/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tide_test.cpp - PIM-TIDE is serialisable; as published, on the same schedules, it is not.
 */
#include "../command_log.hpp"
#include "../history.hpp"
#include "../schedules.hpp"
#include "../whole.hpp"
#include "../workload.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <unistd.h>

namespace
{

using tide::History;
using tide::Numbering;
using tide::Options;
using tide::Part;
using tide::Transaction;

#ifdef NEAR_EMULATED
const bool emulated = tide_kernel.images->count > 0;
#else
const bool emulated = false;
#endif

Options on(const char *machine, unsigned modules)
{
	Options o;
	o.machine = machine;
	o.modules = modules;
	o.most_instructions = 2000000; /* a hundred times what the schedules take */
	return o;
}

Transaction of(std::vector<Part> parts)
{
	Transaction t;
	t.parts = std::move(parts);
	return t;
}

/* ----------------------------------------------------------------- the checker */

TEST(History, FindsWhatNoOrderGives)
{
	History none;
	none.stored(1, 0, 0, 1);
	none.stored(2, 0, 1, 2);
	none.saw(3, 0, 1);
	EXPECT_EQ(none.violation(), "");

	History crossed; /* the words have the transactions in opposite orders */
	crossed.stored(1, 0, 0, 1);
	crossed.stored(2, 0, 1, 2);
	crossed.stored(2, 1, 0, 2);
	crossed.stored(1, 1, 2, 1);
	EXPECT_NE(crossed.violation(), "");

	History torn; /* one new word, one old */
	torn.stored(1, 0, 0, 1);
	torn.stored(1, 1, 0, 1);
	torn.saw(2, 0, 0);
	torn.saw(2, 1, 1);
	EXPECT_NE(torn.violation(), "");

	History lost;
	lost.stored(1, 0, 0, 1);
	lost.stored(2, 0, 0, 2);
	EXPECT_NE(lost.violation().find("lost"), std::string::npos);

	History dirty;
	dirty.saw(1, 0, 7);
	dirty.stored(2, 0, 0, 2);
	EXPECT_NE(dirty.violation().find("no transaction"), std::string::npos);
}

/* ----------------------------------------------------------------- schedules */

/* Execute transactions of the workload, and look at what they leave. */
std::string wrong_after(const Options &o, const tide::Workload &w, unsigned transactions)
{
	tide::Tide system(o);
	tools::Random random{1};
	w.load(system);
	for (unsigned k = 0; k < transactions; k++)
		system.submit(w.draw(random, o.modules, k % o.modules));
	system.run_all();
	EXPECT_EQ(system.counts().transactions, transactions);
	return w.wrong(system);
}

std::vector<const char *> machines()
{
	return emulated ? std::vector<const char *>{"threads", "upmem"}
	                : std::vector<const char *>{"threads"};
}

/* Orders of 15 lines take more locks than the scratchpad lists. */
TEST(TideWorkloads, LeaveWhatTheyMust)
{
	for (const char *machine : machines())
		for (bool deterministic : {false, true}) {
			Options o = on(machine, 2);
			o.most_instructions = 0;
			o.tasklets = machine[0] == 't' ? 4 : TIDE_TASKLETS;
			tide::Workload w;
			w.deterministic = deterministic;
			w.accounts = 20;
			EXPECT_EQ(wrong_after(o, w, 100), "") << machine;
			w.name = "tpcc";
			w.remote = 50;
			EXPECT_EQ(wrong_after(o, w, emulated ? 600 : 100), "") << machine;
		}
}

tide::Workload half_remote()
{
	tide::Workload w;
	w.name = "tpcc";
	w.remote = 50;
	return w;
}

/* ----------------------------------------------------------------- a machine of ranks */

TEST(TideWhole, LargestOfMany)
{
	EXPECT_DOUBLE_EQ(tide::largest_of({3, 1, 2}, 1), 2);
	EXPECT_DOUBLE_EQ(tide::largest_of({1, 0}, 2), 0.75);
	EXPECT_NEAR(tide::largest_of({1, 3, 2}, 1000), 3, 1e-9);
}

/* Rank after rank, they execute the whole machine's transactions: customers have paid what
 * warehouses have received. */
TEST(TideWhole, RanksMakeTheMachine)
{
	enum : unsigned { OF = 6 };
	Options o = on(emulated ? "upmem" : "threads", 2);
	o.most_instructions = 0;
	o.records = 4;
	o.tasklets = 4;
	tide::Workload w = half_remote();
	tide::Workload::Money all;
	uint64_t transactions = 0, parts = 0;
	for (unsigned first = 0; first < OF; first += 2) {
		tide::Whole whole(w, o, OF, first, 1);
		whole.run_batch();
		whole.run_batch();
		const double batch_us = whole.times(OF).batch();
		tide::Workload::Money money;
		EXPECT_EQ(w.wrong(whole.rank(), &money), "");
		EXPECT_EQ(whole.times(OF).batch(), batch_us); /* it has looked at all data since */
		all.paid += money.paid, all.received += money.received;
		const tide::Whole::Times t = whole.times(OF);
		EXPECT_TRUE(transactions == 0 || whole.transactions() == transactions);
		transactions = whole.transactions();
		EXPECT_DOUBLE_EQ(t.transactions * 2, static_cast<double>(transactions));
		EXPECT_DOUBLE_EQ(whole.times(2).transactions * 3, t.transactions);
		parts += whole.rank().counts().commits[0] + whole.rank().counts().commits[1];
		if (emulated) {
			EXPECT_GT(t.mean, 0);
			EXPECT_LE(t.mean, t.slowest);
			EXPECT_LE(t.slowest, t.slowest_seen);
			EXPECT_GT(t.copies, 0);
		}
	}
	EXPECT_EQ(all.paid, all.received);
	EXPECT_GT(all.paid, 0u);
	EXPECT_GT(parts, transactions); /* some have two */
}

/* With constant waits after failures, the aborts of this module's local transactions repeated for
 * ever. */
TEST(TideWhole, LocalTransactionsDoNotKeepStep)
{
	if (!emulated)
		GTEST_SKIP() << "no emulated machine, or no compiler for it";
	Options o = on("upmem-sdk", 1);
	o.most_instructions = 200000000; /* ten times what it takes */
	tide::Workload w;
	w.name = "tpcc";
	tide::Whole whole(w, o, 2048, 16, 1);
	whole.run_batch();
	EXPECT_EQ(whole.rank().counts().commits[0], uint64_t(TIDE_RECORDS) * TIDE_TASKLETS);
}

/* ----------------------------------------------------------------- the command log */

struct HeapFile {
	HeapFile() : path("/tmp/tide-test-" + std::to_string(getpid()) + ".fur")
	{
		remove(path.c_str());
	}
	~HeapFile()
	{
		remove(path.c_str());
	}
	const std::string path;
};

using tide::warehouses;

/* The modules lose their memory; the log brings it back, word for word. */
TEST(TideLog, BringsTheDataBack)
{
	for (const char *machine : machines()) {
		const HeapFile file;
		Options o = on(machine, 2);
		o.most_instructions = 0;
		o.tasklets = 4;
		o.records = 16;
		tide::Workload w;
		w.name = "tpcc";
		w.remote = 50;
		std::vector<uint32_t> before;
		uint64_t batches = 0;
		{
			fur::Heap heap = fur::Heap::create(file.path);
			tide::CommandLog log(heap.get());
			tide::Tide system(o);
			tools::Random random{3};
			w.load(system);
			system.keep_with(log);
			for (unsigned k = 0; k < 300; k++)
				system.submit(w.draw(random, 2, k % 2));
			system.run_all();
			before = warehouses(system);
			batches = system.counts().batches;
		}
		fur::Heap heap = fur::Heap::open(file.path);
		tide::CommandLog log(heap.get());
		tide::Tide system(o);
		w.load(system);
		EXPECT_NE(warehouses(system), before);
		EXPECT_EQ(log.batches(), batches);
		log.replay(system, batches);
		EXPECT_GT(batches, 1u);
		EXPECT_TRUE(warehouses(system) == before) << machine;
	}
}

/* A log that is full when the modules have ended */
struct FullLog : tide::Keeper {
	void keep_parts(const std::vector<tide_queue> &queues) override
	{
		parts += queues.at(0).local;
	}
	void keep_turns(const std::vector<tide_queue> &, const std::vector<tide_result> &) override
	{
		throw std::runtime_error("the log is full");
	}
	uint64_t parts = 0;
};

/* INV-TD6 */
TEST(TideLog, IsDurableBeforeResultsAreReleased)
{
	FullLog log;
	tide::Tide system(on("threads", 1));
	const size_t t = system.submit(of({tide::touch(0, 0, 7)}));
	system.keep_with(log);
	EXPECT_THROW(system.run_batch(), std::runtime_error);
	EXPECT_EQ(log.parts, 1u);
	EXPECT_THROW(system.outcome(t), std::runtime_error);
	EXPECT_EQ(system.counts().transactions, 0u);
}

/* Of a batch whose turns are not durable, recovery executes nothing. */
TEST(TideLog, LeavesOutABatchWithoutItsTurns)
{
	const HeapFile file;
	fur::Heap heap = fur::Heap::create(file.path);
	tide::CommandLog log(heap.get());
	{
		tide::Tide system(on("threads", 1));
		system.keep_with(log);
		system.submit(of({tide::touch(0, 0, 7)}));
		system.run_batch();
	}
	std::vector<tide_queue> begun(TIDE_TASKLETS);
	begun[0].local = 1;
	begun[0].record[0] = tide::touch(0, 1, 8).record;
	log.keep_parts(begun);
	tide::Tide system(on("threads", 1));
	system.fill(TIDE_DATA, {0, 0, 0, 0});
	EXPECT_EQ(log.batches(), 1u);
	log.replay(system, 1);
	const std::vector<uint32_t> words = system.words(TIDE_DATA, 4);
	EXPECT_EQ(std::count(words.begin(), words.end(), 7u), 1);
	EXPECT_EQ(std::count(words.begin(), words.end(), 8u), 0);
}

/* Ranks end a batch one after the other: when the power fails, not all logs need have it.  Recovery
 * executes those that all have, so customers have paid what warehouses have received. */
TEST(TideLog, RanksRecoverTheSameBatches)
{
	enum : unsigned { OF = 4, RANK = 2 };
	Options o = on(machines().back(), RANK);
	o.most_instructions = 0;
	o.records = 4;
	o.tasklets = 4;
	tide::Workload w = half_remote();
	const HeapFile file;
	fur::Heap heap = fur::Heap::create(file.path);
	std::deque<tide::CommandLog> logs;
	for (unsigned k = 0; k < OF / RANK; k++) {
		logs.emplace_back(heap.get(), k);
		tide::Whole whole(w, o, OF, k * RANK, 1);
		whole.keep_with(logs[k]);
		for (unsigned batch = 0; batch < 3 - k; batch++)
			whole.run_batch();
	}
	const size_t all = std::min(logs[0].batches(), logs[1].batches());
	EXPECT_EQ(all, 2u);
	tide::Workload::Money sum;
	for (tide::CommandLog &log : logs) {
		tide::Tide rank(o);
		w.load(rank);
		log.replay(rank, all);
		tide::Workload::Money money;
		EXPECT_EQ(w.wrong(rank, &money), "");
		sum.paid += money.paid, sum.received += money.received;
	}
	EXPECT_EQ(sum.paid, sum.received);
	EXPECT_GT(sum.paid, 0u);
}

TEST(TideLog, NeedsAnOrder)
{
	FullLog log;
	Options o = on("threads", 1);
	o.numbering = Numbering::PRINTED;
	tide::Tide system(o);
	EXPECT_THROW(system.keep_with(log), std::runtime_error);
}

/* Few: each tasklet is a thread, and they take turns on the machine's processors. */
TEST(Tide, IsSerialisableOnThreads)
{
	Options o = on("threads", 2);
	o.tasklets = 4;
	for (uint64_t seed = 1; seed <= 3; seed++)
		EXPECT_EQ(violation_of(o, tide::drawn_transactions(seed, 2, 20)), "")
		        << "seed " << seed;
}

/* Schedules of a seed with a violation, by each variant. */
struct Found {
	unsigned violations = 0;
	std::string first;
};

Found violations(Options o, uint64_t seeds)
{
	Found found;
	for (uint64_t seed = 1; seed <= seeds; seed++) {
		const std::string what =
		        violation_of(o, tide::drawn_transactions(seed, o.modules, 40));
		if (what.empty())
			continue;
		if (!found.violations++)
			found.first = "seed " + std::to_string(seed) + ": " + what;
	}
	return found;
}

TEST(Tide, OnlyAsPublishedHasViolations)
{
	if (!emulated)
		GTEST_SKIP() << "no emulated machine, or no compiler for it";
	enum : uint64_t { SEEDS = 25 };
	Options o = on("upmem", 3);
	const Found mended = violations(o, SEEDS);
	EXPECT_EQ(mended.violations, 0u) << mended.first;

	Options commit = o, numbering = o;
	commit.printed_commit = true;
	numbering.numbering = Numbering::PRINTED;
	const Found a = violations(commit, SEEDS), b = violations(numbering, SEEDS);
	EXPECT_GT(a.violations, 0u);
	EXPECT_GT(b.violations, 0u);
	printf("commit as printed: %u of %u, %s\n", a.violations, unsigned(SEEDS), a.first.c_str());
	printf("numbering as published: %u of %u, %s\n", b.violations, unsigned(SEEDS),
	        b.first.c_str());
}

/* A transaction that takes part in the order with one part, for it stands for one with more. */
Transaction ordered(Part part)
{
	Transaction t = of({part});
	t.ordered = true;
	return t;
}

/* INV-TD2.  The last part has loaded the word before T0 stores to it, and stores to it later.  It
 * holds the lock of all that it has read then, so no validation finds that it has read an old
 * value. */
TEST(Tide, AStoreOverANewerWordFails)
{
	if (!emulated)
		GTEST_SKIP() << "no emulated machine, or no compiler for it";
	const Part first = tide::touch(0, 0, 1, 100),
	           last = tide::touch(0, 0, 3, 0, 0, tide::NOTHING, 0, 600);
	const Options o = on("upmem", 1);
	EXPECT_EQ(violation_of(o, {ordered(first), ordered(last)}), "");
	/* It waits for its turn, and takes what it holds for all that it has read. */
	EXPECT_EQ(violation_of(
	                  o, {ordered(first), ordered(tide::touch(0, 1, 2, 2000)), ordered(last)}),
	        "");
}

/* ----------------------------------------------------------------- the flaws, each by itself */

/* What is wrong as published, and that nothing is as mended: of the same transactions. */
void expect_flaw(
        const std::vector<Transaction> &transactions, const Options &published, const char *what)
{
	if (!emulated)
		GTEST_SKIP() << "no emulated machine, or no compiler for it";
	const std::string found = violation_of(published, transactions);
	EXPECT_NE(found.find(what), std::string::npos) << "'" << found << "'";
	printf("as published: %s\n", found.c_str());
	const Options mended = on("upmem", published.modules);
	EXPECT_EQ(violation_of(mended, transactions), "");
}

/* Module 1 shows T1 what T0 has stored; module 0 what was there before, because T1 has read it
 * before T0 stored it, and commits without a look (lines 54 and 55). */
TEST(TideAsPublished, ReadersAreNotValidated)
{
	Options o = on("upmem", 2);
	o.printed_commit = true;
	expect_flaw({of({tide::touch(0, 0, 1, 300), tide::touch(1, 0, 1)}),
	                    of({tide::look(0, 0), tide::look(1, 0, 300)})},
	        o, "T1");
}

/* On module 0, T1 has read what T0 stores later, fails, and gives its turn to T2 all the same
 * (lines 53 to 57), which has read what T1 stores later.  So T2 comes before T1 there, and after
 * it on module 1. */
TEST(TideAsPublished, AFailedValidationMovesTheClock)
{
	Options o = on("upmem", 2);
	o.printed_commit = true;
	expect_flaw({of({tide::touch(0, 0, 1, 300), tide::touch(1, 3, 1)}),
	                    of({tide::touch(0, 1, 2, 0, 0, 0, 100), tide::touch(1, 0, 2)}),
	                    of({tide::touch(0, 2, 3, 0, 0, 1), tide::touch(1, 0, 3, 500)})},
	        o, "T2");
}

/* Module 0 has one local transaction first: D11 gets rank 0 there, and D1 rank 1.  Module 1 has
 * none: the reverse.  No transaction rolls back. */
TEST(TideAsPublished, RanksArePositions)
{
	std::vector<Transaction> all = {of({tide::touch(0, 20, 1)})};
	for (uint32_t k = 1; k <= 11; k++)
		if (k == 1 || k == 11)
			all.push_back(of({tide::touch(0, 0, 1 + k), tide::touch(1, 0, 1 + k)}));
		else
			all.push_back(ordered(tide::touch(0, 20 + k, 1 + k)));
	Options o = on("upmem", 2);
	o.numbering = Numbering::PRINTED;
	expect_flaw(all, o, "T1");
	o.printed_commit = true;
	expect_flaw(all, o, "T1");
}

/* Behind a local transaction the only distributed one gets rank 1, and nothing moves the clock
 * to 1. */
TEST(TideAsPublished, ARankThatNobodyReaches)
{
	Options o = on("upmem", 1);
	o.numbering = Numbering::PRINTED;
	o.printed_commit = true;
	expect_flaw({of({tide::touch(0, 0, 1)}), ordered(tide::touch(0, 1, 2))}, o, "does not end");
}

} // namespace
