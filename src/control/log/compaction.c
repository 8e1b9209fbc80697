/* compaction.c - one pass over a growing log: merges the old part, copies the new part and feeds it to a new core.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/log/compaction.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "control/log/merge.h"
#include "control/log/spools.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/time.h"

#define LOOK_FRAMES 64  /* between two looks at the clock */
#define MERGED_KEEP 512 /* so many merged frames stay as fine as they are */
#define LOG_BESIDE "log.lsf.anew"

struct compaction {
    struct rundir dir;
    struct path beside;
    struct spool_reader *reader;
    struct spool_writer *writer;
    struct merge merge;
    struct log_replay replay;
    uint64_t copied_from;
    bool copying; /* the copied part has begun */
    uint64_t old_from, new_from;
    uint64_t stays; /* bytes that the next compaction cannot drop either */
    struct map origin_place;
    struct compaction_origin *origin;
    size_t origins, room;
};

void compaction_destroy(struct compaction *compaction)
{
    if (!compaction)
        return;
    merge_fini(&compaction->merge);
    log_replay_fini(&compaction->replay);
    spool_reader_close(compaction->reader);
    if (compaction->writer) { /* not finished */
        spool_writer_close(compaction->writer);
        unlink(compaction->beside.text);
    }
    map_fini(&compaction->origin_place);
    free(compaction->origin);
    free(compaction);
}

static void compaction_clean(struct compaction **compaction)
{
    compaction_destroy(*compaction);
}

/* A mark, for the new log and the new core. */
static int compaction_put_mark(struct compaction *compaction, const struct fact_compaction *fact,
                               struct err *err)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct frame frame = { .type = FRAME_COMPACTION,
                           .version = FRAME_VERSION,
                           .sender = compaction->merge.self };
    int result;

    fact_compaction_put(&payload, fact);
    result = spool_put(compaction->writer, FRAME_COMPACTION, &payload, err);
    frame.payload = payload.data;
    frame.payload_bytes = payload.size;
    return result < 0 ? result : log_replay_frame(&compaction->replay, &frame, err);
}

int compaction_begin(const struct compaction_settings *settings, struct compaction **ret,
                     struct err *err)
{
    CLEAN(compaction_clean) struct compaction *compaction = calloc(1, sizeof(*compaction));
    int result;

    if (!compaction)
        return err_nomem(err);
    compaction->dir = *settings->dir;
    compaction->copied_from = settings->copied_from;
    log_replay_init(&compaction->replay, settings->run);
    result = path_join(&compaction->beside, compaction->dir.path.text, LOG_BESIDE, err);
    if (result == 0)
        result = spool_reader_open(compaction->dir.log.text, &compaction->reader, err);
    if (result < 0)
        return result;
    unlink(compaction->beside.text); /* of one that was killed */
    result = spool_writer_open(compaction->beside.text, CONTROL_SENDER, &compaction->writer, err);
    compaction->merge.writer = compaction->writer;
    compaction->merge.err = err;
    compaction->merge.replay = &compaction->replay;
    if (settings->merged > MERGED_KEEP)
        compaction->merge.formers_to_join = (settings->merged - MERGED_KEEP) / 2;
    if (result == 0)
        result = merge_init(&compaction->merge);
    if (result == 0)
        result = compaction_put_mark(compaction,
                                     &(struct fact_compaction){ .kind = COMPACTION_BEGIN }, err);
    if (result == 0)
        *ret = TAKE(compaction);
    return result;
}

int compaction_space(const char *directory, uint64_t bytes, struct err *err)
{
    struct statvfs fs;
    uint64_t left;

    if (statvfs(directory, &fs) < 0)
        return err_set(err, -errno, "%s: %m", directory);
    left = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (left > bytes && left - bytes > left / 16)
        return 0;
    return err_set(err, -ENOSPC, "a compacted log needs %llu bytes of disk space, %llu are free",
                   (unsigned long long)bytes, (unsigned long long)left);
}

uint64_t compaction_bytes(const struct compaction *compaction)
{
    return spool_writer_bytes(compaction->writer);
}

/* ---- the old part ---- */

static struct compaction_origin *compaction_origin_get(struct compaction *compaction,
                                                       uint64_t sender, uint64_t boot)
{
    uint64_t *place =
        map_put(&compaction->origin_place, hash64_u64(sender, boot), compaction->origins);

    if (!place)
        return NULL;
    if (*place == compaction->origins) {
        if (!ARRAY_FIT(compaction->origin, compaction->room, compaction->origins + 1))
            return NULL;
        compaction->origin[compaction->origins++] =
            (struct compaction_origin){ .sender = sender, .boot = boot };
    }
    return &compaction->origin[*place];
}

/* Of a former compaction. */
static int compaction_origins_take(struct compaction *compaction, struct reader in, struct err *err)
{
    CLEAN(fact_compaction_fini) struct fact_compaction fact = { 0 };

    if (fact_compaction_get(in, &fact) < 0)
        return 0;
    for (uint32_t i = 0; i < fact.count; i++) {
        struct compaction_origin *origin =
            compaction_origin_get(compaction, fact.origin[i].sender, fact.origin[i].boot);

        if (!origin)
            return err_nomem(err);
        origin->next = MAX(origin->next, fact.origin[i].next);
        origin->dropped += fact.origin[i].dropped;
    }
    return 0;
}

static int compaction_old_frame(struct compaction *compaction, const struct frame *frame,
                                struct err *err)
{
    struct compaction_origin *origin;
    int result;

    if (frame->sender == compaction->merge.self && frame->type == FRAME_COMPACTION)
        return compaction_origins_take(compaction, reader_of(frame->payload, frame->payload_bytes),
                                       err);
    compaction->merge.err = err;
    result = merge_frame(&compaction->merge, frame);
    if (result < 0 || frame->sender == compaction->merge.self)
        return result;
    origin = compaction_origin_get(compaction, frame->sender, frame->boot);
    if (!origin)
        return err_nomem(err);
    origin->next = MAX(origin->next, frame->number + 1);
    origin->dropped += !compaction->merge.kept;
    return 0;
}

static int compaction_copied_begin(struct compaction *compaction, uint64_t offset, struct err *err)
{
    int result;

    compaction->merge.err = err;
    result = merge_flush(&compaction->merge);
    for (size_t at = 0; result == 0 && (at == 0 || at < compaction->origins);
         at += COMPACTION_ORIGINS_MAX) {
        struct fact_compaction fact = { .kind = COMPACTION_COMPLETE,
                                        .count = (uint32_t)MIN(compaction->origins - at,
                                                               COMPACTION_ORIGINS_MAX),
                                        .origin = compaction->origin + at };

        result = compaction_put_mark(compaction, &fact, err);
    }
    compaction->copying = true;
    compaction->old_from = offset;
    compaction->new_from = compaction->stays = spool_writer_bytes(compaction->writer);
    return result;
}

/* ---- both ---- */

/* The output of a tick belongs to it: the new part does not begin between them. */
static bool compaction_belongs_to_tick(const struct compaction *compaction,
                                       const struct frame *frame)
{
    return frame->sender == compaction->merge.self &&
           (frame->type == FRAME_VERDICT || frame->type == FRAME_LEDGER ||
            frame->type == FRAME_DECISION);
}

static int compaction_any_frame(struct compaction *compaction, const struct frame *frame,
                                struct err *err)
{
    uint64_t offset =
        spool_reader_offset(compaction->reader) - FRAME_HEADER_BYTES - frame->payload_bytes;
    int result = 0;

    if (!compaction->copying && offset >= compaction->copied_from &&
        !compaction_belongs_to_tick(compaction, frame))
        result = compaction_copied_begin(compaction, offset, err);
    if (result < 0)
        return result;
    if (!compaction->copying)
        return compaction_old_frame(compaction, frame, err);
    compaction->stays += merge_stays(frame);
    result = spool_put_frame(compaction->writer, frame, err);
    if (result == 0)
        result = log_replay_frame(&compaction->replay, frame, err);
    return result == -EPROTO ? 0 : result;
}

/* It can be finished where the old log ends with the words of a tick, and both know what there is to carry on. */
int compaction_turn(struct compaction *compaction, int64_t budget_ns, struct err *err)
{
    int64_t until_ns = time_mono_ns() + budget_ns;
    struct frame frame;
    int result;

    do {
        for (int i = 0; i < LOOK_FRAMES; i++) {
            result = spool_next(compaction->reader, &frame, err);
            if (result == 0)
                return compaction->copying && carry_is_ready(&compaction->replay.carry);
            if (result > 0)
                result = compaction_any_frame(compaction, &frame, err);
            if (result < 0)
                return result;
        }
    } while (time_mono_ns() < until_ns);
    return 0;
}

static int compaction_put_in_place(struct compaction *compaction, struct err *err)
{
    CLEAN(fd_clean) int fd = open(compaction->dir.path.text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 || rename(compaction->beside.text, compaction->dir.log.text) < 0)
        return err_set(err, -errno, "%s: %m", compaction->dir.log.text);
    if (fsync(fd) < 0 && errno != EINVAL)
        return err_set(err, -ESTALE, "%s: %m",
                       compaction->dir.path.text); /* which one is it now? */
    return 0;
}

int compaction_finish(struct compaction *compaction, struct compaction_result *ret, struct err *err)
{
    int result = compaction_put_mark(compaction,
                                     &(struct fact_compaction){ .kind = COMPACTION_OUTPUT }, err);

    if (result == 0)
        result = spool_sync(compaction->writer, err);
    if (result == 0)
        result = compaction_put_in_place(compaction, err);
    if (result < 0)
        return result;
    *ret = (struct compaction_result){ .writer = TAKE(compaction->writer),
                                       .replay = compaction->replay,
                                       .old_from = compaction->old_from,
                                       .new_from = compaction->new_from,
                                       .merged = compaction->merge.frames,
                                       .stays = compaction->stays };
    ret->bytes = spool_writer_bytes(ret->writer);
    compaction->replay = (struct log_replay){ 0 };
    return 0;
}
