/* SPDX-License-Identifier: BSD-3-Clause
 *
 * machine_emulated.cpp - machine.hpp on an emulated machine: one of the descriptions that come with
 * it, by name, or a file.
 */
#include "../../emulator/emulated.h"
#include "driver.hpp"

#include <chrono>
#include <exception>
#include <iostream>
#include <memory>

namespace bench
{

namespace
{

/* Neither this nor the data that it refers to lies on the process's stack: the kernel places the
 * stack anew each time, to 16 bytes, so the data would spread over lines differently, and fetching
 * a single extra line changes the run. */
struct alignas(128) Run {
	Options o;
	std::function<int(Options &)> run;
	int status;
	std::exception_ptr failure;
};

void run_in(void *argument)
{
	auto &r = *static_cast<Run *>(argument);
	try {
		r.status = r.run(r.o);
	} catch (...) {
		r.failure = std::current_exception();
	}
}

} // namespace

int on_machine(Options &o, char **, const std::function<int(Options &)> &run)
{
	char error[512];
	std::unique_ptr<emu_machine, void (*)(emu_machine *)> machine(
	        emu_machine_read(o.machine.c_str(), error, sizeof error), emu_machine_free);
	if (!machine)
		throw Usage("--machine " + std::string(error));
	if ((o.tm == "fur-paper" || o.tm == "spht-sihtm") && !emu_machine_is_power(machine.get()))
		throw Usage("--tm " + o.tm +
		            " needs POWER's transactional memory: use --machine power9");
	if (o.threads > emu_machine_threads(machine.get()))
		throw Usage("--threads " + std::to_string(o.threads) + ": " +
		            emu_machine_name(machine.get()) + " has " +
		            std::to_string(emu_machine_threads(machine.get())));
	o.most_threads = std::min(o.most_threads, emu_machine_threads(machine.get()));
	o.tm_options.threads = o.most_threads;
	if (!o.home.empty() && !emu_machine_agent_threads(machine.get()))
		throw Usage("--home " + o.home + ": " + emu_machine_name(machine.get()) +
		            " has no coherent agent: leave it out, or use --machine ccix-ndp");
	if (!o.home.empty())
		emu_machine_set_home(machine.get(), o.home == "device" ? EMU_AGENT : EMU_HOST);
	if (o.tm_options.pm_latency_ns)
		emu_machine_set_pm_write_ns(machine.get(), o.tm_options.pm_latency_ns);
	if (o.tm_options.pm_gap_ns)
		emu_machine_set_pm_gap_ns(machine.get(), o.tm_options.pm_gap_ns);
	/* One delay for a record, whatever its length (specpmt.hpp). */
	if (o.tm == "specpmt-paper")
		emu_machine_set_pm_gap_ns(machine.get(), 0);
	if (o.tm_options.pm_read_ns)
		emu_machine_set_pm_read_ns(machine.get(), o.tm_options.pm_read_ns);
	o.tm_options.machine_has_pm = true;
	/* For the result to say. */
	o.tm_options.pm_latency_ns = static_cast<uint32_t>(emu_machine_pm_write_ns(machine.get()));
	o.tm_options.pm_gap_ns = static_cast<uint32_t>(emu_machine_pm_gap_ns(machine.get()));
	o.tm_options.pm_read_ns = static_cast<uint32_t>(emu_machine_pm_read_ns(machine.get()));
	emu_options options = {};
	options.seed = o.seed;
	auto r = std::make_unique<Run>(Run{o, run, 1, nullptr});
	auto started = std::chrono::steady_clock::now();
	emu_end end = emu_run(machine.get(), &options, run_in, r.get());
	if (r->failure)
		std::rethrow_exception(r->failure);
	if (end == EMU_DEADLOCK)
		throw std::runtime_error("every thread waits for another: a deadlock");
	if (o.tm_options.phases) {
		double seconds =
		        std::chrono::duration<double>(std::chrono::steady_clock::now() - started)
		                .count();
		emu_counters n = emu_count();
		std::cerr << n.accesses << " accesses simulated in " << seconds
		          << " s: " << static_cast<double>(n.accesses) / seconds / 1e6
		          << " M/s; hardware transactions begun " << n.begun << ", committed "
		          << n.committed << ", aborted " << n.aborted << "\n";
		const void *line;
		unsigned aborts;
		for (unsigned rank = 0; rank < 8 && emu_hot_line(rank, &line, &aborts); rank++)
			std::cerr << aborts << " aborts for the line at " << line << "\n";
	}
	return r->status;
}

const char *machine_htm()
{
	const emu_machine *m = emu_current_machine();
	return !m || !emu_machine_has_htm(m) ? nullptr : emu_machine_is_power(m) ? "power" : "tsx";
}

bool to_agent()
{
	return emu_move(EMU_AGENT);
}

unsigned agent_threads()
{
	return emu_machine_agent_threads(emu_current_machine());
}

const char *home_side()
{
	return emu_machine_home(emu_current_machine()) == EMU_AGENT ? "device" : "host";
}

void spin()
{
	emu_pause();
}

void aside(const std::function<void()> &f)
{
	std::exception_ptr failure;
	auto guarded = [&] {
		try {
			f();
		} catch (...) {
			failure = std::current_exception();
		}
	};
	emu_unseen([](void *g) { (*static_cast<decltype(guarded) *>(g))(); }, &guarded);
	if (failure)
		std::rethrow_exception(failure);
}

} // namespace bench
