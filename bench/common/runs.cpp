/* SPDX-License-Identifier: BSD-3-Clause
 *
 * runs.cpp - see runs.hpp.
 */
#include "runs.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

namespace bench
{

namespace
{

uint64_t child_of_line; /* 0: this is no child */

/* ---------------------------------------------------------- the heap's file */

struct Mapping {
	uintptr_t start = 0, end = 0;
	uint64_t offset = 0, inode = 0;
	dev_t device = 0;
	std::string rights;
};

std::vector<Mapping> shared_files()
{
	std::vector<Mapping> found;
	std::ifstream maps("/proc/self/maps");
	for (std::string line; std::getline(maps, line);) {
		Mapping m;
		char rights[8];
		unsigned major, minor;
		if (sscanf(line.c_str(), "%lx-%lx %7s %lx %x:%x %lu", &m.start, &m.end, rights,
		            &m.offset, &major, &minor, &m.inode) != 7)
			throw std::runtime_error("/proc/self/maps: not understood: " + line);
		m.rights = rights, m.device = makedev(major, minor);
		if (m.rights[3] == 's' && m.inode)
			found.push_back(m);
	}
	return found;
}

/* The heap's file has no name any more. */
int descriptor_of(const Mapping &m)
{
	for (const auto &entry : std::filesystem::directory_iterator("/proc/self/fd")) {
		int fd = std::stoi(entry.path().filename().string());
		struct stat st;
		if (fstat(fd, &st) == 0 && st.st_ino == m.inode && st.st_dev == m.device)
			return fd;
	}
	throw std::runtime_error("no descriptor of a file that is mapped shared");
}

/* The system's file is mapped shared, and no store of a child may reach it: the parent and all
 * later children go on from what it holds.  So put a private mapping in the place of each shared
 * one.  No system writes its file in another way than through a mapping. */
void map_privately()
{
	for (const Mapping &m : shared_files()) {
		int rights = (m.rights[0] == 'r' ? PROT_READ : 0) |
		             (m.rights[1] == 'w' ? PROT_WRITE : 0);
		if (mmap(reinterpret_cast<void *>(m.start), m.end - m.start, rights,
		            MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, descriptor_of(m),
		            static_cast<off_t>(m.offset)) == MAP_FAILED)
			throw std::runtime_error(
			        std::string("cannot map the heap privately: ") + strerror(errno));
	}
}

/* ------------------------------------------------------------------ a line */

json failure(uint64_t line, const std::string &why, int status)
{
	json j;
	j["line"] = line;
	j["error"] = why;
	j["status"] = status;
	return j;
}

void print_line(const json &j)
{
	std::cout << j.dump() << std::endl;
}

const char *const of_every_workload[] = {"--threads", "--seconds"};

/* The error of an option that a line cannot have names those that it can. */
void check_names(const std::vector<std::string> &words, const tools::CommandLine &line)
{
	std::string all;
	for (const auto &option : line.options)
		all += (all.empty() ? "" : ", ") + option.name;
	for (const std::string &word : words) {
		std::string name = word.substr(0, word.find('='));
		if (name.starts_with("--") &&
		        !std::ranges::count(line.options, name, &tools::CommandLine::Option::name))
			throw Usage(name + ": a line of --runs has only " + all +
			            ": give the rest on the command line, for it is fixed when "
			            "the data is loaded");
	}
}

void take_options(const std::string &text, Options &o, const RunOptions &workload)
{
	tools::CommandLine line("--runs", "");
	line.option(of_every_workload[0], o.threads);
	line.option(of_every_workload[1], o.seconds);
	workload.add(line);
	std::vector<std::string> words{"--runs"};
	std::istringstream in(text);
	for (std::string word; in >> word;)
		words.push_back(word);
	check_names({words.begin() + 1, words.end()}, line);
	std::vector<char *> argv;
	for (std::string &word : words)
		argv.push_back(word.data());
	try {
		if (!line.parse(static_cast<int>(argv.size()), argv.data()))
			throw Usage("--help: not in a line of --runs");
	} catch (const tools::WrongUsage &e) {
		throw Usage(e.what());
	}
	o.check_run();
	workload.check();
}

void begin_child(const std::string &text, Options &o, const RunOptions &workload,
        const std::function<void()> &adopt)
{
	/* A program that is stopped leaves no run behind. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	try {
		map_privately();
		adopt();
		take_options(text, o, workload);
	} catch (const Usage &e) {
		fail_child(e.what(), 2);
	} catch (const std::exception &e) {
		fail_child(e.what(), 1);
	}
}

/* Wait for the child; returns its exit status.  One that a signal has ended has printed nothing. */
int end_of(pid_t child, uint64_t line)
{
	int how = 0;
	while (waitpid(child, &how, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(how))
		return WEXITSTATUS(how);
	print_line(failure(line, std::string("ended by a signal: ") + strsignal(WTERMSIG(how)),
	        128 + WTERMSIG(how)));
	return 1;
}

/* As each_run(), with --runs. */
std::optional<int> each_line(std::istream &in, Options &o, const RunOptions &workload,
        const std::function<void()> &adopt)
{
	int status = 0;
	uint64_t number = 0;
	for (std::string text; std::getline(in, text);) {
		number++;
		std::cout.flush();
		/* fork() would call libfur's handlers, which take the heap from the child: it
		 * shares the parent's log.  Here nothing is shared after map_privately(). */
		pid_t child = _Fork();
		if (child < 0)
			throw std::runtime_error(std::string("cannot fork: ") + strerror(errno));
		if (child == 0) {
			child_of_line = number;
			begin_child(text, o, workload, adopt);
			return std::nullopt;
		}
		status = std::max(status, end_of(child, number));
	}
	return status;
}

} // namespace

std::optional<int> each_run(
        Options &o, const RunOptions &workload, const std::function<void()> &adopt)
{
	std::optional<int> status;
	/* All lines in one aside(): the parent's steps between two lines take no virtual time and
	 * leave no trace in the machine's caches, so each child starts from the same state. */
	aside([&] {
		if (o.runs.empty())
			return;
		if (o.runs == "-") {
			status = each_line(std::cin, o, workload, adopt);
			return;
		}
		std::ifstream file(o.runs);
		if (!file)
			throw Usage("--runs " + o.runs + ": cannot read it: check the path");
		status = each_line(file, o, workload, adopt);
	});
	return status;
}

bool in_child()
{
	return child_of_line != 0;
}

void end_child(const json &result)
{
	if (!result["verified"].get<bool>())
		fail_child("not verified", 1);
	aside([&] { print_line(result); });
	_exit(0);
}

void fail_child(const std::string &why, int status)
{
	aside([&] { print_line(failure(child_of_line, why, status)); });
	_exit(status);
}

} // namespace bench
