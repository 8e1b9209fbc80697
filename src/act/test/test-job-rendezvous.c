/* test-job-rendezvous.c - Slurm's lists of hosts, and the key.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "act/job_rendezvous.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/net/token.h"
#include "base/remove_tree.h"
#include "core/clean.h"

static void hosts_are(const char *names, const char *expected)
{
    char text[256];

    assert_int_equal(job_rendezvous_hosts(names, 9, text, sizeof(text)), expected != NULL);
    if (expected)
        assert_string_equal(text, expected);
}

static void lists_of_hosts_are_expanded(void **state)
{
    (void)state;
    hosts_are("n1", "n1:9");
    hosts_are("n1,m2.site", "n1:9,m2.site:9");
    hosts_are("n[001-003,7],m3", "n001:9,n002:9,n003:9,n7:9,m3:9");
    hosts_are("gpu[9-11]-ib", "gpu9-ib:9,gpu10-ib:9,gpu11-ib:9");
}

static void what_is_no_list_is_refused(void **state)
{
    (void)state;
    hosts_are("", NULL);
    hosts_are("n[1-", NULL);
    hosts_are("n[]", NULL);
    hosts_are("n[a]", NULL);
    hosts_are("n[3-1]", NULL);
    hosts_are("n[0-99999999]", NULL);
    hosts_are("n[1-2]x[1-2]", NULL);
    hosts_are(",n1", NULL);
    hosts_are("n[000000000000000000000000000000000000000000000000001]", NULL);
    hosts_are("n[100-199]", NULL); /* no room */
}

static void all_launchers_of_a_step_find_the_same_place(void **state)
{
    char text[256], again[256], name[64];

    (void)state;
    unsetenv("SLURM_JOB_ID");
    assert_false(job_rendezvous_slurm_endpoint(text, sizeof(text)));
    assert_false(job_rendezvous_slurm_name(name));
    setenv("SLURM_JOB_ID", "4711", 1);
    setenv("SLURM_STEP_ID", "2", 1);
    setenv("SLURM_JOB_NODELIST", "n[1-4]", 1);
    setenv("SLURM_STEP_NODELIST", "n[1-2]", 1);
    assert_true(job_rendezvous_slurm_endpoint(text, sizeof(text)));
    assert_int_equal(strncmp(text, "n1:2", 4), 0);
    assert_non_null(strstr(text, ",n2:2"));
    assert_null(strstr(text, "n3"));
    assert_true(job_rendezvous_slurm_name(name));
    assert_string_equal(name, "slurm-4711-2");
    setenv("SLURM_STEP_ID", "3", 1);
    assert_true(job_rendezvous_slurm_endpoint(again, sizeof(again)));
    assert_string_not_equal(text, again); /* another port */
}

/* Also where a file has another one. */
static void the_key_is_taken_out_of_the_environment(void **state)
{
    char directory[] = "/tmp/test-meet-XXXXXX", key[64];
    struct launch_plan plan = { .rendezvous = "127.0.0.1:1",
                                .job_key = key,
                                .directory = directory };
    struct run_directory run_dir = { .lock = -1 };
    struct token token;
    struct job_rendezvous *rendezvous = NULL;
    struct err err = { "" };

    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(key, sizeof(key), "%s/key", directory);
    assert_int_equal(token_read_or_make(key, &token, &err), 0);
    assert_int_equal(path_join(&run_dir.directory, directory, ".", &err), 0);
    snprintf(run_dir.file.id, sizeof(run_dir.file.id), "job");
    setenv(RENDEZVOUS_KEY_VARIABLE, "0123456789abcdef0123", 1);
    assert_int_equal(job_rendezvous_open(&plan, &run_dir, &rendezvous, &err), 0);
    assert_null(getenv(RENDEZVOUS_KEY_VARIABLE));
    job_rendezvous_close(rendezvous);
    assert_int_equal(tree_remove(directory), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_hosts_are_expanded),
        cmocka_unit_test(what_is_no_list_is_refused),
        cmocka_unit_test(all_launchers_of_a_step_find_the_same_place),
        cmocka_unit_test(the_key_is_taken_out_of_the_environment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
