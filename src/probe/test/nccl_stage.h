/* nccl_stage.h - a rank with an open ring and one communicator, and what was written into its ring.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_PROBE_TEST_NCCL_STAGE_H
#define LOCKSTEP_PROBE_TEST_NCCL_STAGE_H

#include "probe/test/nccl_play.h"
#include "probe/test/scene.h"

#define STAGE_RANK 1u /* of the communicator, and of the job */
#define STAGE_RANKS 4u
#define STAGE_ROOM 16384u

struct stage {
    struct lockstep_probe *probe;
    struct ring_reader *reader;
    void *context;
    struct ring_event *event; /* all that was told so far */
    size_t count;
    uint64_t lost;
};

static inline int stage_environment(void **state)
{
    static const char *const names[] = {
        "RANK",     "WORLD_SIZE",           "SLURM_PROCID",         "SLURM_NTASKS",  "PMI_RANK",
        "PMI_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "LOCKSTEP_NCCL",
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unsetenv(names[i]);
    play_mask = PLAY_UNTOUCHED;
    if (scene_setup(state) < 0)
        return -1;
    setenv("LOCKSTEP_RING_RECORDS", "8192", 1);
    return 0;
}

#define STAGE_TEST(function)                                                                       \
    cmocka_unit_test_setup_teardown(function, stage_environment, scene_teardown)

static inline struct stage stage_open(void *const *state)
{
    struct stage stage = { 0 };

    assert_int_equal(lockstep_probe_open(STAGE_RANK, STAGE_RANKS, &stage.probe, NULL, 0), 0);
    stage.reader = scene_read(*state, STAGE_RANK, 0);
    stage.context = play_init(77, "dp", STAGE_RANKS, STAGE_RANK);
    assert_non_null(stage.context);
    assert_ptr_not_equal(stage.context, &play_mask);
    stage.event = calloc(STAGE_ROOM, sizeof(*stage.event));
    assert_non_null(stage.event);
    return stage;
}

static inline void stage_close(struct stage *stage)
{
    assert_int_equal(play_finalize(stage->context), 0);
    ring_reader_close(stage->reader);
    lockstep_probe_close(stage->probe);
    free(stage->event);
}

/* How many of this kind there are now. */
static inline size_t stage_count(struct stage *stage, uint8_t kind)
{
    size_t count = 0;

    stage->count += scene_drain(stage->reader, stage->event + stage->count,
                                STAGE_ROOM - stage->count, &stage->lost);
    for (size_t i = 0; i < stage->count; i++)
        count += stage->event[i].kind == kind;
    return count;
}

/* The one of this kind and number. */
static inline const struct ring_event *stage_find(struct stage *stage, uint8_t kind, uint64_t key)
{
    const struct ring_event *found = NULL;

    stage_count(stage, kind);
    for (size_t i = 0; i < stage->count; i++) {
        if (stage->event[i].kind != kind || stage->event[i].a != key)
            continue;
        assert_null(found); /* once and no more */
        found = &stage->event[i];
    }
    assert_non_null(found);
    return found;
}

/* What a communicator's counts must be. */
static inline void stage_counts(struct stage *stage, uint64_t enqueued, uint64_t started,
                                uint64_t ended)
{
    assert_int_equal(stage_count(stage, RING_COLL_ENQUEUE), enqueued);
    assert_int_equal(stage_count(stage, RING_COLL_START), started);
    assert_int_equal(stage_count(stage, RING_COLL_END), ended);
}

/* One launch by itself. */
static inline void *stage_launch(const struct stage *stage, uint8_t channels)
{
    void *group = play_group(stage->context);
    void *task = play_coll(stage->context, group, play_all_reduce(1024, channels));

    play_stop(task);
    play_stop(group);
    return task;
}

#endif
