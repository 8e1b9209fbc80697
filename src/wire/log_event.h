/* log_event.h - lines of logs that show how a dead job ended.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_WIRE_LOG_EVENT_H
#define LOCKSTEP_WIRE_LOG_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_EVENT_NO_RANK UINT32_MAX

enum log_event_kind {
    LOG_EVENT_ERROR = 1, /* an error of this rank's own: an exception, a device that failed */
    LOG_EVENT_SIGNAL,    /* ended by a signal; value: its number, 0: not known */
    LOG_EVENT_LOST_PEER, /* a peer is gone: a follow-on error */
    LOG_EVENT_TIMEOUT,   /* it waited for a collective too long: a victim */
    LOG_EVENT_EXIT,     /* a launcher says how a rank ended; value: exit status, below 0 a signal */
    LOG_EVENT_ROOT,     /* ... and that it was the first */
    LOG_EVENT_FABRIC,   /* the communication library blames the network */
    LOG_EVENT_XID,      /* kernel: a GPU; value: the Xid */
    LOG_EVENT_OOM_KILL, /* kernel: a process killed for memory */
    LOG_EVENT_SEGFAULT, /* kernel: a process that crashed */
    LOG_EVENT_NODE,     /* kernel: something else broken on the node */
    LOG_EVENT_IDENTITY, /* which process, host and device a rank is */
    LOG_EVENT_CHANNELS, /* the communication library set one up; value: its channels */
};

struct log_event {
    uint8_t kind, layer; /* layer: enum verdict_layer */
    bool by_name;        /* the rank is only that of the file's name */
    uint32_t rank;       /* LOG_EVENT_NO_RANK: not known */
    uint32_t pid, line;
    int64_t value;
    char node[64], device[24]; /* "" : not known; device: "0000:3b:00" */
    char cause[96], text[200]; /* in our words, and in theirs */
    char file[64];
    /* When it was written, as far as it says and somebody wants to know: 0. */
    int64_t real_ns, boot_ns; /* boot: since its node began, by that node's monotonic clock */
};

struct logrank { /* a rank that has a log */
    uint32_t rank;
    uint8_t ended; /* enum log_event_kind of what ended it; 0: no word of it */
};

struct logprocess { /* the process of a rank, by those who watched it */
    uint32_t rank, attempt, pid;
    char node[64];
    int64_t began_real_ns;
    int64_t boot_real_ns; /* of its node; 0: not known */
};

struct logs {
    struct log_event *note;
    struct logrank *rank; /* sorted */
    size_t notes, ranks;
};

void logs_fini(struct logs *logs);

#endif
