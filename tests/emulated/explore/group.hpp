/* SPDX-License-Identifier: BSD-3-Clause
 *
 * group.hpp - libfur with several heaps in a group, and the workload over them (group.cpp).
 */
#ifndef EXPLORE_GROUP_HPP
#define EXPLORE_GROUP_HPP

#include "seed.hpp"

namespace explore
{

extern const System group_system;

} // namespace explore

#endif /* EXPLORE_GROUP_HPP */
