/* watch.c - agents and controller: started beside the ranks, and again when they die. */
#include "act/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "act/tell.h"
#include "base/paths.h"
#include "core/clean.h"
#include "core/time.h"

#define WATCH_PAUSE_MIN_NS (NS_PER_S / 5)
#define WATCH_PAUSE_MAX_NS (30 * NS_PER_S)
#define WATCH_STEADY_NS (30 * NS_PER_S) /* one that lived so long had a good start */

struct watcher {
    char name[80]; /* "agent-n0", "control": of its log, and for people */
    char node[64];
    enum tree_level level;
    char *argv[8];
    bool running;
    int64_t born_ns, due_ns, pause_ns;
};

struct watch {
    char directory[PATH_MAX];
    uint32_t first; /* number of the first command */
    bool finishing;
    size_t count;
    struct watcher watcher[];
};

static void watcher_init(struct watch *watch, struct watcher *watcher)
{
    static char program[] = "lockstep", agent[] = "agent", control[] = "control",
                run_dir[] = "--run-dir", node[] = "--node";
    bool is_agent = watcher->level == TREE_AGENTS;
    char *const argv[] = { program,
                           is_agent ? agent : control,
                           run_dir,
                           watch->directory,
                           is_agent ? node : NULL,
                           watcher->node,
                           NULL };

    memcpy(watcher->argv, argv, sizeof(argv));
    watcher->pause_ns = WATCH_PAUSE_MIN_NS;
}

int watch_create(const struct layout *layout, const char *directory, struct watch **ret)
{
    size_t count = (size_t)layout->nodes + 1;
    struct watch *watch = calloc(1, sizeof(*watch) + count * sizeof(watch->watcher[0]));

    if (!watch)
        return -ENOMEM;
    snprintf(watch->directory, sizeof(watch->directory), "%s", directory);
    watch->count = count;
    for (size_t i = 0; i < count; i++) {
        struct watcher *watcher = &watch->watcher[i];

        if (i < layout->nodes) {
            layout_name(layout, (uint32_t)i, watcher->node);
            snprintf(watcher->name, sizeof(watcher->name), "agent-%s", watcher->node);
            watcher->level = TREE_AGENTS;
        } else {
            snprintf(watcher->name, sizeof(watcher->name), "control");
            watcher->level = TREE_CONTROL;
        }
        watcher_init(watch, watcher);
    }
    *ret = watch;
    return 0;
}

void watch_destroy(struct watch *watch)
{
    free(watch);
}

size_t watch_count(const struct watch *watch)
{
    return watch->count;
}

void watch_commands(struct watch *watch, uint32_t first, struct keeper_command *ret)
{
    watch->first = first;
    for (size_t i = 0; i < watch->count; i++)
        ret[i] =
            (struct keeper_command){ .path = "/proc/self/exe", .argv = watch->watcher[i].argv };
}

static int watcher_log(const struct watch *watch, const struct watcher *watcher, struct err *err)
{
    char path[PATH_MAX + 128];
    int fd;

    snprintf(path, sizeof(path), "%s/%s.log", watch->directory, watcher->name);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0)
        return fd;
    fd = open("/dev/null", O_WRONLY | O_CLOEXEC); /* it works without a log, too */
    return fd < 0 ? err_set(err, -errno, "%s: %m", path) : fd;
}

/* It could not be started, or has ended: when to try again. */
static void watcher_put_off(struct watcher *watcher, int64_t now_ns)
{
    if (now_ns - watcher->born_ns > WATCH_STEADY_NS)
        watcher->pause_ns = WATCH_PAUSE_MIN_NS;
    watcher->due_ns = now_ns + watcher->pause_ns;
    watcher->pause_ns = MIN(watcher->pause_ns * 2, WATCH_PAUSE_MAX_NS);
}

static void watcher_start(struct watch *watch, size_t i, struct keeper *keeper,
                          struct output *output, int64_t now_ns)
{
    struct watcher *watcher = &watch->watcher[i];
    struct err err = { "" };
    CLEAN(fd_clean) int log = watcher_log(watch, watcher, &err);
    const struct keeper_job job = { .command = watch->first + (uint32_t)i,
                                    .token = WATCH_TOKEN + (uint32_t)i,
                                    .level = watcher->level,
                                    .out_fd = log,
                                    .err_fd = log };
    pid_t pid;

    watcher->born_ns = now_ns;
    if (log >= 0 && keeper_spawn(keeper, &job, &pid, &err) == 0) {
        watcher->running = true;
        return;
    }
    watcher_put_off(watcher, now_ns);
    output_say(output, "%s could not be started: %s", watcher->name, err.text);
}

void watch_start(struct watch *watch, struct keeper *keeper, struct output *output, int64_t now_ns)
{
    if (watch->finishing || keeper_lost(keeper, NULL))
        return;
    for (size_t i = 0; i < watch->count; i++)
        if (!watch->watcher[i].running && watch->watcher[i].due_ns <= now_ns)
            watcher_start(watch, i, keeper, output, now_ns);
}

int64_t watch_due_ns(const struct watch *watch)
{
    int64_t due = INT64_MAX;

    for (size_t i = 0; i < watch->count && !watch->finishing; i++)
        if (!watch->watcher[i].running)
            due = MIN(due, watch->watcher[i].due_ns);
    return due;
}

void watch_exited(struct watch *watch, uint32_t token, int status, struct output *output,
                  int64_t now_ns)
{
    struct watcher *watcher = &watch->watcher[token - WATCH_TOKEN];
    char text[160];

    watcher->running = false;
    tell_status_text(status, text, sizeof(text));
    if (watch->finishing) {
        if (status != 0)
            output_say(output, "%s %s at the end; see %s/%s.log", watcher->name, text,
                       watch->directory, watcher->name);
        return;
    }
    watcher_put_off(watcher, now_ns);
    output_say(output, "%s %s; it is started again in %.1f s (the ranks go on); see %s/%s.log",
               watcher->name, text, (double)(watcher->due_ns - now_ns) / 1e9, watch->directory,
               watcher->name);
}

void watch_finish(struct watch *watch, struct keeper *keeper, struct output *output)
{
    for (size_t i = 0; i < watch->count && !keeper_lost(keeper, NULL); i++)
        if (!watch->watcher[i].running)
            watcher_start(watch, i, keeper, output, time_mono_ns());
    watch->finishing = true;
}
