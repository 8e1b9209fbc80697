/* test-runfile.c - run.json and the lock beside it.
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
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/remove_tree.h"
#include "base/runfile.h"
#include "core/clean.h"

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

static void folder_write(const struct folder *folder, const char *text)
{
    char path[128];
    FILE *out;

    snprintf(path, sizeof(path), "%s/run.json", folder->path);
    out = fopen(path, "we");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
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
        folder_write(folder, bad[i]);
        assert_int_equal(runfile_read(folder->path, &file, &err), -EINVAL);
        assert_non_null(strstr(err.text, path));
    }
}

static void an_agent_reads_which_ranks_are_on_its_node(void **state)
{
    const struct folder *folder = *state;
    struct runfile file = { .id = "r1", .layout = { .ranks = 5, .nodes = 2 }, .pid = 10 }, back;
    struct runfile_ranks ranks;
    struct err err = { "" };

    assert_int_equal(runfile_write(folder->path, &file, NULL), 0);
    assert_int_equal(runfile_read_node(folder->path, "n1", &back, &ranks, NULL), 0);
    assert_string_equal(back.id, "r1");
    assert_int_equal(back.pid, 10);
    assert_false(ranks.all);
    assert_int_equal(ranks.count, 2);
    assert_int_equal(ranks.rank[0], 3);
    assert_int_equal(ranks.rank[1], 4);
    free(ranks.rank);
    runfile_fini(&back);
    assert_int_equal(runfile_read_node(folder->path, "n2", &back, &ranks, &err), -EINVAL);
    assert_non_null(strstr(err.text, "no node n2"));
}

static void an_agent_needs_neither_id_nor_nodes_nor_ranks(void **state)
{
    const struct folder *folder = *state;
    static const char *const texts[] = {
        "{\"rings\":\"/r\"}",
        "{\"rings\":\"/r\",\"ranks\":4}",
        "{\"rings\":\"/r\",\"ranks\":4,\"nodes\":[{\"name\":\"n7\",\"ranks\":[0]}]}",
        "{\"rings\":\"/r\",\"ranks\":0,\"nodes\":[{\"name\":\"a\"},{\"name\":\"b\"}]}",
    };

    for (size_t i = 0; i < COUNT(texts); i++) {
        struct runfile_ranks ranks;
        struct runfile file;

        folder_write(folder, texts[i]);
        assert_int_equal(runfile_read_node(folder->path, "n0", &file, &ranks, NULL), 0);
        assert_string_equal(file.rings, "/r");
        assert_true(ranks.all);
        free(ranks.rank);
        runfile_fini(&file);
    }
}

/* An agent of a large cluster must not take such a run for one without ranks. */
static void only_a_launcher_bounds_the_number_of_ranks(void **state)
{
    const struct folder *folder = *state;
    struct runfile_ranks ranks;
    struct runfile file;

    folder_write(folder,
                 "{\"id\":\"x\",\"ranks\":100000,\"nodes\":[{\"name\":\"a\",\"ranks\":[99999]},"
                 "{\"name\":\"b\"}]}");
    assert_int_equal(runfile_read_node(folder->path, "a", &file, &ranks, NULL), 0);
    assert_int_equal(file.layout.ranks, 100000);
    assert_int_equal(ranks.count, 1);
    assert_int_equal(ranks.rank[0], 99999);
    free(ranks.rank);
    runfile_fini(&file);
    assert_int_equal(runfile_read(folder->path, &file, NULL), 0);
    assert_int_equal(file.layout.ranks, 0);
    runfile_fini(&file);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(is_read_as_it_was_written, folder_make, folder_remove),
        cmocka_unit_test_setup_teardown(tells_how_it_ended, folder_make, folder_remove),
        cmocka_unit_test_setup_teardown(refuses_what_is_no_run, folder_make, folder_remove),
        cmocka_unit_test_setup_teardown(an_agent_reads_which_ranks_are_on_its_node, folder_make,
                                        folder_remove),
        cmocka_unit_test_setup_teardown(an_agent_needs_neither_id_nor_nodes_nor_ranks, folder_make,
                                        folder_remove),
        cmocka_unit_test_setup_teardown(only_a_launcher_bounds_the_number_of_ranks, folder_make,
                                        folder_remove),
        cmocka_unit_test_setup_teardown(the_lock_lives_as_long_as_one_of_its_holders, folder_make,
                                        folder_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
