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

/* {buckets: {name: GPU-seconds}, ranks, wall_seconds, goodput, ettr, steps, unfit_steps, host_view} */
struct json_object *ledger_json(const struct ledger *ledger);

/* A table with shares; buckets without a second are left out, but never `unattributed`. */
void ledger_text(const struct ledger *ledger, const struct show_style *style, FILE *out);

#endif
