/* SPDX-License-Identifier: BSD-3-Clause
 *
 * htm.hpp - hardware transactions with a lock to fall back on, and nothing durable: the limit for
 * any system built on this hardware.
 */
#ifndef BENCH_HTM_HPP
#define BENCH_HTM_HPP

#include "../../common/hardware.hpp"
#include "../../common/plain_memory.hpp"

#include <sched.h>

namespace bench
{

class HtmTm : public PlainTm
{
public:
	explicit HtmTm(const TmOptions &o) : PlainTm(o), retries_(o.retries)
	{
		if (!hardware_transactions_work())
			throw Usage("--tm htm needs Intel TSX (RTM), which this processor does not "
			            "have: use none, fur-opacity or "
			            "fur-snapshot");
	}
	struct Counters {
		uint64_t aborts[FUR_ABORT_CAUSES] = {}, locked = 0;
	};

	class Thread
	{
	public:
		explicit Thread(HtmTm &tm) : tm_(tm), number_(tm.threads_++)
		{
			tx_.heap = &tm.heap_;
		}
		~Thread()
		{
			for (int c = 0; c < FUR_ABORT_CAUSES; c++)
				tm_.aborts_[c] += counters_.aborts[c];
			tm_.locked_ += counters_.locked;
		}
		template <class Body>
		auto read(Body &&body)
		{
			return update(body);
		}
		template <class Body>
		auto update(Body &&body)
		{
			Attempts attempts(tm_.retries_, number_);
			while (attempts.left()) {
				while (tm_.lock_.load(std::memory_order_acquire))
					spin();
				attempts.begin();
				unsigned status = tsx_begin();
				if (status == TSX_STARTED) {
					if (tm_.lock_.load(std::memory_order_relaxed))
						tsx_abort(1 + FUR_ABORT_LOCK);
					auto result = body(&tx_);
					tsx_end();
					return result;
				}
				fur_abort_cause cause = abort_cause(status);
				counters_.aborts[cause]++;
				attempts.aborted(cause, tm_.lock_.load(std::memory_order_relaxed));
			}
			while (tm_.lock_.exchange(true))
				while (tm_.lock_.load(std::memory_order_relaxed))
					sched_yield();
			auto result = body(&tx_);
			tm_.lock_.store(false, std::memory_order_release);
			counters_.locked++;
			return result;
		}

	private:
		HtmTm &tm_;
		const uint32_t number_;
		plain_tx tx_;
		Counters counters_;
	};
	void begin_run()
	{
		for (auto &n : aborts_)
			n = 0;
		locked_ = 0;
	}
	void describe(json &j)
	{
		j["htm"] = machine_htm(), j["pm"] = "volatile";
	}
	void results(json &j)
	{
		j["aborts"] = aborts_by_cause([&](int c) { return aborts_[c].load(); });
		j["lock_commits"] = locked_.load();
		j["phases_ns"] = json::object();
	}

private:
	alignas(128) std::atomic<bool> lock_{false};
	alignas(128) std::atomic<uint64_t> aborts_[FUR_ABORT_CAUSES] = {};
	std::atomic<uint64_t> locked_{0};
	std::atomic<uint32_t> threads_{0};
	const unsigned retries_;
};

} // namespace bench

#endif /* BENCH_HTM_HPP */
