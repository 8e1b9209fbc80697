/* run_summary.c - one run as text and as JSON.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "show/run_summary.h"

#include <inttypes.h>
#include <string.h>

#include "core/clean.h"
#include "show/ledger_view.h"
#include "show/verdict_view.h"

static const char *const sources[] = {
    [RUN_SUMMARY_LOG] = "log",
    [RUN_SUMMARY_SPOOLS] = "spools",
    [RUN_SUMMARY_LOG_SPOOLS] = "log and spools",
};

#define LOST_SHARE 0.1      /* of the time since start-up: so much needs a cause */
#define LOST_LEAST_STEPS 20 /* a few steps say little */
#define LOST_LONG_SECONDS                                                                          \
    60 /* before that, the end of a process is a large part of what is in no step */

/* Buckets in which time goes to a fault, were there one. */
static bool summary_is_lost(const struct ledger *ledger, int bucket)
{
    switch (bucket) {
    case LEDGER_STRAGGLER_WAIT:
    case LEDGER_INPUT:
    case LEDGER_HANG:
    case LEDGER_RESTART:
    case LEDGER_LOST:
        return true;
    case LEDGER_UNATTRIBUTED:
        return ledger->wall_seconds > LOST_LONG_SECONDS;
    default:
        return false;
    }
}

/* What went to no fault that was found, of the time since start-up; 0: less than a tenth, or there are verdicts. */
static double run_summary_lost_share(const struct run_summary *summary)
{
    const struct ledger *ledger = &summary->ledger;
    double lost = 0, all = 0;

    if (!summary->has_ledger || summary->verdicts || ledger->steps < LOST_LEAST_STEPS)
        return 0;
    for (int bucket = 0; bucket < LEDGER_BUCKETS; bucket++) {
        if (bucket != LEDGER_START_UP && bucket != LEDGER_SPARE)
            all += ledger->gpu_seconds[bucket];
        if (summary_is_lost(ledger, bucket))
            lost += ledger->gpu_seconds[bucket];
    }
    return lost > LOST_SHARE * all ? lost / all : 0;
}

/* Seconds for which no rank advanced, to the end that somebody else caused or to now; 0: not so, or a verdict explains it. */
static double run_summary_standstill(const struct run_summary *summary)
{
    bool by_itself = summary->ended && !summary->stopped;

    return summary->verdicts || by_itself ? 0 : (double)summary->still_ns / 1e9;
}

/* A step that never ended, of ranks that did, is not seen to have been one. */
static bool summary_has_steps(const struct run_summary *summary)
{
    return summary->steps > (summary->alive ? 0 : summary->unfinished_steps);
}

int run_summary_exit(const struct run_summary *summary)
{
    if (summary->verdicts || (summary->ended && summary->reason[0]))
        return 1;
    return summary_has_steps(summary) && !run_summary_unexplained(summary) &&
                   run_summary_lost_share(summary) == 0 && run_summary_standstill(summary) == 0
               ? 0
               : 3;
}

/* Verdicts about why ranks end; one that is over, since training went on, does not say why it ended later. */
static bool summary_explains_end(const struct verdict *verdict)
{
    return verdict->until_real_ns == 0 &&
           (verdict->kind == VERDICT_CRASH || verdict->kind == VERDICT_HANG ||
            verdict->kind == VERDICT_DESYNC);
}

bool run_summary_unexplained(const struct run_summary *summary)
{
    bool explained = summary->ended ? summary->status == 0 || summary->stopped || summary->reason[0]
                                    : summary->alive || !summary->launched;

    for (size_t i = 0; i < summary->verdicts && !explained; i++)
        explained = summary_explains_end(&summary->verdict[i]);
    return !explained;
}

static struct json_object *summary_verdicts_json(const struct run_summary *summary)
{
    struct json_object *list = json_object_new_array();

    for (size_t i = 0; i < summary->verdicts; i++)
        json_object_array_add(list, verdict_json(&summary->verdict[i]));
    return list;
}

static double summary_parts_total(const struct run_summary_parts *parts)
{
    return parts->detect_s + parts->decide_s + parts->stop_s + parts->start_s + parts->init_s +
           parts->first_step_s;
}

/* null: not known */
static struct json_object *summary_parts_json(const struct run_summary_parts *parts)
{
    struct json_object *root = json_object_new_object();

    json_object_object_add(root, "detect_s", show_number(parts->detect_s));
    json_object_object_add(root, "decide_s", show_number(parts->decide_s));
    json_object_object_add(root, "stop_s", show_number(parts->stop_s));
    json_object_object_add(root, "start_s", show_number(parts->start_s));
    json_object_object_add(root, "init_s", parts->known ? show_number(parts->init_s) : NULL);
    json_object_object_add(root, "first_step_s",
                           parts->known ? show_number(parts->first_step_s) : NULL);
    json_object_object_add(root, "total_s",
                           parts->known ? show_number(summary_parts_total(parts)) : NULL);
    return root;
}

static struct json_object *summary_restarts_json(const struct run_summary *summary)
{
    struct json_object *list = json_object_new_array();

    for (uint32_t i = 0; i < MIN(summary->restarts, RUN_SUMMARY_RESTARTS); i++) {
        const struct run_summary_restart *restart = &summary->restart[i];
        struct json_object *one = json_object_new_object();

        json_object_object_add(one, "attempt", json_object_new_int64(restart->attempt));
        json_object_object_add(
            one, "culprit", restart->culprit < 0 ? NULL : json_object_new_int64(restart->culprit));
        json_object_object_add(one, "status", json_object_new_int64(restart->status));
        json_object_object_add(one, "why", show_string(restart->text));
        json_object_object_add(one, "parts", summary_parts_json(&restart->parts));
        json_object_array_add(list, one);
    }
    return list;
}

static struct json_object *summary_decisions_json(const struct run_summary *summary)
{
    struct json_object *list = json_object_new_array();

    for (uint32_t i = 0; i < MIN(summary->decisions, RUN_SUMMARY_DECISIONS); i++) {
        const struct run_summary_decision *decision = &summary->decision[i];
        struct json_object *one = json_object_new_object();

        json_object_object_add(one, "id", show_string(decision->id));
        json_object_object_add(one, "answers", show_string_or_null(decision->of));
        json_object_object_add(one, "action",
                               json_object_new_string(action_name(decision->action)));
        json_object_object_add(one, "state",
                               json_object_new_string(decision_state_name(decision->state)));
        json_object_object_add(one, "outcome", outcome_tally_json(&decision->done));
        json_object_object_add(one, "decided_time", show_time(decision->decided_real_ns));
        json_object_object_add(one, "saves_gpu_seconds", show_number(decision->saves_gpu_seconds));
        json_object_object_add(one, "costs_gpu_seconds", show_number(decision->costs_gpu_seconds));
        json_object_object_add(one, "why", show_string(decision->why));
        json_object_array_add(list, one);
    }
    return list;
}

static struct json_object *summary_copy_seconds(uint64_t us)
{
    return us ? show_number((double)us / 1e6) : NULL;
}

/* null: no copy was noted; a number that is null: no such copy */
static struct json_object *summary_copied_json(const struct copy_note *copied)
{
    struct json_object *root;

    if (!copied->replicate_us && !copied->upload_us)
        return NULL;
    root = json_object_new_object();
    json_object_object_add(root, "step", json_object_new_uint64(copied->step));
    json_object_object_add(root, "replicate_seconds", summary_copy_seconds(copied->replicate_us));
    json_object_object_add(root, "upload_seconds", summary_copy_seconds(copied->upload_us));
    return root;
}

/* null: the ranks reported no save that all of them read back */
static struct json_object *summary_checkpoint_json(const struct run_summary *summary)
{
    const struct run_summary_save *save = &summary->save;
    struct json_object *root;

    if (!save->ranks)
        return NULL;
    root = json_object_new_object();
    json_object_object_add(root, "step", json_object_new_uint64(save->step));
    json_object_object_add(root, "bytes", json_object_new_uint64(save->bytes));
    json_object_object_add(root, "write_seconds", show_number((double)save->write_us / 1e6));
    json_object_object_add(root, "verify_seconds", show_number((double)save->verify_us / 1e6));
    json_object_object_add(root, "copied", summary_copied_json(&summary->copied));
    return root;
}

static struct json_object *summary_counts_json(const struct run_summary *summary)
{
    const struct {
        const char *name;
        uint64_t count;
    } counts[] = {
        { "frames", summary->frames },
        { "steps", summary->steps },
        { "beats", summary->beats },
        { "notes", summary->notes },
        { "exits", summary->exits },
        { "ticks", summary->ticks },
        { "ranks", summary->ranks },
        { "ranks_seen", summary->ranks_seen },
        { "attempts", summary->attempts },
        { "restarts", summary->restarts },
        { "gap_records", summary->gap_records },
        { "gap_steps", summary->gap_steps },
        { "merged_steps", summary->merged_steps },
        { "bare_steps", summary->bare_steps },
        { "torn_steps", summary->torn_steps },
        { "untimed_steps", summary->untimed_steps },
        { "unfinished_steps", summary->unfinished_steps },
        { "old_steps", summary->old_steps },
        { "unfit_steps", summary->ledger.unfit_steps },
        { "lost_frames", summary->lost_frames },
        { "damaged_bytes", summary->damaged_bytes },
        { "malformed", summary->malformed },
    };
    struct json_object *root = json_object_new_object();

    for (size_t i = 0; i < COUNT(counts); i++)
        json_object_object_add(root, counts[i].name, json_object_new_uint64(counts[i].count));
    return root;
}

/* "running", "ended", RUN_SUMMARY_LEFT or RUN_SUMMARY_KILLED */
static const char *run_summary_state(const struct run_summary *summary)
{
    if (summary->ended)
        return "ended";
    if (summary->closed)
        return RUN_SUMMARY_LEFT;
    return summary->alive ? "running" : RUN_SUMMARY_KILLED;
}

static struct json_object *summary_environment_json(const struct run_summary *summary)
{
    const struct environment_differences *ranks = &summary->rank_environments;
    const struct environment_differences *attempts = &summary->attempt_environments;
    struct json_object *root = json_object_new_object();

    json_object_object_add(root, "ranks", json_object_new_int64(ranks->ranks));
    json_object_object_add(root, "difference_count", json_object_new_int64(ranks->count));
    json_object_object_add(root, "differences", environment_ranks_json(ranks));
    json_object_object_add(root, "change_count", json_object_new_int64(attempts->count));
    json_object_object_add(root, "changes", environment_changes_json(attempts));
    return root;
}

struct json_object *run_summary_json(const struct run_summary *summary)
{
    struct json_object *root = json_object_new_object();

    json_object_object_add(root, "run", show_string(summary->run));
    json_object_object_add(root, "source", json_object_new_string(sources[summary->source]));
    json_object_object_add(root, "alive", json_object_new_boolean(summary->alive));
    json_object_object_add(root, "state", json_object_new_string(run_summary_state(summary)));
    json_object_object_add(root, "status",
                           summary->ended ? json_object_new_int64(summary->status) : NULL);
    json_object_object_add(root, "reason", show_string_or_null(summary->reason));
    json_object_object_add(root, "unexplained",
                           json_object_new_boolean(run_summary_unexplained(summary)));
    json_object_object_add(root, "standstill_seconds",
                           json_object_new_double(run_summary_standstill(summary)));
    json_object_object_add(root, "lost_share",
                           json_object_new_double(run_summary_lost_share(summary)));
    json_object_object_add(root, "checkpoint", summary_checkpoint_json(summary));
    json_object_object_add(root, "verdicts", summary_verdicts_json(summary));
    json_object_object_add(root, "ledger",
                           summary->has_ledger ? ledger_json(&summary->ledger) : NULL);
    json_object_object_add(root, "restarts", summary_restarts_json(summary));
    json_object_object_add(root, "decisions", summary_decisions_json(summary));
    json_object_object_add(root, "environment", summary_environment_json(summary));
    json_object_object_add(root, "counts", summary_counts_json(summary));
    return root;
}

static void summary_print_head(const struct run_summary *summary, FILE *out)
{
    char run[64];

    fprintf(out, "run %s: ", show_clean(summary->run, run, sizeof(run)));
    if (summary->ranks)
        fprintf(out, "%" PRIu32 " rank%s, ", summary->ranks, summary->ranks == 1 ? "" : "s");
    fprintf(out, "%" PRIu64 " rank step%s observed", summary->steps,
            summary->steps == 1 ? "" : "s");
    if (summary->ended)
        fprintf(out, ", ended with status %" PRId32, summary->status);
    else if (!summary->closed && summary->alive)
        fputs(", still running", out);
    else
        fprintf(out, ", %s", run_summary_state(summary));
    if (summary->source == RUN_SUMMARY_SPOOLS)
        fputs("; the controller wrote no log, judged now from the spools", out);
    if (summary->source == RUN_SUMMARY_LOG_SPOOLS)
        fputs("; the controller's log ends early, the rest is judged now from the spools", out);
    fputc('\n', out);
}

static void summary_print_restarts(const struct run_summary *summary, FILE *out)
{
    for (uint32_t i = 0; i < MIN(summary->restarts, RUN_SUMMARY_RESTARTS); i++) {
        const struct run_summary_restart *restart = &summary->restart[i];
        char why[168];

        fprintf(out, "restart %" PRIu32 ": attempt %" PRIu32 " ended", i + 1, restart->attempt);
        if (restart->culprit >= 0)
            fprintf(out, ", rank %" PRId32 " failed first", restart->culprit);
        if (restart->text[0])
            fprintf(out, ": %s", show_clean(restart->text, why, sizeof(why)));
        fputc('\n', out);
        if (restart->parts.known)
            fprintf(
                out,
                "  first new step after %.2f s: detect %.2f, decide %.2f, stop %.2f, start %.2f, "
                "init and load %.2f, first step %.2f s\n",
                summary_parts_total(&restart->parts), restart->parts.detect_s,
                restart->parts.decide_s, restart->parts.stop_s, restart->parts.start_s,
                restart->parts.init_s, restart->parts.first_step_s);
    }
    if (summary->restarts > RUN_SUMMARY_RESTARTS)
        fprintf(out, "and %" PRIu32 " more\n", summary->restarts - RUN_SUMMARY_RESTARTS);
}

static void summary_print_decisions(const struct run_summary *summary, FILE *out)
{
    for (uint32_t i = 0; i < MIN(summary->decisions, RUN_SUMMARY_DECISIONS); i++) {
        const struct run_summary_decision *decision = &summary->decision[i];
        char of[24], why[208];

        fprintf(out, "decision: %s%s%s (%s): %s\n", action_name(decision->action),
                decision->of[0] ? " because of " : "", show_clean(decision->of, of, sizeof(of)),
                decision_word(decision->state, &decision->done),
                show_clean(decision->why, why, sizeof(why)));
    }
    if (summary->decisions > RUN_SUMMARY_DECISIONS)
        fprintf(out, "and %" PRIu32 " more\n", summary->decisions - RUN_SUMMARY_DECISIONS);
}

/* No process has the probe. */
static bool summary_is_unobserved(const struct run_summary *summary)
{
    return !summary->ranks_seen && !summary->steps;
}

static void summary_print_unseen_ranks(const struct run_summary *summary, FILE *out)
{
    if (summary_is_unobserved(summary))
        fputs("  " RUN_SUMMARY_UNOBSERVED "\n", out);
    if (!summary->unseen || summary_is_unobserved(summary))
        return;
    fprintf(out, "  %s", summary->unseen == 1 ? "rank" : "ranks");
    for (uint32_t i = 0; i < MIN(summary->unseen, RUN_SUMMARY_UNSEEN); i++)
        fprintf(out, " %" PRIu32, summary->unseen_rank[i]);
    if (summary->unseen > RUN_SUMMARY_UNSEEN)
        fprintf(out, " and %" PRIu32 " more", summary->unseen - RUN_SUMMARY_UNSEEN);
    fputs(": did not load the lockstep probe, so only exits were observed\n", out);
}

static void summary_print_unseen(const struct run_summary *summary, FILE *out)
{
    const struct {
        uint64_t count;
        const char *one, *many;
    } lines[] = {
        { summary->gap_records, "record was overwritten before it was read",
          "records were overwritten before they were read" },
        { summary->gap_steps, "step was lost with overwritten records",
          "steps were lost with overwritten records" },
        { summary->merged_steps,
          "step was merged and not judged: its agent could not reach the controller",
          "steps were merged and not judged: their agents could not reach the controller" },
        { summary->bare_steps,
          "step arrived without operations, because its agent could not reach the controller: only "
          "its loss, norm and "
          "digest were judged",
          "steps arrived without operations, because their agents could not reach the controller: "
          "only their losses, "
          "norms and digests were judged" },
        { summary->torn_steps, "step is missing some of its records",
          "steps are missing some of their records" },
        { summary->untimed_steps,
          "step has operations without times (all-to-all on NCCL): only their launches were "
          "observed, "
          "so its slowness is not judged",
          "steps have operations without times (all-to-all on NCCL): only their launches were "
          "observed, so their slowness is not judged" },
        { summary->unfinished_steps, "step had not ended when its rank ended",
          "steps had not ended when their ranks ended" },
        { summary->old_steps, "step reused an earlier number: step numbers must increase",
          "steps reused an earlier number: step numbers must increase" },
        { summary->ledger.unfit_steps, "step has no cost: it cannot be replayed",
          "steps have no cost: they cannot be replayed" },
        { summary->lost_frames, "frame is missing in the log", "frames are missing in the log" },
        { summary->damaged_bytes, "damaged byte was skipped", "damaged bytes were skipped" },
        { summary->malformed, "frame could not be parsed", "frames could not be parsed" },
    };
    bool any = summary->unseen > 0 || summary_is_unobserved(summary);

    for (size_t i = 0; i < COUNT(lines); i++)
        any = any || lines[i].count;
    if (!any)
        return;
    fputs("not observed:\n", out);
    summary_print_unseen_ranks(summary, out);
    for (size_t i = 0; i < COUNT(lines); i++) {
        if (lines[i].count)
            fprintf(out, "  %" PRIu64 " %s\n", lines[i].count,
                    lines[i].count == 1 ? lines[i].one : lines[i].many);
    }
}

static bool summary_has_reason(const struct run_summary *summary)
{
    return summary->ended && summary->reason[0];
}

static void summary_print_unexplained(const struct run_summary *summary,
                                      const struct show_style *style, FILE *out)
{
    if (summary_has_reason(summary))
        fprintf(out, "%s%sit ended with status %" PRId32 ": %s%s\n", summary->verdicts ? "\n" : "",
                show_begin(style, SHOW_OVER), summary->status, summary->reason, show_end(style));
    if (!run_summary_unexplained(summary))
        return;
    if (summary->verdicts)
        fputc('\n', out);
    fputs(show_begin(style, SHOW_OVER), out);
    if (summary->ended)
        fprintf(out, "cannot tell why it ended with status %" PRId32, summary->status);
    else
        fputs("cannot tell why it ended: its launcher was killed before it recorded a status", out);
    if (summary->ended && summary->status > 128 && sigabbrev_np(summary->status - 128))
        fprintf(out, " (SIG%s)", sigabbrev_np(summary->status - 128));
    fprintf(out, ": %s; read what it printed (out/ in the directory of the run)%s\n",
            summary_is_unobserved(summary) ? "its processes were not observed"
                                           : "no observation explains it",
            show_end(style));
}

static void summary_print_lost(const struct run_summary *summary, double share,
                               const struct show_style *style, FILE *out)
{
    const char *before = ": ";

    fprintf(out,
            "%scannot tell: no fault was found, but %.0f %% of the GPU-seconds since start-up were "
            "lost",
            show_begin(style, SHOW_OVER), 100 * share);
    for (int bucket = 0; bucket < LEDGER_BUCKETS; bucket++) {
        if (!summary_is_lost(&summary->ledger, bucket) ||
            summary->ledger.gpu_seconds[bucket] < 0.05)
            continue;
        fprintf(out, "%s%s %.1f", before, ledger_bucket_name((unsigned)bucket),
                summary->ledger.gpu_seconds[bucket]);
        before = ", ";
    }
    fprintf(out, "%s\n", show_end(style));
}

static void summary_print_nothing(const struct run_summary *summary, const struct show_style *style,
                                  FILE *out)
{
    const char *words = "nothing is wrong";
    double lost = run_summary_lost_share(summary), still = run_summary_standstill(summary);

    if (still > 0) {
        fprintf(out,
                "%scannot tell: no fault was found, but no rank %s advanced for %.0f s%s; the "
                "cause was not observed%s\n",
                show_begin(style, SHOW_OVER), summary->alive ? "has" : "had", still,
                summary->alive ? "" : " when it ended", show_end(style));
        return;
    }
    if (summary_has_steps(summary) && lost > 0) {
        summary_print_lost(summary, lost, style, out);
        return;
    }
    if (!summary_has_steps(summary))
        words = summary->steps ? "cannot tell: no step was observed to end"
                               : "cannot tell: no step was observed";
    else if (summary->alive)
        words = "no fault found so far";
    else if (summary->ended && summary->stopped)
        words = "nothing is wrong; it was stopped by a signal to its launcher";
    fprintf(out, "%s%s%s\n", show_begin(style, summary_has_steps(summary) ? SHOW_GOOD : SHOW_OVER),
            words, show_end(style));
}

static void summary_print_environment(const struct run_summary *summary, FILE *out)
{
    if (summary->rank_environments.count) {
        fputs("\nenvironment differs between ranks:\n", out);
        environment_ranks_text(&summary->rank_environments, out);
    }
    if (summary->attempt_environments.count) {
        fputs("\nenvironment differs from the attempt before:\n", out);
        environment_changes_text(&summary->attempt_environments, out);
    }
}

void run_summary_end_text(const struct run_summary *summary, const struct show_style *style,
                          FILE *out)
{
    summary_print_unexplained(summary, style, out);
    if (summary->restarts || summary->decisions)
        fputc('\n', out);
    summary_print_decisions(summary, out);
    summary_print_restarts(summary, out);
    summary_print_environment(summary, out);
    if (summary->has_ledger && summary->ledger.steps) { /* without a step nothing is known */
        fputc('\n', out);
        ledger_text(&summary->ledger, style, out);
    }
    summary_print_unseen(summary, out);
}

void run_summary_text(const struct run_summary *summary, const struct show_style *style, FILE *out)
{
    summary_print_head(summary, out);
    for (size_t i = 0; i < summary->verdicts; i++) {
        fputc('\n', out);
        verdict_text(&summary->verdict[i], style, out);
    }
    if (summary->verdicts == 0 && !summary_has_reason(summary) &&
        (!run_summary_unexplained(summary) || (!summary->steps && summary->ranks_seen)))
        summary_print_nothing(summary, style, out);
    run_summary_end_text(summary, style, out);
}
