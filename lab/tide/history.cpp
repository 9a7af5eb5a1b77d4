/* SPDX-License-Identifier: BSD-3-Clause
 *
 * history.cpp - edges between transactions, and a search for a cycle of them.
 */
#include "history.hpp"

#include <set>

namespace tide
{
namespace
{

std::string name_of(size_t transaction)
{
	std::string name(1, 'T');
	return name.append(std::to_string(transaction));
}

class Graph
{
public:
	void edge(size_t from, size_t to, uint64_t word)
	{
		if (from != to)
			after_[from].emplace(to, word);
	}

	/* The transactions of a cycle, or none. */
	std::string cycle()
	{
		for (const auto &[t, successors] : after_)
			if (!state_[t] && visit(t))
				return text_;
		return "";
	}

private:
	bool visit(size_t t)
	{
		state_[t] = OPEN;
		path_.emplace_back(t, 0);
		for (const auto &[to, word] : after_[t]) {
			path_.back().second = word;
			if (state_[to] == OPEN) {
				tell(to);
				return true;
			}
			if (!state_[to] && visit(to))
				return true;
		}
		path_.pop_back();
		state_[t] = DONE;
		return false;
	}
	void tell(size_t first)
	{
		size_t k = 0;
		while (path_[k].first != first)
			k++;
		for (; k < path_.size(); k++)
			text_ += name_of(path_[k].first) + " before (word " +
			         std::to_string(path_[k].second) + ") ";
		text_ += name_of(first);
	}

	enum : int { OPEN = 1, DONE };
	std::map<size_t, std::set<std::pair<size_t, uint64_t>>> after_;
	std::map<size_t, int> state_;
	std::vector<std::pair<size_t, uint64_t>> path_;
	std::string text_;
};

} // namespace

std::string History::violation() const
{
	Graph graph;
	for (const auto &[word, stores] : stores_) {
		std::map<uint32_t, size_t> writer, next;
		for (const Access &a : stores)
			writer[a.value] = a.transaction;
		for (const Access &a : stores) {
			const auto [it, first] = next.emplace(a.before, a.transaction);
			if (!first)
				return name_of(it->second) + " and " + name_of(a.transaction) +
				       " have both replaced " + std::to_string(a.before) +
				       " in word " + std::to_string(word) +
				       ": one of the stores is lost";
			if (a.before && !writer.count(a.before))
				return name_of(a.transaction) +
				       " has read a value that no transaction has committed";
			if (a.before)
				graph.edge(writer[a.before], a.transaction, word);
		}
		const auto found = looks_.find(word);
		if (found == looks_.end())
			continue;
		for (const Access &look : found->second) {
			if (look.value && !writer.count(look.value))
				return name_of(look.transaction) +
				       " has read a value that no transaction has committed";
			if (look.value)
				graph.edge(writer[look.value], look.transaction, word);
			if (next.count(look.value))
				graph.edge(look.transaction, next[look.value], word);
		}
	}
	return graph.cycle();
}

} // namespace tide
