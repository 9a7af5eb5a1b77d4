/* SPDX-License-Identifier: BSD-3-Clause
 *
 * near_store.cpp - near_store.hpp.
 */
#include "near_store.hpp"

#include <algorithm>
#include <cstring>
#include <fur.h>
#include <sched.h>
#include <stdexcept>

extern "C" const struct near_kernel oltpim_kernel;

namespace oltpim
{

namespace
{

void check(int error)
{
	if (error)
		throw std::runtime_error(fur_errormsg());
}

[[noreturn]] void report(const near_fault_report &f)
{
	std::string what = near_fault_text(f.kind);
	if (f.kind == NEAR_FAULT_KERNEL)
		what = f.address == OLTPIM_NOT_DIRTY
		               ? "a commit or abort of a version that is not the transaction's"
		               : "a batch whose replies do not fit";
	throw std::runtime_error("module " + std::to_string(f.element) + ", tasklet " +
	                         std::to_string(f.tasklet) + ": " + what);
}

/* Where a module has what.  Throws if it does not fit. */
oltpim_layout layout_of(const NearSetup &setup, const near_shape &shape)
{
	const auto up = [](uint64_t n) { return (n + 4095) / 4096 * 4096; };
	oltpim_layout l = {};
	l.batch_bytes = setup.batch_bytes;
	l.reply_bytes = 2 * setup.batch_bytes;
	l.most_versions = static_cast<uint32_t>(setup.versions);
	l.most_objects = static_cast<uint32_t>(setup.objects);
	/* Leaves are half full at least. */
	l.most_nodes = static_cast<uint32_t>(setup.objects / 4 + 64);
	uint64_t at = 0;
	const auto place = [&](near_address &where, uint64_t bytes) {
		where = static_cast<near_address>(at);
		at = up(at + bytes);
	};
	place(l.batch, l.batch_bytes);
	place(l.replies, l.reply_bytes);
	place(l.versions, uint64_t{l.most_versions} * sizeof(oltpim_version));
	place(l.objects, (uint64_t{l.most_objects} + 2) * 4);
	place(l.nodes, uint64_t{l.most_nodes} * sizeof(oltpim_node));
	if (at > shape.memory_bytes)
		throw std::runtime_error("a module needs " + std::to_string(at >> 20) +
		                         " MiB for its objects and has " +
		                         std::to_string(shape.memory_bytes >> 20) +
		                         ": use fewer records, or more ranks or elements");
	return l;
}

} // namespace

/* ---------------------------------------------------------------------- rank */

NearRank::NearRank(const NearSetup &setup, const oltpim_layout &layout, near_rank *rank,
        const Numbers &numbers)
    : setup_(setup), layout_(layout), rank_(rank), numbers_(numbers), modules_(setup.elements)
{
	check(near_load(rank, &oltpim_kernel));
	std::vector<oltpim_layout> rows(setup.elements, layout);
	check(near_push(
	        rank, NEAR_SHARED, offsetof(oltpim_shared, layout), rows.data(), sizeof(layout)));
	/* Heads of no chain */
	const std::vector<char> zeros(size_t{setup.elements} * 4096);
	for (uint64_t at = layout.objects; at < layout.nodes; at += 4096)
		check(near_push(rank, NEAR_MEMORY, at, zeros.data(), 4096));
}

void NearRank::append(Round::Part &part)
{
	Round::Part *first = list_.load(std::memory_order_relaxed);
	do
		part.next = first;
	/* Release: take_list() sees the part, its requests, and the tuples that they name. */
	while (!list_.compare_exchange_weak(first, &part, std::memory_order_release));
}

bool NearRank::step(bool wait)
{
	if (latch_.load(std::memory_order_relaxed) ||
	        latch_.exchange(true, std::memory_order_acquire))
		return false;
	bool worked = running_ ? finish(wait) : collect();
	latch_.store(false, std::memory_order_release);
	return worked;
}

/* While others work: who has the latch counts. */
BatchCounts NearRank::counts()
{
	while (latch_.exchange(true, std::memory_order_acquire))
		sched_yield();
	const BatchCounts counts = counts_;
	latch_.store(false, std::memory_order_release);
	return counts;
}

/* Put the request into the batch if it fits. */
bool NearRank::take(Request *r)
{
	Module &m = modules_[r->place % setup_.elements];
	const uint32_t bytes = oltpim_request_bytes(r->kind), reply = oltpim_reply_bytes(r->kind);
	if (m.bytes + bytes + sizeof(oltpim_batch) > layout_.batch_bytes ||
	        m.reply_bytes + reply > layout_.reply_bytes)
		return false;
	m.bytes += bytes, m.reply_bytes += reply;
	m.of[r->kind].push_back(r);
	counts_.requests++;
	return true;
}

/* Have the list's requests wait, the oldest first. */
void NearRank::take_list()
{
	/* Acquire: see append(). */
	Round::Part *newest = list_.exchange(nullptr, std::memory_order_acquire), *oldest = nullptr;
	while (newest) {
		Round::Part *part = newest;
		__builtin_prefetch(&part->round->by_rank[part->first]);
		newest = part->next;
		part->next = oldest;
		oldest = part;
	}
	for (const Round::Part *part = oldest; part; part = part->next)
		for (unsigned k = part->first; k < part->first + part->n; k++)
			waiting_.push_back(&part->round->requests[part->round->by_rank[k]]);
}

bool NearRank::collect()
{
	take_list();
	if (waiting_.empty())
		return false;
	size_t left = 0;
	for (size_t k = 0; k < waiting_.size(); k++) {
		if (k + AHEAD < waiting_.size())
			__builtin_prefetch(waiting_[k + AHEAD]);
		if (!take(waiting_[k]))
			waiting_[left++] = waiting_[k];
	}
	waiting_.resize(left);
	launch();
	return true;
}

/* Push each module's requests, and launch. */
void NearRank::launch()
{
	uint32_t bytes = 0;
	most_reply_ = 0;
	for (const Module &m : modules_) {
		bytes = std::max(bytes, m.bytes);
		most_reply_ = std::max(most_reply_, m.reply_bytes);
	}
	bytes += sizeof(oltpim_batch);
	rows_.assign(size_t{bytes} * modules_.size(), 0);
	batch_.clear();
	char *row = rows_.data();
	const uint64_t oldest = setup_.collects ? numbers_.oldest() : 0;
	for (const Module &m : modules_) {
		oltpim_batch batch = {};
		batch.oldest = oldest;
		char *to = row + sizeof(batch);
		for (unsigned kind = 0; kind < OLTPIM_KINDS; kind++) {
			batch.count[kind] = static_cast<uint32_t>(m.of[kind].size());
			for (Request *r : m.of[kind]) {
				const uint32_t n = oltpim_request_bytes(kind);
				batch_.push_back(r);
				memcpy(to, &r->write, n);
				to += n;
			}
		}
		memcpy(row, &batch, sizeof(batch));
		row += bytes;
	}
	check(near_push(rank_, NEAR_MEMORY, layout_.batch, rows_.data(), bytes));
	check(near_launch(rank_, setup_.tasklets));
	running_ = true;
	counts_.batches++;
}

bool NearRank::finish(bool wait)
{
	near_fault_report fault = {};
	near_state state = NEAR_RUNNING;
	while ((state = near_poll(rank_, &fault)) == NEAR_RUNNING) {
		if (!wait)
			return false;
		sched_yield();
	}
	if (state == NEAR_FAULTED)
		report(fault);
	running_ = false;
	distribute();
	return true;
}

/* Other cores wrote the requests, and read the counts of pending ones.  Ask for the line of the
 * batch's kth request, and for the count of an earlier one, whose own line is there by now. */
void NearRank::fetch_ahead(size_t k)
{
	if (k < batch_.size())
		__builtin_prefetch(batch_[k], 1);
	if (k >= AHEAD / 2 && k - AHEAD / 2 < batch_.size())
		__builtin_prefetch(&round_of(*batch_[k - AHEAD / 2]).pending, 1);
}

void NearRank::distribute()
{
	rows_.resize(size_t{most_reply_} * modules_.size());
	if (most_reply_)
		check(near_pull(rank_, NEAR_MEMORY, layout_.replies, rows_.data(), most_reply_));
	const char *row = rows_.data();
	for (size_t k = 0; k < AHEAD; k++)
		fetch_ahead(k);
	size_t at = 0;
	for (Module &m : modules_) {
		const char *from = row;
		row += most_reply_;
		m.bytes = m.reply_bytes = 0;
		for (unsigned kind = 0; kind < OLTPIM_KINDS; kind++) {
			const uint32_t n = oltpim_reply_bytes(kind);
			for (Request *r : m.of[kind]) {
				fetch_ahead(AHEAD + at++);
				void *to = &r->reply;
				memcpy(kind == OLTPIM_SCAN ? r->reply.scanned : to, from, n);
				from += n;
				/* The last access to the request: its transaction goes on. */
				round_of(*r).pending.fetch_sub(1, std::memory_order_release);
			}
			m.of[kind].clear();
		}
	}
}

namespace
{

/* The memory of a module with some records, as if it had inserted them. */
class Image
{
public:
	explicit Image(const std::vector<Record> &records)
	    : versions(records.size() + 1), objects((records.size() + 3) & ~size_t{1}), nodes(1)
	{
		std::vector<Entry> trees[OLTPIM_TREES];
		for (size_t k = 0; k < records.size(); k++) {
			versions[k + 1] = {0, 0, 0, records[k].content, 0};
			objects[k + 1] = static_cast<uint32_t>(k + 1);
			trees[(records[k].key >> OLTPIM_TREE_SHIFT) % OLTPIM_TREES].push_back(
			        {records[k].key, static_cast<uint32_t>(k + 1)});
		}
		for (unsigned tree = 0; tree < OLTPIM_TREES; tree++)
			roots[tree] = root_of(std::move(trees[tree]));
	}

	std::vector<oltpim_version> versions;
	std::vector<uint32_t> objects;
	std::vector<oltpim_node> nodes;
	uint32_t roots[OLTPIM_TREES] = {};

private:
	/* As full as random inserts leave them */
	static constexpr size_t FILLED = 7;
	struct Entry {
		uint64_t key;
		uint32_t below;
	};
	uint32_t root_of(std::vector<Entry> level)
	{
		if (level.empty())
			return 0;
		bool leaf = true;
		do {
			level = nodes_above(level, leaf);
			leaf = false;
		} while (level.size() > 1);
		return level[0].below;
	}
	std::vector<Entry> nodes_above(const std::vector<Entry> &level, bool leaf)
	{
		std::vector<Entry> above;
		for (size_t from = 0; from < level.size(); from += FILLED) {
			oltpim_node node = {};
			node.is_leaf = leaf;
			for (size_t k = from; k < std::min(from + FILLED, level.size()); k++) {
				node.keys[node.count] = level[k].key;
				node.below[node.count++] = level[k].below;
			}
			if (leaf && from + FILLED < level.size())
				node.next = static_cast<uint32_t>(nodes.size() + 1);
			above.push_back({node.keys[0], static_cast<uint32_t>(nodes.size())});
			nodes.push_back(node);
		}
		return above;
	}
};

/* Push each element its row, of different lengths, in pieces. */
template <class Row>
void push_rows(near_rank *rank, near_address at, const std::vector<Image> &images, Row row)
{
	constexpr size_t PIECE = 1 << 16;
	size_t most = 0;
	for (const Image &i : images)
		most = std::max(most, row(i).second);
	std::vector<char> matrix;
	for (size_t from = 0; from < most; from += PIECE) {
		const size_t bytes = std::min(PIECE, most - from);
		matrix.assign(images.size() * bytes, 0);
		for (size_t k = 0; k < images.size(); k++) {
			const auto [data, n] = row(images[k]);
			if (n > from)
				memcpy(&matrix[k * bytes], static_cast<const char *>(data) + from,
				        std::min(bytes, n - from));
		}
		check(near_push(rank, NEAR_MEMORY, at + from, matrix.data(), bytes));
	}
}

template <class T>
std::pair<const void *, size_t> bytes_of(const std::vector<T> &v)
{
	return {v.data(), v.size() * sizeof(T)};
}

} // namespace

void NearRank::load(const std::vector<Record> *of_modules)
{
	struct Used { /* of oltpim_shared */
		uint32_t versions, objects, nodes, free_version, roots[OLTPIM_TREES];
	};
	static_assert(
	        sizeof(Used) == offsetof(oltpim_shared, work) - offsetof(oltpim_shared, versions));
	std::vector<Image> images;
	std::vector<Used> used(setup_.elements);
	for (unsigned k = 0; k < setup_.elements; k++) {
		const Image &i = images.emplace_back(of_modules[k]);
		if (i.versions.size() >= layout_.most_versions ||
		        i.objects.size() >= layout_.most_objects ||
		        i.nodes.size() + OLTPIM_NODES_SPARE >= layout_.most_nodes)
			throw std::runtime_error("the records do not fit the modules: raise "
			                         "--room, or use more modules");
		used[k].versions = static_cast<uint32_t>(i.versions.size() - 1);
		used[k].objects = static_cast<uint32_t>(of_modules[k].size());
		used[k].nodes = static_cast<uint32_t>(i.nodes.size() - 1);
		std::copy(std::begin(i.roots), std::end(i.roots), used[k].roots);
	}
	push_rows(rank_, layout_.versions, images,
	        [](const Image &i) { return bytes_of(i.versions); });
	push_rows(
	        rank_, layout_.objects, images, [](const Image &i) { return bytes_of(i.objects); });
	push_rows(rank_, layout_.nodes, images, [](const Image &i) { return bytes_of(i.nodes); });
	check(near_push(
	        rank_, NEAR_SHARED, offsetof(oltpim_shared, versions), used.data(), sizeof(Used)));
}

near_counters NearRank::near_counts() const
{
	near_counters c = {};
	near_count(rank_, &c);
	return c;
}

/* --------------------------------------------------------------------- store */

NearStore::NearStore(const NearSetup &setup, const Numbers &numbers) : setup_(setup)
{
	open();
	try {
		const oltpim_layout layout = layout_of(setup_, shape_);
		for (unsigned k = 0; k < setup_.ranks; k++)
			ranks_.push_back(std::make_unique<NearRank>(
			        setup_, layout, near_rank_of(near_, k), numbers));
	} catch (...) {
		near_close(near_);
		throw;
	}
}

void NearStore::open()
{
	near_options o = {};
	const bool native = setup_.machine == "threads";
#ifdef NEAR_EMULATED
	o.backend = native ? &near_threads : &near_emulated;
#else
	o.backend = &near_threads;
	if (!native)
		throw std::runtime_error("this build has no emulated machine: use threads, or "
		                         "configure with -Demulated=enabled");
#endif
	o.machine = native ? "exclusive" : setup_.machine.c_str();
	o.ranks = setup_.ranks;
	o.elements = setup_.elements;
	o.host_threads = setup_.host_threads;
	o.clock = native ? nullptr : setup_.clock;
	check(near_open(&o, &shape_, &near_));
	if (!shape_.coherent)
		return;
	near_close(near_);
	throw std::runtime_error(setup_.machine + ": its elements share one memory: use a machine "
	                                          "whose elements have their own, such as upmem");
}

NearStore::~NearStore()
{
	near_close(near_);
}

unsigned NearStore::place_of(uint64_t key) const
{
	return static_cast<unsigned>(
	        hash_of(key, setup_.shifts) % (uint64_t{setup_.ranks} * setup_.elements));
}

void NearStore::issue(Round &round, unsigned worker)
{
	(void)worker;
	const auto rank_of = [&](const Request &r) { return r.place / setup_.elements; };
	round.parts.assign(setup_.ranks, {&round, nullptr, 0, 0});
	for (unsigned k = 0; k < round.n; k++)
		if (const unsigned rank = rank_of(round.requests[k]); rank < setup_.ranks)
			round.parts[rank].n++;
	unsigned first = 0;
	for (Round::Part &part : round.parts) {
		part.first = first;
		first += part.n;
		part.n = 0;
	}
	for (unsigned k = 0; k < round.n; k++)
		if (const unsigned rank = rank_of(round.requests[k]); rank < setup_.ranks) {
			Round::Part &part = round.parts[rank];
			round.by_rank[part.first + part.n++] = static_cast<uint16_t>(k);
		}
	for (unsigned rank = 0; rank < setup_.ranks; rank++)
		if (round.parts[rank].n)
			ranks_[rank]->append(round.parts[rank]);
}

bool NearStore::help(unsigned worker)
{
	bool worked = false;
	for (unsigned k = 0; k < ranks_.size(); k++)
		worked |= ranks_[(worker + k) % ranks_.size()]->step(false);
	return worked;
}

unsigned NearStore::parts() const
{
	return static_cast<unsigned>(ranks_.size());
}

bool NearStore::help_part(unsigned part)
{
	return ranks_[part]->step(true);
}

void NearStore::load(const std::vector<Record> &records)
{
	std::vector<std::vector<Record>> modules(size_t{setup_.ranks} * setup_.elements);
	for (const Record &r : records)
		modules[place_of(r.key)].push_back(r);
	/* A module numbers its objects from 1 on, in the order of its records. */
	const auto target_of = [&](uint64_t row) {
		const unsigned place = place_of(row);
		const std::vector<Record> &all = modules[place];
		const auto at = std::lower_bound(all.begin(), all.end(), row,
		        [](const Record &r, uint64_t key) { return r.key < key; });
		if (at == all.end() || at->key != row)
			throw std::logic_error("an entry of a row that is not loaded");
		return oltpim_target(place, static_cast<uint32_t>(at - all.begin() + 1));
	};
	for (std::vector<Record> &all : modules)
		for (Record &r : all)
			if (oltpim_is_entry(r.key))
				r.content = target_of(r.content);
	for (unsigned k = 0; k < setup_.ranks; k++)
		ranks_[k]->load(&modules[size_t{k} * setup_.elements]);
}

void NearRank::touch()
{
	const std::vector<char> nothing(modules_.size() * 8);
	check(near_push(rank_, NEAR_MEMORY, layout_.batch, nothing.data(), 8));
}

void NearStore::settle_channels()
{
	for (const auto &r : ranks_)
		r->touch();
}

near_channel NearStore::channels() const
{
	near_channel sum = {}, c;
	for (unsigned k = 0; near_count_channel(near_, k, &c); k++) {
		sum.written_bytes += c.written_bytes;
		sum.read_bytes += c.read_bytes;
		sum.control_bytes += c.control_bytes;
		sum.busy_ps += c.busy_ps;
	}
	return sum;
}

BatchCounts NearStore::counts() const
{
	BatchCounts sum;
	for (const auto &r : ranks_) {
		const BatchCounts c = r->counts();
		sum.batches += c.batches;
		sum.requests += c.requests;
	}
	return sum;
}

near_counters NearStore::near_counts() const
{
	near_counters sum = {};
	for (const auto &r : ranks_) {
		const near_counters c = r->near_counts();
		sum.launches += c.launches;
		sum.instructions += c.instructions;
		sum.transfers += c.transfers;
		sum.transferred_bytes += c.transferred_bytes;
		sum.pushed_bytes += c.pushed_bytes;
		sum.pulled_bytes += c.pulled_bytes;
		sum.kernel_ps = std::max(sum.kernel_ps, c.kernel_ps);
		sum.push_ps = std::max(sum.push_ps, c.push_ps);
		sum.pull_ps = std::max(sum.pull_ps, c.pull_ps);
		sum.switch_ps = std::max(sum.switch_ps, c.switch_ps);
		sum.poll_ps = std::max(sum.poll_ps, c.poll_ps);
		sum.host_ps = std::max(sum.host_ps, c.host_ps);
		sum.program_instructions = c.program_instructions;
		sum.static_bytes = c.static_bytes;
	}
	return sum;
}

} // namespace oltpim
