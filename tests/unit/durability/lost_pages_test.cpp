/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lost_pages_test.cpp - late updates after an fdatasync that failed.  The kernel takes the pages
 * that it could not write for clean (fsync(2)), so no later fdatasync writes them.  A recovery that
 * relied on them would store half of an update in the heap, and the power could then fail.
 * Usage: lost-pages-test DIRECTORY
 */
#include "../disk.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fur.hpp>
#include <sys/wait.h>

void disk_stop(const std::string &why)
{
	fprintf(stderr, "lost-pages-test: %s\n", why.c_str());
	_exit(3);
}

namespace
{

std::string directory;
std::string file(const char *name)
{
	return directory + "/" + name;
}

unsigned syncs_left = ~0u; /* then the power fails */

void begin_simulation()
{
	disk::power_fails = [](disk::Event event) {
		return event == disk::Event::SYNC && syncs_left-- == 0;
	};
	disk::begin(file("cache"), file("disk"));
}

/* --------------------------------------------------------------- the program */

enum { CELLS = 24, APART = 8192, UPDATES = 40 };

fur::Options options()
{
	fur::Options o;
	o.htm = FUR_HTM_NONE;
	o.pm = FUR_PM_SYNC;
	o.heap_bytes = 4 << 20;
	o.max_threads = 4;
	o.log_bytes = 65536;
	o.ring_slots = 256;
	o.async_ms = 1000000;
	return o;
}

uint64_t *cell(char *cells, int k)
{
	return reinterpret_cast<uint64_t *>(cells + static_cast<ptrdiff_t>(k) * APART);
}

void set_all(fur_update *tx, char *cells, uint64_t value)
{
	for (int k = 0; k < CELLS; k++)
		fur_store(tx, cell(cells, k), value);
}

void create()
{
	fur::Heap heap = fur::Heap::create(file("cache"), options());
	fur::Thread self(heap);
	fur::update(self, [](fur_update *tx) {
		auto *cells = static_cast<char *>(fur_alloc(tx, CELLS * APART));
		set_all(tx, cells, 0);
		fur_set_root(tx, 0, cells);
	});
	heap.close();
	std::filesystem::copy_file(file("cache"), file("disk"));
}

char *root(fur_thread *self)
{
	return fur::read(self, [](fur_ro *tx) { return fur::root<char>(tx, 0); });
}

/* Late updates, of which the fdatasync fails. */
void lose_pages()
{
	begin_simulation();
	fur::Heap heap = fur::Heap::open(file("cache"), options());
	fur::Thread self(heap);
	auto *cells = root(self);
	fur_ticket ticket{};
	for (uint64_t n = 1; n <= UPDATES; n++)
		fur::update(self, ticket, [&](fur_update *tx) { set_all(tx, cells, n); });
	disk::sync_fails = true;
	if (fur_sync(heap) != FUR_EIO)
		disk_stop("fur_sync has not failed");
	raise(SIGKILL);
}

/* Recovery, until the power fails. */
void recover()
{
	begin_simulation();
	fur::Heap heap = fur::Heap::open(file("cache"), options());
	heap.close();
}

/* Is the heap on the disk of one piece? */
void check()
{
	fur::Heap heap = fur::Heap::open(file("disk"), options());
	fur::Thread self(heap);
	auto *cells = root(self);
	for (int k = 0; k < CELLS; k++)
		if (*cell(cells, k) != *cell(cells, 0))
			disk_stop("the heap is torn: cell 0 has " +
			          std::to_string(*cell(cells, 0)) + ", cell " + std::to_string(k) +
			          " has " + std::to_string(*cell(cells, k)));
	heap.close();
}

int in_child(void (*work)())
{
	const pid_t child = fork();
	if (child == 0) {
		try {
			work();
		} catch (const std::exception &e) {
			disk_stop(e.what());
		}
		_exit(0);
	}
	int status;
	waitpid(child, &status, 0);
	return status;
}

void must_end(const char *what, int status, int expected)
{
	if (status != expected)
		disk_stop(std::string(what) + " ended with status " + std::to_string(status));
}

} // namespace

int main(int argc, char **argv)
{
	namespace fs = std::filesystem;
	const auto over = fs::copy_options::overwrite_existing;
	if (argc != 2)
		return 2;
	directory = std::string(argv[1]) + "/lost-pages-" + std::to_string(getpid());
	fs::create_directory(directory);
	must_end("create", in_child(create), 0);
	must_end("the program", in_child(lose_pages), SIGKILL);
	fs::copy_file(file("cache"), file("cache.first"));
	fs::copy_file(file("disk"), file("disk.first"));
	for (unsigned sync = 0; sync < 10; sync++)
		for (disk::seed = 1; disk::seed <= 4; disk::seed++) {
			fs::copy_file(file("cache.first"), file("cache"), over);
			fs::copy_file(file("disk.first"), file("disk"), over);
			syncs_left = sync;
			must_end("recovery", in_child(recover), 0);
			must_end("the check", in_child(check), 0);
		}
	fs::remove_all(directory);
}
