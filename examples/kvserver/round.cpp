/* SPDX-License-Identifier: BSD-3-Clause
 *
 * round.cpp - one transaction for all requests of a round (round.hpp).
 */
#include "round.hpp"

namespace kv
{

void Round::run_unit(const Unit &unit, Access &access)
{
	std::string &out = unit.to->out;
	if (unit.exec)
		Reply(out).array(unit.n);
	for (size_t k = unit.first; k < unit.first + unit.n; k++) {
		const Job &job = requests_.job(k);
		job.command->run({requests_.args(job), access, facts_, out});
	}
}

void Round::read_all(fur_ticket &ticket)
{
	fur::read(self_, ticket, [&](fur_ro *tx) {
		Access access(db_, tx, now_ms());
		for (const Unit &unit : requests_.units())
			run_unit(unit, access);
	});
}

/* Run units until the log may have no room for the next one.  Returns the first that has not run.
 */
size_t Round::run_units(fur_update *tx, size_t first, size_t end)
{
	enum : uint64_t { JOB_BYTES = 1024, SPARE = 64 << 10 };
	Access access(db_, tx, now_ms());
	for (at_ = first; at_ < end; at_++) {
		const Unit &unit = requests_.units()[at_];
		if (at_ > first &&
		        fur_update_room(tx, nullptr) < 2 * unit.bytes + JOB_BYTES * unit.n + SPARE)
			break;
		marks_.push_back(unit.to->out.size());
		run_unit(unit, access);
		if (const int error = fur_update_error(tx))
			throw fur::Error(error, fur_strerror(error));
	}
	return at_;
}

/* The update was rolled back: so are the replies of its units, the latest first. */
void Round::undo_replies(size_t first)
{
	for (; !marks_.empty(); marks_.pop_back())
		requests_.units()[first + marks_.size() - 1].to->out.resize(marks_.back());
}

/* Let the update go on in place, if it runs in software: loads then cost what they cost in C++.  It
 * keeps readers out until it ends, and there are none: this thread is the only one. */
static void go_in_place(fur_thread *self)
{
	fur_ro *joined;
	fur::check(fur_join_ro(self, &joined));
	fur::check(fur_end_ro(joined, nullptr));
}

Round::Attempt Round::update(size_t first, size_t end, fur_ticket &ticket)
{
	marks_.clear();
	try {
		const size_t ran = fur::update(self_, ticket, [&](fur_update *tx) {
			go_in_place(self_);
			return run_units(tx, first, end);
		});
		return {ran, nullptr};
	} catch (const fur::heap_full &) {
		undo_replies(first);
		return {at_, "OOM the heap is full"};
	} catch (const fur::Error &e) {
		if (e.code() != FUR_ETOOBIG && e.code() != FUR_ENOSPC)
			throw;
		undo_replies(first);
		return {at_, e.code() == FUR_ETOOBIG ? "ERR the commands are too large for the log"
		                                     : "OOM no room on the disk"};
	}
}

void Round::answer_error(const Unit &unit, const char *error)
{
	Reply(unit.to->out).error(error);
}

void Round::run(fur_ticket &ticket)
{
	const auto &units = requests_.units();
	if (!requests_.write())
		return read_all(ticket);
	for (size_t at = 0, end = units.size(); at < units.size();) {
		const Attempt a = update(at, end, ticket);
		if (!a.error) {
			at = a.end;
			end = units.size();
		} else if (a.end == at || end == at + 1) {
			answer_error(units[at++], a.error);
			end = units.size();
		} else {
			/* First those before it.  If only the commit has failed: one by one. */
			end = a.end < end ? a.end : at + 1;
		}
	}
}

} // namespace kv
