/* SPDX-License-Identifier: BSD-3-Clause
 *
 * near_replay.cpp - recovery whose last phase runs near the memory, next to the host's own.
 *
 * A process fills a heap and ends without closing it.  The host decides which updates are kept, as
 * recovery does, and sorts the words of their entries: by the shard of the image that an element
 * has, and within it by granule, for its tasklets.  The elements store them (kernels/apply.c).
 * Then libfur recovers the same heap, and both images are compared byte for byte.
 */
#include "../near/near_machine.hpp"
#include "../near/near_program.hpp"
#include "kernels/apply.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* C lets a function and a struct share a name */
#define _Static_assert static_assert
extern "C" {
#include "api/attach.h"
#include "api/heap.h"
#include "durability/ring.h"
#include "replay/apply.h"
extern const struct near_kernel apply_kernel;
}
#undef _Static_assert
#pragma GCC diagnostic pop

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fur.hpp>
#include <fur_bulk.h>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace
{

using tools::Json;
using tools::WrongUsage;

enum : uint64_t { GRANULE_BYTES = 4096, MOST_ENTRY = 200, MIB = 1 << 20, FEW_ENTRIES = 1 << 14 };

struct Settings : bench::NearSettings {
	std::string heap;
	unsigned elements = 4;
	uint64_t heap_mib = 64, updates = 20000, entries = 8, most_portions = 0, spread = 0,
	         bulk_records = 0, bulk_bytes = 100;
};

double now()
{
	return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
	        .count();
}

void check(int error)
{
	if (error)
		throw std::runtime_error(fur_errormsg());
}

/* ---------------------------------------------------------------------- heap */

/* Updates of words and of some bytes anywhere; with --bulk-records, half of them next to a bulk
 * update, and half after it.  The heap is never closed. */
class Filler
{
public:
	explicit Filler(const Settings &s) : s_(s), heap_(create(s)), random_(s.seed)
	{
		const uint64_t all = s.heap_mib * MIB,
		               room = s.bulk_records ? all / 2 : all / 8 * 7;
		spread_ = s.spread ? s.spread : room;
		fur::Thread self(heap_);
		block_ = fur::update(self, [&](fur_update *tx) {
			return static_cast<uint8_t *>(fur_alloc(tx, room));
		});
		if (!block_ || s.bulk_bytes * s.bulk_records > room || spread_ > room)
			throw std::runtime_error("the heap is too small: use a larger --heap-mib");
	}
	void fill()
	{
		if (s_.bulk_records)
			bulk();
		update(s_.updates);
	}

private:
	static fur::Heap create(const Settings &s)
	{
		fur::Options o;
		o.heap_bytes = s.heap_mib * MIB;
		/* All updates stay in the log. */
		const bool few = s.updates * s.entries + s.bulk_records <= FEW_ENTRIES;
		o.log_bytes = few ? 4 * MIB : 64 * MIB;
		o.ring_slots = few ? 2 * FEW_ENTRIES : 1 << 18;
		o.max_threads = 2;
		return fur::Heap::create(s.heap, o);
	}
	void update(uint64_t updates)
	{
		fur::Thread self(heap_);
		uint8_t bytes[MOST_ENTRY];
		for (uint64_t k = 0; k < updates; k++)
			fur::update(self, [&](fur_update *tx) {
				for (uint64_t e = 0; e < s_.entries; e++) {
					const uint64_t at = random_() % (spread_ - MOST_ENTRY),
					               n = e % 8 ? 8 : 1 + random_() % MOST_ENTRY;
					for (uint64_t b = 0; b < n; b++)
						bytes[b] = static_cast<uint8_t>(random_());
					fur_write(tx, block_ + (e % 8 ? at & ~UINT64_C(7) : at),
					        bytes, n);
				}
			});
	}
	void update_on_another_thread()
	{
		std::thread([this] { update(s_.updates / 2); }).join();
	}
	/* Ends the process when it has committed, before it is replayed: only the log has its
	 * entry, then. */
	void bulk()
	{
		fur::Thread self(heap_);
		durability &d = heap_.get()->durability;
		const Replay replay = {{replay_or_end}, d.ops, this};
		d.ops = &replay;
		const fur_extent records = {block_, s_.bulk_bytes, s_.bulk_records};
		fur_bulk bulk;
		fur_bulk_init(&bulk);
		bulk.map = map;
		bulk.arg = this;
		bulk.bytes = s_.bulk_bytes;
		bulk.extents = &records;
		bulk.n = 1;
		bulk.progress = [](uint64_t, uint64_t, void *filler) {
			auto &f = *static_cast<Filler *>(filler);
			if (!std::exchange(f.beside_, true))
				f.update_on_another_thread();
			return true;
		};
		check(fur_bulk_run(self, &bulk, nullptr));
		throw std::runtime_error("the bulk update was replayed before the process ended");
	}
	static bool map(void *copy, size_t bytes, uint64_t number, void *)
	{
		auto *byte = static_cast<uint8_t *>(copy);
		for (size_t k = 0; k < bytes; k++)
			byte[k] = static_cast<uint8_t>(byte[k] + number + k + 1);
		return number % 7 != 0;
	}
	struct Replay : durability_ops {
		const durability_ops *library;
		Filler *filler;
	};
	static int replay_or_end(durability *d)
	{
		const auto *r = static_cast<const Replay *>(d->ops);
		Filler &f = *r->filler;
		if (arch_load(&f.heap_.get()->engine.bulk.commits)) {
			f.update_on_another_thread();
			fflush(nullptr);
			_exit(0);
		}
		return r->library->replay(d);
	}

	const Settings &s_;
	fur::Heap heap_;
	std::mt19937_64 random_;
	uint8_t *block_ = nullptr;
	uint64_t spread_ = 0;
	bool beside_ = false; /* the updates next to the bulk update have run */
};

int fill(const Settings &s)
{
	Filler filler(s);
	filler.fill();
	fflush(nullptr);
	_exit(0);
}

void fill_in_a_process(const Settings &s)
{
	const pid_t child = fork();
	int status = 1;
	if (child == 0) {
		try {
			status = fill(s);
		} catch (const std::exception &e) {
			fprintf(stderr, "near-replay: %s\n", e.what());
		}
		_exit(status);
	}
	if (child < 0 || waitpid(child, &status, 0) < 0 || status)
		throw std::runtime_error(s.heap + ": the heap could not be filled");
}

/* The heap's file, opened without transactions. */
class File
{
public:
	explicit File(const std::string &path)
	{
		char reason[160];
		fur_options_init(&options_);
		options_.htm = FUR_HTM_NONE;
		check(heap_open_file(path.c_str(), HEAP_LOCK_WORKER, &file_));
		check(heap_attach(&d_, &file_, &options_, reason, sizeof reason));
	}
	~File()
	{
		if (d_.super)
			durability_detach(&d_);
		if (file_.super)
			heap_close_file(&file_);
	}
	File(const File &) = delete;
	durability *get()
	{
		return &d_;
	}
	std::vector<char> image() const
	{
		return {d_.image, d_.image + d_.super->heap_bytes};
	}

private:
	fur_options options_;
	heap_file file_{};
	durability d_{};
};

/* --------------------------------------------------------------------- words */

/* The words for one tasklet, and how many of its portions were applied. */
struct Basket {
	std::vector<apply_portion> portions;
	size_t words = 0, done = 0;

	void add(uint64_t place, uint32_t mask, uint64_t value)
	{
		if (words % APPLY_PORTION == 0)
			portions.emplace_back();
		portions.back().place[words % APPLY_PORTION] =
		        static_cast<uint32_t>(place << 8 | mask);
		portions.back().value[words++ % APPLY_PORTION] = value;
	}
};
using Baskets = std::vector<Basket>; /* of an element */

/* Sorts the entries of the kept updates. */
class Sorter
{
public:
	Sorter(const Settings &s, durability *d) : file_(durability_file(d)), baskets(s.elements)
	{
		for (Baskets &b : baskets)
			b.resize(s.tasklets);
		shard_bytes = d->super->heap_bytes / s.elements;
		tail = ring_tail(d);
		verdicts.resize(d->super->ring_slots);
		inspect_range range;
		inspect_judge(&file_, tail, verdicts.data(), &range);
		end = range.end;
		for (uint64_t at = tail; at < end; at++)
			if (verdicts[at - tail] == INSPECT_KEPT)
				sort(at);
	}

private:
	media_file file_; /* before the others, which are made with it */

public:
	std::vector<Baskets> baskets;
	std::vector<uint8_t> verdicts;
	uint64_t shard_bytes = 0, tail = 0, end = 0, updates = 0, entries = 0, words = 0,
	         bulk_pieces = 0;

private:
	void sort(uint64_t durts)
	{
		log_walk walk = log_walk_update(&file_, durts);
		while (log_walk_next(&walk)) {
			const log_entry &e = walk.entry;
			if (e.payload)
				sort(e);
#ifndef PLANT_BULK /* the tests' plant: results of a bulk update are left out */
			if (e.bulk.rows)
				sort_bulk(e);
#endif
		}
		if (walk.broken)
			throw std::runtime_error("a record makes no sense: restore the heap");
		updates++;
	}
	void sort_bulk(const log_entry &e)
	{
		log_bulk bulk = log_bulk_of(&file_, &e);
		for (; log_bulk_next(&bulk); bulk_pieces++)
			sort(bulk.piece);
		if (bulk.broken)
			throw std::runtime_error("a bulk update makes no sense: restore the heap");
	}
	/* The tasklet of a granule in an element: neighbours have different ones (INV-RN1). */
	static size_t tasklet_of(uint64_t offset, size_t tasklets)
	{
		return (static_cast<uint32_t>(offset / GRANULE_BYTES) * UINT64_C(0x9e3779b1) %
		               (UINT64_C(1) << 32)) *
		               tasklets >>
		       32;
	}
	void sort(const log_entry &e)
	{
		const uint64_t last = e.offset + e.bytes;
		for (uint64_t at = e.offset & ~UINT64_C(7); at < last; at += 8) {
			uint64_t value = 0;
			uint32_t mask = 0;
			auto *byte = reinterpret_cast<uint8_t *>(&value);
			for (uint64_t k = 0; k < 8; k++)
				if (at + k >= e.offset && at + k < last) {
					mask |= 1u << k;
					byte[k] = e.payload[at + k - e.offset];
				}
			Baskets &of = baskets[at / shard_bytes];
			of[tasklet_of(at, of.size())].add(at % shard_bytes / 8, mask, value);
			words++;
		}
		entries++;
	}
};

/* ------------------------------------------------------------------- machine */

/* Elements with a shard of the image each, and behind it, room for words. */
class Elements : public bench::NearMachine
{
public:
	Elements(const Settings &s, uint64_t shard_bytes)
	    : NearMachine(s.machine, s.elements, s.host_threads, &apply_kernel), s_(s),
	      shard_(shard_bytes)
	{
		rows_ = memories(s.elements);
		words_at_ = shard_ * s.elements / rows_;
		const uint64_t all = shape().memory_bytes;
		if (shard_ > 64 * MIB || words_at_ + MIB > all)
			throw WrongUsage("--elements " + std::to_string(s.elements) +
			                 ": the shards of the heap do not fit: use more");
		if (s.tasklets > shape().tasklets)
			throw WrongUsage("--tasklets " + std::to_string(s.tasklets) +
			                 ": the machine has " + std::to_string(shape().tasklets));
		most_ = std::min<uint64_t>((all - words_at_) / (s.elements / rows_), 16 * MIB) /
		        sizeof(apply_portion);
		if (s.most_portions)
			most_ = std::min(most_, s.most_portions);
		most_ = std::max<uint64_t>(most_, s.tasklets);
	}
	void push_image(const std::vector<char> &image)
	{
		push(NEAR_MEMORY, 0, image.data(), words_at_);
		before_ = counters();
	}
	/* Apply as much of the baskets as the memory has room for; false: nothing was left. */
	bool apply(std::vector<Baskets> &baskets)
	{
		std::vector<apply_job> jobs(s_.elements);
		std::vector<std::vector<apply_portion>> rows(s_.elements);
		uint64_t longest = 0;
		for (unsigned k = 0; k < s_.elements; k++) {
			take(baskets[k], jobs[k], rows[k]);
			longest = std::max<uint64_t>(longest, rows[k].size());
		}
		if (!longest)
			return false;
		std::vector<apply_portion> matrix(longest * s_.elements);
		for (unsigned k = 0; k < s_.elements; k++) {
			std::copy(rows[k].begin(), rows[k].end(), &matrix[k * longest]);
			const uint64_t in = rows_ == 1 ? k : 0,
			               at = words_at_ + in * longest * sizeof(apply_portion);
			jobs[k].image = static_cast<uint32_t>(in * shard_);
			for (near_address &p : jobs[k].portions)
				p += static_cast<near_address>(at);
		}
		push(NEAR_MEMORY, words_at_, matrix.data(),
		        longest * s_.elements / rows_ * sizeof(apply_portion));
		push(NEAR_SHARED, offsetof(apply_shared, job), jobs.data(), sizeof(apply_job));
		launch(s_.tasklets);
		wait();
		return true;
	}
	std::vector<char> pull_image()
	{
		std::vector<char> image(shard_ * s_.elements);
		pull(NEAR_MEMORY, 0, image.data(), words_at_);
		return image;
	}
	/* Since the image was pushed: the words' way, and the kernel. */
	double push_seconds() const
	{
		return static_cast<double>(counters().push_ps - before_.push_ps) * 1e-12;
	}
	double kernel_seconds() const
	{
		return static_cast<double>(counters().kernel_ps) * 1e-12;
	}

private:
	/* The job has places in the row. */
	void take(Baskets &baskets, apply_job &job, std::vector<apply_portion> &row) const
	{
		const uint64_t share = most_ / s_.tasklets;
		for (unsigned t = 0; t < s_.tasklets; t++) {
			Basket &b = baskets[t];
			const uint64_t n = std::min<uint64_t>(share, b.portions.size() - b.done);
			job.portions[t] = static_cast<uint32_t>(row.size() * sizeof(apply_portion));
			job.words[t] = static_cast<uint32_t>(std::min<uint64_t>(
			        n * APPLY_PORTION, b.words - b.done * APPLY_PORTION));
			const auto first = b.portions.begin() + static_cast<ptrdiff_t>(b.done);
			row.insert(row.end(), first, first + static_cast<ptrdiff_t>(n));
			b.done += n;
		}
	}
	const Settings &s_;
	uint64_t shard_, words_at_ = 0, most_ = 0; /* portions of an element in a launch */
	unsigned rows_ = 1;
	near_counters before_ = {};
};

/* ---------------------------------------------------------------------- main */

/* The host's apply phase alone, on an image of its own. */
double apply_on_host(durability *d, const Sorter &sorter, std::vector<char> image)
{
	replay_result result = {};
	const double from = now();
	const apply_range range = {sorter.tail, sorter.end,
	        reinterpret_cast<uint8_t *>(image.data()), sorter.verdicts.data(), 1, nullptr};
	check(apply_updates(d, &range, &result));
	return now() - from;
}

int run(const Settings &s)
{
	if ((s.heap_mib * MIB / s.elements) % GRANULE_BYTES || s.heap_mib * MIB % s.elements)
		throw WrongUsage("--elements " + std::to_string(s.elements) +
		                 ": the heap cannot be divided so: use a power of two");
	fill_in_a_process(s);
	File file(s.heap);
	durability *d = file.get();
	const std::vector<char> before = file.image();
	const double start = now();
	Sorter sorter(s, d);
	const double sorted = now() - start;
	Elements elements(s, sorter.shard_bytes);
	elements.push_image(before);
	const double begin = now();
	unsigned launches = 0;
	while (elements.apply(sorter.baskets))
		launches++;
	const double wall = now() - begin;
	const std::vector<char> near_image = elements.pull_image();
	const double host_apply = apply_on_host(d, sorter, before);
	replay_result host = {};
	bool recovered = false;
	check(replay_unless_closed(d, &host, &recovered));
	const bool verified = recovered && near_image == file.image() && near_image != before &&
	                      host.updates == sorter.updates;
	const double kernel = elements.kernel_seconds(),
	             near_seconds = kernel > 0 ? kernel + elements.push_seconds() : wall;
	const near_counters c = elements.counters();
	const Json result = {{"workload", "near-replay"}, {"machine", s.machine},
	        {"elements", s.elements}, {"tasklets", s.tasklets},
	        {"heap_bytes", near_image.size()}, {"shard_bytes", sorter.shard_bytes},
	        {"updates", sorter.updates}, {"entries", sorter.entries}, {"words", sorter.words},
	        {"bulk_pieces", sorter.bulk_pieces}, {"launches", launches},
	        {"seconds", near_seconds}, {"kernel_seconds", kernel},
	        {"push_seconds", elements.push_seconds()}, {"instructions", c.instructions},
	        {"host_sort_seconds", sorted}, {"host_apply_seconds", host_apply},
	        {"host_recovery_seconds", static_cast<double>(host.ns) * 1e-9},
	        {"throughput", static_cast<double>(sorter.entries) / near_seconds},
	        {"verified", verified}};
	bench::report_near(s, result, "replay", "entries");
	if (verified)
		return 0;
	fprintf(stderr, "near-replay: %s: the elements' image is not the host's\n",
	        s.machine.c_str());
	return 1;
}

void add_options(tools::CommandLine &line, Settings &s)
{
	bench::add_near_options(line, s, "of the updates");
	line.option("--heap", s.heap, "the heap file; the run removes it");
	line.option("--heap-mib", s.heap_mib, "its size in MiB").range(4, 1024);
	line.option("--elements", s.elements, "that have a shard of the image each").range(1, 64);
	line.option("--updates", s.updates, "updates to recover").range(1, 1 << 17);
	line.option("--entries", s.entries, "entries of each update").range(1, 100);
	line.option("--spread", s.spread,
	            "bytes that the updates store to; default: most of the heap")
	        .range(2 * MOST_ENTRY, 8 * MIB);
	line.option("--bulk-records", s.bulk_records,
	            "records that a bulk update changes next to the updates; default: none")
	        .range(0, 1 << 20);
	line.option("--bulk-bytes", s.bulk_bytes, "bytes of each of them").range(1, 1 << 16);
	line.option("--most-portions", s.most_portions,
	            "portions of 32 words of an element in a launch; default: as many as fit")
	        .range(1, 1 << 20);
}

} // namespace

int main(int argc, char **argv)
{
	Settings s;
	s.tasklets = 11;
	tools::CommandLine line("near-replay",
	        "Recovery of a heap whose last phase runs next to the memory, and on the host.");
	add_options(line, s);
	if (auto status = tools::parse_or_exit_status(line, "near-replay", argc, argv))
		return *status;
	if (s.heap.empty())
		s.heap = "/dev/shm/fur-near-replay-" + std::to_string(getpid());
	else if (access(s.heap.c_str(), F_OK) == 0) {
		fprintf(stderr, "near-replay: %s: the file exists: name another one\n",
		        s.heap.c_str());
		return 1;
	}
	const int status = bench::near_exit_status("near-replay", s, [&] { return run(s); });
	unlink(s.heap.c_str());
	return status;
}
