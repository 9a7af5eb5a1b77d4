/* SPDX-License-Identifier: BSD-3-Clause
 *
 * file_test.cpp - files that are not heaps, or no longer, or not ours: one clear error, and the
 * file as it was.
 */
#include "fixture.hpp"
#include "internals.hpp"

#include <sys/mman.h>
#include <sys/resource.h>

namespace
{

class File : public HeapFile
{
protected:
	void make()
	{
		fur::Heap h = create();
		h.close();
	}
	media_super super() const
	{
		media_super s;
		memcpy(&s, bytes().data(), sizeof s);
		return s;
	}
	void put_super(const media_super &s) const
	{
		poke(0, &s, sizeof s);
	}
	/* 0, when root 1 is larger by one.  Other processes may have the heap open meanwhile. */
	int add_one(const fur_options &o) const
	{
		fur_heap *h;
		int error;
		while ((error = fur_open(path_.c_str(), &o, &h)) == FUR_EBUSY)
			usleep(1000);
		if (error)
			return 1;
		fur::Thread self(h);
		fur::update(self, [](fur_update *tx) {
			const auto n = reinterpret_cast<uintptr_t>(fur_root(tx, 1));
			fur_set_root(tx, 1, reinterpret_cast<void *>(n + 1));
		});
		return fur_close(h) ? 2 : 0;
	}
	static inline int h_is_there;
};

TEST_F(File, Missing)
{
	EXPECT_EQ(open_result(), FUR_ENOENT);
	EXPECT_NE(std::string(fur_errormsg()).find(path_), std::string::npos);
}

TEST_F(File, Empty)
{
	write_bytes("");
	expect_refused(FUR_ENOTHEAP);
}

TEST_F(File, Foreign)
{
	write_bytes(std::string(100000, 'x'));
	expect_refused(FUR_ENOTHEAP);
}

TEST_F(File, Short)
{
	write_bytes("libfur");
	expect_refused(FUR_ENOTHEAP);
}

TEST_F(File, Directory)
{
	EXPECT_NE(fur_open("/tmp", nullptr, nullptr), 0);
	fur_heap *h;
	EXPECT_EQ(fur_open("/tmp", nullptr, &h), FUR_ESYS);
}

TEST_F(File, Truncated)
{
	make();
	for (off_t length : {off_t(896), off_t(4096), off_t(65536),
	             static_cast<off_t>(super().file_bytes - 1)}) {
		ASSERT_EQ(truncate(path_.c_str(), length), 0);
		expect_refused(FUR_ECORRUPT);
	}
}

TEST_F(File, NewerVersion)
{
	make();
	media_super s = super();
	s.version++;
	s.checksum = media_super_checksum(&s);
	put_super(s);
	expect_refused(FUR_EVERSION);
}

TEST_F(File, OtherByteOrder)
{
	make();
	media_super s = super();
	s.endian = __builtin_bswap32(s.endian);
	put_super(s);
	expect_refused(FUR_EVERSION);
}

TEST_F(File, SuperblockBitFlips_AreRefused)
{
	make();
	std::string good = bytes();
	for (uint64_t offset = 0; offset < offsetof(media_super, more); offset++)
		for (unsigned bit = 0; bit < 8; bit++) {
			flip_bit(offset, bit);
			fur_heap *h;
			fur::Options o = small_options();
			ASSERT_NE(fur_open(path_.c_str(), &o, &h), 0)
			        << "byte " << offset << " bit " << bit;
			flip_bit(offset, bit);
		}
	EXPECT_TRUE(bytes() == good);
}

TEST_F(File, TailBitFlips_AreRefusedOrHarmless)
{
	make();
	std::string good = bytes();
	int refused = 0;
	for (int copy = 0; copy < 2; copy++)
		for (unsigned bit = 0; bit < 64; bit++) {
			flip_bit(offsetof(media_super, tail) + copy * 128u + bit / 8, bit % 8);
			int r = open_result();
			EXPECT_TRUE(r == 0 || r == FUR_ECORRUPT) << r;
			refused += r != 0;
			write_bytes(good);
		}
	/* Eight check bits let a flip through now and then; the two copies catch those. */
	EXPECT_EQ(refused, 128);
}

TEST_F(File, StateBitFlips_OnlyCauseAReplay)
{
	make();
	std::string good = bytes();
	for (unsigned bit = 0; bit < 64; bit++) {
		flip_bit(offsetof(media_super, state) + bit / 8, bit % 8);
		EXPECT_EQ(open_result(), 0) << bit;
		write_bytes(good);
	}
}

TEST_F(File, OpenTwice_IsRefused)
{
	fur::Heap h = create();
	EXPECT_EQ(open_result(), FUR_EBUSY);
	in_killed_child([&] { EXPECT_EQ(open_result(), FUR_EBUSY); });
	h.close();
	EXPECT_EQ(open_result(), 0);
}

TEST_F(File, AddressTaken_IsRefusedAndUnchanged)
{
	make();
	media_super s = super();
	void *there = mmap(reinterpret_cast<void *>(s.address), 4096, PROT_READ,
	        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	ASSERT_NE(there, MAP_FAILED);
	expect_refused(FUR_EADDRESS);
	munmap(there, 4096);
	EXPECT_EQ(open_result(), 0);
}

TEST_F(File, Create_OverAFile_IsRefused)
{
	write_bytes("precious");
	fur_heap *h;
	EXPECT_EQ(fur_create(path_.c_str(), nullptr, &h), FUR_EEXIST);
	EXPECT_EQ(bytes(), "precious");
}

TEST_F(File, Create_LargerThanTheFileSystem_LeavesNothing)
{
	fur::Options o = small_options();
	o.heap_bytes = uint64_t(1) << 46;
	fur_heap *h;
	EXPECT_EQ(fur_create(path_.c_str(), &o, &h), FUR_ENOSPC) << fur_errormsg();
	EXPECT_NE(access(path_.c_str(), F_OK), 0);
}

/* The kernel's signal for it would end the process. */
TEST_F(File, Create_AboveTheLimitOfFileSizes_IsRefusedAndLeavesNothing)
{
	in_killed_child([&] {
		rlimit small = {100000, 100000};
		setrlimit(RLIMIT_FSIZE, &small);
		fur::Options o = small_options();
		fur_heap *h;
		EXPECT_EQ(fur_create(path_.c_str(), &o, &h), FUR_ENOSPC) << fur_errormsg();
		EXPECT_NE(std::string(fur_errormsg()).find("RLIMIT_FSIZE"), std::string::npos)
		        << fur_errormsg();
	});
	EXPECT_NE(access(path_.c_str(), F_OK), 0);
}

TEST_F(File, Create_BadOptions_AreRefused)
{
	auto refused = [&](auto change) {
		fur::Options o = small_options();
		change(o);
		fur_heap *h;
		EXPECT_EQ(fur_create(path_.c_str(), &o, &h), FUR_EINVAL) << fur_errormsg();
		EXPECT_NE(access(path_.c_str(), F_OK), 0);
	};
	refused([](fur_options &o) { o.log_bytes = 5000; });
	refused([](fur_options &o) { o.log_bytes = 64; });
	refused([](fur_options &o) { o.ring_slots = 100; });
	refused([](fur_options &o) { o.max_threads = 5000; });
	refused([](fur_options &o) {
		o.heap_bytes = 1;
		o.max_threads = 1024;
		o.ring_slots = 4096;
	});
	refused([](fur_options &o) { o.address = 4097; });
	refused([](fur_options &o) { o.address = 65536; });
	refused([](fur_options &o) { o.address = (uint64_t(4) << 30) - 65536; });
	refused([](fur_options &o) { o.address = uint64_t(1) << 47; });
	refused([](fur_options &o) { o.address = (uint64_t(1) << 47) - 65536; });
	refused([](fur_options &o) { o.address = UINT64_MAX - 65535; });
	refused([](fur_options &o) { o.heap_bytes = UINT64_MAX; });
	EXPECT_EQ(std::string(fur_errormsg()).find("heap_bytes is 0"), std::string::npos)
	        << fur_errormsg();
	refused([](fur_options &o) { o.heap_bytes = uint64_t(1) << 47; }); /* no place for it */
	refused([](fur_options &o) { o.file_mode = 0400; });
	refused([](fur_options &o) { o.file_mode = 04600; });
	refused([](fur_options &o) { o.size = 0; });
	refused([](fur_options &o) { o.size = 100000; });
	refused([](fur_options &o) { o.pm = static_cast<fur_pm>(9); });
}

TEST_F(File, Options_OfAnOlderProgram_AreTaken)
{
	fur::Options o = small_options();
	o.size = offsetof(fur_options, dram_bytes) + sizeof o.dram_bytes; /* the first release */
	fur_heap *h;
	ASSERT_EQ(fur_create(path_.c_str(), &o, &h), 0) << fur_errormsg();
	EXPECT_EQ(fur_close(h), 0);
}

TEST_F(File, Create_Mode_IsTheOwnersAlone_UnlessAskedOtherwise)
{
	mode_t before = umask(0);
	struct stat st;
	make();
	ASSERT_EQ(stat(path_.c_str(), &st), 0);
	EXPECT_EQ(st.st_mode & 07777, 0600u);
	unlink(path_.c_str());
	umask(077);
	fur::Options o = small_options();
	o.file_mode = 0640;
	create(o).close();
	umask(before);
	ASSERT_EQ(stat(path_.c_str(), &st), 0);
	EXPECT_EQ(st.st_mode & 07777, 0640u);
}

/* A superblock with a right checksum, and an address where no heap may be. */
TEST_F(File, Address_OutsideTheUsersSpace_IsRefused)
{
	make();
	const media_super good = super();
	for (uint64_t address :
	        {uint64_t(0), uint64_t(65536), (uint64_t(4) << 30) - 65536, uint64_t(1) << 47,
	                (uint64_t(1) << 47) - 65536, UINT64_MAX - 65535, good.address + 4096}) {
		media_super s = good;
		s.address = address;
		s.checksum = media_super_checksum(&s);
		put_super(s);
		expect_refused(FUR_ECORRUPT);
	}
	media_super s = good;
	s.address = uint64_t(4) << 30;
	s.checksum = media_super_checksum(&s);
	put_super(s);
	int r = open_result();
	EXPECT_TRUE(r == 0 || r == FUR_EADDRESS) << fur_errormsg();
}

/* The rest of the file belongs to no region, and is larger than an address space. */
TEST_F(File, Longer_ThanAnAddressSpace_Opens)
{
	make();
	off_t much = off_t(1) << 48;
	if (truncate(path_.c_str(), much))
		much = off_t(1) << 40; /* a file system with a limit of its own */
	ASSERT_EQ(truncate(path_.c_str(), much), 0) << strerror(errno);
	EXPECT_EQ(open_result(), 0) << fur_errormsg();
}

TEST_F(File, NoKeyLeft_IsRefusedAndUnchanged)
{
	make();
	std::vector<pthread_key_t> keys;
	for (pthread_key_t key; pthread_key_create(&key, nullptr) == 0;)
		keys.push_back(key);
	expect_refused(FUR_ESYS);
	std::string other = path_ + "-other";
	fur::Options o = small_options();
	fur_heap *h;
	EXPECT_EQ(fur_create(other.c_str(), &o, &h), FUR_ESYS);
	EXPECT_NE(access(other.c_str(), F_OK), 0);
	for (pthread_key_t key : keys)
		pthread_key_delete(key);
	EXPECT_EQ(open_result(), 0);
}

/* Not closed, so that recovery would write to it. */
TEST_F(File, AllocatorHeaderDamaged_IsRefusedByAllAndUnchanged)
{
	in_killed_child([&] {
		auto *h = new fur::Heap(create());
		fur::Thread self(*h);
		fur::update(self, [&](fur_update *tx) { fur_set_root(tx, 0, fur_alloc(tx, 64)); });
		_exit(0);
	});
	flip_bit(super().heap_offset, 3);
	expect_refused(FUR_ECORRUPT);
	/* As fur-replayer does it. */
	heap_file file;
	durability d;
	char reason[160];
	fur::Options o = small_options();
	ASSERT_EQ(heap_open_file(path_.c_str(), HEAP_LOCK_WORKER, &file), 0);
	EXPECT_EQ(heap_attach(&d, &file, &o, reason, sizeof reason), FUR_ECORRUPT);
	EXPECT_EQ(d.super, nullptr);
	heap_close_file(&file);
	expect_refused(FUR_ECORRUPT);
}

/* ------------------------------------------------------------------- locks */

class Locks : public File
{
protected:
	/* As a process that may only read the file. */
	struct Reader {
		int fd;
		explicit Reader(const std::string &path)
		    : fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC))
		{
		}
		~Reader()
		{
			close(fd);
		}
		void lock(int command = F_OFD_SETLK, short type = F_RDLCK) const
		{
			struct flock l = {};
			l.l_type = type;
			l.l_whence = SEEK_SET; /* the whole file */
			ASSERT_EQ(fcntl(fd, command, &l), 0) << strerror(errno);
		}
		void unlock() const
		{
			lock(F_OFD_SETLK, F_UNLCK);
		}
	};
	/* All that the working process leaves free. */
	static void lock_around_worker(const Reader &reader)
	{
		for (int byte : {HEAP_LOCK_REPLAYER, HEAP_LOCK_REPLAY}) {
			struct flock l = {};
			l.l_type = F_RDLCK;
			l.l_whence = SEEK_SET;
			l.l_start = byte;
			l.l_len = 1;
			ASSERT_EQ(fcntl(reader.fd, F_OFD_SETLK, &l), 0) << strerror(errno);
		}
	}
	/* More than the ring and the log hold: each lap needs a replay. */
	static void work(fur::Heap &h)
	{
		fur::Thread self(h);
		for (int k = 0; k < 500; k++)
			fur::update(self, [&](fur_update *tx) {
				fur_set_root(tx, 0, reinterpret_cast<void *>(uint64_t(k) * 16));
			});
	}
};

TEST_F(Locks, ReadLock_AtTheOpen_IsNamed)
{
	make();
	Reader reader(path_);
	reader.lock();
	expect_refused(FUR_EBUSY);
	EXPECT_NE(
	        std::string(fur_errormsg()).find("a process holds a read lock"), std::string::npos)
	        << fur_errormsg();
	heap_file file;
	EXPECT_EQ(heap_open_file(path_.c_str(), HEAP_LOCK_REPLAYER, &file), FUR_EBUSY);
	EXPECT_NE(std::string(fur_errormsg()).find("read lock"), std::string::npos)
	        << fur_errormsg();
	reader.unlock();
	EXPECT_EQ(open_result(), 0);
}

/* The kernel names the holder of a lock of the other kind. */
TEST_F(Locks, ReadLock_OfAProcess_IsNamedWithIt)
{
	make();
	int ready[2], over[2];
	ASSERT_EQ(pipe(ready) | pipe(over), 0);
	pid_t child = fork();
	if (child == 0) {
		Reader reader(path_);
		reader.lock(F_SETLK);
		char byte = 0;
		(void)!write(ready[1], &byte, 1);
		close(over[1]);
		(void)!read(over[0], &byte, 1);
		_exit(0);
	}
	char byte;
	ASSERT_EQ(read(ready[0], &byte, 1), 1);
	expect_refused(FUR_EBUSY);
	EXPECT_NE(std::string(fur_errormsg())
	                  .find("process " + std::to_string(child) + " holds a read lock"),
	        std::string::npos)
	        << fur_errormsg();
	close(over[1]);
	waitpid(child, nullptr, 0);
	EXPECT_EQ(open_result(), 0);
	for (int fd : {ready[0], ready[1], over[0]})
		close(fd);
}

/* Without an end, before. */
TEST_F(Locks, ReadLock_BesideAProgram_DoesNotStopIt)
{
	fur::Heap h = create();
	Reader reader(path_);
	lock_around_worker(reader);
	work(h);
	h.close();
	reader.unlock();
	EXPECT_EQ(open_result(), 0);
}

/* A failed call is neither "held" nor "free". */
TEST_F(Locks, FailedCalls_AreErrors)
{
	int64_t pid;
	const int no_file = -1;
	EXPECT_EQ(heap_lock_held(no_file, HEAP_LOCK_WORKER), FUR_ESYS);
	EXPECT_NE(std::string(fur_errormsg()).find(strerror(EBADF)), std::string::npos)
	        << fur_errormsg();
	EXPECT_EQ(heap_lock_read_by(no_file, HEAP_LOCK_WORKER, &pid), FUR_ESYS);
	EXPECT_EQ(heap_lock_try(no_file, HEAP_LOCK_WORKER), FUR_ESYS);
	EXPECT_EQ(heap_lock_wait(no_file, HEAP_LOCK_WORKER), FUR_ESYS);
	EXPECT_EQ(heap_lock_give_back(no_file, HEAP_LOCK_WORKER), FUR_ESYS);
	EXPECT_EQ(heap_lock_file(no_file, HEAP_LOCK_WORKER), FUR_ESYS);
}

TEST_F(Locks, ReadLocks_AreNotTakenForProcesses)
{
	make();
	Reader reader(path_);
	reader.lock();
	int fd = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
	for (heap_lock byte :
	        {HEAP_LOCK_WORKER, HEAP_LOCK_REPLAYER, HEAP_LOCK_REPLAY, HEAP_LOCK_WORKING}) {
		int64_t pid;
		EXPECT_EQ(heap_lock_held(fd, byte), 0);
		EXPECT_EQ(heap_lock_read_by(fd, byte, &pid), 1);
	}
	reader.unlock();
	close(fd);
}

/* INV-C4: one of the two has the right to replay, however a reader locks and unlocks in between. */
TEST_F(Locks, RightToReplay_HasOneHolder)
{
	make();
	heap_file worker_file, replayer_file;
	durability worker, replayer;
	char reason[160];
	fur::Options o = small_options();
	Reader reader(path_);
	ASSERT_EQ(heap_open_file(path_.c_str(), HEAP_LOCK_WORKER, &worker_file), 0);
	ASSERT_EQ(heap_open_file(path_.c_str(), HEAP_LOCK_REPLAYER, &replayer_file), 0);
	ASSERT_EQ(heap_attach(&worker, &worker_file, &o, reason, sizeof reason), 0);
	ASSERT_EQ(heap_attach(&replayer, &replayer_file, &o, reason, sizeof reason), 0);
	replayer.replays_for_worker = true;

	/* By the lock. */
	EXPECT_EQ(control_try_take(&replayer), 0);
	EXPECT_EQ(control_try_take(&worker), FUR_EBUSY);
	control_give_back(&replayer);
	EXPECT_EQ(control_try_take(&worker), 0);
	EXPECT_EQ(control_try_take(&replayer), FUR_EBUSY);
	control_give_back(&worker);

	/* By a claim, under a read lock; and when that has gone. */
	struct flock l = {};
	l.l_type = F_RDLCK;
	l.l_whence = SEEK_SET;
	l.l_start = HEAP_LOCK_REPLAY;
	l.l_len = 1;
	ASSERT_EQ(fcntl(reader.fd, F_OFD_SETLK, &l), 0);
	EXPECT_EQ(control_try_take(&worker), 0);
	EXPECT_EQ(control_try_take(&replayer), FUR_EBUSY);
	reader.unlock();
	EXPECT_EQ(control_try_take(&replayer), FUR_EBUSY);
	control_give_back(&worker);
	EXPECT_EQ(control_try_take(&replayer), 0);
	EXPECT_EQ(control_try_take(&worker), FUR_EBUSY);
	control_give_back(&replayer);

	/* A worker that dies with its claim leaves nothing that counts. */
	ASSERT_EQ(fcntl(reader.fd, F_OFD_SETLK, &l), 0);
	EXPECT_EQ(control_try_take(&worker), 0);
	reader.unlock();
	heap_lock_give_back(worker_file.fd, HEAP_LOCK_WORKER);
	EXPECT_EQ(control_try_take(&replayer), 0);
	control_give_back(&replayer);
	ASSERT_EQ(heap_lock_try(worker_file.fd, HEAP_LOCK_WORKER), 0);
	EXPECT_EQ(control_try_take(&worker), 0);
	control_give_back(&worker);
	EXPECT_EQ(control_try_take(&replayer), 0);
	control_give_back(&replayer);

	durability_detach(&worker);
	durability_detach(&replayer);
	heap_close_file(&worker_file);
	heap_close_file(&replayer_file);
}

/* Two processes at one path: one whose fur_create is always refused, one that opens the heap that
 * it finds. */
TEST_F(Locks, RefusedCreate_NeverTakesAFileFromItsUser)
{
	enum { ROUNDS = 200 };
	pid_t child = fork();
	ASSERT_GE(child, 0);
	if (child == 0) {
		fur::Options o = small_options();
		fur_heap *h;
		o.pm = FUR_PM_PMEM;
		for (;;)
			(void)!fur_create(path_.c_str(), &o, &h);
	}
	fur::Options o = small_options();
	for (int round = 0; round < ROUNDS; round++) {
		fur_heap *h;
		struct stat st;
		int error = fur_open(path_.c_str(), &o, &h);
		if (error == FUR_ENOENT)
			error = fur_create(path_.c_str(), &o, &h);
		if (error)
			continue;
		usleep(200); /* gives the other the time to do it */
		EXPECT_EQ(stat(path_.c_str(), &st), 0) << "the file is gone, round " << round;
		EXPECT_EQ(fur_close(h), 0);
		unlink(path_.c_str());
	}
	kill(child, SIGKILL);
	waitpid(child, nullptr, 0);
}

TEST_F(File, Environment_OverridesAndIsChecked)
{
	make();
	Environment htm("FUR_HTM", "none"), pm("FUR_PM", "sync");
	{
		fur::Heap h = open();
		EXPECT_EQ(h.info().htm, FUR_HTM_NONE);
		EXPECT_EQ(h.info().pm, FUR_PM_SYNC);
	}
	pm.set("nonsense");
	EXPECT_EQ(open_result(), FUR_EINVAL);
}

TEST_F(File, Tuning_SetsWhatItNames_AndItsWordsAreChecked)
{
	make();
	{
		fur::Heap h = open();
		EXPECT_EQ(h.get()->engine.retries, 20u);
		EXPECT_EQ(h.get()->durability.pm.latency_ticks, 0u);
		EXPECT_EQ(h.get()->durability.pm.gap_ticks, 0u);
		EXPECT_EQ(h.get()->durability.populate, h.info().htm != FUR_HTM_NONE);
	}
	Environment tune("FUR_TUNE", "retries=3,pm-latency-ns=310,pm-gap-ns=90,no-populate");
	{
		fur::Heap h = open();
		EXPECT_EQ(h.get()->engine.retries, 3u);
		EXPECT_EQ(h.get()->durability.pm.latency_ticks, arch_ns_to_ticks(310));
		EXPECT_EQ(h.get()->durability.pm.gap_ticks, arch_ns_to_ticks(90));
		EXPECT_FALSE(h.get()->durability.populate);
	}
	for (const char *wrong : {"nonsense", "retries", "retries=", "retries=3x", "retries=-1",
	             "retries= 3", "retries=4294967296", ",", "retries=3,", "retries=3,,",
	             "pm-gap-ns=1;no-populate", "pm-latency-ns=310ns",
	             "retries=00000000000000000000000000000000000003"}) {
		tune.set(wrong);
		expect_refused(FUR_EINVAL);
		fur_heap *h;
		const std::string other = path_ + ".other";
		EXPECT_EQ(fur_create(other.c_str(), nullptr, &h), FUR_EINVAL) << wrong;
		EXPECT_NE(access(other.c_str(), F_OK), 0) << "a file is left behind";
	}
}

TEST_F(File, OpenOrCreate_MakesTheFile_OnlyIfThereIsNone)
{
	fur::Options o = small_options();
	EXPECT_EQ(open_result(o), FUR_ENOENT);
	o.open = static_cast<fur_open_mode>(2);
	EXPECT_EQ(open_result(o), FUR_EINVAL);
	EXPECT_NE(access(path_.c_str(), F_OK), 0);
	o.open = FUR_OPEN_OR_CREATE;
	o.heap_bytes = 1; /* too small to make, and no matter to a heap that is there */
	EXPECT_EQ(open_result(o), FUR_EINVAL);
	EXPECT_NE(access(path_.c_str(), F_OK), 0);
	o.heap_bytes = small_options().heap_bytes;
	{
		fur::Heap h = open(o);
		EXPECT_FALSE(h.info().recovered);
		fur::Thread self(h);
		fur::update(self, [](fur_update *tx) { fur_set_root(tx, 5, &h_is_there); });
	}
	o.heap_bytes = 1;
	fur::Heap h = open(o);
	fur::Thread self(h);
	EXPECT_EQ(fur::read(self, [](fur_ro *tx) { return fur_root(tx, 5); }), &h_is_there);
}

/* All of them have the heap, one after the other, and none loses what another has stored. */
TEST_F(File, OpenOrCreate_ByManyProcessesAtOnce_MakesOneHeap)
{
	constexpr int PROCESSES = 6;
	fur::Options o = small_options();
	o.open = FUR_OPEN_OR_CREATE;
	std::vector<pid_t> children;
	for (int k = 0; k < PROCESSES; k++) {
		const pid_t child = fork();
		ASSERT_GE(child, 0);
		if (child)
			children.push_back(child);
		else
			_exit(add_one(o));
	}
	for (pid_t child : children) {
		int status;
		waitpid(child, &status, 0);
		EXPECT_EQ(status, 0);
	}
	fur::Heap h = open();
	fur::Thread self(h);
	EXPECT_EQ(fur::read(self, [](fur_ro *tx) { return fur_root(tx, 1); }),
	        reinterpret_cast<void *>(PROCESSES));
}

TEST_F(File, Pmem_WhereThereIsNone_IsRefused)
{
	make();
	fur::Options o = small_options();
	o.pm = FUR_PM_PMEM;
	EXPECT_EQ(open_result(o), FUR_EINVAL);
}

} // namespace
