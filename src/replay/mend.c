/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mend.c - corrections of a marker or its record by the checksum (inspect.h).
 *
 * It is right to keep an update that was written whole, whether it had returned or not: recovery
 * may keep an update that was still in flight.
 */
#include "replay/inspect.h"

#include <string.h>

/* In records up to the first length we try every value of every byte; up to the second length,
 * every bit.  We do not search longer records. */
enum { ANY_BYTE_MOST = 1024, ANY_BIT_MOST = 16384 };

struct search {
	const struct media_file *f;
	uint64_t durts;
	uint64_t *budget;
	struct inspect_mend *mend;
	unsigned found;
};

/* Is the marker valid, with the change that is being tried in the mapping? */
static bool change_fits(const struct search *s)
{
	struct media_marker m;
	bool plausible = log_read_plausible(s->f, s->durts, &m);
	uint64_t cost = sizeof m + m.log_bytes;
	if (!plausible || *s->budget < cost)
		return false;
	*s->budget -= cost;
	return log_marker_valid(s->f, &m, s->durts);
}

static uint64_t file_offset(const struct search *s, const void *mapped)
{
	return (uint64_t)((const uint8_t *)mapped - (const uint8_t *)s->f->words);
}

static void change_keep(
        struct search *s, const void *at, unsigned bytes, const void *was, const void *is)
{
	if (s->found++)
		return;
	*s->mend = (struct inspect_mend){
	        .durts = s->durts, .offset = file_offset(s, at), .bytes = bytes};
	memcpy(s->mend->was, was, bytes);
	memcpy(s->mend->is, is, bytes);
}

/* Try the durTS.  It may have been overwritten, or its process was killed before it wrote the
 * durTS, which it writes last. */
static void try_durts(struct search *s)
{
	struct media_marker *m = log_marker(s->f, s->durts);
	const uint64_t was = m->durts;
	if (was == s->durts)
		return;
	m->durts = s->durts;
	if (change_fits(s))
		change_keep(s, m, 8, &was, &s->durts);
	m->durts = was;
}

/* Try every other value of the byte, or only those that differ in one bit. */
static void try_byte(struct search *s, uint8_t *byte, bool any)
{
	const uint8_t was = *byte;
	for (unsigned change = 1; change < 256; change = any ? change + 1 : change * 2) {
		const uint8_t is = (uint8_t)(was ^ change);
		*byte = is;
		bool fits = change_fits(s);
		*byte = was;
		if (fits)
			change_keep(s, byte, 1, &was, &is);
	}
}

static void try_marker(struct search *s)
{
	uint8_t *raw = (uint8_t *)log_marker(s->f, s->durts);
	/* try_durts() has tried the bytes of the durTS. */
	for (uint64_t k = offsetof(struct media_marker, log_start); k < sizeof(struct media_marker);
	        k++)
		try_byte(s, raw + k, true);
}

static void try_record(struct search *s)
{
	struct media_marker m = log_read_marker(s->f, s->durts);
	if (!log_marker_plausible(s->f->super, &m) || m.log_bytes > ANY_BIT_MOST)
		return;
	uint8_t *log = log_of_marker(s->f, &m);
	for (uint64_t k = 0; k < m.log_bytes; k++)
		try_byte(s, log + log_place(s->f->super, m.log_start + k),
		        m.log_bytes <= ANY_BYTE_MOST);
}

bool inspect_find_mend(
        const struct media_file *f, uint64_t durts, uint64_t *budget, struct inspect_mend *mend)
{
	struct search s = {f, durts, budget, mend, 0};
	if (log_marker(f, durts)->durts != durts) {
		try_durts(&s);
	} else {
		try_marker(&s);
		try_record(&s);
	}
	return s.found == 1;
}
