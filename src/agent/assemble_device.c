/* assemble_device.c - a step as its device saw it, where nothing but its collectives tells.
 *
 * A host launches work and goes on, maybe steps ahead of its device: what it does then costs nothing, and how long its
 * own steps are says little.  NCCL tells when collectives began and ended on the device.  What lies between them there
 * is the rank's own work, so it becomes a span before each of them, and the step lasts from the last end of the one
 * before to its own.  Where a collective begins as soon as it was launched, the device had waited for the host: no
 * span then, and the host's phases count.
 */
#include "agent/assemble_inside.h"
#include "core/clean.h"
#include "core/time.h"

#include <stdlib.h>

#define AT_ONCE_NS                                                                                 \
    (150 * NS_PER_US) /* from a launch to its begin on a device that had nothing to do */
#define SPAN_STREAM (LOCKSTEP_HOST_THREADS - 1) /* a line of its own */

bool item_is_device_op(const struct item *item)
{
    return (item->kind == ITEM_COLL || item->kind == ITEM_P2P) &&
           item->stream >= LOCKSTEP_DEVICE_OPS && item->stream < LOCKSTEP_HOST_THREADS;
}

static int start_order(const void *left, const void *right)
{
    const struct item *a = left, *b = right;

    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->seq < b->seq ? -1 : a->seq > b->seq;
}

/* From when on the host may have launched what runs before this op: since the phase that launched it began, and of a
 * step's first op since its input was there.
 */
static int64_t launched_ns(const struct build *build, const struct item *op, bool first,
                           uint8_t *ret_phase)
{
    int64_t input_ns = build->begin_ns, phase_ns = INT64_MIN;

    *ret_phase = LOCKSTEP_PHASE_OTHER;
    for (uint32_t i = 0; i < build->count; i++) {
        const struct item *item = &build->item[i];

        if (item->kind != ITEM_PHASE || item->start_ns > op->enqueue_ns)
            continue;
        if (item->what == LOCKSTEP_PHASE_DATA && item->ended && item->end_ns <= op->enqueue_ns)
            input_ns = MAX(input_ns, item->end_ns);
        if ((item->what == LOCKSTEP_PHASE_FORWARD || item->what == LOCKSTEP_PHASE_BACKWARD ||
             item->what == LOCKSTEP_PHASE_OPTIMIZER) &&
            (!item->ended || item->end_ns >= op->enqueue_ns) && item->start_ns >= phase_ns) {
            phase_ns = item->start_ns;
            *ret_phase = item->what;
        }
    }
    return first || phase_ns == INT64_MIN ? MIN(input_ns, op->enqueue_ns) : phase_ns;
}

/* `from`: what ran before was over then. */
static void span_add(struct assemble *assemble, struct build *build, const struct item *op,
                     bool first, int64_t from_ns)
{
    bool waited = op->start_ns - op->enqueue_ns < AT_ONCE_NS;
    struct item *span;
    uint8_t phase;
    int64_t launch_ns = launched_ns(build, op, first, &phase);

    span = item_add(assemble, build, launch_ns);
    if (!span)
        return;
    span->kind = ITEM_SPAN;
    span->what = phase;
    span->stream = SPAN_STREAM;
    span->end_ns = op->start_ns;
    span->start_ns = waited ? op->start_ns : MIN(MAX(from_ns, launch_ns), op->start_ns);
    span->ended = true;
}

bool assemble_device_view(struct assemble *assemble, struct build *build)
{
    uint32_t ops = 0, count = build->count;
    int64_t before_ns = assemble->device_end_ns, from_ns;
    CLEAN(free_clean) struct item *op = NULL;

    if (build->spans || build->torn)
        return false;
    for (uint32_t i = 0; i < count; i++)
        ops += item_is_device_op(&build->item[i]) && build->item[i].ended;
    op = ops ? calloc(ops, sizeof(*op)) : NULL;
    if (!op)
        return false;
    ops = 0;
    for (uint32_t i = 0; i < count; i++)
        if (item_is_device_op(&build->item[i]) && build->item[i].ended)
            op[ops++] = build->item[i];
    qsort(op, ops, sizeof(*op), start_order);
    build->base_ns = from_ns = MAX(build->begin_ns, before_ns);
    for (uint32_t i = 0; i < ops; i++) {
        span_add(assemble, build, &op[i], i == 0, from_ns);
        from_ns = MAX(from_ns, op[i].end_ns);
    }
    build->end_ns = MAX(build->end_ns, from_ns);
    build->spans = true;
    assemble->device_end_ns = from_ns;
    return true;
}
