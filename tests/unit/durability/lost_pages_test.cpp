/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lost_pages_test.cpp - late updates after an fdatasync that failed.  The kernel takes the pages
 * that it could not write for clean (fsync(2)), so no later fdatasync writes them.  A recovery that
 * relied on them would store half of an update in the heap, and the power could then fail.
 *
 * The test's own mmap(), pwritev() and fdatasync() stand between the library and the system.  They
 * know which pages of the heap file are dirty, and keep a second file, the disk: an fdatasync that
 * succeeds copies the dirty pages there, one that fails forgets them.
 * Usage: lost-pages-test DIRECTORY
 */
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fur.hpp>
#include <random>
#include <string>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define IN_THE_LIBRARYS_PLACE extern "C" __attribute__((visibility("default")))

namespace
{

enum : size_t { PAGE = 4096, MOST_PAGES = 1 << 16 };

std::string directory;
std::string file(const char *name)
{
	return directory + "/" + name;
}

[[noreturn]] void stop(const std::string &why)
{
	fprintf(stderr, "lost-pages-test: %s\n", why.c_str());
	_exit(3);
}

/* ------------------------------------------------------------------- the disk */

bool simulated;            /* in this process */
bool fails;                /* the next fdatasync does */
unsigned syncs_left = ~0u; /* then the power fails */
unsigned seed;
unsigned char *mapped; /* the heap file, shared */
size_t mapped_bytes;
bool dirty[MOST_PAGES];

void write_page(int disk, size_t page)
{
	if (pwrite64(disk, mapped + page * PAGE, PAGE, static_cast<off64_t>(page * PAGE)) < 0)
		stop("cannot write the disk");
}

/* Each dirty page, or by chance some of them, reaches the disk. */
void write_dirty(bool all)
{
	std::mt19937 random(seed);
	const int disk = open(file("disk").c_str(), O_RDWR | O_CLOEXEC);
	for (size_t page = 0; page * PAGE < mapped_bytes; page++)
		if (dirty[page] && (all || random() % 2))
			write_page(disk, page);
	close(disk);
}

/* A page becomes dirty with the first store to it. */
void on_fault(int, siginfo_t *info, void *)
{
	auto *at = static_cast<unsigned char *>(info->si_addr);
	if (!mapped || at < mapped || at >= mapped + mapped_bytes) {
		signal(SIGSEGV, SIG_DFL);
		return;
	}
	const size_t page = static_cast<size_t>(at - mapped) / PAGE;
	dirty[page] = true;
	mprotect(mapped + page * PAGE, PAGE, PROT_READ | PROT_WRITE);
}

void begin_simulation()
{
	struct sigaction action = {};
	action.sa_sigaction = on_fault;
	action.sa_flags = SA_SIGINFO | SA_NODEFER;
	sigaction(SIGSEGV, &action, nullptr);
	simulated = true;
}

} // namespace

IN_THE_LIBRARYS_PLACE void *mmap64(
        void *at, size_t bytes, int protection, int flags, int fd, off64_t offset) noexcept
{
	void *p = reinterpret_cast<void *>(
	        syscall(SYS_mmap, at, bytes, protection, flags, fd, offset));
	if (simulated && p != MAP_FAILED && (flags & MAP_SHARED) && fd >= 0 && offset == 0 &&
	        bytes > PAGE) {
		mapped = static_cast<unsigned char *>(p);
		mapped_bytes = bytes;
		mprotect(p, bytes, PROT_READ);
	}
	return p;
}

IN_THE_LIBRARYS_PLACE ssize_t pwritev64(int fd, const iovec *pieces, int n, off64_t offset)
{
	const ssize_t done = syscall(SYS_pwritev, fd, pieces, n, offset, 0);
	for (off64_t at = offset; simulated && at < offset + done; at++)
		dirty[static_cast<size_t>(at) / PAGE] = true;
	return done;
}

IN_THE_LIBRARYS_PLACE int fdatasync(int)
{
	if (!simulated)
		return 0;
	if (syncs_left-- == 0) {
		write_dirty(false);
		_exit(0);
	}
	if (!fails)
		write_dirty(true);
	memset(dirty, 0, sizeof dirty);
	mprotect(mapped, mapped_bytes, PROT_READ);
	errno = EIO;
	return fails ? -1 : 0;
}

namespace
{

/* --------------------------------------------------------------- the program */

enum { CELLS = 24, APART = 8192, UPDATES = 40 };

fur::Options options()
{
	fur::Options o;
	o.htm = FUR_HTM_NONE;
	o.pm = FUR_PM_SYNC;
	o.heap_bytes = 4 << 20;
	o.max_threads = 4;
	o.log_bytes = 65536;
	o.ring_slots = 256;
	o.async_ms = 1000000;
	return o;
}

uint64_t *cell(char *cells, int k)
{
	return reinterpret_cast<uint64_t *>(cells + static_cast<ptrdiff_t>(k) * APART);
}

void set_all(fur_update *tx, char *cells, uint64_t value)
{
	for (int k = 0; k < CELLS; k++)
		fur_store(tx, cell(cells, k), value);
}

void create()
{
	fur::Heap heap = fur::Heap::create(file("cache"), options());
	fur::Thread self(heap);
	fur::update(self, [](fur_update *tx) {
		auto *cells = static_cast<char *>(fur_alloc(tx, CELLS * APART));
		set_all(tx, cells, 0);
		fur_set_root(tx, 0, cells);
	});
	heap.close();
	std::filesystem::copy_file(file("cache"), file("disk"));
}

char *root(fur_thread *self)
{
	return fur::read(self, [](fur_ro *tx) { return fur::root<char>(tx, 0); });
}

/* Late updates, of which the fdatasync fails. */
void lose_pages()
{
	begin_simulation();
	fur::Heap heap = fur::Heap::open(file("cache"), options());
	fur::Thread self(heap);
	auto *cells = root(self);
	fur_ticket ticket{};
	for (uint64_t n = 1; n <= UPDATES; n++)
		fur::update(self, ticket, [&](fur_update *tx) { set_all(tx, cells, n); });
	fails = true;
	if (fur_sync(heap) != FUR_EIO)
		stop("fur_sync has not failed");
	raise(SIGKILL);
}

/* Recovery, until the power fails. */
void recover()
{
	begin_simulation();
	fur::Heap heap = fur::Heap::open(file("cache"), options());
	heap.close();
}

/* Is the heap on the disk of one piece? */
void check()
{
	fur::Heap heap = fur::Heap::open(file("disk"), options());
	fur::Thread self(heap);
	auto *cells = root(self);
	for (int k = 0; k < CELLS; k++)
		if (*cell(cells, k) != *cell(cells, 0))
			stop("the heap is torn: cell 0 has " + std::to_string(*cell(cells, 0)) +
			        ", cell " + std::to_string(k) + " has " +
			        std::to_string(*cell(cells, k)));
	heap.close();
}

int in_child(void (*work)())
{
	const pid_t child = fork();
	if (child == 0) {
		try {
			work();
		} catch (const std::exception &e) {
			stop(e.what());
		}
		_exit(0);
	}
	int status;
	waitpid(child, &status, 0);
	return status;
}

void must_end(const char *what, int status, int expected)
{
	if (status != expected)
		stop(std::string(what) + " ended with status " + std::to_string(status));
}

} // namespace

int main(int argc, char **argv)
{
	namespace fs = std::filesystem;
	const auto over = fs::copy_options::overwrite_existing;
	if (argc != 2)
		return 2;
	directory = std::string(argv[1]) + "/lost-pages-" + std::to_string(getpid());
	fs::create_directory(directory);
	must_end("create", in_child(create), 0);
	must_end("the program", in_child(lose_pages), SIGKILL);
	fs::copy_file(file("cache"), file("cache.first"));
	fs::copy_file(file("disk"), file("disk.first"));
	for (unsigned sync = 0; sync < 10; sync++)
		for (seed = 1; seed <= 4; seed++) {
			fs::copy_file(file("cache.first"), file("cache"), over);
			fs::copy_file(file("disk.first"), file("disk"), over);
			syncs_left = sync;
			must_end("recovery", in_child(recover), 0);
			must_end("the check", in_child(check), 0);
		}
	fs::remove_all(directory);
}
