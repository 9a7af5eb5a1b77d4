/* SPDX-License-Identifier: BSD-3-Clause
 *
 * group_page.c - see group_page.h.
 */
#include "media/group_page.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { DECISION_ALIGN = 64, ROOM = MEDIA_PAGE_BYTES - MEDIA_DECISIONS_OFFSET };

static uint64_t bits_bytes(const struct media_super *super)
{
	return super->ring_slots / 8;
}

uint64_t media_decision_bytes(const struct media_super *super)
{
	return round_up(sizeof(struct media_decision) + bits_bytes(super), DECISION_ALIGN);
}

unsigned media_decisions(const struct media_super *super)
{
	const uint64_t fit = ROOM / media_decision_bytes(super);
	return fit < MEDIA_DECISIONS_MOST ? (unsigned)fit : MEDIA_DECISIONS_MOST;
}

bool media_may_join(const struct media_super *super)
{
	return super->version >= 2 && media_decisions(super) > 0;
}

struct media_decision *media_decision_at(const struct media_file *f, unsigned k)
{
	FUR_ASSERT(k < media_decisions(f->super));
	return (struct media_decision *)(void *)media_at(
	        f, MEDIA_DECISIONS_OFFSET + k * media_decision_bytes(f->super));
}

uint64_t media_decision_checksum(
        const struct media_super *super, const struct media_decision *decision)
{
	const uint64_t head = XXH3_64bits_withSeed(
	        decision, offsetof(struct media_decision, checksum), super->checksum);
	return XXH3_64bits_withSeed(decision->kept, bits_bytes(super), head);
}

bool media_decision_valid(
        const struct media_super *super, const struct media_decision *decision, uint64_t *to)
{
	return decision->number && media_tail_decode(arch_load(&decision->to), to) == 0 &&
	       *to > decision->from &&
	       decision->checksum == media_decision_checksum(super, decision);
}

void media_read_decisions(const struct media_file *f, struct media_decided *decided)
{
	*decided = (struct media_decided){.slots = f->super->ring_slots};
	for (unsigned k = 0; k < media_decisions(f->super); k++) {
		const struct media_decision *d = media_decision_at(f, k);
		uint64_t to;
		if (!media_decision_valid(f->super, d, &to))
			continue;
		decided->of[decided->n].from = d->from;
		decided->of[decided->n].to = to;
		decided->of[decided->n++].kept = d->kept;
	}
}

void media_id_text(const uint8_t id[MEDIA_ID_BYTES], char text[MEDIA_ID_TEXT])
{
	static const char digits[] = "0123456789abcdef";
	for (unsigned k = 0; k < MEDIA_ID_BYTES; k++) {
		text[2 * k] = digits[id[k] >> 4];
		text[2 * k + 1] = digits[id[k] & 15];
	}
	text[MEDIA_ID_TEXT - 1] = 0;
}
