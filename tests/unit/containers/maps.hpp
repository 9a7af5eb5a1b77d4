/* SPDX-License-Identifier: BSD-3-Clause
 *
 * maps.hpp - a map of the tests, with every node checked, and keys that agree in their hash.
 */
#ifndef MAPS_HPP
#define MAPS_HPP

#include "containers.hpp"

template <int>
struct Numbered {
	uint64_t n;
	bool operator==(const Numbered &other) const
	{
		return n == other.n;
	}
	bool operator<(const Numbered &other) const
	{
		return n < other.n;
	}
};
/* The hash says only as many bits as the test wants. */
using Clash = Numbered<0>;
using Near = Numbered<1>;

template <>
struct fur::hash<Clash> {
	static uint64_t of(const Clash &)
	{
		return 0x123456789abcdef0;
	}
};
/* The first 40 bits are the same for all. */
template <>
struct fur::hash<Near> {
	static uint64_t of(const Near &key)
	{
		return UINT64_C(0xabcdef0123) << 24 | (key.n * 2654435761u >> 8 & 0xffffff);
	}
};
template <>
struct Sample<Clash> {
	static Clash key(uint64_t n)
	{
		return {n};
	}
};
template <>
struct Sample<Near> {
	static Near key(uint64_t n)
	{
		return {n};
	}
};

template <class M>
struct Kind;
template <class K, class V>
struct Kind<fur::hash_map<K, V>> {
	using Key = K;
	using Value = V;
	using Entries = typename RawHashMap<K, V>::Entries;
	enum { ORDERED = false };
	static uint64_t hash(const typename Raw<K>::value &key)
	{
		return fur::stored<K>::hash_of(key);
	}
	static uint64_t secret_hash(const uint64_t *secret, const typename Raw<K>::value &key)
	{
		return fur::stored<K>::secret_hash_of(secret, key);
	}
	static Entries walk(const void *map)
	{
		return RawHashMap<K, V>(map, hash, secret_hash).entries;
	}
};
template <class K, class V, unsigned FANOUT>
struct Kind<fur::ordered_map<K, V, FANOUT>> {
	using Key = K;
	using Value = V;
	using Entries = typename RawOrderedMap<K, V, FANOUT>::Entries;
	enum { ORDERED = true };
	static Entries walk(const void *map)
	{
		return RawOrderedMap<K, V, FANOUT>(map).entries;
	}
};

struct GaveUp {
};

/* lookup(), or get() for values that do not lie in the heap as they are. */
template <class M, class Tx, class K>
bool finds_value(Tx *tx, M &map, const K &key)
{
	using Codec = fur::stored<typename Kind<std::remove_const_t<M>>::Value>;
	if constexpr (std::is_base_of_v<fur::detail::InParts, Codec>)
		return map.get(tx, key).has_value();
	else
		return map.lookup(tx, key) != nullptr;
}

template <class M>
class Maps : public ContainerHeap
{
protected:
	using Key = Sample<typename Kind<M>::Key>;
	using Value = Sample<typename Kind<M>::Value>;
	using Model = std::map<typename M::key_type, typename M::mapped_type>;

	Maps()
	{
		map_ = fur::root<M>(self_, "map");
		this->RecordProperty("seed", std::to_string(seed_));
	}
	void reopen()
	{
		ContainerHeap::reopen();
		map_ = fur::find_root<M>(self_, "map");
		ASSERT_NE(map_, nullptr);
	}
	/* Insert keys [from, to), some at a time. */
	void insert_range(uint64_t from, uint64_t to, Model *model = nullptr)
	{
		while (from < to)
			update([&](fur_update *tx) {
				for (int k = 0; k < 20 && from < to; k++, from++) {
					EXPECT_TRUE(map_->insert(
					        tx, Key::key(from), Value::value(from)));
					if (model)
						(*model)[Key::key(from)] = Value::value(from);
				}
			});
	}
	void clear()
	{
		update([&](fur_update *tx) { map_->clear(tx); });
	}
	/* What fur::scan() passes on; each key must come once. */
	Model scanned(size_t batch)
	{
		Model seen;
		fur::scan(
		        self_, *map_,
		        [&](const auto &key, const auto &value) {
			        EXPECT_TRUE(seen.emplace(key, value).second);
		        },
		        batch);
		return seen;
	}
	/* The nodes, the iterators and the calls find what the model has. */
	void expect_same(const Model &model)
	{
		const Model walked = read([&](fur_ro *) { return Kind<M>::walk(map_); });
		EXPECT_TRUE(walked == model) << "the nodes: " << walked.size();
		read([&](fur_ro *tx) {
			EXPECT_EQ(map_->size(tx), model.size());
			EXPECT_EQ(map_->empty(tx), model.empty());
			Model seen;
			size_t n = 0;
			for (auto entry : map_->in(tx)) {
				seen.insert(entry);
				n++;
			}
			EXPECT_EQ(n, model.size());
			EXPECT_TRUE(seen == model) << "the iterators";
			for (const auto &[key, value] : model)
				ASSERT_TRUE(map_->get(tx, key).value() == value);
		});
	}
	/* One operation, on the map and on the model. */
	void random_operation(fur_update *tx, Model &model, uint64_t keys);
	void random_look(fur_update *tx, const Model &model, uint64_t keys);

	M *map_;
};

template <class M>
void Maps<M>::random_operation(fur_update *tx, Model &model, uint64_t keys)
{
	const auto key = Key::key(below(keys));
	const auto value = Value::value(below(1000)), other = Value::value(below(1000));
	switch (below(8)) {
	case 0:
	case 1: ASSERT_EQ(map_->insert(tx, key, value), model.emplace(key, value).second); break;
	case 2:
		ASSERT_EQ(map_->insert_or_assign(tx, key, value), model.count(key) == 0);
		model[key] = value;
		break;
	case 3: {
		const auto change = [&](auto &old) { old = old == value ? other : value; };
		ASSERT_EQ(map_->modify(tx, key, change), model.count(key) == 1);
		if (model.count(key))
			change(model[key]);
		break;
	}
	case 4:
	case 5: ASSERT_EQ(map_->erase(tx, key), model.erase(key)); break;
	default: random_look(tx, model, keys);
	}
}

template <class M>
void Maps<M>::random_look(fur_update *tx, const Model &model, uint64_t keys)
{
	const auto key = Key::key(below(keys));
	const auto at = model.find(key);
	const bool there = at != model.end();
	ASSERT_EQ(map_->contains(tx, key), there);
	ASSERT_EQ(map_->count(tx, key), there);
	ASSERT_EQ(map_->get(tx, key).has_value(), there);
	ASSERT_EQ(finds_value(tx, *map_, key), there);
	const auto found = map_->find(tx, key);
	ASSERT_EQ(found != map_->in(tx).end(), there);
	if (!there) {
		ASSERT_THROW((void)map_->at(tx, key), std::out_of_range);
		return;
	}
	ASSERT_TRUE(map_->at(tx, key) == at->second);
	ASSERT_TRUE(found->first == key && (*found).second == at->second);
}

#endif /* MAPS_HPP */
