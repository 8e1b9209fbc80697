/* verify.c - runs checks in child processes and passes their results on.
 *
 * Whoever runs checks waits for them and for nothing else, with a deadline for each child: poll() over their pipes says all of that, so
 * there is no loop (base/loop.h).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "verify/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"

#define KILL_WAIT_NS                                                                               \
    (200 * NS_PER_MS) /* a process that hangs in the kernel outlives SIGKILL: it is left behind */

static const char *const stage_names[] = { "quick", "prolog", "deep", "burn" };

_Static_assert(COUNT(stage_names) == VERIFY_STAGES, "each stage has a name");

const char *verify_stage_name(unsigned stage)
{
    return stage < VERIFY_STAGES ? stage_names[stage] : "unknown";
}

int verify_stage_of(const char *name)
{
    for (unsigned i = 0; i < VERIFY_STAGES; i++) {
        if (strcmp(stage_names[i], name) == 0)
            return (int)i;
    }
    return -EINVAL;
}

const char *verify_state_name(unsigned state)
{
    return state == VERIFY_NOT_APPLICABLE ? "not-applicable" : check_state_name(state);
}

unsigned verify_worst(unsigned state, unsigned other)
{
    static const uint8_t weight[CHECK_STATE_COUNT + 1] = { [VERIFY_NOT_APPLICABLE] = 0,
                                                           [CHECK_OK] = 1,
                                                           [CHECK_LIMITED] = 2,
                                                           [CHECK_UNKNOWN] = 3,
                                                           [CHECK_FAILED] = 4 };

    return weight[other] > weight[state] ? other : state;
}

struct check *verify_result(struct verify_report *report, unsigned state, const char *device,
                            const char *format, ...)
{
    struct check *result = &report->result[MIN(report->count, (size_t)VERIFY_RESULTS - 1)];
    va_list args;

    if (report->count == VERIFY_RESULTS) { /* the last one stands for the rest */
        result->state = (uint8_t)verify_worst(result->state, state);
        return result;
    }
    report->count++;
    *result = (struct check){ .state = (uint8_t)state };
    snprintf(result->device, sizeof(result->device), "%s", device);
    va_start(args, format);
    vsnprintf(result->why, sizeof(result->why), format, args);
    va_end(args);
    return result;
}

/* ---- one child ---- */

struct verify_child {
    const struct verify_check *check;
    pid_t pid; /* 0: there is none */
    int fd;
    int64_t began_ns, limit_ns;
    size_t got; /* bytes */
    struct verify_report report;
    bool again; /* it runs for the second time, because at first these failed: */
    struct verify_report doubted;
};

static int64_t verify_limit_ns(const struct verify_check *check, const struct verify_place *place)
{
    int64_t extra_ns = place->stage == VERIFY_BURN && check->loads ? place->burn_ns : 0;

    return check->limit_ns[place->stage] + extra_ns;
}

static void verify_child_run(const struct verify_check *check, const struct verify_place *place,
                             int fd, pid_t parent)
{
    static struct verify_report report;
    size_t put = 0;

    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    check->run(place, &report);
    while (put < sizeof(report)) {
        ssize_t n = write(fd, (const char *)&report + put, sizeof(report) - put);

        if (n <= 0)
            _exit(1);
        put += (size_t)n;
    }
    _exit(0);
}

static void verify_child_start(struct verify_child *child, const struct verify_check *check,
                               const struct verify_place *place)
{
    pid_t parent = getpid();
    int pipe_fd[2];

    memset(child, 0, sizeof(*child));
    child->check = check;
    child->began_ns = time_mono_ns();
    child->limit_ns = verify_limit_ns(check, place);
    child->fd = -1;
    if (pipe2(pipe_fd, O_CLOEXEC) < 0)
        return;
    fflush(NULL); /* or the child might print again what is buffered here */
    child->pid = fork();
    if (child->pid == 0)
        verify_child_run(check, place, pipe_fd[1], parent);
    close(pipe_fd[1]);
    if (child->pid < 0) {
        close(pipe_fd[0]);
        child->pid = 0;
        return;
    }
    child->fd = pipe_fd[0];
}

static void verify_child_unknown(struct verify_child *child, const char *why)
{
    memset(&child->report, 0, sizeof(child->report));
    verify_result(&child->report, CHECK_UNKNOWN, "", "%s", why);
}

/* Reads what there is.  True: it has ended its report, or will never. */
static bool verify_child_read(struct verify_child *child)
{
    ssize_t n =
        read(child->fd, (char *)&child->report + child->got, sizeof(child->report) - child->got);

    if (n < 0)
        return errno != EINTR;
    child->got += (size_t)n;
    return n == 0 || child->got == sizeof(child->report);
}

static bool verify_report_is_sound(const struct verify_report *report)
{
    if (!report->count || report->count > VERIFY_RESULTS)
        return false;
    for (size_t i = 0; i < report->count; i++) {
        const struct check *result = &report->result[i];

        if (result->state < CHECK_OK || result->state > VERIFY_NOT_APPLICABLE ||
            !memchr(result->why, '\0', sizeof(result->why)) ||
            !memchr(result->device, '\0', sizeof(result->device)) ||
            !memchr(result->unit, '\0', sizeof(result->unit)))
            return false;
    }
    return true;
}

static bool verify_child_reap(struct verify_child *child, int *status)
{
    int64_t end_ns = time_mono_ns() + KILL_WAIT_NS;
    const struct timespec nap = time_spec(2 * NS_PER_MS);
    pid_t reaped;

    while ((reaped = waitpid(child->pid, status, WNOHANG)) == 0 && time_mono_ns() < end_ns)
        nanosleep(&nap, NULL);
    return reaped == child->pid;
}

static void verify_child_end(struct verify_child *child, bool late)
{
    char why[160] = "";
    int status = 0;

    if (!child->pid) {
        verify_child_unknown(child, "no process could be started for this check");
        return;
    }
    if (late)
        kill(child->pid, SIGKILL);
    close(child->fd);
    if (!verify_child_reap(child, &status))
        snprintf(why, sizeof(why), "no answer within %.1f s, and its process cannot be killed",
                 (double)child->limit_ns / 1e9);
    else if (late)
        snprintf(why, sizeof(why), "no answer within %.1f s", (double)child->limit_ns / 1e9);
    else if (WIFSIGNALED(status))
        snprintf(why, sizeof(why), "the check itself ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else if (child->got != sizeof(child->report) || !verify_report_is_sound(&child->report))
        snprintf(why, sizeof(why), "the check ended without a result");
    if (why[0])
        verify_child_unknown(child, why);
}

static void verify_child_give(struct verify_child *child, const struct verify_place *place,
                              const struct verify_sink *sink)
{
    int64_t now_ns = time_mono_ns(), real_ns = time_real_ns();

    for (size_t i = 0; i < child->report.count; i++) {
        struct check *result = &child->report.result[i];

        result->mono_ns = now_ns;
        result->real_ns = real_ns;
        result->seconds = (double)(now_ns - child->began_ns) / 1e9;
        snprintf(result->node, sizeof(result->node), "%s", place->node);
        snprintf(result->stage, sizeof(result->stage), "%s", verify_stage_name(place->stage));
        if (!result->name[0])
            snprintf(result->name, sizeof(result->name), "%s", child->check->name);
        sink->result(sink->user, child->check, result);
    }
}

/* ---- a second look ---- */

static bool verify_is_measured(const struct check *result)
{
    return result->has_value && result->has_expected;
}

/* What else the machine did for a moment may have made a rate low.  A wrong bit is wrong, however often it is right. */
static bool verify_is_doubtful(const struct verify_child *child, const struct verify_place *place)
{
    bool failed = false;

    if (child->again || !child->check->loads || place->stage == VERIFY_BURN)
        return false;
    for (size_t i = 0; i < child->report.count; i++) {
        const struct check *result = &child->report.result[i];

        if (result->state == CHECK_FAILED && !verify_is_measured(result))
            return false;
        failed |= result->state == CHECK_FAILED;
    }
    return failed;
}

static void verify_child_repeat(struct verify_child *child, const struct verify_place *place,
                                const struct verify_sink *sink)
{
    const struct verify_check *check = child->check;
    CLEAN(free_clean) struct verify_report *first = malloc(sizeof(*first));
    int64_t began_ns = child->began_ns;

    if (!first)
        return;
    *first = child->report;
    if (sink->begin)
        sink->begin(sink->user, check);
    verify_child_start(child, check, place);
    child->limit_ns += child->began_ns - began_ns;
    child->began_ns = began_ns;
    child->again = true;
    child->doubted = *first;
}

/* What failed only once is limited. */
static void verify_child_compare(struct verify_child *child)
{
    for (size_t i = 0; i < child->doubted.count; i++) {
        const struct check *first = &child->doubted.result[i];

        for (size_t k = 0; k < child->report.count && first->state == CHECK_FAILED; k++) {
            struct check *result = &child->report.result[k];
            size_t size = strlen(result->why);

            if (strcmp(result->name, first->name) != 0 ||
                strcmp(result->device, first->device) != 0 || result->state == CHECK_FAILED)
                continue;
            result->state = (uint8_t)verify_worst(result->state, CHECK_LIMITED);
            snprintf(result->why + size, sizeof(result->why) - size, "; a moment before %.1f",
                     first->value);
        }
    }
}

/* ---- several at once ---- */

static int64_t verify_next_ns(const struct verify_child *child, size_t count)
{
    int64_t next_ns = INT64_MAX;

    for (size_t i = 0; i < count; i++) {
        if (child[i].check)
            next_ns = MIN(next_ns, child[i].began_ns + child[i].limit_ns);
    }
    return next_ns;
}

/* Waits for all of them; each is reported when it ends.  Returns what one of them needs and waited for in vain, or NULL.
 *
 * poll() and not base/loop.h: each descriptor is read until its child ends, at a deadline of its own, and nothing else happens
 * meanwhile.
 */
static const char *verify_wait(struct verify_child *child, size_t count,
                               const struct verify_place *place, const struct verify_sink *sink)
{
    const char *silent = NULL;
    size_t open = count;

    while (open) {
        struct pollfd *ready = calloc(count, sizeof(*ready));
        int64_t now_ns = time_mono_ns();

        for (size_t i = 0; ready && i < count; i++)
            ready[i] = (struct pollfd){ .fd = child[i].check ? child[i].fd : -1, .events = POLLIN };
        if (ready)
            poll(ready, count, time_poll_ms(verify_next_ns(child, count), now_ns));
        now_ns = time_mono_ns();
        for (size_t i = 0; i < count; i++) {
            bool late = child[i].check && now_ns >= child[i].began_ns + child[i].limit_ns;
            bool ended = child[i].check && (!child[i].pid || !ready || late);

            if (child[i].check && !ended && ready[i].revents)
                ended = verify_child_read(&child[i]);
            if (!ended)
                continue;
            verify_child_end(&child[i], late || !ready);
            if (verify_is_doubtful(&child[i], place)) {
                verify_child_repeat(&child[i], place, sink);
                if (child[i].again)
                    continue;
            }
            verify_child_compare(&child[i]);
            verify_child_give(&child[i], place, sink);
            silent = late && child[i].check->needs ? child[i].check->needs : silent;
            child[i].check = NULL;
            open--;
        }
        free(ready);
    }
    return silent;
}

/* A driver that hangs is waited for once: a stage has a time limit, too. */
static void verify_skip(struct verify_child *child, const struct verify_check *check,
                        const struct verify_place *place, const struct verify_sink *sink)
{
    char why[80];

    memset(child, 0, sizeof(*child));
    child->check = check;
    child->began_ns = time_mono_ns();
    snprintf(why, sizeof(why), "not run: the %s did not answer an earlier check", check->needs);
    verify_child_unknown(child, why);
    verify_child_give(child, place, sink);
}

static bool verify_is_due(const struct verify_check *check, unsigned stage, const char *only)
{
    return only ? strcmp(check->name, only) == 0 : check->stage <= stage;
}

size_t verify_count(unsigned stage, const char *only)
{
    size_t count = 0;

    for (size_t i = 0; i < verify_check_count; i++)
        count += verify_is_due(verify_checks[i], stage, only);
    return count;
}

static void verify_start(struct verify_child *child, const struct verify_check *check,
                         const struct verify_place *place, const struct verify_sink *sink)
{
    if (sink->begin)
        sink->begin(sink->user, check);
    verify_child_start(child, check, place);
}

int verify_run(const struct verify_place *place, const char *only, const struct verify_sink *sink,
               struct err *err)
{
    CLEAN(free_clean) struct verify_child *child = calloc(verify_check_count, sizeof(*child));
    struct verify_place at = *place;
    const char *silent;
    size_t together = 0, found = 0;

    if (!child)
        return err_nomem(err);
    for (size_t i = 0; i < verify_check_count; i++) {
        if (!verify_is_due(verify_checks[i], place->stage, only))
            continue;
        found++;
        at.stage = MAX(at.stage, only ? verify_checks[i]->stage : 0);
        if (!verify_checks[i]->loads)
            verify_start(&child[together++], verify_checks[i], &at, sink);
    }
    if (only && !found)
        return err_set(err, -ENOENT, "no check '%s'; --list shows all", only);
    silent = verify_wait(child, together, &at, sink);
    for (size_t i = 0; i < verify_check_count; i++) {
        const struct verify_check *check = verify_checks[i];
        const char *needs = check->needs ? check->needs : "";

        if (!verify_is_due(check, place->stage, only) || !check->loads)
            continue;
        if (silent && strcmp(needs, silent) == 0) {
            verify_skip(child, check, &at, sink);
            continue;
        }
        verify_start(child, check, &at, sink);
        needs = verify_wait(child, 1, &at, sink);
        silent = needs ? needs : silent;
    }
    return 0;
}
