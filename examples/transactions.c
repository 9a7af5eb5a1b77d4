/* SPDX-License-Identifier: BSD-3-Clause
 *
 * transactions.c - a list of names that survives, in transactions of GCC: each run adds its
 * arguments, and prints all names.  The list itself is plain C.
 *
 *     cc -fgnu-tm transactions.c $(pkg-config --cflags --libs libfur-itm) -o transactions
 *     ./transactions /tmp/names.fur ada grace
 */
#include <fur_itm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 31 };

struct name {
	struct name *next;
	char text[LONGEST + 1];
};
struct names {
	struct name *first;
	long n;
};

static void check(int result)
{
	if (result == 0)
		return;
	fprintf(stderr, "transactions: %s\n", fur_errormsg());
	exit(1);
}

/* Transactions may call it, because GCC makes a clone with transactional loads and stores. */
__attribute__((transaction_safe)) static struct names *all_names(void)
{
	struct names *names = fur_itm_root(0);
	if (!names && (names = fur_itm_alloc(sizeof *names))) {
		names->first = NULL;
		names->n = 0;
		fur_itm_set_root(0, names);
	}
	return names;
}

/* Returns: the number of names, or 0 if the heap is full. */
static long add(const char *text)
{
	long n = 0;
	struct name copy = {0};
	strncpy(copy.text, text, LONGEST);
	__transaction_atomic
	{
		struct names *names = all_names();
		struct name *added = fur_itm_alloc(sizeof *added);
		if (!names || !added)
			__transaction_cancel; /* all or nothing: a new list also goes */
		*added = copy;
		added->next = names->first;
		names->first = added;
		n = ++names->n;
	}
	return n; /* the name is durable */
}

/* Returns: the name at this place from the end, in `text`; false: there is none. */
static bool name_at(long place, char text[LONGEST + 1])
{
	struct name copy = {0};
	bool found;
	__transaction_atomic
	{
		const struct names *names = fur_itm_root(0);
		const struct name *at = names ? names->first : NULL;
		for (long n = 0; at && n < place; n++)
			at = at->next;
		found = at != NULL;
		if (found)
			copy = *at;
	}
	memcpy(text, copy.text, sizeof copy.text);
	return found;
}

int main(int argc, char **argv)
{
	fur_heap *heap;
	char text[LONGEST + 1];

	if (argc < 2) {
		fprintf(stderr, "usage: transactions HEAP [NAME...]\n");
		return 2;
	}
	int opened = fur_open(argv[1], NULL, &heap);
	if (opened == FUR_ENOENT)
		opened = fur_create(argv[1], NULL, &heap);
	check(opened);
	check(fur_itm_use(heap));

	for (int k = 2; k < argc; k++) {
		if (!add(argv[k])) {
			fprintf(stderr, "transactions: the heap is full\n");
			break;
		}
	}
	for (long place = 0; name_at(place, text); place++)
		printf("%s\n", text);

	check(fur_itm_use(NULL));
	check(fur_close(heap));
	return 0;
}
