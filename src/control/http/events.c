/* events.c - keeps the newest events and sends them to listeners.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/http/events.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/http/reply.h"
#include "core/buf.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/text.h"
#include "core/time.h"

#define PENDING_MAX (1u << 20) /* of a slow listener */

struct event {
    uint64_t number;
    char run[64], type[16];
    struct buf text; /* as it is sent */
};

struct listener {
    struct listener *next, **back;
    struct events *events;
    struct http_exchange *exchange;
    char run[64];       /* "": all */
    char types[64];     /* "": all; "verdict,run" */
    uint64_t peer, who; /* hashes: its address, its token's name */
};

void events_init(struct events *events, uint64_t epoch)
{
    *events = (struct events){ .epoch = epoch, .next = 1 };
    events_limit(events, EVENTS_LISTENERS_MAX);
}

/* A token is shared by readers of many machines, an address by users of one. */
void events_limit(struct events *events, size_t most)
{
    events->most = MIN(most, EVENTS_LISTENERS_MAX);
    events->token_most = MAX(events->most / 2, 1u);
    events->peer_most = MAX(events->most / 4, 1u);
}

void events_fini(struct events *events)
{
    for (size_t i = 0; events->kept && i < EVENTS_KEPT; i++)
        buf_fini(&events->kept[i].text);
    free(events->kept);
    events->kept = NULL;
}

static bool events_in_list(const char *list, const char *word)
{
    size_t size = strlen(word);

    for (const char *at = list; *at;) {
        size_t length = strcspn(at, ",");

        if (length == size && memcmp(at, word, size) == 0)
            return true;
        at += length + (at[length] == ',');
    }
    return false;
}

static bool listener_wants(const struct listener *listener, const struct event *event)
{
    return (!listener->run[0] || strcmp(listener->run, event->run) == 0) &&
           (!listener->types[0] || events_in_list(listener->types, event->type));
}

static void listener_send(struct listener *listener, const struct event *event)
{
    if (listener_wants(listener, event) &&
        !http_stream_put(listener->exchange, event->text.data, event->text.size))
        listener->events->dropped++;
}

static void listener_gone(void *arg)
{
    struct listener *listener = arg;

    *listener->back = listener->next;
    if (listener->next)
        listener->next->back = listener->back;
    listener->events->count--;
    free(listener);
}

void events_put(struct events *events, const char *run, const char *type,
                struct json_object *object)
{
    struct event *event;
    char head[128];

    if (!events->kept)
        events->kept = calloc(EVENTS_KEPT, sizeof(*events->kept));
    if (!events->kept) {
        json_object_put(object);
        return;
    }
    event = &events->kept[events->next % EVENTS_KEPT];
    buf_fini(&event->text);
    event->number = events->next++;
    json_object_object_add(object, "told", json_object_new_double((double)time_real_ns() / 1e9));
    snprintf(event->run, sizeof(event->run), "%s", run);
    snprintf(event->type, sizeof(event->type), "%s", type);
    snprintf(head, sizeof(head), "id: %" PRIx64 "-%" PRIu64 "\nevent: %s\ndata: ", events->epoch,
             event->number, type);
    buf_put(&event->text, head, strlen(head));
    buf_put(&event->text, json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN),
            strlen(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN)));
    if (!event->text.failed)
        event->text.size = text_clean((char *)event->text.data, event->text.size, true);
    buf_put(&event->text, "\n\n", 2);
    json_object_put(object);
    for (struct listener *one = events->listeners; one; one = one->next)
        listener_send(one, event);
}

/* Sends missed events, or `reset` if they are no longer available. */
static void listener_catch_up(struct events *events, struct listener *listener, const char *last)
{
    static const char reset[] = "event: reset\ndata: {}\n\n";
    uint64_t epoch, number, first = events->next > EVENTS_KEPT ? events->next - EVENTS_KEPT : 1;

    if (!last)
        return;
    if (sscanf(last, "%" SCNx64 "-%" SCNu64, &epoch, &number) != 2 || epoch != events->epoch ||
        number + 1 < first || number >= events->next) {
        http_stream_put(listener->exchange, reset, strlen(reset));
        return;
    }
    for (uint64_t i = number + 1; i < events->next; i++)
        listener_send(listener, &events->kept[i % EVENTS_KEPT]);
}

/* False: there are too many, and it was answered. */
static bool listener_fits(const struct events *events, struct http_exchange *exchange,
                          uint64_t peer, uint64_t who)
{
    size_t of_peer = 0, of_token = 0;

    for (const struct listener *one = events->listeners; one; one = one->next) {
        of_peer += one->peer == peer;
        of_token += one->who == who;
    }
    if (events->count >= events->most)
        reply_error(exchange, 503, "too many event streams: %zu are open", events->count);
    else if (of_peer >= events->peer_most)
        reply_error(exchange, 429, "too many event streams: %zu are open from this address",
                    of_peer);
    else if (of_token >= events->token_most)
        reply_error(exchange, 429, "too many event streams: %zu are open with this token",
                    of_token);
    else
        return true;
    return false;
}

void events_listen(struct events *events, struct http_exchange *exchange, const char *who)
{
    static const char hello[] = ": lockstep\nretry: 2000\n\n";
    const char *run = http_query(exchange, "run"), *types = http_query(exchange, "types"),
               *last = http_header(exchange, "Last-Event-ID");
    uint64_t peer = http_peer(exchange), token = hash64(0, who, strlen(who));
    struct listener *listener;

    if (!listener_fits(events, exchange, peer, token))
        return;
    listener = calloc(1, sizeof(*listener));
    if (!listener) {
        reply_error(exchange, 503, "out of memory");
        return;
    }
    listener->events = events;
    listener->exchange = exchange;
    listener->peer = peer;
    listener->who = token;
    snprintf(listener->run, sizeof(listener->run), "%s", run ? run : "");
    snprintf(listener->types, sizeof(listener->types), "%s", types ? types : "");
    listener->next = events->listeners;
    listener->back = &events->listeners;
    if (listener->next)
        listener->next->back = &listener->next;
    events->listeners = listener;
    events->count++;
    http_on_gone(exchange, listener_gone, listener);
    http_answer_header(exchange, "Cache-Control", "no-store");
    http_stream(exchange, "text/event-stream", PENDING_MAX);
    http_stream_put(exchange, hello, strlen(hello));
    listener_catch_up(events, listener, last ? last : http_query(exchange, "last"));
}

void events_beat(struct events *events)
{
    for (struct listener *one = events->listeners; one; one = one->next)
        http_stream_put(one->exchange, ": \n\n", 4);
}
