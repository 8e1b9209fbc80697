/* fuzz-optrace.c - an op-level trace that anybody may have written, read and replayed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "core/clean.h"
#include "judge/compare/whatif.h"
#include "read/optrace_csv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A worker that is made ideal cannot make a step end before it begins. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEAN(optrace_fini) struct optrace trace = { 0 };
    CLEAN(whatif_plan_fini) struct whatif_plan plan = { 0 };
    CLEAN(whatif_fini) struct whatif whatif = { 0 };
    struct err err;

    if (optrace_csv_read((const char *)data, size, &trace, &err) < 0 || trace.count > 4096)
        return 0;
    if (whatif_plan_pipeline(&trace, &plan, &err) < 0 || whatif_run(&plan, &whatif) < 0)
        return 0;
    if (!(whatif.mean.ideal >= 0) || !(whatif.S >= 0) || !(whatif.worst_workers.without >= 0))
        abort();
    return 0;
}
