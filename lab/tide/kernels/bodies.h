/* SPDX-License-Identifier: BSD-3-Clause
 *
 * bodies.h - what subtransactions do.  A body returns false as soon as a read or a write does: the
 * transaction rolls back, and the body runs again.
 */
#ifndef LAB_TIDE_BODIES_H
#define LAB_TIDE_BODIES_H

#include "stm.h"

static void tide_spin(uint32_t n)
{
	while (n--) {
		__asm__ volatile("" ::: "memory");
		tide_pause();
	}
}

/* word, value, turns to wait before and after, one more than a word to read first or 0, turns to
 * wait between, and from the load of the word to its store: store the value.  Returns 16 bits of
 * the other word and 16 of the word's old value. */
static bool touch(struct tide_tx *tx, const uint32_t *p, uint32_t *value)
{
	uint32_t other = 0, before;
	tide_spin(p[2]);
	if (p[4] && !tide_read(tx, TIDE_DATA + (p[4] - 1) * 8, &other))
		return false;
	tide_spin(p[5]);
	if (!tide_read(tx, TIDE_DATA + p[0] * 8, &before))
		return false;
	tide_spin(p[6]);
	if (!tide_write(tx, TIDE_DATA + p[0] * 8, p[1]))
		return false;
	tide_spin(p[3]);
	*value = other << 16 | (before & 65535);
	return true;
}

/* word, nothing, turns to wait before and after: return the word. */
static bool look(struct tide_tx *tx, const uint32_t *p, uint32_t *value)
{
	tide_spin(p[2]);
	if (!tide_read(tx, TIDE_DATA + p[0] * 8, value))
		return false;
	tide_spin(p[3]);
	return true;
}

/* ----------------------------------------------------------------- Bank */

static uint32_t draw(uint32_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 17;
	*x ^= *x << 5;
	return *x;
}

static near_address draw_account(uint32_t *x)
{
	uint32_t k;
	while ((k = draw(x) >> 14) >= BANK_ACCOUNTS) /* a DPU does not divide */
		;
	return TIDE_DATA + k * 4;
}

static bool add(struct tide_tx *tx, near_address at, uint32_t amount)
{
	uint32_t value;
	return tide_read(tx, at, &value) && tide_write(tx, at, value + amount);
}

/* seed, accounts: from each account of a pair to the other. */
static bool bank(struct tide_tx *tx, const uint32_t *p, uint32_t *value)
{
	uint32_t x = p[0];
	for (uint32_t k = 0; k < p[1]; k += 2) {
		const uint32_t amount = draw(&x) & 255;
		if (!add(tx, draw_account(&x), 0u - amount) || !add(tx, draw_account(&x), amount))
			return false;
	}
	*value = p[1];
	return true;
}

/* ----------------------------------------------------------------- TPC-C */

static near_address customer_of(uint32_t district, uint32_t customer)
{
	return TPCC_CUSTOMER +
	       (district * TPCC_CUSTOMERS + customer) * sizeof(struct tpcc_customer);
}

static near_address order_of(uint32_t district, uint32_t order)
{
	return TPCC_ORDER +
	       (district * TPCC_ORDERS + order % TPCC_ORDERS) * sizeof(struct tpcc_order);
}

/* Look for a key, from 0, if there are trees. */
static bool search(struct tide_tx *tx, near_address tree, uint32_t key)
{
	if (!tx->s->trees)
		return true;
	for (uint32_t node = 1; node;) {
		const near_address at = tree + node * sizeof(struct tpcc_node);
		uint32_t its;
		if (!tide_read(tx, at, &its))
			return false;
		if (its == key + 1)
			return tide_read(tx, at + 4, &its); /* the row */
		if (!tide_read(tx, at + (its > key ? 8 : 12), &node))
			return false;
	}
	return true;
}

/* district, customer, amount */
static bool payment_remote(struct tide_tx *tx, const uint32_t *p, uint32_t *value)
{
	const near_address c = customer_of(p[0], p[1]);
	return search(tx, TPCC_CUSTOMER_TREE, tpcc_customer_key(p[0], p[1])) &&
	       tide_read(tx, c, value) && tide_write(tx, c, *value - p[2]) &&
	       add(tx, c + 4, p[2]) && add(tx, c + 8, 1);
}

/* district, customer, amount, whether the customer is in this module, its district */
static bool payment(struct tide_tx *tx, const uint32_t *p, uint32_t *value)
{
	*value = 0;
	if (!add(tx, TPCC_WAREHOUSE, p[2]) ||
	        !add(tx, TPCC_DISTRICT + p[0] * sizeof(struct tpcc_district), p[2]))
		return false;
	const uint32_t customer[3] = {p[4], p[1], p[2]};
	return !p[3] || payment_remote(tx, customer, value);
}

static bool order_line(struct tide_tx *tx, near_address order, uint32_t line, uint32_t item)
{
	const near_address stock = TPCC_STOCK + item * sizeof(struct tpcc_stock);
	const uint32_t quantity = 1 + (item & 7);
	uint32_t left;
	if (!search(tx, TPCC_STOCK_TREE, item) || !tide_read(tx, stock, &left))
		return false;
	left = left >= quantity + 10 ? left - quantity : left + 91 - quantity;
	return tide_write(tx, stock, left) && add(tx, stock + 4, quantity) &&
	       add(tx, stock + 8, 1) && tide_write(tx, order + 8 + line * 8, item) &&
	       tide_write(tx, order + 12 + line * 8, quantity);
}

/* district, customer, seed, lines.  The value is the order's number. */
static bool new_order(struct tide_tx *tx, const uint32_t *p, uint32_t *value)
{
	const near_address d = TPCC_DISTRICT + p[0] * sizeof(struct tpcc_district);
	uint32_t x = p[2], number;
	if (!tide_read(tx, d + 4, &number) || !tide_write(tx, d + 4, number + 1))
		return false;
	const near_address order = order_of(p[0], number);
	if (!search(tx, TPCC_ORDER_TREE, tpcc_order_key(p[0], number)) ||
	        !tide_write(tx, order, p[1]) || !tide_write(tx, order + 4, p[3]))
		return false;
	for (uint32_t k = 0; k < p[3]; k++) {
		uint32_t item;
		while ((item = draw(&x) >> 15) >= TPCC_ITEMS)
			;
		if (!order_line(tx, order, k, item))
			return false;
	}
	*value = number;
	return search(tx, TPCC_CUSTOMER_TREE, tpcc_customer_key(p[0], p[1])) &&
	       tide_write(tx, customer_of(p[0], p[1]) + 12, number);
}

/* district, customer.  The value is what the lines of the last order add up to. */
static bool order_status(struct tide_tx *tx, const uint32_t *p, uint32_t *value)
{
	const near_address c = customer_of(p[0], p[1]);
	uint32_t balance, number, lines, item, quantity, sum = 0;
	if (!search(tx, TPCC_CUSTOMER_TREE, tpcc_customer_key(p[0], p[1])) ||
	        !tide_read(tx, c, &balance) || !tide_read(tx, c + 12, &number))
		return false;
	const near_address order = order_of(p[0], number);
	if (!search(tx, TPCC_ORDER_TREE, tpcc_order_key(p[0], number)) ||
	        !tide_read(tx, order + 4, &lines))
		return false;
	for (uint32_t k = 0; k < lines && k < TPCC_LINES; k++) {
		if (!tide_read(tx, order + 8 + k * 8, &item) ||
		        !tide_read(tx, order + 12 + k * 8, &quantity))
			return false;
		sum += item + quantity;
	}
	*value = sum + balance;
	return true;
}

static bool run_body(struct tide_tx *tx, const struct tide_record *r, uint32_t *value)
{
	const uint32_t *p = r->parameter;
	switch (r->type) {
	case TIDE_TOUCH: return touch(tx, p, value);
	case TIDE_LOOK: return look(tx, p, value);
	case TIDE_BANK: return bank(tx, p, value);
	case TIDE_PAYMENT: return payment(tx, p, value);
	case TIDE_PAYMENT_REMOTE: return payment_remote(tx, p, value);
	case TIDE_NEW_ORDER: return new_order(tx, p, value);
	case TIDE_ORDER_STATUS: return order_status(tx, p, value);
	default: near_fault(TIDE_FAULT_TYPE);
	}
}

#endif /* LAB_TIDE_BODIES_H */
