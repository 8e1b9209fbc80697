/* postmortem.h - what ended a job that lockstep did not observe, from the files of its ranks.
 *
 * Logs: the rank with an error, signal or exit of its own failed first; lost connections and timeouts of other ranks
 * are follow-on errors.  If all ranks only lost a peer, the rank whose log ends without an error is the culprit.
 *
 * Dumps of collectives: a rank is the culprit if others have entered an op of a group that it has not, and its own
 * waiting does not explain that.  A rank that waits in one group because another rank is stuck in another is a
 * victim and never named.  A rank without a dump, or with an empty or damaged one, is a candidate only if others are
 * observed to wait for it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AUTOPSY_POSTMORTEM_H
#define LOCKSTEP_AUTOPSY_POSTMORTEM_H

#include <stdbool.h>
#include <stddef.h>

#include "judge/thresholds.h"
#include "wire/dump.h"
#include "wire/lanes.h"
#include "wire/log_event.h"
#include "wire/tool_report.h"
#include "wire/verdict.h"

#define POSTMORTEM_MAX 32

struct findings {
    const struct thresholds *limits; /* NULL: the defaults */
    struct verdict *verdict;
    size_t count, room; /* room: allocated; POSTMORTEM_MAX at most */
    bool well;          /* enough was seen to say that nothing is wrong, were there no verdict */
    struct verdict_line mention; /* no cause: a line of a log with words of an error; "" : none */
    int64_t from_real_ns, until_real_ns; /* the job was at work, by what it left; 0: not known */
};

/* Adds what the dumps show.  -ENOMEM. */
int postmortem_dumps(const struct dumps *dumps, const char *run, struct findings *findings);
/* Then what logs say: who ended by an error of its own, everyone else's error being an echo.  What they say
 * about a rank that the dumps name becomes evidence of that verdict.
 */
int postmortem_logs(const struct logs *logs, const char *run, struct findings *findings);
/* What other tools report about ranks and devices: evidence of a hang that the dumps show, else a verdict. */
int postmortem_reports(const struct reports *reports, const char *run, struct findings *findings);
/* And who was slow, by profiler traces. */
int postmortem_lanes(const struct lanes *lanes, const char *run, struct findings *findings);

struct postmortem_watched { /* a run of our own */
    const char *run;
    const struct logprocess *process;
    struct verdict
        *verdict; /* as it was said while it ran; changed where a kernel's log says why */
    size_t processes, verdicts;
};
/* What kernel logs say about its processes and nodes.  Where nothing else was said, a device that failed
 * under one of its processes becomes a verdict.  -ENOMEM.
 */
int postmortem_kernel(const struct postmortem_watched *watched, const struct logs *logs,
                      struct findings *findings);

/* A verdict to fill; NULL: no memory, or too many. */
struct verdict *findings_add(struct findings *findings, const char *run, unsigned kind,
                             unsigned layer);
void findings_fini(struct findings *findings);

#endif
