/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fur_stat.cpp - fur-stat: what happens in a heap that another process uses, a line for each
 * interval; or one JSON object, or a Prometheus text exposition.
 */
#include "common/command_line.hpp"
#include "common/json.hpp"
#include "heap_watch.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <functional>
#include <iostream>
#include <sys/stat.h>
#include <unistd.h>

namespace
{

using tools::HeapWatch;
using tools::Sample;
using json = tools::Json;

enum { EXIT_BAD_DATA = 1, LINES_PER_HEADER = 20 };

/* ----------------------------------------------------------------------- rates */

/* What happened for each second between two samples. */
struct Rates {
	bool known = false;
	double updates = 0, replays = 0, replayed = 0;
};

/* Known only if one process had the heap open all the time. */
Rates rates_between(const Sample &before, const Sample &after)
{
	double seconds = after.monotonic - before.monotonic;
	if (!before.worker || !after.worker || before.session != after.session || seconds <= 0 ||
	        after.replays < before.replays || after.replayed_updates < before.replayed_updates)
		return {};
	auto rate = [&](uint64_t from, uint64_t to) {
		return static_cast<double>(to - from) / seconds;
	};
	return {true, rate(before.updates, after.updates), rate(before.replays, after.replays),
	        rate(before.replayed_updates, after.replayed_updates)};
}

double percent(uint64_t part, uint64_t whole)
{
	return 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

/* ------------------------------------------------------------------------ text */

const char HEADER[] = "state           replayer  updates/s  replayed/s        lag  ring%   log%";

/* Of a primary. */
const char SHIPPING_HEADER[] = "  shipper    unacked";
/* Of a standby. */
const char FOLLOWING_HEADER[] = "  follows     unread    heard";

const char *header_of_role(const Sample &s)
{
	return s.primary ? SHIPPING_HEADER : s.follower ? FOLLOWING_HEADER : "";
}

std::string shown(bool known, const char *format, double value)
{
	char text[64] = "-";
	if (known)
		snprintf(text, sizeof text, format, value);
	return text;
}

/* A follower that cannot reach the log does not know how much of it it has not read. */
bool knows_unread(const Sample &s)
{
	return s.standby.follows && s.standby.unread != UINT64_MAX;
}

std::string text_line(const Sample &s, const Rates &r)
{
	char text[256];
	snprintf(text, sizeof text, "%-15s %8s %10s %11s %10s %6s %6s", s.state,
	        !s.there     ? "-"
	        : s.replayer ? "yes"
	                     : "no",
	        shown(r.known, "%.0f", r.updates).c_str(),
	        shown(r.known, "%.0f", r.replayed).c_str(),
	        shown(s.there, "%.0f", static_cast<double>(s.next - s.tail)).c_str(),
	        shown(s.there, "%.1f",
	                percent(s.next - s.tail, std::max<uint64_t>(s.ring_slots, 1)))
	                .c_str(),
	        shown(s.worker, "%.1f",
	                percent(s.fullest_log_bytes, std::max<uint64_t>(s.log_bytes, 1)))
	                .c_str());
	char more[64];
	if (s.follower)
		snprintf(more, sizeof more, " %8s %10s %8s", s.standby.follows ? "yes" : "no",
		        shown(knows_unread(s), "%.0f", static_cast<double>(s.standby.unread))
		                .c_str(),
		        shown(s.heard >= 0, "%.1f", s.heard).c_str());
	if (!s.primary)
		return s.follower ? std::string(text) + more : text;
	snprintf(more, sizeof more, " %8s %10s",
	        s.fenced    ? "fenced"
	        : s.shipper ? "yes"
	                    : "no",
	        shown(s.worker, "%.0f", static_cast<double>(s.unacked)).c_str());
	return std::string(text) + more;
}

/* ------------------------------------------------------------------------ JSON */

json following_json(const Sample &s)
{
	const media_standby &f = s.standby;
	json j = {{"follows", f.follows}, {"term", f.term}, {"lineage", f.lineage},
	        {"frame", f.frame}, {"durts", f.durts}};
	if (f.offset != UINT64_MAX)
		j["offset"] = f.offset;
	if (knows_unread(s))
		j["unread"] = f.unread;
	if (s.heard >= 0)
		j["heard_s"] = s.heard;
	return j;
}

json sample_json(const std::string &path, const Sample &s, const Rates &r)
{
	json j = {{"time", s.time}, {"path", path}, {"state", s.state}};
	if (!s.there)
		return j;
	j.update({{"worker", s.worker}, {"replayer", s.replayer}, {"tail", s.tail},
	        {"next_durts", s.next}, {"lag", s.next - s.tail}, {"ring_slots", s.ring_slots},
	        {"log_bytes", s.log_bytes}});
	if (s.worker_pid)
		j["worker_pid"] = s.worker_pid;
	if (s.replayer_pid)
		j["replayer_pid"] = s.replayer_pid;
	if (s.worker)
		j.update({{"fullest_log_bytes", s.fullest_log_bytes},
		        {"fullest_log_thread", s.fullest_log_thread}, {"replays", s.replays},
		        {"replayed_updates", s.replayed_updates}});
	if (s.primary)
		j["shipper"] = s.shipper;
	if (s.shipper_pid)
		j["shipper_pid"] = s.shipper_pid;
	if (s.primary && s.worker)
		j.update({{"fenced", s.fenced}, {"term", s.term}, {"lineage", s.lineage},
		        {"acked", s.acked}, {"unacked", s.unacked}});
	if (s.follower)
		j.update(following_json(s));
	if (r.known)
		j.update({{"updates_per_s", r.updates}, {"replays_per_s", r.replays},
		        {"replayed_per_s", r.replayed}});
	return j;
}

/* ------------------------------------------------------------------ Prometheus */

std::string label_of(const std::string &path)
{
	std::string text;
	for (char c : path)
		text += c == '\\'   ? "\\\\"
		        : c == '"'  ? "\\\""
		        : c == '\n' ? "\\n"
		                    : std::string(1, c);
	return text;
}

std::string metric(const std::string &path, const char *name, const char *type,
        const std::string &value, const char *help)
{
	return std::string("# HELP ") + name + " " + help + "\n# TYPE " + name + " " + type + "\n" +
	       name + "{heap=\"" + label_of(path) + "\"} " + value + "\n";
}

/* Of a standby. */
std::string following_exposition(const std::string &path, const Sample &s)
{
	const media_standby &f = s.standby;
	std::string out;
	auto add = [&](const char *name, const std::string &value, const char *help) {
		out += metric(path, name, "gauge", value, help);
	};
	add("fur_follow_up", std::to_string(f.follows), "1 while the standby follows.");
	add("fur_follow_term", std::to_string(f.term), "The term of what is applied.");
	add("fur_follow_durts", std::to_string(f.durts),
	        "The newest update that is applied, as the primary counts.");
	if (f.offset != UINT64_MAX)
		add("fur_follow_offset", std::to_string(f.offset),
		        "Where in the log the newest frame that is applied is.");
	if (knows_unread(s))
		add("fur_follow_unread_messages", std::to_string(f.unread),
		        "Messages of the log that are not read.");
	if (s.heard >= 0)
		add("fur_follow_heard_seconds", std::to_string(s.heard),
		        "How long ago the newest frame was read.");
	return out;
}

std::string exposition(const std::string &path, const Sample &s)
{
	std::string out;
	auto add = [&](const char *name, const char *type, uint64_t value, const char *help) {
		out += metric(path, name, type, std::to_string(value), help);
	};
	add("fur_heap_up", "gauge", s.there, "1 if the heap file exists.");
	if (!s.there)
		return out;
	add("fur_heap_in_use", "gauge", s.worker, "1 while a process has the heap open.");
	add("fur_heap_needs_recovery", "gauge", !strcmp(s.state, "needs recovery"),
	        "1 if the heap was not closed and no process has it open.");
	add("fur_replayer_attached", "gauge", s.replayer,
	        "1 while a fur-replayer serves the heap.");
	add("fur_ring_used_slots", "gauge", s.next - s.tail,
	        "Slots of the ring from the tail to the newest marker.");
	add("fur_ring_slots", "gauge", s.ring_slots, "Slots of the ring.");
	add("fur_log_bytes", "gauge", s.log_bytes, "Bytes of each thread's redo log.");
	add("fur_updates_total", "counter", s.updates,
	        "Updates that fur-stat has seen since it started.");
	if (s.primary)
		add("fur_ship_up", "gauge", s.shipper, "1 while a fur-ship serves the heap.");
	if (s.follower)
		out += following_exposition(path, s);
	if (!s.worker)
		return out;
	if (s.primary) {
		add("fur_ship_fenced", "gauge", s.fenced,
		        "1 if another heap has taken this one's place in the shipping log.");
		add("fur_ship_term", "gauge", s.term, "The term of the shipper's claim.");
		add("fur_ship_lineage", "gauge", s.lineage,
		        "The lineage of the updates that are shipped.");
		add("fur_ship_acked", "gauge", s.acked,
		        "The shipping log has every update below this durTS.");
		add("fur_ship_unacked_updates", "gauge", s.unacked,
		        "Slots of the ring up to the newest marker that the shipping log has not "
		        "acknowledged.");
	}
	add("fur_log_fullest_bytes", "gauge", s.fullest_log_bytes,
	        "Bytes that are not replayed in the redo log that has the most.");
	add("fur_replays_total", "counter", s.replays, "Replays since the heap was opened.");
	add("fur_replayed_updates_total", "counter", s.replayed_updates,
	        "Updates replayed since the heap was opened.");
	return out;
}

/* A file to write to, with a name that nothing has: so this neither follows a link nor removes what
 * another program has made.  mkostemp() lets only the owner read it. */
FILE *open_beside(const std::string &path, std::string &name)
{
	name = path + ".XXXXXX";
	const int fd = mkostemp(name.data(), O_CLOEXEC);
	if (fd < 0) {
		name.clear();
		return nullptr;
	}
	const mode_t mask = umask(0);
	umask(mask);
	FILE *f = fchmod(fd, 0666 & ~mask) == 0 ? fdopen(fd, "w") : nullptr;
	if (!f)
		close(fd);
	return f;
}

/* A program that reads the file finds an old exposition or the new one, and never a part. */
void write_by_rename(const std::string &path, const std::string &text)
{
	std::string temporary;
	FILE *f = open_beside(path, temporary);
	bool written = f && fwrite(text.data(), 1, text.size(), f) == text.size();
	if (f && fclose(f))
		written = false;
	if (written && rename(temporary.c_str(), path.c_str()) == 0)
		return;
	const int error = errno;
	if (!temporary.empty())
		unlink(temporary.c_str());
	throw tools::Refused(path, CALL_CREATE, error, "cannot write");
}

/* --------------------------------------------------------------------- options */

struct Options {
	std::string path, interval_text, count_text, output;
	bool json = false, prometheus = false;
	double interval = 1;
	uint64_t count = 1; /* 0: without end */
};

double number_of(const std::string &text, const char *name, double least)
{
	const double MOST = 1e9;
	char *end = nullptr;
	double value = strtod(text.c_str(), &end);
	if (text.empty() || *end || !(value >= least && value <= MOST))
		throw tools::WrongUsage(std::string(name) + " '" + text + "': use " +
		                        (least < 1 ? "seconds, from 0.001" : "a number, from 1"));
	return value;
}

void complete(Options &o)
{
	if (!o.interval_text.empty()) {
		o.interval = number_of(o.interval_text, "INTERVAL", 0.001);
		o.count = 0;
	}
	if (!o.count_text.empty()) {
		double count = number_of(o.count_text, "COUNT", 1);
		if (count != std::floor(count))
			throw tools::WrongUsage("COUNT '" + o.count_text + "': use a whole number");
		o.count = static_cast<uint64_t>(count);
	}
	if (!o.output.empty() && !o.prometheus)
		throw tools::WrongUsage("--output is for --prometheus: give both");
}

/* ------------------------------------------------------------------------- run */

void sleep_until(timespec &at, double seconds)
{
	const long SECOND_NS = 1000000000;
	double whole = std::floor(seconds);
	at.tv_sec += static_cast<time_t>(whole);
	at.tv_nsec += static_cast<long>((seconds - whole) * static_cast<double>(SECOND_NS));
	if (at.tv_nsec >= SECOND_NS) {
		at.tv_sec++;
		at.tv_nsec -= SECOND_NS;
	}
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr) == EINTR)
		continue;
}

void print(const std::string &text)
{
	std::cout << text << std::flush;
	if (!std::cout)
		throw tools::Refused("standard output: cannot write: check its disk or its reader");
}

void report(const Options &o, const Sample &s, const Rates &r, uint64_t line)
{
	if (o.prometheus) {
		std::string text = exposition(o.path, s);
		o.output.empty() ? print(text) : write_by_rename(o.output, text);
	} else if (o.json) {
		print(sample_json(o.path, s, r).dump() + "\n");
	} else {
		if (line % LINES_PER_HEADER == 0)
			print(std::string(HEADER) + header_of_role(s) + "\n");
		print(text_line(s, r) + "\n");
	}
}

int run(const Options &o)
{
	tools::explain_sigbus("fur-stat", o.path);
	HeapWatch watch(o.path);
	timespec at{};
	clock_gettime(CLOCK_MONOTONIC, &at);
	Sample before = watch.look();
	uint64_t line = 0;
	/* An exposition has sums, and no rates: it need not wait for a second look. */
	if (o.prometheus)
		report(o, before, {}, line++);
	for (; o.count == 0 || line < o.count; line++) {
		sleep_until(at, o.interval);
		Sample now = watch.look();
		report(o, now, rates_between(before, now), line);
		before = now;
	}
	return 0;
}

} // namespace

int main(int argc, char **argv)
{
	Options o;
	tools::CommandLine line("fur-stat",
	        "Show what happens in a libfur heap that another process uses: a line after each "
	        "INTERVAL.  Only reads; takes no lock; goes on when the process closes the heap, "
	        "dies, or makes the heap anew.");
	line.footer =
	        "Without INTERVAL: one line, after a second.  Exit status: 0 done, 1 the heap is "
	        "damaged or missing, 2 wrong usage.";
	line.argument("HEAP", o.path, "the heap file").required();
	line.argument("[INTERVAL]", o.interval_text, "seconds between two lines");
	line.argument("[COUNT]", o.count_text, "how many lines; default: without end");
	line.flag("--json", o.json, "print a JSON object on each line").excludes("--prometheus");
	line.flag("--prometheus", o.prometheus,
	        "print a Prometheus text exposition, at once and after each INTERVAL");
	line.option("--output", o.output,
	        "with --prometheus: write to this file instead, and replace it each time");
	if (auto status = tools::parse_or_exit_status(line, "fur-stat", argc, argv))
		return *status;
	try {
		complete(o);
		return run(o);
	} catch (const tools::WrongUsage &e) {
		std::cerr << "fur-stat: " << e.what() << "; see --help\n";
		return tools::EXIT_WRONG_USAGE;
	} catch (const std::exception &e) {
		std::cerr << "fur-stat: " << e.what() << "\n";
		return EXIT_BAD_DATA;
	}
}
