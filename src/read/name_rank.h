/* name_rank.h - the rank in the name of a file or folder.
 *
 * A number is a rank only where a word before it says so (rank, r, worker, gpu, dump, trace), or where the names of other
 * files count from 0 to n-1 in its place.  "node3.log" and "slurm-4711.out" name no rank; "rank3_pid1003.pkl" does.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_READ_NAME_RANK_H
#define LOCKSTEP_READ_NAME_RANK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NAME_NO_RANK UINT32_MAX

struct name_rank {
    uint32_t rank; /* NAME_NO_RANK */
    bool local;    /* "local_rank3" */
};

struct name_rank name_rank(const char *path);
uint32_t name_number(const char *path); /* at the end of the name, or of its folder; NAME_NO_RANK */

/* "train.log.2.gz" is part 2 of "train.log": returns 2 and the bytes of that name; else 0 and all of it. */
uint32_t name_part(const char *path, size_t *bytes);

/* Fills `rank` of those paths that have none by a word, where siblings count 0..n-1.  If the same file lies in several
 * folders, ranks count on each node, and none is kept.  -ENOMEM.
 */
int name_ranks(const char *const *path, size_t count, struct name_rank *rank);

#endif
