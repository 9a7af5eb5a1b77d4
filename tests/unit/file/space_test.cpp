/* SPDX-License-Identifier: BSD-3-Clause
 *
 * space_test.cpp - a full file system: creating a heap fails with a clear error and leaves nothing
 * behind, at any size; a heap that was created needs no more room (INV-F3).
 */
#include "fixture.hpp"
#include "internals.hpp"

#include <atomic>
#include <csignal>
#include <dirent.h>
#include <linux/fs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <thread>

/* The test's own fsync(): the error of a disk that fails when the new name is written. */
static bool directory_sync_fails;
extern "C" int fsync(int fd)
{
	struct stat st;
	if (directory_sync_fails && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
		errno = ENOSPC;
		return -1;
	}
	return static_cast<int>(syscall(SYS_fsync, fd));
}
static int file_system_syncs;
extern "C" int syncfs(int fd) noexcept
{
	file_system_syncs++;
	return static_cast<int>(syscall(SYS_syncfs, fd));
}
static std::atomic<int> allocations;
extern "C" int fallocate(int fd, int mode, off_t offset, off_t bytes)
{
	allocations++;
	return static_cast<int>(syscall(SYS_fallocate, fd, mode, offset, bytes));
}

namespace
{

uint64_t allocated_bytes(const std::string &path)
{
	struct stat st;
	return stat(path.c_str(), &st) ? 0 : static_cast<uint64_t>(st.st_blocks) * 512;
}

class Space : public HeapFile
{
protected:
	enum { NO_NAMESPACE = 77 };

	static uint64_t file_bytes_of(const std::string &path)
	{
		struct stat st;
		return stat(path.c_str(), &st) ? 0 : static_cast<uint64_t>(st.st_size);
	}
	static int entries(const std::string &directory)
	{
		int n = 0;
		if (DIR *d = opendir(directory.c_str())) {
			while (dirent *e = readdir(d))
				n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
			closedir(d);
		}
		return n;
	}

	static bool write_file(const char *path, const std::string &text)
	{
		int fd = ::open(path, O_WRONLY);
		bool done = fd >= 0 && write(fd, text.data(), text.size()) ==
		                               static_cast<ssize_t>(text.size());
		close(fd);
		return done;
	}
	/* In a child: file systems of our own.  False: this machine does not allow that. */
	static bool own_mounts()
	{
		std::string uid = std::to_string(geteuid()), gid = std::to_string(getegid());
		if (unshare(CLONE_NEWNS) &&
		        (unshare(CLONE_NEWUSER | CLONE_NEWNS) ||
		                !write_file("/proc/self/setgroups", "deny") ||
		                !write_file("/proc/self/uid_map", "0 " + uid + " 1") ||
		                !write_file("/proc/self/gid_map", "0 " + gid + " 1")))
			return false;
		return mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
	}
	/* `work` with a place for file systems of any size; skipped where that cannot be had. */
	template <class Work>
	void with_mounts(Work work)
	{
		std::string place = path_ + "-mount";
		ASSERT_EQ(mkdir(place.c_str(), 0700), 0);
		pid_t child = fork();
		ASSERT_GE(child, 0);
		if (child == 0) {
			if (!own_mounts() || mount("none", place.c_str(), "tmpfs", 0, "size=64k"))
				_exit(NO_NAMESPACE);
			umount(place.c_str());
			work(place);
			_exit(HasFailure() ? 1 : 0);
		}
		int status;
		waitpid(child, &status, 0);
		rmdir(place.c_str());
		ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
		if (WEXITSTATUS(status) == NO_NAMESPACE)
			GTEST_SKIP() << "this machine lets tests mount nothing, not even in a "
			                "namespace of their own";
		EXPECT_EQ(WEXITSTATUS(status), 0);
	}
	static void mount_tmpfs(const std::string &place, const std::string &options)
	{
		ASSERT_EQ(mount("none", place.c_str(), "tmpfs", 0, options.c_str()), 0)
		        << strerror(errno);
	}

	static int try_create(const std::string &path)
	{
		fur::Options o = small_options();
		fur_heap *h;
		int result = fur_create(path.c_str(), &o, &h);
		if (result == 0) {
			EXPECT_EQ(fur_close(h), 0);
		}
		return result;
	}
	static void expect_full(const std::string &path)
	{
		EXPECT_EQ(try_create(path), FUR_ENOSPC) << fur_errormsg();
		EXPECT_NE(std::string(fur_errormsg()).find(path), std::string::npos)
		        << fur_errormsg();
		EXPECT_NE(access(path.c_str(), F_OK), 0) << "left behind";
	}
};

TEST_F(Space, Create_AtEveryFileSizeLimit_LeavesNothing)
{
	create().close();
	uint64_t needs = file_bytes_of(path_);
	unlink(path_.c_str());
	in_killed_child([&] {
		for (uint64_t size = 0; size < needs; size += size < 8192 ? 1024 : 65536) {
			rlimit limit = {size, RLIM_INFINITY};
			ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
			expect_full(path_);
		}
	});
	EXPECT_EQ(try_create(path_), 0);
}

TEST_F(Space, Create_AtEverySizeOfFileSystem_LeavesNothing)
{
	create().close();
	uint64_t needs = allocated_bytes(path_),
	         page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
	with_mounts([&](const std::string &place) {
		for (uint64_t size = 65536; size < needs + 65536; size += 65536) {
			mount_tmpfs(place, "size=" + std::to_string(size));
			if (size < needs) {
				expect_full(place + "/heap");
			} else {
				EXPECT_EQ(try_create(place + "/heap"), 0) << fur_errormsg();
			}
			EXPECT_EQ(entries(place), size < needs ? 0 : 1);
			umount(place.c_str());
		}
		/* One page too few. */
		mount_tmpfs(place, "size=" + std::to_string(needs - page));
		expect_full(place + "/heap");
		umount(place.c_str());
	});
}

/* Else other programs would have no room for a moment. */
TEST_F(Space, Create_ThatDoesNotFit_TakesNoRoomMeanwhile)
{
	with_mounts([&](const std::string &place) {
		mount_tmpfs(place, "size=1m");
		allocations = 0;
		expect_full(place + "/heap");
		EXPECT_EQ(allocations, 0);
	});
}

TEST_F(Space, WithoutProc_CreateWorksOrSaysSo_AndALimitIsRefusedUnchanged)
{
	create().close();
	with_mounts([&](const std::string &) {
		mount_tmpfs("/proc", "size=64k");
		fur::Options o = small_options();
		o.dram_bytes = 1 << 20;
		std::string before = bytes();
		EXPECT_EQ(open_result(o), FUR_ESYS);
		EXPECT_NE(std::string(fur_errormsg()).find("mount /proc"), std::string::npos)
		        << fur_errormsg();
		EXPECT_TRUE(bytes() == before);
		unlink(path_.c_str());
		int error = try_create(path_);
		if (error) { /* Linux before 6.10, and no privileges */
			EXPECT_EQ(error, FUR_ESYS);
			EXPECT_NE(std::string(fur_errormsg()).find("/proc is not mounted"),
			        std::string::npos)
			        << fur_errormsg();
		}
		EXPECT_EQ(try_create(path_ + "-limited") == 0, error == 0);
		unlink((path_ + "-limited").c_str());
	});
}

/* One may put files there, and not sync it. */
TEST_F(Space, Create_InADirectoryThatCannotBeRead_IsDurable)
{
	std::string place = path_ + "-directory";
	ASSERT_EQ(mkdir(place.c_str(), 0700), 0);
	ASSERT_EQ(geteuid() ? 0 : chown(place.c_str(), 65534, 65534), 0);
	ASSERT_EQ(chmod(place.c_str(), 0300), 0);
	in_killed_child([&] {
		ASSERT_EQ(geteuid() ? 0 : setgid(65534) | setuid(65534), 0);
		EXPECT_EQ(file_system_syncs, 0);
		EXPECT_EQ(try_create(place + "/heap"), 0) << fur_errormsg();
		EXPECT_EQ(file_system_syncs, 1);
	});
	EXPECT_EQ(unlink((place + "/heap").c_str()), 0);
	EXPECT_EQ(rmdir(place.c_str()), 0);
}

/* cp --sparse: only data that is not zero. */
static void copy_sparsely(const std::string &bytes, const std::string &to)
{
	enum { BLOCK = 4096 };
	int fd = ::open(to.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
	ASSERT_EQ(ftruncate(fd, static_cast<off_t>(bytes.size())), 0);
	const std::string hole(BLOCK, '\0');
	for (size_t at = 0; at < bytes.size(); at += BLOCK) {
		if (bytes.compare(at, BLOCK, hole)) {
			ASSERT_EQ(pwrite(fd, &bytes[at], BLOCK, static_cast<off_t>(at)), BLOCK);
		}
	}
	close(fd);
}

TEST_F(Space, Open_OfACopyWithHoles_FillsThemOrRefuses)
{
	create().close();
	uint64_t needs = allocated_bytes(path_);
	const std::string original = bytes();
	with_mounts([&](const std::string &place) {
		mount_tmpfs(place, "size=" + std::to_string(needs + 65536));
		path_ = place + "/heap";
		copy_sparsely(original, path_);
		EXPECT_LT(allocated_bytes(path_), needs);
		/* Another file takes the room. */
		std::string other = place + "/other";
		int fd = ::open(other.c_str(), O_RDWR | O_CREAT, 0600);
		EXPECT_EQ(syscall(SYS_fallocate, fd, 0, 0, needs - allocated_bytes(path_)), 0);
		close(fd);
		expect_refused(FUR_ENOSPC);
		unlink(other.c_str());
		EXPECT_EQ(open_result(), 0) << fur_errormsg();
		EXPECT_GE(allocated_bytes(path_), needs);
		umount(place.c_str());
	});
}

TEST_F(Space, Create_WithoutRoomForAnotherFile_SaysThatItIsFull)
{
	with_mounts([&](const std::string &place) {
		mount_tmpfs(place, "nr_inodes=1");
		expect_full(place + "/heap");
		EXPECT_EQ(entries(place), 0);
	});
}

TEST_F(Space, Create_WhenTheNameCannotBeMadeDurable_LeavesNothing)
{
	directory_sync_fails = true;
	expect_full(path_);
	directory_sync_fails = false;
	EXPECT_EQ(try_create(path_), 0);
}

void fill_disk(const std::string &place)
{
	int filler = ::open((place + "/filler").c_str(), O_CREAT | O_WRONLY, 0600);
	std::string block(4096, 'x');
	while (write(filler, block.data(), block.size()) > 0)
		;
	ASSERT_EQ(errno, ENOSPC);
	close(filler);
}

/* The work of a program with a heap, from open to close, with more updates than ring and logs
 * hold. */
void use(const std::string &path, fur_pm pm, bool close)
{
	fur::Options o = small_options();
	o.pm = pm;
	auto *heap = new fur::Heap(fur::Heap::open(path, o));
	{
		fur::Thread self(*heap);
		for (int k = 0; k < 300; k++)
			fur::update(self, [&](fur_update *tx) {
				fur_free(tx, fur_root(tx, 0));
				auto *block = static_cast<uint64_t *>(fur_alloc(tx, 200));
				fur_store(tx, block, uint64_t(k));
				fur_set_root(tx, 0, block);
			});
	}
	if (close)
		heap->close();
}

TEST_F(Space, NothingGrows_OnAFullFileSystem)
{
	with_mounts([&](const std::string &place) {
		mount_tmpfs(place, "size=16m");
		std::string path = place + "/heap";
		ASSERT_EQ(try_create(path), 0);
		use(path, FUR_PM_EMULATED, true); /* from now on its thread has a log */
		fill_disk(place);
		struct stat before, after;
		ASSERT_EQ(stat(path.c_str(), &before), 0);
		EXPECT_GT(before.st_blocks * 512 + MEDIA_PAGE_BYTES, before.st_size)
		        << "more than other threads' logs is not allocated";
		for (fur_pm pm : {FUR_PM_EMULATED, FUR_PM_SYNC}) {
			use(path, pm, true);
			in_killed_child([&] { use(path, pm, false); });
			use(path, pm, true);
		}
		ASSERT_EQ(stat(path.c_str(), &after), 0);
		EXPECT_EQ(before.st_size, after.st_size);
		EXPECT_EQ(before.st_blocks, after.st_blocks);
	});
}

TEST_F(Space, Register_OnAFullFileSystem_IsRefused_AndTheHeapStaysGood)
{
	with_mounts([&](const std::string &place) {
		mount_tmpfs(place, "size=8m");
		path_ = place + "/heap";
		fur::Options o = small_options();
		o.log_bytes = 1 << 20;
		fur::Heap heap = create(o);
		uint64_t without = allocated_bytes(path_);
		fur::Thread self(heap);
		EXPECT_EQ(allocated_bytes(path_), without + o.log_bytes);
		fill_disk(place);
		std::thread([&] {
			fur_thread *second;
			EXPECT_EQ(fur_thread_register(heap.get(), nullptr, &second), FUR_ENOSPC);
			EXPECT_EQ(second, nullptr);
			std::string message = fur_errormsg();
			for (const char *part : {path_.c_str(), "log of thread 1", "make room"})
				EXPECT_NE(message.find(part), std::string::npos) << message;
			/* With room, the same call succeeds. */
			unlink((place + "/filler").c_str());
			ASSERT_EQ(fur_thread_register(heap.get(), nullptr, &second), 0)
			        << fur_errormsg();
		}).join();
		fur::update(self, [&](fur_update *tx) { fur_set_root(tx, 0, fur_alloc(tx, 64)); });
		heap.close();
		EXPECT_EQ(open_result(), 0) << fur_errormsg();
	});
}

/* An update that needs more than the disk has. */
int take(fur::Thread &self, fur_heap *heap, uint64_t bytes)
{
	fur_update *tx;
	int error = fur_begin_update(self.get(), &tx);
	if (error)
		return error;
	void *block = fur_alloc(tx, bytes);
	if (block)
		fur_set_root(tx, 0, block);
	error = fur_commit(tx, nullptr);
	EXPECT_EQ(block == nullptr, error != 0);
	EXPECT_EQ(root_at_rest(heap, 0) == block, error == 0);
	return error;
}

TEST_F(Space, Growth_OnAFullFileSystem_IsAnErrorOfTheCommit_AndTheHeapStaysGood)
{
	with_mounts([&](const std::string &place) {
		mount_tmpfs(place, "size=24m");
		path_ = place + "/heap";
		fur::Options o = small_options();
		o.max_bytes = 64 << 20;
		fur::Heap heap = create(o);
		fur::Thread self(heap);
		ASSERT_EQ(take(self, heap.get(), 6 << 20), 0) << fur_errormsg();
		fill_disk(place);
		/* It waits for a growth that libfur's thread has begun before the disk was full. */
		EXPECT_EQ(take(self, heap.get(), 30 << 20), FUR_ENOSPC);
		const uint64_t before = allocated_bytes(path_), bytes = heap_size(heap.get());
		const void *root = root_at_rest(heap.get(), 0);
		EXPECT_EQ(take(self, heap.get(), 30 << 20), FUR_ENOSPC);
		std::string message = fur_errormsg();
		for (const char *part : {path_.c_str(), "no room", "make room"})
			EXPECT_NE(message.find(part), std::string::npos) << message;
		EXPECT_EQ(fur_grow(heap.get(), 48 << 20), FUR_ENOSPC);
		message = fur_errormsg();
		for (const char *part : {path_.c_str(), "50331648", "make room", "as it was"})
			EXPECT_NE(message.find(part), std::string::npos) << message;
		EXPECT_EQ(heap_size(heap.get()), bytes);
		EXPECT_EQ(root_at_rest(heap.get(), 0), root);
		EXPECT_EQ(allocated_bytes(path_), before);
		/* It goes on in the memory that it has. */
		fur::update(self, [&](fur_update *tx) { fur_free(tx, fur_root(tx, 0)); });
		ASSERT_EQ(take(self, heap.get(), 6 << 20), 0) << fur_errormsg();
		/* With room it grows. */
		unlink((place + "/filler").c_str());
		ASSERT_EQ(take(self, heap.get(), 8 << 20), 0) << fur_errormsg();
		heap.close();
		EXPECT_EQ(open_result(), 0) << fur_errormsg();
	});
}

bool reflink(const std::string &from, const std::string &to)
{
	const int in = open(from.c_str(), O_RDONLY),
	          out = open(to.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
	const bool done = ioctl(out, FICLONE, in) == 0;
	close(in);
	close(out);
	return done;
}

/* A store to a block that a copy shares needs another block. */
TEST_F(Space, ReflinkedHeap_OnAFullDisk_IsRefusedAndNotKilled)
{
	const std::string image = path_ + ".xfs";
	with_mounts([&](const std::string &place) {
		const std::string make = "truncate -s 320M " + image +
		                         " && mkfs.xfs -q -m reflink=1 " + image +
		                         " 2>/dev/null && mount -o loop " + image + " " + place,
		                  heap = place + "/heap";
		if (system(make.c_str())) {
			unlink(image.c_str());
			return; /* no mkfs.xfs, or no loop device */
		}
		fur::Options o = small_options();
		o.heap_bytes = 16 << 20;
		fur::Heap::create(heap, o).close();
		/* Blocks that no program has written yet are the heap's all the same. */
		fill_disk(place);
		fur::Heap::open(heap, o).close();
		ASSERT_EQ(truncate((place + "/filler").c_str(), 0), 0);
		ASSERT_TRUE(reflink(heap, place + "/copy"));
		fill_disk(place);
		fur_heap *open_heap;
		EXPECT_EQ(fur_open(heap.c_str(), &o, &open_heap), FUR_ENOSPC);
		EXPECT_NE(std::string(fur_errormsg()).find("shares blocks"), std::string::npos)
		        << fur_errormsg();
		ASSERT_EQ(truncate((place + "/filler").c_str(), 0), 0);
		fur::Heap again = fur::Heap::open(heap, o);
		fill_disk(place);
		fur::Thread self(again);
		const std::string data(4000, 'x');
		for (int k = 0; k < 3000; k++)
			fur::update(self, [&](fur_update *tx) {
				void *at = fur_alloc(tx, data.size());
				fur_write(tx, at, data.data(), 3000);
			});
		again.close();
		EXPECT_EQ(umount(place.c_str()), 0);
		unlink(image.c_str());
	});
	unlink(image.c_str());
}

} // namespace
