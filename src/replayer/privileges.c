/* SPDX-License-Identifier: BSD-3-Clause
 *
 * privileges.c - privileges.h, done.
 */
#include "replayer/privileges.h"
#include "base/error.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The owner's own groups; of an owner that has no account, the file's group and no other. */
static int take_groups(const struct stat *file)
{
	const struct passwd *owner = getpwuid(file->st_uid);
	gid_t group = owner ? owner->pw_gid : file->st_gid;
	if (owner ? initgroups(owner->pw_name, group) : setgroups(0, NULL))
		return -1;
	return setresgid(group, group, group);
}

int privileges_become_owner(const char *path)
{
	struct stat file;
	/* A file that is not there: the one who opens it says so. */
	if (geteuid() != 0 || stat(path, &file) || file.st_uid == 0)
		return 0;
	/* The user last: with that the right to change the others is gone. */
	if (take_groups(&file) || setresuid(file.st_uid, file.st_uid, file.st_uid))
		return fur_fail(FUR_ESYS,
		        "cannot become user %u, its owner: %s: start fur-replayer as that user",
		        (unsigned)file.st_uid, strerror(errno));
	if (setuid(0) == 0)
		return fur_fail(FUR_ESYS,
		        "root's rights cannot be given up here: start fur-replayer as user %u, its "
		        "owner",
		        (unsigned)file.st_uid);
	return 0;
}
