/* SPDX-License-Identifier: BSD-3-Clause
 *
 * check.cpp - see check.hpp.
 */
#include "check.hpp"

namespace tpcc
{

namespace
{
/* Memory that no thread writes to. */
struct AtRest {
};
template <class T>
T fur_load(AtRest *, const T *p)
{
	return *p;
}
} // namespace

} // namespace tpcc

#include "consistency.hpp" /* after the load that it uses */

namespace tpcc
{

const char *check_at_rest(const Databases &all, bool table1)
{
	AtRest at_rest;
	return Checker<AtRest>(&at_rest, all, table1).check_stock();
}

const char *check_loaded_at_rest(const Databases &all, bool table1)
{
	AtRest at_rest;
	return Checker<AtRest>(&at_rest, all, table1).check_loaded();
}

} // namespace tpcc
