/* make-core-seeds.c - writes seeds for fuzz-core and fuzz-log: each kind of fact, and short runs of the made-up job.
 *
 *     make-core-seeds CORE-DIRECTORY LOG-DIRECTORY
 *
 * They are small on purpose: a seed of 6 KB was executed 8 times a second, and libFuzzer makes inputs as long as its
 * longest seed.  Both targets read facts without their envelopes; a log has a sender for each, 0 is the controller.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>

#include "control/test/lab_frames.h"
#include "core/clean.h"
#include "core/time.h"

#define TICK_EVERY 4

struct seed {
    struct buf core, log;
    uint32_t facts;
};

static void log_put(struct seed *seed, uint16_t type, uint8_t sender, const struct buf *payload)
{
    buf_put_u8(&seed->log, (uint8_t)type);
    buf_put_u8(&seed->log, sender);
    buf_put_u16(&seed->log, (uint16_t)payload->size);
    buf_put(&seed->log, payload->data, payload->size);
}

static void tick_put(struct seed *seed)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct fact_tick tick = { .mono_ns = NS_PER_S + seed->facts * 100 * NS_PER_MS };

    tick.real_ns = tick.mono_ns + 1700000000 * NS_PER_S;
    fact_tick_put(&payload, &tick);
    log_put(seed, FRAME_TICK, 0, &payload);
}

static void fact_put(struct seed *seed, uint16_t type, const struct buf *payload)
{
    bool tick = seed->facts++ % TICK_EVERY == TICK_EVERY - 1;

    if (tick)
        tick_put(seed);
    buf_put_u8(&seed->core, (uint8_t)(type | (tick ? 0x80 : 0)));
    buf_put_u16(&seed->core, (uint16_t)payload->size);
    buf_put(&seed->core, payload->data, payload->size);
    log_put(seed, type, 1, payload);
}

static void file_write(const char *directory, const char *name, const struct buf *out)
{
    CLEAN(file_clean) FILE *file = NULL;
    char path[4096];

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    file = fopen(path, "wb");
    if (!file || fwrite(out->data, 1, out->size, file) != out->size)
        fprintf(stderr, "%s: %m\n", path);
}

static void seed_write(char **directory, const char *name, struct seed *seed)
{
    tick_put(seed);
    file_write(directory[0], name, &seed->core);
    file_write(directory[1], name, &seed->log);
    buf_fini(&seed->core);
    buf_fini(&seed->log);
}

/* ---- single kinds ---- */

static void ring_put(struct buf *out)
{
    fact_ring_put(out, &(struct fact_ring){ .world = 2, .attempt = 1, .pid = 9, .node = "n0" });
}

static void hello_put(struct buf *out)
{
    fact_hello_put(out, &(struct fact_hello){ .kind = SENDER_AGENT, .node = "n0", .real_ns = 5 });
}

static void comm_put(struct buf *out)
{
    fact_comm_put(out, &(struct fact_comm){ .attempt = 1, .id = 7, .size = 2, .name = "dp" });
}

static void beat_put(struct buf *out)
{
    struct fact_beat beat = {
        .attempt = 1, .mono_ns = NS_PER_S, .state = 'S', .ops = 1, .channels = 1
    };

    beat.op[0] = (struct beat_op){ .kind = ITEM_COLL, .what = 1, .comm = 7, .key = 3, .age_ns = 9 };
    beat.channel[0] = (struct beat_channel){ .comm = 7, .enqueued = 3, .started = 2, .ended = 1 };
    fact_beat_put(out, &beat);
}

static void exit_put(struct buf *out)
{
    fact_exit_put(out, &(struct fact_exit){
                           .attempt = 1, .mono_ns = NS_PER_S, .status = 9, .text = "killed" });
}

static void gap_put(struct buf *out)
{
    fact_gap_put(out,
                 &(struct fact_gap){ .attempt = 1, .records = 5, .step_from = 1, .step_to = 2 });
}

static void note_put(struct buf *out)
{
    fact_note_put(out, &(struct fact_note){ .attempt = 1, .step = 1, .text = "uncaught X" });
}

static void run_put(struct buf *out)
{
    fact_run_put(out, &(struct fact_run){ .event = RUN_BEGIN, .ranks = 2, .text = "train" });
}

static void stack_put(struct buf *out)
{
    fact_stack_put(out,
                   &(struct fact_stack){ .attempt = 1, .state = 'D', .channel = "io_schedule" });
}

static void method_put(struct buf *out)
{
    fact_method_put(out, &(struct fact_method){ .attempt = 1,
                                                .comm = 7,
                                                .op = LOCKSTEP_OP_ALL_REDUCE,
                                                .bytes = 64,
                                                .channels = 2,
                                                .text = "RING/SIMPLE" });
}

static void traffic_put(struct buf *out)
{
    fact_traffic_put(out, &(struct fact_traffic){ .mono_ns = NS_PER_S, .bodies = 1, .bytes = 9 });
}

static void setting_put(struct buf *out)
{
    fact_setting_put(
        out, &(struct fact_setting){ .value = 0.1, .name = "verdict.least-cost", .who = "me" });
}

static const struct seed_kind {
    const char *name;
    uint16_t type;
    void (*put)(struct buf *out);
} seed_kinds[] = {
    { "hello", FRAME_HELLO, hello_put },       { "ring", FRAME_RING, ring_put },
    { "comm", FRAME_COMM, comm_put },          { "beat", FRAME_BEAT, beat_put },
    { "exit", FRAME_EXIT, exit_put },          { "gap", FRAME_GAP, gap_put },
    { "note", FRAME_NOTE, note_put },          { "run", FRAME_RUN, run_put },
    { "stack", FRAME_STACK, stack_put },       { "how", FRAME_METHOD, method_put },
    { "traffic", FRAME_TRAFFIC, traffic_put }, { "setting", FRAME_SETTING, setting_put },
};

/* Of a rank that is known. */
static void kind_write(char **directory, const struct seed_kind *kind)
{
    CLEAN(buf_fini) struct buf ring = { 0 }, payload = { 0 };
    struct seed seed = { 0 };

    ring_put(&ring);
    fact_put(&seed, FRAME_RING, &ring);
    kind->put(&payload);
    fact_put(&seed, kind->type, &payload);
    seed_write(directory, kind->name, &seed);
}

/* ---- runs ---- */

static void frames_put(struct seed *seed, const struct lab_frames *frames)
{
    for (size_t i = 0; i < frames->count; i++)
        fact_put(seed, frames->frame[i].type,
                 &(struct buf){ .data = frames->frame[i].payload, .size = frames->frame[i].bytes });
}

static void run_write(char **directory, const char *name, struct lab_config config, uint32_t steps)
{
    CLEAN(lab_frames_fini) struct lab_frames frames = { 0 };
    struct seed seed = { 0 };
    struct lab *lab;

    config.blocks = config.micros = config.buckets = 1;
    config.per_node = 1;
    lab = lab_create(&config);
    lab_frames_begin(&frames, lab);
    for (uint32_t i = 0; i < steps; i++) {
        lab->fault.stretch[1] = i > steps / 2;
        lab_step(lab);
        lab_frames_step(&frames, lab);
    }
    lab_frames_exit(&frames, lab, 1, lab->rank[0].begin_ns, 9, false);
    frames_put(&seed, &frames);
    seed_write(directory, name, &seed);
    lab_destroy(lab);
}

int main(int argc, char **argv)
{
    struct lab_config config = lab_plain;

    if (argc != 3)
        return 2;
    for (size_t i = 0; i < COUNT(seed_kinds); i++)
        kind_write(argv + 1, &seed_kinds[i]);
    config.dp = 2;
    run_write(argv + 1, "data-parallel", config, 3);
    config.pp = 2;
    config.dp = 1;
    run_write(argv + 1, "pipeline", config, 2);
    config.rendezvous = config.no_layout = true;
    config.pp = 1;
    config.tp = 2;
    run_write(argv + 1, "tensor-parallel", config, 2);
    return 0;
}
