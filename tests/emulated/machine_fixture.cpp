/* SPDX-License-Identifier: BSD-3-Clause
 *
 * machine_fixture.cpp - see machine_fixture.hpp.
 */
#include "machine_fixture.hpp"

#include <cstring>
#include <thread>

Cell cell[512];
uint64_t result[16];

emu_machine *machine_named(const std::string &name)
{
	char error[512];
	emu_machine *m = emu_machine_read(name.c_str(), error, sizeof error);
	if (!m)
		ADD_FAILURE() << error;
	return m;
}

emu_end run(const Spec &spec, const std::vector<Body> &bodies)
{
	emu_machine *m = machine_named(spec.machine);
	emu_options options = {};
	options.seed = spec.seed;
	options.perturb = spec.perturb;
	options.crash_after = spec.crash_after;
	options.order = spec.order;
	options.limit_ns = 100000000;
	memset(result, 0, sizeof result);
	for (auto &c : cell)
		c.value = 0;
	auto *all = const_cast<std::vector<Body> *>(&bodies);
	emu_end end = emu_run(
	        m, &options,
	        [](void *argument) {
		        std::vector<std::thread> threads;
		        for (auto &body : *static_cast<std::vector<Body> *>(argument))
			        threads.emplace_back(body);
		        for (auto &t : threads)
			        t.join();
	        },
	        all);
	emu_machine_free(m);
	return end;
}

int seeds_that(const std::string &machine, const std::vector<Body> &bodies,
        const std::function<bool()> &seen, uint64_t seeds)
{
	for (uint64_t seed = 1; seed <= seeds; seed++) {
		run({machine, seed, 20}, bodies);
		if (seen())
			return 1;
	}
	return 0;
}

uint64_t against(emu_tx kind, const Body &inside, const Body &other, const std::string &machine)
{
	static uint64_t status;
	static emu_tx the_kind;
	static const Body *body;
	the_kind = kind;
	body = &inside;
	run({machine}, {[] {
		                status = emu_tbegin(the_kind);
		                if (status == EMU_STARTED) {
			                (*body)();
			                emu_work(2000);
			                store(cell[100], 1); /* any access: here it finds out */
			                emu_tend();
		                }
	                },
	                       [&other] {
		                       emu_work(1000);
		                       other();
	                       }});
	return status;
}
