/* score_demo.c - one demo in a process of its own, and what its JSON says was done.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/buf.h"
#include "core/clean.h"
#include "core/time.h"
#include "lab/lab_child.h"
#include "lab/score/score_private.h"

/* A run takes its steps' time, a few seconds to begin and end, a limit of ten seconds where it hangs.  One that
 * takes many times that is stuck, and nobody saw it.
 */
#define PATIENCE 4
#define PATIENCE_S 90
#define GRACE_S 30 /* to end in order when it is told to */

static void score_command_words(const struct score_case *at, struct words *words)
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
    if (at->stamps)
        words_add(words, "--stamps");
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

    score_command_words(at, &words);
    out[0] = '\0';
    for (size_t i = 0; i < words.count && used < room; i++)
        used += (size_t)snprintf(out + used, room - used, "%s%s", i ? " " : "", words.argv[i]);
    if (at->again && used < room)
        snprintf(out + used, room - used, " # again");
    if (score_kernel_name(&at->fault) && used < room)
        snprintf(out + used, room - used, " # kernel log: %s", score_kernel_name(&at->fault));
    else if (score_sensors_name(&at->fault) && used < room)
        snprintf(out + used, room - used, " # sensors: %s", score_sensors_name(&at->fault));
}

/* The last line of what it complained about. */
static void score_complaint_read(int fd, char *out, size_t room)
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
static int demo_wait(const struct score_case *at, const struct lab_child *child, struct buf *text)
{
    double usual_s = (double)at->steps * at->step_ms / 1e3;
    int64_t limit_ns = time_mono_ns() + (int64_t)((PATIENCE * usual_s + PATIENCE_S) * 1e9);
    bool in_time = lab_child_read(child, text, limit_ns);
    int status;

    if (!in_time) {
        kill(child->pid, SIGTERM);
        if (!lab_child_read(child, text, time_mono_ns() + GRACE_S * NS_PER_S))
            kill(child->pid, SIGKILL);
    }
    while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return in_time ? status : -1;
}

static bool score_was_interrupted(int status)
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
    struct sensors_scene scene;
    struct lab_child child;
    struct words words;
    int status;

    if (complaints < 0)
        return err_set(err, -errno, "memfd_create: %m");
    score_command_words(at, &words);
    status = score_sensors_begin(at, &scene, err);
    if (status == 0)
        status = lab_child_start("lockstep-lab", &words, state, complaints, &child, err);
    if (status < 0) {
        score_sensors_end(&scene);
        return status;
    }
    status = demo_wait(at, &child, &text);
    score_sensors_end(&scene);
    close(child.out_fd);
    result->run_seconds = (double)(time_mono_ns() - began) / 1e9;
    if (status >= 0 && score_was_interrupted(status))
        return err_set(err, -EINTR, "the demo was interrupted");
    buf_put_u8(&text, 0);
    *answer = text.failed ? NULL : json_tokener_parse((const char *)text.data);
    if (!*answer)
        score_complaint_read(complaints, result->why, sizeof(result->why));
    return 0;
}

struct json_object *score_why(const char *directory, const char *state)
{
    CLEAN(buf_fini) struct buf text = { 0 };
    struct words words = { 0 };
    struct lab_child child;
    bool complete;

    words_add(&words, "lockstep");
    words_add(&words, "why");
    words_add(&words, "--json");
    words_add(&words, "%s", directory);
    if (lab_child_start("lockstep", &words, state, -1, &child, NULL) < 0)
        return NULL;
    complete = lab_child_read(&child, &text, time_mono_ns() + PATIENCE_S * NS_PER_S);
    close(child.out_fd);
    if (!complete)
        kill(child.pid, SIGKILL);
    while (waitpid(child.pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    buf_put_u8(&text, 0);
    return text.failed || !complete ? NULL : json_tokener_parse((const char *)text.data);
}

static int64_t score_demo_field(struct json_object *deed, const char *key)
{
    struct json_object *value;

    return json_object_object_get_ex(deed, key, &value) ? json_object_get_int64(value) : 0;
}

/* Two faults of one kind are told apart by the rank. */
static bool score_deed_of(struct json_object *deed, const struct fault *fault)
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

        if (!score_deed_of(deed, fault))
            continue;
        if (json_object_object_get_ex(deed, "how", &value))
            snprintf(ret->method, sizeof(ret->method), "%s", json_object_get_string(value));
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
