/* SPDX-License-Identifier: BSD-3-Clause
 *
 * transaction.cpp - transaction.hpp.
 */
#include "transaction.hpp"

namespace oltpim
{

namespace
{

/* Modules keep addresses of tuples as numbers. */
Tuple *tuple_at(uint64_t address)
{
	return reinterpret_cast<Tuple *>(address);
}

uint64_t address_of(Tuple *tuple)
{
	return reinterpret_cast<uint64_t>(tuple);
}

} // namespace

/* ------------------------------------------------------------------ requests */

Request &Transaction::add(oltpim_kind kind, unsigned place)
{
	if (n_ == MOST)
		throw std::logic_error("a round has at most " + std::to_string(MOST) + " requests");
	Request &r = requests_[n_++];
	r.kind = kind;
	r.place = place;
	r.pending = &pending_;
	r.reply.written = {};
	if (kind == OLTPIM_SCAN) {
		if (!scanned_)
			scanned_ = std::make_unique<oltpim_scanned[]>(MOST);
		r.reply.scanned = &scanned_[n_ - 1];
	}
	return r;
}

unsigned Transaction::get(uint64_t key)
{
	add(OLTPIM_GET, db_.store.place_of(key)).get = {key, number_, done_.begin};
	return n_ - 1;
}

unsigned Transaction::scan(uint64_t first, uint64_t last)
{
	add(OLTPIM_SCAN, db_.store.place_of(first)).scan = {first, last, number_, done_.begin};
	return n_ - 1;
}

unsigned Transaction::add_write(oltpim_kind kind, uint64_t key, uint64_t value)
{
	Tuple *tuple = tuples_.make(key, number_, value);
	add(kind, db_.store.place_of(key)).write = {key, number_, done_.begin, address_of(tuple)};
	return n_ - 1;
}

void Transaction::issue()
{
	/* The worker that serves a request finds it through `store`, which orders this before. */
	pending_.store(n_, std::memory_order_relaxed);
	for (unsigned k = 0; k < n_; k++)
		db_.store.issue(requests_[k], worker_);
}

/* ------------------------------------------------------------------- replies */

void Transaction::take_replies()
{
	results_.clear();
	for (unsigned k = 0; k < n_; k++) {
		const Request &r = requests_[k];
		Result result;
		switch (r.kind) {
		case OLTPIM_COMMIT:
		case OLTPIM_ABORT: break;
		case OLTPIM_GET: result = take_read(r.get.key, r.reply.tuple); break;
		case OLTPIM_SCAN:
			result.count = r.reply.scanned->n;
			for (uint64_t t = 0; t < r.reply.scanned->n; t++) {
				Tuple *tuple = tuple_at(r.reply.scanned->tuples[t]);
				result.value += take_read(tuple->key, address_of(tuple)).value;
			}
			break;
		default: result = take_write(r);
		}
		failed_ |= result.status != OLTPIM_DONE;
		results_.push_back(result);
	}
	n_ = 0;
}

Transaction::Result Transaction::take_read(uint64_t key, uint64_t tuple)
{
	Result result;
	if (!tuple)
		return result;
	const Tuple *t = tuple_at(tuple);
	result.found = true;
	result.value = t->value;
	if (history_ && t->writer != number_)
		done_.reads.push_back({key, t->writer});
	return result;
}

Transaction::Result Transaction::take_write(const Request &r)
{
	const oltpim_written &w = r.reply.written;
	Tuple *tuple = tuple_at(r.write.tuple);
	Result result;
	result.status = static_cast<oltpim_status>(w.status);
	if (result.status == OLTPIM_FULL)
		throw std::runtime_error("a module is full: raise --room, or use more modules");
	if (result.status != OLTPIM_DONE) {
		tuples_.give(tuple);
		return result;
	}
	link(tuple, tuple_at(w.before), r);
	if (r.kind != OLTPIM_INSERT)
		collect(w);
	return result;
}

/* The new tuple replaces `before`, or the transaction's own one. */
void Transaction::link(Tuple *tuple, Tuple *before, const Request &r)
{
	if (before && before->writer == number_) {
		/* A DramStore has stored it already, and others may read it. */
		if (tuple->next != before->next)
			tuple->next = before->next;
		for (Written &own : written_)
			if (own.tuple == before)
				own.tuple = tuple;
		tuples_.retire(before, db_.numbers.next(), db_.numbers.oldest());
		return;
	}
	if (tuple->next != before)
		tuple->next = before;
	written_.push_back({r.place, r.reply.written.object, tuple});
	if (history_)
		done_.writes.push_back({r.write.key, before ? before->writer : NO_WRITER});
}

/* Give back the tuples that no transaction sees.  Their object is write-locked by this one. */
void Transaction::collect(const oltpim_written &w)
{
	Tuple *t = tuple_at(w.first);
	for (unsigned k = 0; k < w.obsolete; k++) {
		Tuple *next = t->next;
		tuples_.give(t);
		t = next;
	}
}

/* ------------------------------------------------------------------- the end */

void Transaction::commit()
{
	state_ = written_.empty() ? SETTLING : DRAWN;
	if (state_ == DRAWN)
		done_.csn = db_.numbers.draw();
}

/* Between the draw and this, other transactions may begin. */
void Transaction::finalise()
{
	for (const Written &w : written_)
		add(OLTPIM_COMMIT, w.place).commit = {
		        w.object, static_cast<uint32_t>(number_), done_.csn};
	issue();
	state_ = COMMITTING;
}

void Transaction::abort()
{
	state_ = ABORTING;
	for (const Written &w : written_)
		add(OLTPIM_ABORT, w.place).abort = {w.object, static_cast<uint32_t>(number_)};
	if (n_)
		issue();
}

void Transaction::finish_commit()
{
	if (history_) {
		done_.returned = db_.clock.fetch_add(1);
		history_->add(std::move(done_));
	}
	written_.clear();
	db_.numbers.end(slot_);
	state_ = ENDED;
}

void Transaction::finish_abort()
{
	for (const Written &w : written_)
		tuples_.retire(w.tuple, db_.numbers.next(), db_.numbers.oldest());
	written_.clear();
	db_.numbers.end(slot_);
	state_ = ENDED;
}

bool Transaction::ended()
{
	if (state_ == ENDED)
		return true;
	if (state_ == DRAWN)
		finalise();
	if (!ready())
		return false;
	if (state_ == ABORTING) {
		finish_abort();
		return true;
	}
	if (state_ == COMMITTING) {
		db_.numbers.settle(done_.csn);
		state_ = SETTLING;
	}
	if (!written_.empty() && !db_.numbers.may_return(done_.csn))
		return false; /* INV-CN4 */
	finish_commit();
	return true;
}

} // namespace oltpim
