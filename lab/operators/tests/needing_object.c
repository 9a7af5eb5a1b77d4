/* SPDX-License-Identifier: BSD-3-Clause
 *
 * needing_object.c - an object that needs a library.
 */
extern int needed_by_an_object(void);
__attribute__((visibility("default"))) int needs_a_library(void);

int needs_a_library(void)
{
	return needed_by_an_object();
}
