/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exclusive.cpp - an element whose memory is its own: UPMEM's DPU.
 *
 * The pipeline issues one instruction a cycle, and a tasklet's instructions at least `revolve`
 * cycles apart, so `revolve` tasklets fill it.  A tasklet that transfers waits.  The element's
 * engine works on fixed parts of several transfers at once, but on the data, and the last `busy`
 * cycles before them, of one.
 */
#include "element.hpp"
#include "near/kernel_calls.h"

#include <algorithm>
#include <cmath>

namespace near_emu
{
namespace
{

/* Tasklets that can go on, in the order of their turns. */
class Turns
{
public:
	struct Turn {
		Tasklet *tasklet = nullptr;
		uint64_t ready = 0; /* cycle */
		unsigned ahead =
		        0; /* instructions that are executed, and whose cycles are to come */
	};

	bool empty() const
	{
		return first_ == last_;
	}
	Turn pop()
	{
		return at_[first_++ % PLACES];
	}
	/* Behind all that are ready no later.  Mostly that is the end: a tasklet that has issued is
	 * ready `revolve` cycles after it, later than those that issued before. */
	void push(Tasklet *t, uint64_t ready, unsigned ahead = 0)
	{
		unsigned k = last_++;
		for (; k != first_ && at_[(k - 1) % PLACES].ready > ready; k--)
			at_[k % PLACES] = at_[(k - 1) % PLACES];
		at_[k % PLACES] = {t, ready, ahead};
	}

private:
	static constexpr unsigned PLACES = 32; /* above the tasklets; a power of two */
	Turn at_[PLACES];
	unsigned first_ = 0, last_ = 0;
};

constexpr unsigned MOST_AHEAD = 30;

class Dpu
{
public:
	Dpu(const Run &run, Element &e)
	    : run_(run), d_(*run.d), e_(e), locks_(d_.locks),
	      most_(run.most_instructions ? run.most_instructions : UINT64_MAX)
	{
		for (Tasklet &t : e.tasklets)
			turns_.push(&t, 0);
		alive_ = static_cast<unsigned>(e.tasklets.size());
	}

	void run()
	{
		while (alive_ && e_.fault.kind == NEAR_FAULT_NONE) {
			Tasklet *t = compute();
			if (!t)
				report_deadlock();
			else if (what_ == Step::CALL)
				call(*t);
			else
				report(e_, *t, fault_.kind, fault_.address);
			if (issued_ == most_ && e_.fault.kind == NEAR_FAULT_NONE)
				report(e_, *t, NEAR_FAULT_STUCK, 0);
		}
		e_.instructions += issued_;
		e_.cycles = std::max(now_, engine_free_);
	}

private:
	struct Lock {
		Tasklet *holder = nullptr;
		std::deque<Tasklet *> waiting;
	};

	/* Execute instructions that follow, as far as they use nothing but registers: no program
	 * can tell when they were executed, and one tasklet's instructions in a row are faster than
	 * those of many in turn.  Each still issues in its own cycle.  Returns how many. */
	static unsigned run_ahead(
	        const Insn *code, uint32_t instructions, const Scratch &scratch, Registers &r)
	{
		/* An instruction with a fault stays, and has it again in its turn. */
		StepFault ignored;
		unsigned n = 0;
		while (n < MOST_AHEAD && is_local(code[r.pc].op) &&
		        step(code, instructions, scratch, r, ignored) != Step::FAULT)
			n++;
		return n;
	}

	/* Issue instructions until one of them is a call or a fault.  Returns its tasklet, or NULL
	 * if no tasklet can go on.  Works on copies: the compiler must suppose that a store to the
	 * scratchpad changes everything else in memory. */
	Tasklet *compute()
	{
		const Insn *const code = run_.program->code.data();
		const uint32_t instructions = run_.program->instructions();
		const Scratch scratch = e_.scratch;
		const unsigned revolve = d_.revolve;
		const uint64_t most = most_;
		Turns turns = turns_;
		uint64_t now = now_, issued = issued_;
		Tasklet *t = nullptr;
		Step what = Step::NEXT;
		while (!turns.empty()) {
			Turns::Turn turn = turns.pop();
			now = std::max(now + 1, turn.ready);
			issued++;
			if (turn.ahead == 0) {
				t = turn.tasklet;
				what = step(code, instructions, scratch, t->r, fault_);
				if (what >= Step::CALL) [[unlikely]]
					break;
				turn.ahead = 1 + run_ahead(code, instructions, scratch, t->r);
			}
			t = turn.tasklet;
			if (issued == most) [[unlikely]]
				break;
			turns.push(t, now + revolve, turn.ahead - 1);
			t = nullptr;
		}
		if (t)
			t->ready = now + revolve;
		turns_ = turns, now_ = now, issued_ = issued, what_ = what;
		return t;
	}

	void report_deadlock()
	{
		for (Tasklet &t : e_.tasklets)
			if (!t.returned)
				report(e_, t, NEAR_FAULT_DEADLOCK, 0);
	}

	void call(Tasklet &t)
	{
		Call c(run_.program->code[t.r.pc], t.r);
		switch (c.which) {
		case NEAR_CALL_PLACE: store_place(run_, e_, t, c); break;
		case NEAR_CALL_READ:
		case NEAR_CALL_PRELOAD: transfer(t, c, d_.dma_read, true); break;
		case NEAR_CALL_WRITE:
		case NEAR_CALL_UNLOAD: transfer(t, c, d_.dma_write, false); break;
		case NEAR_CALL_WAIT: break;
		case NEAR_CALL_SYNC: synchronise(t, c); break;
		default: end(t, c); break;
		}
		if (e_.fault.kind != NEAR_FAULT_NONE)
			return;
		t.r.pc++;
		if (!t.waits && !t.returned)
			turns_.push(&t, t.ready);
	}

	void transfer(Tasklet &t, Call &c, const Line &line, bool read)
	{
		if (!check_transfer(run_, e_, t, c))
			return;
		uint8_t *const scratch = e_.scratch.bytes + c.scratch;
		uint8_t *const memory = e_.memory + c.memory;
		if (read)
			memcpy(scratch, memory, c.bytes);
		else
			memcpy(memory, scratch, c.bytes);
		const auto alone = static_cast<uint64_t>(line.fixed - d_.dma_busy);
		const uint64_t begin = std::max(now_ + alone, engine_free_);
		engine_free_ = begin + static_cast<uint64_t>(
		                               std::llround(d_.dma_busy + line.each * c.bytes));
		t.ready = std::max(t.ready, engine_free_);
	}

	void synchronise(Tasklet &t, const Call &c)
	{
		if (c.detail == 2)
			return barrier(t);
		if (c.scratch >= d_.locks)
			return report(e_, t, NEAR_FAULT_LOCK, c.scratch);
		Lock &lock = locks_[c.scratch];
		if (c.detail == 0) {
			if (!lock.holder) {
				lock.holder = &t;
				return;
			}
			t.waits = true;
			lock.waiting.push_back(&t);
			return;
		}
		if (lock.holder != &t)
			return report(e_, t, NEAR_FAULT_LOCK, c.scratch);
		lock.holder = nullptr;
		if (lock.waiting.empty())
			return;
		lock.holder = lock.waiting.front();
		lock.waiting.pop_front();
		wake(*lock.holder);
	}

	void wake(Tasklet &t)
	{
		t.waits = false;
		t.ready = std::max(t.ready, now_ + 1);
		turns_.push(&t, t.ready);
	}

	void barrier(Tasklet &t)
	{
		t.waits = true;
		at_barrier_.push_back(&t);
		open_if_full(&t);
	}

	/* `caller` goes on by itself. */
	void open_if_full(const Tasklet *caller)
	{
		if (at_barrier_.size() < alive_)
			return;
		for (Tasklet *t : at_barrier_) {
			if (t == caller)
				t->waits = false;
			else
				wake(*t);
		}
		at_barrier_.clear();
	}

	void end(Tasklet &t, const Call &c)
	{
		if (c.detail)
			return report(e_, t, NEAR_FAULT_KERNEL, c.scratch);
		t.returned = true;
		alive_--;
		open_if_full(nullptr);
	}

	const Run &run_;
	const Description &d_;
	Element &e_;
	Turns turns_;
	std::vector<Lock> locks_;
	std::vector<Tasklet *> at_barrier_;
	uint64_t now_ = 0, engine_free_ = 0; /* cycles */
	unsigned alive_ = 0;
	const uint64_t most_; /* instructions */
	uint64_t issued_ = 0;
	Step what_ = Step::NEXT; /* the last instruction */
	StepFault fault_;
};

} // namespace

void run_exclusive(const Run &run, Element &e)
{
	Dpu(run, e).run();
}

} // namespace near_emu
