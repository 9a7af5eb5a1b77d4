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

FUR_API const char *fur_htm_name(enum fur_htm htm)
{
	static const char *const names[] = {"auto", "none", "tsx", "power"};
	_Static_assert(sizeof names / sizeof *names == FUR_HTM_POWER + 1, "a name for each");
	return (unsigned)htm < sizeof names / sizeof *names ? names[htm] : "?";
}

FUR_API const char *fur_pm_name(enum fur_pm pm)
{
	static const char *const names[] = {"auto", "pmem", "eadr", "emulated", "sync"};
	_Static_assert(sizeof names / sizeof *names == FUR_PM_SYNC + 1, "a name for each");
	return (unsigned)pm < sizeof names / sizeof *names ? names[pm] : "?";
}

FUR_API const char *fur_isolation_name(enum fur_isolation isolation)
{
	return isolation == FUR_OPACITY ? "opacity" : isolation == FUR_SNAPSHOT ? "snapshot" : "?";
}

FUR_API const char *fur_log_level_name(enum fur_log_level level)
{
	static const char *const names[] = {"info", "warning", "error"};
	_Static_assert(sizeof names / sizeof *names == FUR_LOG_ERROR + 1, "a name for each");
	return (unsigned)level < sizeof names / sizeof *names ? names[level] : "?";
}

FUR_API const char *fur_abort_name(enum fur_abort_cause cause)
{
	static const char *const names[] = {
	        "conflict", "plain", "capacity", "lock", "reader", "full", "fault", "user"};
	_Static_assert(sizeof names / sizeof *names == FUR_ABORT_CAUSES, "a name for each cause");
	return (unsigned)cause < FUR_ABORT_CAUSES ? names[cause] : "?";
}

FUR_API const char *fur_phase_name(enum fur_phase phase)
{
	static const char *const names[] = {"body", "isolation_wait", "log", "flush",
	        "durability_wait", "ro_body", "ro_wait", "lock_wait", "room"};
	_Static_assert(sizeof names / sizeof *names == FUR_PHASES, "a name for each phase");
	return (unsigned)phase < FUR_PHASES ? names[phase] : "?";
}
