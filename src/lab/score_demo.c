/* score_demo.c - one demo in a process of its own, and what its JSON says was done. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/clean.h"
#include "core/time.h"
#include "lab/score_parts.h"

#define ANSWER_BYTES (4u << 20)

static void demo_exec(const struct score_case *at, const char *state, int out)
{
    char ranks[24], nodes[24], steps[32], work[40], length[40], seed[32], layout[64], saves[32],
        fault[FAULT_TEXT] = "none", also[FAULT_TEXT] = "none";
    const char *argv[] = { "lockstep", "demo", "--json",  work,       length, ranks,
                           nodes,      steps,  seed,      "--layout", layout, saves,
                           "--fault",  fault,  "--fault", also,       NULL };
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    snprintf(ranks, sizeof(ranks), "--ranks=%u", at->ranks);
    snprintf(nodes, sizeof(nodes), "--nodes=%u", at->nodes);
    snprintf(steps, sizeof(steps), "--steps=%llu", (unsigned long long)at->steps);
    snprintf(seed, sizeof(seed), "--seed=%llu", (unsigned long long)at->seed);
    snprintf(work, sizeof(work), "--host-work-ms=%g", at->host_work_ms);
    snprintf(length, sizeof(length), "--step-ms=%g", at->step_ms);
    snprintf(saves, sizeof(saves), "--checkpoint-every=%u", at->checkpoint_every);
    snprintf(layout, sizeof(layout), "tp=%u,pp=%u,dp=%u", at->tp, at->pp, at->dp);
    if (at->fault.kind->id != FAULT_NONE)
        fault_format(&at->fault, fault);
    if (at->also.kind)
        fault_format(&at->also, also);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    setenv("LOCKSTEP_STATE", state, 1);
    dup2(null, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    execv("/proc/self/exe", (char *const *)(void *)argv);
    _exit(127);
}

static void read_all(int fd, struct buf *out)
{
    char chunk[65536];
    ssize_t got;

    while (out->size < ANSWER_BYTES) {
        got = read(fd, chunk, sizeof(chunk));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return;
        buf_put(out, chunk, (size_t)got);
    }
}

int score_demo(const struct score_case *at, const char *state, struct json_object **answer,
               double *seconds, struct err *err)
{
    CLEAN(buf_fini) struct buf text = { 0 };
    int64_t began = time_mono_ns();
    int pipe_fd[2], status;
    pid_t pid;

    if (pipe2(pipe_fd, O_CLOEXEC) < 0)
        return err_set(err, -errno, "pipe: %m");
    pid = fork();
    if (pid < 0) {
        close(pipe_fd[0]);
        close(pipe_fd[1]);
        return err_set(err, -errno, "fork: %m");
    }
    if (pid == 0)
        demo_exec(at, state, pipe_fd[1]);
    close(pipe_fd[1]);
    read_all(pipe_fd[0], &text);
    close(pipe_fd[0]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    buf_put_u8(&text, 0);
    *answer = text.failed ? NULL : json_tokener_parse((const char *)text.data);
    *seconds = (double)(time_mono_ns() - began) / 1e9;
    if (WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) >= 128))
        return err_set(err, -EINTR, "the demo was interrupted");
    return 0;
}

static int64_t field(struct json_object *deed, const char *key)
{
    struct json_object *value;

    return json_object_object_get_ex(deed, key, &value) ? json_object_get_int64(value) : 0;
}

void score_truth_read(struct json_object *answer, struct score_truth *ret)
{
    struct json_object *injected, *value;

    *ret = (struct score_truth){ .mono_ns = INT64_MAX };
    if (!json_object_object_get_ex(answer, "injected", &injected))
        return;
    for (size_t i = 0; i < json_object_array_length(injected); i++) {
        struct json_object *deed = json_object_array_get_idx(injected, i);

        if (json_object_object_get_ex(deed, "how", &value))
            snprintf(ret->how, sizeof(ret->how), "%s", json_object_get_string(value));
        if (json_object_object_get_ex(deed, "seconds", &value))
            ret->seconds += json_object_get_double(value);
        if (field(deed, "mono_ns") == 0 || field(deed, "mono_ns") >= ret->mono_ns)
            continue;
        ret->done = true;
        ret->mono_ns = field(deed, "mono_ns");
        ret->step = (uint64_t)field(deed, "step");
        ret->rank = (uint32_t)field(deed, "rank");
    }
}

double score_seconds_since(const struct score_truth *truth, const char *utc)
{
    struct tm tm = { 0 };
    const char *rest = utc ? strptime(utc, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;
    double real;

    if (!rest)
        return 0;
    real = (double)timegm(&tm) + (*rest == '.' ? strtod(rest, NULL) : 0);
    return real - (double)(time_real_ns() - time_mono_ns() + truth->mono_ns) / 1e9;
}
