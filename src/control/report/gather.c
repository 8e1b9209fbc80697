/* gather.c - counts what comes by, and keeps what `why` will say. */
#include "control/report/gather.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/log/spools.h"
#include "core/clean.h"
#include "core/hash.h"

void gather_init(struct gather *gather, const char *run, bool every_state)
{
    *gather = (struct gather){ .self = control_sender(), .every_state = every_state };
    snprintf(gather->account.run, sizeof(gather->account.run), "%s", run);
}

void gather_fini(struct gather *gather)
{
    free(gather->account.verdict);
    map_fini(&gather->id);
    map_fini(&gather->rank);
    map_fini(&gather->step);
    map_fini(&gather->sender);
    map_fini(&gather->sender_end);
    *gather = (struct gather){ 0 };
}

static int gather_verdict(struct gather *gather, const struct verdict *verdict)
{
    struct account *account = &gather->account;
    uint64_t *at = NULL;

    if (!gather->every_state) {
        at = map_put(&gather->id, hash64(0, verdict->id, strlen(verdict->id)), UINT64_MAX);
        if (!at)
            return -ENOMEM;
        if (*at != UINT64_MAX) {
            account->verdict[*at] = *verdict;
            return 0;
        }
    }
    if (!ARRAY_FIT(account->verdict, gather->room, account->verdicts + 1))
        return -ENOMEM;
    if (at)
        *at = account->verdicts;
    account->verdict[account->verdicts++] = *verdict;
    return 0;
}

int gather_output(struct gather *gather, uint16_t type, struct reader in)
{
    struct account *account = &gather->account;
    struct ledger ledger;
    struct verdict verdict;

    if (type == FRAME_VERDICT && verdict_get(in, &verdict) == 0)
        return gather_verdict(gather, &verdict);
    if (type == FRAME_LEDGER && ledger_get(in, &ledger) == 0) {
        account->ledger = ledger;
        account->has_ledger = true;
        return 0;
    }
    account->malformed++;
    return 0;
}

static void gather_run(struct gather *gather, const struct fact_run *run)
{
    struct account *account = &gather->account;

    account->ranks = MAX(account->ranks, run->ranks);
    account->launched = true;
    switch (run->event) {
    case RUN_ATTEMPT_BEGIN:
        account->attempts++;
        if (gather->attempt_ended) { /* so this one is a restart */
            if (account->restarts < ACCOUNT_RESTARTS)
                account->restart[account->restarts] = gather->ended;
            account->restarts++;
        }
        gather->attempt_ended = false;
        break;
    case RUN_ATTEMPT_END:
        gather->attempt_ended = true;
        gather->ended = (struct account_restart){ .attempt = run->attempt,
                                                  .culprit = run->culprit,
                                                  .status = run->status };
        memcpy(gather->ended.text, run->text, sizeof(gather->ended.text));
        break;
    case RUN_END:
        account->ended = true;
        account->status = run->status;
        account->stopped = fact_run_stopped(run);
        break;
    default:
        break;
    }
}

static int gather_ring(struct gather *gather, const struct fact_ring *ring)
{
    gather->account.ranks = MAX(gather->account.ranks, MAX(ring->world, ring->rank + 1));
    if (!map_put(&gather->rank, ring->rank, 1))
        return -ENOMEM;
    gather->account.ranks_seen = (uint32_t)gather->rank.used;
    return 0;
}

/* Steps of a rank come in order.  One whose number is over already, as of a program that counts anew in
 * every epoch, cannot be put beside those of the other ranks: the core leaves it out.
 */
static int gather_step(struct gather *gather, struct reader in)
{
    struct account *account = &gather->account;
    struct fact_step step;
    uint64_t *next;

    if (fact_step_head_get(in, &step) < 0) {
        account->malformed++;
        return 0;
    }
    account->steps++;
    account->bare_steps += (step.flags & STEP_BARE) != 0;
    account->torn_steps += (step.flags & STEP_TORN) != 0;
    account->unfinished_steps += (step.flags & STEP_UNFINISHED) != 0;
    next = map_put(&gather->step, (uint64_t)step.attempt << 32 | step.rank, 0);
    if (!next)
        return -ENOMEM;
    account->old_steps += step.step < *next;
    *next = MAX(*next, step.step + 1);
    return 0;
}

static void gather_gap(struct account *account, const struct fact_gap *gap)
{
    account->gap_records += gap->records;
    if (gap->step_from != UINT64_MAX)
        account->gap_steps += gap->step_to - gap->step_from + 1;
}

/* Steps that an agent merged while nobody took them, and the numbers of frames that went with it. */
static int gather_spared(struct gather *gather, uint64_t sender, struct reader in)
{
    CLEAN(fact_merged_fini) struct fact_merged merged = { 0 };
    uint64_t *count = map_put(&gather->sender, sender, 0);

    if (!count)
        return -ENOMEM;
    if (fact_merged_get(in, &merged) < 0) {
        gather->account.malformed++;
        return 0;
    }
    *count += merged.dropped;
    for (uint32_t i = 0; i < merged.ranks; i++) {
        gather->account.steps += merged.rank[i].told;
        gather->account.merged_steps += merged.rank[i].told;
    }
    return 0;
}

static int gather_fact(struct gather *gather, const struct frame *frame)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    struct account *account = &gather->account;
    struct fact_ring ring;
    struct fact_run run;
    struct fact_gap gap;
    bool good = true;

    switch (frame->type) {
    case FRAME_RING:
        good = fact_ring_get(in, &ring) == 0;
        if (good)
            return gather_ring(gather, &ring);
        break;
    case FRAME_RUN:
        good = fact_run_get(in, &run) == 0;
        if (good)
            gather_run(gather, &run);
        break;
    case FRAME_GAP:
        good = fact_gap_get(in, &gap) == 0;
        if (good)
            gather_gap(account, &gap);
        break;
    case FRAME_STEP:
        return gather_step(gather, in);
    case FRAME_MERGED:
        return gather_spared(gather, frame->sender, in);
    default:
        account->beats += frame->type == FRAME_BEAT;
        account->notes += frame->type == FRAME_NOTE;
        account->exits += frame->type == FRAME_EXIT;
        break;
    }
    account->malformed += !good;
    return 0;
}

/* Numbers of a sender go on without holes, across its deaths too; a hole is a lost frame. */
static int gather_number(struct gather *gather, const struct frame *frame)
{
    uint64_t *count = map_put(&gather->sender, frame->sender, 0);
    uint64_t *end = map_put(&gather->sender_end, frame->sender, 0);

    if (!count || !end)
        return -ENOMEM;
    (*count)++;
    if (frame->number >= *end)
        *end = frame->number + 1;
    return 0;
}

/* Steps of a log that was compacted: they are still counted, and what is missing was not lost. */
static void gather_merged(struct gather *gather, struct reader in)
{
    CLEAN(fact_merged_fini) struct fact_merged merged = { 0 };
    struct account *account = &gather->account;

    account->compacted = !gather->compaction;
    if (fact_merged_get(in, &merged) < 0) {
        account->malformed++;
        return;
    }
    for (uint32_t i = 0; i < merged.ranks; i++)
        account->steps += merged.rank[i].told;
}

/* What a log lacks that was compacted while its run went on. */
static int gather_compaction(struct gather *gather, struct reader in)
{
    CLEAN(fact_compaction_fini) struct fact_compaction compaction = { 0 };

    gather->compaction = true;
    if (fact_compaction_get(in, &compaction) < 0) {
        gather->account.malformed++;
        return 0;
    }
    for (uint32_t i = 0; i < compaction.count; i++) {
        uint64_t *count = map_put(&gather->sender, compaction.origin[i].sender, 0);
        uint64_t *end = map_put(&gather->sender_end, compaction.origin[i].sender, 0);

        if (!count || !end)
            return -ENOMEM;
        *count += compaction.origin[i].dropped;
        *end = MAX(*end, compaction.origin[i].next);
    }
    return 0;
}

int gather_frame(struct gather *gather, const struct frame *frame)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    struct account *account = &gather->account;
    struct fact_hello hello;
    struct fact_tick tick;
    int result = gather_number(gather, frame);

    account->frames++;
    if (result < 0)
        return result;
    if (frame->sender != gather->self) {
        account->closed = false;
        return gather_fact(gather, frame);
    }
    if (frame->type == FRAME_TICK && fact_tick_get(in, &tick) == 0)
        account->closed = tick.flags & TICK_LAST;
    if (frame->type == FRAME_VERDICT || frame->type == FRAME_LEDGER)
        return gather_output(gather, frame->type, in);
    if (frame->type == FRAME_HELLO && fact_hello_get(in, &hello) == 0 && hello.run[0])
        memcpy(account->run, hello.run, sizeof(account->run));
    account->ticks += frame->type == FRAME_TICK;
    if (frame->type == FRAME_MERGED)
        gather_merged(gather, in);
    return frame->type == FRAME_COMPACTION ? gather_compaction(gather, in) : 0;
}

static void gather_close_sender(struct gather *gather, uint64_t sender, uint64_t end)
{
    uint64_t count = *map_get(&gather->sender, sender);

    /* More than there are numbers: a machine crashed and gave some of them again. */
    gather->account.lost_frames += end > count ? end - count : 0;
}

static void gather_close(struct gather *gather)
{
    struct account *account = &gather->account;

    for (size_t i = 0; i < gather->sender_end.size; i++) {
        const struct map_slot *slot = &gather->sender_end.slot[i];

        if (slot->used && slot->key != gather->self && !account->compacted)
            gather_close_sender(gather, slot->key, slot->value);
    }
    if (account->ranks > account->ranks_seen)
        account->unseen = account->ranks - account->ranks_seen;
    for (uint32_t rank = 0, listed = 0; listed < MIN(account->unseen, ACCOUNT_UNSEEN); rank++) {
        if (!map_get(&gather->rank, rank))
            account->unseen_rank[listed++] = rank;
    }
}

/* Open ones first; then those that were decided first. */
static int verdict_order(const void *a, const void *b)
{
    const struct verdict *left = a, *right = b;
    bool left_over = left->until_real_ns != 0, right_over = right->until_real_ns != 0;

    if (left_over != right_over)
        return left_over ? 1 : -1;
    if (left->decided_real_ns != right->decided_real_ns)
        return left->decided_real_ns < right->decided_real_ns ? -1 : 1;
    return strcmp(left->id, right->id);
}

int gather_take(struct gather *gather, struct account *ret)
{
    gather_close(gather);
    if (gather->account.verdicts && !gather->every_state)
        qsort(gather->account.verdict, gather->account.verdicts, sizeof(struct verdict),
              verdict_order);
    *ret = gather->account;
    gather->account.verdict = NULL;
    return 0;
}
