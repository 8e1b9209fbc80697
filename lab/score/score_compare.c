/* score_compare.c - compares the verdicts of a case with the faults that were injected.
 *
 * A case has one fault or two, each with its own right answer.  A verdict of the right kind that names one of the
 * right ranks belongs to such a fault; further ranks that it names are wrong unless another fault of that kind hurt
 * them.  Every other verdict is wrong as a whole.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "lab/score/score_private.h"

#define FAULTS 2

struct wanted { /* what must be said about one fault, and what was */
    const struct score_expect *expect;
    struct score_truth truth;
    bool flag[SCORE_RANKS], named[SCORE_RANKS];
    bool found, layer_exact;
    uint64_t steps;
    double seconds;
};

/* Who is to be named, as flags by rank. */
static void wanted_ranks(const struct score_case *at, const struct fault *fault,
                         struct wanted *want)
{
    uint32_t hurt = want->truth.rank;

    for (uint32_t rank = 0; rank < at->ranks; rank++) {
        switch (want->expect->who) {
        case SCORE_RANK:
            want->flag[rank] = rank == hurt;
            break;
        case SCORE_REPLICA: /* the other one of two has the same place in tensor and stage */
            want->flag[rank] =
                rank == hurt || (at->dp == 2 && rank % at->tp == hurt % at->tp &&
                                 rank / (at->tp * at->dp) == hurt / (at->tp * at->dp));
            break;
        case SCORE_NODE:
            want->flag[rank] = fault_node_of_rank(rank, at->ranks, at->nodes) == fault->node;
            break;
        case SCORE_STAGE: /* the trainer numbers ranks tensor first, then data, then stages */
            want->flag[rank] = rank / at->tp / at->dp == fault->stage;
            break;
        default:
            break;
        }
    }
}

static const char *score_text_of(struct json_object *object, const char *key)
{
    struct json_object *value;

    return json_object_object_get_ex(object, key, &value) ? json_object_get_string(value) : NULL;
}

static double score_compare_number_of(struct json_object *object, const char *key)
{
    struct json_object *value;

    return json_object_object_get_ex(object, key, &value) ? json_object_get_double(value) : 0;
}

static bool score_is_kind(const struct wanted *want, const char *kind)
{
    return kind && strcmp(kind, want->expect->kind) == 0;
}

/* Does the verdict speak about this fault?  `ranks` may be NULL: none. */
static bool score_speaks_of(const struct wanted *want, const char *kind, struct json_object *ranks)
{
    size_t count = ranks ? json_object_array_length(ranks) : 0;

    if (!score_is_kind(want, kind))
        return false;
    if (want->expect->who == SCORE_NOBODY)
        return count == 0;
    for (size_t i = 0; i < count; i++) {
        int64_t rank = json_object_get_int64(json_object_array_get_idx(ranks, i));

        if (rank >= 0 && rank < SCORE_RANKS && want->flag[rank])
            return true;
    }
    return false;
}

/* Marks those who are named rightly; returns how many are not. */
static uint32_t score_mark_named(struct wanted *want, size_t wants, const char *kind,
                                 struct json_object *ranks)
{
    size_t count = ranks ? json_object_array_length(ranks) : 0;
    uint32_t wrong = 0;

    for (size_t i = 0; i < count; i++) {
        int64_t rank = json_object_get_int64(json_object_array_get_idx(ranks, i));
        bool right = false;

        for (size_t k = 0; k < wants && rank >= 0 && rank < SCORE_RANKS; k++) {
            if (score_is_kind(&want[k], kind) && want[k].flag[rank])
                right = want[k].named[rank] = true;
        }
        wrong += !right;
    }
    return wrong;
}

static void score_compare_describe(struct score_result *result, const char *kind,
                                   struct json_object *verdict)
{
    const char *layer = score_text_of(verdict, "layer"), *ranks = score_text_of(verdict, "ranks");
    size_t at = strlen(result->summary);

    snprintf(result->summary + at, sizeof(result->summary) - at, "%s%s/%s ranks %s (%.2f)",
             at ? "; " : "", kind ? kind : "?", layer ? layer : "?", ranks ? ranks : "?",
             score_compare_number_of(verdict, "confidence"));
}

/* Notes what was said first and rightly; everything else is extra. */
static void compare_verdict(struct score_result *result, struct wanted *want, size_t wants,
                            struct json_object *verdict)
{
    const char *kind = score_text_of(verdict, "kind"), *layer = score_text_of(verdict, "layer");
    double confidence = score_compare_number_of(verdict, "confidence");
    bool expected = false, exact = false, spoken[FAULTS] = { false };
    struct json_object *ranks = NULL;
    uint32_t wrong = 0;

    json_object_object_get_ex(verdict, "ranks", &ranks);
    score_compare_describe(result, kind, verdict);
    for (size_t i = 0; i < wants; i++) {
        spoken[i] = score_speaks_of(&want[i], kind, ranks);
        expected |= spoken[i];
        /* One verdict may name the culprits of both faults, and has one layer: that of either is right. */
        exact |= spoken[i] &&
                 (!want[i].expect->layer || (layer && strcmp(layer, want[i].expect->layer) == 0));
    }
    for (size_t i = 0; i < wants; i++) {
        if (!spoken[i] || want[i].found)
            continue;
        want[i].found = true;
        want[i].layer_exact = exact;
        want[i].steps = (uint64_t)MAX(1, (int64_t)score_compare_number_of(verdict, "decided_step") -
                                             (int64_t)want[i].truth.step + 1);
        want[i].seconds =
            score_seconds_since(&want[i].truth, score_text_of(verdict, "decided_time"));
    }
    if (expected) {
        wrong = score_mark_named(want, wants, kind, ranks);
    } else { /* one that names nobody is no less wrong than one that names somebody */
        wrong = MAX(1, ranks ? (uint32_t)json_object_array_length(ranks) : 0);
        result->extra++;
    }
    result->wrong += wrong;
    result->verdicts++;
    confidence -= expected && exact && wrong == 0;
    result->brier += confidence * confidence;
}

/* -1: the fault was not made, and the result says why. */
static int want_fill(const struct score_case *at, const struct fault *fault,
                     struct json_object *answer, struct wanted *want, struct score_result *result)
{
    want->expect = score_expect(fault);
    score_truth_read(answer, at->also.kind ? fault : NULL, &want->truth);
    if (!want->truth.done) {
        snprintf(result->why, sizeof(result->why), "%s",
                 want->truth.method[0] ? want->truth.method : "the fault was not injected");
        result->ran = false;
        return -1;
    }
    wanted_ranks(at, fault, want);
    for (uint32_t rank = 0; rank < at->ranks; rank++)
        result->expected += want->flag[rank];
    return 0;
}

static void score_result_fill(const struct wanted *want, size_t wants, struct score_result *result)
{
    result->found = result->layer_exact = wants > 0;
    for (size_t i = 0; i < wants; i++) {
        result->found &= want[i].found;
        result->layer_exact &= want[i].layer_exact;
        result->steps = MAX(result->steps, want[i].steps);
        result->seconds = MAX(result->seconds, want[i].seconds);
        for (size_t rank = 0; rank < SCORE_RANKS; rank++)
            result->right += want[i].named[rank];
    }
}

void score_compare(const struct score_case *at, struct json_object *answer,
                   struct score_truth *truth, struct score_result *result)
{
    const struct fault *fault[FAULTS] = { &at->fault, &at->also };
    struct wanted want[FAULTS] = { 0 };
    struct json_object *verdicts;
    size_t wants = 0;

    for (size_t i = 0; i < FAULTS; i++) {
        if (fault[i]->kind && score_expect(fault[i]) &&
            want_fill(at, fault[i], answer, &want[wants++], result) < 0)
            return;
    }
    *truth = want[0].truth;
    if (json_object_object_get_ex(answer, "verdicts", &verdicts)) {
        for (size_t i = 0; i < json_object_array_length(verdicts); i++)
            compare_verdict(result, want, wants, json_object_array_get_idx(verdicts, i));
    }
    score_result_fill(want, wants, result);
}
