/* fuzz-relay.c - what the relay reads: its cursor, --to, records of an audit trail, and frames.  Whatever it makes of them is one
 * message: a line without another line in it, or a syslog message of the length that it says.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "control/relay/relay_cursor.h"
#include "control/relay/relay_event.h"
#include "control/relay/relay_sink.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int good)
{
    if (!good)
        abort();
}

static void print_event(struct relay_event *event)
{
    struct buf line = { 0 }, message = { 0 };
    char *end;
    unsigned long length;

    relay_event_json(event, &line);
    must(!line.failed && line.size > 2 &&
         memchr(line.data, '\n', line.size) == line.data + line.size - 1);
    relay_event_syslog(event, "host", "lockstep@32473", &message);
    buf_put(&message, "", 1);
    must(!message.failed && message.size < 8192 && !memchr(message.data, '\n', message.size));
    length = strtoul((const char *)message.data, &end, 10);
    must(*end == ' ' && length == strlen(end + 1));
    buf_fini(&line);
    buf_fini(&message);
    relay_event_fini(event);
}

static void try_cursor(const char *text, size_t size)
{
    struct relay_cursor cursor = { 0 }, again = { 0 };
    struct err err = { "" };
    struct buf out = { 0 };

    if (relay_cursor_parse(text, size, &cursor, &err) < 0) {
        must(err.text[0] && !cursor.mark);
        return;
    }
    relay_cursor_print(&cursor, &out);
    must(!out.failed && relay_cursor_parse((const char *)out.data, out.size, &again, &err) == 0);
    must(again.count == cursor.count &&
         (!cursor.count ||
          memcmp(again.mark, cursor.mark, cursor.count * sizeof(*cursor.mark)) == 0));
    buf_fini(&out);
    relay_cursor_fini(&cursor);
    relay_cursor_fini(&again);
}

static void try_frames(const uint8_t *data, size_t size)
{
    struct frame frame;
    int64_t used;

    for (size_t at = 0; at < size; at += (size_t)used) {
        struct relay_event event = { 0 };

        used = frame_get(data + at, size - at, &frame, NULL);
        if (used <= 0)
            break;
        if (relay_event_of_frame(&frame, true, "r1", &event) == 1)
            print_event(&event);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    struct relay_event event = { 0 };
    struct relay_target target = { .kind = RELAY_STDOUT };
    struct err err = { "" };
    uint64_t number = 0;

    must(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    try_cursor(text, size);
    if (relay_target_parse(text, &target, &err) < 0)
        must(err.text[0] && target.kind == RELAY_STDOUT);
    if (relay_event_of_audit(text, size, "", &event, &number) == 0) {
        must(number > 0);
        print_event(&event);
    }
    try_frames(data, size);
    free(text);
    return 0;
}
