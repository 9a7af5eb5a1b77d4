/* SPDX-License-Identifier: BSD-3-Clause
 *
 * order.cpp - an order of points that threads keep (emu_order_read, emu_point), and the pairs of
 * points that threads have met (emu_point_pairs).
 *
 * A round begins with no thread bound to a variable.  `at` is the step that comes next.  A thread
 * that is bound is held at a point if that is its own next step, and others come before it.  When
 * the last step has happened, or too long after the last that has, a new round begins, and lets go
 * every thread that is held.
 */
#include "machine.hpp"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

/* Made by the linker: the names that EMU_POINT() has put there. */
extern "C" {
extern const char *const __start_emu_points[] __attribute__((weak, visibility("hidden")));
extern const char *const __stop_emu_points[] __attribute__((weak, visibility("hidden")));
}

struct emu_order {
	struct Step {
		int who;           /* variable, or CRASH */
		const char *point; /* its name */
	};
	enum { MOST_STEPS = 16, CRASH = -1 };
	Step step[MOST_STEPS];
	int steps, variables;
};

namespace emu
{

namespace
{

/* Virtual time from one step of a round until the round is over: longer than any update takes by
 * itself. */
constexpr Time ROUND = 100000000;

struct Round {
	const emu_order *order;
	uint64_t number;
	int at;
	Time until;                       /* no thread is held later */
	Time since;                       /* the last step */
	int bound[emu_order::MOST_STEPS]; /* the variables' threads, or NOBODY */
	/* When threads that are held arrived, or NEVER.  Of a thread that an abort has taken out of
	 * the hold, until its next point. */
	Time held[EMU_MAX_THREADS];
};
constexpr int NOBODY = -1;
Round round;

void begin_round(Time now)
{
	round.number++;
	round.at = 0;
	round.since = now;
	for (int &thread : round.bound)
		thread = NOBODY;
}

int variable_of(const Thread &t)
{
	for (int v = 0; v < round.order->variables; v++)
		if (round.bound[v] == t.id)
			return v;
	return NOBODY;
}

/* The first step of the round that is still to come and `who`'s; `steps` if there is none. */
int next_step_of(int who, int from)
{
	while (from < round.order->steps && round.order->step[from].who != who)
		from++;
	return from;
}

/* The step that a thread which is not bound could take here: the first of a variable without a
 * thread. */
int step_to_bind(const char *point)
{
	const emu_order &o = *round.order;
	for (int v = 0; v < o.variables; v++) {
		int i = next_step_of(v, 0);
		if (round.bound[v] == NOBODY && strcmp(o.step[i].point, point) == 0)
			return i;
	}
	return o.steps;
}

/* The thread's step at this point, or `steps`. */
int step_here(const Thread &t, const char *point)
{
	const emu_order &o = *round.order;
	int who = variable_of(t);
	if (who == NOBODY)
		return step_to_bind(point);
	int i = next_step_of(who, round.at);
	return i < o.steps && strcmp(o.step[i].point, point) == 0 ? i : o.steps;
}

/* Those that are held look again, now. */
void let_go(Time now)
{
	for (int id = 0; id < EMU_MAX_THREADS; id++)
		if (Time arrived = round.held[id]; arrived != NEVER)
			hasten(*g.threads[id], now > arrived ? now : arrived);
}

void step_happens(const Thread &t)
{
	const emu_order &o = *round.order;
	round.since = t.clock;
	if (++round.at < o.steps && o.step[round.at].who == emu_order::CRASH)
		end_run(EMU_CRASHED);
	if (round.at == o.steps)
		begin_round(t.clock);
	let_go(t.clock);
}

/* Let the others run until a step happens, or the round is over. */
void hold(Thread &t)
{
	round.held[t.id] = t.clock;
	wait_until(t, round.since + ROUND + 1);
	round.held[t.id] = NEVER;
}

void arrive(Thread &t, const char *point)
{
	/* So that threads arrive in the order of their clocks. */
	round.held[t.id] = NEVER;
	if (t.clock > g.next)
		give_way(t);
	if (t.clock > round.since + ROUND)
		begin_round(t.clock);
	int step = step_here(t, point);
	if (step == round.order->steps)
		return;
	round.bound[round.order->step[step].who] = t.id;
	uint64_t number = round.number;
	while (round.number == number && round.at < step) {
		if (t.clock > round.since + ROUND)
			begin_round(t.clock);
		else
			hold(t);
	}
	if (round.number == number && round.at == step)
		step_happens(t);
}

} // namespace

void reset_order(const emu_order *order)
{
	round = {};
	round.order = order;
	begin_round(0);
	for (Time &arrived : round.held)
		arrived = NEVER;
	/* The run's limit is for the program, not for the time for which it is held. */
	round.until = g.limit;
	if (order && g.limit < NEVER / 2)
		g.limit *= 2;
}

} // namespace emu

using namespace emu;

/* --------------------------------------------------------------------- pairs */

static struct {
	uint64_t bits[EMU_POINTS * EMU_POINTS / 64];
	unsigned point; /* the last one */
	int thread;     /* that reached it; NOBODY: there is none */
} pairs = {{}, 0, NOBODY};

const uint64_t *emu_point_pairs(void)
{
	return pairs.bits;
}

static void record_pair(int thread, const char *name)
{
	unsigned hash = 0;
	for (const char *c = name; *c; c++)
		hash = hash * 31 + static_cast<unsigned char>(*c);
	const unsigned point = hash % EMU_POINTS, bit = pairs.point * EMU_POINTS + point;
	if (pairs.thread != NOBODY && pairs.thread != thread)
		pairs.bits[bit / 64] |= UINT64_C(1) << bit % 64;
	pairs.point = point;
	pairs.thread = thread;
}

void emu_point(const char *name)
{
	if (g.self)
		record_pair(g.self->id, name);
	if (__builtin_expect(round.order != nullptr, 0) && g.self && g.self->clock < round.until)
		arrive(*g.self, name);
}

/* ------------------------------------------------------------------- reading */

static std::string known_points()
{
	std::vector<std::string> names;
	for (const char *const *p = __start_emu_points; p != __stop_emu_points; p++)
		names.push_back(*p);
	std::sort(names.begin(), names.end());
	names.erase(std::unique(names.begin(), names.end()), names.end());
	std::string all;
	for (const std::string &name : names)
		all += (all.empty() ? "" : ", ") + name;
	return all;
}

static const char *point_named(const std::string &name)
{
	for (const char *const *p = __start_emu_points; p != __stop_emu_points; p++)
		if (name == *p)
			return *p;
	return nullptr;
}

/* The words of one step: nothing, or what is wrong with it. */
static std::string read_step(
        emu_order &o, std::vector<std::string> &variables, const std::vector<std::string> &words)
{
	if (o.steps == emu_order::MOST_STEPS)
		return "more than " + std::to_string(emu_order::MOST_STEPS) + " steps";
	emu_order::Step &step = o.step[o.steps++];
	if (words.size() == 1 && words[0] == "crash" && o.steps > 1) {
		step = {emu_order::CRASH, nullptr};
		return "";
	}
	if (words.size() != 2)
		return "step " + std::to_string(o.steps) +
		       ": use 'VARIABLE POINT', or, after a step, 'crash'";
	auto v = std::find(variables.begin(), variables.end(), words[0]);
	step = {static_cast<int>(v - variables.begin()), point_named(words[1])};
	if (v == variables.end())
		variables.push_back(words[0]);
	return step.point ? "" : "no point " + words[1] + ": use " + known_points();
}

/* Split at white space. */
static std::vector<std::string> words_of(const std::string &text)
{
	std::vector<std::string> words;
	std::istringstream in(text);
	for (std::string word; in >> word;)
		words.push_back(word);
	return words;
}

struct emu_order *emu_order_read(const char *text, char *error, size_t error_bytes)
{
	auto *o = new emu_order{};
	std::vector<std::string> variables;
	std::string rest = text, wrong;
	for (bool last = false; !last && wrong.empty();) {
		size_t end = rest.find('<');
		last = end == std::string::npos;
		wrong = read_step(*o, variables, words_of(rest.substr(0, end)));
		rest = last ? "" : rest.substr(end + 1);
	}
	o->variables = static_cast<int>(variables.size());
	if (wrong.empty())
		return o;
	snprintf(error, error_bytes, "%s", wrong.c_str());
	delete o;
	return nullptr;
}

bool emu_order_has_crash(const struct emu_order *o)
{
	for (int i = 0; i < o->steps; i++)
		if (o->step[i].who == emu_order::CRASH)
			return true;
	return false;
}
