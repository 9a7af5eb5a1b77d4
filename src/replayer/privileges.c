/* SPDX-License-Identifier: BSD-3-Clause
 *
 * privileges.c - become the heap's owner: change the groups, then the user, then make sure that the
 * process cannot regain root's rights.
 */
#include "replayer/privileges.h"
#include "base/error.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Take the owner's groups; if the owner has no account, the file's group and no other. */
static int groups_become_owners(const struct stat *file)
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
	/* If there is no file, opening it reports that. */
	if (geteuid() != 0 || stat(path, &file) || file.st_uid == 0)
		return 0;
	/* Change the user last, because after that the process may not change its groups. */
	if (groups_become_owners(&file) || setresuid(file.st_uid, file.st_uid, file.st_uid))
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
