/* SPDX-License-Identifier: BSD-3-Clause
 *
 * machine_agent_test.cpp - the coherent agent: latencies between host and device, atomic operations
 * at home, the order of stores between the two sides, conflicts with the host's transactions.
 */
#include "machine_fixture.hpp"

#include <cstring>
#include <fstream>
#include <memory>
#include <sys/mman.h>
#include <unistd.h>

namespace
{

std::string text_of(const std::string &machine)
{
	std::ifstream in(std::string(FUR_MACHINES) + "/" + machine + ".toml");
	return std::string((std::istreambuf_iterator<char>(in)), {});
}

/* A description that lives as long as this object. */
struct Described {
	std::string path = testing::TempDir() + "agent-" + std::to_string(getpid()) + "-" +
	                   std::to_string(next++) + ".toml";

	explicit Described(const std::string &text)
	{
		std::ofstream(path) << text;
	}
	~Described()
	{
		unlink(path.c_str());
	}
	Described(const Described &) = delete;

private:
	inline static int next = 0;
};

using Changes = std::vector<std::pair<std::string, std::string>>;

/* ccix-ndp.toml with each pair's first string replaced by its second. */
std::string changed(const Changes &changes)
{
	std::string text = text_of("ccix-ndp");
	for (const auto &[from, to] : changes)
		if (size_t at = text.find(from); at != std::string::npos)
			text.replace(at, from.size(), to);
		else
			ADD_FAILURE() << "ccix-ndp.toml has no '" << from << "'";
	return text;
}

const std::pair<std::string, std::string> at_device = {"home = \"host\"", "home = \"device\""},
                                          in_cache = {"atomics = \"at_home\"",
                                                  "atomics = \"in_cache\""};

/* tsx.toml, and ccix-ndp.toml's agent. */
std::string tsx_with_agent()
{
	std::string ccix = text_of("ccix-ndp");
	return text_of("tsx") + ccix.substr(ccix.find("[agent]"));
}

Body on_agent(const Body &body)
{
	return [body] {
		ASSERT_TRUE(emu_move(EMU_AGENT));
		body();
	};
}
Body on(enum emu_side side, const Body &body)
{
	return side == EMU_AGENT ? on_agent(body) : body;
}

uint64_t add(Cell &c)
{
	return __atomic_fetch_add(&c.value, 1, __ATOMIC_SEQ_CST);
}

/* Nanoseconds that f() takes. */
template <class F>
uint64_t takes(F f)
{
	uint64_t before = emu_ticks(), look = emu_ticks() - before;
	before = emu_ticks();
	f();
	return (emu_ticks() - before - look) / 1000;
}

/* A plateau may differ from the paper's by this much. */
void expect_within(uint64_t ns, uint64_t least, uint64_t most, const std::string &what)
{
	EXPECT_GE(ns, least * 8 / 10) << what;
	EXPECT_LE(ns, most * 12 / 10) << what;
}

/* ------------------------------------------------------------------ latencies */

/* The paper's Figure 5. */
TEST(Agent, ALineOfTheHost_TakesTheLinkOnce_AndIsThenCached)
{
	run({"ccix-ndp"}, {on_agent([] {
		                   for (unsigned k = 0; k < 3; k++)
			                   result[k] = takes([] { load(cell[0]); });
		                   work_until(20000);
		                   result[3] = takes([] { load(cell[0]); });
		                   result[4] = takes([] { load(cell[0]); });
		                   work_until(40000);
		                   result[5] = takes([] { load(cell[0]); });
	                   }),
	                          [] {
		                          work_until(10000);
		                          store(cell[0], 1);
		                          work_until(30000);
		                          load(cell[0]);
	                          }});
	EXPECT_EQ(result[0], 800u) << "from the host";
	EXPECT_EQ(result[1], 90u) << "from the device's cache";
	EXPECT_EQ(result[2], 90u) << "a device executes in order, and also waits for recent lines";
	EXPECT_EQ(result[3], 800u) << "the host has written the line";
	EXPECT_EQ(result[4], 90u);
	EXPECT_EQ(result[5], 90u) << "the host has only read it";
}

TEST(Agent, ALineOfTheDevice_TakesTheHostTheLink_AndTheDeviceItsCache)
{
	Described machine(changed({at_device}));
	run({machine.path}, {on_agent([] {
		                     for (unsigned k = 0; k < 2; k++)
			                     result[k] = takes([] { load(cell[0]); });
		                     work_until(20000);
		                     result[2] = takes([] { store(cell[0], 1), emu_fence(); });
	                     }),
	                            [] {
		                            work_until(10000);
		                            result[3] = takes([] { load(cell[0]); });
		                            work_until(15000);
		                            result[4] = takes([] { load(cell[0]); });
		                            work_until(30000);
		                            result[5] = takes([] { load(cell[0]); });
	                            }});
	EXPECT_EQ(result[0], 90u);
	EXPECT_EQ(result[1], 90u);
	expect_within(result[2], 400, 400, "the device takes the line back");
	EXPECT_EQ(result[3], 800u);
	EXPECT_LE(result[4], 5u) << "in the host's cache";
	EXPECT_EQ(result[5], 800u) << "the device has written the line";
}

TEST(Agent, ALineThatTheDevicesCacheHasEvicted_TakesTheLinkAgain)
{
	constexpr size_t LINES = 9000; /* of 8,192 that the cache has */
	auto memory = std::make_unique<uint64_t[]>(LINES * 8);
	run({"ccix-ndp"}, {on_agent([line = memory.get()] {
		auto first = [line] { __atomic_load_n(line, __ATOMIC_RELAXED); };
		first();
		result[0] = takes(first);
		for (size_t k = 1; k < LINES; k++)
			__atomic_load_n(&line[k * 8], __ATOMIC_RELAXED);
		result[1] = takes(first);
	})});
	EXPECT_EQ(result[0], 90u);
	EXPECT_EQ(result[1], 800u);
}

struct Took { /* nanoseconds */
	uint64_t mean, least, most;
};

/* `side` makes an atomic operation on a new line in each round; in `percent` of the rounds the
 * other side has one on the same line under way. */
Took atomics(const std::string &machine, enum emu_side side, unsigned percent)
{
	constexpr unsigned ROUNDS = 400;
	static uint64_t sum, least, most;
	sum = most = 0, least = ~UINT64_C(0);
	/* To the nanosecond, unlike work_until(). */
	auto wait = [](unsigned round, uint64_t ns) {
		emu_work(100000 + 3000 * round + ns - emu_ticks() / 1000);
	};
	auto measured = [&] {
		for (unsigned k = 0; k < ROUNDS; k++) {
			wait(k, 200);
			uint64_t ns = takes([k] { add(cell[k]); });
			sum += ns;
			least = ns < least ? ns : least;
			most = ns > most ? ns : most;
		}
	};
	auto parallel = [&wait, percent] {
		for (unsigned k = 0; k < ROUNDS; k++) {
			wait(k, 0);
			if (k * 7919 % 100 < percent)
				add(cell[k]);
		}
	};
	auto other = side == EMU_HOST ? EMU_AGENT : EMU_HOST;
	run({machine}, {on(side, measured), on(other, parallel)});
	return {sum / ROUNDS, least, most};
}

/* The paper's Figure 4: at home 80 to 100 ns, by full contention about 400; on the other side 800,
 * by any contention. */
void expect_figure_4(const std::string &machine, enum emu_side home)
{
	expect_within(atomics(machine, home, 0).mean, 80, 100, "at home, alone");
	expect_within(atomics(machine, home, 100).mean, 400, 400, "at home, contended");
	uint64_t before = 0;
	for (unsigned percent : {0, 25, 50, 75, 100}) {
		uint64_t ns = atomics(machine, home, percent).mean;
		EXPECT_GT(ns, before) << percent << " %";
		before = ns;
		Took far = atomics(machine, home == EMU_HOST ? EMU_AGENT : EMU_HOST, percent);
		EXPECT_EQ(far.least, 800u) << percent << " %";
		EXPECT_EQ(far.most, 800u) << percent << " %";
	}
}

TEST(Agent, AtomicsAtHome_RiseWithContention_AndThoseOverTheLinkDoNot)
{
	expect_figure_4("ccix-ndp", EMU_HOST);
}

TEST(Agent, WithTheHomeAtTheDevice_TheRolesTurnRound)
{
	Described machine(changed({at_device}));
	expect_figure_4(machine.path, EMU_AGENT);
}

TEST(Agent, AtomicsOverTheLink_TakeTheSameHoweverManyThreadsContend)
{
	static uint64_t least, most;
	least = ~UINT64_C(0), most = 0;
	std::vector<Body> bodies(10, on_agent([] {
		for (unsigned k = 0; k < 100; k++) {
			uint64_t ns = takes([] { add(cell[0]); });
			least = ns < least ? ns : least;
			most = ns > most ? ns : most;
		}
	}));
	bodies.insert(bodies.end(), 2, [] {
		for (unsigned k = 0; k < 1000; k++)
			add(cell[0]);
	});
	ASSERT_EQ(run({"ccix-ndp"}, bodies), EMU_DONE);
	EXPECT_EQ(least, 800u);
	EXPECT_EQ(most, 800u);
}

/* The alternative that at_home avoids: the line travels, and the device pays for contention. */
TEST(Agent, AtomicsInTheCache_AreAsFastAsIt_UntilTheHostTakesTheLine)
{
	Described machine(changed({in_cache}));
	run({machine.path}, {on_agent([] {
		                     result[0] = takes([] { add(cell[0]); });
		                     result[1] = takes([] { add(cell[0]); });
		                     work_until(20000);
		                     result[2] = takes([] { add(cell[0]); });
	                     }),
	                            [] {
		                            work_until(10000);
		                            result[3] = takes([] { add(cell[0]); });
	                            }});
	expect_within(result[0], 800, 800, "the line comes from the host");
	expect_within(result[1], 90, 90, "the line is in the cache");
	expect_within(result[2], 800, 800, "the host has it");
	expect_within(result[3], 400, 400, "the device had it");
	EXPECT_EQ(cell[0].value, 4u);
}

TEST(Agent, InstructionsTakeACycle_AndThreadsOfOneCoreShareIt)
{
	auto fifteen = [](unsigned into) {
		return on_agent([into] {
			work_until(50000);
			result[into] = takes([] { emu_instructions(15); });
		});
	};
	run({"ccix-ndp"}, {fifteen(0)});
	EXPECT_EQ(result[0], 100u) << "at 150 MHz";
	std::vector<Body> bodies;
	for (unsigned k = 0; k < 15; k++)
		bodies.push_back(fifteen(k));
	run({"ccix-ndp"}, bodies);
	unsigned slow = 0;
	for (unsigned k = 0; k < 15; k++)
		slow += result[k] > 150;
	EXPECT_EQ(slow, 2u) << "15 threads on 14 cores";
}

/* ------------------------------------------------------------------ coherence */

/* fetch_add, and the same by compare-and-swap, by threads of both sides. */
void count(const std::string &machine)
{
	for (uint64_t seed = 1; seed <= 60; seed++) {
		auto body = [] {
			for (unsigned k = 0; k < 20; k++) {
				add(cell[0]);
				uint64_t is = load(cell[1]);
				while (!__atomic_compare_exchange_n(&cell[1].value, &is, is + 1,
				        false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
					;
				__atomic_fetch_add(&cell[2].value, 1, __ATOMIC_RELAXED);
				store(cell[3], load(cell[3]) + 1);
			}
		};
		std::vector<Body> bodies(3, body);
		bodies.insert(bodies.end(), 3, on_agent(body));
		ASSERT_EQ(run({machine, seed, 20}, bodies), EMU_DONE);
		for (unsigned k : {0, 1, 2})
			ASSERT_EQ(cell[k].value, 120u) << machine << ", seed " << seed;
		result[0] += cell[3].value < 120;
	}
	EXPECT_GT(result[0], 0u) << "increments that are not atomic get lost";
}

TEST(Agent, NoIncrementIsLost_WhereverItIsPerformed)
{
	Described device(changed({at_device})), caches(changed({in_cache})),
	        both(changed({at_device, in_cache})), tsx(tsx_with_agent());
	count("ccix-ndp");
	for (const Described *machine : {&device, &caches, &both, &tsx})
		count(machine->path);
}

int runs_that(const std::string &machine, const std::vector<Body> &bodies,
        const std::function<bool()> &seen)
{
	return seeds_that(machine, bodies, seen, 500);
}

/* Both sides store, then load the other's word. */
std::vector<Body> store_buffering(void (*write)(Cell &))
{
	/* The moves to the agent take a while. */
	return {[write] {
		        work_until(10000);
		        write(cell[0]);
		        result[0] = load(cell[1]);
	        },
	        on_agent([write] {
		        work_until(10000);
		        write(cell[1]);
		        result[1] = load(cell[0]);
	        })};
}

TEST(Agent, StoresPassLaterLoads_UnlessAFenceOrAnAtomicIsBetween)
{
	auto neither = [] { return result[0] == 0 && result[1] == 0; };
	auto plain = [](Cell &c) { store(c, 1); };
	auto fenced = [](Cell &c) { store(c, 1), emu_fence(); };
	auto atomic = [](Cell &c) { add(c); };
	Described device(changed({at_device})), tsx(tsx_with_agent());
	for (const std::string &machine : {std::string("ccix-ndp"), device.path, tsx.path}) {
		EXPECT_GT(runs_that(machine, store_buffering(plain), neither), 0) << machine;
		EXPECT_EQ(runs_that(machine, store_buffering(fenced), neither), 0) << machine;
		EXPECT_EQ(runs_that(machine, store_buffering(atomic), neither), 0) << machine;
	}
}

/* Data, then a flag, from one side to the other; the receiver polls the flag in its cache. */
std::vector<Body> message_passing(enum emu_side from, void (*send)())
{
	return {on(from,
	                [send] {
		                work_until(10000);
		                store(cell[0], 1);
		                send();
	                }),
	        on(from == EMU_HOST ? EMU_AGENT : EMU_HOST, [] {
		        while (load(cell[1]) == 0)
			        emu_pause();
		        result[0] = load(cell[0]);
	        })};
}

TEST(Agent, AMessageArrivesAfterItsData_IfABarrierOrAReleaseSaysSo)
{
	auto stale = [] { return result[0] == 0; };
	auto bare = [] { store(cell[1], 1); };
	auto barrier = [] { emu_fence_light(), store(cell[1], 1); };
	auto release = [] { __atomic_fetch_add(&cell[1].value, 1, __ATOMIC_RELEASE); };
	auto relaxed = [] { __atomic_fetch_add(&cell[1].value, 1, __ATOMIC_RELAXED); };
	Described device(changed({at_device}));
	for (const std::string &machine : {std::string("ccix-ndp"), device.path})
		for (enum emu_side from : {EMU_HOST, EMU_AGENT}) {
			EXPECT_GT(runs_that(machine, message_passing(from, bare), stale), 0)
			        << machine << from;
			EXPECT_EQ(runs_that(machine, message_passing(from, barrier), stale), 0)
			        << machine << from;
			EXPECT_EQ(runs_that(machine, message_passing(from, release), stale), 0)
			        << machine << from;
		}
	EXPECT_GT(runs_that("ccix-ndp", message_passing(EMU_HOST, relaxed), stale), 0);
}

/* A plain store that the program itself makes, before an atomic operation that goes home. */
TEST(Agent, AnAtomicAtHome_FollowsTheThreadsOwnStoresToItsWord)
{
	for (uint64_t seed = 1; seed <= 100; seed++) {
		run({"ccix-ndp", seed, 5}, {on_agent([] {
			for (uint64_t k = 1; k <= 20; k++) {
				store(cell[k % 3], 100 * k);
				uint64_t was =
				        __atomic_fetch_add(&cell[k % 3].value, 1, __ATOMIC_RELAXED);
				result[0] += was != 100 * k;
				result[0] += load(cell[k % 3]) != 100 * k + 1;
			}
		})});
		ASSERT_EQ(result[0], 0u) << "seed " << seed;
	}
}

/* --------------------------------------------------------------- transactions */

/* The status of a host's transaction on tsx with an agent, in the middle of which the agent does
 * `other`. */
uint64_t against_agent(const Body &inside, const Body &other)
{
	static uint64_t status;
	Described machine(tsx_with_agent());
	run({machine.path}, {[&] {
		                     work_until(10000);
		                     status = emu_tbegin(EMU_TX);
		                     if (status == EMU_STARTED) {
			                     inside();
			                     emu_work(4000);
			                     load(cell[100]); /* any access: here it finds out */
			                     emu_tend();
		                     }
	                     },
	                            on_agent([&] {
		                            work_until(11000);
		                            other();
	                            })});
	return status;
}

TEST(Agent, ItsWrites_AbortTheHostsTransactions)
{
	auto reads = [] { load(cell[0]); };
	auto writes = [] { store(cell[0], 7), emu_work(500), load(cell[1]); };
	for (const Body &inside : {Body(reads), Body(writes)}) {
		EXPECT_EQ(cause_of(against_agent(inside, [] { store(cell[0], 3); })),
		        EMU_CONFLICT_PLAIN);
		EXPECT_EQ(cell[0].value, 3u) << "the transaction's store is undone";
		EXPECT_EQ(cause_of(against_agent(inside, [] { add(cell[0]); })), EMU_CONFLICT_PLAIN)
		        << "performed at home";
		EXPECT_EQ(cell[0].value, 1u);
		EXPECT_EQ(cause_of(against_agent(inside, [] { cell[0].value = 4; })),
		        EMU_CONFLICT_PLAIN)
		        << "not atomic";
	}
	EXPECT_EQ(cause_of(against_agent(writes, reads)), EMU_CONFLICT_PLAIN);
	EXPECT_EQ(against_agent(reads, reads), static_cast<uint64_t>(EMU_STARTED));
	EXPECT_EQ(against_agent(writes, [] { add(cell[2]); }), static_cast<uint64_t>(EMU_STARTED))
	        << "another line";
}

/* With the home at the device, the host's atomic operations go there, but for those of a
 * transaction: until it commits, no other thread may see them. */
TEST(Agent, AHostsTransactionKeepsItsAtomics)
{
	std::string text = tsx_with_agent();
	text.replace(text.find(at_device.first), at_device.first.size(), at_device.second);
	Described machine(text);
	run({machine.path}, {[] {
		                     work_until(10000);
		                     if (emu_tbegin(EMU_TX) == EMU_STARTED) {
			                     add(cell[0]);
			                     emu_work(4000);
			                     load(cell[100]);
			                     emu_tend();
		                     }
		                     result[0] = load(cell[0]);
	                     },
	                            on_agent([] {
		                            work_until(12000);
		                            result[1] = load(cell[0]);
	                            })});
	EXPECT_EQ(result[0], 0u) << "aborted by the agent's load";
	EXPECT_EQ(result[1], 0u);
}

TEST(Agent, ItHasNoTransactions)
{
	Described machine(tsx_with_agent());
	run({machine.path}, {on_agent([] { result[0] = emu_tbegin(EMU_TX); }), [] {
		                     if ((result[1] = emu_tbegin(EMU_TX)) == EMU_STARTED)
			                     emu_tend();
	                     }});
	EXPECT_EQ(cause_of(result[0]), EMU_DISALLOWED);
	EXPECT_EQ(result[1], static_cast<uint64_t>(EMU_STARTED));
}

/* ------------------------------------------------------------------- placement */

TEST(Agent, AThreadMovesToTheAgentAndBack)
{
	EXPECT_FALSE(emu_move(EMU_AGENT)) << "outside a simulation";
	run({"ccix-ndp"}, {[] {
		result[0] = emu_where();
		result[1] = emu_move(EMU_AGENT);
		result[2] = emu_where();
		store(cell[0], 1);
		result[3] = emu_move(EMU_HOST);
		result[4] = emu_where();
		result[5] = load(cell[0]);
	}});
	EXPECT_EQ(result[0], static_cast<uint64_t>(EMU_HOST));
	EXPECT_TRUE(result[1] && result[3]);
	EXPECT_EQ(result[2], static_cast<uint64_t>(EMU_AGENT));
	EXPECT_EQ(result[4], static_cast<uint64_t>(EMU_HOST));
	EXPECT_EQ(result[5], 1u);
	run({"power9"}, {[] { result[0] = emu_move(EMU_AGENT); }});
	EXPECT_FALSE(result[0]) << "no agent";
}

TEST(Agent, AMoveAbortsATransaction)
{
	Described machine(tsx_with_agent());
	run({machine.path}, {[] {
		result[0] = emu_tbegin(EMU_TX);
		if (result[0] == EMU_STARTED) {
			store(cell[0], 1);
			emu_move(EMU_AGENT);
			emu_tend();
		}
		result[1] = emu_where();
		result[2] = load(cell[0]);
	}});
	EXPECT_EQ(cause_of(result[0]), EMU_DISALLOWED);
	EXPECT_EQ(result[1], static_cast<uint64_t>(EMU_HOST));
	EXPECT_EQ(result[2], 0u);
}

TEST(Agent, SameSeed_SameRun)
{
	auto body = [] {
		for (unsigned k = 0; k < 50; k++)
			add(cell[k % 5]), store(cell[5], k), load(cell[6]);
	};
	std::vector<Body> bodies(3, body);
	bodies.insert(bodies.end(), 3, on_agent(body));
	auto counted = [&](uint64_t seed) {
		run({"ccix-ndp", seed, 50}, bodies);
		emu_counters n = emu_count();
		return std::vector<uint64_t>{n.accesses, n.switches, n.ns};
	};
	EXPECT_EQ(counted(3), counted(3));
	EXPECT_NE(counted(3), counted(4));
}

/* ----------------------------------------------------------- persistent memory */

/* Of 200 power failures, how many the agent's store survives. */
int survivals(void (*after_store)(uint64_t *))
{
	static void (*after)(uint64_t *);
	static uint64_t *memory;
	after = after_store;
	memory = static_cast<uint64_t *>(
	        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	int n = 0;
	for (uint64_t seed = 1; seed <= 200; seed++) {
		*memory = 0;
		emu_persistent(memory, 4096);
		run({"ccix-ndp", seed}, {on_agent([] {
			__atomic_store_n(memory, 1, __ATOMIC_RELAXED);
			after(memory);
			emu_crash_in(1);
			load(cell[0]);
		})});
		n += *memory == 1;
	}
	emu_persistent_gone(memory);
	munmap(memory, 4096);
	return n;
}

TEST(Agent, ItsWriteBacks_AreDurableAfterItsFence)
{
	EXPECT_EQ(survivals([](uint64_t *p) {
		emu_write_back(p, 8);
		emu_write_back_fence();
	}),
	        200);
	int unfenced = survivals([](uint64_t *p) { emu_write_back(p, 8); });
	EXPECT_GT(unfenced, 0);
	EXPECT_LT(unfenced, 200);
}

/* ---------------------------------------------------------------- descriptions */

std::string error_of(const Changes &changes)
{
	Described machine(changed(changes));
	char error[512] = "";
	emu_machine *m = emu_machine_read(machine.path.c_str(), error, sizeof error);
	if (m)
		emu_machine_free(m);
	std::string all = error;
	return all.substr(all.find(": ") == std::string::npos ? 0 : all.find(": ") + 2);
}

TEST(Agent, MistakesInItsDescription_AreRefused)
{
	EXPECT_EQ(error_of({}), "");
	for (const char *key : {"cores = 14", "mhz = 150", "cache_lines = 8192", "cache_ways = 8",
	             "home = \"host\"", "cached_ns = 90.0", "miss_ns = 800.0",
	             "host_contended_ns = 400.0", "atomics = \"at_home\""}) {
		std::string name = std::string(key).substr(0, std::string(key).find(' '));
		std::string text = changed({});
		text.replace(text.find(std::string("\n") + key) + 1, strlen(key), "");
		Described machine(text);
		char error[512] = "";
		ASSERT_EQ(emu_machine_read(machine.path.c_str(), error, sizeof error), nullptr);
		EXPECT_NE(
		        std::string(error).find("[agent] has no '" + name + "'"), std::string::npos)
		        << error;
	}
	EXPECT_EQ(error_of({{"mhz = 150", "mhz = 150\nghz = 1"}}), "unknown key 'ghz'");
	EXPECT_EQ(error_of({{at_device.first, "home = \"both\""}}),
	        "home is 'both': use one of host, device");
	EXPECT_EQ(error_of({{in_cache.first, "atomics = \"none\""}}),
	        "atomics is 'none': use one of at_home, in_cache");
	EXPECT_EQ(error_of({{"\nmhz = 150", "\nmhz = 0"}}), "mhz must not be 0");
	EXPECT_EQ(error_of({{"miss_ns = 800.0", "miss_ns = 80.0"}}),
	        "miss_ns is the time of a line that is not cached: at least cached_ns");
	for (const char *many : {"cores = 60", "cores = 63"})
		EXPECT_EQ(error_of({{"cores = 14", many}}),
		        "cores and threads, with the host's: at most 63 cores, 127 hardware "
		        "threads, and 3 sockets of the host");
	EXPECT_EQ(error_of({{"sockets = 1", "sockets = 4"}}).substr(0, 17), "cores and threads");
}

} // namespace
