/* assemble_method.c - how the communication library moves collectives: told once, and again when it changes.
 *
 * A library that takes one way now and another then would tell with every collective.  So what was told
 * last is kept for each communicator, op and class of sizes: the same again is not told, and after so
 * many changes of one nothing more of it is.  What is not told is counted.
 */
#include <string.h>

#include "agent/ring/assemble_private.h"
#include "core/clean.h"
#include "wire/ring_format.h"

#define METHOD_CHANGES_MAX 32

static bool method_is_same(const struct ring_method *left, const struct ring_method *right)
{
    return left->channels == right->channels && strcmp(left->text, right->text) == 0;
}

/* Where this one is kept; NULL: there are too many others. */
static struct told_method *method_place(struct assemble *assemble, const struct ring_method *method)
{
    struct told_method *at;

    for (unsigned i = 0; i < assemble->methods_told; i++) {
        at = &assemble->method_told[i];
        if (at->method.comm == method->comm && at->method.op == method->op &&
            bytes_round(at->method.bytes) == bytes_round(method->bytes))
            return at;
    }
    if (assemble->methods_told == METHODS_TOLD)
        return NULL;
    at = &assemble->method_told[assemble->methods_told++];
    *at = (struct told_method){ 0 };
    return at;
}

static void method_read(const struct ring_event *event, struct ring_method *ret)
{
    const uint64_t words[] = { event->b, event->c, event->d };
    const uint64_t below = (UINT64_C(1) << RING_METHOD_BYTES_BITS) - 1;

    *ret = (struct ring_method){ .comm = event->comm,
                                 .op = event->detail,
                                 .bytes = event->a & below,
                                 .channels = (uint32_t)(event->a >> RING_METHOD_BYTES_BITS),
                                 .step = event->step,
                                 .time_ns = (int64_t)event->time_ns };
    _Static_assert(sizeof(words) == RING_METHOD_TEXT && sizeof(ret->text) > RING_METHOD_TEXT,
                   "it fits");
    memcpy(ret->text, words, sizeof(words));
    for (char *at = ret->text; *at; at++) { /* people will read it */
        if (*at < ' ' || *at > '~')
            *at = '?';
    }
}

void method_on(struct assemble *assemble, const struct ring_event *event)
{
    struct ring_method method;
    struct told_method *told;

    if (event->comm < 0 || event->comm >= RING_COMMS || event->detail == 0 ||
        event->detail >= LOCKSTEP_OP_SEND)
        return;
    method_read(event, &method);
    told = method_place(assemble, &method);
    if (told && told->changes && method_is_same(&told->method, &method))
        return;
    if (!told || told->changes == METHOD_CHANGES_MAX || assemble->method_count == METHODS_QUEUED) {
        assemble->methods_dropped++;
        return;
    }
    told->method = method;
    told->changes++;
    assemble->method[assemble->method_count++] = method;
}

uint64_t assemble_methods_dropped(const struct assemble *assemble)
{
    return assemble->methods_dropped;
}

static void method_remove(struct assemble *assemble, unsigned at)
{
    assemble->method_count--;
    memmove(&assemble->method[at], &assemble->method[at + 1],
            (assemble->method_count - at) * sizeof(*assemble->method));
}

/* One whose communicator is not known yet waits until it is. */
bool method_take(struct assemble *assemble, struct fact_method *ret)
{
    for (unsigned i = 0; i < assemble->method_count;) {
        const struct ring_method *method = &assemble->method[i];
        uint64_t comm = assemble->comm_known[method->comm] ? assemble->comm_id[method->comm] : 0;

        if (comm) {
            *ret = (struct fact_method){ .rank = assemble->id.rank,
                                         .attempt = assemble->id.attempt,
                                         .step = method->step,
                                         .mono_ns = method->time_ns,
                                         .comm = comm,
                                         .op = method->op,
                                         .bytes = method->bytes,
                                         .channels = method->channels };
            memcpy(ret->text, method->text, sizeof(method->text));
            method_remove(assemble, i);
            return true;
        }
        if (!assemble->final) {
            i++;
            continue;
        }
        method_remove(assemble, i);
        assemble->methods_dropped++;
    }
    return false;
}
