/* SPDX-License-Identifier: BSD-3-Clause
 *
 * history.cpp - the checker of history.hpp.
 */
#include "history.hpp"

#include "tuples.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace oltpim
{

const char *flaw_name(Flaw flaw)
{
	static const char *const names[] = {"fractured read", "unrepeatable read", "lost update",
	        "dirty read", "stale read", "collected tuple", "forked versions", "astray entry",
	        "missing entry"};
	return names[static_cast<unsigned>(flaw)];
}

namespace
{

/* The versions of a key, in their order: the first one was loaded, or replaced nothing. */
struct Versions {
	std::unordered_map<uint64_t, size_t> place; /* of a writer's version */
	std::vector<const Done *> writers;          /* of places from 1 on */
	/* Of the versions at a place and behind it, the least time at which one's transaction
	 * had returned, and that transaction */
	std::vector<const Done *> first_returned;
};

std::string name_of(uint64_t transaction)
{
	return transaction ? "transaction " + std::to_string(transaction) : "the load";
}

std::string key_name(uint64_t key)
{
	return "record " + std::to_string(key & 0xffffffffffffffu);
}

class Checker
{
public:
	explicit Checker(const std::vector<const History *> &histories)
	{
		for (const History *h : histories)
			for (const Done &d : h->done())
				all_.emplace(d.transaction, &d);
		order_versions();
	}

	std::vector<Violation> check()
	{
		for (const auto &[number, d] : all_) {
			check_reads(*d);
			check_repeats(*d);
			check_fractured(*d);
			check_writes(*d);
			for (const Lookup &l : d->lookups)
				check_lookup(*d, l);
		}
		return std::move(found_);
	}

private:
	void add(Flaw flaw, const std::string &text)
	{
		found_.push_back({flaw, std::string(flaw_name(flaw)) + ": " + text});
	}

	void order_versions()
	{
		std::map<uint64_t, std::unordered_map<uint64_t, const Done *>> after;
		for (const auto &[number, d] : all_)
			for (const Write &w : d->writes)
				if (!after[w.key].emplace(w.before, d).second)
					add(Flaw::FORKED, name_of(number) + " and " +
					                          name_of(after[w.key][w.before]
					                                          ->transaction) +
					                          " replaced the version of " +
					                          key_name(w.key) + " of " +
					                          name_of(w.before));
		for (const auto &[key, next] : after)
			order_key(versions_[key], next);
	}

	static void order_key(Versions &v, const std::unordered_map<uint64_t, const Done *> &next)
	{
		uint64_t at = next.count(NO_WRITER) ? NO_WRITER : 0;
		v.place[at] = 0;
		for (auto n = next.find(at); n != next.end(); n = next.find(at)) {
			v.writers.push_back(n->second);
			at = n->second->transaction;
			if (!v.place.emplace(at, v.writers.size()).second)
				break;
		}
		v.first_returned.resize(v.writers.size());
		const Done *first = nullptr;
		for (size_t k = v.writers.size(); k-- > 0;) {
			if (!first || v.writers[k]->returned < first->returned)
				first = v.writers[k];
			v.first_returned[k] = first;
		}
	}

	/* The place of a writer's version; of keys that were never written all are at 0. */
	size_t place_of(uint64_t key, uint64_t writer) const
	{
		const auto v = versions_.find(key);
		if (v == versions_.end())
			return 0;
		const auto p = v->second.place.find(writer);
		return p == v->second.place.end() ? 0 : p->second;
	}

	void check_reads(const Done &d)
	{
		for (const Read &r : d.reads) {
			const std::string who = name_of(d.transaction) + " read " + key_name(r.key);
			if (r.writer == Tuples::COLLECTED) {
				add(Flaw::COLLECTED, who + " in a tuple that had been collected");
				continue;
			}
			if (r.writer && !all_.count(r.writer)) {
				add(Flaw::DIRTY, who + " of " + name_of(r.writer) +
				                         ", which did not commit");
				continue;
			}
			const auto v = versions_.find(r.key);
			const size_t place = place_of(r.key, r.writer);
			if (v == versions_.end() || place >= v->second.first_returned.size())
				continue;
			const Done *newer = v->second.first_returned[place];
			if (newer->returned < d.began)
				add(Flaw::STALE, who + " of " + name_of(r.writer) + ", though " +
				                         name_of(newer->transaction) +
				                         " had returned before it began");
		}
	}

	void check_repeats(const Done &d)
	{
		std::unordered_map<uint64_t, uint64_t> first;
		for (const Read &r : d.reads) {
			const auto [at, is_new] = first.emplace(r.key, r.writer);
			if (!is_new && at->second != r.writer)
				add(Flaw::UNREPEATED, name_of(d.transaction) + " read " +
				                              key_name(r.key) + " of " +
				                              name_of(at->second) +
				                              ", and then of " + name_of(r.writer));
		}
	}

	void check_fractured(const Done &d)
	{
		for (const Read &r : d.reads) {
			const auto writer = all_.find(r.writer);
			if (writer == all_.end())
				continue;
			for (const Write &w : writer->second->writes)
				for (const Read &other : d.reads)
					if (other.key == w.key && other.key != r.key &&
					        place_of(w.key, other.writer) <
					                place_of(w.key, r.writer))
						add(Flaw::FRACTURED,
						        name_of(d.transaction) + " read " +
						                key_name(r.key) + " of " +
						                name_of(r.writer) + ", and " +
						                key_name(w.key) + " of " +
						                name_of(other.writer) +
						                ", before it");
		}
	}

	void check_writes(const Done &d)
	{
		for (const Write &w : d.writes)
			for (const Read &r : d.reads)
				if (r.key == w.key && r.writer != w.before)
					add(Flaw::LOST, name_of(d.transaction) + " read " +
					                        key_name(r.key) + " of " +
					                        name_of(r.writer) +
					                        ", and replaced the version of " +
					                        name_of(w.before));
	}

	/* The row that was read at the target: NULL if that was not read. */
	static const Row *row_at(const Done &d, uint64_t target)
	{
		for (const Row &r : d.rows)
			if (r.target == target)
				return &r;
		return nullptr;
	}

	void check_lookup(const Done &d, const Lookup &l)
	{
		std::map<uint64_t, unsigned> found; /* rows */
		bool whole = l.targets.size() < l.most;
		for (const uint64_t target : l.targets) {
			const Row *row = row_at(d, target);
			if (!row)
				whole = false;
			else if (row->key == NO_KEY || found[row->key]++)
				add(Flaw::ASTRAY, name_of(d.transaction) + " found " +
				                          (row->key == NO_KEY ? "an entry of no row"
				                                              : key_name(row->key) +
				                                                        " twice"));
		}
		for (const Read &r : d.reads) {
			const bool belongs = l.first <= r.entry && r.entry <= l.last;
			if (r.entry == NO_KEY || belongs == (found.count(r.key) != 0))
				continue;
			if (!belongs)
				add(Flaw::ASTRAY, name_of(d.transaction) + " found " +
				                          key_name(r.key) + " of " +
				                          name_of(r.writer) +
				                          " at another entry than its own");
			else if (whole)
				add(Flaw::UNINDEXED, name_of(d.transaction) + " read " +
				                             key_name(r.key) + " of " +
				                             name_of(r.writer) +
				                             ", and missed it in the index");
		}
	}

	std::map<uint64_t, const Done *> all_;
	std::map<uint64_t, Versions> versions_;
	std::vector<Violation> found_;
};

} // namespace

std::vector<Violation> check_histories(const std::vector<const History *> &histories)
{
	return Checker(histories).check();
}

} // namespace oltpim
