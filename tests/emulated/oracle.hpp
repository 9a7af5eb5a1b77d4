/* SPDX-License-Identifier: BSD-3-Clause
 *
 * oracle.hpp - judges a run: did its transactions read the right values, and did the right updates
 * survive a power failure?
 *
 * The workload tells the oracle of the reads, writes and return of each transaction; the machine
 * tells it when a hardware transaction commits or aborts.  From that it knows the order in which
 * updates became visible, and so the state of memory after each: state(k) after the first k.  Then
 *
 *   own       A transaction has read the value that it wrote last, if it wrote the word before.
 *   opacity   An update that became visible as number c has read state(c - 1).  A read-only
 *             transaction, and an attempt that aborted or was defeated, have read state(k) for one
 *             k, between the updates that had returned when it was invoked and those that were
 *             visible when it ended; and read-only transactions do not go back in time.  An
 *             attempt that aborted may also have read a state of another order of the updates, in
 *             which a hardware update comes before one that software published in hardware
 *             meanwhile, and no word of one is a word that the other stored to (INV-SW4).
 *   snapshot  An update has read state(k) for one such k < c, and no update between k and c wrote a
 *             word that it wrote.
 *   durable   After a power failure memory is the effect of a set S of visible updates.  S has
 *             every update that had been answered; with the updates outside S taken out of the
 *             history, all of S, and every read-only transaction that had been answered, have
 *             still read
 *             what the rule above says.  A transaction is answered when it has returned; if it has
 *             ended with a ticket, when a wait for the ticket has returned, or, if it is an update,
 *             one for all updates.
 *
 * S is read off memory: every update that stores numbers itself in a word of its thread's own.  One
 * that only promotes is in S if it was answered.  An update over several heaps stores a number in
 * each, and is in S in all of them, or in none.  Addresses are offsets from the heap's base, all
 * words have 8 bytes.  This file's code is not simulated: it takes no time, and no abort undoes it.
 */
#ifndef ORACLE_HPP
#define ORACLE_HPP

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace oracle
{

enum class Isolation { OPACITY, SNAPSHOT };

/* A run begins.  `initial`: the heap as it is, `bytes` long; it is copied. */
void start(const void *initial, size_t bytes);
/* After it, if that memory holds several heaps: their clocks, from which updates draw durTSs.
 * DurTSs of two heaps tell no order.  The moments of the draws do: the machine makes one at a
 * time. */
void several(const std::vector<const volatile uint64_t *> &clocks);

/* By the thread that runs the transaction, in this order: */
void invoke(bool update, unsigned heap = 0); /* before its begin is called */
/* Its begin has returned, or its body runs, perhaps not for the first time: then the last attempt
 * has been defeated, if it has not aborted */
void attempt();
/* What it reads from now on became visible before: updates that do later are not among it. */
void fixed();
void read(uint64_t at, uint64_t value);  /* after the load */
void write(uint64_t at, uint64_t value); /* after the store */
/* Memory allocated or freed: anything may be in it */
void forget(uint64_t at, size_t bytes);
/* How an update becomes visible. */
enum class Becomes {
	/* When the machine commits its hardware transaction, or when software says so: visible() */
	VISIBLE_LATER,
	/* It stores in place, and no other thread sees that before it has ended */
	VISIBLE_NOW,
	/* It is published: when the machine commits a hardware transaction that stores for it, or
	 * by drawn().  If that transaction aborts, the update does not. */
	PUBLISHED
};
/* Before its end is called; `number`: of the update, in its thread */
void committing(Becomes how, uint64_t number);
/* The same for one over several heaps: for each that it has written, where newest[] of
 * check_durable() has the number of the thread's last update there, and this one's. */
struct Numbered {
	size_t place;
	uint64_t number;
};
void committing(Becomes how, const Numbered *numbers, size_t n);
/* Its end has returned.  True: it has read from an update that has not been answered. */
bool returned(bool committed);
/* Or: its end has returned with a ticket.  Returns a mark: the transactions of this thread that
 * have ended by now. */
uint64_t ended();
/* By any thread: a wait for a ticket of `thread` has returned; `mark`: ended()'s for that ticket.
 * True: a transaction that is answered now has read from an update that has not been answered. */
bool answered(int thread, uint64_t mark, unsigned heap = 0);
/* Or: its end, if it has begun to commit, has returned FUR_EFENCED, and its thread does no more. */
void fenced();
/* A wait for all updates has returned; `mark`: before_sync()'s, before the wait. */
uint64_t before_sync();
bool synced(uint64_t mark, unsigned heap = 0);

/* Events that only software knows, reported by the thread of the transaction: */
void visible(); /* the update that is committing becomes visible now, after all that did before */
/* The committing update has drawn its durTS: if published, it is visible now.  Returns: it is. */
bool drawn(uint64_t durts);
void withdrawn(); /* it does not after all: its attempt will have aborted */
void stored();    /* the update that has drawn is not withdrawn any more; it stores now */
void pending();   /* it is not yet visible, and a power failure may leave it done */
void aborted();   /* the attempt has been rolled back */

/* The machine's: pass to emu_on_event(). */
void on_event(int event, int thread, int cause);

/* The calling thread of the machine, and its virtual time; the driver sets both. */
extern int (*current_thread)();
extern uint64_t (*current_ns)();

/* Nothing, or what is wrong with the run so far. */
std::string check_isolation(Isolation isolation);

/* Nothing, or what is wrong with the heap after recovery.  `newest[t]`: the last update of thread t
 * according to the heap; if there are several, that in each (Numbered). */
std::string check_durable(
        Isolation isolation, const void *heap, const uint64_t *newest, size_t places);

/* Nothing, or an update that has returned FUR_EFENCED, and is in a heap that follows the shipping
 * log. */
std::string check_fenced(const uint64_t *newest, size_t threads);

/* Nothing was lost: the heap holds all updates. */
std::string check_final(const void *heap);

struct Counts {
	uint64_t read_only, updates, attempts, accesses;
	/* Attempts of updates that ended their bodies in software, or in place, or were defeated */
	uint64_t published, in_place, defeated;
};
Counts counts();

/* The whole history, a line an event, a column a thread: the same for the same seed, on every
 * machine.  `only_named`: without the transactions that have nothing to do with the violation found
 * last. */
void print(std::ostream &out, bool only_named);

} // namespace oracle

#endif /* ORACLE_HPP */
