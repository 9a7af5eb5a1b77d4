/* SPDX-License-Identifier: BSD-3-Clause
 *
 * host_emulated.cpp - host.hpp on an emulated machine.
 */
#include "host.hpp"

#include "../../emulator/emulated.h"
#include "../../tools/common/command_line.hpp"
#include "near/emulated/near_host.h"

#include <exception>
#include <memory>

namespace lab
{

namespace
{

struct Run {
	const std::function<void()> &f;
	std::exception_ptr failure;
};

/* An exception does not leave a simulated thread. */
void run_in(void *argument)
{
	auto &r = *static_cast<Run *>(argument);
	try {
		r.f();
	} catch (...) {
		r.failure = std::current_exception();
	}
}

} // namespace

void on_host(
        const std::string &host, unsigned threads, uint64_t seed, const std::function<void()> &f)
{
	char error[512];
	const std::unique_ptr<emu_machine, void (*)(emu_machine *)> machine(
	        emu_machine_read(host.c_str(), error, sizeof error), emu_machine_free);
	if (!machine)
		throw tools::WrongUsage("--host " + std::string(error));
	if (threads > emu_machine_threads(machine.get()))
		throw tools::WrongUsage("--threads " + std::to_string(threads) + ": " + host +
		                        " has " +
		                        std::to_string(emu_machine_threads(machine.get())));
	emu_options options = {};
	options.seed = seed;
	Run run{f, nullptr};
	const emu_end end = emu_run(machine.get(), &options, run_in, &run);
	if (run.failure)
		std::rethrow_exception(run.failure);
	if (end != EMU_DONE)
		throw std::runtime_error("the run on " + host + " did not end: every thread waits");
}

void aside(const std::function<void()> &f)
{
	Run run{f, nullptr};
	emu_unseen(run_in, &run);
	if (run.failure)
		std::rethrow_exception(run.failure);
}

uint64_t now_ps()
{
	return emu_ticks();
}

void prefetch_lines(const void *p, unsigned lines)
{
	for (unsigned k = 0; k < lines; k++)
		emu_prefetch(static_cast<const char *>(p) + k * 64, false);
}

uint64_t fetched_lines()
{
	return emu_count().l3_fills;
}

void idle()
{
	emu_pause();
}

const near_clock *clock_of_modules()
{
	return &near_host_clock;
}

bool is_native()
{
	return false;
}

} // namespace lab
