/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mend.c - corrections of a marker or its record by the checksum (inspect.h).
 *
 * To keep an update that was written whole is right whether it had returned or not: recovery may
 * keep what was still in flight.
 */
#include "replay/inspect.h"

#include <string.h>

/* Records up to this length are searched by bytes, up to this by bits; longer ones not. */
enum { ANY_BYTE = 1024, ANY_BIT = 16384 };

struct search {
	const struct media_file *f;
	uint64_t durts;
	uint64_t *budget;
	struct inspect_mend *mend;
	unsigned found;
};

static struct media_marker *marker(const struct search *s)
{
	return (struct media_marker *)(uintptr_t)inspect_marker(s->f, s->durts);
}

/* Does the marker check, as the mapping now is? */
static bool holds(const struct search *s)
{
	const struct media_marker m = *marker(s);
	uint64_t cost = sizeof m + m.log_bytes;
	if (m.durts != s->durts || !inspect_plausible(s->f->super, &m) || *s->budget < cost)
		return false;
	*s->budget -= cost;
	return inspect_valid(s->f, &m, s->durts);
}

static uint64_t offset_of(const struct search *s, const void *mapped)
{
	return (uint64_t)((const uint8_t *)mapped - (const uint8_t *)s->f->words);
}

static void keep(struct search *s, const void *at, unsigned bytes, const void *was, const void *is)
{
	if (s->found++)
		return;
	*s->mend = (struct inspect_mend){
	        .durts = s->durts, .offset = offset_of(s, at), .bytes = bytes};
	memcpy(s->mend->was, was, bytes);
	memcpy(s->mend->is, is, bytes);
}

/* Overwritten since, or not written before its process was killed, for the number is written
 * last. */
static void try_number(struct search *s)
{
	struct media_marker *m = marker(s);
	const uint64_t was = m->durts;
	if (was == s->durts)
		return;
	m->durts = s->durts;
	if (holds(s))
		keep(s, m, 8, &was, &s->durts);
	m->durts = was;
}

static void try_byte(struct search *s, uint8_t *byte, bool any)
{
	const uint8_t was = *byte;
	for (unsigned change = 1; change < 256; change = any ? change + 1 : change * 2) {
		const uint8_t is = (uint8_t)(was ^ change);
		*byte = is;
		bool found = holds(s);
		*byte = was;
		if (found)
			keep(s, byte, 1, &was, &is);
	}
}

static void try_marker(struct search *s)
{
	uint8_t *raw = (uint8_t *)marker(s);
	/* A byte of the number is the number's case. */
	for (uint64_t k = offsetof(struct media_marker, log_start); k < sizeof(struct media_marker);
	        k++)
		try_byte(s, raw + k, true);
}

static void try_record(struct search *s)
{
	const struct media_marker m = *marker(s);
	if (!inspect_plausible(s->f->super, &m) || m.log_bytes > ANY_BIT)
		return;
	uint8_t *log = (uint8_t *)(uintptr_t)inspect_log(s->f, m.thread);
	for (uint64_t k = 0; k < m.log_bytes; k++)
		try_byte(s, log + ((m.log_start + k) & (s->f->super->log_bytes - 1)),
		        m.log_bytes <= ANY_BYTE);
}

bool inspect_find_mend(
        const struct media_file *f, uint64_t durts, uint64_t *budget, struct inspect_mend *mend)
{
	struct search s = {f, durts, budget, mend, 0};
	if (marker(&s)->durts != durts) {
		try_number(&s);
	} else {
		try_marker(&s);
		try_record(&s);
	}
	return s.found == 1;
}
