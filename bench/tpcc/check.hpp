/* SPDX-License-Identifier: BSD-3-Clause
 *
 * check.hpp - the consistency conditions of a database at rest, or of the parts that it is cut
 * into.
 *
 * At rest the memory is what a transaction would read, in every system.  So this reads it with
 * plain loads; and for the emulated machine it is compiled like any other program, for calls of the
 * machine at each load would make the check of a large database take longer than a run.
 */
#ifndef TPCC_CHECK_HPP
#define TPCC_CHECK_HPP

#include <vector>

namespace tpcc
{

struct Database;
using Databases = std::vector<const Database *>;

/* Checker::check_stock() and check_loaded() of consistency.hpp, while no transaction runs.  Null,
 * or what is wrong. */
const char *check_at_rest(const Databases &all, bool table1);
const char *check_loaded_at_rest(const Databases &all, bool table1);

} // namespace tpcc

#endif /* TPCC_CHECK_HPP */
