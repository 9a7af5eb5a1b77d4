/* SPDX-License-Identifier: BSD-3-Clause
 *
 * needed_library.c - what needing_object.c needs.
 */
__attribute__((visibility("default"))) int needed_by_an_object(void);

int needed_by_an_object(void)
{
	return 1;
}
