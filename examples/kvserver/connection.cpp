/* SPDX-License-Identifier: BSD-3-Clause
 *
 * connection.cpp - a client (connection.hpp).
 */
#include "connection.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <unistd.h>

namespace kv
{

namespace
{
enum : size_t { READ_BYTES = 16 << 10, MOST_READ_BYTES = 1 << 20, KEPT_BYTES = 64 << 10 };
}

char *Input::room(size_t least, size_t &room)
{
	const size_t used = to_ - from_;
	if (all_ - to_ < least) {
		if (all_ < used + least || (used == 0 && all_ > KEPT_BYTES)) {
			all_ = std::max(used + least, used ? 2 * all_ : 0);
			auto larger = std::make_unique_for_overwrite<char[]>(all_);
			if (used)
				memcpy(larger.get(), bytes_.get() + from_, used);
			bytes_ = std::move(larger);
		} else if (used) {
			memmove(bytes_.get(), bytes_.get() + from_, used);
		}
		from_ = 0;
		to_ = used;
	}
	room = all_ - to_;
	return bytes_.get() + to_;
}

Connection::~Connection()
{
	close(fd);
}

bool Connection::receive()
{
	const size_t has = input.rest().size();
	size_t least = READ_BYTES, room;
	if (wanted > has + least)
		least = std::min<size_t>(wanted - has, MOST_READ_BYTES);
	char *to = input.room(least, room);
	const ssize_t n = recv(fd, to, std::min<size_t>(room, MOST_READ_BYTES), 0);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	input.add(static_cast<size_t>(n));
	return n > 0;
}

bool Connection::send()
{
	while (sent < out.size()) {
		const ssize_t n = ::send(fd, out.data() + sent, out.size() - sent, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN;
		sent += static_cast<size_t>(n);
	}
	out.clear();
	sent = 0;
	if (out.capacity() > KEPT_BYTES)
		out.shrink_to_fit();
	return true;
}

} // namespace kv
