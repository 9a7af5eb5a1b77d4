/* SPDX-License-Identifier: BSD-3-Clause
 *
 * machine_fixture.hpp - runs bodies on the emulated machine, for the tests of its rules.  Thread 1,
 * 2, ... are steered by emu_work(): in virtual time the thread that has worked longer comes later,
 * whatever the seed.
 */
#ifndef MACHINE_FIXTURE_HPP
#define MACHINE_FIXTURE_HPP

#include "../../emulator/emulated.h"

#include <functional>
#include <gtest/gtest.h>
#include <string>
#include <vector>

struct alignas(256) Cell {
	uint64_t value, gap[31];
};
extern Cell cell[512];
extern uint64_t result[16];

using Body = std::function<void()>;

struct Spec {
	std::string machine = "power9";
	uint64_t seed = 1;
	uint32_t perturb = 0;
	uint64_t crash_after = 0;
	const emu_order *order = nullptr;
};

emu_machine *machine_named(const std::string &name);

/* Each body on a thread of its own. */
emu_end run(const Spec &spec, const std::vector<Body> &bodies);

/* With how many of this many seeds `seen` happens, up to the first one. */
int seeds_that(const std::string &machine, const std::vector<Body> &bodies,
        const std::function<bool()> &seen, uint64_t seeds = 2000);

/* One transaction, held open for a microsecond; `other` runs in the middle of it.  Returns the
 * transaction's status. */
uint64_t against(
        emu_tx kind, const Body &inside, const Body &other, const std::string &machine = "power9");

/* Work until the virtual time `ns`.  emu_work() alone would take longer on a core that other
 * threads also use. */
inline void work_until(uint64_t ns)
{
	while (emu_ticks() < ns * 1000)
		emu_work(100);
}

inline uint64_t load(const Cell &c)
{
	return __atomic_load_n(&c.value, __ATOMIC_RELAXED);
}
inline void store(Cell &c, uint64_t value)
{
	__atomic_store_n(&c.value, value, __ATOMIC_RELAXED);
}
inline int cause_of(uint64_t status)
{
	return static_cast<int>(status & 0xff) - 1;
}

#endif /* MACHINE_FIXTURE_HPP */
