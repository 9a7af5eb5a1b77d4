/* SPDX-License-Identifier: BSD-3-Clause
 *
 * json.hpp - a JSON value that programs build, inspect and print: nlohmann::ordered_json, behind
 * functions that json.cpp compiles once.  With the library's own headers each program would take
 * two to three times as long to compile.
 *
 * Objects keep the order in which their members were added.  A braced list whose elements are all
 * pairs with a text first is an object, any other an array.  A value of the wrong kind, and a
 * member that is missing, are exceptions.
 */
#ifndef TOOLS_JSON_HPP
#define TOOLS_JSON_HPP

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tools
{

class Json
{
public:
	class Part;
	using Member = std::pair<std::string, Json>;

	Json();
	Json(const Json &other);
	Json &operator=(const Json &other);
	~Json();

	Json(bool value);
	Json(double value);
	Json(int64_t value);
	Json(uint64_t value);
	Json(const std::string &value);
	Json(const char *value);
	Json(std::nullptr_t) : Json() {}
	template <std::integral Integer>
	Json(Integer value)
	    : Json(static_cast<
	              std::conditional_t<std::signed_integral<Integer>, int64_t, uint64_t>>(value))
	{
	}
	template <class Enumeration>
	requires std::is_enum_v<Enumeration> Json(Enumeration value)
	    : Json(static_cast<std::underlying_type_t<Enumeration>>(value))
	{
	}
	template <class Element>
	Json(const std::vector<Element> &values) : Json(array())
	{
		for (const Element &v : values)
			push_back(v);
	}
	Json(std::initializer_list<Json> values);
	static Json array();
	static Json object();

	bool is_null() const;
	bool is_string() const;
	bool is_object() const;
	/* Of an array or object; null has 0, any other value 1. */
	size_t size() const;
	/* bool, double, uint64_t or std::string.  Any kind of number converts to any other. */
	template <class T>
	T get() const;

	/* A member.  If there is none, the first adds it, to null as well, which becomes an
	 * object. */
	Part operator[](const std::string &name);
	const Part operator[](const std::string &name) const;
	/* An element. */
	const Part operator[](size_t k) const;
	/* Appends to an array, or to null, which becomes one. */
	void push_back(const Json &value);
	/* Adds the members of another object, or sets those that are there. */
	void update(const Json &other);
	/* Copies of the members; of the elements of an array, with their numbers as names. */
	std::vector<Member> items() const;

	/* On one line; with an indent, members and elements are on lines of their own.  Text that
	 * is not UTF-8, as a file name may be, has U+FFFD in place of what is wrong. */
	std::string dump(int indent = -1) const;

	friend bool operator==(const Json &a, const Json &b);
	friend std::partial_ordering operator<=>(const Json &a, const Json &b);

protected:
	explicit Json(nlohmann::ordered_json *part);

private:
	nlohmann::ordered_json *value_;
	bool owner_ = true;
};

/* A value within another: to assign to it changes that one. */
class Json::Part : public Json
{
public:
	explicit Part(nlohmann::ordered_json *part) : Json(part) {}
	using Json::operator=;
};

} // namespace tools

#endif /* TOOLS_JSON_HPP */
