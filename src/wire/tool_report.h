/* tool_report.h - what other tools report about a job that hangs, and about its devices.
 *
 * Readers fill it from texts (read/report); autopsy/postmortem.h evaluates it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_WIRE_TOOL_REPORT_H
#define LOCKSTEP_WIRE_TOOL_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPORT_NO_RANK UINT32_MAX

enum report_kind {
    REPORT_BEHIND = 1, /* this rank has not entered an op that most others have entered */
    REPORT_DEAD,       /* the communication library cannot reach this process */
    REPORT_WAITING,    /* its main thread waits for a collective or for the device */
    REPORT_ELSEWHERE,  /* its main thread is somewhere else */
    REPORT_DEVICE,     /* a device has a fault */
};

struct report {
    uint8_t kind, layer; /* layer: enum verdict_layer */
    uint32_t rank;       /* REPORT_NO_RANK: not known */
    uint32_t line;
    uint32_t others; /* BEHIND: how many have entered it */
    bool unsure;     /* a job at work looks the same for a moment */
    char what[120];  /* what it is behind in; the place of the thread; the fault */
    char node[64], device[24];
    char file[64];
};

struct reports {
    struct report *list;
    size_t count, room;
};

void reports_fini(struct reports *reports);

#endif
