/* test-gpu-held.c - a GPU is held by whoever has opened or mapped it, whatever its file is called.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "agent/node/gpu_held.h"

/* Any device of a number, as if that were a GPU's, and a name that it does not have. */
static struct gpu_files files_of(const char *path)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    return (struct gpu_files){ .major = major(st.st_rdev),
                               .last = minor(st.st_rdev),
                               .name = "/dev/gpu" };
}

static void an_open_one_is_found_by_its_number(void **state)
{
    struct gpu_files full = files_of("/dev/full");
    char why[100];
    int fd;

    (void)state;
    fd = open("/dev/full", O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_true(gpu_held_by(&full, getpid()));
    assert_true(gpu_held(&full, why, sizeof(why)));
    assert_non_null(strstr(why, ") holds a GPU"));
    full.major += 200;
    assert_false(gpu_held_by(&full, getpid()));
    close(fd);
}

static void a_mapped_one_is_found_by_its_name(void **state)
{
    const struct gpu_files gpus = { .major = 4000, .name = "/tmp/lockstep-gpu" };
    char path[64];
    void *at;
    int fd;

    (void)state;
    snprintf(path, sizeof(path), "%s%d", gpus.name, (int)getpid());
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 4096), 0);
    assert_true(gpu_held_by(&gpus, getpid()));
    at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(at != MAP_FAILED);
    close(fd);
    unlink(path);
    assert_true(gpu_held_by(&gpus, getpid()));
    munmap(at, 4096);
    assert_false(gpu_held_by(&gpus, getpid()));
}

static void one_that_is_gone_holds_nothing(void **state)
{
    (void)state;
    assert_false(gpu_held_by(&gpu_files_nvidia, 0x7ffffff0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_open_one_is_found_by_its_number),
        cmocka_unit_test(a_mapped_one_is_found_by_its_name),
        cmocka_unit_test(one_that_is_gone_holds_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
