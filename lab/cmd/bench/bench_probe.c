/* bench_probe.c - prints what a mark costs the training process.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#include <json-c/json.h>

#include "base/log.h"
#include "cmd/lab/bench_options.h"
#include "lab/bench/bench_probe.h"
#include "lab/cmd/lab.h"

static void bench_probe_number_add(struct json_object *root, const char *name, double value)
{
    char text[32];

    snprintf(text, sizeof(text), "%.2f", value);
    json_object_object_add(root, name, json_object_new_double_s(value, text));
}

static void bench_probe_print_json(const struct bench_probe_result *result)
{
    struct json_object *root = json_object_new_object();

    bench_probe_number_add(root, "event_p50_ns", result->one.p50_ns);
    bench_probe_number_add(root, "event_p99_ns", result->one.p99_ns);
    bench_probe_number_add(root, "clock_p50_ns", result->one.clock_p50_ns);
    bench_probe_number_add(root, "two_threads_event_p50_ns", result->two.p50_ns);
    bench_probe_number_add(root, "two_threads_event_p99_ns", result->two.p99_ns);
    bench_probe_number_add(root, "cold_event_p50_ns", result->cold_p50_ns);
    bench_probe_number_add(root, "nccl_collective_p50_ns", result->nccl.p50_ns);
    bench_probe_number_add(root, "nccl_collective_p99_ns", result->nccl.p99_ns);
    bench_probe_number_add(root, "nccl_floor_p50_ns", result->nccl.floor_p50_ns);
    bench_probe_number_add(root, "bar_ns", BENCH_PROBE_BAR_NS);
    json_object_object_add(root, "batch", json_object_new_int(BENCH_PROBE_BATCH));
    puts(json_object_to_json_string_ext(root, JSON_C_TO_STRING_SPACED));
    json_object_put(root);
}

static void bench_probe_print(const struct bench_probe_result *result)
{
    printf("clock read           p50 %6.1f ns\n", result->one.clock_p50_ns);
    printf("mark, one thread     p50 %6.1f ns  p99 %6.1f ns, without its clock read\n",
           result->one.p50_ns, result->one.p99_ns);
    printf("mark, two threads    p50 %6.1f ns  p99 %6.1f ns\n", result->two.p50_ns,
           result->two.p99_ns);
    printf("mark, cold caches    p50 %6.1f ns\n", result->cold_p50_ns);
    printf("NCCL collective      p50 %6.1f ns  p99 %6.1f ns, two channels, with its clock reads\n",
           result->nccl.p50_ns, result->nccl.p99_ns);
    printf("empty NCCL plugin    p50 %6.1f ns\n", result->nccl.floor_p50_ns);
    printf("limit                    %6.1f ns: %s\n", BENCH_PROBE_BAR_NS,
           result->one.p50_ns <= BENCH_PROBE_BAR_NS ? "met" : "missed");
}

int bench_probe_main(int argc, char **argv)
{
    struct bench_probe_settings settings = { .batches = 3000, .cold = 100 };
    int parsed = opt_parse_all(&command_bench_probe, argc, argv, &settings);
    struct bench_probe_result result;
    struct bench_probe_plan plan;
    struct err err = { "" };

    if (parsed < 0)
        return OPT_EXIT(parsed);
    if (settings.batches == 0 || settings.batches > 1000000 || settings.cold == 0 ||
        settings.cold > 100000) {
        log_error("--batches must be 1 to 1000000, --cold 1 to 100000");
        return 2;
    }
    plan = (struct bench_probe_plan){ .batches = settings.batches, .cold = settings.cold };
    if (bench_probe_run(&plan, &result, &err) < 0) {
        log_error("%s", err.text);
        return 3;
    }
    if (settings.json)
        bench_probe_print_json(&result);
    else
        bench_probe_print(&result);
    return result.one.p50_ns <= BENCH_PROBE_BAR_NS ? 0 : 1;
}
