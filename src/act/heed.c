/* heed.c - follows the controller's log for verdicts that ask for a restart, or say whom a run ends for. */
#include "act/heed.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/paths.h"
#include "core/clean.h"
#include "wire/frame.h"
#include "wire/spool.h"

#define HEED_LOG "log.lsf"
#define HEED_LEAST 0.8 /* confidence: below this a verdict is for people */

struct heed {
    struct path log;
    struct spool_reader *reader; /* NULL while there is no log */
};

int heed_create(const char *run_dir, struct heed **ret)
{
    struct heed *heed = calloc(1, sizeof(*heed));

    if (!heed)
        return -ENOMEM;
    if (path_join(&heed->log, run_dir, HEED_LOG, NULL) < 0) {
        free(heed);
        return -ENAMETOOLONG;
    }
    *ret = heed;
    return 0;
}

void heed_destroy(struct heed *heed)
{
    if (!heed)
        return;
    spool_reader_close(heed->reader);
    free(heed);
}

static bool asks_for_restart(const struct verdict *verdict, int64_t since_real_ns)
{
    return (verdict->kind == VERDICT_HANG || verdict->kind == VERDICT_DESYNC) &&
           verdict->until_real_ns == 0 && verdict->confidence >= HEED_LEAST &&
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

int heed_hang(struct heed *heed, int64_t since_real_ns, struct verdict *ret)
{
    struct verdict verdict;
    int found = 0;

    if (!heed->reader && spool_reader_open(heed->log.text, &heed->reader, NULL) < 0)
        return 0;
    while (next_verdict(heed->reader, &verdict)) {
        if (!asks_for_restart(&verdict, since_real_ns))
            continue;
        *ret = verdict;
        found = 1;
    }
    return found;
}

uint64_t heed_bytes(const char *run_dir)
{
    struct path log;
    struct stat st;

    return path_join(&log, run_dir, HEED_LOG, NULL) < 0 || stat(log.text, &st) < 0
               ? 0
               : (uint64_t)st.st_size;
}

static void reader_clean(struct spool_reader **reader)
{
    spool_reader_close(*reader);
}

int heed_crash(const char *run_dir, uint64_t from, int64_t since_real_ns, struct verdict *ret)
{
    CLEAN(reader_clean) struct spool_reader *reader = NULL;
    struct verdict verdict;
    struct path log;
    int found = 0;

    if (path_join(&log, run_dir, HEED_LOG, NULL) < 0 ||
        spool_reader_open(log.text, &reader, NULL) < 0)
        return 0;
    spool_reader_seek(reader, from);
    while (next_verdict(reader, &verdict)) {
        if (verdict.kind != VERDICT_CRASH || verdict.confidence < HEED_LEAST ||
            verdict.decided_real_ns <= since_real_ns ||
            (found && verdict.since_real_ns >= ret->since_real_ns))
            continue;
        *ret = verdict;
        found = 1;
    }
    return found;
}
