/* run_slurm.c - what `lockstep run` takes from Slurm, and asks of it.
 *
 * Everything here is done with the rights of the user.  Options that are given count more than what Slurm says.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cmd/run_slurm.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "core/clean.h"
#include "core/time.h"
#include "slurm/slurm_call.h"
#include "slurm/slurm_requeue.h"

#define SLURM_ASK_NS (3 * NS_PER_S)
#define SLURM_START_S 5 /* after a requeue: until then all launchers must have ended */

void run_slurm_init(struct run_slurm *slurm)
{
    slurm->here = slurm_place_read(&slurm->place);
    if (slurm->here)
        slurm_place_name(&slurm->place, slurm->name);
}

bool run_slurm_is_crew(const struct run_slurm *slurm)
{
    return slurm->here && slurm->place.in_step && slurm->place.nodes > 1 &&
           slurm->place.local_tasks == 1;
}

int run_slurm_nodes(struct run_slurm *slurm, uint32_t spares, const char **ret, struct err *err)
{
    if (spares >= slurm->place.nodes)
        return err_set(err, -EINVAL, "--spares %u: the step has %u nodes", spares,
                       slurm->place.nodes);
    snprintf(slurm->nodes, sizeof(slurm->nodes), "%u", slurm->place.nodes - spares);
    *ret = slurm->nodes;
    return 0;
}

static void run_slurm_set_time(const char *variable, int64_t real_ns)
{
    char seconds[24];

    snprintf(seconds, sizeof(seconds), "%lld", (long long)(real_ns / NS_PER_S));
    if (real_ns)
        setenv(variable, seconds, 0);
}

/* One node asks, not all: slurmctld serves every user of the site. */
void run_slurm_times(const struct run_slurm *slurm)
{
    struct err err = { "" };
    struct slurm_job job;

    if (!slurm->here || slurm->place.node_number)
        return;
    if (slurm_job_show(slurm->place.job, SLURM_ASK_NS, &job, &err) < 0) {
        if (!getenv("SLURM_JOB_END_TIME"))
            log_error("the end of job %" PRIu64 " is not known to the policy: %s", slurm->place.job,
                      err.text);
        return;
    }
    run_slurm_set_time("LOCKSTEP_JOB_SUBMIT_TIME", job.submit_real_ns);
    run_slurm_set_time("SLURM_JOB_START_TIME", job.start_real_ns);
    run_slurm_set_time("SLURM_JOB_END_TIME", job.end_real_ns);
}

void run_slurm_requeue(const struct run_slurm *slurm, const struct launch_missing *missing,
                       uint32_t most)
{
    const struct slurm_requeue wanted = { .job = slurm->place.job,
                                          .exclude = missing->node,
                                          .exclude_count = missing->count,
                                          .start_s = SLURM_START_S };
    struct err err = { "" }, warning = { "" };

    if (!slurm->here || !missing->count || !most)
        return;
    if (slurm->place.restarts >= most) {
        log_error("job %" PRIu64 " was requeued %u times already and is not requeued again",
                  slurm->place.job, slurm->place.restarts);
        return;
    }
    log_info("requeueing job %" PRIu64 " without %u lost node%s", slurm->place.job, missing->count,
             missing->count == 1 ? "" : "s");
    if (slurm_requeue(&wanted, &warning, &err) < 0)
        log_error("job %" PRIu64 " is not requeued: %s", slurm->place.job, err.text);
    else if (warning.text[0])
        log_error("job %" PRIu64 " was requeued, but %s", slurm->place.job, warning.text);
}
