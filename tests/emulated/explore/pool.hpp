/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pool.hpp - many seeds, each in a process of its own, some at a time.
 */
#ifndef EXPLORE_POOL_HPP
#define EXPLORE_POOL_HPP

#include "seed.hpp"

namespace explore
{

/* Prints each violation and the totals; the exit status. */
int explore_seeds(const Options &o, const System &system);

} // namespace explore

#endif /* EXPLORE_POOL_HPP */
