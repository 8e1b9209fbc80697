/* heed.c - follows the controller's log for verdicts that ask for a restart. */
#include "act/heed.h"

#include <errno.h>
#include <stdlib.h>

#include "base/paths.h"
#include "wire/frame.h"
#include "wire/spool.h"

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
    if (path_join(&heed->log, run_dir, "log.lsf", NULL) < 0) {
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

int heed_hang(struct heed *heed, int64_t since_real_ns, struct verdict *ret)
{
    struct frame frame;
    int found = 0;

    if (!heed->reader && spool_reader_open(heed->log.text, &heed->reader, NULL) < 0)
        return 0;
    while (spool_next(heed->reader, &frame, NULL) == 1) {
        struct cut in = cut_of(frame.payload, frame.payload_bytes);
        struct verdict verdict;

        if (frame.type != FRAME_VERDICT || verdict_get(in, &verdict) < 0 ||
            !asks_for_restart(&verdict, since_real_ns))
            continue;
        *ret = verdict;
        found = 1;
    }
    return found;
}
