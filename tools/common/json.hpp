/* SPDX-License-Identifier: BSD-3-Clause
 *
 * json.hpp - a JSON value that programs build, inspect and print.  It has only the functions that
 * the tools and benchmarks use; none of them reads JSON.
 *
 * Objects keep the order in which their members were added.  A braced list whose elements are all
 * pairs with a text first is an object, any other an array.  Text that is not UTF-8, as a file name
 * may be, is printed with U+FFFD in place of each wrong byte.
 */
#ifndef TOOLS_JSON_HPP
#define TOOLS_JSON_HPP

#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tools
{

class Json
{
public:
	enum class Kind { NONE, BOOLEAN, UNSIGNED, SIGNED, REAL, TEXT, ARRAY, OBJECT };
	using Member = std::pair<std::string, Json>;

	Json() = default;
	Json(bool value) : kind_(Kind::BOOLEAN), unsigned_(value) {}
	Json(double value) : kind_(Kind::REAL), real_(value) {}
	Json(const char *value) : kind_(Kind::TEXT), text_(value) {}
	Json(const std::string &value) : kind_(Kind::TEXT), text_(value) {}
	template <class Integer>
	requires(std::is_integral_v<Integer> && !std::is_same_v<Integer, bool>) Json(Integer value)
	    : kind_(value < 0 ? Kind::SIGNED : Kind::UNSIGNED),
	      unsigned_(static_cast<uint64_t>(value))
	{
	}
	template <class Enumeration>
	requires std::is_enum_v<Enumeration> Json(Enumeration value)
	    : Json(static_cast<std::underlying_type_t<Enumeration>>(value))
	{
	}
	template <class Element>
	Json(const std::vector<Element> &values) : kind_(Kind::ARRAY)
	{
		for (const Element &v : values)
			push_back(v);
	}
	Json(std::initializer_list<Json> values);
	static Json array();
	static Json object();

	bool is_null() const
	{
		return kind_ == Kind::NONE;
	}
	bool is_string() const
	{
		return kind_ == Kind::TEXT;
	}
	bool is_object() const
	{
		return kind_ == Kind::OBJECT;
	}
	bool empty() const
	{
		return size() == 0;
	}
	/* Of an array or object; null has 0, any other value 1. */
	size_t size() const;

	/* The value.  Throws std::logic_error if it is of another kind; any kind of number converts
	 * to any other. */
	template <class T>
	T get() const;

	/* A member.  If there is none, operator[] adds it, to null as well, which becomes an
	 * object; at() throws std::logic_error. */
	Json &operator[](const std::string &name);
	const Json &operator[](const std::string &name) const
	{
		return at(name);
	}
	Json &operator[](const char *name)
	{
		return (*this)[std::string(name)];
	}
	const Json &operator[](const char *name) const
	{
		return at(name);
	}
	const Json &at(const std::string &name) const;
	/* An element. */
	template <class Integer>
	requires std::is_integral_v<Integer>
	const Json &operator[](Integer k) const
	{
		return element(static_cast<size_t>(k));
	}
	/* Appends to an array, or to null, which becomes one. */
	void push_back(const Json &value);
	/* Adds the members of another object, or sets those that are there. */
	void update(const Json &other);

	const std::vector<Member> &items() const
	{
		return members_;
	}
	std::vector<Json>::const_iterator begin() const
	{
		return elements_.begin();
	}
	std::vector<Json>::const_iterator end() const
	{
		return elements_.end();
	}

	/* On one line; with an indent, members and elements are on lines of their own. */
	std::string dump(int indent = -1) const;

	friend bool operator==(const Json &a, const Json &b);
	friend bool operator<(const Json &a, const Json &b);
	friend bool operator>(const Json &a, const Json &b)
	{
		return b < a;
	}

private:
	bool is_number() const
	{
		return kind_ == Kind::UNSIGNED || kind_ == Kind::SIGNED || kind_ == Kind::REAL;
	}
	const Json &element(size_t k) const;
	double as_double() const;
	void must_be(bool right, const char *what) const;
	void print(std::string &out, int indent, int depth) const;

	Kind kind_ = Kind::NONE;
	uint64_t unsigned_ = 0; /* BOOLEAN, UNSIGNED, and SIGNED in two's complement */
	double real_ = 0;
	std::string text_;
	std::vector<Json> elements_;
	std::vector<Member> members_;
};

template <>
bool Json::get<bool>() const;
template <>
uint64_t Json::get<uint64_t>() const;
template <>
double Json::get<double>() const;
template <>
std::string Json::get<std::string>() const;

} // namespace tools

#endif /* TOOLS_JSON_HPP */
