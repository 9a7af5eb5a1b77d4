/* SPDX-License-Identifier: BSD-3-Clause
 *
 * options.c - complete struct fur_options with its defaults, and with the environment variables
 * that override it.  No other file reads the environment.
 */
#include "api/heap.h"
#include "api/struct.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------- environment */

/* The variable, if it is set, must be one of the first `n` names; *value becomes its number. */
static int value_from_environment(const char *variable, const char *(*name)(int), int n, int *value)
{
	char names[128] = "";
	const char *word = getenv(variable);
	if (!word || !*word)
		return 0;
	for (int k = 0; k < n; k++) {
		if (!strcmp(word, name(k))) {
			*value = k;
			return 0;
		}
		snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", k ? ", " : "",
		        name(k));
	}
	return fur_fail(FUR_EINVAL, "%s=%s in the environment: use %s", variable, word, names);
}

static const char *htm_name(int htm)
{
	return fur_htm_name((enum fur_htm)htm);
}

static const char *pm_name(int pm)
{
	return fur_pm_name((enum fur_pm)pm);
}

/* Read all options that the environment can change. */
static int read_environment(struct fur_options *o)
{
	int htm = (int)o->htm, pm = (int)o->pm;
	int error = value_from_environment("FUR_HTM", htm_name, FUR_HTM_POWER + 1, &htm);
	if (!error)
		error = value_from_environment("FUR_PM", pm_name, FUR_PM_SYNC + 1, &pm);
	o->htm = (enum fur_htm)htm;
	o->pm = (enum fur_pm)pm;
	return error;
}

/* ----------------------------------------------------------------- options */

enum { DEFAULT_RETRIES = 20, DEFAULT_REPORT_NS = 100000000, DEFAULT_ASYNC_MS = 10 };

int options_complete(const struct fur_options *given, struct fur_options *o)
{
	const struct fur_struct theirs = {
	        "fur_options", (void *)(uintptr_t)given, FUR_OPTIONS_LEAST_BYTES};
	fur_options_init(o);
	int error = given ? fur_struct_take(&theirs, o, sizeof *o) : 0;
	if (error)
		return error;
	if ((unsigned)o->isolation > FUR_SNAPSHOT || (unsigned)o->htm > FUR_HTM_POWER ||
	        (unsigned)o->pm > FUR_PM_SYNC)
		return fur_fail(FUR_EINVAL,
		        "isolation, htm or pm in fur_options is none of its enum's values");
	if (!o->async_ms)
		o->async_ms = DEFAULT_ASYNC_MS;
	if (!o->retries)
		o->retries = DEFAULT_RETRIES;
	if (!o->reader_report_ns)
		o->reader_report_ns = DEFAULT_REPORT_NS;
	return read_environment(o);
}
