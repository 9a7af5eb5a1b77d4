/* SPDX-License-Identifier: BSD-3-Clause
 *
 * freed_blocks.cpp - for checkers_test.py: a program that uses a heap block in one of these ways,
 * some of them mistakes, and ends with status 0 if nothing stops it.
 *
 *     freed-blocks HEAP WAY...
 *                             each way in a child process, because a checker takes most of its time
 *                             to start; behind what the child says is "WAY ended with STATUS"
 *     freed-blocks            the ways, one a line: "wrong NAME" or "right NAME"
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fur.hpp>
#include <map>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace
{

struct Job {
	const char *path;
	fur::Options options;
	fur::Heap heap = fur::Heap::create(path, options);
	fur::Thread self{heap};

	void reopen()
	{
		heap.close();
		heap = fur::Heap::open(path, options);
		self = fur::Thread(heap);
	}

	uint64_t *alloc(size_t bytes)
	{
		return fur::update(self, [&](fur_update *tx) {
			auto *p = static_cast<uint64_t *>(fur_alloc(tx, bytes));
			if (!p)
				exit(3);
			for (size_t k = 0; k < bytes / 8 && k < 256; k++)
				fur_store(tx, p + k, uint64_t{k});
			return p;
		});
	}
	void free(void *p)
	{
		fur::update(self, [&](fur_update *tx) { fur_free(tx, p); });
	}
	uint64_t *freed(size_t bytes)
	{
		uint64_t *p = alloc(bytes);
		free(p);
		return p;
	}
};

volatile uint64_t seen;

/* ------------------------------------------------------------------------ mistakes */

void load_in_a_read(Job &job)
{
	uint64_t *p = job.freed(64);
	fur::read(job.self, [&](fur_ro *tx) { seen = fur_load(tx, p + 2); });
}

void load_in_an_update(Job &job)
{
	uint64_t *p = job.freed(64);
	fur::update(job.self, [&](fur_update *tx) { seen = fur_load(tx, p + 2); });
}

void load_in_a_rerun_update(Job &job)
{
	uint64_t *p = job.freed(64);
	fur::update(job.self, fur::rerun, [&](fur_update *tx) { seen = fur_load(tx, p + 7); });
}

/* A thread that meets no other runs its updates in place after a while. */
void load_in_place(Job &job)
{
	uint64_t *p = job.freed(64), *other = job.alloc(8);
	for (uint64_t k = 0; k < 400; k++)
		fur::update(job.self, [&](fur_update *tx) { fur_store(tx, other, k); });
	fur::update(job.self, [&](fur_update *tx) { seen = fur_load(tx, p + 2); });
}

void freed_in_place(Job &job)
{
	uint64_t *other = job.alloc(8);
	for (uint64_t k = 0; k < 400; k++)
		fur::update(job.self, [&](fur_update *tx) { fur_store(tx, other, k); });
	uint64_t *p = job.freed(64);
	fur::read(job.self, [&](fur_ro *tx) { seen = fur_load(tx, p + 2); });
}

void store(Job &job)
{
	uint64_t *p = job.freed(64);
	fur::update(job.self, [&](fur_update *tx) { fur_store(tx, p + 1, uint64_t{1}); });
}

void write_many(Job &job)
{
	uint64_t *p = job.freed(1000);
	char zeros[500] = {};
	fur::update(job.self, [&](fur_update *tx) { fur_write(tx, p + 3, zeros, sizeof zeros); });
}

void read_many(Job &job)
{
	uint64_t *p = job.freed(1000);
	char bytes[500];
	fur::read(job.self, [&](fur_ro *tx) { fur_read(tx, bytes, p + 3, sizeof bytes); });
	seen = static_cast<uint64_t>(bytes[100]);
}

void load_of_a_large_block(Job &job)
{
	uint64_t *p = job.freed(200000);
	fur::read(job.self, [&](fur_ro *tx) { seen = fur_load(tx, p); });
}

/* Behind the end of a block lies one that is free. */
void load_beyond_a_block(Job &job)
{
	uint64_t *first = job.alloc(64), *second = job.alloc(64);
	if (second < first)
		std::swap(first, second);
	if (first + 8 != second)
		exit(3);
	job.free(second);
	fur::read(job.self, [&](fur_ro *tx) { seen = fur_load(tx, first + 9); });
}

void load_of_what_was_never_allocated(Job &job)
{
	uint64_t *p = job.alloc(64);
	fur::read(job.self, [&](fur_ro *tx) { seen = fur_load(tx, p + 800); });
}

/* Not even a word that the heap had before it was opened again. */
void load_after_a_reopen(Job &job)
{
	uint64_t *p = job.freed(200000);
	job.reopen();
	fur::read(job.self, [&](fur_ro *tx) { seen = fur_load(tx, p + 2); });
}

/* ------------------------------------------------------------------------ no mistakes */

void use_after_a_reopen(Job &job)
{
	uint64_t *large = job.alloc(200000), *p = job.alloc(64), *q = job.alloc(64);
	job.free(q);
	job.reopen();
	fur::read(job.self, [&](fur_ro *tx) { seen = fur_load(tx, p + 2); });
	fur::read(job.self, [&](fur_ro *tx) { seen = fur_load(tx, large + 20000); });
	for (int k = 0; k < 2000; k++)
		job.alloc(64);
	job.free(large);
	job.free(p);
}

/* An update stores to a block, and frees it: one that was there, and one of its own. */
void stored_and_freed_in_one_update(Job &job)
{
	for (size_t bytes : {64u, 1000u, 200000u})
		for (int k = 0; k < 3; k++) {
			uint64_t *p = job.alloc(bytes);
			fur::update(job.self, fur::rerun, [&](fur_update *tx) {
				auto *own = static_cast<uint64_t *>(fur_alloc(tx, bytes));
				for (uint64_t *block : {own, p})
					fur_store(tx, block + 5, uint64_t{7});
				fur_free(tx, own);
				fur_free(tx, p);
			});
		}
}

void reuse(Job &job)
{
	for (size_t bytes : {16u, 64u, 1000u, 16384u, 200000u}) {
		uint64_t *p = job.freed(bytes), *again = job.alloc(bytes);
		if (p != again)
			exit(3);
		fur::read(job.self, [&](fur_ro *tx) { seen = fur_load(tx, again + 1); });
		job.free(again);
	}
	/* A large block's chunks become small blocks, and a large block again. */
	job.freed(1000000);
	std::vector<uint64_t *> small;
	for (int k = 0; k < 3000; k++)
		small.push_back(job.alloc(400));
	for (uint64_t *p : small)
		job.free(p);
	job.freed(1500000);
}

void free_that_is_aborted(Job &job)
{
	for (bool rerun : {false, true}) {
		uint64_t *p = job.alloc(64);
		auto body = [&](fur_update *tx) {
			fur_free(tx, p);
			fur_abort(tx);
		};
		try {
			rerun ? fur::update(job.self, fur::rerun, body)
			      : fur::update(job.self, body);
		} catch (const fur::Error &) {
		}
		fur::read(job.self, [&](fur_ro *tx) { seen = fur_load(tx, p + 2); });
		fur::update(job.self, [&](fur_update *tx) { fur_store(tx, p + 2, seen); });
		job.free(p);
	}
}

void alloc_that_is_aborted(Job &job)
{
	for (int k = 0; k < 3; k++) {
		try {
			fur::update(job.self, [&](fur_update *tx) {
				auto *p = static_cast<uint64_t *>(fur_alloc(tx, 64));
				fur_store(tx, p + 2, uint64_t{1});
				seen = fur_load(tx, p + 2);
				fur_abort(tx);
			});
		} catch (const fur::Error &) {
		}
		uint64_t *p = job.alloc(64);
		fur::read(job.self, [&](fur_ro *tx) { seen = fur_load(tx, p + 2); });
		if (k)
			job.free(p);
	}
}

void freed_and_taken_in_one_update(Job &job)
{
	uint64_t *p = job.alloc(64), *again = nullptr;
	fur::update(job.self, [&](fur_update *tx) {
		fur_free(tx, p);
		again = static_cast<uint64_t *>(fur_alloc(tx, 64));
		fur_store(tx, again + 2, uint64_t{7});
		seen = fur_load(tx, again + 2);
	});
	fur::read(job.self, [&](fur_ro *tx) { seen = fur_load(tx, again + 2); });
}

/* Some threads allocate blocks and others free them, so that blocks go from thread to thread; all
 * of them read through the table of those that are in use, in every kind of transaction. */
class Table
{
public:
	explicit Table(Job &job) : table_(job.alloc(SLOTS * 8))
	{
		fur::update(job.self, [&](fur_update *tx) {
			for (uint64_t k = 0; k < SLOTS; k++)
				fur_store(tx, table_ + k, uint64_t{0});
		});
	}
	void work(fur_heap *heap, unsigned n) const
	{
		enum { ROUNDS = 4000 };
		fur::Thread me(heap);
		unsigned seed = n;
		for (int k = 0; k < ROUNDS; k++) {
			uint64_t slot = static_cast<uint64_t>(rand_r(&seed)) % SLOTS;
			auto change = [&](fur_update *tx) {
				n % 2 ? fill(tx, slot) : empty(tx, slot);
			};
			bool right = true;
			switch (rand_r(&seed) % 8) {
			case 0: fur::update(me, change); break;
			case 1:
				right = fur::update(me, fur::rerun,
				        [&](fur_update *tx) { return whole(tx, slot, 50); });
				break;
			case 2:
				right = fur::read(
				        me, [&](fur_ro *tx) { return whole(tx, slot, 0); });
				break;
			default: fur::update(me, fur::rerun, change);
			}
			if (!right)
				exit(4);
		}
	}

private:
	enum { SLOTS = 64, SEEN = 4 };

	void fill(fur_update *tx, uint64_t slot) const
	{
		if (fur_load(tx, table_ + slot))
			return;
		auto *p = static_cast<uint64_t *>(fur_alloc(tx, 64));
		if (!p)
			return;
		for (uint64_t k = 0; k < 8; k++)
			fur_store(tx, p + k, k);
		fur_store(tx, table_ + slot, reinterpret_cast<uint64_t>(p));
	}
	void empty(fur_update *tx, uint64_t slot) const
	{
		uint64_t word = fur_load(tx, table_ + slot);
		fur_free(tx, reinterpret_cast<void *>(word));
		fur_store(tx, table_ + slot, uint64_t{0});
	}
	/* The blocks may be freed between the loads of their addresses and those of their words. */
	template <class Tx>
	bool whole(Tx *tx, uint64_t slot, unsigned pause_us) const
	{
		uint64_t words[SEEN];
		for (uint64_t k = 0; k < SEEN; k++)
			words[k] = fur_load(tx, table_ + (slot + k) % SLOTS);
		if (pause_us)
			usleep(pause_us);
		for (uint64_t word : words)
			if (word && fur_load(tx, reinterpret_cast<uint64_t *>(word) + 7) != 7)
				return false;
		return true;
	}

	uint64_t *table_;
};

void threads(Job &job)
{
	enum { THREADS = 4 };
	Table table(job);
	std::vector<std::thread> all;
	for (unsigned n = 0; n < THREADS; n++)
		all.emplace_back([&, n] { table.work(job.heap, n); });
	for (std::thread &t : all)
		t.join();
}

/* The copy of a scan is the state of one instant, in which a block may be in use that is free by
 * now. */
void scan(Job &job)
{
	uint64_t *p = job.alloc(64);
	fur::update(job.self, [&](fur_update *tx) { fur_set_root(tx, 0, p); });
	job.freed(64);
	auto look = [](fur_heap *copy, void *) {
		fur::Thread self(copy);
		return fur::read(self,
		        [](fur_ro *tx) { return static_cast<int>(fur::root<uint64_t>(tx, 0)[2]); });
	};
	int result;
	if (fur_scan(job.heap, look, nullptr, &result) || result != 2)
		exit(3);
}

struct Way {
	bool wrong;
	void (*run)(Job &);
};
const std::map<std::string, Way> ways = {
        {"load-in-a-read", {true, load_in_a_read}},
        {"load-in-an-update", {true, load_in_an_update}},
        {"load-in-a-rerun-update", {true, load_in_a_rerun_update}},
        {"load-in-place", {true, load_in_place}},
        {"freed-in-place", {true, freed_in_place}},
        {"store", {true, store}},
        {"write", {true, write_many}},
        {"read", {true, read_many}},
        {"load-of-a-large-block", {true, load_of_a_large_block}},
        {"load-beyond-a-block", {true, load_beyond_a_block}},
        {"load-of-what-was-never-allocated", {true, load_of_what_was_never_allocated}},
        {"load-after-a-reopen", {true, load_after_a_reopen}},
        {"use-after-a-reopen", {false, use_after_a_reopen}},
        {"reuse", {false, reuse}},
        {"free-that-is-aborted", {false, free_that_is_aborted}},
        {"alloc-that-is-aborted", {false, alloc_that_is_aborted}},
        {"freed-and-taken-in-one-update", {false, freed_and_taken_in_one_update}},
        {"stored-and-freed-in-one-update", {false, stored_and_freed_in_one_update}},
        {"threads", {false, threads}},
        {"scan", {false, scan}},
};

int run(const char *path, const Way &way)
{
	fur::Options o;
	o.heap_bytes = 8 << 20;
	o.log_bytes = 16384; /* small stocks of free blocks */
	o.htm = FUR_HTM_NONE;
	o.pm = FUR_PM_EMULATED;
	Job job{path, o};
	way.run(job);
	return 0;
}

} // namespace

int main(int n, char **arguments)
{
	if (n == 1)
		for (const auto &[name, way] : ways)
			printf("%s %s\n", way.wrong ? "wrong" : "right", name.c_str());
	/* Valgrind keeps for the children what it has translated here. */
	if (n > 2)
		run(arguments[1], ways.at("use-after-a-reopen"));
	for (int k = 2; k < n; k++) {
		unlink(arguments[1]);
		auto way = ways.find(arguments[k]);
		if (way == ways.end())
			return 2;
		pid_t child = fork();
		if (!child)
			return run(arguments[1], way->second);
		int status;
		if (child < 0 || waitpid(child, &status, 0) != child)
			return 3;
		fprintf(stderr, "%s ended with %d\n", arguments[k],
		        WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
	}
	return 0;
}
