/* load.c - many connections in one loop; HTTP as far as a load needs it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/bench/load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/loop.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/rand.h"
#include "core/time.h"
#include "lab/bench/fleet.h"

#define BEAT_NS NS_PER_S
#define SPREAD 0.5 /* when in a step an agent's turn is: its own phase, so far from the begin */
#define PATIENCE_NS (60 * NS_PER_S)

struct load_node {
    struct load *load;
    int fd;
    uint32_t index;
    uint64_t number, step; /* of the next frame; the next step */
    uint64_t beats;        /* since the newest step */
    bool greeted;          /* its hello and shapes are acknowledged */
    struct buf waiting;    /* frames that have gathered */
    struct buf out;        /* a request on its way */
    size_t sent;
    struct buf in;
    int64_t phase_ns, asked_ns; /* asked: 0: nothing is on its way */
    uint64_t asked_step;        /* steps in the request; plus one */
};

struct load {
    const struct load_settings *settings;
    struct loop *loop;
    struct fleet fleet;
    struct load_node *node;
    uint32_t opened; /* nodes that are connected */
    struct loop_timer timer;
    uint64_t boot;
    uint32_t done;
    bool begun;
    struct rand rand;
};

static int load_connect_to(unsigned port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    CLEAN(fd_clean) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int one = 1;

    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        return -errno;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return TAKE_FD(fd);
}

static void load_raise_files(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* ---- agents ---- */

static void node_ready(void *arg, int fd, uint32_t events);

static void node_write(struct load_node *node)
{
    ssize_t written = send(node->fd, node->out.data + node->sent, node->out.size - node->sent,
                           MSG_DONTWAIT | MSG_NOSIGNAL);

    if (written > 0)
        node->sent += (size_t)written;
    loop_watch(node->load->loop, node->fd,
               node->sent < node->out.size ? EPOLLIN | EPOLLOUT : EPOLLIN, node_ready, node);
}

static void node_post(struct load_node *node)
{
    const struct load_settings *settings = node->load->settings;
    char head[512];

    snprintf(
        head, sizeof(head),
        "POST /api/v1/frames?run=%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
        "Content-Length: %zu\r\n\r\n",
        settings->run, settings->token.text, node->waiting.size);
    node->out.size = 0;
    node->sent = 0;
    buf_put(&node->out, head, strlen(head));
    buf_put(&node->out, node->waiting.data, node->waiting.size);
    node->waiting.size = 0;
    node->asked_step = node->step;
    node->asked_ns = time_mono_ns();
    atomic_fetch_add(&settings->shared->bodies, 1);
    atomic_fetch_add(&settings->shared->bytes, node->out.size);
    node_write(node);
    for (uint64_t step = node->asked_step; step > 0 && step <= LOAD_STEPS_MAX; step = 0) {
        _Atomic int64_t *last = &settings->shared->sent_ns[step - 1];
        int64_t before = atomic_load(last);

        while (before < node->asked_ns &&
               !atomic_compare_exchange_weak(last, &before, node->asked_ns))
            ;
    }
}

static void node_answered(struct load_node *node, unsigned status)
{
    struct load_shared *shared = node->load->settings->shared;

    sketch_add(&shared->agents[node->load->settings->process].us,
               (uint64_t)(time_mono_ns() - node->asked_ns) / 1000);
    if (status != 200)
        atomic_fetch_add(&shared->failed, 1);
    if (!node->greeted)
        atomic_fetch_add(&shared->greeted, 1);
    node->greeted = true;
    node->asked_ns = 0;
    if (node->waiting.size)
        node_post(node);
    else if (node->step >= node->load->settings->steps)
        node->load->done++;
}

/* True when a whole answer was there. */
static bool load_answer_take(struct load_node *node, unsigned *status)
{
    const char *text = (const char *)node->in.data, *length, *body;

    buf_put_u8(&node->in, 0); /* so that it can be searched */
    node->in.size--;
    text = (const char *)node->in.data;
    body = strstr(text, "\r\n\r\n");
    length = strcasestr(text, "Content-Length:");
    if (!body || !length)
        return false;
    body += 4;
    if ((size_t)(body - text) + strtoul(length + 15, NULL, 10) > node->in.size)
        return false;
    *status = (unsigned)strtoul(text + 9, NULL, 10);
    node->in.size = 0;
    return true;
}

static void node_ready(void *arg, int fd, uint32_t events)
{
    struct load_node *node = arg;
    char bytes[4096];
    unsigned status;
    ssize_t got;

    if (events & EPOLLOUT)
        node_write(node);
    got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got > 0)
        buf_put(&node->in, bytes, (size_t)got);
    if (got == 0 || (got < 0 && errno != EAGAIN)) {
        atomic_fetch_add(&node->load->settings->shared->failed, 1);
        loop_forget(node->load->loop, fd);
        node->load->done++;
        return;
    }
    if (got > 0 && load_answer_take(node, &status))
        node_answered(node, status);
}

static void node_turn(struct load_node *node, int64_t now_ns)
{
    struct load *load = node->load;
    int64_t begin_ns = atomic_load(&load->settings->shared->begin_ns), due_ns;

    while (node->step < load->settings->steps) {
        due_ns = begin_ns + (int64_t)(node->step + 1) * load->settings->step_ns + node->phase_ns;
        if (now_ns >= due_ns) { /* with a beat of its own */
            fleet_step(&load->fleet, node->index, node->step++, begin_ns, load->boot, &node->number,
                       &node->waiting);
            node->beats = 0;
            continue;
        }
        due_ns += (int64_t)(node->beats + 1) * BEAT_NS - load->settings->step_ns;
        if (now_ns < due_ns)
            break;
        fleet_beats(node->index, node->step, due_ns, load->boot, &node->number, &node->waiting);
        node->beats++;
    }
    if (node->waiting.size && !node->asked_ns)
        node_post(node);
}

static void load_tick(void *arg, int64_t now_ns)
{
    struct load *load = arg;

    if (atomic_load(&load->settings->shared->begin_ns)) {
        for (uint32_t i = 0; i < load->settings->count; i++)
            node_turn(&load->node[i], now_ns);
    }
    if (load->done >= load->settings->count)
        loop_stop(load->loop);
    loop_timer_set(load->loop, &load->timer, time_mono_ns() + 5 * NS_PER_MS);
}

static int node_open(struct load *load, uint32_t i)
{
    struct load_node *node = &load->node[i];

    *node = (struct load_node){ .load = load, .index = load->settings->first + i };
    node->fd = load_connect_to(load->settings->port);
    if (node->fd < 0)
        return node->fd;
    load->opened++;
    node->phase_ns = (int64_t)(rand_unit(&load->rand) * SPREAD * (double)load->settings->step_ns);
    fleet_hello(&load->fleet, node->index, load->settings->run, load->boot, &node->number,
                &node->waiting);
    if (node->index == 0)
        fleet_launch(&load->fleet, load->settings->run, load->boot, &node->waiting);
    node_post(node);
    return 0;
}

static void load_fini(struct load *load)
{
    for (uint32_t i = 0; i < load->opened; i++) {
        struct load_node *node = &load->node[i];

        close(node->fd);
        buf_fini(&node->waiting);
        buf_fini(&node->out);
        buf_fini(&node->in);
    }
    free(load->node);
    fleet_fini(&load->fleet);
    loop_destroy(load->loop);
}

int load_agents(const struct load_settings *settings, struct err *err)
{
    CLEAN(load_fini)
    struct load load = { .settings = settings, .boot = (uint64_t)time_real_ns() };
    int result = loop_create(&load.loop, err);

    if (result < 0)
        return result;
    load_raise_files();
    load.rand.state = settings->first + 1;
    load.node = calloc(settings->count, sizeof(*load.node));
    if (!load.node ||
        fleet_init(&load.fleet, settings->nodes, settings->ops, settings->step_ns * 7 / 10) < 0)
        return err_set(err, -ENOMEM, "no memory for %u agents", settings->count);
    load.fleet.slow_rank = settings->slow_rank;
    load.fleet.slow_from = settings->slow_from;
    load.timer = (struct loop_timer){ .fn = load_tick, .arg = &load };
    for (uint32_t i = 0; i < settings->count; i++) {
        result = node_open(&load, i);
        if (result < 0)
            return err_set(err, result, "agent %u cannot connect: %s", i, strerror(-result));
    }
    loop_timer_set(load.loop, &load.timer, 0);
    return loop_run(load.loop, err);
}

/* ---- readers ---- */

struct load_reader {
    struct load_shared *shared;
    bool first; /* one of them keeps the steps */
    struct buf in;
};

static double load_number_after(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    return at ? strtod(at + strlen(name), NULL) : 0;
}

static void reader_line(struct load_reader *reader, const char *line)
{
    double sent_s = load_number_after(line, "\"told\":"),
           judged = load_number_after(line, "\"judged\":");
    int64_t now_ns = time_real_ns();

    if (strncmp(line, "data: ", 6) != 0 || sent_s <= 0)
        return;
    sketch_add(&reader->shared->readers.us,
               (uint64_t)MAX(now_ns - (int64_t)(sent_s * 1e9), 0) / 1000);
    if (reader->first && strstr(line, "\"straggler\""))
        atomic_fetch_add(&reader->shared->verdicts, 1);
    if (reader->first && judged >= 1 && judged <= LOAD_STEPS_MAX)
        atomic_store(&reader->shared->judged_ns[(size_t)judged - 1], time_mono_ns());
}

static void reader_ready(void *arg, int fd, uint32_t events)
{
    struct load_reader *reader = arg;
    char bytes[16384];
    ssize_t got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    char *line, *end;

    (void)events;
    if (got <= 0)
        _exit(got == 0 ? 0 : 1); /* the controller has ended, and so do we */
    buf_put(&reader->in, bytes, (size_t)got);
    for (;;) {
        line = (char *)reader->in.data;
        end = reader->in.size ? memchr(line, '\n', reader->in.size) : NULL;
        if (!end)
            return;
        *end = '\0';
        reader_line(reader, line);
        buf_drop_front(&reader->in, (size_t)(end - line) + 1);
    }
}

int load_readers(const struct load_settings *settings, uint32_t readers, struct err *err)
{
    char ask[256];
    struct load_reader *reader = calloc(readers, sizeof(*reader));
    struct loop *loop;
    int result = loop_create(&loop, err);

    load_raise_files();
    if (result < 0)
        return result;
    if (!reader)
        return err_set(err, -ENOMEM, "no memory for %u readers", readers);
    snprintf(ask, sizeof(ask),
             "GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n",
             settings->reader.text);
    for (uint32_t i = 0; i < readers; i++) {
        int fd = load_connect_to(settings->port);

        if (fd < 0)
            return err_set(err, fd, "reader %u cannot connect: %s", i, strerror(-fd));
        reader[i] = (struct load_reader){ .shared = settings->shared, .first = i == 0 };
        if (send(fd, ask, strlen(ask), MSG_NOSIGNAL) != (ssize_t)strlen(ask) ||
            loop_watch(loop, fd, EPOLLIN, reader_ready, &reader[i]) < 0)
            return err_set(err, -EIO, "reader %u cannot send its request", i);
        atomic_fetch_add(&settings->shared->listening, 1);
    }
    return loop_run(loop, err);
}
