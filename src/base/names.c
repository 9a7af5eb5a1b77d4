/* SPDX-License-Identifier: BSD-3-Clause
 *
 * names.c - the library's version, and the names of fur.h's enums.
 */
#include <fur.h>

FUR_API const char *fur_version(void)
{
#define TEXT(number)    #number
#define DOTTED(a, b, c) TEXT(a) "." TEXT(b) "." TEXT(c)
	return DOTTED(FUR_VERSION_MAJOR, FUR_VERSION_MINOR, FUR_VERSION_PATCH);
}

static const char *const htm[] = {"auto", "none", "tsx", "power"};
_Static_assert(sizeof htm / sizeof *htm == FUR_HTM_POWER + 1, "a name for each");
static const char *const pm[] = {"auto", "pmem", "eadr", "emulated", "sync"};
_Static_assert(sizeof pm / sizeof *pm == FUR_PM_SYNC + 1, "a name for each");
static const char *const isolation[] = {"opacity", "snapshot"};
_Static_assert(sizeof isolation / sizeof *isolation == FUR_SNAPSHOT + 1, "a name for each");
static const char *const log_level[] = {"info", "warning", "error"};
_Static_assert(sizeof log_level / sizeof *log_level == FUR_LOG_ERROR + 1, "a name for each");
static const char *const abort_cause[] = {
        "conflict", "plain", "capacity", "lock", "reader", "full", "fault", "user", "snapshot"};
_Static_assert(sizeof abort_cause / sizeof *abort_cause == FUR_ABORT_CAUSES, "a name for each");
static const char *const phase[] = {"body", "isolation_wait", "log", "flush", "durability_wait",
        "ro_body", "ro_wait", "lock_wait", "room"};
_Static_assert(sizeof phase / sizeof *phase == FUR_PHASES, "a name for each");

FUR_API const char *fur_name(enum fur_name_of of, int value)
{
	static const struct {
		const char *const *names;
		int n;
	} all[] = {
	        [FUR_NAME_HTM] = {htm, sizeof htm / sizeof *htm},
	        [FUR_NAME_PM] = {pm, sizeof pm / sizeof *pm},
	        [FUR_NAME_ISOLATION] = {isolation, sizeof isolation / sizeof *isolation},
	        [FUR_NAME_LOG_LEVEL] = {log_level, sizeof log_level / sizeof *log_level},
	        [FUR_NAME_ABORT] = {abort_cause, sizeof abort_cause / sizeof *abort_cause},
	        [FUR_NAME_PHASE] = {phase, sizeof phase / sizeof *phase},
	};
	const bool known =
	        (unsigned)of < sizeof all / sizeof *all && value >= 0 && value < all[of].n;
	return known ? all[of].names[value] : "?";
}
