/* score_parts.h - the run behind a case: started, waited for, and its truth read. */
#ifndef LOCKSTEP_LAB_SCORE_PARTS_H
#define LOCKSTEP_LAB_SCORE_PARTS_H

#include <json-c/json.h>

#include "core/rand.h"
#include "lab/score.h"

struct score_truth { /* what was really injected, by the injectors' own account */
    bool done;
    uint32_t rank;   /* the first that was hurt */
    uint64_t step;   /* the first in which it acted */
    int64_t mono_ns; /* when */
    double seconds;  /* made longer, all ranks together */
    char how[160];
};

const struct fault_kind *score_kind(enum fault_id id);
void score_layout(struct score_case *at, struct rand *rand, enum fault_id id); /* one that suits */

/* score_series.c: families that have cases only when they are asked for. */
bool score_has_series(const char *family);
void score_series_case(const char *family, uint32_t number, struct rand *rand,
                       struct score_case *at);

/* Runs `lockstep demo --json` for the case.  *answer is the caller's to put; NULL: it gave none. */
int score_demo(const struct score_case *at, const char *state, struct json_object **answer,
               double *seconds, struct err *err);
void score_truth_read(struct json_object *answer, struct score_truth *ret);
/* From the injection to a time as verdicts write it. */
double score_seconds_since(const struct score_truth *truth, const char *utc);

#endif
