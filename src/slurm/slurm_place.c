/* slurm_place.c - where this process is in a Slurm job, from its environment.
 *
 * A batch script passes the variables of its own on to everything that it starts; only srun sets those of a step.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "slurm/slurm_place.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* False: it is not set, or no number. */
static bool place_number(const char *name, uint64_t most, uint64_t *ret)
{
    const char *text = getenv(name);
    unsigned long long value;
    char *end;

    if (!text || !isdigit((unsigned char)text[0]))
        return false;
    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno || *end || value > most)
        return false;
    *ret = value;
    return true;
}

static uint32_t place_small(const char *name)
{
    uint64_t value = 0;

    return place_number(name, UINT32_MAX, &value) ? (uint32_t)value : 0;
}

/* "2(x3),1": of the node with that number; 0: not known. */
static uint32_t place_tasks(const char *text, uint32_t node)
{
    while (text && isdigit((unsigned char)*text)) {
        char *end;
        unsigned long tasks = strtoul(text, &end, 10), nodes = 1;

        if (strncmp(end, "(x", 2) == 0)
            nodes = strtoul(end + 2, &end, 10);
        if (*end == ')')
            end++;
        if (node < nodes)
            return tasks <= UINT32_MAX ? (uint32_t)tasks : 0;
        node -= (uint32_t)nodes;
        text = *end == ',' ? end + 1 : NULL;
    }
    return 0;
}

bool slurm_place_read(struct slurm_place *ret)
{
    struct slurm_place place = { .job = 0 };
    const char *node = getenv("SLURMD_NODENAME");
    uint64_t step = 0;

    if (!place_number("SLURM_JOB_ID", UINT64_MAX, &place.job) || !place.job || !node ||
        !slurm_is_node_name(node))
        return false;
    snprintf(place.node, sizeof(place.node), "%s", node);
    place.in_step =
        place_number("SLURM_STEP_ID", UINT32_MAX - 16, &step); /* above: batch, extern ... */
    place.step = (uint32_t)step;
    place.node_number = place_small("SLURM_NODEID");
    place.nodes = place_small(place.in_step ? "SLURM_STEP_NUM_NODES" : "SLURM_JOB_NUM_NODES");
    if (place.in_step)
        place.local_tasks = place_tasks(getenv("SLURM_STEP_TASKS_PER_NODE"), place.node_number);
    place.restarts = place_small("SLURM_RESTART_COUNT");
    *ret = place;
    return place.nodes > 0;
}

void slurm_place_name(const struct slurm_place *place, char ret[static 64])
{
    char step[16] = "", restart[16] = "";

    if (place->in_step && place->step)
        snprintf(step, sizeof(step), ".%u", place->step);
    if (place->restarts)
        snprintf(restart, sizeof(restart), "-r%u", place->restarts);
    snprintf(ret, 64, "job-%llu%s%s", (unsigned long long)place->job, step, restart);
}
