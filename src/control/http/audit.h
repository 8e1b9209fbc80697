/* audit.h - the audit trail: who changed or asked what, by the name of which token, from where, and with what result.
 *
 *     STATE/audit.jsonl      one JSON object a line, in order of `n`, which counts on over restarts
 *     STATE/audit.old.jsonl  the file before, when that one was full
 *
 * Recorded are: every request that changes something (facts of agents excepted, which the logs hold), every request that was
 * refused, every session of a browser, and for each reader once an hour which run it reads.  Requests that repeat one another are
 * counted instead of written, so that nobody can push the others' records out of the files.  A token itself, a query or a
 * body is never written.  docs/AUDIT.md lists the fields; `lockstep relay` sends the trail to other programs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_HTTP_AUDIT_H
#define LOCKSTEP_CONTROL_HTTP_AUDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/net/http.h"
#include "base/paths.h"

#define AUDIT_FILE "audit.jsonl"
#define AUDIT_OLD_FILE "audit.old.jsonl"
#define AUDIT_BYTES_MAX (32u << 20) /* of one file */
#define AUDIT_MEMOS 512

struct audit_record {
    char who[HTTP_NOTE]; /* "": nobody that is known */
    char what[HTTP_NOTE];
    char from[64], method[8], path[160], run[64];
    unsigned status; /* 0: no request, but a signal */
    bool refused;
};

struct audit_memo {
    uint64_t key;     /* 0: free */
    int64_t until_ns; /* monotonic; equal records until then are counted */
    uint64_t more;    /* so many since it was written */
    bool read;        /* how often somebody read is not reported */
    struct audit_record record;
};

struct audit {
    char state[PATH_MAX];
    int fd;        /* -1: not open */
    uint64_t next; /* number of the next record */
    uint64_t bytes, bytes_max;
    uint64_t lost; /* records that could not be written */
    bool dirty;    /* written since the last sync */
    struct audit_memo memo[AUDIT_MEMOS];
};

/* Nothing is opened before the first record. */
void audit_init(struct audit *audit, const char *state);
void audit_fini(struct audit *audit);

/* A request and its answer, as far as it belongs into the trail. */
void audit_answered(struct audit *audit, const struct http_exchange *exchange, unsigned status,
                    int64_t now_ns);
/* Whatever is no request, such as tokens that were read again. */
void audit_put(struct audit *audit, const struct audit_record *record, int64_t now_ns);
/* Writes what was counted and is due, and syncs. */
void audit_turn(struct audit *audit, int64_t now_ns);

#endif
