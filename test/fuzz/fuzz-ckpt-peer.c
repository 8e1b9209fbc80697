/* fuzz-ckpt-peer.c - the list of points of another node: refused, or exactly as it would be written again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/tiers/peer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct peer_point point[4];
    struct err err = { "" };
    size_t count = 0, at = 0;

    if (peer_points_parse((const char *)data, size, point, 4, &count, &err) < 0) {
        if (!err.text[0])
            abort();
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        char line[64];
        size_t length = (size_t)snprintf(line, sizeof(line), "%" PRIu64 " %016" PRIx64 "\n",
                                         point[i].step, point[i].job);

        if (at + length > size || memcmp(data + at, line, length) != 0)
            abort();
        at += length;
    }
    return 0;
}
