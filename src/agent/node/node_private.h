/* node_private.h - the runs that the daemon knows, and their users.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_NODE_NODE_PRIVATE_H
#define LOCKSTEP_AGENT_NODE_NODE_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "agent/node/child.h"
#include "agent/node/node.h"
#include "agent/node/node_facts.h"
#include "agent/node/node_orders.h"
#include "agent/node/owners.h"
#include "agent/node/scan.h"
#include "agent/node/store.h"
#include "base/loop.h"
#include "base/net/client.h"
#include "base/net/token.h"
#include "base/notify.h"

struct node_run {
    struct node *node;
    uid_t uid;
    gid_t gid;
    char name[64], id[64]; /* RUN, RUN.uUID */
    bool begun;            /* it has a directory in the store */
    bool over;             /* nothing of it is left */

    /* its rings */
    bool there;
    int64_t free_ns; /* it has had no agent since then */
    ino_t inode;
    struct timespec mtime;
    int64_t changed_ns; /* when these were last seen to change */
    int64_t look_at_ns;
    bool asleep; /* until they change: no ring has a process */

    /* its process */
    enum child_kind kind;
    pid_t pid;
    int token_fd;
    bool asked;                     /* to end */
    int64_t started_ns, kill_at_ns; /* 0: not yet */
    int64_t again_ns, pause_ns;

    /* its registration (registry.c) */
    struct token token; /* "": not registered */
    bool calling;
    int64_t call_at_ns, call_pause_ns;
};

struct node_user { /* one with a run */
    uid_t uid;
    unsigned runs, children;
    uint64_t started, called; /* when it was his turn last, by a counter */
    bool full_logged;
};

struct node {
    const struct node_settings *settings;
    struct scan *scan;
    struct store store;
    struct loop *loop;
    struct loop_timer timer;
    struct notify notify;
    struct node_run **run;
    size_t runs, run_room;
    struct node_user *user;
    size_t users, user_room;
    unsigned children;
    uint64_t turns; /* of users */
    int64_t scan_at_ns;
    bool stopping;
    int64_t stop_ns; /* when that began */

    struct client *client;
    struct node_facts *facts;     /* of the node itself; NULL: they cannot be kept */
    struct node_sensors *sensors; /* NULL: none */
    struct owners *owners;        /* NULL: they are not reported */
    struct node_orders *orders;   /* of the node; NULL: none are taken */
    bool reports_fail;            /* the last look at the results of checks failed */
    unsigned calls;
    struct err trouble; /* of the last registration that failed */
};

/* ---- table.c ---- */
struct node_user *node_user(struct node *node, uid_t uid); /* NULL: he has no runs */
struct node_run *node_find(struct node *node, uid_t uid, const char *name);
/* NULL: no name for a run, no memory, or there are too many, of his or of all. */
struct node_run *node_add(struct node *node, uid_t uid, gid_t gid, const char *name);
void node_drop_over(struct node *node); /* those that are over */
void node_table_fini(struct node *node);
/* Whether one more of `used` would be too many: a user has at most `most`, and no more than are left for the others,
 * so that there is always room for one who has none.
 */
bool node_is_full(unsigned used, unsigned most, size_t all_used, size_t all_most);

/* ---- registry.c ---- */
void registry_turn(struct node *node, int64_t now_ns); /* calls for some runs, user by user */
void registry_give(struct node_run *run);   /* its token to its process, if both are there */
void registry_forget(struct node_run *run); /* it is registered again */

#endif
