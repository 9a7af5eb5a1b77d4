/* SPDX-License-Identifier: BSD-3-Clause
 *
 * power_test.cpp - the power of a standby's machine fails at any instant, and the standby is a file
 * on a disk (SYNC).  Of what was not synced each page is on the disk, or is not (disk.hpp).  Then
 * the standby's heap is the stream up to the position that is in it, byte by byte (INV-SH22 to
 * INV-SH25); and it goes on from there until it equals the primary.
 */
#include "../unit/disk.hpp"
#include "replica.hpp"
#include "shop.hpp"

#include <filesystem>
#include <optional>

void disk_stop(const std::string &why)
{
	fprintf(stderr, "power-test: %s\n", why.c_str());
	_exit(3);
}

namespace
{

using namespace ship_test; /* NOLINT */

enum { FAILED = 9 };

uint64_t events_left; /* then the power fails */

class Power : public HeapFile
{
protected:
	Power()
	    : standby_(path_ + "-standby"), disk_(path_ + "-disk"), first_(path_ + "-first"),
	      look_(path_ + "-look"), expected_(path_ + "-expected"), log_(path_ + "-log")
	{
		options_ = options_of_test();
		options_.pm = FUR_PM_SYNC;
	}
	~Power() override
	{
		for (const std::string &file : {standby_, disk_, first_, look_, expected_, log_})
			unlink(file.c_str());
	}
	static void copy(const std::string &from, const std::string &to)
	{
		std::filesystem::copy_file(
		        from, to, std::filesystem::copy_options::overwrite_existing);
	}
	/* A primary, and a standby that is a copy of it. */
	void make()
	{
		{
			fur::Heap heap = create(options_);
			fur::Thread self(heap);
			make_shop(self);
		}
		copy(path_, standby_);
		ASSERT_EQ(write_role(path_, MEDIA_PRIMARY), 0) << fur_errormsg();
		ASSERT_EQ(write_role(standby_, MEDIA_STANDBY), 0) << fur_errormsg();
		copy(standby_, first_);
		copy(standby_, disk_);
	}
	/* The primary works, and is shipped. */
	void work(uint64_t round)
	{
		fur::Heap heap = open(options_);
		std::optional<Shipper> shipper(std::in_place, path_, log_, round);
		{
			fur::Thread self(heap);
			mixed_work(self, shop_of(self), round);
		}
		heap.close();
	}
	/* In a child: follow to the log's end, `step` frames at a time, or until the power fails.
	 * Returns its exit status. */
	int follow_until_failure(uint64_t events, unsigned step, unsigned seed)
	{
		const pid_t child = fork();
		if (child == 0) {
			alarm(60);
			events_left = events;
			disk::seed = seed;
			disk::status_of_failure = FAILED;
			disk::power_fails = [](disk::Event) {
				return events_left && --events_left == 0;
			};
			disk::begin(standby_, disk_);
			_exit(follow(step));
		}
		int status = -1;
		waitpid(child, &status, 0);
		return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	}
	/* The disk has a heap that recovers, and is what the stream says up to its position; and it
	 * has what the standby had shown before. */
	void expect_prefix()
	{
		copy(disk_, look_);
		run_in_child([&] {
			fur::Heap heap = fur::Heap::open(look_, options_);
			fur::Thread self(heap);
			EXPECT_GE(updates_of(self), shown_->updates);
		});
		heap_applied applied;
		{
			const Image now(look_);
			applied = now.head()->applied;
			/* Results may lie there of a bulk update that is not applied. */
			if (now.head()->bulk)
				return;
		}
		Replica replica(first_, log_);
		replica.most = applied.durts;
		replica.follow();
		copy(look_, expected_);
		heap_file file;
		ASSERT_EQ(heap_open_file(expected_.c_str(), HEAP_LOCK_WORKER, &file), 0);
		const uint64_t at = file.geometry.heap_offset;
		heap_close_file(&file);
		std::fstream out(expected_, std::ios::binary | std::ios::in | std::ios::out);
		out.seekp(static_cast<std::streamoff>(at));
		out.write(reinterpret_cast<const char *>(replica.bytes.data()),
		        static_cast<std::streamsize>(replica.bytes.size()));
		out.close();
		expect_equal(expected_, look_);
		compared_++;
	}
	static uint64_t updates_of(fur_thread *self)
	{
		const Shop *shop = shop_of(self);
		return fur::read(self, [&](fur_ro *tx) {
			const uint64_t n = fur_load(tx, &shop->updates);
			EXPECT_EQ(n, fur_load(tx, &shop->copy));
			return n;
		});
	}

	fur::Options options_;
	std::string standby_, disk_, first_, look_, expected_, log_;
	SharedMemory shown_;
	unsigned compared_ = 0;

private:
	int follow(unsigned step)
	{
		fur::Heap heap = fur::Heap::open(standby_, options_);
		fur::Thread self(heap);
		stream_engine *engine;
		follower *f;
		if (engine_file_open(log_.c_str(), &engine) || follow_begin(engine, heap.get(), &f))
			return 1;
		int n;
		while ((n = follow_step(f, step)) > 0)
			shown_->updates = updates_of(self);
		if (n || follow_end(f))
			fprintf(stderr, "%s\n", fur_errormsg());
		engine->ops->close(engine);
		return n || HasFailure() ? 2 : 0;
	}
};

TEST_F(Power, FailsAtAnyInstant_TheStandbyIsThePrefixOfTheStream)
{
	make();
	Random random{seed_of_run()};
	const uint64_t most = rounds(uint64_t(4));
	unsigned failures = 0;
	for (uint64_t round = 1; round <= most && !HasFailure(); round++) {
		work(round);
		for (unsigned k = 0; k < 25 && !HasFailure(); k++) {
			const int status = follow_until_failure(1 + random.below(k % 3 ? 300 : 30),
			        1 + static_cast<unsigned>(random.below(4)),
			        static_cast<unsigned>(random.next()));
			ASSERT_TRUE(status == FAILED || status == 0) << status;
			failures += status == FAILED;
			if (status == FAILED) {
				expect_prefix();
				copy(disk_, standby_);
			} else {
				copy(standby_, disk_);
			}
		}
		ASSERT_EQ(follow_until_failure(0, 50, 1), 0);
		copy(standby_, disk_);
		expect_equal(path_, standby_);
	}
	EXPECT_GE(failures, 8 * most);
	EXPECT_GE(compared_, failures / 2);
}

} // namespace
