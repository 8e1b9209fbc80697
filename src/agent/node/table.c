/* table.c - runs and users, and whether a user may have another run.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/node/node_private.h"
#include "base/log.h"
#include "base/paths.h"
#include "core/clean.h"

#define TABLE_SHARE 8 /* runs that are known, for each process that may be */

struct node_user *node_user(struct node *node, uid_t uid)
{
    for (size_t i = 0; i < node->users; i++) {
        if (node->user[i].uid == uid)
            return &node->user[i];
    }
    return NULL;
}

bool node_is_full(unsigned used, unsigned most, size_t all_used, size_t all_most)
{
    size_t left = all_most - MIN(all_used, all_most);

    return used >= MIN((size_t)most, left);
}

struct node_run *node_find(struct node *node, uid_t uid, const char *name)
{
    for (size_t i = 0; i < node->runs; i++) {
        if (node->run[i]->uid == uid && strcmp(node->run[i]->name, name) == 0)
            return node->run[i];
    }
    return NULL;
}

static struct node_user *table_user_get(struct node *node, uid_t uid)
{
    struct node_user *user = node_user(node, uid);

    if (user)
        return user;
    if (!ARRAY_FIT(node->user, node->user_room, node->users + 1))
        return NULL;
    user = &node->user[node->users++];
    *user = (struct node_user){ .uid = uid };
    return user;
}

static bool table_has_room(struct node *node, struct node_user *user)
{
    const struct node_settings *settings = node->settings;
    unsigned most = settings->runs_per_user * TABLE_SHARE;

    if (!node_is_full(user->runs, most, node->runs, (size_t)settings->runs_max * TABLE_SHARE))
        return true;
    if (!user->full_logged && user->runs)
        log_error("user %u has %u runs on this node; further runs are not observed until some end",
                  user->uid, user->runs);
    user->full_logged = true;
    return false;
}

static struct node_run *table_run_create(struct node *node, uid_t uid, gid_t gid, const char *name)
{
    struct node_run *run;

    if (!ARRAY_FIT(node->run, node->run_room, node->runs + 1))
        return NULL;
    run = calloc(1, sizeof(*run));
    if (!run)
        return NULL;
    run->node = node;
    run->uid = uid;
    run->gid = gid;
    run->token_fd = -1;
    snprintf(run->name, sizeof(run->name), "%s", name);
    snprintf(run->id, sizeof(run->id), "%s.u%u", name, uid);
    node->run[node->runs++] = run;
    return run;
}

struct node_run *node_add(struct node *node, uid_t uid, gid_t gid, const char *name)
{
    struct node_user *user;
    struct node_run *run;
    char id[128];

    if (snprintf(id, sizeof(id), "%s.u%u", name, uid) >= (int)sizeof(id) ||
        paths_check_run(name, NULL) < 0 || paths_check_run(id, NULL) < 0)
        return NULL;
    user = table_user_get(node, uid);
    if (!user || !table_has_room(node, user))
        return NULL;
    run = table_run_create(node, uid, gid, name);
    if (run)
        user->runs++;
    return run;
}

static void table_run_destroy(struct node *node, struct node_run *run)
{
    struct node_user *user = node_user(node, run->uid);

    user->runs--;
    user->full_logged = false;
    fd_clean(&run->token_fd);
    explicit_bzero(&run->token, sizeof(run->token));
    free(run);
}

void node_drop_over(struct node *node)
{
    size_t kept = 0;

    for (size_t i = 0; i < node->runs; i++) {
        struct node_run *run = node->run[i];

        if (run->over && !run->pid && !run->calling)
            table_run_destroy(node, run);
        else
            node->run[kept++] = run;
    }
    node->runs = kept;
    kept = 0;
    for (size_t i = 0; i < node->users; i++) {
        if (node->user[i].runs)
            node->user[kept++] = node->user[i];
    }
    node->users = kept;
}

void node_table_fini(struct node *node)
{
    while (node->runs)
        table_run_destroy(node, node->run[--node->runs]);
    free(node->run);
    free(node->user);
}
