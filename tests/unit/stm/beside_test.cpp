/* SPDX-License-Identifier: BSD-3-Clause
 *
 * beside_test.cpp - updates that publish beside each other: stamps that are held, who is let in,
 * and sweeps.  A test steps the threads by an update of its own making: it is announced in
 * nondurable[], and draws no durTS until the test says so.  An update that finds it waits for that
 * in the middle of its publication, after it has compared what it has loaded, and before it draws
 * its own durTS.
 */
#include "software.hpp"

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
		second_.run([](fur_thread *) {});
		idle_.run([this](fur_thread *t) { by_hand_.me = t->index; });
	}

	/* The update by hand: announced, drawn, and given up.  Its thread idles. */
	void announce()
	{
		by_hand_.id = UINT64_C(1) << 40;
		by_hand_.durts = 0;
		nondurable_announce(&d_, &by_hand_);
	}
	uint64_t draw()
	{
		ring_draw(&d_, &by_hand_);
		nondurable_publish(&d_, &by_hand_);
		return by_hand_.durts;
	}
	void give_up()
	{
		EXPECT_EQ(durability_abort(&d_, &by_hand_), 0);
	}
	void let_updates_in()
	{
		turn_take(&e_);
		(void)readers_shut_out(&e_, self_.get()->index).met;
		updates_let_in(&e_);
		turn_give(&e_);
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
		arch_store_release(stamp_of(&e_, word), stamp_held_by(by_hand_.me, 0));
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
	bool is_announced(uint32_t thread) const
	{
		return arch_load_acquire(&d_.nondurable[thread].id);
	}
	/* The helper adds 1 to the word, in an update that may be defeated. */
	static void add(Helper &helper, uint64_t *word, std::atomic<uint32_t> *index)
	{
		helper.start([=](fur_thread *t) {
			prefer_in_place(t, false);
			*index = t->index;
			fur::update(t, fur::rerun, [&](fur_update *tx) {
				fur_store(tx, word, fur_load(tx, word) + 1);
			});
		});
	}

	Helper second_, idle_;
	engine &e_;
	durability &d_;
	commit by_hand_{};
	std::atomic<uint32_t> first_index_{UINT32_MAX}, second_index_{UINT32_MAX};
};

/* ------------------------------------------------------------------ let in */

TEST_F(Beside, TwoUpdates_PublishAtOnce)
{
	let_updates_in();
	announce();
	add(other_, word(0), &first_index_);
	until([&] { return first_index_ != UINT32_MAX && is_announced(first_index_); });
	add(second_, word(1), &second_index_);
	until([&] { return second_index_ != UINT32_MAX && publishes(second_index_); });
	EXPECT_TRUE(publishes(first_index_));
	EXPECT_EQ(arch_load(&e_.lock.taken), uint64_t(TURN_FREE));
	until([&] { return stamp_is_held(load_stamp(word(1))); });
	EXPECT_TRUE(stamp_is_held(load_stamp(word(0))));
	EXPECT_EQ(*word(0) | *word(1), 0u) << "neither stores before it has drawn";
	draw();
	give_up();
	other_.finish();
	second_.finish();
	EXPECT_EQ(*word(0) + *word(1), 2u);
	EXPECT_EQ(shut(), UPDATES_IN);
	EXPECT_EQ(heap_.stats().defeats, 0u);
	expect_sound();
}

TEST_F(Beside, WhoShutsUpdatesOut_WaitsForThoseThatPublish)
{
	let_updates_in();
	announce();
	add(other_, word(0), &first_index_);
	until([&] { return first_index_ != UINT32_MAX && is_announced(first_index_); });
	std::atomic<uint64_t> seen{99};
	second_.start([&](fur_thread *t) {
		turn_take(&e_);
		(void)readers_shut_out(&e_, t->index).met;
		seen = *word(0);
		readers_let_in(&e_);
		turn_give(&e_);
	});
	until([&] { return shut() == ALL_OUT; });
	a_while();
	EXPECT_EQ(seen, 99u) << "the update has not stored yet";
	draw();
	give_up();
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
	EXPECT_NE(e_.lock.readers_until, 0u);
	EXPECT_EQ(arch_load(&e_.lock.taken), uint64_t(TURN_FREE));
	expect_sound();
}

TEST_F(Beside, PlainReader_ThatClaimsTheHeap_WaitsForUpdatesThatPublish)
{
	let_updates_in();
	announce();
	add(other_, word(0), &first_index_);
	until([&] { return first_index_ != UINT32_MAX && is_announced(first_index_); });
	std::atomic<uint64_t> seen{99};
	second_.start([&](fur_thread *t) { seen = get(t, word(0)); });
	until([&] { return shut() == ALL_OUT; });
	a_while();
	EXPECT_EQ(seen, 99u);
	draw();
	give_up();
	second_.finish();
	EXPECT_EQ(seen, 1u) << "it comes after the update";
	other_.finish();
	EXPECT_EQ(shut(), READERS_IN);
	expect_sound();
}

TEST_F(Beside, PlainReaders_KeepUpdatesThatMeetFromStaying)
{
	let_updates_in();
	e_.lock.readers_until = arch_ticks() + arch_ns_to_ticks(5000000);
	EXPECT_TRUE(readers_come_first(&e_));
	e_.lock.readers_until = 0;
	EXPECT_FALSE(readers_come_first(&e_));
	expect_sound();
}

TEST_F(Beside, WaitForTheTurn_EndsWhenUpdatesAreLetIn)
{
	for (bool let_in : {true, false}) {
		std::atomic<int> got{-1};
		turn_take(&e_);
		(void)readers_shut_out(&e_, self_.get()->index).met;
		other_.start([&](fur_thread *) { got = turn_take_unless(&e_, UPDATES_IN); });
		until([&] { return arch_load(&e_.lock.waiters) == 1; });
		EXPECT_EQ(got, -1);
		if (let_in) {
			updates_let_in(&e_);
			/* It may sleep until the turn is given. */
			turn_give(&e_);
			other_.finish();
			EXPECT_TRUE(got == 0 || shut() == UPDATES_IN);
		} else {
			readers_let_in(&e_);
			turn_give(&e_);
			other_.finish();
			EXPECT_EQ(got, 1);
		}
		if (got == 1)
			turn_give(&e_);
		EXPECT_EQ(arch_load(&e_.lock.waiters), 0u);
		EXPECT_EQ(arch_load(&e_.lock.taken), uint64_t(TURN_FREE));
	}
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

TEST_F(Beside, SerialUpdate_LetsNobodyPublish)
{
	let_updates_in();
	fur_update *tx;
	ASSERT_EQ(fur_begin_update(self_, &tx), 0);
	EXPECT_EQ(tx->mode, TX_SERIAL);
	EXPECT_EQ(shut(), READERS_IN);
	EXPECT_EQ(fur_load(tx, word(0)), 0u);
	add(other_, word(0), &first_index_);
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
		ASSERT_TRUE(stamps_hold(self_));
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
	ASSERT_TRUE(stamps_hold(self_));
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
	EXPECT_FALSE(stamps_hold(self_));
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

class DefeatedAtItsDraw : public HeapFile, public ::testing::WithParamInterface<Where>
{
protected:
	static fur::Options options()
	{
		fur::Options o = software_options();
		o.pm = GetParam().pm;
		return o;
	}
};

struct Drawn : Beside {
	Drawn(const fur_options &o, const std::string &path) : Beside(o)
	{
		path_ = path;
	}
	void TestBody() override {}
};

/* The update has loaded word 0, and waits, in its publication, for the durTS of the update by
 * hand. That one draws, and publishes to word 0's line.  So the defeated one has drawn a later
 * durTS, which nothing but an abort marker can settle. */
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
		std::atomic<uint32_t> index{UINT32_MAX};
		const uint64_t defeats = heap_.stats().defeats;
		announce();
		other_.start([&](fur_thread *t) {
			fur_ticket ticket{};
			index = t->index;
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
		until([&] { return index != UINT32_MAX && is_announced(index); });
		EXPECT_TRUE(stamp_is_held(load_stamp(word(1))));
		/* Before anyone sees the durTS, as store and draw of an update that holds
		 * stamps. */
		ring_draw(&d_, &by_hand_);
		const uint64_t drawn = by_hand_.durts;
		free_as(word(0), drawn);
		nondurable_publish(&d_, &by_hand_);
		until([&] { return runs == 2; });
		const media_marker &m = *durability_marker(&d_, drawn + 1);
		EXPECT_EQ(arch_load_acquire(&m.durts), drawn + 1) << "it owes a marker";
		EXPECT_EQ(m.kind, MEDIA_ABORT);
		give_up();
		other_.finish();
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

INSTANTIATE_TEST_SUITE_P(Domains, Owes,
        ::testing::Values(Where{FUR_PM_EMULATED, false}, Where{FUR_PM_EMULATED, true},
                Where{FUR_PM_SYNC, false}, Where{FUR_PM_SYNC, true}),
        [](const auto &w) {
	        return std::string(w.param.pm == FUR_PM_SYNC ? "sync" : "emulated") +
	               (w.param.late ? "_late" : "");
        });

} // namespace
