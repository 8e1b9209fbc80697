/* test-rings.c - where the rings of a run may be.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "act/rings.h"
#include "base/remove_tree.h"

struct folder {
    char path[64];
};

static int folder_make(void **state)
{
    struct folder *folder = calloc(1, sizeof(*folder));

    strcpy(folder->path, "/tmp/lockstep-rings.XXXXXX");
    *state = folder;
    return mkdtemp(folder->path) ? 0 : -1;
}

static int folder_remove(void **state)
{
    tree_remove(((struct folder *)*state)->path);
    free(*state);
    return 0;
}

static void a_private_directory_is_its_owners_alone_and_has_a_name_of_its_own(void **state)
{
    const struct folder *folder = *state;
    struct path one, two;
    struct stat info;

    assert_int_equal(rings_private(folder->path, &one, NULL), 0);
    assert_int_equal(rings_private(folder->path, &two, NULL), 0);
    assert_string_not_equal(one.text, two.text);
    assert_int_equal(stat(one.text, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0700);
    assert_int_equal(rmdir(one.text) | rmdir(two.text), 0);
}

static void a_private_directory_is_not_made_where_others_could_take_it_away(void **state)
{
    const struct folder *folder = *state;
    struct path path;

    assert_int_equal(chmod(folder->path, 0777), 0);
    assert_int_equal(rings_private(folder->path, &path, NULL), -EPERM);
    assert_int_equal(chmod(folder->path, 01777), 0);
    assert_int_equal(rings_private(folder->path, &path, NULL), 0);
    assert_int_equal(rmdir(path.text), 0);
    assert_int_equal(rings_private("tmp", &path, NULL), -EINVAL);
    assert_int_equal(rings_private("/nowhere", &path, NULL), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_private_directory_is_its_owners_alone_and_has_a_name_of_its_own, folder_make,
            folder_remove),
        cmocka_unit_test_setup_teardown(
            a_private_directory_is_not_made_where_others_could_take_it_away, folder_make,
            folder_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
