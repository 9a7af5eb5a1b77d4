/* SPDX-License-Identifier: BSD-3-Clause
 *
 * backend.cpp - the back end near_emulated: ranks of interpreted elements, in virtual time.
 *
 * Each rank has a host with a clock of its own, or near_options.clock: then each call begins at
 * the time of the thread that makes it, and the thread is busy until the call's end.  A launch runs
 * the kernel to its end at once; the clock says when near_poll() reports that.  No program can tell
 * the difference: on an exclusive machine the host may not look before (INV-NM1), and on a coherent
 * one the memory that it reads while the kernel runs is that of the kernel's end, one of the states
 * that a race allows.
 */
#include "near/backend.h"
#include "element.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <sys/mman.h>
#include <thread>

extern "C" {
#include "base/error.h"
}

namespace near_emu
{
namespace
{

constexpr uint32_t LEAST_STACK = 512; /* kernel.h promises it */

struct Rank {
	uint8_t *memory = nullptr;
	std::vector<Element> elements;
	Program program;
	const near_kernel *kernel = nullptr;
	near_counters counters = {};
	Time ends = 0;
	bool with_elements = false; /* they have the memory, not the host */
	unsigned channel = 0;
};

struct Channel {
	std::mutex mutex; /* ranks on it may be called at once */
	near_channel counters = {};
	Time free = 0; /* it has carried everything */
};

struct Machine {
	Description d;
	near_shape shape = {};
	uint64_t most_instructions = 0, mapped = 0;
	unsigned host_threads = 1;
	const near_clock *clock = nullptr;
	std::vector<Rank> ranks;
	std::unique_ptr<Channel[]> channels;

	~Machine()
	{
		for (Rank &r : ranks)
			if (r.memory)
				munmap(r.memory, mapped);
	}
	Run run_of(const Rank &r) const
	{
		return {&d, &r.program, shape.elements, shape.memory_bytes, most_instructions};
	}
};

/* ----------------------------------------------------------------- time of the host */

/* Run f() at no time of a simulated host: neither is this code simulated, nor the code of the
 * standard library that it may share with a simulated program. */
template <class F>
void unseen(const near_clock *clock, F f)
{
	if (!clock)
		return f();
	clock->unseen([](void *p) { (*static_cast<F *>(p))(); }, &f);
}

/* A call that takes time begins, does its work, and ends. */
template <class F>
void take_time(const Machine &m, Rank &r, F work)
{
	if (m.clock)
		r.counters.host_ps = std::max(r.counters.host_ps, m.clock->enter());
	unseen(m.clock, work);
	if (m.clock)
		m.clock->until(r.counters.host_ps);
}

/* The channel carries these bytes from now on, or, if it is busy, later.  Returns when it has.
 * Only a common clock has an order of several ranks' calls. */
Time carry(Machine &m, const Rank &r, uint64_t near_channel::*counter, uint64_t bytes)
{
	Channel &c = m.channels[r.channel];
	const auto time = static_cast<Time>(m.d.channel_ps_per_byte * static_cast<double>(bytes));
	const std::lock_guard lock(c.mutex);
	const Time now = r.counters.host_ps, begin = m.clock ? std::max(now, c.free) : now;
	c.counters.*counter += bytes;
	c.counters.busy_ps += time;
	return c.free = begin + time;
}

/* The memory changes hands. */
void hand_over(Machine &m, Rank &r, bool with_elements)
{
	r.with_elements = with_elements;
	carry(m, r, &near_channel::control_bytes, m.d.control_bytes);
	r.counters.host_ps += m.d.switching;
	r.counters.switch_ps += m.d.switching;
}

/* ----------------------------------------------------------------- opening */

void check_most(const char *what, uint64_t asked, uint64_t most)
{
	if (asked > most)
		throw std::runtime_error(std::to_string(asked) + " " + what + ": the machine has " +
		                         std::to_string(most) + ", use at most that many");
}

void set_shape(Machine &m, const near_options &o)
{
	const Description &d = m.d;
	check_most("ranks", o.ranks, d.ranks);
	check_most("elements of a rank", o.elements, d.elements);
	check_most("bytes of memory", o.memory_bytes, d.memory_bytes);
	near_shape &s = m.shape;
	s.ranks = o.ranks ? o.ranks : d.ranks;
	s.elements = o.elements ? o.elements : d.elements;
	s.tasklets = d.tasklets;
	s.coherent = d.coherent;
	s.memory_bytes = o.memory_bytes ? o.memory_bytes : d.memory_bytes;
	s.scratch_bytes = d.scratch_bytes;
	s.transfer_align = d.transfer_align, s.transfer_most = d.transfer_most;
	s.locks = d.locks;
	s.channels = d.channels;
	s.mhz = d.mhz;
	m.most_instructions = o.most_instructions;
	m.host_threads = o.host_threads ? o.host_threads : 1;
	m.clock = o.clock;
	m.channels = std::make_unique<Channel[]>(d.channels);
}

void open_rank(Machine &m, Rank &r)
{
	const near_shape &s = m.shape;
	void *memory = mmap(nullptr, m.mapped, PROT_READ | PROT_WRITE,
	        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		throw std::bad_alloc();
	r.memory = static_cast<uint8_t *>(memory);
	r.elements.resize(s.elements);
	for (unsigned k = 0; k < s.elements; k++) {
		r.elements[k].number = k;
		r.elements[k].memory = r.memory + (s.coherent ? 0 : k * s.memory_bytes);
	}
}

int open_machine(const near_options *o, near_shape *shape, void **machine)
{
	try {
		auto m = std::make_unique<Machine>();
		m->d = read_description(o->machine ? o->machine : "upmem");
		set_shape(*m, *o);
		m->mapped = m->shape.memory_bytes * (m->shape.coherent ? 1 : m->shape.elements);
		m->ranks.resize(m->shape.ranks);
		for (unsigned k = 0; k < m->ranks.size(); k++) {
			m->ranks[k].channel = k % m->d.channels;
			open_rank(*m, m->ranks[k]);
		}
		*shape = m->shape;
		*machine = m.release();
		return 0;
	} catch (const std::bad_alloc &) {
		return fur_fail(FUR_ENOMEM,
		        "no memory for the near-memory machine: use fewer ranks or less memory");
	} catch (const std::exception &e) {
		return fur_fail(FUR_EINVAL, "%s", e.what());
	}
}

int emulated_open(const near_options *o, near_shape *shape, void **machine)
{
	int error = 0;
	unseen(o->clock, [&] { error = open_machine(o, shape, machine); });
	return error;
}

void emulated_close(void *machine)
{
	auto *m = static_cast<Machine *>(machine);
	unseen(m->clock, [m] { delete m; });
}

/* ----------------------------------------------------------------- load */

const near_image *image_of(const near_kernel &kernel, const std::string &isa)
{
	for (unsigned k = 0; k < kernel.images->count; k++)
		if (isa == kernel.images->images[k].isa)
			return &kernel.images->images[k];
	return nullptr;
}

void fill_scratch(const Description &d, const Program &p, Element &e)
{
	e.scratch_bytes.assign(d.scratch_bytes, 0);
	std::copy(p.data.begin(), p.data.end(), e.scratch_bytes.begin());
	if (d.coherent)
		e.use.assign(d.scratch_bytes, 0);
	e.scratch = {e.scratch_bytes.data(), d.coherent ? e.use.data() : nullptr, d.scratch_bytes};
}

int load_image(Machine &m, Rank &r, const near_kernel &kernel, const near_image &image)
{
	const Description &d = m.d;
	Program p = read_program(image.elf, image.bytes, d.isa == "rv32im");
	if (p.instructions() > d.program_instructions)
		return fur_fail(FUR_ETOOBIG,
		        "kernel %s has %u instructions, and the program memory of %s has room for "
		        "%u: make it smaller",
		        kernel.name, p.instructions(), d.name.c_str(), d.program_instructions);
	if (p.data.size() + LEAST_STACK > d.scratch_bytes)
		return fur_fail(FUR_ETOOBIG,
		        "kernel %s has %zu bytes of variables and constants, and the scratchpad of "
		        "%s has %u, also for stacks: make it smaller",
		        kernel.name, p.data.size(), d.name.c_str(), d.scratch_bytes);
	r.program = std::move(p);
	for (Element &e : r.elements)
		fill_scratch(d, r.program, e);
	r.kernel = &kernel;
	r.counters = {};
	r.counters.program_instructions = r.program.instructions();
	r.counters.static_bytes = static_cast<uint32_t>(r.program.data.size());
	r.with_elements = false;
	return 0;
}

int load_kernel(Machine &m, unsigned rank, const near_kernel *kernel)
{
	const near_image *image = image_of(*kernel, m.d.isa);
	if (!image)
		return fur_fail(FUR_ENOENT,
		        "kernel %s was built without a compiler for %s: install "
		        "gcc-riscv64-unknown-elf, configure and build again",
		        kernel->name, m.d.isa.c_str());
	try {
		return load_image(m, m.ranks[rank], *kernel, *image);
	} catch (const std::bad_alloc &) {
		return fur_fail(
		        FUR_ENOMEM, "no memory for kernel %s: use fewer elements", kernel->name);
	} catch (const std::exception &e) {
		return fur_fail(FUR_EINVAL, "kernel %s: %s", kernel->name, e.what());
	}
}

int emulated_load(void *machine, unsigned rank, const near_kernel *kernel)
{
	Machine &m = *static_cast<Machine *>(machine);
	int error = 0;
	unseen(m.clock, [&] { error = load_kernel(m, rank, kernel); });
	return error;
}

/* ----------------------------------------------------------------- push and pull */

/* The host's time for a copy; before it, the memory is given back if the elements have it. */
void copy_takes(Machine &m, Rank &r, const near_copy &c, bool push)
{
	near_counters &n = r.counters;
	if (r.with_elements && !m.d.coherent)
		hand_over(m, r, false);
	const uint64_t bytes = c.bytes * c.rows;
	const double ps_per_byte = push ? m.d.push_ps_per_byte : m.d.pull_ps_per_byte;
	const Time carried =
	        carry(m, r, push ? &near_channel::written_bytes : &near_channel::read_bytes, bytes);
	const Time alone = n.host_ps + static_cast<Time>(ps_per_byte * static_cast<double>(bytes)),
	           end = std::max(alone, carried);
	n.channel_ps += end - alone;
	(push ? n.push_ps : n.pull_ps) += end - n.host_ps;
	(push ? n.pushed_bytes : n.pulled_bytes) += bytes;
	n.host_ps = end;
}

uint8_t *row_of(Rank &r, const near_copy &c, unsigned row)
{
	Element &e = r.elements[row];
	return (c.space == NEAR_SHARED ? e.scratch.bytes : e.memory) + c.offset;
}

void emulated_push(void *machine, unsigned rank, const near_copy *c, const void *matrix)
{
	Machine &m = *static_cast<Machine *>(machine);
	Rank &r = m.ranks[rank];
	take_time(m, r, [&] {
		copy_takes(m, r, *c, true);
		for (unsigned k = 0; k < c->rows; k++)
			memcpy(row_of(r, *c, k),
			        static_cast<const uint8_t *>(matrix) + k * c->bytes, c->bytes);
	});
}

void emulated_pull(void *machine, unsigned rank, const near_copy *c, void *matrix)
{
	Machine &m = *static_cast<Machine *>(machine);
	Rank &r = m.ranks[rank];
	take_time(m, r, [&] {
		copy_takes(m, r, *c, false);
		for (unsigned k = 0; k < c->rows; k++)
			memcpy(static_cast<uint8_t *>(matrix) + k * c->bytes, row_of(r, *c, k),
			        c->bytes);
	});
}

/* ----------------------------------------------------------------- launch and poll */

void prepare(Element &e, const Program &p, unsigned tasklets, uint32_t stack)
{
	e.tasklets.assign(tasklets, {});
	e.fault = {};
	e.instructions = e.transfers = e.transferred = e.cycles = 0;
	for (unsigned k = 0; k < tasklets; k++) {
		Tasklet &t = e.tasklets[k];
		t.me = k;
		t.r.pc = p.entry;
		t.r.x[2] = SCRATCH_BASE + e.scratch.size - k * stack;
		t.r.x[3] = GLOBAL_POINTER;
	}
	std::fill(e.use.begin(), e.use.end(), 0);
}

/* INV-NE1: an element of its own depends on nothing that another thread stores. */
void run_all(const Machine &m, Rank &r)
{
	const Run run = m.run_of(r);
	if (m.d.coherent)
		return run_coherent(run, r.elements);
	std::atomic<unsigned> next{0};
	auto work = [&] {
		for (unsigned k; (k = next.fetch_add(1)) < r.elements.size();)
			run_exclusive(run, r.elements[k]);
	};
	std::vector<std::thread> others;
	for (unsigned k = 1; k < m.host_threads; k++)
		others.emplace_back(work);
	work();
	for (std::thread &t : others)
		t.join();
}

void add_up(Machine &m, Rank &r)
{
	near_counters &c = r.counters;
	uint64_t slowest = 0;
	for (const Element &e : r.elements) {
		c.instructions += e.instructions;
		c.transfers += e.transfers;
		c.transferred_bytes += e.transferred;
		slowest = std::max(slowest, e.cycles);
	}
	c.launches++;
	c.cycles += slowest;
	const auto time = static_cast<Time>(static_cast<double>(slowest) * 1e6 / m.d.mhz);
	c.kernel_ps += time;
	hand_over(m, r, true);
	r.ends = c.host_ps + time;
}

int launch(Machine &m, Rank &r, unsigned tasklets)
{
	const auto room = static_cast<uint32_t>(m.d.scratch_bytes - r.program.data.size());
	const uint32_t stack = room / tasklets & ~15u;
	if (stack < LEAST_STACK)
		return fur_fail(FUR_ETOOBIG,
		        "%u tasklets of kernel %s share %u bytes for stacks, and each needs %u: "
		        "launch fewer, or make the shared struct smaller",
		        tasklets, r.kernel->name, room, LEAST_STACK);
	try {
		for (Element &e : r.elements)
			prepare(e, r.program, tasklets, stack);
		run_all(m, r);
	} catch (const std::bad_alloc &) {
		return fur_fail(FUR_ENOMEM, "no memory to run kernel %s: use fewer elements",
		        r.kernel->name);
	}
	add_up(m, r);
	return 0;
}

int emulated_launch(void *machine, unsigned rank, unsigned tasklets)
{
	Machine &m = *static_cast<Machine *>(machine);
	Rank &r = m.ranks[rank];
	int error = 0;
	take_time(m, r, [&] { error = launch(m, r, tasklets); });
	return error;
}

near_state poll(Machine &m, Rank &r, near_fault_report *fault)
{
	carry(m, r, &near_channel::control_bytes, m.d.control_bytes);
	r.counters.host_ps += m.d.poll;
	r.counters.poll_ps += m.d.poll;
	if (r.counters.host_ps < r.ends)
		return NEAR_RUNNING;
	for (const Element &e : r.elements)
		if (e.fault.kind != NEAR_FAULT_NONE) {
			*fault = e.fault;
			return NEAR_FAULTED;
		}
	return NEAR_DONE;
}

near_state emulated_poll(void *machine, unsigned rank, near_fault_report *fault)
{
	Machine &m = *static_cast<Machine *>(machine);
	Rank &r = m.ranks[rank];
	near_state state = NEAR_RUNNING;
	take_time(m, r, [&] { state = poll(m, r, fault); });
	return state;
}

void emulated_count(void *machine, unsigned rank, near_counters *counters)
{
	*counters = static_cast<const Machine *>(machine)->ranks[rank].counters;
}

void emulated_cycles(void *machine, unsigned rank, uint64_t *cycles)
{
	for (const Element &e : static_cast<const Machine *>(machine)->ranks[rank].elements)
		*cycles++ = e.cycles;
}

void emulated_count_channel(void *machine, unsigned channel, near_channel *counters)
{
	Channel &c = static_cast<Machine *>(machine)->channels[channel];
	const std::lock_guard lock(c.mutex);
	*counters = c.counters;
}

} // namespace
} // namespace near_emu

extern "C" const near_backend near_emulated = {
        .name = "emulated",
        .open = near_emu::emulated_open,
        .load = near_emu::emulated_load,
        .push = near_emu::emulated_push,
        .pull = near_emu::emulated_pull,
        .launch = near_emu::emulated_launch,
        .poll = near_emu::emulated_poll,
        .count = near_emu::emulated_count,
        .cycles = near_emu::emulated_cycles,
        .count_channel = near_emu::emulated_count_channel,
        .close = near_emu::emulated_close,
};
