/* SPDX-License-Identifier: BSD-3-Clause
 *
 * main.c - fur-replayer: replay a heap's log into the heap while a program uses it, and bring the
 * heap up to date after the program has ended.
 */
#include "base/error.h"
#include "base/standard_files.h"
#include "replay/preload.h"
#include "replayer/privileges.h"
#include "replayer/program.h"
#include "replayer/serve.h"

#include <argp.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(HAVE_SYSTEMD)
#include <systemd/sd-daemon.h>
#else
#define sd_notifyf(unset, ...) ((void)0)
#endif

struct arguments {
	const char *heap;
	bool once, status, quiet;
	struct replay_options replay;
};

static error_t option_parse(int key, char *arg, struct argp_state *state)
{
	struct arguments *a = state->input;
	switch (key) {
	case 'H': /* how it was once spelled */
	case ARGP_KEY_ARG: program_take_heap(state, &a->heap, arg); return 0;
	case 'o': a->once = true; return 0;
	case 's': a->status = true; return 0;
	case 'q': a->quiet = true; return 0;
	case 't':
		a->replay.threads = program_number(state, "--threads", arg, 1, REPLAY_THREADS_MOST);
		return 0;
	case 'p':
		if (!preload_parse(arg, &a->replay))
			argp_error(state,
			        "--preload %s: use auto, N, sequential:N or batch:N, N from 0 to "
			        "%d",
			        arg, REPLAY_PRELOAD_MOST);
		return 0;
	case ARGP_KEY_END:
		if (!a->heap)
			argp_error(state, "HEAP is missing");
		if (a->once && a->status)
			argp_error(state, "--once and --status: one at a time");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
        {"heap", 'H', "HEAP", OPTION_HIDDEN, NULL, 0},
        {"once", 'o', NULL, 0, "replay the log of a heap that no program has open, and exit", 0},
        {"status", 's', NULL, 0,
                "show which processes use and replay the heap, and how much there is to replay", 0},
        {"threads", 't', "N", 0, "threads that replay large batches; default 1", 0},
        {"preload", 'p', "HOW", 0,
                "how many entries ahead to prefetch memory: N or sequential:N, with each entry; "
                "batch:N, N entries at a time; 0: no prefetching; auto, the default: as many as a "
                "measurement during the first replays shows to be best",
                0},
        {"quiet", 'q', NULL, 0, "print errors only", 0},
        {0},
};

static int fail_with(const char *path, int error)
{
	return program_fail("fur-replayer", path, error);
}

static void report_replay(const char *path, const struct replay_result *r)
{
	printf("%s: replayed %" PRIu64 " updates, %" PRIu64 " log entries, %" PRIu64
	       " bytes in %.3f ms; %" PRIu64 " holes, %" PRIu64
	       " updates dropped for a lost dependency\n",
	        path, r->updates, r->entries, r->bytes, (double)r->ns / 1e6, r->holes, r->dropped);
	if (r->mended)
		printf("%s: corrected one wrong byte in each of %" PRIu64
		       " markers or log records, using their checksums\n",
		        path, r->mended);
	fflush(stdout);
}

/* -------------------------------------------------------------------- once */

static int replay_file(const struct heap_file *file, const struct replay_options *how,
        struct replay_result *result, bool *recovered)
{
	struct durability d;
	int error = heap_attach_to_replay(&d, file);
	if (error)
		return error;
	d.replay_options = *how;
	error = control_take(&d);
	if (!error) {
		error = replay_unless_closed(&d, result, recovered);
		if (!error && *recovered)
			error = durability_set_state(&d, MEDIA_CLOSED);
		control_give_back(&d); /* if that fails, closing the file gives it back */
	}
	durability_detach(&d);
	return error;
}

static int run_once(const struct arguments *a, int fd)
{
	struct heap_file file;
	struct replay_result result;
	bool recovered;
	int error = heap_take_file(fd, a->heap, HEAP_LOCK_WORKER, &file);
	if (error)
		return fail_with(a->heap, error);
	error = replay_file(&file, &a->replay, &result, &recovered);
	heap_close_file(&file);
	if (error)
		return fail_with(a->heap, error);
	if (!a->quiet && recovered)
		report_replay(a->heap, &result);
	else if (!a->quiet)
		printf("%s: closed cleanly, nothing to replay\n", a->heap);
	return EXIT_SUCCESS;
}

/* ------------------------------------------------------------------- serve */

static struct server *server;

static void on_stop_signal(int signal)
{
	(void)signal;
	server_stop(server);
}

static void say_recovered(void *self, const struct replay_result *result)
{
	const struct arguments *a = self;
	if (!a->quiet) {
		printf("%s: its process has died\n", a->heap);
		report_replay(a->heap, result);
	}
	sd_notifyf(0, "STATUS=recovered; waiting for a process to open the heap");
}

static void say_left(void *self, const char *why)
{
	const struct arguments *a = self;
	if (!a->quiet)
		printf("%s: its process has died; %s\n", a->heap, why);
	fflush(stdout);
	sd_notifyf(0, "STATUS=waiting for another program to recover the heap");
}

static void say_attached(void *self, uint64_t pid)
{
	const struct arguments *a = self;
	if (!a->quiet)
		printf("%s: opened by process %" PRIu64 "\n", a->heap, pid);
	fflush(stdout);
	sd_notifyf(0, "STATUS=replaying alongside process %" PRIu64, pid);
}

static void say_detached(void *self)
{
	const struct arguments *a = self;
	if (!a->quiet)
		printf("%s: closed\n", a->heap);
	fflush(stdout);
	sd_notifyf(0, "STATUS=waiting for a process to open the heap");
}

static int run_server(struct arguments *a, int fd)
{
	const struct server_events events = {
	        say_recovered, say_left, say_attached, say_detached, a};
	int error = server_start(fd, a->heap, &a->replay, &events, &server);
	if (error)
		return fail_with(a->heap, error);
	program_handle_signals(on_stop_signal);
	if (!a->quiet)
		printf("%s: waiting for work\n", a->heap);
	fflush(stdout);
	sd_notifyf(0, "READY=1\nSTATUS=waiting for a process to open the heap");
	error = server_run(server);
	sd_notifyf(0, "STOPPING=1");
	int status = error ? fail_with(a->heap, error) : EXIT_SUCCESS;
	/* From here on a signal must not reach the server, which server_end() frees. */
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	server_end(server);
	return status;
}

/* ------------------------------------------------------------------ status */

static void print_distance(const struct control_preload *p, enum preload_pipeline pipeline)
{
	printf("%" PRIu32 "%s", p->distance[pipeline],
	        p->measured[pipeline] ? " (measured)"
	        : p->automatic        ? " (until it is measured)"
	                              : "");
}

static void print_preload(const struct control_preload *p)
{
	printf("preload: %s; distance in replay ",
	        p->strategy == REPLAY_BATCH ? "batch-wise" : "sequential");
	print_distance(p, PRELOAD_WRITES);
	printf(", in inspection ");
	print_distance(p, PRELOAD_READS);
	printf("\n");
}

static int print_status(const struct arguments *a, int fd)
{
	struct server_status s;
	int error = server_status(fd, a->heap, &s);
	if (error)
		return fail_with(a->heap, error);
	if (s.worker_pid)
		printf("%s: open in process %" PRIu64 "\n", a->heap, s.worker_pid);
	else
		printf("%s: %s\n", a->heap,
		        s.closed              ? "closed cleanly"
		        : s.ships && s.fenced ? "not open, was not closed: let it follow the node "
		                                "that has taken its place, with fur-standby"
		        : s.ships             ? "not open, needs recovery: start fur-ship"
		        : s.member ? "not open, needs recovery: open its group; or, if no "
		                     "update over several heaps is in its log, run "
		                     "fur-replayer --once"
		                   : "not open, needs recovery: run fur-replayer --once, or open "
		                     "it");
	if (s.replayer_pid)
		printf("replayed by process %" PRIu64 ", %s\n", s.replayer_pid,
		        s.asleep ? "asleep" : "awake");
	else
		printf("no replayer: the process that opens the heap replays\n");
	printf("%" PRIu64 " of %" PRIu64 " ring slots to replay; %" PRIu64 " replays of %" PRIu64
	       " updates since it was opened\n",
	        s.slots, s.ring_slots, s.replays, s.replayed_updates);
	if (s.preload.known && (s.worker_pid || s.replayer_pid))
		print_preload(&s.preload);
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {options, option_parse, "HEAP",
	        "Replay the log of the libfur heap HEAP while a program uses it.  When the program "
	        "has died, bring the heap up to date, mark it closed, and wait for the next "
	        "program.  SIGTERM and SIGINT end fur-replayer after the current replay.\v"
	        "Exit status: 0 done, 1 the heap is damaged, missing or in use, 2 wrong usage.",
	        NULL, NULL, NULL};
	struct arguments a = {.replay = REPLAY_DEFAULTS};
	open_standard_files();
	argp_err_exit_status = EXIT_USAGE;
	argp_program_version = "fur-replayer (libfur) " PROGRAM_VERSION;
	if (argp_parse(&argp, argc, argv, 0, NULL, &a))
		return EXIT_USAGE;
	const int fd = privileges_open_as_owner(a.heap);
	if (fd < 0)
		return fail_with(a.heap, fd);
	return a.status ? print_status(&a, fd) : a.once ? run_once(&a, fd) : run_server(&a, fd);
}
