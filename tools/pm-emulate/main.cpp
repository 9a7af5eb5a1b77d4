/* SPDX-License-Identifier: BSD-3-Clause
 *
 * main.cpp - pm-emulate: run a program as if on persistent memory, and make the power fail
 * (docs/pm-emulate.md).
 */
#include "../common/command_line.hpp"
#include "base/standard_files.h"
#include "process.hpp"
#include "report.hpp"

#include <cstring>
#include <iostream>
#include <random>
#include <sstream>
#include <unistd.h>

namespace
{

using json = tools::Json;
using pme::Usage;

/* docs/pm-emulate.md gives the sources of these numbers. */
struct Model {
	const char *name;
	uint64_t write_ns, read_ns, gap_ns;
};
const Model models[] = {{"optane", 62, 204, 28}, {"cxl", 310, 250, 3}, {"ssd600", 600, 500, 3}};

/* Where the power fails. */
struct Point {
	pme_fail kind = PME_NEVER;
	uint64_t at = 0;
	std::string text() const
	{
		static const char *const names[] = {"never", "flush", "fence", "time", "end"};
		return kind == PME_AT_END ? "end"
		                          : std::string(names[kind]) + ":" + std::to_string(at);
	}
};

struct Options {
	std::string model, fail_at, lines = "random", json_path, check, before;
	std::vector<std::string> files, program, given; /* given: the words before -- */
	int64_t write_ns = -1, read_ns = -1, gap_ns = -1;
	uint64_t cache_kib = 1024, seed = 1, explore = 0;
	double timeout_s = 0;
	bool keep_going = false, quiet = false, verbose = false, no_perturb = false;
	Point point;
	pme::Lines survive = pme::Lines::RANDOM;
};

Point parse_point(const std::string &text)
{
	const std::pair<const char *, pme_fail> kinds[] = {
	        {"flush:", PME_AT_FLUSH}, {"fence:", PME_AT_FENCE}, {"time:", PME_AT_TIME}};
	if (text == "end")
		return {PME_AT_END, 0};
	for (const auto &[name, kind] : kinds) {
		if (text.compare(0, strlen(name), name) != 0)
			continue;
		char *end;
		const char *digits = text.c_str() + strlen(name);
		uint64_t n = strtoull(digits, &end, 10);
		if (*digits >= '0' && *digits <= '9' && !*end && n > 0)
			return {kind, n};
	}
	throw Usage("--fail-at " + text +
	            ": use flush:N, fence:N, time:MS or end, with N or MS from 1");
}

/* Check and complete the options where the parser cannot. */
void complete_options(Options &o)
{
	if (o.program.empty())
		throw Usage("no program: write it, and its arguments, after --");
	if (!o.model.empty()) {
		const Model *found = nullptr;
		for (const Model &m : models)
			if (o.model == m.name)
				found = &m;
		if (!found)
			throw Usage("--model " + o.model +
			            ": no such model: use optane, cxl or ssd600, or --write-ns, "
			            "--read-ns and --gap-ns");
		o.write_ns = o.write_ns < 0 ? static_cast<int64_t>(found->write_ns) : o.write_ns;
		o.read_ns = o.read_ns < 0 ? static_cast<int64_t>(found->read_ns) : o.read_ns;
		o.gap_ns = o.gap_ns < 0 ? static_cast<int64_t>(found->gap_ns) : o.gap_ns;
	}
	if (!o.fail_at.empty())
		o.point = parse_point(o.fail_at);
	if (o.explore && o.check.empty())
		throw Usage("--explore needs a command that checks the files: add --check "
		            "'COMMAND {}'");
	if (o.explore && !o.fail_at.empty())
		throw Usage("--explore chooses the points itself: leave --fail-at out");
	if (!o.check.empty() && !o.explore && o.fail_at.empty())
		throw Usage("--check runs after a power failure: add --explore N or --fail-at");
	if (o.lines != "random")
		o.survive = o.lines == "kept" ? pme::Lines::KEPT : pme::Lines::DROPPED;
	if (o.timeout_s == 0 && !o.check.empty())
		o.timeout_s = 60;
}

/* It lies alongside the launcher in a build directory, and in the libraries' folder once
 * installed. */
std::string find_library()
{
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	std::string here(self, n > 0 ? static_cast<size_t>(n) : 0);
	here.resize(here.rfind('/') + 1);
	for (const std::string &path : {here + "libpm-emulate.so", here + PM_EMULATE_LIBRARY})
		if (access(path.c_str(), R_OK) == 0)
			return path;
	throw std::runtime_error(here + PM_EMULATE_LIBRARY + ": missing: install pm-emulate again");
}

pme_settings settings_of(const Options &o, Point point, uint64_t seed)
{
	pme_settings s{};
	s.fail = point.kind;
	s.fail_at = point.at;
	s.seed = seed;
	s.perturb = !o.check.empty() && !o.no_perturb;
	s.write_ns = o.write_ns > 0 ? static_cast<uint64_t>(o.write_ns) : 0;
	s.read_ns = o.read_ns > 0 ? static_cast<uint64_t>(o.read_ns) : 0;
	s.gap_ns = o.gap_ns > 0 ? static_cast<uint64_t>(o.gap_ns) : 0;
	s.cache_bytes = o.cache_kib << 10;
	size_t at = 0;
	for (const std::string &f : o.files) {
		if (at + f.size() + 2 > sizeof s.only)
			throw Usage("--file: too many");
		memcpy(s.only + at, f.c_str(), f.size() + 1);
		at += f.size() + 1;
	}
	return s;
}

std::string text_with(std::string text, const std::string &what, const std::string &by)
{
	for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
		text.replace(at, what.size(), by);
	return text;
}

/* The program's command line, with {seed} replaced. */
std::vector<std::string> command_of(const Options &o, uint64_t seed)
{
	std::vector<std::string> words;
	for (const std::string &w : o.program)
		words.push_back(text_with(w, "{seed}", std::to_string(seed)));
	return words;
}

void must_have_attached(const Options &o, const pme_control &c)
{
	if (!c.attached)
		throw std::runtime_error(o.program[0] +
		                         ": pm-emulate's library was not loaded into it: the "
		                         "program is linked statically, or changes its "
		                         "rights; use a dynamically linked one");
	if (!c.regions)
		throw std::runtime_error(o.program[0] + ": mapped no file shared and writable" +
		                         (o.files.empty() ? "" : " whose path matches --file") +
		                         ": it has no persistent memory");
}

/* ------------------------------------------------------------------ one run */

int run_through(const Options &o, const std::string &library)
{
	pme::Memory memory(settings_of(o, {}, o.seed));
	pme::End end =
	        pme::run_program(command_of(o, o.seed), memory, library, o.timeout_s, nullptr);
	const pme_control &c = *memory.control();
	if (end.timed_out)
		throw std::runtime_error(
		        o.program[0] + ": did not end within --timeout and was killed");
	if (!c.regions && !end.well()) {
		/* The program has already said why. */
		std::cerr << "pm-emulate: " << o.program[0] << ": " << end.text() << "\n";
		return end.exit_status();
	}
	must_have_attached(o, c);
	json r = pme::report_of(c, memory.differences());
	r["program"] = o.program;
	r["exit_status"] = end.exit_status();
	if (!o.quiet)
		std::cerr << pme::text_of(r);
	if (!o.json_path.empty())
		pme::write_json(o.json_path, r);
	return end.exit_status();
}

/* --------------------------------------------------------------- the power fails */

/* The result of one failure point. */
struct Outcome {
	bool reached = false, stopped = false;
	std::string wrong; /* empty: nothing */
	std::string output;
	uint64_t flushes = 0, fences = 0;
	std::vector<pme::Difference> files;
};

/* Run the program until the power fails or it ends.  Leave its files as persistent memory would
 * be. */
Outcome fail_once(const Options &o, const std::string &library, Point point, uint64_t seed,
        const pme::Output *output)
{
	Outcome r;
	pme::Memory memory(settings_of(o, point, seed));
	pme::End end = pme::run_program(command_of(o, seed), memory, library, o.timeout_s, output);
	const pme_control &c = *memory.control();
	r.flushes = c.counters.flushes, r.fences = c.counters.fences;
	/* At the point `end`, stopping a program that does not end counts as its end. */
	r.stopped = point.kind == PME_AT_END && end.timed_out;
	r.reached = c.failed || r.stopped || (point.kind == PME_AT_END && end.well());
	if (!r.reached && !end.well())
		r.wrong = "the program: " + end.text();
	if (r.wrong.empty())
		must_have_attached(o, c);
	if (r.reached)
		r.files = memory.fail_power(seed, o.survive);
	return r;
}

std::string paths_of(const Outcome &r)
{
	std::string all;
	for (const pme::Difference &d : r.files)
		if (d.found)
			all += (all.empty() ? "" : " ") + pme::quoted(d.path);
	return all;
}

std::string first_line(const std::string &text)
{
	return text.substr(0, text.find('\n'));
}

void run_in_shell(const Options &o, const std::string &option, const std::string &command,
        const pme::Output &output, Outcome &r)
{
	output.clear();
	pme::End end = pme::run_shell(command, o.timeout_s, &output);
	if (end.exit_status() == 126 || end.exit_status() == 127)
		throw Usage(option + " '" + command +
		            "': the shell cannot run it: " + first_line(output.text()));
	if (!end.well()) {
		r.wrong = option + ": " + end.text();
		r.output = output.text();
	}
}

/* Try one failure point: the command of --before, the run, the check. */
Outcome try_point(const Options &o, const std::string &library, Point point, uint64_t seed,
        const pme::Output &output)
{
	Outcome r;
	if (!o.before.empty()) {
		run_in_shell(o, "--before", text_with(o.before, "{seed}", std::to_string(seed)),
		        output, r);
		if (!r.wrong.empty())
			throw std::runtime_error(r.wrong + ": " + first_line(r.output));
	}
	output.clear();
	r = fail_once(o, library, point, seed, &output);
	if (!r.wrong.empty())
		r.output = output.text();
	else if (!o.check.empty() && r.reached)
		run_in_shell(o, "--check",
		        text_with(text_with(o.check, "{seed}", std::to_string(seed)), "{}",
		                paths_of(r)),
		        output, r);
	return r;
}

/* The command that tries this point again. */
std::string repeat_command(const Options &o, Point point, uint64_t seed)
{
	std::string text;
	bool skip = false;
	for (const std::string &word : o.given) {
		std::string name = word.substr(0, word.find('='));
		bool flag = name == "--keep-going",
		     with_value = name == "--explore" || name == "--seed" || name == "--json" ||
		                  name == "--fail-at";
		if (!skip && !flag && !with_value)
			text += pme::quoted(word) + " ";
		skip = with_value && word.find('=') == std::string::npos;
	}
	text += "--fail-at " + point.text() + " --seed " + std::to_string(seed) + " --";
	for (const std::string &word : o.program)
		text += " " + pme::quoted(word);
	return text;
}

void print_indented(const std::string &text)
{
	std::istringstream in(text);
	for (std::string line; std::getline(in, line);)
		std::cerr << "    " << line << "\n";
}

int fail_here(const Options &o, const std::string &library)
{
	Outcome r;
	pme::Output output;
	if (o.check.empty() && o.before.empty()) {
		r = fail_once(o, library, o.point, o.seed, nullptr);
	} else {
		r = try_point(o, library, o.point, o.seed, output);
	}
	if (!r.wrong.empty() && !r.reached) {
		std::cerr << "pm-emulate: before " << o.point.text() << " was reached, " << r.wrong
		          << "\n";
		print_indented(r.output);
		return 1;
	}
	if (!r.reached)
		throw std::runtime_error(
		        o.point.text() + " was never reached: the program ended after " +
		        std::to_string(r.flushes) + " flushes and " + std::to_string(r.fences) +
		        " fences; choose an earlier point");
	if (!o.quiet)
		std::cerr << "pm-emulate: the power failed at " << o.point.text() << " (seed "
		          << o.seed << ")\n"
		          << pme::failure_text(r.files);
	if (!o.json_path.empty())
		pme::write_json(o.json_path,
		        {{"point", o.point.text()}, {"seed", o.seed},
		                {"files", pme::failure_of(r.files)}, {"wrong", r.wrong}});
	if (r.wrong.empty())
		return 0;
	std::cerr << "pm-emulate: " << r.wrong << "\n";
	print_indented(r.output);
	return 1;
}

/* ---------------------------------------------------------------- exploration */

struct Exploration {
	uint64_t points = 0, reached = 0, violations = 0, lost_lines = 0;
	json found = json::array();
};

void show_progress(const Options &o, const Exploration &x)
{
	if (isatty(2) && !o.quiet)
		std::cerr << "\r" << x.points << " of " << o.explore << " points, " << x.violations
		          << " violations " << std::flush;
}

/* Returns false if the exploration must stop. */
bool explore_point(const Options &o, const std::string &library, Point point, uint64_t seed,
        const pme::Output &output, Exploration &x, Outcome &r)
{
	r = try_point(o, library, point, seed, output);
	x.points++;
	x.reached += r.reached;
	for (const pme::Difference &d : r.files)
		x.lost_lines += d.lines;
	show_progress(o, x);
	if (o.verbose)
		std::cerr << point.text() << " seed " << seed << (r.reached ? "" : " not reached")
		          << "\n"
		          << pme::failure_text(r.files);
	if (r.wrong.empty())
		return true;
	x.violations++;
	std::string again = repeat_command(o, point, seed);
	x.found.push_back({{"point", point.text()}, {"seed", seed}, {"wrong", r.wrong},
	        {"output", r.output}, {"repeat", again}});
	std::cerr << (isatty(2) ? "\n" : "") << "pm-emulate: violation at " << point.text()
	          << ", seed " << seed << ": " << r.wrong << "\n";
	print_indented(r.output);
	std::cerr << "  repeat with: " << again << "\n";
	return o.keep_going;
}

/* The first point is the program's end, and counts the flushes and fences.  Each further point is a
 * flush or a fence with equal chance, and each of its kind with equal chance. */
int explore_points(const Options &o, const std::string &library)
{
	pme::Output output;
	Exploration x;
	Outcome first, r;
	bool on = explore_point(o, library, {PME_AT_END, 0}, o.seed, output, x, first);
	if (on && first.flushes + first.fences == 0)
		throw std::runtime_error(
		        o.program[0] +
		        ": neither flushed nor fenced: there is no point at which to fail");
	if (first.stopped && !o.quiet)
		std::cerr << "pm-emulate: the program did not end in " << o.timeout_s
		          << " s: the points cover its work until then\n";
	std::mt19937_64 random(o.seed);
	for (uint64_t k = 1; on && k < o.explore; k++) {
		bool flush = first.fences == 0 || (first.flushes != 0 && random() % 2);
		Point point{flush ? PME_AT_FLUSH : PME_AT_FENCE,
		        random() % (flush ? first.flushes : first.fences) + 1};
		on = explore_point(o, library, point, o.seed + k, output, x, r);
	}
	if (isatty(2) && !o.quiet)
		std::cerr << "\n";
	if (!o.quiet)
		std::cerr << "pm-emulate: " << x.points << " failure points, " << x.reached
		          << " reached, " << x.lost_lines << " lines not durable at them, "
		          << x.violations << " violations\n";
	if (!o.json_path.empty())
		pme::write_json(o.json_path,
		        {{"program", o.program}, {"points", x.points}, {"reached", x.reached},
		                {"lines_not_durable", x.lost_lines}, {"seed", o.seed},
		                {"violations", x.found}});
	return x.violations ? 1 : 0;
}

int parse_options(int argc, char **argv, Options &o)
{
	tools::CommandLine line(
	        "pm-emulate", "Run a program as if its mapped files were persistent memory.");
	line.rest = "-- PROGRAM [ARGUMENT...]";
	line.option("--model", o.model,
	        "inject the latencies of optane, cxl or ssd600; default: no latency");
	line.option("--write-ns", o.write_ns,
	            "time from a line's write-back until the line is durable")
	        .range(0, 1000000000);
	line.option("--read-ns", o.read_ns, "time added when a line is fetched")
	        .range(0, 1000000000);
	line.option("--gap-ns", o.gap_ns, "time between two lines that the device accepts")
	        .range(0, 1000000000);
	line.option("--cache-kib", o.cache_kib, "size of the cache that models reads")
	        .range(1, 1 << 22);
	line.option("--file", o.files,
	        "treat files that match this shell pattern as persistent memory; may be repeated; "
	        "default: every file mapped shared and writable");
	line.option("--fail-at", o.fail_at,
	        "the power fails at flush:N, fence:N, time:MS (after the first mapping) or end");
	line.option("--seed", o.seed,
	        "random seed; replaces {seed} in the program's arguments and in commands");
	line.option("--lines", o.lines,
	            "which of the lines that are not durable survive: random, dropped (none), kept "
	            "(all)")
	        .one_of({"random", "dropped", "kept"});
	line.option("--explore", o.explore, "try this many failure points")
	        .range(uint64_t(1), uint64_t(1) << 40);
	line.option("--check", o.check,
	        "shell command that checks the files after each failure; {} stands for their "
	        "paths");
	line.option("--before", o.before, "shell command to run before each run");
	line.flag("--keep-going", o.keep_going, "do not stop at the first violation");
	line.flag("--no-perturb", o.no_perturb,
	        "with --check: do not delay threads or evict lines at random");
	line.option("--timeout", o.timeout_s,
	            "most seconds for a run or check; default: 60 with --check, else no limit")
	        .range(1e-3L, 1e9L);
	line.option("--json", o.json_path, "write the report to this file, - for standard output");
	line.flag("--quiet", o.quiet, "print errors and violations only");
	line.flag("--verbose", o.verbose, "print each failure point");
	line.footer =
	        "Exit status: that of the program.  With --fail-at or --explore: 0 no violation, 1 "
	        "a violation, or the point was never reached.  2: wrong usage.";
	int words = 1;
	while (words < argc && strcmp(argv[words], "--") != 0)
		o.given.emplace_back(argv[words++]);
	for (int k = words + 1; k < argc; k++)
		o.program.emplace_back(argv[k]);
	o.given.insert(o.given.begin(), argv[0]);
	try {
		return line.parse(words, argv) ? -1 : 0;
	} catch (const tools::WrongUsage &e) {
		throw Usage(std::string(e.what()) +
		            (words == argc ? "; the program comes after --" : "") + "; see --help");
	}
}

} // namespace

int main(int argc, char **argv)
{
	Options o;
	open_standard_files();
	try {
		int done = parse_options(argc, argv, o);
		if (done >= 0)
			return done;
		complete_options(o);
		std::string library = find_library();
		pme::adopt_orphans();
		return o.explore           ? explore_points(o, library)
		       : o.fail_at.empty() ? run_through(o, library)
		                           : fail_here(o, library);
	} catch (const Usage &e) {
		std::cerr << "pm-emulate: " << e.what() << "\n";
		return 2;
	} catch (const std::exception &e) {
		std::cerr << "pm-emulate: " << e.what() << "\n";
		return 1;
	}
}
