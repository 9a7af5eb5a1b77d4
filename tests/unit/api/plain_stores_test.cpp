/* SPDX-License-Identifier: BSD-3-Clause
 *
 * plain_stores_test.cpp - FUR_DEBUG=plain-stores: each plain store into the heap is found and
 * named, faults elsewhere reach the program's own handler, and the heap works as it does without.
 */
#include "fixture.hpp"
#include "internals.hpp"

#include <csetjmp>
#include <csignal>
#include <mutex>
#include <sys/mman.h>
#include <sys/resource.h>
#include <thread>

namespace
{

/* FUR_DEBUG as the test sets it, whatever this program was started with. */
struct Aids : Environment {
	explicit Aids(const char *words) : Environment("FUR_DEBUG", words) {}
};

using ::testing::ExitedWithCode;
using ::testing::KilledBySignal;

/* The compiler must not move or drop a store that is a mistake.  Inline, in every build: each use
 * is a place of its own. */
template <class T>
__attribute__((always_inline)) inline void plain_store(T *to, T value)
{
	*const_cast<volatile T *>(to) = value;
}

class PlainStores : public HeapFile
{
protected:
	explicit PlainStores(const char *words = "plain-stores") : aids_(words) {}

	fur::Options logged()
	{
		fur::Options o = small_options();
		o.log = [](enum fur_log_level level, const char *message, void *self) {
			auto *test = static_cast<PlainStores *>(self);
			std::lock_guard<std::mutex> hold(test->mutex_);
			if (level != FUR_LOG_INFO)
				test->lines_.emplace_back(message);
		};
		o.log_arg = this;
		return o;
	}
	/* A zeroed block of `bytes` bytes, a multiple of 8, in root 0. */
	static uint64_t *block(fur_thread *self, size_t bytes = 64)
	{
		return fur::update(self, [&](fur_update *tx) {
			auto *p = static_cast<uint64_t *>(fur_alloc(tx, bytes));
			std::vector<char> zeros(bytes);
			fur_write(tx, p, zeros.data(), bytes);
			fur_set_root(tx, 0, p);
			return p;
		});
	}
	static uint64_t value(fur_thread *self, const uint64_t *at)
	{
		return fur::read(self, [&](fur_ro *tx) { return fur_load(tx, at); });
	}

	/* For death tests: a child of fork() cannot use its parent's heap. */
	template <class Work>
	void in_new_heap(Work &&work)
	{
		fur::Heap heap = create();
		fur::Thread self(heap);
		work(self, block(self));
	}

	Aids aids_;
	std::mutex mutex_;
	std::vector<std::string> lines_;
};

/* ----------------------------------------------------------------- found and named */

TEST_F(PlainStores, OutsideTransactions)
{
	fur::Heap heap = create();
	fur::Thread self(heap);
	uint64_t *p = block(self);
	EXPECT_EXIT(plain_store(p + 2, uint64_t{1}), KilledBySignal(SIGABRT),
	        "libfur: .*" + path_ +
	                ": a plain store to 0x[0-9a-f]+ \\(byte [0-9]+ of the heap, byte 16 of the "
	                "block of 64 bytes at 0x[0-9a-f]+\\) by thread [0-9]+ \\(outside "
	                "transactions of this heap\\) is not logged: store with fur_store\\(\\) or "
	                "fur_write\\(\\); the place: .*unit-tests\\+0x[0-9a-f]+");
}

TEST_F(PlainStores, InAnUpdate)
{
	EXPECT_EXIT(in_new_heap([](fur::Thread &self, uint64_t *p) {
		fur::update(self, [&](fur_update *) { plain_store(p, uint64_t{1}); });
	}),
	        KilledBySignal(SIGABRT), "index 0, in an update");
	unlink(path_.c_str());
	EXPECT_EXIT(in_new_heap([](fur::Thread &self, uint64_t *p) {
		fur::update(self, fur::rerun, [&](fur_update *) { plain_store(p, uint64_t{1}); });
	}),
	        KilledBySignal(SIGABRT), "index 0, in an update");
}

/* A thread that meets no other stores in place after a while. */
TEST_F(PlainStores, InAnUpdateInPlace)
{
	EXPECT_EXIT(in_new_heap([&](fur::Thread &self, uint64_t *p) {
		for (int k = 0; k < 400; k++)
			fur::update(self,
			        [&](fur_update *tx) { fur_store(tx, p, fur_load(tx, p) + 1); });
		if (value(self, p) != 400)
			_exit(1);
		fur::update(self, [&](fur_update *tx) {
			fur_store(tx, p + 1, uint64_t{1});
			/* A plain load finds the update's store: it runs in place. */
			if (*const_cast<volatile uint64_t *>(p + 1) != 1)
				_exit(2);
			plain_store(p, uint64_t{2});
		});
	}),
	        KilledBySignal(SIGABRT), "index 0, in an update");
}

TEST_F(PlainStores, InAReadOnlyTransaction)
{
	EXPECT_EXIT(in_new_heap([](fur::Thread &self, uint64_t *p) {
		fur::read(self, [&](fur_ro *) { plain_store(p, uint64_t{1}); });
	}),
	        KilledBySignal(SIGABRT), "index 0, in a read-only transaction");
}

TEST_F(PlainStores, ByAFunctionOfTheCLibrary_NamesItsCaller)
{
	fur::Heap heap = create();
	fur::Thread self(heap);
	uint64_t *p = block(self, 2048);
	static volatile size_t bytes = 2048; /* so that the compiler calls memset() */
	EXPECT_EXIT(memset(p, 1, bytes), KilledBySignal(SIGABRT),
#if defined(__GLIBC__) && defined(__x86_64__)
	        "the place: .*called from .*unit-tests\\+0x"
#else
	        "the place: "
#endif
	);
}

TEST_F(PlainStores, InALargeBlock_InNoBlock_AndInTheAllocatorsData)
{
	fur::Heap heap = create();
	fur::Thread self(heap);
	auto *large = reinterpret_cast<char *>(block(self, 150000));
	EXPECT_EXIT(plain_store(large + 140000, 'x'), KilledBySignal(SIGABRT),
	        "byte 140000 of the block of 196608 bytes");
	fur::update(self, [&](fur_update *tx) { fur_free(tx, large); });
	/* AddressSanitizer looks first, and knows that the block is free. */
	EXPECT_DEATH(plain_store(large, 'x'), "of the heap, in no block|use-after-poison");
	EXPECT_EXIT(plain_store(static_cast<char *>(heap_base(heap)), 'x'), KilledBySignal(SIGABRT),
	        "byte 0 of the heap, among the allocator's own data");
}

TEST_F(PlainStores, OfTwoHeaps_NamesTheRightOne)
{
	fur::Heap first = create();
	const std::string other = path_ + "-other";
	{
		fur::Heap second = fur::Heap::create(other, small_options());
		fur::Thread self(second);
		uint64_t *p = block(self);
		EXPECT_EXIT(plain_store(p, uint64_t{1}), KilledBySignal(SIGABRT), other + ": a ");
	}
	fur::Thread self(first);
	uint64_t *p = block(self);
	EXPECT_EXIT(plain_store(p, uint64_t{1}), KilledBySignal(SIGABRT), path_ + ": a ");
	unlink(other.c_str());
}

/* Where a system call would store, it fails. */
TEST_F(PlainStores, BySystemCalls_FailWithEFAULT)
{
	fur::Heap heap = create();
	fur::Thread self(heap);
	uint64_t *p = block(self);
	int ends[2];
	ASSERT_EQ(pipe(ends), 0);
	ASSERT_EQ(write(ends[1], "12345678", 8), 8);
	EXPECT_EQ(read(ends[0], p, 8), -1);
	EXPECT_EQ(errno, EFAULT);
	EXPECT_EQ(value(self, p), 0u);
	close(ends[0]);
	close(ends[1]);
}

TEST_F(PlainStores, TheLogGetsTheMessage)
{
	fur::Options o = small_options();
	o.log = [](enum fur_log_level level, const char *message, void *) {
		if (level == FUR_LOG_ERROR && strstr(message, "a plain store to 0x") == message)
			_exit(7);
	};
	fur::Heap heap = create(o);
	fur::Thread self(heap);
	uint64_t *p = block(self);
	EXPECT_EXIT(plain_store(p, uint64_t{1}), ExitedWithCode(7), "a plain store");
}

TEST_F(PlainStores, ByTheOptionInsteadOfTheEnvironment)
{
	Aids none(nullptr);
	fur::Options o = small_options();
	o.debug = FUR_DEBUG_PLAIN_STORES;
	fur::Heap heap = create(o);
	fur::Thread self(heap);
	uint64_t *p = block(self);
	EXPECT_EXIT(plain_store(p, uint64_t{1}), KilledBySignal(SIGABRT), "a plain store");
}

/* ------------------------------------------------------------------------ continue */

class PlainStoresGoOn : public PlainStores
{
protected:
	PlainStoresGoOn() : PlainStores("plain-stores,continue") {}
};

TEST_F(PlainStoresGoOn, EachPlaceIsReportedOnce_AndTheStoreIsDone)
{
	uint64_t *p;
	{
		fur::Heap heap = create(logged());
		fur::Thread self(heap);
		p = block(self, 65536);
		for (size_t k = 0; k < 8192; k += 128)
			plain_store(p + k, k + 1); /* more pages than are open at a time */
		EXPECT_EQ(lines_.size(), 1u);
		fur::update(self, [&](fur_update *tx) { fur_store(tx, p + 1, uint64_t{5}); });
		plain_store(p + 2, uint64_t{6});
		EXPECT_EQ(lines_.size(), 2u) << "an update's end closes the pages";
		for (size_t k = 0; k < 8192; k += 128)
			ASSERT_EQ(value(self, p + k), k + 1);
		EXPECT_EQ(value(self, p + 1), 5u);
		EXPECT_EQ(value(self, p + 2), 6u);
	}
	fur::Heap heap = open();
	fur::Thread self(heap);
	EXPECT_EQ(value(self, p + 1), 5u);
	EXPECT_EQ(value(self, p + 2), 0u) << "it was not logged";
}

TEST_F(PlainStoresGoOn, AStoreToTwoPagesAtOnce)
{
	fur::Heap heap = create(logged());
	fur::Thread self(heap);
	auto *p = reinterpret_cast<char *>(block(self, 131072));
	auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
	std::vector<char> ones(2 * page, 1);
	memcpy(p + page / 2, ones.data(), page);
	EXPECT_EQ(memcmp(p + page / 2, ones.data(), page), 0);
	EXPECT_GE(lines_.size(), 1u);
}

TEST_F(PlainStoresGoOn, FromManyThreads_BesideUpdates)
{
	enum { THREADS = 3, ROUNDS = 300 };
	fur::Heap heap = create(logged());
	fur::Thread self(heap);
	uint64_t *p = block(self, 65536);
	std::vector<std::thread> threads;
	for (unsigned n = 0; n < THREADS; n++)
		threads.emplace_back([&, n] {
			fur::Thread me(heap);
			for (unsigned k = 0; k < ROUNDS; k++) {
				plain_store(p + 1024 + 512 * n + k, uint64_t{k} + 1);
				fur::update(me, fur::rerun, [&](fur_update *tx) {
					fur_store(tx, p, fur_load(tx, p) + 1);
				});
			}
		});
	for (std::thread &t : threads)
		t.join();
	EXPECT_EQ(value(self, p), uint64_t{THREADS} * ROUNDS);
	for (unsigned n = 0; n < THREADS; n++)
		for (unsigned k = 0; k < ROUNDS; k++)
			ASSERT_EQ(p[1024 + 512 * n + k], k + 1);
	EXPECT_EQ(lines_.size(), 1u) << "they are all of one place";
}

/* ------------------------------------------------------------------ other handlers */

sigjmp_buf back;
const void *volatile fault_address;
volatile int handled;

void jump_back(int, siginfo_t *info, void *)
{
	fault_address = info->si_addr;
	siglongjmp(back, 1);
}

void count(int)
{
	handled = handled + 1;
}

struct sigaction install(void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction action = {}, before;
	action.sa_sigaction = handler;
	action.sa_flags = SA_SIGINFO;
	sigaction(SIGSEGV, &action, &before);
	return before;
}

TEST_F(PlainStores, AFaultElsewhere_GoesToTheProgramsHandler)
{
	struct sigaction before = install(jump_back), now;
	{
		fur::Heap heap = create();
		void *page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		for (int k = 0; k < 2; k++) {
			fault_address = nullptr;
			if (sigsetjmp(back, 1) == 0)
				plain_store(static_cast<char *>(page) + 100, 'x');
			EXPECT_EQ(fault_address, static_cast<char *>(page) + 100);
		}
		munmap(page, 4096);
	}
	/* The last such heap is closed: the program's handler is back. */
	sigaction(SIGSEGV, nullptr, &now);
	EXPECT_TRUE(now.sa_sigaction == jump_back);
	sigaction(SIGSEGV, &before, nullptr);
}

TEST_F(PlainStores, ASignalThatWasSent_GoesToTheProgramsHandler)
{
	struct sigaction action = {}, before;
	action.sa_handler = count;
	sigaction(SIGSEGV, &action, &before);
	{
		fur::Heap heap = create();
		handled = 0;
		raise(SIGSEGV);
		raise(SIGSEGV);
		EXPECT_EQ(handled, 2);
	}
	sigaction(SIGSEGV, &before, nullptr);
}

TEST_F(PlainStores, WithoutAHandlerOfTheProgram_AFaultElsewhereEndsIt)
{
	auto fault = [&](bool raised) {
		signal(SIGSEGV, SIG_DFL);
		fur::Heap heap = create();
		void *page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (raised)
			plain_store(static_cast<char *>(page), 'x');
		else
			raise(SIGSEGV);
	};
	EXPECT_EXIT(fault(true), KilledBySignal(SIGSEGV), "");
	unlink(path_.c_str());
	EXPECT_EXIT(fault(false), KilledBySignal(SIGSEGV), "");
}

/* One that the program installs later is asked first, also for heaps that are opened later. */
struct sigaction below;

void say_and_pass_on(int signal, siginfo_t *info, void *context)
{
	fprintf(stderr, "the program's own; ");
	if (below.sa_flags & SA_SIGINFO)
		below.sa_sigaction(signal, info, context);
}

TEST_F(PlainStores, AHandlerThatPassesOn_StaysOnTop)
{
	auto twice = [&](bool elsewhere) {
		signal(SIGSEGV, SIG_DFL);
		{
			fur::Heap first = create();
			below = install(say_and_pass_on);
		}
		fur::Heap second = open();
		fur::Thread self(second);
		uint64_t *p = block(self), *wild = nullptr;
		plain_store(elsewhere ? wild : p, uint64_t{1});
	};
	EXPECT_EXIT(
	        twice(false), KilledBySignal(SIGABRT), "the program's own; libfur: .*plain store");
	unlink(path_.c_str());
	EXPECT_EXIT(twice(true), KilledBySignal(SIGSEGV), "the program's own; ");
}

/* ------------------------------------------------------- fork, recovery, growth, limits */

TEST_F(PlainStores, AChildOfFork_IsFoundToo_AndHarmsNothing)
{
	fur::Heap heap = create();
	fur::Thread self(heap);
	uint64_t *p = block(self);
	void *base = heap_base(heap);
	in_killed_child([&] {
		fur_update *tx;
		EXPECT_EQ(fur_begin_update(self, &tx), FUR_EFORK);
		EXPECT_EXIT(plain_store(p, uint64_t{1}), KilledBySignal(SIGABRT), "a plain store");
		EXPECT_EQ(fur_close(heap), 0);
		/* The addresses are free now. */
		void *again = mmap(base, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		EXPECT_EQ(again, base);
	});
	fur::update(self, [&](fur_update *tx) { fur_store(tx, p, uint64_t{3}); });
	EXPECT_EQ(value(self, p), 3u);
	EXPECT_EXIT(plain_store(p, uint64_t{1}), KilledBySignal(SIGABRT), "a plain store");
}

TEST_F(PlainStores, AChildOfFork_WatchesAHeapOfItsOwn)
{
	const std::string other = path_ + "-other";
	auto in_child = [&](bool elsewhere) {
		signal(SIGSEGV, SIG_DFL);
		fur::Heap first = create();
		pid_t child = fork();
		if (child) {
			int status;
			waitpid(child, &status, 0);
			unlink(other.c_str());
			signal(WTERMSIG(status), SIG_DFL);
			raise(WTERMSIG(status));
		}
		first.close();
		fur::Heap second = fur::Heap::create(other, small_options());
		fur::Thread self(second);
		uint64_t *p = block(self), *wild = nullptr;
		plain_store(elsewhere ? wild : p, uint64_t{1});
	};
	EXPECT_EXIT(in_child(false), KilledBySignal(SIGABRT), "-other: a plain store");
	unlink(path_.c_str());
	EXPECT_EXIT(in_child(true), KilledBySignal(SIGSEGV), "");
}

TEST_F(PlainStores, ARecoveredHeap_HasEverything)
{
	enum { WORDS = 200 };
	in_killed_child([&] {
		fur::Heap *heap = new fur::Heap(create());
		fur::Thread *self = new fur::Thread(*heap);
		uint64_t *p = block(*self, WORDS * 8);
		for (uint64_t k = 0; k < WORDS; k++)
			fur::update(*self, [&](fur_update *tx) { fur_store(tx, p + k, k + 1); });
		_exit(HasFailure());
	});
	fur::Heap heap = open();
	fur_info info;
	info.size = sizeof info;
	ASSERT_EQ(fur_get_info(heap, &info), 0);
	EXPECT_TRUE(info.recovered);
	EXPECT_EQ(info.htm, FUR_HTM_NONE);
	EXPECT_NE(std::string(info.htm_reason).find("plain-stores"), std::string::npos);
	fur::Thread self(heap);
	auto *p = static_cast<uint64_t *>(static_cast<uint64_t *>(root_at_rest(heap, 0)));
	for (uint64_t k = 0; k < WORDS; k++)
		ASSERT_EQ(value(self, p + k), k + 1);
	EXPECT_EXIT(plain_store(p, uint64_t{1}), KilledBySignal(SIGABRT), "a plain store");
}

TEST_F(PlainStores, AHeapThatGrows_IsWatchedWhereItHasGrown)
{
	fur::Options o = small_options();
	o.max_bytes = 64 << 20;
	fur::Heap heap = create(o);
	fur::Thread self(heap);
	const uint64_t before = heap_size(heap);
	uint64_t *p = block(self, 8 << 20);
	ASSERT_GT(heap_size(heap), before);
	EXPECT_EQ(value(self, p + 1000000), 0u);
	EXPECT_EXIT(plain_store(p + 1000000, uint64_t{1}), KilledBySignal(SIGABRT),
	        "byte 8000000 of the block of 8388608 bytes");
}

TEST_F(PlainStores, NoRoomForTheSecondMapping_IsAnErrorAndLeavesNothing)
{
	auto limited = [&] {
		struct rlimit least = {1 << 20, 1 << 20};
		signal(SIGXFSZ, SIG_DFL);
		if (setrlimit(RLIMIT_FSIZE, &least))
			_exit(9);
		fur_heap *heap;
		const fur::Options o = small_options();
		int error = fur_open(path_.c_str(), &o, &heap);
		fprintf(stderr, "%s\n", fur_errormsg());
		_exit(error == FUR_ENOSPC && !heap ? 7 : 1);
	};
	{
		fur::Heap closed = create();
	}
	EXPECT_EXIT(limited(), ExitedWithCode(7), path_ + ": .*RLIMIT_FSIZE");
	EXPECT_EQ(open_result(), 0);
}

/* ------------------------------------------------------------------------- options */

class DebugWords : public HeapFile
{
protected:
	int create_result(const char *words, uint64_t debug = 0)
	{
		Aids aids(words);
		fur_heap *heap;
		fur::Options o = small_options();
		o.debug = debug;
		int error = fur_create(path_.c_str(), &o, &heap);
		if (error)
			return error;
		EXPECT_EQ(fur_close(heap), 0);
		unlink(path_.c_str());
		return 0;
	}
	static void expect_message(std::initializer_list<const char *> parts)
	{
		for (const char *part : parts)
			EXPECT_NE(strstr(fur_errormsg(), part), nullptr) << fur_errormsg();
	}
};

TEST_F(DebugWords, AnUnknownWord_IsRefusedWithTheListOfWords)
{
	for (const char *words : {"nonsense", "plain-stores,nonsense", "nonsense,double-free"}) {
		EXPECT_EQ(create_result(words), FUR_EINVAL) << words;
		expect_message({path_.c_str(), "FUR_DEBUG", "'nonsense'", "plain-stores",
		        "continue", "double-free"});
	}
	for (const char *words : {",", "plain-stores,", "plain", "plain-storesx", "double-free "})
		EXPECT_EQ(create_result(words), FUR_EINVAL) << words;
	EXPECT_NE(access(path_.c_str(), F_OK), 0);
}

TEST_F(DebugWords, ContinueAlone_IsRefused)
{
	EXPECT_EQ(create_result("continue"), FUR_EINVAL);
	expect_message({"continue", "plain-stores"});
	EXPECT_EQ(create_result(nullptr, FUR_DEBUG_CONTINUE), FUR_EINVAL);
	EXPECT_EQ(create_result("plain-stores", FUR_DEBUG_CONTINUE), 0) << fur_errormsg();
}

TEST_F(DebugWords, OtherBitsOfTheOption_AreRefused)
{
	EXPECT_EQ(create_result(nullptr, 8), FUR_EINVAL);
	expect_message({"fur_options.debug", "0x8"});
	EXPECT_EQ(create_result(nullptr, FUR_DEBUG_DOUBLE_FREE), 0) << fur_errormsg();
	EXPECT_EQ(create_result(""), 0) << fur_errormsg();
}

} // namespace
