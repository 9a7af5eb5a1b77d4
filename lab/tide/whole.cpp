/* SPDX-License-Identifier: BSD-3-Clause
 *
 * whole.cpp - batches of a machine of many ranks.
 */
#include "whole.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace tide
{

double largest_of(std::vector<double> values, unsigned n)
{
	std::sort(values.begin(), values.end());
	const auto all = static_cast<double>(values.size());
	double sum = 0, below = 0;
	for (size_t k = 0; k < values.size(); k++) {
		/* None of n is larger than this one. */
		const double upto = std::pow(static_cast<double>(k + 1) / all, n);
		sum += values[k] * (upto - below);
		below = upto;
	}
	return sum;
}

Options Whole::machine() const
{
	Options o = options_;
	o.modules = modules_;
	return o;
}

Whole::Whole(
        const Workload &w, const Options &rank, unsigned modules, unsigned first, uint64_t seed)
    : workload_(w), options_(rank), modules_(modules), first_(first), random_{seed}, rank_(rank),
      room_(machine())
{
	if (first + rank.modules > modules)
		throw std::runtime_error("modules " + std::to_string(first) + " to " +
		                         std::to_string(first + rank.modules - 1) +
		                         ": the machine has " + std::to_string(modules));
	w.load(rank_);
	loaded_ = rank_.counters();
}

/* The modules' clients take turns. */
Transaction Whole::draw()
{
	return workload_.draw(random_, modules_, static_cast<unsigned>(drawn_++ % modules_));
}

/* What the rank has of it: its parts keep to the order, even if only one is left. */
std::optional<Transaction> Whole::of_rank(const Transaction &t) const
{
	Transaction its;
	its.ordered = t.distributed();
	for (const Part &p : t.parts)
		if (p.module >= first_ && p.module < first_ + options_.modules)
			its.parts.push_back({p.module - first_, p.record});
	return its.parts.empty() ? std::nullopt : std::optional(its);
}

void Whole::run_batch()
{
	size_t submitted = 0;
	room_.clear();
	for (;;) {
		if (!next_)
			next_ = draw();
		if (!room_.fits(*next_))
			break;
		for (const Part &p : next_->parts)
			room_.add(*next_, p);
		if (auto its = of_rank(*next_)) {
			rank_.submit(std::move(*its));
			submitted++;
		}
		transactions_++;
		next_.reset();
	}
	if (rank_.run_batch() != submitted)
		throw std::logic_error("what fits the machine does not fit its rank");
	batches_++;
	done_ = rank_.counters();
	const std::vector<uint64_t> cycles = rank_.cycles();
	cycles_.insert(cycles_.end(), cycles.begin(), cycles.end());
}

Whole::Times Whole::times(unsigned modules) const
{
	constexpr double PS = 1e6; /* of a microsecond */
	Times t;
	t.transactions = static_cast<double>(transactions_) / static_cast<double>(batches_) *
	                 modules / modules_;
	if (!rank_.shape().channels)
		return t; /* threads: they have no times */
	std::vector<double> us;
	for (uint64_t c : cycles_)
		us.push_back(static_cast<double>(c) / rank_.shape().mhz);
	for (double each : us)
		t.mean += each / static_cast<double>(us.size());
	t.slowest_seen = *std::max_element(us.begin(), us.end());
	t.slowest = largest_of(us, modules);
	const near_counters &n = done_;
	const auto batches = static_cast<double>(batches_);
	const auto each = [&](uint64_t now, uint64_t then) {
		return static_cast<double>(now - then) / PS / batches;
	};
	const near_channel c = rank_.channel();
	const double ps_of_byte =
	        static_cast<double>(c.busy_ps) /
	        static_cast<double>(c.written_bytes + c.read_bytes + c.control_bytes);
	const auto bytes = static_cast<double>(
	        n.pushed_bytes + n.pulled_bytes - loaded_.pushed_bytes - loaded_.pulled_bytes);
	const unsigned ranks = modules / options_.modules, channels = rank_.shape().channels,
	               of_channel = (ranks + channels - 1) / channels;
	const double alone = each(n.push_ps + n.pull_ps, loaded_.push_ps + loaded_.pull_ps);
	t.copies = std::max(alone, bytes * ps_of_byte * of_channel / PS / batches);
	t.handing = each(n.host_ps - n.kernel_ps, loaded_.host_ps - loaded_.kernel_ps) - alone;
	return t;
}

} // namespace tide
