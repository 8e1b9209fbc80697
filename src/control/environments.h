/* environments.h - the environments of a run's ranks, and in what they differ.
 *
 * Bounded: of all ranks each distinct pair of name and value stays, with the number of its ranks; of the attempt before the
 * same.  A difference is evidence for a person, and no verdict by itself.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_ENVIRONMENTS_H
#define LOCKSTEP_CONTROL_ENVIRONMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/map.h"
#include "show/environment_view.h"
#include "wire/finding.h"

#define ENVIRONMENTS_PAIRS 4096

struct rank_pair {
    struct environment_pair pair;
    uint32_t ranks, first_rank; /* that have it */
    char node[FACT_NAME];       /* that these are on; "": several */
};

struct environments_attempt {
    struct rank_pair *pair;
    size_t pairs, room;
    uint32_t attempt, ranks; /* ranks: that are counted */
    uint64_t forgotten;      /* pairs beyond the bound */
};

struct environments {
    struct environments_attempt now, before; /* the newest attempt, and the one before that */
    struct map pair_by_content, rank;        /* of the newest */
};

void environments_fini(struct environments *environments);
size_t environments_bytes(const struct environments *environments);
/* A rank that is counted already, or of an earlier attempt, has no effect.  -ENOMEM. */
int environments_add(struct environments *environments, const struct environment *environment);

/* Ranks of the newest attempt.  A value of which each rank has its own is no difference.  -ENOMEM. */
int environments_compare_ranks(const struct environments *environments,
                               struct environment_differences *ret);
/* What most ranks of one attempt have, and of another.  -ENOMEM. */
int environments_compare(const struct environments_attempt *before,
                         const struct environments_attempt *after,
                         struct environment_differences *ret);

#endif
