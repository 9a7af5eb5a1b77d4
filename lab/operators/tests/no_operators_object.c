/* SPDX-License-Identifier: BSD-3-Clause
 *
 * no_operators_object.c - a shared object without a table of operators.
 */
int no_operators(void);
int no_operators(void)
{
	return 0;
}
