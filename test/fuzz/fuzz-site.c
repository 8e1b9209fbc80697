/* fuzz-site.c - a site's log, as its core reads it.
 *
 * Any frames and ticks in any order: the core stays within its bounds, and reading them twice gives the same bytes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "control/nodes/site_core.h"
#include "core/buf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void hear(void *arg, uint16_t type, const struct buf *payload)
{
    struct buf *output = arg;
    struct reader in = reader_of(payload->data, payload->size);
    struct decision decision;
    struct node_life life;
    struct check check;

    if ((type != FRAME_CHECK || check_get(in, &check) < 0) &&
        (type != FRAME_NODE_LIFE || node_life_get(in, &life) < 0) &&
        (type != FRAME_DECISION || decision_get(in, &decision) < 0))
        abort();
    buf_put(output, payload->data, payload->size);
}

static void play(const uint8_t *data, size_t size, struct buf *output)
{
    struct site_core *core;

    if (site_core_create(&core) < 0)
        abort();
    while (size) {
        struct frame frame;
        struct fact_tick tick;
        char node[FACT_NAME];
        int64_t length = frame_get(data, size, &frame, NULL);

        if (length <= 0) {
            size_t skip = frame_resync(data, size);

            data += skip;
            size -= skip;
            continue;
        }
        site_core_node_of(&frame, node);
        if (frame.type == FRAME_TICK &&
            fact_tick_get(reader_of(frame.payload, frame.payload_bytes), &tick) == 0)
            site_core_tick(core, &tick, hear, output);
        else if (frame.number % 4 == 1) /* as if the controller had written it */
            site_core_ask(core, &frame);
        else
            site_core_feed(core, &frame);
        data += length;
        size -= (size_t)length;
    }
    site_core_destroy(core);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf first = { 0 }, again = { 0 };

    play(data, size, &first);
    play(data, size, &again);
    if (first.size != again.size || (first.size && memcmp(first.data, again.data, first.size) != 0))
        abort();
    buf_fini(&first);
    buf_fini(&again);
    return 0;
}
