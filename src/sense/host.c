/* host.c - the machine itself: pressure, stolen time, throttled CPUs, memory errors.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "sense/job/job_cgroups.h"
#include "sense/sensors.h"
#include "sense/tree.h"
#include "sense/trend.h"
#include "wire/decision.h"

#define CONTROLLERS_MAX 32
#define CPUS_MAX 1024
#define CORRECTED_LEAST 10 /* memory errors in one read */
#define STEAL_LEAST 0.1    /* of all CPU time */

/* From how much on pressure is reported, percent of the last 10 s. */
static const struct pressure {
    const char *name, *line, *what;
    double least;
    uint32_t code;
} pressures[] = {
    { "cpu", "some", "processes wait for a CPU", 60, FINDING_PRESSURE_CPU },
    { "memory", "full", "all processes wait for memory", 20, FINDING_PRESSURE_MEMORY },
    { "io", "full", "all processes wait for storage", 40, FINDING_PRESSURE_IO },
};

struct controller {
    char name[16];
    struct tree_counter corrected, uncorrected;
    struct sense_trend trend;
};

struct host {
    struct tree tree;
    struct controller controller[CONTROLLERS_MAX];
    size_t controllers;
    struct tree_counter throttled[CPUS_MAX];
    int64_t cpus;
    struct tree_counter steal, all;
    const struct sense_jobs *jobs;
    struct job_cgroups *cgroups;
    const struct sense_now *now;
    struct sense_report *report;
};

static void host_controller(void *user, const char *name)
{
    struct host *host = user;
    struct controller *controller = &host->controller[host->controllers];

    if (strncmp(name, "mc", 2) != 0 || name[2] < '0' || name[2] > '9' ||
        host->controllers == CONTROLLERS_MAX || strlen(name) >= sizeof(controller->name))
        return;
    *controller = (struct controller){ .name = "" };
    snprintf(controller->name, sizeof(controller->name), "%s", name);
    host->controllers++;
}

static int host_open(const struct sense_place *place, void **state, struct err *err)
{
    struct host *host = calloc(1, sizeof(*host));
    char text[64];

    if (!host)
        return err_nomem(err);
    host->tree.root = place->root;
    host->jobs = place->jobs;
    tree_list(&host->tree, "/sys/devices/system/edac/mc", host_controller, host);
    while (host->cpus < CPUS_MAX &&
           tree_read(&host->tree, text, sizeof(text),
                     "/sys/devices/system/cpu/cpu%lld/thermal_throttle/package_throttle_count",
                     (long long)host->cpus) > 0)
        host->cpus++;
    if (!host->controllers && !host->cpus &&
        tree_read(&host->tree, text, sizeof(text), "/proc/stat") <= 0 &&
        tree_read(&host->tree, text, sizeof(text), "/proc/pressure/cpu") <= 0) {
        free(host);
        return err_set(err, -ENODEV, "/proc/stat, /proc/pressure, edac: none is there");
    }
    host->cgroups = job_cgroups_create();
    if (!host->cgroups) {
        free(host);
        return err_nomem(err);
    }
    *state = host;
    return 0;
}

/* "some avg10=12.34 avg60=...": the first number of the line. */
static bool pressure_read(const char *text, const char *line, double *ret)
{
    const char *at = strstr(text, line);

    at = at ? strstr(at, "avg10=") : NULL;
    if (!at)
        return false;
    *ret = strtod(at + 6, NULL);
    return true;
}

static void host_pressure(struct host *host)
{
    for (size_t i = 0; i < COUNT(pressures); i++) {
        const struct pressure *pressure = &pressures[i];
        char text[512];
        double percent;
        struct finding finding;

        if (tree_read(&host->tree, text, sizeof(text), "/proc/pressure/%s", pressure->name) <= 0 ||
            !pressure_read(text, pressure->line, &percent) || percent < pressure->least)
            continue;
        finding =
            sense_finding(host->now, FINDING_HOST_PRESSURE, FINDING_CLASS_HOST, FINDING_WARN,
                          pressure->name, "%s: %.0f %% of the last 10 s", pressure->what, percent);
        finding.code = pressure->code;
        sense_hold(host->report, &finding);
    }
}

/* The first line of /proc/stat: user nice system idle iowait irq softirq steal, in ticks. */
static void host_steal(struct host *host)
{
    char text[256];
    long long tick[8] = { 0 };
    int64_t all = 0, stolen, total;
    struct finding finding;

    if (tree_read(&host->tree, text, sizeof(text), "/proc/stat") <= 0 ||
        sscanf(text, "cpu %lld %lld %lld %lld %lld %lld %lld %lld", &tick[0], &tick[1], &tick[2],
               &tick[3], &tick[4], &tick[5], &tick[6], &tick[7]) != 8)
        return;
    for (int i = 0; i < 8; i++)
        all += tick[i];
    stolen = tree_counter_grown(&host->steal, tick[7]);
    total = tree_counter_grown(&host->all, all);
    if (total < 100 || (double)stolen < STEAL_LEAST * (double)total)
        return;
    finding = sense_finding(host->now, FINDING_HOST_PRESSURE, FINDING_CLASS_HOST, FINDING_WARN,
                            "steal", "the hypervisor took %.0f %% of the CPU time",
                            100.0 * (double)stolen / (double)total);
    finding.code = FINDING_PRESSURE_CPU;
    sense_hold(host->report, &finding);
}

static void host_throttle(struct host *host)
{
    int64_t events = 0, worst = 0, worst_cpu = 0;
    struct finding finding;
    char device[24];

    for (int64_t cpu = 0; cpu < host->cpus; cpu++) {
        int64_t value, grown;

        if (!tree_number(&host->tree, &value,
                         "/sys/devices/system/cpu/cpu%lld/thermal_throttle/package_throttle_count",
                         (long long)cpu))
            continue;
        grown = tree_counter_grown(&host->throttled[cpu], value);
        if (grown > worst) {
            worst = grown;
            worst_cpu = cpu;
        }
        events += grown;
    }
    if (!events)
        return;
    snprintf(device, sizeof(device), "cpu%lld", (long long)worst_cpu);
    finding = sense_finding(host->now, FINDING_THERMAL, FINDING_CLASS_HARDWARE, FINDING_WARN,
                            device, "CPUs were throttled for heat, %lld times", (long long)events);
    finding.action = ACTION_INSPECT;
    sense_hold(host->report, &finding);
}

static void host_memory(struct host *host, struct controller *controller)
{
    int64_t corrected = 0, uncorrected = 0;
    struct finding finding;

    if (tree_number(&host->tree, &uncorrected, "/sys/devices/system/edac/mc/%s/ue_count",
                    controller->name)) {
        int64_t grown = tree_counter_grown(&controller->uncorrected, uncorrected);

        if (grown) {
            finding = sense_finding(host->now, FINDING_EDAC, FINDING_CLASS_HARDWARE, FINDING_FATAL,
                                    controller->name, "%lld uncorrected memory errors at %s",
                                    (long long)grown, controller->name);
            finding.action = ACTION_REPAIR;
            finding.count = (uint32_t)MIN(grown, (int64_t)UINT32_MAX);
            sense_report(host->report, &finding, 0);
        }
    }
    if (tree_number(&host->tree, &corrected, "/sys/devices/system/edac/mc/%s/ce_count",
                    controller->name)) {
        int64_t grown = tree_counter_grown(&controller->corrected, corrected);

        sense_rising(host->report, host->now, &controller->trend, grown,
                     &(struct sense_events){ FINDING_EDAC, FINDING_CLASS_HARDWARE, controller->name,
                                             "corrected memory errors", CORRECTED_LEAST });
        if (grown >= CORRECTED_LEAST) {
            finding = sense_finding(host->now, FINDING_EDAC, FINDING_CLASS_HARDWARE, FINDING_WARN,
                                    controller->name, "%lld corrected memory errors at %s",
                                    (long long)grown, controller->name);
            finding.count = (uint32_t)MIN(grown, (int64_t)UINT32_MAX);
            sense_report(host->report, &finding, 0);
        }
    }
}

static int host_read(void *state, const struct sense_now *now, struct sense_report *report)
{
    struct host *host = state;

    host->now = now;
    host->report = report;
    host_pressure(host);
    host_steal(host);
    host_throttle(host);
    for (size_t i = 0; i < host->controllers; i++)
        host_memory(host, &host->controller[i]);
    job_cgroups_read(host->cgroups, &host->tree, host->jobs, now, report);
    return 0;
}

static void host_close(void *state)
{
    struct host *host = state;

    job_cgroups_destroy(host->cgroups);
    free(host);
}

const struct sensor sensor_host = {
    .name = "host",
    .summary =
        "pressure, stolen CPU time, throttled CPUs, memory errors, limits of the jobs' cgroups",
    .fix = "mount /proc and /sys; pressure needs a kernel with CONFIG_PSI, started with psi=1",
    .period_ns = 5 * NS_PER_S,
    .open = host_open,
    .read = host_read,
    .close = host_close,
};
