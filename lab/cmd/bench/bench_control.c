/* bench_control.c - a site's controller under the load of a very large job.
 *
 * The controller is a process of its own with its logs on a real disk; agents and readers are played by
 * other processes (lab/bench/load.h) that share nothing with it but sockets.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/log.h"
#include "base/net/address.h"
#include "base/net/token.h"
#include "base/paths.h"
#include "base/remove_tree.h"
#include "cmd/lab/bench_options.h"
#include "control/site/site.h"
#include "core/clean.h"
#include "core/time.h"
#include "lab/bench/fleet.h"
#include "lab/bench/load.h"
#include "lab/cmd/lab.h"

#define RUN "bench"
#define PROCESSES_MAX 16
#define START_NS (20 * NS_PER_S)
#define IDLE_NS (NS_PER_S / 2)
#define LAST_STEP_NS (60 * NS_PER_S)
#define CPU_BAR 0.5
#define RSS_BAR 1e9
#define VERDICT_BAR 1.0

struct bench_control {
    const struct bench_control_settings *settings;
    struct path state;
    struct load_shared *shared;
    struct load_settings load;
    pid_t control, reader, agent[PROCESSES_MAX];
};

struct result {
    double load_core_share; /* cores used by the simulated agents */
    double cpu_core_share, rss_bytes, ingest_p50_ms, ingest_p99_ms, sse_p99_ms;
    double verdict_delay_p50_s, verdict_delay_p99_s, verdict_delay_max_s, log_bytes_per_s,
        bytes_per_rank_step;
    uint64_t judged, failed, verdicts, bodies;
};

/* ---- processes ---- */

static pid_t control_start(const struct bench_control *bench)
{
    struct site_settings site = { .state = bench->state.text, .listen = "127.0.0.1:0" };
    struct err err = { "" };
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    log_quiet(1);
    if (site_run(&site, &err) < 0)
        log_error("%s", err.text);
    _exit(err.text[0] != '\0');
}

static bool bench_is_late(int64_t deadline_ns)
{
    struct timespec pause = time_spec(10 * NS_PER_MS);

    nanosleep(&pause, NULL);
    return time_mono_ns() > deadline_ns;
}

static int control_port(struct bench_control *bench, struct err *err)
{
    int64_t deadline_ns = time_mono_ns() + START_NS;
    struct address_url parsed;
    struct path path;
    char url[128] = "";
    int result = path_join(&path, bench->state.text, "control.url", err);

    while (result == 0 && !strchr(url, '\n')) {
        CLEAN(file_clean) FILE *file = fopen(path.text, "re");

        if (file && fgets(url, sizeof(url), file) && strchr(url, '\n'))
            break;
        if (bench_is_late(deadline_ns))
            return err_set(err, -ETIMEDOUT, "the controller did not start in time");
    }
    if (result < 0)
        return result;
    url[strcspn(url, "\n")] = '\0';
    if (address_url_parse(url, &parsed) < 0)
        return err_set(err, -EINVAL, "%s: contains no URL", path.text);
    bench->load.port = parsed.at.port;
    result = path_join(&path, bench->state.text, "tokens/reader.token", err);
    return result < 0 ? result : token_read(path.text, &bench->load.reader, err);
}

/* The run is registered as a site's administrator would: by its files. */
static int bench_run_prepare(struct bench_control *bench, struct err *err)
{
    struct path directory, file;
    int result = paths_run_of(bench->state.text, RUN, &directory, err);

    if (result == 0)
        result = path_make(directory.text, err);
    if (result == 0)
        result = path_join(&file, directory.text, "agent.token", err);
    return result < 0 ? result : token_read_or_make(file.text, &bench->load.token, err);
}

static pid_t bench_load_start(const struct bench_control *bench, uint32_t process)
{
    struct load_settings load = bench->load;
    uint32_t processes = bench->settings->processes;
    struct err err = { "" };
    pid_t pid = fork();
    int result;

    if (pid != 0)
        return pid;
    load.process = process;
    load.first = load.nodes * process / processes;
    load.count = load.nodes * (process + 1) / processes - load.first;
    result = process < processes ? load_agents(&load, &err)
                                 : load_readers(&load, bench->settings->readers, &err);
    if (result < 0)
        log_error("%s", err.text);
    _exit(result < 0);
}

static void bench_wait_for(pid_t pid)
{
    if (pid > 0)
        waitpid(pid, NULL, 0);
}

static void bench_stop(struct bench_control *bench)
{
    for (uint32_t i = 0; i < bench->settings->processes; i++) {
        if (bench->agent[i] > 0)
            kill(bench->agent[i], SIGKILL);
        bench_wait_for(bench->agent[i]);
    }
    if (bench->reader > 0)
        kill(bench->reader, SIGKILL);
    bench_wait_for(bench->reader);
    if (bench->control > 0)
        kill(bench->control, SIGTERM);
    bench_wait_for(bench->control);
    if (bench->state.text[0])
        tree_remove(bench->state.text);
}

/* ---- measuring ---- */

static uint32_t bench_control_steps_of(const struct bench_control_settings *settings)
{
    return (uint32_t)((uint64_t)settings->seconds * 1000 / settings->step_ms);
}

static double bench_cpu_seconds(pid_t pid)
{
    char path[64], text[1024];
    unsigned long user, system;
    CLEAN(file_clean) FILE *file = NULL;
    const char *end;

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    file = fopen(path, "re");
    if (!file || !fgets(text, sizeof(text), file) || !(end = strrchr(text, ')')) ||
        sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) !=
            2)
        return 0;
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static double bench_peak_bytes(pid_t pid)
{
    char path[64], line[256];
    CLEAN(file_clean) FILE *file = NULL;
    unsigned long kib = 0;

    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file) && sscanf(line, "VmHWM: %lu", &kib) != 1)
        ;
    return (double)kib * 1024;
}

static double bench_log_bytes(const struct bench_control *bench)
{
    struct path directory, path;
    struct stat st;

    if (paths_run_of(bench->state.text, RUN, &directory, NULL) < 0 ||
        path_join(&path, directory.text, "log.lsf", NULL) < 0 || stat(path.text, &st) < 0)
        return 0;
    return (double)st.st_size;
}

/* A step's delay: from its last frame's sending until listeners hear that it was judged.  One that
 * was judged together with later ones is said with them.
 */
static void bench_verdict_delays(const struct bench_control *bench, struct result *ret)
{
    const struct load_shared *shared = bench->shared;
    CLEAN(free_clean) struct sketch *us = calloc(1, sizeof(*us));
    int64_t logged_ns = 0;

    if (!us)
        return;
    for (uint32_t step = MIN(bench_control_steps_of(bench->settings), LOAD_STEPS_MAX); step > 0;
         step--) {
        int64_t sent_ns = atomic_load(&shared->sent_ns[step - 1]),
                own_ns = atomic_load(&shared->judged_ns[step - 1]);

        if (own_ns)
            logged_ns = own_ns;
        if (!logged_ns || !sent_ns)
            continue;
        ret->judged++;
        sketch_add(us, (uint64_t)MAX(logged_ns - sent_ns, 0) / 1000);
    }
    ret->verdict_delay_p50_s = (double)sketch_quantile(us, 0.5) / 1e6;
    ret->verdict_delay_p99_s = (double)sketch_quantile(us, 0.99) / 1e6;
    ret->verdict_delay_max_s = us->total ? (double)us->max / 1e6 : 0;
}

static void bench_ingest_delays(const struct bench_control *bench, struct result *ret)
{
    CLEAN(free_clean) struct sketch *all = calloc(1, sizeof(*all));

    for (uint32_t i = 0; all && i < bench->settings->processes; i++)
        sketch_merge(all, &bench->shared->agents[i].us);
    if (!all)
        return;
    ret->ingest_p50_ms = (double)sketch_quantile(all, 0.5) / 1e3;
    ret->ingest_p99_ms = (double)sketch_quantile(all, 0.99) / 1e3;
}

static int bench_await_connections(struct bench_control *bench, struct err *err)
{
    int64_t deadline_ns = time_mono_ns() + START_NS + (int64_t)bench->load.nodes * 10 * NS_PER_MS;

    while (atomic_load(&bench->shared->greeted) < bench->load.nodes ||
           atomic_load(&bench->shared->listening) < bench->settings->readers) {
        if (bench_is_late(deadline_ns))
            return err_set(
                err, -ETIMEDOUT, "the controller received facts from only %llu of %u agents",
                (unsigned long long)atomic_load(&bench->shared->greeted), bench->load.nodes);
    }
    return 0;
}

static double bench_load_seconds(const struct bench_control *bench)
{
    double seconds = 0;

    for (uint32_t i = 0; i < bench->settings->processes; i++)
        seconds += bench_cpu_seconds(bench->agent[i]);
    return seconds;
}

static bool bench_has_ended(pid_t pid) /* and is still there to be asked */
{
    siginfo_t info = { 0 };

    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == pid;
}

/* They end when all was acknowledged.  Returns the CPU that they had used. */
static double bench_await_agents(struct bench_control *bench)
{
    double seconds;

    for (uint32_t i = 0; i < bench->settings->processes; i++) {
        while (!bench_has_ended(bench->agent[i]))
            bench_is_late(0); /* a moment */
    }
    seconds = bench_load_seconds(bench);
    for (uint32_t i = 0; i < bench->settings->processes; i++) {
        bench_wait_for(bench->agent[i]);
        bench->agent[i] = 0;
    }
    return seconds;
}

/* Hellos and shapes are processed: the controller uses less than 3 % of a core for half a second. */
static void bench_await_idle(const struct bench_control *bench)
{
    int64_t deadline_ns = time_mono_ns() + START_NS;
    double before;

    do {
        int64_t until_ns = time_mono_ns() + IDLE_NS;

        before = bench_cpu_seconds(bench->control);
        while (!bench_is_late(until_ns))
            ;
    } while (bench_cpu_seconds(bench->control) - before > 0.015 && !bench_is_late(deadline_ns));
}

/* All are acknowledged; on an overloaded machine the last are judged much later. */
static void bench_await_last_step(const struct bench_control *bench)
{
    uint32_t steps = MIN(bench_control_steps_of(bench->settings), LOAD_STEPS_MAX);
    int64_t deadline_ns = time_mono_ns() + LAST_STEP_NS;

    while (!atomic_load(&bench->shared->judged_ns[steps - 1]) && !bench_is_late(deadline_ns))
        ;
}

/* From the first step until the last one is judged. */
static void bench_control_measure(struct bench_control *bench, struct result *ret)
{
    double cpu, load, bytes, seconds;
    int64_t begin_ns;

    bench_await_idle(bench);
    sketch_merge(&bench->shared->readers.us, &(struct sketch){ 0 });
    for (uint32_t i = 0; i < bench->settings->processes; i++)
        memset(&bench->shared->agents[i], 0, sizeof(bench->shared->agents[i]));
    cpu = bench_cpu_seconds(bench->control);
    load = bench_load_seconds(bench);
    bytes = bench_log_bytes(bench);
    begin_ns = time_mono_ns();
    atomic_store(&bench->shared->begin_ns, begin_ns);
    load = bench_await_agents(bench) - load;
    bench_await_last_step(bench);
    seconds = (double)(time_mono_ns() - begin_ns) / (double)NS_PER_S;
    ret->cpu_core_share = (bench_cpu_seconds(bench->control) - cpu) / seconds;
    ret->load_core_share = load / seconds;
    bytes = bench_log_bytes(bench) - bytes;
    ret->log_bytes_per_s = bytes / seconds;
    ret->bytes_per_rank_step =
        bytes / ((double)bench->settings->ranks * bench_control_steps_of(bench->settings));
    ret->rss_bytes = bench_peak_bytes(bench->control);
    ret->sse_p99_ms = (double)sketch_quantile(&bench->shared->readers.us, 0.99) / 1e3;
    ret->failed = atomic_load(&bench->shared->failed);
    ret->verdicts = atomic_load(&bench->shared->verdicts);
    ret->bodies = atomic_load(&bench->shared->bodies);
    bench_ingest_delays(bench, ret);
    bench_verdict_delays(bench, ret);
}

static int bench_open(struct bench_control *bench, struct err *err)
{
    const struct bench_control_settings *settings = bench->settings;
    const char *tmp = getenv("TMPDIR");
    int result;

    bench->shared = mmap(NULL, sizeof(*bench->shared), PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (bench->shared == MAP_FAILED)
        return err_set(err, -errno, "mmap: %m");
    snprintf(bench->state.text, sizeof(bench->state.text), "%s/lockstep-bench-XXXXXX",
             settings->directory ? settings->directory
             : tmp               ? tmp
                                 : "/tmp");
    if (!mkdtemp(bench->state.text)) {
        result = err_set(err, -errno, "%s: %m", bench->state.text);
        bench->state.text[0] = '\0';
        return result;
    }
    bench->load = (struct load_settings){ .run = RUN,
                                          .nodes = settings->ranks / FLEET_NODE_RANKS,
                                          .ops = settings->ops,
                                          .steps = bench_control_steps_of(settings),
                                          .step_ns = settings->step_ms * NS_PER_MS,
                                          .slow_rank = settings->ranks / 2 + 1,
                                          .slow_from = bench_control_steps_of(settings) / 2,
                                          .shared = bench->shared };
    result = bench_run_prepare(bench, err);
    if (result == 0)
        bench->control = control_start(bench);
    if (result == 0)
        result = control_port(bench, err);
    if (result < 0)
        return result;
    for (uint32_t i = 0; i < settings->processes; i++)
        bench->agent[i] = bench_load_start(bench, i);
    bench->reader = bench_load_start(bench, settings->processes);
    return bench_await_connections(bench, err);
}

/* ---- the answer ---- */

static void bench_print_json(const struct bench_control_settings *settings,
                             const struct result *result)
{
    const struct {
        const char *name;
        double value;
    } row[] = {
        { "ranks", settings->ranks },
        { "ops", settings->ops },
        { "seconds", settings->seconds },
        { "step_ms", settings->step_ms },
        { "readers", settings->readers },
        { "cpu_core_share", result->cpu_core_share },
        { "load_core_share", result->load_core_share },
        { "rss_bytes", result->rss_bytes },
        { "ingest_p50_ms", result->ingest_p50_ms },
        { "ingest_p99_ms", result->ingest_p99_ms },
        { "sse_p99_ms", result->sse_p99_ms },
        { "verdict_delay_p50_s", result->verdict_delay_p50_s },
        { "verdict_delay_p99_s", result->verdict_delay_p99_s },
        { "verdict_delay_max_s", result->verdict_delay_max_s },
        { "log_bytes_per_s", result->log_bytes_per_s },
        { "bytes_per_rank_step", result->bytes_per_rank_step },
        { "judged_steps", (double)result->judged },
        { "straggler_verdicts", (double)result->verdicts },
        { "bodies", (double)result->bodies },
        { "failed", (double)result->failed },
    };
    struct json_object *root = json_object_new_object();

    for (size_t i = 0; i < COUNT(row); i++)
        json_object_object_add(root, row[i].name, json_object_new_double(row[i].value));
    puts(json_object_to_json_string_ext(root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED));
    json_object_put(root);
}

static void bench_print_text(const struct bench_control_settings *settings,
                             const struct result *result)
{
    printf("%u ranks on %u nodes, %u collectives per step, a step every %u ms for %u s\n",
           settings->ranks, settings->ranks / FLEET_NODE_RANKS, settings->ops, settings->step_ms,
           settings->seconds);
    printf("cpu_core_share       %10.3f  cores used by the controller (limit: at most %.1f)\n",
           result->cpu_core_share, CPU_BAR);
    printf("load_core_share      %10.3f  cores used by the simulated agents\n",
           result->load_core_share);
    printf("rss_bytes            %10.0f  peak memory (limit: at most %.0f)\n", result->rss_bytes,
           RSS_BAR);
    printf("ingest_p99_ms        %10.1f  from the first byte of a body to its acknowledgement; p50 "
           "%.1f\n",
           result->ingest_p99_ms, result->ingest_p50_ms);
    printf("sse_p99_ms           %10.1f  delay of events to %u readers\n", result->sse_p99_ms,
           settings->readers);
    printf("verdict_delay_p99_s  %10.3f  from the last frame of a step to its judgement (limit: at "
           "most "
           "%.1f)\n",
           result->verdict_delay_p99_s, VERDICT_BAR);
    printf("log_bytes_per_s      %10.0f  %.0f bytes per rank and step\n", result->log_bytes_per_s,
           result->bytes_per_rank_step);
    printf(
        "judged_steps         %10llu  straggler reported %llu times; %llu of %llu bodies failed\n",
        (unsigned long long)result->judged, (unsigned long long)result->verdicts,
        (unsigned long long)result->failed, (unsigned long long)result->bodies);
}

static bool bench_control_is_good(const struct bench_control_settings *settings,
                                  const struct result *result)
{
    return result->cpu_core_share <= CPU_BAR && result->rss_bytes <= RSS_BAR &&
           result->verdict_delay_p99_s <= VERDICT_BAR && result->failed == 0 &&
           result->judged == bench_control_steps_of(settings);
}

int bench_control_main(int argc, char **argv)
{
    struct bench_control_settings settings = {
        .ranks = 16384, .seconds = 30, .step_ms = 1000, .ops = 200, .readers = 100, .processes = 2
    };
    int first = opt_parse(&command_bench_control, argc, argv, &settings), r;
    struct bench_control bench = { .settings = &settings };
    struct result result = { 0 };
    struct err err = { "" };

    if (first < 0)
        return OPT_EXIT(first);
    if (first < argc || settings.ranks < 16 || settings.ranks % FLEET_NODE_RANKS ||
        settings.seconds > 3600 || settings.step_ms < 100 ||
        bench_control_steps_of(&settings) < 2 ||
        bench_control_steps_of(&settings) > LOAD_STEPS_MAX || settings.ops < 1 ||
        settings.ops > 2000 || settings.processes < 1 || settings.processes > PROCESSES_MAX) {
        log_error("expected --ranks a multiple of 8 from 16 on, 2 to %d steps of 100 ms or more, 1 "
                  "to 2000 "
                  "--ops, 1 to %d --processes",
                  LOAD_STEPS_MAX, PROCESSES_MAX);
        return 2;
    }
    r = bench_open(&bench, &err);
    if (r == 0)
        bench_control_measure(&bench, &result);
    bench_stop(&bench);
    if (r < 0) {
        log_error("%s", err.text);
        return 3;
    }
    (settings.json ? bench_print_json : bench_print_text)(&settings, &result);
    return bench_control_is_good(&settings, &result) ? 0 : 1;
}
