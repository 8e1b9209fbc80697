/* ingest.c - writes a body of frames to a run's log.
 *
 * A body is checked completely before any of it is used, so a refused body has no effect.  A frame must be complete,
 * have our version, and belong to the run of the token: frames of the controller's own types are refused, and a
 * HELLO must name that run.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/site/site_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "control/http/reply.h"
#include "control/log/spools.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/time.h"
#include "show/style.h"
#include "wire/facts.h"
#include "wire/finding.h"

#define BODY_ORIGINS 4096     /* processes whose frames a body may have; one is usual */
#define RUN_ORIGINS (1 << 18) /* and a run: agents that were started again count once more */

void ingest_fini(struct ingest *ingest)
{
    free(ingest->frame);
    seen_fini(&ingest->here);
    *ingest = (struct ingest){ 0 };
}

static int ingest_refuse(struct ingest *ingest, unsigned status)
{
    ingest->status = status;
    return -EPROTO;
}

static int ingest_frame_check_any(const struct frame *frame, struct ingest *ingest, struct err *err)
{
    unsigned long long number = frame->number;

    if (frame->version != FRAME_VERSION) {
        err_set(err, 0,
                "frame %llu of type %u has version %u, this controller (%s) reads version %u: "
                "install the same lockstep on both sides",
                number, frame->type, frame->version, LOCKSTEP_VERSION, FRAME_VERSION);
        return ingest_refuse(ingest, 426);
    }
    if (frame_is_controllers(frame)) {
        err_set(err, 0, "frame %llu of type %u: only the controller may write this type", number,
                frame->type);
        return ingest_refuse(ingest, 403);
    }
    return 0;
}

static int ingest_frame_check(const char *run, const struct frame *frame, struct ingest *ingest,
                              struct err *err)
{
    unsigned long long number = frame->number;
    struct fact_hello hello;
    int result = ingest_frame_check_any(frame, ingest, err);

    if (result < 0 || frame->type != FRAME_HELLO)
        return result;
    if (fact_hello_get(reader_of(frame->payload, frame->payload_bytes), &hello) < 0) {
        err_set(err, 0, "frame %llu: malformed HELLO", number);
        return ingest_refuse(ingest, 400);
    }
    if (hello.kind == SENDER_CONTROL || (hello.run[0] && strcmp(hello.run, run) != 0)) {
        err_set(err, 0, "frame %llu: HELLO of run '%s', but the token is for run '%s'", number,
                hello.run, run);
        return ingest_refuse(ingest, 403);
    }
    return 0;
}

/* One node must not use up the numbers of another one's frames: those would count as known, and be lost. */
static bool ingest_sender_is_node(const struct frame *frame, const char *node)
{
    char name[FACT_NAME + 8];

    snprintf(name, sizeof(name), NODE_SENDER, node);
    return frame->sender == hash64(0, name, strlen(name));
}

static int ingest_frame_check_node(const char *node, const struct frame *frame,
                                   struct ingest *ingest, struct err *err)
{
    unsigned long long number = frame->number;
    char about[FACT_NAME];
    int result = ingest_frame_check_any(frame, ingest, err);

    if (result < 0)
        return result;
    if (frame->type != FRAME_FINDING && frame->type != FRAME_CHECK &&
        frame->type != FRAME_ENVIRONMENT && frame->type != FRAME_OUTCOME &&
        frame->type != FRAME_HELLO) {
        err_set(err, 0,
                "frame %llu of type %u: a node sends findings, checks, environments and outcomes",
                number, frame->type);
        return ingest_refuse(ingest, 403);
    }
    if (!site_core_node_of(frame, about)) {
        err_set(err, 0, "frame %llu of type %u: malformed", number, frame->type);
        return ingest_refuse(ingest, 400);
    }
    if (strcmp(about, node) != 0) {
        err_set(err, 0, "frame %llu is about node '%s', but the token is for node '%s'", number,
                about, node);
        return ingest_refuse(ingest, 403);
    }
    if (!ingest_sender_is_node(frame, node)) {
        err_set(err, 0, "frame %llu was sent in the name of another process than node '%s'", number,
                node);
        return ingest_refuse(ingest, 403);
    }
    return 0;
}

static int ingest_frame_add(struct ingest *ingest, const struct frame *frame)
{
    if (!ARRAY_FIT(ingest->frame, ingest->room, ingest->count + 1))
        return -ENOMEM;
    ingest->frame[ingest->count++] = *frame;
    return 0;
}

typedef int frame_check_call(const char *whose, const struct frame *frame, struct ingest *ingest,
                             struct err *err);

static int ingest_body_read(const struct seen *seen, frame_check_call *call, const char *whose,
                            struct reader body, struct ingest *ret, struct err *err)
{
    const unsigned char *begin = body.at;
    struct err why = { "" };

    while (reader_left(&body)) {
        struct frame frame;
        int64_t length = frame_get(body.at, reader_left(&body), &frame, &why);
        int result;

        if (length <= 0) {
            err_set(err, 0, "frame at byte %zu: %s", (size_t)(body.at - begin),
                    length == 0 ? "the body ends inside the frame" : why.text);
            return ingest_refuse(ret, 400);
        }
        result = call(whose, &frame, ret, err);
        if (result < 0)
            return result;
        ret->all++;
        if (seen_has(seen, &frame) || seen_has(&ret->here, &frame))
            ret->doubled++;
        else
            result = ingest_frame_add(ret, &frame);
        if (result < 0 || seen_mark(&ret->here, &frame) < 0) {
            ret->status = 503;
            return err_nomem(err);
        }
        body.at += length;
    }
    return 0;
}

int ingest_read(const struct seen *seen, const char *run, const void *data, size_t size,
                struct ingest *ret, struct err *err)
{
    return ingest_body_read(seen, ingest_frame_check, run, reader_of(data, size), ret, err);
}

int ingest_read_node(const struct seen *seen, const char *node, const void *data, size_t size,
                     struct ingest *ret, struct err *err)
{
    return ingest_body_read(seen, ingest_frame_check_node, node, reader_of(data, size), ret, err);
}

static void ingest_durable_add(struct json_object *list, const struct seen_origin *origin)
{
    struct json_object *one = json_object_new_object();
    char text[24];

    snprintf(text, sizeof(text), "%016" PRIx64, origin->sender);
    json_object_object_add(one, "sender", json_object_new_string(text));
    snprintf(text, sizeof(text), "%016" PRIx64, origin->boot);
    json_object_object_add(one, "boot", json_object_new_string(text));
    json_object_object_add(one, "next", json_object_new_uint64(origin->next));
    json_object_array_add(list, one);
}

/* Up to where each origin of the body, and each of the sender that was asked for, is in the log. */
void ingest_answer(const struct seen *seen, const struct ingest *ingest, const char *sender_text,
                   struct buf *answer)
{
    struct json_object *root = json_object_new_object(), *list = json_object_new_array();
    uint64_t sender = sender_text ? strtoull(sender_text, NULL, 16) : 0;
    const char *text;

    for (size_t i = 0; i < ingest->here.count; i++) {
        struct seen_origin origin = ingest->here.origin[i];

        origin.next = seen_next(seen, origin.sender, origin.boot);
        ingest_durable_add(list, &origin);
    }
    /* The newest ones: a sender asks for what it may have to send again. */
    for (size_t i = seen->count, left = BODY_ORIGINS; sender_text && i > 0 && left > 0; i--) {
        if (seen->origin[i - 1].sender == sender) {
            ingest_durable_add(list, &seen->origin[i - 1]);
            left--;
        }
    }
    json_object_object_add(root, "taken", json_object_new_uint64(ingest->count));
    json_object_object_add(root, "doubled", json_object_new_uint64(ingest->doubled));
    /* Many senders: each is asked to come less often, so that bodies grow and requests do not. */
    json_object_object_add(root, "again_ms", json_object_new_uint64(MIN(seen->count / 4, 1000)));
    json_object_object_add(root, "durable", list);
    text = json_object_to_json_string_ext(root, JSON_C_TO_STRING_PLAIN);
    buf_put(answer, text, strlen(text));
    buf_put(answer, "\n", 1);
    json_object_put(root);
}

static void ingest_count_in(struct site *site, const struct ingest *ingest, size_t bytes)
{
    site->counts.bodies++;
    site->counts.bytes += bytes;
    site->counts.frames += ingest->count;
    site->counts.doubled += ingest->doubled;
}

void ingest_reply_unwritten(struct site_run *run, struct http_exchange *exchange, int result,
                            const char *text)
{
    struct json_object *root = json_object_new_object();

    run->deaf = true;
    json_object_object_add(root, "error", show_string(text));
    json_object_object_add(root, "heard", json_object_new_boolean(true));
    reply_json(exchange, run_status(result), root);
}

void ingest_frames(struct site_run *run, struct http_exchange *exchange)
{
    CLEAN(ingest_fini) struct ingest ingest = { 0 };
    const struct buf *body = http_body(exchange);
    struct site *site = run->site;
    struct err err = { "" };
    struct buf answer = { 0 };
    int result = run_open(run, &err);

    if (result < 0) {
        err_wrap(&err, result, "run %s", run->dir.run);
        ingest_reply_unwritten(run, exchange, result, err.text);
        return;
    }
    if (ingest_read(&run->seen, run->dir.run, body->data, body->size, &ingest, &err) < 0) {
        site->counts.malformed += ingest.status == 400;
        site->counts.foreign += ingest.status == 403;
        if (ingest.status == 426 && !run->version_logged) { /* once: they try again and again */
            log_error("run %s: refusing facts: %s", run->dir.run, err.text);
            run->version_logged = true;
        }
        reply_error(exchange, ingest.status, "%s", err.text);
        return;
    }
    if (ingest.here.count > BODY_ORIGINS || run->seen.count > RUN_ORIGINS)
        result = err_set(&err, -EFBIG,
                         "too many senders: a body may have frames of %d processes, a run of %d",
                         BODY_ORIGINS, RUN_ORIGINS);
    else if (ingest.count)
        result = runlog_take(run->log, ingest.frame, ingest.count, &err);
    if (run_status(result) == 503)
        site_trouble(site, result, &err);
    site->counts.over_limit += result < 0 && run_status(result) == 507;
    if (result == -ENOMEM || result == -ESTALE)
        run_read_again(run, err.text); /* the core may have half of it; the log has all or none */
    if (result == -EDQUOT)
        run_refuse(run, err.text);
    if (result < 0) {
        err_wrap(&err, result, "cannot write the log of run %s now", run->dir.run);
        ingest_reply_unwritten(run, exchange, result, err.text);
        return;
    }
    run->newest_ns = time_mono_ns();
    run->version_logged = run->version_logged && !ingest.count;
    ingest_count_in(site, &ingest, body->size);
    ingest_answer(&run->seen, &ingest, http_query(exchange, "sender"), &answer);
    run_wait(run, exchange, &answer);
}
