/* runlog_whole.h - a run's log, read again in one go; a controller does so a little at a time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_TEST_RUNLOG_WHOLE_H
#define LOCKSTEP_CONTROL_TEST_RUNLOG_WHOLE_H

#include "control/log/runlog.h"
#include "core/time.h"

static inline int runlog_open_whole(const struct runlog_settings *settings, struct runlog **ret)
{
    struct runlog *log = NULL;
    int result = runlog_begin(settings, &log, NULL);

    while (result == 0)
        result = runlog_load(log, NS_PER_S, NULL);
    if (result < 0) {
        runlog_close(log);
        return result;
    }
    *ret = log;
    return 0;
}

#endif
