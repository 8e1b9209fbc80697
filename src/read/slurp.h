/* slurp.h - a file that somebody else wrote, whole, plain or gzip. */
#ifndef LOCKSTEP_READ_SLURP_H
#define LOCKSTEP_READ_SLURP_H

#include <stddef.h>

#include "core/err.h"
#include "read/budget.h"

struct slurp {
    char *data; /* ends with a NUL that is not counted */
    size_t size, room;
    struct budget *budget; /* where its room came from */
};

/* Plain or gzip, by its first bytes.  -EFBIG when the budget does not hold it (unpacked), -EPROTO when the
 * gzip is damaged or ends early, -EINVAL when it is no plain file.
 */
int slurp_file(const char *path, struct budget *budget, struct slurp *ret, struct err *err);
void slurp_fini(struct slurp *slurp);

#endif
