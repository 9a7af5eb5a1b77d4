#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Names and numbers that survive; examples/phonebook.c in Python.

    phonebook.py HEAP NAME NUMBER     remember
    phonebook.py HEAP NAME            all names from NAME on
"""
import sys

import libfur


def main() -> int:
    if len(sys.argv) not in (3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    path, name, *number = sys.argv[1:]
    try:
        with libfur.Heap.open_or_create(path) as heap:
            book = heap.ordered_map("book", text=True)
            if number:
                known = name in book
                book[name] = number[0]
                print("changed" if known else "added")
            else:
                for one, its_number in book.scan(name):
                    print(one, its_number)
    except libfur.Error as error:
        print(f"phonebook: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
