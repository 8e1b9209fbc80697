/* kineto.c - events of Chrome's trace format into compute and communication of a rank.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/kineto.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"

#define US_LIMIT                                                                                   \
    2.2e15 /* of a time, and below 1e12 of a duration: differences of sums fit 63 bits */

struct kineto_event {
    int64_t start_ns, end_ns, step;
    uint32_t node; /* of the event's dictionary */
    uint32_t thread;
    bool device, collective, mark; /* mark: of a step */
    char name[64];
};

struct kineto_events {
    struct kineto_event *event;
    size_t count, room;
    bool devices;
};

static bool read_time(const struct value_tree *tree, uint32_t node, double limit_us,
                      int64_t *ret_ns)
{
    double us;

    if (!value_real(tree, node, &us) || us < 0 || us > limit_us)
        return false;
    *ret_ns = llround(us * 1000);
    return true;
}

static uint32_t read_thread(const struct value_tree *tree, uint32_t node)
{
    int64_t number;

    if (value_integer(tree, node, &number))
        return (uint32_t)number;
    return value_is(tree, node, VALUE_TEXT)
               ? (uint32_t)hash64(5, tree->node[node].text, tree->node[node].count)
               : 0;
}

static bool kineto_name_is_collective(const char *name)
{
    return strncmp(name, "nccl", 4) == 0 || strncmp(name, "gloo:", 5) == 0 ||
           strncmp(name, "ncclDevKernel", 13) == 0 || strstr(name, "ncclKernel") != NULL;
}

static bool read_event(const struct value_tree *tree, uint32_t node, struct kineto_event *event)
{
    uint32_t category = value_get(tree, node, "cat");
    int64_t duration_ns;

    *event = (struct kineto_event){ .node = node };
    if (!value_text_is(tree, value_get(tree, node, "ph"), "X") ||
        !read_time(tree, value_get(tree, node, "ts"), US_LIMIT, &event->start_ns) ||
        !read_time(tree, value_get(tree, node, "dur"), 1e12, &duration_ns))
        return false;
    event->end_ns = event->start_ns + duration_ns;
    value_text(tree, value_get(tree, node, "name"), event->name, sizeof(event->name));
    event->thread = read_thread(tree, value_get(tree, node, "tid"));
    event->device = value_text_is(tree, category, "kernel") ||
                    value_text_is(tree, category, "gpu_memcpy") ||
                    value_text_is(tree, category, "gpu_memset");
    event->mark = sscanf(event->name, "ProfilerStep#%" SCNd64, &event->step) == 1;
    event->collective = kineto_name_is_collective(event->name);
    return true;
}

static int read_events(const struct value_tree *tree, struct kineto_events *events)
{
    uint32_t list =
        value_is_list(tree, tree->root) ? tree->root : value_get(tree, tree->root, "traceEvents");

    for (uint32_t cell = value_first(tree, list); cell != VALUE_NIL; cell = tree->cell[cell].next) {
        struct kineto_event event;

        if (!read_event(tree, tree->cell[cell].node, &event))
            continue;
        if (budget_grow(tree->budget, &events->event, &events->room, events->count, sizeof(event)) <
            0)
            return -ENOMEM;
        events->devices |= event.device;
        events->event[events->count++] = event;
    }
    return 0;
}

static int kineto_by_start(const void *left, const void *right)
{
    const struct kineto_event *a = left, *b = right;

    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return (a->end_ns < b->end_ns) - (a->end_ns > b->end_ns); /* the outer one first */
}

/* The collective's name as the trace says it, else by its kernel: "ncclDevKernel_AllReduce_Sum_...". */
static void kineto_collective_name(const struct value_tree *tree, const struct kineto_event *event,
                                   char *out, size_t room)
{
    uint32_t args = value_get(tree, event->node, "args");
    const char *name = event->name, *colon = strchr(name, ':'), *line = strchr(name, '_');

    if (*value_text(tree, value_get(tree, args, "Collective name"), out, room))
        return;
    if (colon) {
        snprintf(out, room, "%.*s", (int)strcspn(colon + 1, " "), colon + 1);
    } else if (line) {
        snprintf(out, room, "%.*s", (int)strcspn(line + 1, "_("), line + 1);
    } else {
        snprintf(out, room, "%s", name);
    }
}

static uint64_t kineto_collective_group(const struct value_tree *tree,
                                        const struct kineto_event *event)
{
    uint32_t args = value_get(tree, event->node, "args");
    uint32_t ranks = value_get(tree, args, "Process Group Ranks"),
             name = value_get(tree, args, "Process Group Name");
    uint64_t group = 1;

    if (value_is(tree, name, VALUE_TEXT))
        group = hash64(group, tree->node[name].text, tree->node[name].count);
    if (value_is(tree, ranks, VALUE_TEXT))
        group = hash64(group, tree->node[ranks].text, tree->node[ranks].count);
    return group;
}

struct shape {                       /* of one trace */
    const struct kineto_event *mark; /* of the newest step */
    size_t marks;
    uint32_t main_thread;
    int64_t busy_ns; /* until when compute has been counted: nested events are inside others */
};

static bool kineto_counts_as_compute(const struct kineto_events *events, const struct shape *shape,
                                     const struct kineto_event *event)
{
    if (event->collective || event->mark || event->start_ns < shape->busy_ns)
        return false;
    if (events->devices)
        return event->device;
    return event->thread == shape->main_thread && strncmp(event->name, "c10d::", 6) != 0;
}

static int kineto_add_ops(const struct value_tree *tree, const struct kineto_events *events,
                          struct shape *shape, uint32_t rank, struct lanes *lanes)
{
    shape->busy_ns = INT64_MIN;
    for (size_t i = 0; i < events->count; i++) {
        const struct kineto_event *event = &events->event[i];
        struct lane_op op = { .rank = rank,
                              .start_ns = event->start_ns,
                              .kind = LANES_COMPUTE,
                              .duration_ns = event->end_ns - event->start_ns };
        char name[32];

        if (event->mark) {
            shape->mark = event;
            continue;
        }
        if (shape->marks && (!shape->mark || event->start_ns >= shape->mark->end_ns))
            continue;
        op.step = shape->mark ? shape->mark->step : 0;
        if (event->collective && (event->device || !events->devices)) {
            kineto_collective_name(tree, event, name, sizeof(name));
            op.kind = lanes_kind(lanes, name);
            op.group = kineto_collective_group(tree, event);
        } else if (kineto_counts_as_compute(events, shape, event)) {
            shape->busy_ns = event->end_ns;
        } else {
            continue;
        }
        if (lanes_add(lanes, &op) < 0)
            return -ENOMEM;
    }
    return 0;
}

bool kineto_is(const struct value_tree *tree)
{
    uint32_t first = value_item(tree, tree->root, 0);

    return value_is_list(tree, value_get(tree, tree->root, "traceEvents")) ||
           (value_get(tree, first, "ph") != VALUE_NIL && value_get(tree, first, "ts") != VALUE_NIL);
}

static void shape_find(const struct kineto_events *events, struct shape *shape)
{
    for (size_t i = 0; i < events->count; i++) {
        if (events->event[i].mark && !shape->marks++)
            shape->main_thread = events->event[i].thread;
    }
    if (!shape->marks && events->count)
        shape->main_thread = events->event[0].thread;
}

/* The table is not grown by the budget: what it may need is taken first, and what it did not need is given back. */
static int kineto_add_ops_within(const struct value_tree *tree, const struct kineto_events *events,
                                 struct shape *shape, uint32_t rank, struct lanes *lanes)
{
    size_t before = lanes->count, room = lanes->room;
    size_t most = (lanes->count + events->count) * 2 * sizeof(*lanes->op);
    int result;

    if (!budget_take(tree->budget, most))
        return -ENOMEM;
    result = kineto_add_ops(tree, events, shape, rank, lanes);
    if (result < 0)
        lanes->count = before;
    budget_give(tree->budget, most);
    budget_take(tree->budget, (lanes->room - room) * sizeof(*lanes->op));
    return result;
}

/* The time of steps in which the device had work, and in which the host waited for its data loader; events are sorted
 * by their begin.  Without marks, from the first event of the device to its last.
 */
static int kineto_add_span(const struct kineto_events *events, const struct shape *shape,
                           uint32_t rank, struct lanes *lanes)
{
    struct lane_span span = { .rank = rank };
    int64_t from = INT64_MAX, until = INT64_MIN, busy_until = INT64_MIN;

    for (size_t i = 0; i < events->count; i++) {
        const struct kineto_event *event = &events->event[i];

        if (shape->marks ? event->mark : event->device) {
            from = MIN(from, event->start_ns);
            until = MAX(until, event->end_ns);
        }
    }
    if (!events->devices || until <= from)
        return 0;
    for (size_t i = 0; i < events->count; i++) {
        const struct kineto_event *event = &events->event[i];
        int64_t start = MAX(event->start_ns, from), end = MIN(event->end_ns, until);

        if (end <= start)
            continue;
        if (strstr(event->name, "DataLoader") && event->thread == shape->main_thread)
            span.input_ns += end - start;
        if (!event->device || end <= busy_until)
            continue;
        span.busy_ns += end - MAX(start, busy_until);
        busy_until = end;
    }
    span.total_ns = until - from;
    return lanes_add_span(lanes, &span);
}

static uint32_t kineto_rank(const struct value_tree *tree, uint32_t rank)
{
    uint32_t about = value_get(tree, tree->root, "distributedInfo");
    int64_t given;

    if (value_integer(tree, value_get(tree, about, "rank"), &given) && given >= 0 &&
        given < 1 << 20)
        return (uint32_t)given;
    return rank;
}

static uint32_t kineto_world(const struct value_tree *tree)
{
    uint32_t about = value_get(tree, tree->root, "distributedInfo");
    int64_t given;

    return value_integer(tree, value_get(tree, about, "world_size"), &given) && given > 0 &&
                   given <= 1 << 20
               ? (uint32_t)given
               : 0;
}

/* Its slices are of all ranks, and are no ops of one. */
static bool kineto_is_exported(const struct value_tree *tree)
{
    uint32_t about = value_get(tree, tree->root, "otherData");
    char producer[16];

    return strcmp(
               value_text(tree, value_get(tree, about, "producer"), producer, sizeof("lockstep ")),
               "lockstep ") == 0;
}

int kineto_add(struct lanes *lanes, uint32_t rank, const struct value_tree *tree, struct err *err)
{
    struct kineto_events events = { 0 };
    struct shape shape = { 0 };
    size_t before = lanes->count;
    int result;

    if (kineto_is_exported(tree))
        return err_set(err, -EPROTO,
                       "a trace that 'lockstep trace export' wrote; 'lockstep why' and 'lockstep "
                       "report' answer about its run");
    result = read_events(tree, &events);
    lanes_kind(lanes, "compute");
    if (events.count)
        qsort(events.event, events.count, sizeof(*events.event), kineto_by_start);
    shape_find(&events, &shape);
    if (result == 0)
        result = kineto_add_ops_within(tree, &events, &shape, kineto_rank(tree, rank), lanes);
    if (result == 0)
        result = kineto_add_span(&events, &shape, kineto_rank(tree, rank), lanes);
    lanes->world = MAX(lanes->world, kineto_world(tree));
    budget_free(tree->budget, events.event, events.room, sizeof(*events.event));
    if (result < 0)
        return budget_error(tree->budget, err);
    if (lanes->count == before)
        return err_set(err, -EPROTO, "a profiler trace without compute or collectives");
    return 0;
}
