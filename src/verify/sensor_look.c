/* sensor_look.c - what the sensors of the node report in two seconds.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <time.h>

#include "core/clean.h"
#include "core/time.h"
#include "verify/checks.h"
#include "verify/inspection.h"

#define TURN_NS (100 * NS_PER_MS)

static void sensor_look_run(const struct verify_place *place, struct verify_report *report)
{
    const struct sense_place sensors_at = {
        .root = place->root, .nvml = place->nvml, .node = place->node, .from_start = true
    }; /* as lockstep sense --once */
    struct inspection *inspection = inspection_begin(&sensors_at, time_mono_ns());
    const struct timespec turn = time_spec(TURN_NS);

    if (!inspection) {
        verify_result(report, CHECK_UNKNOWN, "", "not enough memory");
        return;
    }
    inspection_expect(inspection, place->profile);
    while (!inspection_turn(inspection, time_mono_ns()))
        nanosleep(&turn, NULL);
    for (size_t i = 0; i < inspection_checks(inspection); i++) {
        struct check seen, *result;

        inspection_check(inspection, i, &seen);
        result = verify_result(report, seen.state, "", "%s",
                               seen.why[0] ? seen.why : "reports nothing wrong");
        snprintf(result->name, sizeof(result->name), "%.*s", FACT_NAME - 1, seen.name);
    }
    for (size_t i = 0; i < inspection_absent(inspection); i++) {
        char why[128];
        const char *name = inspection_absent_name(inspection, i, why, sizeof(why));
        struct check *result = verify_result(report, VERIFY_NOT_APPLICABLE, "", "%s", why);

        snprintf(result->name, sizeof(result->name), "%s", name);
    }
    inspection_destroy(inspection);
}

const struct verify_check check_sensors = {
    .name = "sensors",
    .summary =
        "the sensors of the node: kernel log, GPUs, ports, PCIe links, disks, host, leftovers",
    .why = "errors of hardware as lockstep sense reports them; what a user's program wrote does "
           "not count",
    .advice = "lockstep sense --once shows the evidence and the suggested action",
    .stage = VERIFY_QUICK,
    .limit_ns = { 4500 * NS_PER_MS, 8 * NS_PER_S, 8 * NS_PER_S, 8 * NS_PER_S },
    .run = sensor_look_run,
};
