/* SPDX-License-Identifier: BSD-3-Clause
 *
 * measures.hpp - the figures of a round: what snapshots and scans cost the updates beside them, and
 * what updates cost the scans.
 */
#ifndef BENCH_SNAPSHOT_MEASURES_HPP
#define BENCH_SNAPSHOT_MEASURES_HPP

#include "../../tools/common/command_line.hpp"
#include "../common/histogram.hpp"
#include "fur_map.hpp"

#include <cstring>
#include <memory>
#include <optional>

namespace snapshot
{

/* Those of the programs' options that they share; `value_bytes` is for Settings::value_bytes. */
inline void add_common_options(tools::CommandLine &line, Settings &s, std::string &value_bytes)
{
	value_bytes = std::to_string(s.value_bytes);
	line.option("--value-bytes", value_bytes, "bytes of a value").one_of({"8", "64"});
	line.option("--zipf", s.zipf, "draw keys by Zipf's law with this theta; default: all alike")
	        .range(0, 0.999);
	line.option("--json", s.json,
	        "write the result to this file; -: to standard output in place of the table");
}

/* A way to read all entries, and the names of its ratios. */
struct Reader {
	Way way;
	const char *what, *name;
};
constexpr Reader READERS[] = {
        {Way::SNAPSHOT, "a snapshot for each scan", "scan"},
        {Way::PLAIN, "fur::read, fur_ro *", "plain_read"},
        {Way::OPTIMISTIC, "fur::read, fur_reader *", "optimistic_read"},
        {Way::COPY, "fur_scan", "fur_scan"},
};

class Measures
{
public:
	Measures(const Settings &s, std::unique_ptr<FurStore> store)
	    : s_(s), keys_(s.keys, s.zipf), store_(std::move(store))
	{
	}
	FurStore &store()
	{
		return *store_;
	}
	double updates()
	{
		return updates_alone(*store_, keys_, s_, s_.writers);
	}
	/* Each adds its figures to `r`; those of updates are rates, until over_updates_alone(). */
	void sleeping(Round &r);
	void reading(Round &r, const Reader &reader);
	void begin_and_end(Round &r, bool with_updates);

private:
	const Settings &s_;
	Keys keys_;
	std::unique_ptr<FurStore> store_;
};

/* Updates beside a snapshot that sleeps; the second half has few lines left to save. */
inline void Measures::sleeping(Round &r)
{
	beside(*store_, keys_, s_, s_.writers, 1, [&](const Writers &writers, unsigned) {
		fur::Thread self(store_->heap());
		const Rate whole(writers);
		std::optional<fur::Snapshot> snapshot(std::in_place, self);
		sleep_for(s_.seconds / 2);
		const Rate second(writers);
		sleep_for(s_.seconds / 2);
		r["updates_beside_sleeping_snapshot"] = whole.updates_per_second();
		r["updates_beside_sleeping_snapshot_second_half"] = second.updates_per_second();
		const double from = now();
		snapshot.reset();
		r["end_after_sleep_us"] = (now() - from) * 1e6;
	});
}

inline void Measures::reading(Round &r, const Reader &reader)
{
	const std::string name = reader.name;
	auto make = [&] { return store_->reader_by(reader.way); };
	const Reading alone = read_beside(*store_, keys_, s_, 0, make),
	              both = read_beside(*store_, keys_, s_, s_.writers, make);
	r[name + "_entries_per_second"] = alone.entries;
	r[name + "_beside_updates"] = both.entries / alone.entries;
	r["updates_beside_" + name] = both.updates;
}

inline void Measures::begin_and_end(Round &r, bool with_updates)
{
	bench::Histogram begins, ends; /* in nanoseconds */
	const unsigned writers = with_updates ? s_.writers : 0;
	const std::string with = with_updates ? "_beside_updates" : "";
	beside(*store_, keys_, s_, writers, 1, [&](const Writers &running, unsigned) {
		fur::Thread self(store_->heap());
		const Rate rate(running);
		while (rate.seconds() < s_.seconds) {
			const uint64_t from = now_ns();
			std::optional<fur::Snapshot> snapshot(std::in_place, self);
			const uint64_t begun = now_ns();
			snapshot.reset();
			ends.add(now_ns() - begun);
			begins.add(begun - from);
		}
		if (with_updates)
			r["updates_beside_begin_and_end"] = rate.updates_per_second();
	});
	for (const auto &[name, times] : {std::pair{"begin", &begins}, std::pair{"end", &ends}}) {
		r[name + with + "_us"] = static_cast<double>(times->quantile(0.5)) / 1e3;
		r[name + with + "_p99_us"] = static_cast<double>(times->quantile(0.99)) / 1e3;
	}
}

/* Make ratios of the rates of updates beside something. */
inline void over_updates_alone(Round &r)
{
	for (auto &[name, value] : r)
		if (name.compare(0, strlen("updates_beside_"), "updates_beside_") == 0)
			value /= r.at("updates_per_second");
}

} // namespace snapshot

#endif /* BENCH_SNAPSHOT_MEASURES_HPP */
