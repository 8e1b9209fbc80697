/* logtext_kernel.c - kernel messages: Xids, killed processes, failing devices.
 *
 * Prefixes differ (seconds in brackets, dmesg -T, syslog, raw /dev/kmsg), so phrases are searched anywhere in the
 * line; the host name is the word before "kernel:" in syslog format.  The table of Xids has our own reading of their
 * meaning for a job: Xids that only follow others, or that a job may cause itself, do not make a node faulty.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "read/logtext_private.h"
#include "wire/verdict.h"

static const struct {
    uint16_t code;
    uint8_t layer;
    const char *what;
} xids[] = {
    { 13, LAYER_USER_CODE, "graphics engine exception" },
    { 31, LAYER_USER_CODE, "GPU memory page fault" },
    { 43, LAYER_USER_CODE, "GPU stopped processing" },
    { 46, LAYER_GPU, "GPU stopped responding" },
    { 48, LAYER_GPU_MEMORY, "double-bit ECC error" },
    { 54, LAYER_POWER, "auxiliary power is not connected" },
    { 61, LAYER_GPU, "internal micro-controller halt" },
    { 62, LAYER_GPU, "internal micro-controller halt" },
    { 64, LAYER_GPU_MEMORY, "row remapping failed" },
    { 74, LAYER_NVLINK, "NVLink error" },
    { 79, LAYER_PCIE, "GPU has fallen off the bus" },
    { 92, LAYER_GPU_MEMORY, "many single-bit ECC errors" },
    { 94, LAYER_GPU_MEMORY, "contained ECC error" },
    { 95, LAYER_GPU_MEMORY, "uncontained ECC error" },
    { 109, LAYER_GPU, "context switch timeout" },
    { 110, LAYER_GPU, "security fault" },
    { 119, LAYER_GPU, "GSP does not respond" },
    { 120, LAYER_GPU, "GSP error" },
    { 136, LAYER_NVLINK, "NVLink training failed" },
    { 140, LAYER_GPU_MEMORY, "unrecovered ECC error" },
    { 143, LAYER_GPU, "GPU initialisation failed" },
    { 144, LAYER_NVLINK, "NVLink error" },
    { 145, LAYER_NVLINK, "NVLink error" },
    { 146, LAYER_NVLINK, "NVLink error" },
    { 147, LAYER_NVLINK, "NVLink error" },
    { 148, LAYER_NVLINK, "NVLink error" },
    { 149, LAYER_NVLINK, "NVLink error" },
    { 150, LAYER_NVLINK, "NVLink error" },
    { 155, LAYER_NVLINK, "NVLink error" },
    { 156, LAYER_GPU_MEMORY, "memory was retired" },
    { 158, LAYER_GPU, "GPU fatal timeout" },
    { 167, LAYER_PCIE, "PCIe fatal timeout" },
    { 169, LAYER_GPU, "internal micro-controller halt" },
    { 171, LAYER_GPU_MEMORY, "uncorrectable DRAM error" },
    { 172, LAYER_GPU_MEMORY, "uncorrectable SRAM error" },
};

/* "0000:3b:00", without "PCI:" before it and ".0" behind. */
static void read_device(const struct log_line *line, struct log_event *note)
{
    for (const char *at = line->found; at + 9 < line->end; at++) {
        unsigned domain, bus, device;
        char text[16] = "";

        if (!isxdigit((unsigned char)*at) || (at > line->text && isxdigit((unsigned char)at[-1])))
            continue;
        memcpy(text, at, MIN((size_t)(line->end - at), sizeof(text) - 1));
        if (sscanf(text, "%4x:%2x:%2x", &domain, &bus, &device) == 3) {
            snprintf(note->device, sizeof(note->device), "%04x:%02x:%02x", domain, bus, device);
            return;
        }
    }
}

static void read_host(const struct log_line *line, struct log_event *note)
{
    const char *kernel = log_find(line, " kernel:"), *host;

    if (!kernel || kernel == line->text)
        return;
    for (host = kernel; host > line->text && host[-1] != ' ';)
        host--;
    snprintf(note->node, sizeof(note->node), "%.*s", (int)(kernel - host), host);
}

static void read_pid(const struct log_line *line, const char *words, struct log_event *note)
{
    const char *at = log_find(line, words);
    int64_t pid;

    if (at && log_number(at + strlen(words), line->end, &pid) && pid > 0 && pid < INT32_MAX)
        note->pid = (uint32_t)pid;
}

/* "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python3, GPU has fallen off the bus." */
static bool read_xid(const struct log_line *line, struct log_event *note)
{
    const char *at = memchr(line->found, ')', (size_t)(line->end - line->found));

    read_device(line, note);
    read_host(line, note);
    read_pid(line, "pid=", note);
    if (!at ||
        !log_number(at + (at + 1 < line->end && at[1] == ':' ? 2 : 1), line->end, &note->value))
        return false;
    for (size_t i = 0; i < COUNT(xids); i++) {
        if (xids[i].code == note->value) {
            note->layer = xids[i].layer;
            snprintf(note->cause, sizeof(note->cause), "Xid %u: %s", xids[i].code, xids[i].what);
            return true;
        }
    }
    return false; /* follows others, or says nothing about this job */
}

static bool read_bus(const struct log_line *line, struct log_event *note)
{
    struct log_line device = *line;

    if (log_find(line, "Xid")) /* said there */
        return false;
    note->value = 79;
    device.found = log_find(line, "NVRM: GPU "); /* before it, a time may look like a device */
    if (device.found)
        read_device(&device, note);
    read_host(line, note);
    return true;
}

static bool read_killed(const struct log_line *line, struct log_event *note)
{
    read_host(line, note);
    read_pid(line, "Killed process ", note);
    return true;
}

/* "python3[1234]: segfault at 0 ip ..." */
static bool read_segfault(const struct log_line *line, struct log_event *note)
{
    const char *at = line->found;
    int64_t pid;

    read_host(line, note);
    while (at > line->text && *at != '[')
        at--;
    if (*at == '[' && log_number(at + 1, line->end, &pid) && pid > 0 && pid < INT32_MAX)
        note->pid = (uint32_t)pid;
    return true;
}

/* "INFO: task python3:1234 blocked for more than 120 seconds." */
static bool read_blocked(const struct log_line *line, struct log_event *note)
{
    const char *at = line->found;
    int64_t pid;

    read_host(line, note);
    while (at > line->text && *at != ':')
        at--;
    if (*at == ':' && log_number(at + 1, line->end, &pid) && pid > 0 && pid < INT32_MAX)
        note->pid = (uint32_t)pid;
    return true;
}

/* "Memory failure: 0x4a7: Sending SIGBUS to python3:1234 due to hardware memory corruption"; "Killing" in older ones. */
static bool read_memory(const struct log_line *line, struct log_event *note)
{
    return log_find(line, "Memory failure:") && read_blocked(line, note);
}

static bool read_node(const struct log_line *line, struct log_event *note)
{
    read_device(line, note);
    read_host(line, note);
    return true;
}

const struct log_rule log_rules_kernel[] = {
    { "NVRM: Xid (", LOG_EVENT_XID, LAYER_GPU, NULL, read_xid },
    { "GPU has fallen off the bus", LOG_EVENT_XID, LAYER_PCIE, "Xid 79: GPU has fallen off the bus",
      read_bus },
    { "ut of memory: Killed process ", LOG_EVENT_OOM_KILL, LAYER_HOST_MEMORY,
      "killed by the kernel for lack of memory", read_killed },
    { "]: segfault at ", LOG_EVENT_SEGFAULT, LAYER_USER_CODE, "segmentation fault", read_segfault },
    { "traps: ", LOG_EVENT_SEGFAULT, LAYER_USER_CODE, "crashed by a trap", read_segfault },
    { "[Hardware Error]: Machine check", LOG_EVENT_NODE, LAYER_CPU, "machine check", read_node },
    { "AER: Uncorrected", LOG_EVENT_NODE, LAYER_PCIE, "uncorrected PCIe error", read_node },
    { "AER: Multiple Uncorrected", LOG_EVENT_NODE, LAYER_PCIE, "uncorrected PCIe errors",
      read_node },
    { "EDAC MC0: 1 UE", LOG_EVENT_NODE, LAYER_HOST_MEMORY, "uncorrected memory error", read_node },
    { "Link is Down", LOG_EVENT_NODE, LAYER_NIC, "network link down", read_node },
    { "Link down", LOG_EVENT_NODE, LAYER_NIC, "network link down", read_node },
    { "I/O error, dev ", LOG_EVENT_NODE, LAYER_STORAGE, "disk error", read_node },
    { "EXT4-fs error", LOG_EVENT_NODE, LAYER_STORAGE, "file system error", read_node },
    { "timeout, reset controller", LOG_EVENT_NODE, LAYER_STORAGE, "disk does not respond",
      read_node },
    { "not responding, still trying", LOG_EVENT_NODE, LAYER_STORAGE, "file server does not respond",
      read_node },
    { " blocked for more than ", LOG_EVENT_NODE, LAYER_STORAGE, "a task is blocked in the kernel",
      read_blocked },
    { " due to hardware memory corruption", LOG_EVENT_NODE, LAYER_HOST_MEMORY,
      "its memory is damaged: uncorrected error", read_memory },
    { .words = NULL },
};
