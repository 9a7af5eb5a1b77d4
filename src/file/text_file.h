/* SPDX-License-Identifier: BSD-3-Clause
 *
 * text_file.h - a small file that is read, and replaced, as a whole.  Who has it open holds a lock
 * on it, also while it is replaced: a new file is locked before it gets the name.
 */
#ifndef FUR_TEXT_FILE_H
#define FUR_TEXT_FILE_H

#include <fur.h>

/* Open the file with this name, and lock it.  Returns the descriptor.
 * Errors: FUR_ENOENT; FUR_EBUSY, without a message: another open file has the lock; FUR_ESYS. */
FUR_MUST_USE int text_file_open(const char *path);

/* Read it; the caller frees *text.  Errors: FUR_ECORRUPT: it has more than `most` bytes;
 * FUR_ENOMEM, FUR_ESYS. */
FUR_MUST_USE int text_file_read(int fd, size_t most, char **text, size_t *bytes);

/* Make the file, or replace the file `fd`, which has this name; its owner and mode stay.
 * Afterwards *fd is the new file, locked, and the old one is closed.
 * Durable: before return, text and name.  After a crash, the old text or the new one is there.
 * Errors: FUR_EEXIST (make); FUR_ENOSPC, FUR_ENOMEM, FUR_ESYS.  *fd is the file with the name. */
FUR_MUST_USE int text_file_make(const char *path, const char *text, size_t bytes, int *fd);
FUR_MUST_USE int text_file_replace(const char *path, const char *text, size_t bytes, int *fd);

/* Make a directory, durably, if there is none.   Errors: FUR_ENOSPC, FUR_ESYS. */
FUR_MUST_USE int text_file_directory(const char *path);

#endif /* FUR_TEXT_FILE_H */
