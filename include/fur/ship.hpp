/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ship.hpp - fur_ship.h for C++: follow, take over, tokens.  Errors are exceptions, as in fur.hpp.
 */
#ifndef FUR_SHIP_HPP
#define FUR_SHIP_HPP

#include <fur.hpp>
#include <fur_ship.h>

namespace fur
{

/* A thread that follows the log of a standby's primary: fur_follow().  It ends before its heap. */
class Follower
{
public:
	/* Errors: Error, as fur_follow(). */
	explicit Follower(const Heap &heap, const fur_follow_options *options = nullptr)
	{
		check(fur_follow(heap.get(), options, &follower_));
	}
	~Follower()
	{
		if (follower_)
			fur_unfollow(follower_);
	}
	Follower(Follower &&other) noexcept : follower_(other.follower_)
	{
		other.follower_ = nullptr;
	}
	Follower &operator=(Follower &&) = delete;
	fur_follow_state state() const
	{
		fur_follow_state s = {};
		s.size = sizeof s;
		check(fur_get_follow_state(follower_, &s));
		return s;
	}
	/* take_over - fur_take_over().   Errors: Error. */
	void take_over(uint64_t term = 0) const
	{
		check(fur_take_over(follower_, term));
	}
	fur_follower *get() const noexcept
	{
		return follower_;
	}

private:
	fur_follower *follower_ = nullptr;
};

/* get_token - fur_get_token().   Errors: Error. */
inline fur_token get_token(fur_thread *self)
{
	fur_token token;
	check(fur_get_token(self, &token));
	return token;
}

/* wait_token - fur_wait_token().
 * Returns: false if what the token stands for is not there in time.
 * Errors:  Error: FUR_ELOST and the others, but not FUR_EBEHIND. */
inline bool wait_token(const Heap &heap, const fur_token &token, uint32_t timeout_ms)
{
	const int error = fur_wait_token(heap.get(), &token, timeout_ms);
	if (error != FUR_EBEHIND)
		check(error);
	return error == 0;
}

} // namespace fur

#endif /* FUR_SHIP_HPP */
