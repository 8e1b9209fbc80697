/* measured.c - is a measured value as it is on good nodes?
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "verify/measured.h"

#include <stdio.h>

#include "core/clean.h"
#include "verify/machine_profile.h"

#define FAILED_SHARE 0.5 /* half of what good nodes have is no spread: something is broken */

struct check *measured_result(struct verify_report *report, const struct machine_profile *profile,
                              const char *name, const char *device, double value, const char *unit)
{
    struct machine_profile_range range = { 0 };
    bool known = profile && machine_profile_range(profile, name, &range);
    struct check *result;

    if (known && value < range.low)
        result = verify_result(
            report, value < FAILED_SHARE * range.median ? CHECK_FAILED : CHECK_LIMITED, device,
            "%.1f %s, at least %.1f expected (median of %u good nodes %.1f)", value, unit,
            range.low, range.samples, range.median);
    else if (known)
        result = verify_result(report, CHECK_OK, device, "%.1f %s, median of %u good nodes %.1f",
                               value, unit, range.samples, range.median);
    else
        result = verify_result(report, CHECK_OK, device,
                               "%.1f %s; compared with nothing: no profile has it", value, unit);
    snprintf(result->name, sizeof(result->name), "%s", name);
    result->has_value = true;
    result->value = value;
    result->has_expected = known;
    result->expected = range.low;
    snprintf(result->unit, sizeof(result->unit), "%s", unit);
    return result;
}
