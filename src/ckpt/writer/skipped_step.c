/* skipped_step.c - tells the other ranks that this one does not save a step.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/writer/skipped_step.h"

#include <fcntl.h>

#include "ckpt/store/publish.h"
#include "core/clean.h"
#include "core/time.h"

#define GRACE_S 30

static void skipped_step_drop(struct skipped_step *skipped)
{
    fd_clean(&skipped->dir_fd);
    skipped->dir_fd = -1;
}

void skipped_step_tell(struct skipped_step *skipped)
{
    const struct message_skip *what = &skipped->what;
    struct publish publish = { .parent_fd = skipped->dir_fd,
                               .fd = -1,
                               .step = what->step,
                               .job = what->job,
                               .rank = what->rank,
                               .world = what->world,
                               .group = what->group };

    if (skipped->dir_fd < 0)
        return;
    if (publish_open(&publish, NULL) == 0)
        publish_fail(&publish, what->why);
    publish_close(&publish);
    skipped_step_drop(skipped);
}

void skipped_step_take(struct skipped_step *skipped, const struct message_skip *what, int dir_fd,
                       uint32_t commit_s)
{
    if (skipped->dir_fd >= 0 && skipped->what.step == what->step)
        return;
    skipped_step_tell(skipped);
    skipped->what = *what;
    skipped->dir_fd = fcntl(dir_fd, F_DUPFD_CLOEXEC, 0);
    skipped->until_ns = time_mono_ns() + (int64_t)MIN(GRACE_S, commit_s) * NS_PER_S;
}

void skipped_step_settle(struct skipped_step *skipped, uint64_t saved_step)
{
    if (skipped->what.step == saved_step)
        skipped_step_drop(skipped);
    else
        skipped_step_tell(skipped);
}

int64_t skipped_step_look(struct skipped_step *skipped)
{
    int64_t left_ns = skipped->until_ns - time_mono_ns();

    if (skipped->dir_fd >= 0 && left_ns <= 0)
        skipped_step_tell(skipped);
    return skipped->dir_fd < 0 ? INT64_MAX : left_ns;
}
