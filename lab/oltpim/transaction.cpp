/* SPDX-License-Identifier: BSD-3-Clause
 *
 * transaction.cpp - transaction.hpp.
 *
 * The tests compile a plant into this file: PLANT_RELEASED breaks INV-CN10.
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
	if (round_.n == Round::MOST)
		throw std::logic_error(
		        "a round has at most " + std::to_string(Round::MOST) + " requests");
	Request &r = round_.requests[round_.n];
	r.kind = kind;
	r.number = round_.n++ & 0xffff;
	r.place = place;
	r.reply.written = {};
	if (kind == OLTPIM_SCAN) {
		if (!scanned_)
			scanned_ = std::make_unique_for_overwrite<oltpim_scanned[]>(Round::MOST);
		r.reply.scanned = &scanned_[r.number];
	}
	return r;
}

unsigned Transaction::get(uint64_t key)
{
	add(OLTPIM_GET, db_.store.place_of(key)).get = {key, number_, done_.begin};
	return round_.n - 1;
}

unsigned Transaction::add_scan(oltpim_kind kind, uint64_t first, uint64_t last)
{
	add(kind, db_.store.place_of(first)).scan = {first, last, number_, done_.begin};
	return round_.n - 1;
}

unsigned Transaction::scan(uint64_t first, uint64_t last)
{
	return add_scan(OLTPIM_SCAN, first, last);
}

unsigned Transaction::first(uint64_t first, uint64_t last)
{
	return add_scan(OLTPIM_FIRST, first, last);
}

unsigned Transaction::read(uint64_t target)
{
	add(OLTPIM_READ, static_cast<unsigned>(target >> 32)).read = {
	        static_cast<uint32_t>(target), 0, number_, done_.begin};
	return round_.n - 1;
}

unsigned Transaction::add_write(oltpim_kind kind, uint64_t key, uint64_t value)
{
	const bool keeps = oltpim_is_entry(key) && db_.store.keeps_entry(key);
	Tuple *tuple = keeps ? nullptr : tuples_.make(key, number_, value);
	if (tuple)
		tuple->is_removed = kind == OLTPIM_REMOVE;
	add(kind, db_.store.place_of(key)).write = {
	        key, number_, done_.begin, tuple ? address_of(tuple) : value};
	return round_.n - 1;
}

unsigned Transaction::add_row(oltpim_kind kind, uint64_t key, const void *row, size_t bytes)
{
	add(kind, db_.store.place_of(key)).write = {
	        key, number_, done_.begin, address_of(tuples_.make(key, number_, 0, row, bytes))};
	return round_.n - 1;
}

void Transaction::issue()
{
	/* The worker that serves a request finds it through `store`, which orders this before. */
	round_.pending.store(round_.n, std::memory_order_relaxed);
	db_.store.issue(round_, worker_);
}

/* ------------------------------------------------------------------- replies */

/* Ask for the lines that take_replies() reads: requests, which other cores have served, and then
 * tuples.  None of these depends on another. */
void Transaction::fetch_replies() const
{
	const auto fetch = [](const void *from, size_t bytes) {
		for (size_t k = 0; k < bytes; k += 64)
			__builtin_prefetch(static_cast<const char *>(from) + k);
	};
	const auto fetch_tuple = [](uint64_t address) {
		if (address)
			__builtin_prefetch(tuple_at(address));
	};
	fetch(round_.requests, round_.n * sizeof(Request));
	for (unsigned k = 0; k < round_.n; k++)
		if (round_.requests[k].kind == OLTPIM_SCAN)
			fetch(round_.requests[k].reply.scanned, sizeof(oltpim_scanned));
	for (unsigned k = 0; k < round_.n; k++) {
		const Request &r = round_.requests[k];
		if (r.kind == OLTPIM_READ) {
			fetch_tuple(r.reply.tuple);
		} else if (oltpim_is_entry(r.write.key)) {
			continue;
		} else if (r.kind == OLTPIM_GET || r.kind == OLTPIM_FIRST) {
			fetch_tuple(r.reply.tuple);
		} else if (r.kind == OLTPIM_SCAN) {
			for (uint64_t t = 0; t < r.reply.scanned->n; t++)
				fetch_tuple(r.reply.scanned->tuples[t]);
		} else if (r.kind != OLTPIM_COMMIT && r.kind != OLTPIM_ABORT &&
		           r.reply.written.status == OLTPIM_DONE) {
			fetch_tuple(r.reply.written.before);
		}
	}
}

void Transaction::take_replies()
{
	fetch_replies();
	results_.clear();
	for (unsigned k = 0; k < round_.n; k++) {
		const Request &r = round_.requests[k];
		Result result;
		if (history_ && (r.kind == OLTPIM_SCAN || r.kind == OLTPIM_FIRST))
			add_lookup(r);
		switch (r.kind) {
		case OLTPIM_COMMIT:
		case OLTPIM_ABORT: break;
		case OLTPIM_GET:
		case OLTPIM_FIRST: result = take_found(r.write.key, &r.reply.tuple, 1); break;
		case OLTPIM_SCAN:
			result = take_found(
			        r.scan.first, r.reply.scanned->tuples, r.reply.scanned->n);
			break;
		case OLTPIM_READ: result = take_row(r); break;
		default: result = take_write(r);
		}
		failed_ |= result.status != OLTPIM_DONE;
		results_.push_back(result);
	}
	round_.n = 0;
}

/* Tuples or, of a tree of entries, what these name; 0: none. */
Transaction::Result Transaction::take_found(uint64_t key, const uint64_t *found, uint64_t n)
{
	Result result;
	for (uint64_t k = 0; k < n && found[k]; k++) {
		result.count++;
		if (oltpim_is_entry(key)) {
			result.value += found[k];
			continue;
		}
		result.tuple = tuple_at(found[k]);
		result.value += result.tuple->value;
		if (history_)
			add_to_history(*result.tuple);
	}
	return result;
}

Transaction::Result Transaction::take_row(const Request &r)
{
	Result result;
	const uint64_t target = oltpim_target(r.place, r.read.object);
	const Tuple *row = tuple_at(r.reply.tuple);
	if (row) {
		result.count = 1;
		result.value = row->value;
		result.tuple = row;
		if (history_)
			add_to_history(*row);
	}
	if (history_)
		done_.rows.push_back({target, row ? row->key : NO_KEY});
	return result;
}

void Transaction::add_to_history(const Tuple &t)
{
	if (t.writer != number_)
		done_.reads.push_back({t.key, t.writer, db_.entry_of ? db_.entry_of(t) : NO_KEY});
}

/* A lookup of the history: what a request found in a secondary index. */
void Transaction::add_lookup(const Request &r)
{
	if (!oltpim_is_entry(r.scan.first))
		return;
	Lookup l{r.scan.first, r.scan.last,
	        r.kind == OLTPIM_FIRST ? size_t{1} : size_t{OLTPIM_SCAN_MOST}, {}};
	if (r.kind == OLTPIM_SCAN)
		l.targets.assign(
		        r.reply.scanned->tuples, r.reply.scanned->tuples + r.reply.scanned->n);
	else if (r.reply.tuple)
		l.targets.push_back(r.reply.tuple);
	done_.lookups.push_back(std::move(l));
}

Transaction::Result Transaction::take_write(const Request &r)
{
	const oltpim_written &w = r.reply.written;
	const bool kept = oltpim_is_entry(r.write.key) && db_.store.keeps_entry(r.write.key);
	Tuple *tuple = kept ? nullptr : tuple_at(r.write.tuple);
	Result result;
	result.status = static_cast<oltpim_status>(w.status);
	if (result.status == OLTPIM_FULL)
		throw std::runtime_error("a module is full: raise --room, or use more modules");
	if (result.status != OLTPIM_DONE) {
		if (tuple)
			tuples_.give(tuple);
		return result;
	}
	result.value = oltpim_target(r.place, w.object);
	if (kept) {
		add_kept(r.place, w.object);
		return result;
	}
	link(tuple, tuple_at(w.before), r);
	collect(w);
	return result;
}

/* An entry that its module keeps.  If the transaction has written it before, it has one version. */
void Transaction::add_kept(unsigned place, uint32_t object)
{
	for (const Written &own : written_)
		if (own.place == place && own.object == object)
			return;
	written_.push_back({place, object, nullptr});
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
	if (history_ && !oltpim_is_entry(r.write.key))
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

void Transaction::keep()
{
	if (!db_.keeper)
		return;
	kept_.clear();
	for (const Written &w : written_)
		if (w.tuple && !oltpim_is_entry(w.tuple->key))
			kept_.push_back(w.tuple);
	db_.keeper->keep(worker_, done_.csn, kept_);
}

/* Between the draw and this, other transactions may begin. */
void Transaction::finalise()
{
#ifndef PLANT_RELEASED
	keep(); /* INV-CN10 */
#endif
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
	if (round_.n)
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
		if (w.tuple)
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
#ifdef PLANT_RELEASED
		keep();
#endif
		db_.numbers.settle(done_.csn);
		state_ = SETTLING;
	}
	if (!written_.empty() && !db_.numbers.may_return(done_.csn))
		return false; /* INV-CN4 */
	finish_commit();
	return true;
}

} // namespace oltpim
