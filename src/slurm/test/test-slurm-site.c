/* test-slurm-site.c - a node as an scontrol of our own keeps it: drained, down, given back, and what others did meanwhile.
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
#include <unistd.h>

#include <cmocka.h>

#include "core/clean.h"
#include "slurm/slurm_site.h"

#define OURS "lockstep: node-fault lost fi-1"

static const char *const files[] = { "scontrol", "squeue", "state", "reason",
                                     "updates",  "jobs",   "owner" };
static char folder[64];

static void file_write(const char *name, const char *text, mode_t mode)
{
    char path[96];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    unlink(path);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static const char *file_read(const char *name)
{
    static char text[512];
    CLEAN(file_clean) FILE *file = NULL;
    char path[96];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "r");
    text[file ? fread(text, 1, sizeof(text) - 1, file) : 0] = '\0';
    return text;
}

/* UNDRAIN and RESUME clear flag and reason; DRAIN and DOWN join what is there, as Slurm does it. */
static int folder_make(void **state)
{
    char path[512];

    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/lockstep-site.XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s:/usr/bin:/bin", folder);
    setenv("PATH", path, 1);
    setenv("FOLDER", folder, 1);
    file_write("scontrol",
               "#!/bin/sh\n"
               "if [ \"$2\" = job ]; then\n"
               "    echo \"JobId=$3 JobName=x\"\n"
               "    echo \"   UserId=ada($(cat $FOLDER/owner)) JobState=RUNNING\"\n"
               "    exit 0\n"
               "fi\n"
               "if [ \"$1\" = show ]; then\n"
               "    echo \"NodeName=$3 State=$(cat $FOLDER/state)\"\n"
               "    [ ! -s $FOLDER/reason ] || echo \"   Reason=$(cat $FOLDER/reason) "
               "[root@1790000000]\"\n"
               "    exit 0\n"
               "fi\n"
               "printf '%s ' \"${3#State=}\" >>$FOLDER/updates\n"
               "case $3 in\n"
               "State=DRAIN) echo IDLE+DRAIN >$FOLDER/state ;;\n"
               "State=DOWN) echo DOWN+DRAIN >$FOLDER/state ;;\n"
               "*) echo IDLE >$FOLDER/state && : >$FOLDER/reason ;;\n"
               "esac\n"
               "[ -z \"$4\" ] || echo \"${4#Reason=}\" >$FOLDER/reason\n",
               0755);
    file_write("squeue", "#!/bin/sh\ncat $FOLDER/jobs\n", 0755);
    return 0;
}

static int folder_remove(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(files); i++) {
        char path[96];

        snprintf(path, sizeof(path), "%s/%s", folder, files[i]);
        unlink(path);
    }
    return rmdir(folder);
}

static enum slurm_reach is_silent(const char *node, char *ret, size_t room)
{
    snprintf(ret, room, "%s does not answer", node);
    return SLURM_REACH_SILENT;
}

static enum slurm_reach answers(const char *node, char *ret, size_t room)
{
    snprintf(ret, room, "%s answers", node);
    return SLURM_REACH_ANSWERS;
}

static void node_is(const char *state, const char *reason, const char *jobs)
{
    file_write("state", state, 0644);
    file_write("reason", reason, 0644);
    file_write("jobs", jobs, 0644);
    file_write("updates", "", 0644);
    file_write("owner", "1001", 0644);
}

static const struct slurm_site site = {
    .node = "n3", .reason = OURS, .job = 17, .user = 1001, .reach = is_silent
};

static void a_node_that_answers_is_not_dead(void **state)
{
    struct slurm_site wrong = site;
    char text[200];

    (void)state;
    wrong.reach = answers;
    node_is("ALLOCATED", "", "17\n");
    assert_int_equal(slurm_site_down(&wrong, text, sizeof(text)), SLURM_REFUSED);
    assert_string_equal(text, "n3 answers");
    assert_string_equal(file_read("updates"), "");
}

/* No job can start on it between the look and the end of all that runs there. */
static void a_dead_node_is_drained_before_it_is_down(void **state)
{
    char text[200];

    (void)state;
    node_is("ALLOCATED", "", "17\n");
    assert_int_equal(slurm_site_down(&site, text, sizeof(text)), SLURM_DID);
    assert_string_equal(file_read("updates"), "DRAIN DOWN ");
    assert_int_equal(slurm_site_down(&site, text, sizeof(text)), SLURM_DID);
    assert_string_equal(file_read("updates"), "DRAIN DOWN ");
}

static void a_dead_node_with_jobs_of_others_is_only_drained(void **state)
{
    char text[200];

    (void)state;
    node_is("ALLOCATED", "", "17\n18\n");
    assert_int_equal(slurm_site_down(&site, text, sizeof(text)), SLURM_DID);
    assert_string_equal(file_read("updates"), "DRAIN ");
}

static void a_job_of_another_user_is_never_ended(void **state)
{
    char text[200];

    (void)state;
    node_is("ALLOCATED", "", "17\n");
    file_write("owner", "1002", 0644); /* the run calls itself by the number of another's job */
    assert_int_equal(slurm_site_down(&site, text, sizeof(text)), SLURM_DID);
    assert_string_equal(file_read("updates"), "DRAIN ");
}

static void a_node_that_others_have_taken_out_stays_theirs(void **state)
{
    char text[200];

    (void)state;
    node_is("IDLE+DRAIN", "new cable", "");
    assert_int_equal(slurm_site_down(&site, text, sizeof(text)), SLURM_NOT_OURS);
    assert_int_equal(slurm_site_undrain(&site, text, sizeof(text)), SLURM_NOT_OURS);
    node_is("DOWN", "Not responding", "");
    assert_int_equal(slurm_site_down(&site, text, sizeof(text)), SLURM_NOT_OURS);
    assert_string_equal(file_read("updates"), "");
}

static void a_node_that_is_down_by_us_comes_back(void **state)
{
    char text[200];

    (void)state;
    node_is("DOWN+DRAIN", OURS, "");
    assert_int_equal(slurm_site_undrain(&site, text, sizeof(text)), SLURM_DID);
    assert_string_equal(file_read("updates"), "RESUME ");
    node_is("DOWN", OURS, "");
    assert_int_equal(slurm_site_undrain(&site, text, sizeof(text)), SLURM_DID);
    assert_string_equal(file_read("updates"), "RESUME ");
    node_is("IDLE+DRAIN", OURS, "");
    assert_int_equal(slurm_site_undrain(&site, text, sizeof(text)), SLURM_DID);
    assert_string_equal(file_read("updates"), "UNDRAIN ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_that_answers_is_not_dead),
        cmocka_unit_test(a_job_of_another_user_is_never_ended),
        cmocka_unit_test(a_dead_node_is_drained_before_it_is_down),
        cmocka_unit_test(a_dead_node_with_jobs_of_others_is_only_drained),
        cmocka_unit_test(a_node_that_others_have_taken_out_stays_theirs),
        cmocka_unit_test(a_node_that_is_down_by_us_comes_back),
    };

    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
