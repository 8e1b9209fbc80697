/* test-slurm-call.c - an scontrol of our own: it answers, refuses, hangs, prints too much or nonsense, or is not there.
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
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <errno.h>

#include "slurm/slurm_call.h"

static char folder[64];

static void scontrol_is(const char *script)
{
    char path[96];
    FILE *file;

    snprintf(path, sizeof(path), "%s/scontrol", folder);
    unlink(path);
    file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\n%s\n", script);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0755), 0);
}

static int folder_make(void **state)
{
    char path[512];

    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/lockstep-slurm.XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s:/usr/bin:/bin", folder);
    return setenv("PATH", path, 1);
}

static int folder_remove(void **state)
{
    char path[96];

    (void)state;
    snprintf(path, sizeof(path), "%s/scontrol", folder);
    unlink(path);
    snprintf(path, sizeof(path), "%s/words", folder);
    unlink(path);
    return rmdir(folder);
}

static void an_answer_is_read(void **state)
{
    struct slurm_node node;
    struct slurm_job job;

    (void)state;
    scontrol_is("case \"$2\" in node) echo \"NodeName=$3 State=IDLE Reason=x [root@1790000000]\";;"
                "*) echo \"JobId=$3 JobName=y\"; echo '   UserId=a(7) JobState=RUNNING StartTime='"
                "$(date +$SLURM_TIME_FORMAT);; esac");
    assert_int_equal(slurm_node_show("n3", SLURM_CALL_NS, &node, NULL), 0);
    assert_string_equal(node.name, "n3");
    assert_int_equal(slurm_job_show(17, SLURM_CALL_NS, &job, NULL), 0);
    assert_int_equal(job.id, 17);
    assert_true(job.start_real_ns > 0); /* the format of times was set */
}

static void a_refusal_is_told_from_a_failure(void **state)
{
    static const char *const change[] = { "StartTime=now", NULL };
    struct err err = { "" };

    (void)state;
    scontrol_is("echo 'slurm_update error: Access/permission denied' >&2; exit 1");
    assert_int_equal(slurm_job_update(3, change, SLURM_CALL_NS, &err), -EPERM);
    assert_non_null(strstr(err.text, "permission denied"));
    scontrol_is("printf 'Job \\033[31mis odd\\nmore\\n'; exit 3");
    assert_int_equal(slurm_job_update(3, change, SLURM_CALL_NS, &err), -EIO);
    assert_non_null(strstr(err.text, "exited with 3: Job ?[31mis odd"));
    scontrol_is("kill -9 $$");
    assert_int_equal(slurm_job_update(3, change, SLURM_CALL_NS, &err), -EIO);
}

static void a_program_that_hangs_is_killed(void **state)
{
    struct slurm_job job = { .id = 5 };
    struct err err = { "" };

    (void)state;
    scontrol_is("echo JobId=17; sleep 1000 & wait");
    assert_int_equal(slurm_job_show(17, NS_PER_S / 5, &job, &err), -ETIME);
    scontrol_is("exec >/dev/null 2>&1; exec sleep 1000"); /* its output ended, and it did not */
    assert_int_equal(slurm_job_show(17, NS_PER_S / 5, &job, &err), -ETIME);
    scontrol_is("sleep 1000 & exit 0"); /* what it started holds its output */
    assert_int_equal(slurm_job_show(17, NS_PER_S / 5, &job, &err), -ETIME);
    assert_int_equal(job.id, 5);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
}

static void nonsense_is_no_answer(void **state)
{
    struct slurm_job job;
    struct slurm_node node;

    (void)state;
    scontrol_is("exec yes");
    assert_int_equal(slurm_job_show(17, SLURM_CALL_NS, &job, NULL), -EMSGSIZE);
    scontrol_is("head -c 4000 /dev/zero");
    assert_int_equal(slurm_job_show(17, SLURM_CALL_NS, &job, NULL), -EBADMSG);
    scontrol_is("echo JobId=18 'UserId=a(7)' JobState=RUNNING");
    assert_int_equal(slurm_job_show(17, SLURM_CALL_NS, &job, NULL), -EBADMSG);
    scontrol_is("echo NodeName=n4 State=IDLE");
    assert_int_equal(slurm_node_show("n3", SLURM_CALL_NS, &node, NULL), -EBADMSG);
    scontrol_is(":");
    assert_int_equal(slurm_job_show(17, SLURM_CALL_NS, &job, NULL), -ENOENT);
}

static void no_shell_sees_the_words(void **state)
{
    static const char *const change[] = { "Reason=$(id); `id` 'x", NULL };
    char script[160], line[160] = "", path[96];
    struct slurm_node node;
    FILE *file;

    (void)state;
    snprintf(script, sizeof(script), "printf '%%s|' \"$@\" >%s/words", folder);
    scontrol_is(script);
    assert_int_equal(slurm_node_update("n3", change, SLURM_CALL_NS, NULL), 0);
    snprintf(path, sizeof(path), "%s/words", folder);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof(line), file));
    fclose(file);
    assert_string_equal(line, "update|NodeName=n3|Reason=$(id); `id` 'x|");
    assert_int_equal(slurm_node_update("n[1-9]", change, SLURM_CALL_NS, NULL), -EINVAL);
    assert_int_equal(slurm_node_update("ALL,x", change, SLURM_CALL_NS, NULL), -EINVAL);
    assert_int_equal(slurm_node_show("-d", SLURM_CALL_NS, &node, NULL), -EINVAL);
}

static void a_missing_program_is_named(void **state)
{
    struct err err = { "" };
    struct slurm_job job;

    (void)state;
    setenv("PATH", "/nonexistent", 1);
    assert_int_equal(slurm_job_show(17, SLURM_CALL_NS, &job, &err), -ENOENT);
    assert_string_equal(err.text, "scontrol is not installed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_is_read),
        cmocka_unit_test(a_refusal_is_told_from_a_failure),
        cmocka_unit_test(a_program_that_hangs_is_killed),
        cmocka_unit_test(nonsense_is_no_answer),
        cmocka_unit_test(no_shell_sees_the_words),
        cmocka_unit_test(a_missing_program_is_named),
    };

    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
