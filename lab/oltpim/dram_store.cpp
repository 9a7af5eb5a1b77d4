/* SPDX-License-Identifier: BSD-3-Clause
 *
 * dram_store.cpp - dram_store.hpp.
 */
#include "dram_store.hpp"

#include <algorithm>
#include <bit>

namespace oltpim
{

namespace
{

constexpr uint64_t DIRTY = uint64_t{1} << 63;

/* Words that an insert may change while a lookup reads them (INV-CN8), and `number` of a tuple. */
template <class T>
T peek(const T &word, int order = __ATOMIC_RELAXED)
{
	return __atomic_load_n(&word, order);
}

template <class T>
void poke(T &word, std::type_identity_t<T> value, int order = __ATOMIC_RELAXED)
{
	__atomic_store_n(&word, value, order);
}

uint64_t transaction_of(const Request &r)
{
	switch (r.kind) {
	case OLTPIM_GET: return r.get.transaction;
	case OLTPIM_READ: return r.read.transaction;
	case OLTPIM_SCAN:
	case OLTPIM_FIRST: return r.scan.transaction;
	default: return r.write.transaction;
	}
}

uint64_t begin_of(const Request &r)
{
	switch (r.kind) {
	case OLTPIM_GET: return r.get.begin;
	case OLTPIM_READ: return r.read.begin;
	case OLTPIM_SCAN:
	case OLTPIM_FIRST: return r.scan.begin;
	default: return r.write.begin;
	}
}

/* The first member of each of them */
uint64_t key_of(const Request &r)
{
	return r.write.key;
}

bool reads(const Request &r)
{
	return r.kind != OLTPIM_UPDATE && r.kind != OLTPIM_REMOVE;
}

/* What a reader of the version gets. */
uint64_t seen_of(const Tuple &t)
{
	if (t.is_removed)
		return 0;
	return oltpim_is_entry(t.key) ? t.value : reinterpret_cast<uint64_t>(&t);
}

bool sees(const Request &r, const Tuple &t)
{
	/* Acquire: a number that is not dirty is stored after all of its tuple. */
	const uint64_t number = peek(t.number, __ATOMIC_ACQUIRE);
	return number & DIRTY ? number == (DIRTY | transaction_of(r)) : number <= begin_of(r);
}

unsigned tree_of(uint64_t key)
{
	return static_cast<unsigned>(key >> OLTPIM_TREE_SHIFT) % OLTPIM_TREES;
}

/* The last entry whose key is `key` or less; 0 if there is none. */
template <class N>
unsigned position(const N &node, uint64_t key)
{
	const unsigned count =
	        std::min(peek(node.count), static_cast<uint32_t>(std::size(node.keys)));
	unsigned at = 0;
	while (at + 1 < count && peek(node.keys[at + 1]) <= key)
		at++;
	return at;
}

template <class N>
void add_entry(N &node, unsigned at, uint64_t key, uint64_t below)
{
	for (unsigned k = node.count; k > at; k--) {
		poke(node.keys[k], node.keys[k - 1]);
		poke(node.below[k], node.below[k - 1]);
	}
	poke(node.keys[at], key);
	poke(node.below[at], below);
	poke(node.count, node.count + 1);
}

} // namespace

DramStore::DramStore(const DramSetup &setup, const Numbers &numbers, Prefetch prefetch)
    : setup_(setup), numbers_(numbers), prefetch_(prefetch), queues_(setup.workers)
{
	for (unsigned k = 0; k < setup.partitions; k++)
		partitions_.push_back(std::make_unique<Partition>());
}

DramStore::~DramStore() = default;

unsigned DramStore::place_of(uint64_t key) const
{
	return setup_.first_place +
	       static_cast<unsigned>(hash_of(key, setup_.shifts) % setup_.partitions);
}

void DramStore::issue(Round &round, unsigned worker)
{
	for (unsigned k = 0; k < round.n; k++)
		if (round.requests[k].place >= setup_.first_place)
			queues_[worker].walks.push_back(
			        {&round.requests[k], BEGIN, nullptr, 0, 0, nullptr, 0});
}

/* Each of the worker's requests does a step: up to a line that it has to wait for. */
bool DramStore::help(unsigned worker)
{
	Queue &q = queues_[worker];
	if (q.walks.empty())
		return false;
	for (size_t k = 0; k < q.walks.size();) {
		if (!step(q, q.walks[k])) {
			k++;
			continue;
		}
		/* The last access to the request: see Round::pending. */
		round_of(*q.walks[k].request).pending.fetch_sub(1, std::memory_order_release);
		q.walks[k] = q.walks.back();
		q.walks.pop_back();
	}
	return true;
}

unsigned DramStore::parts() const
{
	return setup_.workers;
}

bool DramStore::help_part(unsigned part)
{
	return help(part);
}

/* --------------------------------------------------------------------- walks */

/* True: the request is served. */
bool DramStore::step(Queue &q, Walk &w)
{
	switch (w.request->kind) {
	case OLTPIM_INSERT: insert(q, w); return true;
	case OLTPIM_COMMIT:
	case OLTPIM_ABORT: finalise(*w.request); return true;
	default: break;
	}
	switch (w.stage) {
	case BEGIN: return begin(w);
	case NODE: return pass_node(w);
	case OBJECT: return pass_object(w);
	default: return pass_tuple(q, w);
	}
}

bool DramStore::begin(Walk &w)
{
	const Partition &p = partition_at(w.request->place);
	if (w.request->kind == OLTPIM_SCAN)
		w.request->reply.scanned->n = 0;
	else
		w.request->reply.written = {};
	/* Acquire: the loads of nodes are later. */
	w.changes = p.changes.load(std::memory_order_acquire);
	if (w.request->kind == OLTPIM_READ)
		return look_at(w, w.request->read.object);
	if (w.changes & 1)
		return false;
	w.node = peek(p.roots[tree_of(key_of(*w.request))]);
	w.at = 0;
	if (!w.node) {
		if (!reads(*w.request))
			w.request->reply.written.status = OLTPIM_MISSING;
		return !changed(p, w);
	}
	prefetch_(w.node, sizeof(Node) / 64);
	w.stage = NODE;
	return false;
}

/* Has an insert changed the partition since the walk began?  Then it begins again. */
bool DramStore::changed(const Partition &p, const Walk &w)
{
	/* The loads of nodes are before the load of `changes`: else it could be of before the
	 * insert, and they of after it. */
	std::atomic_thread_fence(std::memory_order_acquire);
	return p.changes.load(std::memory_order_relaxed) != w.changes;
}

bool DramStore::pass_node(Walk &w)
{
	const Partition &p = partition_at(w.request->place);
	if (w.node->is_leaf)
		return pass_leaf(w);
	const uint64_t below = peek(w.node->below[position(*w.node, key_of(*w.request))]);
	if (changed(p, w)) {
		w.stage = BEGIN;
		return false;
	}
	w.node = reinterpret_cast<const Node *>(below);
	prefetch_(w.node, sizeof(Node) / 64);
	return false;
}

bool DramStore::look_at(Walk &w, uint32_t object)
{
	w.object = object;
	w.stage = OBJECT;
	prefetch_(&object_of(partition_at(w.request->place), object), 1);
	return false;
}

bool DramStore::pass_leaf(Walk &w)
{
	Request &r = *w.request;
	if (r.kind == OLTPIM_SCAN || r.kind == OLTPIM_FIRST)
		return next_entry(w);
	const unsigned at = position(*w.node, key_of(r));
	const bool there = peek(w.node->count) && peek(w.node->keys[at]) == key_of(r);
	const uint64_t object = peek(w.node->below[at]);
	if (changed(partition_at(r.place), w)) {
		w.stage = BEGIN;
		return false;
	}
	if (there)
		return look_at(w, static_cast<uint32_t>(object));
	if (!reads(r))
		r.reply.written.status = OLTPIM_MISSING;
	return true;
}

/* Go on to the next object of a scan. */
bool DramStore::next_entry(Walk &w)
{
	const Request &r = *w.request;
	const Partition &p = partition_at(r.place);
	const unsigned count = peek(w.node->count);
	while (w.at < count && peek(w.node->keys[w.at]) < r.scan.first)
		w.at++;
	const bool in_leaf = w.at < count;
	const bool ends = (in_leaf && peek(w.node->keys[w.at]) > r.scan.last) ||
	                  (r.kind == OLTPIM_SCAN && r.reply.scanned->n == OLTPIM_SCAN_MOST);
	const Node *next = peek(w.node->next);
	const uint64_t object = in_leaf ? peek(w.node->below[w.at]) : 0;
	if (changed(p, w)) {
		w.stage = BEGIN;
		return false;
	}
	if (ends)
		return true;
	if (in_leaf) {
		w.at++;
		return look_at(w, static_cast<uint32_t>(object));
	}
	w.node = next;
	w.at = 0;
	w.stage = NODE;
	if (next)
		prefetch_(next, sizeof(Node) / 64);
	return !next;
}

bool DramStore::pass_object(Walk &w)
{
	/* Acquire: the tuple's contents are stored before it becomes the head. */
	w.tuple =
	        object_of(partition_at(w.request->place), w.object).load(std::memory_order_acquire);
	if (w.tuple)
		prefetch_(w.tuple, 1);
	w.stage = TUPLE;
	return false;
}

bool DramStore::pass_tuple(Queue &q, Walk &w)
{
	Request &r = *w.request;
	if (!reads(r)) {
		write(q, w);
		return true;
	}
	if (w.tuple && !sees(r, *w.tuple)) {
		w.tuple = peek(w.tuple->next);
		if (w.tuple)
			prefetch_(w.tuple, 1);
		return false;
	}
	const uint64_t seen = w.tuple ? seen_of(*w.tuple) : 0;
	if (r.kind != OLTPIM_SCAN) {
		r.reply.tuple = seen;
		return seen || r.kind != OLTPIM_FIRST || next_entry(w);
	}
	if (seen)
		r.reply.scanned->tuples[r.reply.scanned->n++] = seen;
	return next_entry(w);
}

/* -------------------------------------------------------------------- writes */

/* A number that no transaction begins below, which may be a little old. */
uint64_t DramStore::oldest(Queue &q) const
{
	if (q.writes++ % 64 == 0)
		q.oldest = numbers_.oldest();
	return q.oldest;
}

/* As the kernel's write_object().  The head locks the object: a transaction that replaces it by
 * its own tuple has the lock, and one that fails to was second. */
void DramStore::write(Queue &q, Walk &w)
{
	Request &r = *w.request;
	Object &o = object_of(partition_at(r.place), w.object);
	Tuple *head = o.load(std::memory_order_acquire), *tuple;
	tuple = reinterpret_cast<Tuple *>(r.write.tuple);
	oltpim_written &reply = r.reply.written;
	reply = {};
	reply.object = w.object;
	const uint64_t number = head ? peek(head->number, __ATOMIC_ACQUIRE) : 0;
	const bool own = head && number == (DIRTY | r.write.transaction);
	const bool there = head && !head->is_removed;
	if (head && !own && (number & DIRTY || number > r.write.begin))
		reply.status = OLTPIM_CONFLICT;
	else if (there == (r.kind == OLTPIM_INSERT))
		reply.status = there ? OLTPIM_EXISTS : OLTPIM_MISSING;
	if (reply.status != OLTPIM_DONE)
		return;
	poke(tuple->number, DIRTY | r.write.transaction);
	tuple->is_removed = r.kind == OLTPIM_REMOVE;
	poke(tuple->next, own ? head->next : head);
	/* Release: see pass_object(). */
	if (!o.compare_exchange_strong(head, tuple, std::memory_order_acq_rel)) {
		reply.status = OLTPIM_CONFLICT;
		return;
	}
	reply.before = reinterpret_cast<uint64_t>(head);
	if (head && !own && setup_.collects)
		collect(oldest(q), head, r);
}

/* As the kernel's collect().  The tuples stay in their chain: the transaction gives them back. */
void DramStore::collect(uint64_t oldest, Tuple *head, Request &r) const
{
	Tuple *t = head;
	while (t && peek(t->number) > oldest)
		t = peek(t->next);
	Tuple *rest = t ? peek(t->next) : nullptr;
	if (!rest)
		return;
	poke(t->next, static_cast<Tuple *>(nullptr));
	r.reply.written.first = reinterpret_cast<uint64_t>(rest);
	for (; rest; rest = peek(rest->next))
		r.reply.written.obsolete++;
}

/* Of an object that the transaction has the lock of. */
void DramStore::finalise(Request &r)
{
	Object &o = object_of(
	        partition_at(r.place), r.kind == OLTPIM_COMMIT ? r.commit.object : r.abort.object);
	Tuple *head = o.load(std::memory_order_relaxed);
	if (r.kind == OLTPIM_COMMIT)
		poke(head->number, r.commit.csn, __ATOMIC_RELEASE); /* see sees() */
	else
		o.store(peek(head->next), std::memory_order_release);
}

/* ------------------------------------------------------------------- inserts */

DramStore::Object &DramStore::object_of(const Partition &p, uint32_t number)
{
	const uint32_t at = number - 1 + FIRST_BLOCK;
	const unsigned block = static_cast<unsigned>(std::bit_width(at / FIRST_BLOCK)) - 1;
	return p.objects[block][at - (FIRST_BLOCK << block)];
}

DramStore::Node *DramStore::make_node(Partition &p, bool leaf)
{
	constexpr unsigned BLOCK = 32;
	if (p.nodes_left == 0) {
		p.nodes.push_back(std::make_unique<Node[]>(BLOCK));
		p.nodes_left = BLOCK;
	}
	Node *node = &p.nodes.back()[BLOCK - p.nodes_left--];
	node->is_leaf = leaf;
	return node;
}

void DramStore::split(Partition &p, Node *parent, unsigned at, Node *node)
{
	constexpr unsigned HALF = FANOUT / 2;
	Node *beside = make_node(p, node->is_leaf);
	for (unsigned k = HALF; k < FANOUT; k++)
		add_entry(*beside, k - HALF, node->keys[k], node->below[k]);
	poke(beside->next, node->next);
	poke(node->next, beside);
	poke(node->count, HALF);
	add_entry(*parent, at + 1, beside->keys[0], reinterpret_cast<uint64_t>(beside));
}

/* `changes` is odd. */
uint32_t DramStore::find_or_add(Partition &p, uint64_t key)
{
	Node *&root = p.roots[tree_of(key)], *parent = nullptr;
	if (!root)
		poke(root, make_node(p, true));
	unsigned at = 0;
	for (Node *node = root;;) {
		if (node->count == FANOUT) {
			if (!parent) {
				parent = make_node(p, false);
				add_entry(*parent, 0, node->keys[0],
				        reinterpret_cast<uint64_t>(node));
				poke(root, parent);
			}
			split(p, parent, at, node);
			if (key >= parent->keys[at + 1])
				node = reinterpret_cast<Node *>(parent->below[at + 1]);
		}
		at = position(*node, key);
		if (!node->is_leaf) {
			parent = node;
			node = reinterpret_cast<Node *>(node->below[at]);
			continue;
		}
		if (node->count && node->keys[at] == key)
			return static_cast<uint32_t>(node->below[at]);
		const uint32_t object = ++p.n_objects, place = object - 1 + FIRST_BLOCK;
		const unsigned block =
		        static_cast<unsigned>(std::bit_width(place / FIRST_BLOCK)) - 1;
		if (!p.objects[block])
			p.objects[block] = std::make_unique<Object[]>(FIRST_BLOCK << block);
		add_entry(*node, node->count && node->keys[at] < key ? at + 1 : at, key, object);
		return object;
	}
}

void DramStore::insert(Queue &q, Walk &w)
{
	Partition &p = partition_at(w.request->place);
	uint64_t even = p.changes.load(std::memory_order_relaxed) & ~uint64_t{1};
	/* Acquire: the insert before this one is over. */
	while (!p.changes.compare_exchange_weak(even, even + 1, std::memory_order_acquire))
		even &= ~uint64_t{1};
	/* A lookup that sees one of the stores below sees the odd number as well (changed()). */
	std::atomic_thread_fence(std::memory_order_release);
	w.object = find_or_add(p, key_of(*w.request));
	p.changes.store(even + 2, std::memory_order_release);
	write(q, w);
}

void DramStore::load(const std::vector<Record> &records)
{
	for (const Record &r : records) {
		Partition &p = partition_at(place_of(r.key));
		Tuple *t = reinterpret_cast<Tuple *>(r.content);
		if (oltpim_is_entry(r.key)) {
			const unsigned place = place_of(r.content);
			const uint32_t row = find_or_add(partition_at(place), r.content);
			t = loaded_.make(r.key, 0, oltpim_target(place, row));
		}
		object_of(p, find_or_add(p, r.key)).store(t, std::memory_order_relaxed);
	}
}

} // namespace oltpim
