/* test-publish.c - marks of saves that failed, over several starts of a job.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/store/publish.h"
#include "core/clean.h"

#define JOB 7
#define STEP 100

struct scene {
    char path[64];
    int fd;
};

static int scene_make(void **state)
{
    struct scene *scene = calloc(1, sizeof(*scene));

    snprintf(scene->path, sizeof(scene->path), "%s", "/tmp/test-publish.XXXXXX");
    assert_non_null(mkdtemp(scene->path));
    scene->fd = open(scene->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(scene->fd >= 0);
    *state = scene;
    return 0;
}

static int scene_remove(void **state)
{
    struct scene *scene = *state;
    char command[96];

    close(scene->fd);
    snprintf(command, sizeof(command), "rm -rf %s", scene->path);
    assert_int_equal(system(command), 0); // NOLINT(cert-env33-c,concurrency-mt-unsafe)
    free(scene);
    return 0;
}

static struct publish rank_of(const struct scene *scene, uint32_t rank, uint32_t world)
{
    return (struct publish){ .parent_fd = scene->fd,
                             .fd = -1,
                             .step = STEP,
                             .job = JOB,
                             .rank = rank,
                             .world = world,
                             .group = 2 };
}

static void rank_skips(const struct scene *scene, uint32_t rank)
{
    struct publish publish = rank_of(scene, rank, 8);

    assert_int_equal(publish_open(&publish, NULL), 0);
    publish_fail(&publish, "another save was under way");
    publish_close(&publish);
}

/* As the writer does it: it looks, and gives up if another rank has. */
static int rank_saves(const struct scene *scene, uint32_t rank, uint32_t world)
{
    struct publish publish = rank_of(scene, rank, world);
    struct err err = { "" };
    int result;

    assert_int_equal(publish_open(&publish, &err), 0);
    result = publish_failure_look(&publish, &err);
    if (result < 0)
        publish_give_up(&publish, err.text);
    publish_close(&publish);
    return result;
}

static void a_step_that_was_skipped_is_saved_by_the_next_start(void **state)
{
    const struct scene *scene = *state;

    rank_skips(scene, 1);
    assert_int_equal(rank_saves(scene, 0, 2), -ECANCELED);
    for (int again = 0; again < 2; again++) {
        for (uint32_t rank = 0; rank < 2; rank++)
            publish_failures_forget(scene->fd, JOB, rank, false);
        for (uint32_t rank = 0; rank < 2; rank++)
            assert_int_equal(rank_saves(scene, rank, 2), 0);
    }
}

static void a_rank_forgets_its_own_marks_of_its_own_job(void **state)
{
    const struct scene *scene = *state;

    rank_skips(scene, 1);
    publish_failures_forget(scene->fd, JOB, 0, false);
    publish_failures_forget(scene->fd, JOB + 1, 1, true);
    assert_int_equal(rank_saves(scene, 0, 2), -ECANCELED);
}

static void ranks_that_are_gone_stop_nobody(void **state)
{
    const struct scene *scene = *state;

    rank_skips(scene, 5);
    assert_int_equal(rank_saves(scene, 0, 2), 0); /* the world became smaller */
    assert_int_equal(rank_saves(scene, 0, 8), -ECANCELED);
    publish_failures_forget(scene->fd, JOB, 0, true); /* it saves on another node now */
    assert_int_equal(rank_saves(scene, 0, 8), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_step_that_was_skipped_is_saved_by_the_next_start,
                                        scene_make, scene_remove),
        cmocka_unit_test_setup_teardown(a_rank_forgets_its_own_marks_of_its_own_job, scene_make,
                                        scene_remove),
        cmocka_unit_test_setup_teardown(ranks_that_are_gone_stop_nobody, scene_make, scene_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
