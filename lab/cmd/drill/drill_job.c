/* drill_job.c - faults in a job of this machine that consented, one after the other, and what followed from each.
 *
 * What followed is what 'lockstep why' says; only the times are compared with when the fault was injected.  A fault that
 * cannot be injected into this job is named with the reason, and never counted as passed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/json_member.h"
#include "core/clean.h"
#include "core/rand.h"
#include "core/time.h"
#include "lab/bench/why_child.h"
#include "lab/cmd/drill/drill.h"
#include "lab/cmd/drill/drill_disk.h"
#include "lab/drill/drill_json.h"
#include "lab/drill/drill_target.h"

#define JOB_WHY_S 30.0
#define JOB_LOOK_NS (250 * NS_PER_MS)
#define JOB_SLOW_NS (20 * NS_PER_S)
#define JOB_STEPS 15 /* of each rank, before a fault comes */

#define JOB_FULL_NS (15 * NS_PER_S) /* how long the file system is full */

struct job_view { /* what why says now */
    double steps, attempts, lost_frames;
};

struct job { /* the one that gets a fault */
    const struct drill_settings *settings;
    struct drill_target *target;
    struct drill_flip flip;
    int full;         /* takes all room of a file system; -1: none does */
    int64_t until_ns; /* and so long; 0: it did */
    uint64_t newest;  /* point before that */
};

struct job_fault {
    const char *name, *summary;
    const char *kinds[5];     /* of verdicts that are right; NULL: that it needs none is right */
    double detect_s, again_s; /* bars */
    bool restarts;            /* the job must be started again */
    const char *
        layer; /* NULL, or that of a right verdict, which may name any rank; none and no restart is right, too */
    int (*inject)(struct job *job,
                  struct err *err);   /* fails: it cannot be injected, and is skipped */
    bool (*is_over)(struct job *job); /* NULL: when the job trains */
    const char *not_over;             /* what it means that it never was */
};

/* ---- what is done ---- */

static int job_signal(struct drill_target *target, int number, struct err *err)
{
    int result = 0;

    for (uint32_t i = 0; i < target->victims && result == 0; i++)
        result = proc_signal(&target->victim[i], number);
    return result < 0 ? err_set(err, result, "signal %d: %s", number, strerror(-result)) : 0;
}

static int job_kill(struct job *job, struct err *err)
{
    struct drill_target *target = job->target;
    int result = drill_target_rank(target, target->rank, err);

    return result < 0 ? result : job_signal(target, SIGKILL, err);
}

static int job_stop(struct job *job, struct err *err)
{
    struct drill_target *target = job->target;
    int result = drill_target_rank(target, target->rank, err);

    if (result == 0)
        result = drill_target_guard(target, err);
    return result < 0 ? result : job_signal(target, SIGSTOP, err);
}

static int job_slow(struct job *job, struct err *err)
{
    struct drill_target *target = job->target;
    int result = drill_target_rank(target, target->rank, err);

    if (result == 0)
        result = drill_target_guard(target, err);
    if (result == 0)
        target->until_ns = time_mono_ns() + JOB_SLOW_NS;
    return result;
}

static int job_controller(struct job *job, struct err *err)
{
    int result = drill_target_controller(job->target, err);

    return result < 0 ? result : job_signal(job->target, SIGKILL, err);
}

/* Both stand before either ends, so that none of them ends the ranks in order. */
static int job_node_lost(struct job *job, struct err *err)
{
    int result = drill_target_node(job->target, err);

    if (result == 0)
        result = drill_target_guard(job->target, err);
    if (result == 0)
        result = job_signal(job->target, SIGSTOP, err);
    return result < 0 ? result : job_signal(job->target, SIGKILL, err);
}

/* No right is needed for that, and no other job of the machine is touched. */
static int job_link_cut(struct job *job, struct err *err)
{
    int result = drill_target_link(job->target, err);

    if (result == 0)
        result = drill_target_guard(job->target, err);
    return result < 0 ? result : job_signal(job->target, SIGSTOP, err);
}

static int job_disk_full(struct job *job, struct err *err)
{
    const struct drill_settings *settings = job->settings;
    int result;

    if (!settings->disk || !settings->checkpoints)
        return err_set(
            err, -EINVAL,
            "needs --checkpoints DIR, and --disk DIR of a file system that only this job uses");
    result = drill_disk_newest(settings->checkpoints, &job->newest, err);
    if (result == 0)
        result = drill_disk_fill(settings->disk, &job->full, err);
    if (result == 0)
        job->until_ns = time_mono_ns() + JOB_FULL_NS;
    return result;
}

/* It saves again once there is room. */
static bool job_saves_again(struct job *job)
{
    uint64_t newest = 0;

    if (job->until_ns && time_mono_ns() >= job->until_ns) {
        fd_clean(&job->full);
        job->until_ns = 0;
        drill_disk_newest(job->settings->checkpoints, &job->newest, NULL);
    }
    return !job->until_ns && drill_disk_newest(job->settings->checkpoints, &newest, NULL) == 0 &&
           newest > job->newest;
}

static int job_corrupt(struct job *job, struct err *err)
{
    int result;

    if (!job->settings->checkpoints)
        return err_set(err, -EINVAL, "needs --checkpoints DIR, where the job saves");
    result = drill_target_rank(job->target, job->target->rank, err);
    if (result == 0)
        result = drill_disk_flip(job->settings->checkpoints, &job->flip, err);
    return result < 0 ? result : job_signal(job->target, SIGKILL, err);
}

static bool job_refused_it(struct job *job)
{
    return drill_disk_is_refused(&job->flip);
}

static void job_undo(struct job *job)
{
    drill_target_release(job->target);
    drill_disk_unflip(&job->flip);
    fd_clean(&job->full);
    job->target->until_ns = 0;
}

static const struct job_fault job_faults[] = {
    { .name = "rank-killed",
      .summary = "SIGKILL to a rank",
      .kinds = { "crash" },
      .detect_s = 10,
      .again_s = 30,
      .restarts = true,
      .inject = job_kill },
    { .name = "rank-stopped",
      .summary = "SIGSTOP to a rank",
      .kinds = { "hang" },
      .detect_s = 30,
      .again_s = 45,
      .restarts = true,
      .inject = job_stop },
    { .name = "rank-slowed",
      .summary = "a rank is stopped for 60 of each 100 ms, for 20 s",
      .kinds = { "straggler", "input-stall", "sync-stall" },
      .detect_s = 15,
      .again_s = 30,
      .inject = job_slow },
    { .name = "controller-killed",
      .summary = "SIGKILL to the controller of the run",
      .again_s = 30,
      .inject = job_controller },
    { .name = "node-lost",
      .summary = "SIGKILL to launcher and keeper of a node, which ends its ranks; a spare waits",
      .kinds = { "crash", "node-fault" },
      .detect_s = 10,
      .again_s = 30,
      .restarts = true,
      .inject = job_node_lost },
    { .name = "link-cut",
      .summary = "SIGSTOP to what connects a node to the controller; a spare waits",
      .kinds = { "crash", "node-fault" },
      .detect_s = 15,
      .again_s = 45,
      .restarts = true,
      .inject = job_link_cut },
    { .name = "disk-full",
      .summary = "no room under the checkpoints for 15 s (--disk, --checkpoints)",
      .kinds = { "crash", "checkpoint-stall" },
      .layer = "storage",
      .detect_s = 20,
      .again_s = 60,
      .inject = job_disk_full,
      .is_over = job_saves_again,
      .not_over = "no checkpoint was saved when there was room again" },
    { .name = "checkpoint-corrupted",
      .summary =
          "a bit of the newest checkpoint is flipped, then a rank gets SIGKILL (--checkpoints)",
      .kinds = { "crash" },
      .detect_s = 10,
      .again_s = 30,
      .restarts = true,
      .inject = job_corrupt,
      .is_over = job_refused_it,
      .not_over = "the damaged checkpoint was not refused" },
};

void drill_job_list(FILE *out)
{
    for (size_t i = 0; i < COUNT(job_faults); i++) {
        const struct job_fault *fault = &job_faults[i];

        fprintf(out, "%-20s %s\n", fault->name, fault->summary);
        if (fault->kinds[0])
            fprintf(out, "%-20s bars: verdict %s after %.0f s, over after %.0f s\n", "",
                    fault->kinds[0], fault->detect_s, fault->again_s);
        else
            fprintf(out, "%-20s bars: no verdict, no restart, training observed after %.0f s\n", "",
                    fault->again_s);
    }
}

/* ---- what follows ---- */

static int job_why(const struct drill_target *target, struct why_child *ret, struct job_view *view,
                   struct err *err)
{
    struct json_object *counts;
    int result = why_child_run(target->directory.text, JOB_WHY_S, ret, err);

    if (result < 0)
        return result;
    counts = json_member(ret->answer, "counts", json_type_object);
    if (!counts)
        return err_set(err, -ENODATA, "lockstep why says nothing of the run");
    *view = (struct job_view){ .steps = drill_json_number(counts, "steps"),
                               .attempts = drill_json_number(counts, "attempts"),
                               .lost_frames = drill_json_number(counts, "lost_frames") };
    return 0;
}

static void job_pause(struct drill_target *target)
{
    struct timespec stopped = time_spec(60 * NS_PER_MS), let_go = time_spec(40 * NS_PER_MS),
                    look = time_spec(JOB_LOOK_NS);

    if (target->until_ns < time_mono_ns()) {
        nanosleep(&look, NULL);
        return;
    }
    for (int64_t until_ns = time_mono_ns() + 2 * NS_PER_S; time_mono_ns() < until_ns;) {
        proc_signal(&target->victim[0], SIGSTOP);
        nanosleep(&stopped, NULL);
        proc_signal(&target->victim[0], SIGCONT);
        nanosleep(&let_go, NULL);
    }
}

/* The job trains: each rank has made some steps since it was asked first. */
static int job_trains(struct drill_target *target, int64_t wait_ns, struct job_view *view,
                      struct err *err)
{
    int64_t until_ns = time_mono_ns() + wait_ns;
    double begun = -1, attempts = -1;

    while (time_mono_ns() < until_ns) {
        CLEAN(why_child_fini) struct why_child why = { 0 };
        int result = job_why(target, &why, view, err);

        if (result < 0)
            return result;
        if (begun < 0 || view->attempts > attempts)
            begun = view->steps;
        attempts = view->attempts;
        if (view->steps >= begun + (double)JOB_STEPS * target->ranks)
            return 0;
        if (!drill_target_lives(target))
            return err_set(err, -ESRCH, "the run is over");
        job_pause(target);
    }
    return err_set(err, -ETIME, "the job did not train in %.0f s", (double)wait_ns / 1e9);
}

static bool job_is_right(const struct job_fault *fault, struct json_object *verdict, uint32_t rank)
{
    bool of_layer = fault->layer && strcmp(drill_json_text(verdict, "layer"), fault->layer) == 0;
    struct json_object *ranks = json_member(verdict, "ranks", json_type_array);
    bool kind = false, named = false;

    for (size_t i = 0; i < COUNT(fault->kinds) && fault->kinds[i]; i++)
        kind |= strcmp(drill_json_text(verdict, "kind"), fault->kinds[i]) == 0;
    for (size_t i = 0; ranks && i < json_object_array_length(ranks); i++)
        named |= (uint32_t)json_object_get_int64(json_object_array_get_idx(ranks, i)) == rank;
    return kind && (fault->layer ? of_layer : named);
}

/* The first verdict since then that is right; where none is, the first. */
static void job_verdict(const struct job_fault *fault, const struct drill_target *target,
                        struct json_object *why, double since_s, struct drill_fault *ret)
{
    struct json_object *list = json_member(why, "verdicts", json_type_array);

    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        struct json_object *one = json_object_array_get_idx(list, i);
        double at_s = drill_json_time_s(one, "decided_time") - since_s;
        bool right = fault->kinds[0] && job_is_right(fault, one, target->rank);

        if (at_s < 0 || (ret->verdict[0] && !right) || ret->right)
            continue;
        snprintf(ret->verdict, sizeof(ret->verdict), "%s: %s (%s)", drill_json_text(one, "kind"),
                 drill_json_text(one, "cause"), drill_json_text(one, "layer"));
        ret->detected_s = at_s;
        ret->right = right;
        list = right ? NULL : list;
    }
}

/* "...; 22 complete steps after it are lost" */
static int64_t job_lost_steps(struct json_object *why, double since_s)
{
    struct json_object *list = json_member(why, "verdicts", json_type_array);

    for (size_t i = 0; list && i < json_object_array_length(list); i++) {
        struct json_object *one = json_object_array_get_idx(list, i);
        struct json_object *lines = json_member(one, "because", json_type_array);

        for (size_t k = 0; lines && drill_json_time_s(one, "decided_time") >= since_s &&
                           k < json_object_array_length(lines);
             k++) {
            const char *what = drill_json_text(json_object_array_get_idx(lines, k), "what"),
                       *lost = strstr(what, "; ");
            long long steps;

            if (lost && strstr(lost, "are lost") && sscanf(lost, "; %lld", &steps) == 1)
                return steps;
        }
    }
    return -1;
}

/* The job goes on as if nothing were. */
static bool job_is_quiet(const struct job_fault *fault, const struct job_view *before,
                         const struct job_view *now)
{
    return fault->layer && now->attempts <= before->attempts;
}

/* Follows the run until the fault is over, or for too long. */
static int job_follow(const struct job_fault *fault, struct job *job, const struct job_view *before,
                      struct drill_fault *ret, struct err *err)
{
    struct drill_target *target = job->target;
    int64_t wait_ns = job->settings->wait_ns;
    bool over = !fault->is_over;
    double since_s = (double)time_real_ns() / 1e9 - 0.05, ranks = target->ranks;
    double enough = before->steps + JOB_STEPS * ranks;
    int64_t since_ns = time_mono_ns();
    struct job_view now = *before;

    while (time_mono_ns() - since_ns < wait_ns && isnan(ret->recovered_s)) {
        CLEAN(why_child_fini) struct why_child why = { 0 };
        double attempts = now.attempts;
        int result;

        job_pause(target);
        result = job_why(target, &why, &now, err);
        if (result < 0)
            return result;
        if (now.attempts > attempts) /* from here a step of each rank shall be seen */
            enough = now.steps + ranks;
        job_verdict(fault, target, why.answer, since_s, ret);
        if (!over)
            over = fault->is_over(job);
        if (over && now.steps >= enough && (now.attempts > before->attempts || !fault->restarts) &&
            (ret->right || !fault->kinds[0] || job_is_quiet(fault, before, &now))) {
            ret->recovered_s = (double)(time_mono_ns() - since_ns) / 1e9;
            ret->lost_steps = fault->restarts ? job_lost_steps(why.answer, since_s) : 0;
        } else if (!drill_target_lives(target)) {
            return err_set(err, -ESRCH, "the run ended");
        }
    }
    if (!over)
        snprintf(ret->why, sizeof(ret->why), "%s", fault->not_over);
    if (!fault->kinds[0] || (!ret->right && job_is_quiet(fault, before, &now))) {
        ret->right = now.attempts <= before->attempts && now.lost_frames <= before->lost_frames;
        ret->verdict[0] = '\0'; /* of other things */
        ret->detected_s = NAN;
    }
    return 0;
}

static void job_score(const struct job_fault *fault, struct drill_fault *ret)
{
    bool again = isfinite(ret->recovered_s);
    const char *why = "";

    if (ret->why[0])
        return;
    if (!ret->right)
        why = fault->kinds[0] ? "no right verdict" : "the job was restarted, or facts were lost";
    else if (ret->verdict[0] && !(ret->detected_s <= fault->detect_s))
        why = "the verdict came too late";
    else if (!again)
        why = "the job did not train again";
    else if (ret->recovered_s > fault->again_s)
        why = "the job trained again too late";
    ret->passed = !why[0];
    snprintf(ret->why, sizeof(ret->why), "%s", why);
}

static void job_skip(struct drill_fault *ret, const char *why)
{
    ret->skipped = true;
    snprintf(ret->why, sizeof(ret->why), "%.190s", why);
}

static int job_inject(const struct job_fault *fault, struct job *job, struct drill_fault *ret,
                      struct err *err)
{
    struct drill_target *target = job->target;
    struct job_view before;
    int result = job_trains(target, job->settings->wait_ns, &before, err);

    if (result == 0)
        result = drill_target_look(target, err);
    if (result < 0)
        return result;
    if (fault->restarts && target->file.restarts >= target->file.max_restarts) {
        job_skip(ret, "needs a restart, and none is left (--max-restarts)");
        return 0;
    }
    target->rank %= MAX(target->ranks, 1u);
    if (fault->inject(job, err) < 0) {
        job_undo(job);
        job_skip(ret, err->text);
        return 0;
    }
    result = job_follow(fault, job, &before, ret, err);
    job_undo(job);
    job_score(fault, ret);
    return result;
}

/* ---- the card ---- */

static void job_row(const struct drill_fault *fault, struct drill_section *section)
{
    char detected[32] = "not detected", again[64] = "does not train again", lost[40] = "";

    if (fault->skipped) {
        drill_row_add(section, DRILL_SKIPPED, fault->name, "", "%s", fault->why);
        return;
    }
    if (isfinite(fault->detected_s))
        snprintf(detected, sizeof(detected), "after %.2f s", fault->detected_s);
    if (isfinite(fault->recovered_s))
        snprintf(again, sizeof(again), "trains as before after %.1f s", fault->recovered_s);
    if (fault->lost_steps > 0)
        snprintf(lost, sizeof(lost), ", %lld steps lost", (long long)fault->lost_steps);
    drill_row_add(section, fault->passed ? DRILL_PASSED : DRILL_MISSED, fault->name, "lockstep why",
                  "%s %s; %s%s%s%s", fault->verdict[0] ? fault->verdict : "no verdict",
                  fault->verdict[0] ? detected : "", again, lost, fault->why[0] ? ": " : "",
                  fault->why);
}

static bool job_is_wanted(const struct drill_settings *settings, const char *name)
{
    for (unsigned i = 0; i < settings->faults.count; i++) {
        if (strcmp(settings->faults.item[i], name) == 0)
            return true;
    }
    return !settings->faults.count;
}

static int job_check_names(const struct drill_settings *settings, struct err *err)
{
    for (unsigned i = 0; i < settings->faults.count; i++) {
        bool known = false;

        for (size_t k = 0; k < COUNT(job_faults); k++)
            known |= strcmp(settings->faults.item[i], job_faults[k].name) == 0;
        if (!known)
            return err_set(err, -EINVAL, "--fault %s: no such fault, see --list-faults",
                           settings->faults.item[i]);
    }
    return 0;
}

int drill_job(const struct drill_settings *settings, const char *run, struct drill_page *ret,
              struct err *err)
{
    CLEAN(drill_target_close) struct drill_target target = { 0 };
    struct job job = { .settings = settings, .target = &target, .full = -1 };
    struct rand rand = { .state = settings->seed };
    size_t order[COUNT(job_faults)];
    struct drill_section *section;
    int result = job_check_names(settings, err);

    if (result == 0)
        result = drill_target_open(run, &target, err);
    if (result < 0)
        return result;
    snprintf(ret->title, sizeof(ret->title), "drill of run %s, %u ranks, seed %llu", target.file.id,
             target.ranks, (unsigned long long)settings->seed);
    section = drill_section_add(ret, "faults");
    for (size_t i = 0; i < COUNT(order); i++) {
        size_t at = rand_below(&rand, (uint32_t)i + 1);

        order[i] = order[at];
        order[at] = i;
    }
    for (size_t i = 0; i < COUNT(order); i++) {
        const struct job_fault *fault = &job_faults[order[i]];
        struct drill_fault *seen =
            job_is_wanted(settings, fault->name) ? drill_fault_add(ret, fault->name) : NULL;

        if (!seen)
            continue;
        target.rank = rand_below(&rand, MAX(target.ranks, 1u));
        if (result == 0)
            result = job_inject(fault, &job, seen, err);
        if (result < 0) {
            seen->skipped = isnan(seen->detected_s) && !seen->passed && !fault->inject;
            snprintf(seen->why, sizeof(seen->why), "%.190s", err->text);
        }
        job_row(seen, section);
    }
    return 0;
}
