/* aides.c - agents and controller: started beside the ranks, and again when they die. */
#include "act/aides.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "act/launcher_log.h"
#include "base/paths.h"
#include "core/clean.h"
#include "core/time.h"

#define AIDES_PAUSE_MIN_NS (NS_PER_S / 5)
#define AIDES_PAUSE_MAX_NS (30 * NS_PER_S)
#define AIDES_STEADY_NS (30 * NS_PER_S) /* one that lived so long had a good start */
#define AIDES_WORDS 4                   /* failures in a row that are reported */

struct aide {
    char name[80]; /* "agent-n0", "control": of its log, and for people */
    char node[64];
    enum tree_level level;
    char *argv[8];
    bool running;
    unsigned failures; /* in a row */
    int64_t born_ns, due_ns, pause_ns;
};

struct aides {
    char directory[PATH_MAX];
    uint32_t first; /* number of the first command */
    bool finishing;
    size_t count;
    struct aide aide[];
};

static void aide_init(struct aides *aides, struct aide *aide, bool remote)
{
    static char program[] = "lockstep", agent[] = "agent", control[] = "control", send[] = "send",
                run_dir[] = "--run-dir", node[] = "--node";
    bool is_agent = aide->level == TREE_AGENTS;
    char *const argv[] = { program,
                           is_agent ? agent : (remote ? send : control),
                           run_dir,
                           aides->directory,
                           is_agent ? node : NULL,
                           aide->node,
                           NULL };

    memcpy(aide->argv, argv, sizeof(argv));
    aide->pause_ns = AIDES_PAUSE_MIN_NS;
}

int aides_create(const struct layout *layout, const char *directory, bool remote,
                 struct aides **ret)
{
    size_t count = (size_t)layout->nodes + 1;
    struct aides *aides = calloc(1, sizeof(*aides) + count * sizeof(aides->aide[0]));

    if (!aides)
        return -ENOMEM;
    snprintf(aides->directory, sizeof(aides->directory), "%s", directory);
    aides->count = count;
    for (size_t i = 0; i < count; i++) {
        struct aide *aide = &aides->aide[i];

        if (i < layout->nodes) {
            layout_name(layout, (uint32_t)i, aide->node);
            snprintf(aide->name, sizeof(aide->name), "agent-%s", aide->node);
            aide->level = TREE_AGENTS;
        } else {
            snprintf(aide->name, sizeof(aide->name), remote ? "send" : "control");
            aide->level = TREE_CONTROL;
        }
        aide_init(aides, aide, remote);
    }
    *ret = aides;
    return 0;
}

void aides_destroy(struct aides *aides)
{
    free(aides);
}

size_t aides_count(const struct aides *aides)
{
    return aides->count;
}

void aides_commands(struct aides *aides, uint32_t first, struct keeper_command *ret)
{
    aides->first = first;
    for (size_t i = 0; i < aides->count; i++)
        ret[i] = (struct keeper_command){ .path = "/proc/self/exe", .argv = aides->aide[i].argv };
}

static int aide_log(const struct aides *aides, const struct aide *aide, struct err *err)
{
    char path[PATH_MAX + 128];
    int fd;

    snprintf(path, sizeof(path), "%s/%s.log", aides->directory, aide->name);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0)
        return fd;
    fd = open("/dev/null", O_WRONLY | O_CLOEXEC); /* it works without a log, too */
    return fd < 0 ? err_set(err, -errno, "%s: %m", path) : fd;
}

static const char *aide_last_words(const struct aide *aide)
{
    return aide->failures == AIDES_WORDS ? "; further failures are not reported" : "";
}

/* It could not be started, or has ended: when to try again. */
static void aide_put_off(struct aide *aide, int64_t now_ns)
{
    if (now_ns - aide->born_ns > AIDES_STEADY_NS) {
        aide->pause_ns = AIDES_PAUSE_MIN_NS;
        aide->failures = 0;
    }
    aide->failures++;
    aide->due_ns = now_ns + aide->pause_ns;
    aide->pause_ns = MIN(aide->pause_ns * 2, AIDES_PAUSE_MAX_NS);
}

static void aide_start(struct aides *aides, size_t i, struct keeper *keeper, struct output *output,
                       int64_t now_ns)
{
    struct aide *aide = &aides->aide[i];
    struct err err = { "" };
    CLEAN(fd_clean) int log = aide_log(aides, aide, &err);
    const struct keeper_job job = { .command = aides->first + (uint32_t)i,
                                    .token = AIDES_TOKEN + (uint32_t)i,
                                    .level = aide->level,
                                    .out_fd = log,
                                    .err_fd = log };
    pid_t pid;

    aide->born_ns = now_ns;
    if (log >= 0 && keeper_spawn(keeper, &job, &pid, &err) == 0) {
        aide->running = true;
        return;
    }
    aide_put_off(aide, now_ns);
    if (aide->failures <= AIDES_WORDS)
        output_say(output, "%s could not be started: %s (the ranks go on)%s", aide->name, err.text,
                   aide_last_words(aide));
}

void aides_start(struct aides *aides, struct keeper *keeper, struct output *output, int64_t now_ns)
{
    if (aides->finishing || keeper_lost(keeper, NULL))
        return;
    for (size_t i = 0; i < aides->count; i++)
        if (!aides->aide[i].running && aides->aide[i].due_ns <= now_ns)
            aide_start(aides, i, keeper, output, now_ns);
}

int64_t aides_due_ns(const struct aides *aides)
{
    int64_t due = INT64_MAX;

    for (size_t i = 0; i < aides->count && !aides->finishing; i++)
        if (!aides->aide[i].running)
            due = MIN(due, aides->aide[i].due_ns);
    return due;
}

void aides_exited(struct aides *aides, uint32_t token, int status, struct output *output,
                  int64_t now_ns)
{
    struct aide *aide = &aides->aide[token - AIDES_TOKEN];
    char text[160];

    aide->running = false;
    launcher_log_status_text(status, text, sizeof(text));
    if (aides->finishing) {
        if (status != 0)
            output_say(output, "%s %s at the end; see %s/%s.log", aide->name, text,
                       aides->directory, aide->name);
        return;
    }
    aide_put_off(aide, now_ns);
    if (aide->failures <= AIDES_WORDS)
        output_say(output,
                   "%s %s; it is started again in %.1f s (the ranks go on); see %s/%s.log%s",
                   aide->name, text, (double)(aide->due_ns - now_ns) / 1e9, aides->directory,
                   aide->name, aide_last_words(aide));
}

void aides_finish(struct aides *aides, struct keeper *keeper, struct output *output)
{
    for (size_t i = 0; i < aides->count && !keeper_lost(keeper, NULL); i++)
        if (!aides->aide[i].running)
            aide_start(aides, i, keeper, output, time_mono_ns());
    aides->finishing = true;
}
