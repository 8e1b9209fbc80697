/* gpu_clocks.c - clocks of a GPU that are lower than they could be.
 *
 * The driver says at each moment why, and counts for how long.  A GPU that is slowed for half a second in every two is often
 * well at the moment when it is asked, so the counter is read, too.  The power limit lowers the clocks of any busy GPU and is
 * no fault.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>

#include "core/clean.h"
#include "core/time.h"
#include "sense/gpu/gpu_look.h"
#include "wire/decision.h"

#define HOT_PERCENT 10               /* of the time between two answers */
#define HOT_LASTS_NS (60 * NS_PER_S) /* a finding ends after such a time without */

/* "SM clock 1200 of 1980 MHz, 84 C, SMs active 97 % of the time": what is known. */
static void clocks_numbers(const struct gpu_clocks *clocks, const struct gpu_look *look, char *out,
                           size_t room)
{
    int64_t celsius = gpu_look_value(look, NVML_TEMPERATURE_C);
    size_t used = (size_t)snprintf(out, room, "SM clock %lld of %lld MHz",
                                   (long long)gpu_look_value(look, NVML_SM_CLOCK_MHZ),
                                   (long long)gpu_look_value(look, NVML_SM_CLOCK_MAX_MHZ));

    if (celsius >= 0)
        used += (size_t)snprintf(out + used, room - used, ", %lld C", (long long)celsius);
    if (clocks->sm_active >= 0)
        snprintf(out + used, room - used, ", SMs active %lld %% of the time",
                 (long long)clocks->sm_active);
}

static void clocks_report(const struct gpu_clocks *clocks, const struct gpu_look *look,
                          uint8_t kind, uint8_t severity, int64_t code, const char *what)
{
    char numbers[120];
    struct finding finding;

    clocks_numbers(clocks, look, numbers, sizeof(numbers));
    finding = sense_finding(look->now, kind, FINDING_CLASS_HARDWARE, severity, look->device,
                            "GPU %s: %s, %s", look->device, what, numbers);
    finding.code = (uint32_t)code;
    finding.action = ACTION_INSPECT;
    sense_hold(look->report, &finding);
}

static void clocks_take(struct gpu_clocks *clocks, const struct gpu_look *look)
{
    int64_t heat = gpu_look_value(look, NVML_SLOWED_BY_HEAT_NS);
    int64_t passed_ns = look->read_ns - clocks->read_ns, grown;

    if (clocks->read_ns && passed_ns <= 0)
        return; /* the answer was judged before */
    if (!clocks->read_ns)
        clocks->sm_active = -1;
    if (nvml_has(look->sample, NVML_SM_ACTIVE_PERCENT))
        clocks->sm_active = gpu_look_value(look, NVML_SM_ACTIVE_PERCENT);
    grown = heat < 0 ? 0 : tree_counter_grown(&clocks->heat, heat);
    if (clocks->read_ns && grown * 100 >= HOT_PERCENT * passed_ns) {
        clocks->heat_percent = MIN(grown * 100 / passed_ns, INT64_C(100));
        clocks->hot_ns = look->now->mono_ns;
    }
    clocks->read_ns = look->read_ns;
}

void gpu_clocks_judge(struct gpu_clocks *clocks, const struct gpu_look *look)
{
    static const struct {
        int64_t bit;
        uint8_t kind, severity;
        const char *what;
    } reasons[] = {
        { NVML_REASON_POWER_BRAKE, FINDING_GPU_POWER, FINDING_ERROR, "power brake" },
        { NVML_REASON_HW_THERMAL, FINDING_GPU_CLOCK, FINDING_ERROR, "too hot, hardware slowdown" },
        { NVML_REASON_SW_THERMAL, FINDING_GPU_CLOCK, FINDING_WARN,
          "too hot, slowed by the driver" },
        { NVML_REASON_HW_SLOWDOWN, FINDING_GPU_CLOCK, FINDING_WARN, "hardware slowdown" },
    };
    int64_t bits = gpu_look_value(look, NVML_CLOCK_REASONS);
    char what[80];

    clocks_take(clocks, look);
    for (size_t i = 0; bits > 0 && i < COUNT(reasons); i++) {
        if (!(bits & reasons[i].bit))
            continue;
        clocks_report(clocks, look, reasons[i].kind, reasons[i].severity, reasons[i].bit,
                      reasons[i].what);
        return; /* the first one says most */
    }
    if (!clocks->hot_ns || look->now->mono_ns - clocks->hot_ns > HOT_LASTS_NS)
        return;
    snprintf(what, sizeof(what), "too hot, slowed %lld %% of the time",
             (long long)clocks->heat_percent);
    /* the same condition as the driver's own word for it */
    clocks_report(clocks, look, FINDING_GPU_CLOCK, FINDING_WARN, NVML_REASON_SW_THERMAL, what);
}
