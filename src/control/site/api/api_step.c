/* api_step.c - one step of chosen ranks with all its operations, read from the log by the places that the index knows.
 *
 * The log is not walked: each rank costs one read of a frame, and at most STEP_RANKS_MAX ranks are given at once.  What is read is
 * checked against what was asked for, because the log may have been compacted since.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/site/api/api_private.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "control/http/reply.h"
#include "control/matrix/step_places.h"
#include "core/clean.h"
#include "lockstep/probe.h"
#include "wire/frame.h"
#include "wire/names.h"

#define STEP_RANKS_MAX 64
#define STEP_FRAME_MAX (FRAME_HEADER_BYTES + FACT_STEP_BYTES_MAX + 4096)

struct step_source {
    struct index *index;
    const char *run;
    int log;
    struct fact_shape shape; /* of the rank before: neighbours often have the same */
};

static void step_source_fini(struct step_source *source)
{
    fact_shape_fini(&source->shape);
    fd_clean(&source->log);
}

static struct json_object *step_item_json(const struct shape_item *item,
                                          const struct item_time *time)
{
    static const char *const kinds[ITEM_KIND_COUNT] = {
        [ITEM_PHASE] = "phase", [ITEM_SPAN] = "span", [ITEM_COLL] = "collective", [ITEM_P2P] = "p2p"
    };
    bool is_op = item->kind == ITEM_COLL || item->kind == ITEM_P2P;
    struct json_object *root = json_object_new_object();
    char comm[20];

#define ADD(name, value) json_object_object_add(root, name, value)
    ADD("kind",
        json_object_new_string(item->kind < ITEM_KIND_COUNT && kinds[item->kind] ? kinds[item->kind]
                                                                                 : "other"));
    ADD("name", json_object_new_string(is_op ? name_of_op(item->what) : name_of_phase(item->what)));
    ADD("stream", json_object_new_int(item->stream));
    ADD("count", json_object_new_int64(item->count));
    ADD("bytes", json_object_new_uint64(item->bytes));
    snprintf(comm, sizeof(comm), "%016" PRIx64, item->comm);
    ADD("comm", is_op ? json_object_new_string(comm) : NULL);
    ADD("enqueue_seconds", json_object_new_double((double)time->enqueue_ns / 1e9));
    ADD("start_seconds", json_object_new_double((double)time->start_ns / 1e9));
    ADD("end_seconds", json_object_new_double((double)time->end_ns / 1e9));
#undef ADD
    return root;
}

static struct json_object *step_rank_json(const struct fact_step *step,
                                          const struct fact_shape *shape)
{
    struct json_object *root = json_object_new_object(), *items = json_object_new_array();

#define ADD(name, value) json_object_object_add(root, name, value)
    ADD("rank", json_object_new_int64(step->rank));
    ADD("step", json_object_new_uint64(step->step));
    ADD("attempt", json_object_new_int64(step->attempt));
    ADD("begin_seconds", json_object_new_double((double)step->begin_ns / 1e9));
    ADD("seconds", json_object_new_double((double)step->duration_ns / 1e9));
    ADD("own_seconds", json_object_new_double((double)fact_step_local_ns(step, shape) / 1e9));
    ADD("cpu_seconds", json_object_new_double((double)step->cpu_ns / 1e9));
    ADD("run_delay_seconds", json_object_new_double((double)step->run_delay_ns / 1e9));
    ADD("host_view", json_object_new_boolean(step->flags & STEP_HOST_VIEW));
    ADD("complete",
        json_object_new_boolean(!(step->flags & (STEP_TORN | STEP_BARE | STEP_UNFINISHED))));
    for (uint32_t i = 0; i < step->count && i < shape->count; i++)
        json_object_array_add(items, step_item_json(&shape->item[i], &step->time[i]));
    ADD("items", items);
#undef ADD
    return root;
}

/* The frame at that place, if it is the step of that rank.  NULL: it is not, or no longer. */
static struct json_object *step_read_one(struct step_source *source, uint64_t offset, uint32_t rank)
{
    CLEAN(fact_step_fini) struct fact_step step = { 0 };
    unsigned char bytes[STEP_FRAME_MAX];
    struct frame frame;
    struct reader in;
    ssize_t got = pread(source->log, bytes, sizeof(bytes), (off_t)offset);
    uint64_t hash;

    if (!offset || got <= 0 || frame_get(bytes, (size_t)got, &frame, NULL) <= 0 ||
        frame.type != FRAME_STEP)
        return NULL;
    in = reader_of(frame.payload, frame.payload_bytes);
    hash = fact_step_shape(in);
    if (hash != source->shape.hash || !source->shape.item) {
        fact_shape_fini(&source->shape);
        source->shape = (struct fact_shape){ 0 };
        if (index_shape_read(source->index, source->run, hash, &source->shape, NULL) < 0)
            return NULL;
    }
    if (fact_step_get(in, &source->shape, &step) < 0 || step.rank != rank)
        return NULL;
    return step_rank_json(&step, &source->shape);
}

/* NOLINTNEXTLINE(readability-function-size): seven parameters */
int step_detail_json(struct index *index, const struct rundir *dir, uint64_t column,
                     const uint32_t *rank, uint32_t count, struct json_object **ret,
                     struct err *err)
{
    CLEAN(step_source_fini) struct step_source source = { index, dir->run, -1, { 0 } };
    uint64_t offset[STEP_RANKS_MAX];
    struct json_object *list;
    struct path path;
    int result = path_join(&path, dir->path.text, STEP_PLACES_FILE, err);

    count = MIN(count, (uint32_t)STEP_RANKS_MAX);
    if (result == 0)
        result = step_places_read(path.text, column, rank, count, offset, err);
    if (result < 0)
        return result;
    source.log = open(dir->log.text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (source.log < 0)
        return err_set(err, -errno, "%s: %m", dir->log.text);
    list = json_object_new_array();
    for (uint32_t i = 0; i < count; i++) {
        struct json_object *one = step_read_one(&source, offset[i], rank[i]);

        if (one)
            json_object_array_add(list, one);
    }
    *ret = json_object_new_object();
    json_object_object_add(*ret, "column", json_object_new_uint64(column));
    json_object_object_add(*ret, "ranks", list);
    return 0;
}

/* "0,3,7"; without it the first eight.  0: it is malformed, and this was answered. */
static uint32_t step_ranks_read(struct api_call *call, uint32_t rank[static STEP_RANKS_MAX])
{
    const char *text = http_query(call->exchange, "ranks");
    uint32_t count = 0;

    if (!text)
        text = "0,1,2,3,4,5,6,7";
    while (*text && count < STEP_RANKS_MAX) {
        char *end;
        unsigned long value = strtoul(text, &end, 10);

        if (*text < '0' || *text > '9' || value > UINT32_MAX || (*end && *end != ','))
            break;
        rank[count++] = (uint32_t)value;
        text = *end ? end + 1 : end;
    }
    if (!*text && count)
        return count;
    reply_error(call->exchange, 400,
                "ranks: expected at most %d numbers with commas between, not '%.40s'",
                STEP_RANKS_MAX, text);
    return 0;
}

/* runs/RUN/steps/COLUMN?ranks=0,3,7 */
void api_get_step(struct api_call *call)
{
    uint32_t rank[STEP_RANKS_MAX], count = step_ranks_read(call, rank);
    struct json_object *root = NULL;
    struct site_run *run = NULL;
    struct err err = { "" };
    int result;

    if (!count)
        return;
    if (site_get(call->site, call->run, false, &run, &err) < 0) {
        reply_error(call->exchange, 404, "run '%s' not found", call->run);
        return;
    }
    if (!call->site->index) {
        reply_error(call->exchange, 503, "the index is not available now");
        return;
    }
    result =
        step_detail_json(call->site->index, &run->dir, call->number[0], rank, count, &root, &err);
    if (result == -ENOENT || result == -EUCLEAN)
        reply_error(call->exchange, 404,
                    "column %" PRIu64 " of run '%s' is not in the log with its operations",
                    call->number[0], call->run);
    else if (result < 0)
        reply_error(call->exchange, 503, "%s", err.text);
    else
        reply_cached(call->exchange, root);
}
