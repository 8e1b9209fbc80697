/* gpu_links.c - NVLinks of a GPU: state, speed, errors, and the switches that they lead to.
 *
 * A link that was never up is not in use, and no fault.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "sense/gpu/gpu_look.h"

#include "core/clean.h"
#include "wire/decision.h"

#define REPEATS_LEAST 100 /* replays or checksum errors in one read of the links */

static int64_t links_grown(struct tree_counter *counter, int64_t value)
{
    return value < 0 ? 0 : tree_counter_grown(counter, value);
}

void gpu_links_take(struct gpu_links *links, const struct nvml_link *link, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct gpu_link *one = &links->link[i];

        one->now = link[i];
        one->was_up |= link[i].there && link[i].up;
        one->best_mbps = MAX(one->best_mbps, link[i].speed_mbps);
        one->replays = links_grown(&one->replays_seen, link[i].replays);
        one->recoveries = links_grown(&one->recoveries_seen, link[i].recoveries);
        one->crc_errors = links_grown(&one->crc_seen, link[i].crc_errors);
    }
    links->count = MAX(links->count, count); /* one that is not listed any more is as it was */
}

static void links_errors(struct gpu_link *link, unsigned number, const struct gpu_look *look)
{
    const struct {
        int64_t *grown;
        const char *what;
        int64_t least;
    } kinds[] = { { &link->recoveries, "recoveries", 1 },
                  { &link->crc_errors, "checksum errors", REPEATS_LEAST },
                  { &link->replays, "repeated packets", REPEATS_LEAST } };

    for (size_t i = 0; i < COUNT(kinds); i++) {
        if (*kinds[i].grown >= kinds[i].least) {
            struct finding finding =
                sense_finding(look->now, FINDING_NVLINK, FINDING_CLASS_FABRIC, FINDING_WARN,
                              look->device, "NVLink %u of GPU %s: %lld %s", number, look->device,
                              (long long)*kinds[i].grown, kinds[i].what);

            finding.code = number + 1;
            finding.count = (uint32_t)MIN(*kinds[i].grown, (int64_t)UINT32_MAX);
            sense_report(look->report, &finding, 0);
        }
        *kinds[i].grown = 0;
    }
}

void gpu_links_judge(struct gpu_links *links, const struct gpu_look *look)
{
    for (unsigned i = 0; i < links->count; i++) {
        struct gpu_link *link = &links->link[i];
        struct finding finding;

        if (!link->was_up)
            continue;
        links_errors(link, i, look);
        if (link->now.there && !link->now.up) {
            finding = sense_finding(look->now, FINDING_NVLINK, FINDING_CLASS_FABRIC, FINDING_ERROR,
                                    look->device, "NVLink %u of GPU %s is down", i, look->device);
            finding.code = i + 1;
            finding.action = ACTION_RESET_GPU;
            sense_hold(look->report, &finding);
        } else if (link->now.speed_mbps > 0 && link->now.speed_mbps < link->best_mbps) {
            finding = sense_finding(
                look->now, FINDING_NVLINK, FINDING_CLASS_FABRIC, FINDING_WARN, look->device,
                "NVLink %u of GPU %s runs at %lld MB/s, before it was %lld", i, look->device,
                (long long)link->now.speed_mbps, (long long)link->best_mbps);
            finding.code = i + 1;
            finding.action = ACTION_INSPECT;
            sense_hold(look->report, &finding);
        }
    }
}

#define FABRIC_CODE 1000 /* behind the numbers of links */

void gpu_fabric_judge(const struct gpu_look *look)
{
    static const struct {
        int64_t bit;
        uint8_t severity;
        const char *what;
    } parts[] = {
        { NVML_FABRIC_ACCESS_TIMEOUT, FINDING_ERROR,
          "accesses through the NVLink switches time out" },
        { NVML_FABRIC_ROUTE_UNHEALTHY, FINDING_ERROR,
          "its route through the NVLink switches is unhealthy" },
        { NVML_FABRIC_DEGRADED_BANDWIDTH, FINDING_WARN,
          "its bandwidth to the NVLink switches is degraded" },
    };
    int64_t error = gpu_look_value(look, NVML_FABRIC_ERROR);
    int64_t health = gpu_look_value(look, NVML_FABRIC_HEALTH);
    struct finding finding;

    if (error > 0) {
        finding = sense_finding(look->now, FINDING_NVLINK, FINDING_CLASS_FABRIC, FINDING_ERROR,
                                look->device, "GPU %s did not join the NVLink switches (NVML %lld)",
                                look->device, (long long)error);
        finding.code = FABRIC_CODE;
        finding.action = ACTION_RESET_GPU;
        sense_hold(look->report, &finding);
    }
    for (size_t i = 0; health > 0 && i < COUNT(parts); i++) {
        if (!(health & parts[i].bit))
            continue;
        finding = sense_finding(look->now, FINDING_NVLINK, FINDING_CLASS_FABRIC, parts[i].severity,
                                look->device, "GPU %s: %s", look->device, parts[i].what);
        finding.code = FABRIC_CODE + (uint32_t)parts[i].bit;
        finding.action = ACTION_INSPECT;
        sense_hold(look->report, &finding);
    }
}
