/* SPDX-License-Identifier: BSD-3-Clause
 *
 * engine_file.c - a file as a stream's log (engine_file.h).  Offsets are the numbers of the
 * messages in the file.
 */
#include "ship/engine_file.h"
#include "base/arch.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/remedy.h"
#include "base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

enum { MOST_BYTES = 1 << 20, MOST_PENDING = 64, ALIGN = 16 };

struct file_head {
	char magic[8];
	uint32_t version, gap;
};
static const struct file_head file_head = {"furlog\n\x1a", 1, 0};

struct message_head {
	uint64_t offset;
	uint32_t bytes;
	uint32_t check; /* the low half of check_of() */
};
_Static_assert(sizeof(struct file_head) == ALIGN && sizeof(struct message_head) == ALIGN, "");

/* A message's number, and the byte at which its head begins. */
struct place {
	uint64_t number, at;
};
static const struct place first_place = {0, sizeof file_head};

struct file_engine {
	struct stream_engine engine;
	int fd;
	bool lost;           /* a sync has failed */
	struct place end;    /* all messages before it are whole */
	struct place cursor; /* not above `end` */
	uint64_t synced;     /* bytes of the file that are durable */
	struct engine_ack pending[MOST_PENDING];
	unsigned n_pending;
	uint8_t message[MOST_BYTES];
};

static struct file_engine *engine_of(struct stream_engine *e)
{
	return (struct file_engine *)e;
}

static int fail_file(enum system_call call, int error, const char *what)
{
	return fail_system(remedy_code(error), call, error, NULL, "%s", what);
}

static int fail_read(void)
{
	return fail_file(CALL_READ, errno, "cannot read the stream's log");
}

static uint64_t space_of(uint32_t bytes)
{
	return sizeof(struct message_head) + round_up(bytes, ALIGN);
}

static uint32_t check_of(const struct message_head *h, const void *message)
{
	const uint64_t head =
	        XXH3_64bits(h, offsetof(struct message_head, check)); /* offset and length */
	return (uint32_t)XXH3_64bits_withSeed(message, h->bytes, head);
}

/* Between processes, and between two engines of one process.  Readers take no lock. */
static int lock_file(int fd, short type)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET};
	int failed;
	do
		failed = fcntl(fd, F_OFD_SETLKW, &lock);
	while (failed && errno == EINTR);
	return failed ? fail_file(CALL_LOCK, errno, "cannot lock the stream's log") : 0;
}

static int sync_file(struct file_engine *f)
{
	const int error = f->lost ? EIO : system_sync_data(f->fd);
	if (error) { /* what it has not written, no later sync writes */
		f->lost = true;
		return fail_system(FUR_EIO, CALL_SYNC, error, NULL, "cannot sync the stream's log");
	}
	/* An append of another process may be in the file beyond f->end: not looked at, so not
	 * said to be durable. */
	f->synced = f->end.at;
	return 0;
}

/* ------------------------------------------------------------------- messages */

/* Is there a whole message at `p`?  1: yes, it is in f->message; 0: no; or an error. */
static int read_message(struct file_engine *f, struct place p, struct message_head *h)
{
	ssize_t n = system_read(f->fd, h, sizeof *h, p.at);
	if (n < 0)
		return fail_read();
	if (n < (ssize_t)sizeof *h || h->offset != p.number || h->bytes > MOST_BYTES)
		return 0;
	n = system_read(f->fd, f->message, h->bytes, p.at + sizeof *h);
	if (n < 0)
		return fail_read();
	return n == (ssize_t)h->bytes && h->check == check_of(h, f->message);
}

/* Move f->end behind the whole messages that are there by now.  A message that another process is
 * writing at this moment is not whole yet. */
static int find_end(struct file_engine *f)
{
	struct message_head h;
	int whole;
	while ((whole = read_message(f, f->end, &h)) == 1) {
		f->end.number++;
		f->end.at += space_of(h.bytes);
	}
	return whole;
}

/* Under the lock no process writes, so what is not whole never will be (INV-SH20). */
static int cut_torn_end(struct file_engine *f)
{
	struct stat st;
	int error = find_end(f);
	if (!error && fstat(f->fd, &st))
		error = fail_file(CALL_STAT, errno, "cannot look at the stream's log");
	if (!error && (uint64_t)st.st_size > f->end.at) {
		const int failed = system_set_length(f->fd, f->end.at);
		if (failed)
			error = fail_file(CALL_WRITE, failed, "cannot cut the stream's log");
	}
	return error;
}

/* ---------------------------------------------------------------- the interface */

/* Under the lock. */
static int write_message(struct file_engine *f, const void *message, uint32_t bytes)
{
	static const uint8_t zeros[ALIGN];
	struct message_head h = {.offset = f->end.number, .bytes = bytes};
	h.check = check_of(&h, message);
	struct iovec pieces[] = {{&h, sizeof h}, {(void *)(uintptr_t)message, bytes},
	        {(void *)(uintptr_t)zeros, space_of(bytes) - sizeof h - bytes}};
	const int failed = system_write_pieces(f->fd, pieces, 3, f->end.at);
	if (!failed) {
		f->end.number++;
		f->end.at += space_of(bytes);
		return 0;
	}
	/* If that fails, the next append cuts. */
	if (system_set_length(f->fd, f->end.at))
		errno = 0;
	return fail_file(CALL_WRITE, failed, "cannot append to the stream's log");
}

static int file_append(struct stream_engine *e, uint64_t handle, const void *message, size_t bytes)
{
	struct file_engine *const f = engine_of(e);
	if (bytes > MOST_BYTES)
		return fur_fail(FUR_ETOOBIG, "a message of %zu bytes: the stream's log takes %d",
		        bytes, (int)MOST_BYTES);
	if (f->n_pending == MOST_PENDING)
		return fur_fail(FUR_EBUSY, "%d messages are under way: take their answers first",
		        (int)MOST_PENDING);
	int error = lock_file(f->fd, F_WRLCK);
	if (error)
		return error;
	error = cut_torn_end(f);
	const uint64_t offset = f->end.number;
	if (!error)
		error = write_message(f, message, (uint32_t)bytes);
	const int unlocked = lock_file(f->fd, F_UNLCK);
	if (!error)
		f->pending[f->n_pending++] = (struct engine_ack){handle, offset};
	return error ? error : unlocked;
}

/* One sync for all messages since the last call (INV-SH19). */
static int file_poll(
        struct stream_engine *e, struct engine_ack *acks, unsigned most, int patience_ms)
{
	struct file_engine *const f = engine_of(e);
	(void)patience_ms; /* it would never have to wait */
	const unsigned n = f->n_pending < most ? f->n_pending : most;
	if (n == 0)
		return 0;
	const int error = sync_file(f);
	if (error)
		return error;
	memcpy(acks, f->pending, n * sizeof *acks);
	f->n_pending -= n;
	memmove(f->pending, f->pending + n, f->n_pending * sizeof *f->pending);
	return (int)n;
}

/* Move the cursor to a message before the end. */
static int seek(struct file_engine *f, uint64_t number)
{
	if (number < f->cursor.number)
		f->cursor = first_place;
	while (f->cursor.number < number) {
		struct message_head h;
		if (system_read(f->fd, &h, sizeof h, f->cursor.at) != (ssize_t)sizeof h)
			return fail_read();
		f->cursor.number++;
		f->cursor.at += space_of(h.bytes);
	}
	return 0;
}

static int file_read(
        struct stream_engine *e, uint64_t offset, void *message, size_t most, size_t *bytes)
{
	struct file_engine *const f = engine_of(e);
	struct message_head h;
	int error = find_end(f);
	if (error)
		return error;
	if (offset > f->end.number)
		return fur_fail(FUR_ERANGE, "the stream's log ends below offset %llu",
		        (unsigned long long)offset);
	if (offset == f->end.number)
		return 0;
	error = seek(f, offset);
	if (!error && f->synced < f->end.at)
		error = sync_file(f); /* INV-SH19: its writer has perhaps not synced it */
	const int whole = error ? error : read_message(f, f->cursor, &h);
	if (whole < 0)
		return whole;
	if (whole == 0)
		return fur_fail(FUR_ECORRUPT,
		        "the stream's log has changed at offset %llu: use another copy of it",
		        (unsigned long long)offset);
	*bytes = h.bytes;
	memcpy(message, f->message, h.bytes < most ? h.bytes : most);
	return 1;
}

static int file_end(struct stream_engine *e, uint64_t *end)
{
	struct file_engine *const f = engine_of(e);
	const int error = find_end(f);
	*end = f->end.number;
	return error;
}

static int file_restart(struct stream_engine *e)
{
	engine_of(e)->n_pending = 0;
	return 0;
}

static void file_close(struct stream_engine *e)
{
	close(engine_of(e)->fd);
	free(e);
}

/* ------------------------------------------------------------------- opening */

/* Under the lock: begin the file, unless it is begun.  A crash may have left a part of its head. */
static int begin_file(int fd)
{
	struct file_head h;
	memset(&h, 0, sizeof h);
	const ssize_t n = system_read(fd, &h, sizeof h, 0);
	if (n < 0)
		return fail_read();
	if (memcmp(&h, &file_head, (size_t)n) != 0)
		return fur_fail(FUR_ENOTHEAP, "not the log of a stream: choose another file");
	if (n == (ssize_t)sizeof h)
		return 0;
	const int failed = system_write(fd, &file_head, sizeof file_head, 0);
	return failed ? fail_file(CALL_WRITE, failed, "cannot begin the stream's log") : 0;
}

int engine_file_check(const char *path)
{
	struct file_head h = {0};
	const int fd = system_open(path, O_RDONLY, 0);
	if (fd < 0 && errno == ENOENT)
		return fur_fail(
		        FUR_ENOENT, "there is no file %s: see whether its path is right", path);
	if (fd < 0)
		return fur_fail_at(
		        fail_file(CALL_OPEN, errno, "cannot open the stream's log"), path);
	const ssize_t n = system_read(fd, &h, sizeof h, 0);
	close(fd);
	return n == (ssize_t)sizeof h && memcmp(&h, &file_head, sizeof h) == 0
	               ? 0
	               : fur_fail(FUR_ENOTHEAP,
	                         "%s is not the log of a stream: choose another file", path);
}

/* A name is durable when its directory is. */
static int sync_name(int fd, const char *path)
{
	char directory[PATH_MAX];
	snprintf(directory, sizeof directory, "%s", path);
	const int dir = system_open(dirname(directory), O_RDONLY | O_DIRECTORY, 0);
	const int failed = dir < 0 ? system_sync_file_system(fd) : system_sync(dir);
	if (dir >= 0)
		close(dir);
	return failed ? fail_file(
	                        CALL_SYNC, failed, "cannot sync the directory of the stream's log")
	              : 0;
}

static int open_log(struct file_engine *f, const char *path)
{
	int error = lock_file(f->fd, F_WRLCK);
	if (error)
		return error;
	error = begin_file(f->fd);
	if (!error)
		error = cut_torn_end(f);
	if (!error)
		error = sync_file(f);
	if (!error)
		error = sync_name(f->fd, path);
	const int unlocked = lock_file(f->fd, F_UNLCK);
	return error ? error : unlocked;
}

static const struct stream_engine_ops file_ops = {.append = file_append,
        .poll = file_poll,
        .read = file_read,
        .end = file_end,
        .restart = file_restart,
        .close = file_close};

int engine_file_open(const char *path, struct stream_engine **engine)
{
	*engine = NULL;
	struct file_engine *const f = calloc(1, sizeof *f);
	if (!f)
		return fur_fail(FUR_ENOMEM, "no memory for a log of a stream: free some memory");
	f->engine.ops = &file_ops;
	f->end = f->cursor = first_place;
	f->fd = system_open(path, O_RDWR | O_CREAT, 0600);
	if (f->fd < 0) {
		const int error = fail_file(CALL_CREATE, errno, "cannot open the stream's log");
		free(f);
		return fur_fail_at(error, path);
	}
	const int error = open_log(f, path);
	if (error) {
		file_close(&f->engine);
		return fur_fail_at(error, path);
	}
	*engine = &f->engine;
	return 0;
}
