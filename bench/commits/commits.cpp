/* SPDX-License-Identifier: BSD-3-Clause
 *
 * commits.cpp - small durable commits on a disk: libfur with FUR_PM_SYNC next to other databases,
 * in the same directory, one after the other in each round.  Next to them what libfur does when no
 * thread waits for a commit, and in memory.
 */
#include "../../tools/common/command_line.hpp"
#include "../../tools/common/json.hpp"
#include "../../tools/common/random.hpp"
#include "../common/output.hpp"
#include "../common/processor.hpp"
#include "../common/round_trip.hpp"
#include "store.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <map>
#include <optional>
#include <signal.h>
#include <sstream>
#include <sys/prctl.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace commits
{

namespace
{

struct Settings {
	Shape shape;
	std::string threads = "1,2,4,8,16,32,64", only, json;
	double seconds = 1;
	unsigned rounds = 9, busy = 0;
};

std::vector<std::string> words_of(const std::string &list)
{
	std::vector<std::string> words;
	std::istringstream in(list);
	for (std::string word; std::getline(in, word, ',');)
		words.push_back(word);
	return words;
}

std::vector<unsigned> numbers_of(const std::string &list)
{
	std::vector<unsigned> numbers;
	for (const std::string &word : words_of(list)) {
		if (word.empty() || word.size() > 4 ||
		        word.find_first_not_of("0123456789") != std::string::npos ||
		        std::stoul(word) < 1 || std::stoul(word) > 1000)
			throw tools::WrongUsage(
			        "--threads " + list + ": use numbers from 1 to 1000, as 1,2,8");
		numbers.push_back(static_cast<unsigned>(std::stoul(word)));
	}
	if (numbers.empty())
		throw tools::WrongUsage("--threads: name at least one number");
	return numbers;
}

/* ------------------------------------------------------------------ the place */

/* The mount that the directory is on, from proc(5). */
tools::Json mount_of(const std::string &directory)
{
	const std::string real = std::filesystem::canonical(directory).string();
	std::ifstream mounts("/proc/self/mounts");
	tools::Json found = tools::Json::object();
	size_t longest = 0;
	for (std::string device, at, type, options, rest;
	        mounts >> device >> at >> type >> options && std::getline(mounts, rest);)
		if (real.compare(0, at.size(), at) == 0 && at.size() >= longest) {
			longest = at.size();
			found = {{"device", device}, {"point", at}, {"type", type},
			        {"options", options}};
		}
	return found;
}

/* What a reader of the result has to know of the machine. */
tools::Json machine()
{
	struct utsname system;
	if (uname(&system))
		return tools::Json::object();
	return {{"processor", bench::processor()}, {"cores", std::thread::hardware_concurrency()},
	        {"system", std::string(system.sysname) + " " + system.release}};
}

/* Make a directory of the run's own in `parent`, which `option` names.  Returns: its path. */
std::string make_directory(const std::string &option, const std::string &parent)
{
	const std::string given = option + " " + parent + ": ";
	if (!std::filesystem::is_directory(parent))
		throw tools::WrongUsage(given + "name a directory");
	std::string path = parent + "/commits-XXXXXX";
	if (!mkdtemp(path.data()))
		throw tools::WrongUsage(
		        given + strerror(errno) + ": name a directory that you can write to");
	return path;
}

void refuse_memory(const std::string &directory)
{
	struct statfs fs;
	if (statfs(directory.c_str(), &fs) == 0 && fs.f_type == 0x01021994) /* TMPFS_MAGIC */
		throw tools::WrongUsage("--dir " + directory +
		                        ": a tmpfs, where fdatasync does nothing: name a "
		                        "directory on a disk");
}

/* Processes that keep cores busy, as on a machine with other work. */
class BusyProcesses
{
public:
	explicit BusyProcesses(unsigned n)
	{
		for (unsigned k = 0; k < n; k++) {
			pid_t child = fork();
			if (child == 0) {
				prctl(PR_SET_PDEATHSIG, SIGKILL);
				for (std::atomic<unsigned> i{0};;)
					i.store(i.load() + 1, std::memory_order_relaxed);
			}
			children_.push_back(child);
		}
	}
	~BusyProcesses()
	{
		for (pid_t child : children_) {
			kill(child, SIGKILL);
			waitpid(child, nullptr, 0);
		}
	}
	BusyProcesses(const BusyProcesses &) = delete;

private:
	std::vector<pid_t> children_;
};

/* ------------------------------------------------------------------- a window */

/* Commits a second by `threads` threads.  The time ends when all that was counted is durable. */
double measure(Store &store, const Shape &shape, unsigned threads, double seconds)
{
	enum State { WARM, COUNT, STOP };
	std::atomic<int> state{WARM};
	std::atomic<uint64_t> commits{0};
	std::atomic<bool> failed{false};
	std::vector<std::thread> all;
	for (unsigned t = 0; t < threads; t++)
		all.emplace_back([&, t] {
			bench::pin(t);
			tools::Random random{t + 1};
			uint64_t mine = 0;
			std::string value(shape.bytes, static_cast<char>('a' + t % 26));
			try {
				Store::Put put = store.connect();
				while (state != STOP) {
					bool counts = state == COUNT;
					put(random.below(shape.keys), value.data());
					mine += counts && state == COUNT;
				}
			} catch (const std::exception &e) {
				if (!failed.exchange(true))
					std::cerr << "commits: " << e.what() << "\n";
			}
			commits += mine;
		});
	auto sleep = [](double s) {
		std::this_thread::sleep_for(std::chrono::duration<double>(s));
	};
	sleep(seconds / 4);
	auto began = std::chrono::steady_clock::now();
	state = COUNT;
	sleep(seconds);
	state = STOP;
	store.sync();
	double took =
	        std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
	for (std::thread &t : all)
		t.join();
	if (failed)
		throw std::runtime_error("a thread failed");
	return static_cast<double>(commits) / took;
}

/* ------------------------------------------------------------------- results */

double median(std::vector<double> values)
{
	std::sort(values.begin(), values.end());
	size_t n = values.size();
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* Of each round, by system and number of threads: commits a second, or their ratios. */
using Rates = std::map<std::pair<std::string, unsigned>, std::vector<double>>;

tools::Json summary(const std::vector<double> &values)
{
	return {{"median", median(values)},
	        {"least", *std::min_element(values.begin(), values.end())},
	        {"most", *std::max_element(values.begin(), values.end())}, {"rounds", values}};
}

tools::Json results_of(const Rates &rates, const tools::Json &mounts)
{
	tools::Json all = tools::Json::array();
	for (const auto &[what, values] : rates) {
		tools::Json one = {{"system", what.first}, {"threads", what.second},
		        {"mount", mounts[what.first]}};
		one.update(summary(values));
		all.push_back(one);
	}
	return all;
}

/* How near fur-async comes to memory, if both have run: each round's ratio. */
Rates ratios_of(const Rates &rates)
{
	Rates ratios;
	for (const auto &[what, values] : rates) {
		auto base = rates.find({"fur-emulated", what.second});
		if (what.first != "fur-async" || base == rates.end())
			continue;
		for (size_t k = 0; k < values.size(); k++)
			ratios[{"async/emu.", what.second}].push_back(values[k] / base->second[k]);
	}
	return ratios;
}

void print_row(const std::string &name, const Rates &rates, const std::vector<unsigned> &threads,
        double unit, int digits)
{
	std::cout << std::setw(14) << name;
	for (unsigned n : threads) {
		const std::vector<double> &v = rates.at({name, n});
		std::ostringstream cell;
		cell << std::fixed << std::setprecision(digits) << median(v) / unit << " ("
		     << *std::min_element(v.begin(), v.end()) / unit << " to "
		     << *std::max_element(v.begin(), v.end()) / unit << ")";
		std::cout << std::setw(24) << cell.str();
	}
	std::cout << "\n";
}

void print_table(const Rates &rates, const std::vector<System> &systems,
        const std::vector<unsigned> &threads)
{
	std::cout << "thousand commits a second: median (least to most)\n" << std::left;
	std::cout << std::setw(14) << "threads";
	for (unsigned n : threads)
		std::cout << std::setw(24) << n;
	std::cout << "\n";
	for (const System &s : systems)
		print_row(s.name, rates, threads, 1e3, 1);
	const Rates ratios = ratios_of(rates);
	if (!ratios.empty()) {
		std::cout << "fur-async / fur-emulated of the same round\n";
		print_row(ratios.begin()->first.first, ratios, threads, 1, 2);
	}
}

std::vector<System> chosen(const std::string &only)
{
	std::vector<System> all = systems(), some;
	std::string names;
	for (const System &s : all)
		names += (names.empty() ? "" : ", ") + s.name;
	for (const std::string &name : words_of(only)) {
		auto at = std::find_if(
		        all.begin(), all.end(), [&](const System &s) { return s.name == name; });
		if (at == all.end())
			throw tools::WrongUsage(
			        "--systems " + name + ": this program has " + names);
		some.push_back(*at);
	}
	return only.empty() ? all : some;
}

Rates measure_all(const Settings &s, const std::vector<System> &systems,
        const std::vector<unsigned> &threads, tools::Json &out)
{
	std::map<std::string, std::unique_ptr<Store>> stores;
	for (const System &system : systems) {
		stores[system.name] = system.make(s.shape);
		out["settings"][system.name] = stores[system.name]->settings();
	}
	Rates rates;
	bench::RoundTrips trips;
	BusyProcesses busy(s.busy);
	for (unsigned round = 0; round < s.rounds; round++)
		for (unsigned n : threads) {
			trips.take();
			for (const System &system : systems)
				rates[{system.name, n}].push_back(
				        measure(*stores[system.name], s.shape, n, s.seconds));
		}
	out["round_trip_ns"] = trips.json();
	if (s.json != "-")
		std::cout << trips.text() << "\n";
	return rates;
}

void run(Settings &s)
{
	const std::vector<unsigned> threads = numbers_of(s.threads);
	const std::vector<System> some = chosen(s.only);
	refuse_memory(s.shape.directory);
	const bench::Directory disk(make_directory("--dir", s.shape.directory));
	std::optional<bench::Directory> memory;
	if (std::any_of(some.begin(), some.end(), [](const System &x) { return x.in_memory; }))
		memory.emplace(make_directory("--memory", s.shape.memory));
	tools::Json out = {{"machine", machine()}, {"busy_processes", s.busy},
	                    {"keys", s.shape.keys}, {"value_bytes", s.shape.bytes},
	                    {"seconds", s.seconds}},
	            mounts;
	for (const System &system : some)
		mounts[system.name] =
		        mount_of(system.in_memory ? s.shape.memory : s.shape.directory);
	s.shape.directory = disk.path();
	s.shape.memory = memory ? memory->path() : "";
	s.shape.threads = *std::max_element(threads.begin(), threads.end());
	const Rates rates = measure_all(s, some, threads, out);
	out["results"] = results_of(rates, mounts);
	if (!s.json.empty())
		bench::write_json(s.json, out);
	if (s.json != "-")
		std::cout << mounts[some[0].name].dump() << "\n", print_table(rates, some, threads);
}

} // namespace
} // namespace commits

int main(int argc, char **argv)
{
	commits::Settings s;
	s.shape.directory = ".";
	s.shape.memory = "/dev/shm";
	tools::CommandLine line("commits",
	        "Small durable commits on a disk, by libfur and by other databases: each sets one "
	        "value, and returns when a failure of the power cannot lose it.  In each round the "
	        "systems take turns.  For comparison: fur-async waits once, at the end of each "
	        "measurement; fur-emulated commits in memory.");
	line.option("--dir", s.shape.directory, "directory on the disk; the run removes its files");
	line.option("--memory", s.shape.memory, "directory in memory, for fur-emulated");
	line.option("--systems", s.only, "names, separated by commas; default: all");
	line.option("--threads", s.threads, "numbers of threads, separated by commas");
	line.option(
	        "--seconds", s.seconds, "length of each measurement, after a quarter to warm up");
	line.option("--rounds", s.rounds, "measurements of each").range(1, 1000);
	line.option("--busy", s.busy, "processes that keep cores busy meanwhile").range(0, 1000);
	line.option("--keys", s.shape.keys, "number of values").range(1, 1000000);
	line.option("--bytes", s.shape.bytes, "bytes of a value").range(1, 4000);
	line.option("--async-ms", s.shape.async_ms,
	            "fur-async: libfur makes commits durable this often, in milliseconds")
	        .range(1, 60000);
	line.option("--ring-slots", s.shape.ring_slots,
	            "libfur: slots of the marker ring, a power of two; default: the library's")
	        .range(64, 1 << 24);
	line.option("--json", s.json,
	        "write the result to this file; -: to standard output in place of the table");
	if (auto status = tools::parse_or_exit_status(line, "commits", argc, argv))
		return *status;
	try {
		commits::run(s);
	} catch (const tools::WrongUsage &e) {
		std::cerr << "commits: " << e.what() << "\n";
		return tools::EXIT_WRONG_USAGE;
	} catch (const std::exception &e) {
		std::cerr << "commits: " << e.what() << "\n";
		return 1;
	}
	return 0;
}
