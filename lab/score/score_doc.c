/* score_doc.c - the page: what was measured, every miss with what was said instead, every skip with its reason.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/score/score_doc.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"
#include "lab/score/score_store.h"

/* The value of the first line in /proc that begins so. */
static void proc_value(const char *path, const char *key, char *out, size_t room)
{
    CLEAN(file_clean) FILE *file = fopen(path, "re");
    char line[4096];

    snprintf(out, room, "unknown");
    while (file && fgets(line, sizeof(line), file)) {
        const char *value = strchr(line, ':');

        if (strncmp(line, key, strlen(key)) != 0 || !value)
            continue;
        value += strspn(value, ": \t");
        snprintf(out, room, "%.*s", (int)strcspn(value, "\n"), value);
        return;
    }
}

static void machine_write(FILE *out)
{
    char model[128], flags[4096], memory[64];
    struct utsname name;

    proc_value("/proc/cpuinfo", "model name", model, sizeof(model));
    proc_value("/proc/cpuinfo", "flags", flags, sizeof(flags));
    proc_value("/proc/meminfo", "MemTotal", memory, sizeof(memory));
    uname(&name);
    fprintf(out, "%s with %ld cores (%s), %.0f GB of memory, Linux %s",
            strstr(flags, "hypervisor") ? "a virtual machine" : "a machine",
            sysconf(_SC_NPROCESSORS_ONLN), model, strtod(memory, NULL) / 1e6, name.release);
}

static void date_write(FILE *out)
{
    time_t now = (time_t)(time_real_ns() / NS_PER_S);
    char text[32];
    struct tm tm;

    strftime(text, sizeof(text), "%Y-%m-%d", gmtime_r(&now, &tm));
    fputs(text, out);
}

/* Which faults a family has, each once. */
static void faults_write(const struct score_doc *doc, const char *family, FILE *out)
{
    size_t count;
    const struct fault_kind *kind = fault_kinds(&count);
    bool any = false;

    for (size_t k = 0; k < count; k++) {
        uint32_t cases = 0;

        for (uint32_t i = 0; i < doc->count; i++) {
            const struct score_case *at = &doc->cases[i];

            cases += doc->results[i].ran && strcmp(score_family(at), family) == 0 &&
                     (at->fault.kind == &kind[k] || at->also.kind == &kind[k]);
        }
        if (cases)
            fprintf(out, "%s%s %u", any ? ", " : "", kind[k].name, cases);
        any |= cases > 0;
    }
}

static void head_write(const struct score_doc *doc, FILE *out)
{
    fprintf(out, "# Verdicts, scored\n\n"
                 "Made by the program: do not edit.  Each case is a `lockstep demo` in processes "
                 "of its own: a real\n"
                 "training, a real fault, and the verdicts of the very judges that a job gets.  "
                 "What must be said about a\n"
                 "fault is in one table (`lab/score/score.c`) that no judge sees.\n\n");
    date_write(out);
    fprintf(out, ", lockstep %s, ", doc->version);
    machine_write(out);
    fprintf(out, ":\n\n    %s\n\n", doc->command);
}

static void tally_write(const char *name, struct score_tally *tally, FILE *out)
{
    fprintf(out, "| %s | %u | %.3f (%.3f) | %.3f (%.3f) | %.3f | ", name, tally->cases,
            score_precision(tally), score_precision_low95(tally), score_recall(tally),
            score_recall_low95(tally), score_layer_exact(tally));
    if (tally->timed)
        fprintf(out, "%.2f s | %.2f s | ", score_seconds(tally, 0.5), score_seconds(tally, 0.9));
    else
        fprintf(out, "– | – | ");
    fprintf(out, tally->verdicts ? "%.4f |\n" : "– |\n", score_brier(tally));
}

static void families_write(const struct score_doc *doc, FILE *out)
{
    struct score_board *board = doc->board;

    fprintf(out, "## By family\n\n"
                 "| family | cases | rank precision (low 95) | rank recall (low 95) | layer exact "
                 "| said p50 | p90 | "
                 "Brier |\n|---|---|---|---|---|---|---|---|\n");
    for (uint32_t i = 0; i < board->families; i++)
        tally_write(board->family[i].family, &board->family[i], out);
    tally_write("**all**", &board->all, out);
    fprintf(out, "\nThe bars are 0.98, 0.98 and 0.95.  Precision and recall are over ranks; where "
                 "nobody is to be named, the "
                 "case counts as one.\nAn extra verdict that names nobody counts as one wrong "
                 "rank.  In brackets the lower 95 %% "
                 "bound, exact and one-sided\n(Clopper–Pearson), over cases and not over ranks, "
                 "which are no independent "
                 "trials: one wrong or missing rank makes the\nwhole case bad.  Said: from the "
                 "fault to the verdict, of those "
                 "that were found.  Brier: the mean over all verdicts of\n(confidence − 1)² where "
                 "kind, ranks and layer are all "
                 "right and of confidence² where not; the last row has those of\nruns without a "
                 "fault, too.\n\n");
}

static void content_write(const struct score_doc *doc, const char *family, FILE *out)
{
    fprintf(out, "- %s: ", family);
    faults_write(doc, family, out);
    fputc('\n', out);
}

/* Of a family that has runs without a fault, too, all are in its one line. */
static bool has_faults(const struct score_board *board, const char *family)
{
    for (uint32_t i = 0; i < board->families; i++)
        if (strcmp(board->family[i].family, family) == 0)
            return true;
    return false;
}

static void contents_write(const struct score_doc *doc, FILE *out)
{
    const struct score_board *board = doc->board;

    fprintf(out, "What was made in them, and how often (`lockstep demo --list-faults` says what "
                 "each is):\n\n");
    for (uint32_t i = 0; i < board->families; i++)
        content_write(doc, board->family[i].family, out);
    for (uint32_t i = 0; i < board->calm_families; i++)
        if (!has_faults(board, board->calm_family[i].family))
            content_write(doc, board->calm_family[i].family, out);
    fputc('\n', out);
}

/* How many cases there are by size of the job and place in it. */
static void spread_write(const struct score_doc *doc, FILE *out)
{
    static const char *const places[] = { "first rank", "middle rank", "last rank",
                                          "all, a node or a stage" };
    static const uint32_t sizes[] = { 4, 8, 16 };
    uint32_t spread[COUNT(places)][COUNT(sizes) + 1] = { 0 };

    for (uint32_t i = 0; i < doc->count; i++) {
        const struct score_case *at = &doc->cases[i];
        size_t place = 3, size = 0;

        if (!doc->results[i].ran || !score_expect(&at->fault))
            continue;
        if (at->fault.set & FAULT_RANK)
            place = at->fault.rank == 0 ? 0 : at->fault.rank + 1 == at->ranks ? 2 : 1;
        while (size < COUNT(sizes) && sizes[size] != at->ranks)
            size++;
        spread[place][size]++;
    }
    fprintf(out, "Cases with a fault, by where it is:\n\n| | 4 ranks | 8 | 16 | other "
                 "|\n|---|---|---|---|---|\n");
    for (size_t i = 0; i < COUNT(places); i++)
        fprintf(out, "| %s | %u | %u | %u | %u |\n", places[i], spread[i][0], spread[i][1],
                spread[i][2], spread[i][3]);
}

static void calm_row(const char *name, const struct score_calm *calm, FILE *out)
{
    fprintf(out, "| %s | %u | %.0f s | %u | ", name, calm->cases, calm->seconds,
            calm->false_alarms);
    if (calm->seconds > 0)
        fprintf(out, "%.2f (%.2f) |\n", score_alarms_per_hour(calm),
                score_alarms_per_hour_high95(calm));
    else
        fprintf(out, "– |\n");
}

static void calm_write(const struct score_doc *doc, FILE *out)
{
    const struct score_board *board = doc->board;

    fprintf(out, "\n## Runs about which nothing must be said\n\n"
                 "| | runs | time | false alarms | an hour (high 95) |\n|---|---|---|---|---|\n");
    for (uint32_t i = 0; i < board->calm_families; i++)
        calm_row(board->calm_family[i].family, &board->calm_family[i], out);
    calm_row("**all**", &board->calm, out);
    fprintf(out, "\nTraps: evaluations, planned checkpoints, slow starts, compilations, a rank "
                 "that computes for long.  In "
                 "brackets the\nupper 95 %% bound (Poisson, exact): that many an hour there may "
                 "be, for all that was seen.\n\n");
    if (doc->more)
        fprintf(out, "%s\n", doc->more);
}

static void answer_write(const struct fault *fault, FILE *out)
{
    const struct score_expect *expect = fault->kind ? score_expect(fault) : NULL;

    if (expect)
        fprintf(out, " %s%s%s", expect->kind, expect->layer ? "/" : "",
                expect->layer ? expect->layer : "");
}

static void case_write(const struct score_case *at, const struct score_result *result, FILE *out)
{
    char text[500], command[SCORE_COMMAND];

    score_case_text(at, text, sizeof(text));
    fprintf(out, "- %s: %s.  ", score_family(at), text);
    if (!result->ran) {
        fprintf(out, "Not scored: %s.\n", result->why);
        return;
    }
    fprintf(out, "To be said:");
    answer_write(&at->fault, out);
    answer_write(&at->also, out);
    score_case_command(at, command, sizeof(command));
    fprintf(out, "%s; said: %s; others took %.2f of a core.\n  `%s`\n",
            score_expect(&at->fault) ? "" : " nothing", result->said[0] ? result->said : "nothing",
            result->foreign_load, command);
}

static void misses_write(const struct score_doc *doc, FILE *out)
{
    uint32_t misses = 0, skips = 0;

    fprintf(out, "## What was not right\n\n");
    for (uint32_t i = 0; i < doc->count; i++) {
        if (!doc->results[i].ran || score_result_good(&doc->cases[i], &doc->results[i]))
            continue;
        case_write(&doc->cases[i], &doc->results[i], out);
        misses++;
    }
    if (misses == 0)
        fprintf(out, "Nothing.\n");
    fprintf(out, "\n## What was not scored\n\n");
    for (uint32_t i = 0; i < doc->count; i++) {
        if (doc->results[i].ran)
            continue;
        case_write(&doc->cases[i], &doc->results[i], out);
        skips++;
    }
    if (skips == 0)
        fprintf(out, "Nothing was skipped.\n");
}

int score_doc_write(const struct score_doc *doc, const char *path, struct err *err)
{
    CLEAN(file_clean) FILE *out = NULL;
    char temporary[PATH_MAX];
    int failed;

    if (snprintf(temporary, sizeof(temporary), "%s.new", path) >= (int)sizeof(temporary))
        return err_set(err, -ENAMETOOLONG, "%s: too long a name", path);
    out = fopen(temporary, "we");
    if (!out)
        return err_set(err, -errno, "%s: %m", temporary);
    head_write(doc, out);
    families_write(doc, out);
    contents_write(doc, out);
    spread_write(doc, out);
    calm_write(doc, out);
    misses_write(doc, out);
    failed = ferror(out);
    failed |= fclose(TAKE(out));
    if (failed || rename(temporary, path) < 0) {
        unlink(temporary);
        return err_set(err, -EIO, "%s: could not be written", path);
    }
    return 0;
}
