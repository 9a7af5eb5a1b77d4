/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cards_test.cpp - secondary indexes: what a lookup finds is what its transaction sees.
 */
#include "../cards.hpp"
#include "../dram_store.hpp"
#include "world.hpp"

#include <gtest/gtest.h>

namespace oltpim_tests
{

namespace
{

constexpr unsigned CARDS = 12;

class Cards : public testing::TestWithParam<std::string>
{
};

NearSetup setup_of_cards(const std::string &machine)
{
	NearSetup s = small_setup(machine);
	s.shifts = shifts_of_cards();
	return s;
}

uint64_t last_of(uint64_t colour)
{
	return colour_entry(colour, (1u << COLOUR_SHIFT) - 1);
}

void finish(World &w, Transaction &t)
{
	while (!t.ended())
		w.serve();
}

/* The card in the colour's index, as the transaction sees it; none: false. */
bool looks_up(World &w, Transaction &t, uint64_t colour, uint64_t card)
{
	t.scan(colour_entry(colour, 0), last_of(colour));
	t.first(colour_entry(colour, card), colour_entry(colour, card));
	t.issue();
	w.serve();
	EXPECT_TRUE(t.ready());
	const bool found = t.count(0) != 0;
	EXPECT_EQ(found, t.found(1));
	if (!found)
		return false;
	EXPECT_EQ(t.value(1), t.found_target(0, 0));
	t.read(t.value(1));
	t.issue();
	w.serve();
	EXPECT_TRUE(t.ready());
	EXPECT_TRUE(t.found(0));
	EXPECT_EQ(t.value(0), colour);
	return true;
}

/* In one transaction: a card gets a colour and its entry, where it had another one or none. */
void paint(World &w, Transaction &t, uint64_t card, uint64_t colour, const uint64_t *old)
{
	if (old)
		t.update(card, colour);
	else
		t.insert(card, colour);
	if (old)
		t.remove(colour_entry(*old, card));
	t.issue();
	w.serve();
	ASSERT_TRUE(t.ready() && !t.failed());
	t.insert(colour_entry(colour, card), t.target(0));
	t.issue();
	w.serve();
	ASSERT_TRUE(t.ready() && !t.failed());
}

/* INV-CN9: those that began before a commit find a card by its old colour alone, and those that
 * begin later by its new one; the writer finds its own. */
TEST_P(Cards, AreFoundAsTheirTransactionSeesThem)
{
	World w(Protocol::MENDED, setup_of_cards(GetParam()));
	w.db.entry_of = colour_entry_of;
	const uint64_t red = 0, blue = 1, card = 5;
	Transaction writer = w.begun(0), before = w.begun(1), after = w.begun(2);
	writer.begin();
	paint(w, writer, card, red, nullptr);
	EXPECT_TRUE(looks_up(w, writer, red, card));
	before.begin();
	EXPECT_FALSE(looks_up(w, before, red, card));
	before.commit();
	writer.commit();
	finish(w, writer);
	finish(w, before);
	before.begin();
	writer.begin();
	paint(w, writer, card, blue, &red);
	EXPECT_FALSE(looks_up(w, writer, red, card));
	EXPECT_TRUE(looks_up(w, writer, blue, card));
	EXPECT_TRUE(looks_up(w, before, red, card));
	writer.commit();
	finish(w, writer);
	after.begin();
	EXPECT_TRUE(looks_up(w, before, red, card));
	EXPECT_FALSE(looks_up(w, before, blue, card));
	EXPECT_FALSE(looks_up(w, after, red, card));
	EXPECT_TRUE(looks_up(w, after, blue, card));
	before.commit();
	after.commit();
	finish(w, before);
	finish(w, after);
	for (const Violation &v : check_histories({&w.history}))
		ADD_FAILURE() << v.text;
}

/* An entry that was written twice has one version, and an abort takes both away. */
TEST_P(Cards, AreWrittenTwice)
{
	World w(Protocol::MENDED, setup_of_cards(GetParam()));
	const uint64_t red = 0;
	for (const bool commits : {false, true}) {
		Transaction t = w.begun(0), reader = w.begun(1);
		t.begin();
		paint(w, t, 3, red, nullptr);
		const uint64_t target = oltpim_target(0, 1);
		t.remove(colour_entry(red, 3));
		t.issue();
		w.serve();
		ASSERT_TRUE(t.ready() && !t.failed());
		EXPECT_FALSE(looks_up(w, t, red, 3));
		t.insert(colour_entry(red, 3), target);
		t.issue();
		w.serve();
		ASSERT_TRUE(t.ready() && !t.failed());
		if (commits)
			t.commit();
		else
			t.abort();
		finish(w, t);
		reader.begin();
		reader.first(colour_entry(red, 0), last_of(red));
		reader.issue();
		w.serve();
		ASSERT_TRUE(reader.ready());
		EXPECT_EQ(reader.value(0), commits ? target : 0);
		reader.commit();
		finish(w, reader);
	}
}

/* Random painters and auditors; the checker compares indexes with rows. */
void run_cards(Database &db, Tuples &tuples, Store &store, uint64_t seed)
{
	History history;
	db.entry_of = colour_entry_of;
	std::vector<std::unique_ptr<Client>> clients;
	std::vector<Client *> running;
	for (unsigned k = 0; k < World::SLOTS; k++) {
		clients.push_back(std::make_unique<CardClient>(
		        db, tuples, 0, k, &history, CARDS, 10, seed * 64 + k));
		running.push_back(clients.back().get());
	}
	run_by_seed(store, running, seed);
	EXPECT_EQ(history.done().size(), World::SLOTS * 10u);
	for (const Violation &v : check_histories({&history}))
		ADD_FAILURE() << "seed " << seed << ": " << v.text;
}

TEST_P(Cards, LookupsFindWhatTransactionsSee)
{
	for (uint64_t seed = 1; seed <= (GetParam() == "threads" ? 2u : 20u); seed++) {
		World w(Protocol::MENDED, setup_of_cards(GetParam()));
		run_cards(w.db, w.tuples, w.store, seed);
	}
}

INSTANTIATE_TEST_SUITE_P(
        On, Cards, testing::ValuesIn(machines()), [](const auto &p) { return p.param; });

TEST(MosaicCards, LookupsFindWhatTransactionsSee)
{
	for (uint64_t seed = 1; seed <= 50; seed++) {
		Numbers numbers(Protocol::MENDED, 1, World::SLOTS);
		DramStore store({.workers = 1, .partitions = 2, .shifts = shifts_of_cards()},
		        numbers, [](const void *, unsigned) {});
		Database db{store, numbers, {1}, {1}};
		Tuples tuples(0);
		run_cards(db, tuples, store, seed);
	}
}

/* The same with workers that run at once */
void run_cards_on_threads(Store &store, Numbers &numbers, unsigned transactions)
{
	Database db{store, numbers, {1}, {1}, colour_entry_of};
	run_on_threads(
	        store, [&](Tuples &tuples, unsigned worker, unsigned slot, History *history) {
		        return std::make_unique<CardClient>(
		                db, tuples, worker, slot, history, CARDS, transactions, slot + 1);
	        });
}

TEST(OltpimThreads, LookupsFindWhatTransactionsSee)
{
	Numbers numbers(Protocol::MENDED, WORKERS, CLIENTS);
	NearStore store(setup_of_cards("threads"), numbers);
	run_cards_on_threads(store, numbers, 20);
}

TEST(MosaicThreads, LookupsFindWhatTransactionsSee)
{
	Numbers numbers(Protocol::MENDED, WORKERS, CLIENTS);
	DramStore store({.workers = WORKERS, .partitions = 4, .shifts = shifts_of_cards()}, numbers,
	        [](const void *, unsigned) {});
	run_cards_on_threads(store, numbers, 500);
}

/* ------------------------------------------------------------------- the checker */

Done done(uint64_t transaction, std::vector<Read> reads, std::vector<Write> writes)
{
	Done d;
	d.transaction = transaction;
	d.began = 10 * transaction, d.returned = d.began + 5;
	d.reads = std::move(reads), d.writes = std::move(writes);
	return d;
}

std::vector<Flaw> flaws_of(Done &&reader)
{
	History h;
	h.add(done(1, {}, {{7, NO_WRITER}}));
	h.add(std::move(reader));
	std::vector<Flaw> flaws;
	for (const Violation &v : check_histories({&h}))
		flaws.push_back(v.flaw);
	return flaws;
}

TEST(CardsChecker, ComparesLookupsWithRows)
{
	const uint64_t entry = colour_entry(1, 7);
	const Lookup whole{colour_entry(1, 0), last_of(1), 16, {99}};
	Done right = done(2, {{7, 1, entry}}, {});
	right.lookups = {whole};
	right.rows = {{99, 7}};
	EXPECT_EQ(flaws_of(Done(right)), std::vector<Flaw>{});
	Done missed = right;
	missed.lookups[0].targets.clear();
	EXPECT_EQ(flaws_of(std::move(missed)), std::vector<Flaw>{Flaw::UNINDEXED});
	Done full = right;
	full.lookups[0] = {colour_entry(1, 0), last_of(1), 1, {98}};
	full.rows = {{98, 6}};
	EXPECT_EQ(flaws_of(std::move(full)), std::vector<Flaw>{});
	Done twice = right;
	twice.lookups[0].targets = {99, 99};
	EXPECT_EQ(flaws_of(std::move(twice)), std::vector<Flaw>{Flaw::ASTRAY});
	Done elsewhere = right;
	elsewhere.reads[0].entry = colour_entry(2, 7);
	EXPECT_EQ(flaws_of(std::move(elsewhere)), std::vector<Flaw>{Flaw::ASTRAY});
	Done gone = right;
	gone.reads.clear();
	gone.rows = {{99, NO_KEY}};
	EXPECT_EQ(flaws_of(std::move(gone)), std::vector<Flaw>{Flaw::ASTRAY});
}

} // namespace

} // namespace oltpim_tests
