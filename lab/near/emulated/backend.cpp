/* SPDX-License-Identifier: BSD-3-Clause
 *
 * backend.cpp - the back end near_emulated: ranks of interpreted elements, in virtual time.
 *
 * Each rank has a host with a clock of its own.  A launch runs the kernel to its end at once; the
 * clock says when near_poll() reports that.  No program can tell the difference: on an exclusive
 * machine the host may not look before (INV-NM1), and on a coherent one the memory that it reads
 * while the kernel runs is that of the kernel's end, one of the states that a race allows.
 */
#include "near/backend.h"
#include "element.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
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
};

struct Machine {
	Description d;
	near_shape shape = {};
	uint64_t most_instructions = 0, mapped = 0;
	unsigned host_threads = 1;
	std::vector<Rank> ranks;

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

Rank &rank_of(void *machine, unsigned rank)
{
	return static_cast<Machine *>(machine)->ranks[rank];
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
	s.mhz = d.mhz;
	m.most_instructions = o.most_instructions;
	m.host_threads = o.host_threads ? o.host_threads : 1;
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

int emulated_open(const near_options *o, near_shape *shape, void **machine)
{
	try {
		auto m = std::make_unique<Machine>();
		m->d = read_description(o->machine ? o->machine : "upmem");
		set_shape(*m, *o);
		m->mapped = m->shape.memory_bytes * (m->shape.coherent ? 1 : m->shape.elements);
		m->ranks.resize(m->shape.ranks);
		for (Rank &r : m->ranks)
			open_rank(*m, r);
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

void emulated_close(void *machine)
{
	delete static_cast<Machine *>(machine);
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

int emulated_load(void *machine, unsigned rank, const near_kernel *kernel)
{
	Machine &m = *static_cast<Machine *>(machine);
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

/* ----------------------------------------------------------------- push and pull */

/* The host's time for a copy; before it, the memory is given back if the elements have it. */
Time begin_copy(const Machine &m, Rank &r, const near_copy &c, double ps_per_byte)
{
	if (r.with_elements && !m.d.coherent) {
		r.with_elements = false;
		r.counters.host_ps += m.d.switching;
		r.counters.switch_ps += m.d.switching;
	}
	const auto time = static_cast<Time>(ps_per_byte * static_cast<double>(c.bytes * c.rows));
	r.counters.host_ps += time;
	return time;
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
	r.counters.push_ps += begin_copy(m, r, *c, m.d.push_ps_per_byte);
	r.counters.pushed_bytes += c->bytes * c->rows;
	for (unsigned k = 0; k < c->rows; k++)
		memcpy(row_of(r, *c, k), static_cast<const uint8_t *>(matrix) + k * c->bytes,
		        c->bytes);
}

void emulated_pull(void *machine, unsigned rank, const near_copy *c, void *matrix)
{
	Machine &m = *static_cast<Machine *>(machine);
	Rank &r = m.ranks[rank];
	r.counters.pull_ps += begin_copy(m, r, *c, m.d.pull_ps_per_byte);
	r.counters.pulled_bytes += c->bytes * c->rows;
	for (unsigned k = 0; k < c->rows; k++)
		memcpy(static_cast<uint8_t *>(matrix) + k * c->bytes, row_of(r, *c, k), c->bytes);
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

void add_up(const Machine &m, Rank &r)
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
	c.switch_ps += m.d.switching;
	c.host_ps += m.d.switching;
	r.ends = c.host_ps + time;
	r.with_elements = true;
}

int emulated_launch(void *machine, unsigned rank, unsigned tasklets)
{
	Machine &m = *static_cast<Machine *>(machine);
	Rank &r = m.ranks[rank];
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

near_state emulated_poll(void *machine, unsigned rank, near_fault_report *fault)
{
	const Machine &m = *static_cast<Machine *>(machine);
	Rank &r = rank_of(machine, rank);
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

void emulated_count(void *machine, unsigned rank, near_counters *counters)
{
	*counters = rank_of(machine, rank).counters;
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
        .close = near_emu::emulated_close,
};
