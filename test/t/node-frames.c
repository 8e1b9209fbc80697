/* node-frames.c - what a node's root daemon sends, and what of it is in a log.
 *
 *   node-frames findings NODE PID FIRST COUNT   findings with these numbers, of class hardware, to stdout
 *   node-frames program NODE PID FIRST COUNT    the same of class app
 *   node-frames limit NODE PID FIRST COUNT      the same of a sensor that saw the limit of a control group, in which the process is
 *   node-frames check NODE STATE FIRST          a health check with that state, of stage idle
 *   node-frames stage NODE STATE FIRST STAGE NAME  the same of a stage and with a name
 *   node-frames owner NODE UID run|pid NAME FIRST  that a run, or a process, of the node belongs to that user
 *   node-frames outcome NODE DECISION FIRST     an outcome of that node
 *   node-frames note FIRST                      a frame that no node may send
 *   node-frames ring NODE RANK PID              a run's agent: hello, and the ring of that rank in a world of two
 *   node-frames list LOG                        each finding in a log: "root" or "user", its code, its ranks
 *   node-frames origins LOG                     likewise: who wrote the line, node, kind, device
 *
 *   node-frames steal NODE OTHER FIRST          a hello of NODE with that number, in the name of node OTHER
 *
 * "program" and "limit" are of other starts of the node's daemon than "findings" and "check", so that each counts by itself.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/log/spools.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/time.h"
#include "wire/decision.h"
#include "wire/finding.h"
#include "wire/spool.h"

#define BOOT UINT64_C(1700000000000000000)

static void put_boot(struct buf *out, uint64_t sender, uint64_t boot, uint64_t number,
                     uint16_t type, struct buf *payload)
{
    const struct frame frame = { .type = type,
                                 .version = FRAME_VERSION,
                                 .sender = sender,
                                 .boot = boot,
                                 .number = number,
                                 .payload = payload->data,
                                 .payload_bytes = payload->size };

    frame_put(out, &frame);
    buf_fini(payload);
}

static void put(struct buf *out, uint64_t sender, uint64_t number, uint16_t type,
                struct buf *payload)
{
    put_boot(out, sender, BOOT, number, type, payload);
}

static uint64_t sender_of(const char *prefix, const char *name)
{
    char whole[128];

    snprintf(whole, sizeof(whole), "%s%s", prefix, name);
    return hash64(0, whole, strlen(whole));
}

static void steal(struct buf *out, char **argv)
{
    struct fact_hello hello = { .kind = SENDER_AGENT, .real_ns = time_real_ns() };
    struct buf payload = { 0 };

    snprintf(hello.node, sizeof(hello.node), "%s", argv[2]);
    fact_hello_put(&payload, &hello);
    put(out, sender_of("node-", argv[3]), strtoull(argv[4], NULL, 10), FRAME_HELLO, &payload);
}

static void findings(struct buf *out, char **argv, unsigned kind, unsigned class)
{
    uint64_t boot = BOOT + (class == FINDING_CLASS_APP) + 2 * (class == FINDING_CLASS_HOST);
    uint64_t first = strtoull(argv[4], NULL, 10), count = strtoull(argv[5], NULL, 10);
    uint64_t sender = sender_of("node-", argv[2]);

    for (uint64_t number = first; number < first + count; number++) {
        struct finding finding = { .mono_ns = time_mono_ns(),
                                   .real_ns = time_real_ns(),
                                   .kind = (uint8_t)kind,
                                   .class = (uint8_t) class,
                                   .severity = FINDING_FATAL,
                                   .origin = class == FINDING_CLASS_HOST ? FINDING_FROM_SENSOR
                                                                         : FINDING_FROM_KERNEL,
                                   .code = (uint32_t)number,
                                   .pid = (uint32_t)strtoul(argv[3], NULL, 10),
                                   .count = 1,
                                   .text = "GPU has fallen off the bus" };
        struct buf payload = { 0 };

        snprintf(finding.node, sizeof(finding.node), "%s", argv[2]);
        finding_identify(&finding);
        finding_put(&payload, &finding);
        put_boot(out, sender, boot, number, FRAME_FINDING, &payload);
    }
}

static uint8_t state_of(const char *name)
{
    uint8_t state = CHECK_OK; /* below it all are called unknown */

    while (state < CHECK_STATE_COUNT && strcmp(check_state_name(state), name) != 0)
        state++;
    return state;
}

static void check(struct buf *out, char **argv, const char *stage, const char *name)
{
    struct check check = { .mono_ns = time_mono_ns(),
                           .real_ns = time_real_ns(),
                           .state = state_of(argv[3]) };
    struct buf payload = { 0 };

    snprintf(check.stage, sizeof(check.stage), "%s", stage);
    snprintf(check.name, sizeof(check.name), "%s", name);
    snprintf(check.node, sizeof(check.node), "%s", argv[2]);
    check_put(&payload, &check);
    put(out, sender_of("node-", argv[2]), strtoull(argv[4], NULL, 10), FRAME_CHECK, &payload);
}

static void owner(struct buf *out, char **argv)
{
    struct environment_pair pair[2] = { { .name = NODE_OWNS_UID } };
    struct environment environment = {
        .mono_ns = time_mono_ns(), .real_ns = time_real_ns(), .count = 2, .pair = pair
    };
    struct buf payload = { 0 };

    snprintf(environment.node, sizeof(environment.node), "%s", argv[2]);
    snprintf(pair[0].value, sizeof(pair[0].value), "%s", argv[3]);
    snprintf(pair[1].name, sizeof(pair[1].name), "%s",
             strcmp(argv[4], "run") == 0 ? NODE_OWNS_RUN : NODE_OWNS_PID);
    snprintf(pair[1].value, sizeof(pair[1].value), "%s", argv[5]);
    environment_put(&payload, &environment);
    put_boot(out, sender_of("node-", argv[2]), BOOT - 1, strtoull(argv[6], NULL, 10),
             FRAME_ENVIRONMENT, &payload);
}

static void outcome(struct buf *out, char **argv)
{
    struct outcome outcome = { .mono_ns = time_mono_ns(),
                               .result = OUTCOME_DONE,
                               .ended_real_ns = time_real_ns(),
                               .step = DECISION_NO_STEP };
    struct buf payload = { 0 };

    snprintf(outcome.part, sizeof(outcome.part), "node %s", argv[2]);
    snprintf(outcome.decision, sizeof(outcome.decision), "%s", argv[3]);
    outcome_put(&payload, &outcome);
    put(out, sender_of("node-", argv[2]), strtoull(argv[4], NULL, 10), FRAME_OUTCOME, &payload);
}

static void ring(struct buf *out, char **argv)
{
    struct fact_hello hello = { .kind = SENDER_AGENT,
                                .mono_ns = time_mono_ns(),
                                .real_ns = time_real_ns() };
    struct fact_ring ring = { .rank = (uint32_t)strtoul(argv[3], NULL, 10),
                              .world = 2,
                              .pid = (uint32_t)strtoul(argv[4], NULL, 10),
                              .open_ns = time_mono_ns() };
    struct buf payload = { 0 };

    snprintf(hello.node, sizeof(hello.node), "%s", argv[2]);
    snprintf(ring.node, sizeof(ring.node), "%s", argv[2]);
    fact_hello_put(&payload, &hello);
    put(out, sender_of("agent-", argv[2]), 2 * (uint64_t)ring.rank, FRAME_HELLO, &payload);
    fact_ring_put(&payload, &ring);
    put(out, sender_of("agent-", argv[2]), 2 * (uint64_t)ring.rank + 1, FRAME_RING, &payload);
}

static void list_origin(const struct frame *frame, const struct finding *finding)
{
    (void)frame;
    printf("%s %s %s %s\n", finding_origin_name(finding->origin), finding->node,
           finding_kind_name(finding->kind), finding->device);
}

static void list_ranks(const struct frame *frame, const struct finding *finding)
{
    printf("%s %" PRIu32, frame->sender == site_sender() ? "root" : "user", finding->code);
    for (uint32_t i = 0; i < MIN(finding->rank_count, FINDING_RANKS); i++)
        printf(" %" PRIu32, finding->rank[i]);
    putchar('\n');
}

static int list(const char *path, void (*print)(const struct frame *, const struct finding *))
{
    struct spool_reader *reader;
    struct frame frame;
    struct err err = { "" };
    struct finding finding;

    if (spool_reader_open(path, &reader, &err) < 0) {
        fprintf(stderr, "node-frames: %s\n", err.text);
        return 2;
    }
    while (spool_next(reader, &frame, &err) == 1) {
        if (frame.type != FRAME_FINDING ||
            finding_get(reader_of(frame.payload, frame.payload_bytes), &finding) < 0)
            continue;
        print(&frame, &finding);
    }
    spool_reader_close(reader);
    return 0;
}

int main(int argc, char **argv)
{
    CLEAN(buf_fini) struct buf out = { 0 };
    struct buf payload = { 0 };

    if (argc == 3 && strcmp(argv[1], "list") == 0)
        return list(argv[2], list_ranks);
    if (argc == 3 && strcmp(argv[1], "origins") == 0)
        return list(argv[2], list_origin);
    if (argc == 6 && strcmp(argv[1], "findings") == 0) {
        findings(&out, argv, FINDING_XID, FINDING_CLASS_HARDWARE);
    } else if (argc == 6 && strcmp(argv[1], "program") == 0) {
        findings(&out, argv, FINDING_SEGFAULT, FINDING_CLASS_APP);
    } else if (argc == 6 && strcmp(argv[1], "limit") == 0) {
        findings(&out, argv, FINDING_OOM, FINDING_CLASS_HOST);
    } else if (argc == 5 && strcmp(argv[1], "check") == 0) {
        check(&out, argv, "idle", "gemm");
    } else if (argc == 7 && strcmp(argv[1], "stage") == 0) {
        check(&out, argv, argv[5], argv[6]);
    } else if (argc == 7 && strcmp(argv[1], "owner") == 0) {
        owner(&out, argv);
    } else if (argc == 5 && strcmp(argv[1], "outcome") == 0) {
        outcome(&out, argv);
    } else if (argc == 5 && strcmp(argv[1], "steal") == 0) {
        steal(&out, argv);
    } else if (argc == 5 && strcmp(argv[1], "ring") == 0) {
        ring(&out, argv);
    } else if (argc == 3 && strcmp(argv[1], "note") == 0) {
        fact_note_put(&payload, &(struct fact_note){ .text = "a note" });
        put(&out, 4711, strtoull(argv[2], NULL, 10), FRAME_NOTE, &payload);
    } else {
        fprintf(stderr,
                "usage: node-frames findings | program | limit NODE PID FIRST COUNT | check NODE "
                "STATE FIRST | note FIRST | ring NODE RANK PID | list LOG | origins LOG\n");
        return 2;
    }
    return fwrite(out.data, 1, out.size, stdout) == out.size ? 0 : 2;
}
