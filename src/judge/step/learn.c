/* learn.c - one pass over a rank's step, in launch order.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/step/learn.h"

#include <string.h>

#include "core/clean.h"

struct pass {
    struct model_class *class;
    const struct item_time *time;
    const struct thresholds *limits;
    int64_t tolerance_ns;
    struct
        looked { /* by the line that looks, then the line looked at: starts of a line only grow */
        uint32_t ended; /* ops of that line, in order, that had ended by then */
        uint32_t at;    /* the item of the first that had not */
    } looked[MODEL_LINES_MAX][MODEL_LINES_MAX];
    int64_t last_end_ns; /* latest end of all launched so far */
    int64_t span_end_ns; /* end of the last span launched */
    bool span_seen;
};

static void learn_forbid(struct model_class *class, uint8_t *flag)
{
    if (*flag) {
        *flag = 0;
        class->version++;
    }
}

static void learn_allow(struct model_class *class, uint8_t *flag)
{
    if (!*flag) {
        *flag = 1;
        class->version++;
    }
}

/* How many ops of `line`, launched before item `before`, had ended by `by_ns`. */
static uint32_t learn_ended_by(struct pass *pass, uint32_t line, uint32_t before, int64_t by_ns)
{
    const struct model_class *class = pass->class;
    struct looked *looked = &pass->looked[class->line[before]][line];

    for (; looked->at < before; looked->at++) {
        if (class->line[looked->at] != line)
            continue;
        if (pass->time[looked->at].end_ns > by_ns)
            break;
        looked->ended++;
    }
    return looked->ended;
}

/* An op starts after what had always ended by then on the other lines. */
static void learn_after(struct pass *pass, uint32_t item)
{
    struct model_class *class = pass->class;
    int64_t by_ns = pass->time[item].start_ns + pass->tolerance_ns;

    for (uint32_t line = 1; line < class->lines; line++) {
        uint32_t count;

        if (line == class->line[item])
            continue;
        count = learn_ended_by(pass, line, item, by_ns);
        if (count < class->after[line][item]) {
            class->after[line][item] = count;
            class->version++;
        }
    }
}

static void learn_span(struct pass *pass, uint32_t item)
{
    pass->span_end_ns = pass->time[item].end_ns;
    pass->span_seen = true;
}

static void learn_comm(struct pass *pass, uint32_t item)
{
    if (!pass->span_seen || pass->span_end_ns > pass->time[item].start_ns + pass->tolerance_ns)
        learn_forbid(pass->class, &pass->class->after_span[item]);
}

static double learn_variance(const struct model_pace *pace, int of)
{
    return pace->squares[of] / pace->count;
}

/* Whether the host waited for what ended between two of its points, or was at work and it merely
 * ended meanwhile: if it waited, its time since that end is what varies less from step to step.
 */
static void learn_pace(struct pass *pass, uint32_t point, int64_t gap_ns, int64_t lag_ns)
{
    struct model_class *class = pass->class;
    struct model_pace *pace = &class->pace[point];
    const double value[2] = { (double)gap_ns / 1e3, (double)lag_ns / 1e3 };
    double clear = pass->limits->learn_pace_clear;

    pace->count++;
    for (int of = 0; of < 2; of++) {
        double off = value[of] - pace->mean[of];

        pace->mean[of] += off / pace->count;
        pace->squares[of] += off * (value[of] - pace->mean[of]);
    }
    if (pace->count < pass->limits->verdict_steps ||
        learn_variance(pace, 1) * clear < learn_variance(pace, 0))
        learn_allow(class, &class->waited[point]);
    else if (learn_variance(pace, 0) * clear < learn_variance(pace, 1))
        learn_forbid(class, &class->waited[point]);
}

static void learn_host(struct pass *pass, uint32_t point, int64_t before_ns, int64_t now_ns)
{
    struct model_class *class = pass->class;
    int64_t awaited_ns = pass->last_end_ns;

    if (awaited_ns > now_ns + pass->tolerance_ns) {
        if (class->sync[point] && class->pace)
            class->pace[point] = (struct model_pace){ 0 }; /* it was of another end */
        learn_forbid(class, &class->sync[point]);
    }
    if (!class->sync[point]) {
        if (!class->newest || !class->newest[point])
            return;
        awaited_ns = pass->time[point - 1].end_ns;
        if (awaited_ns > now_ns + pass->tolerance_ns) {
            learn_forbid(class, &class->newest[point]);
            return;
        }
    }
    if (awaited_ns <= before_ns + pass->tolerance_ns)
        return;
    if (class->pace)
        learn_pace(pass, point, now_ns - before_ns, now_ns - awaited_ns);
    else
        learn_allow(class, &class->waited[point]);
}

void learn_step(struct model_class *class, const struct fact_step *step,
                const struct thresholds *limits)
{
    int64_t total = step->duration_ns + step->tail_ns, before = 0;
    int64_t prompt_ns = (int64_t)(limits->learn_prompt * 1e6);
    struct pass pass = {
        .class = class,
        .limits = limits,
        .time = step->time,
        .tolerance_ns = learn_tolerance_ns(total),
        .last_end_ns = INT64_MIN / 2,
    };

    for (uint32_t i = 0; i < class->count; i++) {
        const struct item_time *time = &step->time[i];

        learn_host(&pass, i, before, time->enqueue_ns);
        before = time->enqueue_ns;
        if (class->kind[i] == ITEM_PHASE)
            continue;
        if (time->start_ns - time->enqueue_ns < prompt_ns)
            learn_allow(class, &class->prompt[i]);
        learn_after(&pass, i);
        if (class->kind[i] == ITEM_SPAN)
            learn_span(&pass, i);
        else
            learn_comm(&pass, i);
        pass.last_end_ns = MAX(pass.last_end_ns, time->end_ns);
    }
    learn_host(&pass, class->count, before, total);
    class->learnt++;
}
