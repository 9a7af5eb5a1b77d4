/* SPDX-License-Identifier: BSD-3-Clause
 *
 * remedy.h - messages about failed calls of the operating system.  One table, by call and errno,
 * says what the user can do (remedy.c).
 */
#ifndef FUR_REMEDY_H
#define FUR_REMEDY_H

#include <fur.h>

/* What libfur wanted of the system. */
enum system_call {
	CALL_OPEN,     /* a file that is there */
	CALL_CREATE,   /* a file, or its name */
	CALL_NAME,     /* a file that is made: link(2), renameat2(2) */
	CALL_STAT,     /* fstat(2) */
	CALL_MODE,     /* fchmod(2) */
	CALL_READ,     /* from a file */
	CALL_WRITE,    /* to a file, or its length */
	CALL_ALLOCATE, /* blocks */
	CALL_SYNC,     /* fsync(2), fdatasync(2) */
	CALL_MAP,      /* a file, shared */
	CALL_MAP_HEAP, /* the heap, private */
	CALL_MEMORY,   /* a file in memory */
	CALL_LOCK,     /* fcntl(2) */
	CALL_THREAD,   /* pthread_create(3) */
	CALL_PROCESS,  /* fork(2) */
	CALL_RANDOM,   /* getrandom(2) */
	CALL_SIGNALS,  /* sigaction(2), sigaltstack(2) */
	SYSTEM_CALLS
};

/* The remedy: a clause that begins with a verb.  Never NULL. */
const char *remedy_of(enum system_call call, int error);

/* FUR_ENOSPC if there is no room for data, else FUR_ESYS. */
int remedy_code(int error);

/* Set the message "WHAT: <text of `error`>: <remedy>; OUTCOME", and return `code`.  `outcome` NULL:
 * without that. */
int fail_system(int code, enum system_call call, int error, const char *outcome, const char *what,
        ...) __attribute__((format(printf, 5, 6)));

#endif /* FUR_REMEDY_H */
