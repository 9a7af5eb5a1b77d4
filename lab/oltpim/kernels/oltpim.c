/* SPDX-License-Identifier: BSD-3-Clause
 *
 * oltpim.c - the kernel of OLTPim's modules: indexes and version chains (oltpim.h).
 *
 * A version is dirty from its insert or update until its transaction's commit or abort; it is the
 * newest of its object then, and locks it: a second writer is told OLTPIM_CONFLICT.
 *
 *   INV-CN5  All of a batch's inserts, commits and aborts end before its other requests begin.  So
 *            lookups need no latch of a tree.
 *   INV-CN6  A version is collected if a newer one has a commit number of `oldest` or below: every
 *            transaction sees that one, or one that is newer still.
 *   INV-CN7  A chain is read and changed with the latch of its object held; objects whose numbers
 *            share a word of the table share a latch.
 *   INV-CN9  An entry of a secondary index has versions of its own, with the commit numbers of the
 *            transactions that made and removed it, and a lookup finds those that its transaction
 *            sees; the row is read as of the same begin.  So what is found through an index is
 *            what the transaction sees without it, though the two are in different modules.
 *
 * The tests compile plants into this file: PLANT_CLASSES breaks INV-CN5, PLANT_COLLECT INV-CN6,
 * PLANT_FIRST lets a second writer pass, PLANT_ENTRY and PLANT_ROW break INV-CN9.
 */
#include "oltpim.h"

#include <stdbool.h>

#define NOINLINE static __attribute__((noinline)) /* instruction memory is short */

enum { LATCH_TREE, LATCH_POOL, LATCH_OBJECT };

/* ------------------------------------------------------------------- memory */

NOINLINE void read_node(struct oltpim_shared *s, struct oltpim_node *to, uint32_t node)
{
	near_local_read(to, s->layout.nodes + node * sizeof(*to), sizeof(*to));
}

NOINLINE void write_node(struct oltpim_shared *s, uint32_t node, const struct oltpim_node *from)
{
	near_local_write(s->layout.nodes + node * sizeof(*from), from, sizeof(*from));
}

NOINLINE void read_version(struct oltpim_shared *s, struct oltpim_version *to, uint32_t version)
{
	near_local_read(to, s->layout.versions + version * sizeof(*to), sizeof(*to));
}

NOINLINE void write_version(
        struct oltpim_shared *s, uint32_t version, const struct oltpim_version *from)
{
	near_local_write(s->layout.versions + version * sizeof(*from), from, sizeof(*from));
}

static near_address word_of(const struct oltpim_shared *s, uint32_t object)
{
	return s->layout.objects + (object >> 1) * 8;
}

/* The newest version of the object, or 0. */
NOINLINE uint32_t read_head(struct oltpim_shared *s, struct oltpim_work *w, uint32_t object)
{
	near_local_read(w->objects, word_of(s, object), 8);
	return w->objects[object & 1];
}

/* The latch is held since read_head() (INV-CN7). */
NOINLINE void write_head(
        struct oltpim_shared *s, struct oltpim_work *w, uint32_t object, uint32_t version)
{
	w->objects[object & 1] = version;
	near_local_write(word_of(s, object), w->objects, 8);
}

static uint32_t latch_of(uint32_t object)
{
	return LATCH_OBJECT + (object >> 1) % OLTPIM_LATCHES;
}

/* ------------------------------------------------------------------ versions */

/* 0: no room */
NOINLINE uint32_t allocate_version(struct oltpim_shared *s, struct oltpim_work *w)
{
	near_acquire(LATCH_POOL);
	uint32_t version = s->free_version;
	if (version) {
		read_version(s, &w->fresh, version);
		s->free_version = w->fresh.next;
	} else if (s->versions + 1 < s->layout.most_versions) {
		version = ++s->versions;
	}
	near_release(LATCH_POOL);
	return version;
}

/* The version, which `contents` has the contents of, becomes free. */
NOINLINE void free_version(
        struct oltpim_shared *s, uint32_t version, struct oltpim_version *contents)
{
	near_acquire(LATCH_POOL);
	contents->next = s->free_version;
	write_version(s, version, contents);
	s->free_version = version;
	near_release(LATCH_POOL);
}

/* Find the tuple that a transaction sees of the object; 0: none. */
NOINLINE uint64_t visible(struct oltpim_shared *s, struct oltpim_work *w, uint32_t object,
        uint64_t transaction, uint64_t begin)
{
	struct oltpim_version *v = &w->version;
	uint64_t tuple = 0;
	near_acquire(latch_of(object));
	for (uint32_t at = read_head(s, w, object); at; at = v->next) {
		read_version(s, v, at);
		if (v->flags & OLTPIM_DIRTY ? v->number == transaction : v->number <= begin) {
			tuple = v->flags & OLTPIM_REMOVED ? 0 : v->tuple;
			break;
		}
	}
	near_release(latch_of(object));
	return tuple;
}

/* Give back what no transaction sees of the chain that begins at the finalised version `at`, which
 * w->version has the contents of.  The latch of its object is held. */
NOINLINE void collect(struct oltpim_shared *s, struct oltpim_work *w, uint32_t at)
{
	struct oltpim_version *v = &w->version;
#ifndef PLANT_COLLECT
	const uint64_t oldest = s->batch.oldest;
	while (v->number > oldest && v->next) {
		at = v->next;
		read_version(s, v, at);
	}
	if (v->number > oldest)
		return; /* INV-CN6 */
#endif
	uint32_t rest = v->next;
	if (!rest)
		return;
	v->next = 0;
	write_version(s, at, v);
	for (unsigned n = 0; rest; n++) {
		read_version(s, v, rest);
		if (n == 0)
			w->reply.written.first = v->tuple;
		const uint32_t next = v->next;
		free_version(s, rest, v);
		w->reply.written.obsolete = n + 1;
		rest = next;
	}
}

/* May the transaction replace the version that w->version has?  First updater wins: not if it is
 * dirty, or was committed after the transaction began. */
NOINLINE enum oltpim_status may_replace(const struct oltpim_version *v, uint64_t begin)
{
#ifdef PLANT_FIRST
	(void)begin;
	return v->flags & OLTPIM_DIRTY ? OLTPIM_CONFLICT : OLTPIM_DONE;
#else
	return v->flags & OLTPIM_DIRTY || v->number > begin ? OLTPIM_CONFLICT : OLTPIM_DONE;
#endif
}

/* Put the request's tuple in front of the object's version `head`, or of none.  The latch of the
 * object is held. */
NOINLINE void add_version(struct oltpim_shared *s, struct oltpim_work *w, uint32_t object,
        uint32_t head, uint32_t flags)
{
	const uint32_t version = allocate_version(s, w);
	if (!version) {
		w->reply.written.status = OLTPIM_FULL;
		return;
	}
	w->fresh.flags = OLTPIM_DIRTY | flags;
	w->fresh.next = head;
	w->fresh.number = w->request.write.transaction;
	w->fresh.tuple = w->request.write.tuple;
	w->fresh.unused = 0;
	write_version(s, version, &w->fresh);
	write_head(s, w, object, version);
	if (!head)
		return;
	w->reply.written.before = w->version.tuple;
	/* Over a removed row: it is an insert, whose reply has no room for obsolete tuples.  The
	 * next write, which is none, gives back what this one makes obsolete. */
	if (!(w->version.flags & OLTPIM_REMOVED))
		collect(s, w, head);
}

/* The object's newest version is the transaction's own: it gets the request's tuple. */
NOINLINE void replace_own(
        struct oltpim_shared *s, struct oltpim_work *w, uint32_t head, uint32_t flags)
{
	w->reply.written.before = w->version.tuple;
	w->version.tuple = w->request.write.tuple;
	w->version.flags = OLTPIM_DIRTY | flags;
	write_version(s, head, &w->version);
}

/* `creates`: an insert, else an update or a removal. */
NOINLINE void write_object(struct oltpim_shared *s, struct oltpim_work *w, uint32_t object,
        bool creates, uint32_t flags)
{
	struct oltpim_written *r = &w->reply.written;
	const struct oltpim_version *v = &w->version;
	r->object = object;
	near_acquire(latch_of(object));
	const uint32_t head = read_head(s, w, object);
	if (head)
		read_version(s, &w->version, head);
	const bool own =
	        head && v->flags & OLTPIM_DIRTY && v->number == w->request.write.transaction;
	const bool there = head && !(v->flags & OLTPIM_REMOVED);
	if (head && !own)
		r->status = may_replace(v, w->request.write.begin);
	if (r->status == OLTPIM_DONE && creates == there)
		r->status = creates ? OLTPIM_EXISTS : OLTPIM_MISSING;
	if (r->status == OLTPIM_DONE) {
		if (own)
			replace_own(s, w, head, flags);
		else
			add_version(s, w, object, head, flags);
	}
	near_release(latch_of(object));
}

/* --------------------------------------------------------------------- trees */

/* Find the last entry of the node whose key is `key` or less; 0 if there is none. */
NOINLINE unsigned position(const struct oltpim_node *node, uint64_t key)
{
	unsigned at = 0;
	while (at + 1 < node->count && node->keys[at + 1] <= key)
		at++;
	return at;
}

static unsigned tree_of(uint64_t key)
{
	return (unsigned)(key >> OLTPIM_TREE_SHIFT) % OLTPIM_TREES;
}

/* Read the leaf that has the key, if any has, to w->lower.  False: the tree is empty. */
NOINLINE bool find_leaf(struct oltpim_shared *s, struct oltpim_work *w, uint64_t key)
{
	uint32_t node = s->roots[tree_of(key)];
	if (!node)
		return false;
	for (;;) {
		read_node(s, &w->lower, node);
		if (w->lower.is_leaf)
			return true;
		node = w->lower.below[position(&w->lower, key)];
	}
}

/* 0: none has the key */
NOINLINE uint32_t find_object(struct oltpim_shared *s, struct oltpim_work *w, uint64_t key)
{
	if (!find_leaf(s, w, key) || w->lower.count == 0)
		return 0;
	const unsigned at = position(&w->lower, key);
	return w->lower.keys[at] == key ? w->lower.below[at] : 0;
}

/* Add an entry to a node that has room, behind position `at`. */
NOINLINE void add_entry(struct oltpim_node *node, unsigned at, uint64_t key, uint32_t below)
{
	for (unsigned k = node->count; k > at; k--) {
		node->keys[k] = node->keys[k - 1];
		node->below[k] = node->below[k - 1];
	}
	node->keys[at] = key;
	node->below[at] = below;
	node->count++;
}

/* Split w->lower, which is `node`, entry `at` of `parent` in w->upper; the parent has room. */
NOINLINE void split(
        struct oltpim_shared *s, struct oltpim_work *w, uint32_t parent, unsigned at, uint32_t node)
{
	enum { HALF = OLTPIM_FANOUT / 2 };
	const uint32_t beside = ++s->nodes;
	struct oltpim_node *b = &w->beside;
	b->count = OLTPIM_FANOUT - HALF;
	b->is_leaf = w->lower.is_leaf;
	b->next = w->lower.next;
	for (unsigned k = 0; k < OLTPIM_FANOUT - HALF; k++) {
		b->keys[k] = w->lower.keys[HALF + k];
		b->below[k] = w->lower.below[HALF + k];
	}
	w->lower.count = HALF;
	w->lower.next = beside;
	write_node(s, beside, b);
	write_node(s, node, &w->lower);
	add_entry(&w->upper, at + 1, b->keys[0], beside);
	write_node(s, parent, &w->upper);
}

/* Make a root above the root of the tree, in w->upper. */
NOINLINE uint32_t raise_root(struct oltpim_shared *s, struct oltpim_work *w, unsigned tree)
{
	w->upper.count = 1;
	w->upper.is_leaf = 0;
	w->upper.next = 0;
	w->upper.keys[0] = w->lower.keys[0];
	w->upper.below[0] = s->roots[tree];
	return s->roots[tree] = ++s->nodes;
}

NOINLINE uint32_t plant_root(struct oltpim_shared *s, struct oltpim_work *w)
{
	w->lower.count = 0;
	w->lower.is_leaf = 1;
	w->lower.next = 0;
	write_node(s, s->nodes + 1, &w->lower);
	return ++s->nodes;
}

/* Find the object of the key, or give it one: its entry is in the tree then.  0: no room. */
NOINLINE uint32_t find_or_add(struct oltpim_shared *s, struct oltpim_work *w, uint64_t key)
{
	const unsigned tree = tree_of(key);
	if (s->nodes + OLTPIM_NODES_SPARE >= s->layout.most_nodes ||
	        s->objects + 1 >= s->layout.most_objects)
		return 0;
	if (!s->roots[tree])
		s->roots[tree] = plant_root(s, w);
	uint32_t parent = 0, node = s->roots[tree];
	unsigned at = 0;
	read_node(s, &w->lower, node);
	for (;;) {
		if (w->lower.count == OLTPIM_FANOUT) {
			if (!parent)
				parent = raise_root(s, w, tree);
			split(s, w, parent, at, node);
			if (key >= w->beside.keys[0]) {
				w->lower = w->beside;
				node = w->upper.below[at + 1];
			}
		}
		if (w->lower.is_leaf)
			break;
		w->upper = w->lower;
		parent = node;
		at = position(&w->upper, key);
		node = w->upper.below[at];
		read_node(s, &w->lower, node);
	}
	at = position(&w->lower, key);
	if (w->lower.count && w->lower.keys[at] == key)
		return w->lower.below[at];
	if (w->lower.count && w->lower.keys[at] < key)
		at++;
	add_entry(&w->lower, at, key, ++s->objects);
	write_node(s, node, &w->lower);
	return s->objects;
}

/* ------------------------------------------------------------------ requests */

NOINLINE void insert(struct oltpim_shared *s, struct oltpim_work *w)
{
	near_acquire(LATCH_TREE);
	const uint32_t object = find_or_add(s, w, w->request.write.key);
	near_release(LATCH_TREE);
	if (object)
		write_object(s, w, object, true, 0);
	else
		w->reply.written.status = OLTPIM_FULL;
}

NOINLINE void update(struct oltpim_shared *s, struct oltpim_work *w, uint32_t flags)
{
	const uint32_t object = find_object(s, w, w->request.write.key);
	if (object)
		write_object(s, w, object, false, flags);
	else
		w->reply.written.status = OLTPIM_MISSING;
}

/* Read the object's head, and its version to w->version: dirty, and of this transaction. */
NOINLINE uint32_t own_head(
        struct oltpim_shared *s, struct oltpim_work *w, uint32_t object, uint32_t transaction)
{
	const uint32_t head = read_head(s, w, object);
	if (head)
		read_version(s, &w->version, head);
	if (!head || !(w->version.flags & OLTPIM_DIRTY) ||
	        (uint32_t)w->version.number != transaction)
		near_fault(OLTPIM_NOT_DIRTY);
	return head;
}

NOINLINE void commit(struct oltpim_shared *s, struct oltpim_work *w)
{
	const struct oltpim_commit *r = &w->request.commit;
	near_acquire(latch_of(r->object));
	const uint32_t head = own_head(s, w, r->object, r->transaction);
	w->version.flags &= ~(uint32_t)OLTPIM_DIRTY;
	w->version.number = r->csn;
	write_version(s, head, &w->version);
	near_release(latch_of(r->object));
}

NOINLINE void abort_write(struct oltpim_shared *s, struct oltpim_work *w)
{
	const struct oltpim_abort *r = &w->request.abort;
	near_acquire(latch_of(r->object));
	const uint32_t head = own_head(s, w, r->object, r->transaction);
	write_head(s, w, r->object, w->version.next);
	free_version(s, head, &w->version);
	near_release(latch_of(r->object));
}

NOINLINE void get(struct oltpim_shared *s, struct oltpim_work *w)
{
	const struct oltpim_get *r = &w->request.get;
	const uint32_t object = find_object(s, w, r->key);
	w->reply.tuple = object ? visible(s, w, object, r->transaction, r->begin) : 0;
}

/* Put up to `most` tuples that the transaction sees, in the order of their keys, to `tuples`;
 * returns how many. */
NOINLINE uint32_t scan(
        struct oltpim_shared *s, struct oltpim_work *w, uint64_t *tuples, uint32_t most)
{
	const struct oltpim_scan *r = &w->request.scan;
#ifdef PLANT_ENTRY
	const uint64_t begin = oltpim_is_entry(r->first) ? ~(uint64_t)0 : r->begin;
#else
	const uint64_t begin = r->begin; /* INV-CN9 */
#endif
	uint32_t n = 0;
	if (!find_leaf(s, w, r->first))
		return 0;
	for (;;) {
		for (unsigned k = 0; k < w->lower.count; k++) {
			if (w->lower.keys[k] < r->first)
				continue;
			if (w->lower.keys[k] > r->last || n == most)
				return n;
			const uint64_t tuple =
			        visible(s, w, w->lower.below[k], r->transaction, begin);
			if (tuple)
				tuples[n++] = tuple;
		}
		if (!w->lower.next)
			return n;
		read_node(s, &w->lower, w->lower.next);
	}
}

NOINLINE void read_object(struct oltpim_shared *s, struct oltpim_work *w)
{
	const struct oltpim_read *r = &w->request.read;
#ifdef PLANT_ROW
	const uint64_t begin = ~(uint64_t)0;
#else
	const uint64_t begin = r->begin; /* INV-CN9 */
#endif
	w->reply.tuple = visible(s, w, r->object, r->transaction, begin);
}

NOINLINE void serve(struct oltpim_shared *s, struct oltpim_work *w, unsigned kind)
{
	w->reply.written.object = 0;
	w->reply.written.status = OLTPIM_DONE;
	w->reply.written.obsolete = 0;
	w->reply.written.before = w->reply.written.first = 0;
	switch (kind) {
	case OLTPIM_INSERT: insert(s, w); break;
	case OLTPIM_COMMIT: commit(s, w); break;
	case OLTPIM_ABORT: abort_write(s, w); break;
	case OLTPIM_GET: get(s, w); break;
	case OLTPIM_UPDATE: update(s, w, 0); break;
	case OLTPIM_REMOVE: update(s, w, OLTPIM_REMOVED); break;
	case OLTPIM_FIRST:
		w->reply.tuple = 0;
		scan(s, w, &w->reply.tuple, 1);
		break;
	case OLTPIM_READ: read_object(s, w); break;
	default: w->reply.scanned.n = scan(s, w, w->reply.scanned.tuples, OLTPIM_SCAN_MOST);
	}
}

/* Serve this tasklet's share of all requests of a kind.  Moves both addresses behind them. */
NOINLINE void serve_kind(
        struct oltpim_shared *s, unsigned kind, near_address *requests, near_address *replies)
{
	struct oltpim_work *w = &s->work[near_me()];
	const uint32_t request = oltpim_request_bytes(kind), reply = oltpim_reply_bytes(kind);
	const uint32_t n = s->batch.count[kind];
	if (*replies + n * reply > s->layout.replies + s->layout.reply_bytes)
		near_fault(OLTPIM_TOO_MANY);
	for (uint32_t k = near_me(); k < n; k += near_tasklets()) {
		near_local_read(&w->request, *requests + k * request, request);
		serve(s, w, kind);
		if (reply)
			near_local_write(*replies + k * reply, &w->reply, reply);
	}
	*requests += n * request;
	*replies += n * reply;
}

NEAR_KERNEL(oltpim, struct oltpim_shared)
{
	near_address requests = shared->layout.batch + sizeof(struct oltpim_batch);
	near_address replies = shared->layout.replies;
	if (near_me() == 0)
		near_local_read(&shared->batch, shared->layout.batch, sizeof(shared->batch));
	near_barrier(); /* the batch's counts are there */
	unsigned kind = OLTPIM_INSERT;
	for (; kind < OLTPIM_GET; kind++)
		serve_kind(shared, kind, &requests, &replies);
#ifndef PLANT_CLASSES
	near_barrier(); /* INV-CN5 */
#endif
	for (; kind < OLTPIM_KINDS; kind++)
		serve_kind(shared, kind, &requests, &replies);
}
