/* SPDX-License-Identifier: BSD-3-Clause
 *
 * standard_files.h - for main(): descriptors 0 to 2.
 */
#ifndef FUR_STANDARD_FILES_H
#define FUR_STANDARD_FILES_H

#include <fcntl.h>
#include <unistd.h>

/* Open /dev/null in place of each of the descriptors 0 to 2 that is closed.  Otherwise the next
 * file that the program opens gets its number, and what is printed goes into that file. */
static inline void open_standard_files(void)
{
	int fd;
	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd > STDERR_FILENO)
		close(fd);
}

#endif /* FUR_STANDARD_FILES_H */
