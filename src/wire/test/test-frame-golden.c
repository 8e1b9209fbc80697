/* test-frame-golden.c - the frames' format cannot change unnoticed.
 *
 * test-frame-golden BIN...             the bytes are made again as they are, and read as they were
 * test-frame-golden --make NUMBER BIN  writes the file of that number (0 the first; old files stay as they are)
 *
 * Types and fields that came after the first version have files of their own.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "wire/decision.h"
#include "wire/facts.h"
#include "wire/finding.h"
#include "wire/frame.h"
#include "wire/member.h"
#include "wire/verdict.h"

#define MONO INT64_C(81985529216486895)
#define REAL INT64_C(1772361727123456789)
#define BOOT UINT64_C(0x1122334455667788)
#define SENDER UINT64_C(0xa1a2a3a4a5a6a7a8)
#define ROOM 16384

static const struct fact_hello hello = { .kind = SENDER_AGENT,
                                         .run = "r1",
                                         .node = "n1",
                                         .version = "0.1.0",
                                         .mono_ns = MONO,
                                         .real_ns = REAL };
static const struct fact_ring ring = {
    .rank = 5,
    .world = 8,
    .attempt = 1,
    .ring = 2,
    .pid = 4711,
    .node = "n1",
    .open_ns = MONO,
    .has_layout = true,
    .layout = { 2, 2, 2, 1, 1, 1, 0, 1, 0, 0 },
};
static const struct fact_comm comm = { .rank = 5,
                                       .attempt = 1,
                                       .id = 0xfedcba9876543210,
                                       .size = 4,
                                       .index = 3,
                                       .kind = 2,
                                       .name = "dp" };
static struct shape_item items[] = {
    { .kind = ITEM_PHASE, .what = 2, .count = 1 },
    { .kind = ITEM_SPAN, .what = 2, .stream = 1, .count = 1 },
    { .kind = ITEM_COLL, .what = 1, .stream = 2, .count = 4, .comm = 9, .bytes = 1 << 20 },
    { .kind = ITEM_P2P, .what = 9, .stream = 3, .peer = 6, .count = 1, .comm = 10, .bytes = 960 },
};
static struct item_time times[] = {
    { 1000, 1000, 250000, -1 },
    { 2000, 30000, 45000000, -1 },
    { 50000, 46000000, 99000000, 12000000 },
    { 60000, 47000000, 48000000, -1 },
};
static const struct fact_beat beat = {
    .rank = 5,
    .attempt = 1,
    .ring = 2,
    .mono_ns = MONO,
    .state = 'S',
    .phase = 3,
    .phase_age_ns = 1000000,
    .step = 41,
    .step_age_ns = 2000000,
    .advanced = true,
    .cpu_ns = 5000000000,
    .run_delay_ns = 6000000,
    .throttled_ns = 7000000,
    .dropped = 8,
    .ops = 1,
    .op = { { .stream = 2,
              .kind = ITEM_COLL,
              .what = 1,
              .comm = 9,
              .key = 77,
              .age_ns = 1500000,
              .started = true } },
};
/* And with the types of the elements. */
static struct shape_item items_typed[] = {
    { .kind = ITEM_PHASE, .what = 2, .count = 1 },
    { .kind = ITEM_COLL, .what = 1, .stream = 2, .count = 4, .dtype = 2, .comm = 9, .bytes = 960 },
    { .kind = ITEM_P2P, .what = 11, .count = 1, .peer = 6, .dtype = 10, .comm = 10, .bytes = 64 },
};
static const struct fact_beat beat_typed = {
    .rank = 5,
    .state = 'S',
    .ops = 2,
    .op = { { .kind = ITEM_COLL, .what = 1, .dtype = 1, .comm = 9, .key = 77, .queued_ns = 5 },
            { .kind = ITEM_P2P, .what = 11, .dtype = 2, .comm = 9, .key = 78, .queued_ns = 6 } },
    .storage = { { 9, 7 }, { 2, 1 } },
};
/* As above with what was appended later. */
static const struct fact_beat beat_more = {
    .rank = 5,
    .attempt = 1,
    .ring = 2,
    .mono_ns = MONO,
    .state = 'T',
    .phase = 4,
    .phase_age_ns = 1000000,
    .step = 41,
    .step_age_ns = 2000000,
    .ops = 1,
    .op = { { .stream = 2,
              .kind = ITEM_P2P,
              .what = 12,
              .comm = 9,
              .key = 77,
              .age_ns = 11500000000,
              .started = true,
              .bytes = 4096,
              .peer = 3,
              .ordinal = 19 } },
    .phases = 0x210,
    .oom_kills = 1,
    .channels = 2,
    .channel = { { .comm = 9, .what = 12, .peer = 3, .enqueued = 20, .started = 20, .ended = 19 },
                 { .comm = 7, .enqueued = 12, .started = 11, .ended = 11 } },
};
static const struct fact_exit exited_more = { .rank = 3,
                                              .attempt = 1,
                                              .mono_ns = MONO,
                                              .status = 256,
                                              .text = "exited with 1",
                                              .words = "ValueError: loss is not finite" };
static const struct fact_stack stack = { .rank = 3,
                                         .attempt = 1,
                                         .mono_ns = MONO,
                                         .state = 'D',
                                         .channel = "folio_wait_bit",
                                         .kernel = "folio_wait_bit\nfilemap_read",
                                         .native = "read\nload_batch",
                                         .python = "load (train.py:12)\nmain (train.py:40)",
                                         .why_not = "" };
static const struct fact_exit exited = { .rank = 3,
                                         .attempt = 1,
                                         .mono_ns = MONO,
                                         .status = 9,
                                         .ended_by_launcher = false,
                                         .text = "killed by signal 9 (SIGKILL)" };
static const struct fact_gap gap = {
    .rank = 3, .attempt = 1, .ring = 2, .records = 4096, .step_from = 40, .step_to = 42
};
static const struct fact_note note = {
    .rank = 3, .attempt = 1, .step = 41, .mono_ns = MONO, .text = "loss is not a number"
};
static const struct fact_run run = { .event = RUN_ATTEMPT_END,
                                     .attempt = 1,
                                     .ranks = 8,
                                     .culprit = 3,
                                     .status = 137,
                                     .mono_ns = MONO,
                                     .real_ns = REAL,
                                     .text = "rank 3: killed" };
static const struct fact_tick tick = { .mono_ns = MONO, .real_ns = REAL, .flags = TICK_LAST };
static struct merged_rank merged_ranks[] = { { 64, 90000000, 1000000 }, { 63, 91000000, 0 } };
static const struct fact_merged merged = {
    .attempt = 1,
    .step_from = 40,
    .step_to = 103,
    .steps = 64,
    .dropped = 130,
    .begin_real_ns = REAL,
    .duration_ns = 120000000,
    .median_ns = 90500000,
    .ranks = COUNT(merged_ranks),
    .rank = merged_ranks,
};
static const struct fact_setting setting = {
    .real_ns = REAL, .value = 0.025, .name = "straggler.cost-share", .who = "admin"
};
static const struct ledger ledger = {
    .ranks = 8,
    .wall_seconds = 100.5,
    .gpu_seconds = { 600, 90, 20, 30, 4, 5, 6, 7, 8, 9, 10, 15 },
    .steps = 1000,
    .unfit_steps = 2,
    .host_view = true,
};

static const struct ledger ledger_more = {
    .ranks = 8,
    .wall_seconds = 100.5,
    .gpu_seconds = { 600, 90, 20, 30, 4, 5, 6, 7, 8, 9, 10, 15, [LEDGER_DOWN] = 77.5 },
    .steps = 1000,
};
static const struct places places = {
    .mono_ns = MONO, .real_ns = REAL, .allocated = 72, .spare = 4, .down = 8
};
static const struct outcome outcome = { .mono_ns = MONO,
                                        .decision = "d-0123456789abcdef",
                                        .part = "rank 3",
                                        .result = OUTCOME_PAST,
                                        .began_real_ns = REAL,
                                        .ended_real_ns = REAL + 5,
                                        .step = 412,
                                        .text = "step 410 was over" };
static const struct check check = { .mono_ns = MONO,
                                    .real_ns = REAL,
                                    .state = CHECK_LIMITED,
                                    .node = "n1",
                                    .device = "GPU 3",
                                    .stage = "prolog",
                                    .name = "gemm",
                                    .has_value = true,
                                    .has_expected = true,
                                    .value = 610.5,
                                    .expected = 700,
                                    .unit = "TFLOPS",
                                    .why = "clocks are limited by power",
                                    .seconds = 2.25 };
static struct environment_pair pairs[] = { { "NCCL_ALGO", "Ring", false },
                                           { "SECRET", "0011223344556677", true } };
static const struct environment environment = { .mono_ns = MONO,
                                                .real_ns = REAL,
                                                .rank = 5,
                                                .attempt = 1,
                                                .node = "n1",
                                                .count = COUNT(pairs),
                                                .pair = pairs };

static struct finding make_finding(void)
{
    struct finding finding = {
        .mono_ns = MONO,
        .real_ns = REAL,
        .error_ns = 1000000,
        .kind = FINDING_XID,
        .class = FINDING_CLASS_HARDWARE,
        .severity = FINDING_FATAL,
        .origin = FINDING_FROM_KERNEL,
        .action = ACTION_RESET_GPU,
        .code = 79,
        .pid = 4711,
        .count = 2,
        .node = "n1",
        .device = "0000:3b:00.0",
        .text = "GPU has fallen off the bus",
        .raw = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, GPU has fallen off the bus.",
        .rank_count = 2,
        .rank = { 5, 6 },
    };

    finding_identify(&finding);
    return finding;
}

static struct request make_request(void)
{
    struct request request = { .mono_ns = MONO,
                               .real_ns = REAL,
                               .kind = REQUEST_DEPTH,
                               .argument = 2,
                               .of = "d-0123456789abcdef",
                               .who = "admin",
                               .text = "show every op" };

    request_identify(&request);
    return request;
}

static struct decision make_decision(void)
{
    struct decision decision = { .of = "ha-00112233",
                                 .action = ACTION_RESTART_WITHOUT,
                                 .state = DECISION_ORDERED,
                                 .target = TARGET_NODES,
                                 .attempt = 1,
                                 .rank_count = 2,
                                 .rank = { 5, 6 },
                                 .node_count = 1,
                                 .node = { "n2" },
                                 .step = 410,
                                 .argument = -3,
                                 .decided_real_ns = REAL,
                                 .deadline_real_ns = REAL + 60,
                                 .saves_gpu_seconds = 812.5,
                                 .costs_gpu_seconds = 90.25,
                                 .why = "rank 5 hangs in an all-reduce" };

    decision_identify(&decision, "r1");
    return decision;
}

static struct decision make_start(void)
{
    struct decision decision = { .action = ACTION_START,
                                 .state = DECISION_ORDERED,
                                 .target = TARGET_NODES,
                                 .attempt = 2,
                                 .node_count = 2,
                                 .node = { "n1", "n10" },
                                 .step = DECISION_NO_STEP,
                                 .decided_real_ns = REAL,
                                 .why = "2 of 2 nodes, 8 ranks",
                                 .start = { .host = "10.1.0.1",
                                            .port = 29500,
                                            .world = 8,
                                            .first = { 0, 4 },
                                            .life = { 77, 78 },
                                            .spare = 4,
                                            .down = 2,
                                            .clock_ns = REAL - MONO,
                                            .resume = 400 } };

    decision_identify(&decision, "r1");
    return decision;
}

static const struct member member = { .mono_ns = MONO,
                                      .real_ns = REAL,
                                      .node = "n10",
                                      .host = "10.1.0.10",
                                      .port = 29501,
                                      .life = 78,
                                      .state = MEMBER_FAILING,
                                      .news = true,
                                      .attempt = 2,
                                      .culprit = 5,
                                      .status = 137,
                                      .ranks = 4,
                                      .nodes_min = 1,
                                      .nodes_max = 2,
                                      .max_restarts = 3,
                                      .resume = 400,
                                      .lease_ns = 10000000000,
                                      .join_ns = 600000000000,
                                      .backoff_ns = 1000000000 };

static struct fact_shape make_shape(void)
{
    struct fact_shape shape = { .count = COUNT(items), .item = items };

    shape_hash(&shape);
    return shape;
}

static struct fact_step make_step(const struct fact_shape *shape)
{
    return (struct fact_step){
        .rank = 5,
        .attempt = 1,
        .ring = 2,
        .step = 41,
        .shape = shape->hash,
        .begin_ns = MONO,
        .duration_ns = 100000000,
        .tail_ns = 1000000,
        .flags = STEP_UNFINISHED | STEP_SPLIT,
        .cpu_ns = 90000000,
        .run_delay_ns = 1000,
        .throttled_ns = 2000,
        .major_faults = 3,
        .metric_set = 1u << 1 | 1u << 4,
        .metric = { [1] = 2.5, [4] = 4096 },
        .digest_parts = 2,
        .digest_part = 1,
        .digest = { 0x1234, 0x5678 },
        .count = COUNT(items),
        .time = times,
    };
}

static struct verdict make_verdict(void)
{
    struct verdict verdict = {
        .run = "r1",
        .kind = VERDICT_STRAGGLER,
        .layer = LAYER_POWER,
        .cause = "power brake",
        .rank_count = 2,
        .rank = { 5, 6 },
        .node_count = 1,
        .node = { "n2" },
        .device = "GPU 1",
        .group = "dp",
        .confidence = 0.97,
        .since_step = 241,
        .decided_step = 246,
        .since_real_ns = REAL,
        .decided_real_ns = REAL + 1,
        .until_real_ns = REAL + 2,
        .seconds_per_step = 0.041,
        .gpu_seconds = 812.4,
        .echo_count = 1,
        .echo = { { .what = "rank 2: connection reset", .source = "launcher" } },
        .plan = "drain n2",
        .plan_state = "dry-run",
    };

    verdict_because(&verdict, "ring", "compute 34.1 ms, median of 7 peers 12.0 ms");
    verdict_rule_out(&verdict, LAYER_DATA, "input wait 0.2 ms, as its peers");
    verdict_identify(&verdict);
    return verdict;
}

static struct compaction_origin compaction_origin[] = {
    { 0x1122334455667788, 0x99, 1000000, 999000 }, { 0x8877665544332211, 0x77, 3, 0 }
};
static const struct fact_compaction compaction = { .kind = COMPACTION_COMPLETE,
                                                   .count = 2,
                                                   .origin = compaction_origin };

static const struct fact_traffic traffic = { .mono_ns = MONO + 9,
                                             .since_ns = MONO,
                                             .bodies = 12,
                                             .frames = 345,
                                             .steps = 300,
                                             .bytes = 307200,
                                             .wire_bytes = 310000,
                                             .failures = 2,
                                             .refused = 1,
                                             .backlog_bytes = 4096,
                                             .spool_bytes = 400000 };

static const struct fact_method method = { .rank = 5,
                                           .attempt = 1,
                                           .step = 240,
                                           .mono_ns = MONO + 10,
                                           .comm = 0x1234567890abcdef,
                                           .op = LOCKSTEP_OP_ALL_REDUCE,
                                           .bytes = 26214400,
                                           .channels = 16,
                                           .text = "RING/SIMPLE" };

/* What a node knows, and what is done. */
static void put_act(struct buf *out, uint16_t type)
{
    struct finding finding = make_finding();
    struct request request = make_request();
    struct decision decision = make_decision();

    switch (type) {
    case FRAME_FINDING:
        return finding_put(out, &finding);
    case FRAME_DECISION:
        return decision_put(out, &decision);
    case FRAME_OUTCOME:
        return outcome_put(out, &outcome);
    case FRAME_PLACES:
        return places_put(out, &places);
    case FRAME_CHECK:
        return check_put(out, &check);
    case FRAME_ENVIRONMENT:
        return environment_put(out, &environment);
    case FRAME_REQUEST:
        return request_put(out, &request);
    case FRAME_MEMBER:
        return member_put(out, &member);
    default:
        abort(); /* a new type needs its frame here */
    }
}

static void put_payload(struct buf *out, uint16_t type)
{
    struct fact_shape shape = make_shape();
    struct fact_step step = make_step(&shape);
    struct verdict verdict = make_verdict();

    switch (type) {
    case FRAME_HELLO:
        return fact_hello_put(out, &hello);
    case FRAME_RING:
        return fact_ring_put(out, &ring);
    case FRAME_COMM:
        return fact_comm_put(out, &comm);
    case FRAME_SHAPE:
        return fact_shape_put(out, &shape);
    case FRAME_STEP:
        return fact_step_put(out, &step, &shape);
    case FRAME_BEAT:
        return fact_beat_put(out, &beat);
    case FRAME_EXIT:
        return fact_exit_put(out, &exited);
    case FRAME_GAP:
        return fact_gap_put(out, &gap);
    case FRAME_NOTE:
        return fact_note_put(out, &note);
    case FRAME_RUN:
        return fact_run_put(out, &run);
    case FRAME_TICK:
        return fact_tick_put(out, &tick);
    case FRAME_VERDICT:
        return verdict_put(out, &verdict);
    case FRAME_LEDGER:
        return ledger_put(out, &ledger);
    case FRAME_MERGED:
        return fact_merged_put(out, &merged);
    case FRAME_COMPACTION:
        return fact_compaction_put(out, &compaction);
    case FRAME_SETTING:
        return fact_setting_put(out, &setting);
    case FRAME_STACK:
        return fact_stack_put(out, &stack);
    case FRAME_TRAFFIC:
        return fact_traffic_put(out, &traffic);
    case FRAME_METHOD:
        return fact_method_put(out, &method);
    default:
        return put_act(out, type);
    }
}

#define TYPED_FILE 5
#define CREW_FILE 9
#define QUORUM_FILE 10
#define LIFE_FILE 11

static struct fact_shape shape_of(int file)
{
    struct fact_shape typed = { .count = COUNT(items_typed), .item = items_typed };

    if (file != TYPED_FILE)
        return make_shape();
    shape_hash(&typed);
    return typed;
}

/* The file of types that came later, and of what was appended to older ones. */
static void put_later(struct buf *out, uint16_t type, int file)
{
    struct fact_shape shape = shape_of(file);
    struct decision start = make_start();
    struct member voter = member, living = member;

    voter.quorum = 2;
    snprintf(living.life_host, sizeof(living.life_host), "192.0.2.7");
    living.life_port = 40007;
    switch (type) {
    case FRAME_MEMBER:
        return member_put(out, file == LIFE_FILE     ? &living
                               : file == QUORUM_FILE ? &voter
                                                     : &member);
    case FRAME_DECISION:
        if (file == CREW_FILE)
            return decision_put(out, &start);
        return put_payload(out, type);
    case FRAME_SHAPE:
        return fact_shape_put(out, &shape);
    case FRAME_BEAT:
        return fact_beat_put(out, file == TYPED_FILE ? &beat_typed : &beat_more);
    case FRAME_EXIT:
        return fact_exit_put(out, &exited_more);
    case FRAME_LEDGER:
        return ledger_put(out, &ledger_more);
    default:
        return put_payload(out, type);
    }
}

/* The types of a file, in order; 0 ends it.  A new type or field goes into a new file. */
static const uint16_t golden_types[][16] = {
    { FRAME_HELLO, FRAME_RING, FRAME_COMM, FRAME_SHAPE, FRAME_STEP, FRAME_BEAT, FRAME_EXIT,
      FRAME_GAP, FRAME_NOTE, FRAME_RUN, FRAME_TICK, FRAME_VERDICT, FRAME_LEDGER },
    { FRAME_SETTING },
    { FRAME_BEAT, FRAME_EXIT, FRAME_STACK },
    { FRAME_MERGED },
    { FRAME_COMPACTION },
    [TYPED_FILE] = { FRAME_SHAPE, FRAME_BEAT },
    { FRAME_TRAFFIC },
    { FRAME_METHOD },
    { FRAME_FINDING, FRAME_DECISION, FRAME_OUTCOME, FRAME_PLACES, FRAME_CHECK, FRAME_ENVIRONMENT,
      FRAME_REQUEST, FRAME_LEDGER },
    [CREW_FILE] = { FRAME_DECISION, FRAME_MEMBER },
    [QUORUM_FILE] = { FRAME_MEMBER },
    [LIFE_FILE] = { FRAME_MEMBER },
};

static void golden_write(struct buf *out, int file)
{
    for (int i = 0; golden_types[file][i]; i++) {
        CLEAN(buf_fini) struct buf payload = { 0 };
        uint16_t type = golden_types[file][i];
        struct frame frame = { .type = type,
                               .version = FRAME_VERSION,
                               .sender = SENDER,
                               .boot = BOOT,
                               .number = 100u + type };

        if (file)
            put_later(&payload, type, file);
        else
            put_payload(&payload, type);
        frame.payload = payload.data;
        frame.payload_bytes = payload.size;
        frame_put(out, &frame);
    }
}

/* Fields that a get confused would be put in other places than where the bytes have them. */
#define SAME(noun, type)                                                                           \
    do {                                                                                           \
        CLEAN(buf_fini) struct buf again = { 0 };                                                  \
        type back;                                                                                 \
                                                                                                   \
        if (noun##_get(in, &back) < 0)                                                             \
            return false;                                                                          \
        noun##_put(&again, &back);                                                                 \
        return again.size == reader_left(&in) && memcmp(again.data, in.at, again.size) == 0;       \
    } while (0)

static bool same_shape(struct reader in, const struct fact_shape *shape)
{
    CLEAN(fact_shape_fini) struct fact_shape back = { 0 };

    return fact_shape_get(in, &back) == 0 && back.hash == shape->hash &&
           back.class == shape->class && back.count == shape->count &&
           memcmp(back.item, shape->item, shape->count * sizeof(*shape->item)) == 0;
}

static bool same_step(struct reader in, const struct fact_shape *shape)
{
    CLEAN(fact_step_fini) struct fact_step back = { 0 };
    struct fact_step step = make_step(shape);
    bool good;

    if (fact_step_shape(in) != shape->hash || fact_step_get(in, shape, &back) < 0 ||
        fact_when(FRAME_STEP, in) != step.begin_ns + step.duration_ns)
        return false;
    for (uint32_t i = 0; i < step.count; i++) { /* sixteen bits keep one part in 4096 */
        if (llabs(back.time[i].enqueue_ns - times[i].enqueue_ns) > 300 ||
            llabs(back.time[i].start_ns - times[i].start_ns) > times[i].start_ns / 4000 + 300 ||
            llabs(back.time[i].end_ns - times[i].end_ns) > times[i].end_ns / 4000 + 300 ||
            llabs(back.time[i].wait_ns - times[i].wait_ns) > times[i].wait_ns / 4000 + 300 ||
            (back.time[i].wait_ns < 0) != (times[i].wait_ns < 0))
            return false;
    }
    good = back.rank == step.rank && back.attempt == step.attempt && back.ring == step.ring &&
           back.step == step.step && back.flags == step.flags && back.tail_ns == step.tail_ns &&
           back.cpu_ns == step.cpu_ns && back.run_delay_ns == step.run_delay_ns &&
           back.throttled_ns == step.throttled_ns && back.major_faults == step.major_faults;
    return good && back.metric_set == step.metric_set && back.digest_parts == step.digest_parts &&
           back.digest_part == step.digest_part &&
           /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): every bit counts */
           memcmp(back.metric, step.metric, sizeof(back.metric)) == 0 &&
           memcmp(back.digest, step.digest, sizeof(back.digest)) == 0;
}

static bool same_compaction(struct reader in)
{
    CLEAN(fact_compaction_fini) struct fact_compaction got = { 0 };

    return fact_compaction_get(in, &got) == 0 && got.kind == compaction.kind &&
           got.count == compaction.count &&
           memcmp(got.origin, compaction.origin, sizeof(compaction_origin)) == 0;
}

static bool same_merged(struct reader in)
{
    CLEAN(fact_merged_fini) struct fact_merged back = { 0 };
    CLEAN(buf_fini) struct buf again = { 0 };

    if (fact_merged_get(in, &back) < 0)
        return false;
    fact_merged_put(&again, &back);
    return again.size == reader_left(&in) && memcmp(again.data, in.at, again.size) == 0;
}

static bool same_environment(struct reader in)
{
    CLEAN(environment_fini) struct environment back = { 0 };
    CLEAN(buf_fini) struct buf again = { 0 };

    if (environment_get(in, &back) < 0)
        return false;
    environment_put(&again, &back);
    return again.size == reader_left(&in) && memcmp(again.data, in.at, again.size) == 0;
}

static bool same_act(uint16_t type, struct reader in)
{
    switch (type) {
    case FRAME_FINDING:
        SAME(finding, struct finding);
    case FRAME_DECISION:
        SAME(decision, struct decision);
    case FRAME_OUTCOME:
        SAME(outcome, struct outcome);
    case FRAME_PLACES:
        SAME(places, struct places);
    case FRAME_CHECK:
        SAME(check, struct check);
    case FRAME_ENVIRONMENT:
        return same_environment(in);
    case FRAME_REQUEST:
        SAME(request, struct request);
    case FRAME_MEMBER:
        SAME(member, struct member);
    default:
        return false;
    }
}

/* NOLINTNEXTLINE(readability-function-size): a macro for each type */
static bool same_payload(uint16_t type, struct reader in, int file)
{
    struct fact_shape shape = shape_of(file);

    switch (type) {
    case FRAME_HELLO:
        SAME(fact_hello, struct fact_hello);
    case FRAME_RING:
        SAME(fact_ring, struct fact_ring);
    case FRAME_COMM:
        SAME(fact_comm, struct fact_comm);
    case FRAME_SHAPE:
        return same_shape(in, &shape);
    case FRAME_STEP:
        return same_step(in, &shape);
    case FRAME_BEAT:
        SAME(fact_beat, struct fact_beat);
    case FRAME_EXIT:
        SAME(fact_exit, struct fact_exit);
    case FRAME_GAP:
        SAME(fact_gap, struct fact_gap);
    case FRAME_NOTE:
        SAME(fact_note, struct fact_note);
    case FRAME_RUN:
        SAME(fact_run, struct fact_run);
    case FRAME_TICK:
        SAME(fact_tick, struct fact_tick);
    case FRAME_VERDICT:
        SAME(verdict, struct verdict);
    case FRAME_MERGED:
        return same_merged(in);
    case FRAME_COMPACTION:
        return same_compaction(in);
    case FRAME_SETTING:
        SAME(fact_setting, struct fact_setting);
    case FRAME_STACK:
        SAME(fact_stack, struct fact_stack);
    case FRAME_TRAFFIC:
        SAME(fact_traffic, struct fact_traffic);
    case FRAME_METHOD:
        SAME(fact_method, struct fact_method);
    case FRAME_LEDGER:
        SAME(ledger, struct ledger);
    default:
        return same_act(type, in);
    }
}

static int golden_read(const unsigned char *bytes, size_t size, int file)
{
    int bad = 0, i = 0;

    for (size_t at = 0; at < size; i++) {
        uint16_t expect = golden_types[file][i];
        struct frame frame;
        int64_t used = frame_get(bytes + at, size - at, &frame, NULL);
        bool good = used > 0 && frame.type == expect && frame.version == FRAME_VERSION &&
                    frame.sender == SENDER && frame.boot == BOOT && frame.number == 100u + expect &&
                    same_payload(frame.type, reader_of(frame.payload, frame.payload_bytes), file);

        printf("%sok - a frame of type %u reads as it always did\n", good ? "" : "not ", expect);
        bad += !good;
        if (used <= 0)
            break;
        at += (size_t)used;
    }
    return bad || golden_types[file][i] != 0;
}

static int golden_check(const char *path, int number)
{
    static unsigned char want[ROOM];
    CLEAN(file_clean) FILE *file = fopen(path, "rb");
    CLEAN(buf_fini) struct buf have = { 0 };
    size_t size = file ? fread(want, 1, sizeof(want), file) : 0;
    bool same;

    if (!size) {
        perror(path);
        return 1;
    }
    golden_write(&have, number);
    same = have.size == size && memcmp(have.data, want, size) == 0;
    printf("%sok - frames are written as they always were\n", same ? "" : "not ");
    return golden_read(want, size, number) || !same;
}

static int golden_make(const char *path, int number)
{
    CLEAN(file_clean) FILE *file = fopen(path, "wbx");
    CLEAN(buf_fini) struct buf bytes = { 0 };

    golden_write(&bytes, number);
    if (!file || fwrite(bytes.data, 1, bytes.size, file) != bytes.size) {
        perror(path);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    int bad = 0;

    if (argc == 4 && strcmp(argv[1], "--make") == 0)
        return golden_make(argv[3], atoi(argv[2]));
    if (argc != 1 + (int)COUNT(golden_types)) {
        fprintf(stderr, "usage: test-frame-golden BIN... | --make NUMBER BIN\n");
        return 2;
    }
    for (int i = 0; i + 1 < argc; i++)
        bad |= golden_check(argv[i + 1], i);
    return bad;
}
