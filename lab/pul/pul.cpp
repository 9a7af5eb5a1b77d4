/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pul.cpp - operators of a database on the elements of a near-memory machine, which preload their
 * records and unload their results: "PUL: Pre-load in Software for Caches Wouldn't Always Play
 * Along".  It compares all results with its own.
 */
#include "kernels/pul.h"
#include "../../tools/common/random.hpp"
#include "../near/near_machine.hpp"
#include "../near/near_program.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fur.h>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

extern "C" {
extern const struct near_kernel pul_kernel;
extern const struct near_images pul_images;
}

namespace
{

using tools::Json;
using tools::Random;
using tools::WrongUsage;

struct Settings : bench::NearSettings {
	std::string operation = "sum", strategy = "none", write, form = "records",
	            order = "sequential";
	unsigned distance = 64, transfer = 64, pes = 1, values = 1, flush = 512;
	unsigned requests = 4096, chunk = 128, percent = 50;
	uint64_t records = 0;
};

const std::map<std::string, pul_operator> OPERATORS = {{"sum", PUL_SUM},
        {"aggregate", PUL_AGGREGATE}, {"filter", PUL_FILTER}, {"visible", PUL_VISIBLE},
        {"materialise", PUL_MATERIALISE}, {"nothing", PUL_NOTHING}, {"update", PUL_UPDATE}};
const std::map<std::string, pul_strategy> STRATEGIES = {{"none", PUL_NONE},
        {"sequential", PUL_SEQUENTIAL}, {"batch", PUL_BATCH}, {"memcpy", PUL_MEMCPY}};
const std::map<std::string, pul_write> WRITES = {
        {"wait", PUL_WAIT}, {"unload", PUL_UNLOAD}, {"memcpy", PUL_LINES}};

/* ------------------------------------------------------------------- machine */

/* With the kernel. */
class Machine : public bench::NearMachine
{
public:
	explicit Machine(const Settings &s)
	    : NearMachine(s.machine, s.pes, s.host_threads, &pul_kernel)
	{
	}
	/* Run the kernel to its end; returns seconds: virtual time of the kernel, or natively the
	 * time of the call. */
	double run(unsigned tasklets)
	{
		using Clock = std::chrono::steady_clock;
		const auto from = Clock::now();
		launch(tasklets);
#ifdef PLANT_EXCLUSIVE
		(void)early();
#endif
		wait();
		const auto to = Clock::now();
		const near_counters c = counters();
		return c.kernel_ps ? static_cast<double>(c.kernel_ps) * 1e-12
		                   : std::chrono::duration<double>(to - from).count();
	}
#ifdef PLANT_EXCLUSIVE

private:
	/* The tests' plant: results are read while the kernel runs. */
	pul_answer early() const
	{
		std::vector<pul_answer> answers(shape().elements);
		pull(NEAR_SHARED, offsetof(pul_shared, answer), answers.data(), sizeof(pul_answer));
		return answers[0];
	}
#endif
};

/* -------------------------------------------------------------------- layout */

uint64_t up(uint64_t bytes, uint64_t to)
{
	return (bytes + to - 1) / to * to;
}

/* Where memory has what: total, records, traces, results. */
struct Layout {
	uint64_t records, trace, out, end, trace_stride, out_stride;
	unsigned rows, parts; /* memories; tasklets that share one */

	Layout(const Settings &s, const Machine &m)
	{
		const uint64_t requests = s.requests / s.tasklets;
		const bool update = s.operation == "update";
		rows = m.memories(s.pes);
		parts = s.pes / rows * s.tasklets;
		records = 4096;
		trace = records + up(s.records * s.transfer, 4096);
		trace_stride = up(requests, s.chunk) * 4;
		out = trace + up(parts * trace_stride, 4096);
		out_stride =
		        update ? requests * s.flush : up(requests * s.transfer, s.flush) + s.flush;
		end = out + parts * out_stride;
		if (end > m.shape().memory_bytes)
			throw WrongUsage("--requests, --records, --transfer: they need " +
			                 std::to_string(end >> 20) +
			                 " MiB of memory: the machine has " +
			                 std::to_string(m.shape().memory_bytes >> 20));
	}
};

void check_sizes(const Settings &s, const near_shape &shape)
{
	const unsigned most_values = std::min<unsigned>(s.transfer / 4, PUL_MOST_VALUES);
	const uint64_t slots = s.strategy == "sequential" || s.strategy == "batch"
	                               ? 2 * s.distance * s.transfer
	                               : s.transfer,
	               need = s.chunk * 4 + 2 * s.flush + slots, has = PUL_ROOM / s.tasklets & ~7u;
	if (need > has)
		throw WrongUsage("--distance, --transfer, --flush: they need " +
		                 std::to_string(need) + " bytes of scratchpad: a tasklet has " +
		                 std::to_string(has));
	for (unsigned bytes : {s.transfer, s.flush, s.chunk * 4})
		if (bytes > shape.transfer_most || bytes % 8)
			throw WrongUsage("--transfer, --flush, --chunk: " + std::to_string(bytes) +
			                 " bytes: use a multiple of 8, at most " +
			                 std::to_string(shape.transfer_most));
	if (s.operation == "materialise" && s.form == "records" && s.flush % s.transfer)
		throw WrongUsage(
		        "--flush " + std::to_string(s.flush) + ": use a multiple of --transfer");
	if (s.operation == "aggregate" && s.values > most_values)
		throw WrongUsage("--values " + std::to_string(s.values) +
		                 ": a record has fewer attributes: use at most " +
		                 std::to_string(most_values));
	if (s.tasklets > shape.tasklets)
		throw WrongUsage("--tasklets " + std::to_string(s.tasklets) + ": the machine has " +
		                 std::to_string(shape.tasklets));
}

/* ---------------------------------------------------------------------- work */

pul_job job_of(const Settings &s)
{
	pul_job job = {};
	job.operation = OPERATORS.at(s.operation);
	job.strategy = STRATEGIES.at(s.strategy);
	job.write = WRITES.at(s.write);
	job.form = s.form == "positions" ? PUL_POSITIONS : PUL_RECORDS;
	job.distance = s.distance;
	job.transfer = s.transfer;
	job.flush = s.flush;
	job.requests = s.requests / s.tasklets;
	job.chunk = s.chunk;
	job.values = s.values;
	job.threshold = static_cast<uint32_t>(
	        std::min<uint64_t>((UINT64_C(1) << 32) * s.percent / 100, UINT32_MAX));
	job.total = 0;
	job.snapshot.oldest = 100000;
	job.snapshot.upto = job.snapshot.oldest + 32 * PUL_RUNNING_WORDS;
	Random random{s.seed + 1};
	const unsigned words = std::min<unsigned>(s.transfer / 4, PUL_MOST_VALUES);
	for (unsigned k = 0; k < PUL_MOST_VALUES; k++)
		job.attribute[k] = static_cast<uint8_t>(k < words ? words - 1 - k : 0);
	for (uint32_t &word : job.snapshot.running)
		word = static_cast<uint32_t>(random.next() & random.next());
	return job;
}

/* A memory's content, and the results that the host expects. */
class Memory
{
public:
	Memory(const Settings &s, const Layout &l, const pul_job &job, unsigned row)
	    : s_(s), l_(l), job_(job), bytes_(l.out, 0), out_(l.parts * l.out_stride, 0),
	      answers_(l.parts)
	{
		fill_records(Random{s.seed * 1000 + 7});
		for (unsigned part = 0; part < l.parts; part++)
			fill_trace(part, Random{s.seed * 1000 + row * l.parts + part + 13});
		for (unsigned part = 0; part < l.parts; part++)
			expect(part);
	}
	const std::vector<char> &bytes() const
	{
		return bytes_;
	}
	bool has(const pul_answer *answers, const char *out, uint32_t total) const
	{
		uint32_t sum = 0;
		for (unsigned part = 0; part < l_.parts; part++) {
			const uint64_t at = part * l_.out_stride, n = answers_[part].written;
			if (memcmp(&answers[part], &answers_[part], sizeof *answers) ||
			        memcmp(out + at, out_.data() + at,
			                s_.operation == "update" ? l_.out_stride : n))
				return false;
			sum += static_cast<uint32_t>(answers_[part].sum[0]) + answers_[part].count;
		}
		return total == sum;
	}

private:
	uint32_t *words(uint64_t at)
	{
		return reinterpret_cast<uint32_t *>(bytes_.data() + at);
	}
	void fill_records(Random random)
	{
		const uint64_t n = s_.transfer / 4;
		uint32_t *word = words(l_.records);
		for (uint64_t k = 0; k < s_.records * n; k++)
			word[k] = static_cast<uint32_t>(random.next());
		if (s_.operation != "visible")
			return;
		/* Half of the transactions around those that run; most records not removed. */
		const pul_snapshot &now = job_.snapshot;
		auto transaction = [&] {
			return static_cast<uint32_t>(
			        random.below(2)
			                ? random.below(now.oldest) + 1
			                : now.oldest + random.below(48 * PUL_RUNNING_WORDS));
		};
		for (uint64_t k = 0; k < s_.records; k++) {
			word[k * n] = transaction();
			word[k * n + 1] = random.below(10) < 7 ? 0 : transaction();
		}
	}
	/* Random records; for an update, the blocks of its results in the order that was asked
	 * for, each once. */
	void fill_trace(unsigned part, Random random)
	{
		uint32_t *trace = words(l_.trace + part * l_.trace_stride);
		for (unsigned k = 0; k < job_.requests; k++)
			trace[k] = static_cast<uint32_t>(
			        s_.operation == "update"
			                ? l_.out + part * l_.out_stride + uint64_t{k} * s_.flush
			                : l_.records + random.below(s_.records) * s_.transfer);
		if (s_.operation == "update" && s_.order == "random")
			for (unsigned k = job_.requests; k > 1; k--)
				std::swap(trace[k - 1], trace[random.below(k)]);
	}
	void expect(unsigned part)
	{
		if (s_.operation == "update") {
			expect_update(part);
			return;
		}
		const uint32_t *trace = words(l_.trace + part * l_.trace_stride);
		pul_answer &a = answers_[part];
		std::vector<bool> matches;
		char *out = out_.data() + part * l_.out_stride;
		for (unsigned k = 0; k < job_.requests; k++) {
			const uint32_t *record = words(trace[k]);
			matches.push_back(expect_record(a, record));
			if (s_.operation == "materialise" && s_.form == "records" && matches.back())
				memcpy(out + s_.transfer * (a.count - 1), record, s_.transfer);
		}
		if (s_.operation == "materialise")
			a.written = s_.form == "records" ? a.count * s_.transfer
			                                 : (job_.requests + 31) / 32 * 4;
		if (s_.form == "positions" && s_.operation == "materialise")
			for (unsigned k = 0; k < job_.requests; k++)
				out[k / 8] = static_cast<char>(out[k / 8] | matches[k] << k % 8);
	}
	bool expect_record(pul_answer &a, const uint32_t *record) const
	{
		bool matches = false;
		if (s_.operation == "sum") {
			uint32_t sum = 0;
			for (unsigned k = 0; k < s_.values; k++)
				sum += record[k % (s_.transfer / 4)];
			a.sum[0] = (a.sum[0] + sum) & UINT32_MAX; /* the kernel's has 32 bits */
		} else if (s_.operation == "aggregate") {
			for (unsigned k = 0; k < s_.values; k++)
				a.sum[k] += record[job_.attribute[k]];
			a.count++;
		} else if (s_.operation != "nothing") {
			matches = s_.operation == "visible" ? sees(record[0], record[1])
			                                    : record[0] < job_.threshold;
			a.count += matches;
		}
		return matches;
	}
	bool ended(uint32_t transaction) const
	{
		const pul_snapshot &now = job_.snapshot;
		if (transaction < now.oldest || transaction >= now.upto)
			return transaction < now.oldest;
		const uint32_t k = transaction - now.oldest;
		return (now.running[k / 32] & UINT32_C(1) << k % 32) == 0;
	}
	bool sees(uint32_t made, uint32_t removed) const
	{
		return ended(made) && !(removed && ended(removed));
	}
	void expect_update(unsigned part)
	{
		const uint32_t *trace = words(l_.trace + part * l_.trace_stride);
		const uint32_t n = s_.flush / 4;
		std::vector<uint32_t> blocks[2] = {
		        std::vector<uint32_t>(n), std::vector<uint32_t>(n)};
		uint32_t value = 0;
		for (unsigned k = 0; k < job_.requests; k++) {
			auto &block = blocks[s_.write == "unload" ? k % 2 : 0];
			for (uint32_t w = 0; w < n; w += 2)
				block[w] += value++ * s_.values;
			memcpy(out_.data() + (trace[k] - l_.out), block.data(), s_.flush);
		}
		answers_[part].written = job_.requests * s_.flush;
	}

	const Settings &s_;
	const Layout &l_;
	const pul_job &job_;
	std::vector<char> bytes_, out_;
	std::vector<pul_answer> answers_;
};

/* ----------------------------------------------------------------------- run */

void push_all(Machine &m, const std::vector<Memory> &memories, const Layout &l)
{
	std::vector<char> rows;
	for (const Memory &memory : memories)
		rows.insert(rows.end(), memory.bytes().begin(), memory.bytes().end());
	m.push(NEAR_MEMORY, 0, rows.data(), l.out);
}

void push_jobs(Machine &m, const Settings &s, const Layout &l, pul_job job)
{
	std::vector<pul_job> jobs;
	job.trace_stride = static_cast<uint32_t>(l.trace_stride);
	job.out_stride = static_cast<uint32_t>(l.out_stride);
	for (unsigned k = 0; k < s.pes; k++) {
		const uint64_t first = l.rows == 1 ? k * s.tasklets : 0;
		job.trace = static_cast<uint32_t>(l.trace + first * l.trace_stride);
		job.out = static_cast<uint32_t>(l.out + first * l.out_stride);
		jobs.push_back(job);
	}
	m.push(NEAR_SHARED, offsetof(pul_shared, job), jobs.data(), sizeof job);
}

bool all_there(Machine &m, const Settings &s, const Layout &l, const std::vector<Memory> &memories)
{
	std::vector<pul_answer> all(s.pes * NEAR_MOST_TASKLETS), mine;
	m.pull(NEAR_SHARED, offsetof(pul_shared, answer), all.data(),
	        NEAR_MOST_TASKLETS * sizeof(pul_answer));
	for (unsigned k = 0; k < s.pes; k++)
		for (unsigned t = 0; t < s.tasklets; t++)
			mine.push_back(all[k * NEAR_MOST_TASKLETS + t]);
	std::vector<char> out(l.rows * l.parts * l.out_stride);
	m.pull(NEAR_MEMORY, l.out, out.data(), l.parts * l.out_stride);
	std::vector<uint64_t> totals(l.rows);
	m.pull(NEAR_MEMORY, 0, totals.data(), sizeof(uint64_t));
	for (unsigned row = 0; row < l.rows; row++)
		if (!memories[row].has(&mine[row * l.parts],
		            out.data() + row * l.parts * l.out_stride,
		            static_cast<uint32_t>(totals[row])))
			return false;
	return true;
}

Json result_of(const Settings &s, const Machine &m, double seconds, bool verified)
{
	const near_counters c = m.counters();
	const double requests = double(s.requests / s.tasklets) * s.tasklets * s.pes,
	             cycles = double(c.cycles) * s.pes;
	Json r = {{"workload", "pul"}, {"machine", s.machine}, {"operator", s.operation},
	        {"strategy", s.strategy}, {"write", s.write}, {"distance", s.distance},
	        {"transfer", s.transfer}, {"flush", s.flush}, {"values", s.values}, {"pes", s.pes},
	        {"tasklets", s.tasklets}, {"requests", requests}, {"seconds", seconds},
	        {"throughput", requests / seconds},
	        {"bytes_per_second", double(c.transferred_bytes) / seconds},
	        {"instructions", c.instructions}, {"cycles", c.cycles},
	        {"ipc", cycles > 0 ? double(c.instructions) / cycles : 0},
	        {"program_instructions", c.program_instructions},
	        {"compiler", pul_images.compiler ? pul_images.compiler : "none"},
	        {"verified", verified}};
	if (s.operation == "materialise") {
		r["form"] = s.form;
		r["percent"] = s.percent;
	}
	if (s.operation == "update")
		r["order"] = s.order;
	return r;
}

int run(const Settings &s)
{
	Machine m(s);
	check_sizes(s, m.shape());
	const Layout l(s, m);
	const pul_job job = job_of(s);
	std::vector<Memory> memories;
	for (unsigned row = 0; row < l.rows; row++)
		memories.emplace_back(s, l, job, row);
	push_all(m, memories, l);
	push_jobs(m, s, l, job);
	const double seconds = m.run(s.tasklets);
	const bool verified = all_there(m, s, l, memories);
	bench::report_near(s, result_of(s, m, seconds, verified), s.operation, "records");
	if (verified)
		return 0;
	fprintf(stderr, "pul: %s: the kernel's results are not the host's\n", s.machine.c_str());
	return 1;
}

void add_options(tools::CommandLine &line, Settings &s)
{
	bench::add_near_options(line, s, "of records and traces");
	line.option("--operator", s.operation, "what the kernel does with each record")
	        .one_of({"sum", "aggregate", "filter", "visible", "materialise", "update",
	                "nothing"});
	line.option("--strategy", s.strategy, "how records come to the scratchpad")
	        .one_of({"none", "sequential", "batch", "memcpy"});
	line.option("--write", s.write,
	            "how results leave it; default: wait with --strategy none, memcpy with memcpy, "
	            "else unload")
	        .one_of({"wait", "unload", "memcpy"});
	line.option("--distance", s.distance, "records that are preloaded ahead").range(1, 64);
	line.option("--transfer", s.transfer, "bytes of a record").range(8, 16384);
	line.option("--flush", s.flush, "bytes of a block of results").range(8, 16384);
	line.option("--pes", s.pes, "processing elements").range(1, 128);
	line.option("--values", s.values,
	            "sum: words that are added; aggregate: attributes; update: additions to a word")
	        .range(1, 4096);
	line.option("--percent", s.percent, "records that filter and materialise find")
	        .range(0, 100);
	line.option("--form", s.form, "of what materialise writes: records, or a bit vector")
	        .one_of({"records", "positions"});
	line.option("--order", s.order, "of the blocks that update writes")
	        .one_of({"sequential", "random"});
	line.option("--requests", s.requests, "records of each element").range(32, 1 << 24);
	line.option("--records", s.records, "records in each memory; default: 4 MiB")
	        .range(1, 1 << 24);
	line.option("--chunk", s.chunk, "addresses of the trace that are read at a time")
	        .range(2, 4096);
}

} // namespace

int main(int argc, char **argv)
{
	Settings s;
	tools::CommandLine line("pul",
	        "Operators of a database next to the memory, with preload and unload: records a "
	        "second.");
	add_options(line, s);
	if (auto status = tools::parse_or_exit_status(line, "pul", argc, argv))
		return *status;
	if (s.write.empty())
		s.write = s.strategy == "none"     ? "wait"
		          : s.strategy == "memcpy" ? "memcpy"
		                                   : "unload";
	if (!s.records)
		s.records = (4 << 20) / s.transfer;
	return bench::near_exit_status("pul", s, [&] { return run(s); });
}
