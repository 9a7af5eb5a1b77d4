/* SPDX-License-Identifier: BSD-3-Clause
 *
 * step04.cpp - step 4 of docs/tutorial.md: survive kill -9.
 */
#include <ctime>
#include <fur.hpp>
#include <iostream>
#include <new>
#include <string>
#include <vector>

/* Lives in the heap. */
struct Site {
	uint64_t logins;
	int64_t last; /* seconds since 1970 */
};

namespace
{

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

void show(fur_thread *self, const Site *site)
{
	/* Both values are of the same instant. */
	const Site seen = fur::read(self, [&](fur_ro *tx) {
		return Site{fur_load(tx, &site->logins), fur_load(tx, &site->last)};
	});
	std::cout << seen.logins << " logins, the last at " << seen.last << '\n';
}

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

int run(const std::vector<std::string> &words)
{
	fur::Heap heap = fur::Heap::open_or_create(words.at(0));
	fur::Thread self(heap);
	Site *site = find_site(self);
	const std::string command = words.at(1);
	int result = 0;
	if (command == "login")
		std::cout << "login " << login(self, site) << '\n';
	else if (command == "show")
		show(self, site);
	else if (command == "flood")
		flood(self, site);
	else if (command == "verify")
		result = verify(self, site, std::stoull(words.at(2)));
	else
		throw std::invalid_argument(command + ": no such command");
	heap.close();
	return result;
}

} // namespace

int main(int argc, char **argv)
{
	if (argc < 3) {
		std::cerr << "usage: " << argv[0] << " HEAP COMMAND [ARGUMENT...]\n";
		return 2;
	}
	try {
		return run({argv + 1, argv + argc});
	} catch (const std::exception &e) {
		std::cerr << e.what() << '\n';
		return 1;
	}
}
