/* SPDX-License-Identifier: BSD-3-Clause
 *
 * life_test.cpp - groups are created, opened and closed; heaps join and leave; what is refused.
 */
#include "../version_1.hpp"
#include "group_dir.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <sys/syscall.h>
#include <thread>

/* Of the group's file, the replacement from now on that fails; 0: none. */
static unsigned replacement_fails;

/* In the system's place. */
extern "C" int renameat2(
        int from_fd, const char *from, int to_fd, const char *to, unsigned flags) noexcept
{
	if (!flags && replacement_fails && !--replacement_fails) {
		errno = ENOSPC;
		return -1;
	}
	return static_cast<int>(syscall(SYS_renameat2, from_fd, from, to_fd, to, flags));
}

namespace
{

class Group : public GroupDir
{
protected:
	/* Descriptors and mappings that this process has of files in the directory. */
	long held() const
	{
		long n = 0;
		for (const auto &fd : std::filesystem::directory_iterator("/proc/self/fd")) {
			std::error_code gone; /* that of the iterator itself */
			n += std::filesystem::read_symlink(fd, gone).string().starts_with(dir_);
		}
		std::ifstream maps("/proc/self/maps");
		for (std::string line; std::getline(maps, line);)
			n += line.find(dir_) != std::string::npos;
		return n;
	}
};

TEST_F(Group, WithoutMembers_IsThereAgain)
{
	create();
	EXPECT_EQ(fur_group_members(group_), 0u);
	EXPECT_EQ(fur_group_heap(group_, 0), nullptr);
	close();
	open();
	EXPECT_EQ(fur_group_members(group_), 0u);
}

TEST_F(Group, ItsMembersKeepWhatTheyHave)
{
	create(3);
	for (unsigned k = 0; k < 3; k++)
		put(k, 10 + k);
	close();
	open();
	ASSERT_EQ(fur_group_members(group_), 3u);
	for (unsigned k = 0; k < 3; k++)
		EXPECT_EQ(get(k), 10 + k);
}

TEST_F(Group, AMemberOpensAlone_AndIsAMemberStill)
{
	create(2);
	put(1, 5);
	close();
	{
		fur::Heap alone = fur::Heap::open(heap_name(1), small_options());
		EXPECT_EQ(get(alone), 5u);
		fur::Thread self(alone);
		fur::update(self, [&](fur_update *tx) {
			fur_store(tx, static_cast<uint64_t *>(fur_root(tx, 0)), uint64_t{6});
		});
	}
	open();
	EXPECT_EQ(get(1), 6u);
}

TEST_F(Group, FurCloseOfAMember_IsRefused)
{
	create(1);
	EXPECT_EQ(fur_close(fur_group_heap(group_, 0)), FUR_EBUSY);
	EXPECT_TRUE(message_has("fur_group_close")) << fur_errormsg();
	put(0, 1);
}

TEST_F(Group, OpenTwice_IsRefused)
{
	create(1);
	fur_group *twice;
	EXPECT_EQ(fur_group_open(group_path().c_str(), nullptr, &twice), FUR_EBUSY);
	EXPECT_EQ(twice, nullptr);
	EXPECT_TRUE(message_has("the group is open")) << fur_errormsg();
	run_in_child([&] {
		EXPECT_EQ(fur_group_open(group_path().c_str(), nullptr, &twice), FUR_EBUSY);
	});
	add_new(1); /* which replaces the file: it is locked still */
	EXPECT_EQ(fur_group_open(group_path().c_str(), nullptr, &twice), FUR_EBUSY);
}

TEST_F(Group, WithAMemberThatIsOpenElsewhere_IsRefusedAndUnchanged)
{
	create(2);
	close();
	{
		fur::Heap alone = fur::Heap::open(heap_name(1), small_options());
		EXPECT_EQ(try_open(), FUR_EBUSY);
		EXPECT_TRUE(message_has("heap1")) << fur_errormsg();
	}
	open();
}

TEST_F(Group, Close_IsRefusedWhileAThreadIsRegistered)
{
	create(2);
	fur_group_thread *self;
	ASSERT_EQ(fur_group_register(group_, &self), 0);
	EXPECT_EQ(fur_group_close(group_), FUR_EBUSY);
	EXPECT_TRUE(message_has("fur_group_unregister")) << fur_errormsg();
	ASSERT_EQ(fur_group_unregister(self), 0);
	fur_thread *t;
	ASSERT_EQ(fur_thread_register(fur_group_heap(group_, 1), nullptr, &t), 0);
	EXPECT_EQ(fur_group_close(group_), FUR_EBUSY);
	EXPECT_TRUE(message_has("heap1")) << fur_errormsg();
	ASSERT_EQ(fur_thread_unregister(t), 0);
}

TEST_F(Group, AThreadThatEnds_EndsItsRegistration)
{
	create(1);
	std::thread([&] {
		fur_group_thread *self;
		fur_thread *t;
		ASSERT_EQ(fur_group_register(group_, &self), 0);
		ASSERT_EQ(fur_group_thread_of(self, 0, &t), 0);
	}).join();
	close();
}

TEST_F(Group, ARegistration_IsOneForEachThread_AndForItAlone)
{
	create(1);
	fur_group_thread *self, *again;
	fur_thread *t;
	ASSERT_EQ(fur_group_register(group_, &self), 0);
	ASSERT_EQ(fur_group_register(group_, &again), 0);
	EXPECT_EQ(self, again);
	EXPECT_EQ(fur_group_thread_of(self, 1, &t), FUR_EINVAL);
	EXPECT_EQ(fur_group_thread_of(self, FUR_GROUP_MOST_MEMBERS, &t), FUR_EINVAL);
	std::thread([&] {
		fur_thread *other;
		EXPECT_EQ(fur_group_thread_of(self, 0, &other), FUR_EINVAL);
		EXPECT_EQ(fur_group_unregister(self), FUR_EINVAL);
	}).join();
	ASSERT_EQ(fur_group_thread_of(self, 0, &t), 0);
	fur_ro *ro;
	ASSERT_EQ(fur_begin_ro(t, &ro), 0);
	EXPECT_EQ(fur_group_unregister(self), FUR_ENESTED);
	EXPECT_EQ(fur_end_ro(ro, nullptr), 0);
	EXPECT_EQ(fur_group_unregister(self), 0) << fur_errormsg();
	EXPECT_EQ(fur_group_unregister(nullptr), FUR_EINVAL);
}

TEST_F(Group, BadArguments_AreRefused)
{
	fur_group *g;
	unsigned member;
	fur_group_options o = {};
	o.size = sizeof o;
	EXPECT_EQ(fur_group_create(nullptr, nullptr, &g), FUR_EINVAL);
	EXPECT_EQ(fur_group_open(group_path().c_str(), nullptr, &g), FUR_ENOENT);
	for (uint32_t most : {1u, 257u}) {
		o.most_members = most;
		EXPECT_EQ(fur_group_create(group_path().c_str(), &o, &g), FUR_EINVAL) << most;
	}
	EXPECT_EQ(fur_group_create(in_dir("none/a.group").c_str(), nullptr, &g), FUR_ESYS);
	EXPECT_TRUE(message_has("none/a.group")) << fur_errormsg();
	create();
	EXPECT_EQ(fur_group_create(group_path().c_str(), nullptr, &g), FUR_EEXIST);
	EXPECT_EQ(fur_group_add(group_, heap_name(0).c_str(), nullptr, &member), FUR_ENOENT);
	EXPECT_EQ(
	        fur_group_add(group_, (dir_ + "/none/heap").c_str(), nullptr, &member), FUR_ENOENT);
	EXPECT_EQ(fur_group_remove(group_, 0), FUR_EINVAL);
	EXPECT_EQ(fur_group_close(nullptr), FUR_EINVAL);
	g = group_;
	close();
	EXPECT_EQ(fur_group_close(g), FUR_EINVAL) << "closed before";
}

TEST_F(Group, HasAsManyMembersAsItWasMadeFor)
{
	create(2, 2);
	unsigned member;
	fur::Options o = small_options();
	EXPECT_EQ(fur_group_add(group_, heap_name(2).c_str(), &o, &member), FUR_ENOSPC);
	EXPECT_NE(access(heap_name(2).c_str(), F_OK), 0);
	ASSERT_EQ(fur_group_remove(group_, 0), 0) << fur_errormsg();
	EXPECT_EQ(fur_group_add(group_, heap_name(2).c_str(), &o, &member), FUR_ENOSPC)
	        << "an index is never another's";
}

TEST_F(Group, SixtyFourMembers)
{
	create(64);
	close();
	open();
	ASSERT_EQ(fur_group_members(group_), 64u);
	fur_group_thread *self;
	ASSERT_EQ(fur_group_register(group_, &self), 0);
	for (unsigned k = 0; k < 64; k++) {
		fur_thread *t;
		ASSERT_EQ(fur_group_thread_of(self, k, &t), 0) << fur_errormsg();
	}
	ASSERT_EQ(fur_group_unregister(self), 0);
}

/* ------------------------------------------------------------------ not closed */

TEST_F(Group, ThatWasNotClosed_IsRecovered)
{
	create(3);
	close();
	run_in_child([&] {
		open();
		for (unsigned k = 0; k < 3; k++)
			put(k, 20 + k);
		_exit(0);
	});
	{
		/* One of them alone: no update needs another. */
		fur::Heap alone = fur::Heap::open(heap_name(1), small_options());
		EXPECT_EQ(get(alone), 21u);
	}
	open();
	for (unsigned k = 0; k < 3; k++) {
		EXPECT_EQ(get(k), 20 + k);
		fur_info info;
		info.size = sizeof info;
		ASSERT_EQ(fur_get_info(fur_group_heap(group_, k), &info), 0);
		EXPECT_EQ(info.recovered, k != 1);
	}
}

/* The two that are there are opened, and the group is whole again. */
TEST_F(Group, ThatWasNotClosed_OpensWithoutAMember)
{
	create(3);
	close();
	run_in_child([&] {
		open();
		for (unsigned k = 0; k < 3; k++)
			put(k, 20 + k);
		_exit(0);
	});
	std::filesystem::rename(heap_name(1), in_dir("away"));
	EXPECT_EQ(try_open(), FUR_ENOENT);
	open(true);
	EXPECT_EQ(get(0u), 20u);
	put(2, 30);
	close();
	std::filesystem::rename(in_dir("away"), heap_name(1));
	open();
	EXPECT_EQ(get(1), 21u);
	EXPECT_EQ(get(2), 30u);
}

TEST_F(Group, AMissingMemberIsRemoved)
{
	create(3);
	put(1, 4);
	close();
	std::filesystem::rename(heap_name(1), in_dir("away"));
	open(true);
	ASSERT_EQ(fur_group_remove(group_, 1), 0) << fur_errormsg();
	close();
	open();
	EXPECT_EQ(fur_group_heap(group_, 1), nullptr);
	unsigned member;
	ASSERT_EQ(fur_group_add(group_, in_dir("away").c_str(), nullptr, &member), 0)
	        << fur_errormsg();
	EXPECT_EQ(get(member), 4u);
}

/* ------------------------------------------------------------------ joining */

TEST_F(Group, AnOldHeapJoins_AndKeepsWhatItHas)
{
	{
		fur::Heap old = fur::Heap::create(heap_name(0), small_options());
		fur::Thread self(old);
		block_in_root(self, 8, 0);
	}
	create();
	unsigned member;
	ASSERT_EQ(fur_group_add(group_, heap_name(0).c_str(), nullptr, &member), 0)
	        << fur_errormsg();
	put(0, 7);
	close();
	open();
	EXPECT_EQ(get(0u), 7u);
}

TEST_F(Group, AHeapThatIsOpen_DoesNotJoin)
{
	fur::Heap old = fur::Heap::create(heap_name(0), small_options());
	create();
	unsigned member;
	EXPECT_EQ(fur_group_add(group_, heap_name(0).c_str(), nullptr, &member), FUR_EBUSY);
	EXPECT_EQ(fur_group_members(group_), 0u);
}

TEST_F(Group, AHeapThatWasNotClosed_DoesNotJoin)
{
	run_in_child([&] {
		auto *old = new fur::Heap(fur::Heap::create(heap_name(0), small_options()));
		fur::Thread self(*old);
		block_in_root(self, 8, 0);
		_exit(0);
	});
	create();
	unsigned member;
	EXPECT_EQ(fur_group_add(group_, heap_name(0).c_str(), nullptr, &member), FUR_EBUSY);
	EXPECT_TRUE(message_has("fur-replayer")) << fur_errormsg();
}

/* A heap gets a role; or the error that says why not. */
int write_role(const std::string &path, uint32_t role)
{
	heap_file file;
	media_ship ship = {};
	ship.role = role;
	snprintf(ship.log, sizeof ship.log, "file:/none");
	int error = heap_open_file(path.c_str(), HEAP_LOCK_WORKER, &file);
	if (error)
		return error;
	error = heap_write_ship_page(&file, &ship);
	heap_close_file(&file);
	return error;
}

TEST_F(Group, AHeapWithARole_DoesNotJoin_AndAMemberGetsNone)
{
	create();
	unsigned member;
	fur::Heap::create(heap_name(0), small_options()).close();
	for (uint32_t role : {MEDIA_PRIMARY, MEDIA_STANDBY}) {
		ASSERT_EQ(write_role(heap_name(0), role), 0) << fur_errormsg();
		EXPECT_EQ(
		        fur_group_add(group_, heap_name(0).c_str(), nullptr, &member), FUR_EINVAL);
		EXPECT_TRUE(message_has("fur-ship --detach")) << fur_errormsg();
		ASSERT_EQ(write_role(heap_name(0), MEDIA_NO_ROLE), 0) << fur_errormsg();
	}
	ASSERT_EQ(fur_group_add(group_, heap_name(0).c_str(), nullptr, &member), 0)
	        << fur_errormsg();
	close();
	EXPECT_EQ(write_role(heap_name(0), MEDIA_PRIMARY), FUR_EINVAL);
	EXPECT_TRUE(message_has("fur-group remove")) << fur_errormsg();
	open();
	ASSERT_EQ(fur_group_remove(group_, 0), 0) << fur_errormsg();
	EXPECT_EQ(write_role(heap_name(0), MEDIA_PRIMARY), 0) << fur_errormsg();
}

TEST_F(Group, AnOldOrTooLongHeap_DoesNotJoin)
{
	create();
	unsigned member;
	fur::Options o = small_options();
	fur::Heap::create(heap_name(0), o).close();
	make_version_1(heap_name(0));
	EXPECT_EQ(fur_group_add(group_, heap_name(0).c_str(), nullptr, &member), FUR_EVERSION);
	EXPECT_TRUE(message_has("version 1")) << fur_errormsg();
	o.ring_slots = 524288;
	EXPECT_EQ(fur_group_add(group_, heap_name(1).c_str(), &o, &member), FUR_EINVAL);
	EXPECT_TRUE(message_has("262144")) << fur_errormsg();
	EXPECT_NE(access(heap_name(1).c_str(), F_OK), 0);
	EXPECT_EQ(fur_group_members(group_), 0u);
}

/* What a member has noted of a group that it left does not count in the next. */
TEST_F(Group, AHeapThatJoinsAgain_HasEmptyNotes)
{
	create(2);
	ASSERT_EQ(fur_group_remove(group_, 1), 0) << fur_errormsg();
	const std::vector<char> noise(MEDIA_PAGE_BYTES - MEDIA_GROUP_OFFSET, 'x');
	std::fstream(heap_name(1), std::ios::in | std::ios::out | std::ios::binary)
	        .seekp(MEDIA_GROUP_OFFSET)
	        .write(noise.data(), static_cast<std::streamsize>(noise.size()));
	unsigned member;
	ASSERT_EQ(fur_group_add(group_, heap_name(1).c_str(), nullptr, &member), 0)
	        << fur_errormsg();
	close();
	EXPECT_EQ(text_of(heap_name(1)).substr(MEDIA_GROUP_OFFSET, noise.size()).find('x'),
	        std::string::npos);
	open();
}

TEST_F(Group, AMemberAndItsCopy_DoNotJoinAgain)
{
	create(2);
	const std::string copy = in_dir("copy");
	ASSERT_EQ(fur_backup(fur_group_heap(group_, 1), copy.c_str()), 0) << fur_errormsg();
	unsigned member;
	EXPECT_EQ(fur_group_add(group_, copy.c_str(), nullptr, &member), FUR_EGROUP);
	EXPECT_TRUE(message_has("member 1")) << fur_errormsg();
	close();
	fur_group *other;
	ASSERT_EQ(fur_group_create(in_dir("other.group").c_str(), nullptr, &other), 0);
	EXPECT_EQ(fur_group_add(other, heap_name(0).c_str(), nullptr, &member), FUR_EGROUP);
	EXPECT_TRUE(message_has("another group")) << fur_errormsg();
	EXPECT_EQ(fur_group_close(other), 0);
	open();
}

TEST_F(Group, APathWithStrangeLetters)
{
	create();
	const std::string name = " a%\n\xc3\xa9 ";
	unsigned member;
	fur::Options o = small_options();
	ASSERT_EQ(fur_group_add(group_, in_dir(name).c_str(), &o, &member), 0) << fur_errormsg();
	close();
	EXPECT_NE(text_of(group_path()).find("  a%25%0a\xc3\xa9 \n"), std::string::npos)
	        << text_of(group_path());
	open();
	EXPECT_NE(fur_group_heap(group_, 0), nullptr);
}

TEST_F(Group, ItsDirectoryMoves)
{
	create(2);
	put(1, 3);
	close();
	const std::string moved = dir_ + "-moved";
	std::filesystem::rename(dir_, moved);
	dir_ = moved;
	open();
	EXPECT_EQ(get(1), 3u);
}

/* ------------------------------------------------------------------ leaving */

TEST_F(Group, AMemberLeaves_AndIsAHeapLikeAnyOther)
{
	create(3);
	put(1, 9);
	ASSERT_EQ(fur_group_remove(group_, 1), 0) << fur_errormsg();
	EXPECT_EQ(fur_group_heap(group_, 1), nullptr);
	EXPECT_EQ(fur_group_members(group_), 3u);
	EXPECT_EQ(fur_group_remove(group_, 1), FUR_EINVAL);
	{
		fur::Heap alone = fur::Heap::open(heap_name(1), small_options());
		EXPECT_EQ(get(alone), 9u);
	}
	unsigned member;
	ASSERT_EQ(fur_group_add(group_, heap_name(1).c_str(), nullptr, &member), 0)
	        << fur_errormsg();
	EXPECT_EQ(member, 3u) << "an index is never another's";
	close();
	open();
	EXPECT_EQ(get(3), 9u);
}

TEST_F(Group, AMemberInUse_DoesNotLeave)
{
	create(2);
	fur_group_thread *self;
	fur_thread *t, *other;
	ASSERT_EQ(fur_group_register(group_, &self), 0);
	ASSERT_EQ(fur_group_thread_of(self, 0, &t), 0);
	EXPECT_EQ(fur_group_remove(group_, 0), FUR_EBUSY);
	fur_ro *ro;
	ASSERT_EQ(fur_begin_ro(t, &ro), 0);
	EXPECT_EQ(fur_group_remove(group_, 1), FUR_ENESTED);
	EXPECT_EQ(fur_end_ro(ro, nullptr), 0);
	EXPECT_EQ(fur_group_remove(group_, 1), 0) << fur_errormsg();
	EXPECT_EQ(fur_group_thread_of(self, 1, &other), FUR_EINVAL);
	EXPECT_EQ(fur_group_unregister(self), 0);
}

/* An update of nothing; a thread that has ended its registration begins another one. */
int touch_all(fur_group_thread *self, const std::vector<unsigned> &members)
{
	return group_run(self, members, [](fur_group_update *) {});
}

/* INV-GM4: their registrations end again and again, and each gets the index of another. */
TEST_F(Group, AMemberLeaves_WhileThreadsTouchIt)
{
	create(2);
	std::atomic<unsigned> touched = 0;
	auto touch = [&] {
		fur_group_thread *self;
		fur_thread *t;
		int error;
		ASSERT_EQ(fur_group_register(group_, &self), 0);
		while ((error = touch_all(self, {0, 1})) == 0) {
			touched++;
			ASSERT_EQ(fur_group_thread_of(self, 1, &t), 0) << fur_errormsg();
			ASSERT_EQ(fur_thread_unregister(t), 0) << fur_errormsg();
			std::this_thread::yield();
		}
		EXPECT_EQ(error, FUR_EINVAL) << fur_errormsg();
		EXPECT_EQ(touch_all(self, {0}), 0) << fur_errormsg();
	};
	/* Orders itself by nothing else, so ThreadSanitizer sees if the load races the removal. */
	auto look = [&] {
		while (fur_group_heap(group_, 1))
			std::this_thread::yield();
	};
	std::thread threads[] = {std::thread(touch), std::thread(touch), std::thread(look)};
	while (touched < 1000)
		std::this_thread::yield();
	int error;
	while ((error = fur_group_remove(group_, 1)) == FUR_EBUSY)
		std::this_thread::yield();
	EXPECT_EQ(error, 0) << fur_errormsg();
	for (std::thread &t : threads)
		t.join();
}

/* Of what it was registered with, the first part of its last update. */
TEST_F(Group, AThreadEnds_WhenAMemberHasLeft)
{
	create(2);
	std::atomic<bool> ended = false, left = false;
	std::thread other([&] {
		fur_group_thread *self;
		fur_thread *t;
		ASSERT_EQ(fur_group_register(group_, &self), 0);
		EXPECT_EQ(touch_all(self, {0, 1}), 0) << fur_errormsg();
		EXPECT_EQ(fur_group_thread_of(self, 0, &t), 0);
		EXPECT_EQ(fur_thread_unregister(t), 0) << fur_errormsg();
		ended = true;
		while (!left)
			std::this_thread::yield();
	});
	while (!ended)
		std::this_thread::yield();
	EXPECT_EQ(fur_group_remove(group_, 0), 0) << fur_errormsg();
	left = true;
	other.join();
	close();
}

/* It is a heap like any other then: another group takes it. */
TEST_F(Group, AMemberThatCouldNotLeave_LeavesAtTheNextTry)
{
	create(4);
	fur_group *other;
	unsigned member;
	fur_group_thread *self;
	fur_thread *t;
	ASSERT_EQ(fur_group_create(in_dir("other.group").c_str(), nullptr, &other), 0);
	ASSERT_EQ(fur_group_register(group_, &self), 0);
	/* The group's file cannot be replaced: when the heap is to leave, or when it has. */
	for (unsigned k : {1u, 2u}) {
		replacement_fails = k;
		EXPECT_EQ(fur_group_remove(group_, k), FUR_ENOSPC);
		EXPECT_TRUE(message_has("bank.group")) << fur_errormsg();
		EXPECT_EQ(fur_group_thread_of(self, k, &t), FUR_EINVAL);
		EXPECT_TRUE(message_has("leaves the group")) << fur_errormsg();
		EXPECT_EQ(fur_group_remove(group_, k), 0) << fur_errormsg();
		EXPECT_EQ(fur_group_add(other, heap_name(k).c_str(), nullptr, &member), 0)
		        << fur_errormsg();
		EXPECT_EQ(fur_group_remove(group_, k), FUR_EINVAL);
	}
	/* The member's file is away. */
	std::filesystem::rename(heap_name(3), in_dir("away"));
	EXPECT_EQ(fur_group_remove(group_, 3), FUR_ENOENT);
	EXPECT_TRUE(message_has("heap3")) << fur_errormsg();
	std::filesystem::rename(in_dir("away"), heap_name(3));
	EXPECT_EQ(fur_group_remove(group_, 3), 0) << fur_errormsg();
	EXPECT_EQ(fur_group_add(other, heap_name(3).c_str(), nullptr, &member), 0)
	        << fur_errormsg();
	EXPECT_EQ(fur_group_unregister(self), 0) << fur_errormsg();
	EXPECT_EQ(fur_group_close(other), 0) << fur_errormsg();
}

/* Its log is kept, and only the group can replay it. */
TEST_F(Group, AMemberWhoseCloseFails_DoesNotLeave)
{
	create(2);
	put(1, 5);
	durability_fail(&fur_group_heap(group_, 1)->durability, FUR_EIO);
	EXPECT_EQ(fur_group_remove(group_, 1), FUR_EIO);
	EXPECT_TRUE(message_has("heap1")) << fur_errormsg();
	EXPECT_EQ(fur_group_remove(group_, 1), FUR_EBUSY);
	EXPECT_TRUE(message_has("heap1")) << fur_errormsg();
	close();
	open();
	EXPECT_EQ(get(1), 5u);
	EXPECT_EQ(fur_group_remove(group_, 1), 0) << fur_errormsg();
}

TEST_F(Group, OfMembersWhoseCloseFails_TheLowestIsNamed)
{
	create(4);
	for (unsigned k : {3u, 1u, 2u})
		durability_fail(&fur_group_heap(group_, k)->durability, FUR_EIO);
	EXPECT_EQ(fur_group_close(std::exchange(group_, nullptr)), FUR_EIO);
	EXPECT_TRUE(message_has("heap1: ")) << fur_errormsg();
	open();
}

/* ------------------------------------------------------------------ missing */

TEST_F(Group, AMemberIsMissing)
{
	create(3);
	close();
	std::filesystem::rename(heap_name(1), in_dir("away"));
	EXPECT_EQ(try_open(), FUR_ENOENT);
	EXPECT_TRUE(message_has("heap1") && message_has("member 1")) << fur_errormsg();
	open(true);
	EXPECT_EQ(fur_group_heap(group_, 1), nullptr);
	EXPECT_EQ(fur_group_members(group_), 3u);
	fur_group_thread *self;
	fur_thread *t;
	ASSERT_EQ(fur_group_register(group_, &self), 0);
	EXPECT_EQ(fur_group_thread_of(self, 1, &t), FUR_ENOENT);
	EXPECT_TRUE(message_has("heap1")) << fur_errormsg();
	ASSERT_EQ(fur_group_unregister(self), 0);
	put(0, 1);
	close();
	std::filesystem::rename(in_dir("away"), heap_name(1));
	open();
}

TEST_F(Group, AnotherHeapInAMembersPlace_IsRefused)
{
	create(2);
	close();
	std::filesystem::rename(heap_name(1), in_dir("away"));
	std::filesystem::copy(heap_name(0), heap_name(1));
	EXPECT_EQ(try_open(), FUR_EGROUP);
	EXPECT_TRUE(message_has("heap1") && message_has("fur-group rebuild")) << fur_errormsg();
	std::filesystem::remove(heap_name(1));
	fur::Heap::create(heap_name(1), small_options());
	EXPECT_EQ(try_open(), FUR_EGROUP);
	EXPECT_TRUE(message_has("is in no group")) << fur_errormsg();
	EXPECT_EQ(try_open(true), FUR_EGROUP);
	std::filesystem::rename(in_dir("away"), heap_name(1));
	open();
}

/* ---------------------------------------------------------- several that fail */

/* Something stands in the way of a heap, while this lives: so it opens with `error`. */
class Trouble
{
public:
	Trouble(int error, const std::string &heap) : error_(error), heap_(heap)
	{
		if (error_ == FUR_EBUSY) {
			EXPECT_EQ(heap_open_file(heap_.c_str(), HEAP_LOCK_WORKER, &file_), 0);
			return;
		}
		std::filesystem::rename(heap_, heap_ + "-away");
		if (error_ == FUR_ENOTHEAP)
			put_text(heap_, "no heap");
	}
	~Trouble()
	{
		if (error_ == FUR_EBUSY)
			heap_close_file(&file_);
		else
			std::filesystem::rename(heap_ + "-away", heap_);
	}
	Trouble(const Trouble &) = delete;

private:
	int error_;
	std::string heap_;
	heap_file file_;
};

/* They are opened beside each other: whichever fails first, the error is the lowest one's. */
TEST_F(Group, OfMembersThatFail_TheLowestIsNamed_AndNoneStaysOpen)
{
	create(6);
	for (unsigned k = 0; k < 6; k++)
		put(k, 10 + k);
	close();
	std::array errors = {FUR_ENOENT, FUR_ENOTHEAP, FUR_EBUSY};
	std::ranges::sort(errors);
	do {
		{
			const Trouble first(errors[0], heap_name(1)), next(errors[1], heap_name(3)),
			        last(errors[2], heap_name(4));
			const long before = held();
			EXPECT_EQ(try_open(), errors[0]);
			EXPECT_TRUE(message_has("heap1:")) << fur_errormsg();
			EXPECT_EQ(held(), before);
			for (unsigned k : {0u, 2u, 5u})
				fur::Heap::open(heap_name(k), small_options());
		}
		open();
		for (unsigned k = 0; k < 6; k++)
			EXPECT_EQ(get(k), 10 + k);
		close();
		EXPECT_EQ(held(), 0);
	} while (std::ranges::next_permutation(errors).found);
}

TEST_F(Group, TwoMembersAreOneFile_TheSecondIsNamed)
{
	create(3);
	close();
	std::filesystem::rename(heap_name(2), in_dir("away"));
	std::filesystem::create_hard_link(heap_name(0), heap_name(2));
	for (int n = 0; n < 5; n++) {
		EXPECT_EQ(try_open(), FUR_EBUSY);
		EXPECT_TRUE(message_has("heap2:") && message_has("twice in this one"))
		        << fur_errormsg();
		EXPECT_EQ(held(), 0);
	}
	std::filesystem::rename(in_dir("away"), heap_name(2));
	open();
}

/* --------------------------------------------------------------------- fork */

TEST_F(Group, AChildOnlyClosesItsCopy)
{
	create(2);
	put(0, 1);
	fur_group_thread *self;
	ASSERT_EQ(fur_group_register(group_, &self), 0);
	run_in_child([&] {
		fur_thread *t;
		fur_group_thread *own;
		unsigned member;
		EXPECT_EQ(fur_group_thread_of(self, 0, &t), FUR_EFORK);
		EXPECT_EQ(fur_group_register(group_, &own), FUR_EFORK);
		EXPECT_EQ(fur_group_unregister(self), FUR_EFORK);
		EXPECT_EQ(fur_group_remove(group_, 0), FUR_EFORK);
		EXPECT_EQ(fur_group_add(group_, heap_name(0).c_str(), nullptr, &member), FUR_EFORK);
		EXPECT_EQ(fur_group_close(group_), 0) << fur_errormsg();
	});
	ASSERT_EQ(fur_group_unregister(self), 0);
	put(0, 2);
	EXPECT_EQ(get(0u), 2u);
}

} // namespace
