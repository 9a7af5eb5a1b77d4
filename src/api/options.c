/* SPDX-License-Identifier: BSD-3-Clause
 *
 * options.c - complete struct fur_options with its defaults, and with the environment variables
 * that override it.  No other file reads the environment.
 */
#include "api/attach.h"
#include "api/heap.h"
#include "base/error.h"
#include "base/struct.h"

#include <errno.h>
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

/* Give take(word, arg) each word of the variable, in which commas separate them.  It returns false
 * for a word that there is not.  `words`: those that there are, for the message. */
static int words_from_environment(const char *variable, bool (*take)(const char *word, void *arg),
        void *arg, const char *words)
{
	const char *at = getenv(variable);
	if (!at || !*at)
		return 0;
	for (const char *end;; at = end + 1) {
		char word[32];
		end = strchrnul(at, ',');
		const int length = (int)(end - at);
		if (snprintf(word, sizeof word, "%.*s", length, at) >= (int)sizeof word ||
		        !take(word, arg))
			return fur_fail(FUR_EINVAL,
			        "%s has the word '%.*s' in the environment: use %s, separated by "
			        "commas",
			        variable, length, at, words);
		if (!*end)
			return 0;
	}
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

/* Sets the aid that the word names.  False: it names none. */
static bool add_aid(const char *word, void *debug)
{
	for (int k = 0; k < AIDS; k++)
		if (!strcmp(aids[k].word, word)) {
			*(uint64_t *)debug |= (uint64_t)aids[k].aid;
			return true;
		}
	return false;
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
		error = words_from_environment(
		        "FUR_DEBUG", add_aid, &o->debug, "plain-stores, continue and double-free");
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
	        (unsigned)o->pm > FUR_PM_SYNC || (unsigned)o->open > FUR_OPEN_OR_CREATE ||
	        (unsigned)o->ack > FUR_ACK_REPLICATED)
		return fur_fail(FUR_EINVAL, "isolation, htm, pm, open or ack in fur_options is "
		                            "none of its enum's values");
	if (!o->async_ms)
		o->async_ms = DEFAULT_ASYNC_MS;
	if (!o->ack_patience_ms)
		o->ack_patience_ms = ATTACH_PATIENCE_MS;
	if (!o->reader_report_ns)
		o->reader_report_ns = DEFAULT_REPORT_NS;
	return read_environment(o);
}

/* -------------------------------------------------------------------- FUR_TUNE */

/* What FUR_TUNE names.  See heap_tune(). */
struct tuning {
	uint32_t retries, pm_latency_ns, pm_gap_ns;
	bool populate;
};

/* Is the word this name and a number?  Sets the number. */
static bool take_number(const char *word, const char *name, uint32_t *number)
{
	const size_t length = strlen(name);
	if (strncmp(word, name, length) != 0)
		return false;
	const char *digits = word + length;
	char *end;
	errno = 0;
	const unsigned long n = strtoul(digits, &end, 10);
	if (*digits < '0' || *digits > '9' || *end || errno || n > UINT32_MAX)
		return false;
	*number = (uint32_t)n;
	return true;
}

/* False: it is no word of FUR_TUNE. */
static bool tune(const char *word, void *arg)
{
	struct tuning *t = arg;
	if (!strcmp(word, "no-populate")) {
		t->populate = false;
		return true;
	}
	return take_number(word, "retries=", &t->retries) ||
	       take_number(word, "pm-latency-ns=", &t->pm_latency_ns) ||
	       take_number(word, "pm-gap-ns=", &t->pm_gap_ns);
}

int heap_tune(struct fur_heap *heap)
{
	struct durability *d = &heap->durability;
	struct tuning t = {.retries = heap->engine.retries, .populate = d->populate};
	const int error = words_from_environment(
	        "FUR_TUNE", tune, &t, "retries=N, pm-latency-ns=N, pm-gap-ns=N and no-populate");
	if (error)
		return error;
	heap->engine.retries = t.retries;
	d->populate = t.populate;
	pm_emulate(&d->pm, t.pm_latency_ns, t.pm_gap_ns);
	return 0;
}
