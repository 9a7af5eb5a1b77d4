/* SPDX-License-Identifier: BSD-3-Clause
 *
 * text_file.c - see text_file.h.
 */
#include "file/text_file.h"
#include "base/error.h"
#include "base/remedy.h"
#include "base/system.h"
#include "file/file_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Does the path lead to this file? */
static bool leads_to(const char *path, int fd)
{
	struct stat a, b;
	return stat(path, &a) == 0 && fstat(fd, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

static int open_locked(const char *path)
{
	/* O_NONBLOCK: a FIFO is refused, and not waited for */
	const int fd = system_open(path, O_RDWR | O_NONBLOCK, 0);
	if (fd < 0)
		return errno == ENOENT
		               ? fur_fail(FUR_ENOENT, "no such file: check the path")
		               : fail_system(FUR_ESYS, CALL_OPEN, errno, NULL, "cannot open");
	const int error = heap_lock_file(fd, HEAP_LOCK_WORKER);
	if (error)
		close(fd);
	return error ? error : fd;
}

int text_file_open(const char *path)
{
	enum { TRIES = 100 };
	/* Another process may have replaced it before we had the lock. */
	for (int tries = 0; tries < TRIES; tries++) {
		const int fd = open_locked(path);
		if (fd < 0 || leads_to(path, fd))
			return fd;
		close(fd);
	}
	return FUR_EBUSY;
}

int text_file_read(int fd, size_t most, char **text, size_t *bytes)
{
	struct stat st;
	*text = NULL;
	int error = file_stat(fd, &st);
	if (error)
		return error;
	if (!S_ISREG(st.st_mode) || (size_t)st.st_size > most)
		return fur_fail(FUR_ECORRUPT, "no such text, or too long: check the path");
	char *at = malloc((size_t)st.st_size + 1);
	if (!at)
		return fur_fail(FUR_ENOMEM, "no memory to read the file: free some memory");
	const ssize_t n = system_read(fd, at, (size_t)st.st_size, 0);
	if (n < 0) {
		error = fail_system(FUR_ESYS, CALL_READ, errno, NULL, "cannot read the file");
		free(at);
		return error;
	}
	at[n] = 0;
	*text = at;
	*bytes = (size_t)n;
	return 0;
}

/* -------------------------------------------------------------------- write */

static const char AS_IT_WAS[] = "the file is as it was";

static int fill(int fd, int old, const char *text, size_t bytes)
{
	int error = old >= 0 ? file_keep_attributes(old, fd) : 0;
	if (!error && old < 0 && fchmod(fd, 0600))
		error = fail_system(FUR_ESYS, CALL_MODE, errno, NULL, "cannot set the file's mode");
	if (!error)
		error = heap_lock_file(fd, HEAP_LOCK_WORKER);
	if (error)
		return error;
	error = system_write(fd, text, bytes, 0);
	if (!error)
		error = system_sync(fd);
	return error ? fail_system(remedy_code(error), CALL_WRITE, error, AS_IT_WAS,
	                       "cannot write the file")
	             : 0;
}

static int give_name(const char *temporary, const char *path, bool replace)
{
	const int flags = replace ? 0 : RENAME_NOREPLACE;
	int failed = renameat2(AT_FDCWD, temporary, AT_FDCWD, path, (unsigned)flags);
	/* A file system without the flag. */
	if (failed && errno == EINVAL && !replace) {
		failed = link(temporary, path);
		if (!failed)
			unlink(temporary);
	}
	if (!failed)
		return 0;
	return errno == EEXIST ? fur_fail(FUR_EEXIST, "the file exists: choose another name")
	                       : fail_system(remedy_code(errno), CALL_NAME, errno, AS_IT_WAS,
	                                 "cannot name the new file");
}

static int write_file(const char *path, const char *text, size_t bytes, int *old, bool replace)
{
	char temporary[PATH_MAX];
	if (snprintf(temporary, sizeof temporary, "%s.XXXXXX", path) >= (int)sizeof temporary)
		return fur_fail(FUR_EINVAL, "the path is too long: use a shorter one");
	const int fd = system_open_temporary(temporary);
	if (fd < 0)
		return fail_system(remedy_code(errno), CALL_CREATE, errno, AS_IT_WAS,
		        "cannot create the file");
	int error = fill(fd, replace ? *old : -1, text, bytes);
	if (!error)
		error = give_name(temporary, path, replace);
	if (error) {
		unlink(temporary);
		close(fd);
		return error;
	}
	error = file_sync_name(fd, path, "the name may be lost");
	if (error && !replace) {
		unlink(path);
		close(fd);
		return error;
	}
	if (replace)
		close(*old); /* releases its lock: other processes find the new one */
	*old = fd;
	return error;
}

int text_file_make(const char *path, const char *text, size_t bytes, int *fd)
{
	return write_file(path, text, bytes, fd, false);
}

int text_file_replace(const char *path, const char *text, size_t bytes, int *fd)
{
	return write_file(path, text, bytes, fd, true);
}

int text_file_directory(const char *path)
{
	if (mkdir(path, 0700)) {
		struct stat st;
		const int error = errno;
		return error == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode)
		               ? 0
		               : fail_system(remedy_code(error), CALL_CREATE, error, NULL,
		                         "cannot make the directory");
	}
	const int fd = system_open(path, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return fail_system(FUR_ESYS, CALL_OPEN, errno, NULL, "cannot open the directory");
	const int error = file_sync_name(fd, path, NULL);
	close(fd);
	return error;
}
