/* SPDX-License-Identifier: BSD-3-Clause
 *
 * kernel_test.cpp - the modules' kernel, next to a model on the host: random transactions, one
 * request a batch, or whole rounds.
 */
#include "../dram_store.hpp"
#include "world.hpp"

#include <gtest/gtest.h>

#include <map>
#include <optional>

namespace oltpim_tests
{

namespace
{

/* Versions of each key, the newest last; a value, or none if it is removed. */
class Model
{
public:
	struct Version {
		std::optional<uint64_t> value;
		uint64_t csn;   /* 0: loaded */
		unsigned owner; /* slot of a transaction that has not committed; NONE */
	};
	static constexpr unsigned NONE = ~0u;

	std::optional<uint64_t> get(uint64_t key, unsigned slot, uint64_t begin) const
	{
		const auto chain = chains_.find(key);
		if (chain == chains_.end())
			return {};
		for (auto v = chain->second.rbegin(); v != chain->second.rend(); ++v)
			if (v->owner == slot || (v->owner == NONE && v->csn <= begin))
				return v->value;
		return {};
	}
	oltpim_status write(oltpim_kind kind, uint64_t key, unsigned slot, uint64_t begin,
	        std::optional<uint64_t> value)
	{
		auto &chain = chains_[key];
		const bool own = !chain.empty() && chain.back().owner == slot;
		if (!chain.empty() && !own &&
		        (chain.back().owner != NONE || chain.back().csn > begin))
			return OLTPIM_CONFLICT;
		const bool there = !chain.empty() && chain.back().value.has_value();
		if (kind == OLTPIM_INSERT && there)
			return OLTPIM_EXISTS;
		if (kind != OLTPIM_INSERT && !there)
			return OLTPIM_MISSING;
		if (own)
			chain.back().value = value;
		else
			chain.push_back({value, 0, slot});
		return OLTPIM_DONE;
	}
	void end(unsigned slot, std::optional<uint64_t> csn)
	{
		for (auto &[key, chain] : chains_) {
			if (chain.empty() || chain.back().owner != slot)
				continue;
			if (csn)
				chain.back().csn = *csn, chain.back().owner = NONE;
			else
				chain.pop_back();
		}
	}
	std::pair<uint64_t, uint64_t> scan(
	        uint64_t first, uint64_t last, unsigned slot, uint64_t begin) const
	{
		uint64_t n = 0, sum = 0;
		for (auto c = chains_.lower_bound(first); c != chains_.end() && c->first <= last;
		        ++c)
			if (const auto value = get(c->first, slot, begin); value && n < 16) {
				n++;
				sum += *value;
			}
		return {n, sum};
	}

private:
	std::map<uint64_t, std::vector<Version>> chains_;
};

class Kernel : public testing::TestWithParam<std::string>
{
};

/* A random request */
struct Step {
	uint64_t action, key, value;
	unsigned slot;
	uint64_t begin;
};

void add_request(Transaction &t, const Step &s)
{
	if (s.action < 5)
		t.get(s.key);
	else if (s.action == 5)
		t.scan(s.key, s.key + 12);
	else if (s.action < 8)
		t.update(s.key, s.value);
	else if (s.action == 8)
		t.insert(s.key, s.value);
	else
		t.remove(s.key);
}

void compare_replies(const Transaction &t, Model &model, const Step &s)
{
	if (s.action < 5) {
		const auto expected = model.get(s.key, s.slot, s.begin);
		EXPECT_EQ(t.found(0), expected.has_value());
		EXPECT_EQ(t.value(0), expected.value_or(0));
	} else if (s.action == 5) {
		const auto [n, sum] = model.scan(s.key, s.key + 12, s.slot, s.begin);
		EXPECT_EQ(t.count(0), n);
		EXPECT_EQ(t.value(0), sum);
	} else {
		const oltpim_kind kind = s.action < 8    ? OLTPIM_UPDATE
		                         : s.action == 8 ? OLTPIM_INSERT
		                                         : OLTPIM_REMOVE;
		const auto stored = s.action == 9 ? std::nullopt : std::optional(s.value);
		EXPECT_EQ(t.status(0), model.write(kind, s.key, s.slot, s.begin, stored));
	}
}

/* Random requests of several transactions, one at a time, in one module so that scans see all. */
template <class W>
void compare_with_model(W &w, uint64_t seed, unsigned steps, uint64_t keys)
{
	tools::Random random{seed};
	Model model;
	uint64_t now = 0;
	std::vector<std::unique_ptr<Transaction>> open(World::SLOTS);
	std::vector<uint64_t> begins(World::SLOTS);
	std::vector<bool> active(World::SLOTS);
	for (unsigned k = 0; k < World::SLOTS; k++)
		open[k] = std::make_unique<Transaction>(w.db, w.tuples, 0, k, nullptr);
	for (unsigned step = 0; step < steps; step++) {
		const unsigned slot = static_cast<unsigned>(random.below(World::SLOTS));
		Transaction &t = *open[slot];
		if (!active[slot]) {
			t.begin();
			begins[slot] = now;
			active[slot] = true;
		}
		const uint64_t key = random.below(keys), value = random.next() >> 1;
		const uint64_t action = random.below(10);
		if (action < 2) {
			const bool commits = action == 0 && !t.failed();
			if (commits)
				t.commit();
			else
				t.abort();
			while (!t.ended())
				w.serve();
			/* Transactions end one at a time here: a writer's number is settled at
			 * once, and is the next one. */
			now = w.numbers.settled();
			model.end(slot, commits ? std::optional(now) : std::nullopt);
			active[slot] = false;
			continue;
		}
		const Step what{action, key, value, slot, begins[slot]};
		add_request(t, what);
		t.issue();
		w.serve();
		ASSERT_TRUE(t.ready());
		compare_replies(t, model, what);
	}
}

TEST_P(Kernel, DoesWhatTheModelDoes)
{
	NearSetup setup = small_setup(GetParam());
	setup.ranks = setup.elements = 1;
	setup.objects = 2048, setup.versions = 4096;
	for (uint64_t seed = 1; seed <= 4; seed++) {
		World w(Protocol::MENDED, setup);
		compare_with_model(w, seed, 1500, seed % 2 ? 40 : 400);
	}
}

/* The tables of mosaic */
struct DramWorld {
	void serve()
	{
		while (store.help(0)) {
		}
	}
	Tuples tuples{0};
	Numbers numbers{Protocol::MENDED, 1, World::SLOTS};
	DramStore store{{.workers = 1, .partitions = 1}, numbers, [](const void *, unsigned) {}};
	Database db{store, numbers, {1}, {1}};
};

TEST(Mosaic, DoesWhatTheModelDoes)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		DramWorld w;
		compare_with_model(w, seed, 5000, seed % 2 ? 40 : 2000);
	}
}

/* A tree of three levels, filled in a random order by all tasklets at once. */
TEST_P(Kernel, InsertsOfOneBatch)
{
	NearSetup setup = small_setup(GetParam());
	setup.ranks = setup.elements = 1;
	setup.objects = 2048, setup.versions = 4096, setup.batch_bytes = 32768;
	World w(Protocol::MENDED, setup);
	constexpr uint64_t KEYS = 1021; /* prime: k * 400 % KEYS is a permutation */
	std::vector<std::unique_ptr<Transaction>> open;
	for (uint64_t k = 0; k < KEYS; k++) {
		if (k % Round::MOST == 0) {
			if (k)
				open.back()->issue();
			open.push_back(std::make_unique<Transaction>(w.db, w.tuples, 0,
			        static_cast<unsigned>(open.size() % World::SLOTS), nullptr));
			open.back()->begin();
		}
		open.back()->insert(k * 400 % KEYS, k * 400 % KEYS + 7);
	}
	open.back()->issue();
	w.serve();
	for (const auto &t : open) {
		ASSERT_TRUE(t->ready() && !t->failed());
		t->commit();
		while (!t->ended())
			w.serve();
	}
	Transaction reader = w.begun(0);
	reader.begin();
	for (uint64_t from = 0; from < KEYS; from += 16) {
		reader.scan(from, from + 15);
		reader.issue();
		w.serve();
		ASSERT_TRUE(reader.ready());
		const uint64_t n = std::min<uint64_t>(16, KEYS - from);
		EXPECT_EQ(reader.count(0), n);
		EXPECT_EQ(reader.value(0), n * (from + 7) + n * (n - 1) / 2);
	}
}

/* A batch has an insert and a commit, which tasklet 0 serves, and a read by tasklet 1: class 0 ends
 * first, so the reader sees what the batch commits (INV-CN5). */
TEST_P(Kernel, CommitsComeBeforeReadsOfTheirBatch)
{
	NearSetup setup = small_setup(GetParam());
	setup.ranks = setup.elements = 1, setup.tasklets = 2;
	World w(Protocol::PUBLISHED, setup); /* a reader begins above the writer's number */
	load_keys(w.db, w.tuples, 0, 40, 1);
	for (unsigned round = 0; round < 20; round++) {
		Transaction writer = w.begun(0), reader = w.begun(1), other = w.begun(2);
		writer.begin();
		writer.update(7, round + 2);
		writer.issue();
		w.serve();
		ASSERT_TRUE(writer.ready() && !writer.failed());
		other.begin();
		other.insert(100 + round, 1);
		other.issue();
		writer.commit();
		ASSERT_FALSE(writer.ended());
		reader.begin();
		reader.get(8);
		reader.get(7);
		reader.issue();
		w.serve();
		ASSERT_TRUE(reader.ready() && writer.ended() && other.ready());
		EXPECT_EQ(reader.value(1), round + 2);
		other.commit();
		while (!other.ended())
			w.serve();
	}
}

INSTANTIATE_TEST_SUITE_P(
        On, Kernel, testing::ValuesIn(machines()), [](const auto &p) { return p.param; });

} // namespace

} // namespace oltpim_tests
