/* bench_verdicts.c - how often, how exactly and how soon faults are named; and false alarms.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/log.h"
#include "base/opt.h"
#include "base/remove_tree.h"
#include "cmd/lab/bench_options.h"
#include "core/clean.h"
#include "lab/cmd/lab.h"
#include "lab/score/ledger_scores.h"
#include "lab/score/score_doc.h"
#include "lab/score/score_plan.h"
#include "lab/score/score_pool.h"
#include "lab/score/score_stats.h"
#include "lab/score/score_store.h"
#include "lab/score/score_tally.h"

struct board {
    struct score_board score;
    uint64_t slowest[2]; /* most steps that a verdict took: from 1.25×, and below */
    struct ledger_scores ledger_scores;
    double unattributed[SCORE_CASES_MAX];
    uint32_t healthies;
    double foreign_load;       /* cores: the most that they took in a second of a case */
    uint32_t again, disturbed; /* runs that do not count; cases that do, though others took much */
};

/* Held against a number of steps: a steady slowness.  Pauses come when they come, and what grows is slight at first. */
static bool bench_is_steady(const struct score_case *at, const struct score_expect *expect)
{
    bool slow = strcmp(expect->kind, "straggler") == 0 || strcmp(expect->kind, "imbalance") == 0;

    return slow && at->fault.kind->id != FAULT_WANDERING && !at->also.kind && !at->torch &&
           !(at->fault.set & (FAULT_EVERY | FAULT_OVER));
}

static void board_add(struct board *board, const struct score_case *at,
                      const struct score_result *result)
{
    const struct score_expect *expect = score_expect(&at->fault);

    score_board_add(&board->score, at, result);
    if (!result->ran)
        return;
    board->foreign_load = MAX(board->foreign_load, result->foreign_load);
    board->again += result->again;
    board->disturbed += result->foreign_load > SCORE_FOREIGN_LOAD_LIMIT;
    if (!expect)
        board->unattributed[board->healthies++] =
            result->ledger.total > 0
                ? result->ledger.bucket[LEDGER_UNATTRIBUTED] / result->ledger.total
                : 0;
    else if (result->found && bench_is_steady(at, expect)) {
        uint64_t *slowest = &board->slowest[at->fault.factor < 1.25];

        *slowest = MAX(*slowest, result->steps);
    }
}

/* Case by case, while it is known which. */
static void bench_ledger_scores_print(const struct ledger_scores *ledger_scores)
{
    for (uint32_t i = 0; i < ledger_scores->count; i++)
        fprintf(stderr, "case %u: %.2f GPU-seconds lost, ledger has %.2f (%+.1f %%)\n",
                ledger_scores->at[i].number + 1, ledger_scores->at[i].due,
                ledger_scores->at[i].found, 100 * ledger_scores->at[i].error);
}

/* ---- telling ---- */

static void bench_verdicts_number_add(struct json_object *object, const char *name, double value)
{
    json_object_object_add(object, name, json_object_new_double(value));
}

static struct json_object *bench_tally_json(struct score_tally *tally)
{
    struct json_object *object = json_object_new_object();

    json_object_object_add(object, "cases", json_object_new_int64(tally->cases));
    bench_verdicts_number_add(object, "rank_precision", score_precision(tally));
    bench_verdicts_number_add(object, "rank_precision_low95", score_precision_low95(tally));
    bench_verdicts_number_add(object, "rank_recall", score_recall(tally));
    bench_verdicts_number_add(object, "rank_recall_low95", score_recall_low95(tally));
    bench_verdicts_number_add(object, "layer_exact", score_layer_exact(tally));
    bench_verdicts_number_add(object, "verdict_p50_s", score_seconds(tally, 0.5));
    bench_verdicts_number_add(object, "verdict_p90_s", score_seconds(tally, 0.9));
    bench_verdicts_number_add(object, "steps_p90", score_steps(tally, 0.9));
    bench_verdicts_number_add(object, "brier", score_brier(tally));
    return object;
}

static void bench_calm_json(struct json_object *object, const struct score_calm *calm)
{
    json_object_object_add(object, "false_alarms", json_object_new_int64(calm->false_alarms));
    bench_verdicts_number_add(object, "healthy_seconds", calm->seconds);
    bench_verdicts_number_add(object, "false_alarms_per_hour", score_alarms_per_hour(calm));
    bench_verdicts_number_add(object, "false_alarms_per_hour_high95",
                              score_alarms_per_hour_high95(calm));
}

static struct json_object *bench_calm_families_json(const struct score_board *score)
{
    struct json_object *object = json_object_new_object();

    for (uint32_t i = 0; i < score->calm_families; i++) {
        const struct score_calm *calm = &score->calm_family[i];
        struct json_object *family = json_object_new_object();

        json_object_object_add(family, "runs", json_object_new_int64(calm->cases));
        bench_calm_json(family, calm);
        json_object_object_add(object, calm->family, family);
    }
    return object;
}

static void bench_ledger_scores_json(struct json_object *object,
                                     struct ledger_scores *ledger_scores)
{
    struct json_object *families = json_object_new_object();

    bench_verdicts_number_add(object, "ledger_error_p50",
                              stats_quantile(ledger_scores->error, ledger_scores->count, 0.5));
    bench_verdicts_number_add(object, "ledger_error_most", ledger_scores->most);
    bench_verdicts_number_add(object, "ledger_error_all", score_book_error(&ledger_scores->all));
    json_object_object_add(object, "ledgers", json_object_new_int64(ledger_scores->count));
    json_object_object_add(object, "ledgers_within_5_percent",
                           json_object_new_int64(ledger_scores->good));
    json_object_object_add(object, "ledgers_within_blur",
                           json_object_new_int64(ledger_scores->blurred));
    bench_verdicts_number_add(object, "ledger_blur", ledger_scores->blur);
    for (uint32_t i = 0; i < ledger_scores->families; i++)
        bench_verdicts_number_add(families, ledger_scores->family[i].name,
                                  score_book_error(&ledger_scores->family[i]));
    json_object_object_add(object, "ledger_error_families", families);
}

static void board_json(struct board *board)
{
    struct score_board *score = &board->score;
    struct json_object *object = bench_tally_json(&score->all);
    struct json_object *families = json_object_new_object();

    for (uint32_t i = 0; i < score->families; i++)
        json_object_object_add(families, score->family[i].family,
                               bench_tally_json(&score->family[i]));
    json_object_object_add(object, "all",
                           bench_tally_json(&score->all)); /* as above, for whoever loops */
    json_object_object_add(object, "families", families);
    bench_calm_json(object, &score->calm);
    json_object_object_add(object, "calm", bench_calm_families_json(score));
    json_object_object_add(object, "steps_most_from_1.25",
                           json_object_new_int64((int64_t)board->slowest[0]));
    json_object_object_add(object, "steps_most_at_1.10",
                           json_object_new_int64((int64_t)board->slowest[1]));
    json_object_object_add(object, "skipped", json_object_new_int64(score->skipped));
    bench_verdicts_number_add(object, "others_most_cores", board->foreign_load);
    json_object_object_add(object, "run_again", json_object_new_int64(board->again));
    json_object_object_add(object, "disturbed", json_object_new_int64(board->disturbed));
    bench_ledger_scores_json(object, &board->ledger_scores);
    bench_verdicts_number_add(object, "unattributed_p50",
                              stats_quantile(board->unattributed, board->healthies, 0.5));
    puts(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED));
    json_object_put(object);
}

static void bench_tally_text(const char *name, struct score_tally *tally)
{
    printf("%-10s %5u %6.3f (%.3f) %6.3f (%.3f) %6.3f %9.2f s %6.2f s %8.0f %8.4f\n", name,
           tally->cases, score_precision(tally), score_precision_low95(tally), score_recall(tally),
           score_recall_low95(tally), score_layer_exact(tally), score_seconds(tally, 0.5),
           score_seconds(tally, 0.9), score_steps(tally, 0.9), score_brier(tally));
}

static void bench_ledger_scores_write(struct board *board, FILE *out)
{
    struct ledger_scores *ledger_scores = &board->ledger_scores;

    fprintf(
        out,
        "ledger: the lost seconds are in the right bucket within 5 %% in %u of %u cases; in %u of "
        "the others the error is within %.2f %% of the run, the difference between healthy "
        "runs with the same seed; median error %+.1f %%, largest %.1f %%, of the sum %+.1f %%",
        ledger_scores->good, ledger_scores->count, ledger_scores->blurred,
        100 * ledger_scores->blur,
        100 * stats_quantile(ledger_scores->error, ledger_scores->count, 0.5),
        100 * ledger_scores->most, 100 * score_book_error(&ledger_scores->all));
    for (uint32_t i = 0; i < ledger_scores->families; i++)
        fprintf(out, "%s %s %+.1f %%", i ? "," : ";", ledger_scores->family[i].name,
                100 * score_book_error(&ledger_scores->family[i]));
    fprintf(out, "; unattributed in healthy runs: median %.2f %%\n",
            100 * stats_quantile(board->unattributed, board->healthies, 0.5));
}

static void bench_foreign_load_write(const struct board *board, FILE *out)
{
    fprintf(
        out,
        "other load: other processes and the hypervisor used at most %.2f cores in any second of a "
        "case, and more than %g in %u cases that count; %u runs with more were repeated, "
        "whatever their verdicts\n",
        board->foreign_load, SCORE_FOREIGN_LOAD_LIMIT, board->disturbed, board->again);
}

/* Lines that stand on the screen and on the page. */
static void bench_lines_write(struct board *board, FILE *out)
{
    fprintf(out, "delay: at most %llu steps to a verdict from a factor of 1.25, %llu at 1.10\n",
            (unsigned long long)board->slowest[0], (unsigned long long)board->slowest[1]);
    if (board->ledger_scores.count)
        bench_ledger_scores_write(board, out);
    bench_foreign_load_write(board, out);
}

static void board_text(struct board *board)
{
    struct score_board *score = &board->score;

    printf("\nfamily     cases  precision       recall          layer   delay p50      p90  "
           "steps p90    Brier\n");
    for (uint32_t i = 0; i < score->families; i++)
        bench_tally_text(score->family[i].family, &score->family[i]);
    bench_tally_text("all", &score->all);
    printf("in parentheses: lower 95 %% confidence bound, over cases\n\n");
    bench_lines_write(board, stdout);
    printf("%u false alarms in %.0f s of healthy runs, %.2f per hour (upper 95 %% bound %.2f); %u "
           "cases skipped\n",
           score->calm.false_alarms, score->calm.seconds, score_alarms_per_hour(&score->calm),
           score_alarms_per_hour_high95(&score->calm), score->skipped);
}

static bool board_good(const struct board *board)
{
    const struct score_tally *all = &board->score.all;

    return score_precision(all) >= 0.98 && score_recall(all) >= 0.98 &&
           score_layer_exact(all) >= 0.95 && board->slowest[0] <= 5 && board->slowest[1] <= 20 &&
           ledger_scores_good(&board->ledger_scores) && board->score.calm.false_alarms == 0;
}

static void bench_case_text(uint32_t number, uint32_t count, const struct score_case *at,
                            const struct score_result *result)
{
    char text[200], times[96] = "", ledger[80] = "", foreign_load[80] = "";
    const char *answer = "correct: no verdict";

    score_case_text(at, text, sizeof(text));
    if (!result->ran)
        answer = result->why;
    else if (score_expect(&at->fault) && !result->found)
        answer = "WRONG: no verdict";
    else if (result->extra)
        answer = "WRONG: unexpected verdict";
    else if (result->found)
        answer = result->layer_exact ? "correct" : "WRONG layer, correct rank";
    if (at->twin != SCORE_NO_TWIN)
        snprintf(ledger, sizeof(ledger), "; compared with case %u", at->twin + 1);
    if (result->found)
        snprintf(times, sizeof(times), " after %llu steps, %.1f s",
                 (unsigned long long)result->steps, result->seconds);
    if (result->foreign_load > SCORE_FOREIGN_LOAD_LIMIT)
        snprintf(foreign_load, sizeof(foreign_load), "; other load %.2f cores",
                 result->foreign_load);
    fprintf(stderr, "%u/%u %s: %s%s%s%s%s%s%s\n", number, count, text, answer, times, ledger,
            foreign_load, result->summary[0] ? " [" : "", result->summary,
            result->summary[0] ? "]" : "");
}

/* ---- running ---- */

struct bench_verdicts {
    struct bench_verdicts_settings settings;
    struct score_case *cases;
    struct score_result *results;
    bool *known, *skip; /* skip: not to be run, as it is known, or of another part */
    uint32_t count, done, missing;
    uint32_t part, parts;     /* of all cases: 1 of 1 */
    struct score_store store; /* dir "" without --results */
    char state[PATH_MAX];
    struct board *board;
};

static void bench_fini(struct bench_verdicts *bench)
{
    score_store_close(&bench->store);
    free(bench->cases);
    free(bench->results);
    free(bench->known);
    free(bench->skip);
    free(bench->board);
}

static int bench_verdicts_on_done(void *arg, uint32_t number, const struct score_result *result,
                                  struct err *err)
{
    struct bench_verdicts *bench = arg;

    bench->results[number] = *result;
    bench->known[number] = true;
    bench_case_text(++bench->done, bench->count, &bench->cases[number], result);
    return bench->store.dir[0] ? score_store_add(&bench->store, &bench->cases[number], result, err)
                               : 0;
}

/* What an earlier score has found out need not be run again. */
static int bench_results_open(struct bench_verdicts *bench, struct err *err)
{
    int result = score_store_open(bench->settings.results, &bench->store, err);

    if (result < 0)
        return result;
    for (uint32_t i = 0; i < bench->count; i++) {
        const struct score_result *found = score_store_find(&bench->store, &bench->cases[i]);

        if (!found)
            continue;
        bench->results[i] = *found;
        bench->known[i] = true;
        bench->done++;
    }
    if (bench->done || bench->store.foreign)
        log_info(
            "%s: %u of %u cases have results; ignoring %u lines that are damaged or of another "
            "build",
            bench->store.path, bench->done, bench->count, bench->store.foreign);
    return 0;
}

static int bench_state_open(struct bench_verdicts *bench, struct err *err)
{
    const struct bench_verdicts_settings *settings = &bench->settings;

    if (settings->keep)
        snprintf(bench->state, sizeof(bench->state), "%s", settings->keep);
    else if (settings->results)
        snprintf(bench->state, sizeof(bench->state), "%s", bench->store.dir);
    else
        snprintf(bench->state, sizeof(bench->state), "/tmp/lockstep-verdicts-XXXXXX");
    if (!settings->keep && !settings->results && !mkdtemp(bench->state))
        return err_set(err, -errno, "%s: %m", bench->state);
    return 0;
}

/* Of K/N, cases K, K + N and so on.  A twin is of the part of its case: their ledgers are compared. */
static bool bench_is_of_part(const struct bench_verdicts *bench, uint32_t number)
{
    uint32_t twin = bench->cases[number].twin;
    uint32_t counts = twin == SCORE_NO_TWIN ? number : twin;

    return counts % bench->parts == bench->part - 1;
}

static void bench_skip(struct bench_verdicts *bench)
{
    for (uint32_t i = 0; i < bench->count; i++)
        bench->skip[i] = bench->known[i] || bench->settings.sum || !bench_is_of_part(bench, i);
}

static void bench_add_up(struct bench_verdicts *bench)
{
    for (uint32_t i = 0; i < bench->count; i++) {
        if (bench->known[i] && (bench->settings.sum || bench_is_of_part(bench, i))) {
            board_add(bench->board, &bench->cases[i], &bench->results[i]);
            continue;
        }
        bench->results[i] = (struct score_result){ .why = "no result; see --part" };
        bench->missing += bench->settings.sum;
    }
    ledger_scores_fill(bench->cases, bench->results, bench->count, &bench->board->ledger_scores);
    bench_ledger_scores_print(&bench->board->ledger_scores);
    if (bench->missing)
        log_error("%u of %u cases have no result in %s", bench->missing, bench->count,
                  bench->store.path);
}

static int bench_run(struct bench_verdicts *bench, struct err *err)
{
    struct score_pool pool = { .cases = bench->cases,
                               .count = bench->count,
                               .jobs = MAX(1, bench->settings.jobs),
                               .known = bench->skip,
                               .state = bench->state,
                               .keep_all = bench->settings.keep != NULL,
                               .retries = bench->settings.retry,
                               .done = bench_verdicts_on_done,
                               .arg = bench };
    int result = bench->settings.results ? bench_results_open(bench, err) : 0;

    bench_skip(bench);
    if (result == 0)
        result = bench_state_open(bench, err);
    if (result == 0)
        result = score_pool_run(&pool, err);
    if (!bench->settings.keep && !bench->settings.results && bench->state[0])
        tree_remove(bench->state);
    bench_add_up(bench);
    return result;
}

/* As people would type it, without where this machine keeps things. */
static void bench_command_text(const struct bench_verdicts_settings *settings, char *out,
                               size_t room)
{
    int used = snprintf(out, room, "lockstep bench verdicts%s --seed %llu",
                        settings->all ? " --all" : "", (unsigned long long)settings->seed);
    const char *const name[] = { "cases", "healthy" };
    const uint32_t value[] = { settings->cases, settings->healthy };

    if (settings->only)
        used += snprintf(out + used, room - (size_t)used, " --only %s", settings->only);
    for (size_t i = 0; i < COUNT(name); i++) {
        if (value[i] != SCORE_PLAN_DEFAULT)
            used += snprintf(out + used, room - (size_t)used, " --%s %u", name[i], value[i]);
    }
    if (settings->healthy_ns)
        used += snprintf(out + used, room - (size_t)used, " --healthy-time %gs",
                         (double)settings->healthy_ns / 1e9);
    if (settings->jobs > 1)
        used += snprintf(out + used, room - (size_t)used, " --jobs %u", settings->jobs);
    if (settings->retry)
        used += snprintf(out + used, room - (size_t)used, " --retry %u", settings->retry);
    if (settings->part)
        used += snprintf(out + used, room - (size_t)used, " --part %.20s", settings->part);
    if (settings->sum)
        snprintf(out + used, room - (size_t)used, " --sum");
}

static int bench_page_write(struct bench_verdicts *bench, struct err *err)
{
    CLEAN(free_clean) char *more = NULL;
    char command[300];
    size_t size;
    FILE *lines = open_memstream(&more, &size);
    struct score_doc doc = { .board = &bench->board->score,
                             .cases = bench->cases,
                             .results = bench->results,
                             .count = bench->count,
                             .command = command,
                             .version = LOCKSTEP_VERSION };

    if (!lines)
        return err_nomem(err);
    bench_lines_write(bench->board, lines);
    fclose(lines);
    doc.more = more;
    bench_command_text(&bench->settings, command, sizeof(command));
    return score_doc_write(&doc, bench->settings.write, err);
}

static int bench_part_read(const char *text, uint32_t *part, uint32_t *parts)
{
    char rest;

    *part = *parts = 1;
    if (!text || (strspn(text, "0123456789/") == strlen(text) && strlen(text) <= 9 &&
                  sscanf(text, "%u/%u%c", part, parts, &rest) == 2 && *part > 0 &&
                  *part <= *parts && *parts <= SCORE_CASES_MAX))
        return 0;
    log_error("--part %s: expected K/N, K from 1 to N, N at most %d", text, SCORE_CASES_MAX);
    return -EINVAL;
}

static int bench_settings_check(const struct bench_verdicts_settings *settings)
{
    char names[300];

    if ((settings->part || settings->sum) && !settings->results) {
        log_error("%s needs --results DIR", settings->sum ? "--sum" : "--part");
        return -EINVAL;
    }
    if (settings->part && settings->sum) {
        log_error("--sum counts all parts: --part does not go with it");
        return -EINVAL;
    }

    if (settings->jobs > SCORE_JOBS_MAX) {
        log_error("--jobs %u: at most %d", settings->jobs, SCORE_JOBS_MAX);
        return -EINVAL;
    }
    if (settings->only && !score_plan_has(settings->only)) {
        score_plan_names(names, sizeof(names));
        log_error("--only %s: expected %s", settings->only, names);
        return -EINVAL;
    }
    return 0;
}

int bench_verdicts_main(int argc, char **argv)
{
    CLEAN(bench_fini)
    struct bench_verdicts bench = {
        .settings = { .cases = SCORE_PLAN_DEFAULT, .healthy = SCORE_PLAN_DEFAULT, .seed = 1 },
        .cases = calloc(SCORE_CASES_MAX, sizeof(*bench.cases)),
        .results = calloc(SCORE_CASES_MAX, sizeof(*bench.results)),
        .known = calloc(SCORE_CASES_MAX, sizeof(*bench.known)),
        .skip = calloc(SCORE_CASES_MAX, sizeof(*bench.skip)),
        .board = calloc(1, sizeof(*bench.board)),
    };
    struct bench_verdicts_settings *settings = &bench.settings;
    int parsed = opt_parse_all(&command_bench_verdicts, argc, argv, settings), result;
    struct err err = { "" };

    if (parsed < 0)
        return OPT_EXIT(parsed);
    if (bench_settings_check(settings) < 0 ||
        bench_part_read(settings->part, &bench.part, &bench.parts) < 0)
        return 2;
    if (!bench.cases || !bench.results || !bench.known || !bench.skip || !bench.board) {
        log_error("no memory");
        return 3;
    }
    bench.count =
        score_plan(&(struct score_filter){ .seed = settings->seed,
                                           .all = settings->all,
                                           .only = settings->only,
                                           .cases = settings->cases,
                                           .healthy = settings->healthy,
                                           .healthy_seconds = (double)settings->healthy_ns / 1e9 },
                   bench.cases, SCORE_CASES_MAX);
    result = bench_run(&bench, &err);
    if (result == 0 && settings->write)
        result = bench_page_write(&bench, &err);
    if (result < 0) {
        log_error("%s", err.text);
        return 3;
    }
    if (settings->json)
        board_json(bench.board);
    else
        board_text(bench.board);
    if (bench.board->score.all.cases == 0 && bench.board->healthies == 0)
        return 3; /* all were skipped: that is no good score */
    if (bench.missing)
        return 3;
    return board_good(bench.board) ? 0 : 1;
}
