/* runinfo.c - the parts of run.json that an agent needs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/runinfo.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/runfile.h"
#include "core/clean.h"

int runinfo_read(const char *run_dir, const char *node, struct runinfo *ret, struct err *err)
{
    CLEAN(runfile_fini) struct runfile file = { 0 };
    struct runfile_ranks mine;
    int result = runfile_read_node(run_dir, node, &file, &mine, err);

    if (result < 0)
        return result;
    *ret = (struct runinfo){
        .ranks = file.layout.ranks,
        .pid = file.pid,
        .keeper = file.keeper,
        .all = mine.all,
        .mine = mine.rank,
        .mine_count = mine.count,
    };
    snprintf(ret->id, sizeof(ret->id), "%s", file.id);
    snprintf(ret->rings, sizeof(ret->rings), "%s", file.rings);
    return 0;
}

int runinfo_check_owner(const char *run_dir, struct err *err)
{
    struct stat st;

    if (geteuid() != 0 || stat(run_dir, &st) < 0 || st.st_uid == 0)
        return 0; /* one that is not there is somebody else's error */
    return err_set(err, -EPERM, "%s belongs to user %u; run this as that user", run_dir, st.st_uid);
}

void runinfo_fini(struct runinfo *info)
{
    free(info->mine);
    info->mine = NULL;
    info->mine_count = 0;
}

bool runinfo_is_mine(const struct runinfo *info, uint32_t rank)
{
    for (uint32_t i = 0; i < info->mine_count; i++) {
        if (info->mine[i] == rank)
            return true;
    }
    return info->all;
}
