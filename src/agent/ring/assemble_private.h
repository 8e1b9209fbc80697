/* assemble_private.h - structures of the assembler, for its files only.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_RING_ASSEMBLE_PRIVATE_H
#define LOCKSTEP_AGENT_RING_ASSEMBLE_PRIVATE_H

#include "agent/ring/assemble.h"
#include "agent/ring/optable.h"

#define BUILDS 32         /* steps in the making; normal life needs four, a device that lags more */
#define PHASE_DEPTH 32    /* open phases; deeper ones are not followed */
#define HOLD_MAX 2        /* later steps that must have ended before a step goes out in any case */
#define HOLD_DEVICE 16    /* the same while ops on its device have not ended: hosts run ahead */
#define METHODS_QUEUED 16 /* ways of moving collectives that wait to be taken */
#define METHODS_SENT 512  /* communicators, ops and classes of sizes that these are known of */
#define OP_STALE 64       /* an op that has not ended after so many steps has lost its end */

#define STAMPS_KNOWN 8192 /* tags whose launch or run waits for the other */
#define STAMPS_GRAPH 1024 /* tags in graphs */

/* Items of a step in the making only. */
#define ITEM_STAMP                                                                                 \
    0x40 /* what: enum ring_stamp_what; dtype: the phase from here on; start: when it ran */
#define ITEM_LAUNCH 0x41 /* of an operation that nobody times; peer 1: a message */

#define STEP_TIME_MAX (INT64_C(50) * 31557600 * 1000000000) /* later times are nonsense */

struct item {
    uint8_t kind, what, dtype;
    uint16_t stream;
    bool ended;
    int32_t comm; /* index in the ring's table, -1: none */
    uint32_t peer, seq;
    uint64_t bytes, key;
    int64_t enqueue_ns, start_ns, end_ns; /* absolute */
};

enum border {
    BORDER_OPEN,
    BORDER_KNOWN,
    BORDER_UNKNOWN
};

struct build { /* a step in the making */
    uint64_t serial, number;
    bool begun, ended; /* ended: by its own record, or because the next one began */
    bool end_marked;   /* by its own record */
    bool torn, spans, device_ops, untimed;
    int64_t begin_ns, end_ns, next_ns; /* next: the following begin, 0: none yet */
    uint64_t begun_round;
    uint32_t open_ops;
    uint64_t events;
    struct item *item;
    uint32_t count, room;
    uint32_t metric_set;
    double metric[FACT_METRICS];
    uint32_t digest_parts, digest_part;
    uint64_t digest[2];
    enum border begin_known, end_known; /* of the two samples below */
    struct sample begin_sample, end_sample;
    uint32_t stamps, open_stamps;          /* open: they have not run yet */
    bool made;                             /* its items are final */
    bool graph;                            /* some of its stamps are of a graph */
    bool sparse;                           /* most of its stamps were left out */
    int64_t stamped_ns, stamped_launch_ns; /* its first one ran, and was launched; 0: not yet */
    int64_t host_begin_ns; /* its begin before it was the device's; 0: it is still the host's */
};

struct open_phase {
    uint8_t phase;
    uint32_t lane;
    int64_t since_ns;
    uint64_t build; /* serial of the step whose item it extends; 0: none */
    uint32_t item;
};

struct partial_note {
    uint8_t next; /* part number that should follow; 0: none open */
    uint16_t size;
    uint64_t step;
    int64_t time_ns;
    char text[336];
};

struct ring_method { /* how a collective is moved, as the ring says it */
    int32_t comm;    /* place in the ring's table */
    uint8_t op;
    uint32_t channels;
    uint64_t bytes, step;
    int64_t time_ns;
    char text[FACT_METHOD];
};

struct sent_method {
    struct ring_method method; /* newest */
    uint32_t changes;
};

struct seen_op { /* what a stream was in at the last view */
    uint16_t stream;
    bool p2p, started;
    int32_t comm;
    uint64_t key;
};

struct channel { /* how far the rank has come, by communicator or by peer and direction */
    int32_t comm;
    uint8_t what;  /* 0: collectives */
    uint32_t peer; /* of point-to-point */
    uint64_t enqueued, started, ended;
    bool launches; /* of the newest only the launch is known */
};

struct stamped;

struct assemble {
    struct assemble_id id;
    uint64_t comm_id[RING_COMMS];
    bool comm_known[RING_COMMS];

    struct build *build[BUILDS]; /* in the order they began */
    unsigned builds;
    uint64_t serial; /* of the newest build */
    uint64_t round;
    bool any_step;
    uint64_t now_step; /* begun last */
    int64_t now_begin_ns;
    int64_t device_end_ns; /* of ops on a device in steps that were written */
    unsigned hold;         /* later steps to wait for: grows when spans arrive late */
    struct optable ops;
    struct open_phase phase[PHASE_DEPTH];
    unsigned phases;
    struct samples samples;
    bool sampling, final, keep_ops;
    int64_t last_ns, gone_ns;

    struct assemble_done done;
    bool resumed;  /* `done` is from an earlier life and nothing has been sent since */
    bool sent_any; /* in this life */
    /* What was lost since the last thing sent. */
    uint64_t lost, late;
    bool lost_first; /* a lane had wrapped before its first read */
    bool missing;
    uint64_t missing_from, missing_to;
    bool tear;
    uint64_t tear_from, tear_to;

    struct partial_note *partial; /* one a lane */
    struct fact_note note;
    bool note_ready;

    struct ring_method method[METHODS_QUEUED]; /* oldest first */
    struct sent_method sent_method[METHODS_SENT];
    unsigned method_count, methods_sent;
    uint64_t methods_dropped;

    struct seen_op seen[BEAT_OPS_MAX];
    unsigned seen_count;
    uint64_t events, seen_events;
    uint64_t ends, seen_ends; /* operations that have ended */
    struct channel channel[BEAT_CHANNELS_MAX];
    unsigned channels;
    bool uncounted; /* records were lost, so messages cannot be numbered */

    struct stamped *stamped;        /* NULL: no stamp was seen */
    uint32_t exchanges[RING_COMMS]; /* that were made of launches of messages */
};

struct build *build_by_serial(const struct assemble *assemble, uint64_t serial);
void build_destroy(struct build *build);
void build_drop_front(struct assemble *assemble); /* its steps go into the coming gap */
/* assemble.c: the build that an event belongs to, and a new item of it; NULL: none, or no memory. */
struct build *build_for(struct assemble *assemble, const struct ring_event *event);
struct item *item_add(struct assemble *assemble, struct build *build, int64_t time_ns);

/* assemble_ops.c */
void method_on(struct assemble *assemble, const struct ring_event *event);
bool method_take(struct assemble *assemble, struct fact_method *ret); /* false: none now */

/* assemble_ops.c */
void op_on_enqueue(struct assemble *assemble, const struct ring_event *event);
void op_on_start(struct assemble *assemble, const struct ring_event *event);
void op_on_end(struct assemble *assemble, const struct ring_event *event);
void op_on_span(struct assemble *assemble, const struct ring_event *event);

/* device_line.c */
void stamped_free(struct stamped *stamped);
void stamp_on_launch(struct assemble *assemble, const struct ring_event *event);
/* True: all stamps of the step have run and its end is known, so its times can be those of the device.  `next` is the step after
 * it, NULL: none has begun.
 */
bool line_is_whole(const struct assemble *assemble, const struct build *build,
                   const struct build *next);
/* Makes the items of a step those of its device, where that is possible, and removes what only a step in the making has.  The
 * items must be sorted.  -ENOMEM: they are as before.
 */
int line_make(struct assemble *assemble, struct build *build, const struct build *next);

#endif
