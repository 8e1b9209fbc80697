/* retain.c - removes old points, and what crashes left.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/store/retain.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "core/clean.h"

struct retain_decision {
    bool goes;
    char why[128];
};

/* `good`: committed points that were read back and are newer than this one. */
static struct retain_decision retain_decide(const struct retain *retain, const struct point *point,
                                            uint32_t good)
{
    struct retain_decision decision = { .goes = false };
    bool spared = retain->every && point->step % retain->every == 0;

    if (point->state == POINT_COMMITTED && spared)
        snprintf(decision.why, sizeof(decision.why), "a multiple of %" PRIu64, retain->every);
    else if (good >= MAX(retain->keep, 1)) {
        decision.goes = true;
        snprintf(decision.why, sizeof(decision.why), "%" PRIu32 " newer point%s verified", good,
                 good == 1 ? " is" : "s are");
    } else if (point->state == POINT_COMMITTED && !good)
        snprintf(decision.why, sizeof(decision.why), "no newer point is verified");
    else if (point->state == POINT_COMMITTED)
        snprintf(decision.why, sizeof(decision.why), "only %" PRIu32 " newer point%s verified",
                 good, good == 1 ? " is" : "s are");
    else
        snprintf(decision.why, sizeof(decision.why), "%s", point->why);
    return decision;
}

int retain_points(int dir_fd, const struct retain *retain, struct err *err)
{
    struct points points = { .point = NULL };
    uint64_t newest = 0;
    uint32_t good = 0;
    int result = points_read(dir_fd, POINTS_MARKS, &points, err), count = 0;

    if (result == 0 && !retain->dry_run)
        points_remove_gone(dir_fd);
    for (size_t i = 0; i < points.count; i++) {
        const struct point *point = &points.point[i];
        struct retain_decision decision = retain_decide(retain, point, good);
        struct err why = { "" };
        int removed = 0;

        if (point->state == POINT_FOREIGN) /* not ours to remove */
            continue;
        if (decision.goes && !retain->dry_run)
            removed = point_remove(dir_fd, point, &why);
        if (removed == -ENOENT || removed == -ESTALE) /* another rank's writer was faster */
            removed = 0;
        if (removed < 0 && result == 0) /* one that cannot go must not keep those behind it */
            result = err_set(err, removed, "%s", why.text);
        decision.goes = decision.goes && removed == 0;
        if (retain->each)
            retain->each(retain->ctx, point, decision.goes, removed < 0 ? why.text : decision.why);
        count += decision.goes;
        if (point->state == POINT_COMMITTED && point->read_back &&
            (!retain->parts || point->step <= retain->complete)) {
            newest = good++ ? newest : point->step;
        }
    }
    if (good && !retain->dry_run)
        points_remove_old(dir_fd, newest);
    points_fini(&points);
    return result < 0 ? result : count;
}
