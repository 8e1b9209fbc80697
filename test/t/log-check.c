/* log-check.c - is what a run left behind whole?
 *
 *   log-check RUN_DIR STEPS
 *
 * Reads all spools and the log of a run that has ended, and looks for what must never happen, whoever was
 * killed meanwhile: a frame that is not in the log, or twice, or out of order; a step told twice; a
 * step of the training that is neither told nor counted in a gap.  Prints a line for each, and one of
 * numbers at the end.  Exits 0 when all is well, 1 when not, 2 when it cannot read.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "wire/facts.h"
#include "wire/frame.h"
#include "wire/spool.h"

/* A rank may end a step or two before its neighbours do, or be killed while it tells the end. */
#define SLACK 2

struct seen { /* a frame */
    uint64_t sender, boot, number, hash;
};

struct span { /* steps that were told (one), or counted as lost */
    uint32_t attempt, rank, ring;
    uint64_t from, to;
    bool gap;
};

struct list {
    void *item;
    size_t count, room;
};

struct check {
    struct list spooled, logged; /* struct seen */
    struct list spans;           /* struct span */
    struct list shapes;          /* uint64_t: of the spool in hand */
    uint64_t steps;              /* of the whole training */
    uint64_t control;            /* the log's own sender */
    uint64_t reported, gaps, gap_steps, attempts;
    unsigned wrong;
};

#define WRONG(check, ...) ((check)->wrong++, printf("wrong: " __VA_ARGS__), putchar('\n'))

static void *list_add(struct list *list, size_t size)
{
    if (list->count == list->room) {
        list->room = MAX(2 * list->room, (size_t)256);
        list->item = reallocarray(list->item, list->room, size);
        if (!list->item)
            abort();
    }
    return (char *)list->item + size * list->count++;
}

/* ---- reading ---- */

static struct seen seen_of(const struct frame *frame)
{
    return (struct seen){ .sender = frame->sender,
                          .boot = frame->boot,
                          .number = frame->number,
                          .hash = hash64(frame->type, frame->payload, frame->payload_bytes) };
}

static void check_step_frame(struct check *check, const struct frame *frame, const char *name)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    const uint64_t *shape = check->shapes.item;
    struct fact_step fact;
    size_t i = 0;

    if (fact_step_head_get(in, &fact) < 0) {
        WRONG(check, "%s: frame %" PRIu64 " is no step", name, frame->number);
        return;
    }
    while (i < check->shapes.count && shape[i] != fact.shape)
        i++;
    if (i == check->shapes.count)
        WRONG(check, "%s: step %" PRIu64 " of rank %u has a shape that was never told", name,
              fact.step, fact.rank);
    *(struct span *)list_add(&check->spans, sizeof(struct span)) =
        (struct span){ fact.attempt, fact.rank, fact.ring, fact.step, fact.step, false };
    check->reported++;
}

static void check_gap_frame(struct check *check, const struct frame *frame, const char *name)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    struct fact_gap fact;

    if (fact_gap_get(in, &fact) < 0) {
        WRONG(check, "%s: frame %" PRIu64 " is no gap", name, frame->number);
        return;
    }
    check->gaps++;
    if (fact.step_to == UINT64_MAX)
        return;
    check->gap_steps += fact.step_to - fact.step_from + 1;
    *(struct span *)list_add(&check->spans, sizeof(struct span)) =
        (struct span){ fact.attempt, fact.rank, fact.ring, fact.step_from, fact.step_to, true };
}

static void check_spool_frame(struct check *check, const struct frame *frame, const char *name)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);

    *(struct seen *)list_add(&check->spooled, sizeof(struct seen)) = seen_of(frame);
    if (frame->type == FRAME_SHAPE)
        *(uint64_t *)list_add(&check->shapes, sizeof(uint64_t)) = reader_get_u64(&in);
    else if (frame->type == FRAME_STEP)
        check_step_frame(check, frame, name);
    else if (frame->type == FRAME_GAP)
        check_gap_frame(check, frame, name);
}

static void check_log_frame(struct check *check, const struct frame *frame, const char *name)
{
    (void)name;
    if (frame->sender != check->control)
        *(struct seen *)list_add(&check->logged, sizeof(struct seen)) = seen_of(frame);
}

/* Each frame of a file.  A torn tail is what its last writer was killed in; damage elsewhere is wrong. */
static void check_file(struct check *check, const char *path,
                       void (*each)(struct check *, const struct frame *, const char *))
{
    struct spool_reader *reader = NULL;
    struct err err = { "" };
    struct frame frame;
    int result = spool_reader_open(path, &reader, &err);

    while (result >= 0 && (result = spool_next(reader, &frame, &err)) == 1)
        each(check, &frame, path);
    if (result < 0) {
        fprintf(stderr, "log-check: %s\n", err.text);
        exit(2);
    }
    if (spool_reader_damaged(reader))
        WRONG(check, "%s: %" PRIu64 " damaged bytes", path, spool_reader_damaged(reader));
    spool_reader_close(reader);
}

static void check_read(struct check *check, const char *run)
{
    char path[PATH_MAX];
    const struct dirent *entry;
    DIR *dir;

    snprintf(path, sizeof(path), "%s/spool", run);
    dir = opendir(path);
    if (!dir) {
        fprintf(stderr, "log-check: %s: %m\n", path);
        exit(2);
    }
    while ((entry = readdir(dir))) {
        if (entry->d_name[0] == '.')
            continue;
        check->shapes.count = 0;
        snprintf(path, sizeof(path), "%s/spool/%s", run, entry->d_name);
        check_file(check, path, check_spool_frame);
    }
    closedir(dir);
    snprintf(path, sizeof(path), "%s/log.lsf", run);
    check_file(check, path, check_log_frame);
}

/* ---- frames ---- */

/* The frames of one sender, in a file's order: those of `from` at and after `at`. */
static const struct seen *seen_next(const struct list *from, size_t *at, uint64_t sender)
{
    const struct seen *seen = from->item;

    while (*at < from->count && seen[*at].sender != sender)
        ++*at;
    return *at < from->count ? &seen[(*at)++] : NULL;
}

static void check_sender(struct check *check, uint64_t sender)
{
    size_t in_spool = 0, in_log = 0;
    uint64_t next = 0;

    for (;;) {
        const struct seen *spooled = seen_next(&check->spooled, &in_spool, sender);
        const struct seen *logged = seen_next(&check->logged, &in_log, sender);

        if (!spooled && !logged)
            return;
        if (!spooled || !logged || spooled->number != logged->number ||
            spooled->boot != logged->boot || spooled->hash != logged->hash) {
            WRONG(check,
                  "sender %" PRIx64 ": frame %" PRId64 " of its spool, %" PRId64 " of the log",
                  sender, spooled ? (int64_t)spooled->number : -1,
                  logged ? (int64_t)logged->number : -1);
            return;
        }
        if (spooled->number != next)
            WRONG(check, "sender %" PRIx64 ": frame %" PRIu64 " follows %" PRIu64, sender,
                  spooled->number, next - 1);
        next = spooled->number + 1;
    }
}

static void check_frames(struct check *check)
{
    const struct seen *seen = check->spooled.item;

    for (size_t i = 0; i < check->spooled.count; i++) {
        size_t first = 0;

        while (seen[first].sender != seen[i].sender)
            first++;
        if (first == i)
            check_sender(check, seen[i].sender);
    }
    for (size_t i = 0, known; i < check->logged.count; i++) {
        uint64_t sender = ((const struct seen *)check->logged.item)[i].sender;

        for (known = 0; known < check->spooled.count && seen[known].sender != sender;)
            known++;
        if (known == check->spooled.count)
            WRONG(check, "sender %" PRIx64 " is in the log and has no spool", sender);
    }
}

/* ---- steps ---- */

#define ORDER(field)                                                                               \
    do {                                                                                           \
        if (a->field != b->field)                                                                  \
            return a->field < b->field ? -1 : 1;                                                   \
    } while (0)

static int span_order(const void *left, const void *right)
{
    const struct span *a = left, *b = right;

    ORDER(attempt);
    ORDER(rank);
    ORDER(ring);
    ORDER(from);
    ORDER(to);
    return 0;
}

static bool span_same_ring(const struct span *a, const struct span *b)
{
    return a->attempt == b->attempt && a->rank == b->rank && a->ring == b->ring;
}

/* Within a ring each step once, and none left out but those of a gap. */
static void check_rings(struct check *check)
{
    const struct span *span = check->spans.item;

    for (size_t i = 1; i < check->spans.count; i++) {
        if (!span_same_ring(&span[i - 1], &span[i]) || span[i].from == span[i - 1].to + 1)
            continue;
        WRONG(
            check,
            "attempt %u rank %u ring %u: %s %" PRIu64 "-%" PRIu64 " after %s %" PRIu64 "-%" PRIu64,
            span[i].attempt, span[i].rank, span[i].ring, span[i].gap ? "gap" : "step", span[i].from,
            span[i].to, span[i - 1].gap ? "gap" : "step", span[i - 1].from, span[i - 1].to);
    }
}

struct reach { /* what of an attempt was told, by all ranks or by one */
    uint64_t first, last;
    bool any;
};

static struct reach reach_of(const struct check *check, uint32_t attempt, int64_t rank)
{
    const struct span *span = check->spans.item;
    struct reach reach = { 0 };

    for (size_t i = 0; i < check->spans.count; i++) {
        if (span[i].attempt != attempt || (rank >= 0 && span[i].rank != (uint32_t)rank))
            continue;
        reach.first = reach.any ? MIN(reach.first, span[i].from) : span[i].from;
        reach.last = MAX(reach.last, span[i].to);
        reach.any = true;
    }
    return reach;
}

/* Ranks train in lockstep, so all of an attempt must have been told of equally many steps: where one
 * agent tells less than the other, the rest was lost and nobody counted it.
 */
static void check_attempt(struct check *check, uint32_t attempt, uint32_t ranks)
{
    struct reach all = reach_of(check, attempt, -1);

    check->attempts += all.any;
    for (uint32_t rank = 0; rank < ranks && all.any; rank++) {
        struct reach one = reach_of(check, attempt, rank);

        if (one.any && one.first != all.first)
            WRONG(check, "attempt %u rank %u: begins at step %" PRIu64 ", others at %" PRIu64,
                  attempt, rank, one.first, all.first);
        if ((one.any ? one.last + 1 : all.first) + SLACK <= all.last)
            WRONG(check, "attempt %u rank %u: ends at step %" PRId64 ", others at %" PRIu64,
                  attempt, rank, one.any ? (int64_t)one.last : -1, all.last);
    }
}

/* A checkpoint is behind what was trained: every step was made in some attempt.  One that was stopped
 * earlier than the last may have gone further than that.
 */
static void check_rank(struct check *check, uint32_t rank, uint32_t last_attempt)
{
    const struct span *span = check->spans.item;
    struct reach end = reach_of(check, last_attempt, rank);
    unsigned char *made = calloc(check->steps + 1, 1);

    if (!made)
        abort();
    for (size_t i = 0; i < check->spans.count; i++)
        for (uint64_t step = span[i].from; span[i].rank == rank && step <= span[i].to; step++)
            made[MIN(step, check->steps)] = 1; /* the last is for all beyond */
    for (uint64_t step = 0; step < check->steps; step++)
        if (!made[step])
            WRONG(check, "rank %u: step %" PRIu64 " is in no attempt", rank, step);
    if (!end.any || end.last != check->steps - 1)
        WRONG(check, "rank %u: the last attempt ends at step %" PRIu64, rank, end.last);
    free(made);
}

static void check_steps(struct check *check)
{
    const struct span *span = check->spans.item;
    uint32_t ranks = 0, attempts = 0;

    qsort(check->spans.item, check->spans.count, sizeof(*span), span_order);
    for (size_t i = 0; i < check->spans.count; i++) {
        ranks = MAX(ranks, span[i].rank + 1);
        attempts = MAX(attempts, span[i].attempt + 1);
    }
    if (!check->spans.count) {
        WRONG(check, "no step at all");
        return;
    }
    check_rings(check);
    for (uint32_t attempt = 0; attempt < attempts; attempt++)
        check_attempt(check, attempt, ranks);
    for (uint32_t rank = 0; rank < ranks; rank++)
        check_rank(check, rank, attempts - 1);
}

int main(int argc, char **argv)
{
    struct check check = { .control = hash64(0, "control", strlen("control")) };

    if (argc != 3 || (check.steps = strtoull(argv[2], NULL, 10)) == 0) {
        fprintf(stderr, "log-check: RUN_DIR STEPS\n");
        return 2;
    }
    check_read(&check, argv[1]);
    check_frames(&check);
    check_steps(&check);
    printf("%zu frames in spools, %zu in the log, %" PRIu64 " steps told in %" PRIu64
           " attempts, %" PRIu64 " gaps with %" PRIu64 " steps, %u wrong\n",
           check.spooled.count, check.logged.count, check.reported, check.attempts, check.gaps,
           check.gap_steps, check.wrong);
    free(check.spooled.item);
    free(check.logged.item);
    free(check.spans.item);
    free(check.shapes.item);
    return check.wrong > 0;
}
