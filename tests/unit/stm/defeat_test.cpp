/* SPDX-License-Identifier: BSD-3-Clause
 *
 * defeat_test.cpp - updates without hardware that meet: readers and other bodies next to an open
 * update; concurrent bodies that are defeated, run again, and at last run serially; nesting; an
 * update that turns into one in place.
 */
#include "software.hpp"

#include <csetjmp>

namespace
{

/* ------------------------------------------------------------ a serial update */

TEST_F(Software, SerialUpdate_IsUnseenUntilItsCommit_AndRunsOnce)
{
	fur_update *tx;
	ASSERT_EQ(fur_begin_update(self_, &tx), 0);
	EXPECT_EQ(tx->mode, TX_SERIAL);
	for (uint64_t k = 1; k <= 3; k++) {
		fur_store(tx, word(0), k);
		fur_write(tx, word(1), word(0), 8);
		EXPECT_EQ(fur_load(tx, word(1)), k);
		EXPECT_EQ(other_gets(word(0)) | other_gets(word(1)), 0u);
	}
	EXPECT_EQ(heap_.get()->engine.lock.shut, 0u);
	uint64_t serial = heap_.stats().serial_commits;
	EXPECT_EQ(fur_commit(tx, nullptr), 0);
	EXPECT_EQ(other_gets(word(0)) + other_gets(word(1)), 6u);
	EXPECT_EQ(heap_.stats().serial_commits, serial + 1);
	EXPECT_EQ(heap_.stats().defeats, 0u);
	expect_sound();
}

/* The other's body begins, and loads what the serial update is about to change. */
TEST_F(Software, SerialUpdate_DefeatsABodyBesideIt_AndNotTheOtherWayRound)
{
	fur_update *tx;
	int runs = 0;
	std::vector<uint64_t> seen;
	std::atomic<bool> loaded{false}, committed{false};
	ASSERT_EQ(fur_begin_update(self_, &tx), 0);
	EXPECT_EQ(fur_load(tx, word(0)), 0u);
	fur_store(tx, word(0), uint64_t(5));
	other_.start([&](fur_thread *t) {
		fur::update(t, fur::rerun, [&](fur_update *u) {
			EXPECT_EQ(u->mode, TX_CONCURRENT);
			runs++;
			seen.push_back(fur_load(u, word(0)));
			loaded = true;
			while (!committed)
				usleep(100);
			fur_store(u, word(1), seen.back() + 1);
		});
	});
	while (!loaded)
		usleep(100);
	EXPECT_EQ(fur_load(tx, word(1)), 0u);
	EXPECT_EQ(fur_commit(tx, nullptr), 0);
	committed = true;
	other_.finish();
	EXPECT_EQ(runs, 2);
	EXPECT_EQ(seen, (std::vector<uint64_t>{0, 5}));
	EXPECT_EQ(*word(1), 6u);
	EXPECT_EQ(heap_.stats().defeats, 1u);
	expect_sound();
}

/* ------------------------------------------------------------------ defeats */

enum Language { IN_C, IN_CPP };

class Defeat : public Software, public ::testing::WithParamInterface<Language>
{
protected:
	/* fur_update_run(), in C or through fur.hpp; the result, or an Error's code. */
	template <class Body>
	int run(Body body, fur_thread *t = nullptr)
	{
		t = t ? t : self_.get();
		if (!t->update.depth)
			prefer_in_place(t, false);
		if (GetParam() == IN_C)
			return run_in_c(t, body);
		try {
			fur::update(t, fur::rerun, body);
			return 0;
		} catch (const fur::Error &e) {
			return e.code();
		}
	}
	/* The same in the update that is open. */
	template <class Body>
	int join(Body body)
	{
		if (GetParam() == IN_C)
			return join_in_c(self_, body);
		fur::join_update(self_, body);
		return 0;
	}
	fur_stats stats() const
	{
		return heap_.stats();
	}
};

TEST_P(Defeat, AtTheNextLoad)
{
	int runs = 0, after = 0;
	uint64_t a = 0, b = 0, commits = stats().software_commits;
	EXPECT_EQ(run([&](fur_update *tx) {
		runs++;
		a = fur_load(tx, word(0));
		fur_store(tx, word(2), uint64_t(99) + static_cast<unsigned>(runs));
		if (runs == 1)
			other_.run([&](fur_thread *t) {
				fur::update(t, [&](fur_update *u) {
					fur_store(u, word(0), uint64_t(1));
					fur_store(u, word(1), uint64_t(1));
				});
			});
		b = fur_load(tx, word(1));
		after++;
		EXPECT_EQ(a, b) << "two states of the heap in one body";
		EXPECT_EQ(fur_load(tx, word(2)), 99u + static_cast<unsigned>(runs));
	}),
	        0);
	EXPECT_EQ(runs, 2);
	EXPECT_EQ(after, 1) << "libfur leaves the body at the load";
	EXPECT_EQ(a + b, 2u);
	EXPECT_EQ(*word(2), 101u);
	EXPECT_EQ(stats().defeats, 1u);
	EXPECT_EQ(stats().software_commits, commits + 1);
	EXPECT_EQ(stats().ro_commits, 0u);
	expect_sound();
}

TEST_P(Defeat, AtTheNextRead)
{
	int runs = 0;
	uint64_t line[16];
	EXPECT_EQ(run([&](fur_update *tx) {
		runs++;
		fur_read(tx, line, word(0), 64);
		if (runs == 1)
			other_sets(word(0) + 5, 8);
		fur_read(tx, line, word(0), sizeof line);
	}),
	        0);
	EXPECT_EQ(runs, 2);
	EXPECT_EQ(line[5], 8u);
	expect_sound();
}

TEST_P(Defeat, AtItsCommit)
{
	int runs = 0;
	EXPECT_EQ(run([&](fur_update *tx) {
		uint64_t old = fur_load(tx, word(0));
		fur_store(tx, word(1), old + 10);
		if (++runs == 1) {
			other_sets(word(0), 7);
			EXPECT_EQ(other_gets(word(1)), 0u);
		}
	}),
	        0);
	EXPECT_EQ(runs, 2);
	EXPECT_EQ(*word(1), 17u);
	EXPECT_EQ(stats().defeats, 1u);
	expect_sound();
}

TEST_P(Defeat, InTheRestOfAWordOfWhichItHasStoredAPart)
{
	int runs = 0;
	EXPECT_EQ(run([&](fur_update *tx) {
		auto *byte = reinterpret_cast<uint8_t *>(word(0));
		fur_store(tx, byte, uint8_t(1));
		uint64_t all = fur_load(tx, word(0));
		if (++runs == 1)
			other_.run([&](fur_thread *t) {
				fur::update(t,
				        [&](fur_update *u) { fur_store(u, byte + 4, uint8_t(2)); });
			});
		fur_store(tx, word(1), all);
	}),
	        0);
	EXPECT_EQ(runs, 2);
	EXPECT_EQ(*word(0), UINT64_C(0x200000001));
	EXPECT_EQ(*word(1), UINT64_C(0x200000001));
	expect_sound();
}

TEST_P(Defeat, NotByWordsThatItHasOnlyStored_OrThatKeepTheirValue)
{
	int runs = 0;
	set(self_, word(1), 4);
	EXPECT_EQ(run([&](fur_update *tx) {
		runs++;
		fur_store(tx, word(0), uint64_t(1));
		EXPECT_EQ(fur_load(tx, word(0)), 1u) << "its own, not the heap's";
		EXPECT_EQ(fur_load(tx, word(1)), 4u);
		other_sets(word(0), 2);
		other_sets(word(1), 3);
		other_sets(word(1), 4);
		EXPECT_EQ(fur_load(tx, word(0)), 1u);
		EXPECT_EQ(fur_load(tx, word(1)), 4u);
	}),
	        0);
	EXPECT_EQ(runs, 1);
	EXPECT_EQ(*word(0), 1u) << "the later update's";
	EXPECT_EQ(stats().defeats, 0u);
	expect_sound();
}

TEST_P(Defeat, NotOfABodyThatStoresNothing)
{
	int runs = 0;
	EXPECT_EQ(run([&](fur_update *tx) {
		runs++;
		EXPECT_EQ(fur_load(tx, word(0)), 0u);
		other_sets(word(0), 1);
	}),
	        0);
	EXPECT_EQ(runs, 1) << "it comes before the other";
	EXPECT_EQ(stats().empty_commits, 1u);
	expect_sound();
}

TEST_P(Defeat, AgainAndAgain_ThenTheBodyRunsSerially)
{
	uint64_t runs = 0;
	std::vector<tx_mode> modes, expected(SOFTWARE_TRIES, TX_CONCURRENT);
	fur_stats before = stats();
	expected.push_back(TX_SERIAL);
	EXPECT_EQ(run([&](fur_update *tx) {
		modes.push_back(tx->mode);
		uint64_t n = fur_load(tx, word(0));
		fur_store(tx, word(1), n);
		if (runs++ < SOFTWARE_TRIES)
			other_sets(word(0), n + 1);
		else
			other_.start([&](fur_thread *t) { set(t, word(0), 100); });
	}),
	        0);
	other_.finish();
	EXPECT_EQ(modes, expected);
	EXPECT_EQ(*word(1), uint64_t(SOFTWARE_TRIES));
	EXPECT_EQ(*word(0), 100u);
	fur_stats after = stats();
	EXPECT_EQ(after.defeats - before.defeats, uint64_t(SOFTWARE_TRIES));
	EXPECT_EQ(after.software_commits, before.software_commits);
	EXPECT_EQ(after.serial_commits - before.serial_commits, uint64_t(SOFTWARE_TRIES) + 2)
	        << "all but one of the other's";
	/* The next one is concurrent again. */
	EXPECT_EQ(run([&](fur_update *tx) { EXPECT_EQ(tx->mode, TX_CONCURRENT); }), 0);
	expect_sound();
}

TEST_P(Defeat, ByAnUpdateInPlace_ThatBeganBefore_AndOneThatBeginsAfter)
{
	int runs = 0;
	EXPECT_EQ(run([&](fur_update *tx) {
		runs++;
		uint64_t a = fur_load(tx, word(0));
		if (runs == 1)
			other_.run([&](fur_thread *t) {
				update_in(
				        TX_IN_PLACE,
				        [&](fur_update *u) {
					        EXPECT_TRUE(u->thread->software.sweeps)
					                << "a body is open";
					        fur_store(u, word(0), uint64_t(1));
					        uint64_t two[2] = {1, 1};
					        fur_write(u, word(1), two, sizeof two);
				        },
				        t);
			});
		EXPECT_EQ(fur_load(tx, word(1)), a);
		fur_store(tx, word(2), a);
	}),
	        0);
	EXPECT_EQ(runs, 2);
	EXPECT_EQ(*word(2), 1u);
	expect_sound();
}

TEST_P(Defeat, NotByAnUpdateThatIsRolledBack)
{
	for (tx_mode mode : {TX_SERIAL, TX_IN_PLACE}) {
		int runs = 0;
		EXPECT_EQ(run([&](fur_update *tx) {
			runs++;
			EXPECT_EQ(fur_load(tx, word(0)), 0u);
			other_.run([&](fur_thread *t) {
				EXPECT_THROW(update_in(
				                     mode,
				                     [&](fur_update *u) {
					                     fur_store(u, word(0), uint64_t(1));
					                     throw 1;
				                     },
				                     t),
				        int);
			});
			EXPECT_EQ(fur_load(tx, word(0)), 0u);
			fur_store(tx, word(1), uint64_t(1));
		}),
		        0);
		EXPECT_EQ(runs, 1);
	}
	expect_sound();
}

TEST_P(Defeat, AfterManyLoads_ComparesThemAll)
{
	for (unsigned changed : {0u, 31u, 62u}) {
		int runs = 0;
		uint64_t sum = 0;
		EXPECT_EQ(run([&](fur_update *tx) {
			sum = 0;
			for (int again = 0; again < 100; again++)
				for (unsigned k = 0; k < 63; k++)
					sum += fur_load(tx, word(k));
			if (++runs == 1)
				other_sets(word(changed), 1 + *word(changed));
			fur_store(tx, word(63), sum);
		}),
		        0);
		EXPECT_EQ(runs, 2) << changed;
		EXPECT_EQ(*word(63), sum);
	}
	expect_sound();
}

TEST_P(Defeat, GivesMemoryBack)
{
	alloc_census before, after;
	ASSERT_EQ(alloc_check(heap_base(heap_), &before), 0);
	for (uint64_t round = 1; round <= 50; round++) {
		int runs = 0;
		void *kept = nullptr;
		EXPECT_EQ(run([&](fur_update *tx) {
			uint64_t old = fur_load(tx, word(0));
			void *dropped = fur_alloc(tx, 40 * round);
			kept = fur_alloc(tx, 12000);
			EXPECT_NE(kept, nullptr);
			fur_free(tx, dropped);
			fur_set_root(tx, 3, kept);
			EXPECT_EQ(fur_root(tx, 3), kept);
			if (++runs == 1)
				other_sets(word(0), old + 1);
		}),
		        0);
		EXPECT_EQ(runs, 2);
		fur::update(self_, [&](fur_update *tx) { fur_free(tx, fur_root(tx, 3)); });
	}
	ASSERT_EQ(alloc_check(heap_base(heap_), &after), 0) << fur_errormsg();
	EXPECT_EQ(after.blocks, before.blocks);
	expect_sound();
}

TEST_P(Defeat, OfAnUpdateThatFails_CountsOnlyTheLastRun)
{
	uint64_t outside = 0;
	int runs = 0;
	EXPECT_EQ(run([&](fur_update *tx) {
		(void)fur_load(tx, word(0));
		if (++runs == 1) {
			fur_store(tx, &outside, uint64_t(1));
			other_sets(word(0), 1);
			(void)fur_load(tx, word(0));
			ADD_FAILURE() << "the value has changed";
		}
		fur_store(tx, word(1), uint64_t(1));
	}),
	        0);
	EXPECT_EQ(*word(1), 1u);
	EXPECT_EQ(run([&](fur_update *tx) {
		(void)fur_load(tx, word(0));
		fur_store(tx, word(1), uint64_t(2));
		fur_store(tx, &outside, uint64_t(1));
	}),
	        FUR_ERANGE);
	EXPECT_EQ(*word(1), 1u);
	expect_sound();
}

/* -------------------------------------------------------------- abort, nesting */

TEST_P(Defeat, Abort_InTheBody_IsItsResult)
{
	int runs = 0;
	EXPECT_EQ(run([&](fur_update *tx) {
		runs++;
		fur_store(tx, word(0), uint64_t(1));
		EXPECT_EQ(fur_abort(tx), FUR_EABORTED);
	}),
	        FUR_EABORTED);
	EXPECT_EQ(runs, 1);
	EXPECT_EQ(*word(0), 0u);
	EXPECT_EQ(stats().aborts[FUR_ABORT_USER], 1u);
	expect_sound();
}

TEST_P(Defeat, InsideABegunUpdate_IsAPartOfIt)
{
	fur_update *tx;
	ASSERT_EQ(fur_begin_update(self_, &tx), 0);
	int runs = 0;
	EXPECT_EQ(run([](fur_update *) { ADD_FAILURE() << "the body ran"; }), FUR_ENESTED);
	EXPECT_EQ(join([&](fur_update *inner) {
		runs++;
		EXPECT_EQ(inner, tx);
		fur_store(inner, word(0), uint64_t(1));
	}),
	        0);
	EXPECT_EQ(other_gets(word(0)), 0u) << "not before the outer commit";
	EXPECT_EQ(fur_commit(tx, nullptr), 0);
	EXPECT_EQ(*word(0), 1u);
	ASSERT_EQ(fur_begin_update(self_, &tx), 0);
	fur_update *inner;
	ASSERT_EQ(fur_join_update(self_, &inner), 0);
	fur_store(inner, word(0), uint64_t(2));
	EXPECT_EQ(fur_abort(inner), FUR_EABORTED);
	EXPECT_EQ(fur_commit(tx, nullptr), FUR_EABORTED);
	EXPECT_EQ(*word(0), 1u);
	EXPECT_EQ(runs, 1);
	expect_sound();
}

TEST_P(Defeat, OfAnInnerBody_RunsTheOuterAgain)
{
	int outer = 0, inner = 0, after = 0;
	EXPECT_EQ(run([&](fur_update *tx) {
		outer++;
		(void)fur_load(tx, word(0));
		int result = join([&](fur_update *in) {
			inner++;
			if (outer == 1)
				other_sets(word(0), 5);
			fur_store(in, word(1), fur_load(in, word(0)));
		});
		after++;
		EXPECT_EQ(result, 0);
		fur_store(tx, word(2), fur_load(tx, word(1)) + 1);
	}),
	        0);
	EXPECT_EQ(outer, 2);
	EXPECT_EQ(inner, 2);
	EXPECT_EQ(after, 1);
	EXPECT_EQ(*word(1), 5u);
	EXPECT_EQ(*word(2), 6u);
	EXPECT_EQ(stats().defeats, 1u);
	expect_sound();
}

TEST_P(Defeat, InnerAbort_IsTheResultOfBoth)
{
	EXPECT_EQ(run([&](fur_update *tx) {
		fur_store(tx, word(0), uint64_t(1));
		fur_update *in;
		ASSERT_EQ(fur_join_update(self_, &in), 0);
		fur_store(in, word(1), uint64_t(1));
		EXPECT_EQ(fur_abort(in), FUR_EABORTED);
		EXPECT_EQ(tx->depth, 1u) << "the outer one is still open";
	}),
	        FUR_EABORTED);
	EXPECT_EQ(*word(0) | *word(1), 0u);
	expect_sound();
}

TEST_P(Defeat, BeginAndCommit_InsideTheBody_AreAPartOfIt)
{
	int runs = 0;
	EXPECT_EQ(run([&](fur_update *tx) {
		fur_update *inner;
		runs++;
		ASSERT_EQ(fur_join_update(self_, &inner), 0);
		EXPECT_EQ(inner, tx);
		uint64_t old = fur_load(inner, word(0));
		if (runs == 1)
			other_sets(word(0), 3);
		fur_store(inner, word(1), fur_load(inner, word(0)));
		EXPECT_EQ(old, 3u) << "defeated, with the inner update open";
		EXPECT_EQ(fur_commit(inner, nullptr), 0);
		EXPECT_EQ(other_gets(word(1)), 0u);
	}),
	        0);
	EXPECT_EQ(runs, 2);
	EXPECT_EQ(*word(1), 3u);
	expect_sound();
}

TEST_P(Defeat, Commit_ByTheBodyItself)
{
	int runs = 0;
	EXPECT_EQ(run([&](fur_update *tx) {
		uint64_t old = fur_load(tx, word(0));
		fur_store(tx, word(1), old);
		if (++runs == 1)
			other_sets(word(0), 4);
		EXPECT_EQ(fur_commit(tx, nullptr), 0);
		EXPECT_EQ(runs, 2) << "the first is defeated there";
	}),
	        0);
	EXPECT_EQ(*word(1), 4u);
	expect_sound();
}

/* ------------------------------------------------------------------ refusals */

TEST_P(Defeat, OpenBody_KeepsTheHeapOpen_AndTheThreadRegistered)
{
	EXPECT_EQ(run([&](fur_update *tx) {
		fur_store(tx, word(0), uint64_t(1));
		EXPECT_EQ(fur_close(heap_.get()), FUR_EBUSY);
		other_.run([&](fur_thread *) { EXPECT_EQ(fur_close(heap_.get()), FUR_EBUSY); });
		EXPECT_EQ(fur_thread_unregister(self_), FUR_EBUSY);
	}),
	        0);
	EXPECT_EQ(*word(0), 1u);
	expect_sound();
}

TEST_P(Defeat, Misuse_IsRefused)
{
	auto never = [](fur_update *) { ADD_FAILURE() << "the body ran"; };
	EXPECT_EQ(fur_update_run(self_, nullptr, nullptr, nullptr), FUR_EINVAL);
	EXPECT_EQ(run_in_c(nullptr, never), FUR_EINVAL);
	EXPECT_THROW(fur::update(nullptr, fur::rerun, never), fur::Error);
	fur_thread *mine = self_;
	other_.run([&](fur_thread *) {
		EXPECT_EQ(run(never, mine), FUR_EINVAL);
		EXPECT_NE(
		        std::string(fur_errormsg()).find("fur_thread_register"), std::string::npos);
	});
	fur_ro *ro;
	ASSERT_EQ(fur_begin_ro(self_, &ro), 0);
	EXPECT_EQ(run(never), FUR_ENESTED);
	EXPECT_EQ(fur_end_ro(ro, nullptr), 0);
	std::string second = path_ + "-2";
	{
		fur::Heap heap = fur::Heap::create(second, software_options());
		fur::Thread there(heap);
		ASSERT_EQ(fur_begin_ro(there, &ro), 0);
		EXPECT_EQ(run(never), FUR_ENESTED);
		EXPECT_EQ(fur_end_ro(ro, nullptr), 0);
		EXPECT_EQ(run([&](fur_update *) {
			EXPECT_EQ(run(never, there), FUR_ENESTED);
			EXPECT_EQ(run(never), FUR_ENESTED);
			EXPECT_NE(std::string(fur_errormsg()).find("fur_join_update"),
			        std::string::npos);
		}),
		        0);
	}
	unlink(second.c_str());
	expect_sound();
}

TEST_P(Defeat, InAChildOfFork_IsRefused)
{
	auto never = [](fur_update *) { ADD_FAILURE() << "the body ran"; };
	auto in_child = [&] {
		pid_t child = fork();
		if (child == 0) {
			EXPECT_EQ(run(never), FUR_EFORK);
			_exit(HasFailure() ? 1 : 0);
		}
		int status;
		waitpid(child, &status, 0);
		EXPECT_EQ(status, 0);
	};
	in_child();
	EXPECT_EQ(run([&](fur_update *tx) {
		fur_store(tx, word(0), uint64_t(1));
		in_child();
	}),
	        0);
	/* A child that returns from the inner body, and from the outer one. */
	pid_t child = -1;
	int inner = -1, result = run([&](fur_update *tx) {
		fur_store(tx, word(0), fur_load(tx, word(0)) + 1);
		inner = join_in_c(self_, [&](fur_update *) { child = fork(); });
	});
	if (child == 0)
		_exit(inner == FUR_EFORK && result == FUR_EFORK ? 0 : 1);
	EXPECT_EQ(inner, 0);
	EXPECT_EQ(result, 0);
	int status;
	waitpid(child, &status, 0);
	EXPECT_EQ(status, 0);
	EXPECT_EQ(*word(0), 2u);
	expect_sound();
}

/* ------------------------------------------------- read-only transactions inside */

TEST_P(Defeat, ReadInsideTheBody_SeesItsStores_AndOthersDoNot)
{
	for (bool commit : {false, true}) {
		std::atomic<uint64_t> others{9};
		int result = run([&](fur_update *tx) {
			fur_ro *ro;
			uint64_t old = fur_load(tx, word(0));
			fur_store(tx, word(0), old + 1);
			fur_write(tx, word(1), word(0), 8);
			EXPECT_EQ(other_gets(word(0)), 0u);
			ASSERT_EQ(fur_join_ro(self_, &ro), 0);
			EXPECT_EQ(fur_load(ro, word(0)), 1u);
			EXPECT_EQ(fur_load(ro, word(1)), 1u);
			other_.start([&](fur_thread *t) { others = get(t, word(0)); });
			EXPECT_EQ(fur_end_ro(ro, nullptr), 0);
			/* The update goes on, in place. */
			fur_store(tx, word(2), uint64_t(7));
			EXPECT_EQ(fur_load(tx, word(2)), 7u);
			EXPECT_EQ(fur_load(tx, word(1)), 1u);
			if (!commit)
				fur_abort(tx);
		});
		other_.finish();
		EXPECT_EQ(result, commit ? 0 : FUR_EABORTED);
		EXPECT_EQ(others, commit ? 1u : 0u);
		EXPECT_EQ(*word(0), commit ? 1u : 0u);
		EXPECT_EQ(*word(1), commit ? 1u : 0u);
		EXPECT_EQ(*word(2), commit ? 7u : 0u);
	}
	expect_sound();
}

TEST_P(Defeat, AtABeginOfARead)
{
	int runs = 0;
	EXPECT_EQ(run([&](fur_update *tx) {
		fur_ro *ro;
		uint64_t old = fur_load(tx, word(0));
		fur_store(tx, word(1), old);
		if (++runs == 1)
			other_sets(word(0), 6);
		ASSERT_EQ(fur_join_ro(self_, &ro), 0);
		EXPECT_EQ(runs, 2);
		EXPECT_EQ(fur_load(ro, word(1)), 6u);
		EXPECT_EQ(fur_end_ro(ro, nullptr), 0);
	}),
	        0);
	EXPECT_EQ(runs, 2);
	EXPECT_EQ(*word(1), 6u);
	EXPECT_EQ(stats().defeats, 1u);
	expect_sound();
}

/* The helper's body has loaded word 0.  This update, in place because of a read inside it, changes
 * words 0 and 1; then the helper's body loads word 1. */
TEST_P(Defeat, ReadInsideAnUpdate_AndABodyUnderWay)
{
	for (bool commit : {false, true}) {
		std::atomic<bool> loaded{false}, in_place{false};
		int runs = 0;
		uint64_t a = 9, b = 9;
		other_.start([&](fur_thread *t) {
			EXPECT_EQ(run(
			                  [&](fur_update *u) {
				                  runs++;
				                  a = fur_load(u, word(0));
				                  loaded = true;
				                  while (!in_place)
					                  usleep(100);
				                  /* It waits until the other has ended. */
				                  b = fur_load(u, word(1));
				                  EXPECT_EQ(a, b) << "two states in one body";
				                  fur_store(u, word(3), b);
			                  },
			                  t),
			        0);
		});
		while (!loaded)
			usleep(100);
		fur_update *tx;
		fur_ro *ro;
		prefer_in_place(self_, false);
		ASSERT_EQ(fur_begin_update(self_, &tx), 0);
		fur_store(tx, word(0), uint64_t(1));
		ASSERT_EQ(fur_join_ro(self_, &ro), 0);
		EXPECT_EQ(tx->mode, TX_IN_PLACE);
		EXPECT_TRUE(tx->thread->software.sweeps);
		fur_store(tx, word(1), uint64_t(1));
		in_place = true;
		usleep(5000);
		EXPECT_EQ(fur_end_ro(ro, nullptr), 0);
		EXPECT_EQ(commit ? fur_commit(tx, nullptr) : fur_abort(tx),
		        commit ? 0 : FUR_EABORTED);
		other_.finish();
		EXPECT_EQ(runs, commit ? 2 : 1);
		EXPECT_EQ(b, commit ? 1u : 0u);
	}
	expect_sound();
}

INSTANTIATE_TEST_SUITE_P(Languages, Defeat, ::testing::Values(IN_C, IN_CPP),
        [](const auto &l) { return std::string(l.param == IN_C ? "c" : "cpp"); });

/* ------------------------------------------------------------------ fur::rerun */

struct Counted {
	explicit Counted(int *n) : n_(n)
	{
		++*n_;
	}
	~Counted()
	{
		--*n_;
	}
	int *n_;
};

class Rerun : public Software
{
};

TEST_F(Rerun, Defeat_RunsDestructors)
{
	int alive = 0, runs = 0;
	fur::update(self_, fur::rerun, [&](fur_update *tx) {
		Counted one(&alive);
		std::vector<int> memory(1000);
		(void)fur_load(tx, word(0));
		fur::join_update(self_, [&](fur_update *inner) {
			Counted two(&alive);
			EXPECT_EQ(alive, 2);
			if (++runs == 1)
				other_sets(word(0), 1);
			fur_store(inner, word(1), fur_load(inner, word(0)));
		});
		fur::join_update(self_, [&](fur_update *inner) {
			Counted two(&alive);
			uint64_t now = fur_load(inner, word(0));
			if (runs == 2)
				other_sets(word(0), 2);
			fur_store(inner, word(1), fur_load(inner, word(0)));
			EXPECT_EQ(now, 2u);
		});
		EXPECT_EQ(fur::join_read(self_, [&](fur_ro *ro) { return fur_load(ro, word(1)); }),
		        2u);
	});
	EXPECT_EQ(runs, 3);
	EXPECT_EQ(alive, 0);
	EXPECT_EQ(*word(1), 2u);
	expect_sound();
}

TEST_F(Rerun, Exception_AfterADefeat_IsTheLastRuns)
{
	int runs = 0;
	EXPECT_THROW(fur::update(self_, fur::rerun,
	                     [&](fur_update *tx) {
		                     fur_store(tx, word(1), fur_load(tx, word(0)));
		                     if (++runs == 1)
			                     other_sets(word(0), 1);
		                     if (fur_load(tx, word(0)) == 1)
			                     throw std::out_of_range("mine");
	                     }),
	        std::out_of_range);
	EXPECT_EQ(runs, 2);
	EXPECT_EQ(*word(1), 0u);
	expect_sound();
}

TEST_F(Rerun, BodyThatCatchesTheDefeat_RunsAgain)
{
	enum Kind { RETURNS, GOES_ON, THROWS, ABORTS, COMMITS };
	for (Kind kind : {RETURNS, GOES_ON, THROWS, ABORTS, COMMITS}) {
		int runs = 0, caught = 0;
		set(self_, word(0), 0);
		set(self_, word(1), 0);
		int result = fur::update(self_, fur::rerun, [&](fur_update *tx) {
			runs++;
			try {
				uint64_t old = fur_load(tx, word(0));
				if (runs == 1)
					other_sets(word(0), 1);
				fur_store(tx, word(1), old + fur_load(tx, word(0)));
			} catch (...) {
				caught++;
				if (kind == GOES_ON) {
					EXPECT_EQ(fur_load(tx, word(0)), 1u);
					fur_store(tx, word(2), uint64_t(99));
					fur_write(tx, word(2), word(0), 8);
					fur_promote(tx, word(2));
					EXPECT_EQ(fur_alloc(tx, 16), nullptr);
					fur_free(tx, words_);
					(void)fur_root(tx, 0);
				}
				if (kind == THROWS)
					throw std::runtime_error("hidden");
				if (kind == ABORTS) {
					EXPECT_EQ(fur_abort(tx), FUR_ENOTX);
				}
				if (kind == COMMITS) {
					EXPECT_EQ(fur_commit(tx, nullptr), FUR_ENOTX);
				}
			}
			return runs;
		});
		EXPECT_EQ(result, 2);
		EXPECT_EQ(runs, 2);
		EXPECT_EQ(caught, 1);
		EXPECT_EQ(*word(1), 2u);
		EXPECT_EQ(*word(2), 0u);
		expect_sound();
	}
}

TEST_F(Rerun, InnerException_ThatTheOuterBodyCatches_StillRollsAllBack)
{
	try {
		fur::update(self_, fur::rerun, [&](fur_update *tx) {
			fur_store(tx, word(0), uint64_t(1));
			EXPECT_THROW(fur::join_update(self_,
			                     [&](fur_update *inner) {
				                     fur_store(inner, word(1), uint64_t(1));
				                     throw 1;
			                     }),
			        int);
			EXPECT_EQ(tx->depth, 1u);
		});
		ADD_FAILURE();
	} catch (const fur::Error &e) {
		EXPECT_EQ(e.code(), FUR_EABORTED);
	}
	EXPECT_EQ(*word(0) | *word(1), 0u);
	expect_sound();
}

TEST_F(Rerun, CBody_InsideACppBody_PassesTheDefeatOn)
{
	int runs = 0, alive = 0;
	fur::update(self_, fur::rerun, [&](fur_update *tx) {
		Counted one(&alive);
		(void)fur_load(tx, word(0));
		EXPECT_EQ(join_in_c(self_,
		                  [&](fur_update *inner) {
			                  Counted two(&alive);
			                  if (++runs == 1)
				                  other_sets(word(0), 1);
			                  fur_store(inner, word(1), fur_load(inner, word(0)));
		                  }),
		        0);
	});
	EXPECT_EQ(runs, 2);
	EXPECT_EQ(alive, 0);
	EXPECT_EQ(*word(1), 1u);
	expect_sound();
}

static uint64_t body_as_a_function(fur_update *tx)
{
	(void)tx;
	return 5;
}

TEST_F(Rerun, Bodies_ReturnWhatTheyLike)
{
	set(self_, word(0), 8);
	std::string text = "a string longer than what fits a std::string itself";
	auto reference = [&](fur_update *) -> std::string & { return text; };
	static_assert(
	        std::is_same_v<decltype(fur::update(self_, fur::rerun, reference)), std::string>);
	EXPECT_EQ(fur::update(self_, fur::rerun, reference), text);
	auto nothing = [&](fur_update *tx) { fur_store(tx, word(1), uint64_t(2)); };
	static_assert(std::is_void_v<decltype(fur::update(self_, fur::rerun, nothing))>);
	fur::update(self_, fur::rerun, nothing);
	EXPECT_EQ(*word(1), 2u);
	const auto constant = [&](fur_update *tx) -> uint64_t { return fur_load(tx, word(0)); };
	EXPECT_EQ(fur::update(self_, fur::rerun, constant), 8u);
	auto only_moved = fur::update(self_, fur::rerun,
	        [&](fur_update *tx) { return std::make_unique<uint64_t>(fur_load(tx, word(0))); });
	EXPECT_EQ(*only_moved, 8u);
	EXPECT_EQ(fur::update(self_, fur::rerun, body_as_a_function), 5u);
	EXPECT_EQ(fur::update(self_, fur::rerun, &body_as_a_function), 5u);
	int calls = 0;
	fur::update(self_, fur::rerun, [calls](fur_update *) mutable { calls++; });
	std::function<int(fur_update *)> function = [&](fur_update *) { return ++calls; };
	EXPECT_EQ(fur::update(self_, fur::rerun, function), 1);
	expect_sound();
}

/* --------------------------------------------------------------------- in place */

class InPlace : public Software
{
protected:
	InPlace()
	{
		heap_.get()->engine.short_ticks = UINT64_MAX; /* no update is long */
	}
	/* Did the update run in place?  The mode is chosen as it is for users. */
	bool one_update()
	{
		fur_update *tx;
		fur::check(fur_begin_update(self_, &tx));
		bool in_place = tx->mode == TX_IN_PLACE;
		fur_store(tx, word(0), fur_load(tx, word(0)) + 1);
		fur::check(fur_commit(tx, nullptr));
		return in_place;
	}
	/* The number of updates until one runs in place. */
	int until_in_place()
	{
		for (int n = 0; n < 10000; n++)
			if (one_update())
				return n;
		return -1;
	}
};

TEST_F(InPlace, AfterManyUpdatesAlone)
{
	ASSERT_GT(until_in_place(), 0);
	fur_stats before = heap_.stats();
	for (int k = 0; k < 100; k++)
		EXPECT_TRUE(one_update());
	fur::update(self_, fur::rerun, [&](fur_update *tx) {
		EXPECT_EQ(tx->mode, TX_IN_PLACE);
		fur_store(tx, word(1), uint64_t(1));
	});
	fur_stats after = heap_.stats();
	EXPECT_EQ(after.lock_commits - before.lock_commits, 101u);
	EXPECT_EQ(after.serial_commits, before.serial_commits);
	EXPECT_EQ(after.software_commits, before.software_commits);
	expect_sound();
}

TEST_F(InPlace, AMeeting_EndsIt)
{
	for (bool reader : {true, false}) {
		ASSERT_GE(until_in_place(), 0);
		const uint64_t &meetings = heap_.get()->engine.meetings;
		fur_update *tx;
		ASSERT_EQ(fur_begin_update(self_, &tx), 0);
		EXPECT_EQ(tx->mode, TX_IN_PLACE);
		uint64_t before = __atomic_load_n(&meetings, __ATOMIC_SEQ_CST);
		fur_store(tx, word(1), uint64_t(5));
		std::atomic<uint64_t> seen{0};
		other_.start([&](fur_thread *t) {
			if (reader)
				seen = get(t, word(1));
			else
				set(t, word(1), 5);
		});
		while (__atomic_load_n(&meetings, __ATOMIC_SEQ_CST) == before)
			usleep(100);
		EXPECT_EQ(seen, 0u);
		EXPECT_EQ(fur_commit(tx, nullptr), 0);
		other_.finish();
		EXPECT_EQ(seen, reader ? 5u : 0u);
		EXPECT_FALSE(one_update());
	}
	expect_sound();
}

TEST_F(InPlace, ALongUpdate_EndsIt)
{
	ASSERT_GT(until_in_place(), 0);
	heap_.get()->engine.short_ticks = 0; /* each is long */
	EXPECT_TRUE(one_update());
	for (int k = 0; k < 1000; k++)
		EXPECT_FALSE(one_update());
	heap_.get()->engine.short_ticks = UINT64_MAX;
	EXPECT_GT(until_in_place(), 0);
	expect_sound();
}

/* -------------------------------------------------- bodies that are no functions */

jmp_buf left;

[[noreturn]] void leave_by_longjmp()
{
	longjmp(left, 1);
}

struct Left : Software {
	std::vector<tx_mode> modes;
	std::vector<uint64_t> seen;
	/* Each run but the serial one is defeated, in a load or in the commit. */
	void defeated_until_serial(bool in_commit)
	{
		fur_update *tx;
		bool again = setjmp(left) != 0;
		ASSERT_EQ(fur_begin_update_leaving(self_, &tx, leave_by_longjmp, again), 0);
		modes.push_back(tx->mode);
		seen.push_back(fur_load(tx, word(0)));
		fur_store(tx, word(1), seen.back() + 1);
		if (tx->mode == TX_CONCURRENT) {
			other_.run([&](fur_thread *t) { set(t, word(0), seen.back() + 10); });
			if (!in_commit)
				(void)fur_load(tx, word(0)); /* does not return */
		}
		ASSERT_EQ(fur_commit(tx, nullptr), 0);
	}
};

TEST_F(Left, ABodyThatIsNoFunction_RunsAgain_AndSeriallyAtLast)
{
	std::vector<tx_mode> expected(SOFTWARE_TRIES, TX_CONCURRENT);
	std::vector<uint64_t> values;
	expected.push_back(TX_SERIAL);
	for (uint64_t k = 0; k <= SOFTWARE_TRIES; k++)
		values.push_back(10 * k);
	for (bool in_commit : {false, true}) {
		set(self_, word(0), 0);
		modes.clear();
		seen.clear();
		defeated_until_serial(in_commit);
		EXPECT_EQ(modes, expected);
		EXPECT_EQ(seen, values);
		EXPECT_EQ(get(self_, word(1)), values.back() + 1);
	}
	EXPECT_EQ(heap_.stats().defeats, 2u * SOFTWARE_TRIES);
	expect_sound();
}

TEST_F(Software, ABodyThatIsNoFunction_IsOutermost)
{
	fur_update *tx, *inner;
	fur_ro *ro;
	EXPECT_EQ(fur_begin_update_leaving(self_, &tx, nullptr, false), FUR_EINVAL);
	EXPECT_EQ(fur_begin_update_leaving(nullptr, &tx, leave_by_longjmp, false), FUR_EINVAL);
	ASSERT_EQ(fur_begin_ro(self_, &ro), 0);
	EXPECT_EQ(fur_begin_update_leaving(self_, &tx, leave_by_longjmp, false), FUR_ENESTED);
	EXPECT_EQ(tx, nullptr);
	ASSERT_EQ(fur_end_ro(ro, nullptr), 0);
	ASSERT_EQ(fur_begin_update_leaving(self_, &tx, leave_by_longjmp, false), 0);
	EXPECT_EQ(fur_begin_update_leaving(self_, &inner, leave_by_longjmp, false), FUR_ENESTED);
	ASSERT_EQ(fur_join_update(self_, &inner), 0);
	fur_store(inner, word(0), uint64_t(3));
	EXPECT_EQ(fur_commit(inner, nullptr), 0);
	EXPECT_EQ(fur_commit(tx, nullptr), 0);
	EXPECT_EQ(get(self_, word(0)), 3u);
	other_.run([&](fur_thread *) {
		EXPECT_EQ(fur_begin_update_leaving(self_, &inner, leave_by_longjmp, false),
		        FUR_EINVAL);
	});
	expect_sound();
}

/* --------------------------------------------------- pages that are handed back */

/* Bodies have stores and loads behind them while another thread hands the heap's pages back. */
TEST_F(Software, PagesHandedBack_UnderAnOpenBody)
{
	std::string second = path_ + "-2";
	{
		fur::Options o = software_options();
		o.dram_bytes = 4096;
		fur::Heap heap = fur::Heap::create(second, o);
		fur::Thread t(heap);
		Helper helper(heap);
		auto *p = fur::update(t, [](fur_update *tx) {
			auto *q = static_cast<uint64_t *>(fur_alloc(tx, 1 << 17));
			for (int k = 0; k < 256; k++)
				fur_store(tx, &q[k * 64], uint64_t(7));
			return q;
		});
		int runs = 0;
		uint64_t handed = 0;
		fur::update(t, fur::rerun, [&](fur_update *tx) {
			ASSERT_EQ(tx->mode, TX_CONCURRENT);
			runs++;
			for (int k = 0; k < 100; k++) {
				EXPECT_EQ(fur_load(tx, &p[k * 64]), 7u);
				fur_store(tx, &p[k * 64 + 1], uint64_t(runs));
			}
			uint64_t before = heap.stats().times_handed_back;
			helper.run([&](fur_thread *u) {
				for (int k = 100; k < 250; k++)
					set(u, &p[k * 64 + 2], uint64_t(k));
			});
			handed = heap.stats().times_handed_back - before;
			for (int k = 0; k < 100; k++) {
				EXPECT_EQ(fur_load(tx, &p[k * 64]), 7u);
				EXPECT_EQ(fur_load(tx, &p[k * 64 + 1]), uint64_t(runs));
			}
			EXPECT_EQ(fur_load(tx, &p[200 * 64 + 2]), 200u);
		});
		EXPECT_EQ(runs, 1);
		EXPECT_GT(handed, 0u) << "no page was handed back meanwhile";
		for (int k = 0; k < 100; k++)
			EXPECT_EQ(p[k * 64 + 1], 1u);
	}
	unlink(second.c_str());
}

/* ------------------------------------------------------------ many at a time */

class Many : public Software
{
protected:
	enum { THREADS = MEDIA_DEPS + 44 };
	Many() : Software(options()) {}
	static fur::Options options()
	{
		fur::Options o = software_options();
		o.heap_bytes = 8 << 20;
		o.log_bytes = 16384;
		o.max_threads = 512;
		o.ring_slots = 1024;
		return o;
	}
};

/* More updates wait for the turn than a marker can name, and each has an old snapshot: so D may
 * have the holder's update, and those that publish beside it. */
TEST_F(Many, MoreUpdatesThanAMarkerCanName_End)
{
	std::atomic<int> loaded{0};
	std::atomic<bool> go{false};
	auto *cells = fur::update(self_, [&](fur_update *tx) {
		auto *p = static_cast<uint64_t *>(fur_alloc(tx, THREADS * 64));
		for (int k = 0; k < THREADS; k++)
			fur_store(tx, &p[k * 8], uint64_t(0));
		return p;
	});
	std::vector<std::thread> threads;
	for (int k = 0; k < THREADS; k++)
		threads.emplace_back([&, cell = &cells[k * 8]] {
			fur::Thread self(heap_);
			fur::update(self, fur::rerun, [&](fur_update *tx) {
				uint64_t now = fur_load(tx, cell);
				if (!go)
					loaded++;
				while (!go)
					usleep(1000);
				fur_store(tx, cell, now + 1);
			});
		});
	while (loaded < THREADS)
		usleep(1000);
	prefer_in_place(self_, false);
	set(self_, word(0), 1); /* makes all their snapshots old */
	prefer_in_place(self_, false);
	fur::update(self_, [&](fur_update *tx) {
		EXPECT_EQ(tx->mode, TX_SERIAL);
		fur_store(tx, word(1), uint64_t(1));
		go = true;
		usleep(300000); /* until most of them sleep */
	});
	for (auto &t : threads)
		t.join();
	for (int k = 0; k < THREADS; k++)
		EXPECT_EQ(cells[k * 8], 1u);
	expect_sound();
}

} // namespace
