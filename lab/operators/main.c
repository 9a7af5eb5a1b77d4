/* SPDX-License-Identifier: BSD-3-Clause
 *
 * main.c - fur-operators: map the records of a heap's bulk updates by operators of shared objects.
 */
#include "base/error.h"
#include "base/standard_files.h"
#include "base/system.h"
#include "errand_loop.h"
#include "replayer/privileges.h"
#include "replayer/program.h"

#include <argp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct arguments {
	const char *heap;
	bool status, quiet;
	const char *files[64];
	size_t n;
};

static error_t option_parse(int key, char *arg, struct argp_state *state)
{
	struct arguments *a = state->input;
	switch (key) {
	case ARGP_KEY_ARG:
		if (a->heap)
			argp_error(state, "unexpected argument '%s': one heap at a time", arg);
		a->heap = arg;
		return 0;
	case 's': a->status = true; return 0;
	case 'q': a->quiet = true; return 0;
	case 'O':
		if (a->n == sizeof a->files / sizeof a->files[0])
			argp_error(state, "--operators %s: %zu files at most", arg, a->n);
		a->files[a->n++] = arg;
		return 0;
	case ARGP_KEY_END:
		if (!a->heap)
			argp_error(state, "HEAP is missing");
		if (a->n && a->status)
			argp_error(state, "--operators: not with --status");
		if (!a->n && !a->status)
			argp_error(state, "--operators FILE is missing");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
        {"operators", 'O', "FILE", 0,
                "a shared object with operators for lab_bulk_run(), which belongs to root or to "
                "the user that fur-operators runs as, and which only its owner may write; several "
                "times for several files",
                0},
        {"status", 's', NULL, 0,
                "show which process serves the heap, and what a program asks it for", 0},
        {"quiet", 'q', NULL, 0, "print errors only", 0},
        {0},
};

static int fail_with(const char *path, int error)
{
	return program_fail("fur-operators", path, error);
}

/* ----------------------------------------------------------------- signals */

static struct errand_loop *operating;

static void on_stop_signal(int number)
{
	enum { PATIENCE_S = 2 };
	(void)number;
	errand_loop_stop(operating);
	alarm(PATIENCE_S);
}

/* It has not ended: an operator hangs.  The program maps the records. */
static void on_alarm(int number)
{
	(void)number;
	errand_loop_withdraw(operating);
	_exit(EXIT_SUCCESS);
}

/* The file became shorter while it was mapped, or cannot be read. */
static void file_lost(void)
{
	static const char text[] = "fur-operators: the heap file can no longer be read "
	                           "(truncated, or a failing disk): restore it from a copy\n";
	system_print(STDERR_FILENO, text);
	_exit(EXIT_BAD_DATA);
}

/* Handle the signals of a crash (INV-OP5). */
static void on_crash(int number, siginfo_t *info, void *context)
{
	const bool sent = info->si_code <= 0; /* by kill(): there is no address */
	const bool bus = number == SIGBUS && !sent;
	if (!sent && (!bus || !errand_loop_maps(operating, info->si_addr)))
		operators_crashed(number, info, context);
	if (bus)
		file_lost();
	/* Not an operator's: the processor raises it again, and the process dies of it.  A signal
	 * that was sent comes once: without raise(), only the next crash would end the process. */
	signal(number, SIG_DFL);
	if (sent)
		raise(number);
}

static void handle_signals(void)
{
	struct sigaction action = {.sa_handler = on_stop_signal};
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	action.sa_handler = on_alarm;
	sigaction(SIGALRM, &action, NULL);
	action.sa_handler = NULL;
	action.sa_sigaction = on_crash;
	action.sa_flags = SA_SIGINFO | SA_ONSTACK;
	/* SIGTRAP: __builtin_trap() on some processors */
	for (const int *s = (const int[]){SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, 0}; *s; s++)
		sigaction(*s, &action, NULL);
}

/* -------------------------------------------------------------------- main */

static int serve(const struct arguments *a, int fd)
{
	int error = errand_loop_start(fd, a->heap, a->files, a->n, &operating);
	if (error)
		return fail_with(a->heap, error);
	handle_signals();
	if (!a->quiet)
		printf("%s: waiting for work\n", a->heap);
	fflush(stdout);
	error = errand_loop_run(operating);
	const int status = error ? fail_with(a->heap, error) : EXIT_SUCCESS;
	/* From here on a signal must not reach what errand_loop_end() frees. */
	alarm(0);
	for (const int *s = (const int[]){SIGTERM, SIGINT, SIGALRM, 0}; *s; s++)
		signal(*s, SIG_IGN);
	errand_loop_end(operating);
	return status;
}

static int print_status(const struct arguments *a, int fd)
{
	const int error = errand_loop_print(fd, a->heap);
	return error ? fail_with(a->heap, error) : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {options, option_parse, "HEAP",
	        "Map the records of bulk updates of the libfur heap HEAP, in this process, while a "
	        "program uses the heap.  A fur-replayer may run alongside.  SIGTERM and SIGINT end "
	        "fur-operators; the program maps what is not mapped.\v"
	        "Exit status: 0 done, 1 the heap is damaged, missing or in use, 2 wrong usage.",
	        NULL, NULL, NULL};
	struct arguments a = {0};
	open_standard_files();
	argp_err_exit_status = EXIT_USAGE;
	argp_program_version = "fur-operators (libfur) " PROGRAM_VERSION;
	if (argp_parse(&argp, argc, argv, 0, NULL, &a))
		return EXIT_USAGE;
	const int fd = privileges_open_as_owner(a.heap);
	if (fd < 0)
		return fail_with(a.heap, fd);
	return a.status ? print_status(&a, fd) : serve(&a, fd);
}
