/* SPDX-License-Identifier: BSD-3-Clause
 *
 * main.c - fur-standby: keep a standby up to date, and let it take over.
 *
 * Way 22, fur-standby keeps a heap:
 *
 *     main()
 *       role_prepare()          a primary that was replaced becomes a standby
 *       keep()                  opens the heap, and follows, until a signal, an error, a promotion
 *         look()                may it take over now?
 *           fur_take_over()
 *       go_on_as_primary()      runs the program that --on-primary names
 */
#include "base/arch.h"
#include "base/standard_files.h"
#include "fur_standby/lost.h"
#include "fur_standby/role.h"
#include "replayer/privileges.h"
#include "replayer/program.h"

#include <argp.h>
#include <fur_ship.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>
#if defined(HAVE_SYSTEMD)
#include <systemd/sd-daemon.h>
#else
#define sd_notifyf(unset, ...) ((void)0)
#endif

enum {
	TAKEOVER_LEAST_MS = 1000, /* two beats */
	TAKEOVER_MOST_MS = 86400000,
	RANK_MOST = 15,
	RANK_PART = 4,   /* a rank waits for this part of --takeover longer */
	RANDOM_PART = 8, /* and at most for this part besides */
	/* A promotion that was interrupted goes on after this time, without --takeover */
	UNFINISHED_MS = 2000,
	PATIENCE_MS = 10000,
	LOOK_NS = 20000000,
	EXIT_PROMOTED = 4
};

struct arguments {
	const char *heap, *command, *lost;
	struct program_settings settings;
	unsigned takeover_ms, rank;
	bool promote, quiet;
};

struct keeper {
	const struct arguments *a;
	fur_heap *heap;
	fur_follower *follower;
	uint64_t delay_ns;  /* of rank and chance, beside --takeover */
	uint64_t failed_at; /* arch_now_ns() of the newest attempt that failed */
	bool promoted;
};

/* ------------------------------------------------------------ command line */

static void check_arguments(const struct arguments *a, const struct argp_state *state)
{
	if (!a->heap)
		argp_error(state, "HEAP is missing");
	if (a->rank && !a->takeover_ms)
		argp_error(state, "--rank is for --takeover: add --takeover MS");
	if (a->lost && (a->promote || a->takeover_ms || a->command || a->settings.n))
		argp_error(state, "--show-lost shows a file, and does nothing else: leave the "
		                  "other options out");
	if (a->promote && (a->takeover_ms || a->command || a->settings.n))
		argp_error(state, "--promote asks the fur-standby that has the heap open: give the "
		                  "other options to that one");
}

static error_t option_parse(int key, char *arg, struct argp_state *state)
{
	struct arguments *a = state->input;
	switch (key) {
	case ARGP_KEY_ARG: program_take_heap(state, &a->heap, arg); return 0;
	case 'X': program_add_setting(state, &a->settings, arg); return 0;
	case 't':
		a->takeover_ms = program_number(
		        state, "--takeover", arg, TAKEOVER_LEAST_MS, TAKEOVER_MOST_MS);
		return 0;
	case 'r': a->rank = program_number(state, "--rank", arg, 0, RANK_MOST); return 0;
	case 'c': a->command = arg; return 0;
	case 'p': a->promote = true; return 0;
	case 's': a->lost = arg; return 0;
	case 'q': a->quiet = true; return 0;
	case ARGP_KEY_END: check_arguments(a, state); return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
        {"set", 'X', "KEY=VALUE", 0, "a setting for the log's client; may be repeated", 0},
        {"takeover", 't', "MS", 0,
                "take over when the log has answered for this long, and had no message of the "
                "primary: 1000 or more; default: only when asked",
                0},
        {"rank", 'r', "N", 0,
                "of several standbys: wait N times a quarter of --takeover longer; default 0", 0},
        {"on-primary", 'c', "COMMAND", 0,
                "when the heap is the primary, end, and let sh -c COMMAND take this process's "
                "place, with the heap's path in FUR_HEAP",
                0},
        {"promote", 'p', NULL, 0, "let the fur-standby that has the heap open take over, and exit",
                0},
        {"show-lost", 's', "FILE", 0,
                "print the updates in FILE, which HEAP had dropped when it became a standby "
                "(HEAP.lost), and exit",
                0},
        {"quiet", 'q', NULL, 0, "print errors only", 0},
        {0},
};

/* ------------------------------------------------------------------- messages */

static int fail_with(const char *path, int error)
{
	return program_fail("fur-standby", path, error);
}

static void say(const struct arguments *a, const char *what)
{
	if (!a->quiet)
		printf("%s: %s\n", a->heap, what);
	fflush(stdout);
	sd_notifyf(0, "STATUS=%s", what);
}

static void say_event(enum fur_log_level level, const char *message, void *arg)
{
	const struct arguments *a = arg;
	if (level == FUR_LOG_WARNING) {
		fprintf(stderr, "fur-standby: %s: %s; trying again\n", a->heap, message);
		sd_notifyf(0, "STATUS=%s", message);
	} else if (level == FUR_LOG_INFO) {
		say(a, message);
	} /* an error ends the program, which prints it */
}

static void say_rejoined(const struct arguments *a, const struct rejoin_result *r, const char *lost)
{
	if (r->dropped)
		fprintf(stderr,
		        "fur-standby: %s: another node had replaced this primary; %" PRIu64
		        " updates that had not been shipped are dropped, and kept in %s: see them "
		        "with fur-standby --show-lost %s %s\n",
		        a->heap, r->dropped, lost, lost, a->heap);
	else
		say(a, "another node had replaced this primary; nothing was lost");
}

/* -------------------------------------------------------------------- signals */

static volatile sig_atomic_t stopping, asked;

static void on_stop_signal(int signal)
{
	(void)signal;
	stopping = 1;
}

static void on_promote_signal(int signal)
{
	(void)signal;
	asked = 1;
}

/* ----------------------------------------------------------------------- keep */

static uint64_t ns_of_ms(uint64_t ms)
{
	return UINT64_C(1000000) * ms;
}

/* Has the log answered for this long, and had nothing? */
static bool is_silent(const struct fur_follow_state *s, uint64_t ns)
{
	return s->silent_ns && s->caught_up_ns - s->silent_ns >= ns;
}

/* Why the heap should take over now; NULL: it should not. */
static const char *reason(const struct keeper *k, const struct fur_follow_state *s)
{
	const struct arguments *a = k->a;
	if (asked)
		return "asked to take over";
	if (s->heir == s->own_node)
		return "the primary hands over to this heap";
	/* A heap that ships would be a primary, and send beats. */
	if (s->node == s->own_node &&
	        is_silent(s, ns_of_ms(a->takeover_ms ? a->takeover_ms : UNFINISHED_MS)))
		return "this heap has claimed the log before: it goes on to become the primary";
	if (a->takeover_ms && s->node && is_silent(s, ns_of_ms(a->takeover_ms) + k->delay_ns))
		return "the primary is silent";
	return NULL;
}

static void look(struct keeper *k, const struct fur_follow_state *s)
{
	const char *why = reason(k, s);
	const bool by_hand = asked;
	if (!why || (!by_hand && k->failed_at &&
	                    arch_now_ns() - k->failed_at < ns_of_ms(UNFINISHED_MS)))
		return;
	asked = 0;
	say(k->a, why);
	const int error = fur_take_over(k->follower, by_hand ? 0 : s->term);
	k->promoted = !error;
	k->failed_at = error ? arch_now_ns() : 0;
	if (error)
		fprintf(stderr, "fur-standby: %s: not promoted: %s\n", k->a->heap, fur_errormsg());
}

static int watch(struct keeper *k)
{
	const struct timespec pause = {0, LOOK_NS};
	while (!stopping && !k->promoted) {
		struct fur_follow_state s = {.size = sizeof s};
		const int error = fur_get_follow_state(k->follower, &s);
		if (error)
			return error;
		if (!s.follows)
			return fur_fail(s.error ? s.error : FUR_EBEHIND, "%s", s.message);
		look(k, &s);
		if (!k->promoted)
			nanosleep(&pause, NULL); /* a signal ends it early */
	}
	return 0;
}

/* Of the first error; a later one is its consequence. */
static int end(struct keeper *k, int error)
{
	char text[1024];
	snprintf(text, sizeof text, "%s", error ? fur_errormsg() : "");
	int later = fur_unfollow(k->follower);
	const int closed = fur_close(k->heap);
	if (error)
		return fur_fail(error, "%s", text);
	return later ? later : closed;
}

static int keep(struct keeper *k)
{
	const struct fur_follow_options o = {.size = sizeof o,
	        .settings = k->a->settings.at,
	        .log = say_event,
	        .log_arg = (void *)(uintptr_t)k->a,
	        .patience_ms = PATIENCE_MS};
	int error = fur_open(k->a->heap, NULL, &k->heap);
	if (error)
		return error;
	error = fur_follow(k->heap, &o, &k->follower);
	if (error) {
		char text[1024];
		snprintf(text, sizeof text, "%s", fur_errormsg());
		const int closed = fur_close(k->heap);
		return closed ? closed : fur_fail(error, "%s", text);
	}
	say(k->a, "follows");
	sd_notifyf(0, "READY=1");
	return end(k, watch(k));
}

/* -------------------------------------------------------------------- programs */

static int go_on_as_primary(const struct arguments *a)
{
	if (!a->command) {
		say(a, "primary: let fur-ship ship it, and start the program that updates it");
		return EXIT_PROMOTED;
	}
	say(a, "primary: running the command of --on-primary");
	signal(SIGUSR1, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	signal(SIGBUS, SIG_DFL);
	setenv("FUR_HEAP", a->heap, 1);
	execl("/bin/sh", "sh", "-c", a->command, (char *)NULL);
	fprintf(stderr, "fur-standby: %s: cannot run /bin/sh: see --on-primary\n", a->heap);
	return EXIT_BAD_DATA;
}

static int run_promote(const struct arguments *a)
{
	const int error = role_promote(a->heap, PATIENCE_MS + PATIENCE_MS / 2);
	if (error)
		return fail_with(a->heap, error);
	say(a, "promoted");
	return EXIT_SUCCESS;
}

static int run_show_lost(const struct arguments *a)
{
	const int error = lost_show(a->heap, a->lost);
	return error ? fail_with(a->heap, error) : EXIT_SUCCESS;
}

static uint64_t chance_below(uint64_t n)
{
	uint64_t random = 0;
	if (getrandom(&random, sizeof random, 0) != sizeof random)
		return 0;
	return n ? random % n : 0;
}

static int run_standby(const struct arguments *a)
{
	struct media_ship page;
	struct rejoin_result result;
	char lost[4096];
	bool rejoined;
	snprintf(lost, sizeof lost, "%s.lost", a->heap);
	int error = role_prepare(a->heap, a->settings.at, lost, &page, &rejoined, &result);
	if (error)
		return fail_with(a->heap, error);
	if (rejoined)
		say_rejoined(a, &result, lost);
	if (page.role == MEDIA_PRIMARY)
		return go_on_as_primary(a);
	struct keeper k = {.a = a};
	k.delay_ns = ns_of_ms(a->takeover_ms) * a->rank / RANK_PART +
	             chance_below(ns_of_ms(a->takeover_ms) / RANDOM_PART);
	error = keep(&k);
	sd_notifyf(0, "STOPPING=1");
	/* Promoted, and not closed: fur-ship recovers it. */
	if (error)
		return fail_with(a->heap, error);
	return k.promoted ? go_on_as_primary(a) : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {options, option_parse, "HEAP",
	        "Keep the standby HEAP up to date with its primary, and let it take the primary's "
	        "place.  A primary that another node has replaced becomes a standby first.  "
	        "Programs "
	        "read copies of the heap (fur_open_copy), or follow in place of fur-standby "
	        "(fur_ship.h).  SIGUSR1 promotes the heap; SIGTERM and SIGINT end fur-standby.\v"
	        "Exit status: 0 ended by a signal, or promoted with --promote, 1 the heap or its "
	        "log "
	        "is damaged, missing or in use, 2 wrong usage, 4 the heap is the primary now.",
	        NULL, NULL, NULL};
	struct arguments a = {0};
	open_standard_files();
	argp_err_exit_status = EXIT_USAGE;
	argp_program_version = "fur-standby (libfur) " PROGRAM_VERSION;
	if (argp_parse(&argp, argc, argv, 0, NULL, &a))
		return EXIT_USAGE;
	const int fd = privileges_open_as_owner(a.heap);
	if (fd < 0)
		return fail_with(a.heap, fd);
	close(fd);
	program_handle_signals(on_stop_signal);
	const struct sigaction promote = {.sa_handler = on_promote_signal};
	sigaction(SIGUSR1, &promote, NULL);
	return a.lost ? run_show_lost(&a) : a.promote ? run_promote(&a) : run_standby(&a);
}
