/* sense_gpus.c - lockstep sense --gpus: every value that NVML reports of each GPU, and those that it does not report.
 *
 * A child process asks, as for the sensor, since a call may block for ever.  Activity is a mean, so GPUs are read twice.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cmd/node/sense_gpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <json-c/json.h>

#include "base/log.h"
#include "core/clean.h"
#include "core/time.h"
#include "sense/gpu/gpu_child.h"
#include "show/style.h"

#define GPUS_DEADLINE_MS 3000
#define GPUS_BETWEEN_NS NS_PER_S /* in which activity is measured */

static void gpus_child_clean(struct gpu_child *child)
{
    gpu_child_close(child);
}

static int gpus_answer(struct gpu_child *child, struct gpu_answer *answer)
{
    int result = gpu_child_receive(child, answer, GPUS_DEADLINE_MS);

    if (result == 0) {
        log_error("NVML did not answer within %d s", GPUS_DEADLINE_MS / 1000);
        return 2;
    }
    if (result < 0) {
        log_error("NVML ended the process that asked it");
        return 2;
    }
    if (answer->result < 0) {
        log_error("NVML: %s", answer->why);
        return 2;
    }
    return 0;
}

static void gpus_print_json(unsigned index, const struct gpu_report *gpu)
{
    struct json_object *object = json_object_new_object(), *values = json_object_new_object();
    struct json_object *absent = json_object_new_array();

    for (unsigned i = 0; i < NVML_VALUES; i++) {
        if (nvml_has(&gpu->sample, i))
            json_object_object_add(values, nvml_value_name(i),
                                   json_object_new_int64(gpu->sample.value[i]));
        else
            json_object_array_add(absent, json_object_new_string(nvml_value_name(i)));
    }
    json_object_object_add(object, "gpu", json_object_new_int64(index));
    json_object_object_add(object, "pci", show_string_or_null(gpu->pci));
    json_object_object_add(object, "error",
                           gpu->result < 0 ? json_object_new_string(strerror(-gpu->result)) : NULL);
    json_object_object_add(object, "values", values);
    json_object_object_add(object, "not_reported", absent);
    json_object_object_add(object, "links", json_object_new_int64(gpu->links));
    json_object_object_add(object, "processes", json_object_new_int64(gpu->processes));
    puts(json_object_to_json_string_ext(object,
                                        JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(object);
}

static void gpus_print_text(unsigned index, const struct gpu_report *gpu)
{
    char clean[64];

    printf("GPU %u %s%s%s\n", index, show_clean(gpu->pci, clean, sizeof(clean)),
           gpu->result < 0 ? ": " : "", gpu->result < 0 ? strerror(-gpu->result) : "");
    for (unsigned i = 0; i < NVML_VALUES; i++) {
        const char *unit = nvml_value_unit(i);

        if (nvml_has(&gpu->sample, i))
            printf("  %-40s %lld%s%s\n", nvml_value_name(i), (long long)gpu->sample.value[i],
                   *unit ? " " : "", unit);
        else
            printf("  %-40s not reported\n", nvml_value_name(i));
    }
    printf("  %-40s %u\n  %-40s %u\n", "NVLinks", gpu->links, "processes", gpu->processes);
}

/* What was read only once, in the first answer, and what counts between both. */
static void gpus_merge(struct gpu_answer *first, const struct gpu_answer *second)
{
    for (unsigned i = 0; i < MIN(first->count, second->count); i++) {
        unsigned links = first->gpu[i].links;

        first->gpu[i] = second->gpu[i];
        first->gpu[i].links = links;
    }
}

int sense_gpus(const char *library, bool json)
{
    CLEAN(gpus_child_clean) struct gpu_child child = { -1, -1 };
    CLEAN(free_clean) struct gpu_answer *first = calloc(2, sizeof(*first));
    const struct timespec between = time_spec(GPUS_BETWEEN_NS);
    int result;

    if (!first || gpu_child_start(&child, library) < 0) {
        log_error("no process for NVML: %m");
        return 2;
    }
    result = gpus_answer(&child, &first[0]);
    if (result)
        return result;
    nanosleep(&between, NULL);
    if (gpu_child_ask(&child, true) < 0) {
        log_error("NVML ended the process that asked it");
        return 2;
    }
    result = gpus_answer(&child, &first[1]);
    if (result)
        return result;
    gpus_merge(&first[0], &first[1]);
    for (unsigned i = 0; i < first->count; i++) {
        if (json)
            gpus_print_json(i, &first->gpu[i]);
        else
            gpus_print_text(i, &first->gpu[i]);
    }
    if (!first->count && !json)
        puts("no GPUs");
    return 0;
}
