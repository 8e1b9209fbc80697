/* resume.c - reads the agent's own spool.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/resume.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "wire/spool.h"

void resume_fini(struct resume *resume)
{
    free(resume->ring);
    map_fini(&resume->comms);
    map_fini(&resume->notes);
    map_fini(&resume->method_count);
    map_fini(&resume->environments);
    free(resume->outcome);
    *resume = (struct resume){ 0 };
}

struct resume_ring *resume_ring(struct resume *resume, uint32_t rank, uint32_t attempt,
                                uint32_t ring)
{
    struct resume_ring *at;

    for (size_t i = resume->count; i > 0; i--) { /* the newest are asked for most */
        at = &resume->ring[i - 1];
        if (at->rank == rank && at->attempt == attempt && at->ring == ring)
            return at;
    }
    if (!ARRAY_FIT(resume->ring, resume->room, resume->count + 1))
        return NULL;
    at = &resume->ring[resume->count++];
    *at = (struct resume_ring){ .rank = rank, .attempt = attempt, .ring = ring };
    at->done.begin_ns = INT64_MIN;
    return at;
}

static uint64_t resume_comm_hash(const struct fact_comm *fact)
{
    return hash64_u64(hash64_u64(fact->rank, fact->attempt), fact->id);
}

bool resume_has_comm(const struct resume *resume, const struct fact_comm *fact)
{
    return map_get(&resume->comms, resume_comm_hash(fact)) != NULL;
}

void resume_add_comm(struct resume *resume, const struct fact_comm *fact)
{
    map_put(&resume->comms, resume_comm_hash(fact), 1);
}

static uint64_t resume_note_hash(const struct fact_note *fact)
{
    uint64_t hash = hash64_u64(hash64_u64(fact->rank, fact->attempt), (uint64_t)fact->mono_ns);

    return hash64(hash, fact->text, strnlen(fact->text, sizeof(fact->text)));
}

bool resume_has_note(const struct resume *resume, const struct fact_note *fact)
{
    return map_get(&resume->notes, resume_note_hash(fact)) != NULL;
}

static void resume_add_note(struct resume *resume, const struct fact_note *fact)
{
    map_put(&resume->notes, resume_note_hash(fact), 1);
}

static uint64_t resume_method_hash(const struct fact_method *fact)
{
    uint64_t hash = hash64_u64(hash64_u64(fact->rank, fact->attempt), (uint64_t)fact->mono_ns);

    hash = hash64_u64(hash64_u64(hash64_u64(hash, fact->comm), fact->op), fact->bytes);
    return hash64(hash64_u64(hash, fact->channels), fact->text, strlen(fact->text));
}

bool resume_has_method(const struct resume *resume, const struct fact_method *fact)
{
    return map_get(&resume->method_count, resume_method_hash(fact)) != NULL;
}

static void resume_add_method(struct resume *resume, const struct fact_method *fact)
{
    map_put(&resume->method_count, resume_method_hash(fact), 1);
}

bool resume_has_environment(const struct resume *resume, uint32_t rank, uint32_t attempt)
{
    return map_get(&resume->environments, hash64_u64(rank, attempt)) != NULL;
}

void resume_add_environment(struct resume *resume, uint32_t rank, uint32_t attempt)
{
    map_put(&resume->environments, hash64_u64(rank, attempt), 1);
}

static int resume_on_ring(struct resume *resume, struct shape_cache *shapes, struct reader in)
{
    struct fact_ring fact;
    struct resume_ring *ring;

    if (fact_ring_get(in, &fact) < 0)
        return 0;
    shape_cache_attempt(shapes, fact.attempt);
    ring = resume_ring(resume, fact.rank, fact.attempt, fact.ring);
    if (!ring)
        return -ENOMEM;
    ring->announced = true;
    ring->has_layout = fact.has_layout;
    ring->pid = fact.pid;
    return 0;
}

static int resume_on_step(struct resume *resume, struct reader in, int64_t skew_ns)
{
    struct fact_step fact;
    struct resume_ring *ring;

    if (fact_step_head_get(in, &fact) < 0)
        return 0;
    ring = resume_ring(resume, fact.rank, fact.attempt, fact.ring);
    if (!ring)
        return -ENOMEM;
    ring->done = (struct assemble_done){ .any = true,
                                         .step = fact.step,
                                         .begin_ns = fact.begin_ns - skew_ns };
    return 0;
}

static int resume_on_gap(struct resume *resume, struct reader in)
{
    struct fact_gap fact;
    struct resume_ring *ring;

    if (fact_gap_get(in, &fact) < 0 || fact.step_to == UINT64_MAX)
        return 0;
    ring = resume_ring(resume, fact.rank, fact.attempt, fact.ring);
    if (!ring)
        return -ENOMEM;
    if (ring->done.any && fact.step_to <= ring->done.step)
        return 0; /* left out when the spool was shrunk: newer ones were told before it */
    ring->done.any = ring->done.gap = true;
    ring->done.step = fact.step_to;
    return 0;
}

static int resume_on_beat(struct resume *resume, struct reader in)
{
    struct fact_beat fact;
    struct resume_ring *ring;

    if (fact_beat_get(in, &fact) < 0 || !fact.final)
        return 0;
    ring = resume_ring(resume, fact.rank, fact.attempt, fact.ring);
    if (!ring)
        return -ENOMEM;
    ring->final = true;
    return 0;
}

/* An exit does not name its ring; it always follows the ring's final beat. */
static void resume_on_exit_frame(struct resume *resume, struct reader in)
{
    struct fact_exit fact;

    if (fact_exit_get(in, &fact) < 0)
        return;
    for (size_t i = 0; i < resume->count; i++) {
        struct resume_ring *ring = &resume->ring[i];

        if (ring->rank == fact.rank && ring->attempt == fact.attempt && ring->final)
            ring->exited = true;
    }
}

static void resume_on_comm(struct resume *resume, struct reader in)
{
    struct fact_comm fact;

    if (fact_comm_get(in, &fact) == 0)
        resume_add_comm(resume, &fact);
}

static void resume_on_note(struct resume *resume, struct reader in, int64_t skew_ns)
{
    struct fact_note fact;

    if (fact_note_get(in, &fact) < 0)
        return;
    fact.mono_ns -= skew_ns;
    resume_add_note(resume, &fact);
}

static void resume_on_method(struct resume *resume, struct reader in, int64_t skew_ns)
{
    struct fact_method fact;

    if (fact_method_get(in, &fact) < 0)
        return;
    fact.mono_ns -= skew_ns;
    resume_add_method(resume, &fact);
}

static void resume_on_environment(struct resume *resume, struct reader in)
{
    CLEAN(environment_fini) struct environment environment = { 0 };

    if (environment_get(in, &environment) == 0)
        resume_add_environment(resume, environment.rank, environment.attempt);
}

static int resume_on_outcome(struct resume *resume, struct reader in)
{
    struct outcome outcome;

    if (outcome_get(in, &outcome) < 0 || strncmp(outcome.part, "rank ", 5) == 0)
        return 0;
    if (!ARRAY_FIT(resume->outcome, resume->outcome_room, resume->outcomes + 1))
        return -ENOMEM;
    resume->outcome[resume->outcomes++] = outcome;
    return 0;
}

static int resume_on_frame(struct resume *resume, struct shape_cache *shapes,
                           const struct frame *frame, int64_t skew_ns)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);

    switch (frame->type) {
    case FRAME_RING:
        return resume_on_ring(resume, shapes, in);
    case FRAME_COMM:
        resume_on_comm(resume, in);
        return 0;
    case FRAME_SHAPE:
        shape_cache_add(shapes, reader_get_u64(&in)); /* the hash comes first */
        return 0;
    case FRAME_STEP:
        return resume_on_step(resume, in, skew_ns);
    case FRAME_BEAT:
        return resume_on_beat(resume, in);
    case FRAME_EXIT:
        resume_on_exit_frame(resume, in);
        return 0;
    case FRAME_GAP:
        return resume_on_gap(resume, in);
    case FRAME_NOTE:
        resume_on_note(resume, in, skew_ns);
        return 0;
    case FRAME_METHOD:
        resume_on_method(resume, in, skew_ns);
        return 0;
    case FRAME_ENVIRONMENT:
        resume_on_environment(resume, in);
        return 0;
    case FRAME_OUTCOME:
        return resume_on_outcome(resume, in);
    default:
        return 0;
    }
}

int resume_read(const char *path, int64_t skew_ns, struct resume *resume,
                struct shape_cache *shapes, struct err *err)
{
    CLEAN(spool_reader_clean) struct spool_reader *reader = NULL;
    struct frame frame;
    int result = spool_reader_open(path, &reader, err);

    if (result == -ENOENT)
        return 0;
    if (result < 0)
        return result;
    while ((result = spool_next(reader, &frame, err)) > 0) {
        result = resume_on_frame(resume, shapes, &frame, skew_ns);
        if (result < 0)
            return err_wrap(err, err_nomem(err), "%s", path);
    }
    return result;
}
