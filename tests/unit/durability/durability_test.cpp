/* SPDX-License-Identifier: BSD-3-Clause
 *
 * durability_test.cpp - which transaction waits for which: an update that is visible and not yet
 * durable is put into nondurable[] by hand, as thread 3's, and kept there for as long as the test
 * likes.
 */
#include "fixture.hpp"
#include "internals.hpp"

#include <atomic>
#include <thread>

namespace
{

class Waits : public HeapFile
{
protected:
	enum { OTHER = 3, ID = 9 };

	Waits() : heap_(create()), self_(heap_), d_(heap_.get()->durability)
	{
		/* Scans look at all four slots. */
		std::vector<std::thread> all;
		std::atomic<int> here{0};
		for (int i = 0; i < 3; i++)
			all.emplace_back([&] {
				fur::Thread t(heap_);
				here++;
				while (here < 3)
					std::this_thread::yield();
			});
		for (auto &t : all)
			t.join();
	}
	static commit other_commit()
	{
		commit c{};
		c.me = OTHER;
		return c;
	}
	/* Thread OTHER's update: announced, its durTS drawn, and so on, each by hand. */
	void announce(uint64_t id = ID)
	{
		other_.id = id;
		other_.durts = 0;
		nondurable_announce(&d_, &other_);
	}
	uint64_t draw()
	{
		ring_draw(&d_, &other_);
		nondurable_publish(&d_, &other_);
		return other_.durts;
	}
	/* It has its marker; for our purpose an abort marker will do. */
	void become_durable()
	{
		if (other_.durts)
			EXPECT_EQ(durability_abort(&d_, &other_), 0);
		else
			leave();
	}
	/* It never gets one. */
	void leave()
	{
		nondurable_leave(&d_, &other_);
	}
	/* As if everything below had been replayed. */
	void move_tail(uint64_t durts)
	{
		d_.words->tail[0][0] = d_.words->tail[1][0] = media_tail_encode(durts);
		__atomic_store_n(&d_.control->tail, durts, __ATOMIC_SEQ_CST);
		__atomic_store_n(&d_.tail, durts, __ATOMIC_SEQ_CST);
	}
	/* Long enough for a thread that does not wait to finish. */
	static void a_while()
	{
		usleep(30000);
	}

	/* Runs `work` on a thread; says whether it has returned. */
	class Beside
	{
	public:
		template <class Work>
		explicit Beside(Work work) : thread_([this, work] { work(), returned_ = true; })
		{
		}
		~Beside()
		{
			thread_.join();
		}
		bool returned() const
		{
			return returned_;
		}

	private:
		std::atomic<bool> returned_{false};
		std::thread thread_;
	};

	void update()
	{
		fur::Thread t(heap_);
		fur::update(t, [&](fur_update *tx) { fur_set_root(tx, 1, tx); });
	}
	/* The marker of a durTS, as soon as it is there. */
	const media_marker &marker(uint64_t durts)
	{
		const media_marker *m = durability_marker(&d_, durts);
		while (__atomic_load_n(&m->durts, __ATOMIC_ACQUIRE) != durts)
			std::this_thread::yield();
		return *m;
	}
	static bool names(const media_marker &m, uint64_t durts)
	{
		const uint64_t back = m.durts - 1 - durts;
		return back < MEDIA_DEPS && (m.deps[back / 64] >> back % 64 & 1);
	}
	/* What the record's head claims of the others. */
	uint64_t settled(const media_marker &m)
	{
		const media_file f = media_file_of(d_.super, d_.words);
		media_claims claims{};
		EXPECT_TRUE(log_read_head(
		        &f, log_of_marker(&f, &m), m.thread, m.log_start, ring_tail(&d_), &claims));
		return claims.settled;
	}
	/* The update has found OTHER's in nondurable[], and waits for its durTS.  OTHER's becomes
	 * durable, and leaves, without having let anyone see the durTS. */
	uint64_t leave_unseen()
	{
		ring_draw(&d_, &other_);
		const uint64_t durts = other_.durts;
		become_durable();
		return durts;
	}
	uint64_t in_nondurable()
	{
		dset::dset_member members[4] = {};
		dset set = {};
		set.members = members;
		nondurable_collect(&d_, UINT32_MAX, &set);
		return set.n;
	}
	/* Until an update has collected OTHER's: then it announces itself, and waits for OTHER's
	 * durTS. */
	void await_announced()
	{
		while (in_nondurable() < 2)
			std::this_thread::yield();
	}
	void read()
	{
		fur::Thread t(heap_);
		fur::read(t, [&](fur_ro *tx) { return fur_root(tx, 1); });
	}

	fur::Heap heap_;
	fur::Thread self_;
	durability &d_;
	commit other_ = other_commit();
};

TEST_F(Waits, Reader_ReturnsOnlyWhenWhatItMayHaveReadIsDurable)
{
	announce();
	draw();
	Beside reader([this] { read(); });
	a_while();
	EXPECT_FALSE(reader.returned());
	become_durable();
}

TEST_F(Waits, Reader_IsNotHeldUp_ByItsSlotBeingFilledInOrByOtherUpdates)
{
	announce();
	const uint64_t reads = heap_.stats().ro_commits;
	Beside reader([this] { read(); });
	/* It has collected the updates that it waits for. */
	while (heap_.stats().ro_commits == reads)
		std::this_thread::yield();
	draw();
	a_while();
	EXPECT_FALSE(reader.returned()) << "a slot filled in is no change of owner";
	/* The next update of that thread is none of this reader's. */
	uint64_t durts = other_.durts;
	leave();
	announce(ID + 1);
	while (!reader.returned())
		std::this_thread::yield();
	other_.durts = durts;
	EXPECT_EQ(durability_abort(&d_, &other_), 0);
}

TEST_F(Waits, Update_NamesItsDependency_AndFlushesBeforeItIsDurable)
{
	announce();
	uint64_t slot = draw();
	{
		Beside update_beside([this] { update(); });
		media_marker *m = durability_marker(&d_, slot + 1);
		while (__atomic_load_n(&m->durts, __ATOMIC_ACQUIRE) != slot + 1)
			std::this_thread::yield();
		EXPECT_EQ(m->deps[0], 1u) << "the slot just before its own";
		a_while();
		EXPECT_FALSE(update_beside.returned()) << "the marker is out; the return waits";
		leave();
	}
	/* Thread 3 never wrote its marker: after a failure now, both are gone. */
	replay_result result;
	move_tail(slot);
	ASSERT_EQ(replay_recover(&d_, &result), 0);
	EXPECT_EQ(result.dropped, 1u);
	EXPECT_EQ(result.updates, 0u);
}

TEST_F(Waits, Update_DrawsItsSlotAfterItsDependencies)
{
	announce();
	uint64_t next = d_.next_durts;
	Beside update_beside([this] { update(); });
	a_while();
	EXPECT_EQ(__atomic_load_n(&d_.next_durts, __ATOMIC_SEQ_CST), next)
	        << "its dependency has no slot yet";
	EXPECT_EQ(draw(), next);
	become_durable();
}

TEST_F(Waits, Update_WaitsForADependencyTooFarBackToName)
{
	announce();
	uint64_t slot = draw();
	/* 300 slots later; the ring is smaller, so as far as it is concerned they are replayed. */
	__atomic_store_n(&d_.next_durts, slot + 300, __ATOMIC_SEQ_CST);
	move_tail(slot + 290);
	Beside update_beside([this] { update(); });
	media_marker *m = durability_marker(&d_, slot + 300);
	a_while();
	EXPECT_NE(__atomic_load_n(&m->durts, __ATOMIC_ACQUIRE), slot + 300)
	        << "no marker before the dependency is durable";
	leave();
	while (__atomic_load_n(&m->durts, __ATOMIC_ACQUIRE) != slot + 300)
		std::this_thread::yield();
	EXPECT_EQ(m->deps[0] | m->deps[1] | m->deps[2] | m->deps[3], 0u);
	while (!update_beside.returned())
		std::this_thread::yield();
	/* Nothing below is in the ring: let closing replay from the marker on. */
	move_tail(slot + 300);
}

/* On TSX an update draws its durTS after it has become visible, so after others have read it. */
TEST_F(Waits, Update_NamesADependencyThatHasLeft_AndIsAboveItsClaim)
{
	announce();
	Beside update_beside([this] { update(); });
	await_announced();
	const uint64_t other = leave_unseen();
	const media_marker &m = marker(other + 1);
	EXPECT_LE(settled(m), other) << "it had read next_durts before";
	EXPECT_TRUE(names(m, other)) << "or recovery keeps it although OTHER's marker is damaged";
}

TEST_F(Waits, ADependencyThatHasLeft_HasTheDurTSOfItsThreadsNewestUpdateThatHas)
{
	dset::dset_member members[4] = {};
	dset set = {};
	set.members = members;
	announce();
	nondurable_collect(&d_, 0, &set);
	ASSERT_EQ(set.n, 1u);
	const uint64_t durts = leave_unseen();
	announce(ID + 1);
	nondurable_wait_drawn(&d_, &set); /* returns */
	EXPECT_TRUE(members[0].left);
	EXPECT_EQ(members[0].durts, durts) << "the next update has none yet";
	const uint64_t next = leave_unseen();
	nondurable_wait_drawn(&d_, &set);
	EXPECT_EQ(members[0].durts, durts) << "known before the caller drew, and below its own";
	nondurable_collect(&d_, 0, &set);
	EXPECT_EQ(set.n, 0u);
	set.n = 1;
	members[0] = {.thread = OTHER, .id = ID, .durts = 0, .left = false};
	nondurable_wait_drawn(&d_, &set);
	EXPECT_EQ(members[0].durts, next);
}

TEST_F(Waits, Update_ClaimsADependencyThatHasLeft_AndIsTooFarBackToName)
{
	/* An update of another thread, which is in no other's way until then. */
	commit third{};
	third.me = 2;
	third.id = ID;
	announce();
	uint64_t slot;
	{
		Beside update_beside([this] { update(); });
		await_announced();
		nondurable_announce(&d_, &third);
		ring_draw(&d_, &third); /* its durTS is not in nondurable[] yet */
		ring_draw(&d_, &other_);
		slot = other_.durts;
		__atomic_store_n(&d_.next_durts, slot + 300, __ATOMIC_SEQ_CST);
		move_tail(slot + 290);
		leave();
		media_marker *m = durability_marker(&d_, slot + 300);
		a_while();
		EXPECT_NE(__atomic_load_n(&m->durts, __ATOMIC_ACQUIRE), slot + 300)
		        << "it must not claim that third's update is settled";
		nondurable_leave(&d_, &third);
		EXPECT_EQ(settled(marker(slot + 300)), slot + 1);
	}
	move_tail(slot + 300);
}

/* In place of OTHER's update, the marker names OTHER's next one.  That has read from a third
 * thread's, and is durable before it. */
TEST_F(Waits, Update_ThatNamesALaterUpdate_WaitsForWhatThatOneHasReadFrom)
{
	commit third{};
	third.me = 2;
	third.id = ID;
	announce();
	Beside update_beside([this] { update(); });
	await_announced();
	nondurable_announce(&d_, &third);
	ring_draw(&d_, &third);
	nondurable_publish(&d_, &third);
	/* At one instant OTHER's update leaves, without a durTS, and its next one has left. */
	other_.id = ID + 1;
	const uint64_t later = leave_unseen();
	EXPECT_TRUE(names(marker(later + 1), later));
	a_while();
	EXPECT_FALSE(update_beside.returned()) << "a failure would lose third's, and so all three";
	EXPECT_EQ(in_nondurable(), 2u) << "so that those that have read from it also wait";
	EXPECT_EQ(durability_abort(&d_, &third), 0);
	while (!update_beside.returned())
		std::this_thread::yield();
}

TEST_F(Waits, Scan_FindsAnUpdateThatDrewSinceTheClaim_AndHasLeft)
{
	dset::dset_member members[4] = {};
	dset set = {};
	set.members = members;
	const uint64_t below = ring_next(&d_);
	nondurable_scan(&d_, 0, &set, below);
	EXPECT_EQ(set.n, 0u);
	announce();
	const uint64_t durts = draw();
	become_durable();
	nondurable_scan(&d_, 0, &set, below);
	ASSERT_EQ(set.n, 1u) << "no claim covers it";
	nondurable_wait_drawn(&d_, &set);
	EXPECT_TRUE(members[0].left);
	EXPECT_EQ(members[0].durts, durts);
	nondurable_wait(&d_, &set); /* returns */
	nondurable_scan(&d_, 0, &set, durts + 1);
	EXPECT_EQ(set.n, 0u) << "the claim covers it";
	nondurable_scan(&d_, 0, &set, 0);
	EXPECT_EQ(set.n, 0u) << "a reader has no claim";
}

TEST_F(Waits, UpdateThatNobodyWaitsFor_WhereNoneCanBeLate_NamesItsDependencies)
{
	d_.async.state = ASYNC_REFUSED;
	announce();
	const uint64_t other = draw();
	Beside update_beside([this] {
		fur_ticket ticket;
		fur::Thread t(heap_);
		fur::update(t, ticket, [&](fur_update *tx) { fur_set_root(tx, 1, tx); });
	});
	EXPECT_TRUE(names(marker(other + 1), other));
	become_durable();
}

static void lock_acquire(engine *e, uint32_t me)
{
	turn_take(e);
	[[maybe_unused]] const shut_out found = readers_shut_out(e, me);
}

static void lock_release(engine *e)
{
	readers_let_in(e);
	turn_give(e);
}

TEST_F(Waits, NextHolderOfTheLock_LetsAReaderInThatHasWaitedLong)
{
	engine &e = heap_.get()->engine;
	if (e.ops)
		GTEST_SKIP() << "updates run in hardware here; the lock path is the stress suite's";
	/* A reader that found itself shut out many turns ago. */
	for (int i = 0; i < 10; i++)
		update();
	e.active[OTHER].since = 1;
	__atomic_store_n(
	        &e.active[OTHER].want, uint64_t(1) + e.lock.releases - 8, __ATOMIC_SEQ_CST);
	Beside update_beside([this] { update(); });
	a_while();
	EXPECT_FALSE(update_beside.returned());
	EXPECT_EQ(__atomic_load_n(&e.lock.shut, __ATOMIC_SEQ_CST), 0u)
	        << "so that the reader can become active";
	__atomic_store_n(&e.active[OTHER].want, uint64_t(0), __ATOMIC_SEQ_CST);
}

TEST_F(Waits, NextHolderOfTheLock_DoesNotWaitForAHardwareUpdate)
{
	engine &e = heap_.get()->engine;
	e.active[OTHER].since = 0;
	e.lock.releases += 2 * UPDATE_RELEASES;
	__atomic_store_n(&e.active[OTHER].want, uint64_t(1), __ATOMIC_SEQ_CST);
	lock_acquire(&e, 0);
	EXPECT_EQ(e.lock.shut, 1u) << "the holder's next act would abort that update";
	lock_release(&e);
	__atomic_store_n(&e.active[OTHER].want, uint64_t(0), __ATOMIC_SEQ_CST);
}

TEST_F(Waits, HardwareUpdate_ThatNeverSeesTheLockFree_TakesATurn)
{
	engine &e = heap_.get()->engine;
	e.lock.updates = HARDWARE; /* also where the heap has none */
	lock_acquire(&e, 0);
	std::atomic<int> free{-1};
	std::thread update([&] { free = update_awaits_let_in(&e, OTHER); });
	while (__atomic_load_n(&e.lock.sleepers, __ATOMIC_SEQ_CST) == 0)
		std::this_thread::yield();
	/* UPDATE_RELEASES releases by others; it was not awake while `shut` was reset. */
	__atomic_fetch_add(&e.lock.releases, uint64_t(UPDATE_RELEASES), __ATOMIC_SEQ_CST);
	arch_futex_wake_all(arch_futex_of(&e.lock.releases));
	update.join();
	EXPECT_EQ(free, 0);
	EXPECT_EQ(e.active[OTHER].want, 0u);
	lock_release(&e);
}

TEST_F(Waits, HardwareUpdate_ThatHasMissedManyTurns_IsWokenByAHolder)
{
	engine &e = heap_.get()->engine;
	e.lock.updates = HARDWARE;
	lock_acquire(&e, 0);
	std::thread update([&] {
		/* Either: it may look while `shut` is reset. */
		[[maybe_unused]] bool free = update_awaits_let_in(&e, OTHER);
	});
	while (__atomic_load_n(&e.lock.sleepers, __ATOMIC_SEQ_CST) == 0)
		std::this_thread::yield();
	a_while();
	/* As if another update waited for the turn, always: then no release wakes the sleepers.  If
	 * no holder does, either, this does not end. */
	__atomic_fetch_add(&e.lock.waiters, uint64_t(1), __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&e.lock.sleepers, __ATOMIC_SEQ_CST)) {
		lock_release(&e);
		lock_acquire(&e, 0);
	}
	__atomic_fetch_sub(&e.lock.waiters, uint64_t(1), __ATOMIC_SEQ_CST);
	lock_release(&e);
	update.join();
}

TEST_F(Waits, Turn_OfAThreadThatHasWaitedLong_CannotBeTaken)
{
	engine &e = heap_.get()->engine;
	/* A thread has reserved a turn, and is not running. */
	e.lock.reserved++;
	std::atomic<bool> taken{false};
	Beside other([&] {
		lock_acquire(&e, OTHER);
		taken = true;
		lock_release(&e);
	});
	a_while();
	EXPECT_FALSE(taken);
	/* The other thread has waited for long: it has reserved a turn of its own, and handed over
	 * ours. */
	while (__atomic_load_n(&e.lock.served, __ATOMIC_SEQ_CST) == 0)
		std::this_thread::yield();
	EXPECT_EQ(e.lock.served, 1u);
	EXPECT_FALSE(taken) << "the turns are handed over in order";
	lock_release(&e);
	while (!other.returned())
		std::this_thread::yield();
	EXPECT_TRUE(taken);
	EXPECT_EQ(e.lock.served, e.lock.reserved);
	EXPECT_EQ(e.lock.taken, 0u);
}

} // namespace
