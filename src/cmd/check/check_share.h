/* check_share.h - the results of a whole `lockstep check` for the daemon of this node, which sends them to the site's controller.
 *
 * Each result that is not ok is a row; those of one name that are ok are one row together, with the lowest value, because a site
 * keeps a limited number of rows for each node.  The last row is the verdict of the stage.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CMD_CHECK_CHECK_SHARE_H
#define LOCKSTEP_CMD_CHECK_CHECK_SHARE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"
#include "wire/finding.h"

struct check_share {
    struct check *list;
    size_t count, room;
    bool failed; /* no memory: nothing is written */
};

void check_share_take(struct check_share *share, const struct check *result);
/* `all`: the verdict of the stage; NULL: it was not whole. */
int check_share_write(struct check_share *share, const char *state, const struct check *all,
                      struct err *err);
void check_share_fini(struct check_share *share);

#endif
