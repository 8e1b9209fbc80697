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

int run_summary_exit(const struct run_summary *summary)
{
    if (summary->verdicts)
        return 1;
    return summary->steps && !run_summary_unexplained(summary) ? 0 : 3;
}

/* Verdicts about why ranks end; one that is over, since training went on, does not say why it ended later. */
static bool explains_end(const struct verdict *verdict)
{
    return verdict->until_real_ns == 0 &&
           (verdict->kind == VERDICT_CRASH || verdict->kind == VERDICT_HANG ||
            verdict->kind == VERDICT_DESYNC);
}

bool run_summary_unexplained(const struct run_summary *summary)
{
    bool explained = summary->ended ? summary->status == 0 || summary->stopped
                                    : summary->alive || !summary->launched;

    for (size_t i = 0; i < summary->verdicts && !explained; i++)
        explained = explains_end(&summary->verdict[i]);
    return !explained;
}

static struct json_object *verdicts_json(const struct run_summary *summary)
{
    struct json_object *list = json_object_new_array();

    for (size_t i = 0; i < summary->verdicts; i++)
        json_object_array_add(list, verdict_json(&summary->verdict[i]));
    return list;
}

static struct json_object *restarts_json(const struct run_summary *summary)
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
        json_object_array_add(list, one);
    }
    return list;
}

static struct json_object *counts_json(const struct run_summary *summary)
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

struct json_object *run_summary_json(const struct run_summary *summary)
{
    struct json_object *root = json_object_new_object();

    json_object_object_add(root, "run", show_string(summary->run));
    json_object_object_add(root, "source", json_object_new_string(sources[summary->source]));
    json_object_object_add(root, "alive", json_object_new_boolean(summary->alive));
    json_object_object_add(root, "state", json_object_new_string(run_summary_state(summary)));
    json_object_object_add(root, "status",
                           summary->ended ? json_object_new_int64(summary->status) : NULL);
    json_object_object_add(root, "unexplained",
                           json_object_new_boolean(run_summary_unexplained(summary)));
    json_object_object_add(root, "verdicts", verdicts_json(summary));
    json_object_object_add(root, "ledger",
                           summary->has_ledger ? ledger_json(&summary->ledger) : NULL);
    json_object_object_add(root, "restarts", restarts_json(summary));
    json_object_object_add(root, "counts", counts_json(summary));
    return root;
}

static void print_head(const struct run_summary *summary, FILE *out)
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

static void print_restarts(const struct run_summary *summary, FILE *out)
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
    }
    if (summary->restarts > RUN_SUMMARY_RESTARTS)
        fprintf(out, "and %" PRIu32 " more\n", summary->restarts - RUN_SUMMARY_RESTARTS);
}

/* No process has the probe. */
static bool is_unobserved(const struct run_summary *summary)
{
    return !summary->ranks_seen && !summary->steps;
}

static void print_unseen_ranks(const struct run_summary *summary, FILE *out)
{
    if (is_unobserved(summary))
        fputs("  " RUN_SUMMARY_UNOBSERVED "\n", out);
    if (!summary->unseen || is_unobserved(summary))
        return;
    fprintf(out, "  %s", summary->unseen == 1 ? "rank" : "ranks");
    for (uint32_t i = 0; i < MIN(summary->unseen, RUN_SUMMARY_UNSEEN); i++)
        fprintf(out, " %" PRIu32, summary->unseen_rank[i]);
    if (summary->unseen > RUN_SUMMARY_UNSEEN)
        fprintf(out, " and %" PRIu32 " more", summary->unseen - RUN_SUMMARY_UNSEEN);
    fputs(": did not load the lockstep probe, so only exits were observed\n", out);
}

static void print_unseen(const struct run_summary *summary, FILE *out)
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
        { summary->torn_steps, "step lacks some of its records",
          "steps lack some of their records" },
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
    bool any = summary->unseen > 0 || is_unobserved(summary);

    for (size_t i = 0; i < COUNT(lines); i++)
        any = any || lines[i].count;
    if (!any)
        return;
    fputs("not observed:\n", out);
    print_unseen_ranks(summary, out);
    for (size_t i = 0; i < COUNT(lines); i++) {
        if (lines[i].count)
            fprintf(out, "  %" PRIu64 " %s\n", lines[i].count,
                    lines[i].count == 1 ? lines[i].one : lines[i].many);
    }
}

static void print_unexplained(const struct run_summary *summary, const struct show_style *style,
                              FILE *out)
{
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
            is_unobserved(summary) ? "its processes were not observed"
                                   : "no observation explains it",
            show_end(style));
}

static void print_nothing(const struct run_summary *summary, const struct show_style *style,
                          FILE *out)
{
    const char *words = "nothing is wrong";

    if (!summary->steps)
        words = "cannot tell: no step was observed";
    else if (summary->ended && summary->stopped)
        words = "nothing is wrong; it was stopped by a signal to its launcher";
    fprintf(out, "%s%s%s\n", show_begin(style, summary->steps ? SHOW_GOOD : SHOW_OVER), words,
            show_end(style));
}

void run_summary_end_text(const struct run_summary *summary, const struct show_style *style,
                          FILE *out)
{
    print_unexplained(summary, style, out);
    if (summary->restarts)
        fputc('\n', out);
    print_restarts(summary, out);
    if (summary->has_ledger && summary->ledger.ranks) {
        fputc('\n', out);
        ledger_text(&summary->ledger, style, out);
    }
    print_unseen(summary, out);
}

void run_summary_text(const struct run_summary *summary, const struct show_style *style, FILE *out)
{
    print_head(summary, out);
    for (size_t i = 0; i < summary->verdicts; i++) {
        fputc('\n', out);
        verdict_text(&summary->verdict[i], style, out);
    }
    if (summary->verdicts == 0 &&
        (!run_summary_unexplained(summary) || (!summary->steps && summary->ranks_seen)))
        print_nothing(summary, style, out);
    run_summary_end_text(summary, style, out);
}
