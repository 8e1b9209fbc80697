/* burst.c - the open bursts of a kernel log.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "sense/burst.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "core/time.h"
#include "wire/decision.h"

#define SILENCE_NS (180 * NS_PER_S)
#define OPEN_MAX 1024 /* bursts at a time; the one that was silent longest makes room */
#define THEN_MAX 8    /* codes after the root */
#define RAW 512

struct burst {
    struct kernel_event root;
    uint64_t text_key;                  /* of events without a device */
    int64_t mono_ns, real_ns, error_ns; /* of the root */
    int64_t last_ns;                    /* of the newest line, by whichever clock it has */
    uint64_t order;                     /* of its first line */
    uint64_t touched;
    uint32_t count, line;
    uint8_t severity, action; /* of the burst */
    uint8_t action_severity;
    bool directed, changed; /* directed: the driver itself asked for the action */
    uint16_t then[THEN_MAX];
    uint8_t thens;
    char raw[RAW];
};

struct bursts {
    struct burst *burst;
    size_t count, room;
    uint64_t order;
};

int bursts_create(struct bursts **ret)
{
    struct bursts *bursts = calloc(1, sizeof(*bursts));

    if (!bursts)
        return -ENOMEM;
    *ret = bursts;
    return 0;
}

void bursts_destroy(struct bursts *bursts)
{
    if (!bursts)
        return;
    free(bursts->burst);
    free(bursts);
}

static int64_t burst_line_ns(const struct burst_line *line)
{
    return line->mono_ns ? line->mono_ns : line->real_ns;
}

/* Which program, if any: events without a device differ by it. */
static uint64_t burst_text_key(const struct kernel_event *event)
{
    uint64_t key = hash64(event->code, event->process, strlen(event->process));

    return hash64_u64(hash64(key, event->what, strlen(event->what)), event->pid);
}

static bool burst_same_process(const struct kernel_event *a, const struct kernel_event *b)
{
    return !a->pid || !b->pid || a->pid == b->pid;
}

/* Does the event belong to the burst, apart from its time? */
static bool burst_accepts(const struct burst *burst, const struct kernel_event *event, uint64_t key)
{
    const struct kernel_event *root = &burst->root;

    if (root->kind != event->kind || root->origin != event->origin ||
        strcmp(root->device, event->device) != 0 || strcmp(root->node, event->node) != 0)
        return false;
    switch (event->kind) {
    case FINDING_XID:
        return event->device[0] &&
               (root->follows || event->follows || burst_same_process(root, event));
    case FINDING_SXID:
        return root->code == event->code;
    case FINDING_OOM: /* the line that announces a kill, and the kill */
        return root->opens || (!event->opens && root->pid == event->pid);
    case FINDING_SEGFAULT:
    case FINDING_HUNG_TASK:
        return root->pid == event->pid && strcmp(root->process, event->process) == 0;
    default:
        return event->device[0] || burst->text_key == key;
    }
}

static struct burst *burst_find(struct bursts *bursts, const struct burst_line *line, uint64_t key)
{
    int64_t now_ns = burst_line_ns(line);

    for (size_t i = bursts->count; i-- > 0;) {
        struct burst *burst = &bursts->burst[i];

        if (now_ns && burst->last_ns && now_ns - burst->last_ns > SILENCE_NS)
            continue;
        if (burst_accepts(burst, line->event, key))
            return burst;
    }
    return NULL;
}

static struct burst *burst_new(struct bursts *bursts)
{
    struct burst *oldest;

    if (bursts->count < OPEN_MAX) {
        if (!ARRAY_FIT(bursts->burst, bursts->room, bursts->count + 1))
            return NULL;
        return &bursts->burst[bursts->count++];
    }
    oldest = &bursts->burst[0];
    for (size_t i = 1; i < bursts->count; i++) {
        if (bursts->burst[i].touched < oldest->touched)
            oldest = &bursts->burst[i];
    }
    return oldest;
}

static void burst_root(struct burst *burst, const struct burst_line *line)
{
    size_t bytes = MIN(line->raw_bytes, sizeof(burst->raw) - 1);

    burst->root = *line->event;
    burst->mono_ns = line->mono_ns;
    burst->real_ns = line->real_ns;
    burst->error_ns = line->error_ns;
    burst->line = line->line;
    memcpy(burst->raw, line->raw, bytes);
    burst->raw[bytes] = '\0';
}

static void burst_then(struct burst *burst, uint32_t code)
{
    if (code == burst->root.code || code > UINT16_MAX)
        return;
    for (uint8_t i = 0; i < burst->thens; i++) {
        if (burst->then[i] == code)
            return;
    }
    if (burst->thens < THEN_MAX)
        burst->then[burst->thens++] = (uint16_t)code;
}

/* The driver's own directive (154) decides; else the most severe event, the earliest of these first. */
static void burst_action(struct burst *burst, const struct kernel_event *event)
{
    bool directed = event->kind == FINDING_XID && event->code == 154;

    if (event->origin == FINDING_FROM_USER)
        return;
    if (directed || (!burst->directed && event->severity > burst->action_severity)) {
        burst->action = event->action;
        burst->action_severity = event->severity;
        burst->directed |= directed;
    }
}

void bursts_add(struct bursts *bursts, const struct burst_line *line)
{
    const struct kernel_event *event = line->event;
    uint64_t key = event->device[0] ? 0 : burst_text_key(event);
    struct burst *burst = burst_find(bursts, line, key);

    if (!burst) {
        burst = burst_new(bursts);
        if (!burst)
            return;
        *burst = (struct burst){ .text_key = key, .order = bursts->order };
        burst_root(burst, line);
    } else if (event->follows < burst->root.follows) {
        uint32_t follower = burst->root.code;

        burst_root(burst, line);
        burst_then(burst, follower);
    } else if (event->kind == FINDING_XID) {
        burst_then(burst, event->code);
    }
    burst->touched = bursts->order++;
    burst->last_ns = MAX(burst->last_ns, burst_line_ns(line));
    if (event->kind != FINDING_OOM || !burst->count) /* several lines tell of one kill */
        burst->count += burst->count < UINT32_MAX;
    burst->severity = MAX(burst->severity, event->severity);
    burst_action(burst, event);
    burst->changed = true;
}

static void burst_text(const struct burst *burst, char *out, size_t room)
{
    size_t used;

    kernel_event_text(&burst->root, out, room);
    used = strlen(out);
    for (uint8_t i = 0; i < burst->thens && used < room; i++)
        used += (size_t)snprintf(out + used, room - used, "%s%u", i ? ", " : "; then Xid ",
                                 burst->then[i]);
}

bool bursts_take(struct bursts *bursts, struct finding *ret, uint32_t *line)
{
    struct burst *first = NULL;

    for (size_t i = 0; i < bursts->count; i++) {
        struct burst *burst = &bursts->burst[i];

        if (burst->changed && (!first || burst->order < first->order))
            first = burst;
    }
    if (!first)
        return false;
    first->changed = false;
    *ret = (struct finding){ .mono_ns = first->mono_ns,
                             .real_ns = first->real_ns,
                             .error_ns = first->error_ns,
                             .kind = first->root.kind,
                             .class = first->root.class,
                             .severity = first->severity,
                             .origin = first->root.origin,
                             .action = first->action,
                             .code = first->root.code,
                             .pid = first->root.pid,
                             .count = first->count };
    snprintf(ret->node, sizeof(ret->node), "%s", first->root.node);
    snprintf(ret->device, sizeof(ret->device), "%s", first->root.device);
    snprintf(ret->raw, sizeof(ret->raw), "%s", first->raw);
    burst_text(first, ret->text, sizeof(ret->text));
    *line = first->line;
    return true;
}
