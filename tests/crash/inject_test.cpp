/* SPDX-License-Identifier: BSD-3-Clause
 *
 * inject_test.cpp - fails each call of the library that can fail: no crash, no hang, an error that
 * helps, nothing lost.
 *
 *     inject-test [--most N] [--only REGEX] [--except REGEX] [--forgive REGEX]
 *                 [--seed N] [--jobs N] [--remedies] [--plant ignore-error]
 *     inject-test --repeat KIND:N:DOMAIN:MODE
 *
 * A case runs the scenario of inject_case.hpp with one fault.  A first run counts the calls of each
 * kind; then there is a case for each call of each kind, in each mode (faults.hpp), in the domains
 * emulated and sync.  KIND is the name of the call, with the prefix "server-" where the serving
 * fur-replayer makes it.  --most limits the calls of each kind and mode, and spreads them evenly.
 *
 * Exit status: 0 as it should be, 1 not, 3 the test itself could not run.
 */
#include "../../tools/common/command_line.hpp"
#include "inject_case.hpp"

#include <csignal>
#include <iostream>
#include <regex>
#include <sys/wait.h>
#include <unistd.h>

namespace
{

struct Settings {
	unsigned most = 0, jobs = 2, patience_s = 30;
	uint64_t seed = 1;
	std::string only, except, forgive, repeat, plant = "none";
	bool remedies = false;
};

/* ------------------------------------------------------------------- driver */

const char *name_of_domain(fur_pm domain)
{
	return fur_name(FUR_NAME_PM, domain);
}

struct Job {
	faults::Plan plan;
	fur_pm domain;
	std::string name() const
	{
		return std::string(plan.role == faults::SERVER ? "server-" : "") +
		       faults::name(plan.kind) + ":" + std::to_string(plan.n) + ":" +
		       name_of_domain(domain) + ":" + faults::name_of_mode(plan.mode);
	}
};

class Driver
{
public:
	explicit Driver(const Settings &s) : s_(s) {}

	int run()
	{
		arch_ticks_per_ns(); /* once, not in each process */
		if (!s_.repeat.empty()) {
			jobs_.push_back(parse(s_.repeat));
			run_jobs();
		} else {
			for (fur_pm domain : {FUR_PM_EMULATED, FUR_PM_SYNC})
				add_jobs(domain);
			run_jobs();
		}
		std::cout << cases_ << " cases, " << failures_ << " failures";
		if (forgiven_)
			std::cout << ", " << forgiven_ << " forgiven";
		if (not_reached_)
			std::cout
			        << " (" << not_reached_
			        << " cases made fewer calls than the first run, and met no fault)";
		std::cout << "\n";
		if (s_.plant != "none")
			return failures_ == 0;
		return failures_ != 0 || cases_ == 0;
	}

private:
	struct Running {
		pid_t pid = 0;
		Job job;
		Case *shared;
		uint64_t until_ns;
	};

	static Job parse(const std::string &text)
	{
		std::smatch m;
		if (!std::regex_match(
		            text, m, std::regex("(server-)?([a-z_]+):([0-9]+):([a-z]+):([a-z]+)")))
			throw std::runtime_error("--repeat " + text + ": use KIND:N:DOMAIN:MODE");
		Job job{{m[1].matched ? faults::SERVER : faults::PROGRAM, faults::KINDS,
		                static_cast<unsigned>(std::stoul(m[3])), faults::MODES},
		        FUR_PM_AUTO};
		for (int k = 0; k < faults::KINDS; k++)
			if (m[2] == faults::name(k))
				job.plan.kind = k;
		for (int k = 0; k < faults::MODES; k++)
			if (m[5] == faults::name_of_mode(k))
				job.plan.mode = k;
		for (fur_pm domain : {FUR_PM_EMULATED, FUR_PM_SYNC})
			if (m[4] == name_of_domain(domain))
				job.domain = domain;
		if (job.plan.kind == faults::KINDS || job.plan.mode == faults::MODES ||
		        job.domain == FUR_PM_AUTO)
			throw std::runtime_error(
			        "--repeat " + text + ": no such kind, domain or mode");
		return job;
	}

	static bool meaningful(int role, int kind, fur_pm domain, int mode)
	{
		switch (mode) {
		case faults::BUSY: return kind == faults::FCNTL;
		case faults::POWER:
		case faults::TORN:
			return kind == faults::FDATASYNC && domain == FUR_PM_SYNC &&
			       role == faults::PROGRAM;
		default: return true;
		}
	}

	/* Count the calls; then a case for each. */
	void add_jobs(fur_pm domain)
	{
		/* The kinds that the scenario must contain, else --wrap has lost them. */
		static const std::set<int> expected{faults::CALLOC, faults::REALLOC,
		        faults::ALIGNED_ALLOC, faults::MMAP, faults::OPEN, faults::FSYNC,
		        faults::FDATASYNC, faults::FCNTL, faults::PREAD, faults::PTHREAD_CREATE};
		Running counting = start(Job{{}, domain});
		int status;
		waitpid(counting.pid, &status, 0);
		const Case *c = counting.shared;
		for (unsigned k = 0; k < c->findings && k < std::size(c->finding); k++)
			throw std::runtime_error(
			        std::string("without any fault: ") + c->finding[k]);
		for (int kind = 0; kind < faults::KINDS; kind++) {
			const unsigned calls = c->faults.calls[faults::PROGRAM][kind],
			               served = c->faults.calls[faults::SERVER][kind];
			if (calls == 0 && expected.contains(kind))
				throw std::runtime_error(
				        std::string("the scenario makes no call of ") +
				        faults::name(kind));
			if (calls + served)
				std::cout << name_of_domain(domain) << ": " << calls << " + "
				          << served << " calls of " << faults::name(kind) << "\n";
			for (int mode = 0; mode < faults::MODES; mode++) {
				if (meaningful(faults::PROGRAM, kind, domain, mode))
					add_calls({faults::PROGRAM, kind, 0, mode}, calls, domain);
				if (meaningful(faults::SERVER, kind, domain, mode))
					add_calls({faults::SERVER, kind, 0, mode}, served, domain);
			}
		}
		forget(counting);
	}

	/* All, or --most, evenly spread and begun somewhere that the seed says. */
	void add_calls(faults::Plan plan, unsigned calls, fur_pm domain)
	{
		const std::regex only(s_.only), except(s_.except);
		const unsigned n = s_.most && calls > s_.most ? s_.most : calls;
		for (unsigned k = 0; k < n; k++) {
			const auto at = static_cast<unsigned>(
			        (static_cast<uint64_t>(k) * calls + s_.seed % calls) / n % calls);
			plan.n = at + 1;
			const Job job{plan, domain};
			if (!s_.only.empty() && !std::regex_search(job.name(), only))
				continue;
			if (s_.except.empty() || !std::regex_search(job.name(), except))
				jobs_.push_back(job);
		}
	}

	Running start(const Job &job)
	{
		void *memory = mmap(nullptr, sizeof(Case), PROT_READ | PROT_WRITE,
		        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (memory == MAP_FAILED)
			throw std::runtime_error("no memory for a case");
		Running r{0, job, new (memory) Case{},
		        arch_now_ns() + s_.patience_s *UINT64_C(1000000000)}; /* INV-T6 */
		Case *c = r.shared;
		const std::string path = "/dev/shm/fur-inject-" + std::to_string(getpid()) + "-" +
		                         std::to_string(started_++);
		snprintf(c->path, sizeof c->path, "%s", path.c_str());
		snprintf(c->faults.image, sizeof c->faults.image, "%s.image", path.c_str());
		c->faults.plan = job.plan;
		c->domain = job.domain;
		c->remedies = s_.remedies;
		c->ignore_error = s_.plant == "ignore-error";
		std::cout.flush();
		if ((r.pid = fork()) == 0)
			run_case(c);
		if (r.pid < 0)
			throw std::runtime_error("cannot fork");
		return r;
	}

	static void forget(const Running &r)
	{
		unlink(r.shared->path);
		unlink(r.shared->faults.image);
		munmap(r.shared, sizeof *r.shared);
	}

	/* Its processes are one process group. */
	void finish(Running &r, bool hangs)
	{
		const Case *c = r.shared;
		kill(-r.pid, SIGKILL);
		if (hangs)
			waitpid(r.pid, nullptr, 0);
		cases_++;
		not_reached_ += c->faults.failed == 0;
		if (!hangs && c->findings && !s_.forgive.empty() &&
		        std::regex_search(c->finding[0], std::regex(s_.forgive))) {
			forgiven_++;
		} else if (hangs || c->findings) {
			failures_++;
			std::cout << r.job.name() << ": "
			          << (c->findings ? c->finding[0] : "it hangs")
			          << "\n    repeat with: inject-test"
			          << (s_.remedies ? " --remedies" : "") << " --repeat "
			          << r.job.name() << "\n";
		}
		for (unsigned k = 1;
		        !s_.repeat.empty() && k < c->findings && k < std::size(c->finding); k++)
			std::cout << "    also: " << c->finding[k] << "\n";
		forget(r);
		r.pid = 0;
	}

	void look_at(Running &r)
	{
		int status;
		if (waitpid(r.pid, &status, WNOHANG) == r.pid)
			finish(r, false);
		else if (arch_now_ns() > r.until_ns)
			finish(r, true);
	}

	void run_jobs()
	{
		std::vector<Running> running(s_.jobs);
		size_t next = 0;
		for (bool busy = true; busy;) {
			busy = false;
			for (Running &r : running) {
				if (r.pid)
					look_at(r);
				const bool enough = s_.plant != "none" && failures_ > 0;
				if (!r.pid && next < jobs_.size() && !enough)
					r = start(jobs_[next++]);
				busy |= r.pid != 0;
			}
			usleep(500);
		}
	}

	Settings s_;
	std::vector<Job> jobs_;
	unsigned started_ = 0, cases_ = 0, failures_ = 0, forgiven_ = 0, not_reached_ = 0;
};

} // namespace

int main(int argc, char **argv)
{
	Settings s;
	tools::CommandLine line("inject-test", "each call of the library that can fail, failed: no "
	                                       "crash, no hang, an error that helps, nothing lost");
	line.option(
	        "--most", s.most, "this many calls of each kind and mode, evenly spread; 0: all");
	line.option("--only", s.only, "cases whose name, KIND:N:DOMAIN:MODE, has this in it");
	line.option("--except", s.except, "not those whose name has this in it");
	line.option("--seed", s.seed, "which calls --most takes");
	line.option("--jobs", s.jobs, "cases at one time").range(1, 64);
	line.option("--patience", s.patience_s, "seconds after which a case hangs");
	line.option("--repeat", s.repeat, "one case, KIND:N:DOMAIN:MODE");
	line.option("--forgive", s.forgive, "do not count findings that have this in them");
	line.flag("--remedies", s.remedies, "a message must also say what to do");
	line.option("--plant", s.plant, "a bug the check must find")
	        .one_of({"none", "ignore-error"});
	if (auto status = tools::parse_or_exit_status(line, "inject-test", argc, argv))
		return *status;
	try {
		return Driver(s).run();
	} catch (const std::exception &e) {
		std::cerr << "inject-test: " << e.what() << "\n";
		return 3;
	}
}
