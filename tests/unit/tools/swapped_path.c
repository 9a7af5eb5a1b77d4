/* SPDX-License-Identifier: BSD-3-Clause
 *
 * swapped_path.c - for LD_PRELOAD: somebody who may write the directory changes what a path leads
 * to, just when the program uses the path for the first time, or another one.
 *
 *     SWAP_PATH   the path
 *     SWAP_END    instead: what the path ends with
 *     SWAP_USE    which use, if not the first one
 *     SWAP_AWAY   the file has this name during this use, so that the path leads nowhere
 *     SWAP_OTHER  the file of this name gets the path after this use
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define EXPORTED __attribute__((visibility("default")))

static long uses;

static bool is_this_use(const char *path)
{
	const char *whole = getenv("SWAP_PATH"), *end = getenv("SWAP_END");
	const size_t bytes = path ? strlen(path) : 0, least = end ? strlen(end) : SIZE_MAX;
	if (!path || ((!whole || strcmp(path, whole) != 0) && bytes < least))
		return false;
	if (bytes >= least && strcmp(path + bytes - least, end) != 0)
		return false;
	const char *which = getenv("SWAP_USE");
	return ++uses == (which ? strtol(which, NULL, 10) : 1);
}

static void swap(const char *path, const char *variable, bool back)
{
	const char *name = getenv(variable);
	if (name && (back ? rename(name, path) : rename(path, name)))
		abort();
}

static void before(const char *path, bool now)
{
	if (now)
		swap(path, "SWAP_AWAY", false);
}

static void after(const char *path, bool now)
{
	if (!now)
		return;
	swap(path, "SWAP_AWAY", true);
	swap(path, "SWAP_OTHER", true);
}

/* The functions that look at a path, under each of their names in the C library. */
#define WRAP_STAT(name)                                                                            \
	int wrapped_##name(const char *path, struct stat *to) __asm__(#name) EXPORTED;             \
	int wrapped_##name(const char *path, struct stat *to)                                      \
	{                                                                                          \
		int (*real)(const char *, struct stat *) = dlsym(RTLD_NEXT, #name);                \
		const bool now = is_this_use(path);                                                \
		before(path, now);                                                                 \
		const int result = real(path, to);                                                 \
		after(path, now);                                                                  \
		return result;                                                                     \
	}
#define WRAP_OPEN(name)                                                                            \
	int wrapped_##name(const char *path, int flags, mode_t mode) __asm__(#name) EXPORTED;      \
	int wrapped_##name(const char *path, int flags, mode_t mode)                               \
	{                                                                                          \
		int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, #name);                     \
		const bool now = is_this_use(path);                                                \
		before(path, now);                                                                 \
		const int result = real(path, flags, mode);                                        \
		after(path, now);                                                                  \
		return result;                                                                     \
	}
#define WRAP_ACCESS(name)                                                                          \
	int wrapped_##name(const char *path, int mode) __asm__(#name) EXPORTED;                    \
	int wrapped_##name(const char *path, int mode)                                             \
	{                                                                                          \
		int (*real)(const char *, int) = dlsym(RTLD_NEXT, #name);                          \
		const bool now = is_this_use(path);                                                \
		before(path, now);                                                                 \
		const int result = real(path, mode);                                               \
		after(path, now);                                                                  \
		return result;                                                                     \
	}
WRAP_STAT(stat)
WRAP_STAT(stat64)
WRAP_STAT(lstat)
WRAP_STAT(lstat64)
WRAP_OPEN(open)
WRAP_OPEN(open64)
WRAP_ACCESS(access)
