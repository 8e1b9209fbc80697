/* stage.h - a run directory of its own for a test; ranks and agents as real processes in it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_TEST_STAGE_H
#define LOCKSTEP_AGENT_TEST_STAGE_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/agent.h"
#include "core/clean.h"
#include "core/time.h"
#include "lockstep/probe.h"
#include "wire/facts.h"
#include "wire/spool.h"

#define STAGE_STEPS 4096
#define STAGE_PATIENCE_NS (30 * NS_PER_S)

struct stage {
    char dir[64], rings[80], spool[128], words[96];
};

static inline void stage_sleep(int64_t ns)
{
    struct timespec time = time_spec(ns);

    nanosleep(&time, NULL);
}

static inline void stage_run_json(const struct stage *stage, const char *rest)
{
    char path[96];
    FILE *file;

    snprintf(path, sizeof(path), "%s/run.json", stage->dir);
    file = fopen(path, "we");
    assert_non_null(file);
    fprintf(file, "{\"id\": \"stage\", \"rings\": \"%s\", %s}", stage->rings, rest);
    assert_int_equal(fclose(file), 0);
}

#define STAGE_ONE_NODE "\"ranks\": 1, \"nodes\": [{\"name\": \"n0\", \"ranks\": [0]}]"

static inline int stage_setup(void **state)
{
    struct stage *stage = calloc(1, sizeof(*stage));

    if (!stage)
        return -1;
    snprintf(stage->dir, sizeof(stage->dir), "/tmp/lockstep-agent-XXXXXX");
    if (!mkdtemp(stage->dir))
        return -1;
    snprintf(stage->rings, sizeof(stage->rings), "%s/rings", stage->dir);
    snprintf(stage->spool, sizeof(stage->spool), "%s/spool/agent-n0.lsf", stage->dir);
    snprintf(stage->words, sizeof(stage->words), "%s/words", stage->dir);
    if (mkdir(stage->rings, 0700) < 0)
        return -1;
    setenv("LOCKSTEP_DIR", stage->rings, 1);
    setenv("LOCKSTEP_RUN", "stage", 1);
    unsetenv("LOCKSTEP_RING_LANES");
    unsetenv("LOCKSTEP_RING_RECORDS");
    unsetenv("LOCKSTEP_RESTART");
    unsetenv("LOCKSTEP_TEST_CLOCK_SKEW_NS");
    stage_run_json(stage, STAGE_ONE_NODE);
    *state = stage;
    return 0;
}

static inline int stage_teardown(void **state)
{
    struct stage *stage = *state;
    char command[96];

    snprintf(command, sizeof(command), "rm -rf %s", stage->dir);
    if (system(command) != 0)
        return -1;
    free(stage);
    return 0;
}

/* An agent for node n0 in a process of its own; what it says goes to stage->words. */
static inline pid_t stage_agent_as(const struct stage *stage, const char *node,
                                   void (*before)(void))
{
    struct agent_settings settings = { .run_dir = stage->dir,
                                       .node = node,
                                       .tick_ns = 5 * NS_PER_MS };
    struct agent *agent;
    struct err err = { 0 };
    sigset_t term, old;
    pid_t pid;
    int fd, result;

    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, &old); /* as the keeper does: it takes it when it is ready */
    pid = fork();
    if (pid != 0) {
        sigprocmask(SIG_SETMASK, &old, NULL);
        return pid;
    }
    prctl(PR_SET_PDEATHSIG,
          SIGKILL); /* a test that fails leaves none behind, which would hold its output open */
    fd = open(stage->words, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || dup2(fd, STDERR_FILENO) < 0)
        _exit(9);
    if (before)
        before();
    result = agent_open(&settings, &agent, &err);
    if (result == 0) {
        result = agent_run(agent, &err);
        agent_close(agent);
    }
    if (result < 0)
        fprintf(stderr, "%s\n", err.text);
    _exit(result < 0);
}

static inline pid_t stage_agent(const struct stage *stage)
{
    return stage_agent_as(stage, "n0", NULL);
}

static inline int stage_wait(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static inline void stage_kill(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    stage_wait(pid);
}

static inline void stage_end(pid_t pid) /* as the launcher does it */
{
    assert_int_equal(kill(pid, SIGTERM), 0);
    assert_int_equal(stage_wait(pid), 0);
}

/* One step as a trainer makes it: a phase, a collective, a metric; 9 records. */
static inline void stage_step(struct lockstep_probe *probe, int comm, uint64_t step)
{
    uint64_t key;

    lockstep_step_begin(probe, step);
    lockstep_phase_begin(probe, LOCKSTEP_PHASE_FORWARD);
    key = lockstep_coll_enqueue(probe, LOCKSTEP_OP_DESC(.comm = comm, .op = LOCKSTEP_OP_ALL_REDUCE,
                                                        .bytes = 4096, .stream = 1));
    lockstep_phase_end(probe, LOCKSTEP_PHASE_FORWARD);
    lockstep_coll_start(probe, comm, key, 0);
    lockstep_metric_put(probe, LOCKSTEP_METRIC_LOSS, (double)step);
    lockstep_coll_end(probe, comm, key, 0);
    lockstep_step_end(probe, step);
}

/* Another thread of a rank, which runs the collectives that the first one launches. */
struct stage_worker {
    struct lockstep_probe *probe;
    int comm;
    _Atomic uint64_t launched, done; /* how many */
};

static inline void *stage_work(void *argument)
{
    struct stage_worker *worker = argument;

    for (;;) {
        uint64_t key = worker->done;

        while (worker->launched == key)
            sched_yield();
        if (worker->launched == UINT64_MAX)
            return NULL;
        lockstep_coll_start(worker->probe, worker->comm, key, 0);
        lockstep_coll_end(worker->probe, worker->comm, key, 0);
        worker->done = key + 1;
    }
}

/* A rank whose collectives end in another thread, some of them after the step has ended. */
static inline pid_t stage_rank_of_two(uint64_t steps)
{
    struct stage_worker worker = { 0 };
    pthread_t thread;
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    if (lockstep_probe_open(0, 4, &worker.probe, NULL, 0) < 0)
        _exit(9);
    worker.comm = lockstep_comm_add(worker.probe, 42, 4, 0, LOCKSTEP_COMM_DP, "dp");
    if (pthread_create(&thread, NULL, stage_work, &worker) != 0)
        _exit(9);
    for (uint64_t step = 0; step < steps; step++) {
        lockstep_step_begin(worker.probe, step);
        lockstep_metric_put(worker.probe, LOCKSTEP_METRIC_LOSS, (double)step);
        lockstep_coll_enqueue(worker.probe,
                              LOCKSTEP_OP_DESC(.comm = worker.comm, .op = LOCKSTEP_OP_ALL_REDUCE,
                                               .bytes = 64, .stream = 1));
        worker.launched = step + 1;
        lockstep_step_end(worker.probe, step);
        while (worker.done < step) /* a step behind at most */
            sched_yield();
        stage_sleep(200 * NS_PER_US);
    }
    while (worker.done < steps)
        sched_yield();
    worker.launched = UINT64_MAX;
    pthread_join(thread, NULL);
    lockstep_probe_close(worker.probe);
    _exit(0);
}

/* A rank that makes `steps` steps with a pause after each, then closes its ring and ends. */
static inline pid_t stage_rank(uint32_t rank, uint64_t steps, int64_t pause_ns)
{
    struct lockstep_probe *probe;
    pid_t pid = fork();
    int comm;

    if (pid != 0)
        return pid;
    if (lockstep_probe_open(rank, 4, &probe, NULL, 0) < 0)
        _exit(9);
    comm = lockstep_comm_add(probe, 42, 4, rank, LOCKSTEP_COMM_DP, "dp");
    for (uint64_t step = 0; step < steps; step++) {
        stage_step(probe, comm, step);
        if (pause_ns)
            stage_sleep(pause_ns);
    }
    lockstep_probe_close(probe);
    _exit(0);
}

/* What a spool says about one rank. */
struct account {
    uint16_t sent[STAGE_STEPS], gap[STAGE_STEPS];
    uint64_t steps, torn, gap_records, gap_steps, finals, exits, rings, comms, shapes, hellos,
        method_count;
    uint64_t next;              /* steps must come in order */
    uint64_t unfinished, items; /* of steps that are not torn */
    uint64_t placeless;         /* steps told before the rank's layout */
    bool disorder, last, layout;
    int64_t first_begin_ns, first_open_ns;
    uint32_t pid;
    char states[256]; /* of beats, one after the other */
    char exit_text[160];
};

static inline void account_step(struct account *account, const struct fact_step *step)
{
    if (step->step >= STAGE_STEPS)
        fail_msg("step %llu", (unsigned long long)step->step);
    account->sent[step->step]++;
    account->disorder |= step->step < account->next;
    account->next = step->step + 1;
    if (account->steps++ == 0)
        account->first_begin_ns = step->begin_ns;
    account->placeless += !account->layout;
    account->unfinished += (step->flags & STEP_UNFINISHED) != 0;
    account->items += step->count;
    account->torn += (step->flags & STEP_TORN) != 0;
    account->last |= (step->flags & STEP_LAST) != 0;
    if (!(step->flags &
          (STEP_TORN | STEP_UNFINISHED))) /* a rank may be killed before it says its loss */
        assert_true(step->metric[LOCKSTEP_METRIC_LOSS] == (double)step->step);
}

static inline void account_gap(struct account *account, const struct fact_gap *gap)
{
    account->gap_records += gap->records;
    if (gap->step_from == UINT64_MAX)
        return;
    for (uint64_t step = gap->step_from; step <= gap->step_to && step < STAGE_STEPS; step++) {
        account->gap[step]++;
        account->gap_steps++;
    }
}

static inline void account_beat(struct account *account, const struct fact_beat *beat)
{
    size_t used = strlen(account->states);

    account->finals += beat->final;
    if (used + 1 < sizeof(account->states))
        account->states[used] = beat->state;
}

static inline void account_frame(struct account *account, const struct frame *frame, uint32_t rank)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    struct fact_step step;
    struct fact_gap gap;
    struct fact_beat beat;
    struct fact_exit exit;
    struct fact_ring ring;
    struct fact_comm comm;
    struct fact_method method;

    account->hellos += frame->type == FRAME_HELLO;
    account->shapes += frame->type == FRAME_SHAPE;
    if (frame->type == FRAME_STEP && fact_step_head_get(in, &step) == 0 && step.rank == rank)
        account_step(account, &step);
    if (frame->type == FRAME_GAP && fact_gap_get(in, &gap) == 0 && gap.rank == rank)
        account_gap(account, &gap);
    if (frame->type == FRAME_BEAT && fact_beat_get(in, &beat) == 0 && beat.rank == rank)
        account_beat(account, &beat);
    if (frame->type == FRAME_EXIT && fact_exit_get(in, &exit) == 0 && exit.rank == rank) {
        account->exits++;
        snprintf(account->exit_text, sizeof(account->exit_text), "%s", exit.text);
    }
    if (frame->type == FRAME_RING && fact_ring_get(in, &ring) == 0 && ring.rank == rank) {
        account->rings++;
        account->first_open_ns = ring.open_ns;
        account->pid = ring.pid;
        account->layout = ring.has_layout;
    }
    if (frame->type == FRAME_COMM && fact_comm_get(in, &comm) == 0 && comm.rank == rank)
        account->comms++;
    if (frame->type == FRAME_METHOD && fact_method_get(in, &method) == 0 && method.rank == rank)
        account->method_count++;
}

static inline void stage_account(const struct stage *stage, uint32_t rank, struct account *ret)
{
    struct spool_reader *reader;
    struct frame frame;
    int result;

    *ret = (struct account){ 0 };
    if (spool_reader_open(stage->spool, &reader, NULL) < 0)
        return; /* not there yet */
    while ((result = spool_next(reader, &frame, NULL)) > 0)
        account_frame(ret, &frame, rank);
    assert_int_equal(result, 0);
    assert_int_equal(spool_reader_damaged(reader), 0);
    spool_reader_close(reader);
}

/* Every step of 0 … steps-1 was sent once, or lies in a gap, and not both. */
static inline void account_check(const struct account *account, uint64_t steps)
{
    for (uint64_t i = 0; i < steps; i++) {
        if (account->sent[i] + account->gap[i] != 1)
            fail_msg("step %llu: sent %u times, in %u gaps", (unsigned long long)i,
                     account->sent[i], account->gap[i]);
    }
    assert_false(account->disorder);
    assert_int_equal(account->steps + account->gap_steps, steps);
    assert_true(account->gap_steps == 0 || account->gap_records > 0);
}

/* Looks at the spool again and again until it says what is awaited. */
static inline void stage_await(const struct stage *stage, uint32_t rank,
                               bool (*awaited)(const struct account *), struct account *ret)
{
    int64_t until = time_mono_ns() + STAGE_PATIENCE_NS;

    for (;;) {
        stage_account(stage, rank, ret);
        if (awaited(ret))
            return;
        if (time_mono_ns() > until)
            fail_msg("waited in vain; beats said '%s', %llu steps", ret->states,
                     (unsigned long long)ret->steps);
        stage_sleep(5 * NS_PER_MS);
    }
}

/* How often `text` is in what the agents have said. */
static inline unsigned stage_logged(const struct stage *stage, const char *text)
{
    CLEAN(file_clean) FILE *file = fopen(stage->words, "re");
    char line[1024];
    unsigned count = 0;

    while (file && fgets(line, sizeof(line), file))
        count += strstr(line, text) != NULL;
    return count;
}

#endif
