/* bench_recover.c - how long a job does not train after a rank was killed: lockstep beside torchrun.
 *
 * The same training runs under each launcher, in turns, so that other load on the machine meets all of them.  Its ranks write down
 * when they have come how far (recover.py); the parts before that are the launcher's.  Of several rounds the one with the
 * median total counts.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <json-c/json.h>

#include "act/attach.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/procs.h"
#include "base/remove_tree.h"
#include "base/sibling.h"
#include "cmd/lab/bench_options.h"
#include "control/report/run_report.h"
#include "core/clean.h"
#include "core/time.h"
#include "core/words.h"
#include "lab/cmd/demo/demo_torch.h"
#include "lab/cmd/lab.h"

#define RECOVER_ROUNDS_MAX 20
#define RECOVER_LIMIT_NS (90 * NS_PER_S)
#define RECOVER_RATIO_BAR 0.5 /* of torchrun's total */
#define RECOVER_OWN_BAR 2.0   /* seconds, for our own parts */
#define RECOVER_LOST_BAR 5    /* steps: a checkpoint interval of recover.py */

enum recover_engine {
    RECOVER_TORCHRUN,
    RECOVER_COLD,
    RECOVER_WARM,
    RECOVER_ENGINES
};
static const char *const engine_names[RECOVER_ENGINES] = { "torchrun", "cold", "warm" };

struct recover_round {
    bool known;
    bool split; /* detect, decide and stop are known */
    double detect_s, decide_s, stop_s, start_s, init_s, load_s, first_step_s, total_s;
    int lost_steps;
    unsigned left; /* processes that were still there afterwards */
};

struct bench_recover {
    const struct bench_recover_settings *settings;
    struct demo_torch torch; /* its Python */
    struct path script, lockstep, directory;
    struct recover_round round[RECOVER_ENGINES][RECOVER_ROUNDS_MAX];
};

/* ---- a run ---- */

static void recover_words(const struct bench_recover *bench, enum recover_engine engine,
                          const char *directory, struct words *words)
{
    uint32_t ranks = bench->settings->ranks;

    if (engine ==
        RECOVER_TORCHRUN) { /* at its best setting; -r and -t: torch 1.13 with Python 3.11 needs them */
        words_add(words, "%s", bench->torch.python);
        words_add(words, "-m");
        words_add(words, "torch.distributed.run");
        words_add(words, "--standalone");
        words_add(words, "--nproc_per_node=%u", ranks);
        words_add(words, "--max_restarts=1");
        words_add(words, "--monitor_interval=0.1");
        words_add(words, "-r");
        words_add(words, "2");
        words_add(words, "-t");
        words_add(words, "1");
    } else {
        words_add(words, "%s", bench->lockstep.text);
        words_add(words, "run");
        words_add(words, "--quiet");
        words_add(words, "--dir=%s/run", directory);
        words_add(words, "--ranks=%u", ranks);
        words_add(words, "--max-restarts=1");
        words_add(words, "--grace=2s");
        if (engine == RECOVER_WARM)
            words_add(words, "--warm");
        words_add(words, "--");
        words_add(words, "%s", bench->torch.python);
    }
    words_add(words, "%s", bench->script.text);
    words_add(words, "%s", directory);
    if (engine == RECOVER_WARM) /* a rank is killed when all standby processes are ready */
        words_add(words, "%s/run/warm.ready", directory);
}

static _Noreturn void recover_exec(const struct words *words)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    execvp(words->argv[0], words->argv);
    _exit(127);
}

/* Its status as waitpid() gives it; -ETIME: it was killed after the limit. */
static int recover_wait(pid_t pid)
{
    int64_t until_ns = time_mono_ns() + RECOVER_LIMIT_NS;
    int status = 0;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        const struct timespec pause = time_spec(20 * NS_PER_MS);

        if (time_mono_ns() > until_ns) {
            kill(pid, SIGTERM);
            until_ns = INT64_MAX;
            status = -ETIME;
        }
        nanosleep(&pause, NULL);
    }
    return until_ns == INT64_MAX ? -ETIME : status;
}

/* Processes whose command line names the directory. */
static unsigned recover_left(const char *directory)
{
    struct procs procs = { 0 };
    unsigned left = 0;

    if (procs_read(&procs) < 0)
        return 0;
    for (size_t i = 0; i < procs.count; i++) {
        char path[64], line[4096];
        CLEAN(fd_clean) int fd = -1;
        ssize_t size;

        snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)procs.list[i].pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        size = fd < 0 ? 0 : read(fd, line, sizeof(line));
        left += size > 0 && memmem(line, (size_t)size, directory, strlen(directory)) != NULL;
    }
    procs_fini(&procs);
    return left;
}

/* ---- what its ranks wrote down ---- */

struct recover_events {
    double begun, init, loaded, stepped; /* of the rank that was last */
    double killed;                       /* 0: no rank was */
    int killed_step, loaded_step;
    unsigned ranks;
};

static void recover_event(struct recover_events *events, char *line)
{
    char *space = strchr(line, ' ');
    double at = space ? strtod(space, NULL) : 0;

    if (strncmp(line, "begun ", 6) == 0)
        events->begun = MAX(events->begun, at);
    else if (strncmp(line, "init ", 5) == 0)
        events->init = MAX(events->init, at);
    else if (strncmp(line, "stepped ", 8) == 0) {
        events->stepped = MAX(events->stepped, at);
        events->ranks++;
    } else if (sscanf(line, "loaded-%d", &events->loaded_step) == 1)
        events->loaded = MAX(events->loaded, at);
    else if (sscanf(line, "killed-%d", &events->killed_step) == 1)
        events->killed = at;
}

static void recover_events_read(const char *directory, unsigned attempt, uint32_t ranks,
                                struct recover_events *ret)
{
    *ret = (struct recover_events){ 0 };
    for (uint32_t rank = 0; rank < ranks; rank++) {
        CLEAN(file_clean) FILE *file = NULL;
        char path[PATH_MAX + 64], line[128];

        snprintf(path, sizeof(path), "%s/events-%u-%u", directory, attempt, rank);
        file = fopen(path, "re");
        while (file && fgets(line, sizeof(line), file))
            recover_event(ret, line);
    }
}

/* What the run's own report says about the parts before the new processes. */
static void recover_split(const char *directory, struct recover_round *round)
{
    CLEAN(run_report_fini) struct run_summary summary = { 0 };
    const struct run_summary_parts *parts = &summary.restart[0].parts;
    char path[PATH_MAX + 8];

    snprintf(path, sizeof(path), "%s/run", directory);
    if (run_report_read(path, false, &summary, NULL) < 0 || !summary.restarts)
        return;
    round->split = true;
    round->detect_s = parts->detect_s;
    round->decide_s = parts->decide_s;
    round->stop_s = parts->stop_s;
    round->start_s = MAX(round->start_s - parts->detect_s - parts->decide_s - parts->stop_s, 0);
}

static int recover_measure(const struct bench_recover *bench, enum recover_engine engine,
                           const char *directory, struct recover_round *ret, struct err *err)
{
    struct recover_events before, after;

    recover_events_read(directory, 0, bench->settings->ranks, &before);
    recover_events_read(directory, 1, bench->settings->ranks, &after);
    if (before.killed <= 0 || after.ranks != bench->settings->ranks)
        return err_set(err, -ENODATA, "%s: the job did not train again after a rank was killed",
                       engine_names[engine]);
    *ret = (struct recover_round){ .known = true,
                                   .start_s = after.begun - before.killed,
                                   .init_s = after.init - after.begun,
                                   .load_s = after.loaded - after.init,
                                   .first_step_s = after.stepped - after.loaded,
                                   .total_s = after.stepped - before.killed,
                                   .lost_steps = before.killed_step - after.loaded_step };
    if (engine != RECOVER_TORCHRUN)
        recover_split(directory, ret);
    ret->left = recover_left(directory);
    return 0;
}

static int recover_run(const struct bench_recover *bench, enum recover_engine engine,
                       struct recover_round *ret, struct err *err)
{
    struct words words = { 0 };
    char directory[PATH_MAX + 16];
    int status, result;
    pid_t pid;

    snprintf(directory, sizeof(directory), "%s/XXXXXX", bench->directory.text);
    if (!mkdtemp(directory))
        return err_set(err, -errno, "%s: %m", directory);
    recover_words(bench, engine, directory, &words);
    pid = words.full ? -1 : fork();
    if (pid == 0)
        recover_exec(&words);
    if (pid < 0)
        return err_set(err, -errno, "fork: %m");
    status = recover_wait(pid);
    result = recover_measure(bench, engine, directory, ret, err);
    if (result == 0 && status != 0)
        result = err_set(err, -EIO, "%s did not end well", engine_names[engine]);
    tree_remove(directory);
    return result;
}

/* ---- results ---- */

static int recover_compare(const void *a, const void *b)
{
    const struct recover_round *left = a, *right = b;

    return left->total_s < right->total_s ? -1 : left->total_s > right->total_s;
}

static const struct recover_round *recover_median(struct bench_recover *bench,
                                                  enum recover_engine engine)
{
    uint32_t rounds = bench->settings->rounds;

    qsort(bench->round[engine], rounds, sizeof(bench->round[engine][0]), recover_compare);
    return &bench->round[engine][rounds / 2];
}

static struct json_object *recover_json_number(double value, bool known)
{
    return known ? json_object_new_double(value) : NULL;
}

static struct json_object *recover_json(enum recover_engine engine,
                                        const struct recover_round *round)
{
    struct json_object *root = json_object_new_object();

    json_object_object_add(root, "case", json_object_new_string("rank killed, torch DDP on gloo"));
    json_object_object_add(root, "engine", json_object_new_string(engine_names[engine]));
    json_object_object_add(root, "detect_s", recover_json_number(round->detect_s, round->split));
    json_object_object_add(root, "decide_s", recover_json_number(round->decide_s, round->split));
    json_object_object_add(root, "stop_s", recover_json_number(round->stop_s, round->split));
    json_object_object_add(root, "start_s", json_object_new_double(round->start_s));
    json_object_object_add(root, "init_s", json_object_new_double(round->init_s));
    json_object_object_add(root, "load_s", json_object_new_double(round->load_s));
    json_object_object_add(root, "first_step_s", json_object_new_double(round->first_step_s));
    json_object_object_add(root, "total_s", json_object_new_double(round->total_s));
    json_object_object_add(root, "lost_steps", json_object_new_int(round->lost_steps));
    json_object_object_add(root, "left_running", json_object_new_int64(round->left));
    return root;
}

static void recover_text(enum recover_engine engine, const struct recover_round *round)
{
    printf("%-9s %5.2f s: ", engine_names[engine], round->total_s);
    if (round->split)
        printf("detect %.2f, decide %.2f, stop %.2f, ", round->detect_s, round->decide_s,
               round->stop_s);
    printf("start %.2f%s, init %.2f, load %.2f, first step %.2f s; %d steps lost\n", round->start_s,
           round->split ? "" : " (with detect, decide and stop)", round->init_s, round->load_s,
           round->first_step_s, round->lost_steps);
}

/* Exit status. */
static int recover_judge(const struct recover_round *rival, const struct recover_round *ours)
{
    double own_s = ours->detect_s + ours->decide_s + ours->stop_s + ours->start_s;

    return ours->total_s > RECOVER_RATIO_BAR * rival->total_s || own_s > RECOVER_OWN_BAR ||
           ours->lost_steps > RECOVER_LOST_BAR || ours->left > 0;
}

static int recover_report(struct bench_recover *bench)
{
    const struct recover_round *median[RECOVER_ENGINES];
    struct json_object *root = json_object_new_object(), *cases = json_object_new_array();
    double ratio;
    int status;

    for (unsigned i = 0; i < RECOVER_ENGINES; i++) {
        median[i] = recover_median(bench, i);
        json_object_array_add(cases, recover_json(i, median[i]));
        if (!bench->settings->json)
            recover_text(i, median[i]);
    }
    ratio = median[RECOVER_WARM]->total_s / median[RECOVER_TORCHRUN]->total_s;
    status = recover_judge(median[RECOVER_TORCHRUN], median[RECOVER_WARM]);
    json_object_object_add(root, "cases", cases);
    json_object_object_add(root, "ratio", json_object_new_double(ratio));
    json_object_object_add(root, "ratio_bar", json_object_new_double(RECOVER_RATIO_BAR));
    if (bench->settings->json)
        puts(json_object_to_json_string_ext(root, JSON_C_TO_STRING_SPACED));
    else
        printf("lockstep run --warm needs %.2f of the time of torchrun, the limit is %.2f\n", ratio,
               RECOVER_RATIO_BAR);
    json_object_put(root);
    return status;
}

static int recover_open(struct bench_recover *bench, struct err *err)
{
    const char *temporary = getenv("TMPDIR");
    int result = demo_torch_find(&bench->torch, err);

    if (result == 0 && attach_package_file("demo/recover.py", &bench->script) < 0)
        result = err_set(err, -ENOENT, "the Python package is not installed beside this program");
    if (result == 0)
        result = sibling_find("lockstep", &bench->lockstep, err);
    snprintf(bench->directory.text, sizeof(bench->directory.text), "%s/lockstep-recover-XXXXXX",
             temporary && temporary[0] ? temporary : "/tmp");
    if (result == 0 && !mkdtemp(bench->directory.text))
        result = err_set(err, -errno, "%s: %m", bench->directory.text);
    return result;
}

static int recover_rounds(struct bench_recover *bench, struct err *err)
{
    int result = 0;

    for (uint32_t i = 0; i < bench->settings->rounds && result == 0; i++) {
        for (unsigned engine = 0; engine < RECOVER_ENGINES && result == 0; engine++)
            result = recover_run(bench, engine, &bench->round[engine][i], err);
    }
    return result;
}

int bench_recover_main(int argc, char **argv)
{
    struct bench_recover_settings settings = { .rounds = 3, .ranks = 4 };
    CLEAN(free_clean) struct bench_recover *bench = calloc(1, sizeof(*bench));
    struct err err = { "" };
    int result = opt_parse_all(&command_bench_recover, argc, argv, &settings);

    if (result < 0)
        return OPT_EXIT(result);
    if (!bench)
        return 3;
    if (settings.rounds < 1 || settings.rounds > RECOVER_ROUNDS_MAX || settings.ranks < 2) {
        log_error("expected 1 to %d rounds and at least 2 ranks", RECOVER_ROUNDS_MAX);
        return 2;
    }
    if (settings.slurm)
        return bench_recover_slurm(settings.slurm, settings.rounds, settings.json);
    bench->settings = &settings;
    result = recover_open(bench, &err);
    if (result == 0) {
        result = recover_rounds(bench, &err);
        tree_remove(bench->directory.text);
    }
    if (result < 0) {
        log_error("%s", err.text);
        return 3;
    }
    return recover_report(bench);
}
