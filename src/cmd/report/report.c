/* report.c - lockstep report: what a run achieved and what it lost, for whoever pays for it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "cmd/lockstep.h"
#include "cmd/report/run_source.h"
#include "control/report/score_card.h"
#include "control/site/api/page_save.h"
#include "core/clean.h"

#define FLOP_PER_PARAMETER 6 /* forward and backward, per token */

struct report_settings {
    bool json;
    const char *output;
    const char *precision;
    double parameters, flop_per_token, peak_tflops, price;
    struct site_options site;
};

static const struct opt report_opts[] = {
    { "json", 0, OPT_FLAG, offsetof(struct report_settings, json), NULL, "one JSON object", NULL,
      false },
    { "output", 'o', OPT_TEXT, offsetof(struct report_settings, output), "FILE",
      "save the page of the run as one HTML file, which opens without a network", NULL, false },
    { "parameters", 0, OPT_F64, offsetof(struct report_settings, parameters), "N",
      "parameters of the model, for MFU with 6 x N FLOP per token", NULL, false },
    { "flop-per-token", 0, OPT_F64, offsetof(struct report_settings, flop_per_token), "F",
      "FLOP per token, instead of --parameters", NULL, false },
    { "peak-tflops", 0, OPT_F64, offsetof(struct report_settings, peak_tflops), "T",
      "peak TFLOP/s of one GPU in the precision of the training, for MFU", NULL, false },
    { "precision", 0, OPT_TEXT, offsetof(struct report_settings, precision), "P",
      "bf16 (default), fp16, fp8 or tf32: whose peak it is, where the GPU's name says it", NULL,
      false },
    { "price", 0, OPT_F64, offsetof(struct report_settings, price), "P",
      "price of a GPU-hour, for learning velocity per unit of money", NULL, false },
    SITE_ASK_OPTS(offsetof(struct report_settings, site)),
    { .name = NULL },
};

/* A run that was opened. */
static int report_score(const struct run_source *source, const struct report_settings *settings,
                        struct score_card *ret, struct err *err)
{
    const struct score_question question = {
        .flop_per_token = settings->flop_per_token > 0 ? settings->flop_per_token
                                                       : FLOP_PER_PARAMETER * settings->parameters,
        .peak_flops = settings->peak_tflops * 1e12,
        .precision = settings->precision,
        .price = settings->price,
    };

    return score_card_read(source->directory.text, &question, ret, err);
}

static int report_read(const char *run, const struct report_settings *settings,
                       struct score_card *ret, struct err *err)
{
    CLEAN(run_source_close) struct run_source source = { 0 };
    int result = run_source_open(run, &settings->site, &source, err);

    return result < 0 ? result : report_score(&source, settings, ret, err);
}

static void report_print_json(const struct score_card *card, size_t count)
{
    struct json_object *root, *list;
    struct score_card sum;

    if (count == 1) {
        root = score_json(card);
    } else {
        score_card_sum(card, count, &sum);
        root = json_object_new_object();
        list = json_object_new_array();
        for (size_t i = 0; i < count; i++)
            json_object_array_add(list, score_json(&card[i]));
        json_object_object_add(root, "runs", list);
        json_object_object_add(root, "goodput", show_number(sum.goodput));
        json_object_object_add(root, "ettr", show_number(sum.ettr));
        json_object_object_add(root, "failures", json_object_new_int64(sum.failures));
        json_object_object_add(root, "exposure_seconds", show_number(sum.exposure_seconds));
        json_object_object_add(root, "mttf_seconds", show_number(sum.mttf_seconds));
        json_object_object_add(root, "mttf_low", show_number(sum.mttf_low));
        json_object_object_add(root, "mttf_high", show_number(sum.mttf_high));
    }
    show_json(root, JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_PRETTY);
    json_object_put(root);
}

static void report_print_text(const struct score_card *card, size_t count)
{
    struct show_style style = show_style_of(stdout);
    struct score_card sum;

    for (size_t i = 0; i < count; i++) {
        score_text(&card[i], &style, stdout);
        if (count > 1)
            fputc('\n', stdout);
    }
    if (count < 2)
        return;
    score_card_sum(card, count, &sum);
    score_sum_text(&sum, stdout);
}

static int report_print(const char *const *run, size_t count,
                        const struct report_settings *settings)
{
    CLEAN(free_clean) struct score_card *card = calloc(count ? count : 1, sizeof(*card));
    struct err err = { "" };
    int result = card ? 0 : err_nomem(&err);

    for (size_t i = 0; result == 0 && i < (count ? count : 1); i++)
        result = report_read(count ? run[i] : NULL, settings, &card[i], &err);
    if (result < 0) {
        log_error("%s", err.text);
        return site_ask_exit(result);
    }
    if (settings->json)
        report_print_json(card, count ? count : 1);
    else
        report_print_text(card, count ? count : 1);
    result = card[0].steps ? 0 : 3;
    for (size_t i = 0; i < (count ? count : 1); i++)
        score_card_fini(&card[i]);
    return result;
}

static int report_save(const char *run, const struct report_settings *settings)
{
    CLEAN(run_source_close) struct run_source source = { 0 };
    CLEAN(free_clean) struct score_card *card = calloc(1, sizeof(*card));
    struct json_object *report = NULL;
    struct err err = { "" };
    int result = card ? run_source_open(run, &settings->site, &source, &err) : err_nomem(&err);

    if (result == 0)
        result = report_score(&source, settings, card, &err);
    if (result == 0) {
        report = score_json(card);
        result = page_save(source.directory.text, settings->output, report, &err);
        score_card_fini(card);
    }
    json_object_put(report);
    if (result < 0) {
        log_error("%s", err.text);
        return site_ask_exit(result);
    }
    if (!settings->json)
        printf("%s: saved; it opens in a browser, without a network\n", settings->output);
    return 0;
}

static int report_main(int argc, char **argv)
{
    const char **run = (const char **)(argv + 1); /* operands move to the front */
    struct report_settings settings = { 0 };
    size_t count = 0;

    for (int first = opt_parse(&command_report, argc, argv, &settings); first != argc;
         first = opt_parse_more(&command_report, argc, argv, &settings)) {
        if (first < 0)
            return OPT_EXIT(first);
        argv += first;
        argc -= first;
        run[count++] = argv[0];
    }
    if (settings.parameters < 0 || settings.flop_per_token < 0 || settings.peak_tflops < 0 ||
        settings.price < 0) {
        log_error("--parameters, --flop-per-token, --peak-tflops and --price must not be negative");
        return 2;
    }
    if (settings.output && count > 1) {
        log_error("--output: expected one run");
        return 2;
    }
    if (settings.output && !settings.output[0]) {
        log_error("--output: expected the name of a file");
        return 2;
    }
    if (settings.output)
        return report_save(count ? run[0] : NULL, &settings);
    return report_print((const char *const *)run, count, &settings);
}

const struct command command_report = {
    .name = "report",
    .operands = "[RUN]...",
    .summary = "the score card of a run: goodput, MFU, failures, checkpoints, the dearest verdicts",
    .details = "Without RUN it is the newest.  What is not known is reported as such, with the "
               "reason.\n"
               "Exit status: 0 printed, 2 not a run, 3 cannot tell: no step was observed.",
    .opt = report_opts,
    .run = report_main,
};
