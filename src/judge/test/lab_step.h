/* lab_step.h - a training job that is not there, for tests of the judges.
 *
 * Makes up the steps of a job (tensor, pipeline, data parallel; gradient buckets that overlap the
 * backward pass, tensor reductions that hold up compute, 1F1B messages between stages, a
 * host that launches ahead and waits at the end) and knows the truth about them, since it
 * computes every time by a plain simulation of its own.  Noise comes from the seed, the
 * step, the rank and the op, so that the same step without a fault can be made again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_TEST_LAB_STEP_H
#define LOCKSTEP_JUDGE_TEST_LAB_STEP_H

#include <stdbool.h>
#include <stdint.h>

#include "core/map.h"
#include "judge/state.h"
#include "lockstep/probe.h"
#include "wire/facts.h"

#define LAB_RANKS 64
#define LAB_ITEMS 512
#define LAB_NODES 16
#define LAB_STAGES 8
#define LAB_MEETS 8192
#define LAB_STREAMS 6 /* 1 compute, 2 data parallel, 3 tensor parallel, 4 send, 5 receive */

struct lab_config {
    uint32_t tp, pp, dp; /* 0 is 1 */
    uint32_t per_node;   /* ranks on a node; 0: all on one */
    uint32_t micros, blocks, buckets;
    int64_t block_ns; /* forward of a block; backward takes twice that */
    int64_t tp_ns, dp_ns, world_ns, link_ns, optimizer_ns;
    int64_t data_ns, launch_ns, tail_ns;
    double noise; /* deviation of every op, as a part of it */
    uint64_t seed;
    bool no_layout;        /* rings do not say where a rank is */
    bool rendezvous;       /* a send ends with its receive */
    bool no_world;         /* no all-reduce over all ranks before the optimizer */
    bool with_gc;          /* a gc phase inside the first forward */
    bool gc_apart;         /* ... of those ranks alone that sleep in it */
    uint32_t digest_parts; /* parts that take turns; 0: no digests */
    uint32_t accumulate;   /* the optimizer runs in every so-manieth step; 0: in each */
    bool values;           /* ranks tell loss and gradient norm */
    /* No device: hosts do the work, their threads the collectives, as in DDP on gloo (lab_host.c). */
    bool host_view;
    bool device_ops; /* with it: a device runs the collectives and tells of nothing else */
    bool ahead;      /* ... and hosts do not wait for it, or so the flags say */
};

/* What goes wrong; may be changed between steps.  All zero: nothing. */
struct lab_fault {
    double stretch[LAB_RANKS];   /* device work takes 1 + this much */
    int64_t sleep_ns[LAB_RANKS]; /* the host sleeps in the first phase of this kind */
    unsigned sleep_phase;
    int64_t device_gap_ns
        [LAB_RANKS]; /* an idle device in the middle of forward, which nothing explains */
    double heavier[LAB_STAGES]; /* a stage has 1 + this much work */
    double all;                 /* everybody's device work */
    double longer;              /* everybody's sequences */
    double uneven;              /* deviation of lengths between replicas */
    double more[LAB_RANKS];     /* sequences of a replica are 1 + this much longer */
    int64_t delay_ns[LAB_RANKS], throttled_ns[LAB_RANKS];
    uint64_t flipped[LAB_RANKS];             /* added to what the parameters are */
    uint64_t frozen[LAB_RANKS];              /* they stay what they were after so many updates */
    double loss[LAB_RANKS], norm[LAB_RANKS]; /* times 1 + this much */
    uint32_t values_late;                    /* they are those of so many steps before */
    int64_t checkpoint_ns;                   /* at the end of this step, with the device idle */
    int64_t checkpoint_more_ns[LAB_RANKS];   /* ... of one rank */
    int64_t eval_ns;                         /* the same, an evaluation */
    double fabric, nic[LAB_NODES]; /* transfers between nodes, or to and from one, take 1 + this */
    uint64_t slow_comm;            /* those of this communicator ... */
    double comm;                   /* ... take 1 + this */
    bool more_bytes;               /* everybody moves more */
    int64_t skew_ns[LAB_NODES];
};

struct lab_item { /* of a rank's step, in launch order */
    struct shape_item shape;
    int dep[2];    /* items that must have ended, -1: none */
    int last;      /* of a phase: the last item launched in it; itself when there is none */
    uint32_t meet; /* of a communication op */
    int64_t base_ns;
};

struct lab_rank {
    struct lab_item item[LAB_ITEMS];
    struct item_time time[LAB_ITEMS];
    struct item_time observed[LAB_ITEMS]; /* of the shape's items: all but what nobody can see */
    uint32_t items;
    bool arrived[LAB_ITEMS], done[LAB_ITEMS];
    uint32_t gap_at;            /* the span before which an unexplained gap would be */
    uint32_t next[LAB_STREAMS]; /* on each stream: first item not yet done */
    struct fact_shape shape;
    int64_t begin_ns, duration_ns;
    uint32_t tp, pp, dp;
    double length; /* 1 is the mean */
};

struct lab_meet { /* one instance of a collective, or a pair */
    uint64_t comm;
    uint32_t rank[LAB_RANKS], item[LAB_RANKS];
    uint32_t members, arrived;
    int64_t last_ns;
};

struct lab {
    struct lab_config config;
    struct lab_fault fault;
    uint32_t world, nodes, attempt;
    uint64_t step; /* made last; the first to be made before that */
    bool made;
    struct lab_rank *rank;
    struct lab_meet *meet;
    uint32_t meets;
    struct map meet_by_key;
    int64_t measured_ns; /* of the newest step: from the last begin to the last end */
    bool checkpoint;     /* the shape has a checkpoint phase now */
    bool updates;        /* ... and an optimizer */
    bool more_bytes;     /* collectives have */
    bool evaluation;     /* ... or one of evaluation */
};

extern const struct lab_config lab_plain; /* dp 4, steps of about 100 ms, noise 0.3 % */

struct lab *lab_create(const struct lab_config *config);
void lab_destroy(struct lab *lab);

/* Makes the next step; the one after begins where it ended. */
void lab_step(struct lab *lab);
/* Measured period of the step made last, had the faults been those. */
int64_t lab_without(struct lab *lab, const struct lab_fault *fault);
void lab_restart(struct lab *lab, uint64_t step, int64_t pause_ns); /* a new attempt from there */

/* ---- between lab_step.c and lab_host.c ---- */
int64_t lab_span_ns(const struct lab *lab, uint32_t rank, uint32_t item);
void lab_meet_arrive(struct lab *lab, uint32_t rank, uint32_t item); /* at its start_ns */
void lab_hosts_run(struct lab *lab, int64_t *end_ns);                /* by rank */

/* ---- what the judges hear of it (lab_feed.c) ---- */
void lab_ring(const struct lab *lab, uint32_t rank, struct fact_ring *ret);
/* The i-th communicator of a rank; false: it has no more. */
bool lab_comm(const struct lab *lab, uint32_t rank, uint32_t i, struct fact_comm *ret);
void lab_fact(const struct lab *lab, uint32_t rank,
              struct fact_step *ret); /* times are the lab's */
uint32_t lab_node(const struct lab *lab, uint32_t rank);
void lab_node_name(uint32_t node, char *out, size_t room);

void lab_introduce(const struct lab *lab,
                   struct judge_state *judge); /* rings, communicators, shapes */
/* The step made last as all ranks tell it, through the wire's rounding. */
void lab_job_step(const struct lab *lab, struct judge_state *judge, struct job_step *ret);
void lab_judge(struct lab *lab,
               struct judge_state *judge); /* makes a step and lays it before the judge state */
void lab_judge_many(struct lab *lab, struct judge_state *judge, uint32_t steps);

/* Open (or ever opened) verdicts of a kind; kind 0: any. */
uint32_t lab_open_count(const struct judge_state *judge, unsigned kind);
const struct tracked_verdict *lab_open(const struct judge_state *judge, unsigned kind, uint32_t i);

#endif
