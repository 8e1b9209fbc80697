/* test-verify.c - a file that is read back: order of blocks, checksums of blocks, digests of tensors.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/format/tensor_digests.h"
#include "ckpt/store/point.h"
#include "core/clean.h"
#include "core/hash.h"
#include "lockstep/ckpt.h"

#define TENSORS 3
static const uint64_t sizes[TENSORS] = { 3 * (UINT64_C(4) << 20) + 77, 0,
                                         20 * (UINT64_C(4) << 20) + 5 };

struct saved {
    char path[64];
    int dir_fd;
    struct manifest manifest;
    unsigned char *data;
};

static int saved_digest(void *ctx, size_t tensor, const struct ckpt_digest *digest, struct err *err)
{
    struct saved *saved = ctx;

    (void)err;
    saved->manifest.tensor[tensor].digest = *digest;
    return 0;
}

static void saved_checksums_make(struct saved *saved)
{
    struct manifest *manifest = &saved->manifest;
    struct tensor_digests digests = { .manifest = manifest, .each = saved_digest, .ctx = saved };

    assert_int_equal(tensor_digests_open(&digests, NULL), 0);
    for (uint64_t at = 0, size; at < manifest->file_bytes; at += size) {
        size = MIN(manifest->file_bytes - at, CKPT_BLOCK);
        manifest->crc[at / CKPT_BLOCK] = crc32c(0, saved->data + at, size);
        for (uint64_t done = 0, part; done < size; done += part) { /* pieces of any size */
            part = MIN(size - done, 99991);
            assert_int_equal(
                tensor_digests_add(&digests, at + done, saved->data + at + done, part, NULL), 0);
        }
    }
    assert_int_equal(digests.tensor, TENSORS);
    tensor_digests_close(&digests);
}

static int saved_setup(void **state)
{
    struct saved *saved = calloc(1, sizeof(*saved));
    struct manifest *manifest = &saved->manifest;
    uint64_t at = 0;
    int fd;

    manifest->world = manifest->group = 1;
    manifest->data_at = 8192;
    assert_true(ARRAY_FIT_ZERO(manifest->tensor, manifest->tensor_room, TENSORS));
    for (; manifest->tensors < TENSORS; manifest->tensors++) {
        struct ckpt_tensor *tensor = &manifest->tensor[manifest->tensors];

        tensor->name = strdup((const char *[]){ "first", "empty", "last" }[manifest->tensors]);
        tensor->dtype = LOCKSTEP_CKPT_U8;
        tensor->begin = at;
        tensor->end = at += sizes[manifest->tensors];
    }
    manifest->file_bytes = manifest->data_at + at;
    manifest->blocks = ckpt_blocks(manifest->file_bytes);
    manifest->crc = calloc(manifest->blocks, sizeof(*manifest->crc));
    saved->data = malloc(manifest->file_bytes);
    for (uint64_t i = 0; i < manifest->file_bytes; i++)
        saved->data[i] = (unsigned char)(i * 2654435761u >> 13);
    saved_checksums_make(saved);
    snprintf(saved->path, sizeof(saved->path), "test-verify-XXXXXX");
    assert_non_null(mkdtemp(saved->path));
    saved->dir_fd = open(saved->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fd = openat(saved->dir_fd, "rank-00000.safetensors", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, saved->data, manifest->file_bytes), manifest->file_bytes);
    close(fd);
    *state = saved;
    return 0;
}

static int saved_teardown(void **state)
{
    struct saved *saved = *state;

    unlinkat(saved->dir_fd, "rank-00000.safetensors", 0);
    close(saved->dir_fd);
    rmdir(saved->path);
    manifest_fini(&saved->manifest);
    free(saved->data);
    free(saved);
    return 0;
}

static void a_file_as_it_was_saved_is_right(void **state)
{
    struct saved *saved = *state;
    struct point_check check = { .digests = true };
    struct ckpt_digest empty = ckpt_digest_of("", 0),
                       first = ckpt_digest_of(saved->data + 8192, sizes[0]);

    assert_memory_equal(saved->manifest.tensor[0].digest.byte, first.byte, sizeof(first.byte));
    assert_memory_equal(saved->manifest.tensor[1].digest.byte, empty.byte, sizeof(empty.byte));
    assert_int_equal(point_verify_file(saved->dir_fd, &saved->manifest, &check, NULL), 0);
}

static void a_digest_that_differs_is_found_although_all_checksums_are_right(void **state)
{
    struct saved *saved = *state;
    struct point_check blocks = { .threads = 2 }, digests = { .digests = true };

    for (size_t i = 0; i < TENSORS; i++) {
        struct err err = { "" };

        saved->manifest.tensor[i].digest.byte[15] ^= 1;
        assert_int_equal(point_verify_file(saved->dir_fd, &saved->manifest, &blocks, &err), 0);
        assert_int_equal(point_verify_file(saved->dir_fd, &saved->manifest, &digests, &err),
                         -EPROTO);
        assert_non_null(strstr(err.text, saved->manifest.tensor[i].name));
        saved->manifest.tensor[i].digest.byte[15] ^= 1;
    }
}

/* Each save reads another part: damage in any block is found by one of so many saves. */
static void parts_take_turns_and_make_up_the_whole(void **state)
{
    struct saved *saved = *state;
    const uint32_t parts = 5;

    for (uint64_t block = 1; block < saved->manifest.blocks; block += 11) {
        saved->manifest.crc[block] ^= 1;
        for (uint32_t turn = 0; turn <= parts; turn++) {
            struct point_check check = { .threads = 2, .part = turn, .parts = parts };

            assert_int_equal(point_verify_file(saved->dir_fd, &saved->manifest, &check, NULL),
                             block % parts == turn % parts ? -EPROTO : 0);
        }
        saved->manifest.crc[block] ^= 1;
    }
    assert_int_equal(point_file_parts(&saved->manifest, parts), parts);
    assert_int_equal(point_file_parts(&saved->manifest, 0), 1);
    assert_int_equal(point_file_parts(&saved->manifest, 1000), 1); /* too small to be cut */
}

struct pauses {
    unsigned asked, every;
};

static bool pauses_stop(void *ctx)
{
    struct pauses *pauses = ctx;

    return ++pauses->asked % pauses->every == 0;
}

/* However often it is interrupted: each block is read, each damage found, and what was read is not read again for ever. */
static void a_check_that_is_interrupted_goes_on_where_it_was(void **state)
{
    struct saved *saved = *state;

    for (uint32_t parts = 1; parts <= 3; parts += 2) {
        for (uint64_t block = 0; block < saved->manifest.blocks; block += 3) {
            for (int bad = 0; bad < 2; bad++) {
                struct pauses pauses = { .every = 2 + (unsigned)(block % 4) };
                uint64_t next = 0;
                struct point_check check = { .parts = parts,
                                             .part = (uint32_t)(block % parts),
                                             .stop = pauses_stop,
                                             .ctx = &pauses,
                                             .next = &next };
                int result = -ECANCELED, rounds = 0;

                saved->manifest.crc[block] ^= (uint32_t)bad;
                for (; result == -ECANCELED && rounds < 100; rounds++) {
                    pauses.asked = 0;
                    result = point_verify_file(saved->dir_fd, &saved->manifest, &check, NULL);
                }
                saved->manifest.crc[block] ^= (uint32_t)bad;
                assert_int_equal(result, bad ? -EPROTO : 0);
                assert_true(bad || next >= saved->manifest.blocks);
            }
        }
    }
}

struct order {
    uint64_t next, last;
};

static int order_check(void *ctx, uint64_t index, const unsigned char *data, size_t size,
                       struct err *err)
{
    struct order *order = ctx;

    (void)data, (void)size, (void)err;
    assert_int_equal(index, order->next++);
    return index == order->last ? -ERANGE : 0;
}

static void ordered_blocks_arrive_in_order_in_every_way(void **state)
{
    struct saved *saved = *state;

    for (enum blocks_way way = BLOCKS_URING; way < BLOCKS_WAYS; way++) {
        CLEAN(fd_clean)
        int fd = openat(saved->dir_fd, "rank-00000.safetensors",
                        O_RDONLY | O_CLOEXEC | blocks_open_flags(way));
        struct order order = { .last = UINT64_MAX };
        struct blocks_job job = { .fd = fd,
                                  .way = way,
                                  .bytes = saved->manifest.file_bytes,
                                  .ordered = true,
                                  .each = order_check,
                                  .ctx = &order };

        if (fd < 0 || blocks_run(&job, NULL) == -EOPNOTSUPP)
            continue; /* not possible on this file system */
        assert_int_equal(order.next, saved->manifest.blocks);
        order = (struct order){ .last = 7 }; /* and an error ends the run */
        assert_int_equal(blocks_run(&job, NULL), -ERANGE);
        assert_int_equal(order.next, 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_file_as_it_was_saved_is_right, saved_setup,
                                        saved_teardown),
        cmocka_unit_test_setup_teardown(
            a_digest_that_differs_is_found_although_all_checksums_are_right, saved_setup,
            saved_teardown),
        cmocka_unit_test_setup_teardown(parts_take_turns_and_make_up_the_whole, saved_setup,
                                        saved_teardown),
        cmocka_unit_test_setup_teardown(a_check_that_is_interrupted_goes_on_where_it_was,
                                        saved_setup, saved_teardown),
        cmocka_unit_test_setup_teardown(ordered_blocks_arrive_in_order_in_every_way, saved_setup,
                                        saved_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
