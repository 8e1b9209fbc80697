/* agent_traffic.c - one entry per agent; the controller's own frames only supply the time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/index/agent_traffic.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/log/spools.h"
#include "core/clean.h"

void traffic_fini(struct traffic *traffic)
{
    map_fini(&traffic->place);
    free(traffic->agent);
    *traffic = (struct traffic){ 0 };
}

struct traffic_agent *traffic_agent(struct traffic *traffic, uint64_t sender)
{
    uint64_t *place = map_put(&traffic->place, sender, traffic->count);

    if (!place)
        return NULL;
    if (*place < traffic->count)
        return &traffic->agent[*place];
    if (!ARRAY_FIT(traffic->agent, traffic->room, traffic->count + 1))
        return NULL;
    traffic->agent[traffic->count] = (struct traffic_agent){ .sender = sender };
    return &traffic->agent[traffic->count++];
}

static void take_traffic(struct traffic_agent *agent, const struct frame *frame, struct reader in)
{
    const struct fact_traffic *before = &agent->now;
    struct fact_traffic fact;
    bool same = agent->has_traffic && agent->boot == frame->boot;
    int64_t ns;

    if (fact_traffic_get(in, &fact) < 0 || (same && fact.mono_ns <= before->mono_ns))
        return; /* a log may be read again from some way back */
    same = same && fact.bytes >= before->bytes;
    ns = fact.mono_ns - (same ? before->mono_ns : fact.since_ns);
    if (ns > 0)
        agent->bytes_per_second =
            (double)(fact.bytes - (same ? before->bytes : 0)) * 1e9 / (double)ns;
    agent->now = fact;
    agent->boot = frame->boot;
    agent->has_traffic = true;
}

int traffic_frame(struct traffic *traffic, const struct frame *frame)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    struct traffic_agent *agent;
    struct fact_hello hello;
    struct fact_tick tick;

    if (frame->sender == control_sender()) {
        if (frame->type == FRAME_TICK && fact_tick_get(in, &tick) == 0)
            traffic->tick_real_ns = tick.real_ns;
        return 0;
    }
    if (frame->type == FRAME_RUN) /* a launcher's: it is no agent */
        return 0;
    agent = traffic_agent(traffic, frame->sender);
    if (!agent)
        return -ENOMEM;
    if (frame->type == FRAME_HELLO && fact_hello_get(in, &hello) == 0 && hello.kind == SENDER_AGENT)
        memcpy(agent->node, hello.node, sizeof(agent->node));
    else if (frame->type == FRAME_TRAFFIC)
        take_traffic(agent, frame, in);
    agent->newest_real_ns = traffic->tick_real_ns;
    agent->changed = true;
    return 0;
}
