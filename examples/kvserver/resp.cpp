/* SPDX-License-Identifier: BSD-3-Clause
 *
 * resp.cpp - RESP2 (resp.hpp).
 */
#include "resp.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace kv
{

bool parse_int(std::string_view text, int64_t &number)
{
	/* Redis takes no "-0", no "+1" and no "01": a number has one form. */
	const bool negative = text.size() > 1 && text[0] == '-';
	const std::string_view digits = text.substr(negative);
	if (digits.empty() || digits[0] < '0' || digits[0] > '9' ||
	        (digits[0] == '0' && text.size() > 1))
		return false;
	const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
	return error == std::errc() && end == text.data() + text.size();
}

bool same_word(std::string_view text, std::string_view lower)
{
	return std::equal(text.begin(), text.end(), lower.begin(), lower.end(),
	        [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + ('a' - 'A') : a) == b; });
}

/* ------------------------------------------------------------------ requests */

Parser::Result Parser::fail(std::string error)
{
	error_ = "Protocol error: " + std::move(error);
	return ERROR;
}

Parser::Result Parser::more(size_t wanted)
{
	wanted_ = wanted;
	return MORE;
}

/* The line at at_, without its end. */
Parser::Result Parser::take_line(
        std::string_view input, const char *too_long, std::string_view &line)
{
	const size_t end = input.find('\n', at_);
	if ((end == input.npos ? input.size() : end) - at_ > MOST_LINE)
		return fail(too_long);
	if (end == input.npos)
		return more(input.size() + 1);
	line = input.substr(at_, end - at_);
	if (!line.empty() && line.back() == '\r')
		line.remove_suffix(1);
	at_ = end + 1;
	return REQUEST;
}

Parser::Result Parser::begin_array(std::string_view line)
{
	if (!parse_int(line.substr(1), args_left_) || args_left_ > static_cast<int64_t>(MOST_ARGS))
		return fail("invalid multibulk length");
	args_left_ = std::max<int64_t>(args_left_, 0);
	return REQUEST;
}

namespace
{

bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r') || c == 0;
}

int hex_digit(char c)
{
	const char *digits = "0123456789abcdef";
	const char *found =
	        c ? strchr(digits, c >= 'A' && c <= 'F' ? c + ('a' - 'A') : c) : nullptr;
	return found ? static_cast<int>(found - digits) : -1;
}

/* The character behind a backslash in double quotes, at `at`, which moves on. */
char unescape(std::string_view line, size_t &at)
{
	const char c = line[at++];
	if (c == 'x' && at + 1 < line.size() && hex_digit(line[at]) >= 0 &&
	        hex_digit(line[at + 1]) >= 0) {
		at += 2;
		return static_cast<char>(hex_digit(line[at - 2]) * 16 + hex_digit(line[at - 1]));
	}
	switch (c) {
	case 'n': return '\n';
	case 'r': return '\r';
	case 't': return '\t';
	case 'b': return '\b';
	case 'a': return '\a';
	default: return c;
	}
}

/* Appends what is in the quotes that begin at `at`.  False: they do not end, or a word follows. */
bool unquote(std::string_view line, size_t &at, std::string &to)
{
	const char quote = line[at++];
	while (at < line.size() && line[at] != quote) {
		if (line[at] == '\\' && at + 1 < line.size() &&
		        (quote == '"' || line[at + 1] == '\'')) {
			at++;
			to += quote == '"' ? unescape(line, at) : line[at++];
		} else {
			to += line[at++];
		}
	}
	return at++ < line.size() && (at == line.size() || is_space(line[at]));
}

} // namespace

/* A command as a person types it: words, some in quotes. */
Parser::Result Parser::take_inline(std::string_view line)
{
	unquoted_.clear();
	for (size_t at = 0; at < line.size();) {
		if (is_space(line[at])) {
			at++;
			continue;
		}
		const size_t from = unquoted_.size();
		while (at < line.size() && !is_space(line[at])) {
			if (line[at] != '"' && line[at] != '\'')
				unquoted_ += line[at++];
			else if (!unquote(line, at, unquoted_))
				return fail("unbalanced quotes in request");
		}
		pieces_.push_back({from, unquoted_.size() - from});
	}
	return REQUEST;
}

/* The first line of a request.  REQUEST: it is understood. */
Parser::Result Parser::begin(std::string_view input)
{
	if (input.empty())
		return more(1);
	at_ = 0;
	std::string_view line;
	const bool array = input[0] == '*';
	const Result result = take_line(
	        input, array ? "too big mbulk count string" : "too big inline request", line);
	if (result != REQUEST)
		return result;
	args_left_ = 0;
	bulk_ = -1;
	pieces_.clear();
	fresh_ = false;
	return array ? begin_array(line) : take_inline(line);
}

Parser::Result Parser::take_bulk_size(std::string_view input)
{
	if (at_ == input.size())
		return more(at_ + 1);
	if (input[at_] != '$')
		return fail(std::string("expected '$', got '") + input[at_] + "'");
	const size_t from = at_;
	std::string_view line;
	if (const Result result = take_line(input, "too big bulk count string", line);
	        result != REQUEST)
		return result;
	if (!parse_int(line.substr(1), bulk_) || bulk_ < 0 ||
	        bulk_ > static_cast<int64_t>(MOST_ARG_BYTES))
		return fail("invalid bulk length");
	if (from + static_cast<size_t>(bulk_) > MOST_REQUEST_BYTES)
		return fail("too big request");
	return REQUEST;
}

Parser::Result Parser::take_arg(std::string_view input)
{
	if (bulk_ < 0)
		if (const Result result = take_bulk_size(input); result != REQUEST)
			return result;
	const auto bytes = static_cast<size_t>(bulk_);
	if (input.size() < at_ + bytes + 2)
		return more(at_ + bytes + 2);
	pieces_.push_back({at_, bytes});
	at_ += bytes + 2;
	bulk_ = -1;
	args_left_--;
	return REQUEST;
}

Parser::Result Parser::next(std::string_view input, Args &args)
{
	if (fresh_)
		if (const Result result = begin(input); result != REQUEST)
			return result;
	while (args_left_ > 0)
		if (const Result result = take_arg(input); result != REQUEST)
			return result;
	const bool array = input[0] == '*';
	for (const Piece &p : pieces_)
		args.push_back((array ? input : std::string_view(unquoted_)).substr(p.at, p.bytes));
	fresh_ = true;
	return REQUEST;
}

/* ------------------------------------------------------------------- replies */

void Reply::number_line(char kind, int64_t number)
{
	char text[24];
	text[0] = kind;
	char *end = std::to_chars(text + 1, text + sizeof text - 2, number).ptr;
	*end++ = '\r';
	*end++ = '\n';
	out_.append(text, static_cast<size_t>(end - text));
}

void Reply::error(std::string_view text)
{
	const size_t from = out_.size();
	line('-', text);
	/* A client's bytes in the text must not end the line. */
	for (size_t at = from; at < out_.size() - 2; at++)
		if (out_[at] == '\r' || out_[at] == '\n')
			out_[at] = ' ';
}

} // namespace kv
