/* test-tree.c - what is removed, and what must never be.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/remove_tree.h"
#include "core/clean.h"

#define RACES 30 /* removals beside somebody who exchanges a link and a directory */
#define MANY 100

struct place {
    char path[64];
    char tree[96], kept[96];
};

static void file_make(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    close(fd);
}

static void files_make(const char *directory)
{
    char file[160];

    for (int i = 0; i < MANY; i++) {
        snprintf(file, sizeof(file), "%s/precious-%d", directory, i);
        file_make(file);
    }
}

static int place_setup(void **state)
{
    struct place *place = calloc(1, sizeof(*place));

    strcpy(place->path, "/tmp/lockstep-test-tree-XXXXXX");
    assert_non_null(mkdtemp(place->path));
    snprintf(place->tree, sizeof(place->tree), "%s/tree", place->path);
    snprintf(place->kept, sizeof(place->kept), "%s/kept", place->path);
    assert_int_equal(mkdir(place->tree, 0700), 0);
    assert_int_equal(mkdir(place->kept, 0700), 0);
    files_make(place->kept);
    *state = place;
    return 0;
}

static int place_teardown(void **state)
{
    struct place *place = *state;

    assert_int_equal(tree_remove(place->path), 0);
    assert_int_equal(access(place->path, F_OK), -1);
    free(place);
    return 0;
}

static bool kept_is_there(const struct place *place)
{
    char file[160];
    int there = 0;

    for (int i = 0; i < MANY; i++) {
        snprintf(file, sizeof(file), "%s/precious-%d", place->kept, i);
        there += access(file, F_OK) == 0;
    }
    return there == MANY;
}

static void files_links_and_directories_go(void **state)
{
    const struct place *place = *state;
    char path[160];

    for (int i = 0; i < 300; i++) {
        snprintf(path, sizeof(path), "%s/%d", place->tree, i);
        assert_int_equal(mkdir(path, 0700), 0);
        snprintf(path, sizeof(path), "%s/%d/file", place->tree, i);
        file_make(path);
    }
    snprintf(path, sizeof(path), "%s/link", place->tree);
    assert_int_equal(symlink(place->kept, path), 0);
    snprintf(path, sizeof(path), "%s/", place->tree); /* with a slash at its end */
    assert_int_equal(tree_remove(path), 0);
    assert_int_equal(access(place->tree, F_OK), -1);
    assert_true(kept_is_there(place));
}

static void a_link_in_the_place_of_the_directory_goes_alone(void **state)
{
    const struct place *place = *state;

    assert_int_equal(rmdir(place->tree), 0);
    assert_int_equal(symlink(place->kept, place->tree), 0);
    assert_int_equal(tree_remove(place->tree), 0);
    assert_int_equal(access(place->tree, F_OK), -1);
    assert_true(kept_is_there(place));
    assert_int_equal(tree_remove(place->tree), -ENOENT);
}

static void what_is_too_deep_stays_and_is_reported(void **state)
{
    const struct place *place = *state;
    char path[512];
    size_t used = (size_t)snprintf(path, sizeof(path), "%s", place->tree);

    for (int i = 0; i < TREE_DEPTH + 4; i++) {
        used += (size_t)snprintf(path + used, sizeof(path) - used, "/d");
        assert_int_equal(mkdir(path, 0700), 0);
    }
    assert_int_equal(tree_remove(place->tree), -ELOOP);
    assert_int_equal(access(path, F_OK), 0);
    for (int i = 0; i < TREE_DEPTH + 4; i++) {
        assert_int_equal(rmdir(path), 0);
        *strrchr(path, '/') = '\0';
    }
}

static void a_directory_can_be_emptied_and_kept(void **state)
{
    const struct place *place = *state;
    CLEAN(fd_clean) int fd = open(place->tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char path[128];

    snprintf(path, sizeof(path), "%s/file", place->tree);
    file_make(path);
    assert_int_equal(tree_empty(fd), 0);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(access(place->tree, F_OK), 0);
}

/* tree/dir and beside, a directory and a link to what must be kept, change places all the time; both have the same
 * names.
 */
static pid_t exchanger_start(const struct place *place)
{
    char beside[128], dir[128];
    pid_t pid;

    snprintf(dir, sizeof(dir), "%s/dir", place->tree);
    snprintf(beside, sizeof(beside), "%s/beside", place->path);
    mkdir(place->tree, 0700);
    assert_int_equal(mkdir(dir, 0700), 0);
    files_make(dir);
    assert_int_equal(symlink(place->kept, beside), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        syscall(SYS_renameat2, AT_FDCWD, beside, AT_FDCWD, dir, 2 /* RENAME_EXCHANGE */);
        usleep(20);
    }
}

static void somebody_who_exchanges_links_gains_nothing(void **state)
{
    const struct place *place = *state;
    char beside[128];

    snprintf(beside, sizeof(beside), "%s/beside", place->path);
    for (int i = 0; i < RACES; i++) {
        pid_t pid = exchanger_start(place);

        tree_remove(place->tree);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        assert_true(kept_is_there(place));
        tree_remove(place->tree);
        tree_remove(beside);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_links_and_directories_go, place_setup,
                                        place_teardown),
        cmocka_unit_test_setup_teardown(a_link_in_the_place_of_the_directory_goes_alone,
                                        place_setup, place_teardown),
        cmocka_unit_test_setup_teardown(what_is_too_deep_stays_and_is_reported, place_setup,
                                        place_teardown),
        cmocka_unit_test_setup_teardown(a_directory_can_be_emptied_and_kept, place_setup,
                                        place_teardown),
        cmocka_unit_test_setup_teardown(somebody_who_exchanges_links_gains_nothing, place_setup,
                                        place_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
