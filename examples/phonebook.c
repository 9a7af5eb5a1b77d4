/* SPDX-License-Identifier: BSD-3-Clause
 *
 * phonebook.c - names and numbers in an ordered map, in C.
 *
 *     cc phonebook.c $(pkg-config --cflags --libs libfur) -o phonebook
 *     ./phonebook /tmp/phone.fur Ada 1815       # remember
 *     ./phonebook /tmp/phone.fur A              # all names from A on
 */
#include <fur_map.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every error has a message that names the file, the problem and the remedy. */
static int check(int result)
{
	if (result >= 0)
		return result;
	fprintf(stderr, "phonebook: %s\n", fur_errormsg());
	exit(1);
}

struct entry {
	fur_map *book;
	const char *name, *number;
	int added;
};

/* The body of the update.  If fur_map_put() fails, so does the update, and fur_update_run() returns
 * the reason. */
static void remember(fur_update *tx, void *arg)
{
	struct entry *e = arg;
	e->added = fur_map_put(tx, e->book, e->name, strlen(e->name), e->number, strlen(e->number));
}

static void list(fur_thread *self, const fur_map *book, const char *from)
{
	struct fur_map_iterator at;
	struct fur_map_bytes name, number;
	fur_ro *ro;
	check(fur_begin_ro(self, &ro));
	for (int found = fur_map_seek(ro, book, FUR_MAP_FROM, from, strlen(from), &at);
	        check(found) == 1; found = fur_map_next(&at)) {
		check(fur_map_view(&at, &name, &number));
		printf("%.*s %.*s\n", (int)name.bytes, (const char *)name.at, (int)number.bytes,
		        (const char *)number.at);
	}
	check(fur_end_ro(ro, NULL));
}

int main(int argc, char **argv)
{
	fur_heap *heap;
	fur_thread *self;
	fur_map *book;

	if (argc != 3 && argc != 4) {
		fprintf(stderr, "usage: phonebook HEAP NAME [NUMBER]\n");
		return 2;
	}
	int opened = fur_open(argv[1], NULL, &heap);
	if (opened == FUR_ENOENT)
		opened = fur_create(argv[1], NULL, &heap);
	check(opened);
	check(fur_thread_register(heap, NULL, &self));
	check(fur_map_root(self, "book", FUR_MAP_ORDERED, &book));
	if (argc == 4) {
		struct entry e = {book, argv[2], argv[3], 0};
		check(fur_update_run(self, remember, &e, NULL));
		check(e.added);
		puts(e.added ? "added" : "changed");
	} else {
		list(self, book, argv[2]);
	}
	check(fur_close(heap));
	return 0;
}
