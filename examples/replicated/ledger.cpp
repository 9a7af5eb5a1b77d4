/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ledger.cpp - a ledger of transfers that is on several machines: a transfer that it has printed is
 * in the heap that takes over after a failure.
 *
 *     ledger create HEAP     make the ledger
 *     ledger run HEAP        make transfers until it is stopped, and print the number of each
 *     ledger show HEAP       print how many there are; they must add up
 *
 * demo.py is the whole: brokers, a primary, a standby, and a fail-over.
 */
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fur.hpp>

namespace
{

struct Ledger {
	unsigned long transfers;
	long account[64];
};

volatile std::sig_atomic_t stopping;

fur::Options options()
{
	fur::Options o;
	/* An update returns when it is durable here, and in the log that other machines read.  In a
	 * heap that is not shipped this means: here. */
	o.ack = FUR_ACK_REPLICATED;
	/* Brokers need some seconds to replace one of them that has died. */
	o.ack_patience_ms = 60000;
	return o;
}

void create(const char *path)
{
	fur::Heap heap = fur::Heap::create(path);
	{
		fur::Thread self(heap);
		fur::update(
		        self, [](fur_update *tx) { fur_set_root(tx, 0, fur::make<Ledger>(tx)); });
	}
	heap.close();
}

Ledger *ledger_of(fur::Thread &self)
{
	return fur::read(self, [](fur_ro *tx) { return fur::root<Ledger>(tx, 0); });
}

unsigned long transfer(fur::Thread &self, Ledger *ledger)
{
	return fur::update(self, [&](fur_update *tx) {
		const unsigned long n = fur_load(tx, &ledger->transfers) + 1;
		long *from = &ledger->account[n % 64], *to = &ledger->account[n / 64 % 64];
		fur_store(tx, &ledger->transfers, n);
		fur_store(tx, from, fur_load(tx, from) - 1);
		fur_store(tx, to, fur_load(tx, to) + 1);
		return n;
	});
}

void run(const char *path)
{
	std::signal(SIGTERM, [](int) { stopping = 1; });
	fur::Heap heap = fur::Heap::open(path, options());
	{
		fur::Thread self(heap);
		Ledger *ledger = ledger_of(self);
		while (!stopping) {
			/* When transfer() returns, it is on other machines as well. */
			std::printf("%lu\n", transfer(self, ledger));
			std::fflush(stdout);
		}
	}
	heap.close();
}

/* Of a copy, also while another process has the heap open. */
int show(const char *path)
{
	fur::Heap heap = fur::Heap::open_copy(path);
	fur::Thread self(heap);
	const Ledger *ledger = ledger_of(self);
	long sum = 0;
	const auto transfers = fur::read(self, [&](fur_ro *tx) {
		sum = 0;
		for (const long &a : ledger->account)
			sum += fur_load(tx, &a);
		return fur_load(tx, &ledger->transfers);
	});
	std::printf("%lu transfers%s\n", transfers, sum ? ", which do not add up" : "");
	return sum != 0;
}

} // namespace

int main(int argc, char **argv)
try {
	if (argc == 3 && std::strcmp(argv[1], "create") == 0)
		return create(argv[2]), 0;
	if (argc == 3 && std::strcmp(argv[1], "run") == 0)
		return run(argv[2]), 0;
	if (argc == 3 && std::strcmp(argv[1], "show") == 0)
		return show(argv[2]);
	std::fprintf(stderr, "usage: ledger create|run|show HEAP\n");
	return 2;
} catch (const fur::Error &e) {
	std::fprintf(stderr, "ledger: %s\n", e.what());
	return 1;
}
