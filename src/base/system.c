/* SPDX-License-Identifier: BSD-3-Clause
 *
 * system.c - files of the operating system (system.h).
 */
#include "base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* ------------------------------------------------------------------- opening */

enum { STANDARD_FILES = 3 }; /* descriptors 0 to 2 */

/* While a file is opened, take the place of the descriptors 0 to 2 that are closed, so that the
 * file does not get one of them even for a moment.  To a program that prints meanwhile they look as
 * before: what O_PATH opens cannot be written to, EBADF. */
struct places {
	int fd[STANDARD_FILES];
	int n;
};

static bool is_closed(int fd)
{
	return lseek(fd, 0, SEEK_CUR) < 0 && errno == EBADF;
}

static void places_take(struct places *p)
{
	p->n = 0;
	for (int k = 0; k < STANDARD_FILES; k++) {
		if (!is_closed(k))
			continue;
		const int fd = open("/", O_PATH | O_CLOEXEC);
		if (fd >= STANDARD_FILES)
			close(fd);
		else if (fd >= 0)
			p->fd[p->n++] = fd;
	}
}

/* Returns the descriptor, 3 or above (INV-OS1).  Keeps errno if there is none. */
static int places_give_back(const struct places *p, int fd)
{
	int error = errno;
	/* Another thread may have closed one of 0 to 2 since. */
	if (fd >= 0 && fd < STANDARD_FILES) {
		const int low = fd;
		fd = fcntl(low, F_DUPFD_CLOEXEC, STANDARD_FILES);
		error = errno;
		close(low);
	}
	for (int k = 0; k < p->n; k++)
		close(p->fd[k]);
	errno = error;
	return fd;
}

int system_open(const char *path, int flags, mode_t mode)
{
	struct places p;
	int fd;
	places_take(&p);
	do
		fd = open(path, flags | O_CLOEXEC, mode);
	while (fd < 0 && errno == EINTR); /* INV-OS2 */
	return places_give_back(&p, fd);
}

static const char PATTERN[] = "XXXXXX";

int system_open_temporary(char *name)
{
	struct places p;
	char *const end = name + strlen(name) - strlen(PATTERN);
	int fd;
	places_take(&p);
	do {
		memcpy(end, PATTERN, strlen(PATTERN));
		fd = mkostemp(name, O_CLOEXEC);
	} while (fd < 0 && errno == EINTR);
	return places_give_back(&p, fd);
}

int system_open_memory(const char *name)
{
	struct places p;
	places_take(&p);
	return places_give_back(&p, memfd_create(name, MFD_CLOEXEC));
}

/* --------------------------------------------------------- reading and writing */

ssize_t system_read(int fd, void *to, size_t bytes, uint64_t offset)
{
	size_t done = 0;
	while (done < bytes) {
		const ssize_t n =
		        pread(fd, (uint8_t *)to + done, bytes - done, (off_t)(offset + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

int system_may_write(uint64_t bytes, uint64_t *most)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return 0;
	if (most)
		*most = limit.rlim_cur;
	return bytes > limit.rlim_cur ? EFBIG : 0;
}

int system_write_pieces(int fd, struct iovec *pieces, int n, uint64_t offset)
{
	uint64_t end = offset;
	for (int k = 0; k < n; k++)
		end += pieces[k].iov_len;
	int error = system_may_write(end, NULL); /* INV-OS3 */
	while (n && !error) {
		ssize_t done = pwritev(fd, pieces, n, (off_t)offset);
		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0) {
			error = done < 0 ? errno : EIO;
			break;
		}
		offset += (uint64_t)done;
		for (; n && (size_t)done >= pieces->iov_len; pieces++, n--)
			done -= (ssize_t)pieces->iov_len;
		if (n) {
			pieces->iov_base = (uint8_t *)pieces->iov_base + done;
			pieces->iov_len -= (size_t)done;
		}
	}
	return error;
}

int system_write(int fd, const void *from, size_t bytes, uint64_t offset)
{
	const uint8_t *at = from;
	int error = system_may_write(offset + bytes, NULL); /* INV-OS3 */
	while (bytes && !error) {
		const ssize_t done = pwrite(fd, at, bytes, (off_t)offset);
		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0) {
			error = done < 0 ? errno : EIO;
			break;
		}
		at += done;
		offset += (uint64_t)done;
		bytes -= (size_t)done;
	}
	return error;
}

int system_print(int fd, const char *text)
{
	size_t left = strlen(text);
	while (left) {
		const ssize_t done = write(fd, text, left);
		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return done < 0 ? errno : EIO;
		text += done;
		left -= (size_t)done;
	}
	return 0;
}

/* -------------------------------------------------------------------- syncing */

/* What an interrupted sync has not written stays dirty, and the next sync writes it (INV-OS2).
 * After other errors that is not so (INV-GC2). */
int system_sync(int fd)
{
	int failed;
	do
		failed = fsync(fd);
	while (failed && errno == EINTR);
	return failed ? errno : 0;
}

int system_sync_data(int fd)
{
	int failed;
	do
		failed = fdatasync(fd);
	while (failed && errno == EINTR);
	return failed ? errno : 0;
}

void system_start_write(int fd, uint64_t offset, uint64_t bytes)
{
	(void)sync_file_range(fd, (off64_t)offset, (off64_t)bytes, SYNC_FILE_RANGE_WRITE);
}

int system_sync_file_system(int fd)
{
	int failed;
	do
		failed = syncfs(fd);
	while (failed && errno == EINTR);
	return failed ? errno : 0;
}

/* ----------------------------------------------------------- length and blocks */

int system_set_length(int fd, uint64_t bytes)
{
	int failed, error = system_may_write(bytes, NULL); /* INV-OS3 */
	if (error)
		return error;
	do
		failed = ftruncate(fd, (off_t)bytes);
	while (failed && errno == EINTR);
	return failed ? errno : 0;
}

int system_allocate(int fd, int mode, uint64_t from, uint64_t to)
{
	const uint64_t least = 64 << 10;
	uint64_t piece = to - from;
	while (from < to) {
		const uint64_t bytes = piece < to - from ? piece : to - from;
		if (fallocate(fd, mode, (off_t)from, (off_t)bytes) == 0)
			from += bytes;
		else if (errno == EINTR)
			piece = bytes / 2 > least ? bytes / 2 / least * least : least;
		else
			return errno;
	}
	return 0;
}

int system_allocate_zeros(int fd, uint64_t from, uint64_t to)
{
	static const uint8_t zeros[4096];
	struct iovec pieces[16];
	int error = system_allocate(fd, 0, from, to);
	if (error != EOPNOTSUPP && error != ENOSYS)
		return error;
	for (error = 0; from < to && !error;) {
		int n = 0;
		uint64_t end = from;
		for (; end < to && n < 16; end += pieces[n++].iov_len)
			pieces[n] = (struct iovec){(void *)(uintptr_t)zeros,
			        to - end < sizeof zeros ? to - end : sizeof zeros};
		error = system_write_pieces(fd, pieces, n, from);
		from = end;
	}
	return error;
}
