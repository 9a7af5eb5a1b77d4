/* SPDX-License-Identifier: BSD-3-Clause
 *
 * zipf.hpp - random ranks, of which a few are drawn often.
 */
#ifndef BENCH_ZIPF_HPP
#define BENCH_ZIPF_HPP

#include "../../tools/common/random.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace bench
{

/* Ranks 0 to n - 1 by Zipf's law: rank k is drawn 1 / (k + 1)^theta times as often as rank 0; all
 * are drawn alike if theta is 0.  theta < 1.
 * Source:  Gray et al., "Quickly generating billion-record synthetic databases", SIGMOD 1994. */
class Zipf
{
public:
	Zipf(uint64_t n, double theta) : n_(n), theta_(theta)
	{
		if (uniform())
			return;
		for (uint64_t k = 1; k <= n; k++)
			sum_ += std::pow(1 / static_cast<double>(k), theta);
		eta_ = (1 - std::pow(2 / static_cast<double>(n), 1 - theta)) /
		       (1 - second() / sum_);
	}
	bool uniform() const
	{
		return theta_ == 0;
	}
	uint64_t draw(tools::Random &random) const
	{
		if (uniform())
			return random.below(n_);
		const double u = static_cast<double>(random.next() >> 11) * 0x1p-53;
		if (u * sum_ < 1)
			return 0;
		if (u * sum_ < second())
			return 1;
		const double at =
		        static_cast<double>(n_) * std::pow(eta_ * u - eta_ + 1, 1 / (1 - theta_));
		return std::min(static_cast<uint64_t>(at), n_ - 1);
	}

private:
	/* How often the first two ranks are drawn, where the first one is drawn once. */
	double second() const
	{
		return 1 + std::pow(0.5, theta_);
	}
	uint64_t n_;
	double theta_, sum_ = 0, eta_ = 0;
};

} // namespace bench

#endif /* BENCH_ZIPF_HPP */
