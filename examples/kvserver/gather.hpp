/* SPDX-License-Identifier: BSD-3-Clause
 *
 * gather.hpp - how long a round waits for more clients before it commits.
 *
 * A client that has got its reply soon sends the next command.  If the round committed with the
 * first of them, the others would wait for that sync and then for their own: rounds of one client
 * and of all others would take turns.  So a round waits until as many clients are back as the last
 * one had, for half of a sync at most.  If they do not come back, the next rounds do not wait.
 */
#ifndef KVSERVER_GATHER_HPP
#define KVSERVER_GATHER_HPP

#include <cstddef>
#include <cstdint>

namespace kv
{

class Gather
{
public:
	/* begin - a round begins to wait, at `now`. */
	void begin(int64_t now)
	{
		until_ = skip_ || sync_ns_ < LEAST_NS ? now : now + sync_ns_ / 2;
	}
	/* nap - how long to sleep before the next look; 0: commit. */
	int64_t nap(int64_t now, size_t clients) const
	{
		const int64_t left = until_ - now, step = sync_ns_ / 16;
		return clients >= last_ || left <= 0 ? 0 : left < step ? left : step;
	}
	/* end - the round had this many clients, and its sync took `sync_ns`. */
	void end(size_t clients, int64_t sync_ns);

private:
	enum : unsigned { MOST_PENALTY = 64 };
	/* A sleep takes several microseconds: for a shorter sync it is not worth while. */
	enum : int64_t { LEAST_NS = 40000 };
	size_t last_ = 0;
	int64_t sync_ns_ = 0, until_ = 0;
	unsigned skip_ = 0, penalty_ = 1;
};

inline void Gather::end(size_t clients, int64_t sync_ns)
{
	if (skip_) {
		skip_--;
	} else if (2 * clients >= last_) {
		penalty_ = 1;
	} else {
		skip_ = penalty_;
		penalty_ = penalty_ < MOST_PENALTY ? 2 * penalty_ : +MOST_PENALTY;
	}
	last_ = clients;
	sync_ns_ = sync_ns_ ? sync_ns_ - sync_ns_ / 8 + sync_ns / 8 : sync_ns;
}

} // namespace kv

#endif /* KVSERVER_GATHER_HPP */
