/* SPDX-License-Identifier: BSD-3-Clause
 *
 * step01.cpp - step 1 of docs/tutorial.md: open a heap.
 */
#include <fur.hpp>
#include <iostream>
#include <string>
#include <vector>

namespace
{

int run(const std::vector<std::string> &words)
{
	fur::Heap heap = fur::Heap::open_or_create(words.at(0));
	std::cout << "a heap of " << (heap.info().heap_bytes >> 20) << " MiB\n";
	heap.close();
	return 0;
}

} // namespace

int main(int argc, char **argv)
{
	if (argc != 2) {
		std::cerr << "usage: " << argv[0] << " HEAP\n";
		return 2;
	}
	try {
		return run({argv + 1, argv + argc});
	} catch (const std::exception &e) {
		std::cerr << e.what() << '\n';
		return 1;
	}
}
