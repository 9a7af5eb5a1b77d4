/* SPDX-License-Identifier: BSD-3-Clause
 *
 * none.hpp - no synchronisation at all: the limit for one thread.
 */
#ifndef BENCH_NONE_HPP
#define BENCH_NONE_HPP

#include "../../common/plain_memory.hpp"

namespace bench
{

class NoneTm : public PlainTm
{
public:
	explicit NoneTm(const TmOptions &o) : PlainTm(o)
	{
		if (o.threads > 1)
			throw Usage(
			        "--tm none has no synchronisation: it runs with --threads 1 only");
	}
	class Thread
	{
	public:
		explicit Thread(NoneTm &tm)
		{
			tx_.heap = &tm.heap_;
		}
		template <class Body>
		auto read(Body &&body)
		{
			return body(&tx_);
		}
		template <class Body>
		auto update(Body &&body)
		{
			return body(&tx_);
		}

	private:
		plain_tx tx_;
	};
	void begin_run() {}
	void describe(json &j)
	{
		j["htm"] = "none", j["pm"] = "volatile";
	}
	void results(json &j)
	{
		no_counts(j);
	}
};

} // namespace bench

#endif /* BENCH_NONE_HPP */
