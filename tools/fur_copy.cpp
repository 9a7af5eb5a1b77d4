/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fur_copy.cpp - fur-copy: a copy of a heap, also while a process uses it.
 */
#include "common/command_line.hpp"
#include "internals.hpp"

#include <cinttypes>
#include <iostream>
#include <optional>
#include <sys/random.h>

namespace
{

/* What a copy for a standby begins with, or nothing. */
using Page = std::optional<media_ship>;

int back_up(durability &d, const heap_file &file, const char *to, Page &page)
{
	return page ? backup_for_standby(&d, &file, to, &*page) : backup_heap(&d, &file, to);
}

/* No process has the heap open.  Keep it so while it is copied. */
int copy_closed(durability &d, const heap_file &file, const char *to, Page &page)
{
	if (int error = heap_lock_file(file.fd, HEAP_LOCK_WORKER))
		return error;
	if (file.super->state != MEDIA_CLOSED)
		return fur_fail(FUR_EBUSY,
		        "the heap was not closed: recover it first, with %s; there is no copy",
		        !d.ship.on ? "fur-replayer --once"
		        : control_fenced(d.control)
		                ? "fur-standby, which lets it follow the node that has taken its "
		                  "place"
		                : "fur-ship, together with its shipping log");
	return back_up(d, file, to, page);
}

/* A process has the heap open, or is about to. */
int copy_open(durability &d, const heap_file &file, const char *to, Page &page)
{
	int working = heap_lock_held(file.fd, HEAP_LOCK_WORKING);
	if (working < 0)
		return working;
	if (!working)
		return fur_fail(FUR_EBUSY, "a program is just opening or closing the heap: try "
		                           "again; there is no copy");
	d.replays_for_worker = true;
	return back_up(d, file, to, page);
}

int fail_lineage()
{
	return fur_fail(FUR_EBUSY,
	        "the heap's ship page has no position of its present lineage yet: "
	        "let fur-ship ship some updates, and try again; there is no copy");
}

/* Before the copy begins: the position may move meanwhile. */
int begin_page(const durability &d, const heap_file &file, Page &page)
{
	const control_ship &c = d.control->ship;
	media_ship now;
	if (int error = heap_read_ship_page(&file.geometry, file.super, &now))
		return error;
	if (now.role == MEDIA_NO_ROLE)
		return fur_fail(FUR_EINVAL, "the heap's updates are not shipped, so no standby can "
		                            "follow: make it a primary first, with fur-ship --init "
		                            "HEAP --log NAME; there is no copy");
	if (now.role == MEDIA_PRIMARY && arch_load32_acquire(&c.state) != CONTROL_SHIPS_NOT &&
	        heap_lock_held(file.fd, HEAP_LOCK_WORKING) > 0 &&
	        arch_load(&c.lineage) != now.lineage)
		return fail_lineage();
	now.node = 0;
	while (!now.node)
		if (getrandom(&now.node, sizeof now.node, 0) != sizeof now.node)
			return fur_fail(FUR_ESYS, "no random number for the node: try again");
	page = now;
	return 0;
}

int copy(const char *from, const char *to, bool for_standby, Page &page)
{
	heap_file file;
	durability d;
	int error = heap_open_file(from, HEAP_LOCK_NONE, &file);
	if (error)
		return error;
	error = heap_attach_to_replay(&d, &file);
	if (!error) {
		if (for_standby)
			error = begin_page(d, file, page);
		int used = heap_lock_held(file.fd, HEAP_LOCK_WORKER);
		if (!error)
			error = used < 0 ? used
			        : used   ? copy_open(d, file, to, page)
			                 : copy_closed(d, file, to, page);
		durability_detach(&d);
	}
	heap_close_file(&file);
	return error;
}

} // namespace

int main(int argc, char **argv)
{
	std::string from, to;
	bool for_standby = false;
	Page page;
	tools::CommandLine line("fur-copy",
	        "Copy a heap to a new file, also while a program uses it.  The copy is a closed "
	        "heap with every update that was durable when fur-copy began, and perhaps later "
	        "ones.");
	line.footer = "Exit status: 0 copied, 1 not, 2 wrong usage.";
	line.argument("HEAP", from, "the heap file").required();
	line.argument("COPY", to, "the new file").required();
	line.flag("--for-standby", for_standby,
	        "make the copy a standby of the heap, or of its primary: it follows the same "
	        "shipping log, with fur-standby COPY");
	if (auto status = tools::parse_or_exit_status(line, "fur-copy", argc, argv))
		return *status;
	if (copy(from.c_str(), to.c_str(), for_standby, page)) {
		std::cerr << "fur-copy: " << from << " to " << to << ": " << fur_errormsg() << "\n";
		return 1;
	}
	if (page)
		printf("%s: standby, node %016" PRIx64 ", log %s\n", to.c_str(), page->node,
		        page->log);
	return 0;
}
