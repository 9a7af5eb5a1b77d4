/* SPDX-License-Identifier: BSD-3-Clause
 *
 * host.cpp - batches of transactions: where their parts go, and what comes back.
 */
#include "tide.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace tide
{

Tide::Tide(const Options &options)
    : options_(options), near_(options.machine, options.modules, options.host_threads,
                                 options.many_locks ? &tide_many_locks_kernel : &tide_kernel,
                                 options.most_instructions),
      queues_(options.modules), prior_(options.modules), room_(options),
      matrix_(size_t(options.modules) * TIDE_TASKLETS), results_(matrix_.size() * TIDE_RECORDS)
{
	if (near_.shape().coherent)
		throw std::runtime_error(options.machine +
		                         ": the modules of PIM-TIDE have memory of their own: use "
		                         "threads, upmem or upmem-sdk");
	if (near_.shape().elements != options.modules)
		throw std::runtime_error(std::to_string(options.modules) + " modules: a rank of " +
		                         options.machine + " has " +
		                         std::to_string(near_.shape().elements));
	std::vector<uint32_t> printed(size_t(options.modules) * 2);
	for (size_t k = 0; k < printed.size(); k += 2)
		printed[k] = options.printed_commit, printed[k + 1] = options.trees;
	near_.push(NEAR_SHARED, offsetof(tide_shared, printed), printed.data(), 8);
}

void Tide::fill(uint64_t at, const std::vector<uint32_t> &words)
{
	std::vector<uint32_t> matrix;
	matrix.reserve(words.size() * modules());
	for (unsigned k = 0; k < modules(); k++)
		matrix.insert(matrix.end(), words.begin(), words.end());
	near_.push(NEAR_MEMORY, at, matrix.data(), words.size() * 4);
}

std::vector<uint32_t> Tide::words(uint64_t at, size_t count) const
{
	std::vector<uint32_t> matrix(count * modules());
	near_.pull(NEAR_MEMORY, at, matrix.data(), count * 4);
	return matrix;
}

size_t Tide::submit(Transaction transaction)
{
	const size_t number = transactions_.size();
	for (size_t k = 0; k < transaction.parts.size(); k++) {
		const unsigned module = transaction.parts[k].module;
		if (module >= modules())
			throw std::runtime_error("a part for module " + std::to_string(module) +
			                         ": there are " + std::to_string(modules()));
		for (size_t other = 0; other < k; other++)
			if (transaction.parts[other].module == module)
				throw std::runtime_error("two parts for module " +
				                         std::to_string(module) +
				                         ": make one of them");
		if (options_.numbering == Numbering::PRINTED)
			queues_[module].emplace_back(number, k);
	}
	left_.push_back(transaction.parts.size());
	outcomes_.emplace_back(transaction.parts.size());
	transactions_.push_back(std::move(transaction));
	waiting_.push_back(number);
	return number;
}

/* ----------------------------------------------------------------- which go, and where */

static unsigned longest(unsigned records, unsigned tasklets)
{
	return (records + tasklets - 1) / tasklets;
}

bool Room::fits(const Transaction &t) const
{
	for (const Part &p : t.parts) {
		const Load &l = load_[p.module];
		const unsigned more = t.distributed();
		if (longest(l.distributed + more, tasklets_) +
		                longest(l.local + 1 - more, tasklets_) >
		        records_)
			return false;
	}
	return true;
}

unsigned Room::add(const Transaction &t, const Part &p)
{
	Load &l = load_[p.module];
	return t.distributed() ? l.distributed++ : l.local++;
}

void Room::clear()
{
	std::fill(load_.begin(), load_.end(), Load());
}

/* At the end of the records of its kind that the tasklet has. */
void Tide::place(size_t transaction, size_t part, unsigned tasklet, uint32_t rank)
{
	const Transaction &t = transactions_[transaction];
	tide_queue &q = queue_of(t.parts[part].module, tasklet);
	uint64_t &count = t.distributed() ? q.distributed : q.local;
	places_.push_back({transaction, part, tasklet, static_cast<size_t>(count), rank});
	count++;
}

/* INV-TD1, INV-TD5: transactions in their order, until one of them does not fit whole. */
void Tide::choose()
{
	while (!waiting_.empty() && room_.fits(transactions_[waiting_.front()])) {
		const size_t number = waiting_.front();
		waiting_.pop_front();
		const Transaction &t = transactions_[number];
		for (size_t k = 0; k < t.parts.size(); k++) {
			const unsigned rank = room_.add(t, t.parts[k]);
			place(number, k, rank % options_.tasklets, rank);
		}
	}
}

/* build_batch() of the published host: the tasklets take turns at all records of the module's
 * queue, and a distributed part's rank is its tasklet plus a round for each distributed part that
 * the tasklet has, counted from what the module has executed before. */
void Tide::choose_as_printed()
{
	for (unsigned module = 0; module < modules(); module++) {
		auto &queue = queues_[module];
		std::vector<unsigned> distributed(options_.tasklets), local(options_.tasklets);
		const uint64_t prior = prior_[module];
		for (unsigned t = 0; !queue.empty(); t = (t + 1) % options_.tasklets) {
			if (distributed[t] + local[t] >= options_.records)
				break;
			const auto [number, part] = queue.front();
			queue.pop_front();
			const bool is = transactions_[number].distributed();
			const auto rank = static_cast<uint32_t>(
			        prior + t + distributed[t] * options_.tasklets);
			place(number, part, t, rank);
			(is ? distributed : local)[t]++;
			prior_[module]++;
		}
	}
}

/* ----------------------------------------------------------------- a batch */

/* The place of a part's record: distributed ones come first. */
size_t Tide::slot_of(const Place &p)
{
	const Transaction &t = transactions_[p.transaction];
	const tide_queue &q = queue_of(t.parts[p.part].module, p.tasklet);
	return p.nth + (t.distributed() ? 0 : q.distributed);
}

void Tide::push_queues()
{
	for (const Place &p : places_) {
		const Transaction &t = transactions_[p.transaction];
		const Part &part = t.parts[p.part];
		tide_record &r = queue_of(part.module, p.tasklet).record[slot_of(p)];
		r = part.record;
		r.rank = p.rank;
		r.distributed = t.distributed();
	}
	near_.push(NEAR_MEMORY, TIDE_QUEUES, matrix_.data(), TIDE_TASKLETS * sizeof(tide_queue));
}

void Tide::pull_results()
{
	enum : size_t { ROW = size_t(TIDE_TASKLETS) * TIDE_RECORDS };
	near_.pull(NEAR_MEMORY, TIDE_RESULTS, results_.data(), ROW * sizeof(tide_result));
	for (const Place &p : places_) {
		const unsigned module = transactions_[p.transaction].parts[p.part].module;
		outcomes_[p.transaction][p.part] = {module,
		        results_[module * ROW + size_t(p.tasklet) * TIDE_RECORDS + slot_of(p)]};
	}
}

/* INV-TD6 */
void Tide::release()
{
	if (keeper_)
		keeper_->keep_turns(matrix_, results_);
	for (const Place &p : places_)
		if (--left_[p.transaction] == 0)
			batch_.push_back(p.transaction);
	std::sort(batch_.begin(), batch_.end());
	ended_ += batch_.size();
}

void Tide::keep_with(Keeper &keeper)
{
	if (options_.numbering == Numbering::PRINTED)
		throw std::runtime_error("a command log needs one order of transactions, which the "
		                         "published numbering does not give: use Numbering::DENSE");
	keeper_ = &keeper;
}

const std::vector<Outcome> &Tide::outcome(size_t transaction) const
{
	if (left_.at(transaction))
		throw std::runtime_error("transaction " + std::to_string(transaction) +
		                         " has not ended: run batches until it has");
	return outcomes_[transaction];
}

size_t Tide::run_batch()
{
	memset(matrix_.data(), 0, matrix_.size() * sizeof(tide_queue));
	room_.clear();
	places_.clear();
	batch_.clear();
	if (options_.numbering == Numbering::PRINTED)
		choose_as_printed();
	else
		choose();
	push_queues();
	near_.launch(options_.tasklets);
	if (keeper_)
		keeper_->keep_parts(matrix_);
	near_.wait();
	batches_++;
	pull_results();
	release();
	return batch_.size();
}

Counts Tide::counts() const
{
	Counts c;
	c.transactions = ended_, c.batches = batches_;
	std::vector<tide_tally> all(size_t(modules()) * TIDE_TASKLETS);
	near_.pull(NEAR_SHARED, offsetof(tide_shared, tally), all.data(),
	        TIDE_TASKLETS * sizeof(tide_tally));
	for (const tide_tally &t : all)
		for (int k : {0, 1}) {
			c.commits[k] += t.commits[k];
			c.aborts[k] += t.aborts[k];
		}
	return c;
}

} // namespace tide
