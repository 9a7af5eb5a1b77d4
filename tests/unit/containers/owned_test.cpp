/* SPDX-License-Identifier: BSD-3-Clause
 *
 * owned_test.cpp - structs with strings and containers inside, and containers, as values of maps
 * and elements of vectors and queues: nothing of them is lost, and nothing is left.
 */
#include "containers.hpp"

#include <csignal>
#include <deque>
#include <thread>

struct OwnedPart {
	fur::string text;
	uint32_t n;
	uint32_t zero;
	FUR_MEMBERS(text, n, zero)
};
struct Owned {
	fur::string name;
	fur::vector<fur::string> notes;
	fur::ordered_map<uint64_t, fur::string, 3> log;
	fur::queue<uint64_t> jobs;
	uint64_t number = 7;
	OwnedPart parts[2];
	std::array<fur::hash_map<uint64_t, uint64_t>, 2> counts;
	FUR_MEMBERS(name, notes, log, jobs, number, parts, counts)
};
/* Frees what a pointer leads to. */
struct OwnedByHand {
	fur::ptr<uint64_t> block;
	fur::string name;

	void clear(fur_update *tx)
	{
		fur_free(tx, block.get(tx));
		block.set(tx, nullptr);
		name.clear(tx);
	}
	FUR_MEMBERS(block, name)
};

namespace
{

struct Model {
	std::string name;
	std::vector<std::string> notes;
	std::map<uint64_t, std::string> log;
	std::deque<uint64_t> jobs;
	uint64_t number = 7;
	std::string part[2];
	std::map<uint64_t, uint64_t> counts[2];
};

class OwnedValues : public ContainerHeap
{
protected:
	OwnedValues() : before_(blocks_of(heap_)) {}

	std::string text()
	{
		return std::string(below(40), static_cast<char>('a' + below(26)));
	}
	/* A random change of the object, and of its model. */
	void change(fur_update *tx, Owned *owned, Model &model);
	static void expect_same(fur_ro *tx, const Owned *owned, const Model &model);
	/* The blocks of a container in the heap, and of nothing else. */
	template <class C>
	void expect_no_leak(const C *container, uint64_t others)
	{
		const uint64_t own =
		        read([&](fur_ro *tx) { return expect_verified(tx, *container); });
		EXPECT_EQ(blocks_of(heap_), before_ + others + own);
	}
	template <class C>
	C *make()
	{
		return update([](fur_update *tx) { return fur::make<C>(tx); });
	}
	template <class C>
	void destroy(C *container)
	{
		update([&](fur_update *tx) { fur::destroy(tx, container); });
		EXPECT_EQ(blocks_of(heap_), before_);
	}
	template <class M, class Models>
	void change_map(fur_update *tx, M *map, const typename M::key_type &key, Models &changed);
	template <class M, class Key>
	void expect_map_agrees(Key key_of);
	/* The ways to remove entries other than by their key. */
	template <class M, class Models>
	void remove_some(fur_update *tx, M *map, Models &models);

	uint64_t before_;
};

void OwnedValues::change(fur_update *tx, Owned *owned, Model &model)
{
	const std::string some = text();
	const uint64_t k = below(2), n = below(30);
	switch (below(8)) {
	case 0: owned->name.assign(tx, model.name = some); break;
	case 1:
		owned->notes.push_back(tx, some);
		model.notes.push_back(some);
		break;
	case 2:
		owned->log.insert_or_assign(tx, n, some);
		model.log[n] = some;
		break;
	case 3: EXPECT_EQ(owned->log.erase(tx, n), model.log.erase(n)); break;
	case 4:
		owned->jobs.push(tx, n);
		model.jobs.push_back(n);
		break;
	case 5: fur_store(tx, &owned->number, model.number = n); break;
	case 6: owned->parts[k].text.assign(tx, model.part[k] = some); break;
	default: owned->counts[k].insert_or_assign(tx, n, n + 1); model.counts[k][n] = n + 1;
	}
}

void OwnedValues::expect_same(fur_ro *tx, const Owned *owned, const Model &model)
{
	ASSERT_NE(owned, nullptr);
	EXPECT_EQ(owned->name.view(tx), model.name);
	EXPECT_EQ(fur_load(tx, &owned->number), model.number);
	ASSERT_EQ(owned->notes.size(tx), model.notes.size());
	for (size_t i = 0; i < model.notes.size(); i++)
		EXPECT_EQ(owned->notes.get(tx, i), model.notes[i]);
	std::map<uint64_t, std::string> log;
	for (auto entry : owned->log.in(tx))
		log.insert(entry);
	EXPECT_EQ(log, model.log);
	EXPECT_EQ(owned->jobs.size(tx), model.jobs.size());
	if (!model.jobs.empty()) {
		EXPECT_EQ(owned->jobs.front(tx), model.jobs.front());
	}
	for (size_t k = 0; k < 2; k++) {
		EXPECT_EQ(owned->parts[k].text.view(tx), model.part[k]);
		std::map<uint64_t, uint64_t> counts;
		for (auto entry : owned->counts[k].in(tx))
			counts.insert(entry);
		EXPECT_EQ(counts, model.counts[k]);
	}
}

template <class M, class Models>
void OwnedValues::remove_some(fur_update *tx, M *map, Models &models)
{
	constexpr bool ORDERED = std::is_same_v<M, fur::ordered_map<fur::string, Owned, 3>>;
	const uint64_t number = below(30);
	const auto goes = [&](const auto &entry) {
		return fur_load(tx, &entry.second->number) == number;
	};
	const auto skip = static_cast<ptrdiff_t>(below(models.size() + 1));
	if (below(2) == 0) {
		uint64_t gone = 0;
		for (auto at = models.begin(); at != models.end();)
			if (at->second.number == number)
				at = models.erase(at), gone++;
			else
				++at;
		EXPECT_EQ(map->erase_if(tx, goes), gone);
	} else if (models.empty()) {
		EXPECT_TRUE(map->in(tx).begin() == map->in(tx).end());
	} else if constexpr (ORDERED) {
		const auto first = std::next(models.begin(), skip / 2);
		const auto last = std::next(first, skip / 5);
		const auto n = static_cast<uint64_t>(skip / 5);
		const auto end = last == models.end() ? std::string(99, '~') : last->first;
		EXPECT_EQ(map->delete_range(tx, first->first, end), n);
		models.erase(first, last);
	} else {
		auto at = map->in(tx).begin();
		for (int k = 0; k < 3 && at != map->in(tx).end(); k++) {
			models.erase(at->first);
			at = map->erase(tx, at);
		}
	}
}

/* A change of the map, whichever, and the same of its model. */
template <class M, class Models>
void OwnedValues::change_map(
        fur_update *tx, M *map, const typename M::key_type &key, Models &changed)
{
	switch (below(24)) {
	case 0: EXPECT_EQ(map->erase(tx, key), changed.erase(key)); break;
	case 1:
		EXPECT_EQ(map->insert_or_assign(tx, key, {}), changed.count(key) == 0);
		changed[key] = Model();
		break;
	case 2: {
		Owned fresh{};
		fresh.number = 99;
		if (below(2) ? map->insert(tx, key, fresh)
		             : map->try_emplace(tx, key, fresh).second)
			changed[key].number = 99;
		break;
	}
	case 3: remove_some(tx, map, changed); break;
	case 4: {
		const auto [at, added] = map->try_emplace(tx, key);
		EXPECT_EQ(added, changed.count(key) == 0);
		change(tx, at, changed[key]);
		break;
	}
	case 5:
		EXPECT_EQ(fur_load(tx, &map->get_or_insert(tx, key, {})->number),
		        changed[key].number);
		break;
	default: map->insert(tx, key, {}); change(tx, map->lookup(tx, key), changed[key]);
	}
}

template <class M, class Key>
void OwnedValues::expect_map_agrees(Key key_of)
{
	using Models = std::map<typename M::key_type, Model>;
	M *map = make<M>();
	Models models;
	for (int round = 0; round < rounds(400) && !HasFailure(); round++) {
		Models changed = models;
		try {
			update([&](fur_update *tx) {
				for (int k = 0; k < 10; k++)
					change_map(tx, map, key_of(below(40)), changed);
				if (below(8) == 0)
					throw std::runtime_error("gives up");
			});
			models = changed;
		} catch (const std::runtime_error &e) {
			ASSERT_STREQ(e.what(), "gives up");
		}
		if (round % 50 == 0)
			expect_no_leak(map, 1);
	}
	read([&](fur_ro *tx) {
		EXPECT_EQ(map->size(tx), models.size());
		for (const auto &[key, model] : models)
			expect_same(tx, map->at(tx, key), model);
		for (auto [key, owned] : map->in(tx))
			EXPECT_EQ(owned->name.view(tx), models[key].name);
	});
	size_t seen = 0;
	fur::scan(
	        self_, *map,
	        [&](fur_ro *tx, const auto &key, const Owned *owned) {
		        EXPECT_EQ(owned->name.view(tx), models[key].name);
		        seen++;
	        },
	        7);
	EXPECT_EQ(seen, models.size());
	expect_no_leak(map, 1);
	destroy(map);
}

TEST_F(OwnedValues, OfAHashMap_AgreeWithTheModel)
{
	SCOPED_TRACE("FUR_TEST_SEED=" + std::to_string(seed_));
	expect_map_agrees<fur::hash_map<uint64_t, Owned>>([](uint64_t n) { return n; });
}

TEST_F(OwnedValues, OfAnOrderedMap_AgreeWithTheModel)
{
	SCOPED_TRACE("FUR_TEST_SEED=" + std::to_string(seed_));
	expect_map_agrees<fur::ordered_map<fur::string, Owned, 3>>(
	        [](uint64_t n) { return Sample<fur::string>::key(n); });
}

TEST_F(OwnedValues, OfAVectorAndAQueue_AgreeWithTheModel)
{
	SCOPED_TRACE("FUR_TEST_SEED=" + std::to_string(seed_));
	auto *vector = make<fur::vector<Owned>>();
	auto *queue = make<fur::queue<Owned>>();
	std::deque<Model> models, queued;
	for (int round = 0; round < rounds(1000) && !HasFailure(); round++)
		update([&](fur_update *tx) {
			const uint64_t i = below(models.size() + 1);
			if (i == models.size()) {
				change(tx, vector->push_back(tx, {}), models.emplace_back());
				change(tx, queue->push(tx, {}), queued.emplace_back());
			} else if (below(10) == 0) {
				vector->pop_back(tx);
				models.pop_back();
				EXPECT_TRUE(queue->pop(tx));
				queued.pop_front();
			} else if (below(10) == 0) {
				vector->set(tx, i, {});
				models[i] = Model();
			} else {
				change(tx, vector->lookup(tx, i), models[i]);
			}
		});
	read([&](fur_ro *tx) {
		ASSERT_EQ(vector->size(tx), models.size());
		for (size_t i = 0; i < models.size(); i++)
			expect_same(tx, vector->get(tx, i), models[i]);
		if (!queued.empty())
			expect_same(tx, *queue->front(tx), queued.front());
	});
	update([&](fur_update *tx) { queue->clear(tx); });
	expect_no_leak(vector, 2);
	update([&](fur_update *tx) {
		EXPECT_FALSE(queue->pop(tx));
		queue->push(tx, {})->name.assign(tx, "a name that needs a block");
	});
	update([&](fur_update *tx) { fur::destroy(tx, queue); });
	destroy(vector);
}

using Shelf = fur::ordered_map<fur::string, fur::vector<uint64_t>>;

TEST_F(OwnedValues, CanBeContainersOfContainers)
{
	auto *map = make<fur::hash_map<uint64_t, Shelf>>();
	update([&](fur_update *tx) {
		for (uint64_t n = 0; n < 60; n++) {
			map->insert(tx, n % 20, {});
			Shelf *shelf = map->lookup(tx, n % 20);
			shelf->insert(tx, Sample<fur::string>::key(n), {});
			shelf->lookup(tx, Sample<fur::string>::key(n))->push_back(tx, n);
		}
	});
	reopen();
	read([&](fur_ro *tx) {
		uint64_t sum = 0;
		for (auto [n, shelf] : map->in(tx))
			for (auto [name, numbers] : shelf->in(tx))
				for (uint64_t number : numbers->in(tx))
					sum += number;
		EXPECT_EQ(sum, 60u * 59 / 2);
	});
	expect_no_leak(map, 1);
	update([&](fur_update *tx) {
		EXPECT_EQ(map->erase(tx, 3), 1u);
		EXPECT_FALSE(map->insert_or_assign(tx, 4, {}));
	});
	expect_no_leak(map, 1);
	fur::destroy(self_, map);
	EXPECT_EQ(blocks_of(heap_), before_);
}

struct Indexed {
	fur::ordered_multimap<std::pair<fur::string, uint64_t>, fur::string> index;
	fur::hash_set<fur::string> tags;
	FUR_MEMBERS(index, tags)
};

TEST_F(OwnedValues, CanHaveSetsAndMultimaps)
{
	auto *map = make<fur::ordered_map<uint64_t, Indexed>>();
	auto *sets = make<fur::vector<fur::ordered_set<fur::string>>>();
	const auto text = [](uint64_t n) { return Sample<fur::string>::key(n); };
	const auto fill = [&] {
		for (uint64_t n = 0; n < 200; n++)
			update([&](fur_update *tx) {
				Indexed *value = map->try_emplace(tx, n % 7).first;
				EXPECT_TRUE(value->index.insert(tx, {text(n % 9), n}, text(n)));
				EXPECT_TRUE(value->tags.insert(tx, text(n)));
				if (n % 20 == 0)
					sets->push_back(tx, {});
				EXPECT_TRUE(sets->lookup(tx, n / 20)->insert(tx, text(n)));
			});
	};
	fill();
	read([&](fur_ro *tx) {
		EXPECT_EQ(map->at(tx, 3)->index.count(tx, {text(1), 10}), 1u);
		EXPECT_TRUE(map->at(tx, 3)->tags.contains(tx, text(10)));
	});
	update([&](fur_update *tx) { EXPECT_EQ(map->delete_range(tx, 2, 4), 2u); });
	const uint64_t without = blocks_of(heap_);
	fur::destroy(self_, sets, 3);
	expect_no_leak(map, 1);
	EXPECT_LT(blocks_of(heap_), without - 100);
	EXPECT_EQ(fur::erase(self_, *map, 1, 3), 1u);
	expect_no_leak(map, 1);
	fur::clear(self_, *map, 3);
	EXPECT_EQ(blocks_of(heap_), before_ + 1);
	sets = make<fur::vector<fur::ordered_set<fur::string>>>();
	fill();
	update([&](fur_update *tx) { fur::destroy(tx, sets); });
	destroy(map);
}

TEST_F(OwnedValues, ThatOwnMemory_AreNotCopied)
{
	auto *map = make<fur::ordered_map<uint64_t, Owned>>();
	update([&](fur_update *tx) {
		map->insert(tx, 1, {});
		map->lookup(tx, 1)->notes.push_back(tx, "a note that needs a block");
	});
	EXPECT_THROW(update([&](fur_update *tx) { map->insert(tx, 2, *map->lookup(tx, 1)); }),
	        std::invalid_argument);
	EXPECT_THROW(
	        update([&](fur_update *tx) { map->insert_or_assign(tx, 1, *map->lookup(tx, 1)); }),
	        std::invalid_argument);
	read([&](fur_ro *tx) {
		EXPECT_EQ(map->size(tx), 1u);
		EXPECT_EQ(map->at(tx, 1)->notes.get(tx, 0), "a note that needs a block");
	});
	expect_no_leak(map, 1);
	destroy(map);
}

TEST_F(OwnedValues, WithAClearOfTheirOwn_AreClearedByIt)
{
	auto *map = make<fur::hash_map<uint64_t, OwnedByHand>>();
	const auto insert = [&](uint64_t key) {
		update([&](fur_update *tx) {
			map->insert_or_assign(tx, key, {});
			OwnedByHand *value = map->lookup(tx, key);
			value->block.set(tx, fur::make<uint64_t>(tx));
			value->name.assign(tx, "a name that needs a block");
		});
	};
	for (uint64_t key : {1, 2, 3, 3})
		insert(key);
	EXPECT_EQ(blocks_of(heap_), before_ + 2 + 3 * 2);
	update([&](fur_update *tx) { map->erase(tx, 2); });
	EXPECT_EQ(blocks_of(heap_), before_ + 2 + 2 * 2);
	fur::destroy(self_, map);
	EXPECT_EQ(blocks_of(heap_), before_);
}

TEST_F(OwnedValues, OfAStruct_AreDestroyedWithIt)
{
	Owned *owned = make<Owned>();
	Model model;
	for (int k = 0; k < 100; k++)
		update([&](fur_update *tx) { change(tx, owned, model); });
	read([&](fur_ro *tx) { expect_same(tx, owned, model); });
	destroy(owned);
	owned = make<Owned>();
	model = Model();
	for (int k = 0; k < 100; k++)
		update([&](fur_update *tx) { change(tx, owned, model); });
	fur::destroy(self_, owned, 3);
	EXPECT_EQ(blocks_of(heap_), before_);
}

/* ------------------------------------------------------------- larger than an update's log */

template <class M>
class LargeValues : public HeapFile
{
protected:
	LargeValues() : heap_(create(options())), self_(heap_)
	{
		before_ = blocks_of(heap_);
		map_ = fur::update(self_, [](fur_update *tx) { return fur::make<M>(tx); });
	}
	static fur::Options options()
	{
		fur::Options o = small_options(); /* with the smallest log */
		o.heap_bytes = 4 << 20;
		return o;
	}
	/* Values that are too large for one update, and small ones. */
	void fill()
	{
		for (uint64_t key = 0; key < 5; key++)
			fur::update(self_, [&](fur_update *tx) { map_->insert(tx, key, {}); });
		for (uint64_t n = 0; n < 2000; n++)
			fur::update(self_, [&](fur_update *tx) {
				Owned *value = map_->lookup(tx, n < 1900 ? n % 2 * 3 : n % 5);
				const std::string text(20 + n % 7, 'x');
				value->notes.push_back(tx, text);
				value->log.insert(tx, n, text);
				value->jobs.push(tx, n);
				value->counts[1].insert(tx, n, n);
			});
	}
	int code_of_erase(uint64_t key)
	{
		return code_of([&](fur_update *tx) { map_->erase(tx, key); });
	}
	template <class Body>
	int code_of(Body body)
	{
		try {
			fur::update(self_, body);
		} catch (const fur::Error &e) {
			return e.code();
		}
		return 0;
	}
	void expect_no_leak()
	{
		fur::read(self_, [&](fur_ro *tx) {
			const uint64_t blocks = expect_verified(tx, *map_);
			EXPECT_EQ(blocks_of(heap_), before_ + 1 + blocks);
		});
	}

	fur::Heap heap_;
	fur::Thread self_;
	uint64_t before_;
	M *map_;
};
using LargeTypes =
        ::testing::Types<fur::hash_map<uint64_t, Owned>, fur::ordered_map<uint64_t, Owned>>;
TYPED_TEST_SUITE(LargeValues, LargeTypes);

TYPED_TEST(LargeValues, AreErasedInParts)
{
	this->fill();
	EXPECT_EQ(this->code_of_erase(3), FUR_ETOOBIG);
	this->expect_no_leak();
	EXPECT_EQ(fur::erase(this->self_, *this->map_, 3), 1u);
	EXPECT_EQ(fur::erase(this->self_, *this->map_, 3), 0u);
	this->expect_no_leak();
	fur::read(this->self_, [&](fur_ro *tx) {
		EXPECT_EQ(this->map_->size(tx), 4u);
		EXPECT_FALSE(this->map_->contains(tx, 3));
		EXPECT_GT(this->map_->at(tx, 0)->notes.size(tx), 900u);
	});
	for (size_t batch : {1, 1000}) {
		fur::clear(this->self_, *this->map_, batch);
		EXPECT_EQ(blocks_of(this->heap_), this->before_ + 1);
		this->fill();
	}
	fur::destroy(this->self_, this->map_);
	EXPECT_EQ(blocks_of(this->heap_), this->before_);
}

/* The predicate is true for a value only as long as the value is whole. */
TYPED_TEST(LargeValues, AreErasedInParts_ByAPredicate)
{
	const auto many = [](auto *tx, const auto &entry) {
		return entry.second->notes.size(tx) > 900;
	};
	const auto low = [](const auto &entry) { return entry.first < 3; };
	for (size_t batch : {0, 1, 1000}) {
		this->fill();
		EXPECT_EQ(this->code_of(
		                  [&](fur_update *tx) { fur::erase_if(tx, *this->map_, many); }),
		        FUR_ETOOBIG);
		this->expect_no_leak();
		EXPECT_EQ(fur::erase_if(this->self_, *this->map_, many, batch), 2u);
		EXPECT_EQ(fur::erase_if(this->self_, *this->map_, many, batch), 0u);
		this->expect_no_leak();
		fur::read(this->self_, [&](fur_ro *tx) {
			for (uint64_t key = 0; key < 5; key++)
				EXPECT_EQ(this->map_->contains(tx, key), key % 3 != 0);
		});
		EXPECT_EQ(fur::erase_if(this->self_, *this->map_, low, batch), 2u);
		this->expect_no_leak();
		fur::clear(this->self_, *this->map_);
	}
}

TYPED_TEST(LargeValues, OfAnIterator_AreErasedWithIt)
{
	this->fill();
	const auto erase = [&](uint64_t key) {
		return this->code_of(
		        [&](fur_update *tx) { this->map_->erase(tx, this->map_->find(tx, key)); });
	};
	EXPECT_EQ(erase(3), FUR_ETOOBIG);
	this->expect_no_leak();
	for (uint64_t key : {1, 2, 4}) {
		EXPECT_EQ(erase(key), 0);
		this->expect_no_leak();
	}
	EXPECT_EQ(fur::erase(this->self_, *this->map_, 3), 1u);
	this->expect_no_leak();
}

using LargeRange = LargeValues<fur::ordered_map<uint64_t, Owned>>;

TEST_F(LargeRange, IsDeletedInParts)
{
	for (size_t batch : {0, 1, 7, 1000}) {
		fill();
		EXPECT_EQ(code_of([&](fur_update *tx) { map_->delete_range(tx, 1, 4); }),
		        FUR_ETOOBIG);
		expect_no_leak();
		EXPECT_EQ(fur::delete_range(self_, *map_, 1, 4, batch), 3u);
		expect_no_leak();
		EXPECT_EQ(fur::delete_range(self_, *map_, 1, 4, batch), 0u);
		fur::read(self_, [&](fur_ro *tx) {
			EXPECT_EQ(map_->size(tx), 2u);
			EXPECT_GT(map_->at(tx, 0)->notes.size(tx), 900u);
			EXPECT_TRUE(map_->contains(tx, 4));
		});
		EXPECT_EQ(fur::delete_range(self_, *map_, 0, 9, batch), 2u);
		EXPECT_EQ(blocks_of(heap_), before_ + 1);
	}
}

TEST_F(LargeRange, BetweenParts_CanBeUsed)
{
	fill();
	uint64_t gone = 0, calls = 0;
	for (bool more = true; more; calls++) {
		const auto part = fur::update(self_, fur::rerun,
		        [&](fur_update *tx) { return map_->delete_some(tx, 0, 4, 50); });
		gone += part.first;
		more = part.second;
		if (calls % 20 == 0)
			expect_no_leak();
	}
	EXPECT_EQ(gone, 4u);
	EXPECT_GT(calls, 50u);
	expect_no_leak();
	fur::read(self_, [&](fur_ro *tx) { EXPECT_EQ(map_->size(tx), 1u); });
}

TYPED_TEST(LargeValues, BetweenParts_CanBeUsed)
{
	this->fill();
	bool more = true;
	for (int n = 0; more; n++) {
		more = fur::update(this->self_,
		        [&](fur_update *tx) { return this->map_->clear_some(tx, 50); });
		if (n % 20 == 0)
			this->expect_no_leak();
		if (n == 30)
			fur::update(this->self_, [&](fur_update *tx) {
				this->map_->insert(tx, 4, {});
				this->map_->lookup(tx, 4)->name.assign(tx, "a name with a block");
			});
	}
	EXPECT_EQ(blocks_of(this->heap_), this->before_ + 1);
}

/* The body goes on after its log was full, and finds what it has inserted. */
TYPED_TEST(LargeValues, InAnUpdateTooLargeForItsLog_LeaveTheMapAsItWas)
{
	const auto body = [&](fur_update *tx) {
		for (uint64_t n = 0; n < 300; n++) {
			this->map_->insert(tx, n % 50, {});
			Owned *value = this->map_->lookup(tx, n % 50);
			value->notes.push_back(tx, "a note that needs a block");
			value->counts[0].insert(tx, n, n);
			if (n % 7 == 0)
				this->map_->erase(tx, n % 50);
			if (n % 11 == 0)
				this->map_->insert_or_assign(tx, n % 50, {});
			if (n % 13 == 0)
				this->map_->erase_if(
				        tx, [](const auto &entry) { return entry.first % 9 == 0; });
		}
	};
	EXPECT_THROW(fur::update(this->self_, body), fur::Error);
	EXPECT_THROW(fur::update(this->self_, fur::rerun, body), fur::Error);
	EXPECT_EQ(blocks_of(this->heap_), this->before_ + 1);
	fur::read(this->self_, [&](fur_ro *tx) { EXPECT_TRUE(this->map_->empty(tx)); });
}

/* An entry owns eight blocks. */
using Wide = fur::ordered_map<std::array<fur::string, 4>, std::array<fur::string, 4>>;
using WideEntries = LargeValues<Wide>;

TEST_F(WideEntries, AreRemovedInParts)
{
	const auto key = [](uint64_t n) {
		const std::string text = std::to_string(1000 + n) + " and more, for a block";
		return std::array{text, text, text, text};
	};
	const auto fill_wide = [&] {
		for (uint64_t n = 0; n < 150; n++)
			fur::update(self_, [&](fur_update *tx) {
				EXPECT_TRUE(map_->insert(tx, key(n), key(n)));
			});
		expect_no_leak();
		EXPECT_GT(blocks_of(heap_), before_ + 150 * 8);
	};
	fill_wide();
	fur::clear(self_, *map_);
	EXPECT_EQ(blocks_of(heap_), before_ + 1);
	fill_wide();
	EXPECT_EQ(fur::delete_range(self_, *map_, key(10), key(120)), 110u);
	expect_no_leak();
	const auto pred = [&](const auto &entry) { return entry.first != key(125); };
	EXPECT_EQ(fur::erase_if(self_, *map_, pred), 39u);
	expect_no_leak();
	fur::destroy(self_, map_);
	EXPECT_EQ(blocks_of(heap_), before_);
}

/* ----------------------------------------------------------------------------- many threads */

struct Tally {
	fur::vector<uint64_t> list;
	uint64_t n;
	FUR_MEMBERS(list, n)
};
using Tallies = fur::hash_map<uint64_t, Tally>;

class OwnedCrowd : public HeapFile, public ::testing::WithParamInterface<Crowd>
{
protected:
	template <class Body>
	void update(fur_thread *self, Body body)
	{
		if (GetParam().rerun)
			fur::update(self, fur::rerun, body);
		else
			fur::update(self, body);
	}
	/* Keys come and go while others add to their values. */
	void work(fur_thread *self, Tallies *map, uint64_t seed)
	{
		std::mt19937_64 random(seed);
		for (int round = 0; round < rounds(600); round++) {
			const uint64_t key = random() % 12, what = random() % 10;
			update(self, [&](fur_update *tx) {
				if (what == 0) {
					map->erase(tx, key);
				} else if (what == 1) {
					map->insert_or_assign(tx, key, {});
				} else {
					map->insert(tx, key, {});
					Tally *tally = map->lookup(tx, key);
					tally->list.push_back(tx, key);
					fur_store(tx, &tally->n, fur_load(tx, &tally->n) + 1);
				}
			});
			fur::read(self, fur::rerun, [&](fur_reader *tx) {
				if (auto tally = map->get(tx, key)) {
					EXPECT_EQ((*tally)->list.size(tx),
					        fur_load(tx, &(*tally)->n));
				}
			});
		}
	}
};

TEST_P(OwnedCrowd, SeesWholeValues_AndLeavesNoBlock)
{
	fur::Heap heap = create(container_options(GetParam().isolation));
	fur::Thread self(heap);
	auto *map = fur::root<Tallies>(self, "tallies");
	const uint64_t before = blocks_of(heap), seed = seed_of_run();
	SCOPED_TRACE("FUR_TEST_SEED=" + std::to_string(seed));
	std::vector<std::thread> threads;
	for (unsigned t = 0; t < 4; t++)
		threads.emplace_back([&, t] { work(fur::Thread(heap), map, seed + t); });
	for (auto &thread : threads)
		thread.join();
	fur::read(self, [&](fur_ro *tx) {
		const uint64_t blocks = expect_verified(tx, *map);
		EXPECT_EQ(blocks_of(heap), before + blocks);
		for (auto [key, tally] : map->in(tx)) {
			EXPECT_EQ(tally->list.size(tx), fur_load(tx, &tally->n));
			for (uint64_t element : tally->list.in(tx))
				EXPECT_EQ(element, key);
		}
	});
	fur::clear(self, *map);
	EXPECT_EQ(blocks_of(heap), before);
}
INSTANTIATE_TEST_SUITE_P(Modes, OwnedCrowd, ::testing::ValuesIn(CROWDS), crowd_name);

/* Values that are cleared in parts, while others split and join the leaves in which they lie. */
template <class M>
void move_and_clear(fur_heap *heap, bool rerun)
{
	fur::Thread self(heap);
	auto *map = fur::root<M>(self, "map");
	const uint64_t before = blocks_of(heap), seed = seed_of_run();
	SCOPED_TRACE("FUR_TEST_SEED=" + std::to_string(seed));
	const auto work = [=](uint64_t t) {
		fur::Thread me(heap);
		std::mt19937_64 random(seed + t);
		for (int round = 0; round < rounds(600); round++) {
			const uint64_t key = random() % 200, what = random() % 16;
			const auto body = [&](fur_update *tx) {
				if (what == 0) {
					(void)map->clear_some(tx, 3);
				} else if (what < 8) {
					if (auto at = map->find(tx, key); at != map->in(tx).end())
						map->erase(tx, at);
				} else {
					Tally *tally = map->try_emplace(tx, key).first;
					for (uint64_t n = 0; n < what; n++)
						tally->list.push_back(tx, key);
				}
			};
			if (what == 1)
				fur::erase(me, *map, key, 2);
			else if (what == 2)
				fur::erase_if(
				        me, *map,
				        [=](const auto &e) { return e.first % 19 == key % 19; }, 2);
			else if (rerun)
				fur::update(me, fur::rerun, body);
			else
				fur::update(me, body);
		}
	};
	std::vector<std::thread> threads;
	for (unsigned t = 0; t < 4; t++)
		threads.emplace_back(work, t);
	for (auto &thread : threads)
		thread.join();
	fur::read(self, [&](fur_ro *tx) {
		const uint64_t blocks = expect_verified(tx, *map);
		EXPECT_EQ(blocks_of(heap), before + blocks);
		for (auto [key, tally] : map->in(tx))
			for (uint64_t element : tally->list.in(tx))
				EXPECT_EQ(element, key);
	});
	fur::clear(self, *map);
	EXPECT_EQ(blocks_of(heap), before);
}
TEST_P(OwnedCrowd, ClearsValuesOfAHashMap_WhileOthersMoveThem)
{
	move_and_clear<fur::hash_map<uint64_t, Tally>>(
	        create(container_options(GetParam().isolation)), GetParam().rerun);
}
TEST_P(OwnedCrowd, ClearsValuesOfAnOrderedMap_WhileOthersMoveThem)
{
	move_and_clear<fur::ordered_map<uint64_t, Tally, 4>>(
	        create(container_options(GetParam().isolation)), GetParam().rerun);
}

/* ----------------------------------------------------------------------------------- kills */

using Owners = fur::ordered_map<uint64_t, Owned>;

/* Until it is killed, wherever it is. */
[[noreturn]] void work_until_killed(fur::Heap heap, uint64_t seed)
{
	fur::Thread self(heap);
	auto *map = fur::root<Owners>(self, "owners");
	std::mt19937_64 random(seed);
	for (;;) {
		const uint64_t key = random() % 20, n = random() % 1000;
		if (random() % 50 == 0)
			fur::erase(self, *map, key, 2);
		else if (random() % 100 == 0)
			fur::delete_range(self, *map, key, key + 3, 2);
		else if (random() % 100 == 0)
			fur::erase_if(
			        self, *map, [=](const auto &entry) { return entry.first == key; },
			        2);
		else if (random() % 300 == 0)
			fur::clear(self, *map, 2);
		else
			fur::update(self, fur::rerun, [&](fur_update *tx) {
				map->insert(tx, key, {});
				Owned *owned = map->lookup(tx, key);
				owned->name.assign(tx, std::string(n % 40, 'n'));
				owned->notes.push_back(tx, std::string(n % 40, 'p'));
				owned->log.insert_or_assign(tx, n, std::string(n % 40, 'q'));
				fur_store(tx, &owned->number, fur_load(tx, &owned->number) + 1);
			});
	}
}

TEST_F(OwnedValues, AfterAKill_AreWhole_AndNothingLeaks)
{
	SCOPED_TRACE("FUR_TEST_SEED=" + std::to_string(seed_));
	fur::root<Owners>(self_, "owners");
	before_ = blocks_of(heap_);
	heap_.close();
	for (int round = 0; round < rounds(20); round++) {
		const pid_t child = fork();
		ASSERT_GE(child, 0);
		if (child == 0)
			work_until_killed(open(container_options()), seed_ + round);
		usleep(static_cast<useconds_t>(20000 + below(20000)));
		kill(child, SIGKILL);
		int status;
		waitpid(child, &status, 0);
		ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
		heap_ = open(container_options());
		self_ = fur::Thread(heap_);
		auto *map = fur::find_root<Owners>(self_, "owners");
		ASSERT_NE(map, nullptr);
		expect_no_leak(map, 0);
		read([&](fur_ro *tx) {
			/* Each update that adds a note counts; clearing in parts does not. */
			for (auto [key, owned] : map->in(tx))
				EXPECT_LE(owned->notes.size(tx), fur_load(tx, &owned->number) - 7);
		});
		heap_.close();
	}
	heap_ = open(container_options());
	self_ = fur::Thread(heap_);
	auto *map = fur::find_root<Owners>(self_, "owners");
	fur::clear(self_, *map);
	EXPECT_EQ(blocks_of(heap_), before_);
}

} // namespace
