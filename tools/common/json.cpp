/* SPDX-License-Identifier: BSD-3-Clause
 *
 * json.cpp - build, compare and print JSON values.
 */
#include "json.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <stdexcept>

namespace tools
{

Json::Json(std::initializer_list<Json> values)
{
	bool pairs = std::all_of(values.begin(), values.end(), [](const Json &v) {
		return v.kind_ == Kind::ARRAY && v.elements_.size() == 2 &&
		       v.elements_[0].kind_ == Kind::TEXT;
	});
	kind_ = pairs ? Kind::OBJECT : Kind::ARRAY;
	for (const Json &v : values)
		if (pairs)
			(*this)[v.elements_[0].text_] = v.elements_[1];
		else
			elements_.push_back(v);
}

Json Json::array()
{
	Json j;
	j.kind_ = Kind::ARRAY;
	return j;
}

Json Json::object()
{
	Json j;
	j.kind_ = Kind::OBJECT;
	return j;
}

size_t Json::size() const
{
	return kind_ == Kind::ARRAY    ? elements_.size()
	       : kind_ == Kind::OBJECT ? members_.size()
	                               : kind_ != Kind::NONE;
}

void Json::must_be(bool right, const char *what) const
{
	if (!right)
		throw std::logic_error(
		        "a JSON value that should be " + std::string(what) + " is " + dump());
}

/* -------------------------------------------------------------------- values */

double Json::as_double() const
{
	must_be(is_number(), "a number");
	return kind_ == Kind::REAL     ? real_
	       : kind_ == Kind::SIGNED ? static_cast<double>(static_cast<int64_t>(unsigned_))
	                               : static_cast<double>(unsigned_);
}

template <>
bool Json::get<bool>() const
{
	must_be(kind_ == Kind::BOOLEAN, "true or false");
	return unsigned_ != 0;
}

template <>
uint64_t Json::get<uint64_t>() const
{
	must_be(is_number(), "a number");
	return kind_ == Kind::REAL ? static_cast<uint64_t>(real_) : unsigned_;
}

template <>
double Json::get<double>() const
{
	return as_double();
}

template <>
std::string Json::get<std::string>() const
{
	must_be(kind_ == Kind::TEXT, "a text");
	return text_;
}

bool operator==(const Json &a, const Json &b)
{
	if (a.is_number() && b.is_number() &&
	        (a.kind_ == Json::Kind::REAL || b.kind_ == Json::Kind::REAL))
		return a.as_double() == b.as_double();
	return a.kind_ == b.kind_ && a.unsigned_ == b.unsigned_ && a.text_ == b.text_ &&
	       a.elements_ == b.elements_ && a.members_ == b.members_;
}

bool operator<(const Json &a, const Json &b)
{
	if (a.kind_ == Json::Kind::UNSIGNED && b.kind_ == Json::Kind::UNSIGNED)
		return a.unsigned_ < b.unsigned_;
	return a.as_double() < b.as_double();
}

/* --------------------------------------------------------- members, elements */

Json &Json::operator[](const std::string &name)
{
	if (kind_ == Kind::NONE)
		kind_ = Kind::OBJECT;
	must_be(kind_ == Kind::OBJECT, "an object");
	for (Member &m : members_)
		if (m.first == name)
			return m.second;
	members_.emplace_back(name, Json());
	return members_.back().second;
}

const Json &Json::at(const std::string &name) const
{
	for (const Member &m : members_)
		if (m.first == name)
			return m.second;
	throw std::logic_error("no member '" + name + "' in " + dump());
}

const Json &Json::element(size_t k) const
{
	must_be(kind_ == Kind::ARRAY && k < elements_.size(), "an array with that element");
	return elements_[k];
}

void Json::push_back(const Json &value)
{
	if (kind_ == Kind::NONE)
		kind_ = Kind::ARRAY;
	must_be(kind_ == Kind::ARRAY, "an array");
	elements_.push_back(value);
}

void Json::update(const Json &other)
{
	for (const Member &m : other.members_)
		(*this)[m.first] = m.second;
}

/* ------------------------------------------------------------------ printing */

/* The length of the UTF-8 sequence at `at`, or 0 if there is none: also for an overlong sequence, a
 * surrogate, and a code point past the last one. */
static size_t utf8_at(const std::string &text, size_t at)
{
	auto byte = [&](size_t k) {
		return at + k < text.size() ? static_cast<unsigned char>(text[at + k]) : 0u;
	};
	unsigned first = byte(0);
	if (first < 0x80)
		return 1;
	size_t n = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
	uint32_t code = first & (0x7f >> n);
	for (size_t k = 1; k < n; k++) {
		if ((byte(k) & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (byte(k) & 0x3f);
	}
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	return first < 0xc2 || first > 0xf4 || code < least[n] || code > 0x10ffff ||
	                       (code >= 0xd800 && code < 0xe000)
	               ? 0
	               : n;
}

static void print_text(std::string &out, const std::string &text)
{
	out += '"';
	for (size_t at = 0; at < text.size();) {
		static const char escaped[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
		char c = text[at];
		size_t n = utf8_at(text, at);
		const char *special =
		        c ? std::char_traits<char>::find(escaped, sizeof escaped - 1, c) : nullptr;
		if (special) {
			out += '\\';
			out += letters[special - escaped];
		} else if (static_cast<unsigned char>(c) < 0x20) {
			char code[8];
			snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
			out += code;
		} else if (n == 0) {
			out += "\xef\xbf\xbd";
		} else {
			out.append(text, at, n);
		}
		at += n ? n : 1;
	}
	out += '"';
}

/* Print the shortest text that reads back as this number.  JSON has no infinity. */
static void print_real(std::string &out, double value)
{
	if (!std::isfinite(value)) {
		out += "null";
		return;
	}
	char text[64];
	auto [end, error] = std::to_chars(text, text + sizeof text, value);
	(void)error; /* 64 bytes are enough for any double */
	std::string number(text, end);
	out += number;
	if (number.find_first_of(".e") == std::string::npos)
		out += ".0";
}

static void new_line(std::string &out, int indent, int depth)
{
	if (indent >= 0) {
		out += '\n';
		out.append(static_cast<size_t>(indent) * static_cast<size_t>(depth), ' ');
	}
}

void Json::print(std::string &out, int indent, int depth) const
{
	switch (kind_) {
	case Kind::NONE: out += "null"; return;
	case Kind::BOOLEAN: out += unsigned_ ? "true" : "false"; return;
	case Kind::UNSIGNED: out += std::to_string(unsigned_); return;
	case Kind::SIGNED: out += std::to_string(static_cast<int64_t>(unsigned_)); return;
	case Kind::REAL: print_real(out, real_); return;
	case Kind::TEXT: print_text(out, text_); return;
	case Kind::ARRAY:
	case Kind::OBJECT: break;
	}
	bool object = kind_ == Kind::OBJECT;
	out += object ? '{' : '[';
	for (size_t k = 0; k < size(); k++) {
		if (k)
			out += ',';
		new_line(out, indent, depth + 1);
		if (object) {
			print_text(out, members_[k].first);
			out += indent >= 0 ? ": " : ":";
		}
		(object ? members_[k].second : elements_[k]).print(out, indent, depth + 1);
	}
	if (size())
		new_line(out, indent, depth);
	out += object ? '}' : ']';
}

std::string Json::dump(int indent) const
{
	std::string out;
	print(out, indent, 0);
	return out;
}

} // namespace tools
