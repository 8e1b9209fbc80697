/* bench_verdicts.c - how often, how exactly and how soon faults are named; and false alarms. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/log.h"
#include "base/opt.h"
#include "base/tree.h"
#include "cmd/lockstep.h"
#include "core/clean.h"
#include "lab/score.h"

#define CASES_MAX 1024

struct settings {
    uint32_t cases, healthy;
    uint64_t seed;
    const char *only, *keep;
    bool json;
};

static const struct opt options[] = {
    { .name = "cases",
      .type = OPT_U32,
      .offset = offsetof(struct settings, cases),
      .arg = "N",
      .help = "runs with a fault, default 30" },
    { .name = "healthy",
      .type = OPT_U32,
      .offset = offsetof(struct settings, healthy),
      .arg = "N",
      .help = "runs without, default 30" },
    { .name = "only",
      .type = OPT_TEXT,
      .offset = offsetof(struct settings, only),
      .arg = "FAMILY",
      .help = "faults of one family: gpu, user-code, cpu, data, stage (the set slow); input, "
              "checkpoint, fabric (the set stall); corruption; hang, desync, crash, traps" },
    { .name = "seed",
      .type = OPT_U64,
      .offset = offsetof(struct settings, seed),
      .arg = "N",
      .help = "which cases are drawn, default 1" },
    { .name = "keep",
      .type = OPT_TEXT,
      .offset = offsetof(struct settings, keep),
      .arg = "DIR",
      .help = "keep the runs in this directory, for 'lockstep why'" },
    { .name = "json",
      .type = OPT_FLAG,
      .offset = offsetof(struct settings, json),
      .help = "one JSON object" },
    { 0 },
};

static int bench_main(int argc, char **argv);

const struct command command_bench_verdicts = {
    .name = "bench verdicts",
    .operands = "",
    .summary = "real runs with real faults: precision, recall and speed of the verdicts",
    .details =
        "Every case is a 'lockstep demo' in processes of its own; what must be said about it\n"
        "is in one table that no judge sees.  Takes about ten minutes; a busy machine is\n"
        "itself a fault and will be named as one.\n"
        "Exits 0 when the bars are met: precision and recall 0.98, layer 0.95, 5 steps from a\n"
        "factor of 1.25 and 20 at 1.10, ledger 5 %, no false alarm; 3 when all was skipped.",
    .opt = options,
    .run = bench_main,
};

struct tally { /* of a family, or of all */
    const char *family;
    uint32_t cases, found, layers, right, wrong, expected;
    double seconds[CASES_MAX], steps[CASES_MAX];
    uint32_t timed;
};

struct board {
    struct tally all, family[8];
    uint32_t families, skipped, false_alarms;
    uint64_t slowest[2]; /* most steps that a verdict took: from 1.25×, and below */
    double healthy_seconds, ledger_error[CASES_MAX], unattributed[CASES_MAX];
    double ledger_most; /* largest error of a case, either way */
    double ledger_blur; /* largest share within which noise leaves it open */
    uint32_t ledgers, healthies;
};

static int compare_doubles(const void *a, const void *b)
{
    const double *left = a, *right = b;

    return *left < *right ? -1 : *left > *right;
}

static double quantile(double *value, uint32_t count, double at)
{
    if (count == 0)
        return 0;
    qsort(value, count, sizeof(*value), compare_doubles);
    return value[(uint32_t)(at * (count - 1) + 0.5)];
}

static struct tally *tally_of(struct board *board, const char *family)
{
    for (uint32_t i = 0; i < board->families; i++) {
        if (strcmp(board->family[i].family, family) == 0)
            return &board->family[i];
    }
    if (board->families == COUNT(board->family))
        return &board->family[0];
    board->family[board->families].family = family;
    return &board->family[board->families++];
}

static void tally_add(struct tally *tally, const struct score_result *result)
{
    /* Where nobody is to be named, the case itself counts as one that is found or not. */
    uint32_t expected = MAX(result->expected, 1);
    uint32_t right = result->expected ? result->right : result->found;

    tally->cases++;
    tally->found += result->found;
    tally->layers += result->layer_exact;
    tally->right += right;
    tally->wrong += result->wrong;
    tally->expected += expected;
    if (result->found) {
        tally->seconds[tally->timed] = result->seconds;
        tally->steps[tally->timed++] = (double)result->steps;
    }
}

static void board_add(struct board *board, const struct score_case *at,
                      const struct score_result *result)
{
    const struct score_expect *expect = score_expect(&at->fault);

    if (!result->ran) {
        board->skipped++;
        return;
    }
    if (!expect) {
        board->false_alarms += result->extra;
        board->healthy_seconds += result->run_seconds;
        board->unattributed[board->healthies++] = result->unattributed;
        return;
    }
    if (result->found) {
        uint64_t *slowest = &board->slowest[at->fault.factor < 1.25];

        *slowest = MAX(*slowest, result->steps);
    }
    tally_add(&board->all, result);
    tally_add(tally_of(board, expect->family), result);
}

/* Noise puts some seconds of every run into straggler-wait.  How many, the twin without the fault
 * tells: the same seed gives the same jitter.  Before the fault they are all there; with it they may
 * be hidden, since who waits for a straggler does not wait for noise as well.  Only what lies outside
 * of that is an error; how wide it is, is told too.
 */
static void board_ledgers(struct board *board, const struct score_case *cases,
                          const struct score_result *results, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct score_result *twin = cases[i].twin < count ? &results[cases[i].twin] : NULL;
        double most, least, error;

        if (!twin || !twin->ran || !results[i].ran || twin->ledger_injected <= 0)
            continue;
        most = twin->ledger_injected + results[i].ledger_found;
        least = most - results[i].ledger_found * twin->ledger_hidden;
        error = MIN(0, twin->ledger_found - least) + MAX(0, twin->ledger_found - most);
        error /= twin->ledger_injected;
        board->ledger_error[board->ledgers++] = error;
        board->ledger_most = MAX(board->ledger_most, error < 0 ? -error : error);
        board->ledger_blur = MAX(board->ledger_blur, (most - least) / twin->ledger_injected);
    }
}

/* ---- telling ---- */

static double share(uint32_t part, uint32_t whole)
{
    return whole ? (double)part / whole : 1;
}

static struct json_object *tally_json(struct tally *tally)
{
    struct json_object *object = json_object_new_object();

    json_object_object_add(object, "cases", json_object_new_int64(tally->cases));
    json_object_object_add(
        object, "rank_precision",
        json_object_new_double(share(tally->right, tally->right + tally->wrong)));
    json_object_object_add(object, "rank_recall",
                           json_object_new_double(share(tally->right, tally->expected)));
    json_object_object_add(object, "layer_exact",
                           json_object_new_double(share(tally->layers, tally->cases)));
    json_object_object_add(object, "verdict_p50_s",
                           json_object_new_double(quantile(tally->seconds, tally->timed, 0.5)));
    json_object_object_add(object, "verdict_p90_s",
                           json_object_new_double(quantile(tally->seconds, tally->timed, 0.9)));
    json_object_object_add(object, "steps_p90",
                           json_object_new_double(quantile(tally->steps, tally->timed, 0.9)));
    return object;
}

static void board_json(struct board *board)
{
    struct json_object *object = tally_json(&board->all);
    struct json_object *families = json_object_new_object();

    for (uint32_t i = 0; i < board->families; i++)
        json_object_object_add(families, board->family[i].family, tally_json(&board->family[i]));
    json_object_object_add(object, "all",
                           tally_json(&board->all)); /* as above, for whoever loops */
    json_object_object_add(object, "families", families);
    json_object_object_add(object, "false_alarms", json_object_new_int64(board->false_alarms));
    json_object_object_add(object, "healthy_seconds",
                           json_object_new_double(board->healthy_seconds));
    json_object_object_add(object, "steps_most_from_1.25",
                           json_object_new_int64((int64_t)board->slowest[0]));
    json_object_object_add(object, "steps_most_at_1.10",
                           json_object_new_int64((int64_t)board->slowest[1]));
    json_object_object_add(object, "skipped", json_object_new_int64(board->skipped));
    json_object_object_add(
        object, "ledger_error_p50",
        json_object_new_double(quantile(board->ledger_error, board->ledgers, 0.5)));
    json_object_object_add(object, "ledger_error_most", json_object_new_double(board->ledger_most));
    json_object_object_add(object, "ledger_blur_most", json_object_new_double(board->ledger_blur));
    json_object_object_add(
        object, "unattributed_p50",
        json_object_new_double(quantile(board->unattributed, board->healthies, 0.5)));
    puts(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED));
    json_object_put(object);
}

static void tally_text(const char *name, struct tally *tally)
{
    printf("%-10s %5u %10.3f %7.3f %6.3f %9.2f s %6.2f s %8.0f\n", name, tally->cases,
           share(tally->right, tally->right + tally->wrong), share(tally->right, tally->expected),
           share(tally->layers, tally->cases), quantile(tally->seconds, tally->timed, 0.5),
           quantile(tally->seconds, tally->timed, 0.9), quantile(tally->steps, tally->timed, 0.9));
}

static void board_text(struct board *board)
{
    printf("\nfamily     cases  precision  recall  layer    said p50      p90  steps p90\n");
    for (uint32_t i = 0; i < board->families; i++)
        tally_text(board->family[i].family, &board->family[i]);
    tally_text("all", &board->all);
    printf("\nsaid after %llu steps at most from a factor of 1.25, %llu at 1.10\n",
           (unsigned long long)board->slowest[0], (unsigned long long)board->slowest[1]);
    printf("%u false alarms in %.0f s of healthy runs; %u cases skipped\n", board->false_alarms,
           board->healthy_seconds, board->skipped);
    if (board->ledgers)
        printf("injected seconds in the ledger of %u cases: median error %+.1f %%, at most %.1f %% "
               "(noise blurs it by up to %.1f %%); unattributed in healthy runs: median %.2f %%\n",
               board->ledgers, 100 * quantile(board->ledger_error, board->ledgers, 0.5),
               100 * board->ledger_most, 100 * board->ledger_blur,
               100 * quantile(board->unattributed, board->healthies, 0.5));
}

static bool board_good(const struct board *board)
{
    const struct tally *all = &board->all;

    return share(all->right, all->right + all->wrong) >= 0.98 &&
           share(all->right, all->expected) >= 0.98 && share(all->layers, all->cases) >= 0.95 &&
           board->slowest[0] <= 5 && board->slowest[1] <= 20 && board->ledger_most <= 0.05 &&
           board->false_alarms == 0;
}

static void case_text(uint32_t number, uint32_t count, const struct score_case *at,
                      const struct score_result *result)
{
    char text[200], times[96] = "", ledger[80] = "";
    const char *answer = "nothing said, rightly";

    score_case_text(at, text, sizeof(text));
    if (!result->ran)
        answer = result->why;
    else if (score_expect(&at->fault) && !result->found)
        answer = "NOT FOUND";
    else if (result->extra)
        answer = "WRONGLY NAMED";
    else if (result->found)
        answer = result->layer_exact ? "right" : "right rank, WRONG LAYER";
    if (result->ledger_injected > 0)
        snprintf(ledger, sizeof(ledger), "; %.2f GPU-seconds injected, %.2f in the ledger",
                 result->ledger_injected, result->ledger_found);
    else if (at->twin != SCORE_NO_TWIN)
        snprintf(ledger, sizeof(ledger), "; noise %.2f GPU-seconds, twin of case %u",
                 result->ledger_found, at->twin + 1);
    if (result->found)
        snprintf(times, sizeof(times), " after %llu steps, %.1f s",
                 (unsigned long long)result->steps, result->seconds);
    fprintf(stderr, "%u/%u %s: %s%s%s%s%s%s\n", number, count, text, answer, times, ledger,
            result->said[0] ? " [" : "", result->said, result->said[0] ? "]" : "");
}

static int bench_main(int argc, char **argv)
{
    struct settings settings = { .cases = 30, .healthy = 30, .seed = 1 };
    int first = opt_parse(&command_bench_verdicts, argc, argv, &settings);
    CLEAN(free_clean) struct score_case *cases = calloc(CASES_MAX, sizeof(*cases));
    CLEAN(free_clean) struct score_result *results = calloc(CASES_MAX, sizeof(*results));
    CLEAN(free_clean) struct board *board = calloc(1, sizeof(*board));
    char state[PATH_MAX] = "/tmp/lockstep-verdicts-XXXXXX";
    struct err err = { "" };
    uint32_t count;
    int result = 0;

    if (first < 0)
        return OPT_EXIT(first);
    if (first < argc) {
        log_error("unexpected operand '%s'", argv[first]);
        return 2;
    }
    if (settings.only && !score_has_family(settings.only)) {
        log_error("--only %s: expected gpu, user-code, cpu, data, stage or slow; input, "
                  "checkpoint, fabric or stall; "
                  "corruption; hang, desync, crash or traps",
                  settings.only);
        return 2;
    }
    if (!cases || !results || !board || (!settings.keep && !mkdtemp(state))) {
        log_error("no memory, or no directory for the runs in /tmp");
        return 3;
    }
    count = score_draw(settings.seed, settings.cases, settings.healthy, settings.only, cases,
                       CASES_MAX);
    for (uint32_t i = 0; i < count && result == 0; i++) {
        result = score_run(&cases[i], settings.keep ? settings.keep : state, &results[i], &err);
        if (result < 0)
            break;
        case_text(i + 1, count, &cases[i], &results[i]);
        board_add(board, &cases[i], &results[i]);
    }
    if (!settings.keep)
        tree_remove(state);
    if (result < 0) {
        log_error("%s", err.text);
        return 3;
    }
    board_ledgers(board, cases, results, count);
    if (settings.json)
        board_json(board);
    else
        board_text(board);
    if (board->all.cases == 0 && board->healthies == 0)
        return 3; /* all were skipped: that is no good score */
    return board_good(board) ? 0 : 1;
}
