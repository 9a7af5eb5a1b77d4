/* SPDX-License-Identifier: BSD-3-Clause
 *
 * disturbed.hpp - one thread disturbs, and others are measured: with short read-only transactions,
 * with short updates, and, as a control, with no transactions at all.
 *
 * In mode WITH the disturbing thread does its work in a transaction.  In mode WITHOUT it does the
 * same work for the same time on memory of its own, so that it needs the processor as much; the
 * ratio of the modes is then the effect of the transaction alone.  The control thread runs the same
 * loop as the others and only reads the clock, so its longest time shows how long the scheduler
 * alone stops a thread.
 */
#ifndef BENCH_PAUSES_DISTURBED_HPP
#define BENCH_PAUSES_DISTURBED_HPP

#include "world.hpp"

#include <array>

namespace pauses
{

enum Mode : unsigned { WITH, WITHOUT, MODES };
enum Role : unsigned { DISTURBER, READER, UPDATER, CONTROL, ROLES };

/* ------------------------------------------------------------- long updates */

/* The disturbing thread runs updates of `long_ms` on data of its own.  Short updates keep the words
 * of a line equal; readers compare them. */
class LongUpdate
{
public:
	static constexpr const char *name = "long_update";
	LongUpdate(bench::FurTm &tm, const bench::Options &, const Settings &s)
	    : tm_(tm), ns_(static_cast<uint64_t>(s.long_ms * 1e6)), spin_(s.body == "spin"),
	      private_(OWN_WORDS)
	{
		Self self(tm);
		own_ = make_words(self, OWN_WORDS, 0);
		line_ = make_words(self, LINE_WORDS, 0);
	}
	LongUpdate(const LongUpdate &) = delete;

	void disturb(Crew::View &view)
	{
		Self self(tm_);
		while (const Window *window = view.next())
			view.repeat(*window, [&] {
				if (window->mode == WITH) {
					own_stores_ += update(self,
					        [&](fur_update *tx) { return work(tx, own_); });
				} else {
					NoTransaction none;
					private_stores_ += work(&none, private_.data());
				}
			});
	}
	void look(Crew::View &view)
	{
		Self self(tm_);
		while (const Window *window = view.next())
			view.repeat(*window, [&] {
				bool equal = read(self, [&](fur_ro *tx) {
					uint64_t first = fur_load(tx, &line_[0]);
					bool same = true;
					for (unsigned k = 1; k < LINE_WORDS; k++)
						same &= fur_load(tx, &line_[k]) == first;
					return same;
				});
				if (!equal)
					torn_++;
			});
	}
	void change(Crew::View &view)
	{
		Self self(tm_);
		while (const Window *window = view.next())
			view.repeat(*window, [&] {
				update(self, [&](fur_update *tx) {
					for (unsigned k = 0; k < LINE_WORDS; k++)
						fur_store(
						        tx, &line_[k], fur_load(tx, &line_[k]) + 1);
				});
				changes_++;
			});
	}
	/* After the run: do the words tell what the threads did? */
	bool verify(json &r)
	{
		Self self(tm_);
		r["long_ms"] = static_cast<double>(ns_) / 1e6;
		r["body"] = spin_ ? "spin" : "scan";
		r["torn_reads"] = torn_.load();
		r["long_stores"] = own_stores_;
		r["long_stores_found"] = sum_of(self, own_, OWN_WORDS);
		r["short_stores"] = changes_ * LINE_WORDS;
		r["short_stores_found"] = sum_of(self, line_, LINE_WORDS);
		return torn_ == 0 && r["long_stores"] == r["long_stores_found"] &&
		       r["short_stores"] == r["short_stores_found"];
	}

private:
	enum : size_t { OWN_WORDS = 8192, LINE_WORDS = 8, SLICES = 500 };

	/* One body: slices, half of each for loads and a store, half for computing; with --body
	 * spin, one store at the start and computing.  Returns the number of stores. */
	template <class Tx>
	uint64_t work(Tx *tx, uint64_t *words) const
	{
		uint64_t began = now_ns(), end = began + ns_, slice = ns_ / SLICES + 1, stores = 0,
		         x = 1;
		size_t at = 0;
		for (uint64_t now = began; now < end; now = now_ns()) {
			if (!spin_ || stores == 0) {
				uint64_t *to = &words[stores * LINE_WORDS % OWN_WORDS];
				fur_store(tx, to, fur_load(tx, to) + 1);
				stores++;
			}
			while (!spin_ && now_ns() < now + slice / 2)
				for (unsigned k = 0; k < 16; k++)
					x += fur_load(tx, &words[at++ % OWN_WORDS]);
			while (now_ns() < std::min(now + slice, end))
				for (unsigned k = 0; k < 16; k++)
					x = x * UINT64_C(6364136223846793005) + 1;
		}
		result_ = x;
		return stores;
	}

	bench::FurTm &tm_;
	const uint64_t ns_;
	const bool spin_;
	uint64_t *own_, *line_;
	std::vector<uint64_t> private_;
	alignas(128) uint64_t own_stores_ = 0, private_stores_ = 0;
	alignas(128) uint64_t changes_ = 0;
	alignas(128) std::atomic<uint64_t> torn_{0};
	/* So that the computing is not optimised away */
	static inline thread_local volatile uint64_t result_;
};

/* -------------------------------------------------------------------- scans */

/* The disturbing thread reads an array in one read-only transaction, and pauses for `pause_ms` in
 * the middle.  Updates move 1 from a word of the first half to its partner in the second, so that
 * the sum of all words, and of each pair, stays the same. */
class Scan
{
public:
	static constexpr const char *name = "scan";
	Scan(bench::FurTm &tm, const bench::Options &o, const Settings &s)
	    : tm_(tm), seed_(o.seed), pause_ns_(static_cast<uint64_t>(s.pause_ms * 1e6)),
	      private_(2 * PAIRS, START)
	{
		Self self(tm);
		words_ = make_words(self, 2 * PAIRS, START);
	}
	Scan(const Scan &) = delete;

	void disturb(Crew::View &view)
	{
		Self self(tm_);
		while (const Window *window = view.next())
			view.repeat(*window, [&] {
				uint64_t before = changes_.load(), sum;
				if (window->mode == WITH) {
					sum = read(
					        self, [&](fur_ro *tx) { return scan(tx, words_); });
				} else {
					NoTransaction none;
					sum = scan(&none, private_.data());
				}
				uint64_t updates = changes_.load() - before;
				if (sum != 2 * PAIRS * START)
					torn_++;
				/* The updates stop when the window ends. */
				if (window->phase == MEASURE)
					updates_[window->mode].add(updates);
			});
	}
	void look(Crew::View &view)
	{
		Self self(tm_);
		tools::Random random{seed_};
		while (const Window *window = view.next())
			view.repeat(*window, [&] {
				size_t k = random.below(PAIRS);
				uint64_t sum = read(self, [&](fur_ro *tx) {
					return fur_load(tx, &words_[k]) +
					       fur_load(tx, &words_[k + PAIRS]);
				});
				if (sum != 2 * START)
					torn_++;
			});
	}
	void change(Crew::View &view)
	{
		Self self(tm_);
		tools::Random random{seed_ + 1};
		while (const Window *window = view.next())
			view.repeat(*window, [&] {
				uint64_t *from = &words_[random.below(PAIRS)], *to = from + PAIRS;
				update(self, [&](fur_update *tx) {
					fur_store(tx, from, fur_load(tx, from) - 1);
					fur_store(tx, to, fur_load(tx, to) + 1);
				});
				changes_.store(changes_.load() + 1);
			});
	}
	bool verify(json &r)
	{
		Self self(tm_);
		const char *const modes[] = {"updates_in_scan", "updates_in_pause"};
		r["pause_ms"] = static_cast<double>(pause_ns_) / 1e6;
		for (unsigned m = 0; m < MODES; m++)
			r[modes[m]] = {{"mean", updates_[m].mean()}, {"min", updates_[m].least()},
			        {"max", updates_[m].most()}, {"scans", updates_[m].count()}};
		uint64_t moved = 0;
		for (size_t k = 0; k < PAIRS; k++)
			moved += START - sum_of(self, &words_[k], 1);
		r["torn_reads"] = torn_.load();
		r["moves"] = changes_.load();
		r["moves_found"] = moved;
		return torn_ == 0 && moved == changes_ &&
		       sum_of(self, words_, 2 * PAIRS) == 2 * PAIRS * START;
	}

private:
	enum : size_t { PAIRS = 2048 };
	/* Differences are taken modulo 2^64: any start will do. */
	static constexpr uint64_t START = 1000;

	template <class Tx>
	uint64_t scan(Tx *tx, const uint64_t *words) const
	{
		uint64_t sum = 0;
		for (size_t k = 0; k < PAIRS; k++)
			sum += fur_load(tx, &words[k]);
		std::this_thread::sleep_for(std::chrono::nanoseconds(pause_ns_));
		for (size_t k = PAIRS; k < 2 * PAIRS; k++)
			sum += fur_load(tx, &words[k]);
		return sum;
	}

	bench::FurTm &tm_;
	const uint64_t seed_, pause_ns_;
	uint64_t *words_;
	std::vector<uint64_t> private_;
	Histogram updates_[MODES];
	alignas(128) std::atomic<uint64_t> changes_{0};
	alignas(128) std::atomic<uint64_t> torn_{0};
};

/* ---------------------------------------------------------------------- run */

inline void control(Crew::View &view)
{
	while (const Window *window = view.next())
		view.repeat(*window, [] {});
}

template <class Part>
int run_disturbed(bench::Options &o, const Settings &s)
{
	o.tm_options.threads = s.readers + 2;
	bench::FurTm tm(o.tm_options);
	Part part(tm, o, s);
	Crew crew(true);
	crew.add(DISTURBER, [&](Crew::View &t) { part.disturb(t); });
	for (unsigned k = 0; k < s.readers; k++)
		crew.add(READER, [&](Crew::View &t) { part.look(t); });
	crew.add(UPDATER, [&](Crew::View &t) { part.change(t); });
	crew.add(CONTROL, control);
	std::array<std::array<Measured, MODES>, ROLES> measured;
	tm.begin_run();
	crew.run(MODES, s.rounds, o.warm_up_seconds(), o.seconds, [&](unsigned mode, double took) {
		for (unsigned role = 0; role < ROLES; role++)
			measured[role][mode].add(crew, role, took);
	});
	json r = describe(o, s, tm, crew, s.readers + 3);
	const char *const names[] = {Part::name, "readers", "short_updates", "control"};
	for (unsigned role = 0; role < ROLES; role++) {
		auto &[with, without] = measured[role];
		r[names[role]]["ratio"] = ratio(with.per_second, without.per_second);
		r[names[role]]["with"] = with.result_with_waits();
		r[names[role]]["without"] = without.result_with_waits();
	}
	bool right = part.verify(r);
	tm.results(r);
	r["verified"] = right;
	return bench::report(o, r);
}

} // namespace pauses

#endif /* BENCH_PAUSES_DISTURBED_HPP */
