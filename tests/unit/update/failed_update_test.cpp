/* SPDX-License-Identifier: BSD-3-Clause
 *
 * failed_update_test.cpp - an update that does not fit its log goes on to the end of its body: its
 * loads find what it has stored, and the rollback leaves no trace.
 */
#include "census.hpp"
#include "internals.hpp"
#include "software.hpp"

#include <random>

namespace
{

fur::Options small_log()
{
	fur::Options o = software_options();
	o.log_bytes = 4096;
	return o;
}

std::string mode_name(const ::testing::TestParamInfo<tx_mode> &info)
{
	return info.param == TX_SERIAL     ? "serial"
	       : info.param == TX_IN_PLACE ? "in_place"
	                                   : "rerun";
}

class Failed : public HeapFile, public ::testing::WithParamInterface<tx_mode>
{
protected:
	enum { WORDS = 512 };

	Failed() : heap_(create(small_log())), self_(heap_), other_(heap_.get())
	{
		words_ = fur::update(self_, [](fur_update *tx) {
			return static_cast<uint64_t *>(fur_alloc(tx, WORDS * 8));
		});
		for (uint64_t k = 0; k < WORDS; k++)
			fur::update(self_, [&](fur_update *tx) { fur_store(tx, words_ + k, ~k); });
		other_.run([](fur_thread *) {});
	}
	template <class Body>
	int result(Body &&body)
	{
		prefer_in_place(self_, GetParam() == TX_IN_PLACE);
		auto checked = [&](fur_update *tx) {
			EXPECT_EQ(tx->mode, GetParam());
			body(tx);
		};
		try {
			if (GetParam() == TX_CONCURRENT)
				fur::update(self_, fur::rerun, checked);
			else
				fur::update(self_, checked);
		} catch (const fur::Error &e) {
			return e.code();
		}
		return 0;
	}
	/* No store of a failed update is left, for this thread and others, and updates work. */
	void expect_no_trace()
	{
		auto look = [&](fur_thread *t) {
			fur::read(t, [&](fur_ro *tx) {
				for (uint64_t k = 0; k < WORDS; k++)
					ASSERT_EQ(fur_load(tx, words_ + k), ~k) << k;
			});
		};
		look(self_);
		other_.run(look);
		ASSERT_EQ(result([&](fur_update *tx) { fur_store(tx, words_ + 3, ~uint64_t{3}); }),
		        0);
		const alloc_census census = census_of(heap_);
		EXPECT_EQ(census.blocks, 1u);
	}

	fur::Heap heap_;
	fur::Thread self_;
	Helper other_;
	uint64_t *words_;
};

/* A list of new nodes, as long as fur_alloc() gives some, and then a walk over it. */
TEST_P(Failed, AListOfNewNodes_HasDefinedContents)
{
	struct Node {
		Node *next;
		uint64_t value, more[6];
	};
	for (unsigned skip = 0; skip < 8; skip++) { /* the log is full at another store of a node */
		uint64_t made = 0, walked = 0;
		EXPECT_EQ(result([&](fur_update *tx) {
			Node *first = nullptr;
			made = walked = 0;
			for (unsigned k = 0; k < skip; k++)
				fur_store(tx, words_ + k, uint64_t{k});
			while (auto *node = static_cast<Node *>(fur_alloc(tx, sizeof(Node)))) {
				fur_store(tx, &node->next, first);
				for (uint64_t &word : node->more)
					fur_store(tx, &word, made);
				fur_store(tx, &node->value, made++);
				first = node;
			}
			for (Node *node = first; node; node = fur_load(tx, &node->next)) {
				ASSERT_EQ(fur_load(tx, &node->value), made - ++walked);
				ASSERT_EQ(fur_load(tx, &node->more[5]), made - walked);
			}
		}),
		        FUR_ETOOBIG);
		EXPECT_GT(made, 5u);
		EXPECT_EQ(walked, made);
		expect_no_trace();
	}
}

/* Stores of all widths at all places, many times what the log holds, compared with a copy. */
TEST_P(Failed, RandomStores_AreLoadedAgain_AndUndone)
{
	for (unsigned seed = 1; seed <= 20; seed++) {
		EXPECT_EQ(result([&](fur_update *tx) {
			std::mt19937 random(seed);
			std::vector<unsigned char> copy(WORDS * 8), now(WORDS * 8);
			auto *bytes = reinterpret_cast<unsigned char *>(words_);
			fur_read(tx, copy.data(), bytes, copy.size());
			for (unsigned k = 0; k < 600; k++) {
				uint64_t value = random() * uint64_t{0x9e3779b97f4a7c15};
				size_t at = random() % (WORDS * 8 - 700), n = 1 + random() % 8;
				if (random() % 4) {
					fur_store_bits(
					        tx, bytes + at, value, static_cast<unsigned>(n));
					memcpy(&copy[at], &value, n);
				} else { /* overlapping, and longer than an entry */
					size_t from = at + random() % 64, all = random() % 600;
					fur_write(tx, bytes + at, bytes + from, all);
					memmove(&copy[at], &copy[from], all);
				}
			}
			fur_read(tx, now.data(), bytes, now.size());
			ASSERT_TRUE(now == copy) << seed;
			ASSERT_EQ(fur_load(tx, words_ + 9),
			        reinterpret_cast<uint64_t *>(copy.data())[9]);
		}),
		        FUR_ETOOBIG);
		expect_no_trace();
	}
}

/* A read-only transaction in the update loads with plain loads. */
TEST_P(Failed, AReadOnlyTransactionInside_FindsTheStores)
{
	EXPECT_EQ(result([&](fur_update *tx) {
		for (uint64_t k = 0; k < WORDS; k++)
			fur_store(tx, words_ + k, k + 1);
		fur_ro *ro;
		ASSERT_EQ(fur_join_ro(self_, &ro), 0);
		for (uint64_t k = 0; k < WORDS; k++)
			ASSERT_EQ(fur_load(ro, words_ + k), k + 1) << k;
		for (uint64_t k = 0; k < WORDS; k += 2)
			fur_store(tx, words_ + k, uint64_t{0});
		for (uint64_t k = 0; k < WORDS; k++)
			ASSERT_EQ(fur_load(ro, words_ + k), k % 2 ? k + 1 : 0) << k;
		ASSERT_EQ(fur_end_ro(ro, nullptr), 0);
	}),
	        FUR_ETOOBIG);
	expect_no_trace();
}

/* Not only a full log: also after another mistake. */
TEST_P(Failed, StoresAfterAnotherError_AreLoadedAgain)
{
	uint64_t outside = 5;
	EXPECT_EQ(result([&](fur_update *tx) {
		EXPECT_EQ(fur_update_error(tx), 0);
		fur_store(tx, &outside, uint64_t{6});
		EXPECT_EQ(fur_update_error(tx), FUR_ERANGE);
		for (uint64_t k = 0; k < WORDS; k++)
			fur_store(tx, words_ + k, k);
		for (uint64_t k = 0; k < WORDS; k++)
			ASSERT_EQ(fur_load(tx, words_ + k), k);
	}),
	        FUR_ERANGE);
	EXPECT_EQ(outside, 5u);
	expect_no_trace();
}

/* Other threads see nothing of it, before, in the middle and after. */
TEST_P(Failed, OthersSeeNothing)
{
	if (GetParam() == TX_IN_PLACE)
		GTEST_SKIP() << "readers wait for an update in place";
	EXPECT_EQ(result([&](fur_update *tx) {
		for (uint64_t k = 0; k < WORDS; k++)
			fur_store(tx, words_ + k, k);
		other_.run([&](fur_thread *t) {
			fur::read(t, [&](fur_ro *ro) {
				for (uint64_t k = 0; k < WORDS; k++)
					ASSERT_EQ(fur_load(ro, words_ + k), ~k);
			});
		});
	}),
	        FUR_ETOOBIG);
	expect_no_trace();
}

INSTANTIATE_TEST_SUITE_P(
        Modes, Failed, ::testing::Values(TX_SERIAL, TX_CONCURRENT, TX_IN_PLACE), mode_name);

} // namespace
