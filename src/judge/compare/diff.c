/* diff.c - two runs: the same program that became slower, or another program.
 *
 * Ops are compared one by one, by what they are and how much they move, not by when.  Where they are the
 * same, what grew is looked for in each rank's own time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "judge/compare/profile.h"
#include "wire/names.h"

const char *profile_part_text(const struct profile_part *part, char *out, size_t room)
{
    switch (part->source) {
    case PROFILE_DEVICE:
        snprintf(out, room, "device work of %s", name_of_phase(part->what));
        break;
    case PROFILE_TRANSFER:
        snprintf(out, room, "%s on %s", name_of_op(part->what),
                 part->group[0] ? part->group : "its communicator");
        break;
    case PROFILE_HOST:
        snprintf(out, room, "host in %s with an idle device", name_of_phase(part->what));
        break;
    default:
        snprintf(out, room, "launched work that does not run");
    }
    return out;
}

/* ---- the program ---- */

static void diff_describe_op(const struct profile *profile, const struct profile_body *body,
                             uint32_t rank, uint32_t i, char *out, size_t room)
{
    const struct profile_op *op = &body->op[rank][i];

    if (i >= body->ops[rank]) {
        snprintf(out, room, "nothing more");
    } else if (op->kind == ITEM_PHASE || op->kind == ITEM_SPAN) {
        snprintf(out, room, "%s %s", op->kind == ITEM_PHASE ? "host phase" : "device work of",
                 name_of_phase(op->what));
    } else {
        snprintf(out, room, "%s of %llu bytes%s%s on %.31s (%u ranks)", name_of_op(op->what),
                 (unsigned long long)op->bytes, op->dtype ? " of " : "",
                 op->dtype ? name_of_dtype(op->dtype) : "",
                 op->group < profile->groups ? profile->group[op->group].name : "?",
                 op->group < profile->groups ? profile->group[op->group].size : 0);
    }
}

static bool diff_ops_equal(const struct profile *one, const struct profile_op *a,
                           const struct profile *other, const struct profile_op *b)
{
    if (a->kind != b->kind || a->what != b->what || a->count != b->count || a->bytes != b->bytes)
        return false;
    if (a->dtype && b->dtype && a->dtype != b->dtype) /* older runs do not tell */
        return false;
    if (a->group >= one->groups || b->group >= other->groups)
        return a->group >= one->groups && b->group >= other->groups;
    return one->group[a->group].size == other->group[b->group].size &&
           one->group[a->group].kind == other->group[b->group].kind;
}

static bool diff_first_op(const struct profile *one, const struct profile *other, struct diff *ret)
{
    const struct profile_body *a = profile_most(one), *b = profile_most(other);

    for (uint32_t rank = 0; rank < MIN(one->world, other->world); rank++) {
        uint32_t least = MIN(a->ops[rank], b->ops[rank]), i = 0;

        while (i < least && diff_ops_equal(one, &a->op[rank][i], other, &b->op[rank][i]))
            i++;
        if (i == least && a->ops[rank] == b->ops[rank])
            continue;
        ret->rank = rank;
        ret->op = i;
        diff_describe_op(one, a, rank, i, ret->one, sizeof(ret->one));
        diff_describe_op(other, b, rank, i, ret->other, sizeof(ret->other));
        return true;
    }
    return false;
}

static void compare_programs(const struct profile *one, const struct profile *other,
                             struct diff *ret)
{
    const uint16_t *a = one->size, *b = other->size;
    bool op = diff_first_op(one, other, ret);

    ret->same_program = false;
    if (one->world != other->world)
        snprintf(ret->program, sizeof(ret->program), "%u ranks against %u", one->world,
                 other->world);
    else if (one->has_layout && other->has_layout &&
             memcmp(one->size, other->size, sizeof(one->size)) != 0)
        snprintf(ret->program, sizeof(ret->program),
                 "layout tp=%u,pp=%u,dp=%u against tp=%u,pp=%u,dp=%u", a[LAYOUT_TP], a[LAYOUT_PP],
                 a[LAYOUT_DP], b[LAYOUT_TP], b[LAYOUT_PP], b[LAYOUT_DP]);
    else if (one->micro_batches > 0 && other->micro_batches > 0 &&
             one->micro_batches != other->micro_batches)
        snprintf(ret->program, sizeof(ret->program), "%.0f micro-batches against %.0f",
                 one->micro_batches, other->micro_batches);
    else if (op)
        snprintf(ret->program, sizeof(ret->program), "other ops");
    else
        ret->same_program = true;
}

/* ---- the system ---- */

static const struct profile_part *diff_part_like(const struct profile_body *body,
                                                 const struct profile_part *part)
{
    for (uint32_t i = 0; i < body->parts; i++) {
        const struct profile_part *at = &body->part[i];

        if (at->source == part->source && at->what == part->what &&
            strcmp(at->group, part->group) == 0)
            return at;
    }
    return NULL;
}

/* The node whose ranks are exactly those of the place, where there are more nodes than that. */
static void diff_place_node(const struct profile *profile, const uint8_t *slow,
                            struct diff_place *place)
{
    const char *node = profile->node[place->rank[0]];
    bool others = false;

    for (uint32_t rank = 0; rank < profile->world; rank++) {
        bool here = strcmp(profile->node[rank], node) == 0;

        others |= !here;
        if (here != (slow[rank] != 0))
            return;
    }
    if (others)
        snprintf(place->node, sizeof(place->node), "%s", node);
}

/* Where this part has grown; false: nowhere by so much. */
/* NOLINTNEXTLINE(readability-function-size): seven parameters */
static bool diff_place_find(const struct profile *after, const struct profile_part *now,
                            const struct profile_part *then, double least_ms, double alike,
                            uint8_t *slow, struct diff_place *ret)
{
    double most = 0;

    *ret = (struct diff_place){ .part = now, .name = (const char(*)[FACT_NAME])after->node };
    for (uint32_t rank = 0; rank < after->world; rank++)
        most = MAX(most, now->ms[rank] - (then ? then->ms[rank] : 0));
    if (most < least_ms)
        return false;
    for (uint32_t rank = 0; rank < after->world; rank++) {
        double before = then ? then->ms[rank] : 0;

        slow[rank] = now->ms[rank] - before >= alike * most;
        ret->of += now->ms[rank] > 0 || before > 0;
        if (!slow[rank])
            continue;
        if (ret->ranks < DIFF_RANKS)
            ret->rank[ret->ranks] = rank;
        ret->ranks++;
        ret->before_ms += before;
        ret->after_ms += now->ms[rank];
    }
    ret->before_ms /= ret->ranks;
    ret->after_ms /= ret->ranks;
    diff_place_node(after, slow, ret);
    return true;
}

static int place_compare(const void *a, const void *b)
{
    const struct diff_place *left = a, *right = b;
    double one = left->after_ms - left->before_ms, other = right->after_ms - right->before_ms;

    return one > other ? -1 : one < other;
}

static int compare_times(const struct profile *before, const struct profile *after, double share,
                         double alike, struct diff *ret)
{
    CLEAN(free_clean) uint8_t *slow = malloc(after->world);
    CLEAN(free_clean)
    struct diff_place *all = malloc((profile_most(after)->parts + 1) * sizeof(*all));
    uint32_t count = 0;

    if (!slow || !all)
        return -ENOMEM;
    for (uint32_t i = 0; i < profile_most(after)->parts; i++) {
        const struct profile_part *now = &profile_most(after)->part[i];

        count += diff_place_find(after, now, diff_part_like(profile_most(before), now),
                                 share * ret->before_ms, alike, slow, &all[count]);
    }
    qsort(all, count, sizeof(*all), place_compare);
    ret->places = MIN(count, DIFF_PLACES);
    memcpy(ret->place, all, ret->places * sizeof(*all));
    return 0;
}

int diff_profiles(const struct profile *before, const struct profile *after, double share,
                  double alike, struct diff *ret)
{
    *ret = (struct diff){ .op = MODEL_NONE };
    ret->before_ms = profile_most(before)->period_ms;
    ret->after_ms = profile_most(after)->period_ms;
    ret->slower = ret->after_ms > (1 + share) * ret->before_ms;
    ret->faster = ret->after_ms < (1 - share) * ret->before_ms;
    compare_programs(before, after, ret);
    return ret->same_program && ret->slower ? compare_times(before, after, share, alike, ret) : 0;
}
