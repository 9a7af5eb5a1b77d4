/* SPDX-License-Identifier: BSD-3-Clause
 *
 * victim.cpp - a program to let the power fail under, and the check afterwards: everything
 * acknowledged is there, and the data are the result of the updates.  Acknowledgements go to a file
 * of their own, which pm-emulate is told is no persistent memory (--file).
 *
 *     victim run --heap PATH --acks PATH [--workload intset|bank|mixed|tpcc] [--threads 2]
 *                [--readers 1] [--updates 200] [--seed N] [--grow] [--late]
 *                [--snapshots] [--die]
 *     victim check --heap PATH --acks PATH ...  the same options
 *
 * `run` makes the heap if it is not there, and goes on from where it is.  With --grow the heap is
 * small at first, and grows three times or more in 200 updates.  With --late three of four updates
 * end with a ticket, and no flush comes unasked.  With --snapshots two threads take snapshots; what
 * these show must be one state, and must survive.  With --die the program kills itself in place of
 * closing the heap.  Exit status: 0 as it should be, 1 not, 2 wrong usage, 3 the program itself
 * could not run.
 */
#include "../../tools/common/command_line.hpp"
#include "../crash/snapshots.hpp"

#include "../../bench/tpcc/load.hpp"

#include "../../bench/tpcc/consistency.hpp" /* after the tables it checks */

#include <csignal>
#include <fcntl.h>
#include <functional>
#include <iostream>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace
{

struct Options {
	std::string heap, acks, later, workload = "mixed";
	unsigned threads = 2, readers = 1, updates = 200;
	uint64_t seed = 1;
	bool grow = false, late = false, snapshots = false, die = false;
	unsigned parts() const
	{
		unsigned parts = workload == "intset" ? crash::TREE
		                 : workload == "bank" ? crash::BANK
		                                      : crash::EVERYTHING;
		return parts | (grow ? crash::GROWTH : 0u) | (late ? crash::LATE : 0u);
	}
};

/* A small ring and logs, so that replay runs too; a small heap, of which a sync compares all. */
fur::Options heap_options(const Options &o)
{
	fur::Options f;
	bool tpcc = o.workload == "tpcc";
	f.heap_bytes = tpcc ? 4 << 20 : 1 << 20;
	/* Room for all blocks of all threads: until the slowest has made its updates, another may
	 * have added all of its own. */
	f.max_bytes = o.grow ? 160 << 20 : 0;
	f.log_bytes = tpcc ? 65536 : 16384;
	f.ring_slots = 128;
	f.max_threads = 8;
	f.async_ms = o.late ? 1000000 : 0;
	return f;
}

crash::Shared *map_acknowledgements(const std::string &path)
{
	int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0 || ftruncate(fd, sizeof(crash::Shared)))
		throw std::runtime_error(path + ": cannot make it: check the path");
	void *p = mmap(nullptr, sizeof(crash::Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
		throw std::runtime_error(path + ": cannot map");
	return static_cast<crash::Shared *>(p);
}

/* ------------------------------------------------------------------- TPC-C */

/* Root 0: the loaded data, and the number of updates of each thread in it. */
struct TpccData {
	crash::Line counter[crash::THREADS];
	tpcc::Database *database;
	int64_t ytd;
	uint64_t orders;
};
const tpcc::Scale MICRO = {3, 20, 1, 3, 5, true, true};

/* Update k of thread t, decided by (seed, t, k) alone. */
struct TpccStep {
	enum Kind { DELIVERY, PAYMENT, NEW_ORDER } kind;
	uint64_t r, d, c;
	int64_t amount;
	TpccStep(uint64_t seed, uint64_t t, uint64_t k)
	    : r(crash::mix(crash::mix(seed * 31 + t) + k))
	{
		kind = r % 8 == 0 ? DELIVERY : r & 1 ? PAYMENT : NEW_ORDER;
		/* Two districts of the ten: more to meet at */
		d = 1 + (r >> 8) % 2, c = 1 + (r >> 12) % MICRO.customers;
		amount = static_cast<int64_t>(1 + (r >> 40 & 0xffff));
	}
	void apply(fur_update *tx, tpcc::Database *db) const
	{
		if (kind == DELIVERY)
			tpcc::delivery(tx, db, {1, 1 + (r >> 30) % 10, r >> 32});
		else if (kind == PAYMENT)
			tpcc::payment(tx, db,
			        {1, d, 1, d, c, c - 1, r >> 32, (r >> 20 & 1) != 0, amount});
		else
			new_order(tx, db);
	}
	void new_order(fur_update *tx, tpcc::Database *db) const
	{
		tpcc::NewOrder in = {1, d, c, 1 + (r >> 21) % 3, r >> 32, {}};
		for (uint64_t n = 0; n < in.lines; n++)
			in.line[n].item = 1 + (r >> (24 + 5 * n)) % MICRO.items,
			in.line[n].supplier = 1, in.line[n].quantity = 1 + n;
		tpcc::new_order(tx, db, in);
	}
};

template <class Tx>
void totals(Tx *tx, const tpcc::Database *db, int64_t &ytd, uint64_t &orders)
{
	ytd = fur_load(tx, &tpcc::row<tpcc::Warehouse>(tx, db->warehouse, 1)->ytd);
	orders = 0;
	for (uint64_t d = 1; d <= tpcc::DISTRICTS; d++)
		orders += fur_load(
		        tx, &tpcc::row<tpcc::District>(tx, db->district, tpcc::district_key(1, d))
		                     ->next_order);
}

void load_tpcc(fur_thread *self)
{
	auto *db = tpcc::load([&](auto &&f) { fur::update(self, [&](fur_update *tx) { f(tx); }); },
	        1, MICRO, 1, [] {});
	fur::update(self, [&](fur_update *tx) {
		auto *data = fur::make<TpccData>(tx);
		int64_t ytd;
		uint64_t orders;
		totals(tx, db, ytd, orders);
		fur_store(tx, &data->database, db);
		fur_store(tx, &data->ytd, ytd);
		fur_store(tx, &data->orders, orders);
		fur_set_root(tx, 0, data);
	});
}

void work_tpcc(fur_heap *heap, crash::Shared *shared, const Options &o, unsigned t,
        const std::atomic<bool> &stop)
{
	fur::Thread self(heap);
	auto *data = static_cast<TpccData *>(root_at_rest(heap, 0));
	crash::Acknowledged &mine = shared->thread[t];
	auto k = static_cast<uint64_t>(data->counter[t].value);
	for (uint64_t n = 0; !stop; n++) {
		if (t >= o.threads || n % 3 == 2) {
			unsigned other = static_cast<unsigned>(n / 3) % o.threads;
			int64_t saw = fur::read(self, [&](fur_ro *tx) {
				return fur_load(tx, &data->counter[other].value);
			});
			mine.seen[other].store(
			        static_cast<uint64_t>(saw), std::memory_order_relaxed);
			continue;
		}
		TpccStep step(o.seed, t, ++k);
		mine.intended.store(k, std::memory_order_relaxed);
		fur::update(self, [&](fur_update *tx) {
			step.apply(tx, data->database);
			fur_store(tx, &data->counter[t].value, static_cast<int64_t>(k));
		});
		mine.acknowledged.store(k, std::memory_order_relaxed);
	}
}

std::string check_tpcc(fur_heap *heap, const crash::Shared *shared, const Options &o)
{
	auto *tx = static_cast<fur_ro *>(nullptr);
	auto *data = static_cast<const TpccData *>(root_at_rest(heap, 0));
	int64_t ytd = data->ytd, is_ytd;
	uint64_t orders = data->orders, is_orders;
	for (unsigned t = 0; t < crash::THREADS; t++) {
		auto is = static_cast<uint64_t>(data->counter[t].value);
		if (std::string wrong = crash::check_counter(shared, t, is); !wrong.empty())
			return wrong;
		for (uint64_t k = 1; k <= is; k++) {
			TpccStep s(o.seed, t, k);
			ytd += s.kind == TpccStep::PAYMENT ? s.amount : 0;
			orders += s.kind == TpccStep::NEW_ORDER;
		}
	}
	if (const char *wrong = tpcc::check(tx, data->database))
		return wrong;
	totals(tx, data->database, is_ytd, is_orders);
	if (is_ytd != ytd || is_orders != orders)
		return "the warehouse has " + std::to_string(is_ytd) + " and its districts " +
		       std::to_string(is_orders) + " orders, the updates give " +
		       std::to_string(ytd) + " and " + std::to_string(orders);
	alloc_census census;
	return alloc_check(heap_base(heap), &census) ? fur_errormsg() : "";
}

/* --------------------------------------------------------------- run, check */

int run(const Options &o)
{
	crash::Shared *shared = map_acknowledgements(o.acks);
	fur::Heap heap = access(o.heap.c_str(), F_OK) ? fur::Heap::create(o.heap, heap_options(o))
	                                              : fur::Heap::open(o.heap, heap_options(o));
	fur::Thread self(heap);
	if (!root_at_rest(heap, 0)) {
		if (o.workload == "tpcc")
			load_tpcc(self);
		else
			crash::set_up(self);
	}
	shared->running = true; /* from here on the data must be there */
	std::atomic<bool> stop{false};
	std::vector<std::thread> threads;
	for (unsigned t = 0; t < o.threads + o.readers; t++)
		threads.emplace_back([&, t] {
			if (o.workload == "tpcc")
				work_tpcc(heap, shared, o, t, stop);
			else
				crash::work(heap, shared, o.seed, t, o.threads,
				        t < o.threads ? 60 : 0, false, stop, o.parts());
		});
	for (unsigned w = 0; w < (o.snapshots ? unsigned(crash::WATCHERS) : 0u); w++)
		threads.emplace_back([&, w] {
			crash::Watcher(heap, shared, w, crash::Expected(o.seed, o.parts()), w)
			        .run(stop);
		});
	auto busy = [&] {
		for (unsigned t = 0; t < o.threads; t++)
			if (shared->thread[t].acknowledged < o.updates)
				return true;
		return false;
	};
	while (busy())
		usleep(200);
	if (o.die)
		raise(SIGKILL);
	stop = true;
	for (auto &t : threads)
		t.join();
	if (o.grow && o.updates >= 200 && heap_size(heap.get()) < 8 * heap_options(o).heap_bytes)
		throw std::runtime_error("the heap has hardly grown: let the updates add more");
	heap.close();
	return 0;
}

std::string look(const Options &o)
{
	crash::Shared *shared = map_acknowledgements(o.acks);
	if (!o.later.empty()) {
		const crash::Shared *later = map_acknowledgements(o.later);
		for (unsigned t = 0; t < crash::THREADS; t++)
			shared->thread[t].intended = later->thread[t].intended.load();
	}
	if (access(o.heap.c_str(), F_OK))
		return shared->running ? "the heap is gone" : "";
	fur::Heap heap = fur::Heap::open(o.heap, heap_options(o));
	if (!root_at_rest(heap, 0))
		return shared->running ? "the data's root is gone" : "";
	if (o.workload == "tpcc")
		return check_tpcc(heap, shared, o);
	std::string wrong = crash::Expected(o.seed, o.parts()).check(heap, shared);
	return wrong.empty() ? crash::wrong_snapshot(shared) : wrong;
}

int check(const Options &o)
{
	std::string wrong = look(o);
	if (wrong.empty())
		return 0;
	std::cout << "wrong: " << wrong << "\n";
	return 1;
}

} // namespace

int main(int argc, char **argv)
{
	Options o;
	std::string command;
	tools::CommandLine line("victim",
	        "A program to let the power fail under (run), and the check afterwards (check).");
	line.argument("COMMAND", command, "run or check").required();
	line.option("--heap", o.heap).required();
	line.option("--acks", o.acks).required();
	line.option("--later", o.later,
	        "check: acknowledgements at a later time, which tell how many updates had begun by "
	        "then");
	line.option("--workload", o.workload).one_of({"intset", "bank", "mixed", "tpcc"});
	line.option("--threads", o.threads).range(1, 2);
	line.option("--readers", o.readers).range(0, int(crash::THREADS) - 2);
	line.option("--updates", o.updates);
	line.option("--seed", o.seed);
	line.flag("--grow", o.grow, "the heap grows (not with tpcc)");
	line.flag("--late", o.late, "updates end with tickets (not with tpcc)");
	line.flag("--snapshots", o.snapshots, "two threads take snapshots (not with tpcc)");
	line.flag("--die", o.die, "run: end by SIGKILL");
	if (auto status = tools::parse_or_exit_status(line, "victim", argc, argv))
		return *status;
	if (command != "run" && command != "check") {
		std::cerr << "victim: " << command << ": use run or check\n";
		return tools::EXIT_WRONG_USAGE;
	}
	try {
		return command == "run" ? run(o) : check(o);
	} catch (const fur::Error &e) {
		/* A heap that does not open after a power failure is as bad as one that opens
		 * wrong. */
		std::cout << "victim: " << e.what() << "\n";
		return command == "check" ? 1 : 3;
	} catch (const std::exception &e) {
		std::cout << "victim: " << e.what() << "\n";
		return 3;
	}
}
