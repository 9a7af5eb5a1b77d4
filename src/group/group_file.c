/* SPDX-License-Identifier: BSD-3-Clause
 *
 * group_file.c - see group_file.h.
 */
#include "group/group_file.h"
#include "base/error.h"
#include "file/text_file.h"

#define XXH_INLINE_ALL
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define SIGNATURE "libfur group "
enum { VERSION = 1 };

static const char *const state_names[] = {[GROUP_MEMBER] = "member",
        [GROUP_JOINING] = "joining",
        [GROUP_LEAVING] = "leaving",
        [GROUP_REMOVED] = "removed"};

const char *group_state_name(enum group_state state)
{
	return state_names[state];
}

uint64_t group_find_heap(const struct fur_group *g, const uint8_t uuid[MEDIA_ID_BYTES])
{
	uint64_t k = 0;
	while (k < g->limit &&
	        !(g->members[k].path && memcmp(g->members[k].uuid, uuid, MEDIA_ID_BYTES) == 0))
		k++;
	return k;
}

/* ------------------------------------------------------------------ memory */

int group_file_allocate(struct fur_group *g, uint32_t most)
{
	g->most = most;
	g->members = calloc(most, sizeof *g->members);
	return g->members ? 0
	                  : fur_fail(FUR_ENOMEM, "no memory for %u members: free some memory",
	                            (unsigned)most);
}

void group_file_free(struct fur_group *g)
{
	for (uint32_t k = 0; g->members && k < g->most; k++)
		free(g->members[k].path);
	free(g->members);
	g->members = NULL;
}

/* -------------------------------------------------------------------- read */

/* What is left of the text, or of a line. */
struct cursor {
	const char *at, *end;
};

static int fail_damaged(const char *what)
{
	return fur_fail(FUR_ECORRUPT,
	        "the group's file is damaged (%s): restore it from a copy, or make it again from "
	        "the heaps, with fur-group rebuild",
	        what);
}

static bool take(struct cursor *c, const char *word)
{
	const size_t length = strlen(word);
	if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length) != 0)
		return false;
	c->at += length;
	return true;
}

/* A decimal number without leading zeros, of at most nine digits. */
static bool take_number(struct cursor *c, uint32_t *number)
{
	const char *from = c->at;
	*number = 0;
	while (c->at < c->end && c->at - from < 9 && *c->at >= '0' && *c->at <= '9')
		*number = *number * 10 + (uint32_t)(*c->at++ - '0');
	return c->at > from && (*from != '0' || c->at == from + 1);
}

static int digit_of(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool take_byte(struct cursor *c, uint8_t *byte)
{
	const int high = c->end - c->at < 2 ? -1 : digit_of(c->at[0]),
	          low = high < 0 ? -1 : digit_of(c->at[1]);
	if (low < 0)
		return false;
	*byte = (uint8_t)(high << 4 | low);
	c->at += 2;
	return true;
}

static bool take_hex(struct cursor *c, uint8_t bytes[MEDIA_ID_BYTES])
{
	for (int k = 0; k < MEDIA_ID_BYTES; k++)
		if (!take_byte(c, &bytes[k]))
			return false;
	return true;
}

/* The next line, without its end. */
static bool take_line(struct cursor *text, struct cursor *line)
{
	const char *end = memchr(text->at, '\n', (size_t)(text->end - text->at));
	if (!end)
		return false;
	*line = (struct cursor){text->at, end};
	text->at = end + 1;
	return true;
}

static bool must_be_quoted(char c)
{
	return (unsigned char)c < 32 || c == '%' || c == 127;
}

/* The rest of the line.  NULL: it is no path, or there is no memory. */
static char *take_path(struct cursor *c)
{
	const size_t bytes = (size_t)(c->end - c->at);
	char *path = bytes ? malloc(bytes + 1) : NULL, *to = path;
	while (path && c->at < c->end) {
		uint8_t byte = (uint8_t)*c->at++;
		const bool quoted = byte == '%';
		if ((quoted && !take_byte(c, &byte)) || !byte ||
		        must_be_quoted((char)byte) != quoted) {
			free(path);
			return NULL;
		}
		*to++ = (char)byte;
	}
	if (path)
		*to = 0;
	return path;
}

static bool take_state(struct cursor *line, enum group_state *state)
{
	for (int k = GROUP_MEMBER; k <= GROUP_REMOVED; k++)
		if (take(line, state_names[k])) {
			*state = (enum group_state)k;
			return take(line, " ");
		}
	return false;
}

static int parse_member(struct fur_group *g, struct cursor line)
{
	enum group_state state;
	uint32_t k;
	if (!take_state(&line, &state) || !take_number(&line, &k) || k < g->limit || k >= g->most)
		return fail_damaged("a member");
	struct group_member *m = &g->members[k];
	if (state == GROUP_REMOVED && line.at == line.end) {
		m->state = state;
		g->limit = k + 1;
		return 0;
	}
	if (state == GROUP_REMOVED || !take(&line, " ") || !take_hex(&line, m->uuid) ||
	        group_find_heap(g, m->uuid) < g->limit || /* two members are two heaps */
	        !take(&line, " ") || !(m->path = take_path(&line)))
		return fail_damaged("a member");
	m->state = state;
	g->limit = k + 1;
	return 0;
}

uint64_t group_file_sum(const char *text, size_t bytes)
{
	return XXH3_64bits(text, bytes);
}

/* The last line, with the check of what comes before it. */
static bool check_fits(const char *text, size_t bytes)
{
	enum { LINE = sizeof "check 0123456789abcdef\n" - 1 };
	char want[LINE + 1];
	if (bytes <= LINE || text[bytes - LINE - 1] != '\n')
		return false;
	bytes -= LINE;
	snprintf(want, sizeof want, "check %016llx\n",
	        (unsigned long long)group_file_sum(text, bytes));
	return memcmp(text + bytes, want, LINE) == 0;
}

static int parse_version(struct cursor *text)
{
	struct cursor line;
	uint32_t version;
	if (!take(text, SIGNATURE))
		return fur_fail(FUR_ECORRUPT, "this is not a group's file, or it is damaged: check "
		                              "the path, or make the file again from the heaps, "
		                              "with fur-group rebuild");
	if (!take_line(text, &line) || !take_number(&line, &version) || line.at != line.end)
		return fail_damaged("version");
	return version == VERSION ? 0
	                          : fur_fail(FUR_EVERSION,
	                                    "the group's file has version %u, and this library "
	                                    "reads version %d: use the libfur that made it, or "
	                                    "make the file again from the heaps, with fur-group "
	                                    "rebuild",
	                                    (unsigned)version, VERSION);
}

int group_file_parse(struct fur_group *g, const char *text, size_t bytes)
{
	struct cursor all = {text, text + bytes}, line;
	uint32_t most;
	int error = parse_version(&all);
	if (error)
		return error;
	if (!check_fits(text, bytes))
		return fail_damaged("checksum");
	if (!take(&all, "id ") || !take_hex(&all, g->id) || !take(&all, "\nmost ") ||
	        !take_number(&all, &most) || !take(&all, "\n") || most < MEDIA_PARTS_LEAST ||
	        most > FUR_GROUP_MOST_MEMBERS)
		return fail_damaged("head");
	error = group_file_allocate(g, most);
	while (!error && take_line(&all, &line) && !take(&line, "check "))
		error = parse_member(g, line);
	return !error && all.at != all.end ? fail_damaged("end") : error;
}

/* ------------------------------------------------------------------- write */

static void write_path(FILE *out, const char *path)
{
	for (; *path; path++)
		if (must_be_quoted(*path))
			fprintf(out, "%%%02x", (unsigned char)*path);
		else
			putc(*path, out);
}

static void write_member(FILE *out, const struct group_member *m, unsigned k)
{
	char uuid[MEDIA_ID_TEXT];
	fprintf(out, "%s %u", state_names[m->state], k);
	if (m->state != GROUP_REMOVED) {
		media_id_text(m->uuid, uuid);
		fprintf(out, " %s ", uuid);
		write_path(out, m->path);
	}
	putc('\n', out);
}

char *group_file_text(const struct fur_group *g, size_t *bytes)
{
	char *text = NULL, id[MEDIA_ID_TEXT];
	FILE *out = open_memstream(&text, bytes);
	media_id_text(g->id, id);
	if (out) {
		fprintf(out, SIGNATURE "%d\nid %s\nmost %u\n", VERSION, id, (unsigned)g->most);
		for (unsigned k = 0; k < g->limit; k++)
			if (g->members[k].state != GROUP_NONE)
				write_member(out, &g->members[k], k);
		fflush(out);
		fprintf(out, "check %016llx\n",
		        (unsigned long long)(text ? group_file_sum(text, *bytes) : 0));
		if (ferror(out)) {
			fclose(out);
			out = NULL;
		}
	}
	if (out && fclose(out) == 0 && text)
		return text;
	free(text);
	fur_fail(FUR_ENOMEM, "no memory for the group's file: free some memory");
	return NULL;
}

/* -------------------------------------------------------------------- file */

int group_file_open(struct fur_group *g)
{
	char *text;
	size_t bytes;
	g->fd = text_file_open(g->path);
	if (g->fd == FUR_EBUSY)
		return fur_fail(FUR_EBUSY,
		        "the group is open in another process, or twice in this one: close it "
		        "there, or end that process, first");
	if (g->fd < 0)
		return g->fd;
	int error = text_file_read(g->fd, GROUP_FILE_MOST, &text, &bytes);
	if (!error)
		error = group_file_parse(g, text, bytes);
	free(text);
	return error;
}

static int write_file(
        struct fur_group *g, int (*put)(const char *path, const char *text, size_t bytes, int *fd))
{
	size_t bytes;
	char *text = group_file_text(g, &bytes);
	const int error = text ? put(g->path, text, bytes, &g->fd) : FUR_ENOMEM;
	free(text);
	return error ? fur_fail_at(error, g->path) : 0;
}

int group_file_make(struct fur_group *g)
{
	return write_file(g, text_file_make);
}

int group_file_replace(struct fur_group *g)
{
	return write_file(g, text_file_replace);
}
