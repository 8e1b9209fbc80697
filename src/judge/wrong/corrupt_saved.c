/* corrupt_saved.c - replicas that differed when they were saved.
 *
 * Each rank of a checkpoint compares a slice of its replica with what another rank saved of it.  Two ranks that differ show that one of
 * them is wrong, not which.  The point is refused, so the training would continue from an older one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "judge/wrong/corrupt_private.h"
#include "wire/facts.h"

/* As the Python package writes it: checkpoint/report.py. */
#define SAVED_DIFFER                                                                               \
    "replicas differ in the checkpoint of step %" SCNu64 ", saved in step %" SCNu64                \
    ": rank %" SCNu32 " and rank %" SCNu32 ", tensor %n"

struct saved_note {
    uint64_t step, saved_in;
    uint32_t rank[2]; /* ascending */
    const char *tensor;
};

static bool saved_note_parse(const char *text, struct saved_note *ret)
{
    struct saved_note note = { .step = 0 };
    uint32_t one, other;
    int end = 0;

    if (sscanf(text, SAVED_DIFFER, &note.step, &note.saved_in, &one, &other, &end) != 4 || !end ||
        !text[end] || one == other)
        return false;
    note.rank[0] = MIN(one, other);
    note.rank[1] = MAX(one, other);
    note.tensor = text + end;
    *ret = note;
    return true;
}

static void saved_accuse(struct judge_state *judge, struct corrupt_book *book,
                         const struct saved_note *note)
{
    struct verdict draft = { .kind = VERDICT_CORRUPTION,
                             .layer = LAYER_UNKNOWN,
                             .confidence = 0.5,
                             .since_step = note->saved_in };
    struct tracked_verdict *tracked;
    bool fresh;

    for (size_t i = 0; i < COUNT(note->rank); i++)
        judge_state_add_rank(judge, &draft, note->rank[i]);
    draft.since_real_ns = judge_state_step_real_ns(judge, draft.since_step);
    snprintf(draft.cause, sizeof(draft.cause), "two replicas differ; one of them is wrong");
    verdict_because(&draft, "note",
                    "checkpoint of step %" PRIu64 ": tensor %.80s of rank %" PRIu32
                    " and rank %" PRIu32 " is not equal bit for bit",
                    note->step, note->tensor, note->rank[0], note->rank[1]);
    verdict_because(&draft, "note",
                    "the checkpoint is refused; the job would continue from an older one");
    tracked = judge_state_find(judge, &draft, &fresh);
    if (tracked)
        snprintf(book->saved.verdict, sizeof(book->saved.verdict), "%s", tracked->verdict.id);
}

bool corrupt_saved_note(struct judge_state *judge, const struct fact_note *fact)
{
    struct corrupt_book *book = judge->corrupt;
    struct saved_note note;

    if (!saved_note_parse(fact->text, &note))
        return false;
    if (fact->attempt != judge->model.attempt || note.rank[1] >= judge->model.world)
        return true;
    book->saved.step = MAX(book->saved.step, note.step);
    if (!corrupt_open(judge, note.rank[0]) && !corrupt_open(judge, note.rank[1]))
        saved_accuse(judge, book, &note);
    return true;
}

void saved_verified(struct corrupt_book *book, uint64_t step)
{
    if (step > book->saved.step)
        book->saved.verdict[0] = '\0'; /* they are equal again: the verdict ends */
}
