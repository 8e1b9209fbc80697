/* tensor_layout.h - where each tensor lies in the file, and the header of the file.
 *
 * The file is one that readers of safetensors know: the size of a JSON text, the text, the tensors without holes.  The text
 * is padded so that the tensors begin at a page, and they are ordered by the size of their elements, so that each is
 * aligned.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_FORMAT_TENSOR_LAYOUT_H
#define LOCKSTEP_CKPT_FORMAT_TENSOR_LAYOUT_H

#include "ckpt/format/manifest.h"

/* Orders the tensors (`order[i]` is where the i-th of the file was before), sets their places, file_bytes and data_at,
 * and appends the bytes before the data section to *header.  -EINVAL: a tensor is not valid; -EEXIST: two have one name.
 */
int layout_make(struct manifest *manifest, size_t *order, struct buf *header, struct err *err);
/* The same for programs that know nothing of parts of tensors: true data types, no further metadata. */
int layout_make_plain(struct manifest *manifest, size_t *order, struct buf *header,
                      struct err *err);
/* A name as a JSON string. */
void layout_name_put(struct buf *out, const char *name);

#endif
