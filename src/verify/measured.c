/* measured.c - is a measured value as it is on good nodes?
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "verify/measured.h"

#include <stdio.h>

#include "core/clean.h"
#include "judge/median.h"
#include "verify/machine_profile.h"

#define FAILED_SHARE 0.5 /* half of what good ones have is no spread: something is broken */
#define SLOW_SHARE 0.85  /* of the median of peers: they differ by a few percent */
#define PEERS_MIN 3

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

struct check *measured_latency(struct verify_report *report, const struct machine_profile *profile,
                               const char *name, const char *device, double value, const char *unit)
{
    struct machine_profile_range range = { 0 };
    bool known = profile && machine_profile_range(profile, name, &range);
    struct check *result;

    if (known)
        result = verify_result(report, value > range.high ? CHECK_LIMITED : CHECK_OK, device,
                               "%.3f %s, at most %.3f expected (median of %u good nodes %.3f)",
                               value, unit, range.high, range.samples, range.median);
    else
        result = verify_result(report, CHECK_OK, device,
                               "%.3f %s; compared with nothing: no profile has it", value, unit);
    snprintf(result->name, sizeof(result->name), "%s", name);
    result->has_value = true;
    result->value = value;
    result->has_expected = known;
    result->expected = range.high;
    snprintf(result->unit, sizeof(result->unit), "%s", unit);
    return result;
}

void measured_compare(struct check *result, double *peer, unsigned peers)
{
    double common = median_f64(peer, peers);

    if (peers < PEERS_MIN || result->value >= SLOW_SHARE * common)
        return;
    result->state = (uint8_t)verify_worst(
        result->state, result->value < FAILED_SHARE * common ? CHECK_FAILED : CHECK_LIMITED);
    snprintf(result->why, sizeof(result->why), "%.1f %s, median of %u GPUs of this machine %.1f",
             result->value, result->unit, peers, common);
    result->has_expected = true;
    result->expected = MAX(result->expected, SLOW_SHARE * common);
}
