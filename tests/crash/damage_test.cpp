/* SPDX-License-Identifier: BSD-3-Clause
 *
 * damage_test.cpp - damage heaps that a killed process has left, open them, and compare each
 * opening with the acknowledged history.
 *
 *     damage-test --openings 20000 --seed 1 [--kind NAME] [--until-found]
 *
 * Threads work on a heap until SIGKILL.  The k-th update of a thread stores k in the thread's cell,
 * with the numbers that it has read in the cells of the others; some updates also count in a ledger
 * that all share.  So the cells alone tell whether a state was: each number that an update has read
 * is there (closed under reads-from), and the ledger has counted the updates that are there.  The
 * parent knows when each update began, and when it returned.  In one heap of four, thread 0 now and
 * then adds 1 to all words of an array, by a bulk update that is atomic as a whole; the process
 * ends when one of these has committed, and before it is replayed.
 *
 * Then, again and again: damage a copy of the file, and open it.  Right are a refusal, and a state
 * that was from which only the newest updates are missing: none is missing that had returned before
 * one that is there had begun (docs/damage.md).  After damage to a
 * single byte nothing may be missing at all.  A copy taken while the process works must be refused,
 * or hold a state that was.
 *
 * Exit status: 0 all right, 1 a violation, with the command that repeats it, 2 wrong usage.
 */
#include <fur.hpp>
#include <fur_bulk.h>

#include "internals.hpp"

#include <algorithm>
#include <argp.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <map>
#include <random>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace
{

/* Of bulk updates: their words; one comes after BULK_EVERY other updates of thread 0. */
enum : unsigned { THREADS = 4, HISTORY = 1 << 16, BULK_WORDS = 3000, BULK_EVERY = 20 };

using Random = std::mt19937_64;

/* ---------------------------------------------------------- the contents of a heap */

struct alignas(128) Cell {
	uint64_t number;        /* of the thread's newest update */
	uint64_t seen[THREADS]; /* the others' numbers, as it, or an earlier one, has read them */
	uint64_t ledgers;       /* of its updates, how many count in the ledger */
	uint64_t sum;           /* of the above: stored by the same update */
};
struct alignas(128) Ledger {
	uint64_t count;
};
struct Data {
	Cell cell[THREADS];
	Ledger ledger;
	uint64_t bulk[BULK_WORDS]; /* all the same */
};

uint64_t sum_of(const Cell &c)
{
	uint64_t sum = c.number * 0x9e3779b97f4a7c15 + c.ledgers;
	for (uint64_t seen : c.seen)
		sum = (sum ^ sum >> 29) * 0xbf58476d1ce4e5b9 + seen;
	return sum;
}

/* Thread and number decide which updates count in the ledger, and which updates they read. */
uint64_t dice(unsigned thread, uint64_t number)
{
	uint64_t z = (number << 8 | thread) + 0x9e3779b97f4a7c15;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* Messages of the worker to the parent, in shared memory, which survives the kill. */
struct History {
	uint64_t clock;
	struct Thread {
		uint64_t returned; /* number of the newest update that has */
		uint64_t began[HISTORY], ended[HISTORY];
	} thread[THREADS];
	Thread bulk; /* of the k-th bulk update */
};

uint64_t tick(History *h)
{
	return __atomic_add_fetch(&h->clock, 1, __ATOMIC_SEQ_CST);
}

void update_once(fur_thread *self, Data *data, unsigned t, uint64_t number)
{
	const uint64_t random = dice(t, number);
	fur::update(self, [&](fur_update *tx) {
		Cell mine;
		fur_read(tx, &mine, &data->cell[t], sizeof mine);
		mine.number = number;
		for (unsigned u = 0; u < THREADS; u++)
			if (u != t && (random >> u & 1))
				mine.seen[u] = fur_load(tx, &data->cell[u].number);
		if (random >> 8 & 1) {
			mine.ledgers++;
			fur_store(tx, &data->ledger.count, fur_load(tx, &data->ledger.count) + 1);
		}
		mine.sum = sum_of(mine);
		fur_write(tx, &data->cell[t], &mine, sizeof mine);
	});
}

/* In two extents, to have two rows. */
void bulk_once(fur_thread *self, Data *data)
{
	enum : uint64_t { HALF = BULK_WORDS / 2 };
	const fur_extent extents[] = {{data->bulk + HALF, 8, HALF}, {data->bulk, 8, HALF}};
	fur_bulk job;
	fur_bulk_init(&job);
	job.bytes = 8;
	job.extents = extents;
	job.n = 2;
	job.map = [](void *copy, size_t, uint64_t, void *) {
		++*static_cast<uint64_t *>(copy);
		return true;
	};
	fur::check(fur_bulk_run(self, &job, nullptr));
}

/* --------------------------------------------------------------------- worker */

fur::Options options_of(Random &random)
{
	fur::Options o;
	o.heap_bytes = 1 << 20;
	o.max_threads = THREADS;
	o.ring_slots = uint64_t(64) << random() % 4;
	o.log_bytes = uint64_t(4096) << random() % 4;
	o.pm = FUR_PM_EMULATED;
	return o;
}

/* The callback that replays: ends the process when the last bulk update has committed, so that only
 * recovery can replay it. */
const durability_ops *true_ops;
engine *watched;
uint64_t last_bulk;
int end_after_last_bulk(durability *d)
{
	if (arch_load(&watched->bulk.commits) >= last_bulk)
		kill(getpid(), SIGKILL);
	return true_ops->replay(d);
}

void end_with_bulk(fur_heap *heap, uint64_t updates)
{
	static durability_ops ops;
	true_ops = heap->durability.ops;
	ops = {end_after_last_bulk};
	last_bulk = 1 + updates / BULK_EVERY;
	watched = &heap->engine;
	heap->durability.ops = &ops;
}

void work(const std::string &path, const fur_options &o, History *history, unsigned threads,
        bool main_first, bool reopen, uint64_t bulk_after)
{
	auto *heap = new fur::Heap(fur::Heap::open(path, o));
	if (reopen) { /* some history below the tail, and a clean open */
		heap->close();
		*heap = fur::Heap::open(path, o);
	}
	if (bulk_after)
		end_with_bulk(heap->get(), bulk_after);
	auto run_bulk = [=](fur_thread *self) {
		History::Thread &bulk = history->bulk;
		const uint64_t number = bulk.returned + 1;
		bulk.began[number % HISTORY] = tick(history);
		bulk_once(self, static_cast<Data *>(root_at_rest(*heap, 0)));
		bulk.ended[number % HISTORY] = tick(history);
		__atomic_store_n(&bulk.returned, number, __ATOMIC_SEQ_CST);
	};
	auto run = [=](unsigned t, uint64_t upto) {
		fur::Thread self(*heap);
		auto *data = static_cast<Data *>(root_at_rest(*heap, 0));
		History::Thread &mine = history->thread[t];
		for (uint64_t k = mine.returned + 1; k <= upto; k++) {
			mine.began[k % HISTORY] = tick(history);
			update_once(self, data, t, k);
			mine.ended[k % HISTORY] = tick(history);
			__atomic_store_n(&mine.returned, k, __ATOMIC_SEQ_CST);
			if (bulk_after && t == main_first && k % BULK_EVERY == 0)
				run_bulk(self);
		}
	};
	std::vector<std::thread> all;
	if (main_first) /* it sets up, and does nothing more */
		std::thread(run, 0, 1).join();
	for (unsigned t = main_first; t < threads; t++)
		all.emplace_back(run, t, UINT64_MAX);
	for (auto &t : all)
		t.join();
}

/* A killed process's file, and a copy that was read from front to back while the process worked. */
struct Killed {
	std::string good, hot;
	unsigned threads;
};

/* From front to back, as `cp` does.  If `random` is given, with pauses in which a process that
 * works on it goes on: one long one, or many. */
std::string read_file(const std::string &path, Random *random = nullptr)
{
	enum { MOST_PIECES = 48, LONG_US = 6000, SHORT_US = 400 };
	const bool one = random && (*random)() % 4;
	const uint64_t at = one ? (*random)() % MOST_PIECES : 0;
	int fd = open(path.c_str(), O_RDONLY);
	std::string all;
	std::vector<char> piece(1 << 15);
	uint64_t pieces = 0;
	for (ssize_t n; (n = read(fd, piece.data(), piece.size())) > 0; pieces++) {
		all.append(piece.data(), static_cast<size_t>(n));
		if (one && pieces == at)
			usleep(LONG_US);
		else if (random && !one)
			usleep(static_cast<unsigned>((*random)() % SHORT_US));
	}
	close(fd);
	return all;
}

void write_file(const std::string &path, const std::string &all)
{
	int fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || write(fd, all.data(), all.size()) != static_cast<ssize_t>(all.size())) {
		perror(path.c_str());
		exit(2);
	}
	close(fd);
}

Killed make_killed(const std::string &path, History *history, Random &random, bool bulk)
{
	memset(history, 0, sizeof *history);
	unlink(path.c_str());
	const fur::Options o = options_of(random);
	{
		fur::Heap heap = fur::Heap::create(path, o);
		fur::Thread self(heap);
		fur::update(self, [&](fur_update *tx) {
			Data zero{};
			for (Cell &c : zero.cell)
				c.sum = sum_of(c);
			auto *data = static_cast<Data *>(fur_alloc(tx, sizeof zero));
			fur_write(tx, data, &zero, sizeof zero);
			fur_set_root(tx, 0, data);
		});
		heap.close();
	}
	Killed k;
	k.threads = 1 + static_cast<unsigned>(random() % THREADS);
	const bool main_first = k.threads > 1 && random() % 2, reopen = random() % 2;
	const uint64_t updates = 1 + random() % (3 * o.ring_slots); /* before the kill */
	pid_t child = fork();
	if (child == 0) {
		try {
			work(path, o, history, k.threads, main_first, reopen, bulk ? updates : 0);
		} catch (const std::exception &e) {
			fprintf(stderr, "worker: %s\n", e.what());
		}
		_exit(1);
	}
	auto done = [&] { return __atomic_load_n(&history->clock, __ATOMIC_SEQ_CST) / 2; };
	while (done() < updates / 2 && waitpid(child, nullptr, WNOHANG) == 0)
		usleep(100);
	k.hot = read_file(path, &random);
	while (done() < updates && waitpid(child, nullptr, WNOHANG) == 0)
		usleep(100);
	if (!bulk)
		kill(child, SIGKILL);
	waitpid(child, nullptr, 0);
	k.good = read_file(path);
	return k;
}

/* --------------------------------------------------------------------- damage */

enum class Kind {
	BIT,
	BYTE,
	WORD,
	RANGE,
	SECTOR_ZERO,
	PAGE_ZERO,
	PAGE_SWAP,
	PAGE_STALE,
	SLOT_SWAP,
	SLOT_COPY,
	SLOTS_ZERO,
	TWO_PLACES,
	HOT_COPY,
	NONE,
	KINDS
};
const char *const kind_names[] = {"bit", "byte", "word", "range", "sector-zero", "page-zero",
        "page-swap", "page-stale", "slot-swap", "slot-copy", "slots-zero", "two-places", "hot-copy",
        "none"};

bool one_byte(Kind kind)
{
	return kind == Kind::BIT || kind == Kind::BYTE || kind == Kind::NONE;
}

class Damage
{
public:
	Damage(const Killed &killed, Random &random)
	    : file_(killed.good), killed_(killed), random_(random)
	{
		memcpy(&super_, file_.data(), sizeof super_);
		if (media_tail_decode(super_.tail[1][0], &tail_))
			abort();
		/* Most damage is to be where something is. */
		for (uint64_t k = 0; k < super_.ring_slots; k++) {
			media_marker m;
			memcpy(&m, &file_[slot(tail_ + k)], sizeof m);
			if (m.durts == tail_ + k && m.thread < super_.max_threads)
				live_.push_back(m);
		}
		find_bulk();
	}

	std::string make(Kind kind)
	{
		switch (kind) {
		case Kind::BIT: file_[place()] ^= static_cast<char>(1 << random_() % 8); break;
		case Kind::BYTE: file_[place()] ^= static_cast<char>(1 + random_() % 255); break;
		case Kind::WORD: fill(place() & ~uint64_t(7), 8); break;
		case Kind::RANGE: fill(place(), 1 + random_() % 256); break;
		case Kind::SECTOR_ZERO: zero(place() & ~uint64_t(511), 512); break;
		case Kind::PAGE_ZERO: zero(place() & ~uint64_t(4095), 4096); break;
		case Kind::PAGE_SWAP: {
			uint64_t a = place() & ~uint64_t(4095),
			         b = random_() % 2 ? place() & ~uint64_t(4095) : a ^ 4096;
			std::swap_ranges(&file_[a], &file_[a] + 4096, &file_[b]);
			break;
		}
		case Kind::PAGE_STALE: { /* a write of it was lost */
			uint64_t a = place() & ~uint64_t(4095);
			file_.replace(a, 4096, killed_.hot, a, 4096);
			break;
		}
		case Kind::SLOT_SWAP: {
			uint64_t a = slot(number()), b = slot(number());
			if (a != b)
				std::swap_ranges(&file_[a], &file_[a] + 128, &file_[b]);
			break;
		}
		case Kind::SLOT_COPY: {
			const std::string piece = file_.substr(slot(number()), 128);
			file_.replace(slot(number()), 128, piece);
			break;
		}
		case Kind::SLOTS_ZERO:
			for (uint64_t s = number(), n = 1 + random_() % 32; n > 0; n--, s++)
				zero(slot(s), 128);
			break;
		case Kind::TWO_PLACES:
			fill(place(), 1 + random_() % 16), fill(place(), 1 + random_() % 16);
			break;
		case Kind::HOT_COPY: file_ = killed_.hot; break;
		default: break;
		}
		return file_;
	}

private:
	uint64_t slot(uint64_t durts) const
	{
		return super_.ring_offset + durts % super_.ring_slots * MEDIA_SLOT_BYTES;
	}
	uint64_t number()
	{
		return !live_.empty() && random_() % 4 ? live_[random_() % live_.size()].durts
		                                       : random_();
	}
	/* The block with the results of the bulk update that is not replayed. */
	void find_bulk()
	{
		auto *words = reinterpret_cast<media_super *>(file_.data());
		const media_file f = media_file_of(&super_, words);
		for (const media_marker &m : live_) {
			if (!log_marker_valid(&f, &m, m.durts))
				continue;
			log_walk walk = log_walk_update(&f, m.durts);
			if (!log_walk_next(&walk) || !walk.entry.bulk.rows)
				continue;
			bulk_ = super_.heap_offset + walk.entry.offset;
			bulk_bytes_ = walk.entry.bytes;
		}
	}
	/* In the ring or in a log; often the newest.  Now and then in the words of the superblock
	 * that change, and in the results of a bulk update. */
	uint64_t place()
	{
		if (bulk_bytes_ && random_() % 2)
			return bulk_ + random_() % bulk_bytes_;
		if (random_() % 32 == 0)
			return offsetof(media_super, state) +
			       random_() % (sizeof super_ - offsetof(media_super, state));
		if (live_.empty() || random_() % 8 == 0) {
			uint64_t ring = super_.ring_slots * MEDIA_SLOT_BYTES,
			         logs = super_.max_threads * super_.log_bytes;
			return random_() % 2 ? super_.ring_offset + random_() % ring
			                     : super_.logs_offset + random_() % logs;
		}
		size_t newest = std::min<size_t>(live_.size(), random_() % 2 ? 6 : live_.size());
		const media_marker &m = live_[live_.size() - 1 - random_() % newest];
		if (random_() % 2 || !m.log_bytes)
			return slot(m.durts) + random_() % sizeof m;
		return super_.logs_offset + m.thread * super_.log_bytes +
		       ((m.log_start + random_() % m.log_bytes) & (super_.log_bytes - 1));
	}
	void fill(uint64_t at, uint64_t n)
	{
		const uint64_t end =
		        at < super_.heap_offset ? super_.heap_offset : bulk_ + bulk_bytes_;
		for (uint64_t k = at; k < at + n && k < end; k++)
			file_[k] = static_cast<char>(random_());
	}
	void zero(uint64_t at, uint64_t n)
	{
		std::fill_n(&file_[at], n, '\0');
	}

	std::string file_;
	const Killed &killed_;
	Random &random_;
	media_super super_;
	uint64_t tail_ = 0;
	uint64_t bulk_ = 0, bulk_bytes_ = 0;
	std::vector<media_marker> live_;
};

/* -------------------------------------------------------------------- verdict */

struct Verdict {
	const char *wrong = nullptr; /* or null */
	uint64_t missing = 0;        /* updates that had returned */
};

bool began_after(const History &h, const Data &d, uint64_t ended, unsigned threads)
{
	for (unsigned t = 0; t < threads; t++)
		for (uint64_t k = d.cell[t].number; k > 0 && k + HISTORY > d.cell[t].number + 1;
		        k--) {
			if (h.thread[t].began[k % HISTORY] > ended)
				return true;
			break; /* a thread's newest began last */
		}
	return false;
}

/* The bulk updates are there as a whole, and which of them are. */
Verdict judge_bulk(const History &h, const Data &d, bool hot)
{
	const uint64_t there = d.bulk[0];
	for (uint64_t word : d.bulk)
		if (word != there)
			return {"a torn bulk update", 0};
	if (there > h.bulk.returned + 1)
		return {"a bulk update that never was", 0};
	if (hot || there >= h.bulk.returned)
		return {};
	if (began_after(h, d, h.bulk.ended[(there + 1) % HISTORY], THREADS))
		return {"a bulk update is missing that had returned before an update that is there "
		        "began",
		        1};
	return {nullptr, h.bulk.returned - there};
}

Verdict judge(const History &h, const Data &d, bool hot)
{
	uint64_t ledgers = 0;
	Verdict v = judge_bulk(h, d, hot);
	if (v.wrong)
		return v;
	for (unsigned t = 0; t < THREADS; t++) {
		const Cell &c = d.cell[t];
		ledgers += c.ledgers;
		if (c.sum != sum_of(c))
			return {"a torn update", 0};
		for (unsigned u = 0; u < THREADS; u++)
			if (c.seen[u] > d.cell[u].number)
				return {"a state that never was: an update is there, and one that "
				        "it has read is not",
				        0};
		if (c.number > h.thread[t].returned + 1)
			return {"an update that never was", 0};
	}
	if (ledgers != d.ledger.count)
		return {"a state that never was: the ledger has not counted the updates that are "
		        "there",
		        0};
	for (unsigned t = 0; t < THREADS && !hot; t++) {
		uint64_t first = d.cell[t].number + 1;
		if (first > h.thread[t].returned)
			continue;
		v.missing += h.thread[t].returned - d.cell[t].number;
		if (began_after(h, d, h.thread[t].ended[first % HISTORY], THREADS))
			return {"an update is missing that had returned before one that is there "
			        "began",
			        v.missing};
	}
	return v;
}

struct Count {
	uint64_t whole = 0, rolled_back = 0, refused = 0;
};

/* ------------------------------------------------------------------------ run */

struct Arguments {
	uint64_t openings = 1000, seed = 1;
	std::string kind, directory = "/dev/shm";
	bool verbose = false, until_found = false;
};

error_t parse(int key, char *arg, argp_state *state)
{
	auto *a = static_cast<Arguments *>(state->input);
	switch (key) {
	case 'n': a->openings = strtoull(arg, nullptr, 10); return 0;
	case 's': a->seed = strtoull(arg, nullptr, 10); return 0;
	case 'k': a->kind = arg; return 0;
	case 'd': a->directory = arg; return 0;
	case 'v': a->verbose = true; return 0;
	case 'u': a->until_found = true; return 0;
	case ARGP_KEY_ARG: argp_error(state, "unexpected argument '%s'", arg); return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

/* Open the damaged file and look. */
Verdict open_and_judge(
        const std::string &path, const History &history, Kind kind, Count &count, std::string &said)
{
	fur::Options o;
	o.pm = FUR_PM_EMULATED;
	fur_heap *heap;
	int result = fur_open(path.c_str(), &o, &heap);
	if (result) {
		said = fur_errormsg();
		count.refused++;
		if (kind == Kind::NONE)
			return {"a heap that only a kill has left is refused", 0};
		if (result != FUR_ECORRUPT && result != FUR_ENOTHEAP)
			return {"refused, and not as damaged", 0};
		return {};
	}
	const auto data = std::make_unique<Data>(*static_cast<const Data *>(root_at_rest(heap, 0)));
	Verdict v = judge(history, *data, kind == Kind::HOT_COPY);
	if (fur_close(heap) && !v.wrong)
		v.wrong = "it opens, and does not close";
	if (!v.wrong && v.missing && one_byte(kind))
		v.wrong = "after damage to one byte an update is missing that had returned";
	(v.missing ? count.rolled_back : count.whole)++;
	said = "opened";
	return v;
}

int run(const Arguments &a)
{
	auto *history = static_cast<History *>(mmap(nullptr, sizeof(History),
	        PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
	const std::string path = a.directory + "/fur-damage-" + std::to_string(getpid());
	std::map<Kind, Count> counts;
	uint64_t violations = 0, done = 0;
	/* A heap has one copy that was taken while it was open. */
	const unsigned openings_a_heap = a.kind == "hot-copy" ? 1 : 100;
	for (uint64_t n = 0; n < a.openings; n += openings_a_heap) {
		const uint64_t seed = a.seed + n / openings_a_heap;
		Random random(seed);
		const Killed killed = make_killed(path, history, random, seed % 4 == 0);
		for (unsigned k = 0; k < openings_a_heap && done < a.openings; k++, done++) {
			auto kind =
			        static_cast<Kind>(random() % static_cast<unsigned>(Kind::KINDS));
			for (unsigned i = 0; i < static_cast<unsigned>(Kind::KINDS); i++)
				if (a.kind == kind_names[i])
					kind = static_cast<Kind>(i);
			std::string said;
			write_file(path, Damage(killed, random).make(kind));
			Verdict v = open_and_judge(path, *history, kind, counts[kind], said);
			if (a.verbose)
				printf("%s: %s\n", kind_names[static_cast<unsigned>(kind)],
				        said.c_str());
			if (!v.wrong)
				continue;
			if (a.until_found) {
				unlink(path.c_str());
				printf("found: %s: %s\n", kind_names[static_cast<unsigned>(kind)],
				        v.wrong);
				return 0;
			}
			violations++;
			printf("VIOLATION: %s: %s (%s; %llu missing)\n    again: damage-test "
			       "--seed %llu --openings %u\n",
			        kind_names[static_cast<unsigned>(kind)], v.wrong, said.c_str(),
			        static_cast<unsigned long long>(v.missing),
			        static_cast<unsigned long long>(seed), openings_a_heap);
		}
	}
	unlink(path.c_str());
	printf("%-12s %8s %8s %12s\n", "damage", "whole", "refused", "newest lost");
	for (auto &[kind, c] : counts)
		printf("%-12s %8llu %8llu %12llu\n", kind_names[static_cast<unsigned>(kind)],
		        static_cast<unsigned long long>(c.whole),
		        static_cast<unsigned long long>(c.refused),
		        static_cast<unsigned long long>(c.rolled_back));
	printf("%llu openings, %llu violations\n", static_cast<unsigned long long>(done),
	        static_cast<unsigned long long>(violations));
	return violations || a.until_found ? 1 : 0;
}

} // namespace

int main(int argc, char **argv)
{
	static const argp_option options[] = {
	        {"openings", 'n', "N", 0, "damaged files to open, default 1000", 0},
	        {"seed", 's', "N", 0,
	                "of the first heap; a heap serves 100 openings, or one hot copy", 0},
	        {"kind", 'k', "NAME", 0, "this damage only", 0},
	        {"directory", 'd', "PATH", 0, "where the heaps are made, default /dev/shm", 0},
	        {"until-found", 'u', nullptr, 0,
	                "a bug is planted: 0 when it is found, 1 if it is not", 0},
	        {"verbose", 'v', nullptr, 0, "a line for each opening", 0}, {}};
	static const argp argp = {options, parse, nullptr,
	        "Damage heaps of killed processes and open them.", nullptr, nullptr, nullptr};
	Arguments a;
	argp_err_exit_status = 2;
	if (argp_parse(&argp, argc, argv, 0, nullptr, &a))
		return 2;
	try {
		return run(a);
	} catch (const std::exception &e) {
		fprintf(stderr, "damage-test: %s\n", e.what());
		return 1;
	}
}
