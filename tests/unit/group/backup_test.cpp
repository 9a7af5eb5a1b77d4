/* SPDX-License-Identifier: BSD-3-Clause
 *
 * backup_test.cpp - copies of a whole group, also while threads update its members; and the gate
 * that makes them one set.
 */
#include "group_dir.hpp"
#include "internals.hpp"

#include <atomic>
#include <thread>

namespace
{

class GroupBackup : public GroupDir
{
protected:
	std::string copy_path(const std::string &name) const
	{
		return in_dir(name) + "/bank.group";
	}
	void open_copy(const std::string &name)
	{
		fur_group_options o = {};
		fur::Options heap = small_options();
		o.size = sizeof o;
		o.heap = &heap;
		ASSERT_EQ(fur_group_open(copy_path(name).c_str(), &o, &group_), 0)
		        << fur_errormsg();
	}
};

TEST_F(GroupBackup, IsAGroupOfItsOwn)
{
	create(3);
	for (unsigned k = 0; k < 3; k++)
		put(k, k + 1);
	ASSERT_EQ(fur_group_remove(group_, 1), 0);
	ASSERT_EQ(fur_group_backup(group_, in_dir("copy").c_str()), 0) << fur_errormsg();
	put(0, 9);
	close();
	open_copy("copy");
	ASSERT_EQ(fur_group_members(group_), 3u);
	EXPECT_EQ(get(0u), 1u);
	EXPECT_EQ(fur_group_heap(group_, 1), nullptr);
	EXPECT_EQ(get(2), 3u);
}

TEST_F(GroupBackup, MembersOfOneName_GetTwo)
{
	create();
	unsigned member;
	fur::Options o = small_options();
	for (const char *place : {"a", "b", "."}) {
		std::filesystem::create_directories(in_dir(place));
		ASSERT_EQ(fur_group_add(group_, in_dir(std::string(place) + "/heap").c_str(), &o,
		                  &member),
		        0)
		        << fur_errormsg();
		put(member, member + 1);
	}
	ASSERT_EQ(fur_group_backup(group_, in_dir("copy").c_str()), 0) << fur_errormsg();
	close();
	open_copy("copy");
	for (unsigned k = 0; k < 3; k++)
		EXPECT_EQ(get(k), k + 1);
}

TEST_F(GroupBackup, WhatIsInTheWay_IsNamedAndLeft)
{
	create(2);
	put_text(in_dir("file"), "x");
	EXPECT_EQ(fur_group_backup(group_, in_dir("file").c_str()), FUR_ESYS);
	EXPECT_EQ(fur_group_backup(group_, dir_.c_str()), FUR_EEXIST);
	std::filesystem::create_directory(in_dir("copy"));
	put_text(in_dir("copy/heap1"), "x");
	EXPECT_EQ(fur_group_backup(group_, in_dir("copy").c_str()), FUR_EEXIST);
	EXPECT_TRUE(message_has("copy/heap1")) << fur_errormsg();
	EXPECT_EQ(text_of(in_dir("copy/heap1")), "x");
	EXPECT_NE(access(copy_path("copy").c_str(), F_OK), 0);
	std::filesystem::remove_all(in_dir("copy"));
	EXPECT_EQ(fur_group_backup(group_, in_dir("copy").c_str()), 0) << fur_errormsg();
	fur_group_thread *self;
	fur_thread *t;
	fur_ro *ro;
	ASSERT_EQ(fur_group_register(group_, &self), 0);
	ASSERT_EQ(fur_group_thread_of(self, 0, &t), 0);
	ASSERT_EQ(fur_begin_ro(t, &ro), 0);
	EXPECT_EQ(fur_group_backup(group_, in_dir("other").c_str()), FUR_ENESTED);
	EXPECT_EQ(fur_end_ro(ro, nullptr), 0);
	ASSERT_EQ(fur_group_unregister(self), 0);
}

TEST_F(GroupBackup, OfAGroupWithoutAMember_IsRefused)
{
	create(2);
	close();
	std::filesystem::remove(heap_name(1));
	open(true);
	EXPECT_EQ(fur_group_backup(group_, in_dir("copy").c_str()), FUR_ENOENT);
	EXPECT_TRUE(message_has("heap1")) << fur_errormsg();
}

/* An update of member `k` alone that adds to its number. */
void add(fur_group_thread *self, unsigned k, uint64_t much)
{
	fur_thread *t;
	ASSERT_EQ(fur_group_thread_of(self, k, &t), 0) << fur_errormsg();
	fur::update(t, [&](fur_update *tx) {
		auto *p = static_cast<uint64_t *>(fur_root(tx, 0));
		fur_store(tx, p, fur_load(tx, p) + much);
	});
}

/* What happens between enter and leave is in all copies, or in none: here two updates. */
TEST_F(GroupBackup, WhileThreadsUpdate_IsOneState)
{
	constexpr unsigned MEMBERS = 3, COPIES = 4;
	constexpr uint64_t ALL = 1000;
	create(MEMBERS + 1);
	for (unsigned k = 0; k < MEMBERS; k++)
		put(k, k ? 0 : ALL);
	put(MEMBERS, 0);
	std::atomic<bool> end{false};
	std::atomic<uint64_t> alone{0}, moves{0};
	std::vector<std::thread> threads;
	for (unsigned n = 0; n < 2; n++)
		threads.emplace_back([&, n] {
			fur_group_thread *self;
			ASSERT_EQ(fur_group_register(group_, &self), 0);
			for (unsigned k = n; !end; k++, moves++) {
				group_gate_enter(self);
				add(self, k % MEMBERS, uint64_t(0) - 1);
				add(self, (k + 1) % MEMBERS, 1);
				group_gate_leave(self);
			}
			ASSERT_EQ(fur_group_unregister(self), 0);
		});
	threads.emplace_back([&] {
		fur_group_thread *self;
		ASSERT_EQ(fur_group_register(group_, &self), 0);
		for (; !end; alone++)
			add(self, MEMBERS, 1);
		ASSERT_EQ(fur_group_unregister(self), 0);
	});
	uint64_t before[COPIES];
	for (unsigned c = 0; c < COPIES; c++) {
		const uint64_t moved = moves;
		while (moves == moved || alone == 0)
			usleep(1000);
		before[c] = alone;
		ASSERT_EQ(fur_group_backup(group_, in_dir("copy" + std::to_string(c)).c_str()), 0)
		        << fur_errormsg();
	}
	end = true;
	for (std::thread &t : threads)
		t.join();
	close();
	for (unsigned c = 0; c < COPIES; c++) {
		open_copy("copy" + std::to_string(c));
		uint64_t sum = 0;
		for (unsigned k = 0; k < MEMBERS; k++)
			sum += get(k);
		EXPECT_EQ(sum, ALL) << "copy " << c;
		EXPECT_GE(get(MEMBERS), before[c]) << "copy " << c;
		close();
	}
}

/* INV-GM3 */
TEST_F(GroupBackup, AShutGate_HasNoThreadInside)
{
	create();
	constexpr unsigned THREADS = 3;
	const unsigned enough = rounds(20u);
	std::atomic<unsigned> inside{0}, entered{0};
	std::atomic<bool> end{false};
	std::vector<std::thread> threads;
	for (unsigned n = 0; n < THREADS; n++)
		threads.emplace_back([&] {
			fur_group_thread *self;
			ASSERT_EQ(fur_group_register(group_, &self), 0);
			while (!end) {
				group_gate_enter(self);
				inside++;
				entered++;
				inside--;
				group_gate_leave(self);
				/* On a loaded machine threads that sleep take turns sooner. */
				usleep(20);
			}
			ASSERT_EQ(fur_group_unregister(self), 0);
		});
	for (unsigned k = 0; k < enough; k++) {
		const unsigned before = entered;
		while (entered == before)
			usleep(1000);
		ASSERT_EQ(group_gate_shut(group_), 0);
		const unsigned now = entered;
		EXPECT_EQ(inside, 0u);
		usleep(1000);
		EXPECT_EQ(entered, now);
		group_gate_open(group_);
	}
	end = true;
	for (std::thread &t : threads)
		t.join();
}

} // namespace
