/* SPDX-License-Identifier: BSD-3-Clause
 *
 * faults.cpp - faults.hpp, done: a __wrap_ function for each call that --wrap in meson.build names.
 */
#include "faults.hpp"

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <pthread.h>
#include <string>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>
#include <vector>

#define WRAPPED(result, function, ...)                                                             \
	extern "C" result __real_##function(__VA_ARGS__);                                          \
	extern "C" __attribute__((visibility("default"))) result __wrap_##function(__VA_ARGS__)

extern "C" int __real_open(const char *, int, ...);
extern "C" int __real_fcntl(int, int, ...);
extern "C" ssize_t __real_pread(int, void *, size_t, off_t);

namespace faults
{

const char *name(int kind)
{
	static const char *const names[] = {"malloc", "calloc", "realloc", "aligned_alloc",
	        "posix_memalign", "mmap", "madvise", "open", "mkostemp", "link", "fstat",
	        "ftruncate", "fallocate", "pread", "pwrite", "fsync", "fdatasync", "fcntl",
	        "getrandom", "pthread_create", "pthread_key_create", "pthread_setspecific"};
	static_assert(sizeof names / sizeof *names == KINDS);
	return names[kind];
}

const char *name_of_mode(int mode)
{
	static const char *const names[] = {"once", "sticky", "kill", "busy", "power", "torn"};
	static_assert(sizeof names / sizeof *names == MODES);
	return names[mode];
}

namespace
{

State *armed;
Role role;
std::atomic<long> blocks, mappings;

/* INV-T3.  One copy after the other, also of two processes: a copy that began before another, and
 * ended after it, would remove from the disk the data that the other's fdatasync has put there. The
 * lock is on an open file of its own, so that it holds between threads as well; the kernel releases
 * it when the process ends. */
void copy_to_image(int fd)
{
	const std::string self = "/proc/self/fd/" + std::to_string(fd);
	const int lock = __real_open(self.c_str(), O_RDONLY | O_CLOEXEC);
	if (lock < 0 || flock(lock, LOCK_EX))
		abort();
	std::vector<char> all(1 << 20);
	const std::string part = armed->image + std::to_string(getpid());
	int to = __real_open(part.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ssize_t n;
	for (off_t at = 0; (n = __real_pread(fd, all.data(), all.size(), at)) > 0; at += n)
		if (write(to, all.data(), static_cast<size_t>(n)) != n)
			abort();
	close(to);
	if (rename(part.c_str(), armed->image))
		abort();
	close(lock);
}

bool power_fails()
{
	return armed && (armed->plan.mode == POWER || armed->plan.mode == TORN);
}

bool fails(Kind kind, unsigned *call = nullptr)
{
	if (!armed) /* INV-T2 */
		return false;
	unsigned n = ++armed->calls[role][kind];
	const Plan &plan = armed->plan;
	if (call)
		*call = n;
	/* The disk fails for all. */
	if (power_fails() && kind == FDATASYNC && armed->failed > 0)
		return true;
	if (plan.role != role || plan.kind != kind || n < plan.n)
		return false;
	if (n > plan.n && (plan.mode == ONCE || plan.mode == BUSY || plan.mode == KILL))
		return false;
	armed->failed++;
	if (plan.mode == KILL)
		kill(getpid(), SIGKILL); /* INV-T1 */
	return true;
}

/* A call that returns -1 and says why in errno. */
bool fails_with(Kind kind, int error)
{
	if (!fails(kind))
		return false;
	errno = error;
	return true;
}

void *counted(void *block)
{
	blocks += block != nullptr;
	return block;
}

} // namespace

void arm(State *state, Role as)
{
	armed = state;
	role = as;
}

Holdings holdings()
{
	return {blocks, mappings};
}

} // namespace faults

using namespace faults;

/* ------------------------------------------------------------------ memory */

WRAPPED(void *, malloc, size_t bytes)
{
	return fails_with(MALLOC, ENOMEM) ? nullptr : counted(__real_malloc(bytes));
}
WRAPPED(void *, calloc, size_t n, size_t bytes)
{
	return fails_with(CALLOC, ENOMEM) ? nullptr : counted(__real_calloc(n, bytes));
}
WRAPPED(void *, realloc, void *block, size_t bytes)
{
	if (fails_with(REALLOC, ENOMEM))
		return nullptr;
	return block ? __real_realloc(block, bytes) : counted(__real_realloc(nullptr, bytes));
}
WRAPPED(void *, aligned_alloc, size_t alignment, size_t bytes)
{
	return fails_with(ALIGNED_ALLOC, ENOMEM) ? nullptr
	                                         : counted(__real_aligned_alloc(alignment, bytes));
}
WRAPPED(int, posix_memalign, void **block, size_t alignment, size_t bytes)
{
	if (fails(POSIX_MEMALIGN))
		return ENOMEM;
	int error = __real_posix_memalign(block, alignment, bytes);
	blocks += error == 0;
	return error;
}
WRAPPED(void, free, void *block)
{
	blocks -= block != nullptr;
	__real_free(block);
}
WRAPPED(void *, mmap, void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	if (fails_with(MMAP, ENOMEM))
		return MAP_FAILED;
	void *p = __real_mmap(at, bytes, protection, flags, fd, offset);
	/* With MAP_FIXED it takes the place of a mapping that counts already. */
	mappings += p != MAP_FAILED && !(flags & MAP_FIXED);
	return p;
}
WRAPPED(int, munmap, void *at, size_t bytes)
{
	mappings--;
	return __real_munmap(at, bytes);
}
WRAPPED(int, madvise, void *at, size_t bytes, int advice)
{
	return fails_with(MADVISE, ENOMEM) ? -1 : __real_madvise(at, bytes, advice);
}

/* ------------------------------------------------------------------- files */

extern "C" __attribute__((visibility("default"))) int __wrap_open(const char *path, int flags, ...)
{
	va_list more;
	va_start(more, flags);
	mode_t mode =
	        flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(more, mode_t) : 0;
	va_end(more);
	return fails_with(OPEN, EMFILE) ? -1 : __real_open(path, flags, mode);
}
WRAPPED(int, mkostemp, char *path, int flags)
{
	return fails_with(MKOSTEMP, EMFILE) ? -1 : __real_mkostemp(path, flags);
}
WRAPPED(int, link, const char *from, const char *to)
{
	return fails_with(LINK, ENOSPC) ? -1 : __real_link(from, to);
}
WRAPPED(int, linkat, int from_directory, const char *from, int to_directory, const char *to,
        int flags)
{
	return fails_with(LINK, ENOSPC)
	               ? -1
	               : __real_linkat(from_directory, from, to_directory, to, flags);
}
WRAPPED(int, fstat, int fd, struct stat *st)
{
	return fails_with(FSTAT, EIO) ? -1 : __real_fstat(fd, st);
}
WRAPPED(int, ftruncate, int fd, off_t bytes)
{
	return fails_with(FTRUNCATE, EIO) ? -1 : __real_ftruncate(fd, bytes);
}
WRAPPED(int, posix_fallocate, int fd, off_t offset, off_t bytes)
{
	return fails(FALLOCATE) ? ENOSPC : __real_posix_fallocate(fd, offset, bytes);
}
WRAPPED(int, fallocate, int fd, int mode, off_t offset, off_t bytes)
{
	return fails_with(FALLOCATE, ENOSPC) ? -1 : __real_fallocate(fd, mode, offset, bytes);
}
WRAPPED(ssize_t, pread, int fd, void *to, size_t bytes, off_t offset)
{
	return fails_with(PREAD, EIO) ? -1 : __real_pread(fd, to, bytes, offset);
}
WRAPPED(ssize_t, pwrite, int fd, const void *from, size_t bytes, off_t offset)
{
	return fails_with(PWRITE, EIO) ? -1 : __real_pwrite(fd, from, bytes, offset);
}
WRAPPED(int, fsync, int fd)
{
	struct stat st;
	if (fails_with(FSYNC, EIO))
		return -1;
	/* fur_create's, before there is any fdatasync. */
	if (power_fails() && __real_fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	        armed->calls[PROGRAM][FDATASYNC] < armed->plan.n)
		copy_to_image(fd);
	return __real_fsync(fd);
}
WRAPPED(int, fdatasync, int fd)
{
	unsigned call = 0;
	if (fails(FDATASYNC, &call)) {
		errno = EIO;
		return -1;
	}
	/* The last of the program's that succeeds, and each of fur-replayer's: the program's copy
	 * may begin before fur-replayer's call ends. */
	if (power_fails() && (role == SERVER || call + 1 >= armed->plan.n))
		copy_to_image(fd);
	return __real_fdatasync(fd);
}
extern "C" __attribute__((visibility("default"))) int __wrap_fcntl(int fd, int command, ...)
{
	va_list more;
	va_start(more, command);
	auto *argument = va_arg(more, void *);
	va_end(more);
	if (fails(FCNTL)) {
		const bool busy = armed->plan.mode == BUSY;
		errno = busy && command == F_OFD_SETLK    ? EAGAIN
		        : busy && command == F_OFD_SETLKW ? EDEADLK
		                                          : ENOLCK;
		return -1;
	}
	return __real_fcntl(fd, command, argument);
}
WRAPPED(ssize_t, getrandom, void *to, size_t bytes, unsigned flags)
{
	return fails_with(GETRANDOM, ENOSYS) ? -1 : __real_getrandom(to, bytes, flags);
}

/* ----------------------------------------------------------------- threads */

WRAPPED(int, pthread_create, pthread_t *thread, const pthread_attr_t *attributes,
        void *(*run)(void *), void *argument)
{
	return fails(PTHREAD_CREATE) ? EAGAIN
	                             : __real_pthread_create(thread, attributes, run, argument);
}
WRAPPED(int, pthread_key_create, pthread_key_t *key, void (*destructor)(void *))
{
	return fails(PTHREAD_KEY_CREATE) ? EAGAIN : __real_pthread_key_create(key, destructor);
}
WRAPPED(int, pthread_setspecific, pthread_key_t key, const void *value)
{
	return value && fails(PTHREAD_SETSPECIFIC) ? ENOMEM
	                                           : __real_pthread_setspecific(key, value);
}

/* ------------------------------------------- under the names they have with 64-bit offsets */

#define ALSO(function)                                                                             \
	extern "C" __attribute__((alias("__wrap_" #function),                                      \
	        visibility("default"))) decltype(__wrap_##function) __wrap_##function##64;
ALSO(mmap)
ALSO(open)
ALSO(fstat)
ALSO(ftruncate)
ALSO(posix_fallocate)
ALSO(fallocate)
ALSO(pread)
ALSO(pwrite)
ALSO(fcntl)
ALSO(mkostemp)
