/* SPDX-License-Identifier: BSD-3-Clause
 *
 * grow_test.cpp - heaps that grow: by themselves, by fur_grow(), and what other processes see of
 * it; logs that get their blocks late.
 */
#include "census.hpp"
#include "fixture.hpp"
#include "internals.hpp"

#include <algorithm>
#include <csignal>
#include <random>
#include <sys/mman.h>
#include <thread>

namespace
{

enum : uint64_t { MIB = 1 << 20 };

class Grow : public HeapFile
{
protected:
	static fur::Options growing(uint64_t max_bytes = 64 * MIB)
	{
		fur::Options o = small_options();
		o.log_bytes = 64 << 10;
		o.max_bytes = max_bytes;
		return o;
	}
	uint64_t allocated() const
	{
		struct stat st;
		return stat(path_.c_str(), &st) ? 0 : static_cast<uint64_t>(st.st_blocks) * 512;
	}
	media_super words() const
	{
		media_super s{};
		int fd = ::open(path_.c_str(), O_RDONLY);
		EXPECT_EQ(pread(fd, &s, sizeof s, 0), static_cast<ssize_t>(sizeof s));
		close(fd);
		return s;
	}
	void put_words(const media_super &s) const
	{
		int fd = ::open(path_.c_str(), O_RDWR);
		EXPECT_EQ(pwrite(fd, &s, sizeof s, 0), static_cast<ssize_t>(sizeof s));
		close(fd);
	}
	static fur_info info_of(const fur::Heap &heap)
	{
		return heap.info();
	}
	static void expect_sound(const fur::Heap &heap)
	{
		census_of(heap.get());
	}
	/* A list of blocks with known contents, newest first. */
	struct Block {
		Block *next;
		uint64_t number;
	};
	static void add(fur::Thread &self, uint64_t bytes)
	{
		fur::update(self, [&](fur_update *tx) {
			auto *block = static_cast<Block *>(fur_alloc(tx, bytes));
			if (!block)
				return;
			auto *first = static_cast<Block *>(fur_root(tx, 0));
			fur_store(tx, &block->next, first);
			fur_store(tx, &block->number,
			        first ? fur_load(tx, &first->number) + 1 : uint64_t(1));
			/* Also its last word. */
			auto *end = reinterpret_cast<uint64_t *>(block) + bytes / 8 - 1;
			fur_store(tx, end, uint64_t(bytes));
			fur_set_root(tx, 0, block);
		});
	}
	static uint64_t count(const fur::Heap &heap)
	{
		uint64_t n = 0;
		for (auto *b = static_cast<Block *>(root_at_rest(heap.get(), 0)); b; b = b->next)
			n += b->number != 0;
		return n;
	}
};

TEST_F(Grow, WithoutMaxBytes_NothingChanges)
{
	fur::Heap heap = create();
	EXPECT_EQ(info_of(heap).max_bytes, info_of(heap).heap_bytes);
	EXPECT_EQ(fur_grow(heap.get(), heap_size(heap.get())), 0);
	EXPECT_EQ(fur_grow(heap.get(), heap_size(heap.get()) + 1), FUR_EINVAL);
	EXPECT_NE(std::string(fur_errormsg()).find("--max-bytes"), std::string::npos);
	EXPECT_EQ(words().more.features, 0u);
}

TEST_F(Grow, MaxBytes_IsChecked)
{
	for (uint64_t bad : {uint64_t(1), uint64_t(MIB), (uint64_t(1) << 47) + 1}) {
		fur::Options o = growing(bad);
		fur_heap *h;
		EXPECT_EQ(fur_create(path_.c_str(), &o, &h), FUR_EINVAL) << bad;
		EXPECT_NE(std::string(fur_errormsg()).find("max_bytes"), std::string::npos)
		        << fur_errormsg();
	}
	EXPECT_NE(access(path_.c_str(), F_OK), 0);
}

TEST_F(Grow, ANewHeap_TakesNoRoomForWhatItMayBecome)
{
	/* For each page of the addresses qemu-user takes memory of its own. */
	fur::Heap heap = create(growing(uint64_t(1) << 33));
	EXPECT_EQ(info_of(heap).max_bytes, uint64_t(1) << 33);
	/* 2 MiB for blocks, as without max_bytes; the tables are 8 MiB, and a hole. */
	EXPECT_GT(heap_size(heap.get()), 8 * MIB);
	EXPECT_LT(heap_size(heap.get()), 12 * MIB);
	EXPECT_LT(allocated(), 4 * MIB);
	fur::Thread self(heap);
	for (int k = 0; k < 15; k++)
		add(self, 65536);
	EXPECT_EQ(count(heap), 15u);
	expect_sound(heap);
}

TEST_F(Grow, ByItself_UntilItIsAsLargeAsItMayBe)
{
	fur::Heap heap = create(growing(16 * MIB));
	const uint64_t first = heap_size(heap.get());
	{
		fur::Thread self(heap);
		uint64_t n = 0;
		/* Sizes of all kinds. */
		for (uint64_t bytes = 16; count(heap) == n; bytes = bytes % 300000 + 5000, n++)
			add(self, bytes / 8 * 8);
		EXPECT_GT(n, 60u);
	}
	EXPECT_GT(heap_size(heap.get()), first);
	EXPECT_EQ(heap_size(heap.get()), 16 * MIB);
	expect_sound(heap);
	uint64_t n = count(heap);
	heap.close();
	const media_super s = words();
	EXPECT_EQ(media_heap_bytes(&s, &s), 16 * MIB);
	fur::Heap again = open();
	EXPECT_EQ(count(again), n);
	EXPECT_EQ(heap_size(again.get()), 16 * MIB);
	expect_sound(again);
}

TEST_F(Grow, ALargeBlock_MakesItGrowAtOnce)
{
	fur::Heap heap = create(growing(64 * MIB));
	fur::Thread self(heap);
	add(self, 40 * MIB);
	EXPECT_EQ(count(heap), 1u);
	EXPECT_GE(heap_size(heap.get()), 40 * MIB);
	add(self, 40 * MIB); /* never fits */
	EXPECT_EQ(count(heap), 1u);
	expect_sound(heap);
}

TEST_F(Grow, Ahead_WhenTheHeapRunsShort)
{
	fur::Heap heap = create(growing(16 * MIB));
	fur::Thread self(heap);
	grower &g = heap.get()->grower;
	/* The thread is about to sleep: only an update wakes it. */
	while (!(arch_load32(&g.calls) & EVENT_MARK))
		usleep(1000);
	const uint64_t first = heap_size(heap.get());
	while (!arch_load32(&g.called) && heap_size(heap.get()) == first)
		add(self, 65536);
	/* No end but the growth: a thread that is not woken makes this test hang. */
	while (heap_size(heap.get()) == first)
		usleep(1000);
	expect_sound(heap);
}

/* The thread that lets the heap grow ahead has failed; then there is room again. */
TEST_F(Grow, AnUpdateThatMakesItGrow_LetsItGrowAheadAgain)
{
	fur::Heap heap = create(growing(64 * MIB));
	fur::Thread self(heap);
	durability &d = heap.get()->durability;
	arch_store32(&d.grow_failed, 1);
	add(self, 8 * MIB);
	EXPECT_EQ(arch_load32(&d.grow_failed), 0u);
}

TEST_F(Grow, AbortedUpdate_GivesTheMemoryBack)
{
	fur::Heap heap = create(growing(64 * MIB));
	fur::Thread self(heap);
	for (int k = 0; k < 20; k++) {
		fur_update *tx;
		ASSERT_EQ(fur_begin_update(self.get(), &tx), 0);
		EXPECT_NE(fur_alloc(tx, 30 * MIB), nullptr);
		EXPECT_EQ(fur_abort(tx), FUR_EABORTED);
	}
	add(self, 50 * MIB);
	EXPECT_EQ(count(heap), 1u);
	expect_sound(heap);
}

TEST_F(Grow, FurGrow_AllocatesAndRecords)
{
	fur::Heap heap = create(growing(64 * MIB));
	uint64_t before = allocated();
	ASSERT_EQ(fur_grow(heap.get(), 32 * MIB - 1), 0) << fur_errormsg();
	EXPECT_EQ(heap_size(heap.get()), 32 * MIB);
	EXPECT_GE(allocated(), before + 29 * MIB);
	const media_super s = words();
	for (const auto &copy : s.grown)
		EXPECT_EQ(copy[0], media_tail_encode(32 * MIB / CHUNK_BYTES));
	EXPECT_EQ(fur_grow(heap.get(), 1), 0);
	EXPECT_EQ(heap_size(heap.get()), 32 * MIB);
	EXPECT_EQ(fur_grow(heap.get(), 64 * MIB + 1), FUR_EINVAL);
	std::string message = fur_errormsg();
	for (const char *part : {path_.c_str(), "67108864", "--max-bytes"})
		EXPECT_NE(message.find(part), std::string::npos) << message;
	EXPECT_EQ(fur_grow(nullptr, 1), FUR_EINVAL);
	fur_stats stats{};
	stats.size = sizeof stats;
	ASSERT_EQ(fur_get_stats(heap.get(), &stats), 0);
	EXPECT_GT(stats.space_bytes, 31 * MIB);
	EXPECT_LT(stats.space_used_bytes, MIB);
}

TEST_F(Grow, Killed_WithGrownMemoryOnlyInTheLog_IsRecovered)
{
	in_killed_child([&] {
		auto *heap = new fur::Heap(create(growing()));
		fur::Thread self(*heap);
		for (int k = 0; k < 10; k++)
			add(self, 2 * MIB);
		EXPECT_EQ(count(*heap), 10u);
		_exit(HasFailure());
	});
	fur::Heap heap = open();
	EXPECT_TRUE(info_of(heap).recovered);
	EXPECT_EQ(count(heap), 10u);
	expect_sound(heap);
}

/* A child adds blocks, in one heap after the other kill, and is killed after a random time.
 * What it has acknowledged must be there. */
TEST_F(Grow, KilledAtAnyTimeWhileItGrows_LosesNothing)
{
	enum { KILLS = rounds(20), MOST_US = 20000 };
	std::mt19937 random(static_cast<unsigned>(seed_of_run()));
	auto *acknowledged = static_cast<uint64_t *>(
	        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	ASSERT_NE(acknowledged, MAP_FAILED);
	fur::Options o = growing(uint64_t(1) << 30);
	for (int k = 0; k < KILLS; k++) {
		o.pm = k % 4 ? FUR_PM_EMULATED : FUR_PM_SYNC;
		if (k % 10 == 0) { /* so that it doubles again */
			unlink(path_.c_str());
			create(o).close();
			*acknowledged = 0;
		}
		pid_t child = fork();
		ASSERT_GE(child, 0);
		if (child == 0) {
			fur::Heap heap = open(o);
			fur::Thread self(heap);
			for (uint64_t n = count(heap) + 1; n < 500; n++) {
				add(self, 300000 + n % 7 * 100000);
				__atomic_store_n(acknowledged, n, __ATOMIC_SEQ_CST);
			}
			pause();
		}
		usleep(random() % MOST_US);
		kill(child, SIGKILL);
		waitpid(child, nullptr, 0);
		fur::Heap heap = open(o);
		ASSERT_GE(count(heap), *acknowledged);
		ASSERT_LE(count(heap), *acknowledged + 1);
		/* The next child goes on from here.  If it is also killed just before it
		 * acknowledges, only its own update is one too many. */
		*acknowledged = count(heap);
		expect_sound(heap);
		if (HasFailure())
			return;
	}
	munmap(acknowledged, 4096);
}

/* Each of the steps of a growth is the last before a kill: the blocks, one copy, both. */
TEST_F(Grow, CutBetweenTheTwoCopiesOfTheSize_IsTheNewSize)
{
	fur::Heap heap = create(growing());
	ASSERT_EQ(fur_grow(heap.get(), 32 * MIB), 0);
	heap.close();
	media_super s = words();
	const uint64_t old = media_tail_encode(8 * MIB / CHUNK_BYTES), now = s.grown[0][0];
	for (const auto &[first, second, bytes] :
	        {std::tuple(old, old, 8 * MIB), {now, old, 32 * MIB}, {now, now, 32 * MIB},
	                {now ^ 1, now, 32 * MIB}, {now, now ^ 256, 32 * MIB}}) {
		s.grown[0][0] = first;
		s.grown[1][0] = second;
		put_words(s);
		fur::Heap again = open();
		EXPECT_EQ(heap_size(again.get()), bytes);
		ASSERT_EQ(fur_grow(again.get(), 40 * MIB), 0) << fur_errormsg();
		again.close();
		EXPECT_EQ(words().grown[0][0], words().grown[1][0]);
	}
	s.grown[0][0] = s.grown[1][0] = now ^ 1;
	put_words(s);
	expect_refused(FUR_ECORRUPT);
}

/* The size of before the growth, in both copies, and the rest only in the log.  Without a size that
 * was durable first (INV-F5) a failure of the power could leave that. */
TEST_F(Grow, ASizeBelowWhatTheLogStoresTo_IsRefused)
{
	create(growing()).close();
	const media_super first = words();
	in_killed_child([&] {
		auto *heap = new fur::Heap(open(growing()));
		fur::Thread self(*heap);
		add(self, 20 * MIB);
		_exit(HasFailure());
	});
	media_super s = words();
	const media_super right = s;
	memcpy(s.grown, first.grown, sizeof s.grown);
	ASSERT_NE(memcmp(s.grown, right.grown, sizeof s.grown), 0);
	put_words(s);
	expect_refused(FUR_ECORRUPT);
	EXPECT_NE(std::string(fur_errormsg()).find("fur-check --repair"), std::string::npos)
	        << fur_errormsg();
	put_words(right);
	fur::Heap heap = open();
	EXPECT_TRUE(info_of(heap).recovered);
	EXPECT_EQ(count(heap), 1u);
	expect_sound(heap);
}

TEST_F(Grow, AFeatureOfALaterLibrary_IsRefused)
{
	create(growing()).close();
	media_super s = words();
	const uint64_t known = s.more.features;
	s.more.features |= MEDIA_FEATURES + 1;
	s.more.checksum = media_more_checksum(&s);
	put_words(s);
	expect_refused(FUR_EVERSION);
	/* One that this library knows, with a number that cannot be. */
	for (uint32_t stocks : {0u, 1025u}) {
		s.more.features = known | MEDIA_STOCKS;
		s.more.stocks = stocks;
		s.more.checksum = media_more_checksum(&s);
		put_words(s);
		expect_refused(FUR_ECORRUPT);
	}
	s.more.bulk_bytes++;
	put_words(s);
	expect_refused(FUR_ECORRUPT);
}

/* While a reader of the file, as a replayer is, has had it mapped from the beginning. */
TEST_F(Grow, AReplayerAlongside_AppliesWhatLiesInTheNewPart)
{
	fur::Heap heap = create(growing());
	heap_file file;
	durability d;
	char reason[160];
	fur::Options o = small_options();
	ASSERT_EQ(heap_open_file(path_.c_str(), HEAP_LOCK_REPLAYER, &file), 0) << fur_errormsg();
	ASSERT_EQ(heap_attach(&d, &file, &o, reason, sizeof reason), 0);
	d.replays_for_worker = true;
	fur::Thread self(heap);
	for (int k = 0; k < 5; k++)
		add(self, 5 * MIB);
	ASSERT_EQ(control_take(&d), 0) << fur_errormsg();
	ASSERT_EQ(replay_live(&d), 0) << fur_errormsg();
	ASSERT_EQ(control_give_back(&d), 0);
	auto *newest = static_cast<Block *>(root_at_rest(heap.get(), 0));
	uint64_t offset = reinterpret_cast<uintptr_t>(newest) -
	                  reinterpret_cast<uintptr_t>(heap_base(heap.get()));
	EXPECT_EQ(reinterpret_cast<Block *>(d.image + offset)->number, 5u);
	durability_detach(&d);
	heap_close_file(&file);
}

TEST_F(Grow, ABackup_OfAHeapThatGrowsMeanwhile_IsWhole)
{
	fur::Heap heap = create(growing());
	std::string copy = path_ + "-copy";
	std::thread worker([&] {
		fur::Thread self(heap);
		for (int k = 0; k < 400; k++)
			add(self, 128 << 10);
	});
	ASSERT_EQ(fur_backup(heap.get(), copy.c_str()), 0) << fur_errormsg();
	worker.join();
	heap.close();
	path_.swap(copy);
	fur::Heap other = open();
	expect_sound(other);
	EXPECT_LE(count(other), 400u);
	uint64_t n = count(other);
	{
		fur::Thread self(other);
		add(self, 3 * MIB);
	}
	EXPECT_EQ(count(other), n + 1);
	other.close();
	unlink(path_.c_str());
	path_.swap(copy);
}

TEST_F(Grow, ManyThreads_GrowItTogether)
{
	fur::Heap heap = create(growing());
	std::vector<std::thread> threads;
	for (int t = 0; t < 4; t++)
		threads.emplace_back([&] {
			fur::Thread self(heap);
			for (int k = 0; k < 200; k++)
				add(self, 30000 + 64 * static_cast<uint64_t>(k));
		});
	for (std::thread &t : threads)
		t.join();
	EXPECT_EQ(count(heap), 800u);
	expect_sound(heap);
}

TEST_F(Grow, Fork_TheChildsCopyCanBeClosed)
{
	fur::Heap heap = create(growing());
	fur::Thread self(heap);
	add(self, 4 * MIB);
	in_killed_child([&] {
		EXPECT_EQ(fur_grow(heap.get(), 32 * MIB), FUR_EFORK);
		heap.close();
	});
	add(self, 4 * MIB);
	EXPECT_EQ(count(heap), 2u);
}

TEST_F(Grow, Logs_GetBlocksWhenThreadsRegister)
{
	fur::Options o = small_options();
	o.log_bytes = MIB;
	o.max_threads = 64;
	o.ring_slots = 128;
	fur::Heap heap = create(o);
	uint64_t without = allocated();
	EXPECT_LT(without, 4 * MIB);
	{
		fur::Thread self(heap);
		EXPECT_EQ(allocated(), without + MIB);
		std::thread([&] { fur::Thread other(heap); }).join();
		EXPECT_EQ(allocated(), without + 2 * MIB);
		std::thread([&] { fur::Thread other(heap); }).join();
		EXPECT_EQ(allocated(), without + 2 * MIB) << "the same log again";
	}
	heap.close();
	EXPECT_EQ(words().logs, media_tail_encode(2));
	fur::Heap again = open(o);
	EXPECT_EQ(allocated(), without + 2 * MIB);
}

} // namespace
