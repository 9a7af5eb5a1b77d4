/* SPDX-License-Identifier: BSD-3-Clause
 *
 * connection.hpp - a client: its socket, its input and its output.
 */
#ifndef KVSERVER_CONNECTION_HPP
#define KVSERVER_CONNECTION_HPP

#include "commands.hpp"
#include "resp.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kv
{

/* Bytes that have been read and not been used. */
class Input
{
public:
	std::string_view rest() const
	{
		return {bytes_.get() + from_, to_ - from_};
	}
	void use(size_t bytes)
	{
		from_ += bytes;
	}
	/* room - where to read to: at least `least` bytes, as `room` says.  Moves rest(). */
	char *room(size_t least, size_t &room);
	void add(size_t bytes)
	{
		to_ += bytes;
	}

private:
	std::unique_ptr<char[]> bytes_;
	size_t all_ = 0, from_ = 0, to_ = 0;
};

/* A command between MULTI and EXEC. */
struct Queued {
	const Command *command;
	std::vector<std::string> args;
};

struct Connection {
	explicit Connection(int socket) : fd(socket) {}
	Connection(const Connection &) = delete;
	Connection &operator=(const Connection &) = delete;
	~Connection();

	/* receive - read once.   Returns: false if the client is gone. */
	bool receive();
	/* send - write what the socket takes of `out`.   Returns: false if the client is gone. */
	bool send();
	bool has_sent() const
	{
		return sent == out.size();
	}

	const int fd;
	Input input;
	Parser parser;
	size_t wanted = 0; /* see Parser::wanted() */
	std::string out;
	size_t sent = 0;
	bool closing = false;       /* when everything is sent */
	bool gone = false;          /* it is useless to send */
	bool in_round = false;      /* it has commands in this round */
	bool waits_to_send = false; /* epoll tells when the socket takes more */

	bool multi = false, refused = false; /* refused: EXEC will fail */
	std::vector<Queued> queue;
	size_t queued_bytes = 0;
};

} // namespace kv

#endif /* KVSERVER_CONNECTION_HPP */
