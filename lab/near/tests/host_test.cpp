/* SPDX-License-Identifier: BSD-3-Clause
 *
 * host_test.cpp - near memory under an emulated host: calls take the time of the simulated threads
 * that make them, and ranks share memory channels.
 */
#include "../../../emulator/emulated.h"
#include "near/emulated/near_host.h"
#include "near_fixture.hpp"

#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <thread>

namespace
{

/* Run f as thread 0 of the emulated host. */
void simulate(const char *host, const std::function<void()> &f)
{
	char error[200];
	const std::unique_ptr<emu_machine, void (*)(emu_machine *)> machine(
	        emu_machine_read(host, error, sizeof error), emu_machine_free);
	ASSERT_TRUE(machine) << error;
	emu_options options = {};
	options.seed = 1;
	auto run = [](void *p) { (*static_cast<const std::function<void()> *>(p))(); };
	ASSERT_EQ(emu_run(machine.get(), &options, run, const_cast<std::function<void()> *>(&f)),
	        EMU_DONE);
}

near_options on_host(const char *machine, unsigned ranks, unsigned elements)
{
	near_options o = options_of(near_emulated, machine, elements);
	o.ranks = ranks;
	o.clock = &near_host_clock;
	return o;
}

struct Ranks {
	Ranks(const char *machine, unsigned ranks, unsigned elements)
	{
		const near_options o = on_host(machine, ranks, elements);
		EXPECT_EQ(near_open(&o, &shape, &all), 0) << fur_errormsg();
		for (unsigned k = 0; k < ranks; k++)
			EXPECT_EQ(near_load(rank(k), &machine_kernel), 0) << fur_errormsg();
	}
	~Ranks()
	{
		near_close(all);
	}
	near_rank *rank(unsigned k) const
	{
		return near_rank_of(all, k);
	}
	near_shape shape = {};
	near *all = nullptr;
};

void work(near_rank *rank, const machine &what, unsigned elements)
{
	const std::vector<machine> matrix(elements, what);
	EXPECT_EQ(near_push(rank, NEAR_SHARED, 0, matrix.data(), sizeof what), 0);
	EXPECT_EQ(near_launch(rank, 1), 0) << fur_errormsg();
	near_state state;
	while ((state = near_poll(rank, nullptr)) == NEAR_RUNNING)
		std::this_thread::yield();
	EXPECT_EQ(state, NEAR_DONE);
}

/* Microseconds that f() takes the calling thread. */
template <class F>
double time_of(F f)
{
	const uint64_t before = emu_ticks();
	f();
	return static_cast<double>(emu_ticks() - before) / 1e6;
}

TEST(NearHost, CopiesTakeTheCallersTime)
{
	double once = 0, twice = 0;
	simulate("xeon-4216", [&] {
		const Ranks near("upmem", 1, 64);
		const std::vector<char> rows(64 * 16384);
		auto push = [&](uint64_t bytes) {
			near_push(near.rank(0), NEAR_MEMORY, 0, rows.data(), bytes);
		};
		once = time_of([&] { push(8192); });
		twice = time_of([&] { push(16384); });
	});
	/* 64 rows at the 6.68 GB/s of a rank. */
	EXPECT_NEAR(once, 64 * 8192 / 6680.0, 0.5);
	EXPECT_NEAR(twice, 2 * once, 0.5);
}

/* PIM-TIDE, section 3.1: 8 bytes of the module's own memory take 231 ns. */
TEST(NearHost, LocalAccessTakes231ns)
{
	double ns = 0;
	simulate("xeon-4216", [&] {
		double us[2];
		for (uint32_t k : {0, 1}) {
			const Ranks near("upmem-sdk", 1, 1);
			machine m = {};
			m.work = MACHINE_READ, m.bytes = 8, m.rounds = 1000 + k * 100000;
			const near_counters before = [&] {
				near_counters c;
				near_count(near.rank(0), &c);
				return c;
			}();
			us[k] = time_of([&] { work(near.rank(0), m, 1); });
			near_counters after;
			near_count(near.rank(0), &after);
			/* Without the loop's other instructions, of 11 cycles each. */
			const uint64_t others = after.instructions - before.instructions - m.rounds;
			us[k] -= static_cast<double>(others) * 11 / near.shape.mhz;
		}
		ns = (us[1] - us[0]) * 1000 / 100000;
	});
	printf("own module: %.1f ns\n", ns);
	EXPECT_NEAR(ns, 231, 0.05 * 231);
}

/* The same section: 8 bytes of another module, which the host brings, take 331 us.  The kernel that
 * needs them ends, the host pulls from one module, pushes to the other, and launches again. */
TEST(NearHost, RemoteAccessTakesHundredsOfMicroseconds)
{
	double us = 0;
	simulate("xeon-4216", [&] {
		const Ranks near("upmem-sdk", 2, 1);
		machine m = {};
		m.work = MACHINE_COMPUTE, m.rounds = 1;
		work(near.rank(0), m, 1);
		work(near.rank(1), m, 1);
		us = time_of([&] {
			uint64_t word = 0;
			near_pull(near.rank(1), NEAR_MEMORY, 64, &word, 8);
			near_push(near.rank(0), NEAR_MEMORY, 64, &word, 8);
			work(near.rank(0), m, 1);
		});
	});
	printf("another module: %.1f us\n", us);
	EXPECT_GT(us, 150);
	EXPECT_LT(us, 500);
}

TEST(NearHost, OtherThreadsRunWhileOneIsBusy)
{
	uint64_t seen = 0;
	simulate("xeon-4216", [&] {
		const Ranks near("upmem-sdk", 1, 1);
		std::atomic<uint64_t> counted{0};
		std::atomic<bool> stop{false};
		std::thread other([&] {
			while (!stop.load()) {
				counted.fetch_add(1);
				emu_work(1000);
			}
		});
		machine m = {};
		m.work = MACHINE_COMPUTE, m.rounds = 1;
		work(near.rank(0), m, 1);
		seen = counted.load();
		stop.store(true);
		other.join();
	});
	/* The launch alone takes 67 of its microseconds. */
	EXPECT_GE(seen, 60u);
	EXPECT_LT(seen, 200u);
}

/* Two threads push to two ranks at once.  Returns the time that both have waited for a channel. */
uint64_t channel_wait(unsigned ranks, std::vector<near_channel> &channels)
{
	uint64_t waited = 0;
	simulate("xeon-4216", [&] {
		const Ranks near("upmem", ranks, 64);
		const std::vector<char> rows(64 * 16384);
		std::vector<std::thread> threads;
		for (unsigned k = 0; k < ranks; k++)
			threads.emplace_back([&near, &rows, k] {
				near_push(near.rank(k), NEAR_MEMORY, 0, rows.data(), 16384);
			});
		for (std::thread &t : threads)
			t.join();
		for (unsigned k = 0; k < ranks; k++) {
			near_counters c;
			near_count(near.rank(k), &c);
			waited += c.channel_ps;
		}
		for (unsigned k = 0; k < near.shape.channels; k++)
			EXPECT_TRUE(near_count_channel(near.all, k, &channels[k]));
		near_channel none;
		EXPECT_FALSE(near_count_channel(near.all, near.shape.channels, &none));
	});
	return waited;
}

TEST(NearHost, RanksOfAChannelWaitForEachOther)
{
	std::vector<near_channel> channels(8);
	/* One rank a channel: each pushes at its own speed. */
	EXPECT_EQ(channel_wait(8, channels), 0u);
	for (const near_channel &c : channels)
		EXPECT_EQ(c.written_bytes, 64u * 16384);
	/* Four ranks of 6.68 GB/s on each channel of 19.2 GB/s. */
	const uint64_t waited = channel_wait(32, channels);
	EXPECT_GT(waited, 0u);
	for (const near_channel &c : channels) {
		EXPECT_EQ(c.written_bytes, 4u * 64 * 16384);
		EXPECT_EQ(c.read_bytes, 0u);
		EXPECT_NEAR(static_cast<double>(c.busy_ps),
		        static_cast<double>(c.written_bytes) * 1e6 / 19200, 1e6);
	}
}

/* Stores that the caller has made are in what it pushes. */
TEST(NearHost, PushesWhatTheCallerHasStored)
{
	uint64_t got = 0;
	simulate("xeon-4216", [&] {
		const Ranks near("upmem", 1, 1);
		std::unique_ptr<uint64_t> word(new uint64_t(0));
		std::atomic_ref(*word).store(UINT64_C(0x123456789), std::memory_order_relaxed);
		near_push(near.rank(0), NEAR_MEMORY, 8, word.get(), 8);
		near_pull(near.rank(0), NEAR_MEMORY, 8, &got, 8);
	});
	EXPECT_EQ(got, UINT64_C(0x123456789));
}

} // namespace
