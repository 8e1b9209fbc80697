/* check_share.c - collects results, and leaves them for the daemon.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cmd/check/check_share.h"

#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "verify/check_report.h"
#include "verify/verify.h"

static struct check *check_share_find_ok(struct check_share *share, const char *name)
{
    for (size_t i = 0; i < share->count; i++) {
        if (share->list[i].state == CHECK_OK && strcmp(share->list[i].name, name) == 0)
            return &share->list[i];
    }
    return NULL;
}

static void check_share_add(struct check_share *share, const struct check *result)
{
    if (share->count + 1 >= CHECK_REPORT_RESULTS) /* the verdict comes last */
        return;
    if (!ARRAY_FIT(share->list, share->room, share->count + 1)) {
        share->failed = true;
        return;
    }
    share->list[share->count++] = *result;
}

void check_share_take(struct check_share *share, const struct check *result)
{
    struct check *ok = result->state == CHECK_OK ? check_share_find_ok(share, result->name) : NULL;

    if (result->state == VERIFY_NOT_APPLICABLE)
        return;
    if (!ok) {
        check_share_add(share, result);
        return;
    }
    if (result->has_value && result->value < ok->value)
        *ok = *result;
    ok->device[0] = '\0';
}

int check_share_write(struct check_share *share, const char *state, const struct check *all,
                      struct err *err)
{
    if (all && ARRAY_FIT(share->list, share->room, share->count + 1))
        share->list[share->count++] = *all;
    else if (all)
        share->failed = true;
    return share->failed ? err_nomem(err)
                         : check_report_write(state, share->list, share->count, err);
}

void check_share_fini(struct check_share *share)
{
    free(share->list);
    *share = (struct check_share){ .list = NULL };
}
