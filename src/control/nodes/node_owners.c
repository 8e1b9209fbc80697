/* node_owners.c - keeps who owns what, by user.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/nodes/node_owners.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"

void node_owners_fini(struct node_owners *owners)
{
    free(owners->run);
    free(owners->pid);
    *owners = (struct node_owners){ 0 };
}

size_t node_owners_bytes(const struct node_owners *owners)
{
    return owners->run_room * sizeof(*owners->run) + owners->pid_room * sizeof(*owners->pid);
}

/* ---- what root's daemon says ---- */

static const char *owners_value(const struct environment *environment, const char *name)
{
    for (uint32_t i = 0; i < environment->count; i++) {
        if (strcmp(environment->pair[i].name, name) == 0 && !environment->pair[i].digest)
            return environment->pair[i].value;
    }
    return NULL;
}

static bool owners_number(const char *text, uint32_t *ret)
{
    char *end;
    unsigned long number;

    if (!text || !text[0] || strlen(text) > 10 || strspn(text, "0123456789") != strlen(text))
        return false;
    number = strtoul(text, &end, 10);
    *ret = (uint32_t)number;
    return number <= UINT32_MAX;
}

static void owners_drop(struct node_owners *owners, size_t at)
{
    memmove(&owners->run[at], &owners->run[at + 1],
            (owners->runs - at - 1) * sizeof(owners->run[0]));
    owners->runs--;
}

/* The newest is last.  A user with too many loses his own oldest. */
static int owners_run_add(struct node_owners *owners, uint32_t uid, const char *run)
{
    size_t count = 0, oldest = 0;

    for (size_t i = owners->runs; i > 0; i--) {
        if (owners->run[i - 1].uid != uid)
            continue;
        if (strcmp(owners->run[i - 1].run, run) == 0)
            return 0;
        count++;
        oldest = i - 1;
    }
    if (count >= OWNER_USER_RUNS)
        owners_drop(owners, oldest);
    if (owners->runs == OWNER_RUNS)
        return 0;
    if (!ARRAY_FIT(owners->run, owners->run_room, owners->runs + 1))
        return -ENOMEM;
    owners->run[owners->runs] = (struct owned_run){ .uid = uid };
    snprintf(owners->run[owners->runs].run, sizeof(owners->run[0].run), "%.63s", run);
    owners->runs++;
    return 0;
}

static int owners_pid_add(struct node_owners *owners, uint32_t uid, uint32_t pid)
{
    for (size_t i = 0; i < owners->pids; i++) {
        if (owners->pid[i].pid == pid) {
            owners->pid[i].uid = uid;
            return 0;
        }
    }
    if (owners->pids < OWNER_PIDS && !ARRAY_FIT(owners->pid, owners->pid_room, owners->pids + 1))
        return -ENOMEM;
    owners->pid[owners->pids_ever++ % OWNER_PIDS] = (struct owned_pid){ pid, uid };
    owners->pids = MIN(owners->pids + 1, (size_t)OWNER_PIDS);
    return 0;
}

int node_owners_take(struct node_owners *owners, const struct environment *environment)
{
    const char *run = owners_value(environment, NODE_OWNS_RUN);
    uint32_t uid, pid;

    if (!owners_number(owners_value(environment, NODE_OWNS_UID), &uid))
        return 0;
    if (run && run[0])
        return owners_run_add(owners, uid, run);
    if (owners_number(owners_value(environment, NODE_OWNS_PID), &pid))
        return owners_pid_add(owners, uid, pid);
    return 0;
}

int node_owners_environment(const char *node, const struct owned_run *run, struct environment *ret)
{
    struct environment_pair *pair = calloc(2, sizeof(*pair));

    if (!pair)
        return -ENOMEM;
    *ret = (struct environment){ .count = 2, .pair = pair };
    snprintf(ret->node, sizeof(ret->node), "%s", node);
    snprintf(ret->pair[0].name, sizeof(ret->pair[0].name), NODE_OWNS_UID);
    snprintf(ret->pair[0].value, sizeof(ret->pair[0].value), "%" PRIu32, run->uid);
    snprintf(ret->pair[1].name, sizeof(ret->pair[1].name), NODE_OWNS_RUN);
    snprintf(ret->pair[1].value, sizeof(ret->pair[1].value), "%s", run->run);
    return 0;
}

/* ---- questions ---- */

static bool owners_is_run(const struct owned_run *owned, const char *run)
{
    char name[FACT_NAME + 16];

    snprintf(name, sizeof(name), "%s.u%" PRIu32, owned->run, owned->uid);
    return strcmp(owned->run, run) == 0 || strcmp(name, run) == 0;
}

bool node_owners_user(const struct node_owners *owners, const char *run, uint32_t *ret)
{
    for (size_t i = 0; i < owners->runs; i++) {
        if (!owners_is_run(&owners->run[i], run))
            continue;
        *ret = owners->run[i].uid;
        return true;
    }
    return false;
}

bool node_owners_has_run(const struct node_owners *owners, const char *run)
{
    uint32_t user;

    return node_owners_user(owners, run, &user);
}

bool node_owners_has_process(const struct node_owners *owners, const char *run, uint32_t pid)
{
    const struct owned_pid *owned = NULL;

    for (size_t i = 0; i < owners->pids && !owned; i++) {
        if (owners->pid[i].pid == pid)
            owned = &owners->pid[i];
    }
    for (size_t i = 0; owned && i < owners->runs; i++) {
        if (owners->run[i].uid == owned->uid && owners_is_run(&owners->run[i], run))
            return true;
    }
    return false;
}
