/* bench_noise.c - the false alarms of the judges in a large job on noisy hosts.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <json-c/json.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/paths.h"
#include "cmd/lab/bench_options.h"
#include "control/report/run_report.h"
#include "core/clean.h"
#include "lab/bench/noise/detect_sim.h"
#include "lab/bench/noise/noise_cases.h"
#include "lab/bench/noise/noise_job.h"
#include "lab/cmd/lab.h"

#define WEEK_S (7 * 86400.0)

static void bench_noise_take_step(void *arg, const struct judge_state *judge,
                                  const struct job_step *job_step)
{
    (void)job_step;
    noise_taper_step(arg, judge);
}

static int bench_tape_read(const char *run, struct noise_tape *ret, struct err *err)
{
    struct noise_taper *taper;
    struct path directory;
    int result = paths_find(run, &directory, err);

    if (result < 0)
        return result;
    if (noise_taper_create(&taper) < 0)
        return err_set(err, -ENOMEM, "no memory for the noise of a run");
    result = run_report_watch(directory.text, bench_noise_take_step, taper, NULL, err);
    if (result >= 0 && noise_taper_end(taper, ret) < 0)
        result =
            err_set(err, -ENODATA, "%s: too short: noise needs 8 ranks and 74 complete steps", run);
    noise_taper_destroy(taper);
    return result;
}

static void bench_show_progress(void *arg, uint64_t steps, uint64_t alarms)
{
    if (steps % 100 == 0)
        fprintf(stderr, "\r%llu steps, %llu alarms", (unsigned long long)steps,
                (unsigned long long)alarms);
    (void)arg;
}

struct rates { /* per week */
    double weeks, rate, upper;
};

static struct rates rates_of(const struct bench_noise_settings *settings,
                             const struct noise_job_result *result)
{
    double weeks = (double)result->steps * settings->step_seconds / WEEK_S;

    if (weeks <= 0)
        return (struct rates){ 0, 0, INFINITY };
    return (struct rates){ weeks, (double)result->alarms / weeks,
                           noise_upper_95(result->alarms) / weeks };
}

static struct json_object *bench_tail_json(const struct noise_tail *tail)
{
    struct json_object *object = json_object_new_object();

    json_object_object_add(object, "from", json_object_new_double(tail->from));
    json_object_object_add(object, "index", json_object_new_double(tail->index));
    return object;
}

static void bench_noise_print_json(const struct bench_noise_settings *settings,
                                   const struct noise_job_result *result)
{
    struct json_object *root = json_object_new_object(), *alarms = json_object_new_array();
    struct json_object *tails = json_object_new_object(), *faults = json_object_new_array();
    struct rates rates = rates_of(settings, result);

    json_object_object_add(root, "ranks", json_object_new_int64(settings->ranks));
    json_object_object_add(root, "steps", json_object_new_int64((int64_t)result->steps));
    json_object_object_add(root, "step_seconds", json_object_new_double(settings->step_seconds));
    json_object_object_add(root, "often", json_object_new_double(settings->often));
    json_object_object_add(root, "weeks", json_object_new_double(rates.weeks));
    json_object_object_add(root, "alarms", json_object_new_int64((int64_t)result->alarms));
    json_object_object_add(root, "alarms_per_week", json_object_new_double(rates.rate));
    json_object_object_add(root, "alarms_per_week_upper_95", json_object_new_double(rates.upper));
    json_object_object_add(root, "unfit_steps", json_object_new_int64((int64_t)result->unfit));
    json_object_object_add(root, "judge_ms", json_object_new_double(result->judge_ms));
    json_object_object_add(tails, "compute", bench_tail_json(&result->compute));
    json_object_object_add(tails, "host", bench_tail_json(&result->host));
    json_object_object_add(tails, "transfer", bench_tail_json(&result->transfer));
    json_object_object_add(root, "tails", tails);
    for (uint64_t i = 0; i < MIN(result->alarms, NOISE_ALARMS_KEPT); i++)
        json_object_array_add(alarms, json_object_new_string(result->alarm[i].text));
    json_object_object_add(root, "said", alarms);
    for (uint32_t i = 0; i < result->faults; i++) {
        const struct noise_fault *fault = &result->fault[i];
        struct json_object *object = json_object_new_object();

        json_object_object_add(object, "fault", json_object_new_string(fault->name));
        json_object_object_add(object, "found", json_object_new_boolean(fault->found));
        json_object_object_add(object, "must", json_object_new_boolean(fault->must));
        json_object_object_add(object, "steps", json_object_new_int64((int64_t)fault->steps));
        json_object_object_add(object, "wrong", json_object_new_int64(fault->wrong));
        json_object_array_add(faults, object);
    }
    json_object_object_add(root, "faults", faults);
    puts(json_object_to_json_string_ext(root, JSON_C_TO_STRING_PRETTY));
    json_object_put(root);
}

static void bench_noise_print_text(const struct bench_noise_settings *settings,
                                   const struct noise_job_result *result)
{
    struct rates rates = rates_of(settings, result);

    printf("%u ranks, %llu steps of %g s judged: %.3f weeks, %.3g rank-steps, %.1f ms of CPU time "
           "per step\n",
           settings->ranks, (unsigned long long)result->steps, settings->step_seconds, rates.weeks,
           (double)result->steps * settings->ranks, result->judge_ms);
    printf("Pareto tails: compute above %.2f %% of its work, index %.2f; host above %.2f %% of a "
           "step, index %.2f; transfer above %.1f %%, index %.2f\n",
           100 * result->compute.from, result->compute.index, 100 * result->host.from,
           result->host.index, 100 * result->transfer.from, result->transfer.index);
    printf("%llu false alarms: %.2f per week, with 95 %% confidence at most %.2f; %llu steps "
           "differed from their replay\n",
           (unsigned long long)result->alarms, rates.rate, rates.upper,
           (unsigned long long)result->unfit);
    for (uint64_t i = 0; i < MIN(result->alarms, NOISE_ALARMS_KEPT); i++)
        printf("  step %llu: %s\n", (unsigned long long)result->alarm[i].step,
               result->alarm[i].text);
    printf("faults injected into the same noise:\n");
    for (uint32_t i = 0; i < result->faults; i++) {
        const struct noise_fault *fault = &result->fault[i];

        if (fault->found)
            printf("  %-32s named after %llu steps, %u other verdicts\n", fault->name,
                   (unsigned long long)fault->steps, fault->wrong);
        else
            printf("  %-32s not named%s, %u other verdicts\n", fault->name,
                   fault->must ? "" : " (not required: in each step another rank costs more)",
                   fault->wrong);
    }
}

/* 0: at most one alarm a week, with 95 % certainty; 1: more, or a fault was missed; 3: too few steps to tell. */
static int bench_noise_outcome(const struct bench_noise_settings *settings,
                               const struct noise_job_result *result)
{
    struct rates rates = rates_of(settings, result);

    for (uint32_t i = 0; i < result->faults; i++) {
        if ((!result->fault[i].found && result->fault[i].must) || result->fault[i].wrong)
            return 1;
    }
    if (rates.rate > 1)
        return 1;
    return rates.upper <= 1 ? 0 : 3;
}

static int noise_measure(const struct bench_noise_settings *settings, const struct noise_tape *tape)
{
    struct noise_job_settings job = { .ranks = settings->ranks,
                                      .steps = settings->steps,
                                      .seed = settings->seed,
                                      .step_s = settings->step_seconds,
                                      .seconds = settings->seconds,
                                      .often = settings->often,
                                      .with_faults = true,
                                      .tape = tape };
    CLEAN(free_clean) struct noise_job_result *result = calloc(1, sizeof(*result));
    struct err err = { "" };

    if (!result)
        return 3;
    if (isatty(STDERR_FILENO))
        job.progress = bench_show_progress;
    if (noise_job_run(&job, result, &err) < 0) {
        log_error("%s", err.text);
        return 3;
    }
    if (job.progress)
        fputc('\r', stderr);
    if (settings->json)
        bench_noise_print_json(settings, result);
    else
        bench_noise_print_text(settings, result);
    if (bench_noise_outcome(settings, result) == 3)
        log_error("too few steps to prove at most one alarm per week; increase --seconds");
    return bench_noise_outcome(settings, result);
}

/* ---- the sequential test alone ---- */

#define SIM_RUNS 400
#define SIM_STEPS 8000000

static void noise_detect_print_json(const struct detect_sim *sim)
{
    struct json_object *root = json_object_new_object(), *delays = json_object_new_array();
    struct json_object *alarms = json_object_new_array();

    for (uint32_t i = 0; i < sim->delays; i++) {
        const struct detect_sim_delay *row = &sim->delay[i];
        struct json_object *object = json_object_new_object();

        json_object_object_add(object, "rise", json_object_new_double(row->rise));
        json_object_object_add(object, "noise", json_object_new_double(row->noise));
        json_object_object_add(object, "units", json_object_new_int64(row->units));
        json_object_object_add(object, "bound_steps", json_object_new_double(row->bound));
        json_object_object_add(object, "mean_steps", json_object_new_double(row->mean));
        json_object_object_add(object, "p90_steps", json_object_new_double(row->p90));
        json_object_array_add(delays, object);
    }
    for (uint32_t i = 0; i < sim->alarm_rows; i++) {
        const struct detect_sim_alarms *row = &sim->alarms[i];
        struct json_object *object = json_object_new_object();

        json_object_object_add(object, "noise", json_object_new_string(row->noise));
        json_object_object_add(object, "units", json_object_new_int64(row->units));
        json_object_object_add(object, "weeks", json_object_new_double(row->weeks));
        json_object_object_add(object, "asked", json_object_new_double(row->asked));
        json_object_object_add(object, "raised", json_object_new_double(row->raised));
        json_object_array_add(alarms, object);
    }
    json_object_object_add(root, "delays", delays);
    json_object_object_add(root, "alarms", alarms);
    json_object_object_add(root, "good", json_object_new_boolean(sim->good));
    puts(json_object_to_json_string_ext(root, JSON_C_TO_STRING_PRETTY));
    json_object_put(root);
}

static void noise_detect_print_text(const struct detect_sim *sim)
{
    printf("  slower  noise  units   bound    mean     p90  mean/bound   (steps to the alarm)\n");
    for (uint32_t i = 0; i < sim->delays; i++) {
        const struct detect_sim_delay *row = &sim->delay[i];

        printf("   %3.0f %%  %3.0f %% %6u %7.1f %7.1f %7.0f %11.2f%s\n", 100 * row->rise,
               100 * row->noise, row->units, row->bound, row->mean, row->p90,
               row->mean / row->bound,
               row->mean > DETECT_SIM_LATE * row->bound ? "  too late" : "");
    }
    printf("  units     weeks  asked for  raised   (false alarms of all units together)\n");
    for (uint32_t i = 0; i < sim->alarm_rows; i++) {
        const struct detect_sim_alarms *row = &sim->alarms[i];

        printf("%7u %9.4f %10.0f %7.0f   %s noise%s\n", row->units, row->weeks, row->asked,
               row->raised, row->noise, row->raised > row->asked ? ": too many" : "");
    }
}

static int noise_detect(const struct bench_noise_settings *settings)
{
    const struct detect_sim_settings sim_settings = { .seed = settings->seed,
                                                      .step_s = settings->step_seconds,
                                                      .runs = SIM_RUNS,
                                                      .steps = settings->steps ? settings->steps
                                                                               : SIM_STEPS };
    struct detect_sim sim;

    if (detect_sim_run(&sim_settings, &sim) < 0) {
        log_error("no memory");
        return 3;
    }
    if (settings->json)
        noise_detect_print_json(&sim);
    else
        noise_detect_print_text(&sim);
    return sim.good ? 0 : 1;
}

/* ---- small jobs ---- */

#define CASES_RIGHT 0.95 /* ranks, of the cases with a fault ... */
#define CASES_LAYER 0.9  /* ... and layer */
#define CASES_EARLY 0.03 /* verdicts about nothing, of all cases */

static struct noise_case_row noise_cases_sum(const struct noise_cases_result *result)
{
    struct noise_case_row sum = { .name = "all" };

    for (int kind = 0; kind < NOISE_CASE_KINDS; kind++) {
        const struct noise_case_row *row = &result->row[kind];

        if (kind != NOISE_CASE_NONE)
            sum.cases += row->cases;
        sum.found += row->found;
        sum.ranks += row->ranks;
        sum.layer += row->layer;
        sum.silent += row->silent;
        sum.early += row->early;
        sum.steps += row->steps;
    }
    return sum;
}

static struct json_object *noise_case_row_json(const struct noise_case_row *row)
{
    struct json_object *object = json_object_new_object();

    json_object_object_add(object, "fault", json_object_new_string(row->name));
    json_object_object_add(object, "cases", json_object_new_int64(row->cases));
    json_object_object_add(object, "kind_right", json_object_new_int64(row->found));
    json_object_object_add(object, "ranks_right", json_object_new_int64(row->ranks));
    json_object_object_add(object, "layer_right", json_object_new_int64(row->layer));
    json_object_object_add(object, "silent", json_object_new_int64(row->silent));
    json_object_object_add(object, "about_nothing", json_object_new_int64(row->early));
    json_object_object_add(object, "steps",
                           json_object_new_double(row->steps / MAX(1, row->found)));
    return object;
}

static void noise_cases_print_json(const struct noise_cases_result *result)
{
    struct json_object *root = json_object_new_object(), *rows = json_object_new_array();
    struct json_object *bins = json_object_new_array();
    struct noise_case_row sum = noise_cases_sum(result);

    for (int kind = 0; kind < NOISE_CASE_KINDS; kind++) {
        if (result->row[kind].cases)
            json_object_array_add(rows, noise_case_row_json(&result->row[kind]));
    }
    json_object_array_add(rows, noise_case_row_json(&sum));
    for (int bin = 0; bin < NOISE_CASE_BINS; bin++) {
        struct json_object *object = json_object_new_object();

        if (!result->verdicts[bin]) {
            json_object_put(object);
            continue;
        }
        json_object_object_add(object, "verdicts", json_object_new_int64(result->verdicts[bin]));
        json_object_object_add(
            object, "confidence",
            json_object_new_double(result->confidence[bin] / result->verdicts[bin]));
        json_object_object_add(
            object, "right",
            json_object_new_double((double)result->right[bin] / result->verdicts[bin]));
        json_object_array_add(bins, object);
    }
    json_object_object_add(root, "faults", rows);
    json_object_object_add(root, "reliability", bins);
    puts(json_object_to_json_string_ext(root, JSON_C_TO_STRING_PRETTY));
    json_object_put(root);
}

static void noise_case_row_print(const struct noise_case_row *row)
{
    printf("%-24s %5u %6u %6u %6u %7u %7u %10.1f\n", row->name, row->cases, row->found, row->ranks,
           row->layer, row->silent, row->early, row->steps / MAX(1, row->found));
}

static void noise_cases_print_text(const struct noise_cases_result *result)
{
    struct noise_case_row sum = noise_cases_sum(result);

    printf("fault                    cases   kind  ranks  layer  silent  early  mean steps   "
           "(right; early: "
           "verdicts about nothing)\n");
    for (int kind = 0; kind < NOISE_CASE_KINDS; kind++) {
        if (result->row[kind].cases)
            noise_case_row_print(&result->row[kind]);
    }
    noise_case_row_print(&sum);
    for (int bin = 0; bin < NOISE_CASE_BINS; bin++) {
        if (result->verdicts[bin])
            printf("of %u verdicts with confidence %.2f on average, %.2f are right\n",
                   result->verdicts[bin], result->confidence[bin] / result->verdicts[bin],
                   (double)result->right[bin] / result->verdicts[bin]);
    }
    for (uint32_t i = 0; i < result->wrongs; i++)
        printf("  %s\n", result->wrong[i]);
}

static int noise_cases(const struct bench_noise_settings *settings)
{
    CLEAN(free_clean) struct noise_cases_result *result = calloc(1, sizeof(*result));
    struct err err = { "" };
    struct noise_case_row sum;
    uint32_t all;

    if (!result || noise_cases_run(settings->seed, settings->cases, result, &err) < 0) {
        log_error("%s", result ? err.text : "no memory");
        return 3;
    }
    if (settings->json)
        noise_cases_print_json(result);
    else
        noise_cases_print_text(result);
    sum = noise_cases_sum(result);
    all = sum.cases + result->row[NOISE_CASE_NONE].cases;
    return sum.ranks >= CASES_RIGHT * sum.cases && sum.layer >= CASES_LAYER * sum.cases &&
                   sum.early <= CASES_EARLY * all
               ? 0
               : 1;
}

int bench_noise_main(int argc, char **argv)
{
    struct bench_noise_settings settings = {
        .ranks = 16384, .seed = 1, .step_seconds = 6, .often = 1, .seconds = 60
    };
    int parsed = opt_parse_all(&command_bench_noise, argc, argv, &settings);
    CLEAN(free_clean) struct noise_tape *tape = NULL;
    struct err err = { "" };

    if (parsed < 0)
        return OPT_EXIT(parsed);
    if (settings.ranks < 2 * NOISE_RANKS || settings.ranks % NOISE_RANKS ||
        settings.ranks > MODEL_RANKS_MAX || !(settings.step_seconds > 0) ||
        !(settings.often >= 0) || (settings.print && !settings.from)) {
        log_error(
            settings.print && !settings.from
                ? "--print-tape needs --from RUN"
                : "--ranks must be a multiple of 8 from 16 to 262144, --step-seconds above 0");
        return 2;
    }
    if (settings.detect)
        return noise_detect(&settings);
    if (settings.cases)
        return noise_cases(&settings);
    if (!settings.steps)
        settings.steps = (uint64_t)(WEEK_S / settings.step_seconds);
    if (settings.from) {
        tape = calloc(1, sizeof(*tape));
        if (!tape || bench_tape_read(settings.from, tape, &err) < 0) {
            log_error("%s", err.text);
            return 3;
        }
    }
    if (settings.print) {
        noise_tape_print(tape, stdout);
        return 0;
    }
    return noise_measure(&settings, tape ? tape : &noise_tape_recorded);
}
