/* kernel_gpu.c - lines of the GPU driver: Xids, NVSwitch errors, GPUs that left the bus, failed assertions.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "wire/decision.h"
#include "wire/finding.h"
#include "wire/kernel/kernel_private.h"
#include "wire/kernel/xid.h"
#include "wire/verdict.h"

/* "pid=1234, name=python3"; also pid='<unknown>'. */
static void kernel_xid_process(const struct kernel_scan *scan, struct kernel_event *event)
{
    const char *pid = scan_find(scan->after, scan->end, "pid="), *name;

    if (!pid)
        return;
    scan_pid(pid + 4, scan->end, event);
    name = scan_find(pid, scan->end, "name=");
    if (name && event->pid)
        scan_word(name + 5, scan->end, ", ", event->process, sizeof(event->process));
}

/* "NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x021425c6 0x00000000 ...)", after the number and the process. */
static void kernel_xid_link(const struct kernel_scan *scan, struct kernel_event *event)
{
    const char *link = scan_find(scan->after, scan->end, "Link "), *info, *unit, *stop;
    uint64_t number = 0, word = 0, status = 0;
    const struct xid_link *decoded;

    if (link && scan_number(link + 5, scan->end, 10, &number) && number < 1000)
        event->link = (uint32_t)number + 1;
    info = scan_find(link ? link : scan->after, scan->end, "0x");
    if (info && scan_number(info + 2, scan->end, 16, &word)) {
        const char *next = scan_find(info + 2, scan->end, "0x");

        if (next)
            scan_number(next + 2, scan->end, 16, &status);
    }
    for (unit = scan->after; unit < scan->end && !isupper((unsigned char)*unit); unit++)
        ;
    for (stop = unit; stop < scan->end && (isupper((unsigned char)*stop) || *stop == '_' ||
                                           isdigit((unsigned char)*stop));)
        stop++;
    if (stop - unit < 4) /* "Fatal", or nothing */
        stop = unit;
    decoded =
        xid_link_decode(event->code, unit, (size_t)(stop - unit), (uint32_t)word, (uint32_t)status);
    if (decoded) {
        event->more = decoded->what;
        event->severity = decoded->severity;
        event->action = decoded->action;
    } else if (scan_find(scan->after, scan->end, " Fatal")) {
        event->severity = FINDING_FATAL;
        event->action = ACTION_RESET_GPU;
    } else if (scan_find(scan->after, scan->end, "onfatal") ||
               scan_find(scan->after, scan->end, "on-fatal")) {
        event->severity = FINDING_WARN;
    }
}

/* "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)" */
static void kernel_xid_recovery(const struct kernel_scan *scan, struct kernel_event *event)
{
    const char *to = scan_find(scan->after, scan->end, " to 0x");
    const struct xid_recovery *recovery;
    uint64_t number;

    if (!to || !scan_number(to + 6, scan->end, 16, &number))
        return;
    recovery = xid_recovery_find((uint32_t)MIN(number, UINT64_C(1000)));
    event->severity = recovery ? recovery->severity : FINDING_ERROR;
    event->action = recovery ? recovery->action : ACTION_INSPECT;
    event->more = recovery ? recovery->what : "to a number that this version does not know";
}

static void kernel_xid_more(const struct kernel_scan *scan, struct kernel_event *event)
{
    const char *previous = scan_find(scan->after, scan->end, "previous Xid ");
    uint64_t number;

    if (event->code == XID_RECOVERY_ACTION)
        kernel_xid_recovery(scan, event);
    else if (event->code >= 144 && event->code <= 150)
        kernel_xid_link(scan, event);
    else if (event->code == 74 && scan_find(scan->after, scan->end, "fatal error detected on link"))
        event->severity = FINDING_FATAL;
    if (previous && scan_number(previous + 13, scan->end, 10, &number) && number <= UINT16_MAX) {
        event->caused_by = (uint32_t)number;
        event->follows = MAX(event->follows, 2);
    }
}

/* "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python3, GPU has fallen off the bus." */
bool gpu_xid(const struct kernel_scan *scan, struct kernel_event *event)
{
    const char *at = scan->after;
    struct kernel_scan rest = *scan;
    const struct xid *xid;
    uint64_t code;

    while (at < scan->end && *at == ' ')
        at++;
    if (at < scan->end && *at == '(') {
        const char *close = memchr(at, ')', (size_t)(scan->end - at));

        if (!close)
            return false;
        scan_pci_in(at + 1, close, false, event->device);
        at = close + 1;
    }
    while (at < scan->end && (*at == ' ' || *at == ':'))
        at++;
    if (!scan_number(at, scan->end, 10, &code) || !code || code > UINT16_MAX)
        return false;
    while (at < scan->end && isdigit((unsigned char)*at))
        at++;
    rest.after = at;
    event->code = (uint32_t)code;
    xid = xid_find(event->code);
    event->what = xid ? xid->what : "unknown error of the GPU driver";
    if (xid) {
        event->layer = xid->layer;
        event->class = xid->class;
        event->severity = xid->severity;
        event->action = xid->action;
        event->follows = xid->follows;
    }
    kernel_xid_process(&rest, event);
    kernel_xid_more(&rest, event);
    return true;
}

/* "SXid (PCI:0000:c1:00.0): 28006, Non-fatal, Link 46 MC TS crumbstore MCTO (First)"; its data stands in lines behind it. */
bool gpu_sxid(const struct kernel_scan *scan, struct kernel_event *event)
{
    struct kernel_reader *reader = scan->reader;
    const char *close = memchr(scan->after, ')', (size_t)(scan->end - scan->after)), *link;
    uint64_t code, number;

    if (!close || !scan_pci_in(scan->after, close, true, event->device) || close + 1 >= scan->end ||
        !scan_number(close + 2, scan->end, 10, &code) || !code || code > UINT32_MAX)
        return false;
    event->code = (uint32_t)code;
    if ((scan_find(close, scan->end, ", Data {") || scan_find(close, scan->end, ", Severity ")) &&
        reader->sxid_code == event->code && strcmp(reader->sxid_device, event->device) == 0)
        return false;
    reader->sxid_code = event->code;
    memcpy(reader->sxid_device, event->device, sizeof(reader->sxid_device));
    link = scan_find(close, scan->end, "Link ");
    if (link && scan_number(link + 5, scan->end, 10, &number) && number < 1000)
        event->link = (uint32_t)number + 1;
    if (scan_find(close, scan->end, "Non-fatal")) {
        event->what = "error of an NVSwitch, not fatal";
        event->severity = FINDING_WARN;
        event->action = ACTION_NONE;
        event->layer = LAYER_UNKNOWN;
    } else if (scan_find(close, scan->end, "Fatal")) {
        event->what = "fatal error of an NVSwitch";
        event->severity = FINDING_FATAL;
    }
    return true;
}

/* "NVRM: The NVIDIA GPU 0000:b3:00.0 (PCI ID: 10de:26b5)", and lines behind it that say what is the matter with it. */
bool gpu_named(const struct kernel_scan *scan, struct kernel_event *event)
{
    char device[KERNEL_DEVICE];

    if (scan_pci_in(scan->after, scan->end, false, device))
        memcpy(scan->reader->gpu, device, sizeof(device));
    if (!scan_find(scan->after, scan->end, "fallen off the bus"))
        return false;
    return gpu_fallen(scan, event);
}

/* "NVRM: GPU 0000:29:00.0: GPU has fallen off the bus.", "NVRM: GPU at PCI:0000:3b:00 has fallen off the bus." */
bool gpu_fallen(const struct kernel_scan *scan, struct kernel_event *event)
{
    const char *driver = scan_find(scan->text, scan->end, "NVRM");
    const char *gpu = driver ? scan_find(driver, scan->end, "GPU ") : NULL;

    if (!driver || scan_has(scan, "NVRM: Xid"))
        return false;
    if (!gpu || !scan_pci_in(gpu + 4, scan->end, false, event->device))
        memcpy(event->device, scan->reader->gpu, sizeof(event->device));
    event->code = XID_FALLEN_OFF;
    event->what = xid_find(XID_FALLEN_OFF)->what;
    return event->device[0] != '\0';
}

bool gpu_driver(const struct kernel_scan *scan, struct kernel_event *event)
{
    if (!scan_has(scan, "NVRM") && !scan_has(scan, "nvidia") && !scan_has(scan, "uvm"))
        return false;
    scan_pci_in(scan->text, scan->end, false, event->device);
    return true;
}

/* "amdgpu 0000:67:00.0: ...", "[drm:gfx_v9_0_ring_test_ring [amdgpu]] *ERROR* ..."; "gim error libgv: [0:bd:0:0]..." on hosts of
 * virtual machines, whose addresses have another form.
 */
bool gpu_amd(const struct kernel_scan *scan, struct kernel_event *event)
{
    if (!scan_has(scan, "amdgpu") && !scan_has(scan, "gim error"))
        return false;
    scan_pci_in(scan->text, scan->end, false, event->device);
    return true;
}

/* "[drm:amdgpu_device_ip_early_init [amdgpu]] *ERROR* early_init of IP block <psp> failed -22" */
bool gpu_init(const struct kernel_scan *scan, struct kernel_event *event)
{
    return scan_find(scan->after, scan->end, "> failed ") && gpu_amd(scan, event);
}

/* Drivers fail some assertions on healthy machines.  Those that matter name a lost GPU, a needed reset or a timeout. */
bool gpu_assertion(const struct kernel_scan *scan, struct kernel_event *event)
{
    static const struct {
        const char *status, *what;
        uint8_t severity, action;
    } statuses[] = {
        { "GPU_IS_LOST", "the driver lost the GPU", FINDING_FATAL, ACTION_REBOOT },
        { "0x0000000F", "the driver lost the GPU", FINDING_FATAL, ACTION_REBOOT },
        { "RESET_REQUIRED", "the GPU must be reset", FINDING_FATAL, ACTION_RESET_GPU },
        { "status=0x00000062", "the GPU must be reset", FINDING_FATAL, ACTION_RESET_GPU },
        { "NV_ERR_FATAL_ERROR", "fatal error in the driver", FINDING_FATAL, ACTION_RESET_GPU },
        { "NV_ERR_TIMEOUT", "the GPU did not answer the driver", FINDING_ERROR, ACTION_INSPECT },
        { "NV_ERR_ECC_ERROR", "ECC error in the driver", FINDING_ERROR, ACTION_INSPECT },
        { "NV_ERR_NVLINK", "NVLink error in the driver", FINDING_ERROR, ACTION_INSPECT },
    };

    if (!scan_has(scan, "NVRM") && !scan_has(scan, "nvAssert"))
        return false;
    for (size_t i = 0; i < COUNT(statuses); i++) {
        if (!scan_has(scan, statuses[i].status))
            continue;
        event->what = statuses[i].what;
        event->severity = statuses[i].severity;
        event->action = statuses[i].action;
        scan_pci_in(scan->text, scan->end, false, event->device);
        return true;
    }
    return false;
}

/* Links without an Xid: which words make a line of the link driver an error. */
bool gpu_link(const struct kernel_scan *scan, struct kernel_event *event)
{
    static const char *const words[] = { "fatal",
                                         "Fatal",
                                         "training fail",
                                         "failed to train",
                                         "is down",
                                         "link down",
                                         "Link down",
                                         "error detected",
                                         "timed out",
                                         "in fault",
                                         "disabled due to error",
                                         "lane down",
                                         "Failed to send inband" };
    uint64_t number;
    const char *link;

    if ((!scan_has(scan, "NVRM") && !scan_has(scan, "nvidia-nv")) || scan_has(scan, "SXid ("))
        return false;
    for (size_t i = 0; i < COUNT(words); i++) {
        if (!scan_has(scan, words[i]))
            continue;
        scan_pci_in(scan->text, scan->end, false, event->device);
        link = scan_find(scan->text, scan->end, "link ");
        if (link && scan_number(link + 5, scan->end, 10, &number) && number < 1000)
            event->link = (uint32_t)number + 1;
        return true;
    }
    return false;
}
