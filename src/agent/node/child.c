/* child.c - fork, place descriptors, clean environment, exec.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/node/child.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "core/clean.h"

/* Nothing else of the daemon's environment is its children's: HOME and settings are root's, tokens are secret. */
static const char *const kept_variables[] = {
    "http_proxy", "https_proxy", "all_proxy",    "no_proxy",      "HTTPS_PROXY",
    "ALL_PROXY",  "NO_PROXY",    "SSL_CERT_DIR", "SSL_CERT_FILE", "TZ",
};

struct child_words { /* of the child's command line and environment */
    char text[16][PATH_MAX + 64];
    char *list[16 + 1];
    size_t count;
};

__attribute__((format(printf, 2, 3))) static void word_add(struct child_words *words,
                                                           const char *format, ...)
{
    va_list args;

    if (words->count + 1 >= COUNT(words->list))
        abort(); /* each caller has a fixed number of them */
    va_start(args, format);
    vsnprintf(words->text[words->count], sizeof(words->text[0]), format, args);
    va_end(args);
    words->list[words->count] = words->text[words->count];
    words->count++;
}

static void child_environment_fill(struct child_words *words)
{
    word_add(words, "PATH=/usr/bin:/bin");
    word_add(words, "HOME=/nonexistent");
    word_add(words, "LOCKSTEP_CONFIG=/dev/null");
    for (size_t i = 0; i < COUNT(kept_variables); i++) {
        const char *value = getenv(kept_variables[i]);

        if (value)
            word_add(words, "%s=%s", kept_variables[i], value);
    }
}

static void child_command_fill(struct child_words *words, const struct child_settings *settings)
{
    word_add(words, "lockstep");
    word_add(words, "node-agent");
    word_add(words, "--run=%s", settings->run);
    word_add(words, "--node=%s", settings->node);
    word_add(words, "--user=%u", settings->uid);
    word_add(words, "--group=%u", settings->gid);
    word_add(words, "--spool-max=%" PRIu64, settings->spool_max);
    word_add(words, "--idle=%" PRId64 "ns", settings->idle_ns);
    word_add(words, "--control=%s", settings->control->url);
    if (settings->control->ca_file)
        word_add(words, "--control-ca=%s", settings->control->ca_file);
    if (settings->control->pin)
        word_add(words, "--control-pin=%s", settings->control->pin);
    if (settings->control->insecure_http)
        word_add(words, "--insecure-http");
    if (settings->kind == CHILD_REST)
        word_add(words, "--rest");
}

/* First above all places, so that none is overwritten before it has been moved. */
static int child_descriptors_place(const struct child_settings *settings, int token_fd)
{
    int from[] = { settings->spool_fd, token_fd, settings->rings_fd };
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (null < 0 || dup2(null, STDIN_FILENO) < 0)
        return -errno;
    for (size_t i = 0; i < COUNT(from); i++) {
        if (from[i] < 0)
            continue;
        from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, CHILD_FDS);
        if (from[i] < 0)
            return -errno;
    }
    for (size_t i = 0; i < COUNT(from); i++) {
        if (from[i] >= 0 && dup2(from[i], CHILD_SPOOL_FD + (int)i) < 0)
            return -errno;
        if (from[i] < 0)
            close(CHILD_SPOOL_FD + (int)i);
    }
    return close_range(CHILD_FDS, ~0u, 0) < 0 ? -errno : 0;
}

__attribute__((noreturn)) static void child_exec(const struct child_settings *settings,
                                                 int token_fd, struct child_words words[static 2])
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (child_descriptors_place(settings, token_fd) == 0)
        execve("/proc/self/exe", words[0].list, words[1].list);
    _exit(127);
}

int child_start(const struct child_settings *settings, pid_t *ret_pid, int *ret_token_fd)
{
    CLEAN(free_clean) struct child_words *words = calloc(2, sizeof(*words));
    int fd[2];
    pid_t pid;

    if (!words)
        return -ENOMEM;
    child_command_fill(&words[0], settings);
    child_environment_fill(&words[1]);
    if (pipe2(fd, O_CLOEXEC | O_NONBLOCK) < 0)
        return -errno;
    pid = fork();
    if (pid == 0)
        child_exec(settings, fd[0], words);
    close(fd[0]);
    if (pid < 0) {
        int result = -errno;

        close(fd[1]);
        return result;
    }
    *ret_pid = pid;
    *ret_token_fd = fd[1];
    return 0;
}
