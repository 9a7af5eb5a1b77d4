/* SPDX-License-Identifier: BSD-3-Clause
 *
 * file_test.cpp - files that are not heaps, or no longer, or not ours: one clear error, and the file as it was.
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
	for (off_t length : {off_t(896), off_t(4096), off_t(65536), static_cast<off_t>(super().file_bytes - 1)}) {
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
	for (uint64_t offset = 0; offset < offsetof(media_super, gap0); offset++)
		for (unsigned bit = 0; bit < 8; bit++) {
			flip_bit(offset, bit);
			fur_heap *h;
			fur::Options o = small_options();
			ASSERT_NE(fur_open(path_.c_str(), &o, &h), 0) << "byte " << offset << " bit " << bit;
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
	void *there = mmap(
	        reinterpret_cast<void *>(s.address), 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
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

TEST_F(File, Create_OnAFullDisk_LeavesNothing)
{
	/* The file size limit stands in for the disk: fallocate fails as it does there. */
	in_killed_child([&] {
		rlimit small = {100000, 100000};
		setrlimit(RLIMIT_FSIZE, &small);
		signal(SIGXFSZ, SIG_IGN);
		fur::Options o = small_options();
		fur_heap *h;
		EXPECT_EQ(fur_create(path_.c_str(), &o, &h), FUR_ENOSPC) << fur_errormsg();
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

TEST_F(File, Environment_OverridesAndIsChecked)
{
	make();
	setenv("FUR_HTM", "none", 1);
	setenv("FUR_PM", "sync", 1);
	{
		fur::Heap h = open();
		EXPECT_EQ(h.info().htm, FUR_HTM_NONE);
		EXPECT_EQ(h.info().pm, FUR_PM_SYNC);
	}
	setenv("FUR_PM", "nonsense", 1);
	EXPECT_EQ(open_result(), FUR_EINVAL);
	unsetenv("FUR_PM");
	unsetenv("FUR_HTM");
}

TEST_F(File, Pmem_WhereThereIsNone_IsRefused)
{
	make();
	fur::Options o = small_options();
	o.pm = FUR_PM_PMEM;
	EXPECT_EQ(open_result(o), FUR_EINVAL);
}

} // namespace
