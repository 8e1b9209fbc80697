/* test-night.c - the bars of a night, from the files that its script leaves.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/paths.h"
#include "base/remove_tree.h"
#include "core/clean.h"
#include "lab/drill/night.h"

#define DAY "2026-03-01T10:00:"
static char night_directory[64];

static void put(const char *name, const char *text)
{
    struct path path;
    FILE *file;

    assert_int_equal(path_join(&path, night_directory, name, NULL), 0);
    file = fopen(path.text, "we");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static const char good_swap[] = "{\"decisions\":[{\"id\":\"d-1\",\"answers\":\"st-1\",\"action\":"
                                "\"swap\",\"state\":\"ordered\",\"attempt\":0,"
                                "\"nodes\":[\"n2\"],\"decided_time\":\"" DAY
                                "11.000Z\",\"saves_gpu_seconds\":90.5,\"costs_gpu_seconds\":4.5},"
                                "{\"id\":\"d-2\",\"action\":\"start\",\"state\":\"ordered\","
                                "\"attempt\":1,\"nodes\":[\"n1\",\"n5\"]}]}";

/* 10:00:10 on that day is 1772359210. */
static int night_make(void **state)
{
    (void)state;
    snprintf(night_directory, sizeof(night_directory), "/tmp/lockstep-test-night-XXXXXX");
    if (!mkdtemp(night_directory))
        return -1;
    put("deeds", "1772359200.5 begins job-2\n1772359209.9 flips 2 rank-00002.safetensors 512\n"
                 "1772359210.000 fails n2 each read takes longer\n"
                 "1772359210.1 kernel n2 nvme nvme0: timeout\n1772359220.0 ends exit 0\n");
    put("job.out", "[rank 0] rank 0: checkpoint skipped: step 2: rank-00002.safetensors: wrong "
                   "checksum at byte 0\n"
                   "[rank 0] restored from checkpoint of step 1\n");
    put("why.json", "{\"verdicts\":[{\"id\":\"st-1\",\"kind\":\"straggler\",\"layer\":\"cpu\","
                    "\"cause\":\"load\",\"nodes\":[\"n2\"],"
                    "\"decided_time\":\"" DAY "08.000Z\",\"confidence\":0.9},"
                    "{\"id\":\"st-1\",\"kind\":\"straggler\",\"layer\":\"storage\",\"cause\":"
                    "\"disk does not respond\","
                    "\"nodes\":[\"n2\"],\"decided_time\":\"" DAY "10.900Z\",\"confidence\":0.8},"
                    "{\"id\":\"st-1\",\"kind\":\"straggler\",\"layer\":\"cpu\",\"cause\":\"load\","
                    "\"nodes\":[\"n5\"],"
                    "\"decided_time\":\"" DAY
                    "15.000Z\",\"confidence\":0.9}],\"restarts\":[],\"decisions\":[]}");
    put("decisions.json", good_swap);
    put("steps.json",
        "{\"steps\":[{\"step\":0,\"attempt\":0,\"loss\":4.5,\"begin_time\":\"" DAY
        "01.000Z\",\"seconds\":1},"
        "{\"step\":1,\"attempt\":0,\"loss\":3.25,\"begin_time\":\"" DAY "02.000Z\",\"seconds\":1},"
        "{\"step\":2,\"attempt\":0,\"loss\":null,\"begin_time\":\"" DAY "03.000Z\",\"seconds\":1},"
        "{\"step\":1,\"attempt\":1,\"loss\":3.25,\"begin_time\":\"" DAY
        "12.000Z\",\"seconds\":0.5},"
        "{\"step\":2,\"attempt\":1,\"loss\":2.125,\"begin_time\":\"" DAY
        "13.000Z\",\"seconds\":0.5}]}");
    put("reference.json", "{\"steps\":[{\"step\":0,\"loss\":4.5},{\"step\":1,\"loss\":3.25},{"
                          "\"step\":2,\"loss\":2.125}]}");
    put("nodes.after", "n1|idle|none\nn2|drained|lockstep: straggler disk st-1\nn5|idle|none\n");
    put("jobs.before", "JobState=RUNNING\n19 sleep 1000\n");
    put("jobs.after", "JobState=RUNNING\n19 sleep 1000\n");
    put("left", "");
    return 0;
}

static int night_remove(void **state)
{
    (void)state;
    return tree_remove(night_directory);
}

static void read_page(struct drill_page *page)
{
    static const struct night_plan plan = { .seed = 2, .fault = "slow-disk", .death = "abort" };
    struct err err = { "" };

    assert_int_equal(night_read(night_directory, &plan, page, &err), 0);
    assert_int_equal(page->faults, 1);
}

static void a_night_in_which_all_went_well_passes(void **state)
{
    CLEAN(free_clean) struct drill_page *page = calloc(1, sizeof(*page));
    uint32_t of;

    (void)state;
    assert_non_null(page);
    read_page(page);
    assert_string_equal(page->fault[0].why, "");
    assert_true(page->fault[0].passed && page->fault[0].right);
    assert_true(page->fault[0].detected_s > 0.89 && page->fault[0].detected_s < 0.91);
    assert_true(page->fault[0].recovered_s > 2.49 && page->fault[0].recovered_s < 2.51);
    assert_int_equal(page->fault[0].lost_steps, 2);
    assert_int_equal(drill_passed(page, &of), 1);
    assert_int_equal(of, 1);
}

/* Each file with one thing wrong misses the bar of that thing, and no other. */
static void each_bar_can_be_missed(void **state)
{
    static const struct {
        const char *file, *text, *why;
    } wrong[] = {
        { "nodes.after", "n1|idle|none\nn2|idle|none\n", "missed: drained" },
        { "nodes.after", "n1|drained|lockstep: too\nn2|drained|lockstep: x\n", "missed: others" },
        { "jobs.after", "JobState=FAILED\n", "missed: others" },
        { "jobs.after", "", "missed: others" },
        { "left", "n1: /dev/shm/lockstep-1\n", "missed: left behind" },
        { "job.out", "[rank 0] restored from checkpoint of step 1\n", "missed: restored" },
        { "reference.json",
          "{\"steps\":[{\"step\":0,\"loss\":4.5},{\"step\":1,\"loss\":3.25},{\"step\":2,\"loss\":2."
          "5}]}",
          "missed: losses" },
        { "reference.json", "{\"error\":\"no such run\"}", "missed: losses" },
        { "decisions.json", "{\"decisions\":[]}", "missed: verdict, decision, spare, first step" },
        { "why.json", "{\"verdicts\":[],\"restarts\":[],\"decisions\":[]}",
          "missed: verdict, first step" },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        CLEAN(free_clean) struct drill_page *page = calloc(1, sizeof(*page));

        assert_non_null(page);
        put(wrong[i].file, wrong[i].text);
        read_page(page);
        assert_false(page->fault[0].passed);
        assert_string_equal(page->fault[0].why, wrong[i].why);
        night_remove(NULL);
        assert_int_equal(night_make(NULL), 0);
    }
}

static void a_night_without_a_fault_is_none(void **state)
{
    static const struct night_plan plan = { .seed = 2, .fault = "slow-disk", .death = "abort" };
    CLEAN(free_clean) struct drill_page *page = calloc(1, sizeof(*page));
    struct err err = { "" };

    (void)state;
    put("deeds", "1772359200.5 begins job-2\n");
    assert_true(night_read(night_directory, &plan, page, &err) < 0);
    assert_string_equal(err.text, "nothing was injected");
}

static void half_of_the_nights_lose_a_gpu(void **state)
{
    unsigned gpus = 0, stops = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct night_plan plan, again;

        night_plan_draw(seed, &plan);
        night_plan_draw(seed, &again);
        assert_int_equal(plan.step, again.step);
        assert_true(plan.rank < 4);
        gpus += strcmp(plan.fault, "lost-gpu") == 0;
        stops += strcmp(plan.death, "stop") == 0;
    }
    assert_int_equal(gpus, 5);
    assert_true(stops > 0 && stops < 10);
}

#define NIGHT(name) cmocka_unit_test_setup_teardown(name, night_make, night_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        NIGHT(a_night_in_which_all_went_well_passes),
        NIGHT(each_bar_can_be_missed),
        NIGHT(a_night_without_a_fault_is_none),
        cmocka_unit_test(half_of_the_nights_lose_a_gpu),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
