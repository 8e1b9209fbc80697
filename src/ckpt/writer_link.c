/* writer_link.c - starts the writer process and talks to it.
 *
 * The program is looked for beside the library, or where it is installed relative to it; $PATH is never searched.  When the
 * writer dies, another one is started and gets the images that were not written: they are still in the arena.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ckpt/engine_private.h"
#include "core/clean.h"
#include "core/time.h"

#define PROGRAM "lockstep-ckpt-writer"
#define RESPAWNS 3
#define SKIPS_SENT                                                                                 \
    32 /* to a writer that does not answer: it may be stopped, and the socket has little room */
extern char **environ;

/* The file that this code was loaded from. */
static bool writer_own_file(char *out, size_t room)
{
    CLEAN(file_clean) FILE *maps = fopen("/proc/self/maps", "re");
    uintptr_t own = (uintptr_t)&writer_link_open;
    char line[PATH_MAX + 128];

    while (maps && fgets(line, sizeof(line), maps)) {
        uintptr_t begin, end;
        const char *path = strchr(line, '/');

        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &begin, &end) != 2 || own < begin ||
            own >= end || !path)
            continue;
        snprintf(out, room, "%.*s", (int)strcspn(path, "\n"), path);
        return true;
    }
    return false;
}

static int writer_program_find(char *out, size_t room, struct err *err)
{
    static const char *const places[] = { "", "../bin/", "../../bin/", "../../../bin/" };
    const char *given = getenv("LOCKSTEP_CKPT_WRITER");
    char self[PATH_MAX] = "";

    if (given && given[0]) {
        snprintf(out, room, "%s", given);
        return access(out, X_OK) < 0 ? err_set(err, -errno, "LOCKSTEP_CKPT_WRITER: %s: %m", out)
                                     : 0;
    }
    if (!writer_own_file(self, sizeof(self)))
        return err_set(err, -ENOENT, "cannot find the library's own directory");
    *(strrchr(self, '/') + 1) = '\0';
    for (size_t i = 0; i < COUNT(places); i++) {
        if ((size_t)snprintf(out, room, "%s%s" PROGRAM, self, places[i]) < room &&
            access(out, X_OK) == 0)
            return 0;
    }
    return err_set(err, -ENOENT,
                   PROGRAM " is not installed beside %s; LOCKSTEP_CKPT_WRITER can name it", self);
}

/* A session of its own, and no signal blocked or ignored that the trainer has so. */
static int writer_program_start(const char *path, int socket, struct err *err)
{
    char *argv[] = { (char[]){ PROGRAM }, NULL };
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    pid_t pid = -1;
    int result, status;

    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, socket, 3);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    result = posix_spawn(&pid, path, &actions, &attributes, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (result != 0)
        return err_set(err, -result, "%s: %s", path, strerror(result));
    while (waitpid(pid, &status, 0) <
           0) { /* it forks at once; another part of the program may wait for it first */
        if (errno != EINTR)
            return 0;
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0
               ? 0
               : err_set(err, -EIO, "%s: ended with status %d", path, status);
}

int writer_link_open(struct lockstep_ckpt *ckpt, struct err *err)
{
    char path[PATH_MAX];
    int pair[2], far, result = writer_program_find(path, sizeof(path), err);

    if (result < 0)
        return result;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_set(err, -errno, "socketpair: %m");
    far = fcntl(pair[1], F_DUPFD_CLOEXEC, 10); /* never 3: dup2() would leave it as it is */
    close(pair[1]);
    result = far < 0 ? err_set(err, -errno, "%m") : writer_program_start(path, far, err);
    fd_clean(&far);
    if (result < 0)
        close(pair[0]);
    else
        ckpt->socket = pair[0];
    return result;
}

int writer_link_hello(struct lockstep_ckpt *ckpt, struct err *err)
{
    const struct lockstep_ckpt_settings *settings = &ckpt->settings;
    struct message message = { .type = MESSAGE_HELLO };

    message.hello = (struct message_hello){ .rank = settings->rank,
                                            .world = settings->world,
                                            .group = settings->group,
                                            .images = ckpt->arena.images,
                                            .deadline_s = settings->deadline_s,
                                            .keep = settings->keep,
                                            .no_verify = settings->no_verify,
                                            .hold_s = settings->arena_hold_s,
                                            .verify_parts = settings->verify_parts,
                                            .commit_s = settings->commit_s,
                                            .job = settings->job,
                                            .bytes_per_s = settings->bytes_per_s,
                                            .keep_every = settings->keep_every,
                                            .image_bytes = ckpt->arena.image_bytes };
    return message_send(ckpt->socket, &message, (const int[]){ ckpt->dir_fd, ckpt->arena.fd }, err);
}

void writer_link_bye(struct lockstep_ckpt *ckpt)
{
    struct message message = { .type = MESSAGE_BYE };

    if (ckpt->socket >= 0)
        message_send(ckpt->socket, &message, NULL, NULL);
}

int writer_link_save(struct lockstep_ckpt *ckpt, unsigned image, struct err *err)
{
    struct message message = { .type = MESSAGE_SAVE };

    message.save = ckpt->image[image].save;
    return message_send(ckpt->socket, &message, NULL, err);
}

void writer_link_skip(struct lockstep_ckpt *ckpt, uint64_t step, const char *why)
{
    const struct lockstep_ckpt_settings *settings = &ckpt->settings;
    struct message message = { .type = MESSAGE_SKIP };

    if (ckpt->socket < 0 || settings->group < 2 || step == UINT64_MAX ||
        engine_owner_check(ckpt, NULL) < 0 || ckpt->skips++ >= SKIPS_SENT)
        return;
    message.skip = (struct message_skip){ .rank = settings->rank,
                                          .world = settings->world,
                                          .group = settings->group,
                                          .job = settings->job,
                                          .step = step };
    snprintf(message.skip.why, sizeof(message.skip.why), "%s", why);
    message_send(ckpt->socket, &message, (const int[]){ ckpt->dir_fd, ckpt->dir_fd }, NULL);
}

int lockstep_ckpt_complete(struct lockstep_ckpt *ckpt, uint64_t step)
{
    struct message message = { .type = MESSAGE_COMPLETE, .complete = { .step = step } };

    if (!ckpt)
        return -ENODEV;
    if (engine_owner_check(ckpt, &ckpt->err) < 0)
        return -EPERM;
    writer_link_drain(ckpt, 0);
    if (ckpt->socket < 0)
        return err_set(&ckpt->err, -EPIPE, "the writer process is gone");
    return engine_result(ckpt, message_send(ckpt->socket, &message, NULL, &ckpt->err));
}

/* ---- events ---- */

static void writer_event_failed(struct lockstep_ckpt *ckpt, const struct message_event *event)
{
    ckpt->failed = MAX(ckpt->failed, event->number);
    ckpt->status.failed++;
    snprintf(ckpt->failure, sizeof(ckpt->failure), "step %" PRIu64 ": %s", event->step,
             event->text);
}

static void writer_spans_take(struct lockstep_ckpt *ckpt, const struct message_event *event)
{
    const struct message_figures *figures = &event->figures;
    struct lockstep_ckpt_spans *spans = &ckpt->spans;

    ckpt->has_spans = true;
    spans->step = event->step;
    spans->bytes = figures->bytes;
    spans->copy_ns = figures->copy_ns;
    spans->write_ns = figures->store_ns;
    spans->digest_ns = figures->digest_ns;
    spans->commit_ns = figures->commit_ns;
    spans->verify_ns = event->type == EVENT_VERIFIED ? event->ns : 0;
    spans->tensors = figures->tensors;
    spans->unchanged = figures->unchanged;
    spans->moments = figures->moments;
    spans->moments_unchanged = figures->moments_unchanged;
}

static void writer_event_take(struct lockstep_ckpt *ckpt, const struct message_event *event)
{
    struct lockstep_ckpt_status *status = &ckpt->status;

    ckpt->skips = 0;
    status->writer_pid = event->pid;
    status->writer_cpu_ns = event->cpu_ns;
    if (event->type == EVENT_RELEASED) {
        ckpt->image[event->image].state = IMAGE_FREE;
        ckpt->stored = MAX(ckpt->stored, event->number); /* also of one that failed */
    } else if (event->type == EVENT_WRITTEN) {
        ckpt->written = MAX(ckpt->written, event->number);
        status->written = event->step;
        status->write_ns = event->ns;
        status->tensors = event->figures.tensors;
        status->unchanged = event->figures.unchanged;
        snprintf(status->io, sizeof(status->io), "%s", event->text);
        if (ckpt->settings.no_verify)
            writer_spans_take(ckpt, event);
    } else if (event->type == EVENT_VERIFIED) {
        ckpt->verified = MAX(ckpt->verified, event->number);
        status->verified = event->step;
        status->verify_ns = event->ns;
        writer_spans_take(ckpt, event);
    } else if (event->type == EVENT_FAILED) {
        writer_event_failed(ckpt, event);
    }
}

/* The writer is gone: another one writes what it had not written. */
static void writer_lost(struct lockstep_ckpt *ckpt)
{
    struct err err = { "" };
    int result = -EPIPE;

    fd_clean(&ckpt->socket);
    ckpt->socket = -1;
    if (ckpt->respawned++ < RESPAWNS)
        result = writer_link_open(ckpt, &err);
    if (result == 0 && ckpt->arena.base)
        result = writer_link_hello(ckpt, &err);
    for (unsigned i = 0; i < ARENA_IMAGES; i++) {
        struct message_event lost = { .number = ckpt->image[i].save.number,
                                      .step = ckpt->image[i].save.step,
                                      .text = "the writer process is gone" };

        if (ckpt->image[i].state != IMAGE_WRITING)
            continue;
        if (result == 0)
            result = writer_link_save(ckpt, i, &err);
        if (result == 0)
            continue;
        ckpt->image[i].state = IMAGE_FREE;
        writer_event_failed(ckpt, &lost);
    }
}

void writer_link_drain(struct lockstep_ckpt *ckpt, int timeout_ms)
{
    struct pollfd poll_fd = { .fd = ckpt->socket, .events = POLLIN };

    if (ckpt->socket < 0 || engine_owner_check(ckpt, NULL) < 0)
        return;
    if (timeout_ms != 0)
        poll(&poll_fd, 1, timeout_ms);
    for (;;) {
        struct message message;
        int result = message_receive(ckpt->socket, false, &message, NULL, NULL);

        if (result == 1 && message.type == MESSAGE_EVENT)
            writer_event_take(ckpt, &message.event);
        else if (result == 0 || (result < 0 && result != -EAGAIN))
            writer_lost(ckpt);
        if (result != 1)
            return;
    }
}
