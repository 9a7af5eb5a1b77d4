/* SPDX-License-Identifier: BSD-3-Clause
 *
 * histogram.hpp - many values, of which a result has quantiles.
 */
#ifndef BENCH_HISTOGRAM_HPP
#define BENCH_HISTOGRAM_HPP

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace bench
{

/* Counts of values, within 1/32 of the value: bucket 32 e + (value >> e), where value >> e has six
 * bits. */
class Histogram
{
public:
	void add(uint64_t value)
	{
		unsigned e = shift_of(value);
		buckets_[32 * e + (value >> e)]++;
		count_++;
		sum_ += value;
		most_ = std::max(most_, value);
		least_ = std::min(least_, value);
	}
	void add(const Histogram &other)
	{
		for (size_t k = 0; k < BUCKETS; k++)
			buckets_[k] += other.buckets_[k];
		count_ += other.count_;
		sum_ += other.sum_;
		most_ = std::max(most_, other.most_);
		least_ = std::min(least_, other.least_);
	}
	/* The greatest value of the bucket below which the given share of the values lies. */
	uint64_t quantile(double share) const
	{
		auto wanted = static_cast<uint64_t>(share * static_cast<double>(count_));
		uint64_t below = 0;
		for (size_t k = 0; k < BUCKETS; k++)
			if ((below += buckets_[k]) > wanted)
				return std::min(most_, greatest_in(k));
		return most_;
	}
	uint64_t count() const
	{
		return count_;
	}
	uint64_t most() const
	{
		return most_;
	}
	uint64_t least() const
	{
		return count_ ? least_ : 0;
	}
	double mean() const
	{
		return count_ ? static_cast<double>(sum_) / static_cast<double>(count_) : 0;
	}

private:
	enum : size_t { BUCKETS = 32 * 60 };
	static unsigned shift_of(uint64_t value)
	{
		unsigned width = static_cast<unsigned>(std::bit_width(value));
		return width > 6 ? width - 6 : 0;
	}
	static uint64_t greatest_in(size_t bucket)
	{
		size_t e = bucket < 64 ? 0 : bucket / 32 - 1;
		return ((bucket - 32 * e + 1) << e) - 1;
	}
	uint64_t buckets_[BUCKETS] = {}, count_ = 0, sum_ = 0, most_ = 0, least_ = UINT64_MAX;
};

} // namespace bench

#endif /* BENCH_HISTOGRAM_HPP */
