/* SPDX-License-Identifier: BSD-3-Clause
 *
 * resp.hpp - RESP2, the protocol of Redis: requests out of bytes, and replies into them.
 */
#ifndef KVSERVER_RESP_HPP
#define KVSERVER_RESP_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kv
{

/* What a client may send.  Beyond that the server answers with Redis' error and hangs up. */
enum : size_t {
	MOST_LINE = 64 << 10, /* an inline command, or the line of a number */
	MOST_ARGS = 64 << 10,
	MOST_ARG_BYTES = 1 << 20,
	MOST_REQUEST_BYTES = 16 << 20
};

/* The arguments of a request, the command's name first.  They are views of the client's input. */
using Args = std::vector<std::string_view>;

/* Takes requests out of a client's input.  It remembers how far it has come, so that a request that
 * arrives in many pieces is looked at once. */
class Parser
{
public:
	enum Result { REQUEST, MORE, ERROR };

	/* next - the request at the beginning of `input`.  After MORE, call it again with the same
	 * input and what has followed it.
	 * REQUEST: appends the arguments to `args`, perhaps none, and sets used(). */
	Result next(std::string_view input, Args &args);
	/* How many bytes the request had. */
	size_t used() const
	{
		return at_;
	}
	/* After MORE: how many bytes the input has at least when the request is complete. */
	size_t wanted() const
	{
		return wanted_;
	}
	/* After ERROR: what is wrong, without "-ERR ". */
	const std::string &error() const
	{
		return error_;
	}

private:
	struct Piece {
		size_t at, bytes;
	};

	Result begin(std::string_view input);
	Result begin_array(std::string_view line);
	Result take_arg(std::string_view input);
	Result take_bulk_size(std::string_view input);
	Result take_inline(std::string_view line);
	Result take_line(std::string_view input, const char *too_long, std::string_view &line);
	Result fail(std::string error);
	Result more(size_t wanted);

	bool fresh_ = true;
	size_t at_ = 0, wanted_ = 0;
	int64_t args_left_ = 0, bulk_ = -1; /* -1: its size has not been read */
	std::vector<Piece> pieces_;
	/* An inline command's arguments without quotes, until the next one. */
	std::string unquoted_;
	std::string error_;
};

/* parse_int - a number as Redis takes it: all of the text.   Returns: false if it is none. */
bool parse_int(std::string_view text, int64_t &number);

/* The same text, but for the letters A to Z? */
bool same_word(std::string_view text, std::string_view lower);

/* Appends replies to a client's output. */
class Reply
{
public:
	explicit Reply(std::string &out) : out_(out) {}

	void status(std::string_view text)
	{
		line('+', text);
	}
	/* `text` begins with a code: "ERR wrong number of arguments". */
	void error(std::string_view text);
	void integer(int64_t number)
	{
		number_line(':', number);
	}
	void array(size_t elements)
	{
		number_line('*', static_cast<int64_t>(elements));
	}
	void bulk(std::string_view text)
	{
		begin_bulk(text.size());
		out_ += text;
		out_ += "\r\n";
	}
	void nothing()
	{
		out_ += "$-1\r\n";
	}
	/* The caller appends the bytes, and "\r\n". */
	std::string &begin_bulk(size_t bytes)
	{
		number_line('$', static_cast<int64_t>(bytes));
		return out_;
	}
	/* A reply that is complete. */
	void raw(std::string_view text)
	{
		out_ += text;
	}

private:
	void line(char kind, std::string_view text)
	{
		out_ += kind;
		out_ += text;
		out_ += "\r\n";
	}
	void number_line(char kind, int64_t number);

	std::string &out_;
};

} // namespace kv

#endif /* KVSERVER_RESP_HPP */
