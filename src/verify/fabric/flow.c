/* flow.c - the states of a transfer, at both ends; all flows of a worker in one poll(): the transfer is all that this process does, and a loop
 * (base/loop.h) would take part in pings of microseconds.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "verify/fabric/flow.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"
#include "judge/median.h"
#include "verify/fabric/adapter.h"

#define PING_BYTES 64
#define PINGS_MAX 256
#define PING_LAST 1 /* the first byte of the last one */
#define LEAD_NS                                                                                    \
    (100 * NS_PER_MS) /* from the order to send until the load begins: for latency, without load */
#define LOAD_BYTES (256 * 1024)
#define GUESTS 8 /* more than that, and the oldest must go */
#define BACKLOG 64
#define LATE_NS                                                                                    \
    (2 * NS_PER_S) /* that a sender waits longer than its time for the receiver to end */

enum flow_state {
    FLOW_LISTENS,
    FLOW_CONNECTS,
    FLOW_CHALLENGES, /* the receiver sends its nonce, the sender waits for it */
    FLOW_ANSWERS,    /* the sender sends nonce and proof */
    FLOW_PROVES,     /* the receiver sends its proof */
    FLOW_PINGS,      /* sender: to send a ping; receiver: to get one */
    FLOW_ECHOES,     /* sender: waits for it to come back; receiver: sends it back */
    FLOW_LOADS,
    FLOW_ENDED,
};

struct flow {
    int fd;
    struct flow *
        guest; /* of a receiver that listens: GUESTS connections that have not proved anything yet; NULL: none */
    uint32_t came; /* guests so far; of a guest: its number */
    enum flow_state state;
    uint32_t rail;
    char own[ADDRESS_NUMBER];
    unsigned char mine[FABRIC_NONCE], theirs[FABRIC_NONCE];
    unsigned char buffer[FABRIC_NONCE + FABRIC_MAC + PING_BYTES];
    size_t done; /* of the bytes that this state sends or waits for */
    uint32_t pinged;
    bool last_ping;
    int64_t ping_ns, round_ns[PINGS_MAX];
    int64_t
        load_ns; /* when a sender begins: at the same time on all nodes, so that they share the fabric */
    int64_t until_ns, began_ns, warm_ns, last_ns;
    uint64_t bytes, warm_bytes; /* of load, in all; before warm_ns */
    uint64_t adapter_bytes;     /* its counter at warm_ns */
    uint64_t foreign;
    int error;
};

static void flow_guests_end(struct flow *flow)
{
    for (uint32_t i = 0; flow->guest && i < GUESTS; i++)
        fd_clean(&flow->guest[i].fd);
    free(flow->guest);
    flow->guest = NULL;
}

static void flow_end(struct flow *flow, int error)
{
    flow_guests_end(flow);
    fd_clean(&flow->fd);
    flow->fd = -1;
    flow->state = FLOW_ENDED;
    flow->error = error;
}

/* ---- sockets ---- */

static int flow_address(const char *text, uint16_t port, struct sockaddr_storage *ret,
                        socklen_t *size)
{
    struct sockaddr_in *four = (struct sockaddr_in *)ret;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)ret;

    memset(ret, 0, sizeof(*ret));
    if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons(port);
        *size = sizeof(*four);
        return 0;
    }
    if (inet_pton(AF_INET6, text, &six->sin6_addr) == 1) {
        six->sin6_family = AF_INET6;
        six->sin6_port = htons(port);
        *size = sizeof(*six);
        return 0;
    }
    return -EINVAL;
}

static uint16_t flow_port(int fd)
{
    struct sockaddr_storage own = { 0 };
    socklen_t size = sizeof(own);

    if (getsockname(fd, (struct sockaddr *)&own, &size) < 0)
        return 0;
    return ntohs(own.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&own)->sin6_port
                                           : ((struct sockaddr_in *)&own)->sin_port);
}

static void flow_socket_options(const struct flows *flows, int fd)
{
    const int one = 1;
    const uint64_t rate = flows->rate;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (flows->sends && rate) /* TCP paces itself, to the packet */
        setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate));
}

static int flow_socket(const char *own, struct sockaddr_storage *address, socklen_t *size)
{
    int fd;

    if (flow_address(own, 0, address, size) < 0)
        return -EINVAL;
    fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if (bind(fd, (struct sockaddr *)address, *size) < 0) {
        int result = -errno;

        close(fd);
        return result;
    }
    return fd;
}

static int flow_listen(struct flow *flow, struct fabric_flow *asked)
{
    struct sockaddr_storage address;
    socklen_t size;

    flow->fd = flow_socket(flow->own, &address, &size);
    if (flow->fd < 0)
        return flow->fd;
    if (listen(flow->fd, BACKLOG) < 0)
        return -errno;
    flow->guest = calloc(GUESTS, sizeof(*flow->guest));
    if (!flow->guest)
        return -ENOMEM;
    for (uint32_t i = 0; i < GUESTS; i++)
        flow->guest[i].fd = -1;
    asked->port = flow_port(flow->fd);
    flow->state = FLOW_LISTENS;
    return 0;
}

static int flow_connect(const struct flows *flows, struct flow *flow,
                        const struct fabric_flow *asked)
{
    struct sockaddr_storage address;
    socklen_t size;

    flow->state = FLOW_CONNECTS;
    flow->fd = flow_socket(flow->own, &address, &size);
    if (flow->fd < 0)
        return flow->fd;
    flow_socket_options(flows, flow->fd);
    if (flow_address(asked->address, asked->port, &address, &size) < 0)
        return -EINVAL;
    if (connect(flow->fd, (struct sockaddr *)&address, size) < 0 && errno != EINPROGRESS)
        return -errno;
    return 0;
}

static int flows_open(struct flows *flows, const struct fabric_message *message,
                      char own[][ADDRESS_NUMBER], uint32_t rails, struct err *err)
{
    int64_t now = time_mono_ns();

    flows->flow = calloc(message->flows + 1, sizeof(*flows->flow));
    if (!flows->flow)
        return err_nomem(err);
    flows->count = message->flows;
    flows->time_ns = message->time_ns;
    flows->wait_ns = message->wait_ns;
    flows->rate = message->rate;
    flows->bytes = message->bytes;
    flows->pings = MIN(message->pings, PINGS_MAX);
    for (uint32_t i = 0; i < flows->count; i++) {
        struct flow *flow = &flows->flow[i];

        *flow = (struct flow){ .fd = -1,
                               .rail = message->flow[i].rail,
                               .load_ns = now + LEAD_NS,
                               .until_ns = now + message->wait_ns };
        if (flow->rail >= rails)
            return err_set(err, -EINVAL, "no rail %u here", flow->rail);
        memcpy(flow->own, own[flow->rail], sizeof(flow->own));
        if (fabric_nonce(flow->mine) < 0)
            return err_set(err, -EIO, "no random numbers");
    }
    return 0;
}

int flows_listen(struct flows *flows, struct fabric_message *message, char own[][ADDRESS_NUMBER],
                 uint32_t rails, struct err *err)
{
    int result = flows_open(flows, message, own, rails, err);

    for (uint32_t i = 0; i < message->flows && result == 0; i++) {
        result = flow_listen(&flows->flow[i], &message->flow[i]);
        if (result < 0)
            err_set(err, result, "cannot listen on %s: %s", flows->flow[i].own, strerror(-result));
    }
    return result;
}

int flows_connect(struct flows *flows, const struct fabric_message *message,
                  char own[][ADDRESS_NUMBER], uint32_t rails, struct err *err)
{
    int result;

    flows->sends = true;
    result = flows_open(flows, message, own, rails, err);
    for (uint32_t i = 0; i < message->flows && result == 0; i++) {
        int failed = flow_connect(flows, &flows->flow[i], &message->flow[i]);

        if (failed < 0) /* of this one: a result, not a failure of the test */
            flow_end(&flows->flow[i], -failed);
    }
    return result;
}

void flows_close(struct flows *flows)
{
    for (uint32_t i = 0; i < flows->count; i++)
        flow_end(&flows->flow[i], 0);
    free(flows->flow);
    *flows = (struct flows){ .flow = NULL };
}

/* ---- messages of fixed size ---- */

/* 1: all of it; 0: not yet; -errno. */
static int flow_get(struct flow *flow, size_t size)
{
    ssize_t got = recv(flow->fd, flow->buffer + flow->done, size - flow->done, 0);

    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    if (got == 0)
        return -ECONNRESET;
    flow->done += (size_t)got;
    if (flow->done < size)
        return 0;
    flow->done = 0;
    return 1;
}

static int flow_put(struct flow *flow, size_t size)
{
    ssize_t sent = send(flow->fd, flow->buffer + flow->done, size - flow->done, MSG_NOSIGNAL);

    if (sent < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    flow->done += (size_t)sent;
    if (flow->done < size)
        return 0;
    flow->done = 0;
    return 1;
}

/* ---- who is there? ---- */

/* A place for one more: the oldest makes room. */
static struct flow *flow_guest_place(struct flow *flow)
{
    struct flow *place = &flow->guest[0];

    for (uint32_t i = 0; i < GUESTS; i++) {
        if (flow->guest[i].fd < 0)
            return &flow->guest[i];
        if (flow->guest[i].came < place->came)
            place = &flow->guest[i];
    }
    fd_clean(&place->fd);
    return place;
}

static int flow_accept(const struct flows *flows, struct flow *flow)
{
    int fd = accept4(flow->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct flow *guest;

    if (fd < 0)
        return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED ? 0 : -errno;
    flow_socket_options(flows, fd);
    guest = flow_guest_place(flow);
    *guest = (struct flow){ .fd = fd, .state = FLOW_CHALLENGES, .came = ++flow->came };
    memcpy(guest->mine, flow->mine, sizeof(guest->mine));
    memcpy(guest->buffer, flow->mine, FABRIC_NONCE);
    return 0;
}

/* This one is the sender: the others go, and nobody else is let in. */
static void flow_adopt(struct flow *flow, struct flow *guest)
{
    fd_clean(&flow->fd);
    flow->fd = guest->fd;
    flow->state = guest->state;
    flow->until_ns = guest->until_ns;
    memcpy(flow->theirs, guest->theirs, sizeof(flow->theirs));
    guest->fd = -1;
    flow_guests_end(flow);
}

static int flow_connected(struct flow *flow)
{
    int error = 0;
    socklen_t size = sizeof(error);

    if (getsockopt(flow->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        return -errno;
    flow->state = FLOW_CHALLENGES;
    return -error;
}

static int flow_challenge(const struct flows *flows, struct flow *flow)
{
    int result;

    if (!flows->sends) {
        result = flow_put(flow, FABRIC_NONCE);
    } else {
        result = flow_get(flow, FABRIC_NONCE);
        if (result > 0) {
            memcpy(flow->theirs, flow->buffer, FABRIC_NONCE);
            memcpy(flow->buffer, flow->mine, FABRIC_NONCE);
            fabric_proof(flows->key, "sender", flow->theirs, flow->mine,
                         flow->buffer + FABRIC_NONCE);
        }
    }
    if (result > 0)
        flow->state = FLOW_ANSWERS;
    return result;
}

static int flow_answer(const struct flows *flows, struct flow *flow)
{
    size_t size = FABRIC_NONCE + FABRIC_MAC;
    int result = flows->sends ? flow_put(flow, size) : flow_get(flow, size);
    unsigned char proof[FABRIC_MAC];

    if (result <= 0)
        return result;
    flow->state = FLOW_PROVES;
    if (flows->sends)
        return 0;
    memcpy(flow->theirs, flow->buffer, FABRIC_NONCE);
    fabric_proof(flows->key, "sender", flow->mine, flow->theirs, proof);
    if (!fabric_proof_equal(proof, flow->buffer + FABRIC_NONCE))
        return -EACCES;
    fabric_proof(flows->key, "receiver", flow->theirs, flow->mine, flow->buffer);
    return 0;
}

static int flow_prove(const struct flows *flows, struct flow *flow)
{
    int result = flows->sends ? flow_get(flow, FABRIC_MAC) : flow_put(flow, FABRIC_MAC);
    unsigned char proof[FABRIC_MAC];

    if (result <= 0)
        return result;
    fabric_proof(flows->key, "receiver", flow->mine, flow->theirs, proof);
    if (flows->sends && !fabric_proof_equal(proof, flow->buffer))
        return -EACCES;
    flow->state = flows->pings ? FLOW_PINGS : FLOW_LOADS;
    flow->until_ns = time_mono_ns() + flows->wait_ns + flows->time_ns;
    return 0;
}

/* ---- latency ---- */

static int flow_ping(const struct flows *flows, struct flow *flow)
{
    int result;

    if (flows->sends) {
        if (!flow->done) {
            flow->ping_ns = time_mono_ns();
            flow->last_ping = flow->pinged + 1 == flows->pings || flow->ping_ns >= flow->load_ns;
            flow->buffer[0] = flow->last_ping ? PING_LAST : 0;
        }
        result = flow_put(flow, PING_BYTES);
    } else {
        result = flow_get(flow, PING_BYTES);
        flow->last_ping = flow->buffer[0] == PING_LAST || flow->pinged + 1 == PINGS_MAX;
    }
    if (result > 0)
        flow->state = FLOW_ECHOES;
    return result;
}

static int flow_echo(const struct flows *flows, struct flow *flow)
{
    int result = flows->sends ? flow_get(flow, PING_BYTES) : flow_put(flow, PING_BYTES);

    if (result <= 0)
        return result;
    flow->round_ns[flow->pinged++] = time_mono_ns() - flow->ping_ns;
    flow->state = flow->last_ping ? FLOW_LOADS : FLOW_PINGS;
    if (flow->state == FLOW_LOADS)
        flow->until_ns = time_mono_ns() + flows->wait_ns + flows->time_ns;
    return 0;
}

/* ---- load ---- */

/* The first byte: from here on time counts. */
static void flow_load_begin(const struct flows *flows, struct flow *flow, int64_t now)
{
    flow->began_ns = now;
    flow->until_ns = now + flows->time_ns + (flows->sends ? LATE_NS : 0);
}

static void flow_load_warm(const struct flows *flows, struct flow *flow, int64_t now)
{
    flow->warm_ns = now;
    flow->warm_bytes = flow->bytes;
    flow->adapter_bytes = adapter_bytes(flow->own, flows->sends);
}

static int flow_load_send(const struct flows *flows, struct flow *flow, int64_t now)
{
    static const unsigned char zero[LOAD_BYTES];
    uint64_t left = flows->bytes - flow->bytes;
    ssize_t sent;

    if (!flow->began_ns)
        flow_load_begin(flows, flow, now);
    if (!flow->warm_ns && now - flow->began_ns >= flows->time_ns / 4)
        flow_load_warm(flows, flow, now);
    if (!left)
        return -ENODATA;
    sent = send(flow->fd, zero, MIN(left, sizeof(zero)), MSG_NOSIGNAL);
    if (sent < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    flow->bytes += (uint64_t)sent;
    flow->last_ns = now;
    return 0;
}

static int flow_load_get(const struct flows *flows, struct flow *flow, int64_t now)
{
    ssize_t got = recv(flow->fd, NULL, LOAD_BYTES, MSG_TRUNC); /* TCP: drops them uncopied */

    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    if (got == 0)
        return -ENODATA;
    if (!flow->began_ns)
        flow_load_begin(flows, flow, now);
    flow->bytes += (uint64_t)got;
    flow->last_ns = now;
    if (!flow->warm_ns && now - flow->began_ns >= flows->time_ns / 4)
        flow_load_warm(flows, flow, now);
    return 0;
}

/* What others sent or received over the adapter in the time that counts: the counter of the adapter, less what is ours.  Headers and
 * what was sent again are ours, too: a tenth is not counted.
 */
static void flow_load_foreign(const struct flows *flows, struct flow *flow, int64_t now)
{
    uint64_t all = adapter_bytes(flow->own, flows->sends), own = flow->bytes - flow->warm_bytes;
    int64_t ns = now - flow->warm_ns;

    if (!flow->warm_ns || !all || all < flow->adapter_bytes || ns <= 0)
        return;
    all -= flow->adapter_bytes;
    for (uint32_t i = 0; i < flows->count; i++) {
        const struct flow *other = &flows->flow[i];

        if (other != flow && other->rail == flow->rail)
            own += other->bytes - other->warm_bytes;
    }
    if (all > own + own / 10)
        flow->foreign = (uint64_t)((double)(all - own) * 1e9 / (double)ns);
}

/* The receiver hangs up when its time is over; for the sender that is the end, not an error. */
static void flow_load_end(const struct flows *flows, struct flow *flow, int64_t now)
{
    flow_load_foreign(flows, flow, now);
    if (flow->last_ns < now && !flows->sends)
        flow->last_ns = now; /* silence until the end counts */
    flow_end(flow, flow->bytes ? 0 : ETIMEDOUT);
}

static int flow_load(const struct flows *flows, struct flow *flow, int64_t now)
{
    int result = flows->sends ? flow_load_send(flows, flow, now) : flow_load_get(flows, flow, now);

    if (result < 0 && flow->bytes) {
        if (!flows->sends)
            now = flow->last_ns; /* it ended early: what came until then */
        flow_load_end(flows, flow, now);
        return 0;
    }
    return result;
}

/* ---- all of them ---- */

static short flow_events(const struct flows *flows, const struct flow *flow)
{
    switch (flow->state) {
    case FLOW_CONNECTS:
        return POLLOUT;
    case FLOW_CHALLENGES:
    case FLOW_PROVES:
    case FLOW_ECHOES:
        return flows->sends ? POLLIN : POLLOUT;
    case FLOW_ANSWERS:
    case FLOW_PINGS:
        return flows->sends ? POLLOUT : POLLIN;
    case FLOW_LOADS:
        return !flows->sends ? POLLIN : time_mono_ns() >= flow->load_ns ? POLLOUT : 0;
    case FLOW_LISTENS:
    case FLOW_ENDED:
        break;
    }
    return POLLIN;
}

static int flow_step(const struct flows *flows, struct flow *flow, int64_t now)
{
    switch (flow->state) {
    case FLOW_LISTENS:
        return flow_accept(flows, flow);
    case FLOW_CONNECTS:
        return flow_connected(flow);
    case FLOW_CHALLENGES:
        return flow_challenge(flows, flow);
    case FLOW_ANSWERS:
        return flow_answer(flows, flow);
    case FLOW_PROVES:
        return flow_prove(flows, flow);
    case FLOW_PINGS:
        return flow_ping(flows, flow);
    case FLOW_ECHOES:
        return flow_echo(flows, flow);
    case FLOW_LOADS:
        return flow_load(flows, flow, now);
    case FLOW_ENDED:
        break;
    }
    return 0;
}

static void flow_late(const struct flows *flows, struct flow *flow, int64_t now)
{
    if (flow->state == FLOW_LOADS && flow->bytes)
        flow_load_end(flows, flow, now);
    else
        flow_end(flow, ETIMEDOUT);
}

/* What a guest says decides only about itself. */
static void flow_guest_step(const struct flows *flows, struct flow *flow, struct flow *guest)
{
    if (flow_step(flows, guest, time_mono_ns()) < 0) {
        fd_clean(&guest->fd);
        guest->fd = -1;
    } else if (guest->state > FLOW_PROVES) {
        flow_adopt(flow, guest);
    }
}

static void flow_guests_watch(const struct flows *flows, const struct flow *flow,
                              struct pollfd *polls)
{
    for (uint32_t g = 0; g < GUESTS; g++) {
        const struct flow *guest = flow->guest ? &flow->guest[g] : NULL;

        polls[g] = (struct pollfd){ .fd = guest ? guest->fd : -1,
                                    .events = guest ? flow_events(flows, guest) : 0 };
    }
}

static void flow_guests_step(const struct flows *flows, struct flow *flow,
                             const struct pollfd *polls)
{
    for (uint32_t g = 0; g < GUESTS && flow->guest; g++) {
        if (polls[g].fd >= 0 && polls[g].revents && polls[g].fd == flow->guest[g].fd)
            flow_guest_step(flows, flow, &flow->guest[g]);
    }
}

/* Fills `poll`; returns the number of open flows, and when the first of them is late. */
static uint32_t flows_watch(struct flows *flows, struct pollfd *polls, int64_t *until)
{
    int64_t now = time_mono_ns();
    uint32_t open = 0;

    *until = INT64_MAX;
    for (uint32_t i = 0; i < flows->count; i++) {
        struct flow *flow = &flows->flow[i];

        if (flow->state != FLOW_ENDED && now >= flow->until_ns)
            flow_late(flows, flow, now);
        polls[i] = (struct pollfd){ .fd = flow->fd, .events = flow_events(flows, flow) };
        flow_guests_watch(flows, flow, polls + flows->count + 1 + (size_t)i * GUESTS);
        if (flow->state == FLOW_ENDED)
            continue;
        open++;
        *until = MIN(*until, flow->until_ns);
        if (flows->sends && flow->state == FLOW_LOADS && now < flow->load_ns)
            *until = MIN(*until, flow->load_ns);
    }
    return open;
}

/* The first quarter does not count.  But where nothing came at its end, because of a lost packet or since this process did not run, much
 * of what came in the silence counts behind it: a link of a third of the rate then looked sound.  So all of the time counts.
 */
static bool flow_was_warm(const struct flows *flows, const struct flow *flow)
{
    return flow->warm_ns && flow->warm_ns - flow->began_ns <= flows->time_ns / 16 * 5;
}

static void flows_results(const struct flows *flows, struct fabric_message *results)
{
    results->flows = flows->count;
    for (uint32_t i = 0; i < flows->count; i++) {
        const struct flow *flow = &flows->flow[i];
        struct fabric_flow *result = &results->flow[i];
        bool warm = flow->last_ns > flow->warm_ns && flow_was_warm(flows, flow);
        int64_t ns = flow->last_ns - (warm ? flow->warm_ns : flow->began_ns);

        *result = (struct fabric_flow){ .rail = flow->rail, .error = (uint32_t)flow->error };
        result->bytes = warm ? flow->bytes - flow->warm_bytes : flow->bytes;
        result->ns = (uint64_t)MAX(ns, 0);
        result->foreign = flow->foreign;
        if (flows->sends && flow->pinged) {
            int64_t round[PINGS_MAX];

            memcpy(round, flow->round_ns, sizeof(round));
            result->latency_ns = (uint64_t)(median_i64(round, flow->pinged) / 2);
        }
    }
}

uint64_t flows_bytes(const struct flows *flows)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < flows->count; i++)
        bytes += flows->flow[i].bytes;
    return bytes;
}

static void flows_step(struct flows *flows, const struct pollfd *polls)
{
    for (uint32_t i = 0; i < flows->count; i++) {
        struct flow *flow = &flows->flow[i];
        int result = 0;

        flow_guests_step(flows, flow, polls + flows->count + 1 + (size_t)i * GUESTS);
        if (polls[i].fd >= 0 && polls[i].revents && polls[i].fd == flow->fd)
            result = flow_step(flows, flow, time_mono_ns());
        if (result < 0)
            flow_end(flow, -result);
    }
}

/* poll() and not base/loop.h: transfers of a rate are paced by the nearest deadline of all flows, and the set of descriptors
 * changes with the state of each flow at every turn.
 */
int flows_run(struct flows *flows, int stop_fd, struct fabric_message *results)
{
    size_t count = flows->count + 1 + (size_t)flows->count * GUESTS;
    CLEAN(free_clean) struct pollfd *polls = calloc(count, sizeof(*polls));
    bool stopped = false;
    int64_t until;

    if (!polls)
        return -ENOMEM;
    while (!stopped && flows_watch(flows, polls, &until)) {
        int ready;

        polls[flows->count] = (struct pollfd){ .fd = stop_fd, .events = POLLIN };
        ready = poll(polls, count, time_poll_ms(until, time_mono_ns()));
        if (ready < 0 && errno != EINTR)
            return -errno;
        stopped = ready > 0 && polls[flows->count].revents;
        if (ready > 0)
            flows_step(flows, polls);
    }
    for (uint32_t i = 0; i < flows->count; i++) {
        if (flows->flow[i].state != FLOW_ENDED)
            flow_late(flows, &flows->flow[i], time_mono_ns());
    }
    flows_results(flows, results);
    return 0;
}
