/* trainer_elastic.c - a training whose workers are restarted on purpose, as torchrun does when members come or go.
 *
 * The process that was launched is then an agent: it starts the rank's worker as its child, and when members change it
 * tells it to end.  Workers agree on a step, save, and leave with TO_BE_CONTINUED; after a while the agents of those who
 * stay start new ones, which meet again, with another world size, and go on from the checkpoint.  The launcher sees none of it:
 * its processes live on.  Agents learn from a file that rank 0's writes how a generation ended.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"
#include "lab/trainer/trainer_private.h"

#define TO_BE_CONTINUED 75 /* EX_TEMPFAIL */
#define POLL_NS (20 * NS_PER_MS)

static volatile sig_atomic_t stop_requested;
static volatile sig_atomic_t worker; /* its process; 0: none */

static void elastic_on_stop(int number)
{
    (void)number;
    stop_requested = 1;
}

/* Rank 0's worker saw that members change: each agent would be told by the others. */
static void trainer_on_change(int number)
{
    (void)number;
    if (worker > 0)
        kill((pid_t)worker, SIGTERM);
}

static void trainer_on_end(int number)
{
    if (worker > 0)
        kill((pid_t)worker, SIGKILL);
    _exit(128 + number);
}

static const struct fault *elastic_of(const struct fault_plan *plan)
{
    for (uint32_t i = 0; i < plan->count; i++) {
        if (plan->fault[i].kind->id == FAULT_ELASTIC)
            return &plan->fault[i];
    }
    return NULL;
}

/* At which step a generation ends; UINT64_MAX: with the training. */
static uint64_t trainer_end_of(const struct fault *fault, uint32_t generation)
{
    if (generation == 0)
        return fault->step;
    return generation == 1 && fault->steps ? fault->step + fault->steps : UINT64_MAX;
}

static uint32_t trainer_world_of(const struct fault *fault, uint32_t generation, uint32_t world)
{
    return generation == 1 && fault->count < world ? world - fault->count : world;
}

bool trainer_elastic_stops(struct trainer *trainer)
{
    const struct fault *fault = elastic_of(&trainer->plan);
    uint32_t generation = trainer->config->generation;

    if (fault && trainer->config->rank == 0 && trainer->step == trainer_end_of(fault, generation)) {
        truth_add(trainer->truth, (uint32_t)(fault - trainer->plan.fault), trainer->step, 0);
        kill(getppid(), SIGUSR1);
    }
    return stop_requested;
}

static void elastic_work(const struct trainer_config *config)
{
    struct sigaction action = { .sa_handler = elastic_on_stop, .sa_flags = SA_RESTART };
    struct err err = { "" };
    int result;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGUSR1, SIG_IGN);
    signal(SIGINT, SIG_DFL);
    sigaction(SIGTERM, &action, NULL);
    result = trainer_run(config, &err);
    fflush(stdout);
    if (result < 0)
        fprintf(stderr, "rank %u: %s\n", config->rank, err.text);
    _exit(result < 0 ? 1 : result > 0 ? TO_BE_CONTINUED : 0);
}

/* Returns the worker's exit status, 128 + the signal that ended it. */
static int trainer_work_once(const struct trainer_config *config, struct err *err)
{
    sigset_t change;
    int status;
    pid_t pid;

    sigemptyset(&change);
    sigaddset(&change, SIGUSR1); /* not before we know whom to tell */
    sigprocmask(SIG_BLOCK, &change, NULL);
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        sigprocmask(SIG_UNBLOCK, &change, NULL);
        elastic_work(config);
    }
    worker = pid;
    sigprocmask(SIG_UNBLOCK, &change, NULL);
    if (pid < 0)
        return err_set(err, -errno, "fork: %m");
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    worker = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void trainer_word_path(const struct trainer_config *config, uint32_t generation, char *out)
{
    snprintf(out, PATH_MAX, "%s.attempt-%u.generation-%u", config->plan, config->attempt,
             generation);
}

static int elastic_word_put(const struct trainer_config *config, uint32_t generation, int status,
                            struct err *err)
{
    char path[PATH_MAX], final[PATH_MAX];
    FILE *file;

    trainer_word_path(config, generation, final);
    snprintf(path, sizeof(path), "%.*s~", PATH_MAX - 2, final);
    file = fopen(path, "we");
    if (!file)
        return err_set(err, -errno, "%s: %m", path);
    fprintf(file, "%d\n", status);
    if (fclose(file) != 0 || rename(path, final) < 0)
        return err_set(err, -errno, "%s: %m", final);
    return 0;
}

static int trainer_word_await(const struct trainer_config *config, uint32_t generation)
{
    const struct timespec nap = time_spec(POLL_NS);
    char path[PATH_MAX];

    trainer_word_path(config, generation, path);
    for (;;) {
        CLEAN(file_clean) FILE *file = fopen(path, "re");
        int status;

        if (file && fscanf(file, "%d", &status) == 1)
            return status;
        nanosleep(&nap, NULL);
    }
}

static int elastic_generations(const struct trainer_config *config, const struct fault *fault,
                               struct err *err)
{
    const struct timespec pause = time_spec((int64_t)(fault->ms * 1e6));
    struct trainer_config now = *config;

    now.continues = true;
    for (;; now.generation++) {
        uint32_t world = trainer_world_of(fault, now.generation, config->world);
        int status = TO_BE_CONTINUED, word;

        now.world = now.layout.dp = world;
        if (config->rank < world)
            status = trainer_work_once(&now, err);
        if (status < 0)
            return status;
        if (status != 0 && status != TO_BE_CONTINUED)
            return err_set(err, -ECHILD, "the worker exited with status %d", status);
        if (config->rank == 0 && elastic_word_put(config, now.generation, status, err) < 0)
            return -EIO;
        word = trainer_word_await(config, now.generation);
        if (word != TO_BE_CONTINUED)
            return 0;
        nanosleep(&pause, NULL);
    }
}

int trainer_elastic_run(const struct trainer_config *config, struct err *err)
{
    CLEAN(free_clean) struct fault_plan *plan = calloc(1, sizeof(*plan));
    const struct fault *fault;
    int result = plan ? 0 : err_nomem(err);

    if (result == 0 && config->plan)
        result = plan_read(config->plan, plan, err);
    if (result < 0)
        return result;
    fault = elastic_of(plan);
    if (!fault || !config->checkpoint_dir || config->layout.tp > 1 || config->layout.pp > 1)
        return trainer_run(config, err);
    signal(SIGUSR1, trainer_on_change);
    signal(SIGTERM, trainer_on_end);
    signal(SIGINT, trainer_on_end);
    return elastic_generations(config, fault, err);
}
