/* score_plan.c - the families one after the other, each with as many cases as it has places to be.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/score/score_plan.h"

#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "lab/score/score_private.h"

#define PLACES 9         /* first, middle and last rank of each of three sizes */
#define USUAL 30         /* cases of what is drawn by default */
#define USUAL_HEALTHY 40 /* a twin of each of them, and a second one of each slight one */
#define LONG_RUN_S 150.0
#define NAME 64
#define SHARED_RANKS 16 /* three of them at a time leave a machine of two cores half idle */

static const struct score_group {
    const char *name;
    uint32_t cases, healthy;
    /* NULL: by score_draw() */
    void (*fill)(uint32_t number, struct rand *rand, struct score_case *at);
} groups[] = {
    { "slow", 60, 80, NULL },
    { "stall", 36, 16, NULL },
    { "corruption", 27, 9, NULL },
    { "slowly", 3 * SCORE_SLOWLY, 0, score_slowly_case },
    { "storage", 3 * SCORE_STORAGE, 0, score_storage_case },
    { "link", 3 * SCORE_LINK, 0, score_link_case },
    { "channels", 3 * SCORE_CHANNELS, 0, score_channels_case },
    { "kernel-log", PLACES *SCORE_KERNELS, 0, score_kernel_case },
    { "sensors", 3 * SCORE_SENSORS_COUNT, 0, score_sensors_case },
    { "two", 3 * SCORE_PAIRS, 0, score_pair_case },
    { "torch", 3 * SCORE_TORCH, 0, score_torch_case },
    { "nccl-like", 3 * SCORE_NCCL, 0, score_nccl_case },
};

static const struct score_group *group_of(const char *name)
{
    for (size_t i = 0; i < COUNT(groups); i++) {
        if (strcmp(groups[i].name, name) == 0)
            return &groups[i];
    }
    return NULL;
}

/* In a full score a number given is the most of each family. */
static uint32_t score_filter_count(const struct score_filter *filter, uint32_t given,
                                   uint32_t usual)
{
    if (given == SCORE_PLAN_DEFAULT)
        return usual;
    return filter->all ? MIN(given, usual) : given;
}

static uint32_t group_draw(const struct score_group *group, const struct score_filter *filter,
                           struct score_case *ret, uint32_t room)
{
    uint32_t cases = score_filter_count(filter, filter->cases, group->cases);
    uint32_t healthy = score_filter_count(filter, filter->healthy, group->healthy);
    struct rand rand = { filter->seed };

    if (!group->fill)
        return score_draw(filter->seed, cases, healthy, group->name, ret, room);
    for (uint32_t i = 0; i < cases && i < room; i++) {
        ret[i] = (struct score_case){ .seed = filter->seed * 1000 + i, .twin = SCORE_NO_TWIN };
        group->fill(i, &rand, &ret[i]);
    }
    return MIN(cases, room);
}

/* Where twins are counted from the first case of their own draw. */
static uint32_t score_twins_move(struct score_case *cases, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++) {
        if (cases[i].twin != SCORE_NO_TWIN)
            cases[i].twin += first;
    }
    return first + count;
}

static uint32_t score_series_draw(uint32_t which, const struct score_filter *filter,
                                  struct score_case *ret, uint32_t room)
{
    uint32_t cases = score_filter_count(filter, filter->cases, PLACES * score_series_faults(which));

    return score_draw(filter->seed, cases, 0, score_series_name(which), ret, room);
}

/* One family, or NULL for all of them, or for the usual draw. */
static uint32_t plan_only(const struct score_filter *filter, const char *only,
                          struct score_case *ret, uint32_t room)
{
    const struct score_group *group = only ? group_of(only) : NULL;
    uint32_t count = 0;

    if (group && (filter->all || group->fill))
        return group_draw(group, filter, ret, room);
    if (filter->all && !only) {
        for (size_t i = 0; i < COUNT(groups); i++)
            count = score_twins_move(ret, count,
                                     group_draw(&groups[i], filter, &ret[count], room - count));
    }
    for (uint32_t i = 0; filter->all && score_series_name(i); i++) {
        if (!only || strcmp(only, score_series_name(i)) == 0)
            count += score_series_draw(i, filter, &ret[count], room - count);
    }
    if (count == 0) /* one family of a set, or what is drawn by default */
        count =
            score_draw(filter->seed, score_filter_count(filter, filter->cases, USUAL),
                       score_filter_count(filter, filter->healthy, USUAL_HEALTHY), only, ret, room);
    return count;
}

/* The next name of a list; false: there are no more. */
static bool score_name_next(const char **list, char *out, size_t room)
{
    size_t size = strcspn(*list, ",");

    if (**list == '\0')
        return false;
    snprintf(out, room, "%.*s", (int)size, *list);
    *list += size + ((*list)[size] == ',');
    return true;
}

/* Long ones find what short ones cannot: drifts, and rules that look over hundreds of steps. */
static uint32_t plan_healthy(const struct score_filter *filter, struct score_case *ret,
                             uint32_t room)
{
    static const uint32_t saves[] = { 0, 50, 200 };
    struct rand rand = { filter->seed + 7000 };
    uint32_t count = 0;

    for (double left_s = filter->healthy_seconds; left_s > 0 && count < room; count++) {
        struct score_case *at = &ret[count];
        double seconds = MIN(left_s, LONG_RUN_S);

        *at = (struct score_case){ .seed = filter->seed * 1000 + 700 + count,
                                   .nodes = 1 + count % 2,
                                   .twin = SCORE_NO_TWIN,
                                   .checkpoint_every = saves[count % COUNT(saves)],
                                   .fault = { .kind = score_kind(FAULT_NONE) } };
        score_layout(at, &rand, FAULT_NONE, count % 4 == 3 ? 16 : count % 2 ? 8 : 4);
        at->steps = MAX(60, (uint64_t)(seconds * 1e3 / at->step_ms));
        left_s -= LONG_RUN_S;
    }
    return count;
}

uint32_t score_plan(const struct score_filter *filter, struct score_case *ret, uint32_t room)
{
    const char *list = filter->only;
    uint32_t count = 0;
    char name[NAME];

    if (!list)
        count = plan_only(filter, NULL, ret, room);
    while (list && score_name_next(&list, name, sizeof(name)))
        count = score_twins_move(ret, count, plan_only(filter, name, &ret[count], room - count));
    return count + plan_healthy(filter, &ret[count], room - count);
}

bool score_plan_has(const char *families)
{
    bool has = families[0] != '\0';
    char name[NAME];

    while (has && score_name_next(&families, name, sizeof(name)))
        has = group_of(name) || score_has_family(name);
    return has;
}

/* Adds a word to a list, once. */
static void score_name_add(char *out, size_t room, const char *name)
{
    size_t used = strlen(out), size = strlen(name);
    const char *at = out;

    while ((at = strstr(at, name)) != NULL) {
        bool begins = at == out || at[-1] == ' ';

        at += size;
        if (begins && (*at == ',' || *at == '\0'))
            return;
    }
    snprintf(out + used, room - used, "%s%s", used ? ", " : "", name);
}

void score_plan_names(char *out, size_t room)
{
    size_t count;
    const struct score_expect *expect = score_expects(&count);

    out[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        if (score_plan_has(expect[i].family))
            score_name_add(out, room, expect[i].family);
    }
    for (size_t i = 0; i < COUNT(groups); i++)
        score_name_add(out, room, groups[i].name);
    for (uint32_t i = 0; score_series_name(i); i++)
        score_name_add(out, room, score_series_name(i));
}

bool score_case_shares(const struct score_case *at)
{
    switch (at->fault.kind->id) {
    case FAULT_NONE:
    case FAULT_EVAL:
    case FAULT_COMPILE:
    case FAULT_SLOW_START:
    case FAULT_SLOW_CHECKPOINT:
    case FAULT_ELASTIC:
        return at->ranks <= SHARED_RANKS && at->twin == SCORE_NO_TWIN && !at->torch &&
               !score_expect(&at->fault);
    case FAULT_KILL:
    case FAULT_EXIT:
    case FAULT_SEGFAULT:
    case FAULT_ABORT:
    case FAULT_EXCEPTION:
    case FAULT_STOP:
    case FAULT_STUCK_DATA:
    case FAULT_STUCK_CODE:
    case FAULT_GPU_HANG:
    case FAULT_FROZEN_LINK:
    case FAULT_OTHER_ORDER:
    case FAULT_OTHER_OP:
    case FAULT_OTHER_SIZE:
    case FAULT_BIT_FLIP:
    case FAULT_NAN:
    case FAULT_FROZEN:
        return at->ranks <= SHARED_RANKS && !at->torch;
    default: /* held against the clock, or it makes the machine busy, or is made by something that is there once */
        return false;
    }
}
