/* SPDX-License-Identifier: BSD-3-Clause
 *
 * structures.hpp - the containers' part of a kill test: each update changes maps, which all threads
 * share, and a queue and a vector of its own thread.
 */
#ifndef CRASH_STRUCTURES_HPP
#define CRASH_STRUCTURES_HPP

#include <deque>
#include <fur/root.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace crash
{

enum : uint64_t { NAMES = 300, LONGEST_QUEUE = 40, ELEMENTS = 64 };

inline std::string name_of(uint64_t t, uint64_t k)
{
	const uint64_t n = k % NAMES;
	return std::string(n % 20, 'n') + std::to_string(t) + ":" + std::to_string(n);
}

inline uint64_t number_of(uint64_t t, uint64_t k)
{
	return t << 32 | k * 2654435761u % NAMES;
}

/* The key of an entry of the index, of GROUPS for each thread. */
enum : uint64_t { GROUPS = 24, FEW_GROUPS = 5 };
inline uint64_t group_of(uint64_t t, uint64_t k)
{
	return t << 32 | k % GROUPS;
}

/* Is this update one that removes? */
inline bool removes(uint64_t k)
{
	return k % 7 == 0;
}

/* In the heap.  All zero, it is empty. */
template <unsigned THREADS>
struct Structures {
	fur::hash_map<fur::string, uint64_t> names;
	fur::ordered_map<uint64_t, uint64_t> numbers;
	fur::ordered_multimap<uint64_t, uint64_t> index; /* group: updates */
	fur::queue<uint64_t> queue[THREADS];
	fur::vector<uint64_t> vector[THREADS];

	/* Update k of thread t. */
	void change(fur_update *tx, uint64_t t, uint64_t k)
	{
		const uint64_t number = number_of(t, k);
		names.insert_or_assign(tx, name_of(t, k), k);
		if (removes(k)) {
			if (auto at = names.find(tx, name_of(t, k + NAMES / 2));
			        at != names.in(tx).end())
				names.erase(tx, at);
			numbers.erase(tx, number);
			index.delete_range(tx, group_of(t, k), group_of(t, k) + FEW_GROUPS);
		} else {
			numbers.insert_or_assign(tx, number, k);
			index.insert(tx, group_of(t, k * k), k);
		}
		queue[t].push(tx, k);
		if (queue[t].size(tx) > LONGEST_QUEUE)
			(void)queue[t].pop(tx);
		if (vector[t].size(tx) < ELEMENTS)
			vector[t].push_back(tx, k);
		else
			vector[t].set(tx, k % ELEMENTS, k);
	}
};

/* The same with containers of the standard library. */
template <unsigned THREADS>
class ExpectedStructures
{
public:
	void change(uint64_t t, uint64_t k)
	{
		const uint64_t number = number_of(t, k);
		names_[name_of(t, k)] = k;
		if (removes(k)) {
			names_.erase(name_of(t, k + NAMES / 2));
			numbers_.erase(number);
			index_.erase(index_.lower_bound({group_of(t, k), 0}),
			        index_.lower_bound({group_of(t, k) + FEW_GROUPS, 0}));
		} else {
			numbers_[number] = k;
			index_.emplace(group_of(t, k * k), k);
		}
		queue_[t].push_back(k);
		if (queue_[t].size() > LONGEST_QUEUE)
			queue_[t].pop_front();
		if (vector_[t].size() < ELEMENTS)
			vector_[t].push_back(k);
		else
			vector_[t][k % ELEMENTS] = k;
	}
	/* Empty, or what is wrong; `blocks` grows by those that the containers own. */
	template <class Tx>
	std::string check(Tx *tx, const Structures<THREADS> &is, uint64_t &blocks) const
	{
		std::string wrong = check_map(tx, "names", is.names, names_, blocks);
		if (wrong.empty())
			wrong = check_map(tx, "numbers", is.numbers, numbers_, blocks);
		if (wrong.empty())
			wrong = check_map(tx, "the index", is.index, index_, blocks);
		for (unsigned t = 0; t < THREADS && wrong.empty(); t++) {
			std::vector<uint64_t> vector;
			for (uint64_t i = 0; i < is.vector[t].size(tx); i++)
				vector.push_back(is.vector[t].at(tx, i));
			wrong = verify(tx, "a queue", is.queue[t], blocks);
			if (wrong.empty())
				wrong = verify(tx, "a vector", is.vector[t], blocks);
			if (wrong.empty() && vector != vector_[t])
				wrong = "a vector is not that of the updates";
			if (wrong.empty() && is.queue[t].size(tx) != queue_[t].size())
				wrong = "a queue has more or fewer elements than the updates give";
			if (wrong.empty() && !queue_[t].empty() &&
			        is.queue[t].front(tx) != queue_[t].front())
				wrong = "a queue does not begin as the updates give";
		}
		return wrong;
	}

private:
	template <class Tx, class Container>
	static std::string verify(Tx *tx, const char *name, const Container &is, uint64_t &blocks)
	{
		uint64_t own = 0;
		const char *wrong = is.verify(tx, own);
		blocks += own;
		return wrong ? std::string(name) + ": " + wrong : "";
	}
	template <class Tx, class Map, class Expected>
	static std::string check_map(
	        Tx *tx, const char *name, const Map &is, const Expected &expected, uint64_t &blocks)
	{
		Expected found;
		if (std::string wrong = verify(tx, name, is, blocks); !wrong.empty())
			return wrong;
		for (const auto &entry : is.in(tx))
			found.insert(entry);
		return found == expected ? ""
		                         : std::string(name) + ": not the entries of the updates";
	}

	std::map<std::string, uint64_t> names_;
	std::map<uint64_t, uint64_t> numbers_;
	std::set<std::pair<uint64_t, uint64_t>> index_;
	std::deque<uint64_t> queue_[THREADS];
	std::vector<uint64_t> vector_[THREADS];
};

} // namespace crash

#endif /* CRASH_STRUCTURES_HPP */
