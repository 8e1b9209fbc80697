/* restore_agreed.c - all ranks restore the same point.
 *
 * In rounds: each rank names the newest point that it has and that nobody has vetoed, the least of them is tried by all,
 * and it is taken only if every rank has loaded it.  Else it is vetoed, and the next round begins.  A rank that chose alone
 * would go on from another step than the others whenever only its own file is damaged, or its node has other points.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ckpt/engine_private.h"
#include "ckpt/store/point.h"
#include "core/clean.h"

struct vetoes {
    uint64_t *step;
    size_t count, room;
};

static bool agreed_is_vetoed(const struct vetoes *vetoes, uint64_t step)
{
    for (size_t i = 0; i < vetoes->count; i++) {
        if (vetoes->step[i] == step)
            return true;
    }
    return false;
}

static int agreed_least(const struct lockstep_ckpt *ckpt, uint64_t value, uint64_t *ret,
                        struct err *err)
{
    int result = ckpt->settings.agree(ckpt->settings.agree_ctx, value, ret);

    return result < 0 ? err_set(err, result, "the ranks cannot agree on a point: error %d", -result)
                      : 0;
}

/* What this rank names: a step + 1; 0: it has none. */
static uint64_t agreed_candidate(const struct lockstep_ckpt *ckpt, const struct vetoes *vetoes,
                                 bool *ret_refused)
{
    struct points points = { .point = NULL };
    uint64_t found = 0;

    if (points_read(ckpt->dir_fd, POINTS_COMMITS, &points, NULL) < 0)
        return 0; /* a rank that cannot read its points has none to load */
    for (size_t i = 0; !found && i < points.count; i++) {
        const struct point *point = &points.point[i];

        *ret_refused |= point->state == POINT_REFUSED;
        if (point->state == POINT_COMMITTED && !agreed_is_vetoed(vetoes, point->step))
            found = point->step + 1;
    }
    points_fini(&points);
    return found;
}

/* Nothing is left.  All ranks return the same: a rank that has no points may not begin anew if others have some. */
static int agreed_none(const struct lockstep_ckpt *ckpt, const struct restored *restored,
                       struct err *err)
{
    uint64_t none = 0;
    int result = agreed_least(ckpt, !restored->refused, &none, err);

    if (result < 0)
        return result;
    if (none)
        return err_set(err, -ENODATA, "no point can be restored: there is none");
    return err_set(err, -EBADMSG, "no point can be restored by all ranks: %s", restored->why.text);
}

/* 1: all ranks have it; 0: it is vetoed. */
static int agreed_try(struct lockstep_ckpt *ckpt, uint64_t step, struct restored *ret,
                      struct err *err)
{
    struct restored restored = { .step = 0 };
    struct err why = { "" };
    bool good = restore_alone(ckpt, step, &restored, &why) == 0;
    uint64_t all = 0;
    int result = agreed_least(ckpt, good, &all, err);

    if (result < 0)
        return result;
    ret->step = step;
    ret->refused = true;
    if (good)
        err_set(&ret->why, 0, "step %" PRIu64 ": another rank could not restore it", step);
    else
        ret->why = why;
    return all != 0;
}

int restore_agreed(struct lockstep_ckpt *ckpt, struct restored *ret, struct err *err)
{
    struct vetoes vetoes = { .step = NULL };
    int result = 0;

    *ret = (struct restored){ .why = { "another rank has no point that this rank has" } };
    while (result == 0) {
        uint64_t own = agreed_candidate(ckpt, &vetoes, &ret->refused), least = 0;

        ret->refused |= own != 0;
        result = agreed_least(ckpt, own, &least, err);
        if (result == 0 && !least)
            result = agreed_none(ckpt, ret, err);
        else if (result == 0)
            result = agreed_try(ckpt, least - 1, ret, err);
        if (result == 0 && !ARRAY_FIT(vetoes.step, vetoes.room, vetoes.count + 1))
            result = err_nomem(err);
        if (result == 0)
            vetoes.step[vetoes.count++] = least - 1;
    }
    free(vetoes.step);
    return result < 0 ? result : 0;
}
