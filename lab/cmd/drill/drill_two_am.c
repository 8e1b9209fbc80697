/* drill_two_am.c - starts the script of a night, waits for it, and reads what it collected.
 *
 * The script runs in namespaces of its own; the kernel ends all that is in them when it ends, and it ends when we do.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/paths.h"
#include "base/remove_tree.h"
#include "base/sibling.h"
#include "core/clean.h"
#include "core/time.h"
#include "lab/cmd/drill/drill.h"
#include "lab/drill/night.h"

#define NIGHT_LIMIT_NS (400 * NS_PER_S)

/* Beside the program, as built or as installed. */
static int two_am_scripts(struct path *ret, struct err *err)
{
    static const char *const places[] = { "lab", "../share/lockstep/lab" };
    struct path beside, place, file;

    if (sibling_directory(&beside, err) < 0)
        return -ENOENT;
    for (size_t i = 0; i < COUNT(places); i++) {
        if (path_join(&place, beside.text, places[i], NULL) == 0 &&
            path_join(&file, place.text, "two-am.sh", NULL) == 0 && access(file.text, R_OK) == 0 &&
            realpath(place.text, ret->text))
            return 0;
    }
    return err_set(err, -ENOENT, "two-am.sh is not installed beside %s", beside.text);
}

static _Noreturn void two_am_exec(const struct path *scripts, const char *directory,
                                  const struct night_plan *plan)
{
    struct path script, lockstep, log;
    char rank[16], step[24];
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC), out = -1;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (path_join(&script, scripts->text, "two-am.sh", NULL) < 0 ||
        sibling_find("lockstep", &lockstep, NULL) < 0 ||
        path_join(&log, directory, "script.log", NULL) < 0)
        _exit(127);
    out = open(log.text, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    dup2(null, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    setenv("DRILL", scripts->text, 1);
    setenv("LOCKSTEP", lockstep.text, 1);
    unsetenv("LOCKSTEP_TEST_CLUSTER");
    snprintf(rank, sizeof(rank), "%u", plan->rank);
    snprintf(step, sizeof(step), "%" PRIu64, plan->step);
    execlp("sh", "sh", script.text, directory, plan->fault, rank, step, plan->death, (char *)NULL);
    _exit(127);
}

/* Its exit status; -ETIME: it was ended. */
static int two_am_wait(pid_t pid)
{
    int64_t until_ns = time_mono_ns() + NIGHT_LIMIT_NS;
    bool late = false;
    int status = 0;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        const struct timespec pause = time_spec(50 * NS_PER_MS);

        if (!late && time_mono_ns() > until_ns) {
            late = true;
            kill(pid, SIGKILL);
        }
        nanosleep(&pause, NULL);
    }
    return late ? -ETIME : WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static int two_am_lacks(const char *directory, int status, struct err *err)
{
    CLEAN(file_clean) FILE *file = NULL;
    char line[200] = "";
    struct path path;

    if (path_join(&path, directory, "lacks", NULL) == 0)
        file = fopen(path.text, "re");
    if (file && fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        return err_set(err, -ENOENT, "%s", line);
    }
    if (status == -ETIME)
        return err_set(err, -ETIME, "the night did not end in %d s",
                       (int)(NIGHT_LIMIT_NS / NS_PER_S));
    return status == 127 ? err_set(err, -ENOENT, "sh is not installed") : 0;
}

static int two_am_run(const char *directory, const struct night_plan *plan, struct drill_page *ret,
                      struct err *err)
{
    struct path scripts;
    int status, result = two_am_scripts(&scripts, err);
    pid_t pid = result < 0 ? -1 : fork();

    if (result < 0)
        return result;
    if (pid == 0)
        two_am_exec(&scripts, directory, plan);
    if (pid < 0)
        return err_set(err, -errno, "fork: %m");
    status = two_am_wait(pid);
    result = two_am_lacks(directory, status, err);
    return result < 0 ? result : night_read(directory, plan, ret, err);
}

int drill_night(const struct drill_settings *settings, uint64_t seed, struct drill_page *ret,
                struct err *err)
{
    const char *temporary = getenv("TMPDIR");
    struct night_plan plan;
    char directory[PATH_MAX];
    int result;

    if (geteuid() != 0)
        return err_set(err, -EPERM, "--two-am needs root: it starts a Slurm cluster in namespaces");
    night_plan_draw(seed, &plan);
    if (settings->keep)
        snprintf(directory, sizeof(directory), "%s/%" PRIu64, settings->keep, seed);
    else
        snprintf(directory, sizeof(directory), "%s/lockstep-night-XXXXXX",
                 temporary && temporary[0] ? temporary : "/tmp");
    if (settings->keep && mkdir(settings->keep, 0700) < 0 && errno != EEXIST)
        return err_set(err, -errno, "%s: %m", settings->keep);
    if (settings->keep ? mkdir(directory, 0700) < 0 : !mkdtemp(directory))
        return err_set(err, -errno, "%s: %m", directory);
    result = two_am_run(directory, &plan, ret, err);
    if (!settings->keep)
        tree_remove(directory);
    return result;
}
