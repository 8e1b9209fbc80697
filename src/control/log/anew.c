/* anew.c - one pass over a log that still grows: old part merged, new part copied and heard. */
#include "control/log/anew.h"

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

struct anew {
    struct rundir dir;
    struct path beside;
    struct spool_reader *reader;
    struct spool_writer *writer;
    struct merge merge;
    struct log_replay replay;
    uint64_t whole_from;
    bool whole; /* the copied part has begun */
    uint64_t old_from, new_from;
    uint64_t stays; /* bytes that the next compaction cannot drop either */
    struct map origin_place;
    struct anew_origin *origin;
    size_t origins, room;
};

void anew_destroy(struct anew *anew)
{
    if (!anew)
        return;
    merge_fini(&anew->merge);
    log_replay_fini(&anew->replay);
    spool_reader_close(anew->reader);
    if (anew->writer) { /* not finished */
        spool_writer_close(anew->writer);
        unlink(anew->beside.text);
    }
    map_fini(&anew->origin_place);
    free(anew->origin);
    free(anew);
}

static void anew_clean(struct anew **anew)
{
    anew_destroy(*anew);
}

/* A mark, for the new log and the new core. */
static int put_mark(struct anew *anew, const struct fact_anew *fact, struct err *err)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct frame frame = { .type = FRAME_ANEW,
                           .version = FRAME_VERSION,
                           .sender = anew->merge.self };
    int result;

    fact_anew_put(&payload, fact);
    result = spool_put(anew->writer, FRAME_ANEW, &payload, err);
    frame.payload = payload.data;
    frame.payload_bytes = payload.size;
    return result < 0 ? result : log_replay_frame(&anew->replay, &frame, err);
}

int anew_begin(const struct anew_settings *settings, struct anew **ret, struct err *err)
{
    CLEAN(anew_clean) struct anew *anew = calloc(1, sizeof(*anew));
    int result;

    if (!anew)
        return err_nomem(err);
    anew->dir = *settings->dir;
    anew->whole_from = settings->whole_from;
    log_replay_init(&anew->replay, settings->run);
    result = path_join(&anew->beside, anew->dir.path.text, LOG_BESIDE, err);
    if (result == 0)
        result = spool_reader_open(anew->dir.log.text, &anew->reader, err);
    if (result < 0)
        return result;
    unlink(anew->beside.text); /* of one that was killed */
    result = spool_writer_open(anew->beside.text, CONTROL_SENDER, &anew->writer, err);
    anew->merge.writer = anew->writer;
    anew->merge.err = err;
    anew->merge.replay = &anew->replay;
    if (settings->merged > MERGED_KEEP)
        anew->merge.formers_to_join = (settings->merged - MERGED_KEEP) / 2;
    if (result == 0)
        result = merge_init(&anew->merge);
    if (result == 0)
        result = put_mark(anew, &(struct fact_anew){ .kind = ANEW_BEGIN }, err);
    if (result == 0)
        *ret = TAKE(anew);
    return result;
}

int anew_space(const char *directory, uint64_t bytes, struct err *err)
{
    struct statvfs fs;
    uint64_t left;

    if (statvfs(directory, &fs) < 0)
        return err_set(err, -errno, "%s: %m", directory);
    left = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (left > bytes && left - bytes > left / 16)
        return 0;
    return err_set(err, -ENOSPC, "a compacted log needs %llu bytes beside it, %llu are free",
                   (unsigned long long)bytes, (unsigned long long)left);
}

uint64_t anew_bytes(const struct anew *anew)
{
    return spool_writer_bytes(anew->writer);
}

/* ---- the old part ---- */

static struct anew_origin *origin_get(struct anew *anew, uint64_t sender, uint64_t boot)
{
    uint64_t *place = map_put(&anew->origin_place, hash64_u64(sender, boot), anew->origins);

    if (!place)
        return NULL;
    if (*place == anew->origins) {
        if (!ARRAY_FIT(anew->origin, anew->room, anew->origins + 1))
            return NULL;
        anew->origin[anew->origins++] = (struct anew_origin){ .sender = sender, .boot = boot };
    }
    return &anew->origin[*place];
}

/* Of a former compaction. */
static int origins_take(struct anew *anew, struct reader in, struct err *err)
{
    CLEAN(fact_anew_fini) struct fact_anew fact = { 0 };

    if (fact_anew_get(in, &fact) < 0)
        return 0;
    for (uint32_t i = 0; i < fact.count; i++) {
        struct anew_origin *origin = origin_get(anew, fact.origin[i].sender, fact.origin[i].boot);

        if (!origin)
            return err_nomem(err);
        origin->next = MAX(origin->next, fact.origin[i].next);
        origin->dropped += fact.origin[i].dropped;
    }
    return 0;
}

static int old_frame(struct anew *anew, const struct frame *frame, struct err *err)
{
    struct anew_origin *origin;
    int result;

    if (frame->sender == anew->merge.self && frame->type == FRAME_ANEW)
        return origins_take(anew, reader_of(frame->payload, frame->payload_bytes), err);
    anew->merge.err = err;
    result = merge_frame(&anew->merge, frame);
    if (result < 0 || frame->sender == anew->merge.self)
        return result;
    origin = origin_get(anew, frame->sender, frame->boot);
    if (!origin)
        return err_nomem(err);
    origin->next = MAX(origin->next, frame->number + 1);
    origin->dropped += !anew->merge.kept;
    return 0;
}

static int whole_begin(struct anew *anew, uint64_t offset, struct err *err)
{
    int result;

    anew->merge.err = err;
    result = merge_flush(&anew->merge);
    for (size_t at = 0; result == 0 && (at == 0 || at < anew->origins); at += ANEW_ORIGINS_MAX) {
        struct fact_anew fact = { .kind = ANEW_WHOLE,
                                  .count = (uint32_t)MIN(anew->origins - at, ANEW_ORIGINS_MAX),
                                  .origin = anew->origin + at };

        result = put_mark(anew, &fact, err);
    }
    anew->whole = true;
    anew->old_from = offset;
    anew->new_from = anew->stays = spool_writer_bytes(anew->writer);
    return result;
}

/* ---- both ---- */

/* What was said at a tick belongs to it: the new part does not begin in between. */
static bool belongs_to_tick(const struct anew *anew, const struct frame *frame)
{
    return frame->sender == anew->merge.self &&
           (frame->type == FRAME_VERDICT || frame->type == FRAME_LEDGER);
}

static int any_frame(struct anew *anew, const struct frame *frame, struct err *err)
{
    uint64_t offset = spool_reader_offset(anew->reader) - FRAME_HEADER_BYTES - frame->payload_bytes;
    int result = 0;

    if (!anew->whole && offset >= anew->whole_from && !belongs_to_tick(anew, frame))
        result = whole_begin(anew, offset, err);
    if (result < 0)
        return result;
    if (!anew->whole)
        return old_frame(anew, frame, err);
    anew->stays += merge_stays(frame);
    result = spool_put_frame(anew->writer, frame, err);
    if (result == 0)
        result = log_replay_frame(&anew->replay, frame, err);
    return result == -EPROTO ? 0 : result;
}

/* It can be finished where the old log ends with the words of a tick, and both know what there is to carry on. */
int anew_turn(struct anew *anew, int64_t budget_ns, struct err *err)
{
    int64_t until_ns = time_mono_ns() + budget_ns;
    struct frame frame;
    int result;

    do {
        for (int i = 0; i < LOOK_FRAMES; i++) {
            result = spool_next(anew->reader, &frame, err);
            if (result == 0)
                return anew->whole && carry_is_ready(&anew->replay.carry);
            if (result > 0)
                result = any_frame(anew, &frame, err);
            if (result < 0)
                return result;
        }
    } while (time_mono_ns() < until_ns);
    return 0;
}

static int anew_put_in_place(struct anew *anew, struct err *err)
{
    CLEAN(fd_clean) int fd = open(anew->dir.path.text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 || rename(anew->beside.text, anew->dir.log.text) < 0)
        return err_set(err, -errno, "%s: %m", anew->dir.log.text);
    if (fsync(fd) < 0 && errno != EINVAL)
        return err_set(err, -ESTALE, "%s: %m", anew->dir.path.text); /* which one is it now? */
    return 0;
}

int anew_finish(struct anew *anew, struct anew_result *ret, struct err *err)
{
    int result = put_mark(anew, &(struct fact_anew){ .kind = ANEW_SPEAKS }, err);

    if (result == 0)
        result = spool_sync(anew->writer, err);
    if (result == 0)
        result = anew_put_in_place(anew, err);
    if (result < 0)
        return result;
    *ret = (struct anew_result){ .writer = TAKE(anew->writer),
                                 .replay = anew->replay,
                                 .old_from = anew->old_from,
                                 .new_from = anew->new_from,
                                 .merged = anew->merge.frames,
                                 .stays = anew->stays };
    ret->bytes = spool_writer_bytes(ret->writer);
    anew->replay = (struct log_replay){ 0 };
    return 0;
}
