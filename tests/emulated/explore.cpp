/* SPDX-License-Identifier: BSD-3-Clause
 *
 * explore.cpp - run libfur, or a system it is measured against, on the emulated machine, a schedule
 * for each seed, under the oracle; with --crash, cut the power at a point chosen by the seed,
 * recover as the system does, and ask the oracle again.
 *
 *     explore --tm fur-opacity --workload intset --threads 4 --seeds 1..1000 --crash
 *
 * Everything about a run follows from its seed and the options: machine, number of retries, share
 * of updates, delays, schedule, crash.  Each seed runs in a process of its own.  Exit status: 0 no
 * violation, 1 a violation (what, the steps that led to it, the command that repeats it), 2 wrong
 * usage.
 *
 * --plant BUG and --tm fur-paper are other programs, built from this file and a library with that
 * bug, or that protocol, in it.
 */
#include "../../bench/common/systems.hpp"
#include "../../bench/rbtree/rbtree.hpp"
#include "../../bench/tpcc/load.hpp"
#include "../../emulator/emulated.h"
#include "../../tools/common/command_line.hpp"
#include "../unit/internals.hpp"
#include "oracle.hpp"
#include "plants.hpp"

#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace
{

enum { MOST_THREADS = 16, KEYS = 24, ACCOUNTS = 8, OPENING = 1000 };

struct Options {
	std::string tm = "fur-opacity", workload = "intset", isolation, plant, machine = "all",
	            history, seeds = "1..100";
	unsigned threads = 4, operations = 30, jobs = 0;
	uint64_t first = 1, last = 100, crash_at = 0;
	bool crash = false, keep_going = false, replayer = false, dram = false;
	bool snapshot = false;                                /* what the heap is opened with */
	oracle::Isolation asked = oracle::Isolation::OPACITY; /* what the oracle asks for */
};

/* splitmix64.  Its own, not the machine's: that must not be compiled here, where every access is
 * seen by the machine. */
struct Random {
	uint64_t state;
	uint64_t next()
	{
		uint64_t z = state += 0x9e3779b97f4a7c15u;
		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
		z = (z ^ z >> 27) * 0x94d049bb133111ebu;
		return z ^ z >> 31;
	}
	uint64_t below(uint64_t n)
	{
		return next() % n;
	}
};

/* ------------------------------------------------------ what is in the heap */

struct alignas(128) Line {
	uint64_t value, gap[15];
};
struct Data {
	tpcc::Database *database; /* tpcc only */
	rbtree::Tree tree;
	uint64_t gap[14];
	/* Each is written by who has read the other: write skew, if that is allowed */
	Line pair[2];
	Line newest[MOST_THREADS];     /* number of the thread's last update */
	uint64_t account[ACCOUNTS][8]; /* [a][0]; two to a line of 128 bytes */
};

/* How large a block is, and does a promoted read count as a write?  Asked by an observer. */
template <class Tx>
size_t usable(const Tx *tx, void *p);
template <class Tx>
bool promotes(const Tx *tx);

/* A transaction whose accesses the oracle is told of. */
template <class Tx>
struct Recorded {
	Tx *tx;
	const char *base;
	unsigned writes = 0;
	uint64_t offset(const volatile void *p) const
	{
		return static_cast<uint64_t>(static_cast<const volatile char *>(p) - base);
	}
};

template <class T>
uint64_t bits_of(T value)
{
	static_assert(sizeof value == 8, "the oracle knows words of 8 bytes");
	uint64_t bits;
	memcpy(&bits, &value, 8);
	return bits;
}
template <class Tx, class T>
T fur_load(Recorded<Tx> *r, const T *p)
{
	T value = fur_load(r->tx, p);
	oracle::read(r->offset(p), bits_of(value));
	return value;
}
template <class Tx, class T>
void fur_store(Recorded<Tx> *r, T *p, std::type_identity_t<T> value)
{
	fur_store(r->tx, p, value);
	r->writes++;
	oracle::write(r->offset(p), bits_of(value));
}
template <class Tx>
void fur_promote(Recorded<Tx> *r, void *p)
{
	fur_promote(r->tx, p);
	auto *word = reinterpret_cast<uint64_t *>(reinterpret_cast<uintptr_t>(p) & ~uintptr_t(7));
	/* To the oracle a write of what is there; under opacity, where it is none, as right a
	 * read. */
	if (promotes(r->tx))
		oracle::write(r->offset(word), fur_load(r->tx, word));
}

template <class Tx>
void *fur_alloc(Recorded<Tx> *r, size_t bytes)
{
	void *p = fur_alloc(r->tx, bytes);
	if (p)
		oracle::forget(r->offset(p), usable(r->tx, p));
	return p;
}
template <class Tx>
void fur_free(Recorded<Tx> *r, void *p)
{
	oracle::forget(r->offset(p), usable(r->tx, p));
	fur_free(r->tx, p);
}

/* ---------------------------------------------------------------- one run */

const uint64_t ADDRESS = UINT64_C(0x300000000000);
const tpcc::Scale MICRO = {3, 20, 1, 3, 5, true, true};

enum class Work { INTSET, BANK, TPCC };

uint64_t heap_bytes(const Options &o)
{
	return o.workload == "tpcc" ? 4 << 20 : 1 << 20;
}
uint64_t log_bytes(const Options &o)
{
	return o.workload == "tpcc" ? 65536 : 4096; /* a new order's writes */
}

struct Plan { /* what a seed stands for */
	std::string machine;
	fur_htm htm;
	uint32_t perturb, retries;
	unsigned update_percent;
	uint64_t crash_after;
	/* 0: right then.  Else a few accesses after the first return since: of any transaction (1),
	 * or of one that has read from an update that has not returned (2); what was returned must
	 * be durable. */
	unsigned crash_near_return;
	unsigned replay_threads, preload;
};

/* What simulated threads look at.  One static object: on a stack, or allocated, it would share
 * lines with this or that, and runs would differ with the environment. */
struct alignas(256) Run {
	fur_htm htm;
	uint32_t retries;
	uint64_t seed;
	unsigned threads, operations, update_percent;
	Work work;
	unsigned replay_threads, preload;
	uint64_t crash_near_return; /* after so many accesses; 0: not */
	bool crash_if_risky;
	const Options *o;
	alignas(256) char path[256];
};
Run run;

[[noreturn]] void die(const std::string &what)
{
	std::cerr << what << std::endl;
	_exit(3);
}

void must(int result)
{
	if (result)
		die(std::string("explore: ") + fur_errormsg());
}

/* ---------------------------------------------------------------- subjects
 *
 * What is explored: a heap that is made, or opened, and threads on it, as in bench/common/tm.hpp.
 * The heap is opened by simulated threads, and again by nobody, to see what recovery makes of
 * it. */

class Fur
{
public:
	static void make(const Options &o, const std::string &path)
	{
		fur_options f = options(o, FUR_HTM_NONE, 0);
		fur_heap *heap;
		must(fur_create(path.c_str(), &f, &heap));
		must(fur_close(heap));
	}
	Fur(const Options &o, const char *path, fur_htm htm, uint32_t retries)
	{
		fur_options f = options(o, htm, retries);
		if (fur_open(path, &f, &heap_))
			throw std::runtime_error(fur_errormsg());
	}
	~Fur()
	{
		must(fur_close(heap_));
	}
	Fur(const Fur &) = delete;

	class Thread
	{
	public:
		explicit Thread(Fur &fur)
		{
			must(fur_thread_register(fur.heap_, &self_));
		}
		template <class Body>
		void read(Body body)
		{
			fur_ro *tx;
			must(fur_begin_ro(self_, &tx));
			body(tx);
			must(fur_end_ro(tx));
		}
		template <class Body>
		bool update_or_abort(Body body)
		{
			fur_update *tx;
			must(fur_begin_update(self_, &tx));
			if (!body(tx)) {
				fur_abort(tx);
				return false;
			}
			must(fur_commit(tx));
			return true;
		}

	private:
		fur_thread *self_ = nullptr;
	};
	void *root() const
	{
		return fur_root(heap_, 0);
	}
	void set_root(fur_update *tx, void *p)
	{
		fur_set_root(tx, 0, p);
	}
	char *base() const
	{
		return static_cast<char *>(fur_base(heap_));
	}
	uint64_t bytes() const
	{
		return fur_bytes(heap_);
	}
	/* However little there is to replay. */
	void replay_with(unsigned threads, unsigned preload)
	{
		heap_->durability.replay_options = {threads, preload, 1};
	}
	/* Blocks allocated, or what is wrong with them. */
	uint64_t blocks(std::string &wrong) const
	{
		alloc_census census;
		if (alloc_check(fur_base(heap_), &census))
			wrong = std::string("the allocator: ") + fur_errormsg();
		return census.blocks;
	}
	/* Does the machine see its commit? */
	static bool under_lock(const fur_update *tx)
	{
		return tx->mode == TX_LOCK;
	}
	/* As a process beside this one would that serves the heap: it has its own open file, and
	 * knows of the file's contents only.  It comes and goes: the worker finds it there, or not,
	 * or not answering. */
	void replay_beside(const std::atomic<bool> &over)
	{
		auto d = std::make_unique<durability>(heap_->durability);
		d->beside = true;
		d->redo = nullptr;
		d->nondurable = nullptr;
		d->pm.fd = ::open(run.path, O_RDWR);
		for (uint64_t turns = 0; !over; turns++) {
			if (turns % 16 == 0)
				must(heap_lock_try(d->pm.fd, HEAP_LOCK_REPLAYER));
			d->control->replayer_pid = 1;
			if (control_try_take(d.get()) == 0) {
				must(replay_live(d.get()));
				control_give_back(d.get());
			}
			if (turns % 16 == 11)
				heap_lock_give_back(d->pm.fd, HEAP_LOCK_REPLAYER);
			timespec nap = {0, static_cast<long>(turns * 7919 % 1000)};
			syscall(SYS_nanosleep, &nap, nullptr);
		}
		::close(d->pm.fd);
	}
	/* After a power failure its mappings are gone. */
	static void unmap(const Options &o)
	{
		munmap(reinterpret_cast<void *>(ADDRESS), heap_bytes(o));
	}

private:
	static fur_options options(const Options &o, fur_htm htm, uint32_t retries)
	{
		fur_options f;
		fur_options_init(&f);
		f.heap_bytes = heap_bytes(o);
		f.log_bytes = log_bytes(o);
		f.ring_slots = 64;
		f.max_threads = o.threads + 2;
		f.address = ADDRESS;
		f.htm = htm;
		f.retries = retries;
		f.pm = FUR_PM_EMULATED;
		f.pm_latency_ns = FUR_NO_LATENCY; /* the machine's own */
		f.dram_bytes = o.dram ? 1 : 0;    /* a page is too many */
		f.isolation = o.snapshot ? FUR_SNAPSHOT : FUR_OPACITY;
		return f;
	}
	fur_heap *heap_ = nullptr;
};

template <>
size_t usable(const fur_update *tx, void *p)
{
	struct Question {
		const fur_heap *heap;
		void *p;
		size_t bytes;
	} q = {tx->thread->heap, p, 0};
	emu_unseen(
	        [](void *question) {
		        auto *asked = static_cast<Question *>(question);
		        asked->bytes = fur_usable_bytes(asked->heap, asked->p);
	        },
	        &q);
	return q.bytes;
}
template <>
bool promotes(const fur_update *tx)
{
	return tx->thread->htm->isolation == FUR_SNAPSHOT;
}

/* One of the systems of bench/baselines, which tells the oracle what the machine cannot know. */
struct Watch {
	static void visible()
	{
		tell(oracle::visible);
	}
	static void withdrawn()
	{
		tell(oracle::withdrawn);
	}
	static void pending()
	{
		tell(oracle::pending);
	}
	static void aborted()
	{
		tell(oracle::aborted);
	}

private:
	/* Of simulated threads: what prepares and looks is not part of the run. */
	static void tell(void (*what)())
	{
		if (emu_thread() >= 0)
			what();
	}
};

template <template <class> class Tm>
class Baseline
{
public:
	static void make(const Options &o, const std::string &path)
	{
		Tm<Watch> tm(options(o, path.c_str(), 0, false));
	}
	Baseline(const Options &o, const char *path, fur_htm htm, uint32_t retries)
	    : tm_(options(o, path, htm == FUR_HTM_NONE ? 0 : retries, true))
	{
	}
	class Thread : public Tm<Watch>::Thread
	{
	public:
		explicit Thread(Baseline &b) : Tm<Watch>::Thread(b.tm_) {}
	};
	void *root()
	{
		return tm_.root();
	}
	template <class Tx>
	void set_root(Tx *tx, void *p)
	{
		tm_.set_root(tx, p);
	}
	char *base() const
	{
		return tm_.medium.heap();
	}
	void replay_with(unsigned, unsigned) {}
	uint64_t bytes() const
	{
		return tm_.medium.heap_bytes();
	}
	uint64_t blocks(std::string &) const
	{
		return baselines::blocks_in_use(tm_.medium);
	}
	template <class Tx>
	static bool under_lock(const Tx *)
	{
		return false; /* it tells the oracle by itself */
	}
	static void unmap(const Options &o)
	{
		baselines::Medium::forget(options(o, "", 0, true));
	}

private:
	static bench::TmOptions options(
	        const Options &o, const char *path, unsigned retries, bool reuse)
	{
		bench::TmOptions t;
		t.threads = o.threads;
		t.heap = path;
		t.reuse = reuse;
		t.heap_bytes = 2 * heap_bytes(o); /* its pieces are coarse */
		t.log_bytes = log_bytes(o);
		t.machine_has_pm = true;
		t.retries = retries;
		return t;
	}
	Tm<Watch> tm_;
};

template <class Tx>
size_t usable(const Tx *, void *p)
{
	struct Question {
		void *p;
		size_t bytes;
	} q = {p, 0};
	emu_unseen(
	        [](void *question) {
		        auto *asked = static_cast<Question *>(question);
		        asked->bytes = baselines::usable_bytes(asked->p);
	        },
	        &q);
	return q.bytes;
}
template <>
bool promotes(const baselines::spht_tx *tx)
{
	return tx->promotes;
}
template <>
bool promotes(const baselines::pisces_tx *)
{
	return true;
}
template <>
bool promotes(const baselines::specpmt_tx *)
{
	return false;
}

/* ------------------------------------------------------------------ the work */

/* One thread's transactions. */
template <class Subject>
class Worker
{
public:
	Worker(Subject &subject, unsigned number)
	    : random_{run.seed * 1000003 + number}, self_(subject),
	      data_(static_cast<Data *>(subject.root())), base_(subject.base())
	{
		mine_ = &data_->newest[static_cast<unsigned>(emu_thread())].value;
	}

	void work()
	{
		bool bank = run.work == Work::BANK;
		for (unsigned k = 0; k < run.operations; k++) {
			bool update = random_.below(100) < run.update_percent;
			uint64_t r = random_.next();
			if (run.work == Work::TPCC)
				tpcc_one(update, r);
			else if (update && bank && r >> 62 == 0)
				this->update(r, [r](auto *tx, Data *d) {
					fur_store(tx, &d->pair[r & 1].value,
					        fur_load(tx, &d->pair[~r & 1].value) + 1);
				});
			else if (update && bank)
				this->update(r, [r](auto *tx, Data *d) { transfer(tx, d, r); });
			else if (update)
				this->update(r, [r](auto *tx, Data *d) {
					(void)(r & 1 ? rbtree::insert(tx, &d->tree, key(r))
					             : rbtree::remove(tx, &d->tree, key(r)));
				});
			else if (bank)
				read([](auto *tx, Data *d) { sum(tx, d); });
			else
				read([r](auto *tx, Data *d) {
					rbtree::contains(tx, &d->tree, key(r));
					rbtree::contains(tx, &d->tree, key(r >> 16));
				});
		}
	}

private:
	static int64_t key(uint64_t r)
	{
		return static_cast<int64_t>((r >> 8) % KEYS);
	}
	void tpcc_one(bool update, uint64_t r)
	{
		/* Two districts of the ten: more to meet at */
		uint64_t d = 1 + (r >> 8) % 2, c = 1 + (r >> 12) % MICRO.customers;
		if (!update && r & 1)
			return read([=](auto *tx, Data *data) {
				tpcc::order_status(
				        tx, data->database, {1, d, c, c - 1, (r >> 20 & 1) != 0});
			});
		if (!update)
			return read([=](auto *tx, Data *data) {
				uint64_t seen[64];
				tpcc::stock_level(tx, data->database,
				        {1, d, MICRO.stock_orders, 15}, seen, 64);
			});
		if (r % 8 == 0)
			return this->update(r, [=](auto *tx, Data *data) {
				tpcc::delivery(
				        tx, data->database, {1, 1 + (r >> 30) % 10, r >> 32});
			});
		if (r & 1)
			return this->update(r, [=](auto *tx, Data *data) {
				tpcc::payment(tx, data->database,
				        {1, d, 1, d, c, c - 1, r >> 32, (r >> 20 & 1) != 0,
				                static_cast<int64_t>(1 + (r >> 40))});
			});
		tpcc::NewOrder in = {1, d, c, 1 + (r >> 21) % 3, r >> 32, {}};
		for (uint64_t n = 0; n < in.lines; n++)
			in.line[n].item = 1 + (r >> (24 + 5 * n)) % MICRO.items,
			in.line[n].supplier = 1, in.line[n].quantity = 1 + n;
		this->update(
		        r, [in](auto *tx, Data *data) { tpcc::new_order(tx, data->database, in); });
	}
	template <class Tx>
	static void sum(Tx *tx, Data *d)
	{
		uint64_t total = 0;
		for (auto &a : d->account)
			total += fur_load(tx, &a[0]);
	}
	template <class Tx>
	static void transfer(Tx *tx, Data *d, uint64_t r)
	{
		uint64_t *from = &d->account[(r >> 8) % ACCOUNTS][0],
		         *to = &d->account[(r >> 16) % ACCOUNTS][0], amount = r >> 24 & 63;
		fur_store(tx, from, fur_load(tx, from) - amount);
		fur_store(tx, to, fur_load(tx, to) + amount);
	}

	/* Something has just been returned: now is the time for a power failure to take it back. */
	void perhaps_crash(bool risky)
	{
		if (!run.crash_near_return || (run.crash_if_risky && !risky) ||
		        emu_count().accesses < run.crash_near_return)
			return;
		run.crash_near_return = 0;
		emu_crash_in(1 + random_.below(30));
	}

	template <class Body>
	void read(Body body)
	{
		oracle::invoke(false);
		self_.read([&](auto *tx) {
			oracle::attempt();
			Recorded recorded{tx, base_};
			body(&recorded, data_);
			oracle::committing(false, 0);
			return 0;
		});
		perhaps_crash(oracle::returned(true));
	}

	template <class Body>
	void update(uint64_t r, Body body)
	{
		oracle::invoke(true);
		bool committed = self_.update_or_abort([&](auto *tx) {
			oracle::attempt();
			Recorded recorded{tx, base_};
			body(&recorded, data_);
			/* An update that wrote nothing stays one. */
			if (recorded.writes && !(r >> 40 & 15))
				return false;
			uint64_t number = 0;
			if (recorded.writes)
				fur_store(
				        &recorded, mine_, number = fur_load(&recorded, mine_) + 1);
			oracle::committing(Subject::under_lock(tx), number);
			return true;
		});
		bool risky = oracle::returned(committed);
		if (committed)
			perhaps_crash(risky);
	}

	Random random_;
	typename Subject::Thread self_;
	Data *data_;
	const char *base_;
	uint64_t *mine_ = nullptr;
};

/* Simulated: thread 0. */
template <class Subject>
void simulate(void *)
{
	Subject subject(*run.o, run.path, run.htm, run.retries);
	subject.replay_with(run.replay_threads, run.preload);
	oracle::start(subject.base(), subject.bytes());
	std::vector<std::thread> threads;
	for (unsigned i = 0; i < run.threads; i++)
		threads.emplace_back([i, &subject] { Worker<Subject>(subject, i).work(); });
	std::atomic<bool> over{false};
	std::thread replayer;
	if constexpr (requires { subject.replay_beside(over); })
		if (run.o->replayer)
			replayer = std::thread([&] { subject.replay_beside(over); });
	for (auto &t : threads)
		t.join();
	over = true;
	if (replayer.joinable())
		replayer.join();
}

/* The heap every run starts from: some keys, some money. */
template <class Subject>
void make_template(const Options &o, const std::string &path)
{
	Subject::make(o, path);
	Subject subject(o, path.c_str(), FUR_HTM_NONE, 0);
	typename Subject::Thread self(subject);
	auto one = [&](auto &&body) {
		self.update_or_abort([&](auto *tx) {
			body(tx);
			return true;
		});
	};
	Data *data = nullptr;
	one([&](auto *tx) { data = static_cast<Data *>(fur_alloc(tx, sizeof(Data))); });
	auto *word = reinterpret_cast<uint64_t *>(data);
	/* A log holds no more */
	for (size_t done = 0, step = 64; done < sizeof(Data) / 8; done += step)
		one([&](auto *tx) {
			for (size_t n = done; n < std::min(done + step, sizeof(Data) / 8); n++)
				fur_store(tx, word + n, 0);
		});
	one([&](auto *tx) {
		for (auto &a : data->account)
			fur_store(tx, &a[0], OPENING);
		subject.set_root(tx, data);
	});
	for (int64_t key = 0; key < KEYS; key += 2)
		one([&](auto *tx) { (void)rbtree::insert(tx, &data->tree, key); });
	if (o.workload == "tpcc") {
		auto *database = tpcc::load(one, 1, MICRO, 1, [] {});
		one([&](auto *tx) { fur_store(tx, &data->database, database); });
	}
}

/* What holds whatever the transactions were. */
template <class Subject>
std::string check_structure(const Subject &subject, const Data *data)
{
	/* Nobody else is there: any transaction reads as it is */
	auto *tx = static_cast<fur_ro *>(nullptr);
	uint64_t size, money = 0;
	if (const char *wrong = rbtree::verify(tx, &data->tree, size))
		return std::string("the tree: ") + wrong;
	for (auto &a : data->account)
		money += a[0];
	if (money != uint64_t(ACCOUNTS) * OPENING)
		return "the accounts hold " + std::to_string(money) + ", not " +
		       std::to_string(ACCOUNTS * OPENING);
	std::string damage;
	uint64_t blocks = subject.blocks(damage);
	if (!damage.empty())
		return damage;
	if (data->database) {
		const char *wrong = tpcc::check(tx, data->database);
		return wrong ? wrong : "";
	}
	if (blocks != 1 + size)
		return std::to_string(blocks) + " blocks are allocated, " +
		       std::to_string(1 + size) + " are reachable";
	return "";
}

/* Not simulated: open the file, which replays it, and look. */
template <class Subject>
std::string check_recovered(const Options &o, const std::string &path, bool crashed)
{
	std::optional<Subject> subject;
	try {
		subject.emplace(o, path.c_str(), FUR_HTM_NONE, 0);
	} catch (const std::exception &e) {
		return std::string("recovery failed: ") + e.what();
	}
	auto *data = static_cast<const Data *>(subject->root());
	uint64_t newest[MOST_THREADS];
	for (unsigned t = 0; t < MOST_THREADS; t++)
		newest[t] = data->newest[t].value;
	std::string wrong =
	        crashed ? oracle::check_durable(o.asked, subject->base(), newest, MOST_THREADS)
	                : oracle::check_final(subject->base());
	return wrong.empty() ? check_structure(*subject, data) : wrong;
}

void write_file(const std::string &path, const void *from, size_t bytes)
{
	std::ofstream file(path, std::ios::binary | std::ios::trunc);
	file.write(static_cast<const char *>(from), static_cast<std::streamsize>(bytes));
	if (!file.flush())
		die("explore: " + path + ": cannot write: is /dev/shm full?");
}

Plan plan_of(const Options &o, uint64_t seed, uint64_t longest)
{
	Random r{seed * 7919};
	Plan p;
	static const char *const machines[] = {"power9", "tsx", "power9", "tsx-tracked"};
	p.machine = o.machine != "all"                            ? o.machine
	            : o.tm == "fur-paper" || o.tm == "spht-sihtm" ? "power9"
	                                                          : machines[seed % 4];
	static const uint32_t perturbs[] = {0, 400, 100, 30}, retries[] = {10, 3, 1};
	p.perturb = perturbs[r.below(4)];
	p.retries = retries[r.below(3)];
	static const unsigned updates[] = {20, 50, 80};
	p.update_percent = updates[r.below(3)];
	p.htm = r.below(16) ? FUR_HTM_AUTO : FUR_HTM_NONE;
	p.crash_near_return = static_cast<unsigned>(r.below(3));
	p.crash_after = !o.crash ? 0 : o.crash_at ? o.crash_at : 1 + r.below(longest);
	static const unsigned preloads[] = {0, 1, 4, 16};
	p.replay_threads = 1 + static_cast<unsigned>(r.below(3));
	p.preload = preloads[r.below(4)];
	return p;
}

/* Nothing, or what is wrong. */
template <class Subject>
std::string run_seed(const Options &o, const Plan &plan, uint64_t seed,
        const std::string &heap_template, const std::string &path, uint64_t *accesses)
{
	std::filesystem::copy_file(
	        heap_template, path, std::filesystem::copy_options::overwrite_existing);
	run.o = &o;
	run.htm = plan.htm;
	run.retries = plan.retries;
	run.seed = seed;
	run.threads = o.threads;
	run.operations = o.operations;
	run.update_percent = plan.update_percent;
	run.replay_threads = plan.replay_threads;
	run.preload = plan.preload;
	run.work = o.workload == "bank"   ? Work::BANK
	           : o.workload == "tpcc" ? Work::TPCC
	                                  : Work::INTSET;
	run.crash_near_return = plan.crash_near_return ? plan.crash_after : 0;
	run.crash_if_risky = plan.crash_near_return == 2;
	snprintf(run.path, sizeof run.path, "%s", path.c_str());
	emu_options options = {};
	options.seed = seed;
	options.perturb = plan.perturb;
	options.crash_after = plan.crash_near_return ? 0 : plan.crash_after;
	options.limit_ns = UINT64_C(50000000);
	oracle::start("", 0);
	oracle::current_thread = emu_thread;
	oracle::current_ns = [] { return emu_time() / 1000; };
	emu_on_event([](emu_event event, int thread, int cause,
	                     void *) { oracle::on_event(event, thread, cause); },
	        nullptr);
	char error[512];
	emu_machine *machine = emu_machine_read(plan.machine.c_str(), error, sizeof error);
	if (!machine)
		die(std::string("explore: --machine ") + error);
	emu_end end = emu_run(machine, &options, simulate<Subject>, nullptr);
	*accesses = emu_count().accesses;
	if (end == EMU_DEADLOCK)
		return "every thread waits for another: a deadlock";
	if (end == EMU_LATE)
		return "no end after 50 ms of virtual time: no progress";
	std::string wrong = oracle::check_isolation(o.asked);
	if (!wrong.empty())
		return wrong;
	if (end == EMU_CRASHED) {
		/* The machine is off: its mappings are gone, and the file is what the medium
		 * held. */
		Subject::unmap(o);
		if (const void *image = emu_persistent_image(nullptr))
			write_file(path + ".image", image, std::filesystem::file_size(path));
		else
			std::filesystem::copy_file(path, path + ".image",
			        std::filesystem::copy_options::overwrite_existing);
		wrong = check_recovered<Subject>(o, path + ".image", true);
	} else {
		wrong = check_recovered<Subject>(o, path, false);
	}
	return wrong;
}

/* ------------------------------------------------------------- many runs */

std::string command(const Options &o, uint64_t seed, uint64_t crash_at)
{
	std::string c = "explore --tm " + o.tm + " --workload " + o.workload + " --threads " +
	                std::to_string(o.threads) + " --seeds " + std::to_string(seed) + ".." +
	                std::to_string(seed) + " --operations " + std::to_string(o.operations);
	if (o.machine != "all")
		c += " --machine " + o.machine;
	if (o.crash)
		c += " --crash --crash-at " + std::to_string(crash_at);
	if (!o.isolation.empty())
		c += " --isolation " + o.isolation;
	if (!o.plant.empty())
		c += " --plant " + o.plant;
	if (o.dram)
		c += " --dram";
	if (o.replayer)
		c += " --replayer";
	return c;
}

/* The child's part: run, report, exit status. */
template <class Subject>
[[noreturn]] void run_child(const Options &o, uint64_t seed, uint64_t longest,
        const std::string &heap_template, int report)
{
	std::string path = heap_template + "." + std::to_string(seed);
	Plan plan = plan_of(o, seed, longest);
	uint64_t accesses = 0;
	std::string wrong = run_seed<Subject>(o, plan, seed, heap_template, path, &accesses);
	unlink(path.c_str());
	unlink((path + ".image").c_str());
	if (!o.history.empty()) {
		std::ofstream file(o.history);
		oracle::print(file, false);
	}
	oracle::Counts c = oracle::counts();
	std::ostringstream text;
	text << c.read_only << " " << c.updates << " " << c.attempts << " " << c.accesses << " "
	     << accesses << "\n";
	if (!wrong.empty()) {
		text << "VIOLATION, seed " << seed << ", machine " << plan.machine;
		if (plan.crash_after)
			text << ", power failure after " << plan.crash_after << " accesses";
		text << ": " << wrong << "\n\n";
		oracle::print(text, true);
		text << "\nrepeat with: " << command(o, seed, plan.crash_after) << "\n";
	}
	std::string all = text.str();
	for (size_t at = 0; at < all.size();) {
		ssize_t n = ::write(report, all.data() + at, all.size() - at);
		if (n <= 0)
			_exit(3);
		at += static_cast<size_t>(n);
	}
	_exit(wrong.empty() ? 0 : 1);
}

struct Child {
	uint64_t seed;
	int report;
};

template <class Subject>
class Explorer
{
public:
	explicit Explorer(const Options &o)
	    : o_(o), template_("/dev/shm/fur-explore-" + std::to_string(getpid()))
	{
		make_template<Subject>(o, template_);
	}
	~Explorer()
	{
		unlink(template_.c_str());
	}
	int explore()
	{
		if (o_.crash && !o_.crash_at)
			longest_ = measure();
		for (uint64_t seed = o_.first; seed <= o_.last && (status_ == 0 || o_.keep_going);
		        seed++) {
			while (children_.size() >= o_.jobs)
				reap();
			if (status_ == 0 || o_.keep_going)
				start(seed);
		}
		while (!children_.empty())
			reap();
		std::cout << runs_ << " seeds, " << violations_ << " violations; " << sums_[0]
		          << " read-only transactions, " << sums_[1] << " updates in "
		          << sums_[2] - sums_[0] << " attempts, " << sums_[4] << " accesses\n";
		return status_;
	}

private:
	/* How many accesses a run without a crash makes: crashes are spread over as many. */
	uint64_t measure()
	{
		int pipe_[2];
		if (pipe(pipe_))
			die("explore: no pipe");
		pid_t child = fork();
		if (child == 0) {
			Options whole = o_;
			whole.crash = false;
			whole.history.clear();
			run_child<Subject>(whole, 1, 0, template_, pipe_[1]);
		}
		close(pipe_[1]);
		std::string text = read_all(pipe_[0]);
		int status;
		waitpid(child, &status, 0);
		std::istringstream in(text);
		uint64_t n[5] = {};
		for (auto &x : n)
			in >> x;
		return n[4] ? n[4] : 10000;
	}
	void start(uint64_t seed)
	{
		int pipe_[2];
		if (pipe(pipe_))
			die("explore: no pipe");
		std::cout.flush();
		pid_t child = fork();
		if (child == 0) {
			close(pipe_[0]);
			run_child<Subject>(o_, seed, longest_, template_, pipe_[1]);
		}
		close(pipe_[1]);
		children_[child] = {seed, pipe_[0]};
	}
	static std::string read_all(int fd)
	{
		std::string text;
		char buffer[4096];
		ssize_t n;
		while ((n = ::read(fd, buffer, sizeof buffer)) > 0)
			text.append(buffer, static_cast<size_t>(n));
		close(fd);
		return text;
	}
	void reap()
	{
		/* A report fits the pipe, or its child waits: read before the child is waited
		 * for. */
		auto [pid, child] = *children_.begin();
		std::string text = read_all(child.report);
		int status;
		waitpid(pid, &status, 0);
		children_.erase(pid);
		runs_++;
		std::istringstream in(text);
		for (auto &sum : sums_) {
			uint64_t n = 0;
			in >> n;
			sum += n;
		}
		bool clean = WIFEXITED(status) && WEXITSTATUS(status) == 0;
		if (clean)
			return;
		violations_++;
		status_ = 1;
		std::string rest;
		std::getline(in, rest);
		std::getline(in, rest, '\0');
		if (WIFSIGNALED(status))
			rest = "VIOLATION, seed " + std::to_string(child.seed) +
			       ": the program died of signal " + strsignal(WTERMSIG(status)) +
			       "\nrepeat with: " +
			       command(o_, child.seed,
			               plan_of(o_, child.seed, longest_).crash_after) +
			       "\n";
		else if (rest.empty())
			rest = "VIOLATION, seed " + std::to_string(child.seed) +
			       ": a call failed that must not (above)\nrepeat with: " +
			       command(o_, child.seed,
			               plan_of(o_, child.seed, longest_).crash_after) +
			       "\n";
		std::cout << rest << std::flush;
		for (const std::string end : {"", ".image"})
			unlink((template_ + "." + std::to_string(child.seed) + end).c_str());
	}

	const Options &o_;
	std::string template_;
	uint64_t longest_ = 0, runs_ = 0, violations_ = 0, sums_[5] = {};
	int status_ = 0;
	std::map<pid_t, Child> children_;
};

template <class Subject>
int explore(const Options &o)
{
	return Explorer<Subject>(o).explore();
}

/* -------------------------------------------------------------- command line */

int wrong_usage(const std::string &what)
{
	std::cerr << "explore: " << what << "; see --help\n";
	return 2;
}

bool parse_seeds(Options &o)
{
	char end = 0;
	unsigned long long a, b;
	if (sscanf(o.seeds.c_str(), "%llu..%llu%c", &a, &b, &end) != 2 || a > b)
		return false;
	o.first = a, o.last = b;
	return true;
}

/* A variant is a program beside this one. */
int run_variant(const std::string &name, char **argv)
{
	std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
	std::string other =
	        (std::filesystem::path(self).parent_path() / ("explore-" + name)).string();
	if (self == other)
		return -1; /* that is us */
	execv(other.c_str(), argv);
	return wrong_usage(other + ": " + strerror(errno));
}

} // namespace

int main(int argc, char **argv)
{
	tools::CommandLine line("explore",
	        "schedules and power failures of libfur on the emulated machine, checked");
	/* Simulated threads read it: on the stack its lines, so what a miss costs, would be others
	 * in each process. */
	alignas(128) static Options o;
	line.option("--tm", o.tm,
	        "fur-opacity, fur-snapshot, fur-paper, spht, spht-sihtm, pisces, specpmt");
	line.option("--workload", o.workload, "intset, bank, tpcc");
	line.option("--threads", o.threads, "simulated threads");
	line.option("--operations", o.operations, "transactions a thread");
	line.option("--seeds", o.seeds, "from..to");
	line.flag("--crash", o.crash, "cut the power once in each run, recover, check");
	line.option("--crash-at", o.crash_at, "after so many accesses; default: by the seed");
	line.flag("--replayer", o.replayer, "libfur: a replayer beside the working process");
	line.flag("--dram", o.dram, "libfur: private pages are handed back again and again");
	line.option("--plant", o.plant, "with a bug planted; 'list' names them");
	line.option("--isolation", o.isolation,
	        "what the oracle asks for: opacity, snapshot; default: what --tm gives");
	line.option("--machine", o.machine,
	        "power9, tsx, tsx-tracked, a description file, or all in turn");
	line.option("--jobs", o.jobs, "processes at a time; default: one a processor");
	line.option("--history", o.history, "write the run's history to this file (one seed)");
	line.flag("--keep-going", o.keep_going, "do not stop at the first violation");
	if (auto status = tools::parse_or_exit_status(line, "explore", argc, argv))
		return *status;
	if (o.plant == "list") {
		for (const auto &bug : planted_bugs)
			std::cout << bug.name << std::string(26 - strlen(bug.name), ' ') << bug.what
			          << "\n";
		return 0;
	}
	if (!parse_seeds(o))
		return wrong_usage("--seeds " + o.seeds + ": use FROM..TO, such as 1..100");
	static const std::map<std::string, int (*)(const Options &)> subjects = {
	        {"fur-opacity", explore<Fur>},
	        {"fur-snapshot", explore<Fur>},
	        {"fur-paper", explore<Fur>},
	        {"spht", explore<Baseline<baselines::SphtTm>>},
	        {"spht-sihtm", explore<Baseline<baselines::SphtSihtmTm>>},
	        {"pisces", explore<Baseline<baselines::PiscesTm>>},
	        {"specpmt", explore<Baseline<baselines::SpecpmtTm>>},
	};
	auto subject = subjects.find(o.tm);
	if (subject == subjects.end())
		return wrong_usage("--tm " + o.tm +
		                   ": use fur-opacity, fur-snapshot, fur-paper, spht, spht-sihtm, "
		                   "pisces or specpmt");
	if (o.workload != "intset" && o.workload != "bank" && o.workload != "tpcc")
		return wrong_usage("--workload " + o.workload + ": use intset, bank or tpcc");
	if (!o.isolation.empty() && o.isolation != "opacity" && o.isolation != "snapshot")
		return wrong_usage("--isolation " + o.isolation + ": use opacity or snapshot");
	if (o.threads < 1 || o.threads >= MOST_THREADS)
		return wrong_usage("--threads: use 1 to " + std::to_string(MOST_THREADS - 1));
	if (!o.history.empty() && o.first != o.last)
		return wrong_usage("--history is of one seed: use --seeds N..N");
	if (o.machine != "all") {
		char error[512];
		emu_machine *m = emu_machine_read(o.machine.c_str(), error, sizeof error);
		if (!m)
			return wrong_usage(std::string("--machine ") + error);
		emu_machine_free(m);
	}
	if (!o.plant.empty()) {
		bool known = false;
		for (const auto &bug : planted_bugs)
			known |= o.plant == bug.name;
		if (!known)
			return wrong_usage("--plant " + o.plant + ": see --plant list");
	}
	std::string variant = !o.plant.empty()      ? "plant-" + o.plant
	                      : o.tm == "fur-paper" ? o.tm
	                                            : "";
	if (!variant.empty()) {
		int status = run_variant(variant, argv);
		if (status >= 0)
			return status;
	}
	bool asked = o.isolation == "snapshot";
	o.snapshot = o.tm == "fur-snapshot" || o.tm == "spht-sihtm" || o.tm == "pisces" ||
	             (o.tm == "fur-paper" && asked);
	if (asked || (o.isolation.empty() && o.snapshot))
		o.asked = oracle::Isolation::SNAPSHOT;
	if (!o.jobs)
		o.jobs = std::max(1u, std::thread::hardware_concurrency());
	return subject->second(o);
}
