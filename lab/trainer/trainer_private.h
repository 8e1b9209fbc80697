/* trainer_private.h - what the trainer's own files share.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_TRAINER_TRAINER_PRIVATE_H
#define LOCKSTEP_LAB_TRAINER_TRAINER_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include "lab/faults/plan.h"
#include "lab/trainer/device.h"
#include "lab/trainer/group.h"
#include "lab/trainer/toy_model.h"
#include "lab/trainer/trainer.h"
#include "lockstep/probe.h"
#include "wire/ring.h"

enum trainer_stream {
    STREAM_COMPUTE = 1,
    STREAM_DP,
    STREAM_TP,
    STREAM_RECV,
    STREAM_SEND
};
enum trainer_comm {
    COMM_WORLD,
    COMM_DP,
    COMM_TP,
    COMM_COUNT
};
enum trainer_way {
    WAY_UP,
    WAY_DOWN,
    WAY_COUNT
}; /* to the next stage; back to the one before */

#define SAVE_RUN_TEXT 128
#define TRAINER_BLOCKS 8 /* of the whole network, or as many as there are stages if more */
#define TRAINER_BUCKETS 4
#define TRAINER_CHANNELS 16 /* that a transfer's time is shared between */
#define TRAINER_METHODS 16 /* communicators, ops and sizes of which it is told how they are moved */

struct trainer_link { /* to the neighbouring stage: one socket for each way, so that the
                       * receiving and the sending stream never share one */
    int fd;
    uint32_t rank, stage;
    uint64_t count;
    char name[GROUP_NAME]; /* of the pipeline, "pp0" */
};

struct trainer_times { /* modelled, ns */
    int64_t block;     /* a block's forward, for one micro-batch of nominal length */
    int64_t tp, dp, link, world, optimizer, checkpoint;
};

struct trainer_method { /* what was told of such a reduction */
    enum trainer_comm comm;
    enum lockstep_op op;
    uint64_t bytes;
    uint32_t channels;
};

struct trainer_load {             /* of one micro-batch */
    double tokens, squares, work; /* work: 1 is nominal */
};

enum {
    SUM_LOSS,
    SUM_NORM,
    SUM_STOP,
    SUM_SAVE,
    SUM_COUNT
}; /* reduced over the world each step */

struct trainer {
    const struct trainer_config *config;
    struct lockstep_layout place;
    uint32_t micros, blocks, buckets;
    struct toy_model toy;
    struct trainer_times times;
    struct group comm[COMM_COUNT];
    int probe_comm[COMM_COUNT], probe_pp;
    struct trainer_link in[WAY_COUNT], out[WAY_COUNT];
    struct device *device;
    struct lockstep_probe *probe;
    struct fault_plan plan;
    struct truth *truth;

    struct trainer_method method[TRAINER_METHODS];
    uint32_t method_count;

    uint64_t step;
    double slow;                     /* what faults make of this step's compute times */
    struct trainer_load *load;       /* by micro-batch */
    float *next_input, *next_target; /* prefetched, by micro-batch */
    uint64_t next_step;
    int data_fd;         /* this rank's batches; -1: they are made up */
    double work_unit_ns; /* of host work, calibrated */
    double sum[SUM_COUNT];
    double own_squares; /* of this rank's gradient, before it is everybody's */
    struct device_work *work;
    uint32_t works, work_room;
    uint32_t launches;               /* per step, for spreading the host's work */
    struct lockstep_request request; /* for a checkpoint after this step; id 0: none */
    struct lockstep_ckpt *ckpt;      /* NULL: it saves nothing */
    uint64_t saved;                  /* the newest checkpoint's step; 0: none in this process */
    uint64_t reported;               /* the newest of which its ring knows that it was read back */
    int64_t printed_ns;              /* when rank 0 last printed */
    uint32_t made;                   /* faults that happen once and have, as bits */
    bool stopped;                    /* it was told to, before the end, and another goes on */
    uint64_t stamps, stamps_ran;     /* of its device: launched, written */
    bool swapped;                    /* the last bucket waits for the world's reduction: a fault */
};

/* trainer_ops.c: what runs on the streams. */
int64_t trainer_jitter(const struct trainer *trainer, uint64_t who, uint64_t what, int64_t ns);
int trainer_run_compute(struct device_work *work, void *context, struct err *err);
int trainer_run_reduce(struct device_work *work, void *context, struct err *err);
int trainer_run_send(struct device_work *work, void *context, struct err *err);
int trainer_run_recv(struct device_work *work, void *context, struct err *err);
void trainer_ended(struct device_work *work, void *context);
/* A reduction that the host itself runs, between steps. */
int trainer_host_reduce(struct trainer *trainer, enum trainer_comm comm, enum group_op op,
                        void *data, uint32_t count, struct err *err);

/* trainer_stamps.c: with config->stamps, what its ring says of its device. */
void trainer_stamps_begin(struct trainer *trainer);
uint64_t trainer_stamp_mark(struct trainer *trainer, enum ring_stamp_what what,
                            enum lockstep_phase phase);
int trainer_run_stamp(struct device_work *work, void *context, struct err *err);
void trainer_stamp_ended(struct device_work *work, void *context);
uint16_t trainer_op_stream(const struct trainer *trainer, uint16_t stream, int comm);

/* trainer_step.c: one step as the host launches it. */
int trainer_step(struct trainer *trainer, struct err *err);

/* trainer_data.c: where batches come from. */
int trainer_data_open(struct trainer *trainer, struct err *err);
int trainer_data_next(struct trainer *trainer, uint64_t step, struct err *err); /* sets next_* */
bool trainer_data_ahead(const struct trainer *trainer); /* it may be asked for early */

/* trainer_setup.c: finding the others, memory, times. */
int trainer_setup(struct trainer *trainer, struct err *err);
void trainer_teardown(struct trainer *trainer);

/* trainer_save.c */
int trainer_restore(struct trainer *trainer, struct err *err); /* sets step */
int trainer_save(struct trainer *trainer, struct err *err);
void trainer_save_report(struct trainer *trainer); /* into the ring: what was read back meanwhile */
void trainer_save_end(struct trainer *trainer);    /* waits for that, for a while */
int trainer_check_replicas(struct trainer *trainer, struct err *err);

/* trainer_fault.c: what the plan asks of this rank. */
void trainer_fault_step(struct trainer *trainer); /* sets slow and load */
void trainer_fault_phase(struct trainer *trainer, enum lockstep_phase phase);
/* Numbers that are made wrong: a gradient before it is reduced, an optimizer that does nothing. */
void trainer_fault_gradient(struct trainer *trainer, float *gradient);
bool trainer_fault_frozen(struct trainer *trainer);
bool trainer_fault_differs(const struct trainer *trainer); /* replicas will, on purpose */
void trainer_fault_die(struct trainer *trainer, uint32_t launched);

/* trainer_stuck.c: faults after which nothing moves, and pauses that are none. */
void trainer_stuck_phase(struct trainer *trainer, enum lockstep_phase phase);
void trainer_stuck_host(struct trainer *trainer, uint32_t launched); /* in the middle of a step */
void trainer_stuck_pause(struct trainer *trainer, enum fault_id id); /* evaluation */
void trainer_stuck_start(struct trainer *trainer, enum lockstep_phase phase);
/* What this rank's reduction is told to be, and whether it ever ends. */
bool trainer_stuck_reduce(struct trainer *trainer, enum trainer_comm comm, enum lockstep_op *op,
                          uint64_t *bytes);
bool trainer_stuck_device(struct trainer *trainer);
bool trainer_stuck_order(struct trainer *trainer, uint32_t bucket); /* it is launched too late */
int trainer_stall(struct trainer *trainer, const char *what, struct err *err); /* for the timeout */
/* How long a transfer between these ranks takes that should take `ns`. */
int64_t trainer_fault_transfer(struct trainer *trainer, const uint32_t *rank, uint32_t count,
                               int64_t ns);
/* Over how many channels a communicator reduces now, and how long it takes what should take `ns`. */
uint32_t trainer_fault_channels(const struct trainer *trainer, enum trainer_comm comm);
int64_t trainer_fault_reduce(struct trainer *trainer, enum trainer_comm comm, int64_t ns);
int64_t trainer_fault_checkpoint(struct trainer *trainer, int64_t taken_ns); /* further wait */

/* trainer_elastic.c: whether this rank's agent has told it to save and leave. */
bool trainer_elastic_stops(struct trainer *trainer);

/* trainer_step.c: so many units of the arithmetic that stands for a host's work. */
void host_work(double units);
double host_work_calibrate(void); /* ns of CPU time a unit takes here */

#endif
