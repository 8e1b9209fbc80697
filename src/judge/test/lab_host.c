/* lab_host.c - the made-up job without devices: the host does each piece of work itself.
 *
 * Its gradient buckets are reduced by threads of its own while it goes on, and are reported to start when
 * they are launched.  It waits for them where a program of this kind does: before the optimizer for all
 * of them, inside backward; and before work that needs the result of one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <assert.h>

#include "core/clean.h"
#include "judge/test/lab_step.h"

struct host {
    struct lab *lab;
    struct lab_rank *at;
    uint32_t rank, item;
    int64_t now_ns;
    bool slept;
};

static void phases_end(struct host *host, int last)
{
    for (int open = 0; open <= last; open++) {
        if (host->at->item[open].shape.kind == ITEM_PHASE && host->at->item[open].last == last)
            host->at->time[open].end_ns = host->now_ns;
    }
}

/* Waits for one op; false: it has not ended yet. */
static bool await(struct host *host, int item)
{
    if (item < 0 || host->at->item[item].shape.kind == ITEM_PHASE)
        return true;
    if (!host->at->done[item])
        return false;
    host->now_ns = MAX(host->now_ns, host->at->time[item].end_ns);
    return true;
}

static bool await_all(struct host *host)
{
    for (uint32_t i = 0; i < host->item; i++) {
        if (!await(host, (int)i))
            return false;
    }
    phases_end(host, (int)host->item - 1); /* what was open waited */
    return true;
}

static bool phase_run(struct host *host, const struct lab_item *item, struct item_time *time)
{
    const struct lab *lab = host->lab;

    if (item->shape.what == LOCKSTEP_PHASE_OPTIMIZER && !await_all(host))
        return false;
    *time = (struct item_time){ host->now_ns, host->now_ns, host->now_ns, -1 };
    if (item->shape.what == LOCKSTEP_PHASE_DATA)
        host->now_ns += lab->config.data_ns;
    if (!host->slept && item->shape.what == lab->fault.sleep_phase) {
        host->now_ns += lab->fault.sleep_ns[host->rank];
        host->slept = true;
    }
    return true;
}

/* Goes on until it has to wait for somebody who has not come; true: it got further. */
static bool host_run(struct host *host)
{
    uint32_t from = host->item;

    for (; host->item < host->at->items; host->item++) {
        const struct lab_item *item = &host->at->item[host->item];
        struct item_time *time = &host->at->time[host->item];

        if (item->shape.kind == ITEM_PHASE) {
            if (!phase_run(host, item, time))
                break;
            host->at->done[host->item] = true;
        } else if (item->shape.kind == ITEM_SPAN) {
            if (!await(host, item->dep[0]) || !await(host, item->dep[1]))
                break;
            host->now_ns += lab_span_ns(host->lab, host->rank, host->item);
            *time = (struct item_time){ host->now_ns, host->now_ns, host->now_ns, -1 };
            host->at->done[host->item] = true;
        } else {
            host->now_ns += host->lab->config.launch_ns;
            *time = (struct item_time){ host->now_ns, host->now_ns, host->now_ns, -1 };
            lab_meet_arrive(host->lab, host->rank, host->item);
        }
        phases_end(host, (int)host->item);
    }
    return host->item > from;
}

/* Nobody tells when a bucket is done: the host sees it when it launches the next, or has waited. */
static void ends_seen(struct lab_rank *at)
{
    for (uint32_t i = 0; i < at->items; i++) {
        int64_t *end = &at->time[i].end_ns;
        uint32_t next = i + 1;

        if (at->item[i].shape.kind != ITEM_COLL || at->item[i].shape.comm >= 0x3000 ||
            at->item[i].shape.comm < 0x2000)
            continue;
        for (; next < at->items; next++) {
            const struct lab_item *item = &at->item[next];
            bool launch = item->shape.comm == at->item[i].shape.comm;

            if (at->time[next].enqueue_ns >= *end &&
                (launch || item->shape.what == LOCKSTEP_PHASE_OPTIMIZER))
                break;
        }
        if (next < at->items && at->item[next].shape.kind == ITEM_COLL)
            *end = at->time[next].enqueue_ns + 20000;
        else if (next < at->items)
            *end = at->time[next].enqueue_ns - 5000;
    }
}

void lab_hosts_run(struct lab *lab, int64_t *end_ns)
{
    struct host host[LAB_RANKS] = { 0 };
    bool moved = true;

    assert(lab->config.pp == 1);
    for (uint32_t rank = 0; rank < lab->world; rank++)
        host[rank] = (struct host){ .lab = lab, .at = &lab->rank[rank], .rank = rank };
    while (moved) {
        moved = false;
        for (uint32_t rank = 0; rank < lab->world; rank++)
            moved = host_run(&host[rank]) || moved;
    }
    for (uint32_t rank = 0; rank < lab->world; rank++) {
        ends_seen(&lab->rank[rank]);
        end_ns[rank] = host[rank].now_ns;
    }
}
