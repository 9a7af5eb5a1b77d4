/* SPDX-License-Identifier: BSD-3-Clause
 *
 * program.c - see program.h.
 */
#include "replayer/program.h"
#include "base/system.h"

#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint32_t program_number(const struct argp_state *state, const char *option, const char *text,
        unsigned long least, unsigned long most)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);
	if (end == text || *end || n < least || n > most)
		argp_error(state, "%s %s: use %lu to %lu", option, text, least, most);
	return (uint32_t)n;
}

void program_take_heap(const struct argp_state *state, const char **heap, const char *arg)
{
	if (*heap)
		argp_error(state, "unexpected argument '%s': one heap at a time", arg);
	*heap = arg;
}

void program_add_setting(
        const struct argp_state *state, struct program_settings *settings, const char *arg)
{
	if (!strchr(arg, '=') || arg[0] == '=')
		argp_error(state, "-X %s: use KEY=VALUE", arg);
	if (settings->n == PROGRAM_MOST_SETTINGS)
		argp_error(state, "-X %s: %d settings at most", arg, PROGRAM_MOST_SETTINGS);
	settings->at[settings->n++] = arg;
}

/* The file became shorter while it was mapped, or cannot be read. */
static void file_lost(int number, siginfo_t *info, void *context)
{
	(void)context;
	if (info->si_code > 0) { /* not by kill(): there is an address */
		system_print(STDERR_FILENO, program_invocation_short_name);
		system_print(STDERR_FILENO,
		        ": the heap file can no longer be read (truncated, or a "
		        "failing disk): restore it from a copy\n");
		_exit(EXIT_BAD_DATA);
	}
	signal(number, SIG_DFL);
	raise(number);
}

void program_handle_signals(void (*stop)(int signal))
{
	struct sigaction action = {.sa_handler = stop};
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	action.sa_handler = NULL;
	action.sa_sigaction = file_lost;
	action.sa_flags = SA_SIGINFO;
	sigaction(SIGBUS, &action, NULL);
}
