/* SPDX-License-Identifier: BSD-3-Clause
 *
 * count.cpp - the program of steps 1 to 5 of docs/tutorial.md, as step 5 leaves it.  Comments
 * mark what each step adds, and the few lines that a later step replaces.  `sh cut_steps.sh` writes
 * each step as a program without them.
 */
#include <ctime> // from step 2
#include <fur.hpp>
#include <iostream>
#include <new> // from step 2
#include <string>
#include <vector>

// from step 2
/* Lives in the heap. */
struct Site {
	uint64_t logins;
	int64_t last; /* seconds since 1970 */
};

// end of step 2
namespace
{

// from step 2
/* Root 0 leads to the site.  The first run makes it. */
Site *find_site(fur_thread *self)
{
	return fur::update(self, fur::rerun, [&](fur_update *tx) {
		auto *site = fur::root<Site>(tx, 0);
		if (!site) {
			site = fur::make<Site>(tx);
			if (!site)
				throw std::bad_alloc();
			fur_set_root(tx, 0, site);
		}
		return site;
	});
}

/* Returns the number of logins, once this one is durable. */
uint64_t login(fur_thread *self, Site *site)
{
	const int64_t now = time(nullptr);
	return fur::update(self, fur::rerun, [&](fur_update *tx) {
		const uint64_t logins = fur_load(tx, &site->logins) + 1;
		fur_store(tx, &site->logins, logins);
		fur_store(tx, &site->last, now);
		return logins;
	});
}

// end of step 2
// from step 3
void show(fur_thread *self, const Site *site)
{
	/* Both values are of the same instant. */
	const Site seen = fur::read(self, [&](fur_ro *tx) {
		return Site{fur_load(tx, &site->logins), fur_load(tx, &site->last)};
	});
	std::cout << seen.logins << " logins, the last at " << seen.last << '\n';
}

// end of step 3
// from step 4
/* Logs in until someone kills the program.  Each line that it prints acknowledges a login. */
[[noreturn]] void flood(fur_thread *self, Site *site)
{
	for (;;)
		std::cout << login(self, site) << std::endl;
}

/* Fails if the heap has fewer logins than were acknowledged. */
int verify(fur_thread *self, const Site *site, uint64_t acknowledged)
{
	const uint64_t logins =
	        fur::read(self, [&](fur_ro *tx) { return fur_load(tx, &site->logins); });
	std::cout << acknowledged << " logins were acknowledged, the heap has " << logins << '\n';
	return logins < acknowledged;
}

// end of step 4
// from step 5
/* libfur reports rare events here, such as a recovery. */
void log_line(fur_log_level level, const char *message, void *)
{
	if (level != FUR_LOG_INFO)
		std::cerr << fur_name(FUR_NAME_LOG_LEVEL, level) << ": " << message << '\n';
}

// end of step 5
int run(const std::vector<std::string> &words)
{
	// until step 4: fur::Heap heap = fur::Heap::open_or_create(words.at(0));
	// from step 5
	fur::Options options;
	options.log = log_line;
	fur::Heap heap = fur::Heap::open_or_create(words.at(0), options);
	// end of step 5
	// until step 1: std::cout << "a heap of " << (heap.info().heap_bytes >> 20) << " MiB\n";
	// from step 2
	fur::Thread self(heap);
	Site *site = find_site(self);
	// until step 2: std::cout << "login " << login(self, site) << '\n';
	// end of step 2
	// from step 3
	const std::string command = words.at(1);
	int result = 0; // from step 4
	if (command == "login")
		std::cout << "login " << login(self, site) << '\n';
	else if (command == "show")
		show(self, site);
	// from step 4
	else if (command == "flood")
		flood(self, site);
	else if (command == "verify")
		result = verify(self, site, std::stoull(words.at(2)));
	// end of step 4
	else
		throw std::invalid_argument(command + ": no such command");
	// end of step 3
	heap.close();
	// until step 3: return 0;
	return result; // from step 4
}

} // namespace

int main(int argc, char **argv)
{
	// until step 2: if (argc != 2) {
	// until step 2: 	std::cerr << "usage: " << argv[0] << " HEAP\n";
	// from step 3
	if (argc < 3) {
		std::cerr << "usage: " << argv[0] << " HEAP COMMAND [ARGUMENT...]\n";
		// end of step 3
		return 2;
	}
	try {
		return run({argv + 1, argv + argc});
	} catch (const std::exception &e) {
		std::cerr << e.what() << '\n';
		return 1;
	}
}
