/* serve.c - the loop of the writer process.
 *
 * It takes one message at a time.  An image is released as soon as its file and manifest are synced; the commit waits for other
 * ranks, and reading back for the commit, while the trainer may fill the image again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/writer/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "ckpt/store/point.h"
#include "ckpt/store/retain.h"
#include "ckpt/store/small_file.h"
#include "ckpt/writer/changes.h"
#include "ckpt/writer/hold_image.h"
#include "ckpt/writer/message.h"
#include "ckpt/writer/replica_check.h"
#include "ckpt/writer/skipped_step.h"
#include "ckpt/writer/store_image.h"
#include "core/clean.h"
#include "core/time.h"

#define SAVES 8  /* that wait for other ranks, or to be read back */
#define PASSES 2 /* saves that may go before one that waits to be read back */
#define LOOK_NS (50 * NS_PER_MS)
#define STAGGER_MOST_NS (5 * NS_PER_S)
#define UNCHANGED_WARNINGS 3
#define SHARED_PARTS 8
#define LOOK_MOST_NS (1 * NS_PER_S)
#define COMMIT_STORES 4 /* times what this rank's own part took, the others may take */

enum save_stage {
    SAVE_COMMITS = 1, /* waits for the other ranks */
    SAVE_VERIFIES,    /* committed */
};

struct save {
    enum save_stage stage;
    struct publish publish;
    struct manifest manifest;
    struct ckpt_digest digest; /* of the manifest on disk */
    uint64_t number;
    int64_t begin_ns, pause_ns;
    int64_t stored_ns; /* when its file and manifest were synced */
    struct message_figures figures;
    uint32_t image;
    char io[256];
    uint64_t next;     /* block to be read back */
    unsigned passed;   /* saves that came after it was committed, and went first */
    int64_t verify_ns; /* spent on reading it back */
};

struct writer {
    int socket, trainer, signals, dir_fd; /* trainer: a pidfd, or -1 */
    struct message_hello hello;
    unsigned char *arena;
    uint64_t arena_bytes;
    int arena_fd;
    struct { /* the newest save that is committed, while its image is untouched */
        bool known;
        uint32_t image;
        uint64_t step, file_bytes;
    } last;
    bool bye, signalled; /* the trainer closed the engine; SIGTERM came */
    struct save save[SAVES];
    unsigned saves;
    struct changes changes;
    unsigned warnings;
    uint64_t complete;   /* the newest step that all ranks of the job have verified */
    uint32_t parts;      /* of a file, of which a save reads one back */
    int64_t store_ns;    /* how long the last image took */
    bool ended;          /* the trainer is gone */
    int64_t deadline_ns; /* INT64_MAX: none yet */
    struct skipped_step skipped;
    int failed; /* -errno of what was not written; its reason was printed */
    uint64_t failed_step;
};

static void writer_event(struct writer *writer, struct message_event event)
{
    struct message message = { .type = MESSAGE_EVENT };

    event.pid = getpid();
    event.cpu_ns = (uint64_t)time_ns(CLOCK_PROCESS_CPUTIME_ID);
    message.event = event;
    if (!writer->ended)
        message_send(writer->socket, &message, NULL, NULL);
}

static void save_fail(struct writer *writer, uint64_t number, uint64_t step, int code,
                      const struct err *why)
{
    struct message_event event = { .type = EVENT_FAILED, .number = number, .step = step };

    event.code = code;
    snprintf(event.text, sizeof(event.text), "%s", why->text);
    fprintf(stderr, "lockstep-ckpt-writer: rank %" PRIu32 ": step %" PRIu64 " is not saved: %s\n",
            writer->hello.rank, step, why->text);
    writer->failed = code;
    writer->failed_step = step;
    writer_event(writer, event);
}

static void save_drop(struct writer *writer, unsigned i)
{
    publish_close(&writer->save[i].publish);
    manifest_fini(&writer->save[i].manifest);
    writer->saves--;
    memmove(&writer->save[i], &writer->save[i + 1], (writer->saves - i) * sizeof(*writer->save));
}

/* The deadline begins when the trainer is gone or SIGTERM came. */
static bool writer_stop(void *ctx)
{
    struct writer *writer = ctx;
    struct pollfd poll_fd[] = { { .fd = writer->socket, .events = POLLRDHUP },
                                { .fd = writer->signals, .events = POLLIN },
                                { .fd = writer->trainer, .events = POLLIN } };
    struct signalfd_siginfo info;

    if (writer->deadline_ns == INT64_MAX && poll(poll_fd, COUNT(poll_fd), 0) > 0) {
        writer->signalled =
            (poll_fd[1].revents & POLLIN) && read(writer->signals, &info, sizeof(info)) > 0;
        if (writer->signalled || (poll_fd[0].revents & (POLLRDHUP | POLLHUP)) || poll_fd[2].revents)
            writer->deadline_ns = time_mono_ns() + (int64_t)writer->hello.deadline_s * NS_PER_S;
    }
    return time_mono_ns() >= writer->deadline_ns;
}

/* ---- messages ---- */

static void serve_arena_close(struct writer *writer)
{
    if (writer->arena)
        munmap(writer->arena, writer->arena_bytes);
    writer->arena = NULL;
    fd_clean(&writer->arena_fd);
    writer->arena_fd = -1;
}

static int serve_arena_open(struct writer *writer, const struct message_hello *hello, int fd,
                            struct err *err)
{
    uint64_t bytes = hello->image_bytes * hello->images;
    struct stat st;
    void *arena;

    if (fstat(fd, &st) < 0 || (uint64_t)st.st_size < bytes)
        return err_set(err, -EPROTO, "the arena is smaller than its images");
    arena = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (arena == MAP_FAILED)
        return err_set(err, -errno, "arena: %m");
    serve_arena_close(writer);
    writer->arena_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0); /* -1: nothing can be held later */
    writer->last.known = false;
    writer->arena = arena;
    writer->arena_bytes = bytes;
    return 0;
}

/* On file systems that machines share, reading everything back would load the servers as much as the saves do. */
static uint32_t serve_parts(int dir_fd)
{
    static const uint32_t types[] = {
        0x6969,     /* NFS */
        0xff534d42, /* CIFS */
        0xfe534d42, /* SMB 2 */
        0x0bd00bd0, /* Lustre */
        0x47504653, /* GPFS */
        0x00c36400, /* Ceph */
        0x19830326, /* BeeGFS */
        0x65735546, /* FUSE: of most object stores and of many file servers */
        0x01021997, /* 9p */
        0x20030528, /* OrangeFS */
        0xaad7aaea, /* PanFS */
    };
    struct statfs st;

    for (size_t i = 0; fstatfs(dir_fd, &st) == 0 && i < COUNT(types); i++) {
        if ((uint32_t)st.f_type == types[i])
            return SHARED_PARTS;
    }
    return 1;
}

static int serve_hello_take(struct writer *writer, const struct message_hello *hello,
                            const int *fds, struct err *err)
{
    int result;

    if (fds[0] < 0 || fds[1] < 0)
        return err_set(err, -EPROTO, "hello without descriptors");
    result = serve_arena_open(writer, hello, fds[1], err);
    if (result < 0)
        return result;
    if (writer->dir_fd >= 0)
        close(writer->dir_fd);
    writer->dir_fd = fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
    if (writer->dir_fd < 0)
        return err_set(err, -errno, "%m");
    writer->hello = *hello;
    writer->parts = hello->verify_parts ? hello->verify_parts : serve_parts(writer->dir_fd);
    writer_event(writer, (struct message_event){ .type = EVENT_READY });
    return 0;
}

static bool serve_slices_fit(const struct manifest *draft, uint64_t room)
{
    uint64_t end = manifest_slices_at(draft);

    for (size_t i = 0; i < draft->slices; i++)
        end += manifest_slice_bytes(draft, &draft->slice[i]);
    return !draft->slices || end <= room;
}

/* A private copy first: what is checked must not change afterwards. */
static int serve_draft_read(const struct writer *writer, const struct message_save *message,
                            struct manifest *ret, struct err *err)
{
    const unsigned char *image;
    CLEAN(free_clean) unsigned char *copy = NULL;
    int result;

    if (!writer->arena || message->image >= writer->hello.images ||
        message->draft_at > writer->hello.image_bytes ||
        message->draft_bytes > writer->hello.image_bytes - message->draft_at)
        return err_set(err, -EPROTO, "the save lies outside the arena");
    copy = malloc(message->draft_bytes + 1);
    if (!copy)
        return err_nomem(err);
    image = writer->arena + message->image * writer->hello.image_bytes;
    memcpy(copy, image + message->draft_at, message->draft_bytes);
    result = manifest_parse(copy, message->draft_bytes, true, ret, err);
    if (result < 0)
        return result;
    if (ckpt_round_up(ret->file_bytes, CKPT_PAGE) <= message->draft_at &&
        serve_slices_fit(ret, message->draft_at) && ret->step == message->step &&
        ret->rank == writer->hello.rank && ret->world == writer->hello.world &&
        ret->group == writer->hello.group && ret->job == writer->hello.job)
        return 0;
    manifest_fini(ret);
    return err_set(err, -EPROTO, "the draft contradicts the save");
}

static void save_changes_take(struct writer *writer, struct save *save)
{
    struct changes *changes = &writer->changes;
    uint64_t before = changes->step;
    bool known = changes->known;

    changes_take(changes, &save->manifest);
    save->figures.tensors = changes->tensors;
    save->figures.unchanged = changes->unchanged;
    save->figures.moments = changes->moments;
    save->figures.moments_unchanged = changes->moments_unchanged;
    if (known && changes->tensors && changes->unchanged == changes->tensors &&
        changes->step != before && writer->warnings++ < UNCHANGED_WARNINGS)
        fprintf(stderr,
                "lockstep-ckpt-writer: rank %" PRIu32 ": step %" PRIu64 ": all %" PRIu64
                " tensors are identical to those of step %" PRIu64
                "; check that the program saves the tensors that it trains\n",
                writer->hello.rank, changes->step, changes->tensors, before);
}

/* Ranks that share a disk begin one after the other, over a part of the time that a save takes: all at once would fill its
 * queues and delay everyone else's reads.  Not when the trainer is gone: then every second counts.
 */
static void save_stagger(struct writer *writer)
{
    const struct message_hello *hello = &writer->hello;
    int64_t spread_ns = MIN(writer->store_ns / 2, STAGGER_MOST_NS),
            until_ns = time_mono_ns() +
                       (int64_t)((double)spread_ns * (hello->rank % hello->group) / hello->group);

    while (!writer_stop(writer) && writer->deadline_ns == INT64_MAX && time_mono_ns() < until_ns)
        poll(NULL, 0, time_poll_ms(MIN(until_ns, time_mono_ns() + LOOK_NS), time_mono_ns()));
}

static int save_store(struct writer *writer, const struct message_save *message, struct save *save,
                      struct err *err)
{
    struct store_image store = { .publish = &save->publish,
                                 .manifest = &save->manifest,
                                 .digest_ns = &save->figures.digest_ns,
                                 .bytes_per_s = writer->hello.bytes_per_s,
                                 .stop = writer_stop,
                                 .ctx = writer };
    int result = serve_draft_read(writer, message, &save->manifest, err);

    if (result < 0)
        return result;
    store.image = writer->arena + message->image * writer->hello.image_bytes;
    save->publish =
        (struct publish){ .parent_fd = writer->dir_fd,
                          .fd = -1,
                          .step = message->step,
                          .job = writer->hello.job,
                          .rank = writer->hello.rank,
                          .world = writer->hello.world,
                          .group = writer->hello.group,
                          .again = writer->failed && writer->failed_step == message->step };
    result = publish_open(&save->publish, err);
    if (result == 0)
        result = publish_failure_look(&save->publish, err);
    if (result == 0)
        result = store_image(&store, save->io, sizeof(save->io), err);
    if (result == 0)
        result = publish_manifest(&save->publish, &save->manifest, &save->digest, err);
    if (result == 0)
        save_changes_take(writer, save);
    return result;
}

/* What it has written stays: another rank may be about to commit it. */
static void save_time_out(struct writer *writer, const struct save *save)
{
    struct err err = { "" };
    char missing[128];

    publish_missing_text(&save->publish, missing, sizeof(missing));
    err_set(&err, -ETIMEDOUT, "%s did not save it within %.0f s", missing,
            (double)(time_mono_ns() - save->stored_ns) / 1e9);
    save_fail(writer, save->number, save->publish.step, -ETIMEDOUT, &err);
}

static bool save_is_late(const struct writer *writer, const struct save *save)
{
    return time_mono_ns() - save->stored_ns > (int64_t)writer->hello.commit_s * NS_PER_S +
                                                  COMMIT_STORES * (int64_t)save->figures.store_ns;
}

/* The oldest: the other ranks did not follow.  One that is committed is not read back; newer ones are. */
static void save_give_up(struct writer *writer)
{
    const struct save *save = &writer->save[0];

    if (save->stage == SAVE_COMMITS)
        save_time_out(writer, save);
    save_drop(writer, 0);
}

static void save_take(struct writer *writer, const struct message_save *message)
{
    struct save *save;
    struct err err = { "" };
    int64_t begin_ns;
    int result;

    skipped_step_settle(&writer->skipped, message->step);
    for (unsigned i = 0; i < writer->saves; i++)
        writer->save[i].passed += writer->save[i].stage == SAVE_VERIFIES;
    if (writer->saves == SAVES)
        save_give_up(writer);
    save = &writer->save[writer->saves];
    *save = (struct save){ .stage = SAVE_COMMITS,
                           .publish = { .fd = -1 },
                           .number = message->number,
                           .image = message->image,
                           .begin_ns = time_mono_ns(),
                           .pause_ns = LOOK_NS };
    writer->saves++;
    if (writer->last.image == message->image) /* it was filled again */
        writer->last.known = false;
    save_stagger(writer);
    begin_ns = time_mono_ns();
    result = save_store(writer, message, save, &err);
    save->stored_ns = time_mono_ns();
    writer->store_ns = save->stored_ns - begin_ns;
    save->figures.bytes = save->manifest.file_bytes;
    save->figures.copy_ns = message->copy_ns;
    save->figures.store_ns = (uint64_t)writer->store_ns;
    if (result < 0) {
        if (result == -ECANCELED)
            publish_give_up(&save->publish, err.text);
        else
            publish_fail(&save->publish, err.text);
        save_fail(writer, message->number, message->step, result, &err);
        save_drop(writer, writer->saves - 1);
    }
    writer_event(writer, (struct message_event){ .type = EVENT_RELEASED,
                                                 .image = message->image,
                                                 .number = message->number,
                                                 .step = message->step });
}

/* ---- after the image ---- */

/* Unless a later save has its image by now. */
static void save_last_set(struct writer *writer, const struct save *save)
{
    for (const struct save *other = save + 1; other < writer->save + writer->saves; other++) {
        if (other->image == save->image)
            return;
    }
    writer->last.known = true;
    writer->last.image = save->image;
    writer->last.step = save->publish.step;
    writer->last.file_bytes = save->manifest.file_bytes;
}

static void save_commit(struct writer *writer, unsigned i)
{
    struct save *save = &writer->save[i];
    struct message_event event = { .type = EVENT_WRITTEN,
                                   .number = save->number,
                                   .step = save->publish.step };
    struct err err = { "" };
    int result = publish_try(&save->publish, &err);

    if (result == 0 && save_is_late(writer, save)) {
        save_time_out(writer, save);
        save_drop(writer, i);
    } else if (result == 0) {
        save->pause_ns = MIN(save->pause_ns * 2, LOOK_MOST_NS);
    } else if (result < 0) {
        if (result == -ECANCELED)
            publish_give_up(&save->publish, err.text);
        save_fail(writer, save->number, save->publish.step, result, &err);
        save_drop(writer, i);
    } else {
        event.ns = (uint64_t)(time_mono_ns() - save->begin_ns);
        save->figures.commit_ns = (uint64_t)(time_mono_ns() - save->stored_ns);
        event.figures = save->figures;
        save_last_set(writer, save);
        snprintf(event.text, sizeof(event.text), "%s", save->io);
        writer_event(writer, event);
        save->stage = SAVE_VERIFIES;
        if (writer->hello.no_verify && !save->manifest.slices)
            save_drop(writer, i);
    }
}

/* At the lowest priority of the best-effort class: the next image goes first. */
static void serve_io_priority(int level)
{
    syscall(SYS_ioprio_set, 1 /* process */, 0, 2 << 13 /* best effort */ | level);
}

static void writer_retain(const struct writer *writer)
{
    const struct message_hello *hello = &writer->hello;

    if (hello->keep && writer->dir_fd >= 0)
        retain_points(writer->dir_fd,
                      &(struct retain){ .keep = hello->keep,
                                        .every = hello->keep_every,
                                        .parts = hello->group < hello->world,
                                        .complete = writer->complete },
                      NULL);
}

/* A save that waits goes before reading back an older one: it is in memory only.  Not again and again while the trainer lives, or
 * nothing would ever be verified, and no old point removed.
 */
static bool writer_save_goes_first(struct writer *writer, const struct save *save)
{
    return save->passed < PASSES || writer->deadline_ns != INT64_MAX;
}

struct verify_pause {
    struct writer *writer;
    const struct save *save;
};

static bool verify_stop(void *ctx)
{
    const struct verify_pause *pause = ctx;
    struct pollfd poll_fd = { .fd = pause->writer->socket, .events = POLLIN };

    writer_stop(pause->writer); /* notices the end of the trainer */
    return !pause->writer->ended && writer_save_goes_first(pause->writer, pause->save) &&
           poll(&poll_fd, 1, 0) > 0;
}

/* -ECANCELED: a message has come; what was read so far need not be read again. */
static int save_read_back(struct writer *writer, struct save *save, uint32_t *ret_parts,
                          struct err *err)
{
    struct verify_pause pause = { .writer = writer, .save = save };
    struct point_check check = { .threads = 1,
                                 .part = (uint32_t)(save->number + writer->hello.rank),
                                 .parts = writer->parts,
                                 .stop = verify_stop,
                                 .ctx = &pause,
                                 .next = &save->next };
    int64_t begin_ns = time_mono_ns();
    int result;

    serve_io_priority(7);
    result = point_verify_file(save->publish.fd, &save->manifest, &check, err);
    serve_io_priority(4);
    save->verify_ns += time_mono_ns() - begin_ns;
    *ret_parts = point_file_parts(&save->manifest, check.parts);
    return result < 0 && result != -ECANCELED ? err_wrap(err, result, "read back") : result;
}

static int save_replicas_compare(const struct save *save, struct err *err)
{
    int result = replica_check(save->publish.fd, &save->manifest, err);

    if (result == -EBADMSG)
        point_refuse_open(save->publish.fd, err->text);
    return result;
}

/* Another rank may have found that its replicas differ. */
static int save_refused_check(const struct save *save, struct err *err)
{
    uint64_t size;

    return small_file_size(save->publish.fd, "REFUSED", &size) == -ENOENT
               ? 0
               : err_set(err, -EBADMSG, "the point was refused by another rank, or a reader");
}

static void save_verify(struct writer *writer, unsigned i)
{
    struct save *save = &writer->save[i];
    struct message_event event = { .type = EVENT_VERIFIED,
                                   .number = save->number,
                                   .step = save->publish.step };
    struct err err = { "" };
    uint32_t parts = 1;
    bool reads = !writer->hello.no_verify;
    int result = save->next ? 0 : save_replicas_compare(save, &err);

    if (result == 0 && reads)
        result = save_read_back(writer, save, &parts, &err);
    if (result == -ECANCELED)
        return;
    if (result == 0)
        result = save_refused_check(save, &err);
    if (result == 0 && reads)
        result =
            point_mark_verified(save->publish.fd, save->manifest.rank, &save->digest, parts, &err);
    if (result < 0) {
        save_fail(writer, save->number, save->publish.step, result, &err);
    } else if (reads) {
        event.ns = (uint64_t)save->verify_ns;
        event.figures = save->figures;
        writer_event(writer, event);
        writer_retain(writer);
    }
    save_drop(writer, i);
}

/* Commits what can be; reads one back when nothing else is to do.  Returns how long to wait for messages. */
static int writer_work(struct writer *writer, bool idle)
{
    int64_t pause_ns = skipped_step_look(&writer->skipped);

    for (unsigned i = 0; i < writer->saves; i++) {
        unsigned before = writer->saves;

        if (writer->save[i].stage == SAVE_COMMITS)
            save_commit(writer, i);
        if (writer->saves < before)
            i--;
        else if (writer->save[i].stage == SAVE_COMMITS)
            pause_ns = MIN(pause_ns, writer->save[i].pause_ns);
    }
    for (unsigned i = 0; i < writer->saves; i++) {
        if (writer->save[i].stage != SAVE_VERIFIES)
            continue;
        if (idle || !writer_save_goes_first(writer, &writer->save[i]))
            save_verify(writer, i);
        return 0;
    }
    return time_poll_ms(pause_ns, 0);
}

static bool writer_may_hold(const struct writer *writer)
{
    return writer->hello.hold_s && !writer->bye;
}

/* A process that the trainer forked, such as one that loads data, may hold the socket open for longer. */
static bool writer_trainer_is_gone(const struct writer *writer)
{
    struct pollfd poll_fd = { .fd = writer->trainer, .events = POLLIN };

    return poll(&poll_fd, 1, 0) > 0;
}

static int writer_message(struct writer *writer, struct err *err)
{
    struct message message;
    int fds[MESSAGE_FDS];
    bool gone = writer_trainer_is_gone(writer); /* asked first: what it has sent is there by then */
    int result = message_receive(writer->socket, false, &message, fds, err);

    if (result == 0 || (result == -EAGAIN && gone)) {
        writer->ended = true;
        if (!writer_may_hold(
                writer)) /* all images were written: the memory is the machine's again */
            serve_arena_close(writer);
    } else if (result == 1 && message.type == MESSAGE_HELLO) {
        result = serve_hello_take(writer, &message.hello, fds, err);
    } else if (result == 1 && message.type == MESSAGE_SAVE) {
        save_take(writer, &message.save);
    } else if (result == 1 && message.type == MESSAGE_COMPLETE) {
        writer->complete = MAX(writer->complete, message.complete.step);
        writer_retain(writer);
    } else if (result == 1 && message.type == MESSAGE_SKIP) {
        skipped_step_take(&writer->skipped, &message.skip, fds[0], writer->hello.commit_s);
    } else if (result == 1 && message.type == MESSAGE_BYE) {
        writer->bye = true;
        skipped_step_tell(&writer->skipped);
    }
    for (int i = 0; i < MESSAGE_FDS; i++)
        fd_clean(&fds[i]);
    return result == -EAGAIN ? 0 : result;
}

/* The trainer died: the last image stays in memory for its next start. */
static void writer_hold(struct writer *writer)
{
    const struct message_hello *hello = &writer->hello;
    bool launched = getenv("LOCKSTEP_RUN") != NULL;

    if (writer->arena)
        munmap(writer->arena, writer->arena_bytes);
    writer->arena = NULL;
    if (!writer_may_hold(writer) || !writer->last.known || !writer->ended ||
        (writer->signalled && !launched) || writer->arena_fd < 0)
        return;
    hold_image(&(struct hold_image){ .dir_fd = writer->dir_fd,
                                     .arena_fd = writer->arena_fd,
                                     .signals = writer->signals,
                                     .offset = writer->last.image * hello->image_bytes,
                                     .file_bytes = writer->last.file_bytes,
                                     .arena_bytes = writer->arena_bytes,
                                     .step = writer->last.step,
                                     .job = hello->job,
                                     .rank = hello->rank,
                                     .seconds = hello->hold_s,
                                     .launched = launched });
}

/* poll() and not base/loop.h: this process runs beside the training, links libc only, and does its work (blocks, digests,
 * the commit) between two looks at three descriptors.
 */
int writer_serve(int socket, int trainer, int signals, struct err *err)
{
    struct writer writer = { .socket = socket,
                             .trainer = trainer,
                             .signals = signals,
                             .dir_fd = -1,
                             .arena_fd = -1,
                             .skipped = { .dir_fd = -1 },
                             .deadline_ns = INT64_MAX,
                             .hello = { .deadline_s = 30, .commit_s = 600 } };
    int wait_ms = 0, result = 0;

    while (result >= 0 && !writer_stop(&writer)) {
        struct pollfd poll_fd[] = { { .fd = writer.ended ? -1 : socket, .events = POLLIN },
                                    { .fd = signals, .events = POLLIN },
                                    { .fd = writer.ended ? -1 : trainer, .events = POLLIN } };
        bool arrived;

        if (writer.deadline_ns != INT64_MAX && (wait_ms < 0 || wait_ms > 1000))
            wait_ms = 1000;
        poll(poll_fd, COUNT(poll_fd), wait_ms);
        arrived = poll_fd[0].revents || poll_fd[2].revents;
        if (arrived)
            result = writer_message(&writer, err);
        wait_ms = writer_work(&writer, !arrived);
        if (writer.ended && !writer.saves)
            break;
    }
    while (writer.saves)
        save_drop(&writer, 0);
    skipped_step_tell(&writer.skipped);
    writer_hold(&writer);
    fd_clean(&writer.arena_fd);
    changes_fini(&writer.changes);
    fd_clean(&writer.dir_fd);
    return result < 0 ? result : writer.failed;
}
