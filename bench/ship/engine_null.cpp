/* SPDX-License-Identifier: BSD-3-Clause
 *
 * engine_null.cpp - a log that answers at once (logs.hpp).
 */
#include "logs.hpp"

#include <algorithm>
#include <cstring>
#include <deque>

namespace bench_ship
{

namespace
{

enum : uint64_t { KEPT = 64 };

struct Null : stream_engine {
	uint64_t end = 0;
	std::vector<std::vector<uint8_t>> messages; /* the first ones */
	std::deque<engine_ack> answers;
};

Null *of(stream_engine *e)
{
	return static_cast<Null *>(e);
}

int append(stream_engine *e, uint64_t handle, const void *message, size_t bytes)
{
	Null *n = of(e);
	const auto *from = static_cast<const uint8_t *>(message);
	if (n->end < KEPT)
		n->messages.emplace_back(from, from + bytes);
	n->answers.push_back({handle, n->end++});
	return 0;
}

int poll(stream_engine *e, engine_ack *acks, unsigned most, int)
{
	Null *n = of(e);
	const auto k = std::min<size_t>(most, n->answers.size());
	std::copy_n(n->answers.begin(), k, acks);
	n->answers.erase(n->answers.begin(), n->answers.begin() + static_cast<ptrdiff_t>(k));
	return static_cast<int>(k);
}

int read(stream_engine *e, uint64_t offset, void *message, size_t most, size_t *bytes)
{
	const Null *n = of(e);
	if (offset == n->end)
		return 0;
	if (offset >= n->messages.size())
		return FUR_ERANGE;
	const std::vector<uint8_t> &m = n->messages[offset];
	*bytes = m.size();
	memcpy(message, m.data(), std::min(most, m.size()));
	return 1;
}

int end(stream_engine *e, uint64_t *to)
{
	*to = of(e)->end;
	return 0;
}

int restart(stream_engine *e)
{
	of(e)->answers.clear();
	return 0;
}

void close(stream_engine *e)
{
	delete of(e);
}

const stream_engine_ops ops = {append, poll, read, end, restart, close};

} // namespace

stream_engine *null_engine()
{
	auto *n = new Null;
	n->ops = &ops;
	return n;
}

} // namespace bench_ship
