/* relay_event.h - one thing that happened, as other programs receive it.
 *
 * The id is a hash of run, type and content: an event that is sent again, after a lost connection or a compaction of its log,
 * has the same id, so a receiver can drop it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_RELAY_RELAY_EVENT_H
#define LOCKSTEP_CONTROL_RELAY_RELAY_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include <json-c/json.h>

#include "core/buf.h"
#include "wire/frame.h"

#define RELAY_TEXT 400

enum relay_severity { /* of RFC 5424 */
    RELAY_CRITICAL = 2,
    RELAY_ERROR = 3,
    RELAY_WARNING = 4,
    RELAY_NOTICE = 5,
    RELAY_INFO = 6,
};

struct relay_event {
    uint64_t id;
    const char *type;      /* "verdict", "finding", "decision", "outcome", "audit", "gap" */
    char run[64];          /* "": of no run */
    int64_t real_ns;       /* 0: not known */
    unsigned severity;     /* enum relay_severity */
    char text[RELAY_TEXT]; /* one sentence */
    struct json_object *body;
};

void relay_event_fini(struct relay_event *event);

/* 1: the frame is an event, *ret is set; 0: it is none, or its payload is damaged.  `own`: the controller wrote it. */
int relay_event_of_frame(const struct frame *frame, bool own, const char *run,
                         struct relay_event *ret);
/* A line of the audit trail.  *number: its `n`.  -EPROTO: it is none. */
int relay_event_of_audit(const char *line, size_t size, const char *run, struct relay_event *ret,
                         uint64_t *number);
/* Records of the audit trail that were overwritten before they could be read. */
void relay_event_gap(uint64_t after, uint64_t missing, const char *run, struct relay_event *ret);

/* A line with its newline; {schema, event, type, time, run, severity, text, TYPE: {...}}. */
void relay_event_json(const struct relay_event *event, struct buf *out);
/* "LENGTH <PRI>1 TIME HOST lockstep - TYPE [SD-ID ...] TEXT", by octet counting (RFC 6587, RFC 5425). */
void relay_event_syslog(const struct relay_event *event, const char *host, const char *sd_id,
                        struct buf *out);

#endif
