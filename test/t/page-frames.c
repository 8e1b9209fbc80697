/* page-frames.c - the facts of a job that never ran, for the page: any number of ranks, one of them slow, any names.
 *
 *   page-frames RUN RANKS STEPS SLOW-RANK NODE COMMAND PREFIX [crash]
 *
 * Writes bodies of frames to PREFIX.0, PREFIX.1 and so on, each small enough for one request.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/clean.h"
#include "core/time.h"
#include "lockstep/probe.h"
#include "wire/facts.h"
#include "wire/finding.h"
#include "wire/frame.h"

#define BODY_MAX (6u << 20)
#define NODE_RANKS 64
#define STEP_NS (100 * NS_PER_MS)

static struct buf body;
static const char *prefix;
static unsigned bodies;
static uint64_t number[8192];
static int64_t boot_ns;

static void flush(void)
{
    char path[512];
    FILE *file;

    if (!body.size)
        return;
    snprintf(path, sizeof(path), "%s.%u", prefix, bodies++);
    file = fopen(path, "we");
    if (!file || fwrite(body.data, 1, body.size, file) != body.size || fclose(file) != 0)
        exit(2);
    body.size = 0;
}

static void put(uint32_t sender, uint16_t type, struct buf *payload)
{
    const struct frame frame = { .type = type,
                                 .version = FRAME_VERSION,
                                 .sender = 1000 + sender,
                                 .boot = (uint64_t)boot_ns,
                                 .number = number[sender]++,
                                 .payload = payload->data,
                                 .payload_bytes = payload->size };

    frame_put(&body, &frame);
    payload->size = 0;
    if (body.size > BODY_MAX)
        flush();
}

static void put_hello(uint32_t sender, unsigned kind, const char *run, const char *node)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct fact_hello hello = { .kind = (uint8_t)kind, .mono_ns = 1, .real_ns = boot_ns + 1 };

    snprintf(hello.run, sizeof(hello.run), "%s", run);
    snprintf(hello.node, sizeof(hello.node), "%s", node);
    strcpy(hello.version, "test");
    fact_hello_put(&payload, &hello);
    put(sender, FRAME_HELLO, &payload);
}

static void put_run(unsigned event, uint32_t ranks, const char *command)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct fact_run run = {
        .event = (uint8_t)event, .ranks = ranks, .culprit = -1, .mono_ns = 2, .real_ns = boot_ns + 2
    };

    snprintf(run.text, sizeof(run.text), "%s", command);
    fact_run_put(&payload, &run);
    put(0, FRAME_RUN, &payload);
}

static void put_rank(uint32_t rank, uint32_t ranks, const char *node)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct fact_ring ring = {
        .rank = rank, .world = ranks, .ring = rank, .pid = 100 + rank, .open_ns = 3
    };
    struct fact_comm comm = { .rank = rank, .id = 77, .size = ranks, .index = rank, .kind = 1 };

    snprintf(ring.node, sizeof(ring.node), "%s", node);
    fact_ring_put(&payload, &ring);
    put(1 + rank / NODE_RANKS, FRAME_RING, &payload);
    strcpy(comm.name, "world");
    fact_comm_put(&payload, &comm);
    put(1 + rank / NODE_RANKS, FRAME_COMM, &payload);
}

/* Work on the device, then an all-reduce in which all wait for the slow one. */
static void put_step(uint32_t rank, uint64_t step, bool is_slow, const struct fact_shape *shape)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    int64_t slow_ns = step >= 8 ? 40 * NS_PER_MS : 0, jitter_ns = (int64_t)(rank % 7) * 20000,
            work_ns = 80 * NS_PER_MS + jitter_ns + (is_slow ? slow_ns : 0),
            end_ns = 90 * NS_PER_MS + slow_ns;
    struct item_time time[3] = {
        { .start_ns = 0, .end_ns = work_ns },
        { .enqueue_ns = 1000, .start_ns = 2000, .end_ns = work_ns },
        { .enqueue_ns = 2000, .start_ns = work_ns, .end_ns = end_ns },
    };
    struct fact_step fact = { .rank = rank,
                              .ring = rank,
                              .step = step,
                              .shape = shape->hash,
                              .begin_ns = NS_PER_S + (int64_t)step * (STEP_NS + 45 * NS_PER_MS),
                              .duration_ns = end_ns,
                              .count = 3,
                              .time = time,
                              .metric_set = 1u << LOCKSTEP_METRIC_LOSS };

    fact.metric[LOCKSTEP_METRIC_LOSS] = 4.0 / (1.0 + (double)step);
    fact_step_put(&payload, &fact, shape);
    put(1 + rank / NODE_RANKS, FRAME_STEP, &payload);
}

/* A finding and a failed check of the first node, with the node's name in their texts. */
static void put_node_facts(const char *node)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct finding finding = { .mono_ns = 4,
                               .real_ns = boot_ns + 4,
                               .kind = FINDING_XID,
                               .class = FINDING_CLASS_HARDWARE,
                               .severity = FINDING_ERROR,
                               .origin = FINDING_FROM_KERNEL,
                               .code = 79,
                               .count = 1 };
    struct check check = { .mono_ns = 5,
                           .real_ns = boot_ns + 5,
                           .state = CHECK_FAILED,
                           .name = "memory",
                           .stage = "prolog",
                           .has_value = true,
                           .value = 1.5,
                           .unit = "GB/s" };

    snprintf(finding.node, sizeof(finding.node), "%s", node);
    strcpy(finding.device, "GPU 3");
    snprintf(finding.text, sizeof(finding.text), "the GPU of %s has fallen off the bus", node);
    finding_identify(&finding);
    finding_put(&payload, &finding);
    put(1, FRAME_FINDING, &payload);
    snprintf(check.node, sizeof(check.node), "%s", node);
    snprintf(check.why, sizeof(check.why), "slower than the other GPUs of %s", node);
    check_put(&payload, &check);
    put(1, FRAME_CHECK, &payload);
}

/* All ranks have verified a checkpoint; then the first one is killed. */
static void put_crash(uint32_t ranks, uint64_t step)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    int64_t now_ns = NS_PER_S + (int64_t)step * (STEP_NS + 45 * NS_PER_MS);
    struct fact_exit end = { .mono_ns = now_ns + NS_PER_MS, .status = 9 };

    for (uint32_t rank = 0; rank < ranks; rank++) {
        struct fact_note note = { .rank = rank, .step = step, .mono_ns = now_ns };

        strcpy(note.text, "checkpoint of step 5 is verified, saved in step 5");
        fact_note_put(&payload, &note);
        put(1 + rank / NODE_RANKS, FRAME_NOTE, &payload);
    }
    strcpy(end.text, "killed by signal 9 (SIGKILL)");
    fact_exit_put(&payload, &end);
    put(0, FRAME_EXIT, &payload);
}

int main(int argc, char **argv)
{
    static struct shape_item item[3] = {
        { .kind = ITEM_PHASE, .what = LOCKSTEP_PHASE_FORWARD, .count = 1 },
        { .kind = ITEM_SPAN, .what = LOCKSTEP_PHASE_FORWARD, .stream = 1, .count = 1 },
        { .kind = ITEM_COLL,
          .what = LOCKSTEP_OP_ALL_REDUCE,
          .stream = 2,
          .count = 1,
          .comm = 77,
          .bytes = 1 << 20 },
    };
    struct fact_shape shape = { .count = 3, .item = item };
    CLEAN(buf_fini) struct buf payload = { 0 };
    uint32_t ranks, steps, slow;
    char node[64];

    if (argc != 8 && argc != 9)
        return 2;
    ranks = (uint32_t)atoi(argv[2]);
    steps = (uint32_t)atoi(argv[3]);
    slow = (uint32_t)atoi(argv[4]);
    prefix = argv[7];
    boot_ns = (time(NULL) - 60) * NS_PER_S;
    shape_hash(&shape);
    put_hello(0, SENDER_LAUNCHER, argv[1], "launcher");
    put_run(RUN_BEGIN, ranks, argv[6]);
    put_run(RUN_ATTEMPT_BEGIN, ranks, "");
    for (uint32_t rank = 0; rank < ranks; rank++) {
        snprintf(node, sizeof(node), "%s%u", argv[5], rank / NODE_RANKS);
        if (rank % NODE_RANKS == 0) {
            put_hello(1 + rank / NODE_RANKS, SENDER_AGENT, argv[1], node);
            fact_shape_put(&payload, &shape);
            put(1 + rank / NODE_RANKS, FRAME_SHAPE, &payload);
        }
        put_rank(rank, ranks, node);
    }
    snprintf(node, sizeof(node), "%s0", argv[5]);
    put_node_facts(node);
    for (uint64_t step = 0; step < steps; step++) {
        for (uint32_t rank = 0; rank < ranks; rank++)
            put_step(rank, step, rank == slow, &shape);
    }
    if (argc == 9)
        put_crash(ranks, steps);
    flush();
    buf_fini(&body);
    printf("%u\n", bodies);
    return 0;
}
