/* scene.h - a policy, the time, and the decisions that came out of it: what the tests of this room share.
 *
 * Each test uses the parts of the scene that it is about; the others stay zero.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_POLICY_TEST_SCENE_H
#define LOCKSTEP_POLICY_TEST_SCENE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/clean.h"
#include "core/time.h"
#include "policy/policy.h"

#define REAL_NS INT64_C(1700000000000000000)

struct scene {
    struct policy *policy;
    int64_t now_ns;
    struct decision said[256];
    size_t count;
    /* a job that trains */
    uint64_t step;
    uint32_t attempt;
    /* what a table allows */
    struct policy_table table;
    struct policy_means means;
    struct ledger ledger;
    /* launchers of several nodes */
    struct member member[40];
    size_t members;
    uint32_t min, max, restarts, quorum;
    bool deaf;
};

static inline struct scene *scene_create(void)
{
    struct scene *scene = calloc(1, sizeof(*scene));

    assert_non_null(scene);
    assert_int_equal(policy_create("r1", &scene->policy), 0);
    scene->now_ns = 50 * NS_PER_S;
    return scene;
}

static inline int scene_free(void **state)
{
    struct scene *scene = *state;

    policy_destroy(scene->policy);
    free(scene);
    return 0;
}

static inline void said(void *arg, const struct decision *decision)
{
    struct scene *scene = arg;

    assert_true(scene->count < COUNT(scene->said));
    scene->said[scene->count++] = *decision;
}

static inline const struct decision *newest(const struct scene *scene)
{
    assert_true(scene->count > 0);
    return &scene->said[scene->count - 1];
}

#endif
