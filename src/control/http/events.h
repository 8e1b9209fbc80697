/* events.h - one stream of server-sent events for all listeners.
 *
 * The id of an event is "EPOCH-NUMBER"; the epoch is the start of this process.  A listener that reconnects with its
 * last id (Last-Event-ID) gets the events that it missed, if they are still available.  Otherwise it gets an event
 * `reset` and must read the API again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_HTTP_EVENTS_H
#define LOCKSTEP_CONTROL_HTTP_EVENTS_H

#include <stddef.h>
#include <stdint.h>

#include <json-c/json.h>

#include "base/net/http.h"

#define EVENTS_KEPT 4096
#define EVENTS_LISTENERS_MAX 1024

struct listener;
struct event;

struct events {
    uint64_t epoch, next; /* number of the next one */
    struct event *kept;   /* EVENTS_KEPT, by number modulo; NULL before the first */
    struct listener *listeners;
    size_t count, most;           /* listeners */
    size_t peer_most, token_most; /* limits per address and per token */
    uint64_t dropped;             /* listeners that were too slow */
};

void events_init(struct events *events, uint64_t epoch);
void events_fini(struct events *events);
void events_limit(struct events *events,
                  size_t most); /* listeners: EVENTS_LISTENERS_MAX or fewer */
/* Takes the object.  `run` and `type` are what listeners may filter by. */
void events_put(struct events *events, const char *run, const char *type,
                struct json_object *object);
/* Answers the exchange with the stream, or 429 or 503 where too many listen.  `who`: the token's name. */
void events_listen(struct events *events, struct http_exchange *exchange, const char *who);
void events_beat(struct events *events); /* a comment, so that dead peers are noticed */

#endif
