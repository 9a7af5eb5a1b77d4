/* SPDX-License-Identifier: BSD-3-Clause
 *
 * json.cpp - see json.hpp.
 */
#include "json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tools
{

using Value = nlohmann::ordered_json;

Json::Json() : value_(new Value) {}
Json::Json(const Json &other) : value_(new Value(*other.value_)) {}
Json::Json(bool value) : value_(new Value(value)) {}
Json::Json(double value) : value_(new Value(value)) {}
Json::Json(int64_t value) : value_(new Value(value)) {}
Json::Json(uint64_t value) : value_(new Value(value)) {}
Json::Json(const std::string &value) : value_(new Value(value)) {}
Json::Json(const char *value) : value_(new Value(value)) {}
Json::Json(Value *part) : value_(part), owner_(false) {}

Json::Json(std::initializer_list<Json> values) : Json()
{
	const bool pairs = std::ranges::all_of(values, [](const Json &v) {
		return v.value_->is_array() && v.size() == 2 && v.value_->front().is_string();
	});
	*value_ = pairs ? Value::object() : Value::array();
	for (const Json &v : values)
		if (pairs)
			(*value_)[v.value_->front().get<std::string>()] = v.value_->back();
		else
			value_->push_back(*v.value_);
}

Json &Json::operator=(const Json &other)
{
	if (this != &other)
		*value_ = Value(*other.value_);
	return *this;
}

Json::~Json()
{
	if (owner_)
		delete value_;
}

Json Json::array()
{
	Json j;
	*j.value_ = Value::array();
	return j;
}

Json Json::object()
{
	Json j;
	*j.value_ = Value::object();
	return j;
}

bool Json::is_null() const
{
	return value_->is_null();
}

bool Json::is_string() const
{
	return value_->is_string();
}

bool Json::is_object() const
{
	return value_->is_object();
}

size_t Json::size() const
{
	return value_->size();
}

template <class T>
T Json::get() const
{
	return value_->get<T>();
}
template bool Json::get() const;
template double Json::get() const;
template uint64_t Json::get() const;
template std::string Json::get() const;

Json::Part Json::operator[](const std::string &name)
{
	return Part(&(*value_)[name]);
}

const Json::Part Json::operator[](const std::string &name) const
{
	return Part(&value_->at(name));
}

const Json::Part Json::operator[](size_t k) const
{
	return Part(&value_->at(k));
}

void Json::push_back(const Json &value)
{
	value_->push_back(*value.value_);
}

void Json::update(const Json &other)
{
	value_->update(*other.value_);
}

std::vector<Json::Member> Json::items() const
{
	std::vector<Member> all;
	for (auto &[name, value] : value_->items())
		all.emplace_back(name, Part(&value));
	return all;
}

std::string Json::dump(int indent) const
{
	return value_->dump(indent, ' ', false, Value::error_handler_t::replace);
}

bool operator==(const Json &a, const Json &b)
{
	return *a.value_ == *b.value_;
}

std::partial_ordering operator<=>(const Json &a, const Json &b)
{
	return *a.value_ <=> *b.value_;
}

} // namespace tools
