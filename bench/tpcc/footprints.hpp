/* SPDX-License-Identifier: BSD-3-Clause
 *
 * footprints.hpp - the words that transactions read and write, counted, and the numbers of the FUR
 * paper's Table 1 next to them.
 */
#ifndef TPCC_FOOTPRINTS_HPP
#define TPCC_FOOTPRINTS_HPP

#include "btree.hpp"

#include "../../tools/common/json.hpp"

#include <cstdint>
#include <iterator>
#include <new>
#include <type_traits>

namespace tpcc
{

/* `new_row_writes`: those of the writes that fill rows which the transaction itself allocates.  No
 * other transaction can reach them before the commit. */
struct Footprint {
	uint64_t reads = 0, writes = 0, new_row_writes = 0;
	struct {
		const char *start;
		size_t bytes;
	} row[64] = {};
	unsigned rows = 0;

	void wrote(const void *p)
	{
		auto *at = static_cast<const char *>(p);
		writes++;
		for (unsigned r = 0; r < rows; r++)
			new_row_writes += at >= row[r].start && at < row[r].start + row[r].bytes;
	}
	void allocated(const void *block, size_t bytes)
	{
		if (block && bytes != sizeof(btree::Node) && rows < std::size(row))
			row[rows++] = {static_cast<const char *>(block), bytes};
	}
};

/* A transaction that counts its accesses. */
template <class Tx>
struct Counted {
	Tx *tx;
	Footprint *n;
};
template <class Tx, class T>
T fur_load(Counted<Tx> *c, const T *p)
{
	c->n->reads++;
	return fur_load(c->tx, p);
}
template <class Tx, class T>
void fur_store(Counted<Tx> *c, T *p, std::type_identity_t<T> value)
{
	c->n->wrote(p);
	fur_store(c->tx, p, value);
}
template <class Tx>
void fur_promote(Counted<Tx> *c, void *p)
{
	fur_promote(c->tx, p);
}
template <class Tx>
void *fur_alloc(Counted<Tx> *c, size_t bytes)
{
	void *block = fur_alloc(c->tx, bytes);
	c->n->allocated(block, bytes);
	return block;
}
template <class Tx>
void *fur_alloc_aligned(Counted<Tx> *c, size_t bytes, size_t alignment)
{
	void *block = fur_alloc_aligned(c->tx, bytes, alignment);
	c->n->allocated(block, bytes);
	return block;
}
template <class Tx>
void fur_free(Counted<Tx> *c, void *p)
{
	fur_free(c->tx, p);
}

/* The transaction that a body gets: the system's, or one that counts. */
struct Plain {
	template <class Tx>
	Tx *operator()(Tx *tx)
	{
		return tx;
	}
};
struct Counting {
	Footprint n;
	alignas(Counted<fur_ro>) char room[sizeof(Counted<fur_ro>)];
	/* Of the last attempt, which is the one that commits. */
	template <class Tx>
	Counted<Tx> *operator()(Tx *tx)
	{
		n = {};
		return new (room) Counted<Tx>{tx, &n};
	}
};

/* A row of Table 1: averages of words. */
struct PublishedFootprint {
	double reads, writes;
};

/* The mean of `times` footprints.  With `published`, also that row, and the ratios to it.  The
 * ratio leaves out writes to new rows: without them new order has Table 1's 141, with them 194.
 * All systems log them like any other store. */
inline tools::Json mean_footprint(
        const Footprint &sum, uint64_t times, const PublishedFootprint *published)
{
	tools::Json mean = {{"reads", sum.reads / times}, {"writes", sum.writes / times},
	        {"new_row_writes", sum.new_row_writes / times}};
	if (!published)
		return mean;
	auto n = static_cast<double>(times);
	mean["table1_reads"] = published->reads;
	mean["reads_ratio"] = static_cast<double>(sum.reads) / n / published->reads;
	if (published->writes > 0) {
		mean["table1_writes"] = published->writes;
		mean["writes_ratio"] = static_cast<double>(sum.writes - sum.new_row_writes) / n /
		                       published->writes;
	}
	return mean;
}

} // namespace tpcc

#endif /* TPCC_FOOTPRINTS_HPP */
