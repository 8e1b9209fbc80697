/* score_view.c - the score card as text and as JSON, beside published figures.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "show/score_view.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "core/clean.h"
#include "show/ledger_view.h"
#include "show/verdict_view.h"

static const char *score_mfu_formula(const struct score_card *card)
{
    return card->mfu_by_ranks
               ? "FLOP that the ranks reported (6 x parameters x tokens of each) / (GPU-seconds of "
                 "their steps x peak FLOP/s of a GPU)"
               : "tokens x FLOP per token / (tp x pp x GPU-seconds of the steps "
                 "that processed them x peak FLOP/s of a GPU)";
}

void score_card_fini(struct score_card *card)
{
    free(card->device);
    card->device = NULL;
    card->devices = 0;
}

/* Figures that others have published, for comparison.  None is a measurement of this run. */
static const struct {
    const char *field, *text;
    double low, high;
    uint32_t gpus; /* 0: of no certain size */
} published[] = {
    { "ettr", "97 to 98 %", 0.97, 0.98, 0 },
    { "mfu", "51 to 52 %", 0.51, 0.52, 0 },
    { "mfu", "35 to 45 % in industry", 0.35, 0.45, 0 },
    { "goodput", "about 90 %", 0.90, 0.90, 0 },
    { "mttf_seconds", "7.9 h at 1,024 GPUs", 28440, 28440, 1024 },
    { "mttf_seconds", "1.8 h at 16,384 GPUs", 6480, 6480, 16384 },
};

void score_set_unknown(struct score_card *card, const char *field, const char *format, ...)
{
    struct score_unknown *unknown = &card->unknown[card->unknown_count];
    va_list args;

    for (uint32_t i = 0; i < card->unknown_count; i++) {
        if (strcmp(card->unknown[i].field, field) == 0)
            return;
    }
    if (card->unknown_count == SCORE_UNKNOWN)
        return;
    card->unknown_count++;
    unknown->field = field;
    va_start(args, format);
    vsnprintf(unknown->why, sizeof(unknown->why), format, args);
    va_end(args);
}

static const char *score_why_unknown(const struct score_card *card, const char *field)
{
    for (uint32_t i = 0; i < card->unknown_count; i++) {
        if (strcmp(card->unknown[i].field, field) == 0)
            return card->unknown[i].why;
    }
    return "not observed";
}

/* ---- JSON ---- */

static struct json_object *score_dearest_json(const struct score_card *card)
{
    struct json_object *list = json_object_new_array();

    for (uint32_t i = 0; i < card->dearest_count; i++)
        json_object_array_add(list, verdict_json(&card->dearest[i]));
    return list;
}

static struct json_object *score_savings_json(const struct score_card *card)
{
    struct json_object *list = json_object_new_array();

    for (uint32_t i = 0; i < card->saving_count; i++) {
        struct json_object *one = json_object_new_object();

        json_object_object_add(one, "without", show_string(card->saving[i].what));
        json_object_object_add(one, "gpu_seconds", show_number(card->saving[i].gpu_seconds));
        json_object_array_add(list, one);
    }
    return list;
}

static struct json_object *score_published_json(void)
{
    struct json_object *list = json_object_new_array();

    for (size_t i = 0; i < COUNT(published); i++) {
        struct json_object *one = json_object_new_object();

        json_object_object_add(one, "field", json_object_new_string(published[i].field));
        json_object_object_add(one, "low", show_number(published[i].low));
        json_object_object_add(one, "high", show_number(published[i].high));
        json_object_object_add(one, "gpus",
                               published[i].gpus ? json_object_new_int64(published[i].gpus) : NULL);
        json_object_array_add(list, one);
    }
    return list;
}

static struct json_object *score_unknown_json(const struct score_card *card)
{
    struct json_object *root = json_object_new_object();

    for (uint32_t i = 0; i < card->unknown_count; i++)
        json_object_object_add(root, card->unknown[i].field, show_string(card->unknown[i].why));
    return root;
}

static struct json_object *score_devices_json(const struct score_card *card)
{
    struct json_object *list = json_object_new_array();

    for (uint32_t i = 0; i < card->devices; i++) {
        const struct score_device *device = &card->device[i];
        struct json_object *one = json_object_new_object();

        json_object_object_add(one, "rank", json_object_new_int64(device->rank));
        json_object_object_add(one, "computing", show_number(device->computing / device->seconds));
        json_object_object_add(one, "idle", show_number(device->idle / device->seconds));
        json_object_array_add(list, one);
    }
    return list;
}

struct json_object *score_json(const struct score_card *card)
{
    const struct {
        const char *name;
        double value;
    } numbers[] = {
        { "goodput", card->goodput },
        { "ettr", card->ettr },
        { "mfu", card->mfu },
        { "device_computing", card->device_computing },
        { "device_idle", card->device_idle },
        { "mttf_seconds", card->mttf_seconds },
        { "mttf_low", card->mttf_low },
        { "mttf_high", card->mttf_high },
        { "time_to_first_step_seconds", card->time_to_first_step_seconds },
        { "time_to_steady_seconds", card->time_to_steady_seconds },
        { "checkpoint_p50_s", card->checkpoint_p50_s },
        { "checkpoint_p99_s", card->checkpoint_p99_s },
        { "pauses_per_hour", card->pauses_per_hour },
        { "learning_velocity", card->learning_velocity },
        { "learning_velocity_per_money", card->learning_velocity_per_money },
        { "tokens_per_second", card->tokens_per_second },
        { "exposure_seconds", card->exposure_seconds },
        { "queue_seconds", card->queue_seconds },
        { "prolog_seconds", card->prolog_seconds },
        { "start_up_seconds", card->start_up_seconds },
        { "checkpoint_deviation_s", card->checkpoint_deviation_s },
        { "step_p50_s", card->step_p50_s },
        { "step_p99_s", card->step_p99_s },
        { "data_p50_s", card->data_p50_s },
        { "data_p50_at_spikes_s", card->data_p50_at_spikes_s },
        { "loss_first", card->loss_first },
        { "loss_last", card->loss_last },
    };
    struct json_object *root = json_object_new_object();

    json_object_object_add(root, "run", show_string(card->run));
    json_object_object_add(root, "alive", json_object_new_boolean(card->alive));
    for (size_t i = 0; i < COUNT(numbers); i++)
        json_object_object_add(root, numbers[i].name, show_number(numbers[i].value));
    json_object_object_add(root, "mfu_formula", json_object_new_string(score_mfu_formula(card)));
    json_object_object_add(root, "mfu_peak",
                           card->mfu_peak[0] ? show_string(card->mfu_peak) : NULL);
    json_object_object_add(root, "devices", score_devices_json(card));
    json_object_object_add(root, "ranks", json_object_new_int64(card->ranks));
    json_object_object_add(root, "attempts", json_object_new_int64(card->attempts));
    json_object_object_add(root, "failures", json_object_new_int64(card->failures));
    json_object_object_add(root, "checkpoints", json_object_new_int64(card->checkpoints));
    json_object_object_add(root, "pauses", json_object_new_int64(card->pauses));
    json_object_object_add(root, "steps", json_object_new_uint64(card->steps));
    json_object_object_add(root, "steps_measured", json_object_new_uint64(card->steps_measured));
    json_object_object_add(root, "steps_left_out", json_object_new_uint64(card->steps_left_out));
    json_object_object_add(root, "spikes", json_object_new_uint64(card->spikes));
    json_object_object_add(root, "dearest", score_dearest_json(card));
    json_object_object_add(root, "savings", score_savings_json(card));
    json_object_object_add(root, "ledger", card->has_ledger ? ledger_json(&card->ledger) : NULL);
    json_object_object_add(root, "published", score_published_json());
    json_object_object_add(root, "unknown", score_unknown_json(card));
    return root;
}

/* ---- text ---- */

static const char *score_time_text(double seconds, char out[static 32])
{
    if (seconds < 100)
        return show_seconds(seconds, out);
    if (seconds < 3600)
        snprintf(out, 32, "%.1f min", seconds / 60);
    else if (seconds < 48 * 3600)
        snprintf(out, 32, "%.1f h", seconds / 3600);
    else
        snprintf(out, 32, "%.1f d", seconds / 86400);
    return out;
}

/* "goodput          85.1 %   published: about 90 %" */
static void score_print(const struct score_card *card, const char *label, const char *field,
                        double value, const char *text, FILE *out)
{
    char line[96];
    bool first = true;

    if (isnan(value))
        snprintf(line, sizeof(line), "not known");
    else
        snprintf(line, sizeof(line), "%s", text);
    fprintf(out, "  %-22s %s", label, line);
    for (size_t i = 0; i < COUNT(published); i++) {
        if (strcmp(published[i].field, field) != 0)
            continue;
        if (first)
            fprintf(out, "%*s published: ", MAX(0, 22 - (int)strlen(line)), "");
        fprintf(out, "%s%s", first ? "" : "; ", published[i].text);
        first = false;
    }
    fputc('\n', out);
    if (isnan(value))
        fprintf(out, "  %22s   %s\n", "", score_why_unknown(card, field));
}

static void score_print_share(const struct score_card *card, const char *label, double value,
                              FILE *out)
{
    char text[32];

    snprintf(text, sizeof(text), "%.1f %%", 100 * value);
    score_print(card, label, label, value, text, out);
}

static void score_print_time(const struct score_card *card, const char *label, const char *field,
                             double value, FILE *out)
{
    char text[32];

    score_print(card, label, field, value, isnan(value) ? "" : score_time_text(value, text), out);
}

static void score_print_mttf(const struct score_card *card, FILE *out)
{
    char middle[32] = "", low[32] = "", high[32] = "", text[96];

    if (!isnan(card->mttf_seconds))
        score_time_text(card->mttf_seconds, middle);
    score_print(card, "mttf", "mttf_seconds", card->mttf_seconds, middle, out);
    if (isnan(card->mttf_low))
        return;
    score_time_text(card->mttf_low, low);
    if (isnan(card->mttf_high))
        snprintf(text, sizeof(text), "more than %s", low);
    else
        snprintf(text, sizeof(text), "%s to %s", low, score_time_text(card->mttf_high, high));
    fprintf(out,
            "  %22s   %s with 95 %% confidence: %" PRIu32 " failure%s in %s of training on %" PRIu32
            " rank%s\n",
            "", text, card->failures, card->failures == 1 ? "" : "s",
            score_time_text(card->exposure_seconds, middle), card->ranks,
            card->ranks == 1 ? "" : "s");
}

static void score_print_checkpoints(const struct score_card *card, FILE *out)
{
    char middle[32] = "", high[32], spread[32], text[96] = "";

    if (!isnan(card->checkpoint_p50_s))
        snprintf(text, sizeof(text), "%s, p99 %s", show_seconds(card->checkpoint_p50_s, middle),
                 show_seconds(card->checkpoint_p99_s, high));
    score_print(card, "checkpoint", "checkpoint_p50_s", card->checkpoint_p50_s, text, out);
    if (!isnan(card->checkpoint_p50_s))
        fprintf(out, "  %22s   median of %" PRIu32 ", standard deviation %s\n", "",
                card->checkpoints, show_seconds(card->checkpoint_deviation_s, spread));
}

static void score_print_spikes(const struct score_card *card, FILE *out)
{
    char text[96] = "", middle[32], high[32];

    if (!isnan(card->step_p50_s))
        snprintf(text, sizeof(text), "%s, p99 %s", show_seconds(card->step_p50_s, middle),
                 show_seconds(card->step_p99_s, high));
    score_print(card, "step", "step_p50_s", card->step_p50_s, text, out);
    if (isnan(card->step_p50_s))
        return;
    fprintf(out, "  %22s   %" PRIu64 " spike%s (steps over 1.5 times the median)", "", card->spikes,
            card->spikes == 1 ? "" : "s");
    if (!isnan(card->data_p50_at_spikes_s))
        fprintf(out, "; input wait %s there, %s otherwise",
                show_seconds(card->data_p50_at_spikes_s, high),
                show_seconds(isnan(card->data_p50_s) ? 0 : card->data_p50_s, middle));
    fputc('\n', out);
}

static void score_print_learning(const struct score_card *card, FILE *out)
{
    char text[64] = "";

    if (!isnan(card->learning_velocity))
        snprintf(text, sizeof(text), "%.4g per GPU-hour", card->learning_velocity);
    score_print(card, "learning velocity", "learning_velocity", card->learning_velocity, text, out);
    if (!isnan(card->learning_velocity))
        fprintf(out, "  %22s   loss %.4g at the beginning, %.4g at the end\n", "", card->loss_first,
                card->loss_last);
    if (!isnan(card->learning_velocity_per_money))
        fprintf(out, "  %22s   %.4g per unit of money at %.4g per GPU-hour\n", "",
                card->learning_velocity_per_money, card->price);
}

static void score_print_dearest(const struct score_card *card, FILE *out)
{
    double total = card->has_ledger ? ledger_total(&card->ledger) : 0;

    if (!card->dearest_count) {
        fputs("\nno verdict has a cost\n", out);
        return;
    }
    fputs("\nthe dearest verdicts, in GPU-seconds\n", out);
    for (uint32_t i = 0; i < card->dearest_count; i++) {
        const struct verdict *verdict = &card->dearest[i];
        char sentence[320], id[24];

        fprintf(out, "  %10.1f  %s (%s)\n", verdict->gpu_seconds,
                verdict_sentence(verdict, sentence, sizeof(sentence)),
                show_clean(verdict->id, id, sizeof(id)));
    }
    fputs("\nwhat would have saved most, by replay\n", out);
    for (uint32_t i = 0; i < card->saving_count; i++) {
        char what[96];

        fprintf(out, "  %10.1f  without %s", card->saving[i].gpu_seconds,
                show_clean(card->saving[i].what, what, sizeof(what)));
        if (total > 0)
            fprintf(out, " (%.1f %% of all GPU-seconds)",
                    100 * card->saving[i].gpu_seconds / total);
        fputc('\n', out);
    }
}

static void score_print_devices(const struct score_card *card, FILE *out)
{
    const struct score_device *least = card->device;
    double waiting = 1 - card->device_computing - card->device_idle;

    score_print_share(card, "device_computing", card->device_computing, out);
    if (!card->devices)
        return;
    for (uint32_t i = 1; i < card->devices; i++) {
        if (card->device[i].computing * least->seconds < least->computing * card->device[i].seconds)
            least = &card->device[i];
    }
    fprintf(out,
            "  %22s   of the devices' time in steps; waiting %.1f %%, idle %.1f %%; rank %" PRIu32
            " computes least, %.1f %%\n",
            "", 100 * MAX(waiting, 0.0), 100 * card->device_idle, least->rank,
            100 * least->computing / least->seconds);
}

void score_text(const struct score_card *card, const struct show_style *style, FILE *out)
{
    char run[64], text[64] = "";

    fprintf(out, "run %s: %" PRIu32 " rank%s, %" PRIu64 " step%s, %" PRIu32 " attempt%s%s\n",
            show_clean(card->run, run, sizeof(run)), card->ranks, card->ranks == 1 ? "" : "s",
            card->steps, card->steps == 1 ? "" : "s", card->attempts,
            card->attempts == 1 ? "" : "s", card->alive ? ", still running" : "");
    score_print_share(card, "goodput", card->goodput, out);
    score_print_share(card, "ettr", card->ettr, out);
    score_print_share(card, "mfu", card->mfu, out);
    fprintf(out, "  %22s   mfu = %s\n", "", score_mfu_formula(card));
    if (card->mfu_peak[0])
        fprintf(out, "  %22s   peak %s\n", "", card->mfu_peak);
    score_print_devices(card, out);
    if (!isnan(card->tokens_per_second)) {
        snprintf(text, sizeof(text), "%.6g", card->tokens_per_second);
        score_print(card, "tokens per second", "tokens_per_second", card->tokens_per_second, text,
                    out);
    }
    score_print_mttf(card, out);
    score_print_time(card, "time to first step", "time_to_first_step_seconds",
                     card->time_to_first_step_seconds, out);
    score_print_time(card, "  queue", "queue_seconds", card->queue_seconds, out);
    score_print_time(card, "  prolog", "prolog_seconds", card->prolog_seconds, out);
    score_print_time(card, "  start-up", "start_up_seconds", card->start_up_seconds, out);
    score_print_time(card, "time to steady steps", "time_to_steady_seconds",
                     card->time_to_steady_seconds, out);
    score_print_spikes(card, out);
    score_print_checkpoints(card, out);
    snprintf(text, sizeof(text), "%.2f (%" PRIu32 " in all)", card->pauses_per_hour, card->pauses);
    score_print(card, "pauses per hour", "pauses_per_hour", card->pauses_per_hour, text, out);
    score_print_learning(card, out);
    if (card->steps > card->steps_measured || card->steps_left_out)
        fprintf(out,
                "  times are those of %" PRIu64 " of %" PRIu64 " steps; %" PRIu64
                " of single ranks left out: incomplete, merged, or too many\n",
                card->steps_measured, card->steps, card->steps_left_out);
    score_print_dearest(card, out);
    if (card->has_ledger && card->ledger.steps) {
        fputc('\n', out);
        ledger_text(&card->ledger, style, out);
    }
}

void score_sum_text(const struct score_card *sum, FILE *out)
{
    fprintf(out, "%s runs together\n", sum->run);
    score_print_share(sum, "goodput", sum->goodput, out);
    score_print_share(sum, "ettr", sum->ettr, out);
    score_print_mttf(sum, out);
}
