/* demo_run.c - starts `lockstep run` with the demo trainer and stands beside it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/cmd/demo/demo_run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/paths.h"
#include "base/remove_tree.h"
#include "base/runfile.h"
#include "base/sibling.h"
#include "core/clean.h"
#include "core/time.h"
#include "core/words.h"
#include "lab/faults/oom.h"

#define WORD 64

static int demo_command_line(const struct demo_run *demo, struct words *words, struct err *err)
{
    const struct demo_config *config = &demo->config;
    struct path lockstep, lab;
    int result = sibling_find("lockstep", &lockstep, err);

    if (result == 0)
        result = sibling_find("lockstep-lab", &lab, err);
    if (result < 0)
        return result;
    words_add(words, "%s", lockstep.text);
    words_add(words, "run");
    words_add(words, "--quiet");
    words_add(words, config->page ? "--page" : "--no-page");
    words_add(words, "--ranks=%u", config->ranks);
    words_add(words, "--nodes=%u", config->nodes);
    words_add(words, "--max-restarts=%u", config->restarts);
    words_add(words, "--on-hang=restart");
    words_add(words, "--backoff=200ms");
    words_add(words, "--grace=3s");
    words_add(words, "--name=%s", config->run);
    if (demo->elsewhere)
        words_add(words, "--dir=%s", demo->run_dir);
    words_add(words, "--");
    if (config->torch) {
        words_add(words, "%s", config->torch->python);
        words_add(words, "%s", config->torch->script.text);
    } else {
        words_add(words, "%s", lab.text);
        words_add(words, "trainer");
        words_add(words, "--host-work-ms=%g", config->host_work_ms);
        if (config->stamps)
            words_add(words, "--stamps");
        if (config->timeout_ns)
            words_add(words, "--timeout=%lldms", (long long)(config->timeout_ns / NS_PER_MS));
        if (config->layout)
            words_add(words, "--layout=%s", config->layout);
    }
    words_add(words, "--steps=%llu", (unsigned long long)config->steps);
    words_add(words, "--seed=%llu", (unsigned long long)config->seed);
    words_add(words, "--step-ms=%g", config->step_ms);
    if (demo->net.nodes)
        words_add(words, "--net-dir=%s/net", demo->scratch);
    if (demo->storage.order)
        words_add(words, "--data-dir=%s/storage/" SLOWFS_DATA, demo->scratch);
    if (config->checkpoint_every) {
        words_add(words, "--checkpoint-dir=%s%s/" SLOWFS_CHECKPOINTS, demo->scratch,
                  demo->storage.order ? "/storage" : "");
        words_add(words, "--checkpoint-every=%u", config->checkpoint_every);
    }
    words_add(words, "--plan=%s/plan", demo->scratch);
    return 0;
}

/* A file system and networks of the job's own, where faults need them.  Without, the job goes on all the same, and the fault is skipped with the reason. */
static void demo_surroundings_make(struct demo_run *demo)
{
    char backing[PATH_MAX + 16], at[PATH_MAX + 16];
    uint32_t needs = 0;

    for (uint32_t i = 0; i < demo->plan.count; i++)
        needs |= demo->plan.fault[i].kind->needs;
    if (needs & FAULT_NEEDS_NET) {
        snprintf(at, sizeof(at), "%s/net", demo->scratch);
        net_begin(demo->config.nodes, at, &demo->net, &demo->net_why);
    }
    if (!(needs & FAULT_NEEDS_STORAGE))
        return;
    snprintf(backing, sizeof(backing), "%s/backing", demo->scratch);
    snprintf(at, sizeof(at), "%s/storage", demo->scratch);
    slowfs_begin(backing, at, &demo->storage, &demo->storage_why);
}

static int demo_scratch_make(struct demo_run *demo, struct err *err)
{
    const char *base = getenv("TMPDIR");
    char path[PATH_MAX + 16];
    int result;

    snprintf(demo->scratch, sizeof(demo->scratch), "%s/lockstep-demo-XXXXXX",
             base && base[0] ? base : "/tmp");
    if (!mkdtemp(demo->scratch))
        return err_set(err, -errno, "%s: %m", demo->scratch);
    snprintf(path, sizeof(path), "%s/checkpoints", demo->scratch);
    if (mkdir(path, 0700) < 0)
        return err_set(err, -errno, "%s: %m", path);
    snprintf(demo->plan.truth, sizeof(demo->plan.truth), "%s/truth", demo->scratch);
    snprintf(path, sizeof(path), "%s/plan", demo->scratch);
    result = plan_write(path, &demo->plan, err);
    return result < 0 ? err_wrap(err, result, "writing the plan of faults") : 0;
}

/* The child dies with us: what it launched ends with it. */
static int run_spawn(struct demo_run *demo, struct err *err)
{
    CLEAN(free_clean) struct words *words = calloc(1, sizeof(*words));
    int result, parent = (int)getpid(), messages[2] = { -1, -1 };

    if (!words)
        return err_nomem(err);
    result = demo_command_line(demo, words, err);
    if (result == 0 && words->full)
        result = err_set(err, -E2BIG, "the command line is too long");
    if (result < 0)
        return result;
    if (demo->config.messages && pipe2(messages, O_CLOEXEC) < 0)
        return err_set(err, -errno, "pipe: %m");
    demo->messages_fd = messages[0];
    demo->pid = fork();
    if (demo->pid < 0) {
        fd_clean(&messages[1]);
        return err_set(err, -errno, "fork: %m");
    }
    if (demo->pid == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (demo->config.torch) /* as the demo trainer, it has its replicas watched */
            setenv("LOCKSTEP_REPLICAS", "1", 0);
        if (getppid() != parent || null < 0)
            _exit(127);
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO); /* our stdout is the answer */
        if (messages[1] >= 0)
            dup2(messages[1], STDERR_FILENO);
        execv(words->argv[0], words->argv);
        _exit(127);
    }
    fd_clean(&messages[1]);
    if (demo->messages_fd >= 0)
        fcntl(demo->messages_fd, F_SETFL, O_NONBLOCK);
    return 0;
}

/* The directory of all runs, made where it is missing.  -errno: none can be made there. */
static int runs_make(const char *run_dir, struct err *err)
{
    struct path runs;

    snprintf(runs.text, sizeof(runs.text), "%s", run_dir);
    *strrchr(runs.text, '/') = '\0';
    if (path_make(runs.text, err) < 0)
        return -EACCES;
    return access(runs.text, W_OK) < 0 ? err_set(err, -errno, "%s: %m", runs.text) : 0;
}

/* `lockstep run` would use another directory than we follow where the state directory cannot be written: so we choose. */
static int run_dir_choose(struct demo_run *demo, struct err *err)
{
    const char *base = getenv("TMPDIR");
    struct err why = { "" };
    struct path path;
    int result = paths_run(demo->config.run, &path, err);

    if (result < 0)
        return result;
    snprintf(demo->run_dir, sizeof(demo->run_dir), "%s", path.text);
    if (runs_make(demo->run_dir, &why) == 0)
        return 0;
    demo->elsewhere = true;
    snprintf(demo->run_dir, sizeof(demo->run_dir), "%s/lockstep-run-XXXXXX",
             base && base[0] ? base : "/tmp");
    if (!mkdtemp(demo->run_dir))
        return err_set(err, -errno, "%s, and %s: %m", why.text, demo->run_dir);
    log_info("%s; this run is recorded in %s instead", why.text, demo->run_dir);
    return 0;
}

int demo_run_begin(struct demo_run *demo, struct err *err)
{
    int result = run_dir_choose(demo, err);

    if (result == 0)
        result = demo_scratch_make(demo, err);
    if (result == 0)
        demo_surroundings_make(demo);
    return result < 0 ? result : run_spawn(demo, err);
}

/* run.json says where the rings are, once the launcher has made them; it is written before that, too. */
static void demo_inject_start(struct demo_run *demo)
{
    CLEAN(runfile_fini) struct runfile run = { 0 };
    struct inject_config config = {
        .ring_dir = run.rings,
        .world = demo->config.ranks,
        .nodes = demo->config.nodes,
        .storage = demo->storage.order,
        .storage_why = demo->storage_why.text,
        .net = demo->net.nodes ? &demo->net : NULL,
        .net_why = demo->net_why.text,
    };

    if (runfile_read(demo->run_dir, &run, NULL) == 0 && run.rings[0])
        inject_create(&demo->plan, &config, &demo->inject, NULL);
}

int demo_run_tick(struct demo_run *demo, struct err *err)
{
    if (demo->pid == 0)
        return 0;
    if (!demo->inject)
        demo_inject_start(demo);
    if (demo->inject)
        inject_tick(demo->inject, time_mono_ns());
    if (waitpid(demo->pid, &demo->status, WNOHANG) == demo->pid) {
        demo->pid = 0;
        if (WIFEXITED(demo->status) && WEXITSTATUS(demo->status) == 127)
            return err_set(err, -ENOEXEC, "cannot start 'lockstep run'");
        return 0;
    }
    return 1;
}

void demo_run_stop(struct demo_run *demo)
{
    if (demo->pid > 0)
        kill(demo->pid, SIGTERM);
}

void demo_run_fini(struct demo_run *demo)
{
    inject_destroy(demo->inject);
    demo->inject = NULL;
    if (demo->pid > 0) {
        kill(demo->pid, SIGTERM);
        waitpid(demo->pid, &demo->status, 0);
        demo->pid = 0;
    }
    fd_clean(&demo->messages_fd);
    slowfs_end(&demo->storage);
    net_end(&demo->net);
    oom_sweep(demo->config.run);
    if (demo->scratch[0])
        tree_remove(demo->scratch);
}
