/* SPDX-License-Identifier: BSD-3-Clause
 *
 * options.c - print where C has the members that the bindings pass, for their tests.
 */
#include <fur_map.h>
#include <stdio.h>

#define SHOW(member) printf(#member " %zu\n", offsetof(struct fur_options, member))

int main(void)
{
	SHOW(size);
	SHOW(heap_bytes);
	SHOW(log_bytes);
	SHOW(ring_slots);
	SHOW(max_threads);
	SHOW(address);
	SHOW(isolation);
	SHOW(htm);
	SHOW(pm);
	SHOW(open);
	SHOW(phase_times);
	SHOW(reader_report_ns);
	SHOW(reader_report);
	SHOW(reader_report_arg);
	SHOW(dram_bytes);
	SHOW(file_mode);
	SHOW(log);
	SHOW(log_arg);
	SHOW(async_ms);
	SHOW(max_bytes);
	SHOW(debug);
	printf("sizeof %zu\n", sizeof(struct fur_options));
	printf("iterator %zu\n", sizeof(struct fur_map_iterator));
	printf("FUR_EINVAL %d\n", FUR_EINVAL);
	printf("FUR_EBUSY %d\nFUR_ENESTED %d\n", FUR_EBUSY, FUR_ENESTED);
	printf("FUR_ENOTX %d\nFUR_EABORTED %d\n", FUR_ENOTX, FUR_EABORTED);
	printf("FUR_HTM_NONE %d\nFUR_PM_SYNC %d\n", FUR_HTM_NONE, FUR_PM_SYNC);
	printf("FUR_OPEN_OR_CREATE %d\n", FUR_OPEN_OR_CREATE);
	printf("info.heap_bytes %zu\n", offsetof(struct fur_info, heap_bytes));
	printf("FUR_MAP_BEHIND %d\n", FUR_MAP_BEHIND);
	printf("FUR_ETOOBIG %d\nticket %zu\n", FUR_ETOOBIG, sizeof(fur_ticket));
	return 0;
}
