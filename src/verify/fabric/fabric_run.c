/* fabric_run.c - the workers of a test: connects to them, gives out the rounds and collects the rates.
 *
 * A round is a sequence: ask all, wait for all or the deadline, go on.  With callbacks of a loop (base/loop.h) that order would be spread over
 * states; with poll() it reads as it happens.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "verify/fabric/fabric_run.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/text.h"
#include "core/time.h"
#include "verify/fabric/nccl_pair.h"

#define ANSWER_NS (5 * NS_PER_S) /* beyond what a transfer may take */
#define CONNECT_NS (5 * NS_PER_S)
#define BUSY_SHARE 0.1 /* of what goes over an adapter comes from others */
#define PERFTEST_NS (10 * NS_PER_S)
#define GBPS_BYTES (1e9 / 8)
#define RATE_MAX UINT64_C(1250000000000) /* bytes a second: 10000 Gbit/s, as the options allow */

int fabric_run_init(struct fabric_run *run, const struct fabric_run_settings *settings)
{
    *run = (struct fabric_run){ .settings = *settings };
    return 0;
}

void fabric_run_fini(struct fabric_run *run)
{
    for (uint32_t i = 0; i < run->nodes; i++) {
        channel_close(&run->node[i].channel);
        free(run->node[i].answer);
    }
    free(run->node);
    free(run->tested);
    free(run->leaf);
    free(run->leaf_name);
    free(run->path);
    free(run->measured);
    map_fini(&run->index);
    pair_plan_fini(&run->plan);
    pair_plan_fini(&run->again);
    *run = (struct fabric_run){ .node = NULL };
}

int fabric_run_add(struct fabric_run *run, const char *host, uint16_t port, const char *leaf)
{
    struct fabric_node *node;

    if (!ARRAY_FIT(run->node, run->node_room, run->nodes + 1))
        return -ENOMEM;
    node = &run->node[run->nodes++];
    *node = (struct fabric_node){ .port = port, .channel = { .fd = -1 } };
    snprintf(node->host, sizeof(node->host), "%s", host);
    snprintf(node->name, sizeof(node->name), "%s", host);
    snprintf(node->leaf_name, sizeof(node->leaf_name), "%s", leaf ? leaf : "");
    return 0;
}

const char *fabric_run_name(const struct fabric_run *run, uint32_t tested)
{
    return run->node[run->tested[tested]].name;
}

static void fabric_node_skip(struct fabric_node *node, bool unreachable, const char *why)
{
    channel_close(&node->channel);
    node->state = NODE_SKIPPED;
    node->unreachable = unreachable;
    node->awaits = 0;
    snprintf(node->why, sizeof(node->why), "%s", why);
    node->why[text_clean(node->why, strlen(node->why), false)] = '\0'; /* it may be the worker's */
}

/* ---- connecting ---- */

static void fabric_node_connect(struct fabric_node *node)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    struct addrinfo *list = NULL;
    char port[8];
    int fd, result;

    node->answer = calloc(1, sizeof(*node->answer));
    snprintf(port, sizeof(port), "%u", node->port);
    result = node->answer ? getaddrinfo(node->host, port, &hints, &list) : EAI_MEMORY;
    if (result) {
        fabric_node_skip(node, false, gai_strerror(result));
        return;
    }
    fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    channel_init(&node->channel, fd, false);
    node->state = NODE_CONNECTS;
    if (fd < 0 || (connect(fd, list->ai_addr, list->ai_addrlen) < 0 && errno != EINPROGRESS))
        fabric_node_skip(node, fd >= 0, strerror(errno));
    freeaddrinfo(list);
}

static void fabric_node_connected(struct fabric_node *node)
{
    int error = 0;
    socklen_t size = sizeof(error);

    getsockopt(node->channel.fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error)
        fabric_node_skip(node, error != ECONNREFUSED, strerror(error));
    else
        node->state = NODE_GREETS;
}

static void fabric_node_named(struct fabric_node *node, const struct fabric_message *message)
{
    node->rails = message->flows;
    node->rate = MIN(message->rate, RATE_MAX); /* what is computed from it fits in 64 bits */
    for (uint32_t i = 0; i < node->rails && i < FABRIC_RAILS; i++)
        memcpy(node->rail[i], message->flow[i].address, sizeof(node->rail[i]));
    node->state = NODE_READY;
    if (!node->rails || node->rails > FABRIC_RAILS)
        fabric_node_skip(node, false, "it has no address to test");
}

/* A message came while the connection is made. */
static void fabric_node_greeted(const struct fabric_run *run, struct fabric_node *node,
                                const struct fabric_message *message)
{
    struct err err = { "" };

    if (message->type == FABRIC_REFUSED && node->channel.session.keyed) {
        fabric_node_skip(node, false, message->text);
    } else if (node->state == NODE_GREETS) { /* anybody may have sent it */
        node->state = NODE_BEGINS;
        if (channel_begin(&node->channel, &run->settings.token, message,
                          time_mono_ns() + CONNECT_NS, &err) < 0)
            fabric_node_skip(node, false, err.text);
    } else if (message->type == FABRIC_NODE) {
        fabric_node_named(node, message);
    }
}

/* ---- messages of all nodes ---- */

static bool fabric_node_waits(const struct fabric_node *node)
{
    return node->awaits || (node->state > NODE_NEW && node->state < NODE_READY);
}

static void fabric_node_message(const struct fabric_run *run, struct fabric_node *node,
                                const struct fabric_message *message)
{
    if (node->state < NODE_READY) {
        fabric_node_greeted(run, node, message);
    } else if (message->type == FABRIC_REFUSED) {
        fabric_node_skip(node, false, message->text);
    } else if (message->type == node->awaits) {
        *node->answer = *message;
        node->awaits = 0;
    }
}

static void fabric_node_readable(const struct fabric_run *run, struct fabric_node *node)
{
    struct fabric_message message;
    struct err err = { "" };
    int result, closed;

    if (node->state == NODE_CONNECTS)
        fabric_node_connected(node);
    if (node->state == NODE_SKIPPED)
        return;
    closed = channel_fill(&node->channel, &err);
    while (node->state != NODE_SKIPPED &&
           (result = channel_next(&node->channel, &message, &err)) != 0) {
        if (result < 0)
            fabric_node_skip(node, false, err.text);
        else
            fabric_node_message(run, node, &message);
    }
    if (closed < 0 && node->state == NODE_BEGINS)
        fabric_node_skip(node, false, "it does not have the same token");
    else if (closed < 0 && node->state != NODE_SKIPPED)
        fabric_node_skip(node, false, err.text);
}

/* One wait for all that still owe an answer.  False: none does, or it is too late.
 *
 * poll() and not base/loop.h: a turn ends at its deadline with whatever has answered, and a node has one descriptor that waits
 * for either a connection or an answer.
 */
static bool fabric_run_turn(struct fabric_run *run, struct pollfd *polls, int64_t until_ns)
{
    nfds_t count = 0;
    int left_ms = time_poll_ms(until_ns, time_mono_ns());

    for (uint32_t i = 0; i < run->nodes; i++) {
        struct fabric_node *node = &run->node[i];
        bool waits = fabric_node_waits(node);

        polls[i] = (struct pollfd){ .fd = waits ? node->channel.fd : -1,
                                    .events = node->state == NODE_CONNECTS ? POLLOUT : POLLIN };
        count += waits;
    }
    if (!count || !left_ms)
        return false;
    if (poll(polls, run->nodes, left_ms) <= 0)
        return true;
    for (uint32_t i = 0; i < run->nodes; i++) {
        if (polls[i].fd >= 0 && polls[i].revents)
            fabric_node_readable(run, &run->node[i]);
    }
    return true;
}

static int fabric_run_collect(struct fabric_run *run, int64_t until_ns)
{
    CLEAN(free_clean) struct pollfd *polls = calloc(run->nodes + 1, sizeof(*polls));

    if (!polls)
        return -ENOMEM;
    while (fabric_run_turn(run, polls, until_ns))
        ;
    for (uint32_t i = 0; i < run->nodes; i++) {
        if (fabric_node_waits(&run->node[i]))
            fabric_node_skip(&run->node[i], true, "no answer in time");
    }
    return 0;
}

int fabric_run_connect(struct fabric_run *run, struct err *err)
{
    int ready = 0;

    for (uint32_t i = 0; i < run->nodes; i++)
        fabric_node_connect(&run->node[i]);
    if (fabric_run_collect(run, time_mono_ns() + CONNECT_NS) < 0)
        return err_nomem(err);
    for (uint32_t i = 0; i < run->nodes; i++)
        ready += run->node[i].state == NODE_READY;
    return ready;
}

/* ---- the plan ---- */

static uint32_t fabric_leaf_of(struct fabric_run *run, const char *name)
{
    uint32_t leaf = 0;

    if (!name[0])
        return SLOW_LINKS_NONE;
    while (leaf < run->shape.leafs && strcmp(run->leaf_name[leaf], name) != 0)
        leaf++;
    if (leaf == run->shape.leafs)
        snprintf(run->leaf_name[run->shape.leafs++], FABRIC_NAME, "%s", name);
    return leaf;
}

int fabric_run_plan(struct fabric_run *run, bool dry)
{
    run->tested = calloc(run->nodes + 1, sizeof(*run->tested));
    run->leaf = calloc(run->nodes + 1, sizeof(*run->leaf));
    run->leaf_name = calloc(run->nodes + 1, sizeof(*run->leaf_name));
    if (!run->tested || !run->leaf || !run->leaf_name)
        return -ENOMEM;
    run->shape = (struct slow_links_shape){ .rails = 1, .leaf = run->leaf };
    for (uint32_t i = 0; i < run->nodes; i++) {
        struct fabric_node *node = &run->node[i];

        if (!dry && node->state != NODE_READY)
            continue;
        run->tested[run->shape.nodes] = i;
        run->leaf[run->shape.nodes++] = fabric_leaf_of(run, node->leaf_name);
        run->shape.rails = MAX(run->shape.rails, node->rails);
    }
    return pair_plan_make(&run->shape, run->settings.full, &run->plan);
}

/* ---- results ---- */

static uint64_t fabric_path_key(uint32_t from, uint32_t to, uint32_t rail)
{
    return (uint64_t)from << 36 | (uint64_t)to << 8 | rail;
}

bool fabric_run_has(const struct fabric_run *run, uint32_t from, uint32_t to)
{
    return map_get(&run->index, fabric_path_key(from, to, 0)) != NULL;
}

size_t fabric_run_missing(const struct fabric_run *run)
{
    size_t missing = 0;

    for (size_t i = 0; i < run->plan.pairs; i++) {
        const struct plan_pair *pair = &run->plan.pair[i];

        missing += !fabric_run_has(run, pair->a, pair->b);
        missing += !fabric_run_has(run, pair->b, pair->a);
    }
    return missing;
}

/* `better`: this try counts, not the one before. */
static int fabric_path_put(struct fabric_run *run, const struct slow_links_path *path,
                           const struct fabric_path *measured, bool better)
{
    uint64_t *at =
        map_put(&run->index, fabric_path_key(path->from, path->to, path->rail), run->paths);
    struct fabric_path *old;

    if (!at)
        return -ENOMEM;
    if (*at == run->paths) {
        if (!ARRAY_FIT(run->path, run->path_room, run->paths + 1) ||
            !ARRAY_FIT(run->measured, run->measured_room, run->paths + 1))
            return -ENOMEM;
        run->path[run->paths] = *path;
        run->measured[run->paths++] = *measured;
        return 0;
    }
    old = &run->measured[*at];
    if (better) {
        uint32_t tries = old->tries, beside = run->path[*at].at;
        double latency_us = old->latency_us;

        run->path[*at] = *path;
        run->path[*at].at = beside; /* it was repeated with those that were beside it first */
        *old = *measured;
        old->tries = tries;
        if (latency_us > 0 && (latency_us < old->latency_us || old->latency_us <= 0))
            old->latency_us = latency_us;
    }
    old->tries++;
    return 0;
}

/* An error that says nothing about the network: somebody else connected first, no memory, no files, no such address. */
static bool fabric_error_is_local(uint32_t error)
{
    return error == EACCES || error == EPROTO || error == EMFILE || error == ENFILE ||
           error == ENOMEM || error == ENOBUFS || error == EADDRNOTAVAIL || error == EADDRINUSE;
}

/* Of one rail: its streams together.  false: nothing is known. */
static bool fabric_pair_rate(const struct fabric_message *sent, const struct fabric_message *got,
                             uint32_t rail, struct fabric_path *ret)
{
    uint64_t foreign = 0;
    bool known = false;

    *ret = (struct fabric_path){ .tries = 1 };
    for (uint32_t i = 0; i < sent->flows && i < got->flows; i++) {
        const struct fabric_flow *out = &sent->flow[i], *in = &got->flow[i];

        if (out->rail != rail || fabric_error_is_local(out->error) ||
            fabric_error_is_local(in->error))
            continue;
        if (sent->tool == FABRIC_PERFTEST)
            in = out; /* the client measures */
        if (!in->error && in->bytes && !in->ns)
            return false; /* all came at once: there is no time to divide by */
        known = true;
        if (in->error == 0 && in->ns)
            ret->gbps += (double)in->bytes * 8 / (double)in->ns;
        else
            ret->error = out->error ? out->error : in->error;
        foreign = MAX(foreign, MAX(out->foreign, in->foreign));
        if (out->latency_ns)
            ret->latency_us = (double)out->latency_ns / 1e3;
    }
    ret->foreign_gbps = (double)foreign / GBPS_BYTES;
    return known;
}

static int fabric_pair_keep(struct fabric_run *run, uint32_t from, uint32_t to, uint32_t at,
                            bool better)
{
    const struct fabric_node *sender = &run->node[run->tested[from]],
                             *receiver = &run->node[run->tested[to]];
    int result = 0;

    for (uint32_t rail = 0; rail < MIN(sender->rails, receiver->rails) && result == 0; rail++) {
        struct slow_links_path path = { .from = from, .to = to, .rail = rail };
        struct fabric_path measured;

        if (!fabric_pair_rate(sender->answer, receiver->answer, rail, &measured))
            continue;
        path.at = at;
        path.rate = measured.gbps > 0 ? measured.gbps + measured.foreign_gbps : 0;
        path.busy = measured.foreign_gbps > BUSY_SHARE * path.rate;
        result = fabric_path_put(run, &path, &measured, better);
    }
    return result;
}

/* ---- a direction of a round ---- */

struct fabric_turn {
    const struct plan_pair *pair;
    size_t count;
    bool back; /* from b to a */
};

static uint32_t fabric_turn_from(const struct fabric_turn *turn, size_t i)
{
    return turn->back ? turn->pair[i].b : turn->pair[i].a;
}

static uint32_t fabric_turn_to(const struct fabric_turn *turn, size_t i)
{
    return turn->back ? turn->pair[i].a : turn->pair[i].b;
}

static void fabric_node_ask(struct fabric_node *node, const struct fabric_message *message,
                            uint16_t awaits)
{
    struct err err = { "" };

    if (node->state != NODE_READY)
        return;
    node->answer->type = 0;
    if (channel_send(&node->channel, message, time_mono_ns() + ANSWER_NS, &err) < 0)
        fabric_node_skip(node, true, err.text);
    else
        node->awaits = awaits;
}

static void fabric_flows_ask(const struct fabric_run *run, const struct fabric_node *sender,
                             const struct fabric_node *receiver, struct fabric_message *ret)
{
    uint32_t rails = MIN(sender->rails, receiver->rails);
    const struct fabric_run_settings *settings = &run->settings;
    double rate = settings->gbps > 0 ? settings->gbps * GBPS_BYTES : (double)sender->rate;

    rate /= settings->streams;
    ret->flows = rails * settings->streams;
    for (uint32_t i = 0; i < ret->flows; i++)
        ret->flow[i] = (struct fabric_flow){ .rail = i % rails };
    ret->tool = settings->tool;
    ret->text[0] = '\0';
    ret->time_ns = settings->time_ns;
    ret->wait_ns = settings->wait_ns;
    ret->pings = settings->pings;
    ret->rate = (uint64_t)rate;
    /* A quarter more than the time takes: the receiver ends it, the sender must not end before. */
    ret->bytes = (uint64_t)(rate * (double)settings->time_ns / 1e9 * 1.25) + 65536;
}

/* That driver and NCCL take before a transfer begins. */
static int64_t fabric_nccl_ns(const struct fabric_run *run)
{
    return run->settings.tool == FABRIC_NCCL ? NCCL_PAIR_START_NS : 0;
}

static int fabric_turn_prepare(struct fabric_run *run, const struct fabric_turn *turn,
                               struct fabric_message *asked)
{
    for (size_t i = 0; i < turn->count; i++) {
        struct fabric_node *sender = &run->node[run->tested[fabric_turn_from(turn, i)]];
        struct fabric_node *receiver = &run->node[run->tested[fabric_turn_to(turn, i)]];

        if (sender->state != NODE_READY || receiver->state != NODE_READY)
            continue;
        fabric_flows_ask(run, sender, receiver, asked);
        asked->type = FABRIC_RECEIVE;
        fabric_node_ask(receiver, asked, FABRIC_READY);
    }
    return fabric_run_collect(run, time_mono_ns() + ANSWER_NS + fabric_nccl_ns(run));
}

static void fabric_turn_start(struct fabric_run *run, const struct fabric_turn *turn,
                              struct fabric_message *asked)
{
    for (size_t i = 0; i < turn->count; i++) {
        struct fabric_node *sender = &run->node[run->tested[fabric_turn_from(turn, i)]];
        struct fabric_node *receiver = &run->node[run->tested[fabric_turn_to(turn, i)]];

        if (sender->state != NODE_READY || receiver->state != NODE_READY ||
            receiver->answer->type != FABRIC_READY)
            continue;
        fabric_flows_ask(run, sender, receiver, asked);
        asked->type = FABRIC_SEND;
        memcpy(asked->text, receiver->answer->text, sizeof(asked->text));
        for (uint32_t f = 0; f < asked->flows && f < receiver->answer->flows; f++) {
            asked->flow[f].port = receiver->answer->flow[f].port;
            memcpy(asked->flow[f].address, receiver->rail[asked->flow[f].rail],
                   sizeof(asked->flow[f].address));
        }
        receiver->answer->type = 0;
        receiver->awaits = FABRIC_DONE;
        fabric_node_ask(sender, asked, FABRIC_DONE);
    }
}

/* The receiver of a sender that could not connect waits for nothing. */
static void fabric_turn_stop(struct fabric_run *run, const struct fabric_turn *turn)
{
    static const struct fabric_message stop = { .type = FABRIC_STOP };

    for (size_t i = 0; i < turn->count; i++) {
        const struct fabric_node *sender = &run->node[run->tested[fabric_turn_from(turn, i)]];
        struct fabric_node *receiver = &run->node[run->tested[fabric_turn_to(turn, i)]];
        bool failed = sender->state == NODE_SKIPPED;

        /* Servers of perftest have nothing to report. */
        failed |= sender->answer->type == FABRIC_DONE && sender->answer->tool == FABRIC_PERFTEST;
        for (uint32_t f = 0; sender->answer->type == FABRIC_DONE && f < sender->answer->flows; f++)
            failed |= sender->answer->flow[f].error != 0;
        if (!failed || receiver->awaits != FABRIC_DONE || receiver->answer->flows == UINT32_MAX)
            continue;
        receiver->answer->flows = UINT32_MAX; /* once */
        channel_send(&receiver->channel, &stop, time_mono_ns() + ANSWER_NS, NULL);
    }
}

static int fabric_turn_collect(struct fabric_run *run, const struct fabric_turn *turn)
{
    CLEAN(free_clean) struct pollfd *polls = calloc(run->nodes + 1, sizeof(*polls));
    int64_t until = time_mono_ns() + 2 * run->settings.wait_ns + run->settings.time_ns + ANSWER_NS +
                    fabric_nccl_ns(run);

    if (run->settings.tool == FABRIC_PERFTEST) /* two programs for each rail, one after the other */
        until += (int64_t)run->shape.rails * 2 *
                 (run->settings.wait_ns + run->settings.time_ns + PERFTEST_NS);

    if (!polls)
        return -ENOMEM;
    while (fabric_run_turn(run, polls, until))
        fabric_turn_stop(run, turn);
    return fabric_run_collect(run, time_mono_ns());
}

static int fabric_turn_run(struct fabric_run *run, const struct fabric_turn *turn, struct err *err)
{
    CLEAN(free_clean) struct fabric_message *asked = calloc(1, sizeof(*asked));
    int result = asked ? fabric_nonce(asked->nonce) : -ENOMEM;

    if (result == 0)
        result = fabric_turn_prepare(run, turn, asked);
    if (result == 0) {
        fabric_turn_start(run, turn, asked);
        result = fabric_turn_collect(run, turn);
    }
    return result < 0 ? err_set(err, result, "a round failed: %s", strerror(-result)) : 0;
}

static bool fabric_turn_done(const struct fabric_run *run, const struct fabric_turn *turn, size_t i)
{
    const struct fabric_node *sender = &run->node[run->tested[fabric_turn_from(turn, i)]];
    const struct fabric_node *receiver = &run->node[run->tested[fabric_turn_to(turn, i)]];

    return sender->state == NODE_READY && receiver->state == NODE_READY &&
           sender->answer->type == FABRIC_DONE && receiver->answer->type == FABRIC_DONE;
}

/* Of a pair on all rails: this time less the time before. */
static double fabric_turn_gain(const struct fabric_run *run, const struct fabric_turn *turn,
                               size_t i)
{
    uint32_t from = fabric_turn_from(turn, i), to = fabric_turn_to(turn, i);
    const struct fabric_node *sender = &run->node[run->tested[from]],
                             *receiver = &run->node[run->tested[to]];
    double gain = 0;

    for (uint32_t rail = 0; rail < MIN(sender->rails, receiver->rails); rail++) {
        const uint64_t *at = map_get(&run->index, fabric_path_key(from, to, rail));
        struct fabric_path measured;

        if (at && fabric_pair_rate(sender->answer, receiver->answer, rail, &measured))
            gain += (measured.gbps > 0 ? measured.gbps + measured.foreign_gbps : 0) -
                    run->path[*at].rate;
    }
    return gain;
}

/* The better of two tries counts.  Between two leafs all pairs share the uplinks, now one more and now another, so they are better
 * or not together: the best of each would hide that the uplink is slow.
 */
static bool fabric_turn_better(const struct fabric_run *run, const struct fabric_turn *turn,
                               size_t i)
{
    uint32_t from = run->leaf[fabric_turn_from(turn, i)], to = run->leaf[fabric_turn_to(turn, i)];
    double gain = 0;

    if (from == to)
        return fabric_turn_gain(run, turn, i) > 0;
    for (size_t k = 0; k < turn->count; k++) {
        if (run->leaf[fabric_turn_from(turn, k)] == from &&
            run->leaf[fabric_turn_to(turn, k)] == to && fabric_turn_done(run, turn, k))
            gain += fabric_turn_gain(run, turn, k);
    }
    return gain > 0;
}

static int fabric_turn_keep(struct fabric_run *run, const struct fabric_turn *turn)
{
    CLEAN(free_clean) bool *better = calloc(turn->count + 1, sizeof(*better));
    int result = better ? 0 : -ENOMEM;

    for (size_t i = 0; better && i < turn->count; i++)
        better[i] = fabric_turn_done(run, turn, i) &&
                    fabric_run_has(run, fabric_turn_from(turn, i), fabric_turn_to(turn, i)) &&
                    fabric_turn_better(run, turn, i);
    for (size_t i = 0; i < turn->count && result == 0; i++) {
        if (fabric_turn_done(run, turn, i))
            result = fabric_pair_keep(run, fabric_turn_from(turn, i), fabric_turn_to(turn, i),
                                      (uint32_t)(2 * run->rounds_done + 1) + turn->back, better[i]);
    }
    return result;
}

int fabric_run_rounds(struct fabric_run *run, const struct pair_plan *plan, size_t first,
                      struct err *err)
{
    int result = 0;

    for (size_t r = first; r < plan->rounds && result == 0; r++) {
        for (int back = 0; back < 2 && result == 0; back++) {
            struct fabric_turn turn = { plan->pair + plan->round[r].first, plan->round[r].count,
                                        back != 0 };

            result = fabric_turn_run(run, &turn, err);
            if (result == 0)
                result = fabric_turn_keep(run, &turn);
        }
        run->rounds_done++;
        if (run->settings.progress)
            run->settings.progress(run->settings.ctx, run->rounds_done,
                                   run->plan.rounds + run->again.rounds);
    }
    return result;
}

int fabric_run_alone(struct fabric_run *run, uint32_t a, uint32_t b, double *ret_gbps,
                     struct err *err)
{
    const struct plan_pair pair = { a, b };
    double slower = 0;

    for (int back = 0; back < 2; back++) {
        struct fabric_turn turn = { &pair, 1, back != 0 };
        struct fabric_path measured;
        int result = fabric_turn_run(run, &turn, err);

        if (result < 0)
            return result;
        if (!fabric_turn_done(run, &turn, 0) ||
            !fabric_pair_rate(run->node[run->tested[fabric_turn_from(&turn, 0)]].answer,
                              run->node[run->tested[fabric_turn_to(&turn, 0)]].answer, 0,
                              &measured))
            return -ENODATA;
        measured.gbps += measured.foreign_gbps;
        slower = back ? MIN(slower, measured.gbps) : measured.gbps;
    }
    *ret_gbps = slower;
    return 0;
}

int fabric_run_measure(struct fabric_run *run, struct err *err)
{
    int result = fabric_run_rounds(run, &run->plan, 0, err);

    return result < 0 ? result : fabric_run_search(run, err);
}
