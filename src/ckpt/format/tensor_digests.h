/* tensor_digests.h - the digest of each tensor of a file whose bytes arrive in order.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_FORMAT_TENSOR_DIGESTS_H
#define LOCKSTEP_CKPT_FORMAT_TENSOR_DIGESTS_H

#include "ckpt/format/manifest.h"

struct tensor_digests {
    const struct manifest *manifest;
    /* Each tensor, in the order of the file.  < 0 ends the run. */
    int (*each)(void *ctx, size_t tensor, const struct ckpt_digest *digest, struct err *err);
    void *ctx;
    struct ckpt_hash *hash;
    size_t tensor; /* the one whose bytes come next */
};

int tensor_digests_open(struct tensor_digests *digests,
                        struct err *err); /* with all but hash and tensor set */
void tensor_digests_close(struct tensor_digests *digests);
/* The next bytes of the file, from `at` on; those before the first tensor are skipped. */
int tensor_digests_add(struct tensor_digests *digests, uint64_t at, const unsigned char *data,
                       size_t size, struct err *err);

#endif
