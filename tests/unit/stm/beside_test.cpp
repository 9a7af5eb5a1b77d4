/* SPDX-License-Identifier: BSD-3-Clause
 *
 * beside_test.cpp - updates that publish beside each other: stamps that are held, who is let in,
 * and sweeps.  A test steps the threads by stopping updates at their draw: in the middle of their
 * publication, after they have compared what they have loaded.  They hold their stamps there, and
 * have stored nothing.
 */
#include "software.hpp"

#include <sys/mman.h>

/* The linker puts this function in the place of ring_draw() (--wrap, meson.build). */
static std::atomic<uint32_t> stopped_threads, threads_there; /* bits, by index */
extern "C" {
void __real_ring_draw(durability *d, commit *c);
void __wrap_ring_draw(durability *d, commit *c);
}
void __wrap_ring_draw(durability *d, commit *c)
{
	const uint32_t me = 1U << c->me;
	if (stopped_threads & me) {
		threads_there |= me;
		while (stopped_threads & me)
			usleep(100);
		threads_there &= ~me;
	}
	__real_ring_draw(d, c);
}

namespace
{

/* Until the condition holds. */
template <class Condition>
void until(Condition condition)
{
	while (!condition())
		usleep(100);
}

/* Long enough for a thread that does not wait to finish. */
void a_while()
{
	usleep(20000);
}

class Beside : public Software
{
protected:
	explicit Beside(const fur_options &o = software_options())
	    : Software(o), second_(heap_.get()), idle_(heap_.get()), e_(heap_.get()->engine),
	      d_(heap_.get()->durability)
	{
		other_.run([this](fur_thread *t) { other_index_ = t->index; });
		second_.run([this](fur_thread *t) { second_index_ = t->index; });
		idle_.run([this](fur_thread *t) { idle_index_ = t->index; });
	}

	/* The thread's next update stops before it draws its durTS. */
	static void stop(uint32_t thread)
	{
		stopped_threads |= 1U << thread;
	}
	static void go_on(uint32_t thread)
	{
		stopped_threads &= ~(1U << thread);
	}
	static void await_stopped(uint32_t thread)
	{
		until([=] { return threads_there & 1U << thread; });
	}
	enum shut shut() const
	{
		return shut_now(&e_);
	}
	uint64_t load_stamp(const uint64_t *word) const
	{
		return arch_load_acquire(stamp_of(&e_, word));
	}
	/* As if the idle thread held the word's stamp.  Returns the stamp as it was. */
	uint64_t hold(const uint64_t *word)
	{
		const uint64_t before = load_stamp(word);
		EXPECT_FALSE(stamp_is_held(before));
		arch_store_release(stamp_of(&e_, word), stamp_held_by(idle_index_, 0));
		return before;
	}
	void free_as(const uint64_t *word, uint64_t version)
	{
		arch_store_release(stamp_of(&e_, word), version);
	}
	bool publishes(uint32_t thread) const
	{
		return arch_load_acquire(&e_.active[thread].publishing);
	}
	/* The helper adds 1 to the word, in an update that may be defeated.  Its body ends when
	 * `bodies` bodies have begun: a body begins only when no update is about to draw. */
	void add(Helper &helper, uint64_t *word, int bodies = 1)
	{
		helper.start([=, this](fur_thread *t) {
			prefer_in_place(t, false);
			fur::update(t, fur::rerun, [&](fur_update *tx) {
				begun_++;
				fur_store(tx, word, fur_load(tx, word) + 1);
				until([&] { return begun_ >= bodies; });
			});
		});
	}

	Helper second_, idle_;
	engine &e_;
	durability &d_;
	std::atomic<int> begun_{0};
	uint32_t other_index_ = 0, second_index_ = 0, idle_index_ = 0;
};

/* ------------------------------------------------------------------ let in */

TEST_F(Beside, TwoUpdates_PublishAtOnce)
{
	let_updates_in();
	stop(other_index_);
	stop(second_index_);
	add(other_, word(0), 2);
	add(second_, word(1), 2);
	await_stopped(other_index_);
	await_stopped(second_index_);
	EXPECT_TRUE(publishes(other_index_) && publishes(second_index_));
	EXPECT_EQ(arch_load(&e_.lock.taken), uint64_t(TURN_FREE));
	EXPECT_TRUE(stamp_is_mine(load_stamp(word(0)), other_index_));
	EXPECT_TRUE(stamp_is_mine(load_stamp(word(1)), second_index_));
	EXPECT_EQ(*word(0) | *word(1), 0u) << "neither stores before it has drawn";
	go_on(second_index_);
	/* It publishes, although the other does not; but it may return later. */
	until([&] { return !publishes(second_index_); });
	EXPECT_EQ(arch_load(word(1)), 1u);
	EXPECT_EQ(arch_load(word(0)), 0u);
	go_on(other_index_);
	other_.finish();
	second_.finish();
	EXPECT_EQ(*word(0), 1u);
	EXPECT_EQ(shut(), UPDATES_IN);
	EXPECT_EQ(heap_.stats().defeats, 0u);
	expect_sound();
}

TEST_F(Beside, WhoShutsUpdatesOut_WaitsForThoseThatPublish)
{
	let_updates_in();
	stop(other_index_);
	add(other_, word(0));
	await_stopped(other_index_);
	std::atomic<uint64_t> seen{99};
	second_.start([&](fur_thread *t) {
		turn_take(&e_);
		(void)readers_shut_out(&e_, t->index).met;
		seen = arch_load(word(0));
		readers_let_in(&e_);
		turn_give(&e_);
	});
	until([&] { return shut() == ALL_OUT; });
	a_while();
	EXPECT_EQ(seen, 99u) << "the update has not stored yet";
	go_on(other_index_);
	second_.finish();
	EXPECT_EQ(seen, 1u);
	other_.finish();
	EXPECT_EQ(shut(), READERS_IN);
	expect_sound();
}

TEST_F(Beside, PlainReader_ClaimsTheHeap)
{
	let_updates_in();
	EXPECT_FALSE(readers_come_first(&e_));
	EXPECT_EQ(other_gets(word(0)), 0u);
	EXPECT_EQ(shut(), READERS_IN);
	EXPECT_NE(e_.lock.claimed, 0u);
	EXPECT_EQ(arch_load(&e_.lock.taken), uint64_t(TURN_FREE));
	expect_sound();
}

TEST_F(Beside, PlainReader_ThatClaimsTheHeap_WaitsForUpdatesThatPublish)
{
	let_updates_in();
	stop(other_index_);
	add(other_, word(0));
	await_stopped(other_index_);
	std::atomic<uint64_t> seen{99};
	second_.start([&](fur_thread *t) { seen = get(t, word(0)); });
	until([&] { return shut() == ALL_OUT; });
	a_while();
	EXPECT_EQ(seen, 99u);
	go_on(other_index_);
	second_.finish();
	EXPECT_EQ(seen, 1u) << "it comes after the update";
	other_.finish();
	EXPECT_EQ(shut(), READERS_IN);
	expect_sound();
}

/* They claim the heap again and again: then updates are let in only briefly. */
TEST_F(Beside, PlainReaders_ThatClaimOften_ComeFirst)
{
	EXPECT_FALSE(readers_come_first(&e_));
	e_.lock.claimed = 0;
	let_updates_in();
	EXPECT_EQ(other_gets(word(0)), 0u);
	EXPECT_FALSE(readers_come_first(&e_)) << "once is not often";
	e_.lock.claimed = arch_ticks() + arch_ns_to_ticks(UINT64_C(3600) * 1000000000);
	let_updates_in();
	EXPECT_EQ(other_gets(word(0)), 0u);
	EXPECT_EQ(shut(), READERS_IN);
	EXPECT_NE(e_.lock.readers_until, 0u);
	expect_sound();
}

TEST_F(Beside, WaitForTheTurn_EndsWhenUpdatesAreLetIn)
{
	const uint32_t spins = d_.spins;
	arch_store32(&d_.spins, UINT32_MAX); /* it stays awake: the turn is not given */
	std::atomic<int> got{-1};
	turn_take(&e_);
	(void)readers_shut_out(&e_, self_.get()->index).met;
	other_.start([&](fur_thread *) { got = turn_take_unless(&e_, UPDATES_IN); });
	until([&] { return arch_load(&e_.lock.waiters) == 1; });
	EXPECT_EQ(got, -1);
	updates_let_in(&e_);
	other_.finish();
	EXPECT_EQ(got, 0);
	EXPECT_EQ(arch_load(&e_.lock.waiters), 0u);
	EXPECT_NE(arch_load(&e_.lock.taken), uint64_t(TURN_FREE)) << "it is ours";
	turn_give(&e_);
	arch_store32(&d_.spins, spins);
	expect_sound();
}

/* Readers are not what it waits for: it gets the turn. */
TEST_F(Beside, WaitForTheTurn_GoesOnWhenReadersAreLetIn)
{
	std::atomic<int> got{-1};
	turn_take(&e_);
	(void)readers_shut_out(&e_, self_.get()->index).met;
	other_.start([&](fur_thread *) {
		got = turn_take_unless(&e_, UPDATES_IN);
		turn_give(&e_);
	});
	until([&] { return arch_load(&e_.lock.waiters) == 1; });
	readers_let_in(&e_);
	a_while();
	EXPECT_EQ(got, -1);
	turn_give(&e_);
	other_.finish();
	EXPECT_EQ(got, 1);
	EXPECT_EQ(arch_load(&e_.lock.taken), uint64_t(TURN_FREE));
	expect_sound();
}

/* The thread looks at `shut` while another has the turn: it never gets that. */
TEST_F(Beside, WaitForTheTurn_GivesUpWhileTheTurnIsTaken)
{
	let_updates_in();
	turn_take(&e_);
	std::atomic<int> got{-1};
	other_.run([&](fur_thread *) { got = turn_take_unless(&e_, UPDATES_IN); });
	EXPECT_EQ(got, 0);
	EXPECT_EQ(arch_load(&e_.lock.waiters), 0u);
	turn_give(&e_);
	expect_sound();
}

/* The set of the thread's concurrent update is not its own. */
TEST_F(Beside, SerialUpdate_AfterAConcurrentOne_WaitsForWhatItMayHaveReadFrom)
{
	auto store = [this](fur_thread *t, tx_mode mode) {
		update_in(
		        mode, [&](fur_update *tx) { fur_store(tx, word(0), UINT64_C(1)); }, t);
	};
	other_.run([=](fur_thread *t) { store(t, TX_CONCURRENT); });
	/* As if an update of the idle thread were visible, and not durable. */
	nondurable_entry &u = d_.nondurable[idle_index_];
	arch_store(&u.durts, ring_next(&d_) - 1);
	arch_store_release(&u.id, 1);
	other_.start([=](fur_thread *t) { store(t, TX_SERIAL); });
	a_while();
	EXPECT_TRUE(other_.busy());
	arch_store_release(&u.durts, 0);
	arch_store_release(&u.id, 0);
	other_.finish();
	expect_sound();
}

TEST_F(Beside, SerialUpdate_LetsNobodyPublish)
{
	let_updates_in();
	fur_update *tx;
	ASSERT_EQ(fur_begin_update(self_, &tx), 0);
	EXPECT_EQ(tx->mode, TX_SERIAL);
	EXPECT_EQ(shut(), READERS_IN);
	EXPECT_EQ(fur_load(tx, word(0)), 0u);
	add(other_, word(0));
	until([&] { return arch_load(&e_.lock.waiters) == 1; });
	a_while();
	EXPECT_EQ(*word(0), 0u);
	fur_store(tx, word(1), fur_load(tx, word(0)) + 7);
	EXPECT_EQ(fur_commit(tx, nullptr), 0);
	other_.finish();
	EXPECT_EQ(*word(0), 1u);
	EXPECT_EQ(*word(1), 7u);
	expect_sound();
}

/* ------------------------------------------------------------------ stamps */

TEST_F(Beside, Body_WaitsForAStampThatIsHeld)
{
	const uint64_t before = hold(word(0));
	std::atomic<uint64_t> seen{99};
	std::atomic<int> runs{0};
	other_.start([&](fur_thread *t) {
		fur::update(t, fur::rerun, [&](fur_update *tx) {
			runs++;
			EXPECT_EQ(fur_load(tx, word(1)), 0u);
			seen = fur_load(tx, word(0));
		});
	});
	until([&] { return runs == 1; });
	a_while();
	EXPECT_EQ(seen, 99u);
	arch_store(word(0), uint64_t(5));
	free_as(word(0), before);
	other_.finish();
	EXPECT_EQ(seen, 5u) << "the load comes after the store";
	EXPECT_EQ(runs, 1);
	arch_store(word(0), uint64_t(0));
	expect_sound();
}

TEST_F(Beside, UpdateThatFindsAStampHeldForLong_IsDefeated_AndHoldsNothing)
{
	for (bool updates_in : {false, true}) {
		int runs = 0;
		const uint64_t defeats = heap_.stats().defeats, drawn = ring_next(&d_);
		if (updates_in)
			let_updates_in();
		const uint64_t before[] = {load_stamp(word(0)), hold(word(1))};
		EXPECT_EQ(run_in_c(self_.get(),
		                  [&](fur_update *tx) {
			                  if (++runs == 3) {
				                  EXPECT_FALSE(tx->thread->software.holds);
				                  EXPECT_EQ(load_stamp(word(0)), before[0]);
				                  EXPECT_EQ(ring_next(&d_), drawn);
				                  free_as(word(1), before[1]);
			                  }
			                  fur_store(tx, word(0), uint64_t(3));
			                  fur_store(tx, word(1), uint64_t(4));
		                  }),
		        0);
		EXPECT_EQ(runs, 3);
		EXPECT_EQ(heap_.stats().defeats, defeats + 2);
		EXPECT_EQ(*word(0) + *word(1), 7u);
		EXPECT_EQ(load_stamp(word(0)), drawn) << "the durTS is the stamp's version";
		EXPECT_EQ(load_stamp(word(1)), drawn);
		expect_sound();
	}
}

class Stamps : public Beside
{
protected:
	/* A write set of these words, none of which is stored to. */
	void write(std::initializer_list<uint64_t *> words)
	{
		write_clear(&set());
		for (uint64_t *w : words)
			ASSERT_TRUE(write_put(&set(), w, 1, UINT64_MAX));
	}
	write_set &set()
	{
		return self_.get()->software.writes;
	}
	/* An address whose stamp is that of `word`, 2^26 bytes further or so: not in the heap. */
	static uint64_t *same_stamp(uint64_t *word)
	{
		const uint64_t line = reinterpret_cast<uintptr_t>(word) >> FUR_STAMP_LINE_SHIFT,
		               high = line >> FUR_STAMPS_LOG,
		               low = (line ^ high ^ (high + 1)) & (STAMPS - 1);
		return reinterpret_cast<uint64_t *>(
		        ((high + 1) << FUR_STAMPS_LOG | low) << FUR_STAMP_LINE_SHIFT);
	}
};

TEST_F(Stamps, OfWordsOnOneLine_AreHeldOnce)
{
	write({word(0), word(0) + 1, word(1), word(0) + 7});
	const uint64_t versions[] = {10, 11};
	free_as(word(0), versions[0]);
	free_as(word(1), versions[1]);
	for (uint64_t version : {uint64_t(0), uint64_t(20)}) {
		ASSERT_EQ(stamps_hold(self_), STAMPS_HELD);
		EXPECT_TRUE(self_.get()->software.holds);
		EXPECT_TRUE(stamp_is_mine(load_stamp(word(0)), self_.get()->index));
		EXPECT_TRUE(stamp_is_mine(load_stamp(word(1)), self_.get()->index));
		EXPECT_FALSE(stamp_is_mine(load_stamp(word(1)), self_.get()->index + 1));
		EXPECT_EQ(set().words[0].version, versions[0]);
		EXPECT_EQ(set().words[1].version, WRITTEN_ANOTHER_HOLDS);
		EXPECT_EQ(set().words[2].version, versions[1]);
		EXPECT_EQ(set().words[3].version, WRITTEN_ANOTHER_HOLDS);
		/* The version of a stamp that the asking thread holds is the one before. */
		EXPECT_EQ(stamp_version(self_, load_stamp(word(0) + 7)), versions[0]);
		EXPECT_EQ(stamp_version(self_, load_stamp(word(1))), versions[1]);
		stamps_free(self_, version);
		EXPECT_FALSE(self_.get()->software.holds);
		EXPECT_EQ(load_stamp(word(0)), version ? version : versions[0]);
		EXPECT_EQ(load_stamp(word(1)), version ? version : versions[1]);
	}
	EXPECT_EQ(stamps_held(), 0);
	free_as(word(0), 1);
	free_as(word(1), 1);
	write({});
	expect_sound();
}

TEST_F(Stamps, ThatLinesShare_AreHeldOnce)
{
	uint64_t *far = same_stamp(word(3));
	ASSERT_EQ(stamp_of(&e_, far), stamp_of(&e_, word(3)));
	ASSERT_NE(stamp_of(&e_, far + 8), stamp_of(&e_, far)) << "neighbouring lines";
	free_as(far, 5);
	write({word(3), far});
	ASSERT_EQ(stamps_hold(self_), STAMPS_HELD);
	EXPECT_EQ(set().words[0].version, 5u);
	EXPECT_EQ(set().words[1].version, WRITTEN_ANOTHER_HOLDS);
	EXPECT_EQ(stamps_held(), 1);
	stamps_free(self_, 9);
	EXPECT_EQ(load_stamp(word(3)), 9u);
	EXPECT_EQ(load_stamp(far), 9u);
	free_as(far, 1);
	write({});
	expect_sound();
}

TEST_F(Stamps, OfWhichOneIsHeldForLong_AreGivenBack)
{
	write({word(0), word(0) + 1, word(1), word(2)});
	free_as(word(0), 10);
	free_as(word(1), 11);
	const uint64_t before = hold(word(2));
	EXPECT_EQ(stamps_hold(self_), STAMPS_TAKEN);
	EXPECT_FALSE(self_.get()->software.holds);
	EXPECT_EQ(load_stamp(word(0)), 10u);
	EXPECT_EQ(load_stamp(word(1)), 11u);
	free_as(word(2), before);
	EXPECT_EQ(stamps_held(), 0);
	free_as(word(0), 1);
	free_as(word(1), 1);
	write({});
	expect_sound();
}

/* Another update has stored to a line that shares the stamp. */
TEST_F(Stamps, ThatAreNewer_DefeatNoBodyWhoseWordsAreTheSame)
{
	int runs = 0;
	EXPECT_EQ(run_in_c(self_.get(),
	                  [&](fur_update *tx) {
		                  runs++;
		                  (void)fur_load(tx, word(0));
		                  other_sets(word(5), 1);
		                  free_as(same_stamp(word(0)), load_stamp(word(5)));
		                  (void)fur_load(tx, word(0));
		                  fur_store(tx, word(1), uint64_t(1));
	                  }),
	        0);
	EXPECT_EQ(runs, 1);
	EXPECT_EQ(heap_.stats().defeats, 0u);
	expect_sound();
}

/* ---------------------------------------------------------------- snapshots */

TEST_F(Beside, Snapshot_IsKeptFromBodyToBody)
{
	software_body &s = self_.get()->software;
	update_in(TX_CONCURRENT, [&](fur_update *tx) { fur_store(tx, word(0), uint64_t(1)); });
	while (s.fresh_begins)
		update_in(TX_CONCURRENT, [&](fur_update *tx) { (void)fur_load(tx, word(0)); });
	const uint64_t kept = s.snapshot;
	other_sets(word(1), 4);
	update_in(TX_CONCURRENT, [&](fur_update *tx) {
		EXPECT_EQ(s.snapshot, kept) << "it has not looked at next_durts";
		EXPECT_EQ(fur_load(tx, word(0)), 1u);
		EXPECT_EQ(s.snapshot, kept);
		EXPECT_EQ(fur_load(tx, word(1)), 4u) << "newer: it moves";
		EXPECT_EQ(s.snapshot, ring_next(&d_));
		EXPECT_GT(s.fresh_begins, 0u) << "the next bodies look";
	});
	other_sets(word(1), 5);
	update_in(TX_CONCURRENT, [&](fur_update *tx) {
		EXPECT_EQ(s.snapshot, ring_next(&d_));
		EXPECT_EQ(fur_load(tx, word(1)), 5u);
	});
	EXPECT_EQ(heap_.stats().defeats, 0u);
	expect_sound();
}

/* What others store elsewhere costs an update that is not alone no look at next_durts. */
TEST_F(Beside, Snapshot_StaysWhileItsWordsAreOld)
{
	software_body &s = self_.get()->software;
	let_updates_in();
	const auto add_one = [&](fur_update *tx) {
		fur_store(tx, word(0), fur_load(tx, word(0)) + 1);
	};
	update_in(TX_CONCURRENT, add_one);
	other_sets(word(1), 1);
	update_in(TX_CONCURRENT, add_one);
	EXPECT_TRUE(s.others);
	s.fresh_begins = 0;
	for (uint64_t k = 2; k < 5; k++) {
		const uint64_t before = ring_next(&d_);
		update_in(TX_CONCURRENT, [&](fur_update *tx) {
			add_one(tx);
			other_sets(word(1), k);
		});
		EXPECT_EQ(s.snapshot, before + 2) << "that of its own durTS";
		EXPECT_EQ(s.fresh_begins, 0u) << "it has not looked";
	}
	EXPECT_EQ(*word(0), 5u);
	EXPECT_EQ(heap_.stats().defeats, 0u);
	expect_sound();
}

TEST_F(Beside, OwnUpdate_ThatHasReturned_IsNoDependency)
{
	const dset &set = self_.get()->window.commit.dset;
	let_updates_in();
	other_sets(word(1), 1);
	const uint64_t settled = set.settled;
	for (uint64_t k = 0; k < 3; k++) {
		update_in(TX_CONCURRENT, [&](fur_update *tx) { fur_store(tx, word(0), k); });
		other_sets(word(1), k);
	}
	update_in(TX_CONCURRENT, [&](fur_update *tx) {
		EXPECT_EQ(fur_load(tx, word(0)), 2u);
		EXPECT_LE(set.settled, load_stamp(word(0))) << "not settled by that";
		EXPECT_EQ(set.n, 0u);
		EXPECT_EQ(fur_load(tx, word(1)), 2u);
		EXPECT_EQ(set.n, 1u) << "another's";
	});
	EXPECT_GT(set.settled, settled);
	expect_sound();
}

/* A line's version tells of the last update that has stored to it, so that one depends on those
 * before. */
TEST_F(Beside, Versions_ThatAnUpdateReplaces_AreDependencies)
{
	const dset &set = self_.get()->window.commit.dset;
	let_updates_in();
	other_sets(word(1), 1);
	const uint64_t replaced = load_stamp(word(1));
	update_in(TX_CONCURRENT, [&](fur_update *tx) { fur_store(tx, word(0), 1); });
	EXPECT_LE(set.settled, replaced) << "another line";
	update_in(TX_CONCURRENT, [&](fur_update *tx) { fur_store(tx, word(1) + 1, 1); });
	EXPECT_GT(load_stamp(word(1)), replaced);
	EXPECT_GT(set.settled, replaced);
	expect_sound();
}

TEST_F(Beside, Versions_ThatAnUpdateReplaces_MayBeMoreThanASetNames)
{
	enum { LINES = 3 * DSET_NAMED };
	const dset &set = self_.get()->window.commit.dset;
	uint64_t newest = 0;
	let_updates_in();
	for (uint64_t k = 0; k < LINES; k++) {
		other_sets(word(k), k);
		newest = load_stamp(word(k));
	}
	update_in(TX_CONCURRENT, [&](fur_update *tx) {
		EXPECT_LE(set.settled + LINES, newest + 1);
		for (uint64_t k = 0; k < LINES; k++)
			fur_store(tx, word(k) + 1, k);
	});
	EXPECT_GT(set.settled, newest);
	EXPECT_EQ(heap_.stats().defeats, 0u);
	expect_sound();
}

/* The holder of the turn may be the update for which it waits, and may wait for all that
 * publish. */
TEST_F(Beside, RoomForDependencies_IsMadeWhileTheUpdateDoesNotPublish)
{
	enum { LINES = DSET_NAMED + 1 };
	std::atomic<bool> stored{false};
	let_updates_in();
	for (uint64_t k = 0; k < LINES; k++)
		update_in(TX_CONCURRENT, [&](fur_update *tx) { fur_store(tx, word(k), k); });
	/* As if the last of these updates had not left yet. */
	nondurable_entry &mine = d_.nondurable[idle_index_];
	arch_store(&mine.durts, load_stamp(word(LINES - 1)));
	arch_store_release(&mine.id, 1);
	other_.start([&](fur_thread *t) {
		update_in(
		        TX_CONCURRENT,
		        [&](fur_update *tx) {
			        for (uint64_t k = 0; k < LINES; k++)
				        fur_store(tx, word(k) + 1, k);
			        stored = true;
		        },
		        t);
	});
	until([&] { return stored.load(); });
	a_while(); /* until it waits */
	std::atomic<bool> alone{false};
	second_.start([&](fur_thread *) {
		turn_take_alone(&e_);
		alone = true;
		turn_give(&e_);
	});
	for (int k = 0; k < 500 && !alone; k++)
		a_while();
	EXPECT_TRUE(alone) << "the update publishes, and waits for others to be durable";
	EXPECT_TRUE(other_.busy());
	arch_store(&mine.durts, 0);
	arch_store_release(&mine.id, 0);
	other_.finish();
	second_.finish();
	expect_sound();
}

/* -------------------------------------------------------- optimistic readers */

struct Left {
};
[[noreturn]] void leave()
{
	throw Left();
}

/* An update stores to what it is about to load, run after run (INV-OR3). */
TEST_F(Beside, ReaderThatIsLeftAgainAndAgain_ReadsImagesAtLast)
{
	if (readers_are_plain())
		GTEST_SKIP() << "the update would wait for the reader";
	int runs = 0, seen = 0;
	fur_reader *r = nullptr;
	for (bool ended = false; !ended;)
		try {
			ASSERT_EQ(fur_begin_reader_leaving(self_, &r, leave, runs++ > 0), 0);
			EXPECT_EQ(fur_thread_transaction(self_), FUR_TRANSACTION_READ_ONLY);
			(void)fur_load(r, word(0));
			other_sets(word(1), static_cast<uint64_t>(runs));
			seen = static_cast<int>(fur_load(r, word(1)));
			ended = true;
		} catch (const Left &) {
			EXPECT_EQ(fur_end_reader(r), FUR_ENOTX) << "it has ended";
		}
	EXPECT_NE(r->snapshot, nullptr);
	EXPECT_EQ(fur_end_reader(r), 0);
	EXPECT_EQ(r->snapshot, nullptr);
	EXPECT_EQ(runs, 4);
	EXPECT_EQ(seen, runs - 1) << "the last run does not see the update that it has met";
	EXPECT_EQ(self_.get()->stats.reads_again, static_cast<uint64_t>(seen));
	EXPECT_EQ(fur_begin_reader_leaving(self_, &r, leave, false), 0);
	EXPECT_EQ(r->snapshot, nullptr) << "another body";
	EXPECT_EQ(fur_load(r, word(1)), static_cast<uint64_t>(runs));
	EXPECT_EQ(fur_end_reader(r), 0);
	expect_sound();
}

TEST_F(Beside, ReaderThatIsNoFunction_UsedWrongly_IsRefused)
{
	fur_reader *r, *second;
	EXPECT_EQ(fur_begin_reader_leaving(nullptr, &r, leave, false), FUR_EINVAL);
	EXPECT_EQ(fur_begin_reader_leaving(self_, nullptr, leave, false), FUR_EINVAL);
	EXPECT_EQ(fur_begin_reader_leaving(self_, &r, nullptr, false), FUR_EINVAL);
	EXPECT_EQ(fur_end_reader(nullptr), FUR_ENOTX);
	ASSERT_EQ(fur_begin_reader_leaving(self_, &r, leave, false), 0);
	EXPECT_EQ(fur_begin_reader_leaving(self_, &second, leave, false), FUR_ENESTED);
	EXPECT_EQ(second, nullptr);
	EXPECT_EQ(fur_thread_unregister(self_), FUR_EBUSY);
	other_.run([&](fur_thread *) {
		EXPECT_EQ(fur_end_reader(r), FUR_ENOTX) << "another thread's";
		EXPECT_EQ(fur_begin_reader_leaving(self_, &second, leave, false), FUR_EINVAL);
	});
	EXPECT_EQ(fur_end_reader(r), 0);
	EXPECT_EQ(fur_end_reader(r), FUR_ENOTX);
	ASSERT_EQ(fur_begin_reader_leaving(self_, &r, leave, false), 0);
	EXPECT_EQ(fur_thread_abandon(self_), 0);
	EXPECT_EQ(fur_end_reader(r), FUR_ENOTX);
	expect_sound();
}

/* -------------------------------------------------------------------- sweeps */

/* The turn's holder sweeps beside a body that has loaded word 0. */
TEST_F(Beside, BodyThatMeetsASweep_WaitsForItsEnd_AndComparesEverything)
{
	for (bool changes : {false, true}) {
		std::atomic<int> runs{0};
		std::atomic<bool> swept{false};
		std::vector<uint64_t> seen;
		const uint64_t sweeps = e_.sweeps;
		const uint64_t stamp = load_stamp(word(0));
		other_.start([&](fur_thread *t) {
			prefer_in_place(t, false);
			fur::update(t, fur::rerun, [&](fur_update *tx) {
				runs++;
				(void)fur_load(tx, word(0));
				until([&] { return swept.load(); });
				seen.push_back(fur_load(tx, word(1)));
				fur_store(tx, word(2), seen.back());
			});
		});
		until([&] { return runs == 1; });
		turn_take(&e_);
		EXPECT_TRUE(readers_shut_out(&e_, self_.get()->index).bodies)
		        << "the body is active";
		sweep_begin(&e_);
		EXPECT_EQ(e_.sweeps, sweeps + 1);
		swept = true;
		a_while();
		EXPECT_TRUE(seen.empty()) << "it waits";
		arch_store(word(0), *word(0) + changes);
		arch_store(word(1), uint64_t(8) + changes);
		sweep_end(&e_);
		readers_let_in(&e_);
		turn_give(&e_);
		other_.finish();
		EXPECT_EQ(runs, changes ? 2 : 1);
		EXPECT_EQ(seen, std::vector<uint64_t>{uint64_t(8) + changes});
		EXPECT_EQ(load_stamp(word(0)), stamp) << "no stamp tells of the change";
		expect_sound();
	}
}

TEST_F(Beside, UpdateInPlace_SweepsOnlyBesideBodies)
{
	const uint64_t sweeps = e_.sweeps;
	update_in(TX_IN_PLACE, [&](fur_update *tx) {
		EXPECT_FALSE(tx->thread->software.sweeps);
		fur_store(tx, word(0), uint64_t(1));
	});
	EXPECT_EQ(e_.sweeps, sweeps);
	update_in(TX_CONCURRENT, [&](fur_update *) {
		other_.run([&](fur_thread *t) {
			update_in(
			        TX_IN_PLACE,
			        [&](fur_update *u) {
				        EXPECT_TRUE(u->thread->software.sweeps);
				        EXPECT_EQ(e_.sweeps, sweeps + 1);
				        fur_store(u, word(0), uint64_t(2));
			        },
			        t);
		});
	});
	EXPECT_EQ(e_.sweeps, sweeps + 2);
	EXPECT_FALSE(self_.get()->software.sweeps);
	expect_sound();
}

/* ------------------------------------- defeated between comparison and draw */

struct Where {
	fur_pm pm;
	bool late; /* the defeated update's caller does not wait, and others are late too */
};

/* The update has loaded word 0, and stops before its draw.  Another one draws first, and publishes
 * to word 0's line.  So the first one has drawn a later durTS, which nothing but an abort marker
 * can settle. */
class Owes : public Beside, public ::testing::WithParamInterface<Where>
{
protected:
	Owes() : Beside(options()) {}
	static fur::Options options()
	{
		fur::Options o = software_options();
		o.pm = GetParam().pm;
		return o;
	}
	void defeat_one(uint64_t value)
	{
		std::atomic<int> runs{0};
		const uint64_t defeats = heap_.stats().defeats;
		stop(other_index_);
		other_.start([&](fur_thread *t) {
			fur_ticket ticket{};
			auto body = [&](fur_update *tx) {
				runs++;
				(void)fur_load(tx, word(0));
				fur_store(tx, word(1), value);
			};
			prefer_in_place(t, false);
			if (GetParam().late)
				fur::update(t, fur::rerun, ticket, body);
			else
				fur::update(t, fur::rerun, body);
		});
		await_stopped(other_index_);
		EXPECT_TRUE(stamp_is_mine(load_stamp(word(1)), other_index_));
		/* What an update that holds word 0's stamp would do.  It gives its durTS up. */
		commit first{};
		first.me = idle_index_;
		first.id = UINT64_C(1) << 40;
		nondurable_announce(&d_, &first);
		__real_ring_draw(&d_, &first);
		nondurable_publish(&d_, &first);
		free_as(word(0), first.durts);
		EXPECT_EQ(durability_abort(&d_, &first), 0);
		go_on(other_index_);
		other_.finish();
		EXPECT_EQ(runs, 2);
		const media_marker &m = *durability_marker(&d_, first.durts + 1);
		EXPECT_EQ(arch_load_acquire(&m.durts), first.durts + 1) << "it owes a marker";
		EXPECT_EQ(m.kind, MEDIA_ABORT);
		EXPECT_EQ(*word(1), value);
		EXPECT_EQ(heap_.stats().defeats, defeats + 1);
	}
};

TEST_P(Owes, AnAbortMarker)
{
	for (bool updates_in : {false, true})
		for (uint64_t k = 1; k <= 3; k++) {
			if (updates_in)
				let_updates_in();
			defeat_one(10 * k + updates_in);
		}
	EXPECT_EQ(fur_sync(heap_.get()), 0);
	expect_sound();
}

/* The file as a kill would leave it. */
TEST_P(Owes, AnAbortMarker_WithWhichTheHeapRecovers)
{
	const std::string copy = path_ + "-copy";
	for (uint64_t k = 1; k <= 3; k++) {
		let_updates_in();
		defeat_one(k);
		ASSERT_EQ(fur_sync(heap_.get()), 0);
		std::ofstream(copy, std::ios::binary) << bytes();
		in_killed_child([&] {
			/* The copy belongs at the address of this heap. */
			ASSERT_EQ(munmap(heap_base(heap_), heap_size(heap_)), 0);
			fur::Heap killed = fur::Heap::open(copy, options());
			EXPECT_TRUE(killed.info().recovered);
			auto *words = static_cast<uint64_t *>(root_at_rest(killed.get(), 0));
			EXPECT_EQ(words[0], 0u);
			EXPECT_EQ(words[8], k) << "the update's second run, after the hole";
		});
		unlink(copy.c_str());
	}
	expect_sound();
}

INSTANTIATE_TEST_SUITE_P(Domains, Owes,
        ::testing::Values(Where{FUR_PM_EMULATED, false}, Where{FUR_PM_EMULATED, true},
                Where{FUR_PM_SYNC, false}, Where{FUR_PM_SYNC, true}),
        [](const auto &w) {
	        return std::string(w.param.pm == FUR_PM_SYNC ? "sync" : "emulated") +
	               (w.param.late ? "_late" : "");
        });

} // namespace
