/* inspection.c - runs each sensor by itself, so that each finding has its sensor.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "verify/inspection.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "sense/sense.h"
#include "verify/expected.h"

#define LOOK_NS (2 * NS_PER_S) /* counters are compared with themselves */
#define INSPECTION_SENSORS 16
#define WHY_ROOM 128

struct inspected {
    const struct sensor *sensor;
    struct sense *sense;
    struct finding worst; /* severity 0: nothing */
};

struct inspection {
    char node[FACT_NAME];
    const char *root;
    const struct machine_profile *profile; /* NULL: none */
    int64_t began_ns;
    struct inspected at[INSPECTION_SENSORS];
    size_t count;
};

struct inspection *inspection_begin(const struct sense_place *from, int64_t now_ns)
{
    struct inspection *inspection = calloc(1, sizeof(*inspection));
    struct sense_place place = *from;

    if (!inspection)
        return NULL;
    snprintf(inspection->node, sizeof(inspection->node), "%s", from->node);
    place.node = inspection->node;
    inspection->root = from->root;
    inspection->began_ns = now_ns;
    for (size_t i = 0; i < sensor_count && inspection->count < INSPECTION_SENSORS; i++) {
        struct inspected *at = &inspection->at[inspection->count];

        if (place.kmsg && strcmp(sensors[i]->name, "kmsg") != 0)
            continue;
        if (sense_create(&place, sensors[i]->name, &at->sense) < 0) {
            inspection_destroy(inspection);
            return NULL;
        }
        at->sensor = sensors[i];
        inspection->count++;
    }
    return inspection;
}

void inspection_destroy(struct inspection *inspection)
{
    if (!inspection)
        return;
    for (size_t i = 0; i < inspection->count; i++)
        sense_destroy(inspection->at[i].sense);
    free(inspection);
}

/* Users cause faults of class host, such as a lack of memory, so these prove nothing against the node. */
static bool inspection_is_failure(const struct finding *finding)
{
    return finding->severity == FINDING_FATAL && finding->class != FINDING_CLASS_HOST;
}

static bool inspection_is_worse(const struct finding *finding, const struct finding *other)
{
    bool fails = inspection_is_failure(finding), other_fails = inspection_is_failure(other);

    return fails != other_fails ? fails : finding->severity > other->severity;
}

/* As the site's core looks at findings: below an error nothing is wrong with the node, and any user can cause those about
 * programs.
 */
static void inspection_on_finding(void *user, const struct finding *finding, uint32_t line)
{
    struct inspected *at = user;

    (void)line;
    if (finding->severity >= FINDING_ERROR && finding->class != FINDING_CLASS_APP &&
        finding->origin != FINDING_FROM_USER && !finding_is_of_image(finding) &&
        inspection_is_worse(finding, &at->worst))
        at->worst = *finding;
}

bool inspection_turn(struct inspection *inspection, int64_t now_ns)
{
    struct sense_now now = { now_ns, time_real_ns() };

    for (size_t i = 0; i < inspection->count; i++)
        sense_step(inspection->at[i].sense, &now, inspection_on_finding, &inspection->at[i]);
    return now_ns - inspection->began_ns >= LOOK_NS;
}

static struct sense_state inspection_state(const struct inspected *at)
{
    struct sense_state state = { .result = -ENODEV, .why = "" };

    sense_states(at->sense, &state, 1);
    return state;
}

void inspection_expect(struct inspection *inspection, const struct machine_profile *profile)
{
    inspection->profile = profile;
}

/* Reads something, or should; `why`: the reason of either. */
static bool inspection_applies(const struct inspection *inspection, const struct inspected *at,
                               char *why, size_t room)
{
    why[0] = '\0';
    return inspection_state(at).result != -ENODEV ||
           expected_on_node(at->sensor->name, inspection->root, inspection->profile, why, room);
}

static const struct inspected *inspection_find(const struct inspection *inspection, bool applies,
                                               size_t which, char *why, size_t room)
{
    for (size_t i = 0; i < inspection->count; i++) {
        const struct inspected *at = &inspection->at[i];

        if (inspection_applies(inspection, at, why, room) == applies && which-- == 0)
            return at;
    }
    return NULL;
}

static size_t inspection_count(const struct inspection *inspection, bool applies)
{
    char why[WHY_ROOM];
    size_t count = 0;

    while (inspection_find(inspection, applies, count, why, sizeof(why)))
        count++;
    return count;
}

size_t inspection_checks(const struct inspection *inspection)
{
    return inspection_count(inspection, true);
}

size_t inspection_absent(const struct inspection *inspection)
{
    return inspection_count(inspection, false);
}

const char *inspection_absent_name(const struct inspection *inspection, size_t which, char *why,
                                   size_t room)
{
    return inspection_find(inspection, false, which, why, room)->sensor->name;
}

void inspection_check(const struct inspection *inspection, size_t which, struct check *ret)
{
    char expected[WHY_ROOM];
    const struct inspected *at =
        inspection_find(inspection, true, which, expected, sizeof(expected));
    struct sense_state state = inspection_state(at);
    int64_t now_ns = time_mono_ns();

    *ret = (struct check){ .mono_ns = now_ns,
                           .real_ns = time_real_ns(),
                           .state = CHECK_OK,
                           .stage = CHECK_STAGE_INSPECT,
                           .seconds = (double)(now_ns - inspection->began_ns) / 1e9 };
    snprintf(ret->node, sizeof(ret->node), "%s", inspection->node);
    snprintf(ret->name, sizeof(ret->name), "%s", at->sensor->name);
    if (at->worst.severity) {
        ret->state = inspection_is_failure(&at->worst) ? CHECK_FAILED : CHECK_LIMITED;
        snprintf(ret->why, sizeof(ret->why), "%.199s", at->worst.text);
    } else if (state.result < 0) {
        ret->state = CHECK_UNKNOWN;
        snprintf(ret->why, sizeof(ret->why), "%.100s%s%.90s",
                 state.why[0] ? state.why : strerror(-state.result), expected[0] ? "; " : "",
                 expected);
    }
}
