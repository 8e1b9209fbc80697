/* perftest_run.c - perftest's programs as children, without a shell and with a deadline.
 *
 * It waits for one program or for the word of the test, and for nothing else: it polls both and needs no loop (base/loop.h).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "verify/fabric/perftest_run.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"
#include "core/words.h"
#include "verify/fabric/perftest.h"

#define OUTPUT_MAX (64 * 1024)
#define PORT_TRIES 64
#define LATENCY_MESSAGES 1000
#define SLACK_NS (5 * NS_PER_S) /* that a program takes to connect, register memory and print */
#define PAUSE_MS 100
#define END_MS 5

/* ---- command lines ---- */

static void perftest_words(const char *dir, const struct fabric_message *message,
                           const struct fabric_flow *flow, bool latency, struct words *words)
{
    words_add(words, "%s/%s", dir, latency ? "ib_write_lat" : "ib_write_bw");
    words_add(words, "-R"); /* by address, with rdma_cm */
    words_add(words, "-F");
    if (latency) {
        words_add(words, "-n");
        words_add(words, "%d", LATENCY_MESSAGES);
    } else {
        words_add(words, "--report_gbits");
        words_add(words, "-D");
        words_add(words, "%d", (int)MAX(message->time_ns / NS_PER_S, 1));
        if (message->rate && flow->address[0]) {
            words_add(words, "--rate_limit=%.3f", (double)message->rate * 8 / 1e9);
            words_add(words, "--rate_units=g");
            words_add(words, "--rate_limit_type=SW");
        }
    }
    words_add(words, "-p");
    words_add(words, "%u", (unsigned)flow->port + latency);
    if (flow->address[0])
        words_add(words, "%s", flow->address);
}

static pid_t perftest_start(const struct words *words, int out_fd)
{
    pid_t pid = words->full ? -1 : fork();

    if (pid == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(null, STDIN_FILENO);
        dup2(out_fd < 0 ? null : out_fd, STDOUT_FILENO);
        dup2(out_fd < 0 ? null : out_fd, STDERR_FILENO);
        execv(words->argv[0], words->argv);
        _exit(127);
    }
    return pid;
}

/* ---- servers ---- */

static bool perftest_port_is_free(uint16_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
    CLEAN(fd_clean) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    return fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
}

/* Two in a row that are free now.  Somebody may take one before the program does; then it prints no result. */
static uint16_t perftest_ports(void)
{
    for (int i = 0; i < PORT_TRIES; i++) {
        struct sockaddr_in address = { .sin_family = AF_INET };
        socklen_t size = sizeof(address);
        CLEAN(fd_clean) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        uint16_t port;

        if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
            getsockname(fd, (struct sockaddr *)&address, &size) < 0)
            return 0;
        port = ntohs(address.sin_port);
        if (port < UINT16_MAX && perftest_port_is_free((uint16_t)(port + 1)))
            return port;
    }
    return 0;
}

int perftest_serve(const char *dir, struct fabric_message *message, struct perftest_servers *ret,
                   struct err *err)
{
    CLEAN(free_clean) struct words *words = calloc(1, sizeof(*words));

    *ret = (struct perftest_servers){ .count = 0 };
    if (!words || message->flows > FABRIC_RAILS)
        return err_set(err, -EINVAL, "too many flows for perftest");
    for (uint32_t i = 0; i < message->flows; i++) {
        struct fabric_flow *flow = &message->flow[i];

        flow->port = perftest_ports();
        flow->address[0] = '\0';
        for (int latency = 0; latency < 2; latency++) {
            pid_t pid;

            memset(words, 0, sizeof(*words));
            perftest_words(dir, message, flow, latency != 0, words);
            pid = flow->port ? perftest_start(words, -1) : -1;
            if (pid < 0)
                return err_set(err, -EAGAIN, "cannot start perftest");
            ret->pid[ret->count++] = pid;
        }
    }
    return 0;
}

static size_t perftest_servers_left(struct perftest_servers *servers)
{
    for (size_t i = 0; i < servers->count;) {
        if (waitpid(servers->pid[i], NULL, WNOHANG) != 0)
            servers->pid[i] = servers->pid[--servers->count];
        else
            i++;
    }
    return servers->count;
}

void perftest_serve_wait(struct perftest_servers *servers, int stop_fd, int64_t until_ns)
{
    struct pollfd stop = { .fd = stop_fd, .events = POLLIN };

    while (perftest_servers_left(servers) && time_mono_ns() < until_ns) {
        if (poll(&stop, 1, PAUSE_MS) > 0)
            break;
    }
    for (size_t i = 0; i < servers->count; i++) {
        kill(servers->pid[i], SIGKILL);
        waitpid(servers->pid[i], NULL, 0);
    }
    servers->count = 0;
}

/* ---- clients ---- */

/* A program that closed its output need not end: it has until then. */
static void perftest_end(pid_t pid, int stop_fd, int64_t until_ns)
{
    struct pollfd stop = { .fd = stop_fd, .events = POLLIN };

    while (waitpid(pid, NULL, WNOHANG) == 0) {
        if (time_mono_ns() < until_ns && poll(&stop, 1, END_MS) == 0)
            continue;
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        return;
    }
}

/* Its output, until it ends or the time is over. */
static size_t perftest_output(const struct words *words, int stop_fd, int64_t until_ns, char *out)
{
    CLEAN(fd_clean) int in = -1;
    int pipe_fd[2];
    size_t size = 0;
    ssize_t got = 1;
    pid_t pid;

    if (pipe2(pipe_fd, O_CLOEXEC) < 0)
        return 0;
    in = pipe_fd[0];
    pid = perftest_start(words, pipe_fd[1]);
    close(pipe_fd[1]);
    while (pid > 0 && got > 0 && size < OUTPUT_MAX) {
        struct pollfd polls[2] = { { .fd = in, .events = POLLIN },
                                   { .fd = stop_fd, .events = POLLIN } };

        if (poll(polls, 2, time_poll_ms(until_ns, time_mono_ns())) <= 0 || polls[1].revents)
            break;
        got = read(in, out + size, OUTPUT_MAX - size);
        size += got > 0 ? (size_t)got : 0;
    }
    if (pid > 0)
        perftest_end(pid, stop_fd, got > 0 ? 0 : until_ns);
    return size;
}

/* Again while the server may not listen yet. */
static int perftest_client(const char *dir, const struct fabric_message *message,
                           const struct fabric_flow *flow, bool latency, int stop_fd,
                           struct perftest *ret)
{
    CLEAN(free_clean) struct words *words = calloc(1, sizeof(*words));
    CLEAN(free_clean) char *text = malloc(OUTPUT_MAX);
    int64_t wait_ns = time_mono_ns() + message->wait_ns;
    struct pollfd stop = { .fd = stop_fd, .events = POLLIN };
    int result;

    if (!words || !text)
        return -ENOMEM;
    perftest_words(dir, message, flow, latency, words);
    do {
        int64_t until = time_mono_ns() + MAX(message->time_ns, NS_PER_S) + SLACK_NS;
        size_t size = perftest_output(words, stop_fd, until, text);

        result = perftest_parse(text, size, ret, NULL);
    } while (result < 0 && time_mono_ns() < wait_ns && poll(&stop, 1, PAUSE_MS) == 0);
    return result;
}

int perftest_measure(const char *dir, const struct fabric_message *message, int stop_fd,
                     struct fabric_message *results)
{
    for (uint32_t i = 0; i < message->flows; i++) {
        if (!message->flow[i].address[0]) /* without one the program would be a server */
            return -EDESTADDRREQ;
    }
    results->flows = message->flows;
    for (uint32_t i = 0; i < message->flows; i++) {
        const struct fabric_flow *flow = &message->flow[i];
        struct perftest rate = { .gbps = 0 }, latency = { .gbps = 0 };
        struct fabric_flow *result = &results->flow[i];

        *result = (struct fabric_flow){ .rail = flow->rail };
        if (perftest_client(dir, message, flow, false, stop_fd, &rate) < 0 || rate.gbps <= 0) {
            result->error = EPROTO;
            continue;
        }
        result->ns = (uint64_t)NS_PER_S;
        result->bytes = (uint64_t)(rate.gbps * 1e9 / 8);
        if (perftest_client(dir, message, flow, true, stop_fd, &latency) == 0)
            result->latency_ns = (uint64_t)(latency.latency_us * 1e3);
    }
    return 0;
}
