/* SPDX-License-Identifier: BSD-3-Clause
 *
 * command_log.cpp - two blocks of the log for each batch.
 *
 * The first has, of each queue, the numbers of its records, and of each record its head and the
 * parameters that it uses.  The second has the turns of the local records, queue by queue.
 */
#include "command_log.hpp"

#include <algorithm>
#include <cstddef>

namespace tide
{

namespace
{

using lab::Bytes;

enum Kind : uint8_t { PARTS, TURNS };

/* Of a record, behind its parameters */
constexpr size_t HEAD = sizeof(tide_record) - offsetof(tide_record, rank);

/* A module's part, and its place in the order of the module. */
struct Placed {
	uint64_t place;
	Part part;
};
constexpr uint64_t BEHIND_DISTRIBUTED = uint64_t(1) << 32;

struct Batch {
	std::vector<Placed> parts; /* queue by queue */
};

Batch decoded(Bytes &block, unsigned modules)
{
	Batch batch;
	for (unsigned queue = 0; queue < modules * TIDE_TASKLETS; queue++) {
		const auto distributed = block.take<uint8_t>(), local = block.take<uint8_t>();
		for (unsigned k = 0; k < unsigned(distributed) + local; k++) {
			Placed p = {};
			p.part.module = queue / TIDE_TASKLETS;
			tide_record &r = p.part.record;
			block.take_bytes(&r.rank, HEAD);
			block.take_bytes(r.parameter, r.bytes);
			p.place = r.rank;
			batch.parts.push_back(p);
		}
	}
	return batch;
}

/* Runs the batch again, with the turns of its local parts. */
void execute(Batch batch, Bytes &turns, Tide &system)
{
	for (Placed &p : batch.parts)
		if (!p.part.record.distributed)
			p.place = BEHIND_DISTRIBUTED + turns.take<uint32_t>();
	std::stable_sort(batch.parts.begin(), batch.parts.end(),
	        [](const Placed &a, const Placed &b) { return a.place < b.place; });
	for (const Placed &p : batch.parts) {
		Transaction t;
		t.ordered = true;
		t.parts.push_back(p.part);
		system.submit(std::move(t));
	}
	system.run_all();
}

} // namespace

CommandLog::CommandLog(fur_heap *heap, unsigned list) : log_(heap, list) {}

void CommandLog::keep_parts(const std::vector<tide_queue> &queues)
{
	static_assert(TIDE_RECORDS <= UINT8_MAX);
	block_.clear();
	block_.put(PARTS);
	for (const tide_queue &q : queues) {
		block_.put(static_cast<uint8_t>(q.distributed));
		block_.put(static_cast<uint8_t>(q.local));
		for (uint64_t k = 0; k < q.distributed + q.local; k++) {
			block_.put_bytes(&q.record[k].rank, HEAD);
			block_.put_bytes(q.record[k].parameter, q.record[k].bytes);
		}
	}
	append();
}

/* INV-TD6: the update is durable when it returns, and the one of the parts was before. */
void CommandLog::keep_turns(
        const std::vector<tide_queue> &queues, const std::vector<tide_result> &results)
{
	block_.clear();
	block_.put(TURNS);
	for (size_t queue = 0; queue < queues.size(); queue++) {
		const tide_queue &q = queues[queue];
		const tide_result *its = &results[queue * TIDE_RECORDS + q.distributed];
		uint32_t turns[TIDE_RECORDS];
		for (uint64_t k = 0; k < q.local; k++)
			turns[k] = its[k].turn;
		block_.put_bytes(turns, q.local * sizeof(*turns));
	}
	append();
}

void CommandLog::append()
{
	log_.append(block_);
	bytes_ += block_.size();
}

size_t CommandLog::batches()
{
	size_t n = 0;
	for (Bytes &block : log_.blocks())
		n += block.take<Kind>() == TURNS;
	return n;
}

void CommandLog::replay(Tide &system, size_t n)
{
	Batch batch;
	for (Bytes &block : log_.blocks())
		if (block.take<Kind>() == PARTS)
			batch = decoded(block, system.modules());
		else if (n-- > 0)
			execute(std::move(batch), block, system);
		else
			return;
}

} // namespace tide
