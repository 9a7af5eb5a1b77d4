/* SPDX-License-Identifier: BSD-3-Clause
 *
 * requests.hpp - the commands that the clients have sent since the last round.
 */
#ifndef KVSERVER_REQUESTS_HPP
#define KVSERVER_REQUESTS_HPP

#include "connection.hpp"

#include <deque>

namespace kv
{

struct Job {
	const Command *command;
	size_t first, n; /* its arguments */
};

/* What happens as a whole or not at all: a command, or all of an EXEC. */
struct Unit {
	Connection *to;
	size_t first, n; /* its jobs */
	bool exec;
	size_t bytes; /* of the arguments */
};

class Requests
{
public:
	explicit Requests(Facts &facts) : facts_(facts) {}

	/* take - take all complete requests out of the client's input.  They are views of it: it
	 * must stay as it is until clear(). */
	void take(Connection &c);
	void clear();

	const std::vector<Unit> &units() const
	{
		return units_;
	}
	const Job &job(size_t n) const
	{
		return jobs_[n];
	}
	std::span<const std::string_view> args(const Job &job) const
	{
		return {args_.data() + job.first, job.n};
	}
	/* Does any of them change the store? */
	bool write() const
	{
		return write_;
	}
	const std::vector<Connection *> &clients() const
	{
		return clients_;
	}

private:
	void take_request(Connection &c, size_t first);
	void take_known(Connection &c, const Command *command, size_t first);
	void queue(Connection &c, const Command *command, size_t first);
	void exec(Connection &c);
	void add_unit(Connection &c, bool exec, size_t first_job, size_t bytes);
	void add(Connection &c, const Command *command, size_t first);
	/* A reply that needs no transaction, in its turn. */
	void answer(Connection &c, std::string reply);
	void refuse(Connection &c, std::string_view error);
	void keep_inline(size_t first);
	std::string_view keep(std::string text);
	size_t bytes_from(size_t first) const;

	Facts &facts_;
	std::vector<Unit> units_;
	std::vector<Job> jobs_;
	Args args_;
	std::deque<std::string> kept_;
	std::vector<Connection *> clients_;
	bool write_ = false;
};

} // namespace kv

#endif /* KVSERVER_REQUESTS_HPP */
