/* SPDX-License-Identifier: BSD-3-Clause
 *
 * optimistic_test.cpp - optimistic readers: a run never mixes two states of the heap, whatever its
 * loads look like and whatever the body does.
 */
#include "software.hpp"

#include <functional>
#include <future>
#include <sys/wait.h>
#include <thread>

namespace
{

class Optimistic : public Software
{
protected:
	void SetUp() override
	{
		if (readers_are_plain())
			GTEST_SKIP() << "an update would wait for the reader";
	}
	/* fur_read_run() with a body that has nothing to destroy. */
	template <class Body>
	static int read_in_c(fur_thread *t, Body body, fur_ticket *ticket = nullptr)
	{
		const fur_run how = {sizeof how, ticket, nullptr};
		return fur_read_run(
		        t, [](fur_reader *tx, void *arg) { (*static_cast<Body *>(arg))(tx); },
		        &body, &how);
	}
	/* The helper stores to both words in one concurrent update. */
	void other_sets_both(uint64_t *one, uint64_t *two, uint64_t value)
	{
		other_.run([=, this](fur_thread *t) {
			update_in(
			        TX_CONCURRENT,
			        [&](fur_update *tx) {
				        fur_store(tx, one, value);
				        fur_store(tx, two, value);
			        },
			        t);
		});
	}
};

/* How the helper changes the heap under a body. */
class OptimisticBesideUpdate : public Optimistic, public ::testing::WithParamInterface<tx_mode>
{
};

TEST_P(OptimisticBesideUpdate, RunsAgain_AndSeesOneState)
{
	int runs = 0;
	uint64_t a = 9, b = 8;
	EXPECT_EQ(
	        read_in_c(self_,
	                [&](fur_reader *tx) {
		                runs++;
		                a = fur_load(tx, word(0));
		                if (runs == 1)
			                other_.run([&](fur_thread *t) {
				                update_in(
				                        GetParam(),
				                        [&](fur_update *u) {
					                        fur_store(u, word(0), UINT64_C(7));
					                        fur_store(u, word(1), UINT64_C(7));
				                        },
				                        t);
			                });
		                b = fur_load(tx, word(1));
	                }),
	        0)
	        << fur_errormsg();
	EXPECT_EQ(runs, 2);
	EXPECT_EQ(a, 7u);
	EXPECT_EQ(b, 7u);
	expect_sound();
}

TEST_P(OptimisticBesideUpdate, KeepsWhatHasNotChanged)
{
	int runs = 0;
	EXPECT_EQ(read_in_c(self_,
	                  [&](fur_reader *tx) {
		                  runs++;
		                  (void)fur_load(tx, word(0));
		                  other_.run([&](fur_thread *t) {
			                  update_in(
			                          GetParam(),
			                          [&](fur_update *u) {
				                          fur_store(u, word(2),
				                                  fur_load(u, word(2)) + 1);
			                          },
			                          t);
		                  });
		                  if (GetParam() != TX_IN_PLACE) /* a sweep ends the run */
			                  (void)fur_load(tx, word(1));
	                  }),
	        0);
	EXPECT_EQ(runs, 1);
	expect_sound();
}

INSTANTIATE_TEST_SUITE_P(, OptimisticBesideUpdate,
        ::testing::Values(TX_IN_PLACE, TX_SERIAL, TX_CONCURRENT), mode_name);

/* A struct that fur_load() takes whole, on two lines with a stamp each. */
TEST_F(Optimistic, LoadAcrossTwoLines_SeesOneState)
{
	struct Pair {
		uint32_t low, high;
	};
	static_assert(alignof(Pair) == 4, "it may lie across two lines");
	auto *line = reinterpret_cast<char *>(word(2));
	while (reinterpret_cast<uintptr_t>(line) % 64)
		line += 8;
	const auto *across = reinterpret_cast<Pair *>(line + 60);
	auto *second_line = reinterpret_cast<uint64_t *>(line + 64);
	int runs = 0;
	uint64_t first = 9;
	Pair pair{};
	EXPECT_EQ(read_in_c(self_,
	                  [&](fur_reader *tx) {
		                  runs++;
		                  first = fur_load(tx, word(0));
		                  if (runs == 1)
			                  other_sets_both(word(0), second_line, 7);
		                  pair = fur_load(tx, across);
	                  }),
	        0);
	EXPECT_EQ(first, pair.high) << "two states of the heap, in run " << runs;
	EXPECT_EQ(pair.high, 7u);
	expect_sound();
}

/* Each run meets an update of what it has loaded: the last one reads what that has overwritten. */
TEST_F(Optimistic, BodyThatNeverEndsWell_ReadsFromASnapshotInTheEnd)
{
	int runs = 0;
	EXPECT_EQ(read_in_c(self_,
	                  [&](fur_reader *tx) {
		                  runs++;
		                  const uint64_t a = fur_load(tx, word(0));
		                  other_sets_both(word(0), word(1), a + 1);
		                  EXPECT_EQ(fur_load(tx, word(1)), a);
	                  }),
	        0);
	EXPECT_EQ(runs, 4);
	EXPECT_EQ(get(self_, word(0)), 4u);
	EXPECT_EQ(heap_.stats().snapshots, 0u) << "it has ended";
	expect_sound();
}

/* Another thread, whose read opens a snapshot. */
class OptimisticBesideSnapshot : public Optimistic
{
protected:
	fur_snapshot *other_opens()
	{
		opener_ = std::thread([this] {
			fur::Thread its(heap_);
			read_in_c(its.get(), [this](fur_reader *tx) {
				const uint64_t a = fur_load(tx, word(2));
				if (tx->snapshot) {
					opened_.set_value(tx->snapshot);
					ends_.get_future().wait();
				} else {
					other_sets_both(word(2), word(3), a + 1);
				}
				EXPECT_EQ(fur_load(tx, word(3)), a);
			});
		});
		return opened_.get_future().get();
	}
	void other_ends()
	{
		ends_.set_value();
		opener_.join();
	}

private:
	std::promise<fur_snapshot *> opened_;
	std::promise<void> ends_;
	std::thread opener_;
};

/* INV-OR4 */
TEST_F(OptimisticBesideSnapshot, BodyInVain_JoinsWhatWasOpenedSinceItBegan)
{
	int runs = 0;
	EXPECT_EQ(read_in_c(self_,
	                  [&](fur_reader *tx) {
		                  const uint64_t a = fur_load(tx, word(0));
		                  if (runs++ == 0) {
			                  EXPECT_EQ(other_opens()->users, 1u);
			                  other_sets_both(word(0), word(1), a + 1);
		                  }
		                  EXPECT_EQ(fur_load(tx, word(1)), a);
		                  EXPECT_EQ(tx->snapshot->users, 2u);
	                  }),
	        0);
	EXPECT_EQ(runs, 2);
	EXPECT_EQ(heap_.stats().snapshots, 1u) << "the other thread is in it";
	other_ends();
	EXPECT_EQ(heap_.stats().snapshots, 0u) << "the last one ends it";
	expect_sound();
}

TEST_F(OptimisticBesideSnapshot, BodyInVain_JoinsNoneThatIsOlderThanItsTransaction)
{
	(void)other_opens();
	set(self_, word(0), 5);
	int runs = 0;
	EXPECT_EQ(read_in_c(self_,
	                  [&](fur_reader *tx) {
		                  EXPECT_EQ(tx->snapshot, nullptr);
		                  const uint64_t a = fur_load(tx, word(0));
		                  EXPECT_GE(a, 5u);
		                  if (runs++ == 0)
			                  other_sets_both(word(0), word(1), a + 1);
		                  EXPECT_EQ(fur_load(tx, word(1)), runs == 1 ? 0 : a);
	                  }),
	        0);
	EXPECT_EQ(runs, 2);
	other_ends();
	expect_sound();
}

TEST_F(Optimistic, BodyThatCannotHaveASnapshot_RunsPlainlyInTheEnd)
{
	std::vector<fur::Snapshot> all;
	for (int k = 0; k < SNAPSHOTS_MOST; k++)
		all.emplace_back(self_);
	int runs = 0;
	EXPECT_EQ(read_in_c(self_,
	                  [&](fur_reader *tx) {
		                  runs++;
		                  const uint64_t a = fur_load(tx, word(0));
		                  if (!tx->plain)
			                  other_sets_both(word(0), word(1), a + 1);
		                  EXPECT_EQ(fur_load(tx, word(1)), a);
	                  }),
	        0);
	EXPECT_EQ(runs, 4);
	all.clear();
	expect_sound();
}

TEST_F(Optimistic, BodyWhoseSnapshotIsRevoked_RunsPlainlyInTheEnd)
{
	heap_.get()->engine.snapshot_bytes = 1; /* 512 lines */
	auto *block = reinterpret_cast<uint64_t *>(block_in_root(self_, 64 * 1024, 0));
	int runs = 0;
	EXPECT_EQ(read_in_c(self_,
	                  [&](fur_reader *tx) {
		                  runs++;
		                  const uint64_t a = fur_load(tx, block);
		                  if (!tx->plain)
			                  other_.run([&](fur_thread *t) {
				                  for (unsigned k = 0; k < 1000; k++)
					                  set(t, &block[8 * k], a + 1);
			                  });
		                  for (unsigned k = 0; k < 1000; k++)
			                  EXPECT_EQ(fur_load(tx, &block[8 * k]), a);
	                  }),
	        0);
	EXPECT_EQ(runs, 5);
	EXPECT_EQ(heap_.stats().snapshots_revoked, 1u);
	expect_sound();
}

TEST_F(Optimistic, HeapAndRegistration_AreInUse)
{
	EXPECT_EQ(read_in_c(self_,
	                  [&](fur_reader *tx) {
		                  EXPECT_EQ(fur_close(heap_.get()), FUR_EBUSY);
		                  EXPECT_EQ(fur_thread_unregister(self_), FUR_EBUSY);
		                  EXPECT_EQ(
		                          fur_thread_transaction(self_), FUR_TRANSACTION_READ_ONLY);
		                  other_.run([&](fur_thread *) {
			                  EXPECT_EQ(fur_close(heap_.get()), FUR_EBUSY);
		                  });
		                  EXPECT_EQ(fur_load(tx, word(0)), 0u);
	                  }),
	        0);
	expect_sound();
}

TEST_F(Optimistic, ForkInTheBody_LeavesAChildThatReadsAndEnds)
{
	pid_t child = -1;
	uint64_t *stamp = stamp_of(&heap_.get()->engine, word(0));
	const uint64_t before = *stamp;
	int status = -1;
	auto body = [&](fur_reader *tx) {
		(void)fur_load(tx, word(1));
		*stamp = stamp_held_by(5, 0); /* another thread publishes at this moment */
		child = fork();
		if (child == 0 && fur_load(tx, word(0)) != 0) /* a plain load: it waits for none */
			_exit(2);
		*stamp = before;
	};
	const int error = read_in_c(self_, body);
	if (child == 0)
		_exit(error == FUR_EFORK ? 0 : 1);
	ASSERT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0);
	EXPECT_EQ(error, 0);
	expect_sound();
}

#ifndef FUR_CHECKS
TEST_F(Optimistic, JoinedReadThatIsLeftOpen_EndsWithTheRun)
{
	EXPECT_EQ(read_in_c(self_,
	                  [&](fur_reader *) {
		                  fur_ro *ro;
		                  EXPECT_EQ(fur_join_ro(self_, &ro), 0);
	                  }),
	        0);
	expect_sound();
}
#endif

TEST_F(Optimistic, JoinedRead_RunsPlainly)
{
	int joined = 0;
	EXPECT_EQ(read_in_c(self_,
	                  [&](fur_reader *tx) {
		                  fur_ro *ro;
		                  (void)fur_load(tx, word(0));
		                  ASSERT_EQ(fur_join_ro(self_, &ro), 0);
		                  joined++;
		                  EXPECT_TRUE(tx->plain);
		                  EXPECT_EQ(fur_load(ro, word(0)), 0u);
		                  EXPECT_EQ(fur_end_ro(ro, nullptr), 0);
	                  }),
	        0);
	EXPECT_EQ(joined, 1);
	expect_sound();
}

/* ---------------------------------------------------------------- exceptions */

TEST_F(Optimistic, BodyThatSwallowsTheLeave_LoadsNothingMore)
{
	int runs = 0, swallowed = 0, loaded = 0;
	fur::read(self_, fur::rerun, [&](fur_reader *tx) {
		(void)fur_load(tx, word(0));
		if (++runs == 1)
			other_sets_both(word(0), word(1), 7);
		for (int k = 0; runs == 1 && k < 3; k++)
			try {
				(void)fur_load(tx, word(k % 2));
				loaded++;
			} catch (...) {
				swallowed++;
			}
		EXPECT_EQ(fur_load(tx, word(0)), 7u);
		EXPECT_EQ(fur_load(tx, word(1)), 7u);
	});
	EXPECT_EQ(runs, 2);
	EXPECT_EQ(loaded, 0);
	EXPECT_EQ(swallowed, 3);
	expect_sound();
}

TEST_F(Optimistic, ExceptionOfTheBody_LeavesNoTicket)
{
	fur_ticket ticket{};
	EXPECT_THROW(fur::read(self_, fur::rerun, ticket,
	                     [&](fur_reader *tx) {
		                     if (fur_load(tx, word(0)) == 0)
			                     throw std::runtime_error("none");
	                     }),
	        std::runtime_error);
	EXPECT_EQ(ticket.source, 0u);
	fur::read(self_, fur::rerun, ticket, [&](fur_reader *tx) { (void)fur_load(tx, word(0)); });
	EXPECT_NE(ticket.source, 0u);
	EXPECT_EQ(fur_wait(self_, ticket), 0);
	expect_sound();
}

/* --------------------------------------------------------- with both forms */

TEST_F(Optimistic, BodyOfEitherForm_IsPlainAgainAfterTheLastUpdate)
{
	engine &e = heap_.get()->engine;
	turn_take(&e);
	(void)readers_shut_out(&e, self_.get()->index).met;
	updates_let_in(&e);
	turn_give(&e);
	int plain = 0, reads = 0;
	while (plain == 0 && reads < 1000) {
		fur::read(self_, fur::rerun, [&](auto *tx) {
			plain += std::is_same_v<decltype(tx), fur_ro *>;
			(void)fur_load(tx, word(0));
		});
		reads++;
	}
	EXPECT_EQ(plain, 1);
	EXPECT_GT(reads, 1);
	expect_sound();
}

} // namespace
