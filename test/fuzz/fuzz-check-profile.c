/* fuzz-check-profile.c - a profile of health checks: any bytes are read or refused, and what was read can be asked.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>

#include "verify/inventory.h"
#include "verify/machine_profile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct inventory inventory;
    static struct verify_report report;
    struct machine_profile *profile = NULL;
    struct machine_profile_range range;
    struct err err = { "" };

    if (machine_profile_parse((const char *)data, size, &profile, &err) < 0) {
        if (profile || !err.text[0])
            abort();
        return 0;
    }
    report.count = 0;
    inventory_compare(&inventory, profile, &report);
    if (!report.count)
        abort();
    machine_profile_range(profile, "memory-rate", &range);
    machine_profile_destroy(profile);
    return 0;
}
