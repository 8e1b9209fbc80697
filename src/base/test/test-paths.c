/* test-paths.c - where runs live, and what a person may call one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/clean.h"
#include "core/time.h"

struct home {
    struct path path;
};

static int home_make(void **state)
{
    struct home *home = calloc(1, sizeof(*home));

    assert_non_null(home);
    strcpy(home->path.text, "/tmp/lockstep-test-paths-XXXXXX");
    assert_non_null(mkdtemp(home->path.text));
    unsetenv("XDG_STATE_HOME");
    unsetenv("TMPDIR");
    setenv("HOME", "/nowhere", 1);
    setenv("LOCKSTEP_STATE", home->path.text, 1);
    *state = home;
    return 0;
}

static int home_remove(void **state)
{
    struct home *home = *state;
    char command[PATH_MAX + 16];

    snprintf(command, sizeof(command), "rm -rf '%s'", home->path.text);
    assert_int_equal(system(command), 0);
    free(home);
    return 0;
}

static void run_make(const struct home *home, const char *name, bool with_json)
{
    struct path directory, file;

    assert_int_equal(paths_run_of(home->path.text, name, &directory, NULL), 0);
    assert_int_equal(path_make(directory.text, NULL), 0);
    if (!with_json)
        return;
    assert_int_equal(path_join(&file, directory.text, "run.json", NULL), 0);
    CLEAN(fd_clean) int fd = open(file.text, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
}

/* Files are dated by the coarse clock: what comes after its next tick is younger. */
static void tick_await(void)
{
    int64_t before = time_ns(CLOCK_REALTIME_COARSE);

    while (time_ns(CLOCK_REALTIME_COARSE) == before)
        continue;
}

static void the_state_directory_follows_the_environment(void **state)
{
    struct path path;

    (void)state;
    setenv("LOCKSTEP_STATE", "/a/b", 1);
    setenv("XDG_STATE_HOME", "/x", 1);
    setenv("HOME", "/h", 1);
    assert_int_equal(paths_state(&path, NULL), 0);
    assert_string_equal(path.text, "/a/b");
    unsetenv("LOCKSTEP_STATE");
    assert_int_equal(paths_state(&path, NULL), 0);
    assert_string_equal(path.text, "/x/lockstep");
    setenv("XDG_STATE_HOME", "relative", 1); /* must be absolute, else it does not count */
    assert_int_equal(paths_state(&path, NULL), 0);
    assert_string_equal(path.text, "/h/.local/state/lockstep");
}

static void a_directory_is_made_with_its_parents_for_the_owner_only(void **state)
{
    const struct home *home = *state;
    struct path path;
    struct stat st;
    struct err err;

    assert_int_equal(path_join(&path, home->path.text, "a/b//c/", NULL), 0);
    assert_int_equal(path_make(path.text, NULL), 0);
    assert_int_equal(path_make(path.text, NULL), 0); /* again is fine */
    assert_int_equal(stat(path.text, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    run_make(home, "file", true);
    assert_int_equal(path_join(&path, home->path.text, "runs/file/run.json/below", NULL), 0);
    assert_int_equal(path_make(path.text, &err), -ENOTDIR);
}

static void names_that_are_no_plain_word_are_refused(void **state)
{
    static const char *const bad[] = { "", ".", "..", "-n", "a/b", "a b", "a\n", ".hidden" };
    char big[65];

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_int_equal(paths_check_run(bad[i], NULL), -EINVAL);
    memset(big, 'a', 64);
    big[64] = '\0';
    assert_int_equal(paths_check_run(big, NULL), -EINVAL);
    assert_int_equal(paths_check_run(big + 1, NULL), 0);
    assert_int_equal(paths_check_run("20260301-104207-3f9a", NULL), 0);
}

static void a_fresh_name_sorts_by_time(void **state)
{
    char first[64], second[64];

    (void)state;
    paths_name_run(INT64_C(1772361727123999999), 0x13f9a, first);
    assert_string_equal(first, "20260301-104207-3f9a");
    paths_name_run(INT64_C(1772361728123999999), 0, second);
    assert_true(strcmp(first, second) < 0);
    assert_int_equal(paths_check_run(first, NULL), 0);
}

static void runs_are_listed_newest_first_and_other_folders_are_not(void **state)
{
    const struct home *home = *state;
    CLEAN(free_clean) struct run_entry *list = NULL;

    assert_int_equal(paths_list(&list, NULL), 0);
    run_make(home, "old", true);
    tick_await();
    run_make(home, "new", true);
    run_make(home, "stray", false);
    assert_int_equal(paths_list(&list, NULL), 2);
    assert_string_equal(list[0].name, "new");
    assert_string_equal(list[1].name, "old");
}

static void a_run_is_found_by_name_beginning_or_directory(void **state)
{
    const struct home *home = *state;
    struct path want, found;
    struct err err;

    assert_int_equal(paths_find(NULL, &found, &err), -ENOENT);
    assert_non_null(strstr(err.text, "no runs in"));
    run_make(home, "apple-1", true);
    run_make(home, "apple-2", true);
    run_make(home, "berry", true);
    assert_int_equal(path_join(&want, home->path.text, "runs/berry", NULL), 0);
    assert_int_equal(paths_find("berry", &found, NULL), 0);
    assert_string_equal(found.text, want.text);
    assert_int_equal(paths_find("b", &found, NULL), 0);
    assert_string_equal(found.text, want.text);
    assert_int_equal(paths_find(want.text, &found, NULL), 0);
    assert_string_equal(found.text, want.text);
    assert_int_equal(paths_find("apple", &found, &err), -ENOENT);
    assert_non_null(strstr(err.text, "2 runs"));
    assert_int_equal(paths_find("cherry", &found, &err), -ENOENT);
    assert_int_equal(paths_find("/tmp/no/such", &found, &err), -ENOENT);
    assert_int_equal(paths_find("", &found, NULL), 0);
}

static void a_run_lies_in_a_folder_where_no_file_of_ours_is(void **state)
{
    const struct home *home = *state;
    struct path path, want;
    DIR *dir = NULL;

    assert_int_equal(paths_run("tokens", &path, NULL), 0);
    assert_int_equal(path_join(&want, home->path.text, "runs/tokens", NULL), 0);
    assert_string_equal(path.text, want.text);
    assert_int_equal(paths_run_of("/s", "../up", &path, NULL), -EINVAL);
    assert_int_equal(paths_runs_open(home->path.text, &dir, NULL), 0);
    assert_null(dir); /* nothing made it yet */
    assert_int_equal(paths_runs_open("/nowhere/at/all", &dir, NULL), -ENOENT);
    run_make(home, "a", true);
    assert_int_equal(paths_runs_open(home->path.text, &dir, NULL), 0);
    assert_non_null(dir);
    closedir(dir);
}

static void a_named_directory_is_a_run_by_its_run_json_or_its_log(void **state)
{
    const struct home *home = *state;
    struct path directory, found, log;
    struct err err;

    run_make(home, "site", false);
    assert_int_equal(paths_run_of(home->path.text, "site", &directory, NULL), 0);
    assert_int_equal(paths_find(directory.text, &found, &err), -ENOENT);
    assert_int_equal(path_join(&log, directory.text, "log.lsf", NULL), 0);
    CLEAN(fd_clean) int fd = open(log.text, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(paths_find(directory.text, &found, &err), 0);
    assert_string_equal(found.text, directory.text);
}

static void rings_go_where_they_fit(void **state)
{
    struct path path;
    char want[64];

    (void)state;
    assert_int_equal(paths_rings("r", UINT64_MAX / 4, &path, NULL), 0);
    snprintf(want, sizeof(want), "/tmp/lockstep-%u/r", (unsigned)getuid());
    assert_string_equal(path.text, want);
    assert_int_equal(paths_rings("a/b", 0, &path, NULL), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_state_directory_follows_the_environment),
        cmocka_unit_test_setup_teardown(a_directory_is_made_with_its_parents_for_the_owner_only,
                                        home_make, home_remove),
        cmocka_unit_test(names_that_are_no_plain_word_are_refused),
        cmocka_unit_test(a_fresh_name_sorts_by_time),
        cmocka_unit_test_setup_teardown(runs_are_listed_newest_first_and_other_folders_are_not,
                                        home_make, home_remove),
        cmocka_unit_test_setup_teardown(a_run_is_found_by_name_beginning_or_directory, home_make,
                                        home_remove),
        cmocka_unit_test_setup_teardown(a_run_lies_in_a_folder_where_no_file_of_ours_is, home_make,
                                        home_remove),
        cmocka_unit_test_setup_teardown(a_named_directory_is_a_run_by_its_run_json_or_its_log,
                                        home_make, home_remove),
        cmocka_unit_test_setup_teardown(rings_go_where_they_fit, home_make, home_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
