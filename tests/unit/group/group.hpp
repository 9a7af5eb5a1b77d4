/* SPDX-License-Identifier: BSD-3-Clause
 *
 * group.hpp - a group of heaps for a test.
 */
#ifndef GROUP_HPP
#define GROUP_HPP

#include "group_dir.hpp"

#include <array>
#include <fur/group.hpp>
#include <internals.hpp>
#include <memory>

enum { HEAPS = 3, WORDS = 64 };

/* A group of HEAPS heaps with WORDS words each, all zero. */
class GroupHeaps : public GroupDir
{
protected:
	explicit GroupHeaps(const fur::Options &o = small_options()) : options_(o)
	{
		create();
		for (unsigned k = 0; k < HEAPS; k++) {
			unsigned member = HEAPS;
			EXPECT_EQ(fur_group_add(group_, heap_name(k).c_str(), &o, &member), 0)
			        << fur_errormsg();
			EXPECT_EQ(member, k);
		}
		EXPECT_EQ(fur_group_register(group_, &self_), 0);
		for (unsigned k = 0; k < HEAPS; k++)
			words_[k] = reinterpret_cast<uint64_t *>(
			        block_in_root(thread(k), WORDS * 8, 0));
	}
	~GroupHeaps() override
	{
		leave();
	}

	void leave()
	{
		if (self_) {
			EXPECT_EQ(fur_group_unregister(self_), 0) << fur_errormsg();
		}
		self_ = nullptr;
	}
	/* Close and open it. */
	void reopen()
	{
		fur_group_options o = {};
		o.size = sizeof o;
		o.heap = &options_;
		leave();
		close();
		ASSERT_EQ(fur_group_open(group_path().c_str(), &o, &group_), 0) << fur_errormsg();
		ASSERT_EQ(fur_group_register(group_, &self_), 0);
	}
	fur_heap *heap(unsigned k) const
	{
		return fur_group_heap(group_, k);
	}
	/* Do readers run plainly, as under a memory checker?  Then updates wait for them. */
	bool readers_are_plain() const
	{
		return reader_is_better_plain(thread(0));
	}
	fur_thread *thread(unsigned k, fur_group_thread *t = nullptr) const
	{
		fur_thread *its;
		EXPECT_EQ(fur_group_thread_of(t ? t : self_, k, &its), 0) << fur_errormsg();
		return its;
	}
	uint64_t *word(unsigned k, unsigned n = 0) const
	{
		return words_[k] + n;
	}
	/* The value that is committed. */
	uint64_t value(unsigned k, unsigned n = 0) const
	{
		uint64_t v = 0;
		fur::read(thread(k), [&](fur_ro *) { v = *word(k, n); });
		return v;
	}
	/* Move `n` from one heap's word to another's. */
	int transfer(unsigned from, unsigned to, uint64_t n, fur_group_thread *t = nullptr)
	{
		return group_run(t ? t : self_, {from, to}, [=, this](fur_group_update *u) {
			fur_update *a = fur_group_on(u, from), *b = fur_group_on(u, to);
			fur_store(a, word(from), fur_load(a, word(from)) - n);
			fur_store(b, word(to), fur_load(b, word(to)) + n);
		});
	}

	fur::Options options_;
	uint64_t *words_[HEAPS] = {};
	fur_group_thread *self_ = nullptr;
};

#endif /* GROUP_HPP */
