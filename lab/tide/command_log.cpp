/* SPDX-License-Identifier: BSD-3-Clause
 *
 * command_log.cpp - a block of the log for each batch.
 *
 * A block has the number of transactions, and of each its number of parts, and of each part the
 * module and the record.
 */
#include "command_log.hpp"

namespace tide
{

namespace
{

using lab::Bytes;

Bytes encoded(const std::vector<Transaction> &batch)
{
	Bytes all;
	all.put(static_cast<uint32_t>(batch.size()));
	for (const Transaction &t : batch) {
		all.put(static_cast<uint32_t>(t.parts.size()));
		for (const Part &p : t.parts) {
			all.put(static_cast<uint32_t>(p.module));
			all.put(p.record);
		}
	}
	return all;
}

std::vector<Transaction> decoded(Bytes &all)
{
	std::vector<Transaction> batch(all.take<uint32_t>());
	for (Transaction &t : batch) {
		t.ordered = true;
		t.parts.resize(all.take<uint32_t>());
		for (Part &p : t.parts) {
			p.module = all.take<uint32_t>();
			p.record = all.take<tide_record>();
		}
	}
	return batch;
}

} // namespace

CommandLog::CommandLog(fur_heap *heap) : log_(heap) {}

/* INV-TD6: the update is durable when it returns. */
void CommandLog::append(const std::vector<Transaction> &batch)
{
	log_.append(encoded(batch));
}

size_t CommandLog::replay(Tide &system)
{
	std::vector<Bytes> batches = log_.blocks();
	for (Bytes &batch : batches)
		for (Transaction &t : decoded(batch))
			system.submit(std::move(t));
	system.run_all();
	return batches.size();
}

} // namespace tide
