/* SPDX-License-Identifier: BSD-3-Clause
 *
 * report.cpp - makes reports from the counters and the differences of the files (report.hpp).
 */
#include "report.hpp"

#include <algorithm>
#include <fstream>
#include <iostream>
#include <sstream>

namespace pme
{

using json = tools::Json;

static json finding_json(const pme_control &c, const pme_finding &f)
{
	json where = json::array();
	for (uint64_t k = 0; k < f.n && k < PME_SAMPLES; k++)
		where.push_back({{"file", c.region[f.sample[k].region].path},
		        {"offset", f.sample[k].offset}});
	return {{"lines", f.n}, {"where", where}};
}

json report_of(const pme_control &c, const std::vector<Difference> &files)
{
	const pme_counters &n = c.counters;
	json r = {{"line_bytes", ARCH_FLUSH_LINE}, {"flushes", n.flushes}, {"lines", n.lines},
	        {"fences", n.fences - n.syncs}, {"syncs", n.syncs}, {"idle_fences", n.idle_fences},
	        {"flushes_outside", n.outside}, {"flushed_again", finding_json(c, n.again)},
	        {"flushed_unchanged", finding_json(c, n.unchanged)},
	        {"not_fenced", finding_json(c, n.unfenced)}, {"lines_fetched", n.fetched},
	        {"write_wait_ns", n.write_wait_ns}, {"read_wait_ns", n.read_wait_ns},
	        {"model", {{"write_ns", c.settings.write_ns}, {"read_ns", c.settings.read_ns},
	                          {"gap_ns", c.settings.gap_ns}}}};
	r["files"] = json::array();
	for (size_t k = 0; k < files.size(); k++) {
		const Difference &d = files[k];
		json f = {{"path", d.path}, {"bytes", c.region[k].bytes}, {"found", d.found}};
		if (d.found) {
			f["never_flushed_lines"] = d.never;
			f["stored_after_flush_lines"] = d.lines - d.never - d.unfenced;
			f["where"] = d.where;
		}
		r["files"].push_back(f);
	}
	return r;
}

static std::string places_text(const json &where)
{
	std::ostringstream out;
	const char *between = ": at ";
	for (const auto &[number, w] : where.items()) {
		out << between << "0x" << std::hex
		    << (w.is_object() ? w["offset"].get<uint64_t>() : w.get<uint64_t>());
		between = ", ";
	}
	return out.str();
}

static void add_row(
        std::ostringstream &out, const char *name, const json &n, const std::string &what)
{
	std::string number = n.dump();
	out << "  " << name
	    << std::string(20 - std::min<size_t>(19, std::char_traits<char>::length(name)), ' ')
	    << std::string(number.size() < 10 ? 10 - number.size() : 0, ' ') << number << "  "
	    << what << "\n";
}

std::string text_of(const json &r)
{
	std::ostringstream out;
	out << "pm-emulate:\n";
	add_row(out, "flushes", r["flushes"],
	        "calls, of " + r["lines"].dump() + " lines of " + r["line_bytes"].dump() +
	                " bytes");
	add_row(out, "fences", r["fences"],
	        r["idle_fences"].dump() + " of them with nothing under way");
	add_row(out, "syncs", r["syncs"], "msync, fsync, fdatasync");
	add_row(out, "flushed again", r["flushed_again"]["lines"],
	        "lines, before the fence" + places_text(r["flushed_again"]["where"]));
	add_row(out, "flushed unchanged", r["flushed_unchanged"]["lines"],
	        "lines, as the medium has them" + places_text(r["flushed_unchanged"]["where"]));
	add_row(out, "not fenced", r["not_fenced"]["lines"],
	        "lines flushed, and no fence after that" + places_text(r["not_fenced"]["where"]));
	if (r["flushes_outside"] != 0)
		add_row(out, "flushed outside", r["flushes_outside"],
		        "calls, of memory that is no mapped file's");
	if (r["write_wait_ns"] != 0 || r["read_wait_ns"] != 0)
		add_row(out, "waited",
		        (r["write_wait_ns"].get<uint64_t>() + r["read_wait_ns"].get<uint64_t>()) /
		                1000,
		        "us, for writes " +
		                std::to_string(r["write_wait_ns"].get<uint64_t>() / 1000) +
		                ", to fetch " + r["lines_fetched"].dump() + " lines " +
		                std::to_string(r["read_wait_ns"].get<uint64_t>() / 1000));
	for (const auto &[number, f] : r["files"].items()) {
		out << "  " << f["path"].get<std::string>() << "\n";
		if (!f["found"].get<bool>()) {
			out << "    is gone: what was not durable in it is not known\n";
			continue;
		}
		add_row(out, "  never flushed", f["never_flushed_lines"],
		        "lines stored and never flushed");
		add_row(out, "  stored after flush", f["stored_after_flush_lines"],
		        "lines stored again after their last flush");
		if (f["where"].size() > 0)
			out << "      the first" << places_text(f["where"]) << "\n";
	}
	return out.str();
}

json failure_of(const std::vector<Difference> &files)
{
	json all = json::array();
	for (const Difference &d : files)
		all.push_back({{"path", d.path}, {"found", d.found}, {"lines", d.lines},
		        {"kept", d.kept}, {"dropped", d.dropped}, {"torn", d.torn}});
	return all;
}

std::string failure_text(const std::vector<Difference> &files)
{
	std::ostringstream out;
	for (const Difference &d : files)
		if (d.found)
			out << "  " << d.path << ": " << d.lines
			    << " lines were not durable: " << d.kept << " kept, " << d.dropped
			    << " dropped, " << d.torn << " torn\n";
		else
			out << "  " << d.path << ": had no name yet, or no more\n";
	return out.str();
}

void write_json(const std::string &path, const json &j)
{
	if (path == "-") {
		std::cout << j.dump(2) << "\n";
		return;
	}
	std::ofstream file(path);
	file << j.dump(2) << "\n";
	if (!file.flush())
		throw std::runtime_error(
		        path + ": cannot write the report: check the path and the space left");
}

} // namespace pme
