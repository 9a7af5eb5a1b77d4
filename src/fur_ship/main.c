/* SPDX-License-Identifier: BSD-3-Clause
 *
 * main.c - fur-ship: ship the updates of a heap to a log that other machines read, while a program
 * uses the heap, and bring the heap up to date after the program has died.
 */
#include "base/standard_files.h"
#include "fur_ship/role.h"
#include "fur_ship/serve.h"
#include "fur_ship/status.h"
#include "replayer/privileges.h"
#include "replayer/program.h"

#include <argp.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#if defined(HAVE_SYSTEMD)
#include <systemd/sd-daemon.h>
#else
#define sd_notifyf(unset, ...) ((void)0)
#endif

enum { BEAT_MS = 500, BEAT_MS_MOST = 60000 };

struct arguments {
	const char *heap, *log, *handover;
	struct program_settings settings;
	bool init, status, detach, quiet;
	uint64_t heir, beat_ms;
};

/* ------------------------------------------------------------ command line */

static uint64_t node_of(const char *arg, const struct argp_state *state)
{
	char *end;
	const uint64_t node = strtoull(arg, &end, 16);
	if (strlen(arg) != 16 || *end || !node)
		argp_error(state,
		        "--handover %s: use the node of a standby, 16 hexadecimal digits, which "
		        "fur-info shows",
		        arg);
	return node;
}

static void check_arguments(const struct arguments *a, const struct argp_state *state)
{
	if (!a->heap)
		argp_error(state, "HEAP is missing");
	if (a->init + a->status + a->detach + (a->handover != NULL) > 1)
		argp_error(state, "--init, --status, --detach and --handover: one at a time");
	if (a->init && !a->log)
		argp_error(state, "--init: the log is missing: use --log NAME");
	if (!a->init && a->log)
		argp_error(state, "--log is for --init: a primary has its log");
}

static error_t option_parse(int key, char *arg, struct argp_state *state)
{
	struct arguments *a = state->input;
	switch (key) {
	case ARGP_KEY_ARG: program_take_heap(state, &a->heap, arg); return 0;
	case 'i': a->init = true; return 0;
	case 'l': a->log = arg; return 0;
	case 'X': program_add_setting(state, &a->settings, arg); return 0;
	case 'b': a->beat_ms = program_number(state, "--beat", arg, 0, BEAT_MS_MOST); return 0;
	case 'q': a->quiet = true; return 0;
	case 's': a->status = true; return 0;
	case 'd': a->detach = true; return 0;
	case 'o':
		a->handover = arg;
		a->heir = node_of(arg, state);
		return 0;
	case ARGP_KEY_END: check_arguments(a, state); return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
        {"init", 'i', NULL, 0,
                "make a closed heap without a role a primary, whose updates go to the log that "
                "--log names, and exit",
                0},
        {"log", 'l', "NAME", 0,
                "with --init: the log, which is made if it is not there: "
                "kafka:HOST:PORT[,HOST:PORT...]/TOPIC, or file:PATH for tests",
                0},
        {"set", 'X', "KEY=VALUE", 0, "a setting for the log's client; may be repeated", 0},
        {"beat", 'b', "MS", 0,
                "when nothing was shipped for this long, tell the log that the writer lives; 0: "
                "never; default 500",
                0},
        {"status", 's', NULL, 0, "show the heap's role, and how far it is shipped, or follows", 0},
        {"handover", 'o', "NODE", 0,
                "let the standby of this node take over, without losing an update, and exit", 0},
        {"detach", 'd', NULL, 0,
                "take the role of a closed primary or standby away, and exit: it is an ordinary "
                "heap then",
                0},
        {"quiet", 'q', NULL, 0, "print errors only", 0},
        {0},
};

static int fail_with(const char *path, int error)
{
	return program_fail("fur-ship", path, error);
}

/* --------------------------------------------------------------------- roles */

static int run_init(const struct arguments *a, int fd)
{
	struct media_ship page;
	const int error = role_init(fd, a->heap, a->log, a->settings.at, &page);
	if (error)
		return fail_with(a->heap, error);
	if (!a->quiet)
		printf("%s: primary, node %016" PRIx64
		       ", log %s: start fur-ship beside the program; "
		       "a standby begins with a copy: fur-copy --for-standby\n",
		        a->heap, page.node, page.log);
	return EXIT_SUCCESS;
}

static int run_detach(const struct arguments *a, int fd)
{
	struct media_ship page;
	const int error = role_detach(fd, a->heap, &page);
	if (error)
		return fail_with(a->heap, error);
	if (!a->quiet)
		printf("%s: no %s any more: what is done to it from now on gets into no log; other "
		       "heaps of log %s are as they were; to ship it again, use --init with a new "
		       "log, and new copies\n",
		        a->heap, role_name(page.role), page.log);
	return EXIT_SUCCESS;
}

static int run_handover(const struct arguments *a, int fd)
{
	const int error = status_hand_over(fd, a->heap, a->heir);
	if (error)
		return fail_with(a->heap, error);
	if (!a->quiet)
		printf("%s: handed over to node %s; this heap can follow it now: fur-standby %s\n",
		        a->heap, a->handover, a->heap);
	return EXIT_SUCCESS;
}

/* -------------------------------------------------------------------- status */

static void print_processes(const struct arguments *a, const struct ship_status *s)
{
	const bool primary = s->page.role == MEDIA_PRIMARY;
	if (s->worker_pid)
		printf("open in process %" PRIu64 "\n", s->worker_pid);
	else
		printf("%s\n", s->closed   ? "closed"
		               : s->fenced ? "not open, was not closed"
		               : primary   ? "not open, needs recovery, which fur-ship does"
		                           : "not open, needs recovery");
	if (s->shipper_pid)
		printf("shipped by process %" PRIu64 "\n", s->shipper_pid);
	if (s->fenced)
		printf("another node writes the stream, and this heap is fenced: %slet the heap "
		       "follow that node, with fur-standby %s\n",
		        s->worker_pid ? "end its program, and " : "", a->heap);
	else if (primary && !s->shipper_pid)
		printf("no fur-ship: updates wait, and then fail: start fur-ship %s\n", a->heap);
}

static void print_shipping(const struct ship_status *s)
{
	static const char *const states[] = {"no update may begin: fur-ship has not begun",
	        "updates may begin", NULL, "no update may begin: the heap is being handed over"};
	if (s->shipping < sizeof states / sizeof *states && states[s->shipping])
		printf("%s\n", states[s->shipping]);
	printf("term %" PRIu64 ", lineage %" PRIu64 "; acknowledged below durTS %" PRIu64
	       "; %" PRIu64 " updates are not\n",
	        s->term, s->lineage, s->acked, s->unacked);
}

static void print_position(
        uint64_t term, uint64_t lineage, uint64_t frame, uint64_t offset, uint64_t durts)
{
	if (offset == UINT64_MAX)
		printf("position: the beginning of the log\n");
	else
		printf("position: term %" PRIu64 ", lineage %" PRIu64 ", frame %" PRIu64
		       " at offset %" PRIu64 ", durTS %" PRIu64 "\n",
		        term, lineage, frame, offset, durts);
}

static void print_following(const struct arguments *a, const struct ship_status *s)
{
	const struct media_standby *at = &s->standby;
	if (!s->worker_pid)
		printf("nothing follows: start fur-standby %s\n", a->heap);
	else if (!at->follows)
		printf("process %" PRIu64 " does not follow\n", s->worker_pid);
	else if (at->unread == UINT64_MAX)
		printf("follows, and does not know where the log ends: see what fur-standby "
		       "says\n");
	else
		printf("follows, %" PRIu64 " messages behind the end of the log\n", at->unread);
	if (at->follows && at->heard_ns)
		printf("read the newest frame %.1f s ago\n",
		        (double)(arch_now_ns() - at->heard_ns) / 1e9);
}

static int print_status(const struct arguments *a, int fd)
{
	struct ship_status s;
	const int error = status_read(fd, a->heap, &s);
	if (error)
		return fail_with(a->heap, error);
	printf("%s: %s\n", a->heap, role_name(s.page.role));
	if (s.page.role != MEDIA_NO_ROLE) {
		printf("node %016" PRIx64 ", log %s\n", s.page.node, s.page.log);
		const struct media_ship *p = &s.page;
		const struct media_standby *at = &s.standby;
		if (p->role == MEDIA_STANDBY)
			print_position(at->term, at->lineage, at->frame, at->offset, at->durts);
		else
			print_position(p->term, p->lineage, p->frame, p->offset, p->durts);
	}
	print_processes(a, &s);
	if (s.page.role == MEDIA_STANDBY)
		print_following(a, &s);
	if (s.page.role == MEDIA_PRIMARY && s.worker_pid)
		print_shipping(&s);
	return EXIT_SUCCESS;
}

/* --------------------------------------------------------------------- serve */

static struct service service;

static void on_stop_signal(int signal)
{
	(void)signal;
	service_stop(&service);
}

static void say(const struct arguments *a, const char *what)
{
	if (!a->quiet)
		printf("%s: %s\n", a->heap, what);
	fflush(stdout);
	sd_notifyf(0, "STATUS=%s", what);
}

static void say_attached(void *self, uint64_t pid)
{
	char text[64];
	snprintf(text, sizeof text, "opened by process %" PRIu64, pid);
	say(self, text);
}

static void say_detached(void *self)
{
	say(self, "closed");
}

static void say_recovered(void *self, const struct replay_result *r)
{
	char text[160];
	snprintf(text, sizeof text,
	        "its process has died; recovered: %" PRIu64
	        " updates of the heap's own log, %" PRIu64
	        " dropped for a lost dependency, and what the shipping log had",
	        r->updates, r->dropped);
	say(self, text);
}

/* Also with --quiet: it is a failure. */
static void say_troubled(void *self, const char *why)
{
	const struct arguments *a = self;
	fprintf(stderr, "fur-ship: %s: %s; trying again\n", a->heap, why);
	sd_notifyf(0, "STATUS=the log fails: %s", why);
}

static void say_works(void *self)
{
	say(self, "the log works again");
}

static void say_hands_over(void *self, uint64_t node)
{
	char text[64];
	snprintf(text, sizeof text, "handing over to node %016" PRIx64, node);
	say(self, text);
}

static void say_keeps(void *self, uint64_t node)
{
	const struct arguments *a = self;
	fprintf(stderr,
	        "fur-ship: %s: node %016" PRIx64 " has not claimed the stream: this heap goes on\n",
	        a->heap, node);
}

static int end_served(const struct arguments *a, int error)
{
	if (error != FUR_EFENCED)
		return error ? fail_with(a->heap, error) : EXIT_SUCCESS;
	if (service_handed_over(&service)) {
		say(a, "handed over");
		return EXIT_SUCCESS;
	}
	fprintf(stderr,
	        "fur-ship: %s: another node writes the stream, and this heap is fenced: end its "
	        "program, and let the heap follow that node, with fur-standby %s\n",
	        a->heap, a->heap);
	return EXIT_FENCED;
}

static int run_service(struct arguments *a, int fd)
{
	service.events = (struct service_events){say_attached, say_detached, say_recovered,
	        {say_troubled, say_works, say_hands_over, say_keeps, a}, a};
	service.settings = a->settings.at;
	service.beat_ns = a->beat_ms * UINT64_C(1000000);
	int error = service_start(&service, fd, a->heap);
	if (error)
		return fail_with(a->heap, error);
	program_handle_signals(on_stop_signal);
	error = service_look(&service);
	if (!error) {
		say(a, "waiting for a program");
		sd_notifyf(0, "READY=1");
		error = service_run(&service);
	}
	sd_notifyf(0, "STOPPING=1");
	const int status = end_served(a, error);
	/* From here on a signal must not reach the service. */
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	service_end(&service);
	return status;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {options, option_parse, "HEAP",
	        "Ship the updates of the libfur heap HEAP to a log that other machines read, while "
	        "a "
	        "program uses the heap.  When the program has died, fur-ship recovers the heap, "
	        "together with the log, and waits for the next program.  SIGTERM and SIGINT end "
	        "fur-ship.\v"
	        "Exit status: 0 done, 1 the heap or its log is damaged, missing or in use, or a "
	        "setting is wrong, 2 wrong usage, 3 another node writes the stream.",
	        NULL, NULL, NULL};
	struct arguments a = {.beat_ms = BEAT_MS};
	open_standard_files();
	argp_err_exit_status = EXIT_USAGE;
	argp_program_version = "fur-ship (libfur) " PROGRAM_VERSION;
	if (argp_parse(&argp, argc, argv, 0, NULL, &a))
		return EXIT_USAGE;
	const int fd = privileges_open_as_owner(a.heap);
	if (fd < 0)
		return fail_with(a.heap, fd);
	return a.init       ? run_init(&a, fd)
	       : a.detach   ? run_detach(&a, fd)
	       : a.handover ? run_handover(&a, fd)
	       : a.status   ? print_status(&a, fd)
	                    : run_service(&a, fd);
}
