/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fur_copy.cpp - fur-copy: a copy of a heap, also while a process uses it.
 */
#include "common/command_line.hpp"
#include "internals.hpp"

#include <iostream>

namespace
{

/* No process has the heap open.  Keep it so while it is copied. */
int copy_closed(durability &d, const heap_file &file, const char *to)
{
	if (int error = heap_lock_file(file.fd, HEAP_LOCK_WORKER))
		return error;
	if (file.super->state != MEDIA_CLOSED)
		return fur_fail(FUR_EBUSY, "the heap was not closed: recover it first, with "
		                           "fur-replayer --once; there is no copy");
	return backup_heap(&d, &file, to);
}

/* A process has the heap open, or is about to. */
int copy_open(durability &d, const heap_file &file, const char *to)
{
	int working = heap_lock_held(file.fd, HEAP_LOCK_WORKING);
	if (working < 0)
		return working;
	if (!working)
		return fur_fail(FUR_EBUSY, "a program is just opening or closing the heap: try "
		                           "again; there is no copy");
	d.replays_for_worker = true;
	return backup_heap(&d, &file, to);
}

int copy(const char *from, const char *to)
{
	heap_file file;
	durability d;
	int error = heap_open_file(from, HEAP_LOCK_NONE, &file);
	if (error)
		return error;
	error = heap_attach_to_replay(&d, &file);
	if (!error) {
		int used = heap_lock_held(file.fd, HEAP_LOCK_WORKER);
		error = used < 0 ? used : used ? copy_open(d, file, to) : copy_closed(d, file, to);
		durability_detach(&d);
	}
	heap_close_file(&file);
	return error;
}

} // namespace

int main(int argc, char **argv)
{
	std::string from, to;
	tools::CommandLine line("fur-copy",
	        "Copy a heap to a new file, also while a program uses it.  The copy is a closed "
	        "heap with every update that was durable when fur-copy began, and perhaps later "
	        "ones.");
	line.footer = "Exit status: 0 copied, 1 not, 2 wrong usage.";
	line.argument("HEAP", from, "the heap file").required();
	line.argument("COPY", to, "the new file").required();
	if (auto status = tools::parse_or_exit_status(line, "fur-copy", argc, argv))
		return *status;
	if (copy(from.c_str(), to.c_str())) {
		std::cerr << "fur-copy: " << from << " to " << to << ": " << fur_errormsg() << "\n";
		return 1;
	}
	return 0;
}
