/* verdict_follow.c - follows the controller's log: verdicts to print, and the rank whose failure ends a run.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "act/verdict_follow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/paths.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/map.h"
#include "wire/facts.h"
#include "wire/frame.h"
#include "wire/spool.h"

#define VERDICT_FOLLOW_LOG "log.lsf"
#define VERDICT_FOLLOW_LEAST 0.8 /* confidence: below this a verdict is for people */

struct follow_seen { /* beside verdicts and decisions */
    bool rings;      /* some process opened one */
    bool closed;     /* the newest tick is the last one */
};

struct verdict_follow {
    struct path log;
    struct spool_reader *reader; /* NULL while there is no log */
    uint64_t inode;              /* of the log that is read */
    struct map known;            /* hash of a verdict's id → 1 */
    struct map decided;          /* the same of decisions */
    bool fresh;                  /* the newest was not known before */
    struct follow_seen seen;
};

int verdict_follow_create(const char *run_dir, struct verdict_follow **ret)
{
    struct verdict_follow *follow = calloc(1, sizeof(*follow));

    if (!follow)
        return -ENOMEM;
    if (path_join(&follow->log, run_dir, VERDICT_FOLLOW_LOG, NULL) < 0) {
        free(follow);
        return -ENAMETOOLONG;
    }
    *ret = follow;
    return 0;
}

void verdict_follow_destroy(struct verdict_follow *follow)
{
    if (!follow)
        return;
    spool_reader_close(follow->reader);
    map_fini(&follow->known);
    map_fini(&follow->decided);
    free(follow);
}

static enum verdict_follow_what follow_read(struct spool_reader *reader, struct verdict *verdict,
                                            struct decision *decision, struct follow_seen *seen)
{
    struct fact_tick tick;
    struct frame frame;

    while (spool_next(reader, &frame, NULL) == 1) {
        struct reader in = reader_of(frame.payload, frame.payload_bytes);

        seen->rings = seen->rings || frame.type == FRAME_RING;
        if (frame.type == FRAME_TICK && fact_tick_get(in, &tick) == 0)
            seen->closed = tick.flags & TICK_LAST;
        if (frame.type == FRAME_VERDICT && verdict_get(in, verdict) == 0)
            return VERDICT_FOLLOW_VERDICT;
        if (frame.type == FRAME_DECISION && decision_get(in, decision) == 0)
            return VERDICT_FOLLOW_DECISION;
    }
    return VERDICT_FOLLOW_NONE;
}

/* Opens the log, or the compacted one that took its place.  False: there is no other than the one that is read. */
static bool follow_open(struct verdict_follow *follow)
{
    struct spool_reader *reader;
    struct stat st;

    if (stat(follow->log.text, &st) < 0 ||
        (follow->reader && (uint64_t)st.st_ino == follow->inode) ||
        spool_reader_open(follow->log.text, &reader, NULL) < 0)
        return false;
    spool_reader_close(follow->reader);
    follow->reader = reader;
    follow->inode = (uint64_t)st.st_ino;
    return true;
}

static bool follow_know(struct map *known, const char *id)
{
    size_t before = known->used;

    map_put(known, hash64(0, id, strlen(id)), 1);
    return known->used > before;
}

enum verdict_follow_what verdict_follow_next(struct verdict_follow *follow, struct verdict *verdict,
                                             struct decision *decision)
{
    enum verdict_follow_what what;

    if (!follow->reader && !follow_open(follow))
        return VERDICT_FOLLOW_NONE;
    while (!(what = follow_read(follow->reader, verdict, decision, &follow->seen)))
        if (!follow_open(follow))
            return VERDICT_FOLLOW_NONE;
    follow->fresh = what == VERDICT_FOLLOW_VERDICT ? follow_know(&follow->known, verdict->id)
                                                   : follow_know(&follow->decided, decision->id);
    return what;
}

bool verdict_follow_is_new(const struct verdict_follow *follow)
{
    return follow->fresh;
}

bool verdict_follow_has_rings(const struct verdict_follow *follow)
{
    return follow->seen.rings;
}

bool verdict_follow_is_closed(const struct verdict_follow *follow)
{
    return follow->seen.closed;
}

size_t verdict_follow_count(const struct verdict_follow *follow)
{
    return follow->known.used;
}

uint64_t verdict_follow_bytes(const char *run_dir)
{
    struct path log;
    struct stat st;

    return path_join(&log, run_dir, VERDICT_FOLLOW_LOG, NULL) < 0 || stat(log.text, &st) < 0
               ? 0
               : (uint64_t)st.st_size;
}

int verdict_follow_crash(const char *run_dir, uint64_t from, int64_t since_real_ns,
                         struct verdict *ret)
{
    CLEAN(spool_reader_clean) struct spool_reader *reader = NULL;
    enum verdict_follow_what what;
    struct decision decision;
    struct verdict verdict;
    struct path log;
    struct follow_seen seen = { 0 };
    int found = 0;

    if (path_join(&log, run_dir, VERDICT_FOLLOW_LOG, NULL) < 0 ||
        spool_reader_open(log.text, &reader, NULL) < 0)
        return 0;
    spool_reader_seek(reader, from);
    while ((what = follow_read(reader, &verdict, &decision, &seen))) {
        if (what != VERDICT_FOLLOW_VERDICT || verdict.kind != VERDICT_CRASH ||
            verdict.confidence < VERDICT_FOLLOW_LEAST || verdict.decided_real_ns <= since_real_ns ||
            (found && verdict.since_real_ns >= ret->since_real_ns))
            continue;
        *ret = verdict;
        found = 1;
    }
    return found;
}
