/* fuzz-report.c - texts of other tools that anybody may have written, read and judged.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "autopsy/postmortem.h"
#include "core/clean.h"
#include "read/report/report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEAN(reports_fini) struct reports reports = { 0 };
    CLEAN(findings_fini) struct findings findings = { 0 };
    CLEAN(free_clean) char *text = malloc(size + 1);
    struct budget budget = { .limit = 64 << 20 };

    if (!text)
        return 0;
    memcpy(text, data, size);
    if (report_add(&reports, &budget, 7, "fuzz", text, size) == 0 &&
        report_add(&reports, &budget, 8, "fuzz", text, size) == 0)
        postmortem_reports(&reports, "fuzz", &findings);
    return 0;
}
