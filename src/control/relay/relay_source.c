/* relay_source.c - what both kinds of sources have in common.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/relay/relay_source.h"

#include <stdio.h>
#include <string.h>

void relay_source_init(struct relay_source *source, enum relay_source_kind kind, const char *name,
                       const char *run, const char *directory)
{
    memset(source, 0, sizeof(*source));
    source->kind = kind;
    source->fd = -1;
    source->is_new = true;
    snprintf(source->name, sizeof(source->name), "%s", name);
    snprintf(source->run, sizeof(source->run), "%s", run);
    snprintf(source->directory.text, sizeof(source->directory.text), "%s", directory);
}

void relay_source_close(struct relay_source *source)
{
    if (source->kind == RELAY_LOG)
        relay_log_close(source);
    else
        relay_audit_close(source);
    source->found = source->at_end = false;
}

void relay_source_rewind(struct relay_source *source)
{
    if (memcmp(&source->now, &source->delivered, sizeof(source->now)) == 0)
        return;
    relay_source_close(source);
    source->now = source->delivered;
}

int relay_source_next(struct relay_source *source, size_t *left, struct relay_event *ret,
                      struct err *err)
{
    return source->kind == RELAY_LOG ? relay_log_next(source, left, ret, err)
                                     : relay_audit_next(source, left, ret, err);
}

int relay_source_skip(struct relay_source *source, struct err *err)
{
    struct relay_event event = { 0 };
    size_t left = SIZE_MAX;
    int result;

    while ((result = relay_source_next(source, &left, &event, err)) == 1)
        relay_event_fini(&event);
    source->delivered = source->now;
    return result;
}
