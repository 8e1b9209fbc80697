/* assemble_how.c - how the communication library moves collectives: told once, and again when it changes.
 *
 * A library that takes one way now and another then would tell with every collective.  So what was told
 * last is kept for each communicator, op and class of sizes: the same again is not told, and after so
 * many changes of one nothing more of it is.  What is not told is counted.
 */
#include <string.h>

#include "agent/ring/assemble_inside.h"
#include "core/clean.h"
#include "wire/ring_format.h"

#define HOW_CHANGES_MAX 32

static bool how_is_same(const struct ring_how *left, const struct ring_how *right)
{
    return left->channels == right->channels && strcmp(left->text, right->text) == 0;
}

/* Where this one is kept; NULL: there are too many others. */
static struct told_how *how_place(struct assemble *assemble, const struct ring_how *how)
{
    struct told_how *at;

    for (unsigned i = 0; i < assemble->hows_told; i++) {
        at = &assemble->how_told[i];
        if (at->how.comm == how->comm && at->how.op == how->op &&
            bytes_round(at->how.bytes) == bytes_round(how->bytes))
            return at;
    }
    if (assemble->hows_told == HOWS_TOLD)
        return NULL;
    at = &assemble->how_told[assemble->hows_told++];
    *at = (struct told_how){ 0 };
    return at;
}

static void how_read(const struct ring_event *event, struct ring_how *ret)
{
    const uint64_t words[] = { event->b, event->c, event->d };
    const uint64_t below = (UINT64_C(1) << RING_HOW_BYTES_BITS) - 1;

    *ret = (struct ring_how){ .comm = event->comm,
                              .op = event->detail,
                              .bytes = event->a & below,
                              .channels = (uint32_t)(event->a >> RING_HOW_BYTES_BITS),
                              .step = event->step,
                              .time_ns = (int64_t)event->time_ns };
    _Static_assert(sizeof(words) == RING_HOW_TEXT && sizeof(ret->text) > RING_HOW_TEXT, "it fits");
    memcpy(ret->text, words, sizeof(words));
    for (char *at = ret->text; *at; at++) { /* people will read it */
        if (*at < ' ' || *at > '~')
            *at = '?';
    }
}

void how_on(struct assemble *assemble, const struct ring_event *event)
{
    struct ring_how how;
    struct told_how *told;

    if (event->comm < 0 || event->comm >= RING_COMMS || event->detail == 0 ||
        event->detail >= LOCKSTEP_OP_SEND)
        return;
    how_read(event, &how);
    told = how_place(assemble, &how);
    if (told && told->changes && how_is_same(&told->how, &how))
        return;
    if (!told || told->changes == HOW_CHANGES_MAX || assemble->hows == HOWS_QUEUED) {
        assemble->hows_dropped++;
        return;
    }
    told->how = how;
    told->changes++;
    assemble->how[assemble->hows++] = how;
}

uint64_t assemble_hows_dropped(const struct assemble *assemble)
{
    return assemble->hows_dropped;
}

static void how_remove(struct assemble *assemble, unsigned at)
{
    assemble->hows--;
    memmove(&assemble->how[at], &assemble->how[at + 1],
            (assemble->hows - at) * sizeof(*assemble->how));
}

/* One whose communicator is not known yet waits until it is. */
bool how_take(struct assemble *assemble, struct fact_how *ret)
{
    for (unsigned i = 0; i < assemble->hows;) {
        const struct ring_how *how = &assemble->how[i];
        uint64_t comm = assemble->comm_known[how->comm] ? assemble->comm_id[how->comm] : 0;

        if (comm) {
            *ret = (struct fact_how){ .rank = assemble->id.rank,
                                      .attempt = assemble->id.attempt,
                                      .step = how->step,
                                      .mono_ns = how->time_ns,
                                      .comm = comm,
                                      .op = how->op,
                                      .bytes = how->bytes,
                                      .channels = how->channels };
            memcpy(ret->text, how->text, sizeof(how->text));
            how_remove(assemble, i);
            return true;
        }
        if (!assemble->final) {
            i++;
            continue;
        }
        how_remove(assemble, i);
        assemble->hows_dropped++;
    }
    return false;
}
