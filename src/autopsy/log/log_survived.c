/* log_survived.c - errors that a program logged and survived.
 *
 * A job that catches an exception and goes on logs the same words as one that dies of it.  If the last message of a log is
 * that its training is complete, and no launcher reports a failure, the errors before that message did not end the job.  Nor
 * did those after which several steps were counted on, unless a launcher reports a failure and nothing later explains it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "autopsy/log/log_case.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/map.h"
#include "core/text.h"

/* Where a line is in its log; a higher part of a rotated log is older. */
static uint64_t log_event_place(const struct log_event *event)
{
    return (uint64_t)(UINT32_MAX - event->part) << 32 | event->line;
}

static int log_raise_to(struct map *map, uint64_t key, uint64_t place)
{
    uint64_t *last = map_put(map, key, 0);

    if (!last)
        return -ENOMEM;
    *last = MAX(*last, place);
    return 0;
}

static bool log_is_failed_exit(const struct log_event *event)
{
    return (event->kind == LOG_EVENT_EXIT || event->kind == LOG_EVENT_ROOT) && event->value != 0;
}

static uint64_t log_key_of(const struct log_event *event)
{
    return hash64_u64(event->log, event->rank);
}

/* NaN goes on for ever but where it is seen to pass, and a job that is to end may finish its step. */
static bool log_may_be_survived(const struct log_event *event)
{
    return event->kind <= LOG_EVENT_FABRIC && event->kind != LOG_EVENT_WRONG &&
           event->kind != LOG_EVENT_EXIT && event->kind != LOG_EVENT_ROOT;
}

struct log_steps {      /* of all logs */
    struct map went_on; /* log → the last place at which steps were counted on */
    struct map passed;  /* log and line → 1: of a warning whose process went on */
    struct map later;   /* log → 1: there is another error behind it */
    size_t
        logs_later; /* how many such logs there are, and others with errors that were not survived */
    bool failed;    /* a launcher reports a failure */
};

static void log_steps_fini(struct log_steps *steps)
{
    map_fini(&steps->went_on);
    map_fini(&steps->passed);
    map_fini(&steps->later);
}

static uint64_t log_line_key(const struct log_event *event, uint32_t line)
{
    return hash64_u64(event->log, (uint64_t)event->part << 32 | line);
}

static int log_steps_went_on(struct log_steps *steps, const struct log_event *event)
{
    if (event->value)
        return log_raise_to(&steps->passed, log_line_key(event, (uint32_t)event->value), 1);
    return log_raise_to(&steps->went_on, event->log, log_event_place(event));
}

/* An error of its own that explains why a launcher reports a failure. */
static bool log_explains(const struct log_event *event)
{
    return event->kind <= LOG_EVENT_DESYNC && !event->warned && !event->mention &&
           event->confidence >= 45;
}

static int log_steps_read(const struct logs *logs, struct log_steps *steps)
{
    for (size_t i = 0; i < logs->events; i++) {
        const struct log_event *event = &logs->event[i];

        steps->failed |= log_is_failed_exit(event);
        if (event->kind == LOG_EVENT_WENT_ON && log_steps_went_on(steps, event) < 0)
            return -ENOMEM;
    }
    for (size_t i = 0; i < logs->events; i++) {
        const struct log_event *event = &logs->event[i];
        const uint64_t *end = map_get(&steps->went_on, event->log);

        if (end && log_event_place(event) <= *end)
            continue;
        steps->logs_later += log_explains(event);
        if (end && log_may_be_survived(event) && log_raise_to(&steps->later, event->log, 1) < 0)
            return -ENOMEM;
    }
    return 0;
}

static bool log_is_survived(const struct log_steps *steps, const struct log_event *event)
{
    const uint64_t *end = map_get(&steps->went_on, event->log);

    if (!log_may_be_survived(event))
        return false;
    if (map_get(&steps->passed, log_line_key(event, event->line)))
        return true;
    return end && log_event_place(event) <= *end &&
           (!steps->failed || steps->logs_later || map_get(&steps->later, event->log));
}

/* What a person would look at first where nothing shows a cause. */
static void log_mention(struct findings *findings, const struct log_event *event)
{
    struct verdict_line *mention = &findings->mention;

    if (mention->what[0] || event->kind >= LOG_EVENT_FOLLOW)
        return;
    snprintf(mention->what, sizeof(mention->what), "%s", event->text);
    snprintf(mention->file, sizeof(mention->file), "%s", event->file);
    mention->what[text_clean(mention->what, strlen(mention->what), false)] = '\0';
    mention->file[text_clean(mention->file, strlen(mention->file), false)] = '\0';
    mention->line = event->line;
}

static int log_drop_gone_on(struct log_case *of)
{
    CLEAN(log_steps_fini) struct log_steps steps = { 0 };
    size_t kept = 0;

    if (log_steps_read(of->logs, &steps) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < of->items; i++) {
        if (!log_is_survived(&steps, of->item[i].event))
            of->item[kept++] = of->item[i];
        else
            log_mention(of->findings, of->item[i].event);
    }
    of->items = kept;
    return 0;
}

static int log_drop_before_end(struct log_case *of)
{
    CLEAN(map_fini) struct map completed = { 0 }; /* log and rank → its last such message */
    CLEAN(map_fini) struct map failed = { 0 };    /* log → its last error */
    size_t kept = 0;

    for (size_t i = 0; i < of->logs->events; i++) {
        const struct log_event *event = &of->logs->event[i];
        int result = 0;

        if (log_is_failed_exit(event))
            return 0;
        if (event->kind == LOG_EVENT_COMPLETED)
            result = log_raise_to(&completed, log_key_of(event), log_event_place(event));
        else if (event->kind < LOG_EVENT_FOLLOW)
            result = log_raise_to(&failed, event->log, log_event_place(event));
        if (result < 0)
            return result;
    }
    for (size_t i = 0; i < of->items; i++) {
        const struct log_event *event = of->item[i].event;
        const uint64_t *end = map_get(&completed, log_key_of(event));
        const uint64_t *last = map_get(&failed, event->log);

        if (event->kind >= LOG_EVENT_XID || !end || (last && *last > *end))
            of->item[kept++] = of->item[i];
    }
    of->items = kept;
    return 0;
}

/* A step with a NaN was skipped where the same value is a number in a later one. */
static int log_drop_passed(struct log_case *of)
{
    CLEAN(map_fini) struct map passed = { 0 }; /* log and rank → the last such place */
    size_t kept = 0;

    for (size_t i = 0; i < of->logs->events; i++) {
        const struct log_event *event = &of->logs->event[i];

        if (event->kind == LOG_EVENT_PASSED &&
            log_raise_to(&passed, log_key_of(event), log_event_place(event)) < 0)
            return -ENOMEM;
    }
    for (size_t i = 0; i < of->items; i++) {
        const struct log_event *event = of->item[i].event;
        const uint64_t *last = map_get(&passed, log_key_of(event));

        if (event->kind != LOG_EVENT_WRONG || !last || log_event_place(event) > *last)
            of->item[kept++] = of->item[i];
    }
    of->items = kept;
    return 0;
}

/* In kernel logs alone: what works again since is no fault.  Beside a job's log it may explain why that ended. */
static int log_drop_restored(struct log_case *of)
{
    CLEAN(map_fini) struct map restored = { 0 }; /* log and device → the last such place */
    size_t kept = 0;

    for (size_t i = 0; i < of->logs->events && !of->job; i++) {
        const struct log_event *event = &of->logs->event[i];

        if (event->kind == LOG_EVENT_PASSED && event->device[0] &&
            log_raise_to(&restored, hash64(event->log, event->device, strlen(event->device)),
                         log_event_place(event)) < 0)
            return -ENOMEM;
    }
    for (size_t i = 0; i < of->items; i++) {
        const struct log_event *event = of->item[i].event;
        const uint64_t *last =
            map_get(&restored, hash64(event->log, event->device, strlen(event->device)));

        if (event->kind != LOG_EVENT_NODE || !last || log_event_place(event) > *last)
            of->item[kept++] = of->item[i];
    }
    of->items = kept;
    return 0;
}

int log_drop_survived(struct log_case *of)
{
    int result;

    for (size_t i = 0; i < of->logs->events; i++) {
        if (of->logs->event[i].mention)
            log_mention(of->findings, &of->logs->event[i]);
    }
    result = log_drop_gone_on(of);

    if (result == 0)
        result = log_drop_passed(of);
    if (result == 0)
        result = log_drop_restored(of);
    return result < 0 ? result : log_drop_before_end(of);
}
