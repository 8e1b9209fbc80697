/* fuzz-core.c - payloads of any kind in any order into the controller's core.
 *
 * The input is one fact after the other: type (u8; the high bit asks for a tick first), length
 * (u16), payload.  Frames and their checksums have a target of their own; here everything behind
 * them is reached at once.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>

#include "control/core.h"
#include "core/buf.h"
#include "core/time.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void take_output(void *arg, uint16_t type, const struct buf *payload)
{
    size_t *total = arg;

    *total += payload->size + type;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reader in = reader_of(data, size);
    struct fact_tick now = { .mono_ns = NS_PER_S, .real_ns = 1700000000 * NS_PER_S };
    struct core *core;
    size_t total = 0;

    if (core_create("fuzz", &core) < 0)
        return 0;
    while (reader_left(&in) >= 3) {
        uint8_t type = reader_get_u8(&in);
        size_t bytes = reader_get_u16(&in);
        struct frame frame = { .type = type & 0x7f, .version = FRAME_VERSION };

        if (type & 0x80) {
            now.mono_ns += 100 * NS_PER_MS;
            now.real_ns += 100 * NS_PER_MS;
            core_tick(core, &now, 0, take_output, &total);
        }
        bytes = bytes < reader_left(&in) ? bytes : reader_left(&in);
        frame.payload = reader_get(&in, bytes);
        frame.payload_bytes = bytes;
        core_feed(core, &frame, NULL);
    }
    core_tick(core, &now, 1, take_output, &total);
    core_destroy(core);
    return 0;
}
