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
#include "control/report/run_report.h"
#include "core/clean.h"

#define COST "straggler.cost-share"

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
    files.straggler_cost_share = filed;
    assert_int_equal(runlog_open(&settings, &log, NULL), 0);
    if (name)
        assert_int_equal(runlog_set(log, name, value, "admin", NULL), 0);
    assert_int_equal(runlog_tick(log, 0, NULL), 0);
    runlog_thresholds(log, &now);
    runlog_close(log);
    seen_fini(&seen);
    return now.straggler_cost_share;
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
        runlog_open(&(struct runlog_settings){ .dir = &place->dir, .seen = &seen }, &log, NULL), 0);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_a_person_changed_stays_until_the_file_changes,
                                        place_make, place_remove),
        cmocka_unit_test_setup_teardown(what_cannot_be_is_refused_and_not_logged, place_make,
                                        place_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
