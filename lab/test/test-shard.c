/* test-shard.c - a checkpoint's shard is whole, or it is refused with the reason.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>

#include "core/buf.h"
#include "core/clean.h"
#include "lab/trainer/shard.h"

#define VALUES 64

struct folder {
    char path[64];
    float value[VALUES];
    struct shard shard;
};

static int folder_setup(void **state)
{
    struct folder *folder = calloc(1, sizeof(*folder));

    strcpy(folder->path, "/tmp/lockstep-test-shard-XXXXXX");
    assert_non_null(mkdtemp(folder->path));
    for (int i = 0; i < VALUES; i++)
        folder->value[i] = (float)i / 3;
    folder->shard = (struct shard){ .step = 40,
                                    .seed = 9,
                                    .rank = 2,
                                    .world = 4,
                                    .tp = 1,
                                    .pp = 2,
                                    .dp = 2,
                                    .count = VALUES,
                                    .value = folder->value };
    *state = folder;
    return 0;
}

static void shard_path(const struct folder *folder, uint64_t step, char out[static 160])
{
    snprintf(out, 160, "%s/rank-%05u.step-%012llu.shard", folder->path, folder->shard.rank,
             (unsigned long long)step);
}

static int folder_teardown(void **state)
{
    struct folder *folder = *state;
    uint64_t step[16];
    char path[160];
    int count = shard_list(folder->path, folder->shard.rank, step, COUNT(step), NULL);

    for (int i = 0; i < count; i++) {
        shard_path(folder, step[i], path);
        unlink(path);
    }
    assert_int_equal(rmdir(folder->path), 0); /* nothing else was left behind */
    free(folder);
    return 0;
}

static void reads_back_what_was_written(void **state)
{
    struct folder *folder = *state;
    float value[VALUES] = { 0 };
    struct err err = { "" };

    assert_int_equal(shard_write(folder->path, &folder->shard, &err), 0);
    assert_int_equal(shard_read(folder->path, &folder->shard, value, &err), 0);
    assert_memory_equal(value, folder->value, sizeof(value));
}

static void refuses_a_torn_file_at_every_length(void **state)
{
    struct folder *folder = *state;
    struct buf image = { 0 };
    struct shard shard;
    const void *values;

    shard_put(&image, &folder->shard);
    assert_int_equal(shard_get(image.data, image.size, &shard, &values, NULL), 0);
    for (size_t size = 0; size < image.size; size++) {
        unsigned char *copy =
            malloc(size ? size : 1); /* its own block: ASan sees one byte too far */

        memcpy(copy, image.data, size);
        assert_int_equal(shard_get(copy, size, &shard, &values, NULL), -EPROTO);
        free(copy);
    }
    buf_fini(&image);
}

static void refuses_any_bit_that_is_wrong(void **state)
{
    struct folder *folder = *state;
    struct buf image = { 0 };
    struct shard shard;
    const void *values;

    shard_put(&image, &folder->shard);
    for (size_t bit = 0; bit < image.size * 8; bit++) {
        image.data[bit / 8] ^= (unsigned char)(1u << (bit % 8));
        assert_int_equal(shard_get(image.data, image.size, &shard, &values, NULL), -EPROTO);
        image.data[bit / 8] ^= (unsigned char)(1u << (bit % 8));
    }
    buf_fini(&image);
}

static void names_the_damaged_file(void **state)
{
    struct folder *folder = *state;
    float value[VALUES];
    struct err err = { "" };
    char path[160];
    int fd;

    assert_int_equal(shard_write(folder->path, &folder->shard, NULL), 0);
    shard_path(folder, 40, path);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0 && pwrite(fd, "x", 1, 100) == 1);
    close(fd);
    assert_int_equal(shard_read(folder->path, &folder->shard, value, &err), -EPROTO);
    assert_non_null(strstr(err.text, "rank-00002.step-000000000040.shard: the values are damaged"));
}

static void refuses_a_shard_of_another_run(void **state)
{
    struct folder *folder = *state;
    struct shard want = folder->shard;
    float value[VALUES];
    struct err err = { "" };

    assert_int_equal(shard_write(folder->path, &folder->shard, NULL), 0);
    want.seed = 10;
    assert_int_equal(shard_read(folder->path, &want, value, &err), -ESTALE);
    assert_non_null(strstr(err.text, "written by another run: seed 9, tp=1,pp=2,dp=2"));
    want = folder->shard;
    want.tp = 2;
    want.pp = 1;
    assert_int_equal(shard_read(folder->path, &want, value, NULL), -ESTALE);
}

static void refuses_a_file_that_was_renamed(void **state)
{
    struct folder *folder = *state;
    struct shard want = folder->shard;
    float value[VALUES];
    char from[160], to[160];

    assert_int_equal(shard_write(folder->path, &folder->shard, NULL), 0);
    shard_path(folder, 40, from);
    shard_path(folder, 60, to);
    assert_int_equal(rename(from, to), 0);
    want.step = 60;
    assert_int_equal(shard_read(folder->path, &want, value, NULL), -EPROTO);
}

static void lists_its_own_newest_first_and_keeps_two(void **state)
{
    struct folder *folder = *state;
    uint64_t step[8];
    char path[160];
    int fd;

    for (folder->shard.step = 20; folder->shard.step <= 100; folder->shard.step += 20)
        assert_int_equal(shard_write(folder->path, &folder->shard, NULL), 0);
    snprintf(path, sizeof(path), "%s/rank-00002.tmp", folder->path); /* a crash while writing */
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    close(fd);
    assert_int_equal(shard_list(folder->path, 2, step, COUNT(step), NULL), 5);
    assert_int_equal(step[0], 100);
    assert_int_equal(step[4], 20);
    assert_int_equal(shard_list(folder->path, 1, step, COUNT(step), NULL), 0);
    /* Gone back to 60: what is newer stays, it may be the newest that all have. */
    assert_int_equal(shard_prune(folder->path, 2, 60, 2, NULL), 0);
    assert_int_equal(shard_list(folder->path, 2, step, COUNT(step), NULL), 4);
    assert_int_equal(step[3], 40);
    assert_int_equal(shard_prune(folder->path, 2, 100, 2, NULL), 0);
    assert_int_equal(shard_list(folder->path, 2, step, COUNT(step), NULL), 2);
    assert_int_equal(step[1], 80);
    assert_int_not_equal(access(path, F_OK), 0);
}

static void says_where_it_cannot_write(void **state)
{
    struct folder *folder = *state;
    struct err err = { "" };

    assert_true(shard_write("/nonexistent", &folder->shard, &err) < 0);
    assert_non_null(strstr(err.text, "/nonexistent"));
    assert_non_null(strstr(err.text, "No such file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads_back_what_was_written, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(refuses_a_torn_file_at_every_length, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(refuses_any_bit_that_is_wrong, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(names_the_damaged_file, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(refuses_a_shard_of_another_run, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(refuses_a_file_that_was_renamed, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(lists_its_own_newest_first_and_keeps_two, folder_setup,
                                        folder_teardown),
        cmocka_unit_test_setup_teardown(says_where_it_cannot_write, folder_setup, folder_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
