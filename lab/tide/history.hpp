/* SPDX-License-Identifier: BSD-3-Clause
 *
 * history.hpp - is what transactions have seen that of some serial order?
 *
 * Each store of a transaction has a value of its own, and returns the value before (TIDE_TOUCH);
 * a look returns a value.  So the values of a word have one order, and each pair of accesses of
 * a word says which of two transactions comes first.  If these edges have a cycle, no serial
 * order gives what was seen.
 */
#ifndef LAB_TIDE_HISTORY_HPP
#define LAB_TIDE_HISTORY_HPP

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tide
{

class History
{
public:
	/* Transaction `t` has stored `value` to the word, which had `before`.  Values of a word
	 * differ; 0 is what every word has at first. */
	void stored(size_t t, uint64_t word, uint32_t before, uint32_t value)
	{
		stores_[word].push_back({t, before, value});
	}
	void saw(size_t t, uint64_t word, uint32_t value)
	{
		looks_[word].push_back({t, value, value});
	}
	/* Empty if some serial order gives all this; else why none does. */
	std::string violation() const;

private:
	struct Access {
		size_t transaction;
		uint32_t before, value;
	};
	std::map<uint64_t, std::vector<Access>> stores_, looks_;
};

} // namespace tide

#endif /* LAB_TIDE_HISTORY_HPP */
