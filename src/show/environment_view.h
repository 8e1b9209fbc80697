/* environment_view.h - in what the environments of ranks, attempts or runs differ.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SHOW_ENVIRONMENT_VIEW_H
#define LOCKSTEP_SHOW_ENVIRONMENT_VIEW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <json-c/json.h>

#include "wire/finding.h"

#define ENVIRONMENT_DIFFERENCES 8

/* Between ranks: `usual` is the value that most have, `other` one that some have.  Between attempts or runs: `usual` is what
 * most had before, `other` what most have now.
 */
struct environment_difference {
    char name[FACT_NAME];        /* "NCCL_ALGO", "kernel", "libnccl" */
    bool digest;                 /* the values are digests */
    char usual[128], other[128]; /* "": not set */
    uint32_t usual_ranks, other_ranks,
        other_rank;       /* other_rank: the lowest; UINT32_MAX: not known */
    char node[FACT_NAME]; /* that all ranks with `other` are on; "": several */
};

struct environment_differences {
    uint32_t ranks;  /* whose environment is known; 0: nothing is known */
    uint32_t before; /* the same of the attempt or run before */
    uint32_t count;  /* all; the array has the first ones */
    struct environment_difference list[ENVIRONMENT_DIFFERENCES];
};

/* "  libnccl: libnccl.so.2.27.3 on 8 ranks (node n7), libnccl.so.2.28.9 on 504 others", one line each. */
void environment_ranks_text(const struct environment_differences *differences, FILE *out);
/* "  NCCL_ALGO: Tree, before: Ring", one line each. */
void environment_changes_text(const struct environment_differences *differences, FILE *out);
/* [{name, digest, usual, usual_ranks, value, ranks, rank, node}]; the caller puts it. */
struct json_object *environment_ranks_json(const struct environment_differences *differences);
/* [{name, digest, before, before_ranks, after, after_ranks}] */
struct json_object *environment_changes_json(const struct environment_differences *differences);

#endif
