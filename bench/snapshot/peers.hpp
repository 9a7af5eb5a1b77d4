/* SPDX-License-Identifier: BSD-3-Clause
 *
 * peers.hpp - --peers: a long read beside one and two writers, in libfur and in the databases that
 * the program was built with.
 */
#ifndef BENCH_SNAPSHOT_PEERS_HPP
#define BENCH_SNAPSHOT_PEERS_HPP

#include "../../tools/common/json.hpp"
#include "../common/output.hpp"
#include "../common/round_trip.hpp"
#include "fur_map.hpp"

#include <filesystem>
#include <sys/stat.h>

namespace snapshot
{

/* The databases whose long read a reader of the result wants next to libfur's. */
inline std::vector<commits::System> databases()
{
	std::vector<commits::System> some;
	for (const commits::System &system : commits::systems())
		if (system.name == "sqlite" || system.name == "lmdb" || system.name == "rocksdb")
			some.push_back(system);
	return some;
}

/* Bytes that a file takes, or all files of a directory and below.  A database removes files
 * meanwhile. */
inline double bytes_of(const std::string &path)
{
	std::vector<std::string> files{path};
	std::error_code gone;
	for (auto at = std::filesystem::recursive_directory_iterator(path, gone);
	        at != std::filesystem::recursive_directory_iterator(); at.increment(gone))
		files.push_back(at->path());
	double blocks = 0;
	for (const std::string &file : files)
		if (struct stat s; stat(file.c_str(), &s) == 0 && S_ISREG(s.st_mode))
			blocks += static_cast<double>(s.st_blocks);
	return blocks * 512;
}

/* Make a directory for the databases.  Returns: its path. */
inline std::string make_directory(const std::string &path)
{
	if (!std::filesystem::create_directory(path))
		throw std::runtime_error(path + ": the directory exists: remove it");
	return path;
}

class Peers
{
public:
	Peers(const Settings &s, const Keys &keys, FurStore &fur)
	    : s_(s), keys_(keys), fur_(fur), directory_(make_directory(s.path + ".peers"))
	{
		systems_.push_back({"libfur", s.path, &fur, nullptr, {}});
		commits::Shape shape;
		shape.keys = s.keys;
		shape.bytes = s.value_bytes;
		shape.most_bytes = uint64_t(256) << 30;
		for (const commits::System &system : databases()) {
			shape.directory = directory_.path() + "/" + system.name;
			std::filesystem::create_directory(shape.directory);
			auto store = system.make(shape);
			Store *at = store.get();
			systems_.push_back(
			        {system.name, shape.directory, at, std::move(store), {}});
		}
		for (System &system : systems_)
			system.bytes_at_first = bytes_of(system.path);
	}
	/* The systems take turns, and another one begins in each round. */
	void round(unsigned number)
	{
		for (size_t k = 0; k < systems_.size(); k++) {
			System &system = systems_[(k + number) % systems_.size()];
			system.rounds.push_back(one(system));
		}
	}
	tools::Json json() const
	{
		tools::Json all = tools::Json::object();
		for (const System &system : systems_) {
			tools::Json one = {{"settings", system.store->settings()},
			        {"bytes_at_first", system.bytes_at_first},
			        {"bytes_at_last", bytes_of(system.path)}};
			for (const auto &figure : system.rounds[0])
				one[figure.first] = median_of(system.rounds, figure.first);
			tools::Json rounds = tools::Json::array();
			for (const Round &round : system.rounds) {
				tools::Json figures = tools::Json::object();
				for (const auto &[name, value] : round)
					figures[name] = value;
				rounds.push_back(figures);
			}
			one["rounds"] = rounds;
			all[system.name] = one;
		}
		return all;
	}
	void print() const
	{
		for (const char *writers : {"1", "2"}) {
			const std::string n = writers;
			printf("\na long read beside %s writer%s: median (least to most)\n",
			        writers, n == "1" ? "" : "s");
			printf("%-8s %-26s %-20s %-26s %-20s\n", "", "thousand updates/s alone",
			        "ratio beside", "million entries/s alone", "ratio beside");
			for (const System &x : systems_)
				printf("%-8s %-26s %-20s %-26s %-20s\n", x.name.c_str(),
				        text_of(x.rounds, "updates_per_second_" + n, 1, 1e3)
				                .c_str(),
				        text_of(x.rounds, "updates_beside_read_" + n, 3).c_str(),
				        text_of(x.rounds, "entries_per_second", 2, 1e6).c_str(),
				        text_of(x.rounds, "read_beside_updates_" + n, 3).c_str());
		}
		print_files();
	}

private:
	struct System {
		std::string name, path;
		Store *store;
		std::unique_ptr<Store> owned;
		Rounds rounds;
		double bytes_at_first = 0;
	};

	Reading read(const System &system, unsigned writers)
	{
		return read_beside(
		        *system.store, keys_, s_, writers, [&] { return system.store->reader(); });
	}
	/* By how much the system's files are longer after f() than before. */
	template <class F>
	double growth(const System &system, F &&f)
	{
		const double before = bytes_of(system.path);
		f();
		return bytes_of(system.path) - before;
	}
	Round one(const System &system)
	{
		Round r;
		r["entries_per_second"] = read(system, 0).entries;
		for (unsigned n : {1u, 2u}) {
			const std::string writers = n == 1 ? "_1" : "_2";
			double alone = 0;
			r["growth_alone_bytes" + writers] = growth(system,
			        [&] { alone = updates_alone(*system.store, keys_, s_, n); });
			const uint64_t saved = fur_.heap().stats().saved_lines;
			Reading both;
			r["growth_beside_bytes" + writers] =
			        growth(system, [&] { both = read(system, n); });
			r["updates_per_second" + writers] = alone;
			r["updates_beside_read" + writers] = both.updates / alone;
			r["read_beside_updates" + writers] = both.entries / r["entries_per_second"];
			if (system.store == &fur_)
				r["saved_lines_per_read" + writers] =
				        static_cast<double>(
				                fur_.heap().stats().saved_lines - saved) /
				        static_cast<double>(both.reads);
		}
		return r;
	}
	/* Growth in all rounds: a file that has grown serves later rounds too. */
	void print_files() const
	{
		printf("\nMiB of files\n%-8s %10s %28s %28s %10s\n", "", "at first",
		        "growth by 1, 2 writers alone", "growth beside the read", "at last");
		for (const System &x : systems_) {
			auto sum = [&](const char *name) {
				double all = 0;
				for (const Round &r : x.rounds)
					all += r.at(name);
				return all / (1 << 20);
			};
			printf("%-8s %10.0f %14.0f %13.0f %14.0f %13.0f %10.0f\n", x.name.c_str(),
			        x.bytes_at_first / (1 << 20), sum("growth_alone_bytes_1"),
			        sum("growth_alone_bytes_2"), sum("growth_beside_bytes_1"),
			        sum("growth_beside_bytes_2"), bytes_of(x.path) / (1 << 20));
		}
		printf("libfur saves %.0f lines (1 writer) and %.0f lines (2 writers) for a read, "
		       "of 72 bytes of memory each, until it ends\n",
		        median_of(systems_[0].rounds, "saved_lines_per_read_1"),
		        median_of(systems_[0].rounds, "saved_lines_per_read_2"));
	}

	const Settings &s_;
	const Keys &keys_;
	FurStore &fur_;
	bench::Directory directory_;
	std::vector<System> systems_;
};

} // namespace snapshot

#endif /* BENCH_SNAPSHOT_PEERS_HPP */
