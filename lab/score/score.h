/* score.h - real runs, real faults, and an exact score of the verdicts.
 *
 * A case is one `lockstep demo` in processes of its own.  The expected verdict of a fault
 * stands in one table here, which no judge can see; what was really injected is reported by the
 * trainers themselves.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_SCORE_SCORE_H
#define LOCKSTEP_LAB_SCORE_SCORE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "lab/faults/fault.h"
#include "wire/facts.h"

enum score_who {   /* whom the verdict must name */
    SCORE_RANK,    /* the rank that was hurt */
    SCORE_REPLICA, /* that rank; of two replicas both, as nobody can tell which is right */
    SCORE_NODE,    /* all ranks of its node */
    SCORE_STAGE,   /* all ranks of its pipeline stage */
    SCORE_NOBODY   /* the kind is the answer: no rank is at fault */
};

struct score_expect {
    enum fault_id fault;
    uint32_t given;           /* enum fault_param, SCORE_HOST_VIEW: only where these were said */
    const char *family;       /* name in the report */
    const char *kind, *layer; /* kind NULL: nothing; layer NULL: any */
    enum score_who who;
    uint32_t buckets; /* SCORE_IN(): where the ledger must have the lost seconds; 0: not compared */
};

/* Buckets of the ledger.  SCORE_WORK: what was injected is work itself, and must be productive; in the other
 * buckets is what the other ranks wait for it.
 */
#define SCORE_IN(name) (1u << LEDGER_##name)
#define SCORE_WORK SCORE_IN(PRODUCTIVE)

struct score_ledger { /* of a run: GPU-seconds */
    double total;     /* from the first step on */
    double bucket[LEDGER_BUCKETS];
    double injected; /* by the injectors' own account, on the ranks that were hurt */
};

/* In a fault's set, beside enum fault_param: made in a training whose devices nobody sees. */
#define SCORE_HOST_VIEW (1u << 30)

/* ... and afterwards the kernel's log of a node lies in the run's directory, one of these (score_kernel.c). */
enum score_kernel {
    SCORE_KERNEL_OOM,    /* the process was killed for memory */
    SCORE_KERNEL_MEMORY, /* ... since its memory is damaged */
    SCORE_KERNEL_BUS,    /* Xid 79 */
    SCORE_KERNEL_ECC,    /* Xid 94 */
    SCORE_KERNEL_DEVICE, /* Xid 79 under one that hangs */
    SCORE_KERNEL_DISK,   /* a disk that does not answer */
    SCORE_KERNEL_LINK,   /* a link that went down */
    SCORE_KERNEL_OTHERS, /* only lines that explain nothing, as there are in all of these */
    SCORE_KERNELS
};
#define SCORE_KERNEL(which) (1u << (16 + SCORE_KERNEL_##which))
#define SCORE_KERNEL_MASK (((1u << SCORE_KERNELS) - 1) << 16)

/* ... or the agents read a made tree that changes meanwhile, one of these (score_sensors.c). */
enum score_sensors {
    SCORE_SENSORS_WIDTH,  /* a PCIe link becomes narrow */
    SCORE_SENSORS_PORT,   /* a port goes down */
    SCORE_SENSORS_DISK,   /* a disk becomes slow */
    SCORE_SENSORS_MEMORY, /* uncorrected memory errors */
    SCORE_SENSORS_OTHERS, /* only what explains nothing, as there is in all of these */
    /* Those below are of GPUs, and need the scripted NVML of the build directory. */
    SCORE_SENSORS_CLOCK, /* a GPU lowers its clock because it is too hot */
    SCORE_SENSORS_ECC,   /* uncorrected errors in the memory of a GPU */
    SCORE_SENSORS_COUNT
};
#define SCORE_SENSORS_BIT 24
#define SCORE_SENSORS(which) (1u << (SCORE_SENSORS_BIT + SCORE_SENSORS_##which))

const struct score_expect *score_expect(const struct fault *fault); /* NULL: nothing must be said */
bool score_has_family(const char *family); /* one that is drawn, or the name of a set of them */

#define SCORE_RANKS 64

struct score_case {
    const char *family; /* in the report; NULL: that of its fault's right answer */
    struct fault fault; /* kind FAULT_NONE: a healthy run */
    struct fault also;  /* a second one at the same time; kind NULL: none */
    bool torch;         /* trained by PyTorch: data parallel */
    bool stamps;        /* devices report what those under NCCL report */
    uint32_t ranks, nodes;
    uint32_t tp, pp, dp;
    uint64_t steps, seed;
    uint32_t checkpoint_every; /* 0: never */
    double step_ms, host_work_ms;
    /* Of a healthy run: the case with a fault that is the same but for that, jitter included, so that
     * their ledgers can be compared; SCORE_NO_TWIN: none.
     */
    uint32_t twin;
    bool again; /* the second one of that case */
};
#define SCORE_NO_TWIN UINT32_MAX

struct score_result {
    bool ran; /* else `why` says why not: skipped, never counted */
    char why[200];
    bool found, layer_exact;
    uint32_t right, wrong, expected; /* ranks named rightly, named wrongly, to be named */
    uint32_t extra;                  /* verdicts that nothing explains */
    uint32_t verdicts;               /* all that were said */
    double brier;                    /* sum over them: (confidence - 1 if it is right in all)² */
    double seconds;                  /* from the injection to the verdict */
    uint64_t steps;                  /* steps with the fault that it took */
    double run_seconds;
    double foreign_load; /* cores: the most that they took in a second of it (foreign_load.h) */
    uint32_t again;      /* how often it was run before, and not counted since they took too much */
    struct score_ledger ledger;
    char summary[600]; /* its verdicts, for people */
    char run[64];      /* its name, below the directory of the runs */
};

/* Draws the cases: deterministic in the seed.  Returns how many (faults first, then healthy). */
uint32_t score_draw(uint64_t seed, uint32_t faults, uint32_t healthy, const char *only,
                    struct score_case *ret, uint32_t room);
void score_case_text(const struct score_case *at, char *out, size_t room);
/* The command that makes the same run again: also its name, as no two cases of a score have the same. */
void score_case_command(const struct score_case *at, char *out, size_t room);
const char *score_family(const struct score_case *at); /* "healthy" where nothing must be said */

/* Whether this one's ledger is held against that of a healthy twin. */
bool score_has_ledger(const struct score_case *at);
/* GPU-seconds by which the fault made the run longer than its twin, and how many of them are in its buckets.
 * Returns the error as a share of them; where they are work themselves, that of the productive ones against the
 * injected if it is larger.
 */
double score_ledger_compare(const struct score_case *at, const struct score_ledger *run,
                            const struct score_ledger *twin, double *due, double *found);

/* Runs one with this program's `demo`; runs are kept below `state`.  -errno only when nothing at all
 * could be started, -EINTR when somebody stopped it.
 */
int score_run(const struct score_case *at, const char *state, struct score_result *ret,
              struct err *err);

#endif
