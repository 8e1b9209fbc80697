/* model.h - what the judges look at: ranks, communicators, shapes, and whole steps.
 *
 * The controller's core fills it from facts; judges only read it.  A *class* is a shape
 * without communicators and sizes: ranks of one class do the same work, op by op, so
 * they can be compared and share what is learnt about the order of things.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_STEP_MODEL_H
#define LOCKSTEP_JUDGE_STEP_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/map.h"
#include "wire/facts.h"

#define MODEL_NONE UINT32_MAX
#define MODEL_LINES_MAX 16     /* host, then streams in order of appearance */
#define MODEL_RANKS_MAX 262144 /* more than anyone has */

enum layout_field {
    LAYOUT_TP,
    LAYOUT_PP,
    LAYOUT_DP,
    LAYOUT_CP,
    LAYOUT_EP,
    LAYOUT_FIELDS
};

/* Against whom a rank is compared, best first; what is used is printed and caps confidence. */
enum peer_basis {
    PEER_BASIS_DP,
    PEER_BASIS_TP,
    PEER_BASIS_CLASS,
    PEER_BASIS_PAST,
    PEER_BASIS_NONE
};
const char *peer_basis_name(enum peer_basis basis);

/* The host between two of its points, µs: since the one before, and since the end of the last op. */
struct model_pace {
    double mean[2], squares[2];
    uint32_t count;
};

struct model_class {
    uint64_t class;
    uint32_t count, lines;
    uint8_t *line;                 /* by item; 0: host */
    uint8_t *kind, *what;          /* by item */
    uint32_t *at[MODEL_LINES_MAX]; /* by line, then place on it: the item; places[line] of them */
    uint32_t places[MODEL_LINES_MAX];
    uint32_t *follower;  /* by item: the next on its line, MODEL_NONE */
    uint32_t host_lines; /* bits: of ops that the host and its threads run; 0 where devices tell */
    bool device_ops;     /* of a device that tells its ops and no spans */
    uint32_t learnt;     /* rank-steps seen */
    uint32_t version;    /* changes when something below does */
    /* Learnt from the steps of this class.  What is forbidden by one step stays forbidden: */
    uint8_t
        *sync; /* by item, +1 for the end: all that is launched before has always ended by then */
    uint8_t *waited; /* the same: and the host was seen to wait for it */
    /* The same, where there are host lines, else NULL: */
    uint8_t *newest; /* the op launched last before has always ended by then, if not all have */
    struct model_pace *pace;
    uint8_t
        *after_span; /* by item: a communication op starts after the last span launched before it */
    uint8_t
        *prompt; /* by item: it was seen to start soon after its launch, so the launch matters */
    uint32_t
        *after[MODEL_LINES_MAX]; /* by line, then item: it starts after so many ops of that line */
};

/* Until when an op has its line.  Threads of the host run several at a time: the next one takes it. */
static inline int64_t class_end_ns(const struct model_class *class, const struct item_time *time,
                                   uint32_t item)
{
    uint32_t next =
        class->host_lines & 1u << class->line[item] ? class->follower[item] : MODEL_NONE;

    if (next == MODEL_NONE || time[next].start_ns >= time[item].end_ns)
        return time[item].end_ns;
    return time[next].start_ns > time[item].start_ns ? time[next].start_ns : time[item].start_ns;
}

enum halt { /* what the host waits for at one of its points */
    HALT_NONE,
    HALT_ALL,   /* everything launched before */
    HALT_NEWEST /* the op launched last before: a blocking call while others are on their way */
};

static inline enum halt class_halt(const struct model_class *class, uint32_t point)
{
    if (!class->waited[point])
        return HALT_NONE;
    if (class->sync[point])
        return HALT_ALL;
    return class->newest && class->newest[point] ? HALT_NEWEST : HALT_NONE;
}

struct model_shape {
    struct fact_shape fact;
    uint32_t attempt;   /* the newest in which it was told or used */
    uint64_t structure; /* hash of all but the sizes */
    bool ended;         /* it was a rank's in a step that all have ended */
    struct model_class *class;
    uint32_t *comm;    /* by item: slot in model.comm, MODEL_NONE */
    uint32_t *ordinal; /* by item: how many of its communicator (and peer, direction) came before */
    uint32_t *clock;   /* items that tell something about clocks: the first of each communicator */
    uint32_t clocks;
};

struct comm_far { /* a member whose index is beyond `known` so far */
    uint32_t index, rank;
};

struct model_comm {
    uint64_t id;
    uint32_t attempt;    /* the newest in which somebody was a member */
    uint32_t size, kind; /* size: as its members say; 0: none has spoken yet */
    char name[FACT_NAME];
    uint32_t *member; /* by index, `known` of them: rank, MODEL_NONE when unseen */
    uint32_t known;   /* size, or less while few members have spoken */
    uint32_t seen;    /* members that have */
    struct comm_far *far;
    uint32_t far_count, far_room;
};

struct model_rank {
    bool seen, has_layout;
    uint32_t node, attempt, ring, pid;
    uint32_t
        from_ring; /* older ones are of a worker before this one: what still comes of them is over */
    uint16_t size[LAYOUT_FIELDS], at[LAYOUT_FIELDS];
    uint32_t peers; /* group of ranks it is compared with */
    enum peer_basis basis;
};

#define CLOCK_STEPS 16
#define CLOCK_INSTANCES 8 /* of a communicator and step that are looked at */
struct model_node {
    char name[FACT_NAME];
    int64_t offset_ns, error_ns; /* add the offset to this node's times; known within error */
    int64_t real_ns; /* its wall clock minus its monotonic clock, as its agent said; 0: not said */
    struct clock_bound { /* of the offset, from one of the last steps */
        int64_t low_ns, high_ns;
        int64_t end_ns; /* by which all members leave a collective at the same time, on average */
        uint32_t ends;  /* collectives in that */
    } bound[CLOCK_STEPS];
    uint32_t level; /* collectives from here to the first rank's node; 0: not known */
    bool aligned;
};

/* How many places to make for `claimed` things of which `heard` have spoken.  A number in a frame costs its
 * sender nothing, so it never decides alone how much memory is taken: there are at most 16 places for each
 * that was heard, `least` at the beginning, and twice as many each time they grow.
 */
#define MODEL_ROOM_EACH 16
static inline uint32_t model_room(uint32_t claimed, uint32_t seen, uint32_t least)
{
    uint64_t room = least;

    while (room * 2 <= (uint64_t)seen * MODEL_ROOM_EACH)
        room *= 2;
    return room < claimed ? (uint32_t)room : claimed;
}

/* One step of all ranks. */
struct job_step {
    uint64_t step;
    uint32_t attempt, have;
    bool torn;                 /* of some rank only the borders are known */
    bool bare;                 /* of some rank only its numbers are: losses, norms, digests */
    int64_t waits_ns;          /* since when it waits for all ranks, by the caller's clock */
    struct fact_step *step_of; /* by rank; count 0 and shape 0 where missing */
    struct model_shape **shape_of;
};

struct model {
    char run[FACT_NAME];
    uint32_t world, attempt;
    struct model_rank *rank;
    struct model_node *node;
    uint32_t nodes, node_room;
    struct model_comm *comm;
    uint32_t comms, comm_room;
    struct model_shape **shape;
    uint32_t shapes, shape_room;
    uint64_t items; /* of all shapes */
    struct model_class **class;
    uint32_t classes, class_room;
    struct map comm_by_id, shape_by_hash, class_by_hash, node_by_name;
    uint32_t members_version; /* changes when somebody's index in a communicator does */
    struct map index_of;      /* communicator's slot << 32 | rank → the rank's index in it */
    bool peers_stale;
    uint32_t peer_groups;
    size_t bytes; /* behind the arrays: of shapes, classes and members */
};

void model_fini(struct model *model);
int model_resize(struct model *model, uint32_t world); /* grows only; -ENOMEM, -E2BIG */
uint32_t model_node(struct model *model,
                    const char *name); /* finds or adds; MODEL_NONE: no memory */
int model_ring(struct model *model, const struct fact_ring *fact);
int model_comm(struct model *model, const struct fact_comm *fact);
int model_shape(struct model *model, struct fact_shape *fact); /* takes the items */
/* The rank with an index in a communicator; MODEL_NONE: not known. */
static inline uint32_t model_member(const struct model_comm *comm, uint32_t index)
{
    return index < comm->known ? comm->member[index] : MODEL_NONE;
}
size_t model_bytes(const struct model *model); /* of memory, about */
/* A rank's index in a communicator; MODEL_NONE: it is no member, as far as was told. */
uint32_t model_index(const struct model *model, uint32_t comm, uint32_t rank);
struct model_shape *model_shape_get(const struct model *model, uint64_t hash);
/* Each attempt has communicators of its own, and shapes with them.  Where there are many, those are dropped that the attempt
 * before the newest did not use, with the classes that only they have.  Slots of communicators and pointers to shapes are
 * others then.  Returns whether anything was dropped.
 */
bool model_forget(struct model *model);
/* Sets everyone's peers from the layout, or from the classes of `whole` where there is none. */
void model_peers(struct model *model, const struct job_step *job_step);

int job_step_init(struct job_step *job_step, uint32_t world, uint64_t step, uint32_t attempt);
void job_step_fini(struct job_step *job_step);

/* A rank's time on the run's common clock. */
static inline int64_t job_step_begin(const struct model *model, const struct job_step *job_step,
                                     uint32_t rank)
{
    uint32_t node = model->rank[rank].node;

    return job_step->step_of[rank].begin_ns +
           (node < model->nodes ? model->node[node].offset_ns : 0);
}

#endif
