/* SPDX-License-Identifier: BSD-3-Clause
 *
 * system.h - the calls of the operating system that open, read and write files.  All of libfur
 * makes them by these functions (tools/structure.py, rule `system`).
 *
 *   INV-OS1  A descriptor of libfur is 3 or above.  If the program has closed one of 0 to 2, what
 *            it prints must not go into a file of libfur's.
 *   INV-OS2  A signal fails no call, and cuts none short: after EINTR, or a part, the call goes on.
 *   INV-OS3  libfur writes no file beyond RLIMIT_FSIZE, where the kernel would send SIGXFSZ, which
 *            ends the process.  Such a write fails with EFBIG.  The limit does not count for stores
 *            to a mapping, nor for blocks below the end of a file.
 *
 * Unless stated otherwise, a function returns 0 or an errno, and no message.
 */
#ifndef FUR_SYSTEM_H
#define FUR_SYSTEM_H

#include <fur.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Open a file; O_CLOEXEC is implied.  Returns a descriptor, or -1 with errno. */
FUR_MUST_USE int system_open(const char *path, int flags, mode_t mode);
/* The same for mkostemp(3), which completes the name that ends with XXXXXX, and memfd_create(2). */
FUR_MUST_USE int system_open_temporary(char *name);
FUR_MUST_USE int system_open_memory(const char *name);

/* Read at an offset.  Returns how many bytes there were, less than `bytes` at the file's end; or -1
 * with errno. */
FUR_MUST_USE ssize_t system_read(int fd, void *to, size_t bytes, uint64_t offset);

/* Write all of it, at an offset.  system_write_pieces() changes `pieces`. */
FUR_MUST_USE int system_write(int fd, const void *from, size_t bytes, uint64_t offset);
FUR_MUST_USE int system_write_pieces(int fd, struct iovec *pieces, int n, uint64_t offset);
/* Write all of it to a terminal or a pipe.  May be called in a signal handler. */
int system_print(int fd, const char *text);

FUR_MUST_USE int system_sync(int fd);
FUR_MUST_USE int system_sync_data(int fd);
/* Have the kernel begin to write these bytes to the disk.  A hint: nothing is durable before a
 * sync. */
void system_start_write(int fd, uint64_t offset, uint64_t bytes);
FUR_MUST_USE int system_sync_file_system(int fd);

FUR_MUST_USE int system_set_length(int fd, uint64_t bytes);
/* May this process write a file of this many bytes?   Errors: EFBIG. */
FUR_MUST_USE int system_may_write(uint64_t bytes, uint64_t *most);

/* fallocate(2).  A signal may undo a call, so after EINTR the call is repeated in smaller pieces:
 * also under a periodic signal each piece ends. */
FUR_MUST_USE int system_allocate(int fd, int mode, uint64_t from, uint64_t to);
/* Allocate blocks below the file's end, and where the file system cannot, write zeros. */
FUR_MUST_USE int system_allocate_zeros(int fd, uint64_t from, uint64_t to);

#endif /* FUR_SYSTEM_H */
