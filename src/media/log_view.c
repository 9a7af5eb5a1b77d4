/* SPDX-License-Identifier: BSD-3-Clause
 *
 * log_view.c - the validity of a marker.  The rest of log_view.h is inline.
 */
#include "media/log_view.h"

bool log_marker_valid(const struct media_file *f, const struct media_marker *m, uint64_t durts)
{
	return m->durts == durts && log_marker_plausible(f->super, m) &&
	       m->checksum == media_marker_checksum(f->super, m, log_of_thread(f, m->thread));
}
