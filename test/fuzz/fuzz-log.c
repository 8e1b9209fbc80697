/* fuzz-log.c - a log as nobody would write it, through the core and into an account.
 *
 * The input is a list of frames without envelopes: type, sender, length (u16), payload; so that no
 * checksum stands in the way.  Twice the same input must give twice the same words: that is what
 * a replay rests on.  Whatever it is, the account of it must be printable.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/log/log_replay.h"
#include "control/log/spools.h"
#include "control/report/report_builder.h"
#include "core/buf.h"
#include "core/hash.h"
#include "show/run_summary.h"

#define FRAMES_MAX 400
#define PEERS 3
#define RANKS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Everything that was said, in one number. */
struct words {
    uint64_t hash, count;
};

static void drain_output(struct log_replay *replay, struct report_builder *builder,
                         struct words *words)
{
    const struct output_queue_frame *output;

    while ((output = output_queue_first(&replay->queue))) {
        words->hash =
            hash64(words->hash + output->type, output->payload.data, output->payload.size);
        words->count++;
        report_builder_output(builder, output->type,
                              reader_of(output->payload.data, output->payload.size));
        output_queue_drop(&replay->queue);
    }
}

static bool next_frame(struct reader *in, uint64_t number, struct frame *ret)
{
    uint8_t type = reader_get_u8(in), sender = reader_get_u8(in);
    size_t size = reader_get_u16(in);

    if (in->bad)
        return false;
    size = size < reader_left(in) ? size : reader_left(in);
    *ret = (struct frame){
        .type = (uint16_t)(type % (FRAME_TYPE_COUNT + 1)),
        .version = FRAME_VERSION,
        .sender = sender % PEERS ? sender % PEERS : control_sender(),
        .number = number,
        .payload = reader_get(in, size),
        .payload_bytes = size,
    };
    return true;
}

/* A world of thousands of ranks is slow, not wrong: it would eat the time of all other inputs. */
static bool is_small(const struct frame *frame)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    struct fact_ring ring;
    struct fact_run run;

    if (frame->type == FRAME_RING && fact_ring_get(in, &ring) == 0)
        return ring.world <= RANKS_MAX && ring.rank < RANKS_MAX;
    if (frame->type == FRAME_RUN && fact_run_get(in, &run) == 0)
        return run.ranks <= RANKS_MAX;
    return true;
}

static struct words replay_log(const uint8_t *data, size_t size, struct run_summary *ret)
{
    struct reader in = reader_of(data, size);
    struct words words = { 0 };
    struct log_replay replay;
    struct report_builder builder;
    struct frame frame;

    log_replay_init(&replay, "r1");
    report_builder_init(&builder, "r1", false);
    for (uint64_t i = 0; i < FRAMES_MAX && next_frame(&in, i, &frame); i++) {
        if (!is_small(&frame))
            continue;
        log_replay_frame(&replay, &frame, NULL);
        report_builder_frame(&builder, &frame);
        drain_output(&replay, &builder, &words);
    }
    log_replay_tick(&replay, &(struct fact_tick){ .mono_ns = replay.tick.mono_ns,
                                                  .real_ns = replay.tick.real_ns,
                                                  .flags = TICK_LAST });
    drain_output(&replay, &builder, &words);
    report_builder_take(&builder, ret);
    log_replay_fini(&replay);
    report_builder_fini(&builder);
    return words;
}

static void print(const struct run_summary *summary)
{
    static const struct show_style style = { .bars = true };
    struct json_object *root = run_summary_json(summary);
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    run_summary_text(summary, &style, out);
    fclose(out);
    for (size_t i = 0; i < size; i++) {
        if ((unsigned char)text[i] < ' ' && text[i] != '\n')
            abort(); /* nothing in it may steer a terminal */
    }
    free(text);
    if (!json_object_to_json_string_ext(root, JSON_C_TO_STRING_PLAIN))
        abort();
    json_object_put(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct run_summary summary, again;
    struct words first = replay_log(data, size, &summary), second = replay_log(data, size, &again);

    if (first.hash != second.hash || first.count != second.count ||
        summary.verdicts != again.verdicts)
        abort();
    print(&summary);
    free(summary.verdict);
    free(again.verdict);
    return 0;
}
