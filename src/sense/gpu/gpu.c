/* gpu.c - GPUs as NVML reports them: clocks, power, memory errors, links, recovery action.
 *
 * A child process asks NVML (gpu_child.h).  One that does not answer within three seconds is a finding; it is killed, and
 * another one starts a minute later if it is gone.  Xids are taken from NVML's events only where the kernel log, which has
 * them with their process, cannot be read.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"
#include "device/nvml.h"
#include "sense/gpu/gpu_child.h"
#include "sense/gpu/gpu_look.h"
#include "sense/sensors.h"
#include "sense/tree.h"
#include "sense/trend.h"
#include "wire/decision.h"

#define DEADLINE_NS (3 * NS_PER_S)
#define AGAIN_NS (60 * NS_PER_S) /* until another process asks, after one that failed */
#define ALL_EVERY 10             /* answers have links and activity */
#define CORRECTED_LEAST 100      /* in one read */
#define RISING_LEAST 20          /* corrected errors in minutes */
#define MARGIN_LOST_C 5
#define MARGIN_SOON_NS (15 * 60 * NS_PER_S)
#define LATE "NVML did not answer within 3 s"
#define ENDED "NVML ended the process that asked it"

struct gpu_memory { /* of a GPU between reads */
    struct gpu_clocks clocks;
    struct tree_counter corrected, uncorrected, replays;
    struct sense_trend errors, margin;
};

struct gpu {
    char library[PATH_MAX]; /* "": the usual one */
    struct gpu_child child;
    int64_t asked_ns;   /* 0: nothing is asked */
    unsigned asked;     /* how often */
    int64_t again_ns;   /* when the next process may start */
    const char *silent; /* why there is no answer; NULL: there is one */
    bool log_is_read;   /* the kernel log has the Xids, with their processes */
    struct tree tree;
    struct gpu_list list;
    struct gpu_memory memory[GPUS_MAX];
    struct gpu_links links[GPUS_MAX];
    struct gpu_processes processes[GPUS_MAX];
    struct gpu_xids xids[GPUS_MAX];
    struct gpu_answer answer;
};

static void gpu_close(void *state)
{
    struct gpu *gpu = state;

    gpu_child_close(&gpu->child);
    free(gpu);
}

static void gpu_clean(struct gpu **gpu)
{
    if (*gpu)
        gpu_close(*gpu);
}

static void gpu_fail(struct gpu *gpu, const char *why)
{
    gpu_child_kill(&gpu->child);
    gpu->silent = why;
    gpu->again_ns = 0;
    gpu->asked_ns = 0;
}

static const char *gpu_library(const struct gpu *gpu)
{
    return gpu->library[0] ? gpu->library : NULL;
}

/* Below another root the driver's library is there, too. */
static int gpu_find_library(const struct sense_place *place, char library[PATH_MAX],
                            struct err *err)
{
    library[0] = '\0';
    if (place->nvml)
        snprintf(library, PATH_MAX, "%s", place->nvml);
    if (place->nvml || !place->root[0])
        return 0;
    snprintf(library, PATH_MAX, "%s/usr/lib/" NVML_LIBRARY, place->root);
    return access(library, R_OK) < 0 ? err_set(err, -ENODEV, "%s: %m", library) : 0;
}

/* Whether the other sensor has it: /dev/kmsg may be closed to us by kernel.dmesg_restrict. */
static bool gpu_log_is_read(const struct sense_place *place)
{
    CLEAN(fd_clean) int fd = -1;
    char path[PATH_MAX];

    if (place->kmsg)
        return access(place->kmsg, R_OK) == 0;
    snprintf(path, sizeof(path), "%s/dev/kmsg", place->root);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    return fd >= 0;
}

/* The first answer is awaited: whether there is a driver is known only then. */
static int gpu_open(const struct sense_place *place, void **state, struct err *err)
{
    CLEAN(gpu_clean) struct gpu *gpu = NULL;
    int result;

    gpu = calloc(1, sizeof(*gpu));
    if (!gpu)
        return err_nomem(err);
    result = gpu_find_library(place, gpu->library, err);
    gpu->child = (struct gpu_child){ -1, -1 };
    gpu->tree.root = place->root;
    gpu->log_is_read = gpu_log_is_read(place);
    if (result < 0)
        return result;
    result = gpu_child_start(&gpu->child, gpu_library(gpu));
    if (result < 0)
        return err_set(err, result, "no process for NVML: %s", strerror(-result));
    result = gpu_child_receive(&gpu->child, &gpu->answer, (int)(DEADLINE_NS / NS_PER_MS));
    if (result < 0)
        return err_set(err, result, "%s", ENDED);
    if (result == 0) {
        gpu_fail(gpu, LATE);
        *state = TAKE(gpu);
        return err_set(err, -EBUSY, "%s", LATE);
    }
    if (gpu->answer.result < 0)
        return err_set(err, gpu->answer.result == -ENOENT ? -ENODEV : gpu->answer.result, "%s",
                       gpu->answer.why);
    *state = TAKE(gpu);
    return 0;
}

/* "00000000:3B:00.0" as the kernel log names it: "0000:3b:00". */
static void gpu_device_name(const struct gpu_report *report, unsigned index, char out[FACT_NAME])
{
    const char *from = strlen(report->pci) >= 16 ? report->pci + 4 : report->pci;

    if (!report->pci[0]) {
        snprintf(out, FACT_NAME, "GPU %u", index);
        return;
    }
    snprintf(out, FACT_NAME, "%.10s", from);
    for (char *c = out; *c; c++)
        *c = (char)tolower((unsigned char)*c);
}

static void gpu_look_failed(const struct gpu_look *look, int result)
{
    const char *what = result == -ENODEV            ? "the driver lost GPU"
                       : result == -ENOTRECOVERABLE ? "must be reset: GPU"
                       : result == -ETIMEDOUT       ? "does not answer: GPU"
                                                    : "cannot be read: GPU";
    struct finding finding = sense_finding(look->now, FINDING_NVRM, FINDING_CLASS_DRIVER,
                                           result == -EPERM ? FINDING_WARN : FINDING_FATAL,
                                           look->device, "%s %s", what, look->device);

    finding.code = (uint32_t)-result;
    finding.action = result == -ENODEV            ? ACTION_REBOOT
                     : result == -ENOTRECOVERABLE ? ACTION_RESET_GPU
                                                  : ACTION_INSPECT;
    sense_hold(look->report, &finding);
}

/* A leading indicator: a GPU that becomes hotter will lower its clocks. */
static void gpu_look_margin(const struct gpu_look *look, struct sense_trend *trend)
{
    int64_t margin = gpu_look_value(look, NVML_TEMPERATURE_MARGIN_C), in_ns;
    struct finding finding;

    if (margin <= 0)
        return; /* not known, or it is slowed already */
    trend_add(trend, look->now->mono_ns, margin);
    if (trend->point[0].value - margin < MARGIN_LOST_C || !trend_falls_to(trend, 0, &in_ns) ||
        in_ns > MARGIN_SOON_NS)
        return;
    finding = sense_finding(look->now, FINDING_GPU_CLOCK, FINDING_CLASS_HARDWARE, FINDING_INFO,
                            look->device,
                            "GPU %s: %lld C below its slowdown, %lld C some minutes ago; forecast: "
                            "slowdown in %lld min",
                            look->device, (long long)margin, (long long)trend->point[0].value,
                            (long long)(in_ns / (60 * NS_PER_S)));
    finding.code = TREND_CODE;
    finding.action = ACTION_INSPECT;
    sense_hold(look->report, &finding);
}

static void gpu_look_memory(const struct gpu_look *look, struct gpu_memory *memory)
{
    int64_t corrected = gpu_look_value(look, NVML_ECC_CORRECTED);
    int64_t uncorrected = gpu_look_value(look, NVML_ECC_UNCORRECTED), grown;
    struct finding finding;

    grown = uncorrected < 0 ? 0 : tree_counter_grown(&memory->uncorrected, uncorrected);
    if (grown) {
        finding = sense_finding(look->now, FINDING_GPU_ECC, FINDING_CLASS_HARDWARE, FINDING_FATAL,
                                look->device, "GPU %s: %lld uncorrected memory errors",
                                look->device, (long long)grown);
        finding.action = ACTION_RESET_GPU;
        sense_report(look->report, &finding, 0);
    }
    grown = corrected < 0 ? 0 : tree_counter_grown(&memory->corrected, corrected);
    sense_rising(look->report, look->now, &memory->errors, grown,
                 &(struct sense_events){ FINDING_GPU_ECC, FINDING_CLASS_HARDWARE, look->device,
                                         "corrected memory errors", RISING_LEAST });
    if (grown >= CORRECTED_LEAST) {
        finding = sense_finding(look->now, FINDING_GPU_ECC, FINDING_CLASS_HARDWARE, FINDING_WARN,
                                look->device, "GPU %s: %lld corrected memory errors", look->device,
                                (long long)grown);
        sense_report(look->report, &finding, 0);
    }
    if (gpu_look_value(look, NVML_REMAP_FAILED) > 0) {
        finding =
            sense_finding(look->now, FINDING_GPU_MEMORY, FINDING_CLASS_HARDWARE, FINDING_ERROR,
                          look->device, "GPU %s: no spare rows are left", look->device);
        finding.action = ACTION_REPAIR;
        sense_hold(look->report, &finding);
    } else if (gpu_look_value(look, NVML_REMAP_PENDING) > 0) {
        finding = sense_finding(
            look->now, FINDING_GPU_MEMORY, FINDING_CLASS_HARDWARE, FINDING_WARN, look->device,
            "GPU %s: a remapped row waits for a reset; forecast: memory errors that end "
            "processes until then",
            look->device);
        finding.code = 1;
        finding.action = ACTION_RESET_GPU;
        sense_hold(look->report, &finding);
    }
}

static void gpu_look_links(const struct gpu_look *look, struct gpu_memory *memory)
{
    int64_t width = gpu_look_value(look, NVML_PCIE_WIDTH),
            most = gpu_look_value(look, NVML_PCIE_WIDTH_MAX);
    int64_t replays = gpu_look_value(look, NVML_PCIE_REPLAYS),
            action = gpu_look_value(look, NVML_RECOVERY_ACTION);
    struct finding finding;

    if (width > 0 && width < most) {
        finding = sense_finding(look->now, FINDING_PCIE, FINDING_CLASS_HARDWARE, FINDING_WARN,
                                look->device, "PCIe link of GPU %s is x%lld, its maximum is x%lld",
                                look->device, (long long)width, (long long)most);
        finding.action = ACTION_INSPECT;
        sense_hold(look->report, &finding);
    }
    if (replays >= 0 &&
        (replays = tree_counter_grown(&memory->replays, replays)) >= CORRECTED_LEAST) {
        finding = sense_finding(look->now, FINDING_PCIE, FINDING_CLASS_HARDWARE, FINDING_WARN,
                                look->device, "PCIe link of GPU %s repeated %lld packets",
                                look->device, (long long)replays);
        finding.code = 2;
        sense_report(look->report, &finding, 0);
    }
    if (action > 0) {
        static const uint8_t actions[] = { ACTION_NONE, ACTION_RESET_GPU, ACTION_REBOOT,
                                           ACTION_DRAIN, ACTION_DRAIN };

        finding = sense_finding(look->now, FINDING_NVRM, FINDING_CLASS_DRIVER, FINDING_ERROR,
                                look->device, "the driver asks for recovery action %lld of GPU %s",
                                (long long)action, look->device);
        finding.code = (uint32_t)action;
        finding.action = action < (int64_t)COUNT(actions) ? actions[action] : ACTION_INSPECT;
        sense_hold(look->report, &finding);
    }
}

static void gpu_events(struct gpu *gpu, const struct sense_now *now, struct sense_report *report)
{
    for (unsigned i = 0; i < gpu->answer.events && !gpu->log_is_read; i++) {
        const struct nvml_event *event = &gpu->answer.event[i];
        const struct gpu_report *one = &gpu->answer.gpu[event->gpu];
        struct gpu_look look = { now, report, &one->sample, gpu->answer.read_ns, "" };

        gpu_device_name(one, event->gpu, look.device);
        gpu_xids_event(&gpu->xids[event->gpu], event->xid, one->process, one->processes, &look);
    }
    gpu->answer.events = 0; /* the answer may be judged again */
}

/* What its counters were says nothing about another GPU. */
static void gpu_forget(struct gpu *gpu, unsigned index)
{
    gpu->memory[index] = (struct gpu_memory){ .errors.count = 0 };
    gpu->links[index] = (struct gpu_links){ .count = 0 };
    gpu->processes[index] = (struct gpu_processes){ .gone = 0 };
    gpu->xids[index] = (struct gpu_xids){ .before = 0 };
}

static void gpu_judge(struct gpu *gpu, const struct sense_now *now, struct sense_report *report)
{
    gpu_events(gpu, now, report);
    for (unsigned i = 0; i < gpu->answer.count; i++) {
        const struct gpu_report *one = &gpu->answer.gpu[i];
        struct gpu_look look = { now, report, &one->sample, gpu->answer.read_ns, "" };

        gpu_device_name(one, i, look.device);
        if (!one->pci[0] && gpu->list.at[i][0]) /* it does not even tell its name any more */
            snprintf(look.device, sizeof(look.device), "%s", gpu->list.at[i]);
        if (gpu_list_take(&gpu->list, i, look.device))
            gpu_forget(gpu, i);
        if (one->result < 0) {
            gpu_look_failed(&look, one->result);
            continue;
        }
        gpu_clocks_judge(&gpu->memory[i].clocks, &look);
        gpu_look_margin(&look, &gpu->memory[i].margin);
        gpu_look_memory(&look, &gpu->memory[i]);
        gpu_look_links(&look, &gpu->memory[i]);
        if (gpu->answer.has_links)
            gpu_links_take(&gpu->links[i], one->link, one->links);
        gpu_links_judge(&gpu->links[i], &look);
        gpu_fabric_judge(&look);
        gpu_processes_judge(&gpu->processes[i], &gpu->tree, one->process, one->processes, &look);
        gpu_xids_judge(&gpu->xids[i], one->process, one->processes, &look);
    }
    gpu->answer.has_links = false;
    gpu_list_judge(&gpu->list, now, report);
}

/* No answer.  Another process starts after a while, but never while the last one is still there: a driver that hangs
 * would collect them.
 */
static int gpu_silent(struct gpu *gpu, const struct sense_now *now, struct sense_report *report)
{
    struct finding finding = sense_finding(now, FINDING_SENSOR, FINDING_CLASS_DRIVER, FINDING_ERROR,
                                           "nvml", "%s", gpu->silent);

    finding.action = ACTION_INSPECT;
    sense_hold(report, &finding);
    if (gpu->child.fd >= 0)
        return -EBUSY; /* the next process has been asked */
    if (!gpu->again_ns)
        gpu->again_ns = now->mono_ns + AGAIN_NS;
    if (gpu_child_gone(&gpu->child, 0) && now->mono_ns >= gpu->again_ns) {
        gpu->again_ns = now->mono_ns + AGAIN_NS;
        if (gpu_child_start(&gpu->child, gpu_library(gpu)) == 0)
            gpu->asked_ns = now->mono_ns;
    }
    return -EBUSY;
}

/* 1: there is a new answer; 0: not yet. */
static int gpu_receive(struct gpu *gpu, const struct sense_now *now)
{
    int result = gpu->asked_ns ? gpu_child_receive(&gpu->child, &gpu->answer, 0) : 1;

    if (result < 0)
        gpu_fail(gpu, ENDED);
    else if (result == 0 && now->mono_ns - gpu->asked_ns > DEADLINE_NS)
        gpu_fail(gpu, LATE);
    else if (result == 1)
        gpu->silent = NULL;
    return result;
}

static int gpu_read(void *state, const struct sense_now *now, struct sense_report *report)
{
    struct gpu *gpu = state;
    int result = gpu->child.fd >= 0 ? gpu_receive(gpu, now) : 0;

    if (gpu->silent)
        return gpu_silent(gpu, now, report);
    if (gpu->answer.result < 0)
        return gpu->answer.result; /* the driver is not there any more */
    gpu_judge(gpu, now, report);   /* the last answer counts until the next one */
    if (result == 0)
        return 0;
    gpu->asked_ns = now->mono_ns;
    if (gpu_child_ask(&gpu->child, ++gpu->asked % ALL_EVERY == 0) < 0) {
        gpu_fail(gpu, ENDED);
        return gpu_silent(gpu, now, report);
    }
    return 0;
}

const struct sensor sensor_gpu = {
    .name = "gpu",
    .summary = "GPUs: clocks, power, memory and its holders, links, Xids, recovery action (NVML)",
    .fix = "on a machine with GPUs: install the NVIDIA driver; in a container: "
           "NVIDIA_DRIVER_CAPABILITIES=utility",
    .period_ns = NS_PER_S,
    .open = gpu_open,
    .read = gpu_read,
    .close = gpu_close,
};
