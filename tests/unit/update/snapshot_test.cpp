/* SPDX-License-Identifier: BSD-3-Clause
 *
 * snapshot_test.cpp - snapshots show one state of the heap, however updates store afterwards.
 */
#include "software.hpp"

#include <fur/bulk.hpp>
#include <fur/ordered_map.hpp>
#include <numeric>
#include <random>
#include <sys/wait.h>

namespace
{

class Snapshots : public Software
{
protected:
	Snapshots() = default;
	explicit Snapshots(const fur_options &o) : Software(o) {}

	uint64_t see(const fur::Snapshot &snapshot, const uint64_t *at, fur_thread *t = nullptr)
	{
		return snapshot.read(
		        t ? t : self_.get(), [&](fur_reader *tx) { return fur_load(tx, at); });
	}
	/* All words by one fur_read(). */
	uint64_t other_sees(const fur::Snapshot &snapshot, const uint64_t *at)
	{
		uint64_t value = 0;
		other_.run([&](fur_thread *t) { value = see(snapshot, at, t); });
		return value;
	}
	std::vector<uint64_t> see_all(const fur::Snapshot &snapshot)
	{
		std::vector<uint64_t> all(WORDS);
		snapshot.read(self_,
		        [&](fur_reader *tx) { fur_read(tx, all.data(), words_, WORDS * 8); });
		return all;
	}
	void set_all(tx_mode mode, uint64_t value, fur_thread *t = nullptr)
	{
		update_in(
		        mode,
		        [&](fur_update *tx) {
			        for (unsigned k = 0; k < WORDS; k++)
				        fur_store(tx, words_ + k, value);
		        },
		        t);
	}
	fur_stats stats()
	{
		fur_stats s = {};
		s.size = sizeof s;
		EXPECT_EQ(fur_get_stats(heap_, &s), 0);
		return s;
	}
	static std::vector<uint64_t> all_of(uint64_t value)
	{
		return std::vector<uint64_t>(WORDS, value);
	}
};

class SnapshotsInEveryMode : public Snapshots, public ::testing::WithParamInterface<tx_mode>
{
};

TEST_P(SnapshotsInEveryMode, UpdatesChangeNothingThatASnapshotShows)
{
	set_all(GetParam(), 1);
	fur::Snapshot first(self_);
	EXPECT_EQ(see_all(first), all_of(1));
	set_all(GetParam(), 2);
	fur::Snapshot second(self_);
	update_in(GetParam(), [&](fur_update *tx) { fur_store(tx, word(3), UINT64_C(3)); });
	update_in(GetParam(), [&](fur_update *tx) { fur_store(tx, word(3), UINT64_C(4)); });
	EXPECT_EQ(see_all(first), all_of(1));
	EXPECT_EQ(see_all(second), all_of(2));
	for (unsigned k = 0; k < WORDS; k++) {
		EXPECT_EQ(see(first, words_ + k), 1u) << k;
		EXPECT_EQ(see(second, words_ + k), 2u) << k;
	}
	EXPECT_EQ(get(self_, word(3)), 4u);
}

TEST_P(SnapshotsInEveryMode, AnUpdateThatRollsBack_LeavesTheSnapshotAsItWas)
{
	set_all(GetParam(), 1);
	fur::Snapshot snapshot(self_);
	try {
		update_in(GetParam(), [&](fur_update *tx) {
			fur_store(tx, word(0), UINT64_C(2));
			EXPECT_EQ(other_sees(snapshot, word(0)), 1u);
			fur_store(tx, word(1), UINT64_C(2));
			throw std::runtime_error("rolled back");
		});
	} catch (const std::runtime_error &) {
	}
	EXPECT_EQ(see_all(snapshot), all_of(1));
	set_all(GetParam(), 3);
	EXPECT_EQ(see_all(snapshot), all_of(1));
	EXPECT_EQ(get(self_, word(0)), 3u);
}

TEST_P(SnapshotsInEveryMode, AnOpenUpdateIsNotVisible_AndDoesNotMakeReadersWait)
{
	set_all(GetParam(), 1);
	fur::Snapshot snapshot(self_);
	update_in(GetParam(), [&](fur_update *tx) {
		fur_store(tx, word(0), UINT64_C(2));
		EXPECT_EQ(other_sees(snapshot, word(0)), 1u);
	});
	EXPECT_EQ(see(snapshot, word(0)), 1u);
}

TEST_P(SnapshotsInEveryMode, ABodyThatSleeps_StopsNoUpdate)
{
	set_all(GetParam(), 1);
	fur::Snapshot snapshot(self_);
	snapshot.read(self_, [&](fur_reader *tx) {
		EXPECT_EQ(fur_load(tx, word(0)), 1u);
		other_.run([&](fur_thread *t) { set_all(GetParam(), 2, t); });
		for (unsigned k = 0; k < WORDS; k++)
			EXPECT_EQ(fur_load(tx, words_ + k), 1u) << k;
	});
	EXPECT_EQ(get(self_, word(0)), 2u);
}

/* Images of one segment: 512 lines. */
class SnapshotsOfLittleMemory : public Snapshots
{
protected:
	SnapshotsOfLittleMemory() : Snapshots(little_memory()) {}
	static fur::Options little_memory()
	{
		fur::Options o = software_options();
		o.snapshot_bytes = 1;
		return o;
	}
};

TEST_F(SnapshotsOfLittleMemory, ASnapshotBeginsWithoutTheImagesOfRevokedOnes)
{
	enum { LINES = 600, LINE_WORDS = 8 };
	uint64_t *many = nullptr;
	fur::update(self_, [&](fur_update *tx) {
		many = static_cast<uint64_t *>(fur_alloc(tx, LINES * LINE_WORDS * 8));
	});
	set_all(TX_SERIAL, 1);
	fur::Snapshot revoked(self_);
	update_in(TX_SERIAL, [&](fur_update *tx) {
		for (unsigned k = 0; k < LINES; k++)
			fur_store(tx, many + k * LINE_WORDS, UINT64_C(1));
	});
	ASSERT_EQ(stats().snapshots_revoked, 1u);
	fur::Snapshot second(self_);
	set_all(TX_SERIAL, 2);
	EXPECT_EQ(see_all(second), all_of(1));
	EXPECT_EQ(stats().snapshots_revoked, 1u);
}

INSTANTIATE_TEST_SUITE_P(, SnapshotsInEveryMode,
        ::testing::Values(TX_IN_PLACE, TX_SERIAL, TX_CONCURRENT), mode_name);

/* ----------------------------------------------- stores that hold no stamps */

/* The chunks of a large block that the snapshot sees are given back, and filled as fresh memory. */
TEST_F(Snapshots, FreshMemory_LeavesTheBlockThatTheSnapshotSees)
{
	constexpr size_t BYTES = 100000;
	uint8_t *old = block_in_root(self_, BYTES, 0xaa);
	fur::Snapshot snapshot(self_);
	const auto sees = [&] {
		std::vector<uint8_t> all(BYTES);
		snapshot.read(self_, [&](fur_reader *tx) { fur_read(tx, all.data(), old, BYTES); });
		return all == std::vector<uint8_t>(BYTES, 0xaa);
	};
	EXPECT_TRUE(sees());
	fur::update(self_, [&](fur_update *tx) { fur_free(tx, old); });
	EXPECT_TRUE(sees());
	/* Until a block has the same place. */
	for (uint8_t value = 1; value < 40; value++) {
		uint8_t *block = block_in_root(self_, BYTES, value);
		EXPECT_TRUE(sees()) << int(value);
		if (block == old)
			return;
	}
	FAIL() << "no block took the place";
}

/* A bulk update's results reach the heap past the stamps, and the file past the log. */
TEST_F(Snapshots, BulkUpdates_ChangeNothingThatASnapshotShows)
{
	for (auto atomic : {FUR_BULK_WHOLE, FUR_BULK_EACH}) {
		set_all(TX_SERIAL, 1);
		fur::Snapshot snapshot(self_);
		const fur_extent all[] = {{words_, 8, WORDS}};
		fur_bulk job;
		fur_bulk_init(&job);
		job.map = [](void *copy, size_t, uint64_t, void *) {
			*static_cast<uint64_t *>(copy) = 5;
			return true;
		};
		job.bytes = 8;
		job.extents = all;
		job.n = 1;
		job.atomic = atomic;
		ASSERT_EQ(fur_bulk_run(self_, &job, nullptr), 0) << fur_errormsg();
		EXPECT_EQ(get(self_, word(0)), 5u);
		EXPECT_EQ(see_all(snapshot), all_of(1));
		for (unsigned k = 0; k < WORDS; k++)
			EXPECT_EQ(see(snapshot, words_ + k), 1u) << k;
	}
}

/* An update in software that turns into one in place, because a plain reader joins it. */
TEST_F(Snapshots, ReaderThatJoinsAnUpdate_LeavesTheSnapshotAsItWas)
{
	set_all(TX_SERIAL, 1);
	fur::Snapshot snapshot(self_);
	update_in(TX_CONCURRENT, [&](fur_update *tx) {
		fur_store(tx, word(0), UINT64_C(2));
		fur::join_read(self_, [&](fur_ro *ro) { EXPECT_EQ(fur_load(ro, word(0)), 2u); });
		fur_store(tx, word(1), UINT64_C(2));
	});
	EXPECT_EQ(see_all(snapshot), all_of(1));
}

/* Two words in one line, changed by updates that publish beside each other. */
TEST_F(Snapshots, UpdatesBesideEachOther_ChangeNothingThatASnapshotShows)
{
	set_all(TX_SERIAL, 1);
	let_updates_in();
	fur::Snapshot snapshot(self_);
	for (int k = 0; k < 3; k++) {
		let_updates_in();
		update_in(TX_CONCURRENT,
		        [&](fur_update *tx) { fur_store(tx, word(0), UINT64_C(2)); });
		other_.run([&](fur_thread *t) {
			update_in(
			        TX_CONCURRENT,
			        [&](fur_update *tx) { fur_store(tx, word(0) + 1, UINT64_C(3)); },
			        t);
		});
	}
	EXPECT_EQ(see_all(snapshot), all_of(1));
	expect_sound();
}

/* An update in place leaves no version: the snapshot must not take a later store for an old one. */
TEST_F(Snapshots, LineThatIsStoredToInPlaceOnly_IsFoundInImages)
{
	set_all(TX_SERIAL, 1);
	set_all(TX_CONCURRENT, 1, self_); /* later durTSs */
	fur::Snapshot snapshot(self_);
	EXPECT_EQ(see(snapshot, word(0)), 1u) << "so that its bound is set";
	snapshot.read(self_, [&](fur_reader *tx) {
		EXPECT_EQ(fur_load(tx, word(5)), 1u);
		other_.run([&](fur_thread *t) { set_all(TX_IN_PLACE, 2, t); });
		for (unsigned k = 0; k < WORDS; k++)
			EXPECT_EQ(fur_load(tx, words_ + k), 1u) << k;
	});
}

/* -------------------------------------------------------------- what it shows */

TEST_F(Snapshots, ManyAtATime_EachShowsItsOwn)
{
	std::vector<fur::Snapshot> all;
	for (unsigned k = 0; k < SNAPSHOTS_MOST; k++) {
		all.emplace_back(self_);
		set(self_, word(k % 3), k + 1);
	}
	fur_snapshot *one_more;
	EXPECT_EQ(fur_snapshot_begin(self_, &one_more), FUR_EBUSY);
	EXPECT_EQ(one_more, nullptr);
	std::vector<size_t> order(all.size());
	std::iota(order.begin(), order.end(), 0);
	std::shuffle(order.begin(), order.end(), std::mt19937(7));
	std::array<uint64_t, 3> state{};
	std::vector<std::array<uint64_t, 3>> states;
	for (unsigned k = 0; k < SNAPSHOTS_MOST; k++) {
		states.push_back(state);
		state[k % 3] = k + 1;
	}
	/* Also after others have ended, in any order. */
	for (size_t ended : order) {
		for (size_t k = 0; k < all.size(); k++)
			for (unsigned w = 0; w < 3 && all[k].get(); w++)
				ASSERT_EQ(see(all[k], word(w)), states[k][w])
				        << "snapshot " << k << ", word " << w;
		fur::Snapshot end(std::move(all[ended]));
	}
	EXPECT_EQ(stats().snapshots, 0u);
	EXPECT_EQ(stats().snapshot_bytes, 0u);
	expect_sound();
}

TEST_F(Snapshots, ContainersAreReadInASnapshot)
{
	auto *map = fur::update(self_, [&](fur_update *tx) {
		auto *m = fur::make<fur::ordered_map<uint64_t, uint64_t>>(tx);
		for (uint64_t k = 0; k < 300; k++)
			m->insert_or_assign(tx, k, k);
		return m;
	});
	fur::Snapshot snapshot(self_);
	std::mt19937_64 random(3);
	for (unsigned round = 0; round < 200; round++) {
		const uint64_t key = random() % 600;
		prefer_in_place(self_, round % 3 == 0);
		auto change = [&](fur_update *tx) {
			if (round % 2)
				map->insert_or_assign(tx, key, 7);
			else
				map->erase(tx, key);
		};
		if (round % 3 == 1)
			fur::update(self_, fur::rerun, change);
		else
			fur::update(self_, change);
	}
	const uint64_t n = snapshot.read(self_, [&](fur_reader *tx) {
		uint64_t next = 0;
		for (auto [key, value] : map->in(tx)) {
			EXPECT_EQ(key, next);
			EXPECT_EQ(value, next);
			next++;
		}
		return next;
	});
	EXPECT_EQ(n, 300u);
}

/* ------------------------------------------------------------------ durability */

TEST_F(Snapshots, Begin_WaitsUntilWhatItShowsIsDurable)
{
	fur_ticket ticket;
	fur::update(self_, fur::rerun, ticket,
	        [&](fur_update *tx) { fur_store(tx, word(0), UINT64_C(9)); });
	fur::Snapshot snapshot(self_);
	EXPECT_EQ(see(snapshot, word(0)), 9u);
	const auto &async = heap_.get()->engine.durability->async;
	EXPECT_GE(async.durable, async.newest) << "the late update is not flushed";
}

/* ---------------------------------------------------------------------- memory */

class FewImages : public Snapshots
{
protected:
	FewImages() : Snapshots(few()) {}
	static fur::Options few()
	{
		fur::Options o = software_options();
		o.heap_bytes = 4 << 20;
		o.snapshot_bytes = 1; /* libfur takes the least that it can use: 512 lines */
		return o;
	}
	/* Stores to `lines` lines of a block of their own. */
	void fill(uint64_t *block, unsigned lines, uint64_t value, tx_mode mode)
	{
		for (unsigned k = 0; k < lines; k += 50)
			update_in(mode, [&](fur_update *tx) {
				for (unsigned i = k; i < k + 50 && i < lines; i++)
					fur_store(tx, &block[8 * i], value);
			});
	}
	uint64_t *block_ = reinterpret_cast<uint64_t *>(block_in_root(self_, 64 * 1024, 0));
};

class Revocation : public FewImages, public ::testing::WithParamInterface<tx_mode>
{
};

TEST_P(Revocation, OldestSnapshotMakesRoom)
{
	fur::Snapshot first(self_);
	fill(block_, 400, 1, GetParam());
	fur::Snapshot second(self_);
	EXPECT_EQ(see(first, block_), 0u);
	EXPECT_EQ(see(second, block_), 1u);
	fill(block_, 400, 2, GetParam());
	EXPECT_EQ(stats().snapshots_revoked, 1u);
	EXPECT_EQ(see(second, block_), 1u);
	try {
		see(first, block_);
		ADD_FAILURE() << "it shows what it cannot know";
	} catch (const fur::Error &e) {
		EXPECT_EQ(e.code(), FUR_ETOOOLD) << e.what();
	}
	fill(block_, 1000, 3, GetParam());
	EXPECT_EQ(stats().snapshots_revoked, 2u);
	EXPECT_THROW(see(second, block_), fur::Error);
	/* It is no matter in which order they end, and a new one has room. */
	fur::Snapshot third(self_);
	fill(block_, 300, 4, GetParam());
	EXPECT_EQ(see(third, block_), 3u);
	expect_sound();
}

/* In the middle of a body, which has set its bound, and may sit on a line that is its last. */
TEST_P(Revocation, BodyIsLeftAtItsNextLoad)
{
	fur::Snapshot snapshot(self_);
	bool after = false, destroyed = false;
	struct Note {
		bool *to;
		~Note()
		{
			*to = true;
		}
	};
	try {
		snapshot.read(self_, [&](fur_reader *tx) {
			Note note{&destroyed};
			EXPECT_EQ(fur_load(tx, block_), 0u);
			other_.run([&](fur_thread *t) {
				for (unsigned k = 0; k < 1000; k += 50)
					update_in(
					        GetParam(),
					        [&](fur_update *u) {
						        for (unsigned i = k; i < k + 50; i++)
							        fur_store(u, &block_[8 * i],
							                UINT64_C(1));
					        },
					        t);
			});
			for (unsigned k = 0; k < 1000; k++)
				EXPECT_EQ(fur_load(tx, &block_[8 * k]), 0u) << k;
			after = true;
		});
		ADD_FAILURE() << "the body went on";
	} catch (const fur::Error &e) {
		EXPECT_EQ(e.code(), FUR_ETOOOLD);
	}
	EXPECT_TRUE(destroyed);
	EXPECT_FALSE(after);
	expect_sound();
}

INSTANTIATE_TEST_SUITE_P(
        , Revocation, ::testing::Values(TX_IN_PLACE, TX_SERIAL, TX_CONCURRENT), mode_name);

TEST_F(FewImages, MemoryIsGivenBackAfterTheLastSnapshot)
{
	{
		fur::Snapshot snapshot(self_);
		fill(block_, 300, 1, TX_CONCURRENT);
		EXPECT_EQ(stats().snapshot_bytes, 512u * 72);
		EXPECT_EQ(stats().saved_lines, 300u);
		EXPECT_EQ(stats().snapshots, 1u);
	}
	EXPECT_EQ(stats().snapshot_bytes, 0u);
	EXPECT_EQ(stats().snapshots, 0u);
	fill(block_, 300, 2, TX_CONCURRENT);
	EXPECT_EQ(stats().saved_lines, 300u) << "an update saves while no snapshot is open";
}

TEST_F(FewImages, ALineIsSavedOnceForEachSnapshot)
{
	fur::Snapshot first(self_);
	for (uint64_t k = 0; k < 5; k++)
		fill(block_, 10, k, TX_CONCURRENT);
	EXPECT_EQ(stats().saved_lines, 10u);
	fur::Snapshot second(self_);
	for (uint64_t k = 0; k < 5; k++)
		fill(block_, 10, k, TX_IN_PLACE);
	EXPECT_EQ(stats().saved_lines, 20u);
}

/* ---------------------------------------------------------------------- misuse */

TEST_F(Snapshots, Misuse_IsRefused)
{
	fur_snapshot *s;
	EXPECT_EQ(fur_snapshot_begin(nullptr, &s), FUR_EINVAL);
	EXPECT_EQ(fur_snapshot_begin(self_, nullptr), FUR_EINVAL);
	EXPECT_EQ(fur_snapshot_end(nullptr), FUR_EINVAL);
	fur::Snapshot snapshot(self_);
	const auto nothing = [](fur_reader *, void *) {};
	EXPECT_EQ(fur_snapshot_run(nullptr, snapshot.get(), nothing, nullptr, nullptr), FUR_EINVAL);
	EXPECT_EQ(fur_snapshot_run(self_, nullptr, nothing, nullptr, nullptr), FUR_EINVAL);
	EXPECT_EQ(fur_snapshot_run(self_, snapshot.get(), nullptr, nullptr, nullptr), FUR_EINVAL);
	fur_heap *heap = heap_.get();
	EXPECT_EQ(fur_close(heap), FUR_EBUSY) << fur_errormsg();
	fur::read(self_, [&](fur_ro *) {
		fur_snapshot *inner;
		EXPECT_EQ(fur_snapshot_begin(self_, &inner), FUR_ENESTED);
		EXPECT_EQ(fur_snapshot_run(self_, snapshot.get(), nothing, nullptr, nullptr),
		        FUR_ENESTED);
		EXPECT_EQ(fur_snapshot_end(snapshot.get()), FUR_ENESTED);
	});
	snapshot.read(self_, [&](fur_reader *) {
		fur_ro *ro;
		fur_update *tx;
		EXPECT_EQ(fur_join_ro(self_, &ro), FUR_ENESTED);
		EXPECT_EQ(fur_begin_ro(self_, &ro), FUR_ENESTED);
		EXPECT_EQ(fur_begin_update(self_, &tx), FUR_ENESTED);
		other_.run([&](fur_thread *) {
			EXPECT_EQ(fur_snapshot_end(snapshot.get()), FUR_EBUSY);
		});
	});
	expect_sound();
}

TEST_F(Snapshots, TicketOfARun_NeedsNoWait)
{
	fur::Snapshot snapshot(self_);
	fur_ticket ticket = {};
	const fur_run how = {sizeof how, &ticket, nullptr};
	EXPECT_EQ(fur_snapshot_run(
	                  self_, snapshot.get(), [](fur_reader *, void *) {}, nullptr, &how),
	        0);
	EXPECT_NE(ticket.source, 0u);
	EXPECT_EQ(fur_wait(self_, ticket), 0);
}

TEST_F(Snapshots, ChildOfFork_HasNone)
{
	fur::Snapshot snapshot(self_);
	run_in_child([&] {
		fur_snapshot *s;
		EXPECT_EQ(fur_snapshot_begin(self_, &s), FUR_EFORK);
		EXPECT_EQ(fur_snapshot_run(
		                  self_, snapshot.get(), [](fur_reader *, void *) {}, nullptr,
		                  nullptr),
		        FUR_EFORK);
		EXPECT_EQ(fur_snapshot_end(snapshot.get()), FUR_EFORK);
	});
	EXPECT_EQ(see(snapshot, word(0)), 0u);
}

TEST_F(Snapshots, AbandonedBody_LeavesTheSnapshotInUseByNone)
{
	fur::Snapshot snapshot(self_);
	other_.run([&](fur_thread *t) {
		static jmp_buf out;
		if (!setjmp(out)) {
			const int ended = fur_snapshot_run(
			        t, snapshot.get(), [](fur_reader *, void *) { longjmp(out, 1); },
			        nullptr, nullptr);
			ADD_FAILURE() << ended;
		}
		EXPECT_EQ(fur_snapshot_end(snapshot.get()), FUR_ENESTED);
		EXPECT_EQ(fur_thread_abandon(t), 0);
	});
	EXPECT_EQ(snapshot.get()->users, 0u);
	set_all(TX_CONCURRENT, 4);
	EXPECT_EQ(see_all(snapshot), all_of(0));
	expect_sound();
}

} // namespace
