/* newest_point.c - the newest verified checkpoint of a directory.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "act/newest_point.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ckpt/store/point.h"
#include "core/clean.h"
#include "core/time.h"

#define NEWEST_POINT_WAIT_NS (5 * NS_PER_S)

struct newest_point_answer { /* one write to a pipe */
    int32_t result;
    struct newest_point resume;
};

static void newest_point_skip(const struct point *point, struct newest_point *ret)
{
    if (ret->skipped[0])
        return;
    snprintf(ret->skipped, sizeof(ret->skipped), "%s: %s", point->name,
             point->why[0]       ? point->why
             : !point->published ? "it has not got its final name"
                                 : "it was not read back");
}

/* In the child. */
static int newest_point_look(const char *directory, uint64_t at_most, struct newest_point *ret)
{
    CLEAN(fd_clean) int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct points points = { 0 };
    int result = fd < 0 ? -errno : points_read(fd, POINTS_NAMES, &points, NULL);

    for (size_t i = 0; result == 0 && i < points.count && ret->step == NEWEST_POINT_NONE; i++) {
        struct point *point = &points.point[i];

        if (point->step > at_most)
            continue;
        point_read(fd, true, point);
        if (point->state != POINT_COMMITTED || !point->read_back || !point->published) {
            newest_point_skip(point, ret);
            continue;
        }
        ret->step = point->step;
        memcpy(ret->name, point->name, sizeof(ret->name));
    }
    points_fini(&points);
    return result;
}

static _Noreturn void newest_point_child(const char *directory, uint64_t at_most, int out)
{
    struct newest_point_answer answer = { .resume = { .step = NEWEST_POINT_NONE } };

    answer.result = newest_point_look(directory, at_most, &answer.resume);
    _exit(write(out, &answer, sizeof(answer)) == (ssize_t)sizeof(answer) ? 0 : 1);
}

static int newest_point_read(int in, struct newest_point_answer *ret)
{
    struct pollfd fd = { .fd = in, .events = POLLIN };
    int64_t until_ns = time_mono_ns() + NEWEST_POINT_WAIT_NS;
    int ready;

    do
        ready = poll(&fd, 1, time_poll_ms(until_ns, time_mono_ns()));
    while (ready < 0 && errno == EINTR);
    if (ready <= 0)
        return -ETIMEDOUT;
    return read(in, ret, sizeof(*ret)) == (ssize_t)sizeof(*ret) ? ret->result : -EIO;
}

int newest_point_find(const char *directory, uint64_t at_most, struct newest_point *ret,
                      struct err *err)
{
    struct newest_point_answer answer;
    int fd[2], result;
    pid_t pid;

    if (pipe2(fd, O_CLOEXEC) < 0)
        return err_set(err, -errno, "pipe: %m");
    pid = fork();
    if (pid == 0)
        newest_point_child(directory, at_most, fd[1]);
    result = pid < 0 ? -errno : 0;
    close(fd[1]);
    if (result == 0)
        result = newest_point_read(fd[0], &answer);
    close(fd[0]);
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, result == -ETIMEDOUT ? WNOHANG : 0); /* one that is stuck cannot end */
    }
    if (result < 0)
        return err_set(err, result, "%s: %s", directory, strerror(-result));
    answer.resume.name[sizeof(answer.resume.name) - 1] = '\0';
    *ret = answer.resume;
    return 0;
}
