/* process_tree.h - finds, reaps and ends the processes below this one.
 *
 * The process that uses it must be a child subreaper: then whatever its children leave
 * behind (daemons with a session of their own, double forks) becomes its child, and "no children
 * and no descendants" means that really nothing is left.  One tree per process.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_ACT_PROCESS_TREE_H
#define LOCKSTEP_ACT_PROCESS_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Ending a level ends all lower ones too.  Orphans are taken for what ranks left. */
enum tree_level {
    TREE_RANKS = 0,
    TREE_AGENTS = 1,
    TREE_CONTROL = 2,
    TREE_FOREIGN = 3, /* children that we had before; never ended */
};

struct tree_exit {
    uint32_t token;
    pid_t pid;
    int status; /* as waitpid() gives it */
};

struct process_tree;

int process_tree_create(struct process_tree **ret);
void process_tree_destroy(struct process_tree *tree); /* NULL is fine; ends nobody */

int process_tree_add(struct process_tree *tree, pid_t pid, uint32_t token, enum tree_level level);
void process_tree_set_level(struct process_tree *tree, pid_t pid, enum tree_level level);
/* One that was added, and that this process has not reaped: its pid is still its own. */
bool process_tree_has(const struct process_tree *tree, pid_t pid);
void process_tree_forget(struct process_tree *tree, pid_t pid); /* another process reaped it */
/* 1 and *ret: a known child has ended.  0: none for now.  Orphans are reaped without a word. */
int process_tree_reap(struct process_tree *tree, struct tree_exit *ret);

/* Checkpoint writers have at least so long, unless the grace is 0: their own deadline is 30 s. */
#define TREE_WRITER_GRACE_NS (INT64_C(40) * 1000000000)

struct process_tree_ending {
    enum tree_level level;
    int signal;       /* what they are told; those that ignore it get SIGTERM */
    int64_t grace_ns; /* from then on until SIGKILL */
};

/* Begins to end everything up to a level.  Our own children are told first; what they
 * leave is told when it comes to us; after half the grace all descendants are told, and after all
 * of it everybody is killed, again and again, until nobody is left.  Calling it again
 * starts over with the new level and grace; a grace of 0 kills at once.
 */
void process_tree_end(struct process_tree *tree, const struct process_tree_ending *ending_mode,
                      int64_t now_ns);
bool process_tree_ending(const struct process_tree *tree);
/* Goes on with it; call it every process_tree_pause_ns().  True, once: everybody has ended, or is beyond our
 * power (another user's; process_tree_spared() counts them).
 */
bool process_tree_step(struct process_tree *tree, int64_t now_ns);
int64_t process_tree_pause_ns(const struct process_tree *tree, int64_t now_ns);
uint32_t process_tree_spared(const struct process_tree *tree);

#endif
