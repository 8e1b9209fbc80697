/* slurm_requeue.c - requeues the own batch job.
 *
 * First the allocation is reduced to the nodes that are left: a job that completes waits for every node that it has, and one that is
 * dead answers only when slurmctld gives it up (SlurmdTimeout).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "slurm/slurm_requeue.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/clean.h"
#include "slurm/slurm_call.h"
#include "slurm/slurm_text.h"

#define REQUEUE_CALL_NS (5 * NS_PER_S)

struct requeue_list {
    const struct slurm_requeue *wanted;
    char text[SLURM_HOSTS];
    size_t count;
    bool full;
};

static bool requeue_list_add(struct requeue_list *list, const char *name)
{
    size_t used = strlen(list->text);
    int size =
        snprintf(list->text + used, sizeof(list->text) - used, "%s%s", used ? "," : "", name);

    list->full |= size < 0 || (size_t)size >= sizeof(list->text) - used;
    list->count++;
    return !list->full;
}

static bool requeue_excludes(const struct slurm_requeue *wanted, const char *name)
{
    for (uint32_t i = 0; i < wanted->exclude_count; i++) {
        if (strcmp(wanted->exclude[i], name) == 0)
            return true;
    }
    return false;
}

static bool requeue_list_left(void *arg, const char *name)
{
    struct requeue_list *list = arg;

    return requeue_excludes(list->wanted, name) || requeue_list_add(list, name);
}

static int requeue_check(const struct slurm_requeue *wanted, const struct slurm_job *job,
                         struct err *err)
{
    if (job->user != getuid())
        return err_set(err, -EPERM, "job %llu belongs to user %u", (unsigned long long)wanted->job,
                       job->user);
    if (!job->batch)
        return err_set(err, -EINVAL, "job %llu has no batch script and cannot be requeued",
                       (unsigned long long)wanted->job);
    if (!job->requeue)
        return err_set(err, -EINVAL, "job %llu was submitted with --no-requeue",
                       (unsigned long long)wanted->job);
    if (strcmp(job->state, "RUNNING") != 0)
        return err_set(err, -EINVAL, "job %llu is %s", (unsigned long long)wanted->job, job->state);
    for (uint32_t i = 0; i < wanted->exclude_count; i++) {
        if (!slurm_is_node_name(wanted->exclude[i]))
            return err_set(err, -EINVAL, "'%.60s' is no name of a node", wanted->exclude[i]);
    }
    return 0;
}

/* To the nodes that are left.  It may fail, as where job sizes are fixed: then Slurm waits for the dead ones itself. */
static bool requeue_shrink(const struct slurm_requeue *wanted, const struct slurm_job *job,
                           struct err *warning)
{
    struct requeue_list left = { .wanted = wanted };
    char change[SLURM_HOSTS + 16];
    const char *const words[] = { change, NULL };
    struct err err = { "" };
    int all = slurm_hosts_each(job->hosts, requeue_list_left, &left);

    if (all < 0 || left.full || !left.count || left.count == (size_t)all)
        return false;
    snprintf(change, sizeof(change), "NodeList=%s", left.text);
    if (slurm_job_update(wanted->job, words, REQUEUE_CALL_NS, &err) == 0)
        return true;
    err_set(warning, 0, "the lost nodes stay in the job until Slurm gives them up: %s", err.text);
    return false;
}

static int requeue_order(uint64_t job, struct err *err)
{
    char number[32];
    char scontrol[] = "scontrol", requeue[] = "requeue";
    char *const argv[] = { scontrol, requeue, number, NULL };

    snprintf(number, sizeof(number), "%llu", (unsigned long long)job);
    return slurm_call(argv, REQUEUE_CALL_NS, NULL, err);
}

/* Whether its user named one of the nodes: without that one it would never start. */
static bool requeue_is_named(const struct slurm_requeue *wanted, const struct slurm_job *job)
{
    struct requeue_list left = { .wanted = wanted };

    return slurm_hosts_each(job->requested, requeue_list_left, &left) != (int)left.count;
}

/* One call each: where Slurm refuses one, the other still holds. */
static void requeue_change(const struct slurm_requeue *wanted, const struct slurm_job *job,
                           bool shrunk, struct err *warning)
{
    struct requeue_list out = { .wanted = wanted };
    char exclude[SLURM_HOSTS + 16], start[48], size[32];
    const char *const excluding[] = { exclude, NULL }, *const starting[] = { start, NULL };
    const char *const sizing[] = { size, NULL };
    struct err err = { "" };

    if (job->excluded[0])
        requeue_list_add(&out, job->excluded);
    for (uint32_t i = 0; i < wanted->exclude_count; i++)
        requeue_list_add(&out, wanted->exclude[i]);
    snprintf(exclude, sizeof(exclude), "ExcNodeList=%s", out.text);
    snprintf(start, sizeof(start), "StartTime=now+%useconds", wanted->start_s);
    if (slurm_job_update(wanted->job, starting, REQUEUE_CALL_NS, &err) < 0)
        err_set(warning, 0, "the job is held for two minutes: %s", err.text);
    snprintf(size, sizeof(size), "NumNodes=%u", job->nodes); /* it was reduced */
    if (shrunk && slurm_job_update(wanted->job, sizing, REQUEUE_CALL_NS, &err) < 0)
        err_set(warning, 0, "it asks for fewer nodes now: %s", err.text);
    if (requeue_is_named(wanted, job))
        err_set(warning, 0, "the lost nodes are not excluded: the job names one of them");
    else if (out.count && !out.full &&
             slurm_job_update(wanted->job, excluding, REQUEUE_CALL_NS, &err) < 0)
        err_set(warning, 0, "the lost nodes are not excluded: %s", err.text);
}

int slurm_requeue(const struct slurm_requeue *wanted, struct err *ret_warning, struct err *err)
{
    struct slurm_job job;
    sigset_t signals, before;
    bool shrunk;
    int r = slurm_job_show(wanted->job, REQUEUE_CALL_NS, &job, err);

    ret_warning->text[0] = '\0';
    if (r == 0)
        r = requeue_check(wanted, &job, err);
    if (r < 0)
        return r;
    /* Slurm ends this process, too; there is time for the last two calls before it is killed. */
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, &before);
    shrunk = requeue_shrink(wanted, &job, ret_warning);
    r = requeue_order(wanted->job, err);
    if (r == 0)
        requeue_change(wanted, &job, shrunk, ret_warning);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return r;
}
