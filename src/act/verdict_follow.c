/* verdict_follow.c - follows the controller's log: verdicts to print, to restart for, or that name whom a run ends for.
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
#include "wire/frame.h"
#include "wire/spool.h"

#define VERDICT_FOLLOW_LOG "log.lsf"
#define VERDICT_FOLLOW_LEAST 0.8 /* confidence: below this a verdict is for people */

struct verdict_follow {
    struct path log;
    struct spool_reader *reader; /* NULL while there is no log */
    uint64_t inode;              /* of the log that is read */
    struct map known;            /* hash of a verdict's id → 1 */
    bool fresh;                  /* the newest was not known before */
    bool rings;                  /* some process opened one */
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
    free(follow);
}

bool verdict_follow_asks_restart(const struct verdict *verdict, int64_t since_real_ns)
{
    return (verdict->kind == VERDICT_HANG || verdict->kind == VERDICT_DESYNC) &&
           verdict->until_real_ns == 0 && verdict->confidence >= VERDICT_FOLLOW_LEAST &&
           verdict->decided_real_ns > since_real_ns;
}

/* The next verdict in the log: 1 and *ret; 0: that is all. */
static int next_verdict(struct spool_reader *reader, struct verdict *ret, bool *rings)
{
    struct frame frame;

    while (spool_next(reader, &frame, NULL) == 1) {
        *rings = *rings || frame.type == FRAME_RING;
        if (frame.type == FRAME_VERDICT &&
            verdict_get(reader_of(frame.payload, frame.payload_bytes), ret) == 0)
            return 1;
    }
    return 0;
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

int verdict_follow_next(struct verdict_follow *follow, struct verdict *ret)
{
    size_t before = follow->known.used;

    if (!follow->reader && !follow_open(follow))
        return 0;
    while (!next_verdict(follow->reader, ret, &follow->rings))
        if (!follow_open(follow))
            return 0;
    map_put(&follow->known, hash64(0, ret->id, strlen(ret->id)), 1);
    follow->fresh = follow->known.used > before;
    return 1;
}

bool verdict_follow_is_new(const struct verdict_follow *follow)
{
    return follow->fresh;
}

bool verdict_follow_has_rings(const struct verdict_follow *follow)
{
    return follow->rings;
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

static void reader_clean(struct spool_reader **reader)
{
    spool_reader_close(*reader);
}

int verdict_follow_crash(const char *run_dir, uint64_t from, int64_t since_real_ns,
                         struct verdict *ret)
{
    CLEAN(reader_clean) struct spool_reader *reader = NULL;
    struct verdict verdict;
    struct path log;
    bool rings = false;
    int found = 0;

    if (path_join(&log, run_dir, VERDICT_FOLLOW_LOG, NULL) < 0 ||
        spool_reader_open(log.text, &reader, NULL) < 0)
        return 0;
    spool_reader_seek(reader, from);
    while (next_verdict(reader, &verdict, &rings)) {
        if (verdict.kind != VERDICT_CRASH || verdict.confidence < VERDICT_FOLLOW_LEAST ||
            verdict.decided_real_ns <= since_real_ns ||
            (found && verdict.since_real_ns >= ret->since_real_ns))
            continue;
        *ret = verdict;
        found = 1;
    }
    return found;
}
