/* SPDX-License-Identifier: BSD-3-Clause
 *
 * process.cpp - see process.hpp.
 */
#include "process.hpp"

#include <chrono>
#include <csignal>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fstream>
#include <map>
#include <set>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace pme
{

using Clock = std::chrono::steady_clock;

static double since(Clock::time_point t)
{
	return std::chrono::duration<double>(Clock::now() - t).count();
}

bool End::well() const
{
	return !timed_out && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::string End::text() const
{
	if (timed_out)
		return "did not end in time";
	if (WIFSIGNALED(status))
		return std::string("died of signal ") + std::to_string(WTERMSIG(status)) + " (" +
		       strsignal(WTERMSIG(status)) + ")";
	return "exit status " + std::to_string(WEXITSTATUS(status));
}

int End::exit_status() const
{
	return timed_out ? 1 : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

Output::Output() : fd_(memfd_create("output", MFD_CLOEXEC))
{
	if (fd_ < 0)
		throw std::runtime_error(
		        std::string("no memory for a program's output: ") + strerror(errno));
}

Output::~Output()
{
	close(fd_);
}

void Output::clear() const
{
	if (ftruncate(fd_, 0) == 0)
		lseek(fd_, 0, SEEK_SET);
}

std::string Output::text() const
{
	char text[8192];
	off_t end = lseek(fd_, 0, SEEK_END),
	      from = end > off_t(sizeof text) ? end - off_t(sizeof text) : 0;
	ssize_t n = pread(fd_, text, sizeof text, from);
	return std::string(text, n > 0 ? static_cast<size_t>(n) : 0);
}

void adopt_orphans()
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	/* Blocked, so that it can be waited for, with a time limit. */
	sigset_t child;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, nullptr);
}

/* ------------------------------------------------------------- descendants */

static std::map<pid_t, pid_t> parents()
{
	std::map<pid_t, pid_t> all;
	DIR *proc = opendir("/proc");
	for (dirent *e; proc && (e = readdir(proc));) {
		pid_t pid = static_cast<pid_t>(atoi(e->d_name));
		std::ifstream stat(pid ? "/proc/" + std::string(e->d_name) + "/stat" : "");
		std::string text;
		if (!pid || !std::getline(stat, text))
			continue;
		/* "pid (name) state ppid", and the name may hold anything. */
		size_t name_ends = text.rfind(')');
		if (name_ends != std::string::npos && text.size() > name_ends + 4)
			all[pid] = static_cast<pid_t>(atoi(text.c_str() + name_ends + 4));
	}
	if (proc)
		closedir(proc);
	return all;
}

/* All that descend from us. */
static std::set<pid_t> descendants()
{
	std::map<pid_t, pid_t> all = parents();
	std::set<pid_t> ours;
	for (auto [pid, parent] : all) {
		pid_t up = parent;
		while (up > 1 && up != getpid())
			up = all.count(up) ? all[up] : 0;
		if (up == getpid())
			ours.insert(pid);
	}
	return ours;
}

/* Kill all that descend from us, and reap them.  They are stopped first, those they have started
 * meanwhile included: with the power off, nobody sees another die.  A number cannot be another
 * process's in between: only we reap. */
static void kill_descendants()
{
	for (std::set<pid_t> stopped, now; (now = descendants()) != stopped; stopped = now)
		for (pid_t pid : now)
			kill(pid, SIGSTOP);
	for (bool any = true; any;) {
		any = false;
		for (pid_t pid : descendants())
			any = kill(pid, SIGKILL) == 0 || any;
		while (waitpid(-1, nullptr, WNOHANG) > 0)
			;
		if (any)
			usleep(200);
	}
}

/* Wait until `main` and its descendants have ended, the power is off, or the time is up. */
static End wait_for(pid_t main, const Memory *memory, double timeout_s)
{
	End end;
	bool main_ended = false;
	auto started = Clock::now();
	Clock::time_point attached{};
	for (;;) {
		int status;
		pid_t pid;
		while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
			if (pid == main) {
				end.status = status;
				main_ended = true;
			}
		if (pid < 0 && main_ended)
			return end; /* nobody is left */
		pme_control *c = memory ? memory->control() : nullptr;
		if (c && c->settings.fail == PME_AT_TIME) {
			/* From the first mapping on: starting a program takes its time, and there
			 * is nothing to lose yet. */
			if (attached == Clock::time_point{} &&
			        __atomic_load_n(&c->regions, __ATOMIC_ACQUIRE))
				attached = Clock::now();
			if (attached != Clock::time_point{} &&
			        since(attached) * 1000 >= static_cast<double>(c->settings.fail_at))
				__atomic_store_n(&c->failed, 1, __ATOMIC_SEQ_CST);
		}
		bool late = timeout_s > 0 && since(started) > timeout_s;
		if (late || (c && __atomic_load_n(&c->failed, __ATOMIC_ACQUIRE))) {
			kill_descendants();
			end.timed_out = late && !(c && c->failed);
			return end;
		}
		sigset_t child;
		sigemptyset(&child);
		sigaddset(&child, SIGCHLD);
		timespec soon{0, 1000000};
		sigtimedwait(&child, nullptr, &soon);
	}
}

/* ---------------------------------------------------------------- starting */

static pid_t start(const std::vector<std::string> &command,
        const std::vector<std::string> &environment, const Output *output)
{
	std::vector<char *> argv, envp;
	for (const std::string &s : command)
		argv.push_back(const_cast<char *>(s.c_str()));
	argv.push_back(nullptr);
	for (const std::string &s : environment)
		envp.push_back(const_cast<char *>(s.c_str()));
	envp.push_back(nullptr);
	posix_spawn_file_actions_t files;
	posix_spawn_file_actions_init(&files);
	if (output) {
		posix_spawn_file_actions_adddup2(&files, output->fd(), 1);
		posix_spawn_file_actions_adddup2(&files, output->fd(), 2);
	}
	posix_spawnattr_t attributes;
	sigset_t none;
	sigemptyset(&none);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	pid_t pid;
	int error = posix_spawnp(&pid, argv[0], &files, &attributes, argv.data(), envp.data());
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attributes);
	if (error)
		throw Usage(command[0] + ": cannot run: " + strerror(error) +
		            "; check the path after --");
	return pid;
}

static std::vector<std::string> environment_without(const std::vector<std::string> &names)
{
	std::vector<std::string> all;
	for (char **e = environ; *e; e++) {
		bool drop = false;
		for (const std::string &name : names)
			drop = drop || strncmp(*e, (name + "=").c_str(), name.size() + 1) == 0;
		if (!drop)
			all.push_back(*e);
	}
	return all;
}

End run_program(const std::vector<std::string> &command, const Memory &memory,
        const std::string &library, double timeout_s, const Output *output)
{
	std::vector<std::string> environment =
	        environment_without({"LD_PRELOAD", PME_ENVIRONMENT, "PMEM_IS_PMEM_FORCE"});
	const char *others = getenv("LD_PRELOAD");
	environment.push_back(
	        "LD_PRELOAD=" + library + (others && *others ? std::string(":") + others : ""));
	environment.push_back(std::string(PME_ENVIRONMENT) + "=" + memory.name());
	/* A libpmem whose own calls do not go through its table of symbols asks itself when it maps
	 * a file. */
	environment.push_back("PMEM_IS_PMEM_FORCE=1");
	return wait_for(start(command, environment, output), &memory, timeout_s);
}

End run_shell(const std::string &command, double timeout_s, const Output *output)
{
	return wait_for(start({"/bin/sh", "-c", command}, environment_without({}), output), nullptr,
	        timeout_s);
}

std::string quoted(const std::string &word)
{
	if (!word.empty() &&
	        word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456"
	                               "789-_./:=,+@%") == std::string::npos)
		return word;
	std::string text = "'";
	for (char c : word)
		text += c == '\'' ? "'\\''" : std::string(1, c);
	return text + "'";
}

} // namespace pme
