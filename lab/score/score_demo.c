/* score_demo.c - one demo in a process of its own, and what its JSON says was done.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sibling.h"
#include "core/buf.h"
#include "core/clean.h"
#include "core/time.h"
#include "core/words.h"
#include "lab/score/score_private.h"

#define ANSWER_BYTES (4u << 20)
/* A run takes its steps' time, a few seconds to begin and end, a limit of ten seconds where it hangs.  One that
 * takes many times that is stuck, and nobody saw it.
 */
#define PATIENCE 4
#define PATIENCE_S 90
#define GRACE_S 30 /* to end in order when it is told to */

static void command_words(const struct score_case *at, struct words *words)
{
    char fault[FAULT_TEXT] = "none";

    *words = (struct words){ 0 };
    words_add(words, "lockstep");
    words_add(words, "demo");
    words_add(words, "--json");
    if (at->torch)
        words_add(words, "--torch");
    else
        words_add(words, "--host-work-ms=%g", at->host_work_ms);
    words_add(words, "--step-ms=%g", at->step_ms);
    words_add(words, "--ranks=%u", at->ranks);
    words_add(words, "--nodes=%u", at->nodes);
    words_add(words, "--steps=%llu", (unsigned long long)at->steps);
    words_add(words, "--seed=%llu", (unsigned long long)at->seed);
    if (!at->torch)
        words_add(words, "--layout=tp=%u,pp=%u,dp=%u", at->tp, at->pp, at->dp);
    words_add(words, "--checkpoint-every=%u", at->checkpoint_every);
    if (at->fault.kind->id != FAULT_NONE)
        fault_format(&at->fault, fault);
    words_add(words, "--fault=%s", fault);
    if (at->also.kind) {
        fault_format(&at->also, fault);
        words_add(words, "--fault=%s", fault);
    }
}

void score_case_command(const struct score_case *at, char *out, size_t room)
{
    struct words words;
    size_t used = 0;

    command_words(at, &words);
    out[0] = '\0';
    for (size_t i = 0; i < words.count && used < room; i++)
        used += (size_t)snprintf(out + used, room - used, "%s%s", i ? " " : "", words.argv[i]);
    if (at->again && used < room)
        snprintf(out + used, room - used, " # again");
    if (score_kernel_name(&at->fault) && used < room)
        snprintf(out + used, room - used, " # kernel log: %s", score_kernel_name(&at->fault));
}

/* Starts `program`, one of ours, with these words. */
static void sibling_exec(const char *program, struct words *words, const char *state, int out,
                         int complaints)
{
    struct path path;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    prctl(PR_SET_PDEATHSIG, SIGTERM);
    setenv("LOCKSTEP_STATE", state, 1);
    dup2(null, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(complaints, STDERR_FILENO);
    if (!words->full && sibling_find(program, &path, NULL) == 0)
        execv(path.text, words->argv);
    _exit(127);
}

static void demo_exec(const struct score_case *at, const char *state, int out, int complaints)
{
    struct words words;

    command_words(at, &words);
    sibling_exec("lockstep-lab", &words, state, out, complaints);
}

/* Reads to the end.  false: the time was over before. */
static bool read_until(int fd, struct buf *out, int64_t limit_ns)
{
    char chunk[65536];

    while (out->size < ANSWER_BYTES) {
        int left_ms = time_poll_ms(limit_ns, time_mono_ns());
        struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
        ssize_t got;

        if (!left_ms)
            return false;
        if (poll(&poll_fd, 1, left_ms) <= 0)
            continue;
        got = read(fd, chunk, sizeof(chunk));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return true;
        buf_put(out, chunk, (size_t)got);
    }
    return true;
}

/* The last line of what it complained about. */
static void complaint_read(int fd, char *out, size_t room)
{
    char tail[400];
    off_t size = lseek(fd, 0, SEEK_END);
    ssize_t got = pread(fd, tail, sizeof(tail) - 1, MAX(0, size - (off_t)sizeof(tail) + 1));
    char *line;

    tail[MAX(0, got)] = '\0';
    while (got > 0 && tail[got - 1] == '\n')
        tail[--got] = '\0';
    line = strrchr(tail, '\n');
    snprintf(out, room, "%s", tail[0] ? (line ? line + 1 : tail) : "the demo printed no result");
}

/* Returns its status as waitpid() gives it, or -1 where it had to be stopped. */
static int demo_wait(const struct score_case *at, pid_t pid, int out, struct buf *text)
{
    double usual_s = (double)at->steps * at->step_ms / 1e3;
    int64_t limit_ns = time_mono_ns() + (int64_t)((PATIENCE * usual_s + PATIENCE_S) * 1e9);
    bool in_time = read_until(out, text, limit_ns);
    int status;

    if (!in_time) {
        kill(pid, SIGTERM);
        if (!read_until(out, text, time_mono_ns() + GRACE_S * NS_PER_S))
            kill(pid, SIGKILL);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return in_time ? status : -1;
}

static bool was_interrupted(int status)
{
    int number = WIFSIGNALED(status) ? WTERMSIG(status)
                 : WIFEXITED(status) ? WEXITSTATUS(status) - 128
                                     : 0;

    return number == SIGINT || number == SIGTERM;
}

int score_demo(const struct score_case *at, const char *state, struct json_object **answer,
               struct score_result *result, struct err *err)
{
    CLEAN(buf_fini) struct buf text = { 0 };
    CLEAN(fd_clean) int complaints = memfd_create("complaints", MFD_CLOEXEC);
    int64_t began = time_mono_ns();
    int pipe_fd[2], status;
    pid_t pid;

    if (complaints < 0 || pipe2(pipe_fd, O_CLOEXEC) < 0)
        return err_set(err, -errno, "pipe: %m");
    pid = fork();
    if (pid < 0) {
        close(pipe_fd[0]);
        close(pipe_fd[1]);
        return err_set(err, -errno, "fork: %m");
    }
    if (pid == 0)
        demo_exec(at, state, pipe_fd[1], complaints);
    close(pipe_fd[1]);
    status = demo_wait(at, pid, pipe_fd[0], &text);
    close(pipe_fd[0]);
    result->run_seconds = (double)(time_mono_ns() - began) / 1e9;
    if (status >= 0 && was_interrupted(status))
        return err_set(err, -EINTR, "the demo was interrupted");
    buf_put_u8(&text, 0);
    *answer = text.failed ? NULL : json_tokener_parse((const char *)text.data);
    if (!*answer)
        complaint_read(complaints, result->why, sizeof(result->why));
    return 0;
}

struct json_object *score_why(const char *directory, const char *state)
{
    CLEAN(buf_fini) struct buf text = { 0 };
    CLEAN(fd_clean) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct words words = { 0 };
    int pipe_fd[2];
    bool whole;
    pid_t pid;

    words_add(&words, "lockstep");
    words_add(&words, "why");
    words_add(&words, "--json");
    words_add(&words, "%s", directory);
    if (null < 0 || pipe2(pipe_fd, O_CLOEXEC) < 0)
        return NULL;
    pid = fork();
    if (pid == 0)
        sibling_exec("lockstep", &words, state, pipe_fd[1], null);
    close(pipe_fd[1]);
    whole = pid > 0 && read_until(pipe_fd[0], &text, time_mono_ns() + PATIENCE_S * NS_PER_S);
    close(pipe_fd[0]);
    if (pid > 0 && !whole)
        kill(pid, SIGKILL);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    buf_put_u8(&text, 0);
    return text.failed || !whole ? NULL : json_tokener_parse((const char *)text.data);
}

static int64_t score_demo_field(struct json_object *deed, const char *key)
{
    struct json_object *value;

    return json_object_object_get_ex(deed, key, &value) ? json_object_get_int64(value) : 0;
}

/* Two faults of one kind are told apart by the rank. */
static bool deed_of(struct json_object *deed, const struct fault *fault)
{
    struct json_object *name, *rank;

    if (!fault)
        return true;
    if (!json_object_object_get_ex(deed, "fault", &name) ||
        strcmp(json_object_get_string(name), fault->kind->name) != 0)
        return false;
    return !(fault->set & FAULT_RANK) || !json_object_object_get_ex(deed, "rank", &rank) || !rank ||
           json_object_get_int64(rank) == fault->rank;
}

void score_truth_read(struct json_object *answer, const struct fault *fault,
                      struct score_truth *ret)
{
    struct json_object *injected, *value;

    *ret = (struct score_truth){ .mono_ns = INT64_MAX };
    if (!json_object_object_get_ex(answer, "injected", &injected))
        return;
    for (size_t i = 0; i < json_object_array_length(injected); i++) {
        struct json_object *deed = json_object_array_get_idx(injected, i);

        if (!deed_of(deed, fault))
            continue;
        if (json_object_object_get_ex(deed, "how", &value))
            snprintf(ret->how, sizeof(ret->how), "%s", json_object_get_string(value));
        if (json_object_object_get_ex(deed, "seconds", &value))
            ret->seconds += json_object_get_double(value);
        if (score_demo_field(deed, "mono_ns") == 0 ||
            score_demo_field(deed, "mono_ns") >= ret->mono_ns)
            continue;
        ret->done = true;
        ret->mono_ns = score_demo_field(deed, "mono_ns");
        ret->step = (uint64_t)score_demo_field(deed, "step");
        ret->rank = (uint32_t)score_demo_field(deed, "rank");
        ret->pid = (uint32_t)score_demo_field(deed, "pid");
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
