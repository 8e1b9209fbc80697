/* trainer_data.c - where batches come from: made up while the device works, or read from files.
 *
 * With a data directory each rank has a file of batches there, written by itself before the first step, and
 * reads one in each step, as a loader without workers does: whatever its storage takes, the step takes too.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/clean.h"
#include "lab/trainer/trainer_private.h"

#define DATA_BATCHES 16 /* then they come again */
#define DATA_PATH 4096

static size_t data_half(const struct trainer *trainer) /* of a batch: inputs, or targets */
{
    return trainer->micros * TOY_CELLS * sizeof(float);
}

bool trainer_data_ahead(const struct trainer *trainer)
{
    return trainer->data_fd < 0;
}

static void data_make_up(struct trainer *trainer, uint64_t step)
{
    for (uint32_t micro = 0; micro < trainer->micros; micro++)
        toy_sample(trainer->config->seed, step, trainer->place.dp, micro,
                   trainer->next_input + micro * TOY_CELLS,
                   trainer->next_target + micro * TOY_CELLS);
}

static int data_put(int fd, const void *data, size_t size, off_t at)
{
    ssize_t put = pwrite(fd, data, size, at);

    return put < 0 ? -errno : (size_t)put < size ? -ENOSPC : 0;
}

static int data_fill(struct trainer *trainer)
{
    size_t half = data_half(trainer);
    int result = 0;

    for (uint64_t batch = 0; batch < DATA_BATCHES && result == 0; batch++) {
        off_t at = (off_t)(2 * batch * half);

        data_make_up(trainer, batch);
        result = data_put(trainer->data_fd, trainer->next_input, half, at);
        if (result == 0)
            result = data_put(trainer->data_fd, trainer->next_target, half, at + (off_t)half);
    }
    if (result == 0 && fsync(trainer->data_fd) < 0)
        result = -errno;
    return result;
}

int trainer_data_open(struct trainer *trainer, struct err *err)
{
    size_t bytes = 2 * DATA_BATCHES * data_half(trainer);
    char path[DATA_PATH];
    struct stat st;
    int result = 0;

    if (!trainer->config->data_dir)
        return 0;
    snprintf(path, sizeof(path), "%s/rank-%05u.batches", trainer->config->data_dir,
             trainer->config->rank);
    trainer->data_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (trainer->data_fd < 0 || fstat(trainer->data_fd, &st) < 0)
        return err_set(err, -errno, "%s: %m", path);
    if ((size_t)st.st_size != bytes) /* an earlier attempt left it whole */
        result = data_fill(trainer);
    errno = -result;
    return result < 0 ? err_set(err, result, "%s: %m", path) : 0;
}

int trainer_data_next(struct trainer *trainer, uint64_t step, struct err *err)
{
    size_t half = data_half(trainer);
    struct iovec part[] = { { trainer->next_input, half }, { trainer->next_target, half } };
    ssize_t got;

    trainer->next_step = step;
    if (trainer->data_fd < 0) {
        data_make_up(trainer, step);
        return 0;
    }
    got = preadv(trainer->data_fd, part, COUNT(part), (off_t)(2 * (step % DATA_BATCHES) * half));
    if (got < 0 || (size_t)got < 2 * half)
        return err_set(err, got < 0 ? -errno : -ENODATA, "batch of rank %u, step %llu: %s",
                       trainer->config->rank, (unsigned long long)step,
                       got < 0 ? strerror(errno) : "the file is too short");
    return 0;
}
