/* private_table.c - the functions that the Python package finds by address.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "probe/private_table.h"

#include <stddef.h>
#include <stdio.h>

#include "probe/gloo.h"
#include "probe/host_wait.h"
#include "probe/nccl.h"
#include "probe/nccl_plugin.h"
#include "probe/probe_private.h"
#include "probe/python.h"
#include "probe/stamp.h"

static int private_stamps_use(struct lockstep_probe *probe, symbol_find *find, void *library,
                              char *why, uint64_t room)
{
    struct err err = { .text = "" };
    int result = stamps_open(probe, find, library, &err);

    if (result < 0 && room)
        snprintf(why, room, "%s", err.text);
    return result;
}

static const struct private_table table = {
    .coll_launch = probe_coll_launch,
    .p2p_launch = probe_p2p_launch,
    .python_use = python_use,
    .python_method = python_method,
    .gloo_use = gloo_use,
    .gloo_watch = gloo_watch,
    .gloo_work = gloo_work,
    .gloo_done = gloo_done,
    .gloo_look = gloo_look,
    .nccl_watch = nccl_watch,
    .stamps_use = private_stamps_use,
    .stamps_reason = stamps_off_reason,
    .host_waits = host_waits_watch,
    .nccl_group = nccl_group,
};

const struct private_table *lockstep_private_table(uint32_t version)
{
    return version == PRIVATE_TABLE_VERSION ? &table : NULL;
}
