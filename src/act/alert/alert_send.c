/* alert_send.c - a program with a deadline, and a POST with one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "act/alert/alert_send.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <curl/curl.h>

#include "core/clean.h"
#include "core/time.h"

#define ALERT_LOOK_NS (20 * NS_PER_MS)

static _Noreturn void alert_child(const char *program, int in)
{
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    char *const argv[] = { (char *)(uintptr_t)program, NULL };
    sigset_t none;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(in, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    execvp(program, argv);
    _exit(errno == ENOENT ? 127 : 126);
}

/* As much as it reads until then; one that reads nothing is no error. */
static void alert_feed(int fd, const char *text, int64_t until_ns)
{
    size_t left = strlen(text);

    while (left) {
        struct pollfd out = { .fd = fd, .events = POLLOUT };
        ssize_t wrote = write(fd, text, left);

        if (wrote > 0) {
            text += wrote;
            left -= (size_t)wrote;
        } else if (wrote < 0 && errno == EAGAIN && time_mono_ns() < until_ns) {
            poll(&out, 1, time_poll_ms(until_ns, time_mono_ns()));
        } else if (wrote == 0 || errno != EINTR) {
            return;
        }
    }
}

static int alert_wait(pid_t pid, int64_t until_ns, int *status)
{
    const struct timespec look = time_spec(ALERT_LOOK_NS);
    pid_t ended;

    while ((ended = waitpid(pid, status, WNOHANG)) == 0 && time_mono_ns() < until_ns)
        nanosleep(&look, NULL);
    if (ended == pid)
        return 0;
    kill(-pid, SIGKILL); /* with what it has started */
    kill(pid, SIGKILL);
    waitpid(pid, status, 0);
    return -ETIME;
}

int alert_exec(const char *program, const char *text, int64_t limit_ns, struct err *err)
{
    int64_t until_ns = time_mono_ns() + limit_ns;
    int pipe_fd[2], status = 0;
    pid_t pid;

    if (pipe2(pipe_fd, O_CLOEXEC) < 0)
        return err_set(err, -errno, "pipe: %m");
    pid = fork();
    if (pid == 0)
        alert_child(program, pipe_fd[0]);
    close(pipe_fd[0]);
    if (pid > 0) {
        setpgid(pid, pid);
        fcntl(pipe_fd[1], F_SETFL, O_NONBLOCK);
        alert_feed(pipe_fd[1], text, until_ns);
    }
    close(pipe_fd[1]);
    if (pid < 0)
        return err_set(err, -errno, "fork: %m");
    if (alert_wait(pid, until_ns, &status) < 0)
        return err_set(err, -ETIME, "%s did not end within %.0f s", program,
                       (double)limit_ns / 1e9);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return err_set(err, -EIO, "%s %s %d", program,
                       WIFEXITED(status) ? "exited with" : "was killed by signal",
                       WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    return 0;
}

static size_t alert_drop(char *data, size_t size, size_t count, void *arg)
{
    (void)data;
    (void)arg;
    return size * count;
}

static int alert_post_with(CURL *curl, struct curl_slist *headers, const char *url,
                           const char *text, int64_t limit_ns, struct err *err)
{
    long status = 0;
    CURLcode code;

    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, text);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, alert_drop);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)(limit_ns / NS_PER_MS));
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    code = curl_easy_perform(curl);
    if (code != CURLE_OK)
        return err_set(err, code == CURLE_OPERATION_TIMEDOUT ? -ETIME : -EIO, "webhook: %s",
                       curl_easy_strerror(code));
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    return status >= 200 && status < 300 ? 0 : err_set(err, -EIO, "webhook: status %ld", status);
}

int alert_post(const char *url, const char *text, int64_t limit_ns, struct err *err)
{
    CURL *curl = curl_easy_init();
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    int result = -ENOMEM;

    if (curl && headers)
        result = alert_post_with(curl, headers, url, text, limit_ns, err);
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    return result;
}
