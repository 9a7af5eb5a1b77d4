/* SPDX-License-Identifier: BSD-3-Clause
 *
 * logins.cpp - a store of logins: who has logged in, how often and when last.  It survives a crash
 * or a power failure with every login that the program has acknowledged.
 *
 *     logins HEAP login NAME...      note a login of each
 *     logins HEAP show               everybody, by name
 *     logins HEAP forget NAME...
 *
 * A heap lies wherever you like: /dev/shm/logins.fur for a try, a disk for good.
 */
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fur/root.hpp>

namespace
{

struct Logins {
	uint64_t count;
	int64_t last;
};

using Users = fur::ordered_map<fur::string, Logins>;

void login(fur_thread *self, Users &users, const char *name)
{
	const int64_t now = time(nullptr);
	/* fur::rerun: the body may run again, for it changes nothing but the heap. */
	const uint64_t count = fur::update(self, fur::rerun, [&](fur_update *tx) {
		const Logins before = users.get(tx, name).value_or(Logins{});
		users.insert_or_assign(tx, name, {before.count + 1, now});
		return before.count + 1;
	});
	/* The login is durable: say so. */
	printf("%s: login %lu\n", name, static_cast<unsigned long>(count));
}

void show(fur_thread *self, const Users &users)
{
	/* In many short transactions, and the output after them: no login waits for it. */
	std::string text;
	fur::scan(self, users, [&](const std::string &name, const Logins &l) {
		char day[32], line[128];
		const time_t last = l.last;
		strftime(day, sizeof day, "%F %T", localtime(&last));
		snprintf(line, sizeof line, " %6lu, last %s\n", static_cast<unsigned long>(l.count),
		        day);
		text += name + std::string(name.size() < 20 ? 20 - name.size() : 0, ' ') + line;
	});
	fputs(text.c_str(), stdout);
}

int run(int argc, char **argv)
{
	fur::Heap heap = fur::Heap::open_or_create(argv[1]);
	fur::Thread self(heap);
	auto *users = fur::root<Users>(self, "users");
	if (!strcmp(argv[2], "show"))
		show(self, *users);
	for (int i = 3; i < argc && !strcmp(argv[2], "login"); i++)
		login(self, *users, argv[i]);
	for (int i = 3; i < argc && !strcmp(argv[2], "forget"); i++)
		fur::update(self, fur::rerun, [&](fur_update *tx) { users->erase(tx, argv[i]); });
	heap.close();
	return 0;
}

} // namespace

int main(int argc, char **argv)
{
	if (argc < 3 || (strcmp(argv[2], "show") && strcmp(argv[2], "login") &&
	                        strcmp(argv[2], "forget"))) {
		fprintf(stderr, "usage: %s HEAP login NAME... | show | forget NAME...\n", argv[0]);
		return 2;
	}
	try {
		return run(argc, argv);
	} catch (const std::exception &e) {
		fprintf(stderr, "%s\n", e.what());
		return 1;
	}
}
