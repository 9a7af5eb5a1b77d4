/* SPDX-License-Identifier: BSD-3-Clause
 *
 * follow_test.cpp - a standby follows its primary (INV-SH21 to INV-SH26): heaps that update, and
 * frames of the records that they leave.
 *
 * A heap and its copy have the same addresses, so one process opens them one after the other; where
 * both work at once, a child has the standby.
 */
#include "shop.hpp"

#include <csignal>
#include <optional>
#include <set>

/* Not 0: the process ends at this write-back, as if it were killed. */
enum { KILLED = 9 };
static uint64_t flushes_to_live;
extern "C" {
void __real_pm_flush(struct pm *pm, const void *start, size_t bytes);
void __wrap_pm_flush(struct pm *pm, const void *start, size_t bytes);
}
void __wrap_pm_flush(struct pm *pm, const void *start, size_t bytes)
{
	if (flushes_to_live && --flushes_to_live == 0)
		_exit(KILLED);
	__real_pm_flush(pm, start, bytes);
}

namespace
{

using namespace ship_test; /* NOLINT */

/* ------------------------------------------------------------------ fixture */

class Follow : public HeapFile
{
protected:
	Follow() : standby_(path_ + "-standby"), log_(path_ + "-log") {}
	~Follow() override
	{
		unlink(standby_.c_str());
		unlink(log_.c_str());
	}
	/* A primary, and a standby that is a copy of it. */
	void make(const fur::Options &o = options_of_test())
	{
		options_ = o;
		{
			fur::Heap heap = create(o);
			fur::Thread self(heap);
			make_shop(self);
		}
		std::ofstream(standby_, std::ios::binary) << bytes();
		ASSERT_EQ(ship_test::write_role(path_, MEDIA_PRIMARY), 0) << fur_errormsg();
		ASSERT_EQ(ship_test::write_role(standby_, MEDIA_STANDBY), 0) << fur_errormsg();
	}
	/* Run work(heap, self, shop) in the primary, which is shipped. */
	template <class Work>
	void at_primary(Work &&work, uint64_t node = 1, size_t frame_bytes = FRAME_MOST_BYTES)
	{
		fur::Heap heap = open(options_);
		std::optional<Shipper> shipper(std::in_place, path_, log_, node, frame_bytes);
		{
			fur::Thread self(heap);
			work(heap, self, shop_of(self));
		}
		heap.close();
		parts_ += shipper->parts;
		sides_ += shipper->sides;
		bulks_ += shipper->bulks;
	}

public:
	/* Returns: how many updates the heap has. */
	static uint64_t expect_consistent(fur_thread *self)
	{
		const Shop *shop = shop_of(self);
		return fur::read(self, [&](fur_ro *tx) {
			uint64_t sum = 0, n = fur_load(tx, &shop->updates);
			for (const uint64_t &cell : shop->cell)
				sum += fur_load(tx, &cell);
			EXPECT_EQ(sum, 0u);
			EXPECT_EQ(n, fur_load(tx, &shop->copy));
			return n;
		});
	}

protected:
	fur::Heap open_standby() const
	{
		return fur::Heap::open(standby_, options_);
	}
	/* Follow to the log's end. */
	void follow_all(unsigned step = 64)
	{
		fur::Heap heap = open_standby();
		fur::Thread self(heap);
		stream_engine *engine;
		follower *f;
		ASSERT_EQ(engine_file_open(log_.c_str(), &engine), 0) << fur_errormsg();
		ASSERT_EQ(follow_begin(engine, heap.get(), &f), 0) << fur_errormsg();
		int n;
		while ((n = follow_step(f, step)) > 0)
			expect_consistent(self);
		EXPECT_EQ(n, 0) << fur_errormsg();
		EXPECT_EQ(follow_end(f), 0) << fur_errormsg();
		engine->ops->close(engine);
		alloc_census census;
		EXPECT_EQ(alloc_check(heap_base(heap.get()), &census), 0) << fur_errormsg();
	}
	void expect_followed()
	{
		expect_equal(path_, standby_);
	}

	fur::Options options_;
	std::string standby_, log_;
	unsigned parts_ = 0, sides_ = 0, bulks_ = 0;
};

/* -------------------------------------------------------------------- tests */

TEST_F(Follow, SmallUpdates_FromAllThreads)
{
	make();
	at_primary([&](fur::Heap &heap, fur::Thread &, Shop *shop) {
		std::vector<std::thread> threads;
		for (unsigned t = 0; t < 3; t++)
			threads.emplace_back([&, t] {
				fur::Thread self(heap);
				Random random{t};
				for (int k = 0; k < 1000; k++)
					small_update(self, shop, random);
			});
		for (auto &t : threads)
			t.join();
	});
	follow_all();
	expect_followed();
	fur::Heap heap = open_standby();
	fur::Thread self(heap);
	EXPECT_EQ(expect_consistent(self), 3000u);
}

/* Memory that no log has, and that had other owners before: in the log, and in the image. */
TEST_F(Follow, FreshBlocks_LargerThanTheLog)
{
	make();
	at_primary([&](fur::Heap &, fur::Thread &self, Shop *shop) {
		Random random{3};
		for (unsigned k = 0; k < 60; k++) {
			block_update(self, shop, k % 8, 70000 * (1 + k % 5),
			        static_cast<uint8_t>(k % 4 ? k : 0));
			/* Small blocks in the chunks that the next ones get. */
			for (unsigned slot = k % 3; slot < 8; slot += 3)
				block_update(self, shop, slot, 3000, static_cast<uint8_t>(~k));
			small_update(self, shop, random);
		}
	});
	EXPECT_GE(sides_, 60u);
	follow_all(1000);
	expect_followed();
}

TEST_F(Follow, BulkUpdates_AndTheOwnersOfTheirBlocks)
{
	make();
	at_primary([&](fur::Heap &, fur::Thread &self, Shop *shop) {
		Random random{4};
		for (unsigned k = 0; k < 12; k++) {
			bulk_update(self, shop);
			block_update(
			        self, shop, k % 8, 10000 + 7000 * (k % 4), static_cast<uint8_t>(k));
			small_update(self, shop, random);
		}
	});
	EXPECT_EQ(bulks_, 12u);
	follow_all(1000);
	expect_followed();
	fur::Heap heap = open_standby();
	fur::Thread self(heap);
	const Shop *shop = shop_of(self);
	for (uint64_t k = 0; k < RECORDS; k += 97)
		EXPECT_EQ(shop->records[k], k % 3 ? 12 * k : 0) << k;
}

TEST_F(Follow, UpdatesInManyParts)
{
	make();
	at_primary(
	        [&](fur::Heap &, fur::Thread &self, Shop *shop) {
		        Random random{5};
		        const std::vector<uint64_t> data(500, 7);
		        for (unsigned k = 0; k < 20; k++) {
			        small_update(self, shop, random);
			        fur::update(self, [&](fur_update *tx) {
				        for (unsigned i = 0; i < 8; i++) {
					        fur_write(tx, shop->records, data.data(), 4000);
					        fur_store(tx, &shop->records[i], uint64_t(k));
				        }
			        });
			        if (k % 7 == 0)
				        block_update(self, shop, 1, 150000, 9);
		        }
	        },
	        1, 2048);
	EXPECT_GE(parts_, 300u);
	follow_all(7);
	expect_followed();
}

/* Wherever in the logs their records begin. */
TEST_F(Follow, UpdatesThatFillThePrimarysLog)
{
	make();
	at_primary([&](fur::Heap &, fur::Thread &self, Shop *shop) {
		Random random{6};
		const std::vector<uint64_t> data(500, 7);
		for (unsigned k = 0; k < 30; k++) {
			for (unsigned i = 0; i <= k; i++)
				small_update(self, shop, random);
			fur::update(self, [&](fur_update *tx) {
				while (!fur_update_error(tx) && fur_update_room(tx, nullptr) > 5000)
					fur_write(tx, shop->records, data.data(), 4000);
				for (unsigned i = 500;
				        i < RECORDS && fur_update_room(tx, nullptr) >= 64; i++)
					fur_store(tx, &shop->records[i], uint64_t(k));
			});
		}
	});
	follow_all();
	expect_followed();
}

/* Each life follows a little, and ends without closing anything. */
TEST_F(Follow, AnotherProcessGoesOn)
{
	make();
	for (uint64_t node = 1; node <= 3; node++) {
		at_primary(
		        [&](fur::Heap &, fur::Thread &self, Shop *shop) {
			        Random random{node};
			        for (int k = 0; k < 200; k++)
				        small_update(self, shop, random);
			        block_update(self, shop, 2, 200000, uint8_t(node));
			        bulk_update(self, shop);
		        },
		        node, 4096);
		for (unsigned life = 1; life < 20; life++)
			in_killed_child([&] {
				fur::Heap heap = open_standby();
				fur::Thread self(heap);
				stream_engine *engine;
				follower *f;
				ASSERT_EQ(engine_file_open(log_.c_str(), &engine), 0);
				ASSERT_EQ(follow_begin(engine, heap.get(), &f), 0);
				for (unsigned k = 0; k < life % 4; k++)
					ASSERT_GE(follow_step(f, life), 0) << fur_errormsg();
				expect_consistent(self);
				_exit(HasFailure());
			});
	}
	follow_all();
	expect_followed();
}

/* Follow to the log's end, or until the process ends, as if killed, at the write-back of this
 * number.  Returns: 0, or what has failed. */
int live_until_killed(const std::string &standby, const std::string &log,
        const fur::Options &options, Shared *shared, uint64_t flushes, unsigned step)
{
	fur::Heap heap = fur::Heap::open(standby, options);
	fur::Thread self(heap);
	stream_engine *engine;
	follower *f;
	if (engine_file_open(log.c_str(), &engine) || follow_begin(engine, heap.get(), &f))
		return 1;
	/* An update that was there before the kill still is. */
	if (Follow::expect_consistent(self) < shared->updates)
		return 2;
	flushes_to_live = flushes;
	int n;
	while ((n = follow_step(f, step)) > 0)
		shared->updates = Follow::expect_consistent(self);
	return n ? 3 : 0;
}

TEST_F(Follow, KilledAtAnyInstant_AppliesEachUpdateOnce)
{
	make();
	const SharedMemory shared;
	Random random{77};
	const uint64_t most = rounds(uint64_t(6));
	unsigned killed = 0;
	for (uint64_t round = 1; round <= most && !HasFailure(); round++) {
		at_primary([&](fur::Heap &, fur::Thread &self,
		                   Shop *shop) { mixed_work(self, shop, round); },
		        round, 4096 << random.below(6));
		for (unsigned kills = 0; kills < 30; kills++) {
			const uint64_t flushes = 1 + random.below(400);
			const pid_t child = fork();
			ASSERT_GE(child, 0);
			if (child == 0) {
				alarm(60);
				/* Sometimes in a recovery. */
				flushes_to_live = random.one_in(8) ? flushes : 0;
				const int result = live_until_killed(standby_, log_, options_,
				        shared.get(), flushes, 1 + kills % 5);
				if (result)
					fprintf(stderr, "%s\n", fur_errormsg());
				_exit(HasFailure() ? 4 : result);
			}
			int status;
			ASSERT_EQ(waitpid(child, &status, 0), child);
			ASSERT_TRUE(WIFEXITED(status)) << status;
			killed += WEXITSTATUS(status) == KILLED;
			ASSERT_TRUE(WEXITSTATUS(status) == KILLED || WEXITSTATUS(status) == 0)
			        << WEXITSTATUS(status);
		}
		follow_all(random.below(2) ? 3 : 300);
		expect_followed();
	}
	EXPECT_GE(killed, 8 * most);
}

/* ------------------------------------------------------------------ readers */

/* Is the heap as it was at the primary between two updates, and not older than at the last look?
 * Ends the process if not.  Returns: how many updates it has. */
template <class Tx>
uint64_t look_closely(Tx *tx, const Shop *shop, uint64_t last)
{
	uint64_t sum = 0;
	const uint64_t n = fur_load(tx, &shop->updates);
	for (const uint64_t &cell : shop->cell)
		sum += fur_load(tx, &cell);
	if (sum != 0 || n != fur_load(tx, &shop->copy) || n < last)
		_exit(4);
	/* These two bytes of a block are always equal. */
	for (void *const &slot : shop->blocks)
		if (auto *p = static_cast<uint8_t *>(fur_load(tx, &slot)))
			if (fur_load(tx, p) != fur_load(tx, p + 900))
				_exit(5);
	return n;
}

/* Look until `stop`, as a plain reader, an optimistic one, or in snapshots. */
void keep_looking(const fur::Heap &heap, unsigned kind, const std::atomic<bool> &stop)
{
	fur::Thread self(heap);
	const Shop *shop = shop_of(self);
	uint64_t n = 0;
	while (!stop) {
		const uint64_t last = n;
		if (kind == 0)
			n = fur::read(
			        self, [&](fur_ro *tx) { return look_closely(tx, shop, last); });
		if (kind == 1)
			n = fur::read(self, fur::rerun,
			        [&](fur_reader *tx) { return look_closely(tx, shop, last); });
		if (kind == 2) {
			fur::Snapshot snapshot(self);
			snapshot.read(
			        self, [&](fur_reader *tx) { n = look_closely(tx, shop, last); });
		}
	}
}

/* Follow until all is shipped and applied, beside readers of each kind. */
int follow_beside_readers(fur::Heap &heap, const std::string &log, const Shared *shared)
{
	std::atomic<bool> stop{false};
	std::vector<std::thread> readers;
	for (unsigned kind = 0; kind < 3; kind++)
		readers.emplace_back([&, kind] { keep_looking(heap, kind, stop); });
	stream_engine *engine;
	follower *f;
	if (engine_file_open(log.c_str(), &engine) || follow_begin(engine, heap.get(), &f))
		return 1;
	int n = 0;
	for (bool last = false; n > 0 || !last;) {
		last = arch_load_acquire(&shared->stop);
		if ((n = follow_step(f, 5)) < 0)
			return 2;
	}
	stop = true;
	for (auto &t : readers)
		t.join();
	engine->ops->close(engine);
	return follow_end(f) ? 3 : 0;
}

/* In the standby, while the primary works. */
TEST_F(Follow, ReadersSeeWhatThePrimaryHadBetweenTwoUpdates)
{
	make();
	const SharedMemory shared;
	const pid_t child = fork();
	ASSERT_GE(child, 0);
	if (child == 0) {
		alarm(240);
		fur::Heap heap = open_standby();
		const int failed = follow_beside_readers(heap, log_, shared.get());
		if (failed)
			_exit(failed);
		heap.close();
		_exit(0);
	}
	at_primary([&](fur::Heap &, fur::Thread &self, Shop *shop) {
		for (uint64_t seed = 1; seed <= rounds(uint64_t(3)); seed++)
			mixed_work(self, shop, seed);
	});
	arch_store_release(&shared->stop, 1);
	int status;
	ASSERT_EQ(waitpid(child, &status, 0), child);
	ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
	expect_followed();
}

/* ---------------------------------------------------------------- refusals */

TEST_F(Follow, NothingElseUpdatesAStandby)
{
	make();
	at_primary([&](fur::Heap &, fur::Thread &self, Shop *shop) {
		Random random{1};
		small_update(self, shop, random);
	});
	{
		fur::Heap heap = open_standby();
		fur::Thread self(heap);
		Shop *shop = shop_of(self);
		fur_update *tx;
		EXPECT_EQ(fur_begin_update(self, &tx), FUR_EREADONLY);
		EXPECT_NE(std::string(fur_errormsg()).find("standby"), std::string::npos);
		auto nothing = [](fur_update *, void *) { FAIL() << "the body ran"; };
		EXPECT_EQ(fur_update_run(self, nothing, nullptr, nullptr), FUR_EREADONLY);
		for (fur_bulk_atomic atomic : {FUR_BULK_WHOLE, FUR_BULK_EACH}) {
			const fur_extent all = {shop->records, 8, RECORDS};
			fur_bulk job;
			fur_bulk_init(&job);
			job.map = [](void *, size_t, uint64_t, void *) { return true; };
			job.bytes = 8;
			job.extents = &all;
			job.n = 1;
			job.atomic = atomic;
			EXPECT_EQ(fur_bulk_run(self, &job, nullptr), FUR_EREADONLY);
		}
		stream_engine *engine;
		follower *f;
		ASSERT_EQ(engine_file_open(log_.c_str(), &engine), 0);
		ASSERT_EQ(follow_begin(engine, heap.get(), &f), 0);
		EXPECT_GT(follow_step(f, 100), 0) << fur_errormsg();
		/* The follower's thread has no more rights than others. */
		EXPECT_EQ(fur_begin_update(self, &tx), FUR_EREADONLY);
		EXPECT_EQ(expect_consistent(self), 1u);
		EXPECT_EQ(follow_end(f), 0);
		engine->ops->close(engine);
	}
	expect_followed();
}

TEST_F(Follow, OnlyAStandbyFollows)
{
	make();
	fur::Heap heap = open(options_);
	follower *f;
	stream_engine *engine;
	ASSERT_EQ(engine_file_open(log_.c_str(), &engine), 0);
	EXPECT_EQ(follow_begin(engine, heap.get(), &f), FUR_EINVAL);
	EXPECT_EQ(f, nullptr);
	engine->ops->close(engine);
}

TEST_F(Follow, SecondFollowerDoesNotApplyAgain)
{
	make();
	at_primary([&](fur::Heap &, fur::Thread &self, Shop *shop) {
		Random random{1};
		for (int k = 0; k < 10; k++)
			small_update(self, shop, random);
	});
	{
		fur::Heap heap = open_standby();
		fur::Thread self(heap);
		stream_engine *engine;
		follower *one, *two;
		ASSERT_EQ(engine_file_open(log_.c_str(), &engine), 0);
		ASSERT_EQ(follow_begin(engine, heap.get(), &one), 0);
		ASSERT_EQ(follow_begin(engine, heap.get(), &two), 0);
		EXPECT_GT(follow_step(one, 100), 0) << fur_errormsg();
		EXPECT_EQ(follow_step(two, 100), FUR_EBUSY);
		EXPECT_EQ(expect_consistent(self), 10u);
		EXPECT_EQ(follow_end(one), 0);
		(void)follow_end(two);
		engine->ops->close(engine);
	}
	expect_followed();
}

TEST_F(Follow, LogThatWentBack_StopsTheStandby)
{
	make();
	auto work = [&](fur::Heap &, fur::Thread &self, Shop *shop) {
		Random random{1};
		for (int k = 0; k < 10; k++)
			small_update(self, shop, random);
	};
	at_primary(work);
	follow_all();
	ASSERT_EQ(truncate(log_.c_str(), 16), 0);
	fur::Heap heap = open_standby();
	fur::Thread self(heap);
	stream_engine *engine;
	follower *f;
	ASSERT_EQ(engine_file_open(log_.c_str(), &engine), 0);
	ASSERT_EQ(follow_begin(engine, heap.get(), &f), 0);
	for (int k = 0; k < 2; k++) {
		EXPECT_EQ(follow_step(f, 100), FUR_ECORRUPT);
		EXPECT_NE(std::string(fur_errormsg()).find("went back"), std::string::npos)
		        << fur_errormsg();
	}
	EXPECT_EQ(expect_consistent(self), 10u);
	EXPECT_EQ(follow_end(f), 0);
	engine->ops->close(engine);
}

/* ---------------------------------------------------------------- bootstrap */

/* A copy that is made while the primary works has more updates than its position. */
TEST_F(Follow, CopyOfAWorkingPrimary_AppliesOnlyWhatItHasNot)
{
	make();
	unlink(standby_.c_str());
	media_ship page = {};
	{
		fur::Heap heap = open(options_);
		std::optional<Shipper> shipper(std::in_place, path_, log_, 1, 4096);
		std::thread worker([&] {
			fur::Thread self(heap);
			mixed_work(self, shop_of(self), 1);
		});
		while (shipper->position().frame_no < 20)
			usleep(100);
		const stream_position at = shipper->position();
		EXPECT_EQ(fur_backup(heap.get(), standby_.c_str()), 0) << fur_errormsg();
		worker.join();
		heap.close();
		page.term = at.term;
		page.lineage = at.lineage;
		page.frame = at.frame_no;
		page.chain = at.chain;
		page.offset = at.offset;
	}
	ASSERT_EQ(ship_test::write_role(standby_, MEDIA_STANDBY, page), 0) << fur_errormsg();
	follow_all(3);
	expect_followed();
}

TEST_F(Follow, HeapThatGrows)
{
	fur::Options o = options_of_test();
	o.heap_bytes = 2 << 20;
	o.max_bytes = 64 << 20;
	make(o);
	at_primary([&](fur::Heap &, fur::Thread &self, Shop *shop) {
		for (unsigned k = 0; k < 20; k++)
			block_update(self, shop, k % 8, 1500000 + 200000 * (k % 5), uint8_t(k + 1));
		mixed_work(self, shop, 1);
	});
	follow_all();
	expect_followed();
}

TEST_F(Follow, OnADisk)
{
	fur::Options o = options_of_test();
	o.pm = FUR_PM_SYNC;
	make(o);
	at_primary([&](fur::Heap &, fur::Thread &self, Shop *shop) { mixed_work(self, shop, 1); });
	follow_all();
	expect_followed();
}

/* ----------------------------------------------------------- frames by hand */

using Bytes = std::vector<uint8_t>;

/* An entry that stores these bytes. */
Bytes entry(uint64_t offset, const void *data, size_t bytes)
{
	Bytes e(media_entry_bytes(bytes));
	const uint64_t word = media_entry_word(offset, bytes);
	memcpy(e.data(), &word, sizeof word);
	memcpy(e.data() + sizeof word, data, bytes);
	return e;
}
Bytes entry(uint64_t offset, uint64_t value)
{
	return entry(offset, &value, sizeof value);
}

/* A writer of frames that no heap has made. */
class ByHand
{
public:
	ByHand(const std::string &heap, const std::string &log, uint64_t node)
	    : room_(FRAME_MOST_BYTES), message_(FRAME_MOST_BYTES)
	{
		heap_file file;
		if (heap_open_file(heap.c_str(), HEAP_LOCK_WORKER, &file) ||
		        engine_file_open(log.c_str(), &engine_))
			ship_test::give_up("open");
		writer_init(&writer_, file.geometry.uuid, node, nullptr);
		heap_close_file(&file);
		writer_start(&writer_, node, WRITER_TAKES_OVER);
		while (writer_.phase != WRITER_SHIPS)
			turn();
	}
	~ByHand()
	{
		engine_->ops->close(engine_);
	}
	ByHand(const ByHand &) = delete;

	void data(uint64_t durts, const Bytes &entries, uint32_t flags = 0)
	{
		frame_builder b;
		frame_begin(&b, message_.data(), message_.size(), FRAME_DATA, flags);
		void *to = frame_add_update(&b, durts, static_cast<uint32_t>(entries.size()));
		ASSERT_NE(to, nullptr);
		memcpy(to, entries.data(), entries.size());
		submit(&b);
	}
	/* The updates in one frame. */
	void many(uint64_t durts, const std::vector<Bytes> &updates)
	{
		frame_builder b;
		frame_begin(&b, message_.data(), message_.size(), FRAME_DATA, 0);
		for (const Bytes &u : updates) {
			void *to = frame_add_update(&b, durts++, static_cast<uint32_t>(u.size()));
			ASSERT_NE(to, nullptr);
			memcpy(to, u.data(), u.size());
		}
		submit(&b);
	}
	void side(uint64_t durts, uint64_t offset, const Bytes &bytes, uint32_t flags)
	{
		frame_builder b;
		const frame_side head = {offset, 0};
		frame_begin(&b, message_.data(), message_.size(), FRAME_SIDE, flags);
		void *to = frame_add_side(&b, durts, &head, static_cast<uint32_t>(bytes.size()));
		ASSERT_NE(to, nullptr);
		memcpy(to, bytes.data(), bytes.size());
		submit(&b);
	}

private:
	void turn()
	{
		ASSERT_GE(drive_turn(&writer_, engine_, room_.data(), 100), 0) << fur_errormsg();
	}
	void submit(frame_builder *b)
	{
		ASSERT_EQ(drive_submit(&writer_, engine_, b), 0) << fur_errormsg();
		while (writer_.counted < writer_.submitted)
			turn();
	}

	stream_engine *engine_;
	writer writer_;
	Bytes room_, message_;
};

enum : uint64_t { LATER = 1000000 }; /* a durTS above those of the heaps */

class FollowByHand : public Follow
{
protected:
	FollowByHand()
	{
		make();
		fur::Heap heap = open_standby();
		fur::Thread self(heap);
		Shop *shop = shop_of(self);
		base_ = static_cast<uint8_t *>(heap_base(heap.get()));
		cell_ = offset_of(&shop->cell[0]);
		records_ = offset_of(shop->records);
	}
	uint64_t offset_of(const void *at) const
	{
		return static_cast<uint64_t>(static_cast<const uint8_t *>(at) - base_);
	}
	/* Call look(heap, follower, cells), in the open standby. */
	template <class Look>
	void at_standby(Look &&look)
	{
		fur::Heap heap = open_standby();
		fur::Thread self(heap);
		stream_engine *engine;
		follower *f;
		ASSERT_EQ(engine_file_open(log_.c_str(), &engine), 0) << fur_errormsg();
		ASSERT_EQ(follow_begin(engine, heap.get(), &f), 0) << fur_errormsg();
		look(heap, f, &shop_of(self)->cell[0]);
		EXPECT_EQ(follow_end(f), 0) << fur_errormsg();
		engine->ops->close(engine);
	}

	uint8_t *base_;
	uint64_t cell_, records_; /* offsets in the heap */
};

TEST_F(FollowByHand, PartsThatAClaimDrops_AreNotApplied)
{
	{
		ByHand one(path_, log_, 1);
		one.data(LATER, entry(cell_, 1));
		one.data(LATER + 1, entry(cell_ + 8, 2), FRAME_FIRST);
		one.data(LATER + 1, entry(cell_ + 16, 3), FRAME_MORE);
	}
	at_standby([&](fur::Heap &, follower *f, const uint64_t *cells) {
		EXPECT_GT(follow_step(f, 100), 0) << fur_errormsg();
		EXPECT_EQ(cells[0], 1u);
		EXPECT_EQ(cells[1], 0u);
		/* Meanwhile another writer has claimed. */
		ByHand two(path_, log_, 2);
		two.data(7, entry(cell_ + 24, 4));
		two.data(8, entry(cell_ + 32, 5), FRAME_FIRST);
		two.data(8, entry(cell_ + 40, 6), FRAME_LAST);
		EXPECT_GT(follow_step(f, 100), 0) << fur_errormsg();
		const uint64_t all[] = {1, 0, 0, 4, 5, 6};
		for (unsigned k = 0; k < 6; k++)
			EXPECT_EQ(cells[k], all[k]) << k;
		EXPECT_EQ(follow_position(f).durts, 8u);
		EXPECT_EQ(follow_position(f).lineage, 1u);
	});
}

/* Batches that end within a frame, and processes that end there. */
TEST_F(FollowByHand, UpdatesOfOneFrame_InSeveralBatches)
{
	constexpr uint64_t N = 60;
	const Bytes bytes(4000, 1);
	{
		ByHand one(path_, log_, 1);
		std::vector<Bytes> updates;
		for (uint64_t k = 0; k < N; k++) {
			updates.push_back(entry(records_, bytes.data(), bytes.size()));
			for (const Bytes &more :
			        {entry(cell_ + 8 * k, k + 1), entry(cell_ + 8 * (k + N), -k - 1)})
				updates[k].insert(updates[k].end(), more.begin(), more.end());
		}
		one.many(LATER, updates);
	}
	unsigned killed = 0;
	for (uint64_t flushes = 4; flushes < 120; flushes += 4) {
		const pid_t child = fork();
		ASSERT_GE(child, 0);
		if (child == 0) {
			at_standby([&](fur::Heap &, follower *f, const uint64_t *cells) {
				/* One after the other. */
				for (unsigned k = 1; k < N; k++)
					EXPECT_TRUE(cells[k - 1] || !cells[k]) << k;
				flushes_to_live = flushes;
				EXPECT_GE(follow_step(f, 3), 0) << fur_errormsg();
			});
			_exit(HasFailure());
		}
		int status;
		ASSERT_EQ(waitpid(child, &status, 0), child);
		ASSERT_TRUE(WIFEXITED(status) &&
		            (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == KILLED));
		killed += WEXITSTATUS(status) == KILLED;
	}
	EXPECT_GE(killed, 2u);
	follow_all();
	at_standby([&](fur::Heap &, follower *f, const uint64_t *cells) {
		for (unsigned k = 0; k < N; k++)
			EXPECT_EQ(cells[k], k + 1);
		EXPECT_EQ(follow_position(f).durts, LATER + N - 1);
		EXPECT_EQ(follow_position(f).position.frame_no, 1u);
	});
}

TEST_F(FollowByHand, UpdateThatDoesNotFitTheLog_IsRefusedWithARemedy)
{
	const Bytes zero(4000);
	{
		ByHand one(path_, log_, 1);
		one.data(LATER, entry(cell_, 1));
		one.data(LATER + 1, entry(cell_, 2), FRAME_FIRST);
		for (int k = 0; k < 17; k++)
			one.data(LATER + 1, entry(records_, zero.data(), zero.size()), FRAME_MORE);
		one.data(LATER + 1, entry(cell_, 3), FRAME_LAST);
	}
	at_standby([&](fur::Heap &, follower *f, const uint64_t *cells) {
		for (int k = 0; k < 3; k++) {
			int n;
			while ((n = follow_step(f, 4)) > 0)
				continue;
			EXPECT_EQ(n, FUR_ETOOBIG);
			EXPECT_NE(std::string(fur_errormsg()).find("--for-standby"),
			        std::string::npos);
			EXPECT_EQ(cells[0], 1u);
		}
	});
}

TEST_F(FollowByHand, UpdatesThatMakeNoSense_AreNotApplied)
{
	const uint64_t range[2] = {
	        media_entry_word(8 << 20, MEDIA_ENTRY_RANGE), media_range_word(CHUNK_BYTES, 1)};
	const uint64_t bulk[4] = {media_entry_word(records_, MEDIA_ENTRY_BULK), 960, 1, 7};
	auto raw = [](const uint64_t *words, size_t n) {
		const auto *at = reinterpret_cast<const uint8_t *>(words);
		return Bytes(at, at + 8 * n);
	};
	for (unsigned kind = 0; kind < 4; kind++) {
		unlink(log_.c_str());
		{
			ByHand one(path_, log_, 1);
			Bytes entries = entry(cell_, 1);
			Bytes second;
			if (kind == 0)
				second = entry(options_.heap_bytes - 4, 1);
			if (kind == 1) { /* its bytes lie elsewhere */
				one.side(LATER, 9 << 20, Bytes(64), FRAME_FIRST);
				second = raw(range, 2);
			}
			if (kind == 2) /* not the first entry */
				second = raw(bulk, 4);
			entries.insert(entries.end(), second.begin(), second.end());
			if (kind == 3) { /* not the results of the check */
				one.side(LATER, records_, Bytes(960), FRAME_FIRST);
				entries = raw(bulk, 4);
			}
			one.data(LATER, entries, kind == 1 || kind == 3 ? FRAME_LAST : 0);
		}
		at_standby([&](fur::Heap &, follower *f, const uint64_t *cells) {
			EXPECT_EQ(follow_step(f, 100), FUR_ECORRUPT) << kind;
			EXPECT_EQ(cells[0], 0u) << kind;
		});
	}
}

/* The block of a bulk update that has not ended belongs to the primary. */
TEST_F(FollowByHand, BlockOfTheResults_StaysUntilThePrimaryFreesIt)
{
	{
		ByHand one(path_, log_, 1);
		one.data(LATER, entry(offsetof(heap_header, bulk), records_));
	}
	follow_all();
	at_standby([&](fur::Heap &heap, follower *, const uint64_t *) {
		std::thread([&] { fur::Thread other(heap); }).join();
		EXPECT_EQ(header(heap_base(heap.get()))->bulk, records_);
	});
}

} // namespace
