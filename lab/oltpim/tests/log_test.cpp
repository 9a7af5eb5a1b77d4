/* SPDX-License-Identifier: BSD-3-Clause
 *
 * log_test.cpp - durability: processes are killed at each stage of a commit, and in random
 * schedules, and the tables that their logs give have what was released, and commits whole.
 */
#include "../cards.hpp"
#include "../split_store.hpp"
#include "../tpcc.hpp"
#include "../tuple_log.hpp"
#include "world.hpp"

#include <gtest/gtest.h>

#include <map>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace oltpim_tests
{

namespace
{

struct HeapFile {
	HeapFile()
	    : path((access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp") +
	              ("/oltpim-test-" + std::to_string(getpid()) + ".fur"))
	{
		remove(path.c_str());
	}
	~HeapFile()
	{
		remove(path.c_str());
	}
	fur::Heap open(uint64_t heap_bytes = 8 << 20) const
	{
		fur::Options o;
		o.heap_bytes = heap_bytes;
		o.pm = FUR_PM_EMULATED; /* a killed process is what it has to survive */
		return fur::Heap::open_or_create(path, o);
	}
	const std::string path;
};

/* Run f, which ends by SIGKILL, in a process of its own. */
template <class F>
void killed(F f)
{
	const pid_t child = fork();
	ASSERT_GE(child, 0);
	if (child == 0) {
		try {
			f();
		} catch (const std::exception &e) {
			fprintf(stderr, "%s\n", e.what());
		}
		_exit(1); /* it should have been killed */
	}
	int status = 0;
	ASSERT_EQ(waitpid(child, &status, 0), child);
	ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

void die()
{
	kill(getpid(), SIGKILL);
}

constexpr uint64_t UNCUT = ~uint64_t{0}; /* bytes of a list */

std::map<uint64_t, uint64_t> values_of(const Recovered &r)
{
	std::map<uint64_t, uint64_t> values;
	for (const Record &record : r.records)
		if (!oltpim_is_entry(record.key))
			values[record.key] = reinterpret_cast<const Tuple *>(record.content)->value;
	return values;
}

NearSetup setup_with_cards()
{
	NearSetup s = small_setup(machines().back());
	s.shifts = shifts_of_cards();
	return s;
}

/* The loaded records, with the log of a database that begins with them */
std::vector<Record> loaded(Tuples &tuples, uint64_t n, uint64_t value)
{
	std::vector<Record> records;
	for (uint64_t key = 0; key < n; key++)
		records.push_back({key, reinterpret_cast<uint64_t>(tuples.make(key, 0, value))});
	return records;
}

/* ------------------------------------------------------------------- each stage */

enum Stage { DRAWN, KEPT, TOLD, FINALISED, RETURNED };

/* Kills its process before or after the log has the commit. */
struct KillingKeeper : Keeper {
	KillingKeeper(Keeper &k, Stage s) : keeper(k), stage(s) {}
	void keep(unsigned worker, uint64_t csn, const std::vector<const Tuple *> &rows) override
	{
		if (stage == DRAWN)
			die();
		keeper.keep(worker, csn, rows);
		if (stage == KEPT)
			die();
	}
	Keeper &keeper;
	const Stage stage;
};

/* Updates record 0, removes record 1 and makes record 9, and is killed at the stage.  A reader may
 * have seen the commit from FINALISED on. */
void commit_until(Stage stage, const HeapFile &file)
{
	fur::Heap heap = file.open();
	World w(Protocol::MENDED, small_setup(machines().back()));
	TupleLog log(heap, 1, w.numbers, UNCUT);
	KillingKeeper keeper(log, stage);
	const std::vector<Record> records = loaded(w.tuples, 4, 100);
	log.keep_loaded(records);
	w.store.load(records);
	w.db.keeper = &keeper;
	Transaction t = w.begun(0);
	t.begin();
	t.update(0, 7);
	t.remove(1);
	t.insert(9, 8);
	t.issue();
	w.serve();
	if (!t.ready() || t.failed())
		return;
	t.commit();
	t.ended();
	if (stage == TOLD)
		die();
	w.serve();
	if (stage == FINALISED)
		die();
	while (!t.ended())
		w.serve();
	if (stage == RETURNED)
		die();
}

/* INV-CN10 */
TEST(OltpimLog, HasWhatWasReleasedAtEachStage)
{
	const std::map<uint64_t, uint64_t> before = {{0, 100}, {1, 100}, {2, 100}, {3, 100}};
	const std::map<uint64_t, uint64_t> after = {{0, 7}, {2, 100}, {3, 100}, {9, 8}};
	for (const Stage stage : {DRAWN, KEPT, TOLD, FINALISED, RETURNED}) {
		const HeapFile file;
		killed([&] { commit_until(stage, file); });
		fur::Heap heap = file.open();
		Tuples tuples(0);
		const Recovered r = recover(heap, tuples, nullptr);
		EXPECT_EQ(values_of(r), stage == DRAWN ? before : after) << stage;
		EXPECT_EQ(r.newest, stage == DRAWN ? 0u : 1u) << stage;
	}
}

/* ------------------------------------------------------------- random schedules */

/* What a process that is killed has told: shared with the one that checks. */
struct Told {
	static constexpr size_t MOST = 4096;
	struct Row {
		uint64_t csn, key, value, is_removed;
	};
	uint64_t settled; /* commits up to it may have returned */
	uint64_t rows;
	Row row[MOST];
};

class SharedTold
{
public:
	SharedTold()
	    : told_(static_cast<Told *>(mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE,
	              MAP_SHARED | MAP_ANONYMOUS, -1, 0)))
	{
	}
	~SharedTold()
	{
		munmap(told_, sizeof(Told));
	}
	SharedTold(const SharedTold &) = delete;
	SharedTold &operator=(const SharedTold &) = delete;
	Told *operator->() const
	{
		return told_;
	}

private:
	Told *const told_;
};

/* Tells what commits have, before they are kept. */
struct TellingKeeper : Keeper {
	TellingKeeper(Keeper &k, SharedTold &t) : keeper(k), told(t) {}
	void keep(unsigned worker, uint64_t csn, const std::vector<const Tuple *> &rows) override
	{
		for (const Tuple *t : rows)
			told->row[told->rows++] = {csn, t->key, t->value, t->is_removed};
		keeper.keep(worker, csn, rows);
	}
	Keeper &keeper;
	SharedTold &told;
};

constexpr uint64_t ACCOUNTS = 12, EACH = 100;
constexpr unsigned CARDS = 12;

template <class C>
void run_until_killed(const HeapFile &file, SharedTold &told, const Recovered &begins,
        Tuples &tuples, uint64_t seed, unsigned n, uint64_t most)
{
	fur::Heap heap = file.open();
	const NearSetup setup = setup_with_cards();
	Numbers numbers(Protocol::MENDED, 1, World::SLOTS, begins.newest);
	NearStore store(setup, numbers);
	store.load(begins.records);
	TupleLog log(heap, 1, numbers, most);
	TellingKeeper keeper(log, told);
	Database db{store, numbers, {1}, {1}, colour_entry_of, &keeper};
	std::vector<std::unique_ptr<Client>> clients;
	for (unsigned k = 0; k < World::SLOTS; k++)
		clients.push_back(
		        std::make_unique<C>(db, tuples, 0, k, nullptr, n, 1000, seed * 64 + k));
	tools::Random random{seed};
	for (uint64_t steps = 200 + random.below(600); steps; steps--) {
		const uint64_t who = random.below(World::SLOTS + store.parts());
		if (who < World::SLOTS)
			clients[who]->step();
		else
			store.help_part(static_cast<unsigned>(who - World::SLOTS));
		told->settled = numbers.settled();
	}
	die();
}

/* Each key has a commit that was drawn, and none that is older than one that was settled. */
void check_recovered(const Recovered &r, const SharedTold &told)
{
	const std::map<uint64_t, uint64_t> values = values_of(r);
	std::map<uint64_t, std::map<uint64_t, const Told::Row *>> versions;
	for (uint64_t k = 0; k < told->rows; k++)
		versions[told->row[k].key][told->row[k].csn] = &told->row[k];
	for (const auto &[key, of_key] : versions) {
		const auto value = values.find(key);
		bool found = false, may_be_older = true;
		for (auto v = of_key.rbegin(); v != of_key.rend() && may_be_older; ++v) {
			found |= v->second->is_removed ? value == values.end()
			                               : value != values.end() &&
			                                         value->second == v->second->value;
			may_be_older = v->first > told->settled;
		}
		EXPECT_TRUE(found || may_be_older) << "record " << key;
	}
}

/* A process is killed and recovers, some times over.  Its log is cut to `most` bytes. */
template <class C, class Check>
void kill_again_and_again(
        uint64_t seed, unsigned n, const std::vector<Record> &first, uint64_t most, Check check)
{
	const HeapFile file;
	Tuples tuples(0);
	Recovered state{first, 0};
	killed([&] {
		fur::Heap heap = file.open();
		Numbers numbers(Protocol::MENDED, 1, World::SLOTS);
		TupleLog(heap, 1, numbers, most).keep_loaded(state.records);
		die();
	});
	uint64_t commits = 0;
	for (unsigned life = 0; life < 3; life++) {
		SharedTold told;
		killed([&] {
			run_until_killed<C>(file, told, state, tuples, seed * 8 + life, n, most);
		});
		fur::Heap heap = file.open();
		state = recover(heap, tuples, colour_entry_of);
		check_recovered(state, told);
		check(state);
		EXPECT_GE(state.newest, told->settled);
		EXPECT_GE(state.newest, commits);
		commits = state.newest;
	}
	EXPECT_GT(commits, 0u);
}

/* Bytes of the log: it is cut off after each commit, or after some. */
uint64_t most_of(uint64_t seed)
{
	return seed == 1 ? 0 : 1000;
}

TEST(OltpimLog, SurvivesKillsInABank)
{
	for (uint64_t seed = 1; seed <= 2; seed++) {
		Tuples tuples(0);
		kill_again_and_again<BankClient>(seed, ACCOUNTS, loaded(tuples, ACCOUNTS, EACH),
		        most_of(seed), [](const Recovered &r) {
			        uint64_t sum = 0;
			        for (const auto &[key, value] : values_of(r))
				        sum += value;
			        EXPECT_EQ(sum, ACCOUNTS * EACH); /* no half of a transfer */
		        });
	}
}

/* Rows are removed and made again, and the entries follow them. */
TEST(OltpimLog, SurvivesKillsWithAnIndex)
{
	for (uint64_t seed = 1; seed <= 2; seed++)
		kill_again_and_again<CardClient>(
		        seed, CARDS, {}, most_of(seed), [](const Recovered &r) {
			        size_t rows = 0;
			        for (const Record &record : r.records)
				        rows += !oltpim_is_entry(record.key);
			        EXPECT_EQ(r.records.size(), 2 * rows);
		        });
}

/* ------------------------------------------------------------- a log that is cut */

/* Commits of a worker, each settled at once, and the rows that they leave */
struct Commits {
	explicit Commits(size_t payload) : tuples(payload) {}
	void keep(
	        TupleLog &log, unsigned worker, uint64_t key, uint64_t value, bool removes = false)
	{
		const uint64_t csn = numbers.draw();
		Tuple *t = tuples.make(key, 1, value);
		t->is_removed = removes;
		log.keep(worker, csn, {t});
		tuples.give(t);
		numbers.settle(csn);
		if (removes)
			rows.erase(key);
		else
			rows[key] = value;
	}
	Numbers numbers{Protocol::MENDED, 2, 4};
	Tuples tuples;
	std::map<uint64_t, uint64_t> rows;
};

constexpr uint64_t SMALL = 8 << 20; /* bytes of a heap */

/* Two workers change, remove and make rows, each time another key. */
void keep_many(TupleLog &log, Commits &c)
{
	enum : uint64_t { COMMITS = 12000, KEYS = 40 };
	for (uint64_t k = 1; k <= COMMITS; k++) {
		c.keep(log, k % 2, k % KEYS, k);
		if (k % 3 == 0) {
			c.keep(log, k % 2, KEYS + k, k);
			c.keep(log, 1 - k % 2, KEYS + k, 0, true);
		}
	}
}

TEST(OltpimLog, DoesNotFillTheHeap)
{
	const HeapFile file;
	Commits c(1000);
	{
		fur::Heap heap = file.open(SMALL);
		TupleLog log(heap, 2, c.numbers, 1 << 19);
		keep_many(log, c);
	}
	fur::Heap heap = file.open(SMALL);
	/* Removals are forgotten, but for those of the last blocks. */
	EXPECT_LT(RowTable(heap).size(), 1000u);
	Tuples tuples(0);
	const Recovered r = recover(heap, tuples, nullptr);
	EXPECT_EQ(values_of(r), c.rows);
	EXPECT_EQ(r.newest, c.numbers.settled());
	EXPECT_LE(RowTable(heap).size(), c.rows.size() + 1);
	EXPECT_EQ(values_of(recover(heap, tuples, nullptr)), c.rows);

	const HeapFile other;
	fur::Heap fills = other.open(SMALL);
	Commits uncut(1000);
	TupleLog log(fills, 2, uncut.numbers, UNCUT);
	EXPECT_THROW(keep_many(log, uncut), fur::heap_full);
}

/* INV-CN11: a worker has cut off a removal, and the other one's list has the row still. */
TEST(OltpimLog, RemovedRowsStayRemoved)
{
	const HeapFile file;
	fur::Heap heap = file.open();
	Commits c(0);
	TupleLog slow(heap, 2, c.numbers, 200);
	c.keep(slow, 1, 5, 100);
	c.keep(slow, 0, 5, 0, true);
	for (uint64_t k = 0; k < 20; k++)
		c.keep(slow, 0, 6, k);
	Tuples tuples(0);
	EXPECT_EQ(values_of(recover(heap, tuples, nullptr)), c.rows);
}

/* Cuts off `n` blocks, and is killed within the update of the next one, or behind the last. */
void cut_until(const HeapFile &file, unsigned n, bool within)
{
	fur::Heap heap = file.open();
	lab::BlockLog log(heap, 0);
	RowTable table(heap);
	std::vector<RowTable::Removal> removals;
	for (unsigned k = 0; k <= n; k++) {
		if (k == n && !within)
			die();
		log.cut([&](fur_update *tx, lab::Bytes &block) {
			table.fold(tx, block, removals);
			if (k == n)
				die();
		});
	}
}

TEST(OltpimLog, HasAllRowsAtEachStageOfACut)
{
	enum : unsigned { COMMITS = 5 };
	for (unsigned n = 0; n < COMMITS; n++)
		for (const bool within : {false, true}) {
			const HeapFile file;
			Commits c(16);
			{
				fur::Heap heap = file.open();
				TupleLog log(heap, 1, c.numbers, UNCUT);
				c.keep(log, 0, 1, 11);
				c.keep(log, 0, 2, 12);
				c.keep(log, 0, 1, 13);
				c.keep(log, 0, 2, 0, true);
				c.keep(log, 0, 3, 15);
			}
			killed([&] { cut_until(file, n, within); });
			fur::Heap heap = file.open();
			EXPECT_EQ(lab::BlockLog(heap, 0).blocks().size(), COMMITS - n);
			Tuples tuples(0);
			const Recovered r = recover(heap, tuples, nullptr);
			EXPECT_EQ(values_of(r), c.rows) << n << within;
			EXPECT_EQ(r.newest, uint64_t{COMMITS});
		}
}

/* ------------------------------------------------------------- a database again */

/* TPC-C, whose rows have contents: as consistent after recovery as before. */
TEST(OltpimLog, BringsTpccBack)
{
	const HeapFile file;
	tpcc::Size size;
	size.warehouses = 1, size.customers = 30, size.items = 100;
	constexpr unsigned CLIENTS = 4;
	const DramSetup setup{.workers = 1, .partitions = 4, .shifts = tpcc::shifts()};
	const auto nothing = [](const void *, unsigned) {};
	Tuples tuples(0);
	Recovered r{tpcc::records(size, tuples), 0};
	tpcc::Shared shared(size, 90);
	for (unsigned life = 0; life < 2; life++) {
		fur::Heap heap = file.open();
		Numbers numbers(Protocol::MENDED, 1, CLIENTS, r.newest);
		DramStore store(setup, numbers, nothing);
		store.load(r.records);
		TupleLog log(heap, 1, numbers, 20000);
		if (life == 0)
			log.keep_loaded(r.records);
		Database db{store, numbers, {1}, {1}, tpcc::entry_of, &log};
		std::vector<std::unique_ptr<MeasuredClient>> clients;
		std::vector<Client *> running;
		for (unsigned k = 0; k < CLIENTS; k++) {
			clients.push_back(std::make_unique<tpcc::TpccClient>(
			        db, tuples, 0, k, nullptr, shared, CLIENTS,
			        [] { return uint64_t{0}; }, 10 * life + k));
			running.push_back(clients.back().get());
		}
		for (unsigned step = 0; step < 4000; step++) {
			clients[step % CLIENTS]->step();
			store.help(0);
		}
		for (const auto &c : clients)
			c->stop();
		run_by_seed(store, running, life);
		EXPECT_GT(numbers.settled(), r.newest);
		EXPECT_EQ(tpcc::wrong(db, tuples, size), "");
		r = recover(heap, tuples, tpcc::entry_of);
		EXPECT_EQ(r.newest, numbers.settled());
	}
	Numbers numbers(Protocol::MENDED, 1, CLIENTS, r.newest);
	DramStore store(setup, numbers, nothing);
	store.load(r.records);
	Database db{store, numbers, {1}, {1}};
	EXPECT_EQ(tpcc::wrong(db, tuples, size), "");
}

} // namespace

} // namespace oltpim_tests
