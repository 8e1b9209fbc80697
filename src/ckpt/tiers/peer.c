/* peer.c - asks another node for its points, one request at a time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/tiers/peer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"

struct peer_answer {
    bool done;
    unsigned status;
    struct buf body;
    char why[256];
};

struct peer {
    struct loop *loop;
    struct client *client;
    struct token token;
    struct peer_answer answer; /* of the request under way */
};

int peer_open(const struct client_settings *settings, const struct token *token, struct peer **ret,
              struct err *err)
{
    struct peer *peer = calloc(1, sizeof(*peer));
    int result = peer ? loop_create(&peer->loop, err) : err_nomem(err);

    if (result == 0)
        result = client_open(peer->loop, settings, &peer->client, err);
    if (result < 0) {
        peer_close(peer);
        return result;
    }
    peer->token = *token;
    *ret = peer;
    return 0;
}

void peer_close(struct peer *peer)
{
    if (!peer)
        return;
    client_close(peer->client);
    loop_destroy(peer->loop);
    buf_fini(&peer->answer.body);
    free(peer);
}

static void peer_answered(void *arg, const struct client_answer *answer)
{
    struct peer_answer *own = arg;

    own->done = true;
    own->status = answer->status;
    snprintf(own->why, sizeof(own->why), "%s", answer->why ? answer->why : "");
    if (answer->status && answer->body)
        buf_put(&own->body, answer->body->data, answer->body->size);
}

/* The answer's body is in peer->answer. */
static int peer_call(struct peer *peer, const char *path, struct buf *body, struct err *err)
{
    struct peer_answer *answer = &peer->answer;
    int result;

    buf_fini(&answer->body);
    *answer = (struct peer_answer){ .done = false };
    result = client_call(peer->client, path, &peer->token, body, peer_answered, answer);
    if (result < 0)
        return err_set(err, result, "%s: %s", path, strerror(-result));
    while (!answer->done && result >= 0)
        result = loop_turn(peer->loop, INT64_MAX, err);
    if (result < 0)
        return result;
    if (answer->body.failed)
        return err_nomem(err);
    if (!answer->status)
        return err_set(err, -EHOSTUNREACH, "no answer from the node: %s", answer->why);
    if (answer->status == 401 || answer->status == 403)
        return err_set(err, -EACCES, "the node refuses the token");
    if (answer->status == 404)
        return err_set(err, -ENOENT, "%s: the node does not have it", path);
    if (answer->status < 200 || answer->status > 299)
        return err_set(err, -EREMOTEIO, "%s: the node answered %u", path, answer->status);
    return 0;
}

/* ---- the list ---- */

/* "STEP JOB\n", exactly as it would be written. */
static bool peer_line_parse(const char *line, size_t size, struct peer_point *ret)
{
    char copy[64], again[64];

    if (size >= sizeof(copy))
        return false;
    memcpy(copy, line, size);
    copy[size] = '\0';
    if (sscanf(copy, "%" SCNu64 " %" SCNx64, &ret->step, &ret->job) != 2)
        return false;
    snprintf(again, sizeof(again), "%" PRIu64 " %016" PRIx64, ret->step, ret->job);
    return strlen(again) == size && memcmp(again, line, size) == 0 && ret->step != UINT64_MAX;
}

int peer_points_parse(const char *text, size_t size, struct peer_point *ret, size_t room,
                      size_t *ret_count, struct err *err)
{
    size_t count = 0;

    for (size_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        struct peer_point point;

        if (!end || !peer_line_parse(text + at, (size_t)(end - text) - at, &point))
            return err_set(err, -EPROTO, "the node's list of points is not valid");
        if (count < room)
            ret[count++] = point;
        at = (size_t)(end - text) + 1;
    }
    *ret_count = count;
    return 0;
}

int peer_points(struct peer *peer, struct peer_point *ret, size_t room, size_t *ret_count,
                struct err *err)
{
    int result = peer_call(peer, "/v1/points", NULL, err);

    return result < 0 ? result
                      : peer_points_parse((const char *)peer->answer.body.data,
                                          peer->answer.body.size, ret, room, ret_count, err);
}

/* ---- files ---- */

static int peer_part_get(struct peer *peer, const struct peer_range *range, uint64_t at,
                         uint64_t bytes, struct err *err)
{
    char path[256];

    snprintf(path, sizeof(path),
             "/v1/points/%" PRIu64 "-%016" PRIx64 "/%.64s?at=%" PRIu64 "&bytes=%" PRIu64,
             range->point.step, range->point.job, range->name, at, bytes);
    return peer_call(peer, path, NULL, err);
}

int peer_get(struct peer *peer, const struct peer_range *range, struct buf *ret, struct err *err)
{
    bool whole = range->bytes == 0;
    uint64_t at = range->at, left = range->bytes;
    int result = 0;

    while (result == 0 && (whole || left)) {
        uint64_t part = whole ? PEER_BYTES_MAX : MIN(left, PEER_BYTES_MAX);
        size_t got;

        result = peer_part_get(peer, range, at, part, err);
        got = result == 0 ? peer->answer.body.size : 0;
        if (got > part || ret->size + got > range->most)
            return err_set(err, -EPROTO, "%s: the node gave more than was asked for", range->name);
        buf_put(ret, peer->answer.body.data, got);
        at += got;
        left -= whole ? 0 : got;
        if (got < part)
            break;
    }
    if (result == 0 && ret->failed)
        result = err_nomem(err);
    return result;
}

int peer_copied(struct peer *peer, struct peer_point point, uint64_t took_us, struct err *err)
{
    struct buf body = { .data = NULL };
    char path[128];

    snprintf(path, sizeof(path), "/v1/points/%" PRIu64 "-%016" PRIx64 "/copied?us=%" PRIu64,
             point.step, point.job, took_us);
    buf_put(&body, "\n", 1);
    return peer_call(peer, path, &body, err);
}
