/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fur_info.cpp - fur-info: print the contents of a heap file and how full it is.  Only reads; takes
 * no lock.
 */
#include "common/command_line.hpp"
#include "common/json.hpp"
#include "heap_view.hpp"

#include <cstring>
#include <iostream>
#include <sys/stat.h>

namespace
{

using tools::HeapView;
using json = tools::Json;
using std::to_string;

enum { EXIT_BAD_DATA = 1 };

struct State {
	const char *name, *marked;
	bool live, worker, replayer, shipper;
	bool fenced; /* of a primary: another node has taken over, as far as it is known here */
	uint64_t worker_pid, replayer_pid, shipper_pid; /* from the control region; 0: not known */
};

State state_of(const HeapView &heap)
{
	uint64_t word = __atomic_load_n(&heap.words()->state, __ATOMIC_RELAXED);
	State s = {};
	s.marked = word == MEDIA_CLOSED                             ? "closed"
	           : word == MEDIA_OPEN || word == MEDIA_OPEN_ASYNC ? "open"
	                                                            : "damaged";
	s.worker = heap.used_by_worker();
	s.replayer = heap.used_by_replayer();
	s.shipper = heap.used_by_shipper();
	s.live = s.worker || s.replayer;
	if (heap.super()->control_bytes >= sizeof(control)) {
		const media_file file = heap.file();
		const control *c = media_control(&file);
		s.worker_pid = s.worker ? c->worker_pid : 0;
		s.replayer_pid = s.replayer ? c->replayer_pid : 0;
		s.shipper_pid = s.shipper ? c->ship.shipper_pid : 0;
		s.fenced = control_fenced(c);
	}
	s.name = s.live ? "in use" : word == MEDIA_CLOSED ? "closed" : "needs recovery";
	return s;
}

/* Read the ring from the tail on.  The tail of a heap in use moves: try to read the ring while it
 * does not. */
tools::Ring read_ring(const HeapView &heap, bool live)
{
	enum { TRIES = 20 };
	uint64_t tail = heap.tail();
	for (int k = 1;; k++) {
		tools::Ring ring = heap.ring(tail);
		uint64_t now = live ? heap.tail() : tail;
		if (now == tail || k == TRIES)
			return ring;
		tail = now;
	}
}

json super_json(const HeapView &heap)
{
	const media_super &s = *heap.super();
	struct stat st = {};
	(void)!fstat(heap.fd, &st);
	return {{"version", s.version}, {"uuid", tools::uuid_text(s)},
	        {"file_bytes", heap.file_bytes},
	        {"allocated_bytes", static_cast<uint64_t>(st.st_blocks) * 512},
	        {"address", s.address}, {"max_threads", s.max_threads},
	        {"regions",
	                {{"control", {{"offset", s.control_offset}, {"bytes", s.control_bytes}}},
	                        {"ring", {{"offset", s.ring_offset}, {"slots", s.ring_slots},
	                                         {"slot_bytes", s.slot_bytes}}},
	                        {"logs", {{"offset", s.logs_offset}, {"bytes_each", s.log_bytes},
	                                         {"allocated", media_logs(&s, heap.words())}}},
	                        {"heap", {{"offset", s.heap_offset},
	                                         {"bytes", media_heap_bytes(&s, heap.words())},
	                                         {"max_bytes", s.heap_bytes}}}}}};
}

/* The newest update or abort in the ring, replayed or not; null in a heap that never had one. */
json last_durts(const HeapView &heap, const tools::Ring &ring)
{
	if (ring.range.end != ring.range.tail)
		return ring.range.end - 1;
	const media_file file = heap.file();
	uint64_t last = 0;
	for (uint64_t k = 0; k < ring.verdicts.size(); k++) {
		media_marker m = log_read_marker(&file, k);
		if (m.durts > last && (m.durts & (ring.verdicts.size() - 1)) == k &&
		        log_marker_valid(&file, &m, m.durts))
			last = m.durts;
	}
	return last ? json(last) : json();
}

json ring_json(const HeapView &heap, const tools::Ring &ring)
{
	const inspect_range &w = ring.range;
	return {{"slots", ring.verdicts.size()}, {"used", w.end - w.tail}, {"tail", w.tail},
	        {"last_durts", last_durts(heap, ring)}, {"updates", w.updates}, {"holes", w.holes},
	        {"broken", w.broken}, {"aborted", w.aborts}, {"dropped", w.dropped}};
}

json logs_json(const HeapView &heap, const tools::Ring &ring)
{
	json all = json::array();
	for (size_t t = 0; t < ring.logs.size(); t++) {
		const tools::LogUse &log = ring.logs[t];
		all.push_back({{"thread", t}, {"updates", log.updates}, {"used_bytes", log.bytes},
		        {"used_percent", 100.0 * static_cast<double>(log.bytes) /
		                                 static_cast<double>(heap.super()->log_bytes)},
		        {"from", log.from}, {"to", log.to}});
	}
	return all;
}

/* The allocator can be counted only while no process changes it. */
json allocator_json(const HeapView &heap, const State &state, const tools::Ring &ring)
{
	if (state.live)
		return {{"counted", false}, {"reason", "the heap is in use"}};
	alloc_census c;
	std::string first;
	bool closed = heap.words()->state == MEDIA_CLOSED;
	int error = heap.check_allocator(closed ? nullptr : &ring, c, [&](const char *problem) {
		if (first.empty())
			first = problem;
	});
	if (error == FUR_ECORRUPT)
		return {{"counted", false}, {"reason", "damaged: " + first + ": see fur-check"}};
	if (error)
		return {{"counted", false}, {"reason", fur_errormsg()}};
	return {{"counted", true}, {"after_recovery", !closed}, {"blocks", c.blocks},
	        {"block_bytes", c.block_bytes}, {"free_blocks", c.free_blocks},
	        {"chunks", c.chunks}, {"free_chunks", c.free_chunks}, {"chunk_bytes", CHUNK_BYTES}};
}

/* The block with the results of a bulk update that has not ended (INV-BU4), or null.  The update
 * that names it is replayed before the block has results, so the file shows it all that time. */
json bulk_json(const HeapView &heap)
{
	const media_file file = heap.file();
	const auto *h = static_cast<const heap_header *>(
	        static_cast<const void *>(media_at(&file, heap.super()->heap_offset)));
	const uint64_t block = __atomic_load_n(&h->bulk, __ATOMIC_RELAXED);
	return heap.super()->version >= 2 && block ? json(block) : json();
}

/* How many seconds ago. */
double seconds_since(uint64_t ns)
{
	return static_cast<double>(arch_now_ns() - ns) * 1e-9;
}

/* Of a standby: what it has applied, and how far it lies behind the log's end. */
json following_json(const media_standby &s)
{
	const bool begins = s.offset == UINT64_MAX;
	return {{"term", s.term}, {"lineage", s.lineage}, {"frame", s.frame},
	        {"offset", begins ? json() : json(s.offset)}, {"durts", s.durts},
	        {"follows", s.follows},
	        {"unread", s.follows && s.unread != UINT64_MAX ? json(s.unread) : json()},
	        {"heard_s", s.follows && s.heard_ns ? json(seconds_since(s.heard_ns)) : json()}};
}

/* The heap's role; its position in the log as the ship page has it, or as it is applied; null
 * without a role. */
json shipping_json(const HeapView &heap, const State &state)
{
	const std::optional<media_ship> page = heap.ship_page();
	if (!page)
		return {{"role", "damaged"}};
	if (page->role == MEDIA_NO_ROLE)
		return {};
	const bool begins = page->offset == UINT64_MAX;
	json j = {{"role", tools::role_text(page->role)}, {"node", tools::node_text(page->node)},
	        {"log", page->log}, {"term", page->term}, {"lineage", page->lineage},
	        {"frame", page->frame}, {"offset", begins ? json() : json(page->offset)},
	        {"durts", page->durts}};
	if (page->role == MEDIA_STANDBY)
		j.update(following_json(heap.standby(*page, state.worker)));
	else
		j["fenced"] = state.fenced;
	return j;
}

/* Null for a heap that is in no group. */
json group_json(const HeapView &heap)
{
	char id[MEDIA_ID_TEXT];
	const media_super *s = heap.super();
	if (!media_is_member(s))
		return {};
	media_id_text(s->more.group, id);
	return {{"id", id}, {"member", s->more.group_member},
	        {"most_members", s->more.group_members}};
}

json heap_json(const HeapView &heap)
{
	State state = state_of(heap);
	tools::Ring ring = read_ring(heap, state.live);
	json all = {{"path", heap.path}, {"state", state.name}, {"marked", state.marked},
	        {"snapshot", state.live},
	        {"used_by",
	                {{"worker", state.worker}, {"replayer", state.replayer},
	                        {"worker_pid", state.worker_pid},
	                        {"replayer_pid", state.replayer_pid}, {"shipper", state.shipper},
	                        {"shipper_pid", state.shipper_pid}}}};
	all.update(super_json(heap));
	all["ring"] = ring_json(heap, ring);
	all["logs"] = logs_json(heap, ring);
	all["bulk_block"] = bulk_json(heap);
	all["shipping"] = shipping_json(heap, state);
	all["group"] = group_json(heap);
	all["allocator"] = allocator_json(heap, state, ring);
	return all;
}

/* ---------------------------------------------------------------------- text */

std::string number(const json &value)
{
	return to_string(value.get<uint64_t>());
}

std::string explain_state(const json &i)
{
	if (i["state"] == "closed")
		return "closed";
	if (i["state"] == "needs recovery" && !i["shipping"].is_null() &&
	        i["shipping"]["role"] == "primary")
		return i["shipping"]["fenced"] == true ? "not closed; fur-standby lets it follow "
		                                         "the node that has taken its "
		                                         "place"
		                                       : "needs recovery, which fur-ship does, "
		                                         "together with the shipping log";
	if (i["state"] == "needs recovery")
		return i["marked"] == "open"
		               ? "needs recovery: it was not closed, and no process has it open"
		               : "needs recovery: its state word is damaged, which counts as not "
		                 "closed";
	auto who = [&](const char *what) {
		const json &pid = i["used_by"][std::string(what) + "_pid"];
		return std::string("a ") + (!strcmp(what, "worker") ? "process" : what) +
		       (pid == 0 ? "" : " (" + number(pid) + ")");
	};
	std::string by = i["used_by"]["worker"] == false    ? "by " + who("replayer")
	                 : i["used_by"]["replayer"] == true ? "by " + who("worker") + ", with " +
	                                                              who("replayer") + " alongside"
	                                                    : "by " + who("worker");
	return "in use " + by + "; the numbers below are a snapshot";
}

std::string explain_logs(const json &i)
{
	uint64_t in_use = 0, bytes = 0, fullest = 0;
	for (size_t t = 0; t < i["logs"].size(); t++) {
		const json &log = i["logs"][t];
		in_use += log["updates"] != 0;
		bytes += log["used_bytes"].get<uint64_t>();
		if (log["used_bytes"] > i["logs"][fullest]["used_bytes"])
			fullest = t;
	}
	if (!in_use)
		return "nothing to replay in " + to_string(i["logs"].size()) + " logs";
	return number(in_use) + " of " + to_string(i["logs"].size()) + " have records to replay, " +
	       number(bytes) + " bytes; the fullest is thread " + number(fullest) + "'s, " +
	       to_string(static_cast<int>(i["logs"][fullest]["used_percent"].get<double>())) + " %";
}

std::string explain_ring(const json &r)
{
	return number(r["used"]) + " of " + number(r["slots"]) +
	       " slots in use, from the tail on; " + number(r["updates"]) + " updates, " +
	       number(r["aborted"]) + " abort markers, " + number(r["holes"]) + " holes, " +
	       number(r["dropped"]) + " dropped for a lost dependency" +
	       (r["broken"] == 0 ? "" : ", " + number(r["broken"]) + " broken: see fur-check");
}

std::string explain_allocator(const json &a)
{
	if (a["counted"] == false)
		return "not counted: " + a["reason"].get<std::string>();
	return number(a["blocks"]) + " blocks of " + number(a["block_bytes"]) + " bytes in use, " +
	       number(a["free_blocks"]) + " small blocks free, " + number(a["free_chunks"]) +
	       " of " + number(a["chunks"]) + " chunks of " + number(a["chunk_bytes"]) +
	       " bytes free" + (a["after_recovery"] == true ? ", as recovery would leave it" : "");
}

std::string explain_bulk(const json &i)
{
	const std::string block = "the block at byte " + number(i["bulk_block"]);
	return i["used_by"]["worker"] == true
	               ? "a bulk update runs: its results go to " + block
	               : "a process ended in the middle of a bulk update, and left " + block +
	                         ": the next program that opens the heap frees it";
}

std::string explain_following(const json &i)
{
	const json &s = i["shipping"];
	if (s["follows"] == false)
		return i["used_by"]["worker"] == true ? "; its process does not follow"
		                                      : "; nothing follows: start fur-standby";
	std::string text = s["unread"].is_null() ? "; follows, and does not know where the log "
	                                           "ends: see what fur-standby says"
	                                         : "; follows, " + number(s["unread"]) +
	                                                   " messages behind the end of the log";
	char heard[64] = "";
	if (!s["heard_s"].is_null())
		snprintf(heard, sizeof heard, ", read the newest frame %.1f s ago",
		        s["heard_s"].get<double>());
	return text + heard;
}

std::string explain_shipping(const json &i)
{
	const json &s = i["shipping"];
	if (s["role"] == "damaged")
		return "both copies of the ship page are damaged: see fur-check";
	std::string text = s["role"].get<std::string>() + ", node " + s["node"].get<std::string>() +
	                   ", log " + s["log"].get<std::string>() + "; position: " +
	                   (s["offset"].is_null() ? "the beginning"
	                                          : "term " + number(s["term"]) + ", lineage " +
	                                                    number(s["lineage"]) + ", frame " +
	                                                    number(s["frame"]) + " at offset " +
	                                                    number(s["offset"]) + ", durTS " +
	                                                    number(s["durts"]));
	if (s["role"] == "standby")
		return text + explain_following(i);
	if (s["role"] == "primary" && s["fenced"] == true)
		text += "; fenced: another node writes the stream";
	if (i["used_by"]["shipper"] == true)
		return text + "; shipped by process " + number(i["used_by"]["shipper_pid"]);
	return s["role"] == "primary" ? text + "; no fur-ship" : text;
}

void print(const json &i)
{
	auto region = [&](const char *name) {
		return std::string(name) + " at " + number(i["regions"][name]["offset"]);
	};
	auto line = [](const char *what, const std::string &text) {
		std::cout << "  " << what << text << "\n";
	};
	char address[32];
	snprintf(address, sizeof address, "0x%llx",
	        static_cast<unsigned long long>(i["address"].get<uint64_t>()));
	const json &r = i["regions"];
	std::cout << i["path"].get<std::string>() << "\n";
	line("state      ", explain_state(i));
	line("format     ",
	        "version " + number(i["version"]) + ", uuid " + i["uuid"].get<std::string>());
	line("file       ", number(i["file_bytes"]) + " bytes, " + number(i["allocated_bytes"]) +
	                            " of them allocated: " + region("control") + ", " +
	                            region("ring") + ", " + region("logs") + ", " + region("heap"));
	line("heap       ",
	        number(r["heap"]["bytes"]) + " bytes" +
	                (r["heap"]["bytes"] == r["heap"]["max_bytes"]
	                                ? ""
	                                : ", may grow to " + number(r["heap"]["max_bytes"])) +
	                ", mapped at " + address);
	line("threads    ", number(i["max_threads"]) + " at most, each with a log of " +
	                            number(r["logs"]["bytes_each"]) + " bytes; " +
	                            "logs allocated: " + number(r["logs"]["allocated"]));
	line("durTS      ", "tail " + number(i["ring"]["tail"]) +
	                            (i["ring"]["last_durts"].is_null()
	                                            ? ", none used yet"
	                                            : ", last " + number(i["ring"]["last_durts"])));
	line("ring       ", explain_ring(i["ring"]));
	line("logs       ", explain_logs(i));
	if (!i["bulk_block"].is_null())
		line("bulk       ", explain_bulk(i));
	if (!i["shipping"].is_null())
		line("shipping   ", explain_shipping(i));
	if (!i["group"].is_null())
		line("group      ", i["group"]["id"].get<std::string>() + ": member " +
		                            number(i["group"]["member"]) + " of at most " +
		                            number(i["group"]["most_members"]));
	line("allocator  ", explain_allocator(i["allocator"]));
}

int run(const std::string &path, bool as_json)
{
	tools::explain_sigbus("fur-info", path);
	HeapView heap(path, tools::Purpose::LOOK);
	if (heap_check_super(&heap.raw(), heap.file_bytes))
		throw tools::Refused(path + ": " + fur_errormsg());
	heap.map(heap.raw());
	json all = heap_json(heap);
	if (as_json)
		std::cout << all.dump(2) << "\n";
	else
		print(all);
	return 0;
}

} // namespace

int main(int argc, char **argv)
{
	std::string path;
	bool as_json = false;
	tools::CommandLine line("fur-info",
	        "Show what a libfur heap file contains and how full it "
	        "is.  Only reads; works while a process uses the heap.");
	line.footer = "Exit status: 0 done, 1 the heap is damaged or missing, 2 wrong usage.";
	line.argument("HEAP", path, "the heap file").required();
	line.flag("--json", as_json, "print a JSON object");
	if (auto status = tools::parse_or_exit_status(line, "fur-info", argc, argv))
		return *status;
	try {
		return run(path, as_json);
	} catch (const std::exception &e) {
		std::cerr << "fur-info: " << e.what() << "\n";
		return EXIT_BAD_DATA;
	}
}
