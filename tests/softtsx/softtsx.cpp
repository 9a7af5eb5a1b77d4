/* SPDX-License-Identifier: BSD-3-Clause
 *
 * softtsx.cpp - see softtsx.hpp.  Everything here runs in signal handlers, on an alternate stack:
 * no allocation, no locks but its own.
 */
#include "softtsx.hpp"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(__x86_64__)

namespace softtsx
{
namespace
{

enum { MAX_THREADS = 64, MAX_REGIONS = 64, SIGNAL_STACK = 65536, STACK_COPY = 65536 };

struct Thread {
	std::atomic<int> tid{0};
	/* Cannot touch shared memory: parked by the signal until the world goes on, or queueing for
	 * the world itself. */
	std::atomic<bool> parked{false}, queueing{false};
	char *stack_end;
	char signal_stack[SIGNAL_STACK];
	/* Of the open transaction. */
	bool inside, suspended;
	greg_t fallback, registers[NGREG];
	_libc_fpstate floating;
	char *stack_from;
	char stack[STACK_COPY];
	void *exceptions[2]; /* the C++ runtime's record of those in flight */
};
Thread threads[MAX_THREADS];
thread_local Thread *self;

struct Region {
	char *start;
	size_t bytes;
	char *copy;
};
Region regions[MAX_REGIONS];
int region_count;

std::atomic<bool> world{false};    /* held by the thread with a transaction open */
std::atomic<uint64_t> stopping{0}; /* odd while the world stands still */
std::atomic<uint64_t> begun, committed, aborted, suspends;
std::atomic<unsigned> always{NO_ABORT};
std::atomic<uint64_t> seed{0};
std::atomic<unsigned> one_in{0};
thread_local uint64_t random_state;

[[noreturn]] void fail(const char *what)
{
	fprintf(stderr, "softtsx: %s\n", what);
	abort();
}

/* Parks until the world goes on. */
void park(int)
{
	int kept = errno;
	uint64_t now = stopping.load();
	/* A signal sent before this thread got the world itself may arrive inside its own
	 * transaction: not meant for it any more. */
	if (now & 1 && !self->inside) {
		self->parked = true;
		while (stopping.load() == now)
			sched_yield();
		self->parked = false;
	}
	errno = kept;
}

void take_world()
{
	self->queueing = true;
	while (world.exchange(true))
		sched_yield();
	self->queueing = false;
}

void stop_others()
{
	take_world();
	stopping++;
	for (auto &t : threads)
		if (t.tid && &t != self && !t.queueing)
			syscall(SYS_tgkill, getpid(), t.tid.load(), SIGUSR1);
	for (auto &t : threads)
		while (t.tid && &t != self && !t.parked && !t.queueing)
			sched_yield();
}

void let_others_go()
{
	stopping++;
	/* All have seen it before the next one may stop the world: a flag left over would pass for
	 * a thread that stands still. */
	for (auto &t : threads)
		while (t.parked)
			sched_yield();
	world = false;
}

void save(const ucontext_t *u)
{
	memcpy(self->registers, u->uc_mcontext.gregs, sizeof self->registers);
	memcpy(&self->floating, u->uc_mcontext.fpregs, sizeof self->floating);
	/* The red zone */
	self->stack_from = reinterpret_cast<char *>(u->uc_mcontext.gregs[REG_RSP]) - 128;
	size_t bytes = static_cast<size_t>(self->stack_end - self->stack_from);
	if (bytes > STACK_COPY)
		bytes = STACK_COPY;
	memcpy(self->stack, self->stack_from, bytes);
	memcpy(self->exceptions, abi::__cxa_get_globals(), sizeof self->exceptions);
	for (int r = 0; r < region_count; r++)
		memcpy(regions[r].copy, regions[r].start, regions[r].bytes);
}

void roll_back(ucontext_t *u, unsigned status)
{
	memcpy(abi::__cxa_get_globals(), self->exceptions, sizeof self->exceptions);
	for (int r = 0; r < region_count; r++)
		memcpy(regions[r].start, regions[r].copy, regions[r].bytes);
	size_t bytes = static_cast<size_t>(self->stack_end - self->stack_from);
	memcpy(self->stack_from, self->stack, bytes > STACK_COPY ? size_t(STACK_COPY) : bytes);
	memcpy(u->uc_mcontext.gregs, self->registers, sizeof self->registers);
	memcpy(u->uc_mcontext.fpregs, &self->floating, sizeof self->floating);
	u->uc_mcontext.gregs[REG_RAX] = status;
	u->uc_mcontext.gregs[REG_RIP] = self->fallback;
	self->inside = self->suspended = false;
	aborted++;
	let_others_go();
}

/* The status to abort with now, or NO_ABORT. */
unsigned chance()
{
	if (!one_in)
		return NO_ABORT;
	if (!random_state)
		random_state = seed + static_cast<uint64_t>(self - threads) * 7919 + 1;
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	if ((random_state >> 33) % one_in)
		return NO_ABORT;
	static const unsigned kinds[] = {CONFLICT, CONFLICT, CAPACITY, FAULT};
	return kinds[random_state >> 60 & 3];
}

unsigned as_hardware_says(unsigned status)
{
	return status == FAULT ? 0 : status;
}

void xbegin(ucontext_t *u, greg_t next)
{
	int32_t offset;
	memcpy(&offset, reinterpret_cast<void *>(next - 4), 4);
	if (self->inside)
		fail("xbegin inside a transaction: libfur flattens nesting itself");
	begun++;
	unsigned status = always ? always.load() : chance();
	if (status != NO_ABORT) {
		aborted++;
		u->uc_mcontext.gregs[REG_RAX] = as_hardware_says(status);
		u->uc_mcontext.gregs[REG_RIP] = next + offset;
		return;
	}
	stop_others();
	self->inside = true;
	self->fallback = next + offset;
	save(u);
	u->uc_mcontext.gregs[REG_RIP] = next;
}

/* Goes on at `next`, or aborts by chance. */
void step(ucontext_t *u, greg_t next)
{
	unsigned status = chance();
	if (status != NO_ABORT)
		roll_back(u, as_hardware_says(status));
	else
		u->uc_mcontext.gregs[REG_RIP] = next;
}

void xend(ucontext_t *u, greg_t next)
{
	if (!self->inside)
		fail("xend without xbegin");
	if (self->suspended)
		fail("xend while load tracking is suspended");
	step(u, next);
	if (!self->inside)
		return;
	self->inside = false;
	committed++;
	let_others_go();
}

void suspend(ucontext_t *u, greg_t next, bool to)
{
	if (self->inside && self->suspended == to)
		fail("load tracking suspended twice, or resumed twice");
	self->suspended = to && self->inside;
	suspends += to;
	if (self->inside)
		step(u, next);
	else
		u->uc_mcontext.gregs[REG_RIP] = next;
}

void illegal(int, siginfo_t *, void *context)
{
	auto *u = static_cast<ucontext_t *>(context);
	greg_t rip = u->uc_mcontext.gregs[REG_RIP];
	const unsigned char *at = reinterpret_cast<unsigned char *>(rip);
	/* ud2 stands before each instruction (FUR_TSX_TRAPS): a bare one would run for real where
	 * the processor has TSX. */
	if (at[0] != 0x0f || at[1] != 0x0b)
		fail("an illegal instruction other than ud2");
	at += 2, rip += 2;
	if (!self)
		fail("a transaction on a thread that was not registered");
	if (at[0] == 0xc7 && at[1] == 0xf8)
		xbegin(u, rip + 6);
	else if (at[0] == 0x0f && at[1] == 0x01 && at[2] == 0xd5)
		xend(u, rip + 3);
	else if (at[0] == 0xc6 && at[1] == 0xf8 && self->inside)
		roll_back(u, 1u | static_cast<unsigned>(at[2]) << 24);
	else if (at[0] == 0xc6 && at[1] == 0xf8)
		u->uc_mcontext.gregs[REG_RIP] = rip + 3; /* outside a transaction it does nothing */
	else if (at[0] == 0xf2 && at[1] == 0x0f && at[2] == 0x01 &&
	         (at[3] == 0xe8 || at[3] == 0xe9))
		suspend(u, rip + 4, at[3] == 0xe8);
	else
		fail("ud2 before an instruction that is none of TSX's");
}

} // namespace

void install()
{
	struct sigaction action = {};
	action.sa_sigaction = illegal;
	action.sa_flags = SA_SIGINFO | SA_ONSTACK;
	sigaddset(&action.sa_mask, SIGUSR1);
	sigaction(SIGILL, &action, nullptr);
	action = {};
	action.sa_handler = park;
	action.sa_flags = SA_RESTART | SA_ONSTACK;
	sigaction(SIGUSR1, &action, nullptr);
}

void thread_begin()
{
	Thread *mine = nullptr;
	while (world.exchange(true))
		sched_yield();
	for (auto &t : threads)
		if (!t.tid) {
			mine = &t;
			break;
		}
	if (!mine)
		fail("too many threads");
	pthread_attr_t attributes;
	void *low;
	size_t bytes;
	pthread_getattr_np(pthread_self(), &attributes);
	pthread_attr_getstack(&attributes, &low, &bytes);
	pthread_attr_destroy(&attributes);
	stack_t stack = {};
	stack.ss_sp = mine->signal_stack;
	stack.ss_size = sizeof mine->signal_stack;
	sigaltstack(&stack, nullptr);
	mine->stack_end = static_cast<char *>(low) + bytes;
	mine->inside = mine->suspended = false;
	mine->parked = false;
	self = mine;
	random_state = 0;
	mine->tid = static_cast<int>(syscall(SYS_gettid));
	world = false;
}

void thread_end()
{
	take_world();
	self->tid = 0;
	self = nullptr;
	stack_t none = {};
	none.ss_flags = SS_DISABLE;
	sigaltstack(&none, nullptr);
	world = false;
}

void after_fork()
{
	for (auto &t : threads)
		t.tid = 0;
	self->tid = static_cast<int>(syscall(SYS_gettid));
}

void add_region(void *start, size_t bytes)
{
	if (region_count == MAX_REGIONS)
		fail("too many regions");
	void *copy =
	        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	regions[region_count++] = {static_cast<char *>(start), bytes, static_cast<char *>(copy)};
}

void clear_regions()
{
	while (region_count) {
		region_count--;
		munmap(regions[region_count].copy, regions[region_count].bytes);
	}
}

void always_abort(Status status)
{
	always = status;
}

void random_aborts(uint64_t s, unsigned one)
{
	seed = s * 1000003;
	one_in = one;
}

Counters counters()
{
	return {begun, committed, aborted, suspends};
}

} // namespace softtsx
#endif
