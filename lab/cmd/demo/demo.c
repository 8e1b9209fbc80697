/* demo.c - a training job that really trains, faults that are really made, verdicts as they come.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/log.h"
#include "base/opt.h"
#include "base/paths.h"
#include "base/sibling.h"
#include "cmd/lab/demo_options.h"
#include "control/log/log_follow.h"
#include "control/report/run_report.h"
#include "core/clean.h"
#include "core/time.h"
#include "lab/cmd/demo/demo_run.h"
#include "lab/cmd/demo/demo_torch.h"
#include "lab/cmd/lab.h"
#include "lab/faults/fault.h"
#include "lab/trainer/trainer.h"
#include "show/ledger_view.h"
#include "show/run_summary.h"
#include "show/verdict_view.h"
#include "wire/spool.h"

#define TICK_NS (50 * NS_PER_MS)

static volatile sig_atomic_t stopped;

static void demo_on_stop(int signal_number)
{
    stopped = signal_number;
}

static int demo_faults_read(const struct demo_settings *settings, struct demo_run *demo,
                            struct err *err)
{
    static const char *const usual[] = { "gpu-slow:factor=1.5,step=30,steps=40", "kill:step=95" };
    struct fault_shape shape = {
        .world = settings->ranks, .nodes = settings->nodes, .stages = 1, .seed = settings->seed
    };
    unsigned count = settings->faults.count ? settings->faults.count : COUNT(usual);

    if (settings->layout && strstr(settings->layout, "pp="))
        shape.stages = (uint32_t)strtoul(strstr(settings->layout, "pp=") + 3, NULL, 10);
    for (unsigned i = 0; i < count; i++) {
        const char *text = settings->faults.count ? settings->faults.item[i] : usual[i];
        struct fault fault;
        int result = fault_parse(text, &fault, err);

        if (result == 0 && settings->torch)
            result = demo_torch_check(&fault, err);
        else if (result == 0 && (fault.kind->needs & FAULT_NEEDS_TORCH))
            return err_set(err, -ENOTSUP, "fault %s: needs --torch", fault.kind->name);
        if (result == 0)
            result = fault_resolve(&fault, &shape, i, err);
        if (result < 0)
            return result;
        if (fault.kind->id == FAULT_NONE)
            continue;
        if (demo->plan.count == PLAN_FAULTS)
            return err_set(err, -E2BIG, "more than %d faults", PLAN_FAULTS);
        demo->plan.fault[demo->plan.count++] = fault;
        demo->plan.nodes = settings->nodes;
        if (fault_ends_attempt(&fault))
            demo->config.restarts++;
    }
    return 0;
}

/* What the trainer would refuse is refused here, before anything is started. */
static int demo_settings_check(const struct demo_settings *settings, struct err *err)
{
    struct trainer_layout layout;

    if (settings->ranks == 0 || settings->nodes == 0 || settings->nodes > settings->ranks)
        return err_set(err, -EINVAL, "%u ranks on %u nodes: expected at least one rank per node",
                       settings->ranks, settings->nodes);
    if (settings->ranks > TRAINER_RANKS_MAX)
        return err_set(err, -EINVAL, "--ranks %u: expected at most %d", settings->ranks,
                       TRAINER_RANKS_MAX);
    if (settings->steps == 0)
        return err_set(err, -EINVAL, "--steps 0: expected at least 1");
    if (settings->torch && settings->layout)
        return err_set(err, -EINVAL, "--layout: --torch supports only data parallel training");
    if (settings->torch && settings->timeout_ns)
        return err_set(err, -EINVAL, "--timeout: --torch has its own");
    if (settings->timeout_ns &&
        (settings->timeout_ns < NS_PER_MS || settings->timeout_ns > 3600 * NS_PER_S))
        return err_set(err, -EINVAL, "--timeout: expected 1ms to 60m");
    if (!(settings->step_ms >= 1 && settings->step_ms <= TRAINER_STEP_MS_MAX))
        return err_set(err, -EINVAL, "--step-ms %g: expected 1 to %d", settings->step_ms,
                       TRAINER_STEP_MS_MAX);
    if (!(settings->host_work_ms >= 0 && settings->host_work_ms <= settings->step_ms))
        return err_set(err, -EINVAL, "--host-work-ms %g: expected 0 to the step's %g",
                       settings->host_work_ms, settings->step_ms);
    return trainer_layout_parse(settings->layout, settings->ranks, &layout, err);
}

/* ---- while it runs ---- */

struct screen {
    struct show_style style;
    bool quiet, terminal;
    char progress[PATH_MAX + 32]; /* rank 0's output */
    bool line_open;
};

static void demo_line_clear(struct screen *screen)
{
    if (screen->line_open)
        fputs("\r\033[K", stderr);
    screen->line_open = false;
}

static void demo_on_verdict(void *arg, const struct verdict *verdict)
{
    struct screen *screen = arg;
    char who[200];

    demo_line_clear(screen);
    putchar('\n'); /* before each part, none behind it: so there is one between any two */
    if (verdict->until_real_ns) /* it was printed in full when it was opened */
        printf("closed: %s, %s; total cost %.1f GPU-seconds (%s)\n",
               verdict_kind_name(verdict->kind), verdict_who(verdict, who, sizeof(who)),
               verdict->gpu_seconds, verdict->id);
    else
        verdict_text(verdict, &screen->style, stdout);
    fflush(stdout);
}

static void demo_on_run(void *arg, const struct fact_run *run)
{
    struct screen *screen = arg;

    if (run->event != RUN_ATTEMPT_BEGIN || run->attempt == 0)
        return;
    demo_line_clear(screen);
    printf("\nrestart %u: all ranks restart from the newest checkpoint\n", run->attempt);
    fflush(stdout);
}

/* The trainer's own words, on one line that is written over again and again. */
static void demo_progress_show(struct screen *screen)
{
    CLEAN(file_clean) FILE *file = screen->terminal ? fopen(screen->progress, "re") : NULL;
    char tail[513], *line, *newline;
    size_t size;

    if (!file)
        return;
    if (fseek(file, -(long)sizeof(tail) + 1, SEEK_END) < 0)
        rewind(file);
    size = fread(tail, 1, sizeof(tail) - 1, file);
    tail[size] = '\0';
    newline = strrchr(tail, '\n');
    if (!newline)
        return;
    *newline = '\0';
    line = strrchr(tail, '\n');
    fprintf(stderr, "\r\033[K%.100s", line ? line + 1 : tail);
    screen->line_open = true;
}

/* What `lockstep run` writes, between the trainer's lines. */
static void demo_messages_show(struct screen *screen, int fd)
{
    char text[4096];
    ssize_t size;

    while (fd >= 0 && (size = read(fd, text, sizeof(text))) > 0) {
        demo_line_clear(screen);
        fflush(stdout);
        fwrite(text, 1, (size_t)size, stderr);
    }
}

static int demo_watch(struct demo_run *demo, struct screen *screen, struct err *err)
{
    struct log_follow_calls calls = { .verdict = screen->quiet ? NULL : demo_on_verdict,
                                      .run = screen->quiet ? NULL : demo_on_run,
                                      .arg = screen };
    struct log_follow *follow = NULL;
    int result = 0, going = 1;
    bool asked = false;

    while (result >= 0 && going > 0) {
        struct timespec nap = time_spec(TICK_NS);

        clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
        going = demo_run_tick(demo, err);
        demo_messages_show(screen, demo->messages_fd);
        if (stopped && !asked) {
            demo_run_stop(demo);
            asked = true;
        }
        if (!follow && log_follow_open(demo->run_dir, &follow, err) == -ENOENT)
            continue; /* the launcher has not made it yet */
        result = MIN(going, follow ? log_follow_read(follow, &calls, err) : -EIO);
        demo_progress_show(screen);
    }
    demo_line_clear(screen);
    log_follow_close(follow);
    return MIN(result, 0);
}

/* ---- afterwards ---- */

static struct json_object *demo_deed_json(const struct fault *fault, const struct plan_deed *deed)
{
    struct json_object *object = json_object_new_object();
    char text[FAULT_TEXT];

    fault_format(fault, text);
    json_object_object_add(object, "fault", json_object_new_string(fault->kind->name));
    json_object_object_add(object, "text", json_object_new_string(text));
    json_object_object_add(object, "rank", json_object_new_int64(deed->rank));
    json_object_object_add(object, "pid", json_object_new_int64(deed->pid));
    json_object_object_add(object, "step", json_object_new_int64((int64_t)deed->first_step));
    json_object_object_add(object, "steps", json_object_new_int64((int64_t)deed->steps));
    json_object_object_add(object, "attempt", json_object_new_int64(deed->attempt));
    json_object_object_add(object, "seconds", show_number((double)deed->injected_ns / 1e9));
    json_object_object_add(object, "mono_ns", json_object_new_int64(deed->first_ns));
    return object;
}

static struct json_object *demo_outside_json(const struct fault *fault,
                                             const struct inject_report *report)
{
    static const char *const states[] = { "waiting", "active", "over", "skipped" };
    struct json_object *object = json_object_new_object();

    json_object_object_add(object, "fault", json_object_new_string(fault->kind->name));
    json_object_object_add(object, "rank",
                           fault->set & FAULT_RANK ? json_object_new_int64(fault->rank) : NULL);
    json_object_object_add(object, "node", json_object_new_int64(report->node));
    json_object_object_add(object, "step", json_object_new_int64((int64_t)report->step));
    json_object_object_add(object, "mono_ns", json_object_new_int64(report->time_ns));
    json_object_object_add(object, "state", json_object_new_string(states[report->state]));
    json_object_object_add(object, "how", json_object_new_string(report->method));
    return object;
}

/* What was really done, by the trainers' and the injector's own account. */
static struct json_object *demo_injected_json(const struct demo_run *demo)
{
    struct json_object *array = json_object_new_array();
    CLEAN(free_clean) struct plan_deed *deed = calloc(4096, sizeof(*deed));
    int deeds = deed ? truth_read(demo->plan.truth, deed, 4096, NULL) : 0;

    for (int i = 0; i < deeds; i++) {
        if (deed[i].steps > 0 && deed[i].fault < demo->plan.count)
            json_object_array_add(array,
                                  demo_deed_json(&demo->plan.fault[deed[i].fault], &deed[i]));
    }
    for (uint32_t i = 0; i < demo->plan.count && demo->inject; i++) {
        struct inject_report report;

        if (inject_read(demo->inject, i, &report) == 0)
            json_object_array_add(array, demo_outside_json(&demo->plan.fault[i], &report));
    }
    return array;
}

/* What the steps took on the wire: frames of steps only, shapes and beats come once or slowly. */
static double demo_bytes_per_rank_step(const struct demo_run *demo)
{
    char path[PATH_MAX + 16];
    struct spool_reader *reader;
    struct frame frame;
    double bytes = 0, steps = 0;

    snprintf(path, sizeof(path), "%s/log.lsf", demo->run_dir);
    if (spool_reader_open(path, &reader, NULL) < 0)
        return 0;
    while (spool_next(reader, &frame, NULL) > 0) {
        if (frame.type != FRAME_STEP)
            continue;
        bytes += (double)(FRAME_HEADER_BYTES + frame.payload_bytes);
        steps++;
    }
    spool_reader_close(reader);
    return steps > 0 ? bytes / steps : 0;
}

static void demo_report_json(const struct demo_run *demo, const struct run_summary *summary)
{
    struct json_object *object = json_object_new_object(), *verdicts = json_object_new_array();

    for (size_t i = 0; i < summary->verdicts; i++)
        json_object_array_add(verdicts, verdict_json(&summary->verdict[i]));
    json_object_object_add(object, "run", json_object_new_string(demo->config.run));
    json_object_object_add(object, "directory", json_object_new_string(demo->run_dir));
    json_object_object_add(object, "injected", demo_injected_json(demo));
    json_object_object_add(object, "verdicts", verdicts);
    json_object_object_add(object, "ledger",
                           summary->has_ledger ? ledger_json(&summary->ledger) : NULL);
    json_object_object_add(object, "bytes_per_rank_step",
                           show_number(demo_bytes_per_rank_step(demo)));
    json_object_object_add(object, "exit",
                           json_object_new_int(WIFEXITED(demo->status)
                                                   ? WEXITSTATUS(demo->status)
                                                   : 128 + WTERMSIG(demo->status)));
    puts(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED));
    json_object_put(object);
}

/* How `lockstep` is called from here: by its name where PATH finds it, else by its path. */
static void demo_program_word(char *ret, size_t room)
{
    char found[PATH_MAX], here[PATH_MAX], name[PATH_MAX];
    const char *at = getenv("PATH"), *self;
    struct path lockstep;
    size_t size;

    snprintf(ret, room, "lockstep");
    if (sibling_find("lockstep", &lockstep, NULL) < 0)
        return;
    self = lockstep.text;
    for (; at && *at; at += strcspn(at, ":"), at += *at == ':') {
        snprintf(name, sizeof(name), "%.*s/lockstep", (int)strcspn(at, ":"), at);
        if (access(name, X_OK) < 0 || !realpath(name, found))
            continue;
        if (strcmp(found, self) == 0)
            return;
        break; /* another one comes first */
    }
    size = getcwd(here, sizeof(here)) ? strlen(here) : 0;
    if (size > 1 && strncmp(self, here, size) == 0 && self[size] == '/' &&
        strchr(self + size + 1, '/'))
        snprintf(ret, room, "%s", self + size + 1);
    else
        snprintf(ret, room, "%s", self);
}

static void demo_report_text(const struct demo_run *demo, const struct run_summary *summary,
                             const struct show_style *style)
{
    struct json_object *injected = demo_injected_json(demo);
    const char *run = demo->elsewhere ? demo->run_dir : demo->config.run;
    char program[PATH_MAX];

    run_summary_end_text(summary, style, stdout);
    printf("\ninjected faults:\n");
    for (size_t i = 0; i < json_object_array_length(injected); i++) {
        struct json_object *deed = json_object_array_get_idx(injected, i), *value, *method;

        json_object_object_get_ex(deed, "fault", &value);
        printf("  %s", json_object_get_string(value));
        if (json_object_object_get_ex(deed, "rank", &value) && value)
            printf(" on rank %s", json_object_get_string(value));
        json_object_object_get_ex(deed, "step", &value);
        printf(" from step %s", json_object_get_string(value));
        if (json_object_object_get_ex(deed, "how", &method))
            printf(": %s", json_object_get_string(method));
        putchar('\n');
    }
    if (json_object_array_length(injected) == 0)
        puts("  none");
    demo_program_word(program, sizeof(program));
    printf("\nto save the page of the run as one file:\n  %s report %s -o run.html\n", program,
           run);
    printf("to show %s again:\n  %s why %s\n", summary->verdicts ? "these verdicts" : "this",
           program, run);
    json_object_put(injected);
}

static int demo_report(const struct demo_run *demo, const struct demo_settings *settings,
                       const struct show_style *style)
{
    struct run_summary summary = { 0 };
    struct err err = { "" };
    int result = run_report_read(demo->run_dir, false, &summary, &err);

    if (result < 0) {
        log_error("%s", err.text);
        return 3;
    }
    if (settings->json)
        demo_report_json(demo, &summary);
    else
        demo_report_text(demo, &summary, style);
    run_report_fini(&summary);
    if (stopped)
        return 128 + (int)stopped;
    return WIFEXITED(demo->status) ? WEXITSTATUS(demo->status) : 128 + WTERMSIG(demo->status);
}

static void demo_print_begin(const struct demo_run *demo, const struct demo_settings *settings)
{
    if (settings->json)
        return;
    printf("run %s: training with %u rank%s for %llu steps on this machine; ", demo->config.run,
           settings->ranks, settings->ranks == 1 ? "" : "s", (unsigned long long)settings->steps);
    if (demo->plan.count == 0)
        printf("no fault will be injected.\n");
    else
        printf("%u fault%s will be injected.\nlockstep has no information about the faults.\n",
               demo->plan.count, demo->plan.count == 1 ? "" : "s");
    for (uint32_t i = 0; i < demo->plan.count; i++) {
        if (demo->plan.fault[i].step >= settings->steps)
            printf("fault %s begins at step %llu, after the last step: it will not happen.\n",
                   demo->plan.fault[i].kind->name, (unsigned long long)demo->plan.fault[i].step);
    }
    fflush(stdout);
}

int demo_main(int argc, char **argv)
{
    struct demo_settings settings = { .ranks = UINT32_MAX,
                                      .nodes = 1,
                                      .checkpoint_every = 20,
                                      .steps = 140,
                                      .seed = 1,
                                      .step_ms = 100,
                                      .host_work_ms = 2.5 };
    struct demo_torch torch;
    CLEAN(demo_run_fini) struct demo_run demo = { .messages_fd = -1 };
    int first = opt_parse(&command_demo, argc, argv, &settings), result;
    struct screen screen = { .style = show_style_of(stdout), .terminal = isatty(STDERR_FILENO) };
    struct err err = { "" };
    char name[64];

    if (first < 0)
        return OPT_EXIT(first);
    if (settings.list_faults) {
        fault_list(stdout);
        return 0;
    }
    if (settings.ranks == UINT32_MAX)
        settings.ranks = settings.torch ? 4 : 8;
    paths_name_run(time_real_ns(), (uint64_t)getpid() * 2654435761u, name);
    demo.config = (struct demo_config){ .ranks = settings.ranks,
                                        .nodes = settings.nodes,
                                        .steps = settings.steps,
                                        .seed = settings.seed,
                                        .step_ms = settings.step_ms,
                                        .host_work_ms = settings.host_work_ms,
                                        .timeout_ns = settings.timeout_ns,
                                        .layout = settings.layout,
                                        .checkpoint_every = settings.checkpoint_every,
                                        .stamps = settings.stamps,
                                        .page = settings.page,
                                        .messages = screen.terminal && !settings.json,
                                        .run = settings.name ? settings.name : name };
    if (first < argc) {
        log_error("unexpected operand '%s'", argv[first]);
        return 2;
    }
    if (demo_settings_check(&settings, &err) < 0 || demo_faults_read(&settings, &demo, &err) < 0) {
        log_error("%s", err.text);
        return 2;
    }
    if (settings.torch) {
        if (demo_torch_find(&torch, &err) < 0) {
            log_error("%s", err.text);
            return 3;
        }
        demo.config.torch = &torch;
    }
    screen.quiet = settings.json;
    screen.terminal = screen.terminal && !settings.json;
    signal(SIGINT, demo_on_stop);
    signal(SIGTERM, demo_on_stop);
    signal(SIGPIPE, demo_on_stop); /* nobody reads any more: end in order */
    result = demo_run_begin(&demo, &err);
    snprintf(screen.progress, sizeof(screen.progress), "%s/out/rank-0.log", demo.run_dir);
    if (result == 0) {
        demo_print_begin(&demo, &settings);
        result = demo_watch(&demo, &screen, &err);
    }
    if (result < 0) {
        log_error("%s", err.text);
        return 3;
    }
    return demo_report(&demo, &settings, &screen.style);
}
