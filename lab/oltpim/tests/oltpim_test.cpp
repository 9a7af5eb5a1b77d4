/* SPDX-License-Identifier: BSD-3-Clause
 *
 * oltpim_test.cpp - transactions on modules: what the mended protocol guarantees, and what the
 * published one breaks on the same schedules.
 */
#include "../dram_store.hpp"
#include "world.hpp"

#include <gtest/gtest.h>

#include <iostream>

namespace oltpim_tests
{

namespace
{

class Oltpim : public testing::TestWithParam<std::string>
{
};

/* Two keys in different ranks, the first one in rank 0. */
std::pair<uint64_t, uint64_t> keys_apart(const World &w)
{
	uint64_t first = 0, second = 0;
	while (w.part_of(first) != 0)
		first++;
	while (w.part_of(second) != 1)
		second++;
	return {first, second};
}

void print(const World &w)
{
	for (const Violation &v : check_histories({&w.history}))
		std::cout << v.text << '\n';
}

/* To its end, which nothing else prevents. */
void finish(World &w, Transaction &t)
{
	while (!t.ended())
		w.serve();
}

/* A reader begins, and reads rank 0 before a writer to both ranks commits, and rank 1 after. */
size_t violations_of_a_reader_beside_a_commit(Protocol protocol, const std::string &machine)
{
	World w(protocol, small_setup(machine));
	load_keys(w.db, w.tuples, 0, 16, 100);
	const auto [x, y] = keys_apart(w);
	Transaction writer = w.begun(0), reader = w.begun(1);
	writer.begin();
	writer.update(x, 90);
	writer.update(y, 110);
	writer.issue();
	w.serve();
	EXPECT_TRUE(writer.ready() && !writer.failed());
	reader.begin();
	reader.get(x);
	reader.issue();
	w.serve();
	EXPECT_TRUE(reader.ready());
	const uint64_t sum = reader.value(0);
	writer.commit();
	EXPECT_FALSE(writer.ended()); /* its requests are issued, and not served */
	finish(w, writer);
	reader.get(y);
	reader.issue();
	w.serve();
	EXPECT_TRUE(reader.ready());
	EXPECT_EQ(sum + reader.value(0), protocol == Protocol::MENDED ? 200u : 210u);
	reader.commit();
	finish(w, reader);
	print(w);
	EXPECT_EQ(w.flaws()[static_cast<size_t>(Flaw::FRACTURED)],
	        check_histories({&w.history}).size());
	return check_histories({&w.history}).size();
}

/* A transaction reads an account; another one stores it and commits; the first one stores what it
 * has computed. */
std::pair<bool, unsigned> update_after_a_commit(Protocol protocol, const std::string &machine)
{
	World w(protocol, small_setup(machine));
	load_keys(w.db, w.tuples, 0, 4, 100);
	Transaction slow = w.begun(0), fast = w.begun(1);
	slow.begin();
	slow.get(1);
	slow.issue();
	w.serve();
	EXPECT_TRUE(slow.ready());
	const uint64_t read = slow.value(0);
	fast.begin();
	fast.update(1, 150);
	fast.issue();
	w.serve();
	EXPECT_TRUE(fast.ready() && !fast.failed());
	fast.commit();
	finish(w, fast);
	slow.update(1, read + 1);
	slow.issue();
	w.serve();
	EXPECT_TRUE(slow.ready());
	const bool conflict = slow.failed();
	if (conflict)
		slow.abort();
	else
		slow.commit();
	finish(w, slow);
	print(w);
	return {conflict, w.flaws()[static_cast<size_t>(Flaw::LOST)]};
}

using Counts = std::array<unsigned, static_cast<size_t>(Flaw::FLAWS)>;

/* Add what the checker finds in a run of the bank of this seed. */
void run_bank(Protocol protocol, const std::string &machine, uint64_t seed, Counts &found)
{
	constexpr uint64_t ACCOUNTS = 12, EACH = 100;
	World w(protocol, small_setup(machine));
	load_keys(w.db, w.tuples, 0, ACCOUNTS, EACH);
	std::vector<std::unique_ptr<Client>> clients;
	std::vector<Client *> running;
	for (unsigned k = 0; k < World::SLOTS; k++) {
		clients.push_back(std::make_unique<BankClient>(
		        w.db, w.tuples, 0, k, &w.history, ACCOUNTS, 12, seed * 64 + k));
		running.push_back(clients.back().get());
	}
	run_by_seed(w.store, running, seed);
	ASSERT_EQ(w.history.done().size(), World::SLOTS * 12u);
	const Counts n = w.flaws();
	for (size_t k = 0; k < n.size(); k++)
		found[k] += n[k];
	if (protocol != Protocol::MENDED)
		return;
	uint64_t sum = 0;
	Transaction audit = w.begun(0);
	audit.begin();
	for (uint64_t key = 0; key < ACCOUNTS; key++)
		audit.get(key);
	audit.issue();
	w.serve();
	ASSERT_TRUE(audit.ready());
	for (unsigned k = 0; k < ACCOUNTS; k++)
		sum += audit.value(k);
	EXPECT_EQ(sum, ACCOUNTS * EACH);
}

unsigned of(const Counts &found, Flaw flaw)
{
	return found[static_cast<size_t>(flaw)];
}

TEST_P(Oltpim, ReaderSeesAllOfACommitOrNothing)
{
	EXPECT_GT(violations_of_a_reader_beside_a_commit(Protocol::PUBLISHED, GetParam()), 0u);
	EXPECT_EQ(violations_of_a_reader_beside_a_commit(Protocol::MENDED, GetParam()), 0u);
}

TEST_P(Oltpim, UpdateIsNotLost)
{
	EXPECT_EQ(update_after_a_commit(Protocol::PUBLISHED, GetParam()), std::pair(false, 1u));
	EXPECT_EQ(update_after_a_commit(Protocol::MENDED, GetParam()), std::pair(true, 0u));
}

/* The same seeds for each: the published protocol fractures reads and loses updates, one that
 * begins below the counter fractures reads, and the mended one does neither. */
TEST_P(Oltpim, SchedulesThatBreakThePublishedProtocolDoNotBreakTheMendedOne)
{
	Counts published = {}, strict = {}, mended = {};
	/* A launch on threads starts a thread for each tasklet.  The system orders those, not the
	 * seed: what a protocol breaks there differs from run to run. */
	const bool by_seed = GetParam() != "threads";
	const uint64_t seeds = by_seed ? 30 : 6;
	for (uint64_t seed = 1; seed <= seeds; seed++)
		run_bank(Protocol::MENDED, GetParam(), seed, mended);
	EXPECT_EQ(mended, Counts{});
	if (!by_seed)
		return;
	for (uint64_t seed = 1; seed <= seeds; seed++) {
		run_bank(Protocol::PUBLISHED, GetParam(), seed, published);
		run_bank(Protocol::STRICT, GetParam(), seed, strict);
	}
	EXPECT_GT(of(published, Flaw::FRACTURED), 0u);
	EXPECT_GT(of(published, Flaw::UNREPEATED), 0u);
	EXPECT_GT(of(published, Flaw::LOST), 0u);
	EXPECT_GT(of(strict, Flaw::FRACTURED), 0u);
}

/* A later number is finalised first: it is not settled before the earlier one, so its writer does
 * not return, and a reader that begins sees neither. */
TEST_P(Oltpim, SettlesInOrder)
{
	World w(Protocol::MENDED, small_setup(GetParam()));
	load_keys(w.db, w.tuples, 0, 16, 100);
	const auto [x, y] = keys_apart(w);
	Transaction first = w.begun(0), second = w.begun(1), reader = w.begun(2);
	first.begin();
	first.update(x, 90);
	first.update(y, 110);
	first.issue();
	second.begin();
	second.update(15, 7);
	second.issue();
	w.serve();
	ASSERT_TRUE(first.ready() && !first.failed() && second.ready() && !second.failed());
	first.commit();
	second.commit();
	EXPECT_FALSE(second.ended()); /* its requests are issued */
	w.serve();
	EXPECT_FALSE(second.ended()); /* its versions are finalised, and not the first one's */
	reader.begin();
	reader.get(x);
	reader.get(15);
	reader.issue();
	w.serve();
	ASSERT_TRUE(reader.ready());
	EXPECT_EQ(reader.value(0), 100u);
	EXPECT_EQ(reader.value(1), 100u);
	finish(w, first);
	EXPECT_TRUE(second.ended());
	reader.get(y);
	reader.issue();
	w.serve();
	ASSERT_TRUE(reader.ready());
	EXPECT_EQ(reader.value(0), 100u);
	reader.commit();
	finish(w, reader);
	EXPECT_EQ(w.flaws(), Counts{});
}

TEST_P(Oltpim, SecondWriterAborts)
{
	World w(Protocol::MENDED, small_setup(GetParam()));
	load_keys(w.db, w.tuples, 0, 4, 1);
	Transaction first = w.begun(0), second = w.begun(1);
	first.begin();
	second.begin();
	first.update(2, 5);
	first.issue();
	w.serve();
	ASSERT_TRUE(first.ready() && !first.failed());
	second.update(2, 6);
	second.issue();
	w.serve();
	ASSERT_TRUE(second.ready());
	EXPECT_EQ(second.status(0), OLTPIM_CONFLICT);
	second.abort();
	finish(w, second);
	first.commit();
	finish(w, first);
	second.begin();
	second.get(2);
	second.issue();
	w.serve();
	ASSERT_TRUE(second.ready());
	EXPECT_EQ(second.value(0), 5u);
}

/* An abort leaves the old version, and an insert that was aborted leaves nothing. */
TEST_P(Oltpim, AbortUndoes)
{
	World w(Protocol::MENDED, small_setup(GetParam()));
	load_keys(w.db, w.tuples, 0, 4, 1);
	Transaction t = w.begun(0);
	t.begin();
	t.update(0, 9);
	t.remove(1);
	t.insert(100, 9);
	t.issue();
	w.serve();
	ASSERT_TRUE(t.ready() && !t.failed());
	t.abort();
	finish(w, t);
	t.begin();
	t.get(0);
	t.get(1);
	t.get(100);
	t.issue();
	w.serve();
	ASSERT_TRUE(t.ready());
	EXPECT_EQ(t.value(0), 1u);
	EXPECT_TRUE(t.found(1));
	EXPECT_FALSE(t.found(2));
	t.insert(100, 7);
	t.issue();
	w.serve();
	ASSERT_TRUE(t.ready());
	EXPECT_EQ(t.status(0), OLTPIM_DONE);
	t.commit();
	finish(w, t);
}

/* A chain of versions stays as short as the oldest transaction lets it be. */
TEST_P(Oltpim, CollectsVersions)
{
	World w(Protocol::MENDED, small_setup(GetParam()));
	load_keys(w.db, w.tuples, 0, 4, 1);
	Transaction writer = w.begun(0), reader = w.begun(1);
	/* The module has 512 versions. */
	for (uint64_t k = 1; k <= 600; k++) {
		if (k == 300) {
			reader.begin();
		} else if (k == 400) {
			reader.get(3);
			reader.issue();
			w.serve();
			ASSERT_TRUE(reader.ready());
			EXPECT_EQ(reader.value(0), 299u);
			reader.commit();
			finish(w, reader);
		}
		writer.begin();
		writer.update(3, k);
		writer.issue();
		w.serve();
		ASSERT_TRUE(writer.ready() && !writer.failed());
		writer.commit();
		finish(w, writer);
	}
	EXPECT_EQ(w.flaws(), Counts{});
}

/* A row is made and removed again and again, some of the times by a transaction that aborts: its
 * versions and tuples stay about as few as after the first times.  A module has room for 512
 * versions. */
void make_and_remove(Database &db, Tuples &tuples, const std::function<void()> &serve)
{
	Transaction t(db, tuples, 0, 0, nullptr);
	const auto write = [&](bool makes, bool commits) {
		t.begin();
		makes ? t.insert(3, 7) : t.remove(3);
		t.issue();
		serve();
		ASSERT_TRUE(t.ready() && !t.failed());
		commits ? t.commit() : t.abort();
		while (!t.ended())
			serve();
	};
	size_t few = 0;
	for (unsigned k = 0; k < 600; k++) {
		if (k % 5 == 0)
			write(true, false);
		write(true, true);
		if (k % 7 == 0)
			write(false, false);
		write(false, true);
		if (k == 100)
			few = tuples.size();
	}
	/* A store may look for the oldest transaction now and then only. */
	EXPECT_LT(tuples.size(), few + 50);
}

TEST_P(Oltpim, RowsThatComeAndGoTakeNoMoreMemory)
{
	World w(Protocol::MENDED, small_setup(GetParam()));
	make_and_remove(w.db, w.tuples, [&] { w.serve(); });
}

TEST(Mosaic, RowsThatComeAndGoTakeNoMoreMemory)
{
	Numbers numbers(Protocol::MENDED, 1, World::SLOTS);
	DramStore store({.workers = 1, .partitions = 2}, numbers, [](const void *, unsigned) {});
	Database db{store, numbers, {1}, {1}};
	Tuples tuples(0);
	make_and_remove(db, tuples, [&] {
		while (store.help(0)) {
		}
	});
}

/* Records that were loaded as an image are those that inserts make, and trees grow from there. */
TEST_P(Oltpim, LoadsAnImage)
{
	World w(Protocol::MENDED, small_setup(GetParam()));
	constexpr uint64_t RECORDS = 600;
	std::vector<Record> records;
	for (uint64_t key = 0; key < RECORDS; key++)
		records.push_back(
		        {2 * key, reinterpret_cast<uint64_t>(w.tuples.make(2 * key, 0, key + 1))});
	w.store.load(records);
	Transaction t = w.begun(0);
	t.begin();
	for (uint64_t key = 1; key < 160; key += 4)
		t.insert(key, 7);
	t.issue();
	w.serve();
	ASSERT_TRUE(t.ready() && !t.failed());
	for (uint64_t from = 0; from < 2 * RECORDS; from += 40) {
		for (uint64_t key = from; key < from + 40; key++)
			t.get(key);
		t.issue();
		w.serve();
		ASSERT_TRUE(t.ready());
		for (uint64_t key = from; key < from + 40; key++) {
			const bool own = key < 160 && key % 4 == 1;
			const uint64_t value = key % 2 ? (own ? 7 : 0) : key / 2 + 1;
			EXPECT_EQ(t.value(static_cast<unsigned>(key - from)), value) << key;
		}
	}
	t.update(600, 1);
	t.issue();
	w.serve();
	ASSERT_TRUE(t.ready() && !t.failed());
	t.commit();
	finish(w, t);
}

TEST_P(Oltpim, FullModuleIsReported)
{
	World w(Protocol::MENDED, small_setup(GetParam()));
	try {
		load_keys(w.db, w.tuples, 0, 2000, 1);
		FAIL() << "2,000 records fit modules of 256 objects";
	} catch (const std::runtime_error &e) {
		EXPECT_STREQ(e.what(), "the records do not fit the modules: raise --room, or use "
		                       "more modules");
	}
}

INSTANTIATE_TEST_SUITE_P(
        On, Oltpim, testing::ValuesIn(machines()), [](const auto &p) { return p.param; });

/* ------------------------------------------------------- workers at once */

/* The bank, by workers that run at once */
void run_bank_on_threads(Store &store, Numbers &numbers, unsigned transactions)
{
	Database db{store, numbers, {1}, {1}};
	Tuples loaded(0);
	load_keys(db, loaded, 0, 12, 100);
	run_on_threads(
	        store, [&](Tuples &tuples, unsigned worker, unsigned slot, History *history) {
		        return std::make_unique<BankClient>(
		                db, tuples, worker, slot, history, 12, transactions, slot + 1);
	        });
}

/* Modules also run on threads of their own. */
TEST(OltpimThreads, TransactionsAreIsolated)
{
	Numbers numbers(Protocol::MENDED, WORKERS, CLIENTS);
	NearStore store(small_setup("threads"), numbers);
	run_bank_on_threads(store, numbers, 40);
}

TEST(MosaicThreads, TransactionsAreIsolated)
{
	Numbers numbers(Protocol::MENDED, WORKERS, CLIENTS);
	DramStore store(
	        {.workers = WORKERS, .partitions = 4}, numbers, [](const void *, unsigned) {});
	run_bank_on_threads(store, numbers, 2000);
}

TEST(Mosaic, SchedulesBreakNothing)
{
	for (uint64_t seed = 1; seed <= 50; seed++) {
		Numbers numbers(Protocol::MENDED, 1, World::SLOTS);
		DramStore store(
		        {.workers = 1, .partitions = 2}, numbers, [](const void *, unsigned) {});
		Database db{store, numbers, {1}, {1}};
		Tuples tuples(0);
		History history;
		load_keys(db, tuples, 0, 12, 100);
		std::vector<std::unique_ptr<Client>> clients;
		std::vector<Client *> running;
		for (unsigned k = 0; k < World::SLOTS; k++) {
			clients.push_back(std::make_unique<BankClient>(
			        db, tuples, 0, k, &history, 12, 12, seed * 64 + k));
			running.push_back(clients.back().get());
		}
		run_by_seed(store, running, seed);
		for (const Violation &v : check_histories({&history}))
			ADD_FAILURE() << "seed " << seed << ": " << v.text;
	}
}

} // namespace

} // namespace oltpim_tests
