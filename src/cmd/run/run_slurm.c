/* run_slurm.c - what `lockstep run` takes from Slurm, and asks of it.
 *
 * Everything here is done with the rights of the user.  Options that are given count more than what Slurm says.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cmd/run/run_slurm.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "core/clean.h"
#include "core/time.h"
#include "slurm/slurm_call.h"
#include "slurm/slurm_requeue.h"

#define SLURM_ASK_NS (3 * NS_PER_S)
#define SLURM_PAUSE_NS (2 * NS_PER_S)
#define SLURM_PATIENCE_NS (120 * NS_PER_S)
#define SLURM_HEADLESS_NS (300 * NS_PER_S) /* SlurmdTimeout by default */
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

/* slurmctld may be away for a moment: its second host takes over, or it is restarted. */
static int slurm_requeue_patiently(const struct slurm_requeue *wanted, struct err *warning,
                                   struct err *err)
{
    const struct timespec pause = time_spec(SLURM_PAUSE_NS);
    int64_t until_ns = time_mono_ns() + SLURM_PATIENCE_NS;
    int r;

    while ((r = slurm_requeue(wanted, warning, err)) < 0 && r != -EPERM && r != -EINVAL &&
           r != -ENOENT && time_mono_ns() < until_ns) {
        log_error("job %" PRIu64 " is not requeued yet: %s", wanted->job, err->text);
        nanosleep(&pause, NULL);
    }
    return r;
}

static void slurm_requeue_job(const struct run_slurm *slurm, const struct launch_missing *missing)
{
    const struct slurm_requeue wanted = { .job = slurm->place.job,
                                          .exclude = missing->node,
                                          .exclude_count = missing->count,
                                          .start_s = SLURM_START_S };
    struct err err = { "" }, warning = { "" };

    if (missing->count)
        log_info("requeueing job %" PRIu64 " without %u lost node%s", wanted.job, missing->count,
                 missing->count == 1 ? "" : "s");
    else
        log_info("requeueing job %" PRIu64 ", as the signal asks for", wanted.job);
    if (slurm_requeue_patiently(&wanted, &warning, &err) < 0)
        log_error("job %" PRIu64 " is not requeued: %s", wanted.job, err.text);
    else if (warning.text[0])
        log_error("job %" PRIu64 " was requeued, but %s", wanted.job, warning.text);
}

struct slurm_search {
    const char *name;
    bool found;
};

static bool slurm_search_host(void *arg, const char *name)
{
    struct slurm_search *search = arg;

    search->found |= strcmp(search->name, name) == 0;
    return !search->found;
}

/* Whether Slurm has lost the node with the batch script, too: 1; 0: not, or not yet. */
static int slurm_is_headless(const struct run_slurm *slurm, const struct launch_missing *missing,
                             struct slurm_job *job, struct err *err)
{
    struct slurm_search search = { .name = job->batch_host };
    struct slurm_node node;
    bool ours = false;
    int r = slurm_job_show(slurm->place.job, SLURM_ASK_NS, job, err);

    for (uint32_t i = 0; r == 0 && i < missing->count; i++)
        ours |= strcmp(missing->node[i], job->batch_host) == 0;
    if (r == 0 && (!job->batch || !ours || strcmp(job->state, "RUNNING") != 0))
        return -ENOENT;
    if (r == 0)
        r = slurm_hosts_each(job->hosts, slurm_search_host, &search);
    if (r >= 0 && !search.found)
        return 1;
    if (r >= 0)
        r = slurm_node_show(job->batch_host, SLURM_ASK_NS, &node, err);
    return r < 0 ? 0 : (node.flags & (SLURM_NODE_DOWN | SLURM_NODE_SILENT)) != 0;
}

/* Without its batch script nothing ends the job before its time is over. */
static void slurm_cancel_headless(const struct run_slurm *slurm,
                                  const struct launch_missing *missing)
{
    const struct timespec pause = time_spec(SLURM_PAUSE_NS);
    int64_t until_ns = time_mono_ns() + SLURM_HEADLESS_NS;
    struct slurm_job job = { .id = 0 };
    struct err err = { "" };
    int r;

    while ((r = slurm_is_headless(slurm, missing, &job, &err)) == 0 && time_mono_ns() < until_ns)
        nanosleep(&pause, NULL);
    if (r != 1)
        return;
    log_info("the batch script of job %" PRIu64 " was lost with node %s; cancelling the job",
             slurm->place.job, job.batch_host);
    if (slurm_job_cancel(slurm->place.job, SLURM_ASK_NS, &err) < 0)
        log_error("job %" PRIu64 " keeps its nodes: %s", slurm->place.job, err.text);
}

/* SIGTERM may come from scancel, too: only of a job that is preempted it means another start. */
static bool slurm_signal_requeues(const struct run_slurm *slurm, int number)
{
    struct slurm_job job;

    if (number == SIGUSR1 || number == SIGUSR2)
        return true;
    return slurm_job_show(slurm->place.job, SLURM_ASK_NS, &job, NULL) == 0 && job.preempt_real_ns;
}

void run_slurm_end(const struct run_slurm *slurm, const struct launch_missing *missing, int status,
                   uint32_t most)
{
    bool again;

    if (!slurm->here || !slurm->place.in_step)
        return;
    again = missing->signal ? slurm_signal_requeues(slurm, missing->signal)
                            : status && missing->reports && missing->count;
    if (again && most && slurm->place.restarts >= most)
        log_error("job %" PRIu64 " was requeued %u times already and is not requeued again",
                  slurm->place.job, slurm->place.restarts);
    else if (again && most)
        slurm_requeue_job(slurm, missing);
    else if (missing->reports && missing->count)
        slurm_cancel_headless(slurm, missing);
}
