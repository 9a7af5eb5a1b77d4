/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ship_kills.cpp - does a killed process lose an update, or repeat one?
 *
 *     ship-kills --kills N [--seed S] [--log kafka:HOST:PORT/TOPIC]
 *
 * Kills each of these N times, in turn, at random instants: a program that updates a primary, its
 * fur-ship, its fur-standby and, with a log of Kafka, a broker of brokers.py; one time of four, a
 * second process shortly after.  The program's heap has FUR_ACK_LOCAL and FUR_ACK_REPLICATED, by
 * turns.  After each kill the standby reads the log to its end.  With FUR_ACK_REPLICATED it must
 * have all that had returned; at both levels, none that had not begun, and nothing twice.  After
 * three rounds the program closes its heap: then the standby equals it in every byte in use, and in
 * the end so does a copy of the beginning that has read the whole stream.  The first update that is
 * lost or there twice ends the run.
 *
 * It prints "K kills, L lost, T twice"; exit status 1 unless the last two are 0, and 3 with a line
 * that tells what went wrong otherwise.
 */
#include "../../tools/common/random.hpp"
#include "broker_control.hpp"
#include "image.hpp"
#include "kill_settings.hpp"
#include "processes.hpp"
#include "read_log.hpp"
#include "told.hpp"

namespace
{

using namespace ship_test;

enum victim { PROGRAM, SHIP, STANDBY, BROKER, VICTIMS };
enum : uint64_t { ROUNDS_OF_A_LOG = 10, ROUNDS_TO_QUIET = 3, BROKERS = 3 };

/* Both levels have their turn. */
uint64_t rounds_of_a_log(const Settings &s)
{
	return s.count < 2 * ROUNDS_OF_A_LOG ? (s.count + 1) / 2 : ROUNDS_OF_A_LOG;
}

unsigned victims_of(const Settings &s)
{
	return s.log.rfind("kafka:", 0) == 0 ? VICTIMS : BROKER;
}

void ask(const std::string &what)
{
	const std::string answer = kafka_test::ask_brokers(what);
	if (answer != "ok")
		give_up("brokers.py, %s: %s", what.c_str(), answer.c_str());
}

class Pair
{
public:
	Pair(const Settings &s, uint64_t seed)
	    : settings_(s), random_{seed},
	      name_(s.directory + "/fur-kills-" + std::to_string(getpid())), told_(make_told()),
	      ack_(seed % 2 ? FUR_ACK_LOCAL : FUR_ACK_REPLICATED)
	{
		remove_files();
		log_ = s.log.empty() ? "file:" + name_ + "-log" : s.log + std::to_string(seed);
		make_heap(heap());
		must({program("src/fur_ship/fur-ship"), "--init", heap(), "--log", log_});
		for (const char *of : {"-standby", "-whole"})
			must({program("tools/fur-copy"), "--for-standby", heap(), name_ + of});
		revive();
	}
	~Pair()
	{
		for (pid_t &pid : processes_)
			end(&pid);
		munmap(told_, sizeof(Told));
		remove_files();
	}
	Pair(const Pair &) = delete;

	/* One kill of each. */
	Verdict round()
	{
		Verdict v;
		for (unsigned k = 0; k < victims_of(settings_); k++) {
			let_work();
			kill_one(static_cast<victim>(k));
			if (random_.one_in(4)) {
				usleep(static_cast<unsigned>(random_.below(30000)));
				kill_one(static_cast<victim>(random_.below(BROKER)));
			}
			v.add(look_at_standby());
			if (processes_[PROGRAM] <= 0)
				v.add(recover());
			revive();
		}
		return v;
	}
	/* The program closes its heap. */
	Verdict quiet()
	{
		let_work();
		__atomic_store_n(&told_->stop, 1, __ATOMIC_RELAXED);
		if (status_of(processes_[PROGRAM], 0) != 0)
			give_up("the program does not close its heap");
		processes_[PROGRAM] = -1;
		Verdict v = look_at_standby();
		v.add(recover());
		look_at_standby(); /* what opening and closing has shipped */
		compare("-standby");
		told_->stop = 0;
		revive();
		return v;
	}
	/* The whole stream. */
	void compare_whole()
	{
		end(&processes_[PROGRAM]);
		(void)recover();
		read_log(log_, name_ + "-whole", heap_options());
		compare("-whole");
	}

private:
	std::string heap() const
	{
		return name_ + "-primary";
	}
	std::string standby() const
	{
		return name_ + "-standby";
	}
	std::string program(const char *path) const
	{
		return settings_.programs + "/" + path;
	}
	fur::Options heap_options() const
	{
		fur::Options o = options(ack_);
		o.ack_patience_ms = 100000; /* brokers that come back, on a slow machine */
		return o;
	}
	void remove_files() const
	{
		for (const char *end : {"-primary", "-standby", "-whole", "-log", "-command",
		             "-ship-says", "-standby-says"})
			unlink((name_ + end).c_str());
	}
	void must(const std::vector<std::string> &command) const
	{
		const std::string says = name_ + "-command";
		if (status_of(start(command, says), 0) != 0)
			give_up("%s: %s", command[0].c_str(), content_of(says).c_str());
	}
	/* Start what does not run. */
	void revive()
	{
		if (processes_[SHIP] <= 0)
			processes_[SHIP] = start(
			        {program("src/fur_ship/fur-ship"), heap()}, name_ + "-ship-says");
		if (processes_[STANDBY] <= 0)
			processes_[STANDBY] =
			        start({program("src/fur_standby/fur-standby"), standby()},
			                name_ + "-standby-says");
		if (processes_[PROGRAM] <= 0)
			processes_[PROGRAM] = start([this] {
				work(heap(), told_, heap_options());
				_exit(0);
			});
		if (dead_broker_) {
			ask("start " + std::to_string(dead_broker_));
			ask("wait");
			dead_broker_ = 0;
		}
	}
	/* Until some updates have returned, so that there is something to lose. */
	void let_work()
	{
		const uint64_t until = told_->returned() + random_.below(100);
		await("the first update", [&] {
			for (const auto &of : told_->of)
				if (of.error)
					give_up("an update has failed: %" PRId64, of.error);
			return told_->returned() > until;
		});
		usleep(static_cast<unsigned>(random_.below(40000)));
	}
	void kill_one(victim which)
	{
		if (settings_.verbose)
			printf("kill %u\n", which), fflush(stdout);
		if (which != BROKER) {
			end(&processes_[which]);
			return;
		}
		dead_broker_ = 1 + static_cast<unsigned>(random_.below(BROKERS));
		ask("kill " + std::to_string(dead_broker_));
	}
	/* The standby reads the log to its end.  What had returned before that, must be there; and
	 * what had begun when it has done so, may. */
	Verdict look_at_standby()
	{
		if (processes_[STANDBY] > 0) {
			await("the standby", [&] { return follows(); });
			kill(processes_[STANDBY], SIGTERM);
			const auto status = status_of(processes_[STANDBY], 0);
			processes_[STANDBY] = -1;
			if (status != 0)
				give_up("the standby has ended (%d): %s", status.value_or(-1),
				        content_of(name_ + "-standby-says").c_str());
		}
		Told then = *told_;
		Verdict v;
		read_log(log_, standby(), heap_options(), [&](fur::Heap &h) {
			std::array<uint64_t, THREADS> newest{};
			for (unsigned t = 0; t < THREADS; t++) {
				then.of[t].begun =
				        __atomic_load_n(&told_->of[t].begun, __ATOMIC_ACQUIRE);
				if (ack_ == FUR_ACK_LOCAL)
					then.of[t].returned = then.of[t].from = 0;
			}
			v = judge(h, then, &newest);
		});
		v.returned = v.there = v.gone = 0; /* recover() counts them */
		return v;
	}
	bool follows() const
	{
		const std::string said = content_of(name_ + "-standby-says");
		if (const auto status = status_of(processes_[STANDBY]))
			give_up("the standby has ended (%d): %s", *status, said.c_str());
		return said.find("follows") != std::string::npos;
	}
	bool is_closed() const
	{
		heap_file file;
		fur::check(heap_open_file(heap().c_str(), HEAP_LOCK_NONE, &file));
		const bool closed = file.super->state == MEDIA_CLOSED;
		heap_close_file(&file);
		return closed;
	}
	/* fur-ship recovers the heap.  Whatever its level, it has all that had returned. */
	Verdict recover()
	{
		if (processes_[SHIP] <= 0)
			processes_[SHIP] = start(
			        {program("src/fur_ship/fur-ship"), heap()}, name_ + "-ship-says");
		await("the recovery", [&] {
			if (const auto status = status_of(processes_[SHIP]))
				give_up("fur-ship has ended (%d): %s", *status,
				        content_of(name_ + "-ship-says").c_str());
			return is_closed();
		});
		return look(heap(), told_, heap_options());
	}
	void compare(const char *other) const
	{
		uint64_t first;
		if (const uint64_t n = differences(heap(), name_ + other, &first))
			give_up("%" PRIu64 " bytes of %s differ, the first at %" PRIu64, n, other,
			        first);
	}

	const Settings &settings_;
	tools::Random random_;
	std::string name_, log_;
	Told *told_;
	fur_ack ack_;
	std::array<pid_t, BROKER> processes_ = {-1, -1, -1};
	unsigned dead_broker_ = 0;
};

Verdict run_all(const Settings &s, uint64_t &round)
{
	Verdict all;
	std::optional<Pair> pair;
	for (round = 0; round < s.count && !all.lost && !all.twice; round++) {
		if (round % rounds_of_a_log(s) == 0) {
			if (pair)
				pair->compare_whole();
			pair.reset();
			pair.emplace(s, s.seed + round / rounds_of_a_log(s));
		}
		all.add(pair->round());
		if (round % ROUNDS_TO_QUIET == 0 || round + 1 == s.count)
			all.add(pair->quiet());
		if (s.verbose) {
			printf("after round %" PRIu64 ":\n", round);
			all.print("kills", victims_of(s) * (round + 1));
		}
	}
	if (pair && !all.lost && !all.twice)
		pair->compare_whole();
	return all;
}

} // namespace

int main(int argc, char **argv)
{
	const Settings s = settings_of(argc, argv, "kills", 3);
	try {
		uint64_t rounds;
		const Verdict v = run_all(s, rounds);
		v.print("kills", victims_of(s) * rounds);
		return v.lost || v.twice;
	} catch (const std::exception &e) {
		fprintf(stderr, "ship-kills: %s\n", e.what());
		return 3;
	}
}
