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
#define LOG_EVENT_NO_NUMBER INT64_MIN /* of seq, enqueued and completed: not in the line */

enum log_event_kind {
    /* Causes: any of these can be what ended the job. */
    LOG_EVENT_ERROR = 1, /* an error of this rank's own: an exception, a device that failed */
    LOG_EVENT_SIGNAL,    /* ended by a signal; value: its number, 0: not known */
    LOG_EVENT_DESYNC,    /* ranks entered different collectives */
    LOG_EVENT_WRONG,     /* results are wrong: NaN, a loss that explodes */
    /* Effects: they show that this rank was alive and waited for another. */
    LOG_EVENT_LOST_PEER, /* a peer is gone */
    LOG_EVENT_TIMEOUT,   /* a collective took too long */
    LOG_EVENT_ABSENT,    /* another rank did not come: `rank` is the absent one */
    /* What launchers report. */
    LOG_EVENT_EXIT,    /* how a rank ended; value: exit status, below 0 a signal */
    LOG_EVENT_ROOT,    /* the same, of the one that ended first */
    LOG_EVENT_FABRIC,  /* the communication library blames the network */
    LOG_EVENT_OUTSIDE, /* ended from outside: time limit, cancelled, preempted */
    LOG_EVENT_FOLLOW,  /* wrappers and clean-up: never a cause */
    /* Kernel messages. */
    LOG_EVENT_XID,      /* a GPU; value: the Xid */
    LOG_EVENT_OOM_KILL, /* a process killed for memory */
    LOG_EVENT_SEGFAULT, /* a process that crashed */
    LOG_EVENT_NODE,     /* something else broken on the node */
    LOG_EVENT_RECOVERY, /* what the driver asks for after an Xid of this device: no cause, but it decides the advice */
    /* Facts. */
    LOG_EVENT_IDENTITY,  /* which process, host and device a rank is */
    LOG_EVENT_CHANNELS,  /* the communication library set one up; value: its channels */
    LOG_EVENT_NODES,     /* value: how many nodes the job has */
    LOG_EVENT_COMPLETED, /* the program reports that its training is complete */
    LOG_EVENT_WENT_ON, /* steps were counted on after an error; value: only after that of this line, 0: all before */
    LOG_EVENT_PASSED, /* a value that was NaN is a number again */
};

struct log_event {
    uint8_t kind, layer; /* layer: enum verdict_layer */
    uint8_t confidence;  /* percent: how surely the line means this */
    bool by_name;        /* the rank is only that of the file's name */
    bool local;          /* the rank counts on its node only */
    bool exception;      /* a Python exception, whose own words are the cause */
    bool warned;         /* by the level of its line no error */
    bool guess;          /* only words that any program uses: that the job failed is not certain */
    bool mention;        /* a guess behind which the program went on with its work: no cause */
    bool notified; /* a timeout of which another rank informed this one: it did not wait itself */
    bool library;  /* of LOG_EVENT_NODE: the job's own log reports it, not the kernel */
    uint32_t rank; /* LOG_EVENT_NO_RANK: not known */
    uint32_t pid, line;
    uint32_t log, part; /* files of one rotated log have one number; a higher part is older */
    int64_t value;
    char node[64], device[24]; /* "" : not known; device: "0000:3b:00" */
    char cause[96], text[200]; /* in our words, and in theirs */
    char file[80];
    const char *advice; /* what to do; NULL: by kind and layer of the verdict */
    /* Of a timeout: the collective, and how far this rank came in its group. */
    int64_t seq, enqueued, completed;
    char group[24], op[24];
    char peer[48]; /* of a lost connection: the other side; "" : not known */
    /* When it was written, as far as the line says; else 0. */
    int64_t real_ns, boot_ns; /* boot: since its node began, by that node's monotonic clock */
};

struct logrank { /* a rank that has a log, or lines in a log of several */
    uint32_t rank;
    uint8_t ended; /* enum log_event_kind of what ended it; 0: nothing in its log says */
    bool own_file; /* a file has its name */
};

struct logprocess { /* the process of a rank, by those who watched it */
    uint32_t rank, attempt, pid;
    char node[64];
    int64_t began_real_ns;
    int64_t boot_real_ns; /* of its node; 0: not known */
};

struct logs {
    struct log_event *event; /* in the order of files and lines */
    struct logrank *rank;    /* sorted */
    size_t events, ranks;
};

void logs_fini(struct logs *logs);

#endif
