/* SPDX-License-Identifier: BSD-3-Clause
 *
 * options.c - complete struct fur_options with its defaults, and with the environment variables
 * that override it.  No other file reads the environment.
 */
#include "api/heap.h"
#include "base/error.h"
#include "base/struct.h"

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
	return fur_name(FUR_NAME_HTM, (enum fur_htm)htm);
}

static const char *pm_name(int pm)
{
	return fur_name(FUR_NAME_PM, (enum fur_pm)pm);
}

/* The words of FUR_DEBUG. */
static const struct {
	const char *word;
	enum fur_debug aid;
} aids[] = {
        {"plain-stores", FUR_DEBUG_PLAIN_STORES},
        {"continue", FUR_DEBUG_CONTINUE},
        {"double-free", FUR_DEBUG_DOUBLE_FREE},
};
enum { AIDS = sizeof aids / sizeof *aids };

/* The aid that a word names, or 0. */
static uint64_t aid_of(const char *word, size_t length)
{
	for (int k = 0; k < AIDS; k++)
		if (strlen(aids[k].word) == length && !strncmp(word, aids[k].word, length))
			return (uint64_t)aids[k].aid;
	return 0;
}

static int aids_from_environment(uint64_t *debug)
{
	const char *at = getenv("FUR_DEBUG");
	if (!at || !*at)
		return 0;
	for (const char *end;; at = end + 1) {
		end = strchrnul(at, ',');
		uint64_t aid = aid_of(at, (size_t)(end - at));
		if (!aid)
			return fur_fail(FUR_EINVAL,
			        "FUR_DEBUG has the word '%.*s' in the environment: use %s, %s and "
			        "%s, separated by commas",
			        (int)(end - at), at, aids[0].word, aids[1].word, aids[2].word);
		*debug |= aid;
		if (!*end)
			return 0;
	}
}

static int check_aids(uint64_t debug)
{
	uint64_t known = 0;
	for (int k = 0; k < AIDS; k++)
		known |= (uint64_t)aids[k].aid;
	if (debug & ~known)
		return fur_fail(FUR_EINVAL,
		        "fur_options.debug is %#llx: use the values of enum fur_debug",
		        (unsigned long long)debug);
	if ((debug & FUR_DEBUG_CONTINUE) && !(debug & FUR_DEBUG_PLAIN_STORES))
		return fur_fail(FUR_EINVAL,
		        "FUR_DEBUG or fur_options.debug has 'continue' without 'plain-stores': add "
		        "that, or leave both out");
	return 0;
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
	if (!error)
		error = aids_from_environment(&o->debug);
	return error ? error : check_aids(o->debug);
}

/* ----------------------------------------------------------------- options */

enum { DEFAULT_REPORT_NS = 100000000, DEFAULT_ASYNC_MS = 10 };

int options_complete(const struct fur_options *given, struct fur_options *o)
{
	const struct fur_struct theirs = {
	        "fur_options", (void *)(uintptr_t)given, FUR_OPTIONS_LEAST_BYTES};
	fur_options_init(o);
	int error = given ? fur_struct_take(&theirs, o, sizeof *o) : 0;
	if (error)
		return error;
	if ((unsigned)o->isolation > FUR_SNAPSHOT || (unsigned)o->htm > FUR_HTM_POWER ||
	        (unsigned)o->pm > FUR_PM_SYNC || (unsigned)o->open > FUR_OPEN_OR_CREATE)
		return fur_fail(FUR_EINVAL,
		        "isolation, htm, pm or open in fur_options is none of its enum's values");
	if (!o->async_ms)
		o->async_ms = DEFAULT_ASYNC_MS;
	if (!o->reader_report_ns)
		o->reader_report_ns = DEFAULT_REPORT_NS;
	return read_environment(o);
}

/* -------------------------------------------------------------------- FUR_TUNE */

/* One word of FUR_TUNE.  False: it is none. */
static bool tune(struct fur_heap *heap, const char *word)
{
	struct pm *pm = &heap->durability.pm;
	unsigned n;
	char rest;
	if (sscanf(word, "retries=%u%c", &n, &rest) == 1)
		heap->engine.retries = n;
	else if (sscanf(word, "pm-latency-ns=%u%c", &n, &rest) == 1)
		pm_emulate(pm, n, UINT32_MAX);
	else if (sscanf(word, "pm-gap-ns=%u%c", &n, &rest) == 1)
		pm_emulate(pm, UINT32_MAX, n);
	else if (!strcmp(word, "no-populate"))
		heap->durability.populate = false;
	else
		return false;
	return true;
}

int heap_tune(struct fur_heap *heap)
{
	const char *at = getenv("FUR_TUNE");
	for (size_t length; at && *at; at += length + (at[length] == ',')) {
		char word[32];
		length = strcspn(at, ",");
		snprintf(word, sizeof word, "%.*s", (int)length, at);
		if (length >= sizeof word || !tune(heap, word))
			return fur_fail(FUR_EINVAL,
			        "FUR_TUNE has the word '%.*s' in the environment: use retries=N, "
			        "pm-latency-ns=N, pm-gap-ns=N and no-populate, separated by commas",
			        (int)length, at);
	}
	return 0;
}
