/* test-slurm-config.c - what is wanted of configurations as scontrol prints them.
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

#include <errno.h>

#include "slurm/slurm_config.h"

#define BARE                                                                                       \
    "Configuration data as of 2026-11-19T20:38:34\n"                                               \
    "Epilog                  = (null)\n"                                                           \
    "HealthCheckInterval     = 0 sec\n"                                                            \
    "HealthCheckNodeState    = ANY\n"                                                              \
    "HealthCheckProgram      = (null)\n"                                                           \
    "JobRequeue              = 1\n"                                                                \
    "KillWait                = 30 sec\n"                                                           \
    "ProctrackType           = proctrack/linuxproc\n"                                              \
    "Prolog                  = (null)\n"                                                           \
    "PrologEpilogTimeout     = 65534\n"                                                            \
    "PrologFlags             = (null)\n"                                                           \
    "SchedulerParameters     = bf_interval=1,disable_job_shrink\n"                                 \
    "SlurmctldHost[0]        = vm(10.77.0.1)\n"                                                    \
    "SlurmctldParameters     = (null)\n"                                                           \
    "SLURM_VERSION           = 22.05.8\n"                                                          \
    "TaskProlog              = (null)\n"

static const struct slurm_wanted *wanted_of(const char *text, const char *key, unsigned at)
{
    static struct slurm_wanted wanted;

    for (size_t i = 0; i < slurm_want_count; i++) {
        if (strcmp(slurm_wants[i].key, key) != 0 || at-- > 0)
            continue;
        assert_int_equal(
            slurm_config_compare(text, strlen(text), "/etc/ls", &slurm_wants[i], &wanted, NULL), 0);
        return &wanted;
    }
    fail();
    return NULL;
}

static void check_line(const char *text, const char *key, unsigned at, unsigned state,
                       const char *line)
{
    const struct slurm_wanted *wanted = wanted_of(text, key, at);

    assert_int_equal(wanted->state, state);
    assert_string_equal(wanted->line, line);
}

static void a_bare_cluster_gets_a_line_for_all_that_is_wanted(void **state)
{
    (void)state;
    check_line(BARE, "Prolog", 0, SLURM_WANT_ADD, "Prolog=/etc/ls/prolog");
    check_line(BARE, "PrologFlags", 0, SLURM_WANT_ADD, "PrologFlags=Alloc");
    check_line(BARE, "TaskProlog", 0, SLURM_WANT_ADD, "TaskProlog=/etc/ls/task-prolog");
    check_line(BARE, "HealthCheckInterval", 0, SLURM_WANT_CHANGE, "HealthCheckInterval=300");
    check_line(BARE, "HealthCheckNodeState", 0, SLURM_WANT_CHANGE,
               "HealthCheckNodeState=IDLE,CYCLE");
    check_line(BARE, "KillWait", 0, SLURM_WANT_CHANGE, "KillWait=60");
    check_line(BARE, "JobRequeue", 0, SLURM_WANT_OK, "");
}

static void words_that_are_there_stay(void **state)
{
    (void)state;
    check_line(BARE, "SchedulerParameters", 0, SLURM_WANT_CHANGE,
               "SchedulerParameters=bf_interval=1,disable_job_shrink,nohold_on_prolog_fail");
    check_line("SLURM_VERSION = 22.05.8\nPrologFlags = X11,Alloc,Contain\nProlog = (null)\n",
               "PrologFlags", 0, SLURM_WANT_OK, "");
    /* Alloc is no part of another word. */
    check_line("SLURM_VERSION = 22.05.8\nPrologFlags = NoAlloc\nProlog = (null)\n", "PrologFlags",
               0, SLURM_WANT_CHANGE, "PrologFlags=NoAlloc,Alloc");
}

static void what_the_site_has_decided_is_only_advice(void **state)
{
    (void)state;
    check_line(BARE, "SchedulerParameters", 1, SLURM_WANT_ADVICE, "");
    check_line(BARE, "ProctrackType", 0, SLURM_WANT_ADVICE, "");
}

static void a_program_of_somebody_else_is_not_replaced(void **state)
{
    static const char text[] = "SLURM_VERSION = 22.05.8\n"
                               "HealthCheckInterval = 30 sec\n"
                               "HealthCheckNodeState = ANY\n"
                               "HealthCheckProgram = /usr/sbin/nhc\n"
                               "Prolog[0] = /etc/a\n"
                               "Prolog[1] = /etc/b\n"
                               "PrologFlags = (null)\n"
                               "Epilog = /etc/ls/epilog\n";

    (void)state;
    check_line(text, "HealthCheckProgram", 0, SLURM_WANT_TAKEN, "");
    assert_string_equal(wanted_of(text, "HealthCheckProgram", 0)->now, "/usr/sbin/nhc");
    check_line(text, "HealthCheckInterval", 0, SLURM_WANT_TAKEN, "");
    check_line(text, "HealthCheckNodeState", 0, SLURM_WANT_TAKEN, "");
    check_line(text, "Prolog", 0, SLURM_WANT_TAKEN, "");
    check_line(text, "PrologFlags", 0, SLURM_WANT_TAKEN, "");
    check_line(text, "Epilog", 0, SLURM_WANT_OK, "");
}

static void what_only_later_versions_know_is_not_written(void **state)
{
    (void)state;
    check_line(BARE, "SlurmctldParameters", 0, SLURM_WANT_NEWER, "");
    check_line("SLURM_VERSION = 25.11.0\nSlurmctldParameters = enable_rpc_queue\n",
               "SlurmctldParameters", 0, SLURM_WANT_CHANGE,
               "SlurmctldParameters=enable_rpc_queue,enable_expedited_requeue");
    assert_int_equal(slurm_config_version(BARE, strlen(BARE)), 2205);
    assert_int_equal(slurm_config_version("SLURM_VERSION = 26.05.5\n", 24), 2605);
}

static void a_set_is_compared_in_any_order(void **state)
{
    (void)state;
    check_line("SLURM_VERSION = 22.05.8\nHealthCheckProgram = /etc/ls/healthcheck\n"
               "HealthCheckNodeState = CYCLE,IDLE\n",
               "HealthCheckNodeState", 0, SLURM_WANT_OK, "");
}

static void a_text_that_is_no_configuration_is_refused(void **state)
{
    static const char twice[] = "SLURM_VERSION = 22.05.8\nKillWait = 5 sec\nKillWait = 90 sec\n";
    struct slurm_wanted wanted = { .state = SLURM_WANT_TAKEN };
    char value[8];

    (void)state;
    assert_int_equal(slurm_config_compare("busy\n", 5, "/d", &slurm_wants[0], &wanted, NULL),
                     -EBADMSG);
    assert_int_equal(wanted.state, SLURM_WANT_TAKEN);
    assert_null(wanted.want);
    assert_int_equal(slurm_config_value(twice, sizeof(twice) - 1, "KillWait", value, sizeof(value)),
                     -EBADMSG);
    assert_int_equal(slurm_config_value("Key = 123456789\n", 16, "Key", value, sizeof(value)),
                     -EMSGSIZE);
    assert_int_equal(slurm_config_value("Keys = 1\n", 9, "Key", value, sizeof(value)), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bare_cluster_gets_a_line_for_all_that_is_wanted),
        cmocka_unit_test(words_that_are_there_stay),
        cmocka_unit_test(what_the_site_has_decided_is_only_advice),
        cmocka_unit_test(a_program_of_somebody_else_is_not_replaced),
        cmocka_unit_test(what_only_later_versions_know_is_not_written),
        cmocka_unit_test(a_set_is_compared_in_any_order),
        cmocka_unit_test(a_text_that_is_no_configuration_is_refused),
    };

    return cmocka_run_group_tests_name("slurm-config", tests, NULL, NULL);
}
