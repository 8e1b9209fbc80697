/* test-save.c - verdicts from the notes of saves: the slow rank and its disk, skipped saves, an optimizer that stands still.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/slow/stall/stall.h"
#include "judge/test/bench.h"
#include "judge/wrong/corrupt.h"
#include "wire/save_note.h"

#define MS INT64_C(1000000)
#define RANKS 4

static struct bench open_with(bool values)
{
    struct lab_config config = layout(1, 1, RANKS);

    config.values = values;
    return bench_open(&config);
}

static struct save_note usual(const struct bench *bench)
{
    uint64_t step = bench->lab->step;

    return (struct save_note){ .step = step,
                               .saved_in = step,
                               .bytes = 1000000000,
                               .write_us = 500000,
                               .tensors = 9,
                               .moments = 4,
                               .disk = "sda1 (ext4)" };
}

static void put(struct bench *bench, uint32_t rank, const struct save_note *save)
{
    corrupt_save(&bench->judge, rank, save);
    stall_save(&bench->judge, rank, save);
}

static bool has(const struct verdict *verdict, const char *text)
{
    for (uint32_t i = 0; i < verdict->because_count; i++) {
        if (strstr(verdict->because[i].what, text))
            return true;
    }
    return false;
}

/* ---- slow ---- */

static void pauses(struct bench *bench, int64_t ns, int count)
{
    while (count-- > 0) {
        lab_judge_many(bench->lab, &bench->judge, 9);
        bench->lab->fault.checkpoint_ns = ns;
        lab_judge(bench->lab, &bench->judge);
        bench->lab->fault.checkpoint_ns = 0;
    }
}

/* A point that rank 2 took `slow_us` to write. */
static void point(struct bench *bench, uint64_t slow_us, uint64_t skipped)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        struct save_note save = usual(bench);

        if (rank == 2) {
            save.write_us = slow_us;
            snprintf(save.disk, sizeof(save.disk), "nvme1n1 (xfs)");
        }
        save.skipped = skipped;
        put(bench, rank, &save);
    }
}

static void all_wait_for_a_checkpoint_and_the_notes_name_the_slow_disk(void **state)
{
    struct bench bench = open_with(false);
    const struct tracked_verdict *tracked;

    (void)state;
    pauses(&bench, 25 * MS, 3);
    pauses(&bench, 4000 * MS, 1);
    tracked = lab_open(&bench.judge, VERDICT_CHECKPOINT_STALL, 0);
    assert_non_null(tracked);
    assert_int_equal(tracked->verdict.rank_count, 0); /* all of them waited alike */
    point(&bench, 3900000, 0);
    lab_judge_many(bench.lab, &bench.judge, 2);
    assert_int_equal(lab_open_count(&bench.judge, 0), 1); /* the same verdict knows more */
    assert_int_equal(tracked->verdict.layer, LAYER_STORAGE);
    assert_int_equal(tracked->verdict.rank_count, 1);
    assert_int_equal(tracked->verdict.rank[0], 2);
    assert_true(has(&tracked->verdict, "rank 2 took 3.9 s to write 1e+03 MB to nvme1n1 (xfs), the "
                                       "others 0.5 s (median)"));
    bench_close(&bench);
}

static void disks_that_are_alike_name_no_rank(void **state)
{
    struct bench bench = open_with(false);
    const struct tracked_verdict *tracked;

    (void)state;
    pauses(&bench, 25 * MS, 3);
    pauses(&bench, 4000 * MS, 1);
    point(&bench, 600000, 0);
    lab_judge_many(bench.lab, &bench.judge, 2);
    tracked = lab_open(&bench.judge, VERDICT_CHECKPOINT_STALL, 0);
    assert_int_equal(tracked->verdict.rank_count, 0);
    assert_int_equal(tracked->verdict.layer, LAYER_CHECKPOINT);
    assert_true(has(&tracked->verdict, "rank 2 took 0.6 s"));
    bench_close(&bench);
}

static void writing_that_took_most_of_the_pause_was_its_cause(void **state)
{
    struct bench bench = open_with(false);
    const struct tracked_verdict *tracked;

    (void)state;
    pauses(&bench, 25 * MS, 3);
    pauses(&bench, 600 * MS, 1);
    point(&bench, 520000, 0); /* and the others 0.5 s */
    lab_judge_many(bench.lab, &bench.judge, 2);
    tracked = lab_open(&bench.judge, VERDICT_CHECKPOINT_STALL, 0);
    assert_int_equal(tracked->verdict.rank_count, 0);
    assert_int_equal(tracked->verdict.layer, LAYER_STORAGE);
    bench_close(&bench);
}

/* Ranks 0 and 1 note a point twice: rank 2, whose disk is slow, has still to come. */
static void a_rank_that_notes_a_point_twice_is_one_rank(void **state)
{
    struct bench bench = open_with(false);
    const struct tracked_verdict *tracked;
    struct save_note save;

    (void)state;
    pauses(&bench, 25 * MS, 3);
    pauses(&bench, 4000 * MS, 1);
    tracked = lab_open(&bench.judge, VERDICT_CHECKPOINT_STALL, 0);
    save = usual(&bench);
    for (uint32_t i = 0; i < RANKS; i++)
        put(&bench, i % 2, &save);
    lab_judge_many(bench.lab, &bench.judge, 2);
    assert_false(has(&tracked->verdict, "to write"));
    save.write_us = 3900000;
    put(&bench, 2, &save);
    save.write_us = 500000;
    put(&bench, 3, &save);
    lab_judge_many(bench.lab, &bench.judge, 2);
    assert_true(has(&tracked->verdict, "rank 2 took 3.9 s"));
    bench_close(&bench);
}

static void a_slow_disk_that_delays_nothing_is_no_fault(void **state)
{
    struct bench bench = open_with(false);

    (void)state;
    for (int i = 0; i < 6; i++) {
        pauses(&bench, 25 * MS, 1);
        point(&bench, 9000000, 3); /* once, long ago, saves were skipped */
    }
    assert_int_equal(bench.judge.verdicts.count, 0);
    bench_close(&bench);
}

static void saves_that_are_skipped_again_and_again_are_a_fault(void **state)
{
    struct bench bench = open_with(false);
    const struct verdict *verdict;

    (void)state;
    for (uint64_t i = 0; i < 3; i++) {
        pauses(&bench, 25 * MS, 1);
        assert_int_equal(bench.judge.verdicts.count, 0);
        point(&bench, 9000000, i);
    }
    assert_int_equal(lab_open_count(&bench.judge, VERDICT_CHECKPOINT_STALL), 1);
    verdict = &lab_open(&bench.judge, VERDICT_CHECKPOINT_STALL, 0)->verdict;
    assert_int_equal(verdict->layer, LAYER_STORAGE);
    assert_int_equal(verdict->rank[0], 2);
    assert_true(has(verdict, "4 saves were skipped"));
    assert_true(has(verdict, "nvme1n1 (xfs)"));
    pauses(&bench, 25 * MS, 4); /* no point came: it is not over */
    assert_int_equal(lab_open_count(&bench.judge, VERDICT_CHECKPOINT_STALL), 1);
    point(&bench, 500000, 2);
    lab_judge_many(bench.lab, &bench.judge, 300);
    assert_int_equal(lab_open_count(&bench.judge, 0), 0);
    bench_close(&bench);
}

/* ---- wrong ---- */

/* A point whose moments are as before on the ranks of `same`, a mask. */
static void moments(struct bench *bench, uint32_t same)
{
    lab_judge_many(bench->lab, &bench->judge, 20);
    for (uint32_t rank = RANKS; rank-- > 0;) {
        struct save_note save = usual(bench);

        save.moments_unchanged = same >> rank & 1 ? save.moments : 1;
        put(bench, rank, &save);
    }
}

static void moments_that_rest_while_the_loss_moves_are_corrupt(void **state)
{
    struct bench bench = open_with(true);
    const struct verdict *verdict;

    (void)state;
    moments(&bench, 0);
    moments(&bench, 1u << 1); /* 20 steps: an optimizer may skip some */
    assert_int_equal(bench.judge.verdicts.count, 0);
    moments(&bench, 1u << 1);
    verdict = &lab_open(&bench.judge, VERDICT_CORRUPTION, 0)->verdict;
    assert_int_equal(bench.judge.verdicts.count, 1);
    assert_int_equal(verdict->layer, LAYER_CHECKPOINT);
    assert_int_equal(verdict->rank_count, 1);
    assert_int_equal(verdict->rank[0], 1);
    assert_int_equal(verdict->since_step, 19);
    assert_true(has(verdict, "on 1 of 4 ranks"));
    assert_true(has(verdict, "meanwhile the loss moved"));
    lab_judge_many(bench.lab, &bench.judge, 200); /* until a point shows that it is over */
    assert_int_equal(lab_open_count(&bench.judge, VERDICT_CORRUPTION), 1);
    moments(&bench, 0);
    lab_judge_many(bench.lab, &bench.judge, 400);
    assert_int_equal(lab_open_count(&bench.judge, VERDICT_CORRUPTION), 0);
    bench_close(&bench);
}

/* A rank whose moments rest notes each point four times: the others would show that they are well. */
static void moments_of_a_rank_that_notes_twice_are_of_one_rank(void **state)
{
    struct bench bench = open_with(true);

    (void)state;
    moments(&bench, 0);
    for (int i = 0; i < 3; i++) {
        struct save_note save;

        lab_judge_many(bench.lab, &bench.judge, 20);
        save = usual(&bench);
        save.moments_unchanged = save.moments;
        for (int again = 0; again < RANKS; again++)
            put(&bench, 1, &save);
        assert_int_equal(bench.judge.verdicts.count, 0);
        save.moments_unchanged = 1;
        for (uint32_t rank = 0; i == 2 && rank < RANKS; rank++)
            put(&bench, rank, &save);
    }
    assert_true(has(&lab_open(&bench.judge, VERDICT_CORRUPTION, 0)->verdict, "on 1 of 4 ranks"));
    bench_close(&bench);
}

static void differs(struct bench *bench, uint32_t one, uint32_t other)
{
    struct fact_note note = { .rank = one };

    snprintf(
        note.text, sizeof(note.text),
        "replicas differ in the checkpoint of step %llu, saved in step %llu: rank %u and rank %u, "
        "tensor model.a tensor",
        (unsigned long long)bench->lab->step, (unsigned long long)bench->lab->step, one, other);
    assert_true(corrupt_saved_note(&bench->judge, &note));
}

static void replicas_that_differ_when_they_are_saved_are_one_verdict(void **state)
{
    struct bench bench = open_with(false);
    const struct verdict *verdict;

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, 20);
    differs(&bench, 3, 1);
    lab_judge_many(bench.lab, &bench.judge, 20);
    differs(&bench, 2, 3); /* another pair of the same fault */
    verdict = &lab_open(&bench.judge, VERDICT_CORRUPTION, 0)->verdict;
    assert_int_equal(bench.judge.verdicts.count, 1);
    assert_int_equal(verdict->rank_count, 2);
    assert_int_equal(verdict->rank[0], 1);
    assert_int_equal(verdict->rank[1], 3);
    assert_true(has(verdict, "tensor model.a tensor of rank 1 and rank 3 is not equal"));
    lab_judge_many(bench.lab, &bench.judge, 400); /* until a save shows that it is over */
    assert_int_equal(lab_open_count(&bench.judge, VERDICT_CORRUPTION), 1);
    moments(&bench, 0);
    lab_judge_many(bench.lab, &bench.judge, 400);
    assert_int_equal(lab_open_count(&bench.judge, VERDICT_CORRUPTION), 0);
    bench_close(&bench);
}

static void notes_of_other_words_are_not_about_replicas(void **state)
{
    static const char *const texts[] = {
        "",
        "replicas differ in the checkpoint of step 4, saved in step 4: rank 1 and rank 1, tensor a",
        "replicas differ in the checkpoint of step 4, saved in step 4: rank 1 and rank 2, tensor ",
        "replicas differ in the checkpoint of step 4, saved in step x: rank 1 and rank 2, tensor a",
    };
    struct bench bench = open_with(false);

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct fact_note note = { .rank = 1 };

        snprintf(note.text, sizeof(note.text), "%s", texts[i]);
        assert_false(corrupt_saved_note(&bench.judge, &note));
    }
    bench_close(&bench);
}

static void moments_of_all_ranks_are_one_verdict(void **state)
{
    struct bench bench = open_with(true);
    const struct verdict *verdict;

    (void)state;
    for (int i = 0; i < 4; i++)
        moments(&bench, i ? 0xf : 0);
    verdict = &lab_open(&bench.judge, VERDICT_CORRUPTION, 0)->verdict;
    assert_int_equal(bench.judge.verdicts.count, 1);
    assert_int_equal(verdict->rank_count, 0);
    assert_string_equal(verdict->group, "checkpoint");
    bench_close(&bench);
}

static void moments_that_rest_without_a_loss_or_gradients_are_no_fault(void **state)
{
    struct bench bench = open_with(false);

    (void)state;
    for (int i = 0; i < 4; i++)
        moments(&bench, i ? 0xf : 0);
    assert_int_equal(bench.judge.verdicts.count, 0);
    bench_close(&bench);
}

/* The point that is noted in the steps 20, 40 ..., before any of these steps is judged; its moments change in the step `changed`. */
static void moments_noted_ahead(struct bench *bench, uint64_t last, uint64_t changed)
{
    for (uint64_t step = 20; step <= last; step += 20) {
        struct save_note save = usual(bench);

        save.step = save.saved_in = step;
        save.moments_unchanged = step == 20 || step == changed ? 0 : save.moments;
        for (uint32_t rank = 0; rank < RANKS; rank++)
            put(bench, rank, &save);
    }
    assert_int_equal(bench->judge.verdicts.count, 0);
}

static void moments_that_are_noted_before_the_losses_come_are_judged_with_them(void **state)
{
    struct bench bench = open_with(true);

    (void)state;
    moments_noted_ahead(&bench, 80, 0);
    lab_judge_many(bench.lab, &bench.judge, 30); /* steps of both sides of the first save */
    assert_int_equal(bench.judge.verdicts.count, 0);
    lab_judge_many(bench.lab, &bench.judge, 30);
    assert_true(has(&lab_open(&bench.judge, VERDICT_CORRUPTION, 0)->verdict, "the loss moved"));
    assert_int_equal(bench.judge.verdicts.count, 1);
    bench_close(&bench);
}

static void moments_that_change_before_the_losses_come_are_no_fault(void **state)
{
    struct bench bench = open_with(true);

    (void)state;
    moments_noted_ahead(&bench, 80, 80);
    lab_judge_many(bench.lab, &bench.judge, 200);
    assert_int_equal(bench.judge.verdicts.count, 0);
    bench_close(&bench);
}

static void losses_after_the_save_do_not_show_that_its_moments_should_have_changed(void **state)
{
    struct bench bench = open_with(false);

    (void)state;
    moments_noted_ahead(&bench, 80, 0);
    lab_judge_many(bench.lab, &bench.judge, 85);
    bench.lab->config.values = true;
    lab_judge_many(bench.lab, &bench.judge, 60);
    assert_int_equal(bench.judge.verdicts.count, 0);
    bench_close(&bench);
}

static void an_optimizer_without_moments_is_no_fault(void **state)
{
    struct bench bench = open_with(true);

    (void)state;
    for (int i = 0; i < 6; i++) {
        struct save_note save;

        lab_judge_many(bench.lab, &bench.judge, 20);
        save = usual(&bench);
        save.moments = 0;
        for (uint32_t rank = 0; rank < RANKS; rank++)
            put(&bench, rank, &save);
    }
    assert_int_equal(bench.judge.verdicts.count, 0);
    bench_close(&bench);
}

static void notes_of_ranks_that_do_not_exist_are_dropped(void **state)
{
    struct bench bench = open_with(true);
    struct save_note save;

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, 5);
    save = usual(&bench);
    put(&bench, RANKS, &save);
    put(&bench, UINT32_MAX, &save);
    save.saved_in = UINT64_MAX;
    put(&bench, 0, &save);
    assert_int_equal(bench.judge.verdicts.count, 0);
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_wait_for_a_checkpoint_and_the_notes_name_the_slow_disk),
        cmocka_unit_test(disks_that_are_alike_name_no_rank),
        cmocka_unit_test(writing_that_took_most_of_the_pause_was_its_cause),
        cmocka_unit_test(a_rank_that_notes_a_point_twice_is_one_rank),
        cmocka_unit_test(a_slow_disk_that_delays_nothing_is_no_fault),
        cmocka_unit_test(saves_that_are_skipped_again_and_again_are_a_fault),
        cmocka_unit_test(moments_that_rest_while_the_loss_moves_are_corrupt),
        cmocka_unit_test(moments_of_a_rank_that_notes_twice_are_of_one_rank),
        cmocka_unit_test(replicas_that_differ_when_they_are_saved_are_one_verdict),
        cmocka_unit_test(notes_of_other_words_are_not_about_replicas),
        cmocka_unit_test(moments_of_all_ranks_are_one_verdict),
        cmocka_unit_test(moments_that_rest_without_a_loss_or_gradients_are_no_fault),
        cmocka_unit_test(moments_that_are_noted_before_the_losses_come_are_judged_with_them),
        cmocka_unit_test(moments_that_change_before_the_losses_come_are_no_fault),
        cmocka_unit_test(losses_after_the_save_do_not_show_that_its_moments_should_have_changed),
        cmocka_unit_test(an_optimizer_without_moments_is_no_fault),
        cmocka_unit_test(notes_of_ranks_that_do_not_exist_are_dropped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
