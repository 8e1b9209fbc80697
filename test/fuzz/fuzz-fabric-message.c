/* fuzz-fabric-message.c - frames of a fabric test: any bytes are a message, too few, or refused; what was read can be written.
 *
 * The HMAC is put right first, as somebody who has the token could do.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "verify/fabric/fabric_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fabric_session session = { .is_worker = true };
    static struct fabric_message message;
    struct buf out = { .data = NULL };
    struct err err = { "" };
    unsigned char *frame;
    int whole = fabric_message_size(data, size, &err);

    if (whole <= 0 || (size_t)whole > size) {
        if (whole < 0 && !err.text[0])
            abort();
        return 0;
    }
    /* Without a key the HMAC is all zero. */
    frame = malloc((size_t)whole);
    if (!frame)
        return 0;
    memcpy(frame, data, (size_t)whole);
    memset(frame + whole - FABRIC_MAC, 0, FABRIC_MAC);
    if (fabric_message_get(&session, frame, (size_t)whole, &message, &err) == 0) {
        if (message.flows > FABRIC_FLOWS || !memchr(message.node, 0, sizeof(message.node)))
            abort();
        session = (struct fabric_session){ .is_worker = false };
        if (fabric_message_put(&session, &message, &out) < 0 || out.size != (size_t)whole ||
            memcmp(out.data, frame, out.size) != 0)
            abort();
        buf_fini(&out);
    }
    free(frame);
    return 0;
}
