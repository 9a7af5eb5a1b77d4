/* SPDX-License-Identifier: BSD-3-Clause
 *
 * options.c - print where C has the members that the bindings pass, for their tests.
 */
#include <fur_group.h>
#include <fur_map.h>
#include <fur_ship.h>
#include <stdio.h>

#define SHOW(member)    printf(#member " %zu\n", offsetof(struct fur_options, member))
#define SHOW_CODE(code) printf(#code " %d\n", code)
#define SHOW_LOOKUP(member)                                                                        \
	printf("lookup." #member " %zu\n", offsetof(struct fur_map_lookup, member))

#define SHOW_FOLLOW(member)                                                                        \
	printf("follow." #member " %zu\n", offsetof(struct fur_follow_options, member))
#define SHOW_STATE(member)                                                                         \
	printf("state." #member " %zu\n", offsetof(struct fur_follow_state, member))

static void show_lookup(void)
{
	SHOW_LOOKUP(key);
	SHOW_LOOKUP(key_bytes);
	SHOW_LOOKUP(value);
	SHOW_LOOKUP(room);
	SHOW_LOOKUP(bytes);
	SHOW_LOOKUP(found);
	printf("lookup %zu\n", sizeof(struct fur_map_lookup));
}

static void show_ship(void)
{
	SHOW_FOLLOW(size);
	SHOW_FOLLOW(settings);
	SHOW_FOLLOW(log);
	SHOW_FOLLOW(log_arg);
	SHOW_FOLLOW(patience_ms);
	printf("follow %zu\n", sizeof(struct fur_follow_options));
	SHOW_STATE(size);
	SHOW_STATE(lineage);
	SHOW_STATE(durts);
	SHOW_STATE(term);
	SHOW_STATE(frame);
	SHOW_STATE(node);
	SHOW_STATE(own_node);
	SHOW_STATE(unread);
	SHOW_STATE(caught_up_ns);
	SHOW_STATE(heard_ns);
	SHOW_STATE(silent_ns);
	SHOW_STATE(heir);
	SHOW_STATE(follows);
	SHOW_STATE(promoted);
	SHOW_STATE(error);
	SHOW_STATE(message);
	printf("state %zu\n", sizeof(struct fur_follow_state));
	printf("token.durts %zu\n", offsetof(fur_token, durts));
	printf("token %zu\n", sizeof(fur_token));
}

static void show_codes(void)
{
	SHOW_CODE(FUR_EINVAL);
	SHOW_CODE(FUR_ESYS);
	SHOW_CODE(FUR_ENOENT);
	SHOW_CODE(FUR_EEXIST);
	SHOW_CODE(FUR_ENOTHEAP);
	SHOW_CODE(FUR_EVERSION);
	SHOW_CODE(FUR_ECORRUPT);
	SHOW_CODE(FUR_EBUSY);
	SHOW_CODE(FUR_EADDRESS);
	SHOW_CODE(FUR_ENOSPC);
	SHOW_CODE(FUR_ETHREADS);
	SHOW_CODE(FUR_ENESTED);
	SHOW_CODE(FUR_ENOTX);
	SHOW_CODE(FUR_ERANGE);
	SHOW_CODE(FUR_ETOOBIG);
	SHOW_CODE(FUR_EABORTED);
	SHOW_CODE(FUR_EIO);
	SHOW_CODE(FUR_ENOMEM);
	SHOW_CODE(FUR_EFREE);
	SHOW_CODE(FUR_EFORK);
	SHOW_CODE(FUR_EREADONLY);
	SHOW_CODE(FUR_ETOOOLD);
	SHOW_CODE(FUR_EBEHIND);
	SHOW_CODE(FUR_EFENCED);
	SHOW_CODE(FUR_EINDOUBT);
	SHOW_CODE(FUR_ELOST);
	SHOW_CODE(FUR_EGROUP);
}

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
	SHOW(snapshot_bytes);
	SHOW(ack);
	SHOW(ack_patience_ms);
	printf("sizeof %zu\n", sizeof(struct fur_options));
	printf("iterator %zu\n", sizeof(struct fur_map_iterator));
	show_codes();
	printf("FUR_HTM_NONE %d\nFUR_PM_SYNC %d\n", FUR_HTM_NONE, FUR_PM_SYNC);
	printf("FUR_ACK_REPLICATED %d\n", FUR_ACK_REPLICATED);
	printf("FUR_HTM_POWER %d\nFUR_SNAPSHOT %d\n", FUR_HTM_POWER, FUR_SNAPSHOT);
	printf("FUR_LOG_WARNING %d\nFUR_LOG_ERROR %d\n", FUR_LOG_WARNING, FUR_LOG_ERROR);
	printf("FUR_OPEN_OR_CREATE %d\n", FUR_OPEN_OR_CREATE);
	printf("info.heap_bytes %zu\n", offsetof(struct fur_info, heap_bytes));
	printf("FUR_MAP_BEHIND %d\nFUR_MAP_BEFORE %d\n", FUR_MAP_BEHIND, FUR_MAP_BEFORE);
	printf("ticket %zu\n", sizeof(fur_ticket));
	show_lookup();
	show_ship();
	return 0;
}
