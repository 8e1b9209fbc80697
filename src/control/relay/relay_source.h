/* relay_source.h - one growing file of events: the log of a run, the site's log, or an audit trail.
 *
 * A source gives its events in the order in which they were written.  Its place says how far it was read; after
 * relay_source_rewind() it gives the same events again, also where the file was compacted or replaced since.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_RELAY_RELAY_SOURCE_H
#define LOCKSTEP_CONTROL_RELAY_RELAY_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/paths.h"
#include "control/relay/relay_event.h"
#include "core/err.h"

struct spool_reader;

enum relay_source_kind {
    RELAY_LOG = 1,
    RELAY_AUDIT = 2
};

#define RELAY_SOURCE_NAME 80 /* "site", "audit", "run/NAME", "audit/NAME" */

/* Of a log: the file, where to read on, and the last event with the frame that holds it.  Of an audit trail: only the number
 * of the last record.
 */
struct relay_place {
    uint64_t inode, at, event_at, event_id;
    uint64_t number;
};

struct relay_source {
    char name[RELAY_SOURCE_NAME], run[64]; /* run "": of no run */
    enum relay_source_kind kind;
    struct path directory; /* that has the file */
    struct relay_place now, delivered;
    bool is_new; /* no cursor knew it */
    bool seen;   /* by the newest scan */
    bool found;  /* the place was looked up in the file that is open */
    bool at_end; /* the file that is open was read to its end */
    /* of a log */
    struct spool_reader *reader; /* NULL: not open */
    /* of an audit trail */
    int fd; /* -1: not open */
    uint64_t fd_inode;
    bool fd_old; /* the file before the newest one */
    struct buf rest;
};

void relay_source_init(struct relay_source *source, enum relay_source_kind kind, const char *name,
                       const char *run, const char *directory);
void relay_source_close(struct relay_source *source);
void relay_source_rewind(struct relay_source *source); /* to what was delivered */
/* 1 with *ret set: the next event; 0: none now, or as many frames were read as `left` allows, which counts down; -errno. */
int relay_source_next(struct relay_source *source, size_t *left, struct relay_event *ret,
                      struct err *err);
/* Passes over all that is there. */
int relay_source_skip(struct relay_source *source, struct err *err);

/* relay_log.c, relay_audit.c */
int relay_log_next(struct relay_source *source, size_t *left, struct relay_event *ret,
                   struct err *err);
void relay_log_close(struct relay_source *source);
int relay_audit_next(struct relay_source *source, size_t *left, struct relay_event *ret,
                     struct err *err);
void relay_audit_close(struct relay_source *source);

#endif
