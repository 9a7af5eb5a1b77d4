/* SPDX-License-Identifier: BSD-3-Clause
 *
 * grow.cpp - how long updates pause while a heap grows under load.
 *
 * Threads add blocks to lists at a steady pace, or as fast as they can, until the heap has reached
 * its largest size.  The program reports the longest update and when it came, how many took longer
 * than some limits, and the same for a heap that has that size from the beginning: what remains of
 * the difference is the price of growing.
 */
#include "../../tools/common/command_line.hpp"
#include "../../tools/common/json.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fur.hpp>
#include <iostream>
#include <thread>
#include <unistd.h>
#include <vector>

namespace
{

using Clock = std::chrono::steady_clock;
using Json = tools::Json;

struct Settings {
	std::string path, pm = "emulated";
	uint64_t from_mib = 64, to_mib = 8192, block_kib = 64, touch_bytes = 64, threads = 2,
	         log_kib = 64;
	uint64_t mib_per_second = 0; /* 0: as fast as they can */
	bool fixed = false;
};

/* The durations of one thread's updates. */
struct Pauses {
	double longest_ms = 0, at_mib = 0;
	uint64_t updates = 0, above_1_ms = 0, above_10_ms = 0;
	void note(double ms, double mib)
	{
		updates++;
		above_1_ms += ms > 1;
		above_10_ms += ms > 10;
		if (ms > longest_ms) {
			longest_ms = ms;
			at_mib = mib;
		}
	}
	void add(const Pauses &p)
	{
		updates += p.updates;
		above_1_ms += p.above_1_ms;
		above_10_ms += p.above_10_ms;
		if (p.longest_ms > longest_ms) {
			longest_ms = p.longest_ms;
			at_mib = p.at_mib;
		}
	}
};

/* Add one block, whose first bytes are stored to.  False: the heap is full. */
bool add_block(fur::Thread &self, unsigned root, const Settings &s)
{
	bool added = false;
	fur::update(self, [&](fur_update *tx) {
		static const char bytes[4096] = {1};
		auto *block = static_cast<char *>(fur_alloc(tx, s.block_kib << 10));
		if (!block)
			return;
		void *next = fur_root(tx, root);
		fur_write(tx, block, bytes, s.touch_bytes);
		fur_write(tx, block, static_cast<const void *>(&next), sizeof next);
		fur_set_root(tx, root, block);
		added = true;
	});
	return added;
}

Pauses work(fur::Heap &heap, unsigned thread, const Settings &s)
{
	fur::Thread self(heap);
	Pauses p;
	const auto began = Clock::now();
	const double each = s.mib_per_second ? static_cast<double>(s.block_kib * s.threads) / 1024 /
	                                               static_cast<double>(s.mib_per_second)
	                                     : 0;
	for (uint64_t n = 0;; n++) {
		const auto due =
		        began + std::chrono::duration<double>(each * static_cast<double>(n));
		if (s.mib_per_second)
			std::this_thread::sleep_until(due);
		const auto start = Clock::now();
		if (!add_block(self, thread, s))
			return p;
		const std::chrono::duration<double, std::milli> took = Clock::now() - start;
		p.note(took.count(), static_cast<double>(heap.info().heap_bytes) / (1 << 20));
	}
}

Json run(const Settings &s)
{
	fur::Options o;
	o.heap_bytes = (s.fixed ? s.to_mib : s.from_mib) << 20;
	o.max_bytes = s.to_mib << 20;
	o.max_threads = static_cast<uint32_t>(s.threads);
	o.log_bytes = s.log_kib << 10;
	o.pm = s.pm == "sync" ? FUR_PM_SYNC : FUR_PM_EMULATED;
	fur::Heap heap = fur::Heap::create(s.path, o);
	unlink(s.path.c_str());
	std::vector<Pauses> pauses(s.threads);
	std::vector<std::thread> threads;
	const auto began = Clock::now();
	for (unsigned t = 0; t < s.threads; t++)
		threads.emplace_back([&, t] { pauses[t] = work(heap, t, s); });
	for (std::thread &t : threads)
		t.join();
	const std::chrono::duration<double> took = Clock::now() - began;
	Pauses all;
	for (const Pauses &p : pauses)
		all.add(p);
	return {{"fixed", s.fixed}, {"pm", s.pm}, {"from_mib", s.from_mib},
	        {"to_mib", heap.info().heap_bytes >> 20}, {"threads", s.threads},
	        {"log_kib", s.log_kib}, {"block_kib", s.block_kib}, {"touch_bytes", s.touch_bytes},
	        {"mib_per_second", s.mib_per_second}, {"seconds", took.count()},
	        {"updates", all.updates}, {"longest_ms", all.longest_ms},
	        {"longest_at_mib", all.at_mib}, {"above_1_ms", all.above_1_ms},
	        {"above_10_ms", all.above_10_ms}};
}

} // namespace

int main(int argc, char **argv)
{
	Settings s;
	tools::CommandLine line("grow", "Let a heap grow under load, and report the longest "
	                                "update.  Prints a line of JSON.");
	line.option("--heap", s.path, "the heap file, which is removed").required();
	line.option("--pm", s.pm, "the persistence domain").one_of({"emulated", "sync"});
	line.option("--from-mib", s.from_mib, "the heap's first size").range(1, 1 << 20);
	line.option("--to-mib", s.to_mib, "its largest size").range(1, 1 << 20);
	line.option("--block-kib", s.block_kib, "each update allocates this much")
	        .range(1, 1 << 20);
	line.option("--touch-bytes", s.touch_bytes, "and stores this much").range(8, 4096);
	/* The update that finds its log full replays: a pause, but not one of growth.  With sync
	 * it replays all logs, so there the size counts. */
	line.option("--log-kib", s.log_kib, "each thread's log, a power of two").range(4, 1 << 20);
	line.option("--threads", s.threads, "threads that update").range(1, 64);
	line.option("--mib-per-second", s.mib_per_second, "of all threads; 0: as fast as they can");
	line.flag("--fixed", s.fixed, "begin with the largest size: nothing grows");
	if (auto status = tools::parse_or_exit_status(line, "grow", argc, argv))
		return *status;
	try {
		std::cout << run(s).dump() << "\n";
	} catch (const std::exception &e) {
		std::cerr << "grow: " << e.what() << "\n";
		return 1;
	}
	return 0;
}
