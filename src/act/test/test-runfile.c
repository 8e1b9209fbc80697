/* test-runfile.c - run.json and the lock beside it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "act/rings.h"
#include "act/runfile.h"
#include "act/tell.h"
#include "base/tree.h"

struct folder {
    char path[64];
};

static int folder_make(void **state)
{
    struct folder *folder = calloc(1, sizeof(*folder));

    strcpy(folder->path, "/tmp/lockstep-runfile.XXXXXX");
    *state = folder;
    return mkdtemp(folder->path) ? 0 : -1;
}

static int folder_remove(void **state)
{
    tree_remove(((struct folder *)*state)->path);
    free(*state);
    return 0;
}

static void is_read_as_it_was_written(void **state)
{
    const struct folder *folder = *state;
    char *command[] = { (char[]){ "python" }, (char[]){ "a \"b\"\n" }, NULL };
    struct runfile file = { .id = "r1",
                            .rings = "/dev/shm/lockstep-0/r1",
                            .layout = { .ranks = 8, .nodes = 2, .host = "vm" },
                            .attempt = 2,
                            .restarts = 1,
                            .max_restarts = 3,
                            .pid = 10,
                            .keeper = 11,
                            .started_real_ns = INT64_C(1772361727123000000),
                            .command = command };
    struct runfile back;

    assert_int_equal(runfile_write(folder->path, &file, NULL), 0);
    assert_int_equal(runfile_read(folder->path, &back, NULL), 0);
    assert_string_equal(back.id, "r1");
    assert_string_equal(back.rings, file.rings);
    assert_int_equal(back.layout.ranks, 8);
    assert_int_equal(back.layout.nodes, 2);
    assert_int_equal(back.attempt, 2);
    assert_int_equal(back.pid, 10);
    assert_int_equal(back.started_real_ns, file.started_real_ns);
    assert_string_equal(back.command[1], command[1]);
    assert_null(back.command[2]);
    assert_false(back.ended);
    runfile_fini(&back);
}

static void tells_how_it_ended(void **state)
{
    const struct folder *folder = *state;
    struct runfile file = {
        .id = "r1", .layout = { .nodes = 1, .host = "vm" }, .ended = true, .exit = 137
    };
    struct runfile back;

    assert_int_equal(runfile_write(folder->path, &file, NULL), 0);
    assert_int_equal(runfile_read(folder->path, &back, NULL), 0);
    assert_true(back.ended);
    assert_int_equal(back.exit, 137);
    runfile_fini(&back);
}

static void refuses_what_is_no_run(void **state)
{
    const struct folder *folder = *state;
    const char *bad[] = {
        "", "[]", "{}", "{\"id\":\"x\"}", "{\"id\":1,\"nodes\":[1]}", "{\"id\":\"x\",\"nodes\":["
    };
    struct runfile file;
    struct err err = { "" };
    char path[128];

    assert_int_equal(runfile_read(folder->path, &file, &err), -ENOENT);
    snprintf(path, sizeof(path), "%s/run.json", folder->path);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        FILE *out = fopen(path, "we");

        fputs(bad[i], out);
        fclose(out);
        assert_int_equal(runfile_read(folder->path, &file, &err), -EINVAL);
        assert_non_null(strstr(err.text, path));
    }
}

static void the_lock_lives_as_long_as_one_of_its_holders(void **state)
{
    const struct folder *folder = *state;
    int lock, gate[2];
    pid_t keeper;
    char byte;

    assert_int_equal(runfile_lives(folder->path, NULL), 0);
    lock = runfile_lock(folder->path, NULL);
    assert_true(lock >= 0);
    assert_int_equal(pipe(gate), 0);
    keeper = fork();
    if (keeper == 0) {
        close(gate[1]);
        _exit(read(gate[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(lock);
    assert_int_equal(runfile_lives(folder->path, NULL), 1);
    assert_int_equal(runfile_lock(folder->path, NULL), -EBUSY);
    close(gate[1]);
    waitpid(keeper, NULL, 0);
    close(gate[0]);
    assert_int_equal(runfile_lives(folder->path, NULL), 0);
}

static void says_how_a_process_ended(void **state)
{
    char text[64];

    (void)state;
    tell_status_text(W_EXITCODE(3, 0), text, sizeof(text));
    assert_string_equal(text, "exited with 3");
    tell_status_text(9, text, sizeof(text));
    assert_string_equal(text, "killed by signal 9 (SIGKILL)");
    assert_int_equal(tell_status_code(9), 137);
    assert_int_equal(tell_status_code(W_EXITCODE(3, 0)), 3);
}

static void writes_a_command_as_a_shell_would_need_it(void **state)
{
    char *command[] = { (char[]){ "sh" }, (char[]){ "-c" }, (char[]){ "a b" }, (char[]){ "" },
                        NULL };
    char text[64], small[8];

    (void)state;
    tell_command_text(command, text, sizeof(text));
    assert_string_equal(text, "sh -c 'a b' ''");
    tell_command_text(command, small, sizeof(small));
    assert_string_equal(small, "sh -c '");
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
        cmocka_unit_test_setup_teardown(is_read_as_it_was_written, folder_make, folder_remove),
        cmocka_unit_test_setup_teardown(tells_how_it_ended, folder_make, folder_remove),
        cmocka_unit_test_setup_teardown(refuses_what_is_no_run, folder_make, folder_remove),
        cmocka_unit_test_setup_teardown(the_lock_lives_as_long_as_one_of_its_holders, folder_make,
                                        folder_remove),
        cmocka_unit_test(says_how_a_process_ended),
        cmocka_unit_test(writes_a_command_as_a_shell_would_need_it),
        cmocka_unit_test_setup_teardown(
            a_private_directory_is_its_owners_alone_and_has_a_name_of_its_own, folder_make,
            folder_remove),
        cmocka_unit_test_setup_teardown(
            a_private_directory_is_not_made_where_others_could_take_it_away, folder_make,
            folder_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
