/* inject_net.c - the link of a node becomes slow, or is cut.
 *
 * How slow is reckoned from what the node's ranks sent and received in a step before, so that a step takes as
 * long as was asked for whatever the layout is.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "lab/faults/inject_private.h"
#include "lab/faults/net.h"

struct fault_link_down {
    const struct net *net;
    uint32_t node;
};

/* What came or went over the node's link since it is there, whichever is more; 0: cannot be told. */
static double link_bytes(pid_t pid)
{
    char path[64], line[512];
    double most = 0;

    snprintf(path, sizeof(path), "/proc/%d/net/dev", (int)pid);
    CLEAN(file_clean) FILE *file = fopen(path, "re");

    while (file && fgets(line, sizeof(line), file)) {
        const char *at = strstr(line, "eth0:");
        unsigned long long in, out;

        if (at && sscanf(at, "eth0: %llu %*u %*u %*u %*u %*u %*u %*u %llu", &in, &out) == 2)
            most = (double)MAX(in, out);
    }
    return most;
}

static int link_slow(const struct inject_target *target, struct err *err)
{
    const struct fault *fault = target->fault;
    double step = link_bytes(target->tid[0]) / (double)MAX(target->step, 1u);
    double longer = MAX(fault->factor - 1, 0.01) * target->step_ns / 1e9, rate = step / longer;

    if (step <= 0)
        return err_set(err, -ENODATA, "no data passes the link of node %u", fault->node);
    snprintf(target->method, target->method_room,
             "the link of node %u is limited to %.0f KB/s (tbf)", fault->node, rate / 1e3);
    return net_limit(target->config->net, fault->node, rate, err);
}

static int link_make(const struct inject_target *target, void **state, struct err *err)
{
    const struct fault *fault = target->fault;
    const struct net *net = target->config->net;
    struct fault_link_down *link;
    int result;

    if (!net)
        return err_set(err, -ENODEV, "%s",
                       target->config->net_why ? target->config->net_why
                                               : "the nodes have no network namespaces");
    link = malloc(sizeof(*link));
    if (!link)
        return err_nomem(err);
    *link = (struct fault_link_down){ net, fault->node };
    if (fault->kind->id == FAULT_LINK_DOWN) {
        snprintf(target->method, target->method_room, "the link of node %u is down", fault->node);
        result = net_link_down(net, fault->node, err);
    } else {
        result = link_slow(target, err);
    }
    if (result < 0) {
        free(link);
        return result;
    }
    *state = link;
    return 0;
}

static void link_undo(void *state, const struct inject_target *target)
{
    struct fault_link_down *link = state;

    (void)target;
    net_heal(link->net, link->node);
    free(link);
}

const struct inject_way inject_net = { link_make, NULL, link_undo, NULL };
