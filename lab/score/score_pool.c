/* score_pool.c - a process for each case that runs; what it found comes back through a pipe.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/score/score_pool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/paths.h"
#include "base/remove_tree.h"
#include "core/clean.h"
#include "core/time.h"
#include "lab/score/foreign_load.h"
#include "lab/score/score_plan.h"
#include "lab/score/score_tally.h"

struct pool_message { /* from a worker */
    int status;
    struct err err;
    struct score_result result;
};
_Static_assert(sizeof(struct pool_message) <= PIPE_BUF, "written at once, so read at once");

struct worker {
    pid_t pid; /* 0: none */
    int fd;
    uint32_t number;
    int64_t began_ns;
};

struct crew {
    const struct score_pool *pool;
    struct worker worker[SCORE_JOBS_MAX];
    uint32_t busy;
    bool alone; /* the one that runs has the machine for itself */
    bool *begun;
    uint32_t *again; /* how often a case was run and not counted */
    struct foreign_load *foreign_load;
};

static void score_run_remove(const struct score_pool *pool, const struct score_result *result)
{
    struct path path;

    if (result->run[0] && !pool->keep_all &&
        paths_run_of(pool->state, result->run, &path, NULL) == 0)
        tree_remove(path.text);
}

static void score_pool_work(const struct score_pool *pool, uint32_t number, int out)
{
    struct pool_message message = { .err = { "" } };
    const struct score_case *at = &pool->cases[number];

    message.status = score_run(at, pool->state, &message.result, &message.err);
    if (message.status == 0 && (!message.result.ran || score_result_good(at, &message.result)))
        score_run_remove(pool, &message.result);
    _exit(write(out, &message, sizeof(message)) == sizeof(message) ? 0 : 1);
}

static int worker_start(struct crew *crew, uint32_t number, struct err *err)
{
    struct worker *worker = crew->worker;
    pid_t parent = getpid();
    int pipe_fd[2];

    while (worker->pid)
        worker++;
    if (pipe2(pipe_fd, O_CLOEXEC) < 0)
        return err_set(err, -errno, "pipe: %m");
    fflush(NULL); /* else the child has our words, too */
    worker->pid = fork();
    if (worker->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent)
            _exit(1);
        close(pipe_fd[0]);
        score_pool_work(crew->pool, number, pipe_fd[1]);
    }
    close(pipe_fd[1]);
    if (worker->pid < 0) {
        worker->pid = 0;
        close(pipe_fd[0]);
        return err_set(err, -errno, "fork: %m");
    }
    worker->fd = pipe_fd[0];
    worker->number = number;
    worker->began_ns = time_mono_ns();
    crew->begun[number] = true;
    crew->busy++;
    crew->alone = !score_case_shares(&crew->pool->cases[number]);
    return 0;
}

/* Decided by what others did alone: what was said about the case is not looked at. */
static bool score_is_run_again(struct crew *crew, uint32_t number,
                               const struct score_result *result)
{
    if (!result->ran || result->foreign_load <= SCORE_FOREIGN_LOAD_LIMIT ||
        crew->again[number] == crew->pool->retries)
        return false;
    crew->again[number]++;
    crew->begun[number] = false;
    return true;
}

static int worker_end(struct crew *crew, struct worker *worker, struct err *err)
{
    struct pool_message message;
    ssize_t got = read(worker->fd, &message, sizeof(message));

    close(worker->fd);
    while (waitpid(worker->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    worker->pid = 0;
    crew->busy--;
    if (got != (ssize_t)sizeof(message))
        return err_set(err, -EINTR, "the process of a case was killed");
    if (message.status < 0)
        return err_set(err, message.status, "%s", message.err.text);
    message.result.foreign_load = foreign_load_most(crew->foreign_load, worker->began_ns);
    message.result.again = crew->again[worker->number];
    if (score_is_run_again(crew, worker->number, &message.result)) {
        score_run_remove(crew->pool, &message.result);
        return 0;
    }
    return crew->pool->done(crew->pool->arg, worker->number, &message.result, err);
}

/* The next that may begin now; count: none. */
static uint32_t score_next_case(const struct crew *crew)
{
    const struct score_pool *pool = crew->pool;
    uint32_t number = 0;

    if (crew->busy >= MIN(pool->jobs, SCORE_JOBS_MAX) || (crew->busy && crew->alone))
        return pool->count;
    while (number < pool->count && (crew->begun[number] || (pool->known && pool->known[number]) ||
                                    (crew->busy && !score_case_shares(&pool->cases[number]))))
        number++;
    return number;
}

static int crew_wait(struct crew *crew, struct err *err)
{
    struct pollfd poll_fd[SCORE_JOBS_MAX];
    int result = 0;

    for (size_t i = 0; i < SCORE_JOBS_MAX; i++)
        poll_fd[i] = (struct pollfd){ .fd = crew->worker[i].pid ? crew->worker[i].fd : -1,
                                      .events = POLLIN };
    if (poll(poll_fd, SCORE_JOBS_MAX, 1000) < 0)
        return errno == EINTR ? 0 : err_set(err, -errno, "poll: %m");
    foreign_load_look(crew->foreign_load);
    for (size_t i = 0; i < SCORE_JOBS_MAX && result == 0; i++) {
        if (poll_fd[i].revents)
            result = worker_end(crew, &crew->worker[i], err);
    }
    return result;
}

/* Their demos are told by the kernel that they are gone. */
static void crew_stop(struct crew *crew)
{
    for (size_t i = 0; i < SCORE_JOBS_MAX; i++) {
        if (!crew->worker[i].pid)
            continue;
        kill(crew->worker[i].pid, SIGTERM);
        waitpid(crew->worker[i].pid, NULL, 0);
        close(crew->worker[i].fd);
    }
}

int score_pool_run(const struct score_pool *pool, struct err *err)
{
    CLEAN(free_clean) bool *begun = calloc(pool->count + 1, sizeof(*begun));
    CLEAN(free_clean) uint32_t *again = calloc(pool->count + 1, sizeof(*again));
    struct crew crew = { .pool = pool, .begun = begun, .again = again };
    int result = begun && again ? foreign_load_create(&crew.foreign_load) : err_nomem(err);

    foreign_load_look(crew.foreign_load);
    while (result == 0) {
        uint32_t number = score_next_case(&crew);

        if (number < pool->count)
            result = worker_start(&crew, number, err);
        else if (crew.busy)
            result = crew_wait(&crew, err);
        else
            break;
    }
    crew_stop(&crew);
    foreign_load_destroy(crew.foreign_load);
    return result;
}
