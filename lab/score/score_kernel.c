/* score_kernel.c - the kernel's log of a node on which a rank really died or hangs, and what else is in such a log.
 *
 * The lines are as kernels write them, with the rank's process and the time of its fault, in the forms in which dmesg
 * and journalctl print them.  Around them is what must not be taken for a cause: the same lines of hours before, of
 * another process, of another host, of another kind, and what every log is full of.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"
#include "lab/score/score_private.h"

#define ONSET 20
#define LONG_AGO_NS (3 * 3600 * NS_PER_S)

enum kernel_form {
    FORM_SYSLOG, /* journalctl -k: "Nov 15 15:41:03 host kernel: " */
    FORM_DATE,   /* dmesg -T: "[Sun Nov 15 15:41:03 2026] " */
    FORM_BOOT,   /* dmesg: "[98712.345678] " */
    FORMS
};

/* An @ in a line is the process. */
static const struct script {
    const char *name;
    enum fault_id fault;
    uint32_t nodes;
    const char *line;  /* NULL: nothing explains it */
    const char *decoy; /* at the same time, on the same node, and it explains nothing */
} scripts[] = {
    [SCORE_KERNEL_OOM] = { "oom", FAULT_KILL, 1,
                           "Out of memory: Killed process @ (lockstep) total-vm:104857600kB, "
                           "anon-rss:99857600kB, file-rss:0kB, shmem-rss:0kB, UID:0",
                           "mlx5_core 0000:81:00.0 ens2np0: Link down" },
    [SCORE_KERNEL_MEMORY] = { "memory", FAULT_KILL, 1,
                              "Memory failure: 0x3f1a2b: Killing lockstep:@ due to hardware memory "
                              "corruption",
                              "EXT4-fs error (device sdb1): ext4_lookup:1690: inode #2: comm ls" },
    [SCORE_KERNEL_BUS] = { "xid-79", FAULT_ABORT, 1,
                           "NVRM: Xid (PCI:0000:3b:00): 79, pid=@, name=lockstep, GPU has fallen "
                           "off the bus.",
                           "mlx5_core 0000:81:00.0 ens2np0: Link down" },
    [SCORE_KERNEL_ECC] = { "xid-94", FAULT_EXCEPTION, 1,
                           "NVRM: Xid (PCI:0000:86:00): 94, pid=@, name=lockstep, Contained: SM "
                           "(0x1). RST: No, D-RST: No",
                           "I/O error, dev sdb, sector 2048 op 0x0:(READ) flags 0x0" },
    [SCORE_KERNEL_DEVICE] = { "xid-79-hang", FAULT_GPU_HANG, 1,
                              "NVRM: Xid (PCI:0000:3b:00): 79, pid=@, name=lockstep, GPU has "
                              "fallen off the bus.",
                              "e1000e 0000:00:1f.6 eno1: NIC Link is Down" },
    [SCORE_KERNEL_DISK] = { "disk", FAULT_STUCK_DATA, 1,
                            "nvme nvme0: I/O 832 QID 9 timeout, reset controller",
                            "e1000e 0000:00:1f.6 eno1: NIC Link is Down" },
    [SCORE_KERNEL_LINK] = { "link", FAULT_FROZEN_LINK, 2,
                            "mlx5_core 0000:81:00.0 ens2np0: Link down",
                            "EXT4-fs error (device sdb1): ext4_lookup:1690: inode #2: comm ls" },
    [SCORE_KERNEL_OTHERS] = { "others", FAULT_KILL, 1, NULL,
                              "I/O error, dev sdb, sector 2048 op 0x0:(READ) flags 0x0" },
};
_Static_assert(COUNT(scripts) == SCORE_KERNELS, "a row for each");

static const struct script *script_of(const struct fault *fault)
{
    for (unsigned i = 0; i < SCORE_KERNELS; i++) {
        if (fault->set & (1u << (16 + i)))
            return &scripts[i];
    }
    return NULL;
}

const char *score_kernel_name(const struct fault *fault)
{
    const struct script *script = script_of(fault);

    return script ? script->name : NULL;
}

void score_kernel_case(uint32_t number, struct rand *rand, struct score_case *at)
{
    uint32_t which = number % SCORE_KERNELS, round = number / SCORE_KERNELS;
    const struct script *script = &scripts[which];

    score_layout(at, rand, script->fault, score_size(which + round / 3));
    at->nodes = script->nodes;
    at->steps = ONSET + 14;
    at->fault = (struct fault){ .kind = score_kind(script->fault),
                                .set = FAULT_STEP | FAULT_RANK | 1u << (16 + which),
                                .step = ONSET,
                                .rank = score_place(which + round, at->ranks) };
}

struct kernel_pen {
    FILE *file;
    enum kernel_form form;
    char host[64];
};

static void score_kernel_put(const struct kernel_pen *pen, int64_t mono_ns, const char *line,
                             uint32_t pid)
{
    int64_t real_ns = mono_ns + time_real_ns() - time_mono_ns();
    time_t seconds = (time_t)(real_ns / NS_PER_S);
    const char *at = strchr(line, '@');
    char date[64] = "";
    struct tm tm;

    if (pen->form == FORM_BOOT) {
        snprintf(date, sizeof(date), "[%12.6f] ", (double)MAX(mono_ns, NS_PER_S) / 1e9);
    } else {
        localtime_r(&seconds, &tm);
        strftime(date, sizeof(date),
                 pen->form == FORM_DATE ? "[%a %b %e %H:%M:%S %Y] " : "%b %e %H:%M:%S ", &tm);
    }
    fprintf(pen->file, "%s%s%s", date, pen->form == FORM_SYSLOG ? pen->host : "",
            pen->form == FORM_SYSLOG ? " kernel: " : "");
    if (at)
        fprintf(pen->file, "%.*s%u%s\n", (int)(at - line), line, pid, at + 1);
    else
        fprintf(pen->file, "%s\n", line);
}

static void score_put_node(const struct kernel_pen *pen, const struct script *script,
                           const struct score_truth *truth)
{
    const char *xid = scripts[SCORE_KERNEL_BUS].line;
    int64_t then_ns = truth->mono_ns;

    score_kernel_put(pen, then_ns - LONG_AGO_NS, scripts[SCORE_KERNEL_OOM].line, truth->pid);
    score_kernel_put(pen, then_ns - LONG_AGO_NS,
                     "Memory failure: 0x9: recovery action for dirty LRU page: Recovered", 0);
    score_kernel_put(pen, then_ns - LONG_AGO_NS, xid, truth->pid);
    score_kernel_put(pen, then_ns - 2 * NS_PER_S,
                     "perf: interrupt took too long (2503 > 2500), lowering rate", 0);
    score_kernel_put(pen, then_ns - NS_PER_S, script->decoy, 0);
    score_kernel_put(pen, then_ns - NS_PER_S, xid,
                     (uint32_t)getpid()); /* alive, and none of the ranks */
    if (script->line)
        score_kernel_put(pen, then_ns, script->line, truth->pid);
    score_kernel_put(pen, then_ns,
                     "TCP: request_sock_TCP: Possible SYN flooding on port 29500. Sending cookies.",
                     0);
}

/* A log of the rank's node, whose name its lines or its file have, and one of a host that the run never saw. */
static int score_write_logs(const struct score_case *at, const char *directory,
                            const struct score_truth *truth, struct err *err)
{
    const struct script *script = script_of(&at->fault);
    uint32_t node = fault_node_of_rank(truth->rank, at->ranks, at->nodes);
    struct kernel_pen pen = { .form = (enum kernel_form)(at->seed % FORMS) };
    char path[PATH_MAX];

    if (at->nodes > 1)
        snprintf(pen.host, sizeof(pen.host), "n%u", node);
    else if (gethostname(pen.host, sizeof(pen.host) - 1) < 0)
        return err_set(err, -errno, "gethostname: %m");
    snprintf(path, sizeof(path), "%s/kern-%s.log", directory, pen.host);
    pen.file = fopen(path, "we");
    if (!pen.file)
        return err_set(err, -errno, "%s: %m", path);
    score_put_node(&pen, script, truth);
    if (fclose(pen.file) != 0)
        return err_set(err, -errno, "%s: %m", path);
    snprintf(path, sizeof(path), "%s/kern-elsewhere.log", directory);
    pen =
        (struct kernel_pen){ .form = FORM_SYSLOG, .host = "elsewhere", .file = fopen(path, "we") };
    if (!pen.file)
        return err_set(err, -errno, "%s: %m", path);
    for (size_t i = 0; i < COUNT(scripts); i++) {
        if (scripts[i].line)
            score_kernel_put(&pen, truth->mono_ns, scripts[i].line, truth->pid);
    }
    return fclose(pen.file) == 0 ? 0 : err_set(err, -errno, "%s: %m", path);
}

int score_kernel_join(const struct score_case *at, const char *state, struct json_object *answer,
                      struct err *err)
{
    struct json_object *directory, *again, *verdicts;
    struct score_truth truth;
    int result;

    score_truth_read(answer, NULL, &truth);
    if (!truth.done || !json_object_object_get_ex(answer, "directory", &directory))
        return 0; /* and the comparison says so */
    result = score_write_logs(at, json_object_get_string(directory), &truth, err);
    if (result < 0)
        return result;
    again = score_why(json_object_get_string(directory), state);
    if (!again || !json_object_object_get_ex(again, "verdicts", &verdicts)) {
        json_object_put(again);
        return err_set(err, -EIO, "'lockstep why' printed no result");
    }
    json_object_object_add(answer, "verdicts", json_object_get(verdicts));
    json_object_put(again);
    return 0;
}
