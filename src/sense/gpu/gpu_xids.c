/* gpu_xids.c - Xids among NVML's events: all that a user has where the kernel log may not be read.
 *
 * NVML names no process.  It is the only one on that GPU; or, of several, the only one that leaves the GPU soon after, since most
 * Xids end the process that had them.  The finding is reported at once and, when its process is known, again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/clean.h"
#include "core/time.h"
#include "sense/gpu/gpu_look.h"
#include "wire/decision.h"
#include "wire/kernel/xid.h"

#define XIDS_WAIT_NS (10 * NS_PER_S) /* a process that dumps its core takes a while */

static bool xids_lists(const struct nvml_process *process, unsigned count, uint32_t pid)
{
    for (unsigned i = 0; i < count; i++) {
        if (process[i].pid == pid)
            return true;
    }
    return false;
}

static void xids_candidate(struct gpu_xids *xids, uint32_t pid)
{
    for (unsigned i = 0; i < xids->candidates; i++) {
        if (xids->candidate[i] == pid)
            return;
    }
    if (xids->candidates < NVML_PROCESSES)
        xids->candidate[xids->candidates++] = pid;
}

void gpu_xids_event(struct gpu_xids *xids, uint32_t code, const struct nvml_process *process,
                    unsigned count, const struct gpu_look *look)
{
    const struct xid *xid = xid_find(code);
    struct finding finding =
        sense_finding(look->now, FINDING_XID, xid ? xid->class : FINDING_CLASS_DRIVER,
                      xid ? xid->severity : FINDING_WARN, look->device, "Xid %u: %s, device %s",
                      code, xid ? xid->what : "not in the driver's list", look->device);

    finding.code = code;
    finding.action = xid ? xid->action : ACTION_INSPECT;
    xids->candidates = 0;
    for (unsigned i = 0; i < count; i++)
        xids_candidate(xids, process[i].pid);
    if (!count) { /* it may have died of the error since */
        for (unsigned i = 0; i < xids->before; i++)
            xids_candidate(xids, xids->before_pid[i]);
    }
    if (xids->candidates == 1)
        finding.pid = xids->candidate[0];
    sense_report(look->report, &finding, 0);
    for (unsigned i = 0; count && i < xids->before; i++)
        xids_candidate(xids, xids->before_pid[i]);
    xids->open = finding.pid ? (struct finding){ .code = 0 } : finding;
}

static void xids_close(struct gpu_xids *xids, const struct nvml_process *process, unsigned count,
                       const struct gpu_look *look)
{
    unsigned gone = 0;
    uint32_t pid = 0;

    for (unsigned i = 0; i < xids->candidates; i++) {
        if (!xids_lists(process, count, xids->candidate[i])) {
            pid = xids->candidate[i];
            gone++;
        }
    }
    if (gone == 1) {
        xids->open.pid = pid;
        sense_report(look->report, &xids->open, 0);
    }
    if (gone || look->now->mono_ns - xids->open.mono_ns > XIDS_WAIT_NS)
        xids->open.code = 0;
}

void gpu_xids_judge(struct gpu_xids *xids, const struct nvml_process *process, unsigned count,
                    const struct gpu_look *look)
{
    if (xids->open.code)
        xids_close(xids, process, count, look);
    xids->before = count;
    for (unsigned i = 0; i < count; i++)
        xids->before_pid[i] = process[i].pid;
}
