/* SPDX-License-Identifier: BSD-3-Clause
 *
 * glob.cpp - patterns (glob.hpp).
 */
#include "glob.hpp"

#include <algorithm>
#include <cstddef>

namespace kv
{

namespace
{

/* One character of a set, behind a backslash perhaps.  `at` moves on. */
unsigned char set_member(std::string_view pattern, size_t &at)
{
	if (pattern[at] == '\\' && at + 1 < pattern.size())
		at++;
	return static_cast<unsigned char>(pattern[at++]);
}

/* The set whose first character is at `at`, which moves behind its end. */
bool in_set(std::string_view pattern, size_t &at, char character)
{
	const auto c = static_cast<unsigned char>(character);
	const bool others = at < pattern.size() && pattern[at] == '^';
	bool found = false;
	for (at += others; at < pattern.size() && pattern[at] != ']';) {
		unsigned char low = set_member(pattern, at), high = low;
		if (at + 1 < pattern.size() && pattern[at] == '-') {
			at++;
			high = set_member(pattern, at);
		}
		if (low > high)
			std::swap(low, high);
		found |= c >= low && c <= high;
	}
	at += at < pattern.size();
	return found != others;
}

/* Does the one character match what is at `at`, which is no star?  `at` moves on. */
bool one_matches(std::string_view pattern, size_t &at, char character)
{
	const char c = pattern[at++];
	if (c == '?')
		return true;
	if (c == '[')
		return in_set(pattern, at, character);
	if (c == '\\' && at < pattern.size())
		return pattern[at++] == character;
	return c == character;
}

} // namespace

bool glob_matches(std::string_view pattern, std::string_view text)
{
	const size_t none = pattern.npos;
	/* Where to go on after the last star, if what follows does not match: one character
	 * further. */
	size_t at = 0, from = 0, star = none, star_text = 0;
	while (from < text.size()) {
		if (at < pattern.size() && pattern[at] == '*') {
			star = ++at;
			star_text = from;
		} else if (at < pattern.size() && one_matches(pattern, at, text[from])) {
			from++;
		} else if (star != none) {
			at = star;
			from = ++star_text;
		} else {
			return false;
		}
	}
	return std::all_of(pattern.begin() + static_cast<ptrdiff_t>(at), pattern.end(),
	        [](char c) { return c == '*'; });
}

} // namespace kv
