/* trainer.c - from the first connection to the last step.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/trainer/trainer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "lab/faults/net.h"
#include "lab/trainer/trainer_private.h"

#define PRINT_EVERY_NS NS_PER_S
#define TRUTH_GENERATION                                                                           \
    1000 /* attempts are fewer: a new worker leaves the words of the one before */

static int trainer_layout_field(struct trainer_layout *layout, const char *pair, struct err *err)
{
    const char *equals = strchr(pair, '=');
    size_t size = equals ? (size_t)(equals - pair) : 0;
    uint32_t *place = size != 2                    ? NULL
                      : memcmp(pair, "tp", 2) == 0 ? &layout->tp
                      : memcmp(pair, "pp", 2) == 0 ? &layout->pp
                      : memcmp(pair, "dp", 2) == 0 ? &layout->dp
                                                   : NULL;
    char *end;
    unsigned long value;

    if (!place)
        return err_set(err, -EINVAL, "layout: '%s' is not tp=N, pp=N or dp=N", pair);
    if (*place)
        return err_set(err, -EINVAL, "layout: %.2s is given twice", pair);
    value = equals[1] >= '0' && equals[1] <= '9' ? strtoul(equals + 1, &end, 10) : 0;
    if (value < 1 || value > 65535 || *end != '\0')
        return err_set(err, -EINVAL, "layout: %s: expected a size of 1 to 65535", pair);
    *place = (uint32_t)value;
    return 0;
}

int trainer_layout_parse(const char *text, uint32_t world, struct trainer_layout *ret,
                         struct err *err)
{
    struct trainer_layout layout = { 0 };
    CLEAN(free_clean) char *copy = strdup(text ? text : "");
    char *rest = copy, *pair;
    uint64_t product;

    if (!copy)
        return err_nomem(err);
    while (copy[0] && (pair = strsep(&rest, ","))) {
        int result = trainer_layout_field(&layout, pair, err);

        if (result < 0)
            return result;
    }
    layout.tp = MAX(layout.tp, 1u);
    layout.pp = MAX(layout.pp, 1u);
    if (layout.dp == 0) /* what is left over */
        layout.dp = MAX(world / MAX(layout.tp * layout.pp, 1u), 1u);
    product = (uint64_t)layout.tp * layout.pp * layout.dp;
    if (product != world)
        return err_set(err, -EINVAL, "layout: tp=%u,pp=%u,dp=%u needs %llu ranks, there are %u",
                       layout.tp, layout.pp, layout.dp, (unsigned long long)product, world);
    *ret = layout;
    return 0;
}

static void trainer_print(struct trainer *trainer, int64_t begin_ns, bool last)
{
    int64_t now = time_mono_ns();

    if (trainer->config->rank != 0 || (!last && now - trainer->printed_ns < PRINT_EVERY_NS))
        return;
    trainer->printed_ns = now;
    printf("step %" PRIu64 " loss %.6f grad norm %.4f time %.1f ms\n", trainer->step,
           trainer->sum[SUM_LOSS], trainer->sum[SUM_NORM], (double)(now - begin_ns) / 1e6);
    fflush(stdout);
}

static bool trainer_save_is_due(const struct trainer *trainer)
{
    const struct trainer_config *config = trainer->config;

    if (!config->checkpoint_dir)
        return false;
    return trainer->sum[SUM_SAVE] > 0 || (config->continues && trainer->sum[SUM_STOP] > 0) ||
           (config->checkpoint_every && (trainer->step + 1) % config->checkpoint_every == 0);
}

static int trainer_steps(struct trainer *trainer, struct err *err)
{
    int result = 0;

    while (result == 0 && trainer->step < trainer->config->steps) {
        int64_t begin_ns = time_mono_ns();
        bool stop;

        result = trainer_step(trainer, err);
        if (result < 0)
            return result;
        stop = trainer->sum[SUM_STOP] > 0;
        trainer_print(trainer, begin_ns, stop || trainer->step + 1 == trainer->config->steps);
        if (trainer_save_is_due(trainer))
            result = trainer_save(trainer, err);
        if (result == 0 && trainer->request.id != 0)
            lockstep_request_answer(trainer->probe, &trainer->request, LOCKSTEP_ANSWER_DONE);
        trainer_save_report(trainer);
        trainer_stuck_pause(trainer, FAULT_EVAL);
        trainer->step++;
        if (stop) {
            trainer->stopped = trainer->config->continues && trainer->step < trainer->config->steps;
            break;
        }
    }
    return result;
}

static int trainer_finish(struct trainer *trainer, struct err *err)
{
    uint64_t digest[2];
    int result = trainer_check_replicas(trainer, err);

    if (result < 0)
        return result;
    toy_digest(&trainer->toy, digest);
    if (trainer->config->rank == 0)
        printf("done after %" PRIu64 " steps: loss %.9g, digest %016" PRIx64 "\n", trainer->step,
               trainer->sum[SUM_LOSS], digest[0]);
    return 0;
}

static int trainer_begin(struct trainer *trainer, struct err *err)
{
    const struct trainer_config *config = trainer->config;
    int result = config->plan ? plan_read(config->plan, &trainer->plan, err) : 0;

    if (result == 0 && config->net_dir)
        result =
            net_enter(config->net_dir,
                      fault_node_of_rank(config->rank, config->world, trainer->plan.nodes), err);
    if (result == 0)
        result = truth_open(&trainer->plan, config->rank,
                            config->attempt + TRUTH_GENERATION * config->generation,
                            &trainer->truth, err);
    if (result == 0)
        trainer_stuck_start(trainer, LOCKSTEP_PHASE_INIT);
    if (result == 0)
        result = trainer_setup(trainer, err);
    if (result == 0) {
        lockstep_phase_begin(trainer->probe, LOCKSTEP_PHASE_DATA);
        trainer_stuck_start(trainer, LOCKSTEP_PHASE_DATA);
        result = trainer_data_open(trainer, err);
        lockstep_phase_end(trainer->probe, LOCKSTEP_PHASE_DATA);
    }
    if (result == 0) {
        lockstep_phase_begin(trainer->probe, LOCKSTEP_PHASE_CHECKPOINT);
        trainer_stuck_start(trainer, LOCKSTEP_PHASE_CHECKPOINT);
        result = trainer_restore(trainer, err);
        lockstep_phase_end(trainer->probe, LOCKSTEP_PHASE_CHECKPOINT);
    }
    return result;
}

/* Without a ring the rank trains all the same: the probe then does nothing. */
static void trainer_open_ring(struct trainer *trainer)
{
    const char *quiet = getenv("LOCKSTEP_QUIET");
    uint32_t rank = trainer->config->rank;
    char why[256];

    if (lockstep_probe_open(rank, trainer->config->world, &trainer->probe, why, sizeof(why)) < 0 &&
        !(quiet && strcmp(quiet, "1") == 0))
        fprintf(stderr, "lockstep: rank %u is not observed: %s; training continues\n", rank, why);
    trainer_stamps_begin(trainer);
}

int trainer_run(const struct trainer_config *config, struct err *err)
{
    CLEAN(free_clean) struct trainer *trainer = calloc(1, sizeof(*trainer));
    int result;

    if (!trainer)
        return err_nomem(err);
    trainer->config = config;
    trainer->data_fd = -1;
    trainer_open_ring(trainer);
    lockstep_phase_begin(trainer->probe, LOCKSTEP_PHASE_INIT);
    result = trainer_begin(trainer, err);
    lockstep_phase_end(trainer->probe, LOCKSTEP_PHASE_INIT);
    if (result == 0)
        result = trainer_steps(trainer, err);
    if (result == 0 && !trainer->stopped)
        result = trainer_finish(trainer, err);
    if (result == 0)
        trainer_save_end(trainer);
    trainer_teardown(trainer);
    if (result == 0) /* after an error the ring stays open, as it was */
        lockstep_probe_close(trainer->probe);
    return result == 0 ? trainer->stopped : result;
}
