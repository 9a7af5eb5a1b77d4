/* SPDX-License-Identifier: BSD-3-Clause
 *
 * api_test.cpp - the promises of fur.h, on one or two threads.
 */
#include "fixture.hpp"
#include "internals.hpp"
#include <fur_group.h>

#include <thread>

namespace
{

class Api : public OpenHeap
{
};

TEST_F(Api, Root_SurvivesReopen_AtTheSameAddress)
{
	uint64_t *p = block();
	fur::update(self_, [&](fur_update *tx) { fur_store(tx, &p[3], 42u); });
	heap_.close();
	heap_ = open();
	EXPECT_EQ(static_cast<uint64_t *>(root_at_rest(heap_, 0)), p);
	EXPECT_EQ(p[3], 42u);
	self_ = fur::Thread(heap_);
}

TEST_F(Api, Store_EachWidth_LeavesNeighboursAlone)
{
	heap_.close();
	in_killed_child([&] {
		fur::Heap &h = *new fur::Heap(open()); /* never closed */
		fur::Thread t(h);
		auto *p = fur::update(t, [&](fur_update *tx) {
			auto *q = static_cast<unsigned char *>(fur_alloc(tx, 64));
			unsigned char ones[64];
			memset(ones, 0xff, sizeof ones);
			fur_write(tx, q, ones, sizeof ones);
			fur_set_root(tx, 0, q);
			return q;
		});
		fur::update(t, [&](fur_update *tx) {
			fur_store(tx, p + 1, static_cast<unsigned char>(1));
			fur_store(tx, reinterpret_cast<uint16_t *>(p + 4), uint16_t(0x0302));
			fur_store(tx, reinterpret_cast<uint32_t *>(p + 8), 0x07060504u);
			fur_store(tx, reinterpret_cast<uint64_t *>(p + 16), uint64_t(0));
		});
	});
	heap_ = open();
	EXPECT_TRUE(heap_.info().recovered);
	auto *p = static_cast<unsigned char *>(root_at_rest(heap_, 0));
	unsigned char expected[64];
	memset(expected, 0xff, sizeof expected);
	expected[1] = 1;
	memcpy(expected + 4, "\2\3", 2);
	memcpy(expected + 8, "\4\5\6\7", 4);
	memset(expected + 16, 0, 8);
	for (int i = 0; i < 64; i++)
		EXPECT_EQ(p[i], expected[i]) << "byte " << i;
}

TEST_F(Api, Promote_ChangesNothing_AndIsRefusedOutsideTheHeap)
{
	uint64_t *p = block(), outside = 7;
	uint64_t entries = heap_.stats().log_entries;
	fur::update(self_, [&](fur_update *tx) { fur_promote(tx, p); });
	EXPECT_EQ(heap_.stats().log_entries, entries) << "nothing is logged";
	fur_update *tx;
	ASSERT_EQ(fur_begin_update(self_, &tx), 0);
	fur_store(tx, &p[1], uint64_t(9));
	fur_promote(tx, &outside);
	EXPECT_EQ(fur_commit(tx, nullptr), FUR_ERANGE);
	EXPECT_EQ(outside, 7u);
	EXPECT_NE(p[1], 9u) << "rolled back";
}

TEST_F(Api, Write_AnyLength_SurvivesReplayAndWraps)
{
	heap_.close();
	std::vector<unsigned char> data(3000);
	in_killed_child([&] {
		fur::Heap &h = *new fur::Heap(open()); /* never closed */
		fur::Thread t(h);
		auto *p = fur::update(t, [&](fur_update *tx) {
			auto *q = static_cast<unsigned char *>(fur_alloc(tx, 3000));
			fur_set_root(tx, 0, q);
			return q;
		});
		/* Each update takes most of the log, so records wrap around its end. */
		for (unsigned round = 1; round <= 20; round++)
			for (size_t n : {1u, 7u, 8u, 9u, 100u, 2999u, 3000u}) {
				for (size_t i = 0; i < n; i++)
					data[i] = static_cast<unsigned char>(i * 7 + round + n);
				fur::update(t,
				        [&](fur_update *tx) { fur_write(tx, p, data.data(), n); });
			}
	});
	heap_ = open();
	auto *p = static_cast<unsigned char *>(root_at_rest(heap_, 0));
	for (size_t i = 0; i < 3000; i++)
		ASSERT_EQ(p[i], static_cast<unsigned char>(i * 7 + 20 + 3000)) << i;
}

TEST_F(Api, Abort_RestoresEverything_InReverse)
{
	uint64_t *p = block();
	fur::update(self_, [&](fur_update *tx) { fur_store(tx, &p[0], 1u); });
	int kept = 0;
	fur_update *tx = begin();
	fur_store(tx, &p[0], 2u);
	fur_store(tx, &p[0], 3u);
	uint64_t range[3] = {7, 8, 9};
	fur_write(tx, &p[0], range, sizeof range);
	EXPECT_EQ(fur_load(tx, &p[0]), 7u);
	kept = 5;
	EXPECT_EQ(fur_abort(tx), FUR_EABORTED);
	EXPECT_EQ(p[0], 1u);
	EXPECT_EQ(p[1], 0u);
	EXPECT_EQ(kept, 5);
	EXPECT_EQ(heap_.stats().aborts[FUR_ABORT_USER], 1u);
}

TEST_F(Api, Abort_GivesMemoryBack)
{
	void *first = fur::update(self_, [](fur_update *tx) { return fur_alloc(tx, 100); });
	ASSERT_NE(first, nullptr);
	for (int i = 0; i < 100000; i++) {
		fur_update *tx = begin();
		ASSERT_NE(fur_alloc(tx, 10000), nullptr)
		        << "aborted allocations leak, seen after " << i;
		fur_abort(tx);
	}
}

TEST_F(Api, Nested_InnerCommit_IsTheOuters)
{
	uint64_t *p = block();
	fur_update *outer = begin(), *inner = join();
	fur_store(inner, &p[0], 4u);
	EXPECT_EQ(fur_commit(inner, nullptr), 0);
	EXPECT_EQ(fur_abort(outer), FUR_EABORTED);
	EXPECT_EQ(p[0], 0u) << "the inner commit must not outlive the outer abort";
}

TEST_F(Api, Nested_InnerAbort_RollsAllBackAtTheOuterCommit)
{
	uint64_t *p = block();
	fur_update *outer = begin();
	fur_store(outer, &p[0], 4u);
	EXPECT_EQ(fur_abort(join()), FUR_EABORTED);
	EXPECT_EQ(fur_commit(outer, nullptr), FUR_EABORTED);
	EXPECT_EQ(p[0], 0u);
	fur::update(self_, [&](fur_update *tx) { fur_store(tx, &p[0], 1u); });
	EXPECT_EQ(p[0], 1u) << "the next update works";
}

TEST_F(Api, Nested_ReadInsideUpdate_SeesItsStores)
{
	uint64_t *p = block();
	fur_update *tx = begin();
	fur_store(tx, &p[0], 9u);
	fur_ro *ro = join_ro();
	EXPECT_EQ(fur_load(ro, &p[0]), 9u);
	EXPECT_EQ(fur_end_ro(ro, nullptr), 0);
	EXPECT_EQ(fur_commit(tx, nullptr), 0);
}

TEST_F(Api, UpdateInsideRead_IsRefused)
{
	fur_ro *ro = begin_ro();
	fur_update *tx;
	EXPECT_EQ(fur_begin_update(self_, &tx), FUR_ENESTED);
	EXPECT_EQ(fur_join_update(self_, &tx), FUR_ENESTED);
	EXPECT_EQ(fur_end_ro(ro, nullptr), 0);
	EXPECT_EQ(fur_commit(begin(), nullptr), 0) << "and then it works";
}

TEST_F(Api, TransactionsOnTwoHeaps_AreRefused)
{
	std::string second = path_ + "-2";
	{
		fur::Heap other = fur::Heap::create(second, small_options());
		fur::Thread there(other);
		fur_update *tx = begin(), *tx2;
		fur_ro *ro2;
		EXPECT_EQ(fur_begin_update(there, &tx2), FUR_ENESTED);
		EXPECT_EQ(fur_join_update(there, &tx2), FUR_ENESTED);
		EXPECT_EQ(fur_begin_ro(there, &ro2), FUR_ENESTED);
		EXPECT_EQ(fur_join_ro(there, &ro2), FUR_ENESTED);
		EXPECT_EQ(fur_commit(tx, nullptr), 0);
		fur_ro *ro = begin_ro();
		EXPECT_EQ(fur_begin_update(there, &tx2), FUR_ENESTED);
		EXPECT_EQ(fur_join_update(there, &tx2), FUR_ENESTED);
		EXPECT_EQ(fur_begin_ro(there, &ro2), FUR_ENESTED);
		EXPECT_EQ(fur_join_ro(there, &ro2), FUR_ENESTED);
		EXPECT_EQ(fur_end_ro(ro, nullptr), 0);
	}
	unlink(second.c_str());
}

TEST_F(Api, EndWithoutBegin_IsAnError)
{
	fur_update *tx = begin();
	EXPECT_EQ(fur_commit(tx, nullptr), 0);
	EXPECT_EQ(fur_commit(tx, nullptr), FUR_ENOTX);
	EXPECT_EQ(fur_abort(tx), FUR_ENOTX);
	EXPECT_EQ(fur_commit(nullptr, nullptr), FUR_ENOTX);
	fur_ro *ro = begin_ro();
	EXPECT_EQ(fur_end_ro(ro, nullptr), 0);
	EXPECT_EQ(fur_end_ro(ro, nullptr), FUR_ENOTX);
	EXPECT_EQ(fur_end_ro(nullptr, nullptr), FUR_ENOTX);
}

TEST_F(Api, StoreAfterTheTransaction_IsNotDone)
{
	uint64_t *p = block();
	fur_update *tx = begin();
	EXPECT_EQ(fur_commit(tx, nullptr), 0);
	fur_store(tx, &p[0], 5u);
	EXPECT_EQ(p[0], 0u);
}

TEST_F(Api, StoreOutsideTheHeap_RollsBack)
{
	uint64_t *p = block(), outside = 1;
	for (void *bad : {static_cast<void *>(&outside),
	             static_cast<void *>(
	                     static_cast<char *>(heap_base(heap_)) + heap_size(heap_) - 4),
	             static_cast<void *>(static_cast<char *>(heap_base(heap_)) - 8)}) {
		fur_update *tx = begin();
		fur_store(tx, &p[0], 5u);
		fur_store_bits(tx, bad, 7, 8);
		fur_store(tx, &p[1], 6u);
		EXPECT_EQ(fur_commit(tx, nullptr), FUR_ERANGE);
		EXPECT_EQ(p[0] + p[1], 0u);
		EXPECT_EQ(outside, 1u);
	}
}

TEST_F(Api, UpdateLargerThanTheLog_RollsBack)
{
	uint64_t *p = block(300);
	fur_update *tx = begin();
	for (unsigned i = 0; i < 300; i++)
		fur_store(tx, &p[i], i + 1);
	EXPECT_EQ(fur_update_error(tx), FUR_ETOOBIG);
	EXPECT_EQ(fur_commit(tx, nullptr), FUR_ETOOBIG);
	for (unsigned i = 0; i < 300; i++)
		ASSERT_EQ(p[i], 0u) << i;
	fur::update(self_, [&](fur_update *u) { fur_store(u, &p[0], 1u); });
	EXPECT_EQ(p[0], 1u);
}

TEST_F(Api, FreeOfWhatIsNoBlock_RollsBack)
{
	uint64_t *p = block(), local;
	for (void *bad : {static_cast<void *>(&local),
	             static_cast<void *>(reinterpret_cast<char *>(p) + 8), heap_base(heap_)}) {
		fur_update *tx = begin();
		fur_store(tx, &p[0], 5u);
		fur_free(tx, bad);
		EXPECT_EQ(fur_commit(tx, nullptr), FUR_EFREE);
		EXPECT_EQ(p[0], 0u);
	}
}

TEST_F(Api, Register_GivesTheSameAgain_AndRefusesTooMany)
{
	fur_thread *again;
	ASSERT_EQ(fur_thread_register(heap_, nullptr, &again), 0);
	EXPECT_EQ(again, self_.get());
	int refused = 0;
	std::vector<std::thread> others;
	std::atomic<int> here{0};
	for (int i = 0; i < 4; i++)
		others.emplace_back([&] {
			fur_thread *t;
			int r = fur_thread_register(heap_, nullptr, &t);
			if (r == FUR_ETHREADS)
				__atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
			here++;
			while (here < 4)
				std::this_thread::yield();
		});
	for (auto &t : others)
		t.join();
	EXPECT_EQ(refused, 1) << "one slot is this thread's, three were left for four";
	EXPECT_EQ(heap_.stats().threads, 1u) << "threads that ended gave their slots back";
}

TEST_F(Api, ThreadThatEndsInsideAnUpdate_IsRolledBack)
{
	uint64_t *p = block();
	std::thread([&] {
		fur_thread *t;
		fur_update *tx;
		ASSERT_EQ(fur_thread_register(heap_, nullptr, &t), 0);
		ASSERT_EQ(fur_begin_update(t, &tx), 0);
		fur_store(tx, &p[0], 5u);
	}).join();
	EXPECT_EQ(p[0], 0u);
	fur::update(self_, [&](fur_update *tx) { fur_store(tx, &p[1], 1u); });
}

TEST_F(Api, ThreadThatEndsInsideARead_HoldsNobodyUp)
{
	uint64_t *p = block();
	std::thread([&] {
		fur_thread *t;
		fur_ro *ro;
		ASSERT_EQ(fur_thread_register(heap_, nullptr, &t), 0);
		ASSERT_EQ(fur_begin_ro(t, &ro), 0);
	}).join();
	fur::update(self_, [&](fur_update *tx) { fur_store(tx, &p[1], 1u); });
	EXPECT_EQ(p[1], 1u);
}

TEST_F(Api, LongReader_IsReportedByNameAndCounted)
{
	uint64_t *p = block();
	heap_.close();
	struct Seen {
		std::atomic<int> reports{0};
		std::string name;
	} seen;
	fur::Options o = small_options();
	o.reader_report_ns = 1000000;
	o.reader_report_arg = &seen;
	o.reader_report = [](const fur_reader_report *r, void *arg) {
		static_cast<Seen *>(arg)->name = static_cast<const char *>(r->name);
		static_cast<Seen *>(arg)->reports++;
	};
	heap_ = open(o);
	std::atomic<bool> reading{false};
	std::thread reader([&] {
		fur::Thread t(heap_);
		fur::Thread named(heap_, "slow"); /* the same registration, now with a name */
		ASSERT_EQ(named.get(), t.get());
		fur::read(t, [&](fur_ro *) {
			reading = true;
			while (!seen.reports)
				usleep(1000);
		});
	});
	while (!reading)
		std::this_thread::yield();
	fur::Thread t(heap_);
	fur::update(t, [&](fur_update *tx) { fur_store(tx, &p[0], 1u); });
	reader.join();
	EXPECT_EQ(seen.reports, 1);
	EXPECT_EQ(seen.name, "slow");
	EXPECT_EQ(heap_.stats().long_readers, 1u);
	EXPECT_GE(heap_.stats().longest_reader_ns, 1000000u);
}

TEST_F(Api, Close_InsideATransaction_IsRefused)
{
	fur_update *tx = begin();
	EXPECT_EQ(fur_close(heap_.get()), FUR_EBUSY);
	EXPECT_EQ(fur_commit(tx, nullptr), 0);
}

TEST_F(Api, Unregister_InsideATransaction_IsRefused)
{
	fur_ro *ro = begin_ro();
	EXPECT_EQ(fur_thread_unregister(self_), FUR_EBUSY);
	EXPECT_EQ(fur_end_ro(ro, nullptr), 0);
	EXPECT_EQ(fur_thread_unregister(self_), 0);
}

TEST_F(Api, Exceptions_RollBackAndPropagate)
{
	uint64_t *p = block();
	EXPECT_THROW(fur::update(self_,
	                     [&](fur_update *tx) {
		                     fur_store(tx, &p[0], 1u);
		                     throw std::runtime_error("no");
	                     }),
	        std::runtime_error);
	EXPECT_EQ(p[0], 0u);
	EXPECT_THROW(fur::read(self_, [&](fur_ro *) { throw 1; }), int);
	EXPECT_EQ(fur::read(self_, [&](fur_ro *tx) { return fur_load(tx, &p[0]); }), 0u);
}

TEST_F(Api, Stats_CountWhatHappened)
{
	uint64_t *p = block();
	fur_stats before = heap_.stats();
	fur::update(
	        self_, [&](fur_update *tx) { fur_store(tx, &p[0], 1u), fur_store(tx, &p[1], 1u); });
	fur::update(self_, [&](fur_update *tx) { return fur_load(tx, &p[0]); });
	fur::read(self_, [&](fur_ro *tx) { return fur_load(tx, &p[0]); });
	fur_stats after = heap_.stats();
	EXPECT_EQ(after.update_commits - before.update_commits, 2u);
	EXPECT_EQ(after.empty_commits - before.empty_commits, 1u);
	EXPECT_EQ(after.ro_commits - before.ro_commits, 1u);
	EXPECT_EQ(after.log_entries - before.log_entries, 2u);
}

TEST_F(Api, Phases_AreMeasuredWhenAskedFor)
{
	uint64_t *p = block();
	heap_.close();
	fur::Options o = small_options();
	o.phase_times = true;
	heap_ = open(o);
	pm_emulate(&heap_.get()->durability.pm, 310, 0);
	fur::Thread t(heap_);
	for (int i = 0; i < 100; i++)
		fur::update(t, [&](fur_update *tx) { fur_store(tx, &p[0], 1u); });
	fur_stats s = heap_.stats();
	EXPECT_GE(s.phase_ns[FUR_PHASE_FLUSH], 100u * 300) << "100 fences of 310 ns each";
	EXPECT_GT(s.phase_ns[FUR_PHASE_BODY], 0u);
}

TEST(Names, EveryErrorHasItsOwn)
{
	std::vector<std::string> seen;
	for (int e = 0; e >= FUR_EGROUP; e--) {
		std::string text = fur_strerror(e);
		EXPECT_NE(text, fur_strerror(-1000)) << e;
		for (const auto &other : seen)
			EXPECT_NE(text, other);
		seen.push_back(text);
	}
	for (int c = 0; c < FUR_ABORT_CAUSES; c++)
		EXPECT_STRNE(fur_name(FUR_NAME_ABORT, static_cast<fur_abort_cause>(c)), "?");
	for (int p = 0; p < FUR_PHASES; p++)
		EXPECT_STRNE(fur_name(FUR_NAME_PHASE, static_cast<fur_phase>(p)), "?");
}

} // namespace
