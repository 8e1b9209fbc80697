/* kernel_words.c - lines of drivers that name themselves and their device first: which words make one a failure.
 *
 * Such a driver has dozens of messages, and new kernels add some.  The rules of the table say what the important ones
 * mean; what is left is decided by words, so a message that nobody listed is still found.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <ctype.h>
#include <string.h>

#include "core/clean.h"
#include "wire/decision.h"
#include "wire/finding.h"
#include "wire/kernel/kernel_private.h"
#include "wire/verdict.h"

#define WORDS_MAX 40

struct kernel_words {
    const char *failed[WORDS_MAX];   /* one of these stands in a line about a failure */
    const char *innocent[WORDS_MAX]; /* and none of these */
};

/* One of the words, which ends behind `least`. */
static bool words_any_in(const struct kernel_scan *scan, const char *least, const char *end,
                         const char *const words[WORDS_MAX])
{
    for (size_t i = 0; i < WORDS_MAX && words[i] && scan->after < end; i++) {
        const char *at = scan->after;

        while ((at = scan_find(at, end, words[i])) && at + strlen(words[i]) <= least)
            at++;
        if (at)
            return true;
    }
    return false;
}

/* Where a name stands, its words say nothing about a failure. */
static bool words_any(const struct kernel_scan *scan, const char *const words[WORDS_MAX])
{
    return words_any_in(scan, scan->text + KERNEL_NAME_MOST, MIN(scan->end, scan->trust_to), words);
}

static bool words_failed(const struct kernel_scan *scan, const struct kernel_words *words)
{
    return scan->found == scan->text && words_any(scan, words->failed) &&
           !words_any_in(scan, scan->text, scan->end, words->innocent);
}

/* "ena 0000:00:03.0 eth0: tx_timeout: 1": drivers print their counters after a reset. */
static bool words_is_counter(const struct kernel_scan *scan)
{
    const char *at = scan->end;

    while (at > scan->text && isdigit((unsigned char)at[-1]))
        at--;
    if (at == scan->end || at - scan->text < 4 || at[-1] != ' ' || at[-2] != ':')
        return false;
    for (at -= 2; at > scan->text && (isalnum((unsigned char)at[-1]) || at[-1] == '_');)
        at--;
    return at - scan->text >= 2 && at[-1] == ' ' && at[-2] == ':';
}

/* The driver also says much about requests of programs that it refuses; only these are about the GPU itself. */
bool words_nvrm(const struct kernel_scan *scan, struct kernel_event *event)
{
    static const struct kernel_words words = { { "cannot proceed with booting",
                                                 "annot initialize GSP",
                                                 "to be reset",
                                                 "needs a reset",
                                                 "bad register read",
                                                 "GPU is lost",
                                                 "GPU lost",
                                                 "not responding",
                                                 "in a bad state",
                                                 "unrecoverable",
                                                 "Uncorrectable",
                                                 "Timed out waiting",
                                                 "annot attach gpu",
                                                 "bailing out",
                                                 "failed to wait for",
                                                 "GSP Timeout",
                                                 "heartbeat timed out",
                                                 "timeout error",
                                                 "request_irq() failed",
                                                 "RPC timeout",
                                                 "failed to execute",
                                                 "FULLCHIP_RESET" },
                                               { "Rate limiting", "off the bus",
                                                 "Assertion failed: 0 @" } };

    return words_failed(scan, &words) && gpu_driver(scan, event);
}

/* "[drm:psp_hw_start [amdgpu]] *ERROR* PSP load tmr failed!" */
static bool words_is_drm_error(const struct kernel_scan *scan)
{
    return scan->end - scan->text > 5 && memcmp(scan->text, "[drm:", 5) == 0 &&
           scan_find(scan->after, scan->end, "*ERROR*");
}

/* "GPU HANG: ecode 12:1:0020fffe, in python3 [1676]", "Timedout job: seqno=..., in python3 [1676]": any program that computes
 * for too long, or reads what it does not own, has the driver say so.
 */
static bool words_drm_of_work(const struct kernel_scan *scan, struct kernel_event *event)
{
    static const char *const of_work[WORDS_MAX] = { "GPU HANG", "Timedout job", "CAT error",
                                                    "hang detected", "for hang on" };
    const char *in = scan_find(scan->text, scan->end, " in ");
    const char *pid = in ? scan_find(in, scan->end, " [") : NULL;

    if (!words_any(scan, of_work))
        return false;
    event->class = FINDING_CLASS_APP;
    event->severity = FINDING_ERROR;
    event->action = ACTION_RESTART;
    if (pid) {
        scan_word(in + 4, pid, "", event->process, sizeof(event->process));
        scan_pid(pid + 2, scan->end, event);
    }
    return true;
}

/* Drivers of AMD, Intel and Habana.  What fails while they ask for clocks and temperatures, and what they report after a
 * reset, hurts nobody.
 */
bool words_drm(const struct kernel_scan *scan, struct kernel_event *event)
{
    static const struct kernel_words words = {
        { "Fatal error", "failed to respond", "failed to response", "not done with your previous",
          "eset failed", "VRAM is lost", "unrecoverable", "device_ip_init failed", "hardware error",
          "ECC Fatal", "wedged", "heartbeat failed", "reset request timed out",
          "Going to reset device", "resume failed", "load tmr failed", "hw_init failed",
          "init failed", "hw start failed" },
        { "succeeded", "correctable hardware errors detected in total", "optional" }
    };

    if (scan->found != scan->text && !words_is_drm_error(scan))
        return false;
    if (words_any(scan, words.innocent) ||
        !(words_drm_of_work(scan, event) || words_any(scan, words.failed)))
        return false;
    if (scan_has(scan, "VRAM is lost")) /* after every reset of the whole GPU */
        event->severity = FINDING_ERROR;
    scan_pci_in(scan->text, scan->end, false, event->device);
    return true;
}

/* "pcieport 0000:89:02.0: DPC: unmasked uncorrectable error detected"; at boot it lists what it can do. */
bool words_dpc(const struct kernel_scan *scan, struct kernel_event *event)
{
    static const char *const failed[WORDS_MAX] = { "containment event", "detected", "RP PIO error",
                                                   "not set in", "ecovery failed" };

    return words_any(scan, failed) && device_pci(scan, event);
}

/* "failed", "failed: -34", "failed, error -5": a status of the kernel behind it is no more than its reason. */
static const char *words_before_failed(const struct kernel_scan *scan)
{
    static const char failed[] = " failed";
    const size_t bytes = sizeof(failed) - 1;
    const char *at = scan->end;

    while (at > scan->text && isdigit((unsigned char)at[-1]))
        at--;
    if (at < scan->end && at > scan->text && at[-1] == '-') {
        at--;
        while (at > scan->text && strchr(" :=,", at[-1]))
            at--;
    } else {
        at = scan->end;
    }
    if (at - scan->text < (ptrdiff_t)bytes || memcmp(at - bytes, failed, bytes) != 0)
        return NULL;
    return at - bytes;
}

/* "mlx5_core 0000:01:00.0: handle_hca_cap failed", "ice 0000:e2:00.1: ice_init_interrupt_scheme failed: -34": a step of the driver's
 * own start, named by its function and nothing else
 */
static bool words_is_step(const struct kernel_scan *scan)
{
    const char *at = words_before_failed(scan);
    bool joined = false;

    if (!at || scan_has(scan, "sriov"))
        return false;
    for (; at > scan->text && (isalnum((unsigned char)at[-1]) || at[-1] == '_'); at--)
        joined |= at[-1] == '_';
    return joined && at - scan->text > 2 && at[-1] == ' ' && at[-2] == ':';
}

/* Commands of programs that the firmware refuses are no failures of the adapter, so "failed" alone is not among these. */
static const struct kernel_words words_of_nics = {
    { "tx hang",
      "Tx hang",
      "TX hang",
      "timed out",
      "timeout",
      "Timeout",
      "link loss",
      "not responding",
      "unresponsive",
      "unrecoverable",
      "irmware error",
      "irmware crash",
      "FW error",
      "fatal",
      "reset failed",
      "ecovery failed",
      "is unavailable",
      "ttempt failed",
      "Rebuild failed",
      "abort",
      "Reset adapter",
      "Trigger reset is on",
      "hasn't completed",
      "rror cqe",
      "ERR CQE",
      "in error state",
      "catastrophic",
      "dapter removed",
      "alicious",
      "is disabled on this device",
      "Entering Safe Mode",
      "PORT_DOWN",
      "Link down reason",
      "nitialization FAILED",
      "nitialization failed",
      "ouldn't open port",
      "failed to allocate command entry",
      "failed to allocate device",
      "failed to initialize",
      "ouldn't register" },
    { "recovered", " set to", "non-fatal", "successful", "imeout value", "devlink", "max timeout" }
};

bool words_nic(const struct kernel_scan *scan, struct kernel_event *event)
{
    if (scan->found != scan->text || !(words_is_step(scan) || words_failed(scan, &words_of_nics)))
        return false;
    return !words_is_counter(scan) && device_nic(scan, event);
}

/* "r8152 1-1.3:1.0 eth1: Tx timeout": whatever its driver is called, the kernel names driver, place and interface first.  Most lines
 * of a log come here, and few have this form, so it is looked at first.
 */
bool words_unlisted(const struct kernel_scan *scan, struct kernel_event *event)
{
    struct kernel_scan own = *scan;

    *event = (struct kernel_event){ .boot_ns = scan->boot_ns };
    if (!device_netdev(scan, event))
        return false;
    kernel_trust(&own);
    own.found = own.after = own.text;
    own.end = MIN(own.end, own.trust_to);
    if (own.trust_from != own.text || words_is_counter(&own) || !words_failed(&own, &words_of_nics))
        return false;
    event->kind = FINDING_NIC;
    event->class = FINDING_CLASS_FABRIC;
    event->severity = FINDING_ERROR;
    event->action = ACTION_INSPECT;
    event->layer = LAYER_NIC;
    event->what = "network adapter failed";
    return true;
}

/* "dm-0: writeback error on inode 71, offset ..., sector ...", "XFS (sda1): writeback error on sector ..." */
bool words_writeback(const struct kernel_scan *scan, struct kernel_event *event)
{
    if (memchr(scan->text, '(', (size_t)(scan->found - scan->text)))
        return device_filesystem(scan, event);
    scan_word(scan->text, scan->found, " :", event->device, sizeof(event->device));
    return event->device[0] && strncmp(event->device, "loop", 4) != 0;
}

/* "md/raid1:md0: Disk failure on sdb6, disabling device.", "md: super_written gets error=-5"; much of what it prints is its
 * own work: checks, reconstructions, rows of tables.
 */
bool words_md(const struct kernel_scan *scan, struct kernel_event *event)
{
    static const struct kernel_words words = {
        { "ot correctable", "OT corrected", "rescheduling sector", "annot continue operation",
          "gets error", "oo many read errors", "ot enough operational", "kicking",
          "isk failure on" },
        { "non-fresh", NULL }
    };
    const char *at = scan->text;

    if (!words_failed(scan, &words))
        return false;
    if (scan->end - at > 3 && at[2] == '/') /* "md/raid1:md0: " */
        at = memchr(at, ':', (size_t)(scan->end - at));
    if (at && *at == ':')
        scan_word(at + 1, scan->end, " :", event->device, sizeof(event->device));
    return true;
}

/* "device-mapper: multipath: 253:3: Failing path 8:32."; tables that a person wrote wrongly are no fault. */
bool words_dm(const struct kernel_scan *scan, struct kernel_event *event)
{
    static const struct kernel_words words = {
        { "Failing path", "out-of-data-space mode", "read-only mode", "I/O error", "IO error",
          "aborting current metadata transaction", "data block", "metadata operation",
          "ogging error", "annot write" },
        { "table:", "ioctl", "no free data", "uevent" }
    };

    (void)event;
    return words_failed(scan, &words);
}

/* "SCSI error : <0 0 1 0> return code = 0x6000000": kernels before 2.6.20 */
bool words_scsi(const struct kernel_scan *scan, struct kernel_event *event)
{
    (void)event;
    return scan_find(scan->after, scan->end, "> return code = ");
}

/* "connection2:0: ping timeout of 5 secs expired, recv timeout 5, ..." */
bool words_iscsi(const struct kernel_scan *scan, struct kernel_event *event)
{
    (void)event;
    return scan_find(scan->text, scan->found, "connection") &&
           scan_find(scan->after, scan->end, "expired");
}

/* Controllers of disks, whatever their driver is called; what they abort on request succeeds. */
bool words_hba(const struct kernel_scan *scan, struct kernel_event *event)
{
    static const struct kernel_words words = { { "abort failed",
                                                 "reset failed",
                                                 "timed out",
                                                 "timeout",
                                                 "offline",
                                                 "ockup",
                                                 "LOCKUP",
                                                 "fatal",
                                                 "in FAULT",
                                                 "not responding",
                                                 "controller is down",
                                                 "LOOP DOWN",
                                                 "Link Down",
                                                 "task abort!",
                                                 "device reset!",
                                                 "bus reset!",
                                                 "adapter reset",
                                                 "unrecoverable",
                                                 "is not operational",
                                                 "appears hung",
                                                 "oop down",
                                                 "PCI disconnect",
                                                 "aborted all outstanding",
                                                 "/CRIT)",
                                                 "/FATAL)",
                                                 "/DEAD)",
                                                 " failure at ",
                                                 "sending diag reset" },
                                               { "SUCCESS", "success", "uccessfully", "completed",
                                                 " set to", "imeout value", "FW provided" } };

    if (!words_failed(scan, &words))
        return false;
    if (!scan_pci_in(scan->text, scan->end, true, event->device))
        scan_word(scan->text, scan->end, " :", event->device, sizeof(event->device));
    return true;
}

/* "NFS: nfs4_reclaim_open_state: Lock reclaim failed!", "CIFS: VFS: \\\\nas1 Send error in SessSetup = -13", "beegfs: ... timed
 * out from ..."
 */
bool words_remote_fs(const struct kernel_scan *scan, struct kernel_event *event)
{
    static const struct kernel_words words = { { "reclaim failed",
                                                 "lease expired failed",
                                                 "lease failed",
                                                 "recovery failed",
                                                 "end error",
                                                 "mount failed",
                                                 "timed out",
                                                 "imeout",
                                                 "not respond",
                                                 "unreachable",
                                                 "No task to wake",
                                                 "ommunication error",
                                                 "onnection lost",
                                                 "has expired",
                                                 "econnect failed",
                                                 "connection refused",
                                                 "onnect failed",
                                                 "recv error",
                                                 "fileid changed",
                                                 "connecting to socket",
                                                 "sending data on socket" },
                                               { "Registering", "imeout value", " set to",
                                                 "enabled", "enabling" } };

    (void)event;
    return words_failed(scan, &words);
}

bool words_lnet(const struct kernel_scan *scan, struct kernel_event *event)
{
    static const struct kernel_words words = { { "imed out", "timeout", "failed", "closed",
                                                 "unreachable", "error", "was inactive for" },
                                               { "Skipped", "Using ", "Added " } };

    return words_failed(scan, &words) && device_lustre(scan, event);
}

/* Optional features that a disk does not have, and questions of programs that it refuses, hurt nobody. */
bool words_nvme(const struct kernel_scan *scan, struct kernel_event *event)
{
    static const struct kernel_words words = {
        { " timeout", "failed", "Failed", " lost", "resetting controller due to", "rejecting",
          "shutdown incomplete", "request disconnect", "genctr mismatch" },
        { "timeout set to", "Arbitration", "APST", "ANA", "CMB", "Property ", "smart log",
          "effects log", "host memory buffer", "Abort status", "AEN", "nvmet", "UUID", "lockdown",
          "hwmon" }
    };

    return words_failed(scan, &words) && device_nvme(scan, event);
}

/* "block nvme1n1: no usable path - requeuing I/O" */
bool words_nvme_path(const struct kernel_scan *scan, struct kernel_event *event)
{
    static const struct kernel_words words = { { "no usable path", "no available path" },
                                               { NULL } };

    return words_failed(scan, &words) && device_nvme(scan, event);
}

/* "JBD2: Detected IO errors while flushing file data on sda1-8", "JBD2: Error -5 detected when updating journal
 * superblock for sda1-8."
 */
bool words_jbd2(const struct kernel_scan *scan, struct kernel_event *event)
{
    static const struct kernel_words words = {
        { "IO error", "I/O error", "Error", "failed", "nvalid checksum" }, { NULL }
    };
    const char *at = scan_find(scan->after, scan->end, " for ");

    if (!words_failed(scan, &words))
        return false;
    if (at) {
        scan_word(at + 5, scan->end, " .:,", event->device, sizeof(event->device));
        return true;
    }
    at = scan_find(scan->after, scan->end, " on ");
    if (at)
        scan_word(at + 4, scan->end, " .:,", event->device, sizeof(event->device));
    return true;
}

/* Ports without a disk fail quietly at boot, and old disks refuse new commands. */
bool words_ata(const struct kernel_scan *scan, struct kernel_event *event)
{
    static const struct kernel_words words = {
        { "failed to IDENTIFY", "revalidation failed", "softreset failed", "hardreset failed",
          "disable device", "limiting SATA link speed", "failed to set xfermode", "error: { UNC",
          "error: { IDNF", "error: { ICRC",
          ": disabled" }, /* a port that is turned off has other words: "port disabled" */
        { NULL }
    };

    return words_failed(scan, &words) && scan->after < scan->end &&
           isdigit((unsigned char)*scan->after) && device_ata(scan, event);
}

bool words_ext4(const struct kernel_scan *scan, struct kernel_event *event)
{
    static const struct kernel_words words = {
        { "I/O error", "Data will be lost", "potential data loss", "allocation failed",
          "unable to read", "can't read", "error loading journal", "journal has aborted",
          "bad geometry" },
        { NULL }
    };

    return words_failed(scan, &words) && device_filesystem(scan, event);
}

bool words_xfs(const struct kernel_scan *scan, struct kernel_event *event)
{
    static const struct kernel_words words = {
        { "I/O error", "I/O Error", "Internal error", "writeback error", "log mount failed",
          "recovery failed", "Failing async write", "page discard", "Block device removal",
          "run xfs_repair" },
        { "User initiated" }
    };

    return words_failed(scan, &words) && device_filesystem(scan, event);
}

/* "XFS: Internal error XFS_WANT_CORRUPTED_RETURN at line 342 ...": older kernels do not name the disk. */
bool words_xfs_alone(const struct kernel_scan *scan, struct kernel_event *event)
{
    static const struct kernel_words words = { { "I/O error", "I/O Error", "Internal error",
                                                 "nternal corruption", "log mount failed",
                                                 "recovery failed" },
                                               { "User initiated" } };

    (void)event;
    return words_failed(scan, &words);
}

/* "sd 0:0:1:0: [sdb] tag#12 Add. Sense: Unrecovered read error"; much else is asked for, or happens after a reset. */
bool words_sense(const struct kernel_scan *scan, struct kernel_event *event)
{
    static const char *const failed[WORDS_MAX] = { "read error",
                                                   "write error",
                                                   "Write error",
                                                   "Read error",
                                                   "hardware error",
                                                   "nternal target failure",
                                                   "seek error",
                                                   "ailure prediction threshold",
                                                   "reallocat",
                                                   "medium error",
                                                   "echanical positioning error" };

    return words_any(scan, failed) && device_scsi(scan, event);
}

/* What a person typed wrongly is no fault of the disk. */
bool words_btrfs_error(const struct kernel_scan *scan, struct kernel_event *event)
{
    static const struct kernel_words words = {
        { ": " },
        { "mount option", "bad option", "balance:", "not supported", "no space", "ENOSPC" }
    };

    return words_failed(scan, &words) && device_filesystem(scan, event);
}

bool words_btrfs_warning(const struct kernel_scan *scan, struct kernel_event *event)
{
    static const struct kernel_words words = { { "IO error", "I/O error", "csum failed",
                                                 "checksum verify failed", "checksum error",
                                                 "is missing", "aborted" },
                                               { NULL } };

    return words_failed(scan, &words) && device_filesystem(scan, event);
}
