/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rejoin_test.cpp - a primary that was killed, and that another node has replaced, becomes a
 * standby without a copy (INV-SH61, INV-SH62).
 *
 * A child has the old primary, and ends without closing it.  The heaps are copies of each other,
 * so one process opens them one after the other.
 */
#include "attached.hpp"
#include "shop.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <thread>

/* Not 0: the process ends at this step, as if it were killed: a write-back, a write to the file at
 * lost_path, or that of the ship page. */
enum { KILLED = 9 };
static uint64_t steps_to_live, steps;
extern "C" {
void __real_pm_flush(struct pm *pm, const void *start, size_t bytes);
void __wrap_pm_flush(struct pm *pm, const void *start, size_t bytes);
int __real_system_write_pieces(int fd, const struct iovec *pieces, int n, uint64_t offset);
int __wrap_system_write_pieces(int fd, const struct iovec *pieces, int n, uint64_t offset);
int __real_heap_write_ship_page(struct heap_file *file, struct media_ship *ship);
int __wrap_heap_write_ship_page(struct heap_file *file, struct media_ship *ship);
}
static void take_step()
{
	if (++steps == steps_to_live)
		_exit(KILLED);
}
void __wrap_pm_flush(struct pm *pm, const void *start, size_t bytes)
{
	take_step();
	__real_pm_flush(pm, start, bytes);
}
int __wrap_system_write_pieces(int fd, const struct iovec *pieces, int n, uint64_t offset)
{
	take_step();
	return __real_system_write_pieces(fd, pieces, n, offset);
}
int __wrap_heap_write_ship_page(struct heap_file *file, struct media_ship *ship)
{
	take_step();
	return __real_heap_write_ship_page(file, ship);
}

namespace
{

using namespace ship_test; /* NOLINT */

enum : uint64_t { OLD = 11, NEW = 12, THIRD = 13 };

enum : uint64_t {
	FEW = 2000
}; /* a seed: too few updates for the position in the ship page to move */

/* What the child with the old primary tells: the number of the newest small update; all durTSs
 * below `shipped` were acknowledged, and all below `next` used. */
struct Told {
	uint64_t updates, shipped, next;
	uint64_t newest; /* the small updates' number, if some are not shipped; else 0 */
};

/* The updates in a log, as its readers take them. */
struct Content {
	uint64_t updates = 0, first = 0, last = 0; /* durTSs */
	uint64_t newest = 0;                       /* the value that the word at `at` gets last */
	uint64_t sides = 0;                        /* frames of memory that no log has */
	bool rises = true;
	void take(const frame_entries &e, const media_super *super, uint64_t at)
	{
		rises = rises && e.durts > last;
		first = updates++ ? first : e.durts;
		last = e.durts;
		const media_file file = {super, nullptr, nullptr, nullptr};
		const log_record record = {0, e.n, e.bytes};
		log_walk w = log_walk_record(&file, &record);
		while (log_walk_next(&w))
			if (w.entry.payload && w.entry.offset <= at &&
			        at + 8 <= w.entry.offset + w.entry.bytes)
				memcpy(&newest, w.entry.payload + (at - w.entry.offset), 8);
	}
};

class Rejoin : public HeapFile
{
protected:
	Rejoin() : standby_(path_ + "-standby"), log_(path_ + "-log"), lost_(lost_of(path_)) {}
	~Rejoin() override
	{
		for (const std::string &name :
		        {standby_, log_, lost_, lost_of(standby_), path_ + "-kept"})
			unlink(name.c_str());
	}
	void make(fur_pm pm = FUR_PM_EMULATED)
	{
		options_ = options_of_test();
		options_.pm = pm;
		{
			fur::Heap heap = create(options_);
			fur::Thread self(heap);
			make_shop(self);
			const auto *base = static_cast<char *>(heap_base(heap.get()));
			updates_at_ = static_cast<uint64_t>(
			        reinterpret_cast<char *>(&shop_of(self)->updates) - base);
		}
		std::filesystem::copy_file(path_, standby_);
		media_ship page = {};
		page.node = OLD;
		page.offset = STREAM_NO_OFFSET;
		ASSERT_EQ(write_role(path_, MEDIA_PRIMARY, page), 0) << fur_errormsg();
		page.node = NEW;
		ASSERT_EQ(write_role(standby_, MEDIA_STANDBY, page), 0) << fur_errormsg();
	}
	/* Work that is shipped, then work that is not, and the end, as if killed. */
	static void work_and_die(const std::string &path, const std::string &log,
	        const fur::Options &o, uint64_t seed, Told *told)
	{
		fur::Heap heap = fur::Heap::open(path, o);
		Attached attached(path, log);
		durability *d = &heap.get()->durability;
		std::thread ships([&] {
			if (shipper_run(&attached.shipper))
				give_up("shipper_run");
		});
		fur::Thread self(heap);
		Shop *shop = shop_of(self);
		Random random{seed};
		if (seed != FEW)
			mixed_work(self, shop, seed);
		for (unsigned n = 0; n < 20; n++)
			small_update(self, shop, random);
		const uint64_t before = updates_of(self, shop);
		auto stop = [&] {
			while (ship_acked(d) < ring_next(d))
				usleep(100);
			told->shipped = ship_acked(d);
			attached.stop();
			ships.join();
			d->ship.patience_ns = 1000000;
		};
		try {
			if (seed % 3 == 1) {
				bulk_update_while(self, shop, stop);
			} else {
				stop();
				fresh_block(self, shop);
			}
			for (uint64_t n = random.below(100); n > 0; n--)
				small_update(self, shop, random);
		} catch (const fur::Error &e) {
			if (e.code() != FUR_EBEHIND)
				throw;
		}
		told->updates = updates_of(self, shop);
		told->newest = told->updates > before ? told->updates : 0;
		told->next = ring_next(d);
		_exit(0);
	}
	static uint64_t updates_of(fur_thread *self, const Shop *shop)
	{
		return fur::read(self, [&](fur_ro *tx) { return fur_load(tx, &shop->updates); });
	}
	/* Replaces no block, so that it needs no replay. */
	static void fresh_block(fur_thread *self, Shop *shop)
	{
		const std::vector<uint8_t> data(150000, 77);
		fur::update(self, [&](fur_update *tx) {
			void *block = fur_alloc(tx, data.size());
			fur_write(tx, block, data.data(), data.size());
			fur_store(tx, reinterpret_cast<void **>(&shop->cell[0]), block);
		});
	}
	/* A bulk update, whose block the log has, and whose results it has not. */
	template <class Work>
	static void bulk_update_while(fur_thread *self, Shop *shop, Work &work)
	{
		struct Once {
			Work &work;
			bool done;
		} once = {work, false};
		const fur_extent all = {shop->records, 8, RECORDS};
		fur_bulk job;
		fur_bulk_init(&job);
		job.map = [](void *copy, size_t, uint64_t, void *arg) {
			auto *o = static_cast<Once *>(arg);
			if (!o->done)
				o->work();
			o->done = true;
			memset(copy, 0x55, 8);
			return true;
		};
		job.arg = &once;
		job.bytes = 8;
		job.extents = &all;
		job.n = 1;
		fur::check(fur_bulk_run(self, &job, nullptr));
	}
	static std::string lost_of(const std::string &path)
	{
		return path + "-lost";
	}
	Told kill_primary(const std::string &path, uint64_t seed)
	{
		auto *told = static_cast<Told *>(mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE,
		        MAP_SHARED | MAP_ANONYMOUS, -1, 0));
		in_killed_child([&] {
			try {
				work_and_die(path, log_, options_, seed, told);
			} catch (const std::exception &e) {
				fprintf(stderr, "%s\n", e.what());
			}
			_exit(1);
		});
		const Told result = *told;
		munmap(told, sizeof(Told));
		return result;
	}
	/* As a power failure would: what was shipped need not be durable here. */
	void lose_shipped(uint64_t seed, uint64_t end)
	{
		Random random{seed};
		heap_file file;
		uint64_t tail;
		ASSERT_EQ(heap_open_file(path_.c_str(), HEAP_LOCK_WORKER, &file), 0);
		ASSERT_EQ(heap_tail(&file, &tail), 0);
		const media_file view = media_file_of(&file.geometry, file.super);
		for (uint64_t durts = tail; durts < end; durts++)
			if (random.one_in(2))
				memset(log_marker(&view, durts), 0, file.geometry.slot_bytes);
		heap_close_file(&file);
	}
	void follow_all(const std::string &path)
	{
		fur::Heap heap = fur::Heap::open(path, options_);
		fur::Thread self(heap);
		stream_engine *engine;
		follower *f;
		ASSERT_EQ(engine_file_open(log_.c_str(), &engine), 0) << fur_errormsg();
		ASSERT_EQ(follow_begin(engine, heap.get(), &f), 0) << fur_errormsg();
		int n;
		while ((n = follow_step(f, 64)) > 0)
			continue;
		EXPECT_EQ(n, 0) << fur_errormsg();
		EXPECT_EQ(follow_end(f), 0) << fur_errormsg();
		engine->ops->close(engine);
		alloc_census census;
		EXPECT_EQ(alloc_check(heap_base(heap.get()), &census), 0) << fur_errormsg();
	}
	/* The node claims, and knows the stream up to there.  */
	stream_position claim(uint64_t node)
	{
		heap_file file;
		stream_engine *engine;
		writer w;
		std::vector<uint8_t> room(FRAME_MOST_BYTES);
		EXPECT_EQ(heap_open_file(standby_.c_str(), HEAP_LOCK_WORKER, &file), 0);
		EXPECT_EQ(engine_file_open(log_.c_str(), &engine), 0);
		writer_init(&w, file.geometry.uuid, node, nullptr);
		writer_start(&w, 4711, WRITER_TAKES_OVER);
		while (w.phase != WRITER_SHIPS && !HasFailure())
			EXPECT_GE(drive_turn(&w, engine, room.data(), 1), 0) << fur_errormsg();
		engine->ops->close(engine);
		heap_close_file(&file);
		return w.stream.whole;
	}
	/* The closed standby at `path` becomes the primary. */
	void promote(const std::string &path, uint64_t node)
	{
		const stream_position at = claim(node);
		follow_all(path);
		heap_file file;
		media_ship page;
		ASSERT_EQ(heap_open_file(path.c_str(), HEAP_LOCK_WORKER, &file), 0);
		ASSERT_EQ(heap_read_ship_page(&file.geometry, file.super, &page), 0);
		page.role = MEDIA_PRIMARY;
		page.term = at.term;
		page.lineage = at.lineage;
		page.frame = at.frame_no;
		page.chain = at.chain;
		page.offset = at.offset;
		page.durts = at.durts + 1;
		ASSERT_EQ(page.node, node);
		ASSERT_EQ(heap_write_ship_page(&file, &page), 0) << fur_errormsg();
		heap_close_file(&file);
	}
	template <class Work>
	void at_primary(const std::string &path, Work &&work)
	{
		fur::Heap heap = fur::Heap::open(path, options_);
		Attached attached(path, log_);
		int result = 1;
		std::thread ships([&] { result = shipper_run(&attached.shipper); });
		{
			fur::Thread self(heap);
			work(self, shop_of(self));
		}
		heap.close();
		attached.stop();
		ships.join();
		EXPECT_EQ(result, 0) << fur_errormsg();
	}
	/* In a child, which ends at this step; 0: at none.  Returns its exit status, and how many
	 * steps it has taken. */
	int rejoin_until(const std::string &path, uint64_t step, rejoin_result *result,
	        uint64_t *taken) const
	{
		struct Shared {
			rejoin_result result;
			uint64_t taken;
		};
		auto *shared = static_cast<Shared *>(mmap(nullptr, sizeof(Shared),
		        PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
		const pid_t child = fork();
		if (child == 0) {
			alarm(60);
			Attached attached(path, log_, HEAP_LOCK_WORKER);
			steps = 0;
			steps_to_live = step;
			const int error = attached.rejoin(lost_of(path).c_str(), &shared->result);
			if (error)
				fprintf(stderr, "%s\n", fur_errormsg());
			shared->taken = steps;
			_exit(error ? 1 : 0);
		}
		int status = 0;
		EXPECT_EQ(waitpid(child, &status, 0), child);
		EXPECT_TRUE(WIFEXITED(status)) << status;
		*result = shared->result;
		*taken = shared->taken;
		munmap(shared, sizeof(Shared));
		return WEXITSTATUS(status);
	}
	uint32_t role_of(const std::string &path)
	{
		heap_file file;
		media_ship page;
		EXPECT_EQ(heap_open_file(path.c_str(), HEAP_LOCK_WORKER, &file), 0);
		EXPECT_EQ(heap_read_ship_page(&file.geometry, file.super, &page), 0);
		EXPECT_EQ(page.role != MEDIA_STANDBY || file.super->state == MEDIA_CLOSED, true);
		heap_close_file(&file);
		return page.role;
	}
	/* Of the log at `path`; without parts. */
	Content content_of(const std::string &path)
	{
		Content all;
		heap_file file;
		stream_engine *engine;
		std::vector<uint8_t> message(FRAME_MOST_BYTES);
		EXPECT_EQ(heap_open_file(path_.c_str(), HEAP_LOCK_WORKER, &file), 0);
		EXPECT_EQ(engine_file_open(path.c_str(), &engine), 0) << fur_errormsg();
		stream s;
		stream_init(&s, file.geometry.uuid, nullptr);
		frame f;
		stream_judgement j;
		while (drive_read(engine, &s, message.data(), &f, &j) == 1 && !stream_is_fatal(j)) {
			frame_entries e;
			size_t at = 0;
			all.sides += j == STREAM_VALID && f.head.kind == FRAME_SIDE;
			while (j == STREAM_VALID && f.head.kind == FRAME_DATA &&
			        frame_next_update(&f, &at, &e))
				all.take(e, &file.geometry, updates_at_);
		}
		EXPECT_FALSE(stream_is_fatal(s.fatal)) << stream_text(s.fatal);
		engine->ops->close(engine);
		heap_close_file(&file);
		return all;
	}
	bool is_there(const std::string &path)
	{
		return access(path.c_str(), F_OK) == 0;
	}
	/* All that it had above what the log has is in the file, once. */
	void expect_lost(const Told &told, const rejoin_result &result)
	{
		const uint64_t first = result.kept + 1;
		EXPECT_GE(first, told.shipped);
		EXPECT_EQ(is_there(lost_), told.next > first);
		if (!is_there(lost_))
			return;
		const Content lost = content_of(lost_);
		EXPECT_TRUE(lost.rises);
		EXPECT_EQ(lost.updates, told.next - first);
		EXPECT_EQ(lost.first, first);
		EXPECT_EQ(lost.last, told.next - 1);
		EXPECT_EQ(lost.newest, told.newest);
	}

	fur::Options options_;
	std::string standby_, log_, lost_;
	uint64_t updates_at_ = 0;
};

/* Killed at each of the last steps, and at some before; each time from the same file on. */
TEST_F(Rejoin, KilledAtAnyInstant_FollowsAsIfItHadNeverBeenAhead)
{
	enum { LAST = 14, BEFORE = 6 };
	const std::string kept = path_ + "-kept";
	constexpr auto OVER = std::filesystem::copy_options::overwrite_existing;
	uint64_t sides = 0;
	for (uint64_t seed = 0; seed < rounds(uint64_t(6)) && !HasFailure(); seed++) {
		for (const std::string &name : {path_, standby_, log_, lost_})
			unlink(name.c_str());
		make(seed == 4 ? FUR_PM_SYNC : FUR_PM_EMULATED);
		const Told told = kill_primary(path_, seed);
		if (seed % 2)
			lose_shipped(seed, told.shipped);
		promote(standby_, NEW);
		at_primary(standby_,
		        [&](fur::Thread &self, Shop *shop) { mixed_work(self, shop, seed + 100); });
		std::filesystem::copy_file(path_, kept, OVER);
		uint64_t all, taken;
		rejoin_result result;
		ASSERT_EQ(rejoin_until(path_, 0, &result, &all), 0);
		EXPECT_EQ(result.dropped, told.next - result.kept - 1);
		expect_lost(told, result);
		sides += is_there(lost_) ? content_of(lost_).sides : 0;
		Random random{seed};
		for (uint64_t k = 0; k < LAST + BEFORE && !HasFailure(); k++) {
			const uint64_t step =
			        k < std::min<uint64_t>(LAST, all) ? all - k : 1 + random.below(all);
			std::filesystem::copy_file(kept, path_, OVER);
			unlink(lost_.c_str());
			ASSERT_EQ(rejoin_until(path_, step, &result, &taken), KILLED) << step;
			EXPECT_EQ(role_of(path_), MEDIA_PRIMARY) << step;
			/* And once more. */
			if (random.one_in(2)) {
				const int status =
				        rejoin_until(path_, 1 + random.below(all), &result, &taken);
				ASSERT_TRUE(status == KILLED || status == 0) << status;
				if (status == 0)
					continue;
			}
			ASSERT_EQ(rejoin_until(path_, 0, &result, &taken), 0) << step;
			EXPECT_EQ(role_of(path_), MEDIA_STANDBY);
			expect_lost(told, result);
			follow_all(path_);
			expect_equal(standby_, path_);
		}
	}
	/* Fresh blocks, and, from the second seed on, results of bulk updates. */
	EXPECT_GE(sides, rounds(uint64_t(6)) > 1 ? 2u : 1u);
}

/* Both ways, several times: each has been the primary, and has followed. */
TEST_F(Rejoin, TakesOverAgain)
{
	make();
	std::string primary = path_, other = standby_;
	uint64_t node = NEW, updates = 0;
	std::map<std::string, uint64_t> dropped;
	for (uint64_t round = 1; round <= 4 && !HasFailure(); round++) {
		const Told told = kill_primary(primary, round);
		EXPECT_GT(told.updates, updates);
		promote(other, node);
		at_primary(other, [&](fur::Thread &self, Shop *shop) {
			mixed_work(self, shop, round + 50);
			updates = updates_of(self, shop);
		});
		rejoin_result result;
		uint64_t taken;
		ASSERT_EQ(rejoin_until(primary, 0, &result, &taken), 0);
		EXPECT_GE(result.kept + 1, told.shipped);
		EXPECT_EQ(result.dropped, told.next - result.kept - 1);
		const std::string lost = lost_of(primary);
		dropped[lost] += result.dropped;
		EXPECT_EQ(is_there(lost) ? content_of(lost).updates : 0, dropped[lost]);
		follow_all(primary);
		expect_equal(other, primary);
		primary.swap(other);
		node = node == NEW ? OLD : NEW;
	}
}

/* Before it became the primary, a third node had claimed, and shipped nothing. */
TEST_F(Rejoin, ClaimsBeforeItsOwnDoNotCount)
{
	make();
	rejoin_result result;
	uint64_t taken;
	(void)kill_primary(path_, 3); /* no bulk update: its results would stay in free memory */
	claim(THIRD);
	promote(standby_, NEW);
	const Told told = kill_primary(standby_, FEW);
	ASSERT_EQ(rejoin_until(path_, 0, &result, &taken), 0);
	promote(path_, OLD);
	ASSERT_EQ(rejoin_until(standby_, 0, &result, &taken), 0);
	EXPECT_GE(result.kept + 1, told.shipped);
	EXPECT_EQ(result.dropped, told.next - result.kept - 1);
	follow_all(standby_);
	expect_equal(path_, standby_);
}

TEST_F(Rejoin, IsRefused_WhileTheHeapIsThePrimary_AndForAnOlderCopy)
{
	make();
	const std::string kept = path_ + "-kept";
	std::filesystem::copy_file(path_, kept);
	auto rejoin = [&](const char *message) {
		Attached attached(path_, log_, HEAP_LOCK_WORKER);
		rejoin_result result;
		const int error = attached.rejoin(nullptr, &result);
		EXPECT_NE(std::string(fur_errormsg()).find(message), std::string::npos)
		        << fur_errormsg();
		return error;
	};
	/* The log is empty. */
	EXPECT_EQ(rejoin("it is the primary"), FUR_EINVAL);
	/* Another node, and never this one. */
	claim(THIRD);
	EXPECT_EQ(rejoin("has written nothing"), FUR_ECORRUPT);
	unlink(log_.c_str());
	kill_primary(path_, 1);
	EXPECT_EQ(rejoin("it is the primary"), FUR_EINVAL);
	claim(THIRD);
	std::filesystem::copy_file(kept, path_, std::filesystem::copy_options::overwrite_existing);
	EXPECT_EQ(rejoin("older copy"), FUR_ECORRUPT);
	EXPECT_EQ(role_of(path_), MEDIA_PRIMARY);
}

} // namespace
