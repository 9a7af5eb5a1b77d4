/* SPDX-License-Identifier: BSD-3-Clause
 *
 * bulk_test.cpp - fur_bulk_run: updates of many records next to short ones (INV-BU1 to INV-BU5).
 */
#include "census.hpp"
#include "fixture.hpp"
#include "internals.hpp"
#include "software.hpp"

#include "media/heap_layout.h"

#include <atomic>
#include <cstring>
#include <functional>
#include <fur/bulk.hpp>
#include <optional>
#include <thread>
#include <vector>

namespace
{

constexpr uint64_t MIB = 1 << 20;

/* fur_bulk_run() with a C++ function. */
using Map = std::function<bool(void *, uint64_t)>;
struct Job : fur_bulk {
	Job(size_t each, std::vector<fur_extent> where, Map what)
	    : map_(std::move(what)), extents_(std::move(where))
	{
		fur_bulk_init(this);
		bytes = each;
		extents = extents_.data();
		n = extents_.size();
		arg = this;
		map = [](void *copy, size_t, uint64_t number, void *job) {
			return static_cast<Job *>(job)->map_(copy, number);
		};
	}
	int run(fur_thread *t)
	{
		result.size = sizeof result;
		return fur_bulk_run(t, this, &result);
	}
	/* `f` is called by progress(). */
	void on_progress(std::function<bool()> f)
	{
		progress_ = std::move(f);
		progress = [](uint64_t, uint64_t, void *job) {
			return static_cast<Job *>(job)->progress_();
		};
	}
	/* The same, with the number of records that are done. */
	void progress_of(std::function<bool(uint64_t)> f)
	{
		progress_of_ = std::move(f);
		progress = [](uint64_t done, uint64_t, void *job) {
			return static_cast<Job *>(job)->progress_of_(done);
		};
	}
	fur_bulk_result result = {};

private:
	Map map_;
	std::vector<fur_extent> extents_;
	std::function<bool()> progress_;
	std::function<bool(uint64_t)> progress_of_;
};

bool add_to_words(void *copy, size_t bytes, uint64_t add)
{
	auto *word = static_cast<uint64_t *>(copy);
	for (size_t k = 0; k < bytes / 8; k++)
		word[k] += add;
	return true;
}

class Bulk : public HeapFile, public ::testing::WithParamInterface<fur_pm>
{
protected:
	static fur::Options options(uint64_t heap_bytes = 8 * MIB)
	{
		fur::Options o = software_options();
		o.heap_bytes = heap_bytes;
		o.max_threads = 8;
		o.pm = GetParam();
		return o;
	}
	Bulk()
	{
		opened(create(options()));
		registered();
	}
	void opened(fur::Heap &&heap)
	{
		heap_of_.emplace(std::move(heap));
		heap_ = *heap_of_;
	}
	void registered()
	{
		thread_of_.emplace(heap_);
		self_ = *thread_of_;
	}
	void closed()
	{
		thread_of_.reset();
		heap_of_->close();
		heap_of_.reset();
	}

	/* A block of `bytes` bytes, all of this value, in root 0. */
	uint8_t *block(size_t bytes, uint8_t value = 0)
	{
		return block_in_root(self_, bytes, value);
	}
	uint64_t blocks_in_use()
	{
		return census_of(heap_).blocks;
	}
	void reopen()
	{
		closed();
		opened(open(options()));
		registered();
	}

	fur_heap *heap_ = nullptr;
	fur_thread *self_ = nullptr;

private:
	std::optional<fur::Heap> heap_of_;
	std::optional<fur::Thread> thread_of_;
};

/* ------------------------------------------------------------ alone */

TEST_P(Bulk, Whole_ChangesRecordsOfEverySizeAndPlace_AndNothingElse)
{
	struct Shape {
		size_t bytes, stride, offset;
	};
	for (Shape s : {Shape{1, 1, 0}, {3, 5, 1}, {8, 8, 0}, {13, 16, 3}, {64, 64, 0},
	             {100, 164, 4}, {5000, 5008, 8}}) {
		const uint64_t count = 130;
		const size_t all = s.offset + count * s.stride;
		uint8_t *at = block(all, 7);
		/* As many replay threads as a larger log would have. */
		heap_->durability.replay_options = replay_soon(s.bytes % 2 ? 3 : 1, 4);
		Job job(s.bytes, {{at + s.offset, s.stride, count}},
		        [&](void *copy, uint64_t number) {
			        memset(copy, int(number % 100 + 10), s.bytes);
			        return number % 3 != 0;
		        });
		ASSERT_EQ(job.run(self_), 0) << fur_errormsg();
		EXPECT_EQ(job.result.records, count);
		EXPECT_EQ(job.result.changed, count - (count + 2) / 3);
		EXPECT_EQ(job.result.updates, 1u);
		EXPECT_EQ(job.result.again, 0u);
		auto check = [&](const uint8_t *from) {
			for (size_t k = 0; k < all; k++) {
				uint64_t record = (k - s.offset) / s.stride;
				bool in = k >= s.offset && (k - s.offset) % s.stride < s.bytes &&
				          record % 3 != 0;
				ASSERT_EQ(from[k], in ? record % 100 + 10 : 7u)
				        << "byte " << k << ", records of " << s.bytes;
			}
		};
		check(at);
		reopen();
		check(static_cast<uint8_t *>(root_at_rest(heap_, 0)));
		fur::update(self_, [&](fur_update *tx) { fur_free(tx, fur_root(tx, 0)); });
		EXPECT_EQ(blocks_in_use(), 0u);
	}
}

TEST_P(Bulk, Whole_TakesExtentsInAnyOrder_AndNumbersThemAsGiven)
{
	auto *at = reinterpret_cast<uint64_t *>(block(4096));
	Job job(8, {{at + 256, 16, 4}, {at, 8, 3}, {at + 100, 0, 1}},
	        [](void *copy, uint64_t number) {
		        uint64_t value = number + 1;
		        memcpy(copy, &value, 8);
		        return true;
	        });
	ASSERT_EQ(job.run(self_), 0) << fur_errormsg();
	EXPECT_EQ(at[256], 1u);
	EXPECT_EQ(at[262], 4u);
	EXPECT_EQ(at[0], 5u);
	EXPECT_EQ(at[2], 7u);
	EXPECT_EQ(at[100], 8u);
	EXPECT_EQ(at[257], 0u);
}

/* In whatever order the extents are given: `done` grows to the number of records, and a job that is
 * cancelled tells the number that it has told before. */
TEST_P(Bulk, Progress_CountsTheRecordsThatAreDone)
{
	auto *at = reinterpret_cast<uint64_t *>(block(80000));
	static std::vector<uint64_t> told;
	static uint64_t stop_after;
	for (fur_bulk_atomic atomic : {FUR_BULK_WHOLE, FUR_BULK_EACH})
		for (uint64_t stop : {UINT64_MAX, uint64_t(1000)}) {
			Job job(8, {{at + 7000, 8, 100}, {at + 5000, 16, 700}, {at, 8, 4300}},
			        [](void *copy, uint64_t) { return add_to_words(copy, 8, 1); });
			told.clear();
			stop_after = stop;
			job.atomic = atomic;
			job.progress = [](uint64_t done, uint64_t records, void *) {
				EXPECT_EQ(records, 5100u);
				EXPECT_TRUE(told.empty() || done > told.back());
				told.push_back(done);
				return done < stop_after;
			};
			if (stop == UINT64_MAX) {
				ASSERT_EQ(job.run(self_), 0) << fur_errormsg();
				EXPECT_EQ(told.back(), 5100u);
				EXPECT_GT(told.size(), 1u);
				continue;
			}
			ASSERT_EQ(job.run(self_), FUR_EABORTED);
			EXPECT_LT(told.back(), 5100u);
			EXPECT_NE(std::string(fur_errormsg())
			                  .find("after " + std::to_string(told.back()) +
			                          " of 5100 records"),
			        std::string::npos)
			        << fur_errormsg();
		}
}

TEST_P(Bulk, InCpp_AFunctionObjectChangesRecords)
{
	struct Account {
		uint32_t owner = 0;
		int64_t balance = 0;
	};
	auto *all = reinterpret_cast<Account *>(block(100 * sizeof(Account)));
	auto result = fur::bulk(self_, all, 100, [](Account &a, uint64_t number) noexcept {
		a.owner = uint32_t(number);
		a.balance++;
	});
	EXPECT_EQ(result.changed, 100u);
	result = fur::bulk(
	        self_, all, 100,
	        [](Account &a, uint64_t) noexcept {
		        a.balance++;
		        return a.owner % 2 == 0;
	        },
	        FUR_BULK_EACH);
	EXPECT_EQ(result.changed, 50u);
	for (uint32_t k = 0; k < 100; k++) {
		EXPECT_EQ(all[k].owner, k);
		EXPECT_EQ(all[k].balance, k % 2 ? 1 : 2);
	}
	auto nothing = [](Account &, uint64_t) noexcept {};
	EXPECT_THROW(fur::bulk(self_, all, 0, nothing), fur::Error);
}

TEST_P(Bulk, Each_ChangesAllInUpdatesOfSomeThousandRecords)
{
	const uint64_t count = 10000;
	auto *at = reinterpret_cast<uint64_t *>(block(count * 64));
	Job job(64, {{at, 64, count}}, [](void *copy, uint64_t number) {
		return add_to_words(copy, 64, 1) && number % 2;
	});
	job.atomic = FUR_BULK_EACH;
	ASSERT_EQ(job.run(self_), 0) << fur_errormsg();
	EXPECT_EQ(job.result.records, count);
	EXPECT_EQ(job.result.changed, count / 2);
	EXPECT_GE(job.result.updates, 3u);
	reopen();
	at = static_cast<uint64_t *>(root_at_rest(heap_, 0));
	for (uint64_t k = 0; k < count * 8; k++)
		ASSERT_EQ(at[k], k / 8 % 2) << k;
}

TEST_P(Bulk, Each_ThatKeepsOthersOutForTooLong_TakesFewerRecordsAtATime)
{
	const uint64_t count = 10000;
	auto *at = reinterpret_cast<uint64_t *>(block(count * 64));
	Job job(64, {{at, 64, count}},
	        [](void *copy, uint64_t) { return add_to_words(copy, 64, 1); });
	job.atomic = FUR_BULK_EACH;
	ASSERT_EQ(job.run(self_), 0) << fur_errormsg();
	const uint64_t updates = job.result.updates;
	job.most_pause_ns = 1; /* each commit takes longer */
	ASSERT_EQ(job.run(self_), 0) << fur_errormsg();
	EXPECT_GT(job.result.updates, 10 * updates);
	EXPECT_EQ(job.result.records, count);
	for (uint64_t k = 0; k < count * 8; k++)
		ASSERT_EQ(at[k], 2u) << k;
}

TEST_P(Bulk, Each_ARecordThatDoesNotFitTheLog_IsRefused_AndNothingChanges)
{
	uint8_t *at = block(4 * MIB, 3);
	Job job(2 * MIB, {{at, 2 * MIB, 2}}, [](void *copy, uint64_t) {
		memset(copy, 9, 2 * MIB);
		return true;
	});
	job.atomic = FUR_BULK_EACH;
	EXPECT_EQ(job.run(self_), FUR_ETOOBIG);
	EXPECT_NE(std::string(fur_errormsg()).find("fur-resize --log-bytes"), std::string::npos)
	        << fur_errormsg();
	EXPECT_EQ(job.result.records, 0u);
	for (uint64_t k = 0; k < 4 * MIB; k++)
		ASSERT_EQ(at[k], 3) << k;
	Job small(64, {{at, 64, 100}}, [](void *copy, uint64_t) {
		memset(copy, 9, 64);
		return true;
	});
	small.atomic = FUR_BULK_EACH;
	EXPECT_EQ(small.run(self_), 0) << "the thread goes on: " << fur_errormsg();
	EXPECT_EQ(at[64 * 100 - 1], 9);
}

TEST_P(Bulk, Whole_ThatChangesNothing_LogsNothing)
{
	uint8_t *at = block(4096, 1);
	Job job(64, {{at, 64, 64}}, [](void *, uint64_t) { return false; });
	ASSERT_EQ(job.run(self_), 0) << fur_errormsg();
	EXPECT_EQ(job.result.changed, 0u);
	EXPECT_EQ(job.result.records, 64u);
	EXPECT_EQ(blocks_in_use(), 1u);
}

/* ------------------------------------------------------------ beside updates */

/* Short updates of a helper, in the middle of a bulk update. */
class BulkBeside : public Software
{
protected:
	static fur::Options options()
	{
		fur::Options o = software_options();
		o.heap_bytes = 8 * MIB;
		return o;
	}
	BulkBeside() : Software(options()) {}
	/* `count` records of 64 bytes. */
	uint64_t *zeroed_records(uint64_t count)
	{
		return fur::update(self_, [&](fur_update *tx) {
			auto *p = static_cast<uint64_t *>(fur_alloc(tx, count * 64));
			std::vector<uint64_t> zero(count * 8);
			fur_write(tx, p, zero.data(), count * 64);
			return p;
		});
	}
	/* The helper adds 1000 to the record's words, in an update of this kind. */
	void add_by_helper(tx_mode mode, uint64_t *record)
	{
		other_.run([=, this](fur_thread *t) {
			update_in(
			        mode,
			        [&](fur_update *tx) {
				        for (unsigned k = 0; k < 8; k++)
					        fur_store(tx, &record[k],
					                fur_load(tx, &record[k]) + 1000);
			        },
			        t);
		});
	}
};

TEST_F(BulkBeside, Each_ARecordThatIsChangedAfterItWasMapped_IsMappedAgain)
{
	for (tx_mode mode : {TX_IN_PLACE, TX_SERIAL, TX_CONCURRENT})
		for (unsigned at : {5u, 9u, 10u, 11u, 20u}) {
			std::vector<uint64_t> before(words_, words_ + 256);
			bool done = false;
			Job job(64, {{words_, 64, 32}}, [&](void *copy, uint64_t number) {
				if (number == 10 && !std::exchange(done, true))
					add_by_helper(mode, word(at));
				return add_to_words(copy, 64, 1);
			});
			job.atomic = FUR_BULK_EACH;
			ASSERT_EQ(job.run(self_), 0) << fur_errormsg();
			EXPECT_EQ(job.result.again, 1u) << "marked, whether mapped before or not";
			EXPECT_EQ(job.result.changed, 32u);
			for (unsigned k = 0; k < 256; k++)
				ASSERT_EQ(words_[k], before[k] + 1 + (k / 8 == at ? 1000 : 0)) << k;
		}
}

/* The portion after this one is not mapped yet, and the one before has committed: a store to either
 * needs no second call. */
TEST_F(BulkBeside, Each_AStoreToAnotherPortion_CostsNoSecondMap)
{
	const uint64_t count = 10000;
	uint64_t *at = zeroed_records(count);
	Job job(64, {{at, 64, count}}, [&](void *copy, uint64_t number) {
		if (number == 5000) {
			add_by_helper(TX_CONCURRENT, &at[10 * 8]);
			add_by_helper(TX_IN_PLACE, &at[9990 * 8]);
		}
		return add_to_words(copy, 64, 1);
	});
	job.atomic = FUR_BULK_EACH;
	ASSERT_EQ(job.run(self_), 0) << fur_errormsg();
	EXPECT_EQ(job.result.again, 0u);
	for (uint64_t k = 0; k < count; k++)
		ASSERT_EQ(at[k * 8], k == 10 || k == 9990 ? 1001u : 1u) << k;
}

TEST_F(BulkBeside, ARecordThatIsChangedAfterItWasMapped_IsMappedAgain)
{
	uint64_t commits = 0;
	for (tx_mode mode : {TX_IN_PLACE, TX_SERIAL, TX_CONCURRENT})
		for (unsigned at : {5u, 9u, 10u, 11u, 20u}) {
			std::vector<uint64_t> before(words_, words_ + 256);
			bool done = false;
			Job job(64, {{words_, 64, 32}}, [&](void *copy, uint64_t number) {
				if (number == 10 && !done) {
					done = true;
					add_by_helper(mode, word(at));
				}
				return add_to_words(copy, 64, 1);
			});
			ASSERT_EQ(job.run(self_), 0) << fur_errormsg();
			EXPECT_EQ(job.result.again, 1u) << "marked, whether mapped before or not";
			fur_stats s{};
			s.size = sizeof s;
			ASSERT_EQ(fur_get_stats(heap_.get(), &s), 0);
			EXPECT_EQ(s.bulk_commits, ++commits);
			EXPECT_EQ(s.bulk_records, commits * 32);
			EXPECT_EQ(s.bulk_again, commits);
			for (unsigned k = 0; k < 256; k++)
				ASSERT_EQ(words_[k], before[k] + 1 + (k / 8 == at ? 1000 : 0)) << k;
		}
}

TEST_F(BulkBeside, ARecordThatMapLeavesAloneTheSecondTime_KeepsTheUpdatesValue)
{
	for (fur_bulk_atomic atomic : {FUR_BULK_WHOLE, FUR_BULK_EACH}) {
		const uint64_t three = word(3)[0], four = word(4)[0];
		bool done = false;
		Job job(64, {{words_, 64, 32}}, [&](void *copy, uint64_t number) {
			if (number == 10 && !std::exchange(done, true))
				add_by_helper(TX_CONCURRENT, word(3));
			if (number == 3 && *static_cast<uint64_t *>(copy) != three)
				return false;
			return add_to_words(copy, 64, 1);
		});
		job.atomic = atomic;
		ASSERT_EQ(job.run(self_), 0) << fur_errormsg();
		EXPECT_EQ(job.result.changed, 31u);
		EXPECT_EQ(word(3)[0], three + 1000);
		EXPECT_EQ(word(4)[0], four + 1);
	}
}

/* More records are marked again and again than the log holds: the commit takes the block. */
TEST_F(BulkBeside, AnUpdateThatMarksAllRecordsInEachPass_DoesNotKeepItFromCommitting)
{
	const uint64_t count = 4096;
	uint64_t *at = zeroed_records(count);
	uint64_t calls = 0, rounds = 0;
	Job job(64, {{at, 64, count}}, [&](void *copy, uint64_t) {
		calls++;
		return add_to_words(copy, 64, 1);
	});
	auto change_all = [&] {
		rounds++;
		other_.run([&](fur_thread *t) {
			for (uint64_t k = 0; k < count; k += 64)
				update_in(
				        TX_CONCURRENT,
				        [&](fur_update *tx) {
					        for (uint64_t n = k; n < k + 64; n++)
						        fur_store(tx, &at[n * 8],
						                fur_load(tx, &at[n * 8]) + 1000);
				        },
				        t);
		});
		return true;
	};
	job.on_progress([&] { return calls < count || change_all(); });
	ASSERT_EQ(job.run(self_), 0) << fur_errormsg();
	EXPECT_GT(rounds, 3u);
	EXPECT_EQ(job.result.changed, count);
	for (uint64_t k = 0; k < count; k++)
		ASSERT_EQ(at[k * 8], 1 + 1000 * rounds) << k;
	EXPECT_EQ(at[1], 1u);
}

class BulkThreads : public Bulk
{
protected:
	static constexpr uint64_t RECORDS = 2000, ROUNDS = 12;
	/* Threads add 1 to all words of records, in updates of each kind, and check that all
	 * records of a read-only transaction have been bulk-updated as often. */
	void add_beside(fur_bulk_atomic atomic)
	{
		at_ = reinterpret_cast<uint64_t *>(block(RECORDS * 64));
		std::atomic<bool> over{false};
		std::atomic<uint64_t> torn{0}, added{0};
		std::vector<std::thread> threads;
		for (unsigned i = 0; i < 3; i++)
			threads.emplace_back([&, i] { added += add_until(over, i); });
		threads.emplace_back([&] {
			fur::Thread self(heap_);
			while (!over)
				torn += look(self, atomic);
		});
		for (uint64_t k = 0; k < ROUNDS; k++) {
			Job job(64, {{at_, 64, RECORDS}}, [&](void *copy, uint64_t) {
				auto *word = static_cast<uint64_t *>(copy);
				for (unsigned n = 1; n < 8; n++)
					torn += word[n] != word[0];
				return add_to_words(copy, 64, MIB);
			});
			job.atomic = atomic;
			ASSERT_EQ(job.run(self_), 0) << fur_errormsg();
		}
		over = true;
		for (auto &t : threads)
			t.join();
		EXPECT_EQ(torn, 0u);
		check(added);
		reopen();
		at_ = static_cast<uint64_t *>(root_at_rest(heap_, 0));
		check(added);
		EXPECT_EQ(blocks_in_use(), 1u);
	}

private:
	uint64_t add_until(const std::atomic<bool> &over, unsigned kind)
	{
		fur::Thread self(heap_);
		uint64_t n = 0;
		for (uint64_t x = kind; !over; n++) {
			x = x * 6364136223846793005 + 1442695040888963407;
			uint64_t *record = at_ + (x >> 40) % RECORDS * 8;
			auto add = [&](fur_update *tx) {
				for (unsigned k = 0; k < 8; k++)
					fur_store(tx, &record[k], fur_load(tx, &record[k]) + 1);
			};
			prefer_in_place(self, kind == 0);
			if (kind == 1)
				fur::update(self, fur::rerun, add);
			else
				fur::update(self, add);
		}
		return n;
	}
	uint64_t look(fur_thread *self, fur_bulk_atomic atomic)
	{
		uint64_t torn = 0;
		fur::read(self, [&](fur_ro *) {
			for (uint64_t k = 0; k < RECORDS; k++) {
				for (unsigned n = 1; n < 8; n++)
					torn += at_[k * 8 + n] != at_[k * 8];
				if (atomic == FUR_BULK_WHOLE)
					torn += at_[k * 8] / MIB != at_[0] / MIB;
			}
		});
		return torn;
	}
	void check(uint64_t added)
	{
		uint64_t sum = 0;
		for (uint64_t k = 0; k < RECORDS; k++) {
			ASSERT_EQ(at_[k * 8] / MIB, ROUNDS);
			sum += at_[k * 8] % MIB;
		}
		EXPECT_EQ(sum, added);
	}
	uint64_t *at_ = nullptr;
};

TEST_P(BulkThreads, Whole_LosesNoUpdate_AndReadersSeeAllOrNothing)
{
	add_beside(FUR_BULK_WHOLE);
}

TEST_P(BulkThreads, Each_LosesNoUpdate)
{
	add_beside(FUR_BULK_EACH);
}

/* ------------------------------------------------------------ failures */

TEST_P(Bulk, AKillBeforeTheCommit_ChangesNothing_AndItsRoomIsFreed)
{
	uint8_t *at = block(64 * 512 * 4, 3);
	ASSERT_EQ(blocks_in_use(), 1u);
	closed();
	in_killed_child([&] {
		fur::Heap heap = open(options());
		fur::Thread self(heap);
		Job job(64, {{at, 64, 512 * 4}}, [&](void *copy, uint64_t number) {
			if (number == 1000)
				_exit(::testing::Test::HasFailure() ? 1 : 0);
			memset(copy, 9, 64);
			return true;
		});
		(void)job.run(self);
	});
	opened(open(options()));
	EXPECT_NE(header(heap_base(heap_))->bulk, 0u) << "the child got so far";
	EXPECT_EQ(blocks_in_use(), 2u);
	registered();
	EXPECT_EQ(header(heap_base(heap_))->bulk, 0u);
	EXPECT_EQ(blocks_in_use(), 1u);
	for (size_t k = 0; k < 64 * 512 * 4; k++)
		ASSERT_EQ(at[k], 3) << k;
}

/* The callback that replays, in a child: ends the child when the bulk update has committed, so that
 * only recovery can replay it. */
const durability_ops *true_ops;
engine *watched;
int end_after_commit(durability *d)
{
	if (watched && arch_load(&watched->bulk.commits))
		_exit(::testing::Test::HasFailure() ? 1 : 0);
	return true_ops->replay(d);
}

/* A bulk update that has committed, in a process that ends before it is replayed. */
class KilledBulk : public Bulk
{
protected:
	void run_and_die(uint8_t *at, uint64_t bytes, uint64_t count, unsigned round)
	{
		in_killed_child([&] {
			fur::Heap heap = open(options());
			fur::Thread self(heap);
			static durability_ops ops;
			true_ops = heap.get()->durability.ops;
			ops = {end_after_commit};
			heap.get()->durability.ops = &ops;
			watched = &heap.get()->engine;
			Job job(bytes, {{at, bytes, count}}, [&](void *copy, uint64_t number) {
				memset(copy, int(number % 50 + round), bytes);
				return number % 7 != 0;
			});
			(void)job.run(self);
			_exit(1);
		});
	}
	static void expect_changed(
	        const uint8_t *at, uint64_t bytes, uint64_t count, unsigned round)
	{
		for (uint64_t k = 0; k < count * bytes; k++)
			ASSERT_EQ(at[k], k / bytes % 7 ? k / bytes % 50 + round : 3u) << k;
	}
};

TEST_P(KilledBulk, LosesNothing)
{
	const uint64_t count = 3000, bytes = 200;
	uint8_t *at = block(count * bytes, 3);
	closed();
	for (unsigned round : {1u, 3u}) {
		run_and_die(at, bytes, count, round);
		opened(open(options()));
		EXPECT_NE(header(heap_base(heap_))->bulk, 0u);
		registered();
		EXPECT_EQ(blocks_in_use(), 1u);
		expect_changed(at, bytes, count, round);
		closed();
	}
}

/* The pending bulk update of a killed process's file. */
struct PendingBulk {
	explicit PendingBulk(std::string &all) : file(all)
	{
		memcpy(&super, file.data(), sizeof super);
		const media_file f =
		        media_file_of(&super, reinterpret_cast<media_super *>(file.data()));
		uint64_t tail = 0;
		EXPECT_EQ(media_tail(&f, &tail), 0);
		for (uint64_t k = tail; k < tail + super.ring_slots; k++) {
			if (!log_read_plausible(&f, k, &marker))
				continue;
			log_walk walk = log_walk_update(&f, k);
			if (!log_walk_next(&walk) || !walk.entry.bulk.rows)
				continue;
			durts = k;
			entry = walk.entry;
			at = reinterpret_cast<media_bulk *>(
			        log_of_marker(&f, &marker) +
			        log_place(&super, log_record_of(&f, &marker).from) + 8);
			heap = media_at(&f, super.heap_offset);
			return;
		}
		ADD_FAILURE() << "no bulk update is pending";
	}
	media_bulk_row row() const
	{
		media_bulk_row r;
		memcpy(&r, heap + entry.offset, sizeof r);
		return r;
	}
	/* As a library wrote it whose check covered the rows alone. */
	void make_old()
	{
		const media_file f =
		        media_file_of(&super, reinterpret_cast<media_super *>(file.data()));
		entry.bulk.rows &= ~MEDIA_BULK_CHECKED;
		entry.bulk.check = log_bulk_check(heap, super.heap_bytes, &entry);
		*at = entry.bulk;
		media_marker *m = log_marker(&f, durts);
		m->checksum = media_marker_checksum(&super, m, log_of_marker(&f, m));
	}

	std::string &file;
	media_super super;
	media_marker marker;
	uint64_t durts = 0;
	log_entry entry;
	media_bulk *at = nullptr; /* in the file */
	uint8_t *heap = nullptr;
};

TEST_P(KilledBulk, DamageToItsResults_IsRefused)
{
	const uint64_t count = 300, bytes = 24;
	uint8_t *at = block(count * bytes, 3);
	closed();
	run_and_die(at, bytes, count, 1);
	std::string all = this->bytes();
	const std::string good = all;
	const PendingBulk pending(all);
	const media_bulk_row row = pending.row();
	ASSERT_TRUE(pending.entry.bulk.rows & MEDIA_BULK_CHECKED);
	/* Bits of the row, of the words that say what is changed, and of results that are. */
	std::vector<uint64_t> places = {pending.entry.offset + 8, pending.entry.offset + 16};
	for (uint64_t k : {0, 5, 17, 36})
		places.push_back(row.changed + k);
	for (uint64_t k : {1, 2, 150, 299})
		places.push_back(row.from + k * media_bulk_step(bytes) + k % bytes);
	for (uint64_t place : places) {
		flip_bit(pending.super.heap_offset + place, place % 8);
		expect_refused(FUR_ECORRUPT);
		EXPECT_NE(std::string(fur_errormsg()).find("bulk update"), std::string::npos)
		        << fur_errormsg();
		flip_bit(pending.super.heap_offset + place, place % 8);
	}
	ASSERT_EQ(this->bytes(), good);
	opened(open(options()));
	expect_changed(at, bytes, count, 1);
	registered();
}

TEST_P(KilledBulk, OfAnOlderLibrary_IsReplayed)
{
	const uint64_t count = 300, bytes = 24;
	uint8_t *at = block(count * bytes, 3);
	closed();
	run_and_die(at, bytes, count, 1);
	std::string all = this->bytes();
	PendingBulk pending(all);
	pending.make_old();
	write_bytes(all);
	flip_bit(pending.super.heap_offset + pending.entry.offset + 9, 0);
	expect_refused(FUR_ECORRUPT);
	write_bytes(all);
	opened(open(options()));
	expect_changed(at, bytes, count, 1);
	registered();
}

TEST_P(Bulk, ACancelledOne_ChangesNothing)
{
	const uint64_t count = 10000;
	uint8_t *at = block(64 * count, 3);
	Job job(64, {{at, 64, count}}, [](void *copy, uint64_t) {
		memset(copy, 9, 64);
		return true;
	});
	job.on_progress([] { return false; });
	EXPECT_EQ(job.run(self_), FUR_EABORTED);
	EXPECT_NE(std::string(fur_errormsg()).find("cancel"), std::string::npos);
	EXPECT_EQ(at[0], 3);
	EXPECT_EQ(blocks_in_use(), 1u);
	job.atomic = FUR_BULK_EACH;
	EXPECT_EQ(job.run(self_), FUR_EABORTED);
	EXPECT_EQ(at[0], 9) << "of EACH the first update has committed";
	ASSERT_LT(job.result.records, count);
	EXPECT_EQ(at[job.result.records * 64], 3);
	fur::update(self_, [&](fur_update *tx) {
		std::vector<uint8_t> three(64 * count, 3);
		fur_write(tx, at, three.data(), job.result.records * 64);
	});
	Job next(64, {{at, 64, count}}, [](void *, uint64_t) { return false; });
	EXPECT_EQ(next.run(self_), 0) << "an earlier cancellation does not matter";
}

TEST_P(Bulk, WithoutRoomForTheResults_ItChangesNothing)
{
	uint8_t *at = block(5 * MIB, 3);
	Job job(64, {{at, 64, 5 * MIB / 64}}, [](void *copy, uint64_t) {
		memset(copy, 9, 64);
		return true;
	});
	EXPECT_EQ(job.run(self_), FUR_ENOSPC);
	EXPECT_EQ(at[0], 3);
	EXPECT_EQ(header(heap_base(heap_))->bulk, 0u);
	job.atomic = FUR_BULK_EACH;
	EXPECT_EQ(job.run(self_), 0) << "which needs none: " << fur_errormsg();
	EXPECT_EQ(at[5 * MIB - 1], 9);
}

TEST_P(Bulk, TheResultsAreInABackupThatIsMadeMeanwhile_OrNot)
{
	const uint64_t count = 20000;
	auto *at = reinterpret_cast<uint64_t *>(block(count * 64));
	std::atomic<bool> over{false};
	std::thread worker([&] {
		fur::Thread self(heap_);
		while (!over) {
			Job job(64, {{at, 64, count}},
			        [](void *record, uint64_t) { return add_to_words(record, 64, 1); });
			EXPECT_EQ(job.run(self), 0) << fur_errormsg();
		}
	});
	std::vector<std::string> copies;
	for (int k = 0; k < 5; k++) {
		copies.push_back(path_ + "." + std::to_string(k));
		EXPECT_EQ(fur_backup(heap_, copies.back().c_str()), 0) << fur_errormsg();
	}
	over = true;
	worker.join();
	closed();
	for (const std::string &copy : copies) {
		fur::Heap heap = fur::Heap::open(copy, options());
		auto *words = static_cast<uint64_t *>(root_at_rest(heap, 0));
		for (uint64_t n = 1; n < count * 8; n++)
			ASSERT_EQ(words[n], words[0]) << n;
		heap.close();
		unlink(copy.c_str());
	}
	opened(open(options()));
}

/* ------------------------------------------------------------ misuse */

TEST_P(Bulk, WrongArguments_AreRefused_AndNothingChanges)
{
	uint8_t *at = block(65536, 3);
	auto nine = [](void *copy, uint64_t) {
		memset(copy, 9, 1);
		return true;
	};
	auto *base = static_cast<uint8_t *>(heap_base(heap_));
	struct Wrong {
		size_t bytes;
		std::vector<fur_extent> extents;
		int code;
		const char *says;
	};
	const Wrong all[] = {{64, {{at, 63, 2}}, FUR_EINVAL, "stride"},
	        {64, {{at, 0, 2}}, FUR_EINVAL, "stride"},
	        {64, {{at, 64, 0}}, FUR_EINVAL, "at least one"},
	        {0, {{at, 64, 2}}, FUR_EINVAL, "records of 0 bytes"},
	        {64, {}, FUR_EINVAL, "extents"},
	        {64, {{at, 64, 2}, {at + 64, 64, 2}}, FUR_EINVAL, "overlap"},
	        {64, {{at + 64, 64, 2}, {at, 64, 2}}, FUR_EINVAL, "overlap"},
	        {64, {{base, 64, 2}}, FUR_ERANGE, "memory for blocks"},
	        {64, {{base + 8 * MIB - 64, 64, 2}}, FUR_ERANGE, "memory for blocks"},
	        {64, {{&at, 64, 2}}, FUR_ERANGE, "memory for blocks"},
	        {64, {{at, 64, UINT64_MAX}}, FUR_ERANGE, "memory for blocks"},
	        {64, {{at, UINT64_MAX / 2, 3}}, FUR_ERANGE, "memory for blocks"},
	        {SIZE_MAX, {{at, SIZE_MAX, 1}}, FUR_EINVAL, "cannot lie"}};
	for (const Wrong &w : all)
		for (fur_bulk_atomic atomic : {FUR_BULK_WHOLE, FUR_BULK_EACH}) {
			Job job(w.bytes, w.extents, nine);
			job.atomic = atomic;
			EXPECT_EQ(job.run(self_), w.code) << w.says;
			EXPECT_NE(std::string(fur_errormsg()).find(w.says), std::string::npos)
			        << fur_errormsg();
		}
	Job job(64, {{at, 64, 2}}, nine);
	job.atomic = static_cast<fur_bulk_atomic>(3);
	EXPECT_EQ(job.run(self_), FUR_EINVAL);
	job.atomic = FUR_BULK_WHOLE;
	job.map = nullptr;
	EXPECT_EQ(job.run(self_), FUR_EINVAL);
	job.size = 8;
	EXPECT_EQ(job.run(self_), FUR_EINVAL);
	EXPECT_EQ(fur_bulk_run(nullptr, &job, nullptr), FUR_EINVAL);
	EXPECT_EQ(fur_bulk_run(self_, nullptr, nullptr), FUR_EINVAL);
	for (int k = 0; k < 65536; k++)
		ASSERT_EQ(at[k], 3) << k;
}

TEST_P(Bulk, InATransaction_OrBesideAnother_ItIsRefused)
{
	uint8_t *at = block(65536, 3);
	auto nothing = [](void *, uint64_t) { return false; };
	Job job(64, {{at, 64, 2}}, nothing);
	fur::read(self_, [&](fur_ro *) { EXPECT_EQ(job.run(self_), FUR_ENESTED); });
	fur::update(self_, [&](fur_update *) { EXPECT_EQ(job.run(self_), FUR_ENESTED); });
	bool asked = false;
	Job outer(64, {{at, 64, 2}}, [&](void *, uint64_t) {
		if (!std::exchange(asked, true))
			std::thread([&] {
				fur::Thread other(heap_);
				EXPECT_EQ(job.run(other), FUR_EBUSY);
				EXPECT_NE(strstr(fur_errormsg(), path_.c_str()), nullptr)
				        << fur_errormsg();
				job.atomic = FUR_BULK_EACH;
				EXPECT_EQ(job.run(other), FUR_EBUSY);
			}).join();
		return false;
	});
	for (fur_bulk_atomic atomic : {FUR_BULK_WHOLE, FUR_BULK_EACH}) {
		outer.atomic = atomic;
		asked = false;
		EXPECT_EQ(outer.run(self_), 0) << fur_errormsg();
		EXPECT_TRUE(asked);
	}
}

std::string name(const ::testing::TestParamInfo<fur_pm> &info)
{
	return info.param == FUR_PM_SYNC ? "Sync" : "Emulated";
}
INSTANTIATE_TEST_SUITE_P(Pm, Bulk, ::testing::Values(FUR_PM_EMULATED, FUR_PM_SYNC), name);
INSTANTIATE_TEST_SUITE_P(Pm, KilledBulk, ::testing::Values(FUR_PM_EMULATED, FUR_PM_SYNC), name);
INSTANTIATE_TEST_SUITE_P(Pm, BulkThreads, ::testing::Values(FUR_PM_EMULATED, FUR_PM_SYNC), name);

/* The results go to the heap in the file, and a page to which this process has never stored shows
 * them.  A body that began before the block's memory was free must not take them for what was
 * there. */
class BulkResults : public HeapFile
{
protected:
	struct Root {
		uint64_t *block, *records;
	};
	enum { WORDS = 2600, RECORDS = 2500, SEEN = 1500, OLD = 7, NEW = 99 };
	static fur::Options options()
	{
		fur::Options o;
		o.heap_bytes = 8 * MIB;
		o.pm = FUR_PM_EMULATED;
		o.htm = FUR_HTM_NONE;
		return o;
	}
	static uint64_t *make_words(fur_thread *self, uint64_t value)
	{
		return fur::update(self, [&](fur_update *tx) {
			const std::vector<uint64_t> all(WORDS, value);
			auto *p = static_cast<uint64_t *>(fur_alloc(tx, WORDS * 8));
			fur_write(tx, p, all.data(), WORDS * 8);
			return p;
		});
	}
	/* The root, in a heap whose pages this process has not stored to. */
	void make()
	{
		fur::Heap heap = create(options());
		fur::Thread self(heap);
		uint64_t *block = make_words(self, OLD), *records = make_words(self, NEW);
		fur::update(self, [&](fur_update *tx) {
			auto *root = static_cast<Root *>(fur_alloc(tx, sizeof(Root)));
			fur_store(tx, &root->block, block);
			fur_store(tx, &root->records, records);
			fur_set_root(tx, 0, root);
		});
	}
	/* Free the block, and change records: the results take its place.  They are there when
	 * between() is called, and not published. */
	template <class Between>
	static void reuse(fur_thread *self, Root *root, Between between)
	{
		fur::update(self, [&](fur_update *tx) {
			fur_free(tx, fur_load(tx, &root->block));
			fur_store<uint64_t *>(tx, &root->block, nullptr);
		});
		uint64_t *records =
		        fur::read(self, [&](fur_ro *tx) { return fur_load(tx, &root->records); });
		Job job(8, {{records, 8, RECORDS}}, [](void *copy, uint64_t) {
			++*static_cast<uint64_t *>(copy);
			return true;
		});
		bool there = false;
		job.progress_of([&](uint64_t done) {
			if (done == RECORDS && !there)
				between();
			there |= done == RECORDS;
			return true;
		});
		EXPECT_EQ(job.run(self), 0) << fur_errormsg();
		EXPECT_TRUE(there);
	}
	/* body(tx) loads the block's address, waits until the block is reused, and loads a word. */
	template <class Tx, class Run>
	void expect_old(Run run)
	{
		make();
		fur::Heap heap = open(options());
		if (std::is_same_v<Tx, fur_reader> && heap_is_checked(heap.get()))
			GTEST_SKIP() << "under a memory checker updates wait for such readers";
		std::vector<uint64_t> seen;
		std::atomic<int> stage{0};
		fur::Thread self(heap);
		auto *root = fur::read(
		        self, [](fur_ro *tx) { return static_cast<Root *>(fur_root(tx, 0)); });
		std::thread beside([&] {
			fur::Thread mine(heap);
			run(mine, [&](Tx *tx) {
				const uint64_t *block = fur_load(tx, &root->block);
				if (stage == 0) {
					stage = 1;
					while (stage == 1)
						std::this_thread::yield();
				}
				if (block)
					seen.push_back(fur_load(tx, block + SEEN));
				stage = 3;
			});
			stage = 3;
		});
		while (stage == 0)
			std::this_thread::yield();
		reuse(self, root, [&] {
			stage = 2;
			while (stage == 2)
				std::this_thread::yield();
		});
		beside.join();
		for (uint64_t word : seen)
			EXPECT_EQ(word, uint64_t(OLD));
	}
};

TEST_F(BulkResults, BodyDoesNotSeeResultsInABlockThatItKnows)
{
	expect_old<fur_update>([](fur_thread *self, auto body) {
		fur::update(self, fur::rerun, [&](fur_update *tx) {
			body(tx);
			fur_set_root(tx, 1, nullptr);
		});
	});
}

TEST_F(BulkResults, OptimisticReaderDoesNotSeeResultsInABlockThatItKnows)
{
	expect_old<fur_reader>(
	        [](fur_thread *self, auto body) { fur::read(self, fur::rerun, body); });
}

} // namespace
