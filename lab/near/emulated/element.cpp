/* SPDX-License-Identifier: BSD-3-Clause
 *
 * element.cpp - what both kinds of elements do alike.
 */
#include "element.hpp"

namespace near_emu
{

void report(Element &e, const Tasklet &t, near_fault_kind kind, uint32_t address)
{
	if (e.fault.kind != NEAR_FAULT_NONE)
		return;
	e.fault.kind = kind;
	e.fault.element = e.number;
	e.fault.tasklet = t.me;
	e.fault.address = address;
	e.fault.pc = CODE_BASE + 4 * t.r.pc;
}

bool check_transfer(const Run &run, Element &e, const Tasklet &t, Call &call)
{
	const Description &d = *run.d;
	const uint32_t low = d.transfer_align - 1;
	if (call.bytes == 0 || call.bytes > d.transfer_most ||
	        ((call.bytes | call.memory | call.scratch) & low)) {
		report(e, t, NEAR_FAULT_TRANSFER, call.memory);
		return false;
	}
	if (call.memory > run.memory_bytes || call.bytes > run.memory_bytes - call.memory) {
		report(e, t, NEAR_FAULT_MEMORY, call.memory);
		return false;
	}
	const uint32_t at = call.scratch - SCRATCH_BASE;
	if (at > e.scratch.size || call.bytes > e.scratch.size - at) { /* INV-NI1 */
		report(e, t, NEAR_FAULT_SCRATCH, call.scratch);
		return false;
	}
	call.scratch = at;
	e.transfers++;
	e.transferred += call.bytes;
	return true;
}

void store_place(const Run &run, const Element &e, Tasklet &t, const Call &call)
{
	const unsigned values[] = {
	        t.me, static_cast<unsigned>(e.tasklets.size()), e.number, run.elements};
	t.r.x[call.rd] = values[call.detail];
}

} // namespace near_emu
