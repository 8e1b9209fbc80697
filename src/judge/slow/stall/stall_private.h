/* stall_private.h - what the files of the stall judge share.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_SLOW_STALL_PRIVATE_H
#define LOCKSTEP_JUDGE_SLOW_STALL_PRIVATE_H

#include "judge/detect/detect.h"
#include "judge/slow/signals.h"
#include "judge/slow/stall/stall.h"
#include "lockstep/probe.h"
#include "wire/save_note.h"

#define STALL_STEPS HISTORY_STEPS

struct stall_level { /* how long the ranks of a step waited for their batches */
    uint64_t step;
    double ms;        /* the median rank of the peers that waited longest */
    double period_ms; /* of the step */
};

struct stall_input {
    struct stall_level level[STALL_STEPS]; /* ring */
    uint64_t count;                        /* ever put */
    struct detect_past past;               /* of these levels */
    double newest_ms;                      /* the largest of the newest step */
    int64_t *level_ns; /* by rank: what its median peer waited in the newest step */
    uint32_t world;    /* room of that */
};

/* A long wait needs few steps, a short one many. */
struct stall_rule {
    uint32_t looks; /* history_looks() */
    double shares;  /* a multiple of the threshold */
};
#define STALL_INPUT_RULES 3
extern const struct stall_rule stall_input_rules[STALL_INPUT_RULES];
uint32_t stall_steps(const struct judge_state *judge, const struct stall_rule *rule);

#define STALL_USUAL 8 /* pauses of a kind that are remembered */

enum stall_kind {
    PAUSE_CHECKPOINT,
    PAUSE_EVAL,
    PAUSE_INPUT,
    STALL_PAUSES
};

struct stall_event {
    uint64_t step;
    int64_t end_ns; /* of the step, common clock */
    double ms;
};

/* Of one rank or of several: how often they were seen in a phase, and waiting for storage in it. */
struct stall_files {
    float looks, waits;
    float
        most; /* waits of one of several ranks: an agent samples all of its ranks at the same moment */
};

struct stall_pause {                       /* of one kind */
    struct stall_event event[STALL_USUAL]; /* ring: all of them */
    uint64_t count;
    double usual_ms[STALL_USUAL]; /* ring: those that were not too long */
    uint32_t usuals;
    uint32_t slow;              /* so many in a row were */
    uint64_t slow_since, every; /* steps between the last two */
    bool hot;                   /* the last one was a stall; its verdict: */
    char id[20];
    struct stall_files *seen; /* by rank, since the last one; NULL: nobody was */
    uint32_t seen_room;
};

struct write_point { /* a checkpoint, as the notes of its ranks tell it */
    uint64_t step, saved_in;
    uint32_t ranks, slowest;
    uint64_t bytes;          /* of the slowest; */
    double most_s, median_s; /* what it took to write, and the median of the others */
    uint64_t skipped;        /* saves of all ranks, since they began */
    char disk[SAVE_DISK];    /* of the slowest */
};

struct stall_writes {
    struct write_point point,
        done;        /* the one whose notes come, and the newest that all ranks noted */
    double *seconds; /* by rank, of `point` */
    uint32_t room;
    bool known, reported; /* `done` is set; an open verdict has it as evidence */
    uint32_t skips;       /* points in a row before which saves were skipped */
    uint64_t newly_skipped;
    char verdict[20]; /* on skipped saves; "": none */
};

struct stall_birth { /* of one rank, before its first step: what it was seen doing, by phase */
    int64_t beat_ns; /* of its newest beat, on its node's clock; 0: none in this attempt */
    float seconds[LOCKSTEP_PHASE_COUNT];
    float storage; /* of these, waiting for a file system or a disk */
};

struct stall {
    struct stall_input input;
    struct stall_birth *birth; /* by rank; NULL: no beat came before the first step */
    uint32_t births;
    struct stall_files *files; /* by rank: with its batches, fading; NULL: nobody was seen so */
    uint32_t files_room;
    struct stall_pause pause[STALL_PAUSES];
    struct stall_writes writes;
    bool started;         /* the attempt's first step was seen */
    double start_seconds; /* until then, of the newest attempt that came so far; 0: none did */
};

/* Over the last n steps: the median rank's median of a part. */
double stall_typical_ms(const struct judge_state *judge, uint32_t steps, split_part *part);
/* Room for all ranks, zeroed where new; false: no memory. */
bool stall_files_room(struct stall_files **files, uint32_t *room, uint32_t world);
bool stall_waits(const struct judge_state *judge,
                 const struct stall_files *seen); /* in most looks, and one rank more than once */
/* Seen to wait for a file system or a disk in most looks at its input of late; of all ranks: MODEL_NONE. */
bool stall_waits_for_storage(const struct judge_state *judge, uint32_t rank,
                             struct stall_files *seen);
void stall_input_step(struct judge_state *judge);     /* stall_input.c */
int64_t stall_faults(const struct rank_split *split); /* in millions, as parts are */
/* What its batches come late from; `rank` MODEL_NONE: of all. */
unsigned stall_input_layer(const struct judge_state *judge, struct verdict *draft, uint32_t rank,
                           double faults);
void stall_layer_settle(const struct judge_state *judge, struct tracked_verdict *tracked,
                        uint32_t rank);
void stall_ranks_step(struct judge_state *judge); /* stall_input_rank.c */
void stall_pause_step(struct judge_state *judge); /* stall_pause.c */
void stall_pause_beat(struct judge_state *judge, const struct fact_beat *beat);
/* stall_write.c: an open verdict on checkpoints learns which rank and disk was slow. */
void stall_write_renew(const struct judge_state *judge, struct tracked_verdict *tracked);
void stall_write_step(struct judge_state *judge);
void stall_start_step(struct judge_state *judge); /* stall_start.c */
void stall_start_beat(struct judge_state *judge, const struct fact_beat *beat);
void stall_start_attempt(struct stall *stall);
void stall_input_fini(struct stall_input *input);

#endif
