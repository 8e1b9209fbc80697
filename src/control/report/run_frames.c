/* run_frames.c - one pass over the files of a run, without judging them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/report/run_frames.h"

#include <errno.h>

#include "control/log/rundir.h"
#include "control/log/spools.h"
#include "core/clean.h"
#include "wire/spool.h"

static void run_frames_spools_clean(struct spools **spools)
{
    spools_destroy(*spools);
}

static int run_frames_log(const struct rundir *dir, struct spools *spools, run_frames_call *call,
                          void *arg, struct err *err)
{
    CLEAN(spool_reader_clean) struct spool_reader *reader = NULL;
    uint64_t self = control_sender();
    struct frame frame;
    int result = spool_reader_open(dir->log.text, &reader, err);

    if (result < 0)
        return result == -ENOENT ? 0 : result;
    while ((result = spool_next(reader, &frame, err)) == 1) {
        if (frame.sender != self && spools_mark(spools, &frame) < 0)
            return err_nomem(err);
        result = call(arg, &frame, err);
        if (result)
            return result;
    }
    return result < 0 ? err_wrap(err, result, "%s", dir->log.text) : 0;
}

int run_frames_each(const char *run_dir, run_frames_call *call, void *arg, struct err *err)
{
    CLEAN(run_frames_spools_clean) struct spools *spools = NULL;
    struct rundir dir;
    struct frame frame;
    int result = rundir_open(&dir, run_dir, err);

    if (result == 0 && spools_create(dir.spool.text, NULL, &spools) < 0)
        result = err_nomem(err);
    if (result == 0)
        result = run_frames_log(&dir, spools, call, arg, err);
    if (result == 0)
        result = spools_scan(spools, err);
    while (result == 0 && spools_peek(spools, &frame, NULL) == 1) {
        result = call(arg, &frame, err);
        if (result == 0 && spools_take(spools) < 0)
            result = err_nomem(err);
    }
    return MIN(result, 0);
}
