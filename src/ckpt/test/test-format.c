/* test-format.c - the files of a checkpoint as bytes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ckpt/format/commit.h"
#include "ckpt/format/tensor_layout.h"
#include "core/clean.h"
#include "lockstep/ckpt.h"

static struct ckpt_tensor tensor_of(const char *name, uint8_t dtype, uint64_t rows,
                                    uint64_t columns)
{
    struct ckpt_tensor tensor = {
        .dtype = dtype, .dims = 2, .shape = { rows, columns }, .global_shape = { rows, columns }
    };

    tensor.name = strdup(name);
    assert_non_null(tensor.name);
    return tensor;
}

static void manifest_make(struct manifest *manifest)
{
    *manifest = (struct manifest){ .step = 7, .job = 3, .rank = 1, .world = 4, .group = 2 };
    assert_true(ARRAY_FIT_ZERO(manifest->tensor, manifest->tensor_room, 3));
    manifest->tensor[0] = tensor_of("b", LOCKSTEP_CKPT_U8, 3, 5);
    manifest->tensor[1] = tensor_of("a", LOCKSTEP_CKPT_F32, 2, 2);
    manifest->tensor[2] = tensor_of("c", LOCKSTEP_CKPT_F64, 0, 4);
    manifest->tensors = 3;
}

static void tensors_lie_aligned_and_without_holes(void **state)
{
    struct manifest manifest;
    struct buf header = { .data = NULL };
    size_t order[3];

    (void)state;
    manifest_make(&manifest);
    assert_int_equal(layout_make(&manifest, order, &header, NULL), 0);
    assert_string_equal(manifest.tensor[0].name, "c"); /* the largest elements first */
    assert_string_equal(manifest.tensor[1].name, "a");
    assert_string_equal(manifest.tensor[2].name, "b");
    assert_int_equal(order[2], 0);
    assert_int_equal(manifest.tensor[1].begin, 0);
    assert_int_equal(manifest.tensor[2].begin, 16);
    assert_int_equal(manifest.tensor[2].end, 31);
    assert_int_equal(header.size % CKPT_PAGE, 0);
    assert_int_equal(manifest.data_at, header.size);
    assert_int_equal(manifest.file_bytes, header.size + 31);
    assert_int_equal(header.data[8], '{');
    buf_fini(&header);
    manifest_fini(&manifest);
}

static void two_tensors_of_one_name_are_refused(void **state)
{
    struct manifest manifest;
    struct buf header = { .data = NULL };
    struct err err = { "" };
    size_t order[3];

    (void)state;
    manifest_make(&manifest);
    manifest.tensor[0].name[0] = 'a';
    assert_int_equal(layout_make(&manifest, order, &header, &err), -EEXIST);
    assert_string_equal(err.text, "two tensors have the name a");
    buf_fini(&header);
    manifest_fini(&manifest);
}

static void a_manifest_is_read_as_it_was_written(void **state)
{
    struct manifest manifest, read = { .step = 0 };
    struct buf header = { .data = NULL }, bytes = { .data = NULL };
    size_t order[3];

    (void)state;
    manifest_make(&manifest);
    assert_int_equal(layout_make(&manifest, order, &header, NULL), 0);
    manifest.blocks = 1;
    manifest.crc = calloc(1, sizeof(*manifest.crc));
    assert_non_null(manifest.crc);
    manifest.crc[0] = 0x12345678;
    manifest_encode(&manifest, false, &bytes);
    assert_int_equal(manifest_parse(bytes.data, bytes.size, false, &read, NULL), 0);
    assert_int_equal(read.step, 7);
    assert_int_equal(read.crc[0], 0x12345678);
    assert_string_equal(read.tensor[2].name, "b");
    manifest_fini(&read);
    assert_int_equal(manifest_parse(bytes.data, bytes.size, true, &read, NULL), -EPROTO);
    buf_fini(&header);
    buf_fini(&bytes);
    manifest_fini(&manifest);
}

static void slices_are_in_a_draft_only_and_lie_in_their_tensors(void **state)
{
    struct manifest manifest, read = { .step = 0 };
    struct buf header = { .data = NULL }, bytes = { .data = NULL };
    size_t order[3];

    (void)state;
    manifest_make(&manifest);
    assert_int_equal(layout_make(&manifest, order, &header, NULL), 0);
    assert_true(ARRAY_FIT_ZERO(manifest.slice, manifest.slice_room, 1));
    manifest.slice[0] = (struct replica_slice){ .tensor = 2, .row = 0, .rows = 1 };
    manifest.slices = 1;
    manifest_encode(&manifest, true, &bytes);
    assert_int_equal(manifest_parse(bytes.data, bytes.size, true, &read, NULL), 0);
    assert_int_equal(read.slices, 1);
    assert_int_equal(read.slice[0].tensor, 2);
    assert_int_equal(manifest_slice_bytes(&read, &read.slice[0]),
                     manifest_slice_bytes(&manifest, &manifest.slice[0]));
    manifest_fini(&read);
    for (int wrong = 0; wrong < 4; wrong++) {
        manifest.slice[0] = (const struct replica_slice[]){
            { .tensor = 3, .rows = 1 },
            { .tensor = 2, .rows = 0 },
            { .tensor = 2, .row = UINT64_MAX, .rows = 2 },
            { .tensor = 2, .rows = UINT64_MAX },
        }[wrong];
        bytes.size = 0;
        manifest_encode(&manifest, true, &bytes);
        assert_int_equal(manifest_parse(bytes.data, bytes.size, true, &read, NULL), -EPROTO);
    }
    manifest.blocks = 1;
    manifest.crc = calloc(1, sizeof(*manifest.crc));
    assert_non_null(manifest.crc);
    bytes.size = 0;
    manifest_encode(&manifest, false, &bytes);
    assert_int_equal(manifest_parse(bytes.data, bytes.size, false, &read, NULL), 0);
    assert_int_equal(read.slices, 0);
    manifest_fini(&read);
    buf_fini(&header);
    buf_fini(&bytes);
    manifest_fini(&manifest);
}

static void a_flipped_bit_anywhere_in_a_commit_is_found(void **state)
{
    struct commit commit = { .step = 9, .job = 5, .world = 3, .group = 2 }, read = { .step = 0 };
    struct buf bytes = { .data = NULL };

    (void)state;
    assert_true(ARRAY_FIT_ZERO(commit.rank, commit.rank_room, 2));
    commit.rank[0] = (struct commit_rank){ .rank = 0, .manifest_bytes = 10, .file_bytes = 20 };
    commit.rank[1] = (struct commit_rank){ .rank = 2, .manifest_bytes = 11, .file_bytes = 21 };
    commit_encode(&commit, &bytes);
    assert_int_equal(commit_parse(bytes.data, bytes.size, &read, NULL), 0);
    assert_int_equal(read.rank[1].rank, 2);
    commit_fini(&read);
    for (size_t bit = 0; bit < bytes.size * 8; bit++) {
        bytes.data[bit / 8] ^= (unsigned char)(1 << (bit % 8));
        assert_int_equal(commit_parse(bytes.data, bytes.size, &read, NULL), -EPROTO);
        bytes.data[bit / 8] ^= (unsigned char)(1 << (bit % 8));
    }
    buf_fini(&bytes);
    commit_fini(&commit);
}

static void a_tensor_too_large_to_count_is_refused(void **state)
{
    struct ckpt_tensor tensor = { .dtype = LOCKSTEP_CKPT_F32,
                                  .dims = 3,
                                  .shape = { UINT64_C(1) << 32, UINT64_C(1) << 32, 1 },
                                  .global_shape = { UINT64_C(1) << 32, UINT64_C(1) << 32, 1 } };
    uint64_t bytes;

    (void)state;
    assert_int_equal(ckpt_tensor_bytes(&tensor, &bytes, NULL), -EINVAL);
}

static void names_that_hide_text_are_refused(void **state)
{
    (void)state;
    assert_true(ckpt_name_ok("model.layers.0.weight"));
    assert_false(ckpt_name_ok(""));
    assert_false(ckpt_name_ok("__metadata__"));
    assert_false(ckpt_name_ok("a\nb"));
    assert_false(ckpt_name_ok("a\xff"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_lie_aligned_and_without_holes),
        cmocka_unit_test(two_tensors_of_one_name_are_refused),
        cmocka_unit_test(a_manifest_is_read_as_it_was_written),
        cmocka_unit_test(slices_are_in_a_draft_only_and_lie_in_their_tensors),
        cmocka_unit_test(a_flipped_bit_anywhere_in_a_commit_is_found),
        cmocka_unit_test(a_tensor_too_large_to_count_is_refused),
        cmocka_unit_test(names_that_hide_text_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
