/* SPDX-License-Identifier: BSD-3-Clause
 *
 * backup_test.cpp - copies of a heap in use (fur_backup): each contains what was durable when it
 * was begun, and a state that the heap once had; a copy that fails leaves no file.
 */
#include "fixture.hpp"
#include "internals.hpp"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <sys/resource.h>
#include <thread>

namespace
{

class Backup : public HeapFile
{
protected:
	enum { THREADS = 3, BLOCKS = 400, BLOCK_WORDS = 128, BLOCK_BYTES = 60000 };

	/* The counter of each thread, their sum, and blocks all over the heap, so that copying
	 * takes a while: each has the number of the update that wrote it last, in all its
	 * words. */
	struct Data {
		uint64_t counter[THREADS], sum;
		uint64_t *block[BLOCKS];
	};

	static fur::Options options()
	{
		fur::Options o = small_options();
		o.heap_bytes = 32 << 20;
		return o;
	}
	~Backup() override
	{
		for (const std::string &c : copies_)
			unlink(c.c_str());
	}
	std::string new_copy()
	{
		copies_.push_back(path_ + ".copy" + std::to_string(copies_.size()));
		unlink(copies_.back().c_str());
		return copies_.back();
	}
	/* Files that belong to the heap: itself and copies, finished or not. */
	size_t files() const
	{
		const std::filesystem::path heap(path_);
		size_t n = 0;
		for (const auto &f : std::filesystem::directory_iterator(heap.parent_path()))
			n += f.path().filename().string().rfind(heap.filename().string(), 0) == 0;
		return n;
	}

	static void fill(const fur::Heap &heap)
	{
		fur::Thread self(heap);
		fur::update(self, [&](fur_update *tx) {
			auto *data = static_cast<Data *>(fur_alloc(tx, sizeof(Data)));
			const Data zero{};
			fur_write(tx, data, &zero, sizeof zero);
			fur_set_root(tx, 0, data);
		});
		auto *data = static_cast<Data *>(root_at_rest(heap, 0));
		for (unsigned k = 0; k < BLOCKS; k++)
			fur::update(self, [&](fur_update *tx) {
				const uint64_t words[BLOCK_WORDS] = {};
				auto *block = static_cast<uint64_t *>(fur_alloc(tx, BLOCK_BYTES));
				fur_write(tx, block, words, sizeof words);
				fur_store(tx, &data->block[k], block);
			});
	}
	static void add(const fur::Heap &heap, fur_thread *self, unsigned thread, uint64_t random)
	{
		auto *data = static_cast<Data *>(root_at_rest(heap, 0));
		fur::update(self, fur::rerun, [&](fur_update *tx) {
			const uint64_t mine = fur_load(tx, &data->counter[thread]) + 1,
			               sum = fur_load(tx, &data->sum) + 1;
			fur_store(tx, &data->counter[thread], mine);
			fur_store(tx, &data->sum, sum);
			uint64_t words[BLOCK_WORDS];
			std::fill_n(words, +BLOCK_WORDS, sum);
			fur_write(tx, fur_load(tx, &data->block[random % BLOCKS]), words,
			        sizeof words);
		});
	}
	/* The copy opens, is of one piece, and has at least these counters. */
	static void check_copy(const std::string &path, const std::vector<uint64_t> &least)
	{
		fur::Heap heap = fur::Heap::open(path, small_options());
		EXPECT_FALSE(heap.info().recovered) << "it was not closed";
		fur::Thread self(heap);
		const Data *data = static_cast<Data *>(root_at_rest(heap, 0));
		uint64_t sum = 0, newest = 0;
		for (unsigned t = 0; t < THREADS; t++) {
			EXPECT_GE(data->counter[t], least[t]) << "lost what was acknowledged";
			sum += data->counter[t];
		}
		EXPECT_EQ(data->sum, sum);
		for (const uint64_t *block : data->block) {
			EXPECT_EQ(std::count(block, block + BLOCK_WORDS, *block), +BLOCK_WORDS);
			newest = std::max(newest, *block);
		}
		EXPECT_EQ(newest, sum) << "the last update is there in part";
		/* It is a heap to work on. */
		add(heap, self, 0, 0);
		EXPECT_EQ(data->sum, sum + 1);
		heap.close();
	}

	std::vector<std::string> copies_;
};

/* With a ring of 64 slots, replays run all the time. */
class BackupUnderLoad : public Backup, public ::testing::WithParamInterface<fur_pm>
{
};

TEST_P(BackupUnderLoad, EachCopyHasWhatWasDurable_AndIsOfOnePiece)
{
	enum { COPIES = 12 };
	fur::Options o = options();
	o.pm = GetParam();
	std::vector<std::vector<uint64_t>> least;
	{
		fur::Heap heap = fur::Heap::create(path_, o);
		std::atomic<bool> stop{false};
		std::atomic<uint64_t> acknowledged[THREADS] = {};
		fill(heap);
		std::vector<std::thread> all;
		for (unsigned t = 0; t < THREADS; t++)
			all.emplace_back([&, t] {
				fur::Thread self(heap);
				for (uint64_t random = t; !stop; acknowledged[t]++)
					add(heap, self, t,
					        random = random * 6364136223846793005u + 1442695);
			});
		const uint64_t replays = heap.stats().replays;
		for (int k = 0; k < COPIES; k++) {
			least.emplace_back(acknowledged, acknowledged + THREADS);
			heap.backup(new_copy());
		}
		EXPECT_GT(heap.stats().replays - replays, 2u * COPIES);
		stop = true;
		for (std::thread &t : all)
			t.join();
		heap.close();
	}
	EXPECT_GT(least.back()[0], least.front()[0]) << "no updates beside the copies";
	for (int k = 0; k < COPIES; k++) {
		SCOPED_TRACE("copy " + std::to_string(k));
		check_copy(copies_[static_cast<size_t>(k)], least[static_cast<size_t>(k)]);
	}
	check_copy(path_, least.back());
}

INSTANTIATE_TEST_SUITE_P(Domains, BackupUnderLoad, ::testing::Values(FUR_PM_EMULATED, FUR_PM_SYNC),
        [](const auto &with) { return with.param == FUR_PM_SYNC ? "sync" : "emulated"; });

TEST_F(Backup, TwoAtATime_OneIsRefused_AndLeavesNoFile)
{
	fur::Heap heap = create(options());
	fill(heap);
	const std::string first = new_copy(), second = new_copy();
	std::atomic<int> ready{0}, made{0}, busy{0};
	auto copy = [&](const std::string &path) {
		for (ready++; ready < 2;)
			std::this_thread::yield();
		int error = fur_backup(heap, path.c_str());
		made += error == 0, busy += error == FUR_EBUSY;
	};
	std::thread other([&] { copy(second); });
	copy(first);
	other.join();
	EXPECT_EQ(made + busy, 2);
	EXPECT_GE(made, 1);
	EXPECT_EQ(files(), 1u + static_cast<size_t>(made));
	heap.close();
}

TEST_F(Backup, OverAFile_IsRefused_AndTheFileStays)
{
	fur::Heap heap = create(options());
	fill(heap);
	const std::string path = new_copy();
	std::ofstream(path) << "mine";
	EXPECT_EQ(fur_backup(heap, path.c_str()), FUR_EEXIST);
	EXPECT_NE(std::string(fur_errormsg()).find(path), std::string::npos) << fur_errormsg();
	std::ifstream in(path);
	std::string text;
	in >> text;
	EXPECT_EQ(text, "mine");
	EXPECT_EQ(fur_backup(heap, "/nowhere/copy"), FUR_ESYS);
	EXPECT_EQ(fur_backup(heap, nullptr), FUR_EINVAL);
	EXPECT_EQ(fur_backup(nullptr, path.c_str()), FUR_EINVAL);
	heap.close();
}

TEST_F(Backup, WithoutRoom_IsRefused_AndTheHeapGoesOn)
{
	fur::Heap heap = create(options());
	fur::Thread self(heap);
	fill(heap);
	rlimit before;
	getrlimit(RLIMIT_FSIZE, &before);
	rlimit small = {1 << 20, before.rlim_max};
	setrlimit(RLIMIT_FSIZE, &small);
	EXPECT_EQ(fur_backup(heap, new_copy().c_str()), FUR_ENOSPC) << fur_errormsg();
	setrlimit(RLIMIT_FSIZE, &before);
	EXPECT_EQ(files(), 1u);
	for (uint64_t k = 0; k < 1000; k++)
		add(heap, self, 0, k);
	heap.backup(new_copy());
	heap.close();
	check_copy(copies_.back(), {1000, 0, 0});
}

} // namespace
