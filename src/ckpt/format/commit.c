/* commit.c - writes and reads the file COMMIT.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/format/commit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"

static const char magic[8] = { 'L', 'S', 'C', 'K', 'C', 'O', 'M', 'M' };
#define VERSION 1
#define RANK_BYTES (4 + 8 + 8 + 16)

void commit_fini(struct commit *commit)
{
    free(commit->rank);
    *commit = (struct commit){ .step = 0 };
}

void commit_encode(const struct commit *commit, struct buf *out)
{
    size_t begin = out->size;

    buf_put(out, magic, sizeof(magic));
    buf_put_u32(out, VERSION);
    buf_put_u32(out, 0);
    buf_put_u64(out, commit->step);
    buf_put_u64(out, commit->job);
    buf_put_u32(out, commit->world);
    buf_put_u32(out, commit->group);
    for (uint32_t i = 0; i < commit->group; i++) {
        const struct commit_rank *rank = &commit->rank[i];

        buf_put_u32(out, rank->rank);
        buf_put_u64(out, rank->manifest_bytes);
        buf_put_u64(out, rank->file_bytes);
        buf_put(out, rank->manifest.byte, sizeof(rank->manifest.byte));
    }
    if (!out->failed)
        buf_put_u32(out, crc32c(0, out->data + begin, out->size - begin));
}

static int commit_ranks_get(struct reader *in, struct commit *ret, struct err *err)
{
    if (!ARRAY_FIT_ZERO(ret->rank, ret->rank_room, ret->group))
        return err_nomem(err);
    for (uint32_t i = 0; i < ret->group; i++) {
        struct commit_rank *rank = &ret->rank[i];
        const void *digest;

        rank->rank = reader_get_u32(in);
        rank->manifest_bytes = reader_get_u64(in);
        rank->file_bytes = reader_get_u64(in);
        digest = reader_get(in, sizeof(rank->manifest.byte));
        if (!digest || rank->rank >= ret->world || (i && rank->rank <= rank[-1].rank) ||
            rank->file_bytes > UINT64_C(1) << 62)
            return err_set(err, -EPROTO, "entry %u of COMMIT is not valid", i);
        memcpy(rank->manifest.byte, digest, sizeof(rank->manifest.byte));
    }
    return 0;
}

int commit_parse(const void *data, size_t size, struct commit *ret, struct err *err)
{
    struct reader in = reader_of(data, size < 4 ? 0 : size - 4),
                  last =
                      reader_of((const char *)data + (size < 4 ? 0 : size - 4), size < 4 ? 0 : 4);
    struct commit made = { .step = 0 };
    const void *start = reader_get(&in, sizeof(magic));
    uint32_t version = reader_get_u32(&in), flags = reader_get_u32(&in);
    int result;

    if (in.bad || memcmp(start, magic, sizeof(magic)) != 0)
        return err_set(err, -EPROTO, "not a COMMIT file");
    if (version != VERSION)
        return err_set(err, -EPROTO, "COMMIT of version %u, this program reads %d", version,
                       VERSION);
    if (reader_get_u32(&last) != crc32c(0, data, size - 4) || flags)
        return err_set(err, -EPROTO, "checksum of COMMIT is wrong");
    made.step = reader_get_u64(&in);
    made.job = reader_get_u64(&in);
    made.world = reader_get_u32(&in);
    made.group = reader_get_u32(&in);
    if (in.bad || !made.group || made.group > made.world || made.world > CKPT_RANKS_MAX ||
        made.step == UINT64_MAX || reader_left(&in) != (size_t)made.group * RANK_BYTES)
        return err_set(err, -EPROTO, "sizes in COMMIT contradict each other");
    result = commit_ranks_get(&in, &made, err);
    if (result < 0)
        commit_fini(&made);
    else
        *ret = made;
    return result;
}
