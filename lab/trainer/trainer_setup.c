/* trainer_setup.c - a rank's place, its neighbours, its memory and the times of its device.
 *
 * Ranks are placed with the tensor index fastest, then data, then pipeline, as large trainers
 * do: rank = (pp * DP + dp) * TP + tp.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "core/time.h"
#include "lab/faults/net.h"
#include "lab/trainer/rendezvous.h"
#include "lab/trainer/trainer_private.h"
#include "lockstep/ckpt.h"

/* Shares of a step, for operations that cost a network's time. */
#define TIME_TP 0.004
#define TIME_DP 0.03
#define TIME_LINK 0.005
#define TIME_WORLD 0.008
#define TIME_OPTIMIZER 0.02
#define TIME_CHECKPOINT 0.25

struct trainer_group { /* a group, by the ranks in it */
    uint32_t *rank;
    uint32_t size, index;
};

static uint32_t trainer_layout_rank_of(const struct trainer_layout *layout, uint32_t tp,
                                       uint32_t pp, uint32_t dp)
{
    return (pp * layout->dp + dp) * layout->tp + tp;
}

static void setup_place(struct trainer *trainer)
{
    const struct trainer_layout *layout = &trainer->config->layout;
    uint32_t rank = trainer->config->rank;

    trainer->place = (struct lockstep_layout){
        .size = sizeof(trainer->place),
        .tp_size = (uint16_t)layout->tp,
        .pp_size = (uint16_t)layout->pp,
        .dp_size = (uint16_t)layout->dp,
        .cp_size = 1,
        .ep_size = 1,
        .tp = (uint16_t)(rank % layout->tp),
        .dp = (uint16_t)(rank / layout->tp % layout->dp),
        .pp = (uint16_t)(rank / layout->tp / layout->dp),
    };
}

/* So that a healthy step takes what was asked for: the pipeline's length in blocks, plus what
 * is not hidden behind compute.
 */
static int setup_times(struct trainer *trainer, struct err *err)
{
    const struct lockstep_layout *place = &trainer->place;
    double step_ns = trainer->config->step_ms * 1e6, turns = trainer->micros + place->pp_size - 1.0;
    struct trainer_times *times = &trainer->times;
    double left, in_turn;

    times->tp = (int64_t)(step_ns * TIME_TP);
    times->dp = (int64_t)(step_ns * TIME_DP);
    times->link = (int64_t)(step_ns * TIME_LINK);
    times->world = (int64_t)(step_ns * TIME_WORLD);
    times->optimizer = (int64_t)(step_ns * TIME_OPTIMIZER);
    times->checkpoint = (int64_t)(step_ns * TIME_CHECKPOINT);
    left = step_ns * (1 - TIME_WORLD - TIME_OPTIMIZER - (place->dp_size > 1 ? TIME_DP : 0) -
                      4 * (place->pp_size - 1) * TIME_LINK);
    in_turn = left / turns - (place->tp_size > 1 ? 2.0 * trainer->blocks * (double)times->tp : 0);
    times->block = (int64_t)(in_turn / (3.0 * trainer->blocks));
    if (times->block < 10000)
        return err_set(err, -EINVAL, "a step of %g ms is too short for this layout",
                       trainer->config->step_ms);
    return 0;
}

static int setup_memory(struct trainer *trainer, struct err *err)
{
    const struct lockstep_layout *place = &trainer->place;
    struct toy_config toy = { .seed = trainer->config->seed,
                              .tp = place->tp_size,
                              .tp_index = place->tp,
                              .blocks = trainer->blocks,
                              .first_block = place->pp * trainer->blocks,
                              .micros = trainer->micros };
    size_t cells = trainer->micros * TOY_CELLS;

    trainer->work_room = trainer->micros * (4 * trainer->blocks + 4) + TRAINER_BUCKETS + 2;
    if (trainer->config->stamps) /* two around each wait, two of each phase */
        trainer->work_room += trainer->micros * (4 * trainer->blocks + 4) + 16;
    trainer->launches = 2 * trainer->micros * trainer->blocks;
    trainer->work = calloc(trainer->work_room, sizeof(*trainer->work));
    trainer->load = calloc(trainer->micros, sizeof(*trainer->load));
    trainer->next_input = calloc(cells, sizeof(float));
    trainer->next_target = calloc(cells, sizeof(float));
    if (!trainer->work || !trainer->load || !trainer->next_input || !trainer->next_target ||
        toy_init(&trainer->toy, &toy) < 0)
        return err_set(err, -ENOMEM, "no memory for %u micro-batches", trainer->micros);
    trainer->next_step = UINT64_MAX;
    return 0;
}

/* The members of one of our communicators, in the order of their ranks. */
static int setup_members(const struct trainer *trainer, enum trainer_comm comm,
                         struct trainer_group *ret)
{
    const struct trainer_layout *layout = &trainer->config->layout;
    const struct lockstep_layout *place = &trainer->place;
    uint32_t size = comm == COMM_WORLD ? trainer->config->world
                    : comm == COMM_DP  ? layout->dp
                                       : layout->tp;

    *ret = (struct trainer_group){ .rank = calloc(size, sizeof(*ret->rank)), .size = size };
    if (!ret->rank)
        return -ENOMEM;
    for (uint32_t i = 0; i < size; i++) {
        ret->rank[i] = comm == COMM_WORLD ? i
                       : comm == COMM_DP  ? trainer_layout_rank_of(layout, place->tp, place->pp, i)
                                          : trainer_layout_rank_of(layout, i, place->pp, place->dp);
        if (ret->rank[i] == trainer->config->rank)
            ret->index = i;
    }
    return 0;
}

static uint64_t setup_comm_id(const struct trainer *trainer, const char *name)
{
    uint64_t start =
        trainer->config->attempt + 1ull + ((uint64_t)trainer->config->generation << 32);
    uint64_t seed = hash64_u64(trainer->config->seed, start);

    return hash64(seed, name, strlen(name));
}

/* "dp0" is the group of (pp 0, tp 0), "dp1" of the next, and so on. */
static void setup_comm_name(const struct trainer *trainer, enum trainer_comm comm, char *out,
                            size_t room)
{
    const struct lockstep_layout *place = &trainer->place;

    if (comm == COMM_WORLD)
        snprintf(out, room, "world");
    else if (comm == COMM_DP)
        snprintf(out, room, "dp%u", place->pp * (unsigned)place->tp_size + place->tp);
    else
        snprintf(out, room, "tp%u", place->pp * (unsigned)place->dp_size + place->dp);
}

static int setup_comm(struct trainer *trainer, struct rendezvous *rendezvous,
                      enum trainer_comm comm, struct err *err)
{
    static const enum lockstep_comm_kind kind[] = { LOCKSTEP_COMM_WORLD, LOCKSTEP_COMM_DP,
                                                    LOCKSTEP_COMM_TP };
    struct group *group = &trainer->comm[comm];
    struct trainer_group member;
    char name[GROUP_NAME];
    int result = setup_members(trainer, comm, &member);

    setup_comm_name(trainer, comm, name, sizeof(name));
    if (result == 0)
        result = group_init(group, name, setup_comm_id(trainer, name), member.rank, member.size,
                            member.index);
    free(member.rank);
    if (result < 0)
        return err_set(err, result, "no memory for %s", name);
    group->wait.timeout_ms = trainer->config->timeout_ms;
    group->wait.cancel_fd = device_cancel_fd(trainer->device);
    for (uint32_t i = 0; i < group->size && result == 0; i++)
        if (group_talks(group->size, group->index, i))
            result = rendezvous_connect(rendezvous, group->rank[i], group->id, &group->fd[i], err);
    if (result < 0)
        return err_wrap(err, result, "%s", name);
    trainer->probe_comm[comm] =
        lockstep_comm_add(trainer->probe, group->id, group->size, group->index, kind[comm], name);
    return 0;
}

/* NOLINTNEXTLINE(readability-function-size): seven parameters */
static int setup_link(struct trainer *trainer, struct rendezvous *rendezvous,
                      struct trainer_link *link, uint32_t stage, enum trainer_way way,
                      const char *name, struct err *err)
{
    const struct lockstep_layout *place = &trainer->place;

    snprintf(link->name, sizeof(link->name), "%s", name);
    link->stage = stage;
    link->rank = trainer_layout_rank_of(&trainer->config->layout, place->tp, stage, place->dp);
    return rendezvous_connect(rendezvous, link->rank, hash64_u64(setup_comm_id(trainer, name), way),
                              &link->fd, err);
}

/* Activations go up the stages, gradients come down. */
static int setup_links(struct trainer *trainer, struct rendezvous *rendezvous, struct err *err)
{
    const struct lockstep_layout *place = &trainer->place;
    char name[GROUP_NAME];
    uint64_t id;
    int result = 0;

    snprintf(name, sizeof(name), "pp%u", place->dp * (unsigned)place->tp_size + place->tp);
    id = setup_comm_id(trainer, name);
    if (place->pp_size > 1)
        trainer->probe_pp = lockstep_comm_add(trainer->probe, id, place->pp_size, place->pp,
                                              LOCKSTEP_COMM_PP, name);
    if (place->pp > 0) {
        result = setup_link(trainer, rendezvous, &trainer->in[WAY_UP], place->pp - 1u, WAY_UP, name,
                            err);
        if (result == 0)
            result = setup_link(trainer, rendezvous, &trainer->out[WAY_DOWN], place->pp - 1u,
                                WAY_DOWN, name, err);
    }
    if (result == 0 && place->pp + 1 < place->pp_size) {
        result = setup_link(trainer, rendezvous, &trainer->out[WAY_UP], place->pp + 1u, WAY_UP,
                            name, err);
        if (result == 0)
            result = setup_link(trainer, rendezvous, &trainer->in[WAY_DOWN], place->pp + 1u,
                                WAY_DOWN, name, err);
    }
    return result < 0 ? err_wrap(err, result, "%s", name) : 0;
}

static int setup_network(struct trainer *trainer, struct err *err)
{
    const struct trainer_config *config = trainer->config;
    CLEAN(rendezvous_clean) struct rendezvous *rendezvous = NULL;
    struct rendezvous_config meeting = { .rank = config->rank,
                                         .world = config->world,
                                         .addr = config->net_dir ? NET_MASTER : config->master_addr,
                                         .port = config->master_port,
                                         .job = setup_comm_id(trainer, config->master_port),
                                         .timeout_ms = config->timeout_ms };
    int result = rendezvous_open(&meeting, &rendezvous, err);

    if (result < 0)
        return err_wrap(err, result, "rendezvous");
    for (int comm = 0; comm < COMM_COUNT && result == 0; comm++)
        result = setup_comm(trainer, rendezvous, (enum trainer_comm)comm, err);
    if (result == 0)
        result = setup_links(trainer, rendezvous, err);
    return result;
}

int trainer_setup(struct trainer *trainer, struct err *err)
{
    const struct trainer_config *config = trainer->config;
    uint32_t pp = config->layout.pp;
    int result;

    setup_place(trainer);
    lockstep_layout_set(trainer->probe, &trainer->place);
    for (int i = 0; i < WAY_COUNT; i++)
        trainer->in[i].fd = trainer->out[i].fd = -1;
    trainer->probe_pp = -1;
    trainer->micros = config->micro_batches ? config->micro_batches : pp > 1 ? 2 * pp : 1;
    trainer->blocks = (TRAINER_BLOCKS + pp - 1) / pp;
    trainer->buckets = MIN(trainer->blocks, (uint32_t)TRAINER_BUCKETS);
    trainer->work_unit_ns = host_work_calibrate();
    result = setup_times(trainer, err);
    if (result == 0)
        result = setup_memory(trainer, err);
    if (result == 0)
        result = device_create(trainer, &trainer->device, err);
    if (result < 0)
        return result;
    lockstep_phase_begin(trainer->probe, LOCKSTEP_PHASE_COMM_INIT);
    result = setup_network(trainer, err);
    lockstep_phase_end(trainer->probe, LOCKSTEP_PHASE_COMM_INIT);
    return result;
}

void trainer_teardown(struct trainer *trainer)
{
    device_destroy(trainer->device); /* first: its threads use all the rest */
    for (int i = 0; i < COMM_COUNT; i++)
        group_fini(&trainer->comm[i]);
    for (int i = 0; i < WAY_COUNT; i++) {
        fd_clean(&trainer->in[i].fd);
        fd_clean(&trainer->out[i].fd);
    }
    lockstep_ckpt_close(trainer->ckpt);
    toy_free(&trainer->toy);
    free(trainer->work);
    free(trainer->load);
    free(trainer->next_input);
    free(trainer->next_target);
    fd_clean(&trainer->data_fd);
    truth_close(trainer->truth);
}
