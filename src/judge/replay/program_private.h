/* program_private.h - what the files of a program share: its ops and where they are.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_REPLAY_PROGRAM_PRIVATE_H
#define LOCKSTEP_JUDGE_REPLAY_PROGRAM_PRIVATE_H

#include "judge/replay/program.h"
#include "judge/replay/replay.h"

enum op_kind {
    OP_BEGIN,
    OP_HOST,
    OP_END,
    OP_SPAN,
    OP_COMM,
    OP_JOIN
};

struct op_form {
    uint32_t item;
    uint32_t dep[2]; /* places in the form; REPLAY_NONE: none */
    uint32_t join;   /* number among the form's joins, each of which has a line of its own */
    uint8_t line;
    uint8_t kind;
    uint8_t role; /* enum replay_role */
    uint8_t halt; /* enum halt, of the host */
};

/* The ops of all ranks of a class: they differ only in whom they meet. */
struct form {
    uint64_t class;
    struct op_form *op;
    uint32_t ops, room, joins;
    uint32_t ranks; /* of this class */
    uint32_t used;  /* of them that have their place */
    size_t first;   /* op of the first of them */
    uint32_t first_join;
};

/* Where a rank's ops are: ops that are at the same place in ranks of one class lie side by side,
 * which the replay runs several times faster than rank after rank.
 */
struct form_place {
    const struct form *form; /* NULL: the rank is not in this step */
    size_t first, stride, count;
};

struct program {
    const struct model *model;
    uint64_t key, structure; /* of what it was built from; structure: but for what is learnt */
    struct replay *replay;
    void *scratch;
    struct form *form;
    uint32_t forms, form_room;
    size_t ops;
    struct form_place *place; /* by rank */
    uint32_t world;
    int64_t *duration, *typical, *trial, *slack;
    size_t held; /* room of the four above */
    int64_t measured, replayed, ideal;
    bool have_replayed, have_ideal, have_typical, have_trial;
    double fit_share; /* by which replayed and measured may differ */
};

static inline size_t op_at(const struct program *program, uint32_t rank, size_t place)
{
    return program->place[rank].first + place * program->place[rank].stride;
}

int program_build(struct program *program, const struct model *model,
                  const struct job_step *job_step,
                  const struct splitter *splitter); /* program_build.c */
int program_measure(struct program *program, const struct job_step *job_step,
                    const struct splitter *splitter); /* program_measure.c: sets the durations */
/* program_unlike.c: sets what is typical for `member`s, who are of another class than their `peer`s; both are of one class
 * each, and at least one.
 */
void program_unlike_typical(struct program *program, const uint32_t *member, uint32_t count,
                            const uint32_t *peer, uint32_t peers);

#endif
