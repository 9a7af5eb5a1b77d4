/* SPDX-License-Identifier: BSD-3-Clause
 *
 * remedy.c - which remedy helps after which failed call (remedy.h).
 */
#include "base/remedy.h"
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { ANY = -1 };

#define FREE_MEMORY "free some memory"
#define LIMITS_ON_MEMORY                                                                           \
	"free some memory, or raise the limit that was met: on addresses (ulimit -v), on "         \
	"mappings (vm.max_map_count)"

/* The first row that fits counts: calls first, then any call, then the calls' own last words. */
static const struct row {
	int call, error;
	const char *remedy;
} rows[] = {
        {CALL_OPEN, EACCES,
                "check the permissions of the file and of the directories that lead to it"},
        {CALL_OPEN, EPERM, "check the file's owner and attributes (lsattr)"},
        {CALL_OPEN, EROFS, "mount the file system writable, or use a copy"},
        {CALL_CREATE, EACCES, "check the permissions of the directory"},
        {CALL_CREATE, ENOENT, "make the directory first, or check the path"},
        {CALL_CREATE, ENOSPC, "make room on the file system, or choose another place"},
        {CALL_NAME, EACCES, "check the permissions of the directory"},
        {CALL_NAME, ENOENT, "make the directory again, or check the path"},
        {CALL_NAME, EPERM,
                "choose a file system that has hard links or renameat2(2) with RENAME_NOREPLACE"},
        {CALL_NAME, EOPNOTSUPP,
                "choose a file system that has hard links or renameat2(2) with RENAME_NOREPLACE"},
        {CALL_NAME, ENOSYS,
                "choose a file system that has hard links or renameat2(2) with RENAME_NOREPLACE"},
        {CALL_NAME, EINVAL,
                "choose a file system that has hard links or renameat2(2) with RENAME_NOREPLACE"},
        {CALL_MODE, EPERM, "choose a file system with permissions, or leave file_mode 0"},
        {CALL_MODE, EOPNOTSUPP, "choose a file system with permissions, or leave file_mode 0"},
        {CALL_SYNC, EINVAL, "choose a file system that can sync files"},
        {CALL_ALLOCATE, EINVAL, "choose another file system"},
        {CALL_ALLOCATE, ENODEV, "choose another file system"},
        {CALL_MAP, ENODEV, "choose a file system whose files can be mapped shared (MAP_SHARED)"},
        {CALL_MAP, EINVAL, "choose a file system whose files can be mapped shared (MAP_SHARED)"},
        {CALL_MAP, EAGAIN, "raise the limit on locked memory (ulimit -l)"},
        {CALL_MAP, ENOMEM, LIMITS_ON_MEMORY},
        {CALL_MAP_HEAP, ENODEV, "choose a file system whose files can be mapped"},
        {CALL_MAP_HEAP, EAGAIN, "raise the limit on locked memory (ulimit -l)"},
        {CALL_MAP_HEAP, ENOMEM,
                LIMITS_ON_MEMORY
                ", on data (ulimit -d), or, where vm.overcommit_memory is 2, on all memory "
                "(vm.overcommit_ratio)"},
        {CALL_MEMORY, ENOSYS, "use a kernel with memfd_create(2)"},
        {CALL_MEMORY, ENOSPC, FREE_MEMORY},
        {CALL_LOCK, EINVAL,
                "use a kernel, and a file system, with open file description locks (fcntl(2))"},
        {CALL_LOCK, EOPNOTSUPP,
                "use a kernel, and a file system, with open file description locks (fcntl(2))"},
        {CALL_LOCK, ENOSYS,
                "use a kernel, and a file system, with open file description locks (fcntl(2))"},
        {CALL_LOCK, ENOLCK,
                "use a file system with locks; on NFS, run its lock service (rpc.statd)"},
        {CALL_LOCK, EDEADLK, "try again"},
        {CALL_THREAD, EAGAIN,
                "raise the limit on threads (ulimit -u, TasksMax=), or free some memory"},
        {CALL_THREAD, EPERM, "check the policy that the program's threads are to have"},
        {CALL_PROCESS, EAGAIN, "raise the limit on processes (ulimit -u, TasksMax=)"},
        {CALL_PROCESS, ENOMEM, "free some memory"},
        {CALL_RANDOM, ENOSYS, "use a kernel with getrandom(2)"},

        {ANY, EMFILE,
                "close files, or raise the limit on a process's open files (ulimit -n, "
                "LimitNOFILE=)"},
        {ANY, ENFILE, "close files, or raise the machine's limit on open files (fs.file-max)"},
        {ANY, ENOMEM, FREE_MEMORY},
        {ANY, ENOSPC, "make room on the file system"},
        {ANY, EDQUOT, "make room, or raise the user's quota"},
        {ANY, EFBIG,
                "raise the limit on the size of files (RLIMIT_FSIZE, ulimit -f), or use a file "
                "system with larger files"},
        {ANY, EROFS, "mount the file system writable, or choose another place"},
        {ANY, ELOOP, "check the path: it leads in a circle of symbolic links"},
        {ANY, ENAMETOOLONG, "use a shorter path"},
        {ANY, ENOTDIR, "check the path: a part of it is no directory"},
        {ANY, EISDIR, "check the path: it names a directory"},
        {ANY, ENOENT, "check the path"},
        {ANY, ETXTBSY, "check the path: a running program is in the file"},
        {ANY, EBUSY, "end what uses the device"},
        {ANY, ESTALE, "mount the network file system again"},
        {ANY, ETIMEDOUT, "check the network file system"},
        {ANY, EIO, "check the disk"},
        {ANY, ENODEV, "check the device and the mount"},
        {ANY, ENXIO, "check the device and the mount"},

        {CALL_OPEN, ANY, "check the path and its file system"},
        {CALL_CREATE, ANY, "check the path, or choose another place"},
        {CALL_NAME, ANY, "check the path, or choose another place"},
        {CALL_STAT, ANY, "check the disk and the mount"},
        {CALL_MODE, ANY, "choose another place, or another file_mode"},
        {CALL_READ, ANY, "check the disk and the mount"},
        {CALL_WRITE, ANY, "check the disk and the mount"},
        {CALL_ALLOCATE, ANY, "check the disk, or choose another place"},
        {CALL_SYNC, ANY, "check the disk and the mount"},
        {CALL_MAP, ANY, "choose another file system"},
        {CALL_MAP_HEAP, ANY, "choose another file system"},
        {CALL_MEMORY, ANY, FREE_MEMORY},
        {CALL_LOCK, ANY, "try again, or use another file system"},
        {CALL_THREAD, ANY, "free some memory"},
        {CALL_PROCESS, ANY, "free some memory"},
        {CALL_RANDOM, ANY, "try again"},
        {CALL_SIGNALS, ANY, "check what else in the process handles signals"},
};

const char *remedy_of(enum system_call call, int error)
{
	const size_t n = sizeof rows / sizeof *rows;
	for (size_t k = 0; k < n; k++)
		if ((rows[k].call == ANY || rows[k].call == (int)call) &&
		        (rows[k].error == ANY || rows[k].error == error))
			return rows[k].remedy;
	return "try again";
}

int remedy_code(int error)
{
	return error == ENOSPC || error == EDQUOT || error == EFBIG ? FUR_ENOSPC : FUR_ESYS;
}

int fail_system(
        int code, enum system_call call, int error, const char *outcome, const char *what, ...)
{
	char text[512];
	va_list args;
	va_start(args, what);
	vsnprintf(text, sizeof text, what, args);
	va_end(args);
	return fur_fail(code, "%s: %s: %s%s%s", text, strerror(error), remedy_of(call, error),
	        outcome ? "; " : "", outcome ? outcome : "");
}
