/* sealed_points.c - finds the sealed checkpoints of a directory.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/seal/sealed_points.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/text.h"
#include "core/untrusted.h"

void sealed_points_fini(struct sealed_points *points)
{
    for (size_t i = 0; i < points->count; i++) {
        seal_fini(&points->point[i].seal);
        close(points->point[i].fd);
    }
    free(points->point);
    *points = (struct sealed_points){ .point = NULL };
}

/* Takes `fd` over if there is a seal, also a damaged one.  1: there is one. */
static int point_add(struct sealed_points *points, int *fd, const char *name, struct err *err)
{
    struct sealed_point point = { .fd = *fd, .step = SEAL_NO_STEP };
    int result = seal_read(*fd, &point.seal, &point.why);

    if (result == -ENOENT)
        return 0;
    if (!ARRAY_FIT(points->point, points->room, points->count + 1)) {
        seal_fini(&point.seal);
        return err_nomem(err);
    }
    *fd = -1;
    point.step = result == 0 ? point.seal.step : seal_step_of(name);
    snprintf(point.name, sizeof(point.name), "%s", name);
    text_clean(point.name, strlen(point.name), false);
    points->point[points->count++] = point;
    return 1;
}

static int point_compare(const void *a, const void *b)
{
    const struct sealed_point *left = a, *right = b;

    if ((left->step == SEAL_NO_STEP) != (right->step == SEAL_NO_STEP))
        return left->step == SEAL_NO_STEP ? 1 : -1;
    if (left->step != right->step)
        return left->step < right->step ? 1 : -1;
    if (left->seal.sealed_ns != right->seal.sealed_ns)
        return left->seal.sealed_ns < right->seal.sealed_ns ? 1 : -1;
    return strcmp(left->name, right->name);
}

int sealed_points_read(int dir_fd, struct sealed_points *ret, struct err *err)
{
    CLEAN(fd_clean) int top = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CLEAN(dir_clean) DIR *dir = fdopendir(openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct sealed_points made = { .point = NULL };
    const struct dirent *entry;
    int result;

    if (top < 0 || !dir)
        return err_set(err, -errno, "%m");
    result = point_add(&made, &top, ".", err);
    while (result == 0 && (entry = readdir(dir))) {
        CLEAN(fd_clean) int fd = -1;

        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN))
            continue;
        fd = untrusted_open_any_dir(dir_fd, entry->d_name, NULL);
        if (fd >= 0)
            result = MIN(point_add(&made, &fd, entry->d_name, err), 0);
    }
    if (result < 0) {
        sealed_points_fini(&made);
        return result;
    }
    if (made.count)
        qsort(made.point, made.count, sizeof(*made.point), point_compare);
    *ret = made;
    return 0;
}
