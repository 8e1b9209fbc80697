/* score_doc.h - a score as a page that people read: docs/VERDICTS.md.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_SCORE_SCORE_DOC_H
#define LOCKSTEP_LAB_SCORE_SCORE_DOC_H

#include "lab/score/score_tally.h"

struct score_doc {
    struct score_board *board;
    const struct score_case *cases;
    const struct score_result *results;
    uint32_t count;
    const char *command; /* that made it */
    const char *version;
    const char *more; /* lines for the summary, each with its end; or NULL */
};

/* Written beside it and renamed: whoever reads sees the old page or the new one. */
int score_doc_write(const struct score_doc *doc, const char *path, struct err *err);

#endif
