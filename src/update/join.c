/* SPDX-License-Identifier: BSD-3-Clause
 *
 * join.c - a read-only transaction that joins the one that its thread has open.
 */
#include "base/error.h"
#include "update/in_place.h"

FUR_API int fur_join_ro(fur_thread *t, fur_ro **ro)
{
	if (tx_is_outermost(t, ro))
		return fur_begin_ro(t, ro);
	if (!t || !ro || tx_check_join(t, "fur_join_ro"))
		return reader_refuse_outermost(t, ro, "fur_join_ro");
	if (t->reader.open && t->reader.snapshot && !t->reader.shares)
		return fur_fail(FUR_ENESTED,
		        "fur_join_ro was called inside fur_snapshot_run, whose body reads through "
		        "its fur_reader: pass that on");
	if (t->ro.depth == 0) {
		reader_turns_plain(t); /* may not return */
		if (unlikely(t->together != NULL))
			return fur_fail(FUR_ENESTED,
			        "fur_join_ro was called inside fur_group_run, whose body reads by "
			        "fur_load() of fur_group_on(): pass that on");
		/* Its loads are plain loads, which must find the update's stores in the heap. */
		if (t->update.body.software)
			in_place_from_software(&t->update);
		t->ro.joined = true;
	}
	t->ro.depth++;
	*ro = &t->ro;
	return 0;
}
