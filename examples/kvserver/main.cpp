/* SPDX-License-Identifier: BSD-3-Clause
 *
 * main.cpp - kvserver: a server that speaks Redis' protocol, and keeps its keys in a heap.
 */
#include "server.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <getopt.h>

namespace
{

constexpr char USAGE[] =
        "usage: %s [OPTIONS] HEAP\n"
        "  --port N              default 6379; 0: any, which it prints\n"
        "  --bind ADDRESS        default 127.0.0.1\n"
        "  --fsync always        reply when the commands are durable (default)\n"
        "  --fsync everysec      reply at once; a power failure may lose the last second\n"
        "  --most-mb N           up to which the heap may grow, if it is made; default 4096\n"
        "  --log-mb N            the log, if the heap is made, a power of two; default 64\n";

struct Arguments {
	kv::Settings server;
	fur::Options heap;
	const char *path = nullptr;
};

/* A number from `least` to `most`, or the program ends. */
uint64_t number_of(const char *text, uint64_t least, uint64_t most)
{
	int64_t n;
	if (kv::parse_int(text, n) && n >= static_cast<int64_t>(least) &&
	        n <= static_cast<int64_t>(most))
		return static_cast<uint64_t>(n);
	fprintf(stderr, "kvserver: '%s' is no number from %lu to %lu\n", text,
	        static_cast<unsigned long>(least), static_cast<unsigned long>(most));
	exit(2);
}

enum Option { PORT, BIND, FSYNC, MOST, LOG };
constexpr option OPTIONS[] = {{"port", required_argument, nullptr, PORT},
        {"bind", required_argument, nullptr, BIND}, {"fsync", required_argument, nullptr, FSYNC},
        {"most-mb", required_argument, nullptr, MOST}, {"log-mb", required_argument, nullptr, LOG},
        {}};

/* False: there is no such option. */
bool take(int option, const char *text, Arguments &a)
{
	switch (option) {
	case PORT: a.server.port = static_cast<uint16_t>(number_of(text, 0, UINT16_MAX)); break;
	case BIND: a.server.address = text; break;
	case FSYNC:
		a.server.always = strcmp(text, "everysec") != 0;
		return !a.server.always || strcmp(text, "always") == 0;
	case MOST: a.heap.max_bytes = number_of(text, 64, 1 << 20) << 20; break;
	case LOG: a.heap.log_bytes = number_of(text, 1, 1024) << 20; break;
	default: return false;
	}
	return true;
}

bool take_all(int argc, char **argv, Arguments &a)
{
	a.heap.max_bytes = UINT64_C(4096) << 20;
	a.heap.log_bytes = 64 << 20;
	/* With `everysec` each round takes a slot, and libfur replays when half of them are
	 * taken. */
	a.heap.ring_slots = 131072;
	/* How late a reply with --fsync everysec may be durable.  With `always` each round flushes
	 * itself, and a flush in between would be in its way. */
	a.heap.async_ms = 1000;
	for (int o; (o = getopt_long(argc, argv, "", OPTIONS, nullptr)) != -1;)
		if (!take(o, optarg, a))
			return false;
	if (optind + 1 != argc)
		return false;
	a.path = argv[optind];
	return true;
}

void serve(const Arguments &a)
{
	fur::Heap heap = fur::Heap::open_or_create(a.path, a.heap);
	fur::Thread self(heap, "kvserver");
	{
		kv::Server server(self, kv::open_database(self), a.server);
		printf("port %d\n", server.port());
		fflush(stdout);
		server.run();
	}
	heap.close();
}

} // namespace

int main(int argc, char **argv)
{
	Arguments a;
	if (!take_all(argc, argv, a)) {
		fprintf(stderr, USAGE, argv[0]);
		return 2;
	}
	try {
		serve(a);
		return 0;
	} catch (const std::exception &e) {
		fprintf(stderr, "kvserver: %s\n", e.what());
		return 1;
	}
}
