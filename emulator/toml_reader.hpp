/* SPDX-License-Identifier: BSD-3-Clause
 *
 * toml_reader.hpp - reads machine descriptions.  Every key must be present, of its kind and
 * plausible, and no other key may be present: the figures of a machine that is not the one that was
 * meant are meaningless.
 */
#ifndef FUR_EMULATED_TOML_READER_HPP
#define FUR_EMULATED_TOML_READER_HPP

#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <toml++/toml.h>
#include <vector>

namespace emu
{

class TomlReader
{
public:
	using Time = uint64_t; /* in picoseconds */

	TomlReader(const std::string &path, toml::table &&file)
	    : path_(path), file_(std::move(file))
	{
	}

protected:
	static Time ps(double ns)
	{
		return static_cast<Time>(std::llround(ns * 1000));
	}
	[[noreturn]] void fail(const toml::node &at, const std::string &what) const
	{
		throw std::runtime_error(
		        path_ + ":" + std::to_string(at.source().begin.line) + ": " + what);
	}
	void enter(const char *table)
	{
		section_ = table;
		table_ = &file_;
		if (!*table)
			return;
		const toml::node *node = file_.get(table);
		if (!node)
			throw std::runtime_error(path_ + ": the table [" + table + "] is missing");
		seen_.insert(node);
		if (!node->is_table())
			fail(*node, std::string(table) + " must be a table");
		table_ = node->as_table();
	}
	const toml::node &get(const char *key)
	{
		const toml::node *node = table_->get(key);
		if (!node && *section_)
			fail(*table_, std::string("[") + section_ + "] has no '" + key + "'");
		if (!node)
			throw std::runtime_error(path_ + ": '" + key + "' is missing");
		seen_.insert(node);
		return *node;
	}
	std::string text(const char *key)
	{
		const toml::node &node = get(key);
		if (!node.is_string())
			fail(node, std::string(key) + " must be a text in quotes");
		return **node.as_string();
	}
	unsigned choice(const char *key, const std::vector<std::string> &names)
	{
		std::string is = text(key), all;
		for (unsigned k = 0; k < names.size(); k++) {
			if (is == names[k])
				return k;
			all += (k ? ", " : "") + names[k];
		}
		fail(get(key), std::string(key) + " is '" + is + "': use one of " + all);
	}
	bool flag(const char *key)
	{
		const toml::node &node = get(key);
		if (!node.is_boolean())
			fail(node, std::string(key) + " must be true or false");
		return **node.as_boolean();
	}
	double number(const toml::node &node, const char *key, double least)
	{
		std::optional<double> value = node.value<double>();
		if (!node.is_number() || !value || !std::isfinite(*value) || *value < least ||
		        *value > 1e9)
			fail(node, std::string(key) + " must be a number, " +
			                   (least ? "at least 1" : "0 or more"));
		return *value;
	}
	Time time(const char *key)
	{
		return ps(number(get(key), key, 0));
	}
	double positive(const char *key)
	{
		const toml::node &node = get(key);
		double value = number(node, key, 0);
		if (value == 0)
			fail(node, std::string(key) + " must not be 0");
		return value;
	}
	std::vector<double> numbers(const char *key, unsigned n, double least)
	{
		const toml::node &node = get(key);
		const toml::array *array = node.as_array();
		if (!array || array->size() != n)
			fail(node, std::string(key) + " must be a list of " + std::to_string(n) +
			                   " numbers");
		std::vector<double> values;
		for (const toml::node &element : *array)
			values.push_back(number(element, key, least));
		return values;
	}
	unsigned count(const char *key, unsigned least, unsigned most)
	{
		const toml::node &node = get(key);
		if (!node.is_integer() || **node.as_integer() < least || **node.as_integer() > most)
			fail(node, std::string(key) + " must be a whole number from " +
			                   std::to_string(least) + " to " + std::to_string(most));
		return static_cast<unsigned>(**node.as_integer());
	}
	unsigned power_of_two(const char *key, unsigned least, unsigned most)
	{
		unsigned n = count(key, least, most);
		if (n & (n - 1))
			fail(get(key), std::string(key) + " must be a power of two");
		return n;
	}
	unsigned ways(const char *key, unsigned lines)
	{
		unsigned n = count(key, 1, 64);
		if (lines % n)
			fail(get(key), std::string(key) + " must divide the number of lines, " +
			                       std::to_string(lines));
		return n;
	}
	void refuse_unknown(const toml::table &table) const
	{
		for (const auto &[key, node] : table) {
			if (!seen_.count(&node))
				fail(node, "unknown key '" + std::string(key.str()) + "'");
			if (node.is_table())
				refuse_unknown(*node.as_table());
		}
	}

	std::string path_;
	toml::table file_;
	const toml::table *table_ = nullptr;
	const char *section_ = "";
	std::set<const toml::node *> seen_;
};

} // namespace emu

#endif /* FUR_EMULATED_TOML_READER_HPP */
