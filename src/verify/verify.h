/* verify.h - health checks of a node; checks.c is the list.
 *
 * A check runs in a child process with a deadline: a driver that hangs or a disk that does not answer makes its check
 * "unknown" and delays nothing else.  Checks that only read run all at once; those that load the machine run alone, one after
 * the other, so that none disturbs what another measures.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_VERIFY_VERIFY_H
#define LOCKSTEP_VERIFY_VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "wire/finding.h"

struct machine_profile;

enum verify_stage { /* each runs also what the stages before it run */
    VERIFY_QUICK,   /* only reads: at most 5 s */
    VERIFY_PROLOG,  /* before a job: at most 30 s */
    VERIFY_DEEP,    /* on an idle node: at most 5 minutes */
    VERIFY_BURN,    /* as long as asked */
    VERIFY_STAGES
};
const char *verify_stage_name(unsigned stage);
int verify_stage_of(const char *name); /* -EINVAL */

struct verify_place {
    const char *root;     /* stands before /proc and /sys; "": this node */
    const char *nvml;     /* library; NULL: the usual one */
    const char *cuda;     /* the same of the driver */
    const char *nccl;     /* and of NCCL */
    const char *cublaslt; /* and of cuBLASLt */
    const char *node;     /* its name */
    const char *dir;      /* where checkpoints are written; NULL: no disk is tested */
    unsigned stage;
    int64_t burn_ns; /* how long a check of the stage burn may load the machine */
    int64_t heat_ns; /* how long GPUs are heated; 0: by the stage */
    uint32_t
        flip_sm; /* kernels flip one bit on SM flip_sm - 1, so that arithmetic must fail; 0: none */
    const struct machine_profile *profile; /* NULL: none */
};

/* A state of results beside those of checks: this node has nothing of the kind, and should not have.  It is shown, but never counts
 * as ok and never leaves the program in a frame.
 */
#define VERIFY_NOT_APPLICABLE CHECK_STATE_COUNT
const char *verify_state_name(unsigned state);

/* Results whose value is the digest of a computation: a profile has it as a fact of this name, not as a rate. */
#define VERIFY_DIGEST "digest "
#define VERIFY_DIGEST_UNIT "digest"

#define VERIFY_RESULTS 64 /* of one check; the rest is counted in the last */

struct verify_report { /* of one check */
    size_t count;
    struct check result[VERIFY_RESULTS];
};

/* Adds a result and returns it, for value, unit and expected.  `device` "": of the whole node. */
struct check *verify_result(struct verify_report *report, unsigned state, const char *device,
                            const char *format, ...) __attribute__((format(printf, 4, 5)));

struct verify_check {
    const char *name;
    const char *summary; /* what it looks at */
    const char *why;     /* the reason of its limit */
    const char *advice;  /* what to do when it fails */
    const char *
        needs; /* what must answer, such as "gpu driver"; NULL: nothing.  After one check that waited for it in vain
                        * those that load the machine are not run. */
    unsigned stage;                  /* the first that runs it */
    bool loads;                      /* the machine: it runs alone */
    int64_t limit_ns[VERIFY_STAGES]; /* at stage burn the asked time comes on top */
    /* Gives at least one result: a check without any is unknown. */
    void (*run)(const struct verify_place *place, struct verify_report *report);
};

extern const struct verify_check *const verify_checks[];
extern const size_t verify_check_count;

struct verify_sink {
    void (*begin)(void *user, const struct verify_check *check); /* NULL is fine */
    void (*result)(void *user, const struct verify_check *check, const struct check *result);
    void *user;
};

/* Runs the checks of place->stage, or the one that `only` names, also of a later stage.  -ENOENT: there is no such check. */
int verify_run(const struct verify_place *place, const char *only, const struct verify_sink *sink,
               struct err *err);

/* How many checks verify_run() will run. */
size_t verify_count(unsigned stage, const char *only);

/* Of several results: failed, else unknown, else limited, else ok, else not applicable. */
unsigned verify_worst(unsigned state, unsigned other);

#endif
