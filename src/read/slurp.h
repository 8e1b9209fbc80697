/* slurp.h - a file that somebody else wrote, whole, plain or gzip. */
#ifndef LOCKSTEP_READ_SLURP_H
#define LOCKSTEP_READ_SLURP_H

#include <stddef.h>

#include "core/err.h"

struct slurp {
    char *data; /* ends with a NUL that is not counted */
    size_t size;
};

/* Plain or gzip, by its first bytes.  -EFBIG when it is longer than `limit` (unpacked), -EPROTO when the
 * gzip is damaged or ends early, -EINVAL when it is no plain file.
 */
int slurp_file(const char *path, size_t limit, struct slurp *ret, struct err *err);
/* The same below a directory that is open; `path` is for the words only. */
int slurp_at(int directory, const char *name, size_t limit, struct slurp *ret, struct err *err);
void slurp_fini(struct slurp *slurp);

#endif
