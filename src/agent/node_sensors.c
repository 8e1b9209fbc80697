/* node_sensors.c - runs sensors and hands on what they find, at a bounded rate.
 *
 * A burst that grows is reported again with its new count, at most once in ten seconds.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/node_sensors.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/map.h"
#include "core/time.h"
#include "sense/sense.h"

#define AGAIN_NS (10 * NS_PER_S)
#define WINDOW_NS (60 * NS_PER_S)
#define FINDINGS_MAX 600 /* in a window; further ones are lost, and counted */
#define PROGRAMS_MAX 300 /* of these about programs: any user can let them crash without end */
#define KNOWN_MAX 4096
#define JOBS_NS (10 * NS_PER_S)

struct node_sensors {
    struct node_sensors_settings settings;
    struct sense *sense;
    struct map reported; /* id -> when */
    int64_t now_ns, window_ns, jobs_ns;
    unsigned in_window, programs;
    uint64_t lost;
};

static void sensors_log_absent(const struct sense *sense)
{
    struct sense_state state[16];
    size_t count = sense_states(sense, state, COUNT(state));

    for (size_t i = 0; i < count; i++) {
        if (state[i].result < 0)
            log_info("not observed: %s: %s", state[i].sensor->name,
                     state[i].why[0] ? state[i].why : strerror(-state[i].result));
    }
}

struct node_sensors *node_sensors_create(const struct node_sensors_settings *settings)
{
    struct node_sensors *carrier = calloc(1, sizeof(*carrier));
    struct sense_place place = { .root = settings->root ? settings->root : "",
                                 .kmsg = settings->kmsg,
                                 .node = settings->node };
    const char *only = settings->kmsg && !settings->root ? "kmsg" : NULL;

    if (!carrier)
        return NULL;
    carrier->settings = *settings;
    if (sense_create(&place, only, &carrier->sense) < 0) {
        free(carrier);
        return NULL;
    }
    sensors_log_absent(carrier->sense);
    return carrier;
}

void node_sensors_destroy(struct node_sensors *carrier)
{
    if (!carrier)
        return;
    sense_destroy(carrier->sense);
    map_fini(&carrier->reported);
    free(carrier);
}

/* A count that grows is news only now and then; a change of severity always is. */
static bool sensors_is_news(struct node_sensors *carrier, const struct finding *finding)
{
    uint64_t *when;

    if (carrier->reported.used > KNOWN_MAX)
        map_fini(&carrier->reported);
    when =
        map_put(&carrier->reported, hash64(finding->severity, finding->id, strlen(finding->id)), 0);
    if (!when)
        return true;
    if (*when && carrier->now_ns - (int64_t)*when < AGAIN_NS)
        return false;
    *when = (uint64_t)carrier->now_ns;
    return true;
}

static void sensors_on_finding(void *user, const struct finding *finding, uint32_t line)
{
    struct node_sensors *carrier = user;
    bool program = finding_is_of_program(finding);

    (void)line;
    if (!sensors_is_news(carrier, finding))
        return;
    if (carrier->in_window >= FINDINGS_MAX || (program && carrier->programs >= PROGRAMS_MAX) ||
        carrier->settings.put(carrier->settings.user, finding) < 0) {
        carrier->lost++;
        return;
    }
    carrier->in_window++;
    carrier->programs += program;
}

static void sensors_jobs(struct node_sensors *carrier, int64_t now_ns)
{
    uint32_t pid[SENSE_JOBS];
    bool cut = false;
    size_t count;

    if (!carrier->settings.jobs || (carrier->jobs_ns && now_ns - carrier->jobs_ns < JOBS_NS))
        return;
    carrier->jobs_ns = now_ns;
    count = carrier->settings.jobs(carrier->settings.user, pid, COUNT(pid), &cut);
    sense_set_jobs(carrier->sense, pid, count, cut);
}

void node_sensors_turn(struct node_sensors *carrier, int64_t now_ns)
{
    struct sense_now now = { now_ns, time_real_ns() };

    carrier->now_ns = now_ns;
    if (now_ns - carrier->window_ns >= WINDOW_NS) {
        if (carrier->lost)
            log_error("%llu findings were not kept", (unsigned long long)carrier->lost);
        carrier->window_ns = now_ns;
        carrier->in_window = carrier->programs = 0;
        carrier->lost = 0;
    }
    if (now_ns < sense_next_ns(carrier->sense))
        return;
    sensors_jobs(carrier, now_ns);
    sense_step(carrier->sense, &now, sensors_on_finding, carrier);
}
