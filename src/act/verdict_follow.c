/* verdict_follow.c - follows the controller's log for verdicts that ask for a restart, or say whom a run ends for. */
#include "act/verdict_follow.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/paths.h"
#include "core/clean.h"
#include "wire/frame.h"
#include "wire/spool.h"

#define VERDICT_FOLLOW_LOG "log.lsf"
#define VERDICT_FOLLOW_LEAST 0.8 /* confidence: below this a verdict is for people */

struct verdict_follow {
    struct path log;
    struct spool_reader *reader; /* NULL while there is no log */
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
    free(follow);
}

static bool asks_for_restart(const struct verdict *verdict, int64_t since_real_ns)
{
    return (verdict->kind == VERDICT_HANG || verdict->kind == VERDICT_DESYNC) &&
           verdict->until_real_ns == 0 && verdict->confidence >= VERDICT_FOLLOW_LEAST &&
           verdict->decided_real_ns > since_real_ns;
}

/* The next verdict in the log: 1 and *ret; 0: that is all. */
static int next_verdict(struct spool_reader *reader, struct verdict *ret)
{
    struct frame frame;

    while (spool_next(reader, &frame, NULL) == 1) {
        if (frame.type == FRAME_VERDICT &&
            verdict_get(reader_of(frame.payload, frame.payload_bytes), ret) == 0)
            return 1;
    }
    return 0;
}

int verdict_follow_hang(struct verdict_follow *follow, int64_t since_real_ns, struct verdict *ret)
{
    struct verdict verdict;
    int found = 0;

    if (!follow->reader && spool_reader_open(follow->log.text, &follow->reader, NULL) < 0)
        return 0;
    while (next_verdict(follow->reader, &verdict)) {
        if (!asks_for_restart(&verdict, since_real_ns))
            continue;
        *ret = verdict;
        found = 1;
    }
    return found;
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
    int found = 0;

    if (path_join(&log, run_dir, VERDICT_FOLLOW_LOG, NULL) < 0 ||
        spool_reader_open(log.text, &reader, NULL) < 0)
        return 0;
    spool_reader_seek(reader, from);
    while (next_verdict(reader, &verdict)) {
        if (verdict.kind != VERDICT_CRASH || verdict.confidence < VERDICT_FOLLOW_LEAST ||
            verdict.decided_real_ns <= since_real_ns ||
            (found && verdict.since_real_ns >= ret->since_real_ns))
            continue;
        *ret = verdict;
        found = 1;
    }
    return found;
}
