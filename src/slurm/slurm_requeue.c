/* slurm_requeue.c - requeues the own batch job.
 *
 * First the allocation is reduced to the nodes that are left: a job that completes waits for every node that it has, and one that is
 * dead answers only when slurmctld gives it up (SlurmdTimeout).
 *
 * Slurm holds a requeued job for two minutes unless it gets another start time.  It takes one only after the job was requeued, lets the
 * caller wait until all processes of the job have ended, this one too, and gives up after 5 s.  So one scontrol sends both, and is not
 * waited for: slurmctld has the second then, and carries it out when the job has ended.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "slurm/slurm_requeue.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/text.h"
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

/* Whether its user named one of the nodes: without that one it would never start. */
static bool requeue_is_named(const struct slurm_requeue *wanted, const struct slurm_job *job)
{
    struct requeue_list left = { .wanted = wanted };

    return slurm_hosts_each(job->requested, requeue_list_left, &left) != (int)left.count;
}

static void requeue_lines(const struct slurm_requeue *wanted, const struct slurm_job *job,
                          bool shrunk, char *ret, size_t room)
{
    unsigned long long id = (unsigned long long)wanted->job;
    struct requeue_list out = { .wanted = wanted };
    char size[64] = "";
    bool excludes;

    if (job->excluded[0])
        requeue_list_add(&out, job->excluded);
    for (uint32_t i = 0; i < wanted->exclude_count; i++)
        requeue_list_add(&out, wanted->exclude[i]);
    excludes = wanted->exclude_count && !out.full && !requeue_is_named(wanted, job);
    if (shrunk) /* as it was */
        snprintf(size, sizeof(size), " NumNodes=%u", job->nodes);
    snprintf(ret, room, "requeue %llu\nupdate JobId=%llu StartTime=now+%useconds%s%s%s\n", id, id,
             wanted->start_s, size, excludes ? " ExcNodeList=" : "", excludes ? out.text : "");
}

/* The line of scontrol's output that says what is wrong; "": none does. */
static void requeue_complaint(struct slurm_answer *answer, char *ret, size_t room)
{
    const char *line = answer->text, *end = line + answer->size;

    ret[0] = '\0';
    for (size_t size; line < end && !ret[0]; line += size + (line + size < end)) {
        size = strcspn(line, "\n");
        if (size && strncmp(line, "scontrol:", 9) != 0) {
            char *at = answer->text + (line - answer->text);
            size_t clean = text_clean(at, size, false);

            text_shorten(at, clean, ret, room);
        }
    }
}

/* All by one scontrol: the job ends because of the first line, and this process with it. */
static int requeue_order(const struct slurm_requeue *wanted, const struct slurm_job *job,
                         bool shrunk, struct err *warning, struct err *err)
{
    CLEAN(free_clean) struct slurm_answer *answer = malloc(sizeof(*answer));
    char lines[2 * SLURM_HOSTS], words[160];
    struct err why = { "" };
    struct slurm_job now;
    int r;

    if (!answer)
        return err_nomem(err);
    requeue_lines(wanted, job, shrunk, lines, sizeof(lines));
    r = slurm_control(lines, REQUEUE_CALL_NS, answer, &why);
    requeue_complaint(answer, words, sizeof(words));
    if (r == 0 && !words[0])
        return 0;
    if (!words[0])
        snprintf(words, sizeof(words), "%.159s", why.text);
    if ((r < 0 && r != -EIO) || slurm_job_show(wanted->job, REQUEUE_CALL_NS, &now, err) < 0 ||
        strcmp(now.state, "RUNNING") == 0)
        return err_set(err, r < 0 ? r : -EIO, "%s", words);
    err_set(warning, 0, "not all went as wanted: %s", words);
    return 0;
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
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, &before);
    shrunk = requeue_shrink(wanted, &job, ret_warning);
    r = requeue_order(wanted, &job, shrunk, ret_warning, err);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return r;
}
