/* fabric_run.h - a fabric test: asks the workers of all nodes to measure pairs, round by round, and finds the slow part.
 *
 * After the rounds of the plan those rounds in which something was slow are repeated with the same load, and the better result
 * counts: what was busy for a moment is no fault.  What others send over the same adapters is added to the rate.  Ends of pairs
 * that remain slow are measured with further partners.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_VERIFY_FABRIC_FABRIC_RUN_H
#define LOCKSTEP_VERIFY_FABRIC_FABRIC_RUN_H

#include "core/map.h"
#include "judge/links/slow_links.h"
#include "verify/fabric/channel.h"
#include "verify/fabric/pair_plan.h"

enum fabric_node_state {
    NODE_NEW,
    NODE_CONNECTS,
    NODE_GREETS, /* waits for its nonce */
    NODE_BEGINS, /* waits for its name */
    NODE_READY,
    NODE_SKIPPED,
};

struct fabric_node {
    char host[ADDRESS_HOST];
    uint16_t port;
    char name[ADDRESS_HOST + 8]; /* as it was given */
    char leaf_name[FABRIC_NAME]; /* "": not known */
    enum fabric_node_state state;
    bool unreachable; /* skipped because nothing came back, not because it refused */
    char why[200];    /* it is skipped */
    struct fabric_channel channel;
    char rail[FABRIC_RAILS][ADDRESS_NUMBER];
    uint32_t rails;
    uint64_t rate; /* its own limit, bytes a second */
    uint16_t awaits;
    struct fabric_message *answer;
};

struct fabric_path {
    double gbps, foreign_gbps, latency_us; /* latency: 0: not measured */
    uint32_t tries, error;
};

struct fabric_run_settings {
    struct token token;
    int64_t time_ns, wait_ns;
    double gbps;     /* of an adapter, at most; 0: as fast as the nodes allow */
    double expected; /* Gbit/s at least; 0: not known */
    uint32_t streams, pings;
    bool full;
    uint32_t tool; /* enum fabric_tool */
    void (*progress)(void *ctx, size_t round, size_t rounds);
    void *ctx;
};

struct fabric_run {
    struct fabric_run_settings settings;
    struct fabric_node *node;
    uint32_t nodes, node_room;
    uint32_t *tested; /* places in node[] of those that answer; paths count these */
    uint32_t *leaf;   /* of each of them */
    char (*leaf_name)[FABRIC_NAME];
    struct slow_links_shape shape;
    struct slow_links_path *path;
    struct fabric_path *measured; /* of each path */
    size_t paths, path_room, measured_room;
    struct map index; /* path -> place */
    struct pair_plan plan, again;
    struct slow_links_result found;
    double alone_gbps;   /* one pair between leafs by itself; 0: was not needed */
    bool oversubscribed; /* between leafs is slower only when all send at once */
    bool too_many;       /* faults: what is normal here is not clear */
    size_t rounds_done;
};

/* `nodes`: "host[:port]", as address_parse() takes it.  The run owns what it copies. */
int fabric_run_init(struct fabric_run *run, const struct fabric_run_settings *settings);
void fabric_run_fini(struct fabric_run *run);
int fabric_run_add(struct fabric_run *run, const char *host, uint16_t port, const char *leaf);

/* Connects to all; nodes that do not answer are skipped.  Returns how many answered. */
int fabric_run_connect(struct fabric_run *run, struct err *err);
/* Without workers: a plan of all nodes, for a dry run. */
int fabric_run_plan(struct fabric_run *run, bool dry);
int fabric_run_measure(struct fabric_run *run, struct err *err);

/* ---- the parts of a run, for fabric_search.c ---- */
int fabric_run_rounds(struct fabric_run *run, const struct pair_plan *plan, size_t first,
                      struct err *err);
/* Both directions of one pair by itself, not kept: the slower rate in Gbit/s. */
int fabric_run_alone(struct fabric_run *run, uint32_t a, uint32_t b, double *ret_gbps,
                     struct err *err);
bool fabric_run_has(const struct fabric_run *run, uint32_t from, uint32_t to);
size_t fabric_run_missing(
    const struct fabric_run *run); /* transfers of the plan without a result */
int fabric_run_search(struct fabric_run *run, struct err *err);
const char *fabric_run_name(const struct fabric_run *run, uint32_t tested);

#endif
