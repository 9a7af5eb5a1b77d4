/* SPDX-License-Identifier: BSD-3-Clause
 *
 * peers.hpp - --peers: a long read beside one and two writers, in libfur and in the databases that
 * the program was built with.  The read is one transaction, or one snapshot, as long as the phase;
 * it reads all entries again and again.
 */
#ifndef BENCH_SNAPSHOT_PEERS_HPP
#define BENCH_SNAPSHOT_PEERS_HPP

#include "../../tools/common/json.hpp"
#include "../common/output.hpp"
#include "../common/processor.hpp"
#include "../common/round_trip.hpp"
#include "fur_map.hpp"

#include <filesystem>
#include <optional>
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

/* Of each round. */
inline tools::Json json_of(const Rounds &rounds)
{
	tools::Json all = tools::Json::array();
	for (const Round &round : rounds) {
		tools::Json figures = tools::Json::object();
		for (const auto &[name, value] : round)
			figures[name] = value;
		all.push_back(figures);
	}
	return all;
}

class Peers
{
public:
	explicit Peers(const Settings &s)
	    : s_(s), keys_(s.keys, s.zipf), directory_(make_directory(s.path + ".peers"))
	{
		systems_.push_back({"libfur",
		        [&s](const commits::Shape &shape) -> std::unique_ptr<Store> {
			        Settings here = s;
			        here.path = shape.directory + "/heap";
			        auto store = make_fur_store(here);
			        store->fill();
			        return store;
		        },
		        {}, {}});
		for (const commits::System &system : databases())
			systems_.push_back({system.name, system.make, {}, {}});
	}
	/* The systems take turns, and another one begins in each round. */
	void run()
	{
		for (unsigned n = 0; n < s_.rounds; n++) {
			trips_.take();
			for (size_t k = 0; k < systems_.size(); k++)
				round(systems_[(k + n) % systems_.size()]);
		}
	}
	tools::Json json() const
	{
		tools::Json all = tools::Json::object();
		for (const System &system : systems_) {
			tools::Json one = {
			        {"settings", system.settings}, {"rounds", json_of(system.rounds)}};
			for (const auto &figure : system.rounds[0])
				one[figure.first] = median_of(system.rounds, figure.first);
			all[system.name] = one;
		}
		return {{"workload", "snapshot"}, {"processor", bench::processor()},
		        {"keys", s_.keys}, {"value_bytes", s_.value_bytes}, {"seconds", s_.seconds},
		        {"zipf", s_.zipf}, {"sync", s_.sync}, {"round_trip_ns", trips_.json()},
		        {"peers", all}};
	}
	void print() const
	{
		printf("%lu keys, values of %lu bytes, %u round%s, reads of %g s, zipf %g, "
		       "%s: median (least to most)\n%s\n",
		        static_cast<unsigned long>(s_.keys),
		        static_cast<unsigned long>(s_.value_bytes), s_.rounds,
		        s_.rounds == 1 ? "" : "s", s_.seconds, s_.zipf,
		        s_.sync ? "each update synced" : "no update synced", trips_.text().c_str());
		for (const System &x : systems_)
			printf("%-8s %s\n", x.name.c_str(), x.settings.c_str());
		for (const char *writers : {"1", "2"})
			print(writers);
	}

private:
	struct System {
		std::string name;
		std::function<std::unique_ptr<Store>(const commits::Shape &)> make;
		std::string settings;
		Rounds rounds;
	};
	/* A new database of a system, in a directory of its own: a file that has grown would serve
	 * later phases too. */
	struct Database {
		Database(const Settings &s, const System &system, const std::string &parent)
		    : directory(make_directory(parent + "/" + system.name))
		{
			commits::Shape shape;
			shape.keys = s.keys;
			shape.bytes = s.value_bytes;
			shape.sync = s.sync;
			shape.directory = directory.path();
			shape.most_bytes = std::min(s.most_mib << 20,
			                           std::filesystem::space(parent).available / 2) /
			                   4096 * 4096;
			store = system.make(shape);
		}
		bench::Directory directory;
		std::unique_ptr<Store> store;
	};
	/* What a database takes: its files, and memory of this process that no file has. */
	struct Space {
		explicit Space(const Database &d)
		    : files(bytes_of(d.directory.path())),
		      memory(static_cast<double>(anonymous_bytes()))
		{
		}
		double files, memory;
	};

	/* All reads of a phase are one long read, and so find the same. */
	static Store::Read long_read(Store &store)
	{
		return [read = store.reader(), sum = std::optional<uint64_t>()]() mutable {
			const Seen seen = read();
			if (sum && *sum != seen.sum)
				throw std::runtime_error("a long read has not shown one instant");
			sum = seen.sum;
			return seen;
		};
	}
	void round(System &system)
	{
		Round r;
		for (unsigned n : {1u, 2u})
			beside_writers(system, n, r);
		system.rounds.push_back(r);
	}
	void beside_writers(System &system, unsigned n, Round &r)
	{
		const std::string writers = n == 1 ? "_1" : "_2";
		const Database database(s_, system, directory_.path());
		Store &store = *database.store;
		const auto make = [&] { return long_read(store); };
		if (n == 1) {
			system.settings = store.settings();
			r["bytes_at_first"] = bytes_of(database.directory.path());
			r["entries_per_second"] = read_beside(store, keys_, s_, 0, make).entries;
		}
		/* A phase, of which the growth is called so. */
		const auto phase = [&](const std::string &name, auto body) {
			const Space before(database);
			body([&] {
				const Space now(database);
				r["growth_" + name + "_bytes" + writers] = now.files - before.files;
				r["memory_" + name + "_bytes" + writers] =
				        now.memory - before.memory;
			});
		};
		double alone = 0;
		phase("alone", [&](const AtEnd &at_end) {
			alone = updates_alone(store, keys_, s_, n, at_end);
		});
		Reading both;
		phase("beside", [&](const AtEnd &at_end) {
			both = read_beside(store, keys_, s_, n, make, at_end);
		});
		r["updates_per_second" + writers] = alone;
		r["updates_beside_read" + writers] = both.updates / alone;
		r["read_beside_updates" + writers] = both.entries / r["entries_per_second"];
		r["full_beside_read" + writers] = both.refused;
	}
	void print(const std::string &n) const
	{
		printf("\na long read beside %s writer%s\n%-8s %-26s %-22s %-26s %-22s\n",
		        n.c_str(), n == "1" ? "" : "s", "", "thousand updates/s alone",
		        "updates keep", "million entries/s alone", "the read keeps");
		for (const System &x : systems_)
			printf("%-8s %-26s %-22s %-26s %-22s\n", x.name.c_str(),
			        text_of(x.rounds, "updates_per_second_" + n, 1, 1e3).c_str(),
			        text_of(x.rounds, "updates_beside_read_" + n, 3).c_str(),
			        text_of(x.rounds, "entries_per_second", 2, 1e6).c_str(),
			        text_of(x.rounds, "read_beside_updates_" + n, 3).c_str());
		printf("%-8s %-26s %-22s %-26s %-22s\n", "", "MiB of files at first",
		        "files grow alone", "files grow beside the read",
		        "memory grows beside the read");
		for (const System &x : systems_) {
			const auto mib = [&](const std::string &name) {
				return text_of(x.rounds, name, 1, 1 << 20);
			};
			printf("%-8s %-26s %-22s %-26s %-22s\n", x.name.c_str(),
			        mib("bytes_at_first").c_str(),
			        mib("growth_alone_bytes_" + n).c_str(),
			        mib("growth_beside_bytes_" + n).c_str(),
			        mib("memory_beside_bytes_" + n).c_str());
		}
		for (const System &x : systems_)
			if (quantile(all_of(x.rounds, "full_beside_read_" + n), 1) > 0)
				printf("%s: the file reached --most-mib: updates failed until the "
				       "read ended\n",
				        x.name.c_str());
	}

	const Settings &s_;
	Keys keys_;
	bench::Directory directory_;
	std::vector<System> systems_;
	bench::RoundTrips trips_;
};

} // namespace snapshot

#endif /* BENCH_SNAPSHOT_PEERS_HPP */
