/* scene.h - a directory of its own for a test, and a reader on the ring in it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_PROBE_TEST_SCENE_H
#define LOCKSTEP_PROBE_TEST_SCENE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lockstep/probe.h"
#include "wire/ring.h"

struct scene {
    char dir[64];
};

static inline int scene_setup(void **state)
{
    struct scene *scene = calloc(1, sizeof(*scene));

    if (!scene)
        return -1;
    snprintf(scene->dir, sizeof(scene->dir), "/tmp/lockstep-test-XXXXXX");
    if (!mkdtemp(scene->dir))
        return -1;
    setenv("LOCKSTEP_DIR", scene->dir, 1);
    setenv("LOCKSTEP_QUIET", "1", 1);
    unsetenv("LOCKSTEP_RING_LANES");
    unsetenv("LOCKSTEP_RING_RECORDS");
    unsetenv("LOCKSTEP_RESTART");
    unsetenv("LOCKSTEP_RUN");
    *state = scene;
    return 0;
}

static inline int scene_teardown(void **state)
{
    struct scene *scene = *state;
    char command[96];

    snprintf(command, sizeof(command), "rm -rf %s", scene->dir);
    if (system(command) != 0)
        return -1;
    free(scene);
    return 0;
}

static inline void scene_path(const struct scene *scene, uint32_t rank, unsigned number, char *out,
                              size_t room)
{
    int used = snprintf(out, room, "%s/", scene->dir);

    snprintf(out + used, room - (size_t)used, RING_NAME_FORMAT, rank, number);
}

static inline struct ring_reader *scene_read(const struct scene *scene, uint32_t rank,
                                             unsigned number)
{
    struct ring_reader *reader = NULL;
    struct err err = { "" };
    char path[128];

    scene_path(scene, rank, number, path, sizeof(path));
    if (ring_reader_open(path, &reader, &err) < 0)
        fail_msg("%s", err.text);
    return reader;
}

/* Everything there is, at most `room`. */
static inline size_t scene_drain(struct ring_reader *reader, struct ring_event *event, size_t room,
                                 uint64_t *lost)
{
    struct err err = { "" };
    size_t all = 0;
    int got;

    while ((got = ring_reader_next(reader, event + all, room - all, lost, &err)) > 0)
        all += (size_t)got;
    if (got < 0)
        fail_msg("%s", err.text);
    return all;
}

/* cmocka's asserts must not be used in a forked child: they would run the rest of the tests there. */
static inline int scene_wait(pid_t pid)
{
    int status = -1;

    while (waitpid(pid, &status, 0) < 0)
        ;
    return status;
}

#define SCENE_TEST(function) cmocka_unit_test_setup_teardown(function, scene_setup, scene_teardown)

#endif
