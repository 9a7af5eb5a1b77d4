/* SPDX-License-Identifier: BSD-3-Clause
 *
 * micro.cpp - the cost of single parts.  Heaps lie in /dev/shm; unless a name tells otherwise,
 * write-backs are the machine's own, with no latency added.  Linked with the library's objects, not
 * the shared library, so that single parts can be called.
 */
#include "../common/google_main.hpp"

#include <algorithm>
#include <atomic>
#include <benchmark/benchmark.h>
#include <chrono>
#include <fstream>
#include <fur.hpp>
#include <fur/hash_map.hpp>
#include <fur/root.hpp>
#include <latch>
#include <memory>
#include <random>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "internals.hpp" /* C: after everything it includes itself */

namespace
{

constexpr size_t WORDS = 100000;

struct Settings {
	uint32_t latency_ns = 0;
	bool phases = false;
	uint64_t heap_bytes = 8 << 20, log_bytes = 16 << 20;
	unsigned threads = 2;
};

class Heap
{
public:
	explicit Heap(const Settings &s = {})
	    : path_(fresh("/dev/shm/fur-micro-" + std::to_string(getpid()))),
	      heap(fur::Heap::create(path_, options(s)))
	{
		pm_emulate(&heap.get()->durability.pm, s.latency_ns, 0);
	}
	~Heap()
	{
		unlink(path_.c_str());
	}
	static fur::Options options(const Settings &s)
	{
		fur::Options o;
		o.heap_bytes = s.heap_bytes;
		o.log_bytes = s.log_bytes;
		o.max_threads = s.threads;
		o.pm = FUR_PM_EMULATED;
		o.phase_times = s.phases;
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

private:
	static std::string fresh(const std::string &path)
	{
		unlink(path.c_str());
		return path;
	}
	std::string path_;

public:
	fur::Heap heap;
};

void BM_ReadOnlyEmpty(benchmark::State &state)
{
	Heap h;
	fur::Thread self(h.heap);
	for (auto _ : state)
		fur::read(self, [](fur_ro *) {});
}
BENCHMARK(BM_ReadOnlyEmpty);

/* A read-only transaction over many words, and the same loop with nothing around it, in turns on
 * the same memory: `of_bare` is the share of the bare loop's speed.  The loops are the same
 * instructions; heaps apart would compare places in the cache. */
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

/* An update of n words on lines of their own; of none it ends as a read-only transaction does. */
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
	state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Update)->Arg(0)->RangeMultiplier(4)->Range(1, 64);

/* Where an update's time goes, at the write latency of the argument in nanoseconds a line; each
 * phase in nanoseconds an update. */
void BM_UpdatePhases(benchmark::State &state)
{
	uint32_t latency = static_cast<uint32_t>(state.range(0));
	Heap h({.latency_ns = latency, .phases = true});
	fur::Thread self(h.heap);
	uint64_t *words = h.words(64 * 8), k = 0;
	for (auto _ : state)
		fur::update(self, [&](fur_update *tx) {
			k++;
			for (uint64_t i = 0; i < 6; i++)
				fur_store(tx, &words[i * 8], k);
		});
	fur_stats s = h.heap.stats();
	for (int p : {FUR_PHASE_LOCK, FUR_PHASE_BODY, FUR_PHASE_ISOLATION, FUR_PHASE_LOG,
	             FUR_PHASE_ROOM, FUR_PHASE_FLUSH, FUR_PHASE_DURABILITY})
		state.counters[fur_name(FUR_NAME_PHASE, static_cast<fur_phase>(p))] =
		        static_cast<double>(s.phase_ns[p]) / static_cast<double>(s.update_commits);
}
BENCHMARK(BM_UpdatePhases)->Arg(0)->Arg(310);

/* An update that allocates a block of the given size and frees it. */
void BM_AllocFree(benchmark::State &state)
{
	Heap h;
	fur::Thread self(h.heap);
	for (auto _ : state)
		fur::update(self, [&](fur_update *tx) {
			fur_free(tx, fur_alloc(tx, static_cast<size_t>(state.range(0))));
		});
}
BENCHMARK(BM_AllocFree)->Arg(16)->Arg(48)->Arg(1024)->Arg(16384)->Arg(100000)->Arg(1 << 20);

/* Blocks allocated by one update and freed by the next, so that free lists are used and not only
 * the newest block. */
void BM_AllocThenFree(benchmark::State &state)
{
	constexpr int BLOCKS = 64;
	Heap h;
	fur::Thread self(h.heap);
	void *blocks[BLOCKS];
	for (auto _ : state) {
		fur::update(self, [&](fur_update *tx) {
			for (auto &block : blocks)
				block = fur_alloc(tx, static_cast<size_t>(state.range(0)));
		});
		fur::update(self, [&](fur_update *tx) {
			for (auto *block : blocks)
				fur_free(tx, block);
		});
	}
	state.SetItemsProcessed(state.iterations() * BLOCKS);
}
BENCHMARK(BM_AllocThenFree)->Arg(48)->Arg(1024)->Arg(16384);

/* Fill a table.  /0: in the update that allocates it, so that no store is logged; /1: 64 KiB in
 * each further update. */
void BM_FillTable(benchmark::State &state)
{
	const uint64_t bytes = static_cast<uint64_t>(state.range(0)), part = 65536;
	const bool logged = state.range(1);
	Heap h({.heap_bytes = 32 << 20, .log_bytes = 1 << 20});
	fur::Thread self(h.heap);
	const std::vector<uint8_t> zero(part);
	for (auto _ : state) {
		uint8_t *table = fur::update(self, [&](fur_update *tx) {
			auto *made = static_cast<uint8_t *>(fur_alloc(tx, bytes));
			for (uint64_t at = 0; !logged && at < bytes; at += part)
				fur_write(tx, made + at, zero.data(), part);
			return made;
		});
		for (uint64_t at = 0; logged && at < bytes; at += part)
			fur::update(self, [&](fur_update *tx) {
				fur_write(tx, table + at, zero.data(), part);
			});
		fur::update(self, [&](fur_update *tx) { fur_free(tx, table); });
	}
	state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_FillTable)->ArgsProduct({{1 << 17, 1 << 20, 8 << 20}, {0, 1}});

/* ------------------------------------------- what other threads cost: idle */

/* A heap with the given number of threads registered: the caller, and others that sleep. */
class Registered
{
public:
	explicit Registered(int64_t threads)
	    : heap({.log_bytes = 1 << 20, .threads = static_cast<unsigned>(threads)}),
	      self(heap.heap)
	{
		std::latch here(threads - 1);
		for (int64_t i = 1; i < threads; i++)
			others_.emplace_back([this, &here] {
				fur::Thread other(heap.heap);
				here.count_down();
				end_.wait();
			});
		here.wait();
	}
	~Registered()
	{
		end_.count_down();
		for (auto &t : others_)
			t.join();
	}
	Registered(const Registered &) = delete;
	durability &d()
	{
		return heap.heap.get()->durability;
	}
	fur_thread *me()
	{
		return self;
	}

	Heap heap;
	fur::Thread self;

private:
	std::latch end_{1};
	std::vector<std::thread> others_;
};

void BM_ReadOnlyRegistered(benchmark::State &state)
{
	Registered r(state.range(0));
	for (auto _ : state)
		fur::read(r.self, [](fur_ro *) {});
}
BENCHMARK(BM_ReadOnlyRegistered)->RangeMultiplier(4)->Range(1, 64);

/* An update of one word. */
void BM_UpdateRegistered(benchmark::State &state)
{
	Registered r(state.range(0));
	uint64_t *word = r.heap.words(1), k = 0;
	for (auto _ : state)
		fur::update(r.self, [&](fur_update *tx) { fur_store(tx, word, ++k); });
}
BENCHMARK(BM_UpdateRegistered)->RangeMultiplier(4)->Range(1, 64);

/* The isolation wait of an update in a hardware transaction when no other transaction is active:
 * one look at every thread. */
void BM_IsolationScan(benchmark::State &state)
{
	Registered r(state.range(0));
	for (auto _ : state)
		benchmark::DoNotOptimize(active_wait_inside(r.me()->engine, &r.me()->window, 1));
	state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_IsolationScan)->RangeMultiplier(4)->Range(1, 64);

/* The durability wait's scan, at the end of every transaction: over the given number of threads,
 * some of which have an update that is not yet durable. */
void BM_DurabilityScan(benchmark::State &state)
{
	Registered r(state.range(0));
	dset &set = r.me()->window.commit.dset;
	for (int64_t i = 1; i <= state.range(1); i++)
		__atomic_store_n(&r.d().nondurable[i].id, uint64_t(1), __ATOMIC_RELEASE);
	for (auto _ : state) {
		nondurable_collect(&r.d(), 0, &set);
		benchmark::DoNotOptimize(set.n);
		benchmark::ClobberMemory();
	}
	if (set.n != state.range(1))
		state.SkipWithError("the scan has missed an update");
	for (int64_t i = 1; i <= state.range(1); i++)
		__atomic_store_n(&r.d().nondurable[i].id, uint64_t(0), __ATOMIC_RELEASE);
	state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_DurabilityScan)
        ->ArgNames({"threads", "nondurable"})
        ->Args({1, 0})
        ->Args({4, 0})
        ->Args({16, 0})
        ->Args({64, 0})
        ->Args({16, 15})
        ->Args({64, 63});

/* -------------------------------------- what other threads cost: at work */

std::unique_ptr<Heap> shared_heap; /* of the benchmark that runs, made before its threads start */
uint64_t *shared_words;            /* 8 a thread, a line */

void share_heap(const benchmark::State &state)
{
	shared_heap = std::make_unique<Heap>(Settings{.phases = true,
	        .log_bytes = 1 << 20,
	        .threads = static_cast<unsigned>(state.threads()) + 1});
	shared_words = shared_heap->words(static_cast<size_t>(state.threads()) * 8);
}
void unshare_heap(const benchmark::State &)
{
	shared_heap.reset();
}

/* Each phase in nanoseconds a transaction of its kind. */
void count_phases(benchmark::State &state, std::initializer_list<fur_phase> phases,
        uint64_t fur_stats::*transactions)
{
	fur_stats s = shared_heap->heap.stats();
	for (fur_phase p : phases)
		state.counters[fur_name(FUR_NAME_PHASE, p)] =
		        static_cast<double>(s.phase_ns[p]) / static_cast<double>(s.*transactions);
}

/* Threads that only read. */
void BM_ReadersTogether(benchmark::State &state)
{
	{
		fur::Thread self(shared_heap->heap);
		const uint64_t *mine = shared_words + state.thread_index() * 8;
		for (auto _ : state)
			benchmark::DoNotOptimize(
			        fur::read(self, [mine](fur_ro *tx) { return fur_load(tx, mine); }));
	}
	if (state.thread_index() == 0)
		count_phases(state, {FUR_PHASE_RO_WAIT}, &fur_stats::ro_commits);
	state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_ReadersTogether)
        ->Setup(share_heap)
        ->Teardown(unshare_heap)
        ->ThreadRange(1, 64)
        ->UseRealTime();

/* Threads that only update, each a word of its own: nothing conflicts, everything that is waited
 * for is the protocol's. */
void BM_UpdatersTogether(benchmark::State &state)
{
	{
		fur::Thread self(shared_heap->heap);
		uint64_t *mine = shared_words + state.thread_index() * 8, k = 0;
		for (auto _ : state)
			fur::update(self, [&](fur_update *tx) { fur_store(tx, mine, ++k); });
	}
	if (state.thread_index() == 0)
		count_phases(state, {FUR_PHASE_LOCK, FUR_PHASE_ISOLATION, FUR_PHASE_DURABILITY},
		        &fur_stats::update_commits);
	state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_UpdatersTogether)
        ->Setup(share_heap)
        ->Teardown(unshare_heap)
        ->ThreadRange(1, 64)
        ->UseRealTime();

/* One thread updates, the others read: its waits for them (isolation, or the lock's wait for
 * readers), and theirs for it. */
void BM_UpdaterAmongReaders(benchmark::State &state)
{
	{
		fur::Thread self(shared_heap->heap);
		uint64_t *word = shared_words, k = 0;
		for (auto _ : state) {
			if (state.thread_index() == 0)
				fur::update(
				        self, [&](fur_update *tx) { fur_store(tx, word, ++k); });
			else
				benchmark::DoNotOptimize(fur::read(
				        self, [word](fur_ro *tx) { return fur_load(tx, word); }));
		}
	}
	if (state.thread_index() == 0) {
		count_phases(state, {FUR_PHASE_LOCK, FUR_PHASE_ISOLATION, FUR_PHASE_DURABILITY},
		        &fur_stats::update_commits);
		count_phases(state, {FUR_PHASE_RO_WAIT}, &fur_stats::ro_commits);
	}
	state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_UpdaterAmongReaders)
        ->Setup(share_heap)
        ->Teardown(unshare_heap)
        ->ThreadRange(2, 64)
        ->UseRealTime();

/* Puts of 64 bytes into a map of 200,000 keys, with the default log: how long do most take, and
 * those that find the log full?  Nanoseconds. */
void BM_Put(benchmark::State &state)
{
	struct Value {
		char bytes[64];
	};
	using Map = fur::hash_map<uint64_t, Value>;
	Heap h(Settings{.heap_bytes = 64 << 20, .log_bytes = fur::Options().log_bytes});
	fur::Thread self(h.heap);
	auto *map = fur::root<Map>(self, "map");
	std::mt19937_64 random;
	std::vector<uint32_t> took;
	for (auto _ : state) {
		const uint64_t key = random() % 200000;
		const auto began = std::chrono::steady_clock::now();
		fur::update(self, [&](fur_update *tx) { map->insert_or_assign(tx, key, Value()); });
		took.push_back(static_cast<uint32_t>(
		        std::chrono::nanoseconds(std::chrono::steady_clock::now() - began)
		                .count()));
	}
	std::sort(took.begin(), took.end());
	for (auto [name, share] : {std::pair("p50", 0.5), {"p99", 0.99}, {"p99.9", 0.999}})
		state.counters[name] = took[static_cast<size_t>(share * double(took.size()))];
	state.counters["most"] = took.back();
}
BENCHMARK(BM_Put)->Iterations(1000000);

/* One long read after the other, of every word, beside a thread that updates random ones of them;
 * each part also alone.  How much slower is each beside the other? */
enum LongRead { SLEEPS, PLAIN, OPTIMISTIC };
template <class Tx>
uint64_t sum_of(Tx *tx, const uint64_t *words, size_t n)
{
	uint64_t sum = 0;
	for (size_t k = 0; k < n; k++)
		sum += fur_load(tx, &words[k]);
	return sum;
}
void update_random_words(Heap &h, uint64_t *words, size_t n, const std::atomic<bool> &stop)
{
	fur::Thread self(h.heap);
	std::minstd_rand random;
	while (!stop) {
		uint64_t *word = &words[random() % n];
		fur::update(self, fur::rerun,
		        [word](fur_update *tx) { fur_store(tx, word, fur_load(tx, word) + 1); });
	}
}
void BM_LongRead(benchmark::State &state)
{
	constexpr size_t n = 8 << 20;
	Heap h(Settings{.heap_bytes = 256 << 20});
	uint64_t *words = h.words(n);
	std::atomic<bool> stop{false};
	std::thread updater;
	if (state.range(1))
		updater = std::thread([&] { update_random_words(h, words, n, stop); });
	fur::Thread self(h.heap);
	const uint64_t before = h.heap.stats().update_commits;
	for (auto _ : state) {
		if (state.range(0) == SLEEPS)
			std::this_thread::sleep_for(std::chrono::milliseconds(10));
		else if (state.range(0) == PLAIN)
			benchmark::DoNotOptimize(
			        fur::read(self, [&](fur_ro *tx) { return sum_of(tx, words, n); }));
		else
			benchmark::DoNotOptimize(fur::read(self, fur::rerun,
			        [&](fur_reader *tx) { return sum_of(tx, words, n); }));
	}
	const fur_stats stats = h.heap.stats();
	state.counters["updates"] = benchmark::Counter(
	        static_cast<double>(stats.update_commits - before), benchmark::Counter::kIsRate);
	state.counters["runs_again"] =
	        benchmark::Counter(static_cast<double>(self.get()->stats.reads_again),
	                benchmark::Counter::kAvgIterations);
	stop = true;
	if (updater.joinable())
		updater.join();
}
BENCHMARK(BM_LongRead)
        ->ArgNames({"read", "updates"})
        ->Args({PLAIN, 0})
        ->Args({OPTIMISTIC, 0})
        ->Args({SLEEPS, 1})
        ->Args({PLAIN, 1})
        ->Args({OPTIMISTIC, 1})
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);

/* ------------------------------------------------------------- log, marker */

/* The redo log of an update of n words: entries and undo records, always at the same place; nothing
 * is written back. */
void BM_RedoAppend(benchmark::State &state)
{
	Registered r(1);
	redo_log &log = r.d().redo[0];
	uint64_t *words = r.heap.words(64 * 8), k = 0, n = static_cast<uint64_t>(state.range(0));
	auto *base = static_cast<uint8_t *>(heap_base(r.heap.heap.get()));
	for (auto _ : state) {
		redo_begin(&log, &r.d(), REDO_UNDO);
		k++;
		for (uint64_t i = 0; i < n; i++) {
			uint64_t *to = &words[i * 8],
			         offset = static_cast<uint64_t>(
			                 reinterpret_cast<uint8_t *>(to) - base);
			if (!redo_append(&log, &r.d(), offset, to, &k, sizeof k))
				state.SkipWithError("the log is full");
		}
	}
	redo_undo(&log, &r.d(), base);
	state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_RedoAppend)->RangeMultiplier(4)->Range(1, 64);

/* A marker into the ring, for an update of n words that is visible: slot, checksum over the log,
 * write-back of log and marker, fence; the marker's room made by replay in turn.  With no words,
 * the marker alone. */
void BM_MarkerAppend(benchmark::State &state)
{
	Registered r(1);
	durability &d = r.d();
	redo_log &log = d.redo[0];
	uint64_t *words = r.heap.words(64 * 8), n = static_cast<uint64_t>(state.range(0));
	auto *base = static_cast<uint8_t *>(heap_base(r.heap.heap.get()));
	commit c{};
	for (auto _ : state) {
		redo_begin(&log, &d, REDO_UNDO);
		for (uint64_t i = 0; i < n; i++) {
			uint64_t *to = &words[i * 8],
			         offset = static_cast<uint64_t>(
			                 reinterpret_cast<uint8_t *>(to) - base);
			while (!redo_append(&log, &d, offset, to, &c.id, sizeof c.id))
				if (redo_make_room(&log, &d))
					state.SkipWithError("no room in the log");
		}
		c.id++;
		c.durts = 0;
		nondurable_announce(&d, &c);
		if (durability_await(&d, &c, durability_persist(&d, &c)))
			state.SkipWithError("durability_persist failed");
	}
}
BENCHMARK(BM_MarkerAppend)->Arg(0)->RangeMultiplier(4)->Range(1, 64);

/* ----------------------------------------------------------- write-backs */

class Lines
{
public:
	Lines()
	    : at_(static_cast<char *>(mmap(nullptr, BYTES, PROT_READ | PROT_WRITE,
	              MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0)))
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
	static Lines memory; /* to touch it takes longer than many a benchmark */
	uint64_t n = 0;
	for (auto _ : state) {
		for (uint64_t k = 0; k < lines; k++) {
			__atomic_store_n(reinterpret_cast<uint64_t *>(memory.at(n + k)), n,
			        __ATOMIC_RELAXED);
			arch_write_back(memory.at(n + k), 8);
		}
		arch_write_back_fence();
		n += stride;
	}
}
/* This many lines, others each time, under one fence. */
void BM_FlushLines(benchmark::State &state)
{
	uint64_t lines = static_cast<uint64_t>(state.range(0));
	flush(state, lines, lines);
	state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_FlushLines)->RangeMultiplier(2)->Range(1, 64);
/* The same lines each time. */
void BM_FlushSameLines(benchmark::State &state)
{
	flush(state, static_cast<uint64_t>(state.range(0)), 0);
	state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_FlushSameLines)->RangeMultiplier(2)->Range(1, 64);
/* Nothing to write back. */
void BM_Fence(benchmark::State &state)
{
	for (auto _ : state)
		arch_write_back_fence();
}
BENCHMARK(BM_Fence);

/* -------------------------------------------------------------- recovery */

/* Updates of `least` to `most` words at random, by a child that ends without closing; then fur_open
 * replays them.  The measured time is the replay's own. */
void recover(benchmark::State &state, uint64_t least, uint64_t most)
{
	constexpr int UPDATES = 30000; /* fits ring and log, so nothing is replayed before */
	uint64_t entries = 0;
	std::string path = "/dev/shm/fur-micro-recovery-" + std::to_string(getpid());
	for (auto _ : state) {
		unlink(path.c_str());
		pid_t child = fork();
		if (child == 0) {
			fur::Heap h =
			        fur::Heap::create(path, Heap::options({.heap_bytes = 128 << 20}));
			fur::Thread self(h);
			constexpr size_t N = 12 << 20;
			auto *words = fur::update(self, [&](fur_update *tx) {
				return static_cast<uint64_t *>(fur_alloc(tx, N * 8));
			});
			std::mt19937_64 random(1);
			for (int k = 0; k < UPDATES; k++)
				fur::update(self, [&](fur_update *tx) {
					for (uint64_t i = least + random() % (most - least + 1);
					        i > 0; i--)
						fur_store(tx, &words[random() % N], uint64_t(k));
				});
			_exit(0);
		}
		int status;
		waitpid(child, &status, 0);
		fur::Heap h = fur::Heap::open(path, Heap::options({}));
		fur_info i = h.info();
		if (i.replayed_updates < UPDATES)
			state.SkipWithError("not everything was left to replay");
		entries += i.replayed_entries;
		state.SetIterationTime(static_cast<double>(i.replay_ns) / 1e9);
		h.close();
	}
	unlink(path.c_str());
	state.counters["entries"] =
	        static_cast<double>(entries) / static_cast<double>(state.iterations());
	state.counters["entries_per_second"] =
	        benchmark::Counter(static_cast<double>(entries), benchmark::Counter::kIsRate);
}
void BM_Recovery(benchmark::State &state)
{
	recover(state, 1, 20);
}
BENCHMARK(BM_Recovery)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(5);
/* By the number of words of an update.  Each heap page's first store is a page fault: with few
 * words an update, that is most of it. */
void BM_RecoveryByWrites(benchmark::State &state)
{
	uint64_t words = static_cast<uint64_t>(state.range(0));
	recover(state, words, words);
}
BENCHMARK(BM_RecoveryByWrites)
        ->Arg(1)
        ->Arg(2)
        ->Arg(5)
        ->Arg(10)
        ->Arg(20)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond)
        ->Iterations(5);

/* ---------------------------------------------------------------- memory */

/* Private memory of the process: the cost of a heap in addition to its file. */
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
/* A heap of 256 MiB, one word of each page of its first half stored to: private memory beyond those
 * pages. */
void BM_HeapMemory(benchmark::State &state)
{
	constexpr uint64_t BYTES = 256 << 20;
	double before = 0, after = 0, touched = 0, most = 0;
	for (auto _ : state) {
		std::string path = "/dev/shm/fur-micro-memory-" + std::to_string(getpid());
		unlink(path.c_str());
		before = private_bytes();
		fur::Heap h =
		        fur::Heap::create(path, Heap::options({.heap_bytes = BYTES, .threads = 8}));
		fur::Thread self(h);
		auto *p = fur::update(self, [&](fur_update *tx) {
			return static_cast<char *>(fur_alloc(tx, BYTES / 2));
		});
		for (uint64_t at = 0; at < BYTES / 2; at += 4096, touched += 4096)
			fur::update(self, [&](fur_update *tx) { fur_store(tx, p + at, 'x'); });
		after = private_bytes();
		fur_info i = h.info();
		most = static_cast<double>(i.heap_bytes + i.log_bytes * i.max_threads +
		                           i.ring_slots * 128 + (1 << 20));
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
