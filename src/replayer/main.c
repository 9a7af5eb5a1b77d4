/* SPDX-License-Identifier: BSD-3-Clause
 *
 * main.c - fur-replayer: bring a heap file up to date from its log, without the program that made it.
 */
#include "../fur_error.h"
#include "../fur_heap.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>

enum { EXIT_BAD_DATA = 1, EXIT_USAGE = 2 };

struct arguments {
	const char *heap;
	bool once, quiet;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct arguments *a = state->input;
	switch (key) {
	case 'H': a->heap = arg; return 0;
	case 'o': a->once = true; return 0;
	case 'q': a->quiet = true; return 0;
	case ARGP_KEY_ARG: argp_error(state, "unexpected argument '%s': name the heap with --heap", arg); return 0;
	case ARGP_KEY_END:
		if (!a->heap)
			argp_error(state, "no heap: name it with --heap PATH");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
        {"heap", 'H', "PATH", 0, "the heap file", 0},
        {"once", 'o', NULL, 0, "replay what is in the log, and exit (the default)", 0},
        {"quiet", 'q', NULL, 0, "print nothing when all is well", 0},
        {0},
};

static int fail(const char *path, int error)
{
	fur_fail_at(error, path);
	fprintf(stderr, "fur-replayer: %s\n", fur_errormsg());
	return EXIT_BAD_DATA;
}

static void report(const char *path, bool recovered, const struct replay_result *r)
{
	if (!recovered) {
		printf("%s: closed cleanly, nothing to replay\n", path);
		return;
	}
	printf("%s: replayed %llu updates, %llu log entries, %llu bytes in %.3f ms; %llu holes, %llu updates dropped for a lost "
	       "dependency\n",
	        path, (unsigned long long)r->updates, (unsigned long long)r->entries, (unsigned long long)r->bytes,
	        (double)r->ns / 1e6, (unsigned long long)r->holes, (unsigned long long)r->dropped);
}

static int replay(const struct heap_file *file, struct replay_result *result, bool *recovered)
{
	struct durability d;
	struct fur_options o;
	char reason[160];
	fur_options_init(&o);
	/* A file on tmpfs or disk is made durable with fdatasync: whatever domain it worked in, that is enough. */
	int error = durability_attach(&d, file, &o, reason, sizeof reason);
	if (error)
		return error;
	error = heap_recover(&d, result, recovered);
	if (!error && *recovered)
		error = heap_set_state(&d, MEDIA_CLOSED);
	durability_detach(&d);
	return error;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {options, parse, NULL,
	        "Replay the log of a libfur heap that was not closed, so that the file holds every acknowledged update.\v"
	        "Exit status: 0 done, 1 the heap is damaged, missing or in use, 2 wrong usage.",
	        NULL, NULL, NULL};
	struct arguments a = {0};
	argp_err_exit_status = EXIT_USAGE;
	if (argp_parse(&argp, argc, argv, 0, NULL, &a))
		return EXIT_USAGE;
	struct heap_file file;
	struct replay_result result;
	bool recovered;
	int error = heap_open_file(a.heap, HEAP_LOCK_WORKER, &file);
	if (error)
		return fail(a.heap, error);
	error = replay(&file, &result, &recovered);
	heap_close_file(&file);
	if (error)
		return fail(a.heap, error);
	if (!a.quiet)
		report(a.heap, recovered, &result);
	return EXIT_SUCCESS;
}
