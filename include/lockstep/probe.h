/* probe.h - tell the agent on this node what a rank is doing.
 *
 * One ring per process, shared by everything in it that calls lockstep_probe_open().
 * Safe to call from any thread, not from a signal handler: each thread gets its own
 * lane on its first call (the one that opens has it already; another asks the kernel
 * for its id, once).  After that nothing here allocates, locks, blocks, makes a system
 * call or fails: with no agent running, marks are written to memory nobody reads.
 * Every function takes a NULL probe and then does nothing, so a program whose open
 * failed goes on as it is.
 *
 * A child made by fork() never writes its parent's ring: its marks are dropped.
 * Times are CLOCK_MONOTONIC nanoseconds; where a call takes `time_ns`, 0 means now.
 */
#ifndef LOCKSTEP_PROBE_H
#define LOCKSTEP_PROBE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LOCKSTEP_PROBE_ABI 1

struct lockstep_probe;

/* All numbers below are wire format: never reused, never reordered. */
enum lockstep_phase {
    LOCKSTEP_PHASE_INIT = 1,
    LOCKSTEP_PHASE_COMM_INIT = 2,
    LOCKSTEP_PHASE_COMPILE = 3,
    LOCKSTEP_PHASE_DATA = 4, /* waiting for the next batch */
    LOCKSTEP_PHASE_FORWARD = 5,
    LOCKSTEP_PHASE_BACKWARD = 6,
    LOCKSTEP_PHASE_OPTIMIZER = 7,
    LOCKSTEP_PHASE_CHECKPOINT = 8,
    LOCKSTEP_PHASE_EVAL = 9,
    LOCKSTEP_PHASE_GC = 10,
    LOCKSTEP_PHASE_OTHER = 11,
    LOCKSTEP_PHASE_COUNT
};

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
    LOCKSTEP_OP_OTHER = 10,
    LOCKSTEP_OP_SEND = 11, /* lockstep_p2p_enqueue() only */
    LOCKSTEP_OP_RECV = 12,
    LOCKSTEP_OP_COUNT
};

/* Of the elements that an op moves.  All members of a collective must give the same. */
enum lockstep_dtype {
    LOCKSTEP_DTYPE_UNKNOWN = 0, /* not told */
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
    LOCKSTEP_DTYPE_OTHER = 18, /* known, and none of these */
    LOCKSTEP_DTYPE_MIXED = 19, /* more than one, in one op */
    LOCKSTEP_DTYPE_COUNT
};

enum lockstep_metric {
    LOCKSTEP_METRIC_LOSS = 1,
    LOCKSTEP_METRIC_GRAD_NORM = 2,
    LOCKSTEP_METRIC_TOKENS = 3,         /* tokens this rank works on in this step */
    LOCKSTEP_METRIC_LENGTH_SQUARES = 4, /* sum of the squared sequence lengths */
    LOCKSTEP_METRIC_MICRO_BATCHES = 5,
    LOCKSTEP_METRIC_COUNT
};

enum lockstep_comm_kind {
    LOCKSTEP_COMM_OTHER = 0,
    LOCKSTEP_COMM_WORLD = 1,
    LOCKSTEP_COMM_DP = 2,
    LOCKSTEP_COMM_TP = 3,
    LOCKSTEP_COMM_PP = 4,
    LOCKSTEP_COMM_CP = 5,
    LOCKSTEP_COMM_EP = 6,
    LOCKSTEP_COMM_KIND_COUNT
};

struct lockstep_layout { /* sizes are at least 1, indices below them */
    uint16_t tp_size, pp_size, dp_size, cp_size, ep_size;
    uint16_t tp, pp, dp, cp, ep;
};

/* Of the stream an op runs on.  Those between are a device's. */
#define LOCKSTEP_HOST_STREAM 0 /* the host itself runs it and waits */
#define LOCKSTEP_DEVICE_OPS                                                                        \
    0xfec0 /* from here on: a device that tells its ops and no spans, as NCCL's */
#define LOCKSTEP_HOST_THREADS 0xff00 /* from here on: its threads run it beside it, as gloo's do */
#define LOCKSTEP_HOST_LATE 0xff80    /* ... and its end may be seen late */

/* Opens this process's ring in $LOCKSTEP_DIR (default: a directory of this user and run
 * under /dev/shm, or under $TMPDIR where that does not fit).  A second open of the same
 * rank gives the same probe.  Returns 0, or -errno with *ret untouched and one line on
 * stderr saying why.  Release with lockstep_probe_close().
 */
int lockstep_probe_open(uint32_t rank, uint32_t world, struct lockstep_probe **ret);
void lockstep_probe_close(struct lockstep_probe *probe); /* NULL is fine */

void lockstep_layout_set(struct lockstep_probe *probe, const struct lockstep_layout *layout);

/* A step is everything from one begin to the next; what is marked before the first
 * step_begin() belongs to start-up.
 */
void lockstep_step_begin(struct lockstep_probe *probe, uint64_t step);
void lockstep_step_end(struct lockstep_probe *probe, uint64_t step);

/* What the host is doing.  Phases nest; end closes the innermost one of that name. */
void lockstep_phase_begin(struct lockstep_probe *probe, enum lockstep_phase phase);
void lockstep_phase_end(struct lockstep_probe *probe, enum lockstep_phase phase);

/* Work that a device ran on one stream, told after the fact: when the host launched it and
 * when it began and ended.  `phase` says which work it was.
 */
void lockstep_device_span(struct lockstep_probe *probe, uint16_t stream, enum lockstep_phase phase,
                          uint64_t enqueue_ns, uint64_t begin_ns, uint64_t end_ns);

/* A communicator.  `id` is the same on all its members and differs between communicators;
 * `index` is this rank's place in it.  Returns a handle, or -errno (the calls below ignore
 * a negative one).  The same id again gives the same handle.
 */
int lockstep_comm_add(struct lockstep_probe *probe, uint64_t id, uint32_t size, uint32_t index,
                      enum lockstep_comm_kind kind, const char *name);

/* A collective: enqueue in launch order (the count per communicator is its key), then start
 * when this rank enters it and end when it leaves, from any thread.  `peer` is the other
 * side's index in the communicator.
 */
uint64_t lockstep_coll_enqueue(struct lockstep_probe *probe, int comm, enum lockstep_op op,
                               uint64_t bytes, uint16_t stream);
/* The same, with what the elements are. */
uint64_t lockstep_coll_enqueue_typed(struct lockstep_probe *probe, int comm, enum lockstep_op op,
                                     uint64_t bytes, uint16_t stream, enum lockstep_dtype dtype);
/* The same, and entered at once: one call for a caller whose calls are dear. */
uint64_t lockstep_coll_launch(struct lockstep_probe *probe, int comm, enum lockstep_op op,
                              uint64_t bytes, uint16_t stream, enum lockstep_dtype dtype);
void lockstep_coll_start(struct lockstep_probe *probe, int comm, uint64_t key, uint64_t time_ns);
void lockstep_coll_end(struct lockstep_probe *probe, int comm, uint64_t key, uint64_t time_ns);

/* How the communication library moves such a collective from now on: over how many channels, and by
 * which algorithm and protocol in its own words ("RING/SIMPLE"; first 24 bytes).  Told at the first
 * one and when it changes, not for each.
 */
void lockstep_coll_method(struct lockstep_probe *probe, int comm, enum lockstep_op op,
                          uint64_t bytes, uint32_t channels, const char *method);

uint64_t lockstep_p2p_enqueue(struct lockstep_probe *probe, int comm, enum lockstep_op op,
                              uint32_t peer, uint64_t bytes, uint16_t stream);
uint64_t lockstep_p2p_enqueue_typed(struct lockstep_probe *probe, int comm, enum lockstep_op op,
                                    uint32_t peer, uint64_t bytes, uint16_t stream,
                                    enum lockstep_dtype dtype);
void lockstep_p2p_start(struct lockstep_probe *probe, int comm, uint64_t key, uint64_t time_ns);
void lockstep_p2p_end(struct lockstep_probe *probe, int comm, uint64_t key, uint64_t time_ns);

void lockstep_metric_put(struct lockstep_probe *probe, enum lockstep_metric metric, double value);
/* Digest of one part of this rank's parameters, as they are in this step: equal on all its replicas.  Of 16 parts or
 * more, part n mod parts is taken in step n, and may be told up to 8 steps later.
 */
void lockstep_digest_put(struct lockstep_probe *probe, uint32_t part, uint32_t parts, uint64_t low,
                         uint64_t high);
void lockstep_note_put(struct lockstep_probe *probe, const char *text); /* first 320 bytes */

/* The word that the agent writes, read at step boundaries: all that ever flows back. */
#define LOCKSTEP_CONTROL_OFF (UINT64_C(1) << 0)            /* record nothing */
#define LOCKSTEP_CONTROL_CHECKPOINT_NOW (UINT64_C(1) << 1) /* save at the next boundary */
#define LOCKSTEP_CONTROL_DEPTH_SHIFT 8                     /* 0 all events, 1 no phases or spans */
uint64_t lockstep_control_word(struct lockstep_probe *probe);

uint64_t lockstep_clock_ns(void);

#ifdef __cplusplus
}
#endif
#endif
