/* SPDX-License-Identifier: BSD-3-Clause
 *
 * misuse_test.cpp - the public interface, used wrongly: each function that returns a code reports
 * the mistake, and the heap stays usable.
 */
#include "fixture.hpp"
#include "internals.hpp"

#include <atomic>
#include <csetjmp>
#include <thread>

namespace
{

class Misuse : public OpenHeap
{
protected:
	/* Updates and reads work, are durable, and isolated: this thread's read keeps another's
	 * update waiting. */
	void expect_sound()
	{
		static uint64_t n;
		fur::update(self_, [&](fur_update *tx) { fur_store(tx, &words_[7], ++n); });
		fur_ro *ro = begin_ro();
		EXPECT_NE(__atomic_load_n(&heap_.get()->engine.active[fur_thread_index(self_)].seq,
		                  __ATOMIC_RELAXED),
		        0u)
		        << "the read is not protected";
		EXPECT_EQ(fur_load(ro, &words_[7]), n);
		EXPECT_EQ(fur_end_ro(ro, nullptr), 0);
		EXPECT_EQ(heap_.get()->engine.lock.shut, 0u);
		EXPECT_EQ(this_thread()->open, nullptr);
	}
	static bool says(const char *text)
	{
		return std::string(fur_errormsg()).find(text) != std::string::npos;
	}

	uint64_t *words_ = block(8);
};

TEST_F(Misuse, Null_IsRefusedByAllThatReturnACode)
{
	fur_thread *t;
	fur_heap *h;
	fur_ro *ro;
	fur_update *tx;
	fur_info info;
	fur_stats stats;
	info.size = sizeof info;
	stats.size = sizeof stats;
	EXPECT_EQ(fur_update_error(nullptr), FUR_ENOTX);
	EXPECT_EQ(fur_create(nullptr, nullptr, &h), FUR_EINVAL);
	EXPECT_EQ(fur_create(path_.c_str(), nullptr, nullptr), FUR_EINVAL);
	EXPECT_EQ(fur_open(nullptr, nullptr, &h), FUR_EINVAL);
	EXPECT_EQ(fur_open(path_.c_str(), nullptr, nullptr), FUR_EINVAL);
	EXPECT_EQ(fur_close(nullptr), FUR_EINVAL);
	EXPECT_EQ(fur_get_info(nullptr, &info), FUR_EINVAL);
	EXPECT_EQ(fur_get_info(heap_, nullptr), FUR_EINVAL);
	EXPECT_EQ(fur_get_stats(nullptr, &stats), FUR_EINVAL);
	EXPECT_EQ(fur_get_stats(heap_, nullptr), FUR_EINVAL);
	EXPECT_EQ(fur_thread_register(nullptr, nullptr, &t), FUR_EINVAL);
	EXPECT_EQ(fur_thread_register(heap_, nullptr, nullptr), FUR_EINVAL);
	EXPECT_EQ(fur_thread_unregister(nullptr), FUR_EINVAL);
	ro = reinterpret_cast<fur_ro *>(&info);
	EXPECT_EQ(fur_begin_ro(nullptr, &ro), FUR_EINVAL);
	EXPECT_EQ(ro, nullptr);
	EXPECT_EQ(fur_begin_ro(self_, nullptr), FUR_EINVAL);
	tx = reinterpret_cast<fur_update *>(&info);
	EXPECT_EQ(fur_begin_update(nullptr, &tx), FUR_EINVAL);
	EXPECT_EQ(tx, nullptr);
	EXPECT_EQ(fur_begin_update(self_, nullptr), FUR_EINVAL);
	EXPECT_EQ(fur_end_ro(nullptr, nullptr), FUR_ENOTX);
	EXPECT_EQ(fur_commit(nullptr, nullptr), FUR_ENOTX);
	EXPECT_EQ(fur_abort(nullptr), FUR_ENOTX);
	EXPECT_EQ(fur_thread_index(nullptr), UINT32_MAX);
	EXPECT_EQ(fur_alloc(nullptr, 64), nullptr);
	expect_sound();
}

TEST_F(Misuse, Close_Twice_IsRefused)
{
	std::string second = path_ + "-2";
	fur_heap *h;
	fur::Options o = small_options();
	ASSERT_EQ(fur_create(second.c_str(), &o, &h), 0);
	ASSERT_EQ(fur_close(h), 0);
	EXPECT_EQ(fur_close(h), FUR_EINVAL);
	EXPECT_TRUE(says("closed before")) << fur_errormsg();
	EXPECT_EQ(fur_close(reinterpret_cast<fur_heap *>(words_)), FUR_EINVAL)
	        << "what is no heap at all";
	unlink(second.c_str());
	expect_sound();
}

/* ---------------------------------------------------------- another's registration */

TEST_F(Misuse, RegistrationOfAnotherThread_IsRefused)
{
	fur_thread *mine = self_;
	std::thread([&] {
		fur_ro *ro;
		fur_update *tx;
		EXPECT_EQ(fur_begin_ro(mine, &ro), FUR_EINVAL);
		EXPECT_EQ(fur_begin_update(mine, &tx), FUR_EINVAL);
		EXPECT_TRUE(says("fur_thread_register")) << "no remedy: " << fur_errormsg();
		EXPECT_EQ(fur_thread_unregister(mine), FUR_EINVAL);
		fur::Thread own(heap_);
		EXPECT_EQ(fur_begin_ro(mine, &ro), FUR_EINVAL);
		EXPECT_EQ(fur_begin_update(mine, &tx), FUR_EINVAL);
	}).join();
	expect_sound();
}

TEST_F(Misuse, TransactionOfAnotherThread_IsNotEnded)
{
	fur_update *tx = begin();
	fur_store(tx, &words_[0], uint64_t(5));
	std::thread([&] {
		EXPECT_EQ(fur_commit(tx, nullptr), FUR_ENOTX);
		EXPECT_EQ(fur_abort(tx), FUR_ENOTX);
	}).join();
	EXPECT_EQ(fur_commit(tx, nullptr), 0);
	EXPECT_EQ(words_[0], 5u);
	fur_ro *ro = begin_ro();
	std::atomic<bool> tried{false}, ended{false};
	std::thread other([&] {
		fur_update *own;
		fur::Thread t(heap_);
		EXPECT_EQ(fur_end_ro(ro, nullptr), FUR_ENOTX);
		tried = true;
		while (!ended)
			usleep(1000);
		EXPECT_EQ(fur_begin_update(t, &own), 0)
		        << "it has nothing open: " << fur_errormsg();
		EXPECT_EQ(fur_abort(own), FUR_EABORTED);
	});
	while (!tried)
		usleep(1000);
	EXPECT_EQ(fur_end_ro(ro, nullptr), 0);
	ended = true;
	other.join();
	expect_sound();
}

TEST_F(Misuse, RegistrationGivenBack_IsRefused)
{
	fur_thread *old = self_;
	fur_ro *ro;
	fur_update *tx;
	ASSERT_EQ(fur_thread_unregister(old), 0);
	EXPECT_EQ(fur_begin_ro(old, &ro), FUR_EINVAL);
	EXPECT_EQ(fur_begin_update(old, &tx), FUR_EINVAL);
	EXPECT_EQ(fur_thread_unregister(old), FUR_EINVAL);
	/* Also when another thread has the slot now. */
	std::thread([&] {
		fur::Thread t(heap_);
		ASSERT_EQ(t.get(), old) << "the slot is used again";
		std::thread([&] { EXPECT_EQ(fur_begin_update(old, &tx), FUR_EINVAL); }).join();
		fur::update(t, [&](fur_update *u) { fur_store(u, &words_[1], uint64_t(3)); });
	}).join();
	EXPECT_EQ(fur_begin_update(old, &tx), FUR_EINVAL);
	self_ = fur::Thread(heap_);
	expect_sound();
}

/* ------------------------------------------------------------- left open */

TEST_F(Misuse, ReadLeftOpenInsideAnUpdate_EndsWithIt)
{
#if defined(FUR_CHECKS)
	GTEST_SKIP() << "this build stops the program: Checks.ReadLeftOpenInsideAnUpdate";
#endif
	for (bool commit : {true, false}) {
		fur_update *tx = begin();
		fur_ro *ro = join_ro();
		ro = join_ro();
		EXPECT_EQ(commit ? fur_commit(tx, nullptr) : fur_abort(tx),
		        commit ? 0 : FUR_EABORTED);
		expect_sound();
		EXPECT_EQ(fur_end_ro(ro, nullptr), FUR_ENOTX);
		expect_sound();
	}
}

TEST_F(Misuse, ThreadThatEndsInsideAReadInsideAnUpdate)
{
	std::thread([&] {
		fur_thread *t;
		fur_update *tx;
		fur_ro *ro;
		ASSERT_EQ(fur_thread_register(heap_, nullptr, &t), 0);
		ASSERT_EQ(fur_begin_update(t, &tx), 0);
		fur_store(tx, &words_[0], uint64_t(1));
		ASSERT_EQ(fur_join_ro(t, &ro), 0);
	}).join();
	EXPECT_EQ(words_[0], 0u);
	expect_sound();
}

/* As documented in fur.h: it stays open, and the functions that can notice report it. */
TEST_F(Misuse, UpdateLeftByLongjmp_IsNamedByUnregisterAndClose)
{
	static jmp_buf out;
	if (setjmp(out) == 0) {
		fur_store(begin(), &words_[0], uint64_t(1));
		longjmp(out, 1);
	}
	fur_update *tx;
	EXPECT_EQ(fur_begin_update(self_, &tx), FUR_ENESTED);
	EXPECT_EQ(tx, nullptr);
	EXPECT_TRUE(says("fur_thread_abandon")) << fur_errormsg();
	EXPECT_EQ(fur_thread_unregister(self_), FUR_EBUSY);
	EXPECT_TRUE(says("longjmp")) << fur_errormsg();
	EXPECT_EQ(fur_close(heap_.get()), FUR_EBUSY);
	EXPECT_TRUE(says("longjmp")) << fur_errormsg();
	EXPECT_EQ(fur_thread_abandon(self_), 0) << fur_errormsg();
	EXPECT_EQ(words_[0], 0u);
	expect_sound();
}

TEST_F(Misuse, OptimisticReaderLeftByLongjmp_IsNamedByUnregisterAndClose)
{
	static jmp_buf out;
	if (setjmp(out) == 0)
		(void)!fur_read_run(
		        self_,
		        [](fur_reader *tx, void *word) {
			        (void)fur_load(tx, static_cast<uint64_t *>(word));
			        longjmp(out, 1);
		        },
		        words_, nullptr);
	fur_update *tx;
	EXPECT_EQ(fur_begin_update(self_, &tx), FUR_ENESTED);
	EXPECT_TRUE(says("fur_thread_abandon")) << fur_errormsg();
	EXPECT_EQ(fur_thread_unregister(self_), FUR_EBUSY);
	EXPECT_TRUE(says("fur_thread_abandon")) << fur_errormsg();
	EXPECT_EQ(fur_close(heap_.get()), FUR_EBUSY);
	EXPECT_EQ(fur_thread_abandon(self_), 0) << fur_errormsg();
	expect_sound();
}

TEST_F(Misuse, UpdateLeftByAnException_IsClosedByTheGuard)
{
	for (int depth : {1, 2}) {
		auto body = [&](fur_update *tx) {
			fur_store(tx, &words_[0], uint64_t(1));
			throw 1;
		};
		EXPECT_THROW(
		        depth == 1 ? fur::update(self_, body)
		                   : fur::update(self_,
		                             [&](fur_update *) { fur::join_update(self_, body); }),
		        int);
		EXPECT_EQ(words_[0], 0u);
		expect_sound();
	}
}

/* --------------------------------------------------------------- two heaps */

/* Two threads, each with a read open on one heap, that wait for the lock of the other's, in vain.
 * */
TEST_F(Misuse, ReadsOnTwoHeaps_AreRefused)
{
	std::string second = path_ + "-2";
	{
		fur::Heap other = fur::Heap::create(second, small_options());
		fur::Thread there(other);
		fur_ro *outer = begin_ro(), *inner;
		EXPECT_EQ(fur_begin_ro(there, &inner), FUR_ENESTED);
		EXPECT_EQ(inner, nullptr);
		EXPECT_TRUE(says("another heap")) << fur_errormsg();
		EXPECT_EQ(fur_join_ro(there, &inner), FUR_ENESTED);
		EXPECT_EQ(inner, nullptr);
		EXPECT_EQ(fur_join_ro(self_, &inner), 0) << "on the same heap it joins";
		EXPECT_EQ(fur_end_ro(inner, nullptr), 0);
		EXPECT_EQ(fur_begin_ro(there, &inner), FUR_ENESTED) << "still";
		EXPECT_EQ(fur_end_ro(outer, nullptr), 0);
		EXPECT_EQ(fur_begin_ro(there, &inner), 0) << fur_errormsg();
		EXPECT_EQ(fur_end_ro(inner, nullptr), 0);
	}
	unlink(second.c_str());
	expect_sound();
}

/* ---------------------------------------------------------- stores and writes */

TEST_F(Misuse, StoreBits_OfNoneOrMoreThan8Bytes_RollsBack)
{
	for (unsigned bytes : {0u, 9u, 16u, 4088u, 4089u, 4096u, UINT32_MAX}) {
		fur_update *tx = begin();
		fur_store(tx, &words_[0], uint64_t(1));
		fur_store_bits(tx, &words_[1], 2, bytes);
		fur_store(tx, &words_[2], uint64_t(3));
		int expected = bytes == UINT32_MAX ? FUR_ERANGE : FUR_EINVAL;
		EXPECT_EQ(fur_commit(tx, nullptr), expected) << bytes;
		EXPECT_TRUE(expected != FUR_EINVAL || says("fur_store_bits")) << fur_errormsg();
		EXPECT_EQ(words_[0] + words_[1] + words_[2], 0u);
	}
	heap_.close();
	heap_ = open();
	self_ = fur::Thread(heap_);
	expect_sound();
}

TEST_F(Misuse, StoreBits_Of1To8Bytes_StoresAndLogsThem)
{
	heap_.close();
	in_killed_child([&] {
		fur::Heap &h = *new fur::Heap(open());
		fur::Thread t(h);
		for (unsigned bytes = 1; bytes <= 7; bytes++)
			fur::update(t, [&](fur_update *tx) {
				fur_store_bits(tx, &words_[bytes - 1], UINT64_C(0x8877665544332211),
				        bytes);
			});
	});
	heap_ = open();
	for (unsigned bytes = 1; bytes <= 7; bytes++)
		EXPECT_EQ(words_[bytes - 1],
		        UINT64_C(0x8877665544332211) & ((UINT64_C(1) << 8 * bytes) - 1))
		        << bytes;
	self_ = fur::Thread(heap_);
}

TEST_F(Misuse, NoBytes_AreNothing)
{
	uint64_t entries = heap_.stats().log_entries;
	fur_update *tx = begin();
	fur_write(tx, words_, words_, 0);
	fur_write(tx, nullptr, nullptr, 0);
	fur_write(tx, static_cast<char *>(heap_base(heap_)) + heap_size(heap_), words_, 0);
	fur_read(tx, static_cast<void *>(nullptr), words_, 0);
	fur_read(tx, static_cast<void *>(nullptr), nullptr, 0);
	EXPECT_EQ(fur_commit(tx, nullptr), 0) << fur_errormsg();
	EXPECT_EQ(heap_.stats().log_entries, entries);
}

/* Memory, and the data that the log restores, are both as memmove() leaves them; an abort restores
 * the previous data. */
TEST_F(Misuse, Write_OverItself_IsAsMemmove)
{
	constexpr size_t BYTES = 20000;
	heap_.close();
	unlink(path_.c_str());
	fur::Options o = small_options();
	o.log_bytes = 1 << 16;
	auto byte_at = [](size_t i) { return static_cast<unsigned char>(i * 31 + i / 251); };
	std::vector<unsigned char> expected(BYTES);
	for (size_t i = 0; i < BYTES; i++)
		expected[i] = byte_at(i);
	struct Move {
		size_t to, from, bytes;
	};
	/* Both directions; less than an entry, several entries, a distance larger than an entry;
	 * onto itself. */
	const std::vector<Move> moves = {{8, 0, 100}, {0, 8, 100}, {1, 0, 4088}, {0, 1, 4089},
	        {3, 0, 12000}, {0, 3, 12000}, {5000, 0, 12000}, {0, 5000, 12000}, {4088, 0, 9000},
	        {0, 4088, 9000}, {100, 100, 10000}};
	auto all_moves = [&](fur_heap *heap, bool keep) {
		fur::Thread t(heap);
		auto *p = static_cast<unsigned char *>(root_at_rest(heap, 0));
		for (const Move &m : moves) {
			fur_update *tx;
			ASSERT_EQ(fur_begin_update(t, &tx), 0);
			fur_write(tx, p + m.to, p + m.from, m.bytes);
			ASSERT_EQ(keep ? fur_commit(tx, nullptr) : fur_abort(tx),
			        keep ? 0 : FUR_EABORTED)
			        << fur_errormsg();
			if (keep)
				memmove(&expected[m.to], &expected[m.from], m.bytes);
			ASSERT_EQ(memcmp(p, expected.data(), BYTES), 0)
			        << "in memory, " << m.bytes << " bytes from " << m.from << " to "
			        << m.to << (keep ? "" : ", undone");
		}
	};
	{
		heap_ = create(o);
		fur::Thread t(heap_);
		fur::update(t, [&](fur_update *tx) {
			void *p = fur_alloc(tx, BYTES);
			fur_write(tx, p, expected.data(), BYTES);
			fur_set_root(tx, 0, p);
		});
		heap_.close();
	}
	in_killed_child([&] {
		fur::Heap &h = *new fur::Heap(open(o));
		all_moves(h, false);
		all_moves(h, true);
	});
	for (const Move &m : moves) /* the child had a copy of `expected` */
		memmove(&expected[m.to], &expected[m.from], m.bytes);
	heap_ = open(o);
	EXPECT_TRUE(heap_.info().recovered);
	EXPECT_EQ(memcmp(static_cast<void *>(root_at_rest(heap_, 0)), expected.data(), BYTES), 0)
	        << "from the log";
	self_ = fur::Thread(heap_);
}

/* ------------------------------------------------------- structs that grow */

/* A struct of `bytes` bytes, on memory of exactly as many. */
struct Sized {
	explicit Sized(size_t bytes, size_t says) : memory(bytes)
	{
		memcpy(memory.data(), &says, sizeof says < bytes ? sizeof says : bytes);
	}
	template <class T>
	T *as()
	{
		return reinterpret_cast<T *>(memory.data());
	}
	std::vector<char> memory;
};

TEST_F(Misuse, Options_OfAnySize)
{
	std::string second = path_ + "-2";
	auto create_with = [&](size_t bytes, int last) {
		Sized s(bytes < sizeof(size_t) ? sizeof(size_t)
		        : bytes < 5000         ? bytes
		                               : 5000,
		        bytes);
		fur::Options small = small_options();
		memcpy(s.memory.data() + sizeof(size_t),
		        reinterpret_cast<char *>(static_cast<fur_options *>(&small)) +
		                sizeof(size_t),
		        std::min(s.memory.size(), sizeof(fur_options)) - sizeof(size_t));
		if (last)
			s.memory.back() = static_cast<char>(last);
		fur_heap *h;
		int result = fur_create(second.c_str(), s.as<fur_options>(), &h);
		if (result == 0) {
			EXPECT_EQ(heap_size(h), small.heap_bytes) << "the options were not taken";
			EXPECT_EQ(fur_close(h), 0);
		}
		unlink(second.c_str());
		return result;
	};
	for (size_t bytes : {size_t(0), size_t(1), size_t(8), size_t(FUR_OPTIONS_LEAST_BYTES - 1),
	             size_t(4097), SIZE_MAX}) {
		EXPECT_EQ(create_with(bytes, 0), FUR_EINVAL) << bytes;
		EXPECT_TRUE(says("fur_options_init")) << fur_errormsg();
	}
	for (size_t bytes : {size_t(FUR_OPTIONS_LEAST_BYTES), sizeof(fur_options),
	             sizeof(fur_options) + 8, size_t(4096)})
		EXPECT_EQ(create_with(bytes, 0), 0) << bytes << ": " << fur_errormsg();
	/* A program built for a newer library, that sets options that this library does not
	 * have. */
	EXPECT_EQ(create_with(sizeof(fur_options) + 1, 1), FUR_EINVAL);
	EXPECT_TRUE(says("does not know")) << fur_errormsg();
}

template <class T, class Get>
void results_of_any_size(size_t least, Get get)
{
	for (size_t bytes : {size_t(0), size_t(1), size_t(8), least - 1, size_t(4097), SIZE_MAX}) {
		Sized s(std::min(std::max(bytes, sizeof(size_t)), size_t(5000)), bytes);
		EXPECT_EQ(get(s.as<T>()), FUR_EINVAL) << bytes;
		EXPECT_NE(std::string(fur_errormsg()).find("sizeof"), std::string::npos)
		        << fur_errormsg();
		memset(s.memory.data(), 0, sizeof(size_t));
		for (char c : s.memory)
			EXPECT_EQ(c, 0) << "a struct of no known size was written to";
	}
	for (size_t bytes : {least, sizeof(T), sizeof(T) + 16}) {
		Sized s(bytes, bytes);
		if (bytes > sizeof(T))
			memset(s.memory.data() + sizeof(T), 0x55, bytes - sizeof(T));
		EXPECT_EQ(get(s.as<T>()), 0) << fur_errormsg();
		size_t filled;
		memcpy(&filled, s.memory.data(), sizeof filled);
		EXPECT_EQ(filled, std::min(bytes, sizeof(T)));
		for (size_t k = sizeof(T); k < bytes; k++)
			EXPECT_EQ(s.memory[k], 0) << "results that the library does not know";
	}
}

TEST_F(Misuse, Info_OfAnySize)
{
	results_of_any_size<fur_info>(
	        FUR_INFO_LEAST_BYTES, [&](fur_info *i) { return fur_get_info(heap_, i); });
	EXPECT_EQ(heap_.info().heap_bytes, heap_size(heap_));
}

TEST_F(Misuse, Stats_OfAnySize)
{
	results_of_any_size<fur_stats>(
	        FUR_STATS_LEAST_BYTES, [&](fur_stats *s) { return fur_get_stats(heap_, s); });
	EXPECT_GE(heap_.stats().update_commits, 1u);
}

/* ----------------------------------------------------------------- messages */

TEST(Messages, OfALongPath_KeepTheRemedy)
{
	for (size_t bytes : {100u, 800u, 950u, 1023u, 1024u, 2000u, 4000u}) {
		std::string path = "/tmp/";
		while (path.size() < bytes)
			path += "d/";
		path += "the-heap";
		fur_heap *h;
		EXPECT_NE(fur_open(path.c_str(), nullptr, &h), 0);
		std::string message = fur_errormsg();
		EXPECT_NE(message.find("check the path"), std::string::npos) << message;
		EXPECT_NE(message.find("the-heap: "), std::string::npos) << message;
		if (bytes < 800) {
			EXPECT_EQ(message.find(path), 0u) << message;
		}
	}
}

TEST(Messages, EachThreadHasItsOwn)
{
	fur_heap *h;
	EXPECT_EQ(fur_open("/nonexistent/here", nullptr, &h), FUR_ENOENT);
	std::thread([] {
		EXPECT_STREQ(fur_errormsg(), "no failure on this thread");
		EXPECT_EQ(fur_close(nullptr), FUR_EINVAL);
		EXPECT_NE(std::string(fur_errormsg()).find("fur_close"), std::string::npos);
	}).join();
	EXPECT_NE(std::string(fur_errormsg()).find("/nonexistent/here"), std::string::npos)
	        << fur_errormsg();
}

/* --------------------------------------------------------------------- fur.hpp */

TEST_F(Misuse, BodiesThatReturnReferences_ReturnValues)
{
	static_assert(std::is_same_v<decltype(fur::read(self_,
	                                     [&](fur_ro *) -> uint64_t & { return words_[0]; })),
	        uint64_t>);
	static_assert(
	        std::is_same_v<decltype(fur::update(self_,
	                               [&](fur_update *) -> const std::string & { return path_; })),
	                std::string>);
	std::string inside = "a string longer than what fits a std::string itself";
	EXPECT_EQ(fur::read(self_, [&](fur_ro *) -> std::string & { return inside; }), inside);
	EXPECT_EQ(
	        fur::update(self_, [&](fur_update *) -> std::string & { return inside; }), inside);
}

/* -------------------------------------------------- builds with -Dchecks=true */

#if defined(FUR_CHECKS)
class ChecksDeathTest : public Misuse
{
protected:
	ChecksDeathTest()
	{
		/* By exec: in a child of fork() alone every call would be refused. */
		GTEST_FLAG_SET(death_test_style, "threadsafe");
	}
};

TEST_F(ChecksDeathTest, NullUpdate)
{
	EXPECT_DEATH(fur_store_bits(nullptr, words_, 1, 8), "fur_store_bits|check_update");
	EXPECT_DEATH(fur_write(nullptr, words_, words_, 8), "must not be NULL");
	EXPECT_DEATH(fur_promote(nullptr, words_), "must not be NULL");
}

TEST_F(ChecksDeathTest, StoreByAnotherThread)
{
	EXPECT_DEATH(
	        {
		        fur_update *tx = begin();
		        std::thread([&] { fur_store(tx, words_, uint64_t(1)); }).join();
	        },
	        "another thread's");
}

TEST_F(ChecksDeathTest, ReadLeftOpenInsideAnUpdate)
{
	EXPECT_DEATH(
	        {
		        fur_update *tx = begin();
		        join_ro();
		        fur_abort(tx);
	        },
	        "fur_end_ro");
}

TEST_F(ChecksDeathTest, HeapThatIsClosed)
{
	EXPECT_DEATH(
	        {
		        fur_heap *h = heap_.get();
		        heap_.close();
		        fur_thread *t;
		        (void)!fur_thread_register(h, nullptr, &t);
	        },
	        "not open");
}
#endif

} // namespace
