/* SPDX-License-Identifier: BSD-3-Clause
 *
 * attributes.c - what belongs to a file besides its contents: owner, group, mode, access control
 * list, labels and other extended attributes.  A file that replaces another one gets them all.  A
 * copy belongs to the user who makes it, and is open to no user to whom the original is not.
 */
#include "base/error.h"
#include "file/file_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#define ACCESS_LIST "system.posix_acl_access"

/* The kernel makes these of a file's contents. */
static bool made_of_contents(const char *name)
{
	return !strcmp(name, "security.ima") || !strcmp(name, "security.evm");
}

static int fail_attribute(const char *name, int error)
{
	return fur_fail(FUR_ESYS,
	        "cannot give the new file the extended attribute %s: %s: run this as the heap's "
	        "owner or as root, or take the attribute away (setfattr -x); the heap is as it was",
	        name, strerror(error));
}

static int fail_attributes(int error)
{
	return fur_fail(FUR_ESYS,
	        "cannot read the heap's extended attributes: %s: check the disk, or free some "
	        "memory; the heap is as it was",
	        strerror(error));
}

/* The value of an attribute, or all names if `name` is NULL; *bytes is its length.  NULL, with
 * errno: it cannot be read.  The caller frees it. */
static char *read_attribute(int fd, const char *name, ssize_t *bytes)
{
	char *value = NULL;
	for (;;) {
		*bytes = name ? fgetxattr(fd, name, NULL, 0) : flistxattr(fd, NULL, 0);
		if (*bytes < 0 || !(value = malloc((size_t)*bytes + 1)))
			return NULL;
		*bytes = name ? fgetxattr(fd, name, value, (size_t)*bytes)
		              : flistxattr(fd, value, (size_t)*bytes);
		if (*bytes >= 0)
			return value;
		free(value);
		if (errno != ERANGE) /* it has become longer meanwhile */
			return NULL;
	}
}

static int copy_attribute(int from, int to, const char *name)
{
	ssize_t bytes, there;
	char *value = read_attribute(from, name, &bytes);
	if (!value)
		return errno == ENODATA ? 0 : fail_attributes(errno);
	/* A label that the file has already may need no right to set it. */
	char *has = read_attribute(to, name, &there);
	const bool equal = has && there == bytes && !memcmp(has, value, (size_t)bytes);
	const int error = equal || !fsetxattr(to, name, value, (size_t)bytes, 0)
	                          ? 0
	                          : fail_attribute(name, errno);
	free(has);
	free(value);
	return error;
}

static int copy_attributes(int from, int to)
{
	ssize_t bytes;
	int error = 0;
	char *names = read_attribute(from, NULL, &bytes);
	if (!names)
		return errno == EOPNOTSUPP ? 0 : fail_attributes(errno);
	for (const char *name = names; !error && name < names + bytes; name += strlen(name) + 1)
		if (!made_of_contents(name))
			error = copy_attribute(from, to, name);
	free(names);
	return error;
}

static bool has_access_list(int fd)
{
	return fgetxattr(fd, ACCESS_LIST, NULL, 0) > 0;
}

/* One that the new file has from its directory. */
static int drop_access_list(int fd)
{
	return !has_access_list(fd) || !fremovexattr(fd, ACCESS_LIST)
	               ? 0
	               : fail_attribute(ACCESS_LIST, errno);
}

/* The owner first: that takes rights away which the others set.  The mode last: the new file is
 * closed to others until all is in its place. */
int file_keep_attributes(int from, int to)
{
	struct stat old, new;
	int error = file_stat(from, &old);
	if (!error)
		error = file_stat(to, &new);
	if (error)
		return error;
	const bool owned = new.st_uid == old.st_uid &&new.st_gid == old.st_gid;
	if (!owned && fchown(to, old.st_uid, old.st_gid))
		return fur_fail(FUR_ESYS,
		        "cannot give the new file to user %u and group %u, as the heap has them: "
		        "%s: run this as that user, in that group, or as root; the heap is as it "
		        "was",
		        (unsigned)old.st_uid, (unsigned)old.st_gid, strerror(errno));
	error = drop_access_list(to);
	if (!error)
		error = copy_attributes(from, to);
	if (error)
		return error;
	return fchmod(to, old.st_mode & 07777)
	               ? fur_fail(FUR_ESYS,
	                         "cannot give the new file the heap's mode, %04o: %s: choose "
	                         "another mode (chmod), or run this as root; the heap is as it was",
	                         (unsigned)old.st_mode & 07777, strerror(errno))
	               : 0;
}

/* The group bits of a file with a list are the list's mask: what it grants the group is in the
 * list. */
int file_set_copy_mode(int from, int to)
{
	struct stat original, copy;
	int error = file_stat(from, &original);
	if (!error)
		error = file_stat(to, &copy);
	if (!error)
		error = drop_access_list(to);
	if (error)
		return error;
	mode_t mode = original.st_mode & 0777;
	if (has_access_list(from) || copy.st_gid != original.st_gid)
		mode &= ~(mode_t)S_IRWXG;
	return fchmod(to, mode | 0600) ? fur_fail(FUR_ESYS,
	                                         "cannot set the copy's mode: %s: choose another "
	                                         "place; there is no "
	                                         "copy",
	                                         strerror(errno))
	                               : 0;
}
