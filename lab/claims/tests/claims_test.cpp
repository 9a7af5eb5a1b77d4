/* SPDX-License-Identifier: BSD-3-Clause
 *
 * claims_test.cpp - the table of record locks: one holder, first come first served, full buckets,
 * more threads than cores, two processes.
 */
#include "claims.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace
{

uint64_t worker(uint64_t number)
{
	return claims_owner(CLAIMS_WORKER, number);
}

/* -------------------------------------------------------------------------- the hash */

using ClaimsHash = SharedClaims;

TEST_F(ClaimsHash, NeighbouringRecordsHaveDifferentBuckets)
{
	for (uint64_t first : {uint64_t(0), uint64_t(1) << LOG2, uint64_t(77) << (2 * LOG2)}) {
		std::set<uint64_t> buckets;
		for (uint64_t k = 0; k >> LOG2 == 0; k++)
			buckets.insert(claims_hash(table_, first + k));
		EXPECT_EQ(buckets.size(), size_t(1) << LOG2);
		EXPECT_LT(*buckets.rbegin(), uint64_t(1) << LOG2);
	}
}

/* Records at a distance of as many bytes, or of as many records, as there are buckets. */
TEST_F(ClaimsHash, RecordsFarApartSpreadOverTheBuckets)
{
	for (unsigned distance : {LOG2, 2 * LOG2, 24u}) {
		std::vector<unsigned> records(size_t(1) << LOG2);
		for (uint64_t k = 0; k < 1600; k++)
			records[claims_hash(table_, k << distance)]++;
		EXPECT_LT(*std::max_element(records.begin(), records.end()), 200u) << distance;
		EXPECT_GT(*std::min_element(records.begin(), records.end()), 50u) << distance;
	}
}

/* ------------------------------------------------------------------------- one thread */

using Claims = SharedClaims;

TEST_F(Claims, TakeReleaseLook)
{
	EXPECT_EQ(claims_look(table_, 3), 0u);
	EXPECT_EQ(claims_take(table_, 3, worker(1)), CLAIMS_TAKEN);
	EXPECT_EQ(claims_look(table_, 3), worker(1));
	EXPECT_EQ(claims_look(table_, 4), 0u);
	EXPECT_EQ(claims_take(table_, 3, worker(1)), CLAIMS_HELD);
	EXPECT_EQ(claims_try(table_, 3, worker(1)), CLAIMS_HELD);
	EXPECT_EQ(claims_try(table_, 3, worker(2)), CLAIMS_BUSY);
	EXPECT_EQ(claims_try(table_, 4, worker(2)), CLAIMS_TAKEN);
	claims_release(table_, 3, worker(1));
	EXPECT_EQ(claims_look(table_, 3), 0u) << "one release, however often the owner asked";
	claims_release(table_, 4, worker(2));
	expect_empty();
}

TEST_F(Claims, OwnerNamesItsProcess)
{
	EXPECT_EQ(claims_process_of(claims_owner(UINT16_MAX, 1)), UINT16_MAX);
	EXPECT_EQ(claims_process_of(claims_owner(CLAIMS_REPLAYER, (uint64_t(1) << 47) - 1)),
	        CLAIMS_REPLAYER);
	EXPECT_NE(claims_owner(CLAIMS_WORKER, 0), 0u) << "an empty slot";
}

TEST_F(Claims, TryDoesNotOvertakeWaiters)
{
	*slot(5, 1) = worker(7); /* on its way from slot 1 to slot 0 */
	EXPECT_EQ(claims_try(table_, 5, worker(1)), CLAIMS_BUSY);
	EXPECT_EQ(claims_look(table_, 5), worker(7)) << "the next holder";
	*slot(5, 1) = 0;
	EXPECT_EQ(claims_try(table_, 5, worker(1)), CLAIMS_TAKEN);
	claims_release(table_, 5, worker(1));
}

TEST_F(Claims, BatchTakesAndReleasesAll)
{
	std::vector<uint64_t> buckets;
	for (uint64_t k = 0; k >> LOG2 == 0; k += 1 + k % 2)
		buckets.push_back(k);
	claims_take_batch(table_, buckets.data(), buckets.size(), worker(1));
	EXPECT_EQ(claims_count(table_).held, buckets.size());
	for (uint64_t bucket : buckets)
		EXPECT_EQ(claims_look(table_, bucket), worker(1));
	claims_release_batch(table_, buckets.data(), buckets.size(), worker(1));
	expect_empty();
}

TEST_F(Claims, CountTellsHeldWaitingAndFull)
{
	for (unsigned k = 0; k < CLAIMS_SLOTS; k++)
		*slot(2, k) = worker(k);
	*slot(6, 0) = worker(1);
	*slot(6, 1) = *slot(6, 2) = worker(2) | 1; /* it is moving, and a thread sleeps on it */
	struct claims_count n = claims_count(table_);
	EXPECT_EQ(n.buckets, 16u);
	EXPECT_EQ(n.held, 2u);
	EXPECT_EQ(n.waiting, 8u);
	EXPECT_EQ(n.full, 1u);
}

/* ------------------------------------------------------------------------ many threads */

/* Each round takes a bucket and changes its counter, which is a plain word. */
void add_under_claims(
        claims *c, uint64_t *counters, uint64_t owner, unsigned rounds, unsigned buckets)
{
	for (unsigned k = 0; k < rounds; k++) {
		uint64_t bucket = (owner / 2 + uint64_t(k) * 7) % buckets;
		claims_take(c, bucket, owner);
		counters[bucket]++;
		claims_release(c, bucket, owner);
	}
}

class ClaimsThreads : public SharedClaims, public testing::WithParamInterface<unsigned>
{
protected:
	uint64_t total() const
	{
		uint64_t sum = 0;
		for (uint64_t counter : shared_->counter)
			sum += counter;
		return sum;
	}
};

TEST_P(ClaimsThreads, NoChangeIsLost)
{
	const unsigned threads = GetParam(), rounds = 60000 / threads;
	for (unsigned buckets : {1u, 3u}) {
		memset(shared_, 0, sizeof *shared_);
		std::vector<std::thread> all;
		for (unsigned t = 0; t < threads; t++)
			all.emplace_back([&, t] {
				meet(threads);
				add_under_claims(
				        table_, shared_->counter, worker(t), rounds, buckets);
			});
		for (auto &t : all)
			t.join();
		EXPECT_EQ(total(), uint64_t(threads) * rounds);
		expect_empty();
	}
}

/* More than cores, and more than slots. */
INSTANTIATE_TEST_SUITE_P(Few, ClaimsThreads, testing::Values(2, 4, 8));
INSTANTIATE_TEST_SUITE_P(Many, ClaimsThreads, testing::Values(16, 40));

/* Threads that come one after the other, while the bucket is held; each notes when it is served. */
class ClaimsQueue : public SharedClaims
{
protected:
	void come(uint64_t number)
	{
		threads_.emplace_back([this, number] {
			ASSERT_EQ(claims_take(table_, BUCKET, worker(number)), CLAIMS_TAKEN);
			served_.push_back(number); /* the claim protects it */
			claims_release(table_, BUCKET, worker(number));
		});
	}
	void come_and_wait(uint64_t number, unsigned at)
	{
		come(number);
		until([&] {
			return (arch_load(slot(BUCKET, at)) & ~uint64_t(1)) == worker(number);
		});
	}
	void release_and_join()
	{
		claims_release(table_, BUCKET, worker(0));
		for (auto &t : threads_)
			t.join();
		expect_empty();
	}

	static constexpr uint64_t BUCKET = 9;
	std::vector<uint64_t> served_;
	std::vector<std::thread> threads_;
};

TEST_F(ClaimsQueue, FirstComeFirstServed)
{
	ASSERT_EQ(claims_take(table_, BUCKET, worker(0)), CLAIMS_TAKEN);
	for (unsigned k = 1; k < CLAIMS_SLOTS; k++)
		come_and_wait(k, k);
	release_and_join();
	EXPECT_EQ(served_, (std::vector<uint64_t>{1, 2, 3, 4, 5, 6, 7}));
}

/* INV-CL2: slots in the queue's middle are empty for a moment, and no newcomer gets in there. */
TEST_F(ClaimsQueue, NewcomerGetsInBehindAGap)
{
	ASSERT_EQ(claims_take(table_, BUCKET, worker(0)), CLAIMS_TAKEN);
	*slot(BUCKET, 3) = worker(99); /* those in slots 1 and 2 have just died */
	come_and_wait(1, 4);
	come_and_wait(2, 5);
	EXPECT_EQ(*slot(BUCKET, 1), 0u);
	EXPECT_EQ(*slot(BUCKET, 2), 0u);
	arch_exchange(slot(BUCKET, 3), 0);
	arch_futex_wake_all_shared(arch_futex_of(slot(BUCKET, 3)));
	until([&] { return claims_count(table_).waiting == 2 && arch_load(slot(BUCKET, 2)); });
	EXPECT_TRUE(served_.empty());
	release_and_join();
	EXPECT_EQ(served_, (std::vector<uint64_t>{1, 2}));
}

/* Newcomers wait outside a full bucket, asleep on its last slot, and are all served. */
TEST_F(ClaimsQueue, FullBucketServesAllInTheEnd)
{
	ASSERT_EQ(claims_take(table_, BUCKET, worker(0)), CLAIMS_TAKEN);
	for (unsigned k = 1; k < CLAIMS_SLOTS; k++)
		come_and_wait(k, k);
	EXPECT_EQ(claims_count(table_).full, 1u);
	for (unsigned k = 0; k < 12; k++)
		come(100 + k);
	until([&] { return marked(BUCKET, CLAIMS_SLOTS - 1); });
	EXPECT_TRUE(served_.empty());
	release_and_join();
	ASSERT_EQ(served_.size(), 19u);
	for (unsigned k = 0; k < 7; k++)
		EXPECT_EQ(served_[k], k + 1) << "those in the queue come before those outside";
	EXPECT_EQ(std::set<uint64_t>(served_.begin(), served_.end()).size(), 19u);
}

/* INV-CL3: a waiter goes to sleep, and the thread that releases wakes it. */
TEST_F(ClaimsQueue, SleepersAreWoken)
{
	for (unsigned round = 0; round < 50; round++) {
		served_.clear();
		threads_.clear();
		ASSERT_EQ(claims_take(table_, BUCKET, worker(0)), CLAIMS_TAKEN);
		come_and_wait(1, 1);
		come_and_wait(2, 2);
		until([&] { return marked(BUCKET, 0) && marked(BUCKET, 1); });
		release_and_join();
		EXPECT_EQ(served_, (std::vector<uint64_t>{1, 2}));
	}
}

/* Threads that take many buckets at a time, in ascending order, hold each other up and go on. */
TEST_F(Claims, BatchesOfManyThreadsEnd)
{
	std::vector<std::thread> all;
	const unsigned rounds = 1000;
	for (unsigned t = 0; t < 6; t++)
		all.emplace_back([&, t] {
			std::vector<uint64_t> buckets;
			for (uint64_t k = t % 3; k < COUNTERS; k += 1 + t % 2)
				buckets.push_back(k);
			for (unsigned k = 0; k < rounds; k++) {
				claims_take_batch(
				        table_, buckets.data(), buckets.size(), worker(t));
				for (uint64_t bucket : buckets)
					shared_->counter[bucket]++;
				claims_release_batch(
				        table_, buckets.data(), buckets.size(), worker(t));
			}
		});
	for (auto &t : all)
		t.join();
	/* The last bucket: from 0, 1 and 2 on, each; and from 1 on, each second. */
	EXPECT_EQ(shared_->counter[COUNTERS - 1], 4 * rounds);
	EXPECT_EQ(shared_->counter[COUNTERS - 2], 5 * rounds);
	expect_empty();
}

/* ----------------------------------------------------------------------- two processes */

using ClaimsProcesses = SharedClaims;

TEST_F(ClaimsProcesses, ExcludeEachOtherAtDifferentAddresses)
{
	const unsigned rounds = 200000;
	pid_t child = fork();
	ASSERT_GE(child, 0);
	if (child == 0) {
		claims *inherited = table_;
		map();
		if (table_ == inherited)
			_exit(1);
		meet(2);
		add_under_claims(
		        table_, shared_->counter, claims_owner(CLAIMS_REPLAYER, 1), rounds, 2);
		_exit(0);
	}
	meet(2);
	add_under_claims(table_, shared_->counter, worker(1), rounds, 2);
	int status;
	ASSERT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0);
	EXPECT_EQ(shared_->counter[0] + shared_->counter[1], 2u * rounds);
	expect_empty();
}

/* INV-CL3, across processes: a shared futex. */
TEST_F(ClaimsProcesses, ReleaseWakesTheOtherProcess)
{
	const uint64_t bucket = 4;
	for (unsigned round = 0; round < 20; round++) {
		ASSERT_EQ(claims_take(table_, bucket, worker(1)), CLAIMS_TAKEN);
		pid_t child = fork();
		ASSERT_GE(child, 0);
		if (child == 0) {
			map();
			claims_take(table_, bucket, claims_owner(CLAIMS_REPLAYER, 1));
			claims_release(table_, bucket, claims_owner(CLAIMS_REPLAYER, 1));
			_exit(0);
		}
		until([&] { return marked(bucket, 0); });
		claims_release(table_, bucket, worker(1));
		int status;
		ASSERT_EQ(waitpid(child, &status, 0), child);
		EXPECT_EQ(status, 0);
	}
	expect_empty();
}

} // namespace
