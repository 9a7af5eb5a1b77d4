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

const char *check_at_rest(const Database *db, bool table1)
{
	AtRest at_rest;
	return check(&at_rest, db, table1);
}

const char *check_loaded_at_rest(const Database *db, bool table1)
{
	AtRest at_rest;
	return check_loaded(&at_rest, db, table1);
}

} // namespace tpcc
