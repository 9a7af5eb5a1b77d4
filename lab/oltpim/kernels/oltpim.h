/* SPDX-License-Identifier: BSD-3-Clause
 *
 * oltpim.h - what the host and the modules' kernel (oltpim.c) share: the layout of a module's
 * memory, and requests with their replies.
 *
 * A module has B+trees from keys to objects, and of each object the chain of its versions, the
 * newest first.  A version names a tuple, which lies in the host's memory.  The upper byte of a key
 * is the number of its tree.
 *
 * Trees from OLTPIM_SECONDARY on are secondary indexes.  A version of their objects, the entries,
 * names another object: in place of a tuple it has that one's module and number
 * (oltpim_target()).  The object's key is hashed to another module, so a lookup through a secondary
 * index is two requests: OLTPIM_SCAN or OLTPIM_FIRST for the entry, then OLTPIM_READ.
 *
 * The host pushes a batch: an oltpim_batch, and behind it the requests, one kind after the other in
 * the order of oltpim_kind.  The kernel writes the replies in the same order.  Class 0, which
 * changes trees and finalises versions, ends before class 1 begins (INV-CN5).
 */
#ifndef LAB_OLTPIM_KERNELS_OLTPIM_H
#define LAB_OLTPIM_KERNELS_OLTPIM_H

#include "near/kernel.h"

enum oltpim_kind {
	/* class 0 */
	OLTPIM_INSERT,
	OLTPIM_COMMIT,
	OLTPIM_ABORT,
	/* class 1 */
	OLTPIM_GET,
	OLTPIM_UPDATE,
	OLTPIM_REMOVE,
	OLTPIM_SCAN,
	OLTPIM_FIRST, /* as OLTPIM_SCAN, and no more than one */
	OLTPIM_READ,  /* as OLTPIM_GET, of an object in place of a key */
	OLTPIM_KINDS,
};

enum oltpim_status {
	OLTPIM_DONE,
	OLTPIM_CONFLICT, /* another transaction has written the object: it is first */
	OLTPIM_MISSING,  /* the transaction sees no such object */
	OLTPIM_EXISTS,   /* it sees one already */
	OLTPIM_FULL,     /* no room for a version, an object or a node */
};

/* Codes of near_fault(). */
enum oltpim_fault {
	OLTPIM_NOT_DIRTY =
	        1,       /* a commit or abort of a version that is finalised, or of another's */
	OLTPIM_TOO_MANY, /* a batch that overflows the replies */
};

enum {
	OLTPIM_FANOUT = 10,
	OLTPIM_TREES = 16,
	OLTPIM_SCAN_MOST = 16, /* values of a scan's reply */
	OLTPIM_TREE_SHIFT = 56,
	OLTPIM_SECONDARY = 12,
	OLTPIM_LATCHES = 32, /* of objects: each is for those of a hash of their number */
	/* What an insert may need of nodes: one of each level, and a new root */
	OLTPIM_NODES_SPARE = 12,
};

/* Addresses in a module's memory, and numbers of things there; number 0 stands for none.  The host
 * pushes it to the shared struct once. */
struct oltpim_layout {
	near_address batch, replies, versions, objects, nodes;
	uint32_t batch_bytes, reply_bytes; /* most of each */
	uint32_t most_versions, most_objects, most_nodes;
};

struct oltpim_batch {
	uint64_t oldest;    /* no transaction, now or later, begins at a lower number */
	uint32_t count[10]; /* of each kind */
};

/* OLTPIM_INSERT, OLTPIM_UPDATE, OLTPIM_REMOVE */
struct oltpim_write {
	uint64_t key, transaction, begin;
	uint64_t tuple; /* of the new version */
};

struct oltpim_commit {
	uint32_t object, transaction; /* lower half of its number, which is checked */
	uint64_t csn;
};

struct oltpim_abort {
	uint32_t object, transaction;
};

struct oltpim_get {
	uint64_t key, transaction, begin;
};

/* OLTPIM_SCAN, OLTPIM_FIRST */
struct oltpim_scan {
	uint64_t first, last; /* keys, both included */
	uint64_t transaction, begin;
};

struct oltpim_read {
	uint32_t object, unused;
	uint64_t transaction, begin;
};

/* Of OLTPIM_INSERT, without the last member; of OLTPIM_UPDATE and OLTPIM_REMOVE. */
struct oltpim_written {
	uint32_t object;
	uint16_t status;   /* oltpim_status */
	uint16_t obsolete; /* tuples that no transaction can see any more */
	uint64_t before;   /* the tuple that the new version replaces, or 0 */
	uint64_t first;    /* obsolete tuple; the others follow it in the host's chain */
};

/* Of OLTPIM_SCAN; the other reads are answered by one tuple, or 0. */
struct oltpim_scanned {
	uint64_t n;
	uint64_t tuples[OLTPIM_SCAN_MOST];
};

/* Bytes of a request, and of a reply, of a kind. */
static inline uint32_t oltpim_request_bytes(unsigned kind)
{
	switch (kind) {
	case OLTPIM_COMMIT: return sizeof(struct oltpim_commit);
	case OLTPIM_ABORT: return sizeof(struct oltpim_abort);
	case OLTPIM_GET: return sizeof(struct oltpim_get);
	case OLTPIM_SCAN:
	case OLTPIM_FIRST: return sizeof(struct oltpim_scan);
	case OLTPIM_READ: return sizeof(struct oltpim_read);
	default: return sizeof(struct oltpim_write);
	}
}

static inline uint32_t oltpim_reply_bytes(unsigned kind)
{
	switch (kind) {
	case OLTPIM_COMMIT:
	case OLTPIM_ABORT: return 0;
	case OLTPIM_GET:
	case OLTPIM_FIRST:
	case OLTPIM_READ: return 8;
	case OLTPIM_INSERT: return 16;
	case OLTPIM_SCAN: return sizeof(struct oltpim_scanned);
	default: return sizeof(struct oltpim_written);
	}
}

/* Is it a key of a secondary index? */
static inline int oltpim_is_entry(uint64_t key)
{
	return (unsigned)(key >> OLTPIM_TREE_SHIFT) >= OLTPIM_SECONDARY;
}

/* What a version of an entry has: never 0, because objects have numbers from 1 on. */
static inline uint64_t oltpim_target(uint32_t module, uint32_t object)
{
	return (uint64_t)module << 32 | object;
}

/* ------------------------------------------------------------------ a module */

struct oltpim_node {
	uint16_t count, is_leaf;
	uint32_t next;                 /* leaf */
	uint64_t keys[OLTPIM_FANOUT];  /* of an inner node, the least keys of the nodes below */
	uint32_t below[OLTPIM_FANOUT]; /* nodes; of a leaf, objects */
};

enum { OLTPIM_DIRTY = 1, OLTPIM_REMOVED = 2 };

struct oltpim_version {
	uint32_t flags, next;
	uint64_t number; /* commit number; of a dirty version its transaction */
	uint64_t tuple;
	uint64_t unused;
};

/* What a tasklet has in the scratchpad. */
struct oltpim_work {
	struct oltpim_node upper, lower, beside;
	struct oltpim_version version, fresh;
	union {
		struct oltpim_write write;
		struct oltpim_commit commit;
		struct oltpim_abort abort;
		struct oltpim_get get;
		struct oltpim_scan scan;
		struct oltpim_read read;
	} request;
	union {
		uint64_t tuple;
		struct oltpim_written written;
		struct oltpim_scanned scanned;
	} reply;
	uint32_t objects[2] NEAR_ALIGN; /* a word of the table of objects */
};

struct oltpim_shared {
	struct oltpim_layout layout NEAR_ALIGN;
	struct oltpim_batch batch NEAR_ALIGN;
	/* Used so far */
	uint32_t versions, objects, nodes;
	uint32_t free_version; /* of a list, or 0 */
	uint32_t roots[OLTPIM_TREES];
	struct oltpim_work work[NEAR_MOST_TASKLETS] NEAR_ALIGN;
};

#endif /* LAB_OLTPIM_KERNELS_OLTPIM_H */
