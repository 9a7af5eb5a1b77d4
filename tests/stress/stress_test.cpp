/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stress_test.cpp - isolation and progress with more threads than cores, logs and rings that are
 * always full, aborts and nesting.  Each test runs without hardware and on the best hardware
 * there is, in both isolation levels.
 */
#include "../unit/census.hpp"
#include "../unit/fixture.hpp"
#include "internals.hpp"

#include <atomic>
#include <barrier>
#include <numeric>
#include <random>
#include <thread>

namespace
{

struct Machine {
	fur_htm htm;
	fur_isolation isolation;
};

std::string machine_name(const ::testing::TestParamInfo<Machine> &machine)
{
	return std::string(fur_name(FUR_NAME_HTM, machine.param.htm)) + "_" +
	       fur_name(FUR_NAME_ISOLATION, machine.param.isolation);
}

class Stress : public HeapFile, public ::testing::WithParamInterface<Machine>
{
protected:
	static constexpr int ACCOUNTS = 32;
	static constexpr int64_t OPENING = 1000;
	struct Line {
		int64_t value, gap[15];
	};

	fur::Options options(unsigned threads = 16)
	{
		fur::Options o = small_options();
		o.max_threads = threads;
		o.ring_slots = 64;
		o.htm = GetParam().htm;
		o.isolation = GetParam().isolation;
		return o;
	}
	Line *set_up(fur::Heap &heap)
	{
		fur::Thread self(heap);
		return fur::update(self, [&](fur_update *tx) {
			auto *lines = static_cast<Line *>(fur_alloc(tx, sizeof(Line) * ACCOUNTS));
			for (int a = 0; a < ACCOUNTS; a++)
				fur_store(tx, &lines[a].value, OPENING);
			fur_set_root(tx, 0, lines);
			return lines;
		});
	}
	template <class Tx>
	int64_t sum(Tx *tx, const Line *lines)
	{
		int64_t s = 0;
		for (int a = 0; a < ACCOUNTS; a++)
			s += fur_load(tx, &lines[a].value);
		return s;
	}
	template <class Tx>
	std::vector<int64_t> values(Tx *tx, const Line *lines)
	{
		std::vector<int64_t> all;
		for (int a = 0; a < ACCOUNTS; a++)
			all.push_back(fur_load(tx, &lines[a].value));
		return all;
	}
	template <class Body>
	void run(unsigned threads, Body &&body)
	{
		std::vector<std::thread> all;
		for (unsigned t = 0; t < threads; t++)
			all.emplace_back([&, t] { body(t); });
		for (auto &t : all)
			t.join();
	}
	void reopen_and_check(fur::Heap &heap)
	{
		heap.close();
		heap = open(options());
		fur::Thread self(heap);
		auto *lines = static_cast<Line *>(root_at_rest(heap, 0));
		EXPECT_EQ(fur::read(self, [&](fur_ro *tx) { return sum(tx, lines); }),
		        OPENING * ACCOUNTS);
		census_of(heap);
	}
};

TEST_P(Stress, Bank_EverySumIsExact)
{
	for (unsigned threads : {2u, 4u, 8u}) {
		unlink(path_.c_str());
		fur::Heap heap = create(options());
		Line *lines = set_up(heap);
		std::atomic<uint64_t> torn{0};
		run(threads, [&](unsigned t) {
			fur::Thread self(heap);
			std::mt19937 random(t + 1);
			for (int i = 0; i < 40000 / static_cast<int>(threads); i++) {
				if (random() % 2) {
					torn += fur::read(self, [&](fur_ro *tx) {
						return sum(tx, lines);
					}) != OPENING * ACCOUNTS;
					continue;
				}
				unsigned from = random() % ACCOUNTS, to = random() % ACCOUNTS;
				int64_t amount = random() % 100;
				fur::update(self, [&](fur_update *tx) {
					fur_store(tx, &lines[from].value,
					        fur_load(tx, &lines[from].value) - amount);
					fur_store(tx, &lines[to].value,
					        fur_load(tx, &lines[to].value) + amount);
				});
			}
		});
		EXPECT_EQ(torn, 0u) << threads << " threads";
		reopen_and_check(heap);
	}
}

/* False: the machine's rollback-only updates would not notice one. */
bool has_snapshots(fur::Heap &heap)
{
	fur::Thread self(heap);
	fur_snapshot *one;
	return fur_snapshot_begin(self, &one) != FUR_EINVAL && fur_snapshot_end(one) == 0;
}

/* Readers hold snapshots over many updates, and find in each, again and again, what it has shown at
 * first.  Now and then libfur revokes one. */
TEST_P(Stress, Snapshots_ShowOneState)
{
	enum { WRITERS = 4, READERS = 3, ROUNDS = 3000 };
	fur::Options o = options();
	o.snapshot_bytes = 4 * 512 * 72; /* less than the threads can use */
	fur::Heap heap = create(o);
	Line *lines = set_up(heap);
	if (!has_snapshots(heap))
		GTEST_SKIP() << fur_errormsg();
	std::atomic<uint64_t> torn{0}, reads{0};
	std::atomic<unsigned> writing{WRITERS};
	run(WRITERS + READERS, [&](unsigned t) {
		fur::Thread me(heap);
		std::mt19937 random(t + 1);
		for (int i = 0; t < WRITERS && i < ROUNDS; i++) {
			unsigned from = random() % ACCOUNTS, to = random() % ACCOUNTS;
			auto move = [&](fur_update *tx) {
				fur_store(tx, &lines[from].value,
				        fur_load(tx, &lines[from].value) - 1);
				if (i % 16 == 0)
					fur::join_read(me, [&](fur_ro *ro) { sum(ro, lines); });
				fur_store(tx, &lines[to].value, fur_load(tx, &lines[to].value) + 1);
			};
			i % 3 ? fur::update(me, fur::rerun, move) : fur::update(me, move);
		}
		if (t < WRITERS) {
			writing--;
			return;
		}
		do {
			fur::Snapshot snapshot(me);
			std::vector<int64_t> first;
			for (int k = 0; k < 20; k++) {
				try {
					auto now = snapshot.read(
					        me, [&](auto *tx) { return values(tx, lines); });
					if (k == 0)
						first = now;
					torn += now != first;
					torn += std::accumulate(now.begin(), now.end(),
					                int64_t{0}) != OPENING * ACCOUNTS;
					reads++;
				} catch (const fur::Error &e) {
					torn += e.code() != FUR_ETOOOLD;
					break;
				}
				std::this_thread::yield();
			}
		} while (writing);
	});
	EXPECT_EQ(torn, 0u);
	EXPECT_GT(reads, 0u);
	reopen_and_check(heap);
}

/* Bodies of every kind next to each other: their own sums, taken in the middle of them, are as
 * exact as a reader's.  Some throw, some abort, some read through a read-only transaction inside.
 */
TEST_P(Stress, RerunBodies_SeeOneState)
{
	enum { THREADS = 6, ROUNDS = 4000 };
	fur::Heap heap = create(options());
	Line *lines = set_up(heap);
	std::atomic<uint64_t> torn{0};
	std::atomic<unsigned> here{0};
	run(THREADS, [&](unsigned t) {
		fur::Thread self(heap);
		std::mt19937 random(t + 1);
		here++;
		while (here < THREADS)
			std::this_thread::yield();
		for (int i = 0; i < ROUNDS; i++) {
			unsigned from = random() % ACCOUNTS, to = random() % ACCOUNTS,
			         kind = random() % 8;
			auto body = [&](fur_update *tx) {
				bool exact = true;
				if (kind == 0)
					exact = sum(tx, lines) == OPENING * ACCOUNTS;
				fur_store(tx, &lines[from].value,
				        fur_load(tx, &lines[from].value) - 1);
				/* With fewer cores than threads, others run in the middle. */
				if (i % 4 == 0)
					std::this_thread::yield();
				if (kind == 1)
					throw i;
				if (kind == 2)
					fur::join_read(self, [&](fur_ro *ro) {
						exact = sum(ro, lines) == OPENING * ACCOUNTS - 1;
					});
				fur_store(tx, &lines[to].value, fur_load(tx, &lines[to].value) + 1);
				if (kind < 4)
					exact = exact && sum(tx, lines) == OPENING * ACCOUNTS;
				if (kind == 3)
					fur_abort(tx);
				return exact;
			};
			try {
				torn += !(t % 3 ? fur::update(self, fur::rerun, body)
				                : fur::update(self, body));
			} catch (int) {
				torn += kind != 1;
			} catch (const fur::Error &e) {
				torn += kind != 3 ||
				        (e.code() != FUR_EABORTED && e.code() != FUR_ENOTX);
			}
			if (i % 16 == 0)
				torn += fur::read(self, [&](fur_ro *tx) {
					return sum(tx, lines);
				}) != OPENING * ACCOUNTS;
		}
	});
	EXPECT_EQ(torn, 0u);
	reopen_and_check(heap);
}

/* Bodies that conflict with every other one, in C: libfur leaves them by longjmp().  None is lost,
 * and none counts twice. */
TEST_P(Stress, RerunBodies_EachCountOnce)
{
	enum { THREADS = 4, ROUNDS = 4000 };
	struct Job {
		Line *lines;
		unsigned t, runs;
	};
	fur::Heap heap = create(options());
	Line *lines = set_up(heap);
	std::atomic<unsigned> here{0};
	run(THREADS, [&](unsigned t) {
		fur::Thread self(heap);
		Job job{lines, t, 0};
		here++;
		while (here < THREADS)
			std::this_thread::yield();
		auto body = [](fur_update *tx, void *arg) {
			auto *j = static_cast<Job *>(arg);
			fur_store(tx, &j->lines[0].value, fur_load(tx, &j->lines[0].value) + 1);
			fur_store(tx, &j->lines[1 + j->t].value,
			        fur_load(tx, &j->lines[1 + j->t].value) + 1);
			/* Long enough to meet the others. */
			if (++j->runs % 8 == 0)
				std::this_thread::yield();
			for (int a = 8; a < ACCOUNTS; a++)
				(void)fur_load(tx, &j->lines[a].value);
		};
		for (int i = 0; i < ROUNDS; i++)
			fur::check(fur_update_run(self, body, &job, nullptr));
	});
	EXPECT_EQ(lines[0].value, OPENING + THREADS * ROUNDS);
	for (int t = 0; t < THREADS; t++)
		EXPECT_EQ(lines[1 + t].value, OPENING + ROUNDS);
}

/* Two words on two lines, always equal; the reader looks at one, then the other. */
TEST_P(Stress, TornReads_NeverSeen)
{
	fur::Heap heap = create(options());
	Line *lines = set_up(heap);
	std::atomic<bool> stop{false};
	std::atomic<uint64_t> torn{0}, looked{0};
	run(4, [&](unsigned t) {
		fur::Thread self(heap);
		if (t == 0) {
			for (int64_t i = 1; i <= 30000 || looked < 1000; i++)
				fur::update(self, [&](fur_update *tx) {
					fur_store(tx, &lines[0].value, i);
					fur_store(tx, &lines[ACCOUNTS - 1].value, i);
				});
			stop = true;
			return;
		}
		while (!stop) {
			auto [a, b] = fur::read(self, [&](fur_ro *tx) {
				int64_t first = fur_load(tx, &lines[0].value);
				return std::pair(first, fur_load(tx, &lines[ACCOUNTS - 1].value));
			});
			torn += a != b;
			looked++;
		}
	});
	EXPECT_EQ(torn, 0u);
	EXPECT_GT(looked, 0u);
}

/* Pairs of threads hand ordinary memory to each other by a word of the heap.  What a thread does
 * before an update comes before what another one does after it has read from the update, whatever
 * the kinds of the two transactions.  In a build with ThreadSanitizer that also tells whether it
 * finds the order. */
TEST_P(Stress, OrdinaryMemory_IsOrderedByTransactions)
{
	enum { PAIRS = 3, ROUNDS = 600 };
	struct Pair {
		int64_t note, gap[15];
	} pairs[PAIRS] = {};
	fur::Heap heap = create(options());
	Line *lines = set_up(heap);
	std::atomic<uint64_t> wrong{0};
	run(2 * PAIRS, [&](unsigned t) {
		fur::Thread self(heap);
		Pair &mine = pairs[t / 2];
		int64_t *word = &lines[t / 2].value;
		auto load = [&](auto *tx) { return fur_load(tx, word); };
		auto look = [&](unsigned kind) {
			return kind == 0   ? fur::read(self, [&](fur_ro *ro) { return load(ro); })
			       : kind == 1 ? fur::read(self, fur::rerun,
			                             [&](fur_reader *r) { return load(r); })
			                   : fur::update(self, fur::rerun,
			                             [&](fur_update *tx) { return load(tx); });
		};
		for (int i = 0; i < ROUNDS; i++) {
			const int64_t turn = OPENING + 2 * i + t % 2;
			while (look(i % 3) != turn)
				std::this_thread::yield();
			if (t % 2 == 0)
				mine.note = i;
			else
				wrong += mine.note != i;
			auto pass = [&](fur_update *tx) { fur_store(tx, word, turn + 1); };
			i % 2 ? fur::update(self, fur::rerun, pass) : fur::update(self, pass);
		}
	});
	EXPECT_EQ(wrong, 0u);
}

TEST_P(Stress, AbortsAndNesting_LeaveNoTrace)
{
	fur::Heap heap = create(options());
	Line *lines = set_up(heap);
	run(6, [&](unsigned t) {
		fur::Thread self(heap);
		std::mt19937 random(t + 1);
		for (int i = 0; i < 3000; i++) {
			fur_update *tx, *inner;
			fur_ro *ro;
			unsigned from = random() % ACCOUNTS, to = random() % ACCOUNTS,
			         end = random() % 4;
			fur::check(fur_begin_update(self, &tx));
			fur_store(tx, &lines[from].value, fur_load(tx, &lines[from].value) - 1);
			fur::check(fur_join_update(self, &inner));
			fur::check(fur_join_ro(self, &ro));
			int64_t old = fur_load(ro, &lines[to].value);
			fur::check(fur_end_ro(ro, nullptr));
			fur_store(inner, &lines[to].value, old + 1);
			int result = end == 0 ? fur_abort(inner) : fur_commit(inner, nullptr);
			result = end == 1 ? fur_abort(tx) : fur_commit(tx, nullptr);
			ASSERT_EQ(result, end < 2 ? FUR_EABORTED : 0);
		}
	});
	reopen_and_check(heap);
}

TEST_P(Stress, Memory_IsNeverSharedOrLost)
{
	fur::Heap heap = create(options());
	set_up(heap);
	alloc_census before, after;
	ASSERT_EQ(alloc_check(heap_base(heap), &before), 0);
	std::atomic<uint64_t> wrong{0};
	run(6, [&](unsigned t) {
		fur::Thread self(heap);
		std::mt19937 random(t + 1);
		std::vector<std::pair<uint64_t *, size_t>> mine;
		for (uint64_t i = 0; i < 4000; i++) {
			if (random() % 2 && mine.size() < 50) {
				size_t words = 2 + random() % 60;
				auto *p = fur::update(self, [&](fur_update *tx) {
					auto *q = static_cast<uint64_t *>(fur_alloc(tx, words * 8));
					if (q) {
						fur_store(tx, &q[0], uint64_t(t) << 32 | words);
						fur_store(tx, &q[words - 1],
						        uint64_t(t) << 32 | words);
					}
					return q;
				});
				if (p)
					mine.emplace_back(p, words);
			} else if (!mine.empty()) {
				auto [p, words] = mine.back();
				mine.pop_back();
				fur::update(self, [&, p = p, words = words](fur_update *tx) {
					wrong += fur_load(tx, &p[0]) !=
					                 (uint64_t(t) << 32 | words) ||
					         fur_load(tx, &p[words - 1]) !=
					                 (uint64_t(t) << 32 | words);
					fur_free(tx, p);
				});
			}
		}
		for (auto [p, words] : mine)
			fur::update(self, [&, p = p](fur_update *tx) { fur_free(tx, p); });
	});
	EXPECT_EQ(wrong, 0u);
	ASSERT_EQ(alloc_check(heap_base(heap), &after), 0) << fur_errormsg();
	EXPECT_EQ(after.blocks, before.blocks);
	reopen_and_check(heap);
}

/* For each line of the heap: how many live blocks use it, and those aligned to FUR_CACHE_LINE count
 * ALONE each.  A block is entered after the update that allocates it, and leaves before the update
 * that frees it, so all blocks that are entered are live. */
class LineUsers
{
public:
	explicit LineUsers(const fur::Heap &heap)
	    : base_(static_cast<char *>(heap_base(heap))),
	      users_(heap.info().heap_bytes / FUR_CACHE_LINE)
	{
	}
	/* False: a block that must be alone is not. */
	bool enter(const void *block, size_t bytes, bool alone)
	{
		uint32_t most = alone ? 0 : ALONE - 1;
		bool good = true;
		for (size_t line = first(block); line <= first(end(block, bytes)); line++)
			good &= users_[line].fetch_add(alone ? ALONE : 1) <= most;
		return good;
	}
	void leave(const void *block, size_t bytes, bool alone)
	{
		for (size_t line = first(block); line <= first(end(block, bytes)); line++)
			users_[line].fetch_sub(alone ? ALONE : 1);
	}

private:
	static constexpr uint32_t ALONE = 1 << 16;
	static const char *end(const void *block, size_t bytes)
	{
		return static_cast<const char *>(block) + bytes - 1;
	}
	size_t first(const void *block) const
	{
		return static_cast<size_t>(static_cast<const char *>(block) - base_) /
		       FUR_CACHE_LINE;
	}
	const char *base_;
	std::vector<std::atomic<uint32_t>> users_;
};

TEST_P(Stress, AlignedMemory_HasLinesOfItsOwn)
{
	fur::Heap heap = create(options());
	set_up(heap);
	alloc_census before, after;
	ASSERT_EQ(alloc_check(heap_base(heap), &before), 0);
	LineUsers lines(heap);
	std::atomic<uint64_t> wrong{0};
	run(6, [&](unsigned t) {
		fur::Thread self(heap);
		std::mt19937 random(t + 1);
		struct Block {
			uint64_t *at;
			size_t words; /* up to the end of its last line, if it is alone */
			bool alone;
		};
		std::vector<Block> mine;
		auto release = [&](Block b) {
			lines.leave(b.at, b.words * 8, b.alone);
			fur::update(self, [&](fur_update *tx) {
				wrong += fur_load(tx, &b.at[0]) != t ||
				         fur_load(tx, &b.at[b.words - 1]) != t;
				fur_free(tx, b.at);
			});
		};
		for (int i = 0; i < 4000; i++) {
			if (random() % 2 && mine.size() < 50) {
				bool alone = random() % 2;
				size_t words = 2 + random() % 30,
				       alignment =
				               alone ? size_t(FUR_CACHE_LINE) << random() % 3 : 16;
				Block b{nullptr, alone ? (words + 15) / 16 * 16 : words, alone};
				b.at = fur::update(self, [&](fur_update *tx) {
					auto *p = static_cast<uint64_t *>(
					        fur_alloc_aligned(tx, words * 8, alignment));
					if (p) {
						fur_store(tx, &p[0], uint64_t(t));
						fur_store(tx, &p[b.words - 1], uint64_t(t));
					}
					return p;
				});
				if (!b.at)
					continue;
				wrong += !lines.enter(b.at, b.words * 8, alone);
				wrong += reinterpret_cast<uintptr_t>(b.at) % alignment != 0;
				mine.push_back(b);
			} else if (!mine.empty()) {
				std::swap(mine[random() % mine.size()], mine.back());
				release(mine.back());
				mine.pop_back();
			}
		}
		for (Block b : mine)
			release(b);
	});
	EXPECT_EQ(wrong, 0u);
	ASSERT_EQ(alloc_check(heap_base(heap), &after), 0) << fur_errormsg();
	EXPECT_EQ(after.blocks, before.blocks);
	reopen_and_check(heap);
}

TEST_P(Stress, Threads_ComeAndGoWithoutSayingSo)
{
	fur::Heap heap = create(options(4));
	Line *lines = set_up(heap);
	for (int generation = 0; generation < 30; generation++)
		run(3, [&](unsigned t) {
			fur::Thread self(heap);
			fur_update *tx;
			fur_ro *ro;
			for (int i = 0; i < 20; i++)
				fur::update(self, [&](fur_update *u) {
					fur_store(u, &lines[t].value,
					        fur_load(u, &lines[t].value) - 1);
					fur_store(u, &lines[t + 8].value,
					        fur_load(u, &lines[t + 8].value) + 1);
				});
			/* Some leave in the middle. */
			if (t == 1) {
				fur::check(fur_begin_update(self, &tx));
				fur_store(tx, &lines[0].value, int64_t(12345));
			} else if (t == 2) {
				fur::check(fur_begin_ro(self, &ro));
			}
		});
	EXPECT_EQ(heap.stats().threads, 1u) << "this thread's own, from setting up";
	reopen_and_check(heap);
}

TEST_P(Stress, Readers_AreNotStarvedByWriters)
{
	fur::Heap heap = create(options());
	Line *lines = set_up(heap);
	std::atomic<bool> stop{false};
	std::atomic<int> left{2};
	run(6, [&](unsigned t) {
		fur::Thread self(heap);
		if (t >= 2) {
			while (!stop)
				fur::update(self, [&](fur_update *tx) {
					fur_store(tx, &lines[t].value, OPENING);
				});
			return;
		}
		/* The test ends when the readers are through; if writers shut them out it never
		 * does. */
		for (int i = 0; i < 300; i++)
			EXPECT_EQ(fur::read(self, [&](fur_ro *tx) { return sum(tx, lines); }),
			        OPENING * ACCOUNTS);
		if (--left == 0)
			stop = true;
	});
}

/* Many more threads than cores, and a lock that is never free for long.  No thread stops before
 * every thread has done its share: if one starves, the test does not end. */
TEST_P(Stress, ManyThreads_AllMakeProgress)
{
	enum { UPDATERS = 24, READERS = 8, SHARE = 8 };
	fur::Options o = options(UPDATERS + READERS + 1);
	o.ring_slots = 128;
	fur::Heap heap = create(o);
	Line *lines = set_up(heap);
	std::atomic<int> left{UPDATERS + READERS};
	std::atomic<uint64_t> torn{0};
	run(UPDATERS + READERS, [&](unsigned t) {
		fur::Thread self(heap);
		for (int done = 0; left > 0; done++) {
			if (done == SHARE)
				left--;
			if (t < READERS) {
				torn += fur::read(self, [&](fur_ro *tx) {
					return sum(tx, lines);
				}) != OPENING * ACCOUNTS;
				continue;
			}
			fur::update(self, [&](fur_update *tx) {
				fur_store(tx, &lines[0].value, fur_load(tx, &lines[0].value) - 1);
				fur_store(tx, &lines[t % ACCOUNTS].value,
				        fur_load(tx, &lines[t % ACCOUNTS].value) + 1);
			});
		}
	});
	EXPECT_EQ(torn, 0u);
	reopen_and_check(heap);
}

/* Every thread sleeps for the lock again and again; the updates are long enough that threads
 * reserve turns.  A lost wake-up is a hang: after the last thread of a round no other would wake it
 * by chance. */
TEST_P(Stress, Lock_LosesNoWakeUp)
{
	enum { UPDATERS = 6, READERS = 3, ROUNDS = 150 };
	fur::Heap heap = create(options());
	Line *lines = set_up(heap);
	std::barrier together(UPDATERS + READERS);
	run(UPDATERS + READERS, [&](unsigned t) {
		fur::Thread self(heap);
		for (int round = 0; round < ROUNDS; round++) {
			together.arrive_and_wait();
			if (t < READERS) {
				fur::read(self, [&](fur_ro *tx) { return sum(tx, lines); });
				continue;
			}
			fur::update(self, [&](fur_update *tx) {
				fur_store(tx, &lines[t].value, fur_load(tx, &lines[t].value) - 1);
				/* Longer than anybody spins; some rounds together longer than a
				 * waiter's patience. */
				usleep(round % 3 == 0 ? 300 : round % 3 == 1 ? 40 : 0);
				fur_store(tx, &lines[t + 8].value,
				        fur_load(tx, &lines[t + 8].value) + 1);
			});
		}
	});
	reopen_and_check(heap);
}

TEST_P(Stress, LongReaders_AreSeenAndHarmless)
{
	fur::Options o = options();
	o.reader_report_ns = 2000000;
	fur::Heap heap = create(o);
	Line *lines = set_up(heap);
	std::atomic<bool> stop{false};
	run(3, [&](unsigned t) {
		fur::Thread self(heap);
		if (t == 0) {
			/* On a machine that is busy, the updates may not run meanwhile. */
			for (int i = 0; i < 5 || (i < 500 && !heap.stats().long_readers); i++)
				fur::read(self, [&](fur_ro *tx) {
					int64_t before = sum(tx, lines);
					usleep(20000);
					EXPECT_EQ(sum(tx, lines), before)
					        << "a reader's snapshot changed under it";
				});
			stop = true;
			return;
		}
		while (!stop)
			fur::update(self, [&](fur_update *tx) {
				fur_store(tx, &lines[t].value, fur_load(tx, &lines[t].value) + 1);
			});
	});
	EXPECT_GE(heap.stats().long_readers, 1u);
}

TEST_P(Stress, Sync_GroupCommit_SurvivesReopen)
{
	path_ = "/tmp/fur-stress-sync-" + std::to_string(getpid());
	unlink(path_.c_str());
	fur::Options o = options();
	o.pm = FUR_PM_SYNC;
	fur::Heap heap = create(o);
	Line *lines = set_up(heap);
	run(4, [&](unsigned t) {
		fur::Thread self(heap);
		for (int i = 0; i < 25; i++)
			fur::update(self, [&](fur_update *tx) {
				fur_store(tx, &lines[t].value, fur_load(tx, &lines[t].value) - 1);
				fur_store(tx, &lines[t + 8].value,
				        fur_load(tx, &lines[t + 8].value) + 1);
			});
	});
	heap.close();
	heap = open(o);
	EXPECT_EQ(static_cast<Line *>(root_at_rest(heap, 0))[1].value, OPENING - 25);
	EXPECT_EQ(static_cast<Line *>(root_at_rest(heap, 0))[9].value, OPENING + 25);
}

INSTANTIATE_TEST_SUITE_P(Machines, Stress,
        ::testing::Values(Machine{FUR_HTM_NONE, FUR_OPACITY}, Machine{FUR_HTM_AUTO, FUR_OPACITY},
                Machine{FUR_HTM_AUTO, FUR_SNAPSHOT}),
        machine_name);

} // namespace
