/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fur_error.c - error codes and the last message of each thread.
 */
#include "fur_error.h"
#include "arch/arch.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The calling thread's last message. */
struct message {
	char text[1024];
};
ARCH_THREAD_LOCAL_DECLARE(struct message, last_message)
ARCH_THREAD_LOCAL_DEFINE(struct message, last_message)

int fur_fail(int error, const char *format, ...)
{
	va_list args;
	char *message = last_message()->text;
	va_start(args, format);
	vsnprintf(message, sizeof last_message()->text, format, args);
	va_end(args);
	return error;
}

int fur_fail_at(int error, const char *prefix)
{
	char *message = last_message()->text, rest[sizeof last_message()->text];
	memcpy(rest, message, sizeof rest);
	snprintf(message, sizeof rest, "%s: %.*s", prefix, (int)(sizeof rest - strlen(prefix) % sizeof rest - 3), rest);
	return error;
}

FUR_API const char *fur_errormsg(void)
{
	const char *message = last_message()->text;
	return message[0] ? message : "no failure on this thread";
}

FUR_API const char *fur_strerror(int error)
{
	switch (error) {
	case FUR_OK: return "success";
	case FUR_EINVAL: return "invalid argument or option";
	case FUR_ESYS: return "a system call failed";
	case FUR_ENOENT: return "no such heap file";
	case FUR_EEXIST: return "the file exists";
	case FUR_ENOTHEAP: return "not a libfur heap";
	case FUR_EVERSION: return "made by a version this library does not read";
	case FUR_ECORRUPT: return "the heap file is damaged";
	case FUR_EBUSY: return "in use";
	case FUR_EADDRESS: return "the heap's address range is taken";
	case FUR_ENOSPC: return "no room for the heap file";
	case FUR_ETHREADS: return "too many threads for this heap";
	case FUR_ENESTED: return "not allowed inside the transaction that is open";
	case FUR_ENOTX: return "no transaction is open";
	case FUR_ERANGE: return "store to an address outside the heap";
	case FUR_ETOOBIG: return "update too large for the redo log";
	case FUR_EABORTED: return "aborted by the program";
	case FUR_EIO: return "the medium refused a write";
	case FUR_ENOMEM: return "out of memory";
	case FUR_EFREE: return "not an allocated block of this heap";
	default: return "unknown error code";
	}
}
