/* SPDX-License-Identifier: BSD-3-Clause
 *
 * sessions.cpp - sessions that expire: docs/designing.md, "Entries that expire", as a program.
 *
 *     sessions HEAP start TOKEN USER SECONDS    begin a session, or extend it
 *     sessions HEAP user TOKEN                  whose session it is, if it has not expired
 *     sessions HEAP stop TOKEN
 *     sessions HEAP sweep                       free the sessions that have expired
 */
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fur/root.hpp>
#include <string>
#include <vector>

namespace
{

struct Session {
	uint64_t user;
	int64_t deadline;
};

struct Sessions {
	fur::hash_map<fur::string, Session> by_token;
	/* One entry for each session: the sweep finds those that have expired at the front. */
	fur::ordered_multimap<int64_t, fur::string> by_deadline;
};

using Token = std::string;

bool stop(fur_update *tx, Sessions &all, const Token &token)
{
	const auto session = all.by_token.get(tx, token);
	if (!session)
		return false;
	all.by_deadline.erase(tx, session->deadline, token);
	all.by_token.erase(tx, token);
	return true;
}

void start(fur_update *tx, Sessions &all, const Token &token, const Session &session)
{
	stop(tx, all, token);
	all.by_token.insert(tx, token, session);
	all.by_deadline.insert(tx, session.deadline, token);
}

/* A session whose deadline has passed is not there, whether the sweep has been by or not. */
std::optional<Session> find(fur_ro *tx, const Sessions &all, const Token &token, int64_t now)
{
	auto session = all.by_token.get(tx, token);
	if (session && session->deadline <= now)
		session.reset();
	return session;
}

/* In updates of up to 100 sessions, so that none of them is long.   Returns: how many it has
 * freed. */
size_t sweep(fur_thread *self, Sessions &all, int64_t now)
{
	enum : size_t { PART = 100 };
	size_t freed = 0, part;
	do {
		part = fur::update(self, fur::rerun, [&](fur_update *tx) {
			size_t n = 0;
			auto at = all.by_deadline.in(tx).begin();
			while (n < PART && at != all.by_deadline.in(tx).end() && at->first <= now) {
				all.by_token.erase(tx, at->second);
				at = all.by_deadline.erase(tx, at);
				n++;
			}
			return n;
		});
		freed += part;
	} while (part == PART);
	return freed;
}

int run(int argc, char **argv)
{
	const std::string what = argv[2];
	fur::Heap heap = fur::Heap::open_or_create(argv[1]);
	fur::Thread self(heap);
	auto *all = fur::root<Sessions>(self, "sessions");
	const int64_t now = time(nullptr);
	if (what == "start" && argc == 6) {
		const Session session = {strtoull(argv[4], nullptr, 10), now + atoll(argv[5])};
		fur::update(self, fur::rerun,
		        [&](fur_update *tx) { start(tx, *all, argv[3], session); });
	} else if (what == "user" && argc == 4) {
		const auto session =
		        fur::read(self, [&](fur_ro *tx) { return find(tx, *all, argv[3], now); });
		printf("%s\n", session ? std::to_string(session->user).c_str() : "none");
	} else if (what == "stop" && argc == 4) {
		const bool there = fur::update(
		        self, fur::rerun, [&](fur_update *tx) { return stop(tx, *all, argv[3]); });
		printf("%s\n", there ? "stopped" : "none");
	} else if (what == "sweep" && argc == 3) {
		printf("%zu\n", sweep(self, *all, now));
	} else {
		fprintf(stderr, "not a command: see the head of sessions.cpp\n");
		return 2;
	}
	heap.close();
	return 0;
}

} // namespace

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: %s HEAP start|user|stop|sweep ...\n", argv[0]);
		return 2;
	}
	try {
		return run(argc, argv);
	} catch (const std::exception &e) {
		fprintf(stderr, "%s\n", e.what());
		return 1;
	}
}
