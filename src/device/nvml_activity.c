/* nvml_activity.c - what the parts of a GPU did: SMs, tensor cores, memory, PCIe, NVLink.
 *
 * From NVML's performance counters (GPM), which a GPU counts whether they are read or not: a mean is the difference between
 * two samples.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stddef.h>

#include "core/clean.h"
#include "device/nvml_private.h"

#define MOST_MIBPS 1e9 /* more is no rate */

static const struct {
    unsigned id;
    enum nvml_value value;
    bool percent;
} activity_metrics[] = {
    { 2, NVML_SM_ACTIVE_PERCENT, true },     { 3, NVML_SM_OCCUPANCY_PERCENT, true },
    { 5, NVML_TENSOR_ACTIVE_PERCENT, true }, { 10, NVML_MEMORY_BANDWIDTH_PERCENT, true },
    { 20, NVML_PCIE_SENT_MIBPS, false },     { 21, NVML_PCIE_RECEIVED_MIBPS, false },
    { 61, NVML_NVLINK_SENT_MIBPS, false },   { 60, NVML_NVLINK_RECEIVED_MIBPS, false },
};

static void activity_begin(struct nvml *nvml, void *handle, struct nvml_gpm *gpm)
{
    struct nvml_gpm_support support = { .version = GPM_VERSION };

    gpm->asked = true;
    gpm->supported = nvml->gpm_support && nvml->gpm_alloc && nvml->gpm_free && nvml->gpm_sample &&
                     nvml->gpm_metrics && nvml->gpm_support(handle, &support) == RESULT_SUCCESS &&
                     support.supported && nvml->gpm_alloc(&gpm->sample[0]) == RESULT_SUCCESS &&
                     nvml->gpm_alloc(&gpm->sample[1]) == RESULT_SUCCESS;
}

static void activity_take(struct nvml *nvml, const struct nvml_gpm *gpm, struct nvml_sample *sample)
{
    struct nvml_gpm_request *request = &nvml->gpm_request;

    *request = (struct nvml_gpm_request){ .version = GPM_VERSION,
                                          .count = COUNT(activity_metrics),
                                          .before = gpm->sample[0],
                                          .after = gpm->sample[1] };
    for (size_t i = 0; i < COUNT(activity_metrics); i++)
        request->metric[i].id = activity_metrics[i].id;
    if (nvml->gpm_metrics(request) != RESULT_SUCCESS)
        return;
    for (size_t i = 0; i < COUNT(activity_metrics); i++) {
        double value = request->metric[i].value;

        if (request->metric[i].result != RESULT_SUCCESS ||
            !(value >= 0 && value <= (activity_metrics[i].percent ? 100 : MOST_MIBPS)))
            continue;
        sample->known |= UINT64_C(1) << activity_metrics[i].value;
        sample->value[activity_metrics[i].value] = llround(value);
    }
}

void nvml_activity_read(struct nvml *nvml, unsigned gpu, struct nvml_sample *sample)
{
    struct nvml_gpm *gpm = gpu < GPM_GPUS ? &nvml->gpm[gpu] : NULL;
    void *handle = NULL, *newest;

    if (!gpm || nvml->gpu(gpu, &handle) != RESULT_SUCCESS)
        return;
    if (!gpm->asked)
        activity_begin(nvml, handle, gpm);
    if (!gpm->supported || nvml->gpm_sample(handle, gpm->sample[1]) != RESULT_SUCCESS)
        return;
    if (gpm->has_before)
        activity_take(nvml, gpm, sample);
    newest = gpm->sample[1];
    gpm->sample[1] = gpm->sample[0];
    gpm->sample[0] = newest;
    gpm->has_before = true;
}

void nvml_activity_close(struct nvml *nvml)
{
    for (size_t i = 0; i < GPM_GPUS; i++) {
        for (size_t j = 0; j < COUNT(nvml->gpm[i].sample); j++) {
            if (nvml->gpm[i].sample[j])
                nvml->gpm_free(nvml->gpm[i].sample[j]);
        }
    }
}
