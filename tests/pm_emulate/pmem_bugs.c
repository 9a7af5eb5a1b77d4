/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pmem_bugs.c - a libpmem program, a list of records and its length, correct or with one bug, for
 * pm-emulate to find.
 *
 *     pmem-bugs append FILE right|no-flush|no-fence|twice|unchanged|length-first|copy [RECORDS]
 *     pmem-bugs check FILE
 *
 * Exit status: 0 as it should be, 1 the file is not what `append` may leave at any instant, 2 wrong
 * usage, 3 libpmem does not map.
 */
#include <libpmem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 1000, WORDS = 8, FILE_BYTES = 1 << 17 };

struct record {
	uint64_t word[WORDS]; /* a line */
};
struct list {
	uint64_t length, unused[7];
	struct record record[MOST];
};

static struct list *map(const char *path)
{
	size_t bytes;
	int is_pmem;
	struct list *list =
	        pmem_map_file(path, FILE_BYTES, PMEM_FILE_CREATE, 0644, &bytes, &is_pmem);
	if (list && !is_pmem) {
		fprintf(stderr, "%s: not persistent memory\n", path);
		exit(3);
	}
	if (!list) {
		fprintf(stderr, "%s: %s\n", path, pmem_errormsg());
		exit(3);
	}
	return list;
}

static void append(struct list *list, const char *how)
{
	uint64_t n = list->length;
	struct record fresh, *place = &list->record[n];
	for (int k = 0; k < WORDS; k++)
		fresh.word[k] = n * 1000 + 1;
	if (!strcmp(how, "length-first")) {
		list->length = n + 1;
		pmem_persist(&list->length, sizeof list->length);
	}
	if (!strcmp(how, "copy")) {
		pmem_memcpy_persist(place, &fresh, sizeof fresh);
	} else {
		memcpy(place, &fresh, sizeof fresh);
		if (strcmp(how, "no-flush"))
			pmem_flush(place, sizeof *place);
		if (!strcmp(how, "twice"))
			pmem_flush(place, sizeof *place);
		if (strcmp(how, "no-fence"))
			pmem_drain();
		if (!strcmp(how, "unchanged"))
			pmem_persist(place, sizeof *place);
	}
	list->length = n + 1;
	pmem_flush(&list->length, sizeof list->length);
	if (strcmp(how, "no-fence"))
		pmem_drain();
}

static int check(const struct list *list)
{
	for (uint64_t n = 0; n < list->length; n++)
		for (int k = 0; k < WORDS; k++)
			if (list->length > MOST || list->record[n].word[k] != n * 1000 + 1) {
				printf("record %llu of %llu is not whole\n", (unsigned long long)n,
				        (unsigned long long)list->length);
				return 1;
			}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc >= 4 && !strcmp(argv[1], "append")) {
		/* As daemons do; pm-emulate has files open too. */
		for (int fd = 3; fd < 1024; fd++)
			close(fd);
		struct list *list = map(argv[2]);
		for (int k = argc > 4 ? atoi(argv[4]) : 20; k > 0 && list->length < MOST; k--)
			append(list, argv[3]);
		pmem_unmap(list, FILE_BYTES);
		return 0;
	}
	if (argc == 3 && !strcmp(argv[1], "check")) {
		setenv("PMEM_IS_PMEM_FORCE", "1", 1);
		return access(argv[2], F_OK) ? 0 : check(map(argv[2]));
	}
	fprintf(stderr, "usage: pmem-bugs append FILE "
	                "right|no-flush|no-fence|twice|unchanged|length-first|copy [RECORDS], or "
	                "check FILE\n");
	return 2;
}
