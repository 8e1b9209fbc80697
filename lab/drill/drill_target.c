/* drill_target.c - finds a run, whether it consented, and the processes of it that a drill touches.
 *
 * Only children of the run's keeper are touched, by the descriptor of the process that was looked at, never by a name.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/drill/drill_target.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clean.h"

#define TARGET_BYTES (256 << 10) /* of an environment */

int drill_target_look(struct drill_target *target, struct err *err)
{
    struct runfile file;
    int result = runfile_read(target->directory.text, &file, err);

    if (result < 0)
        return result;
    runfile_fini(&target->file);
    target->file = file;
    target->victim = (struct procs_one){ 0 };
    result = procs_read(&target->procs);
    return result < 0 ? err_set(err, result, "/proc: %s", strerror(-result)) : 0;
}

int drill_target_open(const char *run, struct drill_target *ret, struct err *err)
{
    struct drill_target target = { 0 };
    struct stat st;
    int result = paths_find(run, &target.directory, err);

    if (result < 0)
        return err_set(err, -ESRCH, "no such run: %s", run);
    if (stat(target.directory.text, &st) < 0)
        return err_set(err, -errno, "%s: %m", target.directory.text);
    if (st.st_uid != geteuid())
        return err_set(err, -EACCES, "run '%s' belongs to another user", run);
    result = drill_target_look(&target, err);
    if (result < 0) {
        drill_target_close(&target);
        return result;
    }
    if (!target.file.drill)
        result = err_set(err, -EACCES,
                         "run '%s' did not consent: only one that was started with "
                         "'lockstep run --drill' gets faults",
                         target.file.id);
    else if (target.file.ended || runfile_lives(target.directory.text, NULL) != 1)
        result = err_set(err, -ESRCH, "run '%s' is over", target.file.id);
    if (result < 0) {
        drill_target_close(&target);
        return result;
    }
    *ret = target;
    return 0;
}

/* The other end of its pipe is ours alone: it ends with us. */
static _Noreturn void target_guard_run(const struct procs_one *victim, int fd)
{
    char byte;

    setsid(); /* Ctrl-C is for the drill */
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    while (read(fd, &byte, 1) < 0 && errno == EINTR)
        ;
    proc_signal(victim, SIGCONT); /* it may be gone, which is the best that can happen */
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
        target_guard_run(&target->victim, fd[0]);
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

static bool target_has_word(const char *text, size_t size, const char *word)
{
    for (size_t at = 0; at < size; at += strlen(text + at) + 1) {
        if (strcmp(text + at, word) == 0)
            return true;
    }
    return false;
}

static int target_find(struct drill_target *target, const char *file, const char *word,
                       const char *other)
{
    CLEAN(free_clean) char *text = malloc(TARGET_BYTES);

    for (size_t i = 0; text && i < target->procs.count; i++) {
        const struct procs_one *one = &target->procs.list[i];
        ssize_t size = one->parent == target->file.keeper && one->parent > 0
                           ? target_read(one->pid, file, text, TARGET_BYTES)
                           : -1;

        if (size > 0 && target_has_word(text, (size_t)size, word) &&
            target_has_word(text, (size_t)size, other)) {
            target->victim = *one;
            return 0;
        }
    }
    return -ESRCH;
}

int drill_target_rank(struct drill_target *target, uint32_t rank, struct err *err)
{
    char number[24], run[96];

    snprintf(number, sizeof(number), "RANK=%u", rank);
    snprintf(run, sizeof(run), "LOCKSTEP_RUN=%s", target->file.id);
    target->rank = rank;
    if (target_find(target, "environ", number, run) < 0)
        return err_set(err, -ESRCH, "rank %u has no process on this machine", rank);
    return 0;
}

int drill_target_controller(struct drill_target *target, struct err *err)
{
    if (target_find(target, "cmdline", "control", target->directory.text) < 0)
        return err_set(err, -ESRCH, "the run has no controller of its own here");
    return 0;
}
