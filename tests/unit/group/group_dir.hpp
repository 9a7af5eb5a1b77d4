/* SPDX-License-Identifier: BSD-3-Clause
 *
 * group_dir.hpp - a directory of its own for each test, with a group and its heaps.
 */
#ifndef GROUP_DIR_HPP
#define GROUP_DIR_HPP

#include "../fixture.hpp"
#include <filesystem>
#include <functional>
#include <fur_group.h>
#include <sstream>
#include <vector>

/* The bytes of a file. */
inline std::string text_of(const std::string &path)
{
	std::ifstream in(path, std::ios::binary);
	std::stringstream s;
	s << in.rdbuf();
	return s.str();
}

inline void put_text(const std::string &path, const std::string &text)
{
	std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

/* Of the calling thread's last failure. */
inline bool message_has(const char *what)
{
	return std::string(fur_errormsg()).find(what) != std::string::npos;
}

/* What a body is, for the C interface. */
using Body = std::function<void(fur_group_update *)>;
using ReadBody = std::function<void(fur_group_reader *)>;

inline int group_run(
        fur_group_thread *t, std::vector<unsigned> members, Body body, const fur_run *how = nullptr)
{
	return fur_group_run(
	        t, members.data(), static_cast<unsigned>(members.size()),
	        [](fur_group_update *u, void *arg) { (*static_cast<Body *>(arg))(u); }, &body, how);
}

inline int group_read(fur_group_thread *t, std::vector<unsigned> members, ReadBody body,
        const fur_run *how = nullptr)
{
	return fur_group_read_run(
	        t, members.data(), static_cast<unsigned>(members.size()),
	        [](fur_group_reader *r, void *arg) { (*static_cast<ReadBody *>(arg))(r); }, &body,
	        how);
}

class GroupDir : public ::testing::Test
{
protected:
	GroupDir()
	{
		static int n;
		const char *place = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
		dir_ = std::string(place) + "/fur-group-test-" + std::to_string(getpid()) + "-" +
		       std::to_string(n++);
		std::filesystem::remove_all(dir_);
		std::filesystem::create_directory(dir_);
	}
	~GroupDir() override
	{
		if (group_) {
			EXPECT_EQ(fur_group_close(group_), 0) << fur_errormsg();
		}
		std::filesystem::remove_all(dir_);
	}

	std::string in_dir(const std::string &name) const
	{
		return dir_ + "/" + name;
	}
	std::string group_path() const
	{
		return in_dir("bank.group");
	}
	std::string heap_name(unsigned k) const
	{
		return in_dir("heap" + std::to_string(k));
	}
	/* A group with `n` new heaps. */
	void create(unsigned n = 0, uint32_t most = 0)
	{
		fur_group_options o = {};
		o.size = sizeof o;
		o.most_members = most;
		ASSERT_EQ(fur_group_create(group_path().c_str(), &o, &group_), 0) << fur_errormsg();
		for (unsigned k = 0; k < n; k++)
			add_new(k);
	}
	void add_new(unsigned k)
	{
		unsigned member = ~0u;
		fur::Options o = small_options();
		ASSERT_EQ(fur_group_add(group_, heap_name(k).c_str(), &o, &member), 0)
		        << fur_errormsg();
		EXPECT_EQ(member, k);
	}
	int try_open(bool partial = false)
	{
		fur_group_options o = {};
		fur::Options heap = small_options();
		o.size = sizeof o;
		o.partial = partial;
		o.heap = &heap;
		return fur_group_open(group_path().c_str(), &o, &group_);
	}
	void open(bool partial = false)
	{
		ASSERT_EQ(try_open(partial), 0) << fur_errormsg();
	}
	void close()
	{
		fur_group *g = group_;
		group_ = nullptr;
		ASSERT_EQ(fur_group_close(g), 0) << fur_errormsg();
	}
	/* In an update of one member alone, and in a registration that ends. */
	void put(unsigned member, uint64_t value)
	{
		fur_group_thread *self;
		fur_thread *t;
		ASSERT_EQ(fur_group_register(group_, &self), 0) << fur_errormsg();
		ASSERT_EQ(fur_group_thread_of(self, member, &t), 0) << fur_errormsg();
		fur::update(t, [&](fur_update *tx) {
			auto *p = static_cast<uint64_t *>(fur_root(tx, 0));
			if (!p)
				fur_set_root(tx, 0, p = static_cast<uint64_t *>(fur_alloc(tx, 8)));
			fur_store(tx, p, value);
		});
		ASSERT_EQ(fur_group_unregister(self), 0) << fur_errormsg();
	}
	uint64_t get(fur_heap *heap)
	{
		fur_thread *t;
		EXPECT_EQ(fur_thread_register(heap, nullptr, &t), 0) << fur_errormsg();
		const uint64_t value = fur::read(t, [&](fur_ro *tx) {
			auto *p = static_cast<uint64_t *>(fur_root(tx, 0));
			return p ? fur_load(tx, p) : 0;
		});
		EXPECT_EQ(fur_thread_unregister(t), 0) << fur_errormsg();
		return value;
	}
	uint64_t get(unsigned member)
	{
		return get(fur_group_heap(group_, member));
	}

	std::string dir_;
	fur_group *group_ = nullptr;
};

#endif /* GROUP_DIR_HPP */
