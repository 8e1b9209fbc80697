/* seal.h - seals a checkpoint directory of any program, and compares it with its seal.
 *
 * A seal says what each file was, so that a later change, loss or addition is found.  It is made only of a directory in which nothing
 * wrong was found.  The files of the checkpoint are never changed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_SEAL_SEAL_H
#define LOCKSTEP_CKPT_SEAL_SEAL_H

#include "ckpt/seal/seal_file.h"

struct seal_run {
    bool allow_nan, allow_zeros;
    unsigned threads; /* 0: as many as are useful */
    /* Called by one thread at a time; NULL: none. */
    void (*progress)(void *ctx, uint64_t done_bytes, uint64_t bytes);
    void *ctx;
};

/* Syncs and reads every file and checks all of them; writes nothing.  -EPROTO: refused, err says why.  -ENODATA: no files. */
int seal_make(int dir_fd, const struct seal_run *run, struct seal *ret, struct err *err);
/* A crash leaves the old seal, the new one or none. */
int seal_write(int dir_fd, const struct seal *seal, struct err *err);
int seal_read(int dir_fd, struct seal *ret,
              struct err *err); /* -ENOENT: not sealed; -EPROTO: damaged */
/* 0: all files are as sealed.  -EPROTO: refused, err says why. */
int seal_verify(int dir_fd, const struct seal *seal, const struct seal_run *run, struct err *err);
/* The same by names and sizes only. */
int seal_verify_sizes(int dir_fd, const struct seal *seal, struct err *err);
/* Whether `found` has exactly the files of `seal`; `contents`: checksums as well. */
int seal_compare(const struct seal *seal, const struct seal *found, bool contents, struct err *err);
/* Of the name of a directory: a number behind "step", "iter", "checkpoint", "ckpt" or "epoch"; else SEAL_NO_STEP. */
uint64_t seal_step_of(const char *name);

#endif
