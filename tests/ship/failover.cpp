/* SPDX-License-Identifier: BSD-3-Clause
 *
 * failover.cpp - is an update that was acknowledged there after a fail-over, and once?
 *
 *     failover --runs N       prints "N runs, L lost, T twice"; exit status 1 unless both are 0
 *
 * In each run threads of a program update a primary, in a heap with FUR_ACK_REPLICATED, beside
 * fur-ship and two fur-standby.  Program and fur-ship are killed at any instant, fur-ship perhaps
 * before that as well, and a standby.  One standby takes over.  The program's threads have told, in
 * memory that outlives it, which update each has begun, and which has returned: the new primary
 * must have all of the second, and none but of the first.  The old primary becomes a standby.  When
 * both standbys have read the log to its end, they equal the new primary, in every byte that is in
 * use.  Then the next run begins.
 */
#include "../../tools/common/random.hpp"
#include "image.hpp"
#include "kill_settings.hpp"
#include "processes.hpp"
#include "read_log.hpp"
#include "ship.hpp"
#include "told.hpp"

#include <algorithm>

namespace
{

using namespace ship_test;

enum : uint64_t { NODES = 3, RUNS_OF_A_LOG = 50, TAKEOVER_MS = 2000 };
enum { EXIT_PROMOTED = 4 };

/* --------------------------------------------------------------------- a run */

class Cluster
{
public:
	Cluster(const Settings &s, uint64_t seed)
	    : settings_(s), random_{seed},
	      name_(s.directory + "/fur-failover-" + std::to_string(getpid())), told_(make_told())
	{
		remove_files();
		log_ = s.log.empty() ? "file:" + name_ + "-log" : s.log + std::to_string(seed);
		make_heap(heap(0));
		must({program("src/fur_ship/fur-ship"), "--init", heap(0), "--log", log_});
		for (unsigned node = 1; node < NODES; node++)
			must({program("tools/fur-copy"), "--for-standby", heap(0), heap(node)});
		for (unsigned node = 1; node < NODES; node++)
			start_standby(node, false);
	}
	~Cluster()
	{
		end(&worker_);
		end(&ship_);
		for (pid_t &pid : standbys_)
			end(&pid);
		munmap(told_, sizeof(Told));
		remove_files();
	}
	Cluster(const Cluster &) = delete;

	Verdict run()
	{
		const bool by_silence = silent_;
		const unsigned old = primary_;
		start_ship();
		worker_ = start([&] { work(heap(primary_), told_); });
		let_work();
		kill_primary();
		primary_ = take_over(by_silence);
		if (by_silence)
			take_over_no_more(old);
		const Verdict v = look(heap(primary_), told_);
		silent_ = random_.one_in(8);
		start_standby(old, false); /* it rejoins */
		await("the old primary", [&] { return follows(old); });
		for (unsigned node = 0; node < NODES; node++)
			if (node != primary_)
				check_standby(node);
		for (unsigned node = 0; node < NODES; node++)
			if (node != primary_)
				start_standby(node, silent_);
		return v;
	}

private:
	std::string heap(unsigned node) const
	{
		return name_ + "-" + std::to_string(node);
	}
	std::string output(unsigned node) const
	{
		return heap(node) + "-says";
	}
	std::string program(const char *path) const
	{
		return settings_.programs + "/" + path;
	}
	void remove_files() const
	{
		for (unsigned node = 0; node < NODES; node++)
			for (const std::string &path : {heap(node), output(node),
			             heap(node) + ".lost", heap(node) + "-ship"})
				unlink(path.c_str());
		for (const char *end : {"-log", "-command"})
			unlink((name_ + end).c_str());
	}
	void must(const std::vector<std::string> &command) const
	{
		const std::string says = name_ + "-command";
		if (status_of(start(command, says), 0) != 0)
			give_up("%s: %s", command[0].c_str(), content_of(says).c_str());
	}
	void start_ship()
	{
		ship_ = start({program("src/fur_ship/fur-ship"), heap(primary_)},
		        heap(primary_) + "-ship");
	}
	void start_standby(unsigned node, bool takes_over)
	{
		std::vector<std::string> command = {
		        program("src/fur_standby/fur-standby"), heap(node)};
		if (takes_over)
			command.insert(command.end(), {"--takeover", std::to_string(TAKEOVER_MS),
			                                      "--rank", std::to_string(node)});
		standbys_[node] = start(command, output(node));
	}
	bool follows(unsigned node) const
	{
		if (const auto status = status_of(standbys_[node]))
			give_up("a standby has ended (%d): %s", *status,
			        content_of(output(node)).c_str());
		return content_of(output(node)).find("follows") != std::string::npos;
	}
	/* Until some updates have returned, so that there is something to lose.  Meanwhile a
	 * standby dies, or fur-ship. */
	void let_work()
	{
		const uint64_t before = told_->returned();
		if (random_.one_in(3)) {
			usleep(static_cast<unsigned>(random_.below(30000)));
			end(&ship_);
			start_ship();
		}
		if (!silent_ && random_.one_in(3)) {
			unsigned node = static_cast<unsigned>(random_.below(NODES));
			node = node == primary_ ? (node + 1) % NODES : node;
			end(&standbys_[node]);
			start_standby(node, false);
		}
		await("the first update", [&] {
			return told_->returned() > before + random_.below(100) || is_fenced();
		});
		usleep(static_cast<unsigned>(random_.below(40000)));
	}
	/* A standby has found the primary silent, for the machine was slow. */
	bool is_fenced() const
	{
		return std::any_of(std::begin(told_->of), std::end(told_->of),
		        [](const auto &of) { return of.error != 0; });
	}
	/* In any order. */
	void kill_primary()
	{
		pid_t *first = &worker_, *second = &ship_;
		if (random_.one_in(2))
			std::swap(first, second);
		end(first);
		if (random_.one_in(2))
			usleep(static_cast<unsigned>(random_.below(5000)));
		end(second);
	}
	/* As often as a slow machine needs. */
	void promote(unsigned node) const
	{
		const std::string says = name_ + "-command";
		for (unsigned tries = 0; !is_primary(node); tries++) {
			const auto status = status_of(start({program("src/fur_standby/fur-standby"),
			                                            "--promote", heap(node)},
			                                      says),
			        0);
			if (status != 0 && tries == 3)
				give_up("%s%s", content_of(says).c_str(),
				        content_of(output(node)).c_str());
		}
	}
	/* Returns the new primary. */
	unsigned take_over(bool by_silence)
	{
		const unsigned chosen =
		        (primary_ + 1 + static_cast<unsigned>(random_.below(NODES - 1))) % NODES;
		unsigned promoted = NODES;
		if (!by_silence) {
			await("a standby", [&] { return follows(chosen); });
			promote(chosen);
		}
		await("the promotion", [&] {
			for (unsigned node = 0; node < NODES; node++)
				if (node != primary_)
					if (const auto status = status_of(standbys_[node])) {
						standbys_[node] = -1;
						if (*status != EXIT_PROMOTED)
							give_up("a standby has ended (%d): %s",
							        *status,
							        content_of(output(node)).c_str());
						promoted = node;
						return true;
					}
			return false;
		});
		return promoted;
	}
	/* The other standby: nothing ships for a while now, and it must not find that silent. */
	void take_over_no_more(unsigned old)
	{
		const unsigned node = 0 + 1 + 2 - old - primary_;
		end(&standbys_[node]);
		if (is_primary(node)) { /* it has: after the first one, which was too slow for it */
			start_standby(primary_, false);
			primary_ = node;
		} else {
			start_standby(node, false);
		}
	}
	bool is_primary(unsigned node) const
	{
		heap_file file;
		media_ship page;
		fur::check(heap_open_file(heap(node).c_str(), HEAP_LOCK_NONE, &file));
		const int error = heap_read_ship_page(&file.geometry, file.super, &page);
		heap_close_file(&file);
		fur::check(error);
		return page.role == MEDIA_PRIMARY;
	}
	/* It ends where it is.  Then it reads the log to its end. */
	void check_standby(unsigned node)
	{
		if (standbys_[node] > 0)
			kill(standbys_[node], SIGTERM);
		const auto status = status_of(standbys_[node], 0);
		standbys_[node] = -1;
		if (status != 0)
			give_up("a standby has ended (%d): %s", status.value_or(-1),
			        content_of(output(node)).c_str());
		read_log(log_, heap(node), options());
		uint64_t first;
		if (const uint64_t n = ship_test::differences(heap(primary_), heap(node), &first))
			give_up("%" PRIu64 " bytes of the heaps differ, the first at %" PRIu64, n,
			        first);
	}
	const Settings &settings_;
	tools::Random random_;
	std::string name_, log_;
	Told *told_;
	unsigned primary_ = 0;
	bool silent_ = false; /* a standby takes over when the primary is silent */
	pid_t worker_ = -1, ship_ = -1;
	std::array<pid_t, NODES> standbys_ = {-1, -1, -1};
};

Verdict run_all(const Settings &s)
{
	Verdict all;
	std::optional<Cluster> cluster;
	for (uint64_t run = 0; run < s.count; run++) {
		if (run % RUNS_OF_A_LOG == 0) {
			cluster.reset();
			cluster.emplace(s, s.seed + run);
		}
		const Verdict v = cluster->run();
		if (s.verbose || v.lost || v.twice)
			v.print("runs", 1);
		all.add(v);
	}
	return all;
}

} // namespace

int main(int argc, char **argv)
{
	const Settings s = settings_of(argc, argv, "runs", 10);
	try {
		const Verdict v = run_all(s);
		v.print("runs", s.count);
		return v.lost || v.twice;
	} catch (const std::exception &e) {
		fprintf(stderr, "failover: %s\n", e.what());
		return 3;
	}
}
