/* shard.h - one rank's part of a checkpoint, in a file that is whole or not there.
 *
 * Written under a temporary name, synced, renamed, and the directory synced: after a crash
 * at any moment a file with a shard's name holds all of it.  Should the disk have lied, the
 * checksum says so.  Nothing in a shard is trusted before that.
 *
 * Layout, little-endian: magic u64, version u32, bytes of the rest of the head u32, step u64,
 * seed u64, rank, world, tp, pp, dp, values u32 each, crc32c u32 of the head so far; then the
 * values as floats, then crc32c u32 of those.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_TRAINER_SHARD_H
#define LOCKSTEP_LAB_TRAINER_SHARD_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

#define SHARD_MAGIC UINT64_C(0x3144524148534b4c) /* "LKSHARD1" */
#define SHARD_VERSION 1
#define SHARD_VALUES_MAX (64u << 20)

struct shard {
    uint64_t step; /* the next step to run */
    uint64_t seed;
    uint32_t rank, world, tp, pp, dp;
    uint32_t count;
    const float *value; /* when read: into the caller's bytes, or NULL; see shard_get */
};

struct buf;
void shard_put(struct buf *out, const struct shard *shard);
/* Checks everything.  -EPROTO with the reason.  *values points into `data` and need not be aligned. */
int shard_get(const void *data, size_t bytes, struct shard *ret, const void **values,
              struct err *err);

int shard_write(const char *dir, const struct shard *shard, struct err *err);
/* Reads the shard of `want`'s rank and step into `value`, and checks that it was made by the same
 * run: seed, world, layout, count.  -EPROTO: damaged; -ESTALE: of another run.
 */
int shard_read(const char *dir, const struct shard *want, float *value, struct err *err);

/* The steps for which this rank has a file, newest first.  Returns how many. */
int shard_list(const char *dir, uint32_t rank, uint64_t *step, size_t room, struct err *err);
/* Removes this rank's shards up to `step` but the newest `keep` of them, and what a crash left
 * half written.
 */
int shard_prune(const char *dir, uint32_t rank, uint64_t step, size_t keep, struct err *err);

#endif
