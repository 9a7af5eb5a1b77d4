/* SPDX-License-Identifier: BSD-3-Clause
 *
 * nesting_test.cpp - a thread has one transaction open: what begins inside it, what joins it, what
 * tells of it, and what ends it when its handle is lost.  Without hardware, and with the best that
 * the machine has.
 */
#include "fixture.hpp"
#include "internals.hpp"

#include <fur/root.hpp>
#include <fur_map.h>

#include <atomic>
#include <functional>
#include <thread>

namespace
{

[[noreturn]] void never_leaves()
{
	abort();
}

class Nesting : public OpenHeap, public ::testing::WithParamInterface<fur_htm>
{
protected:
	Nesting() : OpenHeap(options()) {}
	static fur::Options options()
	{
		fur::Options o = small_options();
		o.htm = GetParam();
		return o;
	}
	static bool says(const char *text)
	{
		return std::string(fur_errormsg()).find(text) != std::string::npos;
	}
	int open_now()
	{
		return fur_thread_transaction(self_);
	}
	/* The code of the Error that it throws. */
	static int thrown(const std::function<void()> &work)
	{
		try {
			work();
		} catch (const fur::Error &e) {
			return e.code();
		}
		return 0;
	}
	static void never(fur_update *, void *)
	{
		ADD_FAILURE() << "the body ran";
	}
	/* Nothing that begins an update begins one.  `says_too`: their messages have it. */
	void expect_no_update_begins(const char *says_too)
	{
		auto *some = reinterpret_cast<fur_update *>(this);
		fur_update *tx = some;
		EXPECT_EQ(fur_begin_update(self_, &tx), FUR_ENESTED);
		EXPECT_EQ(tx, nullptr);
		EXPECT_TRUE(says("fur_begin_update was") && says(says_too)) << fur_errormsg();
		EXPECT_TRUE(says("fur_thread_abandon")) << fur_errormsg();
		tx = some;
		EXPECT_EQ(fur_begin_update_leaving(self_, &tx, never_leaves, false), FUR_ENESTED);
		EXPECT_EQ(tx, nullptr);
		EXPECT_TRUE(says("open: end that first;")) << fur_errormsg();
		EXPECT_EQ(fur_update_run(self_, never, nullptr, nullptr), FUR_ENESTED);
		EXPECT_TRUE(says("fur_update_run was") && says(says_too)) << fur_errormsg();
		fur_ticket ticket{7, 7};
		struct fur_run how = {sizeof how, nullptr, never_leaves};
		EXPECT_EQ(fur_update_run(self_, never, nullptr, &how), FUR_ENESTED);
		EXPECT_TRUE(says(says_too)) << fur_errormsg();
		how = {sizeof how, &ticket, nullptr};
		EXPECT_EQ(fur_update_run(self_, never, nullptr, &how), FUR_ENESTED);
		EXPECT_TRUE(says(says_too)) << fur_errormsg();
		EXPECT_EQ(ticket.source | ticket.number, 0u);
		auto body = [](fur_update *u) { never(u, nullptr); };
		EXPECT_EQ(thrown([&] { fur::update(self_, body); }), FUR_ENESTED);
		EXPECT_EQ(thrown([&] { fur::update(self_, ticket, body); }), FUR_ENESTED);
		EXPECT_EQ(thrown([&] { fur::update(self_, fur::rerun, body); }), FUR_ENESTED);
		EXPECT_EQ(
		        thrown([&] { fur::update(self_, fur::rerun, ticket, body); }), FUR_ENESTED);
	}
	void expect_no_read_begins()
	{
		auto *ro = reinterpret_cast<fur_ro *>(this);
		/* What has transactions of its own. */
		EXPECT_EQ(thrown([&] { fur::root<uint64_t>(self_, "n"); }), FUR_ENESTED);
		EXPECT_EQ(thrown([&] { fur::remove_root(self_, "n"); }), FUR_ENESTED);
		EXPECT_EQ(fur_begin_ro(self_, &ro), FUR_ENESTED);
		EXPECT_EQ(ro, nullptr);
		EXPECT_TRUE(says("fur_join_ro")) << fur_errormsg();
		fur_ticket ticket{};
		auto body = [](fur_ro *) { ADD_FAILURE() << "the body ran"; };
		EXPECT_EQ(thrown([&] { fur::read(self_, body); }), FUR_ENESTED);
		EXPECT_EQ(thrown([&] { fur::read(self_, ticket, body); }), FUR_ENESTED);
	}
	uint64_t other_gets(uint64_t *p)
	{
		uint64_t value = 0;
		std::thread([&] {
			fur::Thread t(heap_);
			value = fur::read(t, [&](fur_ro *tx) { return fur_load(tx, p); });
		}).join();
		return value;
	}
	/* Nothing is open, so both kinds begin, and others go on. */
	void expect_sound()
	{
		EXPECT_EQ(open_now(), FUR_TRANSACTION_NONE);
		static uint64_t n;
		n++;
		fur::update(self_, [&](fur_update *tx) { fur_store(tx, &p_[7], n); });
		EXPECT_EQ(fur::read(self_, [&](fur_ro *tx) { return fur_load(tx, &p_[7]); }), n);
		std::thread([&] {
			fur::Thread t(heap_);
			fur::update(t, [&](fur_update *tx) { fur_store(tx, &p_[7], n + 1); });
		}).join();
		EXPECT_EQ(p_[7], n + 1);
	}

	uint64_t *p_ = block(8);
};

/* ------------------------------------------------------------------ refusals */

TEST_P(Nesting, InsideAnUpdate_EveryBeginIsRefused_AndTheUpdateGoesOn)
{
	fur_update *tx = begin();
	fur_store(tx, &p_[0], uint64_t{1});
	expect_no_update_begins("fur_join_update");
	expect_no_read_begins();
	fur_store(tx, &p_[1], uint64_t{2});
	EXPECT_EQ(fur_commit(tx, nullptr), 0) << fur_errormsg();
	EXPECT_EQ(other_gets(&p_[0]) + other_gets(&p_[1]), 3u);
	expect_sound();
}

TEST_P(Nesting, InsideABody_EveryBeginIsRefused_AndTheUpdateGoesOn)
{
	auto body = [&](fur_update *tx) {
		fur_store(tx, &p_[0], fur_load(tx, &p_[0]) + 1);
		expect_no_update_begins("fur_join_update");
		expect_no_read_begins();
	};
	fur_ticket ticket{};
	fur::update(self_, body);
	fur::update(self_, ticket, body);
	fur::update(self_, fur::rerun, body);
	fur::update(self_, fur::rerun, ticket, body);
	EXPECT_EQ(other_gets(&p_[0]), 4u);
	expect_sound();
}

TEST_P(Nesting, InsideARead_EveryBeginIsRefused)
{
	fur_ro *ro = begin_ro();
	expect_no_update_begins("read-only transaction open");
	expect_no_read_begins();
	fur_update *tx;
	EXPECT_EQ(fur_join_update(self_, &tx), FUR_ENESTED);
	EXPECT_EQ(tx, nullptr);
	EXPECT_EQ(fur_end_ro(ro, nullptr), 0);
	expect_sound();
}

TEST_P(Nesting, NullAndForeign_AreRefusedByJoins)
{
	fur_thread *mine = self_;
	auto expect_refused = [](fur_thread *t) {
		fur_update *tx;
		fur_ro *ro;
		EXPECT_EQ(fur_join_update(t, &tx), FUR_EINVAL);
		EXPECT_EQ(tx, nullptr);
		EXPECT_EQ(fur_join_ro(t, &ro), FUR_EINVAL);
		EXPECT_EQ(ro, nullptr);
		EXPECT_EQ(fur_thread_transaction(t), FUR_EINVAL);
		EXPECT_EQ(fur_thread_abandon(t), FUR_EINVAL);
	};
	expect_refused(nullptr);
	EXPECT_EQ(fur_join_update(self_, nullptr), FUR_EINVAL);
	EXPECT_EQ(fur_join_ro(self_, nullptr), FUR_EINVAL);
	for (bool open : {false, true}) {
		fur_update *tx = open ? begin() : nullptr;
		std::thread([&] { expect_refused(mine); }).join();
		if (open) {
			EXPECT_EQ(open_now(), FUR_TRANSACTION_UPDATE);
			EXPECT_EQ(fur_commit(tx, nullptr), 0);
		}
	}
	EXPECT_EQ(fur_thread_unregister(mine), 0);
	expect_refused(mine);
	self_ = fur::Thread(heap_);
	expect_sound();
}

/* ------------------------------------------------------- inside a transaction */

TEST_P(Nesting, WhatWaits_IsRefusedInsideATransaction_WhichGoesOn)
{
	fur_ticket ticket{};
	fur::read(self_, ticket, [](fur_ro *) {});
	auto expect_refused = [&] {
		int result = 5;
		fur_map *map;
		fur_thread *again;
		auto scan = [](fur_heap *, void *) { return 1; };
		const std::string copy = path_ + "-copy";
		EXPECT_EQ(fur_backup(heap_, copy.c_str()), FUR_ENESTED);
		EXPECT_TRUE(says("fur_backup was") && says("end that first")) << fur_errormsg();
		EXPECT_NE(access(copy.c_str(), F_OK), 0) << "there is a copy";
		EXPECT_EQ(fur_scan(heap_, scan, nullptr, &result), FUR_ENESTED);
		EXPECT_EQ(result, 5);
		EXPECT_EQ(fur_sync(heap_), FUR_ENESTED);
		EXPECT_EQ(fur_wait(self_, ticket), FUR_ENESTED);
		EXPECT_EQ(fur_map_root(self_, "map", FUR_MAP_HASH, &map), FUR_ENESTED);
		EXPECT_TRUE(says("fur_map_") && says("end that first")) << fur_errormsg();
		EXPECT_EQ(fur_map_find_root(self_, "map", FUR_MAP_HASH, &map), FUR_ENESTED);
		EXPECT_EQ(fur_map_remove_root(self_, "map"), FUR_ENESTED);
		EXPECT_EQ(fur_thread_unregister(self_), FUR_EBUSY);
		EXPECT_EQ(fur_close(heap_.get()), FUR_EBUSY);
		/* These work. */
		EXPECT_EQ(fur_thread_register(heap_, nullptr, &again), 0);
		EXPECT_EQ(again, self_.get());
		EXPECT_EQ(fur_grow(heap_, 1 << 20), 0);
		EXPECT_EQ(heap_.info().heap_bytes, uint64_t{2} << 20);
	};
	fur::update(self_, [&](fur_update *tx) {
		fur_store(tx, &p_[0], uint64_t{1});
		expect_refused();
		fur_store(tx, &p_[1], uint64_t{2});
	});
	fur::read(self_, [&](fur_ro *tx) {
		expect_refused();
		EXPECT_EQ(fur_load(tx, &p_[0]) + fur_load(tx, &p_[1]), 3u);
	});
	expect_sound();
}

TEST_P(Nesting, Grow_InsideATransaction)
{
	heap_.close();
	unlink(path_.c_str());
	fur::Options o = options();
	o.max_bytes = 64 << 20;
	heap_ = create(o);
	self_ = fur::Thread(heap_);
	p_ = block(8);
	uint64_t bytes = 4 << 20;
	fur::read(self_, [&](fur_ro *) { EXPECT_EQ(fur_grow(heap_, bytes), 0); });
	EXPECT_GE(heap_size(heap_), bytes);
	void *there = nullptr;
	fur::update(self_, [&](fur_update *tx) {
		fur_store(tx, &p_[0], uint64_t{1});
		EXPECT_EQ(fur_grow(heap_, 8 << 20), 0);
		there = fur_alloc(tx, 5 << 20);
	});
	EXPECT_NE(there, nullptr);
	EXPECT_EQ(p_[0], 1u);
	expect_sound();
}

TEST_P(Nesting, UpdateError_OfAnUpdateThatHasEnded)
{
	fur_update *tx = begin();
	fur_store_bits(tx, p_, 1, 9);
	EXPECT_EQ(fur_update_error(tx), FUR_EINVAL);
	EXPECT_EQ(fur_commit(tx, nullptr), FUR_EINVAL);
	EXPECT_EQ(fur_update_error(tx), FUR_ENOTX);
	EXPECT_TRUE(says("fur_update_error without fur_begin_update")) << fur_errormsg();
	tx = begin();
	EXPECT_EQ(fur_update_error(tx), 0);
	EXPECT_EQ(fur_commit(tx, nullptr), 0);
	EXPECT_EQ(fur_update_error(tx), FUR_ENOTX);
	expect_sound();
}

/* --------------------------------------------------------------------- joins */

TEST_P(Nesting, Join_WithNothingOpen_Begins)
{
	fur_update *tx = join();
	EXPECT_EQ(open_now(), FUR_TRANSACTION_UPDATE);
	fur_store(tx, &p_[0], uint64_t{1});
	EXPECT_EQ(fur_commit(tx, nullptr), 0);
	EXPECT_EQ(other_gets(&p_[0]), 1u);
	fur_ro *ro = join_ro();
	EXPECT_EQ(open_now(), FUR_TRANSACTION_READ_ONLY);
	EXPECT_EQ(fur_end_ro(ro, nullptr), 0);
	EXPECT_EQ(fur_end_ro(ro, nullptr), FUR_ENOTX);
	expect_sound();
}

TEST_P(Nesting, Join_TheOutermostEndDecides)
{
	for (bool commit : {true, false}) {
		fur_update *outer = begin(), *inner = join(), *third = join();
		EXPECT_EQ(inner, outer);
		fur_store(third, &p_[0], uint64_t{commit});
		EXPECT_EQ(fur_commit(third, nullptr), 0);
		EXPECT_EQ(fur_commit(inner, nullptr), 0);
		EXPECT_EQ(open_now(), FUR_TRANSACTION_UPDATE);
		EXPECT_EQ(commit ? fur_commit(outer, nullptr) : fur_abort(outer),
		        commit ? 0 : FUR_EABORTED);
		EXPECT_EQ(other_gets(&p_[0]), 1u);
		EXPECT_EQ(fur_commit(outer, nullptr), FUR_ENOTX);
		expect_sound();
	}
}

TEST_P(Nesting, Join_AFailureInside_IsTheOutermostsResult)
{
	static uint64_t outside;
	for (int code : {FUR_EABORTED, FUR_ERANGE}) {
		fur_update *outer = begin(), *inner = join();
		fur_store(inner, &p_[0], uint64_t{1});
		if (code == FUR_ERANGE) {
			fur_store(inner, &outside, uint64_t{1});
			EXPECT_EQ(fur_commit(inner, nullptr), 0);
		} else {
			EXPECT_EQ(fur_abort(inner), code);
		}
		EXPECT_EQ(fur_update_error(outer), code);
		inner = join();
		EXPECT_EQ(fur_update_error(inner), code) << "of an update that has failed";
		EXPECT_EQ(fur_commit(inner, nullptr), 0);
		EXPECT_EQ(fur_commit(outer, nullptr), code);
		EXPECT_EQ(other_gets(&p_[0]), 0u);
		expect_sound();
	}
}

TEST_P(Nesting, JoinUpdate_OfFurHpp)
{
	auto add = [&](uint64_t n) {
		return fur::join_update(self_, [&](fur_update *tx) {
			fur_store(tx, &p_[0], fur_load(tx, &p_[0]) + n);
			return fur_load(tx, &p_[0]);
		});
	};
	EXPECT_EQ(add(1), 1u);
	fur::update(self_, [&](fur_update *) { EXPECT_EQ(add(2) + add(4), 3u + 7u); });
	fur::update(self_, fur::rerun, [&](fur_update *) { EXPECT_EQ(add(8), 15u); });
	EXPECT_EQ(other_gets(&p_[0]), 15u);
	/* The outer update cannot keep what an inner one has given up. */
	EXPECT_EQ(thrown([&] {
		fur::update(self_, [&](fur_update *) {
			add(16);
			EXPECT_THROW(fur::join_update(self_, [](fur_update *) { throw 1; }), int);
		});
	}),
	        FUR_EABORTED);
	EXPECT_EQ(other_gets(&p_[0]), 15u);
	fur::read(self_, [&](fur_ro *) { EXPECT_EQ(thrown([&] { add(1); }), FUR_ENESTED); });
	expect_sound();
}

TEST_P(Nesting, JoinRead_OfFurHpp)
{
	auto get = [&] {
		return fur::join_read(self_, [&](fur_ro *tx) { return fur_load(tx, &p_[0]); });
	};
	EXPECT_EQ(get(), 0u);
	fur::update(self_, [&](fur_update *tx) {
		fur_store(tx, &p_[0], uint64_t{5});
		EXPECT_EQ(get(), 5u);
	});
	EXPECT_EQ(fur::read(self_, [&](fur_ro *) { return get() + get(); }), 10u);
	expect_sound();
}

/* ------------------------------------------------------------ what is open */

TEST_P(Nesting, Transaction_InEachState)
{
	fur_ticket ticket;
	EXPECT_EQ(open_now(), FUR_TRANSACTION_NONE);
	fur_ro *ro = begin_ro();
	EXPECT_EQ(open_now(), FUR_TRANSACTION_READ_ONLY);
	fur_ro *joined = join_ro();
	EXPECT_EQ(fur_end_ro(joined, nullptr), 0);
	EXPECT_EQ(open_now(), FUR_TRANSACTION_READ_ONLY);
	EXPECT_EQ(fur_end_ro(ro, &ticket), 0);
	EXPECT_EQ(open_now(), FUR_TRANSACTION_NONE);
	fur_update *tx = begin();
	EXPECT_EQ(open_now(), FUR_TRANSACTION_UPDATE);
	joined = join_ro();
	EXPECT_EQ(open_now(), FUR_TRANSACTION_UPDATE);
	EXPECT_EQ(fur_end_ro(joined, nullptr), 0);
	fur_store_bits(tx, p_, 0, 9); /* it fails */
	EXPECT_EQ(open_now(), FUR_TRANSACTION_UPDATE);
	EXPECT_EQ(fur_commit(tx, nullptr), FUR_EINVAL);
	EXPECT_EQ(open_now(), FUR_TRANSACTION_NONE);
	EXPECT_EQ(fur_update_run(
	                  self_,
	                  [](fur_update *u, void *thread) {
		                  auto *t = static_cast<fur_thread *>(thread);
		                  EXPECT_EQ(fur_thread_transaction(t), FUR_TRANSACTION_UPDATE);
		                  fur_abort(u);
		                  EXPECT_EQ(fur_thread_transaction(t), FUR_TRANSACTION_NONE);
	                  },
	                  self_.get(), nullptr),
	        FUR_EABORTED);
	expect_sound();
}

TEST_P(Nesting, Transaction_IsOfOneHeap)
{
	std::string second = path_ + "-2";
	{
		fur::Heap other = fur::Heap::create(second, options());
		fur::Thread there(other);
		fur_update *tx = begin();
		EXPECT_EQ(fur_thread_transaction(there), FUR_TRANSACTION_NONE);
		EXPECT_EQ(fur_thread_abandon(there), 0);
		EXPECT_EQ(open_now(), FUR_TRANSACTION_UPDATE) << "there is not here";
		EXPECT_EQ(fur_commit(tx, nullptr), 0);
	}
	unlink(second.c_str());
	expect_sound();
}

/* ----------------------------------------------------------------- left open */

TEST_P(Nesting, UpdateLeftByReturn_TheNextBeginTells_AndAbandonRollsItBack)
{
	auto careless = [&] { fur_store(begin(), &p_[0], uint64_t{1}); };
	for (unsigned joins : {0u, 1u, 3u}) {
		careless();
		for (unsigned k = 0; k < joins; k++)
			join();
		expect_no_update_begins("an update open");
		EXPECT_EQ(fur_thread_unregister(self_), FUR_EBUSY);
		EXPECT_TRUE(says("fur_thread_abandon")) << fur_errormsg();
		EXPECT_EQ(fur_close(heap_.get()), FUR_EBUSY);
		EXPECT_TRUE(says("fur_thread_abandon")) << fur_errormsg();
		EXPECT_EQ(fur_thread_abandon(self_), 0) << fur_errormsg();
		EXPECT_EQ(other_gets(&p_[0]), 0u);
		expect_sound();
	}
}

TEST_P(Nesting, ReadLeftByReturn_TheNextBeginTells_AndOthersGoOnAfterAbandon)
{
	begin_ro();
	join_ro();
	std::atomic<bool> done{false};
	std::thread other([&] {
		fur::Thread t(heap_);
		fur::update(t, [&](fur_update *tx) { fur_store(tx, &p_[0], uint64_t{1}); });
		done = true;
	});
	expect_no_read_begins();
	EXPECT_FALSE(done) << "it waits for the reader";
	EXPECT_EQ(fur_thread_unregister(self_), FUR_EBUSY);
	EXPECT_TRUE(says("fur_thread_abandon")) << fur_errormsg();
	EXPECT_EQ(fur_thread_abandon(self_), 0) << fur_errormsg();
	other.join();
	EXPECT_EQ(p_[0], 1u);
	expect_sound();
}

TEST_P(Nesting, Abandon_EndsWhateverIsOpen)
{
	fur_update *tx;
	fur_ro *ro;
	EXPECT_EQ(fur_thread_abandon(self_), 0) << "nothing";
	expect_sound();
	tx = begin();
	fur_store(tx, &p_[0], uint64_t{1});
	ro = join_ro();
	EXPECT_EQ(fur_thread_abandon(self_), 0);
	EXPECT_EQ(fur_end_ro(ro, nullptr), FUR_ENOTX);
	EXPECT_EQ(fur_commit(tx, nullptr), FUR_ENOTX);
	expect_sound();
	tx = begin();
	fur_store_bits(tx, p_, 1, 9);
	EXPECT_EQ(fur_thread_abandon(self_), 0) << "an update that has failed";
	expect_sound();
	EXPECT_EQ(fur_update_run(
	                  self_,
	                  [](fur_update *u, void *thread) {
		                  auto *t = static_cast<fur_thread *>(thread);
		                  fur_set_root(u, 1, t);
		                  EXPECT_EQ(fur_thread_abandon(t), 0);
	                  },
	                  self_.get(), nullptr),
	        FUR_EABORTED);
	EXPECT_EQ(root_at_rest(heap_, 1), nullptr);
	EXPECT_EQ(p_[0], 0u);
	expect_sound();
}

TEST_P(Nesting, InAHeapThatHasFailed)
{
	durability *d = &heap_.get()->durability;
	for (bool update : {true, false}) {
		fur_update *tx = update ? begin() : nullptr;
		fur_ro *ro = update ? nullptr : begin_ro();
		if (update)
			fur_store(tx, &p_[0], uint64_t{1});
		std::thread([&] {
			fur_fail(FUR_EIO, "the disk is gone");
			durability_fail(d, FUR_EIO);
		}).join();
		EXPECT_EQ(open_now(), update ? FUR_TRANSACTION_UPDATE : FUR_TRANSACTION_READ_ONLY);
		EXPECT_EQ(fur_begin_update(self_, &tx), FUR_ENESTED);
		EXPECT_EQ(fur_begin_ro(self_, &ro), FUR_ENESTED);
		EXPECT_EQ(fur_thread_abandon(self_), 0);
		EXPECT_EQ(open_now(), FUR_TRANSACTION_NONE);
		EXPECT_EQ(fur_begin_update(self_, &tx), FUR_EIO);
		EXPECT_EQ(fur_join_update(self_, &tx), FUR_EIO);
		EXPECT_EQ(fur_begin_ro(self_, &ro), FUR_EIO);
		EXPECT_EQ(fur_join_ro(self_, &ro), FUR_EIO);
		EXPECT_EQ(fur_thread_abandon(self_), 0);
		EXPECT_EQ(p_[0], 0u);
		arch_store(&d->failed, 0);
	}
	expect_sound();
}

INSTANTIATE_TEST_SUITE_P(Machines, Nesting, ::testing::Values(FUR_HTM_NONE, FUR_HTM_AUTO),
        [](const auto &p) { return std::string(p.param == FUR_HTM_NONE ? "none" : "best"); });

} // namespace
