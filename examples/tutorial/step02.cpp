/* SPDX-License-Identifier: BSD-3-Clause
 *
 * step02.cpp - step 2 of docs/tutorial.md: count logins in transactions.
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

int run(const std::vector<std::string> &words)
{
	fur::Heap heap = fur::Heap::open_or_create(words.at(0));
	fur::Thread self(heap);
	Site *site = find_site(self);
	std::cout << "login " << login(self, site) << '\n';
	heap.close();
	return 0;
}

} // namespace

int main(int argc, char **argv)
{
	if (argc != 2) {
		std::cerr << "usage: " << argv[0] << " HEAP\n";
		return 2;
	}
	try {
		return run({argv + 1, argv + argc});
	} catch (const std::exception &e) {
		std::cerr << e.what() << '\n';
		return 1;
	}
}
