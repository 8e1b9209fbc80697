/* bench_recover_slurm.c - bench recover --slurm: how long a job does not train after it lost a node, with lockstep, with Slurm alone,
 * and with the best that a shell script does.
 *
 * A script of the source tree starts the cluster and measures (test/slurm/recover.sh).  Of several rounds the median counts.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/log.h"
#include "base/paths.h"
#include "base/sibling.h"
#include "cmd/lab/bench_options.h"
#include "core/clean.h"
#include "lab/cmd/lab.h"

#define SLURM_RATIO_BAR 0.5 /* of the best rival's total */
#define SLURM_ROUNDS_MAX 20

enum recover_slurm_engine {
    RECOVER_SLURM_OURS,
    RECOVER_SLURM_LOOP,
    RECOVER_SLURM_ALONE,
    RECOVER_SLURM_ENGINES
};
static const char *const recover_slurm_names[RECOVER_SLURM_ENGINES] = { "cold", "slurm-loop",
                                                                        "slurm" };

struct recover_slurm_round {
    double total_s; /* 0: not measured */
    int lost_steps;
};

static _Noreturn void recover_slurm_exec(const char *script, const char *lockstep, int out)
{
    char source[PATH_MAX], *resolved = realpath(script, source);
    char build[PATH_MAX];

    for (int up = 0; resolved && up < 3; up++) { /* test/slurm/recover.sh */
        char *slash = strrchr(resolved, '/');

        if (slash)
            *slash = '\0';
    }
    snprintf(build, sizeof(build), "%.*s", (int)(strrchr(lockstep, '/') - lockstep), lockstep);
    setenv("SOURCE", resolved ? resolved : "", 1);
    setenv("LOCKSTEP", lockstep, 1);
    setenv("BUILD", build, 1);
    dup2(out, STDOUT_FILENO);
    execlp("sh", "sh", script, recover_slurm_names[0], recover_slurm_names[1],
           recover_slurm_names[2], (char *)NULL);
    _exit(127);
}

/* "cold 4.913 12" */
static void recover_slurm_line(const char *line,
                               struct recover_slurm_round ret[static RECOVER_SLURM_ENGINES])
{
    struct recover_slurm_round round;
    char name[32];

    if (sscanf(line, "%31s %lf %d", name, &round.total_s, &round.lost_steps) != 3)
        return;
    for (unsigned i = 0; i < RECOVER_SLURM_ENGINES; i++) {
        if (strcmp(name, recover_slurm_names[i]) == 0)
            ret[i] = round;
    }
}

static int recover_slurm_run(const char *script,
                             struct recover_slurm_round ret[static RECOVER_SLURM_ENGINES],
                             struct err *err)
{
    CLEAN(file_clean) FILE *lines = NULL;
    struct path lockstep;
    char line[200];
    int fd[2], status = 0, r = sibling_find("lockstep", &lockstep, err);
    pid_t pid;

    if (r < 0)
        return r;
    if (pipe2(fd, O_CLOEXEC) < 0)
        return err_set(err, -errno, "pipe: %m");
    pid = fork();
    if (pid == 0)
        recover_slurm_exec(script, lockstep.text, fd[1]);
    close(fd[1]);
    lines = fdopen(fd[0], "r");
    while (lines && fgets(line, sizeof(line), lines))
        recover_slurm_line(line, ret);
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return err_set(err, -errno, "%s: %m", script);
    for (unsigned i = 0; i < RECOVER_SLURM_ENGINES; i++) {
        if (status || ret[i].total_s <= 0)
            return err_set(err, -EIO, "%s did not measure %s", script, recover_slurm_names[i]);
    }
    return 0;
}

static int recover_slurm_compare(const void *a, const void *b)
{
    const struct recover_slurm_round *left = a, *right = b;

    return left->total_s < right->total_s ? -1 : left->total_s > right->total_s;
}

static struct json_object *recover_slurm_json(const char *engine,
                                              const struct recover_slurm_round *round)
{
    static const char *const unknown[] = { "detect_s", "decide_s", "stop_s",      "start_s",
                                           "init_s",   "load_s",   "first_step_s" };
    struct json_object *root = json_object_new_object();

    json_object_object_add(root, "case", json_object_new_string("node of a Slurm job lost"));
    json_object_object_add(root, "engine", json_object_new_string(engine));
    for (size_t i = 0; i < COUNT(unknown); i++)
        json_object_object_add(root, unknown[i], NULL);
    json_object_object_add(root, "total_s", json_object_new_double(round->total_s));
    json_object_object_add(root, "lost_steps", json_object_new_int(round->lost_steps));
    return root;
}

static int recover_slurm_report(const struct recover_slurm_round median[], bool json)
{
    double best = MIN(median[RECOVER_SLURM_LOOP].total_s, median[RECOVER_SLURM_ALONE].total_s),
           ratio = median[RECOVER_SLURM_OURS].total_s / best;
    struct json_object *root = json_object_new_object(), *cases = json_object_new_array();

    for (unsigned i = 0; i < RECOVER_SLURM_ENGINES; i++) {
        json_object_array_add(cases, recover_slurm_json(recover_slurm_names[i], &median[i]));
        if (!json)
            printf("%-10s %6.2f s, %d steps lost\n", recover_slurm_names[i], median[i].total_s,
                   median[i].lost_steps);
    }
    json_object_object_add(root, "cases", cases);
    json_object_object_add(root, "ratio", json_object_new_double(ratio));
    json_object_object_add(root, "ratio_bar", json_object_new_double(SLURM_RATIO_BAR));
    if (json)
        puts(json_object_to_json_string_ext(root, JSON_C_TO_STRING_SPACED));
    else
        printf("lockstep run needs %.2f of the time of the best of the others, the limit is %.2f\n",
               ratio, SLURM_RATIO_BAR);
    json_object_put(root);
    return ratio > SLURM_RATIO_BAR;
}

int bench_recover_slurm(const char *script, uint32_t rounds, bool json)
{
    struct recover_slurm_round round[SLURM_ROUNDS_MAX][RECOVER_SLURM_ENGINES] = { 0 },
                               median[RECOVER_SLURM_ENGINES];
    struct err err = { "" };

    for (uint32_t i = 0; i < MIN(rounds, (uint32_t)SLURM_ROUNDS_MAX); i++) {
        if (recover_slurm_run(script, round[i], &err) < 0) {
            log_error("%s", err.text);
            return 3;
        }
    }
    for (unsigned engine = 0; engine < RECOVER_SLURM_ENGINES; engine++) {
        struct recover_slurm_round one[SLURM_ROUNDS_MAX];

        for (uint32_t i = 0; i < rounds; i++)
            one[i] = round[i][engine];
        qsort(one, rounds, sizeof(one[0]), recover_slurm_compare);
        median[engine] = one[rounds / 2];
    }
    return recover_slurm_report(median, json);
}
