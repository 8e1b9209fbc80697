/* page_save.h - the page of a run as one file, which works without a controller and without a network.
 *
 * It holds what the API would answer: the summary, the newest steps, the ledger, ranks and nodes; of the matrix the coarse
 * levels whole and the fine ones around each verdict; of single steps those of verdicts.  The page says where that ends.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_SITE_API_PAGE_SAVE_H
#define LOCKSTEP_CONTROL_SITE_API_PAGE_SAVE_H

#include <json-c/json.h>

#include "core/err.h"

/* `file`: replaced when all of it is written.  `report`: the score card, as JSON; NULL: the page has none.  -ENOENT: the run has no
 * log; -errno.
 */
int page_save(const char *run_dir, const char *file, struct json_object *report, struct err *err);

#endif
