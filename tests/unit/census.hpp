/* SPDX-License-Identifier: BSD-3-Clause
 *
 * census.hpp - the allocator's census of a heap that no transaction uses.
 */
#ifndef CENSUS_HPP
#define CENSUS_HPP

#include "internals.hpp"

#include <gtest/gtest.h>

/* Also fails if the allocator is not sound. */
inline alloc_census census_of(const fur_heap *heap)
{
	alloc_census census;
	EXPECT_EQ(alloc_check(heap_base(heap), &census), 0) << fur_errormsg();
	return census;
}

#endif /* CENSUS_HPP */
