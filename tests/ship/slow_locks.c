/* SPDX-License-Identifier: BSD-3-Clause
 *
 * slow_locks.c - for LD_PRELOAD: each look at a file's locks takes so long that the processes which
 * hold them may end meanwhile.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* fur-ship and libfur use no other commands than those that take a pointer or an int, which
 * registers hold alike. */
__attribute__((visibility("default"))) int fcntl64(int fd, int command, ...)
{
	va_list args;
	va_start(args, command);
	void *arg = va_arg(args, void *);
	va_end(args);
	if (command == F_OFD_GETLK)
		nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
	return (int)syscall(SYS_fcntl, fd, command, arg);
}
