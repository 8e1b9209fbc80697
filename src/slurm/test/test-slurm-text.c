/* test-slurm-text.c - texts of scontrol, some with names that a user chose to deceive.
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

#include "core/time.h"
#include "slurm/slurm_text.h"

#define JOB_REST                                                                                   \
    "   UserId=ada(61001) GroupId=ada(61001) MCS_label=N/A\n"                                      \
    "   JobState=RUNNING Reason=None Dependency=(null)\n"                                          \
    "   Requeue=1 Restarts=2 BatchFlag=1 Reboot=0 ExitCode=0:0\n"                                  \
    "   SubmitTime=1790000000 EligibleTime=1790000001\n"                                           \
    "   StartTime=1790000002 EndTime=Unknown Deadline=N/A\n"                                       \
    "   ReqNodeList=(null) ExcNodeList=n7\n"                                                       \
    "   NodeList=n[1-2]\n"                                                                         \
    "   NumNodes=2 NumCPUs=4\n"

static int job_of(const char *text, struct slurm_job *job, struct err *err)
{
    return slurm_job_parse(text, strlen(text), job, err);
}

static void a_job_is_read(void **state)
{
    struct slurm_job job;

    (void)state;
    assert_int_equal(
        job_of("JobId=17 JobName=wrap\n" JOB_REST "\nJobId=18 JobName=x\n", &job, NULL), 0);
    assert_int_equal(job.id, 17);
    assert_int_equal(job.user, 61001);
    assert_int_equal(job.restarts, 2);
    assert_int_equal(job.nodes, 2);
    assert_true(job.batch && job.requeue);
    assert_string_equal(job.state, "RUNNING");
    assert_string_equal(job.hosts, "n[1-2]");
    assert_string_equal(job.excluded, "n7");
    assert_int_equal(job.submit_real_ns, 1790000000 * NS_PER_S);
    assert_int_equal(job.eligible_real_ns, 1790000001 * NS_PER_S);
    assert_int_equal(job.start_real_ns, 1790000002 * NS_PER_S);
    assert_int_equal(job.end_real_ns, 0);
}

static void words_in_a_name_are_no_fields(void **state)
{
    struct slurm_job job;

    (void)state;
    assert_int_equal(
        job_of("JobId=17 JobName=x UserId=root(0) JobState=FAILED\n" JOB_REST, &job, NULL), 0);
    assert_int_equal(job.user, 61001);
    assert_string_equal(job.state, "RUNNING");
}

static void a_name_with_lines_deceives_nobody(void **state)
{
    struct slurm_job job = { .id = 5 };
    struct err err = { "" };

    (void)state;
    assert_int_equal(job_of("JobId=17 JobName=x\n   UserId=root(0)\n" JOB_REST, &job, &err),
                     -EBADMSG);
    assert_non_null(strstr(err.text, "UserId twice"));
    assert_int_equal(job.id, 5); /* untouched */
    /* An empty line ends the job: what is needed is then missing. */
    assert_int_equal(job_of("JobId=17 JobName=x\n\n" JOB_REST, &job, &err), -EBADMSG);
}

static void nonsense_is_an_error(void **state)
{
    static const char *const texts[] = {
        "hello",
        "JobId=17 JobName=x\n",
        "JobId=x JobName=y\n" JOB_REST,
        "JobId=-1 JobName=y\n" JOB_REST,
        "JobId=99999999999999999999999 JobName=y\n" JOB_REST,
        "JobId=1 UserId=ada JobState=RUNNING\n",
        "JobId=1 UserId=ada(x) JobState=RUNNING\n",
        "JobId=1 UserId=ada(99999999999) JobState=RUNNING\n",
        "JobId=1 UserId=ada(1) JobState=RUNNING_WITH_A_NAME_THAT_IS_TOO_LONG\n",
    };
    struct slurm_job job;

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_int_equal(job_of(texts[i], &job, NULL), -EBADMSG);
    assert_int_equal(slurm_job_parse("", 0, &job, NULL), -ENOENT);
    assert_int_equal(slurm_job_parse("JobId=1\0", 8, &job, NULL), -EBADMSG);
}

static int node_of(const char *state_word, const char *rest, struct slurm_node *node)
{
    char text[512];

    snprintf(text, sizeof(text),
             "NodeName=n3 Arch=x86_64 \n   OS=Linux State=DOWN #1\n   State=%s Weight=1\n%s",
             state_word, rest);
    return slurm_node_parse(text, strlen(text), node, NULL);
}

static void a_node_is_read(void **state)
{
    struct slurm_node node;

    (void)state;
    assert_int_equal(node_of("IDLE+DRAIN",
                             "   Reason=lockstep: xid State=IDLE [x] v-1 [root@1790000000]\n",
                             &node),
                     0);
    assert_string_equal(node.name, "n3");
    assert_int_equal(node.flags, SLURM_NODE_IDLE | SLURM_NODE_DRAIN);
    assert_string_equal(node.reason, "lockstep: xid State=IDLE [x] v-1");
    assert_string_equal(node.reason_user, "root");
    assert_int_equal(node.reason_real_ns, 1790000000 * NS_PER_S);
    assert_int_equal(node_of("MIXED*+COMPLETING", "", &node), 0);
    assert_int_equal(node.flags, SLURM_NODE_ALLOCATED | SLURM_NODE_COMPLETING | SLURM_NODE_SILENT);
    assert_string_equal(node.reason, "");
    assert_int_equal(node_of("DOWN+NOT_RESPONDING", "", &node), 0);
    assert_int_equal(node.flags, SLURM_NODE_DOWN | SLURM_NODE_SILENT);
}

static void an_unknown_state_is_no_healthy_one(void **state)
{
    struct slurm_node node;

    (void)state;
    assert_int_equal(node_of("IDLE+MAINT", "", &node), 0);
    assert_int_equal(node.flags, SLURM_NODE_IDLE | SLURM_NODE_OTHER);
    assert_int_equal(node_of("IDLE~", "", &node), 0);
    assert_int_equal(node.flags, SLURM_NODE_IDLE | SLURM_NODE_OTHER);
    assert_int_equal(node_of("IDLE", "   Reason=x\n   State=DOWN\n", &node), -EBADMSG);
    assert_int_equal(node_of("", "", &node), -EBADMSG);
}

struct names {
    char text[256];
    int left;
};

static bool names_add(void *arg, const char *name)
{
    struct names *names = arg;
    size_t used = strlen(names->text);

    snprintf(names->text + used, sizeof(names->text) - used, "%s ", name);
    return --names->left > 0;
}

static void lists_of_hosts_are_expanded(void **state)
{
    struct names names = { .left = 100 };

    (void)state;
    assert_int_equal(slurm_hosts_each("n[1-3,07,09-10],login,g-a4", names_add, &names), 8);
    assert_string_equal(names.text, "n1 n2 n3 n07 n09 n10 login g-a4 ");
    names = (struct names){ .left = 2 };
    assert_int_equal(slurm_hosts_each("n[1-9]", names_add, &names), 9);
    assert_string_equal(names.text, "n1 n2 ");
    assert_int_equal(slurm_hosts_each("", NULL, NULL), 0);
}

static void what_is_no_list_of_hosts_is_an_error(void **state)
{
    static const char *const lists[] = { "n[",  "n[1", "n[1-",  "n[3-1]", "n[1,]", "a,",
                                         "a b", "-a",  "n[1]x", "n[a-b]", "$(x)",  "n[1-99999999]",
                                         ",a",  "n[]", "a,,b",  "/etc/x" };

    (void)state;
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        assert_int_equal(slurm_hosts_each(lists[i], NULL, NULL), -EBADMSG);
    assert_int_equal(slurm_hosts_each("a[1-40000],b[1-40000]", NULL, NULL), -E2BIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_is_read),
        cmocka_unit_test(words_in_a_name_are_no_fields),
        cmocka_unit_test(a_name_with_lines_deceives_nobody),
        cmocka_unit_test(nonsense_is_an_error),
        cmocka_unit_test(a_node_is_read),
        cmocka_unit_test(an_unknown_state_is_no_healthy_one),
        cmocka_unit_test(lists_of_hosts_are_expanded),
        cmocka_unit_test(what_is_no_list_of_hosts_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
