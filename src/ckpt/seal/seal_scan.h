/* seal_scan.h - reads one file from begin to end, once: checksums, zeros, NaN and infinity.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_SEAL_SEAL_SCAN_H
#define LOCKSTEP_CKPT_SEAL_SEAL_SCAN_H

#include "ckpt/seal/safetensors.h"
#include "ckpt/seal/seal_file.h"

struct seal_scan {
    const struct safetensors *tensors;     /* NULL: no numbers to look at */
    void (*each)(void *ctx, size_t bytes); /* after each block; NULL: none */
    void *ctx;
    unsigned char *buffer; /* of CKPT_BLOCK bytes */
    /* Results beside those in the entry: */
    uint64_t zeros_at;                           /* from here to the end of the file all is zero */
    const struct safetensors_tensor *nan_tensor; /* the first with NaN */
    /* Its own: */
    size_t next_tensor;
    unsigned char carry[8]; /* the begin of a number that goes on in the next block */
    unsigned carried;
};

/* Sets crc, digest, nan, inf and zero_pages of *file, whose size is known.  -EPROTO: the file is shorter or longer. */
int seal_scan_file(int fd, struct seal_scan *scan, struct seal_entry *file, struct err *err);

#endif
