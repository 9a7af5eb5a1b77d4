/* SPDX-License-Identifier: BSD-3-Clause
 *
 * seed.cpp - see seed.hpp.
 */
#include "seed.hpp"

#include "../../../emulator/emulated.h"
#include "copies.hpp"
#include "run.hpp"

namespace explore
{

Run run;

const std::map<std::string, Work> workloads = {{"intset", Work::INTSET}, {"bank", Work::BANK},
        {"flags", Work::FLAGS}, {"tables", Work::TABLES}, {"words", Work::WORDS},
        {"containers", Work::CONTAINERS}, {"bulk", Work::BULK}, {"tpcc", Work::TPCC},
        {"collections", Work::COLLECTIONS}, {"group", Work::GROUP}};

void point_begin()
{
	EMU_POINT(transaction__begin);
}
void point_read_half()
{
	EMU_POINT(read__half);
	EMU_POINT(read__goes__on);
}
void point_body_end()
{
	EMU_POINT(body__end);
}
void point_returned()
{
	EMU_POINT(transaction__returned);
}
void point_sync()
{
	EMU_POINT(sync__begin);
}
void point_bulk_returned()
{
	EMU_POINT(bulk__returned);
}
void point_gate_closed()
{
	EMU_POINT(gate__closed);
}
void point_handed_over()
{
	EMU_POINT(gate__handed__over);
}
void point_exchanged()
{
	EMU_POINT(operator__exchanged);
}

static void prepare_run(const Options &o, const Plan &plan, uint64_t seed, const std::string &path)
{
	run.o = &o;
	run.htm = plan.htm;
	run.retries = plan.retries;
	run.seed = seed;
	run.threads = o.threads;
	run.operations = o.operations;
	run.update_percent = plan.update_percent;
	run.replay_threads = plan.replay_threads;
	run.preload = plan.preload;
	run.unload_lines = plan.unload_lines;
	run.batch = plan.batch;
	run.rerun = plan.rerun;
	run.aside_percent = plan.aside_percent;
	run.async_percent = plan.async_percent;
	run.joins = plan.joins;
	run.tickets = plan.tickets;
	run.dset_most = plan.dset_most;
	run.moves_percent = plan.moves_percent;
	run.snapshot_percent = plan.snapshot_percent;
	run.snapshot_bytes = plan.snapshot_bytes;
	run.first_on_agent = o.threads - plan.on_agent;
	run.ended = 0;
	run.handed.busy = 0;
	run.handed.thread = -1;
	run.bulk_torn = false;
	run.bulk = nullptr;
	run.work = workloads.at(o.workload);
	run.crash_near_return = plan.crash_near_return ? plan.crash_after : 0;
	run.crash_if_risky = plan.crash_near_return == 2;
	snprintf(run.path, sizeof run.path, "%s", path.c_str());
}

static void attach_oracle()
{
	oracle::start("", 0);
	oracle::current_thread = emu_thread;
	oracle::current_ns = [] { return emu_time() / 1000; };
	emu_on_event([](emu_event event, int thread, int cause,
	                     void *) { oracle::on_event(event, thread, cause); },
	        nullptr);
}

/* Virtual time that a run may take.  An update that fills a table writes back hundreds of lines,
 * and waits for a replay of what others have freed. */
static uint64_t limit_ms()
{
	return run.work == Work::TABLES || run.work == Work::BULK ? 500 : 50;
}

static emu_end simulate(const System &system, const Plan &plan, uint64_t seed)
{
	emu_options options = {};
	options.seed = seed;
	options.perturb = plan.perturb;
	options.crash_after = plan.crash_near_return ? 0 : plan.crash_after;
	options.limit_ns = limit_ms() * 1000000;
	char error[512];
	if (!run.o->order.empty())
		options.order = emu_order_read(run.o->order.c_str(), error, sizeof error);
	if (options.order && emu_order_has_crash(options.order))
		options.crash_after = run.crash_near_return = 0;
	emu_machine *machine = emu_machine_read(plan.machine.c_str(), error, sizeof error);
	if (!machine)
		die(std::string("explore: --machine ") + error);
	if (plan.pm_write_ns) {
		emu_machine_set_pm_write_ns(machine, plan.pm_write_ns);
		emu_machine_set_pm_gap_ns(machine, plan.pm_write_ns);
	}
	emu_machine_set_home(machine, plan.agent_is_home ? EMU_AGENT : EMU_HOST);
	return emu_run(machine, &options, system.simulate, nullptr);
}

static std::string judge(const Options &o, const System &system, emu_end end,
        const std::string &heap, const std::string &path)
{
	if (end == EMU_DEADLOCK)
		return "every thread waits for another: a deadlock";
	if (end == EMU_LATE)
		return "no end after " + std::to_string(limit_ms()) +
		       " ms of virtual time: no progress";
	if (run.bulk_torn)
		return "a bulk update has mapped a record that never existed";
	std::string wrong = oracle::check_isolation(o.asked);
	if (!wrong.empty())
		return wrong;
	if (end != EMU_CRASHED)
		return system.check_recovered(o, path, false);
	/* The machine is off: its mappings are gone, and the medium holds the file.  Recovery gets
	 * a copy, for this process still has the file open, and locked. */
	system.unmap(o);
	copy_heap(path, path + ".image");
	if (o.ships) /* also makes a heap of the image that is recovered without the log */
		wrong = system.check_shipped(o, heap, path + ".image");
	/* A fenced heap is not recovered: what it has lost comes from the log, when it follows. */
	return wrong.empty() && !o.handover ? system.check_recovered(o, path + ".image", true)
	                                    : wrong;
}

Outcome run_seed(const Options &o, const System &system, const Plan &plan, uint64_t seed,
        const std::string &heap, const std::string &path)
{
	copy_heap(heap, path);
	if (o.ships)
		system.make_primary(path);
	prepare_run(o, plan, seed, path);
	attach_oracle();
	emu_end end = simulate(system, plan, seed);
	uint64_t accesses = emu_count().accesses;
	return {judge(o, system, end, heap, path), accesses};
}

} // namespace explore
