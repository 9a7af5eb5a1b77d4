/* SPDX-License-Identifier: BSD-3-Clause
 *
 * crowd_test.cpp - more threads than cores: only one update runs on each core, and every update
 * runs in the end.
 */
#include "software.hpp"

namespace
{

/* The heap takes itself to be crowded, and to have one core. */
class Crowd : public Software
{
protected:
	Crowd() : Software(room_for_threads())
	{
		struct crowd &c = heap_.get()->engine.crowd;
		c.next_count = c.every = UINT64_MAX; /* not counted by itself */
		c.crowded = 1;
		c.places = 1;
	}
	static fur_options room_for_threads()
	{
		fur::Options o = software_options();
		o.max_threads = 8;
		return o;
	}
	const crowd_place &place() const
	{
		return heap_.get()->engine.crowd.place[0];
	}
	void expect_nobody_inside() const
	{
		EXPECT_EQ(place().inside, 0u);
		EXPECT_EQ(self_.get()->policy.core_place, nullptr);
	}
};

TEST_F(Crowd, UpdateIsInsideUntilItEnds)
{
	for (tx_mode mode : {TX_CONCURRENT, TX_SERIAL, TX_IN_PLACE}) {
		update_in(mode, [&](fur_update *tx) {
			EXPECT_EQ(place().inside, 1u);
			fur_store(tx, word(0), uint64_t(mode));
		});
		expect_nobody_inside();
	}
	update_in(TX_CONCURRENT, [&](fur_update *) { EXPECT_EQ(place().inside, 1u); });
	expect_nobody_inside();
}

TEST_F(Crowd, UpdateThatDoesNotCommitIsNotInsideAnyMore)
{
	fur_update *tx;
	ASSERT_EQ(fur_begin_update(self_, &tx), 0);
	EXPECT_EQ(fur_abort(tx), FUR_EABORTED);
	expect_nobody_inside();
	ASSERT_EQ(fur_begin_update(self_, &tx), 0);
	fur_store(tx, reinterpret_cast<uint64_t *>(uintptr_t(64)), uint64_t(1));
	EXPECT_EQ(fur_commit(tx, nullptr), FUR_ERANGE);
	expect_nobody_inside();
	EXPECT_THROW(fur::update(self_, fur::rerun, [](fur_update *) { throw 1; }), int);
	expect_nobody_inside();
	std::thread([&] {
		fur_thread *t;
		ASSERT_EQ(fur_thread_register(heap_.get(), nullptr, &t), 0);
		ASSERT_EQ(fur_begin_update(t, &tx), 0);
		EXPECT_EQ(place().inside, 1u);
	}).join();
	expect_nobody_inside();
}

TEST_F(Crowd, DefeatedUpdateStaysInside)
{
	int runs = 0;
	update_in(TX_CONCURRENT, [&](fur_update *tx) {
		EXPECT_EQ(place().inside, 1u);
		uint64_t old = fur_load(tx, word(0));
		if (runs++ == 0)
			other_.run([&](fur_thread *t) { /* it is not called: it goes in by itself */
				fur::update(t, [&](fur_update *u) {
					EXPECT_EQ(place().inside, 2u);
					fur_store(u, word(0), old + 1);
				});
			});
		fur_store(tx, word(1), old);
	});
	EXPECT_EQ(runs, 2);
	EXPECT_EQ(*word(1), 1u);
	expect_nobody_inside();
}

TEST_F(Crowd, SecondUpdateWaits_UntilTheFirstEnds)
{
	struct crowd &c = heap_.get()->engine.crowd;
	fur_update *tx;
	c.quantum = 0;
	c.nap_ns = UINT64_C(3600) * 1000000000; /* only the call wakes the other thread */
	ASSERT_EQ(fur_begin_update(self_, &tx), 0);
	fur_store(tx, word(0), uint64_t(1));
	other_.start([&](fur_thread *t) {
		fur::update(
		        t, fur::rerun, [&](fur_update *u) { fur_store(u, word(1), *word(0) + 1); });
	});
	while (arch_load(&place().waiting) == 0)
		usleep(50);
	uint64_t calls = place().calls;
	EXPECT_EQ(fur_commit(tx, nullptr), 0);
	other_.finish();
	EXPECT_EQ(*word(1), 2u);
	EXPECT_EQ(place().calls, calls + 1);
	EXPECT_EQ(place().waiting, 0u);
	expect_nobody_inside();
}

/* INV-L5: the first update does not end before the second one has. */
TEST_F(Crowd, UpdateThatNobodyCallsGoesInByItself)
{
	uint64_t calls = place().calls;
	update_in(TX_CONCURRENT, [&](fur_update *tx) {
		fur_store(tx, word(0), uint64_t(1));
		other_.run([&](fur_thread *t) {
			fur::update(t, fur::rerun,
			        [&](fur_update *u) { fur_store(u, word(1), uint64_t(1)); });
		});
	});
	EXPECT_EQ(*word(0) + *word(1), 2u);
	EXPECT_EQ(place().calls, calls);
	expect_nobody_inside();
}

TEST_F(Crowd, ReadOnlyTransactionsNeverWait)
{
	update_in(TX_CONCURRENT, [&](fur_update *tx) {
		fur_store(tx, word(0), uint64_t(1));
		other_.run([&](fur_thread *t) {
			fur::read(t, [&](fur_ro *ro) { EXPECT_EQ(fur_load(ro, word(0)), 0u); });
		});
	});
	expect_nobody_inside();
}

/* The count finds the crowd, and finds that it is gone. */
TEST_F(Crowd, IsCounted)
{
	struct crowd &c = heap_.get()->engine.crowd;
	c.cores = 1;
	c.crowded = 0;
	auto one = [&](fur_thread *t) {
		fur::update(t, [&](fur_update *tx) { fur_store(tx, word(0), uint64_t(1)); });
	};
	auto count = [&] {
		c.next_count = 1;
		c.every = 0;
		crowd_count(&heap_.get()->engine);
		return c.crowded;
	};
	count();
	EXPECT_EQ(count(), 0u);
	one(self_);
	EXPECT_EQ(count(), 0u);
	one(self_);
	other_.run(one);
	EXPECT_EQ(count(), 1u);
	EXPECT_EQ(count(), 0u);
	c.place[0].waiting = 2;
	EXPECT_EQ(count(), 1u) << "threads that sleep also want a core";
	c.place[0].waiting = 0;
	durability *d = heap_.get()->engine.durability;
	for (unsigned k = 0; k < 2; k++)
		d->nondurable[k].id = 1;
	EXPECT_EQ(count(), 1u) << "so do updates that wait for others to settle";
	for (unsigned k = 0; k < 2; k++)
		d->nondurable[k].id = 0;
	EXPECT_EQ(count(), 0u);
}

/* A virtual machine was migrated: what was due at once now lies far ahead. */
TEST_F(Crowd, ClockThatHasGoneBack_DelaysNothing)
{
	struct crowd &c = heap_.get()->engine.crowd;
	struct crowd_place &p = c.place[0];
	const uint64_t far = arch_ticks() + (UINT64_C(1) << 60);
	c.every = c.quantum = arch_ns_to_ticks(1000000);
	c.next_count = far;
	crowd_count(&heap_.get()->engine);
	EXPECT_LT(c.next_count, far);
	p.waiting = 1; /* a thread to call */
	p.next_call = far;
	const uint64_t calls = p.calls;
	c.crowded = 1;
	update_in(TX_CONCURRENT, [&](fur_update *tx) { fur_store(tx, word(0), uint64_t(1)); });
	EXPECT_EQ(p.calls, calls + 1);
	p.waiting = 0;
	heap_.get()->engine.lock.readers_until = far;
	EXPECT_FALSE(readers_come_first(&heap_.get()->engine));
}

/* The caller of fur_begin_update_leaving() has left a body, and does not begin it again. */
TEST_F(Crowd, ThreadThatUnregistersGivesItsPlace)
{
	std::thread([&] {
		fur_thread *t;
		ASSERT_EQ(fur_thread_register(heap_.get(), nullptr, &t), 0);
		crowd_enter(t);
		EXPECT_EQ(place().inside, 1u);
		EXPECT_EQ(fur_thread_unregister(t), 0);
	}).join();
	expect_nobody_inside();
}

TEST_F(Crowd, EveryThreadEnds)
{
	enum { THREADS = 6, UPDATES = 3000 };
	std::vector<std::thread> threads;
	for (unsigned k = 0; k < THREADS; k++)
		threads.emplace_back([&, k] {
			fur::Thread self(heap_);
			for (unsigned i = 0; i < UPDATES; i++)
				fur::update(self, fur::rerun, [&](fur_update *tx) {
					unsigned at = k + i % 3;
					fur_store(tx, word(at), fur_load(tx, word(at)) + 1);
				});
		});
	for (std::thread &t : threads)
		t.join();
	uint64_t sum = 0;
	for (unsigned n = 0; n < THREADS + 3; n++)
		sum += *word(n);
	EXPECT_EQ(sum, uint64_t(THREADS) * UPDATES);
	EXPECT_EQ(place().waiting, 0u);
	expect_nobody_inside();
}

} // namespace
