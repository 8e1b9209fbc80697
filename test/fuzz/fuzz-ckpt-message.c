/* fuzz-ckpt-message.c - messages between a trainer and the writer of its checkpoints: refused, or within their limits.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/writer/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int good)
{
    if (!good)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct message message, twice;
    struct buf again = { .data = NULL };
    struct err err = { "" };

    if (message_parse(data, size, &message, &err) < 0) {
        must(err.text[0] != '\0');
        return 0;
    }
    if (message.type == MESSAGE_HELLO)
        must(message.hello.rank < message.hello.world && message.hello.images <= 2);
    if (message.type == MESSAGE_SAVE)
        must(message.save.image < 2);
    message_encode(&message, &again);
    must(again.failed || message_parse(again.data, again.size, &twice, &err) == 0);
    buf_fini(&again);
    return 0;
}
