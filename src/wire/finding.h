/* finding.h - what a node knows about itself: findings, health checks, and the environment of a rank.
 *
 * A finding is one observation of hardware or of the operating system, such as an Xid in the kernel log.  Its id derives
 * from its content, so a line that is read twice is one finding; the last frame with an id is the valid one.
 *
 * No frame says how far it can be trusted: the kernel log of a node is only evidence if the node's root daemon sent it,
 * and that is known from the sender of the frame.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_WIRE_FINDING_H
#define LOCKSTEP_WIRE_FINDING_H

#include <stdbool.h>
#include <stdint.h>

#include "core/buf.h"
#include "wire/facts.h"

enum finding_kind { /* numbers are wire format */
    FINDING_XID = 1,
    FINDING_SXID = 2,
    FINDING_NVLINK = 3,
    FINDING_NVRM = 4, /* the GPU driver, without an Xid */
    FINDING_AER = 5,  /* PCIe errors */
    FINDING_MCE = 6,
    FINDING_EDAC = 7,
    FINDING_NIC = 8,
    FINDING_NVME = 9,
    FINDING_BLOCK = 10,
    FINDING_FILESYSTEM = 11,
    FINDING_REMOTE_FS = 12,
    FINDING_OOM = 13,
    FINDING_HUNG_TASK = 14,
    FINDING_LOCKUP = 15,
    FINDING_THERMAL = 16,
    FINDING_SEGFAULT = 17,
    FINDING_PANIC = 18,
    /* Of sensors, not of logs. */
    FINDING_GPU_CLOCK = 19,
    FINDING_GPU_POWER = 20,
    FINDING_GPU_ECC = 21,
    FINDING_GPU_MEMORY = 22,
    FINDING_PCIE = 23,
    FINDING_PORT = 24, /* of a network */
    FINDING_STORAGE = 25,
    FINDING_HOST_PRESSURE = 26,
    FINDING_LEFTOVER = 27, /* processes, memory or files of an earlier job */
    FINDING_ENVIRONMENT = 28,
    FINDING_SENSOR = 29, /* a sensor itself does not work */
    FINDING_KIND_COUNT
};

enum finding_class { /* what is damaged */
    FINDING_CLASS_APP = 1,
    FINDING_CLASS_HARDWARE = 2,
    FINDING_CLASS_FABRIC = 3,
    FINDING_CLASS_DRIVER = 4,
    FINDING_CLASS_STORAGE = 5,
    FINDING_CLASS_HOST = 6,
    FINDING_CLASS_COUNT
};

enum finding_severity {
    FINDING_INFO = 1,
    FINDING_WARN = 2,
    FINDING_ERROR = 3,
    FINDING_FATAL = 4,
    FINDING_SEVERITY_COUNT
};

enum finding_origin { /* who wrote the line */
    FINDING_FROM_KERNEL = 1,
    FINDING_FROM_USER = 2, /* a line in the kernel log that a program wrote, or a log of the job */
    FINDING_FROM_SENSOR = 3,
    FINDING_ORIGIN_COUNT
};

#define FINDING_PORT_DOWN                                                                          \
    0 /* code of a port; of one that is up again `count` is how many seconds it was not */
#define FINDING_PRESSURE_CPU 1 /* codes of FINDING_HOST_PRESSURE: what is scarce */
#define FINDING_PRESSURE_MEMORY 2
#define FINDING_PRESSURE_IO 3
#define NODE_SENDER "node-%s" /* who sends a node's findings and checks; see spool.h */
#define FINDING_RANKS 64
#define FINDING_ID 20

struct finding {
    char id[FINDING_ID];
    int64_t mono_ns, real_ns; /* mono 0: only the time of the day is known */
    int64_t error_ns;         /* how far off these can be; not negative */
    uint8_t kind, class, severity, origin;
    uint8_t action; /* enum action of decision.h: what the maker of the part suggests */
    uint32_t code;  /* the number of an Xid, SXid …; 0: none */
    uint32_t pid;   /* on the host; 0: none */
    uint32_t count; /* how often, since the time above; at least 1 */
    char node[FACT_NAME], device[FACT_NAME];
    char text[200];      /* one sentence */
    char raw[512];       /* the line, cut */
    uint32_t rank_count; /* ranks that it touches; the array has the first ones */
    uint32_t rank[FINDING_RANKS];
};

const char *finding_kind_name(unsigned kind); /* "xid"; "unknown" out of range */
const char *finding_class_name(unsigned class);
const char *finding_severity_name(unsigned severity);
const char *finding_origin_name(unsigned origin);
unsigned finding_kind_of(const char *name); /* 0: no such name */

/* What a leading indicator foretells: the end of its text, behind "forecast: "; NULL: it is none. */
#define FINDING_FORECAST "forecast: "
const char *finding_forecast(const struct finding *finding);

/* About what a program did, or written by one: any user of the node can cause as many as it likes. */
bool finding_is_of_program(const struct finding *finding);

/* About a disk that is a file, memory or somebody's server, such as loop0: a job may feel it, but no part of the node is broken. */
bool finding_is_of_image(const struct finding *finding);

/* Sets the id: of node, device, kind, origin, code, pid, line and time; not of what may be added later, such as the
 * count, the severity or the ranks.
 */
void finding_identify(struct finding *finding);
void finding_put(struct buf *out, const struct finding *finding);
int finding_get(struct reader in, struct finding *ret); /* -EPROTO */

/* ---- the result of a health check ---- */

enum check_state {
    CHECK_OK = 1,
    CHECK_LIMITED = 2, /* it works, with less than it should */
    CHECK_FAILED = 3,
    CHECK_UNKNOWN = 4, /* it could not be done; never shown as ok */
    CHECK_STATE_COUNT
};

#define CHECK_STAGE_INSPECT                                                                        \
    "inspect" /* a look at what the node reports of itself: nothing is put to the test */

#define CHECK_NAME_ALL "all" /* the worst result of a whole stage */
#define CHECK_SITE_FAULTS 8  /* checks that so many nodes fail that the site is at fault */

struct check {
    int64_t mono_ns, real_ns; /* of its end */
    uint8_t state;
    char node[FACT_NAME], device[FACT_NAME]; /* device "": of the whole node */
    char stage[FACT_NAME];                   /* when it ran: "prolog", "idle" … */
    char name[FACT_NAME];
    bool has_value, has_expected;
    double value, expected;
    char unit[16];
    char why[200];
    double seconds; /* that it took; not negative */
};

const char *check_state_name(unsigned state);
void check_put(struct buf *out, const struct check *check);
int check_get(struct reader in, struct check *ret); /* -EPROTO */

/* ---- what a rank's process found in its environment ---- */

#define ENVIRONMENT_PAIRS 512

struct environment_pair {
    char name[FACT_NAME];
    char value[128];
    bool digest; /* the name is on no list of names that may be read: the value is a digest of it */
};

struct environment {
    int64_t mono_ns, real_ns;
    uint32_t rank, attempt;
    char node[FACT_NAME];
    uint32_t count;
    struct environment_pair *pair; /* get allocates; free with environment_fini() */
};

/* The name of what leads to file servers: "eth0", or "ib0 mlx5_0". */
#define ENVIRONMENT_STORAGE "storage.interface"
#define ENVIRONMENT_GPU "gpu" /* its name, by its driver */

/* Names of an environment that the root daemon of a node sends: which user a run (the directory of its rings) or a process of
 * the node belongs to.  Rank and attempt are 0 there.
 */
#define NODE_OWNS_UID "node.uid"
#define NODE_OWNS_RUN "node.run"
#define NODE_OWNS_PID "node.pid"

void environment_put(struct buf *out, const struct environment *environment);
int environment_get(struct reader in, struct environment *ret); /* -EPROTO, -ENOMEM */
void environment_fini(struct environment *environment);

#endif
