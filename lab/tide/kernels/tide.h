/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tide.h - what the host and the kernel of PIM-TIDE share: records, queues, results, and where they
 * lie in a module's memory.
 *
 * A batch gives each tasklet of a module a queue of records, and a record is one subtransaction:
 * the part of a transaction that one module executes.  First the tasklets execute the parts of
 * distributed transactions, in the order of their ranks; then, after a barrier, the transactions
 * that are local to the module, in an order that the tasklets find themselves.
 *
 *   INV-TD1  In a batch the ranks of a module's distributed parts are 0, 1, 2 and so on, in the one
 *            order that all modules' distributed transactions have.  Rank r is the next record of
 *            tasklet r modulo the tasklets.
 */
#ifndef LAB_TIDE_H
#define LAB_TIDE_H

#include "near/kernel.h"

/* 32 KiB, as in the paper; a lock is of the 8 bytes that a transfer moves at least */
#ifndef TIDE_LOCK_COUNT
#define TIDE_LOCK_COUNT 8192
#endif

enum {
	TIDE_TASKLETS = 11, /* they fill a DPU's pipeline */
	TIDE_RECORDS = 128, /* of a queue */
	TIDE_CHUNK = 16,    /* records that a tasklet reads at once */
	TIDE_PARAMETERS = 14,
	TIDE_LOCKS = TIDE_LOCK_COUNT,
	TIDE_READS = 2000, /* lock words that a subtransaction logs */
	TIDE_WRITES = 1000,
	TIDE_CLOCK_MOST = 1 << 24, /* a launch that finds it later begins at 0 again */
};

/* Kinds of subtransactions: what parameters mean is said where each is executed (bodies.h). */
enum tide_type {
	TIDE_TOUCH,
	TIDE_LOOK,
	TIDE_BANK,
	TIDE_PAYMENT,
	TIDE_PAYMENT_REMOTE,
	TIDE_NEW_ORDER,
	TIDE_ORDER_STATUS,
	TIDE_TYPES,
};

struct tide_record {
	uint32_t parameter[TIDE_PARAMETERS];
	uint32_t rank;  /* of a distributed part; as printed: the clock that it waits for */
	uint16_t bytes; /* of the parameters; the kernel does not need it */
	uint8_t type, distributed;
};

struct tide_queue {
	uint64_t distributed, local; /* records of each kind, in this order */
	struct tide_record record[TIDE_RECORDS];
};

/* Of a record, by its place in the queue.  `turn` orders a module's subtransactions as they took
 * effect; among those of a batch that store nothing and are local it is the last one that they have
 * seen. */
struct tide_result {
	uint32_t turn, value;
};

struct tide_undo {
	near_address at;
	uint32_t lock; /* as it was, or TIDE_HELD */
	uint32_t pair[2];
};

/* Places in a module's memory; each array has an element for each tasklet. */
enum {
	TIDE_QUEUES = 0,
	TIDE_RESULTS = TIDE_QUEUES + TIDE_TASKLETS * (int)sizeof(struct tide_queue),
	TIDE_RESULT_BYTES = TIDE_RECORDS * (int)sizeof(struct tide_result),
	TIDE_READ_LOGS = TIDE_RESULTS + TIDE_TASKLETS * TIDE_RESULT_BYTES,
	TIDE_READ_LOG_BYTES = TIDE_READS * 4,
	TIDE_WRITE_LOGS = TIDE_READ_LOGS + TIDE_TASKLETS * TIDE_READ_LOG_BYTES,
	TIDE_WRITE_LOG_BYTES = TIDE_WRITES * (int)sizeof(struct tide_undo),
	TIDE_DATA = 1 << 20, /* from here on the memory belongs to the workload */
};

/* Counts of a tasklet since the kernel was loaded; the second of each is of distributed parts. */
struct tide_tally {
	uint32_t commits[2], aborts[2];
};

struct tide_shared {
	/* The host pushes these. */
	uint32_t printed; /* commit as the paper's Algorithm 3 is printed */
	uint32_t trees;   /* TPC-C: find rows by trees */
	/* The host pulls these. */
	uint32_t clock; /* transactions that have committed */
	uint32_t base;  /* the clock at the launch */
	struct tide_tally tally[TIDE_TASKLETS];
	/* The clock after the last distributed part that has stored anything */
	uint32_t last_store;
	/* Of each tasklet: the clock at which its subtransaction may commit, and one more than that
	 * of the one that it has to roll back */
	uint32_t at_clock[TIDE_TASKLETS], aborted[TIDE_TASKLETS];
	uint32_t locks[TIDE_LOCKS];
	struct tide_record chunk[TIDE_TASKLETS][TIDE_CHUNK] NEAR_ALIGN;
};

/* Codes of near_fault(). */
enum { TIDE_FAULT_READS = 1, TIDE_FAULT_WRITES, TIDE_FAULT_TYPE };

/* ----------------------------------------------------------------- the workloads' data */

enum {
	BANK_ACCOUNTS = 200000,
	BANK_MOST = 100, /* accounts of a transaction */
};

/* A warehouse of TPC-C, the module's own: the fields that the transactions use. */
enum {
	TPCC_DISTRICTS = 10,
	TPCC_CUSTOMERS = 3000, /* of a district */
	TPCC_ITEMS = 100000,
	TPCC_LINES = 15,    /* most of an order */
	TPCC_ORDERS = 4096, /* of a district: the last ones are kept */
};

struct tpcc_district {
	uint32_t ytd, next_order;
};

struct tpcc_customer {
	uint32_t balance, ytd_payment, payments, last_order; /* 0: none */
};

struct tpcc_stock {
	uint32_t quantity, ytd, orders, remote;
};

struct tpcc_order {
	uint32_t customer, lines;
	struct {
		uint32_t item, quantity;
	} line[TPCC_LINES];
	uint32_t total, delivered;
};

enum {
	TPCC_WAREHOUSE = TIDE_DATA, /* its ytd */
	TPCC_DISTRICT = TPCC_WAREHOUSE + 8,
	TPCC_CUSTOMER = TPCC_DISTRICT + TPCC_DISTRICTS * (int)sizeof(struct tpcc_district),
	TPCC_STOCK =
	        TPCC_CUSTOMER + TPCC_DISTRICTS * TPCC_CUSTOMERS * (int)sizeof(struct tpcc_customer),
	TPCC_ORDER = TPCC_STOCK + TPCC_ITEMS * (int)sizeof(struct tpcc_stock),
	TPCC_END = TPCC_ORDER + TPCC_DISTRICTS * TPCC_ORDERS * (int)sizeof(struct tpcc_order),
};

/* Search trees of the rows that are loaded, if tide_shared.trees asks for them.  Node 1 is the
 * root, and node k has nodes 2k and 2k + 1 below it, or 0.  Keys are 1, 2 and so on.  A DPU's
 * program finds a row there before it uses it; nothing is inserted, and the row lies where it
 * would without trees. */
struct tpcc_node {
	uint32_t key, row, left, right;
};

enum {
	TPCC_TREE_CUSTOMERS = TPCC_DISTRICTS * TPCC_CUSTOMERS,
	TPCC_CUSTOMER_TREE = TPCC_END,
	TPCC_ORDER_TREE =
	        TPCC_CUSTOMER_TREE + (TPCC_TREE_CUSTOMERS + 1) * (int)sizeof(struct tpcc_node),
	TPCC_STOCK_TREE =
	        TPCC_ORDER_TREE + (TPCC_TREE_CUSTOMERS + 1) * (int)sizeof(struct tpcc_node),
	TPCC_TREES_END = TPCC_STOCK_TREE + (TPCC_ITEMS + 1) * (int)sizeof(struct tpcc_node),
};

/* Their keys, from 0 */
static inline uint32_t tpcc_customer_key(uint32_t district, uint32_t customer)
{
	return district * TPCC_CUSTOMERS + customer;
}
/* Of a later order: a key behind all others */
static inline uint32_t tpcc_order_key(uint32_t district, uint32_t order)
{
	if (order - 1 < TPCC_CUSTOMERS)
		return tpcc_customer_key(district, order - 1);
	return TPCC_TREE_CUSTOMERS;
}

#endif /* LAB_TIDE_H */
