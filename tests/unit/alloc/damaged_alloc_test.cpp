/* SPDX-License-Identifier: BSD-3-Clause
 *
 * damaged_alloc_test.cpp - a heap file whose allocator has stale or random words: fur_open()
 * refuses it, or updates fail.  No program crashes or hangs.
 */
#include "fixture.hpp"
#include "internals.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fur_bulk.h>
#include <iterator>
#include <random>

namespace
{

constexpr size_t PAGE = 4096;
constexpr unsigned ALARM_SECONDS = 60;

fur::Options options_of(uint32_t debug)
{
	fur::Options o = small_options();
	o.heap_bytes = 4 << 20;
	o.log_bytes = 65536;
	o.max_threads = 12;
	o.debug = debug;
	return o;
}

/* All classes, and some runs of chunks. */
const std::vector<size_t> &sizes()
{
	static const std::vector<size_t> all = [] {
		std::vector<size_t> s;
		for (size_t n = 16; n <= SMALL_MOST; n += n <= 128 ? 16 : (n & -n))
			s.push_back(n);
		for (size_t n : {192, 320, 448, 2560, 12288, 20000, 70000, 200000})
			s.push_back(n);
		return s;
	}();
	return all;
}

/* What an update of the file may fail with.  Anything else shows that the test is wrong. */
bool is_expected(int error)
{
	return error == 0 || error == FUR_ECORRUPT || error == FUR_EFREE || error == FUR_ENOSPC ||
	       error == FUR_ERANGE || error == FUR_ETOOBIG;
}

/* The program's own blocks: a list, from root 0. */
struct node {
	node *next;
};

class DamagedAllocator : public HeapFile
{
protected:
	/* Allocate blocks and free some, as the seed says; up to `full` of them, until the heap is
	 * full. */
	static void live(fur::Heap &heap, unsigned seed, size_t rounds)
	{
		std::minstd_rand random(seed);
		fur::Thread self(heap);
		for (size_t k = 0; k < rounds; k++) {
			const size_t bytes = sizes()[random() % sizes().size()];
			const unsigned frees = random() % 3;
			fur_update *tx;
			ASSERT_EQ(fur_begin_update(self, &tx), 0);
			auto *first = static_cast<node *>(fur_root(tx, 0));
			for (unsigned j = 0; first && j < frees; j++) {
				node *next = fur_load(tx, &first->next);
				fur_free(tx, first);
				first = next;
			}
			auto *n = static_cast<node *>(fur_alloc(tx, bytes));
			if (n)
				fur_store(tx, &n->next, first);
			fur_set_root(tx, 0, n ? n : first);
			ASSERT_TRUE(is_expected(fur_commit(tx, nullptr))) << fur_errormsg();
		}
	}

	/* The file at several moments of a long history, closed each time. */
	std::vector<std::string> history(unsigned seed)
	{
		std::vector<std::string> moments;
		{
			create(options_of(0));
		}
		for (size_t rounds : {40, 300, 900, 120}) {
			{
				fur::Heap heap = open(options_of(0));
				live(heap, seed++, rounds);
			}
			moments.push_back(bytes());
		}
		return moments;
	}

	/* Use everything that the allocator has, in a process of its own. */
	static int use(const std::string &path, uint32_t debug)
	{
		alarm(ALARM_SECONDS);
		fur_options o = options_of(debug);
		fur_heap *heap;
		fur_thread *self;
		int error = fur_open(path.c_str(), &o, &heap);
		if (error)
			return error == FUR_ECORRUPT ? 0 : 2;
		if (fur_thread_register(heap, nullptr, &self))
			return 3;
		bool fine = take_and_free(self) && free_own(heap, self) && take_and_free(self) &&
		            fill(self) && run_bulk(self);
		fine = is_expected(fur_thread_unregister(self)) && fine;
		return is_expected(fur_close(heap)) && fine ? 0 : 4;
	}

	/* Two blocks of each class; then free one of them. */
	static bool take_and_free(fur_thread *self)
	{
		for (size_t bytes : sizes()) {
			fur_update *tx;
			if (fur_begin_update(self, &tx))
				return false;
			void *one = fur_alloc(tx, bytes);
			void *two = fur_alloc(tx, bytes);
			fur_free(tx, one);
			int error = fur_commit(tx, nullptr);
			if (!is_expected(error))
				return false;
			if (error || !two || fur_begin_update(self, &tx))
				continue;
			fur_free(tx, two);
			if (!is_expected(fur_commit(tx, nullptr)))
				return false;
		}
		return true;
	}

	static bool free_own(fur_heap *heap, fur_thread *self)
	{
		const auto *base = static_cast<const uint8_t *>(heap_base(heap));
		auto *at = static_cast<node *>(root_at_rest(heap, 0));
		/* The program's list is also damaged if its blocks were given out again. */
		for (unsigned most = 5000; at && most; most--) {
			const auto offset =
			        static_cast<uint64_t>(reinterpret_cast<const uint8_t *>(at) - base);
			if (offset >= options_of(0).heap_bytes - sizeof *at || offset % 8)
				return true;
			node *next = at->next;
			fur_update *tx;
			if (fur_begin_update(self, &tx))
				return false;
			fur_free(tx, at);
			if (!is_expected(fur_commit(tx, nullptr)))
				return false;
			at = next;
		}
		return true;
	}

	/* Until the heap is full, so that memory is reclaimed: small blocks, then a large one. */
	static bool fill(fur_thread *self)
	{
		for (size_t bytes : {16384, 3000, 1000000}) {
			for (unsigned most = 500; most; most--) {
				fur_update *tx;
				if (fur_begin_update(self, &tx))
					return false;
				void *block = fur_alloc(tx, bytes);
				if (!is_expected(fur_commit(tx, nullptr)))
					return false;
				if (!block)
					break;
			}
		}
		return true;
	}

	/* On blocks of its own, and with room for their results. */
	static bool run_bulk(fur_thread *self)
	{
		fur_update *tx;
		if (fur_begin_update(self, &tx))
			return false;
		void *records = fur_alloc(tx, 640);
		if (fur_commit(tx, nullptr) || !records)
			return true;
		fur_extent all = {records, 64, 10};
		fur_bulk bulk;
		fur_bulk_init(&bulk);
		bulk.map = [](void *copy, size_t bytes, uint64_t, void *) {
			memset(copy, 1, bytes);
			return true;
		};
		bulk.bytes = 64;
		bulk.extents = &all;
		bulk.n = 1;
		return is_expected(fur_bulk_run(self, &bulk, nullptr));
	}

	void put(const std::string &bytes)
	{
		std::ofstream(path_, std::ios::binary)
		        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
	}

	/* Run use() on the file, and note how it ended. */
	void expect_no_crash(const std::string &file, const std::string &what, uint32_t debug)
	{
		put(file);
		pid_t child = fork();
		ASSERT_GE(child, 0);
		if (child == 0)
			_exit(use(path_, debug));
		int status;
		ASSERT_EQ(waitpid(child, &status, 0), child);
		runs_++;
		signals_ += WIFSIGNALED(status);
		EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
		        << what << ": "
		        << (WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
		                                : "exit " + std::to_string(WEXITSTATUS(status)));
	}

	/* Where the allocator's header, stocks and tables lie in the file. */
	struct place {
		size_t from, bytes;
	};
	static place allocator_of(const std::string &file)
	{
		media_super super;
		heap_header h;
		memcpy(&super, file.data(), sizeof super);
		memcpy(static_cast<void *>(&h), file.data() + super.heap_offset, sizeof h);
		return {super.heap_offset, h.lists + h.chunks * sizeof(chunk_list)};
	}

	/* Each page of the allocator in turn as `other` has it. */
	void expect_no_crash_with_pages(
	        const std::string &file, const std::string &other, const std::string &what)
	{
		const place p = allocator_of(file);
		ASSERT_EQ(file.size(), other.size());
		for (size_t at = p.from; at < p.from + p.bytes; at += PAGE) {
			if (file.compare(at, PAGE, other, at, PAGE) == 0)
				continue;
			std::string damaged = file;
			damaged.replace(at, PAGE, other, at, PAGE);
			expect_no_crash(damaged,
			        what + ", page " + std::to_string((at - p.from) / PAGE),
			        at / PAGE % 3 ? 0 : FUR_DEBUG_DOUBLE_FREE);
		}
	}

	void TearDown() override
	{
		RecordProperty("runs", runs_);
		RecordProperty("signals", signals_);
	}

	int runs_ = 0, signals_ = 0;
};

TEST_F(DamagedAllocator, PagesOfAnEarlierMoment_CrashNoProgram)
{
	const std::vector<std::string> moments = history(1);
	for (size_t now = 0; now < moments.size(); now++)
		for (size_t then = 0; then < now; then++)
			expect_no_crash_with_pages(moments[now], moments[then],
			        "moment " + std::to_string(now) + " with moment " +
			                std::to_string(then));
}

TEST_F(DamagedAllocator, PagesOfAnotherHeap_CrashNoProgram)
{
	const std::vector<std::string> moments = history(1);
	unlink(path_.c_str());
	const std::vector<std::string> others = history(1000);
	for (size_t k = 0; k < moments.size(); k++)
		expect_no_crash_with_pages(moments[k], others[moments.size() - 1 - k],
		        "moment " + std::to_string(k) + " with another heap");
}

TEST_F(DamagedAllocator, SingleWords_CrashNoProgram)
{
	const int runs = getenv("FUR_ALL_DAMAGE") ? 400 : 80;
	const std::string file = history(1).back();
	const place p = allocator_of(file);
	std::mt19937_64 random(1);
	media_super super;
	memcpy(&super, file.data(), sizeof super);
	for (int k = 0; k < runs; k++) {
		/* Mostly words that are in use. */
		size_t at = 0;
		uint64_t was = 0;
		for (int tries = 0; tries < 20 && !was; tries++) {
			at = p.from + random() % (p.bytes / 8) * 8;
			memcpy(&was, &file[at], 8);
		}
		uint64_t value = random();
		switch (k % 5) {
		case 0: break;
		case 1: value = was ^ UINT64_C(1) << value % 64; break;
		case 2: value %= 300; break;
		case 3: value = super.address + value % super.heap_bytes / 16 * 16; break;
		default: memcpy(&value, &file[p.from + value % (p.bytes / 8) * 8], 8);
		}
		std::string damaged = file;
		damaged.replace(at, 8, reinterpret_cast<const char *>(&value), 8);
		expect_no_crash(damaged,
		        "word at byte " + std::to_string(at - p.from) + ": " +
		                std::to_string(value),
		        k % 4 ? 0 : FUR_DEBUG_DOUBLE_FREE);
	}
}

TEST_F(DamagedAllocator, AnUpdateThatMeetsADamagedList_SaysSo)
{
	{
		fur::Heap heap = create(options_of(0));
		live(heap, 1, 900);
	}
	std::string file = bytes();
	media_super super;
	memcpy(&super, file.data(), sizeof super);
	/* The stock of each class begins outside the heap. */
	for (size_t thread = 0; thread < 12; thread++)
		for (size_t k = 0; k < CLASSES; k++) {
			cache c = {UINT64_C(3) << 48 | UINT64_C(0xfffffffff0) | 1, 0, 0, 0};
			file.replace(super.heap_offset + caches_offset() +
			                     thread * sizeof(thread_caches) + k * sizeof c,
			        sizeof c, reinterpret_cast<const char *>(&c), sizeof c);
		}
	put(file);
	fur::Heap heap = open(options_of(0));
	fur::Thread self(heap);
	fur_update *tx;
	ASSERT_EQ(fur_begin_update(self, &tx), 0);
	EXPECT_EQ(fur_alloc(tx, 100), nullptr);
	EXPECT_EQ(fur_commit(tx, nullptr), FUR_ECORRUPT);
	const std::string says = fur_errormsg();
	EXPECT_EQ(says.find(path_ + ": the allocator's lists are damaged"), 0u) << says;
	EXPECT_NE(says.find("fur-check"), std::string::npos) << says;
	/* The heap can still be used. */
	ASSERT_EQ(fur_begin_update(self, &tx), 0);
	fur_set_root(tx, 1, nullptr);
	EXPECT_EQ(fur_commit(tx, nullptr), 0) << fur_errormsg();
}

} // namespace
