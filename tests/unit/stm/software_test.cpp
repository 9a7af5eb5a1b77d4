/* SPDX-License-Identifier: BSD-3-Clause
 *
 * software_test.cpp - an update without hardware, in each of its modes: it sees its own stores,
 * others do not, and every error leaves the heap as it was.  defeat_test.cpp has the updates that
 * meet each other.
 */
#include "software.hpp"

#include <random>
#include <sys/resource.h>
#include <sys/syscall.h>

/* The test's own fdatasync(): a disk that fails. */
static std::atomic<bool> sync_fails;
extern "C" int fdatasync(int fd)
{
	if (sync_fails) {
		errno = EIO;
		return -1;
	}
	return static_cast<int>(syscall(SYS_fdatasync, fd));
}

namespace
{

/* ------------------------------------------------------------- own stores */

class OwnStores : public EveryMode
{
protected:
	OwnStores() : EveryMode(options()) {}
	static fur::Options options()
	{
		fur::Options o = software_options();
		o.heap_bytes = 4 << 20;
		o.log_bytes = 4 << 20;
		return o;
	}
	unsigned char *bytes(size_t at = 0)
	{
		return reinterpret_cast<unsigned char *>(words_) + at;
	}
	template <class T>
	static uint64_t load_as(fur_update *tx, const unsigned char *from)
	{
		return fur_load(tx, reinterpret_cast<const T *>(from));
	}
	/* With fur_load() where the address allows it. */
	static uint64_t load(fur_update *tx, const unsigned char *from, unsigned n)
	{
		uint64_t value = 0;
		if (reinterpret_cast<uintptr_t>(from) % n || (n & (n - 1)))
			fur_read(tx, &value, from, n);
		else
			value = n == 1   ? load_as<uint8_t>(tx, from)
			        : n == 2 ? load_as<uint16_t>(tx, from)
			        : n == 4 ? load_as<uint32_t>(tx, from)
			                 : load_as<uint64_t>(tx, from);
		return value;
	}
	/* fur_load() itself makes this call, if the update runs in software. */
	static uint64_t load_bits(fur_update *tx, const unsigned char *from, unsigned n)
	{
		uint64_t bits = fur_load_bits(tx, from, n);
		return n == 8 ? bits : bits & ((uint64_t(1) << 8 * n) - 1);
	}
	static uint64_t shadow_load(const std::vector<unsigned char> &shadow, size_t at, unsigned n)
	{
		uint64_t value = 0;
		memcpy(&value, &shadow[at], n);
		return value;
	}
};

TEST_P(OwnStores, OfEveryWidthAndAlignment_AreSeenByLoadsOfEveryWidthAndAlignment)
{
	enum { BYTES = 32 };
	for (unsigned n = 1; n <= 8; n++) {
		std::vector<unsigned char> shadow(BYTES);
		update([&](fur_update *tx) {
			shadow.assign(BYTES, 0x40);
			fur_write(tx, bytes(), shadow.data(), BYTES);
			for (unsigned at = 0; at + n <= BYTES; at++) {
				uint64_t value = UINT64_C(0x0102030405060708) * (at + n);
				fur_store_bits(tx, bytes(at), value, n);
				memcpy(&shadow[at], &value, n);
				for (unsigned m = 1; m <= 8; m++)
					for (unsigned from = 0; from + m <= BYTES; from++)
						ASSERT_EQ(load(tx, bytes(from), m),
						        shadow_load(shadow, from, m))
						        << n << " bytes at " << at << ", " << m
						        << " from " << from;
			}
		});
		EXPECT_EQ(memcmp(bytes(), shadow.data(), BYTES), 0);
	}
}

TEST_P(OwnStores, PartOfAWord_LeavesTheRestToTheHeap)
{
	set(self_, word(0), UINT64_C(0x1111111111111111));
	update([&](fur_update *tx) {
		fur_store(tx, bytes(3), static_cast<unsigned char>(0xaa));
		EXPECT_EQ(fur_load(tx, word(0)), UINT64_C(0x11111111aa111111));
		fur_store(tx, word(0), UINT64_C(0x2222222222222222));
		EXPECT_EQ(fur_load(tx, bytes(3)), 0x22);
		fur_store(tx, bytes(7), static_cast<unsigned char>(0xbb));
		EXPECT_EQ(fur_load(tx, word(0)), UINT64_C(0xbb22222222222222));
	});
	EXPECT_EQ(*word(0), UINT64_C(0xbb22222222222222));
}

TEST_P(OwnStores, LoadBits_IsAsFurLoad)
{
	if (GetParam() == TX_IN_PLACE)
		GTEST_SKIP() << "fur_load() calls it only in software";
	update([&](fur_update *tx) {
		for (unsigned k = 0; k < 32; k++)
			fur_store(tx, bytes(k), static_cast<unsigned char>(k * 7 + 1));
		for (unsigned n = 1; n <= 8; n++)
			for (unsigned at = 0; at + n <= 32; at++)
				ASSERT_EQ(load_bits(tx, bytes(at), n), load(tx, bytes(at), n))
				        << n << " bytes at " << at;
	});
}

TEST_P(OwnStores, Write_OfThousandsOfBytes_IsSeenInPart)
{
	std::vector<unsigned char> shadow(WORDS * 8 - 5);
	std::mt19937 random(1);
	for (auto &b : shadow)
		b = static_cast<unsigned char>(random());
	update([&](fur_update *tx) {
		fur_write(tx, bytes(3), shadow.data(), shadow.size());
		std::vector<unsigned char> part(shadow.size());
		for (int k = 0; k < 500; k++) {
			size_t at = random() % shadow.size(),
			       n = random() % (shadow.size() - at) + 1;
			fur_read(tx, part.data(), bytes(3 + at), n);
			ASSERT_EQ(memcmp(part.data(), &shadow[at], n), 0) << n << " at " << at;
			shadow[at] = static_cast<unsigned char>(k);
			fur_store(tx, bytes(3 + at), shadow[at]);
		}
	});
	EXPECT_EQ(memcmp(bytes(3), shadow.data(), shadow.size()), 0);
	EXPECT_EQ(bytes()[0] | bytes()[1] | bytes()[2], 0);
}

TEST_P(OwnStores, Write_FromTheHeap_IsAsMemmove_AfterOtherStores)
{
	struct Move {
		size_t to, from, bytes;
	};
	enum { BYTES = 3000 };
	for (const Move &m : {Move{8, 0, 100}, {0, 8, 100}, {1, 0, 2999}, {0, 1, 2999}, {3, 0, 7},
	             {0, 3, 7}, {1000, 0, 1000}, {0, 1000, 1000}, {500, 500, 100}, {7, 2, 2000}}) {
		std::vector<unsigned char> shadow(BYTES);
		for (size_t k = 0; k < BYTES; k++)
			shadow[k] = static_cast<unsigned char>(k * 13 + k / 256);
		fur::update(self_,
		        [&](fur_update *tx) { fur_write(tx, bytes(), shadow.data(), BYTES); });
		update([&](fur_update *tx) {
			for (size_t k = 1; k < BYTES; k += 5) {
				shadow[k] = static_cast<unsigned char>(k + 99);
				fur_store(tx, bytes(k), shadow[k]);
			}
			fur_write(tx, bytes(m.to), bytes(m.from), m.bytes);
			memmove(&shadow[m.to], &shadow[m.from], m.bytes);
			std::vector<unsigned char> now(BYTES);
			fur_read(tx, now.data(), bytes(), BYTES);
			EXPECT_TRUE(now == shadow) << m.bytes << " from " << m.from;
		});
		EXPECT_EQ(memcmp(bytes(), shadow.data(), BYTES), 0);
	}
}

TEST_P(OwnStores, AtRandom_AreAsInAShadow)
{
	enum { BYTES = 600 };
	std::vector<unsigned char> committed(BYTES);
	for (unsigned seed = 1; seed <= 300; seed++) {
		std::mt19937 random(seed);
		std::vector<unsigned char> shadow = committed, part(BYTES);
		bool abort = random() % 4 == 0;
		auto body = [&](fur_update *tx) {
			for (int k = 0; k < 60; k++) {
				size_t at = random() % BYTES, n = random() % (BYTES - at) + 1,
				       from = random() % (BYTES - n + 1);
				unsigned few = static_cast<unsigned>(std::min<size_t>(n, 8));
				uint64_t value = random() * UINT64_C(0x9e3779b97f4a7c15);
				switch (random() % 5) {
				case 0:
					fur_store_bits(tx, bytes(at), value, few);
					memcpy(&shadow[at], &value, few);
					break;
				case 1:
					for (size_t b = 0; b < n; b++)
						shadow[at + b] =
						        static_cast<unsigned char>(value + b);
					fur_write(tx, bytes(at), &shadow[at], n);
					break;
				case 2:
					fur_write(tx, bytes(at), bytes(from), n);
					memmove(&shadow[at], &shadow[from], n);
					break;
				case 3:
					ASSERT_EQ(load(tx, bytes(at), few),
					        shadow_load(shadow, at, few));
					break;
				default:
					fur_read(tx, part.data(), bytes(at), n);
					ASSERT_EQ(memcmp(part.data(), &shadow[at], n), 0);
				}
			}
			if (abort)
				throw seed;
		};
		try {
			update(body);
			committed = shadow;
		} catch (unsigned) {
		}
		ASSERT_EQ(memcmp(bytes(), committed.data(), BYTES), 0) << "seed " << seed;
	}
}

TEST_P(OwnStores, PrivateMemory_IsLoadedAsItIs)
{
	uint64_t mine = 1, copy = 0;
	std::vector<unsigned char> more(100, 5), copies(100);
	update([&](fur_update *tx) {
		fur_store(tx, word(0), uint64_t(9));
		EXPECT_EQ(fur_load(tx, &mine), 1u);
		mine = 2;
		EXPECT_EQ(fur_load(tx, &mine), 2u) << "a plain store is seen at once";
		fur_read(tx, &copy, &mine, sizeof copy);
		EXPECT_EQ(copy, 2u);
		fur_read(tx, copies.data(), more.data(), more.size());
		EXPECT_TRUE(copies == more);
		fur_write(tx, word(1), &mine, sizeof mine);
		mine = 3;
		EXPECT_EQ(fur_load(tx, word(1)), 2u);
	});
	EXPECT_EQ(*word(1), 2u);
}

TEST_P(OwnStores, HundredThousandWords_AreFound)
{
	enum : uint64_t { MANY = 100000 };
	auto *many = fur::update(self_,
	        [](fur_update *tx) { return static_cast<uint64_t *>(fur_alloc(tx, MANY * 8)); });
	ASSERT_NE(many, nullptr);
	for (uint64_t round = 1; round <= 2; round++)
		update([&](fur_update *tx) {
			for (uint64_t k = 0; k < MANY; k++)
				fur_store(tx, &many[k], k * round);
			for (uint64_t k = 0; k < MANY; k += 2)
				fur_store(tx, &many[k], k + round);
			for (uint64_t k = 0; k < MANY; k++)
				ASSERT_EQ(fur_load(tx, &many[k]), k % 2 ? k * round : k + round);
		});
	for (uint64_t k = 0; k < MANY; k++)
		ASSERT_EQ(many[k], k % 2 ? k * 2 : k + 2);
	/* A small update after a large one. */
	update([&](fur_update *tx) {
		EXPECT_EQ(fur_load(tx, &many[7]), 14u);
		fur_store(tx, &many[7], uint64_t(0));
		EXPECT_EQ(fur_load(tx, &many[7]), 0u);
		EXPECT_EQ(fur_load(tx, &many[8]), 10u);
	});
}

/* The filter has 512 bits: with every second word of many stored, it is full, and the words in
 * between are to be found in the heap. */
TEST_P(OwnStores, WordsThatShareTheFiltersBit_AreToldApart)
{
	auto *many = fur::update(self_, [](fur_update *tx) {
		auto *p = static_cast<uint64_t *>(fur_alloc(tx, 8000 * 8));
		for (uint64_t k = 0; k < 8000; k++)
			fur_store(tx, &p[k], k);
		return p;
	});
	prefer_in_place(self_, false);
	update([&](fur_update *tx) {
		for (uint64_t k = 0; k < 8000; k++) {
			if (k % 2)
				fur_store(tx, &many[k], k + 1);
			ASSERT_EQ(fur_load(tx, &many[k ^ 1]), k % 2 ? k - 1 : k + 1);
			ASSERT_EQ(fur_load(tx, &many[k]), k + k % 2);
		}
	});
}

TEST_P(OwnStores, OfEarlierUpdates_AreForgotten)
{
	write_set &writes = self_.get()->software.writes;
	for (uint32_t generation : {uint32_t(7), UINT32_MAX - 5}) {
		/* Not back to a number whose entries may still be in the table. */
		if (writes.generation < generation)
			writes.generation = generation;
		for (uint64_t k = 1; k <= 40; k++) {
			other_sets(word(0), k);
			other_sets(word(1), k + 1);
			update([&](fur_update *tx) {
				EXPECT_EQ(fur_load(tx, word(0)), k);
				EXPECT_EQ(fur_load(tx, word(1)), k + 1);
				fur_store(tx, word(k % 2), uint64_t(1000) + k);
				EXPECT_EQ(fur_load(tx, word(k % 2)), 1000 + k);
				EXPECT_EQ(fur_load(tx, word(1 - k % 2)), k + 1 - k % 2);
			});
		}
	}
}

/* Entries of 2^32 updates ago would look like this one's. */
TEST(WriteSet, GenerationThatComesAgain_FindsNoOldEntry)
{
	write_set set{};
	std::vector<uint64_t> words(100);
	for (uint64_t &w : words)
		ASSERT_TRUE(write_put(&set, &w, 1, UINT64_MAX));
	ASSERT_EQ(set.generation, 1u);
	set.generation = UINT32_MAX;
	write_clear(&set);
	ASSERT_TRUE(write_put(&set, &words[0], 2, UINT64_MAX));
	const written *found = write_find(&set, &words[0]);
	ASSERT_NE(found, nullptr);
	EXPECT_EQ(found->value, 2u);
	for (size_t k = 1; k < words.size(); k++)
		EXPECT_EQ(write_find(&set, &words[k]), nullptr) << k;
	write_fini(&set);
}

TEST_P(OwnStores, OfUpdatesThatWereRolledBack_AreForgotten)
{
	for (int k = 0; k < 3; k++) {
		EXPECT_THROW(update([&](fur_update *tx) {
			EXPECT_EQ(fur_load(tx, word(0)), 0u);
			fur_store(tx, word(0), uint64_t(5));
			throw 1;
		}),
		        int);
		EXPECT_EQ(*word(0), 0u);
	}
	expect_sound();
}

TEST_P(OwnStores, RootsAndBlockSizes_AreSeen)
{
	update([&](fur_update *tx) {
		fur_set_root(tx, 5, word(3));
		EXPECT_EQ(fur_root(tx, 5), word(3));
		/* So large that its chunks are given their size by this update. */
		void *run = fur_alloc(tx, 200000);
		ASSERT_NE(run, nullptr);
		EXPECT_GE(fur_usable_bytes(tx, run), 200000u);
		fur_free(tx, run);
		void *again = fur_alloc(tx, 200000);
		EXPECT_EQ(again, run) << "what the update has freed, it may have again";
		fur_free(tx, again);
	});
	other_.run([&](fur_thread *) { EXPECT_EQ(root_at_rest(heap_, 5), word(3)); });
	expect_sound();
}

TEST_P(OwnStores, Memory_OfAnUpdateThatWasRolledBack_IsGivenBack)
{
	alloc_census before, after;
	ASSERT_EQ(alloc_check(heap_base(heap_), &before), 0);
	for (int k = 0; k < 200; k++)
		EXPECT_THROW(update([&](fur_update *tx) {
			for (size_t n : {16u, 100u, 5000u, 100000u})
				ASSERT_NE(fur_alloc(tx, n), nullptr) << k;
			throw 1;
		}),
		        int);
	ASSERT_EQ(alloc_check(heap_base(heap_), &after), 0) << fur_errormsg();
	EXPECT_EQ(after.blocks, before.blocks);
	expect_sound();
}

TEST_P(OwnStores, Promote_ChangesNothing)
{
	update([&](fur_update *tx) {
		fur_store(tx, bytes(3), static_cast<unsigned char>(7));
		fur_promote(tx, bytes(3));
		fur_promote(tx, bytes(4));
		EXPECT_EQ(fur_load(tx, bytes(3)), 7);
	});
	EXPECT_EQ(*word(0), UINT64_C(7) << 24);
}

INSTANTIATE_TEST_SUITE_P(
        Modes, OwnStores, ::testing::Values(TX_SERIAL, TX_CONCURRENT, TX_IN_PLACE), mode_name);

/* ------------------------------------------------------------------ errors */

class Errors : public EveryMode
{
protected:
	using EveryMode::EveryMode;
	/* The result of an update with this body. */
	template <class Body>
	int result(Body &&body)
	{
		try {
			update([&](fur_update *tx) {
				fur_store(tx, word(0), uint64_t(1));
				body(tx);
				fur_store(tx, word(1), uint64_t(1));
				/* Loads still find the update's own stores. */
				EXPECT_EQ(fur_load(tx, word(0)), 1u);
			});
		} catch (const fur::Error &e) {
			return e.code();
		}
		return 0;
	}
	void expect_nothing()
	{
		EXPECT_EQ(*word(0) | *word(1), 0u) << "a store is visible";
		EXPECT_EQ(other_gets(word(0)), 0u);
		expect_sound();
	}
};

TEST_P(Errors, StoreOutsideTheHeap)
{
	uint64_t outside = 5;
	EXPECT_EQ(
	        result([&](fur_update *tx) { fur_store(tx, &outside, uint64_t(6)); }), FUR_ERANGE);
	EXPECT_EQ(outside, 5u);
	expect_nothing();
	EXPECT_EQ(result([&](fur_update *tx) { fur_write(tx, &outside, word(0), 8); }), FUR_ERANGE);
	EXPECT_EQ(result([&](fur_update *tx) {
		fur_write(tx, static_cast<char *>(heap_base(heap_)) + heap_size(heap_) - 4, word(0),
		        8);
	}),
	        FUR_ERANGE);
	EXPECT_EQ(
	        result([&](fur_update *tx) { fur_set_root(tx, FUR_ROOTS, nullptr); }), FUR_ERANGE);
	EXPECT_EQ(outside, 5u);
	expect_nothing();
}

TEST_P(Errors, StoreBits_OfNoneOrMoreThan8Bytes)
{
	for (unsigned bytes : {0u, 9u, 100u})
		EXPECT_EQ(result([&](fur_update *tx) { fur_store_bits(tx, word(2), 1, bytes); }),
		        FUR_EINVAL);
	expect_nothing();
}

TEST_P(Errors, FreeOfNoBlock)
{
	EXPECT_EQ(result([&](fur_update *tx) { fur_free(tx, words_ + 1); }), FUR_EFREE);
	expect_nothing();
}

TEST_P(Errors, Abort)
{
	EXPECT_EQ(result([](fur_update *tx) {
		fur_update *inner;
		fur::check(fur_join_update(tx->thread, &inner));
		EXPECT_EQ(fur_abort(inner), FUR_EABORTED);
	}),
	        FUR_EABORTED);
	expect_nothing();
}

TEST_P(Errors, UpdateLargerThanTheLog)
{
	for (bool after_others : {false, true}) {
		/* With a log that has room for nothing but this update, and after a replay. */
		for (int k = 0; after_others && k < 100; k++)
			update([&](fur_update *tx) {
				for (unsigned n = 0; n < 32; n++)
					fur_store(tx, word(2 + n), uint64_t(k));
			});
		EXPECT_EQ(result([&](fur_update *tx) {
			for (uint64_t k = 0; k < 10000; k++)
				fur_store(tx, word(2 + k % 50), k);
		}),
		        FUR_ETOOBIG);
		EXPECT_NE(std::string(fur_errormsg()).find("--log-bytes"), std::string::npos);
		expect_nothing();
	}
}

/* A log of 4 KiB, and updates that fill half of it: every second one makes room in its body. */
TEST_P(Errors, FullLog_IsNone)
{
	std::string second = path_ + "-2";
	{
		fur::Options o = software_options();
		o.log_bytes = 4096;
		fur::Heap small = fur::Heap::create(second, o);
		fur::Thread t(small);
		auto *p = fur::update(t, [](fur_update *tx) {
			return static_cast<uint64_t *>(fur_alloc(tx, 256 * 8));
		});
		uint64_t shared = small.stats().lock_commits;
		for (uint64_t round = 1; round <= 300; round++) {
			/* The ring, of 64 slots, is also full more than once. */
			update_in(
			        GetParam(),
			        [&](fur_update *tx) {
				        for (uint64_t k = 0; k < 110; k++)
					        fur_store(tx, &p[k], round * k);
				        for (uint64_t k = 0; k < 110; k++)
					        ASSERT_EQ(fur_load(tx, &p[k]), round * k);
			        },
			        t);
			for (uint64_t k = 0; k < 110; k++)
				ASSERT_EQ(p[k], round * k);
		}
		EXPECT_GT(small.stats().replays, 100u);
		EXPECT_EQ(small.stats().lock_commits, shared + 300) << "none was run again";
		EXPECT_EQ(small.stats().defeats, 0u);
	}
	unlink(second.c_str());
}

TEST_P(Errors, RingOfFewSlots_IsNone)
{
	/* Others take slots while the body is open. */
	for (uint64_t round = 1; round <= 5; round++)
		update([&](fur_update *tx) {
			if (tx->mode == TX_CONCURRENT)
				other_.run([&](fur_thread *t) {
					for (uint64_t k = 0; k < 100; k++)
						set(t, word(2), k);
				});
			fur_store(tx, word(0), round);
		});
	EXPECT_EQ(*word(0), 5u);
	expect_sound();
}

INSTANTIATE_TEST_SUITE_P(
        Modes, Errors, ::testing::Values(TX_SERIAL, TX_CONCURRENT, TX_IN_PLACE), mode_name);

/* ---------------------------------------------------------- a disk that fails */

class DiskFails : public EveryMode
{
protected:
	DiskFails() : EveryMode(options()) {}
	~DiskFails() override
	{
		sync_fails = false;
	}
	static fur::Options options()
	{
		fur::Options o = software_options();
		o.pm = FUR_PM_SYNC;
		o.log_bytes = 8192;
		return o;
	}
	void expect_refused_and_free()
	{
		const engine &e = heap_.get()->engine;
		EXPECT_EQ(e.lock.taken, 0u);
		EXPECT_EQ(e.lock.shut, 0u);
		for (uint64_t i = 0; i < e.durability->limit; i++)
			EXPECT_EQ(e.active[i].seq, 0u) << i;
		auto refused = [](fur_thread *t) {
			fur_update *tx;
			fur_ro *ro;
			EXPECT_EQ(fur_begin_update(t, &tx), FUR_EIO);
			EXPECT_EQ(fur_begin_ro(t, &ro), FUR_EIO);
			EXPECT_EQ(run_in_c(t, [](fur_update *) { ADD_FAILURE(); }), FUR_EIO);
		};
		refused(self_);
		other_.run(refused);
	}
	template <class Body>
	int result(Body &&body)
	{
		try {
			update(body);
		} catch (const fur::Error &e) {
			return e.code();
		}
		return 0;
	}
};

TEST_P(DiskFails, AtTheCommit_TheUpdateIsVisible_AndTheTurnGivenBack)
{
	EXPECT_EQ(result([&](fur_update *tx) {
		fur_store(tx, word(0), uint64_t(1));
		sync_fails = true;
	}),
	        FUR_EIO);
	EXPECT_EQ(*word(0), 1u) << "as fur.h says";
	expect_refused_and_free();
}

TEST_P(DiskFails, InTheBody_WhichWaitsForRoom_NothingIsVisible)
{
	update([&](fur_update *tx) {
		for (unsigned k = 0; k < 40; k++)
			fur_store(tx, word(1 + k), uint64_t(k));
	});
	uint64_t replays = heap_.stats().replays;
	EXPECT_EQ(result([&](fur_update *tx) {
		fur_store(tx, word(0), uint64_t(1));
		sync_fails = true;
		for (unsigned k = 0; k < 400; k++)
			fur_store(tx, word(1 + k % 40), uint64_t(99));
	}),
	        FUR_EIO);
	EXPECT_EQ(*word(0), 0u);
	EXPECT_EQ(*word(39), 38u);
	EXPECT_EQ(heap_.stats().replays, replays);
	expect_refused_and_free();
}

TEST_F(Software, DiskThatFails_IsToldToABodyThatIsOpen)
{
	std::string second = path_ + "-2";
	{
		fur::Options o = software_options();
		o.pm = FUR_PM_SYNC;
		fur::Heap disk = fur::Heap::create(second, o);
		Helper helper(disk);
		helper.run([](fur_thread *) {});
		fur::Thread t(disk);
		auto *p = fur::update(t, [](fur_update *tx) { return fur::make<uint64_t>(tx); });
		int runs = 0, others = 0;
		EXPECT_EQ(run_in_c(t,
		                  [&](fur_update *tx) {
			                  runs++;
			                  (void)fur_load(tx, p);
			                  if (runs > 1)
				                  return;
			                  helper.run([&](fur_thread *u) {
				                  fur_update *theirs;
				                  fur::check(fur_begin_update(u, &theirs));
				                  fur_store(theirs, p, uint64_t(7));
				                  sync_fails = true;
				                  others = fur_commit(theirs, nullptr);
			                  });
		                  }),
		        FUR_EIO)
		        << "its read need not have met the other, but the heap has failed";
		EXPECT_EQ(others, FUR_EIO);
		EXPECT_EQ(runs, 1);
		sync_fails = false;
	}
	unlink(second.c_str());
}

INSTANTIATE_TEST_SUITE_P(
        Modes, DiskFails, ::testing::Values(TX_SERIAL, TX_CONCURRENT, TX_IN_PLACE), mode_name);

/* ------------------------------------------------------------------ no memory */

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
class NoMemory : public HeapFile
{
protected:
	enum : uint64_t { WORDS = 1 << 20, PIECE = 1 << 18 };

	void SetUp() override
	{
#if defined(__powerpc64__) || defined(__aarch64__)
		GTEST_SKIP() << "user-mode emulation does not keep RLIMIT_AS, and nothing tells it "
		                "from a processor";
#endif
		HeapFile::SetUp();
	}

	/* In a child, with a new heap: less than PIECE is left for each allocation. */
	template <class Body>
	void with_no_memory(Body body)
	{
		in_killed_child([&] {
			fur::Options o = software_options();
			o.heap_bytes = 32 << 20;
			o.log_bytes = 64 << 20;
			auto *heap = new fur::Heap(create(o));
			fur::Thread self(*heap);
			auto *p = fur::update(self, [](fur_update *tx) {
				auto *q = static_cast<uint64_t *>(fur_alloc(tx, WORDS * 8));
				fur_store(tx, q, uint64_t(0));
				return q;
			});
			size_t used = address_space();
			rlimit limit = {used, RLIM_INFINITY};
			ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
			while (void *piece = malloc(PIECE)) {
				*static_cast<void **>(piece) = pieces_;
				pieces_ = piece;
			}
			body(*heap, self, p);
		});
	}
	void free_memory()
	{
		while (void *piece = pieces_) {
			pieces_ = *static_cast<void **>(piece);
			free(piece);
		}
	}
	/* The update has failed, and has stored to p[0], p[1] ... as far as there was memory for
	 * its write set. */
	void expect_own_words(fur_update *tx, uint64_t *p)
	{
		const write_set &set = tx->thread->software.writes;
		const uint32_t n = set.n;
		ASSERT_GT(n, 1u);
		EXPECT_EQ(n, set.most);
		fur_store(tx, p, uint64_t(7));
		EXPECT_EQ(fur_load(tx, p), 7u);
		fur_store_bits(tx, reinterpret_cast<uint8_t *>(&p[1]) + 6, 0xabcd, 2);
		EXPECT_EQ(fur_load(tx, &p[1]), 0xabcd000000000001u);
		/* The first half of the store has an entry; then the second. */
		const uint64_t two[] = {8, 9};
		fur_write(tx, &p[n - 1], two, sizeof two);
		EXPECT_EQ(fur_load(tx, &p[n - 1]), 8u);
		fur_write(tx, p - 1, two, sizeof two);
		EXPECT_EQ(fur_load(tx, p), 9u);
		/* It does not try for memory again. */
		free_memory();
		fur_store(tx, &p[n], uint64_t(10));
		EXPECT_EQ(write_find(&set, &p[n]), nullptr);
		EXPECT_EQ(set.most, n);
	}
	static size_t address_space()
	{
		size_t pages = 0;
		std::ifstream("/proc/self/statm") >> pages;
		return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
	}

private:
	void *pieces_ = nullptr;
};

class NoMemoryInMode : public NoMemory, public ::testing::WithParamInterface<tx_mode>
{
};

TEST_P(NoMemoryInMode, ForMoreStores_WordsThatWereStoredToTakeNewValues)
{
	with_no_memory([this](fur::Heap &, fur_thread *self, uint64_t *p) {
		auto body = [this, p](fur_update *tx) {
			ASSERT_EQ(tx->mode, GetParam());
			/* In place, only an update that has failed needs the memory. */
			if (tx->mode == TX_IN_PLACE)
				fur_store_bits(tx, p + 1, 0, 0);
			for (uint64_t k = 1; k < WORDS; k++)
				fur_store(tx, p + k, uint64_t(1));
			EXPECT_EQ(fur_update_error(tx),
			        tx->mode == TX_IN_PLACE ? FUR_EINVAL : FUR_ENOMEM);
			expect_own_words(tx, p + 1);
		};
		prefer_in_place(self, GetParam() == TX_IN_PLACE);
		if (GetParam() == TX_CONCURRENT) {
			EXPECT_EQ(run_in_c(self, body), FUR_ENOMEM);
		} else {
			fur_update *tx;
			ASSERT_EQ(fur_begin_update(self, &tx), 0);
			body(tx);
			EXPECT_NE(fur_commit(tx, nullptr), 0);
		}
		EXPECT_EQ(std::count(p, p + WORDS, 0), WORDS) << "it has left no trace";
		prefer_in_place(self, false);
		fur::update(self, [p](fur_update *tx) { fur_store(tx, p, uint64_t(3)); });
		EXPECT_EQ(*p, 3u);
		EXPECT_FALSE(self->software.writes.no_memory) << "the next one may grow again";
	});
}

INSTANTIATE_TEST_SUITE_P(
        Modes, NoMemoryInMode, ::testing::Values(TX_SERIAL, TX_CONCURRENT, TX_IN_PLACE), mode_name);

TEST_F(NoMemory, ForMoreLoads_TheBodyRunsSerially)
{
	with_no_memory([](fur::Heap &heap, fur_thread *self, uint64_t *p) {
		std::vector<tx_mode> modes;
		uint64_t ends = 0;
		modes.reserve(8);
		EXPECT_EQ(run_in_c(self,
		                  [&](fur_update *tx) {
			                  modes.push_back(tx->mode);
			                  fur_store(tx, p, uint64_t(1));
			                  for (uint64_t k = 0; k < WORDS; k++)
				                  (void)fur_load(tx, &p[k]);
			                  ends++;
		                  }),
		        0);
		EXPECT_EQ(modes, (std::vector<tx_mode>{TX_CONCURRENT, TX_SERIAL}));
		EXPECT_EQ(ends, 1u);
		EXPECT_EQ(*p, 1u);
		EXPECT_EQ(heap.stats().serial_commits, 2u);
	});
}

TEST_F(NoMemory, ForMoreStores_TheUpdateIsRolledBack)
{
	with_no_memory([](fur::Heap &heap, fur_thread *self, uint64_t *p) {
		auto body = [&](fur_update *tx) {
			for (uint64_t k = 0; k < WORDS; k++)
				fur_store(tx, &p[k], uint64_t(1));
		};
		EXPECT_EQ(run_in_c(self, body), FUR_ENOMEM);
		EXPECT_EQ(*p, 0u);
		fur_update *tx;
		ASSERT_EQ(fur_begin_update(self, &tx), 0);
		body(tx);
		EXPECT_EQ(fur_commit(tx, nullptr), FUR_ENOMEM);
		EXPECT_EQ(*p, 0u);
		fur::update(self, [&](fur_update *u) { fur_store(u, p, uint64_t(3)); });
		EXPECT_EQ(*p, 3u);
		EXPECT_EQ(heap.get()->engine.lock.taken, 0u);
	});
}
#endif

/* ------------------------------------------------- threads that leave their update */

using Leave = void (*)();

struct Leaver {
	fur_heap *heap;
	uint64_t *word;
	tx_mode mode;
	Leave leave;
	bool with_exceptions;
};

[[gnu::noinline]] void leave_an_update(const Leaver *l)
{
	fur_thread *t;
	fur::check(fur_thread_register(l->heap, nullptr, &t));
	prefer_in_place(t, l->mode == TX_IN_PLACE);
	auto body = [&](fur_update *tx) {
		EXPECT_EQ(tx->mode, l->mode);
		fur_store(tx, l->word, uint64_t(99));
		(void)fur_load(tx, l->word + 1);
		l->leave();
	};
	if (l->mode != TX_CONCURRENT && l->with_exceptions)
		fur::update(t, body);
	else if (l->mode != TX_CONCURRENT) {
		fur_update *tx;
		fur::check(fur_begin_update(t, &tx));
		body(tx);
	} else if (l->with_exceptions) {
		fur::update(t, fur::rerun, body);
	} else {
		(void)!run_in_c(t, body);
	}
}

void *leaver(void *argument)
{
	leave_an_update(static_cast<const Leaver *>(argument));
	return nullptr;
}

class Leaving : public EveryMode
{
protected:
	void expect_rolled_back(Leave leave, void *expected)
	{
#if defined(__SANITIZE_ADDRESS__)
		GTEST_SKIP()
		        << "the sanitizer does not see that the variables of the functions that "
		           "such a thread leaves are gone";
#endif
		for (bool with_exceptions : {false, true}) {
			Leaver l{heap_, word(0), GetParam(), leave, with_exceptions};
			pthread_t thread;
			void *result;
			ASSERT_EQ(pthread_create(&thread, nullptr, leaver, &l), 0);
			pthread_join(thread, &result);
			EXPECT_EQ(result, expected);
			EXPECT_EQ(*word(0), 0u);
			expect_sound();
			EXPECT_EQ(heap_.stats().threads, 2u);
		}
	}
};

TEST_P(Leaving, ThreadThatExits)
{
	expect_rolled_back([] { pthread_exit(nullptr); }, nullptr);
}

TEST_P(Leaving, ThreadThatIsCancelled)
{
	expect_rolled_back(
	        [] {
		        pthread_cancel(pthread_self());
		        pthread_testcancel();
	        },
	        PTHREAD_CANCELED);
}

TEST_P(Leaving, Exception_ReachesTheCaller)
{
	for (int k = 0; k < 3; k++) {
		try {
			update([&](fur_update *tx) {
				fur_store(tx, word(0), uint64_t(99));
				throw std::string("mine");
			});
			ADD_FAILURE();
		} catch (const std::string &e) {
			EXPECT_EQ(e, "mine");
		}
		EXPECT_EQ(*word(0), 0u);
		expect_sound();
	}
}

INSTANTIATE_TEST_SUITE_P(
        Modes, Leaving, ::testing::Values(TX_SERIAL, TX_CONCURRENT, TX_IN_PLACE), mode_name);

/* As fur.h says: it stays open, and others wait. */
TEST_F(Software, SerialUpdate_LeftByLongjmp_StaysOpen)
{
	static jmp_buf out;
	fur_update *tx;
	ASSERT_EQ(fur_begin_update(self_, &tx), 0);
	if (setjmp(out) == 0) {
		fur_store(self_.get()->update.depth ? &self_.get()->update : nullptr, word(0),
		        uint64_t(1));
		longjmp(out, 1);
	}
	EXPECT_EQ(other_gets(word(0)), 0u) << "readers go on, and see nothing of it";
	std::atomic<bool> done{false};
	other_.start([&](fur_thread *t) {
		set(t, word(1), 1);
		done = true;
	});
	EXPECT_EQ(fur_begin_update(self_, &tx), FUR_ENESTED);
	EXPECT_EQ(fur_join_update(self_, &tx), 0) << fur_errormsg();
	EXPECT_EQ(fur_load(tx, word(0)), 1u);
	EXPECT_EQ(fur_commit(tx, nullptr), 0);
	EXPECT_EQ(*word(0), 0u);
	EXPECT_EQ(fur_thread_unregister(self_), FUR_EBUSY);
	EXPECT_FALSE(done) << "it waits for the turn";
	EXPECT_EQ(fur_abort(tx), FUR_EABORTED);
	other_.finish();
	EXPECT_EQ(*word(0), 0u);
	EXPECT_EQ(*word(1), 1u);
	expect_sound();
}

} // namespace
