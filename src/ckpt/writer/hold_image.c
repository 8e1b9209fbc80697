/* hold_image.c - keeps the last image in memory for the trainer's next start.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/writer/hold_image.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "ckpt/format/tensor.h"
#include "ckpt/store/held.h"
#include "ckpt/store/point.h"
#include "core/time.h"

#define SEAL_TRIES 50 /* until the trainer's mapping is gone */
#define LOOK_MS 100
#define POINTS_LOOK_NS (2 * NS_PER_S)

static void hold_give_back(const struct hold_image *hold, uint64_t from, uint64_t to)
{
    if (from < to)
        fallocate(hold->arena_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from,
                  (off_t)(to - from));
}

/* Fails as long as a process can write to it: a trainer that lives goes on to use it. */
static bool hold_seal(const struct hold_image *hold)
{
    for (int i = 0; i < SEAL_TRIES; i++) {
        struct pollfd poll_fd = { .fd = hold->signals, .events = POLLIN };

        if (fcntl(hold->arena_fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW) == 0)
            return true;
        if (errno != EBUSY || poll(&poll_fd, 1, LOOK_MS) > 0)
            return false;
    }
    return false;
}

/* The training goes on from a later step, with this rank elsewhere or without it: nobody will ask for the image. */
static bool hold_is_outdated(const struct hold_image *hold)
{
    struct points points = { .point = NULL };
    bool later = false;

    if (points_read(hold->dir_fd, POINTS_NAMES, &points, NULL) < 0)
        return false;
    for (size_t i = 0; !later && i < points.count && points.point[i].step > hold->step; i++) {
        point_read(hold->dir_fd, true, &points.point[i]);
        later = points.point[i].state == POINT_COMMITTED && points.point[i].read_back;
    }
    points_fini(&points);
    return later;
}

static void hold_wait(const struct hold_image *hold, const struct held_image *held)
{
    int64_t now_ns = time_mono_ns(), until_ns = now_ns + (int64_t)hold->seconds * NS_PER_S,
            look_ns = now_ns;
    struct pollfd poll_fd = { .fd = hold->signals, .events = POLLIN };

    while (now_ns < until_ns && held_is_there(hold->dir_fd, held) &&
           poll(&poll_fd, 1, LOOK_MS) == 0) {
        now_ns = time_mono_ns();
        if (now_ns < look_ns)
            continue;
        if (hold_is_outdated(hold))
            return;
        look_ns = now_ns + POINTS_LOOK_NS;
    }
}

void hold_image(const struct hold_image *hold)
{
    struct held_image held = { .rank = hold->rank,
                               .fd = (uint32_t)hold->arena_fd,
                               .offset = hold->offset,
                               .file_bytes = hold->file_bytes,
                               .step = hold->step,
                               .job = hold->job };
    struct signalfd_siginfo info;
    struct err err = { "" };

    if (hold->launched) {
        while (read(hold->signals, &info, sizeof(info)) > 0)
            ; /* that the attempt ends; the end of the run comes later */
    }
    /* A launcher of lockstep ends a process of this name with the run, not with the attempt: a signal that comes from now on counts. */
    prctl(PR_SET_NAME, "ckpt-held");
    hold_give_back(hold, 0, hold->offset);
    hold_give_back(hold, hold->offset + ckpt_round_up(hold->file_bytes, CKPT_PAGE),
                   hold->arena_bytes);
    if (!hold_seal(hold))
        return;
    if (held_self(&held, &err) < 0 || held_put(hold->dir_fd, &held, &err) < 0) {
        fprintf(stderr, "lockstep-ckpt-writer: the copy in memory is not kept: %s\n", err.text);
        return;
    }
    hold_wait(hold, &held);
    if (held_is_there(hold->dir_fd, &held))
        held_remove(hold->dir_fd, hold->rank);
}
