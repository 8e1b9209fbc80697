/* sync_private.h - what the files of the sync judge share.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_SLOW_SYNC_PRIVATE_H
#define LOCKSTEP_JUDGE_SLOW_SYNC_PRIVATE_H

#include "judge/slow/sync.h"

#define SYNC_PAST_MAX (1u << 20) /* links of former attempts: names may be others in each */

/* Members of one communicator, or the two of a pair in one: what data goes over together. */
struct sync_link {
    uint32_t comm;           /* slot in the model */
    uint32_t from, to;       /* indices of a pair; MODEL_NONE: collectives */
    uint64_t bytes;          /* in a step */
    uint64_t step;           /* newest that it was in */
    uint32_t count;          /* steps since its bytes last changed */
    struct detect_past past; /* transfer in a step, ms */
    double sum_ms;           /* of the newest step, and its bytes: */
    uint64_t sum_bytes;
    bool slow, wavers; /* now; wavers: it comes and goes */
};

/* How the communication library moves something. */
struct sync_way {
    uint32_t channels; /* 0: not said */
    char text[FACT_METHOD];
    uint32_t steps; /* in which the transfer was as it should be with it */
    uint64_t step;  /* the newest of them */
    double ms;      /* the least that its link took in one of them ... */
    uint64_t bytes; /* ... for so many */
    bool past;      /* none of them is of this attempt */
};
#define SYNC_WAYS 4
struct sync_ways {
    struct sync_way way[SYNC_WAYS];
    uint32_t count;
};

struct sync_move {  /* collectives of one op and size of a communicator */
    uint32_t comm;  /* slot in the model */
    uint8_t op;     /* enum lockstep_op */
    uint64_t bytes; /* rounded as in shapes */
    struct sync_way now;
    uint64_t step;           /* from this one on */
    uint32_t next;           /* of the same communicator; MODEL_NONE */
    bool known, past_loaded; /* recalled: what was known of its like in attempts before */
    bool fresh;              /* not yet seen in enough steps that were as they should be */
    struct sync_ways sound;
};

struct sync_otherwise { /* what moves otherwise than it did, or than its peers do */
    const struct sync_move *move;
    const struct sync_way *way; /* what it is held against */
    uint32_t peers;             /* it is that of so many peers; 0: its own */
    bool fewer;                 /* channels; else another algorithm or protocol */
    uint32_t slow, changed;     /* communicators that are slow, and those of them that changed */
};

struct sync {
    struct detect_rule rule; /* of the newest step; its noise as a share of what a link takes */
    struct sync_link *link;
    uint32_t links, room;
    struct map by_key;
    struct map past;              /* of attempts before: by name and bytes, struct sync_usual */
    uint64_t slow_key;            /* of the links that were slow in the step before */
    char id[20];                  /* of the open verdict */
    uint32_t settles, settles_on; /* so often in a row one node was all that fits: this one */
    struct sync_move *move;       /* sync_method.c's, as all below */
    uint32_t moves, move_room;
    struct map move_by_key, move_by_comm; /* by_comm: the newest, then by `next` */
    struct map past_ways; /* of attempts before: by name, op and size, its place here: */
    struct sync_ways *past_way;
    uint32_t pasts, past_room;
};

struct sync_place {                /* where the slow links are */
    uint32_t slow, between_nodes;  /* links; of them, those between nodes */
    uint32_t peers, peers_between; /* not slow, of the same kinds and sizes */
    uint32_t node;                 /* the one that all slow and no sound links touch; MODEL_NONE */
    uint32_t comm;                 /* slot, when all slow links are of one; MODEL_NONE */
    const struct sync_link *worst;
};

static inline bool sync_link_is_active(const struct sync_link *link, uint64_t step)
{
    return link->step == step && detect_past_known(&link->past);
}

/* NULL: there is none */
const struct sync_link *sync_link_find(const struct sync *sync, uint32_t comm, uint32_t from,
                                       uint32_t to);
double sync_link_ms(const struct sync_link *link, uint32_t looks); /* median of the last ones */
/* sync_where.c */
int sync_where(const struct judge_state *judge, struct sync_place *ret);
void sync_draft(struct judge_state *judge, const struct sync_place *place, double cost_ms,
                struct verdict *draft);
/* sync_method.c */
void sync_method_attempt(struct judge_state *judge);
void sync_method_fini(struct sync *sync);
void sync_method_step(struct judge_state *judge); /* the newest has been measured */
/* Is this slow link moved otherwise, and most of the slow ones with it? */
bool sync_method_find(const struct judge_state *judge, const struct sync_link *worst,
                      struct sync_otherwise *ret);
void sync_method_cause(const struct sync_otherwise *found, const char *method, char *out,
                       size_t room);
void sync_method_why(const struct judge_state *judge, const struct sync_otherwise *found,
                     struct verdict *draft);

#endif
