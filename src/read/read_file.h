/* read_file.h - a whole file of another program, plain or packed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_READ_READ_FILE_H
#define LOCKSTEP_READ_READ_FILE_H

#include <stddef.h>

#include "core/err.h"
#include "read/budget.h"
#include "read/source/stream.h"

struct file_content {
    char *data; /* ends with a NUL that is not counted */
    size_t size, room;
    struct budget *budget; /* where its room came from */
};

/* Plain, gzip or zstd, by its first bytes.  -EFBIG when the budget does not hold it (unpacked), -EPROTO when it is
 * damaged or ends early, -EINVAL when it is no regular file.
 */
int read_file(const char *path, struct budget *budget, struct file_content *ret, struct err *err);
/* What is left of a stream. */
int read_stream(struct stream *stream, struct budget *budget, struct file_content *ret,
                struct err *err);
void read_file_fini(struct file_content *content);

#endif
