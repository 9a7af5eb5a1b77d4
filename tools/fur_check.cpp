/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fur_check.cpp - fur-check: tell whether a heap file is sound and which updates are lost if it is
 * not, and mend the problems that can be mended safely.
 */
#include "common/command_line.hpp"
#include "common/json.hpp"
#include "heap_check.hpp"

#include <algorithm>
#include <iostream>

namespace
{

using json = tools::Json;
using namespace tools;
using std::to_string;

enum { EXIT_BAD_DATA = 1 };

/* ---------------------------------------------------------------------- JSON */

json lost_json(const Lost &l)
{
	json ranges = json::array();
	for (Range r : l.ranges)
		ranges.push_back({{"offset", r.offset}, {"bytes", r.bytes}});
	return {{"durts", l.durts}, {"durts_last", l.durts_last},
	        {"thread", l.thread ? json(*l.thread) : json()}, {"certain", l.certain},
	        {"why", l.why}, {"heap_ranges", ranges},
	        {"heap_ranges_complete", l.ranges_complete}};
}

json report_json(const std::string &path, const Report &r, const std::vector<std::string> &done)
{
	json all = {{"path", path}, {"sound", r.sound()},
	        {"state", r.state.empty() ? json() : json(r.state)},
	        {"role", r.role.empty() ? json() : json(r.role)}};
	all["problems"] = json::array();
	for (const Problem &p : r.problems)
		all["problems"].push_back(
		        {{"where", p.where}, {"what", p.what}, {"remedy", p.remedy},
		                {"mendable", p.repair.has_value()}, {"note", p.note}});
	all["lost"] = json::array();
	for (const Lost &l : r.lost)
		all["lost"].push_back(lost_json(l));
	all["repaired"] = done;
	all["to_replay"] = r.to_replay;
	all["holes"] = r.holes;
	all["aborted"] = r.aborted;
	if (r.census)
		all["allocator"] = {{"blocks", r.census->blocks},
		        {"block_bytes", r.census->block_bytes},
		        {"free_blocks", r.census->free_blocks}, {"chunks", r.census->chunks},
		        {"free_chunks", r.census->free_chunks}};
	else
		all["allocator"] = nullptr;
	return all;
}

/* ---------------------------------------------------------------------- text */

std::string lost_text(const Lost &l)
{
	enum { MOST_RANGES = 8 };
	std::string s = l.durts == l.durts_last ? "update " + to_string(l.durts)
	                                        : "an update from " + to_string(l.durts) + " to " +
	                                                  to_string(l.durts_last);
	if (l.thread)
		s += " of thread " + to_string(*l.thread);
	s += ": " + l.why;
	for (size_t k = 0; k < l.ranges.size() && k < MOST_RANGES; k++)
		s += (k ? ", " : "; it stored to heap bytes ") + to_string(l.ranges[k].offset) +
		     " to " + to_string(l.ranges[k].offset + l.ranges[k].bytes);
	if (l.ranges.size() > MOST_RANGES)
		s += " and " + to_string(l.ranges.size() - MOST_RANGES) +
		     " more (--json lists all)";
	if (!l.ranges.empty() && !l.ranges_complete)
		s += ", as far as its log shows";
	return s;
}

void print(const std::string &path, const Report &r, const std::vector<std::string> &done)
{
	for (const std::string &what : done)
		std::cout << path << ": repaired: " << what << "\n";
	for (const Problem &p : r.problems)
		std::cout << path << ": " << p.where << ": " << p.what << "; "
		          << (p.note ? "it was in flight when power failed, or is damaged; "
		                       "--repair keeps it"
		                     : p.remedy)
		          << "\n";
	for (const Lost &l : r.lost)
		std::cout << path << (l.certain ? ": lost: " : ": lost or never finished: ")
		          << lost_text(l) << "\n";
	if (!r.sound())
		return;
	std::cout << path << ": sound, " << r.state << (r.role.empty() ? "" : ", a " + r.role);
	if (r.state != "closed")
		std::cout << ": " << r.to_replay << " updates to replay, " << r.holes
		          << (r.holes == 1 ? " hole" : " holes") << " left by updates in flight";
	if (r.census)
		std::cout << "; " << r.census->blocks << " blocks of " << r.census->block_bytes
		          << " bytes in use";
	std::cout << "\n";
}

/* ----------------------------------------------------------------------- run */

/* The remedy for all problems of the report together. */
std::string remedy(const Report &r)
{
	if (r.all_mendable())
		return "mend with fur-check --repair";
	std::string text = "restore the file from a copy";
	if (std::optional<uint64_t> first = r.first_to_forget())
		text += ", or do without update " + to_string(*first) +
		        " and all later ones: fur-check --forget-from " + to_string(*first);
	return text;
}

/* --forget-from must give up no update without need, and must not hide a loss by giving up too
 * little. */
void refuse_needless(const std::string &path, const Report &r, uint64_t from)
{
	std::optional<uint64_t> first = r.first_to_forget();
	if (r.role == "primary")
		throw Refused(path +
		              ": its shipping log may have these updates: recover it with "
		              "fur-ship, which takes them from there, or with fur-standby, if "
		              "another node has taken its place");
	if (r.half_done)
		throw Refused(path +
		              ": no update can be given up, because the heap already holds a "
		              "part of a lost one: restore the file from a copy");
	if (!first)
		throw Refused(path + ": nothing to give up: fur-check reports no update that had "
		                     "returned as lost");
	if (from > *first)
		throw Refused(path + ": update " + to_string(*first) + ", before " +
		              to_string(from) + ", is lost too: name that one");
}

int run(const std::string &path, bool repair, std::optional<uint64_t> forget_from, bool as_json)
{
	explain_sigbus("fur-check", path);
	std::vector<std::string> done;
	Report report;
	{
		/* What is written goes to the file that was checked, under the check's locks. */
		HeapView heap(path, repair || forget_from ? Purpose::REPAIR : Purpose::CHECK);
		report = check_heap(heap);
		if (repair)
			done = repair_heap(heap, report);
		if (forget_from) {
			refuse_needless(path, report, *forget_from);
			done = forget(heap, *forget_from);
		}
	}
	if (!done.empty()) {
		HeapView heap(path, Purpose::CHECK);
		report = check_heap(heap);
	}
	if (as_json)
		std::cout << report_json(path, report, done).dump(2) << "\n";
	else
		print(path, report, done);
	std::cout.flush();
	if (report.sound())
		return 0;
	auto n = std::count_if(report.problems.begin(), report.problems.end(),
	        [](const Problem &p) { return !p.note; });
	std::cerr << "fur-check: " << path << ": " << n << (n == 1 ? " problem: " : " problems: ")
	          << remedy(report) << "\n";
	return EXIT_BAD_DATA;
}

} // namespace

int main(int argc, char **argv)
{
	std::string path;
	bool as_json = false, repair = false;
	std::optional<uint64_t> forget_from;
	tools::CommandLine line("fur-check",
	        "Check a libfur heap file that no process has open: superblock, tail, ring, logs, "
	        "and the allocator as recovery would leave it.  Changes nothing without --repair "
	        "or --forget-from.");
	line.footer =
	        "Exit status: 0 sound (or repaired), 1 damaged, missing or in use, 2 wrong usage.";
	line.argument("HEAP", path, "the heap file").required();
	line.flag("--repair", repair,
	        "mend what can be mended without losing anything; leave everything else as it is");
	line.option("--forget-from", forget_from,
	            "give up this update (a durTS) and all later ones that are not replayed yet, "
	            "so that the heap opens")
	        .excludes("--repair");
	line.flag("--json", as_json, "print a JSON object");
	if (auto status = tools::parse_or_exit_status(line, "fur-check", argc, argv))
		return *status;
	try {
		return run(path, repair, forget_from, as_json);
	} catch (const std::exception &e) {
		std::cerr << "fur-check: " << e.what() << "\n";
		return EXIT_BAD_DATA;
	}
}
