/* test-runlog.c - thresholds and the log: who changed what, and what holds after a restart.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/log/runlog.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/remove_tree.h"
#include "base/runfile.h"
#include "control/log/spools.h"
#include "control/report/run_report.h"
#include "control/test/runlog_whole.h"
#include "core/clean.h"
#include "core/time.h"
#include "wire/decision.h"
#include "wire/finding.h"
#include "wire/member.h"

#define COST "verdict.least-cost"

struct place {
    char path[64];
    struct rundir dir;
};

static int place_make(void **state)
{
    struct place *place = calloc(1, sizeof(*place));

    log_quiet(1);
    strcpy(place->path, "/tmp/lockstep-runlog-XXXXXX");
    if (!mkdtemp(place->path) || rundir_open(&place->dir, place->path, NULL) < 0)
        return -1;
    *state = place;
    return 0;
}

static int place_remove(void **state)
{
    struct place *place = *state;

    tree_remove(place->path);
    free(place);
    return 0;
}

/* Opens the log with what files say, makes one change if `name`, and tells what holds then. */
static double cost_after(struct place *place, double filed, const char *name, double value)
{
    struct thresholds files, now;
    struct runlog *log = NULL;
    struct seen seen = { 0 };
    struct runlog_settings settings = { .dir = &place->dir, .seen = &seen, .thresholds = &files };

    thresholds_default(&files);
    files.verdict_least_cost = filed;
    assert_int_equal(runlog_open_whole(&settings, &log), 0);
    if (name)
        assert_int_equal(runlog_set(log, name, value, "admin", NULL), 0);
    assert_int_equal(runlog_tick(log, 0, NULL), 0);
    runlog_thresholds(log, &now);
    runlog_close(log);
    seen_fini(&seen);
    return now.verdict_least_cost;
}

/* Its tokens are for that name, and a directory given with --dir has any. */
static void a_run_has_the_name_in_its_run_json(void **state)
{
    struct place *place = *state;
    char name[] = "true", *command[] = { name, NULL };
    struct runfile file = { .id = "job-7",
                            .rings = "/dev/shm/none",
                            .layout = { .host = "n0", .ranks = 1, .nodes = 1 },
                            .command = command };
    struct rundir dir;

    assert_string_equal(place->dir.run, strrchr(place->path, '/') + 1);
    assert_int_equal(runfile_write(place->path, &file, NULL), 0);
    assert_int_equal(rundir_open(&dir, place->path, NULL), 0);
    assert_string_equal(dir.run, "job-7");
    strcpy(file.id, "../job"); /* not a name: it is no directory of ours */
    assert_int_equal(runfile_write(place->path, &file, NULL), 0);
    assert_int_equal(rundir_open(&dir, place->path, NULL), 0);
    assert_string_equal(dir.run, strrchr(place->path, '/') + 1);
}

static void what_a_person_changed_stays_until_the_file_changes(void **state)
{
    struct run_report_replay replay;

    assert_true(cost_after(*state, 0.01, NULL, 0) == 0.01);
    assert_true(cost_after(*state, 0.02, NULL, 0) == 0.02);
    assert_true(cost_after(*state, 0.02, COST, 0.5) == 0.5);
    assert_true(cost_after(*state, 0.02, NULL, 0) == 0.5); /* the file says nothing new */
    assert_true(cost_after(*state, 0.03, NULL, 0) == 0.03);
    assert_true(cost_after(*state, 0.01, NULL, 0) == 0.01); /* no file any more: the default */
    assert_int_equal(run_report_replay(((struct place *)*state)->path, &replay, NULL), 0);
    assert_int_equal(replay.different + replay.missing, 0);
}

static void what_cannot_be_is_refused_and_not_logged(void **state)
{
    struct place *place = *state;
    struct runlog *log = NULL;
    struct seen seen = { 0 };
    struct err err = { "" };
    struct stat before, after;

    assert_int_equal(
        runlog_open_whole(&(struct runlog_settings){ .dir = &place->dir, .seen = &seen }, &log), 0);
    assert_int_equal(runlog_tick(log, 0, NULL), 0);
    assert_int_equal(stat(place->dir.log.text, &before), 0);
    assert_int_equal(runlog_set(log, "no.such", 1, "admin", &err), -ENOENT);
    assert_int_equal(runlog_set(log, COST, 2, "admin", &err), -ERANGE);
    assert_int_equal(stat(place->dir.log.text, &after), 0);
    assert_int_equal(before.st_size, after.st_size);
    assert_int_equal(runlog_tick(log, TICK_LAST, NULL), 0);
    assert_int_equal(runlog_set(log, COST, 0.5, "admin", &err), -EALREADY);
    assert_true(runlog_is_closed(log));
    runlog_close(log);
    seen_fini(&seen);
}

/* ---- what nodes know, and what was done ---- */

static void take(struct runlog *log, uint64_t sender, uint16_t type, struct buf *payload)
{
    static uint64_t number;
    const struct frame frame = { .type = type,
                                 .version = FRAME_VERSION,
                                 .sender = sender,
                                 .boot = 1,
                                 .number = number++,
                                 .payload = payload->data,
                                 .payload_bytes = payload->size };

    assert_int_equal(runlog_take(log, &frame, 1, NULL), 0);
    buf_fini(payload);
}

static void take_begin(struct runlog *log)
{
    struct fact_run run = {
        .event = RUN_BEGIN, .ranks = 4, .mono_ns = time_mono_ns(), .real_ns = time_real_ns()
    };
    struct buf payload = { 0 };

    fact_run_put(&payload, &run);
    take(log, 7, FRAME_RUN, &payload);
    for (uint32_t rank = 0; rank < 4; rank++) {
        struct fact_ring ring = {
            .rank = rank, .world = 4, .pid = 100 + rank, .open_ns = run.mono_ns
        };

        snprintf(ring.node, sizeof(ring.node), "n%u", rank / 2);
        fact_ring_put(&payload, &ring);
        take(log, 8 + rank, FRAME_RING, &payload);
    }
}

static struct finding finding_now(const char *node, uint32_t pid)
{
    struct finding finding = { .real_ns = time_real_ns(),
                               .kind = FINDING_XID,
                               .class = FINDING_CLASS_HARDWARE,
                               .severity = FINDING_FATAL,
                               .origin = FINDING_FROM_KERNEL,
                               .pid = pid,
                               .count = 1 };

    snprintf(finding.node, sizeof(finding.node), "%s", node);
    finding_identify(&finding);
    return finding;
}

static void take_all(struct runlog *log)
{
    struct finding finding = finding_now("n1", 0);
    struct outcome outcome = { .decision = "d-1", .part = "launcher", .result = OUTCOME_DONE };
    struct check check = { .state = CHECK_FAILED, .node = "n1", .name = "gemm" };
    struct places places = { .mono_ns = time_mono_ns(), .allocated = 8, .spare = 1, .down = 3 };
    struct environment environment = { .node = "n1" };
    struct buf payload = { 0 };

    finding_put(&payload, &finding);
    take(log, site_sender(), FRAME_FINDING, &payload);
    finding_put(&payload, &finding);
    take(log, 9, FRAME_FINDING, &payload);
    outcome_put(&payload, &outcome);
    take(log, 7, FRAME_OUTCOME, &payload);
    check_put(&payload, &check);
    take(log, site_sender(), FRAME_CHECK, &payload);
    places_put(&payload, &places);
    take(log, 7, FRAME_PLACES, &payload);
    environment_put(&payload, &environment);
    take(log, 9, FRAME_ENVIRONMENT, &payload);
}

static void a_log_with_what_nodes_know_replays(void **state)
{
    struct place *place = *state;
    struct run_report_replay replay;
    struct runlog *log = NULL;
    struct seen seen = { 0 };

    for (int life = 0; life < 2; life++) {
        assert_int_equal(
            runlog_open_whole(&(struct runlog_settings){ .dir = &place->dir, .seen = &seen }, &log),
            0);
        if (life == 0)
            take_begin(log);
        take_all(log);
        assert_int_equal(runlog_tick(log, 0, NULL), 0);
        take_all(log);
        assert_int_equal(runlog_tick(log, life ? TICK_LAST : 0, NULL), 0);
        runlog_close(log);
        seen_fini(&seen);
    }
    assert_int_equal(run_report_replay(place->path, &replay, NULL), 0);
    assert_int_equal(replay.different + replay.missing, 0);
    assert_true(replay.equal > 1);
}

static void a_finding_touches_ranks_of_its_process_or_node_while_they_run(void **state)
{
    struct place *place = *state;
    struct runlog *log = NULL;
    struct seen seen = { 0 };
    struct finding finding = finding_now("n1", 0);

    assert_int_equal(
        runlog_open_whole(&(struct runlog_settings){ .dir = &place->dir, .seen = &seen }, &log), 0);
    assert_int_equal(runlog_touch(log, &finding), CORE_TOUCH_NONE);
    take_begin(log);
    assert_int_equal(runlog_tick(log, 0, NULL), 0);
    assert_int_equal(runlog_touch(log, &finding), CORE_TOUCH_NODE);
    assert_int_equal(finding.rank_count, 2);
    assert_int_equal(finding.rank[0], 2);
    assert_int_equal(finding.rank[1], 3);
    finding.pid = 103;
    assert_int_equal(runlog_touch(log, &finding), CORE_TOUCH_PID);
    assert_int_equal(finding.rank_count, 1);
    assert_int_equal(finding.rank[0], 3);
    finding.pid = 101; /* of a rank on another node: pids are a node's own */
    assert_int_equal(runlog_touch(log, &finding), CORE_TOUCH_NODE);
    finding = finding_now("n9", 0);
    assert_int_equal(runlog_touch(log, &finding), CORE_TOUCH_NONE);
    finding = finding_now("n1", 0);
    finding.real_ns -= 3600 * NS_PER_S; /* before the run */
    assert_int_equal(runlog_touch(log, &finding), CORE_TOUCH_NONE);
    finding.error_ns = 3600 * NS_PER_S; /* or not */
    assert_int_equal(runlog_touch(log, &finding), CORE_TOUCH_NODE);
    assert_int_equal(runlog_tick(log, TICK_LAST, NULL), 0);
    finding = finding_now("n1", 0);
    assert_int_equal(runlog_touch(log, &finding), CORE_TOUCH_NODE); /* lines come a little late */
    finding.real_ns += 3600 * NS_PER_S;
    assert_int_equal(runlog_touch(log, &finding), CORE_TOUCH_NONE);
    finding.real_ns = INT64_MIN / 2; /* whatever it says */
    assert_int_equal(runlog_touch(log, &finding), CORE_TOUCH_NONE);
    runlog_close(log);
    seen_fini(&seen);
}

static void take_ring(struct runlog *log, uint32_t rank, const char *node, uint32_t attempt)
{
    struct fact_ring ring = {
        .rank = rank, .world = 4, .pid = 200 + rank, .attempt = attempt, .open_ns = time_mono_ns()
    };
    struct buf payload = { 0 };

    snprintf(ring.node, sizeof(ring.node), "%s", node);
    fact_ring_put(&payload, &ring);
    take(log, 20 + rank, FRAME_RING, &payload);
}

/* The GPU of a node is lost, and the kernel says so after the next attempt has begun there, whose rank ends before it is seen. */
static void a_finding_touches_where_ranks_were_until_they_are_elsewhere(void **state)
{
    struct place *place = *state;
    struct runlog *log = NULL;
    struct seen seen = { 0 };
    struct fact_run run = { .event = RUN_ATTEMPT_BEGIN,
                            .attempt = 1,
                            .ranks = 4,
                            .mono_ns = time_mono_ns(),
                            .real_ns = time_real_ns() };
    struct finding finding = finding_now("n1", 0);
    struct buf payload = { 0 };

    assert_int_equal(
        runlog_open_whole(&(struct runlog_settings){ .dir = &place->dir, .seen = &seen }, &log), 0);
    take_begin(log);
    assert_int_equal(runlog_tick(log, 0, NULL), 0);
    fact_run_put(&payload, &run);
    take(log, 7, FRAME_RUN, &payload);
    take_ring(log, 0, "n0", 1);
    take_ring(log, 1, "n0", 1);
    assert_int_equal(runlog_tick(log, 0, NULL), 0);
    assert_int_equal(runlog_touch(log, &finding), CORE_TOUCH_NODE);
    assert_int_equal(finding.rank_count, 2);
    assert_int_equal(finding.rank[0], 2);
    take_ring(log, 2, "n9", 1);
    take_ring(log, 3, "n9", 1);
    assert_int_equal(runlog_tick(log, 0, NULL), 0);
    assert_int_equal(runlog_touch(log, &finding), CORE_TOUCH_NONE);
    runlog_close(log);
    seen_fini(&seen);
}

/* A step more would be too much; what launchers say is not, or their ranks would end. */
static void a_launcher_is_heard_beyond_the_disk_limit(void **state)
{
    struct place *place = *state;
    struct runlog *log = NULL;
    struct seen seen = { 0 };
    struct member member = { .mono_ns = time_mono_ns(),
                             .real_ns = time_real_ns(),
                             .node = "n1",
                             .host = "127.0.0.1",
                             .port = 1,
                             .life = 1,
                             .state = MEMBER_IDLE,
                             .ranks = 1,
                             .nodes_min = 1,
                             .nodes_max = 1,
                             .lease_ns = 4 * NS_PER_S };
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct frame frame = {
        .type = FRAME_STEP, .version = FRAME_VERSION, .sender = 8, .boot = 1, .payload_bytes = 100
    };
    int result = 0;

    member_put(&payload, &member);
    frame.payload = payload.data;
    assert_true(payload.size >= frame.payload_bytes);
    assert_int_equal(
        runlog_open_whole(
            &(struct runlog_settings){ .dir = &place->dir, .seen = &seen, .disk_max = 16384 },
            &log),
        0);
    for (int i = 0; i < 400 && result == 0; i++) {
        frame.number = (uint64_t)i;
        result = runlog_take(log, &frame, 1, NULL);
    }
    assert_int_equal(result, -EFBIG);
    for (int i = 0; i < 3; i++)
        take(log, 7, FRAME_MEMBER,
             &(struct buf){ .data = memcpy(malloc(payload.size), payload.data, payload.size),
                            .size = payload.size });
    for (int i = 0; i < 200 && result != 0; i++) { /* and has an end, too */
        frame = (struct frame){ .type = FRAME_MEMBER,
                                .version = FRAME_VERSION,
                                .sender = 9,
                                .boot = 1,
                                .number = (uint64_t)i,
                                .payload = payload.data,
                                .payload_bytes = payload.size };
        result = runlog_take(log, &frame, 1, NULL) < 0 ? 0 : -1;
    }
    assert_int_equal(result, 0);
    runlog_close(log);
    seen_fini(&seen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_run_has_the_name_in_its_run_json, place_make,
                                        place_remove),
        cmocka_unit_test_setup_teardown(what_a_person_changed_stays_until_the_file_changes,
                                        place_make, place_remove),
        cmocka_unit_test_setup_teardown(what_cannot_be_is_refused_and_not_logged, place_make,
                                        place_remove),
        cmocka_unit_test_setup_teardown(a_log_with_what_nodes_know_replays, place_make,
                                        place_remove),
        cmocka_unit_test_setup_teardown(
            a_finding_touches_ranks_of_its_process_or_node_while_they_run, place_make,
            place_remove),
        cmocka_unit_test_setup_teardown(a_finding_touches_where_ranks_were_until_they_are_elsewhere,
                                        place_make, place_remove),
        cmocka_unit_test_setup_teardown(a_launcher_is_heard_beyond_the_disk_limit, place_make,
                                        place_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
