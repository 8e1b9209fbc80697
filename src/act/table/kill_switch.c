/* kill_switch.c - looks for the files.
 *
 * Only ENOENT and ENOTDIR say that there is none: a file system that cannot be read turns actions off.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "act/table/kill_switch.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/paths.h"

static bool kill_switch_is_at(const char *path, char *ret, size_t room)
{
    struct stat st;

    if (lstat(path, &st) < 0 && (errno == ENOENT || errno == ENOTDIR))
        return false;
    snprintf(ret, room, "%s", path);
    return true;
}

bool kill_switch_is_on(char *ret, size_t room)
{
    struct path state, path;

    if (kill_switch_is_at(KILL_SWITCH_SITE, ret, room))
        return true;
    return paths_state(&state, NULL) == 0 &&
           path_join(&path, state.text, KILL_SWITCH_NAME, NULL) == 0 &&
           kill_switch_is_at(path.text, ret, room);
}
