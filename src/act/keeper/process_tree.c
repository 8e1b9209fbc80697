/* process_tree.c - finds, reaps and ends the processes below this one.
 *
 * Why from the top and not all at once: a rank that gets the signal may want to
 * save its work, and cannot when its data loaders die under it.  So each process gets the signal when it
 * has no living parent but us.  A shell that defers its trap until its command ends would never pass
 * the word on; hence all get the signal after half the grace.  A checkpoint writer has the last save of a rank in its memory
 * and nobody else has it: it is killed later.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "act/keeper/process_tree.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/procs.h"
#include "core/ckpt_names.h"
#include "core/clean.h"
#include "core/map.h"
#include "core/time.h"

struct tree_child {
    pid_t pid;
    uint32_t token;
    enum tree_level level;
};

struct process_tree {
    struct tree_child *child;
    size_t count, room;
    struct procs procs;  /* kept between walks for its memory */
    struct map signaled; /* pid → start + 1 of processes that got a signal in this ending */
    bool ending;
    struct process_tree_ending ending_mode;
    int64_t begun_ns;
    uint32_t spared;
};

int process_tree_create(struct process_tree **ret)
{
    struct process_tree *tree = calloc(1, sizeof(*tree));

    if (!tree)
        return -ENOMEM;
    *ret = tree;
    return 0;
}

void process_tree_destroy(struct process_tree *tree)
{
    if (!tree)
        return;
    procs_fini(&tree->procs);
    map_fini(&tree->signaled);
    free(tree->child);
    free(tree);
}

static struct tree_child *tree_find(const struct process_tree *tree, pid_t pid)
{
    for (size_t i = 0; i < tree->count; i++)
        if (tree->child[i].pid == pid)
            return &tree->child[i];
    return NULL;
}

int process_tree_add(struct process_tree *tree, pid_t pid, uint32_t token, enum tree_level level)
{
    if (!ARRAY_FIT(tree->child, tree->room, tree->count + 1))
        return -ENOMEM;
    tree->child[tree->count++] = (struct tree_child){ .pid = pid, .token = token, .level = level };
    return 0;
}

void process_tree_set_level(struct process_tree *tree, pid_t pid, enum tree_level level)
{
    struct tree_child *child = tree_find(tree, pid);

    if (child)
        child->level = level;
}

bool process_tree_has(const struct process_tree *tree, pid_t pid)
{
    for (size_t i = 0; i < tree->count; i++) {
        if (tree->child[i].pid == pid)
            return true;
    }
    return false;
}

void process_tree_forget(struct process_tree *tree, pid_t pid)
{
    struct tree_child *child = tree_find(tree, pid);

    if (child)
        *child = tree->child[--tree->count];
}

int process_tree_reap(struct process_tree *tree, struct tree_exit *ret)
{
    pid_t pid;
    int status;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        const struct tree_child *child = tree_find(tree, pid);
        bool report = child && child->level != TREE_FOREIGN;

        if (report)
            *ret = (struct tree_exit){ .token = child->token, .pid = pid, .status = status };
        process_tree_forget(tree, pid);
        if (report)
            return 1;
    }
    return 0;
}

void process_tree_end(struct process_tree *tree, const struct process_tree_ending *ending_mode,
                      int64_t now_ns)
{
    map_fini(&tree->signaled);
    tree->ending = true;
    tree->ending_mode = *ending_mode;
    tree->begun_ns = now_ns;
    tree->spared = 0;
}

bool process_tree_ending(const struct process_tree *tree)
{
    return tree->ending;
}

uint32_t process_tree_spared(const struct process_tree *tree)
{
    return tree->spared;
}

int64_t process_tree_pause_ns(const struct process_tree *tree, int64_t now_ns)
{
    /* Quick at first, when most trees end; a walk over a busy node's /proc takes milliseconds. */
    return (now_ns - tree->begun_ns < NS_PER_S ? 10 : 100) * NS_PER_MS;
}

/* Tells it once.  A stopped process is woken, or it could not heed the word.  Without memory to
 * remember whom we told we tell again: harmless.
 */
static int tree_signal_once(struct process_tree *tree, const struct procs_one *proc)
{
    uint64_t *signaled = map_put(&tree->signaled, (uint64_t)proc->pid, 0);
    int r;

    if (signaled && *signaled == proc->start + 1)
        return 0;
    if (signaled)
        *signaled = proc->start + 1; /* a new process with an old pid gets a signal, too */
    /* A shell lets what it starts in the background ignore SIGINT, and nohup SIGHUP: they would hear nothing
     * until they are killed.
     */
    r = proc_signal(proc, proc_ignores(proc, tree->ending_mode.signal) ? SIGTERM
                                                                       : tree->ending_mode.signal);
    return r < 0 ? r : proc_signal(proc, SIGCONT);
}

static bool tree_is_named(const struct procs_one *proc, const char *expected)
{
    char path[64], name[32] = "";
    CLEAN(file_clean) FILE *file = NULL;

    snprintf(path, sizeof(path), "/proc/%d/comm", proc->pid);
    file = fopen(path, "re");
    return file && fgets(name, sizeof(name), file) &&
           strncmp(name, expected, strlen(expected)) == 0 &&
           strcmp(name + strlen(expected), "\n") == 0;
}

/* Known by its name: a process that only takes the name gets some seconds more, of its own user's job. */
static bool tree_writer_spared(const struct process_tree *tree, const struct procs_one *proc,
                               int64_t passed_ns)
{
    return tree->ending_mode.grace_ns > 0 && passed_ns < TREE_WRITER_GRACE_NS &&
           tree_is_named(proc, CKPT_WRITER_COMM);
}

/* A writer that has written everything, and keeps the last image for the ranks of the next attempt.  It ends with the run. */
static bool tree_is_held(const struct process_tree *tree, const struct procs_one *proc)
{
    return tree->ending_mode.level == TREE_RANKS && tree->ending_mode.grace_ns > 0 &&
           proc->parent == getpid() && tree_is_named(proc, CKPT_HELD_COMM);
}

static int tree_signal(struct process_tree *tree, const struct procs_one *proc, int64_t now_ns)
{
    int64_t passed = now_ns - tree->begun_ns;

    if (passed >= tree->ending_mode.grace_ns && !tree_writer_spared(tree, proc, passed))
        return proc_signal(proc, SIGKILL);
    if (proc->parent == getpid() || passed >= tree->ending_mode.grace_ns / 2)
        return tree_signal_once(tree, proc);
    return 0;
}

/* Signals whom it finds; how many of them are still there. */
static size_t tree_walk(struct process_tree *tree, int64_t now_ns)
{
    size_t left = 0;

    if (procs_read(&tree->procs) < 0)
        return 1; /* no memory or no descriptor now: try again later */
    procs_below(&tree->procs, getpid());
    tree->spared = 0;
    for (size_t i = 0; i < tree->procs.count; i++) {
        const struct procs_one *proc = &tree->procs.list[i];
        const struct tree_child *root;

        if (!proc->root)
            continue;
        root = tree_find(tree, proc->root);
        if (root && root->level > tree->ending_mode.level)
            continue;
        if (!root && tree_is_held(tree, proc))
            continue;
        if (tree_signal(tree, proc, now_ns) == -EPERM)
            tree->spared++;
        else
            left++;
    }
    return left;
}

static bool tree_childless(void)
{
    siginfo_t info;

    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD;
}

bool process_tree_step(struct process_tree *tree, int64_t now_ns)
{
    if (!tree->ending)
        return false;
    /* Two empty walks: one may miss a process whose parent ended while we read. */
    if (!tree_childless() && (tree_walk(tree, now_ns) || tree_walk(tree, now_ns)))
        return false;
    tree->ending = false;
    return true;
}
