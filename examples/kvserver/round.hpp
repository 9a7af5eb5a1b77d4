/* SPDX-License-Identifier: BSD-3-Clause
 *
 * round.hpp - runs all requests of a round in one transaction.
 */
#ifndef KVSERVER_ROUND_HPP
#define KVSERVER_ROUND_HPP

#include "requests.hpp"

namespace kv
{

class Round
{
public:
	Round(fur_thread *self, Database *db, const Requests &requests, const Facts &facts)
	    : self_(self), db_(db), requests_(requests), facts_(facts)
	{
	}
	/* run - run the requests, and append the replies to the clients' output.  Only reads: in a
	 * read-only transaction.  Else in one update, unless it would be too large for the log, or
	 * fails: then the request at which it fails gets an error for its reply.
	 * Durable: nothing, until `ticket` is waited for.
	 * Errors:  fur::Error: the heap has failed.  No reply may be sent. */
	void run(fur_ticket &ticket);

private:
	struct Attempt {
		size_t end;        /* the first unit that has not run */
		const char *error; /* why that one cannot; NULL: it was not tried */
	};
	void read_all(fur_ticket &ticket);
	Attempt update(size_t first, size_t end, fur_ticket &ticket);
	size_t run_units(fur_update *tx, size_t first, size_t end);
	void run_unit(const Unit &unit, Access &access);
	void undo_replies(size_t first);
	void answer_error(const Unit &unit, const char *error);

	fur_thread *self_;
	Database *db_;
	const Requests &requests_;
	const Facts &facts_;
	size_t at_ = 0;             /* the unit that runs */
	std::vector<size_t> marks_; /* how long its client's output was before each unit */
};

} // namespace kv

#endif /* KVSERVER_ROUND_HPP */
