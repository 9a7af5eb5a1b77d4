/* SPDX-License-Identifier: BSD-3-Clause
 *
 * micro.cpp - what the parts cost, one by one.  Heaps lie in /dev/shm; where a name does not say otherwise, write-backs are the
 * machine's own, with no latency added.
 */
#include <benchmark/benchmark.h>
#include <chrono>
#include <fstream>
#include <fur.hpp>
#include <libpmem.h>
#include <random>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace
{

constexpr size_t WORDS = 100000;

class Heap
{
      public:
	explicit Heap(uint32_t latency_ns = FUR_NO_LATENCY, bool phases = false, uint64_t heap_bytes = 32 << 20)
	    : path_("/dev/shm/fur-micro-" + std::to_string(getpid()))
	{
		unlink(path_.c_str());
		heap = fur::Heap::create(path_, options(latency_ns, phases, heap_bytes));
	}
	~Heap()
	{
		unlink(path_.c_str());
	}
	static fur::Options options(uint32_t latency_ns, bool phases, uint64_t heap_bytes)
	{
		fur::Options o;
		o.heap_bytes = heap_bytes;
		o.log_bytes = 16 << 20;
		o.max_threads = 8;
		o.pm = FUR_PM_EMULATED;
		o.pm_latency_ns = latency_ns;
		o.phase_times = phases;
		return o;
	}
	uint64_t *words(size_t n)
	{
		fur::Thread self(heap);
		return fur::update(self, [&](fur_update *tx) {
			auto *p = static_cast<uint64_t *>(fur_alloc(tx, n * 8));
			std::vector<uint64_t> ones(n, 1);
			fur_write(tx, p, ones.data(), n * 8);
			return p;
		});
	}
	std::string path_;
	fur::Heap heap = empty();

      private:
	static fur::Heap empty()
	{
		std::string path = "/dev/shm/fur-micro-empty-" + std::to_string(getpid());
		fur::Heap h = fur::Heap::create(path, options(FUR_NO_LATENCY, false, 4 << 20));
		unlink(path.c_str());
		return h;
	}
};

void BM_ReadOnlyEmpty(benchmark::State &state)
{
	Heap h;
	fur::Thread self(h.heap);
	for (auto _ : state)
		fur::read(self, [](fur_ro *) {});
}
BENCHMARK(BM_ReadOnlyEmpty);

/* A read-only transaction over many words, and the same loop with nothing around it, in turns on the same memory: `of_bare` is the share
 * of the bare loop's speed.  The loops are the same instructions; heaps apart would compare places in the cache. */
template <class Work>
double seconds_of(Work &&work)
{
	auto started = std::chrono::steady_clock::now();
	benchmark::DoNotOptimize(work());
	return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
}
void BM_ReadWords(benchmark::State &state)
{
	Heap h;
	fur::Thread self(h.heap);
	const uint64_t *words = h.words(WORDS);
	double bare = 0, transaction = 0;
	for (auto _ : state) {
		bare += seconds_of([words] {
			uint64_t sum = 0;
			for (size_t i = 0; i < WORDS; i++)
				sum += __atomic_load_n(&words[i], __ATOMIC_RELAXED);
			return sum;
		});
		transaction += seconds_of([&self, words] {
			return fur::read(self, [words](fur_ro *tx) {
				uint64_t sum = 0;
				for (size_t i = 0; i < WORDS; i++)
					sum += fur_load(tx, &words[i]);
				return sum;
			});
		});
	}
	state.counters["of_bare"] = bare / transaction;
}
BENCHMARK(BM_ReadWords);

/* An update of n words on lines of their own. */
void BM_Update(benchmark::State &state)
{
	Heap h;
	fur::Thread self(h.heap);
	uint64_t *words = h.words(64 * 8), n = static_cast<uint64_t>(state.range(0)), k = 0;
	for (auto _ : state)
		fur::update(self, [&](fur_update *tx) {
			k++;
			for (uint64_t i = 0; i < n; i++)
				fur_store(tx, &words[i * 8], k);
		});
}
BENCHMARK(BM_Update)->RangeMultiplier(4)->Range(1, 64);

/* Where an update's time goes, at the write latency of the argument in nanoseconds a line; each phase in nanoseconds an update. */
void BM_UpdatePhases(benchmark::State &state)
{
	uint32_t latency = static_cast<uint32_t>(state.range(0));
	Heap h(latency ? latency : FUR_NO_LATENCY, true);
	fur::Thread self(h.heap);
	uint64_t *words = h.words(64 * 8), k = 0;
	for (auto _ : state)
		fur::update(self, [&](fur_update *tx) {
			k++;
			for (uint64_t i = 0; i < 6; i++)
				fur_store(tx, &words[i * 8], k);
		});
	fur_stats s = h.heap.stats();
	for (int p : {FUR_PHASE_LOCK, FUR_PHASE_BODY, FUR_PHASE_ISOLATION, FUR_PHASE_LOG, FUR_PHASE_ROOM, FUR_PHASE_FLUSH,
	             FUR_PHASE_DURABILITY})
		state.counters[fur_phase_name(static_cast<fur_phase>(p))] =
		        static_cast<double>(s.phase_ns[p]) / static_cast<double>(s.update_commits);
}
BENCHMARK(BM_UpdatePhases)->Arg(0)->Arg(310);

void BM_AllocFree(benchmark::State &state)
{
	Heap h;
	fur::Thread self(h.heap);
	for (auto _ : state)
		fur::update(self, [&](fur_update *tx) { fur_free(tx, fur_alloc(tx, static_cast<size_t>(state.range(0)))); });
}
BENCHMARK(BM_AllocFree)->Arg(48)->Arg(1024)->Arg(100000);

/* ----------------------------------------------------------- write-backs */

class Lines
{
      public:
	Lines()
	    : at_(static_cast<char *>(
	              mmap(nullptr, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0)))
	{
	}
	~Lines()
	{
		munmap(at_, BYTES);
	}
	static constexpr size_t BYTES = 64 << 20;
	char *at(uint64_t n)
	{
		return at_ + n * 64 % BYTES;
	}

      private:
	char *at_;
};

/* Stores to `lines` lines, their write-back, one fence; the next time `stride` lines further on. */
void flush(benchmark::State &state, uint64_t lines, uint64_t stride)
{
	Lines memory;
	uint64_t n = 0;
	for (auto _ : state) {
		for (uint64_t k = 0; k < lines; k++) {
			__atomic_store_n(reinterpret_cast<uint64_t *>(memory.at(n + k)), n, __ATOMIC_RELAXED);
			pmem_flush(memory.at(n + k), 8);
		}
		pmem_drain();
		n += stride;
	}
}
void BM_FlushSameLine(benchmark::State &state)
{
	flush(state, 1, 0);
}
BENCHMARK(BM_FlushSameLine);
void BM_FlushNextLine(benchmark::State &state)
{
	flush(state, 1, 1);
}
BENCHMARK(BM_FlushNextLine);
void BM_FlushEightLines(benchmark::State &state)
{
	flush(state, 8, 8);
}
BENCHMARK(BM_FlushEightLines);

/* -------------------------------------------------------------- recovery */

/* Updates of 1 to 20 words at random, by a child that ends without closing; then fur_open replays them.  The measured time is the
 * replay's own. */
void BM_Recovery(benchmark::State &state)
{
	constexpr int UPDATES = 30000; /* fits ring and log, so nothing is replayed before */
	uint64_t entries = 0, ns = 0;
	std::string path = "/dev/shm/fur-micro-recovery-" + std::to_string(getpid());
	for (auto _ : state) {
		unlink(path.c_str());
		pid_t child = fork();
		if (child == 0) {
			fur::Heap h = fur::Heap::create(path, Heap::options(FUR_NO_LATENCY, false, 128 << 20));
			fur::Thread self(h);
			constexpr size_t N = 12 << 20;
			auto *words =
			        fur::update(self, [&](fur_update *tx) { return static_cast<uint64_t *>(fur_alloc(tx, N * 8)); });
			std::mt19937_64 random(1);
			for (int k = 0; k < UPDATES; k++)
				fur::update(self, [&](fur_update *tx) {
					for (uint64_t i = random() % 20 + 1; i > 0; i--)
						fur_store(tx, &words[random() % N], uint64_t(k));
				});
			_exit(0);
		}
		int status;
		waitpid(child, &status, 0);
		fur::Heap h = fur::Heap::open(path, Heap::options(FUR_NO_LATENCY, false, 0));
		fur_info i = h.info();
		if (i.replayed_updates < UPDATES)
			state.SkipWithError("not everything was left to replay");
		entries += i.replayed_entries;
		ns += i.replay_ns;
		state.SetIterationTime(static_cast<double>(i.replay_ns) / 1e9);
		h.close();
	}
	unlink(path.c_str());
	state.counters["entries"] = static_cast<double>(entries) / static_cast<double>(state.iterations());
	state.counters["entries_per_second"] = static_cast<double>(entries) / (static_cast<double>(ns) / 1e9);
}
BENCHMARK(BM_Recovery)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(5);

/* ---------------------------------------------------------------- memory */

/* Private memory of the process, which is what a heap costs beside its file. */
double private_bytes()
{
	std::ifstream in("/proc/self/smaps_rollup");
	std::string word;
	double total = 0, kib;
	while (in >> word)
		if (word == "Private_Dirty:" || word == "Private_Clean:") {
			in >> kib;
			total += kib * 1024;
		}
	return total;
}
/* A heap of 256 MiB, one word of each page of its first half stored to: private memory beyond those pages. */
void BM_HeapMemory(benchmark::State &state)
{
	constexpr uint64_t BYTES = 256 << 20;
	double before = 0, after = 0, touched = 0, most = 0;
	for (auto _ : state) {
		std::string path = "/dev/shm/fur-micro-memory-" + std::to_string(getpid());
		unlink(path.c_str());
		before = private_bytes();
		fur::Heap h = fur::Heap::create(path, Heap::options(FUR_NO_LATENCY, false, BYTES));
		fur::Thread self(h);
		auto *p = fur::update(self, [&](fur_update *tx) { return static_cast<char *>(fur_alloc(tx, BYTES / 2)); });
		for (uint64_t at = 0; at < BYTES / 2; at += 4096, touched += 4096)
			fur::update(self, [&](fur_update *tx) { fur_store(tx, p + at, 'x'); });
		after = private_bytes();
		fur_info i = h.info();
		most = static_cast<double>(i.heap_bytes + i.log_bytes * i.max_threads + i.ring_slots * 128 + (1 << 20));
		h.close();
		unlink(path.c_str());
	}
	state.counters["private"] = after - before;
	state.counters["touched"] = touched;
	state.counters["beyond_touched"] = after - before - touched;
	state.counters["allowed_beyond"] = most;
}
BENCHMARK(BM_HeapMemory)->Iterations(1)->Unit(benchmark::kMillisecond);

} // namespace

BENCHMARK_MAIN();
