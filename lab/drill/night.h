/* night.h - what became of a night of `lockstep drill --two-am`: from the files that two-am.sh collected to a page.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_DRILL_NIGHT_H
#define LOCKSTEP_LAB_DRILL_NIGHT_H

#include "core/err.h"
#include "lab/drill/drill_page.h"

#define NIGHT_DETECT_BAR_S 15.0
#define NIGHT_FIRST_STEP_BAR_S 10.0

struct night_plan { /* drawn from the seed; what two-am.sh was told */
    uint64_t seed, step;
    uint32_t rank;
    const char *fault; /* slow-disk, lost-gpu */
    const char *death; /* of a rank whose GPU is lost: abort, stop */
};

void night_plan_draw(uint64_t seed, struct night_plan *ret);

/* -ENODATA: the drill did not get so far that there is anything to judge, with the reason. */
int night_read(const char *directory, const struct night_plan *plan, struct drill_page *ret,
               struct err *err);

#endif
