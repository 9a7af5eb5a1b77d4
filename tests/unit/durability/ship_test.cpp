/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ship_test.cpp - a heap whose updates are shipped (INV-SH1 to INV-SH5), and its ship page.  The
 * test is the shipper, and the shipping log.
 */
#include "fixture.hpp"
#include "internals.hpp"

#include "base/event.h"

#include <atomic>
#include <cstring>
#include <optional>
#include <thread>

namespace
{

enum : uint64_t { SHORT_NS = 1000000 };

class Shipped : public HeapFile
{
protected:
	Shipped()
	{
		fur::Heap heap = create();
		fur::Thread self(heap);
		fur::update(self, [&](fur_update *tx) {
			auto *p = static_cast<uint64_t *>(fur_alloc(tx, WORDS * 8));
			const std::vector<uint64_t> zero(WORDS);
			fur_write(tx, p, zero.data(), WORDS * 8);
			fur_set_root(tx, 0, p);
		});
	}
	int write_page(media_role role, uint64_t term = 0)
	{
		heap_file file;
		media_ship ship = {};
		ship.role = role;
		ship.term = term;
		int error = heap_open_file(path_.c_str(), HEAP_LOCK_WORKER, &file);
		EXPECT_EQ(error, 0) << fur_errormsg();
		if (error)
			return error;
		error = heap_write_ship_page(&file, &ship);
		heap_close_file(&file);
		return error;
	}
	media_ship read_page()
	{
		heap_file file;
		media_ship ship = {};
		EXPECT_EQ(heap_open_file(path_.c_str(), HEAP_LOCK_WORKER, &file), 0);
		EXPECT_EQ(media_ship_read(&file.geometry, file.super, &ship), 0);
		heap_close_file(&file);
		return ship;
	}
	/* Open the heap, which is a primary. */
	void start()
	{
		ASSERT_EQ(write_page(MEDIA_PRIMARY), 0) << fur_errormsg();
		heap_.emplace(open());
		self_.emplace(*heap_);
		p_ = fur::read(*self_,
		        [](fur_ro *tx) { return static_cast<uint64_t *>(fur_root(tx, 0)); });
	}
	int close()
	{
		self_.reset();
		try {
			heap_->close();
		} catch (const fur::Error &e) {
			heap_.reset();
			return e.code();
		}
		heap_.reset();
		return 0;
	}
	durability *log()
	{
		return &heap_->get()->durability;
	}
	void acknowledge_all()
	{
		ship_acknowledge(log(), ring_next(log()));
	}
	int store(uint64_t value)
	{
		fur_update *tx;
		const int error = fur_begin_update(*self_, &tx);
		if (error)
			return error;
		fur_store(tx, p_, value);
		return fur_commit(tx, nullptr);
	}
	uint64_t load()
	{
		return fur::read(*self_, [&](fur_ro *tx) { return fur_load(tx, p_); });
	}
	uint64_t in_image()
	{
		const auto *heap = static_cast<char *>(heap_base(heap_->get()));
		uint64_t value;
		memcpy(&value, log()->image + (reinterpret_cast<char *>(p_) - heap), sizeof value);
		return value;
	}

	enum { WORDS = 64 };
	std::optional<fur::Heap> heap_;
	std::optional<fur::Thread> self_;
	uint64_t *p_ = nullptr;
};

/* A shipper in a thread, attached to the file as another process would be: what it reads is in the
 * log at once. */
class Shipper
{
public:
	explicit Shipper(const std::string &path)
	{
		if (heap_open_file(path.c_str(), HEAP_LOCK_NONE, &file_) ||
		        heap_attach_to_replay(&d_, &file_))
			abort();
		d_.replays_for_worker = true;
		thread_ = std::thread([this] { ship(); });
	}
	~Shipper()
	{
		arch_store32_release(&stopping_, 1);
		ship_call_shipper(&d_);
		thread_.join();
		durability_detach(&d_);
		heap_close_file(&file_);
	}
	Shipper(const Shipper &) = delete;

private:
	void ship()
	{
		uint64_t next = ship_acked(&d_);
		media_marker marker;
		ship_begin(&d_);
		while (!arch_load32_acquire(&stopping_)) {
			while (ship_read(&d_, next, &marker) == 0)
				ship_acknowledge(&d_, ++next);
			EXPECT_EQ(ship_await_updates(&d_, next, &stopping_, 0), 0);
		}
	}

	heap_file file_;
	durability d_;
	uint32_t stopping_ = 0;
	std::thread thread_;
};

/* --------------------------------------------------------------------- page */

TEST_F(Shipped, PageHasTheNewestOfItsCopies)
{
	EXPECT_EQ(read_page().role, MEDIA_NO_ROLE);
	ASSERT_EQ(write_page(MEDIA_PRIMARY, 1), 0);
	ASSERT_EQ(write_page(MEDIA_PRIMARY, 2), 0);
	EXPECT_EQ(read_page().term, 2u);
	/* Tear the copy that counts: the older one is there. */
	flip_bit(MEDIA_SHIP_OFFSET + sizeof(media_ship) + offsetof(media_ship, term), 3);
	EXPECT_EQ(read_page().term, 1u);
	ASSERT_EQ(write_page(MEDIA_PRIMARY, 3), 0);
	EXPECT_EQ(read_page().term, 3u);
	/* And the other one. */
	flip_bit(MEDIA_SHIP_OFFSET + offsetof(media_ship, term), 3);
	flip_bit(MEDIA_SHIP_OFFSET + sizeof(media_ship) + offsetof(media_ship, chain), 0);
	expect_refused(FUR_ECORRUPT);
}

TEST_F(Shipped, PageOfAnotherHeapDoesNotCount)
{
	ASSERT_EQ(write_page(MEDIA_PRIMARY, 1), 0);
	const std::string page = bytes().substr(MEDIA_SHIP_OFFSET, 2 * sizeof(media_ship));
	unlink(path_.c_str());
	(void)create();
	ASSERT_EQ(write_page(MEDIA_PRIMARY, 9), 0);
	poke(MEDIA_SHIP_OFFSET, page.data(), page.size());
	expect_refused(FUR_ECORRUPT);
}

TEST_F(Shipped, RoleIsOfAClosedHeapWithARingThatIsLongEnough)
{
	in_killed_child([&] {
		fur::Heap heap = open();
		(void)new fur::Heap(std::move(heap)); /* not closed */
	});
	EXPECT_EQ(write_page(MEDIA_PRIMARY), FUR_EBUSY);
	unlink(path_.c_str());
	fur::Options o = small_options();
	o.max_threads = 16; /* of 64 slots, 4 each */
	(void)create(o);
	EXPECT_EQ(write_page(MEDIA_PRIMARY), FUR_EINVAL);
	EXPECT_NE(std::string(fur_errormsg()).find("--ring-slots"), std::string::npos);
}

/* --------------------------------------------------------------- admission */

TEST_F(Shipped, WithoutAShipper_UpdatesAreRefused_AndReadersGoOn)
{
	start();
	log()->ship.patience_ns = SHORT_NS;
	EXPECT_EQ(store(1), FUR_EBEHIND);
	EXPECT_NE(std::string(fur_errormsg()).find("fur-ship"), std::string::npos);
	EXPECT_EQ(load(), 0u);
	ship_begin(log());
	EXPECT_EQ(store(2), 0) << fur_errormsg();
	EXPECT_EQ(load(), 2u);
	acknowledge_all();
}

TEST_F(Shipped, FullRing_UpdatesWaitAtTheirBegin_UntilTheLogAcknowledges)
{
	start();
	ship_begin(log());
	log()->ship.patience_ns = SHORT_NS;
	const uint64_t acked = ship_acked(log());
	uint64_t stored = 0;
	int error;
	while ((error = store(stored + 1)) == 0)
		ASSERT_LT(++stored, log()->super->ring_slots);
	EXPECT_EQ(error, FUR_EBEHIND);
	EXPECT_GE(stored, log()->super->ring_slots / 2);
	EXPECT_EQ(ring_tail(log()), acked); /* INV-SH1 */
	EXPECT_EQ(in_image(), 0u);
	EXPECT_EQ(load(), stored);
	ship_acknowledge(log(), acked + 2);
	EXPECT_EQ(store(stored + 1), 0) << fur_errormsg();
	EXPECT_LE(ring_tail(log()), acked + 2);
	acknowledge_all();
}

TEST_F(Shipped, FullLog_ItsThreadWaitsAtItsBegin)
{
	start();
	ship_begin(log());
	log()->ship.patience_ns = SHORT_NS;
	const uint64_t bytes = log()->super->log_bytes;
	const std::vector<uint8_t> data(bytes / 8, 1);
	auto large = [&] {
		fur_update *tx;
		const int error = fur_begin_update(*self_, &tx);
		if (error)
			return error;
		for (int k = 0; k < 8; k++)
			fur_write(tx, p_, data.data(), WORDS * 8 / 2);
		return fur_commit(tx, nullptr);
	};
	int error = 0;
	for (unsigned k = 0; k < 16 && !error; k++)
		error = large();
	EXPECT_EQ(error, FUR_EBEHIND);
	EXPECT_LT(ring_next(log()) - ring_tail(log()), log()->super->ring_slots / 2);
	/* Another thread has a log of its own. */
	std::thread([&] {
		fur::Thread other(*heap_);
		fur::update(other, [&](fur_update *tx) { fur_store(tx, p_ + 1, uint64_t(5)); });
	}).join();
	acknowledge_all();
	EXPECT_EQ(large(), 0) << fur_errormsg();
	acknowledge_all();
}

TEST_F(Shipped, UpdateLargerThanWhatIsFree_FailsAndIsRolledBack)
{
	start();
	ship_begin(log());
	log()->ship.patience_ns = SHORT_NS;
	const std::vector<uint64_t> data(WORDS, 7);
	ASSERT_EQ(store(3), 0);
	/* More than a log holds, next to what is not acknowledged.  An update in hardware begins
	 * again when its log is full, and then waits for room at its begin. */
	const int error = [&] {
		fur_update *tx;
		if (const int begun = fur_begin_update(*self_, &tx))
			return begun;
		for (uint64_t k = 0; k < log()->super->log_bytes / (WORDS * 8); k++)
			fur_write(tx, p_, data.data(), WORDS * 8);
		return fur_commit(tx, nullptr);
	}();
	EXPECT_TRUE(error == FUR_EBEHIND || error == FUR_ETOOBIG) << fur_errormsg();
	EXPECT_EQ(load(), 3u);
	EXPECT_EQ(store(4), 0) << fur_errormsg();
	acknowledge_all();
}

/* --------------------------------------------------------------- what returns */

TEST_F(Shipped, Replicated_WithoutAnAcknowledgement_ResultsAreInDoubt)
{
	start();
	ship_begin(log());
	log()->ship.replicates = true;
	log()->ship.patience_ns = SHORT_NS;
	EXPECT_EQ(store(1), FUR_EINDOUBT);
	fur_ro *ro;
	ASSERT_EQ(fur_begin_ro(*self_, &ro), 0);
	EXPECT_EQ(fur_load(ro, p_), 1u); /* it is not rolled back */
	EXPECT_EQ(fur_end_ro(ro, nullptr), FUR_EINDOUBT);
	EXPECT_EQ(fur_sync(heap_->get()), FUR_EINDOUBT);
	fur_snapshot *snapshot;
	EXPECT_EQ(fur_snapshot_begin(*self_, &snapshot), FUR_EINDOUBT);
	EXPECT_EQ(snapshot, nullptr);
	acknowledge_all();
	EXPECT_EQ(load(), 1u);
	EXPECT_EQ(fur_sync(heap_->get()), 0);
}

TEST_F(Shipped, Replicated_TicketsCoverTheLog)
{
	start();
	ship_begin(log());
	log()->ship.replicates = true;
	log()->ship.patience_ns = SHORT_NS;
	fur_ticket ticket{};
	fur::update(*self_, ticket, [&](fur_update *tx) { fur_store(tx, p_, uint64_t(4)); });
	EXPECT_EQ(fur_wait(*self_, ticket), FUR_EINDOUBT);
	fur_ticket read{};
	EXPECT_EQ(fur::read(*self_, read, [&](fur_ro *tx) { return fur_load(tx, p_); }), 4u);
	EXPECT_EQ(fur_wait(*self_, read), FUR_EINDOUBT);
	acknowledge_all();
	EXPECT_EQ(fur_wait(*self_, ticket), 0) << fur_errormsg();
	EXPECT_EQ(fur_wait(*self_, read), 0);
}

TEST_F(Shipped, Fence_TellsExactlyWhatTheLogHas)
{
	start();
	ship_begin(log());
	ASSERT_EQ(store(1), 0);
	acknowledge_all();
	ASSERT_EQ(store(2), 0);
	ship_fence(log());
	log()->ship.replicates = true;
	/* Of the reads, this one's is in the log. */
	EXPECT_EQ(ship_wait(log(), ship_acked(log())), 0);
	EXPECT_EQ(ship_wait(log(), ship_acked(log()) + 1), FUR_EFENCED);
	EXPECT_EQ(store(3), FUR_EFENCED);
	fur_ro *ro;
	EXPECT_EQ(fur_begin_ro(*self_, &ro), FUR_EFENCED);
	EXPECT_EQ(close(), FUR_EFENCED);
}

/* ------------------------------------------------------- close, copy, recover */

TEST_F(Shipped, Close_ReplaysWhatIsAcknowledged)
{
	start();
	{
		const Shipper shipper(path_);
		for (uint64_t k = 1; k <= 1000; k++)
			ASSERT_EQ(store(k), 0) << fur_errormsg();
		EXPECT_EQ(close(), 0) << fur_errormsg();
	}
	start();
	EXPECT_EQ(load(), 1000u);
}

TEST_F(Shipped, CloseWithoutTheLog_KeepsIt_AndOnlyFurShipRecovers)
{
	start();
	ship_begin(log());
	ASSERT_EQ(store(1), 0);
	log()->ship.patience_ns = SHORT_NS;
	EXPECT_EQ(close(), FUR_EBEHIND);
	EXPECT_NE(std::string(fur_errormsg()).find("log is kept"), std::string::npos);
	expect_refused(FUR_EBUSY); /* INV-SH4 */
	EXPECT_NE(std::string(fur_errormsg()).find("fur-ship"), std::string::npos);
	fur_heap *copy;
	EXPECT_EQ(fur_open_copy(path_.c_str(), nullptr, &copy), FUR_EBUSY);
}

TEST_F(Shipped, CopyHasWhatHadReturned_AndNoRole)
{
	start();
	ship_begin(log());
	ASSERT_EQ(store(1), 0);
	log()->ship.patience_ns = SHORT_NS;
	const std::string copy = path_ + "-copy";
	EXPECT_EQ(fur_backup(heap_->get(), copy.c_str()), FUR_EBEHIND);
	EXPECT_NE(access(copy.c_str(), F_OK), 0);
	acknowledge_all();
	ASSERT_EQ(fur_backup(heap_->get(), copy.c_str()), 0) << fur_errormsg();
	self_.reset();
	heap_.reset();
	{
		fur::Heap heap = fur::Heap::open(copy, small_options());
		fur::Thread self(heap);
		EXPECT_EQ(fur::read(self,
		                  [](fur_ro *tx) {
			                  return fur_load(
			                          tx, static_cast<uint64_t *>(fur_root(tx, 0)));
		                  }),
		        1u);
		fur::update(self, [](fur_update *tx) {
			fur_store(tx, static_cast<uint64_t *>(fur_root(tx, 0)), uint64_t(2));
		});
	}
	unlink(copy.c_str());
}

/* ----------------------------------------------------------- many at a time */

class ShippedInDomain : public Shipped, public ::testing::WithParamInterface<fur_pm>
{
};

/* Writers wait for the shipper, and it for them: no call may be lost. */
TEST_P(ShippedInDomain, WritersAndReaders_ReturnWhatIsAcknowledged)
{
	fur::Options o = small_options();
	o.pm = GetParam();
	ASSERT_EQ(write_page(MEDIA_PRIMARY), 0);
	heap_.emplace(open(o));
	log()->ship.replicates = true;
	const uint64_t each = rounds(2000);
	{
		const Shipper shipper(path_);
		std::vector<std::thread> threads;
		for (unsigned t = 0; t < 3; t++)
			threads.emplace_back([&, t] {
				fur::Thread self(*heap_);
				for (uint64_t k = 1; k <= each; k++) {
					if (k % 4 == 0) {
						fur::read(self, [&](fur_ro *tx) {
							return fur_root(tx, 0);
						});
						continue;
					}
					fur_ticket ticket{};
					auto body = [&](fur_update *tx) {
						auto *p = static_cast<uint64_t *>(fur_root(tx, 0));
						fur_store(tx, p + t, k);
					};
					if (k % 4 == 1)
						fur::update(self, ticket, body);
					else
						fur::update(self, body);
					if (k % 4 == 1 && k % 8 == 1)
						fur::wait(self, ticket);
				}
			});
		for (auto &t : threads)
			t.join();
		EXPECT_EQ(fur_sync(heap_->get()), 0) << fur_errormsg();
		EXPECT_EQ(ship_acked(log()), ring_next(log()));
		EXPECT_LE(ring_tail(log()), ship_acked(log()));
	}
	heap_.reset();
	start();
	for (unsigned t = 0; t < 3; t++)
		EXPECT_EQ(fur::read(*self_, [&](fur_ro *tx) { return fur_load(tx, p_ + t); }),
		        each - (each % 4 == 0));
}

/* Memory that is not in the log: blocks larger than it. */
TEST_P(ShippedInDomain, FreshBlocks_WaitUntilTheLogHasWhatGaveTheirMemory)
{
	fur::Options o = small_options();
	o.pm = GetParam();
	ASSERT_EQ(write_page(MEDIA_PRIMARY), 0);
	heap_.emplace(open(o));
	const Shipper shipper(path_);
	self_.emplace(*heap_);
	const std::vector<uint8_t> data(200000, 9);
	for (int k = 0; k < 20; k++) {
		fur::update(*self_, [&](fur_update *tx) {
			auto *p = static_cast<void **>(fur_root(tx, 0));
			void *block = fur_alloc(tx, data.size());
			if (block)
				fur_write(tx, block, data.data(), data.size());
			fur_store(tx, p, block);
		});
		fur::update(*self_, [&](fur_update *tx) {
			fur_free(tx, fur_load(tx, static_cast<void **>(fur_root(tx, 0))));
		});
	}
	EXPECT_EQ(fur_sync(heap_->get()), 0);
	/* Before the shipper ends: it waits until the log has the last of them. */
	EXPECT_EQ(close(), 0) << fur_errormsg();
}

INSTANTIATE_TEST_SUITE_P(Pm, ShippedInDomain, ::testing::Values(FUR_PM_EMULATED, FUR_PM_SYNC));

} // namespace
