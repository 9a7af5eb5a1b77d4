/* SPDX-License-Identifier: BSD-3-Clause
 *
 * run.hpp - the run that this process explores: the data of one seed that simulated threads read.
 */
#ifndef EXPLORE_RUN_HPP
#define EXPLORE_RUN_HPP

#include "plan.hpp"

#include <atomic>
#include <map>
#include <string>

namespace explore
{

enum class Work { INTSET, BANK, FLAGS, TABLES, WORDS, CONTAINERS, BULK, TPCC, COLLECTIONS, GROUP };
extern const std::map<std::string, Work> workloads; /* of --workload */

/* A ticket that a thread has handed to the others, with the oracle's mark for it. */
struct alignas(256) Handed {
	std::atomic<uint32_t> busy; /* a thread takes it, or puts another one there */
	int thread;                 /* the ticket's; -1: there is none */
	uint64_t mark;
	unsigned heap; /* of several */
	fur_ticket ticket;
};

/* Aligned, static, and one object: on a stack or on the C heap it would share lines with other
 * data, and runs of one seed would differ with the environment. */
struct alignas(256) Run {
	fur_htm htm;
	uint32_t retries;
	uint64_t seed;
	unsigned threads, operations, update_percent;
	Work work;
	unsigned replay_threads, preload, unload_lines;
	bool batch; /* preloads batch-wise */
	Rerun rerun;
	unsigned aside_percent, async_percent;
	bool joins, tickets;
	uint32_t dset_most;
	unsigned moves_percent;     /* of all transactions */
	unsigned snapshot_percent;  /* of the read-only transactions */
	uint64_t snapshot_bytes;    /* 0: as the library does by itself */
	uint64_t crash_near_return; /* crash near the first return after this access; 0: do not */
	bool crash_if_risky;        /* only after a transaction for which oracle::returned() */
	const Options *o;
	int thread_of[MOST_THREADS + 2]; /* the machine's number of libfur's thread index */
	Handed handed;
	/* The thread whose bulk update is about to be published calls it, on `bulk`. */
	void (*bulk_publishes)(void *bulk);
	void *bulk;
	int bulk_thread; /* of the machine */
	bool bulk_torn;  /* a record was mapped that never existed */
	alignas(256) char path[256];
	/* Threads from this number on run on the machine's agent, if it has one. */
	unsigned first_on_agent;
	/* --handover: threads that do nothing more */
	std::atomic<unsigned> ended;
};
extern Run run;

/* Points for --order, of the calling thread. */
void point_begin();         /* transaction__begin: before it begins */
void point_read_half();     /* read__half, read__goes__on: of a reader of the bank */
void point_body_end();      /* body__end: of an update, before it commits */
void point_returned();      /* transaction__returned: also the wait for a ticket, and fur_sync() */
void point_sync();          /* sync__begin */
void point_bulk_returned(); /* bulk__returned */
void point_exchanged();     /* operator__exchanged: before the operator maps */
/* gate__closed, gate__handed__over: of --handover's shipper, which then looks at the ring, and
 * which has found it drained. */
void point_gate_closed();
void point_handed_over();

/* Sizes of the heap and of a thread's log; a TPC-C order writes much. */
inline uint64_t heap_bytes(const Options &o)
{
	return o.workload == "tpcc" || o.workload == "tables" ? 4 << 20 : 1 << 20;
}
inline uint64_t log_bytes(const Options &o)
{
	return o.workload == "tpcc" ? 65536 : 4096;
}

} // namespace explore

#endif /* EXPLORE_RUN_HPP */
