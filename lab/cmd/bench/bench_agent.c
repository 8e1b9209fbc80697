/* bench_agent.c - what the agent of a node costs, with its sensors and without.
 *
 * A real run: `lockstep run` starts the ranks, which write marks and sleep, and the agent.  What the agent and its children
 * used is read from /proc at the beginning and at the end of a window: CPU time of each thread from schedstat, in
 * nanoseconds, reads and bytes from io.  Children that ended are in the agent's own account, in ticks.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/log.h"
#include "base/paths.h"
#include "base/remove_tree.h"
#include "base/sibling.h"
#include "cmd/lab/bench_options.h"
#include "core/clean.h"
#include "core/time.h"
#include "core/words.h"
#include "lab/bench/node_tree.h"
#include "lab/cmd/lab.h"
#include "lockstep/probe.h"

#define SENSORS_PERCENT 0.5 /* limits */
#define RSS_BYTES (8 << 20)
#define WARM_NS (3 * NS_PER_S) /* environments are read once, at the beginning */
#define START_NS (30 * NS_PER_S)
#define FAMILY_MAX 64

static void agent_sleep(int64_t ns)
{
    const struct timespec nap = time_spec(ns);

    nanosleep(&nap, NULL);
}

/* ---- a rank ---- */

static int bench_rank(const struct bench_agent_settings *settings)
{
    const char *rank = getenv("RANK"), *world = getenv("WORLD_SIZE");
    struct lockstep_probe *probe = NULL;
    char why[200] = "RANK and WORLD_SIZE are not set";
    int64_t next_ns = time_mono_ns();
    int comm;

    if (!rank || !world ||
        lockstep_probe_open((uint32_t)strtoul(rank, NULL, 10), (uint32_t)strtoul(world, NULL, 10),
                            &probe, why, sizeof(why)) < 0) {
        log_error("%s", why);
        return 2;
    }
    comm = lockstep_comm_add(probe, 7, (uint32_t)strtoul(world, NULL, 10),
                             (uint32_t)strtoul(rank, NULL, 10), LOCKSTEP_COMM_DP, "dp");
    for (uint64_t step = 0;; step++) {
        struct timespec wake = time_spec(next_ns += (int64_t)settings->step_ms * NS_PER_MS);

        lockstep_step_begin(probe, step);
        lockstep_phase_begin(probe, LOCKSTEP_PHASE_FORWARD);
        lockstep_phase_end(probe, LOCKSTEP_PHASE_FORWARD);
        for (uint32_t i = 0; i < settings->ops; i++) {
            uint64_t key = lockstep_coll_enqueue(
                probe, LOCKSTEP_OP_DESC(.comm = comm, .op = LOCKSTEP_OP_ALL_REDUCE, .bytes = 4096,
                                        .stream = 1));

            lockstep_coll_start(probe, comm, key, 0);
            lockstep_coll_end(probe, comm, key, 0);
        }
        lockstep_step_end(probe, step);
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, NULL);
    }
}

/* ---- a family of processes ---- */

struct agent_usage {
    int64_t cpu_ns, reads, read_bytes, rss_bytes;
};

static bool agent_file_read(const char *path, char *out, size_t room)
{
    CLEAN(fd_clean) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t bytes = fd < 0 ? -1 : read(fd, out, room - 1);

    out[MAX(bytes, 0)] = '\0';
    return bytes > 0;
}

static int64_t agent_number_after(const char *text, const char *word)
{
    const char *at = strstr(text, word);

    return at ? strtoll(at + strlen(word), NULL, 10) : 0;
}

static void agent_usage_add(int pid, struct agent_usage *usage)
{
    char path[64], text[4096];
    DIR *tasks;

    snprintf(path, sizeof(path), "/proc/%d/io", pid);
    if (agent_file_read(path, text, sizeof(text))) {
        usage->reads += agent_number_after(text, "syscr:");
        usage->read_bytes += agent_number_after(text, "rchar:");
    }
    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    if (agent_file_read(path, text, sizeof(text)))
        usage->rss_bytes += 1024 * agent_number_after(text, "RssAnon:");
    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    tasks = opendir(path);
    for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
        snprintf(path, sizeof(path), "/proc/%d/task/%.16s/schedstat", pid, entry->d_name);
        if (isdigit((unsigned char)entry->d_name[0]) && agent_file_read(path, text, sizeof(text)))
            usage->cpu_ns += strtoll(text, NULL, 10);
    }
    if (tasks)
        closedir(tasks);
}

/* The parent's number, and the ticks of its children that ended. */
static int agent_parent_of(int pid, int64_t *ended_ticks)
{
    char path[64], text[1024];
    const char *end;
    long long user = 0, system = 0;
    int parent = -1;

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    end = agent_file_read(path, text, sizeof(text)) ? strrchr(text, ')') : NULL;
    if (end)
        sscanf(end + 1, " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %lld %lld", &parent,
               &user, &system);
    *ended_ticks = user + system;
    return parent;
}

static bool agent_has_member(const int *list, size_t count, int pid)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i] == pid)
            return true;
    }
    return false;
}

static size_t agent_family(int agent, int *family)
{
    size_t count = 0, before;
    int64_t ticks;

    family[count++] = agent;
    do {
        DIR *proc = opendir("/proc");

        before = count;
        for (struct dirent *entry; proc && (entry = readdir(proc)) && count < FAMILY_MAX;) {
            int pid = (int)strtol(entry->d_name, NULL, 10);

            if (pid > 0 && !agent_has_member(family, count, pid) &&
                agent_has_member(family, count, agent_parent_of(pid, &ticks)))
                family[count++] = pid;
        }
        if (proc)
            closedir(proc);
    } while (count != before && count < FAMILY_MAX);
    return count;
}

static struct agent_usage agent_usage_now(int agent)
{
    struct agent_usage usage = { 0 };
    int family[FAMILY_MAX];
    size_t count = agent_family(agent, family);
    int64_t ticks;

    agent_parent_of(agent, &ticks);
    usage.cpu_ns = ticks * (NS_PER_S / sysconf(_SC_CLK_TCK));
    for (size_t i = 0; i < count; i++)
        agent_usage_add(family[i], &usage);
    return usage;
}

/* The process whose command line is "lockstep agent --run-dir DIR ..."; 0: not there yet. */
static int agent_find(const char *run_dir)
{
    DIR *proc = opendir("/proc");
    int found = 0;

    for (struct dirent *entry; proc && !found && (entry = readdir(proc));) {
        char path[64], text[PATH_MAX + 256];
        int pid = (int)strtol(entry->d_name, NULL, 10);

        snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
        if (pid <= 0 || !agent_file_read(path, text, sizeof(text)))
            continue;
        for (size_t i = 0; i + 1 < sizeof(text) && text[i]; i += strlen(text + i) + 1) {
            if (i && strcmp(text + i, "agent") == 0 &&
                strcmp(text + i + sizeof("agent"), "--run-dir") == 0 &&
                strcmp(text + i + sizeof("agent") + sizeof("--run-dir"), run_dir) == 0)
                found = pid;
        }
    }
    if (proc)
        closedir(proc);
    return found;
}

/* ---- a run ---- */

struct agent_run {
    char scratch[PATH_MAX / 2];
    char run_dir[PATH_MAX];
    int pid;
};

static void agent_run_end(struct agent_run *run)
{
    if (run->pid > 0) {
        kill(run->pid, SIGTERM);
        waitpid(run->pid, NULL, 0);
    }
    run->pid = 0;
}

static int agent_run_begin(struct agent_run *run, const struct bench_agent_settings *settings,
                           bool sensors, struct err *err)
{
    CLEAN(free_clean) struct words *words = calloc(1, sizeof(*words));
    struct path lockstep, lab;
    int result = words ? sibling_find("lockstep", &lockstep, err) : err_nomem(err);
    int parent = (int)getpid();

    if (result == 0)
        result = sibling_find("lockstep-lab", &lab, err);
    if (result < 0)
        return result;
    snprintf(run->run_dir, sizeof(run->run_dir), "%s/%s", run->scratch,
             sensors ? "sensors" : "bare");
    words_add(words, "%s", lockstep.text);
    words_add(words, "run");
    words_add(words, "--quiet");
    words_add(words, "--ranks=%u", settings->ranks);
    words_add(words, "--grace=1s");
    words_add(words, "--dir=%s", run->run_dir);
    words_add(words, "--");
    words_add(words, "%s", lab.text);
    words_add(words, "bench");
    words_add(words, "agent");
    words_add(words, "--rank");
    words_add(words, "--ops=%u", settings->ops);
    words_add(words, "--step-ms=%u", settings->step_ms);
    if (words->full)
        return err_set(err, -E2BIG, "the command line is too long");
    run->pid = fork();
    if (run->pid < 0)
        return err_set(err, -errno, "fork: %m");
    if (run->pid == 0) {
        char sysroot[PATH_MAX], log_path[PATH_MAX];
        int null = open("/dev/null", O_RDWR | O_CLOEXEC), log;

        snprintf(log_path, sizeof(log_path), "%s/run.log", run->scratch);
        log = open(log_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        prctl(PR_SET_PDEATHSIG, SIGTERM);
        snprintf(sysroot, sizeof(sysroot), "%s/tree", run->scratch);
        if (sensors) {
            setenv("LOCKSTEP_SENSE", "1", 1);
            setenv("LOCKSTEP_SYSROOT", sysroot, 1);
        }
        if (getppid() != parent || null < 0 || log < 0)
            _exit(127);
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
        dup2(log, STDERR_FILENO);
        execv(words->argv[0], words->argv);
        _exit(127);
    }
    return 0;
}

struct agent_cost {
    double cpu_percent, reads, read_bytes; /* per second */
    int64_t rss_bytes;
};

static int agent_measure(const struct bench_agent_settings *settings, struct agent_run *run,
                         bool sensors, struct agent_cost *ret, struct err *err)
{
    int64_t limit_ns = time_mono_ns() + START_NS, begin_ns, wall_ns;
    struct agent_usage before, after;
    int agent = 0, result = agent_run_begin(run, settings, sensors, err);

    while (result == 0 && !(agent = agent_find(run->run_dir)) && time_mono_ns() < limit_ns) {
        if (waitpid(run->pid, NULL, WNOHANG) == run->pid) {
            run->pid = 0;
            return err_set(err, -EIO, "'lockstep run' ended");
        }
        agent_sleep(50 * NS_PER_MS);
    }
    if (result < 0)
        return result;
    if (!agent)
        return err_set(err, -ETIMEDOUT, "%s: no agent", run->run_dir);
    agent_sleep(WARM_NS);
    begin_ns = time_mono_ns();
    before = agent_usage_now(agent);
    agent_sleep((int64_t)(settings->seconds * 1e9));
    after = agent_usage_now(agent);
    wall_ns = time_mono_ns() - begin_ns;
    if (agent_find(run->run_dir) != agent)
        return err_set(err, -EIO, "the agent ended while it was measured");
    ret->cpu_percent = 100.0 * (double)(after.cpu_ns - before.cpu_ns) / (double)wall_ns;
    ret->reads = (double)(after.reads - before.reads) * 1e9 / (double)wall_ns;
    ret->read_bytes = (double)(after.read_bytes - before.read_bytes) * 1e9 / (double)wall_ns;
    ret->rss_bytes = MAX(before.rss_bytes, after.rss_bytes);
    return 0;
}

/* ---- the result ---- */

static void bench_agent_add(struct json_object *root, const char *name, double value)
{
    char text[32];

    snprintf(text, sizeof(text), "%.3f", value);
    json_object_object_add(root, name, json_object_new_double_s(value, text));
}

static void bench_agent_print_json(const struct bench_agent_settings *settings,
                                   const struct agent_cost *bare, const struct agent_cost *with)
{
    struct json_object *root = json_object_new_object();

    bench_agent_add(root, "cpu_percent_of_core", with->cpu_percent);
    bench_agent_add(root, "cpu_percent_without_sensors", bare->cpu_percent);
    json_object_object_add(root, "rss_anon_bytes", json_object_new_int64(with->rss_bytes));
    bench_agent_add(root, "reads_per_second", with->reads);
    bench_agent_add(root, "reads_per_second_without_sensors", bare->reads);
    bench_agent_add(root, "read_bytes_per_second", with->read_bytes);
    bench_agent_add(root, "read_bytes_per_second_without_sensors", bare->read_bytes);
    json_object_object_add(root, "gpus_read", json_object_new_boolean(settings->nvml != NULL));
    bench_agent_add(root, "limit_sensors_percent", SENSORS_PERCENT);
    json_object_object_add(root, "limit_rss_anon_bytes", json_object_new_int64(RSS_BYTES));
    puts(json_object_to_json_string_ext(root, JSON_C_TO_STRING_SPACED));
    json_object_put(root);
}

static bool bench_agent_is_within(const struct agent_cost *bare, const struct agent_cost *with)
{
    return with->cpu_percent - bare->cpu_percent <= SENSORS_PERCENT && with->rss_bytes <= RSS_BYTES;
}

static int bench_agent_report(const struct bench_agent_settings *settings,
                              const struct agent_cost *bare, const struct agent_cost *with)
{
    bool within = bench_agent_is_within(bare, with);

    if (settings->json)
        bench_agent_print_json(settings, bare, with);
    else
        printf("agent           %6.2f %% of a core  %7.0f reads/s\n"
               "with sensors    %6.2f %% of a core  %7.0f reads/s  %8.0f bytes/s%s\n"
               "memory          %6.1f MB of its own, children included\n"
               "limit           %6.2f %% more, %.1f MB: %s\n",
               bare->cpu_percent, bare->reads, with->cpu_percent, with->reads, with->read_bytes,
               settings->nvml ? "" : ", GPUs not read", (double)with->rss_bytes / 1e6,
               SENSORS_PERCENT, RSS_BYTES / 1e6, within ? "met" : "missed");
    return within ? 0 : 1;
}

static int bench_agent_tree(const struct bench_agent_settings *settings, const char *tree,
                            struct err *err)
{
    char nvml[PATH_MAX];

    if (mkdir(tree, 0755) < 0)
        return err_set(err, -errno, "%s: %m", tree);
    if (settings->nvml && !realpath(settings->nvml, nvml))
        return err_set(err, -errno, "%s: %m", settings->nvml);
    return node_tree_make(tree, settings->nvml ? nvml : NULL, err);
}

static int bench_agent_scratch(const struct bench_agent_settings *settings, struct agent_run *run,
                               struct err *err)
{
    const char *base = getenv("TMPDIR");
    char tree[PATH_MAX];

    snprintf(run->scratch, sizeof(run->scratch), "%s/lockstep-bench-XXXXXX",
             base && base[0] ? base : "/tmp");
    if (!mkdtemp(run->scratch)) {
        run->scratch[0] = '\0';
        return err_set(err, -errno, "no directory below %s: %m", base && base[0] ? base : "/tmp");
    }
    snprintf(tree, sizeof(tree), "%s/tree", run->scratch);
    return bench_agent_tree(settings, tree, err);
}

/* The first thing that `lockstep run` printed says why it ended. */
static void bench_agent_explain(const struct agent_run *run, struct err *err)
{
    char path[PATH_MAX], text[200];

    snprintf(path, sizeof(path), "%s/run.log", run->scratch);
    if (run->scratch[0] && agent_file_read(path, text, sizeof(text)))
        err_wrap(err, -EIO, "%.*s", (int)strcspn(text, "\n"), text);
}

static int bench_agent_run(const struct bench_agent_settings *settings)
{
    struct agent_run run = { .pid = 0 };
    struct agent_cost bare = { 0 }, with = { 0 };
    struct err err = { "" };
    int result = bench_agent_scratch(settings, &run, &err);

    if (result == 0)
        result = agent_measure(settings, &run, false, &bare, &err);
    agent_run_end(&run);
    if (result == 0)
        result = agent_measure(settings, &run, true, &with, &err);
    agent_run_end(&run);
    if (result < 0)
        bench_agent_explain(&run, &err);
    if (run.scratch[0])
        tree_remove(run.scratch);
    if (result < 0) {
        log_error("%s", err.text);
        return 3;
    }
    return bench_agent_report(settings, &bare, &with);
}

int bench_agent_main(int argc, char **argv)
{
    struct bench_agent_settings settings = {
        .seconds = 60, .ranks = 8, .ops = 200, .step_ms = 100
    };
    struct err err = { "" };
    int first = opt_parse(&command_bench_agent, argc, argv, &settings);

    if (first < 0)
        return OPT_EXIT(first);
    if (first < argc) {
        log_error("unexpected operand '%s'", argv[first]);
        return 2;
    }
    if (!(settings.seconds >= 1 && settings.seconds <= 3600) || !settings.ranks ||
        !settings.step_ms) {
        log_error("--seconds: expected 1 to 3600; --ranks, --step-ms: not 0");
        return 2;
    }
    if (settings.rank)
        return bench_rank(&settings);
    if (!settings.tree)
        return bench_agent_run(&settings);
    if (bench_agent_tree(&settings, settings.tree, &err) == 0)
        return 0;
    log_error("%s", err.text);
    return 2;
}
