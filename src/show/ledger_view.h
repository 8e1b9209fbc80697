/* ledger_view.h - where the GPU-seconds went, for people and for programs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SHOW_LEDGER_VIEW_H
#define LOCKSTEP_SHOW_LEDGER_VIEW_H

#include <stdio.h>

#include <json-c/json.h>

#include "show/style.h"
#include "wire/facts.h"

/* Effective training time ratio: productive / wall, per rank that trains, that is
 * productive GPU-seconds / (all − spare − down GPU-seconds).  Goodput counts spare and down places
 * too; without them both are the same.  0 when there is nothing to divide by.
 */
double ledger_ettr(const struct ledger *ledger);

/* {buckets: {name: GPU-seconds}, ranks, wall_seconds, goodput, ettr, steps, unfit_steps, host_view} */
struct json_object *ledger_json(const struct ledger *ledger);

/* A table with shares; buckets without a second are left out, but never `unattributed`. */
void ledger_text(const struct ledger *ledger, const struct show_style *style, FILE *out);

#endif
