/* SPDX-License-Identifier: BSD-3-Clause
 *
 * double_free_test.cpp - FUR_DEBUG=double-free: fur_free() refuses every block that is free,
 * wherever the allocator keeps it, and no other.
 */
#include "census.hpp"
#include "fixture.hpp"
#include "internals.hpp"

#include <atomic>
#include <thread>

namespace
{

fur::Options with_aid()
{
	fur::Options o = small_options();
	o.debug = FUR_DEBUG_DOUBLE_FREE;
	return o;
}

class DoubleFree : public HeapFile
{
protected:
	explicit DoubleFree(const fur_options &o = with_aid()) : heap_(create(o)), self_(heap_) {}

	std::vector<void *> alloc(size_t n, size_t bytes)
	{
		std::vector<void *> blocks(n);
		for (void *&p : blocks)
			p = fur::update(
			        self_, [&](fur_update *tx) { return fur_alloc(tx, bytes); });
		return blocks;
	}
	static int free_result(fur_thread *self, void *p)
	{
		fur_update *tx;
		EXPECT_EQ(fur_begin_update(self, &tx), 0);
		fur_free(tx, p);
		return fur_commit(tx, nullptr);
	}
	uint64_t blocks()
	{
		return census_of(heap_).blocks;
	}

	fur::Heap heap_;
	fur::Thread self_;
};

TEST_F(DoubleFree, OfAnyBlock_IsRefusedAndNamed)
{
	for (size_t bytes : {16u, 48u, 1000u, 16384u}) {
		std::vector<void *> p = alloc(4, bytes);
		for (void *one : p)
			ASSERT_EQ(free_result(self_, one), 0);
		for (void *one : p) {
			char expected[100];
			ASSERT_EQ(free_result(self_, one), FUR_EFREE) << bytes;
			snprintf(expected, sizeof expected,
			        "the update freed %p (byte %zu of the heap), a block of ", one,
			        static_cast<size_t>(static_cast<char *>(one) -
			                            static_cast<char *>(heap_base(heap_))));
			EXPECT_EQ(strstr(fur_errormsg(), expected), fur_errormsg())
			        << fur_errormsg() << "\nexpected: " << expected;
			EXPECT_NE(strstr(fur_errormsg(), "free already"), nullptr);
		}
		EXPECT_EQ(blocks(), 0u);
	}
}

/* So many that they lie in the thread's stock, on lists of chunks, and in ranges. */
TEST_F(DoubleFree, OfBlocksOnEveryList_IsRefused)
{
	std::vector<void *> p = alloc(3000, 64);
	for (size_t k = 0; k < p.size(); k++)
		if (k % 5) {
			ASSERT_EQ(free_result(self_, p[k]), 0);
		}
	for (size_t k = 0; k < p.size(); k++)
		if (k % 5) {
			ASSERT_EQ(free_result(self_, p[k]), FUR_EFREE) << k;
		}
	for (size_t k = 0; k < p.size(); k += 5)
		ASSERT_EQ(free_result(self_, p[k]), 0) << k << ": " << fur_errormsg();
	EXPECT_EQ(blocks(), 0u);
}

TEST_F(DoubleFree, OfBlocksThatAnotherThreadHasInStock_IsRefused)
{
	std::vector<void *> p = alloc(10, 64);
	std::thread([&] {
		fur::Thread other(heap_);
		for (void *one : p)
			EXPECT_EQ(free_result(other, one), 0);
		void *carved =
		        fur::update(other, [&](fur_update *tx) { return fur_alloc(tx, 256); });
		p.push_back(static_cast<char *>(carved) + 256); /* not allocated yet */
	}).join();
	for (void *one : p)
		EXPECT_EQ(free_result(self_, one), FUR_EFREE);
}

TEST_F(DoubleFree, InOneUpdate_IsRefused_AndBothComeBackWithTheUpdate)
{
	std::vector<void *> p = alloc(2, 64);
	for (bool rerun : {false, true}) {
		auto body = [&](fur_update *tx) {
			fur_free(tx, p[0]);
			fur_free(tx, p[1]);
			fur_free(tx, p[0]);
		};
		try {
			if (rerun)
				fur::update(self_, fur::rerun, body);
			else
				fur::update(self_, body);
			ADD_FAILURE() << "the update has committed";
		} catch (const fur::Error &e) {
			EXPECT_EQ(e.code(), FUR_EFREE);
		}
		EXPECT_EQ(blocks(), 2u);
	}
	EXPECT_EQ(free_result(self_, p[0]), 0);
	EXPECT_EQ(free_result(self_, p[1]), 0);
}

/* Of several threads that free a block at once, one succeeds. */
TEST_F(DoubleFree, ByThreadsAtOnce_OneSucceeds)
{
	enum { THREADS = 3, ROUNDS = 200 };
	std::vector<void *> p = alloc(ROUNDS, 64);
	std::vector<std::atomic<int>> freed(ROUNDS), refused(ROUNDS);
	std::vector<std::thread> threads;
	for (int n = 0; n < THREADS; n++)
		threads.emplace_back([&] {
			fur::Thread me(heap_);
			for (size_t k = 0; k < ROUNDS; k++) {
				try {
					fur::update(me, fur::rerun,
					        [&](fur_update *tx) { fur_free(tx, p[k]); });
					freed[k]++;
				} catch (const fur::Error &e) {
					refused[k] += e.code() == FUR_EFREE;
				}
			}
		});
	for (std::thread &t : threads)
		t.join();
	for (size_t k = 0; k < ROUNDS; k++) {
		ASSERT_EQ(freed[k], 1) << k;
		ASSERT_EQ(refused[k], THREADS - 1) << k;
	}
	EXPECT_EQ(blocks(), 0u);
}

/* The other messages of FUR_EFREE. */
TEST_F(DoubleFree, OfWhatIsNoBlock_IsNamedToo)
{
	void *p = alloc(1, 64)[0];
	int own;
	EXPECT_EQ(free_result(self_, &own), FUR_EFREE);
	EXPECT_NE(strstr(fur_errormsg(), "outside the heap"), nullptr) << fur_errormsg();
	EXPECT_EQ(free_result(self_, static_cast<char *>(p) + 16), FUR_EFREE);
	EXPECT_NE(strstr(fur_errormsg(), "where no block in use begins"), nullptr)
	        << fur_errormsg();
	EXPECT_EQ(free_result(self_, p), 0);
}

/* What the aid is for: without it, this is not noticed. */
class WithoutTheAid : public DoubleFree
{
protected:
	WithoutTheAid() : DoubleFree(small_options()) {}
};

TEST_F(WithoutTheAid, ABlockFurtherDownTheStock_IsFreedTwice)
{
	if (getenv("FUR_DEBUG"))
		GTEST_SKIP() << "FUR_DEBUG is set";
	std::vector<void *> p = alloc(2, 64);
	EXPECT_EQ(free_result(self_, p[0]), 0);
	EXPECT_EQ(free_result(self_, p[1]), 0);
	EXPECT_EQ(free_result(self_, p[0]), 0);
	alloc_census c;
	EXPECT_EQ(alloc_check(heap_base(heap_), &c), FUR_ECORRUPT);
}

} // namespace
