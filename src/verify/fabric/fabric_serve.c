/* fabric_serve.c - accepts, forks, and does what an authenticated test asks for, within the limits of this node.
 *
 * A connection that has not shown the token in time is closed, and cannot keep others away: each has a process of its own, and when
 * there are too many, the address with the most connections loses one.
 * Such a process does one thing after the other and waits for that alone, so it polls and has no loop of its own (channel.c, flow.c).
 * Who holds the lock on an unnamed file is the one test at a time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "verify/fabric/fabric_serve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"
#include "verify/fabric/channel.h"
#include "verify/fabric/flow.h"
#include "verify/fabric/nccl_pair.h"
#include "verify/fabric/perftest_run.h"

#define CHILDREN_MAX 64
#define BACKLOG 64
#define GREET_NS (5 * NS_PER_S)
#define IDLE_NS (120 * NS_PER_S)    /* between two messages of a test */
#define PERFTEST_NS (10 * NS_PER_S) /* that its programs take longer than their time */
#define WAIT_MAX_NS (30 * NS_PER_S)

struct fabric_server {
    struct loop *loop;
    struct fabric_serve_settings settings;
    int fd, lock_fd;
    unsigned port;
    struct serve_child {
        pid_t pid;
        char peer[ADDRESS_NUMBER];
    } child[CHILDREN_MAX]; /* oldest first */
    size_t children;
};

struct fabric_worker { /* the process of one connection */
    const struct fabric_serve_settings *settings;
    struct fabric_channel channel;
    char rail[FABRIC_RAILS][ADDRESS_NUMBER];
    uint32_t rails;
    uint64_t left_bytes;
};

/* ---- one test ---- */

static int serve_say(struct fabric_worker *worker, const struct fabric_message *message)
{
    return channel_send(&worker->channel, message, time_mono_ns() + GREET_NS, NULL);
}

static int serve_refuse(struct fabric_worker *worker, const char *text)
{
    struct fabric_message message = { .type = FABRIC_REFUSED };

    snprintf(message.text, sizeof(message.text), "%s", text);
    serve_say(worker, &message);
    return -ECANCELED;
}

static bool serve_lock(int fd)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

    return fcntl(fd, F_SETLK, &lock) == 0;
}

/* What a message asks for is cut to what this node allows; false: there is nothing left of it. */
static bool serve_bound(struct fabric_worker *worker, struct fabric_message *message)
{
    const struct fabric_serve_settings *settings = worker->settings;
    uint64_t flows = MAX(message->flows, 1), rate = settings->rate / flows;

    message->time_ns = MIN(message->time_ns, settings->time_ns);
    message->wait_ns = MIN(message->wait_ns, WAIT_MAX_NS);
    if (!message->rate || message->rate > rate)
        message->rate = rate;
    message->bytes = MIN(message->bytes, worker->left_bytes / flows);
    return message->flows && message->bytes && message->rate && message->time_ns;
}

static void serve_charge(struct fabric_worker *worker, uint64_t bytes)
{
    worker->left_bytes -= MIN(worker->left_bytes, bytes);
}

static int serve_flows(struct fabric_worker *worker, struct fabric_message *asked)
{
    struct fabric_message done = { .type = FABRIC_DONE };
    struct flows flows = { .flow = NULL };
    struct err err = { "" };
    bool sends = asked->type == FABRIC_SEND;
    int result;

    if (!serve_bound(worker, asked))
        return serve_refuse(worker, "the limits of this node allow no further transfer");
    fabric_flow_key(&worker->settings->token, asked->nonce, flows.key);
    result = sends ? flows_connect(&flows, asked, worker->rail, worker->rails, &err)
                   : flows_listen(&flows, asked, worker->rail, worker->rails, &err);
    if (result == 0 && !sends) {
        asked->type = FABRIC_READY;
        result = serve_say(worker, asked);
    }
    if (result == 0)
        result = flows_run(&flows, worker->channel.fd, &done);
    serve_charge(worker, flows_bytes(&flows));
    flows_close(&flows);
    if (result < 0)
        return serve_refuse(worker, err.text[0] ? err.text : strerror(-result));
    return serve_say(worker, &done);
}

/* Its programs report a rate, to the client only: the server is charged with what the rate allowed. */
static uint64_t serve_perftest_bytes(const struct fabric_message *asked,
                                     const struct fabric_message *done)
{
    double seconds = MAX((double)asked->time_ns / 1e9, 1.0), bytes = 0;

    for (uint32_t i = 0; i < done->flows; i++) {
        const struct fabric_flow *flow = &done->flow[i];

        bytes += seconds *
                 (flow->ns ? (double)flow->bytes * 1e9 / (double)flow->ns : (double)asked->rate);
    }
    return bytes < 1e18 ? (uint64_t)bytes : UINT64_MAX;
}

static int serve_perftest(struct fabric_worker *worker, struct fabric_message *asked)
{
    const char *dir = worker->settings->perftest;
    struct fabric_message done = { .type = FABRIC_DONE, .tool = FABRIC_PERFTEST };
    struct perftest_servers servers = { .count = 0 };
    struct err err = { "" };
    int result;

    if (!dir[0])
        return serve_refuse(worker, "this worker does not run perftest; see --perftest");
    if (!serve_bound(worker, asked))
        return serve_refuse(worker, "the limits of this node allow no further transfer");
    if (asked->type == FABRIC_SEND) {
        result = perftest_measure(dir, asked, worker->channel.fd, &done);
    } else {
        int64_t each_ns = 2 * (asked->wait_ns + asked->time_ns + PERFTEST_NS);

        result = perftest_serve(dir, asked, &servers, &err);
        asked->type = FABRIC_READY;
        if (result == 0)
            result = serve_say(worker, asked);
        perftest_serve_wait(&servers, worker->channel.fd,
                            result < 0 ? 0 : time_mono_ns() + (int64_t)asked->flows * each_ns);
        done.flows = asked->flows;
        for (uint32_t i = 0; i < asked->flows; i++)
            done.flow[i].rail = asked->flow[i].rail;
    }
    serve_charge(worker, serve_perftest_bytes(asked, &done));
    if (result < 0)
        return serve_refuse(worker, err.text[0] ? err.text : strerror(-result));
    return serve_say(worker, &done);
}

/* The receiver answers with what the sender needs, before both begin. */
static int serve_nccl_pair(struct fabric_worker *worker, struct fabric_message *asked,
                           struct nccl_transfer *pair, struct fabric_message *done, struct err *err)
{
    int result = nccl_pair_start(asked, worker->settings->shared_gpus, pair, err);

    if (result == 0 && asked->type == FABRIC_RECEIVE) {
        result = nccl_pair_id(pair, worker->channel.fd, time_mono_ns() + NCCL_PAIR_START_NS,
                              asked->text, sizeof(asked->text), err);
        asked->type = FABRIC_READY;
        if (result == 0)
            result = serve_say(worker, asked);
        asked->type = FABRIC_RECEIVE;
    }
    return result < 0 ? result : nccl_pair_measure(pair, asked, worker->channel.fd, done, err);
}

static int serve_nccl(struct fabric_worker *worker, struct fabric_message *asked)
{
    struct fabric_message done = { .type = FABRIC_DONE, .tool = FABRIC_NCCL };
    struct nccl_transfer pair = { .fd = -1 };
    struct err err = { "" };
    int result;

    if (!worker->settings->nccl)
        return serve_refuse(worker, "this worker does not use NCCL; see --nccl");
    if (!serve_bound(worker, asked))
        return serve_refuse(worker, "the limits of this node allow no further transfer");
    result = serve_nccl_pair(worker, asked, &pair, &done, &err);
    nccl_pair_end(&pair);
    for (uint32_t i = 0; i < done.flows; i++)
        serve_charge(worker, done.flow[i].bytes);
    if (result < 0)
        return serve_refuse(worker, err.text[0] ? err.text : strerror(-result));
    return serve_say(worker, &done);
}

static int serve_messages(struct fabric_worker *worker)
{
    struct fabric_message message;
    int result = 0;

    while (result == 0) {
        result = channel_wait(&worker->channel, time_mono_ns() + IDLE_NS, &message, NULL);
        if (result < 0 || message.type == FABRIC_STOP)
            continue;
        if (message.type != FABRIC_RECEIVE && message.type != FABRIC_SEND)
            return serve_refuse(worker, "an unexpected message");
        result = message.tool == FABRIC_PERFTEST ? serve_perftest(worker, &message)
                 : message.tool == FABRIC_NCCL   ? serve_nccl(worker, &message)
                                                 : serve_flows(worker, &message);
    }
    return result;
}

/* The address of ours that the test connected to, where none was given. */
static void serve_rails(struct fabric_worker *worker)
{
    const struct fabric_serve_settings *settings = worker->settings;
    struct sockaddr_storage own = { 0 };
    socklen_t size = sizeof(own);

    memcpy(worker->rail, settings->rail, sizeof(worker->rail));
    worker->rails = settings->rails;
    if (worker->rails || getsockname(worker->channel.fd, (struct sockaddr *)&own, &size) < 0)
        return;
    if (getnameinfo((struct sockaddr *)&own, size, worker->rail[0], sizeof(worker->rail[0]), NULL,
                    0, NI_NUMERICHOST) == 0 &&
        !strchr(worker->rail[0], '%')) /* one of a single link has no meaning on other nodes */
        worker->rails = 1;
}

static int serve_test(struct fabric_worker *worker, int lock_fd)
{
    struct fabric_message node = { .type = FABRIC_NODE };
    int result =
        channel_greet(&worker->channel, &worker->settings->token, time_mono_ns() + GREET_NS, NULL);

    if (result < 0)
        return result;
    if (!serve_lock(lock_fd))
        return serve_refuse(worker, "another test is using this node");
    serve_rails(worker);
    memcpy(node.node, worker->settings->node, sizeof(node.node));
    node.rate = worker->settings->rate;
    node.time_ns = worker->settings->time_ns;
    node.bytes = worker->left_bytes;
    node.flows = worker->rails;
    for (uint32_t i = 0; i < worker->rails; i++) {
        node.flow[i].rail = i;
        memcpy(node.flow[i].address, worker->rail[i], sizeof(worker->rail[i]));
    }
    result = serve_say(worker, &node);
    return result < 0 ? result : serve_messages(worker);
}

static void serve_child(const struct fabric_server *server, int fd)
{
    struct fabric_worker worker = { .settings = &server->settings,
                                    .left_bytes = server->settings.bytes };
    sigset_t none;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    close(server->fd);
    channel_init(&worker.channel, fd, true);
    serve_test(&worker, server->lock_fd);
    _exit(0);
}

/* ---- connections ---- */

static void serve_forget(struct fabric_server *server, size_t at)
{
    server->children--;
    memmove(&server->child[at], &server->child[at + 1],
            (server->children - at) * sizeof(server->child[0]));
}

static size_t serve_peers(const struct fabric_server *server, const char *peer)
{
    size_t count = 0;

    for (size_t i = 0; i < server->children; i++)
        count += strcmp(server->child[i].peer, peer) == 0;
    return count;
}

/* Who holds the lock has shown the token, and is the test. */
static pid_t serve_tester(const struct fabric_server *server)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

    return fcntl(server->lock_fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK ? lock.l_pid : 0;
}

/* All places are taken: whoever has most of them loses the oldest that is not the test. */
static void serve_make_room(struct fabric_server *server)
{
    pid_t tester = serve_tester(server);
    size_t worst = server->children, most = 0;

    for (size_t i = 0; i < server->children; i++) {
        size_t count = serve_peers(server, server->child[i].peer);

        if (server->child[i].pid != tester && count > most) {
            worst = i;
            most = count;
        }
    }
    if (worst == server->children)
        return;
    kill(server->child[worst].pid, SIGKILL);
    waitpid(server->child[worst].pid, NULL, 0);
    serve_forget(server, worst);
}

static void serve_accept(void *arg, int listen_fd, uint32_t events)
{
    struct fabric_server *server = arg;
    struct sockaddr_storage from = { 0 };
    socklen_t size = sizeof(from);
    CLEAN(fd_clean) int fd = accept4(listen_fd, (struct sockaddr *)&from, &size, SOCK_CLOEXEC);
    struct serve_child *child;
    pid_t pid;

    (void)events;
    if (fd < 0)
        return;
    if (server->children == CHILDREN_MAX)
        serve_make_room(server);
    if (server->children == CHILDREN_MAX)
        return;
    pid = fork();
    if (pid == 0)
        serve_child(server, fd);
    if (pid < 0)
        return;
    child = &server->child[server->children++];
    *child = (struct serve_child){ .pid = pid };
    if (getnameinfo((struct sockaddr *)&from, size, child->peer, sizeof(child->peer), NULL, 0,
                    NI_NUMERICHOST) != 0)
        child->peer[0] = '\0';
}

void fabric_serve_child_ended(struct fabric_server *server)
{
    for (size_t i = 0; i < server->children;) {
        if (waitpid(server->child[i].pid, NULL, WNOHANG) != 0)
            serve_forget(server, i);
        else
            i++;
    }
}

int fabric_serve_open(struct loop *loop, const struct fabric_serve_settings *settings,
                      struct fabric_server **ret, struct err *err)
{
    struct fabric_server *server = calloc(1, sizeof(*server));
    int result;

    if (!server)
        return err_nomem(err);
    *server = (struct fabric_server){ .loop = loop, .settings = *settings, .fd = -1 };
    server->lock_fd = memfd_create("lockstep fabric", MFD_CLOEXEC);
    server->fd = server->lock_fd < 0
                     ? err_set(err, -errno, "memfd: %m")
                     : address_socket(server->settings.listen, BACKLOG, &server->port, err);
    result = MIN(server->fd, 0);
    if (result == 0)
        result = loop_watch(loop, server->fd, EPOLLIN, serve_accept, server);
    if (result < 0) {
        fabric_serve_close(server);
        return result;
    }
    *ret = server;
    return 0;
}

void fabric_serve_close(struct fabric_server *server)
{
    if (!server)
        return;
    for (size_t i = 0; i < server->children; i++) {
        kill(server->child[i].pid, SIGKILL);
        waitpid(server->child[i].pid, NULL, 0);
    }
    if (server->fd >= 0)
        loop_forget(server->loop, server->fd);
    fd_clean(&server->fd);
    fd_clean(&server->lock_fd);
    free(server);
}

unsigned fabric_serve_port(const struct fabric_server *server)
{
    return server->port;
}
