/* SPDX-License-Identifier: BSD-3-Clause
 *
 * error.c - error codes and the last message of each thread.
 */
#include "base/error.h"
#include "base/arch.h"
#include <fur_group.h>

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE_BYTES = 1024, PATH_LEAST_BYTES = 128 };

/* The calling thread's last failure.  Its text is allocated at the first failure, because
 * thread-local data must be small (arch.h).  If there is no memory for the text, only the code is
 * kept. */
struct last_failure {
	char *text;
	int error;
};
ARCH_THREAD_LOCAL_DECLARE(struct last_failure, last_failure)
ARCH_THREAD_LOCAL_DEFINE(struct last_failure, last_failure)

/* Its destructor frees the text of a thread that ends. */
static pthread_key_t text_key;
static bool have_text_key;

static void free_text(void *failure)
{
	struct last_failure *last = failure;
	free(last->text);
	last->text = NULL;
}

/* Create the key when the library is loaded, not at the first failure: that failure may be that no
 * key is left. */
__attribute__((constructor)) static void create_text_key(void)
{
	have_text_key = pthread_key_create(&text_key, free_text) == 0;
}

/* Delete the key at dlclose(): after that, a thread that ends could not call free_text(). */
__attribute__((destructor)) static void delete_text_key(void)
{
	if (have_text_key)
		pthread_key_delete(text_key);
	have_text_key = false;
}

/* Return the memory for the thread's message, allocated if necessary, or NULL. */
static char *text_of(struct last_failure *last)
{
	if (last->text)
		return last->text;
	last->text = calloc(1, MESSAGE_BYTES);
	/* Without memory for the key's value, nothing would free the text when the thread ends. */
	if (last->text && have_text_key && pthread_setspecific(text_key, last))
		free_text(last);
	return last->text;
}

int fur_fail(int error, const char *format, ...)
{
	struct last_failure *last = last_failure();
	char *text = text_of(last);
	last->error = error;
	va_list args;
	va_start(args, format);
	if (text)
		vsnprintf(text, MESSAGE_BYTES, format, args);
	va_end(args);
	return error;
}

/* The end of `path` that fits into `bytes` bytes.  `cut` is "..." if that is not all of it. */
static const char *end_of_path(const char *path, size_t bytes, const char **cut)
{
	size_t length = strlen(path);
	*cut = "";
	if (length <= bytes)
		return path;
	*cut = "...";
	path += length - bytes + strlen(*cut);
	while ((*path & 0xc0) == 0x80) /* do not begin inside a UTF-8 character */
		path++;
	return path;
}

int fur_fail_at(int error, const char *path)
{
	char *text = last_failure()->text, message[MESSAGE_BYTES - PATH_LEAST_BYTES];
	const char *cut;
	if (!text)
		return error;
	snprintf(message, sizeof message, "%.*s", (int)sizeof message - 1, text);
	/* Cut a long path, not the message, because the message ends with the remedy.  Cut the path
	 * at its beginning. */
	path = end_of_path(path, MESSAGE_BYTES - strlen(message) - strlen(": ") - 1, &cut);
	snprintf(text, MESSAGE_BYTES, "%s%s: %s", cut, path, message);
	return error;
}

FUR_API const char *fur_errormsg(void)
{
	const struct last_failure *last = last_failure();
	return last->error == 0 ? "no failure on this thread"
	       : last->text     ? last->text
	                        : fur_strerror(last->error);
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
	case FUR_EADDRESS: return "the heap's addresses are taken, or too high";
	case FUR_ENOSPC: return "no room for the heap file";
	case FUR_ETHREADS: return "too many threads for this heap";
	case FUR_ENESTED: return "not allowed inside the transaction that is open";
	case FUR_ENOTX: return "no transaction is open";
	case FUR_ERANGE: return "store to an address outside the heap";
	case FUR_ETOOBIG: return "update too large for the redo log";
	case FUR_EABORTED: return "aborted by the program";
	case FUR_EIO: return "the medium refused a write";
	case FUR_ENOMEM: return "out of memory: free some memory";
	case FUR_EFREE: return "not an allocated block of this heap";
	case FUR_EFORK: return "a child of fork() has a copy of the heap only";
	case FUR_EREADONLY: return "the heap is open read-only";
	case FUR_ETOOOLD: return "the snapshot is too old";
	case FUR_EBEHIND: return "the shipping log does not acknowledge";
	case FUR_EFENCED: return "another heap has taken over";
	case FUR_EINDOUBT: return "durable here, and not acknowledged";
	case FUR_ELOST: return "lost in a fail-over";
	case FUR_EGROUP: return "other heaps of its group are needed";
	default: return "unknown error code";
	}
}

#if defined(FUR_CHECKS)
void fur_misused(const char *function, const char *misuse)
{
	fprintf(stderr, "libfur: %s: %s\n", function, misuse);
	abort();
}
#endif

#if defined(FUR_ASSERTS)
void fur_assert_failed(const char *file, int line, const char *function, const char *condition)
{
	fprintf(stderr, "libfur: %s:%d: %s: assertion '%s' failed: please report this bug\n", file,
	        line, function, condition);
	abort();
}
#endif
