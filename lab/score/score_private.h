/* score_private.h - the run behind a case: started, waited for, and its truth read.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_SCORE_SCORE_PRIVATE_H
#define LOCKSTEP_LAB_SCORE_SCORE_PRIVATE_H

#include <limits.h>
#include <sys/types.h>

#include <json-c/json.h>

#include "core/rand.h"
#include "lab/score/score.h"

struct score_truth { /* what was really injected, by the injectors' own account */
    bool done;
    uint32_t rank;   /* the first that was hurt */
    uint32_t pid;    /* its process; 0: not told */
    uint64_t step;   /* the first in which it acted */
    int64_t mono_ns; /* when */
    double seconds;  /* made longer, all ranks together */
    char method[160];
};

const struct fault_kind *score_kind(enum fault_id id);
/* One that suits the fault, of so many ranks where there is one; 0: of any size. */
void score_layout(struct score_case *at, struct rand *rand, enum fault_id id, uint32_t ranks);
/* The first, middle or last of so many, as `which` goes round. */
uint32_t score_place(uint32_t which, uint32_t count);
uint32_t score_size(uint32_t which); /* 4, 8 or 16 ranks */
const struct score_expect *score_expects(size_t *count);

/* score_series.c: the cases of each family, down to score_torch_case().  Families that have cases only when they are asked
 * for:
 */
bool score_has_series(const char *family);
void score_series_case(const char *family, uint32_t number, struct rand *rand,
                       struct score_case *at);
const char *score_series_name(uint32_t which); /* NULL: there are no more */
uint32_t score_series_faults(uint32_t which);

/* Two faults at once. */
#define SCORE_PAIRS 8
void score_pair_case(uint32_t number, struct rand *rand, struct score_case *at);

/* Links that are slow or cut. */
#define SCORE_LINK 2
void score_link_case(uint32_t number, struct rand *rand, struct score_case *at);

/* Transfers over fewer channels. */
#define SCORE_CHANNELS 2
void score_channels_case(uint32_t number, struct rand *rand, struct score_case *at);

/* What takes many steps to be sure of. */
#define SCORE_SLOWLY 4
void score_slowly_case(uint32_t number, struct rand *rand, struct score_case *at);

/* Storage that answers late. */
#define SCORE_STORAGE 4
void score_storage_case(uint32_t number, struct rand *rand, struct score_case *at);

/* The same faults in a training by PyTorch. */
#define SCORE_TORCH 18
void score_torch_case(uint32_t number, struct rand *rand, struct score_case *at);

/* score_nccl.c: the same faults in jobs that report what a job on GPUs reports. */
#define SCORE_NCCL 10
void score_nccl_case(uint32_t number, struct rand *rand, struct score_case *at);

/* score_kernel.c: what a kernel would have said, laid beside a run that really died. */
void score_kernel_case(uint32_t number, struct rand *rand, struct score_case *at);
/* The verdicts of the answer become those of `lockstep why`, read again with that log. */
int score_kernel_join(const struct score_case *at, const char *state, struct json_object *answer,
                      struct err *err);
const char *score_kernel_name(const struct fault *fault); /* NULL: there is no such log */

/* score_sensors.c: a tree that the agents of the run read. */
struct sensors_scene {
    char tree[PATH_MAX];
    pid_t pid; /* who changes it; 0: there is none */
};
void score_sensors_case(uint32_t number, struct rand *rand, struct score_case *at);
const char *score_sensors_name(const struct fault *fault); /* NULL: there is no such tree */
/* Nothing happens for other cases.  The demo inherits where the tree is. */
int score_sensors_begin(const struct score_case *at, struct sensors_scene *scene, struct err *err);
void score_sensors_end(struct sensors_scene *scene);

/* What `lockstep why --json` of this directory says; NULL: nothing.  The caller's to put. */
struct json_object *score_why(const char *directory, const char *state);
/* Runs `lockstep demo --json` for the case, and stops it when it goes on far too long.  *answer is the caller's to
 * put; NULL: it gave none, and result->why says why.
 */
int score_demo(const struct score_case *at, const char *state, struct json_object **answer,
               struct score_result *result, struct err *err);
/* Of this fault alone; NULL: of whatever was done. */
void score_truth_read(struct json_object *answer, const struct fault *fault,
                      struct score_truth *ret);
/* From the injection to a time as verdicts write it. */
double score_seconds_since(const struct score_truth *truth, const char *utc);

/* score_compare.c: the answer's verdicts into the result.  *truth is of the first fault; where a fault was not
 * made, result->ran is false and says why.
 */
void score_compare(const struct score_case *at, struct json_object *answer,
                   struct score_truth *truth, struct score_result *result);

/* ledger_scores.c */
void score_ledger_read(struct json_object *answer, const struct score_truth *truth,
                       struct score_ledger *ret);

#endif
