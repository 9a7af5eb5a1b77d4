/* SPDX-License-Identifier: BSD-3-Clause
 *
 * oltpim.cpp - the benchmark: YCSB and TPC-C on OLTPim's modules, or on the same tables in the
 * host's memory, and a bank whose histories are checked.
 */
#include "../../bench/common/output.hpp"
#include "../../tools/common/command_line.hpp"
#include "../../tools/common/json.hpp"
#include "cards.hpp"
#include "host/host.hpp"
#include "split_store.hpp"
#include "tuple_log.hpp"
#include "workload.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <pthread.h>

namespace
{

using namespace lab;
using namespace oltpim;
using tools::Json;
using tools::WrongUsage;

struct Settings {
	std::string tm = "oltpim", host = "native", modules = "threads", workload = "c", json, log;
	unsigned threads = 2, slots = 16, ranks = 2, elements = 4, tasklets = 4, host_threads = 1;
	unsigned percent = 50, scan = 16, payload = 0, schedules = 20, writes = 90;
	tpcc::Size tpcc;
	uint64_t records = 10000, seed = 1, warmup_us = 20000, measure_us = 100000;
	double zipf = 0, room = 2;
	bool keep_versions = false, one_by_one = false, verify = false;
};

const std::map<std::string, Protocol> PROTOCOLS = {{"oltpim", Protocol::MENDED},
        {"oltpim-paper", Protocol::PUBLISHED}, {"oltpim-strict", Protocol::STRICT},
        {"mosaic", Protocol::MENDED}};

/* Does the workload run in orders that seeds give, with a check of histories? */
bool is_checked(const Settings &s)
{
	return s.workload == "bank" || s.workload == "cards";
}

/* False: the help was asked for, and printed. */
bool parse(Settings &s, int argc, char **argv)
{
	tools::CommandLine line(
	        "oltpim", "OLTPim: YCSB on indexes and version chains in near memory");
	line.option("--tm", s.tm,
	            "oltpim; oltpim-paper: begins as published; oltpim-strict: begins below the "
	            "counter; mosaic: the same tables in the host's memory")
	        .one_of({"oltpim", "oltpim-paper", "oltpim-strict", "mosaic"});
	line.option("--host", s.host,
	        "native, or an emulated machine (oltpim-emulated): xeon-4216, or a file");
	line.option("--modules", s.modules,
	        "threads (of this process), or an emulated machine: upmem, or a file");
	line.option("--ranks", s.ranks, "ranks").range(1, 64);
	line.option("--elements", s.elements, "modules of a rank").range(1, 64);
	line.option("--tasklets", s.tasklets, "tasklets of a module").range(1, NEAR_MOST_TASKLETS);
	line.option("--host-threads", s.host_threads, "threads of this process for the modules")
	        .range(1, 64);
	line.option("--threads", s.threads, "workers").range(1, 128);
	line.option("--slots", s.slots, "transactions that a worker has at a time").range(1, 65536);
	line.option("--workload", s.workload,
	            "c: gets; b: 5 % update; a: 50 % update; u: --percent update; i: --percent "
	            "insert; s: scans; tpcc; bank: transfers and audits; cards: records with a "
	            "secondary index; the last two have histories that are checked")
	        .one_of({"a", "b", "c", "i", "s", "u", "tpcc", "bank", "cards"});
	line.option("--writes", s.writes, "tpcc: percent new orders, payments and deliveries")
	        .range(0, 100);
	line.option("--warehouses", s.tpcc.warehouses, "tpcc: warehouses").range(1, 1024);
	line.option("--customers", s.tpcc.customers, "tpcc: of a district, and orders at first")
	        .range(30, 4095);
	line.option("--items", s.tpcc.items, "tpcc: items").range(100, 100000);
	line.option("--log", s.log,
	        "make commits durable in a heap of this file, which is made anew and removed; the "
	        "records that are loaded are not in it");
	line.option("--verify", s.verify, "check histories and data at the end");
	line.option("--percent", s.percent, "transactions that write, of workloads u and i")
	        .range(0, 100);
	line.option("--scan", s.scan, "keys of a scan").range(1, OLTPIM_SCAN_MOST);
	line.option("--records", s.records, "records, at first").range(16, 1e9);
	line.option("--payload", s.payload, "bytes of a record, besides 48").range(0, 4096);
	line.option("--zipf", s.zipf, "theta of Zipf's law; 0: uniform").range(0, 0.999);
	line.option("--one-by-one", s.one_by_one, "a transaction's requests in rounds of one");
	line.option("--keep-versions", s.keep_versions, "collect no versions");
	line.option("--room", s.room, "objects and versions of a module, for one that is loaded")
	        .range(1.1, 1000);
	line.option("--warmup-us", s.warmup_us, "microseconds before the measurement");
	line.option("--measure-us", s.measure_us, "microseconds of the measurement").range(1, 1e9);
	line.option("--schedules", s.schedules, "bank, cards: runs, each with a seed of its own");
	line.option("--seed", s.seed, "of keys and of schedules");
	line.option("--json", s.json, "write the result to this file; - is standard output");
	if (!line.parse(argc, argv))
		return false;
	if (is_checked(s) && !is_native())
		throw WrongUsage("--workload " + s.workload + ": use oltpim, which runs on native");
	return true;
}

Mix mix_of(const Settings &s)
{
	Mix m;
	m.at_once = !s.one_by_one;
	if (s.workload == "a")
		m.percent = 50;
	else if (s.workload == "b")
		m.percent = 5;
	else if (s.workload == "u" || s.workload == "i")
		m.percent = s.percent;
	m.inserts = s.workload == "i";
	if (s.workload == "s") {
		m.scan = s.scan;
		m.shift = static_cast<unsigned>(std::bit_width(s.scan - 1));
	}
	return m;
}

/* ------------------------------------------------------------- bank and cards */

NearSetup schedule_setup(const Settings &s)
{
	NearSetup n;
	n.machine = s.modules;
	n.ranks = s.ranks, n.elements = s.elements, n.tasklets = s.tasklets;
	n.host_threads = s.host_threads;
	n.objects = 4096, n.versions = 8192, n.batch_bytes = 16384;
	n.shifts = shifts_of_cards();
	return n;
}

/* One run, whose order the seed gives. */
std::vector<Violation> run_schedule(const Settings &s, uint64_t seed)
{
	constexpr unsigned RECORDS = 16, TRANSACTIONS = 20;
	const bool bank = s.workload == "bank";
	Tuples tuples(0);
	Numbers numbers(PROTOCOLS.at(s.tm), 1, s.slots);
	std::unique_ptr<Store> store;
	if (s.tm == "mosaic")
		store = std::make_unique<DramStore>(
		        DramSetup{.shifts = shifts_of_cards()}, numbers, prefetch_lines);
	else
		store = std::make_unique<NearStore>(schedule_setup(s), numbers);
	Database db{*store, numbers, {1}, {1}};
	History history;
	if (bank)
		load_keys(db, tuples, 0, RECORDS, 100);
	else
		db.entry_of = colour_entry_of;
	std::vector<std::unique_ptr<Client>> clients;
	std::vector<Client *> running;
	for (unsigned k = 0; k < s.slots; k++) {
		const uint64_t own = seed * s.slots + k;
		if (bank)
			clients.push_back(std::make_unique<BankClient>(
			        db, tuples, 0, k, &history, RECORDS, TRANSACTIONS, own));
		else
			clients.push_back(std::make_unique<CardClient>(
			        db, tuples, 0, k, &history, RECORDS, TRANSACTIONS, own));
		running.push_back(clients.back().get());
	}
	run_by_seed(*store, running, seed);
	return check_histories({&history});
}

int check_schedules(const Settings &s)
{
	std::map<Flaw, uint64_t> counts;
	for (uint64_t seed = s.seed; seed < s.seed + s.schedules; seed++)
		for (const Violation &v : run_schedule(s, seed))
			if (counts[v.flaw]++ == 0)
				printf("seed %llu: %s\n", static_cast<unsigned long long>(seed),
				        v.text.c_str());
	for (const auto &[flaw, n] : counts)
		printf("%s: %llu in %u schedules\n", flaw_name(flaw),
		        static_cast<unsigned long long>(n), s.schedules);
	if (counts.empty())
		printf("%s: no violation in %u schedules\n", s.tm.c_str(), s.schedules);
	return counts.empty() ? 0 : 1;
}

/* ----------------------------------------------------------------------- run */

std::unique_ptr<Workload> workload_of(const Settings &s)
{
	if (s.workload == "tpcc")
		return std::make_unique<TpccWorkload>(s.tpcc, s.writes);
	return std::make_unique<YcsbWorkload>(mix_of(s), s.records, s.zipf);
}

class Run
{
public:
	explicit Run(const Settings &s)
	    : s_(s), workload_(workload_of(s)), numbers_(PROTOCOLS.at(s.tm), s.threads, s.slots),
	      loaded_(s.payload)
	{
		const std::vector<Record> records = workload_->records(loaded_);
		if (s.tm == "mosaic")
			store_ = make_dram(256, 0);
		else
			store_ = make_near(records);
		store_->load(records);
		db_.emplace(*store_, numbers_);
		db_->entry_of = workload_->entry_of();
		workers_.resize(s.threads);
		for (unsigned k = 0; k < s.threads; k++)
			make_worker(k);
	}

	void run()
	{
		if (!s_.log.empty())
			open_log();
		if (near_)
			near_->settle_channels();
		std::vector<pthread_t> threads(s_.threads);
		for (unsigned k = 1; k < s_.threads; k++)
			pthread_create(&threads[k], nullptr, work_on, &workers_[k]);
		work_on(&workers_[0]);
		for (unsigned k = 1; k < s_.threads; k++)
			pthread_join(threads[k], nullptr);
		if (heap_)
			close_log();
		for (const Worker &w : workers_)
			if (w.failure)
				std::rethrow_exception(w.failure);
	}

	Json result() const;
	/* Throws if histories or data are wrong. */
	void verify();

private:
	struct Worker {
		Run *all = nullptr;
		unsigned number = 0;
		std::unique_ptr<Tuples> tuples;
		std::vector<std::unique_ptr<MeasuredClient>> clients;
		History history;
		uint64_t measured_from = 0, measured_to = 0;
		std::exception_ptr failure;
	};

	std::unique_ptr<Store> make_near(const std::vector<Record> &records);
	std::unique_ptr<DramStore> make_dram(unsigned partitions, unsigned first_place) const;
	uint64_t most_of_a_module(const std::vector<Record> &records) const;
	void make_worker(unsigned number);
	void open_log();
	void close_log();
	static void *work_on(void *worker);
	void work(Worker &w);
	bool turn(Worker &w);
	void add_near(Json &j, uint64_t committed) const;

	const Settings s_;
	const std::unique_ptr<Workload> workload_;
	Numbers numbers_;
	Tuples loaded_;
	std::unique_ptr<NearStore> near_; /* OLTPim */
	std::unique_ptr<DramStore> small_;
	std::unique_ptr<Store> store_;
	std::optional<Database> db_;
	std::optional<fur::Heap> heap_;
	std::optional<TupleLog> log_;
	std::vector<Worker> workers_;
	std::atomic<bool> failed_{false};
	near_channel before_ = {}, after_ = {};
	uint64_t lines_before_ = 0, lines_after_ = 0;
	std::atomic<bool> counted_{false}, counted_end_{false};
	BatchCounts batches_before_;
};

uint64_t Run::most_of_a_module(const std::vector<Record> &records) const
{
	std::vector<uint64_t> modules(uint64_t{s_.ranks} * s_.elements);
	const Shifts shifts = workload_->shifts();
	for (const Record &r : records)
		modules[hash_of(r.key, shifts) % modules.size()]++;
	return *std::max_element(modules.begin(), modules.end());
}

std::unique_ptr<Store> Run::make_near(const std::vector<Record> &records)
{
	NearSetup n;
	n.machine = s_.modules;
	n.ranks = s_.ranks, n.elements = s_.elements, n.tasklets = s_.tasklets;
	n.host_threads = s_.host_threads;
	n.shifts = workload_->shifts();
	n.objects =
	        static_cast<uint64_t>(static_cast<double>(most_of_a_module(records)) * s_.room) +
	        1024;
	n.versions = n.objects + 8192;
	n.collects = !s_.keep_versions;
	n.clock = clock_of_modules();
	near_ = std::make_unique<NearStore>(n, numbers_);
	const unsigned places = s_.ranks * s_.elements;
	small_ = make_dram(16, places);
	return std::make_unique<SplitStore>(*near_, *small_, workload_->small_tables());
}

std::unique_ptr<DramStore> Run::make_dram(unsigned partitions, unsigned first_place) const
{
	DramSetup d;
	d.workers = s_.threads;
	d.partitions = partitions;
	d.shifts = workload_->shifts();
	d.collects = !s_.keep_versions;
	d.first_place = first_place;
	return std::make_unique<DramStore>(d, numbers_, prefetch_lines);
}

void Run::make_worker(unsigned number)
{
	Worker &w = workers_[number];
	w.all = this;
	w.number = number;
	w.tuples = std::make_unique<Tuples>(s_.payload);
	for (unsigned k = 0; k < s_.slots; k++) {
		const unsigned slot = number * s_.slots + k;
		w.clients.push_back(workload_->client(*db_, *w.tuples, number, slot,
		        s_.threads * s_.slots, s_.verify ? &w.history : nullptr, now_ps,
		        s_.seed * 1000003 + slot));
	}
}

/* On an emulated host: of its persistent memory. */
void Run::open_log()
{
	fur::Options o;
	o.heap_bytes = uint64_t{128} << 20; /* which the file allocates */
	o.max_threads = s_.threads + 4;
	o.pm = FUR_PM_EMULATED;
	/* Software updates hash addresses.  At an address drawn at random, a run on an emulated
	 * machine would not repeat. */
	if (!is_native())
		o.address = UINT64_C(0x300000000000);
	remove(s_.log.c_str());
	heap_.emplace(fur::Heap::create(s_.log, o));
	log_.emplace(heap_->get(), s_.threads, numbers_, o.heap_bytes / 4 / s_.threads);
	db_->keeper = &*log_;
}

void Run::close_log()
{
	log_.reset();
	heap_.reset();
	remove(s_.log.c_str());
}

void Run::verify()
{
	std::vector<const History *> histories;
	for (const Worker &w : workers_)
		histories.push_back(&w.history);
	for (const Violation &v : check_histories(histories))
		throw std::runtime_error(v.text);
	const std::string wrong = workload_->wrong(*db_, loaded_);
	if (!wrong.empty())
		throw std::runtime_error(wrong);
}

void *Run::work_on(void *worker)
{
	auto &w = *static_cast<Worker *>(worker);
	try {
		w.all->work(w);
	} catch (...) {
		w.failure = std::current_exception();
		w.all->failed_ = true;
	}
	return nullptr;
}

/* A step of each client, and of the store now and then.  False: all have ended. */
bool Run::turn(Worker &w)
{
	constexpr unsigned STEPS = 64;
	bool running = false, helped = false;
	unsigned steps = 0;
	for (const auto &c : w.clients) {
		running |= c->step();
		if (++steps % STEPS == 0)
			helped |= store_->help(w.number);
	}
	if (!store_->help(w.number) && !helped)
		idle();
	return running && !failed_.load(std::memory_order_relaxed);
}

void Run::work(Worker &w)
{
	constexpr uint64_t PS = 1000000; /* of a microsecond */
	const uint64_t start = now_ps();
	while (now_ps() < start + s_.warmup_us * PS)
		if (!turn(w))
			return;
	if (!counted_.exchange(true)) {
		lines_before_ = fetched_lines();
		if (near_) {
			before_ = near_->channels();
			batches_before_ = near_->counts();
		}
	}
	for (const auto &c : w.clients)
		c->measure();
	w.measured_from = now_ps();
	/* Real time may pass without a step of this process. */
	const auto nothing = [&w] {
		return is_native() && std::all_of(w.clients.begin(), w.clients.end(),
		                              [](auto &c) { return c->measured().committed == 0; });
	};
	while (now_ps() < start + (s_.warmup_us + s_.measure_us) * PS || nothing())
		if (!turn(w))
			return;
	w.measured_to = now_ps();
	if (!counted_end_.exchange(true)) {
		lines_after_ = fetched_lines();
		if (near_)
			after_ = near_->channels();
	}
	for (const auto &c : w.clients)
		c->stop();
	while (turn(w)) {
	}
}

void Run::add_near(Json &j, uint64_t committed) const
{
	const near_channel &c = after_;
	const double n = std::max<double>(1, static_cast<double>(committed));
	const auto each = [&](uint64_t now, uint64_t then) {
		return static_cast<double>(now - then) / n;
	};
	j["pim_written_bytes"] = each(c.written_bytes, before_.written_bytes);
	j["pim_read_bytes"] = each(c.read_bytes, before_.read_bytes);
	j["pim_control_bytes"] = each(c.control_bytes, before_.control_bytes);
	const BatchCounts b = near_->counts();
	const uint64_t batches = b.batches - batches_before_.batches;
	j["batches"] = batches;
	j["requests_of_a_batch"] =
	        batches ? static_cast<double>(b.requests - batches_before_.requests) /
	                          static_cast<double>(batches)
	                : 0.0;
	const near_counters k = near_->near_counts();
	j["instructions"] = k.instructions;
	j["program_instructions"] = k.program_instructions;
	j["kernel_us_of_a_launch"] = k.launches ? static_cast<double>(k.kernel_ps) * 1e-6 *
	                                                  s_.ranks / static_cast<double>(k.launches)
	                                        : 0.0;
}

Json Run::result() const
{
	Json j;
	uint64_t committed = 0, aborted = 0, rolled_back = 0, ps = 0;
	std::vector<uint64_t> latencies;
	for (const Worker &w : workers_) {
		ps += (w.measured_to - w.measured_from) / s_.threads;
		for (const auto &c : w.clients) {
			const Measured &m = c->measured();
			committed += m.committed;
			aborted += m.aborted;
			rolled_back += m.rolled_back;
			latencies.insert(latencies.end(), m.latencies.begin(), m.latencies.end());
		}
	}
	std::sort(latencies.begin(), latencies.end());
	const auto at = [&](double part) {
		return latencies.empty()
		               ? 0.0
		               : static_cast<double>(latencies[static_cast<size_t>(
		                         part * static_cast<double>(latencies.size() - 1))]) *
		                         1e-6;
	};
	j["tm"] = s_.tm, j["host"] = s_.host, j["workload"] = s_.workload;
	j["modules"] = near_ ? s_.modules : "";
	j["threads"] = s_.threads, j["slots"] = s_.slots;
	workload_->describe(j);
	j["ranks"] = s_.ranks, j["elements"] = s_.elements, j["tasklets"] = s_.tasklets;
	j["log"] = !s_.log.empty();
	j["zipf"] = s_.zipf, j["collects"] = !s_.keep_versions, j["seed"] = s_.seed;
	j["committed"] = committed, j["aborted"] = aborted, j["rolled_back"] = rolled_back;
	j["seconds"] = static_cast<double>(ps) * 1e-12;
	j["throughput"] = static_cast<double>(committed) / (static_cast<double>(ps) * 1e-12);
	j["abort_percent"] = committed + aborted ? 100.0 * static_cast<double>(aborted) /
	                                                   static_cast<double>(committed + aborted)
	                                         : 0.0;
	j["dram_read_bytes"] = 64.0 * static_cast<double>(lines_after_ - lines_before_) /
	                       std::max(1.0, static_cast<double>(committed));
	j["p50_us"] = at(0.5), j["p99_us"] = at(0.99);
	if (near_)
		add_near(j, committed);
	return j;
}

void report(const Settings &s, const Json &result)
{
	if (s.json != "-")
		printf("%s, workload %s: %.0f transactions a second, %.1f %% aborted\n",
		        s.tm.c_str(), s.workload.c_str(), result["throughput"].get<double>(),
		        result["abort_percent"].get<double>());
	if (!s.json.empty())
		bench::write_json(s.json, result);
}

int run(int argc, char **argv)
{
	Settings s;
	if (!parse(s, argc, argv))
		return 0;
	if (is_checked(s))
		return check_schedules(s);
	Json result;
	on_host(s.host, s.threads, s.seed, [&s, &result] {
		std::unique_ptr<Run> all;
		aside([&] { all = std::make_unique<Run>(s); });
		all->run();
		aside([&] {
			result = all->result();
			if (s.verify)
				all->verify();
			all.reset();
		});
	});
	if (result["committed"].get<uint64_t>() == 0)
		throw std::runtime_error("no transaction committed: raise --measure-us");
	report(s, result);
	return 0;
}

} // namespace

int main(int argc, char **argv)
{
	try {
		return run(argc, argv);
	} catch (const WrongUsage &e) {
		fprintf(stderr, "oltpim: %s\n", e.what());
		return tools::EXIT_WRONG_USAGE;
	} catch (const std::exception &e) {
		fprintf(stderr, "oltpim: %s\n", e.what());
		return 1;
	}
}
