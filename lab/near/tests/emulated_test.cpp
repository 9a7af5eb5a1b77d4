/* SPDX-License-Identifier: BSD-3-Clause
 *
 * emulated_test.cpp - emulated near memory: its times, its limits, its descriptions.
 */
#include "near_fixture.hpp"

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

std::vector<MachineCase> machine_cases()
{
	return {{&near_emulated, "upmem", 1, false}, {&near_emulated, "upmem", 11, false},
	        {&near_emulated, "pul-ndp:nvm", 1, true},
	        {&near_emulated, "pul-ndp:dram", 1, true}};
}

namespace
{

/* Counters of `rounds` more rounds of the work. */
near_counters counters_of(Near &near, machine m, unsigned tasklets, uint32_t rounds)
{
	near_counters c[2];
	for (uint32_t k : {0, 1}) {
		near.load(machine_kernel);
		m.rounds = 100 + k * rounds;
		EXPECT_EQ(near.work(m, tasklets).kind, NEAR_FAULT_NONE);
		c[k] = near.count();
	}
	c[1].cycles -= c[0].cycles;
	c[1].instructions -= c[0].instructions;
	return c[1];
}

/* PrIM: a read of B bytes takes 77 + B / 2 cycles, a write 61 + B / 2. */
TEST(NearUpmem, TransfersTakeThePublishedTimes)
{
	Near near(options_of(near_emulated, "upmem"));
	for (uint32_t work : {MACHINE_READ, MACHINE_WRITE})
		for (uint32_t bytes : {8, 16, 32, 64, 128, 256, 512, 1024, 2048}) {
			machine m = {};
			m.work = work, m.bytes = bytes;
			const near_counters c = counters_of(near, m, 1, 1000);
			/* The loop's other instructions follow the transfer. */
			const uint64_t others = c.instructions / 1000 - 1;
			const uint64_t fixed = work == MACHINE_READ ? 77 : 61;
			EXPECT_EQ(c.cycles / 1000, fixed + bytes / 2 + others * 11) << bytes;
			uint64_t of_the_element = 0;
			near_cycles(near.rank, &of_the_element);
			EXPECT_EQ(of_the_element, near.count().cycles);
		}
}

/* PIM-TIDE: 231 ns for 8 bytes, which are 81 cycles of 350 MHz. */
TEST(NearUpmem, EightBytesTake231ns)
{
	Near near(options_of(near_emulated, "upmem"));
	EXPECT_NEAR((77 + 8 / 2) * 1000 / near.shape.mhz, 231, 1);
}

/* PrIM: 628 MB/s of one DPU that reads 2,048 bytes at a time, and 72.58 MB/s at 8 bytes, reads and
 * writes mixed, by 16 tasklets. */
TEST(NearUpmem, BandwidthIsThePublishedOne)
{
	Near near(options_of(near_emulated, "upmem"));
	auto bandwidth = [&](uint32_t bytes, unsigned tasklets) {
		machine m = {};
		m.work = MACHINE_READ, m.bytes = bytes;
		const near_counters c = counters_of(near, m, tasklets, 1000);
		return 1000.0 * bytes * tasklets / static_cast<double>(c.cycles) * 350;
	};
	EXPECT_NEAR(bandwidth(2048, 1), 628, 0.05 * 628);
	/* busy_cycles is fitted to this, and to PUL's figures. */
	EXPECT_NEAR(bandwidth(8, 16), 72.58, 0.2 * 72.58);
	/* Data do not overlap: more tasklets add nothing at large sizes. */
	EXPECT_NEAR(bandwidth(2048, 2) / bandwidth(2048, 16), 1, 0.02);
	EXPECT_GT(bandwidth(8, 4), 1.9 * bandwidth(8, 1));
}

TEST(NearUpmem, ElevenTaskletsFillThePipeline)
{
	Near near(options_of(near_emulated, "upmem"));
	for (unsigned tasklets = 1; tasklets <= 24; tasklets++) {
		machine m = {};
		m.work = MACHINE_COMPUTE;
		const near_counters c = counters_of(near, m, tasklets, 1000);
		const double ipc =
		        static_cast<double>(c.instructions) / static_cast<double>(c.cycles);
		EXPECT_NEAR(ipc, std::min(tasklets, 11u) / 11.0, 0.01) << tasklets;
	}
}

TEST(NearUpmem, ProgramsThatAreTooLargeAreRefused)
{
	Near upmem(options_of(near_emulated, "upmem"));
	EXPECT_EQ(near_load(upmem.rank, &large_kernel), FUR_ETOOBIG);
	EXPECT_NE(strstr(fur_errormsg(), "the program memory of upmem has room for 4096"), nullptr)
	        << fur_errormsg();
	Near pul(options_of(near_emulated, "pul-ndp"));
	pul.load(large_kernel);
	EXPECT_EQ(pul.run(1).kind, NEAR_FAULT_NONE);
	EXPECT_GT(pul.count().program_instructions, 4096u);
}

TEST(NearUpmem, StacksThatDoNotFitAreRefused)
{
	Near near(options_of(near_emulated, "upmem"));
	near.load(machine_kernel);
	near_counters c = near.count();
	const uint32_t room = near.shape.scratch_bytes - c.static_bytes;
	const unsigned most = room / 512;
	ASSERT_LT(most, near.shape.tasklets * 2);
	EXPECT_EQ(near_launch(near.rank, 24), most >= 24 ? 0 : FUR_ETOOBIG);
}

TEST(NearEmulated, KernelsWithoutAnImageAreRefused)
{
	const near_images none = {};
	near_kernel kernel = totals_kernel;
	kernel.images = &none;
	Near near(options_of(near_emulated, "upmem"));
	EXPECT_EQ(near_load(near.rank, &kernel), FUR_ENOENT);
	EXPECT_NE(strstr(fur_errormsg(), "install gcc-riscv64-unknown-elf"), nullptr);
	/* Nor is one that is cut off, or no ELF file. */
	for (size_t bytes : {0, 10, 51, 60, 100, 2000}) {
		const near_image &whole = totals_kernel.images->images[0];
		const near_image cut = {whole.isa, whole.elf, bytes};
		const near_images images = {"", &cut, 1};
		kernel.images = &images;
		EXPECT_EQ(near_load(near.rank, &kernel), FUR_EINVAL) << bytes;
	}
	near.load(totals_kernel);
}

TEST(NearEmulated, PrivateMemoryIsPrivate)
{
	for (const char *name : {"upmem", "pul-ndp"}) {
		Near near(options_of(near_emulated, name, 2));
		near.load(machine_kernel);
		const uint32_t end = 0x10000000 + near.shape.scratch_bytes;
		/* Null, program memory, before and behind the scratchpad, across its end. */
		for (uint32_t address :
		        {0u, 0x08000000u, 0x0ffffffcu, end, end - 2, 0xfffffffcu, 0x10000001u})
			for (uint32_t work : {MACHINE_LOAD, MACHINE_STORE}) {
				machine m = {};
				m.work = work, m.address = address;
				const near_fault_report f = near.work(m, 1);
				EXPECT_EQ(f.kind, NEAR_FAULT_SCRATCH);
				EXPECT_EQ(f.address, address);
				EXPECT_GE(f.pc, 0x08000000u);
			}
		machine m = {};
		m.work = MACHINE_LOAD, m.address = end - 4;
		EXPECT_EQ(near.work(m, 1).kind, NEAR_FAULT_NONE);
	}
}

TEST(NearEmulated, KernelsThatDoNotEndAreStopped)
{
	for (const char *name : {"upmem", "pul-ndp"}) {
		near_options o = options_of(near_emulated, name);
		o.most_instructions = 100000;
		Near near(o);
		near.load(machine_kernel);
		machine m = {};
		m.work = MACHINE_SPIN;
		EXPECT_EQ(near.work(m, 1).kind, NEAR_FAULT_STUCK);
		EXPECT_EQ(near.count().instructions, 100000u);
	}
}

/* Everything that a run leaves: results and counters. */
std::string outcome_of(const char *name, unsigned host_threads)
{
	near_options o = options_of(near_emulated, name, 8);
	o.host_threads = host_threads;
	Near near(o);
	near.load(totals_kernel);
	near.ask_for_totals(2000, TOTALS_PRELOAD);
	near.run(near.shape.tasklets < 7 ? 1 : 7);
	const std::vector<totals> results = near.pull_shared<totals>();
	const near_counters c = near.count();
	std::string all(reinterpret_cast<const char *>(&c), sizeof(c));
	return all.append(
	        reinterpret_cast<const char *>(results.data()), results.size() * sizeof(totals));
}

/* INV-NE1 */
TEST(NearEmulated, HostThreadsChangeNothing)
{
	for (const char *name : {"upmem", "pul-ndp:nvm"}) {
		const std::string one = outcome_of(name, 1);
		for (unsigned threads : {1, 2, 3, 8})
			EXPECT_EQ(outcome_of(name, threads), one) << name << " " << threads;
	}
}

TEST(NearEmulated, TheHostsClockMoves)
{
	Near near(options_of(near_emulated, "upmem", 2));
	near.load(totals_kernel);
	near.ask_for_totals(1000, TOTALS_READ);
	near_counters before = near.count();
	EXPECT_EQ(before.push_ps, before.host_ps);
	EXPECT_NEAR(static_cast<double>(before.push_ps),
	        static_cast<double>(before.pushed_bytes) * 1e6 / 6680, 2);
	near.run(4);
	near_counters after = near.count();
	EXPECT_GE(after.host_ps, before.host_ps + 21000000 + after.kernel_ps);
	EXPECT_LE(after.host_ps, before.host_ps + 21000000 + after.kernel_ps + 1500000);
	near.pull_shared<totals>();
	EXPECT_EQ(near.count().switch_ps, 2u * 21000000);
}

/* The engine overlaps what local reads do one after the other, and slow memory is hidden. */
TEST(NearPul, PreloadsOverlap)
{
	uint64_t cycles[2][2];
	for (int memory : {0, 1})
		for (int mode : {0, 1}) {
			Near near(
			        options_of(near_emulated, memory ? "pul-ndp:dram" : "pul-ndp:nvm"));
			near.load(totals_kernel);
			near.ask_for_totals(1000, mode ? TOTALS_PRELOAD : TOTALS_READ);
			EXPECT_EQ(near.run(1).kind, NEAR_FAULT_NONE);
			cycles[memory][mode] = near.count().cycles;
		}
	EXPECT_GT(cycles[0][0], cycles[1][0] + 1000 * 250 * 150 / 1000 - 1000);
	EXPECT_LT(cycles[0][1], cycles[0][0]);
	EXPECT_LT(cycles[0][1] - cycles[1][1], (cycles[0][0] - cycles[1][0]) / 3);
}

TEST(NearPul, ElementsShareTheBandwidth)
{
	auto bytes_per_us = [](unsigned elements) {
		Near near(options_of(near_emulated, "pul-ndp:dram", elements));
		near.load(machine_kernel);
		machine m = {};
		m.work = MACHINE_READ, m.bytes = 2048, m.rounds = 200;
		EXPECT_EQ(near.work(m, 1).kind, NEAR_FAULT_NONE);
		const near_counters c = near.count();
		return static_cast<double>(c.transferred_bytes) * 1e6 /
		       static_cast<double>(c.kernel_ps);
	};
	const double one = bytes_per_us(1);
	EXPECT_NEAR(bytes_per_us(2), 2 * one, 0.1 * one);
	EXPECT_NEAR(bytes_per_us(14), 8590, 500);
}

TEST(NearDescription, EveryKeyIsRequiredAndNoOtherAllowed)
{
	for (std::string name : {"upmem", "pul-ndp"}) {
		std::ifstream in(std::string(FUR_MACHINES) + "/" + name + ".toml");
		std::vector<std::string> lines;
		for (std::string line; std::getline(in, line);)
			lines.push_back(line);
		const std::string path = testing::TempDir() + "/near-" + name + ".toml";
		auto opens = [&](size_t without, const std::string &more) {
			std::ofstream out(path);
			for (size_t k = 0; k < lines.size(); k++)
				out << (k == without ? more : lines[k]) << "\n";
			out.close();
			near_options o = options_of(near_emulated, path.c_str());
			struct near *near = nullptr;
			int error = near_open(&o, nullptr, &near);
			near_close(near);
			return error == 0;
		};
		EXPECT_TRUE(opens(lines.size(), "")) << fur_errormsg();
		unsigned keys = 0;
		for (size_t k = 0; k < lines.size(); k++) {
			if (lines[k].find('=') == std::string::npos || lines[k][0] == '#')
				continue;
			keys++;
			EXPECT_FALSE(opens(k, "")) << lines[k];
			EXPECT_FALSE(opens(k, lines[k] + "\nunknown = 1")) << lines[k];
		}
		EXPECT_GT(keys, 20u);
		std::filesystem::remove(path);
	}
}

TEST(NearDescription, MemoriesThatDoNotExistAreRefused)
{
	struct near *near = nullptr;
	for (const char *name : {"pul-ndp:flash", "upmem:dram", "power9", "nothing"}) {
		near_options o = options_of(near_emulated, name);
		EXPECT_EQ(near_open(&o, nullptr, &near), FUR_EINVAL) << name;
	}
}

/* A figure for the log: at least 60 million instructions a second is the aim on a free core. */
TEST(NearEmulated, Speed)
{
	for (const char *name : {"upmem", "pul-ndp"})
		for (unsigned tasklets : {1, 11, 24}) {
			Near near(options_of(near_emulated, name));
			if (tasklets > near.shape.tasklets)
				continue;
			near.load(totals_kernel);
			near.ask_for_totals(16000, TOTALS_PRELOAD);
			const clock_t start = clock(); /* of this process, not of others */
			for (int k = 0; k < 5; k++)
				near.run(tasklets);
			const double time = static_cast<double>(clock() - start) / CLOCKS_PER_SEC;
			const auto million = static_cast<double>(near.count().instructions) / 1e6;
			EXPECT_GT(million, 5);
			printf("%s, %u tasklets: %.0f million instructions/s\n", name, tasklets,
			        million / time);
		}
}

} // namespace
