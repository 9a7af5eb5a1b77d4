/* SPDX-License-Identifier: BSD-3-Clause
 *
 * system_test.cpp - how libfur uses the operating system: the numbers of its descriptors (INV-OS1),
 * signals in its calls (INV-OS2), the limit on the size of files (INV-OS3), and what the messages
 * about failed calls say.  This program's functions stand in the system's place.
 */
#include "fixture.hpp"
#include "internals.hpp"

#include "base/standard_files.h"
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <dlfcn.h>
#include <sched.h>
#include <set>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/uio.h>

namespace
{

/* The plan: of the library's calls, those that are interrupted, or cut short; 0: none. */
struct Plan {
	unsigned at = 0, calls = 0;
	bool all = false;      /* each call is interrupted once */
	bool last = false;     /* with `all`: the call before was interrupted */
	bool no_links = false; /* a file system without hard links, and without O_TMPFILE */
	const char *only = ""; /* the call that fails for ever, with `error` */
	int error = 0;
	unsigned processors = 0; /* that a set must have room for; 0: as it is */
	unsigned page_maps = 0;  /* reads of it */
	int lowest = 1000;       /* descriptor that a file got, even for a moment */
} plan;

/* Is this call interrupted? */
bool interrupted(const char *call)
{
	if (plan.error && !strcmp(plan.only, call)) {
		errno = plan.error;
		return true;
	}
	plan.calls++;
	if (plan.all)
		plan.last = !plan.last;
	if (plan.all ? plan.last : plan.at && plan.calls == plan.at) {
		errno = EINTR;
		return true;
	}
	return false;
}

int noted(int fd, int flags)
{
	if (fd >= 0 && !(flags & O_PATH))
		plan.lowest = std::min(plan.lowest, fd);
	return fd;
}

template <class Function>
Function *next(Function *, const char *name)
{
	return reinterpret_cast<Function *>(dlsym(RTLD_NEXT, name));
}
#define NEXT(function) next(&function, #function)

} // namespace

#define OURS extern "C" __attribute__((visibility("default")))

OURS int open(const char *path, int flags, ...)
{
	va_list more;
	va_start(more, flags);
	const mode_t mode =
	        flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(more, mode_t) : 0;
	va_end(more);
	if (!(flags & O_PATH) && interrupted("open"))
		return -1;
	if (plan.no_links && (flags & O_TMPFILE) == O_TMPFILE) {
		errno = EOPNOTSUPP;
		return -1;
	}
	return noted(openat(AT_FDCWD, path, flags, mode), flags);
}
OURS int mkostemp(char *name, int flags)
{
	return interrupted("mkostemp") ? -1 : noted(NEXT(mkostemp)(name, flags), 0);
}
OURS int memfd_create(const char *name, unsigned flags) noexcept
{
	if (plan.error && interrupted("memfd_create"))
		return -1;
	return noted(NEXT(memfd_create)(name, flags), 0);
}
OURS int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set) noexcept
{
	if (!plan.processors)
		return NEXT(sched_getaffinity)(pid, bytes, set);
	if (bytes * 8 < plan.processors) {
		errno = EINVAL;
		return -1;
	}
	CPU_ZERO_S(bytes, set);
	for (int k = 0; k < 3000; k++)
		CPU_SET_S(k, bytes, set);
	return 0;
}
OURS int link(const char *from, const char *to) noexcept
{
	return plan.error && interrupted("link") ? -1 : NEXT(link)(from, to);
}
OURS void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) noexcept
{
	if (plan.error && (flags & 3) == MAP_SHARED && fd >= 0 && interrupted("mmap"))
		return MAP_FAILED;
	static auto *real = NEXT(mmap);
	return real(at, bytes, protection, flags, fd, offset);
}
OURS int fallocate(int fd, int mode, off_t from, off_t bytes)
{
	return interrupted("fallocate") ? -1 : NEXT(fallocate)(fd, mode, from, bytes);
}
OURS int ftruncate(int fd, off_t bytes) noexcept
{
	return interrupted("ftruncate") ? -1 : NEXT(ftruncate)(fd, bytes);
}
OURS int fsync(int fd)
{
	return interrupted("fsync") ? -1 : NEXT(fsync)(fd);
}
OURS int fdatasync(int fd)
{
	return interrupted("fdatasync") ? -1 : NEXT(fdatasync)(fd);
}
OURS ssize_t pread(int fd, void *to, size_t bytes, off_t at)
{
	plan.page_maps += bytes == 1024 * sizeof(uint64_t); /* /proc/self/pagemap */
	if (interrupted("pread"))
		return -1;
	return NEXT(pread)(fd, to, plan.all ? (bytes + 1) / 2 : bytes, at);
}
OURS ssize_t pwrite(int fd, const void *from, size_t bytes, off_t at)
{
	if (interrupted("pwrite"))
		return -1;
	return NEXT(pwrite)(fd, from, plan.all ? (bytes + 1) / 2 : bytes, at);
}
OURS ssize_t pwritev(int fd, const iovec *pieces, int n, off_t at)
{
	if (interrupted("pwritev"))
		return -1;
	if (plan.all && pieces->iov_len > 1)
		return NEXT(pwrite)(fd, pieces->iov_base, pieces->iov_len / 2, at);
	return NEXT(pwritev)(fd, pieces, n, at);
}
OURS int fcntl(int fd, int command, ...)
{
	va_list more;
	va_start(more, command);
	void *argument = va_arg(more, void *);
	va_end(more);
	if (command != F_DUPFD_CLOEXEC && interrupted("fcntl"))
		return -1;
	return NEXT(fcntl)(fd, command, argument);
}
OURS ssize_t getrandom(void *to, size_t bytes, unsigned flags)
{
	return interrupted("getrandom") ? -1 : NEXT(getrandom)(to, bytes, flags);
}

namespace
{

class System : public HeapFile
{
protected:
	System()
	{
		plan = {};
	}
	~System() override
	{
		plan = {};
		unlink(copy_path().c_str());
	}

	std::string copy_path() const
	{
		return path_ + ".copy";
	}
	static fur::Options sync_options()
	{
		fur::Options o = small_options();
		o.pm = FUR_PM_SYNC;
		o.heap_bytes = 2 << 20;
		o.max_bytes = 8 << 20;
		o.dram_bytes = 1 << 20;
		return o;
	}

	/* What a program does with a heap, so that libfur makes each of its calls. */
	void use_heap()
	{
		const fur::Options o = sync_options();
		unlink(path_.c_str());
		unlink(copy_path().c_str());
		{
			fur::Heap heap = create(o);
			fur::Thread self(heap);
			for (uint64_t k = 0; k < 8; k++)
				fur::update(self, [&](fur_update *tx) {
					auto *p = static_cast<uint64_t *>(fur_alloc(tx, 200000));
					fur_store(tx, p, k);
					fur_set_root(tx, 0, p);
				});
			fur::check(fur_grow(heap, 5 << 20));
			fur::check(fur_backup(heap, copy_path().c_str()));
			int result = 0;
			fur::check(fur_scan(
			        heap, [](fur_heap *, void *) { return 7; }, nullptr, &result));
			EXPECT_EQ(result, 7);
			heap.close();
		}
		for (const std::string &path : {path_, copy_path()}) {
			fur::Heap heap = fur::Heap::open(path, o);
			EXPECT_EQ(*static_cast<const uint64_t *>(root_at_rest(heap, 0)), 7u)
			        << path;
			heap.close();
			fur_heap *reader;
			fur::check(fur_open_copy(path.c_str(), nullptr, &reader));
			fur::check(fur_close(reader));
		}
	}
	/* The same, with an error and not an exception. */
	std::string try_use_heap()
	{
		try {
			use_heap();
			return "";
		} catch (const fur::Error &e) {
			return e.what();
		}
	}
};

/* ------------------------------------------------------------------- signals */

TEST_F(System, InterruptedOnceAtEachCall_DoesNotFail)
{
	unsigned calls = 1;
	/* Each of the first calls, which create and use the heap, and a part of the others. */
	for (unsigned at = 1; at <= calls; at += at < 40 ? 1 : 7) {
		plan = {};
		plan.at = at;
		EXPECT_EQ(try_use_heap(), "") << "call " << at;
		calls = plan.calls;
	}
	EXPECT_GT(calls, 60u);
}

TEST_F(System, EachCallInterruptedAndCutShort_DoesNotFail)
{
	plan.all = true;
	EXPECT_EQ(try_use_heap(), "");
}

/* A handler without SA_RESTART.  On tmpfs a signal undoes a whole fallocate(). */
TEST_F(System, PeriodicSignal_DoesNotFail)
{
	struct sigaction action = {}, before;
	action.sa_handler = [](int) {};
	sigaction(SIGALRM, &action, &before);
	const itimerval often = {{0, 200}, {0, 200}}, never = {};
	setitimer(ITIMER_REAL, &often, nullptr);
	const std::string small = try_use_heap();
	fur::Options o = sync_options();
	o.heap_bytes = 96 << 20;
	o.max_bytes = 256 << 20;
	unlink(path_.c_str());
	std::string large;
	try {
		fur::Heap heap = create(o);
		fur::check(fur_grow(heap, 192 << 20));
		heap.close();
	} catch (const fur::Error &e) {
		large = e.what();
	}
	setitimer(ITIMER_REAL, &never, nullptr);
	sigaction(SIGALRM, &before, nullptr);
	EXPECT_EQ(small, "");
	EXPECT_EQ(large, "");
}

/* --------------------------------------------------------------- descriptors */

TEST_F(System, WithoutStandardFiles_NoFileGetsTheirNumbers)
{
	for (unsigned closed = 1; closed < 8; closed++)
		in_killed_child([&] {
			for (int fd = 0; fd < 3; fd++)
				if (closed >> fd & 1)
					close(fd);
			plan = {};
			const std::string failed = try_use_heap();
			/* Each is closed as before: what is printed goes nowhere. */
			for (int fd = 0; fd < 3; fd++)
				if (closed >> fd & 1 && lseek(fd, 0, SEEK_CUR) != -1)
					_exit(10 + fd);
			_exit(!failed.empty() ? 2 : plan.lowest < 3 ? 3 : 0);
		});
}

TEST_F(System, WithoutStandardFiles_MainOpensDevNull)
{
	in_killed_child([] {
		for (int fd = 0; fd < 3; fd++)
			close(fd);
		plan.lowest = 1000;
		open_standard_files();
		for (int fd = 0; fd < 3; fd++)
			if (write(fd, "x", 1) != 1)
				_exit(10 + fd);
		_exit(fcntl(3, F_GETFD) != -1 ? 1 : 0);
	});
}

/* ---------------------------------------------------------------------- limits */

/* A limit that lets the process write the superblock, and not the logs. */
void limit_files(rlim_t bytes)
{
	rlimit limit;
	getrlimit(RLIMIT_FSIZE, &limit);
	limit.rlim_cur = bytes;
	setrlimit(RLIMIT_FSIZE, &limit);
}

TEST_F(System, Open_BeyondTheLimitOnFiles_IsRefused)
{
	fur::Options o = small_options();
	o.pm = FUR_PM_SYNC;
	create(o).close();
	in_killed_child([&] {
		limit_files(16384);
		EXPECT_EQ(open_result(o), FUR_ENOSPC);
		const std::string message = fur_errormsg();
		EXPECT_NE(message.find("RLIMIT_FSIZE"), std::string::npos) << message;
		EXPECT_NE(message.find(path_), std::string::npos) << message;
		EXPECT_EQ(message.find("nothing was created"), std::string::npos) << message;
		/* Only `sync` writes to the file by calls, and only calls are limited. */
		EXPECT_EQ(open_result(), 0) << fur_errormsg();
	});
}

TEST_F(System, LimitOnFilesLoweredLater_FailsTheCommitAndSaysSo)
{
	for (bool ignored : {false, true})
		in_killed_child([&] {
			fur::Options o = small_options();
			o.pm = FUR_PM_SYNC;
			unlink(path_.c_str());
			fur::Heap heap = create(o);
			fur::Thread self(heap);
			signal(SIGXFSZ, ignored ? SIG_IGN : SIG_DFL);
			limit_files(4096);
			fur_update *tx;
			EXPECT_EQ(fur_begin_update(self, &tx), 0);
			fur_set_root(tx, 0, heap_base(heap));
			EXPECT_EQ(fur_commit(tx, nullptr), FUR_EIO);
			const std::string message = fur_errormsg();
			EXPECT_NE(message.find("RLIMIT_FSIZE"), std::string::npos) << message;
			EXPECT_EQ(message.find("disk"), std::string::npos) << message;
		});
}

/* What is private and can be written counts, also where nothing is stored; and so it does with
 * vm.overcommit_memory=2, which a test must not set. */
TEST_F(System, LimitOnData_CountsTheHeapAsItIsNow)
{
	in_killed_child([&] {
		const rlimit limit = {512 << 20, RLIM_INFINITY};
		ASSERT_EQ(setrlimit(RLIMIT_DATA, &limit), 0);
		fur::Options o = small_options();
		o.max_bytes = UINT64_C(64) << 30;
		fur::Heap heap = create(o);
		fur::check(fur_grow(heap, 16 << 20));
		fur::Thread self(heap);
		fur::update(self, [](fur_update *tx) { (void)fur_alloc(tx, 12 << 20); });
		EXPECT_NE(fur_grow(heap, UINT64_C(1) << 30), 0);
		EXPECT_NE(std::string(fur_errormsg()).find("ulimit -d"), std::string::npos)
		        << fur_errormsg();
		fur::update(self, [](fur_update *tx) { (void)fur_alloc(tx, 1000); });
		heap.close();
	});
	open().close();
}

/* A kernel for 4096 processors refuses sets for fewer. */
TEST_F(System, MoreProcessorsThanASetHas_AreCounted)
{
	plan.processors = 4096;
	EXPECT_EQ(arch_cores(), 3000u);
	plan.processors = 0;
	EXPECT_GE(arch_cores(), 1u);
}

TEST_F(System, FileInMemory_IsNotSaidToSurviveAPowerFailure)
{
	if (path_.rfind("/dev/shm", 0) != 0)
		GTEST_SKIP() << "no tmpfs at /dev/shm";
	for (fur_pm pm : {FUR_PM_AUTO, FUR_PM_SYNC}) {
		unlink(path_.c_str());
		fur::Options o = small_options();
		o.pm = pm;
		fur::Heap heap = create(o);
		fur_info info = {};
		info.size = sizeof info;
		fur::check(fur_get_info(heap, &info));
		EXPECT_EQ(info.pm, FUR_PM_SYNC);
		EXPECT_NE(
		        std::string(info.pm_reason).find("NOT a power failure"), std::string::npos)
		        << info.pm_reason;
		heap.close();
	}
}

/* A look at the map of all pages takes long in a large heap.  The memory of the program itself,
 * much more than the limit, is no reason for one. */
TEST_F(System, LimitOfPages_InALargeProgram_LooksAtTheHeapSeldom)
{
	enum { PROGRAM = 128 << 20, LIMIT = 32 << 20, UPDATES = 40000 };
	fur::Options o = small_options();
	o.heap_bytes = 64 << 20;
	o.log_bytes = 1 << 20;
	o.dram_bytes = LIMIT;
	fur::Heap heap = create(o);
	fur::Thread self(heap);
	std::vector<char> program(PROGRAM, 1);
	auto *word = fur::update(self, [](fur_update *tx) {
		return static_cast<uint64_t *>(fur_alloc(tx, sizeof(uint64_t)));
	});
	plan.page_maps = 0;
	for (uint64_t k = 0; k < UPDATES; k++)
		fur::update(self, [&](fur_update *tx) { fur_store(tx, word, k); });
	/* 39 checks.  An entry makes two pages private at most, and the limit is 8192 pages. */
	const unsigned reads_of_a_look = (64 << 20) / 4096 / 1024;
	EXPECT_LE(plan.page_maps, (UPDATES * 2 / 8192 + 2) * reads_of_a_look);
	EXPECT_EQ(heap.stats().times_handed_back, 0u);
	EXPECT_EQ(program[PROGRAM / 2], 1);
	heap.close();
}

/* -------------------------------------------------------------------- messages */

/* Each entry of the table, and each errno that there is, for each call. */
TEST(Remedies, EachCallAndErrno_BeginWithAVerb)
{
	static const std::set<std::string> verbs{"check", "choose", "close", "end", "free", "leave",
	        "make", "mount", "raise", "run", "try", "use"};
	for (int call = 0; call < SYSTEM_CALLS; call++)
		for (int error = 1; error < 134; error++) {
			const std::string text = remedy_of(static_cast<system_call>(call), error);
			EXPECT_TRUE(verbs.contains(text.substr(0, text.find(' ')))) << text;
			EXPECT_NE(text.back(), '.') << text;
			EXPECT_EQ(
			        text.find("check the path and its permissions"), std::string::npos)
			        << text;
		}
}

struct Expected {
	system_call call;
	int error;
	const char *word;
};

/* What helps, by its word: an entry that is lost, or that another one hides, is seen here. */
constexpr Expected expected[] = {
        {CALL_OPEN, EMFILE, "ulimit -n"},
        {CALL_CREATE, EMFILE, "ulimit -n"},
        {CALL_MEMORY, EMFILE, "ulimit -n"},
        {CALL_OPEN, ENFILE, "fs.file-max"},
        {CALL_OPEN, EACCES, "permissions"},
        {CALL_OPEN, EPERM, "lsattr"},
        {CALL_OPEN, EROFS, "mount"},
        {CALL_OPEN, ELOOP, "symbolic links"},
        {CALL_OPEN, ENAMETOOLONG, "shorter path"},
        {CALL_OPEN, ENOTDIR, "no directory"},
        {CALL_OPEN, EISDIR, "directory"},
        {CALL_OPEN, ENOMEM, "free some memory"},
        {CALL_OPEN, ETXTBSY, "running program"},
        {CALL_OPEN, ESTALE, "mount"},
        {CALL_CREATE, EACCES, "directory"},
        {CALL_CREATE, ENOENT, "make the directory"},
        {CALL_CREATE, ENOSPC, "make room"},
        {CALL_CREATE, EDQUOT, "quota"},
        {CALL_NAME, EPERM, "hard links"},
        {CALL_NAME, EOPNOTSUPP, "hard links"},
        {CALL_NAME, ENOSYS, "hard links"},
        {CALL_NAME, EINVAL, "RENAME_NOREPLACE"},
        {CALL_NAME, EACCES, "permissions"},
        {CALL_NAME, ENOENT, "directory"},
        {CALL_MODE, EPERM, "file_mode"},
        {CALL_MODE, EOPNOTSUPP, "file_mode"},
        {CALL_READ, EIO, "disk"},
        {CALL_WRITE, EFBIG, "RLIMIT_FSIZE"},
        {CALL_WRITE, ENOSPC, "make room"},
        {CALL_WRITE, EDQUOT, "quota"},
        {CALL_SYNC, EFBIG, "ulimit -f"},
        {CALL_SYNC, EIO, "disk"},
        {CALL_SYNC, EINVAL, "sync"},
        {CALL_ALLOCATE, ENOSPC, "make room"},
        {CALL_ALLOCATE, EINVAL, "file system"},
        {CALL_ALLOCATE, ENODEV, "file system"},
        {CALL_MAP, ENODEV, "MAP_SHARED"},
        {CALL_MAP, EINVAL, "MAP_SHARED"},
        {CALL_MAP, ENOMEM, "ulimit -v"},
        {CALL_MAP, EAGAIN, "ulimit -l"},
        {CALL_MAP_HEAP, EAGAIN, "ulimit -l"},
        {CALL_MAP_HEAP, ENODEV, "mapped"},
        {CALL_MAP_HEAP, ENOMEM, "vm.overcommit_memory"},
        {CALL_MAP_HEAP, ENOMEM, "ulimit -d"},
        {CALL_MEMORY, ENOSPC, "free some memory"},
        {CALL_MEMORY, ENOSYS, "memfd_create"},
        {CALL_LOCK, ENOLCK, "locks"},
        {CALL_LOCK, EINVAL, "open file description locks"},
        {CALL_LOCK, EOPNOTSUPP, "open file description locks"},
        {CALL_LOCK, ENOSYS, "open file description locks"},
        {CALL_LOCK, EDEADLK, "try again"},
        {CALL_THREAD, EAGAIN, "ulimit -u"},
        {CALL_THREAD, EPERM, "policy"},
        {CALL_PROCESS, EAGAIN, "TasksMax"},
        {CALL_PROCESS, ENOMEM, "memory"},
        {CALL_RANDOM, ENOSYS, "getrandom"},
        {CALL_STAT, EIO, "disk"},
        {CALL_STAT, ENXIO, "device"},
        {CALL_OPEN, ENODEV, "device"},
        {CALL_OPEN, EBUSY, "device"},
        {CALL_OPEN, ETIMEDOUT, "network"},
};
TEST(Remedies, CauseAndRemedyFit)
{
	for (const Expected &e : expected)
		EXPECT_NE(std::string(remedy_of(e.call, e.error)).find(e.word), std::string::npos)
		        << strerror(e.error) << ": " << remedy_of(e.call, e.error);
}

class Messages : public System
{
protected:
	/* The message of fur_create, or of fur_open, with a call that fails. */
	std::string message(const char *call, int error, bool create)
	{
		if (create)
			unlink(path_.c_str());
		plan.only = call;
		plan.error = error;
		const fur::Options o = small_options();
		fur_heap *heap = nullptr;
		const int result = create ? fur_create(path_.c_str(), &o, &heap)
		                          : fur_open(path_.c_str(), &o, &heap);
		plan.error = 0;
		EXPECT_NE(result, 0) << call;
		return fur_errormsg();
	}
	void expect_word(const std::string &text, const char *word)
	{
		EXPECT_NE(text.find(word), std::string::npos) << text;
		EXPECT_NE(text.find(path_), std::string::npos) << text;
	}
};

TEST_F(Messages, NoDescriptorLeft_NamesTheLimit)
{
	expect_word(message("open", EMFILE, true), "ulimit -n");
	create().close();
	expect_word(message("open", EMFILE, false), "ulimit -n");
	expect_word(message("open", ENFILE, false), "fs.file-max");
	expect_word(message("open", EACCES, false), "permissions");
}

TEST_F(Messages, RealLimitOnDescriptors_IsNamed)
{
	create().close();
	in_killed_child([&] {
		rlimit none = {0, 0};
		setrlimit(RLIMIT_NOFILE, &none);
		EXPECT_EQ(open_result(), FUR_ESYS);
		expect_word(fur_errormsg(), "ulimit -n");
	});
}

TEST_F(Messages, FailedCalls_NameTheirCause)
{
	expect_word(message("fallocate", EIO, true), "check the disk");
	expect_word(message("ftruncate", EIO, true), "check the disk");
	expect_word(message("fsync", EIO, true), "check the disk");
	expect_word(message("fcntl", ENOLCK, true), "a file system with locks");
	create().close();
	expect_word(message("pread", EIO, false), "check the disk");
	expect_word(message("fcntl", EINVAL, false), "open file description locks");
}

/* The growth of an update that needs memory. */
TEST_F(Messages, FailedGrowth_KeepsItsMessage)
{
	fur::Heap heap = create(sync_options());
	fur::Thread self(heap);
	for (int error : {EIO, ENOSPC}) {
		plan.only = "fallocate";
		plan.error = error;
		fur_update *tx;
		int failed = 0;
		for (int k = 0; !failed && k < 64; k++) {
			EXPECT_EQ(fur_begin_update(self, &tx), 0);
			(void)fur_alloc(tx, 1 << 20);
			failed = fur_commit(tx, nullptr);
		}
		plan.error = 0;
		EXPECT_EQ(failed, error == EIO ? FUR_ESYS : FUR_ENOSPC);
		expect_word(fur_errormsg(), error == EIO ? "check the disk" : "make room");
		expect_word(fur_errormsg(), "the update was rolled back");
	}
}

/* As FAT, exFAT and some network file systems. */
TEST_F(Messages, NoHardLinks_TheFileGetsItsNameAnyway)
{
	plan.no_links = true;
	plan.only = "link";
	plan.error = EPERM;
	EXPECT_EQ(try_use_heap(), "");
	/* It replaces no other file. */
	fur_heap *heap;
	EXPECT_EQ(fur_create(path_.c_str(), nullptr, &heap), FUR_EEXIST);
	fur::Heap again = open(sync_options());
	EXPECT_EQ(fur_backup(again, copy_path().c_str()), FUR_EEXIST);
	unlink(copy_path().c_str());
	EXPECT_EQ(fur_backup(again, copy_path().c_str()), 0) << fur_errormsg();
	plan.error = 0;
	again.close();
}

TEST_F(Messages, NoSharedMappings_NamesThem)
{
	for (int error : {ENODEV, EINVAL})
		expect_word(message("mmap", error, true), "MAP_SHARED");
	create().close();
	expect_word(message("mmap", ENODEV, false), "MAP_SHARED");
	EXPECT_EQ(std::string(fur_errormsg()).find("memory"), std::string::npos);
}

/* A file system that cannot allocate blocks, as NFS before 4.2. */
TEST_F(System, NoFallocate_WritesZeros)
{
	plan.only = "fallocate";
	plan.error = EOPNOTSUPP;
	EXPECT_EQ(try_use_heap(), "");
	struct stat st;
	ASSERT_EQ(stat(path_.c_str(), &st), 0);
	EXPECT_GE(st.st_blocks * 512, 5 << 20);
}

} // namespace
