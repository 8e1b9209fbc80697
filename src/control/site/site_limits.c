/* site_limits.c - memory and disk limits of each run, and which runs are kept.
 *
 * The holder of a run's token controls its facts, so each run has a memory limit and a disk limit; over a limit only
 * that run is refused.  A run over its memory limit is not loaded again, because its log would need as much memory
 * at every start.  RUN/refused contains the reason; an administrator removes it to accept the run again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "control/log/spools.h"
#include "control/site/site_private.h"
#include "core/clean.h"
#include "core/time.h"
#include "wire/spool.h"

#define SMALL_BYTES (1 << 20) /* a log without any fact is smaller than this */

static int site_refused_path(const struct site_run *run, struct path *ret)
{
    return path_join(ret, run->dir.path.text, "refused", NULL);
}

void run_refused_read(struct site_run *run)
{
    CLEAN(file_clean) FILE *file = NULL;
    struct path path;

    run->refused.text[0] = '\0';
    if (site_refused_path(run, &path) < 0 || !(file = fopen(path.text, "re")))
        return;
    if (!fgets(run->refused.text, sizeof(run->refused.text), file))
        err_set(&run->refused, 0, "refused");
    run->refused.text[strcspn(run->refused.text, "\n")] = '\0';
}

void run_refuse(struct site_run *run, const char *why)
{
    CLEAN(file_clean) FILE *file = NULL;
    struct path path;

    err_set(&run->refused, 0, "%s", why);
    run_shut(run, why);
    seen_fini(&run->seen);
    report_builder_fini(&run->builder);
    traffic_fini(&run->traffic);
    rank_presence_fini(&run->presence);
    if (site_refused_path(run, &path) == 0)
        file = fopen(path.text, "we");
    if (!file ||
        fprintf(file,
                "%s\nTo accept the run again, remove this file and restart the controller with a "
                "larger --run-memory.\n",
                why) < 0 ||
        fflush(file) != 0)
        log_error("%s: %m", path.text);
    log_error("run %s is refused: %s", run->dir.run, why);
}

unsigned run_status(int result)
{
    return result == -EDQUOT || result == -EFBIG ? 507 : 503;
}

/* A log and the next one in the making, of three quarters of it, are what a run may have. */
uint64_t run_log_limit(const struct site *site)
{
    return site->settings.run_disk / 7 * 4;
}

uint64_t run_log_max(const struct site *site)
{
    uint64_t limit = run_log_limit(site) / 2, most = site->settings.log_max;

    return most && limit ? MIN(most, limit) : most;
}

/* ---- runs that never sent a fact ---- */

/* Whether its log has a frame that is not the controller's own. */
static bool site_log_has_facts(const struct site_run *run)
{
    CLEAN(spool_reader_clean) struct spool_reader *reader = NULL;
    struct frame frame;
    struct stat st;

    if (stat(run->dir.log.text, &st) < 0)
        return errno != ENOENT;
    if (st.st_size > SMALL_BYTES || spool_reader_open(run->dir.log.text, &reader, NULL) < 0)
        return true;
    while (spool_next(reader, &frame, NULL) == 1) {
        if (frame.sender != control_sender())
            return true;
    }
    return spool_reader_damaged(reader) > 0;
}

/* Registered, but no fact ever arrived.  Checks one run per turn. */
void site_forget(struct site *site)
{
    int64_t now_ns = time_real_ns();

    for (size_t i = 0; site->settings.forget_ns && i < site->runs; i++) {
        size_t at = site->forget_next++ % site->runs;
        struct site_run *run = site->run[at];

        run->has_facts |= run->log && runlog_facts(run->log) > 0;
        if (run->has_facts || run->loading || run->waiting || !run->made_real_ns ||
            now_ns - run->made_real_ns < site->settings.forget_ns)
            continue;
        run->has_facts = site_log_has_facts(run);
        if (!run->has_facts)
            site_remove(site, at);
        return;
    }
}
