/* report_builder.c - counts frames and keeps what `why` prints.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/report/report_builder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/log/spools.h"
#include "core/clean.h"
#include "core/hash.h"
#include "show/verdict_view.h"
#include "wire/save_note.h"

void report_builder_init(struct report_builder *builder, const char *run, bool every_state)
{
    *builder = (struct report_builder){ .self = control_sender(), .every_state = every_state };
    snprintf(builder->summary.run, sizeof(builder->summary.run), "%s", run);
}

void report_builder_fini(struct report_builder *builder)
{
    free(builder->summary.verdict);
    map_fini(&builder->id);
    map_fini(&builder->rank);
    map_fini(&builder->step);
    map_fini(&builder->sender);
    map_fini(&builder->sender_end);
    environments_fini(&builder->environments);
    recovery_fini(&builder->recovery);
    standstill_fini(&builder->still);
    *builder = (struct report_builder){ 0 };
}

static int report_builder_verdict(struct report_builder *builder, const struct verdict *verdict)
{
    struct run_summary *summary = &builder->summary;
    uint64_t *at = NULL;

    if (!builder->every_state) {
        at = map_put(&builder->id, hash64(0, verdict->id, strlen(verdict->id)), UINT64_MAX);
        if (!at)
            return -ENOMEM;
        if (*at != UINT64_MAX) {
            summary->verdict[*at] = *verdict;
            return 0;
        }
    }
    if (!ARRAY_FIT(summary->verdict, builder->room, summary->verdicts + 1))
        return -ENOMEM;
    if (at)
        *at = summary->verdicts;
    summary->verdict[summary->verdicts++] = *verdict;
    return 0;
}

/* The last state of an id counts. */
static void report_builder_decision(struct run_summary *summary, const struct decision *decision)
{
    struct run_summary_decision *place;
    uint32_t at = 0;

    while (at < MIN(summary->decisions, RUN_SUMMARY_DECISIONS) &&
           strcmp(summary->decision[at].id, decision->id) != 0)
        at++;
    if (at == summary->decisions || at == RUN_SUMMARY_DECISIONS)
        summary->decisions++;
    if (at == RUN_SUMMARY_DECISIONS)
        return;
    place = &summary->decision[at];
    memcpy(place->id, decision->id, sizeof(place->id));
    memcpy(place->of, decision->of, sizeof(place->of));
    place->action = decision->action;
    place->state = decision->state;
    place->decided_real_ns = decision->decided_real_ns;
    place->saves_gpu_seconds = decision->saves_gpu_seconds;
    place->costs_gpu_seconds = decision->costs_gpu_seconds;
    memcpy(place->why, decision->why, sizeof(place->why));
}

static bool report_builder_outcome(struct run_summary *summary, struct reader in)
{
    struct outcome outcome;

    if (outcome_get(in, &outcome) < 0)
        return false;
    for (uint32_t i = 0; i < MIN(summary->decisions, RUN_SUMMARY_DECISIONS); i++) {
        if (strcmp(summary->decision[i].id, outcome.decision) == 0)
            outcome_tally_add(&summary->decision[i].done, &outcome);
    }
    return true;
}

/* Several nodes: the end follows from a node, or from the policy, and not from a rank. */
static void report_builder_reason(struct report_builder *builder, const struct decision *decision)
{
    if (decision->state != DECISION_ORDERED)
        return;
    if (decision->action == ACTION_START)
        builder->stopped_by_rank = true;
    else if (decision->action == ACTION_STOP)
        builder->stopped_by_rank = decision->rank_count > 0;
    else if (decision->action == ACTION_END && decision->target == TARGET_RUN &&
             decision->argument && (!builder->stopped_by_rank || decision->node_count > 1))
        snprintf(builder->summary.reason, sizeof(builder->summary.reason), "%.159s", decision->why);
}

int report_builder_output(struct report_builder *builder, uint16_t type, struct reader in)
{
    struct run_summary *summary = &builder->summary;
    struct decision decision;
    struct ledger ledger;
    struct verdict verdict;

    if (type == FRAME_DECISION && decision_get(in, &decision) == 0) {
        report_builder_decision(summary, &decision);
        report_builder_reason(builder, &decision);
        return 0;
    }
    if (type == FRAME_VERDICT && verdict_get(in, &verdict) == 0)
        return report_builder_verdict(builder, &verdict);
    if (type == FRAME_LEDGER && ledger_get(in, &ledger) == 0) {
        summary->ledger = ledger;
        summary->has_ledger = true;
        return 0;
    }
    summary->malformed++;
    return 0;
}

static void report_builder_run(struct report_builder *builder, const struct fact_run *run)
{
    struct run_summary *summary = &builder->summary;

    summary->ranks = MAX(summary->ranks, run->ranks);
    summary->launched = true;
    switch (run->event) {
    case RUN_ATTEMPT_BEGIN:
        summary->attempts++;
        if (builder->attempt_ended) { /* so this one is a restart */
            if (summary->restarts < RUN_SUMMARY_RESTARTS)
                summary->restart[summary->restarts] = builder->ended;
            summary->restarts++;
        }
        builder->attempt_ended = false;
        break;
    case RUN_ATTEMPT_END:
        builder->attempt_ended = true;
        builder->ended = (struct run_summary_restart){ .attempt = run->attempt,
                                                       .culprit = run->culprit,
                                                       .status = run->status };
        memcpy(builder->ended.text, run->text, sizeof(builder->ended.text));
        recovery_ended(&builder->recovery, run->real_ns,
                       &builder->parts[MIN(summary->restarts, RUN_SUMMARY_RESTARTS)]);
        break;
    case RUN_END:
        summary->ended = true;
        summary->status = run->status;
        summary->stopped = fact_run_stopped(run);
        break;
    default:
        break;
    }
}

static int report_builder_ring(struct report_builder *builder, const struct fact_ring *ring)
{
    builder->summary.ranks = MAX(builder->summary.ranks, MAX(ring->world, ring->rank + 1));
    if (!map_put(&builder->rank, ring->rank, 1))
        return -ENOMEM;
    builder->summary.ranks_seen = (uint32_t)builder->rank.used;
    return 0;
}

/* Steps of a rank come in order.  One whose number is over already, as of a program that counts anew in
 * every epoch, cannot be put beside those of the other ranks: the core leaves it out.
 */
static int report_builder_step(struct report_builder *builder, struct reader in)
{
    struct run_summary *summary = &builder->summary;
    struct fact_step step;
    uint64_t *next;

    if (fact_step_head_get(in, &step) < 0) {
        summary->malformed++;
        return 0;
    }
    summary->steps++;
    summary->bare_steps += (step.flags & STEP_BARE) != 0;
    summary->torn_steps += (step.flags & STEP_TORN) != 0;
    summary->untimed_steps += (step.flags & STEP_UNTIMED) != 0;
    summary->unfinished_steps += (step.flags & STEP_UNFINISHED) != 0;
    standstill_step(&builder->still, &step);
    next = map_put(&builder->step, (uint64_t)step.attempt << 32 | step.rank, 0);
    if (!next)
        return -ENOMEM;
    summary->old_steps += step.step < *next;
    *next = MAX(*next, step.step + 1);
    return 0;
}

static void report_builder_gap(struct run_summary *summary, const struct fact_gap *gap)
{
    summary->gap_records += gap->records;
    if (gap->step_from != UINT64_MAX)
        summary->gap_steps += gap->step_to - gap->step_from + 1;
}

/* Steps that an agent merged while nobody took them, and the numbers of frames that went with it. */
static int report_builder_spared(struct report_builder *builder, uint64_t sender, struct reader in)
{
    CLEAN(fact_merged_fini) struct fact_merged merged = { 0 };
    uint64_t *count = map_put(&builder->sender, sender, 0);

    if (!count)
        return -ENOMEM;
    if (fact_merged_get(in, &merged) < 0) {
        builder->summary.malformed++;
        return 0;
    }
    *count += merged.dropped;
    for (uint32_t i = 0; i < merged.ranks; i++) {
        builder->summary.steps += merged.rank[i].steps;
        builder->summary.merged_steps += merged.rank[i].steps;
    }
    return 0;
}

/* Of ranks whose ring was seen: there are no others. */
static int report_builder_environment(struct report_builder *builder, struct reader in)
{
    CLEAN(environment_fini) struct environment environment = { 0 };
    int result = environment_get(in, &environment);

    if (result == -EPROTO)
        builder->summary.malformed++;
    if (result < 0)
        return result == -EPROTO ? 0 : result;
    return map_get(&builder->rank, environment.rank)
               ? environments_add(&builder->environments, &environment)
               : 0;
}

static int report_builder_beat(struct report_builder *builder, struct reader in)
{
    struct fact_beat beat;

    builder->summary.beats++;
    if (fact_beat_get(in, &beat) == 0)
        return standstill_beat(&builder->still, &beat);
    builder->summary.malformed++;
    return 0;
}

static void report_builder_save(struct report_builder *builder, const struct save_note *note)
{
    struct run_summary_save *save = &builder->saving;
    struct run_summary *summary = &builder->summary;

    summary->saves++;
    if (save->step != note->step || save->ranks >= summary->ranks)
        *save = (struct run_summary_save){ .step = note->step };
    save->ranks++;
    save->bytes += note->bytes;
    save->arena_bytes += note->arena_bytes;
    save->skipped += note->skipped;
    save->failed += note->failed;
    save->snapshot_us = MAX(save->snapshot_us, note->snapshot_us);
    save->write_us = MAX(save->write_us, note->write_us);
    save->digest_us = MAX(save->digest_us, note->digest_us);
    save->commit_us = MAX(save->commit_us, note->commit_us);
    save->verify_us = MAX(save->verify_us, note->verify_us);
    if (save->ranks == summary->ranks)
        summary->save = *save;
}

static bool report_builder_note(struct report_builder *builder, struct reader in)
{
    struct fact_note fact;
    struct save_note note;

    builder->summary.notes++;
    if (fact_note_get(in, &fact) < 0)
        return false;
    if (save_note_parse(fact.text, &note))
        report_builder_save(builder, &note);
    copy_note_parse(fact.text, &builder->summary.copied);
    return true;
}

static int report_builder_fact(struct report_builder *builder, const struct frame *frame)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    struct run_summary *summary = &builder->summary;
    struct fact_ring ring;
    struct fact_run run;
    struct fact_gap gap;
    bool good = true;

    switch (frame->type) {
    case FRAME_RING:
        good = fact_ring_get(in, &ring) == 0;
        if (good)
            return report_builder_ring(builder, &ring);
        break;
    case FRAME_RUN:
        good = fact_run_get(in, &run) == 0;
        if (good)
            report_builder_run(builder, &run);
        break;
    case FRAME_GAP:
        good = fact_gap_get(in, &gap) == 0;
        if (good)
            report_builder_gap(summary, &gap);
        break;
    case FRAME_BEAT:
        return report_builder_beat(builder, in);
    case FRAME_STEP:
        return report_builder_step(builder, in);
    case FRAME_ENVIRONMENT:
        return report_builder_environment(builder, in);
    case FRAME_MERGED:
        return report_builder_spared(builder, frame->sender, in);
    case FRAME_NOTE:
        good = report_builder_note(builder, in);
        break;
    case FRAME_OUTCOME:
        good = report_builder_outcome(summary, in);
        break;
    default:
        summary->exits += frame->type == FRAME_EXIT;
        break;
    }
    summary->malformed += !good;
    return 0;
}

/* Numbers of a sender go on without holes, across its deaths too; a hole is a lost frame. */
static int report_builder_number(struct report_builder *builder, const struct frame *frame)
{
    uint64_t *count = map_put(&builder->sender, frame->sender, 0);
    uint64_t *end = map_put(&builder->sender_end, frame->sender, 0);

    if (!count || !end)
        return -ENOMEM;
    (*count)++;
    if (frame->number >= *end)
        *end = frame->number + 1;
    return 0;
}

/* Steps of a log that was compacted: they are still counted, and what is missing was not lost. */
static void report_builder_merged(struct report_builder *builder, struct reader in)
{
    CLEAN(fact_merged_fini) struct fact_merged merged = { 0 };
    struct run_summary *summary = &builder->summary;

    summary->compacted = !builder->compaction;
    if (fact_merged_get(in, &merged) < 0) {
        summary->malformed++;
        return;
    }
    for (uint32_t i = 0; i < merged.ranks; i++)
        summary->steps += merged.rank[i].steps;
}

/* What a log lacks that was compacted while its run went on. */
static int report_builder_compaction(struct report_builder *builder, struct reader in)
{
    CLEAN(fact_compaction_fini) struct fact_compaction compaction = { 0 };

    builder->compaction = true;
    if (fact_compaction_get(in, &compaction) < 0) {
        builder->summary.malformed++;
        return 0;
    }
    for (uint32_t i = 0; i < compaction.count; i++) {
        uint64_t *count = map_put(&builder->sender, compaction.origin[i].sender, 0);
        uint64_t *end = map_put(&builder->sender_end, compaction.origin[i].sender, 0);

        if (!count || !end)
            return -ENOMEM;
        *count += compaction.origin[i].dropped;
        *end = MAX(*end, compaction.origin[i].next);
    }
    return 0;
}

int report_builder_frame(struct report_builder *builder, const struct frame *frame)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    struct run_summary *summary = &builder->summary;
    struct fact_hello hello;
    struct fact_tick tick;
    int result = report_builder_number(builder, frame);

    summary->frames++;
    if (result == 0)
        result = recovery_frame(&builder->recovery, frame, frame->sender == builder->self);
    if (result < 0)
        return result;
    if (frame->sender != builder->self) {
        summary->closed = false;
        return report_builder_fact(builder, frame);
    }
    if (frame->type == FRAME_TICK && fact_tick_get(in, &tick) == 0)
        summary->closed = tick.flags & TICK_LAST;
    if (frame->type == FRAME_VERDICT || frame->type == FRAME_LEDGER ||
        frame->type == FRAME_DECISION)
        return report_builder_output(builder, frame->type, in);
    if (frame->type == FRAME_HELLO && fact_hello_get(in, &hello) == 0 && hello.run[0])
        memcpy(summary->run, hello.run, sizeof(summary->run));
    summary->ticks += frame->type == FRAME_TICK;
    if (frame->type == FRAME_MERGED)
        report_builder_merged(builder, in);
    return frame->type == FRAME_COMPACTION ? report_builder_compaction(builder, in) : 0;
}

static void report_builder_close_sender(struct report_builder *builder, uint64_t sender,
                                        uint64_t end)
{
    uint64_t count = *map_get(&builder->sender, sender);

    /* More than there are numbers: a machine crashed and gave some of them again. */
    builder->summary.lost_frames += end > count ? end - count : 0;
}

static void report_builder_close(struct report_builder *builder)
{
    struct run_summary *summary = &builder->summary;

    for (uint32_t i = 0; i < MIN(summary->restarts, RUN_SUMMARY_RESTARTS); i++)
        summary->restart[i].parts = builder->parts[i];
    for (size_t i = 0; i < builder->sender_end.size; i++) {
        const struct map_slot *slot = &builder->sender_end.slot[i];

        if (slot->used && slot->key != builder->self && !summary->compacted)
            report_builder_close_sender(builder, slot->key, slot->value);
    }
    summary->still_ns = standstill_ns(&builder->still, summary->ranks_seen);
    if (summary->ranks > summary->ranks_seen)
        summary->unseen = summary->ranks - summary->ranks_seen;
    for (uint32_t rank = 0, listed = 0; listed < MIN(summary->unseen, RUN_SUMMARY_UNSEEN); rank++) {
        if (!map_get(&builder->rank, rank))
            summary->unseen_rank[listed++] = rank;
    }
}

int report_builder_take(struct report_builder *builder, struct run_summary *ret)
{
    report_builder_close(builder);
    if (builder->summary.verdicts && !builder->every_state)
        qsort(builder->summary.verdict, builder->summary.verdicts, sizeof(struct verdict),
              verdict_by_importance);
    if (environments_compare_ranks(&builder->environments, &builder->summary.rank_environments) <
            0 ||
        environments_compare(&builder->environments.before, &builder->environments.now,
                             &builder->summary.attempt_environments) < 0)
        return -ENOMEM;
    *ret = builder->summary;
    builder->summary.verdict = NULL;
    return 0;
}

int report_builder_copy(const struct report_builder *builder, struct run_summary *ret)
{
    struct report_builder copy = *builder; /* its maps are only read */
    size_t bytes = builder->summary.verdicts * sizeof(struct verdict);

    copy.summary.verdict = bytes ? malloc(bytes) : NULL;
    if (bytes && !copy.summary.verdict)
        return -ENOMEM;
    if (bytes)
        memcpy(copy.summary.verdict, builder->summary.verdict, bytes);
    if (report_builder_take(&copy, ret) < 0) {
        free(copy.summary.verdict);
        return -ENOMEM;
    }
    return 0;
}
