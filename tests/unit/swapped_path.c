/* SPDX-License-Identifier: BSD-3-Clause
 *
 * swapped_path.c - for LD_PRELOAD: somebody who may write the directory changes what a path leads
 * to, just when the program uses the path for the first time.
 *
 *     SWAP_PATH   the path
 *     SWAP_AWAY   the file has this name during the first use, so that the path leads nowhere
 *     SWAP_OTHER  the file of this name gets the path after the first use
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define EXPORTED __attribute__((visibility("default")))

static bool used;

static bool is_first_use(const char *path)
{
	const char *ours = getenv("SWAP_PATH");
	if (used || !ours || !path || strcmp(path, ours) != 0)
		return false;
	used = true;
	return true;
}

static void swap(const char *variable, bool back)
{
	const char *path = getenv("SWAP_PATH"), *name = getenv(variable);
	if (name && (back ? rename(name, path) : rename(path, name)))
		abort();
}

static void before(bool first)
{
	if (first)
		swap("SWAP_AWAY", false);
}

static void after(bool first)
{
	if (!first)
		return;
	swap("SWAP_AWAY", true);
	swap("SWAP_OTHER", true);
}

/* The functions that look at a path, under each of their names in the C library. */
#define WRAP_STAT(name)                                                                            \
	int wrapped_##name(const char *path, struct stat *to) __asm__(#name) EXPORTED;             \
	int wrapped_##name(const char *path, struct stat *to)                                      \
	{                                                                                          \
		int (*real)(const char *, struct stat *) = dlsym(RTLD_NEXT, #name);                \
		const bool first = is_first_use(path);                                             \
		before(first);                                                                     \
		const int result = real(path, to);                                                 \
		after(first);                                                                      \
		return result;                                                                     \
	}
#define WRAP_OPEN(name)                                                                            \
	int wrapped_##name(const char *path, int flags, mode_t mode) __asm__(#name) EXPORTED;      \
	int wrapped_##name(const char *path, int flags, mode_t mode)                               \
	{                                                                                          \
		int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, #name);                     \
		const bool first = is_first_use(path);                                             \
		before(first);                                                                     \
		const int result = real(path, flags, mode);                                        \
		after(first);                                                                      \
		return result;                                                                     \
	}
#define WRAP_ACCESS(name)                                                                          \
	int wrapped_##name(const char *path, int mode) __asm__(#name) EXPORTED;                    \
	int wrapped_##name(const char *path, int mode)                                             \
	{                                                                                          \
		int (*real)(const char *, int) = dlsym(RTLD_NEXT, #name);                          \
		const bool first = is_first_use(path);                                             \
		before(first);                                                                     \
		const int result = real(path, mode);                                               \
		after(first);                                                                      \
		return result;                                                                     \
	}
WRAP_STAT(stat)
WRAP_STAT(stat64)
WRAP_STAT(lstat)
WRAP_STAT(lstat64)
WRAP_OPEN(open)
WRAP_OPEN(open64)
WRAP_ACCESS(access)
