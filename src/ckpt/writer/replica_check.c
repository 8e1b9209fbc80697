/* replica_check.c - finds replicas that differ.
 *
 * The manifests of other ranks have the digests of what they saved.  Ranks of different parts of a model may use one name for tensors
 * that are no replicas of each other, so a slice differs only if no rank has saved it as this one has it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/writer/replica_check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/store/point.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/map.h"

#define MANIFESTS_MAX 64 /* that are read; the replicas are among the neighbours */

/* ---- digests ---- */

int slice_digests_open(struct slice_digests *digests, struct manifest *manifest,
                       const unsigned char *image, struct err *err)
{
    *digests = (struct slice_digests){ .manifest = manifest,
                                       .data = image + manifest_slices_at(manifest),
                                       .hash = manifest->slices ? ckpt_hash_create() : NULL };
    return digests->hash || !manifest->slices ? 0 : err_nomem(err);
}

void slice_digests_close(struct slice_digests *digests)
{
    ckpt_hash_destroy(digests->hash);
    digests->hash = NULL;
}

void slice_digests_add(struct slice_digests *digests, uint64_t bytes)
{
    const struct manifest *manifest = digests->manifest;

    while (bytes && digests->slice < manifest->slices) {
        struct replica_slice *slice = &manifest->slice[digests->slice];
        uint64_t size = manifest_slice_bytes(manifest, slice),
                 part = MIN(size - digests->done, bytes);

        ckpt_hash_add(digests->hash, digests->data, part);
        digests->data += part;
        digests->done += part;
        bytes -= part;
        if (digests->done < size)
            return;
        slice->digest = ckpt_hash_end(digests->hash);
        ckpt_hash_reset(digests->hash);
        digests->slice++;
        digests->done = 0;
    }
}

/* ---- comparing ---- */

enum slice_state {
    SLICE_OPEN, /* no rank has saved it so far */
    SLICE_EQUAL,
    SLICE_DIFFERS,
};

struct slice_found {
    enum slice_state state;
    uint32_t rank; /* that saved something else */
};

static bool slice_matches(const struct manifest *own, const struct replica_slice *slice,
                          const struct ckpt_tensor *other)
{
    const struct ckpt_tensor *tensor = &own->tensor[slice->tensor];

    if (tensor->dtype != other->dtype || tensor->dims != other->dims ||
        strcmp(tensor->name, other->name) != 0)
        return false;
    for (unsigned i = 0; i < tensor->dims; i++) {
        if (tensor->global_shape[i] != other->global_shape[i] ||
            (i ? tensor->shape[i] : slice->rows) != other->shape[i] ||
            (i ? tensor->offset[i] : slice->row) != other->offset[i])
            return false;
    }
    return true;
}

static int replica_slices_compare(const struct manifest *own, const struct manifest *other,
                                  struct slice_found *found, struct err *err)
{
    struct map names = { 0 };

    for (size_t i = 0; i < other->tensors; i++) {
        const char *name = other->tensor[i].name;

        if (!map_put(&names, hash64(0, name, strlen(name)), i)) {
            map_fini(&names);
            return err_nomem(err);
        }
    }
    for (size_t i = 0; i < own->slices; i++) {
        const struct replica_slice *slice = &own->slice[i];
        const char *name = own->tensor[slice->tensor].name;
        const uint64_t *at = map_get(&names, hash64(0, name, strlen(name)));

        if (found[i].state == SLICE_EQUAL || !at || !slice_matches(own, slice, &other->tensor[*at]))
            continue;
        if (memcmp(slice->digest.byte, other->tensor[*at].digest.byte,
                   sizeof(slice->digest.byte)) == 0)
            found[i].state = SLICE_EQUAL;
        else
            found[i] = (struct slice_found){ SLICE_DIFFERS, other->rank };
    }
    map_fini(&names);
    return 0;
}

static bool replica_slices_equal(const struct slice_found *found, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (found[i].state != SLICE_EQUAL)
            return false;
    }
    return true;
}

static int replica_slices_result(const struct manifest *own, const struct slice_found *found,
                                 struct err *err)
{
    const struct replica_slice *first = NULL;
    uint32_t rank = 0;
    size_t count = 0;
    char more[48] = "";

    for (size_t i = 0; i < own->slices; i++) {
        if (found[i].state != SLICE_DIFFERS)
            continue;
        rank = count++ ? rank : found[i].rank;
        first = first ? first : &own->slice[i];
    }
    if (!first)
        return 0;
    if (count > 1)
        snprintf(more, sizeof(more), ", and %zu tensors more", count - 1);
    return err_set(err, -EBADMSG,
                   "replicas differ: tensor %.160s of rank %" PRIu32 " and rank %" PRIu32
                   ", rows %" PRIu64 " to %" PRIu64 "%s",
                   own->tensor[first->tensor].name, rank, own->rank, first->row,
                   first->row + first->rows - 1, more);
}

/* The ranks behind this one come first: replicas mostly have neighbouring numbers. */
static int replica_ranks_compare(int point_fd, const struct commit *commit,
                                 const struct manifest *own, struct slice_found *found,
                                 struct err *err)
{
    uint32_t at = 0, read = 0;
    int result = 0;

    while (at < commit->group && commit->rank[at].rank != own->rank)
        at++;
    for (uint32_t i = 1; result == 0 && i < commit->group && read < MANIFESTS_MAX; i++, read++) {
        struct manifest other = { .step = 0 };

        if (replica_slices_equal(found, own->slices))
            break;
        result = point_manifest(point_fd, commit, (at + i) % commit->group, &other, err);
        if (result < 0)
            break;
        result = replica_slices_compare(own, &other, found, err);
        manifest_fini(&other);
    }
    return result;
}

int replica_check(int point_fd, const struct manifest *own, struct err *err)
{
    CLEAN(free_clean) struct slice_found *found = calloc(own->slices + 1, sizeof(*found));
    struct commit commit = { .step = 0 };
    int result;

    if (!found)
        return err_nomem(err);
    if (!own->slices)
        return 0;
    result = point_commit(point_fd, own->step, &commit, err);
    if (result < 0)
        return result;
    result = replica_ranks_compare(point_fd, &commit, own, found, err);
    commit_fini(&commit);
    return result < 0 ? result : replica_slices_result(own, found, err);
}
