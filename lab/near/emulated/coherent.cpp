/* SPDX-License-Identifier: BSD-3-Clause
 *
 * coherent.cpp - a rank whose elements share one memory: PUL's near-data processing.
 *
 * An element has a core and two engines, for preloads and for unloads.  Cores and engines have
 * clocks of their own.  A core runs by itself up to its next call.  Calls of cores, and requests
 * that engines issue to the memory, happen in the order of their clocks; of equal ones the lowest
 * number is first.
 *
 * A request takes the core some cycles, and enters its engine's queue; a full queue makes the core
 * wait.  The engine issues requests one after the other, no faster than its own data path carries
 * them.  The memory takes them one after the other, no faster than its bandwidth and its least time
 * between two, and answers each after its latency.  The latencies overlap.
 *
 *   INV-NC1  A transfer's bytes move when its core has waited for it, not before: late enough to
 *            show every kernel that does not wait (kernel.h, INV-NM2 to INV-NM4).
 */
#include "element.hpp"
#include "near/kernel.h"
#include "near/kernel_calls.h"

#include <algorithm>

namespace near_emu
{
namespace
{

constexpr Time NEVER = UINT64_MAX;

struct Engine {
	std::deque<Transfer> queue; /* in order of their requests; done ones leave at a wait */
	unsigned issued = 0;        /* of them */
	Time free = 0;              /* the next request may be issued */
	uint32_t size_register = 0;
};

enum class Waits { NO, ROOM, QUEUE, TRANSFER, OTHERS };

struct Core {
	Element *e = nullptr;
	Tasklet *t = nullptr;
	Engine engines[2]; /* preloads, unloads */
	Waits waits = Waits::NO;
	unsigned engine = 0; /* that it waits for */
	bool has_call = false;
};

class Rank
{
public:
	Rank(const Run &run, std::vector<Element> &elements)
	    : run_(run), d_(*run.d),
	      cycle_(d_.cycle()), cycles_of_{1, d_.load, d_.jump, d_.multiply, d_.divide, 1, 1},
	      most_(run.most_instructions ? run.most_instructions : UINT64_MAX), locks_(d_.locks),
	      cores_(elements.size())
	{
		for (unsigned k = 0; k < cores_.size(); k++) {
			cores_[k].e = &elements[k];
			cores_[k].t = &elements[k].tasklets[0];
		}
		alive_ = static_cast<unsigned>(cores_.size());
	}

	void run()
	{
		while (alive_ && !faulty_) {
			Core *core = nullptr;
			Engine *engine = nullptr;
			Core *owner = nullptr;
			const Time first = find_first(core, owner, engine);
			if (first == NEVER)
				report_deadlock();
			else if (engine)
				issue(*owner, *engine, first);
			else
				go_on(*core);
		}
		for (Core &c : cores_)
			c.e->cycles = (c.t->ready + cycle_ - 1) / cycle_;
	}

private:
	struct Lock {
		Core *holder = nullptr;
		std::deque<Core *> waiting;
	};

	/* Requests go before calls of the same time. */
	Time find_first(Core *&core, Core *&owner, Engine *&engine)
	{
		Time first = NEVER;
		for (Core &c : cores_) {
			for (Engine &n : c.engines) {
				if (n.issued == n.queue.size())
					continue;
				const Time at = std::max(n.free, n.queue[n.issued].done);
				if (at < first || (at == first && !engine))
					first = at, owner = &c, engine = &n;
			}
			if (c.waits == Waits::NO && !c.t->returned && c.t->ready < first)
				first = c.t->ready, core = &c, engine = nullptr;
		}
		return first;
	}

	void fail(Core &c, near_fault_kind kind, uint32_t address)
	{
		report(*c.e, *c.t, kind, address);
		faulty_ = true;
	}

	void report_deadlock()
	{
		for (Core &c : cores_)
			if (!c.t->returned)
				fail(c, NEAR_FAULT_DEADLOCK, 0);
	}

	/* ------------------------------------------------------------- engines */

	unsigned kind_of(const Core &c, const Engine &n) const
	{
		return static_cast<unsigned>(&n - c.engines);
	}

	void issue(Core &c, Engine &n, Time now)
	{
		Transfer &t = n.queue[n.issued++];
		const bool read = kind_of(c, n) == 0;
		const Memory &m = d_.memory;
		const auto data = static_cast<Time>(t.bytes * d_.engine_ps_per_byte);
		const Time begin = std::max(now, memory_free_);
		memory_free_ = begin + std::max(m.gap, static_cast<Time>(t.bytes * m.ps_per_byte));
		n.free = now + std::max(d_.engine_gap, data);
		t.issued = true;
		t.done = begin + (read ? m.read : m.write) + data + d_.engine_latency;
		awaken(c);
	}

	/* Let a core go on if it waited for what its engine has issued now. */
	void awaken(Core &c)
	{
		Engine &n = c.engines[c.engine];
		Time at = 0;
		if (c.waits == Waits::ROOM && n.queue.front().issued)
			at = n.queue.front().done;
		else if (c.waits == Waits::QUEUE && n.issued == n.queue.size())
			at = n.queue.empty() ? 0 : n.queue.back().done;
		else if (c.waits == Waits::TRANSFER && n.queue.back().issued)
			at = n.queue.back().done;
		else
			return;
		c.t->ready = std::max(c.t->ready, at);
		if (c.waits == Waits::ROOM) /* the call is still to be done */
			finish_first(c, n);
		else
			c.t->ready += d_.status * cycle_;
		if (c.waits == Waits::TRANSFER)
			finish_last(c, n);
		while (c.waits == Waits::QUEUE && !n.queue.empty())
			finish_first(c, n);
		c.waits = Waits::NO;
	}

	void copy(Core &c, const Engine &n, const Transfer &t)
	{
		uint8_t *const scratch = c.e->scratch.bytes + t.scratch;
		uint8_t *const memory = c.e->memory + t.memory;
		if (kind_of(c, n) == 0)
			memcpy(scratch, memory, t.bytes);
		else
			memcpy(memory, scratch, t.bytes);
	}

	/* INV-NC1 */
	void finish_first(Core &c, Engine &n)
	{
		const Transfer t = n.queue.front();
		mark(c, t, 0);
		copy(c, n, t);
		n.queue.pop_front();
		n.issued--;
	}

	/* Of a local read or write: the queue may have others before it. */
	void finish_last(Core &c, Engine &n)
	{
		copy(c, n, n.queue.back());
		n.queue.pop_back();
		n.issued--;
	}

	void mark(Core &c, const Transfer &t, uint8_t flags)
	{
		memset(c.e->scratch.use + t.scratch, flags, t.bytes);
	}

	/* ------------------------------------------------------------- cores */

	void go_on(Core &c)
	{
		if (c.has_call) {
			c.has_call = false;
			call(c);
			if (c.has_call || c.waits != Waits::NO || c.t->returned || faulty_)
				return;
		}
		StepFault fault;
		const Step what = compute(c, fault);
		if (what == Step::CALL)
			c.has_call = true;
		else if (what == Step::FAULT)
			fail(c, fault.kind, fault.address);
		if (c.e->instructions == most_)
			fail(c, NEAR_FAULT_STUCK, 0);
	}

	/* Up to a call or a fault, on copies (exclusive.cpp says why). */
	Step compute(Core &c, StepFault &fault)
	{
		const Insn *const code = run_.program->code.data();
		const uint32_t instructions = run_.program->instructions();
		const Scratch scratch = c.e->scratch;
		Registers &r = c.t->r;
		uint64_t cycles = 0, n = c.e->instructions;
		const uint64_t most = most_;
		Step what;
		do {
			what = step(code, instructions, scratch, r, fault);
			cycles += cycles_of_[static_cast<unsigned>(what)];
		} while (++n != most && what < Step::CALL);
		c.e->instructions = n;
		c.t->ready += cycles * cycle_;
		return what;
	}

	void call(Core &c)
	{
		Tasklet &t = *c.t;
		Call k(run_.program->code[t.r.pc], t.r);
		bool done = true;
		switch (k.which) {
		case NEAR_CALL_PLACE: store_place(run_, *c.e, t, k); break;
		case NEAR_CALL_READ: done = request(c, k, 0, true); break;
		case NEAR_CALL_PRELOAD: done = request(c, k, 0, false); break;
		case NEAR_CALL_WRITE: done = request(c, k, 1, true); break;
		case NEAR_CALL_UNLOAD: done = request(c, k, 1, false); break;
		case NEAR_CALL_WAIT:
			c.waits = Waits::QUEUE;
			c.engine = k.detail == NEAR_UNLOADS;
			awaken(c);
			break;
		case NEAR_CALL_SYNC: synchronise(c, k); break;
		default: end(c, k); break;
		}
		if (faulty_)
			return;
		if (done)
			t.r.pc++;
		else
			c.has_call = true;
	}

	/* Does the scratchpad's part have a use that the transfer must not have? */
	bool clashes(Core &c, const Call &k, unsigned kind)
	{
		const uint8_t bad = kind == 0 ? FILLING | LEAVING : FILLING;
		for (uint32_t at = 0; at < k.bytes; at++)
			if (c.e->scratch.use[k.scratch + at] & bad) {
				fail(c, kind == 0 ? NEAR_FAULT_OVERWRITTEN : NEAR_FAULT_CONSUMED,
				        k.scratch + at + SCRATCH_BASE);
				return true;
			}
		return false;
	}

	/* False: there was no room, and the call is to be done again when the oldest request is
	 * done. */
	bool request(Core &c, Call &k, unsigned kind, bool waited)
	{
		Engine &n = c.engines[kind];
		c.engine = kind;
		if (n.queue.size() == d_.fifo) {
			c.waits = Waits::ROOM;
			awaken(c);
			return false;
		}
		if (!check_transfer(run_, *c.e, *c.t, k)) {
			faulty_ = true;
			return true;
		}
		if (clashes(c, k, kind))
			return true;
		const bool resized = n.size_register != k.bytes;
		n.size_register = k.bytes;
		c.t->ready += (d_.request + (resized ? d_.size : 0)) * cycle_;
		Transfer t{.scratch = k.scratch, .memory = k.memory, .bytes = k.bytes};
		t.done = c.t->ready; /* until it is issued: when it was asked for */
		n.queue.push_back(t);
		if (waited)
			c.waits = Waits::TRANSFER;
		else
			mark(c, t, kind == 0 ? FILLING : LEAVING);
		return true;
	}

	void synchronise(Core &c, const Call &k)
	{
		if (k.detail != 0 && !c.engines[1].queue.empty()) /* INV-NM4 */
			return fail(c, NEAR_FAULT_RELEASED, k.scratch);
		c.t->ready += d_.lock * cycle_;
		if (k.detail == 2)
			return barrier(c);
		if (k.scratch >= d_.locks)
			return fail(c, NEAR_FAULT_LOCK, k.scratch);
		Lock &lock = locks_[k.scratch];
		if (k.detail == 0) {
			if (lock.holder) {
				c.waits = Waits::OTHERS;
				lock.waiting.push_back(&c);
			} else {
				lock.holder = &c;
			}
			return;
		}
		if (lock.holder != &c)
			return fail(c, NEAR_FAULT_LOCK, k.scratch);
		lock.holder = nullptr;
		if (lock.waiting.empty())
			return;
		lock.holder = lock.waiting.front();
		lock.waiting.pop_front();
		wake(*lock.holder, c.t->ready);
	}

	void wake(Core &c, Time now)
	{
		c.waits = Waits::NO;
		c.t->ready = std::max(c.t->ready, now);
	}

	void barrier(Core &c)
	{
		c.waits = Waits::OTHERS;
		at_barrier_.push_back(&c);
		open_if_full(c.t->ready);
	}

	void open_if_full(Time now)
	{
		if (at_barrier_.size() < alive_)
			return;
		for (Core *c : at_barrier_)
			wake(*c, now);
		at_barrier_.clear();
	}

	void end(Core &c, const Call &k)
	{
		if (k.detail)
			return fail(c, NEAR_FAULT_KERNEL, k.scratch);
		if (!c.engines[0].queue.empty() || !c.engines[1].queue.empty()) /* INV-NM4 */
			return fail(c, NEAR_FAULT_UNFINISHED, 0);
		c.t->returned = true;
		alive_--;
		open_if_full(c.t->ready);
	}

	const Run &run_;
	const Description &d_;
	const Time cycle_;
	const uint64_t cycles_of_[7]; /* Step */
	const uint64_t most_;         /* instructions of an element */
	std::vector<Lock> locks_;
	std::vector<Core> cores_;
	std::vector<Core *> at_barrier_;
	Time memory_free_ = 0;
	unsigned alive_ = 0;
	bool faulty_ = false;
};

} // namespace

void run_coherent(const Run &run, std::vector<Element> &elements)
{
	Rank(run, elements).run();
}

} // namespace near_emu
