/* sense.c - opens sensors, reads those that are due, and reports a lasting condition once.
 *
 * A sensor that is absent or may not be read is remembered with its reason and asked again each minute: devices and
 * permissions come later, too.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "sense/sense.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "core/time.h"
#include "sense/trend.h"
#include "wire/decision.h"

#define RETRY_NS (60 * NS_PER_S)
#define HELD_MAX 512 /* conditions at a time; of further ones only this is reported */
#define SENSORS_MAX 16

struct held {
    uint64_t key;
    bool seen; /* in this read of its sensor */
    uint8_t sensor;
};

struct sense_slot {
    const struct sensor *sensor;
    void *state;
    int result; /* of the last open or read */
    struct err err;
    int64_t due_ns;
};

struct sense {
    struct sense_place place;
    struct sense_jobs jobs;
    struct sense_slot slot[SENSORS_MAX];
    size_t slots;
    struct held held[HELD_MAX];
    size_t helds;
    bool held_lost, held_lost_told; /* there were more, since the table is full */
};

struct sense_report {
    struct sense *sense;
    uint8_t sensor;
    sense_sink *sink;
    void *user;
};

double finding_confidence(const struct finding *finding)
{
    return finding->origin == FINDING_FROM_USER ? 0.5 : 0.95;
}

struct finding sense_finding(const struct sense_now *now, unsigned kind, unsigned class,
                             unsigned severity, const char *device, const char *format, ...)
{
    struct finding finding = { .mono_ns = now->mono_ns,
                               .real_ns = now->real_ns,
                               .kind = (uint8_t)kind,
                               .class = (uint8_t) class,
                               .severity = (uint8_t)severity,
                               .origin = FINDING_FROM_SENSOR,
                               .count = 1 };
    va_list args;

    snprintf(finding.device, sizeof(finding.device), "%s", device);
    va_start(args, format);
    vsnprintf(finding.text, sizeof(finding.text), format, args);
    va_end(args);
    return finding;
}

void sense_report(struct sense_report *report, struct finding *finding, uint32_t line)
{
    if (!finding->node[0] && !report->sense->place.foreign)
        snprintf(finding->node, sizeof(finding->node), "%s", report->sense->place.node);
    if (!finding->id[0])
        finding_identify(finding);
    report->sink(report->user, finding, line);
}

void sense_hold(struct sense_report *report, struct finding *finding)
{
    struct sense *sense = report->sense;
    uint64_t key =
        hash64(finding->kind * 31u + finding->severity, finding->device, strlen(finding->device));

    key = hash64_u64(key, (uint64_t)finding->code << 32 | finding->pid);
    for (size_t i = 0; i < sense->helds; i++) {
        if (sense->held[i].key == key && sense->held[i].sensor == report->sensor) {
            sense->held[i].seen = true;
            return;
        }
    }
    if (sense->helds == HELD_MAX) {
        sense->held_lost = true;
        return;
    }
    sense->held[sense->helds++] = (struct held){ key, true, report->sensor };
    sense_report(report, finding, 0);
}

static long long sense_minutes(int64_t ns)
{
    return (long long)((ns + 30 * NS_PER_S) / (60 * NS_PER_S));
}

void sense_rising(struct sense_report *report, const struct sense_now *now,
                  struct sense_trend *trend, int64_t events, const struct sense_events *of)
{
    struct trend_rise rise;
    struct finding finding;
    long long minutes;

    trend_grow(trend, now->mono_ns, events);
    if (!trend_rises(trend, of->least, &rise))
        return;
    minutes = sense_minutes(rise.half_ns);
    finding =
        sense_finding(now, of->kind, of->class, FINDING_INFO, of->device,
                      "%s of %s rise: %lld in the last %lld min, %lld before that; "
                      "forecast: %lld in the next %lld min",
                      of->what, of->device, (long long)rise.after, minutes, (long long)rise.before,
                      (long long)(rise.after * rise.after / rise.before), minutes);
    finding.code = TREND_CODE;
    finding.action = ACTION_INSPECT;
    sense_hold(report, &finding);
}

/* Conditions that this read did not see are over. */
static void held_end(struct sense *sense, uint8_t sensor)
{
    size_t kept = 0;

    for (size_t i = 0; i < sense->helds; i++) {
        struct held held = sense->held[i];

        if (held.sensor == sensor && !held.seen)
            continue;
        if (held.sensor == sensor)
            held.seen = false;
        sense->held[kept++] = held;
    }
    sense->helds = kept;
}

static void slot_open(struct sense *sense, struct sense_slot *slot)
{
    slot->err.text[0] = '\0';
    slot->result = slot->sensor->open(&sense->place, &slot->state, &slot->err);
}

int sense_create(const struct sense_place *place, const char *only, struct sense **ret)
{
    struct sense *sense = calloc(1, sizeof(*sense));

    if (!sense)
        return -ENOMEM;
    sense->place = *place;
    sense->place.jobs = &sense->jobs;
    for (size_t i = 0; i < sensor_count && sense->slots < SENSORS_MAX; i++) {
        struct sense_slot *slot = &sense->slot[sense->slots];

        if (only && strcmp(only, sensors[i]->name) != 0)
            continue;
        slot->sensor = sensors[i];
        slot_open(sense, slot);
        sense->slots++;
    }
    *ret = sense;
    return 0;
}

void sense_destroy(struct sense *sense)
{
    if (!sense)
        return;
    for (size_t i = 0; i < sense->slots; i++) {
        if (sense->slot[i].state)
            sense->slot[i].sensor->close(sense->slot[i].state);
    }
    free(sense);
}

void sense_set_jobs(struct sense *sense, const uint32_t *pid, size_t count, bool cut)
{
    sense->jobs.cut = cut || count > SENSE_JOBS;
    sense->jobs.count = MIN(count, (size_t)SENSE_JOBS);
    memcpy(sense->jobs.pid, pid, sense->jobs.count * sizeof(*pid));
}

static void slot_read(struct sense *sense, size_t which, const struct sense_now *now,
                      struct sense_report *report)
{
    struct sense_slot *slot = &sense->slot[which];

    if (!slot->state) {
        slot_open(sense, slot);
        if (!slot->state) {
            slot->due_ns = now->mono_ns + RETRY_NS;
            return;
        }
    }
    slot->due_ns = now->mono_ns + slot->sensor->period_ns;
    report->sensor = (uint8_t)which;
    slot->result = slot->sensor->read(slot->state, now, report);
    held_end(sense, report->sensor);
    if (slot->result < 0 && slot->result != -EBUSY) { /* its device vanished: look for it again */
        slot->sensor->close(slot->state);
        slot->state = NULL;
        slot->due_ns = now->mono_ns + RETRY_NS;
    }
}

/* What is not reported must not look healthy. */
static void sense_report_lost(struct sense *sense, const struct sense_now *now,
                              struct sense_report *report)
{
    struct finding finding;

    if (sense->held_lost && !sense->held_lost_told) {
        finding =
            sense_finding(now, FINDING_SENSOR, FINDING_CLASS_HOST, FINDING_WARN, "sense",
                          "%d conditions last at a time; further ones are not reported", HELD_MAX);
        sense_report(report, &finding, 0);
    }
    sense->held_lost_told = sense->held_lost;
    sense->held_lost = sense->held_lost && sense->helds == HELD_MAX;
}

void sense_step(struct sense *sense, const struct sense_now *now, sense_sink *sink, void *user)
{
    struct sense_report report = { .sense = sense, .sink = sink, .user = user };

    for (size_t i = 0; i < sense->slots; i++) {
        if (now->mono_ns >= sense->slot[i].due_ns)
            slot_read(sense, i, now, &report);
    }
    sense_report_lost(sense, now, &report);
}

int64_t sense_next_ns(const struct sense *sense)
{
    int64_t next_ns = INT64_MAX;

    for (size_t i = 0; i < sense->slots; i++)
        next_ns = MIN(next_ns, sense->slot[i].due_ns);
    return next_ns;
}

size_t sense_fds(const struct sense *sense, int *fd, size_t room)
{
    size_t count = 0;

    for (size_t i = 0; i < sense->slots && count < room; i++) {
        const struct sense_slot *slot = &sense->slot[i];

        if (slot->state && slot->sensor->fd && slot->sensor->fd(slot->state) >= 0)
            fd[count++] = slot->sensor->fd(slot->state);
    }
    return count;
}

size_t sense_states(const struct sense *sense, struct sense_state *state, size_t room)
{
    size_t count = MIN(sense->slots, room);

    for (size_t i = 0; i < count; i++)
        state[i] = (struct sense_state){ sense->slot[i].sensor, sense->slot[i].result,
                                         sense->slot[i].err.text };
    return count;
}
