/* daemons.c - agents, controller and the children that wait for orders and pass on alerts: started beside the ranks, and again when they die.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "act/daemons.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "act/launcher_log.h"
#include "base/paths.h"
#include "core/buf.h"
#include "core/clean.h"
#include "core/time.h"

#define DAEMONS_PAUSE_MIN_NS (NS_PER_S / 5)
#define DAEMONS_PAUSE_MAX_NS (30 * NS_PER_S)
#define DAEMONS_STEADY_NS (30 * NS_PER_S) /* one that lived so long had a good start */
#define DAEMONS_WORDS 4                   /* failures in a row that are reported */

struct daemon {
    char name[80]; /* "agent-n0", "control": of its log, of its command, and for people */
    char node[64];
    enum tree_level level;
    char *argv[16];
    pid_t pid;
    bool running;
    bool held;         /* it is not wanted yet */
    bool moved;        /* it was killed, to be started again */
    bool killed;       /* by a signal, in the middle of its last work */
    unsigned failures; /* in a row */
    int64_t born_ns, due_ns, pause_ns;
};

struct daemons {
    char directory[PATH_MAX];
    uint32_t first; /* number of the first command */
    bool finishing, remote;
    bool relayed;     /* something of the sender's log was printed */
    off_t relayed_to; /* up to there */
    char last[256];   /* the last of it, without digits */
    struct buf env;   /* of all */
    size_t count;
    struct daemon daemon[];
};

static void daemon_init(struct daemons *daemons, struct daemon *daemon)
{
    static char program[] = "lockstep", agent[] = "agent", run_dir[] = "--run-dir",
                node[] = "--node";
    bool is_agent = daemon->level == TREE_AGENTS;
    char *const argv[] = { program,
                           is_agent ? agent : daemon->name,
                           run_dir,
                           daemons->directory,
                           is_agent ? node : NULL,
                           daemon->node,
                           NULL };

    memcpy(daemon->argv, argv, sizeof(argv));
    daemon->pause_ns = DAEMONS_PAUSE_MIN_NS;
}

#define DAEMONS_SEND_LOG "send.log"

static int daemons_relay_open(const struct daemons *daemons)
{
    char path[PATH_MAX + 32];

    snprintf(path, sizeof(path), "%s/" DAEMONS_SEND_LOG, daemons->directory);
    return open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

/* What an earlier start of this run left in the log is not printed again. */
static void daemons_relay_begin(struct daemons *daemons)
{
    CLEAN(fd_clean) int fd = daemons_relay_open(daemons);
    off_t end = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);

    daemons->relayed_to = MAX(end, 0);
}

void daemons_relay_skip(struct daemons *daemons)
{
    if (daemons->remote)
        daemons_relay_begin(daemons);
}

/* The same trouble again is not: it differs by a time only ("after 3 ms"). */
static bool daemons_relay_is_new(struct daemons *daemons, const char *line)
{
    char bare[sizeof(daemons->last)];
    size_t size = 0;
    bool fresh;

    for (; *line && size + 1 < sizeof(bare); line++)
        if (!isdigit((unsigned char)*line))
            bare[size++] = *line;
    bare[size] = '\0';
    fresh = strcmp(bare, daemons->last) != 0;
    memcpy(daemons->last, bare, size + 1);
    return fresh;
}

void daemons_relay(struct daemons *daemons, struct output *output)
{
    static const char prefix[] = "lockstep send: ";
    CLEAN(fd_clean) int fd = daemons->remote ? daemons_relay_open(daemons) : -1;
    char text[4096], *line = text, *end;
    ssize_t size = fd < 0 ? 0 : pread(fd, text, sizeof(text) - 1, daemons->relayed_to);

    text[MAX(size, 0)] = '\0';
    for (; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        if (strncmp(line, prefix, sizeof(prefix) - 1) == 0)
            line += sizeof(prefix) - 1;
        if (daemons_relay_is_new(daemons, line))
            output_message(output, "%s", line);
        daemons->relayed = true;
    }
    daemons->relayed_to += line - text; /* a line that is not whole is read again */
}

bool daemons_relayed(const struct daemons *daemons)
{
    return daemons->relayed;
}

/* The controller of the job, for all of its launchers. */
static void daemon_init_lead(struct daemon *daemon, const struct daemons_lead *lead)
{
    const char *const argv[] = { "lockstep",   "control",     "--state",  lead->state,
                                 "--only",     lead->run,     "--tls",    "--listen",
                                 lead->listen, "--host-name", lead->host, NULL };

    snprintf(daemon->name, sizeof(daemon->name), "control");
    daemon->level = TREE_CONTROL;
    daemon->held = true;
    daemon->pause_ns = DAEMONS_PAUSE_MIN_NS;
    memcpy(daemon->argv, argv, sizeof(argv));
}

int daemons_create(const struct layout *layout, const char *directory, struct daemons_wanted wanted,
                   struct daemons **ret)
{
    size_t plain = (size_t)layout->nodes + 2 + wanted.alert, count = plain + !!wanted.lead;
    struct daemons *daemons = calloc(1, sizeof(*daemons) + count * sizeof(daemons->daemon[0]));

    if (!daemons)
        return -ENOMEM;
    snprintf(daemons->directory, sizeof(daemons->directory), "%s", directory);
    daemons->count = count;
    daemons->remote = wanted.remote;
    if (wanted.remote)
        daemons_relay_begin(daemons);
    if (wanted.lead)
        daemon_init_lead(&daemons->daemon[plain], wanted.lead);
    for (size_t i = 0; i < plain; i++) {
        struct daemon *daemon = &daemons->daemon[i];

        if (i < layout->nodes) {
            layout_name(layout, (uint32_t)i, daemon->node);
            snprintf(daemon->name, sizeof(daemon->name), "agent-%s", daemon->node);
            daemon->level = TREE_AGENTS;
        } else {
            snprintf(daemon->name, sizeof(daemon->name), "%s",
                     i > layout->nodes + 1 ? "alert"
                     : i > layout->nodes   ? "orders"
                     : wanted.remote       ? "send"
                                           : "control");
            daemon->level = TREE_CONTROL;
        }
        daemon_init(daemons, daemon);
    }
    *ret = daemons;
    return 0;
}

void daemons_destroy(struct daemons *daemons)
{
    if (daemons)
        buf_fini(&daemons->env);
    free(daemons);
}

size_t daemons_count(const struct daemons *daemons)
{
    return daemons->count;
}

void daemons_commands(struct daemons *daemons, uint32_t first, struct keeper_command *ret)
{
    daemons->first = first;
    for (size_t i = 0; i < daemons->count; i++)
        ret[i] =
            (struct keeper_command){ .path = "/proc/self/exe", .argv = daemons->daemon[i].argv };
}

static int daemon_log(const struct daemons *daemons, const struct daemon *daemon, struct err *err)
{
    char path[PATH_MAX + 128];
    int fd;

    snprintf(path, sizeof(path), "%s/%s.log", daemons->directory, daemon->name);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0)
        return fd;
    fd = open("/dev/null", O_WRONLY | O_CLOEXEC); /* it works without a log, too */
    return fd < 0 ? err_set(err, -errno, "%s: %m", path) : fd;
}

static const char *daemon_last_words(const struct daemon *daemon)
{
    return daemon->failures == DAEMONS_WORDS ? "; further failures are not reported" : "";
}

/* It could not be started, or has ended: when to try again. */
static void daemon_put_off(struct daemon *daemon, int64_t now_ns)
{
    if (now_ns - daemon->born_ns > DAEMONS_STEADY_NS) {
        daemon->pause_ns = DAEMONS_PAUSE_MIN_NS;
        daemon->failures = 0;
    }
    daemon->failures++;
    daemon->due_ns = now_ns + daemon->pause_ns;
    daemon->pause_ns = MIN(daemon->pause_ns * 2, DAEMONS_PAUSE_MAX_NS);
}

static void daemon_start(struct daemons *daemons, size_t i, struct keeper *keeper,
                         struct output *output, int64_t now_ns)
{
    struct daemon *daemon = &daemons->daemon[i];
    struct err err = { "" };
    CLEAN(fd_clean) int log = daemon_log(daemons, daemon, &err);
    const struct keeper_job job = { .command = daemons->first + (uint32_t)i,
                                    .token = DAEMONS_TOKEN + (uint32_t)i,
                                    .level = daemon->level,
                                    .env = daemons->env.size ? &daemons->env : NULL,
                                    .out_fd = log,
                                    .err_fd = log };

    daemon->born_ns = now_ns;
    if (log >= 0 && keeper_spawn(keeper, &job, &daemon->pid, &err) == 0) {
        daemon->running = true;
        return;
    }
    daemon_put_off(daemon, now_ns);
    if (daemon->failures <= DAEMONS_WORDS)
        output_message(output, "%s could not be started: %s; the ranks keep running%s",
                       daemon->name, err.text, daemon_last_words(daemon));
}

void daemons_start(struct daemons *daemons, struct keeper *keeper, struct output *output,
                   int64_t now_ns)
{
    if (daemons->finishing || keeper_lost(keeper, NULL))
        return;
    for (size_t i = 0; i < daemons->count; i++)
        if (!daemons->daemon[i].running && !daemons->daemon[i].held &&
            daemons->daemon[i].due_ns <= now_ns)
            daemon_start(daemons, i, keeper, output, now_ns);
}

void daemons_move(struct daemons *daemons, struct keeper *keeper, const char *url, bool leads)
{
    static const char name[] = "LOCKSTEP_CONTROL=";

    daemons->env.size = 0;
    buf_put(&daemons->env, name, strlen(name));
    buf_put(&daemons->env, url, strlen(url) + 1);
    for (size_t i = 0; i < daemons->count; i++) {
        struct daemon *daemon = &daemons->daemon[i];

        if (strcmp(daemon->name, "control") == 0) {
            daemon->held = !leads;
        } else if (daemon->running) { /* at any moment: it goes on where it was */
            daemon->moved = true;
            keeper_kill(keeper, daemon->pid);
        }
    }
}

int64_t daemons_due_ns(const struct daemons *daemons)
{
    int64_t due = INT64_MAX;

    for (size_t i = 0; i < daemons->count && !daemons->finishing; i++)
        if (!daemons->daemon[i].running && !daemons->daemon[i].held)
            due = MIN(due, daemons->daemon[i].due_ns);
    return due;
}

void daemons_exited(struct daemons *daemons, uint32_t token, int status, struct output *output,
                    int64_t now_ns)
{
    struct daemon *daemon = &daemons->daemon[token - DAEMONS_TOKEN];
    char text[160];

    daemon->running = false;
    if (daemon->moved && !daemons->finishing) {
        daemon->moved = false;
        daemon->due_ns = now_ns;
        return;
    }
    launcher_log_status_text(status, text, sizeof(text));
    daemons_relay(daemons, output);
    if (daemons->finishing) {
        daemon->killed = WIFSIGNALED(status);
        if (status != 0 && !(daemon->level == TREE_CONTROL && daemons->relayed))
            output_message(output, "%s %s at the end; see %s/%s.log", daemon->name, text,
                           daemons->directory, daemon->name);
        return;
    }
    daemon_put_off(daemon, now_ns);
    if (daemon->failures <= DAEMONS_WORDS)
        output_message(output,
                       "%s %s; restarting it in %.1f s, the ranks keep running; see %s/%s.log%s",
                       daemon->name, text, (double)(daemon->due_ns - now_ns) / 1e9,
                       daemons->directory, daemon->name, daemon_last_words(daemon));
}

void daemons_finish(struct daemons *daemons, struct keeper *keeper, struct output *output)
{
    for (size_t i = 0; i < daemons->count && !keeper_lost(keeper, NULL); i++)
        if (!daemons->daemon[i].running && !daemons->daemon[i].held)
            daemon_start(daemons, i, keeper, output, time_mono_ns());
    daemons->finishing = true;
}

bool daemons_finish_again(struct daemons *daemons, enum tree_level level, struct keeper *keeper,
                          struct output *output)
{
    bool again = false;

    for (size_t i = 0; i < daemons->count && !keeper_lost(keeper, NULL); i++) {
        struct daemon *daemon = &daemons->daemon[i];

        if (daemon->running || !daemon->killed || daemon->level != level)
            continue;
        daemon->killed = false;
        daemon_start(daemons, i, keeper, output, time_mono_ns());
        again = true;
    }
    return again;
}
