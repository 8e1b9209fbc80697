/* drill_target.c - finds a run, whether it consented, and the processes of it that a drill touches.
 *
 * Only launchers, keepers and children of the run's keepers are touched, by the descriptor of the process that was looked at, never by a name.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/drill/drill_target.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/ckpt_names.h"
#include "core/clean.h"

#define TARGET_BYTES (256 << 10) /* of an environment */

/* ---- launchers ---- */

static bool target_node_add(struct drill_target *target, const char *directory,
                            const struct runfile *file)
{
    struct drill_node *node = &target->node[target->nodes];

    if (target->nodes == DRILL_NODES || file->ended || file->pid <= 0 || file->keeper <= 0 ||
        kill(file->keeper, 0) < 0)
        return false;
    *node = (struct drill_node){ .launcher = file->pid, .keeper = file->keeper };
    snprintf(node->directory.text, sizeof(node->directory.text), "%s", directory);
    target->nodes++;
    return true;
}

/* The first that lives speaks for the run; where none does, the last that is there. */
static int target_look_at(struct drill_target *target, const char *directory, struct err *err)
{
    struct runfile file;
    int result = runfile_read(directory, &file, err);

    if (result < 0)
        return result;
    if (target_node_add(target, directory, &file) ? target->nodes == 1 : !target->nodes) {
        runfile_fini(&target->file);
        target->file = file;
    } else {
        runfile_fini(&file);
    }
    return 0;
}

static int target_name_order(const struct dirent **a, const struct dirent **b)
{
    return strverscmp((*a)->d_name, (*b)->d_name);
}

/* One launcher: RUN/run.json.  One on each node: RUN/nodes/NODE/run.json, of those whose state directory is this one. */
static int target_launchers(struct drill_target *target, struct err *err)
{
    struct dirent **entry = NULL;
    struct path nodes, one;
    int count, result = target_look_at(target, target->directory.text, err);

    if (result != -ENOENT || path_join(&nodes, target->directory.text, "nodes", NULL) < 0)
        return result;
    count = scandir(nodes.text, &entry, NULL, target_name_order);
    for (int i = 0; i < count; i++) {
        if (entry[i]->d_name[0] != '.' &&
            path_join(&one, nodes.text, entry[i]->d_name, NULL) == 0 &&
            target_look_at(target, one.text, NULL) == 0)
            result = 0;
        free(entry[i]);
    }
    free(entry);
    return result;
}

bool drill_target_lives(const struct drill_target *target)
{
    for (uint32_t i = 0; i < target->nodes; i++) {
        if (runfile_lives(target->node[i].directory.text, NULL) == 1)
            return true;
    }
    return false;
}

/* The other end of its pipe is ours alone: it ends with us. */
static _Noreturn void target_guard_run(const struct drill_target *target, int fd)
{
    char byte;

    setsid(); /* Ctrl-C is for the drill */
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    while (read(fd, &byte, 1) < 0 && errno == EINTR)
        ;
    for (uint32_t i = 0; i < target->victims;
         i++) /* one may be gone, which is the best that can happen */
        proc_signal(&target->victim[i], SIGCONT);
    _exit(0);
}

int drill_target_guard(struct drill_target *target, struct err *err)
{
    int fd[2];
    pid_t pid;

    drill_target_release(target);
    if (pipe2(fd, O_CLOEXEC) < 0)
        return err_set(err, -errno, "pipe: %m");
    pid = fork();
    if (pid == 0) {
        close(fd[1]);
        target_guard_run(target, fd[0]);
    }
    close(fd[0]);
    if (pid < 0) {
        close(fd[1]);
        return err_set(err, -errno, "fork: %m");
    }
    target->guard = pid;
    target->guard_fd = fd[1];
    return 0;
}

void drill_target_release(struct drill_target *target)
{
    if (!target->guard)
        return;
    close(target->guard_fd);
    while (waitpid(target->guard, NULL, 0) < 0 && errno == EINTR)
        ;
    target->guard = 0;
}

void drill_target_close(struct drill_target *target)
{
    drill_target_release(target);
    runfile_fini(&target->file);
    procs_fini(&target->procs);
}

/* A file of /proc with NUL between its words; -1: it cannot be read. */
static ssize_t target_read(pid_t pid, const char *name, char *text, size_t room)
{
    char path[64];
    CLEAN(fd_clean) int fd = -1;
    size_t size = 0;

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && size + 1 < room) {
        ssize_t got = read(fd, text + size, room - size - 1);

        if (got <= 0)
            break;
        size += (size_t)got;
    }
    text[size] = '\0';
    return fd < 0 ? -1 : (ssize_t)size;
}

static bool target_has_rank(const char *text, size_t size)
{
    for (size_t at = 0; at < size; at += strlen(text + at) + 1) {
        if (strncmp(text + at, "RANK=", 5) == 0)
            return true;
    }
    return false;
}

static bool target_has_word(const char *text, size_t size, const char *word)
{
    for (size_t at = 0; at < size; at += strlen(text + at) + 1) {
        if (strcmp(text + at, word) == 0)
            return true;
    }
    return false;
}

/* The launcher whose keeper is the parent; NULL: it is the child of another process. */
static struct drill_node *target_node_of(struct drill_target *target, const struct procs_one *one)
{
    for (uint32_t i = 0; i < target->nodes; i++) {
        if (one->parent == target->node[i].keeper)
            return &target->node[i];
    }
    return NULL;
}

/* The process that writes a rank's checkpoints has the environment of the rank. */
static bool target_is_writer(const struct procs_one *one)
{
    char text[64] = "";

    return target_read(one->pid, "comm", text, sizeof(text)) > 0 &&
           (strcmp(text, CKPT_WRITER_COMM "\n") == 0 || strcmp(text, CKPT_HELD_COMM "\n") == 0);
}

static bool target_says(const struct procs_one *one, char *text, const char *file, const char *word,
                        const char *other)
{
    ssize_t size = target_read(one->pid, file, text, TARGET_BYTES);

    return size > 0 && target_has_word(text, (size_t)size, word) &&
           target_has_word(text, (size_t)size, other);
}

static int target_victim_add(struct drill_target *target, const struct procs_one *one)
{
    if (target->victims == DRILL_VICTIMS)
        return -E2BIG;
    target->victim[target->victims++] = *one;
    return 0;
}

/* A child of a keeper of the run, or of that one. */
static int target_find(struct drill_target *target, const struct drill_node *of, const char *file,
                       const char *word, const char *other)
{
    CLEAN(free_clean) char *text = malloc(TARGET_BYTES);

    for (size_t i = 0; text && i < target->procs.count; i++) {
        const struct procs_one *one = &target->procs.list[i];
        const struct drill_node *node = target_node_of(target, one);

        if (node && (!of || of == node) && !target_is_writer(one) &&
            target_says(one, text, file, word, other))
            return target_victim_add(target, one);
    }
    return -ESRCH;
}

/* Which of them has the controller, and which has ranks. */
static void target_parts(struct drill_target *target)
{
    CLEAN(free_clean) char *text = malloc(TARGET_BYTES);
    char run[96];

    snprintf(run, sizeof(run), "LOCKSTEP_RUN=%s", target->file.id);
    target->ranks = 0;
    for (size_t i = 0; text && i < target->procs.count; i++) {
        const struct procs_one *one = &target->procs.list[i];
        struct drill_node *node = target_node_of(target, one);
        ssize_t size = node ? target_read(one->pid, "environ", text, TARGET_BYTES) : -1;

        if (size > 0 && !target_is_writer(one) && target_has_word(text, (size_t)size, run) &&
            target_has_rank(text, (size_t)size)) {
            node->trains = true;
            target->ranks++;
        }
        if (node && target_says(one, text, "cmdline", "lockstep", "control"))
            node->leads = true;
    }
}

int drill_target_look(struct drill_target *target, struct err *err)
{
    int result;

    target->nodes = target->victims = 0;
    result = target_launchers(target, err);
    if (result == 0)
        result = procs_read(&target->procs);
    if (result < 0)
        return err->text[0] ? result : err_set(err, result, "/proc: %s", strerror(-result));
    target_parts(target);
    return 0;
}

int drill_target_open(const char *run, struct drill_target *ret, struct err *err)
{
    CLEAN(free_clean) struct drill_target *target = calloc(1, sizeof(*target));
    struct stat st;
    int result = target ? paths_find(run, &target->directory, err) : err_nomem(err);

    if (result < 0)
        return err_set(err, -ESRCH, "no such run: %s", run);
    if (stat(target->directory.text, &st) < 0)
        return err_set(err, -errno, "%s: %m", target->directory.text);
    if (st.st_uid != geteuid())
        return err_set(err, -EACCES, "run '%s' belongs to another user", run);
    result = drill_target_look(target, err);
    if (result == 0 && !target->file.drill)
        result = err_set(err, -EACCES,
                         "run '%s' did not consent: only one that was started with "
                         "'lockstep run --drill' gets faults",
                         target->file.id);
    else if (result == 0 && !drill_target_lives(target))
        result = err_set(err, -ESRCH, "run '%s' is over", target->file.id);
    if (result < 0) {
        drill_target_close(target);
        return result;
    }
    *ret = *target;
    return 0;
}

int drill_target_rank(struct drill_target *target, uint32_t rank, struct err *err)
{
    char number[24], run[96];

    snprintf(number, sizeof(number), "RANK=%u", rank);
    snprintf(run, sizeof(run), "LOCKSTEP_RUN=%s", target->file.id);
    target->rank = rank;
    if (target_find(target, NULL, "environ", number, run) < 0)
        return err_set(err, -ESRCH, "rank %u has no process on this machine", rank);
    return 0;
}

int drill_target_controller(struct drill_target *target, struct err *err)
{
    if (target_find(target, NULL, "cmdline", "control", target->directory.text) < 0)
        return err_set(err, -ESRCH, "the run has no controller of its own here");
    return 0;
}

/* ---- nodes ---- */

static bool target_has_spare(const struct drill_target *target)
{
    for (uint32_t i = 0; i < target->nodes; i++) {
        if (!target->node[i].trains)
            return true;
    }
    return false;
}

/* The node of that rank, or of the next one whose node does not lead: its launcher has the only controller. */
static int target_node_find(struct drill_target *target, const struct drill_node **ret,
                            struct err *err)
{
    if (target->nodes < 2)
        return err_set(err, -ESRCH,
                       "needs several launchers on this machine (lockstep run --nnodes)");
    if (!target_has_spare(target))
        return err_set(err, -ESRCH, "needs a launcher that waits as a spare (--spares)");
    for (uint32_t i = 0; i < target->ranks; i++) {
        uint32_t rank = (target->rank + i) % target->ranks;

        target->victims = 0;
        if (drill_target_rank(target, rank, NULL) < 0)
            continue;
        *ret = target_node_of(target, &target->victim[0]);
        target->victims = 0;
        if (*ret && !(*ret)->leads)
            return 0;
    }
    return err_set(err, -ESRCH, "needs a node with ranks and without the controller");
}

static void target_add_pid(struct drill_target *target, pid_t pid)
{
    for (size_t i = 0; i < target->procs.count; i++) {
        if (target->procs.list[i].pid == pid)
            target_victim_add(target, &target->procs.list[i]);
    }
}

int drill_target_node(struct drill_target *target, struct err *err)
{
    const struct drill_node *node;
    int result = target_node_find(target, &node, err);

    if (result < 0)
        return result;
    target_add_pid(target, node->launcher);
    target_add_pid(target, node->keeper);
    return target->victims == 2 ? 0 : err_set(err, -ESRCH, "the launcher of the node has ended");
}

int drill_target_link(struct drill_target *target, struct err *err)
{
    const struct drill_node *node;
    int result = target_node_find(target, &node, err);

    if (result == 0 && (target_find(target, node, "cmdline", "send", node->directory.text) < 0 ||
                        target_find(target, node, "cmdline", "orders", node->directory.text) < 0))
        result = err_set(err, -ESRCH, "nothing connects the node to a controller");
    return result;
}
