/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ticket_test.cpp - read-only transactions that end with a ticket, and the wait for it (INV-D7).
 */
#include "fixture.hpp"
#include "internals.hpp"

#include <atomic>
#include <stdexcept>
#include <thread>

namespace
{

class Ticket : public OpenHeap
{
protected:
	Ticket()
	{
		/* So that scans reach PENDING. */
		std::thread([&] {
			fur::Thread second(heap_);
			std::thread([&] { fur::Thread third(heap_); }).join();
		}).join();
	}

	enum { PENDING = 2 }; /* an index that no thread of these tests gets */

	/* An update of that index that is visible and not durable.  It becomes durable when
	 * `become_durable` is called, or 20 ms later. */
	class Pending
	{
	public:
		explicit Pending(fur_heap *heap) : entry_(heap->durability.nondurable[PENDING])
		{
			__atomic_store_n(&entry_.id, uint64_t(7), __ATOMIC_SEQ_CST);
			thread_ = std::thread([this] {
				for (int k = 0; k < 20 && !now_; k++)
					usleep(1000);
				durable_ = true;
				__atomic_store_n(&entry_.id, uint64_t(0), __ATOMIC_SEQ_CST);
			});
		}
		~Pending()
		{
			now_ = true;
			thread_.join();
		}
		bool durable() const
		{
			return durable_;
		}

	private:
		nondurable_entry &entry_;
		std::atomic<bool> now_{false}, durable_{false};
		std::thread thread_;
	};

	fur_ticket read()
	{
		fur_ro *ro = begin_ro();
		fur_ticket ticket;
		fur_load(ro, words_);
		EXPECT_EQ(fur_end_ro(ro, &ticket), 0) << fur_errormsg();
		return ticket;
	}
	/* Does the wait for this ticket wait for an update that is not durable now? */
	bool waits(fur_thread *self, fur_ticket ticket)
	{
		Pending update(heap_);
		EXPECT_EQ(fur_wait(self, ticket), 0) << fur_errormsg();
		return update.durable();
	}
	static bool says(const char *text)
	{
		return std::string(fur_errormsg()).find(text) != std::string::npos;
	}

	uint64_t *words_ = block(8);
};

TEST_F(Ticket, End_DoesNotWait_AndWaitDoes)
{
	fur_ticket ticket;
	{
		nondurable_entry &entry = heap_.get()->durability.nondurable[PENDING];
		entry.id = 7; /* for ever: a wait would not return */
		ticket = read();
		entry.id = 0;
	}
	EXPECT_EQ(this_thread()->open, nullptr);
	EXPECT_EQ(heap_.get()->engine.active[fur_thread_index(self_)].seq, 0u);
	EXPECT_TRUE(waits(self_, ticket));
}

TEST_F(Ticket, WaitForTheLatest_CoversTheEarlier_AndNoLaterOne)
{
	fur_ticket first = read(), second = read(), third = read();
	ASSERT_EQ(fur_wait(self_, second), 0);
	nondurable_entry &entry = heap_.get()->durability.nondurable[PENDING];
	entry.id = 7; /* for ever */
	for (int again = 0; again < 2; again++)
		for (fur_ticket covered : {second, first, third})
			EXPECT_EQ(fur_wait(self_, covered), 0) << "all three ended before the wait";
	entry.id = 0;
	EXPECT_TRUE(waits(self_, read())) << "it ended after the wait";
}

TEST_F(Ticket, OtherThreads_WaitForIt)
{
	fur_ticket ticket = read();
	std::thread([&] {
		fur::Thread other(heap_);
		EXPECT_TRUE(waits(other, ticket));
		EXPECT_TRUE(waits(other, ticket)) << "its own thread has not waited";
	}).join();
	ASSERT_EQ(fur_wait(self_, ticket), 0);
	std::thread([&] {
		fur::Thread other(heap_);
		nondurable_entry &entry = heap_.get()->durability.nondurable[PENDING];
		entry.id = 7; /* for ever */
		EXPECT_EQ(fur_wait(other, ticket), 0);
		entry.id = 0;
	}).join();
}

TEST_F(Ticket, OutlivesItsRegistration)
{
	fur_ticket ticket, next;
	fur_thread *index = nullptr;
	std::thread([&] {
		fur::Thread other(heap_);
		index = other;
		ticket = fur_ticket{};
		fur::read(other, ticket, [&](fur_ro *tx) { return fur_load(tx, words_); });
		EXPECT_EQ(fur_thread_unregister(other), 0) << "a ticket keeps no thread back";
	}).join();
	std::thread([&] {
		fur::Thread other(heap_);
		ASSERT_EQ(other.get(), index) << "the index is used again";
		fur::read(other, next, [&](fur_ro *tx) { return fur_load(tx, words_); });
		EXPECT_EQ(next.source, ticket.source);
		EXPECT_GT(next.number, ticket.number) << "two tickets are the same";
	}).join();
	Pending update(heap_);
	EXPECT_EQ(fur_wait(self_, ticket), 0) << fur_errormsg();
	EXPECT_TRUE(update.durable());
	EXPECT_EQ(fur_wait(self_, next), 0) << fur_errormsg();
}

TEST_F(Ticket, Nested_IsCoveredAfterTheOutermostHasEnded)
{
	fur_ticket inner, outer;
	fur_ro *ro = begin_ro(), *joined = join_ro();
	EXPECT_EQ(fur_end_ro(joined, &inner), 0);
	EXPECT_NE(heap_.get()->engine.active[fur_thread_index(self_)].seq, 0u) << "still active";
	EXPECT_EQ(fur_wait(self_, inner), FUR_ENESTED);
	EXPECT_EQ(fur_end_ro(ro, &outer), 0);
	EXPECT_TRUE(waits(self_, inner));
	EXPECT_EQ(fur_wait(self_, outer), 0);

	fur_update *tx = begin();
	fur_store(tx, words_, uint64_t(9));
	ro = join_ro();
	EXPECT_EQ(fur_load(ro, words_), 9u);
	EXPECT_EQ(fur_end_ro(ro, &inner), 0);
	EXPECT_EQ(fur_wait(self_, inner), FUR_ENESTED);
	EXPECT_EQ(fur_commit(tx, nullptr), 0);
	EXPECT_TRUE(waits(self_, inner));
}

TEST_F(Ticket, InsideATransaction_IsRefused_AndTheTransactionGoesOn)
{
	fur_ticket ticket = read();
	fur_ro *ro = begin_ro();
	EXPECT_EQ(fur_wait(self_, ticket), FUR_ENESTED);
	EXPECT_TRUE(says("end that first")) << fur_errormsg();
	EXPECT_EQ(fur_end_ro(ro, nullptr), 0);
	fur_update *tx = begin();
	EXPECT_EQ(fur_wait(self_, ticket), FUR_ENESTED);
	EXPECT_EQ(fur_commit(tx, nullptr), 0);
	EXPECT_EQ(fur_wait(self_, ticket), 0);
}

TEST_F(Ticket, OfAnotherHeap_OrFromBeforeTheOpen_IsRefused)
{
	fur_ticket ticket = read();
	std::string second = path_ + "-2";
	fur::Options o = small_options();
	{
		fur::Heap heap = fur::Heap::create(second, o);
		fur::Thread self(heap);
		EXPECT_EQ(fur_wait(self, ticket), FUR_EINVAL);
		EXPECT_TRUE(says("another heap")) << fur_errormsg();
	}
	unlink(second.c_str());
	heap_.close();
	heap_ = open();
	self_ = fur::Thread(heap_);
	EXPECT_EQ(fur_wait(self_, ticket), FUR_EINVAL);
	EXPECT_EQ(fur_wait(self_, fur_ticket{0, 0}), FUR_EINVAL) << "no ticket at all";
	EXPECT_NE(std::string(fur_errormsg()).find("all zero"), std::string::npos);
	fur_ticket ours = read();
	ours.source |= 0xffff;
	EXPECT_EQ(fur_wait(self_, ours), FUR_EINVAL) << "an index that was never used";
}

TEST_F(Ticket, Misuse_IsRefused)
{
	fur_thread *self = self_;
	fur_ticket ticket = read(), none = ticket;
	EXPECT_EQ(fur_wait(nullptr, ticket), FUR_EINVAL);
	EXPECT_EQ(fur_end_ro(nullptr, &none), FUR_ENOTX);
	EXPECT_EQ(none.source, 0u);
	EXPECT_EQ(fur_end_ro(reinterpret_cast<fur_ro *>(&self->ro), &none), FUR_ENOTX)
	        << "it has ended";
	EXPECT_TRUE(says("fur_end_ro without")) << fur_errormsg();
	fur_ro *ro = begin_ro();
	std::thread([&] {
		fur_ticket theirs;
		EXPECT_EQ(fur_end_ro(ro, &theirs), FUR_ENOTX) << "another thread's";
		EXPECT_EQ(fur_wait(self, ticket), FUR_EINVAL) << "another thread's registration";
	}).join();
	EXPECT_EQ(fur_end_ro(ro, &ticket), 0) << "it was still open";
	EXPECT_EQ(fur_wait(self_, ticket), 0);
}

TEST_F(Ticket, HeapThatHasFailed_IsReportedByTheWait)
{
	fur_ticket durable = read();
	ASSERT_EQ(fur_wait(self_, durable), 0);
	fur_ro *ro = begin_ro();
	fur_ticket ticket;
	durability *d = &heap_.get()->durability;
	__atomic_store_n(&d->failed, static_cast<uint64_t>(int64_t(FUR_EIO)), __ATOMIC_SEQ_CST);
	EXPECT_EQ(fur_end_ro(ro, &ticket), 0);
	for (int again = 0; again < 2; again++)
		EXPECT_EQ(fur_wait(self_, ticket), FUR_EIO);
	EXPECT_TRUE(says("may not be durable")) << fur_errormsg();
	EXPECT_EQ(fur_wait(self_, durable), 0) << "that one was durable before";
	d->failed = 0;
}

TEST_F(Ticket, Cpp_ReadAndWait)
{
	fur::update(self_, [&](fur_update *tx) { fur_store(tx, words_, uint64_t(3)); });
	fur_ticket ticket;
	EXPECT_EQ(fur::read(self_, ticket, [&](fur_ro *tx) { return fur_load(tx, words_); }), 3u);
	fur::wait(self_, ticket);
	uint64_t seen = 0;
	fur::read(self_, ticket, [&](fur_ro *tx) { seen = fur_load(tx, words_); });
	EXPECT_EQ(seen, 3u);
	fur_ticket before = ticket;
	EXPECT_THROW(fur::read(self_, ticket, [](fur_ro *) { throw std::runtime_error("no"); }),
	        std::runtime_error);
	EXPECT_EQ(ticket.number, before.number);
	EXPECT_EQ(this_thread()->open, nullptr) << "it has ended";
	fur::wait(self_, ticket);
	EXPECT_THROW(fur::wait(self_, fur_ticket{0, 0}), fur::Error);
}

} // namespace
