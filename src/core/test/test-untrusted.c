/* test-untrusted.c - everything that can be in the place of a file.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/clean.h"
#include "core/untrusted.h"

struct place {
    char path[64];
    int fd;
};

static int place_setup(void **state)
{
    struct place *place = calloc(1, sizeof(*place));

    strcpy(place->path, "/tmp/lockstep-test-untrusted-XXXXXX");
    assert_non_null(mkdtemp(place->path));
    place->fd = open(place->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(place->fd >= 0);
    *state = place;
    return 0;
}

static int place_teardown(void **state)
{
    static const char *const names[] = { "file", "link", "dangling", "fifo", "socket" };
    struct place *place = *state;

    for (size_t i = 0; i < COUNT(names); i++)
        unlinkat(place->fd, names[i], 0);
    unlinkat(place->fd, "dir", AT_REMOVEDIR);
    close(place->fd);
    rmdir(place->path);
    free(place);
    return 0;
}

/* By the directory's descriptor, and by a path. */
static int open_both(const struct place *place, const char *name, int flags, uid_t owner)
{
    char path[128];
    struct err err = { "" };
    int below = untrusted_open(place->fd, name, flags, owner, &err), result;

    snprintf(path, sizeof(path), "%s/%s", place->path, name);
    result = untrusted_open(AT_FDCWD, path, flags, owner, NULL);
    if (result < 0)
        assert_non_null(strstr(err.text, name));
    assert_int_equal(below < 0 ? below : 0, result < 0 ? result : 0);
    if (below < 0)
        return below;
    assert_true(fcntl(below, F_GETFD) & FD_CLOEXEC);
    close(result);
    close(below);
    return 0;
}

static void a_regular_file_of_its_owner_is_opened(void **state)
{
    const struct place *place = *state;

    assert_int_equal(open_both(place, "file", O_RDONLY, geteuid()), -ENOENT);
    assert_int_equal(open_both(place, "file", O_RDWR | O_CREAT, geteuid()), 0);
    assert_int_equal(open_both(place, "file", O_RDONLY, geteuid()), 0);
    assert_int_equal(open_both(place, "file", O_RDONLY, UNTRUSTED_ANY_OWNER), 0);
}

static void another_owner_is_refused(void **state)
{
    const struct place *place = *state;

    assert_int_equal(open_both(place, "file", O_RDWR | O_CREAT, geteuid()), 0);
    assert_int_equal(open_both(place, "file", O_RDONLY, geteuid() + 1), -EPERM);
    assert_int_equal(untrusted_open_dir(AT_FDCWD, place->path, geteuid() + 1, NULL), -EPERM);
}

static void a_link_is_never_followed(void **state)
{
    const struct place *place = *state;

    assert_int_equal(open_both(place, "file", O_RDWR | O_CREAT, geteuid()), 0);
    assert_int_equal(symlinkat("file", place->fd, "link"), 0);
    assert_int_equal(symlinkat("made", place->fd, "dangling"), 0);
    assert_int_equal(open_both(place, "link", O_RDONLY, geteuid()), -ELOOP);
    assert_int_equal(open_both(place, "dangling", O_RDWR | O_CREAT, geteuid()), -ELOOP);
    assert_int_equal(faccessat(place->fd, "made", F_OK, 0), -1);
}

/* Without O_NONBLOCK this test would never end. */
static void a_fifo_does_not_hold_us_up(void **state)
{
    const struct place *place = *state;

    assert_int_equal(mkfifoat(place->fd, "fifo", 0600), 0);
    assert_int_equal(open_both(place, "fifo", O_RDONLY, geteuid()), -EPROTO);
    assert_int_equal(open_both(place, "fifo", O_WRONLY | O_CREAT, geteuid()), -ENXIO);
    assert_int_equal(open_both(place, "fifo", O_RDWR, geteuid()), -EPROTO);
}

static void neither_sockets_devices_nor_directories_are_files(void **state)
{
    const struct place *place = *state;
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    CLEAN(fd_clean) int sock = socket(AF_UNIX, SOCK_STREAM, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", place->path);
    assert_int_equal(bind(sock, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(mkdirat(place->fd, "dir", 0700), 0);
    assert_int_equal(open_both(place, "socket", O_RDONLY, geteuid()), -ENXIO);
    assert_int_equal(open_both(place, "dir", O_RDONLY, geteuid()), -EPROTO);
    assert_int_equal(untrusted_open(AT_FDCWD, "/dev/null", O_RDONLY, UNTRUSTED_ANY_OWNER, NULL),
                     -EPROTO);
}

static void a_directory_others_can_write_to_is_refused(void **state)
{
    const struct place *place = *state;
    int fd;

    assert_int_equal(mkdirat(place->fd, "dir", 0700), 0);
    fd = untrusted_open_dir(place->fd, "dir", geteuid(), NULL);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(fchmodat(place->fd, "dir", 0770, 0), 0);
    assert_int_equal(untrusted_open_dir(place->fd, "dir", geteuid(), NULL), -EPERM);
    assert_int_equal(symlinkat("dir", place->fd, "link"), 0);
    fd = untrusted_open_any_dir(place->fd, "link", NULL);
    assert_true(fd == -ELOOP || fd == -ENOTDIR);
}

static void below_a_directory_there_are_single_names_and_no_mounts(void **state)
{
    const struct place *place = *state;
    CLEAN(fd_clean) int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    assert_int_equal(untrusted_open(place->fd, "../file", O_RDONLY, geteuid(), NULL), -EINVAL);
    assert_int_equal(untrusted_open_any_dir(place->fd, "..", NULL), -EXDEV);
    assert_int_equal(untrusted_open_any_dir(root, "proc", NULL), -EXDEV);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_regular_file_of_its_owner_is_opened, place_setup,
                                        place_teardown),
        cmocka_unit_test_setup_teardown(another_owner_is_refused, place_setup, place_teardown),
        cmocka_unit_test_setup_teardown(a_link_is_never_followed, place_setup, place_teardown),
        cmocka_unit_test_setup_teardown(a_fifo_does_not_hold_us_up, place_setup, place_teardown),
        cmocka_unit_test_setup_teardown(neither_sockets_devices_nor_directories_are_files,
                                        place_setup, place_teardown),
        cmocka_unit_test_setup_teardown(a_directory_others_can_write_to_is_refused, place_setup,
                                        place_teardown),
        cmocka_unit_test_setup_teardown(below_a_directory_there_are_single_names_and_no_mounts,
                                        place_setup, place_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
