/* SPDX-License-Identifier: BSD-3-Clause
 *
 * c_map_test.cpp - fur_map.h against std::map, and against the containers of C++ that it stands on.
 */
#include "containers.hpp"
#include "internals.hpp"
#include "small_log.hpp"
#include "software.hpp"

#include <fur_map.h>

#include <atomic>
#include <functional>
#include <thread>

namespace
{

using Model = std::map<std::string, std::string>;
using Entries = std::vector<std::pair<std::string, std::string>>;
using Text = Sample<fur::string>;
using HashMap = fur::hash_map<fur::string, fur::string>;
using OrderedMap = fur::ordered_map<fur::string, fur::string>;

int put(fur_update *tx, fur_map *map, const std::string &key, const std::string &value)
{
	return fur_map_put(tx, map, key.data(), key.size(), value.data(), value.size());
}
int insert(fur_update *tx, fur_map *map, const std::string &key, const std::string &value)
{
	return fur_map_insert(tx, map, key.data(), key.size(), value.data(), value.size());
}
int remove(fur_update *tx, fur_map *map, const std::string &key)
{
	return fur_map_remove(tx, map, key.data(), key.size());
}
template <class Tx>
std::optional<std::string> get(Tx *tx, const fur_map *map, const std::string &key)
{
	std::string value(1000, '?');
	size_t bytes = value.size();
	const int found = fur_map_get(tx, map, key.data(), key.size(), value.data(), &bytes);
	EXPECT_GE(found, 0) << fur_errormsg();
	value.resize(bytes);
	return found == 1 ? std::optional(value) : std::nullopt;
}
template <class Tx>
int seek(Tx *tx, const fur_map *map, fur_map_place where, const std::string &key,
        fur_map_iterator *it)
{
	return fur_map_seek(tx, map, where, key.data(), key.size(), it);
}
std::pair<std::string, std::string> entry(const fur_map_iterator *it)
{
	std::string key(fur_map_key(it, nullptr, 0), '?'),
	        value(fur_map_value(it, nullptr, 0), '?');
	EXPECT_EQ(fur_map_key(it, key.data(), key.size()), key.size());
	EXPECT_EQ(fur_map_value(it, value.data(), value.size()), value.size());
	return {key, value};
}
template <class Tx>
Model all(Tx *tx, const fur_map *map)
{
	Model entries;
	fur_map_iterator it;
	for (int at = fur_map_seek(tx, map, FUR_MAP_FIRST, nullptr, 0, &it); at == 1;
	        at = fur_map_next(&it))
		EXPECT_TRUE(entries.insert(entry(&it)).second) << "a key is there twice";
	return entries;
}

/* "": open at that side. */
int remove_range(fur_update *tx, fur_map *map, const std::string &first, const std::string &last,
        uint64_t *removed)
{
	const auto at = [](const std::string &key) { return key.empty() ? nullptr : key.data(); };
	const fur_map_range range = {at(first), first.size(), at(last), last.size()};
	return fur_map_remove_range(tx, map, &range, removed);
}
/* The same to a std::map. */
uint64_t remove_range(Model &model, const std::string &first, const std::string &last)
{
	const auto from = model.lower_bound(first),
	           to = last.empty() ? model.end() : model.lower_bound(last);
	if (!last.empty() && last < first)
		return 0;
	const auto removed = static_cast<uint64_t>(std::distance(from, to));
	model.erase(from, to);
	return removed;
}

/* fur_read_run() with a body that has nothing to destroy. */
template <class Body>
int read_in_c(fur_thread *t, Body body)
{
	return fur_read_run(
	        t, [](fur_reader *tx, void *arg) { (*static_cast<Body *>(arg))(tx); }, &body,
	        nullptr);
}

class CMap : public ContainerHeap, public ::testing::WithParamInterface<fur_map_kind>
{
protected:
	CMap()
	{
		EXPECT_EQ(fur_map_root(self_, "map", GetParam(), &map_), 0) << fur_errormsg();
		RecordProperty("seed", std::to_string(seed_));
	}
	bool ordered() const
	{
		return GetParam() == FUR_MAP_ORDERED;
	}
	template <class Body>
	void read_again(Body &&body)
	{
		fur::read(self_, fur::rerun, [&](fur_reader *tx) { body(tx); });
	}
	/* The structure, by the containers' own check, and the contents, by every call. */
	void expect_same(const Model &model)
	{
		read([&](fur_ro *tx) {
			uint64_t blocks, size = 0;
			const void *inside = reinterpret_cast<const uint64_t *>(map_) + 1;
			const char *wrong =
			        ordered()
			                ? static_cast<const OrderedMap *>(inside)->verify(
			                          tx, blocks)
			                : static_cast<const HashMap *>(inside)->verify(tx, blocks);
			EXPECT_STREQ(wrong, nullptr);
			EXPECT_EQ(fur_map_size(tx, map_, &size), 0);
			EXPECT_EQ(size, model.size());
			EXPECT_TRUE(all(tx, map_) == model);
			for (const auto &[key, value] : model)
				EXPECT_EQ(get(tx, map_, key), value);
		});
		read_again([&](fur_reader *tx) {
			uint64_t size = 0;
			EXPECT_EQ(fur_map_size(tx, map_, &size), 0);
			EXPECT_EQ(size, model.size());
			EXPECT_TRUE(all(tx, map_) == model);
			for (const auto &[key, value] : model)
				EXPECT_EQ(get(tx, map_, key), value);
		});
		update([&](fur_update *tx) {
			uint64_t size = 0;
			EXPECT_EQ(fur_map_size(tx, map_, &size), 0);
			EXPECT_EQ(size, model.size());
			EXPECT_TRUE(all(tx, map_) == model);
		});
	}
	/* One random change, to map and model. */
	void change(fur_update *tx, Model &model)
	{
		const std::string key = Text::key(below(300)), value = Text::value(below(1000));
		switch (below(4)) {
		case 0: EXPECT_EQ(put(tx, map_, key, value), !model.count(key)); break;
		case 1:
			EXPECT_EQ(insert(tx, map_, key, value), !model.count(key));
			model.emplace(key, value);
			return;
		case 2:
			EXPECT_EQ(remove(tx, map_, key), static_cast<int>(model.erase(key)));
			return;
		default: EXPECT_EQ(get(tx, map_, key).has_value(), model.count(key) == 1); return;
		}
		model[key] = value;
	}

	fur_map *map_ = nullptr;
};

TEST_P(CMap, DoesWhatStdMapDoes)
{
	Model model;
	for (int round = 0; round < 60; round++) {
		Model before = model;
		const bool give_up = below(5) == 0;
		fur_update *tx;
		ASSERT_EQ(fur_begin_update(self_, &tx), 0);
		/* With HTM, begin may return again, with the model as it was. */
		for (uint64_t n = 1 + below(20); n > 0; n--)
			change(tx, model);
		if (give_up) {
			EXPECT_EQ(fur_abort(tx), FUR_EABORTED);
			model = before;
		} else {
			ASSERT_EQ(fur_commit(tx, nullptr), 0) << fur_errormsg();
		}
		if (round % 10 == 9)
			expect_same(model);
	}
}

TEST_P(CMap, IsThereAfterAnOpenAndFreesAllThatItHas)
{
	const uint64_t empty = blocks_of(heap_);
	Model model;
	for (uint64_t n = 0; n < 400; n += 20)
		update([&](fur_update *tx) {
			for (uint64_t k = n; k < n + 20; k++) {
				model[Text::key(k)] = Text::value(k);
				EXPECT_EQ(put(tx, map_, Text::key(k), Text::value(k)), 1);
			}
		});
	reopen();
	map_ = nullptr;
	ASSERT_EQ(fur_map_find_root(self_, "map", GetParam(), &map_), 1);
	expect_same(model);
	update([&](fur_update *tx) { EXPECT_EQ(fur_map_clear(tx, map_), 0); });
	expect_same({});
	EXPECT_EQ(blocks_of(heap_), empty);
	update([&](fur_update *tx) {
		EXPECT_EQ(put(tx, map_, "a key that needs a block", "a"), 1);
		EXPECT_EQ(fur_map_destroy(tx, map_), 0);
		EXPECT_EQ(fur_map_destroy(tx, nullptr), 0);
	});
	EXPECT_EQ(blocks_of(heap_), empty - 1);
	read([&](fur_ro *tx) {
		uint64_t size;
		EXPECT_EQ(fur_map_size(tx, map_, &size), FUR_EINVAL) << "it was destroyed";
	});
	EXPECT_EQ(fur_map_remove_root(self_, "map"), 1);
	EXPECT_EQ(fur_map_remove_root(self_, "map"), 0);
	EXPECT_EQ(fur_map_find_root(self_, "map", GetParam(), &map_), 0);
	EXPECT_EQ(map_, nullptr);
}

/* Splits copy keys that the same update has just stored, and hash them. */
TEST_P(CMap, SplitsWithLongKeysOfTheSameUpdate)
{
	Model model;
	auto body = [&](fur_update *tx) {
		model.clear();
		for (uint64_t n = 0; n < 200; n++) {
			const std::string key = std::string(n % 60, 'k') + std::to_string(n);
			model[key] = Text::value(n);
			EXPECT_EQ(put(tx, map_, key, Text::value(n)), 1);
		}
	};
	fur::update(self_, fur::rerun, body);
	expect_same(model);
	model.clear();
	update([&](fur_update *tx) { EXPECT_EQ(fur_map_clear(tx, map_), 0); });
	update(body);
	expect_same(model);
}

TEST_P(CMap, CopiesOnlyWhatThereIsRoomFor)
{
	const std::string value = "a value of thirty characters..";
	update([&](fur_update *tx) { EXPECT_EQ(put(tx, map_, "k", value), 1); });
	auto try_all = [&](auto *tx) {
		char small[8] = "xxxxxxx";
		size_t bytes = 5;
		EXPECT_EQ(fur_map_get(tx, map_, "k", 1, small, &bytes), 1);
		EXPECT_EQ(bytes, 30u);
		EXPECT_STREQ(small, "a valxx");
		bytes = 0;
		EXPECT_EQ(fur_map_get(tx, map_, "k", 1, nullptr, &bytes), 1);
		EXPECT_EQ(bytes, 30u);
		bytes = 8;
		EXPECT_EQ(fur_map_get(tx, map_, "l", 1, small, &bytes), 0);
		EXPECT_EQ(bytes, 0u);
		fur_map_iterator it;
		EXPECT_EQ(seek(tx, map_, FUR_MAP_AT, "k", &it), 1);
		EXPECT_EQ(fur_map_value(&it, small, 3), 30u);
		EXPECT_STREQ(small, "a valxx");
	};
	read([&](fur_ro *tx) { try_all(tx); });
	read_again([&](fur_reader *tx) { try_all(tx); });
	update([&](fur_update *tx) { try_all(tx); });
}

/* Many keys in one call, with as much room as fits `room` for each value. */
template <class GetMany>
std::vector<std::optional<std::string>> get_many(
        const std::vector<std::string> &keys, size_t room, GetMany call)
{
	std::vector<std::optional<std::string>> found(keys.size());
	std::vector<std::string> values(keys.size(), std::string(room, '?'));
	std::vector<fur_map_lookup> lookups;
	for (size_t i = 0; i < keys.size(); i++)
		lookups.push_back({keys[i].data(), keys[i].size(), values[i].data(), room, 7, 7});
	const int n = call(lookups.data(), lookups.size());
	EXPECT_GE(n, 0) << fur_errormsg();
	int there = 0;
	for (size_t i = 0; i < keys.size(); i++) {
		there += lookups[i].found;
		if (lookups[i].found)
			found[i] = values[i].substr(0, lookups[i].bytes) +
			           (lookups[i].bytes > room ? "..." : "");
		else
			EXPECT_EQ(lookups[i].bytes, 0u);
	}
	EXPECT_EQ(n, there);
	return found;
}

TEST_P(CMap, GetsManyAsItGetsOne)
{
	SCOPED_TRACE("FUR_TEST_SEED=" + std::to_string(seed_));
	enum : uint64_t { KEYS = 300, ROOM = 30 };
	for (uint64_t n = 0; n < KEYS; n += 2)
		update([&](fur_update *tx) {
			EXPECT_EQ(put(tx, map_, Text::key(n), std::string(n % 50, 'v')), 1);
		});
	std::vector<std::string> keys;
	for (const size_t some : {0, 1, 16, 17, 100}) {
		while (keys.size() < some)
			keys.push_back(Text::key(below(KEYS)));
		const auto compare = [&](auto *tx) {
			const auto found = get_many(keys, ROOM, [&](auto *lookups, size_t n) {
				return fur_map_get_many(tx, map_, lookups, n);
			});
			for (size_t i = 0; i < keys.size(); i++) {
				auto one = get(tx, map_, keys[i]);
				if (one && one->size() > ROOM)
					one = one->substr(0, ROOM) + "...";
				EXPECT_EQ(found[i], one) << keys[i];
			}
			return found;
		};
		const auto found = read(compare);
		read_again([&](fur_reader *tx) { compare(tx); });
		EXPECT_EQ(get_many(keys, ROOM,
		                  [&](auto *lookups, size_t n) {
			                  return fur_map_get_many_one(self_, map_, lookups, n);
		                  }),
		        found);
		update([&](fur_update *tx) {
			EXPECT_GE(put(tx, map_, Text::key(1), "another"), 0);
			compare(tx);
		});
	}
}

TEST_P(CMap, RefusesLookupsThatAreWrong)
{
	char room[8];
	fur_map_lookup none{"k", 1, room, sizeof room, 0, 0}, no_key{nullptr, 1, room, 1, 0, 0},
	        no_value{"k", 1, nullptr, 1, 0, 0};
	fur_ro *closed = nullptr;
	read([&](fur_ro *tx) {
		EXPECT_EQ(fur_map_get_many(tx, map_, nullptr, 0), 0);
		EXPECT_EQ(fur_map_get_many(tx, map_, &none, 1), 0);
		EXPECT_EQ(fur_map_get_many(tx, map_, nullptr, 1), FUR_EINVAL);
		EXPECT_EQ(fur_map_get_many(tx, map_, &no_key, 1), FUR_EINVAL);
		EXPECT_EQ(fur_map_get_many(tx, map_, &no_value, 1), FUR_EINVAL);
		EXPECT_EQ(fur_map_get_many(tx, map_, &none, size_t(1) << 31), FUR_EINVAL);
		EXPECT_EQ(fur_map_get_many(tx, static_cast<fur_map *>(nullptr), &none, 1),
		        FUR_EINVAL);
		EXPECT_EQ(fur_map_get_many_one(self_, map_, &none, 1), FUR_ENESTED);
	});
	EXPECT_EQ(fur_map_get_many(closed, map_, &none, 1), FUR_ENOTX);
}

TEST_P(CMap, ShowsEntriesWhereTheyLie)
{
	const std::string longer(100, 'v');
	update([&](fur_update *tx) {
		EXPECT_EQ(put(tx, map_, "short", longer), 1);
		fur_map_iterator it;
		fur_map_bytes key, value;
		EXPECT_EQ(seek(tx, map_, FUR_MAP_AT, "short", &it), 1);
		EXPECT_EQ(fur_map_view(&it, &key, &value), FUR_EINVAL);
	});
	read_again([&](fur_reader *tx) {
		fur_map_iterator it;
		fur_map_bytes key, value;
		EXPECT_EQ(seek(tx, map_, FUR_MAP_AT, "short", &it), 1);
		EXPECT_EQ(fur_map_view(&it, &key, &value), FUR_EINVAL) << "others store there";
		EXPECT_EQ(entry(&it).second, longer);
	});
	read([&](fur_ro *tx) {
		fur_map_iterator it;
		fur_map_bytes key, value;
		ASSERT_EQ(seek(tx, map_, FUR_MAP_AT, "short", &it), 1);
		ASSERT_EQ(fur_map_view(&it, &key, &value), 1);
		const auto *begin = static_cast<const char *>(heap_base(heap_));
		for (const fur_map_bytes &one : {key, value}) {
			EXPECT_GE(static_cast<const char *>(one.at), begin);
			EXPECT_LT(static_cast<const char *>(one.at), begin + heap_size(heap_));
		}
		EXPECT_EQ(std::string(static_cast<const char *>(key.at), key.bytes), "short");
		EXPECT_EQ(std::string(static_cast<const char *>(value.at), value.bytes), longer);
		EXPECT_EQ(fur_map_next(&it), 0);
		EXPECT_EQ(fur_map_view(&it, &key, &value), 0);
		EXPECT_EQ(value.bytes, 0u);
		EXPECT_EQ(fur_map_next(&it), 0) << "the end stays the end";
	});
}

TEST_P(CMap, RefusesWhatIsNoMap)
{
	uint64_t *block = nullptr;
	update([&](fur_update *tx) {
		block = static_cast<uint64_t *>(fur_alloc_aligned(tx, 128, FUR_CACHE_LINE));
		fur_store(tx, block, 0);
	});
	auto try_all = [&](auto *tx) {
		uint64_t size;
		fur_map_iterator it;
		for (void *wrong : {static_cast<void *>(block), static_cast<void *>(nullptr),
		             static_cast<void *>(block + 1)}) {
			auto *map = static_cast<fur_map *>(wrong);
			EXPECT_EQ(fur_map_size(tx, map, &size), FUR_EINVAL);
			EXPECT_NE(std::string(fur_errormsg()).find("there is no map at"),
			        std::string::npos);
			EXPECT_EQ(
			        fur_map_seek(tx, map, FUR_MAP_FIRST, nullptr, 0, &it), FUR_EINVAL);
			EXPECT_EQ(fur_map_next(&it), FUR_EINVAL);
			EXPECT_EQ(fur_map_key(&it, nullptr, 0), 0u);
		}
		EXPECT_EQ(fur_map_size(tx, map_, nullptr), FUR_EINVAL);
		EXPECT_EQ(fur_map_seek(tx, map_, static_cast<fur_map_place>(7), "", 0, &it),
		        FUR_EINVAL);
		EXPECT_EQ(fur_map_next(&it), FUR_EINVAL);
		EXPECT_EQ(fur_map_seek(tx, map_, FUR_MAP_AT, nullptr, 3, &it), FUR_EINVAL);
		EXPECT_EQ(fur_map_seek(tx, map_, FUR_MAP_FIRST, nullptr, 0, nullptr), FUR_EINVAL);
		fur_map *other;
		EXPECT_EQ(fur_map_find_root(self_, "map", GetParam(), &other), FUR_ENESTED);
	};
	read([&](fur_ro *tx) { try_all(tx); });
	read_again([&](fur_reader *tx) { try_all(tx); });
	update([&](fur_update *tx) {
		EXPECT_EQ(put(tx, reinterpret_cast<fur_map *>(block), "k", "v"), FUR_EINVAL);
		EXPECT_EQ(fur_map_put(tx, map_, nullptr, 1, "v", 1), FUR_EINVAL);
		EXPECT_EQ(fur_map_put(tx, map_, "k", 1, nullptr, 1), FUR_EINVAL);
		EXPECT_EQ(fur_map_put(tx, map_, "k", UINT64_C(1) << 32, "v", 1), FUR_EINVAL);
		EXPECT_NE(std::string(fur_errormsg()).find("4 GiB"), std::string::npos);
	});
	EXPECT_EQ(put(nullptr, map_, "k", "v"), FUR_ENOTX);
	expect_same({});
	fur_map *map;
	EXPECT_EQ(fur_map_root(self_, "m", static_cast<fur_map_kind>(3), &map), FUR_EINVAL);
	EXPECT_EQ(fur_map_root(self_, nullptr, GetParam(), &map), FUR_EINVAL);
	EXPECT_EQ(fur_map_root(self_, "m", GetParam(), nullptr), FUR_EINVAL);
	fur_update *tx;
	ASSERT_EQ(fur_begin_update(self_, &tx), 0);
	EXPECT_EQ(fur_map_create(tx, static_cast<fur_map_kind>(0)), nullptr);
	EXPECT_EQ(fur_commit(tx, nullptr), FUR_EINVAL);
}

TEST_P(CMap, RefusesAReaderThatIsNotOpen)
{
	fur_reader *ended = nullptr;
	read_again([&](fur_reader *tx) { ended = tx; });
	for (fur_reader *none : {static_cast<fur_reader *>(nullptr), ended}) {
		uint64_t size;
		size_t bytes = 0;
		fur_map_iterator it;
		EXPECT_EQ(fur_map_size(none, map_, &size), FUR_ENOTX);
		EXPECT_EQ(fur_map_get(none, map_, "k", 1, nullptr, &bytes), FUR_ENOTX);
		EXPECT_EQ(seek(none, map_, FUR_MAP_FIRST, "", &it), FUR_ENOTX);
		EXPECT_EQ(fur_map_next(&it), FUR_EINVAL);
	}
}

TEST_P(CMap, DoesOneOperationInOneTransaction)
{
	const std::string key = "a key of thirty characters ...", value(40, 'v');
	char room[64];
	size_t bytes = sizeof room;
	EXPECT_EQ(fur_map_get_one(self_, map_, key.data(), key.size(), room, &bytes), 0);
	EXPECT_EQ(bytes, 0u);
	EXPECT_EQ(fur_map_put_one(self_, map_, key.data(), key.size(), "1", 1), 1);
	EXPECT_EQ(fur_map_put_one(self_, map_, key.data(), key.size(), value.data(), 40), 0);
	EXPECT_EQ(fur_thread_transaction(self_), FUR_TRANSACTION_NONE);
	expect_same({{key, value}});
	bytes = 3;
	EXPECT_EQ(fur_map_get_one(self_, map_, key.data(), key.size(), room, &bytes), 1);
	EXPECT_EQ(bytes, 40u);
	reopen();
	ASSERT_EQ(fur_map_find_root(self_, "map", GetParam(), &map_), 1);
	expect_same({{key, value}});
	EXPECT_EQ(fur_map_remove_one(self_, map_, key.data(), key.size()), 1);
	EXPECT_EQ(fur_map_remove_one(self_, map_, key.data(), key.size()), 0);
	expect_same({});
}

TEST_P(CMap, RefusesOneOperationInsideATransaction)
{
	char room[8];
	size_t bytes = sizeof room;
	auto refuse_all = [&](int code, fur_thread *thread, fur_map *map) {
		EXPECT_EQ(fur_map_put_one(thread, map, "k", 1, "v", 1), code);
		EXPECT_EQ(fur_map_remove_one(thread, map, "k", 1), code);
		EXPECT_EQ(fur_map_get_one(thread, map, "k", 1, room, &bytes), code);
	};
	read([&](fur_ro *) { refuse_all(FUR_ENESTED, self_, map_); });
	read_again([&](fur_reader *) { refuse_all(FUR_ENESTED, self_, map_); });
	fur_update *tx;
	ASSERT_EQ(fur_begin_update(self_, &tx), 0);
	refuse_all(FUR_ENESTED, self_, map_);
	EXPECT_EQ(fur_map_destroy_root(self_, "map"), FUR_ENESTED);
	EXPECT_EQ(fur_commit(tx, nullptr), 0);
	refuse_all(FUR_EINVAL, nullptr, map_);
	refuse_all(FUR_EINVAL, self_, nullptr);
	EXPECT_EQ(fur_map_put_one(self_, map_, nullptr, 1, "v", 1), FUR_EINVAL);
	EXPECT_EQ(fur_thread_transaction(self_), FUR_TRANSACTION_NONE);
	const std::string large(size_t{32} << 20, 'v');
	EXPECT_LT(fur_map_put_one(self_, map_, "k", 1, large.data(), large.size()), 0);
	EXPECT_EQ(fur_thread_transaction(self_), FUR_TRANSACTION_NONE);
	expect_same({});
}

TEST_P(CMap, DestroysAMapWithItsName)
{
	const uint64_t before = blocks_of(heap_);
	fur_map *map;
	ASSERT_EQ(fur_map_root(self_, "short", GetParam(), &map), 0);
	EXPECT_EQ(fur_map_put_one(self_, map, "a key that needs a block", 24, "", 0), 1);
	EXPECT_EQ(fur_map_destroy_root(self_, "short"), 1);
	EXPECT_EQ(blocks_of(heap_), before);
	EXPECT_EQ(fur_map_destroy_root(self_, "short"), 0);
	EXPECT_EQ(fur_map_find_root(self_, "short", GetParam(), &map), 0);
	fur::root<uint64_t>(self_, "number");
	EXPECT_EQ(fur_map_destroy_root(self_, "number"), FUR_EINVAL);
	EXPECT_NE(fur::find_root<uint64_t>(self_, "number"), nullptr);
	EXPECT_EQ(fur_map_destroy_root(self_, nullptr), FUR_EINVAL);
	expect_same({});
}

/* Names are those of fur::root(), and each keeps to its type. */
TEST_P(CMap, SharesNamesWithCpp)
{
	const fur_map_kind other = ordered() ? FUR_MAP_HASH : FUR_MAP_ORDERED;
	fur_map *map = map_;
	EXPECT_EQ(fur_map_root(self_, "map", other, &map), FUR_EINVAL);
	EXPECT_EQ(map, nullptr);
	EXPECT_NE(std::string(fur_errormsg()).find("'map'"), std::string::npos);
	EXPECT_THROW(fur::find_root<OrderedMap>(self_, "map"), fur::type_mismatch);
	fur::root<uint64_t>(self_, "number");
	EXPECT_EQ(fur_map_root(self_, "number", GetParam(), &map), FUR_EINVAL);
	EXPECT_EQ(fur_map_root(self_, "map", GetParam(), &map), 0);
	EXPECT_EQ(map, map_);
	for (int n = 0; n < 60; n++) {
		const std::string name = "a name for root number " + std::to_string(n);
		ASSERT_EQ(fur_map_root(self_, name.c_str(), other, &map), 0);
	}
	EXPECT_NE(fur::find_root<uint64_t>(self_, "number"), nullptr);
	fur::root<HashMap>(self_, "another one");
	EXPECT_EQ(fur_map_find_root(self_, "a name for root number 59", other, &map), 1);
}

/* A full heap rolls the update back, and what is there stays. */
TEST_P(CMap, RollsBackWhenTheHeapIsFull)
{
	Model model;
	const std::string value(900, 'v');
	for (uint64_t n = 0;; n++) {
		const std::string key = Text::key(n);
		fur_update *tx;
		ASSERT_EQ(fur_begin_update(self_, &tx), 0);
		int result = 0;
		for (int k = 0; k < 8 && result >= 0; k++)
			result = put(tx, map_, key + std::to_string(k), value);
		if (result < 0) {
			EXPECT_EQ(result, FUR_ENOSPC) << fur_errormsg();
			EXPECT_NE(std::string(fur_errormsg()).find("full"), std::string::npos);
			EXPECT_EQ(put(tx, map_, "again", ""), FUR_ENOSPC)
			        << "the update has failed";
			fur_map_iterator it;
			EXPECT_EQ(
			        fur_map_seek(tx, map_, FUR_MAP_FIRST, nullptr, 0, &it), FUR_ENOSPC);
			EXPECT_EQ(fur_commit(tx, nullptr), FUR_ENOSPC);
			EXPECT_NE(std::string(fur_errormsg()).find("full"), std::string::npos);
			break;
		}
		ASSERT_EQ(fur_commit(tx, nullptr), 0) << fur_errormsg();
		for (int k = 0; k < 8; k++)
			model[key + std::to_string(k)] = value;
	}
	EXPECT_GT(model.size(), 1000u);
	expect_same(model);
}

/* An update that does not fit its log leaves nothing. */
TEST_P(CMap, RollsBackWhenTheLogIsFull)
{
	update([&](fur_update *tx) { EXPECT_EQ(put(tx, map_, "kept", "1"), 1); });
	fur_update *tx;
	ASSERT_EQ(fur_begin_update(self_, &tx), 0);
	int result = 0;
	for (uint64_t n = 0; n < 20000 && result >= 0; n++)
		result = put(tx, map_, Text::key(n) + "x", std::string(100, 'v'));
	EXPECT_EQ(result, FUR_ETOOBIG) << fur_errormsg();
	EXPECT_EQ(fur_commit(tx, nullptr), FUR_ETOOBIG);
	expect_same({{"kept", "1"}});
}

struct Mover {
	fur_map *map;
	std::string from, to;
};
/* Moves the value of one key to another.  Nothing here needs a destructor. */
void move_value(fur_update *tx, void *arg)
{
	auto *mover = static_cast<Mover *>(arg);
	char value[64];
	size_t bytes = sizeof value;
	const std::string &from = mover->from, &to = mover->to;
	if (fur_map_get(tx, mover->map, from.data(), from.size(), value, &bytes) != 1)
		return;
	if (fur_map_insert(tx, mover->map, to.data(), to.size(), value, bytes) == 1 &&
	        fur_map_remove(tx, mover->map, from.data(), from.size()) != 1)
		abort();
}

/* The values, without anything that needs a destructor. */
struct Seen {
	int entries, numbers; /* the sum of the values' numbers */
	bool other;
};
void look_at(fur_reader *tx, const fur_map *map, Seen &seen)
{
	fur_map_iterator it;
	seen = {};
	for (int at = fur_map_seek(tx, map, FUR_MAP_FIRST, nullptr, 0, &it); at == 1;
	        at = fur_map_next(&it)) {
		char value[64] = "";
		int number = -1;
		(void)fur_map_value(&it, value, sizeof value - 1);
		seen.other |= sscanf(value, "the value number %d", &number) != 1;
		seen.numbers += number;
		seen.entries++;
	}
}

/* Threads whose bodies libfur leaves by longjmp(), beside readers. */
TEST_P(CMap, KeepsEveryValueNextToOtherThreads)
{
	constexpr int VALUES = 40, PLACES = 100, MOVES = 800;
	auto key_of = [](uint64_t n) { return std::string(n % 30, 'p') + std::to_string(n); };
	update([&](fur_update *tx) {
		for (int n = 0; n < VALUES; n++)
			EXPECT_EQ(put(tx, map_, key_of(n), "the value number " + std::to_string(n)),
			        1);
	});
	std::atomic<int> moving{3};
	auto move = [&](uint64_t seed) {
		fur::Thread self(heap_);
		std::mt19937_64 random(seed);
		for (int n = 0; n < MOVES; n++) {
			Mover mover{map_, key_of(random() % PLACES), key_of(random() % PLACES)};
			EXPECT_EQ(fur_update_run(self, move_value, &mover, nullptr), 0)
			        << fur_errormsg();
		}
		moving--;
	};
	std::vector<std::thread> threads;
	for (int t = 0; t < 3; t++)
		threads.emplace_back(move, seed_ + t);
	std::set<std::string> values;
	auto collect = [&](auto *tx) {
		values.clear();
		for (const auto &named : all(tx, map_))
			values.insert(named.second);
	};
	do {
		read([&](fur_ro *tx) { collect(tx); });
		EXPECT_EQ(values.size(), static_cast<size_t>(VALUES));
		read_again([&](fur_reader *tx) { collect(tx); });
		EXPECT_EQ(values.size(), static_cast<size_t>(VALUES));
		Seen seen;
		EXPECT_EQ(read_in_c(self_, [&](fur_reader *tx) { look_at(tx, map_, seen); }), 0);
		EXPECT_EQ(seen.entries, VALUES);
		EXPECT_EQ(seen.numbers, VALUES * (VALUES - 1) / 2);
		EXPECT_FALSE(seen.other) << "a torn value";
	} while (moving > 0);
	for (std::thread &t : threads)
		t.join();
	read([&](fur_ro *tx) { EXPECT_EQ(all(tx, map_).size(), static_cast<size_t>(VALUES)); });
}

TEST_P(CMap, RemovesRanges)
{
	Model model;
	for (int round = 0; round < 40; round++) {
		update([&](fur_update *tx) {
			for (int n = 0; n < 60; n++) {
				const std::string key = Text::key(below(300));
				EXPECT_EQ(put(tx, map_, key, "v"), !model.count(key));
				model[key] = "v";
			}
		});
		std::string first = Text::key(below(300)), last = Text::key(below(300));
		if (below(4) == 0)
			first.clear();
		if (below(3) == 0)
			last.clear();
		uint64_t removed = 99;
		update([&](fur_update *tx) {
			EXPECT_EQ(remove_range(tx, map_, first, last, &removed),
			        ordered() ? 0 : FUR_EINVAL);
		});
		EXPECT_EQ(removed, ordered() ? remove_range(model, first, last) : 0);
		expect_same(model);
	}
}

/* Without an end: the keys lie in blocks, and the entries before the range stay. */
TEST_P(CMap, RemovesRangesOfLongKeysToTheEnd)
{
	if (!ordered())
		return;
	const auto key = [](uint64_t n) {
		return std::to_string(1000 + n) + " and more than twelve characters";
	};
	for (bool in_parts : {false, true}) {
		Model model;
		update([&](fur_update *tx) {
			for (uint64_t n = 0; n < 40; n++) {
				EXPECT_EQ(put(tx, map_, key(n), "v"), in_parts ? n >= 10 : 1);
				if (n < 10)
					model[key(n)] = "v";
			}
		});
		uint64_t removed = 0;
		const fur_map_range rest = {"1010", 4, nullptr, 0};
		if (in_parts)
			EXPECT_EQ(fur_map_remove_range_in_parts(self_, map_, &rest, &removed), 0);
		else
			update([&](fur_update *tx) {
				EXPECT_EQ(remove_range(tx, map_, "1010", "", &removed), 0);
			});
		EXPECT_EQ(removed, 30u);
		expect_same(model);
	}
}

TEST_P(CMap, RemovesRangesInParts)
{
	enum : uint64_t { MANY = 5000 };
	for (uint64_t n = 0; n < MANY; n += 100)
		update([&](fur_update *tx) {
			for (uint64_t k = n; k < n + 100; k++)
				EXPECT_EQ(put(tx, map_, std::to_string(10000 + k), "v"), 1);
		});
	uint64_t removed = 99, size = 0;
	const fur_map_range middle = {"11000", 5, "14000", 5}, rest = {"12", 2, nullptr, 0};
	ASSERT_EQ(fur_map_remove_range_in_parts(self_, map_, &middle, &removed),
	        ordered() ? 0 : FUR_EINVAL);
	EXPECT_EQ(removed, ordered() ? 3000u : 0);
	if (!ordered())
		return;
	EXPECT_EQ(fur_map_remove_range_in_parts(self_, map_, &rest, nullptr), 0);
	read([&](fur_ro *tx) {
		EXPECT_EQ(fur_map_size(tx, map_, &size), 0);
		EXPECT_EQ(fur_map_remove_range_in_parts(self_, map_, &rest, &removed), FUR_ENESTED);
		EXPECT_EQ(removed, 0u);
	});
	EXPECT_EQ(size, 1000u);
	const fur_map_range wrong = {nullptr, 1, nullptr, 0};
	EXPECT_EQ(fur_map_remove_range_in_parts(self_, map_, &wrong, &removed), FUR_EINVAL);
	EXPECT_EQ(fur_map_remove_range_in_parts(self_, map_, nullptr, &removed), FUR_EINVAL);
	EXPECT_EQ(fur_map_remove_range_in_parts(nullptr, map_, &rest, &removed), FUR_EINVAL);
}

/* What predicates of removals know. */
struct Asked {
	unsigned modulus;
	int asked, stop_at; /* 0: never */
};
/* Whether the key and the value, a multiple of the modulus as text, agree: 1, 0, or -7. */
int is_multiple(const fur_map_iterator *it, void *arg)
{
	auto *me = static_cast<Asked *>(arg);
	const auto [key, value] = entry(it);
	if (++me->asked == me->stop_at)
		return -7;
	return key == "key of " + value && std::stoul(value) % me->modulus == 0;
}

TEST_P(CMap, RemovesWhatAPredicateSays)
{
	Model model;
	for (int round = 0; round < 20; round++) {
		Asked asked{static_cast<unsigned>(2 + below(4)), 0, 0};
		uint64_t removed = 99, expected = 0;
		update([&](fur_update *tx) {
			for (int k = 0; k < 60; k++) {
				const std::string value = std::to_string(below(200));
				model["key of " + value] = value;
				EXPECT_GE(put(tx, map_, "key of " + value, value), 0);
			}
		});
		const int all = static_cast<int>(model.size());
		for (auto at = model.begin(); at != model.end();)
			if (std::stoul(at->second) % asked.modulus == 0) {
				at = model.erase(at);
				expected++;
			} else {
				++at;
			}
		update([&](fur_update *tx) {
			asked.asked = 0;
			EXPECT_EQ(fur_map_remove_if(tx, map_, is_multiple, &asked, &removed), 0);
		});
		EXPECT_EQ(asked.asked, all);
		EXPECT_EQ(removed, expected);
		expect_same(model);
	}
}

TEST_P(CMap, StopsARemovalThatItsPredicateEnds)
{
	Model model;
	update([&](fur_update *tx) {
		for (uint64_t n = 0; n < 50; n++) {
			model["key of " + std::to_string(n)] = std::to_string(n);
			EXPECT_EQ(
			        put(tx, map_, "key of " + std::to_string(n), std::to_string(n)), 1);
		}
	});
	uint64_t removed = 99;
	fur_update *tx;
	ASSERT_EQ(fur_begin_update(self_, &tx), 0);
	Asked asked{1, 0, 11};
	EXPECT_EQ(fur_map_remove_if(tx, map_, is_multiple, &asked, &removed), -7);
	EXPECT_EQ(removed, 10u);
	EXPECT_EQ(all(tx, map_).size(), 40u);
	EXPECT_EQ(fur_map_remove_if(tx, map_, nullptr, nullptr, &removed), FUR_EINVAL);
	EXPECT_EQ(removed, 0u);
	EXPECT_EQ(fur_map_remove_if_in_parts(self_, map_, is_multiple, &asked, &removed),
	        FUR_ENESTED);
	EXPECT_EQ(fur_abort(tx), FUR_EABORTED);
	expect_same(model);
	asked = {1, 0, 11};
	EXPECT_EQ(fur_map_remove_if_in_parts(self_, map_, is_multiple, &asked, &removed), -7);
	EXPECT_EQ(removed, 0u);
	EXPECT_EQ(fur_map_remove_if_in_parts(self_, map_, nullptr, nullptr, nullptr), FUR_EINVAL);
	EXPECT_EQ(fur_map_remove_if_in_parts(nullptr, map_, is_multiple, &asked, nullptr),
	        FUR_EINVAL);
	EXPECT_EQ(fur_map_remove_if_in_parts(self_, nullptr, is_multiple, &asked, nullptr),
	        FUR_EINVAL);
	EXPECT_EQ(fur_thread_transaction(self_), FUR_TRANSACTION_NONE);
	expect_same(model);
}

INSTANTIATE_TEST_SUITE_P(Kinds, CMap, ::testing::Values(FUR_MAP_HASH, FUR_MAP_ORDERED),
        [](const auto &kind) { return kind.param == FUR_MAP_HASH ? "hash" : "ordered"; });

/* ---------------------------------------------- removals in parts, with the smallest log */

class CMapParts : public HeapFile, public ::testing::WithParamInterface<fur_map_kind>
{
protected:
	CMapParts() : heap_(create(options())), self_(heap_)
	{
		EXPECT_EQ(fur_map_root(self_, "map", GetParam(), &map_), 0) << fur_errormsg();
	}
	static fur::Options options()
	{
		fur::Options o = small_options();
		o.heap_bytes = 16 << 20;
		return o;
	}
	/* Keys of every other kind have the same hash. */
	static std::string key(uint64_t n)
	{
		const std::string number = std::to_string(n);
		return n % 2 ? text_of(chosen(n)) : "key of " + number + std::string(n % 40, '.');
	}
	void put_all(uint64_t n)
	{
		for (; n > 0; n--)
			fur::update(self_, fur::rerun, [&](fur_update *tx) {
				EXPECT_EQ(put(tx, map_, key(n), std::to_string(n)), 1);
			});
	}
	Model contents()
	{
		return fur::read(self_, [&](fur_ro *tx) { return all(tx, map_); });
	}

	fur::Heap heap_;
	fur::Thread self_;
	fur_map *map_ = nullptr;
};

int has_large_value(const fur_map_iterator *it, void *arg)
{
	return std::stoul(entry(it).second) > *static_cast<unsigned *>(arg);
}

TEST_P(CMapParts, RemoveWhatNoUpdateHasRoomFor)
{
	enum : unsigned { ALL = 4000, STAY = 30 };
	unsigned most = STAY;
	uint64_t removed = 99;
	const uint64_t empty = blocks_of(heap_);
	put_all(ALL);
	fur_update *tx;
	ASSERT_EQ(fur_begin_update(self_, &tx), 0);
	EXPECT_EQ(fur_map_remove_if(tx, map_, has_large_value, &most, nullptr), FUR_ETOOBIG);
	EXPECT_EQ(fur_commit(tx, nullptr), FUR_ETOOBIG);
	EXPECT_EQ(contents().size(), +ALL);
	ASSERT_EQ(fur_map_remove_if_in_parts(self_, map_, has_large_value, &most, &removed), 0)
	        << fur_errormsg();
	EXPECT_EQ(removed, ALL - STAY);
	const Model left = contents();
	EXPECT_EQ(left.size(), +STAY);
	for (uint64_t n = 1; n <= STAY; n++)
		EXPECT_EQ(left.count(key(n)), 1u);
	EXPECT_EQ(fur_map_remove_if_in_parts(self_, map_, has_large_value, &most, &removed), 0);
	EXPECT_EQ(removed, 0u);
	EXPECT_EQ(fur_map_clear_in_parts(self_, map_), 0);
	EXPECT_EQ(blocks_of(heap_), empty);
}

/* One in 100, so that parts end between entries that stay. */
int is_rare(const fur_map_iterator *it, void *)
{
	return std::stoul(entry(it).second) % 100 == 0;
}

TEST_P(CMapParts, GoOnBehindEntriesThatStay)
{
	uint64_t removed = 0;
	put_all(5000);
	ASSERT_EQ(fur_map_remove_if_in_parts(self_, map_, is_rare, nullptr, &removed), 0);
	EXPECT_EQ(removed, 50u);
	EXPECT_EQ(contents().size(), 4950u);
}

/* As has_large_value(), but the process dies at one of the calls. */
struct Dying {
	unsigned most, calls;
};
int dies_at_last(const fur_map_iterator *it, void *arg)
{
	auto *me = static_cast<Dying *>(arg);
	if (me->calls-- == 1)
		_exit(0);
	return has_large_value(it, &me->most);
}

TEST_P(CMapParts, KilledInAnyPart_LeaveAWholeMapWithAllThatStays)
{
	enum : unsigned { ALL = 3000, STAY = 30 };
	const uint64_t empty = blocks_of(heap_);
	put_all(ALL);
	heap_.close();
	size_t before = ALL;
	for (unsigned calls : {1u, 50u, 150u, 400u, 700u, 1001u}) {
		in_killed_child([&] {
			auto *heap = new fur::Heap(open(options()));
			auto *self = new fur::Thread(*heap);
			Dying how{STAY, calls};
			ASSERT_EQ(fur_map_root(*self, "map", GetParam(), &map_), 0);
			ADD_FAILURE() << "lives: "
			              << fur_map_remove_if_in_parts(
			                         *self, map_, dies_at_last, &how, nullptr);
		});
		fur::Heap heap = open(options());
		fur::Thread self(heap);
		ASSERT_EQ(fur_map_root(self, "map", GetParam(), &map_), 0);
		const Model left = fur::read(self, [&](fur_ro *tx) { return all(tx, map_); });
		for (uint64_t n = 1; n <= STAY; n++)
			EXPECT_EQ(left.count(key(n)), 1u);
		EXPECT_LE(left.size(), before);
		before = left.size();
		(void)census_of(heap);
	}
	EXPECT_LT(before, +ALL); /* some of them have died in a later part */
	fur::Heap heap = open(options());
	fur::Thread self(heap);
	ASSERT_EQ(fur_map_root(self, "map", GetParam(), &map_), 0);
	EXPECT_EQ(fur_map_clear_in_parts(self, map_), 0);
	EXPECT_EQ(blocks_of(heap), empty);
}

INSTANTIATE_TEST_SUITE_P(Kinds, CMapParts, ::testing::Values(FUR_MAP_HASH, FUR_MAP_ORDERED),
        [](const auto &kind) { return kind.param == FUR_MAP_HASH ? "hash" : "ordered"; });

/* ------------------------------------------------------- scans of hash maps by numbers */

/* The entries of fur_map_copy_at() and fur_map_scan(). */
Entries split(const std::vector<char> &part, size_t bytes)
{
	Entries entries;
	for (const char *at = part.data(); at < part.data() + bytes;) {
		uint32_t sizes[2];
		memcpy(sizes, at, sizeof sizes);
		at += sizeof sizes;
		entries.emplace_back(
		        std::string(at, sizes[0]), std::string(at + sizes[0], sizes[1]));
		at += sizes[0] + sizes[1];
	}
	return entries;
}
/* A walk by scan(uint64_t *place, size_t most, char *entries, size_t *bytes), with this room or
 * more if it must be.  between() runs between two calls. */
template <class Scan, class Between>
Entries walk(size_t most, size_t room, Scan scan, Between between)
{
	Entries seen;
	uint64_t place = 0;
	for (int more = 1; more == 1;) {
		std::vector<char> part(room);
		size_t bytes = room;
		const uint64_t before = place;
		more = scan(&place, most, part.data(), &bytes);
		if (bytes > part.size()) {
			EXPECT_EQ(more, 1);
			EXPECT_EQ(place, before);
			part.resize(bytes);
			more = scan(&place, most, part.data(), &bytes);
			EXPECT_EQ(bytes, part.size());
		}
		EXPECT_GE(more, 0) << fur_errormsg();
		EXPECT_EQ(more == 0, place == 0);
		for (auto &one : split(part, bytes))
			seen.push_back(one);
		between();
	}
	return seen;
}

class CMapScan : public ContainerHeap
{
protected:
	CMapScan()
	{
		EXPECT_EQ(fur_map_root(self_, "map", FUR_MAP_HASH, &map_), 0) << fur_errormsg();
	}
	void put_some(uint64_t from, uint64_t to)
	{
		for (uint64_t n = from; n < to; n++)
			fur::update(self_, fur::rerun, [&](fur_update *tx) {
				EXPECT_GE(put(tx, map_, Text::key(n), Text::value(n)), 0);
			});
	}
	auto scan_in_reads()
	{
		return [this](uint64_t *place, size_t most, char *to, size_t *bytes) {
			return fur::read(self_, [&](fur_ro *tx) {
				return fur_map_scan(tx, map_, place, most, to, bytes);
			});
		};
	}

	fur_map *map_ = nullptr;
};

TEST_F(CMapScan, PassesEachEntryOnce_IfNothingChanges)
{
	const auto nothing = [] {};
	EXPECT_TRUE(walk(10, 100, scan_in_reads(), nothing).empty());
	put_some(0, 500);
	const Model model = read([&](fur_ro *tx) { return all(tx, map_); });
	const auto check = [&](const auto &seen) {
		EXPECT_EQ(seen.size(), model.size());
		EXPECT_TRUE(Model(seen.begin(), seen.end()) == model);
	};
	fur::Snapshot then(self_);
	for (const size_t most : {size_t(0), size_t(1), size_t(100), SIZE_MAX})
		for (const size_t room : {0, 300, 100000}) {
			check(walk(most, room, scan_in_reads(), nothing));
			check(walk(
			        most, room,
			        [&](uint64_t *place, size_t n, char *to, size_t *bytes) {
				        int more = 0;
				        read_in_c(self_, [&](fur_reader *tx) {
					        more = fur_map_scan(tx, map_, place, n, to, bytes);
				        });
				        return more;
			        },
			        nothing));
			check(walk(
			        most, room,
			        [&](uint64_t *place, size_t n, char *to, size_t *bytes) {
				        return fur_map_scan_at(
				                self_, then.get(), map_, place, n, to, bytes);
			        },
			        nothing));
		}
	/* In an update that has added an entry. */
	update([&](fur_update *tx) {
		EXPECT_EQ(put(tx, map_, "one more", "entry"), 1);
		const auto seen = walk(
		        50, 1000,
		        [&](uint64_t *place, size_t n, char *to, size_t *bytes) {
			        return fur_map_scan(tx, map_, place, n, to, bytes);
		        },
		        nothing);
		EXPECT_TRUE(Model(seen.begin(), seen.end()) == all(tx, map_));
	});
	put_some(500, 600);
	check(walk(
	        7, 1000,
	        [&](uint64_t *place, size_t n, char *to, size_t *bytes) {
		        return fur_map_scan_at(self_, then.get(), map_, place, n, to, bytes);
	        },
	        nothing));
}

TEST_F(CMapScan, StopsAtTheEndOfTheGroupThatHasTheLast)
{
	put_some(0, 500);
	std::vector<char> part(100000);
	for (const size_t most : {1, 40, 200}) {
		uint64_t place = 0;
		size_t bytes = part.size();
		EXPECT_EQ(scan_in_reads()(&place, most, part.data(), &bytes), 1);
		const size_t passed = split(part, bytes).size();
		EXPECT_GE(passed, most);
		EXPECT_LT(passed, most + 8);
	}
}

/* Entries that stay are all seen, while others come and go, and the heap is opened again. */
TEST_F(CMapScan, SeesWhatIsThereAllTheTime)
{
	put_some(0, 200);
	uint64_t next = 200;
	int calls = 0;
	const auto seen = walk(10, 2000, scan_in_reads(), [&] {
		put_some(next, next + 40);
		for (uint64_t n = std::max<uint64_t>(next - 40, 200); n < next; n++)
			fur::update(self_, fur::rerun, [&](fur_update *tx) {
				EXPECT_EQ(remove(tx, map_, Text::key(n)), 1);
			});
		next += 40;
		if (++calls == 5) {
			reopen();
			EXPECT_EQ(fur_map_find_root(self_, "map", FUR_MAP_HASH, &map_), 1);
		}
	});
	EXPECT_GE(calls, 5);
	const Model model(seen.begin(), seen.end());
	for (uint64_t n = 0; n < 200; n++)
		EXPECT_EQ(model.count(Text::key(n)), 1u) << Text::key(n);
}

/* Keys that were chosen for their hashes come as one group. */
TEST_F(CMapScan, PassesABucketAsAWhole)
{
	enum : uint64_t { ALIKE = 60 };
	for (uint64_t n = 0; n < ALIKE; n++)
		fur::update(self_, fur::rerun, [&](fur_update *tx) {
			EXPECT_EQ(put(tx, map_, text_of(chosen(n)), "v"), 1);
		});
	put_some(0, 100);
	const auto seen = walk(1, 200, scan_in_reads(), [] {});
	EXPECT_EQ(seen.size(), ALIKE + 100);
	EXPECT_EQ(Model(seen.begin(), seen.end()).size(), ALIKE + 100);
}

TEST_F(CMapScan, RefusesMisuse)
{
	put_some(0, 50);
	fur_map *ordered;
	ASSERT_EQ(fur_map_root(self_, "ordered", FUR_MAP_ORDERED, &ordered), 0);
	char to[100];
	uint64_t place = 5;
	size_t bytes = 7;
	const auto refuse = [&](auto *tx) {
		bytes = sizeof to;
		EXPECT_EQ(fur_map_scan(tx, ordered, &place, 1, to, &bytes), FUR_EINVAL);
		EXPECT_NE(std::string(fur_errormsg()).find("FUR_MAP_BEHIND"), std::string::npos);
		EXPECT_EQ(bytes, 0u);
		bytes = sizeof to;
		EXPECT_EQ(fur_map_scan(tx, map_, nullptr, 1, to, &bytes), FUR_EINVAL);
		EXPECT_EQ(fur_map_scan(tx, map_, &place, 1, to, nullptr), FUR_EINVAL);
		bytes = sizeof to;
		EXPECT_EQ(fur_map_scan(tx, map_, &place, 1, nullptr, &bytes), FUR_EINVAL);
		bytes = sizeof to;
		EXPECT_EQ(fur_map_scan(tx, static_cast<fur_map *>(nullptr), &place, 1, to, &bytes),
		        FUR_EINVAL);
	};
	read([&](fur_ro *tx) { refuse(tx); });
	update([&](fur_update *tx) { refuse(tx); });
	fur::Snapshot now(self_);
	bytes = sizeof to;
	EXPECT_EQ(fur_map_scan_at(self_, now.get(), ordered, &place, 1, to, &bytes), FUR_EINVAL);
	EXPECT_EQ(bytes, 0u);
	EXPECT_EQ(fur_map_scan_at(self_, now.get(), map_, &place, 1, to, nullptr), FUR_EINVAL);
	bytes = sizeof to;
	read([&](fur_ro *) {
		EXPECT_EQ(fur_map_scan_at(self_, now.get(), map_, &place, 1, to, &bytes),
		        FUR_ENESTED);
	});
	EXPECT_EQ(place, 5u);
}

class COrderedMap : public ContainerHeap
{
};

TEST_F(COrderedMap, GoesWhereItIsAsked)
{
	fur_map *map;
	ASSERT_EQ(fur_map_root(self_, "map", FUR_MAP_ORDERED, &map), 0);
	Model model;
	auto expect_at = [&](int found, fur_map_iterator *it, Model::iterator at) {
		ASSERT_EQ(found, at != model.end()) << fur_errormsg();
		if (found) {
			EXPECT_EQ(entry(it).first, at->first);
		}
	};
	auto check = [&](auto *tx) {
		fur_map_iterator it;
		expect_at(seek(tx, map, FUR_MAP_FIRST, "", &it), &it, model.begin());
		expect_at(seek(tx, map, FUR_MAP_LAST, "", &it), &it,
		        model.empty() ? model.end() : std::prev(model.end()));
		for (uint64_t n = 0; n < 60; n++) {
			const std::string key = Text::key(n);
			expect_at(seek(tx, map, FUR_MAP_AT, key, &it), &it, model.find(key));
			expect_at(seek(tx, map, FUR_MAP_BEHIND, key, &it), &it,
			        model.upper_bound(key));
			auto at = model.upper_bound(key);
			expect_at(seek(tx, map, FUR_MAP_FLOOR, key, &it), &it,
			        at == model.begin() ? model.end() : std::prev(at));
			at = model.lower_bound(key);
			expect_at(seek(tx, map, FUR_MAP_BEFORE, key, &it), &it,
			        at == model.begin() ? model.end() : std::prev(at));
			expect_at(seek(tx, map, FUR_MAP_FROM, key, &it), &it, at);
			/* Backwards, from here or from the end, to the end. */
			while (at != model.begin())
				expect_at(fur_map_previous(&it), &it, --at);
			EXPECT_EQ(fur_map_previous(&it), 0);
			if (!model.empty())
				expect_at(fur_map_previous(&it), &it, std::prev(model.end()));
		}
	};
	read([&](fur_ro *tx) { check(tx); });
	fur::read(self_, fur::rerun, [&](fur_reader *tx) { check(tx); });
	for (uint64_t n = 0; n < 60; n += 2) {
		update([&](fur_update *tx) { EXPECT_EQ(put(tx, map, Text::key(n), "v"), 1); });
		model[Text::key(n)] = "v";
	}
	read([&](fur_ro *tx) { check(tx); });
	fur::read(self_, fur::rerun, [&](fur_reader *tx) { check(tx); });
	update([&](fur_update *tx) { check(tx); });
}

TEST_F(COrderedMap, AHashMapHasNoOrder)
{
	fur_map *map;
	ASSERT_EQ(fur_map_root(self_, "map", FUR_MAP_HASH, &map), 0);
	read([&](fur_ro *tx) {
		fur_map_iterator it;
		for (fur_map_place where :
		        {FUR_MAP_LAST, FUR_MAP_FROM, FUR_MAP_BEHIND, FUR_MAP_FLOOR, FUR_MAP_BEFORE})
			EXPECT_EQ(seek(tx, map, where, "k", &it), FUR_EINVAL);
		EXPECT_EQ(seek(tx, map, FUR_MAP_FIRST, "", &it), 0);
		EXPECT_EQ(fur_map_previous(&it), FUR_EINVAL);
	});
}

/* Several values for a key: composite keys with empty values (docs/bindings.md). */
TEST_F(COrderedMap, KeepsSeveralValuesOfAKey)
{
	fur_map *logins;
	ASSERT_EQ(fur_map_root(self_, "logins", FUR_MAP_ORDERED, &logins), 0);
	/* The key, a byte that no key has, and the value, in whose order they are. */
	const auto pair = [](const std::string &user, const std::string &token) {
		return user + '\0' + token;
	};
	const auto behind = [](const std::string &user) { return user + '\1'; };
	update([&](fur_update *tx) {
		for (const char *token : {"3", "1", "2", "1"})
			EXPECT_GE(insert(tx, logins, pair("ada", token), ""), 0);
		EXPECT_EQ(insert(tx, logins, pair("ad", "4"), ""), 1);
		EXPECT_EQ(insert(tx, logins, pair("ada1", "5"), ""), 1);
		EXPECT_EQ(remove(tx, logins, pair("ada", "2")), 1);
	});
	const auto of = [&](const std::string &user) {
		std::vector<std::string> tokens;
		read([&](fur_ro *tx) {
			fur_map_iterator it;
			int found = seek(tx, logins, FUR_MAP_FROM, pair(user, ""), &it);
			for (; found == 1 && entry(&it).first < behind(user);
			        found = fur_map_next(&it))
				tokens.push_back(entry(&it).first.substr(user.size() + 1));
		});
		return tokens;
	};
	EXPECT_EQ(of("ada"), (std::vector<std::string>{"1", "3"}));
	EXPECT_EQ(of("ad"), std::vector<std::string>{"4"});
	update([&](fur_update *tx) {
		uint64_t removed;
		EXPECT_EQ(remove_range(tx, logins, pair("ada", ""), behind("ada"), &removed), 0);
		EXPECT_EQ(removed, 2u);
	});
	EXPECT_TRUE(of("ada").empty());
	EXPECT_EQ(of("ada1"), std::vector<std::string>{"5"});
}

/* ------------------------------------------------- optimistic readers, step by step */

class CMapBeside : public Software, public ::testing::WithParamInterface<fur_map_kind>
{
protected:
	void SetUp() override
	{
		if (readers_are_plain())
			GTEST_SKIP() << "updates would wait for the reader";
		EXPECT_EQ(fur_map_root(self_, "map", GetParam(), &map_), 0) << fur_errormsg();
		put_all("old");
		prefer_in_place(self_, false);
	}
	static std::string key(int n)
	{
		return "key number " + std::to_string(n);
	}
	void put_all(const std::string &value)
	{
		fur::update(self_, fur::rerun, [&](fur_update *tx) {
			for (int n = 0; n < ENTRIES; n++)
				EXPECT_GE(put(tx, map_, key(n), value), 0);
		});
	}
	/* The other thread changes all values, and removes one entry. */
	void other_changes_all()
	{
		other_.run([this](fur_thread *t) {
			prefer_in_place(t, false);
			fur::update(t, fur::rerun, [&](fur_update *tx) {
				for (int n = 0; n < ENTRIES; n++)
					EXPECT_EQ(put(tx, map_, key(n), NEW), 0);
				EXPECT_EQ(remove(tx, map_, key(0)), 1);
			});
		});
	}
	void other_puts(const std::string &at, const std::string &value, bool added = false)
	{
		other_.run([&](fur_thread *t) {
			prefer_in_place(t, false);
			fur::update(t, fur::rerun, [&](fur_update *tx) {
				EXPECT_EQ(put(tx, map_, at, value), added);
			});
		});
	}
	/* Where the value's words are, for their stamp. */
	const uint64_t *words_of(const std::string &at)
	{
		const void *inside = reinterpret_cast<const uint64_t *>(map_) + 1;
		return fur::read(self_, [&](fur_ro *tx) {
			return GetParam() == FUR_MAP_ORDERED
			               ? static_cast<const OrderedMap *>(inside)->value_words(
			                         tx, at)
			               : static_cast<const HashMap *>(inside)->value_words(tx, at);
		});
	}
	uint64_t reads_again() const
	{
		return self_.get()->stats.reads_again;
	}

	enum { ENTRIES = 40 };
	static constexpr const char *NEW = "a new value that is longer than twelve characters";
	fur_map *map_ = nullptr;
};

/* It neither stops the update nor sees a part of it. */
TEST_P(CMapBeside, AReaderThatMeetsAnUpdate_RunsAgain)
{
	for (bool updates_in : {false, true}) {
		int runs = 0, entries = 0, changed = 0;
		const uint64_t before = reads_again();
		put_all("old");
		if (updates_in)
			let_updates_in();
		EXPECT_EQ(read_in_c(self_,
		                  [&](fur_reader *tx) {
			                  fur_map_iterator it;
			                  runs++;
			                  entries = changed = 0;
			                  for (int at = seek(tx, map_, FUR_MAP_FIRST, "", &it);
			                          at == 1; at = fur_map_next(&it)) {
				                  char value[64];
				                  if (++entries == 3 && runs == 1)
					                  other_changes_all();
				                  changed += fur_map_value(&it, value, 64) > 3;
			                  }
		                  }),
		        0);
		EXPECT_EQ(runs, 2);
		EXPECT_EQ(entries, ENTRIES - 1);
		EXPECT_EQ(changed, ENTRIES - 1);
		EXPECT_EQ(reads_again(), before + 1);
		expect_sound();
	}
}

/* Each run of the body meets an update, until it runs plainly. */
TEST_P(CMapBeside, AReaderThatAlwaysMeetsUpdates_EndsAtLast)
{
	int runs = 0, found = 0;
	EXPECT_EQ(read_in_c(self_,
	                  [&](fur_reader *tx) {
		                  size_t bytes = 0;
		                  uint64_t size = 0;
		                  runs++;
		                  found = fur_map_size(tx, map_, &size);
		                  /* The size changes, which it has loaded. */
		                  other_puts(key(1000 + runs), "new", true);
		                  other_puts(key(7), "another");
		                  found = fur_map_get(
		                          tx, map_, "key number 7", 12, nullptr, &bytes);
	                  }),
	        0);
	EXPECT_EQ(runs, 4);
	EXPECT_EQ(found, 1);
	EXPECT_EQ(reads_again(), uint64_t(runs) - 1);
	expect_sound();
}

/* Updates publish beside each other; one has stored to the value since the call began. */
TEST_P(CMapBeside, GetOne_RunsAgain_AndLeavesUpdatesIn)
{
	const engine &e = heap_.get()->engine;
	const uint64_t *at = words_of(key(5));
	uint64_t *stamp = stamp_of(&e, at);
	let_updates_in();
	const uint64_t free = arch_load_acquire(stamp);
	ASSERT_FALSE(stamp_is_held(free));
	Helper second(heap_);
	uint32_t me = 0;
	second.run([&](fur_thread *t) { me = t->index; });
	arch_store_release(stamp, stamp_held_by(self_.get()->index, 0));
	char value[8] = "xxxxxxx";
	size_t bytes = 3;
	int found = -1;
	uint64_t again = 0;
	second.start([&](fur_thread *t) {
		found = fur_map_get_one(t, map_, key(5).data(), key(5).size(), value, &bytes);
		again = t->stats.reads_again;
	});
	while (!arch_load(&e.active[me].seq))
		usleep(100);
	usleep(20000);
	EXPECT_TRUE(second.busy()) << "it waits for the holder";
	EXPECT_EQ(arch_load(&e.active[me].seq) & ACTIVE_SOFTWARE, uint64_t(ACTIVE_SOFTWARE));
	other_sets(word(0), 1); /* draws the durTS that becomes the version */
	const uint64_t version = arch_load_acquire(stamp_of(&e, word(0)));
	arch_store_release(stamp, version);
	second.finish();
	EXPECT_EQ(found, 1);
	EXPECT_EQ(again, 1u);
	EXPECT_EQ(bytes, 3u);
	EXPECT_STREQ(value, "oldxxxx");
	EXPECT_EQ(shut_now(&e), UPDATES_IN);
	fur_map *map;
	EXPECT_EQ(fur_map_find_root(self_, "map", GetParam(), &map), 1);
	EXPECT_EQ(map, map_);
	EXPECT_EQ(shut_now(&e), UPDATES_IN);
	expect_sound();
}

INSTANTIATE_TEST_SUITE_P(Kinds, CMapBeside, ::testing::Values(FUR_MAP_HASH, FUR_MAP_ORDERED),
        [](const auto &kind) { return kind.param == FUR_MAP_HASH ? "hash" : "ordered"; });

/* ------------------------------------------------------------------- snapshots */

fur_options small_images()
{
	fur_options o = software_options();
	o.snapshot_bytes = 1; /* the least: the images of one segment */
	return o;
}

class CMapInSnapshots : public Software, public ::testing::WithParamInterface<fur_map_kind>
{
protected:
	explicit CMapInSnapshots(const fur_options &o = software_options()) : Software(o) {}

	void SetUp() override
	{
		EXPECT_EQ(fur_map_root(self_, "map", GetParam(), &map_), 0) << fur_errormsg();
	}
	/* In updates that fit the log. */
	void put_all(int entries, const std::string &value)
	{
		for (int n = 0; n < entries; n += 20)
			fur::update(self_, fur::rerun, [&](fur_update *tx) {
				for (int k = n; k < n + 20 && k < entries; k++)
					EXPECT_GE(put(tx, map_, key(k), value), 0);
			});
	}
	static std::string key(int n)
	{
		return std::to_string(10000 + n) +
		       (n % 3 ? "" : " and more than twelve characters");
	}
	/* One call; the result, and the entries in *to. */
	int copy(const fur::Snapshot &s, fur_map_place where, const std::string &from, size_t room,
	        Entries *to, size_t *bytes)
	{
		std::vector<char> part(room + 1, 0x5a);
		*bytes = room;
		const int result = fur_map_copy_at(
		        self_, s.get(), map_, where, from.data(), from.size(), part.data(), bytes);
		EXPECT_EQ(part[room], 0x5a);
		if (*bytes <= room)
			for (auto &one : split(part, *bytes))
				to->push_back(one);
		return result;
	}
	/* All entries from the place on, by calls with this room, or more if it must be. */
	Entries walk(const fur::Snapshot &s, fur_map_place where, fur_map_place onward, size_t room)
	{
		Entries all;
		std::string from;
		size_t bytes;
		int more = 1;
		while (more == 1) {
			more = copy(s, where, from, room, &all, &bytes);
			if (bytes > room)
				more = copy(s, where, from, bytes, &all, &bytes);
			if (!all.empty()) {
				from = all.back().first;
				where = onward;
			}
		}
		EXPECT_EQ(more, 0) << fur_errormsg();
		return all;
	}

	fur_map *map_ = nullptr;
};

TEST_P(CMapInSnapshots, ShowWhatThereWas)
{
	put_all(200, "then");
	fur::Snapshot then(self_);
	put_all(300, "a new value of more than twelve characters");
	fur::update(
	        self_, fur::rerun, [&](fur_update *tx) { EXPECT_EQ(remove(tx, map_, key(7)), 1); });
	fur::Snapshot later(self_);
	EXPECT_EQ(fur_map_clear_in_parts(self_, map_), 0);

	char value[100];
	size_t bytes = sizeof value;
	EXPECT_EQ(fur_map_get_at(self_, then.get(), map_, "10007", 5, value, &bytes), 1);
	EXPECT_EQ(std::string(value, bytes), "then");
	EXPECT_EQ(fur_map_get_at(self_, later.get(), map_, "10007", 5, value, &bytes), 0);
	EXPECT_EQ(bytes, 0u);
	const auto many = [&](const fur::Snapshot &s) {
		return get_many({"10007", "10008", "9"}, 10, [&](auto *lookups, size_t n) {
			return fur_map_get_many_at(self_, s.get(), map_, lookups, n);
		});
	};
	using Found = std::vector<std::optional<std::string>>;
	EXPECT_EQ(many(then), (Found{"then", "then", std::nullopt}));
	EXPECT_EQ(many(later), (Found{std::nullopt, "a new valu...", std::nullopt}));
	uint64_t size = 0;
	EXPECT_EQ(fur_map_size_at(self_, then.get(), map_, &size), 0);
	EXPECT_EQ(size, 200u);
	EXPECT_EQ(fur_map_size_at(self_, later.get(), map_, &size), 0);
	EXPECT_EQ(size, 299u);
	for (size_t room : {0, 100, 5000, 100000}) {
		Entries all = walk(then, FUR_MAP_FIRST, FUR_MAP_BEHIND, room);
		EXPECT_EQ(all.size(), 200u);
		const Model model(all.begin(), all.end());
		ASSERT_EQ(model.size(), 200u);
		for (int n = 0; n < 200; n++)
			EXPECT_EQ(model.at(key(n)), "then");
		if (GetParam() == FUR_MAP_ORDERED) {
			EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
			std::reverse(all.begin(), all.end());
			EXPECT_TRUE(walk(then, FUR_MAP_LAST, FUR_MAP_BEFORE, room) == all);
		}
		EXPECT_EQ(walk(later, FUR_MAP_FIRST, FUR_MAP_BEHIND, room).size(), 299u);
	}
}

TEST_P(CMapInSnapshots, FindTheMapThatHadTheName)
{
	fur_map *other;
	fur::Snapshot before(self_);
	ASSERT_EQ(fur_map_root(self_, "other", GetParam(), &other), 0);
	fur::Snapshot after(self_);
	ASSERT_EQ(fur_map_destroy_root(self_, "other"), 1);
	fur_map *found = map_;
	EXPECT_EQ(fur_map_find_root_at(self_, before.get(), "other", GetParam(), &found), 0);
	EXPECT_EQ(found, nullptr);
	EXPECT_EQ(fur_map_find_root_at(self_, after.get(), "other", GetParam(), &found), 1);
	EXPECT_EQ(found, other);
	uint64_t size = 1;
	EXPECT_EQ(fur_map_size_at(self_, after.get(), other, &size), 0);
	EXPECT_EQ(size, 0u);
	EXPECT_EQ(fur_map_size_at(self_, before.get(), other, &size), FUR_EINVAL);
	const auto wrong = GetParam() == FUR_MAP_HASH ? FUR_MAP_ORDERED : FUR_MAP_HASH;
	EXPECT_EQ(fur_map_find_root_at(self_, after.get(), "other", wrong, &found), FUR_EINVAL);
}

TEST_P(CMapInSnapshots, RefuseMisuse)
{
	put_all(2, "v");
	fur::Snapshot s(self_);
	fur_snapshot *at = s.get();
	size_t bytes = 0;
	uint64_t size;
	Entries none;
	for (int place : {99, GetParam() == FUR_MAP_HASH ? +FUR_MAP_FROM : 98})
		EXPECT_EQ(copy(s, static_cast<fur_map_place>(place), "k", 100, &none, &bytes),
		        FUR_EINVAL);
	EXPECT_EQ(fur_map_copy_at(self_, at, map_, FUR_MAP_FIRST, nullptr, 0, nullptr, nullptr),
	        FUR_EINVAL);
	EXPECT_EQ(fur_map_copy_at(self_, at, map_, FUR_MAP_AT, nullptr, 3, nullptr, &bytes),
	        FUR_EINVAL);
	bytes = 3;
	EXPECT_EQ(fur_map_copy_at(self_, at, map_, FUR_MAP_FIRST, nullptr, 0, nullptr, &bytes),
	        FUR_EINVAL);
	EXPECT_EQ(fur_map_size_at(self_, nullptr, map_, &size), FUR_EINVAL);
	EXPECT_EQ(fur_map_size_at(nullptr, at, map_, &size), FUR_EINVAL);
	fur::read(self_,
	        [&](fur_ro *) { EXPECT_EQ(fur_map_size_at(self_, at, map_, &size), FUR_ENESTED); });
	/* At the end, and a key that is not there. */
	EXPECT_EQ(copy(s, FUR_MAP_AT, "none", 100, &none, &bytes), 0);
	EXPECT_EQ(copy(s, FUR_MAP_BEHIND, "none", 100, &none, &bytes), 0);
	EXPECT_EQ(bytes, 0u);
	EXPECT_TRUE(none.empty());
}

INSTANTIATE_TEST_SUITE_P(Kinds, CMapInSnapshots, ::testing::Values(FUR_MAP_HASH, FUR_MAP_ORDERED),
        [](const auto &kind) { return kind.param == FUR_MAP_HASH ? "hash" : "ordered"; });

class CMapInSmallSnapshots : public CMapInSnapshots
{
protected:
	CMapInSmallSnapshots() : CMapInSnapshots(small_images()) {}
};

TEST_P(CMapInSmallSnapshots, SayThatTheyAreTooOld)
{
	put_all(300, std::string(100, 'v'));
	fur::Snapshot s(self_);
	/* More lines than can be saved. */
	for (int n = 0; n < 20; n++)
		put_all(300, std::string(200, static_cast<char>('a' + n)));
	uint64_t size;
	size_t bytes = 0;
	Entries none;
	fur_map *map;
	EXPECT_EQ(fur_map_size_at(self_, s.get(), map_, &size), FUR_ETOOOLD);
	EXPECT_EQ(fur_map_get_at(self_, s.get(), map_, "k", 1, nullptr, &bytes), FUR_ETOOOLD);
	EXPECT_EQ(copy(s, FUR_MAP_FIRST, "", 1000, &none, &bytes), FUR_ETOOOLD);
	EXPECT_EQ(fur_map_find_root_at(self_, s.get(), "map", GetParam(), &map), FUR_ETOOOLD);
}

INSTANTIATE_TEST_SUITE_P(Kinds, CMapInSmallSnapshots,
        ::testing::Values(FUR_MAP_HASH, FUR_MAP_ORDERED),
        [](const auto &kind) { return kind.param == FUR_MAP_HASH ? "hash" : "ordered"; });

} // namespace
