/* SPDX-License-Identifier: BSD-3-Clause
 *
 * large.c - a kernel of about 6,000 instructions: too many for a DPU, and few enough for PUL's
 * cores.
 */
#include "near/kernel.h"

struct large {
	uint32_t x;
};

#define ONE  x = (x ^ (x << 3)) + 0x12345u;
#define TEN  ONE ONE ONE ONE ONE ONE ONE ONE ONE ONE
#define MANY TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN

NEAR_KERNEL(large, struct large)
{
	uint32_t x = shared->x;
	MANY MANY MANY MANY MANY MANY MANY MANY MANY MANY MANY MANY MANY MANY MANY MANY MANY MANY
	        MANY MANY shared->x = x;
}
