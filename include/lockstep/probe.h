/* probe.h - record what one rank of a training job does.
 *
 * A rank is one process of the job.  Each rank writes events (steps, phases, collectives,
 * metrics) into a file in shared memory, its ring.  The lockstep agent on the same machine
 * reads the ring; the rank never waits for the agent.
 *
 *     struct lockstep_probe *probe = NULL;
 *     char why[256];
 *
 *     if (lockstep_probe_open(rank, world, &probe, why, sizeof(why)) < 0)
 *         fprintf(stderr, "rank %u is not recorded: %s\n", rank, why);
 *     lockstep_step_begin(probe, 0);
 *     ...
 *     lockstep_step_end(probe, 0);
 *     lockstep_probe_close(probe);
 *
 * Threads: every function may be called from any thread, but not from a signal handler.
 * Cost: only lockstep_probe_open() and a thread's first event make system calls.  All other
 * calls allocate nothing, take no lock and do not block.
 * Failure: every function accepts a NULL probe and then does nothing, so a program whose open
 * failed needs no checks.
 * Fork: a child process never writes to the ring of its parent; its events are dropped.
 * Times: nanoseconds of CLOCK_MONOTONIC.  Where a function takes `time_ns`, 0 means now.
 *
 * Structs that start with `size` can grow in later versions.  The caller sets `size` to the
 * sizeof of the struct and sets unused members to 0.
 *
 * probe-inline.h has the same functions for programs that do not link to liblockstep.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_PROBE_H
#define LOCKSTEP_PROBE_H

#include <stddef.h>
#include <stdint.h>

#define LOCKSTEP_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

struct lockstep_probe;

/* The version of the library, such as "0.1.0". */
LOCKSTEP_API const char *lockstep_version(void);

/* ---- open and close ---- */

/* Creates the ring of this process in the directory $LOCKSTEP_DIR.  Without that variable the
 * directory is /dev/shm/lockstep-UID/RUN (RUN is $LOCKSTEP_RUN), or the same below $TMPDIR when /dev/shm is full.
 * `rank` must be below `world`, the number of ranks in the job.  A process has one ring: a
 * second open with the same rank returns the same probe, and each open needs its own close.
 *
 * Returns 0, or a negative errno.  On failure *ret is unchanged and `error` holds the reason
 * as one line without a newline.  `error` may be NULL; `error_size` is its size in bytes.
 */
LOCKSTEP_API int lockstep_probe_open(uint32_t rank, uint32_t world, struct lockstep_probe **ret,
                                     char *error, size_t error_size);
LOCKSTEP_API void lockstep_probe_close(struct lockstep_probe *probe);

/* The clock of all times here, in nanoseconds. */
LOCKSTEP_API uint64_t lockstep_clock_ns(void);

/* ---- where this rank is in the parallel layout ---- */

struct lockstep_layout {
    size_t size;                                          /* sizeof(struct lockstep_layout) */
    uint16_t tp_size, pp_size, dp_size, cp_size, ep_size; /* ranks per dimension, at least 1 */
    uint16_t tp, pp, dp, cp, ep; /* this rank's index in each, below the size */
    uint16_t reserved[2];        /* 0 */
};

/* Returns 0, -EINVAL when a member is out of range, or -ENODEV without an open ring. */
LOCKSTEP_API int lockstep_layout_set(struct lockstep_probe *probe,
                                     const struct lockstep_layout *layout);

/* ---- steps ---- */

/* Step numbers must increase.  Events before the first step_begin() belong to start-up; an
 * event between two steps belongs to the earlier one.
 */
LOCKSTEP_API void lockstep_step_begin(struct lockstep_probe *probe, uint64_t step);
LOCKSTEP_API void lockstep_step_end(struct lockstep_probe *probe, uint64_t step);

/* ---- phases: what the host does ---- */

/* The numbers of all enums here are part of the file format and never change. */
enum lockstep_phase {
    LOCKSTEP_PHASE_INIT = 1,      /* start-up of the program */
    LOCKSTEP_PHASE_COMM_INIT = 2, /* creating communicators */
    LOCKSTEP_PHASE_COMPILE = 3,   /* compiling or tracing the model */
    LOCKSTEP_PHASE_DATA = 4,      /* waiting for the next batch */
    LOCKSTEP_PHASE_FORWARD = 5,
    LOCKSTEP_PHASE_BACKWARD = 6,
    LOCKSTEP_PHASE_OPTIMIZER = 7,
    LOCKSTEP_PHASE_CHECKPOINT = 8,
    LOCKSTEP_PHASE_EVAL = 9,
    LOCKSTEP_PHASE_GC = 10, /* garbage collection of the language runtime */
    LOCKSTEP_PHASE_OTHER = 11
};

/* Phases nest.  phase_end() closes the innermost open phase with that number. */
LOCKSTEP_API void lockstep_phase_begin(struct lockstep_probe *probe, enum lockstep_phase phase);
LOCKSTEP_API void lockstep_phase_end(struct lockstep_probe *probe, enum lockstep_phase phase);

/* Work that a device has finished on one of its streams: when the host launched it, and when
 * it began and ended on the device.  `phase` is the phase that the work belongs to.
 */
LOCKSTEP_API void lockstep_device_span(struct lockstep_probe *probe, uint16_t stream,
                                       enum lockstep_phase phase, uint64_t enqueue_ns,
                                       uint64_t begin_ns, uint64_t end_ns);

/* ---- communicators ---- */

enum lockstep_comm_kind {
    LOCKSTEP_COMM_OTHER = 0,
    LOCKSTEP_COMM_WORLD = 1, /* all ranks */
    LOCKSTEP_COMM_DP = 2,    /* data parallel */
    LOCKSTEP_COMM_TP = 3,    /* tensor parallel */
    LOCKSTEP_COMM_PP = 4,    /* pipeline parallel */
    LOCKSTEP_COMM_CP = 5,    /* context parallel */
    LOCKSTEP_COMM_EP = 6     /* expert parallel */
};

/* Declares a communicator of `size` members in which this rank has the index `index`.  All
 * members must use the same `id`, and no other communicator may use it.  `name` is for
 * people; the first 32 bytes are kept.  Returns a handle for the calls below; the same id
 * again returns the same handle.  On failure returns a negative errno; the calls below
 * ignore a negative handle.
 */
LOCKSTEP_API int lockstep_comm_add(struct lockstep_probe *probe, uint64_t id, uint32_t size,
                                   uint32_t index, enum lockstep_comm_kind kind, const char *name);

/* ---- operations: collectives and messages ---- */

enum lockstep_op {
    LOCKSTEP_OP_ALL_REDUCE = 1,
    LOCKSTEP_OP_REDUCE_SCATTER = 2,
    LOCKSTEP_OP_ALL_GATHER = 3,
    LOCKSTEP_OP_BROADCAST = 4,
    LOCKSTEP_OP_REDUCE = 5,
    LOCKSTEP_OP_ALL_TO_ALL = 6,
    LOCKSTEP_OP_BARRIER = 7,
    LOCKSTEP_OP_GATHER = 8,
    LOCKSTEP_OP_SCATTER = 9,
    LOCKSTEP_OP_OTHER = 10, /* any other collective */
    LOCKSTEP_OP_SEND = 11,  /* only for lockstep_p2p_enqueue() */
    LOCKSTEP_OP_RECV = 12   /* only for lockstep_p2p_enqueue() */
};

/* The type of the elements.  All members of a collective must give the same type. */
enum lockstep_dtype {
    LOCKSTEP_DTYPE_UNKNOWN = 0,
    LOCKSTEP_DTYPE_FLOAT32 = 1,
    LOCKSTEP_DTYPE_BFLOAT16 = 2,
    LOCKSTEP_DTYPE_FLOAT16 = 3,
    LOCKSTEP_DTYPE_FLOAT64 = 4,
    LOCKSTEP_DTYPE_FLOAT8_E4M3 = 5,
    LOCKSTEP_DTYPE_FLOAT8_E5M2 = 6,
    LOCKSTEP_DTYPE_INT8 = 7,
    LOCKSTEP_DTYPE_INT16 = 8,
    LOCKSTEP_DTYPE_INT32 = 9,
    LOCKSTEP_DTYPE_INT64 = 10,
    LOCKSTEP_DTYPE_UINT8 = 11,
    LOCKSTEP_DTYPE_UINT16 = 12,
    LOCKSTEP_DTYPE_UINT32 = 13,
    LOCKSTEP_DTYPE_UINT64 = 14,
    LOCKSTEP_DTYPE_BOOL = 15,
    LOCKSTEP_DTYPE_COMPLEX64 = 16,
    LOCKSTEP_DTYPE_COMPLEX128 = 17,
    LOCKSTEP_DTYPE_OTHER = 18, /* a type that is not in this list */
    LOCKSTEP_DTYPE_MIXED = 19  /* elements of more than one type */
};

#define LOCKSTEP_HOST_STREAM 0 /* stream of an operation that the calling thread waits for */

#define LOCKSTEP_FLAG_STARTED 1u /* flag: start with the enqueue, without a call of start() */

struct lockstep_op_desc {
    size_t size;       /* sizeof(struct lockstep_op_desc) */
    int32_t comm;      /* handle from lockstep_comm_add() */
    uint32_t op;       /* enum lockstep_op */
    uint64_t bytes;    /* size of the data of this rank; 0: unknown */
    uint64_t time_ns;  /* of the enqueue; 0: now */
    uint32_t dtype;    /* enum lockstep_dtype */
    uint32_t peer;     /* p2p only: index of the other side in the communicator */
    uint16_t stream;   /* LOCKSTEP_HOST_STREAM, or 1 to 65151: a stream of the device */
    uint16_t flags;    /* 0 or LOCKSTEP_FLAG_STARTED */
    uint32_t reserved; /* 0 */
};

#ifndef __cplusplus
/* For C: LOCKSTEP_OP_DESC(.comm = dp, .op = LOCKSTEP_OP_ALL_REDUCE, .bytes = n), size filled in. */
#define LOCKSTEP_OP_DESC(...)                                                                      \
    (&(const struct lockstep_op_desc){ .size = sizeof(struct lockstep_op_desc), __VA_ARGS__ })
#endif

/* A collective has three events: enqueue when the program launches it, start when this rank
 * enters it, end when this rank leaves it.  Every member must enqueue the collectives of a
 * communicator in the same order: the n-th on one rank is matched with the n-th on the others.
 * enqueue returns a key, which start and end take.  Start and end may come from any thread.
 */
LOCKSTEP_API uint64_t lockstep_coll_enqueue(struct lockstep_probe *probe,
                                            const struct lockstep_op_desc *desc);
LOCKSTEP_API void lockstep_coll_start(struct lockstep_probe *probe, int comm, uint64_t key,
                                      uint64_t time_ns);
LOCKSTEP_API void lockstep_coll_end(struct lockstep_probe *probe, int comm, uint64_t key,
                                    uint64_t time_ns);

/* How the communication library runs such collectives from now on: the number of channels, and
 * the algorithm and protocol as text, such as "RING/SIMPLE" (the first 24 bytes are kept).
 * Call it before the first such collective and after each change.
 */
LOCKSTEP_API void lockstep_coll_method(struct lockstep_probe *probe, int comm, enum lockstep_op op,
                                       uint64_t bytes, uint32_t channels, const char *method);

/* The same three events for a message between this rank and one peer. */
LOCKSTEP_API uint64_t lockstep_p2p_enqueue(struct lockstep_probe *probe,
                                           const struct lockstep_op_desc *desc);
LOCKSTEP_API void lockstep_p2p_start(struct lockstep_probe *probe, int comm, uint64_t key,
                                     uint64_t time_ns);
LOCKSTEP_API void lockstep_p2p_end(struct lockstep_probe *probe, int comm, uint64_t key,
                                   uint64_t time_ns);

/* ---- values ---- */

enum lockstep_metric {
    LOCKSTEP_METRIC_LOSS = 1,
    LOCKSTEP_METRIC_GRAD_NORM = 2,
    LOCKSTEP_METRIC_TOKENS = 3,         /* tokens that this rank processes in this step */
    LOCKSTEP_METRIC_LENGTH_SQUARES = 4, /* sum of the squares of the sequence lengths */
    LOCKSTEP_METRIC_MICRO_BATCHES = 5,  /* micro-batches of this rank in this step */
    LOCKSTEP_METRIC_VALUES_LATE = 6,    /* loss and norm are this number of steps old */
    LOCKSTEP_METRIC_FLOP = 7 /* floating-point operations of the model on this rank in this step */
};

LOCKSTEP_API void lockstep_metric_put(struct lockstep_probe *probe, enum lockstep_metric metric,
                                      double value);

/* A 128-bit digest of part `part` of the `parts` parts of this rank's parameters.  Replicas must
 * have the same digest of the same part in the same step; lockstep reports those that differ.
 * A program with 16 parts or more digests only part (n % parts) in step n, and may record that
 * digest up to 8 steps later.
 */
LOCKSTEP_API void lockstep_digest_put(struct lockstep_probe *probe, uint32_t part, uint32_t parts,
                                      uint64_t low, uint64_t high);

/* A line of text for people; the first 320 bytes are kept. */
LOCKSTEP_API void lockstep_note_put(struct lockstep_probe *probe, const char *text);

/* ---- requests from the agent to this rank ---- */

enum lockstep_request_kind {
    LOCKSTEP_REQUEST_CHECKPOINT = 1 /* write a checkpoint at the end of step `step` */
    /* 2 changes how much is recorded; the library handles it in lockstep_step_begin(). */
};

enum lockstep_answer {
    LOCKSTEP_ANSWER_DONE = 1,   /* done as requested */
    LOCKSTEP_ANSWER_PAST = 2,   /* not done: this rank is already past `step` */
    LOCKSTEP_ANSWER_REFUSED = 3 /* not done: this program cannot do it */
};

struct lockstep_request {
    size_t size;       /* sizeof(struct lockstep_request), set by the caller */
    uint32_t kind;     /* enum lockstep_request_kind; ignore a kind that you do not know */
    uint32_t reserved; /* 0 */
    uint64_t step;     /* the step that the request is for */
    uint64_t argument; /* depends on the kind; 0 for a checkpoint */
    uint64_t id;       /* identifies the request; not 0 */
};

/* Returns 1 and fills in *ret when there is a request that this rank has not answered, else 0.
 * Returns -EINVAL when ret->size is too small.  Call it once per step.  All ranks get a request
 * with the same step, so that they act at the same step; a rank that reads it too late answers
 * LOCKSTEP_ANSWER_PAST.  A newer request replaces an older one.
 */
LOCKSTEP_API int lockstep_request_get(struct lockstep_probe *probe, struct lockstep_request *ret);

/* Tells the agent what became of the request; lockstep_request_get() does not return it again. */
LOCKSTEP_API void lockstep_request_answer(struct lockstep_probe *probe,
                                          const struct lockstep_request *request,
                                          enum lockstep_answer answer);

#ifdef __cplusplus
}
#endif
#endif
