/* SPDX-License-Identifier: BSD-3-Clause
 *
 * watch_test.cpp - HeapWatch, with which fur-stat looks at a heap from outside: it counts exactly,
 * and a heap that is closed, lost, recovered or made anew does not confuse it.
 */
#include "../../../tools/heap_watch.hpp"
#include "fixture.hpp"

#include <algorithm>

namespace
{

using tools::HeapWatch;
using tools::Sample;

class Watch : public HeapFile
{
protected:
	struct durability &log(fur::Heap &heap)
	{
		return heap.get()->durability;
	}
	void update(fur_thread *t, uint64_t times)
	{
		for (uint64_t k = 0; k < times; k++)
			fur::update(t, [&](fur_update *tx) { fur_set_root(tx, 0, tx); });
	}
	/* A process that makes `times` updates and dies. */
	void killed_after(uint64_t times)
	{
		in_killed_child([&] {
			fur::Options o = small_options();
			fur_heap *heap;
			fur_thread *t;
			ASSERT_EQ(fur_open(path_.c_str(), &o, &heap), 0) << fur_errormsg();
			ASSERT_EQ(fur_thread_register(heap, nullptr, &t), 0);
			update(t, times);
		});
	}
};

TEST_F(Watch, Updates_AreCountedExactly)
{
	fur::Heap heap = create();
	fur::Thread t(heap);
	HeapWatch watch(path_);
	Sample first = watch.look();
	EXPECT_STREQ(first.state, "in use");
	EXPECT_TRUE(first.worker && !first.replayer);
	EXPECT_EQ(first.worker_pid, static_cast<uint64_t>(getpid()));
	EXPECT_EQ(first.updates, 0u);
	uint64_t all = 0;
	/* Fewer than the ring has slots; more; many times as many. */
	for (uint64_t times : {1, 5, 60, 70, 1000}) {
		update(t, times);
		all += times;
		Sample s = watch.look();
		EXPECT_EQ(s.updates, all);
		EXPECT_EQ(s.session, first.session);
		EXPECT_EQ(s.next, ring_next(&log(heap)));
		EXPECT_EQ(s.tail, ring_tail(&log(heap)));
		EXPECT_LE(s.next - s.tail, s.ring_slots);
		EXPECT_EQ(s.fullest_log_bytes,
		        log(heap).redo[0].committed_to - log(heap).redo[0].tail);
		EXPECT_EQ(s.replays, heap.stats().replays);
		EXPECT_EQ(s.replayed_updates, heap.stats().replayed_updates);
	}
}

TEST_F(Watch, AnUpdateInFlight_IsCountedWhenALaterOneIsThere)
{
	fur::Heap heap = create();
	fur::Thread t(heap);
	HeapWatch watch(path_);
	watch.look();
	uint64_t hole = arch_fetch_add(&log(heap).next_durts, 1);
	EXPECT_EQ(watch.look().next, hole) << "it has no marker yet";
	update(t, 5);
	Sample s = watch.look();
	EXPECT_EQ(s.next, hole + 6);
	EXPECT_EQ(s.updates, 6u);
	media_marker marker = {};
	marker.durts = hole;
	marker.kind = MEDIA_ABORT;
	ring_put_marker(&log(heap), &marker);
	update(t, 5);
	s = watch.look();
	EXPECT_EQ(s.next, hole + 11);
	EXPECT_EQ(s.updates, 11u);
}

TEST_F(Watch, CloseAndOpen_AreSeen_AndNothingJumps)
{
	fur::Heap heap = create();
	HeapWatch watch(path_);
	uint64_t session;
	{
		fur::Thread t(heap);
		session = watch.look().session;
		update(t, 10);
		EXPECT_EQ(watch.look().updates, 10u);
	}
	heap.close();
	Sample closed = watch.look();
	EXPECT_STREQ(closed.state, "closed");
	EXPECT_FALSE(closed.worker);
	EXPECT_EQ(closed.worker_pid, 0u);
	EXPECT_EQ(closed.next, closed.tail);
	EXPECT_EQ(closed.updates, 10u);
	heap = open();
	fur::Thread t(heap);
	Sample again = watch.look();
	EXPECT_STREQ(again.state, "in use");
	EXPECT_NE(again.session, session);
	update(t, 3);
	EXPECT_EQ(watch.look().updates, again.updates + 3);
}

TEST_F(Watch, Recovery_IsNoUpdate)
{
	create().close();
	HeapWatch watch(path_);
	EXPECT_STREQ(watch.look().state, "closed");
	killed_after(10);
	Sample lost = watch.look();
	EXPECT_STREQ(lost.state, "needs recovery");
	EXPECT_EQ(lost.next - lost.tail, 10u);
	EXPECT_EQ(lost.fullest_log_bytes, 0u) << "no process: positions mean nothing";
	fur::Heap heap = open();
	Sample open = watch.look();
	EXPECT_EQ(open.next, open.tail);
	EXPECT_GT(open.tail, lost.next + open.ring_slots) << "recovery skips slots";
	EXPECT_EQ(open.updates, lost.updates);
}

/* fur-replayer recovers without a new process that opens the heap. */
TEST_F(Watch, RecoveryByAReplayer_IsNoUpdate)
{
	create().close();
	killed_after(10);
	HeapWatch watch(path_);
	Sample lost = watch.look();
	struct heap_file file = {};
	struct durability d = {};
	struct replay_result result;
	fur::Options o = small_options();
	char reason[160];
	ASSERT_EQ(heap_open_file(path_.c_str(), HEAP_LOCK_REPLAYER, &file), 0) << fur_errormsg();
	ASSERT_EQ(heap_attach(&d, &file, &o, reason, sizeof reason), 0) << fur_errormsg();
	d.replays_for_worker = true;
	EXPECT_TRUE(watch.look().replayer);
	ASSERT_EQ(replay_recover(&d, &result), 0) << fur_errormsg();
	ASSERT_EQ(durability_set_state(&d, MEDIA_CLOSED), 0);
	Sample recovered = watch.look();
	EXPECT_EQ(result.updates, 10u);
	EXPECT_STREQ(recovered.state, "closed");
	EXPECT_EQ(recovered.session, lost.session);
	EXPECT_GT(recovered.tail, lost.next);
	EXPECT_EQ(recovered.next, recovered.tail);
	EXPECT_EQ(recovered.updates, lost.updates);
	durability_detach(&d);
	heap_close_file(&file);
}

TEST_F(Watch, AHeapMadeAnew_IsWatchedOn)
{
	create().close();
	HeapWatch watch(path_);
	uint64_t session = watch.look().session;
	unlink(path_.c_str());
	Sample gone = watch.look();
	EXPECT_STREQ(gone.state, "missing");
	EXPECT_FALSE(gone.there);
	EXPECT_FALSE(watch.look().there) << "still missing";
	fur::Options o = small_options();
	o.max_threads = 8;
	o.ring_slots = 128;
	fur::Heap heap = create(o);
	fur::Thread t(heap);
	Sample first = watch.look();
	EXPECT_STREQ(first.state, "in use");
	EXPECT_EQ(first.ring_slots, 128u);
	EXPECT_NE(first.session, session);
	update(t, 7);
	EXPECT_EQ(watch.look().updates, first.updates + 7);
}

TEST_F(Watch, AFileThatIsNoHeap_IsRefused)
{
	create().close();
	HeapWatch watch(path_);
	unlink(path_.c_str());
	write_bytes("not a heap, but long enough to be looked at" + std::string(100000, 'x'));
	EXPECT_THROW(watch.look(), tools::Refused);
}

TEST_F(Watch, ATruncatedFile_IsRefused)
{
	create().close();
	HeapWatch watch(path_);
	ASSERT_EQ(truncate(path_.c_str(), 100000), 0);
	EXPECT_THROW(watch.look(), tools::Refused);
}

TEST_F(Watch, MapsReadOnly_AndLocksNothing)
{
	create().close();
	HeapWatch watch(path_);
	watch.look();
	std::ifstream maps("/proc/self/maps");
	int mappings = 0;
	for (std::string line; std::getline(maps, line);)
		if (line.find(path_) != std::string::npos) {
			mappings++;
			EXPECT_NE(line.find(" r--s "), std::string::npos) << line;
		}
	EXPECT_EQ(mappings, 1);
	int fd = ::open(path_.c_str(), O_RDWR);
	for (enum heap_lock byte :
	        {HEAP_LOCK_WORKER, HEAP_LOCK_REPLAYER, HEAP_LOCK_REPLAY, HEAP_LOCK_WORKING})
		EXPECT_EQ(heap_lock_try(fd, byte), 0) << byte;
	close(fd);
}

} // namespace
