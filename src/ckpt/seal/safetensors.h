/* safetensors.h - the header of a safetensors file of any program: which tensors lie where.
 *
 * Strict where it decides whether the file is complete: tensors cover the data without holes and end where the file
 * ends, shapes agree with sizes, no name occurs twice.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_SEAL_SAFETENSORS_H
#define LOCKSTEP_CKPT_SEAL_SAFETENSORS_H

#include <stdbool.h>

#include "ckpt/seal/floats.h"
#include "core/err.h"

#define SAFETENSORS_HEADER_MAX 100000000u /* as its own library has it */

struct safetensors_tensor {
    const char *name; /* in the text, no NUL at its end */
    uint32_t name_bytes;
    enum floats floats;
    uint64_t begin, end; /* in the file */
};

struct safetensors {
    char *text;                        /* the header, owned */
    struct safetensors_tensor *tensor; /* in the order of the file */
    size_t tensors, room;
    bool unknown_type; /* a tensor has one that is not in our table: its shape was not checked */
};

/* Bytes of the header, of the first eight bytes.  -EPROTO: not possible in a file of this size. */
int safetensors_header(const unsigned char first[static 8], uint64_t file_bytes, uint64_t *ret,
                       struct err *err);
/* Takes `text` over, also on failure.  -EPROTO with the reason. */
int safetensors_parse(char *text, size_t bytes, uint64_t file_bytes, struct safetensors *ret,
                      struct err *err);
void safetensors_fini(struct safetensors *file);

#endif
