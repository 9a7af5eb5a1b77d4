/* SPDX-License-Identifier: BSD-3-Clause
 *
 * event_test.cpp - sleeping until a condition is true (INV-EV1).
 */
#include "internals.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace
{

constexpr uint64_t BRIEFLY_NS = 2000000, LONG_NS = 20000000000;

TEST(Event, TicketOfBeforeAWakeDoesNotSleep)
{
	uint32_t event = 0;
	for (void (*wake)(uint32_t *) : {event_wake_one, event_wake_all}) {
		const uint32_t ticket = event_prepare(&event);
		wake(&event);
		event_wait(&event, ticket, 0); /* would not return */
	}
}

TEST(Event, TicketOfAfterAWakeSleeps)
{
	uint32_t event = 0;
	event_wake_all(&event);
	const uint64_t began = arch_now_ns();
	event_wait(&event, event_prepare(&event), BRIEFLY_NS);
	EXPECT_GE(arch_now_ns() - began, BRIEFLY_NS / 2);
}

/* Two threads may sleep on one ticket: a wake of one leaves the mark of the other. */
TEST(Event, MarkStaysUntilAllAreWoken)
{
	uint32_t event = 0;
	event_wake_all(&event);
	EXPECT_EQ(event & EVENT_MARK, 0u);
	const uint32_t ticket = event_prepare(&event);
	EXPECT_EQ(event_prepare(&event), ticket);
	event_wake_one(&event);
	EXPECT_EQ(event & EVENT_MARK, uint32_t(EVENT_MARK));
	EXPECT_NE(event, ticket);
	event_wake_all(&event);
	EXPECT_EQ(event & EVENT_MARK, 0u);
}

/* A ticket drawn while a wake takes the mark away: the mark stays, or the call comes after. */
TEST(Event, TicketDrawnDuringAWakeDoesNotSleep)
{
	uint32_t event = 0;
	event_prepare(&event);
	const uint32_t word = arch_fetch_add32(&event, EVENT_COUNT) + EVENT_COUNT;
	const uint32_t ticket = event_prepare(&event);
	event_call_all(&event, word);
	event_wait(&event, ticket, 0); /* would not return */
	event_prepare(&event);
	const uint32_t old = event;
	event_wake_one(&event);
	event_call_all(&event, old);
	EXPECT_EQ(event & EVENT_MARK, uint32_t(EVENT_MARK));
}

/* Otherwise a wake that finds no mark, between the two marks, would pass the sleeper over. */
TEST(Event, TicketOfAMarkThatWasTakenAway_IsOldForEver)
{
	uint32_t event = 0;
	event_prepare(&event);
	const uint32_t word = arch_fetch_add32(&event, EVENT_COUNT) + EVENT_COUNT;
	const uint32_t ticket = event_prepare(&event);
	event_call_all(&event, word);
	EXPECT_NE(event_prepare(&event), ticket) << "another sleeper's mark";
	event_wait(&event, ticket, 0); /* would not return */
}

TEST(Event, WakeOfSleepers_WithoutAny_StoresNothing)
{
	uint32_t event = 0;
	event_wake_sleepers(&event);
	EXPECT_EQ(event, 0u);
	const uint32_t ticket = event_prepare(&event);
	event_wake_sleepers(&event);
	event_wait(&event, ticket, 0); /* would not return */
	EXPECT_EQ(event & EVENT_MARK, 0u);
}

TEST(Event, CountWraps)
{
	uint32_t event = UINT32_MAX;
	const uint32_t ticket = event_prepare(&event);
	event_wake_all(&event);
	event_wait(&event, ticket, 0);
	EXPECT_EQ(event, 2u) << "once for the wake, and once for the mark";
}

TEST(Event, AwaitLooksBeforeItDrawsATicket)
{
	uint32_t event = 0;
	event_await(&event, true);
	EXPECT_EQ(event, 0u);
}

/* The second look finds what has become true since the first. */
TEST(Event, AwaitLooksAgain)
{
	uint32_t event = 0;
	int looks = 0;
	event_await(&event, ++looks >= 2);
	EXPECT_EQ(looks, 3);
}

/* Threads hand a number round by add(&turn) and wake(&event); each sleeps until it is its turn.  A
 * lost wake-up hangs. */
template <class Add, class Wake>
void hand_round(Add add, Wake wake)
{
	constexpr uint32_t THREADS = 4, ROUNDS = 2000;
	uint32_t event = 0, turn = 0;
	std::vector<std::thread> threads;
	for (uint32_t me = 0; me < THREADS; me++)
		threads.emplace_back([&, me] {
			for (uint32_t n = me; n < THREADS * ROUNDS; n += THREADS) {
				event_await(&event, arch_load32_acquire(&turn) == n);
				add(&turn);
				wake(&event);
			}
		});
	for (auto &t : threads)
		t.join();
	EXPECT_EQ(turn, THREADS * ROUNDS);
}

TEST(Event, EachOfManySleepersIsWoken)
{
	hand_round([](uint32_t *turn) { arch_store32_release(turn, *turn + 1); }, event_wake_all);
}

TEST(Event, EachOfManySleepersIsWoken_ByWhoFindsItsMark)
{
	hand_round([](uint32_t *turn) { arch_fetch_add32(turn, 1); }, event_wake_sleepers);
}

/* Each wake of one lets a sleeper go that takes what there is. */
TEST(Event, WakesOfOneReachAsManySleepers)
{
	constexpr uint32_t SLEEPERS = 4, THINGS = 4000;
	uint32_t event = 0, made = 0, taken = 0;
	const auto take = [&] {
		for (;;) {
			const uint32_t n = arch_load32_acquire(&taken);
			if (n == THINGS)
				return;
			event_await(&event, arch_load32_acquire(&made) > n ||
			                            arch_load32_acquire(&taken) == THINGS);
			if (arch_load32_acquire(&made) > n && arch_cas32(&taken, n, n + 1) &&
			        n + 1 == THINGS)
				event_wake_all(&event);
		}
	};
	std::vector<std::thread> threads;
	for (uint32_t i = 0; i < SLEEPERS; i++)
		threads.emplace_back(take);
	for (uint32_t i = 0; i < THINGS; i++) {
		arch_fetch_add32(&made, 1);
		event_wake_one(&event);
	}
	for (auto &t : threads)
		t.join();
	EXPECT_EQ(taken, THINGS);
}

/* A wait with a limit is woken before it ends. */
TEST(Event, WaitWithALimitIsWoken)
{
	uint32_t event = 0, done = 0;
	std::thread waker([&] {
		usleep(1000);
		arch_store32(&done, 1);
		event_wake_all(&event);
	});
	const uint64_t began = arch_now_ns();
	while (!arch_load32_acquire(&done)) {
		const uint32_t ticket = event_prepare(&event);
		if (!arch_load32_acquire(&done))
			event_wait(&event, ticket, LONG_NS);
	}
	EXPECT_LT(arch_now_ns() - began, LONG_NS / 2);
	waker.join();
}

/* Between processes: only a wake's count says that one has been. */
TEST(Event, SharedWakesAnotherProcess)
{
	constexpr uint32_t ROUNDS = 500;
	auto *word = static_cast<uint32_t *>(
	        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	ASSERT_NE(word, MAP_FAILED);
	uint32_t *event = word, *turn = word + 1;
	const auto play = [&](uint32_t me) {
		for (uint32_t n = me; n < 2 * ROUNDS; n += 2) {
			for (;;) {
				const uint32_t ticket = event_prepare_shared(event);
				if (arch_load32_acquire(turn) == n)
					break;
				event_wait_shared(event, ticket, 0);
			}
			arch_store32_release(turn, n + 1);
			event_wake_all_shared(event);
		}
	};
	const pid_t child = fork();
	if (child == 0) {
		play(1);
		_exit(0);
	}
	ASSERT_GT(child, 0);
	play(0);
	int status = -1;
	EXPECT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0);
	EXPECT_EQ(*event, 2 * ROUNDS); /* a plain count, as in a heap file */
	munmap(word, 4096);
}

} // namespace
