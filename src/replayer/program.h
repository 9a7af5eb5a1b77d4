/* SPDX-License-Identifier: BSD-3-Clause
 *
 * program.h - what fur-replayer shares with the programs beside it: version, exit status, errors,
 * signals, numbers in arguments.
 */
#ifndef FUR_PROGRAM_H
#define FUR_PROGRAM_H

#include "base/error.h"

#include <stdio.h>

#define PROGRAM_TEXT_OF_VALUE(number) #number
#define PROGRAM_TEXT_OF(macro)        PROGRAM_TEXT_OF_VALUE(macro)
#define PROGRAM_VERSION                                                                            \
	PROGRAM_TEXT_OF(FUR_VERSION_MAJOR)                                                         \
	"." PROGRAM_TEXT_OF(FUR_VERSION_MINOR) "." PROGRAM_TEXT_OF(FUR_VERSION_PATCH)

enum { EXIT_BAD_DATA = 1, EXIT_USAGE = 2, EXIT_FENCED = 3 };

/* Print the calling thread's error about the file.  Returns: the exit status. */
static inline int program_fail(const char *program, const char *path, int error)
{
	fur_fail_at(error, path);
	fprintf(stderr, "%s: %s\n", program, fur_errormsg());
	return EXIT_BAD_DATA;
}

/* The number that an option has as its argument.  Ends the program if it is not within the
 * bounds. */
struct argp_state;
uint32_t program_number(const struct argp_state *state, const char *option, const char *text,
        unsigned long least, unsigned long most);

/* Take the one HEAP argument; ends the program if there is one already. */
void program_take_heap(const struct argp_state *state, const char **heap, const char *arg);

/* "KEY=VALUE" texts for the client of a shipping log, up to a NULL. */
enum { PROGRAM_MOST_SETTINGS = 64 };
struct program_settings {
	const char *at[PROGRAM_MOST_SETTINGS + 1];
	unsigned n;
};
/* The argument of -X; ends the program if it is none, or one too many. */
void program_add_setting(
        const struct argp_state *state, struct program_settings *settings, const char *arg);

/* Call `stop` for SIGTERM and SIGINT.  End with one line if the heap's file, which is mapped,
 * became shorter, or cannot be read. */
void program_handle_signals(void (*stop)(int signal));

#endif /* FUR_PROGRAM_H */
