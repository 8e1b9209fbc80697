/* publish.h - makes a point of the files of all ranks: COMMIT, and the final name.
 *
 * Every rank's writer works alone, in the same hidden directory.  Whoever finds all manifests there writes COMMIT; link(2) lets
 * exactly one of them win.  A point counts as committed once COMMIT is there.  The final name is for people and other
 * programs; a writer that dies before the rename leaves it to the next one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_STORE_PUBLISH_H
#define LOCKSTEP_CKPT_STORE_PUBLISH_H

#include "ckpt/format/manifest.h"

struct publish {
    int parent_fd, fd; /* parent_fd belongs to the caller */
    uint64_t step, job;
    uint32_t rank, world, group;
    bool
        again; /* this rank has failed to save this step before: marks of failures are of that time */
    char part[96]; /* name of the hidden directory */
};

/* Makes the hidden directory, or opens the one that another rank made. */
int publish_open(struct publish *publish, struct err *err); /* with all but fd and part set */
void publish_close(struct publish *publish);
/* Before the job trains: what the rank could not save at an earlier start with the same number, or before it went back to an
 * older step, it may save now.  Every rank does this for its own marks; for `all` of them where the directory may have had other
 * ranks.
 */
void publish_failures_forget(int parent_fd, uint64_t job, uint32_t rank, bool all);
/* After the file of tensors is synced and has its name. */
int publish_manifest(const struct publish *publish, const struct manifest *manifest,
                     struct ckpt_digest *ret_digest, struct err *err);
/* This rank cannot save it.  The others learn it from rank-NNNNN.failed, and need not wait.  What it has written is removed. */
void publish_fail(const struct publish *publish, const char *why);
/* Another rank cannot, as publish_try() has said: what this one has written is of no use, and takes room that the next save needs. */
void publish_give_up(const struct publish *publish, const char *why);
/* 1: the point is committed and has its name; 0: ranks are missing; -ECANCELED: one of them cannot save it. */
int publish_try(const struct publish *publish, struct err *err);
/* -ECANCELED: a rank cannot save it, so that writing this one's part is of no use. */
int publish_failure_look(const struct publish *publish, struct err *err);
/* The ranks that have not saved it: "rank 3 and 5", "4 of 8 ranks". */
void publish_missing_text(const struct publish *publish, char *out, size_t room);

#endif
