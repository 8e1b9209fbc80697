/* fuzz-kernel.c - lines of a kernel log that anybody may have written.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "wire/decision.h"
#include "wire/finding.h"
#include "wire/kernel/kernel_line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct kernel_event *event, const struct kernel_prefix *prefix)
{
    char text[200], cause[96];

    if (!event->kind || event->kind >= FINDING_KIND_COUNT || !event->what || !event->class ||
        event->class >= FINDING_CLASS_COUNT || !event->severity ||
        event->severity >= FINDING_SEVERITY_COUNT || event->action >= ACTION_COUNT ||
        event->boot_ns < 0)
        abort();
    if (prefix->user != (event->origin == FINDING_FROM_USER) || (prefix->user && event->action))
        abort();
    kernel_event_text(event, text, sizeof(text));
    kernel_event_cause(event, cause, sizeof(cause));
    if (!text[0] || !cause[0] || !memchr(event->device, '\0', sizeof(event->device)))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kernel_reader reader;
    struct kernel_event event;
    struct kernel_prefix prefix;
    struct kernel_when when;

    kernel_reader_init(&reader);
    while (size) {
        const uint8_t *end = memchr(data, '\n', size);
        size_t bytes = end ? (size_t)(end - data) : size;
        CLEAN(free_clean)
        char *line = malloc(MAX(bytes, (size_t)1)); /* no longer: reads beyond are seen */

        if (!line)
            return 0;
        memcpy(line, data, bytes);
        kernel_prefix_read(line, bytes, &prefix);
        if (kernel_line_read(&reader, line, bytes, &event))
            check(&event, &prefix);
        if (kernel_when_read(line, bytes, INT64_C(1794744063000000000), &when) &&
            (when.real_ns < 0 || when.boot_ns < 0))
            abort();
        data += bytes + (end != NULL);
        size -= bytes + (end != NULL);
    }
    return 0;
}
