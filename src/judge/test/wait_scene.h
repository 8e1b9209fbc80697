/* wait_scene.h - a picture of who waits for whom, for the tests of wait.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_TEST_WAIT_SCENE_H
#define LOCKSTEP_JUDGE_TEST_WAIT_SCENE_H

#include "judge/stuck/wait.h"
#include "lockstep/probe.h"

#define S INT64_C(1000000000)
#define RANKS 32
#define WORLD_ID 1
#define PAIR_ID(n) (100 + (uint64_t)(n)) /* ranks 2n and 2n+1 */
#define LINE_ID 50                       /* all ranks, for messages */

struct scene {
    struct model model;
    struct wait_rank rank[RANKS];
    struct beat_op op[RANKS][8];
    struct beat_channel channel[RANKS][8];
    struct wait_finding found[2];
    int count;
};

void join(struct model *model, uint64_t id, uint32_t rank, uint32_t index, uint32_t size);
/* All seen, all moving, nobody in anything. */
void scene_open(struct scene *scene, uint32_t world);
void scene_close(struct scene *scene);
struct beat_channel *channel(struct scene *scene, uint32_t rank, uint64_t comm, uint8_t what,
                             uint32_t peer, uint64_t enqueued, uint64_t started, uint64_t ended);
/* In the collective `key` for so many seconds. */
struct beat_op *in(struct scene *scene, uint32_t rank, uint64_t comm, uint64_t key, int64_t age_s);
/* Has done `count` collectives and is in none. */
void out(struct scene *scene, uint32_t rank, uint64_t comm, uint64_t count);
struct beat_op *message(struct scene *scene, uint32_t rank, uint8_t what, uint32_t peer,
                        uint64_t ordinal, int64_t age_s);
const struct wait_finding *look(struct scene *scene);
void names_only(struct scene *scene, uint32_t culprit, enum wait_cause cause);
void all_but(struct scene *scene, uint32_t world, uint32_t absent, int64_t age_s);

#endif
