/* SPDX-License-Identifier: BSD-3-Clause
 *
 * apply_test.cpp - the replay engine against the simplest replay there is: random logs, every
 * number of threads and distance, the same heap byte for byte.
 */
#include "fixture.hpp"
#include "internals.hpp"
#include "version_1.hpp"

#include <array>
#include <random>

namespace
{

class Apply : public HeapFile
{
protected:
	enum : uint64_t {
		LOG = 65536,
		SLOTS = 256,
		THREADS = 4,
		HEAP = 2 << 20,
		KEPT = 65536,
		GRANULE = 4096
	};

	struct Entry {
		uint64_t offset;
		std::vector<uint8_t> bytes;
	};

	Apply()
	{
		fur::Options o = small_options();
		o.log_bytes = LOG;
		o.ring_slots = SLOTS;
		create(o).close();
		make_version_1(path_); /* records without heads, which play no part here */
		attach(o);
	}
	~Apply() override
	{
		if (d_.super)
			durability_detach(&d_);
		if (file_.super)
			heap_close_file(&file_);
	}
	void attach(const fur_options &o)
	{
		char reason[160];
		ASSERT_EQ(heap_open_file(path_.c_str(), HEAP_LOCK_WORKER, &file_), 0)
		        << fur_errormsg();
		ASSERT_EQ(heap_attach(&d_, &file_, &o, reason, sizeof reason), 0);
		first_ = next_ = d_.tail;
		expected_.assign(d_.image, d_.image + HEAP);
		before_ = expected_;
		for (uint64_t &at : at_)
			at = LOG - 4096; /* so that records wrap */
		/* There was something before: positions do not begin at 0. */
		media_marker below{};
		below.durts = first_ - 1;
		below.log_start = LOG - 4096;
		below.kind = MEDIA_ABORT;
		below.checksum = media_marker_checksum(d_.super, &below, d_.logs);
		*durability_marker(&d_, below.durts) = below;
	}
	/* An update: logged, and stored as it should be. */
	media_marker *put(const std::vector<Entry> &entries, bool kept = true)
	{
		unsigned thread = static_cast<unsigned>(next_ % THREADS);
		uint8_t *log = d_.logs + thread * LOG;
		media_marker m{};
		m.durts = next_++;
		m.log_start = at_[thread];
		m.thread = static_cast<uint16_t>(thread);
		m.kind = MEDIA_COMMIT;
		for (const Entry &e : entries)
			for (uint64_t done = 0; done < e.bytes.size();) {
				/* As redo_fits() has it: no entry is too long, none wraps. */
				uint64_t place = at_[thread] % LOG;
				uint64_t n = std::min({e.bytes.size() - done, LOG - place - 8,
				        uint64_t(MEDIA_ENTRY_MAX)});
				uint64_t word = media_entry_word(e.offset + done, n);
				memcpy(log + place, &word, 8);
				memcpy(log + place + 8, &e.bytes[done], n);
				at_[thread] += media_entry_bytes(n);
				done += n;
				logged_ += kept;
				if (kept)
					bytes_ += n;
			}
		m.log_bytes = static_cast<uint32_t>(at_[thread] - m.log_start);
		m.checksum = media_marker_checksum(d_.super, &m, log);
		for (const Entry &e : entries)
			if (kept)
				memcpy(&expected_[e.offset], e.bytes.data(), e.bytes.size());
		*durability_marker(&d_, m.durts) = m;
		return durability_marker(&d_, m.durts);
	}
	Entry filled(uint64_t offset, uint64_t bytes)
	{
		Entry e{offset, std::vector<uint8_t>(bytes)};
		for (uint8_t &b : e.bytes)
			b = static_cast<uint8_t>(random_());
		return e;
	}
	uint64_t below(uint64_t n)
	{
		return random_() % n;
	}
	/* One of all widths, often where others are, at the edge of a line, or of a granule. */
	Entry any()
	{
		static const uint64_t widths[] = {
		        8, 8, 8, 4, 1, 2, 3, 16, 24, 100, 128, 1000, 4088};
		uint64_t bytes = widths[below(std::size(widths))],
		         edge = below(2) ? 64 : uint64_t(GRANULE);
		uint64_t place =
		        KEPT + (below(2) ? below(8) : below((HEAP - KEPT) / GRANULE - 4)) * GRANULE;
		uint64_t offset =
		        place + (below(2) ? below(GRANULE) : edge - below(bytes + 1) % edge);
		return filled(offset, std::min(bytes, HEAP - offset));
	}
	enum class How { RECOVER, LIVE };
	void expect_replayed(How how, const replay_options &options, uint64_t updates)
	{
		SCOPED_TRACE(std::to_string(options.threads) + " threads, preload " +
		             (options.strategy == REPLAY_BATCH ? "batch:" : "sequential:") +
		             std::to_string(options.preload) + ", unload " +
		             std::to_string(options.unload_lines));
		memcpy(d_.image, before_.data(), HEAP);
		d_.replay_options = options;
		d_.tail = first_;
		d_.control->replayed_entries = d_.control->replayed_updates = 0;
		replay_result r{};
		if (how == How::RECOVER) {
			ASSERT_EQ(replay_recover(&d_, &r), 0) << fur_errormsg();
			EXPECT_EQ(r.bytes, bytes_);
		} else {
			d_.next_durts = next_;
			ASSERT_EQ(replay_live(&d_), 0) << fur_errormsg();
			EXPECT_EQ(d_.tail, next_);
			r.updates = d_.control->replayed_updates;
			r.entries = d_.control->replayed_entries;
		}
		EXPECT_EQ(r.updates, updates);
		EXPECT_EQ(r.entries, logged_);
		ASSERT_EQ(memcmp(d_.image, expected_.data(), HEAP), 0)
		        << "it differs from a replay of one entry after the other";
	}
	void expect_replayed_always(How how, uint64_t updates)
	{
		for (unsigned threads : {1, 2, 3, 4})
			for (unsigned preload :
			        {0u, 1u, 2u, 7u, 16u, 64u, unsigned(REPLAY_PRELOAD_MOST), 1000u,
			                unsigned(REPLAY_PRELOAD_AUTO)})
				for (replay_strategy strategy : {REPLAY_SEQUENTIAL, REPLAY_BATCH}) {
					replay_options options = replay_soon(threads, preload);
					options.strategy = strategy;
					options.unload_lines = 1u << (threads + preload) % 5;
					expect_replayed(how, options, updates);
				}
	}

	heap_file file_{};
	durability d_{};
	uint64_t first_ = 0, next_ = 0, at_[THREADS] = {}, logged_ = 0, bytes_ = 0;
	std::vector<uint8_t> expected_, before_;
	std::mt19937_64 random_{1};
};

TEST_F(Apply, LatestOfSeveralStoresToOneWord_Wins)
{
	for (unsigned k = 0; k < 100; k++)
		put({filled(KEPT, 8), filled(KEPT + 8, 8), filled(KEPT, 8)});
	expect_replayed_always(How::RECOVER, 100);
	expect_replayed_always(How::LIVE, 100);
}

TEST_F(Apply, NarrowStores_LeaveTheirNeighbours)
{
	put({filled(KEPT, 64)});
	for (unsigned k = 0; k < 64; k++)
		put({filled(KEPT + k, 1 + k % 7)});
	expect_replayed_always(How::RECOVER, 65);
}

TEST_F(Apply, StoresAcrossGranules_AreWholeAndInOrder)
{
	for (unsigned k = 0; k < 60; k++)
		put({filled(KEPT + GRANULE * (1 + k % 5) - 4, 8),
		        filled(KEPT + GRANULE * (1 + k % 3) - 40 * k, 4000)});
	expect_replayed_always(How::LIVE, 60);
}

TEST_F(Apply, WidestStores_UpToTheHeapsEnd)
{
	for (unsigned k = 0; k < 12; k++)
		put({filled(HEAP - MEDIA_ENTRY_MAX, MEDIA_ENTRY_MAX), filled(HEAP - 1, 1),
		        filled(HEAP - 20000, 12000)});
	expect_replayed_always(How::RECOVER, 12);
}

TEST_F(Apply, NothingToApply)
{
	expect_replayed_always(How::RECOVER, 0);
	expect_replayed_always(How::LIVE, 0);
	for (unsigned k = 0; k < 10; k++) {
		media_marker *m = put({});
		m->kind = MEDIA_ABORT;
		m->checksum = media_marker_checksum(d_.super, m, d_.logs);
	}
	expect_replayed_always(How::RECOVER, 0);
	expect_replayed_always(How::LIVE, 0);
}

TEST_F(Apply, MoreLinesThanWaitForWriteBack)
{
	for (unsigned k = 0; k < 200; k++) {
		std::vector<Entry> entries;
		for (unsigned n = 0; n < 64; n++)
			entries.push_back(filled(KEPT + (k * 64 + n) * 128, 8));
		put(entries);
	}
	expect_replayed_always(How::RECOVER, 200);
}

TEST_F(Apply, Random_IsTheSameAsOneAfterTheOther)
{
	for (uint64_t seed = 1; seed <= 6; seed++) {
		SCOPED_TRACE("seed " + std::to_string(seed));
		random_.seed(seed);
		/* Other updates in the same slots and logs: those of before are stale markers'
		 * now. */
		first_ = next_ = d_.tail + SLOTS;
		expected_ = before_;
		logged_ = bytes_ = 0;
		bool holes = seed % 2;
		uint64_t kept = 0, room[THREADS] = {LOG, LOG, LOG, LOG};
		for (unsigned k = 0; k < SLOTS; k++) {
			std::vector<Entry> entries;
			uint64_t need = 0;
			for (uint64_t n = below(8); n > 0; n--) {
				entries.push_back(any());
				need += media_entry_bytes(entries.back().bytes.size()) + 32;
			}
			if (need > room[next_ % THREADS])
				entries.clear(), need = 0;
			room[next_ % THREADS] -= need;
			bool lost = holes && below(8) == 0;
			media_marker *m = put(entries, !lost);
			if (lost) {
				/* It never returned, so the thread's next record is not behind
				 * it. */
				at_[m->thread] = m->log_start;
				m->durts -= SLOTS; /* the slot still holds an earlier lap's */
				m->checksum = ~m->checksum;
			}
			kept += !lost;
		}
		expect_replayed_always(How::RECOVER, kept);
		if (!holes)
			expect_replayed_always(How::LIVE, kept);
	}
}

TEST_F(Apply, ForgedEntry_IsRefused_AndNothingOfItsPartWritten)
{
	put({filled(KEPT, 8)});
	media_marker *m = put({filled(KEPT + 64, 8), filled(KEPT + 128, 8)});
	uint64_t bad = media_entry_word(HEAP - 4, 8);
	memcpy(d_.logs + m->thread * LOG + (m->log_start + 16) % LOG, &bad, 8);
	m->checksum = media_marker_checksum(d_.super, m, d_.logs + m->thread * LOG);
	for (unsigned threads : {1, 3}) {
		d_.replay_options = replay_soon(threads, 16);
		replay_result r{};
		d_.tail = first_;
		EXPECT_EQ(replay_recover(&d_, &r), FUR_ECORRUPT);
		EXPECT_NE(std::string(fur_errormsg()).find("outside the heap"), std::string::npos)
		        << fur_errormsg();
		EXPECT_EQ(memcmp(d_.image, before_.data(), HEAP), 0);
		d_.next_durts = next_;
		EXPECT_EQ(replay_live(&d_), FUR_ECORRUPT);
		EXPECT_EQ(memcmp(d_.image, before_.data(), HEAP), 0);
	}
}

TEST_F(Apply, ForgedEntry_OfAnUpdateThatIsDropped_IsNotLookedAt)
{
	*put({filled(KEPT, 8)}, false) = {}; /* a hole */
	media_marker *m = put({filled(KEPT + 64, 8)}, false);
	uint64_t bad = media_entry_word(HEAP - 4, 8);
	memcpy(d_.logs + m->thread * LOG + m->log_start % LOG, &bad, 8);
	m->deps[0] = 1;
	m->checksum = media_marker_checksum(d_.super, m, d_.logs + m->thread * LOG);
	expect_replayed_always(How::RECOVER, 0);
}

TEST_F(Apply, Distances_AreMeasuredOnce_AndReported)
{
	for (unsigned k = 0; k < 200; k++)
		put({filled(KEPT + k * 128, 8), filled(KEPT + k * 64, 24)});
	const auto known = [](uint32_t d) {
		return d == 0 || d == 4 || d == 8 || d == 16 || d == 32 || d == 64;
	};
	const replay_options soon = replay_soon(1, REPLAY_PRELOAD_AUTO);
	const control_preload &status = d_.control->preload;
	expect_replayed(How::LIVE, soon, 200);
	EXPECT_EQ(status.known, 1u);
	EXPECT_EQ(status.automatic, 1u);
	EXPECT_EQ(status.measured[PRELOAD_WRITES], 0u) << "400 entries are too few";
	EXPECT_EQ(status.distance[PRELOAD_WRITES], uint32_t(REPLAY_PRELOAD_DEFAULT));
	for (unsigned k = 0; k < 10; k++)
		expect_replayed(k % 2 ? How::LIVE : How::RECOVER, soon, 200);
	uint32_t chosen[PRELOAD_PIPELINES];
	for (preload_pipeline p : {PRELOAD_READS, PRELOAD_WRITES}) {
		EXPECT_EQ(d_.tuning[p].stage, PRELOAD_CHOSEN);
		chosen[p] = preload_distance(&d_, p);
		EXPECT_TRUE(known(chosen[p])) << chosen[p];
		EXPECT_EQ(status.measured[p], 1u);
		EXPECT_EQ(status.distance[p], chosen[p]);
	}
	for (unsigned k = 0; k < 3; k++)
		expect_replayed(How::RECOVER, soon, 200);
	for (preload_pipeline p : {PRELOAD_READS, PRELOAD_WRITES})
		EXPECT_EQ(preload_distance(&d_, p), chosen[p]) << "it was measured again";
	replay_options fixed = replay_soon(1, 7);
	fixed.strategy = REPLAY_BATCH;
	expect_replayed(How::LIVE, fixed, 200);
	EXPECT_EQ(status.distance[PRELOAD_WRITES], 7u);
	EXPECT_EQ(status.strategy, uint32_t(REPLAY_BATCH));
	EXPECT_EQ(status.measured[PRELOAD_WRITES], 0u);
}

TEST_F(Apply, FastestProbe_IsChosen_AndSmallDifferencesAreNot)
{
	for (unsigned k = 0; k < 200; k++)
		put({filled(KEPT + k * 128, 8), filled(KEPT + k * 64, 24)});
	const replay_options soon = replay_soon(1, REPLAY_PRELOAD_AUTO);
	expect_replayed(How::RECOVER, soon, 200);
	preload_tuning &t = d_.tuning[PRELOAD_WRITES];
	/* The ticks of each distance, in the order 16, 0, 4, 8, 32, 64; of all rounds but two,
	 * which another program has disturbed.  One probe is left, and takes few ticks. */
	const auto with = [&](std::array<uint64_t, PRELOAD_PROBED> ticks) {
		t.chosen = 0;
		t.stage = PRELOAD_CLOCKS;
		t.probes = PRELOAD_ROUNDS * PRELOAD_PROBED - 1;
		t.steps = 1;
		for (unsigned r = 0; r < PRELOAD_ROUNDS; r++)
			for (unsigned k = 0; k < PRELOAD_PROBED; k++)
				t.ticks[r][k] = r == 1 && k == 2   ? 1
				                : r == 3 && k == 4 ? 1000 * ticks[k]
				                                   : ticks[k];
		expect_replayed(How::RECOVER, soon, 200);
		return preload_distance(&d_, PRELOAD_WRITES);
	};
	const uint64_t one = UINT64_C(1) << 40;
	EXPECT_EQ(with({one, 2 * one, one, one, one, one}), 16u);
	EXPECT_EQ(with({one, one / 100 * 98, one / 100 * 98, one, one, one}), 16u);
	EXPECT_EQ(with({one, one / 100 * 98, one / 100 * 90, one, one, one}), 4u);
	EXPECT_EQ(with({one, one / 2, one / 100 * 90, one, one, one}), 0u);
	EXPECT_EQ(with({one, 2 * one, 2 * one, one, one / 2, one}), 32u);
	EXPECT_EQ(with({one, 2 * one, 2 * one, one, one, one / 2}), 64u);
}

TEST_F(Apply, LittleWork_IsNotMeasured)
{
	put({filled(KEPT, 8)});
	replay_options usual = REPLAY_DEFAULTS;
	for (unsigned k = 0; k < 100; k++)
		expect_replayed(How::LIVE, usual, 1);
	EXPECT_EQ(d_.tuning[PRELOAD_WRITES].probes, 0u);
	EXPECT_EQ(d_.tuning[PRELOAD_WRITES].stage, PRELOAD_WAITS);
	EXPECT_EQ(preload_distance(&d_, PRELOAD_WRITES), uint32_t(REPLAY_PRELOAD_DEFAULT));
}

TEST_F(Apply, Threads_OnlyWhereTheyAreWorthIt)
{
	d_.replay_options = replay_soon(4, 16);
	d_.replay_options.least_bytes = 1000;
	EXPECT_EQ(apply_threads(&d_, 0), 1u);
	EXPECT_EQ(apply_threads(&d_, 1999), 1u);
	EXPECT_EQ(apply_threads(&d_, 2000), 2u);
	EXPECT_EQ(apply_threads(&d_, 1 << 20), 4u);
	d_.replay_options.threads = 0;
	EXPECT_EQ(apply_threads(&d_, 1 << 20), 1u);
	d_.replay_options.threads = 1000;
	EXPECT_EQ(apply_threads(&d_, 1 << 20), unsigned(REPLAY_THREADS_MOST));
}

} // namespace
