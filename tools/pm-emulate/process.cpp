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

static double seconds_since(Clock::time_point t)
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
	/* Block the signal, so that wait_for() can wait for it with a time limit. */
	sigset_t child;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, nullptr);
}

/* ------------------------------------------------------------- descendants */

static std::map<pid_t, pid_t> parent_of_each()
{
	std::map<pid_t, pid_t> all;
	DIR *proc = opendir("/proc");
	for (dirent *e; proc && (e = readdir(proc));) {
		pid_t pid = static_cast<pid_t>(atoi(e->d_name));
		std::ifstream stat(pid ? "/proc/" + std::string(e->d_name) + "/stat" : "");
		std::string text;
		if (!pid || !std::getline(stat, text))
			continue;
		/* "pid (name) state ppid", where the name may contain anything. */
		size_t name_ends = text.rfind(')');
		if (name_ends != std::string::npos && text.size() > name_ends + 4)
			all[pid] = static_cast<pid_t>(atoi(text.c_str() + name_ends + 4));
	}
	if (proc)
		closedir(proc);
	return all;
}

/* All processes that descend from us. */
static std::set<pid_t> our_descendants()
{
	std::map<pid_t, pid_t> all = parent_of_each();
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

/* Kill all processes that descend from us, and reap them.  First stop them, and those that they
 * started meanwhile, so that none sees another one die: the power is off.  No number can pass to
 * another process in between, for no other process reaps them. */
static void kill_descendants()
{
	for (std::set<pid_t> stopped, now; (now = our_descendants()) != stopped; stopped = now)
		for (pid_t pid : now)
			kill(pid, SIGSTOP);
	for (bool any = true; any;) {
		any = false;
		for (pid_t pid : our_descendants())
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
			return end; /* no process is left */
		pme_control *c = memory ? memory->control() : nullptr;
		if (c && c->settings.fail == PME_AT_TIME) {
			/* Count from the first mapping on: starting a program takes time, and until
			 * then there is nothing to lose. */
			if (attached == Clock::time_point{} &&
			        __atomic_load_n(&c->regions, __ATOMIC_ACQUIRE))
				attached = Clock::now();
			if (attached != Clock::time_point{} &&
			        seconds_since(attached) * 1000 >=
			                static_cast<double>(c->settings.fail_at))
				__atomic_store_n(&c->failed, 1, __ATOMIC_SEQ_CST);
		}
		bool late = timeout_s > 0 && seconds_since(started) > timeout_s;
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

static pid_t start_program(const std::vector<std::string> &command,
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
	/* A libpmem whose own calls bypass the symbol table asks itself whether a file that it maps
	 * is persistent memory.  This makes it answer yes. */
	environment.push_back("PMEM_IS_PMEM_FORCE=1");
	return wait_for(start_program(command, environment, output), &memory, timeout_s);
}

End run_shell(const std::string &command, double timeout_s, const Output *output)
{
	return wait_for(start_program({"/bin/sh", "-c", command}, environment_without({}), output),
	        nullptr, timeout_s);
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
