/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fur_group.cpp - fur-group: make and change groups of heaps, list and check their members, copy
 * them, recover them, and make a group's file again from its heaps.
 */
#include "common/command_line.hpp"
#include "common/json.hpp"
#include "heap_check.hpp"

#include <cstring>
#include <fcntl.h>
#include <fur_group.h>
#include <iostream>
#include <memory>

extern "C" {
#include "file/text_file.h"
}

namespace
{

using json = tools::Json;
using std::to_string;
using tools::Refused;
using tools::WrongUsage;
using Words = std::vector<std::string>;

enum { EXIT_BAD_DATA = 1 };

struct Given {
	std::string command, group;
	Words words;
	uint32_t most_members = 0;
	bool create = false, as_json = false, partial = false;
	fur_options heap;
};

[[noreturn]] void fail()
{
	throw Refused(fur_errormsg());
}

void need(const Given &given, size_t least, size_t most, const char *what)
{
	if (given.words.size() < least)
		throw WrongUsage("fur-group " + given.command + ": " + what + " is missing");
	if (given.words.size() > most)
		throw WrongUsage("unexpected argument '" + given.words[most] + "'");
}

/* ---------------------------------------------------------------- an open group */

class OpenGroup
{
public:
	explicit OpenGroup(const Given &given)
	{
		fur_group_options o = {};
		o.size = sizeof o;
		o.partial = given.partial;
		if (fur_group_open(given.group.c_str(), &o, &group_))
			fail();
	}
	~OpenGroup()
	{
		if (group_)
			(void)fur_group_close(group_);
	}
	OpenGroup(const OpenGroup &) = delete;
	OpenGroup &operator=(const OpenGroup &) = delete;
	void close()
	{
		fur_group *g = group_;
		group_ = nullptr;
		if (fur_group_close(g))
			fail();
	}
	operator fur_group *()
	{
		return group_;
	}

private:
	fur_group *group_ = nullptr;
};

/* ------------------------------------------------------------------- the file */

/* What a group's file says, read without its lock. */
class GroupFile
{
public:
	explicit GroupFile(const std::string &path)
	{
		size_t bytes = 0;
		char *text = nullptr;
		group.fd = -1;
		group.path = realpath(path.c_str(), nullptr);
		const int fd = group.path ? system_open(group.path, O_RDONLY | O_NONBLOCK, 0) : -1;
		if (fd < 0)
			throw Refused(path, CALL_OPEN, errno, "cannot open");
		int error = text_file_read(fd, GROUP_FILE_MOST, &text, &bytes);
		if (!error)
			error = group_file_parse(&group, text, bytes);
		close(fd);
		free(text);
		if (error) {
			fur_fail_at(error, path.c_str());
			fail();
		}
	}
	~GroupFile()
	{
		group_file_free(&group);
		free(group.path);
	}
	GroupFile(const GroupFile &) = delete;
	GroupFile &operator=(const GroupFile &) = delete;
	std::string member_path(unsigned k) const
	{
		std::unique_ptr<char, void (*)(void *)> path(group_member_path(&group, k), free);
		return path.get();
	}

	fur_group group = {};
};

std::string hex(const uint8_t bytes[16])
{
	char text[MEDIA_ID_TEXT];
	media_id_text(bytes, text);
	return text;
}

/* A member, and what is where it should be.  Of one that was removed only the first two. */
struct Shown {
	unsigned member;
	std::string listed, path, uuid, state;
	std::string wrong; /* why what is there is not the member; or empty */
	uint64_t heap_bytes = 0;
};

void look_at_heap(const GroupFile &file, Shown &s)
{
	heap_file heap;
	if (int error = heap_open_file(s.path.c_str(), HEAP_LOCK_NONE, &heap)) {
		s.state = error == FUR_ENOENT ? "missing" : "unreadable";
		s.wrong = fur_errormsg();
		return;
	}
	const bool used = heap_lock_held(heap.fd, HEAP_LOCK_WORKER) > 0;
	s.state = used ? "in use" : heap.super->state == MEDIA_CLOSED ? "closed" : "needs recovery";
	s.heap_bytes = media_heap_bytes(&heap.geometry, heap.super);
	if (s.listed == "member" && group_check_member(&file.group, s.member, &heap))
		s.wrong = fur_errormsg();
	heap_close_file(&heap);
}

Shown show(const GroupFile &file, unsigned k)
{
	const struct group_member &m = file.group.members[k];
	Shown s = {k, group_state_name(m.state), "", "", "", ""};
	if (!m.path)
		return s;
	s.path = file.member_path(k);
	s.uuid = hex(m.uuid);
	look_at_heap(file, s);
	return s;
}

std::vector<Shown> show_all(const GroupFile &file)
{
	std::vector<Shown> all;
	for (unsigned k = 0; k < file.group.limit; k++)
		if (file.group.members[k].state != GROUP_NONE)
			all.push_back(show(file, k));
	return all;
}

void print_json(const GroupFile &file, const std::string &path)
{
	json all = {{"path", path}, {"id", hex(file.group.id)}, {"most_members", file.group.most}};
	all["members"] = json::array();
	for (const Shown &s : show_all(file)) {
		json one = {{"member", s.member}, {"listed", s.listed}};
		if (!s.path.empty())
			one.update({{"path", s.path}, {"uuid", s.uuid}, {"state", s.state},
			        {"heap_bytes", s.heap_bytes},
			        {"wrong", s.wrong.empty() ? json() : json(s.wrong)}});
		all["members"].push_back(one);
	}
	std::cout << all.dump(2) << "\n";
}

void print(const GroupFile &file, const std::string &path)
{
	std::cout << path << ": group " << hex(file.group.id) << ", at most " << file.group.most
	          << " members\n";
	for (const Shown &s : show_all(file)) {
		std::cout << "  " << s.member << "  ";
		if (s.path.empty()) {
			std::cout << "removed\n";
			continue;
		}
		std::cout << s.path << ": " << s.state;
		if (s.listed != "member")
			std::cout << ", " << s.listed
			          << ": the next program that opens the group completes that";
		if (!s.wrong.empty())
			std::cout << ": " << s.wrong;
		std::cout << "\n";
	}
}

/* -------------------------------------------------------------------- commands */

int run_create(const Given &given)
{
	need(given, 0, 0, "");
	fur_group_options o = {};
	fur_group *group;
	o.size = sizeof o;
	o.most_members = given.most_members;
	if (fur_group_create(given.group.c_str(), &o, &group) || fur_group_close(group))
		fail();
	return 0;
}

int run_add(const Given &given)
{
	need(given, 1, SIZE_MAX, "HEAP");
	OpenGroup group(given);
	for (const std::string &heap : given.words) {
		unsigned member;
		if (fur_group_add(
		            group, heap.c_str(), given.create ? &given.heap : nullptr, &member))
			fail();
		std::cout << heap << ": member " << member << "\n";
	}
	group.close();
	return 0;
}

unsigned number_of(const std::string &word)
{
	char *end;
	const unsigned long k = strtoul(word.c_str(), &end, 10);
	if (word.empty() || word[0] < '0' || word[0] > '9' || *end || k >= FUR_GROUP_MOST_MEMBERS)
		throw WrongUsage(
		        "'" + word + "' is not the index of a member: fur-group list shows them");
	return static_cast<unsigned>(k);
}

int run_remove(const Given &given)
{
	need(given, 1, SIZE_MAX, "the index of a member");
	for (const std::string &word : given.words)
		number_of(word);
	OpenGroup group(given);
	for (const std::string &word : given.words)
		if (fur_group_remove(group, number_of(word)))
			fail();
	group.close();
	return 0;
}

int run_list(const Given &given)
{
	need(given, 0, 0, "");
	const GroupFile file(given.group);
	if (given.as_json)
		print_json(file, given.group);
	else
		print(file, given.group);
	return 0;
}

/* Returns whether it is sound. */
bool check_member(const GroupFile &file, unsigned k)
{
	const std::string path = file.member_path(k);
	const std::string wrong = show(file, k).wrong;
	if (!wrong.empty()) {
		std::cout << path << ": " << wrong << "\n";
		return false;
	}
	tools::explain_sigbus("fur-group", path);
	tools::HeapView heap(path, tools::Purpose::CHECK);
	const tools::Report report = tools::check_heap(heap);
	for (const tools::Problem &p : report.problems)
		if (!p.note)
			std::cout << path << ": " << p.where << ": " << p.what << "; " << p.remedy
			          << "\n";
	std::cout << path << ": member " << k << ": "
	          << (report.sound() ? "sound, " + report.state
	                             : "not sound: fur-check " + path + " tells more")
	          << "\n";
	return report.sound();
}

int run_check(const Given &given)
{
	need(given, 0, 0, "");
	const GroupFile file(given.group);
	bool sound = true;
	for (unsigned k = 0; k < file.group.limit; k++) {
		if (!file.group.members[k].path)
			continue;
		try {
			sound &= check_member(file, k);
		} catch (const Refused &e) {
			std::cout << e.what() << "\n";
			sound = false;
		}
	}
	std::cout.flush();
	if (!sound)
		std::cerr << "fur-group: " << given.group << ": not all members are sound\n";
	return sound ? 0 : EXIT_BAD_DATA;
}

int run_backup(const Given &given)
{
	need(given, 1, 1, "DIRECTORY");
	OpenGroup group(given);
	if (fur_group_backup(group, given.words[0].c_str()))
		fail();
	group.close();
	return 0;
}

int run_recover(const Given &given)
{
	need(given, 0, 0, "");
	OpenGroup(given).close();
	return 0;
}

/* --------------------------------------------------------------------- rebuild */

/* A group as its heaps tell it. */
class Rebuilt
{
public:
	explicit Rebuilt(const std::string &path)
	{
		group_.fd = -1;
		if (group_whole_path(path.c_str(), &group_.path))
			fail();
	}
	~Rebuilt()
	{
		group_file_free(&group_);
		if (group_.fd >= 0)
			close(group_.fd);
		free(group_.path);
	}
	Rebuilt(const Rebuilt &) = delete;
	Rebuilt &operator=(const Rebuilt &) = delete;

	void add(const std::string &path)
	{
		heap_file file;
		if (int error = heap_open_file(path.c_str(), HEAP_LOCK_NONE, &file)) {
			fur_fail_at(error, path.c_str());
			fail();
		}
		const media_super s = file.geometry;
		const media_file view = media_file_of(&file.geometry, file.super);
		/* Who has been a member is known to those that it had updates with. */
		for (uint32_t k = 0; media_is_member(&s) && k < s.more.group_members; k++)
			if (media_seen(&view, k) && limit_ < k + 1)
				limit_ = k + 1;
		heap_close_file(&file);
		take(path, s);
	}
	/* Instead of the file that is there, if its lock can be had. */
	void write()
	{
		for (uint64_t k = 0; k < limit_; k++)
			if (!group_.members[k].path)
				group_.members[k].state = GROUP_REMOVED;
		group_.limit = limit_;
		group_.fd = text_file_open(group_.path);
		if (group_.fd == FUR_EBUSY)
			throw Refused(
			        std::string(group_.path) + ": the group is open: close it first");
		if (group_.fd < 0 && group_.fd != FUR_ENOENT)
			fail();
		if (group_.fd < 0 ? group_file_make(&group_) : group_file_replace(&group_))
			fail();
	}

private:
	void take(const std::string &path, const media_super &s)
	{
		if (!media_is_member(&s))
			throw Refused(path + ": the heap is in no group: leave it out, and add it "
			                     "afterwards, with fur-group add");
		if (!group_.members) {
			memcpy(group_.id, s.more.group, sizeof group_.id);
			if (group_file_allocate(&group_, s.more.group_members))
				fail();
		}
		if (memcmp(group_.id, s.more.group, sizeof group_.id) != 0 ||
		        group_.most != s.more.group_members)
			throw Refused(path + ": the heap is a member of another group than the "
			                     "first one: leave it out");
		struct group_member &m = group_.members[s.more.group_member];
		if (m.path)
			throw Refused(path + ": this is member " + to_string(s.more.group_member) +
			              ", as is " + m.path + ": leave the older copy out");
		std::unique_ptr<char, void (*)(void *)> whole(
		        realpath(path.c_str(), nullptr), free);
		m.path = whole ? strdup(group_relative_path(&group_, whole.get())) : nullptr;
		if (!m.path)
			throw Refused(path, CALL_OPEN, errno, "cannot find the file");
		memcpy(m.uuid, s.uuid, sizeof m.uuid);
		m.state = GROUP_MEMBER;
		if (limit_ < s.more.group_member + 1)
			limit_ = s.more.group_member + 1;
	}

	fur_group group_ = {};
	uint64_t limit_ = 0;
};

int run_rebuild(const Given &given)
{
	need(given, 1, SIZE_MAX, "HEAP");
	Rebuilt group(given.group);
	for (const std::string &heap : given.words)
		group.add(heap);
	group.write();
	return 0;
}

int run(const Given &given)
{
	static const struct {
		const char *name;
		int (*run)(const Given &given);
	} commands[] = {{"create", run_create}, {"add", run_add}, {"remove", run_remove},
	        {"list", run_list}, {"check", run_check}, {"backup", run_backup},
	        {"recover", run_recover}, {"rebuild", run_rebuild}};
	for (const auto &c : commands)
		if (given.command == c.name)
			return c.run(given);
	throw WrongUsage("'" + given.command +
	                 "' is no command: use create, add, remove, list, check, backup, recover "
	                 "or rebuild");
}

} // namespace

int main(int argc, char **argv)
{
	Given given;
	fur_options_init(&given.heap);
	tools::CommandLine line("fur-group",
	        "Make and change a group of heaps.  COMMAND is create; add, with heaps; remove, "
	        "with indices; list; check; backup, with a new directory; recover, after a "
	        "failure; or rebuild, with all heaps of the group, which makes its file again.");
	line.footer =
	        "A group must not be open, but for list.  Exit status: 0 done, 1 not, 2 wrong "
	        "usage.";
	line.argument("COMMAND", given.command, "what to do").required();
	line.argument("GROUP", given.group, "the group's file").required();
	line.arguments("WORD", given.words, "heaps, indices or a directory, as COMMAND takes them");
	line.option("--most-members", given.most_members,
	        "create: how many members the group can have; 0: 64");
	line.flag("--new", given.create, "add: create the heaps");
	line.option("--heap-bytes", given.heap.heap_bytes, "add --new: size; 0: 64M").in_bytes();
	line.option("--max-bytes", given.heap.max_bytes,
	            "add --new: the size up to which the heap may grow; 0: it does not")
	        .in_bytes();
	line.option("--log-bytes", given.heap.log_bytes, "add --new: of each thread's log; 0: 1M")
	        .in_bytes();
	line.option("--ring-slots", given.heap.ring_slots, "add --new: a power of two; 0: 32768");
	line.option("--max-threads", given.heap.max_threads,
	        "add --new: threads that can be registered at one time; 0: 64");
	line.flag("--partial", given.partial,
	        "add, remove, recover: also if members are missing, if no update needs them");
	line.flag("--json", given.as_json, "list: print a JSON object");
	if (auto status = tools::parse_or_exit_status(line, "fur-group", argc, argv))
		return *status;
	try {
		return run(given);
	} catch (const WrongUsage &e) {
		std::cerr << "fur-group: " << e.what() << "\n";
		return tools::EXIT_WRONG_USAGE;
	} catch (const std::exception &e) {
		std::cerr << "fur-group: " << e.what() << "\n";
		return EXIT_BAD_DATA;
	}
}
