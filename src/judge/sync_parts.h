/* sync_parts.h - what the files of the sync judge share. */
#ifndef LOCKSTEP_JUDGE_SYNC_PARTS_H
#define LOCKSTEP_JUDGE_SYNC_PARTS_H

#include "judge/sync.h"

#define SYNC_STEPS 16

/* Members of one communicator, or the two of a pair in one: what data goes over together. */
struct sync_link {
    uint32_t comm;        /* slot in the model */
    uint32_t from, to;    /* indices of a pair; MODEL_NONE: collectives */
    uint64_t bytes;       /* in a step */
    uint64_t step;        /* newest that it was in */
    uint32_t count;       /* steps since its bytes last changed */
    double base_ms;       /* typical of the steps before anything went wrong; -1: not known yet */
    float ms[SYNC_STEPS]; /* transfer in a step: ring by count */
    double sum_ms;        /* of the newest step, and its bytes: */
    uint64_t sum_bytes;
    bool slow, wavers; /* now; wavers: it comes and goes */
};

struct sync {
    struct sync_link *link;
    uint32_t links, room;
    struct map by_key;
    struct map past;              /* of attempts before: by name and bytes, what was typical, ns */
    uint64_t slow_key;            /* of the links that were slow in the step before */
    char id[20];                  /* of the open verdict */
    uint32_t settles, settles_on; /* so often in a row one node was all that fits: this one */
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
    return link->step == step && link->base_ms >= 0;
}

double sync_link_ms(const struct sync_link *link, uint32_t steps); /* median over the last steps */
/* sync_where.c */
int sync_where(const struct court *court, struct sync_place *ret);
void sync_draft(struct court *court, const struct sync_place *place, double cost_ms,
                struct verdict *draft);

#endif
