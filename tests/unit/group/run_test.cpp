/* SPDX-License-Identifier: BSD-3-Clause
 *
 * run_test.cpp - updates and readers over several heaps: what they do, refuse, and see of each
 * other.
 */
#include "group.hpp"

#include <atomic>
#include <thread>

namespace
{

using GroupRun = GroupHeaps;

/* A second thread of the group, and what it does. */
class Other
{
public:
	explicit Other(fur_group *g) : group_(g) {}
	void start(std::function<void(fur_group_thread *)> work)
	{
		thread_ = std::thread([this, work = std::move(work)] {
			fur_group_thread *t;
			ASSERT_EQ(fur_group_register(group_, &t), 0);
			work(t);
			EXPECT_EQ(fur_group_unregister(t), 0) << fur_errormsg();
		});
	}
	void finish()
	{
		thread_.join();
	}
	void does(std::function<void(fur_group_thread *)> work)
	{
		start(std::move(work));
		finish();
	}

private:
	fur_group *group_;
	std::thread thread_;
};

/* --------------------------------------------------------------- one thread */

TEST_F(GroupRun, Update_IsInAllHeaps_AndSurvivesAReopen)
{
	for (uint64_t n = 1; n <= 200; n++) { /* the rings and logs wrap */
		ASSERT_EQ(transfer(n % 3, (n + 1) % 3, n), 0) << fur_errormsg();
		ASSERT_EQ(value(0) + value(1) + value(2), 0u);
	}
	const uint64_t before[] = {value(0), value(1), value(2)};
	EXPECT_NE(before[0], 0u);
	reopen();
	for (unsigned k = 0; k < HEAPS; k++)
		EXPECT_EQ(value(k), before[k]);
	EXPECT_EQ(transfer(0, 1, 5), 0);
	EXPECT_EQ(value(1), before[1] + 5);
}

TEST_F(GroupRun, Body_ReadsItsOwnStores_AndMayNameMembersInAnyOrder)
{
	EXPECT_EQ(group_run(self_, {2, 0, 1},
	                  [&](fur_group_update *u) {
		                  for (unsigned k = 0; k < HEAPS; k++) {
			                  fur_update *tx = fur_group_on(u, k);
			                  fur_store(tx, word(k), uint64_t(k + 7));
			                  fur_write(tx, word(k, 1), word(k), 8);
			                  EXPECT_EQ(fur_load(tx, word(k, 1)), k + 7);
		                  }
		                  EXPECT_EQ(fur_group_on(u, 3), nullptr);
	                  }),
	        0)
	        << fur_errormsg();
	for (unsigned k = 0; k < HEAPS; k++)
		EXPECT_EQ(value(k, 1), k + 7);
}

TEST_F(GroupRun, Update_ThatOnlyReads_OrWritesOneMember_OrNamesOne)
{
	ASSERT_EQ(transfer(0, 1, 9), 0);
	uint64_t sum = 1;
	EXPECT_EQ(group_run(self_, {0, 1},
	                  [&](fur_group_update *u) {
		                  sum = fur_load(fur_group_on(u, 0), word(0)) +
		                        fur_load(fur_group_on(u, 1), word(1));
	                  }),
	        0);
	EXPECT_EQ(sum, 0u);
	EXPECT_EQ(group_run(self_, {0, 1},
	                  [&](fur_group_update *u) {
		                  fur_update *b = fur_group_on(u, 1);
		                  fur_store(b, word(1, 1), fur_load(fur_group_on(u, 0), word(0)));
	                  }),
	        0);
	EXPECT_EQ(value(1, 1), value(0));
	EXPECT_EQ(group_run(self_, {2},
	                  [&](fur_group_update *u) {
		                  fur_store(fur_group_on(u, 2), word(2), uint64_t(4));
	                  }),
	        0);
	EXPECT_EQ(value(2), 4u);
	EXPECT_EQ(group_run(self_, {0, 1, 2}, [](fur_group_update *) {}), 0);
}

TEST_F(GroupRun, LargeUpdates_WrapTheLogs_AlsoWithinTheNamesOfTheParts)
{
	/* Records of every length up to a third of the log. */
	for (unsigned n = 1; n < rounds(600u); n++)
		ASSERT_EQ(group_run(self_, {0, 1},
		                  [&](fur_group_update *u) {
			                  for (unsigned k = 0; k < 2; k++)
				                  for (unsigned w = 0; w < n % 61; w++)
					                  fur_store(fur_group_on(u, k), word(k, w),
					                          uint64_t(n));
			                  fur_store(fur_group_on(u, 0), word(0, 63), uint64_t(n));
			                  fur_store(fur_group_on(u, 1), word(1, 63), uint64_t(n));
		                  }),
		        0)
		        << fur_errormsg();
	for (unsigned w = 0; w < WORDS; w++)
		EXPECT_EQ(value(0, w), value(1, w));
	EXPECT_EQ(value(0, 63), rounds(600u) - 1);
}

TEST_F(GroupRun, Allocation_InOneHeapForAnother)
{
	EXPECT_EQ(group_run(self_, {0, 1},
	                  [&](fur_group_update *u) {
		                  auto *p = static_cast<uint64_t *>(
		                          fur_alloc(fur_group_on(u, 1), 256));
		                  ASSERT_NE(p, nullptr);
		                  fur_store(fur_group_on(u, 1), p, uint64_t(11));
		                  fur_store(fur_group_on(u, 0), word(0),
		                          reinterpret_cast<uint64_t>(p));
	                  }),
	        0)
	        << fur_errormsg();
	EXPECT_EQ(*reinterpret_cast<uint64_t *>(value(0)), 11u);
}

/* --------------------------------------------------------------- roll back */

TEST_F(GroupRun, Failure_InOneHeap_RollsAllBack)
{
	uint64_t outside = 0;
	EXPECT_EQ(group_run(self_, {0, 1},
	                  [&](fur_group_update *u) {
		                  fur_store(fur_group_on(u, 0), word(0), uint64_t(1));
		                  fur_store(fur_group_on(u, 1), &outside, uint64_t(1));
	                  }),
	        FUR_ERANGE);
	EXPECT_NE(std::string(fur_errormsg()).find("outside the heap"), std::string::npos);
	EXPECT_EQ(value(0), 0u);
	EXPECT_EQ(transfer(0, 1, 1), 0) << fur_errormsg();
}

TEST_F(GroupRun, TooBigForOneLog_RollsAllBack)
{
	EXPECT_EQ(group_run(self_, {0, 1},
	                  [&](fur_group_update *u) {
		                  fur_store(fur_group_on(u, 0), word(0), uint64_t(1));
		                  std::array<uint64_t, WORDS> all;
		                  all.fill(3);
		                  for (unsigned k = 0; k < 20; k++)
			                  fur_write(fur_group_on(u, 1), word(1), all.data(),
			                          sizeof all);
	                  }),
	        FUR_ETOOBIG);
	EXPECT_EQ(value(0) | value(1), 0u);
	EXPECT_EQ(transfer(0, 1, 1), 0) << fur_errormsg();
}

TEST_F(GroupRun, Abort_RollsAllBack)
{
	EXPECT_EQ(group_run(self_, {0, 1},
	                  [&](fur_group_update *u) {
		                  fur_store(fur_group_on(u, 0), word(0), uint64_t(1));
		                  fur_store(fur_group_on(u, 1), word(1), uint64_t(1));
		                  EXPECT_EQ(fur_group_abort(u), FUR_EABORTED);
		                  EXPECT_EQ(fur_group_abort(u), FUR_ENOTX);
	                  }),
	        FUR_EABORTED);
	EXPECT_EQ(value(0) | value(1), 0u);
	EXPECT_EQ(transfer(0, 1, 1), 0) << fur_errormsg();
}

TEST_F(GroupRun, Thread_ThatEndsInsideTheBody_RollsAllBack)
{
	Other other(group_);
	std::thread([&] {
		fur_group_thread *t;
		ASSERT_EQ(fur_group_register(group_, &t), 0);
		(void)group_run(t, {0, 1}, [&](fur_group_update *u) {
			fur_store(fur_group_on(u, 0), word(0), uint64_t(1));
			fur_store(fur_group_on(u, 1), word(1), uint64_t(1));
			pthread_exit(nullptr);
		});
	}).join();
	EXPECT_EQ(value(0) | value(1), 0u);
	other.does([&](fur_group_thread *t) { EXPECT_EQ(transfer(0, 1, 1, t), 0); });
}

/* ------------------------------------------------------------------- misuse */

TEST_F(GroupRun, Misuse_IsRefused)
{
	const auto nothing = [](fur_group_update *) {};
	fur_ticket ticket;
	fur_run how = {};
	how.size = sizeof how;
	how.ticket = &ticket;
	EXPECT_EQ(group_run(self_, {0, 1, 0}, nothing), FUR_EINVAL);
	EXPECT_EQ(group_run(self_, {0, 9}, nothing), FUR_EINVAL);
	EXPECT_EQ(group_run(self_, {}, nothing), FUR_EINVAL);
	EXPECT_EQ(group_run(nullptr, {0}, nothing), FUR_EINVAL);
	EXPECT_EQ(group_run(self_, {0, 1}, nothing, &how), FUR_EINVAL);
	EXPECT_EQ(group_run(self_, std::vector<unsigned>(17, 0), nothing), FUR_EINVAL);
	EXPECT_EQ(group_read(self_, {1, 1}, [](fur_group_reader *) {}), FUR_EINVAL);
	fur_update *tx;
	ASSERT_EQ(fur_begin_update(thread(0), &tx), 0);
	EXPECT_EQ(group_run(self_, {0, 1}, nothing), FUR_ENESTED);
	EXPECT_EQ(fur_commit(tx, nullptr), 0);
	Other(group_).does(
	        [&](fur_group_thread *) { EXPECT_EQ(group_run(self_, {0}, nothing), FUR_EINVAL); });
}

TEST_F(GroupRun, InsideTheBody_MembersAreJoined_AndNothingElseBegins)
{
	EXPECT_EQ(group_run(self_, {0, 1},
	                  [&](fur_group_update *u) {
		                  fur_update *tx;
		                  fur_ro *ro;
		                  fur_thread *third = thread(2);
		                  EXPECT_EQ(fur_begin_update(third, &tx), FUR_ENESTED);
		                  EXPECT_EQ(fur_begin_update(thread(1), &tx), FUR_ENESTED);
		                  EXPECT_EQ(fur_begin_ro(thread(0), &ro), FUR_ENESTED);
		                  EXPECT_EQ(fur_join_ro(thread(1), &ro), FUR_ENESTED);
		                  EXPECT_EQ(group_run(self_, {2}, [](fur_group_update *) {}),
		                          FUR_ENESTED);
		                  for (unsigned k = 0; k < 2; k++) {
			                  EXPECT_EQ(fur_commit(fur_group_on(u, k), nullptr),
			                          FUR_ENESTED);
			                  EXPECT_EQ(fur_abort(fur_group_on(u, k)), FUR_ENESTED);
			                  ASSERT_EQ(fur_join_update(thread(k), &tx), 0)
			                          << fur_errormsg();
			                  fur_store(tx, word(k), uint64_t(6));
			                  EXPECT_EQ(fur_commit(tx, nullptr), 0) << fur_errormsg();
		                  }
	                  }),
	        0)
	        << fur_errormsg();
	EXPECT_EQ(value(0) + value(1), 12u);
}

/* ------------------------------------------------------------------- defeats */

TEST_F(GroupRun, Update_IsDefeatedByAnotherOfOneHeap_AndRunsAgain)
{
	Other other(group_);
	int runs = 0;
	EXPECT_EQ(group_run(self_, {0, 1},
	                  [&](fur_group_update *u) {
		                  const uint64_t had = fur_load(fur_group_on(u, 1), word(1));
		                  if (++runs == 1)
			                  other.does([&](fur_group_thread *t) {
				                  fur::update(thread(1, t), fur::rerun,
				                          [&](fur_update *tx) {
					                          fur_store(tx, word(1),
					                                  uint64_t(40));
				                          });
			                  });
		                  fur_store(fur_group_on(u, 0), word(0), had + 1);
	                  }),
	        0);
	EXPECT_EQ(runs, 2);
	EXPECT_EQ(value(0), 41u);
}

/* INV-GU2: the other's update changes both heaps between the body's two loads. */
/* In the wait for the updates before it nothing counts threads: so each update does, before it. */
TEST_F(GroupRun, Updates_CountTheCrowd)
{
	struct crowd &c = heap(0)->engine.crowd;
	for (const uint32_t cores : {0u, 100u}) {
		c.cores = cores;
		c.crowded = cores != 0;
		for (unsigned k = 0; k < 3; k++) {
			c.next_count = 1; /* it is due */
			ASSERT_EQ(transfer(0, 1, 1), 0) << fur_errormsg();
		}
		EXPECT_EQ(c.crowded, cores == 0);
	}
}

TEST_F(GroupRun, Body_NeverSeesHalfOfAnother)
{
	Other other(group_);
	int runs = 0, wrong = 0;
	EXPECT_EQ(group_run(self_, {0, 1},
	                  [&](fur_group_update *u) {
		                  const uint64_t a = fur_load(fur_group_on(u, 0), word(0));
		                  if (++runs == 1)
			                  other.does([&](fur_group_thread *t) {
				                  EXPECT_EQ(transfer(0, 1, 5, t), 0);
			                  });
		                  wrong += a + fur_load(fur_group_on(u, 1), word(1)) != 0;
		                  fur_store(fur_group_on(u, 0), word(0, 1), a);
	                  }),
	        0);
	EXPECT_EQ(runs, 2);
	EXPECT_EQ(wrong, 0);
}

/* A body that others defeat each time runs serially in the end, and nothing publishes beside. */
TEST_F(GroupRun, Body_ThatIsDefeatedAgainAndAgain_RunsSerially)
{
	int runs = 0;
	EXPECT_EQ(
	        group_run(self_, {0, 1},
	                [&](fur_group_update *u) {
		                const uint64_t had = fur_load(fur_group_on(u, 1), word(1));
		                if (++runs <= SOFTWARE_TRIES)
			                Other(group_).does([&](fur_group_thread *t) {
				                fur::update(thread(1, t), fur::rerun,
				                        [&](fur_update *tx) {
					                        fur_store(tx, word(1),
					                                fur_load(tx, word(1)) + 1);
				                        });
			                });
		                EXPECT_EQ(fur_group_on(u, 0)->mode,
		                        runs <= SOFTWARE_TRIES ? TX_CONCURRENT : TX_SERIAL);
		                EXPECT_EQ(fur_group_on(u, 1)->mode,
		                        runs <= SOFTWARE_TRIES ? TX_CONCURRENT : TX_SERIAL);
		                fur_store(fur_group_on(u, 0), word(0), had);
	                }),
	        0);
	EXPECT_EQ(runs, SOFTWARE_TRIES + 1);
	EXPECT_EQ(value(0), uint64_t(SOFTWARE_TRIES));
	EXPECT_EQ(transfer(0, 1, 1), 0);
	for (unsigned k = 0; k < 2; k++)
		EXPECT_EQ(heap(k)->engine.lock.taken, 0u);
}

TEST_F(GroupRun, Body_IsLeftByAFunction_AsThroughForeignFrames)
{
	struct Left {
	};
	static int left;
	left = 0;
	int runs = 0;
	fur_run how = {};
	how.size = sizeof how;
	how.leave = [] {
		left++;
		throw Left();
	};
	EXPECT_EQ(group_run(
	                  self_, {0, 1},
	                  [&](fur_group_update *u) {
		                  try {
			                  (void)fur_load(fur_group_on(u, 0), word(0));
			                  if (++runs == 1)
				                  Other(group_).does([&](fur_group_thread *t) {
					                  EXPECT_EQ(transfer(0, 1, 5, t), 0);
				                  });
			                  const uint64_t b = fur_load(fur_group_on(u, 1), word(1));
			                  fur_store(fur_group_on(u, 0), word(0, 1), b);
		                  } catch (Left) {
		                  }
	                  },
	                  &how),
	        0);
	EXPECT_EQ(runs, 2);
	EXPECT_EQ(left, 1);
	EXPECT_EQ(value(0, 1), 5u);
}

/* ------------------------------------------------------------------- readers */

TEST_F(GroupRun, Reader_SeesOneStateOfAllHeaps)
{
	if (readers_are_plain())
		GTEST_SKIP() << "updates wait for such readers: the body must not wait for one";
	int runs = 0, wrong = 0;
	EXPECT_EQ(group_read(self_, {1, 0},
	                  [&](fur_group_reader *r) {
		                  const uint64_t a = fur_load(fur_group_reads(r, 0), word(0));
		                  if (++runs == 1)
			                  Other(group_).does([&](fur_group_thread *t) {
				                  EXPECT_EQ(transfer(0, 1, 5, t), 0);
			                  });
		                  wrong += a + fur_load(fur_group_reads(r, 1), word(1)) != 0;
		                  EXPECT_EQ(fur_group_reads(r, 2), nullptr);
	                  }),
	        0)
	        << fur_errormsg();
	EXPECT_EQ(runs, 2);
	EXPECT_EQ(wrong, 0);
	for (unsigned k = 0; k < HEAPS; k++)
		EXPECT_EQ(heap(k)->engine.active[thread(k)->index].seq, 0u);
}

TEST_F(GroupRun, Reader_ThatRunsInVain_IsPlainInTheEnd_AndUpdatesWaitForIt)
{
	if (readers_are_plain())
		GTEST_SKIP() << "updates wait for such readers: the body must not wait for one";
	int runs = 0;
	std::atomic<bool> ended{false}, inside{false};
	std::thread late;
	EXPECT_EQ(group_read(self_, {0, 1},
	                  [&](fur_group_reader *r) {
		                  (void)fur_load(fur_group_reads(r, 0), word(0));
		                  if (++runs <= 3) {
			                  Other(group_).does([&](fur_group_thread *t) {
				                  EXPECT_EQ(transfer(0, 1, 5, t), 0);
			                  });
			                  (void)fur_load(fur_group_reads(r, 1), word(1));
		                  } else {
			                  EXPECT_TRUE(fur_group_reads(r, 0)->plain);
			                  late = std::thread([&] {
				                  fur_group_thread *t;
				                  ASSERT_EQ(fur_group_register(group_, &t), 0);
				                  inside = true;
				                  EXPECT_EQ(transfer(0, 1, 5, t), 0);
				                  EXPECT_TRUE(ended);
				                  EXPECT_EQ(fur_group_unregister(t), 0);
			                  });
			                  while (!inside)
				                  usleep(100);
			                  usleep(20000);
			                  EXPECT_EQ(fur_load(fur_group_reads(r, 1), word(1)), 15u);
			                  ended = true;
		                  }
	                  }),
	        0)
	        << fur_errormsg();
	late.join();
	EXPECT_EQ(runs, 4);
	EXPECT_EQ(value(1), 20u);
}

/* INV-GU3: an update that waits for a reader of heap 1 keeps nothing of heap 0. */
TEST_F(GroupRun, LongReaderOfOneHeap_LetsUpdatesOfTheOtherGoOn)
{
	Other group(group_), local(group_);
	std::atomic<bool> began{false};
	fur_ro *ro;
	ASSERT_EQ(fur_begin_ro(thread(1), &ro), 0);
	group.start([&](fur_group_thread *t) {
		began = true;
		EXPECT_EQ(transfer(0, 1, 5, t), 0);
	});
	while (!began)
		usleep(100);
	usleep(20000);
	local.does([&](fur_group_thread *t) {
		for (int k = 0; k < 50; k++)
			fur::update(thread(0, t), fur::rerun, [&](fur_update *tx) {
				fur_store(tx, word(0, 9), fur_load(tx, word(0, 9)) + 1);
			});
	});
	EXPECT_EQ(*word(1), 0u);
	EXPECT_EQ(fur_end_ro(ro, nullptr), 0);
	group.finish();
	EXPECT_EQ(value(1), 5u);
	EXPECT_EQ(value(0, 9), 50u);
}

/* ----------------------------------------------------------------------- C++ */

TEST_F(GroupRun, Cpp_ReturnsWhatTheBodyReturns_AndRollsBackWhatItThrows)
{
	EXPECT_EQ(fur::update(self_, fur::rerun, {1, 0},
	                  [&](const fur::GroupUpdate &tx) {
		                  for (unsigned k = 0; k < 2; k++)
			                  fur_store(tx[k], word(k), uint64_t(k + 3));
		                  EXPECT_EQ(tx[2], nullptr);
		                  return fur_load(tx[0], word(0));
	                  }),
	        3u);
	EXPECT_THROW(fur::update(self_, fur::rerun, {0, 1},
	                     [&](const fur::GroupUpdate &tx) {
		                     fur_store(tx[0], word(0), uint64_t(9));
		                     throw std::out_of_range("no");
	                     }),
	        std::out_of_range);
	EXPECT_EQ(fur::read(self_, fur::rerun, {0, 1},
	                  [&](const fur::GroupReader &tx) {
		                  return fur_load(tx[0], word(0)) * 10 + fur_load(tx[1], word(1));
	                  }),
	        34u);
	EXPECT_THROW(fur::read(self_, fur::rerun, {0, 1},
	                     [&](const fur::GroupReader &) { throw std::out_of_range("no"); }),
	        std::out_of_range);
	EXPECT_THROW(fur::update(self_, fur::rerun, {0, 7}, [](const fur::GroupUpdate &) {}),
	        fur::Error);
	EXPECT_EQ(transfer(0, 1, 3), 0);
}

TEST_F(GroupRun, Cpp_ADefeatedBody_IsLeftByAnException)
{
	struct Counts {
		explicit Counts(int &n) : n_(n) {}
		~Counts()
		{
			n_++;
		}
		int &n_;
	};
	int runs = 0, destroyed = 0;
	fur::update(self_, fur::rerun, {0, 1}, [&](const fur::GroupUpdate &tx) {
		const Counts counts(destroyed);
		(void)fur_load(tx[0], word(0));
		if (++runs == 1)
			Other(group_).does(
			        [&](fur_group_thread *t) { EXPECT_EQ(transfer(0, 1, 5, t), 0); });
		fur_store(tx[0], word(0, 1), fur_load(tx[1], word(1)));
	});
	EXPECT_EQ(runs, 2);
	EXPECT_EQ(destroyed, 2);
	EXPECT_EQ(value(0, 1), 5u);
}

/* ----------------------------------------------------------------- snapshots */

TEST_F(GroupRun, Snapshots_AreOfOneInstant)
{
	ASSERT_EQ(transfer(0, 2, 7), 0);
	const unsigned members[] = {2, 0};
	fur_snapshot *s[2];
	ASSERT_EQ(fur_group_snapshot(self_, members, 2, s), 0) << fur_errormsg();
	ASSERT_EQ(transfer(0, 2, 100), 0);
	const auto shows = [&](fur_snapshot *of, unsigned k) {
		uint64_t v = 0;
		std::function<void(fur_reader *)> body = [&](fur_reader *r) {
			v = fur_load(r, word(k));
		};
		EXPECT_EQ(fur_snapshot_run(
		                  thread(k), of,
		                  [](fur_reader *r, void *arg) {
			                  (*static_cast<std::function<void(fur_reader *)> *>(arg))(
			                          r);
		                  },
		                  &body, nullptr),
		        0)
		        << fur_errormsg();
		return v;
	};
	EXPECT_EQ(shows(s[0], 2), 7u);
	EXPECT_EQ(shows(s[1], 0), uint64_t(-7));
	EXPECT_EQ(fur_snapshot_end(s[0]) | fur_snapshot_end(s[1]), 0);
	for (unsigned k = 0; k < HEAPS; k++)
		EXPECT_EQ(heap(k)->engine.lock.taken, 0u);
	const unsigned twice[] = {1, 1};
	EXPECT_EQ(fur_group_snapshot(self_, twice, 2, s), FUR_EINVAL);
	EXPECT_EQ(s[0], nullptr);
	EXPECT_EQ(fur_group_snapshot(self_, members, 0, s), FUR_EINVAL);
	EXPECT_EQ(fur_group_snapshot(self_, members, 2, nullptr), FUR_EINVAL);
}

/* If one member has too many, none gets one. */
TEST_F(GroupRun, Snapshots_AreAllOrNone)
{
	std::vector<fur_snapshot *> all;
	fur_snapshot *one;
	while (fur_snapshot_begin(thread(1), &one) == 0)
		all.push_back(one);
	const unsigned members[] = {0, 1, 2};
	fur_snapshot *s[3];
	EXPECT_EQ(fur_group_snapshot(self_, members, 3, s), FUR_EBUSY);
	EXPECT_EQ(s[0], nullptr);
	for (fur_snapshot *o : all)
		EXPECT_EQ(fur_snapshot_end(o), 0);
	const fur::GroupSnapshot both(self_, {0, 1});
	EXPECT_EQ(both.read(thread(1), 1, [&](fur_reader *r) { return fur_load(r, word(1)); }), 0u);
	EXPECT_EQ(both.of(2), nullptr);
}

/* --------------------------------------------------------------- many at once */

/* Random transfers over two heaps, and within one, some of them late; readers and bodies check the
 * sum of all heaps. */
class GroupCrowd : public GroupHeaps, public ::testing::WithParamInterface<bool>
{
protected:
	static fur::Options options()
	{
		fur::Options o = small_options();
		o.max_threads = 8;
		o.async_ms = 1;
		return o;
	}
	GroupCrowd() : GroupHeaps(options()) {}

	uint64_t sum(fur_group_update *u)
	{
		uint64_t all = 0;
		for (unsigned k = 0; k < HEAPS; k++)
			for (unsigned w = 0; w < 4; w++)
				all += fur_load(fur_group_on(u, k), word(k, w));
		return all;
	}
	void move(fur_update *a, unsigned from, unsigned w, fur_update *b, unsigned to, unsigned v)
	{
		fur_store(a, word(from, w), fur_load(a, word(from, w)) - 1);
		fur_store(b, word(to, v), fur_load(b, word(to, v)) + 1);
	}
	void within_one(fur_thread *t, unsigned k, unsigned w, unsigned v, bool late)
	{
		fur_ticket ticket;
		const auto body = [&](fur_update *tx) { move(tx, k, w, tx, k, v); };
		if (late)
			fur::update(t, fur::rerun, ticket, body);
		else
			fur::update(t, fur::rerun, body);
	}
	void read_all(fur_group_thread *t)
	{
		EXPECT_EQ(group_read(t, {0, 1, 2},
		                  [&](fur_group_reader *r) {
			                  uint64_t all = 0;
			                  for (unsigned k = 0; k < HEAPS; k++)
				                  for (unsigned x = 0; x < 4; x++)
					                  all += fur_load(fur_group_reads(r, k),
					                          word(k, x));
			                  EXPECT_EQ(all, 0u);
		                  }),
		        0);
	}
	void read_snapshots(fur_group_thread *t)
	{
		const fur::GroupSnapshot s(t, {2, 1, 0});
		uint64_t all = 0;
		for (unsigned k = 0; k < HEAPS; k++)
			all += s.read(thread(k, t), k, [&](fur_reader *r) {
				uint64_t in = 0;
				for (unsigned x = 0; x < 4; x++)
					in += fur_load(r, word(k, x));
				return in;
			});
		EXPECT_EQ(all, 0u);
	}
	/* A body that checks the sum, and perhaps stores what it has read elsewhere. */
	void look(fur_group_thread *t, unsigned from, unsigned to, bool stores)
	{
		EXPECT_EQ(group_run(t, {0, 1, 2},
		                  [&](fur_group_update *u) {
			                  EXPECT_EQ(sum(u), 0u);
			                  if (stores)
				                  fur_store(fur_group_on(u, to), word(to, 20),
				                          fur_load(fur_group_on(u, from),
				                                  word(from, 20)) +
				                                  1);
		                  }),
		        0);
	}
	void act(fur_group_thread *t, unsigned random)
	{
		const unsigned from = random % HEAPS, to = (from + 1 + random / 3 % 2) % HEAPS,
		               w = random / 8 % 4, v = random / 32 % 4;
		switch (random / 128 % 9) {
		case 0: within_one(thread(from, t), from, w, v, false); break;
		case 1: within_one(thread(from, t), from, w, v, GetParam()); break;
		case 2: read_all(t); break;
		case 3: read_snapshots(t); break;
		case 4: look(t, from, to, random & 1); break;
		default:
			EXPECT_EQ(group_run(t, {from, to},
			                  [&](fur_group_update *u) {
				                  move(fur_group_on(u, from), from, w,
				                          fur_group_on(u, to), to, v);
			                  }),
			        0)
			        << fur_errormsg();
		}
	}
};

TEST_P(GroupCrowd, TheSumOfAllHeaps_IsConstant_ForEverybody)
{
	const unsigned n = rounds(3000u);
	std::vector<std::thread> threads;
	for (unsigned k = 0; k < 4; k++)
		threads.emplace_back([&, k] {
			fur_group_thread *t;
			ASSERT_EQ(fur_group_register(group_, &t), 0);
			unsigned random = static_cast<unsigned>(seed_of_run()) * 977 + k;
			for (unsigned i = 0; i < n && !HasFailure(); i++) {
				random = random * 1664525 + 1013904223;
				act(t, random >> 12);
			}
			EXPECT_EQ(fur_group_unregister(t), 0) << fur_errormsg();
		});
	for (auto &t : threads)
		t.join();
	uint64_t all = 0;
	for (unsigned k = 0; k < HEAPS; k++)
		for (unsigned w = 0; w < 4; w++)
			all += value(k, w);
	EXPECT_EQ(all, 0u);
	reopen();
	for (unsigned k = 0; k < HEAPS; k++)
		for (unsigned w = 0; w < 4; w++)
			all += value(k, w);
	EXPECT_EQ(all, 0u);
}

INSTANTIATE_TEST_SUITE_P(LocalUpdates, GroupCrowd, ::testing::Bool(),
        [](const auto &late) { return late.param ? "SomeLate" : "Waiting"; });

} // namespace
