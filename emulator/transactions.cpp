/* SPDX-License-Identifier: BSD-3-Clause
 *
 * transactions.cpp - transactional memory: tracking, conflicts (INV-E2), aborts (INV-E3).  Sources:
 * Power ISA 3.0B, Book II, chapter 5; Intel SDM volume 1, chapter 16.  Where these leave a choice
 * to the implementation: POWER9, and the measurements that machines/power9.toml and tsx.toml name.
 *
 * A checkpoint is the thread's stack from the begin upwards, and its context.  A thread cannot save
 * or restore the stack on which it runs, so a helper coroutine does both.
 */
#include "machine.hpp"

#include <cxxabi.h>
#include <sys/mman.h>

namespace emu
{

using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

static void tell_observer(emu_event event, int thread, int cause)
{
	if (!g.on_event)
		return;
	if (g.self)
		g.observed = g.self->clock;
	Away away;
	g.on_event(event, thread, cause, g.on_event_arg);
}

/* ---------------------------------------------------------------- tracking */

static bool has_read(const Line &line, int thread)
{
	return line.readers[thread / 64] >> (thread % 64) & 1;
}

static void release_lines(Thread &t)
{
	for (Line *line : t.tx.reads)
		line->readers[t.id / 64] &= ~(UINT64_C(1) << t.id % 64);
	for (Line *line : t.tx.writes)
		line->writer = -1;
	if (t.tx.owns_directory) {
		t.core->directory->owners--;
		t.core->directory->lines -= static_cast<unsigned>(t.tx.reads.n);
	}
	t.core->write_lines -= t.tx.write_lines;
	t.tx.owns_directory = false;
	t.tx.write_lines = 0;
	t.tx.reads.n = t.tx.writes.n = t.tx.undo.n = 0;
}

void doom(Thread &t, int cause)
{
	if (!t.tx.active || t.tx.doomed)
		return;
	/* INV-E3: the newest store first, wherever it went. */
	for (size_t i = t.tx.undo.n; i--;)
		memcpy(t.tx.undo[i].at, &t.tx.undo[i].old, t.tx.undo[i].bytes);
	/* Only its own core's cache had the lines that it wrote, and it discards them. */
	for (Line *line : t.tx.writes) {
		line->owner = -1;
		line->sharers &= ~(UINT64_C(1) << (t.core - g.cores));
	}
	release_lines(t);
	uint32_t kept = 0;
	for (uint32_t i = 0; i < t.stores; i++)
		if (!t.store[i].transactional)
			t.store[kept++] = t.store[i];
	t.stores = kept;
	t.tx.doomed = true;
	t.tx.cause = cause;
	g.counters.aborted++;
	tell_observer(EMU_ABORT, t.id, cause);
}

void abort_self(Thread &t, int cause)
{
	doom(t, cause);
	if (!t.tx.suspended)
		rewind(t);
}

static void doom_readers(Line &line, int but, int cause)
{
	for (int word = 0; word < 2; word++)
		for (uint64_t rest = line.readers[word]; rest; rest &= rest - 1) {
			int reader = word * 64 + __builtin_ctzll(rest);
			if (reader != but) {
				line.aborts++;
				doom(*g.threads[reader], cause);
			}
		}
}

static void doom_writer(Line &line, int cause)
{
	line.aborts++;
	doom(*g.threads[line.writer], cause);
}

/* Keep one more line where a core's transactions keep those that they write.  False: it is full. */
static bool take_write_line(Thread &t)
{
	if (t.core->write_lines >= g.d->write_lines)
		return false;
	t.core->write_lines++;
	t.tx.write_lines++;
	return true;
}

/* The same for a line that the transaction reads.  With its first one it takes part of the
 * directory of reads, if not as many transactions as may own a part do already; else its reads lie
 * with the lines that it writes, once each. */
static bool take_read_line(Thread &t, const Line &line)
{
	ReadDirectory &directory = *t.core->directory;
	if (t.tx.reads.n == 0 && directory.owners < g.d->read_lines_owners) {
		t.tx.owns_directory = true;
		directory.owners++;
	}
	if (!t.tx.owns_directory)
		return line.writer == t.id || take_write_line(t);
	if (directory.lines >= g.d->read_lines)
		return false;
	directory.lines++;
	return true;
}

/* INV-E2: the requester wins, so the holders abort before the access is made. */
void claim_write(Thread &t, Line &line, bool transactional)
{
	if (line.region && !line.durable)
		keep_durable(line);
	if (__builtin_expect(line.writer >= 0 && line.writer != t.id, 0))
		doom_writer(line, transactional ? EMU_CONFLICT : EMU_CONFLICT_PLAIN);
	if (__builtin_expect((line.readers[0] | line.readers[1]) != 0, 0))
		doom_readers(line, t.id, transactional ? EMU_CONFLICT : EMU_CONFLICT_PLAIN);
	if (transactional) {
		if (line.writer == t.id)
			return;
		bool there = !t.tx.owns_directory && has_read(line, t.id);
		if (!there && !take_write_line(t)) {
			doom(t, EMU_CAPACITY_WRITE);
			return;
		}
		line.writer = static_cast<int16_t>(t.id);
		t.tx.writes.push(&line);
	} else if (__builtin_expect(line.writer == t.id || has_read(line, t.id), 0)) {
		/* While suspended, a store to a line of the transaction conflicts like any other
		 * thread's (Power ISA 3.0B, Book II, 5.2). */
		doom(t, EMU_SELF_CONFLICT);
	}
}

/* INV-E2, as claim_write().  Loads are tracked unless the transaction is rollback-only or
 * suspended. */
void claim_read(Thread &t, Line &line)
{
	if (__builtin_expect(line.writer >= 0 && line.writer != t.id, 0))
		doom_writer(line, tracking(t) ? EMU_CONFLICT : EMU_CONFLICT_PLAIN);
	if (!tracking(t) || t.tx.rollback_only || t.tx.loads_suspended || has_read(line, t.id))
		return;
	if (!take_read_line(t, line))
		abort_self(t, EMU_CAPACITY_READ);
	line.readers[t.id / 64] |= UINT64_C(1) << t.id % 64;
	t.tx.reads.push(&line);
}

void remember_old(Thread &t, uint8_t *at, size_t bytes)
{
	while (bytes) {
		size_t n = bytes < 8 ? bytes : 8;
		Undo u = {at, 0, n};
		memcpy(&u.old, at, n);
		t.tx.undo.push(u);
		at += n;
		bytes -= n;
	}
}

/* ------------------------------------------------------------- checkpoints */

namespace
{
struct Request {
	Thread *thread;
	bool restore;
};
char began, rewound; /* their addresses tell the two returns apart */
} // namespace

/* INV-E3: the stack, and with the context the registers. */
static void save_checkpoint(Thread &t, fcontext_t context)
{
	auto *from = static_cast<uint8_t *>(context);
	size_t bytes = static_cast<size_t>(t.stack + STACK_BYTES - from);
	if (bytes > t.tx.stack_room) {
		__libc_free(t.tx.stack);
		t.tx.stack_room = bytes * 2;
		t.tx.stack = static_cast<uint8_t *>(__libc_malloc(t.tx.stack_room));
		if (!t.tx.stack)
			abort();
	}
	memcpy(t.tx.stack, from, bytes);
	t.tx.stack_bytes = bytes;
	t.tx.context = context;
}

static void run_helper(transfer_t from)
{
	for (;;) {
		auto *request = static_cast<Request *>(from.data);
		Thread &t = *request->thread;
		bool restore = request->restore;
		if (restore)
			memcpy(t.tx.context, t.tx.stack, t.tx.stack_bytes);
		else
			save_checkpoint(t, from.fctx);
		from = jump_fcontext(t.tx.context, restore ? &rewound : &began);
	}
}

void start_helper()
{
	constexpr size_t bytes = 64 << 10;
	if (!g.helper_stack)
		g.helper_stack = static_cast<uint8_t *>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
		        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0));
	if (g.helper_stack == MAP_FAILED)
		abort();
	g.helper = make_fcontext(g.helper_stack + bytes, bytes, run_helper);
}

void rewind(Thread &t)
{
	t.overlaps = false; /* the loads are discarded */
	charge(t, g.d->abort);
	t.tx.active = t.tx.suspended = t.tx.loads_suspended = t.tx.doomed = false;
	memcpy(abi::__cxa_get_globals(), t.tx.exceptions, sizeof t.tx.exceptions);
	Request request = {&t, true};
	jump_fcontext(g.helper, &request);
	__builtin_unreachable();
}

/* A resume: what a suspend leaves of the two, which take longer the more threads there are (FUR,
 * section 4.2). */
static Time resume_time()
{
	unsigned threads = static_cast<unsigned>(g.thread_count > 1 ? g.thread_count - 1 : 1),
	         most = g.d->cores() * g.d->smt;
	Time one = g.d->suspend_resume[0], all = g.d->suspend_resume[1];
	if (most <= 1 || threads >= most)
		return (most <= 1 ? one : all) - g.d->suspend;
	return one + (all - one) * (threads - 1) / (most - 1) - g.d->suspend;
}

} // namespace emu

using namespace emu;

/* After an abort the status is made from the Thread, not from locals: these are as they were at the
 * begin. */
uint64_t emu_tbegin(enum emu_tx kind)
{
	Thread *t = g.self;
	if (!t)
		return 1 + EMU_DISALLOWED; /* no transactions outside a simulation */
	if (g.d->htm == Htm::NONE || t->core->agent)
		return 1 + EMU_DISALLOWED;
	end_overlap(*t);
	begin_access(*t);
	if (t->tx.active) {
		/* Hardware flattens nested transactions.  libfur never nests them, so a nested
		 * begin is more likely a mistake. */
		abort_self(*t, EMU_NESTED);
		return 1 + EMU_NESTED;
	}
	if (kind == EMU_ROLLBACK_ONLY && !g.d->rollback_only)
		return 1 + EMU_DISALLOWED;
	perform_all(*t);
	t->epoch++;
	charge(*t, g.d->begin);
	memcpy(t->tx.exceptions, abi::__cxa_get_globals(), sizeof t->tx.exceptions);
	Request request = {t, false};
	transfer_t from = jump_fcontext(g.helper, &request);
	g.helper = from.fctx;
	t = g.self;
	if (from.data == &rewound) {
		uint64_t status = static_cast<uint64_t>(t->tx.code) << 8 |
		                  static_cast<uint64_t>(1 + t->tx.cause);
		t->tx.last_code = t->tx.code;
		t->tx.code = 0;
		return status;
	}
	t->tx.active = true;
	t->tx.rollback_only = kind == EMU_ROLLBACK_ONLY;
	t->tx.code = 0;
	g.counters.begun++;
	tell_observer(EMU_BEGIN, t->id, 0);
	return EMU_STARTED;
}

uint64_t emu_texasr(void)
{
	const auto bit = [](unsigned n) { return UINT64_C(1) << (63 - n); };
	if (!g.self)
		return bit(7) | bit(8); /* failure persistent, disallowed */
	uint64_t code = g.self->tx.last_code;
	switch (g.self->tx.cause) {
	case EMU_CONFLICT: return bit(13);
	case EMU_CONFLICT_PLAIN: return bit(12);
	case EMU_SELF_CONFLICT: return bit(11);
	case EMU_CAPACITY_READ:
	case EMU_CAPACITY_WRITE: return bit(10) | bit(7);
	case EMU_EXPLICIT: return code << 56 | bit(31);
	case EMU_NESTED: return bit(9) | bit(7);
	default: return bit(8) | bit(7);
	}
}

void emu_tend(void)
{
	Thread *t = g.self;
	if (!t || !t->tx.active)
		return; /* Power ISA: tend. does nothing outside a transaction */
	end_overlap(*t);
	begin_access(*t);
	if (t->tx.suspended || t->tx.loads_suspended) {
		abort_self(*t, EMU_NESTED);
		return;
	}
	/* Its stores are in memory, and none of them has conflicted. */
	perform_all(*t);
	charge(*t, g.d->commit);
	release_lines(*t);
	t->tx.active = false;
	t->epoch++;
	g.counters.committed++;
	tell_observer(EMU_COMMIT, t->id, 0);
}

void emu_tabort(uint8_t code)
{
	Thread *t = g.self;
	if (!t || !t->tx.active)
		return;
	end_overlap(*t);
	begin_access(*t);
	if (!t->tx.doomed)
		t->tx.code = code;
	abort_self(*t, EMU_EXPLICIT);
}

/* Suspend `which`: all tracking, or the tracking of loads. */
static void suspend_tracking(bool Transaction::*which, bool possible)
{
	Thread *t = g.self;
	if (!t || !t->tx.active)
		return;
	end_overlap(*t);
	begin_access(*t);
	if (t->tx.*which || !possible) {
		abort_self(*t, EMU_NESTED);
		return;
	}
	charge(*t, g.d->suspend);
	t->tx.*which = true;
	tell_observer(EMU_SUSPEND, t->id, 0);
}

static void resume_tracking(bool Transaction::*which)
{
	Thread *t = g.self;
	if (!t || !t->tx.active || !(t->tx.*which))
		return;
	end_overlap(*t);
	begin_access(*t);
	charge(*t, resume_time());
	t->tx.*which = false;
	tell_observer(EMU_RESUME, t->id, 0);
	if (t->tx.doomed && !t->tx.suspended)
		rewind(*t);
}

void emu_tsuspend(void)
{
	suspend_tracking(&Transaction::suspended, g.d && g.d->suspends == Suspend::ALL);
}

void emu_tresume(void)
{
	resume_tracking(&Transaction::suspended);
}

void emu_suspend_loads(void)
{
	suspend_tracking(&Transaction::loads_suspended, g.d && g.d->suspends != Suspend::NONE);
}

void emu_resume_loads(void)
{
	resume_tracking(&Transaction::loads_suspended);
}

bool emu_tcheck(void)
{
	return g.self && g.self->tx.doomed;
}
