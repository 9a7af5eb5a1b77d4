/* SPDX-License-Identifier: BSD-3-Clause
 *
 * group_file.h - the file of a group: text that lists its members.
 *
 *     libfur group 1
 *     id 0f1e2d3c4b5a69788796a5b4c3d2e1f0
 *     most 64
 *     member 0 00112233445566778899aabbccddeeff accounts.heap
 *     removed 1
 *     joining 2 ffeeddccbbaa99887766554433221100 /disk2/orders.heap
 *     check 0123456789abcdef
 *
 * The lines of members are in the order of their indices; `leaving` is the fourth kind.  A path
 * ends at the line's end, and is relative to the file's directory unless it begins with a slash.
 * In it %XX stands for a byte below 32, for % and for DEL.  The check is the XXH3 of all bytes
 * before its line.
 */
#ifndef FUR_GROUP_FILE_H
#define FUR_GROUP_FILE_H

#include "group/group.h"
#include "media/group_page.h"

/* Bytes of the longest text. */
enum { GROUP_FILE_MOST = 4 << 20 };

/* Memory for `most` members.   Errors: FUR_ENOMEM. */
FUR_MUST_USE int group_file_allocate(struct fur_group *g, uint32_t most);
/* Free what group_file_allocate() and group_file_parse() have allocated. */
void group_file_free(struct fur_group *g);

/* Read id, most, limit and members from the text.  Frees nothing after an error.
 * Errors: FUR_ECORRUPT, FUR_EVERSION, FUR_ENOMEM. */
FUR_MUST_USE int group_file_parse(struct fur_group *g, const char *text, size_t bytes);

/* The check of a text. */
uint64_t group_file_sum(const char *text, size_t bytes);

/* The text for the group as it is now; the caller frees it.  NULL: no memory, with a message. */
char *group_file_text(const struct fur_group *g, size_t *bytes);

/* Open, lock and read the file g->path; sets g->fd.
 * Errors: FUR_ENOENT, FUR_EBUSY; those of group_file_parse(); FUR_ESYS. */
FUR_MUST_USE int group_file_open(struct fur_group *g);
/* Make it; replace it by the group as it is now.  Durable before return.
 * Errors: FUR_EEXIST (make), FUR_ENOSPC, FUR_ENOMEM, FUR_ESYS. */
FUR_MUST_USE int group_file_make(struct fur_group *g);
FUR_MUST_USE int group_file_replace(struct fur_group *g);

/* The member that has this heap, or g->limit. */
uint64_t group_find_heap(const struct fur_group *g, const uint8_t uuid[MEDIA_ID_BYTES]);

/* The word for a member's state in the text; not for GROUP_NONE. */
const char *group_state_name(enum group_state state);

#endif /* FUR_GROUP_FILE_H */
