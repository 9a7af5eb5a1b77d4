/* SPDX-License-Identifier: BSD-3-Clause
 *
 * interleave_test.cpp - fur::interleave: searches that wait together find what they find one by
 * one; what they own is freed however they end; and their frames are used again.
 */
#include "software.hpp"

#include <fur/interleave.hpp>
#include <map>
#include <optional>
#include <pthread.h>
#include <set>

namespace
{

/* A hash table of the test's own, with long chains. */
struct Node {
	uint64_t key, value;
	Node *next;
};
struct Table {
	enum : uint64_t { SLOTS = 37 };
	Node *slots[SLOTS];
};

template <class Tx>
fur::task find(Tx *tx, const Table *table, uint64_t key, Node *&found)
{
	Node *node = fur_load(tx, &table->slots[key % Table::SLOTS]);
	for (;;) {
		co_await fur::prefetch(tx, node, sizeof *node);
		if (!node || fur_load(tx, &node->key) == key)
			break;
		node = fur_load(tx, &node->next);
	}
	found = node;
}

/* Counts the objects that are there, and those that ever were. */
struct Count {
	int now = 0, ever = 0, most = 0;
};
class Counted
{
public:
	explicit Counted(Count &count) : count_(count)
	{
		count_.ever++;
		count_.most = std::max(count_.most, ++count_.now);
	}
	Counted(const Counted &) = delete;
	Counted &operator=(const Counted &) = delete;
	~Counted()
	{
		count_.now--;
	}

private:
	Count &count_;
};

class Interleave : public Software
{
protected:
	static const fur_options &options()
	{
		static const fur::Options all = [] {
			fur::Options o = software_options();
			o.heap_bytes = 4 << 20;
			o.max_threads = 8;
			return o;
		}();
		return all;
	}
	Interleave() : Software(options())
	{
		table_ = fur::update(self_, [](fur_update *tx) { return fur::make<Table>(tx); });
		for (uint64_t key = 0; key < ENTRIES; key++)
			fur::update(self_, [&](fur_update *tx) {
				Node **slot = &table_->slots[key % Table::SLOTS];
				fur_store(tx, slot,
				        fur::make<Node>(
				                tx, key, value_of(key), fur_load(tx, slot)));
			});
	}
	static uint64_t value_of(uint64_t key)
	{
		return key * key + 7;
	}
	/* Each second key is not there, and some are given twice. */
	static uint64_t key_of(size_t i)
	{
		return i * 7919 % (2 * ENTRIES);
	}
	template <class Tx>
	void expect_finds(Tx *tx, size_t n)
	{
		std::vector<Node *> found(n, reinterpret_cast<Node *>(1));
		std::vector<int> calls(n);
		fur::interleave(n, [&](size_t i) {
			calls.at(i)++;
			return find(tx, table_, key_of(i), found.at(i));
		});
		for (size_t i = 0; i < n; i++) {
			EXPECT_EQ(calls[i], 1) << i;
			if (key_of(i) < ENTRIES) {
				ASSERT_NE(found[i], nullptr) << i;
				EXPECT_EQ(fur_load(tx, &found[i]->key), key_of(i)) << i;
				EXPECT_EQ(fur_load(tx, &found[i]->value), value_of(key_of(i)));
			} else {
				EXPECT_EQ(found[i], nullptr) << i;
			}
		}
	}
	/* A search of `steps` loads, of one word each. */
	template <class Tx>
	fur::task walk(Tx *tx, unsigned steps, Count &count)
	{
		const Counted counted(count);
		for (unsigned k = 0; k < steps; k++) {
			co_await fur::prefetch(tx, word(k), 8);
			(void)fur_load(tx, word(k));
		}
	}

	enum : uint64_t { ENTRIES = 500 };
	Table *table_;
};

/* ----------------------------------------------------------------- results */

class InterleaveOf : public Interleave, public ::testing::WithParamInterface<size_t>
{
};

TEST_P(InterleaveOf, FindsWhatIsThere)
{
	const size_t n = GetParam();
	fur::read(self_, [&](fur_ro *tx) { expect_finds(tx, n); });
	fur::read(self_, fur::rerun, [&](fur_reader *tx) { expect_finds(tx, n); });
	for (tx_mode mode : {TX_IN_PLACE, TX_SERIAL, TX_CONCURRENT})
		update_in(mode, [&](fur_update *tx) { expect_finds(tx, n); });
	expect_sound();
}

TEST_P(InterleaveOf, HasUpToSixteenUnderWay)
{
	Count count;
	fur::read(self_, [&](fur_ro *tx) {
		fur::interleave(GetParam(), [&](size_t i) {
			return walk(tx, 1 + static_cast<unsigned>(i % 5), count);
		});
	});
	EXPECT_EQ(count.ever, static_cast<int>(GetParam()));
	EXPECT_EQ(count.most, static_cast<int>(std::min<size_t>(GetParam(), 16)));
	EXPECT_EQ(count.now, 0);
}

INSTANTIATE_TEST_SUITE_P(, InterleaveOf, ::testing::Values(0, 1, 5, 16, 17, 1000));

TEST_F(Interleave, GoesOnInTurn)
{
	std::string order;
	fur::read(self_, [&](fur_ro *tx) {
		fur::interleave(3, [&](size_t i) -> fur::task {
			for (size_t k = 0; k < 3; k++) {
				order += static_cast<char>('a' + i);
				co_await fur::prefetch(tx, table_, 8);
			}
		});
	});
	EXPECT_EQ(order, "abcabcabc");
}

TEST_F(Interleave, SearchesThatNeverWait_RunOneByOne)
{
	Count count;
	fur::read(self_, [&](fur_ro *tx) {
		fur::interleave(100, [&](size_t) { return walk(tx, 0, count); });
	});
	EXPECT_EQ(count.ever, 100);
	EXPECT_EQ(count.most, 1);
}

/* Searches of one update store, some to the same entries. */
TEST_F(Interleave, StoresAreFoundByTheOthers)
{
	const size_t n = 600;
	std::map<uint64_t, uint64_t> wanted;
	for (size_t i = 0; i < n; i++)
		wanted[i % 40 * 3]++;
	for (tx_mode mode : {TX_IN_PLACE, TX_SERIAL, TX_CONCURRENT})
		update_in(mode, [&](fur_update *tx) {
			fur::interleave(n, [&](size_t i) -> fur::task {
				Node *node =
				        fur_load(tx, &table_->slots[i % 40 * 3 % Table::SLOTS]);
				while (fur_load(tx, &node->key) != i % 40 * 3) {
					node = fur_load(tx, &node->next);
					co_await fur::prefetch(tx, node, sizeof *node);
				}
				fur_store(tx, &node->value, fur_load(tx, &node->value) + 1);
			});
		});
	fur::read(self_, [&](fur_ro *tx) {
		for (auto [key, times] : wanted) {
			Node *node = nullptr;
			fur::interleave(
			        1, [&, k = key](size_t) { return find(tx, table_, k, node); });
			ASSERT_NE(node, nullptr);
			EXPECT_EQ(fur_load(tx, &node->value), value_of(key) + 3 * times) << key;
		}
	});
	expect_sound();
}

TEST_F(Interleave, InASearch)
{
	Count outer, inner;
	fur::read(self_, [&](fur_ro *tx) {
		fur::interleave(20, [&](size_t) -> fur::task {
			const Counted counted(outer);
			co_await fur::prefetch(tx, table_, 8);
			fur::interleave(20, [&](size_t) { return walk(tx, 3, inner); });
		});
	});
	EXPECT_EQ(outer.ever, 20);
	EXPECT_EQ(inner.ever, 400);
	EXPECT_EQ(outer.now + inner.now, 0);
}

/* --------------------------------------------------- searches that do not end */

/* The search that throws, and after how many waits. */
class InterleaveThrows : public Interleave,
                         public ::testing::WithParamInterface<std::pair<size_t, unsigned>>
{
};

TEST_P(InterleaveThrows, OfASearch_DestroysTheOthers)
{
	const auto [which, waits] = GetParam();
	Count count;
	std::string text(100, 'x'), caught;
	size_t begun = 0, begun_before = 0;
	auto search = [&, bad = which, steps = waits](fur_ro *tx, size_t i) -> fur::task {
		const Counted counted(count);
		const std::string owned = text + std::to_string(i); /* for AddressSanitizer */
		for (unsigned k = 0; k < (i == bad ? steps : 4); k++)
			co_await fur::prefetch(tx, word(k), 8);
		if (i == bad) {
			begun_before = begun;
			throw std::runtime_error(owned);
		}
	};
	fur::read(self_, [&](fur_ro *tx) {
		try {
			fur::interleave(1000, [&](size_t i) {
				begun++;
				return search(tx, i);
			});
		} catch (const std::runtime_error &e) {
			caught = e.what();
			EXPECT_EQ(count.now, 0) << "before the caller has it";
		}
	});
	EXPECT_EQ(caught, text + std::to_string(which));
	EXPECT_EQ(count.now, 0);
	EXPECT_GT(begun, which);
	EXPECT_LT(begun, which + 17);
	EXPECT_EQ(begun, begun_before) << "one begins after the exception";
	EXPECT_EQ(static_cast<size_t>(count.ever), begun);
	fur::read(self_, [&](fur_ro *tx) { expect_finds(tx, 100); });
	expect_sound();
}

INSTANTIATE_TEST_SUITE_P(, InterleaveThrows,
        ::testing::Values(std::pair(0, 0), std::pair(0, 2), std::pair(7, 0), std::pair(7, 1),
                std::pair(15, 3), std::pair(16, 0), std::pair(500, 2), std::pair(999, 0),
                std::pair(999, 4)));

TEST_F(Interleave, ExceptionOfTheCallThatMakesASearch)
{
	for (size_t bad : {0, 3, 16, 40}) {
		Count count;
		fur::read(self_, [&](fur_ro *tx) {
			EXPECT_THROW(fur::interleave(50,
			                     [&](size_t i) {
				                     if (i == bad)
					                     throw std::out_of_range("bad");
				                     return walk(tx, 3, count);
			                     }),
			        std::out_of_range);
			EXPECT_EQ(count.now, 0);
			EXPECT_EQ(count.ever, static_cast<int>(bad));
		});
	}
	expect_sound();
}

/* 30 searches that add two words.  In the first run, number 5 lets the helper change both
 * meanwhile, so libfur leaves the body at the next load: 5 searches have ended then, and 16 are
 * under way. */
class InterleaveRunsAgain : public Interleave
{
protected:
	template <class Tx>
	void add_words(Tx *tx)
	{
		EXPECT_EQ(count_.now, 0) << "the last run's searches are there still";
		runs_++;
		fur::interleave(sums_.size(), [&](size_t i) -> fur::task {
			const Counted counted(count_);
			const uint64_t one = fur_load(tx, word(0));
			co_await fur::prefetch(tx, word(1), 8);
			if (runs_ == 1 && i == 5)
				other_.run([&](fur_thread *t) {
					fur::update(t, [&](fur_update *u) {
						fur_store(u, word(0), UINT64_C(7));
						fur_store(u, word(1), UINT64_C(5));
					});
				});
			sums_[i] = one + fur_load(tx, word(1));
		});
	}
	void expect_second_run()
	{
		EXPECT_EQ(runs_, 2);
		EXPECT_EQ(sums_, std::vector<uint64_t>(30, 12)) << "of one state";
		EXPECT_EQ(count_.ever, 5 + 16 + 30);
		EXPECT_EQ(count_.now, 0);
		expect_sound();
	}
	Count count_;
	int runs_ = 0;
	std::vector<uint64_t> sums_ = std::vector<uint64_t>(30);
};

TEST_F(InterleaveRunsAgain, Reader)
{
	if (readers_are_plain())
		GTEST_SKIP() << "an update would wait for the reader";
	fur::read(self_, fur::rerun, [&](fur_reader *tx) { add_words(tx); });
	expect_second_run();
}

TEST_F(InterleaveRunsAgain, Update)
{
	const uint64_t defeats = heap_.stats().defeats;
	update_in(TX_CONCURRENT, [&](fur_update *tx) {
		add_words(tx);
		fur_store(tx, word(2), sums_.back());
	});
	EXPECT_EQ(heap_.stats().defeats, defeats + 1);
	EXPECT_EQ(get(self_, word(2)), 12u);
	expect_second_run();
}

/* pthread_exit() unwinds, but it is no exception of C++. */
TEST_F(Interleave, ThreadThatEndsInASearch)
{
	Count count;
	auto work = [&] {
		fur::Thread self(heap_);
		fur::read(self, [&](fur_ro *tx) {
			fur::interleave(40, [&](size_t i) -> fur::task {
				const Counted counted(count);
				const std::string owned(100, 'x'); /* for AddressSanitizer */
				co_await fur::prefetch(tx, word(0), 8);
				if (i == 20)
					pthread_exit(nullptr);
			});
		});
	};
	pthread_t thread;
	ASSERT_EQ(pthread_create(
	                  &thread, nullptr,
	                  [](void *arg) -> void * {
		                  (*static_cast<decltype(work) *>(arg))();
		                  return nullptr;
	                  },
	                  &work),
	        0);
	ASSERT_EQ(pthread_join(thread, nullptr), 0);
	EXPECT_GT(count.ever, 20);
	EXPECT_LT(count.ever, 40) << "it has not ended there";
	EXPECT_EQ(count.now, 0);
	expect_sound();
}

/* ------------------------------------------------------------------ frames */

/* How many frames this thread keeps. */
size_t frames_kept()
{
	size_t n = 0;
	for (const auto *list : fur::detail::frames.lists)
		for (; list; list = list->next)
			n++;
	return n;
}

/* A search whose frame has at least BYTES bytes: the bytes stay as they are while it waits.  Adds
 * the frame to `frames`. */
template <size_t BYTES, class Tx>
fur::task keep_bytes(Tx *tx, size_t i, std::set<const void *> &frames, int &wrong)
{
	unsigned char bytes[BYTES];
	memset(bytes, static_cast<int>(i % 251), BYTES);
	frames.insert(bytes);
	for (size_t k = 0; k < 2 + i % 3; k++) {
		co_await fur::prefetch(tx, bytes, BYTES);
		for (unsigned char byte : bytes)
			wrong += byte != i % 251;
	}
}

/* In a thread that has no frames yet. */
TEST_F(Interleave, FramesServeTheNextSearches)
{
	other_.run([&](fur_thread *t) {
		std::set<const void *> first, all;
		int wrong = 0;
		EXPECT_EQ(frames_kept(), 0u);
		fur::read(t, [&](fur_ro *tx) {
			fur::interleave(
			        16, [&](size_t i) { return keep_bytes<200>(tx, i, first, wrong); });
			EXPECT_EQ(frames_kept(), 16u);
			all = first;
			fur::interleave(1000, [&](size_t i) {
				EXPECT_LT(frames_kept(), 17u);
				return keep_bytes<200>(tx, i, all, wrong);
			});
		});
		EXPECT_EQ(frames_kept(), 16u);
		EXPECT_EQ(first.size(), 16u);
		EXPECT_EQ(all, first) << "a frame that was not kept";
		EXPECT_EQ(wrong, 0);
	});
}

/* Small, large, and beyond the lists, all at once: no two overlap. */
TEST_F(Interleave, FramesOfDifferentSizes)
{
	std::set<const void *> frames;
	int wrong = 0;
	for (int round = 0; round < 3; round++)
		fur::read(self_, [&](fur_ro *tx) {
			fur::interleave(1000, [&](size_t i) {
				switch (i % 5) {
				case 0: return keep_bytes<1>(tx, i, frames, wrong);
				case 1: return keep_bytes<150>(tx, i, frames, wrong);
				case 2: return keep_bytes<500>(tx, i, frames, wrong);
				case 3: return keep_bytes<900>(tx, i, frames, wrong);
				default: return keep_bytes<3000>(tx, i, frames, wrong);
				}
			});
		});
	EXPECT_EQ(wrong, 0);
	EXPECT_GT(frames_kept(), 0u);
	EXPECT_LE(frames_kept(), 4u * 16);
}

TEST_F(Interleave, SizesOfTheLists)
{
	using fur::detail::delete_frame;
	using fur::detail::Frames;
	using fur::detail::new_frame;
	other_.run([&](fur_thread *) {
		const size_t most = Frames::STEP * Frames::LISTS;
		for (size_t bytes = 1; bytes <= most + 1; bytes++) {
			void *frame = new_frame(bytes);
			memset(frame, 0xee, bytes); /* for AddressSanitizer */
			delete_frame(frame, bytes);
			EXPECT_EQ(frames_kept(),
			        std::min<size_t>((bytes - 1) / Frames::STEP + 1, Frames::LISTS))
			        << bytes;
		}
	});
}

/* The witness is older than the thread's first frame, so it is destroyed after the lists. */
TEST_F(Interleave, ThreadThatEnds_FreesItsFrames)
{
	struct Witness {
		std::function<void()> at_end;
		~Witness()
		{
			if (at_end)
				at_end();
		}
	};
	size_t kept = 0, kept_at_end = 99;
	Count count, late;
	auto searches = [&](Count &counted) {
		fur::Thread self(heap_);
		fur::read(self, [&](fur_ro *tx) {
			fur::interleave(100, [&](size_t) { return walk(tx, 3, counted); });
		});
	};
	std::thread([&] {
		static thread_local Witness witness;
		witness.at_end = [&] {
			kept_at_end = frames_kept();
			searches(late); /* a destructor may search */
			kept_at_end += frames_kept();
		};
		searches(count);
		kept = frames_kept();
	}).join();
	EXPECT_EQ(kept, 16u);
	EXPECT_EQ(kept_at_end, 0u);
	EXPECT_EQ(count.ever, 100);
	EXPECT_EQ(late.ever, 100);
	EXPECT_EQ(count.now + late.now, 0);
}

} // namespace
