/* SPDX-License-Identifier: BSD-3-Clause
 *
 * privileges.c - find the heap, and become its owner: change the groups, then the user, then make
 * sure that the process cannot regain root's rights.  Then open what was found.
 */
#include "replayer/privileges.h"
#include "base/error.h"
#include "base/remedy.h"
#include "base/system.h"
#include "file/heap_file.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
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

static int become_owner(const struct stat *file)
{
	if (geteuid() != 0 || file->st_uid == 0)
		return 0;
	/* Change the user last, because after that the process may not change its groups.  The
	 * kernel takes all capabilities away with the last of the three ids, unless the process was
	 * told to keep them; then setuid(0) succeeds, because CAP_SETUID is one of them. */
	if (groups_become_owners(file) || setresuid(file->st_uid, file->st_uid, file->st_uid))
		return fur_fail(FUR_ESYS,
		        "cannot become user %u, its owner: %s: start %s as that user",
		        (unsigned)file->st_uid, strerror(errno), program_invocation_short_name);
	if (setuid(0) == 0)
		return fur_fail(FUR_ESYS,
		        "root's rights cannot be given up here: start %s as user %u, its owner",
		        program_invocation_short_name, (unsigned)file->st_uid);
	return 0;
}

/* Open the file that was found, with the rights that this process has now. */
static int open_found(int found)
{
	char name[64];
	snprintf(name, sizeof name, "/proc/self/fd/%d", found);
	const int fd = system_open(name, O_RDWR, 0);
	if (fd >= 0)
		return fd;
	const int error = errno;
	return error == ENOENT && access("/proc/self/fd", F_OK)
	               ? fur_fail(FUR_ESYS, "cannot open: /proc is not mounted: mount it")
	               : heap_open_failed(error);
}

/* INV-OW1 */
int privileges_open_as_owner(const char *path)
{
	struct stat file;
	/* O_PATH finds the file and opens nothing: to open a device may already have an effect. */
	const int found = system_open(path, O_PATH, 0);
	if (found < 0)
		return heap_open_failed(errno);
	int opened = 0;
	if (fstat(found, &file))
		opened = fail_system(FUR_ESYS, CALL_STAT, errno, NULL, "cannot stat it");
	else if (!S_ISREG(file.st_mode))
		opened = fur_fail(FUR_ENOTHEAP, "not a regular file: check the path");
	if (!opened)
		opened = become_owner(&file);
	if (!opened)
		opened = open_found(found);
	close(found);
	return opened;
}
