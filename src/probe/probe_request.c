/* probe_request.c - what the agent asks of this rank, and the answers.
 *
 * A rank looks at requests between steps, so reading one is one load where nothing has changed.
 * The agent writes with pwrite(), which promises no atomicity to a mapping: the sequence number
 * tells that a request is being written, the checksum that it was read half written.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdbool.h>

#include "probe/probe_private.h"
#include "wire/ring_format.h"

/* In the first version of each struct. */
#define REQUEST_BYTES (offsetof(struct lockstep_request, id) + sizeof(uint64_t))
#define NO_STEP_PENDING UINT64_MAX

static uint64_t probe_word_get(_Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_acquire);
}

/* false: there is none, or it is being written. */
static bool request_read(struct ring_request_place *place, struct ring_request *ret,
                         uint64_t *ret_seq)
{
    uint64_t seq = probe_word_get(&place->seq);
    struct ring_request request;
    uint32_t crc;

    if (seq == 0 || seq % 2)
        return false;
    request.id = probe_word_get(&place->id);
    request.step = probe_word_get(&place->step);
    request.argument = probe_word_get(&place->argument);
    request.kind = atomic_load_explicit(&place->kind, memory_order_acquire);
    crc = atomic_load_explicit(&place->crc, memory_order_acquire);
    if (probe_word_get(&place->seq) != seq || crc != ring_request_crc(&request) ||
        !ring_request_valid(&request))
        return false;
    *ret = request;
    *ret_seq = seq;
    return true;
}

/* Of two threads that answer the same kind at the same time one is enough. */
static void probe_answer_put(struct lockstep_probe *probe, uint32_t kind, uint64_t id,
                             enum lockstep_answer answer)
{
    struct ring_answer_place *place = &probe->header->answer[kind - 1];
    uint64_t seq = atomic_load_explicit(&place->seq, memory_order_relaxed);
    uint64_t step = atomic_load_explicit(&probe->step, memory_order_relaxed);

    if (seq % 2 || !atomic_compare_exchange_strong(&place->seq, &seq, seq + 1))
        return;
    atomic_store_explicit(&place->id, id, memory_order_release);
    atomic_store_explicit(&place->step, step, memory_order_release);
    atomic_store_explicit(&place->answer, (uint32_t)answer, memory_order_release);
    atomic_store_explicit(&place->seq, seq + 2, memory_order_release);
}

/* ---- how much is recorded: handled here ---- */

static bool probe_depth_bits(uint64_t argument, uint64_t *ret)
{
    if (argument > 1 && argument != RING_REQUEST_DEPTH_OFF)
        return false;
    *ret = argument == RING_REQUEST_DEPTH_OFF ? RING_DEPTH_OFF : argument << RING_DEPTH_SHIFT;
    return true;
}

bool probe_depth_read(struct lockstep_probe *probe, uint64_t step, uint64_t *ret)
{
    struct ring_request request;
    uint64_t seq, pending = NO_STEP_PENDING;
    bool known;

    if (!request_read(&probe->header->request[RING_REQUEST_DEPTH - 1], &request, &seq))
        return false; /* the next step looks again */
    if (step < request.step)
        pending = request.step;
    atomic_store_explicit(&probe->depth_seq, seq, memory_order_relaxed);
    atomic_store_explicit(&probe->depth_step, pending, memory_order_relaxed);
    if (pending != NO_STEP_PENDING)
        return false;
    known = probe_depth_bits(request.argument, ret);
    probe_answer_put(probe, RING_REQUEST_DEPTH, request.id,
                     known ? LOCKSTEP_ANSWER_DONE : LOCKSTEP_ANSWER_REFUSED);
    return known;
}

/* ---- the others: handled by the program ---- */

static bool request_answered(struct lockstep_probe *probe, const struct ring_request *request)
{
    struct ring_answer_place *place = &probe->header->answer[request->kind - 1];

    return probe_word_get(&place->id) == request->id;
}

int lockstep_request_get(struct lockstep_probe *probe, struct lockstep_request *ret)
{
    struct ring_request request;
    uint64_t seq;

    if (!ret || ret->size < REQUEST_BYTES)
        return -EINVAL;
    if (probe_epoch(probe) == 0 ||
        !request_read(&probe->header->request[RING_REQUEST_CHECKPOINT - 1], &request, &seq) ||
        request.kind != RING_REQUEST_CHECKPOINT || request_answered(probe, &request))
        return 0;
    ret->kind = request.kind;
    ret->reserved = 0;
    ret->step = request.step;
    ret->argument = request.argument;
    ret->id = request.id;
    return 1;
}

void lockstep_request_answer(struct lockstep_probe *probe, const struct lockstep_request *request,
                             enum lockstep_answer answer)
{
    if (!request || request->size < REQUEST_BYTES || request->kind - 1 >= RING_REQUESTS ||
        (unsigned)answer - 1 >= LOCKSTEP_ANSWER_REFUSED || probe_epoch(probe) == 0)
        return;
    probe_answer_put(probe, request->kind, request->id, answer);
}
