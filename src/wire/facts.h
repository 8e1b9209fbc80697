/* facts.h - the facts in frames: one struct, one put and one get per type.
 *
 * A get trusts no input: it returns -EPROTO if the payload is too short or holds a number out of its range.  Newer
 * writers may append fields; a get ignores them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_WIRE_FACTS_H
#define LOCKSTEP_WIRE_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/buf.h"
#include "wire/numbers.h"

#define FACT_NAME 64
#define FACT_METRICS 8 /* enum lockstep_metric is the index; 0 is not used */
#define FACT_ITEMS_MAX 65536
#define FACT_STEP_BYTES_MAX 8192
#define FACT_WORDS 512
#define FACT_STACK 2048
#define FACT_METHOD 32
#define FACT_CHANNELS_MAX 65535

enum fact_sender_kind {
    SENDER_AGENT = 1,
    SENDER_LAUNCHER = 2,
    SENDER_CONTROL = 3
};

struct fact_hello {
    uint8_t kind; /* enum fact_sender_kind */
    char run[FACT_NAME], node[FACT_NAME], version[FACT_NAME];
    int64_t mono_ns, real_ns; /* read together */
};

struct fact_ring {
    uint32_t rank, world, attempt, ring; /* ring: the number in the file's name */
    uint32_t pid;                        /* as the agent sees it; 0: unknown */
    char node[FACT_NAME];
    int64_t open_ns;
    bool has_layout;
    uint16_t layout[10]; /* tp, pp, dp, cp, ep sizes; then this rank's indices */
};

struct fact_comm {
    uint32_t rank, attempt;
    uint64_t id;
    uint32_t size, index, kind;
    char name[FACT_NAME];
};

/* How the communication library performs such a collective, until the next fact of this kind. */
struct fact_method {
    uint32_t rank, attempt;
    uint64_t step; /* in which it was reported; UINT64_MAX: before the first, or between two */
    int64_t mono_ns;
    uint64_t comm; /* id */
    uint8_t op;    /* enum lockstep_op; collectives only */
    uint64_t bytes;
    uint32_t channels;
    char text[FACT_METHOD]; /* algorithm and protocol in the library's own words: "RING/SIMPLE" */
};

/* An item of a step, in the order the host launched them. */
enum item_kind {
    ITEM_PHASE = 1, /* what: enum lockstep_phase; on the host's line */
    ITEM_SPAN = 2,  /* what: enum lockstep_phase; device work on `stream` */
    ITEM_COLL = 3,  /* what: enum lockstep_op; comm, bytes, stream */
    ITEM_P2P = 4,   /* what: send or receive; comm, peer, bytes, stream */
    ITEM_KIND_COUNT
};

struct shape_item {
    uint8_t kind, what;
    uint16_t stream;
    uint32_t peer;
    uint32_t count; /* ops merged into this item: 1, or a power of two (the last may have fewer) */
    uint8_t dtype;  /* of ops: enum lockstep_dtype; a newer writer may know more of them */
    uint64_t comm;  /* communicator id; 0: none */
    uint64_t bytes; /* rounded to an eighth of an octave, so that lengths do not make shapes */
};

struct fact_shape {
    uint64_t hash; /* of the items */
    /* Of the items without communicators, peers and bytes: equal for ranks that do the same work. */
    uint64_t class;
    uint32_t count;
    struct shape_item *item; /* get allocates; free with fact_shape_fini() */
};

/* Times of an item, nanoseconds after the step's begin.  A phase is launched when it starts. */
struct item_time {
    /* Of a merged item: its first op's; end = start + time inside all its ops. */
    int64_t enqueue_ns, start_ns, end_ns;
    /* Of a merged op in a step with STEP_SPLIT: how much of that time was waiting for the others;
     * -1: not known.  Elsewhere it says nothing.
     */
    int64_t wait_ns;
};

enum step_flag {
    STEP_HOST_VIEW = 1,  /* no device spans: host phases stand for the work */
    STEP_UNFINISHED = 2, /* some op had not ended when the step was sent */
    STEP_TORN = 4,       /* records of this step were overwritten before they were read */
    STEP_LAST = 8,       /* no later step will come from this ring */
    STEP_SPLIT = 16,     /* merged ops have the sum of their waiting, as the node's agent saw it */
    STEP_BARE = 32, /* the spool was full: of its ops only the time beside them is left (own_ns) */
    STEP_AHEAD =
        64, /* the host was in another step than its device: its times tell nothing of the work */
    STEP_UNTIMED = 128, /* of some operations only the launch is known; they are not in the shape */
};

struct fact_step {
    uint32_t rank, attempt, ring;
    uint64_t step, shape;
    int64_t begin_ns;    /* the node's monotonic clock */
    int64_t duration_ns; /* to step end */
    int64_t
        tail_ns; /* from step end to the next begin; after the last step to its last item's end */
    uint32_t flags;
    /* Scheduler's view of all the process's threads over the step. */
    int64_t cpu_ns, run_delay_ns, throttled_ns, major_faults;
    uint32_t metric_set; /* bit i: metric[i] was given */
    double metric[FACT_METRICS];
    uint32_t digest_parts, digest_part; /* parts 0: none */
    uint64_t digest[2];
    uint32_t count;         /* 0 with STEP_BARE, whatever the shape has */
    struct item_time *time; /* get allocates; free with fact_step_fini() */
    int64_t own_ns; /* with STEP_BARE: what fact_step_local_ns() gave when its ops were known */
};

struct beat_op { /* what one stream is in now */
    uint16_t stream;
    uint8_t kind, what, dtype; /* of the item */
    uint64_t comm, key;
    int64_t age_ns;         /* since it was enqueued, or since it started when it has */
    bool started, advanced; /* advanced: since the last beat */
    uint64_t bytes;
    uint32_t peer;     /* of point-to-point: index in the communicator */
    uint64_t ordinal;  /* of point-to-point: of its channel; BEAT_UNKNOWN */
    int64_t queued_ns; /* since the host launched it; 0: not known */
};
#define BEAT_OPS_MAX 16
#define BEAT_UNKNOWN UINT64_MAX

/* How far a rank has come with one communicator's collectives, or with its messages to or from one
 * peer: how many it has launched, entered and left since it began.
 */
struct beat_channel {
    uint64_t comm;
    uint8_t what;                      /* 0: collectives; else LOCKSTEP_OP_SEND or _RECV */
    uint32_t peer;                     /* of point-to-point */
    uint64_t enqueued, started, ended; /* the last two BEAT_UNKNOWN: only launches are observed */
};
#define BEAT_CHANNELS_MAX 64

/* How often a rank was looked at in a phase since its last beat, and how often of these it waited for a
 * file system or a disk.
 */
struct beat_storage {
    uint16_t looks, waits;
};
enum beat_storage_phase {
    BEAT_STORAGE_DATA,
    BEAT_STORAGE_CHECKPOINT,
    BEAT_STORAGE_COUNT
};

struct fact_beat {
    uint32_t rank, attempt, ring;
    int64_t mono_ns;
    char state;    /* as /proc/PID/stat: R S D T Z …; 'X': gone; '?': cannot be seen */
    uint8_t phase; /* innermost open phase, 0: none */
    int64_t phase_age_ns;
    uint64_t step;
    int64_t step_age_ns;
    bool advanced, final; /* final: the rank is gone; this is where it ended */
    int64_t cpu_ns, run_delay_ns, throttled_ns; /* since the process began */
    uint32_t dropped;                           /* events of threads without a lane, since open */
    uint32_t ops;
    struct beat_op op[BEAT_OPS_MAX];
    uint32_t phases;    /* bit i: phase i is open, somewhere around the innermost one */
    uint32_t oom_kills; /* in the memory group of its process, since it is watched */
    uint32_t channels;  /* set only while no operation ends: they matter in a hang */
    struct beat_channel channel[BEAT_CHANNELS_MAX];
    struct beat_storage storage[BEAT_STORAGE_COUNT];
};

/* The text of an agent's exit fact, with status 0, for a rank without a launcher whose ring was closed.  A rank that
 * ends with an exception may close its ring as well; its exit status is not known.
 */
#define EXIT_CLOSED "closed"

struct fact_exit {
    uint32_t rank, attempt;
    int64_t mono_ns;
    int32_t status;         /* as waitpid() gives it; -1: unknown */
    bool ended_by_launcher; /* after another rank's failure */
    char text[160];         /* "killed by signal 9 (SIGKILL)" */
    char words[FACT_WORDS]; /* the last that it wrote to stderr; "": nothing, or not kept */
};

struct fact_gap {
    uint32_t rank, attempt, ring;
    uint64_t records; /* overwritten unread */
    /* Steps that are missing, inclusive; equal to UINT64_MAX: none whole. */
    uint64_t step_from, step_to;
};

struct fact_note {
    uint32_t rank, attempt;
    uint64_t step;
    int64_t mono_ns;
    char text[336];
};

/* What a rank that does not advance is doing, as seen from outside. */
struct fact_stack {
    uint32_t rank, attempt;
    int64_t mono_ns;
    char state;               /* of the process */
    char channel[FACT_NAME];  /* where its first thread waits in the kernel; "": not known */
    char kernel[FACT_STACK];  /* innermost first, one frame a line; "": not permitted or nothing */
    char native[FACT_STACK];  /* the same */
    char python[FACT_STACK];  /* "function (file:line)" */
    char why_not[FACT_WORDS]; /* what could not be read, and why; "": all that there is was */
    char ras[FACT_WORDS];     /* what NCCL's RAS says of the process; "": nothing */
};

enum run_event {
    RUN_BEGIN = 1,
    RUN_ATTEMPT_BEGIN = 2,
    RUN_ATTEMPT_END = 3,
    RUN_END = 4,
};

#define RUN_STOPPED "stopped by SIG" /* the text of a requested end begins with this */

struct fact_run {
    uint8_t event;
    uint32_t attempt, ranks;
    int32_t culprit; /* rank that ended first and not well; -1: none */
    int32_t status;  /* exit status of the attempt or run */
    int64_t mono_ns, real_ns;
    char text[160]; /* the command, or why */
};

/* Of a requested end: no rank is to blame. */
static inline bool fact_run_stopped(const struct fact_run *run)
{
    return strncmp(run->text, RUN_STOPPED, strlen(RUN_STOPPED)) == 0;
}

enum tick_flag {
    TICK_LAST = 1, /* no fact follows: the core closes the run */
    TICK_DEAF = 2, /* facts came that the log could not take: nobody was silent */
};

struct fact_tick {
    int64_t mono_ns, real_ns;
    uint8_t flags; /* enum tick_flag */
};

/* What is left of some steps when a log is compacted, or when an agent's spool is full. */
struct merged_rank {
    uint16_t steps;    /* number of these steps that the rank sent */
    int64_t local_ns;  /* its own work in a step, mean */
    int64_t excess_ns; /* beyond the median of a step, at most; of an agent: beyond that mean */
};
struct fact_merged {
    uint32_t attempt;
    uint64_t step_from, step_to; /* inclusive */
    uint32_t steps;              /* that were merged; 0: only a mark */
    uint64_t dropped;            /* frames that are gone since the one before */
    int64_t begin_real_ns;       /* of the first; 0: not known */
    int64_t duration_ns;         /* of the longest */
    int64_t median_ns;           /* of the ranks' own work, mean over the steps; of an agent: 0 */
    uint32_t rank_from;          /* rank[0] is this one */
    uint32_t ranks;
    struct merged_rank *rank; /* get allocates; free with fact_merged_fini() */
};

/* A log that was compacted while its run went on: what is left of its old part, then the facts of its new part, which
 * the judges process without output, then their output.
 */
enum compaction_kind {
    COMPACTION_BEGIN = 1,    /* the old part: facts without steps, verdicts and ledgers */
    COMPACTION_COMPLETE = 2, /* from here on all facts are there */
    COMPACTION_OUTPUT = 3,   /* from here on, output of the judges that know only these facts */
    COMPACTION_VERDICTS = 4, /* the next tick writes all open verdicts, with their cost so far */
};
struct compaction_origin { /* of frames in the old part */
    uint64_t sender, boot;
    uint64_t next;    /* all numbers below this one have come */
    uint64_t dropped; /* frames that were left out */
};
struct fact_compaction {
    uint8_t kind; /* enum compaction_kind */
    uint32_t count;
    struct compaction_origin *origin; /* get allocates; free with fact_compaction_fini() */
};
#define COMPACTION_ORIGINS_MAX 16384 /* in a frame: there may be more than one */

/* From here in the log on the judges use this value of a threshold. */
struct fact_setting {
    int64_t real_ns; /* when it was changed */
    double value;
    char name[FACT_NAME]; /* "verdict.least-cost" */
    char who[FACT_NAME];  /* who changed it: a settings file, or whose token it was */
};

/* What an agent has sent to the site's controller since it began, by its own count. */
struct fact_traffic {
    int64_t mono_ns, since_ns; /* now, and when it began */
    uint64_t bodies;           /* that the controller took; the next three are in them */
    uint64_t frames, steps;    /* steps: of single ranks */
    uint64_t bytes;
    uint64_t wire_bytes; /* that TCP sent, with HTTP, TLS and what came twice; 0: not known */
    uint64_t failures, refused; /* bodies that were not taken; frames that never will be */
    uint64_t backlog_bytes;     /* of the spool, that the controller does not have */
    uint64_t spool_bytes;
};

/* Where every allocated GPU-second went: each lands in exactly one bucket, so the sum is
 * ranks × wall time, and what the places beyond the ranks add (wire/decision.h).  All are measured; only
 * `unattributed` is a remainder.
 */
enum ledger_bucket { /* numbers are wire format */
    LEDGER_PRODUCTIVE,
    LEDGER_STRAGGLER_WAIT,
    LEDGER_IMBALANCE,
    LEDGER_TRANSFER,
    LEDGER_INPUT,
    LEDGER_CHECKPOINT,
    LEDGER_START_UP,
    LEDGER_HANG,
    LEDGER_RESTART,
    LEDGER_LOST, /* work rolled back */
    LEDGER_SPARE,
    LEDGER_UNATTRIBUTED,
    LEDGER_DOWN, /* places that the run has and cannot use; came later: on the wire behind the rest */
    LEDGER_BUCKETS
};

struct ledger {
    uint32_t ranks;
    double wall_seconds;
    double gpu_seconds[LEDGER_BUCKETS];
    uint64_t steps,
        unfit_steps; /* unfit: the replay did not reproduce the step, nothing was priced from it */
    bool host_view;  /* no device times: host phases stand for the work */
};

const char *ledger_bucket_name(unsigned bucket);    /* "straggler-wait" */
double ledger_total(const struct ledger *ledger);   /* all GPU-seconds that are in a bucket */
double ledger_goodput(const struct ledger *ledger); /* productive share of all GPU-seconds */

/* A float of 16 bits for times: 5-bit exponent, 11-bit fraction, unit 1/8 µs at the bottom.
 * Relative error at most 2^-12; the largest is six days; more is cut to that.
 */
uint16_t half_from_ns(int64_t ns); /* negative: 0 */
static inline int64_t half_to_ns(uint16_t half)
{
    unsigned exponent = half >> 11;
    int64_t units = (half & 2047) + (exponent ? 2048 : 0);

    return (units << (exponent ? exponent - 1 : 0)) * 125;
}

uint64_t bytes_round(uint64_t bytes); /* to an eighth of an octave */

/* Of a device of whose operations only the launch is known: neither a start nor an end follows. */
static inline bool stream_has_launches_only(uint16_t stream)
{
    return stream >= LOCKSTEP_DEVICE_LAUNCHES && stream < LOCKSTEP_DEVICE_OPS;
}

/* Of a device that tells its ops and no spans. */
static inline bool stream_has_ops_only(uint16_t stream)
{
    return stream >= LOCKSTEP_DEVICE_OPS && stream < LOCKSTEP_HOST_THREADS;
}

static inline bool op_synchronises(unsigned op) /* no member leaves before the last one enters */
{
    const unsigned those = 1u << LOCKSTEP_OP_ALL_REDUCE | 1u << LOCKSTEP_OP_REDUCE_SCATTER |
                           1u << LOCKSTEP_OP_ALL_GATHER | 1u << LOCKSTEP_OP_ALL_TO_ALL |
                           1u << LOCKSTEP_OP_BARRIER;

    return op < 32 && those >> op & 1;
}

bool item_has_wait(const struct shape_item *item); /* in a step with STEP_SPLIT */

/* Merges ops until a step fits FACT_STEP_BYTES_MAX, split or not: consecutive ops of the same kind,
 * communicator, peer and stream, 2^n at a time.  A pure function of the items, so all members
 * merge alike; factors are powers of two, so that finer merges fold into coarser ones.  `group`
 * gets for each of the n ops the merged item it went into.  Returns the merged count.
 */
size_t shape_merge(const struct shape_item *item, size_t count, struct shape_item *merged,
                   uint32_t *group);
void shape_hash(struct fact_shape *shape); /* sets hash and class */

void fact_hello_put(struct buf *out, const struct fact_hello *fact);
int fact_hello_get(struct reader in, struct fact_hello *ret);
void fact_ring_put(struct buf *out, const struct fact_ring *fact);
int fact_ring_get(struct reader in, struct fact_ring *ret);
void fact_comm_put(struct buf *out, const struct fact_comm *fact);
int fact_comm_get(struct reader in, struct fact_comm *ret);
void fact_shape_put(struct buf *out, const struct fact_shape *fact);
int fact_shape_get(struct reader in, struct fact_shape *ret);
void fact_shape_fini(struct fact_shape *fact);
/* A step's times travel as differences along its shape, so both need the shape. */
void fact_step_put(struct buf *out, const struct fact_step *fact, const struct fact_shape *shape);
int fact_step_get(struct reader in, const struct fact_shape *shape, struct fact_step *ret);
/* Without the shape: all but the times of the items.  Nothing to free. */
int fact_step_head_get(struct reader in, struct fact_step *ret);
/* Time of a step that is the rank's own: its device's spans, or without device times what it did not spend
 * inside an op with others.
 */
int64_t fact_step_local_ns(const struct fact_step *step, const struct fact_shape *shape);
/* The hash of the shape that get will need; 0: malformed. */
uint64_t fact_step_shape(struct reader in);
void fact_step_fini(struct fact_step *fact);
void fact_beat_put(struct buf *out, const struct fact_beat *fact);
int fact_beat_get(struct reader in, struct fact_beat *ret);
void fact_exit_put(struct buf *out, const struct fact_exit *fact);
int fact_exit_get(struct reader in, struct fact_exit *ret);
void fact_gap_put(struct buf *out, const struct fact_gap *fact);
int fact_gap_get(struct reader in, struct fact_gap *ret);
void fact_note_put(struct buf *out, const struct fact_note *fact);
int fact_note_get(struct reader in, struct fact_note *ret);
void fact_stack_put(struct buf *out, const struct fact_stack *fact);
int fact_stack_get(struct reader in, struct fact_stack *ret);
void fact_run_put(struct buf *out, const struct fact_run *fact);
int fact_run_get(struct reader in, struct fact_run *ret);
void fact_tick_put(struct buf *out, const struct fact_tick *fact);
int fact_tick_get(struct reader in, struct fact_tick *ret);
void fact_merged_put(struct buf *out, const struct fact_merged *fact);
int fact_merged_get(struct reader in, struct fact_merged *ret);
void fact_merged_fini(struct fact_merged *fact);
void fact_compaction_put(struct buf *out, const struct fact_compaction *fact);
int fact_compaction_get(struct reader in, struct fact_compaction *ret);
void fact_compaction_fini(struct fact_compaction *fact);
void fact_setting_put(struct buf *out, const struct fact_setting *fact);
int fact_setting_get(struct reader in, struct fact_setting *ret);
void fact_traffic_put(struct buf *out, const struct fact_traffic *fact);
int fact_traffic_get(struct reader in, struct fact_traffic *ret);
void fact_method_put(struct buf *out, const struct fact_method *fact);
int fact_method_get(struct reader in, struct fact_method *ret);
/* When the fact in a payload of this type happened, on its node's monotonic clock: what spools are
 * merged by.  0: it does not say, or the payload is short.
 */
int64_t fact_when(uint16_t type, struct reader in);
void ledger_put(struct buf *out, const struct ledger *ledger);
int ledger_get(struct reader in, struct ledger *ret);

#endif
