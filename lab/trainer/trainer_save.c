/* trainer_save.c - the trainer's own checkpoint: when, and from which one it goes on.
 *
 * Each rank writes its shard by itself.  At the start all agree on the newest step of which
 * every rank has a sound shard: each offers its newest, the least of them is the new bound,
 * until all offer the same.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/clean.h"
#include "core/time.h"
#include "lab/trainer/shard.h"
#include "lab/trainer/trainer_private.h"

#define SAVE_KEEP 2
#define SAVE_LIST 256

static struct shard save_shard(const struct trainer *trainer, uint64_t step)
{
    const struct trainer_config *config = trainer->config;

    return (struct shard){ .step = step,
                           .seed = config->seed,
                           .rank = config->rank,
                           .world = config->world,
                           .tp = config->layout.tp,
                           .pp = config->layout.pp,
                           .dp = config->layout.dp,
                           .count = (uint32_t)(2 * trainer->toy.params) };
}

/* The shard to begin with.  One of fewer or more ranks than there were: rank 0's, as replicas hold the same. */
static struct shard trainer_restore_shard(const struct trainer *trainer, uint64_t step)
{
    struct shard shard = save_shard(trainer, step);

    if (trainer->config->generation) {
        shard.rank = 0;
        shard.world = shard.dp = trainer->config->saved_world;
    }
    return shard;
}

/* Our newest sound shard that is not newer than `bound`, read into `value`; *ret 0: none.  A
 * damaged one is named once and taken from the list.  One of another run ends us: going on would
 * in time remove it.
 */
/* NOLINTNEXTLINE(readability-function-size): seven parameters */
static int save_newest(struct trainer *trainer, uint64_t *step, int count, uint64_t bound,
                       float *value, uint64_t *ret, struct err *err)
{
    *ret = 0;
    for (int i = 0; i < count; i++) {
        struct shard want = trainer_restore_shard(trainer, step[i]);
        struct err why = { "" };
        int result;

        if (step[i] == 0 || step[i] > bound)
            continue;
        result = shard_read(trainer->config->checkpoint_dir, &want, value, &why);
        if (result == 0) {
            *ret = step[i];
            return 0;
        }
        if (result == -ESTALE)
            return err_set(err, result, "%s", why.text);
        fprintf(stderr, "rank %u: checkpoint skipped: %s\n", trainer->config->rank, why.text);
        lockstep_note_put(trainer->probe, why.text);
        step[i] = 0;
    }
    return 0;
}

static int save_agree(struct trainer *trainer, float *value, uint64_t *ret, struct err *err)
{
    uint64_t step[SAVE_LIST], bound = UINT64_MAX;
    int count = shard_list(trainer->config->checkpoint_dir, trainer_restore_shard(trainer, 0).rank,
                           step, COUNT(step), err);

    if (count < 0)
        return count;
    for (;;) {
        uint64_t offer, range[2];
        int result = save_newest(trainer, step, count, bound, value, &offer, err);

        range[0] = offer;
        range[1] = ~offer;
        if (result == 0)
            result = trainer_host_reduce(trainer, COMM_WORLD, GROUP_MIN_U64, range, 2, err);
        if (result < 0)
            return result;
        if (range[0] == ~range[1]) {
            *ret = offer;
            return 0;
        }
        bound = range[0];
    }
}

int trainer_restore(struct trainer *trainer, struct err *err)
{
    const struct trainer_config *config = trainer->config;
    struct toy_model *toy = &trainer->toy;
    CLEAN(free_clean) float *value = calloc(2 * toy->params, sizeof(*value));
    char note[64];
    int result;

    if (!value)
        return err_nomem(err);
    if (!config->checkpoint_dir)
        return 0;
    if (mkdir(config->checkpoint_dir, 0700) < 0 && errno != EEXIST)
        return err_set(err, -errno, "%s: %m", config->checkpoint_dir);
    result = save_agree(trainer, value, &trainer->step, err);
    if (result < 0 || trainer->step == 0)
        return result;
    memcpy(toy->param, value, toy->params * sizeof(*value));
    memcpy(toy->momentum, value + toy->params, toy->params * sizeof(*value));
    snprintf(note, sizeof(note), "restored from checkpoint of step %llu",
             (unsigned long long)trainer->step);
    lockstep_note_put(trainer->probe, note);
    if (config->rank == 0)
        printf("%s\n", note);
    return 0;
}

static void save_wait(struct trainer *trainer, int64_t begin_ns)
{
    /* The storage of a real job: a modelled time, unless ours took longer. */
    int64_t taken_ns = MAX(time_mono_ns() - begin_ns, trainer->times.checkpoint);
    struct timespec until =
        time_spec(begin_ns + taken_ns + trainer_fault_checkpoint(trainer, taken_ns));

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

int trainer_save(struct trainer *trainer, struct err *err)
{
    const struct trainer_config *config = trainer->config;
    struct toy_model *toy = &trainer->toy;
    struct shard shard = save_shard(trainer, trainer->step + 1);
    CLEAN(free_clean) float *value = malloc(shard.count * sizeof(*value));
    int64_t begin_ns = time_mono_ns();
    int result;

    if (!value)
        return err_nomem(err);
    lockstep_phase_begin(trainer->probe, LOCKSTEP_PHASE_CHECKPOINT);
    result = trainer_check_replicas(trainer, err);
    memcpy(value, toy->param, toy->params * sizeof(*value));
    memcpy(value + toy->params, toy->momentum, toy->params * sizeof(*value));
    shard.value = value;
    if (result == 0)
        result = shard_write(config->checkpoint_dir, &shard, err);
    if (result == 0)
        result = shard_prune(config->checkpoint_dir, config->rank, shard.step, SAVE_KEEP, err);
    if (result == 0)
        trainer->saved = shard.step;
    save_wait(trainer, begin_ns);
    lockstep_phase_end(trainer->probe, LOCKSTEP_PHASE_CHECKPOINT);
    return result;
}

int trainer_check_replicas(struct trainer *trainer, struct err *err)
{
    uint64_t digest[2], range[2];
    int result;

    if (trainer_fault_differs(trainer))
        return 0;
    toy_digest(&trainer->toy, digest);
    range[0] = digest[0];
    range[1] = ~digest[0];
    result = trainer_host_reduce(trainer, COMM_DP, GROUP_MIN_U64, range, 2, err);
    if (result == 0 && range[0] != ~range[1])
        return err_set(err, -EILSEQ, "the replicas of %s differ after step %llu",
                       trainer->comm[COMM_DP].name, (unsigned long long)trainer->step);
    return result;
}
