/* SPDX-License-Identifier: BSD-3-Clause
 *
 * map_cases.hpp - fur::hash_map and fur::ordered_map against std::map: the tests of both, for files
 * that instantiate them.
 */
#ifndef MAP_CASES_HPP
#define MAP_CASES_HPP

#include "maps.hpp"

TYPED_TEST_SUITE_P(Maps);

TYPED_TEST_P(Maps, RandomOperations_AgreeWithStdMap)
{
	SCOPED_TRACE("FUR_TEST_SEED=" + std::to_string(this->seed_));
	typename TestFixture::Model model;
	for (uint64_t keys : {10u, 300u, 1000u}) {
		for (int round = 0; round < 120 && !this->HasFailure(); round++) {
			auto changed = model;
			const bool gives_up = this->below(8) == 0;
			try {
				this->update([&](fur_update *tx) {
					for (int k = 0; k < 20; k++)
						this->random_operation(tx, changed, keys);
					if (gives_up)
						throw GaveUp();
				});
				model = changed;
			} catch (const GaveUp &) {
			}
			if (round % 30 == 0 || keys == 10)
				this->expect_same(model);
		}
		this->expect_same(model);
	}
	this->reopen();
	this->expect_same(model);
}

TYPED_TEST_P(Maps, Empty)
{
	const auto key = TestFixture::Key::key(1);
	this->expect_same({});
	this->read([&](fur_ro *tx) {
		EXPECT_TRUE(this->map_->in(tx).begin() == this->map_->in(tx).end());
		EXPECT_TRUE(this->map_->find(tx, key) == this->map_->in(tx).end());
		EXPECT_FALSE(finds_value(tx, *this->map_, key));
		EXPECT_THROW((void)this->map_->at(tx, key), std::out_of_range);
	});
	this->update([&](fur_update *tx) {
		EXPECT_EQ(this->map_->erase(tx, key), 0u);
		EXPECT_FALSE(this->map_->modify(tx, key, [](auto &) { FAIL(); }));
		this->map_->clear(tx);
	});
	this->expect_same({});
}

TYPED_TEST_P(Maps, ClearAndDestroy_LeaveNoBlock)
{
	const uint64_t before = blocks_of(this->heap_);
	for (uint64_t n : {1, 8, 9, 500}) {
		this->insert_range(0, n);
		EXPECT_GT(blocks_of(this->heap_), before);
		this->clear();
		EXPECT_EQ(blocks_of(this->heap_), before) << n;
		this->expect_same({});
	}
	typename TestFixture::Model model;
	this->insert_range(0, 100, &model);
	this->expect_same(model);
	this->update([&](fur_update *tx) { fur::destroy(tx, this->map_); });
	EXPECT_EQ(blocks_of(this->heap_), before - 1);
}

/* An ordered map gives back the nodes as they become empty; strings go in either map. */
TYPED_TEST_P(Maps, ErasingAll_ThenClear_LeavesNoBlock)
{
	const uint64_t before = blocks_of(this->heap_);
	for (int round = 0; round < 3; round++) {
		this->insert_range(0, 300);
		std::vector<uint64_t> order;
		for (uint64_t n = 0; n < 300; n++)
			order.push_back(n);
		std::shuffle(order.begin(), order.end(), this->random_);
		for (uint64_t n : order)
			this->update([&](fur_update *tx) {
				EXPECT_EQ(this->map_->erase(tx, TestFixture::Key::key(n)), 1u);
			});
		this->expect_same({});
		if (Kind<TypeParam>::ORDERED) {
			EXPECT_EQ(blocks_of(this->heap_), before + 1) << "more than the size";
		}
	}
	this->clear();
	EXPECT_EQ(blocks_of(this->heap_), before);
}

TYPED_TEST_P(Maps, Scan_WhileTheMapChanges_SeesOnceWhatStays)
{
	constexpr uint64_t STAY = 400;
	for (size_t batch : {1, 7, 100}) {
		this->insert_range(0, STAY);
		std::map<typename TypeParam::key_type, int> seen;
		std::optional<typename TypeParam::key_type> last;
		uint64_t next = STAY;
		typename TypeParam::cursor at;
		while (!at.done()) {
			this->read([&](fur_ro *tx) {
				at.advance(tx, *this->map_, batch, [&](const auto &entry) {
					seen[entry.first]++;
					if (Kind<TypeParam>::ORDERED && last) {
						EXPECT_LT(*last, entry.first);
					}
					last = entry.first;
				});
			});
			if (next >= 1500)
				continue; /* or the scan would never end */
			this->insert_range(next, next + 20);
			this->update([&](fur_update *tx) {
				for (uint64_t n = next; n < next + 20; n += 2)
					this->map_->erase(tx, TestFixture::Key::key(n));
			});
			next += 20;
		}
		for (uint64_t n = 0; n < STAY; n++)
			EXPECT_EQ(seen[TestFixture::Key::key(n)], 1);
		for (const auto &entry : seen)
			EXPECT_EQ(entry.second, 1);
		this->clear();
	}
}

TYPED_TEST_P(Maps, Scan_SeesAll_WhateverTheBatch)
{
	typename TestFixture::Model model;
	this->insert_range(0, 250, &model);
	for (size_t batch : {0, 1, 3, 250, 100000})
		EXPECT_TRUE(this->scanned(batch) == model) << batch;
}

TYPED_TEST_P(Maps, Fill_AssignsAll)
{
	for (size_t batch : {0, 1, 64, 1000}) {
		typename TestFixture::Model model;
		for (uint64_t n = 0; n < 200; n++)
			model[TestFixture::Key::key(n)] = TestFixture::Value::value(n + batch);
		fur::fill(this->self_, *this->map_, model.begin(), model.end(), batch);
		this->expect_same(model);
	}
}

/* Keys in falling order, in rising order and from the middle outwards keep a tree low. */
TYPED_TEST_P(Maps, KeysInEveryOrder)
{
	std::vector<typename TypeParam::key_type> keys;
	for (uint64_t n = 0; n < 400; n++)
		keys.push_back(TestFixture::Key::key(n));
	std::sort(keys.begin(), keys.end());
	typename TestFixture::Model model;
	for (const auto &key : keys)
		model[key] = TestFixture::Value::value(7);
	for (int order = 0; order < 4; order++) {
		for (size_t i = 0; i < keys.size(); i++) {
			const size_t half = keys.size() / 2, n = keys.size(),
			             at = order == 0   ? i
			                  : order == 1 ? n - 1 - i
			                  : order == 2 ? (i % 2 ? half + i / 2 : half - 1 - i / 2)
			                               : (i % 2 ? n - 1 - i / 2 : i / 2);
			this->update([&](fur_update *tx) {
				this->map_->insert(tx, keys[at], TestFixture::Value::value(7));
			});
		}
		this->expect_same(model);
		this->clear();
	}
}

TYPED_TEST_P(Maps, AFullHeap_LeavesTheMapAsItWas)
{
	typename TestFixture::Model model;
	this->insert_range(0, 50, &model);
	std::vector<void *> ballast;
	bool full = false;
	for (size_t bytes : {1 << 16, 1 << 12, 64}) {
		full = false;
		while (!full)
			this->update([&](fur_update *tx) {
				void *p = fur_alloc(tx, bytes);
				if (p)
					ballast.push_back(p);
				full = !p;
			});
	}
	full = false;
	for (uint64_t n = 50; n < 4000 && !full; n++) {
		try {
			this->update([&](fur_update *tx) {
				this->map_->insert(
				        tx, TestFixture::Key::key(n), TestFixture::Value::value(n));
			});
			model[TestFixture::Key::key(n)] = TestFixture::Value::value(n);
		} catch (const fur::heap_full &e) {
			EXPECT_NE(std::string(e.what()).find("full"), std::string::npos);
			full = true;
		}
	}
	EXPECT_TRUE(full);
	this->expect_same(model);
	for (void *p : ballast)
		this->update([&](fur_update *tx) { fur_free(tx, p); });
	this->insert_range(5000, 5100, &model);
	this->expect_same(model);
}

/* The body goes on after its log was full: it meets no node that is half made. */
TYPED_TEST_P(Maps, AnUpdateTooLargeForItsLog_FailsAndLeavesTheMapAsItWas)
{
	typename TestFixture::Model model;
	fur::Options o = container_options();
	o.log_bytes = 4096;
	this->heap_.close();
	for (uint64_t extra = 0; extra < 12; extra++) {
		unlink(this->path_.c_str());
		this->heap_ = this->create(o);
		this->self_ = fur::Thread(this->heap_);
		leave_traces(this->self_, 8);
		this->map_ = fur::root<TypeParam>(this->self_, "map");
		uint64_t *words = this->update(
		        [&](fur_update *tx) { return fur::make_array<uint64_t>(tx, 64); });
		const auto body = [&](fur_update *tx) {
			for (uint64_t k = 0; k < extra; k++)
				fur_store(tx, &words[2 * k], k);
			for (uint64_t n = 0; n < 500; n++)
				this->map_->insert_or_assign(
				        tx, TestFixture::Key::key(n), TestFixture::Value::value(n));
		};
		EXPECT_ANY_THROW(this->update(body));
		EXPECT_ANY_THROW(fur::update(this->self_, fur::rerun, body));
		this->expect_same({});
		this->heap_.close();
	}
	this->heap_ = this->open(o);
}

REGISTER_TYPED_TEST_SUITE_P(Maps, RandomOperations_AgreeWithStdMap, Empty,
        ClearAndDestroy_LeaveNoBlock, ErasingAll_ThenClear_LeavesNoBlock,
        Scan_WhileTheMapChanges_SeesOnceWhatStays, Scan_SeesAll_WhateverTheBatch, Fill_AssignsAll,
        KeysInEveryOrder, AFullHeap_LeavesTheMapAsItWas,
        AnUpdateTooLargeForItsLog_FailsAndLeavesTheMapAsItWas);

#endif /* MAP_CASES_HPP */
