/* SPDX-License-Identifier: BSD-3-Clause
 *
 * program.h - what fur-replayer shares with a program beside it: version, exit status, errors.
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

enum { EXIT_BAD_DATA = 1, EXIT_USAGE = 2 };

/* Print the calling thread's error about the file.  Returns: the exit status. */
static inline int program_fail(const char *program, const char *path, int error)
{
	fur_fail_at(error, path);
	fprintf(stderr, "%s: %s\n", program, fur_errormsg());
	return EXIT_BAD_DATA;
}

#endif /* FUR_PROGRAM_H */
