/* SPDX-License-Identifier: BSD-3-Clause
 *
 * disk.hpp - a disk whose power fails, under a heap file of the domain SYNC.  A program includes
 * this once, and defines disk_stop().
 *
 * The program's own mmap(), pwrite(), pwritev() and fdatasync() stand between the library and the
 * system.  They know which pages of one file are dirty, and keep a second file, the disk: an
 * fdatasync that succeeds copies the dirty pages there, one that fails forgets them (fsync(2)).
 * When the power fails, each dirty page is on the disk, or is not, as a seed decides.
 */
#ifndef DISK_HPP
#define DISK_HPP

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <random>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Ends the test. */
[[noreturn]] void disk_stop(const std::string &why);

namespace disk
{

enum : size_t { PAGE = 4096, MOST_PAGES = 1 << 16 };
/* The first store to a page since it was written; a write; an fdatasync. */
enum class Event { STORE, WRITE, SYNC };

/* Of this process.  At each event: does the power fail before it, and the process end? */
inline bool (*power_fails)(Event event);
inline int status_of_failure = 0;
inline bool sync_fails; /* each fdatasync */
inline unsigned seed;

inline std::string file; /* the disk; empty: nothing is simulated */
inline ino_t inode;      /* of the heap file */
inline unsigned char *mapped;
inline size_t mapped_bytes;
inline bool dirty[MOST_PAGES];

inline void write_page(int to, size_t page)
{
	if (pwrite64(to, mapped + page * PAGE, PAGE, static_cast<off64_t>(page * PAGE)) < 0)
		disk_stop("cannot write the disk");
}

/* Each dirty page, or by chance some of them, reaches the disk. */
inline void write_dirty(bool all)
{
	std::mt19937 random(seed);
	const int to = open(file.c_str(), O_RDWR | O_CLOEXEC);
	for (size_t page = 0; page * PAGE < mapped_bytes; page++)
		if (dirty[page] && (all || random() % 2))
			write_page(to, page);
	close(to);
}

inline void happens(Event event)
{
	if (!power_fails(event))
		return;
	write_dirty(false);
	_exit(status_of_failure);
}

/* A page becomes dirty with the first store to it. */
inline void on_fault(int, siginfo_t *info, void *)
{
	auto *at = static_cast<unsigned char *>(info->si_addr);
	if (!mapped || at < mapped || at >= mapped + mapped_bytes) {
		signal(SIGSEGV, SIG_DFL);
		return;
	}
	happens(Event::STORE);
	const size_t page = static_cast<size_t>(at - mapped) / PAGE;
	dirty[page] = true;
	mprotect(mapped + page * PAGE, PAGE, PROT_READ | PROT_WRITE);
}

inline bool is_heap(int fd)
{
	struct stat s;
	return !file.empty() && fstat(fd, &s) == 0 && s.st_ino == inode;
}

/* `heap` is not open yet, and equal to the file `on_disk`. */
inline void begin(const std::string &heap, const std::string &on_disk)
{
	struct stat s;
	struct sigaction action = {};
	action.sa_sigaction = on_fault;
	action.sa_flags = SA_SIGINFO | SA_NODEFER;
	sigaction(SIGSEGV, &action, nullptr);
	if (stat(heap.c_str(), &s))
		disk_stop("no file " + heap);
	inode = s.st_ino;
	file = on_disk;
}

inline void writes(int fd, off64_t offset, ssize_t bytes)
{
	if (bytes <= 0 || !is_heap(fd))
		return;
	const auto from = static_cast<size_t>(offset), to = from + static_cast<size_t>(bytes);
	for (size_t page = from / PAGE; page * PAGE < to; page++)
		dirty[page] = true;
	happens(Event::WRITE);
}

} // namespace disk

#define IN_THE_LIBRARYS_PLACE extern "C" __attribute__((visibility("default")))

IN_THE_LIBRARYS_PLACE void *mmap64(
        void *at, size_t bytes, int protection, int flags, int fd, off64_t offset) noexcept
{
	void *p = reinterpret_cast<void *>(
	        syscall(SYS_mmap, at, bytes, protection, flags, fd, offset));
	if (p != MAP_FAILED && (flags & MAP_SHARED) && fd >= 0 && offset == 0 &&
	        bytes > disk::PAGE && disk::is_heap(fd)) {
		disk::mapped = static_cast<unsigned char *>(p);
		disk::mapped_bytes = bytes;
		mprotect(p, bytes, PROT_READ);
	}
	return p;
}

IN_THE_LIBRARYS_PLACE ssize_t pwritev64(int fd, const iovec *pieces, int n, off64_t offset)
{
	const ssize_t done = syscall(SYS_pwritev, fd, pieces, n, offset, 0);
	disk::writes(fd, offset, done);
	return done;
}

IN_THE_LIBRARYS_PLACE ssize_t pwrite64(int fd, const void *from, size_t bytes, off64_t offset)
{
	const ssize_t done = syscall(SYS_pwrite64, fd, from, bytes, offset);
	disk::writes(fd, offset, done);
	return done;
}

IN_THE_LIBRARYS_PLACE int fdatasync(int fd)
{
	using namespace disk; /* NOLINT */
	if (!is_heap(fd))
		return 0;
	happens(Event::SYNC);
	if (!sync_fails)
		write_dirty(true);
	memset(dirty, 0, sizeof dirty);
	mprotect(mapped, mapped_bytes, PROT_READ);
	errno = EIO;
	return sync_fails ? -1 : 0;
}

#endif /* DISK_HPP */
