/* test-save-note.c - the note of a save: read back as it was written; any other text is another note.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "wire/facts.h"
#include "wire/save_note.h"

static const struct save_note sample = { .step = 15,
                                         .saved_in = 14,
                                         .bytes = 8589934592,
                                         .snapshot_us = 156000,
                                         .write_us = 3200000,
                                         .digest_us = 1700000,
                                         .commit_us = 40000,
                                         .verify_us = 3300000,
                                         .tensors = 64,
                                         .tensors_unchanged = 2,
                                         .moments = 40,
                                         .moments_unchanged = 1,
                                         .arena_bytes = 17246978048,
                                         .skipped = 3,
                                         .failed = 1,
                                         .disk = "nvme0n1p1 (ext4)" };

static void a_note_is_read_back_as_it_was_written(void **state)
{
    char text[sizeof(((struct fact_note *)0)->text)], again[sizeof(text)];
    struct save_note got;

    (void)state;
    assert_true(save_note_text(&sample, text, sizeof(text)));
    assert_string_equal(
        text, "saved checkpoint 15 in step 14: 8589934592 bytes; microseconds: snapshot 156000, "
              "write 3200000, digest 1700000, commit 40000, verify 3300000; unchanged 2/64 "
              "tensors, 1/40 moments; arena 17246978048; skipped 3, failed 1; disk "
              "nvme0n1p1 (ext4)");
    assert_true(save_note_parse(text, &got));
    assert_true(save_note_text(&got, again, sizeof(again)));
    assert_string_equal(text, again);
    assert_int_equal(got.arena_bytes, sample.arena_bytes);
    assert_int_equal(got.moments, sample.moments);
    assert_string_equal(got.disk, sample.disk);
}

static void another_text_is_another_note(void **state)
{
    static const struct {
        const char *from, *to;
    } change[] = {
        { "saved", "Saved" },     { "15", "015" },     { "15", "" },
        { "15", "-1" },           { "14:", "14 :" },   { "40000", "18446744073709551616" },
        { "2/64", "65/64" },      { "1/40", "41/40" }, { "nvme0n1p1", "nvme\x1b[31m" },
        { "; disk nvme", "nvme" }
    };
    struct save_note got;
    char text[336];

    (void)state;
    for (size_t i = 0; i < sizeof(change) / sizeof(change[0]); i++) {
        char whole[336], *at;

        assert_true(save_note_text(&sample, whole, sizeof(whole)));
        at = strstr(whole, change[i].from);
        assert_non_null(at);
        snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - whole), whole, change[i].to,
                 at + strlen(change[i].from));
        if (save_note_parse(text, &got))
            fail_msg("taken: %s", text);
    }
}

static void a_note_that_does_not_fit_is_not_cut(void **state)
{
    char text[100];

    (void)state;
    assert_false(save_note_text(&sample, text, sizeof(text)));
}

static void what_copies_took_is_read_back(void **state)
{
    const struct copy_note note = { .step = 15, .replicate_us = 2500000, .upload_us = 0 };
    struct copy_note got;
    struct save_note save;
    char text[128];

    (void)state;
    assert_true(copy_note_text(&note, text, sizeof(text)));
    assert_string_equal(text, "copied checkpoint 15; microseconds: replicate 2500000, upload 0");
    assert_true(copy_note_parse(text, &got));
    assert_int_equal(got.step, 15);
    assert_int_equal(got.replicate_us, 2500000);
    assert_int_equal(got.upload_us, 0);
    assert_false(save_note_parse(text, &save));
    assert_false(
        copy_note_parse("copied checkpoint 15; microseconds: replicate 1, upload 0 ", &got));
    assert_false(copy_note_parse("copied checkpoint 15; microseconds: replicate 1", &got));
    assert_false(copy_note_parse("", &got));
    assert_false(copy_note_text(&note, text, 40));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_note_is_read_back_as_it_was_written),
        cmocka_unit_test(another_text_is_another_note),
        cmocka_unit_test(a_note_that_does_not_fit_is_not_cut),
        cmocka_unit_test(what_copies_took_is_read_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
